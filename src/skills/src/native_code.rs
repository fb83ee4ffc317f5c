//! From the codes of Nav2, MoveIt 2 and the drivers to ours.
//!
//! Numbers: nav2_msgs of ROS 2 Jazzy (each server of Nav2 has a range of its own; the navigator passes
//! on the code of the server that failed), moveit_msgs/MoveItErrorCodes, control_msgs.

use eh_contract::error_code::ErrorCode;

use crate::sub_goal::GripperReport;

/// What a failure means for the candidates that are still left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextMove {
    /// This place or pose is no good; another one may be.
    TryAnother,
    /// Another one would fail as well.
    GiveUp,
}

/// Nav2's `error_code` of NavigateToPose.
pub const fn navigation(code: i32) -> (ErrorCode, NextMove) {
    match code {
        // FollowPath: no progress for too long; patience exceeded; no valid control.
        105 => (ErrorCode::NoProgress, NextMove::TryAnother),
        103 | 104 | 106 => (ErrorCode::NavigationFailed, NextMove::TryAnother),
        // FollowPath 102 and planners 202, 302: the transform failed.
        102 | 202 | 302 => (ErrorCode::TransformUnavailable, NextMove::GiveUp),
        // Planner: start outside the map or occupied. Where the robot stands is the same for any goal.
        203 | 205 => (ErrorCode::NavigationFailed, NextMove::GiveUp),
        // Planner: goal outside the map, goal occupied.
        204 | 206 => (ErrorCode::GoalOccupied, NextMove::TryAnother),
        // Planner: timeout, no valid path.
        207 | 208 => (ErrorCode::NoValidPath, NextMove::TryAnother),
        // Navigator: transform.
        9002 => (ErrorCode::TransformUnavailable, NextMove::GiveUp),
        _ => (ErrorCode::NavigationFailed, NextMove::GiveUp),
    }
}

/// `MoveItErrorCodes.val`.
pub const fn arm(code: i32) -> (ErrorCode, NextMove) {
    match code {
        // NO_IK_SOLUTION.
        -31 => (ErrorCode::OutOfReach, NextMove::TryAnother),
        // GOAL_IN_COLLISION, and constraints that can't be met there.
        -14..=-12 => (ErrorCode::InCollision, NextMove::TryAnother),
        // START_STATE_IN_COLLISION, _VIOLATES_PATH_CONSTRAINTS, _INVALID: the same for any goal.
        -10 | -11 => (ErrorCode::InCollision, NextMove::GiveUp),
        -26 => (ErrorCode::ManipulationFailed, NextMove::GiveUp),
        // PLANNING_FAILED, INVALID_MOTION_PLAN, GOAL_STATE_INVALID, TIMED_OUT.
        -1 | -2 | -6 | -27 => (ErrorCode::ArmNoPlan, NextMove::TryAnother),
        // INVALID_GOAL_CONSTRAINTS: this pose can't be expressed for the group.
        -16 => (ErrorCode::OutOfReach, NextMove::TryAnother),
        // FRAME_TRANSFORM_FAILURE.
        -21 => (ErrorCode::TransformUnavailable, NextMove::GiveUp),
        // PREEMPTED.
        -7 => (ErrorCode::Preempted, NextMove::GiveUp),
        _ => (ErrorCode::ManipulationFailed, NextMove::GiveUp),
    }
}

/// `error_code` of FollowJointTrajectory.
pub const fn head(code: i32) -> ErrorCode {
    // Every code of that action says that the head is not where it was sent.
    let _ = code;
    ErrorCode::HeadFailed
}

/// What a gripper's result says about opening to `width` \[m\]. It must be there, or at most 5 mm short.
///
/// # Errors
/// A sentence with value and limit.
pub fn gripper_opened(report: &GripperReport, width: f64) -> Result<(), String> {
    const SHORT: f64 = 0.005;
    if !report.position.is_finite() {
        return Err("the gripper reports no finite position; check its driver".into());
    }
    if report.reached_goal || report.position >= width - SHORT {
        return Ok(());
    }
    Err(format!(
        "the gripper stopped at {:.3} m on its way to {width:.3} m{}; check what is in its way",
        report.position,
        if report.stalled { ", stalled" } else { "" }
    ))
}

/// What a gripper's result says about closing. Both fingers meeting and a stall on something are fine:
/// whether something is held is judged by the evaluator. Neither is a failure of the gripper.
///
/// # Errors
/// A sentence with the values.
pub fn gripper_closed(report: &GripperReport) -> Result<(), String> {
    if !report.position.is_finite() {
        return Err("the gripper reports no finite position; check its driver".into());
    }
    if report.reached_goal || report.stalled {
        return Ok(());
    }
    Err(format!(
        "the gripper ended at {:.3} m and says neither that it is closed nor that it stalled; check its driver",
        report.position
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nav2_codes_of_jazzy() {
        use NextMove::{GiveUp, TryAnother};
        for (code, ours, next) in [
            (105, ErrorCode::NoProgress, TryAnother),
            (205, ErrorCode::NavigationFailed, GiveUp),
            (206, ErrorCode::GoalOccupied, TryAnother),
            (208, ErrorCode::NoValidPath, TryAnother),
            (9000, ErrorCode::NavigationFailed, GiveUp),
            (9002, ErrorCode::TransformUnavailable, GiveUp),
            (0, ErrorCode::NavigationFailed, GiveUp),
            (i32::MIN, ErrorCode::NavigationFailed, GiveUp),
        ] {
            assert_eq!(navigation(code), (ours, next), "{code}");
        }
    }

    #[test]
    fn moveit_codes() {
        use NextMove::{GiveUp, TryAnother};
        for (code, ours, next) in [
            (-31, ErrorCode::OutOfReach, TryAnother),
            (-12, ErrorCode::InCollision, TryAnother),
            (-10, ErrorCode::InCollision, GiveUp),
            (-1, ErrorCode::ArmNoPlan, TryAnother),
            (-4, ErrorCode::ManipulationFailed, GiveUp),
            (-7, ErrorCode::Preempted, GiveUp),
            (99999, ErrorCode::ManipulationFailed, GiveUp),
        ] {
            assert_eq!(arm(code), (ours, next), "{code}");
        }
    }

    #[test]
    fn a_gripper_that_neither_closes_nor_stalls_has_failed() {
        let report = |position, stalled, reached_goal| GripperReport {
            position,
            effort: 0.0,
            stalled,
            reached_goal,
        };
        assert!(gripper_closed(&report(0.0, false, true)).is_ok());
        assert!(gripper_closed(&report(0.07, true, false)).is_ok());
        assert!(gripper_closed(&report(0.07, false, false)).is_err());
        assert!(gripper_closed(&report(f64::NAN, true, true)).is_err());
        assert!(gripper_opened(&report(0.098, false, true), 0.1).is_ok());
        assert!(gripper_opened(&report(0.03, true, false), 0.1).is_err());
    }
}

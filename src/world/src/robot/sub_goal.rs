//! Sub-goals as the simulated robot takes them, and how they end: what lies between a program and the sim,
//! without the messages of the foreign actions in between.

use std::time::Duration;

use eh_contract::geometry::Pose;
use eh_executor::{NativeEnd, Server};
use eh_ledger::executor::goal_status::{ABORTED, CANCELED, SUCCEEDED};
use eh_sim::nalgebra::Isometry3;
use eh_sim::{
    ArmErrorCode, ArmGoal, ArmGoalTarget, ArmStatus, GoalId, GripperState, GripperStatus,
    HeadPoint, HeadStatus, NavErrorCode, NavStatus, Pose2, Robot, SimError,
};
use eh_skills::sub_goal::{ArmTarget, GripperReport};
use eh_skills::{Embodiment, Goal};

/// An orientation tolerance from here on leaves the orientation free, radians; as in `sim_robot_node`.
const FREE: f64 = std::f64::consts::PI;

/// control_msgs/FollowJointTrajectory INVALID_GOAL.
const INVALID_TRAJECTORY: i32 = -1;

/// What the robot makes of a goal.
#[derive(Debug)]
pub enum Begin {
    /// It runs.
    Running(GoalId),
    /// It ended at once.
    Ended(NativeEnd),
    /// It is not accepted.
    Refused(String),
}

fn aborted(server: Server, code: i32, message: String) -> NativeEnd {
    match server {
        Server::Arm => NativeEnd::arm(ABORTED, code, message),
        Server::Navigation | Server::Gripper | Server::Head => {
            NativeEnd::plain(ABORTED, code, message)
        }
    }
}

fn isometry(pose: &Pose) -> Isometry3<f64> {
    pose.isometry()
}

/// Gives a goal to the robot.
pub fn begin(robot: &mut Robot, body: &Embodiment, goal: &Goal) -> Begin {
    match goal {
        Goal::Navigate { frame_id, pose } => {
            let at = Pose2::new(pose.position.x, pose.position.y, pose.yaw());
            match robot.navigate(frame_id, at) {
                Ok(id) => Begin::Running(id),
                Err(error @ SimError::UnknownFrame { .. }) => Begin::Ended(aborted(
                    Server::Navigation,
                    i32::from(NavErrorCode::TfError.code()),
                    error.to_string(),
                )),
                Err(error) => Begin::Refused(error.to_string()),
            }
        }
        Goal::MoveArm {
            target,
            straight,
            speed,
            allowed_contact: _,
        } => {
            let target = match target {
                ArmTarget::Named(name) => match body.configurations.get(name) {
                    Some(joints) => ArmGoalTarget::Joints(joints.clone()),
                    None => return Begin::Refused(format!("there is no configuration {name}")),
                },
                ArmTarget::Tool {
                    frame_id,
                    pose,
                    orientation_tolerance,
                    ..
                } => ArmGoalTarget::Pose {
                    frame: frame_id.clone(),
                    pose: isometry(pose),
                    orientation_tolerance: orientation_tolerance
                        .iter()
                        .any(|t| *t < FREE)
                        .then_some(*orientation_tolerance),
                },
            };
            let mut asked = ArmGoal::new(target);
            asked.velocity_scale = speed.min(1.0);
            if *straight {
                asked = asked.on_a_line();
            }
            match robot.move_arm(asked) {
                Ok(id) => Begin::Running(id),
                Err(error) => Begin::Ended(aborted(
                    Server::Arm,
                    ArmErrorCode::InvalidGoalConstraints.code(),
                    error.to_string(),
                )),
            }
        }
        Goal::Gripper { width, max_effort } => match robot.move_gripper(*width, *max_effort) {
            Ok(id) => Begin::Running(id),
            Err(error) => Begin::Refused(error.to_string()),
        },
        Goal::Head {
            pan,
            tilt,
            duration,
        } => {
            let point = HeadPoint {
                pan: *pan,
                tilt: *tilt,
                at: (*duration).max(Duration::from_millis(50)),
            };
            match robot.move_head(vec![point]) {
                Ok(id) => Begin::Running(id),
                Err(error) => {
                    Begin::Ended(aborted(Server::Head, INVALID_TRAJECTORY, error.to_string()))
                }
            }
        }
        Goal::Scene(_) | Goal::Wait(_) | Goal::Observe { .. } => {
            Begin::Refused("no server takes it".into())
        }
    }
}

/// How a goal ended; `None`: it runs.
pub fn end(robot: &Robot, server: Server, id: GoalId, allow_stalling: bool) -> Option<NativeEnd> {
    let forgotten = || aborted(server, 0, "the goal was forgotten".into());
    let newer = |code| aborted(server, code, "a newer goal took its place".into());
    match server {
        Server::Navigation => match robot.nav_status(id) {
            Some(NavStatus::Active(_)) => None,
            Some(NavStatus::Succeeded) => Some(NativeEnd::plain(SUCCEEDED, 0, String::new())),
            Some(NavStatus::Aborted { code, message }) => {
                Some(aborted(server, i32::from(code), message))
            }
            Some(NavStatus::Canceled) => Some(NativeEnd::plain(CANCELED, 0, String::new())),
            Some(NavStatus::Preempted) => Some(newer(0)),
            None => Some(forgotten()),
        },
        Server::Arm => match robot.arm_status(id) {
            Some(ArmStatus::Active { .. }) => None,
            Some(ArmStatus::Succeeded) => Some(NativeEnd::arm(
                SUCCEEDED,
                ArmErrorCode::Success.code(),
                String::new(),
            )),
            Some(ArmStatus::Aborted { code, message }) => Some(aborted(server, code, message)),
            Some(ArmStatus::Canceled) => Some(NativeEnd::arm(
                CANCELED,
                ArmErrorCode::Preempted.code(),
                "canceled; the arm stands still".into(),
            )),
            Some(ArmStatus::Preempted) => Some(newer(ArmErrorCode::Preempted.code())),
            None => Some(forgotten()),
        },
        Server::Gripper => match robot.gripper_status(id) {
            Some(GripperStatus::Active(_)) => None,
            Some(GripperStatus::Ended(state)) => {
                let reached = state.reached_goal || (state.stalled && allow_stalling);
                let status = if reached { SUCCEEDED } else { ABORTED };
                Some(NativeEnd::gripper(status, report(state)))
            }
            Some(GripperStatus::Canceled(state)) => {
                Some(NativeEnd::gripper(CANCELED, report(state)))
            }
            Some(GripperStatus::Preempted(state)) => {
                Some(NativeEnd::gripper(ABORTED, report(state)))
            }
            None => Some(NativeEnd::gripper(ABORTED, report(robot.gripper_state()))),
        },
        Server::Head => match robot.head_status(id) {
            Some(HeadStatus::Active) => None,
            Some(HeadStatus::Succeeded) => Some(NativeEnd::plain(SUCCEEDED, 0, String::new())),
            Some(HeadStatus::Canceled) => Some(NativeEnd::plain(CANCELED, 0, String::new())),
            Some(HeadStatus::Preempted) => Some(newer(INVALID_TRAJECTORY)),
            None => Some(forgotten()),
        },
    }
}

fn report(state: GripperState) -> GripperReport {
    GripperReport {
        position: state.position,
        effort: state.effort,
        stalled: state.stalled,
        reached_goal: state.reached_goal,
    }
}

/// Calls a goal off.
pub fn cancel(robot: &mut Robot, server: Server, id: GoalId) {
    match server {
        Server::Navigation => robot.cancel_navigation(id),
        Server::Arm => robot.cancel_arm(id),
        Server::Gripper => robot.cancel_gripper(id),
        Server::Head => robot.cancel_head(id),
    };
}

//! MoveIt's `move_action` (moveit_msgs/MoveGroup) for the group `arm`.

use std::time::Duration;

use eh_ros_edge::convert::{duration_msg_from_s, time_msg};
use eh_sim::arm_kinematics::{JOINT_NAMES, SPEEDS};
use eh_sim::arm_planner::ArmPlan;
use eh_sim::{ArmGoal, ArmStatus, GoalId, Robot};
use ros_env::moveit_msgs::action::{
    MoveGroup, MoveGroup_Feedback, MoveGroup_Goal, MoveGroup_Result,
};
use ros_env::moveit_msgs::msg::{MoveItErrorCodes, PlanningScene, RobotState, RobotTrajectory};
use ros_env::trajectory_msgs::msg::JointTrajectoryPoint;

use crate::action_server::{Begin, Progress, Served};
use crate::arm_request::{read, Trouble};
use crate::frame_names::FrameNames;
use crate::goal_book::End;
use crate::simulation::Moment;

/// Moves the arm.
pub(crate) struct MoveGroupServer {
    pub(crate) frames: FrameNames,
    /// How long the last step of the simulation took, in which a motion may have been planned.
    pub(crate) last_step: Duration,
}

/// A goal that runs.
pub(crate) struct MoveGroupJob {
    id: GoalId,
    stage: Stage,
    planning_time: f64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing was told yet.
    Accepted,
    Planning,
    Moving,
}

fn result(val: i32, message: impl Into<String>, planning_time: f64) -> MoveGroup_Result {
    MoveGroup_Result {
        error_code: MoveItErrorCodes {
            val,
            message: message.into(),
            source: "sim_robot_node".into(),
        },
        planning_time,
        ..Default::default()
    }
}

impl Served for MoveGroupServer {
    type Action = MoveGroup;
    type Job = MoveGroupJob;
    const NAME: &'static str = "move_action";

    fn begin(
        &mut self,
        robot: &mut Robot,
        moment: Moment,
        goal: &MoveGroup_Goal,
    ) -> Begin<MoveGroupJob, MoveGroup_Result> {
        let asked = match read(&goal.request, &self.frames, robot) {
            Ok(asked) => asked,
            Err(Trouble::Malformed(reason)) => return Begin::Refused(reason),
            Err(Trouble::Code(code, text)) => {
                return Begin::Ended(End::Aborted(result(code, text, 0.0)))
            }
        };
        if says_something(&goal.planning_options.planning_scene_diff) {
            return Begin::Ended(End::Aborted(result(
                MoveItErrorCodes::FAILURE,
                "a goal's own planning_scene_diff is not taken here; use apply_planning_scene first",
                0.0,
            )));
        }
        if goal.planning_options.plan_only {
            return Begin::Ended(plan_only(robot, moment, &asked));
        }
        match robot.move_arm(asked) {
            Ok(id) => Begin::Running(MoveGroupJob {
                id,
                stage: Stage::Accepted,
                planning_time: 0.0,
            }),
            Err(error) => Begin::Ended(End::Aborted(result(
                MoveItErrorCodes::INVALID_GOAL_CONSTRAINTS,
                error.to_string(),
                0.0,
            ))),
        }
    }

    fn poll(
        &mut self,
        robot: &Robot,
        _: Moment,
        job: &mut MoveGroupJob,
    ) -> Progress<MoveGroup_Feedback, MoveGroup_Result> {
        if job.planning_time == 0.0 {
            job.planning_time = self.last_step.as_secs_f64();
        }
        let end = |val, message: String| result(val, message, job.planning_time);
        match robot.arm_status(job.id) {
            Some(ArmStatus::Active { progress }) => {
                let stage = if progress > 0.0 {
                    Stage::Moving
                } else {
                    Stage::Planning
                };
                let told = std::mem::replace(&mut job.stage, stage);
                Progress::Running((told != stage).then(|| {
                    MoveGroup_Feedback {
                        state: match stage {
                            Stage::Moving => "MONITOR",
                            Stage::Accepted | Stage::Planning => "PLANNING",
                        }
                        .into(),
                    }
                }))
            }
            Some(ArmStatus::Succeeded) => Progress::Ended(End::Succeeded(end(
                MoveItErrorCodes::SUCCESS,
                String::new(),
            ))),
            Some(ArmStatus::Aborted { code, message }) => {
                Progress::Ended(End::Aborted(end(code, message)))
            }
            Some(ArmStatus::Canceled) => Progress::Ended(End::Canceled(end(
                MoveItErrorCodes::PREEMPTED,
                "canceled; the arm stands still".into(),
            ))),
            Some(ArmStatus::Preempted) => Progress::Ended(End::Aborted(end(
                MoveItErrorCodes::PREEMPTED,
                "a newer goal took its place".into(),
            ))),
            None => Progress::Ended(End::Aborted(end(
                MoveItErrorCodes::FAILURE,
                "the goal was forgotten".into(),
            ))),
        }
    }

    fn last_feedback(&self) -> Option<MoveGroup_Feedback> {
        Some(MoveGroup_Feedback {
            state: "IDLE".into(),
        })
    }

    fn cancel(&mut self, robot: &mut Robot, job: &MoveGroupJob) {
        robot.cancel_arm(job.id);
    }
}

/// Whether a scene that comes with a goal changes anything of the planning scene.
fn says_something(scene: &PlanningScene) -> bool {
    !scene.world.collision_objects.is_empty()
        || !scene.robot_state.attached_collision_objects.is_empty()
        || !scene.allowed_collision_matrix.entry_names.is_empty()
        || !scene
            .allowed_collision_matrix
            .default_entry_names
            .is_empty()
}

/// Plans without moving; the motion is in the result.
fn plan_only(robot: &Robot, moment: Moment, asked: &ArmGoal) -> End<MoveGroup_Result> {
    let began = std::time::Instant::now();
    let planned = robot.plan_arm(asked);
    let planning_time = began.elapsed().as_secs_f64();
    match planned {
        Ok(plan) => {
            let mut success = result(MoveItErrorCodes::SUCCESS, "", planning_time);
            success.trajectory_start = current_state(robot, moment);
            success.planned_trajectory = trajectory(&plan, asked.velocity_scale);
            End::Succeeded(success)
        }
        Err((code, message)) => End::Aborted(result(code.code(), message, planning_time)),
    }
}

pub(crate) fn current_state(robot: &Robot, moment: Moment) -> RobotState {
    let mut state = RobotState::default();
    state.joint_state.header.stamp = time_msg(moment.stamp_ns).unwrap_or_default();
    for joint in robot.joint_states() {
        state.joint_state.name.push(joint.name.into());
        state.joint_state.position.push(joint.position);
    }
    state
}

/// The plan as a trajectory; each part takes the time that its slowest joint needs.
fn trajectory(plan: &ArmPlan, velocity_scale: f64) -> RobotTrajectory {
    let scale = if velocity_scale > 0.0 {
        velocity_scale
    } else {
        1.0
    };
    let mut message = RobotTrajectory::default();
    message.joint_trajectory.joint_names = JOINT_NAMES.map(String::from).into();
    let mut at = 0.0;
    let mut last: Option<[f64; 5]> = None;
    for joints in plan.legs.iter().flatten() {
        if last == Some(*joints) {
            continue;
        }
        if let Some(last) = last {
            at += joints
                .iter()
                .zip(last)
                .zip(SPEEDS)
                .map(|((to, from), speed)| (to - from).abs() / (speed * scale))
                .fold(0.0, f64::max);
        }
        last = Some(*joints);
        message.joint_trajectory.points.push(JointTrajectoryPoint {
            positions: joints.to_vec(),
            time_from_start: duration_msg_from_s(at).unwrap_or_default(),
            ..Default::default()
        });
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::empty_hall::robot;
    use eh_sim::ArmGoalTarget;

    #[test]
    fn a_plan_becomes_a_trajectory_whose_times_grow() {
        let plan = robot()
            .plan_arm(&ArmGoal::new(ArmGoalTarget::Named("ready".into())))
            .unwrap();
        let points = trajectory(&plan, 0.5).joint_trajectory.points;
        assert!(points.len() >= 2);
        let times: Vec<f64> = points
            .iter()
            .map(|p| eh_ros_edge::convert::duration_s(&p.time_from_start))
            .collect();
        assert!(times.windows(2).all(|w| w[0] < w[1]), "{times:?}");
    }
}

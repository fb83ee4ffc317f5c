//! The head's `follow_joint_trajectory` (control_msgs/FollowJointTrajectory).

use eh_ros_edge::convert::{duration_msg, std_duration, time_msg};
use eh_sim::head::JOINT_NAMES;
use eh_sim::{GoalId, HeadPoint, HeadStatus, Robot};
use ros_env::control_msgs::action::{
    FollowJointTrajectory, FollowJointTrajectory_Feedback, FollowJointTrajectory_Goal,
    FollowJointTrajectory_Result,
};

use crate::action_server::{Begin, Progress, Served};
use crate::goal_book::End;
use crate::pacer::Every;
use crate::simulation::Moment;

/// Feedback per second, as ros2_controllers' trajectory controller gives it.
const FEEDBACK_RATE: f64 = 20.0;

/// Turns the head.
pub(crate) struct HeadServer;

/// A goal that runs.
pub(crate) struct HeadJob {
    id: GoalId,
    began: std::time::Duration,
    feedback: Every,
}

fn result(error_code: i32, error_string: impl Into<String>) -> FollowJointTrajectory_Result {
    FollowJointTrajectory_Result {
        error_code,
        error_string: error_string.into(),
    }
}

/// The goal as the robot takes it.
fn points(goal: &FollowJointTrajectory_Goal) -> Result<Vec<HeadPoint>, (i32, String)> {
    let trajectory = &goal.trajectory;
    let slot = |joint: &str| trajectory.joint_names.iter().position(|name| name == joint);
    let [pan, tilt] = JOINT_NAMES;
    let (Some(pan), Some(tilt), 2) = (slot(pan), slot(tilt), trajectory.joint_names.len()) else {
        let names: Vec<&str> = trajectory
            .joint_names
            .iter()
            .take(8)
            .map(String::as_str)
            .collect();
        return Err((
            FollowJointTrajectory_Result::INVALID_JOINTS,
            format!(
                "the joints are [{}]; name exactly {}",
                names.join(", "),
                JOINT_NAMES.join(", ")
            ),
        ));
    };
    let invalid = |text: String| (FollowJointTrajectory_Result::INVALID_GOAL, text);
    if !goal.multi_dof_trajectory.points.is_empty() {
        return Err(invalid("the head has no multi-DOF joints".into()));
    }
    let mut points = Vec::with_capacity(trajectory.points.len());
    for (number, point) in trajectory.points.iter().enumerate() {
        let (Some(pan), Some(tilt), 2) = (
            point.positions.get(pan).copied(),
            point.positions.get(tilt).copied(),
            point.positions.len(),
        ) else {
            return Err(invalid(format!(
                "point {number} has {} positions; give one for each joint",
                point.positions.len()
            )));
        };
        let at = std_duration(&point.time_from_start)
            .map_err(|error| invalid(format!("time_from_start of point {number}: {error}")))?;
        points.push(HeadPoint { pan, tilt, at });
    }
    Ok(points)
}

impl Served for HeadServer {
    type Action = FollowJointTrajectory;
    type Job = HeadJob;
    const NAME: &'static str = "head_controller/follow_joint_trajectory";

    fn begin(
        &mut self,
        robot: &mut Robot,
        moment: Moment,
        goal: &FollowJointTrajectory_Goal,
    ) -> Begin<HeadJob, FollowJointTrajectory_Result> {
        let points = match points(goal) {
            Ok(points) => points,
            Err((code, text)) => return Begin::Ended(End::Aborted(result(code, text))),
        };
        if let Some(number) = points
            .iter()
            .position(|p| !(p.pan.is_finite() && p.tilt.is_finite()))
        {
            return Begin::Refused(format!(
                "a position of point {number} is not finite; send finite numbers"
            ));
        }
        match robot.move_head(points) {
            Ok(id) => Begin::Running(HeadJob {
                id,
                began: moment.now,
                feedback: Every::rate(FEEDBACK_RATE),
            }),
            Err(error) => Begin::Ended(End::Aborted(result(
                FollowJointTrajectory_Result::INVALID_GOAL,
                error.to_string(),
            ))),
        }
    }

    fn poll(
        &mut self,
        robot: &Robot,
        moment: Moment,
        job: &mut HeadJob,
    ) -> Progress<FollowJointTrajectory_Feedback, FollowJointTrajectory_Result> {
        match robot.head_status(job.id) {
            Some(HeadStatus::Active) => Progress::Running(
                job.feedback
                    .is_due(moment.now)
                    .then(|| feedback(robot, moment, job)),
            ),
            Some(HeadStatus::Succeeded) => {
                Progress::Ended(End::Succeeded(FollowJointTrajectory_Result::default()))
            }
            Some(HeadStatus::Canceled) => {
                Progress::Ended(End::Canceled(FollowJointTrajectory_Result::default()))
            }
            Some(HeadStatus::Preempted) => Progress::Ended(End::Aborted(result(
                FollowJointTrajectory_Result::INVALID_GOAL,
                "a newer goal took its place",
            ))),
            None => Progress::Ended(End::Aborted(result(
                FollowJointTrajectory_Result::INVALID_GOAL,
                "the goal was forgotten",
            ))),
        }
    }

    fn cancel(&mut self, robot: &mut Robot, job: &HeadJob) {
        robot.cancel_head(job.id);
    }
}

/// Where the head is. What is desired, and the error, are left empty.
fn feedback(robot: &Robot, moment: Moment, job: &HeadJob) -> FollowJointTrajectory_Feedback {
    let mut message = FollowJointTrajectory_Feedback::default();
    message.header.stamp = time_msg(moment.stamp_ns).unwrap_or_default();
    let elapsed = moment.now.saturating_sub(job.began).as_nanos();
    message.actual.time_from_start = i64::try_from(elapsed)
        .ok()
        .and_then(|ns| duration_msg(ns).ok())
        .unwrap_or_default();
    for joint in robot.joint_states() {
        if JOINT_NAMES.contains(&joint.name) {
            message.joint_names.push(joint.name.into());
            message.actual.positions.push(joint.position);
            message.actual.velocities.push(joint.velocity);
        }
    }
    message
}

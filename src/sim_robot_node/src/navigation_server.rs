//! Nav2's `navigate_to_pose`.

use eh_ros_edge::convert::{duration_msg_from_s, pose, pose_msg, time_msg};
use eh_sim::geometry::yaw_of;
use eh_sim::{GoalId, NavErrorCode, NavFeedback, NavStatus, Pose2, Robot, SimError};
use ros_env::nav2_msgs::action::{
    NavigateToPose, NavigateToPose_Feedback, NavigateToPose_Goal, NavigateToPose_Result,
};

use crate::action_server::{Begin, Progress, Served};
use crate::frame_names::FrameNames;
use crate::goal_book::End;
use crate::pacer::Every;
use crate::simulation::Moment;

/// Drives to poses.
pub(crate) struct NavigationServer {
    pub(crate) frames: FrameNames,
    /// Feedback per second.
    pub(crate) feedback_rate: f64,
}

/// A goal that runs.
pub(crate) struct NavigationJob {
    id: GoalId,
    feedback: Every,
}

fn result(error_code: u16, error_msg: impl Into<String>) -> NavigateToPose_Result {
    NavigateToPose_Result {
        error_code,
        error_msg: error_msg.into(),
    }
}

impl Served for NavigationServer {
    type Action = NavigateToPose;
    type Job = NavigationJob;
    const NAME: &'static str = "navigate_to_pose";

    fn begin(
        &mut self,
        robot: &mut Robot,
        _: Moment,
        goal: &NavigateToPose_Goal,
    ) -> Begin<NavigationJob, NavigateToPose_Result> {
        let at = match pose(&goal.pose.pose) {
            Ok(at) => at,
            Err(error) => return Begin::Refused(error.to_string()),
        };
        let position = at.translation.vector;
        let at = Pose2::new(position.x, position.y, yaw_of(&at.rotation));
        let asked = self
            .frames
            .to_sim(&goal.pose.header.frame_id)
            .and_then(|frame| robot.navigate(frame, at));
        match asked {
            Ok(id) => Begin::Running(NavigationJob {
                id,
                feedback: Every::rate(self.feedback_rate),
            }),
            Err(error @ SimError::UnknownFrame { .. }) => Begin::Ended(End::Aborted(result(
                NavErrorCode::TfError.code(),
                error.to_string(),
            ))),
            Err(error) => Begin::Refused(error.to_string()),
        }
    }

    fn poll(
        &mut self,
        robot: &Robot,
        moment: Moment,
        job: &mut NavigationJob,
    ) -> Progress<NavigateToPose_Feedback, NavigateToPose_Result> {
        match robot.nav_status(job.id) {
            Some(NavStatus::Active(now)) => Progress::Running(
                job.feedback
                    .is_due(moment.now)
                    .then(|| self.feedback(&now, moment)),
            ),
            Some(NavStatus::Succeeded) => {
                Progress::Ended(End::Succeeded(NavigateToPose_Result::default()))
            }
            Some(NavStatus::Aborted { code, message }) => {
                Progress::Ended(End::Aborted(result(code, message)))
            }
            Some(NavStatus::Canceled) => {
                Progress::Ended(End::Canceled(NavigateToPose_Result::default()))
            }
            Some(NavStatus::Preempted) => {
                // Nav2 gives no code either.
                Progress::Ended(End::Aborted(result(0, "a newer goal took its place")))
            }
            None => Progress::Ended(End::Aborted(result(
                NavErrorCode::Unknown.code(),
                "the goal was forgotten",
            ))),
        }
    }

    fn cancel(&mut self, robot: &mut Robot, job: &NavigationJob) {
        robot.cancel_navigation(job.id);
    }
}

impl NavigationServer {
    fn feedback(&self, now: &NavFeedback, moment: Moment) -> NavigateToPose_Feedback {
        let mut message = NavigateToPose_Feedback::default();
        message.current_pose.header.stamp = time_msg(moment.stamp_ns).unwrap_or_default();
        message
            .current_pose
            .header
            .frame_id
            .clone_from(&self.frames.map);
        message.current_pose.pose = pose_msg(&now.current_pose.to_isometry());
        // Years of driving are out of a message's range.
        let duration = |d: std::time::Duration| duration_msg_from_s(d.as_secs_f64());
        message.navigation_time = duration(now.navigation_time).unwrap_or_default();
        message.estimated_time_remaining =
            duration(now.estimated_time_remaining).unwrap_or_default();
        message.number_of_recoveries = i16::try_from(now.recoveries).unwrap_or(i16::MAX);
        message.distance_remaining = now.distance_remaining as f32;
        message
    }
}

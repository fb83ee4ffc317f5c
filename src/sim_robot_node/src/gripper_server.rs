//! The gripper's `gripper_cmd` (control_msgs/GripperCommand). Its position is the distance between the
//! fingers in metres.

use eh_sim::{GoalId, GripperState, GripperStatus, Robot};
use ros_env::control_msgs::action::{
    GripperCommand, GripperCommand_Feedback, GripperCommand_Goal, GripperCommand_Result,
};

use crate::action_server::{Begin, Progress, Served};
use crate::goal_book::End;
use crate::pacer::Every;
use crate::simulation::Moment;

/// Feedback per second, as ros2_controllers' gripper action controller gives it.
const FEEDBACK_RATE: f64 = 20.0;

/// Opens and closes the gripper.
pub(crate) struct GripperServer {
    /// Whether fingers that were stopped by something end the goal as succeeded.
    pub(crate) allow_stalling: bool,
}

/// A goal that runs.
pub(crate) struct GripperJob {
    id: GoalId,
    feedback: Every,
}

fn result(state: GripperState) -> GripperCommand_Result {
    GripperCommand_Result {
        position: state.position,
        effort: state.effort,
        stalled: state.stalled,
        reached_goal: state.reached_goal,
    }
}

impl Served for GripperServer {
    type Action = GripperCommand;
    type Job = GripperJob;
    const NAME: &'static str = "gripper_controller/gripper_cmd";

    fn begin(
        &mut self,
        robot: &mut Robot,
        _: Moment,
        goal: &GripperCommand_Goal,
    ) -> Begin<GripperJob, GripperCommand_Result> {
        match robot.move_gripper(goal.command.position, goal.command.max_effort) {
            Ok(id) => Begin::Running(GripperJob {
                id,
                feedback: Every::rate(FEEDBACK_RATE),
            }),
            Err(error) => Begin::Refused(error.to_string()),
        }
    }

    fn poll(
        &mut self,
        robot: &Robot,
        moment: Moment,
        job: &mut GripperJob,
    ) -> Progress<GripperCommand_Feedback, GripperCommand_Result> {
        match robot.gripper_status(job.id) {
            Some(GripperStatus::Active(now)) => {
                Progress::Running(job.feedback.is_due(moment.now).then_some(
                    GripperCommand_Feedback {
                        position: now.position,
                        effort: now.effort,
                        stalled: now.stalled,
                        reached_goal: now.reached_goal,
                    },
                ))
            }
            Some(GripperStatus::Ended(end)) => {
                let reached = end.reached_goal || (end.stalled && self.allow_stalling);
                Progress::Ended(if reached {
                    End::Succeeded(result(end))
                } else {
                    End::Aborted(result(end))
                })
            }
            Some(GripperStatus::Canceled(end)) => Progress::Ended(End::Canceled(result(end))),
            Some(GripperStatus::Preempted(end)) => Progress::Ended(End::Aborted(result(end))),
            None => Progress::Ended(End::Aborted(result(robot.gripper_state()))),
        }
    }

    fn cancel(&mut self, robot: &mut Robot, job: &GripperJob) {
        robot.cancel_gripper(job.id);
    }
}

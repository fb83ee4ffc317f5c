//! How a goal ended, in the server's terms and in a program's.

use eh_ledger::executor::goal_status;
use eh_skills::sub_goal::GripperReport;
use eh_skills::SubGoalOutcome;

/// `moveit_msgs/MoveItErrorCodes.SUCCESS`.
const MOVEIT_SUCCESS: i32 = 1;

/// How a goal ended.
#[derive(Clone, Debug, PartialEq)]
pub struct NativeEnd {
    /// [`goal_status`], terminal.
    pub status: i8,
    /// The server's own code; 0 where it has none.
    pub code: i32,
    /// Its words.
    pub message: String,
    /// What a program is told.
    pub outcome: SubGoalOutcome,
}

/// The name of a status, for people.
const fn name(status: i8) -> &'static str {
    match status {
        goal_status::ACCEPTED => "Accepted",
        goal_status::EXECUTING => "Executing",
        goal_status::CANCELING => "Canceling",
        goal_status::SUCCEEDED => "Succeeded",
        goal_status::CANCELED => "Canceled",
        goal_status::ABORTED => "Aborted",
        _ => "Unknown",
    }
}

fn words(message: &str, status: i8) -> String {
    if message.is_empty() {
        format!("the server gives no reason, status {}", name(status))
    } else {
        message.into()
    }
}

impl NativeEnd {
    fn told(worked: bool, status: i8, code: i32, message: String) -> Self {
        let outcome = if worked {
            SubGoalOutcome::Succeeded
        } else {
            SubGoalOutcome::Aborted {
                code,
                message: words(&message, status),
            }
        };
        NativeEnd {
            status,
            code,
            message,
            outcome,
        }
    }

    /// The end of an action whose status alone says whether it worked.
    pub fn plain(status: i8, code: i32, message: String) -> Self {
        Self::told(status == goal_status::SUCCEEDED, status, code, message)
    }

    /// The end of a motion of the arm: move_group has reported SUCCEEDED with a failure in its code
    /// before, so both have to agree.
    pub fn arm(status: i8, code: i32, message: String) -> Self {
        let worked = status == goal_status::SUCCEEDED && code == MOVEIT_SUCCESS;
        Self::told(worked, status, code, message)
    }

    /// The end of a gripper goal. A gripper that stalls on an object ends aborted with some controllers,
    /// so the report is what counts.
    pub fn gripper(status: i8, report: GripperReport) -> Self {
        let message = format!(
            "position {:.4} m, effort {:.1} N, stalled {}, reached_goal {}",
            report.position, report.effort, report.stalled, report.reached_goal
        );
        let outcome = match status {
            goal_status::SUCCEEDED | goal_status::ABORTED => SubGoalOutcome::Gripper(report),
            _ => SubGoalOutcome::Aborted {
                code: 0,
                message: format!("status {}, {message}", name(status)),
            },
        };
        NativeEnd {
            status,
            code: 0,
            message,
            outcome,
        }
    }

    /// A status topic's word about a goal whose result can't be had.
    pub fn by_status(status: i8) -> Self {
        NativeEnd {
            status,
            code: 0,
            message: "its result can't be had, the status topic says so".into(),
            outcome: SubGoalOutcome::Aborted {
                code: 0,
                message: "its result can't be had".into(),
            },
        }
    }
}

//! What becomes of an executor's records when its process has been restarted.

use eh_contract::error_code::ErrorCode;
use eh_contract::state::ExecutorState;

use crate::executor::{ExecutorEvent, ExecutorRecord, GoalId, StopCause};

/// What to do with one record that was found in the journal.
#[derive(Clone, Debug, PartialEq)]
pub enum RestartPlan {
    /// Nothing: it waits for its settlement or is over.
    Keep,
    /// Apply this event.
    Apply(ExecutorEvent),
    /// It was running. Apply [`ExecutorEvent::Stop`] with [`StopCause::Restart`] (for one that is being
    /// canceled already it only asks again), ask each goal for status and result by UUID, and measure
    /// standstill. A goal whose server does not know it is lost: that does not prove that nothing ran.
    Recover {
        /// The event to begin with.
        event: ExecutorEvent,
        /// Goals whose end is not known.
        open: Vec<GoalId>,
    },
}

/// Decides about one record. Nothing that had not started is started now: its beacon belonged to the
/// process life that ended.
pub fn after_restart(record: &ExecutorRecord) -> RestartPlan {
    match record.state {
        ExecutorState::Received | ExecutorState::Accepted => {
            RestartPlan::Apply(ExecutorEvent::Reject {
                error_code: ErrorCode::ExpiredCommand.code(),
                error_msg: "the executor was restarted before the command started, nothing was sent; send a new command".into(),
            })
        }
        ExecutorState::Started | ExecutorState::Canceling => RestartPlan::Recover {
            event: ExecutorEvent::Stop(StopCause::Restart),
            open: record.open_goals().map(|g| g.goal_id).collect(),
        },
        ExecutorState::Unspecified
        | ExecutorState::Rejected
        | ExecutorState::Ended
        | ExecutorState::Settled => RestartPlan::Keep,
    }
}

/// The event for a goal that its server does not know after a restart.
pub fn unknown_goal(action_name: &str, goal_id: &GoalId) -> ExecutorEvent {
    ExecutorEvent::Lose {
        error_code: ErrorCode::ResultLost.code(),
        error_msg: format!(
            "the executor was restarted and {action_name} does not tell what became of goal {}; that does not prove that nothing ran: look at the robot, then settle the command",
            crate::executor::format_goal_id(goal_id)
        ),
    }
}

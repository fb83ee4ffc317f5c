//! What happens to a command at its executor, and what follows.

use eh_contract::skill::DisconnectPolicy;
use eh_contract::state::ExecutorState;
use thiserror::Error;

use super::{ExecutorRecord, FinalState, GoalId, StopCause};

/// What happens to a command.
#[derive(Clone, Debug, PartialEq)]
pub enum ExecutorEvent {
    /// The gate let it through; from now on it holds its resources.
    Accept {
        /// Resources claimed.
        resources: Vec<String>,
        /// Policy of its skill.
        disconnect_policy: DisconnectPolicy,
    },
    /// The gate refused it, or it can't start any more.
    Reject {
        /// Code of ExecuteSkill.
        error_code: u16,
        /// Why and what to do.
        error_msg: String,
    },
    /// Execution begins.
    Start {
        /// Name of this physical execution.
        run_id: String,
    },
    /// A goal is about to be sent under this UUID.
    SendGoal {
        /// Never used before.
        goal_id: GoalId,
        /// Resolved name of the action.
        action_name: String,
        /// Name, unique within the segment.
        name: String,
    },
    /// A goal that was announced is known not to run: refused by its server, or not sent at all.
    GoalRefused {
        /// Which.
        goal_id: GoalId,
        /// Why.
        message: String,
    },
    /// A goal has a terminal status.
    GoalEnded {
        /// Which.
        goal_id: GoalId,
        /// [`super::goal_status`], terminal.
        status: i8,
        /// The server's code.
        code: i32,
        /// The server's message.
        message: String,
    },
    /// Something that moves nothing is about to be done, such as a change of the arm's planning scene. It
    /// says what is to be afterwards, so that doing it twice does no harm.
    Step {
        /// Name in the skill's program.
        name: String,
        /// What is to be afterwards, for people.
        what: String,
    },
    /// Every sub-goal of the segment is done.
    Complete,
    /// Bring it to standstill.
    Stop(StopCause),
    /// Every claimed resource was measured to stand still.
    Standstill,
    /// Standstill was not measured within the command's stop_timeout.
    StopTimeout {
        /// What still moves or can't be measured.
        what: String,
    },
    /// It can't be learned how a goal went on.
    Lose {
        /// RESULT_LOST or ACKNOWLEDGEMENT_LOST.
        error_code: u16,
        /// What is not known and what to do.
        error_msg: String,
    },
    /// The issuer or a person says what became of it.
    Settle {
        /// What became of it.
        final_state: FinalState,
        /// Who says so; never empty.
        settled_by: String,
        /// Why.
        reason: String,
    },
}

impl ExecutorEvent {
    /// Name in the journal.
    pub const fn name(&self) -> &'static str {
        match self {
            ExecutorEvent::Accept { .. } => "accepted",
            ExecutorEvent::Reject { .. } => "rejected",
            ExecutorEvent::Start { .. } => "started",
            ExecutorEvent::SendGoal { .. } => "goal_sent",
            ExecutorEvent::GoalRefused { .. } => "goal_refused",
            ExecutorEvent::GoalEnded { .. } => "goal_ended",
            ExecutorEvent::Step { .. } => "step",
            ExecutorEvent::Complete => "completed",
            ExecutorEvent::Stop(_) => "stop_requested",
            ExecutorEvent::Standstill => "standstill",
            ExecutorEvent::StopTimeout { .. } => "stop_unconfirmed",
            ExecutorEvent::Lose { .. } => "lost",
            ExecutorEvent::Settle { .. } => "settled",
        }
    }
}

/// What to do once the new record is durable, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExecutorEffect {
    /// Publish the run event START, so that the evaluator takes its baseline.
    AnnounceStart,
    /// Send the goal that was written down.
    SendGoal {
        /// Its UUID.
        goal_id: GoalId,
    },
    /// Ask each of these goals, and no other, to cancel.
    CancelGoals(Vec<GoalId>),
    /// Measure standstill of the claimed resources within the command's stop_timeout.
    MeasureStandstill,
    /// Publish the run event END.
    AnnounceEnd,
    /// Answer the pending `execute_skill` goals of this command.
    Answer,
}

/// Outcome of [`super::step`].
#[derive(Clone, Debug, PartialEq)]
pub struct Transition {
    /// The new record; equal to the old one when `changed` is false.
    pub record: ExecutorRecord,
    /// False when the event said nothing new; then there is nothing to write.
    pub changed: bool,
    /// What follows.
    pub effects: Vec<ExecutorEffect>,
}

/// Why an event is not allowed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ExecutorError {
    /// The state does not know this event.
    #[error("command {command_id} is {state:?}, the event \"{event}\" is not possible there")]
    IllegalEvent {
        /// Which command.
        command_id: String,
        /// Its state.
        state: ExecutorState,
        /// The event.
        event: &'static str,
    },
    /// The UUID was used before.
    #[error("goal {goal_id} of command {command_id} was written down before; a UUID is never sent twice")]
    DuplicateGoal {
        /// Which command.
        command_id: String,
        /// The UUID, hexadecimal.
        goal_id: String,
    },
    /// The sub-goal was started before.
    #[error("sub-goal \"{name}\" of segment {segment} of command {command_id} was sent before; it is never started twice")]
    DuplicateSubGoal {
        /// Which command.
        command_id: String,
        /// Its segment.
        segment: u32,
        /// The sub-goal.
        name: String,
    },
    /// The UUID is not one of ours.
    #[error("goal {goal_id} was not sent for command {command_id}; it is left alone")]
    UnknownGoal {
        /// Which command.
        command_id: String,
        /// The UUID, hexadecimal.
        goal_id: String,
    },
    /// The status is none that ends a goal.
    #[error("status {status} of goal {goal_id} is not terminal; wait for 4, 5 or 6")]
    NotTerminal {
        /// The UUID, hexadecimal.
        goal_id: String,
        /// The status.
        status: i8,
    },
    /// A goal is still open.
    #[error("command {command_id} can't be complete while goal {goal_id} has no terminal status")]
    GoalOpen {
        /// Which command.
        command_id: String,
        /// The UUID, hexadecimal.
        goal_id: String,
    },
    /// A field of the event is missing.
    #[error("the event \"{event}\" of command {command_id} has an empty {field}; fill it in")]
    EmptyField {
        /// Which command.
        command_id: String,
        /// The event.
        event: &'static str,
        /// The field.
        field: &'static str,
    },
    /// Settled otherwise before.
    #[error("command {command_id} was settled as {was:?} by {by}; a settlement is never changed")]
    SettledOtherwise {
        /// Which command.
        command_id: String,
        /// How it was settled.
        was: FinalState,
        /// By whom.
        by: String,
    },
}

/// A UUID as 36 characters.
pub fn format_goal_id(goal_id: &GoalId) -> String {
    let mut out = String::with_capacity(36);
    for (i, byte) in goal_id.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        out.push_str(&format!("{byte:02x}"));
    }
    out
}

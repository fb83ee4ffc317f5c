//! What can happen to an executor.

use eh_contract::command::{Envelope, SkillCommand};
use eh_ledger::admission::SceneCheck;
use eh_ledger::executor::GoalId;

use crate::native_end::NativeEnd;

/// Names one request of a client until it is answered; never used again in one life of the process.
pub type Caller = u64;

/// A goal of `execute_skill`.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrival {
    /// Who gets the answer.
    pub caller: Caller,
    /// The command.
    pub command: SkillCommand,
    /// The digest that came with it.
    pub digest: String,
    /// Its envelope.
    pub envelope: Envelope,
    /// Segment.
    pub segment: u32,
}

/// A request of the service `settle`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettleRequest {
    /// Who gets the answer.
    pub caller: Caller,
    /// Command.
    pub command_id: String,
    /// SettleCommand `FINAL_*`.
    pub final_state: u8,
    /// Who says so.
    pub settled_by: String,
    /// Why.
    pub reason: String,
    /// Token of the lease under which it ran; 0 for a person.
    pub fencing_token: u64,
}

/// What can happen. Answers that belong to nothing in work any more are dropped, so that they may come
/// late, twice or never.
#[derive(Clone, Debug)]
pub enum Event {
    /// A command arrived.
    Arrived(Box<Arrival>),
    /// A command arrived that can't be read.
    Unreadable {
        /// Who gets the answer.
        caller: Caller,
        /// Its id, as far as it can be read.
        command_id: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A client asks to cancel the command that it sent.
    CancelAsked {
        /// Which client.
        caller: Caller,
    },
    /// Somebody says what became of a command.
    SettleAsked(SettleRequest),
    /// The scene graph answered, or can't be asked.
    SceneChecked {
        /// Command.
        command_id: String,
        /// Its answer.
        check: SceneCheck,
    },
    /// A server answered the request to take a goal, in time or late.
    GoalAcknowledged {
        /// Goal.
        goal_id: GoalId,
        /// Whether it took it.
        accepted: bool,
    },
    /// It is certain that a goal was not sent.
    GoalNotSent {
        /// Goal.
        goal_id: GoalId,
        /// Why.
        reason: String,
    },
    /// A server told the result of a goal.
    ResultArrived {
        /// Goal.
        goal_id: GoalId,
        /// How it ended.
        end: NativeEnd,
    },
    /// A server that was asked for a result does not know the goal, or no longer.
    ResultUnknown {
        /// Goal.
        goal_id: GoalId,
    },
    /// The planning scene was changed, or not.
    SceneChanged {
        /// Command.
        command_id: String,
        /// Name of the step.
        name: String,
        /// Why not.
        result: Result<(), String>,
    },
    /// Time has passed.
    Tick,
    /// The process is asked to end: what moves is stopped.
    Shutdown,
}

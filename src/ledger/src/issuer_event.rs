//! What can happen to a command at its issuer, and what follows from it.

use eh_contract::session::EventKind;
use eh_contract::status::SkillStatus;
use eh_contract::verdict::Verdict;
use eh_contract::ErrorCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What became of a command, as it is told to the executor or by a person (SettleCommand `FINAL_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finality {
    /// The effect happened.
    Succeeded,
    /// The effect did not happen and nothing runs any more.
    Failed,
    /// It was stopped.
    Canceled,
}

impl Finality {
    /// The number in messages.
    pub const fn to_wire(self) -> u8 {
        match self {
            Finality::Succeeded => 1,
            Finality::Failed => 2,
            Finality::Canceled => 3,
        }
    }

    /// The value of a number in a message.
    pub const fn from_wire(number: u8) -> Option<Self> {
        match number {
            1 => Some(Finality::Succeeded),
            2 => Some(Finality::Failed),
            3 => Some(Finality::Canceled),
            _ => None,
        }
    }
}

/// What can happen to a command.
#[derive(Clone, Debug, PartialEq)]
pub enum IssuerEvent {
    /// The gate refused the proposal.
    Refuse {
        /// Code of the refusal.
        code: ErrorCode,
        /// Why.
        reason: String,
    },
    /// The gate let the proposal pass.
    Commit,
    /// Send the first or the next segment under this UUID.
    Dispatch {
        /// UUID that was never used before.
        goal_id: [u8; 16],
    },
    /// It can't be sent in time any more.
    Expired {
        /// Why.
        reason: String,
    },
    /// The executor's action server took the goal.
    Acknowledged,
    /// The executor refused the goal; nothing was started.
    GoalRefused {
        /// Code of the refusal.
        code: ErrorCode,
        /// Why.
        reason: String,
    },
    /// The executor told where the command is: topic, feedback, result or answer to a question.
    Status(Box<SkillStatus>),
    /// The executor was asked, no longer ago than the policy's `delivery_margin`, and does not know the
    /// command. An older answer must be dropped: the command may have arrived since.
    NotFound {
        /// Process life of the executor that answered; empty where not known.
        boot_id: String,
    },
    /// The evaluator answered.
    Judged(Box<Verdict>),
    /// The evaluator could not be asked, or could not judge.
    NotJudged {
        /// Why.
        reason: String,
    },
    /// Stop it.
    CancelRequested {
        /// Who wants it and why.
        reason: String,
    },
    /// It can't be learned any more what became of it.
    Lost {
        /// Why.
        reason: String,
    },
    /// Work off an UNKNOWN.
    Reconcile,
    /// It is known now what became of an UNKNOWN.
    Reconciled {
        /// What.
        to: Finality,
        /// Who says so.
        by: String,
        /// On what grounds.
        reason: String,
    },
    /// The executor has released what the command held, or never had it.
    SettleConfirmed,
    /// Time has passed.
    Tick,
}

/// What has to be done, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum IssuerEffect {
    /// Make the record durable before anything that follows.
    Persist,
    /// Send the goal of a segment under its UUID, once and never again.
    Send {
        /// Segment.
        segment: u32,
        /// UUID.
        goal_id: [u8; 16],
    },
    /// Cancel the goal by its UUID.
    CancelGoal {
        /// UUID.
        goal_id: [u8; 16],
    },
    /// Ask the executor for the command by id.
    QueryExecutor,
    /// Ask the evaluator.
    Evaluate {
        /// Run.
        run_id: String,
        /// Segment.
        segment: u32,
        /// How often it was asked before.
        look: u32,
    },
    /// Give a UUID for the next segment, or cancel.
    NextSegment {
        /// Segment.
        segment: u32,
    },
    /// Tell the executor what became of it, so that it releases its resources.
    SettleExecutor {
        /// What.
        to: Finality,
    },
    /// Put an event into the session log.
    Note(Note),
    /// The command is terminal or UNKNOWN now.
    Ended,
}

/// An event for the session log.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// What happened.
    pub kind: EventKind,
    /// Command.
    pub command_id: String,
    /// Run; empty for none.
    pub run_id: String,
    /// One sentence for people.
    pub text: String,
    /// Details.
    pub payload: Value,
}

//! The states of one command at its executor.
//!
//! ```text
//! RECEIVED ─▶ REJECTED | ACCEPTED        ACCEPTED ─▶ REJECTED | STARTED | ENDED(canceled)
//! STARTED  ─▶ CANCELING | ENDED          CANCELING ─▶ ENDED          ENDED ─▶ SETTLED
//! ```
//!
//! [`step`] takes a record and an event and gives the next record with the effects that follow. The
//! caller makes the record durable first and performs the effects second, so that after a crash the
//! record says at most too much, never too little.

mod event;
mod transition;

use std::collections::BTreeMap;

use eh_contract::command::SkillCommand;
use eh_contract::error_code::ErrorCode;
use eh_contract::skill::DisconnectPolicy;
use eh_contract::state::{ControlEnd, ExecutorState, StopStage};
use eh_contract::status::{NativeOutcome, SkillStatus};
use eh_contract::Stamp;
use serde::{Deserialize, Serialize};

pub use event::{format_goal_id, ExecutorEffect, ExecutorError, ExecutorEvent, Transition};
pub use transition::step;

/// UUID of a goal.
pub type GoalId = [u8; 16];

/// The numbers of `action_msgs/GoalStatus`.
pub mod goal_status {
    /// Not known.
    pub const UNKNOWN: i8 = 0;
    /// Accepted, not yet executing.
    pub const ACCEPTED: i8 = 1;
    /// Executing.
    pub const EXECUTING: i8 = 2;
    /// A cancel was accepted.
    pub const CANCELING: i8 = 3;
    /// Terminal: done.
    pub const SUCCEEDED: i8 = 4;
    /// Terminal: canceled.
    pub const CANCELED: i8 = 5;
    /// Terminal: given up by the server.
    pub const ABORTED: i8 = 6;

    /// True for a status that never changes again.
    pub const fn is_terminal(status: i8) -> bool {
        matches!(status, SUCCEEDED | CANCELED | ABORTED)
    }
}

/// A goal that was, or may have been, sent to a foreign action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubGoalRecord {
    /// Chosen by us, durable before it is sent, never used again.
    pub goal_id: GoalId,
    /// Resolved name of the action.
    pub action_name: String,
    /// Segment that it belongs to.
    pub segment: u32,
    /// Name, unique within the segment, for example "approach".
    pub name: String,
    /// Sequence of "about to send".
    pub sent_sequence: u64,
    /// Sequence of its end; zero: not yet.
    pub ended_sequence: u64,
    /// [`goal_status`]; UNKNOWN until it is learned.
    pub status: i8,
    /// Whether the server is known not to have taken it: it answered "rejected", or it was never sent.
    pub refused: bool,
    /// The server's own error code.
    pub code: i32,
    /// The server's own message.
    pub message: String,
}

impl SubGoalRecord {
    /// True when nothing can run under this UUID any more.
    pub const fn is_over(&self) -> bool {
        self.refused || goal_status::is_terminal(self.status)
    }
}

/// Why an execution is being brought to standstill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopCause {
    /// The caller asked to cancel.
    Caller,
    /// A stop of the whole robot is latched.
    Stop,
    /// The control lease expired and the skill's policy says stop.
    LeaseExpired,
    /// The node is shutting down.
    ShuttingDown,
    /// The executor was restarted in the middle.
    Restart,
    /// A sub-goal failed or the time is up.
    Failed {
        /// Code of the failure.
        error_code: u16,
        /// Its message.
        error_msg: String,
    },
    /// A goal that is not ours displaced one of ours.
    Preempted {
        /// What displaced it.
        by: String,
    },
}

impl StopCause {
    /// How control has ended when everything stands still.
    const fn end(&self) -> ControlEnd {
        match self {
            StopCause::Caller
            | StopCause::Stop
            | StopCause::LeaseExpired
            | StopCause::ShuttingDown => ControlEnd::Canceled,
            StopCause::Restart | StopCause::Failed { .. } => ControlEnd::Aborted,
            StopCause::Preempted { .. } => ControlEnd::Preempted,
        }
    }

    /// Code and message of the command that ends for this cause.
    pub fn error(&self) -> (u16, String) {
        match self {
            StopCause::Caller => (
                ErrorCode::Canceled.code(),
                "canceled by the caller; standstill was measured".into(),
            ),
            StopCause::Stop => (
                ErrorCode::StopLatched.code(),
                "stopped because a stop of the robot is latched; when it is safe, reset it with \"harness reset\" or the service reset_stop".into(),
            ),
            StopCause::LeaseExpired => (
                ErrorCode::ExecutorNoLease.code(),
                "stopped because the control lease expired; acquire it with manage_lease and send a new command".into(),
            ),
            StopCause::ShuttingDown => (
                ErrorCode::ShuttingDown.code(),
                "stopped because the executor is shutting down".into(),
            ),
            StopCause::Restart => (
                ErrorCode::ResultLost.code(),
                "the executor was restarted in the middle of the execution; its goals were brought to an end; look at the world before anything is done again".into(),
            ),
            StopCause::Failed {
                error_code,
                error_msg,
            } => (*error_code, error_msg.clone()),
            StopCause::Preempted { by } => (
                ErrorCode::Preempted.code(),
                format!("a goal that this executor did not send displaced its goal ({by}); find out who commands the robot before anything is done again"),
            ),
        }
    }
}

/// What the issuer or a person says became of a command (SettleCommand `FINAL_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum FinalState {
    /// The wanted effect is there.
    Succeeded,
    /// It is not.
    Failed,
    /// Given up.
    Canceled,
}

impl FinalState {
    /// The value of a number in a message; `None` for 0 and numbers that no constant has.
    pub const fn from_wire(number: u8) -> Option<Self> {
        match number {
            1 => Some(FinalState::Succeeded),
            2 => Some(FinalState::Failed),
            3 => Some(FinalState::Canceled),
            _ => None,
        }
    }

    /// The number in messages.
    pub const fn to_wire(self) -> u8 {
        match self {
            FinalState::Succeeded => 1,
            FinalState::Failed => 2,
            FinalState::Canceled => 3,
        }
    }
}

/// How a command was settled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settlement {
    /// What became of it.
    pub final_state: FinalState,
    /// Who says so.
    pub settled_by: String,
    /// Why.
    pub reason: String,
    /// When.
    pub at: Stamp,
}

/// Everything an executor knows about one command. Stored as it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExecutorRecord {
    /// The command, immutable.
    pub command: SkillCommand,
    /// Its digest.
    pub digest: String,
    /// Segment that was asked for.
    pub segment: u32,
    /// Process life of the executor in which it was received.
    pub boot_id: String,
    /// Token under which it was sent.
    pub fencing_token: u64,
    /// Who sent it.
    pub controller_id: String,
    /// Resources that it claims while [`ExecutorRecord::holds`].
    pub resources: Vec<String>,
    /// What happens when the lease expires.
    pub disconnect_policy: DisconnectPolicy,
    /// Where it is.
    pub state: ExecutorState,
    /// How control ended.
    pub control_end: ControlEnd,
    /// How far a stop has come.
    pub stop_stage: StopStage,
    /// Why it is being stopped.
    pub stop_cause: Option<StopCause>,
    /// Counts the journaled events from 1.
    pub sequence: u64,
    /// Its physical execution; empty before STARTED.
    pub run_id: String,
    /// Goals that were or may have been sent, in order.
    pub sub_goals: Vec<SubGoalRecord>,
    /// Code of the command; 0 for none.
    pub error_code: u16,
    /// Its message.
    pub error_msg: String,
    /// Key times; never where not yet.
    pub received_at: Stamp,
    /// Became STARTED.
    pub started_at: Stamp,
    /// First request to stop.
    pub cancel_requested_at: Stamp,
    /// Standstill measured.
    pub stop_confirmed_at: Stamp,
    /// Control ended.
    pub ended_at: Stamp,
    /// How it was settled.
    pub settlement: Option<Settlement>,
}

impl ExecutorRecord {
    /// The record of a command that has just arrived: RECEIVED, sequence 1.
    pub fn received(
        command: SkillCommand,
        segment: u32,
        boot_id: &str,
        fencing_token: u64,
        controller_id: &str,
        now: Stamp,
    ) -> Self {
        ExecutorRecord {
            digest: command.digest(),
            command,
            segment,
            boot_id: boot_id.into(),
            fencing_token,
            controller_id: controller_id.into(),
            resources: Vec::new(),
            disconnect_policy: DisconnectPolicy::Stop,
            state: ExecutorState::Received,
            control_end: ControlEnd::None,
            stop_stage: StopStage::None,
            stop_cause: None,
            sequence: 1,
            run_id: String::new(),
            sub_goals: Vec::new(),
            error_code: 0,
            error_msg: String::new(),
            received_at: now,
            started_at: Stamp::NEVER,
            cancel_requested_at: Stamp::NEVER,
            stop_confirmed_at: Stamp::NEVER,
            ended_at: Stamp::NEVER,
            settlement: None,
        }
    }

    /// True while it keeps others from its resources: from ACCEPTED until it is settled.
    pub const fn holds(&self) -> bool {
        self.state.holds_resources()
    }

    /// True when nothing changes any more.
    pub const fn is_terminal(&self) -> bool {
        match self.state {
            ExecutorState::Rejected | ExecutorState::Settled => true,
            ExecutorState::Unspecified
            | ExecutorState::Received
            | ExecutorState::Accepted
            | ExecutorState::Started
            | ExecutorState::Canceling
            | ExecutorState::Ended => false,
        }
    }

    /// True when the answer of `execute_skill` can be given: control has ended or never began.
    pub const fn is_answered(&self) -> bool {
        match self.state {
            ExecutorState::Rejected | ExecutorState::Ended | ExecutorState::Settled => true,
            ExecutorState::Unspecified
            | ExecutorState::Received
            | ExecutorState::Accepted
            | ExecutorState::Started
            | ExecutorState::Canceling => false,
        }
    }

    /// Goals that may still be running.
    pub fn open_goals(&self) -> impl Iterator<Item = &SubGoalRecord> {
        self.sub_goals.iter().filter(|g| !g.is_over())
    }

    /// A sub-goal by UUID.
    pub fn sub_goal(&self, goal_id: &GoalId) -> Option<&SubGoalRecord> {
        self.sub_goals.iter().find(|g| &g.goal_id == goal_id)
    }

    /// The executor's view as it is published; `progress` is not journaled and comes in beside it.
    pub fn status(&self, executor: &str, boot_id: &str, progress: Option<f64>) -> SkillStatus {
        let last = self.sub_goals.last();
        SkillStatus {
            executor: executor.into(),
            boot_id: boot_id.into(),
            command_id: self.command.command_id.clone(),
            task_id: self.command.task_id.clone(),
            skill: self.command.skill.clone(),
            run_id: self.run_id.clone(),
            state: self.state,
            control_end: self.control_end,
            stop_stage: self.stop_stage,
            sequence: self.sequence,
            segment: self.segment,
            sub_goal: match self.state {
                ExecutorState::Started | ExecutorState::Canceling => {
                    last.map(|g| g.name.clone()).unwrap_or_default()
                }
                ExecutorState::Unspecified
                | ExecutorState::Received
                | ExecutorState::Rejected
                | ExecutorState::Accepted
                | ExecutorState::Ended
                | ExecutorState::Settled => String::new(),
            },
            progress: progress.filter(|p| p.is_finite()),
            resources: if self.holds() {
                self.resources.clone()
            } else {
                Vec::new()
            },
            error_code: self.error_code,
            error_msg: self.error_msg.clone(),
            native_outcome: last
                .map(|g| NativeOutcome {
                    action_name: g.action_name.clone(),
                    goal_id: g.goal_id,
                    status: g.status,
                    code: g.code,
                    message: g.message.clone(),
                })
                .unwrap_or_default(),
            received_at: self.received_at,
            started_at: self.started_at,
            cancel_requested_at: self.cancel_requested_at,
            stop_confirmed_at: self.stop_confirmed_at,
            ended_at: self.ended_at,
        }
    }
}

/// Which command holds each resource.
pub fn held_resources<'a>(
    records: impl IntoIterator<Item = &'a ExecutorRecord>,
) -> BTreeMap<String, String> {
    records
        .into_iter()
        .filter(|r| r.holds())
        .flat_map(|r| {
            r.resources
                .iter()
                .map(|resource| (resource.clone(), r.command.command_id.clone()))
        })
        .collect()
}

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

use std::collections::BTreeMap;

use eh_contract::command::SkillCommand;
use eh_contract::error_code::ErrorCode;
use eh_contract::skill::DisconnectPolicy;
use eh_contract::state::{ControlEnd, ExecutorState, StopStage};
use eh_contract::status::{NativeOutcome, SkillStatus};
use eh_contract::Stamp;
use serde::{Deserialize, Serialize};
use thiserror::Error;

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
                "stopped because a stop of the robot is latched; an operator resets it with reset_stop".into(),
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
        match self.state {
            ExecutorState::Accepted
            | ExecutorState::Started
            | ExecutorState::Canceling
            | ExecutorState::Ended => true,
            ExecutorState::Unspecified
            | ExecutorState::Received
            | ExecutorState::Rejected
            | ExecutorState::Settled => false,
        }
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
        /// [`goal_status`], terminal.
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

/// Outcome of [`step`].
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

/// Applies an event.
///
/// `now` is ROS time; it is only written down, nothing is decided by it.
///
/// # Errors
/// [`ExecutorError`] when the state does not allow the event; the record then stays as it is.
pub fn step(
    record: &ExecutorRecord,
    event: &ExecutorEvent,
    now: Stamp,
) -> Result<Transition, ExecutorError> {
    use ExecutorState as S;
    let mut next = record.clone();
    next.sequence = next.sequence.saturating_add(1);
    let illegal = || ExecutorError::IllegalEvent {
        command_id: record.command.command_id.clone(),
        state: record.state,
        event: event.name(),
    };
    let unchanged = || Transition {
        record: record.clone(),
        changed: false,
        effects: Vec::new(),
    };
    let done = |record: ExecutorRecord, effects: Vec<ExecutorEffect>| Transition {
        record,
        changed: true,
        effects,
    };
    match event {
        ExecutorEvent::Accept {
            resources,
            disconnect_policy,
        } => match record.state {
            S::Received => {
                next.state = S::Accepted;
                next.resources.clone_from(resources);
                next.disconnect_policy = *disconnect_policy;
                Ok(done(next, vec![]))
            }
            S::Unspecified
            | S::Rejected
            | S::Accepted
            | S::Started
            | S::Canceling
            | S::Ended
            | S::Settled => Err(illegal()),
        },
        ExecutorEvent::Reject {
            error_code,
            error_msg,
        } => match record.state {
            S::Received | S::Accepted => {
                next.state = S::Rejected;
                next.error_code = *error_code;
                next.error_msg.clone_from(error_msg);
                next.ended_at = now;
                Ok(done(next, vec![ExecutorEffect::Answer]))
            }
            S::Unspecified | S::Rejected | S::Started | S::Canceling | S::Ended | S::Settled => {
                Err(illegal())
            }
        },
        ExecutorEvent::Start { run_id } => match record.state {
            S::Accepted => {
                if run_id.is_empty() {
                    return Err(empty(record, event, "run_id"));
                }
                next.state = S::Started;
                next.run_id.clone_from(run_id);
                next.started_at = now;
                Ok(done(next, vec![ExecutorEffect::AnnounceStart]))
            }
            S::Unspecified
            | S::Received
            | S::Rejected
            | S::Started
            | S::Canceling
            | S::Ended
            | S::Settled => Err(illegal()),
        },
        ExecutorEvent::SendGoal {
            goal_id,
            action_name,
            name,
        } => match record.state {
            S::Started => {
                if action_name.is_empty() {
                    return Err(empty(record, event, "action_name"));
                }
                if name.is_empty() {
                    return Err(empty(record, event, "name"));
                }
                if record.sub_goal(goal_id).is_some() {
                    return Err(ExecutorError::DuplicateGoal {
                        command_id: record.command.command_id.clone(),
                        goal_id: format_goal_id(goal_id),
                    });
                }
                if record
                    .sub_goals
                    .iter()
                    .any(|g| g.segment == record.segment && &g.name == name)
                {
                    return Err(ExecutorError::DuplicateSubGoal {
                        command_id: record.command.command_id.clone(),
                        segment: record.segment,
                        name: name.clone(),
                    });
                }
                next.sub_goals.push(SubGoalRecord {
                    goal_id: *goal_id,
                    action_name: action_name.clone(),
                    segment: record.segment,
                    name: name.clone(),
                    sent_sequence: next.sequence,
                    ended_sequence: 0,
                    status: goal_status::UNKNOWN,
                    refused: false,
                    code: 0,
                    message: String::new(),
                });
                let effect = ExecutorEffect::SendGoal { goal_id: *goal_id };
                Ok(done(next, vec![effect]))
            }
            S::Unspecified
            | S::Received
            | S::Rejected
            | S::Accepted
            | S::Canceling
            | S::Ended
            | S::Settled => Err(illegal()),
        },
        ExecutorEvent::GoalRefused { goal_id, message } => {
            end_goal(record, next, event, goal_id, |goal| {
                goal.refused = true;
                goal.message.clone_from(message);
            })
        }
        ExecutorEvent::GoalEnded {
            goal_id,
            status,
            code,
            message,
        } => {
            if !goal_status::is_terminal(*status) {
                return Err(ExecutorError::NotTerminal {
                    goal_id: format_goal_id(goal_id),
                    status: *status,
                });
            }
            end_goal(record, next, event, goal_id, |goal| {
                goal.status = *status;
                goal.code = *code;
                goal.message.clone_from(message);
            })
        }
        ExecutorEvent::Step { name, .. } => match record.state {
            // In CANCELING too: what an execution leaves behind is cleaned up.
            S::Started | S::Canceling => {
                if name.is_empty() {
                    return Err(empty(record, event, "name"));
                }
                Ok(done(next, vec![]))
            }
            S::Unspecified | S::Received | S::Rejected | S::Accepted | S::Ended | S::Settled => {
                Err(illegal())
            }
        },
        ExecutorEvent::Complete => match record.state {
            // In CANCELING too: a cancel that comes too late changes nothing about what was done.
            S::Started | S::Canceling => {
                if let Some(open) = record.open_goals().next() {
                    return Err(ExecutorError::GoalOpen {
                        command_id: record.command.command_id.clone(),
                        goal_id: format_goal_id(&open.goal_id),
                    });
                }
                if record.state == S::Canceling && record.stop_cause != Some(StopCause::Caller) {
                    return Err(illegal());
                }
                next.state = S::Ended;
                next.control_end = ControlEnd::Completed;
                next.ended_at = now;
                Ok(done(
                    next,
                    vec![ExecutorEffect::AnnounceEnd, ExecutorEffect::Answer],
                ))
            }
            S::Unspecified | S::Received | S::Rejected | S::Accepted | S::Ended | S::Settled => {
                Err(illegal())
            }
        },
        ExecutorEvent::Stop(cause) => match record.state {
            S::Received => {
                let (error_code, error_msg) = cause.error();
                next.state = S::Rejected;
                next.error_code = error_code;
                next.error_msg = error_msg;
                next.cancel_requested_at = now;
                next.ended_at = now;
                Ok(done(next, vec![ExecutorEffect::Answer]))
            }
            S::Accepted => {
                // Nothing was sent: that alone is a confirmed standstill of what this command moves.
                let (error_code, error_msg) = cause.error();
                next.state = S::Ended;
                next.control_end = cause.end();
                next.stop_cause = Some(cause.clone());
                next.stop_stage = StopStage::Confirmed;
                next.error_code = error_code;
                next.error_msg = error_msg;
                next.cancel_requested_at = now;
                next.stop_confirmed_at = now;
                next.ended_at = now;
                Ok(done(next, vec![ExecutorEffect::Answer]))
            }
            S::Started => {
                next.state = S::Canceling;
                next.stop_cause = Some(cause.clone());
                next.stop_stage = StopStage::Requested;
                next.cancel_requested_at = now;
                let open: Vec<GoalId> = record.open_goals().map(|g| g.goal_id).collect();
                let mut effects = Vec::new();
                if !open.is_empty() {
                    effects.push(ExecutorEffect::CancelGoals(open));
                }
                effects.push(ExecutorEffect::MeasureStandstill);
                Ok(done(next, effects))
            }
            // Asking again neither extends the budget nor is it dropped: the goals are asked again.
            S::Canceling => {
                let open: Vec<GoalId> = record.open_goals().map(|g| g.goal_id).collect();
                let mut again = unchanged();
                if !open.is_empty() {
                    again.effects.push(ExecutorEffect::CancelGoals(open));
                }
                Ok(again)
            }
            S::Rejected | S::Ended | S::Settled => Ok(unchanged()),
            S::Unspecified => Err(illegal()),
        },
        ExecutorEvent::Standstill => match record.state {
            S::Canceling => {
                if let Some(open) = record.open_goals().next() {
                    return Err(ExecutorError::GoalOpen {
                        command_id: record.command.command_id.clone(),
                        goal_id: format_goal_id(&open.goal_id),
                    });
                }
                let cause = record.stop_cause.clone().unwrap_or(StopCause::Caller);
                let (error_code, error_msg) = cause.error();
                next.state = S::Ended;
                next.control_end = cause.end();
                next.stop_stage = StopStage::Confirmed;
                next.error_code = error_code;
                next.error_msg = error_msg;
                next.stop_confirmed_at = now;
                next.ended_at = now;
                Ok(done(
                    next,
                    vec![ExecutorEffect::AnnounceEnd, ExecutorEffect::Answer],
                ))
            }
            S::Unspecified
            | S::Received
            | S::Rejected
            | S::Accepted
            | S::Started
            | S::Ended
            | S::Settled => Err(illegal()),
        },
        ExecutorEvent::StopTimeout { what } => match record.state {
            S::Canceling => {
                next.state = S::Ended;
                next.control_end = ControlEnd::Lost;
                next.stop_stage = StopStage::Unconfirmed;
                next.error_code = ErrorCode::StopUnconfirmed.code();
                next.error_msg = format!(
                    "standstill was not confirmed within {:.1} s ({what}); the robot may still move: stop it with request_stop, look at it, then settle the command",
                    record.command.stop_timeout().as_secs_f64()
                );
                next.ended_at = now;
                Ok(done(
                    next,
                    vec![ExecutorEffect::AnnounceEnd, ExecutorEffect::Answer],
                ))
            }
            S::Unspecified
            | S::Received
            | S::Rejected
            | S::Accepted
            | S::Started
            | S::Ended
            | S::Settled => Err(illegal()),
        },
        ExecutorEvent::Lose {
            error_code,
            error_msg,
        } => match record.state {
            S::Started | S::Canceling => {
                let open: Vec<GoalId> = record.open_goals().map(|g| g.goal_id).collect();
                next.state = S::Ended;
                next.control_end = ControlEnd::Lost;
                if record.state == S::Canceling {
                    next.stop_stage = StopStage::Unconfirmed;
                }
                next.error_code = *error_code;
                next.error_msg.clone_from(error_msg);
                next.ended_at = now;
                let mut effects = Vec::new();
                if !open.is_empty() {
                    effects.push(ExecutorEffect::CancelGoals(open));
                }
                effects.extend([ExecutorEffect::AnnounceEnd, ExecutorEffect::Answer]);
                Ok(done(next, effects))
            }
            S::Unspecified | S::Received | S::Rejected | S::Accepted | S::Ended | S::Settled => {
                Err(illegal())
            }
        },
        ExecutorEvent::Settle {
            final_state,
            settled_by,
            reason,
        } => match record.state {
            S::Ended => {
                if settled_by.is_empty() {
                    return Err(empty(record, event, "settled_by"));
                }
                next.state = S::Settled;
                next.settlement = Some(Settlement {
                    final_state: *final_state,
                    settled_by: settled_by.clone(),
                    reason: reason.clone(),
                    at: now,
                });
                Ok(done(next, vec![]))
            }
            S::Settled => match &record.settlement {
                Some(s) if s.final_state != *final_state => Err(ExecutorError::SettledOtherwise {
                    command_id: record.command.command_id.clone(),
                    was: s.final_state,
                    by: s.settled_by.clone(),
                }),
                Some(_) | None => Ok(unchanged()),
            },
            S::Unspecified
            | S::Received
            | S::Rejected
            | S::Accepted
            | S::Started
            | S::Canceling => Err(illegal()),
        },
    }
}

fn empty(record: &ExecutorRecord, event: &ExecutorEvent, field: &'static str) -> ExecutorError {
    ExecutorError::EmptyField {
        command_id: record.command.command_id.clone(),
        event: event.name(),
        field,
    }
}

/// Ends one sub-goal. Also after the command itself has ended: what became of a goal that was lost is
/// worth knowing, but it moves no state.
fn end_goal(
    record: &ExecutorRecord,
    mut next: ExecutorRecord,
    event: &ExecutorEvent,
    goal_id: &GoalId,
    change: impl FnOnce(&mut SubGoalRecord),
) -> Result<Transition, ExecutorError> {
    use ExecutorState as S;
    match record.state {
        S::Started | S::Canceling | S::Ended => {}
        S::Unspecified | S::Received | S::Rejected | S::Accepted | S::Settled => {
            return Err(ExecutorError::IllegalEvent {
                command_id: record.command.command_id.clone(),
                state: record.state,
                event: event.name(),
            })
        }
    }
    let sequence = next.sequence;
    let Some(goal) = next.sub_goals.iter_mut().find(|g| &g.goal_id == goal_id) else {
        return Err(ExecutorError::UnknownGoal {
            command_id: record.command.command_id.clone(),
            goal_id: format_goal_id(goal_id),
        });
    };
    if goal.is_over() {
        return Ok(Transition {
            record: record.clone(),
            changed: false,
            effects: Vec::new(),
        });
    }
    change(goal);
    goal.ended_sequence = sequence;
    Ok(Transition {
        record: next,
        changed: true,
        effects: Vec::new(),
    })
}

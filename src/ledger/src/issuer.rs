//! The life of one command as its issuer sees it: a pure state machine.
//!
//! An event and the time come in; the record changes and the effects that follow go out as data, in the
//! order in which they have to be performed. [`IssuerEffect::Persist`] comes before everything that
//! relies on it: a goal's UUID is durable before the goal is sent.
//!
//! Three facts are kept apart: how control ended (the executor's [`SkillStatus`]), what became of the
//! world (the evaluator's [`Verdict`]) and the state that follows from both.

mod ending;
mod following;
mod judging;
mod sending;
mod stopping;
mod waiting;

use std::time::Duration;

use eh_contract::command::SkillCommand;
use eh_contract::session::EventKind;
use eh_contract::state::CommandState;
use eh_contract::status::SkillStatus;
use eh_contract::verdict::{Outcome, Verdict};
use eh_contract::{ErrorCode, Stamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::issuer_error::IssuerError;
use crate::issuer_event::{Finality, IssuerEffect, IssuerEvent, Note};
use crate::issuer_policy::{IssuerPolicy, Now};

/// What a new process may need to find the others before it can ask them about a stop: discovery takes
/// a second or two, and several on a machine that is starting everything at once.
const RESTART_GRACE: Duration = Duration::from_secs(10);

/// The UUID of a goal that carries one segment, chosen by the issuer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentGoal {
    /// Segment, from 0.
    pub segment: u32,
    /// UUID of the ExecuteSkill goal.
    pub goal_id: [u8; 16],
}

/// Key times of a command, ROS time; [`Stamp::NEVER`] where not yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KeyTimes {
    /// Wanted by the planner.
    pub proposed: Stamp,
    /// Checked and durable.
    pub committed: Stamp,
    /// Its goal was about to be sent.
    pub dispatched: Stamp,
    /// The executor acknowledged it.
    pub received: Stamp,
    /// The executor started it.
    pub started: Stamp,
    /// A cancel was asked for the first time.
    pub cancel_requested: Stamp,
    /// Standstill was measured.
    pub stop_confirmed: Stamp,
    /// Control ended.
    pub control_ended: Stamp,
    /// The evaluator answered.
    pub judged: Stamp,
    /// A final state, or UNKNOWN.
    pub settled: Stamp,
}

/// Deadlines on the local steady clock; they are worthless in another process and are not stored.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Watch {
    dispatched: Duration,
    last_sign: Duration,
    last_query: Duration,
    last_cancel: Duration,
    cancel_requested: Duration,
    running: Duration,
    evaluating: Duration,
    last_settle: Duration,
    grace: Duration,
}

/// Everything that the issuer knows of one command; stored as it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IssuerRecord {
    /// The command.
    pub command: SkillCommand,
    /// Its digest at commit.
    pub digest: String,
    /// Name of the ExecuteSkill action that runs it.
    pub action_name: String,
    /// Node name of the executor.
    pub executor: String,
    /// Process life of the executor whose beacon the command carries.
    pub boot_id: String,
    /// Resources that it holds until it is settled.
    pub resources: Vec<String>,
    /// Whether a verdict decides; else control's end does.
    pub evaluated: bool,
    /// Most segments; 1 where the skill is not segmented.
    pub max_segments: u32,
    /// Longest time of control.
    pub execution_timeout: Duration,
    /// Where it is.
    pub state: CommandState,
    /// Segment in work, from 0.
    pub segment: u32,
    /// UUID of each segment's goal, in order.
    pub goals: Vec<SegmentGoal>,
    /// Run; empty before it started.
    pub run_id: String,
    /// Newest status of the executor.
    pub status: Option<SkillStatus>,
    /// Newest verdict.
    pub verdict: Option<Verdict>,
    /// Verdicts UNKNOWN of this segment so far.
    pub looks: u32,
    /// Error code of ExecuteSkill's range; 0 for none.
    pub error_code: u16,
    /// Why, with the value, the limit and what to do.
    pub error_msg: String,
    /// Counts the changes of this record from 1.
    pub sequence: u64,
    /// Events that came too late or twice and changed nothing.
    pub late_events: u64,
    /// Key times.
    pub times: KeyTimes,
    /// Who settled it, where it was a person.
    pub settled_by: String,
    /// What the executor still has to be told, so that it releases its resources.
    pub settle_pending: Option<Finality>,
    #[serde(skip)]
    watch: Watch,
}

/// What a new record needs beside the command.
#[derive(Clone, Debug, PartialEq)]
pub struct Issue {
    /// The command.
    pub command: SkillCommand,
    /// Name of the ExecuteSkill action that runs it.
    pub action_name: String,
    /// Node name of the executor.
    pub executor: String,
    /// Process life of the executor.
    pub boot_id: String,
    /// Resources that it claims.
    pub resources: Vec<String>,
    /// Whether a verdict decides.
    pub evaluated: bool,
    /// Most segments; 0 or 1 for a skill that is not segmented.
    pub max_segments: u32,
    /// Longest time of control where the command names none.
    pub maximum_duration: Duration,
}

impl IssuerRecord {
    /// A command that a planner wants: PROPOSED.
    pub fn new(issue: Issue, now: Now) -> Self {
        let execution_timeout = if issue.command.execution_timeout.is_zero() {
            issue.maximum_duration
        } else {
            issue.command.execution_timeout
        };
        let max_segments = if issue.command.max_segments == 0 {
            issue.max_segments
        } else {
            issue.max_segments.min(issue.command.max_segments)
        };
        IssuerRecord {
            digest: issue.command.digest(),
            command: issue.command,
            action_name: issue.action_name,
            executor: issue.executor,
            boot_id: issue.boot_id,
            resources: issue.resources,
            evaluated: issue.evaluated,
            max_segments: max_segments.max(1),
            execution_timeout,
            state: CommandState::Proposed,
            segment: 0,
            goals: Vec::new(),
            run_id: String::new(),
            status: None,
            verdict: None,
            looks: 0,
            error_code: 0,
            error_msg: String::new(),
            sequence: 0,
            late_events: 0,
            times: KeyTimes {
                proposed: now.ros,
                ..KeyTimes::default()
            },
            settled_by: String::new(),
            settle_pending: None,
            watch: Watch::default(),
        }
    }

    /// The command's id.
    pub fn command_id(&self) -> &str {
        &self.command.command_id
    }

    /// UUID of the goal in work; `None` before the first dispatch.
    pub fn goal_id(&self) -> Option<[u8; 16]> {
        self.goals.last().map(|g| g.goal_id)
    }

    /// True while it claims its resources: from the commit until it is settled, UNKNOWN included.
    pub fn holds_resources(&self) -> bool {
        self.state != CommandState::Proposed && !self.state.is_terminal()
    }

    /// True when a cancel was asked.
    pub fn cancel_requested(&self) -> bool {
        !self.times.cancel_requested.is_never()
    }

    /// Applies one event.
    ///
    /// # Errors
    /// [`IssuerError`] for an event that the state does not allow or that belongs to something else; the
    /// record is unchanged then.
    pub fn apply(
        &mut self,
        event: IssuerEvent,
        policy: &IssuerPolicy,
        now: Now,
    ) -> Result<Vec<IssuerEffect>, IssuerError> {
        match event {
            IssuerEvent::Refuse { code, reason } => self.refuse(code, reason, now),
            IssuerEvent::Commit => self.commit(now),
            IssuerEvent::Dispatch { goal_id } => self.dispatch(goal_id, now),
            IssuerEvent::Expired { reason } => self.expired(reason, now),
            IssuerEvent::Acknowledged => self.acknowledged(now),
            IssuerEvent::GoalRefused { code, reason } => self.goal_refused(code, reason, now),
            IssuerEvent::Status(status) => self.status(*status, now),
            IssuerEvent::NotFound { boot_id } => self.not_found(&boot_id, policy, now),
            IssuerEvent::Judged(verdict) => self.judged(*verdict, policy, now),
            IssuerEvent::NotJudged { reason } => self.not_judged(reason, policy, now),
            IssuerEvent::CancelRequested { reason } => self.cancel(reason, now),
            IssuerEvent::Lost { reason } => self.lost(reason, now),
            IssuerEvent::Reconcile => self.reconcile(now),
            IssuerEvent::Reconciled { to, by, reason } => self.reconciled(to, by, reason, now),
            IssuerEvent::SettleConfirmed => Ok(self.settle_confirmed()),
            IssuerEvent::Tick => Ok(self.tick(policy, now)),
        }
    }

    /// How long ago each deadline began, in seconds; what is longer ago than every budget is all the same.
    #[cfg(test)]
    pub(crate) fn waits(&self, now: Duration) -> [u64; 9] {
        let watch = &self.watch;
        [
            watch.dispatched,
            watch.last_sign,
            watch.last_query,
            watch.last_cancel,
            watch.cancel_requested,
            watch.running,
            watch.evaluating,
            watch.last_settle,
            // This one is a length of time, not a point in it.
            now.saturating_sub(watch.grace),
        ]
        .map(|then| now.saturating_sub(then).as_secs().min(1000))
    }

    fn illegal(&self, event: &'static str) -> IssuerError {
        IssuerError::IllegalEvent {
            command_id: self.command.command_id.clone(),
            state: self.state,
            event,
        }
    }

    fn late(&mut self) -> Result<Vec<IssuerEffect>, IssuerError> {
        self.late_events = self.late_events.saturating_add(1);
        Ok(Vec::new())
    }

    fn enter(&mut self, state: CommandState) {
        self.state = state;
        self.sequence = self.sequence.saturating_add(1);
    }

    fn note(&self, kind: EventKind, text: String, payload: Value) -> IssuerEffect {
        IssuerEffect::Note(Note {
            kind,
            command_id: self.command.command_id.clone(),
            run_id: self.run_id.clone(),
            text,
            payload,
        })
    }

    fn fail(&mut self, code: ErrorCode, reason: String) {
        self.error_code = code.code();
        self.error_msg = reason;
    }
}

fn or(stamp: Stamp, fallback: Stamp) -> Stamp {
    if stamp.is_never() {
        fallback
    } else {
        stamp
    }
}

/// The outcome as people read it.
pub const fn outcome_name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Process => "PROCESS",
        Outcome::Success => "SUCCESS",
        Outcome::Failure => "FAILURE",
        Outcome::Unknown => "UNKNOWN",
    }
}

/// The state as people read it.
pub const fn state_name(state: CommandState) -> &'static str {
    match state {
        CommandState::Unspecified => "UNSPECIFIED",
        CommandState::Proposed => "PROPOSED",
        CommandState::Rejected => "REJECTED",
        CommandState::Committed => "COMMITTED",
        CommandState::Dispatched => "DISPATCHED",
        CommandState::Accepted => "ACCEPTED",
        CommandState::Running => "RUNNING",
        CommandState::Evaluating => "EVALUATING",
        CommandState::Canceling => "CANCELING",
        CommandState::Succeeded => "SUCCEEDED",
        CommandState::Failed => "FAILED",
        CommandState::Canceled => "CANCELED",
        CommandState::Unknown => "UNKNOWN",
        CommandState::Reconciling => "RECONCILING",
    }
}

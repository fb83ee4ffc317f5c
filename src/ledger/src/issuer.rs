//! The life of one command as its issuer sees it: a pure state machine.
//!
//! An event and the time come in; the record changes and the effects that follow go out as data, in the
//! order in which they have to be performed. [`IssuerEffect::Persist`] comes before everything that
//! relies on it: a goal's UUID is durable before the goal is sent.
//!
//! Three facts are kept apart: how control ended (the executor's [`SkillStatus`]), what became of the
//! world (the evaluator's [`Verdict`]) and the state that follows from both.

use std::time::Duration;

use eh_contract::command::SkillCommand;
use eh_contract::session::EventKind;
use eh_contract::state::{CommandState, ControlEnd, ExecutorState};
use eh_contract::status::SkillStatus;
use eh_contract::verdict::{Outcome, Verdict};
use eh_contract::{ErrorCode, Stamp};
use serde::{Deserialize, Serialize};
use serde_json::{json, Value};

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

    fn refuse(
        &mut self,
        code: ErrorCode,
        reason: String,
        now: Now,
    ) -> Result<Vec<IssuerEffect>, IssuerError> {
        if self.state != CommandState::Proposed {
            return Err(self.illegal("refuse"));
        }
        self.fail(code, reason.clone());
        self.times.settled = now.ros;
        self.enter(CommandState::Rejected);
        Ok(vec![
            IssuerEffect::Persist,
            self.note(
                EventKind::Rejected,
                reason,
                json!({"error_code": self.error_code}),
            ),
            IssuerEffect::Ended,
        ])
    }

    fn commit(&mut self, now: Now) -> Result<Vec<IssuerEffect>, IssuerError> {
        if self.state != CommandState::Proposed {
            return Err(self.illegal("commit"));
        }
        self.times.committed = now.ros;
        self.enter(CommandState::Committed);
        let payload = json!({
            "digest": self.digest,
            "arguments": self.command.arguments,
            "world_version": self.command.world_version,
            "targets": self.command.targets.iter()
                .map(|t| json!({"argument": t.argument, "ref": t.r#ref, "version": t.version}))
                .collect::<Vec<_>>(),
        });
        Ok(vec![
            IssuerEffect::Persist,
            self.note(
                EventKind::Committed,
                format!("{} is committed", self.command.skill),
                payload,
            ),
        ])
    }

    fn dispatch(&mut self, goal_id: [u8; 16], now: Now) -> Result<Vec<IssuerEffect>, IssuerError> {
        let next = match self.state {
            CommandState::Committed => 0,
            CommandState::Evaluating if self.next_segment_is_due() => self.segment + 1,
            _ => return Err(self.illegal("dispatch")),
        };
        if goal_id == [0; 16] || self.goals.iter().any(|g| g.goal_id == goal_id) {
            return Err(IssuerError::GoalIdUsed {
                command_id: self.command.command_id.clone(),
            });
        }
        self.segment = next;
        self.looks = 0;
        self.goals.push(SegmentGoal {
            segment: next,
            goal_id,
        });
        if next == 0 {
            self.times.dispatched = now.ros;
        }
        self.watch = Watch {
            dispatched: now.steady,
            last_sign: now.steady,
            last_query: now.steady,
            running: now.steady,
            ..self.watch
        };
        self.enter(if next == 0 {
            CommandState::Dispatched
        } else {
            CommandState::Running
        });
        Ok(vec![
            IssuerEffect::Persist,
            self.note(
                EventKind::Dispatched,
                format!("{} goes to {}", self.command.skill, self.action_name),
                json!({"goal_id": hex(&goal_id), "segment": next}),
            ),
            IssuerEffect::Send {
                segment: next,
                goal_id,
            },
        ])
    }

    /// True when another segment has to be dispatched: a PROCESS verdict of this one, no cancel, and a
    /// segment left.
    pub fn next_segment_is_due(&self) -> bool {
        self.verdict
            .as_ref()
            .is_some_and(|v| v.outcome == Outcome::Process && v.segment == self.segment)
            && !self.cancel_requested()
            && self.segment + 1 < self.max_segments
    }

    fn expired(&mut self, reason: String, now: Now) -> Result<Vec<IssuerEffect>, IssuerError> {
        if self.state != CommandState::Committed {
            return Err(self.illegal("expire"));
        }
        Ok(self.end(
            CommandState::Rejected,
            Some((ErrorCode::ExpiredCommand, reason)),
            now,
        ))
    }

    fn acknowledged(&mut self, now: Now) -> Result<Vec<IssuerEffect>, IssuerError> {
        match self.state {
            CommandState::Dispatched => {
                self.watch.last_sign = now.steady;
                self.times.received = now.ros;
                self.enter(CommandState::Accepted);
                Ok(vec![
                    IssuerEffect::Persist,
                    self.note(
                        EventKind::Accepted,
                        format!("{} has it", self.executor),
                        Value::Null,
                    ),
                ])
            }
            // The first cancel may have reached the server before the goal did: ask again now that the
            // goal is known there.
            CommandState::Canceling => {
                self.watch.last_sign = now.steady;
                Ok(self.cancel_effects(now))
            }
            CommandState::Accepted
            | CommandState::Running
            | CommandState::Evaluating
            | CommandState::Succeeded
            | CommandState::Failed
            | CommandState::Canceled
            | CommandState::Rejected
            | CommandState::Unknown
            | CommandState::Reconciling => self.late(),
            CommandState::Unspecified | CommandState::Proposed | CommandState::Committed => {
                Err(self.illegal("acknowledge"))
            }
        }
    }

    fn goal_refused(
        &mut self,
        code: ErrorCode,
        reason: String,
        now: Now,
    ) -> Result<Vec<IssuerEffect>, IssuerError> {
        match self.state {
            CommandState::Dispatched | CommandState::Accepted => {
                Ok(self.end(CommandState::Rejected, Some((code, reason)), now))
            }
            // Refused means that nothing was started, which is all that a cancel wants.
            CommandState::Canceling => Ok(self.end(
                CommandState::Canceled,
                Some((
                    ErrorCode::Canceled,
                    format!("canceled; the executor started nothing: {reason}"),
                )),
                now,
            )),
            // A later segment was refused: what the earlier ones did to the world is not known.
            CommandState::Running => Ok(self.unknown(code, reason, now)),
            CommandState::Evaluating
            | CommandState::Succeeded
            | CommandState::Failed
            | CommandState::Canceled
            | CommandState::Rejected
            | CommandState::Unknown
            | CommandState::Reconciling => self.late(),
            CommandState::Unspecified | CommandState::Proposed | CommandState::Committed => {
                Err(self.illegal("refuse the goal"))
            }
        }
    }

    fn status(&mut self, status: SkillStatus, now: Now) -> Result<Vec<IssuerEffect>, IssuerError> {
        if status.command_id != self.command.command_id {
            return Err(IssuerError::OtherCommand {
                command_id: self.command.command_id.clone(),
                found: status.command_id,
            });
        }
        match self.state {
            CommandState::Unspecified | CommandState::Proposed | CommandState::Committed => {
                return Err(self.illegal("take a status"))
            }
            state if state.is_terminal() => return self.late(),
            _ => {}
        }
        self.watch.last_sign = now.steady;
        if let Some(known) = &self.status {
            // An accepted command may still be rejected, when a server is missing for example; that is the
            // only step to a smaller number.
            let rejected = status.state == ExecutorState::Rejected
                && known.state == ExecutorState::Accepted
                && status.segment == known.segment;
            let backwards =
                !rejected && (status.segment, status.state) < (known.segment, known.state);
            if status.sequence <= known.sequence || backwards {
                return self.late();
            }
        }
        let first_start = self.times.started.is_never()
            && matches!(
                status.state,
                ExecutorState::Started | ExecutorState::Canceling | ExecutorState::Ended
            )
            && !status.run_id.is_empty();
        if !status.run_id.is_empty() {
            self.run_id.clone_from(&status.run_id);
        }
        if self.times.received.is_never() {
            self.times.received = or(status.received_at, now.ros);
        }
        let mut effects = Vec::new();
        if first_start {
            self.times.started = or(status.started_at, now.ros);
            self.watch.running = now.steady;
            effects.push(self.note(
                EventKind::Started,
                format!("{} has begun", self.command.skill),
                Value::Null,
            ));
        }
        self.status = Some(status.clone());
        let more = match status.state {
            ExecutorState::Unspecified => Vec::new(),
            ExecutorState::Received | ExecutorState::Accepted => {
                if self.state == CommandState::Dispatched {
                    self.enter(CommandState::Accepted);
                    vec![
                        IssuerEffect::Persist,
                        self.note(
                            EventKind::Accepted,
                            format!("{} has it", self.executor),
                            Value::Null,
                        ),
                    ]
                } else {
                    Vec::new()
                }
            }
            ExecutorState::Started => {
                if matches!(
                    self.state,
                    CommandState::Dispatched | CommandState::Accepted
                ) {
                    self.enter(CommandState::Running);
                    vec![IssuerEffect::Persist]
                } else {
                    Vec::new()
                }
            }
            ExecutorState::Rejected => {
                let code =
                    ErrorCode::from_code(status.error_code).unwrap_or(ErrorCode::GoalRejected);
                self.goal_refused(code, status.error_msg, now)?
            }
            ExecutorState::Canceling => {
                // Not our cancel: a stop, a lost lease, a time limit or a person.
                if matches!(
                    self.state,
                    CommandState::Dispatched | CommandState::Accepted | CommandState::Running
                ) {
                    self.times.cancel_requested = or(status.cancel_requested_at, now.ros);
                    self.watch.cancel_requested = now.steady;
                    self.watch.last_cancel = now.steady;
                    self.enter(CommandState::Canceling);
                    vec![
                        IssuerEffect::Persist,
                        self.note(
                            EventKind::CancelRequested,
                            if status.error_msg.is_empty() {
                                format!("by {} itself, until the robot stands still", self.executor)
                            } else {
                                format!("by {} itself: {}", self.executor, status.error_msg)
                            },
                            Value::Null,
                        ),
                    ]
                } else {
                    Vec::new()
                }
            }
            ExecutorState::Ended => self.control_ended(&status, now),
            // Somebody settled it at the executor; what was decided there is not told.
            ExecutorState::Settled => {
                if self.state == CommandState::Evaluating {
                    Vec::new()
                } else {
                    self.unknown(
                        ErrorCode::ResultLost,
                        format!(
                            "{} has settled the command without us; say what became of it with settle_command",
                            status.executor
                        ),
                        now,
                    )
                }
            }
        };
        effects.extend(more);
        Ok(effects)
    }

    fn control_ended(&mut self, status: &SkillStatus, now: Now) -> Vec<IssuerEffect> {
        let from_unknown = matches!(
            self.state,
            CommandState::Unknown | CommandState::Reconciling
        );
        self.times.control_ended = or(status.ended_at, now.ros);
        if status.stop_confirmed() {
            self.times.stop_confirmed = or(status.stop_confirmed_at, now.ros);
        }
        if status.error_code != 0 {
            self.error_code = status.error_code;
            self.error_msg.clone_from(&status.error_msg);
        } else if from_unknown {
            self.error_code = 0;
            self.error_msg.clear();
        }
        let mut effects = vec![self.note(
            EventKind::ControlEnded,
            format!("control ended: {:?}", status.control_end).to_lowercase(),
            json!({
                "control_end": status.control_end,
                "error_code": status.error_code,
                "error_msg": status.error_msg,
                "native": status.native_outcome,
            }),
        )];
        // A run that ended after it was given up is looked at again, under the same claim.
        if from_unknown && self.state == CommandState::Unknown {
            self.enter(CommandState::Reconciling);
        }
        let never_started =
            status.started_at.is_never() && status.native_outcome.action_name.is_empty();
        match status.control_end {
            ControlEnd::Completed | ControlEnd::Aborted | ControlEnd::Preempted => {
                effects.extend(self.evaluate(status, now));
            }
            ControlEnd::Canceled if status.stop_confirmed() || never_started => {
                if self.cancel_requested() {
                    effects.push(self.note(
                        EventKind::StopConfirmed,
                        if never_started {
                            "nothing had been started".into()
                        } else {
                            "standstill was measured".into()
                        },
                        Value::Null,
                    ));
                } else {
                    self.times.cancel_requested = or(status.cancel_requested_at, now.ros);
                }
                let why = if self.error_msg.is_empty() {
                    "canceled".to_owned()
                } else {
                    self.error_msg.clone()
                };
                let code = ErrorCode::from_code(self.error_code)
                    .filter(|c| *c != ErrorCode::None)
                    .unwrap_or(ErrorCode::Canceled);
                effects.extend(self.end(CommandState::Canceled, Some((code, why)), now));
            }
            ControlEnd::Canceled => {
                effects.extend(self.unknown(
                    ErrorCode::StopUnconfirmed,
                    "the executor canceled, but standstill was not measured; look at the robot, then use settle_command".into(),
                    now,
                ));
            }
            ControlEnd::None | ControlEnd::Lost => {
                let (code, why) = if status.error_code == 0 {
                    (
                        ErrorCode::ResultLost,
                        "it can't be learned how control ended; look at the robot, then use settle_command".to_owned(),
                    )
                } else {
                    (
                        ErrorCode::from_code(status.error_code).unwrap_or(ErrorCode::ResultLost),
                        status.error_msg.clone(),
                    )
                };
                effects.extend(self.unknown(code, why, now));
            }
        }
        effects
    }

    fn evaluate(&mut self, status: &SkillStatus, now: Now) -> Vec<IssuerEffect> {
        self.watch.evaluating = now.steady;
        self.looks = 0;
        if self.evaluated {
            // A run that had been given up stays RECONCILING until its verdict settles it.
            if self.state != CommandState::Reconciling {
                self.enter(CommandState::Evaluating);
            }
            return vec![
                IssuerEffect::Persist,
                IssuerEffect::Evaluate {
                    run_id: self.run_id.clone(),
                    segment: status.segment,
                    look: 0,
                },
            ];
        }
        // Control's end is the result.
        if status.control_end == ControlEnd::Completed {
            self.end(CommandState::Succeeded, None, now)
        } else {
            let code =
                ErrorCode::from_code(status.error_code).unwrap_or(ErrorCode::ExecutionTimeout);
            let why = status.error_msg.clone();
            self.end(CommandState::Failed, Some((code, why)), now)
        }
    }

    fn not_found(
        &mut self,
        boot_id: &str,
        policy: &IssuerPolicy,
        now: Now,
    ) -> Result<Vec<IssuerEffect>, IssuerError> {
        match self.state {
            CommandState::Dispatched | CommandState::Canceling if self.status.is_none() => {
                // The executor journals a command before anything else, and refuses it after its start
                // budget or another start of its own. Until then the goal may still be on its way.
                let too_late = now.steady.saturating_sub(self.watch.dispatched)
                    > self.command.start_within + policy.delivery_margin;
                let restarted = !boot_id.is_empty() && boot_id != self.boot_id;
                self.watch.last_sign = now.steady;
                if !(too_late || restarted) {
                    return Ok(Vec::new());
                }
                let why = if restarted {
                    "the executor was restarted before it got the command, and its new life refuses it"
                } else {
                    "the executor never got the command, and its start budget is used up"
                };
                let (state, code) = if self.state == CommandState::Canceling {
                    (CommandState::Canceled, ErrorCode::Canceled)
                } else {
                    (CommandState::Rejected, ErrorCode::ExpiredCommand)
                };
                Ok(self.end(state, Some((code, why.into())), now))
            }
            CommandState::Accepted | CommandState::Running | CommandState::Canceling => {
                let why = format!(
                    "{} does not know the command any more although it had it; its journal is gone: look at the robot, then use settle_command",
                    self.executor
                );
                Ok(self.unknown(ErrorCode::ResultLost, why, now))
            }
            CommandState::Unspecified | CommandState::Proposed | CommandState::Committed => {
                Err(self.illegal("be not found"))
            }
            CommandState::Dispatched
            | CommandState::Evaluating
            | CommandState::Succeeded
            | CommandState::Failed
            | CommandState::Canceled
            | CommandState::Rejected
            | CommandState::Unknown
            | CommandState::Reconciling => self.late(),
        }
    }

    fn judged(
        &mut self,
        verdict: Verdict,
        policy: &IssuerPolicy,
        now: Now,
    ) -> Result<Vec<IssuerEffect>, IssuerError> {
        match self.state {
            CommandState::Evaluating | CommandState::Reconciling => {}
            state if state.is_terminal() => return self.late(),
            CommandState::Unknown | CommandState::Canceling | CommandState::Running => {
                return self.late()
            }
            _ => return Err(self.illegal("be judged")),
        }
        if verdict.run_id != self.run_id {
            return Err(IssuerError::OtherRun {
                command_id: self.command.command_id.clone(),
                run_id: self.run_id.clone(),
                found: verdict.run_id,
            });
        }
        if verdict.segment != self.segment {
            return self.late();
        }
        let reason = verdict.reason.clone();
        let outcome = verdict.outcome;
        self.times.judged = or(verdict.stamp, now.ros);
        self.sequence = self.sequence.saturating_add(1);
        let mut effects = vec![
            IssuerEffect::Persist,
            self.note(
                EventKind::Judged,
                format!("{}: {reason}", outcome_name(outcome)),
                json!({
                    "outcome": outcome,
                    "judge": verdict.judge,
                    "judge_version": verdict.judge_version,
                    "evidence": verdict.evidence.iter().map(|e| &e.summary).collect::<Vec<_>>(),
                }),
            ),
        ];
        self.verdict = Some(verdict);
        effects.extend(match outcome {
            Outcome::Success => {
                self.error_code = 0;
                self.error_msg.clear();
                self.end(CommandState::Succeeded, None, now)
            }
            Outcome::Failure => {
                let code = ErrorCode::from_code(self.error_code).unwrap_or(ErrorCode::None);
                let why = if self.error_msg.is_empty() {
                    reason
                } else {
                    format!("{reason}; control: {}", self.error_msg)
                };
                self.end(CommandState::Failed, Some((code, why)), now)
            }
            Outcome::Process if self.cancel_requested() => self.end(
                CommandState::Canceled,
                Some((
                    ErrorCode::Canceled,
                    "canceled between two segments, while nothing moved".into(),
                )),
                now,
            ),
            Outcome::Process if self.next_segment_is_due() => {
                vec![IssuerEffect::NextSegment {
                    segment: self.segment + 1,
                }]
            }
            Outcome::Process => {
                let why = format!(
                    "still not done after {} of {} segments: {reason}",
                    self.segment + 1,
                    self.max_segments
                );
                self.end(CommandState::Failed, Some((ErrorCode::None, why)), now)
            }
            Outcome::Unknown => self.look_again(reason, policy, now),
        });
        Ok(effects)
    }

    fn not_judged(
        &mut self,
        reason: String,
        policy: &IssuerPolicy,
        now: Now,
    ) -> Result<Vec<IssuerEffect>, IssuerError> {
        match self.state {
            CommandState::Evaluating | CommandState::Reconciling => {
                Ok(self.look_again(reason, policy, now))
            }
            CommandState::Unspecified
            | CommandState::Proposed
            | CommandState::Committed
            | CommandState::Dispatched
            | CommandState::Accepted => Err(self.illegal("be judged")),
            CommandState::Running
            | CommandState::Canceling
            | CommandState::Succeeded
            | CommandState::Failed
            | CommandState::Canceled
            | CommandState::Rejected
            | CommandState::Unknown => self.late(),
        }
    }

    /// Evidence was missing or contradicting: look again a bounded number of times, then UNKNOWN.
    fn look_again(&mut self, reason: String, policy: &IssuerPolicy, now: Now) -> Vec<IssuerEffect> {
        self.looks = self.looks.saturating_add(1);
        self.watch.evaluating = now.steady;
        if self.looks < policy.max_looks {
            return vec![IssuerEffect::Evaluate {
                run_id: self.run_id.clone(),
                segment: self.segment,
                look: self.looks,
            }];
        }
        let why = format!(
            "looked {} times and still can't tell: {reason}; look yourself, then use settle_command",
            self.looks
        );
        self.unknown(ErrorCode::None, why, now)
    }

    fn cancel(&mut self, reason: String, now: Now) -> Result<Vec<IssuerEffect>, IssuerError> {
        match self.state {
            CommandState::Committed => Ok(self.end(
                CommandState::Canceled,
                Some((ErrorCode::Canceled, format!("{reason}; it was never sent"))),
                now,
            )),
            CommandState::Dispatched | CommandState::Accepted | CommandState::Running => {
                self.times.cancel_requested = now.ros;
                self.watch.cancel_requested = now.steady;
                self.enter(CommandState::Canceling);
                let mut effects = vec![
                    IssuerEffect::Persist,
                    self.note(EventKind::CancelRequested, reason, Value::Null),
                ];
                effects.extend(self.cancel_effects(now));
                Ok(effects)
            }
            // Asking again never extends the budget, and is never dropped either.
            CommandState::Canceling => Ok(self.cancel_effects(now)),
            // Between two segments nothing moves, and no verdict is to be waited for.
            CommandState::Evaluating if self.next_segment_is_due() => {
                self.times.cancel_requested = now.ros;
                let why = format!("{reason}; canceled between two segments, while nothing moved");
                Ok(self.end(
                    CommandState::Canceled,
                    Some((ErrorCode::Canceled, why)),
                    now,
                ))
            }
            // Nothing moves any more: remembered, so that no further segment begins.
            CommandState::Evaluating => {
                if self.times.cancel_requested.is_never() {
                    self.times.cancel_requested = now.ros;
                    self.sequence = self.sequence.saturating_add(1);
                    return Ok(vec![
                        IssuerEffect::Persist,
                        self.note(EventKind::CancelRequested, reason, Value::Null),
                    ]);
                }
                Ok(Vec::new())
            }
            // Stopping what is not known to stand still is always right.
            CommandState::Unknown | CommandState::Reconciling => Ok(self.cancel_effects(now)),
            CommandState::Succeeded
            | CommandState::Failed
            | CommandState::Canceled
            | CommandState::Rejected => self.late(),
            CommandState::Unspecified | CommandState::Proposed => Err(self.illegal("cancel")),
        }
    }

    fn cancel_effects(&mut self, now: Now) -> Vec<IssuerEffect> {
        self.watch.last_cancel = now.steady;
        match self.goal_id() {
            Some(goal_id) => vec![IssuerEffect::CancelGoal { goal_id }],
            None => Vec::new(),
        }
    }

    fn lost(&mut self, reason: String, now: Now) -> Result<Vec<IssuerEffect>, IssuerError> {
        match self.state {
            CommandState::Dispatched
            | CommandState::Accepted
            | CommandState::Running
            | CommandState::Canceling
            | CommandState::Evaluating => Ok(self.unknown(ErrorCode::ResultLost, reason, now)),
            CommandState::Unspecified | CommandState::Proposed | CommandState::Committed => {
                Err(self.illegal("be lost"))
            }
            CommandState::Succeeded
            | CommandState::Failed
            | CommandState::Canceled
            | CommandState::Rejected
            | CommandState::Unknown
            | CommandState::Reconciling => self.late(),
        }
    }

    fn reconcile(&mut self, now: Now) -> Result<Vec<IssuerEffect>, IssuerError> {
        if self.state != CommandState::Unknown {
            return Err(self.illegal("reconcile"));
        }
        self.enter(CommandState::Reconciling);
        self.watch.last_query = now.steady;
        Ok(vec![IssuerEffect::Persist, IssuerEffect::QueryExecutor])
    }

    fn reconciled(
        &mut self,
        to: Finality,
        by: String,
        reason: String,
        now: Now,
    ) -> Result<Vec<IssuerEffect>, IssuerError> {
        match self.state {
            CommandState::Unknown | CommandState::Reconciling => {}
            CommandState::Succeeded
            | CommandState::Failed
            | CommandState::Canceled
            | CommandState::Rejected
            | CommandState::Unspecified
            | CommandState::Proposed
            | CommandState::Committed
            | CommandState::Dispatched
            | CommandState::Accepted
            | CommandState::Running
            | CommandState::Canceling
            | CommandState::Evaluating => return Err(self.illegal("be settled by a person")),
        }
        self.settled_by = by;
        let state = match to {
            Finality::Succeeded => CommandState::Succeeded,
            Finality::Failed => CommandState::Failed,
            Finality::Canceled => CommandState::Canceled,
        };
        Ok(self.end(state, Some((ErrorCode::None, reason)), now))
    }

    fn end(
        &mut self,
        state: CommandState,
        why: Option<(ErrorCode, String)>,
        now: Now,
    ) -> Vec<IssuerEffect> {
        if let Some((code, reason)) = why {
            self.fail(code, reason);
        }
        let was_sent = !self.goals.is_empty();
        self.times.settled = now.ros;
        self.enter(state);
        let text = if self.error_msg.is_empty() {
            format!("{} {}", self.command.skill, state_name(state))
        } else {
            format!(
                "{} {}: {}",
                self.command.skill,
                state_name(state),
                self.error_msg
            )
        };
        let kind = if state == CommandState::Rejected {
            EventKind::Rejected
        } else {
            EventKind::Settled
        };
        let mut effects = vec![
            IssuerEffect::Persist,
            self.note(
                kind,
                text,
                json!({"state": state, "error_code": self.error_code, "late_events": self.late_events}),
            ),
        ];
        // What the executor refused or never got has nothing to settle there.
        let to = match state {
            CommandState::Succeeded => Some(Finality::Succeeded),
            CommandState::Failed => Some(Finality::Failed),
            CommandState::Canceled => Some(Finality::Canceled),
            CommandState::Unspecified
            | CommandState::Proposed
            | CommandState::Rejected
            | CommandState::Committed
            | CommandState::Dispatched
            | CommandState::Accepted
            | CommandState::Running
            | CommandState::Evaluating
            | CommandState::Canceling
            | CommandState::Unknown
            | CommandState::Reconciling => None,
        };
        // A person settles also what the executor never told about.
        let executor_holds_it = was_sent
            && match &self.status {
                Some(status) => holds_at_executor(status),
                None => !self.settled_by.is_empty(),
            };
        if let (Some(to), true) = (to, executor_holds_it) {
            self.settle_pending = Some(to);
            self.watch.last_settle = now.steady;
            effects.push(IssuerEffect::SettleExecutor { to });
        }
        effects.push(IssuerEffect::Ended);
        effects
    }

    fn unknown(&mut self, code: ErrorCode, reason: String, now: Now) -> Vec<IssuerEffect> {
        self.fail(code, reason.clone());
        self.times.settled = now.ros;
        self.enter(CommandState::Unknown);
        vec![
            IssuerEffect::Persist,
            self.note(
                EventKind::Settled,
                format!("{} is UNKNOWN: {reason}", self.command.skill),
                json!({"state": self.state, "error_code": self.error_code, "held": self.resources}),
            ),
            IssuerEffect::Ended,
        ]
    }

    fn settle_confirmed(&mut self) -> Vec<IssuerEffect> {
        if self.settle_pending.take().is_none() {
            return Vec::new();
        }
        self.sequence = self.sequence.saturating_add(1);
        vec![IssuerEffect::Persist]
    }

    /// Takes up a stored record in a new process: its deadlines begin anew on this process's clock, the
    /// executor and the evaluator are asked again. Nothing is sent again.
    pub fn resume(&mut self, now: Now) -> Vec<IssuerEffect> {
        self.watch = Watch {
            dispatched: now.steady,
            last_sign: now.steady,
            last_query: now.steady,
            last_cancel: now.steady,
            cancel_requested: now.steady,
            running: now.steady,
            evaluating: now.steady,
            last_settle: now.steady,
            grace: RESTART_GRACE,
        };
        match self.state {
            CommandState::Dispatched
            | CommandState::Accepted
            | CommandState::Running
            | CommandState::Canceling => vec![IssuerEffect::QueryExecutor],
            CommandState::Evaluating => vec![IssuerEffect::Evaluate {
                run_id: self.run_id.clone(),
                segment: self.segment,
                look: self.looks,
            }],
            CommandState::Reconciling if self.has_ended() => vec![IssuerEffect::Evaluate {
                run_id: self.run_id.clone(),
                segment: self.segment,
                look: self.looks,
            }],
            CommandState::Unknown | CommandState::Reconciling => vec![IssuerEffect::QueryExecutor],
            CommandState::Succeeded | CommandState::Failed | CommandState::Canceled => self
                .settle_pending
                .map(|to| IssuerEffect::SettleExecutor { to })
                .into_iter()
                .collect(),
            CommandState::Unspecified
            | CommandState::Proposed
            | CommandState::Committed
            | CommandState::Rejected => Vec::new(),
        }
    }

    fn tick(&mut self, policy: &IssuerPolicy, now: Now) -> Vec<IssuerEffect> {
        let since = |then: Duration| now.steady.saturating_sub(then);
        match self.state {
            CommandState::Dispatched | CommandState::Accepted | CommandState::Running => {
                if since(self.watch.last_sign) > policy.lost_after {
                    let (code, what) = if self.state == CommandState::Dispatched {
                        (ErrorCode::AcknowledgementLost, "no acknowledgement came")
                    } else {
                        (ErrorCode::ResultLost, "no sign of it came")
                    };
                    let why = format!(
                        "{what} from {} for {:.0} s (limit {:.0} s), also not when asked: it may still be running; look at the robot, then use settle_command",
                        self.executor,
                        since(self.watch.last_sign).as_secs_f64(),
                        policy.lost_after.as_secs_f64()
                    );
                    let mut effects = self.cancel_effects(now);
                    effects.extend(self.unknown(code, why, now));
                    return effects;
                }
                let limit =
                    self.execution_timeout + self.command.stop_timeout() + policy.delivery_margin;
                if self.state == CommandState::Running && since(self.watch.running) > limit {
                    let why = format!(
                        "the executor has run it for {:.0} s, the limit is {:.0} s",
                        since(self.watch.running).as_secs_f64(),
                        self.execution_timeout.as_secs_f64()
                    );
                    // Cannot fail in RUNNING; without effects the next tick asks again.
                    return self.cancel(why, now).unwrap_or_default();
                }
                self.query_if_silent(policy, now)
            }
            CommandState::Canceling => {
                let limit = self.command.stop_timeout() + policy.delivery_margin;
                let limit = if self.status.is_none() {
                    limit.max(self.command.start_within + policy.delivery_margin * 2)
                } else {
                    limit
                };
                let limit = limit + self.watch.grace;
                if since(self.watch.cancel_requested) > limit {
                    let why = format!(
                        "standstill was not confirmed within {:.1} s of the cancel; look at the robot, then use settle_command",
                        limit.as_secs_f64()
                    );
                    return self.unknown(ErrorCode::StopUnconfirmed, why, now);
                }
                let mut effects = Vec::new();
                let heard = self
                    .status
                    .as_ref()
                    .is_some_and(|s| s.state == ExecutorState::Canceling);
                if !heard && since(self.watch.last_cancel) >= policy.cancel_interval {
                    effects.extend(self.cancel_effects(now));
                }
                effects.extend(self.query_if_silent(policy, now));
                effects
            }
            CommandState::Reconciling if !self.has_ended() => Vec::new(),
            CommandState::Evaluating | CommandState::Reconciling => {
                if self.next_segment_is_due() {
                    return Vec::new();
                }
                if since(self.watch.evaluating) > policy.evaluation_timeout {
                    let why = format!(
                        "the evaluator did not answer within {:.0} s",
                        policy.evaluation_timeout.as_secs_f64()
                    );
                    return self.look_again(why, policy, now);
                }
                Vec::new()
            }
            CommandState::Succeeded | CommandState::Failed | CommandState::Canceled => {
                match self.settle_pending {
                    Some(to) if since(self.watch.last_settle) >= policy.settle_interval => {
                        self.watch.last_settle = now.steady;
                        vec![IssuerEffect::SettleExecutor { to }]
                    }
                    Some(_) | None => Vec::new(),
                }
            }
            CommandState::Unspecified
            | CommandState::Proposed
            | CommandState::Committed
            | CommandState::Rejected
            | CommandState::Unknown => Vec::new(),
        }
    }

    fn has_ended(&self) -> bool {
        self.status.as_ref().is_some_and(SkillStatus::has_ended)
    }

    fn query_if_silent(&mut self, policy: &IssuerPolicy, now: Now) -> Vec<IssuerEffect> {
        let silent = now.steady.saturating_sub(self.watch.last_sign) >= policy.silent_after;
        let due = now.steady.saturating_sub(self.watch.last_query) >= policy.silent_after;
        if silent && due {
            self.watch.last_query = now.steady;
            vec![IssuerEffect::QueryExecutor]
        } else {
            Vec::new()
        }
    }
}

/// True for a status after which the executor still claims the command's resources.
fn holds_at_executor(status: &SkillStatus) -> bool {
    match status.state {
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

fn or(stamp: Stamp, fallback: Stamp) -> Stamp {
    if stamp.is_never() {
        fallback
    } else {
        stamp
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
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

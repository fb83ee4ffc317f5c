//! What the executor tells of its control.

use eh_contract::session::EventKind;
use eh_contract::state::{CommandState, ControlEnd, ExecutorState};
use eh_contract::status::SkillStatus;
use eh_contract::ErrorCode;
use serde_json::{json, Value};

use super::{or, IssuerRecord};
use crate::issuer_error::IssuerError;
use crate::issuer_event::IssuerEffect;
use crate::issuer_policy::{IssuerPolicy, Now};

impl IssuerRecord {
    pub(super) fn status(
        &mut self,
        status: SkillStatus,
        now: Now,
    ) -> Result<Vec<IssuerEffect>, IssuerError> {
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

    pub(super) fn control_ended(&mut self, status: &SkillStatus, now: Now) -> Vec<IssuerEffect> {
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

    pub(super) fn evaluate(&mut self, status: &SkillStatus, now: Now) -> Vec<IssuerEffect> {
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

    pub(super) fn not_found(
        &mut self,
        boot_id: &str,
        policy: &IssuerPolicy,
        now: Now,
    ) -> Result<Vec<IssuerEffect>, IssuerError> {
        match self.state {
            CommandState::Dispatched | CommandState::Accepted | CommandState::Canceling
                if self.status.is_none() =>
            {
                // The executor journals a command before anything else but the acknowledgement of the goal,
                // and refuses it after its start budget or another start of its own. Until then the goal may
                // still be on its way to the journal.
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
}

//! Learn: what a finished step changes, and what follows from one that failed.

use eh_contract::command::Proposal;
use eh_contract::session::EventKind;
use eh_contract::state::{CommandState, TaskOutcome};
use eh_contract::ErrorCode;
use eh_ledger::issuer_event::IssuerEvent;
use eh_ledger::issuer_policy::Now;
use serde_json::Value;

use super::{random, Harness, Turned};
use crate::budget::{AfterFailure, Failures};
use crate::effect::Effect;
use crate::task::Phase;

impl Harness {
    pub(super) fn effects_applied(
        &mut self,
        command_id: &str,
        result: Result<(), String>,
        now: Now,
        out: &mut Vec<Effect>,
    ) {
        let Some(task) = self.task.as_mut() else {
            return self.drop_answer();
        };
        if task.command_id() != Some(command_id) {
            return self.drop_answer();
        }
        if let Phase::Learning {
            effects_pending, ..
        } = &mut task.phase
        {
            *effects_pending = false;
        }
        if let Err(reason) = result {
            // Perception goes on updating the scene; the next plan is made on what it says.
            let text = format!("the scene graph did not take the effects: {reason}");
            out.push(Effect::Warn(format!("{command_id}: {text}")));
            self.journal(EventKind::Settled, text, Value::Null, now, out);
        }
    }

    /// Goes on where a wait is over: the next segment, the end of learning.
    pub(super) fn advance(&mut self, turned: &mut Turned<'_>, out: &mut Vec<Effect>) {
        let now = turned.now;
        let Some(task) = self.task.as_ref() else {
            return;
        };
        let Some(command_id) = task.command_id().map(String::from) else {
            return;
        };
        let Some(record) = self.ledger.get(&command_id) else {
            return;
        };
        match task.phase {
            Phase::Executing if record.state == CommandState::Evaluating => {
                let goal_id = uuid::Builder::from_random_bytes(random(turned.rng))
                    .into_uuid()
                    .into_bytes();
                if record.next_segment_is_due() {
                    self.apply(&command_id, IssuerEvent::Dispatch { goal_id }, now, out);
                }
            }
            Phase::Learning {
                since,
                effects_pending,
            } => {
                let waited = now.steady.saturating_sub(since) >= self.settings.waits.learn;
                let released = record.settle_pending.is_none();
                if !waited && (effects_pending || !released) {
                    return;
                }
                if !released {
                    out.push(Effect::Warn(format!(
                        "{} did not release {command_id} within {:.0} s",
                        record.executor,
                        self.settings.waits.learn.as_secs_f64()
                    )));
                }
                self.step_done(&command_id, turned, out);
            }
            Phase::Executing
            | Phase::AwaitLease { .. }
            | Phase::Reading { .. }
            | Phase::Beginning { .. }
            | Phase::Planning { .. }
            | Phase::Waiting { .. }
            | Phase::Human { .. } => {}
        }
    }

    pub(super) fn step_done(
        &mut self,
        command_id: &str,
        turned: &mut Turned<'_>,
        out: &mut Vec<Effect>,
    ) {
        let now = turned.now;
        let Some(record) = self.ledger.get(command_id) else {
            return;
        };
        let (state, message, code) = (
            record.state,
            record.error_msg.clone(),
            ErrorCode::from_code(record.error_code),
        );
        let hopeless = self.is_hopeless(&record.command.skill, record.error_code, now);
        let Some(task) = self.task.as_mut() else {
            return;
        };
        let Some(step) = task.step.take() else { return };
        if let Some(ending) = task.ending.clone() {
            return self.finish(ending.outcome, ending.code, ending.message, now, out);
        }
        if state == CommandState::Succeeded {
            if task.budget.succeeded(&step.proposal) {
                if !shows_something(&step.effects) {
                    return self.read_scene(now, out);
                }
                let until = now.steady.saturating_add(self.settings.waits.sight);
                return task.enter(
                    Phase::Waiting { until },
                    "waits for what was seen to be in the scene",
                );
            }
            let text = format!(
                "{} has succeeded {} times with the same arguments and the task is not done: it goes round in circles",
                step.proposal.skill,
                task.budget.limits().repeats + 1
            );
            return self.finish(TaskOutcome::Failed, ErrorCode::NoPlan, text, now, out);
        }
        match code {
            Some(ErrorCode::StopLatched) => {
                self.finish(
                    TaskOutcome::Failed,
                    ErrorCode::TaskStopLatched,
                    message,
                    now,
                    out,
                );
            }
            Some(ErrorCode::OldToken | ErrorCode::ExecutorNoLease) => {
                // The token that was used is not the newest: get another before the next attempt.
                self.surroundings.lease_token = None;
                let failure = Failure {
                    code: ErrorCode::NoLease,
                    message: &message,
                    hopeless: false,
                };
                self.after_failure(&step.proposal, &failure, turned, out);
            }
            _ => {
                let failure = Failure {
                    code: ErrorCode::AttemptsExhausted,
                    message: &message,
                    hopeless,
                };
                self.after_failure(&step.proposal, &failure, turned, out);
            }
        }
    }

    /// Whether the skill's descriptor says that another attempt cannot change this failure.
    pub(super) fn is_hopeless(&self, skill: &str, error_code: u16, now: Now) -> bool {
        error_code != 0
            && self
                .surroundings
                .offer(&self.settings.robot_id, skill, now.steady)
                .is_some_and(|o| {
                    o.descriptor
                        .failure_modes
                        .iter()
                        .any(|m| m.error_code == error_code && !m.recoverable)
                })
    }

    pub(super) fn after_failure(
        &mut self,
        proposal: &Proposal,
        failure: &Failure<'_>,
        turned: &mut Turned<'_>,
        out: &mut Vec<Effect>,
    ) {
        let now = turned.now;
        let Failure { code, message, .. } = *failure;
        let Some(task) = self.task.as_mut() else {
            return;
        };
        match task.budget.failed(proposal, failure.hopeless, turned.rng) {
            AfterFailure::Wait(wait) => task.enter(
                Phase::Waiting {
                    until: now.steady.saturating_add(wait),
                },
                format!(
                    "{} did not work ({message}); plans again in {:.1} s",
                    proposal.skill,
                    wait.as_secs_f64()
                ),
            ),
            // The planner may know another way; the same step is not taken again.
            AfterFailure::Exhausted(failures) if code == ErrorCode::AttemptsExhausted => task
                .enter(
                    Phase::Waiting { until: now.steady },
                    format!(
                        "{} {} ({message}); looks for another way",
                        proposal.skill,
                        said(failures)
                    ),
                ),
            AfterFailure::Exhausted(failures) => {
                self.exhausted(proposal, code, failures, message, now, out);
            }
        }
    }

    /// Ends the task: a step has used up its attempts.
    pub(super) fn exhausted(
        &mut self,
        proposal: &Proposal,
        code: ErrorCode,
        failures: Failures,
        message: &str,
        now: Now,
        out: &mut Vec<Effect>,
    ) {
        let moved = self.task.as_ref().is_some_and(|t| t.moved);
        let outcome = if moved {
            TaskOutcome::Failed
        } else {
            TaskOutcome::Rejected
        };
        let text = format!(
            "{} {} {}; the last one: {message}",
            proposal.skill,
            Value::Object(proposal.arguments.clone()),
            said(failures)
        );
        self.finish(outcome, code, text, now, out);
    }
}

/// A failed step as the budget counts it.
pub(super) struct Failure<'a> {
    /// Code of the task where it ends because of this.
    pub code: ErrorCode,
    pub message: &'a str,
    /// Another attempt cannot change it.
    pub hopeless: bool,
}

fn said(failures: Failures) -> String {
    let attempts = failures.attempts;
    if failures.hopeless {
        "failed in a way that another attempt cannot change".into()
    } else {
        format!("did not work in {attempts} attempts, which is the limit")
    }
}

/// Whether a step's declared effects bring something into view.
fn shows_something(effects: &Value) -> bool {
    effects
        .get("add")
        .and_then(Value::as_array)
        .is_some_and(|added| added.iter().any(|p| p.get("visible").is_some()))
}

//! Execute and judge: what becomes of the commands.

use eh_contract::command::Envelope;
use eh_contract::session::StepReport;
use eh_contract::state::{CommandState, ExecutorState, TaskOutcome};
use eh_contract::status::SkillStatus;
use eh_contract::ErrorCode;
use eh_ledger::issuer::state_name;
use eh_ledger::issuer_event::{IssuerEffect, IssuerEvent};
use eh_ledger::issuer_policy::Now;

use super::{Harness, LEASE_PERIOD};
use crate::effect::{Effect, GoalRequest};
use crate::task::{report, Phase};

impl Harness {
    pub(super) fn status(&mut self, status: SkillStatus, now: Now, out: &mut Vec<Effect>) {
        let Some(record) = self.ledger.get(&status.command_id) else {
            // Another issuer's, or one that is long settled.
            return;
        };
        if record.state.is_terminal() {
            if status.state == ExecutorState::Settled && record.settle_pending.is_some() {
                let id = status.command_id;
                self.apply(&id, IssuerEvent::SettleConfirmed, now, out);
            }
            return;
        }
        // The array on the topic repeats what feedback and result have said: that is not late news.
        if record
            .status
            .as_ref()
            .is_some_and(|known| status.sequence < known.sequence)
        {
            return;
        }
        if let Some(task) = &mut self.task {
            if task.command_id() == Some(status.command_id.as_str())
                && record.status.as_ref() != Some(&status)
            {
                task.dirty = true;
            }
        }
        let id = status.command_id.clone();
        self.apply(&id, IssuerEvent::Status(Box::new(status)), now, out);
    }

    /// Applies an event to a command and performs what follows.
    pub(super) fn apply(
        &mut self,
        command_id: &str,
        event: IssuerEvent,
        now: Now,
        out: &mut Vec<Effect>,
    ) {
        let before = self.ledger.get(command_id).map(|r| r.state);
        match self
            .ledger
            .apply(command_id, event, &self.settings.policy, now)
        {
            Ok(effects) => self.perform(command_id, effects, now, out),
            Err(error) => out.push(Effect::Warn(error.to_string())),
        }
        let after = self.ledger.get(command_id).map(|r| r.state);
        if before != after {
            if let Some(task) = self.task.as_mut() {
                if task.command_id() == Some(command_id) {
                    task.dirty = true;
                }
            }
            let settled = matches!(
                before,
                Some(CommandState::Unknown | CommandState::Reconciling)
            );
            if settled && after.is_some_and(CommandState::is_terminal) {
                self.close_settle_request(command_id, out);
            }
        }
    }

    pub(super) fn perform(
        &mut self,
        command_id: &str,
        effects: Vec<IssuerEffect>,
        now: Now,
        out: &mut Vec<Effect>,
    ) {
        for effect in effects {
            let Some(record) = self.ledger.get(command_id) else {
                return;
            };
            match effect {
                IssuerEffect::Persist => {
                    out.push(Effect::SaveCommand(Box::new(record.clone())));
                }
                IssuerEffect::Send { segment, goal_id } => {
                    let beacon = self
                        .surroundings
                        .offer(&self.settings.robot_id, &record.command.skill, now.steady)
                        .map(|o| o.beacon.clone());
                    out.push(Effect::SendGoal(Box::new(GoalRequest {
                        action_name: record.action_name.clone(),
                        goal_id,
                        segment,
                        command: record.command.clone(),
                        envelope: Envelope {
                            fencing_token: self.surroundings.lease_token.unwrap_or(0),
                            controller_id: self.settings.controller_id.clone(),
                            start_within: record.command.start_within,
                            beacon,
                        },
                    })));
                }
                IssuerEffect::CancelGoal { goal_id } => out.push(Effect::CancelGoal {
                    command_id: command_id.into(),
                    action_name: record.action_name.clone(),
                    goal_id,
                }),
                IssuerEffect::QueryExecutor => out.push(Effect::QueryExecutor {
                    command_id: command_id.into(),
                    executor: record.executor.clone(),
                }),
                IssuerEffect::Evaluate {
                    run_id,
                    segment,
                    look,
                } => {
                    let effect = Effect::Evaluate {
                        command_id: command_id.into(),
                        run_id,
                        segment,
                    };
                    if look == 0 {
                        out.push(effect);
                    } else {
                        let due = now.steady.saturating_add(self.settings.waits.look);
                        self.looks.push((due, effect));
                    }
                }
                // The next segment is dispatched by `advance`, which has the randomness for its UUID.
                IssuerEffect::NextSegment { .. } => {}
                IssuerEffect::SettleExecutor { to } => {
                    let person = !record.settled_by.is_empty();
                    out.push(Effect::SettleExecutor {
                        command_id: command_id.into(),
                        executor: record.executor.clone(),
                        to,
                        settled_by: if person {
                            record.settled_by.clone()
                        } else {
                            self.settings.controller_id.clone()
                        },
                        reason: if record.error_msg.is_empty() {
                            state_name(record.state).into()
                        } else {
                            record.error_msg.clone()
                        },
                        fencing_token: if person { 0 } else { self.last_token },
                    });
                }
                IssuerEffect::Note(note) => {
                    let task_id = record.command.task_id.clone();
                    let plan_version = record.command.plan_version;
                    self.note(&task_id, plan_version, note, now, out);
                }
                IssuerEffect::Ended => self.command_ended(command_id, now, out),
            }
        }
    }

    pub(super) fn command_ended(&mut self, command_id: &str, now: Now, out: &mut Vec<Effect>) {
        let Some(record) = self.ledger.get(command_id) else {
            return;
        };
        let state = record.state;
        if state == CommandState::Unknown {
            self.ask_to_settle(command_id, now, out);
        }
        let Some(record) = self.ledger.get(command_id) else {
            return;
        };
        let Some(task) = self.task.as_mut() else {
            return;
        };
        let Some(step) = task
            .step
            .clone()
            .filter(|s| s.command_id == command_id && task.phase == Phase::Executing)
        else {
            return;
        };
        let refused_without_lease = state == CommandState::Rejected
            && record.error_code == ErrorCode::ExecutorNoLease.code();
        if refused_without_lease {
            let held = self.surroundings.lease_token.is_some() && task.ending.is_none();
            let since = *task.lease_unheard.get_or_insert(now.steady);
            if held && now.steady.saturating_sub(since) < self.settings.waits.lease {
                // An executor that was just started hears of the lease in a moment. Nothing began, so
                // that this is neither a step nor an attempt.
                let text = format!(
                    "{} has not heard of the control lease yet: waits for it",
                    record.executor
                );
                task.step = None;
                task.budget.give_back_step();
                let until = now.steady.saturating_add(LEASE_PERIOD);
                return task.enter(Phase::Waiting { until }, text);
            }
        } else {
            task.lease_unheard = None;
        }
        let report = report(&step, record, now);
        let verdict = record.verdict.clone();
        let message = record.error_msg.clone();
        if state == CommandState::Unknown {
            self.add_step(report, now, out);
            let text = format!(
                "{} ({command_id}) could not be settled: {message}",
                step.proposal.skill
            );
            return self.finish(
                TaskOutcome::Unknown,
                ErrorCode::CommandUnknown,
                text,
                now,
                out,
            );
        }
        let effects_pending = match (state, verdict) {
            (CommandState::Succeeded, Some(verdict)) => {
                out.push(Effect::ApplyEffects {
                    command_id: command_id.into(),
                    verdict: Box::new(verdict),
                    effects: step.effects.clone(),
                });
                true
            }
            _ => false,
        };
        task.enter(
            Phase::Learning {
                since: now.steady,
                effects_pending,
            },
            format!("{} {}", step.proposal.skill, state_name(state)),
        );
        self.add_step(report, now, out);
    }

    pub(super) fn add_step(&mut self, report: StepReport, now: Now, out: &mut Vec<Effect>) {
        if let Some(task) = self.task.as_mut() {
            task.record.steps.push(report.clone());
            task.finished.push(report);
            task.dirty = true;
            task.save(now, out);
        }
    }
}

//! What the harness does with the issuer's ledger.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use eh_contract::state::CommandState;

use super::explorer::put;
use super::world::{identify_status, Action, Message, World};
use crate::issuer::{Issue, IssuerRecord};
use crate::issuer_event::{Finality, IssuerEffect, IssuerEvent};
use crate::issuer_ledger::IssuerLedger;

/// The harness while it runs; all of it is lost in a crash.
#[derive(Clone, Default)]
pub(super) struct Issuer {
    pub(super) ledger: Arc<IssuerLedger>,
    /// Effects that are not performed yet.
    pub(super) effects: VecDeque<(usize, IssuerEffect)>,
    /// Of each command: the beacon that it carries.
    pub(super) beacons: Vec<(usize, u8, u32)>,
}

impl Issuer {
    pub(super) fn is_idle(&self) -> bool {
        self.effects.is_empty()
    }
}

impl World {
    pub(super) fn issuer_actions(&self, out: &mut Vec<Action>) {
        let Some(issuer) = &self.issuer else {
            out.push(Action::IssuerStarts);
            return;
        };
        if self.budget.issuer_crashes > 0 {
            out.push(Action::IssuerCrashes);
        }
        // One thread: what an event brought about is done before the next one is looked at.
        if !issuer.is_idle() {
            out.push(Action::IssuerPerforms);
            return;
        }
        for (i, command) in self.commands.iter().enumerate() {
            let Some(record) = issuer.ledger.get(&command.command_id) else {
                let free = issuer
                    .ledger
                    .held(&self.wanted[i].resources)
                    .next()
                    .is_none();
                // A command that was stored is never proposed as a new one: the store knows its id.
                if free && self.executor.is_some() && self.issuer_disk[i].is_none() {
                    out.push(Action::Commit(i));
                }
                continue;
            };
            match record.state {
                CommandState::Committed => {
                    out.push(Action::Dispatch(i));
                    if self.budget.mistakes > 0 {
                        out.push(Action::DispatchUnderUsedUuid(i));
                    }
                }
                CommandState::Unknown => {
                    out.push(Action::Reconcile(i));
                    if self.budget.persons > 0 {
                        out.push(Action::PersonSettles(i, Finality::Failed));
                        out.push(Action::PersonSettles(i, Finality::Succeeded));
                    }
                }
                CommandState::Unspecified
                | CommandState::Proposed
                | CommandState::Rejected
                | CommandState::Dispatched
                | CommandState::Accepted
                | CommandState::Running
                | CommandState::Evaluating
                | CommandState::Canceling
                | CommandState::Succeeded
                | CommandState::Failed
                | CommandState::Canceled
                | CommandState::Reconciling => {}
            }
            if self.budget.cancels > 0 {
                out.push(Action::Cancel(i));
            }
            if self.budget.stray_verdicts > 0 && self.executor_disk[i].is_some() {
                out.push(Action::StrayVerdict(i));
            }
        }
    }

    /// The gate has let it pass: proposed and committed.
    pub(super) fn commit(&mut self, i: usize) -> Result<(), String> {
        let now = self.now();
        let (Some(issuer), Some(executor)) = (&mut self.issuer, &self.executor) else {
            return Ok(());
        };
        let issue = Issue {
            command: self.commands[i].clone(),
            action_name: "x/execute_skill".into(),
            executor: "/x".into(),
            boot_id: format!("boot{}", executor.boot),
            resources: self.wanted[i].resources.clone(),
            evaluated: self.wanted[i].evaluated,
            max_segments: 0,
            maximum_duration: std::time::Duration::from_secs(20),
        };
        issuer
            .beacons
            .push((i, executor.boot, self.seconds - executor.born));
        Arc::make_mut(&mut issuer.ledger)
            .propose(issue, now)
            .map_err(|e| e.to_string())?;
        self.tell(i, IssuerEvent::Commit)
    }

    /// An event for a command; nothing happens while the harness is down or does not know it.
    pub(super) fn tell(&mut self, i: usize, event: IssuerEvent) -> Result<(), String> {
        let now = self.now();
        let id = self.commands[i].command_id.clone();
        let Some(issuer) = &mut self.issuer else {
            return Ok(());
        };
        let Some(before) = issuer.ledger.get(&id).cloned() else {
            return Ok(());
        };
        let name = format!("{event:?}");
        let outcome = Arc::make_mut(&mut issuer.ledger).apply(&id, event, &self.policy, now);
        let after = issuer.ledger.get(&id).expect("it is not forgotten");
        self.witness
            .issuer_stepped(i, &before, after, outcome.is_err(), &name)?;
        if let Ok(effects) = outcome {
            issuer.effects.extend(
                effects
                    .into_iter()
                    .filter(|e| !matches!(e, IssuerEffect::Note(_) | IssuerEffect::Ended))
                    .map(|e| (i, e)),
            );
        }
        Ok(())
    }

    pub(super) fn dispatch_under_used_uuid(&mut self, i: usize) -> Result<(), String> {
        let used = self.witness.any_sent_uuid();
        match used {
            Some(goal_id) => self.tell(i, IssuerEvent::Dispatch { goal_id }),
            None => self.tell(i, IssuerEvent::Dispatch { goal_id: [0; 16] }),
        }
    }

    /// The next effect.
    pub(super) fn issuer_performs(&mut self) -> Result<(), String> {
        let Some(issuer) = &mut self.issuer else {
            return Ok(());
        };
        let Some((i, effect)) = issuer.effects.pop_front() else {
            return Ok(());
        };
        let record = issuer.ledger.get(&self.commands[i].command_id);
        match effect {
            IssuerEffect::Persist => {
                // The store refuses a UUID that stands in it under another command.
                let record = record.expect("it is not forgotten").clone();
                let stolen = record.goals.iter().any(|g| {
                    self.issuer_disk.iter().enumerate().any(|(k, other)| {
                        k != i
                            && other
                                .as_ref()
                                .is_some_and(|o| o.goals.iter().any(|h| h.goal_id == g.goal_id))
                    })
                });
                if stolen {
                    // The harness stops here, as after any failure of its disk.
                    self.issuer = None;
                    return Ok(());
                }
                self.issuer_disk[i] = Some(Arc::new(record));
            }
            IssuerEffect::Send { goal_id, .. } => {
                self.witness.sent(i, goal_id)?;
                let (_, boot, tick) = issuer
                    .beacons
                    .iter()
                    .copied()
                    .find(|b| b.0 == i)
                    .unwrap_or((i, 0, 0));
                let token = 1;
                self.net.push(Message::Send {
                    command: i,
                    goal: goal_id,
                    token,
                    boot,
                    tick,
                });
            }
            IssuerEffect::CancelGoal { goal_id } => {
                self.net.push(Message::CancelSkill { goal: goal_id });
            }
            IssuerEffect::QueryExecutor => self.net.push(Message::Query { command: i }),
            IssuerEffect::Evaluate { run_id, .. } => {
                self.net.push(Message::Evaluate {
                    command: i,
                    run: run_id,
                });
            }
            IssuerEffect::SettleExecutor { to } => {
                self.net.push(Message::Settle { command: i, to });
            }
            IssuerEffect::NextSegment { .. } | IssuerEffect::Note(_) | IssuerEffect::Ended => {}
        }
        Ok(())
    }

    /// A new process takes up what the disk holds.
    pub(super) fn issuer_starts(&mut self) {
        let now = self.now();
        let records = self.issuer_disk.iter().flatten().map(|r| (**r).clone());
        let mut ledger = IssuerLedger::restore(records);
        let effects = ledger
            .resume(now)
            .into_iter()
            .map(|(id, effect)| (self.index_of(&id), effect))
            .collect();
        // A command that was not sent yet carries the newest beacon of the life that it was made for; it
        // is sent only while that is known, as the harness does.
        self.issuer = Some(Issuer {
            ledger: Arc::new(ledger),
            effects,
            beacons: Vec::new(),
        });
    }

    pub(super) fn identify_issuer(&self, h: &mut impl Hasher) {
        match &self.issuer {
            None => put(h, &[0]),
            Some(issuer) => {
                put(h, &[1, issuer.effects.len() as u64]);
                for (i, effect) in &issuer.effects {
                    put(h, &[*i as u64]);
                    format!("{effect:?}").hash(h);
                }
                issuer.beacons.hash(h);
                for record in issuer.ledger.iter() {
                    identify_record(record, h);
                    record
                        .waits(std::time::Duration::from_secs(u64::from(self.seconds)))
                        .hash(h);
                }
            }
        }
        for record in &self.issuer_disk {
            match record {
                None => put(h, &[0]),
                Some(record) => identify_record(record, h),
            }
        }
    }
}

fn identify_record(record: &IssuerRecord, h: &mut impl Hasher) {
    put(
        h,
        &[
            u64::from(record.state.to_wire()),
            u64::from(record.segment),
            u64::from(record.looks),
            u64::from(record.cancel_requested()),
            u64::from(record.times.started.is_never()),
            u64::from(record.times.control_ended.is_never()),
            u64::from(record.settled_by.is_empty()),
            record.settle_pending.map_or(0, |s| u64::from(s.to_wire())),
            u64::from(record.error_code),
        ],
    );
    record.command.command_id.hash(h);
    record.boot_id.hash(h);
    record.run_id.hash(h);
    for goal in &record.goals {
        goal.goal_id.hash(h);
    }
    if let Some(status) = &record.status {
        identify_status(status, h);
    }
    if let Some(verdict) = &record.verdict {
        put(
            h,
            &[u64::from(verdict.outcome.to_wire()), verdict.stamp.0 as u64],
        );
    }
}

//! What must hold after every step.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use eh_contract::state::{CommandState as C, ControlEnd, ExecutorState as E};
use eh_contract::verdict::Outcome;

use super::world::{World, AT_END};
use crate::executor::{ExecutorEvent, ExecutorRecord, GoalId, Transition};
use crate::issuer::IssuerRecord;

/// What an all-seeing observer remembers.
#[derive(Clone, Debug)]
pub(super) struct Witness {
    /// UUIDs that were sent, by whom ever, with their command.
    sent: Vec<(usize, GoalId)>,
    /// Physical starts of each sub-goal of each command.
    starts: BTreeMap<(usize, u8), u8>,
    /// Final states that were durable, at the issuer and at the executor.
    final_states: Vec<(Option<C>, Option<E>)>,
    /// Illegal events by name; nothing depends on them.
    pub(super) refused: Arc<BTreeMap<String, u64>>,
}

impl Hash for Witness {
    fn hash<H: Hasher>(&self, h: &mut H) {
        self.sent.hash(h);
        self.starts.hash(h);
        self.final_states.hash(h);
    }
}

impl Witness {
    pub(super) fn new(commands: usize) -> Self {
        Witness {
            sent: Vec::new(),
            starts: BTreeMap::new(),
            final_states: vec![(None, None); commands],
            refused: Arc::default(),
        }
    }

    pub(super) fn any_sent_uuid(&self) -> Option<GoalId> {
        self.sent.last().map(|s| s.1)
    }

    /// A goal is sent.
    pub(super) fn sent(&mut self, command: usize, goal: GoalId) -> Result<(), String> {
        if goal == [0; 16] {
            return Err(format!("c{command} is sent under a UUID of zeros"));
        }
        if self.sent.iter().any(|s| s.1 == goal) {
            return Err(format!("UUID {} is sent twice", goal[0]));
        }
        self.sent.push((command, goal));
        Ok(())
    }

    /// The robot begins to move.
    pub(super) fn started(&mut self, command: usize, name: u8) -> Result<(), String> {
        let count = self.starts.entry((command, name)).or_insert(0);
        *count += 1;
        if *count > 1 {
            return Err(format!("sub-goal {name} of c{command} is started twice"));
        }
        Ok(())
    }

    fn count(&mut self, state: &str, event: &str) {
        let event: String = event.chars().take_while(|c| c.is_alphanumeric()).collect();
        *Arc::make_mut(&mut self.refused)
            .entry(format!("{state}: {event}"))
            .or_insert(0) += 1;
    }

    /// An event was given to the issuer's record.
    pub(super) fn issuer_stepped(
        &mut self,
        i: usize,
        before: &IssuerRecord,
        after: &IssuerRecord,
        refused: bool,
        event: &str,
    ) -> Result<(), String> {
        if refused {
            self.count(&format!("issuer {:?}", before.state), event);
            if before != after {
                return Err(format!("{event} is refused and changes c{i} all the same"));
            }
            return Ok(());
        }
        let said = |r: &IssuerRecord| (r.error_code, r.verdict.clone(), r.settled_by.clone());
        if before.state.is_terminal() && said(before) != said(after) {
            return Err(format!(
                "what was said of c{i} at its end is changed by {event}"
            ));
        }
        if before.state != after.state {
            if !issuer_may_go(before.state, after.state) {
                return Err(format!(
                    "c{i} goes from {:?} to {:?} by {event}",
                    before.state, after.state
                ));
            }
            if after.sequence <= before.sequence {
                return Err(format!("the sequence of c{i} does not grow by {event}"));
            }
        }
        if after.sequence < before.sequence {
            return Err(format!("the sequence of c{i} goes back by {event}"));
        }
        if let (Some(old), Some(new)) = (&before.status, &after.status) {
            if new.sequence < old.sequence {
                return Err(format!("a late status replaces a newer one of c{i}"));
            }
        }
        Ok(())
    }

    /// An event was given to the executor's record.
    pub(super) fn executor_stepped(
        &mut self,
        i: usize,
        before: &ExecutorRecord,
        transition: Option<&Transition>,
        event: &ExecutorEvent,
    ) -> Result<(), String> {
        let Some(transition) = transition else {
            self.count(&format!("executor {:?}", before.state), event.name());
            return Ok(());
        };
        let after = &transition.record;
        let grown = after.sequence == before.sequence + 1;
        if transition.changed != grown || (!transition.changed && after != before) {
            return Err(format!(
                "the sequence of c{i} at its executor does not tell of {}",
                event.name()
            ));
        }
        if before.state != after.state && !executor_may_go(before.state, after.state) {
            return Err(format!(
                "c{i} goes from {:?} to {:?} at its executor",
                before.state, after.state
            ));
        }
        Ok(())
    }
}

/// The edges of the diagram in [`crate::issuer`]'s documentation.
fn issuer_may_go(from: C, to: C) -> bool {
    match from {
        C::Unspecified | C::Succeeded | C::Failed | C::Canceled | C::Rejected => false,
        C::Proposed => matches!(to, C::Rejected | C::Committed),
        C::Committed => matches!(to, C::Dispatched | C::Canceled | C::Rejected),
        C::Dispatched | C::Accepted => matches!(
            to,
            // A status may tell of several steps at once.
            C::Accepted
                | C::Running
                | C::Evaluating
                | C::Rejected
                | C::Canceling
                | C::Unknown
                | C::Canceled
                | C::Succeeded
                | C::Failed
        ),
        C::Running => matches!(
            to,
            C::Evaluating | C::Canceling | C::Unknown | C::Canceled | C::Succeeded | C::Failed
        ),
        C::Evaluating => matches!(
            to,
            C::Succeeded | C::Failed | C::Running | C::Canceling | C::Canceled | C::Unknown
        ),
        C::Canceling => matches!(
            to,
            C::Canceled | C::Evaluating | C::Unknown | C::Succeeded | C::Failed
        ),
        C::Unknown => matches!(
            to,
            C::Reconciling | C::Succeeded | C::Failed | C::Canceled | C::Rejected
        ),
        C::Reconciling => matches!(
            to,
            C::Succeeded | C::Failed | C::Canceled | C::Unknown | C::Rejected
        ),
    }
}

/// The edges of the diagram in [`crate::executor`]'s documentation.
fn executor_may_go(from: E, to: E) -> bool {
    match from {
        E::Unspecified | E::Rejected | E::Settled => false,
        E::Received => matches!(to, E::Rejected | E::Accepted),
        E::Accepted => matches!(to, E::Rejected | E::Started | E::Ended),
        E::Started => matches!(to, E::Canceling | E::Ended),
        E::Canceling => matches!(to, E::Ended),
        E::Ended => matches!(to, E::Settled),
    }
}

impl World {
    /// Looks at everything that must hold.
    pub(super) fn check(&mut self, before: &World) -> Result<(), String> {
        self.check_what_is_stored(before)?;
        for i in 0..self.commands.len() {
            self.check_final_states(i)?;
            self.check_ends(i)?;
        }
        self.check_resources()
    }

    fn check_what_is_stored(&self, before: &World) -> Result<(), String> {
        for (i, (old, new)) in before.issuer_disk.iter().zip(&self.issuer_disk).enumerate() {
            if let (Some(old), Some(new)) = (old, new) {
                if new.sequence < old.sequence || new.goals.len() < old.goals.len() {
                    return Err(format!("the stored record of c{i} goes back"));
                }
            }
        }
        for (i, (old, new)) in before
            .executor_disk
            .iter()
            .zip(&self.executor_disk)
            .enumerate()
        {
            if let (Some(old), Some(new)) = (old, new) {
                if new.sequence < old.sequence || new.sub_goals.len() < old.sub_goals.len() {
                    return Err(format!("the journaled record of c{i} goes back"));
                }
            }
        }
        Ok(())
    }

    /// Final states never change.
    fn check_final_states(&mut self, i: usize) -> Result<(), String> {
        let issuer = self.issuer_disk[i].as_ref().map(|r| r.state);
        let executor = self.executor_disk[i].as_ref().map(|r| r.state);
        let (was, was_there) = self.witness.final_states[i];
        if was.is_some() && was != issuer {
            return Err(format!("c{i} was {was:?} for good and is {issuer:?} now"));
        }
        if was_there.is_some() && was_there != executor {
            return Err(format!(
                "c{i} was {was_there:?} for good at its executor and is {executor:?} now"
            ));
        }
        self.witness.final_states[i] = (
            issuer.filter(|s| s.is_terminal()),
            executor.filter(|s| matches!(s, E::Rejected | E::Settled)),
        );
        Ok(())
    }

    /// What an end says is true, and stays true.
    fn check_ends(&self, i: usize) -> Result<(), String> {
        let Some(record) = &self.issuer_disk[i] else {
            return Ok(());
        };
        if record.state == C::Succeeded && record.settled_by.is_empty() {
            let judged = record.verdict.as_ref().is_some_and(|v| {
                v.outcome == Outcome::Success && v.run_id == record.run_id && v.stamp >= AT_END
            });
            let completed = record
                .status
                .as_ref()
                .is_some_and(|s| s.control_end == ControlEnd::Completed);
            if !(judged || (!record.evaluated && completed)) {
                return Err(format!(
                    "c{i} is SUCCEEDED without a SUCCESS verdict from after its end"
                ));
            }
        }
        // A person may be wrong; the ledger may not. Nothing moves for a command that is over.
        if record.state.is_terminal() && record.settled_by.is_empty() {
            if let Some(motion) = self.motions.iter().find(|m| m.command == i) {
                return Err(format!(
                    "c{i} is {:?}, and its goal {} moves the robot",
                    record.state, motion.goal[0]
                ));
            }
        }
        Ok(())
    }

    /// Two commands never hold one resource, and what is not known to be over holds its own.
    fn check_resources(&self) -> Result<(), String> {
        let mut holders: Vec<(&String, usize)> = Vec::new();
        if let Some(issuer) = &self.issuer {
            for (i, command) in self.commands.iter().enumerate() {
                let wanted = &self.wanted[i].resources;
                let Some(record) = issuer.ledger.get(&command.command_id) else {
                    continue;
                };
                let held = issuer
                    .ledger
                    .held(wanted)
                    .filter(|h| h.command_id == command.command_id)
                    .count();
                let open = !record.state.is_terminal() && record.state != C::Proposed;
                if open && held != wanted.len() {
                    return Err(format!(
                        "c{i} is {:?} and does not hold its resources",
                        record.state
                    ));
                }
                if open {
                    holders.extend(wanted.iter().map(|r| (r, i)));
                }
            }
        }
        two_holders(&holders, "in the ledger")?;
        let mut holders = Vec::new();
        for (i, record) in self.executor_disk.iter().enumerate() {
            let Some(record) = record else { continue };
            let open = matches!(
                record.state,
                E::Accepted | E::Started | E::Canceling | E::Ended
            );
            if open && (!record.holds() || record.resources != self.wanted[i].resources) {
                return Err(format!(
                    "c{i} is {:?} at its executor and does not hold its resources",
                    record.state
                ));
            }
            if open {
                holders.extend(record.resources.iter().map(|r| (r, i)));
            }
        }
        two_holders(&holders, "at the executor")?;
        // What really moves, but for what a person let go of.
        let moving: Vec<(&String, usize)> = self
            .motions
            .iter()
            .filter(|m| {
                self.issuer_disk[m.command]
                    .as_ref()
                    .is_none_or(|r| r.settled_by.is_empty())
            })
            .flat_map(|m| {
                self.wanted[m.command]
                    .resources
                    .iter()
                    .map(|r| (r, m.command))
            })
            .collect();
        two_holders(&moving, "on the robot itself")
    }
}

fn two_holders(holders: &[(&String, usize)], at: &str) -> Result<(), String> {
    for (k, (resource, i)) in holders.iter().enumerate() {
        if let Some((_, j)) = holders[..k].iter().find(|(r, j)| r == resource && j != i) {
            return Err(format!("c{j} and c{i} hold {resource} {at}"));
        }
    }
    Ok(())
}

//! Commands that are UNKNOWN are worked off: by and by their executor is asked again, or, when it is known that
//! nothing of them moves any more, the evaluator, whose look is taken under their own claim.
//!
//! Until then they hold what they have claimed, here and at their executor, and a person can settle them at any
//! time.

use std::time::Duration;

use eh_contract::state::CommandState;
use eh_ledger::issuer_event::IssuerEvent;
use eh_ledger::issuer_policy::Now;

use super::Harness;
use crate::effect::Effect;

/// Longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// When a command is worked on next.
#[derive(Clone, Copy, Debug)]
pub(super) struct NextLook {
    due: Duration,
    pause: Duration,
}

impl Harness {
    pub(super) fn reconcile(&mut self, now: Now, out: &mut Vec<Effect>) {
        if self.storage_failure.is_some() || self.shutting_down {
            return;
        }
        let first = self.settings.waits.reconcile;
        let unknown: Vec<String> = self
            .ledger
            .unsettled()
            .filter(|r| r.state == CommandState::Unknown)
            .map(|r| r.command_id().to_owned())
            .collect();
        let ledger = &self.ledger;
        self.reconciliations
            .retain(|id, _| ledger.get(id).is_some_and(|r| !r.state.is_terminal()));
        for id in unknown {
            let next = self
                .reconciliations
                .entry(id.clone())
                .or_insert_with(|| NextLook {
                    due: now.steady.saturating_add(first),
                    pause: first,
                });
            if now.steady >= next.due {
                next.pause = next.pause.saturating_mul(2).min(LONGEST_PAUSE);
                next.due = now.steady.saturating_add(next.pause);
                self.apply(&id, IssuerEvent::Reconcile, now, out);
            }
        }
    }
}

//! What is looked at as time passes.

use eh_contract::skill::DisconnectPolicy;
use eh_contract::state::ExecutorState;
use eh_ledger::executor::{ExecutorRecord, StopCause};

use super::{Cx, Executor};
use crate::phase::Happening;

impl Executor {
    pub(super) fn tick(&mut self, cx: &mut Cx<'_, '_>) {
        self.watch_over(cx);
        self.write_again(cx);
        let ids: Vec<String> = self.entries.keys().cloned().collect();
        for id in ids {
            self.drive(&id, Happening::Look, cx);
        }
        self.tell_progress(cx);
    }

    /// Declares what may move the base, and stops what a latched stop or an expired lease tells to.
    fn watch_over(&mut self, cx: &mut Cx<'_, '_>) {
        let moves = |r: &&ExecutorRecord| {
            matches!(
                r.state,
                ExecutorState::Accepted | ExecutorState::Started | ExecutorState::Canceling
            )
        };
        let declare = self.live_records().any(|r| moves(&r)) && self.declare.is_due(cx.turn.now);
        let stop = cx.turn.senses.stop_latched().is_some();
        let expired = self.settings.require_lease && !self.lease_view(cx).live;
        let mut stopped = Vec::new();
        for record in self.live_records().filter(moves) {
            if declare && record.state != ExecutorState::Accepted && self.declares(record) {
                cx.give(self.declared(record, true));
            }
            // What claims nothing moves nothing.
            let cause = if record.resources.is_empty() {
                None
            } else if stop {
                Some(StopCause::Stop)
            } else if expired {
                match record.disconnect_policy {
                    DisconnectPolicy::Finish => None,
                    // To hold is to go no further: an arm whose goal is canceled keeps its position.
                    DisconnectPolicy::Hold | DisconnectPolicy::Stop => {
                        Some(StopCause::LeaseExpired)
                    }
                }
            } else {
                None
            };
            stopped.extend(cause.map(|cause| (record.command.command_id.clone(), cause)));
        }
        for (id, cause) in stopped {
            self.ask_to_stop(&id, cause, cx);
        }
    }

    fn tell_progress(&mut self, cx: &mut Cx<'_, '_>) {
        let started = |r: &&ExecutorRecord| r.state == ExecutorState::Started;
        let any = self.live_records().any(|r| started(&r));
        if !any || !self.progress.is_due(cx.turn.now) {
            return;
        }
        cx.changed = true;
        let moving: Vec<ExecutorRecord> = self.live_records().filter(started).cloned().collect();
        for record in moving {
            self.tell(&record, cx);
        }
    }
}

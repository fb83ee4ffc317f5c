//! What has to be at the end.

use std::collections::BTreeMap;
use std::time::Duration;

use eh_ledger::issuer::state_name;

use super::Referee;
use crate::context::{HarnessWrite, Outside};

/// How long after its trouble a disk has what it did not take: an executor tries once a second.
const REWRITTEN: Duration = Duration::from_millis(1200);

impl Referee {
    /// The run is over. `waits`: it was ended by its limit, and what it waited for.
    pub fn end(&mut self, outside: &mut Outside, waits: Option<String>) {
        if let Some(waits) = waits {
            self.broken(outside, "everything ends", waits);
        }
        let open: Vec<String> = self
            .issued
            .values()
            .filter(|i| !i.record.state.is_terminal() && !self.is_unknown(i.record.command_id()))
            .map(|i| {
                format!(
                    "{} ({}) is {}",
                    i.record.command_id(),
                    i.record.command.skill,
                    state_name(i.record.state)
                )
            })
            .collect();
        for what in open {
            self.broken(outside, "every command is settled", what);
        }
        let held: Vec<String> = self
            .executed
            .iter()
            .filter(|(_, r)| !r.is_terminal())
            // What a disk did not take is done all the same, and written when it takes it.
            .filter(|((process, id), _)| {
                let over = self
                    .issued
                    .get(id)
                    .is_some_and(|i| i.record.state.is_terminal());
                let disk = outside.disks.journal(*process);
                !over || !disk.was_troubled(outside.now, REWRITTEN)
            })
            .map(|((process, id), r)| format!("{process} has {id} as {:?}", r.state))
            .collect();
        for what in held {
            self.broken(outside, "every command is settled", what);
        }
        for place in outside.crashes.unnamed().clone() {
            let what = place.to_string();
            self.broken(outside, "every write and send has a name", what);
        }
        self.look_at_session_log(outside);
    }

    /// The events of each task are counted from 1 without a gap.
    fn look_at_session_log(&mut self, outside: &mut Outside) {
        let mut last: BTreeMap<String, u64> = BTreeMap::new();
        let mut gaps = Vec::new();
        for write in outside.disks.harness.durable() {
            if let HarnessWrite::Events(events) = write {
                for event in events {
                    let known = last.entry(event.task_id.clone()).or_default();
                    if event.sequence != *known + 1 {
                        gaps.push(format!(
                            "event {} of {} follows {known}",
                            event.sequence, event.task_id
                        ));
                    }
                    *known = event.sequence;
                }
            }
        }
        for what in gaps {
            self.broken(outside, "the session log has no gap", what);
        }
    }
}

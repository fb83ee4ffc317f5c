//! Start and end of the process.

use std::time::Duration;

use eh_contract::run_event::RunEventKind;
use eh_contract::state::ExecutorState;
use eh_ledger::executor::{ExecutorEvent, ExecutorRecord, StopCause};
use eh_ledger::restart::{after_restart, RestartPlan};

use super::{Cx, Entry, Executor};
use crate::effect::{Effect, Level};
use crate::phase::{Happening, Phase};
use crate::timing;

impl Executor {
    /// Decides about everything that the journal holds from an earlier life.
    pub(super) fn recover(&mut self, live: Vec<ExecutorRecord>, cx: &mut Cx<'_, '_>) {
        for record in live {
            let id = record.command.command_id.clone();
            let plan = after_restart(&record);
            let entry = Entry {
                record,
                progress: None,
                callers: Vec::new(),
                stop: None,
                phase: Phase::Over,
            };
            self.entries.insert(id.clone(), entry);
            self.tell_again(&id, cx);
            match plan {
                RestartPlan::Keep => {}
                RestartPlan::Apply(event) => self.note(&id, &event, cx),
                RestartPlan::Recover { event, open } => {
                    cx.log(
                        Level::Warn,
                        format!(
                            "command {id} was running when this executor ended, with {} open goals: they are brought to an end",
                            open.len()
                        ),
                    );
                    let cause = match event {
                        ExecutorEvent::Stop(cause) => cause,
                        _ => StopCause::Restart,
                    };
                    // Time to discover the servers and the odometry is not taken from the time to stop.
                    let until = cx.turn.now.saturating_add(timing::DISCOVERY);
                    if let Some(entry) = self.entries.get_mut(&id) {
                        entry.phase = Phase::Recovering { until, cause };
                    }
                    self.drive(&id, Happening::Look, cx);
                }
            }
        }
    }

    /// The process may have died between writing a start or an end down and telling it, and what it told
    /// late joiners has died with it. Who knows it already takes no notice.
    fn tell_again(&mut self, id: &str, cx: &mut Cx<'_, '_>) {
        let Some(record) = self.record(id).filter(|r| !r.run_id.is_empty()) else {
            return;
        };
        cx.give(self.run_event(record, RunEventKind::Start));
        if record.state == ExecutorState::Ended {
            cx.give(self.run_event(record, RunEventKind::End));
        }
    }

    /// The phase in which the servers of a command's open goals are waited for.
    pub(super) fn take_up(
        &mut self,
        id: &str,
        until: Duration,
        cause: StopCause,
        happening: Happening,
        cx: &mut Cx<'_, '_>,
    ) -> Phase {
        let Some(record) = self.record(id) else {
            return Phase::Over;
        };
        let missing = record
            .open_goals()
            .filter_map(|g| self.server_named(&g.action_name))
            .any(|server| !cx.turn.senses.is_there(server));
        // Nothing that is told now was asked for by this life.
        let looks = matches!(happening, Happening::Look);
        if !looks || (missing && cx.turn.now < until) {
            return Phase::Recovering { until, cause };
        }
        self.bring_to_standstill_from(until, id, cause, None, cx)
    }

    /// Offers nothing any more and stops what runs.
    pub(super) fn shut_down(&mut self, cx: &mut Cx<'_, '_>) {
        self.shutting_down = true;
        cx.give(Effect::PublishCatalog(Vec::new()));
        let running: Vec<String> = self
            .entries
            .iter()
            .filter(|(_, e)| !e.record.is_answered())
            .map(|(id, _)| id.clone())
            .collect();
        for id in running {
            self.ask_to_stop(&id, StopCause::ShuttingDown, cx);
        }
    }
}

//! What an earlier process left: its commands are followed, its task is gone on with.
//!
//! Nothing is sent again. A command that was never sent is dropped and the planner is asked anew; one that
//! may run is adopted by its UUID; one that has ended is learned from.

use eh_contract::session::{EventKind, TaskRecord};
use eh_contract::state::CommandState;
use eh_contract::ErrorCode;
use eh_ledger::issuer_event::{IssuerEvent, Note};
use eh_ledger::issuer_policy::Now;
use serde_json::json;

use super::Harness;
use crate::effect::Effect;
use crate::task::{Phase, Task};

impl Harness {
    pub(super) fn take_up(&mut self, now: Now, out: &mut Vec<Effect>) {
        for (id, effect) in self.ledger.resume(now) {
            self.perform(&id, vec![effect], now, out);
        }
        self.task = self.resumable(now);
        if let Some(task) = &self.task {
            self.surroundings.expect(task.executors.iter().cloned());
        }
        let adopted = self
            .task
            .as_ref()
            .filter(|t| t.ending.is_none())
            .and_then(|t| t.command_id())
            .map(String::from);
        let states: Vec<(String, CommandState)> = self
            .ledger
            .unsettled()
            .map(|r| (r.command_id().to_owned(), r.state))
            .collect();
        for (id, state) in states {
            let reason = "the harness was restarted".to_owned();
            match state {
                CommandState::Proposed => {
                    self.drop_step(&id);
                    let event = IssuerEvent::Refuse {
                        code: ErrorCode::TaskShuttingDown,
                        reason,
                    };
                    self.apply(&id, event, now, out);
                }
                CommandState::Committed => {
                    self.drop_step(&id);
                    self.apply(&id, IssuerEvent::Expired { reason }, now, out);
                }
                CommandState::Dispatched | CommandState::Accepted | CommandState::Running
                    if adopted.as_deref() != Some(id.as_str()) =>
                {
                    self.apply(&id, IssuerEvent::CancelRequested { reason }, now, out);
                }
                CommandState::Unknown => self.ask_to_settle(&id, now, out),
                CommandState::Dispatched
                | CommandState::Accepted
                | CommandState::Running
                | CommandState::Unspecified
                | CommandState::Rejected
                | CommandState::Evaluating
                | CommandState::Canceling
                | CommandState::Succeeded
                | CommandState::Failed
                | CommandState::Canceled
                | CommandState::Reconciling => {}
            }
        }
        self.go_on(now, out);
        self.end_interrupted(now, out);
    }

    /// The one task that is gone on with; the others end when their commands have.
    fn resumable(&mut self, now: Now) -> Option<Task> {
        if !self.settings.resume_tasks || self.interrupted.is_empty() {
            return None;
        }
        match Task::restored(self.interrupted.remove(0), self.settings.limits, now) {
            Ok(task) => Some(task),
            Err(record) => {
                let record: TaskRecord = *record;
                self.interrupted.insert(0, record);
                None
            }
        }
    }

    /// The command of the task's step was never sent: it was no step.
    fn drop_step(&mut self, command_id: &str) {
        if let Some(task) = self
            .task
            .as_mut()
            .filter(|t| t.command_id() == Some(command_id))
        {
            task.step = None;
            task.budget.give_back_step();
        }
    }

    fn go_on(&mut self, now: Now, out: &mut Vec<Effect>) {
        let Some(task) = self.task.as_mut() else {
            return;
        };
        // Written down before its command was: then there is no command.
        if let Some(id) = task.command_id().map(String::from) {
            if self.ledger.get(&id).is_none() {
                self.drop_step(&id);
            }
        }
        let Some(task) = self.task.as_mut() else {
            return;
        };
        let dry_run = task.record.request.dry_run;
        let command = task.command_id().and_then(|id| self.ledger.get(id));
        let text = match command {
            Some(command) => format!(
                "the harness was restarted: goes on with {}",
                command.command.skill
            ),
            None => "the harness was restarted: goes on with the next step".to_owned(),
        };
        let payload = json!({
            "steps": task.budget.steps(),
            "elapsed": task.budget.elapsed(now.steady).as_secs_f64(),
        });
        let running = command.map(|c| (c.command_id().to_owned(), c.state));
        task.text.clone_from(&text);
        let note = Note {
            kind: EventKind::TaskResumed,
            command_id: running
                .as_ref()
                .map(|(id, _)| id.clone())
                .unwrap_or_default(),
            run_id: String::new(),
            text,
            payload,
        };
        let (task_id, plan_version) = (task.id().to_owned(), task.plan_version());
        self.note(&task_id, plan_version, note, now, out);
        let Some(task) = self.task.as_mut() else {
            return;
        };
        match running {
            Some((id, state)) => {
                task.phase = Phase::Executing;
                // Its executor stops it when nobody holds the lease.
                out.push(Effect::AcquireLease);
                let ended = state.is_terminal() || state == CommandState::Unknown;
                let reported = task.record.steps.last().is_some_and(|s| s.command_id == id);
                if ended && reported {
                    // Its report is written; what follows from it is done again.
                    task.record.steps.pop();
                }
                if ended {
                    self.command_ended(&id, now, out);
                }
            }
            None => match task.ending.clone() {
                Some(ending) => self.finish(ending.outcome, ending.code, ending.message, now, out),
                None if task.program.is_none() || dry_run => self.read_scene(now, out),
                None => self.await_lease(now, out),
            },
        }
    }
}

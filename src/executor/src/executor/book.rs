//! The records in memory.

use eh_contract::state::ControlEnd;
use eh_contract::status::SkillStatus;
use eh_ledger::executor::{ExecutorRecord, GoalId};

use super::{Cx, Entry, Executor, RECENT};
use crate::effect::{Answer, AnswerStatus, Effect};
use crate::event::Caller;
use crate::journal::{Journal, JournalFailure};
use crate::server::Server;

impl Executor {
    /// A record in memory: live, or one of the last settled ones.
    pub(super) fn record(&self, command_id: &str) -> Option<&ExecutorRecord> {
        let live = self.entries.get(command_id).map(|e| &e.record);
        let recent = || {
            self.recent
                .iter()
                .find(|r| r.command.command_id == command_id)
        };
        live.or_else(recent)
    }

    /// A record wherever it is.
    ///
    /// # Errors
    /// [`JournalFailure`] when the journal can't be read.
    pub fn find(
        &self,
        command_id: &str,
        journal: &dyn Journal,
    ) -> Result<Option<ExecutorRecord>, JournalFailure> {
        match self.record(command_id) {
            Some(record) => Ok(Some(record.clone())),
            None => journal.get(command_id),
        }
    }

    /// Every record that is not settled.
    pub fn live_records(&self) -> impl Iterator<Item = &ExecutorRecord> {
        self.entries.values().map(|e| &e.record)
    }

    /// A record as it is told to others.
    pub fn status_of(&self, record: &ExecutorRecord) -> SkillStatus {
        let progress = self
            .entries
            .get(&record.command.command_id)
            .and_then(|e| e.progress);
        record.status(&self.settings.name, &self.boot_id, progress)
    }

    pub(super) fn statuses(&self) -> Vec<SkillStatus> {
        let live = self.live_records();
        live.chain(self.recent.iter())
            .map(|r| self.status_of(r))
            .collect()
    }

    pub(super) fn set_progress(&mut self, id: &str, progress: f64) {
        if let Some(entry) = self.entries.get_mut(id) {
            if progress.is_finite() {
                entry.progress = Some(progress.clamp(0.0, 1.0));
            }
        }
    }

    /// The command that sent a goal.
    pub(super) fn owner(&self, goal_id: &GoalId) -> Option<String> {
        let sent = |e: &Entry| e.record.sub_goal(goal_id).is_some();
        let found = self.entries.iter().find(|(_, e)| sent(e));
        found.map(|(id, _)| id.clone())
    }

    /// The server of this executor that has this name in the journal.
    pub(super) fn server_named(&self, action: &str) -> Option<Server> {
        let found = self.settings.actions.iter().find(|(_, a)| *a == action);
        found.map(|(server, _)| *server)
    }

    /// Keeps a record that is durable, or ends something.
    pub(super) fn install(&mut self, record: ExecutorRecord) {
        let id = &record.command.command_id;
        if record.is_terminal() {
            self.recent.retain(|r| &r.command.command_id != id);
            self.recent.push_front(record);
            self.recent.truncate(RECENT);
        } else if let Some(entry) = self.entries.get_mut(id) {
            entry.record = record;
        }
    }

    /// Tells the clients of a command that it has changed; those of one that has its answer get it.
    pub(super) fn tell(&mut self, record: &ExecutorRecord, cx: &mut Cx<'_, '_>) {
        let id = &record.command.command_id;
        let callers = match self.entries.get_mut(id) {
            Some(entry) if record.is_answered() => std::mem::take(&mut entry.callers),
            Some(entry) => entry.callers.clone(),
            None => return,
        };
        for caller in callers {
            self.tell_one(caller, record, cx);
        }
        if record.is_terminal() {
            self.entries.remove(id);
        }
    }

    pub(super) fn tell_one(&self, caller: Caller, record: &ExecutorRecord, cx: &mut Cx<'_, '_>) {
        let skill_status = self.status_of(record);
        cx.give(if record.is_answered() {
            Effect::Answer(Box::new(Answer {
                caller,
                status: match record.control_end {
                    ControlEnd::Completed => AnswerStatus::Succeeded,
                    ControlEnd::Canceled => AnswerStatus::Canceled,
                    ControlEnd::None
                    | ControlEnd::Aborted
                    | ControlEnd::Preempted
                    | ControlEnd::Lost => AnswerStatus::Aborted,
                },
                error_code: record.error_code,
                error_msg: record.error_msg.clone(),
                skill_status,
            }))
        } else {
            Effect::Feedback {
                caller,
                skill_status: Box::new(skill_status),
            }
        });
    }
}

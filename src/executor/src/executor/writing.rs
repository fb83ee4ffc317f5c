//! Records that become durable together: a command that starts at once waits for the disk once, not four times.

use eh_contract::Stamp;
use eh_ledger::executor::ExecutorRecord;

use super::{Cx, Executor};
use crate::effect::Level;
use crate::journal::{JournalFailure, RecordKind, Write, HELD};
use crate::phase::Phase;

/// What is written with one wait for the disk.
#[derive(Default)]
pub(super) struct Staged {
    writes: Vec<Write>,
    held: Option<String>,
}

impl Cx<'_, '_> {
    /// Writes a record down, or puts it with those that are written together.
    ///
    /// # Errors
    /// [`JournalFailure`]; never for one that is put with others.
    pub(super) fn write(
        &mut self,
        record: &ExecutorRecord,
        kind: RecordKind,
        details: String,
    ) -> Result<(), JournalFailure> {
        let now: Stamp = self.turn.stamp;
        match &mut self.staged {
            Some(staged) => {
                staged.writes.push(Write {
                    record: record.clone(),
                    kind,
                    details,
                    now,
                });
                Ok(())
            }
            None => self.turn.journal.append(record, kind, &details, now),
        }
    }

    /// Writes down how what is held was grasped, after what is written together with it.
    pub(super) fn write_held(&mut self, text: String) {
        if let Some(staged) = &mut self.staged {
            staged.held = Some(text);
        } else if let Err(error) = self.turn.journal.set_note(HELD, &text) {
            self.log(
                Level::Warn,
                format!("how the object is held was not written down: {error}"),
            );
        }
    }
}

impl Executor {
    /// Lets one command go on and writes down together what that leads to. When the disk refuses it, nothing
    /// of it has happened: neither effects nor records are left, and the command is where it was before.
    ///
    /// # Errors
    /// [`JournalFailure`]; what is to be done then is the caller's.
    pub(super) fn in_one_write(
        &mut self,
        id: &str,
        cx: &mut Cx<'_, '_>,
        step: impl FnOnce(&mut Self, &mut Cx<'_, '_>) -> Phase,
    ) -> Result<Phase, JournalFailure> {
        if cx.staged.is_some() {
            return Ok(step(self, cx));
        }
        let entry = self.entries.get(id);
        let before = entry.map(|e| (e.record.clone(), e.callers.clone()));
        let (held, effects, changed) = (self.held.clone(), cx.out.len(), cx.changed);
        cx.staged = Some(Staged::default());
        let phase = step(self, cx);
        let staged = cx.staged.take().unwrap_or_default();
        match cx.turn.journal.append_all(&staged.writes) {
            Ok(()) => {
                if !staged.writes.is_empty() {
                    self.unwritten.remove(id);
                }
                if let Some(text) = staged.held {
                    cx.write_held(text);
                }
                Ok(phase)
            }
            Err(failure) => {
                cx.out.truncate(effects);
                cx.changed = changed;
                self.held = held;
                self.recent.retain(|r| r.command.command_id != id);
                self.put_back(id, before);
                Err(failure)
            }
        }
    }

    /// Remembers what was performed although the disk did not take it. The newest record of a command says all
    /// of it; there are no more of them than commands.
    pub(super) fn write_later(
        &mut self,
        record: &ExecutorRecord,
        kind: RecordKind,
        details: String,
        now: Stamp,
    ) {
        let write = Write {
            record: record.clone(),
            kind,
            details,
            now,
        };
        let id = record.command.command_id.clone();
        self.unwritten.insert(id, write);
    }

    /// Tries again what the disk did not take.
    pub(super) fn write_again(&mut self, cx: &mut Cx<'_, '_>) {
        if self.unwritten.is_empty() || !self.write_again.is_due(cx.turn.now) {
            return;
        }
        for (id, write) in std::mem::take(&mut self.unwritten) {
            let Write {
                record,
                kind,
                details,
                now,
            } = &write;
            match cx.turn.journal.append(record, *kind, details, *now) {
                Ok(()) => cx.log(
                    Level::Info,
                    format!("command {id}: \"{}\" is written down now", kind.name()),
                ),
                Err(_) => {
                    self.unwritten.insert(id, write);
                }
            }
        }
    }

    fn put_back(&mut self, id: &str, before: Option<(ExecutorRecord, Vec<crate::event::Caller>)>) {
        match before {
            None => {
                self.entries.remove(id);
            }
            Some((record, callers)) => {
                let entry = self.entries.entry(id.into());
                let entry = entry.or_insert_with(|| super::Entry {
                    record: record.clone(),
                    progress: None,
                    callers: Vec::new(),
                    stop: None,
                    phase: Phase::Over,
                });
                entry.record = record;
                entry.callers = callers;
            }
        }
    }
}

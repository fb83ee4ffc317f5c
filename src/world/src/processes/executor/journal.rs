//! The journal of an executor on its disk.

use std::collections::BTreeMap;

use eh_contract::Stamp;
use eh_executor::journal::{HELD, NOTE_FAILPOINT};
use eh_executor::{Journal, JournalFailure, RecordKind, Restored, Write, RECENT};
use eh_ledger::executor::ExecutorRecord;

use crate::context::{Context, JournalWrite};
use crate::disk::DiskTrouble;
use crate::failpoint::{Crash, Moment};
use crate::processes::harness::through_text;

/// The journal while one decision is made. When the process ends at a write, nothing more is written, and
/// what was decided is worth nothing.
pub(super) struct JournalOf<'a, 'w> {
    context: &'a mut Context<'w>,
    ended: bool,
}

impl<'a, 'w> JournalOf<'a, 'w> {
    pub(super) fn new(context: &'a mut Context<'w>) -> Self {
        JournalOf {
            context,
            ended: false,
        }
    }

    /// Whether the process is still there.
    pub(super) fn end(self) -> Result<(), Crash> {
        if self.ended {
            Err(Crash)
        } else {
            Ok(())
        }
    }

    fn write(&mut self, name: &'static str, what: JournalWrite) -> Result<(), JournalFailure> {
        if self.ended {
            return Err(JournalFailure("the process has ended".into()));
        }
        let process = self.context.me.process;
        match self.context.commit(name, |d| d.journal(process), what) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(trouble)) => Err(JournalFailure(trouble.words().into())),
            Err(Crash) => {
                self.ended = true;
                Err(JournalFailure("the process has ended".into()))
            }
        }
    }
}

impl JournalOf<'_, '_> {
    /// Writes all or none with one sync, and may end before, between and after.
    fn commit_all(&mut self, writes: &[Write]) -> Result<Result<(), DiskTrouble>, Crash> {
        let names = || writes.iter().map(|w| w.kind.failpoint());
        let process = self.context.me.process;
        for name in names() {
            self.context.pass(name, Moment::Before)?;
        }
        let now = self.context.outside.now;
        let disk = self.context.outside.disks.journal(process);
        for write in writes {
            let record = JournalWrite::Record(Box::new(write.record.clone()));
            if let Err(trouble) = disk.write(now, record) {
                disk.roll_back();
                return Ok(Err(trouble));
            }
        }
        for name in names() {
            self.context.pass(name, Moment::Unsynced)?;
        }
        self.context.outside.disks.journal(process).sync();
        for name in names() {
            self.context.pass(name, Moment::After)?;
        }
        Ok(Ok(()))
    }
}

impl Journal for JournalOf<'_, '_> {
    fn append(
        &mut self,
        record: &ExecutorRecord,
        kind: RecordKind,
        _details: &str,
        _now: Stamp,
    ) -> Result<(), JournalFailure> {
        let write = JournalWrite::Record(Box::new(record.clone()));
        self.write(kind.failpoint(), write)
    }

    fn append_all(&mut self, writes: &[Write]) -> Result<(), JournalFailure> {
        if self.ended {
            return Err(JournalFailure("the process has ended".into()));
        }
        match self.commit_all(writes) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(trouble)) => Err(JournalFailure(trouble.words().into())),
            Err(Crash) => {
                self.ended = true;
                Err(JournalFailure("the process has ended".into()))
            }
        }
    }

    fn get(&self, command_id: &str) -> Result<Option<ExecutorRecord>, JournalFailure> {
        if self.ended {
            return Err(JournalFailure("the process has ended".into()));
        }
        let disks = &self.context.outside.disks;
        let disk = if self.context.me.process == crate::process_id::ProcessId::Navigation {
            &disks.navigation
        } else {
            &disks.manipulation
        };
        Ok(record(disk.durable(), command_id).cloned())
    }

    fn set_note(&mut self, name: &'static str, value: &str) -> Result<(), JournalFailure> {
        self.write(NOTE_FAILPOINT, JournalWrite::Note(name, value.into()))
    }
}

/// The record of a command as it was written last.
pub fn record<'a>(written: &'a [JournalWrite], command_id: &str) -> Option<&'a ExecutorRecord> {
    written.iter().rev().find_map(|write| match write {
        JournalWrite::Record(record) if record.command.command_id == command_id => Some(&**record),
        JournalWrite::Record(_) | JournalWrite::Note(..) => None,
    })
}

/// Every record as it was written last, in the order in which commands came.
pub fn records(written: &[JournalWrite]) -> Vec<&ExecutorRecord> {
    let mut order = Vec::new();
    let mut newest: BTreeMap<&str, &ExecutorRecord> = BTreeMap::new();
    for write in written {
        if let JournalWrite::Record(record) = write {
            let id = record.command.command_id.as_str();
            if newest.insert(id, record).is_none() {
                order.push(id);
            }
        }
    }
    order
        .into_iter()
        .filter_map(|id| newest.get(id).copied())
        .collect()
}

/// What a new life takes up.
pub fn restored(written: &[JournalWrite]) -> Restored {
    let records: Vec<ExecutorRecord> = records(written)
        .into_iter()
        .filter_map(through_text)
        .collect();
    let newest_token = records.iter().map(|r| r.fencing_token).max().unwrap_or(0);
    let held = written.iter().rev().find_map(|write| match write {
        JournalWrite::Note(name, value) if *name == HELD => Some(value.clone()),
        JournalWrite::Note(..) | JournalWrite::Record(_) => None,
    });
    let (settled, live): (Vec<_>, Vec<_>) =
        records.into_iter().partition(ExecutorRecord::is_terminal);
    Restored {
        live,
        settled: settled.into_iter().rev().take(RECENT).collect(),
        newest_token,
        held,
    }
}

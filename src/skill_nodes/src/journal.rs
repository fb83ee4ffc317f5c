//! The executor's journal in its file.

use std::path::Path;

use eh_contract::Stamp;
use eh_executor::journal::{HELD, NOTE_FAILPOINT};
use eh_executor::{Journal, JournalFailure, RecordKind, Restored, Write, RECENT};
use eh_ledger::executor::ExecutorRecord;
use eh_ros_edge::failpoint::{reach, Moment};
use eh_store::{ExecutorJournal, JournalEntry, StoreError};

/// The open file.
pub(crate) struct FileJournal(ExecutorJournal);

impl FileJournal {
    /// Opens the file, alone, and reads what an earlier process left in it.
    pub(crate) fn open(path: &Path) -> Result<(Self, Restored), StoreError> {
        let journal = ExecutorJournal::open(path)?;
        let restored = Restored {
            live: journal.live()?,
            settled: journal.last_settled(RECENT as u32)?,
            newest_token: journal.newest_token()?,
            held: journal.note(HELD)?,
        };
        Ok((FileJournal(journal), restored))
    }

    fn append_together(&mut self, writes: &[Write]) -> Result<(), JournalFailure> {
        let entries: Result<Vec<_>, _> = writes
            .iter()
            .map(|w| JournalEntry::borrowed(&w.record, w.kind.name(), &w.details, w.now))
            .collect();
        let entries = entries.map_err(|e| JournalFailure(e.to_string()))?;
        self.0.append_all(&entries).map_err(failure)
    }
}

fn failure(error: StoreError) -> JournalFailure {
    JournalFailure(error.to_string())
}

impl Journal for FileJournal {
    fn append(
        &mut self,
        record: &ExecutorRecord,
        kind: RecordKind,
        details: &str,
        now: Stamp,
    ) -> Result<(), JournalFailure> {
        reach(kind.failpoint(), Moment::Before);
        let written = self.0.append(record, kind.name(), details, now);
        reach(kind.failpoint(), Moment::After);
        written.map_err(failure)
    }

    fn append_all(&mut self, writes: &[Write]) -> Result<(), JournalFailure> {
        for write in writes {
            reach(write.kind.failpoint(), Moment::Before);
        }
        let written = self.append_together(writes);
        for write in writes {
            reach(write.kind.failpoint(), Moment::After);
        }
        written
    }

    fn get(&self, command_id: &str) -> Result<Option<ExecutorRecord>, JournalFailure> {
        self.0.get(command_id).map_err(failure)
    }

    fn set_note(&mut self, name: &'static str, value: &str) -> Result<(), JournalFailure> {
        reach(NOTE_FAILPOINT, Moment::Before);
        let written = self.0.set_note(name, value);
        reach(NOTE_FAILPOINT, Moment::After);
        written.map_err(failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eh_executor::Effect;

    #[test]
    fn the_tests_that_kill_know_every_failpoint() {
        let file: serde_json::Value =
            serde_json::from_str(include_str!("../../../test/data/failpoints.json")).unwrap();
        let known: Vec<&str> = file["executor"]
            .as_array()
            .unwrap()
            .iter()
            .map(|name| name.as_str().unwrap())
            .collect();
        let writes = RecordKind::ALL.iter().map(|kind| kind.failpoint());
        let all: Vec<&str> = writes
            .chain([NOTE_FAILPOINT])
            .chain(Effect::FAILPOINTS.iter().copied())
            .collect();
        assert_eq!(known, all);
    }
}

//! The latched stop, and who reset it.

use std::path::Path;

use rusqlite::OptionalExtension;

use crate::db::{Access, Database, Migration, Schema};
use crate::error::StoreError;

/// Name of the file in the state directory.
pub const FILE_NAME: &str = "stop.sqlite";

/// The file's kind and tables.
pub const SCHEMA: Schema = Schema {
    name: "latched stop",
    application_id: 0x4548_5354, // "EHST"
    migrations: &[Migration::Sql(
        "CREATE TABLE changes (
            number INTEGER PRIMARY KEY,
            latched INTEGER NOT NULL CHECK (latched IN (0, 1)),
            stop_id TEXT NOT NULL,
            who TEXT NOT NULL,
            reason TEXT NOT NULL,
            changed_at_ns INTEGER NOT NULL
        ) STRICT;
        CREATE TABLE starts (
            only INTEGER PRIMARY KEY CHECK (only = 1),
            count INTEGER NOT NULL
        ) STRICT;",
    )],
};

/// How many changes are kept to read back; the newest is among them.
const KEPT: i64 = 200;

/// Stops and resets; the newest says whether the robot may move.
#[derive(Debug)]
pub struct StopStore {
    database: Database,
}

/// One stop or reset as it was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeRecord {
    /// True: a stop; false: a reset.
    pub latched: bool,
    /// Name of the stop; empty for a reset.
    pub stop_id: String,
    /// Who stopped, or reset.
    pub who: String,
    /// Why.
    pub reason: String,
    /// ROS time when it was written \[ns\].
    pub changed_at_ns: i64,
}

impl StopStore {
    /// Opens the file in a state directory and counts the start in it, since a file that can't be written
    /// would forget the next stop; no other process may have it open.
    ///
    /// # Errors
    /// [`StoreError`] that names the file and what to do.
    pub fn open(state_directory: &Path) -> Result<Self, StoreError> {
        let database =
            Database::open(&state_directory.join(FILE_NAME), &SCHEMA, Access::Exclusive)?;
        let mut store = StopStore { database };
        store.database.write("counting a start", |t| {
            t.execute(
                "INSERT INTO starts (only, count) VALUES (1, 1)
                 ON CONFLICT (only) DO UPDATE SET count = count + 1",
                [],
            )
        })?;
        Ok(store)
    }

    /// The newest change; `None`: there was never a stop.
    ///
    /// # Errors
    /// [`StoreError`] when the file can't be read.
    pub fn newest(&self) -> Result<Option<ChangeRecord>, StoreError> {
        self.database
            .connection()
            .query_row(
                "SELECT latched, stop_id, who, reason, changed_at_ns FROM changes
                 ORDER BY number DESC LIMIT 1",
                [],
                |row| {
                    Ok(ChangeRecord {
                        latched: row.get(0)?,
                        stop_id: row.get(1)?,
                        who: row.get(2)?,
                        reason: row.get(3)?,
                        changed_at_ns: row.get(4)?,
                    })
                },
            )
            .optional()
            .map_err(|e| self.database.error("reading the latched stop", &e))
    }

    /// Keeps a change and returns after it is on the disk.
    ///
    /// # Errors
    /// [`StoreError`]: why it could not be written.
    pub fn keep(&mut self, change: &ChangeRecord) -> Result<(), StoreError> {
        self.database.write("keeping the latched stop", |t| {
            t.execute(
                "INSERT INTO changes (latched, stop_id, who, reason, changed_at_ns)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
                (
                    change.latched,
                    &change.stop_id,
                    &change.who,
                    &change.reason,
                    change.changed_at_ns,
                ),
            )?;
            let number = t.last_insert_rowid();
            t.execute("DELETE FROM changes WHERE number <= ?1", [number - KEPT])?;
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stop(id: &str) -> ChangeRecord {
        ChangeRecord {
            latched: true,
            stop_id: id.into(),
            who: "ann".into(),
            reason: "smoke".into(),
            changed_at_ns: 7,
        }
    }

    fn reset() -> ChangeRecord {
        ChangeRecord {
            latched: false,
            ..stop("")
        }
    }

    #[test]
    fn a_stop_and_its_reset_survive_restarts() {
        let directory = tempfile::tempdir().unwrap();
        let open = || StopStore::open(directory.path()).unwrap();
        assert_eq!(open().newest().unwrap(), None);
        open().keep(&stop("a")).unwrap();
        assert_eq!(open().newest().unwrap(), Some(stop("a")));
        open().keep(&reset()).unwrap();
        assert_eq!(open().newest().unwrap(), Some(reset()));
    }

    #[test]
    fn the_newest_counts_and_old_ones_are_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = StopStore::open(directory.path()).unwrap();
        for n in 0..KEPT + 10 {
            store.keep(&stop(&format!("s{n}"))).unwrap();
        }
        let newest = store.newest().unwrap().unwrap();
        assert_eq!(newest.stop_id, format!("s{}", KEPT + 9));
        let count: i64 = store
            .database
            .connection()
            .query_row("SELECT count(*) FROM changes", [], |row| row.get(0))
            .unwrap();
        assert_eq!(count, KEPT);
    }

    #[test]
    fn a_damaged_file_and_one_that_can_not_be_made_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let mut bytes = vec![0x5a; 4096];
        bytes[..4].copy_from_slice(b"what");
        std::fs::write(directory.path().join(FILE_NAME), bytes).unwrap();
        let error = StopStore::open(directory.path()).unwrap_err();
        assert!(error.to_string().contains("move it away"), "{error}");
        let blocker = directory.path().join("file");
        std::fs::write(&blocker, "no folder").unwrap();
        assert!(matches!(
            StopStore::open(&blocker.join("state")),
            Err(StoreError::Directory { .. })
        ));
    }
}

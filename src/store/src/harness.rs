//! The file of the harness: its ledger of commands, its tasks and their session logs.

use std::path::Path;

use crate::db::{Access, Database, Schema};
use crate::error::StoreError;

/// Tables of the harness's file. What is searched for is a column, the record itself is JSON.
pub const HARNESS_SCHEMA: Schema = Schema {
    name: "harness ledger",
    // "EHH1"
    application_id: 0x4548_4831,
    migrations: &["CREATE TABLE command (
             command_id TEXT PRIMARY KEY,
             task_id TEXT NOT NULL,
             digest TEXT NOT NULL,
             state INTEGER NOT NULL,
             terminal INTEGER NOT NULL,
             open INTEGER NOT NULL,
             sequence INTEGER NOT NULL,
             settled_at INTEGER NOT NULL,
             record TEXT NOT NULL
         ) STRICT;
         CREATE INDEX command_open ON command (open) WHERE open = 1;
         CREATE TABLE goal (
             goal_id BLOB PRIMARY KEY,
             command_id TEXT NOT NULL REFERENCES command (command_id),
             segment INTEGER NOT NULL,
             UNIQUE (command_id, segment)
         ) STRICT;
         CREATE TABLE task (
             task_id TEXT PRIMARY KEY,
             running INTEGER NOT NULL,
             received_at INTEGER NOT NULL,
             record TEXT NOT NULL
         ) STRICT;
         CREATE TABLE event (
             task_id TEXT NOT NULL,
             sequence INTEGER NOT NULL,
             stamp INTEGER NOT NULL,
             kind TEXT NOT NULL,
             command_id TEXT NOT NULL,
             record TEXT NOT NULL,
             PRIMARY KEY (task_id, sequence)
         ) STRICT, WITHOUT ROWID;
         CREATE INDEX event_command ON event (command_id);"],
};

/// The harness's file; see the modules [`crate::ledger`] and [`crate::session`] for what it does.
#[derive(Debug)]
pub struct HarnessStore {
    pub(crate) db: Database,
}

impl HarnessStore {
    /// Opens or makes the file. A second process that opens it is refused: two harnesses of one
    /// name would command the robot from one ledger.
    ///
    /// # Errors
    /// [`StoreError`] that names the file, the reason and what to do.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Ok(HarnessStore {
            db: Database::open(path, &HARNESS_SCHEMA, Access::Exclusive)?,
        })
    }

    /// A store in memory, for tests and simulations.
    ///
    /// # Errors
    /// [`StoreError`] when SQLite refuses the schema.
    pub fn in_memory() -> Result<Self, StoreError> {
        Ok(HarnessStore {
            db: Database::in_memory(&HARNESS_SCHEMA)?,
        })
    }
}

/// A count for a STRICT integer column; what does not fit is the largest number.
pub(crate) fn to_sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

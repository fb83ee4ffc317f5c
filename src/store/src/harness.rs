//! The file of the harness: its ledger of commands, its tasks and their session logs.

mod check;
mod retention;
mod schema;

use std::path::Path;

use crate::chain::Chain;
use crate::db::{Access, Database};
use crate::error::StoreError;
use crate::journal::Retention;

pub use check::HarnessVerified;
pub use retention::HarnessCompacted;
pub use schema::HARNESS_SCHEMA;

/// The harness's file; see the modules [`crate::ledger`] and [`crate::session`] for what it does.
#[derive(Debug)]
pub struct HarnessStore {
    pub(crate) db: Database,
    /// Session logs: the subject is the task.
    pub(crate) sessions: Chain,
    /// States of commands: the subject is the command.
    pub(crate) commands: Chain,
    pub(crate) retention: Retention,
}

impl HarnessStore {
    /// Opens or makes the file. A second process that opens it is refused: two harnesses of one
    /// name would command the robot from one ledger. Takes the same time however many events it holds.
    ///
    /// # Errors
    /// [`StoreError`] that names the file, the reason and what to do; [`StoreError::Broken`] when
    /// something was cut off or changed at its end.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::prepare(Database::open(path, &HARNESS_SCHEMA, Access::Exclusive)?)
    }

    /// A store in memory, for tests and simulations.
    ///
    /// # Errors
    /// [`StoreError`] when SQLite refuses the schema.
    pub fn in_memory() -> Result<Self, StoreError> {
        Self::prepare(Database::in_memory(&HARNESS_SCHEMA)?)
    }

    fn prepare(db: Database) -> Result<Self, StoreError> {
        let mut store = HarnessStore {
            db,
            sessions: Chain::new("session_events", "dropped_session_events"),
            commands: Chain::new("command_events", "dropped_command_events"),
            retention: Retention::default(),
        };
        for chain in [&mut store.sessions, &mut store.commands] {
            chain
                .load(store.db.connection())
                .map_err(|e| store.db.error("reading the ledger", &e))?;
        }
        store.check_end()?;
        Ok(store)
    }
}

/// A count for a STRICT integer column; what does not fit is the largest number.
pub(crate) fn to_sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

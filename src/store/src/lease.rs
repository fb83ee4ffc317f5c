//! The newest token of the control lease that may have been granted.

use std::path::Path;

use crate::db::{Access, Database, Migration, Schema};
use crate::error::StoreError;

/// Name of the file in the state directory.
pub const FILE_NAME: &str = "lease.sqlite";

/// The file's kind and tables.
pub const SCHEMA: Schema = Schema {
    name: "control lease",
    application_id: 0x4548_4c45, // "EHLE"
    migrations: &[Migration::Sql(
        "CREATE TABLE grants (
            token INTEGER PRIMARY KEY CHECK (token > 0),
            controller_id TEXT NOT NULL,
            granted_at_ns INTEGER NOT NULL
        ) STRICT;",
    )],
};

/// How many grants are kept to read back; the newest token is among them.
const KEPT: i64 = 1000;

/// Grants of the control lease. A token is on the disk before it is granted, so that none is ever granted
/// twice.
#[derive(Debug)]
pub struct LeaseStore {
    database: Database,
}

/// One grant as it was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantRecord {
    /// The token.
    pub token: u64,
    /// To whom.
    pub controller_id: String,
    /// ROS time when it was written \[ns\].
    pub granted_at_ns: i64,
}

impl LeaseStore {
    /// Opens the file in a state directory; no other process may have it open.
    ///
    /// # Errors
    /// [`StoreError`] that names the file and what to do.
    pub fn open(state_directory: &Path) -> Result<Self, StoreError> {
        let database =
            Database::open(&state_directory.join(FILE_NAME), &SCHEMA, Access::Exclusive)?;
        Ok(LeaseStore { database })
    }

    /// Opens a store that lives as long as the value, for tests and simulations.
    ///
    /// # Errors
    /// [`StoreError`] when SQLite refuses the schema.
    pub fn in_memory() -> Result<Self, StoreError> {
        Ok(LeaseStore {
            database: Database::in_memory(&SCHEMA)?,
        })
    }

    /// The largest token ever kept; 0: none.
    ///
    /// # Errors
    /// [`StoreError`] when the file can't be read.
    pub fn newest_token(&self) -> Result<u64, StoreError> {
        let token: i64 = self
            .database
            .connection()
            .query_row("SELECT COALESCE(MAX(token), 0) FROM grants", [], |row| {
                row.get(0)
            })
            .map_err(|e| self.database.error("reading the newest token", &e))?;
        u64::try_from(token).map_err(|e| self.database.bad_record("the newest token", e))
    }

    /// Keeps a token and returns after it is on the disk.
    ///
    /// # Errors
    /// [`StoreError::Duplicate`] when the token is not larger than every one before; otherwise why it could
    /// not be written.
    pub fn keep(&mut self, grant: &GrantRecord) -> Result<(), StoreError> {
        let newest = self.newest_token()?;
        let what = || format!("lease token {}", grant.token);
        if grant.token <= newest {
            return Err(StoreError::Duplicate {
                path: self.database.path().to_path_buf(),
                what: what(),
            });
        }
        let token = i64::try_from(grant.token).map_err(|e| self.database.bad_record(what(), e))?;
        self.database.write("keeping a lease token", |t| {
            t.execute(
                "INSERT INTO grants (token, controller_id, granted_at_ns) VALUES (?1, ?2, ?3)",
                (token, &grant.controller_id, grant.granted_at_ns),
            )?;
            t.execute("DELETE FROM grants WHERE token <= ?1", [token - KEPT])?;
            Ok(())
        })
    }

    /// The newest grants, newest first, at most `limit`.
    ///
    /// # Errors
    /// [`StoreError`] when the file can't be read.
    pub fn grants(&self, limit: u32) -> Result<Vec<GrantRecord>, StoreError> {
        let sql = |e: rusqlite::Error| self.database.error("reading grants", &e);
        let mut statement = self
            .database
            .connection()
            .prepare("SELECT token, controller_id, granted_at_ns FROM grants ORDER BY token DESC LIMIT ?1")
            .map_err(sql)?;
        let rows = statement
            .query_map([limit], |row| {
                Ok((row.get::<_, i64>(0)?, row.get(1)?, row.get(2)?))
            })
            .map_err(sql)?;
        rows.map(|row| {
            let (token, controller_id, granted_at_ns) = row.map_err(sql)?;
            Ok(GrantRecord {
                token: u64::try_from(token)
                    .map_err(|e| self.database.bad_record("a lease token", e))?,
                controller_id,
                granted_at_ns,
            })
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(token: u64) -> GrantRecord {
        GrantRecord {
            token,
            controller_id: "/harness_node".into(),
            granted_at_ns: 7,
        }
    }

    #[test]
    fn the_newest_token_survives_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = LeaseStore::open(directory.path()).unwrap();
        assert_eq!(store.newest_token().unwrap(), 0);
        store.keep(&grant(1)).unwrap();
        store.keep(&grant(5)).unwrap();
        drop(store);
        let store = LeaseStore::open(directory.path()).unwrap();
        assert_eq!(store.newest_token().unwrap(), 5);
        assert_eq!(store.grants(1).unwrap(), [grant(5)]);
    }

    #[test]
    fn a_token_is_never_kept_twice_nor_an_older_one() {
        let mut store = LeaseStore::in_memory().unwrap();
        store.keep(&grant(3)).unwrap();
        for old in [3, 2, 0] {
            assert!(matches!(
                store.keep(&grant(old)),
                Err(StoreError::Duplicate { .. })
            ));
        }
        assert!(
            store.keep(&grant(u64::MAX)).is_err(),
            "SQLite's integers end at 2^63"
        );
        assert_eq!(store.newest_token().unwrap(), 3);
    }

    #[test]
    fn old_grants_are_dropped_and_the_newest_stays() {
        let mut store = LeaseStore::in_memory().unwrap();
        for token in 1..=1010 {
            store.keep(&grant(token)).unwrap();
        }
        assert_eq!(store.grants(u32::MAX).unwrap().len(), 1000);
        assert_eq!(store.newest_token().unwrap(), 1010);
    }

    #[test]
    fn two_processes_never_share_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let _first = LeaseStore::open(directory.path()).unwrap();
        assert!(matches!(
            LeaseStore::open(directory.path()),
            Err(StoreError::Busy { .. })
        ));
    }
}

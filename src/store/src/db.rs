//! Opening a SQLite file so that a commit that returned survives a loss of power.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use crate::error::StoreError;

/// How long a statement waits for another process of this machine that holds the file.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

/// Files up to this size \[bytes\] are looked through whole when they are opened, which takes a few
/// milliseconds; larger ones by [`Database::check`] only, so that opening does not depend on how much was
/// ever written.
pub const CHECKED_WHEN_OPENED: u64 = 1 << 20;

/// Statements that stay prepared.
const PREPARED: usize = 48;

/// From one version of the tables to the next.
#[derive(Clone, Copy, Debug)]
pub enum Migration {
    /// SQL.
    Sql(&'static str),
    /// What SQL can't say, such as hashes; in the transaction of the whole migration.
    Rust(fn(&Transaction<'_>) -> Result<(), rusqlite::Error>),
}

/// What kind of file it is and how its tables came about.
#[derive(Clone, Copy, Debug)]
pub struct Schema {
    /// What the file is, for errors, for example "executor journal".
    pub name: &'static str,
    /// SQLite's application_id of such files; differs from kind to kind, so that one is never taken for
    /// another.
    pub application_id: i32,
    /// To version 1, 2, …; an entry that was released is never changed, only new ones are added.
    pub migrations: &'static [Migration],
}

impl Schema {
    /// The newest version.
    pub fn version(&self) -> i64 {
        i64::try_from(self.migrations.len()).unwrap_or(i64::MAX)
    }
}

/// Who else may have the file open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nobody: a second process gets [`StoreError::Busy`]. For journals that belong to one process; the
    /// operating system lets go of the lock when the process dies, however it dies.
    Exclusive,
    /// Other processes may read and write too.
    Shared,
}

/// An open file. Journal mode WAL with `synchronous = FULL`: when a transaction has returned, it is on
/// the disk (<https://www.sqlite.org/pragma.html#pragma_synchronous>).
#[derive(Debug)]
pub struct Database {
    connection: Connection,
    path: PathBuf,
}

impl Database {
    /// Opens a file, makes it and its directory where they are missing, brings its tables to the newest
    /// version and, where it is no larger than [`CHECKED_WHEN_OPENED`], checks its integrity.
    ///
    /// # Errors
    /// [`StoreError`] that names the file, the reason and what to do.
    pub fn open(path: &Path, schema: &Schema, access: Access) -> Result<Self, StoreError> {
        if let Some(directory) = path.parent().filter(|d| !d.as_os_str().is_empty()) {
            std::fs::create_dir_all(directory).map_err(|e| StoreError::Directory {
                path: directory.to_path_buf(),
                reason: e.to_string(),
            })?;
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)
            .map_err(|e| StoreError::from_sqlite(path, "opening", &e))?;
        Self::prepare(connection, path, schema, access)
    }

    /// Opens an empty database that lives as long as the value, for tests and simulations.
    ///
    /// # Errors
    /// [`StoreError`] when SQLite refuses the schema.
    pub fn in_memory(schema: &Schema) -> Result<Self, StoreError> {
        let path = Path::new(":memory:");
        let connection = Connection::open_in_memory()
            .map_err(|e| StoreError::from_sqlite(path, "opening", &e))?;
        Self::prepare(connection, path, schema, Access::Shared)
    }

    fn prepare(
        connection: Connection,
        path: &Path,
        schema: &Schema,
        access: Access,
    ) -> Result<Self, StoreError> {
        let sql = |action: &'static str| {
            move |e: rusqlite::Error| StoreError::from_sqlite(path, action, &e)
        };
        connection
            .busy_timeout(BUSY_TIMEOUT)
            .map_err(sql("setting the busy timeout"))?;
        if access == Access::Exclusive {
            // Before the first access of the WAL, so that no shared memory file is used.
            connection
                .pragma_update_and_check(None, "locking_mode", "EXCLUSIVE", |_| Ok(()))
                .map_err(sql("locking"))?;
        }
        connection
            .pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))
            .map_err(sql("setting journal_mode"))?;
        connection
            .pragma_update(None, "synchronous", "FULL")
            .map_err(sql("setting synchronous"))?;
        // Plans do not depend on the values: else a statement is parsed anew for each new value.
        connection
            .set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
            .map_err(sql("keeping plans stable"))?;
        connection.set_prepared_statement_cache_capacity(PREPARED);
        // A migration may put a table in the place of another one that is referred to.
        connection
            .pragma_update(None, "foreign_keys", "OFF")
            .map_err(sql("setting foreign_keys"))?;
        let mut database = Database {
            connection,
            path: path.to_path_buf(),
        };
        let size = std::fs::metadata(path).map_or(0, |file| file.len());
        if size <= CHECKED_WHEN_OPENED {
            database.check()?;
        }
        database.migrate(schema)?;
        database
            .connection
            .pragma_update(None, "foreign_keys", "ON")
            .map_err(sql("setting foreign_keys"))?;
        Ok(database)
    }

    /// SQLite's quick check of the whole file; it reads every page, so it takes seconds for gigabytes.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] with what was found, or why the file can't be read.
    pub fn check(&self) -> Result<(), StoreError> {
        let answer: String = self
            .connection
            .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
            .map_err(|e| self.error("checking the integrity", &e))?;
        if answer == "ok" {
            Ok(())
        } else {
            Err(StoreError::Corrupt {
                path: self.path.clone(),
                reason: answer,
            })
        }
    }

    /// Copies SQLite's log into the file, so that the log begins at its front again. Only for who has turned
    /// `wal_autocheckpoint` off.
    ///
    /// # Errors
    /// [`StoreError`]; nothing is lost then, the log grows on.
    pub fn copy_log(&self) -> Result<(), StoreError> {
        self.connection
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
            .map_err(|e| self.error("copying the log into the file", &e))
    }

    fn migrate(&mut self, schema: &Schema) -> Result<(), StoreError> {
        let path = self.path.clone();
        let pragma = |t: &Transaction<'_>, name: &str| {
            t.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0))
        };
        // Immediate: two processes that open a new file at once take turns. In exclusive mode this is
        // also what takes the lock.
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(|e| StoreError::from_sqlite(&path, "beginning the migration", &e))?;
        let sql = |e: rusqlite::Error| StoreError::from_sqlite(&path, "migrating", &e);
        let found = pragma(&transaction, "user_version").map_err(sql)?;
        let application = pragma(&transaction, "application_id").map_err(sql)?;
        let tables: i64 = transaction
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .map_err(sql)?;
        let fresh = found == 0 && application == 0 && tables == 0;
        if !fresh && application != i64::from(schema.application_id) {
            return Err(StoreError::OtherKind {
                path,
                expected: schema.name,
                found: i32::try_from(application).unwrap_or(0),
            });
        }
        if found > schema.version() {
            return Err(StoreError::NewerSchema {
                path,
                found,
                known: schema.version(),
            });
        }
        if !fresh && found == schema.version() {
            // Nothing to do; in exclusive mode the lock stays.
            return transaction.rollback().map_err(sql);
        }
        let done = usize::try_from(found).unwrap_or(0);
        for migration in schema.migrations.iter().skip(done) {
            match migration {
                Migration::Sql(batch) => transaction.execute_batch(batch),
                Migration::Rust(migrate) => migrate(&transaction),
            }
            .map_err(sql)?;
        }
        transaction
            .pragma_update(None, "application_id", schema.application_id)
            .map_err(sql)?;
        transaction
            .pragma_update(None, "user_version", schema.version())
            .map_err(sql)?;
        transaction.commit().map_err(sql)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The connection, for reading. Writing belongs into [`Database::write`].
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Runs `change` in one transaction and returns after it is durable. If `change` fails nothing of it
    /// is kept.
    ///
    /// # Errors
    /// What `change` returns, or [`StoreError`] when the commit fails.
    pub fn write<T>(
        &mut self,
        action: &'static str,
        change: impl FnOnce(&Connection) -> Result<T, rusqlite::Error>,
    ) -> Result<T, StoreError> {
        let sql = |e: rusqlite::Error| StoreError::from_sqlite(&self.path, action, &e);
        let open = Open::begin(&self.connection).map_err(sql)?;
        let value = change(&self.connection).map_err(sql)?;
        open.commit().map_err(sql)?;
        Ok(value)
    }

    /// An answer of SQLite about this file as our error.
    pub fn error(&self, action: &'static str, error: &rusqlite::Error) -> StoreError {
        StoreError::from_sqlite(&self.path, action, error)
    }

    /// A record of this file that can't be read.
    pub fn bad_record(&self, what: impl Into<String>, reason: impl ToString) -> StoreError {
        StoreError::Record {
            path: self.path.clone(),
            what: what.into(),
            reason: reason.to_string(),
        }
    }
}

/// A transaction; dropped without a commit, nothing of it is kept. Unlike [`rusqlite::Transaction`] it does
/// not have its two statements parsed each time.
struct Open<'a>(&'a Connection);

impl<'a> Open<'a> {
    /// Immediate: it waits for other writers now and not in the middle.
    fn begin(connection: &'a Connection) -> Result<Self, rusqlite::Error> {
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        Ok(Open(connection))
    }

    fn commit(self) -> Result<(), rusqlite::Error> {
        self.0.prepare_cached("COMMIT")?.execute([]).map(|_| ())
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if !self.0.is_autocommit() {
            // SQLite has rolled back by itself where this fails.
            let _ = self.0.execute_batch("ROLLBACK");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Schema = Schema {
        name: "test file",
        application_id: 0x4548_5430,
        migrations: &[Migration::Sql(
            "CREATE TABLE a (x INTEGER NOT NULL) STRICT;",
        )],
    };
    const TWO: Schema = Schema {
        migrations: &[
            Migration::Sql("CREATE TABLE a (x INTEGER NOT NULL) STRICT;"),
            Migration::Sql(
                "CREATE TABLE b (y INTEGER NOT NULL) STRICT; INSERT INTO b SELECT x FROM a;",
            ),
        ],
        ..ONE
    };

    fn file(directory: &tempfile::TempDir) -> PathBuf {
        directory.path().join("deep").join("test.sqlite")
    }

    #[test]
    fn a_file_is_made_migrated_and_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = file(&directory);
        let mut db = Database::open(&path, &ONE, Access::Exclusive).unwrap();
        db.write("inserting", |t| t.execute("INSERT INTO a VALUES (7)", []))
            .unwrap();
        drop(db);
        let db = Database::open(&path, &TWO, Access::Exclusive).unwrap();
        let y: i64 = db
            .connection()
            .query_row("SELECT y FROM b", [], |r| r.get(0))
            .unwrap();
        assert_eq!(y, 7);
        let mode: String = db
            .connection()
            .query_row("PRAGMA journal_mode", [], |r| r.get(0))
            .unwrap();
        assert_eq!(mode, "wal");
        let synchronous: i64 = db
            .connection()
            .query_row("PRAGMA synchronous", [], |r| r.get(0))
            .unwrap();
        assert_eq!(synchronous, 2, "2 is FULL");
    }

    #[test]
    fn a_failed_change_leaves_nothing_behind() {
        let mut db = Database::in_memory(&ONE).unwrap();
        let result = db.write("inserting", |t| {
            t.execute("INSERT INTO a VALUES (1)", [])?;
            t.execute("INSERT INTO nowhere VALUES (1)", [])
        });
        assert!(matches!(result, Err(StoreError::Sqlite { .. })));
        let n: i64 = db
            .connection()
            .query_row("SELECT count(*) FROM a", [], |r| r.get(0))
            .unwrap();
        assert_eq!(n, 0);
    }

    #[test]
    fn a_second_owner_of_an_exclusive_file_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = file(&directory);
        let _first = Database::open(&path, &ONE, Access::Exclusive).unwrap();
        let error = Database::open(&path, &ONE, Access::Exclusive).unwrap_err();
        assert!(matches!(error, StoreError::Busy { .. }), "{error}");
        assert!(error.to_string().contains("state_directory"));
    }

    #[test]
    fn two_may_share_a_shared_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = file(&directory);
        let mut first = Database::open(&path, &ONE, Access::Shared).unwrap();
        let second = Database::open(&path, &ONE, Access::Shared).unwrap();
        first
            .write("inserting", |t| t.execute("INSERT INTO a VALUES (3)", []))
            .unwrap();
        let x: i64 = second
            .connection()
            .query_row("SELECT x FROM a", [], |r| r.get(0))
            .unwrap();
        assert_eq!(x, 3);
    }

    #[test]
    fn files_of_others_newer_ones_and_damaged_ones_are_refused_and_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = file(&directory);
        drop(Database::open(&path, &TWO, Access::Exclusive).unwrap());
        let error = Database::open(&path, &ONE, Access::Exclusive).unwrap_err();
        assert!(
            matches!(
                error,
                StoreError::NewerSchema {
                    found: 2,
                    known: 1,
                    ..
                }
            ),
            "{error}"
        );
        let other = Schema {
            application_id: 5,
            ..TWO
        };
        let error = Database::open(&path, &other, Access::Exclusive).unwrap_err();
        assert!(matches!(error, StoreError::OtherKind { .. }), "{error}");

        let damaged = directory.path().join("damaged.sqlite");
        std::fs::write(&damaged, vec![0x5a; 8192]).unwrap();
        let error = Database::open(&damaged, &ONE, Access::Exclusive).unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
        assert_eq!(std::fs::read(&damaged).unwrap(), vec![0x5a; 8192]);
    }

    #[test]
    fn a_path_that_cannot_be_used_says_why() {
        let directory = tempfile::tempdir().unwrap();
        let blocker = directory.path().join("file");
        std::fs::write(&blocker, "x").unwrap();
        let error = Database::open(&blocker.join("x.sqlite"), &ONE, Access::Exclusive).unwrap_err();
        assert!(matches!(error, StoreError::Directory { .. }), "{error}");
        let error = Database::open(directory.path(), &ONE, Access::Exclusive).unwrap_err();
        assert!(
            matches!(error, StoreError::Open { .. } | StoreError::Corrupt { .. }),
            "{error}"
        );
    }
}

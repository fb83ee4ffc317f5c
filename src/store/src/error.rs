//! Why a file can't be used, and what to do about it.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode as SqliteCode;
use thiserror::Error;

/// What can go wrong with a durable file.
#[derive(Clone, Debug, Error)]
pub enum StoreError {
    /// The directory can't be made.
    #[error("the directory {path} can't be made ({reason}); make it writable for this user or set the parameter state_directory")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The system's words.
        reason: String,
    },
    /// The file can't be opened.
    #[error("{path} can't be opened ({reason}); check that it is a file of this user, or set the parameter state_directory")]
    Open {
        /// The file.
        path: PathBuf,
        /// SQLite's words.
        reason: String,
    },
    /// The file can be read only.
    #[error("{path} can't be written: the file or its directory is read-only; make both writable for this user, or set the parameter state_directory")]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// No space is left.
    #[error(
        "{path} can't be written: the disk is full; free some space, nothing is started until then"
    )]
    DiskFull {
        /// The file.
        path: PathBuf,
    },
    /// The disk answers with errors.
    #[error(
        "{path}: the disk reports an error ({reason}); check it before the robot is used again"
    )]
    Io {
        /// The file.
        path: PathBuf,
        /// SQLite's words.
        reason: String,
    },
    /// Another process has it.
    #[error("{path} is in use by another process; two of one node can't share a state directory: end the other one, or give this one its own name or state_directory")]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The content is damaged.
    #[error("{path} is damaged ({reason}); move it away to start with an empty one, and settle by hand what was running")]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What the check found.
        reason: String,
    },
    /// The chain of events does not hold: something was changed, taken out or cut off.
    #[error("{path}: its chain of events breaks at event {event} ({what}); don't rely on this file: keep a copy of it, find out who or what wrote to it, then move it away to start with an empty one, and settle by hand what was running")]
    Broken {
        /// The file.
        path: PathBuf,
        /// The first event that does not hold.
        event: i64,
        /// What is wrong there.
        what: String,
    },
    /// It is a file of another kind.
    #[error("{path} is no {expected} (its application id is {found:#x}); give another path")]
    OtherKind {
        /// The file.
        path: PathBuf,
        /// What was expected.
        expected: &'static str,
        /// The id found.
        found: i32,
    },
    /// A newer program wrote it.
    #[error("{path} has schema version {found}, this program knows versions up to {known}; use the program that wrote it, or move the file away")]
    NewerSchema {
        /// The file.
        path: PathBuf,
        /// Version found.
        found: i64,
        /// Newest version known.
        known: i64,
    },
    /// A record can't be read back.
    #[error("{path}: the record of {what} can't be read ({reason}); it was written by another version or by hand")]
    Record {
        /// The file.
        path: PathBuf,
        /// Which record.
        what: String,
        /// Why.
        reason: String,
    },
    /// What is written contradicts what is there.
    #[error("{path}: {what} is there already; it is never written twice")]
    Duplicate {
        /// The file.
        path: PathBuf,
        /// What.
        what: String,
    },
    /// The thread that writes is gone.
    #[error("the thread that writes the journal has ended; nothing more can be written, restart the node")]
    Ended,
    /// Any other answer of SQLite.
    #[error("{path}: {action} failed ({reason})")]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// SQLite's words.
        reason: String,
    },
}

impl StoreError {
    /// Sorts an answer of SQLite by what the reader has to do about it.
    pub fn from_sqlite(path: &Path, action: &'static str, error: &rusqlite::Error) -> Self {
        let path = path.to_path_buf();
        let reason = error.to_string();
        match error.sqlite_error_code() {
            Some(SqliteCode::DiskFull) => StoreError::DiskFull { path },
            Some(SqliteCode::ReadOnly | SqliteCode::PermissionDenied) => {
                StoreError::ReadOnly { path }
            }
            Some(SqliteCode::SystemIoFailure) => StoreError::Io { path, reason },
            Some(SqliteCode::DatabaseBusy | SqliteCode::DatabaseLocked) => {
                StoreError::Busy { path }
            }
            Some(SqliteCode::DatabaseCorrupt | SqliteCode::NotADatabase) => {
                StoreError::Corrupt { path, reason }
            }
            Some(SqliteCode::CannotOpen) => StoreError::Open { path, reason },
            _ => StoreError::Sqlite {
                path,
                action,
                reason,
            },
        }
    }
}

//! What a disk can do to the files: each time a clear error, and nothing lost that was durable.

mod common;

use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use eh_contract::Stamp;
use eh_store::lease::LeaseStore;
use eh_store::{ExecutorJournal, HarnessStore, StoreError};

fn filled(directory: &Path, lives: u64) -> PathBuf {
    let path = directory.join("journal.sqlite");
    let mut journal = ExecutorJournal::open(&path).unwrap();
    for n in 0..lives {
        let entries = common::entries(n, common::EVENTS, Stamp(5));
        assert!(journal.append_batch(&entries).iter().all(Result::is_ok));
    }
    path
}

/// The message names the file, what is wrong, and what to do.
fn says(error: &StoreError, words: &[&str]) {
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "{word:?} is missing in: {text}");
    }
}

#[test]
fn a_file_that_was_cut_short_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = filled(directory.path(), 20);
    let whole = std::fs::metadata(&path).unwrap().len();
    for part in [whole / 2, 4096, 100, 17] {
        let copy = directory.path().join("copy.sqlite");
        std::fs::copy(&path, &copy).unwrap();
        std::fs::OpenOptions::new()
            .write(true)
            .open(&copy)
            .unwrap()
            .set_len(part)
            .unwrap();
        let error = ExecutorJournal::open(&copy).unwrap_err();
        assert!(
            matches!(
                error,
                StoreError::Corrupt { .. } | StoreError::OtherKind { .. }
            ),
            "{part} bytes: {error}"
        );
        says(&error, &["copy.sqlite"]);
        assert_eq!(std::fs::metadata(&copy).unwrap().len(), part);
    }
}

/// A file larger than what is looked through at opening: the damage is found where it is read, and by
/// the whole check.
#[test]
fn a_damaged_page_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let path = filled(directory.path(), 400);
    let size = std::fs::metadata(&path).unwrap().len();
    assert!(size > eh_store::db::CHECKED_WHEN_OPENED, "{size}");
    let mut page = [0; 4096];
    let mut damaged = 0;
    for number in [size / 4096 / 3, size / 4096 / 2] {
        let copy = directory.path().join("copy.sqlite");
        std::fs::copy(&path, &copy).unwrap();
        let mut file = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(&copy)
            .unwrap();
        file.seek(SeekFrom::Start(number * 4096)).unwrap();
        file.read_exact(&mut page).unwrap();
        file.seek(SeekFrom::Start(number * 4096)).unwrap();
        for byte in &mut page {
            *byte ^= 0xa5;
        }
        file.write_all(&page).unwrap();
        drop(file);
        let error = match ExecutorJournal::open(&copy) {
            Err(error) => error,
            Ok(mut journal) => journal.verify().unwrap_err(),
        };
        assert!(
            matches!(
                error,
                StoreError::Corrupt { .. } | StoreError::Broken { .. }
            ),
            "page {number}: {error}"
        );
        says(&error, &["copy.sqlite", "move it away"]);
        damaged += 1;
    }
    assert_eq!(damaged, 2);
}

/// What SQLite's log holds when the power goes is there; a log whose end was lost gives what was whole.
#[test]
fn after_a_loss_of_power_everything_durable_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal.sqlite");
    let mut journal = ExecutorJournal::open(&path).unwrap();
    common::append(&mut journal, 0, common::EVENTS, Stamp(5)).unwrap();
    common::append(&mut journal, 1, 4, Stamp(5)).unwrap();
    // Not closed: copies of what is on the disk.
    let after = |cut: u64| {
        let copy = tempfile::tempdir().unwrap();
        for file in ["journal.sqlite", "journal.sqlite-wal"] {
            std::fs::copy(directory.path().join(file), copy.path().join(file)).unwrap();
        }
        let log = std::fs::OpenOptions::new()
            .write(true)
            .open(copy.path().join("journal.sqlite-wal"))
            .unwrap();
        let length = log.metadata().unwrap().len();
        log.set_len(length - cut).unwrap();
        let mut journal = ExecutorJournal::open(&copy.path().join("journal.sqlite")).unwrap();
        journal.verify().unwrap().events
    };
    assert_eq!(after(0), 15);
    // The last commit was being written.
    assert_eq!(after(100), 14);
}

#[test]
fn a_file_of_another_program_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("other.sqlite");
    let file = rusqlite::Connection::open(&path).unwrap();
    file.execute_batch("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1);")
        .unwrap();
    drop(file);
    for error in [
        ExecutorJournal::open(&path).unwrap_err(),
        HarnessStore::open(&path).unwrap_err(),
    ] {
        assert!(matches!(error, StoreError::OtherKind { .. }), "{error}");
        says(&error, &["other.sqlite", "another path"]);
    }
    // Ours, of another kind.
    let journal = filled(directory.path(), 1);
    let error = HarnessStore::open(&journal).unwrap_err();
    says(&error, &["no harness ledger"]);
    let theirs: i64 = rusqlite::Connection::open(&path)
        .unwrap()
        .query_row("SELECT x FROM theirs", [], |row| row.get(0))
        .unwrap();
    assert_eq!(theirs, 1);
}

#[test]
fn a_read_only_file_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = filled(directory.path(), 1);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o444)).unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o555)).unwrap();
    // The superuser may write all the same; then there is nothing to see here.
    let superuser = std::fs::OpenOptions::new().write(true).open(&path).is_ok();
    let outcome = ExecutorJournal::open(&path);
    if superuser {
        assert!(outcome.is_ok());
    } else {
        let error = outcome.unwrap_err();
        assert!(matches!(error, StoreError::ReadOnly { .. }), "{error}");
        says(&error, &["journal.sqlite", "state_directory"]);
    }
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Order comes from the chain, not from the clock.
#[test]
fn a_clock_that_is_set_back_disturbs_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal.sqlite");
    let mut journal = ExecutorJournal::open(&path).unwrap();
    let hour = 3_600_000_000_000;
    for (n, stamp) in [(0, 100 * hour), (1, hour), (2, -hour)] {
        common::append(&mut journal, n, common::EVENTS, Stamp(stamp)).unwrap();
    }
    common::append(&mut journal, 3, 4, Stamp(i64::MIN)).unwrap();
    common::append(&mut journal, 4, 4, Stamp(i64::MAX)).unwrap();
    drop(journal);
    let mut journal = ExecutorJournal::open(&path).unwrap();
    assert_eq!(journal.verify().unwrap().events, 41);
    let ids = |records: Vec<eh_ledger::executor::ExecutorRecord>| -> Vec<String> {
        records.into_iter().map(|r| r.command.command_id).collect()
    };
    assert_eq!(
        ids(journal.last_settled(2).unwrap()),
        ["command-00000002", "command-00000001"]
    );
    assert_eq!(
        ids(journal.live().unwrap()),
        ["command-00000003", "command-00000004"]
    );
    // The lease does not look at the clock either.
    let mut lease = LeaseStore::open(directory.path()).unwrap();
    for (token, granted_at_ns) in [(1, 100 * hour), (2, hour)] {
        lease
            .keep(&eh_store::lease::GrantRecord {
                token,
                controller_id: "/h".into(),
                granted_at_ns,
            })
            .unwrap();
    }
    assert_eq!(lease.newest_token().unwrap(), 2);
}

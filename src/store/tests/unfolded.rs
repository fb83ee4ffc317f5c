//! What a process that ended at once had not yet told the tables of commands and goals.

mod common;

use std::path::{Path, PathBuf};

use eh_contract::Stamp;
use eh_store::{ExecutorJournal, StoreError};
use rusqlite::Connection;

/// The files as a crash leaves them, copied while the journal is open.
fn crashed(path: &Path, name: &str) -> PathBuf {
    let copy = path.with_file_name(name);
    for ending in ["", "-wal"] {
        let of = |path: &Path| PathBuf::from(format!("{}{ending}", path.display()));
        std::fs::copy(of(path), of(&copy)).unwrap();
    }
    copy
}

/// How many commands the file's own table has, without a look into the log's newest events.
fn rows(path: &Path) -> i64 {
    Connection::open(path)
        .unwrap()
        .query_row("SELECT count(*) FROM commands", [], |row| row.get(0))
        .unwrap()
}

/// One whole life, one that has sent a goal, one that was only received, in turns.
fn three(journal: &mut ExecutorJournal) {
    let lives = [
        common::life(0, common::EVENTS),
        common::life(1, 4),
        common::life(2, 1),
    ];
    for i in 0..common::EVENTS {
        for life in &lives {
            if let Some((record, kind)) = life.get(i) {
                let now = Stamp(i as i64);
                journal.append(record, kind, common::DETAILS, now).unwrap();
            }
        }
    }
}

/// Everything that is read of it.
fn seen(journal: &ExecutorJournal) -> impl PartialEq + std::fmt::Debug {
    let ids = ["command-00000000", "command-00000001", "command-00000002"];
    (
        ids.map(|id| journal.get(id).unwrap()),
        ids.map(|id| journal.events(id).unwrap()),
        journal.live().unwrap(),
        journal.last_settled(9).unwrap(),
        journal.newest_token().unwrap(),
        journal.head(),
    )
}

#[test]
fn what_the_tables_lack_is_read_from_the_events_after_a_crash() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal.sqlite");
    let mut journal = ExecutorJournal::open(&path).unwrap();
    three(&mut journal);
    let copy = crashed(&path, "copy.sqlite");
    assert_eq!(rows(&crashed(&path, "looked_at.sqlite")), 0, "they lag");

    let mut again = ExecutorJournal::open(&copy).unwrap();
    assert_eq!(seen(&again), seen(&journal));
    assert_eq!(journal.live().unwrap().len(), 2);
    // The tables have it from there on.
    assert_eq!(rows(&crashed(&copy, "third.sqlite")), 3);
    let verified = again.verify().unwrap();
    assert_eq!((verified.events, verified.commands), (16, 3));

    // The first process goes on as if nothing was, and the second one knows every goal.
    for journal in [&mut journal, &mut again] {
        let mut thief = common::life(7, 4).pop().unwrap().0;
        thief.sub_goals[0].goal_id = common::uuid(1, 1);
        let refused = journal.append(&thief, "goal_sent", "{}", Stamp(9));
        assert!(
            matches!(&refused, Err(StoreError::Duplicate { what, .. }) if what.contains("goal")),
            "{refused:?}"
        );
        for (record, kind) in &common::life(1, common::EVENTS)[4..] {
            journal.append(record, kind, "{}", Stamp(9)).unwrap();
        }
        assert_eq!(journal.verify().unwrap().events, 23);
    }
    assert_eq!(seen(&again), seen(&journal));
}

/// Whatever number of events the tables are behind when it crashes.
#[test]
fn a_crash_may_come_at_any_distance_from_the_last_fold() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal.sqlite");
    let mut journal = ExecutorJournal::open(&path).unwrap();
    let mut lagged = 0;
    for n in 0..60 {
        // Every third one goes on running.
        let count = if n % 3 == 0 { 7 } else { common::EVENTS };
        common::append(&mut journal, n, count, Stamp(5)).unwrap();
        if n % 7 != 0 {
            continue;
        }
        let copy = crashed(&path, &format!("copy_{n}.sqlite"));
        let known = rows(&crashed(&path, &format!("looked_at_{n}.sqlite")));
        lagged += i32::from(known <= n as i64);
        let mut again = ExecutorJournal::open(&copy).unwrap();
        assert_eq!(again.live().unwrap(), journal.live().unwrap());
        assert_eq!(
            again.last_settled(99).unwrap(),
            journal.last_settled(99).unwrap()
        );
        assert_eq!(again.verify().unwrap().commands, n + 1);
    }
    assert!(
        lagged > 3,
        "the tables were up to date nearly always: nothing was tested"
    );
}

#[test]
fn newest_events_that_were_changed_are_refused_at_opening() {
    for (change, says) in [
        (
            "UPDATE events SET record = zeroblob(8) WHERE id = 4",
            "record",
        ),
        (
            "UPDATE events SET record = NULL WHERE id = 4",
            "record is missing",
        ),
        (
            "UPDATE events SET command = replace(command, 'cup_1', 'cup_2') WHERE id = 1",
            "received",
        ),
        ("UPDATE events SET command = NULL WHERE id = 1", "missing"),
        ("UPDATE events SET details = '{}' WHERE id = 4", "changed"),
        ("DELETE FROM events WHERE id = 4", "missing"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal.sqlite");
        let mut journal = ExecutorJournal::open(&path).unwrap();
        three(&mut journal);
        let copy = crashed(&path, "copy.sqlite");
        let file = Connection::open(&copy).unwrap();
        file.execute_batch("DROP TRIGGER events_are_only_added_to;")
            .unwrap();
        assert_eq!(file.execute(change, []).unwrap(), 1, "{change}");
        drop(file);
        match ExecutorJournal::open(&copy) {
            Err(StoreError::Broken { what, .. }) => {
                assert!(what.contains(says), "{change}: {what}");
            }
            other => panic!("{change}: {other:?}"),
        }
    }
}

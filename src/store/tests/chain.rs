//! What is changed, taken out or cut off shows, and is named.

mod common;

use std::path::{Path, PathBuf};

use eh_contract::Stamp;
use eh_store::{ExecutorJournal, StoreError};
use rusqlite::Connection;

/// Ten whole lives: 110 events, more than are checked at opening.
fn journal(directory: &Path) -> PathBuf {
    let path = directory.join("journal.sqlite");
    let mut journal = ExecutorJournal::open(&path).unwrap();
    for n in 0..10 {
        common::append(&mut journal, n, common::EVENTS, Stamp(5)).unwrap();
    }
    // And one that runs.
    common::append(&mut journal, 10, 4, Stamp(6)).unwrap();
    let verified = journal.verify().unwrap();
    assert_eq!(
        (verified.events, verified.dropped, verified.commands),
        (114, 0, 11)
    );
    assert_eq!(verified.head.id, 114);
    path
}

/// Does something to the file as somebody else would, past the triggers.
fn tamper(path: &Path, sql: &str) {
    let connection = Connection::open(path).unwrap();
    connection
        .execute_batch("DROP TRIGGER events_are_only_added_to;")
        .unwrap();
    assert!(
        connection.execute(sql, []).unwrap() > 0,
        "{sql} did nothing"
    );
}

/// What the whole check says of it; the file must be opened all the same unless `at_opening`.
fn broken(sql: &str, at_opening: bool) -> (i64, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = journal(directory.path());
    tamper(&path, sql);
    let error = match ExecutorJournal::open(&path) {
        Err(error) => {
            assert!(at_opening, "{sql}: {error}");
            error
        }
        Ok(mut journal) => {
            assert!(!at_opening, "{sql} was not seen at opening");
            journal.verify().unwrap_err()
        }
    };
    match &error {
        StoreError::Broken { event, what, .. } => {
            let text = error.to_string();
            assert!(
                text.contains("journal.sqlite") && text.contains("settle by hand"),
                "{text}"
            );
            (*event, what.clone())
        }
        other => panic!("{sql}: {other}"),
    }
}

#[test]
fn a_changed_event_is_named() {
    for column in ["details", "kind", "subject"] {
        let sql = format!("UPDATE events SET {column} = {column} || ' ' WHERE id = 7");
        assert_eq!(broken(&sql, false).0, 7, "{column}");
    }
    for column in ["stamp", "sequence", "previous"] {
        let sql = format!("UPDATE events SET {column} = {column} + 1 WHERE id = 7");
        assert_eq!(broken(&sql, false).0, 7, "{column}");
    }
    let (event, what) = broken(
        "UPDATE events SET record_hash = zeroblob(32) WHERE id = 7",
        false,
    );
    assert_eq!(event, 7);
    assert!(what.contains("changed"), "{what}");
}

#[test]
fn a_changed_event_near_the_end_is_seen_at_opening() {
    assert_eq!(
        broken("UPDATE events SET stamp = stamp + 1 WHERE id = 100", true).0,
        100
    );
}

#[test]
fn a_missing_event_is_named() {
    let (event, what) = broken("DELETE FROM events WHERE id BETWEEN 20 AND 22", false);
    assert_eq!(event, 20);
    assert!(what.contains("missing") && what.contains("23"), "{what}");
    assert_eq!(broken("DELETE FROM events WHERE id = 1", false).0, 1);
    assert_eq!(broken("DELETE FROM events WHERE id = 110", true).0, 110);
}

#[test]
fn an_end_that_was_cut_off_is_seen_at_opening() {
    // The last four are those of the command that runs, whose row says that there were 114.
    let (event, what) = broken("DELETE FROM events WHERE id > 112", true);
    assert_eq!(event, 113);
    assert!(what.contains("cut off") && what.contains("114"), "{what}");
    assert_eq!(broken("DELETE FROM events WHERE id > 0", true).0, 1);
}

#[test]
fn a_command_that_its_events_do_not_tell_of_is_named() {
    let change = "UPDATE commands SET record = replace(record, 'cup_1', 'cup_2')";
    let (event, what) = broken(&format!("{change} WHERE number = 2"), false);
    assert_eq!(event, 22, "the last event of the second command");
    assert!(what.contains("command-00000001"), "{what}");
    for (change, says) in [
        (
            "UPDATE command_texts SET text = replace(text, 'cup_1', 'cup_2')",
            "digest",
        ),
        ("UPDATE command_texts SET text = '{'", "can't be read"),
        ("DELETE FROM command_texts", "can't be read"),
        ("UPDATE commands SET digest = 'another'", "digest"),
    ] {
        let (event, what) = broken(&format!("{change} WHERE number = 2"), false);
        assert_eq!(event, 22, "{change}");
        assert!(
            what.contains("command-00000001") && what.contains(says),
            "{change}: {what}"
        );
    }
    let (event, what) = broken("DELETE FROM commands WHERE number = 3", false);
    assert_eq!(event, 23, "its first event");
    assert!(what.contains("command-00000002"), "{what}");
}

/// Dropped events are known by their runs; a run that was made up does not fit.
#[test]
fn a_list_of_dropped_events_that_was_made_up_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = journal(directory.path());
    let connection = Connection::open(&path).unwrap();
    connection
        .execute_batch(
            "DELETE FROM events WHERE id BETWEEN 20 AND 22;
             INSERT INTO dropped_events VALUES (20, 22, zeroblob(32), zeroblob(32));",
        )
        .unwrap();
    drop(connection);
    let error = ExecutorJournal::open(&path).unwrap().verify().unwrap_err();
    assert!(
        matches!(error, StoreError::Broken { event: 19, .. }),
        "{error}"
    );
}

/// The events of one command are read in order, although they have no index of their own.
#[test]
fn the_events_of_one_command_are_found_among_the_others() {
    let mut journal = ExecutorJournal::in_memory().unwrap();
    let lives: Vec<_> = (0..3).map(|n| common::life(n, common::EVENTS)).collect();
    for i in 0..common::EVENTS {
        for life in &lives {
            let (record, kind) = &life[i];
            journal.append(record, kind, "{}", Stamp(i as i64)).unwrap();
        }
    }
    let events = journal.events("command-00000001").unwrap();
    let sequences: Vec<u64> = events.iter().map(|e| e.sequence).collect();
    assert_eq!(sequences, (1..=common::EVENTS as u64).collect::<Vec<_>>());
    assert_eq!(events.last().unwrap().kind, "settled");
    assert!(journal.events("command-1").unwrap().is_empty());
    journal.verify().unwrap();
}

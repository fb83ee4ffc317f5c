//! Files that an earlier version wrote.

mod common;

use std::path::Path;

use eh_contract::Stamp;
use eh_store::{ExecutorJournal, HarnessStore, StoreError};
use rusqlite::{params, Connection};

/// The journal's tables as version 1 made them.
const JOURNAL_1: &str = "
    PRAGMA application_id = 0x45484a01; PRAGMA user_version = 1; PRAGMA journal_mode = WAL;
    CREATE TABLE commands (command_id TEXT PRIMARY KEY NOT NULL, digest TEXT NOT NULL,
        state INTEGER NOT NULL, sequence INTEGER NOT NULL, fencing_token INTEGER NOT NULL,
        updated_at INTEGER NOT NULL, record TEXT NOT NULL) STRICT;
    CREATE INDEX commands_by_state ON commands (state, updated_at);
    CREATE TABLE sub_goals (goal_id BLOB PRIMARY KEY NOT NULL,
        command_id TEXT NOT NULL REFERENCES commands (command_id), segment INTEGER NOT NULL,
        name TEXT NOT NULL, action_name TEXT NOT NULL, status INTEGER NOT NULL,
        UNIQUE (command_id, segment, name)) STRICT;
    CREATE TABLE events (id INTEGER PRIMARY KEY,
        command_id TEXT NOT NULL REFERENCES commands (command_id), sequence INTEGER NOT NULL,
        stamp INTEGER NOT NULL, kind TEXT NOT NULL, details TEXT NOT NULL,
        UNIQUE (command_id, sequence)) STRICT;
    CREATE TRIGGER events_are_only_added_to BEFORE UPDATE ON events
    BEGIN SELECT raise(ABORT, 'events are only added to'); END;
    CREATE TABLE notes (name TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL) STRICT;
    INSERT INTO notes VALUES ('held_grasp', 'cup');";

/// Two commands, their events in turns; the second one still runs.
fn journal_1(path: &Path) {
    let mut file = Connection::open(path).unwrap();
    file.execute_batch(JOURNAL_1).unwrap();
    let t = file.transaction().unwrap();
    let lives = [common::life(0, common::EVENTS), common::life(1, 5)];
    for life in &lives {
        let (record, _) = life.last().unwrap();
        let id = &record.command.command_id;
        t.execute(
            "INSERT INTO commands VALUES (?1, ?2, ?3, ?4, ?5, 7, ?6)",
            params![
                id,
                record.digest,
                record.state.to_wire(),
                record.sequence as i64,
                9,
                serde_json::to_string(record).unwrap()
            ],
        )
        .unwrap();
        for goal in &record.sub_goals {
            t.execute(
                "INSERT INTO sub_goals VALUES (?1, ?2, 0, ?3, ?4, 0)",
                params![goal.goal_id.as_slice(), id, goal.name, goal.action_name],
            )
            .unwrap();
        }
    }
    for i in 0..common::EVENTS {
        for life in &lives {
            if let Some((record, kind)) = life.get(i) {
                t.execute(
                    "INSERT INTO events (command_id, sequence, stamp, kind, details)
                     VALUES (?1, ?2, 5, ?3, '{}')",
                    params![record.command.command_id, record.sequence as i64, kind],
                )
                .unwrap();
            }
        }
    }
    t.commit().unwrap();
}

#[test]
fn a_journal_of_version_1_is_taken_over_with_everything_that_it_knew() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal.sqlite");
    journal_1(&path);
    for _again in 0..2 {
        let mut journal = ExecutorJournal::open(&path).unwrap();
        let verified = journal.verify().unwrap();
        assert_eq!((verified.events, verified.commands), (16, 2));
        let live = journal.live().unwrap();
        assert_eq!(live, [common::life(1, 5).pop().unwrap().0]);
        assert_eq!(journal.last_settled(9).unwrap().len(), 1);
        assert_eq!(journal.newest_token().unwrap(), 9);
        assert_eq!(journal.note("held_grasp").unwrap().as_deref(), Some("cup"));
        let events = journal.events("command-00000000").unwrap();
        assert_eq!(events.len(), common::EVENTS);
        assert_eq!(events[0].kind, "received");
    }
    // What was refused before is refused still, and the chain goes on.
    let mut journal = ExecutorJournal::open(&path).unwrap();
    let mut thief = common::life(7, 4).pop().unwrap().0;
    thief.sub_goals[0].goal_id = common::uuid(1, 1);
    assert!(matches!(
        journal.append(&thief, "goal_sent", "{}", Stamp(9)),
        Err(StoreError::Duplicate { .. })
    ));
    let rest = &common::life(1, common::EVENTS)[5..];
    for (record, kind) in rest {
        journal.append(record, kind, "{}", Stamp(9)).unwrap();
    }
    assert_eq!(journal.events("command-00000001").unwrap().len(), 11);
    assert_eq!(journal.verify().unwrap().events, 22);
    assert!(journal.live().unwrap().is_empty());
}

#[test]
fn an_empty_journal_of_version_1_is_taken_over() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal.sqlite");
    Connection::open(&path)
        .unwrap()
        .execute_batch(JOURNAL_1)
        .unwrap();
    let mut journal = ExecutorJournal::open(&path).unwrap();
    assert_eq!(journal.verify().unwrap().events, 0);
    assert_eq!(journal.newest_token().unwrap(), 0);
}

/// The harness's tables as version 1 made them.
const HARNESS_1: &str = "
    PRAGMA application_id = 0x45484831; PRAGMA user_version = 1; PRAGMA journal_mode = WAL;
    CREATE TABLE command (command_id TEXT PRIMARY KEY, task_id TEXT NOT NULL, digest TEXT NOT NULL,
        state INTEGER NOT NULL, terminal INTEGER NOT NULL, open INTEGER NOT NULL,
        sequence INTEGER NOT NULL, settled_at INTEGER NOT NULL, record TEXT NOT NULL) STRICT;
    CREATE INDEX command_open ON command (open) WHERE open = 1;
    CREATE TABLE goal (goal_id BLOB PRIMARY KEY,
        command_id TEXT NOT NULL REFERENCES command (command_id), segment INTEGER NOT NULL,
        UNIQUE (command_id, segment)) STRICT;
    CREATE TABLE task (task_id TEXT PRIMARY KEY, running INTEGER NOT NULL,
        received_at INTEGER NOT NULL, record TEXT NOT NULL) STRICT;
    CREATE TABLE event (task_id TEXT NOT NULL, sequence INTEGER NOT NULL, stamp INTEGER NOT NULL,
        kind TEXT NOT NULL, command_id TEXT NOT NULL, record TEXT NOT NULL,
        PRIMARY KEY (task_id, sequence)) STRICT, WITHOUT ROWID;
    CREATE INDEX event_command ON event (command_id);
    INSERT INTO event VALUES ('b', 1, 5, 'plan', '', '{}'), ('a', 2, 9, 'plan', '', '{}'),
        ('a', 1, 5, 'plan', '', '{}');
    INSERT INTO command VALUES ('c1', 'a', 'd', 4, 0, 1, 2, 0, '{}'), ('c2', 'a', 'd', 9, 1, 0, 9, 8, '{}');
    INSERT INTO goal VALUES (X'01', 'c1', 0);";

#[test]
fn a_harness_file_of_version_1_is_taken_over() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("harness.sqlite");
    Connection::open(&path)
        .unwrap()
        .execute_batch(HARNESS_1)
        .unwrap();
    let store = HarnessStore::open(&path).unwrap();
    let verified = store.verify().unwrap();
    assert_eq!(verified.session_events.events, 3);
    assert_eq!((verified.command_events.events, verified.commands), (2, 2));
    assert_eq!(store.last_sequence("a").unwrap(), 2);
    assert_eq!(store.last_sequence("b").unwrap(), 1);
}

#[test]
fn a_migration_that_fails_leaves_the_old_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal.sqlite");
    journal_1(&path);
    // A table of the new version is in the way.
    let file = Connection::open(&path).unwrap();
    file.execute_batch("CREATE TABLE facts (x INTEGER)")
        .unwrap();
    drop(file);
    let error = ExecutorJournal::open(&path).unwrap_err();
    assert!(error.to_string().contains("migrating failed"), "{error}");
    let file = Connection::open(&path).unwrap();
    let version: i64 = file
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .unwrap();
    let events: i64 = file
        .query_row("SELECT count(*) FROM events", [], |row| row.get(0))
        .unwrap();
    assert_eq!((version, events), (1, 16));
}

//! The journal as its executor uses it.

use super::*;
use eh_contract::command::{SkillCommand, SCHEMA_VERSION};
use eh_contract::skill::DisconnectPolicy;
use eh_ledger::executor::{step, ExecutorEvent, FinalState};
use std::time::Duration;

fn record(id: &str) -> ExecutorRecord {
    let command = SkillCommand {
        schema_version: SCHEMA_VERSION,
        command_id: id.into(),
        task_id: String::new(),
        robot_id: "robot".into(),
        skill: "wait".into(),
        skill_version: "1.0.0".into(),
        arguments: serde_json::Map::new(),
        targets: vec![],
        preconditions: vec![],
        world_version: 0,
        plan_version: 0,
        start_within: Duration::from_secs(1),
        execution_timeout: Duration::ZERO,
        stop_timeout: Duration::ZERO,
        max_segments: 0,
    };
    ExecutorRecord::received(command, 0, "boot", 9, "/h", Stamp(1))
}

/// Applies an event and writes what comes out.
fn go(journal: &mut ExecutorJournal, record: &mut ExecutorRecord, event: ExecutorEvent) {
    *record = step(record, &event, Stamp(2)).unwrap().record;
    journal
        .append(record, event.name(), "{}", Stamp(record.sequence as i64))
        .unwrap();
}

fn accept() -> ExecutorEvent {
    ExecutorEvent::Accept {
        resources: vec!["base".into()],
        disconnect_policy: DisconnectPolicy::Stop,
    }
}

fn send(n: u8, name: &str) -> ExecutorEvent {
    ExecutorEvent::SendGoal {
        goal_id: [n; 16],
        action_name: "/navigate_to_pose".into(),
        name: name.into(),
    }
}

/// A command that has begun its run.
fn started(journal: &mut ExecutorJournal, id: &str, run_id: &str) -> ExecutorRecord {
    let mut record = record(id);
    journal.append(&record, "received", "{}", Stamp(1)).unwrap();
    go(journal, &mut record, accept());
    let run_id = run_id.into();
    go(journal, &mut record, ExecutorEvent::Start { run_id });
    record
}

#[test]
fn what_was_appended_is_there_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal.sqlite");
    let mut journal = ExecutorJournal::open(&path).unwrap();
    let mut one = started(&mut journal, "c1", "r1");
    go(&mut journal, &mut one, send(1, "drive"));
    journal.set_note("held", "cup").unwrap();
    drop(journal);

    let journal = ExecutorJournal::open(&path).unwrap();
    assert_eq!(journal.live().unwrap(), vec![one.clone()]);
    assert_eq!(journal.get("c1").unwrap(), Some(one));
    assert_eq!(journal.get("c2").unwrap(), None);
    assert_eq!(journal.newest_token().unwrap(), 9);
    assert_eq!(journal.note("held").unwrap().as_deref(), Some("cup"));
    let kinds: Vec<String> = journal
        .events("c1")
        .unwrap()
        .into_iter()
        .map(|e| e.kind)
        .collect();
    assert_eq!(kinds, ["received", "accepted", "started", "goal_sent"]);
}

#[test]
fn the_file_refuses_what_was_written_before() {
    let mut journal = ExecutorJournal::in_memory().unwrap();
    let mut one = record("c1");
    journal.append(&one, "received", "{}", Stamp(1)).unwrap();
    let again = journal.append(&one, "received", "{}", Stamp(1));
    assert!(matches!(again, Err(StoreError::Duplicate { .. })));
    go(&mut journal, &mut one, accept());
    go(
        &mut journal,
        &mut one,
        ExecutorEvent::Start {
            run_id: "r1".into(),
        },
    );
    go(&mut journal, &mut one, send(1, "drive"));

    // Another command with the same UUID.
    let two = started(&mut journal, "c2", "r2");
    let stolen = step(&two, &send(1, "drive"), Stamp(3)).unwrap().record;
    let error = journal
        .append(&stolen, "goal_sent", "{}", Stamp(3))
        .unwrap_err();
    assert!(
        matches!(&error, StoreError::Duplicate { what, .. } if what.contains("01010101-")),
        "{error}"
    );
    // Nothing of it was kept.
    assert_eq!(journal.get("c2").unwrap(), Some(two));
}

#[test]
fn settled_ones_leave_the_live_list() {
    let mut journal = ExecutorJournal::in_memory().unwrap();
    for i in 0..3 {
        let mut r = record(&format!("c{i}"));
        journal.append(&r, "received", "{}", Stamp(i)).unwrap();
        go(&mut journal, &mut r, accept());
        go(
            &mut journal,
            &mut r,
            ExecutorEvent::Start { run_id: "r".into() },
        );
        go(&mut journal, &mut r, ExecutorEvent::Complete);
        if i < 2 {
            go(
                &mut journal,
                &mut r,
                ExecutorEvent::Settle {
                    final_state: FinalState::Succeeded,
                    settled_by: "/h".into(),
                    reason: String::new(),
                },
            );
        }
    }
    assert_eq!(journal.live().unwrap().len(), 1);
    assert_eq!(journal.last_settled(1).unwrap().len(), 1);
    assert_eq!(journal.last_settled(16).unwrap().len(), 2);
}

#[test]
fn a_full_disk_keeps_nothing_of_the_event() {
    let mut journal = ExecutorJournal::in_memory().unwrap();
    // As many pages as it has: the next page can't be had, as on a full disk.
    let pages: i64 = journal
        .database
        .connection()
        .query_row("PRAGMA page_count", [], |r| r.get(0))
        .unwrap();
    journal
        .database
        .connection()
        .query_row(&format!("PRAGMA max_page_count = {pages}"), [], |r| {
            r.get::<_, i64>(0)
        })
        .unwrap();
    let mut big = record("c1");
    big.error_msg = "x".repeat(100_000);
    let error = journal
        .append(&big, "received", "{}", Stamp(1))
        .unwrap_err();
    assert!(matches!(error, StoreError::DiskFull { .. }), "{error}");
    assert_eq!(journal.get("c1").unwrap(), None);
}

/// Nobody of a batch is told "durable" when the disk had no room for it, nothing of it is kept, and when
/// there is room again the chain goes on where it was.
#[test]
fn a_full_disk_refuses_a_whole_batch_and_then_goes_on() {
    let mut journal = ExecutorJournal::in_memory().unwrap();
    let mut one = record("c1");
    journal.append(&one, "received", "{}", Stamp(1)).unwrap();
    go(&mut journal, &mut one, accept());
    let head = journal.head();
    let limit = |journal: &ExecutorJournal, pages: i64| {
        journal
            .database
            .connection()
            .query_row(&format!("PRAGMA max_page_count = {pages}"), [], |r| {
                r.get::<_, i64>(0)
            })
            .unwrap()
    };
    // No lower than what is there.
    limit(&journal, 1);
    let mut big = record("c2");
    big.error_msg = "x".repeat(100_000);
    let small = record("c3");
    let batch = |records: [&ExecutorRecord; 2]| {
        records.map(|r| JournalEntry::new(r.clone(), "received", "{}".into(), Stamp(3)).unwrap())
    };
    let outcomes = journal.append_batch(&batch([&small, &big]));
    for outcome in &outcomes {
        assert!(
            matches!(outcome, Err(StoreError::DiskFull { .. })),
            "{outcome:?}"
        );
    }
    assert_eq!(journal.get("c3").unwrap(), None);
    assert_eq!(journal.head(), head);
    limit(&journal, 1_000_000);
    let outcomes = journal.append_batch(&batch([&small, &big]));
    assert!(outcomes.iter().all(Result::is_ok));
    assert_eq!(journal.verify().unwrap().events, 4);
    assert_eq!(journal.get("c1").unwrap(), Some(one));
}

#[test]
fn what_is_written_together_is_written_as_a_whole_or_not_at_all() {
    let mut journal = ExecutorJournal::in_memory().unwrap();
    let known = record("c1");
    journal.append(&known, "received", "{}", Stamp(1)).unwrap();
    let head = journal.head();
    let entries = |records: [&ExecutorRecord; 2]| {
        records.map(|r| JournalEntry::new(r.clone(), "received", "{}".into(), Stamp(2)).unwrap())
    };
    // The second one is there already.
    let refused = journal.append_all(&entries([&record("c2"), &known]));
    assert!(
        matches!(refused, Err(StoreError::Duplicate { .. })),
        "{refused:?}"
    );
    assert_eq!(journal.get("c2").unwrap(), None);
    assert_eq!(journal.head(), head);
    journal.append_all(&[]).unwrap();
    assert_eq!(journal.head(), head);
    journal
        .append_all(&entries([&record("c2"), &record("c3")]))
        .unwrap();
    assert!(journal.get("c3").unwrap().is_some());
    assert_eq!(journal.verify().unwrap().events, 3);
}

#[test]
fn the_end_of_a_command_is_never_written_over() {
    let mut journal = ExecutorJournal::in_memory().unwrap();
    let mut one = record("c1");
    journal.append(&one, "received", "{}", Stamp(1)).unwrap();
    go(
        &mut journal,
        &mut one,
        ExecutorEvent::Reject {
            error_code: 1,
            error_msg: "x".into(),
        },
    );
    let mut risen = one.clone();
    risen.sequence += 1;
    risen.state = eh_contract::state::ExecutorState::Started;
    let error = journal
        .append(&risen, "started", "{}", Stamp(3))
        .unwrap_err();
    assert!(
        matches!(&error, StoreError::Duplicate { what, .. } if what.contains("end of command c1")),
        "{error}"
    );
    assert_eq!(journal.get("c1").unwrap(), Some(one));
}

//! The harness's file: both of its chains, and what is dropped when tasks have ended.

use std::time::Duration;

use eh_contract::session::{EventKind, SessionEvent, TaskRecord, TaskRequest};
use eh_contract::state::TaskOutcome;
use eh_contract::Stamp;
use eh_store::journal::Retention;
use eh_store::{HarnessStore, StoreError};
use rusqlite::Connection;

fn event(task_id: &str, sequence: u64) -> SessionEvent {
    SessionEvent {
        robot_id: "robot".into(),
        task_id: task_id.into(),
        command_id: String::new(),
        run_id: String::new(),
        plan_version: 0,
        sequence,
        stamp: Stamp(5),
        kind: EventKind::Plan,
        text: format!("event {sequence}"),
        payload: serde_json::json!({}),
        model_version: String::new(),
        config_version: String::new(),
        evidence: vec![],
    }
}

fn task(id: &str, outcome: TaskOutcome) -> TaskRecord {
    TaskRecord {
        request: TaskRequest {
            task_id: id.into(),
            ..TaskRequest::default()
        },
        outcome,
        received_at: Stamp(1),
        ..TaskRecord::default()
    }
}

/// Two tasks whose events take turns, 100 of each.
fn fill(store: &mut HarnessStore) {
    for id in ["a", "b"] {
        store
            .save_task(&task(id, TaskOutcome::Unspecified))
            .unwrap();
    }
    for sequence in 1..=100 {
        store
            .append_events(&[event("a", sequence), event("b", sequence)])
            .unwrap();
    }
}

#[test]
fn a_session_event_that_was_changed_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("harness.sqlite");
    fill(&mut HarnessStore::open(&path).unwrap());
    let store = HarnessStore::open(&path).unwrap();
    let verified = store.verify().unwrap();
    assert_eq!(verified.session_events.events, 200);
    assert_eq!(verified.session_head.id, 200);
    drop(store);
    Connection::open(&path)
        .unwrap()
        .execute_batch(
            "DROP TRIGGER session_events_are_only_added_to;
             UPDATE session_events SET details = replace(details, 'event 20', 'event 21') WHERE id = 39;",
        )
        .unwrap();
    // Too far from the end to be seen at opening.
    let error = HarnessStore::open(&path).unwrap().verify().unwrap_err();
    assert!(
        matches!(error, StoreError::Broken { event: 39, .. }),
        "{error}"
    );
}

#[test]
fn events_of_tasks_that_have_ended_are_dropped_and_those_of_running_ones_never() {
    let mut store = HarnessStore::in_memory().unwrap();
    fill(&mut store);
    store.set_retention(Retention {
        events: 50,
        event_age: Duration::MAX,
        remembered_events: 1000,
        remembered_for: Duration::ZERO,
    });
    // Both run: nothing is dropped.
    assert_eq!(store.compact(Stamp(9)).unwrap().session_events, 0);
    // The end of a task makes room: half of the 150 old ones are its.
    store.save_task(&task("a", TaskOutcome::Succeeded)).unwrap();
    assert_eq!(store.events("a", 0).unwrap().len(), 25);
    assert_eq!(store.events("b", 0).unwrap().len(), 100);
    let verified = store.verify().unwrap();
    assert_eq!(
        (
            verified.session_events.events,
            verified.session_events.dropped
        ),
        (125, 75)
    );
    // The log of the one that runs goes on.
    store.append_events(&[event("b", 101)]).unwrap();
    assert_eq!(store.verify().unwrap().session_head.id, 201);
}

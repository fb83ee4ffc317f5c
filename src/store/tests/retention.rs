//! What is dropped, what never is, and what remains of it.

mod common;

use std::time::Duration;

use eh_contract::Stamp;
use eh_store::journal::Retention;
use eh_store::{ExecutorJournal, StoreError};

const SECOND: i64 = 1_000_000_000;

fn keep(events: u64, age: u64, remembered_events: u64, remembered_for: u64) -> Retention {
    Retention {
        events,
        event_age: Duration::from_secs(age),
        remembered_events,
        remembered_for: Duration::from_secs(remembered_for),
    }
}

/// Compacts until nothing is dropped any more; gives how many events and commands were.
fn compact(journal: &mut ExecutorJournal, now: Stamp) -> (usize, usize) {
    let mut sum = (0, 0);
    // Two in a row: one may have looked at pinned events only.
    let mut idle = 0;
    while idle < 2 {
        let dropped = journal.compact(now).unwrap();
        sum.0 += dropped.events;
        sum.1 += dropped.commands;
        idle = if dropped.events + dropped.commands == 0 {
            idle + 1
        } else {
            0
        };
    }
    sum
}

/// Ten lives of 11 events, the fourth of which never ends: 10 * 11 - 2 = 108 events.
fn ten(path: &std::path::Path) -> ExecutorJournal {
    let mut journal = ExecutorJournal::open(path).unwrap();
    for n in 0..10 {
        let count = if n == 3 { 9 } else { common::EVENTS };
        common::append(&mut journal, n, count, Stamp(n as i64 * SECOND)).unwrap();
    }
    journal
}

#[test]
fn beyond_the_count_events_of_ended_commands_are_dropped_and_the_chain_still_holds() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal.sqlite");
    let mut journal = ten(&path);
    journal.set_retention(keep(20, 1 << 40, 1000, 0));
    let now = Stamp(10 * SECOND);
    // Of the oldest 88 events 9 belong to the command that lives.
    assert_eq!(compact(&mut journal, now), (88 - 9, 0));
    let live = journal.live().unwrap();
    assert_eq!(live.len(), 1);
    assert_eq!(
        journal.events("command-00000003").unwrap().len(),
        9,
        "a live command keeps everything"
    );
    assert!(journal.events("command-00000000").unwrap().is_empty());
    let verified = journal.verify().unwrap();
    assert_eq!((verified.events, verified.dropped), (20 + 9, 79));
    drop(journal);

    // Opened again: the chain goes on where it was.
    let mut journal = ExecutorJournal::open(&path).unwrap();
    journal.set_retention(keep(20, 1 << 40, 1000, 0));
    assert_eq!(journal.head().id, 108);
    common::append(&mut journal, 20, common::EVENTS, now).unwrap();
    compact(&mut journal, now);
    let verified = journal.verify().unwrap();
    assert_eq!((verified.events, verified.dropped), (29, 90));

    // When the live one has ended its events go as well, and the runs around them become one.
    let mut record = live[0].clone();
    for event in &common::events(3)[8..] {
        record = eh_ledger::executor::step(&record, event, now)
            .unwrap()
            .record;
        journal.append(&record, event.name(), "{}", now).unwrap();
    }
    compact(&mut journal, now);
    let verified = journal.verify().unwrap();
    assert_eq!((verified.events, verified.dropped), (20, 101));
    assert_eq!(verified.commands, 11);
}

#[test]
fn beyond_the_age_too_and_a_clock_that_is_set_back_drops_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let mut journal = ten(&directory.path().join("journal.sqlite"));
    journal.set_retention(keep(1 << 40, 3, 1 << 40, 0));
    assert_eq!(compact(&mut journal, Stamp(-50 * SECOND)), (0, 0));
    // At 6 s those of 0, 1 and 2 s are older than 3 s; the next one lives; that of 4 s is too young.
    assert_eq!(compact(&mut journal, Stamp(6 * SECOND)), (33, 0));
    let verified = journal.verify().unwrap();
    assert_eq!((verified.events, verified.dropped), (75, 33));
}

#[test]
fn ids_and_uuids_are_refused_long_after_their_events_were_dropped() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal.sqlite");
    let mut journal = ten(&path);
    let now = Stamp(100 * SECOND);
    // No event is kept, ids for 1000 events.
    journal.set_retention(keep(0, 0, 1000, 0));
    assert_eq!(compact(&mut journal, now), (108 - 9, 0));
    drop(journal);
    let mut journal = ExecutorJournal::open(&path).unwrap();
    journal.verify().unwrap();
    journal.set_retention(keep(0, 0, 1000, 0));

    let known = journal.get("command-00000000").unwrap().unwrap();
    assert!(known.is_terminal() && known.sub_goals.len() == 3);
    let (first, kind) = &common::life(0, 1)[0];
    let refused = journal.append(first, kind, "{}", now);
    assert!(matches!(refused, Err(StoreError::Duplicate { .. })));
    // Another command under a UUID of the first.
    let mut thief = common::life(77, 4).pop().unwrap().0;
    thief.sub_goals[0].goal_id = common::uuid(0, 1);
    let refused = journal.append(&thief, "goal_sent", "{}", now).unwrap_err();
    assert!(
        matches!(&refused, StoreError::Duplicate { what, .. } if what.contains("goal ")),
        "{refused}"
    );

    // Beyond the count, but not beyond the time: still known. Then beyond both: forgotten, with its UUIDs,
    // bit by bit, and never the live one.
    journal.set_retention(keep(0, 0, 50, 1000));
    assert_eq!(compact(&mut journal, now).1, 0);
    journal.set_retention(keep(0, 0, 50, 10));
    // The last events of commands 0, 1, 2 and 4 are 11, 22, 33 and 53; those of 5 and later are above 58.
    assert_eq!(compact(&mut journal, now).1, 4);
    assert!(journal.get("command-00000000").unwrap().is_none());
    assert!(journal.get("command-00000003").unwrap().is_some());
    assert!(journal.get("command-00000005").unwrap().is_some());
    journal.verify().unwrap();
    // The newest token stays whatever is forgotten.
    journal.set_retention(keep(0, 0, 0, 0));
    compact(&mut journal, now);
    drop(journal);
    let journal = ExecutorJournal::open(&path).unwrap();
    assert_eq!(journal.newest_token().unwrap(), 9);
    assert_eq!(journal.live().unwrap().len(), 1);
}

#[test]
fn room_is_made_while_commands_end() {
    let directory = tempfile::tempdir().unwrap();
    let mut journal = ExecutorJournal::open(&directory.path().join("journal.sqlite")).unwrap();
    journal.set_retention(keep(100, 1 << 40, 200, 0));
    for n in 0..200 {
        let entries = common::entries(n, common::EVENTS, Stamp(SECOND));
        assert!(journal.append_batch(&entries).iter().all(Result::is_ok));
    }
    let verified = journal.verify().unwrap();
    // 2,200 events; looked after each 256 or a few more (24 lives are 264).
    assert!(
        (100..=364).contains(&verified.events),
        "{} events are kept",
        verified.events
    );
    assert_eq!(verified.events + verified.dropped, 2200);
    // 200 events are 18 lives and a bit, and up to 24 wait to be looked at.
    assert!(
        (18..=44).contains(&verified.commands),
        "{} commands are remembered",
        verified.commands
    );
}

//! Many writers, and nobody is told "durable" before it is.

mod common;

use std::sync::mpsc;

use eh_contract::Stamp;
use eh_store::{ExecutorJournal, GroupCommit, JournalEntry, StoreError};

#[test]
fn sixteen_writers_lose_nothing_and_the_chain_holds() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal.sqlite");
    let (group, thread) = GroupCommit::start(ExecutorJournal::open(&path).unwrap()).unwrap();
    std::thread::scope(|scope| {
        for w in 0..16 {
            let group = group.clone();
            scope.spawn(move || {
                for n in 0..2 {
                    for entry in common::entries(w * 2 + n, common::EVENTS, Stamp(5)) {
                        group.append(entry).unwrap();
                    }
                }
            });
        }
    });
    drop(group);
    thread.join().unwrap();
    let mut journal = ExecutorJournal::open(&path).unwrap();
    let verified = journal.verify().unwrap();
    assert_eq!(
        (verified.events, verified.commands),
        (32 * common::EVENTS as u64, 32)
    );
}

/// When a caller is told, what it wrote is in the file: a copy of it at that moment has it. That SQLite
/// has also called the disk by then is its `synchronous = FULL`, which a test of the database checks.
#[test]
fn who_is_told_finds_it_in_a_copy_of_the_files() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal.sqlite");
    let (group, thread) = GroupCommit::start(ExecutorJournal::open(&path).unwrap()).unwrap();
    let (told, copies) = mpsc::channel();
    for n in 0..4 {
        for entry in common::entries(n, 3, Stamp(5)) {
            let (told, from) = (told.clone(), directory.path().to_path_buf());
            let id = entry.record().command.command_id.clone();
            let sequence = entry.record().sequence;
            group
                .append_then(entry, move |outcome| {
                    outcome.unwrap();
                    let copy = tempfile::tempdir().unwrap();
                    for file in ["journal.sqlite", "journal.sqlite-wal"] {
                        std::fs::copy(from.join(file), copy.path().join(file)).unwrap();
                    }
                    told.send((copy, id, sequence)).unwrap();
                })
                .unwrap();
        }
    }
    drop((group, told));
    thread.join().unwrap();
    let mut count = 0;
    for (copy, id, sequence) in copies {
        let mut journal = ExecutorJournal::open(&copy.path().join("journal.sqlite")).unwrap();
        let record = journal.get(&id).unwrap().unwrap();
        assert!(record.sequence >= sequence);
        journal.verify().unwrap();
        count += 1;
    }
    assert_eq!(count, 12);
}

#[test]
fn one_that_is_refused_does_not_hold_up_the_others() {
    let mut journal = ExecutorJournal::in_memory().unwrap();
    common::append(&mut journal, 0, 3, Stamp(1)).unwrap();
    let mut batch = common::entries(1, 2, Stamp(2));
    batch.extend(common::entries(0, 1, Stamp(2)));
    batch.extend(common::entries(2, 1, Stamp(2)));
    // The same event twice in one batch.
    batch.extend(common::entries(2, 1, Stamp(2)));
    let outcomes = journal.append_batch(&batch);
    let duplicate = |i: usize| matches!(outcomes[i], Err(StoreError::Duplicate { .. }));
    assert!(outcomes[0].is_ok() && outcomes[1].is_ok() && outcomes[3].is_ok());
    assert!(duplicate(2) && duplicate(4));
    let verified = journal.verify().unwrap();
    assert_eq!((verified.events, verified.commands), (6, 3));
}

#[test]
fn after_the_end_of_the_thread_nobody_is_told_that_it_is_written() {
    let (group, thread) = GroupCommit::start(ExecutorJournal::in_memory().unwrap()).unwrap();
    // What panics in the thread ends it.
    let _ = group.with(|_| panic!("on purpose"));
    assert!(thread.join().is_err());
    let (record, kind) = common::life(0, 1).remove(0);
    let entry = JournalEntry::new(record, kind, "{}".into(), Stamp(1)).unwrap();
    assert!(matches!(group.append(entry), Err(StoreError::Ended)));
}

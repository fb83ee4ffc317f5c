//! Prints what a durable commit of the executor's journal costs, beside what it can't cost less than: a
//! bare commit of SQLite of the same durability, and a bare write of 4 KiB with fdatasync. One tab
//! separated line for each measurement; `scripts/bench ledger` runs it and makes a table of them.
//!
//! ```sh
//! cargo run --release -p eh_store --example commit_time -- DIRECTORY ROUNDS COMMITS WRITERS EVENTS...
//! ```

#[path = "../tests/common/mod.rs"]
mod common;

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use eh_contract::Stamp;
use eh_store::journal::Retention;
use eh_store::{ExecutorJournal, GroupCommit, JournalEntry};
use rusqlite::Connection;

/// Size of one bare write \[bytes\].
const PAGE: usize = 4096;
/// Pages of the bare file: as many as SQLite's log has before it begins at its front again.
const PAGES: u64 = 1000;
/// Commands that are not over when the journal is opened.
const LIVE: u64 = 1000;
/// How often each opening is measured.
const OPENINGS: usize = 11;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, rounds, commits, writers, sizes @ ..] = arguments.as_slice() else {
        return Err("give DIRECTORY ROUNDS COMMITS WRITERS EVENTS...".into());
    };
    let directory = Path::new(directory);
    let (rounds, commits, writers): (u64, usize, u64) =
        (rounds.parse()?, commits.parse()?, writers.parse()?);
    let mut bare = BareFile::new(&directory.join("bare"))?;
    let mut sqlite = BareSqlite::new(&directory.join("bare.sqlite"))?;
    let mut journal = ExecutorJournal::open(&directory.join("journal.sqlite"))?;
    let mut next = 0;
    // The first pages of each file are made before anything is measured.
    for warm in [true, false] {
        let rounds = if warm { 1 } else { rounds };
        for round in 0..rounds {
            let lives = commits.div_ceil(common::EVENTS) as u64;
            let records: Vec<_> = (next..next + lives)
                .flat_map(|n| common::life(n, common::EVENTS))
                .take(commits)
                .collect();
            next += lives;
            let mut times = [const { Vec::new() }; 3];
            // One of each in turn, so that whatever else the disk has to do meets all of them.
            for (i, (record, kind)) in records.iter().enumerate() {
                for k in 0..3 {
                    let began = Instant::now();
                    let which = (i + k) % 3;
                    match which {
                        0 => bare.commit()?,
                        1 => sqlite.commit()?,
                        _ => journal.append(record, kind, common::DETAILS, Stamp(3))?,
                    }
                    times[which].push(began.elapsed());
                }
            }
            if !warm {
                for (name, times) in ["bare", "sqlite", "ours"].iter().zip(&mut times) {
                    report(name, round, times);
                }
            }
        }
    }
    drop(journal);
    for round in 0..rounds {
        // Each writer's next commit waits for its last one, as with commands of a robot.
        let journal = ExecutorJournal::open(&directory.join("journal.sqlite"))?;
        let (group, thread) = GroupCommit::start(journal)?;
        let each = commits / common::EVENTS + 1;
        let barrier = Barrier::new(usize::try_from(writers)? + 1);
        let took = std::thread::scope(|scope| {
            for w in 0..writers {
                let (group, barrier) = (group.clone(), &barrier);
                let first = next + w * each as u64;
                scope.spawn(move || {
                    let records: Vec<_> = (first..first + each as u64)
                        .flat_map(|n| common::life(n, common::EVENTS))
                        .collect();
                    barrier.wait();
                    for (record, kind) in records {
                        let entry =
                            JournalEntry::new(record, kind, common::DETAILS.into(), Stamp(3))
                                .expect("a record of the test is JSON");
                        group.append(entry).expect("the disk has room");
                    }
                    barrier.wait();
                });
            }
            barrier.wait();
            let began = Instant::now();
            barrier.wait();
            began.elapsed()
        });
        next += writers * each as u64;
        drop(group);
        thread.join().map_err(|_| "the journal's thread ended")?;
        let count = writers * (each * common::EVENTS) as u64;
        println!("group\t{round}\t{count}\t{:.9}", took.as_secs_f64());
    }
    openings(directory, sizes)
}

fn report(name: &str, round: u64, times: &mut [Duration]) {
    times.sort();
    let sum: Duration = times.iter().sum();
    let at = |q: usize| times[(times.len() * q / 100).min(times.len() - 1)].as_secs_f64();
    println!(
        "{name}\t{round}\t{}\t{:.9}\t{:.9}\t{:.9}\t{:.9}",
        times.len(),
        sum.as_secs_f64(),
        at(50),
        at(99),
        at(100)
    );
}

/// A file whose pages are there already, written one after the other.
struct BareFile {
    file: File,
    page: u64,
}

impl BareFile {
    fn new(path: &Path) -> std::io::Result<Self> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .open(path)?;
        file.write_all_at(&vec![0x55; PAGE * PAGES as usize], 0)?;
        file.sync_all()?;
        Ok(BareFile { file, page: 0 })
    }

    fn commit(&mut self) -> std::io::Result<()> {
        let content = [self.page as u8; PAGE];
        self.file
            .write_all_at(&content, self.page % PAGES * PAGE as u64)?;
        self.page += 1;
        self.file.sync_data()
    }
}

/// One small row for each commit, with the journal's durability.
struct BareSqlite {
    connection: Connection,
    next: i64,
}

impl BareSqlite {
    fn new(path: &Path) -> rusqlite::Result<Self> {
        let connection = Connection::open(path)?;
        connection.pragma_update_and_check(None, "locking_mode", "EXCLUSIVE", |_| Ok(()))?;
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, x TEXT NOT NULL)")?;
        Ok(BareSqlite {
            connection,
            next: 0,
        })
    }

    fn commit(&mut self) -> rusqlite::Result<()> {
        self.next += 1;
        self.connection
            .prepare_cached("INSERT INTO t VALUES (?1, ?2)")?
            .execute((self.next, "a row of a few bytes"))?;
        Ok(())
    }
}

/// Opening with 1,000 live commands, over the number of events.
fn openings(directory: &Path, sizes: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let path = directory.join("large.sqlite");
    let mut number = 0;
    let mut events = 0;
    // The live ones come first, so that they lie as far apart from the newest events as can be.
    let mut journal = open_to_fill(&path)?;
    for _ in 0..LIVE {
        let entries = common::entries(number, common::EVENTS - 2, Stamp(3));
        events += fill(&mut journal, &entries)?;
        number += 1;
    }
    drop(journal);
    for size in sizes {
        let size: usize = size.parse()?;
        let mut journal = open_to_fill(&path)?;
        while events < size {
            let mut entries = Vec::new();
            while entries.len() < 1100 && events + entries.len() < size {
                entries.extend(common::entries(number, common::EVENTS, Stamp(3)));
                number += 1;
            }
            events += fill(&mut journal, &entries)?;
        }
        let began = Instant::now();
        let verified = journal.verify()?;
        let verifying = began.elapsed();
        drop(journal);
        let mut opening = Vec::new();
        let mut reading = Vec::new();
        for _ in 0..OPENINGS {
            let began = Instant::now();
            let journal = ExecutorJournal::open(&path)?;
            opening.push(began.elapsed());
            let live = journal.live()?.len();
            reading.push(began.elapsed());
            assert_eq!(live as u64, LIVE);
        }
        opening.sort();
        reading.sort();
        let bytes = std::fs::metadata(&path)?.len();
        println!(
            "open\t{}\t{bytes}\t{:.9}\t{:.9}\t{:.9}\t{:.9}",
            verified.events,
            opening[OPENINGS / 2].as_secs_f64(),
            opening[OPENINGS - 1].as_secs_f64(),
            reading[OPENINGS / 2].as_secs_f64(),
            verifying.as_secs_f64()
        );
    }
    Ok(())
}

fn open_to_fill(path: &Path) -> Result<ExecutorJournal, eh_store::StoreError> {
    let mut journal = ExecutorJournal::open(path)?;
    journal.set_retention(Retention {
        events: u64::MAX,
        event_age: Duration::MAX,
        remembered_events: u64::MAX,
        remembered_for: Duration::MAX,
    });
    Ok(journal)
}

fn fill(
    journal: &mut ExecutorJournal,
    entries: &[JournalEntry<'_>],
) -> Result<usize, eh_store::StoreError> {
    journal
        .append_batch(entries)
        .into_iter()
        .collect::<Result<Vec<()>, _>>()
        .map(|done| done.len())
}

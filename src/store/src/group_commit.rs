//! Many writers, one wait for the disk.

use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::thread::JoinHandle;

use crate::error::StoreError;
use crate::journal::{ExecutorJournal, JournalEntry};

/// Entries that wait for the writer at most; whoever comes then waits.
const WAITING: usize = 256;
/// Entries in one transaction at most, so that the first does not wait long for the last.
const AT_ONCE: usize = 64;

type Done = Box<dyn FnOnce(Result<(), StoreError>) + Send>;
type Work = Box<dyn FnOnce(&mut ExecutorJournal) + Send>;

enum Job {
    Append(Box<JournalEntry<'static>>, Done),
    Work(Work),
}

/// The journal with a thread of its own: what comes while it waits for the disk goes there together next
/// time. Nobody is told "durable" before that. Clones write into the same journal; when the last one is
/// gone the thread ends and the file is closed.
#[derive(Clone)]
pub struct GroupCommit {
    jobs: SyncSender<Job>,
}

impl GroupCommit {
    /// Gives the journal to a thread.
    ///
    /// # Errors
    /// The system's, when it starts no thread.
    pub fn start(journal: ExecutorJournal) -> std::io::Result<(Self, JoinHandle<()>)> {
        let (jobs, waiting) = sync_channel(WAITING);
        let thread = std::thread::Builder::new()
            .name("journal".into())
            .spawn(move || serve(journal, &waiting))?;
        Ok((GroupCommit { jobs }, thread))
    }

    /// Writes an entry; durable when this returns Ok.
    ///
    /// # Errors
    /// As [`ExecutorJournal::append`]; [`StoreError::Ended`] when the thread is gone.
    pub fn append(&self, entry: JournalEntry<'static>) -> Result<(), StoreError> {
        let (sender, receiver) = oneshot::channel();
        self.append_then(entry, move |outcome| {
            // The caller waits for it.
            let _ = sender.send(outcome);
        })?;
        receiver.recv().map_err(|_| StoreError::Ended)?
    }

    /// Writes an entry; `done` is called on the journal's thread once it is durable or refused, and must
    /// not wait for anything.
    ///
    /// # Errors
    /// [`StoreError::Ended`] when the thread is gone; `done` is not called then.
    pub fn append_then(
        &self,
        entry: JournalEntry<'static>,
        done: impl FnOnce(Result<(), StoreError>) + Send + 'static,
    ) -> Result<(), StoreError> {
        self.jobs
            .send(Job::Append(Box::new(entry), Box::new(done)))
            .map_err(|_| StoreError::Ended)
    }

    /// Does something else with the journal, after what was given before, such as reading.
    ///
    /// # Errors
    /// [`StoreError::Ended`] when the thread is gone.
    pub fn with(
        &self,
        work: impl FnOnce(&mut ExecutorJournal) + Send + 'static,
    ) -> Result<(), StoreError> {
        self.jobs
            .send(Job::Work(Box::new(work)))
            .map_err(|_| StoreError::Ended)
    }
}

fn serve(mut journal: ExecutorJournal, waiting: &Receiver<Job>) {
    let mut after: Option<Work> = None;
    loop {
        if let Some(work) = after.take() {
            work(&mut journal);
        }
        let mut entries = Vec::new();
        let mut callers = Vec::new();
        let mut next = waiting.recv().ok();
        if next.is_none() {
            return;
        }
        while let Some(job) = next {
            match job {
                Job::Append(entry, done) => {
                    entries.push(*entry);
                    callers.push(done);
                }
                Job::Work(work) => {
                    after = Some(work);
                    break;
                }
            }
            next = if entries.len() < AT_ONCE {
                waiting.try_recv().ok()
            } else {
                None
            };
        }
        if entries.is_empty() {
            continue;
        }
        let outcomes = journal.append_batch(&entries);
        for (done, outcome) in callers.into_iter().zip(outcomes) {
            done(outcome);
        }
    }
}

//! The journal on a thread of its own: the spin thread never waits for a disk.

use std::path::Path;
use std::sync::mpsc;

use eh_contract::Stamp;
use eh_ledger::executor::ExecutorRecord;
use eh_store::{ExecutorJournal, StoreError};
use tokio::sync::oneshot;

/// Why a journal's answer is missing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JournalError {
    /// The file.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The thread is gone.
    #[error("the journal's thread has ended; restart the node")]
    Ended,
}

type Job = Box<dyn FnOnce(&mut ExecutorJournal) + Send>;

/// Sends work to the thread. Clones share it.
#[derive(Clone)]
pub(crate) struct Journal {
    jobs: mpsc::Sender<Job>,
}

/// What was found in the journal when it was opened.
pub(crate) struct Found {
    pub(crate) live: Vec<ExecutorRecord>,
    pub(crate) settled: Vec<ExecutorRecord>,
    pub(crate) newest_token: u64,
    pub(crate) held: Option<String>,
}

/// Name of the note that says how what is held was grasped.
pub(crate) const HELD: &str = "held_grasp";

impl Journal {
    /// Opens the file, reads what is in it, and starts the thread.
    pub(crate) fn open(path: &Path, settled: u32) -> Result<(Self, Found), crate::Error> {
        let mut journal = ExecutorJournal::open(path)?;
        let found = Found {
            live: journal.live()?,
            settled: journal.last_settled(settled)?,
            newest_token: journal.newest_token()?,
            held: journal.note(HELD)?,
        };
        let (jobs, work) = mpsc::channel::<Job>();
        std::thread::Builder::new()
            .name("journal".into())
            .spawn(move || {
                for job in work {
                    job(&mut journal);
                }
            })?;
        Ok((Journal { jobs }, found))
    }

    async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut ExecutorJournal) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, JournalError> {
        let (sender, receiver) = oneshot::channel();
        let job: Job = Box::new(move |journal| {
            // A caller that no longer waits does not need the answer.
            let _ = sender.send(work(journal));
        });
        self.jobs.send(job).map_err(|_| JournalError::Ended)?;
        Ok(receiver.await.map_err(|_| JournalError::Ended)??)
    }

    /// Returns after the commit.
    pub(crate) async fn append(
        &self,
        record: ExecutorRecord,
        kind: &'static str,
        details: String,
        now: Stamp,
    ) -> Result<(), JournalError> {
        self.ask(move |journal| journal.append(&record, kind, &details, now))
            .await
    }

    pub(crate) async fn get(
        &self,
        command_id: String,
    ) -> Result<Option<ExecutorRecord>, JournalError> {
        self.ask(move |journal| journal.get(&command_id)).await
    }

    pub(crate) async fn set_note(
        &self,
        name: &'static str,
        value: String,
    ) -> Result<(), JournalError> {
        self.ask(move |journal| journal.set_note(name, &value))
            .await
    }
}

//! The thread that makes the scene durable, so that the disk never delays a query.

use std::path::Path;
use std::sync::{mpsc, Arc};
use std::thread::JoinHandle;

use eh_scene::ChangeSet;
use eh_store::{SceneStore, StoreError};
use parking_lot::Mutex;

/// Most batches that wait for the disk; beyond it they stay with the scene and come with a later batch.
const MAX_WAITING: usize = 16;

/// Hands batches to the thread.
pub(crate) struct SceneKeeper {
    orders: Option<mpsc::SyncSender<ChangeSet>>,
    thread: Option<JoinHandle<()>>,
    trouble: Arc<Mutex<Option<String>>>,
}

impl SceneKeeper {
    /// Opens the store, reads what is known of a map and starts the thread.
    ///
    /// # Errors
    /// When the file can't be used: without it refs could be given twice.
    pub(crate) fn start(
        state_directory: &Path,
        map_id: &str,
    ) -> Result<(Self, ChangeSet), crate::Error> {
        let store = SceneStore::open(state_directory)?;
        let known = store.read(map_id)?;
        let (orders, received) = mpsc::sync_channel(MAX_WAITING);
        let trouble = Arc::new(Mutex::new(None));
        let told = Arc::clone(&trouble);
        let thread = std::thread::Builder::new()
            .name("scene keeper".into())
            .spawn(move || work(store, &received, &told))?;
        Ok((
            SceneKeeper {
                orders: Some(orders),
                thread: Some(thread),
                trouble,
            },
            known,
        ))
    }

    /// Hands over a batch without waiting; what comes back was not taken: too many wait.
    pub(crate) fn keep(&self, batch: ChangeSet) -> Option<ChangeSet> {
        let Some(orders) = &self.orders else {
            return Some(batch);
        };
        match orders.try_send(batch) {
            Ok(()) => None,
            Err(mpsc::TrySendError::Full(batch) | mpsc::TrySendError::Disconnected(batch)) => {
                Some(batch)
            }
        }
    }

    /// Why the last batch was not written, told once.
    pub(crate) fn take_trouble(&self) -> Option<String> {
        self.trouble.lock().take()
    }

    /// Writes the last batch and waits for the thread.
    pub(crate) fn finish(mut self, batch: ChangeSet) {
        if let Some(orders) = self.orders.take() {
            // The node has stopped spinning: waiting for the disk delays nobody now.
            let _ = orders.send(batch);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn work(
    mut store: SceneStore,
    orders: &mpsc::Receiver<ChangeSet>,
    trouble: &Mutex<Option<String>>,
) {
    // A batch that could not be written is tried again with the next one, in order.
    let mut waiting: Vec<ChangeSet> = Vec::new();
    for batch in orders {
        waiting.push(batch);
        let mut done = 0;
        for batch in &waiting {
            let written: Result<(), StoreError> = store.write(batch);
            match written {
                Ok(()) => done += 1,
                Err(error) => {
                    *trouble.lock() = Some(error.to_string());
                    break;
                }
            }
        }
        waiting.drain(..done);
        // A disk that stays full must not fill the memory: what is lost first, perception repeats.
        let excess = waiting.len().saturating_sub(MAX_WAITING);
        waiting.drain(..excess);
    }
}

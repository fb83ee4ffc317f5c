//! The thread that makes the scene durable, so that the disk never delays a query.

use std::path::Path;
use std::sync::{mpsc, Arc};
use std::thread::JoinHandle;

use eh_scene::ChangeSet;
use eh_store::{SceneStore, StoreError};
use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Most batches that wait for the disk; beyond it they stay with the scene and come with a later batch.
const MAX_WAITING: usize = 16;

/// What comes back from the disk, or why nothing does.
pub(crate) type Answer<T> = oneshot::Receiver<Result<T, String>>;

/// What the thread is to do.
enum Order {
    /// Write a batch.
    Keep(Box<ChangeSet>),
    /// Read what is known of a map.
    Read(String, oneshot::Sender<Result<ChangeSet, String>>),
    /// Name the maps that are known.
    Maps(oneshot::Sender<Result<Vec<String>, String>>),
}

/// Hands batches to the thread.
pub(crate) struct SceneKeeper {
    orders: Option<mpsc::SyncSender<Order>>,
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
        match orders.try_send(Order::Keep(Box::new(batch))) {
            Ok(()) => None,
            Err(
                mpsc::TrySendError::Full(Order::Keep(batch))
                | mpsc::TrySendError::Disconnected(Order::Keep(batch)),
            ) => Some(*batch),
            // What comes back is what was sent.
            Err(_) => None,
        }
    }

    /// Reads what is known of a map, after everything that was handed over before; `None`: too many wait.
    pub(crate) fn read(&self, map_id: &str) -> Option<Answer<ChangeSet>> {
        let (reply, answer) = oneshot::channel();
        let order = Order::Read(map_id.into(), reply);
        self.orders.as_ref()?.try_send(order).ok()?;
        Some(answer)
    }

    /// Names of the maps that are known; `None`: too many wait.
    pub(crate) fn maps(&self) -> Option<Answer<Vec<String>>> {
        let (reply, answer) = oneshot::channel();
        self.orders.as_ref()?.try_send(Order::Maps(reply)).ok()?;
        Some(answer)
    }

    /// Why the last batch was not written, told once.
    pub(crate) fn take_trouble(&self) -> Option<String> {
        self.trouble.lock().take()
    }

    /// Writes the last batch and waits for the thread.
    pub(crate) fn finish(mut self, batch: ChangeSet) {
        if let Some(orders) = self.orders.take() {
            // The node has stopped spinning: waiting for the disk delays nobody now.
            let _ = orders.send(Order::Keep(Box::new(batch)));
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn work(mut store: SceneStore, orders: &mpsc::Receiver<Order>, trouble: &Mutex<Option<String>>) {
    // A batch that could not be written is tried again with the next order.
    let mut waiting: Vec<ChangeSet> = Vec::new();
    for order in orders {
        let question = match order {
            Order::Keep(batch) => {
                waiting.push(*batch);
                None
            }
            question => Some(question),
        };
        let failed = write(&mut store, &mut waiting);
        let behind = |error: &String| {
            format!("what is newest is not on the disk, so that it can't be read either: {error}")
        };
        match question {
            Some(Order::Read(map_id, reply)) => {
                let read = match &failed {
                    Some(error) => Err(behind(error)),
                    None => store.read(&map_id).map_err(|e| e.to_string()),
                };
                // Who asked may be gone.
                let _ = reply.send(read);
            }
            Some(Order::Maps(reply)) => {
                let _ = reply.send(store.maps().map_err(|e| e.to_string()));
            }
            Some(Order::Keep(_)) | None => {}
        }
        if failed.is_some() {
            *trouble.lock() = failed;
        }
    }
}

/// Writes what waits, in order; returns why not all of it was.
fn write(store: &mut SceneStore, waiting: &mut Vec<ChangeSet>) -> Option<String> {
    let mut done = 0;
    let mut failed = None;
    for batch in waiting.iter() {
        let written: Result<(), StoreError> = store.write(batch);
        match written {
            Ok(()) => done += 1,
            Err(error) => {
                failed = Some(error.to_string());
                break;
            }
        }
    }
    waiting.drain(..done);
    // A disk that stays full must not fill the memory: what is lost first, perception repeats.
    let excess = waiting.len().saturating_sub(MAX_WAITING);
    waiting.drain(..excess);
    failed
}

//! The thread that makes lease tokens durable, so that the disk never delays a velocity.

use std::path::Path;
use std::sync::mpsc;

use eh_store::lease::{GrantRecord, LeaseStore};
use tokio::sync::oneshot;

type Answer = oneshot::Sender<Result<(), String>>;

/// Hands tokens to the thread. Dropping it ends the thread.
pub(crate) struct LeaseKeeper {
    orders: mpsc::Sender<(GrantRecord, Answer)>,
}

/// What the store held when it was opened.
pub(crate) struct Opened {
    /// Newest token; 0 when the store can't be used, since then nothing is granted.
    pub token: u64,
    /// Why the store can't be used.
    pub trouble: Option<String>,
}

impl LeaseKeeper {
    /// Opens the store and starts the thread. A store that can't be opened is no reason not to protect: then
    /// every grant is refused with its words.
    pub(crate) fn start(state_directory: &Path) -> std::io::Result<(Self, Opened)> {
        let store = LeaseStore::open(state_directory)
            .and_then(|store| store.newest_token().map(|token| (store, token)))
            .map_err(|error| error.to_string());
        let (store, opened) = match store {
            Ok((store, token)) => (
                Ok(store),
                Opened {
                    token,
                    trouble: None,
                },
            ),
            Err(reason) => (
                Err(reason.clone()),
                Opened {
                    token: 0,
                    trouble: Some(reason),
                },
            ),
        };
        let (orders, received) = mpsc::channel();
        std::thread::Builder::new()
            .name("lease keeper".into())
            .spawn(move || work(store, &received))?;
        Ok((LeaseKeeper { orders }, opened))
    }

    /// Hands over a token; the receiver gets the answer after it is on the disk.
    pub(crate) fn keep(&self, grant: GrantRecord) -> oneshot::Receiver<Result<(), String>> {
        let (answer, receiver) = oneshot::channel();
        // If the thread is gone the answer is dropped, and the receiver learns that.
        let _ = self.orders.send((grant, answer));
        receiver
    }
}

fn work(mut store: Result<LeaseStore, String>, orders: &mpsc::Receiver<(GrantRecord, Answer)>) {
    for (grant, answer) in orders {
        let done = match &mut store {
            Ok(store) => store.keep(&grant).map_err(|error| error.to_string()),
            Err(reason) => Err(reason.clone()),
        };
        // Whoever asked may have given up.
        let _ = answer.send(done);
    }
}

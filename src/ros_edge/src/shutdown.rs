//! Shutdown as a value that is passed down: asked for by SIGINT, SIGTERM or the program itself.

use std::io;
use std::sync::Arc;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tokio::sync::watch;

/// Whether the process has been asked to end. Clones share one state; it never goes back.
///
/// Whoever moves something stops it when this is requested, before the executor halts.
#[derive(Debug, Clone)]
pub struct Shutdown {
    requested: Arc<watch::Sender<bool>>,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self::new()
    }
}

impl Shutdown {
    /// Creates a shutdown that only [`Shutdown::request`] asks for: for tests and nodes within nodes.
    pub fn new() -> Self {
        Self {
            requested: Arc::new(watch::Sender::new(false)),
        }
    }

    /// Creates a shutdown that SIGINT and SIGTERM ask for as well.
    ///
    /// The first signal asks; a second one ends the process at once, with status 128 + its number.
    ///
    /// # Errors
    ///
    /// If the operating system refuses the handlers or a thread.
    pub fn on_signals() -> io::Result<Self> {
        let shutdown = Self::new();
        let asked = shutdown.clone();
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        std::thread::Builder::new()
            .name("signals".into())
            .spawn(move || {
                for signal in signals.forever() {
                    if asked.is_requested() {
                        std::process::exit(128 + signal);
                    }
                    asked.request();
                }
            })?;
        Ok(shutdown)
    }

    /// Asks for the shutdown. Asking again changes nothing.
    pub fn request(&self) {
        self.requested.send_replace(true);
    }

    /// Whether the shutdown has been asked for.
    pub fn is_requested(&self) -> bool {
        *self.requested.borrow()
    }

    /// Waits until the shutdown is asked for.
    pub async fn requested(&self) {
        let mut receiver = self.requested.subscribe();
        // This value holds the sender, so the channel cannot close while it waits.
        let _ = receiver.wait_for(|requested| *requested).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_lite::future::block_on;

    #[test]
    fn clones_share_the_request() {
        let shutdown = Shutdown::new();
        let other = shutdown.clone();
        assert!(!shutdown.is_requested());
        other.request();
        other.request();
        assert!(shutdown.is_requested());
        block_on(shutdown.requested());
    }

    #[test]
    fn a_waiter_is_woken() {
        let shutdown = Shutdown::new();
        let asker = shutdown.clone();
        let thread = std::thread::spawn(move || asker.request());
        block_on(shutdown.requested());
        thread.join().unwrap();
    }
}

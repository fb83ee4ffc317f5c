//! The thread that makes stops and resets durable: a stop never waits for the disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use eh_protection::kept_stop::{KeptStop, StopChange, StopRecord};
use eh_protection::stop::StopRequest;
use eh_store::stop::{ChangeRecord, StopStore};
use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

/// A write that failed is tried again after this time, then after twice as long, and so on …
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// … but at least this often: a full disk is emptied some time.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How long the end of the process waits for the last write.
const LAST_WRITE: Duration = Duration::from_secs(1);

type Answer = oneshot::Sender<Result<(), String>>;

/// Hands changes to the thread. Dropping it lets the thread finish, for a moment.
pub(crate) struct StopKeeper {
    desk: Arc<Desk>,
}

/// Where the newest change lies until it is on the disk. A newer one takes its place: only the newest counts,
/// so nothing ever piles up.
#[derive(Default)]
struct Desk {
    on_it: Mutex<OnDesk>,
    changed: Condvar,
}

#[derive(Default)]
struct OnDesk {
    order: Option<Order>,
    newest: u64,
    // Why the newest change is not on the disk, as of the last attempt.
    trouble: Option<String>,
    closing: bool,
    closed: bool,
}

struct Order {
    record: StopRecord,
    at_ns: i64,
    answer: Option<Answer>,
}

impl StopKeeper {
    /// Reads what an earlier life left and starts the thread.
    pub(crate) fn start(state_directory: &Path) -> std::io::Result<(Self, KeptStop)> {
        let opened = StopStore::open(state_directory)
            .and_then(|store| store.newest().map(|newest| (store, newest)));
        let (store, kept) = match opened {
            Ok((store, Some(stop))) if stop.latched => (
                Some(store),
                KeptStop::Latched(StopRequest {
                    stop_id: stop.stop_id,
                    source: stop.who,
                    reason: stop.reason,
                }),
            ),
            Ok((store, _)) => (Some(store), KeptStop::Free),
            Err(error) => (None, KeptStop::Unreadable(error.to_string())),
        };
        let desk = Arc::new(Desk::default());
        let worker = Worker {
            desk: desk.clone(),
            directory: state_directory.to_path_buf(),
            store,
        };
        std::thread::Builder::new()
            .name("stop keeper".into())
            .spawn(move || worker.work())?;
        Ok((StopKeeper { desk }, kept))
    }

    /// Puts a change on the desk; the disk is not waited for. `at_ns` is ROS time \[ns\].
    pub(crate) fn keep(&self, record: StopRecord, at_ns: i64) {
        self.put(record, at_ns, None);
    }

    /// As [`keep`](Self::keep); the receiver gets the answer of the first attempt, or learns that a newer change
    /// took the place.
    pub(crate) fn keep_and_answer(
        &self,
        record: StopRecord,
        at_ns: i64,
    ) -> oneshot::Receiver<Result<(), String>> {
        let (answer, receiver) = oneshot::channel();
        self.put(record, at_ns, Some(answer));
        receiver
    }

    /// Why the newest change is not on the disk.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.desk.on_it.lock().trouble.clone()
    }

    fn put(&self, record: StopRecord, at_ns: i64, answer: Option<Answer>) {
        let mut desk = self.desk.on_it.lock();
        if record.revision > desk.newest {
            desk.newest = record.revision;
            desk.order = Some(Order {
                record,
                at_ns,
                answer,
            });
            self.desk.changed.notify_all();
        }
    }
}

impl Drop for StopKeeper {
    fn drop(&mut self) {
        let mut desk = self.desk.on_it.lock();
        desk.closing = true;
        self.desk.changed.notify_all();
        let until = Instant::now() + LAST_WRITE;
        while !desk.closed && !self.desk.changed.wait_until(&mut desk, until).timed_out() {}
    }
}

struct Worker {
    desk: Arc<Desk>,
    directory: PathBuf,
    store: Option<StopStore>,
}

impl Worker {
    fn work(mut self) {
        let mut pause = FIRST_PAUSE;
        let mut tried = 0;
        while let Some((record, at_ns)) = self.next(&mut tried, pause) {
            let done = self.write(&record, at_ns);
            let mut desk = self.desk.on_it.lock();
            let answer = match &mut desk.order {
                Some(order) if order.record.revision == record.revision => order.answer.take(),
                // A newer one lies there by now.
                Some(_) | None => None,
            };
            match &done {
                Ok(()) => {
                    pause = FIRST_PAUSE;
                    if desk.newest == record.revision {
                        desk.order = None;
                        desk.trouble = None;
                    }
                }
                Err(reason) => {
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    desk.trouble = Some(reason.clone());
                }
            }
            drop(desk);
            if let Some(answer) = answer {
                // Whoever asked may have given up.
                let _ = answer.send(done);
            }
        }
        self.desk.on_it.lock().closed = true;
        self.desk.changed.notify_all();
    }

    /// Waits for a change: one that is new, or the last one again after a pause. `None` at the end, when each
    /// was tried.
    fn next(&self, tried: &mut u64, pause: Duration) -> Option<(StopRecord, i64)> {
        let again = Instant::now() + pause;
        let mut desk = self.desk.on_it.lock();
        loop {
            if let Some(order) = &desk.order {
                let is_new = order.record.revision > *tried;
                if is_new || (!desk.closing && Instant::now() >= again) {
                    *tried = order.record.revision;
                    return Some((order.record.clone(), order.at_ns));
                }
            }
            if desk.closing {
                return None;
            }
            if desk.order.is_some() {
                self.desk.changed.wait_until(&mut desk, again);
            } else {
                self.desk.changed.wait(&mut desk);
            }
        }
    }

    fn write(&mut self, record: &StopRecord, at_ns: i64) -> Result<(), String> {
        let change = match &record.change {
            StopChange::Latched(stop) => ChangeRecord {
                latched: true,
                stop_id: stop.stop_id.clone(),
                who: stop.source.clone(),
                reason: stop.reason.clone(),
                changed_at_ns: at_ns,
            },
            StopChange::Reset { operator, reason } => ChangeRecord {
                latched: false,
                stop_id: String::new(),
                who: operator.clone(),
                reason: reason.clone(),
                changed_at_ns: at_ns,
            },
        };
        let store = match &mut self.store {
            Some(store) => store,
            // It may have been repaired meanwhile.
            None => self
                .store
                .insert(StopStore::open(&self.directory).map_err(|error| error.to_string())?),
        };
        // Asked again under the same name: it is there already.
        let same = |kept: &ChangeRecord| {
            (kept.latched, &kept.stop_id, &kept.who, &kept.reason)
                == (change.latched, &change.stop_id, &change.who, &change.reason)
        };
        match store.newest() {
            Ok(Some(kept)) if kept.latched && same(&kept) => Ok(()),
            Ok(_) => store.keep(&change).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latched(revision: u64, id: &str) -> StopRecord {
        StopRecord {
            revision,
            change: StopChange::Latched(stop(id)),
        }
    }

    fn stop(id: &str) -> StopRequest {
        StopRequest {
            stop_id: id.into(),
            source: "ann".into(),
            reason: "smoke".into(),
        }
    }

    fn reset(revision: u64) -> StopRecord {
        StopRecord {
            revision,
            change: StopChange::Reset {
                operator: "ann".into(),
                reason: "clear".into(),
            },
        }
    }

    fn directory(name: &str) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("eh_{name}_{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        directory
    }

    #[test]
    fn the_newest_change_is_on_the_disk_when_it_ends() {
        let directory = directory("newest");
        let open = || StopKeeper::start(&directory).unwrap();
        let (keeper, kept) = open();
        assert_eq!(kept, KeptStop::Free);
        for n in 1..=500 {
            keeper.keep(latched(n, &format!("s{n}")), 0);
        }
        keeper.keep(latched(7, "late"), 0);
        drop(keeper);
        let (keeper, kept) = open();
        assert_eq!(kept, KeptStop::Latched(stop("s500")));
        let answer = keeper.keep_and_answer(reset(1), 0).blocking_recv();
        assert_eq!(answer, Ok(Ok(())));
        drop(keeper);
        assert_eq!(open().1, KeptStop::Free);
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_disk_that_fails_is_tried_again_until_it_takes_the_newest() {
        let directory = directory("blocked");
        std::fs::write(&directory, "no folder").unwrap();
        let (keeper, kept) = StopKeeper::start(&directory).unwrap();
        assert!(matches!(kept, KeptStop::Unreadable(why) if why.contains("state_directory")));
        let answer = keeper.keep_and_answer(reset(1), 0).blocking_recv();
        assert!(answer.unwrap().is_err());
        assert!(keeper.trouble().is_some());
        keeper.keep(latched(2, "s"), 0);
        std::fs::remove_file(&directory).unwrap();
        // Tried again within LONGEST_PAUSE.
        let until = Instant::now() + 4 * LONGEST_PAUSE;
        while keeper.trouble().is_some() {
            assert!(Instant::now() < until, "{:?}", keeper.trouble());
            std::thread::yield_now();
        }
        drop(keeper);
        let kept = StopKeeper::start(&directory).unwrap().1;
        assert_eq!(kept, KeptStop::Latched(stop("s")));
        std::fs::remove_dir_all(&directory).unwrap();
    }
}

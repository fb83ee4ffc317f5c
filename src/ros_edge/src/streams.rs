//! Subscriptions to what a robot sends all the time: transforms, odometry, joint states, scans, camera frames.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use rclrs::{log_fatal, Node, RclrsError, Worker};

use crate::deadline::{sleep, within};

/// Where streams are subscribed to. Their callbacks run one after the other on a thread of their own.
///
/// Each message wakes a wait set, and waking costs time for each of its members: a node has forty and more
/// (services, actions, parameters), this one has only the streams. Nor does a message take a second way over
/// the executor's thread. Keep it as long as its subscriptions.
pub type Streams = Worker<()>;

/// Time between two looks at the wait sets.
const LOOK: Duration = Duration::from_secs(2);

/// A wait set that does nothing for so long has ended, however busy the machine is.
const LIMIT: Duration = Duration::from_secs(20);

/// The streams of a node.
///
/// rclrs ends a wait set at an error and goes on spinning the others of the node, which would then hear one
/// half of what it needs. So both are watched, and the process ends, to be started again, when one has ended.
///
/// # Errors
/// If ROS refuses the timer of the watch.
pub fn streams(node: &Node) -> Result<Streams, RclrsError> {
    let streams = node.create_worker(());
    let logger = node.clone();
    watch(node, &streams, LOOK, LIMIT, move |which| {
        log_fatal!(
            logger.logger(),
            "the wait set of {which} has done nothing for {} s: it has ended, and the node with it; restart it",
            LIMIT.as_secs()
        );
        // The log is written by a thread of its own.
        std::process::exit(1);
    })?;
    Ok(streams)
}

/// Calls `ended` once when the node's own wait set, or that of its streams, does nothing for `limit`.
fn watch(
    node: &Node,
    streams: &Streams,
    look: Duration,
    limit: Duration,
    ended: impl FnOnce(&'static str) + Send + 'static,
) -> Result<(), RclrsError> {
    let ticks = Arc::new(AtomicU64::new(0));
    let tick = ticks.clone();
    let timer = node.create_timer_repeating(look, move || {
        tick.fetch_add(1, Ordering::Relaxed);
    })?;
    let streams = streams.clone();
    let watching = node.commands().run(async move {
        let _timer = timer;
        loop {
            sleep(look).await;
            if within(limit, streams.run(|()| ())).await.is_err() {
                return ended("the streams");
            }
            let before = ticks.load(Ordering::Relaxed);
            let ticked = async {
                while ticks.load(Ordering::Relaxed) == before {
                    sleep(look / 4).await;
                }
            };
            if within(limit, ticked).await.is_err() {
                return ended("services and actions");
            }
        }
    });
    // It runs on without anybody waiting for it.
    drop(watching);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rclrs::{Context, CreateBasicExecutor, SpinOptions};
    use std::sync::mpsc::channel;

    /// Spins a node until its watch says which wait set has ended.
    fn which_ends(stop: impl FnOnce(&Node, &Streams)) -> &'static str {
        let mut executor = Context::default().create_basic_executor();
        let node = executor.create_node("watched").unwrap();
        let streams = node.create_worker(());
        let (told, hear) = channel();
        let commands = executor.commands().clone();
        let (look, limit) = (Duration::from_millis(20), Duration::from_millis(300));
        watch(&node, &streams, look, limit, move |which| {
            told.send(which).unwrap();
            commands.halt_spinning();
        })
        .unwrap();
        stop(&node, &streams);
        executor.spin(SpinOptions::new().timeout(Duration::from_secs(60)));
        hear.try_recv().unwrap()
    }

    #[test]
    fn a_wait_set_of_streams_that_does_nothing_is_noticed() {
        let which = which_ends(|_, streams| {
            drop(streams.run(|()| std::thread::sleep(Duration::from_secs(2))));
        });
        assert_eq!(which, "the streams");
    }

    #[test]
    fn a_wait_set_of_services_that_does_nothing_is_noticed() {
        let mut kept = None;
        let which = which_ends(|node, _| {
            let blocks = || std::thread::sleep(Duration::from_secs(2));
            let timer = node.create_timer_oneshot(Duration::from_millis(1), blocks);
            kept = Some(timer.unwrap());
        });
        assert_eq!(which, "services and actions");
    }
}

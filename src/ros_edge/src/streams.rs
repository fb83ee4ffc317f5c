//! Subscriptions to what a robot sends all the time: transforms, odometry, joint states, scans, camera frames.

use rclrs::{Node, Worker};

/// Where streams are subscribed to. Their callbacks run one after the other on a thread of their own.
///
/// Each message wakes a wait set, and waking costs time for each of its members: a node has forty and more
/// (services, actions, parameters), this one has only the streams. Nor does a message take a second way over
/// the executor's thread. Keep it as long as its subscriptions.
pub type Streams = Worker<()>;

/// The streams of a node.
#[must_use]
pub fn streams(node: &Node) -> Streams {
    node.create_worker(())
}

//! The issuer's time limits, and the two clocks that every decision gets.

use std::time::Duration;

use eh_contract::Stamp;
use serde::{Deserialize, Serialize};

/// The time at which a decision is made, on two clocks that are never compared with each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Local clock for waiting, since the start of the process: steady, or ROS time when the whole
    /// system runs on simulated time.
    pub steady: Duration,
    /// ROS time, for records.
    pub ros: Stamp,
}

/// How long the issuer waits for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssuerPolicy {
    /// Silence of the executor after which it is asked for the command, and time between two questions.
    pub silent_after: Duration,
    /// Silence, in spite of asking, after which the command is UNKNOWN.
    pub lost_after: Duration,
    /// Time between two cancels of which nothing was heard.
    pub cancel_interval: Duration,
    /// Time that messages may take on top of a budget that somebody else keeps.
    pub delivery_margin: Duration,
    /// Longest wait for one verdict.
    pub evaluation_timeout: Duration,
    /// Time between two attempts to tell the executor what became of a command.
    pub settle_interval: Duration,
    /// Verdicts UNKNOWN after which the command is UNKNOWN; at least 1.
    pub max_looks: u32,
}

impl Default for IssuerPolicy {
    fn default() -> Self {
        IssuerPolicy {
            silent_after: Duration::from_secs(2),
            lost_after: Duration::from_secs(15),
            cancel_interval: Duration::from_millis(500),
            delivery_margin: Duration::from_secs(2),
            evaluation_timeout: Duration::from_secs(20),
            settle_interval: Duration::from_secs(1),
            max_looks: 3,
        }
    }
}

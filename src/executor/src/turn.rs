//! What a decision may use: time, chance, the journal and the senses.

use std::time::Duration;

use eh_contract::Stamp;
use rand::RngCore;

use crate::journal::Journal;
use crate::senses::Senses;

/// What one decision is made with.
pub struct Turn<'a> {
    /// The clock that budgets are measured on; only differences count.
    pub now: Duration,
    /// ROS time.
    pub stamp: Stamp,
    /// For UUIDs of goals and names of runs.
    pub rng: &'a mut dyn RngCore,
    /// Where records become durable.
    pub journal: &'a mut dyn Journal,
    /// What is known of the robot now.
    pub senses: &'a dyn Senses,
}

//! What came of a run.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use eh_contract::state::TaskOutcome;

use crate::failpoint::Place;
use crate::network::Counts;
use crate::verdicts::Judged;

/// Something that must never be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// When.
    pub at: Duration,
    /// Which rule, in short.
    pub rule: &'static str,
    /// What happened.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.2} s: {}: {}",
            self.at.as_secs_f64(),
            self.rule,
            self.what
        )
    }
}

/// What came of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Virtual time that passed.
    pub passed: Duration,
    /// Rules that were broken.
    pub violations: Vec<Violation>,
    /// How tasks ended.
    pub tasks: BTreeMap<String, TaskOutcome>,
    /// Commands, and how many of each final state.
    pub commands: BTreeMap<&'static str, u64>,
    /// Physical starts.
    pub starts: u64,
    /// What the network did.
    pub network: Counts,
    /// Places that were passed.
    pub passed_places: BTreeMap<Place, u64>,
    /// Places at which a process ended.
    pub struck: BTreeMap<Place, u64>,
    /// Processes that ended, at places and at times.
    pub crashes: u64,
    /// Writes that were lost by crashes.
    pub lost_writes: u64,
    /// UNKNOWN commands that a person settled.
    pub settled_by_hand: u64,
    /// FAILED commands whose effect is there in truth: not wrong by the rules, but worth knowing.
    pub pessimistic: u64,
    /// Verdicts beside the truth, where that was wanted.
    pub verdicts: Vec<Judged>,
    /// Verdicts whose truth nobody knows.
    pub unreferred: u64,
    /// A number that differs when anything of the run differs.
    pub digest: u64,
    /// What happened, line by line, where it was wanted.
    pub trace: Vec<String>,
}

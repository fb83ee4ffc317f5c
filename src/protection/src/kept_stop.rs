//! What is kept of a latched stop, so that no restart forgets it.
//!
//! A stop acts first and is kept then: the disk is never in its way. A reset is kept first and acts then. So
//! the disk can only ever say "latched" for too long, but for the moment between a stop and its write.

use crate::stop::StopRequest;

/// Id of the stop that is put in force when what an earlier life left can't be read.
pub const UNREADABLE_STOP: &str = "stop-unreadable";

/// What an earlier life of the process left on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeptStop {
    /// No stop: the file is new, or the last one was reset.
    Free,
    /// A stop that nobody has reset.
    Latched(StopRequest),
    /// It can't be read, or can't be written from now on, and why: there may be a stop.
    Unreadable(String),
}

/// What the disk has to hold from now on; the largest revision counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopRecord {
    /// Grows with each change within one life of the process.
    pub revision: u64,
    /// The change.
    pub change: StopChange,
}

/// How a latched stop changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopChange {
    /// A stop is in force; the newest request.
    Latched(StopRequest),
    /// It was taken back.
    Reset {
        /// Who takes it back.
        operator: String,
        /// Why.
        reason: String,
    },
}

/// A reset on its way: hand [`record`](Self::record) to the disk, then call
/// [`finish_reset`](crate::Protection::finish_reset). The stop stays in force until then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingReset {
    /// What to keep.
    pub record: StopRecord,
    /// The operator wants it although standstill is not confirmed or the disk refuses.
    pub force: bool,
}

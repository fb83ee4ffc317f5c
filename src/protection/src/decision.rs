//! What protection does to the velocity, and why.

use std::time::Duration;

use crate::velocity::Velocity;

/// How restrictive a decision is (ProtectionState `MODE_*`); later is more restrictive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Commands pass unchanged.
    Pass = 1,
    /// Commands are scaled down.
    Slow = 2,
    /// Output is, or is falling to, zero until the reason is gone.
    Stop = 3,
    /// Output is, or is falling to, zero until an operator resets the stop.
    Latched = 4,
}

impl Mode {
    /// The number in messages.
    pub const fn to_wire(self) -> u8 {
        self as u8
    }
}

/// Why (ProtectionState `REASON_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Nothing is wrong.
    None = 0,
    /// Someone asked for a stop.
    StopRequested = 1,
    /// Something is in the stop zone and would come closer.
    StopZone = 2,
    /// Something is in the slow zone and comes closer.
    SlowZone = 3,
    /// No command, or none lately.
    CommandTimeout = 4,
    /// No scan, or none lately.
    ScanStale = 5,
    /// The newest scan can't be used.
    ScanInvalid = 6,
    /// No odometry, or none lately.
    OdomStale = 7,
    /// The newest command is not finite, not planar or absurdly fast.
    CommandInvalid = 8,
    /// Nobody holds the lease.
    NoLease = 9,
    /// Someone else publishes the output.
    SecondPublisher = 10,
    /// The clearance or the configured speed limits the command.
    SpeedLimit = 11,
    /// No executor declares a run.
    NoDeclaredRun = 12,
}

impl Reason {
    /// Every reason in the order of its number.
    pub const ALL: [Reason; 13] = [
        Reason::None,
        Reason::StopRequested,
        Reason::StopZone,
        Reason::SlowZone,
        Reason::CommandTimeout,
        Reason::ScanStale,
        Reason::ScanInvalid,
        Reason::OdomStale,
        Reason::CommandInvalid,
        Reason::NoLease,
        Reason::SecondPublisher,
        Reason::SpeedLimit,
        Reason::NoDeclaredRun,
    ];

    /// The number in messages.
    pub const fn to_wire(self) -> u8 {
        self as u8
    }

    /// Among reasons of one mode the one that is told: what has to be mended first comes first, so broken
    /// sensors before missing authority before the command before the surroundings.
    pub(crate) const fn rank(self) -> u8 {
        match self {
            Reason::StopRequested => 0,
            Reason::SecondPublisher => 1,
            Reason::ScanInvalid => 2,
            Reason::ScanStale => 3,
            Reason::OdomStale => 4,
            Reason::NoLease => 5,
            Reason::NoDeclaredRun => 6,
            Reason::CommandInvalid => 7,
            Reason::CommandTimeout => 8,
            Reason::StopZone => 9,
            Reason::SlowZone => 10,
            Reason::SpeedLimit => 11,
            Reason::None => 12,
        }
    }
}

/// One decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// How restrictive.
    pub mode: Mode,
    /// Why: the most restrictive reason.
    pub reason: Reason,
    /// Why in words, with value and limit; further reasons follow after "; also".
    pub message: String,
    /// The command received last; zero when none was ever received or it was not finite.
    pub input: Velocity,
    /// What the base is given.
    pub output: Velocity,
    /// Largest speed that the clearance allows along the commanded way [m/s]; infinite: no limit.
    pub speed_limit: f64,
    /// Distance from the footprint to the nearest return along the commanded way \[m\]; infinite: none.
    pub clearance: f64,
    /// Age of the newest command; `None`: never received.
    pub command_age: Option<Duration>,
    /// Age of the newest scan; `None`: never received.
    pub scan_age: Option<Duration>,
    /// Age of the newest odometry; `None`: never received.
    pub odom_age: Option<Duration>,
}

//! Virtual time: one true time for the world, and for each process life a steady clock of its own.

use std::time::Duration;

use eh_contract::Stamp;
use eh_ledger::issuer_policy::Now;

/// The world moves on in steps of this length.
pub const STEP: Duration = Duration::from_millis(20);

/// ROS time at the beginning of every world: some day in 2026.
const BEGIN_NS: i64 = 1_780_000_000_000_000_000;

/// True time since the beginning as ROS time.
pub fn stamp(now: Duration) -> Stamp {
    Stamp(BEGIN_NS.saturating_add(i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)))
}

/// True time of a stamp; zero for one before the beginning.
pub fn time_of(stamp: Stamp) -> Duration {
    Duration::from_nanos(u64::try_from(stamp.0.saturating_sub(BEGIN_NS)).unwrap_or(0))
}

/// The clocks of one process life. Steady clocks of two lives begin anywhere, so that whoever compares
/// them is found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessClock {
    offset: Duration,
}

impl ProcessClock {
    /// A steady clock that shows `offset` at the beginning of the world.
    pub const fn new(offset: Duration) -> Self {
        ProcessClock { offset }
    }

    /// The steady clock.
    pub const fn steady(&self, now: Duration) -> Duration {
        self.offset.saturating_add(now)
    }

    /// Both clocks.
    pub fn now(&self, now: Duration) -> Now {
        Now {
            steady: self.steady(now),
            ros: stamp(now),
        }
    }
}

/// Something that is due now and then.
#[derive(Clone, Copy, Debug)]
pub struct Every {
    period: Duration,
    next: Duration,
}

impl Every {
    /// Due at once, and then again after each `period`.
    pub const fn new(period: Duration) -> Self {
        Every {
            period,
            next: Duration::ZERO,
        }
    }

    /// Whether it is due; if so, the next time is a period later.
    pub fn is_due(&mut self, now: Duration) -> bool {
        if now < self.next {
            return false;
        }
        self.next = now + self.period;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_and_times_are_the_same_thing() {
        let t = Duration::from_millis(12_340);
        assert_eq!(time_of(stamp(t)), t);
        assert_eq!(time_of(Stamp::NEVER), Duration::ZERO);
    }

    #[test]
    fn two_lives_have_two_steady_clocks_and_one_ros_time() {
        let (a, b) = (
            ProcessClock::new(Duration::ZERO),
            ProcessClock::new(Duration::from_secs(7)),
        );
        let t = Duration::from_secs(1);
        assert_eq!(b.now(t).steady - a.now(t).steady, Duration::from_secs(7));
        assert_eq!(a.now(t).ros, b.now(t).ros);
    }
}

//! ROS time as a number.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A point of ROS time \[ns\]. Zero means "never" in messages and is kept as such.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Stamp(pub i64);

impl Stamp {
    /// "Never": the zero of a message field that was not filled.
    pub const NEVER: Stamp = Stamp(0);

    /// Creates a stamp from seconds; non-finite values give [`Stamp::NEVER`].
    pub fn from_secs_f64(secs: f64) -> Self {
        if secs.is_finite() {
            // `as` saturates, so a huge value stays the largest time instead of wrapping.
            Stamp((secs * 1e9) as i64)
        } else {
            Stamp::NEVER
        }
    }

    /// The stamp in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 * 1e-9
    }

    /// True for the zero that means "never".
    pub fn is_never(self) -> bool {
        self.0 == 0
    }

    /// How long after `earlier` this is; zero when it is before it (clocks can be set back).
    pub fn since(self, earlier: Stamp) -> Duration {
        let ns = self.0.saturating_sub(earlier.0);
        Duration::from_nanos(u64::try_from(ns).unwrap_or(0))
    }

    /// This time plus a duration, saturating.
    pub fn plus(self, duration: Duration) -> Stamp {
        let ns = i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
        Stamp(self.0.saturating_add(ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_set_back_gives_no_negative_age() {
        assert_eq!(Stamp(5).since(Stamp(7)), Duration::ZERO);
        assert_eq!(Stamp(7).since(Stamp(5)), Duration::from_nanos(2));
    }

    #[test]
    fn non_finite_and_huge_seconds_are_harmless() {
        assert_eq!(Stamp::from_secs_f64(f64::NAN), Stamp::NEVER);
        assert_eq!(Stamp::from_secs_f64(1e300), Stamp(i64::MAX));
        assert_eq!(Stamp(1).plus(Duration::MAX), Stamp(i64::MAX));
    }
}

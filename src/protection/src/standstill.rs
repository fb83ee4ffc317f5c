//! Whether the base stands, by measurement.

use std::time::Duration;

/// When measured motion counts as standing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StandstillLimits {
    /// Largest speed [m/s].
    pub linear: f64,
    /// Largest turning rate [rad/s].
    pub angular: f64,
    /// For how long without interruption.
    pub window: Duration,
    /// Longest gap between two measurements within the window.
    pub max_gap: Duration,
}

/// Follows measured velocities; times are on the caller's steady clock.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Standstill {
    since: Option<Duration>,
    latest: Option<Duration>,
}

impl Standstill {
    /// Takes a measurement; values that are not finite count as motion.
    pub fn measured(
        &mut self,
        now: Duration,
        linear: f64,
        angular: f64,
        limits: &StandstillLimits,
    ) {
        let still = linear.abs() <= limits.linear && angular.abs() <= limits.angular;
        let continues = self
            .latest
            .is_some_and(|latest| now >= latest && now - latest <= limits.max_gap);
        self.since = match (still, continues, self.since) {
            (false, _, _) => None,
            (true, true, Some(since)) => Some(since),
            (true, _, _) => Some(now),
        };
        self.latest = Some(now);
    }

    /// Forgets every measurement.
    pub fn forget(&mut self) {
        *self = Standstill::default();
    }

    /// True when the base has been standing for the window, all of it after `after`, and the newest
    /// measurement is not older than the allowed gap.
    pub fn standing_after(
        &self,
        now: Duration,
        after: Duration,
        limits: &StandstillLimits,
    ) -> bool {
        let (Some(since), Some(latest)) = (self.since, self.latest) else {
            return false;
        };
        now.saturating_sub(latest) <= limits.max_gap
            && latest.saturating_sub(since.max(after)) >= limits.window
    }

    /// True when the newest measurement was motion.
    pub fn is_moving(&self) -> bool {
        self.latest.is_some() && self.since.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: StandstillLimits = StandstillLimits {
        linear: 0.01,
        angular: 0.02,
        window: Duration::from_millis(300),
        max_gap: Duration::from_millis(200),
    };

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn still_until(end: u64) -> Standstill {
        let mut s = Standstill::default();
        for t in (0..=end).step_by(100) {
            s.measured(ms(t), 0.0, 0.0, &LIMITS);
        }
        s
    }

    #[test]
    fn needs_the_whole_window() {
        assert!(!still_until(200).standing_after(ms(200), ms(0), &LIMITS));
        assert!(still_until(300).standing_after(ms(300), ms(0), &LIMITS));
        // Only what was measured after the stop counts.
        assert!(!still_until(300).standing_after(ms(300), ms(100), &LIMITS));
        assert!(still_until(400).standing_after(ms(400), ms(100), &LIMITS));
    }

    #[test]
    fn motion_gaps_old_and_odd_values_begin_anew() {
        for (v, w) in [
            (0.02, 0.0),
            (0.0, -0.03),
            (f64::NAN, 0.0),
            (0.0, f64::INFINITY),
        ] {
            let mut s = still_until(300);
            s.measured(ms(400), v, w, &LIMITS);
            assert!(!s.standing_after(ms(400), ms(0), &LIMITS));
            s.measured(ms(500), 0.0, 0.0, &LIMITS);
            assert!(!s.standing_after(ms(500), ms(0), &LIMITS));
        }
        let mut gap = still_until(300);
        gap.measured(ms(600), 0.0, 0.0, &LIMITS);
        assert!(!gap.standing_after(ms(600), ms(0), &LIMITS));
        assert!(
            !still_until(300).standing_after(ms(600), ms(0), &LIMITS),
            "stale"
        );
        let mut back = still_until(300);
        back.measured(ms(100), 0.0, 0.0, &LIMITS);
        assert!(
            !back.standing_after(ms(100), ms(0), &LIMITS),
            "time went back"
        );
    }
}

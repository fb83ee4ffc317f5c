//! Whether a drive comes nearer to its goal: turning to and fro is no progress.

use std::time::Duration;

/// The way that is left must shrink by this much, metres, …
pub const LEAST_WAY: f64 = 0.15;
/// … or, at the goal's place, the heading error by this much, radians, …
pub const LEAST_TURN: f64 = 0.1;
/// … within this time.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// The least that was left so far, and since when.
///
/// Both marks only ever fall, by at least [`LEAST_WAY`] or [`LEAST_TURN`] each time; only
/// [`Progress::begin`] raises them. So a drive of `way` metres makes progress at most
/// `way / LEAST_WAY + π / LEAST_TURN + 1` times, whatever the base does.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    way: f64,
    turn: f64,
    arrived: bool,
    at: Duration,
}

impl Progress {
    /// Begins with this much way left, metres.
    #[must_use]
    pub fn new(way: f64, now: Duration) -> Self {
        Self {
            way,
            turn: f64::INFINITY,
            arrived: false,
            at: now,
        }
    }

    /// Begins again on another way, which may be longer.
    pub fn begin(&mut self, way: f64, now: Duration) {
        *self = Self::new(way, now);
    }

    /// Gives it the full time again; what counts as progress stays.
    pub fn wait_again(&mut self, now: Duration) {
        self.at = now;
    }

    /// Takes in what is left: way in metres, and the heading error in radians once the place is reached.
    pub fn left(&mut self, way: f64, turn: Option<f64>, now: Duration) {
        let nearer = way <= self.way - LEAST_WAY;
        if nearer {
            self.way = way;
        }
        let mut turned = false;
        if let Some(error) = turn.map(f64::abs) {
            turned = !self.arrived || error <= self.turn - LEAST_TURN;
            self.arrived = true;
            if turned {
                self.turn = self.turn.min(error);
            }
        }
        if nearer || turned {
            self.at = now;
        }
    }

    /// The least way that was left so far, metres.
    #[must_use]
    pub fn least_way(&self) -> f64 {
        self.way
    }

    /// How long it has not come nearer.
    #[must_use]
    pub fn idle(&self, now: Duration) -> Duration {
        now.saturating_sub(self.at)
    }

    /// Whether it has not come nearer for too long.
    #[must_use]
    pub fn is_stalled(&self, now: Duration) -> bool {
        self.idle(now) >= PATIENCE
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn only_less_way_counts() {
        let mut p = Progress::new(3.0, s(0));
        for (t, way) in [(1, 3.0), (2, 3.4), (3, 2.9), (4, 3.1)] {
            p.left(way, None, s(t));
        }
        // Never 0.15 m nearer than 3.0.
        assert!(p.is_stalled(s(5)) && !p.is_stalled(s(4)));
        p.left(2.84, None, s(5));
        assert!(!p.is_stalled(s(9)) && p.is_stalled(s(10)));
    }

    #[test]
    fn at_the_place_only_a_smaller_error_counts() {
        let mut p = Progress::new(0.1, s(0));
        p.left(0.02, Some(1.0), s(3)); // arriving counts once
        assert!(!p.is_stalled(s(7)));
        p.left(0.02, Some(-1.2), s(5));
        p.left(0.06, None, s(6)); // pushed off the place …
        p.left(0.02, Some(0.95), s(7)); // … and back: nothing new
        assert!(p.is_stalled(s(8)));
        p.left(0.02, Some(-0.85), s(8));
        assert!(!p.is_stalled(s(12)));
    }

    #[test]
    fn a_clock_that_goes_back_is_no_stall() {
        let p = Progress::new(3.0, s(100));
        assert!(!p.is_stalled(s(1)));
    }

    proptest! {
        #[test]
        fn a_base_that_does_anything_makes_progress_a_bounded_number_of_times(
            way in 0.0..20.0_f64,
            steps in prop::collection::vec((0.0..25.0_f64, prop::option::of(-3.15..3.15_f64)), 0..2000),
        ) {
            let mut p = Progress::new(way, s(0));
            let mut times = 0;
            for (k, (left, turn)) in steps.into_iter().enumerate() {
                let now = s(1 + k as u64);
                p.left(left, turn, now);
                times += usize::from(p.idle(now).is_zero());
            }
            let bound = way / LEAST_WAY + std::f64::consts::PI / LEAST_TURN + 2.0;
            prop_assert!(times as f64 <= bound, "{times} times, at most {bound}");
        }
    }
}

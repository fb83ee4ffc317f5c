//! How often what streams is looked at.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lets a node look at its streams less often while nobody needs them at once: a robot at rest says the same
/// a hundred times a second, and each word wakes whoever listens.
///
/// The callback of the most frequent stream calls [`Pace::rest`] when it is done: the thread of the
/// [streams](crate::streams()) then sleeps, and what comes meanwhile is looked at together. Its streams keep only
/// the newest message ([`crate::qos::newest_sensor_data`]), but for transforms, of which all are needed. Timers
/// and other subscriptions of the same streams wait as well, for one period at the most.
#[derive(Debug)]
pub struct Pace {
    period: Duration,
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    /// Somebody needs everything at once, for as long as this.
    hurried_until: Option<Instant>,
    rested: Option<Instant>,
}

impl Pace {
    /// Sleeps for `period` at a time; zero: never.
    pub fn new(period: Duration) -> Self {
        Pace {
            period,
            inner: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// From now on for this long everything is looked at when it comes. A shorter time than was asked for
    /// before takes nothing back.
    pub fn hurry(&self, for_so_long: Duration) {
        let until = Instant::now() + for_so_long;
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.hurried_until = inner.hurried_until.max(Some(until));
        self.changed.notify_all();
    }

    /// Whether everything is looked at when it comes.
    pub fn is_hurried(&self) -> bool {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        self.period.is_zero() || inner.hurried_until.is_some_and(|at| at > Instant::now())
    }

    /// Sleeps until the period is over or somebody is in a hurry. What came during the sleep is looked at
    /// before the next one.
    pub fn rest(&self) {
        if self.period.is_zero() {
            return;
        }
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        // One message of each stream is taken in a turn, so that several turns follow one sleep.
        let awake_for = inner.rested.map(|at| now.saturating_duration_since(at));
        if awake_for.is_some_and(|time| time < self.period / 8) {
            return;
        }
        let calm = |inner: &mut Inner| inner.hurried_until.is_none_or(|at| at <= Instant::now());
        let (mut inner, _) = self
            .changed
            .wait_timeout_while(inner, self.period, calm)
            .unwrap_or_else(PoisonError::into_inner);
        inner.rested = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn nobody_sleeps_in_a_hurry_and_a_hurry_wakes_who_sleeps() {
        let pace = Arc::new(Pace::new(Duration::from_secs(3600)));
        assert!(!pace.is_hurried());
        pace.hurry(Duration::from_secs(3600));
        assert!(pace.is_hurried());
        assert!(Pace::new(Duration::ZERO).is_hurried());
        // Would take an hour each.
        pace.rest();
        pace.rest();
        let pace = Arc::new(Pace::new(Duration::from_secs(3600)));
        let sleeper = pace.clone();
        let sleeps = std::thread::spawn(move || sleeper.rest());
        // Whenever it comes, before or within the sleep.
        pace.hurry(Duration::from_secs(3600));
        sleeps.join().unwrap();
    }

    #[test]
    fn a_hurry_ends_and_turns_right_after_a_sleep_do_not_sleep() {
        let period = Duration::from_millis(20);
        let pace = Pace::new(period);
        pace.hurry(Duration::ZERO);
        let began = Instant::now();
        pace.rest();
        assert!(began.elapsed() >= period);
        let long = Pace::new(Duration::from_secs(3600));
        long.inner.lock().unwrap().rested = Some(Instant::now());
        long.rest();
    }
}

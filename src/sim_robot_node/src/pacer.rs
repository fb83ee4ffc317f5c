//! How many steps of the simulation are due.

use std::time::Duration;

/// Turns the time that has passed into steps of one length.
///
/// A simulation that can't follow (a busy machine, a suspended one) does not run after the time for ever:
/// what is more than `most_lag` is left out.
#[derive(Debug, Clone)]
pub struct Pacer {
    step: Duration,
    speed: f64,
    most_lag: Duration,
    /// Simulated time of all steps that were given out.
    done: Duration,
    /// Simulated time that was left out.
    left_out: Duration,
}

impl Pacer {
    /// `step`: the length of a step, not zero; `speed`: simulated seconds per second; `most_lag`: how much
    /// simulated time is made up for at most.
    pub fn new(step: Duration, speed: f64, most_lag: Duration) -> Self {
        Self {
            step,
            speed,
            most_lag: most_lag.max(step),
            done: Duration::ZERO,
            left_out: Duration::ZERO,
        }
    }

    /// The steps to take now that `elapsed` has passed since the start, and how much time was left out.
    /// They count as taken.
    pub fn take(&mut self, elapsed: Duration) -> (u32, Duration) {
        let mut lag = self.lag(elapsed);
        let mut skipped = Duration::ZERO;
        if lag > self.most_lag {
            skipped = lag - self.most_lag;
            self.left_out += skipped;
            lag = self.most_lag;
        }
        let mut steps = 0;
        while lag >= self.step {
            lag -= self.step;
            self.done += self.step;
            steps += 1;
        }
        (steps, skipped)
    }

    /// Leaves out what is due at `elapsed`: time stands still.
    pub fn hold(&mut self, elapsed: Duration) {
        self.left_out += self.lag(elapsed);
    }

    /// How long to wait until the next step is due; zero when one is due.
    pub fn wait(&self, elapsed: Duration) -> Duration {
        self.step
            .saturating_sub(self.lag(elapsed))
            .div_f64(self.speed)
    }

    fn lag(&self, elapsed: Duration) -> Duration {
        elapsed
            .mul_f64(self.speed)
            .saturating_sub(self.done + self.left_out)
    }
}

/// Something that is done at a rate.
#[derive(Debug, Clone)]
pub struct Every {
    period: Duration,
    next: Duration,
}

impl Every {
    /// `rate` in hertz, positive.
    pub fn rate(rate: f64) -> Self {
        Self {
            period: Duration::from_secs_f64(1.0 / rate),
            next: Duration::ZERO,
        }
    }

    /// Whether it is due at this time; then the next time is a period later.
    pub fn is_due(&mut self, now: Duration) -> bool {
        if now < self.next {
            return false;
        }
        self.next += self.period;
        if self.next <= now {
            self.next = now + self.period;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn steps_follow_the_time() {
        let mut pacer = Pacer::new(ms(20), 1.0, ms(200));
        assert_eq!(pacer.take(ms(19)), (0, Duration::ZERO));
        assert_eq!(pacer.wait(ms(19)), ms(1));
        assert_eq!(pacer.take(ms(45)).0, 2);
        // 45 ms − 40 ms are used up to 60 ms.
        assert_eq!(pacer.wait(ms(45)), ms(15));
        assert_eq!(pacer.take(ms(60)).0, 1);
    }

    #[test]
    fn a_long_pause_is_not_made_up_for() {
        let mut pacer = Pacer::new(ms(20), 1.0, ms(200));
        // Of 60 s, 200 ms are 10 steps; 59.8 s are left out.
        assert_eq!(pacer.take(ms(60_000)), (10, ms(59_800)));
        assert_eq!(pacer.take(ms(60_020)), (1, Duration::ZERO));
    }

    #[test]
    fn it_runs_at_another_speed() {
        let mut pacer = Pacer::new(ms(20), 2.0, ms(200));
        // 50 ms are 100 simulated ones.
        assert_eq!(pacer.take(ms(50)).0, 5);
        assert_eq!(pacer.wait(ms(50)), ms(10));
    }

    #[test]
    fn from_half_to_twenty_times_the_speed_no_time_is_lost_or_won() {
        for speed in [0.5, 2.0, 4.0, 10.0, 20.0] {
            let mut pacer = Pacer::new(ms(20), speed, ms(250));
            // A minute, looked at as a thread does: as soon as a step is due, or a little later.
            let (mut now, mut steps, mut looks) = (Duration::ZERO, 0, 0_u64);
            while now < ms(60_000) {
                let (more, left_out) = pacer.take(now);
                assert_eq!(left_out, Duration::ZERO);
                steps += more;
                looks += 1;
                now += pacer
                    .wait(now)
                    .max(Duration::from_micros(100 + 37 * (looks % 11)));
            }
            // Simulated: 60 s × speed, in steps of 20 ms, less the one that is not due yet.
            let wanted = (60.0 * speed / 0.02).round() as u32;
            assert!(
                steps <= wanted && steps + 2 >= wanted,
                "{speed}: {steps} of {wanted}"
            );
        }
    }

    #[test]
    fn held_time_is_not_made_up_for() {
        let mut pacer = Pacer::new(ms(20), 10.0, ms(200));
        assert_eq!(pacer.take(ms(2)).0, 1);
        pacer.hold(ms(50));
        assert_eq!(pacer.take(ms(50)), (0, Duration::ZERO));
        assert_eq!(pacer.take(ms(52)), (1, Duration::ZERO));
    }

    #[test]
    fn a_clock_that_goes_back_gives_no_step() {
        let mut pacer = Pacer::new(ms(20), 1.0, ms(200));
        pacer.take(ms(100));
        assert_eq!(pacer.take(ms(10)), (0, Duration::ZERO));
    }

    #[test]
    fn a_rate_is_kept_and_what_was_missed_is_not_repeated() {
        let mut every = Every::rate(10.0);
        let due: Vec<bool> = [0, 50, 100, 199, 200, 900, 950, 1000]
            .map(|t| every.is_due(ms(t)))
            .into();
        assert_eq!(due, [true, false, true, false, true, true, false, true]);
    }
}

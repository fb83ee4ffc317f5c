//! Whether what a command claimed stands still, measured.

use std::collections::BTreeMap;
use std::time::Duration;

/// What counts as standing still.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StandstillLimits {
    /// Largest linear speed of the base \[m/s\].
    pub base_linear: f64,
    /// Largest angular speed of the base \[rad/s\].
    pub base_angular: f64,
    /// Largest speed of an arm or head joint \[rad/s\].
    pub joint: f64,
    /// Largest speed at which the gap between the fingers changes \[m/s\].
    pub gripper: f64,
    /// It has to stay below for this long.
    pub window: Duration,
    /// Samples further apart than this say nothing about what was between them; the newest may not be
    /// older than this either.
    pub max_gap: Duration,
}

impl Default for StandstillLimits {
    fn default() -> Self {
        // Above the noise of wheel odometry and encoders, below what an eye sees as motion.
        StandstillLimits {
            base_linear: 0.01,
            base_angular: 0.02,
            joint: 0.02,
            gripper: 0.003,
            window: Duration::from_millis(200),
            max_gap: Duration::from_millis(300),
        }
    }
}

/// One measured speed over time.
#[derive(Clone, Copy, Debug)]
struct Track {
    last: Duration,
    speed: f64,
    still_since: Option<Duration>,
}

/// Measures standstill from odometry and joint states. Times are on one steady clock.
#[derive(Clone, Debug)]
pub struct StandstillMeter {
    limits: StandstillLimits,
    gripper_joint: String,
    base: Option<(Track, Track)>,
    joints: BTreeMap<String, (Track, f64)>,
}

impl StandstillMeter {
    /// A meter that has seen nothing yet, so that nothing stands still.
    pub fn new(limits: StandstillLimits, gripper_joint: &str) -> Self {
        StandstillMeter {
            limits,
            gripper_joint: gripper_joint.into(),
            base: None,
            joints: BTreeMap::new(),
        }
    }

    /// Takes in a measured twist of the base \[m/s, rad/s\].
    pub fn odometry(&mut self, now: Duration, linear: f64, angular: f64) {
        let old = self.base;
        self.base = Some((
            self.advance(old.map(|o| o.0), now, linear, self.limits.base_linear),
            self.advance(old.map(|o| o.1), now, angular, self.limits.base_angular),
        ));
    }

    /// Takes in one joint: its position [rad or m] and its velocity where the driver gives one.
    pub fn joint(&mut self, now: Duration, name: &str, position: f64, velocity: Option<f64>) {
        let old = self.joints.get(name).copied();
        let derived = old.and_then(|(track, before)| {
            let dt = now.checked_sub(track.last)?.as_secs_f64();
            (dt > 1e-6).then(|| (position - before) / dt)
        });
        // The larger of both: a driver that always reports zero velocity proves nothing.
        let speed = match (velocity, derived) {
            // f64::max would drop a NaN.
            (Some(v), Some(d)) if v.is_nan() || d.is_nan() => f64::NAN,
            (Some(v), Some(d)) => v.abs().max(d.abs()),
            (Some(v), None) => v.abs(),
            (None, Some(d)) => d.abs(),
            // The first sample without a velocity: not known.
            (None, None) => f64::NAN,
        };
        let limit = if name == self.gripper_joint {
            self.limits.gripper
        } else {
            self.limits.joint
        };
        let track = self.advance(old.map(|o| o.0), now, speed, limit);
        self.joints.insert(name.into(), (track, position));
    }

    fn advance(&self, old: Option<Track>, now: Duration, speed: f64, limit: f64) -> Track {
        // NaN is not below the limit.
        let still = speed.abs() <= limit;
        let since = old
            .filter(|o| {
                now.checked_sub(o.last)
                    .is_some_and(|gap| gap <= self.limits.max_gap)
            })
            .and_then(|o| o.still_since);
        Track {
            last: now,
            speed,
            still_since: still.then(|| since.unwrap_or(now)),
        }
    }

    /// Whether everything has stood still for the window, counted from `since` at the earliest: what
    /// stood still before the last goal had ended proves nothing.
    ///
    /// # Errors
    /// What moves or can't be measured, in words with the value.
    pub fn standing(
        &self,
        now: Duration,
        since: Duration,
        base: bool,
        joints: &[String],
    ) -> Result<(), String> {
        if base {
            let Some((linear, angular)) = &self.base else {
                return Err("no odometry was received".into());
            };
            self.stands(now, since, linear)
                .map_err(|e| format!("base, linear: {e} m/s"))?;
            self.stands(now, since, angular)
                .map_err(|e| format!("base, angular: {e} rad/s"))?;
        }
        for name in joints {
            let Some((track, _)) = self.joints.get(name) else {
                return Err(format!("no state of {name} was received"));
            };
            self.stands(now, since, track)
                .map_err(|e| format!("{name}: {e} per second"))?;
        }
        Ok(())
    }

    fn stands(&self, now: Duration, since: Duration, track: &Track) -> Result<(), String> {
        let age = now.saturating_sub(track.last);
        if age > self.limits.max_gap {
            return Err(format!(
                "the newest measurement is {:.2} s old, the limit is {:.2} s; it was {:.3}",
                age.as_secs_f64(),
                self.limits.max_gap.as_secs_f64(),
                track.speed
            ));
        }
        let Some(still) = track.still_since else {
            return Err(format!("it moves at {:.3}", track.speed));
        };
        let from = still.max(since);
        if track
            .last
            .checked_sub(from)
            .is_some_and(|t| t >= self.limits.window)
        {
            Ok(())
        } else {
            Err(format!(
                "it has not stood still for {:.2} s yet, now {:.3}",
                self.limits.window.as_secs_f64(),
                track.speed
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn meter() -> StandstillMeter {
        StandstillMeter::new(StandstillLimits::default(), "gripper_joint")
    }

    #[test]
    fn a_base_stands_after_the_window_and_not_before() {
        let mut m = meter();
        assert!(m.standing(ms(0), ms(0), true, &[]).is_err());
        m.odometry(ms(0), 0.4, 0.0);
        // Still from 50 ms on: the window of 200 ms is over at 250 ms.
        for t in (50..=240).step_by(10) {
            m.odometry(ms(t), 0.001, 0.0);
            assert!(m.standing(ms(t), ms(0), true, &[]).is_err(), "{t}");
        }
        m.odometry(ms(250), 0.001, 0.0);
        assert_eq!(m.standing(ms(250), ms(0), true, &[]), Ok(()));
        // Only what is measured after `since` counts.
        assert!(m.standing(ms(250), ms(100), true, &[]).is_err());
        // Old measurements are none.
        assert!(m.standing(ms(600), ms(0), true, &[]).is_err());
        m.odometry(ms(620), 0.2, 0.0);
        let error = m.standing(ms(620), ms(0), true, &[]).unwrap_err();
        assert!(error.contains("0.200"), "{error}");
    }

    #[test]
    fn a_gap_in_the_measurements_begins_the_window_anew() {
        let mut m = meter();
        m.odometry(ms(0), 0.0, 0.0);
        m.odometry(ms(400), 0.0, 0.0);
        assert!(m.standing(ms(400), ms(0), true, &[]).is_err());
        m.odometry(ms(600), 0.0, 0.0);
        assert!(m.standing(ms(600), ms(0), true, &[]).is_ok());
    }

    #[test]
    fn a_driver_that_always_reports_zero_does_not_deceive() {
        let mut m = meter();
        let joint = ["arm_1_joint".to_string()];
        for t in 0..=50u64 {
            // 0.1 rad/s by the positions, 0 by the driver.
            m.joint(ms(t * 10), "arm_1_joint", t as f64 * 0.001, Some(0.0));
        }
        let error = m.standing(ms(500), ms(0), false, &joint).unwrap_err();
        assert!(error.contains("0.100"), "{error}");
    }

    #[test]
    fn nan_backward_time_and_missing_joints_are_no_standstill() {
        let mut m = meter();
        m.odometry(ms(0), f64::NAN, 0.0);
        m.odometry(ms(300), f64::NAN, 0.0);
        assert!(m.standing(ms(300), ms(0), true, &[]).is_err());
        let joint = ["x".to_string()];
        assert!(m.standing(ms(300), ms(0), false, &joint).is_err());
        m.joint(ms(300), "x", 0.0, None);
        m.joint(ms(100), "x", 0.0, None);
        m.joint(ms(300), "x", f64::NAN, Some(0.0));
        m.joint(ms(500), "x", 0.0, Some(0.0));
        assert!(m.standing(ms(500), ms(0), false, &joint).is_err());
    }
}

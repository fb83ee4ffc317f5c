//! How fast is slow enough to stop in time.

use crate::velocity::Velocity;

/// How the base slows down, measured for the embodiment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Braking {
    /// Time from a return in the world to the base's beginning to brake \[s\]: scan period, decision, bus and
    /// drive lag together.
    pub reaction_time: f64,
    /// Deceleration over the floor [m/s²].
    pub linear: f64,
    /// Deceleration of turning [rad/s²].
    pub angular: f64,
}

impl Braking {
    /// The largest speed v [m/s] with v t + v² / 2a <= `free_distance` \[m\].
    ///
    /// The stopping distance of uniform deceleration after a reaction time; solved for v:
    /// v = -a t + sqrt((a t)² + 2 a d).
    pub fn speed_within(&self, free_distance: f64) -> f64 {
        if free_distance == f64::INFINITY {
            return f64::INFINITY;
        }
        if free_distance.is_nan() || free_distance <= 0.0 {
            return 0.0;
        }
        let at = self.linear * self.reaction_time;
        ((at * at + 2.0 * self.linear * free_distance).sqrt() - at).max(0.0)
    }

    /// The largest factor in 0..=1 by which `velocity` may be scaled so that it stops within `free_time`
    /// seconds' worth of its own way.
    ///
    /// Scaled by s, the base moves along the same path at s times the rate: it uses s t while reacting and
    /// s² max(v / 2a, w / 2α) while braking, both in seconds of the unscaled way.
    pub fn factor_within(&self, velocity: Velocity, free_time: f64, counts_turning: bool) -> f64 {
        if free_time.is_nan() || free_time <= 0.0 {
            return 0.0;
        }
        let turning = if counts_turning || velocity.linear() == 0.0 {
            velocity.angular() / (2.0 * self.angular)
        } else {
            0.0
        };
        let braking = (velocity.linear() / (2.0 * self.linear)).max(turning);
        if self.reaction_time + braking <= free_time {
            return 1.0;
        }
        let t = self.reaction_time;
        let factor = if braking > 1e-12 {
            ((t * t + 4.0 * braking * free_time).sqrt() - t) / (2.0 * braking)
        } else {
            free_time / t
        };
        factor.clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BRAKING: Braking = Braking {
        reaction_time: 0.2,
        linear: 1.0,
        angular: 2.0,
    };

    #[test]
    fn speeds_that_were_worked_out_by_hand() {
        // v = 0.5: 0.5 * 0.2 + 0.25 / 2 = 0.225.
        assert!((BRAKING.speed_within(0.225) - 0.5).abs() < 1e-12);
        assert_eq!(BRAKING.speed_within(0.0), 0.0);
        assert_eq!(BRAKING.speed_within(-1.0), 0.0);
        assert_eq!(BRAKING.speed_within(f64::NAN), 0.0);
        assert_eq!(BRAKING.speed_within(f64::INFINITY), f64::INFINITY);
    }

    proptest! {
        /// The scaled velocity stops within the free way, and the limit is not stricter than needed.
        #[test]
        fn the_scaled_way_to_stop_fits(
            vx in 0.01..2.0f64, turn in -2.0..2.0f64, free in 0.0..5.0f64,
        ) {
            let v = Velocity::new(vx, 0.0, turn);
            let s = BRAKING.factor_within(v, free, false);
            let speed = s * vx;
            let way = speed * BRAKING.reaction_time + speed * speed / (2.0 * BRAKING.linear);
            prop_assert!(way <= free * vx + 1e-9);
            prop_assert!(s == 1.0 || (way - free * vx).abs() < 1e-9);
            prop_assert!((BRAKING.speed_within(free * vx).min(vx) - speed).abs() < 1e-9);
        }
    }
}

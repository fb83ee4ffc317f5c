//! What the robot believes about where it is: drifting odometry, and a localisation that corrects it.

use std::time::Duration;

use crate::base::{arc, BaseMotion};
use crate::geometry::{wrap_angle, Pose2};
use crate::random::{SeededRandom, Stream};
use crate::world_file::Noise;

/// How often the localisation corrects the odometry.
const CORRECTION_PERIOD: Duration = Duration::from_millis(100);

/// How much of the localisation's error stays from one correction to the next: real scan matchers err
/// smoothly, over seconds (0.95¹⁰ = 0.6 after one second).
const PERSISTENCE: f64 = 0.95;

/// Odometry and localisation.
#[derive(Debug, Clone)]
pub struct Localization {
    odom: Pose2,
    map_to_odom: Pose2,
    error: [f64; 3],
    scale_error: f64,
    corrected_at: Option<Duration>,
    noise: Noise,
    odometry_random: SeededRandom,
    error_random: SeededRandom,
}

impl Localization {
    /// A localisation that has just found the robot at `start` (map frame). The odometry begins at 0.
    #[must_use]
    pub fn new(start: Pose2, noise: &Noise, seed: u64) -> Self {
        let mut odometry_random = SeededRandom::new(seed, Stream::Odometry);
        // A wrong wheel radius is wrong for the whole run.
        let scale_error = odometry_random.normal(noise.odom_scale);
        let mut this = Self {
            odom: Pose2::default(),
            map_to_odom: start,
            error: [0.0; 3],
            scale_error,
            corrected_at: None,
            noise: noise.clone(),
            odometry_random,
            error_random: SeededRandom::new(seed, Stream::Localization),
        };
        this.error = [
            this.error_random.normal(noise.localization_position),
            this.error_random.normal(noise.localization_position),
            this.error_random.normal(noise.localization_yaw),
        ];
        this
    }

    /// Takes in one step's motion. `offset`: what a fault adds to the estimate (x, y, yaw).
    pub fn step(&mut self, motion: &BaseMotion, truth: Pose2, now: Duration, offset: [f64; 3]) {
        let yaw_noise = self.noise.odom_yaw_per_metre * motion.distance.abs().sqrt();
        let turn_noise = self.noise.odom_yaw_per_radian * motion.turn.abs().sqrt();
        let turn = motion.turn
            + self.odometry_random.normal(yaw_noise)
            + self.odometry_random.normal(turn_noise);
        self.odom = arc(self.odom, motion.distance * (1.0 + self.scale_error), turn);
        let due = self
            .corrected_at
            .is_none_or(|at| now.saturating_sub(at) >= CORRECTION_PERIOD);
        if due {
            self.corrected_at = Some(now);
            let fresh = (1.0 - PERSISTENCE * PERSISTENCE).sqrt();
            let sigmas = [
                self.noise.localization_position,
                self.noise.localization_position,
                self.noise.localization_yaw,
            ];
            for (error, sigma) in self.error.iter_mut().zip(sigmas) {
                *error = PERSISTENCE * *error + self.error_random.normal(sigma * fresh);
            }
            let [ex, ey, eyaw] = self.error;
            let [ox, oy, oyaw] = offset;
            let estimate = Pose2::new(
                truth.x + ex + ox,
                truth.y + ey + oy,
                wrap_angle(truth.yaw + eyaw + oyaw),
            );
            self.map_to_odom = estimate.compose(self.odom.inverse());
        }
    }

    /// base_link in odom: smooth, drifting.
    #[must_use]
    pub fn odom_to_base(&self) -> Pose2 {
        self.odom
    }

    /// odom in map: jumps with each correction.
    #[must_use]
    pub fn map_to_odom(&self) -> Pose2 {
        self.map_to_odom
    }

    /// base_link in map, as the robot believes.
    #[must_use]
    pub fn map_to_base(&self) -> Pose2 {
        self.map_to_odom.compose(self.odom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drive(noise: &Noise, seed: u64) -> (Pose2, Localization) {
        let mut truth = Pose2::new(1.0, 2.0, 0.5);
        let mut l = Localization::new(truth, noise, seed);
        for k in 1..=500 {
            let motion = BaseMotion {
                distance: 0.01,
                turn: 0.002,
                collided: false,
            };
            truth = arc(truth, motion.distance, motion.turn);
            l.step(&motion, truth, Duration::from_millis(20 * k), [0.0; 3]);
        }
        (truth, l)
    }

    #[test]
    fn without_noise_the_estimate_is_the_truth() {
        let (truth, l) = drive(&Noise::none(), 1);
        assert!(l.map_to_base().distance(truth) < 1e-9);
        assert!((l.map_to_base().yaw - truth.yaw).abs() < 1e-9);
        // And odometry is the motion since the start.
        let moved = Pose2::new(1.0, 2.0, 0.5).inverse().compose(truth);
        assert!(l.odom_to_base().distance(moved) < 1e-9);
    }

    #[test]
    fn odometry_drifts_and_the_localisation_stays_near() {
        let (truth, l) = drive(&Noise::default(), 3);
        let by_odometry = Pose2::new(1.0, 2.0, 0.5).compose(l.odom_to_base());
        assert!(by_odometry.distance(truth) > 1e-3);
        // σ = 1 cm in x and y: beyond 5 cm is beyond 5 σ.
        assert!(l.map_to_base().distance(truth) < 0.05);
    }

    #[test]
    fn a_wrong_wheel_radius_scales_the_way() {
        let mut noise = Noise::none();
        noise.odom_scale = 0.05;
        // Ways of 5 m by odometry, in ten runs: each off by its own share of σ = 5 %.
        let lengths: Vec<f64> = (0..10)
            .map(|seed| {
                let mut l = Localization::new(Pose2::default(), &noise, seed);
                for k in 1..=500 {
                    let motion = BaseMotion {
                        distance: 0.01,
                        turn: 0.0,
                        collided: false,
                    };
                    l.step(
                        &motion,
                        Pose2::default(),
                        Duration::from_millis(20 * k),
                        [0.0; 3],
                    );
                }
                l.odom_to_base().x
            })
            .collect();
        let spread = lengths.iter().map(|x| (x / 5.0 - 1.0).powi(2)).sum::<f64>() / 10.0;
        // χ² with 10 degrees of freedom: σ²·(2.2 … 25)/10 with 99.5 % either way.
        assert!((0.0005..0.0065).contains(&spread), "{spread}");
    }

    #[test]
    fn seeds_decide() {
        let n = Noise::default();
        assert_eq!(drive(&n, 5).1.map_to_base(), drive(&n, 5).1.map_to_base());
        assert_ne!(drive(&n, 5).1.map_to_base(), drive(&n, 6).1.map_to_base());
    }
}

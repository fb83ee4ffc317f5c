//! What the robot believes about where it is: drifting odometry, and a localisation that corrects it.
//!
//! The odometry walks at random, by distance and by turning. The localisation errs smoothly around the truth;
//! on top of that it may drift with the distance, be pulled back continuously, and jump back to the truth
//! when the drift has become large enough to be noticed.

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
    /// What the localisation has drifted by and not noticed: metres and radians.
    drift: [f64; 3],
    /// Driven since the last correction, metres.
    driven: f64,
    scale_error: f64,
    corrected_at: Option<Duration>,
    noise: Noise,
    odometry_random: SeededRandom,
    error_random: SeededRandom,
    drift_random: SeededRandom,
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
            drift: [0.0; 3],
            driven: 0.0,
            scale_error,
            corrected_at: None,
            noise: noise.clone(),
            odometry_random,
            error_random: SeededRandom::new(seed, Stream::Localization),
            drift_random: SeededRandom::new(seed, Stream::Drift),
        };
        this.error = [
            this.error_random.normal(noise.localization_position),
            this.error_random.normal(noise.localization_position),
            this.error_random.normal(noise.localization_yaw),
        ];
        this
    }

    /// Takes in one step's motion. `offset`: what a fault adds to the estimate (x, y, yaw).
    ///
    /// Returns how far the estimate jumped, metres, when the localisation noticed its drift.
    pub fn step(
        &mut self,
        motion: &BaseMotion,
        truth: Pose2,
        now: Duration,
        offset: [f64; 3],
    ) -> Option<f64> {
        let yaw_noise = self.noise.odom_yaw_per_metre * motion.distance.abs().sqrt();
        let turn_noise = self.noise.odom_yaw_per_radian * motion.turn.abs().sqrt();
        let turn = motion.turn
            + self.odometry_random.normal(yaw_noise)
            + self.odometry_random.normal(turn_noise);
        self.odom = arc(self.odom, motion.distance * (1.0 + self.scale_error), turn);
        let astray = self.noise.odom_position_per_metre * motion.distance.abs().sqrt();
        if astray > 0.0 {
            let along = self.drift_random.normal(astray);
            let across = self.drift_random.normal(astray);
            self.odom = self.odom.compose(Pose2::new(along, across, 0.0));
        }
        self.driven += motion.distance.abs();
        let mut jump = None;
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
            jump = self.drift_on(CORRECTION_PERIOD.as_secs_f64());
            let [ex, ey, eyaw] = self.error;
            let [dx, dy, dyaw] = self.drift;
            let [ox, oy, oyaw] = offset;
            let estimate = Pose2::new(
                truth.x + ex + dx + ox,
                truth.y + ey + dy + oy,
                wrap_angle(truth.yaw + eyaw + dyaw + oyaw),
            );
            self.map_to_odom = estimate.compose(self.odom.inverse());
        }
        jump
    }

    /// Lets the localisation drift by what was driven and corrects it; how far it jumped, metres.
    fn drift_on(&mut self, dt: f64) -> Option<f64> {
        let way = std::mem::take(&mut self.driven).sqrt();
        let n = &self.noise;
        let sigmas = [
            n.localization_drift_per_metre,
            n.localization_drift_per_metre,
            n.localization_yaw_drift_per_metre,
        ];
        let keep = if n.localization_correction_time > 0.0 {
            (-dt / n.localization_correction_time).exp()
        } else {
            1.0
        };
        for (drift, sigma) in self.drift.iter_mut().zip(sigmas) {
            *drift = keep * *drift + self.drift_random.normal(sigma * way);
        }
        let [x, y, _] = self.drift;
        let off = x.hypot(y);
        let noticed = n.relocalization_distance > 0.0 && off >= n.relocalization_distance;
        noticed.then(|| {
            self.drift = [0.0; 3];
            off
        })
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

    /// 100 m straight on; how often it jumped, the largest error, and the odometry's error at the end.
    fn far(noise: &Noise, seed: u64) -> (usize, f64, f64) {
        let mut truth = Pose2::default();
        let mut l = Localization::new(truth, noise, seed);
        let (mut jumps, mut worst) = (0, 0.0_f64);
        for k in 1..=10_000 {
            let motion = BaseMotion {
                distance: 0.01,
                turn: 0.0,
                collided: false,
            };
            truth = arc(truth, motion.distance, motion.turn);
            let jump = l.step(&motion, truth, Duration::from_millis(20 * k), [0.0; 3]);
            if let Some(by) = jump {
                assert!(by >= noise.relocalization_distance);
                jumps += 1;
            }
            worst = worst.max(l.map_to_base().distance(truth));
        }
        (jumps, worst, l.odom_to_base().distance(truth))
    }

    #[test]
    fn the_odometry_walks_at_random_with_the_distance() {
        let mut noise = Noise::none();
        noise.odom_position_per_metre = 0.02;
        // 0.02 m per √m over 100 m is σ = 0.2 m in x and in y; the mean of squares of 20 runs is
        // 2·σ²·χ²₄₀/40, with 99.8 % between 0.45 and 1.84 of 0.08 m².
        let mean = (0..20).map(|s| far(&noise, s).2.powi(2)).sum::<f64>() / 20.0;
        assert!((0.036..0.147).contains(&mean), "{mean}");
        // The localisation knows better.
        assert!(far(&noise, 1).1 < 0.02);
    }

    #[test]
    fn a_drift_is_pulled_back_or_jumps_back() {
        let mut noise = Noise::none();
        noise.localization_drift_per_metre = 0.05;
        // Unhindered: σ = 0.05·√100 = 0.5 m in x and in y.
        let (jumps, free, _) = far(&noise, 3);
        assert!(jumps == 0 && free > 0.2, "{jumps} {free}");
        // Noticed at 0.2 m: between corrections it drives 5 cm, σ = 1.1 cm; 0.25 m is 4 σ more.
        noise.relocalization_distance = 0.2;
        let (jumps, worst, _) = far(&noise, 3);
        assert!(jumps >= 1 && worst < 0.26, "{jumps} {worst}");
        // Pulled back within 2 s, 1 m of the way: σ² = 0.05²·0.5 m per axis at rest, 0.035 m; 6 σ.
        noise.localization_correction_time = 2.0;
        noise.relocalization_distance = 0.0;
        let (jumps, worst, _) = far(&noise, 3);
        assert!(jumps == 0 && worst < 0.21, "{jumps} {worst}");
    }

    #[test]
    fn seeds_decide() {
        let n = Noise::default();
        assert_eq!(drive(&n, 5).1.map_to_base(), drive(&n, 5).1.map_to_base());
        assert_ne!(drive(&n, 5).1.map_to_base(), drive(&n, 6).1.map_to_base());
    }
}

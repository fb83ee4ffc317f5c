//! A seeded random stream, one for each thing that is uncertain.
//!
//! Each sensor and actuator draws from a stream of its own, so that how often one of them is asked
//! does not change what another one sees.

use rand_chacha::rand_core::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Which stream of the seed to draw from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Stream {
    /// Odometry drift.
    Odometry = 1,
    /// The localisation's error.
    Localization = 2,
    /// Lidar ranges.
    Scan = 3,
    /// Detections.
    Detections = 4,
    /// Slips and falls of objects.
    Objects = 5,
    /// The arm's motion planner.
    ArmPlanner = 6,
    /// The odometry's position and the localisation's drift.
    Drift = 7,
    /// Worlds that are made up.
    Generator = 8,
}

/// A reproducible source of random numbers.
#[derive(Debug, Clone)]
pub struct SeededRandom(ChaCha8Rng);

impl SeededRandom {
    /// Creates the given stream of a seed.
    #[must_use]
    pub fn new(seed: u64, stream: Stream) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(stream as u64);
        Self(rng)
    }

    /// A number in [0, 1).
    pub fn unit(&mut self) -> f64 {
        // 53 random bits: every double of that grid is equally likely.
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number in [low, high).
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// True with the given probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// A normally distributed number with mean 0 and the given standard deviation.
    ///
    /// Box–Muller: <https://en.wikipedia.org/wiki/Box-Muller_transform>.
    pub fn normal(&mut self, sigma: f64) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        sigma * radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// An index below `count`; 0 when `count` is 0.
    pub fn index(&mut self, count: usize) -> usize {
        ((self.unit() * count as f64) as usize).min(count.saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_numbers_other_stream_others() {
        let draw = |seed, stream| {
            let mut r = SeededRandom::new(seed, stream);
            (0..8).map(|_| r.unit().to_bits()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7, Stream::Scan), draw(7, Stream::Scan));
        assert_ne!(draw(7, Stream::Scan), draw(8, Stream::Scan));
        assert_ne!(draw(7, Stream::Scan), draw(7, Stream::Odometry));
    }

    #[test]
    fn normal_has_the_asked_moments() {
        let mut r = SeededRandom::new(1, Stream::Scan);
        let n = 20_000;
        let samples: Vec<f64> = (0..n).map(|_| r.normal(2.0)).collect();
        let mean = samples.iter().sum::<f64>() / f64::from(n);
        let variance = samples.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / f64::from(n);
        // Standard errors: 2/√20000 = 0.014 for the mean, 4·√(2/20000) = 0.04 for the variance; 4 of each.
        assert!(mean.abs() < 0.06, "{mean}");
        assert!((variance - 4.0).abs() < 0.16, "{variance}");
        assert_eq!(r.index(0), 0);
    }
}

//! Random numbers: for each seed and purpose a stream of its own, so that a number more or less in one of
//! them changes nothing in the others.

use std::time::Duration;

use rand::{Rng, RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// What random numbers are drawn for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// What happens in the run.
    Scenario,
    /// What the network does to messages.
    Network,
    /// What disks do.
    Disk,
    /// What the robot's servers do.
    Servers,
    /// One life of a process.
    Process(u32),
}

/// The stream of a purpose.
pub fn stream(seed: u64, purpose: Purpose) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(match purpose {
        Purpose::Scenario => 1,
        Purpose::Network => 2,
        Purpose::Disk => 3,
        Purpose::Servers => 4,
        Purpose::Process(n) => 0x1_0000_0000 + u64::from(n),
    });
    rng
}

/// True with a probability.
pub fn chance(rng: &mut dyn RngCore, probability: f64) -> bool {
    rng.random_range(0.0..1.0) < probability
}

/// A time between two, evenly.
pub fn between(rng: &mut dyn RngCore, least: Duration, most: Duration) -> Duration {
    let (low, high) = (least.as_micros() as u64, most.as_micros() as u64);
    Duration::from_micros(if low >= high {
        low
    } else {
        rng.random_range(low..=high)
    })
}

/// One of several.
pub fn one_of<T: Clone>(rng: &mut dyn RngCore, of: &[T]) -> Option<T> {
    if of.is_empty() {
        return None;
    }
    of.get(rng.random_range(0..of.len())).cloned()
}

/// Sixteen random bytes.
pub fn bytes(rng: &mut dyn RngCore) -> [u8; 16] {
    let mut bytes = [0; 16];
    rng.fill_bytes(&mut bytes);
    bytes
}

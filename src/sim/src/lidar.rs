//! The lidar: level rays around the robot.

use std::f64::consts::{PI, TAU};
use std::time::Duration;

use crate::geometry::Pose2;
use crate::random::{SeededRandom, Stream};
use crate::world::World;
use crate::world_file::{Noise, RobotSpec};

/// The lidar in base_link, metres and radians (its height is in the robot's section of the world).
pub const MOUNT: Pose2 = Pose2::new(0.15, 0.0, 0.0);

/// One turn of the lidar, in the frame `laser`.
#[derive(Debug, Clone, PartialEq)]
pub struct Scan {
    /// When it was taken.
    pub stamp: Duration,
    /// Angle of the first beam, radians.
    pub angle_min: f64,
    /// Angle between beams, radians.
    pub angle_increment: f64,
    /// Least range that is measured, metres.
    pub range_min: f64,
    /// Greatest range that is measured, metres.
    pub range_max: f64,
    /// Distances, metres; infinite where nothing is within the range (REP-117).
    pub ranges: Vec<f32>,
}

/// The lidar as it is.
#[derive(Debug, Clone)]
pub struct Lidar {
    beams: usize,
    height: f64,
    range: [f64; 2],
    sigma: f64,
    random: SeededRandom,
    last: Vec<f32>,
}

impl Lidar {
    /// The lidar of a robot.
    #[must_use]
    pub fn new(spec: &RobotSpec, noise: &Noise, seed: u64) -> Self {
        Self {
            beams: spec.scan_beams,
            height: spec.scan_height,
            range: spec.scan_range,
            sigma: noise.scan,
            random: SeededRandom::new(seed, Stream::Scan),
            last: Vec::new(),
        }
    }

    /// The lidar's height above the floor, metres.
    #[must_use]
    pub fn height(&self) -> f64 {
        self.height
    }

    /// Takes a scan from where the base truly is. `frozen`: the last ranges once more.
    pub fn scan(&mut self, base: Pose2, world: &World, now: Duration, frozen: bool) -> Scan {
        let increment = TAU / self.beams as f64;
        if !frozen || self.last.is_empty() {
            let at = base.compose(MOUNT);
            let mut ranges = std::mem::take(&mut self.last);
            ranges.clear();
            for k in 0..self.beams {
                let angle = at.yaw - PI + k as f64 * increment;
                let hit = world.ray(at.x, at.y, self.height, angle, self.range[1]);
                ranges.push(match hit {
                    Some(d) => {
                        let measured = d + self.random.normal(self.sigma);
                        measured.clamp(self.range[0], self.range[1]) as f32
                    }
                    None => f32::INFINITY,
                });
            }
            self.last = ranges;
        }
        Scan {
            stamp: now,
            angle_min: -PI,
            angle_increment: increment,
            range_min: self.range[0],
            range_max: self.range[1],
            ranges: self.last.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world_file::WorldFile;

    #[test]
    fn ranges_are_the_distances_to_the_walls() {
        let file = WorldFile::from_yaml(
            "
rooms: [{id: a, rect: [0, 0, 6, 4]}]
walls: [{from: [0, 0], to: [6, 0]}, {from: [6, 0], to: [6, 4]},
        {from: [6, 4], to: [0, 4]}, {from: [0, 4], to: [0, 0]}]
robot: {scan_beams: 4}
",
        )
        .unwrap();
        let world = World::new(&file).unwrap();
        let mut lidar = Lidar::new(&file.robot, &Noise::none(), 0);
        let scan = lidar.scan(Pose2::new(2.0, 1.0, 0.0), &world, Duration::ZERO, false);
        // The lidar is at (2.15, 1); wall faces at 0.05, 5.95, 0.05, 3.95. Beams at −π, −π/2, 0, π/2.
        let expected = [2.10, 0.95, 3.80, 2.95];
        for (range, e) in scan.ranges.iter().zip(expected) {
            assert!((f64::from(*range) - e).abs() < 1e-6, "{range} {e}");
        }
        // Frozen: the same from elsewhere.
        let again = lidar.scan(
            Pose2::new(3.0, 2.0, 1.0),
            &world,
            Duration::from_secs(1),
            true,
        );
        assert_eq!(again.ranges, scan.ranges);
        assert_eq!(again.stamp, Duration::from_secs(1));
    }
}

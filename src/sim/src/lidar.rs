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
            let hits = self.cast(at, world);
            let mut ranges = std::mem::take(&mut self.last);
            ranges.clear();
            for hit in hits {
                ranges.push(if hit <= self.range[1] {
                    let measured = hit + self.random.normal(self.sigma);
                    measured.clamp(self.range[0], self.range[1]) as f32
                } else {
                    f32::INFINITY
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

    /// The distance along each beam, metres; infinite where there is nothing.
    fn cast(&self, at: Pose2, world: &World) -> Vec<f64> {
        let count = self.beams as i64;
        let increment = TAU / count as f64;
        let directions: Vec<(f64, f64)> = (0..count)
            .map(|k| (at.yaw - PI + k as f64 * increment).sin_cos())
            .collect();
        let mut hits = vec![f64::INFINITY; self.beams];
        for obstacle in world.obstacles() {
            if obstacle.top < self.height || obstacle.bottom > self.height {
                continue;
            }
            if obstacle.distance(at.x, at.y) > self.range[1] {
                continue;
            }
            // Only beams between its outermost corners can meet it.
            let (first, beams) = match obstacle.subtended(at.x, at.y) {
                Some((low, width)) => {
                    let start = ((low - at.yaw + PI) / increment).floor() as i64;
                    let beams = (width / increment).ceil() as i64 + 2;
                    (start, beams.min(count))
                }
                None => (0, count),
            };
            for k in first..first + beams {
                let index = k.rem_euclid(count) as usize;
                if let (Some(hit), Some((sin, cos))) = (hits.get_mut(index), directions.get(index))
                {
                    if let Some(d) = obstacle.ray(at.x, at.y, *cos, *sin) {
                        *hit = hit.min(d);
                    }
                }
            }
        }
        hits
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn every_beam_is_the_ray_of_the_world(x in 0.4..5.6, y in 0.4..3.6, yaw in -3.2..3.2) {
            let file = WorldFile::from_yaml("
rooms: [{id: a, rect: [0, 0, 6, 4]}]
walls: [{from: [0, 0], to: [6, 0]}, {from: [6, 0], to: [6, 4]}, {from: [0, 4], to: [0, 0]}]
furniture: [{id: f, class: box, center: [3, 2], size: [1.2, 0.4, 1.0], yaw: 0.5},
            {id: low, class: step, center: [1, 3], size: [1, 1, 0.1]}]
robot: {start: [1, 1, 0], scan_range: [0.0, 12.0]}
").unwrap();
            let world = World::new(&file).unwrap();
            let mut lidar = Lidar::new(&file.robot, &Noise::none(), 0);
            let base = Pose2::new(x, y, yaw);
            let scan = lidar.scan(base, &world, Duration::ZERO, false);
            let at = base.compose(MOUNT);
            for (k, range) in scan.ranges.iter().enumerate() {
                let angle = at.yaw + scan.angle_min + k as f64 * scan.angle_increment;
                let expected = world.ray(at.x, at.y, 0.2, angle, 12.0);
                match expected {
                    Some(d) => prop_assert!((f64::from(*range) - d).abs() < 1e-4, "{} {} {}", k, range, d),
                    None => prop_assert!(range.is_infinite()),
                }
            }
        }
    }
}

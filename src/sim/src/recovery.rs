//! What the navigator does when it does not come nearer: back up, or turn to where there is room and leave.

use std::f64::consts::{FRAC_PI_2, PI, TAU};
use std::time::Duration;

use crate::base::Velocity;
use crate::geometry::{wrap_angle, Pose2};
use crate::occupancy_grid::OccupancyGrid;
use crate::path_follower::turn_rate;
use crate::world_file::RobotSpec;

/// How far it backs up or leaves, metres, and how fast at most, m/s.
const DISTANCE: f64 = 0.25;
const SPEED: f64 = 0.15;
/// Longest time of one recovery.
pub const LONGEST: Duration = Duration::from_secs(4);
/// Directions that are compared.
const DIRECTIONS: u32 = 32;

/// A short motion of its own that does not follow the way.
#[derive(Debug, Clone, Copy)]
pub struct Recovery {
    from: Pose2,
    until: Duration,
    motion: Motion,
}

#[derive(Debug, Clone, Copy)]
enum Motion {
    /// Straight back.
    BackUp,
    /// A turn to this heading in the map, or away from it, and then that way.
    Leave { heading: f64 },
}

impl Recovery {
    /// The recovery number `count`, from 1: backing up and leaving in turn. Backing up is left out where
    /// the map says that something stands behind.
    #[must_use]
    pub fn begin(
        count: u32,
        at: Pose2,
        grid: &OccupancyGrid,
        spec: &RobotSpec,
        now: Duration,
    ) -> Self {
        let back = wrap_angle(at.yaw + std::f64::consts::PI);
        let here = grid.interpolated_clearance(at.x, at.y);
        let free_behind = room(grid, at, back, DISTANCE) >= (spec.radius + 0.03).min(here);
        let motion = if count % 2 == 1 && free_behind {
            Motion::BackUp
        } else {
            Motion::Leave {
                heading: roomiest(grid, at),
            }
        };
        Self {
            from: at,
            until: now + LONGEST,
            motion,
        }
    }

    /// The velocity now; none when it is over.
    #[must_use]
    pub fn velocity(&self, at: Pose2, spec: &RobotSpec, now: Duration) -> Option<Velocity> {
        if now >= self.until || at.distance(self.from) >= DISTANCE {
            return None;
        }
        let speed = SPEED.min(spec.max_speed);
        Some(match self.motion {
            Motion::BackUp => Velocity::new(-speed, 0.0),
            Motion::Leave { heading } => {
                let ahead = wrap_angle(heading - at.yaw);
                // Backwards if that is the shorter turn.
                let (error, speed) = if ahead.abs() > FRAC_PI_2 {
                    (wrap_angle(ahead + PI), -speed)
                } else {
                    (ahead, speed)
                };
                let speed = if error.abs() > 0.15 { 0.0 } else { speed };
                Velocity::new(speed, turn_rate(spec, error))
            }
        })
    }
}

fn room(grid: &OccupancyGrid, at: Pose2, heading: f64, distance: f64) -> f64 {
    grid.interpolated_clearance(
        at.x + distance * heading.cos(),
        at.y + distance * heading.sin(),
    )
}

/// The heading in which there is most room, near and a little further away.
fn roomiest(grid: &OccupancyGrid, at: Pose2) -> f64 {
    let value = |heading: f64| {
        room(grid, at, heading, 0.4 * DISTANCE) + 0.3 * room(grid, at, heading, DISTANCE)
    };
    (0..DIRECTIONS)
        .map(|k| TAU * f64::from(k) / f64::from(DIRECTIONS))
        .max_by(|a, b| value(*a).total_cmp(&value(*b)))
        .unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::World;
    use crate::world_file::WorldFile;

    fn room() -> (OccupancyGrid, RobotSpec) {
        let file = WorldFile::from_yaml(
            "
rooms: [{id: a, rect: [0, 0, 6, 4]}]
walls: [{from: [0, 0], to: [6, 0]}, {from: [6, 0], to: [6, 4]},
        {from: [6, 4], to: [0, 4]}, {from: [0, 4], to: [0, 0]}]
robot: {start: [3, 2, 0]}
",
        )
        .unwrap();
        (
            OccupancyGrid::new(&World::new(&file).unwrap()),
            file.robot.clone(),
        )
    }

    #[test]
    fn in_front_of_a_wall_it_backs_up() {
        let (grid, spec) = room();
        let at = Pose2::new(5.6, 2.0, 0.0);
        let recovery = Recovery::begin(1, at, &grid, &spec, Duration::ZERO);
        let v = recovery.velocity(at, &spec, Duration::ZERO).unwrap();
        assert!(v.linear < 0.0 && v.angular == 0.0);
        // Over after a quarter of a metre, or after its time.
        let there = Pose2::new(5.34, 2.0, 0.0);
        assert!(recovery.velocity(there, &spec, Duration::ZERO).is_none());
        assert!(recovery.velocity(at, &spec, LONGEST).is_none());
    }

    #[test]
    fn with_a_wall_behind_it_leaves_it_ahead() {
        let (grid, spec) = room();
        for count in [1, 2] {
            let at = Pose2::new(5.6, 2.0, PI);
            let recovery = Recovery::begin(count, at, &grid, &spec, Duration::ZERO);
            // Away from the wall at x = 5.95: ahead, since it looks west.
            let v = recovery.velocity(at, &spec, Duration::ZERO).unwrap();
            assert!(v.linear > 0.0 && v.angular.abs() < 0.3, "{v:?}");
            // Turned about, the same way is behind it; along the wall it has to turn first.
            let east = Pose2::new(5.6, 2.0, 0.0);
            let v = recovery.velocity(east, &spec, Duration::ZERO).unwrap();
            assert!(v.linear < 0.0, "{v:?}");
            let north = Pose2::new(5.6, 2.0, 1.5);
            let v = recovery.velocity(north, &spec, Duration::ZERO).unwrap();
            assert!(v.linear == 0.0 && v.angular.abs() > 0.5, "{v:?}");
        }
    }

    #[test]
    fn out_of_a_corner_it_leaves_both_walls() {
        let (grid, spec) = room();
        // 0.28 m from the faces at 5.95 and 3.95.
        let at = Pose2::new(5.67, 3.67, 0.0);
        let leave = Recovery::begin(2, at, &grid, &spec, Duration::ZERO);
        let Motion::Leave { heading } = leave.motion else {
            panic!("{leave:?}");
        };
        // South-west is −3π/4.
        assert!(wrap_angle(heading + 0.75 * PI).abs() < 0.25, "{heading}");
    }
}

//! Worlds made up from seeds, and those that ship: every object is within reach of a place that can be
//! driven to.

mod common;

use std::collections::HashSet;
use std::f64::consts::TAU;

use eh_sim::occupancy_grid::OccupancyGrid;
use eh_sim::path_planner::COMFORT;
use eh_sim::{generated_world, NavStatus, Pose2, Robot, WorldFile};

/// How far from an object the base may stand, metres: params/embodiment.yaml.
const REACH: f64 = 0.69;
/// How near to furniture it stands at least, metres: a radius of 0.27 and what protection leaves.
const ROOM: f64 = 0.32;
/// The robot's radius, metres.
const RADIUS: f64 = 0.27;

/// Where the base can drive: the cells that are joined to its start with this much room, metres.
struct Drivable {
    grid: OccupancyGrid,
    reached: HashSet<(usize, usize)>,
}

impl Drivable {
    fn of(robot: &Robot) -> Self {
        let grid = OccupancyGrid::new(robot.world());
        let start = robot.ground_truth().robot;
        let start = grid.cell(start.x, start.y).unwrap();
        let mut reached = HashSet::from([start]);
        let mut next = vec![start];
        while let Some((x, y)) = next.pop() {
            for cell in [
                (x + 1, y),
                (x.wrapping_sub(1), y),
                (x, y + 1),
                (x, y.wrapping_sub(1)),
            ] {
                // Off the map the clearance is −1.
                if grid.cell_clearance(cell) >= RADIUS + COMFORT && reached.insert(cell) {
                    next.push(cell);
                }
            }
        }
        Self { grid, reached }
    }

    /// Whether the planner gets there: from a cell with all the room to a place with less, 0.3 m away.
    fn leads_to(&self, x: f64, y: f64) -> bool {
        (0..8).any(|k| {
            let angle = TAU * f64::from(k) / 8.0;
            [0.0, 0.1, 0.2, 0.3].into_iter().any(|d| {
                self.grid
                    .cell(x + d * angle.cos(), y + d * angle.sin())
                    .is_some_and(|cell| self.reached.contains(&cell))
            })
        })
    }
}

/// A place from which the object is reached, and to which a way leads.
fn place_for(robot: &Robot, drivable: &Drivable, at: [f64; 2]) -> Option<Pose2> {
    for ring in 0..10 {
        let distance = REACH - 0.035 * f64::from(ring);
        for k in 0..48 {
            let angle = TAU * f64::from(k) / 48.0;
            let (x, y) = (
                at[0] + distance * angle.cos(),
                at[1] + distance * angle.sin(),
            );
            if robot.map().room_at(x, y).is_some()
                && drivable.leads_to(x, y)
                && robot.world().clearance(x, y) >= ROOM
            {
                let yaw = eh_sim::geometry::wrap_angle(angle + TAU / 2.0);
                return Some(Pose2::new(x, y, yaw));
            }
        }
    }
    None
}

fn all_are_reachable(name: &str, robot: &Robot, drivable: &Drivable) {
    for object in robot.ground_truth().objects {
        let at = object.pose.translation.vector;
        assert!(
            place_for(robot, drivable, [at.x, at.y]).is_some(),
            "{name}: nothing leads to {} at ({:.2}, {:.2})",
            object.id,
            at.x,
            at.y
        );
    }
}

#[test]
fn every_object_of_the_worlds_that_ship_is_reachable() {
    for (name, text) in common::shipped_worlds() {
        let robot = Robot::from_yaml(text, None).unwrap();
        all_are_reachable(name, &robot, &Drivable::of(&robot));
    }
}

#[test]
fn two_hundred_seeds_give_worlds_that_can_be_solved() {
    let (mut rooms, mut objects) = (0, 0);
    for seed in 0..200 {
        let text = generated_world(seed);
        let robot = Robot::from_yaml(&text, None).unwrap_or_else(|e| panic!("{seed}: {e}\n{text}"));
        let name = format!("generated {seed}");
        assert_eq!(robot.seed(), seed);
        let map = robot.map();
        rooms += map.rooms.len();
        objects += robot.ground_truth().objects.len();
        assert!(map.rooms.len() >= 2 && !robot.ground_truth().objects.is_empty());
        let drivable = Drivable::of(&robot);
        for room in &map.rooms {
            let [x, y] = room.centroid();
            let middle = drivable.grid.cell(x, y).unwrap();
            assert!(drivable.reached.contains(&middle), "{name}: {}", room.id);
        }
        for door in &map.doors {
            let [x, y] = door.center();
            assert!(robot.world().clearance(x, y) > 0.4, "{name}: {}", door.id);
        }
        all_are_reachable(&name, &robot, &drivable);
    }
    println!("{rooms} rooms, {objects} objects");
    // 2 to 9 rooms each, and one object a room at least.
    assert!(rooms >= 600 && objects >= 800, "{rooms} {objects}");
}

#[test]
fn a_seed_is_a_world() {
    assert_eq!(generated_world(7), generated_world(7));
    assert_ne!(generated_world(7), generated_world(8));
    // The largest seed works as well.
    assert!(WorldFile::from_yaml(&generated_world(u64::MAX)).is_ok());
}

#[test]
fn it_drives_to_the_objects_of_made_up_worlds() {
    for seed in [3, 11, 42] {
        let mut robot = Robot::from_yaml(&generated_world(seed), None).unwrap();
        let last = robot.ground_truth().objects.pop().unwrap();
        let at = last.pose.translation.vector;
        let place = place_for(&robot, &Drivable::of(&robot), [at.x, at.y]).unwrap();
        let mut protected = common::protected::Protected::new(robot);
        let drive = protected.drive(place, std::time::Duration::from_secs(200));
        assert_eq!(drive.status, NavStatus::Succeeded, "{seed}: {drive:?}");
        robot = protected.robot;
        assert_eq!(robot.ground_truth().collisions, 0);
    }
}

//! Several robots in one world.
//!
//! Each robot keeps a world of its own, in which it sees the others; before a robot's step its world takes
//! over what the one before it has changed. So everything that holds for one robot holds for each of them.

use crate::error::SimError;
use crate::fault::FaultKind;
use crate::geometry::Pose2;
use crate::path_planner::COMFORT;
use crate::robot::Robot;
use crate::world::{OtherRobot, World};
use crate::world_file::WorldFile;

/// Height of a robot, metres: the head's.
const HEIGHT: f64 = 1.2;
/// Most robots in one world.
pub const MAX_ROBOTS: usize = 16;
/// Distance between robots that are placed side by side, metres.
const APART: f64 = 1.0;

/// One of the robots: its name, and where it starts (x, y in metres, heading in radians, map frame).
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// Unique name; the others detect it as an object of this id and the class `robot`.
    pub name: String,
    /// None: the first one where the world file says, the others beside it.
    pub start: Option<[f64; 3]>,
}

/// Builds the robots of one world file. The first one has the file's seed, faults, schedule and people; the
/// others the next seeds and those of the faults that concern a robot.
///
/// # Errors
/// [`SimError`] when a name is used twice, there are none or too many, the file is not valid, a start is
/// not free, or nothing is free beside the first one.
pub fn build(
    file: &WorldFile,
    seed: Option<u64>,
    members: &[Member],
) -> Result<Vec<Robot>, SimError> {
    if members.is_empty() || members.len() > MAX_ROBOTS {
        return Err(SimError::OutOfRange {
            what: "the number of robots",
            value: members.len() as f64,
            low: 1.0,
            high: MAX_ROBOTS as f64,
        });
    }
    let bad = |name: &str, problem: String| SimError::BadEntry {
        section: "robots",
        id: name.chars().take(64).collect(),
        problem,
    };
    let world = World::new(file)?;
    let seed = seed.unwrap_or(file.seed);
    let mut robots: Vec<Robot> = Vec::with_capacity(members.len());
    let mut starts: Vec<[f64; 3]> = Vec::with_capacity(members.len());
    for (index, member) in members.iter().enumerate() {
        let is_taken = file.objects.iter().any(|o| o.id == member.name)
            || file.map.furniture(&member.name).is_some();
        let twice = members
            .iter()
            .take(index)
            .any(|other| other.name == member.name);
        if member.name.is_empty() || twice || is_taken {
            return Err(bad(
                &member.name,
                "the name is empty or used twice; give each robot its own".to_owned(),
            ));
        }
        let start = match (member.start, index) {
            (Some(start), _) => start,
            (None, 0) => file.robot.start,
            (None, _) => free_beside(&world, file, &starts).ok_or_else(|| {
                bad(
                    &member.name,
                    "no free place is beside the first robot; give a start".to_owned(),
                )
            })?,
        };
        let near = starts
            .iter()
            .find(|s| (s[0] - start[0]).hypot(s[1] - start[1]) < 2.0 * file.robot.radius);
        if let Some(other) = near {
            return Err(bad(
                &member.name,
                format!(
                    "it starts at ({}, {}), on the robot at ({}, {}); they are {} m wide",
                    start[0],
                    start[1],
                    other[0],
                    other[1],
                    2.0 * file.robot.radius
                ),
            ));
        }
        let mut own = file.clone();
        own.robot.start = start;
        if index > 0 {
            own.schedule.clear();
            own.people.clear();
            own.faults
                .retain(|f| !matches!(f.fault, FaultKind::ObjectMoved | FaultKind::DoorClosed));
        }
        let mut robot = Robot::new(own, Some(seed.wrapping_add(index as u64)))?;
        robot.set_leading(index == 0);
        robots.push(robot);
        starts.push(start);
    }
    if robots.len() > 1 {
        for index in 0..robots.len() {
            meet(&mut robots, members, index);
        }
        // The first one's people are everybody's.
        if let Some((first, others)) = robots.split_first_mut() {
            for robot in others {
                robot.adopt(first);
            }
        }
    }
    Ok(robots)
}

/// Puts the others into the world of one robot, as they are now.
fn meet(robots: &mut [Robot], members: &[Member], index: usize) {
    let others: Vec<OtherRobot> = robots
        .iter()
        .zip(members)
        .enumerate()
        .filter(|(i, _)| *i != index)
        .map(|(_, (robot, member))| OtherRobot {
            name: member.name.clone(),
            pose: robot.true_pose(),
            radius: robot.world_file().robot.radius,
            height: HEIGHT,
        })
        .collect();
    if let Some(robot) = robots.get_mut(index) {
        robot.meet(&others);
    }
}

/// Moves all robots on by `step`, one after the other; `robot` finds the robot of an item.
///
/// # Errors
/// The first one of `step`.
pub fn step<T, E>(
    items: &mut [T],
    robot: impl Fn(&mut T) -> &mut Robot,
    mut step: impl FnMut(&mut T) -> Result<(), E>,
) -> Result<(), E> {
    let count = items.len();
    let mut poses: Vec<Pose2> = items.iter_mut().map(|i| robot(i).true_pose()).collect();
    for index in 0..count {
        if count > 1 {
            let others: Vec<Pose2> = poses
                .iter()
                .enumerate()
                .filter(|(i, _)| *i != index)
                .map(|(_, pose)| *pose)
                .collect();
            // The robot that moved last: the one before, in a ring.
            if let Some((item, before)) = pair(items, index, (index + count - 1) % count) {
                let before = robot(before);
                robot(item).follow(before, &others);
            }
        }
        if let (Some(item), Some(pose)) = (items.get_mut(index), poses.get_mut(index)) {
            step(item)?;
            *pose = robot(item).true_pose();
        }
    }
    Ok(())
}

/// Two different items.
fn pair<T>(items: &mut [T], one: usize, other: usize) -> Option<(&mut T, &mut T)> {
    let (low, high) = items.split_at_mut_checked(one.max(other))?;
    let (low, high) = (low.get_mut(one.min(other))?, high.first_mut()?);
    Some(if one < other {
        (low, high)
    } else {
        (high, low)
    })
}

/// A free place near the first robot and apart from all that have one.
fn free_beside(world: &World, file: &WorldFile, starts: &[[f64; 3]]) -> Option<[f64; 3]> {
    let [x0, y0, yaw] = *starts.first()?;
    for ring in 1..20 {
        for k in 0..24 {
            let angle = std::f64::consts::TAU * f64::from(k) / 24.0;
            let distance = 0.5 * f64::from(ring) + 0.5;
            let (x, y) = (x0 + distance * angle.cos(), y0 + distance * angle.sin());
            let apart = starts.iter().all(|s| (s[0] - x).hypot(s[1] - y) >= APART);
            if apart
                && world.map().room_at(x, y).is_some()
                && world.clearance(x, y) >= file.robot.radius + COMFORT
            {
                return Some([x, y, yaw]);
            }
        }
    }
    None
}

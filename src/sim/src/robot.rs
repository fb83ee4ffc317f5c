//! The whole simulated robot in its world: the one type a node or a test needs.

use std::collections::VecDeque;
use std::time::Duration;

use nalgebra::{Isometry3, Point3};

use crate::arm::{Arm, ArmStatus};
use crate::arm_goal::ArmGoal;
use crate::base::Base;
use crate::camera::Camera;
use crate::error::SimError;
use crate::fault::FaultSchedule;
use crate::goal_record::{GoalId, GoalRecord};
use crate::gripper::{Gripper, GripperStatus};
use crate::head::{Head, HeadStatus};
use crate::lidar::Lidar;
use crate::localization::Localization;
use crate::navigator::Navigator;
use crate::planning_scene::PlanningScene;
use crate::random::{SeededRandom, Stream};
use crate::schedule::Schedule;
use crate::sim_event::SimEvent;
use crate::world::World;
use crate::world_file::WorldFile;
use eh_contract::semantic_map::SemanticMap;

mod arm;
mod base;
mod faults;
mod frames;
mod gripper;
mod head;
mod images;
mod navigation;
mod planning;
mod schedule;
mod sensors;
mod truth;

/// Longest inner step: longer ones are divided.
pub const MAX_SUBSTEP: Duration = Duration::from_millis(20);
/// Longest step that is accepted.
pub const MAX_STEP: Duration = Duration::from_secs(1);
/// Most events that are kept until they are drained; the oldest are dropped.
pub const MAX_EVENTS: usize = 4096;
/// Greatest extent of a world, metres: its costmap then has at most 4 million cells.
pub const MAX_EXTENT: f64 = 100.0;

#[derive(Debug, Clone)]
struct Held {
    index: usize,
    in_tcp: Isometry3<f64>,
    width: f64,
    gripped_at: Point3<f64>,
    /// It slips once the tool has moved this far, metres.
    slips_after: Option<f64>,
    lifted: bool,
}

#[derive(Debug, Clone)]
struct ArmTask {
    id: GoalId,
    ending: Option<ArmStatus>,
    fails_at: Option<(Duration, i32)>,
}

/// The simulated robot and its world.
///
/// Time moves only in [`Robot::step`]. Goals are given by methods and followed by their ids; the base
/// moves only by [`Robot::set_velocity_command`]: what the navigator wants is read from
/// [`Robot::nav_velocity`] and has to be passed on by the caller.
#[derive(Debug, Clone)]
pub struct Robot {
    file: WorldFile,
    seed: u64,
    now: Duration,
    world: World,
    base: Base,
    localization: Localization,
    navigator: Navigator,
    arm: Arm,
    arm_record: GoalRecord<ArmStatus>,
    arm_task: Option<ArmTask>,
    arm_waiting: Option<(GoalId, ArmGoal)>,
    scene: PlanningScene,
    gripper: Gripper,
    gripper_record: GoalRecord<GripperStatus>,
    gripper_goal: Option<GoalId>,
    held: Option<Held>,
    /// An object that slipped: not gripped again before the fingers open.
    slipped: Option<usize>,
    head: Head,
    head_record: GoalRecord<HeadStatus>,
    head_goal: Option<GoalId>,
    lidar: Lidar,
    camera: Camera,
    faults: FaultSchedule,
    doors_closed_by_faults: Vec<String>,
    schedule: Schedule,
    /// Whether people walk by this robot's steps: false for all but the first of several robots.
    leads: bool,
    /// Doors that somebody is about to move, and whether they are open then.
    doors_waiting: Vec<(String, bool)>,
    object_random: SeededRandom,
    planner_random: SeededRandom,
    events: VecDeque<(Duration, SimEvent)>,
}

impl Robot {
    /// Puts the robot into the world of a file. `seed`: the file's own when not given.
    ///
    /// # Errors
    /// [`SimError`] when the file is not valid or the robot's start is not free.
    pub fn new(file: WorldFile, seed: Option<u64>) -> Result<Self, SimError> {
        let world = World::new(&file)?;
        let [x0, y0, x1, y1] = world.bounds();
        if x1 - x0 > MAX_EXTENT || y1 - y0 > MAX_EXTENT {
            return Err(SimError::BadEntry {
                section: "rooms",
                id: file.map.name.clone(),
                problem: format!(
                    "the world measures {:.0} × {:.0} m; at most {MAX_EXTENT} m each way",
                    x1 - x0,
                    y1 - y0
                ),
            });
        }
        let seed = seed.unwrap_or(file.seed);
        let base = Base::new(&file.robot);
        let start = base.pose();
        let clearance = world.clearance(start.x, start.y);
        if clearance < file.robot.radius {
            return Err(SimError::BadEntry {
                section: "robot",
                id: "start".to_owned(),
                problem: format!(
                    "({}, {}) is {clearance:.2} m from a wall or furniture; the robot needs {} m",
                    start.x, start.y, file.robot.radius
                ),
            });
        }
        if world.map().room_at(start.x, start.y).is_none() {
            return Err(SimError::BadEntry {
                section: "robot",
                id: "start".to_owned(),
                problem: format!("({}, {}) is in no room", start.x, start.y),
            });
        }
        let mut faults = FaultSchedule::default();
        for spec in &file.faults {
            faults.add(spec.clone(), Duration::ZERO)?;
        }
        Ok(Self {
            seed,
            now: Duration::ZERO,
            localization: Localization::new(start, &file.noise, seed),
            navigator: Navigator::new(&file.robot, &world),
            arm: Arm::default(),
            arm_record: GoalRecord::new(),
            arm_task: None,
            arm_waiting: None,
            scene: PlanningScene::default(),
            gripper: Gripper::default(),
            gripper_record: GoalRecord::new(),
            gripper_goal: None,
            held: None,
            slipped: None,
            head: Head::default(),
            head_record: GoalRecord::new(),
            head_goal: None,
            lidar: Lidar::new(&file.robot, &file.noise, seed),
            camera: Camera::new(&file.robot, &file.noise, seed),
            faults,
            doors_closed_by_faults: Vec::new(),
            schedule: Schedule::new(&file.schedule)?,
            leads: true,
            doors_waiting: Vec::new(),
            object_random: SeededRandom::new(seed, Stream::Objects),
            planner_random: SeededRandom::new(seed, Stream::ArmPlanner),
            events: VecDeque::new(),
            world,
            base,
            file,
        })
    }

    /// Reads a world from YAML text and puts the robot into it.
    ///
    /// # Errors
    /// As [`WorldFile::from_yaml`] and [`Robot::new`].
    pub fn from_yaml(text: &str, seed: Option<u64>) -> Result<Self, SimError> {
        Self::new(WorldFile::from_yaml(text)?, seed)
    }

    /// The time of the simulation.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.now
    }

    /// The seed in use.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// What the robot may know of its world beforehand.
    #[must_use]
    pub fn map(&self) -> &SemanticMap {
        self.world.map()
    }

    /// The file that the world was built of. Its objects are ground truth.
    #[must_use]
    pub fn world_file(&self) -> &WorldFile {
        &self.file
    }

    /// Moves time on. Steps longer than [`MAX_SUBSTEP`] are divided.
    ///
    /// # Errors
    /// [`SimError::OutOfRange`] when `dt` is zero or longer than [`MAX_STEP`]; nothing moves then.
    pub fn step(&mut self, dt: Duration) -> Result<(), SimError> {
        if dt.is_zero() || dt > MAX_STEP {
            return Err(SimError::OutOfRange {
                what: "the step in s",
                value: dt.as_secs_f64(),
                low: 1e-9,
                high: MAX_STEP.as_secs_f64(),
            });
        }
        let mut left = dt;
        while !left.is_zero() {
            let part = left.min(MAX_SUBSTEP);
            self.substep(part);
            left -= part;
        }
        Ok(())
    }

    fn substep(&mut self, part: Duration) {
        self.now += part;
        let dt = part.as_secs_f64();
        self.step_faults();
        self.step_others(dt);
        self.step_base(dt);
        self.step_arm(dt);
        self.step_gripper(dt);
        if self.head.step(dt, self.now) {
            if let Some(id) = self.head_goal.take() {
                self.head_record.end(id, HeadStatus::Succeeded);
                self.push(SimEvent::HeadEnded(id));
            }
        }
    }

    fn push(&mut self, event: SimEvent) {
        if self.events.len() >= MAX_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back((self.now, event));
    }

    /// Takes all events since the last call, each with its time.
    pub fn drain_events(&mut self) -> Vec<(Duration, SimEvent)> {
        self.events.drain(..).collect()
    }
}

/// The start of a text that a caller sent, for messages.
fn short(text: &str) -> String {
    text.chars().take(64).collect()
}

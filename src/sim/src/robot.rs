//! The whole simulated robot in its world: the one type a node or a test needs.

use std::collections::VecDeque;
use std::time::Duration;

use nalgebra::{Isometry3, Point3};

use crate::arm::{Arm, ArmStatus, MotionEnd};
use crate::arm_error_code::ArmErrorCode;
use crate::arm_goal::{ArmGoal, ArmGoalTarget, GROUP, TOOL_LINK};
use crate::arm_kinematics::{forward, named_pose, JOINT_NAMES, NAMED_POSES};
use crate::arm_planner::{plan_motion, ArmFailure, ArmPlan, ArmTarget};
use crate::arm_surroundings::{ArmSurroundings, HeldSphere, TARGET_RADIUS};
use crate::base::{Base, Velocity};
use crate::camera::{Camera, DetectionFrame, Frustum};
use crate::error::{finite, within, SimError};
use crate::fault::{FaultKind, FaultParams, FaultSchedule, FaultSpec, Occasion};
use crate::geometry::Pose2;
use crate::goal_record::{GoalId, GoalRecord};
use crate::gripper::{between_fingers, Gripper, GripperState, GripperStatus, FRICTION, MAX_WIDTH};
use crate::ground_truth::{GroundTruth, ObjectTruth};
use crate::head::{optical_in_tilt, Head, HeadPoint, HeadStatus};
use crate::joint_state::JointState;
use crate::lidar::{Lidar, Scan, MOUNT};
use crate::localization::Localization;
use crate::navigator::{NavStatus, Navigator};
use crate::random::{SeededRandom, Stream};
use crate::robot_frames::{unknown_frame, Transform};
use crate::semantic_map::SemanticMap;
use crate::sim_event::SimEvent;
use crate::world::{Support, World};
use crate::world_file::WorldFile;

/// Longest inner step: longer ones are divided.
pub const MAX_SUBSTEP: Duration = Duration::from_millis(20);
/// Longest step that is accepted.
pub const MAX_STEP: Duration = Duration::from_secs(1);
/// Most events that are kept until they are drained; the oldest are dropped.
pub const MAX_EVENTS: usize = 4096;

/// Standard gravity, m/s².
const GRAVITY: f64 = 9.80665;
/// How far the fingers open before they let go, metres.
const RELEASE: f64 = 0.003;

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

    // ---- faults -------------------------------------------------------------------------------

    fn step_faults(&mut self) {
        for spec in self.faults.advance(self.now) {
            self.push(SimEvent::Fault(spec.fault));
            match spec.fault {
                FaultKind::ObjectMoved => {
                    if let Some(id) = &spec.params.object {
                        let index = self.world.object_index(id);
                        if self.held.as_ref().is_some_and(|h| Some(h.index) == index) {
                            self.held = None;
                        }
                        // Its references were checked when it was added.
                        let _ = self.world.move_object(
                            id,
                            spec.params.position,
                            spec.params.on.as_deref(),
                        );
                    }
                }
                FaultKind::DoorClosed => {
                    if let Some(id) = &spec.params.door {
                        if self.world.set_door(id, false) == Ok(true) {
                            self.doors_closed_by_faults.push(id.clone());
                        }
                    }
                }
                FaultKind::GraspSlip
                | FaultKind::NavAbort
                | FaultKind::NavStuck
                | FaultKind::ScanSilent
                | FaultKind::ScanFrozen
                | FaultKind::DetectionsSilent
                | FaultKind::LostAck
                | FaultKind::LostResult
                | FaultKind::ServerRestart
                | FaultKind::LocalizationJump
                | FaultKind::GripperStuck
                | FaultKind::ArmAbort => {}
            }
        }
        if !self.doors_closed_by_faults.is_empty() {
            let faults = &self.faults;
            let still = |id: &String| {
                faults
                    .all_lasting(FaultKind::DoorClosed)
                    .any(|p| p.door.as_ref() == Some(id))
            };
            let (keep, open): (Vec<String>, Vec<String>) =
                std::mem::take(&mut self.doors_closed_by_faults)
                    .into_iter()
                    .partition(still);
            self.doors_closed_by_faults = keep;
            for id in open {
                // The door exists: it was closed by this id.
                let _ = self.world.set_door(&id, true);
            }
        }
    }

    /// Adds a fault to the schedule.
    ///
    /// # Errors
    /// [`SimError`] when it is not valid or names what the world does not have.
    pub fn inject(&mut self, spec: FaultSpec) -> Result<(), SimError> {
        spec.validate()?;
        self.file.validate_fault(&spec)?;
        self.faults.add(spec, self.now)
    }

    /// Removes the faults of a kind, pending or on; returns how many there were.
    pub fn clear_fault(&mut self, kind: FaultKind) -> usize {
        self.faults.clear(kind)
    }

    /// Removes every fault; returns how many there were.
    pub fn clear_faults(&mut self) -> usize {
        self.faults.clear_all()
    }

    /// The faults that are pending or on.
    pub fn pending_faults(&self) -> impl Iterator<Item = &FaultSpec> {
        self.faults.pending()
    }

    /// For the ROS edge: counts one occasion of a fault that concerns a server (lost_ack, lost_result,
    /// server_restart) and uses the fault up if it strikes.
    pub fn take_server_fault(&mut self, server: &str, kind: FaultKind) -> Option<FaultParams> {
        match kind {
            FaultKind::LostAck | FaultKind::LostResult | FaultKind::ServerRestart => {
                let params = self.faults.strike(kind, Some(server), self.now);
                if params.is_some() {
                    self.push(SimEvent::Fault(kind));
                }
                params
            }
            FaultKind::GraspSlip
            | FaultKind::NavAbort
            | FaultKind::NavStuck
            | FaultKind::ScanSilent
            | FaultKind::ScanFrozen
            | FaultKind::DetectionsSilent
            | FaultKind::ObjectMoved
            | FaultKind::DoorClosed
            | FaultKind::LocalizationJump
            | FaultKind::GripperStuck
            | FaultKind::ArmAbort => None,
        }
    }

    fn strike(&mut self, kind: FaultKind) -> Option<FaultParams> {
        let params = self.faults.strike(kind, None, self.now);
        if params.is_some() {
            self.push(SimEvent::Fault(kind));
        }
        params
    }

    // ---- base ---------------------------------------------------------------------------------

    fn step_base(&mut self, dt: f64) {
        let was_timed_out = self.base.timed_out();
        let stuck = self.faults.lasting(FaultKind::NavStuck).is_some();
        let motion = self.base.step(dt, self.now, &self.world, stuck);
        if self.base.timed_out() && !was_timed_out {
            self.push(SimEvent::CommandTimeout);
        }
        if motion.collided {
            self.push(SimEvent::Collision);
        }
        let offset = self
            .faults
            .lasting(FaultKind::LocalizationJump)
            .map_or([0.0; 3], |p| p.offset.unwrap_or([0.6, 0.3, 0.2]));
        self.localization
            .step(&motion, self.base.pose(), self.now, offset);
        let ended = self
            .navigator
            .step(self.localization.map_to_base(), &self.world, self.now);
        if let Some(id) = ended {
            self.push(SimEvent::NavEnded(id));
        }
    }

    /// Commands the base: this is `cmd_vel` behind the protection. It holds until the next command or
    /// the base's own watchdog.
    ///
    /// # Errors
    /// [`SimError::NotFinite`]: the base is told to stop instead.
    pub fn set_velocity_command(&mut self, command: Velocity) -> Result<(), SimError> {
        self.base.set_command(command, self.now)
    }

    /// base_link in odom, and the measured velocity.
    #[must_use]
    pub fn odometry(&self) -> (Pose2, Velocity) {
        (self.localization.odom_to_base(), self.base.velocity())
    }

    /// base_link in map, as the localisation believes.
    #[must_use]
    pub fn estimated_pose(&self) -> Pose2 {
        self.localization.map_to_base()
    }

    // ---- navigation ---------------------------------------------------------------------------

    /// Accepts a navigation goal; a running one is preempted.
    ///
    /// A goal that can't be reached is aborted at once: see [`Robot::nav_status`].
    ///
    /// # Errors
    /// [`SimError`] when the pose is not finite or the frame is unknown (map, odom or base_link): the
    /// goal is then not accepted, and a running one goes on.
    pub fn navigate(&mut self, frame: &str, pose: Pose2) -> Result<GoalId, SimError> {
        within("the goal's x in m", pose.x, -1000.0, 1000.0)?;
        within("the goal's y in m", pose.y, -1000.0, 1000.0)?;
        within("the goal's heading in rad", pose.yaw, -100.0, 100.0)?;
        let in_map = match frame {
            "map" => pose,
            "odom" => self.localization.map_to_odom().compose(pose),
            "base_link" => self.localization.map_to_base().compose(pose),
            other => return Err(unknown_frame(other)),
        };
        self.faults.happened(Occasion::NavGoal, self.now);
        let fault = self.strike(FaultKind::NavAbort);
        let id = self.navigator.start(
            in_map,
            self.localization.map_to_base(),
            &self.world,
            self.now,
            fault,
        );
        if self.navigator.active() != Some(id) {
            self.push(SimEvent::NavEnded(id));
        }
        Ok(id)
    }

    /// Calls a navigation goal off; whether it was running. The base then slows down.
    pub fn cancel_navigation(&mut self, id: GoalId) -> bool {
        let canceled = self.navigator.cancel(id);
        if canceled {
            self.push(SimEvent::NavEnded(id));
        }
        canceled
    }

    /// How a navigation goal stands; none when it is unknown or ended too long ago.
    #[must_use]
    pub fn nav_status(&self, id: GoalId) -> Option<NavStatus> {
        self.navigator.status(id)
    }

    /// The goal that is running.
    #[must_use]
    pub fn active_navigation(&self) -> Option<GoalId> {
        self.navigator.active()
    }

    /// The velocity that the navigator wants: to be published as the unprotected `cmd_vel`.
    ///
    /// None when it has no goal; for one control period after a goal's end it is zero.
    #[must_use]
    pub fn nav_velocity(&self) -> Option<Velocity> {
        self.navigator.command()
    }

    /// The way of the running goal, points in the map frame, metres.
    #[must_use]
    pub fn nav_path(&self) -> &[[f64; 2]] {
        self.navigator.path()
    }

    // ---- arm ----------------------------------------------------------------------------------

    /// Accepts an arm goal; a running one slows to rest first and ends as preempted.
    ///
    /// It is planned when the arm is at rest; what can't be planned ends as aborted with a code.
    ///
    /// # Errors
    /// [`SimError`] when a number is not finite or out of range: the goal is then not accepted.
    pub fn move_arm(&mut self, goal: ArmGoal) -> Result<GoalId, SimError> {
        goal.validate()?;
        let id = self.arm_record.issue();
        if let Some((waiting, _)) = self.arm_waiting.take() {
            self.end_arm(waiting, ArmStatus::Preempted);
        }
        if let Some(task) = &mut self.arm_task {
            task.ending.get_or_insert(ArmStatus::Preempted);
            self.arm.stop();
        }
        self.arm_waiting = Some((id, goal));
        Ok(id)
    }

    /// Calls an arm goal off; whether it was running. It ends when the arm is at rest.
    pub fn cancel_arm(&mut self, id: GoalId) -> bool {
        if self.arm_waiting.as_ref().is_some_and(|(w, _)| *w == id) {
            self.arm_waiting = None;
            self.end_arm(id, ArmStatus::Canceled);
            return true;
        }
        match &mut self.arm_task {
            Some(task) if task.id == id => {
                task.ending.get_or_insert(ArmStatus::Canceled);
                self.arm.stop();
                true
            }
            _ => false,
        }
    }

    /// How an arm goal stands; none when it is unknown or ended too long ago.
    #[must_use]
    pub fn arm_status(&self, id: GoalId) -> Option<ArmStatus> {
        if self.arm_waiting.as_ref().is_some_and(|(w, _)| *w == id) {
            return Some(ArmStatus::Active { progress: 0.0 });
        }
        match &self.arm_task {
            Some(task) if task.id == id => Some(ArmStatus::Active {
                progress: self.arm.progress(),
            }),
            _ => self.arm_record.get(id),
        }
    }

    /// Plans a goal from where the arm is without moving it.
    ///
    /// # Errors
    /// The MoveIt code and a sentence.
    pub fn plan_arm(&self, goal: &ArmGoal) -> Result<ArmPlan, ArmFailure> {
        goal.validate()
            .map_err(|e| (ArmErrorCode::InvalidGoalConstraints, e.to_string()))?;
        if goal.group != GROUP {
            return Err((
                ArmErrorCode::InvalidGroupName,
                format!("there is no group '{}'; use '{GROUP}'", short(&goal.group)),
            ));
        }
        let target = match &goal.target {
            ArmGoalTarget::Pose {
                frame,
                pose,
                orientation_tolerance,
            } => {
                if goal.link != TOOL_LINK {
                    return Err((
                        ArmErrorCode::InvalidLinkName,
                        format!(
                            "there is no tool link '{}'; use '{TOOL_LINK}'",
                            short(&goal.link)
                        ),
                    ));
                }
                let frame = self
                    .frame_in_base(frame)
                    .map_err(|e| (ArmErrorCode::FrameTransformFailure, e.to_string()))?;
                ArmTarget::Pose {
                    pose: frame * pose,
                    orientation_tolerance: *orientation_tolerance,
                }
            }
            ArmGoalTarget::Joints(named) => {
                let mut q = self.arm.positions();
                if named.is_empty() {
                    return Err((
                        ArmErrorCode::InvalidGoalConstraints,
                        "the goal names no joint".to_owned(),
                    ));
                }
                for (name, value) in named {
                    let slot = JOINT_NAMES.iter().position(|n| n == name);
                    match slot.and_then(|i| q.get_mut(i)) {
                        Some(v) => *v = *value,
                        None => {
                            return Err((
                                ArmErrorCode::InvalidGoalConstraints,
                                format!(
                                    "there is no joint '{}'; use {}",
                                    short(name),
                                    JOINT_NAMES.join(", ")
                                ),
                            ))
                        }
                    }
                }
                ArmTarget::Joints(q)
            }
            ArmGoalTarget::Named(name) => {
                let q = named_pose(name).ok_or_else(|| {
                    (
                        ArmErrorCode::InvalidGoalConstraints,
                        format!(
                            "there is no pose '{}'; use {}",
                            short(name),
                            NAMED_POSES.join(", ")
                        ),
                    )
                })?;
                ArmTarget::Joints(q)
            }
        };
        let start = self.arm.positions();
        let surroundings = self.surroundings(&target);
        plan_motion(
            &start,
            &target,
            goal.path,
            &surroundings,
            &mut self.planner_random.clone(),
        )
    }

    /// What the arm must not touch: everything but what is held and what it is about to grip or has
    /// just let go.
    fn surroundings(&self, target: &ArmTarget) -> ArmSurroundings {
        let base = self.base.pose().to_isometry();
        let mut tips = vec![base * forward(&self.arm.positions()).tcp];
        match target {
            ArmTarget::Pose { pose, .. } => tips.push(base * pose),
            ArmTarget::Joints(q) => tips.push(base * forward(q).tcp),
        }
        let held_index = self.held.as_ref().map(|h| h.index);
        let ignored: Vec<usize> = self
            .world
            .objects()
            .iter()
            .enumerate()
            .filter(|(i, o)| {
                Some(*i) == held_index
                    || tips.iter().any(|t| {
                        o.outline().distance_3d(&Point3::from(t.translation.vector)) < TARGET_RADIUS
                    })
            })
            .map(|(i, _)| i)
            .collect();
        let held = self.held.as_ref().and_then(|h| {
            let size = self.world.objects().get(h.index)?.spec.size;
            Some(HeldSphere {
                center: Point3::from(h.in_tcp.translation.vector),
                // The largest sphere inside it, a little smaller: it may rest on a surface.
                radius: 0.4 * size[0].min(size[1]).min(size[2]),
            })
        });
        ArmSurroundings::new(&self.world, base, &ignored, held)
    }

    fn end_arm(&mut self, id: GoalId, status: ArmStatus) {
        self.arm_record.end(id, status);
        self.push(SimEvent::ArmEnded(id));
    }

    fn step_arm(&mut self, dt: f64) {
        if let Some(task) = &mut self.arm_task {
            if let Some((at, code)) = task.fails_at {
                if self.now >= at && task.ending.is_none() {
                    task.ending = Some(ArmStatus::Aborted {
                        code,
                        message: "the arm's controller stopped the motion".to_owned(),
                    });
                    self.arm.stop();
                }
            }
        }
        if let Some(end) = self.arm.step(dt) {
            if let Some(task) = self.arm_task.take() {
                let status = task.ending.unwrap_or(match end {
                    MotionEnd::Completed => ArmStatus::Succeeded,
                    MotionEnd::Stopped => ArmStatus::Canceled,
                });
                self.end_arm(task.id, status);
            }
        }
        if self.arm_task.is_none() {
            if let Some((id, goal)) = self.arm_waiting.take() {
                self.begin_arm(id, &goal);
            }
        }
    }

    fn begin_arm(&mut self, id: GoalId, goal: &ArmGoal) {
        self.faults.happened(Occasion::ArmGoal, self.now);
        let fault = self.strike(FaultKind::ArmAbort);
        match self.plan_arm(goal) {
            Ok(plan) => {
                let fails_at = fault.map(|f| {
                    (
                        self.now + Duration::from_secs_f64(f.after_s.unwrap_or(0.3)),
                        f.code.unwrap_or(ArmErrorCode::ControlFailed.code()),
                    )
                });
                let scale = if goal.velocity_scale > 0.0 {
                    goal.velocity_scale
                } else {
                    1.0
                };
                self.arm.start(plan, scale);
                self.arm_task = Some(ArmTask {
                    id,
                    ending: None,
                    fails_at,
                });
            }
            Err((code, message)) => self.end_arm(id, ArmStatus::aborted(code, message)),
        }
    }

    // ---- gripper ------------------------------------------------------------------------------

    /// Accepts a gripper goal: distance between the fingers in metres, force in newtons (0: default).
    /// A running one is preempted.
    ///
    /// # Errors
    /// [`SimError`] when a number is not finite or the distance is out of range.
    pub fn move_gripper(&mut self, position: f64, max_effort: f64) -> Result<GoalId, SimError> {
        within("the gripper's position in m", position, 0.0, MAX_WIDTH)?;
        finite("the gripper's effort", max_effort)?;
        self.faults.happened(Occasion::GripperGoal, self.now);
        if let Some(old) = self.gripper_goal.take() {
            let state = self.gripper.state(self.now);
            self.end_gripper(old, GripperStatus::Preempted(state));
        }
        self.gripper.command(position, max_effort);
        let id = self.gripper_record.issue();
        self.gripper_goal = Some(id);
        Ok(id)
    }

    /// Calls a gripper goal off; whether it was running. The fingers stay.
    pub fn cancel_gripper(&mut self, id: GoalId) -> bool {
        if self.gripper_goal != Some(id) {
            return false;
        }
        self.gripper_goal = None;
        self.gripper.hold();
        let state = self.gripper.state(self.now);
        self.end_gripper(id, GripperStatus::Canceled(state));
        true
    }

    /// How a gripper goal stands; none when it is unknown or ended too long ago.
    #[must_use]
    pub fn gripper_status(&self, id: GoalId) -> Option<GripperStatus> {
        if self.gripper_goal == Some(id) {
            return Some(GripperStatus::Active(self.gripper.state(self.now)));
        }
        self.gripper_record.get(id)
    }

    /// The fingers as they are.
    #[must_use]
    pub fn gripper_state(&self) -> GripperState {
        self.gripper.state(self.now)
    }

    fn end_gripper(&mut self, id: GoalId, status: GripperStatus) {
        self.gripper_record.end(id, status);
        self.push(SimEvent::GripperEnded(id));
    }

    fn step_gripper(&mut self, dt: f64) {
        let tcp = self.tcp_in_map();
        self.carry(&tcp);
        let stuck = self.faults.lasting(FaultKind::GripperStuck).is_some();
        let before = self.gripper.width();
        let mut candidate = None;
        if self.held.is_none() && !self.gripper.is_opening() {
            candidate = self.find_between(&tcp, before);
        }
        let obstacle = self
            .held
            .as_ref()
            .map(|h| h.width)
            .or(candidate.as_ref().map(|c| c.width));
        self.gripper.step(dt, self.now, obstacle, stuck);
        if let Some(found) = candidate {
            if self.gripper.width() <= found.width + 1e-9 && self.gripper.effort() > 0.0 {
                self.attach(found, &tcp);
            }
        }
        if self.gripper.width() > before + 1e-12 {
            self.slipped = None;
            let opened = self
                .held
                .as_ref()
                .is_some_and(|h| self.gripper.width() > h.width + RELEASE);
            if opened {
                self.let_go();
            }
        }
        let state = self.gripper.state(self.now);
        if (state.reached_goal && self.gripper.speed() == 0.0) || state.stalled {
            if let Some(id) = self.gripper_goal.take() {
                self.end_gripper(id, GripperStatus::Ended(state));
            }
        }
    }

    /// The object between the fingers that they meet first.
    fn find_between(&self, tcp: &Isometry3<f64>, opening: f64) -> Option<Held> {
        let tip = Point3::from(tcp.translation.vector);
        let mut best: Option<Held> = None;
        for (index, object) in self.world.objects().iter().enumerate() {
            if self.slipped == Some(index)
                || (object.pose.translation.vector - tip.coords).norm() > 0.6
            {
                continue;
            }
            if let Some((width, in_tcp)) = between_fingers(tcp, opening, object) {
                if best.as_ref().is_none_or(|b| width > b.width) {
                    best = Some(Held {
                        index,
                        in_tcp,
                        width,
                        gripped_at: tip,
                        slips_after: None,
                        lifted: false,
                    });
                }
            }
        }
        best
    }

    fn attach(&mut self, mut held: Held, tcp: &Isometry3<f64>) {
        let Some(object) = self.world.objects().get(held.index) else {
            return;
        };
        if !object.spec.graspable {
            return;
        }
        let (id, mass) = (object.spec.id.clone(), object.spec.mass);
        self.faults.happened(Occasion::Grasp, self.now);
        if self.strike(FaultKind::GraspSlip).is_some() {
            held.slips_after = Some(self.object_random.between(0.03, 0.08));
        } else if FRICTION * self.gripper.max_effort() < mass * GRAVITY {
            // Too weak a grip for the weight: it stays behind as soon as the tool rises.
            held.slips_after = Some(0.01);
        }
        held.gripped_at = Point3::from(tcp.translation.vector);
        if let Some(object) = self.world.object_mut(held.index) {
            object.pose = tcp * held.in_tcp;
            object.support = Support::Gripper;
        }
        self.held = Some(held);
        self.push(SimEvent::Grasped { object: id });
    }

    /// Takes the held object along; lets it slip when its time has come.
    fn carry(&mut self, tcp: &Isometry3<f64>) {
        let Some(held) = &mut self.held else { return };
        if let Some(object) = self.world.object_mut(held.index) {
            object.pose = tcp * held.in_tcp;
        }
        let moved = (tcp.translation.vector - held.gripped_at.coords).norm();
        let lifts = !held.lifted && tcp.translation.vector.z > held.gripped_at.z + 0.03;
        held.lifted |= lifts;
        let slips = held.slips_after.is_some_and(|limit| moved >= limit);
        if lifts {
            self.faults.happened(Occasion::Lift, self.now);
        }
        if slips {
            self.slip();
        }
    }

    fn slip(&mut self) {
        let Some(held) = self.held.take() else { return };
        self.slipped = Some(held.index);
        let Some(object) = self.world.objects().get(held.index) else {
            return;
        };
        let id = object.spec.id.clone();
        let at = object.pose.translation.vector;
        let below = self.world.surface_below(at.x, at.y, at.z).1;
        // It rolls a little, but not off what it falls onto.
        let mut offset = [0.0, 0.0];
        for _ in 0..8 {
            let angle = self.object_random.between(0.0, std::f64::consts::TAU);
            let distance = self.object_random.between(0.01, 0.04);
            let candidate = [distance * angle.cos(), distance * angle.sin()];
            if self
                .world
                .surface_below(at.x + candidate[0], at.y + candidate[1], at.z)
                .1
                == below
            {
                offset = candidate;
                break;
            }
        }
        let fell = self.world.drop_object(held.index, offset);
        self.push(SimEvent::Slipped { object: id, fell });
    }

    fn let_go(&mut self) {
        let Some(held) = self.held.take() else { return };
        let Some(object) = self.world.objects().get(held.index) else {
            return;
        };
        let id = object.spec.id.clone();
        let fell = self.world.drop_object(held.index, [0.0, 0.0]);
        self.push(SimEvent::Released { object: id, fell });
    }

    // ---- head ---------------------------------------------------------------------------------

    /// Accepts a head trajectory; a running one is preempted.
    ///
    /// # Errors
    /// [`SimError`] when it is empty, a number is not finite or out of the limits, or times don't grow.
    pub fn move_head(&mut self, points: Vec<HeadPoint>) -> Result<GoalId, SimError> {
        within(
            "the number of trajectory points",
            points.len() as f64,
            1.0,
            10_000.0,
        )?;
        let [pan, tilt] = crate::head::LIMITS;
        let mut last = None;
        for p in &points {
            within("the head's pan in rad", p.pan, pan[0], pan[1])?;
            within("the head's tilt in rad", p.tilt, tilt[0], tilt[1])?;
            let at = p.at.as_secs_f64();
            within(
                "a trajectory point's time in s",
                at,
                last.map_or(0.0, |l: f64| l + 1e-9),
                600.0,
            )?;
            last = Some(at);
        }
        if let Some(old) = self.head_goal.take() {
            self.head_record.end(old, HeadStatus::Preempted);
            self.push(SimEvent::HeadEnded(old));
        }
        self.head.follow(points, self.now);
        let id = self.head_record.issue();
        self.head_goal = Some(id);
        Ok(id)
    }

    /// Calls a head goal off; whether it was running. The head holds still.
    pub fn cancel_head(&mut self, id: GoalId) -> bool {
        if self.head_goal != Some(id) {
            return false;
        }
        self.head_goal = None;
        self.head.hold();
        self.head_record.end(id, HeadStatus::Canceled);
        self.push(SimEvent::HeadEnded(id));
        true
    }

    /// How a head goal stands; none when it is unknown or ended too long ago.
    #[must_use]
    pub fn head_status(&self, id: GoalId) -> Option<HeadStatus> {
        if self.head_goal == Some(id) {
            return Some(HeadStatus::Active);
        }
        self.head_record.get(id)
    }

    // ---- sensors ------------------------------------------------------------------------------

    /// Takes a scan (frame `laser`); none while the fault scan_silent is on.
    pub fn scan(&mut self) -> Option<Scan> {
        if self.faults.lasting(FaultKind::ScanSilent).is_some() {
            return None;
        }
        let frozen = self.faults.lasting(FaultKind::ScanFrozen).is_some();
        Some(
            self.lidar
                .scan(self.base.pose(), &self.world, self.now, frozen),
        )
    }

    /// Takes an image and detects objects in it; none while the fault detections_silent is on.
    pub fn detect(&mut self) -> Option<DetectionFrame> {
        if self.faults.lasting(FaultKind::DetectionsSilent).is_some() {
            return None;
        }
        let in_base = self.head.camera();
        let in_map = self.base.pose().to_isometry() * in_base;
        Some(self.camera.detect(&in_map, in_base, &self.world, self.now))
    }

    /// What the camera can see.
    #[must_use]
    pub fn frustum(&self) -> Frustum {
        self.camera.frustum()
    }

    /// All joints.
    #[must_use]
    pub fn joint_states(&self) -> Vec<JointState> {
        let mut joints = Vec::with_capacity(8);
        let arm = JOINT_NAMES
            .iter()
            .zip(self.arm.positions())
            .zip(self.arm.speeds());
        joints.extend(arm.map(|((name, position), velocity)| JointState {
            name,
            position,
            velocity,
            effort: 0.0,
        }));
        joints.push(JointState {
            name: crate::joint_state::GRIPPER_JOINT,
            position: self.gripper.width(),
            velocity: self.gripper.speed(),
            effort: self.gripper.effort(),
        });
        let head = crate::head::JOINT_NAMES
            .iter()
            .zip(self.head.positions())
            .zip(self.head.speeds());
        joints.extend(head.map(|((name, position), velocity)| JointState {
            name,
            position,
            velocity,
            effort: 0.0,
        }));
        joints
    }

    // ---- frames -------------------------------------------------------------------------------

    /// The links of the tree that move.
    #[must_use]
    pub fn transforms(&self) -> Vec<Transform> {
        let arm = forward(&self.arm.positions());
        let mut list = vec![
            Transform::new("map", "odom", self.localization.map_to_odom().to_isometry()),
            Transform::new(
                "odom",
                "base_link",
                self.localization.odom_to_base().to_isometry(),
            ),
        ];
        let names = [
            "arm_1_link",
            "arm_2_link",
            "arm_3_link",
            "arm_4_link",
            "arm_5_link",
        ];
        let (mut parent, mut parent_pose) = ("base_link", Isometry3::identity());
        for (name, pose) in names.into_iter().zip(arm.links) {
            list.push(Transform::new(parent, name, parent_pose.inverse() * pose));
            (parent, parent_pose) = (name, pose);
        }
        let pan = self.head.pan_link();
        list.push(Transform::new("base_link", "head_pan_link", pan));
        list.push(Transform::new(
            "head_pan_link",
            "head_tilt_link",
            pan.inverse() * self.head.tilt_link(),
        ));
        list
    }

    /// The links of the tree that never move.
    #[must_use]
    pub fn static_transforms(&self) -> Vec<Transform> {
        let laser = Isometry3::translation(MOUNT.x, MOUNT.y, self.lidar.height());
        vec![
            Transform::new("base_link", "laser", laser),
            Transform::new(
                "arm_5_link",
                "gripper_tcp",
                Isometry3::translation(crate::arm_kinematics::TOOL, 0.0, 0.0),
            ),
            Transform::new("head_tilt_link", "camera_optical_frame", optical_in_tilt()),
        ]
    }

    /// A frame's pose in base_link, as the robot believes.
    ///
    /// # Errors
    /// [`SimError::UnknownFrame`].
    pub fn frame_in_base(&self, frame: &str) -> Result<Isometry3<f64>, SimError> {
        let arm = || forward(&self.arm.positions());
        let link = |i: usize| {
            arm()
                .links
                .get(i)
                .copied()
                .unwrap_or_else(Isometry3::identity)
        };
        Ok(match frame {
            "base_link" => Isometry3::identity(),
            "map" => self.localization.map_to_base().inverse().to_isometry(),
            "odom" => self.localization.odom_to_base().inverse().to_isometry(),
            "laser" => Isometry3::translation(MOUNT.x, MOUNT.y, self.lidar.height()),
            "arm_1_link" => link(0),
            "arm_2_link" => link(1),
            "arm_3_link" => link(2),
            "arm_4_link" => link(3),
            "arm_5_link" => link(4),
            "gripper_tcp" => arm().tcp,
            "head_pan_link" => self.head.pan_link(),
            "head_tilt_link" => self.head.tilt_link(),
            "camera_optical_frame" => self.head.camera(),
            other => return Err(unknown_frame(other)),
        })
    }

    fn tcp_in_map(&self) -> Isometry3<f64> {
        self.base.pose().to_isometry() * forward(&self.arm.positions()).tcp
    }

    // ---- truth --------------------------------------------------------------------------------

    /// The world as it truly is: for tests and recordings only.
    #[must_use]
    pub fn ground_truth(&self) -> GroundTruth {
        GroundTruth {
            robot: self.base.pose(),
            velocity: self.base.velocity(),
            tcp: self.tcp_in_map(),
            held: self
                .held
                .as_ref()
                .and_then(|h| self.world.objects().get(h.index))
                .map(|o| o.spec.id.clone()),
            objects: self
                .world
                .objects()
                .iter()
                .map(|o| ObjectTruth {
                    id: o.spec.id.clone(),
                    class: o.spec.class.clone(),
                    pose: o.pose,
                    support: o.support.clone(),
                })
                .collect(),
            doors: self
                .world
                .doors()
                .map(|(id, open)| (id.to_owned(), open))
                .collect(),
            collisions: self.base.collisions(),
        }
    }

    /// The world itself, for tests of geometry.
    #[must_use]
    pub fn world(&self) -> &World {
        &self.world
    }

    /// A number that differs whenever any part of the true state differs: to compare runs.
    ///
    /// FNV-1a: <http://www.isthe.com/chongo/tech/comp/fnv/>.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut eat = |v: f64| {
            for byte in v.to_bits().to_le_bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        };
        eat(self.now.as_secs_f64());
        let (pose, odom) = (self.base.pose(), self.localization.odom_to_base());
        let estimate = self.localization.map_to_base();
        for p in [pose, odom, estimate] {
            eat(p.x);
            eat(p.y);
            eat(p.yaw);
        }
        eat(self.base.velocity().linear);
        eat(self.base.velocity().angular);
        for q in self
            .arm
            .positions()
            .into_iter()
            .chain(self.head.positions())
        {
            eat(q);
        }
        eat(self.gripper.width());
        for object in self.world.objects() {
            for v in object
                .pose
                .translation
                .vector
                .iter()
                .chain(object.pose.rotation.coords.iter())
            {
                eat(*v);
            }
        }
        hash
    }
}

/// The start of a text that a caller sent, for messages.
fn short(text: &str) -> String {
    text.chars().take(64).collect()
}

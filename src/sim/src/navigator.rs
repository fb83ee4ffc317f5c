//! Drives the base to goals as Nav2 would: planner, controller, progress checker, error codes.

use std::time::Duration;

use crate::base::Velocity;
use crate::fault::FaultParams;
use crate::geometry::{wrap_angle, Pose2, UprightBox};
use crate::goal_record::{GoalId, GoalRecord};
use crate::nav_error_code::NavErrorCode;
use crate::occupancy_grid::OccupancyGrid;
use crate::path_follower::{advance, ahead, length, pursue, remaining, turn_rate};
use crate::path_planner::{plan_path, PlanFailure, COMFORT, SAFETY_MARGIN};
use crate::progress::{Progress, LEAST_WAY, PATIENCE};
use crate::recovery::Recovery;
use crate::world::World;
use crate::world_file::RobotSpec;

/// How often velocities are decided.
const CONTROL_PERIOD: Duration = Duration::from_millis(50);
/// How near the goal counts as reached, metres.
pub const XY_TOLERANCE: f64 = 0.05;
/// How near the goal's heading counts as reached, radians.
pub const YAW_TOLERANCE: f64 = 0.05;
/// Recoveries in a row before the goal is given up.
pub const MAX_RECOVERIES: u32 = 2;
/// The robot must have come this much nearer than ever for recoveries to be counted anew, metres.
const NEARER: f64 = 1.0;
/// Longer ways that a goal may be sent on because the world has changed.
pub const MAX_DETOURS: u32 = 20;
/// A way counts as longer from this much on, metres.
const DETOUR: f64 = 0.1;
/// Waiting this long within the tolerance, but not yet where it aims, is enough.
const GOOD_ENOUGH: Duration = Duration::from_secs(1);
/// People are seen as far as this, metres …
const SIGHT: f64 = 3.0;
/// … and looked out for on this much of the way, metres,
const LOOK_OUT: f64 = 2.0;
/// to keep this much farther away from them than the radius, metres.
const AVOID_ROOM: f64 = 0.15;
/// How often a way around somebody is looked for at most.
const AVOID_PERIOD: Duration = Duration::from_millis(500);
/// How long zero is put out after a goal's end.
const STOP_TIME: Duration = Duration::from_millis(300);

/// What the navigator says while it drives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NavFeedback {
    /// Where the robot believes to be, map frame.
    pub current_pose: Pose2,
    /// Length of the way that is left, metres.
    pub distance_remaining: f64,
    /// Time since the goal was accepted.
    pub navigation_time: Duration,
    /// Estimated time to the goal.
    pub estimated_time_remaining: Duration,
    /// Recoveries so far.
    pub recoveries: u32,
}

/// How a goal stands.
#[derive(Debug, Clone, PartialEq)]
pub enum NavStatus {
    /// The robot is on its way.
    Active(NavFeedback),
    /// The robot is there.
    Succeeded,
    /// The navigator gave up.
    Aborted {
        /// Why, as Nav2 numbers it; a fault may give any number.
        code: u16,
        /// Why, in words.
        message: String,
    },
    /// The caller called it off.
    Canceled,
    /// A newer goal took its place.
    Preempted,
}

impl NavStatus {
    /// Whether the goal has ended.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        !matches!(self, Self::Active(_))
    }
}

#[derive(Debug, Clone)]
struct ActiveGoal {
    id: GoalId,
    pose: Pose2,
    path: Vec<[f64; 2]>,
    planned_version: u64,
    /// When it last looked for a way around somebody.
    avoided_at: Option<Duration>,
    accepted: Duration,
    /// Once the position is reached only the heading is corrected: no dithering at the edge.
    at_position: bool,
    progress: Progress,
    /// All recoveries, and those since it last came clearly nearer.
    recoveries: u32,
    in_a_row: u32,
    /// The least way that was left when the last recovery began.
    recovered_at: f64,
    recovery: Option<Recovery>,
    detours: u32,
    feedback: NavFeedback,
    fails_at: Option<(Duration, u16)>,
}

/// The navigator. It sees the estimated pose only and puts out velocities only.
#[derive(Debug, Clone)]
pub struct Navigator {
    spec: RobotSpec,
    grid: OccupancyGrid,
    grid_version: u64,
    goal: Option<ActiveGoal>,
    record: GoalRecord<NavStatus>,
    decided_at: Option<Duration>,
    command: Option<Velocity>,
    /// Zero is put out until then: a loop that reads it more slowly than it is decided gets it too.
    stop_until: Duration,
    now: Duration,
}

impl Navigator {
    /// A navigator with the world's map, without a goal.
    #[must_use]
    pub fn new(spec: &RobotSpec, world: &World) -> Self {
        Self {
            spec: spec.clone(),
            grid: OccupancyGrid::new(world),
            grid_version: world.version(),
            goal: None,
            record: GoalRecord::new(),
            decided_at: None,
            command: None,
            stop_until: Duration::ZERO,
            now: Duration::ZERO,
        }
    }

    /// Takes a goal (map frame); a running one is preempted. `fault` lets it abort later.
    ///
    /// A goal that can't be planned is aborted at once: see [`Navigator::status`].
    pub fn start(
        &mut self,
        pose: Pose2,
        estimate: Pose2,
        world: &World,
        now: Duration,
        fault: Option<FaultParams>,
    ) -> GoalId {
        let id = self.record.next_id();
        if let Some(old) = self.goal.take() {
            self.record.end(old.id, NavStatus::Preempted);
        }
        match self.plan(estimate, pose, world) {
            Ok(path) => {
                let feedback = NavFeedback {
                    current_pose: estimate,
                    distance_remaining: length(&path),
                    navigation_time: Duration::ZERO,
                    estimated_time_remaining: Duration::ZERO,
                    recoveries: 0,
                };
                let fails_at = fault.map(|f| {
                    let code = f.code.and_then(|c| u16::try_from(c).ok());
                    (
                        now + Duration::from_secs_f64(f.after_s.unwrap_or(1.0)),
                        code.unwrap_or(NavErrorCode::ControllerUnknown.code()),
                    )
                });
                self.goal = Some(ActiveGoal {
                    id,
                    pose,
                    path,
                    planned_version: world.version(),
                    avoided_at: None,
                    accepted: now,
                    at_position: false,
                    progress: Progress::new(feedback.distance_remaining, now),
                    recoveries: 0,
                    in_a_row: 0,
                    recovered_at: f64::INFINITY,
                    recovery: None,
                    detours: 0,
                    feedback,
                    fails_at,
                });
                self.decided_at = None;
            }
            Err((code, message)) => {
                self.record.end(
                    id,
                    NavStatus::Aborted {
                        code: code.code(),
                        message,
                    },
                );
                self.say_stop();
            }
        }
        id
    }

    /// Calls a goal off: the base is told to stop. Returns whether it was running.
    pub fn cancel(&mut self, id: GoalId) -> bool {
        match self.goal.take() {
            Some(goal) if goal.id == id => {
                self.record.end(id, NavStatus::Canceled);
                self.say_stop();
                true
            }
            other => {
                self.goal = other;
                false
            }
        }
    }

    /// The goal that is running.
    #[must_use]
    pub fn active(&self) -> Option<GoalId> {
        self.goal.as_ref().map(|g| g.id)
    }

    /// How a goal stands; none when it is unknown or ended too long ago.
    #[must_use]
    pub fn status(&self, id: GoalId) -> Option<NavStatus> {
        match &self.goal {
            Some(goal) if goal.id == id => Some(NavStatus::Active(goal.feedback)),
            _ => self.record.get(id),
        }
    }

    /// The way of the running goal: points in the map frame, metres.
    #[must_use]
    pub fn path(&self) -> &[[f64; 2]] {
        self.goal.as_ref().map_or(&[], |g| &g.path)
    }

    /// The velocity the navigator wants now; none when it has no goal and has said stop for a while.
    #[must_use]
    pub fn command(&self) -> Option<Velocity> {
        self.command
    }

    /// The costmap.
    #[must_use]
    pub fn grid(&self) -> &OccupancyGrid {
        &self.grid
    }

    /// Moves on to the time `now`; returns the goal that ended in this step.
    pub fn step(&mut self, estimate: Pose2, world: &World, now: Duration) -> Option<GoalId> {
        self.now = now;
        let due = self
            .decided_at
            .is_none_or(|at| now.saturating_sub(at) >= CONTROL_PERIOD);
        if !due {
            return None;
        }
        self.decided_at = Some(now);
        let Some(mut goal) = self.goal.take() else {
            self.command = (now < self.stop_until).then_some(Velocity::ZERO);
            return None;
        };
        match self.drive(&mut goal, estimate, world, now) {
            Ok(velocity) => {
                self.command = Some(velocity);
                self.goal = Some(goal);
                None
            }
            Err(status) => {
                self.say_stop();
                let id = goal.id;
                self.record.end(id, status);
                Some(id)
            }
        }
    }

    fn say_stop(&mut self) {
        self.command = Some(Velocity::ZERO);
        self.stop_until = self.now + STOP_TIME;
    }

    fn plan(
        &mut self,
        estimate: Pose2,
        goal: Pose2,
        world: &World,
    ) -> Result<Vec<[f64; 2]>, PlanFailure> {
        if self.grid_version != world.version() {
            self.grid = OccupancyGrid::new(world);
            self.grid_version = world.version();
        }
        plan_path(
            &self.grid,
            self.spec.radius,
            [estimate.x, estimate.y],
            [goal.x, goal.y],
            world.fixed_clearance(goal.x, goal.y),
        )
    }

    fn drive(
        &mut self,
        goal: &mut ActiveGoal,
        estimate: Pose2,
        world: &World,
        now: Duration,
    ) -> Result<Velocity, NavStatus> {
        let abort = |(code, message): PlanFailure| NavStatus::Aborted {
            code: code.code(),
            message,
        };
        if let Some((at, code)) = goal.fails_at {
            if now >= at {
                let message = "the controller gave up".to_owned();
                return Err(NavStatus::Aborted { code, message });
            }
        }
        if goal.planned_version != world.version() {
            self.take_new_way(goal, estimate, world, now)
                .map_err(abort)?;
        }
        if let Some(recovery) = goal.recovery {
            if let Some(velocity) = recovery.velocity(estimate, &self.spec, now) {
                goal.feedback.current_pose = estimate;
                goal.feedback.navigation_time = now.saturating_sub(goal.accepted);
                return Ok(velocity);
            }
            goal.recovery = None;
            goal.at_position = false;
            goal.path = self.plan(estimate, goal.pose, world).map_err(abort)?;
            goal.progress.wait_again(now);
        }
        advance(&mut goal.path, estimate);
        self.avoid_movers(goal, estimate, world, now);
        let remaining = remaining(&goal.path, estimate);
        let to_goal = estimate.distance(goal.pose);
        let yaw_error = wrap_angle(goal.pose.yaw - estimate.yaw);
        let navigation_time = now.saturating_sub(goal.accepted);
        let eta = remaining / (0.7 * self.spec.max_speed) + yaw_error.abs() / 1.0;
        goal.feedback = NavFeedback {
            current_pose: estimate,
            distance_remaining: remaining,
            navigation_time,
            estimated_time_remaining: Duration::from_secs_f64(eta.min(1e6)),
            recoveries: goal.recoveries,
        };
        goal.at_position = to_goal <= self.reach(goal, estimate, now);
        let turn_left = goal.at_position.then_some(yaw_error);
        goal.progress.left(remaining, turn_left, now);
        if goal.progress.is_stalled(now) {
            return self.recover(goal, estimate, now).map_err(abort);
        }
        if goal.at_position {
            if yaw_error.abs() <= YAW_TOLERANCE * 0.6 {
                return Err(NavStatus::Succeeded);
            }
            return Ok(Velocity::new(0.0, turn_rate(&self.spec, yaw_error)));
        }
        let least = self.spec.radius + SAFETY_MARGIN;
        let clearance = self.grid.clearance(estimate.x, estimate.y);
        let roominess = ((clearance - least) / 0.3).clamp(0.0, 1.0);
        Ok(pursue(&self.spec, &goal.path, estimate, to_goal, roominess))
    }

    /// How near the goal it has to be now, metres.
    ///
    /// Within half the tolerance it is there; it stays there until it leaves one and a half. Beside
    /// furniture, where protection may hold it a little short, or when it comes no nearer, the whole
    /// tolerance will do.
    fn reach(&self, goal: &ActiveGoal, estimate: Pose2, now: Duration) -> f64 {
        let beside = self.grid.clearance(estimate.x, estimate.y) < self.spec.radius + COMFORT;
        let share = if goal.at_position {
            1.5
        } else if beside || goal.progress.idle(now) >= GOOD_ENOUGH {
            1.0
        } else {
            0.5
        };
        share * XY_TOLERANCE
    }

    /// Plans a way around people who stand or walk on the way ahead, as far as it can see them.
    ///
    /// Where there is none it goes on: protection holds the base until they have gone.
    fn avoid_movers(&self, goal: &mut ActiveGoal, estimate: Pose2, world: &World, now: Duration) {
        let due = goal
            .avoided_at
            .is_none_or(|at| now.saturating_sub(at) >= AVOID_PERIOD);
        if !due {
            return;
        }
        let seen: Vec<UprightBox> = world
            .movers()
            .filter(|m| m.distance(estimate.x, estimate.y) <= SIGHT)
            .collect();
        let ahead = ahead(&goal.path, estimate, LOOK_OUT);
        let room = self.spec.radius + AVOID_ROOM;
        let blocked = seen
            .iter()
            .any(|m| ahead.iter().any(|p| m.distance(p[0], p[1]) < room));
        if !blocked {
            return;
        }
        goal.avoided_at = Some(now);
        let mut grid = self.grid.clone();
        for mover in &seen {
            grid.stamp(mover);
        }
        let clearance = grid.clearance(goal.pose.x, goal.pose.y);
        let (from, to) = ([estimate.x, estimate.y], [goal.pose.x, goal.pose.y]);
        if let Ok(path) = plan_path(&grid, self.spec.radius, from, to, clearance) {
            goal.path = path;
        }
    }

    /// Plans again because the world has changed.
    fn take_new_way(
        &mut self,
        goal: &mut ActiveGoal,
        estimate: Pose2,
        world: &World,
        now: Duration,
    ) -> Result<(), PlanFailure> {
        let path = self.plan(estimate, goal.pose, world)?;
        goal.planned_version = world.version();
        let way = remaining(&path, estimate);
        if way > remaining(&goal.path, estimate) + DETOUR {
            goal.detours += 1;
            if goal.detours > MAX_DETOURS {
                return Err((
                    NavErrorCode::NoValidPath,
                    format!("the way was blocked {MAX_DETOURS} times; wait until the doors rest"),
                ));
            }
            goal.progress.begin(way, now);
            goal.recovered_at = f64::INFINITY;
        }
        goal.path = path;
        Ok(())
    }

    /// It comes no nearer: moves out of what may hold it, or gives up.
    fn recover(
        &self,
        goal: &mut ActiveGoal,
        estimate: Pose2,
        now: Duration,
    ) -> Result<Velocity, PlanFailure> {
        // Every new count costs a metre of the way, so that there is an end to them.
        if goal.progress.least_way() <= goal.recovered_at - NEARER {
            goal.in_a_row = 0;
            goal.recovered_at = goal.progress.least_way();
        }
        if goal.in_a_row >= MAX_RECOVERIES {
            return Err((
                NavErrorCode::FailedToMakeProgress,
                format!(
                    "the robot came less than {LEAST_WAY} m nearer in {} s, {:.2} m before the goal, \
                     after {} recoveries; look at what stands in its way",
                    PATIENCE.as_secs(),
                    goal.feedback.distance_remaining,
                    goal.recoveries
                ),
            ));
        }
        goal.recoveries += 1;
        goal.in_a_row += 1;
        let recovery = Recovery::begin(goal.in_a_row, estimate, &self.grid, &self.spec, now);
        goal.recovery = Some(recovery);
        Ok(recovery
            .velocity(estimate, &self.spec, now)
            .unwrap_or(Velocity::ZERO))
    }
}

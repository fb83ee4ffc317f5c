//! Drives the base to goals as Nav2 would: planner, controller, progress checker, error codes.

use std::time::Duration;

use crate::base::Velocity;
use crate::fault::FaultParams;
use crate::geometry::{wrap_angle, Pose2};
use crate::goal_record::{GoalId, GoalRecord};
use crate::nav_error_code::NavErrorCode;
use crate::occupancy_grid::OccupancyGrid;
use crate::path_planner::{plan_path, PlanFailure, SAFETY_MARGIN};
use crate::world::World;
use crate::world_file::RobotSpec;

/// How often velocities are decided.
const CONTROL_PERIOD: Duration = Duration::from_millis(50);
/// How near the goal counts as reached, metres.
pub const XY_TOLERANCE: f64 = 0.05;
/// How near the goal's heading counts as reached, radians.
pub const YAW_TOLERANCE: f64 = 0.05;
/// The robot must move this far, metres or radians, …
const PROGRESS: f64 = 0.25;
/// … within this time.
const PROGRESS_TIME: Duration = Duration::from_secs(5);
/// Recoveries before the goal is given up.
const MAX_RECOVERIES: u32 = 2;
/// How long zero is put out after a goal's end.
const STOP_TIME: Duration = Duration::from_millis(300);
/// Decelerations that the controller plans with, m/s² and rad/s².
const BRAKING: f64 = 0.7;
const TURN_BRAKING: f64 = 1.6;

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
    accepted: Duration,
    /// Once the position is reached only the heading is corrected: no dithering at the edge.
    at_position: bool,
    recoveries: u32,
    progress_from: Pose2,
    progress_at: Duration,
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
                    accepted: now,
                    at_position: false,
                    recoveries: 0,
                    progress_from: estimate,
                    progress_at: now,
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
            world.clearance(goal.x, goal.y),
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
            goal.path = self.plan(estimate, goal.pose, world).map_err(abort)?;
            goal.planned_version = world.version();
        }
        let moved = goal.progress_from.distance(estimate)
            + wrap_angle(goal.progress_from.yaw - estimate.yaw).abs();
        if moved >= PROGRESS {
            goal.progress_from = estimate;
            goal.progress_at = now;
        } else if now.saturating_sub(goal.progress_at) >= PROGRESS_TIME {
            if goal.recoveries >= MAX_RECOVERIES {
                return Err(abort((
                    NavErrorCode::FailedToMakeProgress,
                    format!(
                        "the robot moved less than {PROGRESS} m in {} s, after {} recoveries",
                        PROGRESS_TIME.as_secs(),
                        goal.recoveries
                    ),
                )));
            }
            goal.recoveries += 1;
            goal.progress_at = now;
            goal.progress_from = estimate;
            goal.at_position = false;
            goal.path = self.plan(estimate, goal.pose, world).map_err(abort)?;
        }
        advance_path(&mut goal.path, estimate);
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
        // Within half the tolerance it is there; it stays there until it leaves one and a half.
        let reach = if goal.at_position { 1.5 } else { 0.5 } * XY_TOLERANCE;
        goal.at_position = to_goal <= reach;
        if goal.at_position {
            if yaw_error.abs() <= YAW_TOLERANCE * 0.6 {
                return Err(NavStatus::Succeeded);
            }
            return Ok(Velocity::new(0.0, self.turn_rate(yaw_error)));
        }
        Ok(self.pursue(goal, estimate, remaining))
    }

    /// A turning rate that can be braked to 0 at the wanted heading.
    fn turn_rate(&self, error: f64) -> f64 {
        let rate = (2.0 * TURN_BRAKING * error.abs())
            .sqrt()
            .min(2.2 * error.abs() + 0.04);
        rate.min(self.spec.max_turn).copysign(error)
    }

    /// Regulated pure pursuit: slower in curves, near obstacles and near the goal.
    ///
    /// The law κ = 2·y/L²: Coulter, "Implementation of the Pure Pursuit Path Tracking Algorithm", 1992.
    fn pursue(&self, goal: &ActiveGoal, estimate: Pose2, remaining: f64) -> Velocity {
        let clearance = self.grid.clearance(estimate.x, estimate.y);
        let least = self.spec.radius + SAFETY_MARGIN;
        let roominess = ((clearance - least) / 0.3).clamp(0.0, 1.0);
        let lookahead = (0.3 + 0.3 * roominess).min(remaining.max(0.05));
        let carrot = point_ahead(&goal.path, estimate, lookahead);
        let target = estimate
            .inverse()
            .compose(Pose2::new(carrot[0], carrot[1], 0.0));
        let bearing = target.y.atan2(target.x);
        let close = estimate.distance(goal.pose) < 0.25;
        // Just beside the goal a short way back is quicker than turning round.
        if close && target.x < 0.0 && bearing.abs() > 2.3 {
            let back = wrap_angle(bearing + std::f64::consts::PI);
            let speed = (0.9 * remaining + 0.02).min(0.15) * back.cos().max(0.0);
            return Velocity::new(-speed, self.turn_rate(back));
        }
        if bearing.abs() > if close { 0.3 } else { 0.7 } {
            return Velocity::new(0.0, self.turn_rate(bearing));
        }
        let distance = target.x.hypot(target.y).max(1e-3);
        let curvature = 2.0 * target.y / (distance * distance);
        let mut speed = self.spec.max_speed * (0.4 + 0.6 * roominess);
        speed = speed
            .min((2.0 * BRAKING * remaining).sqrt())
            .min(1.2 * remaining + 0.03);
        if curvature.abs() > 1e-6 {
            speed = speed.min(0.8 * self.spec.max_turn / curvature.abs());
            // Side acceleration up to 0.8 m/s².
            speed = speed.min((0.8 / curvature.abs()).sqrt());
        }
        Velocity::new(
            speed,
            (speed * curvature).clamp(-self.spec.max_turn, self.spec.max_turn),
        )
    }
}

/// Drops the points of the way that lie behind the robot.
fn advance_path(path: &mut Vec<[f64; 2]>, at: Pose2) {
    while let [a, b, ..] = path.as_slice() {
        let (dx, dy) = (b[0] - a[0], b[1] - a[1]);
        let squared = dx * dx + dy * dy;
        let along = if squared > 0.0 {
            ((at.x - a[0]) * dx + (at.y - a[1]) * dy) / squared
        } else {
            1.0
        };
        if along < 1.0 || path.len() <= 2 {
            break;
        }
        path.remove(0);
    }
}

/// The part of the first leg that is done, 0 … 1, and the point there.
fn projection(path: &[[f64; 2]], at: Pose2) -> [f64; 2] {
    match path {
        [a, b, ..] => {
            let (dx, dy) = (b[0] - a[0], b[1] - a[1]);
            let squared = dx * dx + dy * dy;
            let t = if squared > 0.0 {
                (((at.x - a[0]) * dx + (at.y - a[1]) * dy) / squared).clamp(0.0, 1.0)
            } else {
                1.0
            };
            [a[0] + t * dx, a[1] + t * dy]
        }
        [a] => *a,
        [] => [at.x, at.y],
    }
}

/// Length of the way that is left, metres, with the way back onto it.
fn remaining(path: &[[f64; 2]], at: Pose2) -> f64 {
    let on_path = projection(path, at);
    let mut total = (on_path[0] - at.x).hypot(on_path[1] - at.y);
    let mut from = on_path;
    for p in path.iter().skip(1) {
        total += (p[0] - from[0]).hypot(p[1] - from[1]);
        from = *p;
    }
    total
}

/// The point of the way that is `ahead` metres further on.
fn point_ahead(path: &[[f64; 2]], at: Pose2, ahead: f64) -> [f64; 2] {
    let mut from = projection(path, at);
    let mut left = ahead;
    for p in path.iter().skip(1) {
        let leg = (p[0] - from[0]).hypot(p[1] - from[1]);
        if leg >= left && leg > 0.0 {
            let t = left / leg;
            return [
                from[0] + t * (p[0] - from[0]),
                from[1] + t * (p[1] - from[1]),
            ];
        }
        left -= leg;
        from = *p;
    }
    from
}

fn length(path: &[[f64; 2]]) -> f64 {
    path.windows(2)
        .map(|w| match w {
            [a, b] => (b[0] - a[0]).hypot(b[1] - a[1]),
            _ => 0.0,
        })
        .sum()
}

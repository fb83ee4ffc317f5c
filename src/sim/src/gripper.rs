//! The parallel gripper: two fingers, a stall when something is between them.

use std::time::Duration;

use nalgebra::{Isometry3, Vector3};

use crate::world::WorldObject;

/// Greatest distance between the fingers, metres.
pub const MAX_WIDTH: f64 = 0.10;
/// Speed at which that distance changes, m/s.
pub const SPEED: f64 = 0.10;
/// Greatest force of the fingers, newtons.
pub const MAX_EFFORT: f64 = 40.0;
/// Force when the goal gives none, newtons.
pub const DEFAULT_EFFORT: f64 = 20.0;
/// How near the goal counts as reached, metres.
pub const TOLERANCE: f64 = 0.002;
/// No motion for this long is a stall.
const STALL_TIME: Duration = Duration::from_millis(200);
/// How far out of the middle an object may stick out beyond the fingers and still be pushed in, metres.
const PUSH_IN: f64 = 0.008;
/// How deep the fingers reach around the tool centre point, metres, along and across the approach.
const FINGER_DEPTH: f64 = 0.012;
/// Friction of both fingers together: two contacts of coefficient 0.5 (rubber on smooth ware).
pub const FRICTION: f64 = 1.0;

/// How a gripper goal stands. The fields are those of control_msgs/GripperCommand's result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GripperState {
    /// Distance between the fingers, metres.
    pub position: f64,
    /// Force of the fingers, newtons.
    pub effort: f64,
    /// Whether they push without moving.
    pub stalled: bool,
    /// Whether they are where the goal wants them.
    pub reached_goal: bool,
}

/// How a gripper goal stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum GripperStatus {
    /// The fingers move.
    Active(GripperState),
    /// The goal is reached or the fingers stalled; the state says which.
    Ended(GripperState),
    /// The caller called it off.
    Canceled(GripperState),
    /// A newer goal took its place.
    Preempted(GripperState),
}

impl GripperStatus {
    /// Whether the goal has ended.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        !matches!(self, Self::Active(_))
    }
}

/// The fingers as they are.
#[derive(Debug, Clone)]
pub struct Gripper {
    width: f64,
    speed: f64,
    target: f64,
    max_effort: f64,
    effort: f64,
    still_since: Option<Duration>,
}

impl Default for Gripper {
    fn default() -> Self {
        // It begins half open, as gripper drivers leave it.
        Self {
            width: 0.05,
            speed: 0.0,
            target: 0.05,
            max_effort: DEFAULT_EFFORT,
            effort: 0.0,
            still_since: None,
        }
    }
}

impl Gripper {
    /// Distance between the fingers, metres.
    #[must_use]
    pub fn width(&self) -> f64 {
        self.width
    }

    /// How fast that distance changes, m/s.
    #[must_use]
    pub fn speed(&self) -> f64 {
        self.speed
    }

    /// Force of the fingers, newtons.
    #[must_use]
    pub fn effort(&self) -> f64 {
        self.effort
    }

    /// Whether the fingers are told to open further than they are.
    #[must_use]
    pub fn is_opening(&self) -> bool {
        self.target > self.width + 1e-9
    }

    /// The force it may use, newtons.
    #[must_use]
    pub fn max_effort(&self) -> f64 {
        self.max_effort
    }

    /// Sends the fingers to a distance, metres. `max_effort` in newtons; 0 or less: the default.
    pub fn command(&mut self, width: f64, max_effort: f64) {
        self.target = width.clamp(0.0, MAX_WIDTH);
        self.max_effort = if max_effort > 0.0 {
            max_effort.min(MAX_EFFORT)
        } else {
            DEFAULT_EFFORT
        };
        self.still_since = None;
    }

    /// The fingers stay where they are.
    pub fn hold(&mut self) {
        self.target = self.width;
    }

    /// Moves on by `dt` seconds up to `now`.
    ///
    /// `obstacle`: the distance at which something between the fingers stops them. `stuck`: nothing
    /// moves.
    pub fn step(&mut self, dt: f64, now: Duration, obstacle: Option<f64>, stuck: bool) {
        let before = self.width;
        if !stuck {
            let reach = SPEED * dt;
            let mut next = self.width + (self.target - self.width).clamp(-reach, reach);
            if let Some(limit) = obstacle {
                // It only stops closing: fingers already nearer than that stay.
                if next < limit {
                    next = limit.min(self.width);
                }
            }
            self.width = next;
        }
        self.speed = if dt > 0.0 {
            (self.width - before) / dt
        } else {
            0.0
        };
        let off = (self.target - self.width).abs();
        let pushing = off > 1e-9 && self.speed == 0.0;
        self.effort = if pushing { self.max_effort } else { 0.0 };
        if self.speed == 0.0 {
            self.still_since.get_or_insert(now);
        } else {
            self.still_since = None;
        }
    }

    /// The state a goal's feedback or result shows at the time `now`.
    #[must_use]
    pub fn state(&self, now: Duration) -> GripperState {
        let reached_goal = (self.target - self.width).abs() <= TOLERANCE;
        let still = self
            .still_since
            .is_some_and(|since| now.saturating_sub(since) >= STALL_TIME);
        GripperState {
            position: self.width,
            effort: self.effort,
            stalled: still && !reached_goal,
            reached_goal,
        }
    }
}

/// The distance of the fingers at which they hold the object, and where its centre comes to lie in
/// gripper_tcp; none when it is not between them.
///
/// `tcp` in the map frame, `opening` in metres.
#[must_use]
pub fn between_fingers(
    tcp: &Isometry3<f64>,
    opening: f64,
    object: &WorldObject,
) -> Option<(f64, Isometry3<f64>)> {
    let relative = tcp.inverse() * object.pose;
    let r = relative.rotation.to_rotation_matrix();
    let m = r.matrix();
    let s = object.spec.size;
    // Half of the box's extent along each axis of the tool.
    let half = |row: usize| {
        (m[(row, 0)].abs() * s[0] + m[(row, 1)].abs() * s[1] + m[(row, 2)].abs() * s[2]) / 2.0
    };
    let across = (object.pose.inverse() * tcp).rotation * Vector3::y();
    // Round things are gripped at one width from every side, but not from above and below.
    let width = match object.spec.grasp_width {
        Some(w) if across.z.abs() < 0.3 => w,
        _ => 2.0 * half(1),
    };
    let c = relative.translation.vector;
    let fits = width <= opening + 1e-9
        && c.y.abs() + width / 2.0 <= opening / 2.0 + PUSH_IN
        && c.x.abs() <= half(0) + FINGER_DEPTH
        && c.z.abs() <= half(2) + FINGER_DEPTH;
    if !fits {
        return None;
    }
    // Closing fingers push it to the middle.
    let mut held = relative;
    held.translation.vector.y = 0.0;
    Some((width, held))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use nalgebra::UnitQuaternion;

    use super::*;
    use crate::world::Support;
    use crate::world_file::ObjectSpec;

    fn cup(x: f64, y: f64, z: f64) -> WorldObject {
        WorldObject {
            spec: ObjectSpec {
                id: "c".to_owned(),
                class: "cup".to_owned(),
                attributes: BTreeMap::new(),
                names: BTreeMap::new(),
                position: [x, y],
                on: None,
                z: None,
                yaw: 0.0,
                size: [0.08, 0.08, 0.1],
                mass: 0.2,
                graspable: true,
                grasp_width: Some(0.07),
            },
            pose: Isometry3::translation(x, y, z),
            support: Support::Floor,
        }
    }

    #[test]
    fn the_cup_is_between_the_fingers_only_near_the_tool() {
        let tcp = Isometry3::translation(1.0, 0.0, 0.8);
        let (width, held) = between_fingers(&tcp, 0.1, &cup(1.01, 0.015, 0.8)).unwrap();
        assert_eq!(width, 0.07);
        assert_eq!(held.translation.vector.y, 0.0);
        // 0.035 + 0.035 = 0.07 is beyond 0.05 + 0.008.
        assert!(between_fingers(&tcp, 0.1, &cup(1.0, 0.035, 0.8)).is_none());
        // Half of the height is 0.05: 0.07 is above the cup, 0.06 is still within a finger's depth.
        assert!(between_fingers(&tcp, 0.1, &cup(1.0, 0.0, 0.73)).is_none());
        assert!(between_fingers(&tcp, 0.1, &cup(1.0, 0.0, 0.74)).is_some());
        // Not open enough.
        assert!(between_fingers(&tcp, 0.06, &cup(1.0, 0.0, 0.8)).is_none());
        // Rolled by 90° the fingers close from above and below: the height of 0.1 counts.
        let rolled =
            tcp * UnitQuaternion::from_axis_angle(&Vector3::x_axis(), std::f64::consts::FRAC_PI_2);
        let (width, _) = between_fingers(&rolled, 0.1001, &cup(1.0, 0.0, 0.8)).unwrap();
        assert!((width - 0.1).abs() < 1e-4);
    }

    #[test]
    fn fingers_reach_or_stall() {
        let run = |obstacle| {
            let mut g = Gripper::default();
            g.command(0.0, 10.0);
            for k in 1..=150 {
                g.step(0.01, Duration::from_millis(10 * k), obstacle, false);
            }
            g.state(Duration::from_millis(1500))
        };
        // 0.05 m at 0.1 m/s takes 0.5 s.
        let closed = run(None);
        assert!(closed.reached_goal && !closed.stalled && closed.effort == 0.0);
        let stalled = run(Some(0.03));
        assert!(stalled.stalled && !stalled.reached_goal && stalled.effort == 10.0);
        assert!((stalled.position - 0.03).abs() < 1e-9);
    }
}

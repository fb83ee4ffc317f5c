//! The arm's geometry: five joints, forward and closed-form inverse kinematics.
//!
//! Yaw at the shoulder, then shoulder, elbow and wrist pitch, then wrist roll. All frames have x along
//! the limb; an *elevation* is an angle above the horizontal, so that positive pitch joints raise.

use std::f64::consts::{FRAC_PI_2, PI};

use nalgebra::{Isometry3, Point3, Translation3, UnitQuaternion, Vector3};

use crate::geometry::wrap_angle;

/// Joint positions in radians: yaw, shoulder, elbow, wrist pitch, wrist roll.
pub type Joints = [f64; 5];

/// The joints' names, in order.
pub const JOINT_NAMES: [&str; 5] = [
    "arm_1_joint",
    "arm_2_joint",
    "arm_3_joint",
    "arm_4_joint",
    "arm_5_joint",
];

/// Least and greatest position of each joint, radians.
pub const LIMITS: [[f64; 2]; 5] = [
    [-2.9, 2.9],
    [-1.3, 2.05],
    [-2.7, 2.7],
    [-2.6, 2.6],
    [-PI, PI],
];

/// Greatest speed of each joint, rad/s: a light arm's.
pub const SPEEDS: [f64; 5] = [1.6, 1.4, 1.6, 2.0, 2.4];

/// The shoulder in base_link, metres.
pub const SHOULDER: [f64; 3] = [0.08, 0.0, 0.75];
/// Shoulder to elbow, metres.
pub const UPPER_ARM: f64 = 0.38;
/// Elbow to wrist, metres.
pub const FOREARM: f64 = 0.34;
/// Wrist to tool centre point, metres.
pub const TOOL: f64 = 0.16;

/// Folded: within the footprint, tool pointing down.
pub const STOW: Joints = [0.0, 2.0, -2.65, -FRAC_PI_2 + 0.65, 0.0];
/// In front of the chest, tool level: ready to reach out.
pub const READY: Joints = [0.0, 1.7, -2.0, 0.3, 0.0];
/// As folded, a little higher and further out, still within the footprint: room for what is held.
pub const CARRY: Joints = [0.0, 2.0, -2.5, -FRAC_PI_2 + 0.5, 0.0];

/// The joints of a named pose.
#[must_use]
pub fn named_pose(name: &str) -> Option<Joints> {
    match name {
        "stow" => Some(STOW),
        "ready" => Some(READY),
        "carry" => Some(CARRY),
        _ => None,
    }
}

/// The names that [`named_pose`] knows.
pub const NAMED_POSES: [&str; 3] = ["stow", "ready", "carry"];

/// Where every part of the arm is, in base_link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ArmFrames {
    /// `arm_1_link` … `arm_5_link`: each turned by its own joint.
    pub links: [Isometry3<f64>; 5],
    /// `gripper_tcp`: x points out of the gripper, y from finger to finger.
    pub tcp: Isometry3<f64>,
}

/// Forward kinematics.
#[must_use]
pub fn forward(q: &Joints) -> ArmFrames {
    let raise = |angle: f64| {
        Isometry3::from_parts(
            Translation3::identity(),
            UnitQuaternion::from_axis_angle(&Vector3::y_axis(), -angle),
        )
    };
    let along = |length: f64| Isometry3::translation(length, 0.0, 0.0);
    let one = Isometry3::from_parts(
        Translation3::new(SHOULDER[0], SHOULDER[1], SHOULDER[2]),
        UnitQuaternion::from_axis_angle(&Vector3::z_axis(), q[0]),
    );
    let two = one * raise(q[1]);
    let three = two * along(UPPER_ARM) * raise(q[2]);
    let four = three * along(FOREARM) * raise(q[3]);
    let roll = UnitQuaternion::from_axis_angle(&Vector3::x_axis(), q[4]);
    let five = four * Isometry3::from_parts(Translation3::identity(), roll);
    ArmFrames {
        links: [one, two, three, four, five],
        tcp: five * along(TOOL),
    }
}

/// Whether every joint is within its limits.
#[must_use]
pub fn within_limits(q: &Joints) -> bool {
    q.iter()
        .zip(&LIMITS)
        .all(|(v, [low, high])| (low - 1e-9..=high + 1e-9).contains(v))
}

/// Which way the elbow bends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Elbow {
    /// Above the line from shoulder to wrist.
    Up,
    /// Below it.
    Down,
}

/// The joints that bring the tool centre point to a place (base_link, metres), the tool at the given
/// elevation and roll (radians); none when it is out of reach or against a limit.
///
/// Two-link arm by the law of cosines:
/// <https://en.wikipedia.org/wiki/Inverse_kinematics#Analytic_Inverse_Kinematics>.
#[must_use]
pub fn solve(point: &Point3<f64>, elevation: f64, roll: f64, elbow: Elbow) -> Option<Joints> {
    let (x, y, z) = (
        point.x - SHOULDER[0],
        point.y - SHOULDER[1],
        point.z - SHOULDER[2],
    );
    let yaw = y.atan2(x);
    let (sin, cos) = elevation.sin_cos();
    let (r, h) = (x.hypot(y) - TOOL * cos, z - TOOL * sin);
    let reach_squared = r * r + h * h;
    let bend =
        (reach_squared - UPPER_ARM * UPPER_ARM - FOREARM * FOREARM) / (2.0 * UPPER_ARM * FOREARM);
    if !(-1.0..=1.0).contains(&bend) {
        return None;
    }
    let elbow_angle = match elbow {
        Elbow::Up => -bend.acos(),
        Elbow::Down => bend.acos(),
    };
    let shoulder =
        h.atan2(r) - (FOREARM * elbow_angle.sin()).atan2(UPPER_ARM + FOREARM * elbow_angle.cos());
    let shoulder = wrap_angle(shoulder);
    let wrist = wrap_angle(elevation - shoulder - elbow_angle);
    let q = [yaw, shoulder, elbow_angle, wrist, wrap_angle(roll)];
    (q.iter().all(|v| v.is_finite()) && within_limits(&q)).then_some(q)
}

/// All joints that bring `gripper_tcp` to the pose (base_link), elbow up first.
///
/// With five joints the tool's heading follows from the place; a solution counts when its orientation
/// differs from the one asked for by at most `tolerance` (radians about the tool's x, y and z).
#[must_use]
pub fn inverse(target: &Isometry3<f64>, tolerance: [f64; 3]) -> Vec<Joints> {
    let point = Point3::from(target.translation.vector);
    let yaw = (point.y - SHOULDER[1]).atan2(point.x - SHOULDER[0]);
    let unyawed = UnitQuaternion::from_axis_angle(&Vector3::z_axis(), -yaw) * target.rotation;
    let approach = unyawed * Vector3::x();
    let wanted = approach.z.atan2(approach.x.hypot(approach.y));
    // A tool that points backwards has its elevation beyond the vertical.
    let wanted = if approach.x < -1e-9 {
        PI - wanted
    } else {
        wanted
    };
    // When the elevation may deviate, other elevations are tried after the wanted one.
    let mut elevations = vec![wanted];
    let step = 0.1;
    let spread = (tolerance[1].min(PI) / step).floor() as i32;
    for k in 1..=spread {
        elevations.push(wanted - f64::from(k) * step);
        elevations.push(wanted + f64::from(k) * step);
    }
    let mut solutions = Vec::new();
    for elevation in elevations {
        let level = UnitQuaternion::from_axis_angle(&Vector3::y_axis(), elevation) * unyawed;
        let m = level.to_rotation_matrix();
        let roll = m.matrix()[(2, 1)].atan2(m.matrix()[(1, 1)]);
        for elbow in [Elbow::Up, Elbow::Down] {
            if let Some(q) = solve(&point, elevation, roll, elbow) {
                let off = (forward(&q).tcp.rotation.inverse() * target.rotation).scaled_axis();
                let fits = off
                    .iter()
                    .zip(tolerance)
                    .all(|(error, allowed)| error.abs() <= allowed + 1e-6);
                if fits {
                    solutions.push(q);
                }
            }
        }
        if !solutions.is_empty() {
            break;
        }
    }
    solutions
}

/// All joints that bring `gripper_tcp` to a place (base_link) at whatever orientation, level tools
/// first, then downward ones.
#[must_use]
pub fn inverse_position(point: &Point3<f64>) -> Vec<Joints> {
    let mut solutions = Vec::new();
    for elevation in [0.0, -0.4, -0.8, -1.2, -FRAC_PI_2, 0.4, 0.8] {
        for elbow in [Elbow::Up, Elbow::Down] {
            solutions.extend(solve(point, elevation, 0.0, elbow));
        }
    }
    solutions
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_stretched_arm_reaches_its_length() {
        let tcp = forward(&[0.0; 5]).tcp.translation.vector;
        // 0.08 + 0.38 + 0.34 + 0.16 = 0.96 from the base's centre, at shoulder height.
        assert!((tcp.x - 0.96).abs() < 1e-12 && tcp.y == 0.0 && (tcp.z - 0.75).abs() < 1e-12);
        assert!(solve(&Point3::new(0.97, 0.0, 0.75), 0.0, 0.0, Elbow::Up).is_none());
    }

    #[test]
    fn named_poses_are_within_limits_and_stow_is_within_the_footprint() {
        for name in NAMED_POSES {
            assert!(within_limits(&named_pose(name).unwrap()), "{name}");
        }
        assert!(named_pose("dance").is_none());
        let tcp = forward(&STOW).tcp;
        assert!(tcp.translation.vector.xy().norm() < 0.27);
        // Its tool points straight down: elevation 2.0 − 2.65 − π/2 + 0.65 = −π/2.
        assert!((tcp * Vector3::x() + Vector3::z()).norm() < 1e-9);
    }

    #[test]
    fn straight_down_over_a_counter_any_heading_is_reachable() {
        for k in 0..8 {
            let heading = f64::from(k) * PI / 4.0 - 3.0;
            let down = UnitQuaternion::from_axis_angle(&Vector3::z_axis(), heading)
                * UnitQuaternion::from_axis_angle(&Vector3::y_axis(), FRAC_PI_2);
            let target = Isometry3::from_parts(Translation3::new(0.5, 0.1, 0.95), down);
            let found = inverse(&target, [0.01; 3]);
            assert!(!found.is_empty(), "{heading}");
            let reached = forward(&found[0]).tcp;
            assert!((reached.translation.vector - target.translation.vector).norm() < 1e-9);
            assert!(reached.rotation.angle_to(&target.rotation) < 1e-6);
        }
    }

    #[test]
    fn a_sideways_tool_is_refused_unless_tolerated() {
        // Ahead of the robot, the tool can't point left …
        let left = UnitQuaternion::from_axis_angle(&Vector3::z_axis(), FRAC_PI_2);
        let target = Isometry3::from_parts(Translation3::new(0.6, 0.0, 0.8), left);
        assert!(inverse(&target, [0.1; 3]).is_empty());
        // … unless any heading will do.
        assert!(!inverse(&target, [0.1, 0.1, PI]).is_empty());
    }

    proptest! {
        #[test]
        fn inverse_undoes_forward(
            q1 in -2.8..2.8, q2 in -1.2..1.9, q3 in -2.6..2.6, q4 in -2.5..2.5, q5 in -3.0..3.0,
        ) {
            let q = [q1, q2, q3, q4, q5];
            let tcp = forward(&q).tcp;
            // The closed form takes the yaw from the place: arms bent over their own back have another
            // solution, and near the vertical axis the yaw is undefined.
            let v = tcp.translation.vector;
            let along = (v.x - SHOULDER[0]) * q[0].cos() + (v.y - SHOULDER[1]) * q[0].sin();
            prop_assume!(along > 0.02);
            let solutions = inverse(&tcp, [1e-4; 3]);
            prop_assert!(!solutions.is_empty());
            let same = |s: &Joints| s.iter().zip(&q).all(|(a, b)| wrap_angle(a - b).abs() < 1e-6);
            // A stretched elbow (q3 ≈ 0) loses digits in acos: compare poses as well.
            let exact = solutions.iter().any(same);
            let reached = solutions.iter().map(|s| forward(s).tcp).any(|t| {
                (t.translation.vector - v).norm() < 1e-6 && t.rotation.angle_to(&tcp.rotation) < 1e-5
            });
            prop_assert!(reached);
            prop_assert!(exact || q3.abs() < 1e-3);
        }
    }
}

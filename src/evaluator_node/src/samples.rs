//! Sensor messages as samples of evidence.

use std::collections::BTreeMap;

use eh_contract::Stamp;
use eh_evaluator::evidence::{ClearanceSample, GripperSample, JointSample, TwistSample};
use eh_ros_edge::convert::time_ns;
use nalgebra::{Isometry3, Point3};
use ros_env::builtin_interfaces::msg::Time;
use ros_env::nav_msgs::msg::Odometry;
use ros_env::sensor_msgs::msg::{JointState, LaserScan};

/// Most joints of one message that are kept.
const MAX_JOINTS: usize = 128;

/// The sensor's stamp, or the arrival where it has none.
pub(crate) fn stamp_or(message: &Time, arrival: Stamp) -> Stamp {
    match time_ns(message) {
        0 => arrival,
        ns => Stamp(ns),
    }
}

/// The velocity of the base.
pub(crate) fn twist(message: &Odometry, arrival: Stamp) -> TwistSample {
    let t = &message.twist.twist;
    TwistSample {
        stamp: stamp_or(&message.header.stamp, arrival),
        linear: t.linear.x.hypot(t.linear.y),
        angular: t.angular.z,
    }
}

/// All joints, and the fingers when they are among them.
pub(crate) fn joints(
    message: &JointState,
    gripper_joint: &str,
    arrival: Stamp,
) -> (JointSample, Option<GripperSample>) {
    let stamp = stamp_or(&message.header.stamp, arrival);
    let by_name = |values: &[f64]| -> BTreeMap<String, f64> {
        message
            .name
            .iter()
            .cloned()
            .zip(values.iter().copied())
            .take(MAX_JOINTS)
            .collect()
    };
    let gripper = message
        .name
        .iter()
        .position(|name| name == gripper_joint)
        .and_then(|i| {
            Some(GripperSample {
                stamp,
                width: *message.position.get(i)?,
                // Drivers that do not measure it send nothing or NaN.
                effort: message.effort.get(i).copied().filter(|e| !e.is_nan()),
            })
        });
    let mut positions = by_name(&message.position);
    let mut velocities = by_name(&message.velocity);
    // The fingers are no joint of the arm: what they do is judged by themselves.
    positions.remove(gripper_joint);
    velocities.remove(gripper_joint);
    velocities.retain(|_, v| !v.is_nan());
    (
        JointSample {
            stamp,
            positions,
            velocities,
        },
        gripper,
    )
}

/// The return of a scan that is nearest to the base's centre; `laser`: the laser in the base frame.
pub(crate) fn clearance(
    message: &LaserScan,
    laser: &Isometry3<f64>,
    self_radius: f64,
    arrival: Stamp,
) -> Option<ClearanceSample> {
    let (low, high) = (f64::from(message.range_min), f64::from(message.range_max));
    let (start, step) = (
        f64::from(message.angle_min),
        f64::from(message.angle_increment),
    );
    let mut usable = 0_usize;
    let mut nearest = f64::INFINITY;
    let mut angle = start;
    for range in &message.ranges {
        let range = f64::from(*range);
        let direction = angle;
        angle += step;
        // Infinity: nothing in range (REP-117). NaN and values out of range say nothing.
        if range == f64::INFINITY {
            usable += 1;
            continue;
        }
        if !(range.is_finite() && range >= low && range <= high) {
            continue;
        }
        usable += 1;
        let p = laser * Point3::new(range * direction.cos(), range * direction.sin(), 0.0);
        let distance = p.x.hypot(p.y);
        // The robot's own parts.
        if distance > self_radius {
            nearest = nearest.min(distance);
        }
    }
    (usable > 0).then(|| ClearanceSample {
        stamp: stamp_or(&message.header.stamp, arrival),
        distance: nearest,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ros_env::std_msgs::msg::Header;

    // Literals, since Default calls the C library of the package.
    fn header(sec: i32) -> Header {
        Header {
            stamp: Time { sec, nanosec: 0 },
            frame_id: "f".into(),
        }
    }

    #[test]
    fn the_fingers_are_taken_out_of_the_joint_states() {
        let message = JointState {
            header: header(5),
            name: vec!["arm_1".into(), "gripper_joint".into()],
            position: vec![1.0, 0.05],
            velocity: vec![0.1],
            effort: vec![f64::NAN, f64::NAN],
        };
        let (sample, gripper) = joints(&message, "gripper_joint", Stamp(1));
        assert_eq!(sample.positions.len(), 1);
        assert_eq!(sample.velocities["arm_1"], 0.1);
        let gripper = gripper.unwrap();
        assert_eq!((gripper.width, gripper.effort), (0.05, None));
        assert_eq!(gripper.stamp, Stamp(5_000_000_000));
        // Fewer positions than names: no gripper, no panic.
        let short = JointState {
            position: vec![1.0],
            ..message
        };
        assert!(joints(&short, "gripper_joint", Stamp(1)).1.is_none());
    }

    #[test]
    fn the_nearest_return_counts_from_the_base() {
        let message = LaserScan {
            header: header(0),
            angle_min: 0.0,
            angle_max: 3.2,
            angle_increment: std::f32::consts::FRAC_PI_2,
            time_increment: 0.0,
            scan_time: 0.1,
            range_min: 0.1,
            range_max: 10.0,
            // Ahead 1.0, left NaN, behind 0.5.
            ranges: vec![1.0, f32::NAN, 0.5],
            intensities: vec![],
        };
        // The laser is 0.2 m ahead of the base's centre: 1.2 m ahead, 0.3 m behind.
        let laser = Isometry3::translation(0.2, 0.0, 0.1);
        let sample = clearance(&message, &laser, 0.27, Stamp(7)).unwrap();
        assert!((sample.distance - 0.3).abs() < 1e-6);
        assert_eq!(sample.stamp, Stamp(7), "without a stamp the arrival counts");
        let blind = LaserScan {
            ranges: vec![f32::NAN; 3],
            ..message
        };
        assert!(clearance(&blind, &laser, 0.27, Stamp(7)).is_none());
    }
}

//! The robot's frames (REP-105) and how they hang together.

use nalgebra::{Isometry3, Quaternion, Translation3, UnitQuaternion};

use crate::error::{finite, SimError};

/// One link of the tree: the pose of `child` in `parent`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Transform {
    /// The parent frame.
    pub parent: &'static str,
    /// The child frame.
    pub child: &'static str,
    /// The child's pose in the parent, metres.
    pub pose: Isometry3<f64>,
}

impl Transform {
    /// The link from its parts.
    #[must_use]
    pub const fn new(parent: &'static str, child: &'static str, pose: Isometry3<f64>) -> Self {
        Self {
            parent,
            child,
            pose,
        }
    }
}

/// Every frame of the robot.
pub const FRAMES: [&str; 13] = [
    "map",
    "odom",
    "base_link",
    "laser",
    "arm_1_link",
    "arm_2_link",
    "arm_3_link",
    "arm_4_link",
    "arm_5_link",
    "gripper_tcp",
    "head_pan_link",
    "head_tilt_link",
    "camera_optical_frame",
];

/// The error of a frame that is not one of them.
#[must_use]
pub fn unknown_frame(frame: &str) -> SimError {
    SimError::UnknownFrame {
        frame: frame.chars().take(64).collect(),
        known: FRAMES.join(", "),
    }
}

/// A pose from a message's numbers: metres, and a quaternion x, y, z, w.
///
/// # Errors
/// [`SimError`] when a number is not finite, a coordinate is beyond ±1000 m, or the quaternion's length
/// is not 1 within 0.05.
pub fn pose_from_parts(
    position: [f64; 3],
    quaternion: [f64; 4],
) -> Result<Isometry3<f64>, SimError> {
    for v in position {
        crate::error::within("a coordinate of the position in m", v, -1000.0, 1000.0)?;
    }
    for v in quaternion {
        finite("a part of the orientation", v)?;
    }
    let [x, y, z, w] = quaternion;
    let quaternion = Quaternion::new(w, x, y, z);
    crate::error::within(
        "the length of the orientation's quaternion",
        quaternion.norm(),
        0.95,
        1.05,
    )?;
    Ok(Isometry3::from_parts(
        Translation3::new(position[0], position[1], position[2]),
        UnitQuaternion::from_quaternion(quaternion),
    ))
}

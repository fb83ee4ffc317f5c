//! What an arm goal says, before it is planned.

use std::collections::BTreeMap;

use nalgebra::Isometry3;

use crate::arm_planner::ArmPathKind;
use crate::error::{finite, SimError};

/// The arm's group of joints.
pub const GROUP: &str = "arm";
/// The link that pose goals are for.
pub const TOOL_LINK: &str = "gripper_tcp";

/// Where the arm is to go.
#[derive(Debug, Clone, PartialEq)]
pub enum ArmGoalTarget {
    /// The tool at a pose.
    Pose {
        /// The frame of the pose: any of the robot's frames.
        frame: String,
        /// The pose; see `pose_from_parts`.
        pose: Isometry3<f64>,
        /// How far the orientation may differ about the tool's x, y and z, radians; none: any will do.
        orientation_tolerance: Option<[f64; 3]>,
    },
    /// Joints at positions in radians; joints that are not named stay.
    Joints(BTreeMap<String, f64>),
    /// A named pose: stow, ready or carry.
    Named(String),
}

/// A goal for the arm.
#[derive(Debug, Clone, PartialEq)]
pub struct ArmGoal {
    /// The group of joints; must be `arm`.
    pub group: String,
    /// The link of a pose goal; must be `gripper_tcp`.
    pub link: String,
    /// Where to go.
    pub target: ArmGoalTarget,
    /// Which way to go.
    pub path: ArmPathKind,
    /// The share of full speed to use, 0 … 1; 0 means full.
    pub velocity_scale: f64,
}

impl ArmGoal {
    /// A goal at full speed, the way free.
    #[must_use]
    pub fn new(target: ArmGoalTarget) -> Self {
        Self {
            group: GROUP.to_owned(),
            link: TOOL_LINK.to_owned(),
            target,
            path: ArmPathKind::Free,
            velocity_scale: 1.0,
        }
    }

    /// The same goal on a straight line.
    #[must_use]
    pub fn on_a_line(mut self) -> Self {
        self.path = ArmPathKind::Line;
        self
    }

    /// Refuses numbers that are not finite or out of range.
    ///
    /// # Errors
    /// [`SimError`].
    pub fn validate(&self) -> Result<(), SimError> {
        crate::error::within("the velocity scale", self.velocity_scale, 0.0, 1.0)?;
        match &self.target {
            ArmGoalTarget::Pose {
                pose,
                orientation_tolerance,
                ..
            } => {
                for v in pose.translation.vector.iter() {
                    finite("a coordinate of the position", *v)?;
                }
                for v in pose.rotation.coords.iter() {
                    finite("a part of the orientation", *v)?;
                }
                for v in orientation_tolerance.iter().flatten() {
                    crate::error::within("an orientation tolerance in rad", *v, 0.0, 100.0)?;
                }
            }
            ArmGoalTarget::Joints(joints) => {
                for v in joints.values() {
                    finite("a joint position", *v)?;
                }
            }
            ArmGoalTarget::Named(_) => {}
        }
        Ok(())
    }
}

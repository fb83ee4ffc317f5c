//! Where the parts of the robot are.

use nalgebra::Isometry3;

use super::Robot;
use crate::arm_kinematics::forward;
use crate::error::SimError;
use crate::head::optical_in_tilt;
use crate::lidar::MOUNT;
use crate::robot_frames::{unknown_frame, Transform};

impl Robot {
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

    pub(super) fn tcp_in_map(&self) -> Isometry3<f64> {
        self.base.pose().to_isometry() * forward(&self.arm.positions()).tcp
    }
}

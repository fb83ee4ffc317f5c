//! What the sensors say.

use super::Robot;
use crate::arm_kinematics::JOINT_NAMES;
use crate::camera::{DetectionFrame, Frustum};
use crate::fault::FaultKind;
use crate::joint_state::JointState;
use crate::lidar::Scan;

impl Robot {
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
}

//! The planning scene of the arm.

use nalgebra::{Isometry3, Point3};

use super::Robot;
use crate::arm_kinematics::forward;
use crate::planning_scene::{PlanningScene, SceneChange, PLANNING_FRAME};

/// An object of the world whose middle is this near to one of the planning scene is taken for it, metres.
const SAME: f64 = 0.03;

impl Robot {
    /// What the arm's planner was told about the world.
    #[must_use]
    pub fn planning_scene(&self) -> &PlanningScene {
        &self.scene
    }

    /// Changes it. Motions that run are not looked at again.
    ///
    /// # Errors
    /// What could not be done, each with what to do instead; the rest is done.
    pub fn apply_scene(&mut self, change: &SceneChange) -> Result<(), Vec<String>> {
        let mut scene = std::mem::take(&mut self.scene);
        let done = scene.apply(change, |link| self.in_planning_frame(link));
        self.scene = scene;
        done
    }

    /// A frame's pose in the frame of the planning scene, as the robot believes.
    #[must_use]
    pub fn in_planning_frame(&self, frame: &str) -> Option<Isometry3<f64>> {
        let frame = self.frame_in_base(frame).ok()?;
        Some(self.planning_in_base().inverse() * frame)
    }

    pub(super) fn planning_in_base(&self) -> Isometry3<f64> {
        // Cannot fail: it is one of the robot's frames.
        self.frame_in_base(PLANNING_FRAME)
            .unwrap_or_else(|_| Isometry3::identity())
    }

    /// Objects of the world, by their places in its list, that the planning scene knows as its own.
    pub(super) fn known_to_the_scene(&self) -> Vec<usize> {
        let base = self.base.pose().to_isometry();
        let from_planning = self.planning_in_base();
        let frames = forward(&self.arm.positions());
        let near = |p: &Point3<f64>| {
            let in_base = base.inverse_transform_point(p);
            let in_planning = from_planning.inverse_transform_point(&in_base);
            self.scene.world().any(|o| o.distance(&in_planning) <= SAME)
                || self.scene.attached().any(|a| {
                    crate::arm_surroundings::link_pose(&frames, &a.link).is_some_and(|link| {
                        a.object.distance(&link.inverse_transform_point(&in_base)) <= SAME
                    })
                })
        };
        self.world
            .objects()
            .iter()
            .enumerate()
            .filter(|(_, o)| near(&Point3::from(o.pose.translation.vector)))
            .map(|(i, _)| i)
            .collect()
    }
}

//! What cameras see.

use nalgebra::{Isometry3, Matrix3, Rotation3, Translation3, UnitQuaternion};

use super::Robot;
use crate::arm_kinematics::forward;
use crate::picture::Lens;
use crate::scenery::Scenery;
use crate::world::WALL_HEIGHT;

/// The overhead camera's horizontal field of view, radians: that of an ordinary camera.
const OVERHEAD_FOV: f64 = 1.2;

impl Robot {
    /// The world as it is now, with this robot in it. `head`: whether the head is drawn, in which the
    /// camera of the robot sits.
    #[must_use]
    pub fn scenery(&self, head: bool) -> Scenery {
        let mut scenery = Scenery::of(&self.world);
        let arm = forward(&self.arm.positions());
        scenery.add_robot(&self.base.pose().to_isometry(), &arm, head);
        scenery
    }

    /// The robot's own camera for images of this size, and `camera_optical_frame` truly in the map.
    #[must_use]
    pub fn camera_view(&self, width: u32, height: u32) -> (Lens, Isometry3<f64>) {
        let frustum = self.camera.frustum();
        let lens = Lens::new(
            width,
            height,
            [frustum.horizontal_fov, frustum.vertical_fov],
        );
        let pose = self.base.pose().to_isometry() * self.head.camera();
        (lens, pose)
    }

    /// A camera under an imagined ceiling for images of this size, high enough to see the whole world, and
    /// its optical frame in the map: x east, y south.
    #[must_use]
    pub fn overhead_view(&self, width: u32, height: u32) -> (Lens, Isometry3<f64>) {
        let focal = f64::from(width) / 2.0 / (OVERHEAD_FOV / 2.0).tan();
        let vertical = 2.0 * (f64::from(height) / 2.0 / focal).atan();
        let lens = Lens::new(width, height, [OVERHEAD_FOV, vertical]);
        let [x0, y0, x1, y1] = self.world.bounds();
        let above = ((x1 - x0) / 2.0 / (OVERHEAD_FOV / 2.0).tan())
            .max((y1 - y0) / 2.0 / (vertical / 2.0).tan());
        let down = Rotation3::from_matrix_unchecked(Matrix3::new(
            1.0, 0.0, 0.0, 0.0, -1.0, 0.0, 0.0, 0.0, -1.0,
        ));
        let pose = Isometry3::from_parts(
            Translation3::new(
                (x0 + x1) / 2.0,
                (y0 + y1) / 2.0,
                WALL_HEIGHT + above.max(1.0) * 1.03,
            ),
            UnitQuaternion::from_rotation_matrix(&down),
        );
        (lens, pose)
    }
}

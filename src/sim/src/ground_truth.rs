//! The world as it truly is: for tests and recordings, never for the robot.

use nalgebra::Isometry3;

use crate::base::Velocity;
use crate::geometry::Pose2;
use crate::world::Support;

/// The truth about one object.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectTruth {
    /// Its id.
    pub id: String,
    /// Its class.
    pub class: String,
    /// Its centre's pose in the map frame.
    pub pose: Isometry3<f64>,
    /// What it rests on.
    pub support: Support,
}

/// The truth at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct GroundTruth {
    /// base_link in the map frame.
    pub robot: Pose2,
    /// How the base moves.
    pub velocity: Velocity,
    /// gripper_tcp in the map frame.
    pub tcp: Isometry3<f64>,
    /// The object in the gripper.
    pub held: Option<String>,
    /// Every object, in the world file's order.
    pub objects: Vec<ObjectTruth>,
    /// Each door and whether it is open.
    pub doors: Vec<(String, bool)>,
    /// Contacts of the base that began so far.
    pub collisions: u64,
}

impl GroundTruth {
    /// The truth about the object with that id.
    #[must_use]
    pub fn object(&self, id: &str) -> Option<&ObjectTruth> {
        self.objects.iter().find(|o| o.id == id)
    }
}

//! One joint's state, as in sensor_msgs/JointState.

/// The gripper's joint: its position is the distance between the fingers.
pub const GRIPPER_JOINT: &str = "gripper_joint";

/// One joint's state.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JointState {
    /// Its name.
    pub name: &'static str,
    /// Radians; metres for the gripper.
    pub position: f64,
    /// Radians or metres per second.
    pub velocity: f64,
    /// Newtons for the gripper; 0 for the others, which do not measure it.
    pub effort: f64,
}

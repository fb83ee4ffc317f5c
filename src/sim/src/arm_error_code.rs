//! The error codes that a MoveIt 2 move group ends a goal with.

/// Values of moveit_msgs/MoveItErrorCodes that this arm answers with.
///
/// Source: <https://github.com/moveit/moveit_msgs/blob/ros2/msg/MoveItErrorCodes.msg>.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum ArmErrorCode {
    /// Done.
    Success = 1,
    /// A failure of no other kind.
    Failure = 99999,
    /// No motion was found.
    PlanningFailed = -1,
    /// The motion that was found is not valid.
    InvalidMotionPlan = -2,
    /// The motion stopped while it was carried out.
    ControlFailed = -4,
    /// It took too long.
    TimedOut = -6,
    /// It was called off, or a newer goal took its place.
    Preempted = -7,
    /// The arm touches something where it is.
    StartStateInCollision = -10,
    /// The arm would touch something where it is to go.
    GoalInCollision = -12,
    /// There is no such group of joints.
    InvalidGroupName = -15,
    /// The goal is incomplete or out of the joints' limits.
    InvalidGoalConstraints = -16,
    /// There is no such link.
    InvalidLinkName = -18,
    /// The frame of the goal is unknown.
    FrameTransformFailure = -21,
    /// The pose is out of reach.
    NoIkSolution = -31,
}

impl ArmErrorCode {
    /// The number in the message.
    #[must_use]
    pub const fn code(self) -> i32 {
        self as i32
    }
}

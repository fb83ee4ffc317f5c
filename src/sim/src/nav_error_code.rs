//! The error codes that a Nav2 navigator ends a goal with.

/// Error codes of NavigateToPose and of the planner and controller servers below it.
///
/// Values: nav2_msgs of ROS 2 Jazzy, actions NavigateToPose, ComputePathToPose and FollowPath
/// (<https://docs.ros.org/en/jazzy/p/nav2_msgs/>).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum NavErrorCode {
    /// No error.
    None = 0,
    /// The controller failed for a reason of its own.
    ControllerUnknown = 100,
    /// The robot moved too little for too long.
    FailedToMakeProgress = 105,
    /// The planner failed for a reason of its own.
    PlannerUnknown = 200,
    /// The robot stands outside the map.
    StartOutsideMap = 203,
    /// The goal lies outside the map.
    GoalOutsideMap = 204,
    /// The robot stands in an obstacle.
    StartOccupied = 205,
    /// The goal lies in an obstacle.
    GoalOccupied = 206,
    /// No way leads from the robot to the goal.
    NoValidPath = 208,
    /// The navigator failed for a reason of its own.
    Unknown = 9000,
    /// A frame can't be transformed.
    TfError = 9002,
}

impl NavErrorCode {
    /// The number in the action's result.
    #[must_use]
    pub const fn code(self) -> u16 {
        self as u16
    }
}

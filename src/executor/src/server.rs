//! The foreign actions that a sub-goal may go to.

use eh_skills::Goal;

/// Which server a sub-goal goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Server {
    /// Nav2's NavigateToPose.
    Navigation,
    /// MoveIt's MoveGroup.
    Arm,
    /// GripperCommand.
    Gripper,
    /// FollowJointTrajectory of the head.
    Head,
}

impl Server {
    /// Every server.
    pub const ALL: &'static [Server] = &[
        Server::Navigation,
        Server::Arm,
        Server::Gripper,
        Server::Head,
    ];

    /// The server of a goal; `None` for one that needs none.
    pub const fn of(goal: &Goal) -> Option<Self> {
        match goal {
            Goal::Navigate { .. } => Some(Server::Navigation),
            Goal::MoveArm { .. } => Some(Server::Arm),
            Goal::Gripper { .. } => Some(Server::Gripper),
            Goal::Head { .. } => Some(Server::Head),
            Goal::Scene(_) | Goal::Wait(_) | Goal::Observe { .. } => None,
        }
    }

    /// The servers that a skill can't do without.
    pub fn needed_by(skill: &str) -> &'static [Server] {
        match skill {
            "navigate_to" | "navigate_to_pose" => &[Server::Navigation],
            "look_at" => &[Server::Head],
            "pick" => &[Server::Head, Server::Arm, Server::Gripper],
            "place" => &[Server::Arm, Server::Gripper],
            "open_gripper" | "close_gripper" => &[Server::Gripper],
            "stow" => &[Server::Arm],
            _ => &[],
        }
    }

    /// The resource that it moves.
    pub const fn resource(self) -> &'static str {
        match self {
            Server::Navigation => "base",
            Server::Arm => "arm",
            Server::Gripper => "gripper",
            Server::Head => "head",
        }
    }

    /// What it is and where it is set, for people.
    pub const fn hint(self) -> &'static str {
        match self {
            Server::Navigation => "start Nav2 or set the parameter navigate_to_pose_action",
            Server::Arm => "start MoveIt 2's move_group or set the parameter move_group_action",
            Server::Gripper => "start the gripper's controller or set the parameter gripper_action",
            Server::Head => "start the head's controller or set the parameter head_action",
        }
    }
}

//! The action servers of the robot by their names.

use eh_executor::Server;

/// The action's name.
pub const fn action(server: Server) -> &'static str {
    match server {
        Server::Navigation => "/navigate_to_pose",
        Server::Arm => "/move_action",
        Server::Gripper => "/gripper_controller/gripper_cmd",
        Server::Head => "/head_controller/follow_joint_trajectory",
    }
}

/// The server of an action's name.
pub fn of_action(name: &str) -> Option<Server> {
    Server::ALL.iter().copied().find(|s| action(*s) == name)
}

/// The name by which faults of the simulated robot know it.
pub const fn fault_name(server: Server) -> &'static str {
    match server {
        Server::Navigation => "navigate_to_pose",
        Server::Arm => "move_action",
        Server::Gripper => "gripper_controller/gripper_cmd",
        Server::Head => "head_controller/follow_joint_trajectory",
    }
}

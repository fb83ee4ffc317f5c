//! Runs look_at, pick, place, open_gripper, close_gripper and stow through MoveIt 2, a gripper action and a
//! head controller.

use std::process::ExitCode;

use eh_skills::catalog::Adapter;

fn main() -> ExitCode {
    eh_skill_nodes::main(Adapter::Manipulation)
}

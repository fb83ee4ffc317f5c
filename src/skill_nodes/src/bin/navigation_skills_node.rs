//! Runs navigate_to, navigate_to_pose and wait through Nav2's NavigateToPose.

use std::process::ExitCode;

use eh_skills::catalog::Adapter;

fn main() -> ExitCode {
    eh_skill_nodes::main(Adapter::Navigation)
}

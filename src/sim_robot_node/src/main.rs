//! The program `sim_robot_node`.

use std::process::ExitCode;

use eh_ros_edge::{context, Shutdown};
use eh_sim_robot_node::{run, Error, Options};

fn main() -> ExitCode {
    match start() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sim_robot_node: {error}");
            ExitCode::FAILURE
        }
    }
}

fn start() -> Result<(), Error> {
    let options = Options::default();
    let context = context::from_env(&options.node_name)?;
    run(&context, &options, &Shutdown::on_signals()?)
}

//! The program `harness_node`.

use std::process::ExitCode;

use eh_harness_node::{run, Error, Options};
use eh_ros_edge::{context, Shutdown};

fn main() -> ExitCode {
    match start() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("harness_node: {error}");
            ExitCode::FAILURE
        }
    }
}

fn start() -> Result<(), Error> {
    let options = Options::default();
    let context = context::from_env(&options.node_name)?;
    run(&context, &options, &Shutdown::on_signals()?)
}

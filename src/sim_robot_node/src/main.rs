//! The program `sim_robot_node`.

use std::process::ExitCode;

use eh_ros_edge::{context, Shutdown};
use eh_sim_robot_node::{run, Error, Options};

/// Writes the world of a seed to the standard output: for a node that takes its map from a file.
const PRINT_WORLD: &str = "--print-world";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, option, seed] = arguments.as_slice() {
        if option == PRINT_WORLD {
            return match seed.parse() {
                Ok(seed) => {
                    print!("{}", eh_sim::generated_world(seed));
                    ExitCode::SUCCESS
                }
                Err(_) => {
                    eprintln!("sim_robot_node: {PRINT_WORLD} needs a seed from 0 to 2^64 - 1, not '{seed}'");
                    ExitCode::FAILURE
                }
            };
        }
    }
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

//! The program `scene_graph_node`.

use std::process::ExitCode;

use eh_ros_edge::{context, Shutdown};
use eh_scene_graph_node::{run, Error, Options};

fn main() -> ExitCode {
    match start() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("scene_graph_node: {error}");
            ExitCode::FAILURE
        }
    }
}

fn start() -> Result<(), Error> {
    let options = Options::default();
    let context = context::from_env(&options.node_name)?;
    run(&context, &options, &Shutdown::on_signals()?)
}

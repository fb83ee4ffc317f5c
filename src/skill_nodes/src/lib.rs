//! The executors next to the robot: `navigation_skills_node` and `manipulation_skills_node`.
//!
//! One runtime for both. It serves `~/execute_skill`, `~/query` and `~/settle`, and publishes
//! `skill_catalog`, `executor_beacon`, `skill_status`, `run_events` and, for the base, `declared_runs`.
//! It holds no rules of its own: `eh_executor` decides, this converts and performs.
//!
//! | thread | what it does |
//! |---|---|
//! | spin | callbacks and calls of ROS; never waits for anything |
//! | streams | sensors and transforms |
//! | loop | owns the decisions and the journal: takes events in order, commits, gives out what follows |
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod adapter;
mod calls;
mod error;
mod execute_skill;
mod foreign;
mod goals;
mod journal;
mod loop_thread;
mod outlet;
mod parameters;
mod planning_scene;
mod scene_check;
mod senses;
mod services;
mod surroundings;

use std::process::ExitCode;

use eh_ros_edge::{context, spin_until, Shutdown};
use eh_skills::catalog::Adapter;
use rclrs::{Context, CreateBasicExecutor};

pub use error::Error;
pub use parameters::Parameters;

/// ROS handles: what they do ends when they are dropped.
pub(crate) type Handles = Vec<Box<dyn std::any::Any>>;

/// How an adapter is made; everything else is a ROS parameter.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its name, unless it is remapped.
    pub node_name: String,
    /// Which skills it runs.
    pub adapter: Adapter,
}

impl Options {
    /// The usual options of an adapter.
    pub fn new(adapter: Adapter) -> Self {
        Options {
            node_name: adapter.node_name().into(),
            adapter,
        }
    }
}

/// Runs an adapter until the shutdown is asked for. Then what moves is stopped and its standstill
/// measured, within the commands' own limits, before it returns.
///
/// # Errors
/// [`enum@Error`] when it can't start or the ROS executor fails.
pub fn run(context: &Context, options: &Options, shutdown: &Shutdown) -> Result<(), Error> {
    let mut spinner = context.create_basic_executor();
    let node = spinner.create_node(options.node_name.as_str())?;
    // Spinning goes on while what moves is being stopped.
    let halt = Shutdown::new();
    let running = adapter::Running::start(&node, options.adapter, shutdown, &halt)?;
    let end = spin_until(&mut spinner, &halt);
    running.end();
    Ok(end?)
}

/// The programs' main function.
pub fn main(adapter: Adapter) -> ExitCode {
    let options = Options::new(adapter);
    let run_it = || {
        let context = context::from_env(&options.node_name)?;
        run(&context, &options, &Shutdown::on_signals()?)
    };
    match run_it() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", options.node_name);
            ExitCode::FAILURE
        }
    }
}

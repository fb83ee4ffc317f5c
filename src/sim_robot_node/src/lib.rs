//! The simulated robot behind the ROS interfaces of a real one: Nav2's `navigate_to_pose`, MoveIt's
//! `move_action`, a gripper, a head, and the topics of a base, a laser and a camera.
//!
//! `eh_sim` is the robot; this converts. The simulation has a thread of its own, which owns the robot and
//! publishes; the spin thread only hands requests over and waits for the answers without blocking.
//!
//! The actions are served by hand, by their three services and two topics, since the faults of servers
//! (an acknowledgement or a result that is lost, a restart) need answers that are never given, which no
//! action server of a client library allows.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod action_server;
mod arm_request;
mod camera_topics;
#[cfg(test)]
mod empty_hall;
mod fault_request;
mod frame_names;
mod goal_book;
mod gripper_server;
mod head_server;
mod move_group;
mod navigation_server;
mod node;
mod pacer;
mod parameters;
mod participants;
mod planning_scene_messages;
mod planning_scene_server;
mod robots_parameter;
mod sensor_topics;
mod simulation;
mod simulation_thread;
mod truth;

use std::path::PathBuf;

use eh_ros_edge::context::ContextError;
use eh_ros_edge::params::ParameterError;
use eh_ros_edge::{spin_until, Shutdown, SpinError};
use eh_sim::SimError;
use rclrs::{Context, CreateBasicExecutor, RclrsError};

pub use parameters::Parameters;

/// How the node is made; everything else is a ROS parameter.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its name, unless it is remapped.
    pub node_name: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            node_name: "sim_robot_node".into(),
        }
    }
}

/// Why the node can't run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The context.
    #[error(transparent)]
    Context(#[from] ContextError),
    /// A parameter of the wrong type or out of range.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// The world file can't be read.
    #[error("the world file {path} can't be read: {reason}; correct the parameter 'world'")]
    WorldFile {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The world is not valid.
    #[error("the world {path} can't be used: {source}")]
    World {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: SimError,
    },
    /// The robots of the parameter are not valid.
    #[error("the parameter 'robots' can't be used: {0}")]
    Robots(String),
    /// The simulation would run at another speed than the clock of its stamps.
    #[error("real_time_factor is {0}, but publish_clock is off: set publish_clock, and use_sim_time in all nodes")]
    Clock(f64),
    /// The faults of the parameter are not valid.
    #[error("the parameter 'faults' can't be used: {0}")]
    Faults(String),
    /// ROS refuses.
    #[error("ROS refuses: {0}")]
    Ros(#[from] RclrsError),
    /// The executor.
    #[error(transparent)]
    Spin(#[from] SpinError),
    /// Threads and signals.
    #[error("the operating system refuses: {0}")]
    System(#[from] std::io::Error),
    /// The simulation stopped by itself.
    #[error("the simulation ended: {0}; restart the node")]
    Simulation(String),
}

/// Runs the node until the shutdown is asked for; then the navigation says stop.
///
/// # Errors
/// [`Error`] when it can't start, the simulation ends or the executor fails.
pub fn run(context: &Context, options: &Options, shutdown: &Shutdown) -> Result<(), Error> {
    let mut executor = context.create_basic_executor();
    let node = executor.create_node(options.node_name.as_str())?;
    let running = node::SimRobotNode::start(&executor, &node, options, shutdown)?;
    let end = spin_until(&mut executor, shutdown);
    running.stop()?;
    Ok(end?)
}

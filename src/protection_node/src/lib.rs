//! The node between the navigation's velocities and the base.
//!
//! It holds no rules of its own: `eh_protection` decides, this converts and performs. Lease tokens and stops are
//! written to disk on a thread each, so that nothing ever delays a velocity or a stop. It needs no other node of the package: they may all be dead.
//!
//! This is no certified safety system.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod lease_keeper;
mod leasing;
mod messages;
mod node;
mod parameters;
mod stop_keeper;
mod stopping;
mod velocity_output;

use eh_protection::params::ParamsError;
use eh_ros_edge::context::ContextError;
use eh_ros_edge::params::ParameterError;
use eh_ros_edge::{spin_until, Shutdown, SpinError};
use rclrs::{Context, CreateBasicExecutor, RclrsError};
use thiserror::Error;

pub use parameters::Parameters;

/// How the node is made; everything else is a ROS parameter.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its name, unless it is remapped.
    pub node_name: String,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            node_name: "protection_node".into(),
        }
    }
}

/// Why the node can't run.
#[derive(Debug, Error)]
pub enum Error {
    /// The context.
    #[error(transparent)]
    Context(#[from] ContextError),
    /// A parameter of the wrong type or out of range.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// Parameters that do not fit each other.
    #[error("{0}; correct it in the parameter file")]
    Params(#[from] ParamsError),
    /// ROS refuses.
    #[error("ROS refuses: {0}")]
    Ros(#[from] RclrsError),
    /// The executor.
    #[error(transparent)]
    Spin(#[from] SpinError),
    /// Threads and signals.
    #[error("the operating system refuses: {0}")]
    System(#[from] std::io::Error),
}

/// Runs the node until the shutdown is asked for; then the base gets zero velocity.
///
/// # Errors
/// [`enum@Error`] when it can't start or the executor fails.
pub fn run(context: &Context, options: &Options, shutdown: &Shutdown) -> Result<(), Error> {
    let mut executor = context.create_basic_executor();
    let node = executor.create_node(options.node_name.as_str())?;
    let running = node::ProtectionNode::start(&node)?;
    let end = spin_until(&mut executor, shutdown);
    running.stand();
    Ok(end?)
}

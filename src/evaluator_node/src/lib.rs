//! The node that judges runs. It listens to the executors' run events and descriptors and to sensors; it
//! listens to no status, no plan and no instruction.
//!
//! It holds no rules of its own: `eh_evaluator` decides, this converts and performs. Everything runs on
//! the spin thread and nothing there waits.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod catalog;
mod evaluation;
mod model;
mod node;
mod parameters;
mod recorder;
mod samples;
mod sources;
mod views;

use eh_contract::semantic_map::SemanticMapError;
use eh_evaluator::EvaluatorError;
use eh_ros_edge::context::ContextError;
use eh_ros_edge::params::ParameterError;
use eh_ros_edge::{spin_until, GoalClientError, Shutdown, SpinError};
use rclrs::{Context, CreateBasicExecutor, RclrsError};
use thiserror::Error;

pub use model::ModelParameters;
pub use parameters::Parameters;
pub use recorder::RecorderParameters;
pub use sources::SourceParameters;
pub use views::ViewTopic;

/// How the node is made; everything else is a ROS parameter.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its name, unless it is remapped.
    pub node_name: String,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            node_name: "evaluator_node".into(),
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
    /// A list of the wrong length.
    #[error("the parameter {name} has {len} numbers, it needs {expected}, one for each of embodiment.arm_joints")]
    ListLength {
        /// The parameter.
        name: String,
        /// How many it has.
        len: usize,
        /// How many it needs.
        expected: usize,
    },
    /// The file of the annotated map can't be read.
    #[error("the file {path} of the parameter semantic_map can't be read: {reason}; correct the parameter or the file's permissions")]
    File {
        /// The file.
        path: String,
        /// The system's words.
        reason: String,
    },
    /// The annotated map is malformed.
    #[error("the semantic map {path}: {source}")]
    Map {
        /// The file.
        path: String,
        /// Why.
        source: SemanticMapError,
    },
    /// Parameters that the evaluator refuses.
    #[error(transparent)]
    Evaluator(#[from] EvaluatorError),
    /// A recording can't be used.
    #[error("the file {path} of the parameter recording can't be used: {reason}")]
    Recording {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// Recordings can't be kept.
    #[error("the folder {path} of the parameter record_to can't be used: {reason}")]
    RecordTo {
        /// The folder.
        path: String,
        /// The system's words.
        reason: String,
    },
    /// The model that judges.
    #[error(transparent)]
    Model(#[from] eh_model_client::ModelError),
    /// The client of an external judge.
    #[error(transparent)]
    Client(#[from] GoalClientError),
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

/// Runs the node until the shutdown is asked for.
///
/// # Errors
/// [`enum@Error`] when it can't start or the executor fails.
pub fn run(context: &Context, options: &Options, shutdown: &Shutdown) -> Result<(), Error> {
    let mut executor = context.create_basic_executor();
    let node = executor.create_node(options.node_name.as_str())?;
    let _running = node::EvaluatorNode::start(&node)?;
    Ok(spin_until(&mut executor, shutdown)?)
}

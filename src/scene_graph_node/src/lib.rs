//! The node that keeps the scene graph: fed by detections and transforms, asked by planners and gates.
//!
//! It holds no rules of its own: `eh_scene` decides, this converts and performs. Everything runs on the
//! spin thread but the writing to disk and the asking for vectors of texts, which have threads of their own, so that a
//! query never waits for the disk, and no other one for vectors.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod camera;
mod json_detections;
mod maps;
mod markers;
mod node;
mod parameters;
mod scene_keeper;
mod services;
mod vectors;
mod waiting_frames;

use eh_contract::semantic_map::SemanticMapError;
use eh_model_client::ModelError;
use eh_ros_edge::context::ContextError;
use eh_ros_edge::params::ParameterError;
use eh_ros_edge::{spin_until, Shutdown, SpinError};
use eh_scene::SceneError;
use eh_store::StoreError;
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
            node_name: "scene_graph_node".into(),
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
    /// A file that a parameter names can't be read.
    #[error("the file {path} of the parameter {parameter} can't be read: {reason}; correct the parameter or the file's permissions")]
    File {
        /// The parameter.
        parameter: &'static str,
        /// Its value.
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
    /// Parameters that the scene refuses.
    #[error(transparent)]
    Scene(#[from] SceneError),
    /// The endpoint of embeddings.
    #[error("embedding: {0}")]
    Model(#[from] ModelError),
    /// The durable file.
    #[error(transparent)]
    Store(#[from] StoreError),
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

/// Runs the node until the shutdown is asked for; then what has changed is written.
///
/// # Errors
/// [`enum@Error`] when it can't start or the executor fails.
pub fn run(context: &Context, options: &Options, shutdown: &Shutdown) -> Result<(), Error> {
    let mut executor = context.create_basic_executor();
    let node = executor.create_node(options.node_name.as_str())?;
    let running = node::SceneGraphNode::start(&node)?;
    let end = spin_until(&mut executor, shutdown);
    running.finish();
    Ok(end?)
}

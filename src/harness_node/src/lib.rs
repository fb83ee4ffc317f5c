//! The node that carries out tasks.
//!
//! It holds no rules of its own: `eh_harness` decides, this converts and performs.
//!
//! | thread | what it does |
//! |---|---|
//! | spin | callbacks and calls of ROS; never waits for anything |
//! | loop | owns the decisions and the disk: takes events in order, commits, gives out what follows |
//! | planner | reads instructions and plans; may take its time |
//!
//! Cancel, status and queries go through the loop, which never waits for the planner or for a neighbour.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod execute_task;
mod lease;
mod loop_thread;
mod messages;
mod neighbours;
mod parameters;
mod planner_thread;
mod services;
mod topics;

use std::time::Duration;

use eh_ros_edge::context::ContextError;
use eh_ros_edge::params::ParameterError;
use eh_ros_edge::{spin_until, NodeClock, Shutdown, SpinError};
use eh_store::StoreError;
use rclrs::{log_info, Context, CreateBasicExecutor, RclrsError};

pub use parameters::Parameters;

use neighbours::Neighbours;

/// How the node is made; everything else is a ROS parameter.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its name, unless it is remapped.
    pub node_name: String,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            node_name: "harness_node".into(),
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
    /// A parameter whose value can't be used.
    #[error("parameter '{name}' can't be used: {reason}; correct it in the parameter file")]
    Value {
        /// Which one.
        name: &'static str,
        /// Why.
        reason: String,
    },
    /// The durable files.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The planner.
    #[error("the planner can't be made: {0}")]
    Planner(String),
    /// ROS refuses.
    #[error("ROS refuses: {0}")]
    Ros(#[from] RclrsError),
    /// A client of an action.
    #[error(transparent)]
    Client(#[from] eh_ros_edge::GoalClientError),
    /// The executor.
    #[error(transparent)]
    Spin(#[from] SpinError),
    /// Threads and signals.
    #[error("the operating system refuses: {0}")]
    System(#[from] std::io::Error),
}

/// Longest wait for what runs to stand still when the node is asked to end; a command's own stop time
/// and the margin for messages fit into it.
const STOP_LIMIT: Duration = Duration::from_secs(8);

/// Runs the node until the shutdown is asked for; what runs then is canceled, its stop awaited and the
/// control lease released.
///
/// # Errors
/// [`Error`] when it can't start or the executor fails.
pub fn run(context: &Context, options: &Options, shutdown: &Shutdown) -> Result<(), Error> {
    let mut executor = context.create_basic_executor();
    let node = executor.create_node(options.node_name.as_str())?;
    let parameters = Parameters::declare(&node)?;
    let clock = NodeClock::of(&node);
    let planner = planner_thread::make(&parameters)?;
    let (outbox, outputs) = tokio::sync::mpsc::unbounded_channel();
    let (running, inbox) = loop_thread::start(&parameters, clock, outbox, node.logger().clone())?;
    // The spin thread goes on until the loop says that everything stands.
    let halt = Shutdown::new();
    let planner = planner_thread::start(planner, parameters.vocabulary.clone(), inbox.clone())?;
    let neighbours = Neighbours::new(&node, &parameters, inbox.clone(), planner)?;
    let _performing = neighbours::perform(&neighbours, outputs, halt.clone());
    let _topics = topics::subscribe(&node, &inbox, &neighbours)?;
    let _services = services::serve(&node, &inbox)?;
    let _action = execute_task::serve(&node, &inbox, &parameters.execute_task_action)?;
    let asked = shutdown.clone();
    let to_loop = inbox.clone();
    let _stopping = executor.commands().run(async move {
        asked.requested().await;
        to_loop.send(loop_thread::Input::Shutdown(STOP_LIMIT));
    });
    log_info!(
        node.logger(),
        "ready for tasks on {} (planner {}, robot {}, ledger in {})",
        parameters.execute_task_action,
        parameters.planner,
        parameters.settings.robot_id,
        parameters.state_directory.display()
    );
    let end = spin_until(&mut executor, &halt);
    // When the executor failed, nobody stops the loop but this.
    inbox.send(loop_thread::Input::End);
    // A panic there has been printed already.
    let _ = running.join();
    Ok(end?)
}

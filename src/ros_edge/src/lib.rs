//! The edge between the pure crates and ROS 2: what every node needs to convert, to call and to wait,
//! with no rules of its own.
//!
//! # Threads
//!
//! A node has one executor on one thread. Callbacks and async tasks of rclrs run on it, one at a time,
//! but for those of [`streams()`], which have a thread of their own. **Nothing may block on either**: no sleeping, no lock held across a wait, no file or network
//! access of unknown duration. What blocks gets a thread of its own (or a tokio runtime), joined by
//! channels. Waiting is done with `.await` and always with a deadline ([`deadline::within`]).

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod action_server;
pub mod clock;
pub mod context;
pub mod convert;
pub mod deadline;
pub mod failpoint;
pub mod goal_client;
pub mod log;
pub mod pace;
pub mod params;
pub mod qos;
pub mod shutdown;
pub mod spin;
pub mod state_directory;
pub mod streams;
pub mod tf_buffer;

pub use action_server::{serve_action, GoalDecision, GoalEnd, RunningGoal};
pub use clock::NodeClock;
pub use deadline::{within, DeadlineMissed};
pub use goal_client::{GoalClient, GoalClientError};
pub use pace::Pace;
pub use shutdown::Shutdown;
pub use spin::{spin_nodes_until, spin_until, SpinError};
pub use state_directory::state_directory;
pub use streams::{streams, Streams};
pub use tf_buffer::{TfBuffer, TfError, TfListener};

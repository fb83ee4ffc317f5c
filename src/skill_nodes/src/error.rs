//! Why an adapter can't run.

use eh_contract::skill::DescriptorError;
use eh_ros_edge::context::ContextError;
use eh_ros_edge::params::ParameterError;
use eh_ros_edge::{GoalClientError, SpinError};
use eh_skills::catalog::CatalogError;
use eh_skills::embodiment::EmbodimentError;
use eh_store::StoreError;
use rclrs::RclrsError;
use thiserror::Error;

/// Why an adapter can't run.
#[derive(Debug, Error)]
pub enum Error {
    /// The context.
    #[error(transparent)]
    Context(#[from] ContextError),
    /// A parameter of the wrong type or out of range.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// A list of the wrong length.
    #[error("parameter '{name}' has {len} numbers, it must have {expected}; correct it in the parameter file")]
    ListLength {
        /// Which.
        name: String,
        /// Its length.
        len: usize,
        /// The length that is needed.
        expected: usize,
    },
    /// The body.
    #[error(transparent)]
    Embodiment(#[from] EmbodimentError),
    /// A descriptor.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// A descriptor.
    #[error(transparent)]
    Descriptor(#[from] DescriptorError),
    /// The journal.
    #[error("the journal can't be used, so nothing is started: {0}")]
    Journal(#[from] StoreError),
    /// A foreign action.
    #[error(transparent)]
    Foreign(#[from] GoalClientError),
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

//! The judge of runs. It sees run events, the skill's post-condition, the embodiment and observations
//! that it takes itself; never the instruction, the planner's reasons or what the backend reported.
//!
//! No ROS, no clock, no I/O. Evidence goes into an [`EvidenceBuffer`], the executor's events into a
//! [`RunBook`], which takes a [`Baseline`] at each start; [`judge`](judge::judge) gives the verdict.
//!
//! | module | what it holds |
//! |---|---|
//! | [`evidence`] | bounded, stamped samples: gripper, poses, motion, joints, detections, clearance |
//! | [`baseline`] | how things were when a run started |
//! | [`run_book`] | the runs that are known, from the executor's events |
//! | [`plan`] | which evidence is still to come and how long to wait for it |
//! | [`scope`] | everything that one judgement may look at |
//! | [`body`] | predicates about the robot itself |
//! | [`things`] | predicates about objects |
//! | [`mod@judge`] | three-valued logic and the verdict |
//! | [`config`] | every threshold with its default and where it comes from |
//! | [`error`] | why something is refused |
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod baseline;
pub mod body;
pub mod config;
pub mod error;
pub mod evidence;
pub mod judge;
pub mod plan;
pub mod run_book;
pub mod scope;
pub mod things;

pub use baseline::Baseline;
pub use config::{Embodiment, EvaluatorConfig};
pub use error::EvaluatorError;
pub use evidence::EvidenceBuffer;
pub use judge::{judge, Case};
pub use plan::EvaluationPlan;
pub use run_book::{RunBook, RunRecord};

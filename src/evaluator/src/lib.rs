//! The judge of runs. It sees run events, the skill's post-condition, the embodiment and observations
//! that it takes itself; never the instruction, the planner's reasons or what the backend reported.
//!
//! No ROS, no clock, no I/O. Evidence goes into an [`EvidenceBuffer`], the executor's events into a
//! [`RunBook`], which takes a [`Baseline`] at each start; [`judge`](judge::judge) gives the verdict.
//!
//! | module | what it holds |
//! |---|---|
//! | [`evidence`] | bounded, stamped samples: gripper, poses, motion, joints, detections, clearance |
//! | [`observation`] | where they come from: live topics, a recording, somebody outside |
//! | [`baseline`] | how things were when a run started |
//! | [`run_book`] | the runs that are known, from the executor's events |
//! | [`plan`] | which evidence is still to come and how long to wait for it |
//! | [`evaluation`] | one evaluation over time |
//! | [`finding`] | how one predicate came out |
//! | [`scope`] | everything that one judgement may look at |
//! | [`body`] | predicates about the robot itself |
//! | [`things`], [`grip`] | predicates about objects; those about what the gripper holds |
//! | [`mod@judge`] | three-valued logic and the verdict |
//! | [`judges`] | who judges: predicates, model, both, external |
//! | [`question`] | what a judge that asks others asks, and what counts as an answer |
//! | [`config`] | every threshold with its default and where it comes from |
//! | [`error`] | why something is refused |
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod baseline;
pub mod body;
pub mod config;
pub mod error;
pub mod evaluation;
pub mod evidence;
pub mod finding;
pub mod grip;
pub mod judge;
pub mod judges;
pub mod observation;
pub mod plan;
pub mod question;
pub mod run_book;
pub mod scope;
mod sights;
pub mod things;

pub use baseline::Baseline;
pub use config::{Embodiment, EvaluatorConfig};
pub use error::EvaluatorError;
pub use evaluation::Evaluation;
pub use evidence::EvidenceBuffer;
pub use judge::{judge, Case};
pub use plan::EvaluationPlan;
pub use run_book::{RunBook, RunRecord};

//! What to do next: the interface of planners, and the symbolic planner.
//!
//! No ROS, no clock, no I/O: the time, the scene and what happened so far come in as arguments, the next
//! step goes out as data. A planner only proposes; the harness checks, dispatches and has it judged.
//!
//! | module | what it holds |
//! |---|---|
//! | [`planner`] | the trait that all planners serve, with its types |
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod planner;

pub use planner::{
    Answer, Language, PlannedStep, Planner, PlannerError, PlanningContext, Program, TaskInput, Turn,
};

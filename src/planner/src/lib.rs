//! What to do next: the interface of planners, and the symbolic planner.
//!
//! No ROS, no clock, no I/O: the time, the scene and what happened so far come in as arguments, the next
//! step goes out as data. A planner only proposes; the harness checks, dispatches and has it judged.
//!
//! | module | what it holds |
//! |---|---|
//! | [`planner`] | the trait that all planners serve, with its types |
//! | [`phrase_table`] | words as data: verbs, small words, nouns, messages |
//! | [`text`] | text as it is compared |
//! | [`lexicon`] | all words of one task; splits a text into them |
//! | [`grammar`] | from an instruction to goals |
//! | [`goal`] | goals over described things, and finding what a description means |
//! | [`choice`] | which of several options an answer means |
//! | [`messages`] | what is said to people |
//! | [`fact`] | what a condition comes to, piece by piece |
//! | [`skill_schema`] | skill descriptors taken apart |
//! | [`regression`] | the search for a plan over what skills declare |
//! | [`symbolic`] | the symbolic planner |
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod choice;
pub mod fact;
pub mod goal;
pub mod grammar;
mod grounding;
pub mod lexicon;
pub mod messages;
pub mod phrase_table;
pub mod planner;
pub mod regression;
pub mod skill_schema;
pub mod symbolic;
pub mod text;
mod unknown_noun;

pub use planner::{
    Answer, Language, PlannedStep, Planner, PlannerError, PlanningContext, Program, TaskInput, Turn,
};
pub use symbolic::SymbolicPlanner;

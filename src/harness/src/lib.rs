//! The loop of a task as pure decisions.
//!
//! No ROS, no clock, no I/O: events, the time and randomness come in, effects go out as data, in the
//! order in which they have to be performed. The node performs them: it makes durable what has to be
//! durable first, calls the neighbours and gives their answers back as events.
//!
//! | module | what it decides |
//! |---|---|
//! | [`harness`] | the loop: perceive, reason, decide, execute, judge, learn |
//! | [`admission`] | whether a task is taken |
//! | [`gate`] | whether a proposal becomes a command |
//! | [`grounding`] | what the names in arguments stand for |
//! | [`embodiment`] | whether the body is enough for a skill |
//! | [`budget`] | time, steps, attempts, backoff, going round in circles |
//! | [`checkpoint`] | what of a task outlives the process |
//! | [`surroundings`] | which skills are on offer, who is alive |
//! | [`lease`] | holding the control lease |
//! | [`settings`] | what is configured |
//! | [`event`], [`effect`] | what comes in, what goes out |
//! | [`performing`] | in which order effects are performed, and what is left of them when the disk fails |
//! | [`thinking`] | questions to the planner |
//! | [`error`] | why a person's word is not taken |
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod admission;
pub mod budget;
pub mod checkpoint;
pub mod effect;
pub mod embodiment;
pub mod error;
pub mod event;
pub mod gate;
pub mod grounding;
pub mod harness;
pub mod lease;
pub mod performing;
pub mod settings;
pub mod surroundings;
mod task;
pub mod thinking;

pub use effect::Effect;
pub use event::Event;
pub use harness::{Harness, Restored, Turned};
pub use settings::Settings;

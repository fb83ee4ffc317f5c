//! The words that every node of `embodied_harness` shares, as plain data.
//!
//! No ROS, no clock, no I/O. Units are SI (REP-103), frames follow REP-105, times are ROS time in
//! nanoseconds ([`Stamp`]). The ROS edge converts these types to and from the messages in `msg/`, which
//! document every field.
//!
//! | module | what it holds |
//! |---|---|
//! | [`belief`] | what the scene graph lets us believe about a condition |
//! | [`footprint`] | distances on the floor: boxes, outlines |
//! | [`geometry`] | points, poses, boxes; checks for finite numbers and unit quaternions |
//! | [`condition`] | the predicate language of preconditions, effects and post-conditions |
//! | [`skill`] | what a skill is, needs, promises and claims |
//! | [`command`] | an accepted proposal, its envelope and its digest |
//! | [`status`] | the executor's view of one command |
//! | [`run_event`] | start and end of a run, as the executor tells them |
//! | [`perception`] | detections in the frame of the map, and what the camera could have seen |
//! | [`sight`] | whether a line of sight is free |
//! | [`semantic_map`] | the annotated map of a building |
//! | [`prior`] | that map as nodes and edges |
//! | [`nouns`] | the one table of nouns and attributes, English and Chinese |
//! | [`session`] | events of a task and reports of its steps |
//! | [`state`] | the states of issuer and executor, ends of control, stages of a stop |
//! | [`verdict`] | evidence, predicate results, verdicts |
//! | [`scene`] | nodes and edges of the scene graph |
//! | [`error_code`] | every error code of every server, with its name |
//! | [`id`] | rules for names |
//! | [`key_values`] | a few words by name |
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod arguments;
pub mod belief;
pub mod command;
pub mod condition;
pub mod error_code;
pub mod footprint;
pub mod geometry;
pub mod id;
pub mod key_values;
pub mod nouns;
pub mod perception;
pub mod prior;
pub mod run_event;
pub mod scene;
pub mod semantic_map;
pub mod session;
pub mod sight;
pub mod skill;
pub mod state;
pub mod status;
pub mod time;
pub mod verdict;

pub use error_code::ErrorCode;
pub use key_values::KeyValues;
pub use time::Stamp;

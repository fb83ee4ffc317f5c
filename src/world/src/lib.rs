//! The deterministic world: the shipped crates (loop, ledger, planner, executors, scene, evaluator,
//! protection) in one process, in lockstep with the simulated robot.
//!
//! Time is virtual; the network delays, loses, doubles and reorders; disks lose what was not synced; processes
//! end at any place that has a name and are started again; the robot's servers lose acknowledgements and
//! results, hang and forget; people interfere. All of it comes from one seed, so that a run can be had again
//! exactly. A referee who knows the truth counts what must never be.
//!
//! The decisions are those of the crates that the nodes link. What a node does beside them, calling and
//! answering, is written again here without ROS, as short as it is there.
//!
//! | module | what it is |
//! |---|---|
//! | [`world`] | one run, step by step |
//! | [`scenario`] | what happens in it, drawn from the seed; [`hall`]: the home |
//! | [`network`], [`message`] | between processes |
//! | [`disk`] | under them |
//! | [`failpoint`] | where they end |
//! | [`processes`] | the processes themselves |
//! | [`robot`] | the robot with its servers |
//! | [`referee`], [`witness`], [`truth`] | what is right and what is true |
//! | [`trial`], [`verdicts`], [`interval`] | the judge is tried, and held against the truth |
//! | [`report`], [`trace`] | what is told |
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod clock;
pub mod context;
pub mod disk;
pub mod failpoint;
pub mod hall;
pub mod interval;
pub mod message;
pub mod network;
pub mod process_id;
pub mod processes;
pub mod random;
pub mod referee;
pub mod report;
pub mod robot;
pub mod scenario;
pub mod server;
pub mod trace;
pub mod trial;
pub mod truth;
pub mod verdicts;
pub mod witness;
mod words;
pub mod world;

pub use report::{Report, Violation};
pub use scenario::Scenario;
pub use world::{Shared, World, WorldError};

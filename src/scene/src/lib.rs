//! The scene graph: what is where, how sure that is, and how it came to be known.
//!
//! No ROS, no clock, no I/O: [`Scene`] takes frames of detections, poses of the robot, effects and
//! queries together with the time, and answers with data. What has to be made durable comes out of
//! [`Scene::take_changes`].
//!
//! | module | what it holds |
//! |---|---|
//! | [`scene`] | the whole: graph, tracker, robot, queries |
//! | [`graph`] | nodes and edges with versions |
//! | [`tracker`] | detections become objects: gating, assignment, fusion, absence |
//! | [`association`] | which detection is which object |
//! | [`grip`] | what the fingers feel, and what follows for what they hold |
//! | `index`, `grid` | what a query looks at instead of everything |
//! | [`relations`] | on, in, under and near from geometry, with hysteresis |
//! | [`effects`] | what a skill changed, after a SUCCESS verdict |
//! | [`query`] | filters, region, nearest, text |
//! | [`similarity`] | names that are like a text, by vectors of a model outside |
//! | [`precondition`] | checks before a command starts |
//! | [`plan_check`], `hypothesis` | the check of a whole plan before its first step |
//! | `decay` | doubt about what goes by itself while nobody looks |
//! | [`crop`], [`image_memory`] | what an object looked like |
//! | [`exchange`] | a whole scene as JSON, out and in |
//! | [`excerpt`] | the part of the graph that decides conditions about some nodes |
//! | [`brief`] | the short text for a planner |
//! | [`outline`] | floors, rooms, views and things, opened and closed by a planner |
//! | [`lexicon`] | words for classes and attributes, English and Chinese |
//! | [`config`] | every threshold with its default and where it comes from |
//! | [`error`] | why something is refused |
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod association;
pub mod brief;
pub mod config;
pub mod crop;
mod decay;
pub mod effects;
pub mod error;
pub mod excerpt;
pub mod exchange;
pub mod graph;
mod grid;
pub mod grip;
mod hypothesis;
pub mod image_memory;
mod index;
pub mod lexicon;
pub mod outline;
pub mod plan_check;
pub mod precondition;
pub mod query;
pub mod relations;
pub mod scene;
pub mod similarity;
pub mod tracker;

pub use config::SceneConfig;
pub use error::SceneError;
pub use graph::{ChangeSet, EdgeKey, SceneGraph};
pub use grip::{Felt, GripReading};
pub use query::Query;
pub use scene::Scene;
pub use tracker::{Observed, Tracker};

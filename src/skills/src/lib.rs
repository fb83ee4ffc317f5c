//! The skills that ship: what they promise (descriptors) and how they are done (programs).
//!
//! A program turns a command into a sequence of sub-goals for foreign actions. It is a pure state
//! machine: it is told how the last sub-goal ended and says what is next. Sending, waiting, canceling
//! and measuring are the executor's.
//!
//! | module | what it holds |
//! |---|---|
//! | [`catalog`] | the descriptors, embedded from `descriptors/*.json` |
//! | [`embodiment`] | the body: arm, gripper, head, base |
//! | [`fingers`] | what the gripper holds, as far as can be told |
//! | [`program`] | what a program is, and the program of each skill |
//! | [`sub_goal`] | what can be asked of navigation, arm, gripper and head, and how it can end |
//! | [`stand_off`] | where the base stands to reach or see something |
//! | [`standstill`] | whether what was claimed stands still, measured |
//! | [`grasp`] | how an object is grasped |
//! | [`free_spot`] | where something is set down |
//! | [`planning_scene`] | what of ours is in the planning scene of the arm's planner |
//! | [`native_code`] | from Nav2's, MoveIt's and the drivers' codes to ours |
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod catalog;
pub mod embodiment;
pub mod fingers;
pub mod free_spot;
pub mod grasp;
mod gripper;
mod look;
pub mod native_code;
mod navigate;
mod pick;
mod place;
pub mod planning_scene;
pub mod program;
mod sight;
pub mod stand_off;
pub mod standstill;
mod stow;
pub mod sub_goal;
mod wait;

pub use embodiment::Embodiment;
pub use program::{Context, Failure, SkillProgram, Step};
pub use sub_goal::{Goal, SubGoalOutcome};

//! The two state machines of a command's life, as pure transitions.
//!
//! No ROS, no clock, no I/O: an event and the time come in, a new record and the effects that follow go
//! out as data. Whoever calls makes the new record durable first and performs the effects second.
//!
//! | module | side | what it decides |
//! |---|---|---|
//! | [`issuer`] | issuer | the states of one command in the harness |
//! | [`issuer_ledger`] | issuer | all commands by id, and the resources that they hold |
//! | [`executor`] | executor | the states of one command next to the robot |
//! | [`admission`] | executor | whether a command may start here and now |
//! | [`restart`] | executor | what becomes of its records after a restart |
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod admission;
pub mod executor;
pub mod issuer;
pub mod issuer_error;
pub mod issuer_event;
pub mod issuer_ledger;
pub mod issuer_policy;
pub mod restart;

#[cfg(test)]
mod model;

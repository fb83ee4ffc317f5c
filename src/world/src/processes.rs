//! The processes: each links the crate that its node links, and does beside it what its node does.

pub mod client;
pub mod evaluator;
pub mod executor;
pub mod harness;
pub mod operator;
pub mod protection;
pub mod rival;
pub mod scene;
pub mod senses;

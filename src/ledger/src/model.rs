//! Model checking: issuer, executor, a foreign server and a network, each able to fail at any moment.
//!
//! The transitions are those that ship ([`crate::issuer`], [`crate::issuer_ledger`], [`crate::executor`],
//! [`crate::admission`], [`crate::restart`]). What stands around them here is what the nodes do with them:
//! journal first, then the effects in their order, each of them a step of its own, so that a crash fits in
//! between. [`world`] says what may happen; the invariants are looked at after every step.
//!
//! How deep is looked by `cargo test` is set beside each scenario. The environment variable
//! `EMBODIED_HARNESS_MODEL_DEPTH` looks that deep instead, and `EMBODIED_HARNESS_MODEL_STATES` at that many
//! states at most:
//!
//! ```sh
//! EMBODIED_HARNESS_MODEL_DEPTH=40 cargo test --release -p eh_ledger model -- --nocapture --test-threads 1
//! ```

mod executor_side;
mod explorer;
mod invariants;
mod issuer_side;
mod scenarios;
mod world;

//! Durable files of the nodes, all of them SQLite.
//!
//! This crate performs what the pure crates decide: it commits first and returns then, so that a caller
//! who has the answer may act on it. It holds no rules of its own.
//!
//! | module | what it keeps |
//! |---|---|
//! | [`db`] | opening, migrations, integrity, transactions |
//! | [`harness`] | the harness's file |
//! | [`journal`] | the executor's commands, foreign goals and events |
//! | [`lease`] | tokens of the control lease |
//! | [`ledger`] | in it: commands, states, UUIDs of goals |
//! | [`scene`] | objects, relations and counters of each map |
//! | [`session`] | in it: tasks and their session logs |
//! | [`error`] | why a file can't be used and what to do |
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod db;
pub mod error;
pub mod harness;
pub mod journal;
pub mod lease;
pub mod ledger;
pub mod scene;
pub mod session;

pub use db::{Access, Database, Schema};
pub use error::StoreError;
pub use harness::HarnessStore;
pub use journal::ExecutorJournal;
pub use scene::SceneStore;

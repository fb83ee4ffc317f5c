//! Durable files of the nodes, all of them SQLite.
//!
//! This crate performs what the pure crates decide: it commits first and returns then, so that a caller
//! who has the answer may act on it. It holds no rules of its own.
//!
//! | module | what it keeps |
//! |---|---|
//! | [`chain`] | hash-chained events: what was changed or taken out shows |
//! | [`db`] | opening, migrations, integrity, transactions |
//! | [`group_commit`] | many writers, one wait for the disk |
//! | [`harness`] | the harness's file |
//! | [`journal`] | the executor's commands, foreign goals and events |
//! | [`lease`] | tokens of the control lease |
//! | [`ledger`] | in it: commands, states, UUIDs of goals |
//! | [`scene`] | objects, relations and counters of each map |
//! | [`session`] | in it: tasks and their session logs |
//! | [`stop`] | the latched stop, and who reset it |
//! | [`error`] | why a file can't be used and what to do |
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod chain;
pub mod db;
pub mod error;
pub mod group_commit;
pub mod harness;
pub mod journal;
pub mod lease;
pub mod ledger;
pub mod scene;
pub mod session;
pub mod stop;

pub use chain::ChainHead;
pub use db::{Access, Database, Migration, Schema};
pub use error::StoreError;
pub use group_commit::GroupCommit;
pub use harness::HarnessStore;
pub use journal::{ExecutorJournal, JournalEntry};
pub use scene::SceneStore;

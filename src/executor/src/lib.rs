//! The executor of commands beside the robot, as one state machine.
//!
//! An [`Event`] and a [`Turn`] (time, chance, journal, senses) come in, [`Effect`]s go out in order. What
//! has to be durable is written through [`Journal`] before this returns, so that nothing is performed that
//! the journal does not know: the only I/O, and whoever links this crate brings it. The states of a command
//! are `eh_ledger`'s and what a skill does is `eh_skills`'; here is what leads from one to the other.
//!
//! | phase of a command | file | it ends with |
//! |---|---|---|
//! | arrives, passes the gate | `executor/gate.rs` | ACCEPTED, REJECTED |
//! | waits for the servers that it needs | `executor/starting.rs` | STARTED, REJECTED, ENDED |
//! | its program says what is next | `executor/running.rs` | ENDED(completed), or it is stopped |
//! | a goal: acknowledgement, asking about it, its end | `executor/pursuing.rs` | the program's next step |
//! | a wait, a look, a change of the planning scene | `executor/without_server.rs` | the program's next step |
//! | is brought to standstill | `executor/stopping.rs` | ENDED |
//! | was running when an earlier process ended | `executor/recovering.rs` | it is stopped |
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod effect;
pub mod event;
pub mod executor;
pub mod journal;
pub mod native_end;
mod phase;
pub mod senses;
pub mod server;
pub mod settings;
mod timing;
pub mod turn;

pub use effect::Effect;
pub use event::Event;
pub use executor::{Executor, RECENT};
pub use journal::{Journal, JournalFailure, RecordKind, Write};
pub use native_end::NativeEnd;
pub use senses::{LeaseSeen, Senses};
pub use server::Server;
pub use settings::{Restored, Settings};
pub use turn::Turn;

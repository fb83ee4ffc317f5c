//! Why an event of the issuer's ledger is refused.

use eh_contract::state::CommandState;
use thiserror::Error;

use crate::issuer::state_name;

/// Why an event is refused; nothing changed then.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IssuerError {
    /// The state does not allow it.
    #[error("command {command_id} is {} and can't {event} in that state", state_name(*.state))]
    IllegalEvent {
        /// The command.
        command_id: String,
        /// Its state.
        state: CommandState,
        /// What was wanted.
        event: &'static str,
    },
    /// A status of another command.
    #[error("a status of command \"{found}\" was given to command {command_id}")]
    OtherCommand {
        /// The command.
        command_id: String,
        /// The one in the status.
        found: String,
    },
    /// A verdict on another run.
    #[error(
        "a verdict on run \"{found}\" was given to command {command_id}, whose run is \"{run_id}\""
    )]
    OtherRun {
        /// The command.
        command_id: String,
        /// Its run.
        run_id: String,
        /// The one in the verdict.
        found: String,
    },
    /// The UUID is zero or was used before.
    #[error("command {command_id} was given a goal UUID that is zero or was used before; make a new one for each goal")]
    GoalIdUsed {
        /// The command.
        command_id: String,
    },
    /// The id belongs to other content.
    #[error("COMMAND_ID_CONFLICT: {command_id} is known with digest {known}, not {given}; use a new command_id for another command")]
    CommandIdConflict {
        /// The command.
        command_id: String,
        /// Digest that is known.
        known: String,
        /// Digest that was given.
        given: String,
    },
    /// No command of this id.
    #[error("there is no command \"{command_id}\" in the ledger")]
    NotFound {
        /// What was asked for.
        command_id: String,
    },
}

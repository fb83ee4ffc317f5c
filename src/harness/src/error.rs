//! Why a person's word is not taken.

use eh_contract::state::CommandState;
use eh_contract::ErrorCode;
use eh_ledger::issuer::state_name;
use thiserror::Error;

/// Why a command can't be settled by a person.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SettleError {
    /// No such command.
    #[error(
        "there is no unsettled command \"{command_id}\"; query_command with an empty id lists them"
    )]
    NotFound {
        /// What was asked for.
        command_id: String,
    },
    /// It is not UNKNOWN.
    #[error("command {command_id} is {}; only one that is UNKNOWN is settled by a person", state_name(*.state))]
    NotSettleable {
        /// The command.
        command_id: String,
        /// Its state.
        state: CommandState,
    },
    /// Nobody and nothing is named.
    #[error("settled_by and reason are required: who looked, and what was seen")]
    Anonymous,
    /// The disk fails.
    #[error("nothing is settled while the ledger can't be written: {reason}; then settle again")]
    Storage {
        /// Why, and what to do.
        reason: String,
    },
}

impl SettleError {
    /// The code of SettleCommand.
    pub const fn code(&self) -> ErrorCode {
        match self {
            SettleError::NotFound { .. } => ErrorCode::CommandNotFound,
            SettleError::NotSettleable { .. } => ErrorCode::NotSettleable,
            SettleError::Anonymous => ErrorCode::InvalidSettle,
            SettleError::Storage { .. } => ErrorCode::StorageFailure,
        }
    }
}

/// Why an answer is not taken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AnswerError {
    /// No such request.
    #[error("there is no open request \"{request_id}\"; human_requests shows those that are")]
    NotFound {
        /// What was answered.
        request_id: String,
    },
    /// It takes no answers any more.
    #[error("request \"{request_id}\" takes no answers any more")]
    Closed {
        /// What was answered.
        request_id: String,
    },
    /// The answer is none of the options.
    #[error("\"{answer}\" is no answer to this request; the options are: {}", if .options.is_empty() { "any text that is not empty".to_owned() } else { .options.join(", ") + "; answer with one of them, its number, or words that fit only one" })]
    Invalid {
        /// The answer.
        answer: String,
        /// What can be answered.
        options: Vec<String>,
    },
    /// Nobody is named.
    #[error("answered_by is empty; say who answers")]
    Anonymous,
    /// The disk fails.
    #[error("no answer is taken while the ledger can't be written: {reason}; then answer again")]
    Storage {
        /// Why, and what to do.
        reason: String,
    },
}

impl AnswerError {
    /// The code of AnswerHumanRequest.
    pub const fn code(&self) -> ErrorCode {
        match self {
            AnswerError::NotFound { .. } => ErrorCode::RequestNotFound,
            AnswerError::Closed { .. } => ErrorCode::RequestClosed,
            AnswerError::Invalid { .. } | AnswerError::Anonymous => ErrorCode::InvalidAnswer,
            AnswerError::Storage { .. } => ErrorCode::TaskStorageFailure,
        }
    }
}

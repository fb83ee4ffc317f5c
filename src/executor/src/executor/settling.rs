//! Where a command is, and what became of it by the word of the issuer or a person.

use eh_contract::state::ExecutorState;
use eh_contract::ErrorCode;
use eh_ledger::admission::Refusal;
use eh_ledger::executor::{ExecutorEvent, ExecutorRecord, FinalState};

use super::apply::ApplyError;
use super::{Cx, Executor};
use crate::effect::{Effect, SettleAnswer};
use crate::event::SettleRequest;
use crate::journal::Journal;

/// Longest id in an answer.
const MAX_ID: usize = 80;

impl Executor {
    /// The record of a command; with an empty id, every record that is not settled.
    ///
    /// # Errors
    /// COMMAND_NOT_FOUND, also when the journal can't be read.
    pub fn query(
        &self,
        command_id: &str,
        journal: &dyn Journal,
    ) -> Result<Vec<ExecutorRecord>, Refusal> {
        if command_id.is_empty() {
            return Ok(self.live_records().cloned().collect());
        }
        match self.find(command_id, journal) {
            Ok(Some(record)) => Ok(vec![record]),
            Ok(None) => Err(self.not_found(command_id)),
            Err(error) => Err(Refusal {
                code: ErrorCode::CommandNotFound,
                message: format!("the journal can't be read: {error}"),
            }),
        }
    }

    fn not_found(&self, command_id: &str) -> Refusal {
        Refusal {
            code: ErrorCode::CommandNotFound,
            message: format!(
                "no command {:?} is in the journal of {}; check the id and the executor",
                command_id.chars().take(MAX_ID).collect::<String>(),
                self.settings.name
            ),
        }
    }

    pub(super) fn settle(&mut self, request: SettleRequest, cx: &mut Cx<'_, '_>) {
        let caller = request.caller;
        let mut answer = SettleAnswer {
            caller,
            error_code: ErrorCode::None,
            error_msg: String::new(),
            state: None,
        };
        match self.settled(request, cx) {
            Ok(state) => answer.state = Some(state),
            Err((refusal, state)) => {
                answer.error_code = refusal.code;
                answer.error_msg = refusal.message;
                answer.state = state;
            }
        }
        cx.give(Effect::SettleAnswer(answer));
    }

    fn settled(
        &mut self,
        request: SettleRequest,
        cx: &mut Cx<'_, '_>,
    ) -> Result<ExecutorState, (Refusal, Option<ExecutorState>)> {
        let refuse = |code, message: String, state| Err((Refusal { code, message }, state));
        let record = match self.find(&request.command_id, &*cx.turn.journal) {
            Ok(Some(record)) => record,
            Ok(None) => return Err((self.not_found(&request.command_id), None)),
            Err(error) => {
                let message = format!("the journal can't be read: {error}");
                return refuse(ErrorCode::StorageFailure, message, None);
            }
        };
        let state = Some(record.state);
        let Some(final_state) = FinalState::from_wire(request.final_state) else {
            let message = format!(
                "final_state is {}; use a FINAL_* constant",
                request.final_state
            );
            return refuse(ErrorCode::InvalidSettle, message, state);
        };
        if request.settled_by.is_empty() {
            let message = "settled_by is empty; say who settles".into();
            return refuse(ErrorCode::InvalidSettle, message, state);
        }
        // A controller proves by its token that it was not replaced; a person has none and says why.
        let token = request.fencing_token;
        if token == 0 && self.settings.require_lease && request.reason.is_empty() {
            let message = "neither a fencing_token nor a reason is given; a person says why".into();
            return refuse(ErrorCode::InvalidSettle, message, state);
        }
        // Who sent a command may say what became of it also when it has lost the lease since: nothing starts
        // by that, and nobody else would release what the command holds.
        let own = record.fencing_token;
        if token != 0 && token < own {
            let message = format!("token {token} is older than {own}, under which the command runs; its issuer was replaced");
            return refuse(ErrorCode::OldToken, message, state);
        }
        let event = ExecutorEvent::Settle {
            final_state,
            settled_by: request.settled_by,
            reason: request.reason,
        };
        match self.apply(&request.command_id, &event, cx) {
            Ok(transition) => Ok(transition.record.state),
            Err(error @ ApplyError::Journal(_)) => {
                refuse(ErrorCode::StorageFailure, error.to_string(), state)
            }
            Err(error @ (ApplyError::NotFound(_) | ApplyError::Illegal(_))) => {
                refuse(ErrorCode::NotSettleable, error.to_string(), state)
            }
        }
    }
}

//! The end of a command, or of what is known of it.

use eh_contract::session::EventKind;
use eh_contract::state::CommandState;
use eh_contract::ErrorCode;
use serde_json::json;

use super::{state_name, IssuerRecord};
use crate::issuer_event::{Finality, IssuerEffect};
use crate::issuer_policy::Now;

impl IssuerRecord {
    pub(super) fn end(
        &mut self,
        state: CommandState,
        why: Option<(ErrorCode, String)>,
        now: Now,
    ) -> Vec<IssuerEffect> {
        if let Some((code, reason)) = why {
            self.fail(code, reason);
        }
        let was_sent = !self.goals.is_empty();
        self.times.settled = now.ros;
        self.enter(state);
        let text = if self.error_msg.is_empty() {
            format!("{} {}", self.command.skill, state_name(state))
        } else {
            format!(
                "{} {}: {}",
                self.command.skill,
                state_name(state),
                self.error_msg
            )
        };
        let kind = if state == CommandState::Rejected {
            EventKind::Rejected
        } else {
            EventKind::Settled
        };
        let mut effects = vec![
            IssuerEffect::Persist,
            self.note(
                kind,
                text,
                json!({"state": state, "error_code": self.error_code, "late_events": self.late_events}),
            ),
        ];
        // What the executor refused or never got has nothing to settle there.
        let to = match state {
            CommandState::Succeeded => Some(Finality::Succeeded),
            CommandState::Failed => Some(Finality::Failed),
            CommandState::Canceled => Some(Finality::Canceled),
            CommandState::Unspecified
            | CommandState::Proposed
            | CommandState::Rejected
            | CommandState::Committed
            | CommandState::Dispatched
            | CommandState::Accepted
            | CommandState::Running
            | CommandState::Evaluating
            | CommandState::Canceling
            | CommandState::Unknown
            | CommandState::Reconciling => None,
        };
        // A person settles also what the executor never told about.
        let executor_holds_it = was_sent
            && match &self.status {
                Some(status) => status.state.holds_resources(),
                None => !self.settled_by.is_empty(),
            };
        if let (Some(to), true) = (to, executor_holds_it) {
            self.settle_pending = Some(to);
            self.watch.last_settle = now.steady;
            effects.push(IssuerEffect::SettleExecutor { to });
        }
        effects.push(IssuerEffect::Ended);
        effects
    }

    pub(super) fn unknown(
        &mut self,
        code: ErrorCode,
        reason: String,
        now: Now,
    ) -> Vec<IssuerEffect> {
        self.fail(code, reason.clone());
        self.times.settled = now.ros;
        self.enter(CommandState::Unknown);
        vec![
            IssuerEffect::Persist,
            self.note(
                EventKind::Settled,
                format!("{} is UNKNOWN: {reason}", self.command.skill),
                json!({"state": self.state, "error_code": self.error_code, "held": self.resources}),
            ),
            IssuerEffect::Ended,
        ]
    }

    pub(super) fn settle_confirmed(&mut self) -> Vec<IssuerEffect> {
        if self.settle_pending.take().is_none() {
            return Vec::new();
        }
        self.sequence = self.sequence.saturating_add(1);
        vec![IssuerEffect::Persist]
    }
}

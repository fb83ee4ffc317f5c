//! Cancel, loss, and what a person says of it.

use eh_contract::session::EventKind;
use eh_contract::state::CommandState;
use eh_contract::ErrorCode;
use serde_json::Value;

use super::IssuerRecord;
use crate::issuer_error::IssuerError;
use crate::issuer_event::{Finality, IssuerEffect};
use crate::issuer_policy::Now;

impl IssuerRecord {
    pub(super) fn cancel(
        &mut self,
        reason: String,
        now: Now,
    ) -> Result<Vec<IssuerEffect>, IssuerError> {
        match self.state {
            CommandState::Committed => Ok(self.end(
                CommandState::Canceled,
                Some((ErrorCode::Canceled, format!("{reason}; it was never sent"))),
                now,
            )),
            CommandState::Dispatched | CommandState::Accepted | CommandState::Running => {
                self.times.cancel_requested = now.ros;
                self.watch.cancel_requested = now.steady;
                self.enter(CommandState::Canceling);
                let mut effects = vec![
                    IssuerEffect::Persist,
                    self.note(EventKind::CancelRequested, reason, Value::Null),
                ];
                effects.extend(self.cancel_effects(now));
                Ok(effects)
            }
            // Asking again never extends the budget, and is never dropped either.
            CommandState::Canceling => Ok(self.cancel_effects(now)),
            // Between two segments nothing moves, and no verdict is to be waited for.
            CommandState::Evaluating if self.next_segment_is_due() => {
                self.times.cancel_requested = now.ros;
                let why = format!("{reason}; canceled between two segments, while nothing moved");
                Ok(self.end(
                    CommandState::Canceled,
                    Some((ErrorCode::Canceled, why)),
                    now,
                ))
            }
            // Nothing moves any more: remembered, so that no further segment begins.
            CommandState::Evaluating => {
                if self.times.cancel_requested.is_never() {
                    self.times.cancel_requested = now.ros;
                    self.sequence = self.sequence.saturating_add(1);
                    return Ok(vec![
                        IssuerEffect::Persist,
                        self.note(EventKind::CancelRequested, reason, Value::Null),
                    ]);
                }
                Ok(Vec::new())
            }
            // Stopping what is not known to stand still is always right.
            CommandState::Unknown | CommandState::Reconciling => Ok(self.cancel_effects(now)),
            CommandState::Succeeded
            | CommandState::Failed
            | CommandState::Canceled
            | CommandState::Rejected => self.late(),
            CommandState::Unspecified | CommandState::Proposed => Err(self.illegal("cancel")),
        }
    }

    pub(super) fn cancel_effects(&mut self, now: Now) -> Vec<IssuerEffect> {
        self.watch.last_cancel = now.steady;
        match self.goal_id() {
            Some(goal_id) => vec![IssuerEffect::CancelGoal { goal_id }],
            None => Vec::new(),
        }
    }

    pub(super) fn lost(
        &mut self,
        reason: String,
        now: Now,
    ) -> Result<Vec<IssuerEffect>, IssuerError> {
        match self.state {
            CommandState::Dispatched
            | CommandState::Accepted
            | CommandState::Running
            | CommandState::Canceling
            | CommandState::Evaluating => Ok(self.unknown(ErrorCode::ResultLost, reason, now)),
            CommandState::Unspecified | CommandState::Proposed | CommandState::Committed => {
                Err(self.illegal("be lost"))
            }
            CommandState::Succeeded
            | CommandState::Failed
            | CommandState::Canceled
            | CommandState::Rejected
            | CommandState::Unknown
            | CommandState::Reconciling => self.late(),
        }
    }

    pub(super) fn reconcile(&mut self, now: Now) -> Result<Vec<IssuerEffect>, IssuerError> {
        if self.state != CommandState::Unknown {
            return Err(self.illegal("reconcile"));
        }
        self.enter(CommandState::Reconciling);
        if self.is_known_to_have_ended() {
            // Only how it came out is not known: it is looked at afresh.
            self.looks = 0;
            self.watch.evaluating = now.steady;
            let (run_id, segment) = (self.run_id.clone(), self.segment);
            return Ok(vec![
                IssuerEffect::Persist,
                IssuerEffect::Evaluate {
                    run_id,
                    segment,
                    look: 0,
                },
            ]);
        }
        self.watch.last_query = now.steady;
        Ok(vec![IssuerEffect::Persist, IssuerEffect::QueryExecutor])
    }

    pub(super) fn reconciled(
        &mut self,
        to: Finality,
        by: String,
        reason: String,
        now: Now,
    ) -> Result<Vec<IssuerEffect>, IssuerError> {
        match self.state {
            CommandState::Unknown | CommandState::Reconciling => {}
            CommandState::Succeeded
            | CommandState::Failed
            | CommandState::Canceled
            | CommandState::Rejected
            | CommandState::Unspecified
            | CommandState::Proposed
            | CommandState::Committed
            | CommandState::Dispatched
            | CommandState::Accepted
            | CommandState::Running
            | CommandState::Canceling
            | CommandState::Evaluating => return Err(self.illegal("be settled by a person")),
        }
        self.settled_by = by;
        let state = match to {
            Finality::Succeeded => CommandState::Succeeded,
            Finality::Failed => CommandState::Failed,
            Finality::Canceled => CommandState::Canceled,
        };
        Ok(self.end(state, Some((ErrorCode::None, reason)), now))
    }
}

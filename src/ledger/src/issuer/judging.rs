//! What the evaluator says of the world.

use eh_contract::session::EventKind;
use eh_contract::state::CommandState;
use eh_contract::verdict::{Outcome, Verdict};
use eh_contract::ErrorCode;
use serde_json::json;

use super::{or, outcome_name, IssuerRecord};
use crate::issuer_error::IssuerError;
use crate::issuer_event::IssuerEffect;
use crate::issuer_policy::{IssuerPolicy, Now};

impl IssuerRecord {
    pub(super) fn judged(
        &mut self,
        verdict: Verdict,
        policy: &IssuerPolicy,
        now: Now,
    ) -> Result<Vec<IssuerEffect>, IssuerError> {
        match self.state {
            // While something of it may move, nothing that is seen settles it.
            CommandState::Reconciling if !self.is_known_to_have_ended() => return self.late(),
            CommandState::Evaluating | CommandState::Reconciling => {}
            state if state.is_terminal() => return self.late(),
            CommandState::Unknown | CommandState::Canceling | CommandState::Running => {
                return self.late()
            }
            _ => return Err(self.illegal("be judged")),
        }
        if verdict.run_id != self.run_id {
            return Err(IssuerError::OtherRun {
                command_id: self.command.command_id.clone(),
                run_id: self.run_id.clone(),
                found: verdict.run_id,
            });
        }
        if verdict.segment != self.segment {
            return self.late();
        }
        let ended = self.times.control_ended;
        if verdict.outcome == Outcome::Success && verdict.stamp < ended {
            // Nothing that was seen by then tells how it ended.
            let why = format!(
                "a SUCCESS was stamped {:.3} s before control had ended",
                ended.since(verdict.stamp).as_secs_f64()
            );
            return Ok(self.look_again(why, policy, now));
        }
        let reason = verdict.reason.clone();
        let outcome = verdict.outcome;
        self.times.judged = or(verdict.stamp, now.ros);
        self.sequence = self.sequence.saturating_add(1);
        let mut effects = vec![
            IssuerEffect::Persist,
            self.note(
                EventKind::Judged,
                format!("{}: {reason}", outcome_name(outcome)),
                json!({
                    "outcome": outcome,
                    "judge": verdict.judge,
                    "judge_version": verdict.judge_version,
                    "evidence": verdict.evidence.iter().map(|e| &e.summary).collect::<Vec<_>>(),
                }),
            ),
        ];
        self.verdict = Some(verdict);
        effects.extend(match outcome {
            Outcome::Success => {
                self.error_code = 0;
                self.error_msg.clear();
                self.end(CommandState::Succeeded, None, now)
            }
            Outcome::Failure => {
                let code = ErrorCode::from_code(self.error_code).unwrap_or(ErrorCode::None);
                let why = if self.error_msg.is_empty() {
                    reason
                } else {
                    format!("{reason}; control: {}", self.error_msg)
                };
                self.end(CommandState::Failed, Some((code, why)), now)
            }
            Outcome::Process if self.cancel_requested() => self.end(
                CommandState::Canceled,
                Some((
                    ErrorCode::Canceled,
                    "canceled between two segments, while nothing moved".into(),
                )),
                now,
            ),
            Outcome::Process if self.next_segment_is_due() => {
                vec![IssuerEffect::NextSegment {
                    segment: self.segment + 1,
                }]
            }
            Outcome::Process => {
                let why = format!(
                    "still not done after {} of {} segments: {reason}",
                    self.segment + 1,
                    self.max_segments
                );
                self.end(CommandState::Failed, Some((ErrorCode::None, why)), now)
            }
            Outcome::Unknown => self.look_again(reason, policy, now),
        });
        Ok(effects)
    }

    pub(super) fn not_judged(
        &mut self,
        reason: String,
        policy: &IssuerPolicy,
        now: Now,
    ) -> Result<Vec<IssuerEffect>, IssuerError> {
        match self.state {
            CommandState::Reconciling if !self.is_known_to_have_ended() => self.late(),
            CommandState::Evaluating | CommandState::Reconciling => {
                Ok(self.look_again(reason, policy, now))
            }
            CommandState::Unspecified
            | CommandState::Proposed
            | CommandState::Committed
            | CommandState::Dispatched
            | CommandState::Accepted => Err(self.illegal("be judged")),
            CommandState::Running
            | CommandState::Canceling
            | CommandState::Succeeded
            | CommandState::Failed
            | CommandState::Canceled
            | CommandState::Rejected
            | CommandState::Unknown => self.late(),
        }
    }

    /// Evidence was missing or contradicting: look again a bounded number of times, then UNKNOWN.
    pub(super) fn look_again(
        &mut self,
        reason: String,
        policy: &IssuerPolicy,
        now: Now,
    ) -> Vec<IssuerEffect> {
        self.looks = self.looks.saturating_add(1);
        self.watch.evaluating = now.steady;
        if self.looks < policy.max_looks {
            return vec![IssuerEffect::Evaluate {
                run_id: self.run_id.clone(),
                segment: self.segment,
                look: self.looks,
            }];
        }
        let why = format!(
            "looked {} times and still can't tell: {reason}; look yourself, then use settle_command",
            self.looks
        );
        self.unknown(ErrorCode::None, why, now)
    }
}

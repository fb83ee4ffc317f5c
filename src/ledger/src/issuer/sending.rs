//! From a proposal to a goal that its executor has.

use eh_contract::session::EventKind;
use eh_contract::state::CommandState;
use eh_contract::verdict::Outcome;
use eh_contract::ErrorCode;
use serde_json::{json, Value};

use super::{IssuerRecord, SegmentGoal, Watch};
use crate::issuer_error::IssuerError;
use crate::issuer_event::IssuerEffect;
use crate::issuer_policy::Now;

impl IssuerRecord {
    pub(super) fn refuse(
        &mut self,
        code: ErrorCode,
        reason: String,
        now: Now,
    ) -> Result<Vec<IssuerEffect>, IssuerError> {
        if self.state != CommandState::Proposed {
            return Err(self.illegal("refuse"));
        }
        self.fail(code, reason.clone());
        self.times.settled = now.ros;
        self.enter(CommandState::Rejected);
        Ok(vec![
            IssuerEffect::Persist,
            self.note(
                EventKind::Rejected,
                reason,
                json!({"error_code": self.error_code}),
            ),
            IssuerEffect::Ended,
        ])
    }

    pub(super) fn commit(&mut self, now: Now) -> Result<Vec<IssuerEffect>, IssuerError> {
        if self.state != CommandState::Proposed {
            return Err(self.illegal("commit"));
        }
        self.times.committed = now.ros;
        self.enter(CommandState::Committed);
        let payload = json!({
            "digest": self.digest,
            "arguments": self.command.arguments,
            "world_version": self.command.world_version,
            "targets": self.command.targets.iter()
                .map(|t| json!({"argument": t.argument, "ref": t.r#ref, "version": t.version}))
                .collect::<Vec<_>>(),
        });
        Ok(vec![
            IssuerEffect::Persist,
            self.note(
                EventKind::Committed,
                format!("{} is committed", self.command.skill),
                payload,
            ),
        ])
    }

    pub(super) fn dispatch(
        &mut self,
        goal_id: [u8; 16],
        now: Now,
    ) -> Result<Vec<IssuerEffect>, IssuerError> {
        let next = match self.state {
            CommandState::Committed => 0,
            CommandState::Evaluating if self.next_segment_is_due() => self.segment + 1,
            _ => return Err(self.illegal("dispatch")),
        };
        if goal_id == [0; 16] || self.goals.iter().any(|g| g.goal_id == goal_id) {
            return Err(IssuerError::GoalIdUsed {
                command_id: self.command.command_id.clone(),
            });
        }
        self.segment = next;
        self.looks = 0;
        self.goals.push(SegmentGoal {
            segment: next,
            goal_id,
        });
        if next == 0 {
            self.times.dispatched = now.ros;
        }
        self.watch = Watch {
            dispatched: now.steady,
            last_sign: now.steady,
            last_query: now.steady,
            running: now.steady,
            ..self.watch
        };
        self.enter(if next == 0 {
            CommandState::Dispatched
        } else {
            CommandState::Running
        });
        Ok(vec![
            IssuerEffect::Persist,
            self.note(
                EventKind::Dispatched,
                format!("{} goes to {}", self.command.skill, self.action_name),
                json!({"goal_id": hex(&goal_id), "segment": next}),
            ),
            IssuerEffect::Send {
                segment: next,
                goal_id,
            },
        ])
    }

    /// True when another segment has to be dispatched: a PROCESS verdict of this one, no cancel, and a
    /// segment left.
    pub fn next_segment_is_due(&self) -> bool {
        self.verdict
            .as_ref()
            .is_some_and(|v| v.outcome == Outcome::Process && v.segment == self.segment)
            && !self.cancel_requested()
            && self.segment + 1 < self.max_segments
    }

    pub(super) fn expired(
        &mut self,
        reason: String,
        now: Now,
    ) -> Result<Vec<IssuerEffect>, IssuerError> {
        if self.state != CommandState::Committed {
            return Err(self.illegal("expire"));
        }
        Ok(self.end(
            CommandState::Rejected,
            Some((ErrorCode::ExpiredCommand, reason)),
            now,
        ))
    }

    pub(super) fn acknowledged(&mut self, now: Now) -> Result<Vec<IssuerEffect>, IssuerError> {
        match self.state {
            CommandState::Dispatched => {
                self.watch.last_sign = now.steady;
                self.times.received = now.ros;
                self.enter(CommandState::Accepted);
                Ok(vec![
                    IssuerEffect::Persist,
                    self.note(
                        EventKind::Accepted,
                        format!("{} has it", self.executor),
                        Value::Null,
                    ),
                ])
            }
            // The first cancel may have reached the server before the goal did: ask again now that the
            // goal is known there.
            CommandState::Canceling => {
                self.watch.last_sign = now.steady;
                Ok(self.cancel_effects(now))
            }
            CommandState::Accepted
            | CommandState::Running
            | CommandState::Evaluating
            | CommandState::Succeeded
            | CommandState::Failed
            | CommandState::Canceled
            | CommandState::Rejected
            | CommandState::Unknown
            | CommandState::Reconciling => self.late(),
            CommandState::Unspecified | CommandState::Proposed | CommandState::Committed => {
                Err(self.illegal("acknowledge"))
            }
        }
    }

    pub(super) fn goal_refused(
        &mut self,
        code: ErrorCode,
        reason: String,
        now: Now,
    ) -> Result<Vec<IssuerEffect>, IssuerError> {
        match self.state {
            CommandState::Dispatched | CommandState::Accepted => {
                Ok(self.end(CommandState::Rejected, Some((code, reason)), now))
            }
            // Refused means that nothing was started, which is all that a cancel wants.
            CommandState::Canceling => Ok(self.end(
                CommandState::Canceled,
                Some((
                    ErrorCode::Canceled,
                    format!("canceled; the executor started nothing: {reason}"),
                )),
                now,
            )),
            // A later segment was refused: what the earlier ones did to the world is not known.
            CommandState::Running => Ok(self.unknown(code, reason, now)),
            CommandState::Evaluating
            | CommandState::Succeeded
            | CommandState::Failed
            | CommandState::Canceled
            | CommandState::Rejected
            | CommandState::Unknown
            | CommandState::Reconciling => self.late(),
            CommandState::Unspecified | CommandState::Proposed | CommandState::Committed => {
                Err(self.illegal("refuse the goal"))
            }
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

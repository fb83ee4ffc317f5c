//! What time brings about, and what a new process takes up.

use std::time::Duration;

use eh_contract::state::{CommandState, ControlEnd, ExecutorState};
use eh_contract::ErrorCode;

use super::{IssuerRecord, Watch, RESTART_GRACE};
use crate::issuer_event::IssuerEffect;
use crate::issuer_policy::{IssuerPolicy, Now};

impl IssuerRecord {
    /// Takes up a stored record in a new process: its deadlines begin anew on this process's clock, the
    /// executor and the evaluator are asked again. Nothing is sent again.
    pub fn resume(&mut self, now: Now) -> Vec<IssuerEffect> {
        self.watch = Watch {
            dispatched: now.steady,
            last_sign: now.steady,
            last_query: now.steady,
            last_cancel: now.steady,
            cancel_requested: now.steady,
            running: now.steady,
            evaluating: now.steady,
            last_settle: now.steady,
            grace: RESTART_GRACE,
        };
        match self.state {
            CommandState::Dispatched
            | CommandState::Accepted
            | CommandState::Running
            | CommandState::Canceling => vec![IssuerEffect::QueryExecutor],
            CommandState::Evaluating => vec![IssuerEffect::Evaluate {
                run_id: self.run_id.clone(),
                segment: self.segment,
                look: self.looks,
            }],
            CommandState::Reconciling if self.is_known_to_have_ended() => {
                vec![IssuerEffect::Evaluate {
                    run_id: self.run_id.clone(),
                    segment: self.segment,
                    look: self.looks,
                }]
            }
            CommandState::Unknown | CommandState::Reconciling => vec![IssuerEffect::QueryExecutor],
            CommandState::Succeeded | CommandState::Failed | CommandState::Canceled => self
                .settle_pending
                .map(|to| IssuerEffect::SettleExecutor { to })
                .into_iter()
                .collect(),
            CommandState::Unspecified
            | CommandState::Proposed
            | CommandState::Committed
            | CommandState::Rejected => Vec::new(),
        }
    }

    pub(super) fn tick(&mut self, policy: &IssuerPolicy, now: Now) -> Vec<IssuerEffect> {
        let since = |then: Duration| now.steady.saturating_sub(then);
        match self.state {
            CommandState::Dispatched | CommandState::Accepted | CommandState::Running => {
                if since(self.watch.last_sign) > policy.lost_after {
                    let (code, what) = if self.state == CommandState::Dispatched {
                        (ErrorCode::AcknowledgementLost, "no acknowledgement came")
                    } else {
                        (ErrorCode::ResultLost, "no sign of it came")
                    };
                    let why = format!(
                        "{what} from {} for {:.0} s (limit {:.0} s), also not when asked: it may still be running; look at the robot, then use settle_command",
                        self.executor,
                        since(self.watch.last_sign).as_secs_f64(),
                        policy.lost_after.as_secs_f64()
                    );
                    let mut effects = self.cancel_effects(now);
                    effects.extend(self.unknown(code, why, now));
                    return effects;
                }
                let limit =
                    self.execution_timeout + self.command.stop_timeout() + policy.delivery_margin;
                if self.state == CommandState::Running && since(self.watch.running) > limit {
                    let why = format!(
                        "the executor has run it for {:.0} s, the limit is {:.0} s",
                        since(self.watch.running).as_secs_f64(),
                        self.execution_timeout.as_secs_f64()
                    );
                    // Cannot fail in RUNNING; without effects the next tick asks again.
                    return self.cancel(why, now).unwrap_or_default();
                }
                self.query_if_silent(policy, now)
            }
            CommandState::Canceling => {
                let limit = self.command.stop_timeout() + policy.delivery_margin;
                let limit = if self.status.is_none() {
                    limit.max(self.command.start_within + policy.delivery_margin * 2)
                } else {
                    limit
                };
                let limit = limit + self.watch.grace;
                if since(self.watch.cancel_requested) > limit {
                    let why = format!(
                        "standstill was not confirmed within {:.1} s of the cancel; look at the robot, then use settle_command",
                        limit.as_secs_f64()
                    );
                    return self.unknown(ErrorCode::StopUnconfirmed, why, now);
                }
                let mut effects = Vec::new();
                let heard = self
                    .status
                    .as_ref()
                    .is_some_and(|s| s.state == ExecutorState::Canceling);
                if !heard && since(self.watch.last_cancel) >= policy.cancel_interval {
                    effects.extend(self.cancel_effects(now));
                }
                effects.extend(self.query_if_silent(policy, now));
                effects
            }
            CommandState::Reconciling if !self.is_known_to_have_ended() => {
                // The executor knows no more than before, or does not answer.
                let last = self.watch.last_query.max(self.watch.last_sign);
                if since(last) > policy.lost_after {
                    let code = ErrorCode::from_code(self.error_code).unwrap_or(ErrorCode::None);
                    return self.unknown(code, self.error_msg.clone(), now);
                }
                Vec::new()
            }
            CommandState::Evaluating | CommandState::Reconciling => {
                if self.next_segment_is_due() {
                    return Vec::new();
                }
                if since(self.watch.evaluating) > policy.evaluation_timeout {
                    let why = format!(
                        "the evaluator did not answer within {:.0} s",
                        policy.evaluation_timeout.as_secs_f64()
                    );
                    return self.look_again(why, policy, now);
                }
                Vec::new()
            }
            CommandState::Succeeded | CommandState::Failed | CommandState::Canceled => {
                match self.settle_pending {
                    Some(to) if since(self.watch.last_settle) >= policy.settle_interval => {
                        self.watch.last_settle = now.steady;
                        vec![IssuerEffect::SettleExecutor { to }]
                    }
                    Some(_) | None => Vec::new(),
                }
            }
            CommandState::Unspecified
            | CommandState::Proposed
            | CommandState::Committed
            | CommandState::Rejected
            | CommandState::Unknown => Vec::new(),
        }
    }

    /// True when nothing of it can move any more, so that what is seen now is how it came out. LOST is
    /// not enough: a goal of it may still run, or begin to.
    pub(super) fn is_known_to_have_ended(&self) -> bool {
        self.status.as_ref().is_some_and(|status| {
            status.has_ended()
                && match status.control_end {
                    ControlEnd::Completed | ControlEnd::Aborted | ControlEnd::Preempted => true,
                    ControlEnd::Canceled => status.stop_confirmed(),
                    ControlEnd::None | ControlEnd::Lost => false,
                }
        })
    }

    pub(super) fn query_if_silent(&mut self, policy: &IssuerPolicy, now: Now) -> Vec<IssuerEffect> {
        let silent = now.steady.saturating_sub(self.watch.last_sign) >= policy.silent_after;
        let due = now.steady.saturating_sub(self.watch.last_query) >= policy.silent_after;
        if silent && due {
            self.watch.last_query = now.steady;
            vec![IssuerEffect::QueryExecutor]
        } else {
            Vec::new()
        }
    }
}

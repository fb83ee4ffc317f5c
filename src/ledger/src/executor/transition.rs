//! From a record and an event to the next record.

use eh_contract::error_code::ErrorCode;
use eh_contract::skill::DisconnectPolicy;
use eh_contract::state::{ControlEnd, ExecutorState as S, StopStage};
use eh_contract::Stamp;

use super::event::format_goal_id;
use super::{
    goal_status, ExecutorEffect, ExecutorError, ExecutorEvent, ExecutorRecord, FinalState, GoalId,
    Settlement, StopCause, SubGoalRecord, Transition,
};

type Stepped = Result<Transition, ExecutorError>;

/// Applies an event.
///
/// `now` is ROS time; it is only written down, nothing is decided by it.
///
/// # Errors
/// [`ExecutorError`] when the state does not allow the event; the record then stays as it is.
pub fn step(record: &ExecutorRecord, event: &ExecutorEvent, now: Stamp) -> Stepped {
    let at = At { record, event, now };
    match event {
        ExecutorEvent::Accept {
            resources,
            disconnect_policy,
        } => at.accept(resources, *disconnect_policy),
        ExecutorEvent::Reject {
            error_code,
            error_msg,
        } => at.reject(*error_code, error_msg),
        ExecutorEvent::Start { run_id } => at.start(run_id),
        ExecutorEvent::SendGoal {
            goal_id,
            action_name,
            name,
        } => at.send_goal(goal_id, action_name, name),
        ExecutorEvent::GoalRefused { goal_id, message } => at.end_goal(goal_id, |goal| {
            goal.refused = true;
            goal.message.clone_from(message);
        }),
        ExecutorEvent::GoalEnded {
            goal_id,
            status,
            code,
            message,
        } => {
            if !goal_status::is_terminal(*status) {
                return Err(ExecutorError::NotTerminal {
                    goal_id: format_goal_id(goal_id),
                    status: *status,
                });
            }
            at.end_goal(goal_id, |goal| {
                goal.status = *status;
                goal.code = *code;
                goal.message.clone_from(message);
            })
        }
        ExecutorEvent::Step { name, .. } => at.journal_step(name),
        ExecutorEvent::Complete => at.complete(),
        ExecutorEvent::Stop(cause) => at.stop(cause),
        ExecutorEvent::Standstill => at.standstill(),
        ExecutorEvent::StopTimeout { what } => at.stop_timeout(what),
        ExecutorEvent::Lose {
            error_code,
            error_msg,
        } => at.lose(*error_code, error_msg),
        ExecutorEvent::Settle {
            final_state,
            settled_by,
            reason,
        } => at.settle(*final_state, settled_by, reason),
    }
}

/// One event at one record.
struct At<'a> {
    record: &'a ExecutorRecord,
    event: &'a ExecutorEvent,
    now: Stamp,
}

/// How control ends.
struct End {
    control_end: ControlEnd,
    /// `None`: it stays as it is.
    stop_stage: Option<StopStage>,
    error: Option<(u16, String)>,
}

impl At<'_> {
    fn illegal(&self) -> Stepped {
        Err(ExecutorError::IllegalEvent {
            command_id: self.record.command.command_id.clone(),
            state: self.record.state,
            event: self.event.name(),
        })
    }

    fn empty(&self, field: &'static str) -> Stepped {
        Err(ExecutorError::EmptyField {
            command_id: self.record.command.command_id.clone(),
            event: self.event.name(),
            field,
        })
    }

    fn unchanged(&self) -> Transition {
        Transition {
            record: self.record.clone(),
            changed: false,
            effects: Vec::new(),
        }
    }

    /// The record with the next sequence, to be changed.
    fn next(&self) -> ExecutorRecord {
        let mut next = self.record.clone();
        next.sequence = next.sequence.saturating_add(1);
        next
    }

    fn done(record: ExecutorRecord, effects: Vec<ExecutorEffect>) -> Stepped {
        Ok(Transition {
            record,
            changed: true,
            effects,
        })
    }

    /// The end of control, after these effects.
    fn end(&self, end: End, mut effects: Vec<ExecutorEffect>) -> Stepped {
        effects.extend([ExecutorEffect::AnnounceEnd, ExecutorEffect::Answer]);
        Self::done(self.ended(self.next(), end), effects)
    }

    /// Refuses while a goal has no terminal status.
    fn all_goals_are_over(&self) -> Result<(), ExecutorError> {
        match self.record.open_goals().next() {
            None => Ok(()),
            Some(open) => Err(ExecutorError::GoalOpen {
                command_id: self.record.command.command_id.clone(),
                goal_id: format_goal_id(&open.goal_id),
            }),
        }
    }

    /// The cancel of every goal that may still run.
    fn cancel_open_goals(&self) -> Option<ExecutorEffect> {
        let open: Vec<GoalId> = self.record.open_goals().map(|g| g.goal_id).collect();
        (!open.is_empty()).then_some(ExecutorEffect::CancelGoals(open))
    }

    fn ended(&self, mut next: ExecutorRecord, end: End) -> ExecutorRecord {
        next.state = S::Ended;
        next.control_end = end.control_end;
        if let Some(stage) = end.stop_stage {
            next.stop_stage = stage;
            if stage == StopStage::Confirmed {
                next.stop_confirmed_at = self.now;
            }
        }
        if let Some((code, message)) = end.error {
            next.error_code = code;
            next.error_msg = message;
        }
        next.ended_at = self.now;
        next
    }

    fn accept(&self, resources: &[String], disconnect_policy: DisconnectPolicy) -> Stepped {
        match self.record.state {
            S::Received => {
                let mut next = self.next();
                next.state = S::Accepted;
                next.resources = resources.to_vec();
                next.disconnect_policy = disconnect_policy;
                Self::done(next, vec![])
            }
            S::Unspecified
            | S::Rejected
            | S::Accepted
            | S::Started
            | S::Canceling
            | S::Ended
            | S::Settled => self.illegal(),
        }
    }

    fn reject(&self, error_code: u16, error_msg: &str) -> Stepped {
        match self.record.state {
            S::Received | S::Accepted => {
                let mut next = self.next();
                next.state = S::Rejected;
                next.error_code = error_code;
                next.error_msg = error_msg.into();
                next.ended_at = self.now;
                Self::done(next, vec![ExecutorEffect::Answer])
            }
            S::Unspecified | S::Rejected | S::Started | S::Canceling | S::Ended | S::Settled => {
                self.illegal()
            }
        }
    }

    fn start(&self, run_id: &str) -> Stepped {
        match self.record.state {
            S::Accepted => {
                if run_id.is_empty() {
                    return self.empty("run_id");
                }
                let mut next = self.next();
                next.state = S::Started;
                next.run_id = run_id.into();
                next.started_at = self.now;
                Self::done(next, vec![ExecutorEffect::AnnounceStart])
            }
            S::Unspecified
            | S::Received
            | S::Rejected
            | S::Started
            | S::Canceling
            | S::Ended
            | S::Settled => self.illegal(),
        }
    }

    fn send_goal(&self, goal_id: &GoalId, action_name: &str, name: &str) -> Stepped {
        let record = self.record;
        match record.state {
            S::Started => {
                if action_name.is_empty() {
                    return self.empty("action_name");
                }
                if name.is_empty() {
                    return self.empty("name");
                }
                if record.sub_goal(goal_id).is_some() {
                    return Err(ExecutorError::DuplicateGoal {
                        command_id: record.command.command_id.clone(),
                        goal_id: format_goal_id(goal_id),
                    });
                }
                let known = |g: &SubGoalRecord| g.segment == record.segment && g.name == name;
                if record.sub_goals.iter().any(known) {
                    return Err(ExecutorError::DuplicateSubGoal {
                        command_id: record.command.command_id.clone(),
                        segment: record.segment,
                        name: name.into(),
                    });
                }
                let mut next = self.next();
                next.sub_goals.push(SubGoalRecord {
                    goal_id: *goal_id,
                    action_name: action_name.into(),
                    segment: record.segment,
                    name: name.into(),
                    sent_sequence: next.sequence,
                    ended_sequence: 0,
                    status: goal_status::UNKNOWN,
                    refused: false,
                    code: 0,
                    message: String::new(),
                });
                let effect = ExecutorEffect::SendGoal { goal_id: *goal_id };
                Self::done(next, vec![effect])
            }
            S::Unspecified
            | S::Received
            | S::Rejected
            | S::Accepted
            | S::Canceling
            | S::Ended
            | S::Settled => self.illegal(),
        }
    }

    fn journal_step(&self, name: &str) -> Stepped {
        match self.record.state {
            // In CANCELING too: what an execution leaves behind is cleaned up.
            S::Started | S::Canceling => {
                if name.is_empty() {
                    return self.empty("name");
                }
                Self::done(self.next(), vec![])
            }
            S::Unspecified | S::Received | S::Rejected | S::Accepted | S::Ended | S::Settled => {
                self.illegal()
            }
        }
    }

    fn complete(&self) -> Stepped {
        match self.record.state {
            // In CANCELING too: a cancel that comes too late changes nothing about what was done.
            S::Started | S::Canceling => {
                self.all_goals_are_over()?;
                let canceling = self.record.state == S::Canceling;
                if canceling && self.record.stop_cause != Some(StopCause::Caller) {
                    return self.illegal();
                }
                self.end(
                    End {
                        control_end: ControlEnd::Completed,
                        stop_stage: None,
                        error: None,
                    },
                    Vec::new(),
                )
            }
            S::Unspecified | S::Received | S::Rejected | S::Accepted | S::Ended | S::Settled => {
                self.illegal()
            }
        }
    }

    fn stop(&self, cause: &StopCause) -> Stepped {
        match self.record.state {
            S::Received => {
                let (error_code, error_msg) = cause.error();
                let mut next = self.next();
                next.state = S::Rejected;
                next.error_code = error_code;
                next.error_msg = error_msg;
                next.cancel_requested_at = self.now;
                next.ended_at = self.now;
                Self::done(next, vec![ExecutorEffect::Answer])
            }
            S::Accepted => {
                // Nothing was sent: that alone is a confirmed standstill of what this command moves.
                let mut next = self.ended(
                    self.next(),
                    End {
                        control_end: cause.end(),
                        stop_stage: Some(StopStage::Confirmed),
                        error: Some(cause.error()),
                    },
                );
                next.stop_cause = Some(cause.clone());
                next.cancel_requested_at = self.now;
                Self::done(next, vec![ExecutorEffect::Answer])
            }
            S::Started => {
                let mut next = self.next();
                next.state = S::Canceling;
                next.stop_cause = Some(cause.clone());
                next.stop_stage = StopStage::Requested;
                next.cancel_requested_at = self.now;
                let mut effects: Vec<ExecutorEffect> =
                    self.cancel_open_goals().into_iter().collect();
                effects.push(ExecutorEffect::MeasureStandstill);
                Self::done(next, effects)
            }
            // Asking again neither extends the budget nor is it dropped: the goals are asked again.
            S::Canceling => {
                let mut again = self.unchanged();
                again.effects.extend(self.cancel_open_goals());
                Ok(again)
            }
            S::Rejected | S::Ended | S::Settled => Ok(self.unchanged()),
            S::Unspecified => self.illegal(),
        }
    }

    fn standstill(&self) -> Stepped {
        match self.record.state {
            S::Canceling => {
                self.all_goals_are_over()?;
                let cause = self.record.stop_cause.clone().unwrap_or(StopCause::Caller);
                self.end(
                    End {
                        control_end: cause.end(),
                        stop_stage: Some(StopStage::Confirmed),
                        error: Some(cause.error()),
                    },
                    Vec::new(),
                )
            }
            S::Unspecified
            | S::Received
            | S::Rejected
            | S::Accepted
            | S::Started
            | S::Ended
            | S::Settled => self.illegal(),
        }
    }

    fn stop_timeout(&self, what: &str) -> Stepped {
        match self.record.state {
            S::Canceling => {
                let limit = self.record.command.stop_timeout().as_secs_f64();
                let message = format!(
                    "standstill was not confirmed within {limit:.1} s ({what}); the robot may still move: stop it with request_stop, look at it, then settle the command"
                );
                self.end(
                    End {
                        control_end: ControlEnd::Lost,
                        stop_stage: Some(StopStage::Unconfirmed),
                        error: Some((ErrorCode::StopUnconfirmed.code(), message)),
                    },
                    Vec::new(),
                )
            }
            S::Unspecified
            | S::Received
            | S::Rejected
            | S::Accepted
            | S::Started
            | S::Ended
            | S::Settled => self.illegal(),
        }
    }

    fn lose(&self, error_code: u16, error_msg: &str) -> Stepped {
        match self.record.state {
            S::Started | S::Canceling => {
                let canceling = self.record.state == S::Canceling;
                let cancels = self.cancel_open_goals().into_iter().collect();
                self.end(
                    End {
                        control_end: ControlEnd::Lost,
                        stop_stage: canceling.then_some(StopStage::Unconfirmed),
                        error: Some((error_code, error_msg.into())),
                    },
                    cancels,
                )
            }
            S::Unspecified | S::Received | S::Rejected | S::Accepted | S::Ended | S::Settled => {
                self.illegal()
            }
        }
    }

    fn settle(&self, final_state: FinalState, settled_by: &str, reason: &str) -> Stepped {
        match self.record.state {
            S::Ended => {
                if settled_by.is_empty() {
                    return self.empty("settled_by");
                }
                let mut next = self.next();
                next.state = S::Settled;
                next.settlement = Some(Settlement {
                    final_state,
                    settled_by: settled_by.into(),
                    reason: reason.into(),
                    at: self.now,
                });
                Self::done(next, vec![])
            }
            S::Settled => match &self.record.settlement {
                Some(s) if s.final_state != final_state => Err(ExecutorError::SettledOtherwise {
                    command_id: self.record.command.command_id.clone(),
                    was: s.final_state,
                    by: s.settled_by.clone(),
                }),
                Some(_) | None => Ok(self.unchanged()),
            },
            S::Unspecified
            | S::Received
            | S::Rejected
            | S::Accepted
            | S::Started
            | S::Canceling => self.illegal(),
        }
    }

    /// Ends one sub-goal. Also after the command itself has ended: what became of a goal that was lost is
    /// worth knowing, but it moves no state.
    fn end_goal(&self, goal_id: &GoalId, change: impl FnOnce(&mut SubGoalRecord)) -> Stepped {
        match self.record.state {
            S::Started | S::Canceling | S::Ended => {}
            S::Unspecified | S::Received | S::Rejected | S::Accepted | S::Settled => {
                return self.illegal()
            }
        }
        let mut next = self.next();
        let sequence = next.sequence;
        let Some(goal) = next.sub_goals.iter_mut().find(|g| &g.goal_id == goal_id) else {
            return Err(ExecutorError::UnknownGoal {
                command_id: self.record.command.command_id.clone(),
                goal_id: format_goal_id(goal_id),
            });
        };
        if goal.is_over() {
            return Ok(self.unchanged());
        }
        change(goal);
        goal.ended_sequence = sequence;
        Self::done(next, vec![])
    }
}

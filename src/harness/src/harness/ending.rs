//! The end of a task, of this process or of an earlier one.

use eh_contract::session::EventKind;
use eh_contract::state::{CommandState, TaskOutcome};
use eh_contract::ErrorCode;
use eh_ledger::issuer_event::{IssuerEvent, Note};
use eh_ledger::issuer_ledger::IssuerLedger;
use eh_ledger::issuer_policy::Now;
use serde_json::{json, Value};

use super::{outcome_name, Harness};
use crate::effect::Effect;
use crate::task::{Ending, Phase};

impl Harness {
    /// Ends the task: at once when nothing can be moving, else after the running command was stopped.
    pub(super) fn end_with(
        &mut self,
        outcome: TaskOutcome,
        code: ErrorCode,
        message: String,
        now: Now,
        out: &mut Vec<Effect>,
    ) {
        let Some(task) = self.task.as_mut() else {
            return;
        };
        let running = task
            .command_id()
            .filter(|_| matches!(task.phase, Phase::Executing | Phase::Learning { .. }))
            .map(String::from);
        let Some(command_id) = running else {
            let outcome = if outcome == TaskOutcome::Failed && !task.moved {
                TaskOutcome::Rejected
            } else {
                outcome
            };
            let outcome = match code {
                // Nothing was refused: the task itself used up what it had, or was stopped.
                ErrorCode::TimeBudgetExhausted
                | ErrorCode::StepBudgetExhausted
                | ErrorCode::PlannerFailure
                    if outcome == TaskOutcome::Rejected =>
                {
                    TaskOutcome::Failed
                }
                _ => outcome,
            };
            return self.finish(outcome, code, message, now, out);
        };
        if task.ending.is_none() {
            task.ending = Some(Ending {
                outcome,
                code,
                message: message.clone(),
            });
            task.text = format!("stops: {message}");
            task.dirty = true;
            // Another process must not go on with what was to end.
            task.save(now, out);
        }
        let Some(task) = self.task.as_ref() else {
            return;
        };
        if task.phase == Phase::Executing {
            self.apply(
                &command_id,
                IssuerEvent::CancelRequested { reason: message },
                now,
                out,
            );
        }
    }

    pub(super) fn finish(
        &mut self,
        outcome: TaskOutcome,
        code: ErrorCode,
        message: String,
        now: Now,
        out: &mut Vec<Effect>,
    ) {
        self.close_request(out);
        // Feedback of what just ended goes out before the result does.
        self.feedback(now, out);
        let summary = message.clone();
        self.journal(
            EventKind::TaskEnded,
            format!("{}: {message}", outcome_name(outcome)),
            json!({"outcome": outcome, "error_code": code.code()}),
            now,
            out,
        );
        let Some(mut task) = self.task.take() else {
            return;
        };
        task.record.outcome = outcome;
        task.record.error_code = code.code();
        task.record.error_msg = if code == ErrorCode::None {
            String::new()
        } else {
            message
        };
        task.record.summary = summary;
        task.record.ended_at = now.ros;
        task.record.elapsed = task.budget.elapsed(now.steady).as_secs_f64();
        // It has ended: there is nothing to go on with.
        task.record.checkpoint = Value::Null;
        out.push(Effect::SaveTask(Box::new(task.record.clone())));
        if self.surroundings.lease_token.take().is_some() || !task.record.request.dry_run {
            out.push(Effect::ReleaseLease);
        }
        out.push(Effect::Finish(Box::new(task.record)));
    }

    pub(super) fn end_interrupted(&mut self, now: Now, out: &mut Vec<Effect>) {
        let open = |ledger: &IssuerLedger, task_id: &str| {
            ledger
                .unsettled()
                .any(|r| r.command.task_id == task_id && r.state != CommandState::Unknown)
        };
        let (ended, still): (Vec<_>, Vec<_>) = std::mem::take(&mut self.interrupted)
            .into_iter()
            .partition(|t| !open(&self.ledger, &t.request.task_id));
        self.interrupted = still;
        for mut record in ended {
            let task_id = record.request.task_id.clone();
            let unknown = self
                .ledger
                .unsettled()
                .find(|r| r.command.task_id == task_id)
                .map(|r| r.command_id().to_owned());
            let (outcome, code, message) = match unknown {
                Some(id) => (
                    TaskOutcome::Unknown,
                    ErrorCode::CommandUnknown,
                    format!("the harness was restarted while the task ran, and it is not known what became of command {id}; look at the robot, then use settle_command"),
                ),
                None => (
                    TaskOutcome::Failed,
                    ErrorCode::TaskShuttingDown,
                    "the harness was restarted while the task ran; its commands are settled and nothing runs any more: send the task again under a new task_id".to_owned(),
                ),
            };
            let note = Note {
                kind: EventKind::TaskEnded,
                command_id: String::new(),
                run_id: String::new(),
                text: format!("{}: {message}", outcome_name(outcome)),
                payload: json!({"outcome": outcome, "error_code": code.code()}),
            };
            self.note(&task_id, 0, note, now, out);
            record.outcome = outcome;
            record.error_code = code.code();
            record.error_msg.clone_from(&message);
            record.summary = message;
            record.ended_at = now.ros;
            record.elapsed = now.ros.since(record.received_at).as_secs_f64();
            out.push(Effect::SaveTask(Box::new(record.clone())));
            out.push(Effect::Finish(Box::new(record)));
        }
    }
}

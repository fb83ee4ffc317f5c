//! Feedback and the session log.

use eh_contract::session::{EventKind, SessionEvent};
use eh_contract::state::CommandState;
use eh_ledger::issuer_event::Note;
use eh_ledger::issuer_policy::Now;
use serde_json::Value;

use super::Harness;
use crate::effect::{Effect, TaskFeedback};

impl Harness {
    pub(super) fn feedback(&mut self, now: Now, out: &mut Vec<Effect>) {
        let Some(task) = self.task.as_mut() else {
            return;
        };
        let due = now.steady.saturating_sub(task.last_feedback) >= self.settings.waits.feedback;
        if !(task.dirty || due) {
            return;
        }
        let command = task.command_id().and_then(|id| self.ledger.get(id));
        let mut feedback = TaskFeedback {
            task_id: task.id().into(),
            step: task.budget.steps(),
            max_steps: task.budget.limits().steps,
            phase: task.shown_phase(command),
            text: task.text.clone(),
            command_id: command
                .map(|c| c.command_id().to_owned())
                .unwrap_or_default(),
            skill: command.map(|c| c.command.skill.clone()).unwrap_or_default(),
            command_state: command.map_or(CommandState::Unspecified, |c| c.state),
            status: command.and_then(|c| c.status.clone()),
            finished_step: None,
            elapsed: task.budget.elapsed(now.steady),
            remaining: task.budget.remaining(now.steady),
        };
        let mut finished = std::mem::take(&mut task.finished).into_iter();
        loop {
            feedback.finished_step = finished.next();
            let more = feedback.finished_step.is_some();
            if more || task.dirty || due {
                out.push(Effect::Feedback(Box::new(feedback.clone())));
            }
            task.dirty = false;
            task.last_feedback = now.steady;
            if finished.len() == 0 {
                break;
            }
        }
    }

    pub(super) fn journal(
        &mut self,
        kind: EventKind,
        text: String,
        payload: Value,
        now: Now,
        out: &mut Vec<Effect>,
    ) {
        let Some(task) = self.task.as_ref() else {
            return;
        };
        let (task_id, plan_version) = (task.id().to_owned(), task.plan_version());
        let command_id = task.command_id().unwrap_or_default().to_owned();
        self.note(
            &task_id,
            plan_version,
            Note {
                kind,
                command_id,
                run_id: String::new(),
                text,
                payload,
            },
            now,
            out,
        );
    }

    pub(super) fn note(
        &mut self,
        task_id: &str,
        plan_version: u32,
        note: Note,
        now: Now,
        out: &mut Vec<Effect>,
    ) {
        let sequence = self.sequences.entry(task_id.to_owned()).or_default();
        *sequence = sequence.saturating_add(1);
        out.push(Effect::Journal(Box::new(SessionEvent {
            robot_id: self.settings.robot_id.clone(),
            task_id: task_id.into(),
            command_id: note.command_id,
            run_id: note.run_id,
            plan_version,
            sequence: *sequence,
            stamp: now.ros,
            kind: note.kind,
            text: note.text,
            payload: note.payload,
            model_version: self.settings.model_version.clone(),
            config_version: self.settings.config_version.clone(),
            evidence: Vec::new(),
        })));
    }
}

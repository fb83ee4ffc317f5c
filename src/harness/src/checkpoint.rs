//! What of a running task is durable beside its record, so that another process can go on with it.

use std::time::Duration;

use eh_contract::scene::SceneObject;
use eh_contract::session::TaskRecord;
use eh_contract::Stamp;
use eh_ledger::issuer_policy::Now;
use eh_planner::planner::{Answer, Program};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::budget::{Budget, BudgetLimits, BudgetUsed};
use crate::effect::Effect;
use crate::task::{Ending, Step, Task};

/// Longest time between the checkpoint and the next process that counts: a clock that jumped must not use
/// up a budget by itself.
const LONGEST_ABSENCE: Duration = Duration::from_secs(24 * 3600);

/// The durable part of a [`Task`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Checkpoint {
    /// ROS time of the checkpoint.
    stamp: Stamp,
    used: BudgetUsed,
    start: Option<SceneObject>,
    answers: Vec<Answer>,
    step: Option<Step>,
    moved: bool,
    ending: Option<Ending>,
    executors: Vec<String>,
}

/// The command of the step that a task was in at its last checkpoint. It is wanted in
/// [`Restored::commands`](crate::Restored) even when it has ended: what follows from it may not be done.
pub fn command_in_work(record: &TaskRecord) -> Option<String> {
    let step = record.checkpoint.get("step")?;
    Some(step.get("command_id")?.as_str()?.to_owned())
}

impl Task {
    /// Makes durable what another process needs to go on.
    pub fn save(&mut self, now: Now, out: &mut Vec<Effect>) {
        let checkpoint = Checkpoint {
            stamp: now.ros,
            used: self.budget.used(now.steady),
            start: self.start.clone(),
            answers: self.answers.clone(),
            step: self.step.clone(),
            moved: self.moved,
            ending: self.ending.clone(),
            executors: self.executors.clone(),
        };
        // Strings, numbers and maps with text keys: this can't fail, and null means less to go on with.
        self.record.checkpoint = serde_json::to_value(checkpoint).unwrap_or(Value::Null);
        out.push(Effect::SaveTask(Box::new(self.record.clone())));
    }

    /// The task of a record as it stood at its last checkpoint. The time since then counts.
    ///
    /// # Errors
    /// The record, when it can't be read: another release wrote it.
    pub fn restored(
        record: TaskRecord,
        limits: BudgetLimits,
        now: Now,
    ) -> Result<Task, Box<TaskRecord>> {
        let checkpoint = match &record.checkpoint {
            Value::Null => Ok(Checkpoint {
                stamp: record.received_at,
                ..Checkpoint::default()
            }),
            value => serde_json::from_value(value.clone()),
        };
        let program: Result<Option<Program>, _> = match &record.program {
            Value::Null => Ok(None),
            value => serde_json::from_value(value.clone()).map(Some),
        };
        let (Ok(checkpoint), Ok(program)) = (checkpoint, program) else {
            return Err(Box::new(record));
        };
        let absence = now.ros.since(checkpoint.stamp).min(LONGEST_ABSENCE);
        let mut used = checkpoint.used;
        used.time = used.time.saturating_add(absence);
        let mut task = Task::new(record.request.clone(), limits, now);
        task.budget = Budget::resumed(*task.budget.limits(), used, now.steady);
        task.record = record;
        task.program = program;
        task.start = checkpoint.start;
        task.answers = checkpoint.answers;
        task.step = checkpoint.step.map(|step| Step {
            began: now.steady,
            ..step
        });
        task.moved = checkpoint.moved;
        task.ending = checkpoint.ending;
        task.executors = checkpoint.executors;
        Ok(task)
    }
}

//! What a task leaves behind: its append-only events and the reports of its steps.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::state::{CommandState, TaskOutcome};
use crate::time::Stamp;
use crate::verdict::Outcome;

/// What happened (SessionEvent.kind).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A task was taken.
    TaskReceived,
    /// A task that an earlier process left was taken up.
    TaskResumed,
    /// The planner made or changed its plan.
    Plan,
    /// The planner wants a skill.
    Proposed,
    /// A proposal or a command was refused; nothing was started.
    Rejected,
    /// A command is durable.
    Committed,
    /// Its goal's UUID is durable and it is being sent.
    Dispatched,
    /// The executor acknowledged it.
    Accepted,
    /// The executor started it.
    Started,
    /// A cancel was asked.
    CancelRequested,
    /// Standstill was measured.
    StopConfirmed,
    /// Control has ended.
    ControlEnded,
    /// The evaluator answered.
    Judged,
    /// The command reached a final state, or UNKNOWN.
    Settled,
    /// A person was asked.
    HumanRequest,
    /// A person answered.
    HumanAnswered,
    /// The task ended.
    TaskEnded,
}

impl EventKind {
    /// Every kind.
    pub const ALL: &'static [EventKind] = &[
        EventKind::TaskReceived,
        EventKind::TaskResumed,
        EventKind::Plan,
        EventKind::Proposed,
        EventKind::Rejected,
        EventKind::Committed,
        EventKind::Dispatched,
        EventKind::Accepted,
        EventKind::Started,
        EventKind::CancelRequested,
        EventKind::StopConfirmed,
        EventKind::ControlEnded,
        EventKind::Judged,
        EventKind::Settled,
        EventKind::HumanRequest,
        EventKind::HumanAnswered,
        EventKind::TaskEnded,
    ];

    /// The name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            EventKind::TaskReceived => "task_received",
            EventKind::TaskResumed => "task_resumed",
            EventKind::Plan => "plan",
            EventKind::Proposed => "proposed",
            EventKind::Rejected => "rejected",
            EventKind::Committed => "committed",
            EventKind::Dispatched => "dispatched",
            EventKind::Accepted => "accepted",
            EventKind::Started => "started",
            EventKind::CancelRequested => "cancel_requested",
            EventKind::StopConfirmed => "stop_confirmed",
            EventKind::ControlEnded => "control_ended",
            EventKind::Judged => "judged",
            EventKind::Settled => "settled",
            EventKind::HumanRequest => "human_request",
            EventKind::HumanAnswered => "human_answered",
            EventKind::TaskEnded => "task_ended",
        }
    }

    /// The kind of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|k| k.name() == name)
    }
}

/// One event of a task; field by field in `msg/SessionEvent.msg`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionEvent {
    /// Robot.
    pub robot_id: String,
    /// Task.
    pub task_id: String,
    /// Command; empty for none.
    pub command_id: String,
    /// Run; empty for none.
    pub run_id: String,
    /// Plan of the task.
    pub plan_version: u32,
    /// Counts the events of the task from 1 without a gap.
    pub sequence: u64,
    /// ROS time.
    pub stamp: Stamp,
    /// What happened.
    pub kind: EventKind,
    /// One sentence for people.
    pub text: String,
    /// Details.
    pub payload: Value,
    /// Version of the planner or model.
    pub model_version: String,
    /// Version of the configuration.
    pub config_version: String,
    /// References to the sensor frames used.
    pub evidence: Vec<String>,
}

/// One turn of the loop of a task, as it ended; field by field in `msg/StepReport.msg`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StepReport {
    /// Step from 1.
    pub step: u32,
    /// Skill.
    pub skill: String,
    /// Its arguments.
    pub arguments: Value,
    /// Why the planner wanted it.
    pub reason: String,
    /// Command; empty when the proposal was refused.
    pub command_id: String,
    /// Run; empty when nothing was started.
    pub run_id: String,
    /// State reached.
    pub command_state: CommandState,
    /// Outcome of the verdict; `None` when the skill is not evaluated or was not judged.
    pub verdict: Option<Outcome>,
    /// What decided.
    pub verdict_reason: String,
    /// Summaries of the evidence behind the verdict.
    pub evidence: Vec<String>,
    /// Predicates that the verdict found to hold, whatever its outcome. Not on the wire: the verdict itself
    /// is there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub measured: Vec<Value>,
    /// Error code; 0 for none.
    pub error_code: u16,
    /// Why, with the value, the limit and what to do.
    pub error_msg: String,
    /// Time from commit to settlement \[s\].
    pub duration: f64,
}

/// What a task asks for; field by field in the goal of `action/ExecuteTask.action`, with the defaults
/// filled in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskRequest {
    /// Name of the task.
    pub task_id: String,
    /// What to do.
    pub instruction: String,
    /// Longest time for the whole task.
    pub time_budget: Duration,
    /// Most steps of the loop.
    pub max_steps: u32,
    /// Permissions granted, the default ones included; sorted, each once.
    pub permissions: Vec<String>,
    /// Plan and check only.
    pub dry_run: bool,
}

/// A task as it is kept: enough to answer for it after a restart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskRecord {
    /// What was asked for.
    pub request: TaskRequest,
    /// How it ended; [`TaskOutcome::Unspecified`] while it runs.
    pub outcome: TaskOutcome,
    /// Code of ExecuteTask; 0 for none.
    pub error_code: u16,
    /// Why, with the value, the limit and what to do.
    pub error_msg: String,
    /// What was done, one sentence.
    pub summary: String,
    /// Every step in order.
    pub steps: Vec<StepReport>,
    /// ROS time of acceptance.
    pub received_at: Stamp,
    /// ROS time of the end; [`Stamp::NEVER`] while it runs.
    pub ended_at: Stamp,
    /// Time from acceptance to the end \[s\].
    pub elapsed: f64,
    /// The planner's program as it stood at the last turn; null before the first.
    pub program: Value,
    /// What another process needs beside the program to go on with the task; its form belongs to the
    /// harness. Null: nothing but what is above.
    pub checkpoint: Value,
}

impl TaskRecord {
    /// True until it ended.
    pub fn is_running(&self) -> bool {
        self.outcome == TaskOutcome::Unspecified
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_events_come_back_and_agree_with_json() {
        for kind in EventKind::ALL {
            assert_eq!(EventKind::from_name(kind.name()), Some(*kind));
            assert_eq!(
                serde_json::to_value(kind).unwrap(),
                Value::from(kind.name())
            );
        }
        assert_eq!(EventKind::from_name("nonsense"), None);
    }
}

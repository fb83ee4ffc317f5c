//! What the loop wants to be done, as data, in order.

use std::sync::Arc;
use std::time::Duration;

use eh_contract::command::{Envelope, SkillCommand};
use eh_contract::scene::SceneSnapshot;
use eh_contract::session::{SessionEvent, StepReport, TaskRecord};
use eh_contract::skill::SkillDescriptor;
use eh_contract::state::CommandState;
use eh_contract::status::SkillStatus;
use eh_contract::verdict::Verdict;
use eh_contract::Stamp;
use eh_ledger::issuer::IssuerRecord;
use eh_ledger::issuer_event::Finality;
use eh_planner::planner::{Answer, Program};
use serde_json::Value;

/// Where in a step the loop is (ExecuteTask `PHASE_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskPhase {
    /// Not filled.
    #[default]
    Unspecified = 0,
    /// Reads the scene.
    Perceive = 1,
    /// Waits for the planner.
    Reason = 2,
    /// Checks a proposal.
    Decide = 3,
    /// A command runs.
    Execute = 4,
    /// Writes down what a step changed.
    Learn = 5,
    /// Waits for a verdict.
    Judge = 6,
    /// Waits for a person.
    WaitHuman = 7,
    /// Waits for measured standstill.
    Canceling = 8,
}

impl TaskPhase {
    /// The number in messages.
    pub const fn to_wire(self) -> u8 {
        self as u8
    }
}

/// What the client of a task is told.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskFeedback {
    /// Task.
    pub task_id: String,
    /// Step from 1, and the budget.
    pub step: u32,
    /// Most steps.
    pub max_steps: u32,
    /// Where the loop is.
    pub phase: TaskPhase,
    /// One sentence for people.
    pub text: String,
    /// Command in work; empty for none.
    pub command_id: String,
    /// Its skill.
    pub skill: String,
    /// Its state.
    pub command_state: CommandState,
    /// The executor's newest word on it.
    pub status: Option<SkillStatus>,
    /// The step that ended just now.
    pub finished_step: Option<StepReport>,
    /// Time used.
    pub elapsed: Duration,
    /// Time left.
    pub remaining: Duration,
}

/// What a request to a person is about (HumanRequest `KIND_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HumanRequestKind {
    /// A question whose answer the task needs.
    Question = 1,
    /// May this command run?
    Approval = 2,
    /// A command is UNKNOWN.
    Settle = 3,
    /// For information.
    Notice = 4,
}

/// The harness needs a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HumanRequest {
    /// Name.
    pub request_id: String,
    /// Task.
    pub task_id: String,
    /// Command; empty for none.
    pub command_id: String,
    /// What it is about.
    pub kind: HumanRequestKind,
    /// The question.
    pub question: String,
    /// Possible answers; empty: free text.
    pub options: Vec<String>,
    /// ROS time.
    pub stamp: Stamp,
    /// How long it stays open; zero: until it is settled.
    pub expires_in: Duration,
    /// No answer is taken any more.
    pub closed: bool,
}

/// What has to be done, in order. When a `Save…` or [`Effect::Journal`] fails,
/// [`without_disk`](Effect::without_disk) says what becomes of what follows, and
/// [`crate::event::Event::StorageFailed`] is given back; see [`crate::performing::Desk`].
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Make a command durable.
    SaveCommand(Box<IssuerRecord>),
    /// Make a task durable.
    SaveTask(Box<TaskRecord>),
    /// Make an event durable, then publish it.
    Journal(Box<SessionEvent>),
    /// Read the whole scene graph.
    ReadScene {
        /// Comes back with the answer.
        ticket: u64,
    },
    /// Let the planner read the instruction.
    Begin {
        /// Comes back with the answer.
        ticket: u64,
        /// The instruction.
        instruction: String,
        /// The scene, with the start place in it.
        scene: Arc<SceneSnapshot>,
    },
    /// Let the planner say what comes next.
    Plan(Box<PlanRequest>),
    /// Acquire the control lease and renew it until it is released.
    AcquireLease,
    /// Release the control lease.
    ReleaseLease,
    /// Send a goal under its UUID, once.
    SendGoal(Box<GoalRequest>),
    /// Cancel a goal by its UUID.
    CancelGoal {
        /// Command.
        command_id: String,
        /// Action.
        action_name: String,
        /// UUID.
        goal_id: [u8; 16],
    },
    /// Ask the executor for a command.
    QueryExecutor {
        /// Command.
        command_id: String,
        /// Node name of the executor.
        executor: String,
    },
    /// Ask the evaluator for a verdict.
    Evaluate {
        /// Command.
        command_id: String,
        /// Run.
        run_id: String,
        /// Segment.
        segment: u32,
    },
    /// Tell the executor what became of a command.
    SettleExecutor {
        /// Command.
        command_id: String,
        /// Node name of the executor.
        executor: String,
        /// What.
        to: Finality,
        /// Who says so.
        settled_by: String,
        /// On what grounds.
        reason: String,
        /// Token of the lease under which it ran; 0 for a person.
        fencing_token: u64,
    },
    /// Write a skill's effects into the scene graph.
    ApplyEffects {
        /// Command.
        command_id: String,
        /// The SUCCESS verdict.
        verdict: Box<Verdict>,
        /// Bound effects.
        effects: Value,
    },
    /// Publish a request to people.
    AskHuman(HumanRequest),
    /// Tell the client of the running task.
    Feedback(Box<TaskFeedback>),
    /// The task has ended; tell everybody who waits for it.
    Finish(Box<TaskRecord>),
    /// Something that an operator should read.
    Warn(String),
}

impl Effect {
    /// Where a command is written.
    pub const SAVE_COMMAND: &'static str = "harness.save_command";
    /// Where a task is written.
    pub const SAVE_TASK: &'static str = "harness.save_task";
    /// Where events are written, several at a time.
    pub const JOURNAL: &'static str = "harness.journal";

    /// Every name that [`Effect::failpoint`] gives.
    pub const FAILPOINTS: &'static [&'static str] = &[
        Self::SAVE_COMMAND,
        Self::SAVE_TASK,
        Self::JOURNAL,
        "harness.read_scene",
        "harness.begin",
        "harness.plan",
        "harness.acquire_lease",
        "harness.release_lease",
        "harness.send_goal",
        "harness.cancel_goal",
        "harness.query_executor",
        "harness.evaluate",
        "harness.settle_executor",
        "harness.apply_effects",
        "harness.ask_human",
        "harness.feedback",
        "harness.finish",
        "harness.warn",
    ];

    /// Its name, stable: where a crash can be put right before or after it is performed.
    pub const fn failpoint(&self) -> &'static str {
        match self {
            Effect::SaveCommand(_) => Self::SAVE_COMMAND,
            Effect::SaveTask(_) => Self::SAVE_TASK,
            Effect::Journal(_) => Self::JOURNAL,
            Effect::ReadScene { .. } => "harness.read_scene",
            Effect::Begin { .. } => "harness.begin",
            Effect::Plan(_) => "harness.plan",
            Effect::AcquireLease => "harness.acquire_lease",
            Effect::ReleaseLease => "harness.release_lease",
            Effect::SendGoal(_) => "harness.send_goal",
            Effect::CancelGoal { .. } => "harness.cancel_goal",
            Effect::QueryExecutor { .. } => "harness.query_executor",
            Effect::Evaluate { .. } => "harness.evaluate",
            Effect::SettleExecutor { .. } => "harness.settle_executor",
            Effect::ApplyEffects { .. } => "harness.apply_effects",
            Effect::AskHuman(_) => "harness.ask_human",
            Effect::Feedback(_) => "harness.feedback",
            Effect::Finish(_) => "harness.finish",
            Effect::Warn(_) => "harness.warn",
        }
    }

    /// What becomes of it while something before it is not durable.
    pub const fn without_disk(&self) -> WithoutDisk {
        match self {
            Effect::CancelGoal { .. }
            | Effect::QueryExecutor { .. }
            | Effect::ReleaseLease
            | Effect::AskHuman(_)
            | Effect::Feedback(_)
            | Effect::Warn(_) => WithoutDisk::Does,
            Effect::SaveCommand(_)
            | Effect::SaveTask(_)
            | Effect::Journal(_)
            | Effect::Evaluate { .. }
            | Effect::SettleExecutor { .. }
            | Effect::ApplyEffects { .. }
            | Effect::Finish(_) => WithoutDisk::Waits,
            Effect::ReadScene { .. }
            | Effect::Begin { .. }
            | Effect::Plan(_)
            | Effect::AcquireLease
            | Effect::SendGoal(_) => WithoutDisk::IsDropped,
        }
    }
}

/// What becomes of an effect while something before it is not durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithoutDisk {
    /// It is done at once: it stops, releases or shows.
    Does,
    /// It is done when everything before it is durable: it says that something has ended.
    Waits,
    /// It is not done at all: it would go on, and the task ends.
    IsDropped,
}

/// See [`Effect::Plan`].
#[derive(Clone, Debug, PartialEq)]
pub struct PlanRequest {
    /// Comes back with the answer.
    pub ticket: u64,
    /// The planner's program.
    pub program: Program,
    /// The scene, with the start place in it.
    pub scene: Arc<SceneSnapshot>,
    /// Skills on offer.
    pub skills: Vec<SkillDescriptor>,
    /// Every step so far.
    pub history: Vec<StepReport>,
    /// Every answer of a person so far.
    pub answers: Vec<Answer>,
    /// ROS time.
    pub now: Stamp,
}

/// See [`Effect::SendGoal`].
#[derive(Clone, Debug, PartialEq)]
pub struct GoalRequest {
    /// Action.
    pub action_name: String,
    /// UUID.
    pub goal_id: [u8; 16],
    /// Segment.
    pub segment: u32,
    /// The command.
    pub command: SkillCommand,
    /// What may differ between two sendings.
    pub envelope: Envelope,
}

//! What can happen to the loop.

use eh_contract::command::Beacon;
use eh_contract::scene::SceneSnapshot;
use eh_contract::status::SkillStatus;
use eh_contract::verdict::Verdict;
use eh_contract::ErrorCode;
use eh_planner::planner::{PlannerError, Program, Turn};

use crate::surroundings::{Catalog, StopView};

/// What can happen to the loop. Answers that belong to nothing in work any more are dropped.
#[derive(Clone, Debug)]
pub enum Event {
    /// An executor published its skills.
    CatalogSeen(Catalog),
    /// An executor's clock ticked.
    BeaconSeen(Beacon),
    /// The protection node published its state.
    StopSeen(StopView),
    /// The evaluator's server is there, or is not.
    EvaluatorSeen(bool),
    /// The control lease is held now.
    LeaseGranted {
        /// Its token.
        token: u64,
    },
    /// The control lease was refused.
    LeaseRefused {
        /// Why.
        reason: String,
    },
    /// The control lease is not held any more.
    LeaseLost {
        /// Why.
        reason: String,
        /// Somebody else has it: it is not asked for again.
        taken: bool,
    },
    /// The scene graph answered.
    SceneRead {
        /// Of the request.
        ticket: u64,
        /// The scene, or why there is none.
        result: Result<Box<SceneSnapshot>, String>,
    },
    /// The planner read the instruction.
    Begun {
        /// Of the request.
        ticket: u64,
        /// Its program, or why it refuses.
        result: Result<Box<Program>, PlannerError>,
    },
    /// The planner said what comes next.
    Turned {
        /// Of the request.
        ticket: u64,
        /// The program after the turn.
        program: Box<Program>,
        /// What comes next.
        turn: Turn,
    },
    /// The planner broke down.
    PlannerFailed {
        /// Of the request.
        ticket: u64,
        /// Why.
        reason: String,
    },
    /// An executor's action server took the goal.
    GoalAccepted {
        /// Command.
        command_id: String,
    },
    /// An executor's action server refused the goal, or its result says that nothing was started.
    GoalRefused {
        /// Command.
        command_id: String,
        /// Code.
        code: ErrorCode,
        /// Why.
        reason: String,
    },
    /// An executor told where a command is.
    Status(Box<SkillStatus>),
    /// An executor was asked and does not know the command.
    CommandNotFound {
        /// Command.
        command_id: String,
    },
    /// The evaluator answered.
    Judged {
        /// Command.
        command_id: String,
        /// The verdict, or why there is none.
        result: Result<Box<Verdict>, String>,
    },
    /// The executor released the command, or never had it.
    SettleConfirmed {
        /// Command.
        command_id: String,
    },
    /// The scene graph took the effects, or did not.
    EffectsApplied {
        /// Command.
        command_id: String,
        /// Why not.
        result: Result<(), String>,
    },
    /// The client wants the task to end.
    CancelTask {
        /// Task.
        task_id: String,
        /// Who and why.
        reason: String,
    },
    /// Something could not be made durable. It is tried again until it is.
    StorageFailed {
        /// Why.
        reason: String,
    },
    /// Everything is durable again.
    StorageWorks,
    /// The process is asked to end.
    Shutdown,
    /// Time has passed.
    Tick,
}

//! What an executor wants to be done, as data, in order.

use eh_contract::command::Precondition;
use eh_contract::run_event::RunEvent;
use eh_contract::skill::{DisconnectPolicy, SkillDescriptor};
use eh_contract::state::ExecutorState;
use eh_contract::status::SkillStatus;
use eh_contract::{ErrorCode, Stamp};
use eh_ledger::executor::GoalId;
use eh_skills::planning_scene::SceneWanted;
use eh_skills::Goal;

use crate::event::Caller;
use crate::server::Server;

/// With which status a goal of `execute_skill` ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerStatus {
    /// Control completed.
    Succeeded,
    /// Canceled, and everything stands still.
    Canceled,
    /// Everything else.
    Aborted,
}

/// The end of a goal of `execute_skill`.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Who gets it.
    pub caller: Caller,
    /// Status of the goal.
    pub status: AnswerStatus,
    /// Code; 0 for none.
    pub error_code: u16,
    /// Its message.
    pub error_msg: String,
    /// The command as it is.
    pub skill_status: SkillStatus,
}

/// The answer of the service `settle`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettleAnswer {
    /// Who gets it.
    pub caller: Caller,
    /// Code; [`ErrorCode::None`] when it is settled.
    pub error_code: ErrorCode,
    /// Its message.
    pub error_msg: String,
    /// The command's state; `None` when it is not known here.
    pub state: Option<ExecutorState>,
}

/// What protection has to know of a run that may move the base; field by field in `msg/DeclaredRun.msg`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredRun {
    /// Node name of the executor.
    pub executor: String,
    /// One process life of it.
    pub boot_id: String,
    /// The run.
    pub run_id: String,
    /// The command.
    pub command_id: String,
    /// Token under which it was sent.
    pub fencing_token: u64,
    /// What happens when the lease expires.
    pub disconnect_policy: DisconnectPolicy,
    /// False when it has ended.
    pub active: bool,
}

/// How much a line of the log matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// In the course of things.
    Info,
    /// Somebody may have to do something.
    Warn,
    /// Something is broken.
    Error,
}

/// What has to be done, in this order. Everything that has to be durable before it is.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// End a goal of `execute_skill`.
    Answer(Box<Answer>),
    /// Tell a client of `execute_skill` how its command is.
    Feedback {
        /// Who.
        caller: Caller,
        /// The command as it is.
        skill_status: Box<SkillStatus>,
    },
    /// Answer a request of `settle`.
    SettleAnswer(SettleAnswer),
    /// Ask the scene graph whether these hold. Comes back as `SceneChecked`.
    CheckScene {
        /// Command.
        command_id: String,
        /// What has to hold.
        preconditions: Vec<Precondition>,
    },
    /// Send a goal under its UUID, once: this effect is never given out twice for one. Comes back as
    /// `GoalAcknowledged` or `GoalNotSent`.
    SendGoal {
        /// To whom.
        server: Server,
        /// UUID, durable.
        goal_id: GoalId,
        /// What.
        goal: Box<Goal>,
    },
    /// Ask a server for the result of a goal. Comes back as `ResultArrived` or `ResultUnknown`; it is
    /// asked again by time, so an answer may be missed.
    RequestResult {
        /// Whom.
        server: Server,
        /// Goal.
        goal_id: GoalId,
    },
    /// Ask a server to cancel a goal; what comes of it is learned from its result.
    CancelGoal {
        /// Whom.
        server: Server,
        /// Goal.
        goal_id: GoalId,
    },
    /// Make of ours in the arm's planning scene what is wanted, one change after the other. Comes back as
    /// `SceneChanged`.
    ChangeScene {
        /// Command.
        command_id: String,
        /// Name of the step.
        name: String,
        /// What of ours is to be there.
        wanted: Box<SceneWanted>,
    },
    /// Publish a run event.
    RunEvent(Box<RunEvent>),
    /// Publish a declared run.
    Declare(DeclaredRun),
    /// Publish the status of every command that is not settled and of the last ones that are.
    PublishStatuses {
        /// The statuses.
        statuses: Vec<SkillStatus>,
        /// ROS time.
        stamp: Stamp,
    },
    /// Publish the skills that are offered from now on.
    PublishCatalog(Vec<SkillDescriptor>),
    /// Write a line to the log.
    Log {
        /// How much it matters.
        level: Level,
        /// The line.
        text: String,
    },
}

impl Effect {
    /// Whether it only tells somebody how things are. What moves, stops or guards the robot does not wait for
    /// that.
    pub(crate) const fn only_tells(&self) -> bool {
        match self {
            Effect::Answer(_)
            | Effect::Feedback { .. }
            | Effect::SettleAnswer(_)
            | Effect::PublishStatuses { .. }
            | Effect::Log { .. } => true,
            Effect::CheckScene { .. }
            | Effect::SendGoal { .. }
            | Effect::RequestResult { .. }
            | Effect::CancelGoal { .. }
            | Effect::ChangeScene { .. }
            | Effect::RunEvent(_)
            | Effect::Declare(_)
            | Effect::PublishCatalog(_) => false,
        }
    }

    /// Every name that [`Effect::failpoint`] gives.
    pub const FAILPOINTS: &'static [&'static str] = &[
        "executor.answer",
        "executor.feedback",
        "executor.settle_answer",
        "executor.check_scene",
        "executor.send_goal",
        "executor.request_result",
        "executor.cancel_goal",
        "executor.change_scene",
        "executor.run_event",
        "executor.declare",
        "executor.publish_statuses",
        "executor.publish_catalog",
        "executor.log",
    ];

    /// Stable name of the place in a life where this is done, for those who make crashes.
    pub const fn failpoint(&self) -> &'static str {
        match self {
            Effect::Answer(_) => "executor.answer",
            Effect::Feedback { .. } => "executor.feedback",
            Effect::SettleAnswer(_) => "executor.settle_answer",
            Effect::CheckScene { .. } => "executor.check_scene",
            Effect::SendGoal { .. } => "executor.send_goal",
            Effect::RequestResult { .. } => "executor.request_result",
            Effect::CancelGoal { .. } => "executor.cancel_goal",
            Effect::ChangeScene { .. } => "executor.change_scene",
            Effect::RunEvent(_) => "executor.run_event",
            Effect::Declare(_) => "executor.declare",
            Effect::PublishStatuses { .. } => "executor.publish_statuses",
            Effect::PublishCatalog(_) => "executor.publish_catalog",
            Effect::Log { .. } => "executor.log",
        }
    }
}

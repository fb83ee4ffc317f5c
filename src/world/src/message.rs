//! What processes say to each other: news that is published, requests and their answers.

use std::sync::Arc;

use eh_contract::command::{Beacon, Precondition};
use eh_contract::geometry::Pose;
use eh_contract::perception::DetectionFrame;
use eh_contract::run_event::RunEvent;
use eh_contract::scene::SceneSnapshot;
use eh_contract::session::TaskRecord;
use eh_contract::state::{CommandState, StopStage};
use eh_contract::status::SkillStatus;
use eh_contract::verdict::Verdict;
use eh_contract::{ErrorCode, Stamp};
use eh_executor::{NativeEnd, Server};
use eh_harness::admission::TaskGoal;
use eh_harness::effect::{GoalRequest, HumanRequest};
use eh_harness::surroundings::Catalog;
use eh_ledger::admission::SceneCheck;
use eh_ledger::executor::GoalId;
use eh_ledger::issuer_event::Finality;
use eh_protection::authority::DeclaredRun;
use eh_protection::lease::LeaseView;
use eh_sim::{JointState, Scan, Velocity};
use eh_skills::planning_scene::{SceneDifference, SceneKnown};
use eh_skills::Goal;

use crate::process_id::{Address, ProcessId};

/// How the robot moves and where it believes to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Motion {
    /// When.
    pub stamp: Stamp,
    /// Speed over the floor \[m/s\].
    pub linear: f64,
    /// Turning rate [rad/s].
    pub angular: f64,
    /// Every joint.
    pub joints: Vec<JointState>,
    /// base_link in the map.
    pub base_in_map: Pose,
    /// The tool in base_link.
    pub tool_in_base: Pose,
    /// The tool in the map.
    pub tool_in_map: Pose,
}

/// One look of the camera.
#[derive(Clone, Debug, PartialEq)]
pub struct Sight {
    /// What was seen, in the map.
    pub in_map: DetectionFrame,
    /// The same, in base_link.
    pub in_base: DetectionFrame,
    /// The tool in the map at that time.
    pub tool_in_map: Pose,
}

/// What protection tells of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProtectionNews {
    /// A stop is latched.
    pub latched: bool,
    /// Its name.
    pub stop_id: String,
    /// Who asked for it.
    pub source: String,
    /// Protection's words.
    pub message: String,
    /// How far it has come.
    pub stage: StopStage,
}

/// What is published.
#[derive(Clone, Debug)]
pub enum News {
    /// An executor's skills.
    Catalog(Arc<Catalog>),
    /// An executor's clock.
    Beacon(Beacon),
    /// Where an executor's commands are.
    Statuses {
        /// Node name.
        executor: String,
        /// One for each.
        statuses: Arc<Vec<SkillStatus>>,
    },
    /// Start or end of a run.
    Run(Arc<RunEvent>),
    /// A run that may move the base.
    Declared(DeclaredRun),
    /// Who holds the control lease.
    Lease(LeaseView),
    /// Protection's state.
    Protection(ProtectionNews),
    /// What is where.
    SceneGraph(Arc<SceneSnapshot>),
    /// Odometry, joints and transforms.
    Motion(Arc<Motion>),
    /// A turn of the laser.
    Scan(Arc<Scan>),
    /// Detections.
    Sight(Arc<Sight>),
    /// Goals of a server and their states.
    Goals {
        /// Which server.
        server: Server,
        /// UUID and action_msgs/GoalStatus.
        entries: Arc<Vec<(GoalId, i8)>>,
    },
    /// How much way is left to a navigation goal \[m\].
    WayLeft {
        /// The goal.
        goal_id: GoalId,
        /// The way.
        way: f64,
    },
    /// Velocity that navigation wants.
    Wanted(Velocity),
    /// Velocity that the base is given.
    Given(Velocity),
    /// The harness needs a person.
    Human(HumanRequest),
}

/// What is published, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // the news of the same name
pub enum Topic {
    Catalog,
    Beacon,
    Statuses,
    Run,
    Declared,
    Lease,
    Protection,
    SceneGraph,
    Motion,
    Scan,
    Sight,
    Goals,
    WayLeft,
    Wanted,
    Given,
    Human,
}

/// What the network does for a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quality {
    /// Comes in order or not at all; what a cut holds back comes later. The last so many values are given to
    /// late joiners.
    Latched(usize),
    /// Comes in order or not at all; nothing for late joiners.
    Reliable,
    /// Gets lost now and then; what comes is in order.
    BestEffort,
}

impl Topic {
    /// What the network does for it: as the nodes' own profiles.
    pub const fn quality(self) -> Quality {
        match self {
            Topic::Catalog
            | Topic::Statuses
            | Topic::Lease
            | Topic::Protection
            | Topic::SceneGraph
            | Topic::Goals => Quality::Latched(1),
            Topic::Run => Quality::Latched(64),
            Topic::Human => Quality::Latched(16),
            Topic::Beacon | Topic::Declared | Topic::WayLeft => Quality::Reliable,
            Topic::Motion | Topic::Scan | Topic::Sight | Topic::Wanted | Topic::Given => {
                Quality::BestEffort
            }
        }
    }

    /// Who listens.
    pub const fn listeners(self) -> &'static [ProcessId] {
        use ProcessId::{
            Evaluator, Harness, Manipulation, Navigation, Operator, Protection, Rival, Robot, Scene,
        };
        match self {
            Topic::Catalog => &[Harness, Evaluator, Rival],
            Topic::Beacon => &[Harness, Rival],
            Topic::Statuses => &[Harness, Navigation, Manipulation],
            Topic::Run => &[Evaluator],
            Topic::Declared => &[Protection],
            Topic::Lease => &[Harness, Navigation, Manipulation],
            Topic::Protection => &[Harness, Navigation, Manipulation, Operator],
            Topic::SceneGraph => &[Navigation, Manipulation],
            Topic::Motion => &[Scene, Evaluator, Navigation, Manipulation, Protection],
            Topic::Scan => &[Protection, Evaluator],
            Topic::Sight => &[Scene, Evaluator, Manipulation],
            Topic::Goals => &[Navigation, Manipulation],
            Topic::WayLeft => &[Navigation],
            Topic::Wanted => &[Protection],
            Topic::Given => &[Robot],
            Topic::Human => &[Operator],
        }
    }

    /// Whether the trace is readable without it: what comes many times a second.
    pub const fn is_stream(self) -> bool {
        match self {
            Topic::Beacon
            | Topic::Declared
            | Topic::Motion
            | Topic::Scan
            | Topic::Sight
            | Topic::WayLeft
            | Topic::Wanted
            | Topic::Given
            | Topic::SceneGraph
            | Topic::Lease => true,
            Topic::Catalog
            | Topic::Statuses
            | Topic::Run
            | Topic::Protection
            | Topic::Goals
            | Topic::Human => false,
        }
    }
}

impl News {
    /// Its topic.
    pub const fn topic(&self) -> Topic {
        match self {
            News::Catalog(_) => Topic::Catalog,
            News::Beacon(_) => Topic::Beacon,
            News::Statuses { .. } => Topic::Statuses,
            News::Run(_) => Topic::Run,
            News::Declared(_) => Topic::Declared,
            News::Lease(_) => Topic::Lease,
            News::Protection(_) => Topic::Protection,
            News::SceneGraph(_) => Topic::SceneGraph,
            News::Motion(_) => Topic::Motion,
            News::Scan(_) => Topic::Scan,
            News::Sight(_) => Topic::Sight,
            News::Goals { .. } => Topic::Goals,
            News::WayLeft { .. } => Topic::WayLeft,
            News::Wanted(_) => Topic::Wanted,
            News::Given(_) => Topic::Given,
            News::Human(_) => Topic::Human,
        }
    }
}

/// What protection is asked about the lease.
#[derive(Clone, Debug, PartialEq)]
pub enum LeaseRequest {
    /// Acquire it.
    Acquire {
        /// From whoever holds it.
        take_over: bool,
    },
    /// Renew it.
    Renew {
        /// Its token.
        token: u64,
    },
    /// Give it back.
    Release {
        /// Its token.
        token: u64,
    },
}

/// What is asked of another process.
#[derive(Clone, Debug)]
pub enum Request {
    /// Of an executor: run a command (send_goal of execute_skill).
    Execute(Box<GoalRequest>),
    /// Of an executor: the result of a goal.
    ExecuteResult(GoalId),
    /// Of an executor: cancel a goal.
    ExecuteCancel(GoalId),
    /// Of an executor: where a command is; of the harness: likewise.
    QueryCommand(String),
    /// Of an executor: what became of a command.
    SettleCommand {
        /// Command.
        command_id: String,
        /// What became of it.
        to: Finality,
        /// Who says so.
        settled_by: String,
        /// On what grounds.
        reason: String,
        /// Under which token; 0 for a person.
        fencing_token: u64,
    },
    /// Of the scene graph: everything.
    ReadScene,
    /// Of the scene graph: do these hold.
    CheckScene(Vec<Precondition>),
    /// Of the scene graph: this is so now.
    ApplyEffects {
        /// The verdict behind it.
        verdict: Box<Verdict>,
        /// The effects.
        effects: String,
    },
    /// Of the evaluator: judge (send_goal and get_result of evaluate_run).
    Evaluate {
        /// Run.
        run_id: String,
        /// Segment.
        segment: u32,
    },
    /// Of protection.
    Lease {
        /// Who asks.
        controller_id: String,
        /// For how long, in milliseconds.
        ttl_ms: u64,
        /// What.
        operation: LeaseRequest,
    },
    /// Of protection: stand.
    RequestStop {
        /// Why.
        reason: String,
    },
    /// Of protection: the stop is over.
    ResetStop {
        /// Even without measured standstill.
        force: bool,
    },
    /// Of the robot: reach a goal.
    SendGoal {
        /// Which server.
        server: Server,
        /// UUID.
        goal_id: GoalId,
        /// The goal.
        goal: Box<Goal>,
    },
    /// Of the robot: give a goal up.
    CancelGoal {
        /// Which server.
        server: Server,
        /// UUID.
        goal_id: GoalId,
    },
    /// Of the robot: how a goal ended.
    GoalResult {
        /// Which server.
        server: Server,
        /// UUID.
        goal_id: GoalId,
    },
    /// Of the robot: the planning scene.
    GetPlanningScene,
    /// Of the robot: change the planning scene.
    ApplyPlanningScene(Box<SceneDifference>),
    /// Of the harness: do a task; answered at its end.
    Task(Box<TaskGoal>),
    /// Of the harness: end a task.
    CancelTask(String),
    /// Of the harness: how a task stands.
    QueryTask(String),
    /// Of the harness: a person settles a command.
    SettleUnknown {
        /// Command.
        command_id: String,
        /// What became of it.
        to: Finality,
        /// On what grounds.
        reason: String,
    },
    /// Of the harness: a person answers.
    Answer {
        /// The request.
        request_id: String,
        /// The answer.
        answer: String,
    },
}

/// The result of a goal of execute_skill.
#[derive(Clone, Debug, PartialEq)]
pub struct ExecuteEnd {
    /// Code; 0 for none.
    pub error_code: u16,
    /// Words.
    pub error_msg: String,
    /// The command's status.
    pub status: SkillStatus,
}

/// What is answered.
#[derive(Clone, Debug)]
pub enum Reply {
    /// To a goal: taken or not.
    Acknowledged(bool),
    /// To a question for the end of an execution; `None`: no such goal.
    ExecuteEnd(Option<Box<ExecuteEnd>>),
    /// News of a goal of execute_skill for who sent it.
    Feedback(Box<SkillStatus>),
    /// To a cancel: whether the goal is canceling now.
    Canceling(bool),
    /// To a question for a command.
    Statuses(Result<Vec<SkillStatus>, (ErrorCode, String)>),
    /// To a question of a client for a command.
    Commands(Vec<(String, CommandState)>),
    /// To a settlement: the state after it.
    Settled {
        /// 0 for none.
        error_code: u16,
        /// Words.
        error_msg: String,
        /// State after it.
        state: String,
    },
    /// The scene.
    Scene(Arc<SceneSnapshot>),
    /// Whether preconditions hold.
    Checked(SceneCheck),
    /// Whether effects are in the scene.
    Applied(Result<(), (ErrorCode, String)>),
    /// The verdict.
    Judged(Result<Box<Verdict>, String>),
    /// The lease after the request.
    Lease(Result<LeaseView, (ErrorCode, String)>),
    /// Whether a stop was taken or reset.
    Stop(Result<(), String>),
    /// How a goal ended; `None`: no such goal.
    GoalEnd(Option<Box<NativeEnd>>),
    /// The planning scene.
    PlanningScene(Box<SceneKnown>),
    /// Whether all of a change was done.
    PlanningSceneApplied(bool),
    /// How a task ended.
    TaskEnd(Box<TaskRecord>),
    /// How a task stands.
    Task(Option<Box<TaskRecord>>),
    /// Whether a person's word was taken.
    Taken(Result<(), String>),
}

/// What is in a letter.
#[derive(Clone, Debug)]
pub enum Body {
    /// News.
    News(News),
    /// A request.
    Request {
        /// Name of the call, never used again.
        call: u64,
        /// What is asked.
        request: Request,
    },
    /// An answer.
    Reply {
        /// The call that it answers.
        call: u64,
        /// What is answered.
        reply: Reply,
    },
}

/// A message on its way, from one life of a process to one life of another.
#[derive(Clone, Debug)]
pub struct Letter {
    /// Who sent it.
    pub from: Address,
    /// To whom.
    pub to: Address,
    /// What it says.
    pub body: Body,
}

impl Request {
    /// Name in the trace.
    pub const fn name(&self) -> &'static str {
        match self {
            Request::Execute(_) => "execute_skill",
            Request::ExecuteResult(_) => "execute_skill result",
            Request::ExecuteCancel(_) => "execute_skill cancel",
            Request::QueryCommand(_) => "query",
            Request::SettleCommand { .. } => "settle",
            Request::ReadScene => "query_scene",
            Request::CheckScene(_) => "query_scene check",
            Request::ApplyEffects { .. } => "apply_effects",
            Request::Evaluate { .. } => "evaluate_run",
            Request::Lease { operation, .. } => match operation {
                LeaseRequest::Acquire { take_over: false } => "lease acquire",
                LeaseRequest::Acquire { take_over: true } => "lease take over",
                LeaseRequest::Renew { .. } => "lease renew",
                LeaseRequest::Release { .. } => "lease release",
            },
            Request::RequestStop { .. } => "request_stop",
            Request::ResetStop { .. } => "reset_stop",
            Request::SendGoal { .. } => "send_goal",
            Request::CancelGoal { .. } => "cancel_goal",
            Request::GoalResult { .. } => "get_result",
            Request::GetPlanningScene => "get_planning_scene",
            Request::ApplyPlanningScene(_) => "apply_planning_scene",
            Request::Task(_) => "execute_task",
            Request::CancelTask(_) => "execute_task cancel",
            Request::QueryTask(_) => "query_task",
            Request::SettleUnknown { .. } => "settle_command",
            Request::Answer { .. } => "answer_human",
        }
    }

    /// Whether it may come twice: the middleware removes copies of one sample, so this stands for a caller
    /// that asks again. Goals of actions are sent once.
    pub const fn may_be_doubled(&self) -> bool {
        match self {
            Request::ExecuteCancel(_)
            | Request::QueryCommand(_)
            | Request::SettleCommand { .. }
            | Request::ReadScene
            | Request::CheckScene(_)
            | Request::ApplyEffects { .. }
            | Request::CancelGoal { .. }
            | Request::CancelTask(_)
            | Request::RequestStop { .. }
            | Request::GetPlanningScene => true,
            Request::Execute(_)
            | Request::ExecuteResult(_)
            | Request::Evaluate { .. }
            | Request::Lease { .. }
            | Request::ResetStop { .. }
            | Request::SendGoal { .. }
            | Request::GoalResult { .. }
            | Request::ApplyPlanningScene(_)
            | Request::Task(_)
            | Request::QueryTask(_)
            | Request::SettleUnknown { .. }
            | Request::Answer { .. } => false,
        }
    }

    /// Whether the trace is readable without it.
    pub const fn is_stream(&self) -> bool {
        matches!(
            self,
            Request::ReadScene
                | Request::Lease {
                    operation: LeaseRequest::Renew { .. },
                    ..
                }
        )
    }
}

/// The first characters of a UUID, as the trace shows it.
pub fn short(goal_id: &GoalId) -> String {
    goal_id.iter().take(4).map(|b| format!("{b:02x}")).collect()
}

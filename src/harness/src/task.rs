//! A running task: where it is in the loop, and what it has used up.

use std::time::Duration;

use eh_contract::command::Proposal;
use eh_contract::scene::{SceneObject, SceneSnapshot};
use eh_contract::session::{StepReport, TaskRecord, TaskRequest};
use eh_contract::state::{CommandState, TaskOutcome};
use eh_contract::verdict::Truth;
use eh_contract::ErrorCode;
use eh_ledger::issuer::IssuerRecord;
use eh_ledger::issuer_policy::Now;
use eh_planner::planner::{Answer, Program};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::budget::{Budget, BudgetLimits};
use crate::effect::TaskPhase;

/// Where a task is in the loop.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Phase {
    /// Waits for the control lease.
    AwaitLease { since: Duration, asked: Duration },
    /// Waits for the scene graph.
    Reading {
        ticket: u64,
        since: Duration,
        tries: u32,
    },
    /// Waits for the planner to read the instruction.
    Beginning { ticket: u64, since: Duration },
    /// Waits for the planner's next turn.
    Planning { ticket: u64, since: Duration },
    /// A command is on its way, runs or is judged.
    Executing,
    /// The command has ended; what it held is being released and what it changed written down.
    Learning {
        since: Duration,
        effects_pending: bool,
    },
    /// Waits before another attempt.
    Waiting { until: Duration },
    /// Waits for a person.
    Human { key: String, until: Duration },
}

/// The step in work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Step {
    pub number: u32,
    pub proposal: Proposal,
    pub command_id: String,
    pub effects: Value,
    /// On this process's clock.
    #[serde(skip)]
    pub began: Duration,
}

/// Why a task is about to end although a command may still run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ending {
    pub outcome: TaskOutcome,
    pub code: ErrorCode,
    pub message: String,
}

/// A running task.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub record: TaskRecord,
    pub budget: Budget,
    pub phase: Phase,
    pub start: Option<SceneObject>,
    pub scene: Option<std::sync::Arc<SceneSnapshot>>,
    pub program: Option<Program>,
    pub answers: Vec<Answer>,
    pub step: Option<Step>,
    pub ending: Option<Ending>,
    /// Whether a command was ever committed.
    pub moved: bool,
    pub text: String,
    pub finished: Vec<StepReport>,
    pub dirty: bool,
    pub last_feedback: Duration,
    pub open_request: Option<crate::effect::HumanRequest>,
    /// Executors that have ever been known while it ran: a process that takes it up waits for them.
    pub executors: Vec<String>,
    /// When the lease was last asked for while a command runs.
    pub lease_asked: Duration,
    /// Since when a command runs without it.
    pub without_lease: Option<Duration>,
    /// Since when a plan waits for skills.
    pub short_of_skills: Option<Duration>,
    /// Since when a step waits for the evaluator.
    pub short_of_evaluator: Option<Duration>,
    /// Since when an executor refuses for want of a lease that is held here.
    pub lease_unheard: Option<Duration>,
}

impl Task {
    pub fn new(request: TaskRequest, limits: BudgetLimits, now: Now) -> Self {
        let limits = BudgetLimits {
            time: request.time_budget,
            steps: request.max_steps,
            ..limits
        };
        Task {
            record: TaskRecord {
                request,
                received_at: now.ros,
                ..TaskRecord::default()
            },
            budget: Budget::new(limits, now.steady),
            phase: Phase::Waiting { until: now.steady },
            start: None,
            scene: None,
            program: None,
            answers: Vec::new(),
            step: None,
            ending: None,
            moved: false,
            text: "taken".into(),
            finished: Vec::new(),
            dirty: true,
            last_feedback: now.steady,
            open_request: None,
            executors: Vec::new(),
            lease_asked: now.steady,
            without_lease: None,
            short_of_skills: None,
            short_of_evaluator: None,
            lease_unheard: None,
        }
    }

    pub fn id(&self) -> &str {
        &self.record.request.task_id
    }

    pub fn enter(&mut self, phase: Phase, text: impl Into<String>) {
        self.phase = phase;
        self.text = text.into();
        self.dirty = true;
    }

    pub fn plan_version(&self) -> u32 {
        self.program.as_ref().map_or(0, |p| p.plan_version)
    }

    pub fn command_id(&self) -> Option<&str> {
        self.step
            .as_ref()
            .map(|s| s.command_id.as_str())
            .filter(|id| !id.is_empty())
    }

    /// The phase as clients see it.
    pub fn shown_phase(&self, command: Option<&IssuerRecord>) -> TaskPhase {
        match &self.phase {
            Phase::AwaitLease { .. } | Phase::Reading { .. } | Phase::Waiting { .. } => {
                TaskPhase::Perceive
            }
            Phase::Beginning { .. } | Phase::Planning { .. } => TaskPhase::Reason,
            Phase::Human { .. } => TaskPhase::WaitHuman,
            Phase::Learning { .. } => TaskPhase::Learn,
            Phase::Executing => match command.map(|c| c.state) {
                Some(CommandState::Canceling) => TaskPhase::Canceling,
                Some(CommandState::Evaluating | CommandState::Reconciling) => TaskPhase::Judge,
                Some(CommandState::Proposed | CommandState::Committed) => TaskPhase::Decide,
                Some(
                    CommandState::Unspecified
                    | CommandState::Rejected
                    | CommandState::Dispatched
                    | CommandState::Accepted
                    | CommandState::Running
                    | CommandState::Succeeded
                    | CommandState::Failed
                    | CommandState::Canceled
                    | CommandState::Unknown,
                )
                | None => TaskPhase::Execute,
            },
        }
    }
}

/// The report of a step whose command ended.
pub(crate) fn report(step: &Step, command: &IssuerRecord, now: Now) -> StepReport {
    let verdict = command.verdict.as_ref();
    StepReport {
        step: step.number,
        skill: step.proposal.skill.clone(),
        arguments: Value::Object(command.command.arguments.clone()),
        reason: step.proposal.reason.clone(),
        command_id: command.command_id().into(),
        run_id: command.run_id.clone(),
        command_state: command.state,
        verdict: verdict.map(|v| v.outcome),
        verdict_reason: verdict.map(|v| v.reason.clone()).unwrap_or_default(),
        evidence: verdict
            .map(|v| v.evidence.iter().map(|e| e.summary.clone()).collect())
            .unwrap_or_default(),
        measured: verdict
            .map(|v| {
                v.predicates
                    .iter()
                    .filter(|p| p.truth == Truth::True)
                    .map(|p| p.predicate.clone())
                    .collect()
            })
            .unwrap_or_default(),
        error_code: command.error_code,
        error_msg: command.error_msg.clone(),
        duration: now.steady.saturating_sub(step.began).as_secs_f64(),
    }
}

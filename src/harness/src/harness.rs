//! The whole loop: one task at a time through perceive, reason, decide, execute, judge, learn; and every
//! command that is not settled, of this task or an earlier one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use eh_contract::command::{Envelope, Proposal};
use eh_contract::scene::SceneSnapshot;
use eh_contract::session::{EventKind, SessionEvent, StepReport, TaskRecord, TaskRequest};
use eh_contract::state::{CommandState, ExecutorState, TaskOutcome};
use eh_contract::status::SkillStatus;
use eh_contract::ErrorCode;
use eh_ledger::issuer::{state_name, IssuerRecord};
use eh_ledger::issuer_event::{Finality, IssuerEffect, IssuerEvent, Note};
use eh_ledger::issuer_ledger::{IssuerLedger, Proposed};
use eh_ledger::issuer_policy::Now;
use eh_planner::choice::choose;
use eh_planner::phrase_table::Tables;
use eh_planner::planner::{Answer, PlannerError, Program, Turn};
use rand::RngCore;
use serde_json::{json, Value};

use crate::admission::{compare, short_id, AdmissionError, Repeated};
use crate::budget::{AfterFailure, Failures};
use crate::effect::{
    Effect, GoalRequest, HumanRequest, HumanRequestKind, PlanRequest, TaskFeedback,
};
use crate::error::{AnswerError, SettleError};
use crate::event::Event;
use crate::gate::{self, GateContext, GateError};
use crate::grounding::{start_place, with_start};
use crate::settings::Settings;
use crate::surroundings::Surroundings;
use crate::task::{report, Ending, Phase, Step, Task};

/// Terminal commands that are kept in memory for questions; the store has all of them.
const KEEP_ENDED: usize = 64;

/// Time between two looks whether missing skills are back.
const SKILLS_PERIOD: Duration = Duration::from_millis(500);

/// Time between two sendings of a step to an executor that has not heard of the lease yet; protection
/// repeats the lease more often than that.
const LEASE_PERIOD: Duration = Duration::from_millis(500);

/// What an earlier process left behind.
#[derive(Clone, Debug, Default)]
pub struct Restored {
    /// Commands that are not terminal or not yet released by their executor.
    pub commands: Vec<IssuerRecord>,
    /// Tasks that had not ended.
    pub tasks: Vec<TaskRecord>,
    /// Last sequence of the session log of each task named by the above.
    pub sequences: BTreeMap<String, u64>,
}

/// The time and the randomness of one decision.
pub struct Turned<'a> {
    /// The time.
    pub now: Now,
    /// For ids and jitter.
    pub rng: &'a mut dyn RngCore,
}

/// The loop.
#[derive(Clone, Debug)]
pub struct Harness {
    settings: Settings,
    surroundings: Surroundings,
    ledger: IssuerLedger,
    task: Option<Task>,
    interrupted: Vec<TaskRecord>,
    sequences: BTreeMap<String, u64>,
    looks: Vec<(Duration, Effect)>,
    settle_requests: BTreeMap<String, HumanRequest>,
    ticket: u64,
    last_token: u64,
    storage_failure: Option<String>,
    shutting_down: bool,
    dropped: u64,
}

impl Harness {
    /// A loop that takes up what an earlier process left: commands that were never sent are refused,
    /// those that may run are canceled by their UUID and asked for, and the tasks behind them end once
    /// it is known what became of their commands. Nothing is sent again.
    pub fn new(settings: Settings, restored: Restored, now: Now) -> (Self, Vec<Effect>) {
        let mut harness = Harness {
            settings,
            surroundings: Surroundings::default(),
            ledger: IssuerLedger::restore(restored.commands),
            task: None,
            interrupted: restored.tasks,
            sequences: restored.sequences,
            looks: Vec::new(),
            settle_requests: BTreeMap::new(),
            ticket: 0,
            last_token: 0,
            storage_failure: None,
            shutting_down: false,
            dropped: 0,
        };
        let mut out = Vec::new();
        for (id, effect) in harness.ledger.resume(now) {
            harness.perform(&id, vec![effect], now, &mut out);
        }
        let states: Vec<(String, CommandState)> = harness
            .ledger
            .unsettled()
            .map(|r| (r.command_id().to_owned(), r.state))
            .collect();
        for (id, state) in states {
            let reason = "the harness was restarted".to_owned();
            match state {
                CommandState::Proposed => harness.apply(
                    &id,
                    IssuerEvent::Refuse {
                        code: ErrorCode::TaskShuttingDown,
                        reason,
                    },
                    now,
                    &mut out,
                ),
                CommandState::Committed => {
                    harness.apply(&id, IssuerEvent::Expired { reason }, now, &mut out);
                }
                CommandState::Dispatched | CommandState::Accepted | CommandState::Running => {
                    harness.apply(&id, IssuerEvent::CancelRequested { reason }, now, &mut out);
                }
                CommandState::Unknown => harness.ask_to_settle(&id, now, &mut out),
                CommandState::Unspecified
                | CommandState::Rejected
                | CommandState::Evaluating
                | CommandState::Canceling
                | CommandState::Succeeded
                | CommandState::Failed
                | CommandState::Canceled
                | CommandState::Reconciling => {}
            }
        }
        harness.end_interrupted(now, &mut out);
        (harness, out)
    }

    /// The settings.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The nodes around.
    pub const fn surroundings(&self) -> &Surroundings {
        &self.surroundings
    }

    /// Every command in memory.
    pub const fn ledger(&self) -> &IssuerLedger {
        &self.ledger
    }

    /// The running task.
    pub fn running(&self) -> Option<&TaskRecord> {
        self.task
            .as_ref()
            .map(|t| &t.record)
            .or_else(|| self.interrupted.first())
    }

    /// True when no task runs and no command is on its way: a process may end then.
    pub fn is_idle(&self) -> bool {
        self.task.is_none()
            && self
                .ledger
                .open()
                .all(|r| r.state == CommandState::Unknown || r.state.is_terminal())
    }

    /// Requests to people that are open.
    pub fn open_requests(&self) -> Vec<HumanRequest> {
        self.task
            .iter()
            .filter_map(|t| t.open_request.clone())
            .chain(self.settle_requests.values().cloned())
            .collect()
    }

    /// Answers and events that belonged to nothing in work.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Takes a task, or says what is known of it.
    ///
    /// # Errors
    /// [`AdmissionError`]; nothing was started then.
    pub fn submit(
        &mut self,
        request: TaskRequest,
        known: Option<&TaskRecord>,
        turned: &mut Turned<'_>,
    ) -> Result<(Repeated, Vec<Effect>), AdmissionError> {
        let repeated = compare(&request, self.find_running(&request.task_id).or(known))?;
        if repeated != Repeated::New {
            return Ok((repeated, Vec::new()));
        }
        if self.shutting_down {
            return Err(AdmissionError::ShuttingDown);
        }
        if let Some(running) = self.running() {
            return Err(AdmissionError::Busy {
                running: running.request.task_id.clone(),
            });
        }
        if self.surroundings.stop.latched && !request.dry_run {
            return Err(AdmissionError::StopLatched {
                text: self.surroundings.stop.text.clone(),
            });
        }
        self.storage_failure = None;
        let now = turned.now;
        let task = Task::new(request, self.settings.limits, now);
        let mut out = vec![Effect::SaveTask(Box::new(task.record.clone()))];
        self.sequences.insert(task.id().to_owned(), 0);
        let request = &task.record.request;
        let payload = json!({
            "instruction": request.instruction,
            "time_budget": request.time_budget.as_secs_f64(),
            "max_steps": request.max_steps,
            "permissions": request.permissions,
            "dry_run": request.dry_run,
        });
        let text = format!("\"{}\"", request.instruction);
        self.task = Some(task);
        self.journal(EventKind::TaskReceived, text, payload, now, &mut out);
        self.read_scene(now, &mut out);
        self.feedback(now, &mut out);
        Ok((Repeated::New, out))
    }

    fn find_running(&self, task_id: &str) -> Option<&TaskRecord> {
        self.task
            .iter()
            .map(|t| &t.record)
            .chain(&self.interrupted)
            .find(|r| r.request.task_id == task_id)
    }

    /// A person says what became of an UNKNOWN command.
    ///
    /// # Errors
    /// [`SettleError`]; nothing changed then.
    pub fn settle(
        &mut self,
        command_id: &str,
        to: Finality,
        by: &str,
        reason: &str,
        now: Now,
    ) -> Result<(CommandState, Vec<Effect>), SettleError> {
        if by.trim().is_empty() || reason.trim().is_empty() {
            return Err(SettleError::Anonymous);
        }
        let Some(record) = self.ledger.get(command_id) else {
            return Err(SettleError::NotFound {
                command_id: command_id.into(),
            });
        };
        let state = record.state;
        if !matches!(state, CommandState::Unknown | CommandState::Reconciling) {
            return Err(SettleError::NotSettleable {
                command_id: command_id.into(),
                state,
            });
        }
        let mut out = Vec::new();
        self.apply(
            command_id,
            IssuerEvent::Reconciled {
                to,
                by: by.into(),
                reason: reason.into(),
            },
            now,
            &mut out,
        );
        self.end_interrupted(now, &mut out);
        let state = self.ledger.get(command_id).map_or(state, |r| r.state);
        Ok((state, out))
    }

    /// A person answers a request.
    ///
    /// # Errors
    /// [`AnswerError`]; nothing changed then.
    pub fn answer(
        &mut self,
        request_id: &str,
        answer: &str,
        by: &str,
        now: Now,
    ) -> Result<Vec<Effect>, AnswerError> {
        if by.trim().is_empty() {
            return Err(AnswerError::Anonymous);
        }
        if let Some(request) = self.settle_requests.get(request_id) {
            let answer = meant(request, answer, |_| None)?;
            let to = match answer.as_str() {
                "succeeded" => Finality::Succeeded,
                "failed" => Finality::Failed,
                _ => Finality::Canceled,
            };
            let command_id = request.command_id.clone();
            return match self.settle(&command_id, to, by, "answered a request", now) {
                Ok((_, effects)) => Ok(effects),
                Err(_) => Err(AnswerError::Closed {
                    request_id: request_id.into(),
                }),
            };
        }
        let mut out = Vec::new();
        let Some(task) = self.task.as_mut() else {
            return Err(AnswerError::NotFound {
                request_id: request_id.into(),
            });
        };
        let answer = match (&task.open_request, &task.phase) {
            (Some(request), Phase::Human { key, .. }) if request.request_id == request_id => {
                let scene = task.scene.clone().unwrap_or_default();
                let answer = meant(request, answer, |answer| {
                    let tables = Tables::embedded().ok()?;
                    choose(answer, &request.options, &scene, &tables)
                })?;
                task.answers.push(Answer {
                    key: key.clone(),
                    answer: answer.clone(),
                });
                answer
            }
            _ => {
                return Err(AnswerError::NotFound {
                    request_id: request_id.into(),
                })
            }
        };
        self.close_request(&mut out);
        self.journal(
            EventKind::HumanAnswered,
            format!("{by}: {answer}"),
            json!({"request_id": request_id, "answer": answer, "answered_by": by}),
            now,
            &mut out,
        );
        self.read_scene(now, &mut out);
        self.feedback(now, &mut out);
        Ok(out)
    }

    /// Takes an event and says what has to be done.
    pub fn handle(&mut self, event: Event, turned: &mut Turned<'_>) -> Vec<Effect> {
        let mut out = Vec::new();
        let now = turned.now;
        match event {
            Event::CatalogSeen(catalog) => out.extend(
                self.surroundings
                    .take_catalog(catalog)
                    .into_iter()
                    .map(Effect::Warn),
            ),
            Event::BeaconSeen(beacon) => self.surroundings.take_beacon(beacon, now.steady),
            Event::StopSeen(stop) => self.stop_seen(stop, now, &mut out),
            Event::EvaluatorSeen(ready) => self.surroundings.evaluator_ready = ready,
            Event::LeaseGranted { token } => self.lease_granted(token, now, &mut out),
            Event::LeaseRefused { reason } => self.lease_refused(reason),
            Event::LeaseLost { reason } => self.lease_lost(reason, now, &mut out),
            Event::SceneRead { ticket, result } => self.scene_read(ticket, result, now, &mut out),
            Event::Begun { ticket, result } => self.begun(ticket, result, now, &mut out),
            Event::Turned {
                ticket,
                program,
                turn,
            } => self.turned(ticket, *program, turn, turned, &mut out),
            Event::PlannerFailed { ticket, reason } => {
                if self.is_planning(ticket) {
                    self.end_with(
                        TaskOutcome::Failed,
                        ErrorCode::PlannerFailure,
                        reason,
                        now,
                        &mut out,
                    );
                } else {
                    self.drop_answer();
                }
            }
            Event::GoalAccepted { command_id } => {
                self.apply(&command_id, IssuerEvent::Acknowledged, now, &mut out);
            }
            Event::GoalRefused {
                command_id,
                code,
                reason,
            } => self.apply(
                &command_id,
                IssuerEvent::GoalRefused { code, reason },
                now,
                &mut out,
            ),
            Event::Status(status) => self.status(*status, now, &mut out),
            Event::CommandNotFound { command_id } => {
                let boot_id = self
                    .ledger
                    .get(&command_id)
                    .and_then(|r| self.surroundings.boot_id(&r.executor))
                    .unwrap_or_default()
                    .to_owned();
                self.apply(
                    &command_id,
                    IssuerEvent::NotFound { boot_id },
                    now,
                    &mut out,
                );
            }
            Event::Judged { command_id, result } => {
                let event = match result {
                    Ok(verdict) => IssuerEvent::Judged(verdict),
                    Err(reason) => IssuerEvent::NotJudged { reason },
                };
                self.apply(&command_id, event, now, &mut out);
            }
            Event::SettleConfirmed { command_id } => {
                self.apply(&command_id, IssuerEvent::SettleConfirmed, now, &mut out);
            }
            Event::EffectsApplied { command_id, result } => {
                self.effects_applied(&command_id, result, now, &mut out);
            }
            Event::CancelTask { task_id, reason } => {
                if self.task.as_ref().is_some_and(|t| t.id() == task_id) {
                    self.end_with(
                        TaskOutcome::Canceled,
                        ErrorCode::TaskCanceled,
                        reason,
                        now,
                        &mut out,
                    );
                }
            }
            Event::StorageFailed { reason } => {
                self.storage_failure = Some(reason.clone());
                self.end_with(
                    TaskOutcome::Failed,
                    ErrorCode::TaskStorageFailure,
                    reason,
                    now,
                    &mut out,
                );
            }
            Event::Shutdown => {
                self.shutting_down = true;
                self.end_with(
                    TaskOutcome::Failed,
                    ErrorCode::TaskShuttingDown,
                    "the harness was asked to end while the task ran".into(),
                    now,
                    &mut out,
                );
            }
            Event::Tick => self.tick(now, &mut out),
        }
        self.advance(turned, &mut out);
        self.end_interrupted(now, &mut out);
        self.feedback(now, &mut out);
        self.ledger.forget_old(KEEP_ENDED);
        out
    }

    // ---- surroundings ----

    fn stop_seen(&mut self, stop: crate::surroundings::StopView, now: Now, out: &mut Vec<Effect>) {
        let latched = stop.latched;
        let text = stop.text.clone();
        self.surroundings.stop = stop;
        let moves = self
            .task
            .as_ref()
            .is_some_and(|t| !t.record.request.dry_run);
        if latched && moves {
            self.end_with(
                TaskOutcome::Failed,
                ErrorCode::TaskStopLatched,
                format!("a stop was requested ({text}); when it is safe, reset it with reset_stop and send the task again"),
                now,
                out,
            );
        }
    }

    fn lease_granted(&mut self, token: u64, now: Now, out: &mut Vec<Effect>) {
        self.surroundings.lease_token = Some(token);
        self.last_token = token;
        let waits = self
            .task
            .as_ref()
            .is_some_and(|t| matches!(t.phase, Phase::AwaitLease { .. }));
        if waits {
            self.read_scene(now, out);
        } else if self.task.is_none() {
            // It came after the task that wanted it.
            out.push(Effect::ReleaseLease);
        }
    }

    fn lease_refused(&mut self, reason: String) {
        self.surroundings.lease_token = None;
        if let Some(task) = &mut self.task {
            if matches!(task.phase, Phase::AwaitLease { .. }) {
                task.text = format!("waits for the control lease: {reason}");
                task.dirty = true;
            }
        }
    }

    fn lease_lost(&mut self, reason: String, now: Now, out: &mut Vec<Effect>) {
        if self.surroundings.lease_token.take().is_some() {
            self.end_with(
                TaskOutcome::Failed,
                ErrorCode::NoLease,
                format!("the control lease was lost: {reason}"),
                now,
                out,
            );
        }
    }

    // ---- perceive, reason ----

    fn next_ticket(&mut self) -> u64 {
        self.ticket += 1;
        self.ticket
    }

    fn drop_answer(&mut self) {
        self.dropped = self.dropped.saturating_add(1);
    }

    fn read_scene(&mut self, now: Now, out: &mut Vec<Effect>) {
        let ticket = self.next_ticket();
        let Some(task) = &mut self.task else { return };
        let tries = match task.phase {
            Phase::Reading { tries, .. } => tries + 1,
            _ => 1,
        };
        task.enter(
            Phase::Reading {
                ticket,
                since: now.steady,
                tries,
            },
            "reads the scene",
        );
        out.push(Effect::ReadScene { ticket });
    }

    fn scene_read(
        &mut self,
        ticket: u64,
        result: Result<Box<SceneSnapshot>, String>,
        now: Now,
        out: &mut Vec<Effect>,
    ) {
        let next = self.ticket + 1;
        let Some(task) = self.task.as_mut() else {
            return self.drop_answer();
        };
        let tries = match task.phase {
            Phase::Reading {
                ticket: t, tries, ..
            } if t == ticket => tries,
            _ => return self.drop_answer(),
        };
        let scene = match result {
            Ok(scene) => *scene,
            Err(reason) => {
                task.text = format!("the scene can't be read: {reason}");
                task.dirty = true;
                // Asked again by the next tick, when the wait for this answer is over.
                if tries >= self.settings.waits.scene_tries {
                    self.scene_unavailable(reason, now, out);
                }
                return;
            }
        };
        if task.start.is_none() {
            match start_place(&scene, now.ros) {
                Some(start) => task.start = Some(start),
                None => {
                    let reason = "the scene does not say where the robot is".to_owned();
                    task.text.clone_from(&reason);
                    task.dirty = true;
                    if tries >= self.settings.waits.scene_tries {
                        self.scene_unavailable(
                            format!("{reason}; check localization, tf and the parameter base_frame of scene_graph_node"),
                            now,
                            out,
                        );
                    }
                    return;
                }
            }
        }
        let scene = Arc::new(match &task.start {
            Some(start) => with_start(scene, start),
            None => scene,
        });
        task.scene = Some(Arc::clone(&scene));
        self.ticket = next;
        match &task.program {
            None => {
                task.enter(
                    Phase::Beginning {
                        ticket: next,
                        since: now.steady,
                    },
                    "reads the instruction",
                );
                out.push(Effect::Begin {
                    ticket: next,
                    instruction: task.record.request.instruction.clone(),
                    scene,
                });
            }
            Some(program) => {
                let missing = self
                    .surroundings
                    .missing(&self.settings.robot_id, now.steady);
                let since = *task.short_of_skills.get_or_insert(now.steady);
                let waited = now.steady.saturating_sub(since) >= self.settings.waits.skills;
                if let (Some(missing), false) = (missing, waited) {
                    // An executor that is started again is back in a moment.
                    task.enter(
                        Phase::Waiting {
                            until: now.steady.saturating_add(SKILLS_PERIOD),
                        },
                        format!("waits for skills: {missing}"),
                    );
                    return;
                }
                task.short_of_skills = None;
                let request = PlanRequest {
                    ticket: next,
                    program: program.clone(),
                    scene,
                    skills: self
                        .surroundings
                        .offers(&self.settings.robot_id, now.steady)
                        .iter()
                        .map(|o| o.descriptor.clone())
                        .collect(),
                    history: task.record.steps.clone(),
                    answers: task.answers.clone(),
                    now: now.ros,
                };
                task.enter(
                    Phase::Planning {
                        ticket: next,
                        since: now.steady,
                    },
                    "plans the next step",
                );
                out.push(Effect::Plan(Box::new(request)));
            }
        }
    }

    fn scene_unavailable(&mut self, reason: String, now: Now, out: &mut Vec<Effect>) {
        self.end_with(
            TaskOutcome::Failed,
            ErrorCode::SceneUnavailable,
            format!(
                "the scene graph does not give a scene: {reason}; is scene_graph_node running?"
            ),
            now,
            out,
        );
    }

    fn is_planning(&self, ticket: u64) -> bool {
        self.task.as_ref().is_some_and(|t| match t.phase {
            Phase::Beginning { ticket: t, .. } | Phase::Planning { ticket: t, .. } => t == ticket,
            Phase::AwaitLease { .. }
            | Phase::Reading { .. }
            | Phase::Executing
            | Phase::Learning { .. }
            | Phase::Waiting { .. }
            | Phase::Human { .. } => false,
        })
    }

    fn begun(
        &mut self,
        ticket: u64,
        result: Result<Box<Program>, PlannerError>,
        now: Now,
        out: &mut Vec<Effect>,
    ) {
        if !self.is_planning(ticket) {
            return self.drop_answer();
        }
        let Some(task) = self.task.as_mut() else {
            return;
        };
        match result {
            Err(error) => {
                let code = error.code();
                self.end_with(TaskOutcome::Rejected, code, error.to_string(), now, out);
            }
            Ok(program) => {
                let text = format!("understood: {}", program.understood);
                task.record.program = serde_json::to_value(&*program).unwrap_or(Value::Null);
                task.program = Some(*program);
                let dry_run = task.record.request.dry_run;
                self.journal(EventKind::Plan, text, Value::Null, now, out);
                if dry_run || self.surroundings.lease_token.is_some() {
                    self.read_scene(now, out);
                } else {
                    self.await_lease(now, out);
                }
            }
        }
    }

    fn await_lease(&mut self, now: Now, out: &mut Vec<Effect>) {
        if let Some(task) = &mut self.task {
            task.enter(
                Phase::AwaitLease {
                    since: now.steady,
                    asked: now.steady,
                },
                "asks for the control lease",
            );
            out.push(Effect::AcquireLease);
        }
    }

    // ---- decide ----

    fn turned(
        &mut self,
        ticket: u64,
        program: Program,
        turn: Turn,
        turned: &mut Turned<'_>,
        out: &mut Vec<Effect>,
    ) {
        let now = turned.now;
        if !self.is_planning(ticket) {
            return self.drop_answer();
        }
        let Some(task) = self.task.as_mut() else {
            return;
        };
        let new_plan = task.plan_version() != program.plan_version;
        let plan: Vec<String> = program
            .plan
            .iter()
            .map(|s| format!("{} {}", s.skill, Value::Object(s.arguments.clone())))
            .collect();
        let version = program.plan_version;
        task.record.program = serde_json::to_value(&program).unwrap_or(Value::Null);
        task.program = Some(program);
        if new_plan {
            self.journal(
                EventKind::Plan,
                format!("plan {version}: {} steps ahead", plan.len()),
                json!({ "steps": plan }),
                now,
                out,
            );
        }
        match turn {
            Turn::Propose(proposal) => self.proposed(proposal, turned, out),
            Turn::Done { summary } => {
                self.finish(TaskOutcome::Succeeded, ErrorCode::None, summary, now, out);
            }
            Turn::Fail { code, message } => {
                let missing = self
                    .surroundings
                    .missing(&self.settings.robot_id, now.steady);
                let (code, message) = match (code, missing) {
                    (ErrorCode::NoPlan, Some(missing)) => (
                        ErrorCode::SkillUnavailable,
                        format!("{message} Skills are missing: {missing}"),
                    ),
                    (code, _) => (code, message),
                };
                let nothing_started = self.task.as_ref().is_some_and(|t| !t.moved);
                let refused = matches!(
                    code,
                    ErrorCode::InstructionNotUnderstood
                        | ErrorCode::InstructionEmpty
                        | ErrorCode::InstructionTooLong
                        | ErrorCode::TargetAmbiguous
                );
                let outcome = if nothing_started && refused {
                    TaskOutcome::Rejected
                } else {
                    TaskOutcome::Failed
                };
                self.finish(outcome, code, message, now, out);
            }
            Turn::Ask {
                key,
                question,
                options,
            } => self.ask(key, question, options, turned, out),
        }
    }

    fn ask(
        &mut self,
        key: String,
        question: String,
        options: Vec<String>,
        turned: &mut Turned<'_>,
        out: &mut Vec<Effect>,
    ) {
        let now = turned.now;
        let expires_in = self.settings.waits.human;
        let Some(task) = self.task.as_mut() else {
            return;
        };
        let request = HumanRequest {
            request_id: format!("ask-{}", short_id(turned.rng)),
            task_id: task.id().into(),
            command_id: String::new(),
            kind: HumanRequestKind::Question,
            question: question.clone(),
            options: options.clone(),
            stamp: now.ros,
            expires_in,
            closed: false,
        };
        task.enter(
            Phase::Human {
                key,
                until: now.steady.saturating_add(expires_in),
            },
            format!("asks: {question}"),
        );
        task.open_request = Some(request.clone());
        self.journal(
            EventKind::HumanRequest,
            question,
            json!({"request_id": request.request_id, "options": options}),
            now,
            out,
        );
        out.push(Effect::AskHuman(request));
    }

    fn close_request(&mut self, out: &mut Vec<Effect>) {
        if let Some(mut request) = self.task.as_mut().and_then(|t| t.open_request.take()) {
            request.closed = true;
            out.push(Effect::AskHuman(request));
        }
    }

    fn proposed(&mut self, proposal: Proposal, turned: &mut Turned<'_>, out: &mut Vec<Effect>) {
        let now = turned.now;
        let Some(task) = self.task.as_mut() else {
            return;
        };
        let dry_run = task.record.request.dry_run;
        if let Some(failures) = task.budget.exhausted(&proposal) {
            let arguments = Value::Object(proposal.arguments.clone());
            let last = task
                .record
                .steps
                .iter()
                .rev()
                .find(|s| s.skill == proposal.skill && s.arguments == arguments)
                .map(|s| {
                    if s.error_msg.is_empty() {
                        s.verdict_reason.clone()
                    } else {
                        s.error_msg.clone()
                    }
                })
                .unwrap_or_default();
            return self.exhausted(
                &proposal,
                ErrorCode::AttemptsExhausted,
                failures,
                &last,
                now,
                out,
            );
        }
        let Some(number) = task.budget.next_step() else {
            let limit = task.budget.limits().steps;
            return self.end_with(
                TaskOutcome::Failed,
                ErrorCode::StepBudgetExhausted,
                format!("{limit} steps were not enough, which is the limit; the next would have been {}; raise max_steps or give a smaller task", proposal.skill),
                now,
                out,
            );
        };
        self.journal(
            EventKind::Proposed,
            format!("{}: {}", proposal.skill, proposal.reason),
            json!({"skill": proposal.skill, "arguments": proposal.arguments}),
            now,
            out,
        );
        if !dry_run && self.surroundings.lease_token.is_none() {
            // It was released or lost between two steps; the proposal is made again with a new scene.
            return self.await_lease(now, out);
        }
        let command_id = uuid::Builder::from_random_bytes(random(turned.rng))
            .into_uuid()
            .to_string();
        let (Some(task), settings) = (self.task.as_ref(), &self.settings) else {
            return;
        };
        let empty = SceneSnapshot::default();
        let checked = gate::check(
            &proposal,
            &GateContext {
                robot_id: &settings.robot_id,
                task_id: task.id(),
                command_id: &command_id,
                plan_version: task.plan_version(),
                permissions: &task.record.request.permissions,
                surroundings: &self.surroundings,
                scene: task.scene.as_deref().unwrap_or(&empty),
                ledger: &self.ledger,
                embodiment: &settings.embodiment,
                map_frame: &settings.map_frame,
                limits: &settings.gate,
                now,
            },
        );
        if dry_run {
            return self.end_dry_run(number, &proposal, checked.err(), now, out);
        }
        match checked {
            Err(error) => self.refused(number, &proposal, &error, turned, out),
            Ok(admitted) => {
                let step = Step {
                    number,
                    proposal,
                    command_id: command_id.clone(),
                    effects: admitted.effects.to_value(),
                    began: now.steady,
                };
                let skill = admitted.issue.command.skill.clone();
                match self.ledger.propose(admitted.issue, now) {
                    Ok(Proposed::New) => {}
                    // A random id that is known already is a broken source of randomness.
                    Ok(Proposed::Known(_)) | Err(_) => {
                        return self.finish(
                            TaskOutcome::Failed,
                            ErrorCode::PlannerFailure,
                            format!("the new command id {command_id} is known already; the source of randomness is broken"),
                            now,
                            out,
                        );
                    }
                }
                if let Some(task) = self.task.as_mut() {
                    task.step = Some(step);
                    task.moved = true;
                    task.enter(Phase::Executing, format!("runs {skill}"));
                }
                self.apply(&command_id, IssuerEvent::Commit, now, out);
                let goal_id = uuid::Builder::from_random_bytes(random(turned.rng))
                    .into_uuid()
                    .into_bytes();
                self.apply(&command_id, IssuerEvent::Dispatch { goal_id }, now, out);
            }
        }
    }

    fn end_dry_run(
        &mut self,
        number: u32,
        proposal: &Proposal,
        error: Option<GateError>,
        now: Now,
        out: &mut Vec<Effect>,
    ) {
        let Some(task) = self.task.as_mut() else {
            return;
        };
        let planned = task.program.as_ref().map_or(&[][..], |p| &p.plan[..]);
        let mut steps: Vec<StepReport> = planned
            .iter()
            .zip(number..)
            .map(|(s, step)| StepReport {
                step,
                skill: s.skill.clone(),
                arguments: Value::Object(s.arguments.clone()),
                reason: s.reason.clone(),
                command_state: CommandState::Proposed,
                ..StepReport::default()
            })
            .collect();
        if steps.is_empty() {
            steps.push(StepReport {
                step: number,
                skill: proposal.skill.clone(),
                arguments: Value::Object(proposal.arguments.clone()),
                reason: proposal.reason.clone(),
                command_state: CommandState::Proposed,
                ..StepReport::default()
            });
        }
        let count = steps.len();
        if let (Some(error), Some(first)) = (&error, steps.first_mut()) {
            first.command_state = CommandState::Rejected;
            first.error_code = error.code().code();
            first.error_msg = error.to_string();
        }
        task.record.steps = steps;
        match error {
            None => self.finish(
                TaskOutcome::Succeeded,
                ErrorCode::None,
                format!("dry run: {count} steps are planned, the first one passes the checks; nothing moved"),
                now,
                out,
            ),
            Some(error) => self.finish(
                TaskOutcome::Failed,
                error.task_code(),
                format!("dry run: the first step is refused: {error}"),
                now,
                out,
            ),
        }
    }

    fn refused(
        &mut self,
        number: u32,
        proposal: &Proposal,
        error: &GateError,
        turned: &mut Turned<'_>,
        out: &mut Vec<Effect>,
    ) {
        let now = turned.now;
        self.journal(
            EventKind::Rejected,
            error.to_string(),
            json!({"skill": proposal.skill, "error_code": error.code().code()}),
            now,
            out,
        );
        self.add_step(
            StepReport {
                step: number,
                skill: proposal.skill.clone(),
                arguments: Value::Object(proposal.arguments.clone()),
                reason: proposal.reason.clone(),
                command_state: CommandState::Rejected,
                error_code: error.code().code(),
                error_msg: error.to_string(),
                ..StepReport::default()
            },
            out,
        );
        let failure = Failure {
            code: error.task_code(),
            message: &error.to_string(),
            hopeless: false,
        };
        self.after_failure(proposal, &failure, turned, out);
    }

    // ---- execute, judge ----

    fn status(&mut self, status: SkillStatus, now: Now, out: &mut Vec<Effect>) {
        let Some(record) = self.ledger.get(&status.command_id) else {
            // Another issuer's, or one that is long settled.
            return;
        };
        if record.state.is_terminal() {
            if status.state == ExecutorState::Settled && record.settle_pending.is_some() {
                let id = status.command_id;
                self.apply(&id, IssuerEvent::SettleConfirmed, now, out);
            }
            return;
        }
        // The array on the topic repeats what feedback and result have said: that is not late news.
        if record
            .status
            .as_ref()
            .is_some_and(|known| status.sequence < known.sequence)
        {
            return;
        }
        if let Some(task) = &mut self.task {
            if task.command_id() == Some(status.command_id.as_str())
                && record.status.as_ref() != Some(&status)
            {
                task.dirty = true;
            }
        }
        let id = status.command_id.clone();
        self.apply(&id, IssuerEvent::Status(Box::new(status)), now, out);
    }

    /// Applies an event to a command and performs what follows.
    fn apply(&mut self, command_id: &str, event: IssuerEvent, now: Now, out: &mut Vec<Effect>) {
        let before = self.ledger.get(command_id).map(|r| r.state);
        match self
            .ledger
            .apply(command_id, event, &self.settings.policy, now)
        {
            Ok(effects) => self.perform(command_id, effects, now, out),
            Err(error) => out.push(Effect::Warn(error.to_string())),
        }
        let after = self.ledger.get(command_id).map(|r| r.state);
        if before != after {
            if let Some(task) = self.task.as_mut() {
                if task.command_id() == Some(command_id) {
                    task.dirty = true;
                }
            }
            let settled = matches!(
                before,
                Some(CommandState::Unknown | CommandState::Reconciling)
            );
            if settled && after.is_some_and(CommandState::is_terminal) {
                self.close_settle_request(command_id, out);
            }
        }
    }

    fn perform(
        &mut self,
        command_id: &str,
        effects: Vec<IssuerEffect>,
        now: Now,
        out: &mut Vec<Effect>,
    ) {
        for effect in effects {
            let Some(record) = self.ledger.get(command_id) else {
                return;
            };
            match effect {
                IssuerEffect::Persist => {
                    out.push(Effect::SaveCommand(Box::new(record.clone())));
                }
                IssuerEffect::Send { segment, goal_id } => {
                    let beacon = self
                        .surroundings
                        .offer(&self.settings.robot_id, &record.command.skill, now.steady)
                        .map(|o| o.beacon.clone());
                    out.push(Effect::SendGoal(Box::new(GoalRequest {
                        action_name: record.action_name.clone(),
                        goal_id,
                        segment,
                        command: record.command.clone(),
                        envelope: Envelope {
                            fencing_token: self.surroundings.lease_token.unwrap_or(0),
                            controller_id: self.settings.controller_id.clone(),
                            start_within: record.command.start_within,
                            beacon,
                        },
                    })));
                }
                IssuerEffect::CancelGoal { goal_id } => out.push(Effect::CancelGoal {
                    command_id: command_id.into(),
                    action_name: record.action_name.clone(),
                    goal_id,
                }),
                IssuerEffect::QueryExecutor => out.push(Effect::QueryExecutor {
                    command_id: command_id.into(),
                    executor: record.executor.clone(),
                }),
                IssuerEffect::Evaluate {
                    run_id,
                    segment,
                    look,
                } => {
                    let effect = Effect::Evaluate {
                        command_id: command_id.into(),
                        run_id,
                        segment,
                    };
                    if look == 0 {
                        out.push(effect);
                    } else {
                        let due = now.steady.saturating_add(self.settings.waits.look);
                        self.looks.push((due, effect));
                    }
                }
                // The next segment is dispatched by `advance`, which has the randomness for its UUID.
                IssuerEffect::NextSegment { .. } => {}
                IssuerEffect::SettleExecutor { to } => {
                    let person = !record.settled_by.is_empty();
                    out.push(Effect::SettleExecutor {
                        command_id: command_id.into(),
                        executor: record.executor.clone(),
                        to,
                        settled_by: if person {
                            record.settled_by.clone()
                        } else {
                            self.settings.controller_id.clone()
                        },
                        reason: if record.error_msg.is_empty() {
                            state_name(record.state).into()
                        } else {
                            record.error_msg.clone()
                        },
                        fencing_token: if person { 0 } else { self.last_token },
                    });
                }
                IssuerEffect::Note(note) => {
                    let task_id = record.command.task_id.clone();
                    let plan_version = record.command.plan_version;
                    self.note(&task_id, plan_version, note, now, out);
                }
                IssuerEffect::Ended => self.command_ended(command_id, now, out),
            }
        }
    }

    fn command_ended(&mut self, command_id: &str, now: Now, out: &mut Vec<Effect>) {
        let Some(record) = self.ledger.get(command_id) else {
            return;
        };
        let state = record.state;
        if state == CommandState::Unknown {
            self.ask_to_settle(command_id, now, out);
        }
        let Some(record) = self.ledger.get(command_id) else {
            return;
        };
        let Some(task) = self.task.as_mut() else {
            return;
        };
        let Some(step) = task
            .step
            .clone()
            .filter(|s| s.command_id == command_id && task.phase == Phase::Executing)
        else {
            return;
        };
        let refused_without_lease = state == CommandState::Rejected
            && record.error_code == ErrorCode::ExecutorNoLease.code();
        if refused_without_lease {
            let held = self.surroundings.lease_token.is_some() && task.ending.is_none();
            let since = *task.lease_unheard.get_or_insert(now.steady);
            if held && now.steady.saturating_sub(since) < self.settings.waits.lease {
                // An executor that was just started hears of the lease in a moment. Nothing began, so
                // that this is neither a step nor an attempt.
                let text = format!(
                    "{} has not heard of the control lease yet: waits for it",
                    record.executor
                );
                task.step = None;
                task.budget.give_back_step();
                let until = now.steady.saturating_add(LEASE_PERIOD);
                return task.enter(Phase::Waiting { until }, text);
            }
        } else {
            task.lease_unheard = None;
        }
        let report = report(&step, record, now);
        let verdict = record.verdict.clone();
        let message = record.error_msg.clone();
        if state == CommandState::Unknown {
            self.add_step(report, out);
            let text = format!(
                "{} ({command_id}) could not be settled: {message}",
                step.proposal.skill
            );
            return self.finish(
                TaskOutcome::Unknown,
                ErrorCode::CommandUnknown,
                text,
                now,
                out,
            );
        }
        let effects_pending = match (state, verdict) {
            (CommandState::Succeeded, Some(verdict)) => {
                out.push(Effect::ApplyEffects {
                    command_id: command_id.into(),
                    verdict: Box::new(verdict),
                    effects: step.effects.clone(),
                });
                true
            }
            _ => false,
        };
        task.enter(
            Phase::Learning {
                since: now.steady,
                effects_pending,
            },
            format!("{} {}", step.proposal.skill, state_name(state)),
        );
        self.add_step(report, out);
    }

    fn add_step(&mut self, report: StepReport, out: &mut Vec<Effect>) {
        if let Some(task) = self.task.as_mut() {
            task.record.steps.push(report.clone());
            task.finished.push(report);
            task.dirty = true;
            out.push(Effect::SaveTask(Box::new(task.record.clone())));
        }
    }

    // ---- learn ----

    fn effects_applied(
        &mut self,
        command_id: &str,
        result: Result<(), String>,
        now: Now,
        out: &mut Vec<Effect>,
    ) {
        let Some(task) = self.task.as_mut() else {
            return self.drop_answer();
        };
        if task.command_id() != Some(command_id) {
            return self.drop_answer();
        }
        if let Phase::Learning {
            effects_pending, ..
        } = &mut task.phase
        {
            *effects_pending = false;
        }
        if let Err(reason) = result {
            // Perception goes on updating the scene; the next plan is made on what it says.
            let text = format!("the scene graph did not take the effects: {reason}");
            out.push(Effect::Warn(format!("{command_id}: {text}")));
            self.journal(EventKind::Settled, text, Value::Null, now, out);
        }
    }

    /// Goes on where a wait is over: the next segment, the end of learning.
    fn advance(&mut self, turned: &mut Turned<'_>, out: &mut Vec<Effect>) {
        let now = turned.now;
        let Some(task) = self.task.as_ref() else {
            return;
        };
        let Some(command_id) = task.command_id().map(String::from) else {
            return;
        };
        let Some(record) = self.ledger.get(&command_id) else {
            return;
        };
        match task.phase {
            Phase::Executing if record.state == CommandState::Evaluating => {
                let goal_id = uuid::Builder::from_random_bytes(random(turned.rng))
                    .into_uuid()
                    .into_bytes();
                if record.next_segment_is_due() {
                    self.apply(&command_id, IssuerEvent::Dispatch { goal_id }, now, out);
                }
            }
            Phase::Learning {
                since,
                effects_pending,
            } => {
                let waited = now.steady.saturating_sub(since) >= self.settings.waits.learn;
                let released = record.settle_pending.is_none();
                if !waited && (effects_pending || !released) {
                    return;
                }
                if !released {
                    out.push(Effect::Warn(format!(
                        "{} did not release {command_id} within {:.0} s",
                        record.executor,
                        self.settings.waits.learn.as_secs_f64()
                    )));
                }
                self.step_done(&command_id, turned, out);
            }
            Phase::Executing
            | Phase::AwaitLease { .. }
            | Phase::Reading { .. }
            | Phase::Beginning { .. }
            | Phase::Planning { .. }
            | Phase::Waiting { .. }
            | Phase::Human { .. } => {}
        }
    }

    fn step_done(&mut self, command_id: &str, turned: &mut Turned<'_>, out: &mut Vec<Effect>) {
        let now = turned.now;
        let Some(record) = self.ledger.get(command_id) else {
            return;
        };
        let (state, message, code) = (
            record.state,
            record.error_msg.clone(),
            ErrorCode::from_code(record.error_code),
        );
        let hopeless = self.is_hopeless(&record.command.skill, record.error_code, now);
        let Some(task) = self.task.as_mut() else {
            return;
        };
        let Some(step) = task.step.take() else { return };
        if let Some(ending) = task.ending.clone() {
            return self.finish(ending.outcome, ending.code, ending.message, now, out);
        }
        if state == CommandState::Succeeded {
            if task.budget.succeeded(&step.proposal) {
                if !shows_something(&step.effects) {
                    return self.read_scene(now, out);
                }
                let until = now.steady.saturating_add(self.settings.waits.sight);
                return task.enter(
                    Phase::Waiting { until },
                    "waits for what was seen to be in the scene",
                );
            }
            let text = format!(
                "{} has succeeded {} times with the same arguments and the task is not done: it goes round in circles",
                step.proposal.skill,
                task.budget.limits().repeats + 1
            );
            return self.finish(TaskOutcome::Failed, ErrorCode::NoPlan, text, now, out);
        }
        match code {
            Some(ErrorCode::StopLatched) => {
                self.finish(
                    TaskOutcome::Failed,
                    ErrorCode::TaskStopLatched,
                    message,
                    now,
                    out,
                );
            }
            Some(ErrorCode::OldToken | ErrorCode::ExecutorNoLease) => {
                // The token that was used is not the newest: get another before the next attempt.
                self.surroundings.lease_token = None;
                let failure = Failure {
                    code: ErrorCode::NoLease,
                    message: &message,
                    hopeless: false,
                };
                self.after_failure(&step.proposal, &failure, turned, out);
            }
            _ => {
                let failure = Failure {
                    code: ErrorCode::AttemptsExhausted,
                    message: &message,
                    hopeless,
                };
                self.after_failure(&step.proposal, &failure, turned, out);
            }
        }
    }

    /// Whether the skill's descriptor says that another attempt cannot change this failure.
    fn is_hopeless(&self, skill: &str, error_code: u16, now: Now) -> bool {
        error_code != 0
            && self
                .surroundings
                .offer(&self.settings.robot_id, skill, now.steady)
                .is_some_and(|o| {
                    o.descriptor
                        .failure_modes
                        .iter()
                        .any(|m| m.error_code == error_code && !m.recoverable)
                })
    }

    fn after_failure(
        &mut self,
        proposal: &Proposal,
        failure: &Failure<'_>,
        turned: &mut Turned<'_>,
        out: &mut Vec<Effect>,
    ) {
        let now = turned.now;
        let Failure { code, message, .. } = *failure;
        let Some(task) = self.task.as_mut() else {
            return;
        };
        match task.budget.failed(proposal, failure.hopeless, turned.rng) {
            AfterFailure::Wait(wait) => task.enter(
                Phase::Waiting {
                    until: now.steady.saturating_add(wait),
                },
                format!(
                    "{} did not work ({message}); plans again in {:.1} s",
                    proposal.skill,
                    wait.as_secs_f64()
                ),
            ),
            // The planner may know another way; the same step is not taken again.
            AfterFailure::Exhausted(failures) if code == ErrorCode::AttemptsExhausted => task
                .enter(
                    Phase::Waiting { until: now.steady },
                    format!(
                        "{} {} ({message}); looks for another way",
                        proposal.skill,
                        said(failures)
                    ),
                ),
            AfterFailure::Exhausted(failures) => {
                self.exhausted(proposal, code, failures, message, now, out);
            }
        }
    }

    /// Ends the task: a step has used up its attempts.
    fn exhausted(
        &mut self,
        proposal: &Proposal,
        code: ErrorCode,
        failures: Failures,
        message: &str,
        now: Now,
        out: &mut Vec<Effect>,
    ) {
        let moved = self.task.as_ref().is_some_and(|t| t.moved);
        let outcome = if moved {
            TaskOutcome::Failed
        } else {
            TaskOutcome::Rejected
        };
        let text = format!(
            "{} {} {}; the last one: {message}",
            proposal.skill,
            Value::Object(proposal.arguments.clone()),
            said(failures)
        );
        self.finish(outcome, code, text, now, out);
    }

    // ---- the end of a task ----

    /// Ends the task: at once when nothing can be moving, else after the running command was stopped.
    fn end_with(
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
        }
        if task.phase == Phase::Executing {
            self.apply(
                &command_id,
                IssuerEvent::CancelRequested { reason: message },
                now,
                out,
            );
        }
    }

    fn finish(
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
        task.record.elapsed = now.steady.saturating_sub(task.began).as_secs_f64();
        out.push(Effect::SaveTask(Box::new(task.record.clone())));
        if self.surroundings.lease_token.take().is_some() || !task.record.request.dry_run {
            out.push(Effect::ReleaseLease);
        }
        out.push(Effect::Finish(Box::new(task.record)));
    }

    fn end_interrupted(&mut self, now: Now, out: &mut Vec<Effect>) {
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

    // ---- people, time, records ----

    fn ask_to_settle(&mut self, command_id: &str, now: Now, out: &mut Vec<Effect>) {
        let Some(record) = self.ledger.get(command_id) else {
            return;
        };
        let request = HumanRequest {
            request_id: format!("settle-{command_id}"),
            task_id: record.command.task_id.clone(),
            command_id: command_id.into(),
            kind: HumanRequestKind::Settle,
            question: format!(
                "What became of {} ({})?",
                record.command.skill, record.error_msg
            ),
            options: ["succeeded", "failed", "canceled"]
                .map(String::from)
                .to_vec(),
            stamp: now.ros,
            expires_in: Duration::ZERO,
            closed: false,
        };
        self.settle_requests
            .insert(request.request_id.clone(), request.clone());
        out.push(Effect::AskHuman(request));
    }

    fn close_settle_request(&mut self, command_id: &str, out: &mut Vec<Effect>) {
        if let Some(mut request) = self.settle_requests.remove(&format!("settle-{command_id}")) {
            request.closed = true;
            out.push(Effect::AskHuman(request));
        }
    }

    fn tick(&mut self, now: Now, out: &mut Vec<Effect>) {
        let open: Vec<String> = self
            .ledger
            .open()
            .map(|r| r.command_id().to_owned())
            .collect();
        for id in open {
            self.apply(&id, IssuerEvent::Tick, now, out);
        }
        let (due, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.looks)
            .into_iter()
            .partition(|(due, _)| *due <= now.steady);
        self.looks = later;
        out.extend(due.into_iter().map(|(_, effect)| effect));
        self.tick_task(now, out);
    }

    fn tick_task(&mut self, now: Now, out: &mut Vec<Effect>) {
        let waits = self.settings.waits;
        let Some(task) = self.task.as_mut() else {
            return;
        };
        if task.ending.is_none() && task.budget.remaining(now.steady).is_zero() {
            let limit = task.budget.limits().time.as_secs_f64();
            let text = format!("{limit:.0} s were not enough, which is the limit; raise time_budget or give a smaller task");
            return self.end_with(
                TaskOutcome::Failed,
                ErrorCode::TimeBudgetExhausted,
                text,
                now,
                out,
            );
        }
        let over = |since: Duration, limit: Duration| now.steady.saturating_sub(since) >= limit;
        match task.phase.clone() {
            Phase::AwaitLease { since, asked } => {
                if over(since, waits.lease) {
                    let text = format!(
                        "the control lease was not granted within {:.0} s ({}); is protection_node running, or does another controller hold it?",
                        waits.lease.as_secs_f64(),
                        task.text
                    );
                    self.end_with(TaskOutcome::Failed, ErrorCode::NoLease, text, now, out);
                } else if over(asked, Duration::from_secs(1)) {
                    task.phase = Phase::AwaitLease {
                        since,
                        asked: now.steady,
                    };
                    out.push(Effect::AcquireLease);
                }
            }
            Phase::Reading { since, tries, .. } if over(since, waits.scene) => {
                if tries >= waits.scene_tries {
                    let reason = format!("no answer within {:.0} s", waits.scene.as_secs_f64());
                    self.scene_unavailable(reason, now, out);
                } else {
                    self.read_scene(now, out);
                }
            }
            Phase::Beginning { since, .. } | Phase::Planning { since, .. }
                if over(since, waits.planner) =>
            {
                let text = format!(
                    "the planner did not answer within {:.0} s",
                    waits.planner.as_secs_f64()
                );
                self.end_with(
                    TaskOutcome::Failed,
                    ErrorCode::PlannerFailure,
                    text,
                    now,
                    out,
                );
            }
            Phase::Waiting { until } if now.steady >= until => self.read_scene(now, out),
            Phase::Human { until, .. } if now.steady >= until => {
                let text = format!(
                    "nobody answered within {:.0} s: {}",
                    waits.human.as_secs_f64(),
                    task.text
                );
                self.finish(
                    TaskOutcome::Failed,
                    ErrorCode::TargetAmbiguous,
                    text,
                    now,
                    out,
                );
            }
            Phase::Reading { .. }
            | Phase::Beginning { .. }
            | Phase::Planning { .. }
            | Phase::Executing
            | Phase::Learning { .. }
            | Phase::Waiting { .. }
            | Phase::Human { .. } => {}
        }
    }

    fn feedback(&mut self, now: Now, out: &mut Vec<Effect>) {
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

    fn journal(
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

    fn note(
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

/// The answer as the request has it: one of its options, by its text or by what `choose` makes of the
/// person's words, or any text where there are no options.
fn meant(
    request: &HumanRequest,
    answer: &str,
    choose: impl FnOnce(&str) -> Option<usize>,
) -> Result<String, AnswerError> {
    if request.closed {
        return Err(AnswerError::Closed {
            request_id: request.request_id.clone(),
        });
    }
    let answer = answer.trim();
    let free = request.options.is_empty() && !answer.is_empty();
    if free || request.options.iter().any(|o| o == answer) {
        return Ok(answer.into());
    }
    choose(answer)
        .and_then(|at| request.options.get(at))
        .cloned()
        .ok_or_else(|| AnswerError::Invalid {
            answer: answer.into(),
            options: request.options.clone(),
        })
}

/// A failed step as the budget counts it.
struct Failure<'a> {
    /// Code of the task where it ends because of this.
    code: ErrorCode,
    message: &'a str,
    /// Another attempt cannot change it.
    hopeless: bool,
}

fn said(failures: Failures) -> String {
    let attempts = failures.attempts;
    if failures.hopeless {
        "failed in a way that another attempt cannot change".into()
    } else {
        format!("did not work in {attempts} attempts, which is the limit")
    }
}

/// Whether a step's declared effects bring something into view.
fn shows_something(effects: &Value) -> bool {
    effects
        .get("add")
        .and_then(Value::as_array)
        .is_some_and(|added| added.iter().any(|p| p.get("visible").is_some()))
}

fn random(rng: &mut dyn RngCore) -> [u8; 16] {
    let mut bytes = [0; 16];
    rng.fill_bytes(&mut bytes);
    bytes
}

/// The outcome as people read it.
pub const fn outcome_name(outcome: TaskOutcome) -> &'static str {
    match outcome {
        TaskOutcome::Unspecified => "RUNNING",
        TaskOutcome::Succeeded => "SUCCEEDED",
        TaskOutcome::Failed => "FAILED",
        TaskOutcome::Canceled => "CANCELED",
        TaskOutcome::Rejected => "REJECTED",
        TaskOutcome::Unknown => "UNKNOWN",
    }
}

//! The whole loop: one task at a time through perceive, reason, decide, execute, judge, learn; and every
//! command that is not settled, of this task or an earlier one.

mod deciding;
mod ending;
mod executing;
mod learning;
mod people;
mod reasoning;
mod reconciling;
mod records;
mod resuming;
mod surroundings;
mod waiting;

use std::collections::BTreeMap;
use std::time::Duration;

use eh_contract::session::{EventKind, TaskRecord, TaskRequest};
use eh_contract::state::{CommandState, TaskOutcome};
use eh_contract::ErrorCode;
use eh_ledger::issuer::IssuerRecord;
use eh_ledger::issuer_event::IssuerEvent;
use eh_ledger::issuer_ledger::IssuerLedger;
use eh_ledger::issuer_policy::Now;
use rand::RngCore;
use serde_json::json;

use crate::admission::{check_permissions, compare, AdmissionError, Repeated};
use crate::effect::{Effect, HumanRequest};
use crate::event::Event;
use crate::settings::Settings;
use crate::surroundings::Surroundings;
use crate::task::Task;

use reconciling::NextLook;

/// Terminal commands that are kept in memory for questions; the store has all of them.
const KEEP_ENDED: usize = 64;

/// Time between two looks whether missing skills are back.
const SKILLS_PERIOD: Duration = Duration::from_millis(500);

/// Time between two sendings of a step to an executor that has not heard of the lease yet; protection
/// repeats the lease more often than that.
const LEASE_PERIOD: Duration = Duration::from_millis(500);

/// Executors that run, or are started again, are heard within this time of the start of a process; discovery
/// takes seconds on a busy machine.
const DISCOVERY: Duration = Duration::from_secs(10);

/// What an earlier process left behind.
#[derive(Clone, Debug, Default)]
pub struct Restored {
    /// Commands that are not terminal or not yet released by their executor, and those that
    /// [`command_in_work`](crate::checkpoint::command_in_work) names.
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
    reconciliations: BTreeMap<String, NextLook>,
    ticket: u64,
    last_token: u64,
    storage_failure: Option<String>,
    shutting_down: bool,
    dropped: u64,
    /// When this process began, on its own clock.
    began: Duration,
}

impl Harness {
    /// A loop that takes up what an earlier process left: commands that were never sent are refused, the
    /// task is gone on with, and the command that may run for it is adopted by its UUID. Where a task can't
    /// be gone on with (see [`Settings::resume_tasks`]) its commands are canceled, and it ends once it is
    /// known what became of them. Nothing is sent again.
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
            reconciliations: BTreeMap::new(),
            ticket: 0,
            last_token: 0,
            storage_failure: None,
            shutting_down: false,
            dropped: 0,
            began: now.steady,
        };
        let mut out = Vec::new();
        harness.take_up(now, &mut out);
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
            && self.ledger.open().all(|r| {
                r.state.is_terminal()
                    || matches!(r.state, CommandState::Unknown | CommandState::Reconciling)
            })
    }

    /// Whether this process may not have heard of every executor yet.
    fn is_new(&self, now: Now) -> bool {
        now.steady.saturating_sub(self.began) < DISCOVERY
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
        let needed = self.surroundings.permissions(&self.settings.robot_id);
        check_permissions(&request, needed, &self.settings.defaults)?;
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
        if let Some(reason) = &self.storage_failure {
            return Err(AdmissionError::Storage {
                reason: reason.clone(),
            });
        }
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
            Event::LeaseLost { reason, taken } => self.lease_lost(reason, taken, now, &mut out),
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
                if let Some(task) = self.task.as_mut() {
                    // The client waits for the end until it is durable, and has to know why.
                    task.text = format!("ends, as soon as that can be written: {reason}");
                    task.dirty = true;
                }
                self.end_with(
                    TaskOutcome::Failed,
                    ErrorCode::TaskStorageFailure,
                    reason,
                    now,
                    &mut out,
                );
            }
            Event::StorageWorks => {
                self.storage_failure = None;
                // Who answered meanwhile was refused.
                out.extend(self.open_requests().into_iter().map(Effect::AskHuman));
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

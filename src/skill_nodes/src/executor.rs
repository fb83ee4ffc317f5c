//! The executor: its records, the way from an event to a durable record to its effects, and the gate.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use eh_contract::command::{Envelope, SkillCommand};
use eh_contract::run_event::{RunEvent, RunEventKind};
use eh_contract::skill::DisconnectPolicy;
use eh_contract::state::{ControlEnd, ExecutorState};
use eh_contract::status::SkillStatus;
use eh_contract::{ErrorCode, Stamp};
use eh_ledger::admission::{
    admit, needs_scene_check, Admission, Admitted, ExecutorView, KnownSkill, Refusal, Request,
};
use eh_ledger::executor::{
    held_resources, step, ExecutorEffect, ExecutorError, ExecutorEvent, ExecutorRecord, StopCause,
    Transition,
};
use eh_ledger::restart::{after_restart, RestartPlan};
use eh_ros_edge::convert;
use eh_ros_edge::convert::skill::status_msg;
use eh_ros_edge::{serve_action, GoalDecision, GoalEnd, NodeClock, RunningGoal, Shutdown};
use eh_skills::catalog::{self, Adapter};
use eh_skills::grasp::HeldGrasp;
use parking_lot::Mutex;
use rclrs::{log_error, log_info, log_warn, IntoTimerOptions, Node};
use ros_env::embodied_harness::action::{
    ExecuteSkill, ExecuteSkill_Feedback, ExecuteSkill_Goal, ExecuteSkill_Result,
};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{watch, Mutex as AsyncMutex};
use uuid::Uuid;

use crate::foreign::Foreign;
use crate::goals::GoalSettings;
use crate::journal_thread::{Journal, JournalError};
use crate::outlet::Outlet;
use crate::parameters::Parameters;
use crate::planning_scene::PlanningSceneClient;
use crate::scene_check::SceneClient;
use crate::services;
use crate::surroundings::Surroundings;
use crate::{Error, Handles};

/// Settled commands that are kept in `skill_status`, as in msg/SkillStatusArray.msg.
const RECENT: usize = 16;

/// Period of `executor_beacon`, as in msg/ExecutorBeacon.msg.
const BEACON_PERIOD: Duration = Duration::from_millis(200);

/// Period of `declared_runs`, as in msg/DeclaredRun.msg.
const DECLARE_PERIOD: Duration = Duration::from_millis(100);

/// How long the servers of goals of an earlier life are waited for; discovery takes seconds on a busy
/// machine.
const DISCOVERY: Duration = Duration::from_secs(5);

/// Longest name of a sender that goes into a log.
const MAX_NAME: usize = 200;

/// Why an event was not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApplyError {
    #[error("no command {0:?} is known here")]
    NotFound(String),
    #[error(transparent)]
    Illegal(#[from] ExecutorError),
    #[error("the journal can't be written: {0}")]
    Journal(#[from] JournalError),
}

/// A command that is not settled.
pub(crate) struct Entry {
    pub(crate) record: ExecutorRecord,
    pub(crate) progress: Option<f64>,
    /// Why it has to stop; the first cause counts.
    pub(crate) stop: watch::Sender<Option<StopCause>>,
    /// Counts changes, for those who wait.
    changed: watch::Sender<u64>,
}

impl Entry {
    fn new(record: ExecutorRecord) -> Self {
        Entry {
            record,
            progress: None,
            stop: watch::Sender::new(None),
            changed: watch::Sender::new(0),
        }
    }
}

#[derive(Default)]
struct Book {
    entries: BTreeMap<String, Entry>,
    /// Settled and rejected ones, newest first.
    recent: VecDeque<ExecutorRecord>,
    held: Option<HeldGrasp>,
    shutting_down: bool,
}

/// Everything that the tasks of one adapter share.
pub(crate) struct Executor {
    pub(crate) node: Node,
    pub(crate) clock: NodeClock,
    pub(crate) parameters: Parameters,
    pub(crate) name: String,
    pub(crate) boot_id: String,
    pub(crate) foreign: Foreign,
    pub(crate) surroundings: Arc<Surroundings>,
    pub(crate) journal: Journal,
    outlet: Outlet,
    scene: SceneClient,
    /// The planning scene of the arm, where it is to be used.
    pub(crate) planning_scene: Option<PlanningSceneClient>,
    skills: BTreeMap<String, KnownSkill>,
    frames: BTreeSet<String>,
    book: Mutex<Book>,
    /// One command at a time passes the gate.
    gate: AsyncMutex<()>,
    /// One event at a time is written.
    writer: AsyncMutex<()>,
    /// Budget clock at the start; beacons count from here.
    began: Duration,
}

/// Keeps the ROS handles alive.
pub(crate) struct Running {
    _handles: Handles,
}

impl Running {
    pub(crate) fn start(
        node: &Node,
        adapter: Adapter,
        shutdown: &Shutdown,
        spun: &Shutdown,
    ) -> Result<Self, Error> {
        let (executor, mut handles) = Executor::new(node, adapter)?;
        handles.extend(executor.serve()?);
        executor.recover();
        let this = executor.clone();
        let (asked, done) = (shutdown.clone(), spun.clone());
        handles.push(Box::new(node.commands().run(async move {
            asked.requested().await;
            this.shut_down().await;
            done.request();
        })));
        Ok(Running { _handles: handles })
    }
}

impl Executor {
    fn new(node: &Node, adapter: Adapter) -> Result<(Arc<Self>, Handles), Error> {
        let parameters = Parameters::declare(node, adapter)?;
        let clock = NodeClock::of(node);
        let name = node.fully_qualified_name();
        let boot_id = Uuid::new_v4().to_string();
        let path = parameters
            .state_directory
            .join(format!("{}.sqlite", node.name()));
        let (journal, found) = Journal::open(&path, RECENT as u32)?;
        log_info!(
            node.logger(),
            "journal {}: {} commands are not settled, newest token {}",
            path.display(),
            found.live.len(),
            found.newest_token
        );
        let settings = Arc::new(GoalSettings {
            body: parameters.body.clone(),
            straight_pipeline: parameters.straight_pipeline.clone(),
            straight_planner: parameters.straight_planner.clone(),
            planning_time: parameters.planning_time,
        });
        let foreign = match adapter {
            Adapter::Navigation => {
                Foreign::navigation(node, &parameters.navigate_to_pose_action, &settings)?
            }
            Adapter::Manipulation => Foreign::manipulation(
                node,
                &parameters.move_group_action,
                &parameters.gripper_action,
                &parameters.head_action,
                &settings,
            )?,
        };
        let mut skills = BTreeMap::new();
        for mut descriptor in catalog::of(adapter)? {
            descriptor.action_name = format!("{}/execute_skill", node.name());
            descriptor.foreign_actions = descriptor
                .foreign_actions
                .iter()
                .map(|default| foreign.resolved(default, &parameters))
                .collect();
            skills.insert(descriptor.name.clone(), KnownSkill::new(descriptor)?);
        }
        let (surroundings, mut handles) =
            Surroundings::new(node, adapter, &clock, &parameters, found.newest_token)?;
        let mut book = Book {
            recent: found.settled.into(),
            // A note of another version only means that the usual grasp is taken for granted.
            held: found
                .held
                .and_then(|text| serde_json::from_str(&text).ok())
                .flatten(),
            ..Book::default()
        };
        for record in found.live {
            book.entries
                .insert(record.command.command_id.clone(), Entry::new(record));
        }
        let began = surroundings.now();
        let executor = Arc::new(Executor {
            outlet: Outlet::new(node, &name, &boot_id)?,
            scene: SceneClient::new(
                node,
                &parameters.query_scene_service,
                parameters.scene_timeout,
            )?,
            planning_scene: if adapter == Adapter::Manipulation && parameters.planning_scene {
                Some(PlanningSceneClient::new(node, &parameters)?)
            } else {
                None
            },
            frames: [parameters.body.map_frame.clone()].into(),
            node: node.clone(),
            clock,
            name,
            boot_id,
            foreign,
            surroundings,
            journal,
            skills,
            book: Mutex::new(book),
            gate: AsyncMutex::new(()),
            writer: AsyncMutex::new(()),
            began,
            parameters,
        });
        // Who listens counts the age of these on the budget clock.
        let simulated = executor.clock.is_simulated();
        let every = |period: Duration| {
            if simulated {
                period.node_time()
            } else {
                period.steady_time()
            }
        };
        let this = executor.clone();
        handles.push(Box::new(
            node.create_timer_repeating(every(BEACON_PERIOD), move || {
                this.outlet.beacon(this.tick())
            })?,
        ));
        let this = executor.clone();
        handles.push(Box::new(
            node.create_timer_repeating(every(DECLARE_PERIOD), move || this.watch_over())?,
        ));
        let this = executor.clone();
        handles.push(Box::new(
            node.create_timer_repeating(every(BEACON_PERIOD), move || this.publish_progress())?,
        ));
        handles.extend(executor.watch_feedback());
        handles.extend(executor.watch_late_acknowledgements());
        Ok((executor, handles))
    }

    fn serve(self: &Arc<Self>) -> Result<Handles, Error> {
        let mut handles = services::serve(self)?;
        let this = self.clone();
        handles.push(Box::new(serve_action::<ExecuteSkill, _, _, _>(
            &self.node,
            &format!("{}/execute_skill", self.node.name()),
            // Refusals are told in the result, which a rejected goal has not.
            |_, _| GoalDecision::Accept,
            move |goal| this.clone().execute(goal),
        )?));
        self.outlet.catalog(
            &self.parameters.robot_id,
            self.skills.values().map(|s| &s.descriptor),
        );
        self.publish_statuses();
        log_info!(
            self.node.logger(),
            "boot {}: serving {}",
            self.boot_id,
            self.skills.keys().cloned().collect::<Vec<_>>().join(", ")
        );
        Ok(handles)
    }

    /// This executor's own clock since its start.
    pub(crate) fn tick(&self) -> Duration {
        self.surroundings.now().saturating_sub(self.began)
    }

    pub(crate) fn stamp(&self) -> Stamp {
        Stamp(self.clock.ros_ns())
    }

    // ---- records ---------------------------------------------------------------------------------

    /// A record in memory: live, or one of the last settled ones.
    pub(crate) fn record(&self, command_id: &str) -> Option<ExecutorRecord> {
        let book = self.book.lock();
        book.entries
            .get(command_id)
            .map(|e| e.record.clone())
            .or_else(|| {
                book.recent
                    .iter()
                    .find(|r| r.command.command_id == command_id)
                    .cloned()
            })
    }

    /// A record wherever it is.
    pub(crate) async fn find(
        &self,
        command_id: &str,
    ) -> Result<Option<ExecutorRecord>, JournalError> {
        match self.record(command_id) {
            Some(record) => Ok(Some(record)),
            None => self.journal.get(command_id.into()).await,
        }
    }

    /// Every record that is not settled.
    pub(crate) fn live_records(&self) -> Vec<ExecutorRecord> {
        let book = self.book.lock();
        book.entries.values().map(|e| e.record.clone()).collect()
    }

    pub(crate) fn status_of(&self, record: &ExecutorRecord) -> SkillStatus {
        let progress = {
            let book = self.book.lock();
            book.entries
                .get(&record.command.command_id)
                .and_then(|e| e.progress)
        };
        record.status(&self.name, &self.boot_id, progress)
    }

    pub(crate) fn held_grasp(&self) -> Option<HeldGrasp> {
        self.book.lock().held.clone()
    }

    pub(crate) fn set_held_grasp(&self, held: Option<HeldGrasp>) {
        self.book.lock().held = held;
    }

    pub(crate) fn set_progress(&self, command_id: &str, progress: f64) {
        if let Some(entry) = self.book.lock().entries.get_mut(command_id) {
            entry.progress = Some(progress.clamp(0.0, 1.0));
        }
    }

    /// Why a command has to stop, watched.
    pub(crate) fn stop_signal(
        &self,
        command_id: &str,
    ) -> Option<watch::Receiver<Option<StopCause>>> {
        let book = self.book.lock();
        book.entries.get(command_id).map(|e| e.stop.subscribe())
    }

    /// Asks a command to stop; the first cause counts, asking again is harmless.
    pub(crate) fn ask_to_stop(&self, command_id: &str, cause: StopCause) {
        let book = self.book.lock();
        if let Some(entry) = book.entries.get(command_id) {
            entry.stop.send_if_modified(|now| {
                if now.is_none() {
                    *now = Some(cause);
                    true
                } else {
                    false
                }
            });
        }
    }

    fn publish_statuses(&self) {
        let statuses: Vec<SkillStatus> = {
            let book = self.book.lock();
            let live = book
                .entries
                .values()
                .map(|e| e.record.status(&self.name, &self.boot_id, e.progress));
            let recent = book
                .recent
                .iter()
                .map(|r| r.status(&self.name, &self.boot_id, None));
            live.chain(recent).collect()
        };
        self.outlet.statuses(&statuses, self.stamp());
    }

    fn publish_progress(&self) {
        let moving = {
            let book = self.book.lock();
            for entry in book.entries.values() {
                if entry.record.state == ExecutorState::Started {
                    entry.changed.send_modify(|n| *n += 1);
                }
            }
            book.entries
                .values()
                .any(|e| e.record.state == ExecutorState::Started)
        };
        if moving {
            self.publish_statuses();
        }
    }

    // ---- events ----------------------------------------------------------------------------------

    /// Writes a new command down.
    async fn receive(&self, record: ExecutorRecord) -> Result<(), JournalError> {
        let _turn = self.writer.lock().await;
        let now = record.received_at;
        self.journal
            .append(record.clone(), "received", "{}".into(), now)
            .await?;
        self.book
            .lock()
            .entries
            .insert(record.command.command_id.clone(), Entry::new(record));
        Ok(())
    }

    /// Applies an event: decides, writes, then performs what follows. Returns after all of it but the
    /// sending of a goal, which is the caller's, and the answers of cancel requests.
    pub(crate) async fn apply(
        self: &Arc<Self>,
        command_id: &str,
        event: ExecutorEvent,
    ) -> Result<Transition, ApplyError> {
        let _turn = self.writer.lock().await;
        let record = match self.record(command_id) {
            Some(record) => record,
            None => self
                .journal
                .get(command_id.into())
                .await?
                .ok_or_else(|| ApplyError::NotFound(command_id.into()))?,
        };
        let now = self.stamp();
        let transition = step(&record, &event, now)?;
        if transition.changed {
            let written = self
                .journal
                .append(
                    transition.record.clone(),
                    event.name(),
                    details(&event),
                    now,
                )
                .await;
            if let Err(error) = written {
                // What ends a motion is done all the same: a full disk must not keep the robot moving.
                if !ends_motion(&event) {
                    return Err(error.into());
                }
                log_error!(
                    self.node.logger(),
                    "command {command_id}: \"{}\" is performed but not written down: {error}",
                    event.name()
                );
            }
            self.install(transition.record.clone());
        }
        for effect in &transition.effects {
            self.perform(&transition.record, effect);
        }
        if transition.changed {
            self.publish_statuses();
        }
        Ok(transition)
    }

    fn install(&self, record: ExecutorRecord) {
        let mut book = self.book.lock();
        let id = record.command.command_id.clone();
        if record.is_terminal() {
            let entry = book.entries.remove(&id);
            book.recent.retain(|r| r.command.command_id != id);
            book.recent.push_front(record);
            book.recent.truncate(RECENT);
            if let Some(entry) = entry {
                entry.changed.send_modify(|n| *n += 1);
            }
        } else if let Some(entry) = book.entries.get_mut(&id) {
            entry.record = record;
            entry.changed.send_modify(|n| *n += 1);
        }
    }

    fn perform(self: &Arc<Self>, record: &ExecutorRecord, effect: &ExecutorEffect) {
        match effect {
            ExecutorEffect::AnnounceStart => {
                self.outlet
                    .run_event(&self.run_event(record, RunEventKind::Start));
                if self.declares(record) {
                    self.outlet.declare(record, true);
                }
            }
            ExecutorEffect::AnnounceEnd => {
                if self.declares(record) {
                    self.outlet.declare(record, false);
                }
                self.outlet
                    .run_event(&self.run_event(record, RunEventKind::End));
                log_info!(
                    self.node.logger(),
                    "command {} ({}): control ended {:?}{}{}",
                    record.command.command_id,
                    record.command.skill,
                    record.control_end,
                    if record.error_msg.is_empty() {
                        ""
                    } else {
                        ": "
                    },
                    record.error_msg
                );
            }
            ExecutorEffect::CancelGoals(goals) => {
                for goal_id in goals {
                    if let Some(goal) = record.sub_goal(goal_id) {
                        self.cancel_in_background(&goal.action_name, Uuid::from_bytes(*goal_id));
                    }
                }
            }
            // The task that runs the command sends and measures; those who wait see the record.
            ExecutorEffect::SendGoal { .. }
            | ExecutorEffect::MeasureStandstill
            | ExecutorEffect::Answer => {}
        }
    }

    fn cancel_in_background(&self, action: &str, goal_id: Uuid) {
        if let Some(foreign) = self.foreign.by_name(action) {
            let cancel = foreign.cancel(goal_id, self.parameters.acknowledge_timeout);
            drop(self.node.commands().run(async move {
                // The answer is learned from the goal's status.
                let _ = cancel.await;
            }));
        }
    }

    fn run_event(&self, record: &ExecutorRecord, event: RunEventKind) -> RunEvent {
        let arguments = self
            .skills
            .get(&record.command.skill)
            .and_then(|s| {
                s.schema
                    .check(&serde_json::Value::Object(record.command.arguments.clone()))
                    .ok()
            })
            .unwrap_or_else(|| record.command.arguments.clone());
        RunEvent {
            event,
            stamp: match event {
                RunEventKind::Start => record.started_at,
                RunEventKind::End | RunEventKind::SegmentEnd | RunEventKind::Unspecified => {
                    record.ended_at
                }
            },
            executor: self.name.clone(),
            boot_id: self.boot_id.clone(),
            robot_id: self.parameters.robot_id.clone(),
            command_id: record.command.command_id.clone(),
            run_id: record.run_id.clone(),
            segment: record.segment,
            sequence: record.sequence,
            skill: record.command.skill.clone(),
            skill_version: record.command.skill_version.clone(),
            arguments,
            targets: record.command.targets.clone(),
        }
    }

    /// Whether the run may move the base by itself, so that protection has to let it pass.
    fn declares(&self, record: &ExecutorRecord) -> bool {
        self.foreign.navigation.is_some() && record.resources.iter().any(|r| r == "base")
    }

    // ---- the gate --------------------------------------------------------------------------------

    /// Resources held by commands of anybody and by goals that are not ours.
    fn held(&self) -> BTreeMap<String, String> {
        let mut held = self.surroundings.held_by_others();
        let (ours, commands) = {
            let book = self.book.lock();
            let records = || book.entries.values().map(|e| &e.record);
            let ours: BTreeSet<Uuid> = records()
                .chain(book.recent.iter())
                .flat_map(|r| r.sub_goals.iter().map(|g| Uuid::from_bytes(g.goal_id)))
                .collect();
            (ours, held_resources(records()))
        };
        for (server, action) in self.foreign.all() {
            if let Some(goal) = action.open_goals().iter().find(|g| !ours.contains(g)) {
                held.insert(
                    server.resource().into(),
                    format!(
                        "goal {goal} on {}, which this executor did not send",
                        action.name()
                    ),
                );
            }
        }
        held.extend(commands);
        held
    }

    fn ask_gate(
        &self,
        request: &Request<'_>,
        known: Option<&ExecutorRecord>,
        scene: Option<&eh_ledger::admission::SceneCheck>,
    ) -> Admission {
        let held = self.held();
        let lease = self.surroundings.lease_view();
        let stop = self.surroundings.stop_latched();
        let shutting_down = self.book.lock().shutting_down;
        admit(
            request,
            &ExecutorView {
                executor: &self.name,
                boot_id: &self.boot_id,
                tick: self.tick(),
                robot_id: &self.parameters.robot_id,
                skills: &self.skills,
                known,
                held: &held,
                lease: &lease,
                require_lease: self.parameters.require_lease,
                stop_latched: stop.as_deref(),
                frames: &self.frames,
                shutting_down,
            },
            scene,
        )
    }

    /// Lets a command through the gate, or says why not. A command that is let through is ACCEPTED and
    /// holds its resources when this returns.
    async fn pass_gate(
        self: &Arc<Self>,
        command: &SkillCommand,
        digest: &str,
        envelope: &Envelope,
        segment: u32,
    ) -> Result<Passage, Refusal> {
        let _turn = self.gate.lock().await;
        let storage = |e: &dyn std::fmt::Display| Refusal {
            code: ErrorCode::StorageFailure,
            message: format!("the journal can't be used, so nothing is started: {e}"),
        };
        let request = Request {
            command,
            digest,
            envelope,
            segment,
        };
        let known = self
            .find(&command.command_id)
            .await
            .map_err(|e| storage(&e))?;
        let first = self.ask_gate(&request, known.as_ref(), None);
        let first = match first {
            Admission::Duplicate => return Ok(Passage::Known),
            Admission::Refuse(refusal) if !keeps_refusal(refusal.code) => return Err(refusal),
            other => other,
        };
        self.surroundings
            .saw_token(envelope.fencing_token, &envelope.controller_id);
        let record = ExecutorRecord::received(
            command.clone(),
            segment,
            &self.boot_id,
            envelope.fencing_token,
            &envelope.controller_id,
            self.stamp(),
        );
        self.receive(record).await.map_err(|e| storage(&e))?;
        let answer = match first {
            Admission::Admit(_)
                if self.parameters.check_preconditions && needs_scene_check(command) =>
            {
                let scene = self.scene.check(command).await;
                self.ask_gate(&request, None, Some(&scene))
            }
            other => other,
        };
        match answer {
            Admission::Admit(admitted) => {
                let policy = self
                    .skills
                    .get(&command.skill)
                    .map_or(DisconnectPolicy::Stop, |s| s.descriptor.disconnect_policy);
                let accept = ExecutorEvent::Accept {
                    resources: admitted.resources.clone(),
                    disconnect_policy: policy,
                };
                self.apply(&command.command_id, accept)
                    .await
                    .map_err(|e| storage(&e))?;
                Ok(Passage::Accepted(admitted))
            }
            Admission::Duplicate => Ok(Passage::Known),
            Admission::Refuse(refusal) => {
                self.reject(&command.command_id, &refusal).await;
                Err(refusal)
            }
        }
    }

    /// Ends a command that was not started.
    pub(crate) async fn reject(self: &Arc<Self>, command_id: &str, refusal: &Refusal) {
        let event = ExecutorEvent::Reject {
            error_code: refusal.code.code(),
            error_msg: refusal.message.clone(),
        };
        if let Err(error) = self.apply(command_id, event).await {
            log_error!(self.node.logger(), "command {command_id}: {error}");
        }
    }

    // ---- execute_skill ---------------------------------------------------------------------------

    /// One goal of `execute_skill`, from its arrival to its answer.
    async fn execute(
        self: Arc<Self>,
        goal: RunningGoal<ExecuteSkill>,
    ) -> GoalEnd<ExecuteSkill_Result> {
        let message: Arc<ExecuteSkill_Goal> = goal.goal.clone();
        let command = match convert::command::command(&message.command) {
            Ok(command) => command,
            Err(error) => {
                return self.refused(
                    &message.command.command_id,
                    &Refusal {
                        code: ErrorCode::InvalidCommand,
                        message: format!("the command can't be read: {error}"),
                    },
                )
            }
        };
        let envelope = convert::command::envelope(&message.envelope);
        let id = command.command_id.clone();
        let passage = self
            .pass_gate(
                &command,
                &message.command.digest,
                &envelope,
                message.segment,
            )
            .await;
        match passage {
            Err(refusal) => return self.refused(&id, &refusal),
            Ok(Passage::Known) => {}
            Ok(Passage::Accepted(admitted)) => {
                log_info!(
                    self.node.logger(),
                    "command {id}: {} accepted from {}",
                    command.skill,
                    envelope
                        .controller_id
                        .chars()
                        .take(MAX_NAME)
                        .collect::<String>()
                );
                let this = self.clone();
                let id = id.clone();
                drop(
                    self.node
                        .commands()
                        .run(async move { this.run(&id, admitted).await }),
                );
            }
        }
        self.follow(&id, &goal).await
    }

    /// Waits until the command has its answer, telling its changes as feedback.
    async fn follow(
        self: &Arc<Self>,
        command_id: &str,
        goal: &RunningGoal<ExecuteSkill>,
    ) -> GoalEnd<ExecuteSkill_Result> {
        let mut changed = {
            let book = self.book.lock();
            book.entries.get(command_id).map(|e| e.changed.subscribe())
        };
        let mut canceled = false;
        loop {
            let record = match self.find(command_id).await {
                Ok(Some(record)) => record,
                Ok(None) | Err(_) => {
                    return self.refused(
                        command_id,
                        &Refusal {
                            code: ErrorCode::StorageFailure,
                            message: format!("command {command_id} was taken, but its record can't be read; ask the service query"),
                        },
                    )
                }
            };
            if record.is_answered() {
                return self.answer(&record);
            }
            goal.publish_feedback(ExecuteSkill_Feedback {
                status: status_msg(&self.status_of(&record)),
            });
            let Some(changed) = &mut changed else {
                // Not answered, yet not live: it changed between two looks; look again.
                changed = {
                    let book = self.book.lock();
                    book.entries.get(command_id).map(|e| e.changed.subscribe())
                };
                eh_ros_edge::deadline::sleep(Duration::from_millis(20)).await;
                continue;
            };
            tokio::select! {
                _ = changed.changed() => {}
                () = goal.cancel_requested(), if !canceled => {
                    canceled = true;
                    self.ask_to_stop(command_id, StopCause::Caller);
                }
            }
        }
    }

    fn answer(&self, record: &ExecutorRecord) -> GoalEnd<ExecuteSkill_Result> {
        let result = ExecuteSkill_Result {
            error_code: record.error_code,
            error_msg: record.error_msg.clone(),
            status: status_msg(&self.status_of(record)),
        };
        match record.control_end {
            ControlEnd::Completed => GoalEnd::Succeeded(result),
            ControlEnd::Canceled => GoalEnd::Canceled(result),
            ControlEnd::None | ControlEnd::Aborted | ControlEnd::Preempted | ControlEnd::Lost => {
                GoalEnd::Aborted(result)
            }
        }
    }

    fn refused(&self, command_id: &str, refusal: &Refusal) -> GoalEnd<ExecuteSkill_Result> {
        log_warn!(
            self.node.logger(),
            "command {:?} refused: {} {}",
            command_id.chars().take(MAX_NAME).collect::<String>(),
            refusal.code.name(),
            refusal.message
        );
        let status = SkillStatus {
            executor: self.name.clone(),
            boot_id: self.boot_id.clone(),
            command_id: command_id.into(),
            state: ExecutorState::Rejected,
            error_code: refusal.code.code(),
            error_msg: refusal.message.clone(),
            ..SkillStatus::default()
        };
        GoalEnd::Aborted(ExecuteSkill_Result {
            error_code: refusal.code.code(),
            error_msg: refusal.message.clone(),
            status: status_msg(&status),
        })
    }

    // ---- watching --------------------------------------------------------------------------------

    /// Ten times a second: declares what may move the base, and stops what a latched stop or an expired
    /// lease tells to.
    fn watch_over(&self) {
        let running: Vec<ExecutorRecord> = {
            let book = self.book.lock();
            book.entries
                .values()
                .filter(|e| {
                    matches!(
                        e.record.state,
                        ExecutorState::Accepted | ExecutorState::Started | ExecutorState::Canceling
                    )
                })
                .map(|e| e.record.clone())
                .collect()
        };
        if running.is_empty() {
            return;
        }
        let stop = self.surroundings.stop_latched().is_some();
        let lease = self.surroundings.lease_view();
        for record in running {
            let id = &record.command.command_id;
            if record.state != ExecutorState::Accepted && self.declares(&record) {
                self.outlet.declare(&record, true);
            }
            if record.resources.is_empty() {
                continue;
            }
            if stop {
                self.ask_to_stop(id, StopCause::Stop);
            }
            if self.parameters.require_lease && !lease.live {
                match record.disconnect_policy {
                    DisconnectPolicy::Finish => {}
                    // To hold is to go no further: an arm whose goal is canceled keeps its position.
                    DisconnectPolicy::Hold | DisconnectPolicy::Stop => {
                        self.ask_to_stop(id, StopCause::LeaseExpired);
                    }
                }
            }
        }
    }

    /// Progress of navigation from its feedback.
    fn watch_feedback(self: &Arc<Self>) -> Handles {
        let Some(client) = &self.foreign.navigation else {
            return Vec::new();
        };
        let mut feedback = client.feedback();
        let this = self.clone();
        let task = self.node.commands().run(async move {
            // First distance of each goal, so that progress is a share of it.
            let mut first: Option<(Uuid, f64)> = None;
            loop {
                let message = match feedback.recv().await {
                    Ok(message) => message,
                    Err(RecvError::Lagged(_)) => continue,
                    Err(RecvError::Closed) => return,
                };
                let remaining = f64::from(message.feedback.distance_remaining);
                if !remaining.is_finite() || remaining < 0.0 {
                    continue;
                }
                let whole = match first {
                    Some((id, whole)) if id == message.goal_id => whole.max(remaining),
                    // Nav2 reports zero before its first path.
                    _ if remaining > 0.0 => remaining,
                    _ => continue,
                };
                first = Some((message.goal_id, whole));
                let owner = this.live_records().into_iter().find(|r| {
                    r.sub_goals
                        .iter()
                        .any(|g| g.goal_id == message.goal_id.into_bytes())
                });
                if let (Some(record), true) = (owner, whole > 0.0) {
                    this.set_progress(&record.command.command_id, 1.0 - remaining / whole);
                }
            }
        });
        vec![Box::new(task)]
    }

    /// A goal that a server takes after its command was given up must not run on: it is asked to cancel
    /// again, now that the server knows it.
    fn watch_late_acknowledgements(self: &Arc<Self>) -> Handles {
        let mut handles = Handles::new();
        for (_, action) in self.foreign.all() {
            let mut late = action.late_acknowledgements();
            let name = action.name().to_string();
            let this = self.clone();
            handles.push(Box::new(self.node.commands().run(async move {
                loop {
                    let acknowledgement = match late.recv().await {
                        Ok(acknowledgement) => acknowledgement,
                        Err(RecvError::Lagged(_)) => continue,
                        Err(RecvError::Closed) => return,
                    };
                    let goal_id = acknowledgement.goal_id;
                    let given_up = this.live_records().iter().any(|r| {
                        r.is_answered() && r.sub_goal(goal_id.as_bytes()).is_some()
                    });
                    if acknowledgement.accepted && given_up {
                        log_warn!(
                            this.node.logger(),
                            "{name} has taken goal {goal_id} after its command was given up: it is asked to cancel"
                        );
                        this.cancel_in_background(&name, goal_id);
                    }
                }
            })));
        }
        handles
    }

    // ---- start and end of the process ------------------------------------------------------------

    /// Decides about everything that the journal holds from an earlier life.
    fn recover(self: &Arc<Self>) {
        for record in self.live_records() {
            let id = record.command.command_id.clone();
            match after_restart(&record) {
                RestartPlan::Keep => {}
                RestartPlan::Apply(event) => {
                    let this = self.clone();
                    drop(self.node.commands().run(async move {
                        if let Err(error) = this.apply(&id, event).await {
                            log_error!(this.node.logger(), "command {id}: {error}");
                        }
                    }));
                }
                RestartPlan::Recover { event, open } => {
                    log_warn!(
                        self.node.logger(),
                        "command {id} was running when this executor ended, with {} open goals: they are brought to an end",
                        open.len()
                    );
                    let this = self.clone();
                    drop(self.node.commands().run(async move {
                        // Time to discover the servers is not taken from the time to stop.
                        this.await_servers_of(&id).await;
                        let cause = match event {
                            ExecutorEvent::Stop(cause) => cause,
                            _ => StopCause::Restart,
                        };
                        this.bring_to_standstill(&id, cause, None).await;
                    }));
                }
            }
        }
    }

    /// Waits a while for the servers of a command's open goals.
    async fn await_servers_of(&self, command_id: &str) {
        let Some(record) = self.record(command_id) else {
            return;
        };
        for goal in record.open_goals() {
            if let Some(foreign) = self.foreign.by_name(&goal.action_name) {
                foreign.wait_for_server(DISCOVERY).await;
            }
        }
    }

    /// Stops what runs and waits until that is confirmed or given up.
    async fn shut_down(self: &Arc<Self>) {
        self.book.lock().shutting_down = true;
        self.outlet
            .catalog(&self.parameters.robot_id, std::iter::empty());
        let running: Vec<ExecutorRecord> = self
            .live_records()
            .into_iter()
            .filter(|r| !r.is_answered())
            .collect();
        let longest = running
            .iter()
            .map(|r| r.command.stop_timeout())
            .max()
            .unwrap_or_default();
        for record in &running {
            self.ask_to_stop(&record.command.command_id, StopCause::ShuttingDown);
        }
        let deadline = self.clock.steady_ns()
            + i64::try_from((longest + Duration::from_secs(1)).as_nanos()).unwrap_or(i64::MAX / 2);
        while self.clock.steady_ns() < deadline {
            if self.live_records().iter().all(ExecutorRecord::is_answered) {
                break;
            }
            eh_ros_edge::deadline::sleep(Duration::from_millis(20)).await;
        }
        // The last answers are on their way; the middleware needs the loop for a moment more.
        eh_ros_edge::deadline::sleep(Duration::from_millis(100)).await;
    }
}

/// How a command came through the gate.
enum Passage {
    /// Its record is the answer.
    Known,
    /// It runs.
    Accepted(Admitted),
}

/// Refusals of commands that are what they claim to be are kept, so that the same command gets the same
/// answer. The others are not: anybody could fill the disk with them.
fn keeps_refusal(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::InvalidArguments
            | ErrorCode::ExpiredCommand
            | ErrorCode::OldToken
            | ErrorCode::ExecutorNoLease
            | ErrorCode::ResourceBusy
            | ErrorCode::StalePrecondition
            | ErrorCode::StopLatched
            | ErrorCode::NoBeacon
    )
}

/// Events after which less moves than before.
fn ends_motion(event: &ExecutorEvent) -> bool {
    match event {
        ExecutorEvent::Stop(_)
        | ExecutorEvent::GoalEnded { .. }
        | ExecutorEvent::GoalRefused { .. }
        | ExecutorEvent::Standstill
        | ExecutorEvent::StopTimeout { .. }
        | ExecutorEvent::Lose { .. }
        | ExecutorEvent::Complete
        | ExecutorEvent::Reject { .. } => true,
        ExecutorEvent::Accept { .. }
        | ExecutorEvent::Start { .. }
        | ExecutorEvent::SendGoal { .. }
        | ExecutorEvent::Step { .. }
        | ExecutorEvent::Settle { .. } => false,
    }
}

/// What the journal says beside the record.
fn details(event: &ExecutorEvent) -> String {
    let value = match event {
        ExecutorEvent::SendGoal {
            goal_id,
            action_name,
            name,
        } => serde_json::json!({
            "goal_id": Uuid::from_bytes(*goal_id).to_string(), "action": action_name, "sub_goal": name}),
        ExecutorEvent::GoalEnded {
            goal_id,
            status,
            code,
            message,
        } => serde_json::json!({
            "goal_id": Uuid::from_bytes(*goal_id).to_string(), "status": status, "code": code, "message": message}),
        ExecutorEvent::GoalRefused { goal_id, message } => serde_json::json!({
            "goal_id": Uuid::from_bytes(*goal_id).to_string(), "message": message}),
        ExecutorEvent::Stop(cause) => serde_json::json!({ "cause": cause }),
        ExecutorEvent::StopTimeout { what } => serde_json::json!({ "what": what }),
        ExecutorEvent::Settle {
            final_state,
            settled_by,
            reason,
        } => serde_json::json!({"final": final_state, "by": settled_by, "reason": reason}),
        ExecutorEvent::Reject {
            error_code,
            error_msg,
        }
        | ExecutorEvent::Lose {
            error_code,
            error_msg,
        } => serde_json::json!({"error_code": error_code, "error_msg": error_msg}),
        ExecutorEvent::Step { name, what } => serde_json::json!({"step": name, "wanted": what}),
        ExecutorEvent::Start { run_id } => serde_json::json!({ "run_id": run_id }),
        ExecutorEvent::Accept { .. } | ExecutorEvent::Complete | ExecutorEvent::Standstill => {
            serde_json::json!({})
        }
    };
    value.to_string()
}

//! One run: the program's sub-goals one after the other, each written down before it is sent.

use std::sync::Arc;
use std::time::Duration;

use eh_contract::ErrorCode;
use eh_ledger::admission::{Admitted, Refusal};
use eh_ledger::executor::{goal_status, ExecutorEvent, StopCause};
use eh_ros_edge::deadline::sleep;
use eh_ros_edge::GoalClientError;
use eh_skills::planning_scene::SceneWanted;
use eh_skills::program::{program_for, HeldChange};
use eh_skills::{Context, Goal, SkillProgram, Step, SubGoalOutcome};
use rclrs::{log_error, log_warn};
use tokio::sync::watch;
use uuid::Uuid;

use crate::executor::Executor;
use crate::foreign::{ForeignAction, NativeEnd, Server};
use crate::goals::wire;
use crate::journal_thread::HELD;
use crate::planning_scene::{in_words, PlanningSceneClient};

/// How often an open goal is looked after.
const LOOK_PERIOD: Duration = Duration::from_millis(500);

/// How a sub-goal went.
enum Pursuit {
    /// It has ended.
    Outcome(SubGoalOutcome),
    /// The command has to stop.
    Stop(StopCause),
    /// It can't be learned how it went on.
    Lost(ErrorCode, String),
}

type StopSignal = watch::Receiver<Option<StopCause>>;

/// Why the command has to stop, if it has to.
fn stop_cause(signal: &StopSignal) -> Option<StopCause> {
    signal.borrow().clone()
}

/// Waits until the command has to stop.
async fn asked_to_stop(signal: &mut StopSignal) -> StopCause {
    let asked = signal
        .wait_for(Option::is_some)
        .await
        .map(|cause| cause.clone().unwrap_or(StopCause::Caller));
    match asked {
        Ok(cause) => cause,
        // The entry is gone, so the command is over: nothing is to be stopped any more.
        Err(_) => std::future::pending().await,
    }
}

fn failed(code: ErrorCode, message: impl Into<String>) -> StopCause {
    StopCause::Failed {
        error_code: code.code(),
        error_msg: message.into(),
    }
}

impl Executor {
    /// Runs an accepted command to the end of control.
    pub(crate) async fn run(self: Arc<Self>, id: &str, admitted: Admitted) {
        let Some(mut signal) = self.stop_signal(id) else {
            return;
        };
        if let Err(refusal) = self.start(id, &admitted, &mut signal).await {
            match refusal {
                NotStarted::Refused(refusal) => self.reject(id, &refusal).await,
                NotStarted::Stopped(cause) => self.note(id, ExecutorEvent::Stop(cause)).await,
            }
            return;
        }
        let Some(record) = self.record(id) else {
            return;
        };
        let mut program = match program_for(&record.command, &admitted.arguments) {
            Ok(program) => program,
            Err(failure) => {
                let cause = failed(failure.code, failure.message);
                self.bring_to_standstill(id, cause, None).await;
                return;
            }
        };
        let end = tokio::select! {
            end = self.perform_program(id, &mut *program, &mut signal) => end,
            () = self.budget_passes(admitted.execution_timeout) => RunEnd::Stop(failed(
                ErrorCode::ExecutionTimeout,
                format!(
                    "it took longer than {:.1} s and was canceled; try again, or give it a longer execution_timeout",
                    admitted.execution_timeout.as_secs_f64()
                ),
            )),
        };
        self.remember_grasp(program.held_change()).await;
        match end {
            RunEnd::Completed => self.note(id, ExecutorEvent::Complete).await,
            RunEnd::Stop(cause) => {
                self.bring_to_standstill(id, cause, Some(&mut *program))
                    .await;
            }
            RunEnd::Lost(code, message) => {
                let event = ExecutorEvent::Lose {
                    error_code: code.code(),
                    error_msg: message,
                };
                self.note(id, event).await;
            }
        }
    }

    /// Applies an event that is not answered for.
    pub(crate) async fn note(self: &Arc<Self>, id: &str, event: ExecutorEvent) {
        let name = event.name();
        if let Err(error) = self.apply(id, event).await {
            log_error!(self.node.logger(), "command {id}, \"{name}\": {error}");
        }
    }

    /// The last checks before STARTED: servers are there, time is left, nobody wants it to stop.
    async fn start(
        self: &Arc<Self>,
        id: &str,
        admitted: &Admitted,
        signal: &mut StopSignal,
    ) -> Result<(), NotStarted> {
        let Some(record) = self.record(id) else {
            return Err(NotStarted::Stopped(StopCause::Caller));
        };
        for server in servers_of(&record.command.skill) {
            let Some(foreign) = self.foreign.get(*server) else {
                continue;
            };
            if foreign.is_there() {
                continue;
            }
            let there = tokio::select! {
                there = foreign.wait_for_server(self.parameters.server_timeout) => there,
                cause = asked_to_stop(signal) => return Err(NotStarted::Stopped(cause)),
            };
            if !there {
                return Err(NotStarted::Refused(Refusal {
                    code: ErrorCode::ServerUnavailable,
                    message: format!(
                        "no server of the action {} is there; {}. Nothing was moved",
                        foreign.name(),
                        server.hint()
                    ),
                }));
            }
        }
        if let Some(cause) = stop_cause(signal) {
            return Err(NotStarted::Stopped(cause));
        }
        let tick = self.tick();
        if tick >= admitted.start_by {
            return Err(NotStarted::Refused(Refusal {
                code: ErrorCode::ExpiredCommand,
                message: format!(
                    "it had to start by tick {:.3} s of this executor, now it is {:.3} s; make a new command",
                    admitted.start_by.as_secs_f64(),
                    tick.as_secs_f64()
                ),
            }));
        }
        let event = ExecutorEvent::Start {
            run_id: format!("run-{}", Uuid::new_v4()),
        };
        self.apply(id, event).await.map_err(|e| {
            NotStarted::Refused(Refusal {
                code: ErrorCode::StorageFailure,
                message: format!("nothing was started: {e}"),
            })
        })?;
        Ok(())
    }

    async fn perform_program(
        self: &Arc<Self>,
        id: &str,
        program: &mut dyn SkillProgram,
        signal: &mut StopSignal,
    ) -> RunEnd {
        let mut last: Option<SubGoalOutcome> = None;
        let mut remembered = HeldChange::Keep;
        loop {
            let step = self.ask_program(program, last.as_ref());
            // Before the fingers move: after a crash it has to be known what may be between them.
            let change = program.held_change();
            if change != remembered {
                self.remember_grasp(change.clone()).await;
                remembered = change;
            }
            if let Some(progress) = program.progress() {
                self.set_progress(id, progress);
            }
            match step {
                Step::Completed => return RunEnd::Completed,
                Step::Failed(failure) => {
                    return RunEnd::Stop(failed(failure.code, failure.message))
                }
                Step::Goal { name, goal } => match self.pursue(id, &name, &goal, signal).await {
                    Pursuit::Outcome(outcome) => last = Some(outcome),
                    Pursuit::Stop(cause) => return RunEnd::Stop(cause),
                    Pursuit::Lost(code, message) => return RunEnd::Lost(code, message),
                },
            }
        }
    }

    /// Asks the program for its next step, on what is known now.
    pub(crate) fn ask_program(
        &self,
        program: &mut dyn SkillProgram,
        last: Option<&SubGoalOutcome>,
    ) -> Step {
        self.with_context(|context| program.next(context, last))
    }

    /// Gives what is known now.
    pub(crate) fn with_context<T>(&self, ask: impl FnOnce(&Context<'_>) -> T) -> T {
        let scene = self.surroundings.scene();
        let held = self.held_grasp();
        ask(&Context {
            base_in_map: self.surroundings.base_in_map(),
            scene: scene.as_ref(),
            body: &self.parameters.body,
            held: held.as_ref(),
            gripper: self.surroundings.gripper(),
            tool_in_base: self.surroundings.tool_in_base(),
            planning_scene: self.has_planning_scene(),
        })
    }

    /// Keeps how what is held was grasped, over a restart too.
    pub(crate) async fn remember_grasp(&self, change: HeldChange) {
        let held = match change {
            HeldChange::Keep => return,
            HeldChange::Take(grasp) => Some(grasp),
            HeldChange::Clear => None,
        };
        // Strings and numbers only: this can't fail, and null means the usual grasp.
        let text = serde_json::to_string(&held).unwrap_or_else(|_| "null".into());
        self.set_held_grasp(held);
        if let Err(error) = self.journal.set_note(HELD, text).await {
            log_warn!(
                self.node.logger(),
                "how the object is held was not written down: {error}"
            );
        }
    }

    /// Writes a goal down, sends it, and waits for its end.
    async fn pursue(
        self: &Arc<Self>,
        id: &str,
        name: &str,
        goal: &Goal,
        signal: &mut StopSignal,
    ) -> Pursuit {
        let Some(server) = Server::of(goal) else {
            return tokio::select! {
                outcome = self.without_server(id, name, goal) => Pursuit::Outcome(outcome),
                cause = asked_to_stop(signal) => Pursuit::Stop(cause),
            };
        };
        let Some(foreign) = self.foreign.get(server).cloned() else {
            return Pursuit::Stop(failed(
                ErrorCode::UnknownSkill,
                format!("this executor has no client for {name}; send the command to the executor that publishes the skill"),
            ));
        };
        if let Some(cause) = stop_cause(signal) {
            return Pursuit::Stop(cause);
        }
        let goal_id = Uuid::new_v4();
        let about_to_send = ExecutorEvent::SendGoal {
            goal_id: goal_id.into_bytes(),
            action_name: foreign.name().into(),
            name: name.into(),
        };
        if let Err(error) = self.apply(id, about_to_send).await {
            return Pursuit::Stop(failed(
                ErrorCode::StorageFailure,
                format!("{name} was not sent: {error}"),
            ));
        }
        // It may have been asked to stop while the disk was busy.
        if let Some(cause) = stop_cause(signal) {
            self.goal_refused(id, goal_id, "never sent: the command was asked to stop")
                .await;
            return Pursuit::Stop(cause);
        }
        // A task of its own: a stop must not drop the request, whose answer may still come.
        let sent = self.node.commands().run(foreign.send(
            goal_id,
            goal,
            self.parameters.acknowledge_timeout,
        ));
        let acknowledged = tokio::select! {
            answer = sent => answer.unwrap_or(Err(GoalClientError::Ended)),
            cause = asked_to_stop(signal) => return Pursuit::Stop(cause),
        };
        match acknowledged {
            Ok(()) => {}
            Err(GoalClientError::Rejected { .. }) => {
                self.goal_refused(id, goal_id, "rejected by its server")
                    .await;
                return Pursuit::Outcome(SubGoalOutcome::Rejected {
                    message: format!("{} rejected the goal {name}", foreign.name()),
                });
            }
            Err(
                error @ (GoalClientError::ServerAbsent { .. }
                | GoalClientError::Ros { .. }
                | GoalClientError::NilGoal
                | GoalClientError::SentBefore { .. }),
            ) => {
                self.goal_refused(id, goal_id, "never sent").await;
                return Pursuit::Stop(failed(
                    ErrorCode::ServerUnavailable,
                    format!("{name} was not sent: {error}; {}", server.hint()),
                ));
            }
            Err(
                error @ (GoalClientError::NotAcknowledged { .. }
                | GoalClientError::UnknownGoal { .. }
                | GoalClientError::NoAnswer { .. }
                | GoalClientError::Ended),
            ) => {
                log_warn!(self.node.logger(), "command {id}, {name}: {error}");
                let known = tokio::select! {
                    known = self.ask_about(&*foreign, goal_id) => known,
                    cause = asked_to_stop(signal) => return Pursuit::Stop(cause),
                };
                if !known {
                    return Pursuit::Lost(
                        ErrorCode::AcknowledgementLost,
                        format!("{} did not acknowledge {name} (goal {goal_id}) and does not tell its status: it may run all the same. It was asked to cancel; look at the robot, then settle the command", foreign.name()),
                    );
                }
            }
        }
        tokio::select! {
            end = self.wait_for_end(id, name, &*foreign, goal_id) => end,
            cause = asked_to_stop(signal) => Pursuit::Stop(cause),
        }
    }

    /// What needs no foreign action.
    async fn without_server(self: &Arc<Self>, id: &str, name: &str, goal: &Goal) -> SubGoalOutcome {
        match goal {
            Goal::Scene(wanted) => self.change_scene(id, name, wanted).await,
            Goal::Wait(duration) => {
                self.pass_time(id, *duration).await;
                SubGoalOutcome::Succeeded
            }
            Goal::Observe {
                class_name,
                frames,
                timeout,
            } => {
                let seen = self
                    .surroundings
                    .observe(class_name, *frames, *timeout)
                    .await;
                SubGoalOutcome::Observed(seen)
            }
            Goal::Navigate { .. }
            | Goal::MoveArm { .. }
            | Goal::Gripper { .. }
            | Goal::Head { .. } => SubGoalOutcome::Rejected {
                message: "it has no server".into(),
            },
        }
    }

    /// Waits on the clock of the budgets.
    async fn budget_passes(&self, duration: Duration) {
        let begin = self.surroundings.now();
        loop {
            let passed = self.surroundings.now().saturating_sub(begin);
            let Some(left) = duration.checked_sub(passed).filter(|d| !d.is_zero()) else {
                return;
            };
            // In simulation what is left may pass faster than here.
            sleep(left.min(Duration::from_millis(50))).await;
        }
    }

    async fn pass_time(&self, id: &str, duration: Duration) {
        let begin = self.surroundings.now();
        loop {
            let passed = self.surroundings.now().saturating_sub(begin);
            let Some(left) = duration.checked_sub(passed).filter(|d| !d.is_zero()) else {
                return;
            };
            self.set_progress(id, passed.as_secs_f64() / duration.as_secs_f64());
            sleep(left.min(Duration::from_millis(200))).await;
        }
    }

    /// Whether there is a planning scene that can be changed.
    pub(crate) fn has_planning_scene(&self) -> bool {
        self.planning_scene
            .as_ref()
            .is_some_and(PlanningSceneClient::is_there)
    }

    /// Writes a change of the planning scene down and makes it.
    pub(crate) async fn change_scene(
        self: &Arc<Self>,
        id: &str,
        name: &str,
        wanted: &SceneWanted,
    ) -> SubGoalOutcome {
        let Some(client) = &self.planning_scene else {
            return SubGoalOutcome::Rejected {
                message: "planning_scene is false".into(),
            };
        };
        let step = ExecutorEvent::Step {
            name: name.into(),
            what: in_words(wanted),
        };
        if let Err(error) = self.apply(id, step).await {
            return SubGoalOutcome::Rejected {
                message: error.to_string(),
            };
        }
        match client.make(wanted).await {
            Ok(()) => SubGoalOutcome::Succeeded,
            Err(message) => {
                log_warn!(self.node.logger(), "command {id}, {name}: {message}");
                SubGoalOutcome::Aborted { code: 0, message }
            }
        }
    }

    async fn goal_refused(self: &Arc<Self>, id: &str, goal_id: Uuid, message: &str) {
        let event = ExecutorEvent::GoalRefused {
            goal_id: goal_id.into_bytes(),
            message: message.into(),
        };
        self.note(id, event).await;
    }

    /// Whether the server can be made to tell anything about a goal that it did not acknowledge.
    async fn ask_about(&self, foreign: &dyn ForeignAction, goal_id: Uuid) -> bool {
        let ask = async {
            loop {
                if foreign.status(goal_id).is_some() {
                    return;
                }
                if let Ok(mut request) = foreign.request_result(goal_id) {
                    if request.wait(Duration::from_millis(200)).await.is_ok() {
                        return;
                    }
                }
                sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::select! {
            () = ask => true,
            () = self.budget_passes(self.parameters.lost_timeout) => false,
        }
    }

    /// Waits for the end of an acknowledged goal, over lost results and lost servers.
    async fn wait_for_end(
        self: &Arc<Self>,
        id: &str,
        name: &str,
        foreign: &dyn ForeignAction,
        goal_id: Uuid,
    ) -> Pursuit {
        let mut silent_since: Option<Duration> = None;
        let mut request = None;
        loop {
            if request.is_none() {
                request = foreign.request_result(goal_id).ok();
            }
            let answer = match &mut request {
                Some(open) => open.wait(LOOK_PERIOD).await,
                None => {
                    sleep(LOOK_PERIOD.min(self.parameters.lost_timeout)).await;
                    Err(GoalClientError::Ended)
                }
            };
            match answer {
                Ok(end) => {
                    self.goal_ended(id, goal_id, &end).await;
                    if let Some(cause) = self.foreign_hand(foreign, &end, name) {
                        return Pursuit::Stop(cause);
                    }
                    return Pursuit::Outcome(end.outcome);
                }
                Err(GoalClientError::UnknownGoal { .. }) => request = None,
                Err(_) => {}
            }
            // Is anybody there who still works on it?
            let alive = match foreign.status(goal_id) {
                Some(status) => foreign.is_there() && !status.is_terminal(),
                // No status message names it (yet): the open request is what keeps hope.
                None => foreign.is_there() && request.is_some(),
            };
            let now = self.surroundings.now();
            if alive {
                silent_since = None;
                continue;
            }
            let since = *silent_since.get_or_insert(now);
            // A new request, should the old one have died with its server.
            request = None;
            if now.saturating_sub(since) >= self.parameters.lost_timeout {
                return Pursuit::Lost(
                    ErrorCode::ResultLost,
                    format!("{} does not tell how {name} (goal {goal_id}) ended, within {:.1} s; look at the world before anything is done again, then settle the command", foreign.name(), self.parameters.lost_timeout.as_secs_f64()),
                );
            }
        }
    }

    pub(crate) async fn goal_ended(self: &Arc<Self>, id: &str, goal_id: Uuid, end: &NativeEnd) {
        let event = ExecutorEvent::GoalEnded {
            goal_id: goal_id.into_bytes(),
            status: end.status,
            code: end.code,
            message: end.message.clone(),
        };
        self.note(id, event).await;
    }

    /// A goal that did not end by itself: displaced or canceled by somebody else.
    fn foreign_hand(
        &self,
        foreign: &dyn ForeignAction,
        end: &NativeEnd,
        name: &str,
    ) -> Option<StopCause> {
        if end.status == goal_status::SUCCEEDED {
            return None;
        }
        let others: Vec<Uuid> = {
            let ours: Vec<[u8; 16]> = self
                .live_records()
                .iter()
                .flat_map(|r| r.sub_goals.iter().map(|g| g.goal_id))
                .collect();
            foreign
                .open_goals()
                .into_iter()
                .filter(|g| !ours.contains(&g.into_bytes()))
                .collect()
        };
        if let Some(other) = others.first() {
            return Some(StopCause::Preempted {
                by: format!("goal {other} on {}", foreign.name()),
            });
        }
        (end.status == goal_status::CANCELED).then(|| StopCause::Preempted {
            by: format!("somebody canceled {name} on {}", foreign.name()),
        })
    }
}

/// How a program was left.
enum RunEnd {
    Completed,
    Stop(StopCause),
    Lost(ErrorCode, String),
}

/// Why an accepted command was not started.
enum NotStarted {
    Refused(Refusal),
    Stopped(StopCause),
}

/// The servers that a skill can't do without.
fn servers_of(skill: &str) -> &'static [Server] {
    match skill {
        "navigate_to" | "navigate_to_pose" => &[Server::Navigation],
        "look_at" => &[Server::Head],
        "pick" => &[Server::Head, Server::Arm, Server::Gripper],
        "place" => &[Server::Arm, Server::Gripper],
        "open_gripper" | "close_gripper" => &[Server::Gripper],
        "stow" => &[Server::Arm],
        _ => &[],
    }
}

/// A status topic's word about a goal, where its result can't be had.
pub(crate) fn end_by_status(status: eh_ros_edge::goal_client::GoalStatus) -> NativeEnd {
    NativeEnd {
        status: wire(status),
        code: 0,
        message: "its result can't be had, the status topic says so".into(),
        outcome: SubGoalOutcome::Aborted {
            code: 0,
            message: "its result can't be had".into(),
        },
    }
}

//! From "stop" to measured standstill.

use std::sync::Arc;
use std::time::Duration;

use eh_contract::ErrorCode;
use eh_ledger::executor::{goal_status, ExecutorEvent, ExecutorRecord, GoalId, StopCause};
use eh_ros_edge::deadline::sleep;
use eh_ros_edge::GoalClientError;
use eh_skills::planning_scene::SceneWanted;
use eh_skills::{Goal, SkillProgram, Step, SubGoalOutcome};
use rclrs::log_info;
use uuid::Uuid;

use crate::executor::Executor;
use crate::run::end_by_status;

/// How often open goals are asked and standstill is looked at.
const PERIOD: Duration = Duration::from_millis(20);

/// A goal is asked to cancel again after this long: servers refuse a cancel while they accept a goal.
const ASK_AGAIN: Duration = Duration::from_millis(300);

/// How long one answer is waited for.
const ANSWER: Duration = Duration::from_millis(250);

/// A server that says "unknown" this many times about a goal will not change its mind.
const UNKNOWN_ANSWERS: u32 = 3;

impl Executor {
    /// Asks the open goals to cancel, waits for the end of each, measures standstill; CANCELED (or what
    /// the cause means) with all of it, STOP_UNCONFIRMED without it in time.
    pub(crate) async fn bring_to_standstill(
        self: &Arc<Self>,
        id: &str,
        cause: StopCause,
        program: Option<&mut dyn SkillProgram>,
    ) {
        let begin = self.surroundings.now();
        self.note(id, ExecutorEvent::Stop(cause.clone())).await;
        let Some(record) = self.record(id) else {
            return;
        };
        if record.is_answered() {
            return;
        }
        let limit = record.command.stop_timeout();
        let left = || limit.saturating_sub(self.surroundings.now().saturating_sub(begin));

        let (unknown, last) = self.end_open_goals(id, &left).await;
        let Some(record) = self.record(id) else {
            return;
        };
        if let Some(goal_id) = unknown {
            let action = record
                .sub_goal(&goal_id)
                .map(|g| g.action_name.clone())
                .unwrap_or_default();
            self.note(id, lost(&action, &goal_id)).await;
            return;
        }
        if let Some(open) = record.open_goals().next() {
            let what = format!(
                "{} on {} has no terminal status",
                open.name, open.action_name
            );
            self.note(id, ExecutorEvent::StopTimeout { what }).await;
            return;
        }
        if let Some(program) = program {
            // A cancel that came too late: the last goal had been reached, and it was the last one.
            if let (StopCause::Caller, Some(outcome)) = (&cause, last) {
                if self.completes(id, program, outcome).await {
                    self.note(id, ExecutorEvent::Complete).await;
                    return;
                }
            }
            let wanted = self.with_context(|context| program.scene_at_a_failure(context));
            self.clean_scene(id, wanted).await;
        }
        self.measure(id, &record, &left).await;
    }

    /// Whether a program is done after this outcome, but for changes of the planning scene, which are made.
    async fn completes(
        self: &Arc<Self>,
        id: &str,
        program: &mut dyn SkillProgram,
        mut outcome: SubGoalOutcome,
    ) -> bool {
        loop {
            match self.ask_program(program, Some(&outcome)) {
                Step::Completed => return true,
                Step::Goal {
                    name,
                    goal: Goal::Scene(wanted),
                } => outcome = self.change_scene(id, &name, &wanted).await,
                Step::Goal { .. } | Step::Failed(_) => return false,
            }
        }
    }

    /// Leaves nothing in the planning scene that would be in the way of the next skill. What can't be
    /// cleaned up now is cleaned up by that.
    async fn clean_scene(self: &Arc<Self>, id: &str, wanted: Option<SceneWanted>) {
        if let Some(wanted) = wanted.filter(|_| self.has_planning_scene()) {
            self.change_scene(id, "tidy_scene_at_a_failure", &wanted)
                .await;
        }
    }

    /// Measures until everything claimed stands, or the time is over.
    async fn measure(
        self: &Arc<Self>,
        id: &str,
        record: &ExecutorRecord,
        left: &(impl Fn() -> Duration + Sync),
    ) {
        let since = self.surroundings.now();
        let (base, joints) = self.measured(record);
        loop {
            match self.surroundings.standing(since, base, &joints) {
                Ok(()) => {
                    log_info!(
                        self.node.logger(),
                        "command {id}: standstill measured {:.2} s after the goals had ended",
                        self.surroundings.now().saturating_sub(since).as_secs_f64()
                    );
                    self.note(id, ExecutorEvent::Standstill).await;
                    return;
                }
                Err(what) if left().is_zero() => {
                    self.note(id, ExecutorEvent::StopTimeout { what }).await;
                    return;
                }
                Err(_) => sleep(PERIOD).await,
            }
        }
    }

    /// What is measured for the resources of a command: the base, and joints.
    fn measured(&self, record: &ExecutorRecord) -> (bool, Vec<String>) {
        let body = &self.parameters.body;
        // Nothing that was sent, nothing that could move.
        let sent = record.sub_goals.iter().any(|g| !g.refused);
        let mut base = false;
        let mut joints = Vec::new();
        for resource in record.resources.iter().filter(|_| sent) {
            match resource.as_str() {
                "base" => base = true,
                "arm" => joints.extend(
                    body.configurations
                        .get("stow")
                        .into_iter()
                        .flat_map(|c| c.keys().cloned()),
                ),
                "gripper" => joints.push(body.gripper_joint.clone()),
                "head" => joints.extend(body.head_joints.iter().cloned()),
                _ => {}
            }
        }
        (base, joints)
    }

    /// Cancels until every goal has ended or the time is over. Gives a goal that its server does not
    /// know, and how the last one ended if it was reached.
    async fn end_open_goals(
        self: &Arc<Self>,
        id: &str,
        left: &(impl Fn() -> Duration + Sync),
    ) -> (Option<GoalId>, Option<SubGoalOutcome>) {
        let mut last = None;
        let mut unknown_answers = 0;
        let mut asked: Option<Duration> = None;
        loop {
            let Some(record) = self.record(id) else {
                return (None, last);
            };
            let Some(open) = record.open_goals().next().cloned() else {
                return (None, last);
            };
            if left().is_zero() {
                return (None, last);
            }
            let goal_id = Uuid::from_bytes(open.goal_id);
            let Some(foreign) = self.foreign.by_name(&open.action_name).cloned() else {
                // Sent under another name by an earlier life: nobody to ask.
                return (Some(open.goal_id), last);
            };
            let now = self.surroundings.now();
            if asked.is_none_or(|at| now.saturating_sub(at) >= ASK_AGAIN) {
                asked = Some(now);
                let cancel = foreign.cancel(goal_id, ANSWER);
                drop(self.node.commands().run(async move {
                    // What came of it is learned from the result.
                    let _ = cancel.await;
                }));
            }
            let answer = match foreign.request_result(goal_id) {
                Ok(mut request) => request.wait(ANSWER.min(left())).await,
                Err(error) => Err(error),
            };
            match answer {
                Ok(end) => {
                    self.goal_ended(id, goal_id, &end).await;
                    if end.status == goal_status::SUCCEEDED {
                        last = Some(end.outcome);
                    }
                }
                Err(GoalClientError::UnknownGoal { .. }) => {
                    unknown_answers += 1;
                    if unknown_answers >= UNKNOWN_ANSWERS {
                        return (Some(open.goal_id), last);
                    }
                    sleep(PERIOD.max(ANSWER)).await;
                }
                Err(_) => {
                    if let Some(status) = foreign.status(goal_id).filter(|s| s.is_terminal()) {
                        self.goal_ended(id, goal_id, &end_by_status(status)).await;
                    }
                    sleep(PERIOD).await;
                }
            }
        }
    }
}

fn lost(action: &str, goal_id: &GoalId) -> ExecutorEvent {
    ExecutorEvent::Lose {
        error_code: ErrorCode::ResultLost.code(),
        error_msg: format!(
            "{action} does not know goal {}: its result has expired, or it was restarted; that does not prove that nothing ran. Look at the robot, then settle the command",
            Uuid::from_bytes(*goal_id)
        ),
    }
}

//! From "stop" to measured standstill.

use std::time::Duration;

use eh_contract::ErrorCode;
use eh_ledger::executor::{
    format_goal_id, goal_status, ExecutorEvent, ExecutorRecord, GoalId, StopCause, SubGoalRecord,
};
use eh_skills::{Goal, Step, SubGoalOutcome};

use super::{Cx, Executor};
use crate::effect::{Effect, Level};
use crate::native_end::NativeEnd;
use crate::phase::{Ending, Happening, Phase, Run, StopStage, Stopping};
use crate::server::Server;
use crate::timing::{self, Every};

impl Stopping {
    /// What is left of the time to stop.
    fn left(&self, now: Duration) -> Duration {
        self.limit.saturating_sub(now.saturating_sub(self.since))
    }
}

impl Ending {
    /// No goal yet.
    fn none(now: Duration) -> Self {
        Ending {
            goal_id: None,
            cancel: Every::now(timing::CANCEL_AGAIN),
            ask: Every::after(now, timing::ANSWER),
            asked_at: None,
            unknown_answers: 0,
        }
    }

    /// A goal that was asked to cancel just now.
    fn of(goal_id: GoalId, now: Duration) -> Self {
        Ending {
            goal_id: Some(goal_id),
            cancel: Every::after(now, timing::CANCEL_AGAIN),
            ask: Every::now(timing::ANSWER),
            asked_at: None,
            unknown_answers: 0,
        }
    }
}

/// What is measured for the resources of a command: the base, and joints.
struct Measured {
    base: bool,
    joints: Vec<String>,
}

impl Executor {
    /// Asks the open goals to cancel, waits for the end of each, measures standstill; CANCELED (or what
    /// the cause means) with all of it, STOP_UNCONFIRMED without it in time.
    pub(super) fn bring_to_standstill(
        &mut self,
        id: &str,
        cause: StopCause,
        run: Option<Box<Run>>,
        cx: &mut Cx<'_, '_>,
    ) -> Phase {
        let now = cx.turn.now;
        self.bring_to_standstill_from(now, id, cause, run, cx)
    }

    /// The same at once, with the time to stop counted from a moment that may be still to come.
    pub(super) fn bring_to_standstill_from(
        &mut self,
        since: Duration,
        id: &str,
        cause: StopCause,
        run: Option<Box<Run>>,
        cx: &mut Cx<'_, '_>,
    ) -> Phase {
        self.note(id, &ExecutorEvent::Stop(cause.clone()), cx);
        let Some(record) = self.record(id).filter(|r| !r.is_answered()) else {
            return Phase::Over;
        };
        let now = cx.turn.now;
        // The event has asked them all to cancel.
        let open = record.open_goals().next().map(|g| g.goal_id);
        let stopping = Stopping {
            since,
            limit: record.command.stop_timeout(),
            cause,
            run,
            reached: None,
            stage: StopStage::EndingGoals(
                open.map_or_else(|| Ending::none(now), |goal_id| Ending::of(goal_id, now)),
            ),
        };
        self.end_goals(id, Box::new(stopping), cx)
    }

    /// The phase in which a command is brought to standstill.
    pub(super) fn stop(
        &mut self,
        id: &str,
        mut stopping: Box<Stopping>,
        happening: Happening,
        cx: &mut Cx<'_, '_>,
    ) -> Phase {
        match &stopping.stage {
            StopStage::EndingGoals(_) => self.goal_told(id, stopping, happening, cx),
            StopStage::Finishing(change) => match self.scene_changed(id, change, happening, cx) {
                None => Phase::Stopping(stopping),
                outcome @ Some(_) => {
                    stopping.reached = outcome;
                    self.goals_are_over(id, stopping, cx)
                }
            },
            StopStage::Tidying(change) => match self.scene_changed(id, change, happening, cx) {
                None => Phase::Stopping(stopping),
                // What can't be tidied up now is tidied up by the next skill.
                Some(_) => self.begin_to_measure(id, stopping, cx),
            },
            StopStage::Measuring { since } => {
                let since = *since;
                self.measure(id, stopping, since, cx)
            }
        }
    }

    /// What is told about a goal that is being ended.
    fn goal_told(
        &mut self,
        id: &str,
        mut stopping: Box<Stopping>,
        happening: Happening,
        cx: &mut Cx<'_, '_>,
    ) -> Phase {
        match happening {
            Happening::Acknowledged { goal_id, accepted } => {
                if !accepted {
                    self.goal_refused(id, &goal_id, "rejected by its server", cx);
                } else if let StopStage::EndingGoals(ending) = &mut stopping.stage {
                    // A cancel that came before it was lost on a server that did not know the goal.
                    if ending.goal_id == Some(goal_id) {
                        ending.cancel = Every::now(timing::CANCEL_AGAIN);
                    }
                }
            }
            Happening::NotSent { goal_id, .. } => {
                self.goal_refused(id, &goal_id, "never sent", cx);
            }
            Happening::Ended { goal_id, end } => {
                self.goal_ended(id, &goal_id, &end, cx);
                if end.status == goal_status::SUCCEEDED {
                    stopping.reached = Some(end.outcome);
                }
            }
            Happening::Unknown { goal_id } => {
                if let StopStage::EndingGoals(ending) = &mut stopping.stage {
                    // Each question counts once, however often it is answered.
                    if ending.goal_id == Some(goal_id) && ending.asked_at.take().is_some() {
                        ending.unknown_answers += 1;
                    }
                }
            }
            Happening::Look | Happening::SceneChecked(_) | Happening::SceneChanged { .. } => {}
        }
        self.end_goals(id, stopping, cx)
    }

    /// Cancels until every goal has ended or the time is over.
    fn end_goals(&mut self, id: &str, mut stopping: Box<Stopping>, cx: &mut Cx<'_, '_>) -> Phase {
        let now = cx.turn.now;
        loop {
            let Some(record) = self.record(id) else {
                return Phase::Over;
            };
            let Some(open) = record.open_goals().next().cloned() else {
                return self.goals_are_over(id, stopping, cx);
            };
            let server = self.server_named(&open.action_name);
            let left = stopping.left(now);
            let StopStage::EndingGoals(ending) = &mut stopping.stage else {
                return Phase::Stopping(stopping);
            };
            if ending.goal_id != Some(open.goal_id) {
                *ending = Ending::of(open.goal_id, now);
            }
            let Some(server) = server.filter(|_| ending.unknown_answers < timing::UNKNOWN_ANSWERS)
            else {
                // The server does not know it; or it was sent under another name by an earlier life, so
                // that there is nobody to ask.
                self.note(id, &lost(&open.action_name, &open.goal_id), cx);
                return Phase::Over;
            };
            if left.is_zero() {
                let what = format!(
                    "{} on {} has no terminal status",
                    open.name, open.action_name
                );
                self.note(id, &ExecutorEvent::StopTimeout { what }, cx);
                return Phase::Over;
            }
            let goal_id = open.goal_id;
            if ending.cancel.is_due(now) {
                cx.give(Effect::CancelGoal { server, goal_id });
            }
            let unanswered = ending
                .asked_at
                .is_some_and(|at| now.saturating_sub(at) >= timing::ANSWER);
            if unanswered || !cx.turn.senses.is_there(server) {
                let status = cx.turn.senses.status(server, &goal_id);
                if let Some(status) = status.filter(|s| goal_status::is_terminal(*s)) {
                    self.goal_ended(id, &goal_id, &NativeEnd::by_status(status), cx);
                    continue;
                }
            }
            if ending.ask.is_due(now) {
                ending.asked_at = Some(now);
                cx.give(Effect::RequestResult { server, goal_id });
            }
            return Phase::Stopping(stopping);
        }
    }

    /// Every goal has ended: was that all, and is something left to be tidied up?
    fn goals_are_over(
        &mut self,
        id: &str,
        mut stopping: Box<Stopping>,
        cx: &mut Cx<'_, '_>,
    ) -> Phase {
        if let Some(mut run) = stopping.run.take() {
            // A cancel that came too late: the last goal had been reached, and it was the last one.
            let reached = stopping.reached.take();
            if let (StopCause::Caller, Some(mut outcome)) = (&stopping.cause, reached) {
                loop {
                    match self.ask_program(&mut run, Some(&outcome), cx) {
                        Step::Completed => {
                            self.note(id, &ExecutorEvent::Complete, cx);
                            return Phase::Over;
                        }
                        Step::Goal {
                            name,
                            goal: Goal::Scene(wanted),
                        } => match self.change_scene(id, &name, wanted, cx) {
                            Err(not_made) => outcome = not_made,
                            Ok(change) => {
                                stopping.run = Some(run);
                                stopping.stage = StopStage::Finishing(change);
                                return Phase::Stopping(stopping);
                            }
                        },
                        // All that was left was a look.
                        Step::Goal { .. } if run.program.glance().is_some() => {
                            outcome = SubGoalOutcome::Rejected {
                                message: "called off".into(),
                            };
                        }
                        Step::Goal { .. } | Step::Failed(_) => break,
                    }
                }
            }
            if let Some(wanted) = self.scene_at_a_failure(&*run.program, cx) {
                let name = "tidy_scene_at_a_failure";
                if let Ok(change) = self.change_scene(id, name, wanted, cx) {
                    stopping.stage = StopStage::Tidying(change);
                    return Phase::Stopping(stopping);
                }
            }
        }
        self.begin_to_measure(id, stopping, cx)
    }

    fn begin_to_measure(
        &mut self,
        id: &str,
        mut stopping: Box<Stopping>,
        cx: &mut Cx<'_, '_>,
    ) -> Phase {
        let since = cx.turn.now;
        stopping.stage = StopStage::Measuring { since };
        self.measure(id, stopping, since, cx)
    }

    /// Measures until everything claimed stands, or the time is over.
    fn measure(
        &mut self,
        id: &str,
        stopping: Box<Stopping>,
        since: Duration,
        cx: &mut Cx<'_, '_>,
    ) -> Phase {
        let Some(record) = self.record(id) else {
            return Phase::Over;
        };
        let Measured { base, joints } = self.measured(record);
        let now = cx.turn.now;
        match cx.turn.senses.standing(since, base, &joints) {
            Ok(()) => {
                cx.log(
                    Level::Info,
                    format!(
                        "command {id}: standstill measured {:.2} s after the goals had ended",
                        now.saturating_sub(since).as_secs_f64()
                    ),
                );
                self.note(id, &ExecutorEvent::Standstill, cx);
                Phase::Over
            }
            Err(what) if stopping.left(now).is_zero() => {
                self.note(id, &ExecutorEvent::StopTimeout { what }, cx);
                Phase::Over
            }
            Err(_) => Phase::Stopping(stopping),
        }
    }

    fn measured(&self, record: &ExecutorRecord) -> Measured {
        let body = &self.settings.body;
        // Nothing that was sent, nothing that could move. Not every robot that drives has a head.
        let sent = record.sub_goals.iter().any(|g| !g.refused);
        let head = self.settings.actions.get(&Server::Head);
        let turned = |g: &SubGoalRecord| !g.refused && Some(&g.action_name) == head;
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
                "head" if record.sub_goals.iter().any(turned) => {
                    joints.extend(body.head_joints.iter().cloned())
                }
                _ => {}
            }
        }
        Measured { base, joints }
    }
}

fn lost(action: &str, goal_id: &GoalId) -> ExecutorEvent {
    ExecutorEvent::Lose {
        error_code: ErrorCode::ResultLost.code(),
        error_msg: format!(
            "{action} does not know goal {}: its result has expired, or it was restarted; that does not prove that nothing ran. Look at the robot, then settle the command",
            format_goal_id(goal_id)
        ),
    }
}

//! One run: the program's sub-goals one after the other, each written down before it is sent.

use eh_contract::ErrorCode;
use eh_ledger::executor::{ExecutorEvent, StopCause};
use eh_skills::program::HeldChange;
use eh_skills::{Context, Failure, Goal, SkillProgram, Step, SubGoalOutcome};
use uuid::{Builder, Uuid};

use super::{Cx, Executor};
use crate::phase::{Doing, Glance, Happening, Observation, Phase, Run};
use crate::server::Server;
use crate::timing::{self, Every};

pub(super) fn failed(failure: Failure) -> StopCause {
    StopCause::Failed {
        error_code: failure.code.code(),
        error_msg: failure.message,
    }
}

pub(super) fn failure(code: ErrorCode, message: impl Into<String>) -> StopCause {
    failed(Failure::new(code, message))
}

impl Cx<'_, '_> {
    /// A random UUID.
    pub(super) fn new_uuid(&mut self) -> Uuid {
        let mut bytes = [0; 16];
        self.turn.rng.fill_bytes(&mut bytes);
        Builder::from_random_bytes(bytes).into_uuid()
    }
}

impl Executor {
    /// The phase in which a program runs.
    pub(super) fn run(
        &mut self,
        id: &str,
        run: Box<Run>,
        doing: Doing,
        happening: Happening,
        cx: &mut Cx<'_, '_>,
    ) -> Phase {
        if matches!(happening, Happening::Look) {
            if let Some(cause) = self.stop_of(id) {
                return self.bring_to_standstill(id, cause, Some(run), cx);
            }
            if cx.turn.now >= run.until {
                let cause = failure(
                    ErrorCode::ExecutionTimeout,
                    format!(
                        "it took longer than {:.1} s and was canceled; try again, or give it a longer execution_timeout",
                        run.timeout.as_secs_f64()
                    ),
                );
                return self.bring_to_standstill(id, cause, Some(run), cx);
            }
        }
        match doing {
            Doing::Pursuing(pursuit) => self.pursue(id, run, pursuit, happening, cx),
            Doing::Waiting { since, duration } => self.wait(id, run, since, duration, cx),
            Doing::Observing(observation) => self.observe(id, run, observation, cx),
            Doing::ChangingScene(change) => match self.scene_changed(id, &change, happening, cx) {
                None => Phase::Running(run, Doing::ChangingScene(change)),
                Some(outcome) => self.go_on(id, run, Some(outcome), cx),
            },
        }
    }

    /// Asks the program what is next, and begins it.
    pub(super) fn go_on(
        &mut self,
        id: &str,
        mut run: Box<Run>,
        mut last: Option<SubGoalOutcome>,
        cx: &mut Cx<'_, '_>,
    ) -> Phase {
        loop {
            let step = self.ask_program(&mut run, last.as_ref(), cx);
            if let Some(progress) = run.program.progress() {
                self.set_progress(id, progress);
            }
            let (name, goal) = match step {
                Step::Completed => {
                    self.note(id, &ExecutorEvent::Complete, cx);
                    return Phase::Over;
                }
                Step::Failed(failure) => {
                    return self.bring_to_standstill(id, failed(failure), Some(run), cx);
                }
                Step::Goal { name, goal } => (name, goal),
            };
            let doing = match goal {
                Goal::Scene(wanted) => match self.change_scene(id, &name, wanted, cx) {
                    Ok(change) => Doing::ChangingScene(change),
                    Err(outcome) => {
                        last = Some(outcome);
                        continue;
                    }
                },
                Goal::Wait(duration) => Doing::Waiting {
                    since: cx.turn.now,
                    duration,
                },
                Goal::Observe {
                    class_name,
                    frames,
                    timeout,
                } => Doing::Observing(Observation {
                    class_name,
                    frames,
                    since: cx.turn.stamp,
                    until: cx.turn.now.saturating_add(timeout),
                    look: Every::after(cx.turn.now, timing::FRAMES),
                }),
                goal @ (Goal::Navigate { .. }
                | Goal::MoveArm { .. }
                | Goal::Gripper { .. }
                | Goal::Head { .. }) => match self.send(id, &name, goal, cx) {
                    Ok(mut pursuit) => {
                        pursuit.glance = run.program.glance().map(|limit| Glance {
                            until: cx.turn.now.saturating_add(limit),
                            cancel: Every::now(timing::CANCEL_AGAIN),
                        });
                        Doing::Pursuing(pursuit)
                    }
                    // The look at the end of a drive takes the head from nobody, and the drive is done.
                    Err(StopCause::Failed { error_msg, .. }) if run.program.glance().is_some() => {
                        last = Some(SubGoalOutcome::Rejected { message: error_msg });
                        continue;
                    }
                    Err(cause) => return self.bring_to_standstill(id, cause, Some(run), cx),
                },
            };
            return Phase::Running(run, doing);
        }
    }

    /// Asks a program for its next step on what is known now, and writes down what it means for what is
    /// held. That comes before the fingers move: after a crash it has to be known what may be between them.
    pub(super) fn ask_program(
        &mut self,
        run: &mut Run,
        last: Option<&SubGoalOutcome>,
        cx: &mut Cx<'_, '_>,
    ) -> Step {
        let program = &mut run.program;
        let step = self.with_context(cx, |context| program.next(context, last));
        let change = program.held_change();
        if change != run.remembered {
            self.remember_grasp(&change, cx);
            run.remembered = change;
        }
        step
    }

    /// Gives what is known now.
    pub(super) fn with_context<T>(
        &self,
        cx: &Cx<'_, '_>,
        ask: impl FnOnce(&Context<'_>) -> T,
    ) -> T {
        let senses = cx.turn.senses;
        let scene = senses.scene();
        ask(&Context {
            base_in_map: senses.base_in_map(),
            scene: scene.as_deref(),
            body: &self.settings.body,
            held: self.held.as_ref(),
            gripper: senses.gripper(),
            tool_in_base: senses.tool_in_base(),
            planning_scene: self.has_planning_scene(cx),
            head: self.settings.actions.contains_key(&Server::Head)
                && senses.is_there(Server::Head),
        })
    }

    /// What of ours is to be in the planning scene when a run has failed.
    pub(super) fn scene_at_a_failure(
        &self,
        program: &dyn SkillProgram,
        cx: &Cx<'_, '_>,
    ) -> Option<eh_skills::planning_scene::SceneWanted> {
        self.with_context(cx, |context| program.scene_at_a_failure(context))
            .filter(|_| self.has_planning_scene(cx))
    }

    /// Keeps how what is held was grasped, over a restart too.
    fn remember_grasp(&mut self, change: &HeldChange, cx: &mut Cx<'_, '_>) {
        let held = match change {
            HeldChange::Keep => return,
            HeldChange::Take(grasp) => Some(grasp.clone()),
            HeldChange::Clear => None,
        };
        // Strings and numbers only: this can't fail, and null means the usual grasp.
        let text = serde_json::to_string(&held).unwrap_or_else(|_| "null".into());
        self.held = held;
        cx.write_held(text);
    }
}

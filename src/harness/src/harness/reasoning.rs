//! Perceive and reason: the scene is read, the planner asked.

use std::sync::Arc;

use eh_contract::scene::SceneSnapshot;
use eh_contract::session::EventKind;
use eh_contract::state::TaskOutcome;
use eh_contract::ErrorCode;
use eh_ledger::issuer_policy::Now;
use eh_planner::planner::{PlannerError, Program};
use serde_json::Value;

use super::{Harness, SKILLS_PERIOD};
use crate::effect::{Effect, PlanRequest};
use crate::grounding::{start_place, with_start};
use crate::task::Phase;

impl Harness {
    pub(super) fn next_ticket(&mut self) -> u64 {
        self.ticket += 1;
        self.ticket
    }

    pub(super) fn drop_answer(&mut self) {
        self.dropped = self.dropped.saturating_add(1);
    }

    pub(super) fn read_scene(&mut self, now: Now, out: &mut Vec<Effect>) {
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

    pub(super) fn scene_read(
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
                task.executors = self
                    .surroundings
                    .executors(&self.settings.robot_id)
                    .map(String::from)
                    .collect();
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

    pub(super) fn scene_unavailable(&mut self, reason: String, now: Now, out: &mut Vec<Effect>) {
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

    pub(super) fn is_planning(&self, ticket: u64) -> bool {
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

    pub(super) fn begun(
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
                // The place where it was given is known only now.
                task.save(now, out);
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

    pub(super) fn await_lease(&mut self, now: Now, out: &mut Vec<Effect>) {
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
}

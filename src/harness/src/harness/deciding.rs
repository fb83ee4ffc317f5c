//! Decide: what the planner wants becomes a question, an end, or a command that passed the gate.

use eh_contract::command::Proposal;
use eh_contract::scene::SceneSnapshot;
use eh_contract::session::{EventKind, StepReport};
use eh_contract::state::{CommandState, TaskOutcome};
use eh_contract::ErrorCode;
use eh_ledger::issuer_event::IssuerEvent;
use eh_ledger::issuer_ledger::Proposed;
use eh_ledger::issuer_policy::Now;
use eh_planner::planner::{Program, Turn};
use serde_json::{json, Value};

use super::learning::Failure;
use super::{random, Harness, Turned, SKILLS_PERIOD};
use crate::admission::short_id;
use crate::effect::{Effect, HumanRequest, HumanRequestKind};
use crate::gate::{self, GateContext, GateError};
use crate::task::{Phase, Step};

impl Harness {
    pub(super) fn turned(
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
                match plan.len() {
                    1 => format!("plan {version}: 1 step ahead"),
                    steps => format!("plan {version}: {steps} steps ahead"),
                },
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
            Turn::Fail {
                code: ErrorCode::NoPlan,
                message,
            } if self.is_new(now) => {
                // Executors that were started together with this process are heard in a moment.
                let until = now.steady.saturating_add(SKILLS_PERIOD);
                if let Some(task) = self.task.as_mut() {
                    task.enter(
                        Phase::Waiting { until },
                        format!("looks whether more skills are offered: {message}"),
                    );
                }
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

    pub(super) fn ask(
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

    pub(super) fn close_request(&mut self, out: &mut Vec<Effect>) {
        if let Some(mut request) = self.task.as_mut().and_then(|t| t.open_request.take()) {
            request.closed = true;
            out.push(Effect::AskHuman(request));
        }
    }

    pub(super) fn proposed(
        &mut self,
        proposal: Proposal,
        turned: &mut Turned<'_>,
        out: &mut Vec<Effect>,
    ) {
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
            Err(GateError::EvaluatorUnavailable { skill }) if self.waits_for_evaluator(now) => {
                // One that is started, or started again, answers in a moment. Nothing began, so that this is
                // neither a step nor an attempt.
                let until = now.steady.saturating_add(SKILLS_PERIOD);
                if let Some(task) = self.task.as_mut() {
                    task.budget.give_back_step();
                    task.enter(
                        Phase::Waiting { until },
                        format!("{skill} has to be judged: waits for the evaluator"),
                    );
                }
            }
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
                    task.short_of_evaluator = None;
                    task.step = Some(step);
                    task.moved = true;
                    task.enter(Phase::Executing, format!("runs {skill}"));
                    // Before the command is: another process then knows whose it is.
                    task.save(now, out);
                }
                self.apply(&command_id, IssuerEvent::Commit, now, out);
                let goal_id = uuid::Builder::from_random_bytes(random(turned.rng))
                    .into_uuid()
                    .into_bytes();
                self.apply(&command_id, IssuerEvent::Dispatch { goal_id }, now, out);
            }
        }
    }

    /// Whether an evaluator that does not answer is waited for; once per task, and again after it was there.
    fn waits_for_evaluator(&mut self, now: Now) -> bool {
        let limit = self.settings.waits.skills;
        self.task.as_mut().is_some_and(|task| {
            let since = *task.short_of_evaluator.get_or_insert(now.steady);
            now.steady.saturating_sub(since) < limit
        })
    }

    pub(super) fn end_dry_run(
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

    pub(super) fn refused(
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
            now,
            out,
        );
        let failure = Failure {
            code: error.task_code(),
            message: &error.to_string(),
            hopeless: false,
        };
        self.after_failure(proposal, &failure, turned, out);
    }
}

//! The symbolic planner: grammar, resolution, goal regression, search for what is not known.
//!
//! It plans anew at each turn from what the scene believes then, and keeps in the program only what the
//! scene can't tell: which thing is which object, where it looked, what it asked.

use std::collections::{BTreeMap, BTreeSet};

use eh_contract::belief::{evaluate, evaluate_predicate, NEAR_DISTANCE};
use eh_contract::command::Proposal;
use eh_contract::condition::{Condition, Near, Predicate, Visible, ROBOT};
use eh_contract::error_code::ErrorCode;
use eh_contract::scene::Kind;
use eh_contract::session::StepReport;
use eh_contract::skill::SkillDescriptor;
use eh_contract::state::CommandState;
use eh_contract::time::Stamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::fact::{alternatives, Fact};
use crate::goal::{
    distance_from_robot, is_at, resolve, Bindings, Description, Goal, Perform, Place, Resolution,
    Things, HERE, OWN_RANK, WIDER_RANK,
};
use crate::grammar::{in_words, understand, Understanding};
use crate::lexicon::normalise;
use crate::messages::{quote, Messages};
use crate::phrase_table::{TableError, Tables};
use crate::planner::{
    PlannedStep, Planner, PlannerError, PlanningContext, Program, TaskInput, Turn,
};
use crate::regression::{plan, Action, Experience, Found, Problem};
use crate::skill_schema::Skills;

/// Name of this planner in programs.
pub const NAME: &str = "symbolic";

/// How often one step may fail within a goal before other ways are tried. The harness bounds attempts by
/// its own numbers as well; this one only decides when the planner looks for something else.
pub const MAX_FAILURES: u32 = 3;

/// How often one step may succeed within a goal without the goal coming nearer.
const MAX_SUCCESSES: usize = 4;

/// Largest distance \[m\] of a look that is not repeated from nearer: detectors seldom miss a thing of the
/// size of a cup from there.
const CLOSE_LOOK: f64 = 2.0;

/// How often looking at a known object may fail before it counts as not being there.
const LOST_AFTER: u32 = 2;

/// How often a person is asked the same.
const MAX_QUESTIONS: usize = 3;

/// Most goals reached and objects excluded within one turn; each round does one of the two, so that more
/// would be a loop.
const MAX_ROUNDS: usize = 256;

/// The symbolic planner.
#[derive(Debug)]
pub struct SymbolicPlanner {
    tables: Tables,
    version: String,
}

/// What the program remembers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Memory {
    goals: Vec<Goal>,
    things: Things,
    /// Thing to ref.
    bound: BTreeMap<String, String>,
    /// Refs that are not where the scene says, or that nothing works with.
    excluded: BTreeSet<String>,
    /// Goal in work.
    goal: usize,
    /// Number of steps when it began.
    goal_start: usize,
    /// Searches by thing.
    searches: BTreeMap<String, Search>,
    /// Questions by key: options with their refs.
    questions: BTreeMap<String, Vec<(String, String)>>,
    /// Conditions of the goals that were reached.
    reached: Vec<Value>,
    /// What was reached, in words.
    words: Vec<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Search {
    since: Stamp,
    from_step: usize,
    /// Refs looked at, from anywhere.
    looked: BTreeSet<String>,
    /// Refs looked at from near.
    looked_near: BTreeSet<String>,
    /// Refs that could not be looked at.
    failed: BTreeSet<String>,
}

/// Ends a turn early.
type Step<T> = Result<T, Turn>;

struct Work<'a> {
    memory: &'a mut Memory,
    context: &'a PlanningContext<'a>,
    messages: Messages<'a>,
    tables: &'a Tables,
    skills: &'a Skills<'a>,
    experience: Experience,
    plan: Vec<PlannedStep>,
}

impl SymbolicPlanner {
    /// Creates the planner with the embedded tables.
    ///
    /// # Errors
    /// [`TableError`]; a test proves that the shipped tables have none.
    pub fn new() -> Result<Self, TableError> {
        Tables::embedded().map(Self::with_tables)
    }

    /// Creates the planner with other tables.
    pub fn with_tables(tables: Tables) -> Self {
        let version = format!("{}+{}", env!("CARGO_PKG_VERSION"), tables.version());
        SymbolicPlanner { tables, version }
    }

    /// Version of planner and tables.
    pub fn version(&self) -> &str {
        &self.version
    }
}

impl Planner for SymbolicPlanner {
    fn begin(&self, task: &TaskInput<'_>) -> Result<Program, PlannerError> {
        let understanding = understand(
            task.instruction,
            &self.tables,
            task.snapshot,
            task.vocabulary,
        )?;
        let understood = in_words(&understanding, &self.tables);
        let Understanding {
            language,
            goals,
            things,
        } = understanding;
        let memory = Memory {
            goals,
            things,
            ..Memory::default()
        };
        let state = serde_json::to_value(&memory).map_err(|e| PlannerError::Failed {
            message: e.to_string(),
        })?;
        Ok(Program {
            planner: NAME.into(),
            planner_version: self.version.clone(),
            instruction: task.instruction.into(),
            language,
            understood,
            plan_version: 0,
            plan: Vec::new(),
            state,
        })
    }

    fn next(&self, program: &mut Program, context: &PlanningContext<'_>) -> Turn {
        let messages = Messages::new(&self.tables, program.language);
        let bad = |why: String| Turn::Fail {
            code: ErrorCode::PlannerFailure,
            message: messages.say("bad_program", &[("why", &why)]),
        };
        if program.planner != NAME {
            return bad(format!("planner \"{}\"", quote(&program.planner)));
        }
        let mut memory: Memory = match Memory::deserialize(&program.state) {
            Ok(memory) => memory,
            Err(e) => return bad(e.to_string()),
        };
        let skills = Skills::new(context.skills);
        let mut work = Work {
            memory: &mut memory,
            context,
            messages,
            tables: &self.tables,
            skills: &skills,
            experience: Experience::default(),
            plan: Vec::new(),
        };
        let turn = match work.turn() {
            Ok(turn) | Err(turn) => turn,
        };
        let plan = work.plan;
        // The rest of the last plan is the same plan.
        let same = program.plan.len() >= plan.len()
            && program
                .plan
                .iter()
                .skip(program.plan.len() - plan.len())
                .zip(&plan)
                .all(|(a, b)| a.skill == b.skill && a.arguments == b.arguments);
        if !same || program.plan_version == 0 {
            program.plan_version = program.plan_version.saturating_add(1);
        }
        program.plan = plan;
        match serde_json::to_value(&memory) {
            Ok(state) => program.state = state,
            Err(e) => return bad(e.to_string()),
        }
        turn
    }
}

fn arguments_of(step: &StepReport) -> Map<String, Value> {
    match &step.arguments {
        Value::Object(map) => map.clone(),
        _ => Map::new(),
    }
}

/// Why a step failed, in its own words: what was judged, and what the executor says of its control.
fn why(step: &StepReport) -> String {
    let (verdict, error) = (step.verdict_reason.as_str(), step.error_msg.as_str());
    match (verdict.is_empty(), error.is_empty()) {
        (true, true) => ErrorCode::from_code(step.error_code)
            .map_or_else(|| step.error_code.to_string(), |c| c.name().to_string()),
        (false, true) => verdict.into(),
        (true, false) => error.into(),
        (false, false) if error.contains(verdict) => error.into(),
        (false, false) => format!("{verdict}; {error}"),
    }
}

impl<'a> Work<'a> {
    fn descriptor(&self, skill: &str) -> Option<&'a SkillDescriptor> {
        self.skills.get(skill)
    }

    fn fail<T>(&self, code: ErrorCode, message: String) -> Step<T> {
        Err(Turn::Fail { code, message })
    }

    fn steps(&self) -> &'a [StepReport] {
        self.context
            .history
            .get(self.memory.goal_start..)
            .unwrap_or(&[])
    }

    fn skill_names(&self) -> String {
        let names: Vec<String> = self.context.skills.iter().map(|d| d.name.clone()).collect();
        self.messages.list(&names)
    }

    fn turn(&mut self) -> Step<Turn> {
        if let Some(last) = self.context.history.last() {
            if matches!(
                last.command_state,
                CommandState::Unknown | CommandState::Reconciling
            ) {
                let step = self.step_name(&last.skill, &arguments_of(last));
                return self.fail(
                    ErrorCode::CommandUnknown,
                    self.messages.say("command_unknown", &[("step", &step)]),
                );
            }
        }
        self.check_places()?;
        // Each round ends the turn, reaches a goal, or excludes an object.
        for _ in 0..MAX_ROUNDS {
            let Some(goal) = self.memory.goals.get(self.memory.goal).cloned() else {
                return Ok(self.done());
            };
            self.experience = self.learn();
            match &goal.perform {
                Some(perform) => self.perform(perform)?,
                None => self.achieve(&goal)?,
            }
        }
        self.fail(
            ErrorCode::PlannerFailure,
            self.messages
                .say("bad_program", &[("why", "too many rounds")]),
        )
    }

    fn done(&self) -> Turn {
        let goals: Vec<String> = self
            .memory
            .words
            .iter()
            .filter(|w| !w.is_empty())
            .cloned()
            .collect();
        Turn::Done {
            summary: if goals.is_empty() {
                self.messages.say("nothing_to_do", &[])
            } else {
                self.messages.say("done", &[("goals", &goals.join("; "))])
            },
        }
    }

    fn reached(&mut self, words: String, condition: Option<Value>) {
        self.memory.words.push(words);
        self.memory.reached.extend(condition);
        self.memory.goal += 1;
        self.memory.goal_start = self.context.history.len();
        self.memory.searches.clear();
    }

    /// Rooms, furniture and people of all goals are looked up before anything moves.
    fn check_places(&mut self) -> Step<()> {
        let mut names: BTreeSet<String> = BTreeSet::new();
        for goal in self.memory.goals.iter().skip(self.memory.goal) {
            names.extend(goal.condition.placeholders());
        }
        for name in names {
            if name != HERE && self.is_place(&name) {
                self.bind(&name, 0)?;
            } else if let Some(place) = self
                .memory
                .things
                .get(&name)
                .and_then(|d| d.within.as_ref())
                .map(|(_, t)| t.clone())
            {
                if self.is_place(&place) {
                    self.bind(&place, 0)?;
                }
            }
        }
        Ok(())
    }

    /// Whether a thing belongs to the map: it is not searched for.
    fn is_place(&self, thing: &str) -> bool {
        self.memory
            .things
            .get(thing)
            .is_some_and(|d| !d.held && !d.kinds.contains(Kind::Object.name()))
    }

    /// What the steps since the goal's begin teach.
    fn learn(&self) -> Experience {
        let mut out = Experience::default();
        let steps = self.steps();
        let keys: Vec<Option<(String, &SkillDescriptor)>> = steps
            .iter()
            .map(|s| {
                let d = self.descriptor(&s.skill)?;
                Some((self.skills.key(&s.skill, &arguments_of(s))?, d))
            })
            .collect();
        let mut successes: BTreeMap<&str, usize> = BTreeMap::new();
        for (i, (step, entry)) in steps.iter().zip(&keys).enumerate() {
            let Some((key, descriptor)) = entry else {
                continue;
            };
            match step.command_state {
                CommandState::Succeeded => {
                    *successes.entry(key).or_default() += 1;
                }
                CommandState::Failed | CommandState::Rejected | CommandState::Canceled => {
                    let count = out.failures.entry(key.clone()).or_default();
                    *count += 1;
                    let hopeless = step.error_code != 0
                        && descriptor
                            .failure_modes
                            .iter()
                            .any(|m| m.error_code == step.error_code && !m.recoverable);
                    if hopeless || *count >= MAX_FAILURES {
                        out.banned.insert(key.clone());
                    }
                    let unreachable = [
                        ErrorCode::OutOfReach,
                        ErrorCode::InCollision,
                        ErrorCode::ArmNoPlan,
                    ]
                    .iter()
                    .any(|c| c.code() == step.error_code);
                    let executed = step.command_state == CommandState::Failed
                        || step.error_code == ErrorCode::StalePrecondition.code();
                    let approach = *count >= 2 || unreachable;
                    let renewed = |of: fn(&Predicate) -> bool| {
                        self.renewed_since(descriptor, step, steps.get(i + 1..).unwrap_or(&[]), of)
                    };
                    let seen = renewed(|p| matches!(p, Predicate::Visible(_)));
                    let near = renewed(|p| matches!(p, Predicate::Near(_) | Predicate::At(_)));
                    let mut mark = |set: fn(&mut Experience) -> &mut BTreeSet<String>, on: bool| {
                        if on {
                            set(&mut out).insert(key.clone());
                        } else {
                            set(&mut out).remove(key);
                        }
                    };
                    mark(|e| &mut e.look_again, executed && !seen);
                    mark(|e| &mut e.approach_again, executed && approach && !near);
                }
                CommandState::Unspecified
                | CommandState::Proposed
                | CommandState::Committed
                | CommandState::Dispatched
                | CommandState::Accepted
                | CommandState::Running
                | CommandState::Evaluating
                | CommandState::Canceling
                | CommandState::Unknown
                | CommandState::Reconciling => {}
            }
        }
        for (key, count) in successes {
            if count >= MAX_SUCCESSES {
                out.banned.insert(key.to_string());
            }
        }
        if let [.., (a, Some((x, _))), (b, Some((y, _)))] =
            steps.iter().zip(&keys).collect::<Vec<_>>().as_slice()
        {
            let both = a.command_state == CommandState::Succeeded
                && b.command_state == CommandState::Succeeded;
            if both && x == y {
                out.banned.insert(x.clone());
            }
        }
        out
    }

    /// Whether later steps brought about anew what a failed step needs, of one sort.
    fn renewed_since(
        &self,
        descriptor: &SkillDescriptor,
        failed: &StepReport,
        later: &[StepReport],
        of: fn(&Predicate) -> bool,
    ) -> bool {
        let Ok(condition) = descriptor.preconditions.bind(&arguments_of(failed)) else {
            return true;
        };
        condition
            .predicates()
            .into_iter()
            .filter(|p| of(p))
            .all(|p| self.brought_about(p, later))
    }

    /// Whether one of these steps succeeded and declares that it brings a predicate about.
    fn brought_about(&self, predicate: &Predicate, steps: &[StepReport]) -> bool {
        // Limits are left to the scene: a declared effect has none.
        let plain = match predicate {
            Predicate::Near(n) => Predicate::Near(Near {
                max_distance: None,
                ..n.clone()
            }),
            Predicate::Visible(v) => Predicate::Visible(Visible {
                max_age: None,
                ..v.clone()
            }),
            other => other.clone(),
        };
        steps.iter().any(|s| {
            s.command_state == CommandState::Succeeded
                && self.skills.adds(&s.skill, &arguments_of(s), &plain)
        })
    }

    fn perform(&mut self, perform: &Perform) -> Step<()> {
        let done = self
            .steps()
            .iter()
            .any(|s| s.skill == perform.skill && s.command_state == CommandState::Succeeded);
        let step = self.step_name(&perform.skill, &perform.arguments);
        if done {
            self.reached(step, None);
            return Ok(());
        }
        let Some(descriptor) = self.descriptor(&perform.skill) else {
            return self.fail(
                ErrorCode::SkillUnavailable,
                self.messages.say(
                    "skill_missing",
                    &[("skill", &perform.skill), ("skills", &self.skill_names())],
                ),
            );
        };
        if let Err(error) = self.skills.check(&perform.skill, &perform.arguments) {
            return self.fail(
                ErrorCode::InstructionNotUnderstood,
                self.messages.say(
                    "skill_refused",
                    &[("skill", &perform.skill), ("why", &error.to_string())],
                ),
            );
        }
        let key = self.skills.key(&perform.skill, &perform.arguments);
        if key.is_some_and(|k| self.experience.banned.contains(&k)) {
            return self.attempts_exhausted(&step);
        }
        self.plan = vec![PlannedStep {
            skill: perform.skill.clone(),
            arguments: perform.arguments.clone(),
            reason: self.messages.say("performed", &[("skill", &perform.skill)]),
            nominal_duration: descriptor.nominal_duration,
        }];
        self.propose()
    }

    fn propose(&self) -> Step<()> {
        match self.plan.first() {
            Some(first) => Err(Turn::Propose(Proposal {
                skill: first.skill.clone(),
                arguments: first.arguments.clone(),
                reason: first.reason.clone(),
            })),
            None => Ok(()),
        }
    }

    fn step_name(&self, skill: &str, arguments: &Map<String, Value>) -> String {
        let values: Vec<String> = arguments
            .values()
            .map(|v| match v {
                Value::String(s) => s.clone(),
                other => other.to_string(),
            })
            .collect();
        format!("{skill}({})", values.join(", "))
    }

    fn achieve(&mut self, goal: &Goal) -> Step<()> {
        let mut names: Map<String, Value> = Map::new();
        names.insert(HERE.into(), Value::String(self.context.start_ref.into()));
        let mut things: Vec<String> = goal
            .condition
            .placeholders()
            .into_iter()
            .filter(|n| n != HERE)
            .collect();
        // The map's things first: they cost nothing to find.
        things.sort_by_key(|t| !self.is_place(t));
        for thing in &things {
            let r = self.bind(thing, 0)?;
            names.insert(thing.clone(), Value::String(r));
        }
        let condition = match goal.condition.bind(&names) {
            Ok(condition) => condition,
            Err(e) => {
                return self.fail(
                    ErrorCode::PlannerFailure,
                    self.messages.say("bad_program", &[("why", &e.to_string())]),
                )
            }
        };
        let (scene, now) = (self.context.snapshot, self.context.now);
        let done = if goal.act {
            condition
                .predicates()
                .iter()
                .all(|p| self.brought_about(p, self.steps()))
        } else {
            evaluate(&condition, scene, now).holds()
        };
        let said = self.say_condition(&condition);
        if done {
            let words = self.result_words(&condition, &said);
            self.reached(words, Some(condition.to_value()));
            return Ok(());
        }
        let keep = self.kept();
        let mut dead = Vec::new();
        for mut facts in alternatives(&condition, true) {
            if goal.act {
                facts.iter_mut().for_each(|f| f.anew = true);
            }
            match self.search(&facts, &keep) {
                Found::Plan(steps) => {
                    if steps.is_empty() {
                        // Believed fact by fact: as good as the whole.
                        self.reached(said, Some(condition.to_value()));
                        return Ok(());
                    }
                    self.plan = self.planned(&steps, None);
                    return self.propose();
                }
                Found::Nothing(facts) => dead.extend(facts),
            }
        }
        self.no_way(&things, &condition, &said, &dead)
    }

    fn say_condition(&self, condition: &Condition) -> String {
        self.messages
            .condition(condition, self.context.snapshot, self.context.start_ref)
    }

    fn say_fact(&self, fact: &Fact) -> String {
        let is = Condition::Is(fact.predicate.clone());
        self.say_condition(&if fact.positive {
            is
        } else {
            Condition::Not(Box::new(is))
        })
    }

    /// What was reached; for something that was looked for, where it is.
    fn result_words(&self, condition: &Condition, said: &str) -> String {
        match condition {
            Condition::Is(Predicate::Visible(v)) => {
                format!(
                    "{said}: {}",
                    self.messages.option(self.context.snapshot, &v.object)
                )
            }
            Condition::Is(_) | Condition::All(_) | Condition::Any(_) | Condition::Not(_) => {
                said.into()
            }
        }
    }

    fn kept(&self) -> Vec<Fact> {
        self.memory
            .reached
            .iter()
            .filter_map(|v| Condition::from_value(v).ok())
            .flat_map(|c| {
                alternatives(&c, true)
                    .into_iter()
                    .next()
                    .unwrap_or_default()
            })
            .filter(|f| {
                matches!(
                    f.predicate,
                    Predicate::On(_)
                        | Predicate::In(_)
                        | Predicate::Holding(_)
                        | Predicate::Door(_)
                )
            })
            .collect()
    }

    fn search(&self, facts: &[Fact], keep: &[Fact]) -> Found {
        plan(
            Problem {
                scene: self.context.snapshot,
                now: self.context.now,
                skills: self.skills,
                experience: &self.experience,
                keep,
            },
            facts,
        )
    }

    fn planned(&self, actions: &[Action], because: Option<&str>) -> Vec<PlannedStep> {
        actions
            .iter()
            .filter_map(|action| {
                let goal = self.say_fact(&action.achieves);
                let mut reason = self.messages.say("because", &[("goal", &goal)]);
                if let Some(because) = because {
                    reason = format!("{because}; {reason}");
                }
                let key = self.skills.key(&action.skill, &action.arguments)?;
                let failed = self.steps().iter().rev().find(|s| {
                    s.skill == action.skill
                        && s.command_state != CommandState::Succeeded
                        && self.skills.key(&s.skill, &arguments_of(s)).as_ref() == Some(&key)
                });
                if let Some(step) = failed {
                    let again = self.messages.say("again", &[("why", &quote(&why(step)))]);
                    reason = format!("{reason}; {again}");
                }
                Some(PlannedStep {
                    skill: action.skill.clone(),
                    arguments: action.arguments.clone(),
                    reason,
                    nominal_duration: action.duration,
                })
            })
            .collect()
    }

    /// No plan: another object that fits, or the end.
    fn no_way(
        &mut self,
        things: &[String],
        condition: &Condition,
        said: &str,
        dead: &[Fact],
    ) -> Step<()> {
        // Failed often and another one will do: take that.
        if !self.experience.banned.is_empty() {
            for thing in things {
                let free = self.memory.things.get(thing).is_some_and(|d| d.any);
                let Some(r) = self.memory.bound.get(thing).cloned().filter(|_| free) else {
                    continue;
                };
                let mut excluded = self.memory.excluded.clone();
                excluded.insert(r);
                let other = self.memory.things.get(thing).map(|d| {
                    resolve(
                        d,
                        self.context.snapshot,
                        Bindings {
                            bound: &self.memory.bound,
                            excluded: &excluded,
                            robot: ROBOT,
                            worst_rank: WIDER_RANK,
                        },
                    )
                });
                if let Some(Resolution::One(_)) = other {
                    self.memory.excluded = excluded;
                    self.memory.bound.remove(thing);
                    return Ok(());
                }
            }
        }
        let now = evaluate(condition, self.context.snapshot, self.context.now).explanation;
        let last = self.steps().last();
        if let Some(step) = last.filter(|_| !self.experience.banned.is_empty()) {
            let name = self.step_name(&step.skill, &arguments_of(step));
            if step.command_state == CommandState::Succeeded {
                let now = self.hindrance(condition).unwrap_or(now);
                let count = self
                    .steps()
                    .iter()
                    .filter(|s| s.skill == step.skill && s.arguments == step.arguments)
                    .count();
                return self.fail(
                    ErrorCode::NoPlan,
                    self.messages.say(
                        "no_effect",
                        &[
                            ("step", &name),
                            ("count", &count.to_string()),
                            ("goal", said),
                            ("why", &now),
                        ],
                    ),
                );
            }
            return self.attempts_exhausted(said);
        }
        if !dead.is_empty() {
            let facts: Vec<String> = dead.iter().map(|f| self.say_fact(f)).collect();
            return self.fail(
                ErrorCode::SkillUnavailable,
                self.messages.say(
                    "no_skill",
                    &[
                        ("goal", &self.messages.list(&facts)),
                        ("skills", &self.skill_names()),
                    ],
                ),
            );
        }
        self.fail(
            ErrorCode::NoPlan,
            self.messages
                .say("no_plan", &[("goal", said), ("why", &now)]),
        )
    }

    /// What keeps a skill that would bring about a part of the condition from being run.
    fn hindrance(&self, condition: &Condition) -> Option<String> {
        let (scene, now) = (self.context.snapshot, self.context.now);
        for predicate in condition.predicates() {
            if evaluate_predicate(predicate, scene, now).holds() {
                continue;
            }
            // The skills that ship name their arguments as the predicates do.
            let Value::Object(named) = predicate.to_value() else {
                continue;
            };
            let Some(Value::Object(arguments)) = named.values().next() else {
                continue;
            };
            for skill in self.context.skills {
                if !self.skills.adds(&skill.name, arguments, predicate) {
                    continue;
                }
                let Ok(needs) = skill.preconditions.bind(arguments) else {
                    continue;
                };
                let belief = evaluate(&needs, scene, now);
                if !belief.holds() {
                    let step = self.step_name(&skill.name, arguments);
                    let why = belief.explanation;
                    return Some(
                        self.messages
                            .say("needs", &[("step", &step), ("why", &why)]),
                    );
                }
            }
        }
        None
    }

    fn attempts_exhausted(&self, said: &str) -> Step<()> {
        let failed = self
            .steps()
            .iter()
            .rev()
            .find(|s| s.command_state != CommandState::Succeeded);
        let Some(step) = failed else {
            return self.fail(
                ErrorCode::NoPlan,
                self.messages.say("no_plan", &[("goal", said), ("why", "")]),
            );
        };
        let count = self
            .steps()
            .iter()
            .filter(|s| {
                s.skill == step.skill
                    && s.arguments == step.arguments
                    && s.command_state != CommandState::Succeeded
            })
            .count();
        self.fail(
            ErrorCode::AttemptsExhausted,
            self.messages.say(
                "attempts",
                &[
                    ("step", &self.step_name(&step.skill, &arguments_of(step))),
                    ("count", &count.to_string()),
                    ("goal", said),
                    ("why", &why(step)),
                ],
            ),
        )
    }

    /// The ref of a thing; asks, searches or fails where it is not known.
    fn bind(&mut self, thing: &str, depth: u8) -> Step<String> {
        if let Some(r) = self.memory.bound.get(thing).cloned() {
            if let Some(r) = self.still_there(thing, &r) {
                return Ok(r);
            }
            self.memory.bound.remove(thing);
        }
        let Some(d) = self.memory.things.get(thing).cloned().filter(|_| depth < 8) else {
            return self.fail(
                ErrorCode::PlannerFailure,
                self.messages.say("bad_program", &[("why", thing)]),
            );
        };
        for place in [d.within.as_ref().map(|(_, t)| t), d.prefer_in.as_ref()]
            .into_iter()
            .flatten()
        {
            self.bind(place, depth + 1)?;
        }
        let place = self.is_place(thing);
        let resolution = self.resolution(thing, if place { WIDER_RANK } else { OWN_RANK });
        match resolution {
            Resolution::One(r) => {
                self.memory.bound.insert(thing.into(), r.clone());
                Ok(r)
            }
            Resolution::Several(refs) => self.ask(thing, &refs),
            Resolution::Unknown | Resolution::Elsewhere(_) if d.held => self.fail(
                ErrorCode::TargetNotFound,
                self.messages.say("no_antecedent", &[("words", &d.spoken)]),
            ),
            Resolution::Unknown | Resolution::Elsewhere(_) if place => {
                let known: Vec<String> = self
                    .context
                    .snapshot
                    .live()
                    .filter(|o| d.kinds.contains(o.kind.name()))
                    .map(|o| self.messages.name(self.context.snapshot, &o.r#ref))
                    .collect();
                self.fail(
                    ErrorCode::TargetNotFound,
                    self.messages.say(
                        "not_found_place",
                        &[("name", &d.spoken), ("known", &self.messages.list(&known))],
                    ),
                )
            }
            Resolution::Unknown | Resolution::Elsewhere(_) => self.look_for(thing),
        }
    }

    fn resolution(&self, thing: &str, worst_rank: u8) -> Resolution {
        match self.memory.things.get(thing) {
            None => Resolution::Unknown,
            Some(d) => resolve(
                d,
                self.context.snapshot,
                Bindings {
                    bound: &self.memory.bound,
                    excluded: &self.memory.excluded,
                    robot: ROBOT,
                    worst_rank,
                },
            ),
        }
    }

    /// A bound ref as long as it can be believed; follows a merge.
    fn still_there(&mut self, thing: &str, r: &str) -> Option<String> {
        let scene = self.context.snapshot;
        if scene.get(r).is_none() {
            let merged = scene
                .objects
                .iter()
                .find(|o| o.r#ref == r && !o.merged_into.is_empty())
                .map(|o| o.merged_into.clone())?;
            scene.get(&merged)?;
            self.memory.bound.insert(thing.into(), merged.clone());
            return Some(merged);
        }
        if self.is_place(thing) {
            return Some(r.into());
        }
        // Looked for at its place and not seen there: it is somewhere else.
        let sight = Predicate::Visible(Visible {
            object: r.into(),
            max_age: None,
        });
        let mut missed = 0;
        for step in self.steps() {
            let looked = self.skills.adds(&step.skill, &arguments_of(step), &sight);
            match (looked, step.command_state) {
                (true, CommandState::Failed) => missed += 1,
                (true, CommandState::Succeeded) => missed = 0,
                _ => {}
            }
        }
        if missed >= LOST_AFTER {
            self.memory.excluded.insert(r.into());
            return None;
        }
        Some(r.into())
    }

    fn ask(&mut self, thing: &str, refs: &[String]) -> Step<String> {
        let scene = self.context.snapshot;
        let spoken = self
            .memory
            .things
            .get(thing)
            .map_or(String::new(), |d| d.spoken.clone());
        let mut rejected: Option<String> = None;
        for round in 1..=MAX_QUESTIONS {
            let key = format!("which_{thing}_{round}");
            let options = match self.memory.questions.get(&key) {
                Some(options) => options.clone(),
                None => {
                    let options: Vec<(String, String)> = refs
                        .iter()
                        .map(|r| (self.messages.option(scene, r), r.clone()))
                        .collect();
                    self.memory.questions.insert(key.clone(), options.clone());
                    options
                }
            };
            let answer = self
                .context
                .answers
                .iter()
                .rev()
                .find(|a| a.key == key)
                .map(|a| a.answer.clone());
            let Some(answer) = answer else {
                let question = match &rejected {
                    None => self.messages.say("which", &[("name", &spoken)]),
                    Some(answer) => self.messages.say(
                        "which_again",
                        &[("name", &spoken), ("answer", &quote(answer))],
                    ),
                };
                return Err(Turn::Ask {
                    key,
                    question,
                    options: options.into_iter().map(|(label, _)| label).collect(),
                });
            };
            match self.chosen(&answer, &options) {
                Some(r) => {
                    self.memory.bound.insert(thing.into(), r.clone());
                    return Ok(r);
                }
                None => rejected = Some(answer),
            }
        }
        let options: Vec<String> = refs
            .iter()
            .map(|r| self.messages.option(scene, r))
            .collect();
        self.fail(
            ErrorCode::TargetAmbiguous,
            self.messages.say(
                "ambiguous",
                &[
                    ("name", &spoken),
                    ("options", &self.messages.list(&options)),
                ],
            ),
        )
    }

    /// Which option an answer means: its text, its number, its ref, or a word that fits only one.
    fn chosen(&self, answer: &str, options: &[(String, String)]) -> Option<String> {
        let answer = normalise(answer);
        if answer.is_empty() {
            return None;
        }
        if let Some((_, r)) = options
            .iter()
            .find(|(label, r)| normalise(label) == answer || normalise(r) == answer)
        {
            return Some(r.clone());
        }
        if let Ok(number) = answer.parse::<usize>() {
            return options.get(number.checked_sub(1)?).map(|(_, r)| r.clone());
        }
        let padded = format!(" {answer} ");
        let scene = self.context.snapshot;
        let fits = |r: &str| {
            let Some(object) = scene.get(r) else {
                return false;
            };
            let mut words: Vec<String> = vec![normalise(r)];
            for value in object.attributes.values() {
                let value = normalise(value);
                let group = self
                    .tables
                    .nouns
                    .attributes
                    .iter()
                    .find(|g| g.iter().any(|n| normalise(n) == value));
                words.extend(
                    group
                        .into_iter()
                        .flat_map(|g| g.iter().map(|n| normalise(n))),
                );
                words.push(value);
            }
            for place in scene
                .live()
                .filter(|p| p.r#ref != r && is_at(scene, r, &p.r#ref))
            {
                words.push(normalise(&place.r#ref));
                words.extend(place.aliases.iter().map(|a| normalise(a)));
            }
            words
                .iter()
                .any(|w| !w.is_empty() && padded.contains(&format!(" {w} ")))
        };
        let mut matching = options.iter().filter(|(_, r)| fits(r));
        match (matching.next(), matching.next()) {
            (Some((_, r)), None) => Some(r.clone()),
            _ => None,
        }
    }

    /// The furniture where a thing may be, in the order in which it is looked at.
    fn places_to_look(&self, thing: &str) -> Vec<String> {
        let scene = self.context.snapshot;
        let described = self.memory.things.get(thing);
        let within = described
            .and_then(|d| d.within.as_ref())
            .and_then(|(how, t)| Some((*how, self.memory.bound.get(t)?.clone())));
        let preferred = described
            .and_then(|d| d.prefer_in.as_ref())
            .and_then(|t| self.memory.bound.get(t));
        let usual = described.map_or_else(BTreeSet::new, |d| self.usual_rooms(d));
        let distance = |r: &str| distance_from_robot(scene, ROBOT, r);
        let room_distance = |room: Option<&str>| match room {
            None => f64::INFINITY,
            Some(room) => {
                let here = Predicate::Near(Near {
                    target: room.into(),
                    subject: ROBOT.into(),
                    max_distance: None,
                });
                if evaluate_predicate(&here, scene, self.context.now).holds() {
                    0.0
                } else {
                    distance(room)
                }
            }
        };
        let mut places: Vec<(bool, bool, f64, f64, String)> = scene
            .live()
            .filter(|o| matches!(o.kind, Kind::Surface | Kind::Container))
            .filter(|o| match &within {
                None => true,
                Some((Place::At | Place::On, place)) => {
                    o.r#ref == *place || is_at(scene, &o.r#ref, place)
                }
                Some((Place::Near, place)) => {
                    o.r#ref == *place || scene.room_of(&o.r#ref) == scene.room_of(place)
                }
            })
            .map(|o| {
                let room = scene.room_of(&o.r#ref);
                let away = room_distance(room);
                (
                    preferred.is_some_and(|p| room != Some(p.as_str())),
                    away > 0.0 && room.is_none_or(|r| !usual.contains(r)),
                    away,
                    distance(&o.r#ref),
                    o.r#ref.clone(),
                )
            })
            .collect();
        places.sort_by(|a, b| {
            a.0.cmp(&b.0)
                .then(a.1.cmp(&b.1))
                .then(a.2.total_cmp(&b.2))
                .then(a.3.total_cmp(&b.3))
                .then_with(|| a.4.cmp(&b.4))
        });
        places.into_iter().map(|(_, _, _, _, r)| r).collect()
    }

    /// Refs of the rooms where such a thing usually is.
    fn usual_rooms(&self, thing: &Description) -> BTreeSet<String> {
        let names: BTreeSet<String> = self
            .tables
            .nouns
            .usual
            .iter()
            .filter(|u| u.things.iter().any(|t| thing.names.contains(&normalise(t))))
            .flat_map(|u| u.rooms.iter().map(|r| normalise(r)))
            .collect();
        self.context
            .snapshot
            .live()
            .filter(|o| {
                o.kind == Kind::Room
                    && o.aliases
                        .iter()
                        .chain([&o.r#ref])
                        .any(|n| names.contains(&normalise(n)))
            })
            .map(|o| o.r#ref.clone())
            .collect()
    }

    /// Proposes the next step of a search: first from where a look is possible, then once more from near.
    fn look_for(&mut self, thing: &str) -> Step<String> {
        let (scene, now) = (self.context.snapshot, self.context.now);
        let steps = self.context.history.len();
        let places = self.places_to_look(thing);
        let mut search = self
            .memory
            .searches
            .remove(thing)
            .unwrap_or_else(|| Search {
                since: now,
                from_step: steps,
                ..Search::default()
            });
        let spoken = self
            .memory
            .things
            .get(thing)
            .map_or(String::new(), |d| d.spoken.clone());
        let near = |place: &str| {
            Predicate::Near(Near {
                target: place.into(),
                subject: ROBOT.into(),
                max_distance: Some(NEAR_DISTANCE),
            })
        };
        let sight = |place: &str| {
            Predicate::Visible(Visible {
                object: place.into(),
                max_age: None,
            })
        };
        // What the newest step looked at.
        if let Some(last) = self
            .context
            .history
            .get(search.from_step..)
            .and_then(<[_]>::last)
        {
            for place in &places {
                if self.brought_about(&sight(place), std::slice::from_ref(last)) {
                    search.looked.insert(place.clone());
                    let close = Predicate::Near(Near {
                        target: place.clone(),
                        subject: ROBOT.into(),
                        max_distance: Some(CLOSE_LOOK),
                    });
                    if evaluate_predicate(&close, scene, now).holds() {
                        search.looked_near.insert(place.clone());
                    }
                }
            }
        }
        let keep = self.kept();
        let named = self.messages.with_article(&spoken);
        let because = self.messages.say("searching", &[("name", &named)]);
        for closely in [false, true] {
            if closely {
                // Nothing of that name at first sight: what the name also covers, before a second look.
                match self.resolution(thing, WIDER_RANK) {
                    Resolution::One(r) => {
                        self.memory.bound.insert(thing.into(), r.clone());
                        return Ok(r);
                    }
                    Resolution::Several(refs) => {
                        self.memory.searches.insert(thing.into(), search);
                        return self.ask(thing, &refs);
                    }
                    Resolution::Unknown | Resolution::Elsewhere(_) => {}
                }
            }
            for place in &places {
                let seen = if closely {
                    &search.looked_near
                } else {
                    &search.looked
                };
                if seen.contains(place) || search.failed.contains(place) {
                    continue;
                }
                let room = scene.room_of(place);
                let same_room = room.is_some_and(|room| {
                    let inside = Predicate::Near(Near {
                        target: room.into(),
                        subject: ROBOT.into(),
                        max_distance: None,
                    });
                    evaluate_predicate(&inside, scene, now).holds()
                });
                let fact = |predicate, anew| Fact {
                    predicate,
                    positive: true,
                    anew,
                };
                let mut facts = vec![fact(sight(place), true)];
                // From another room there is a wall between.
                if closely || !same_room {
                    facts.push(fact(near(place), false));
                }
                match self.search(&facts, &keep) {
                    Found::Plan(steps) if !steps.is_empty() => {
                        self.plan = self.planned(&steps, Some(&because));
                        self.memory.searches.insert(thing.into(), search);
                        self.propose()?;
                        return self.fail(ErrorCode::PlannerFailure, String::new());
                    }
                    Found::Plan(_) | Found::Nothing(_) => {
                        search.failed.insert(place.clone());
                    }
                }
            }
        }
        let names = |refs: &BTreeSet<String>| {
            let names: Vec<String> = places
                .iter()
                .filter(|p| refs.contains(*p))
                .map(|r| self.messages.name(scene, r))
                .collect();
            self.messages.list(&names)
        };
        // Nothing could be looked at: that is no statement about where the thing is.
        if search.looked.is_empty() {
            let last = self
                .context
                .history
                .get(search.from_step..)
                .unwrap_or(&[])
                .iter()
                .rev()
                .find(|s| s.command_state != CommandState::Succeeded)
                .map(why);
            if let Some(last) = last {
                let message = self.messages.say(
                    "search_failed",
                    &[
                        ("name", &named),
                        ("failed", &names(&search.failed)),
                        ("why", &last),
                    ],
                );
                self.memory.searches.insert(thing.into(), search);
                return self.fail(ErrorCode::AttemptsExhausted, message);
            }
        }
        let mut message = if search.looked.is_empty() && search.failed.is_empty() {
            let place = self
                .memory
                .things
                .get(thing)
                .and_then(|d| d.within.as_ref())
                .and_then(|(_, t)| self.memory.bound.get(t))
                .map(|r| {
                    self.messages
                        .say("in_place", &[("place", &self.messages.name(scene, r))])
                })
                .unwrap_or_default();
            self.messages
                .say("not_found_nowhere", &[("name", &named), ("place", &place)])
        } else {
            self.messages.say(
                "not_found",
                &[("name", &named), ("searched", &names(&search.looked))],
            )
        };
        let missed: BTreeSet<String> = search.failed.difference(&search.looked).cloned().collect();
        if !missed.is_empty() {
            message.push_str(
                &self
                    .messages
                    .say("not_found_failed", &[("failed", &names(&missed))]),
            );
        }
        if let Resolution::Elsewhere(refs) = self.resolution(thing, WIDER_RANK) {
            let known: Vec<String> = refs
                .iter()
                .map(|r| self.messages.option(scene, r))
                .collect();
            message.push_str(&self.messages.say(
                "not_found_elsewhere",
                &[("known", &self.messages.list(&known))],
            ));
        }
        self.memory.searches.insert(thing.into(), search);
        self.fail(ErrorCode::TargetNotFound, message)
    }
}

//! The symbolic planner: grammar, resolution, goal regression, search for what is not known.
//!
//! It plans anew at each turn from what the scene believes then, and keeps in the program only what the
//! scene can't tell: which thing is which object, where it looked, what it asked.

mod binding;
mod experience;
mod looking_for;
mod no_way;
mod questions;
mod setting_down;
mod several;

use std::collections::{BTreeMap, BTreeSet};

use eh_contract::belief::evaluate;
use eh_contract::command::Proposal;
use eh_contract::condition::{Condition, Predicate};
use eh_contract::error_code::ErrorCode;
use eh_contract::scene::Kind;
use eh_contract::session::StepReport;
use eh_contract::skill::SkillDescriptor;
use eh_contract::state::CommandState;
use eh_contract::time::Stamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::fact::{alternatives, Fact};
use crate::goal::{Goal, Perform, Things, HERE};
use crate::grammar::{in_words, understand, Understanding};
use crate::messages::{quote, Messages};
use crate::phrase_table::{TableError, Tables};
use crate::planner::{
    PlannedStep, Planner, PlannerError, PlanningContext, Program, TaskInput, Turn,
};
use crate::regression::{plan, Action, Experience, Found, Problem};
use crate::skill_schema::Skills;

/// Name of this planner in programs.
pub const NAME: &str = "symbolic";

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
    /// What stands for a thing that is several, as far as it was chosen.
    #[serde(default)]
    chosen: BTreeMap<String, Vec<String>>,
    /// Things that are several of which no more are chosen.
    #[serde(default)]
    complete: BTreeSet<String>,
    /// Refs that the goal in work is reached for, where it is for several.
    #[serde(default)]
    reached_for: Vec<String>,
    /// Conditions of the goals that were reached; null where a goal has none.
    reached: Vec<Value>,
    /// What was reached, in words, in the same order.
    words: Vec<String>,
    /// What was brought and is being set down: its place among what was reached, and what shall hold instead.
    #[serde(default)]
    setting_down: Option<(usize, Value)>,
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
        self.memory.reached.push(condition.unwrap_or_default());
        self.memory.goal += 1;
        self.memory.goal_start = self.context.history.len();
        self.memory.searches.clear();
        self.memory.reached_for.clear();
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
        self.set_down_what_was_brought(goal)?;
        let mut names: Map<String, Value> = Map::new();
        names.insert(HERE.into(), Value::String(self.context.start_ref.into()));
        let mut things: Vec<String> = goal
            .condition
            .placeholders()
            .into_iter()
            .filter(|n| n != HERE)
            .collect();
        // The map's things first: they cost nothing to find. What is several comes last, since it may be
        // described by the others.
        let several = things.iter().find(|t| self.is_several(t)).cloned();
        things.sort_by_key(|t| (Some(t) == several.as_ref(), !self.is_place(t)));
        for thing in &things {
            if several.as_ref() == Some(thing) && self.all_done(thing)? {
                self.reached(String::new(), None);
                return Ok(());
            }
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
            self.reached_one(several.as_deref(), words, &condition);
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
                        self.reached_one(several.as_deref(), said, &condition);
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
}

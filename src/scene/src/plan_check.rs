//! The check of a whole plan against the graph before its first step: each step's preconditions are looked at in
//! the scene that the steps before it would leave behind.
//!
//! It finds what can be known beforehand: a name that there is not, a hand that is not free, a door that is shut.
//! It is no promise, and no replacement of the check that each step gets when its turn comes.

use std::collections::BTreeSet;

use eh_contract::condition::{BoundEffects, Condition, Effects, Predicate, Template, ROBOT};
use eh_contract::verdict::Truth;
use eh_contract::Stamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::effects::{facts, require, ANY};
use crate::error::SceneError;
use crate::graph::SceneGraph;
use crate::hypothesis::Hypothesis;

/// Most steps of a plan.
pub const MAX_STEPS: usize = 100;

/// Longest plan in bytes of JSON.
pub const MAX_PLAN: usize = 256 * 1024;

/// One step: a skill with its arguments, and what the skill's descriptor says that it needs and changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanStep {
    /// Name of the skill, for what is said about the step.
    pub skill: String,
    /// Values for the placeholders.
    #[serde(default)]
    pub arguments: Map<String, Value>,
    /// Must hold before the step.
    #[serde(default)]
    pub preconditions: Template,
    /// Hold, and no longer hold, after it.
    #[serde(default)]
    pub effects: Effects,
}

/// Steps in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The steps.
    pub steps: Vec<PlanStep>,
}

/// A plan that nothing speaks against.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanReport {
    /// What only shows on the way, for each step in words: such as whether something will be seen.
    pub open: Vec<String>,
}

/// A step with its placeholders replaced.
struct Bound<'a> {
    index: usize,
    step: &'a PlanStep,
    condition: Condition,
    effects: BoundEffects,
}

impl Plan {
    /// Reads a plan: `{"steps": [{"skill": …, "arguments": {…}, "preconditions": …, "effects": {…}}]}`.
    ///
    /// # Errors
    /// [`SceneError::InvalidRequest`] when it is too long, no such JSON, or has too many steps.
    pub fn from_json(text: &str) -> Result<Self, SceneError> {
        let invalid = |reason: String| SceneError::InvalidRequest { reason };
        if text.len() > MAX_PLAN {
            return Err(invalid(format!(
                "the plan has {} bytes, the limit is {MAX_PLAN}; check it in parts",
                text.len()
            )));
        }
        let plan: Plan = serde_json::from_str(text).map_err(|e| {
            invalid(format!(
                "the plan can't be read: {e}; write {{\"steps\": [{{\"skill\": ..., \"arguments\": {{...}}, \"preconditions\": ..., \"effects\": {{...}}}}]}}"
            ))
        })?;
        if plan.steps.len() > MAX_STEPS {
            return Err(invalid(format!(
                "the plan has {} steps, the limit is {MAX_STEPS}; check it in parts",
                plan.steps.len()
            )));
        }
        Ok(plan)
    }
}

/// Checks a plan against the graph as it is, all of it at one version.
///
/// A step can't work when its preconditions would be false, when it names what there is not, or when it drives
/// to a room that no open door leads to. What is not known counts against the first step, which the executor
/// would refuse, and is told for the later ones.
///
/// # Errors
/// [`SceneError::PlanStep`] for the first step that can't work, with why; [`SceneError::InvalidRequest`] or
/// [`SceneError::Condition`] for a step that can't be read, whichever it is.
pub fn check_plan(graph: &SceneGraph, plan: &Plan, now: Stamp) -> Result<PlanReport, SceneError> {
    // All of it is read before any of it is judged.
    let mut steps = Vec::new();
    let mut names = BTreeSet::new();
    for (index, step) in plan.steps.iter().enumerate() {
        let condition = step.preconditions.bind(&step.arguments)?;
        let effects = step.effects.bind(&step.arguments)?;
        facts(&effects.add)?;
        facts(&effects.remove)?;
        let conditions = [&condition];
        let all = conditions
            .into_iter()
            .chain(&effects.add)
            .chain(&effects.remove);
        names.extend(all.flat_map(|c| c.refs()));
        steps.push(Bound {
            index,
            step,
            condition,
            effects,
        });
    }
    let mut hypothesis = Hypothesis::new(graph, &names, now);
    let mut report = PlanReport::default();
    for bound in &steps {
        check_step(graph, bound, &mut hypothesis, &mut report)?;
    }
    Ok(report)
}

fn check_step(
    graph: &SceneGraph,
    bound: &Bound<'_>,
    hypothesis: &mut Hypothesis<'_>,
    report: &mut PlanReport,
) -> Result<(), SceneError> {
    let fails = |reason: String, is_missing: bool| SceneError::PlanStep {
        index: bound.index,
        skill: bound.step.skill.chars().take(64).collect(),
        reason,
        is_missing,
    };
    let added = facts(&bound.effects.add)?;
    let removed = facts(&bound.effects.remove)?;
    let wanted = bound.condition.predicates();
    for predicate in wanted.iter().chain(&added) {
        for name in needed(predicate) {
            require(graph, name).map_err(|e| fails(e.to_string(), true))?;
        }
    }
    let belief = hypothesis.belief(&bound.condition);
    match belief.truth {
        Truth::True => {}
        Truth::False => return Err(fails(belief.explanation, false)),
        Truth::Unknown if bound.index == 0 => {
            return Err(fails(format!("not known: {}", belief.explanation), false))
        }
        Truth::Unknown => report.open.push(format!(
            "step {} ({}): {}",
            bound.index, bound.step.skill, belief.explanation
        )),
    }
    for target in added.iter().filter_map(|p| driven_to(p)) {
        if let Some(reason) = hypothesis.blocked(target) {
            return Err(fails(reason, false));
        }
    }
    hypothesis.apply(&removed, &added);
    Ok(())
}

/// Where a step that has this effect drives the robot.
fn driven_to(effect: &Predicate) -> Option<&str> {
    match effect {
        Predicate::Near(p) if p.subject == ROBOT => Some(&p.target),
        Predicate::At(p) => Some(&p.target),
        Predicate::In(p) if p.object == ROBOT => Some(&p.container),
        Predicate::Near(_)
        | Predicate::In(_)
        | Predicate::Moved(_)
        | Predicate::Holding(_)
        | Predicate::Lifted(_)
        | Predicate::On(_)
        | Predicate::Gripper(_)
        | Predicate::Visible(_)
        | Predicate::Clearance(_)
        | Predicate::Door(_)
        | Predicate::Arm(_)
        | Predicate::Stationary(_) => None,
    }
}

/// Refs that have to be in the graph. A place that the robot is to be near may be the issuer's own.
fn needed(predicate: &Predicate) -> Vec<&str> {
    let refs = match predicate {
        Predicate::Near(_) | Predicate::At(_) => Vec::new(),
        Predicate::Moved(_)
        | Predicate::Holding(_)
        | Predicate::Lifted(_)
        | Predicate::On(_)
        | Predicate::In(_)
        | Predicate::Gripper(_)
        | Predicate::Visible(_)
        | Predicate::Clearance(_)
        | Predicate::Door(_)
        | Predicate::Arm(_)
        | Predicate::Stationary(_) => predicate.refs(),
    };
    refs.into_iter().filter(|name| *name != ANY).collect()
}

//! Goal regression: from what shall hold back to what holds, over the effects and preconditions that the
//! skills declare. No skill is known by name; a new one whose effects fit is used.
//!
//! A node of the search is a set of facts that have to hold at some point of the plan. An action is put
//! before that point when it adds one of them and destroys none; then its preconditions take their place.
//! The search ends at a set that is believed already. Cheapest first, bounded in depth and nodes.
//! Source: regression planning as in Ghallab, Nau, Traverso, "Automated Planning", 2004, section 4.3.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use eh_contract::arguments::{ArgumentError, ArgumentSchema};
use eh_contract::belief::{evaluate_predicate, NEAR_DISTANCE};
use eh_contract::condition::{Condition, GripperState, Near, Predicate, ROBOT};
use eh_contract::scene::{Kind, RelationKind, SceneSnapshot};
use eh_contract::skill::SkillDescriptor;
use eh_contract::time::Stamp;
use eh_contract::verdict::Truth;
use serde_json::{Map, Value};

use crate::goal::distance_from_robot;

/// Most steps of a plan.
pub const MAX_DEPTH: usize = 12;

/// Most nodes of a search.
pub const MAX_NODES: usize = 4000;

/// Most facts that one node may hold.
const MAX_FACTS: usize = 24;

/// Most objects that are tried for an argument that no effect names.
const MAX_CANDIDATES: usize = 6;

/// Most alternatives that `any` conditions of one action may give.
const MAX_ALTERNATIVES: usize = 4;

/// What destroying an earlier goal costs \[s\]: more than any detour that keeps it.
const BREAK_COST: f64 = 600.0;

/// What a step costs beyond its time \[s\], so that of two plans of equal time the shorter one is taken.
const STEP_COST: f64 = 0.5;

/// What it costs \[s\] to do something between seeing and using what was seen: sight ages.
const AGEING_COST: f64 = 0.1;

/// A fact that has to hold, or not to hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// The predicate.
    pub predicate: Predicate,
    /// Whether it has to hold.
    pub positive: bool,
    /// Has to be brought about anew, whatever the scene says: it was believed when a step failed.
    pub anew: bool,
}

impl Fact {
    fn key(&self) -> String {
        format!(
            "{}{}{}",
            if self.positive { "+" } else { "-" },
            if self.anew { "!" } else { "" },
            self.predicate.to_value()
        )
    }
}

/// A skill with its arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    /// Skill.
    pub skill: String,
    /// Arguments.
    pub arguments: Map<String, Value>,
    /// The fact that it is there for.
    pub achieves: Fact,
    /// Typical time \[s\].
    pub duration: f64,
}

/// What was learned about steps since the goal began.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Experience {
    /// Failures by [`Skills::key`] of the step.
    pub failures: BTreeMap<String, u32>,
    /// Steps that are not to be tried again.
    pub banned: BTreeSet<String>,
    /// Steps whose next attempt needs fresh sight of what they see.
    pub look_again: BTreeSet<String>,
    /// Steps whose next attempt needs to drive up again.
    pub approach_again: BTreeSet<String>,
}

/// What the search works on.
#[derive(Clone, Copy, Debug)]
pub struct Problem<'a> {
    /// The scene.
    pub scene: &'a SceneSnapshot,
    /// ROS time.
    pub now: Stamp,
    /// Skills on offer.
    pub skills: &'a Skills<'a>,
    /// What was learned.
    pub experience: &'a Experience,
    /// Facts of earlier goals, which a plan should not destroy.
    pub keep: &'a [Fact],
}

/// How a search ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// These steps reach the goal; none: it holds.
    Plan(Vec<Action>),
    /// Nothing reaches it. The facts that no usable skill adds, where that is the cause.
    Nothing(Vec<Fact>),
}

/// A descriptor taken apart.
#[derive(Debug)]
struct Schema<'a> {
    descriptor: &'a SkillDescriptor,
    arguments: ArgumentSchema,
    refs: BTreeMap<String, Vec<Kind>>,
    adds: Vec<Value>,
    removes: Vec<Value>,
}

/// Skills on offer, taken apart once for many searches.
#[derive(Debug)]
pub struct Skills<'a> {
    schemas: Vec<Schema<'a>>,
}

impl<'a> Skills<'a> {
    /// Takes descriptors apart; one whose schema can't be read is left out.
    pub fn new(descriptors: &'a [SkillDescriptor]) -> Self {
        Skills {
            schemas: descriptors.iter().filter_map(Schema::new).collect(),
        }
    }

    fn find(&self, skill: &str) -> Option<&Schema<'a>> {
        self.schemas.iter().find(|s| s.descriptor.name == skill)
    }

    /// The descriptor of a skill.
    pub fn get(&self, skill: &str) -> Option<&'a SkillDescriptor> {
        self.find(skill).map(|s| s.descriptor)
    }

    /// The name of a step in memory: skill and arguments, defaults filled in. `None`: no such skill.
    pub fn key(&self, skill: &str, arguments: &Map<String, Value>) -> Option<String> {
        self.find(skill).map(|s| s.key(arguments))
    }

    /// Whether a skill takes these arguments.
    ///
    /// # Errors
    /// [`ArgumentError`] that names the argument, its value and the limit.
    pub fn check(&self, skill: &str, arguments: &Map<String, Value>) -> Result<(), ArgumentError> {
        match self.find(skill) {
            Some(s) => s
                .arguments
                .check(&Value::Object(arguments.clone()))
                .map(drop),
            None => Ok(()),
        }
    }

    /// Whether a skill with these arguments declares that it brings a predicate about.
    pub fn adds(&self, skill: &str, arguments: &Map<String, Value>, predicate: &Predicate) -> bool {
        let wanted = predicate.to_value();
        self.find(skill).is_some_and(|s| {
            s.adds
                .iter()
                .any(|p| unify(&bind(p, arguments), &wanted, false).is_some())
        })
    }
}

fn flatten(value: &Value, out: &mut Vec<Value>, negated: &mut Vec<Value>, depth: usize) {
    let Value::Object(map) = value else { return };
    if depth > 8 {
        return;
    }
    match (map.get("all"), map.get("not")) {
        (Some(Value::Array(parts)), _) => parts
            .iter()
            .for_each(|p| flatten(p, out, negated, depth + 1)),
        (_, Some(inner)) => flatten(inner, negated, out, depth + 1),
        _ if map.len() == 1 => out.push(value.clone()),
        _ => {}
    }
}

impl<'a> Schema<'a> {
    fn new(descriptor: &'a SkillDescriptor) -> Option<Self> {
        let arguments = ArgumentSchema::new(&descriptor.arguments_schema).ok()?;
        let refs = arguments
            .refs()
            .into_iter()
            .map(|(name, kinds)| (name.to_string(), kinds))
            .collect();
        let (mut adds, mut removes) = (Vec::new(), Vec::new());
        for template in &descriptor.effects.add {
            flatten(template.value(), &mut adds, &mut removes, 0);
        }
        for template in &descriptor.effects.remove {
            flatten(template.value(), &mut removes, &mut adds, 0);
        }
        Some(Schema {
            descriptor,
            arguments,
            refs,
            adds,
            removes,
        })
    }

    fn key(&self, arguments: &Map<String, Value>) -> String {
        let given = Value::Object(arguments.clone());
        let filled = self.arguments.check(&given).map_or(given, Value::Object);
        format!("{} {filled}", self.descriptor.name)
    }
}

/// What a pattern needs to say the same as a predicate; `None`: it says something else.
///
/// Limits: an effect without a limit is taken to satisfy any; one with a limit satisfies a wider one.
fn unify(pattern: &Value, wanted: &Value, removing: bool) -> Option<Map<String, Value>> {
    let (name, fields) = pattern.as_object()?.iter().next()?;
    let (wanted_name, wanted_fields) = wanted.as_object()?.iter().next()?;
    let same = name == wanted_name || (is_place(name) && is_place(wanted_name));
    if !same {
        return None;
    }
    let (fields, wanted_fields) = (fields.as_object()?, wanted_fields.as_object()?);
    let mut bindings = Map::new();
    for (field, value) in wanted_fields {
        let limit = field.starts_with("max_") || field.starts_with("min_") || field == "tolerance";
        match fields.get(field) {
            None if limit => {}
            None => return None,
            Some(Value::String(s)) if s == "*" && removing => {}
            Some(Value::String(s)) if s.starts_with('$') => {
                let argument = s.trim_start_matches('$').to_string();
                if limit {
                    // The limit is an argument: leave it to its default.
                    continue;
                }
                match bindings.get(&argument) {
                    Some(bound) if bound != value => return None,
                    Some(_) | None => {
                        bindings.insert(argument, value.clone());
                    }
                }
            }
            Some(given) if limit && !removing => {
                let (given, wanted) = (given.as_f64()?, value.as_f64()?);
                let fits = if field.starts_with("min_") {
                    given >= wanted
                } else {
                    given <= wanted
                };
                if !fits {
                    return None;
                }
            }
            Some(_) if limit => {}
            Some(given) if given == value => {}
            Some(_) => return None,
        }
    }
    // A field that only the pattern has narrows it, such as another subject than the robot.
    for (field, value) in fields {
        let limit = field.starts_with("max_") || field.starts_with("min_") || field == "tolerance";
        let robot = field == "subject" && value.as_str() == Some(ROBOT);
        if !wanted_fields.contains_key(field) && !limit && !robot {
            return None;
        }
    }
    Some(bindings)
}

/// `at` and `near` of the robot are one for planning.
fn is_place(name: &str) -> bool {
    name == "at" || name == "near"
}

fn bind(pattern: &Value, arguments: &Map<String, Value>) -> Value {
    match pattern {
        Value::String(s) => s
            .strip_prefix('$')
            .and_then(|name| arguments.get(name))
            .cloned()
            .unwrap_or_else(|| pattern.clone()),
        Value::Array(vs) => vs.iter().map(|v| bind(v, arguments)).collect(),
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(k, v)| (k.clone(), bind(v, arguments)))
                .collect(),
        ),
        Value::Null | Value::Bool(_) | Value::Number(_) => pattern.clone(),
    }
}

/// Sets of facts, one of which makes a condition true.
pub fn alternatives(condition: &Condition, positive: bool) -> Vec<Vec<Fact>> {
    let all = |parts: &[Condition]| {
        let mut sets: Vec<Vec<Fact>> = vec![Vec::new()];
        for part in parts {
            let options = alternatives(part, positive);
            let mut next = Vec::new();
            for set in &sets {
                for option in &options {
                    if next.len() < MAX_ALTERNATIVES {
                        let mut joined = set.clone();
                        joined.extend(option.iter().cloned());
                        next.push(joined);
                    }
                }
            }
            sets = next;
        }
        sets
    };
    let any = |parts: &[Condition]| {
        parts
            .iter()
            .flat_map(|p| alternatives(p, positive))
            .take(MAX_ALTERNATIVES)
            .collect()
    };
    match (condition, positive) {
        (Condition::Is(predicate), _) => vec![vec![Fact {
            predicate: predicate.clone(),
            positive,
            anew: false,
        }]],
        (Condition::Not(inner), _) => alternatives(inner, !positive),
        (Condition::All(parts), true) | (Condition::Any(parts), false) => all(parts),
        (Condition::Any(parts), true) | (Condition::All(parts), false) => any(parts),
    }
}

struct Node {
    facts: Vec<Fact>,
    depth: usize,
    /// The action in front and the node behind it.
    link: Option<(Action, usize)>,
    cost: f64,
}

struct Search<'a> {
    problem: Problem<'a>,
    believed: BTreeMap<String, bool>,
    held: Vec<String>,
    top: BTreeSet<String>,
}

/// Finds the cheapest plan after which all facts hold.
pub fn plan(problem: Problem<'_>, goal: &[Fact]) -> Found {
    let held = problem
        .scene
        .objects_of(ROBOT, RelationKind::Holds)
        .map(String::from)
        .collect();
    let mut search = Search {
        problem,
        believed: BTreeMap::new(),
        held,
        top: goal.iter().map(Fact::key).collect(),
    };
    search.run(goal)
}

/// Whether a fact is believed.
pub fn believed(fact: &Fact, scene: &SceneSnapshot, now: Stamp) -> bool {
    if fact.anew {
        return false;
    }
    let truth = evaluate_predicate(&fact.predicate, scene, now).truth;
    match fact.positive {
        true => truth == Truth::True,
        false => truth == Truth::False,
    }
}

fn normal(facts: Vec<Fact>) -> Vec<Fact> {
    let mut keyed: BTreeMap<String, Fact> = BTreeMap::new();
    for fact in facts {
        // What has to come anew covers the same fact that need not.
        if !fact.anew {
            let anew = Fact {
                anew: true,
                ..fact.clone()
            };
            if keyed.contains_key(&anew.key()) {
                continue;
            }
        } else {
            let old = Fact {
                anew: false,
                ..fact.clone()
            };
            keyed.remove(&old.key());
        }
        keyed.insert(fact.key(), fact);
    }
    keyed.into_values().collect()
}

impl<'a> Search<'a> {
    fn holds(&mut self, fact: &Fact) -> bool {
        let key = fact.key();
        if let Some(known) = self.believed.get(&key) {
            return *known;
        }
        let truth = believed(fact, self.problem.scene, self.problem.now);
        self.believed.insert(key, truth);
        truth
    }

    fn run(&mut self, goal: &[Fact]) -> Found {
        let mut nodes = vec![Node {
            facts: normal(goal.to_vec()),
            depth: 0,
            link: None,
            cost: 0.0,
        }];
        // Costs are finite and positive, so their bits order as they do.
        let mut queue = BinaryHeap::from([Reverse((0u64, 0usize))]);
        let mut closed: BTreeSet<String> = BTreeSet::new();
        while let Some(Reverse((_, at))) = queue.pop() {
            let Some(node) = nodes.get(at) else { continue };
            let (facts, depth, cost) = (node.facts.clone(), node.depth, node.cost);
            let key: String = facts.iter().map(Fact::key).collect::<Vec<_>>().join("&");
            if !closed.insert(key) {
                continue;
            }
            if facts.iter().all(|f| self.holds(f)) {
                return Found::Plan(Self::unwind(&nodes, at));
            }
            if depth >= MAX_DEPTH || nodes.len() >= MAX_NODES {
                continue;
            }
            for (action, before, price) in self.before(&facts) {
                let cost = cost + price;
                queue.push(Reverse((cost.to_bits(), nodes.len())));
                nodes.push(Node {
                    facts: before,
                    depth: depth + 1,
                    link: Some((action, at)),
                    cost,
                });
            }
        }
        let dead = goal
            .iter()
            .filter(|f| !self.holds(f) && self.achievers(f).is_empty())
            .cloned()
            .collect();
        Found::Nothing(dead)
    }

    fn unwind(nodes: &[Node], mut at: usize) -> Vec<Action> {
        let mut plan = Vec::new();
        while let Some((action, next)) = nodes.get(at).and_then(|n| n.link.as_ref()) {
            plan.push(action.clone());
            at = *next;
        }
        plan
    }

    /// Skills with the arguments that make one of their effects this fact.
    fn achievers(&self, fact: &Fact) -> Vec<(usize, Map<String, Value>)> {
        let wanted = fact.predicate.to_value();
        let mut out: Vec<(usize, Map<String, Value>)> = Vec::new();
        for (i, schema) in self.problem.skills.schemas.iter().enumerate() {
            let patterns = if fact.positive {
                &schema.adds
            } else {
                &schema.removes
            };
            for pattern in patterns {
                let Some(bindings) = unify(pattern, &wanted, !fact.positive) else {
                    continue;
                };
                for arguments in self.complete(schema, bindings) {
                    if !out.iter().any(|(j, a)| *j == i && *a == arguments) {
                        out.push((i, arguments));
                    }
                }
            }
        }
        out
    }

    /// Fills the arguments that the effect does not name, and drops what the schema refuses.
    fn complete(
        &self,
        schema: &Schema<'a>,
        bindings: Map<String, Value>,
    ) -> Vec<Map<String, Value>> {
        let mut named: BTreeSet<String> = schema.descriptor.preconditions.placeholders();
        named.extend(schema.arguments.required().into_iter().map(String::from));
        let mut sets = vec![bindings];
        for argument in named {
            let Some(kinds) = schema.refs.get(&argument) else {
                continue;
            };
            let mut next = Vec::new();
            for set in sets {
                if set.contains_key(&argument) {
                    next.push(set);
                    continue;
                }
                for candidate in self.candidates(kinds) {
                    let mut filled = set.clone();
                    filled.insert(argument.clone(), Value::String(candidate));
                    next.push(filled);
                }
            }
            next.truncate(MAX_CANDIDATES * MAX_CANDIDATES);
            sets = next;
        }
        sets.retain(|arguments| {
            schema
                .arguments
                .check(&Value::Object(arguments.clone()))
                .is_ok()
                && schema.refs.iter().all(|(argument, kinds)| {
                    match arguments.get(argument).and_then(Value::as_str) {
                        None => true,
                        Some(r) => self
                            .problem
                            .scene
                            .get(r)
                            .is_some_and(|o| kinds.contains(&o.kind)),
                    }
                })
                && !self
                    .problem
                    .experience
                    .banned
                    .contains(&schema.key(arguments))
        });
        sets
    }

    /// What may stand for an argument that nothing names: what is held, then what is nearest.
    fn candidates(&self, kinds: &[Kind]) -> Vec<String> {
        let scene = self.problem.scene;
        let mut all: Vec<(bool, f64, String)> = scene
            .live()
            .filter(|o| kinds.contains(&o.kind) && o.r#ref != ROBOT)
            .map(|o| {
                (
                    !self.held.contains(&o.r#ref),
                    distance_from_robot(scene, ROBOT, &o.r#ref),
                    o.r#ref.clone(),
                )
            })
            .collect();
        all.sort_by(|a, b| {
            a.0.cmp(&b.0)
                .then(a.1.total_cmp(&b.1))
                .then_with(|| a.2.cmp(&b.2))
        });
        all.into_iter()
            .take(MAX_CANDIDATES)
            .map(|(_, _, r)| r)
            .collect()
    }

    /// All steps back from a set of facts: the action, the set before it, its price.
    fn before(&self, facts: &[Fact]) -> Vec<(Action, Vec<Fact>, f64)> {
        let mut out: Vec<(Action, Vec<Fact>, f64)> = Vec::new();
        let mut tried: BTreeSet<String> = BTreeSet::new();
        for fact in facts {
            for (i, arguments) in self.achievers(fact) {
                let Some(schema) = self.problem.skills.schemas.get(i) else {
                    continue;
                };
                let key = schema.key(&arguments);
                if !tried.insert(key.clone()) {
                    continue;
                }
                let action = Action {
                    skill: schema.descriptor.name.clone(),
                    arguments: arguments.clone(),
                    achieves: fact.clone(),
                    duration: schema.descriptor.nominal_duration,
                };
                let Some(rest) = self.regress(schema, &arguments, facts) else {
                    continue;
                };
                let ageing = rest
                    .iter()
                    .filter(|f| f.positive && matches!(f.predicate, Predicate::Visible(_)))
                    .count();
                let price = self.price(schema, &arguments, &key) + ageing as f64 * AGEING_COST;
                for needs in self.preconditions(schema, &arguments, &key) {
                    let mut set = rest.clone();
                    set.extend(needs);
                    let set = normal(set);
                    if set.len() <= MAX_FACTS && !contradicts(&set) {
                        out.push((action.clone(), set, price));
                    }
                }
            }
        }
        out
    }

    /// The facts that still have to hold before the action; `None`: it destroys one of them.
    fn regress(
        &self,
        schema: &Schema<'a>,
        arguments: &Map<String, Value>,
        facts: &[Fact],
    ) -> Option<Vec<Fact>> {
        let adds: Vec<Value> = schema.adds.iter().map(|p| bind(p, arguments)).collect();
        let removes: Vec<Value> = schema.removes.iter().map(|p| bind(p, arguments)).collect();
        let mut rest = Vec::new();
        for fact in facts {
            let wanted = fact.predicate.to_value();
            let added = adds.iter().any(|p| unify(p, &wanted, false).is_some());
            let removed = removes.iter().any(|p| unify(p, &wanted, true).is_some());
            match (fact.positive, added, removed) {
                (true, true, _) => {}
                (true, false, true) => return None,
                (false, true, _) => return None,
                (false, false, true) => {}
                (true, false, false) | (false, false, false) => rest.push(fact.clone()),
            }
        }
        if self.drops(&adds, &removes, facts) {
            return None;
        }
        Some(rest)
    }

    /// Whether the action lets go of what is held without saying where it will be, which nobody asked for.
    fn drops(&self, adds: &[Value], removes: &[Value], facts: &[Fact]) -> bool {
        let asked = facts.iter().any(|f| {
            self.top.contains(&f.key())
                && matches!(f.predicate, Predicate::Gripper(_) | Predicate::Holding(_))
        });
        !asked
            && self.held.iter().any(|object| {
                let holding = serde_json::json!({"holding": {"object": object}});
                let loses = removes.iter().any(|p| unify(p, &holding, true).is_some());
                let puts = adds.iter().any(|p| {
                    ["on", "in"]
                        .iter()
                        .filter_map(|k| p.get(k))
                        .any(|f| f.get("object").and_then(Value::as_str) == Some(object))
                });
                loses && !puts
            })
    }

    fn price(&self, schema: &Schema<'a>, arguments: &Map<String, Value>, key: &str) -> f64 {
        let failures = self
            .problem
            .experience
            .failures
            .get(key)
            .copied()
            .unwrap_or(0);
        let removes: Vec<Value> = schema.removes.iter().map(|p| bind(p, arguments)).collect();
        let broken = self
            .problem
            .keep
            .iter()
            .filter(|f| f.positive)
            .filter(|f| {
                let value = f.predicate.to_value();
                removes.iter().any(|p| unify(p, &value, true).is_some())
            })
            .count();
        // A tie between arguments that nothing names goes to what is nearest.
        let distance: f64 = arguments
            .values()
            .filter_map(Value::as_str)
            .map(|r| distance_from_robot(self.problem.scene, ROBOT, r))
            .filter(|d| d.is_finite())
            .sum();
        schema.descriptor.nominal_duration.max(0.0) * f64::from(1 + failures.min(100))
            + STEP_COST
            + broken as f64 * BREAK_COST
            + (distance * 0.01).min(1.0)
    }

    /// Sets of facts that the action needs, sharper where it failed before.
    fn preconditions(
        &self,
        schema: &Schema<'a>,
        arguments: &Map<String, Value>,
        key: &str,
    ) -> Vec<Vec<Fact>> {
        let with_defaults = schema
            .arguments
            .check(&Value::Object(arguments.clone()))
            .unwrap_or_else(|_| arguments.clone());
        let Ok(condition) = schema.descriptor.preconditions.bind(&with_defaults) else {
            return Vec::new();
        };
        let failed = self.problem.experience.failures.contains_key(key);
        let look = self.problem.experience.look_again.contains(key);
        let approach = self.problem.experience.approach_again.contains(key);
        let mut sets = alternatives(&condition, true);
        for fact in sets.iter_mut().flatten().filter(|f| f.positive) {
            match &mut fact.predicate {
                Predicate::Visible(_) if look => fact.anew = true,
                Predicate::Near(Near { max_distance, .. }) => {
                    // From afar there may be a wall between.
                    if failed {
                        *max_distance = max_distance.map(|d| d.min(NEAR_DISTANCE));
                    }
                    if approach {
                        fact.anew = true;
                    }
                }
                Predicate::Visible(_)
                | Predicate::At(_)
                | Predicate::Moved(_)
                | Predicate::Holding(_)
                | Predicate::Lifted(_)
                | Predicate::On(_)
                | Predicate::In(_)
                | Predicate::Gripper(_)
                | Predicate::Clearance(_)
                | Predicate::Door(_)
                | Predicate::Arm(_)
                | Predicate::Stationary(_) => {}
            }
        }
        sets
    }
}

/// Sets that can never hold, whatever the scene.
fn contradicts(facts: &[Fact]) -> bool {
    let holding = facts
        .iter()
        .any(|f| f.positive && matches!(f.predicate, Predicate::Holding(_)));
    let empty = facts.iter().any(|f| {
        f.positive
            && matches!(&f.predicate, Predicate::Gripper(g) if g.state == GripperState::Empty)
    });
    if empty && holding {
        return true;
    }
    facts.iter().any(|f| {
        !f.positive
            && facts
                .iter()
                .any(|g| g.positive && g.predicate == f.predicate)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn bindings(pattern: Value, wanted: Value, removing: bool) -> Option<Value> {
        unify(&pattern, &wanted, removing).map(Value::Object)
    }

    #[test]
    fn an_effect_without_limit_satisfies_any_and_one_with_a_limit_only_wider_ones() {
        let near = |limit: Value| json!({"near": {"target": "cup_1", "max_distance": limit}});
        let open = json!({"near": {"target": "$target"}});
        assert_eq!(
            bindings(open.clone(), near(json!(0.75)), false),
            Some(json!({"target": "cup_1"}))
        );
        let close = json!({"near": {"target": "$target", "max_distance": 0.8}});
        assert!(bindings(close.clone(), near(json!(0.75)), false).is_none());
        assert!(bindings(close, near(json!(0.9)), false).is_some());
        let at = json!({"at": {"target": "start", "tolerance": 0.2}});
        assert_eq!(bindings(open, at, false), Some(json!({"target": "start"})));
    }

    #[test]
    fn stars_match_only_what_is_removed() {
        let pattern = json!({"on": {"object": "$object", "support": "*"}});
        let wanted = json!({"on": {"object": "cup_1", "support": "table_1"}});
        assert_eq!(
            bindings(pattern.clone(), wanted.clone(), true),
            Some(json!({"object": "cup_1"}))
        );
        assert!(bindings(pattern, wanted, false).is_none());
    }

    #[test]
    fn one_argument_cannot_be_two_things() {
        let pattern = json!({"on": {"object": "$x", "support": "$x"}});
        let wanted = json!({"on": {"object": "cup_1", "support": "table_1"}});
        assert!(bindings(pattern, wanted, false).is_none());
        let other = json!({"near": {"target": "$t", "subject": "$s"}});
        assert!(bindings(other, json!({"near": {"target": "cup_1"}}), false).is_none());
    }

    #[test]
    fn conditions_become_sets_of_facts() {
        let c = Condition::from_value(&json!({"all": [
            {"any": [{"holding": {"object": "a"}}, {"holding": {"object": "b"}}]},
            {"not": {"gripper": {"state": "open"}}}]}))
        .unwrap();
        let sets = alternatives(&c, true);
        assert_eq!(sets.len(), 2);
        assert!(sets
            .iter()
            .all(|s| s.len() == 2 && s[0].positive && !s[1].positive));
        // not(a and b) = not a or not b.
        let c = Condition::from_value(&json!({"not": {"all": [
            {"holding": {"object": "a"}}, {"holding": {"object": "b"}}]}}))
        .unwrap();
        assert_eq!(alternatives(&c, true).len(), 2);
    }
}

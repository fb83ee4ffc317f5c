//! The facts and actions that one search meets, each worked out once and then known by its number.
//!
//! Three things keep a search small, whatever skills there are:
//! - an argument that nothing names stands for what is held or what the goal speaks of, and only for
//!   furniture and the like also for what is nearest;
//! - landmarks: actions that every plan for a fact contains
//!   (Porteous, Sebastia, Hoffmann: "On the Extraction, Ordering, and Usage of Landmarks in Planning", 2001);
//! - pairs of facts that no plan brings about together, since whatever makes one of them destroys the other
//!   (Blum, Furst: "Fast Planning Through Planning Graph Analysis", 1997).

mod candidates;
mod landmarks;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use eh_contract::belief::NEAR_DISTANCE;
use eh_contract::condition::{GripperState, Near, Predicate, ROBOT};
use eh_contract::scene::RelationKind;
use serde_json::{json, Map, Value};

use crate::fact::{alternatives, believed, Fact};
use crate::goal::distance_from_robot;
use crate::regression::{Action, Problem};
use crate::skill_schema::{bind, unify, Schema};

/// Most actions that one search looks at.
const MAX_ACTIONS: usize = 20_000;

/// What destroying an earlier goal costs \[s\]: more than any detour that keeps it.
const BREAK_COST: f64 = 600.0;

/// What a step costs beyond its time \[s\], so that of two plans of equal time the shorter one is taken.
const STEP_COST: f64 = 0.5;

/// What it costs \[s\] to do something between seeing and using what was seen: sight ages.
const AGEING_COST: f64 = 0.1;

/// Number of a fact.
pub(crate) type FactId = usize;

/// Number of an action.
pub(crate) type ActionId = usize;

/// Cost in whole microseconds, so that sums do not depend on their order.
pub(crate) type Cost = u64;

fn cost(seconds: f64) -> Cost {
    // The cast saturates; a cost beyond 584 000 years is as good as any.
    (seconds.max(0.0) * 1e6).round() as Cost
}

/// What an action does to a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bearing {
    Achieves,
    Destroys,
    Neither,
}

#[derive(Debug)]
struct GroundFact {
    fact: Fact,
    wanted: Value,
    believed: bool,
    /// The same fact that need not come anew.
    covers: Option<FactId>,
    achievers: Option<Rc<[ActionId]>>,
    landmarks: Option<Landmarks>,
}

/// Actions that every plan for a fact contains, sorted; `None`: nothing brings it about.
type Landmarks = Option<Rc<[ActionId]>>;

#[derive(Debug)]
struct GroundAction {
    skill: String,
    arguments: Map<String, Value>,
    duration: f64,
    adds: Vec<Value>,
    removes: Vec<Value>,
    price: Cost,
    /// Sets of facts, one of which it needs.
    needs: Rc<[Rc<[FactId]>]>,
    /// It lets go of what is held without saying where that will be.
    drops: bool,
}

/// Everything that one search has met.
#[derive(Debug)]
pub(crate) struct Ground<'a> {
    problem: Problem<'a>,
    held: Vec<String>,
    /// What the goal speaks of.
    mentioned: BTreeSet<String>,
    /// Keys of the goal's facts about what is held: who asks for that may have things dropped.
    letting_go: BTreeSet<String>,
    facts: Vec<GroundFact>,
    fact_ids: HashMap<String, FactId>,
    actions: Vec<GroundAction>,
    action_ids: HashMap<String, ActionId>,
    bearings: HashMap<(ActionId, FactId), Bearing>,
    exclusive: HashMap<(FactId, FactId), bool>,
    candidates: BTreeMap<(usize, String), Rc<[String]>>,
}

impl<'a> Ground<'a> {
    pub fn new(problem: Problem<'a>, goal: &[Fact]) -> Self {
        let held: Vec<String> = problem
            .scene
            .objects_of(ROBOT, RelationKind::Holds)
            .map(String::from)
            .collect();
        let mut mentioned = BTreeSet::new();
        for fact in goal {
            let value = fact.predicate.to_value();
            let fields = value.as_object().and_then(|m| m.values().next());
            mentioned.extend(
                fields
                    .and_then(Value::as_object)
                    .into_iter()
                    .flat_map(Map::values)
                    .filter_map(Value::as_str)
                    .filter(|r| *r != ROBOT)
                    .map(String::from),
            );
        }
        let letting_go = goal
            .iter()
            .filter(|f| matches!(f.predicate, Predicate::Gripper(_) | Predicate::Holding(_)))
            .map(Fact::key)
            .collect();
        Ground {
            problem,
            held,
            mentioned,
            letting_go,
            facts: Vec::new(),
            fact_ids: HashMap::new(),
            actions: Vec::new(),
            action_ids: HashMap::new(),
            bearings: HashMap::new(),
            exclusive: HashMap::new(),
            candidates: BTreeMap::new(),
        }
    }

    fn fact_id(&mut self, fact: Fact) -> FactId {
        let key = fact.key();
        if let Some(id) = self.fact_ids.get(&key) {
            return *id;
        }
        let covers = fact.anew.then(|| {
            self.fact_id(Fact {
                anew: false,
                ..fact.clone()
            })
        });
        let id = self.facts.len();
        self.facts.push(GroundFact {
            wanted: fact.predicate.to_value(),
            believed: believed(&fact, self.problem.scene, self.problem.now),
            covers,
            achievers: None,
            landmarks: None,
            fact,
        });
        self.fact_ids.insert(key, id);
        id
    }

    /// The numbers of facts: sorted, each once, without those that a fact that has to come anew covers.
    pub fn set(&mut self, facts: impl IntoIterator<Item = Fact>) -> Rc<[FactId]> {
        let ids: Vec<FactId> = facts.into_iter().map(|f| self.fact_id(f)).collect();
        self.normal(ids)
    }

    /// See [`Ground::set`].
    pub fn normal(&self, mut ids: Vec<FactId>) -> Rc<[FactId]> {
        let covered: Vec<FactId> = ids
            .iter()
            .filter_map(|id| self.facts.get(*id)?.covers)
            .collect();
        ids.retain(|id| !covered.contains(id));
        ids.sort_unstable();
        ids.dedup();
        ids.into()
    }

    pub fn believed(&self, id: FactId) -> bool {
        self.facts.get(id).is_some_and(|f| f.believed)
    }

    /// The action as the plan shows it.
    pub fn action(&self, id: ActionId, achieves: FactId) -> Option<Action> {
        let action = self.actions.get(id)?;
        Some(Action {
            skill: action.skill.clone(),
            arguments: action.arguments.clone(),
            achieves: self.facts.get(achieves)?.fact.clone(),
            duration: action.duration,
        })
    }

    pub fn needs(&self, action: ActionId) -> Rc<[Rc<[FactId]>]> {
        self.actions
            .get(action)
            .map_or_else(|| Rc::from([]), |a| Rc::clone(&a.needs))
    }

    pub fn fact(&self, id: FactId) -> Option<&Fact> {
        self.facts.get(id).map(|f| &f.fact)
    }

    /// What the action costs in front of facts that have to hold until after it.
    pub fn price(&self, action: ActionId, rest: &[FactId]) -> Cost {
        let ageing = rest
            .iter()
            .filter_map(|id| self.fact(*id))
            .filter(|f| f.positive && matches!(f.predicate, Predicate::Visible(_)))
            .count();
        let price = self.actions.get(action).map_or(0, |a| a.price);
        price.saturating_add(cost(AGEING_COST).saturating_mul(ageing as Cost))
    }

    /// Actions that bring a fact about.
    pub fn achievers(&mut self, id: FactId) -> Rc<[ActionId]> {
        let Some(fact) = self.facts.get(id) else {
            return Rc::from([]);
        };
        if let Some(known) = &fact.achievers {
            return Rc::clone(known);
        }
        let (wanted, positive) = (fact.wanted.clone(), fact.fact.positive);
        let mut found: Vec<ActionId> = Vec::new();
        let schemas: &'a [Schema<'a>] = &self.problem.skills.schemas;
        for (index, schema) in schemas.iter().enumerate() {
            let patterns = if positive {
                &schema.adds
            } else {
                &schema.removes
            };
            for pattern in patterns {
                let Some(bindings) = unify(pattern, &wanted, !positive) else {
                    continue;
                };
                for arguments in self.complete(index, schema, bindings) {
                    if let Some(action) = self.action_id(schema, arguments) {
                        if !found.contains(&action) {
                            found.push(action);
                        }
                    }
                }
            }
        }
        let found: Rc<[ActionId]> = found.into();
        if let Some(fact) = self.facts.get_mut(id) {
            fact.achievers = Some(Rc::clone(&found));
        }
        found
    }

    /// The number of an action; `None`: its schema refuses the arguments, or it is not to be tried again.
    fn action_id(
        &mut self,
        schema: &Schema<'a>,
        arguments: Map<String, Value>,
    ) -> Option<ActionId> {
        let given = Value::Object(arguments);
        let name = format!("{} {given}", schema.descriptor.name);
        if let Some(id) = self.action_ids.get(&name) {
            return (*id < self.actions.len()).then_some(*id);
        }
        let checked = schema.arguments.check(&given);
        let (Ok(with_defaults), Value::Object(arguments)) = (checked, given) else {
            self.action_ids.insert(name, usize::MAX);
            return None;
        };
        let key = schema.key(&arguments);
        if self.problem.experience.banned.contains(&key) || self.actions.len() >= MAX_ACTIONS {
            self.action_ids.insert(name, usize::MAX);
            return None;
        }
        let adds: Vec<Value> = schema.adds.iter().map(|p| bind(p, &arguments)).collect();
        let removes: Vec<Value> = schema.removes.iter().map(|p| bind(p, &arguments)).collect();
        let needs: Rc<[Rc<[FactId]>]> = self
            .preconditions(schema, &with_defaults, &key)
            .into_iter()
            .map(|facts| self.set(facts))
            .collect();
        let id = self.actions.len();
        self.actions.push(GroundAction {
            skill: schema.descriptor.name.clone(),
            duration: schema.descriptor.nominal_duration,
            price: self.own_price(schema, &arguments, &removes, &key),
            drops: self.drops(&adds, &removes),
            arguments,
            adds,
            removes,
            needs,
        });
        self.action_ids.insert(name, id);
        Some(id)
    }

    fn own_price(
        &self,
        schema: &Schema<'a>,
        arguments: &Map<String, Value>,
        removes: &[Value],
        key: &str,
    ) -> Cost {
        let failures = self
            .problem
            .experience
            .failures
            .get(key)
            .copied()
            .unwrap_or(0);
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
        cost(
            schema.descriptor.nominal_duration.max(0.0) * f64::from(1 + failures.min(100))
                + STEP_COST
                + broken as f64 * BREAK_COST
                + (distance * 0.01).min(1.0),
        )
    }

    /// Whether the action lets go of what is held without saying where it will be.
    fn drops(&self, adds: &[Value], removes: &[Value]) -> bool {
        self.held.iter().any(|object| {
            let holding = json!({"holding": {"object": object}});
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

    /// Sets of facts that the action needs, sharper where it failed before.
    fn preconditions(
        &self,
        schema: &Schema<'a>,
        with_defaults: &Map<String, Value>,
        key: &str,
    ) -> Vec<Vec<Fact>> {
        let Ok(condition) = schema.descriptor.preconditions.bind(with_defaults) else {
            return Vec::new();
        };
        let experience = self.problem.experience;
        let failed = experience.failures.contains_key(key);
        let look = experience.look_again.contains(key);
        let approach = experience.approach_again.contains(key);
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

    /// What an action does to a fact.
    pub fn bearing(&mut self, action: ActionId, fact: FactId) -> Bearing {
        if let Some(known) = self.bearings.get(&(action, fact)) {
            return *known;
        }
        let (Some(a), Some(f)) = (self.actions.get(action), self.facts.get(fact)) else {
            return Bearing::Neither;
        };
        let added = a.adds.iter().any(|p| unify(p, &f.wanted, false).is_some());
        let removed = a
            .removes
            .iter()
            .any(|p| unify(p, &f.wanted, true).is_some());
        let found = match (f.fact.positive, added, removed) {
            (true, true, _) | (false, false, true) => Bearing::Achieves,
            (true, false, true) | (false, true, _) => Bearing::Destroys,
            (true, false, false) | (false, false, false) => Bearing::Neither,
        };
        self.bearings.insert((action, fact), found);
        found
    }

    /// Whether the action drops what is held and none of the facts asks for that.
    pub fn drops_unasked(&self, action: ActionId, facts: &[FactId]) -> bool {
        self.actions.get(action).is_some_and(|a| a.drops)
            && !facts
                .iter()
                .filter_map(|id| self.fact(*id))
                .any(|f| self.letting_go.contains(&f.key()))
    }

    /// Facts of a set that an action has to bring about: those that are not believed, and those that
    /// something on the way to the others may destroy. What is believed and stays so is not branched on.
    pub fn open(&mut self, set: &[FactId]) -> Vec<FactId> {
        let mut seen: BTreeSet<FactId> = set.iter().copied().collect();
        let (mut safe, mut queue): (Vec<FactId>, Vec<FactId>) =
            set.iter().partition(|id| self.believed(**id));
        let mut on_the_way: BTreeSet<ActionId> = BTreeSet::new();
        loop {
            while let Some(fact) = queue.pop() {
                for action in self.achievers(fact).iter() {
                    if !on_the_way.insert(*action) {
                        continue;
                    }
                    for need in self.needs(*action).iter().flat_map(|n| n.iter()) {
                        if !seen.insert(*need) {
                            continue;
                        }
                        if self.believed(*need) {
                            safe.push(*need);
                        } else {
                            queue.push(*need);
                        }
                    }
                }
            }
            let mut rest = Vec::with_capacity(safe.len());
            for fact in safe {
                let hit = on_the_way
                    .iter()
                    .any(|a| self.bearing(*a, fact) == Bearing::Destroys);
                if hit {
                    queue.push(fact);
                } else {
                    rest.push(fact);
                }
            }
            safe = rest;
            if queue.is_empty() {
                break;
            }
        }
        set.iter()
            .copied()
            .filter(|id| !safe.contains(id))
            .collect()
    }

    /// Whether two facts can't both hold, unless they do already: whatever brings one about destroys the
    /// other.
    pub fn exclude_each_other(&mut self, a: FactId, b: FactId) -> bool {
        let key = (a.min(b), a.max(b));
        if let Some(known) = self.exclusive.get(&key) {
            return *known;
        }
        let mut destroys = |made: FactId, kept: FactId| {
            let makers = self.achievers(made);
            makers
                .iter()
                .all(|m| self.bearing(*m, kept) == Bearing::Destroys)
        };
        let found = destroys(a, b) && destroys(b, a);
        let found = found && !(self.believed(a) && self.believed(b));
        self.exclusive.insert(key, found);
        found
    }

    /// Whether a set can never hold, whatever the scene.
    pub fn contradicts(&mut self, set: &[FactId]) -> bool {
        let facts: Vec<&Fact> = set.iter().filter_map(|id| self.fact(*id)).collect();
        let holding = facts
            .iter()
            .any(|f| f.positive && matches!(f.predicate, Predicate::Holding(_)));
        let empty = facts.iter().any(|f| {
            f.positive
                && matches!(&f.predicate, Predicate::Gripper(g) if g.state == GripperState::Empty)
        });
        let opposed = facts.iter().any(|f| {
            !f.positive
                && facts
                    .iter()
                    .any(|g| g.positive && g.predicate == f.predicate)
        });
        if (empty && holding) || opposed {
            return true;
        }
        set.iter().enumerate().any(|(i, a)| {
            set.iter()
                .skip(i + 1)
                .any(|b| self.exclude_each_other(*a, *b))
        })
    }
}

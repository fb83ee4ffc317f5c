//! Goal regression: from what shall hold back to what holds, over the effects and preconditions that the
//! skills declare. No skill is known by name; a new one whose effects fit is used.
//!
//! A node of the search is a set of facts that have to hold at some point of the plan. An action is put
//! before that point when it adds one of them and destroys none; then its preconditions take their place.
//! The search ends at a set that is believed already. Cheapest first by cost and a lower bound of what is
//! left, bounded in depth and nodes; see `grounding.rs` for what keeps it small.
//! Sources: regression planning as in Ghallab, Nau, Traverso, "Automated Planning", 2004, section 4.3; A* as
//! in Hart, Nilsson, Raphael, "A Formal Basis for the Heuristic Determination of Minimum Cost Paths", 1968.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};
use std::rc::Rc;

use eh_contract::scene::SceneSnapshot;
use eh_contract::time::Stamp;
use serde_json::{Map, Value};

use crate::fact::Fact;
use crate::grounding::{ActionId, Bearing, Cost, FactId, Ground};
use crate::skill_schema::Skills;

/// Most steps of a plan.
pub const MAX_DEPTH: usize = 40;

/// Most nodes of a search.
pub const MAX_NODES: usize = 20_000;

/// Most facts that one node may hold.
const MAX_FACTS: usize = 32;

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

struct Node {
    facts: Rc<[FactId]>,
    depth: usize,
    /// The action in front, the fact that it is there for, and the node behind it.
    link: Option<(ActionId, FactId, usize)>,
    cost: Cost,
}

/// Finds the cheapest plan after which all facts hold.
pub fn plan(problem: Problem<'_>, goal: &[Fact]) -> Found {
    search(problem, goal).0
}

/// As [`plan`], with the number of nodes that the search made.
pub fn search(problem: Problem<'_>, goal: &[Fact]) -> (Found, usize) {
    let mut ground = Ground::new(problem, goal);
    let root = ground.set(goal.iter().cloned());
    let mut nodes = vec![Node {
        facts: Rc::clone(&root),
        depth: 0,
        link: None,
        cost: 0,
    }];
    // Of equal sums the one with less left to guess, then the older one.
    let mut queue = BinaryHeap::from([Reverse((0, Reverse(0), 0))]);
    let mut best: HashMap<Rc<[FactId]>, Cost> = HashMap::new();
    while let Some(Reverse((_, _, at))) = queue.pop() {
        let Some(node) = nodes.get(at) else { continue };
        let (facts, depth, cost) = (Rc::clone(&node.facts), node.depth, node.cost);
        if best.get(&facts).is_some_and(|known| *known < cost) {
            continue;
        }
        if facts.iter().all(|f| ground.believed(*f)) {
            return (Found::Plan(unwind(&ground, &nodes, at)), nodes.len());
        }
        if depth >= MAX_DEPTH || nodes.len() >= MAX_NODES {
            continue;
        }
        for (action, achieves, before, price) in steps_before(&mut ground, &facts) {
            let cost = cost.saturating_add(price);
            if best.get(&before).is_some_and(|known| *known <= cost) {
                continue;
            }
            let Some(left) = ground.bound(&before) else {
                continue;
            };
            best.insert(Rc::clone(&before), cost);
            queue.push(Reverse((
                cost.saturating_add(left),
                Reverse(cost),
                nodes.len(),
            )));
            nodes.push(Node {
                facts: before,
                depth: depth + 1,
                link: Some((action, achieves, at)),
                cost,
            });
        }
    }
    let mut dead = Vec::new();
    for id in root.iter() {
        if !ground.believed(*id) && ground.achievers(*id).is_empty() {
            dead.extend(ground.fact(*id).cloned());
        }
    }
    (Found::Nothing(dead), nodes.len())
}

fn unwind(ground: &Ground<'_>, nodes: &[Node], mut at: usize) -> Vec<Action> {
    let mut plan = Vec::new();
    while let Some((action, achieves, next)) = nodes.get(at).and_then(|n| n.link) {
        plan.extend(ground.action(action, achieves));
        at = next;
    }
    plan
}

/// All steps back from a set of facts: the action, the fact that it is there for, the set before it, its
/// price.
fn steps_before(
    ground: &mut Ground<'_>,
    facts: &[FactId],
) -> Vec<(ActionId, FactId, Rc<[FactId]>, Cost)> {
    let mut out = Vec::new();
    let mut tried: BTreeSet<ActionId> = BTreeSet::new();
    for fact in ground.open(facts) {
        for action in ground.achievers(fact).iter().copied() {
            if !tried.insert(action) {
                continue;
            }
            let Some(rest) = regress(ground, action, facts) else {
                continue;
            };
            let price = ground.price(action, &rest);
            for needs in ground.needs(action).iter() {
                let mut set = rest.clone();
                set.extend(needs.iter());
                let set = ground.normal(set);
                if set.len() <= MAX_FACTS && !ground.contradicts(&set) {
                    out.push((action, fact, set, price));
                }
            }
        }
    }
    out
}

/// The facts that still have to hold before the action; `None`: it destroys one of them.
fn regress(ground: &mut Ground<'_>, action: ActionId, facts: &[FactId]) -> Option<Vec<FactId>> {
    let mut rest = Vec::with_capacity(facts.len());
    for fact in facts {
        match ground.bearing(action, *fact) {
            Bearing::Achieves => {}
            Bearing::Destroys => return None,
            Bearing::Neither => rest.push(*fact),
        }
    }
    (!ground.drops_unasked(action, facts)).then_some(rest)
}

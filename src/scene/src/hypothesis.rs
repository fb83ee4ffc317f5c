//! What would be believed after steps that are only planned.
//!
//! A copy of the part of the graph that a plan speaks of, in which effects are taken for done: the robot stands
//! where it would have driven to, what is held goes with it, doors stand as they were left. Nothing of it is ever
//! written into the graph.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use eh_contract::belief::{
    self, Belief, STATE_ARM, STATE_GRIPPER, STATE_GRIPPER_SINCE, STATE_OPEN, STATE_SEEN_AT,
};
use eh_contract::condition::{Condition, GripperState, Predicate, ROBOT};
use eh_contract::footprint::inside_outline;
use eh_contract::geometry::Pose;
use eh_contract::scene::{Kind, Relation, RelationKind, SceneObject, SceneSnapshot, Source};
use eh_contract::verdict::Truth;
use eh_contract::Stamp;

use crate::effects::{gripper_name, ANY, STATE_HELD_BY};
use crate::excerpt::excerpt;
use crate::graph::SceneGraph;

/// How far from an outline's corner, towards the middle of a room, the robot is taken to stand when the middle is
/// not in the room \[m\].
const INSIDE_CORNER: f64 = 0.3;

/// A future of the graph.
pub(crate) struct Hypothesis<'a> {
    graph: &'a SceneGraph,
    scene: SceneSnapshot,
    now: Stamp,
    /// What leaves nothing in the graph, such as that something was lifted.
    facts: Vec<(Predicate, bool)>,
    /// Doors that steps have opened or closed.
    doors: BTreeMap<String, bool>,
    /// The robot has driven: what it sees now is not what it will see.
    drove: bool,
}

impl<'a> Hypothesis<'a> {
    /// The present, of which a plan's steps name these refs.
    pub(crate) fn new(graph: &'a SceneGraph, names: &BTreeSet<String>, now: Stamp) -> Self {
        Hypothesis {
            graph,
            scene: excerpt(graph, names.iter().map(String::as_str)),
            now,
            facts: Vec::new(),
            doors: BTreeMap::new(),
            drove: false,
        }
    }

    /// What would be believed of a condition.
    pub(crate) fn belief(&self, condition: &Condition) -> Belief {
        let fold = |parts: &[Condition], neutral: Truth, join: fn(Truth, Truth) -> Truth| {
            let parts: Vec<Belief> = parts.iter().map(|c| self.belief(c)).collect();
            let truth = parts.iter().map(|b| b.truth).fold(neutral, join);
            let decisive = parts.into_iter().filter(|b| b.truth == truth);
            let words: Vec<String> = decisive.map(|b| b.explanation).collect();
            Belief {
                truth,
                explanation: words.join("; "),
            }
        };
        match condition {
            Condition::Is(predicate) => self.predicate(predicate),
            Condition::Not(inner) => {
                let belief = self.belief(inner);
                Belief {
                    truth: belief.truth.negate(),
                    ..belief
                }
            }
            Condition::All(parts) => fold(parts, Truth::True, Truth::and),
            Condition::Any(parts) => fold(parts, Truth::False, Truth::or),
        }
    }

    fn predicate(&self, predicate: &Predicate) -> Belief {
        let assumed = self.facts.iter().rev().find(|(p, _)| same(p, predicate));
        if let Some((_, holds)) = assumed {
            return Belief {
                truth: Truth::from(*holds),
                explanation: format!(
                    "an earlier step {} {}",
                    if *holds { "brings about" } else { "undoes" },
                    predicate.to_value()
                ),
            };
        }
        let belief = belief::evaluate_predicate(predicate, &self.scene, self.now);
        let is_sight = matches!(predicate, Predicate::Visible(_));
        if is_sight && self.drove && belief.truth == Truth::False {
            // It may be seen on the way.
            return Belief {
                truth: Truth::Unknown,
                ..belief
            };
        }
        belief
    }

    /// Takes a step's effects for done: first what ends, then what begins.
    pub(crate) fn apply(&mut self, removed: &[&Predicate], added: &[&Predicate]) {
        for predicate in removed {
            self.remove(predicate);
        }
        for predicate in added {
            self.add(predicate);
        }
    }

    fn remove(&mut self, predicate: &Predicate) {
        self.facts.retain(|(p, _)| !covers(predicate, p));
        match predicate {
            Predicate::Holding(p) => {
                for held in self.held() {
                    if fits(&p.object, &held) {
                        self.let_go(&held);
                    }
                }
            }
            Predicate::On(p) => self.cut(&p.object, RelationKind::On, &p.support),
            Predicate::In(p) => self.cut(&p.object, RelationKind::In, &p.container),
            Predicate::Near(p) => self.cut(&p.subject, RelationKind::Near, &p.target),
            Predicate::At(p) => self.cut(ROBOT, RelationKind::Near, &p.target),
            Predicate::Gripper(p) => {
                let now = self.robot_state(STATE_GRIPPER);
                let gone = match (p.state, now.as_deref()) {
                    (GripperState::Empty, Some("empty" | "open" | "closed")) => true,
                    (state, Some(now)) => now == gripper_name(state),
                    (_, None) => false,
                };
                if gone {
                    self.set_robot_state(STATE_GRIPPER, None);
                }
            }
            Predicate::Arm(p) => {
                if (self.robot_state(STATE_ARM)).is_some_and(|now| fits(&p.pose, &now)) {
                    self.set_robot_state(STATE_ARM, None);
                }
            }
            Predicate::Door(p) => {
                self.doors.remove(&p.door);
                self.edit(&p.door, |o| {
                    o.state.remove(STATE_OPEN);
                });
            }
            Predicate::Moved(_)
            | Predicate::Lifted(_)
            | Predicate::Visible(_)
            | Predicate::Clearance(_)
            | Predicate::Stationary(_) => self.facts.push((predicate.clone(), false)),
        }
    }

    fn add(&mut self, predicate: &Predicate) {
        match predicate {
            Predicate::Holding(p) => {
                for relation in [RelationKind::On, RelationKind::Near, RelationKind::In] {
                    self.cut(&p.object, relation, ANY);
                }
                self.link(ROBOT, RelationKind::Holds, &p.object);
                self.edit(&p.object, |o| {
                    o.state.insert(STATE_HELD_BY.into(), ROBOT.into());
                });
                self.set_robot_state(STATE_GRIPPER, Some("holding"));
                self.carry();
            }
            Predicate::On(p) => self.put(&p.object, RelationKind::On, &p.support),
            Predicate::In(p) if p.object == ROBOT => self.drive_to(&p.container),
            Predicate::In(p) => {
                // Which room something is in follows from where it is.
                if self.kind(&p.container) != Some(Kind::Room) {
                    self.put(&p.object, RelationKind::In, &p.container);
                }
            }
            Predicate::Near(p) if p.subject != ROBOT => {
                self.link(&p.subject, RelationKind::Near, &p.target)
            }
            Predicate::Near(p) => self.drive_to(&p.target),
            Predicate::At(p) => self.drive_to(&p.target),
            Predicate::Gripper(p) => {
                if p.state != GripperState::Holding {
                    for held in self.held() {
                        self.let_go(&held);
                    }
                }
                self.set_robot_state(STATE_GRIPPER, Some(gripper_name(p.state)));
            }
            Predicate::Arm(p) => self.set_robot_state(STATE_ARM, Some(&p.pose)),
            Predicate::Door(p) => {
                self.doors.insert(p.door.clone(), p.open);
                let open = p.open.to_string();
                self.edit(&p.door, |o| {
                    o.state.insert(STATE_OPEN.into(), open.clone());
                });
            }
            Predicate::Visible(p) => {
                let now = self.now;
                self.edit(&p.object, |o| {
                    o.last_seen = now;
                    o.state.insert(STATE_SEEN_AT.into(), now.0.to_string());
                });
                self.facts.push((predicate.clone(), true));
            }
            Predicate::Moved(_)
            | Predicate::Lifted(_)
            | Predicate::Clearance(_)
            | Predicate::Stationary(_) => self.facts.push((predicate.clone(), true)),
        }
    }

    /// The target of a drive that no open door leads to, with the rooms and the first closed door: `None` where
    /// there is a way, or where the map does not tell.
    pub(crate) fn blocked(&self, target: &str) -> Option<String> {
        let from = self.scene.room_of(ROBOT)?;
        let to = match self.kind(target)? {
            Kind::Room => target,
            _ => self.scene.room_of(target)?,
        };
        if from == to {
            return None;
        }
        let mut closed: Option<String> = None;
        let mut reached: BTreeSet<String> = [from.to_string()].into();
        let mut frontier: VecDeque<String> = [from.to_string()].into();
        let mut doors = 0;
        while let Some(room) = frontier.pop_front() {
            for door in self.graph.subjects_of(&room, RelationKind::Connects) {
                doors += 1;
                if !self.is_open(&door) {
                    closed = closed.or(Some(door));
                    continue;
                }
                for next in self.graph.objects_of(&door, RelationKind::Connects) {
                    if next == to {
                        return None;
                    }
                    if reached.insert(next.clone()) {
                        frontier.push_back(next);
                    }
                }
            }
        }
        // A map without doors does not say where rooms are joined.
        let has_door = !self
            .graph
            .subjects_of(to, RelationKind::Connects)
            .is_empty();
        (doors > 0 && has_door).then(|| match closed {
            Some(door) => {
                format!("there is no way from {from} to {to}: {door} is closed; open it first")
            }
            None => format!("there is no way from {from} to {to} through any door of the map"),
        })
    }

    fn is_open(&self, door: &str) -> bool {
        match self.doors.get(door) {
            Some(open) => *open,
            // A door of which nobody knows is looked at when the robot is there.
            None => self
                .graph
                .get(door)
                .and_then(|d| d.state.get(STATE_OPEN))
                .is_none_or(|open| open.trim() != "false"),
        }
    }

    /// The robot stands at a target from now on, and what it holds with it.
    fn drive_to(&mut self, target: &str) {
        self.drove = true;
        self.facts
            .retain(|(p, _)| !matches!(p, Predicate::Clearance(_) | Predicate::Visible(_)));
        let Some(place) = self.scene.get(target).cloned() else {
            return;
        };
        let room = match place.kind {
            Kind::Room => Some(target.to_string()),
            _ => self.scene.room_of(target).map(String::from),
        };
        let pose = standing_pose(&place);
        self.edit(ROBOT, |o| o.pose = pose);
        self.cut(ROBOT, RelationKind::Near, ANY);
        self.cut(ROBOT, RelationKind::In, ANY);
        if let Some(room) = room {
            self.link(ROBOT, RelationKind::In, &room);
        }
        self.carry();
    }

    fn carry(&mut self) {
        let Some(at) = self.scene.get(ROBOT).map(|r| r.pose.position) else {
            return;
        };
        for held in self.held() {
            self.edit(&held, |o| {
                o.pose.position.x = at.x;
                o.pose.position.y = at.y;
            });
        }
    }

    fn put(&mut self, name: &str, relation: RelationKind, place: &str) {
        self.let_go(name);
        self.cut(name, RelationKind::On, ANY);
        self.cut(name, RelationKind::In, ANY);
        self.link(name, relation, place);
        if let Some(pose) = self.scene.get(place).map(|o| o.pose) {
            self.edit(name, |o| o.pose.position = pose.position);
        }
    }

    /// The fingers do not hold it any more; whether they are open is not said.
    fn let_go(&mut self, name: &str) {
        if !self.held().iter().any(|held| held == name) {
            return;
        }
        self.cut(ROBOT, RelationKind::Holds, name);
        self.edit(name, |o| {
            o.state.remove(STATE_HELD_BY);
        });
        self.set_robot_state(STATE_GRIPPER, None);
    }

    fn held(&self) -> Vec<String> {
        self.scene
            .objects_of(ROBOT, RelationKind::Holds)
            .map(String::from)
            .collect()
    }

    fn kind(&self, name: &str) -> Option<Kind> {
        self.scene.get(name).map(|o| o.kind)
    }

    fn edit(&mut self, name: &str, change: impl FnOnce(&mut SceneObject)) {
        if let Some(object) = self.scene.objects.iter_mut().find(|o| o.r#ref == name) {
            change(object);
        }
    }

    fn cut(&mut self, subject: &str, relation: RelationKind, object: &str) {
        self.scene.relations.retain(|r| {
            !(r.relation == relation && fits(subject, &r.subject) && fits(object, &r.object))
        });
    }

    fn link(&mut self, subject: &str, relation: RelationKind, object: &str) {
        if self.scene.has(subject, relation, object) {
            return;
        }
        self.scene.relations.push(Relation {
            subject: subject.into(),
            relation,
            object: object.into(),
            confidence: 1.0,
            stamp: self.now,
            source: Source::Unspecified,
        });
    }

    fn robot_state(&self, key: &str) -> Option<String> {
        self.scene.get(ROBOT)?.state.get(key).cloned()
    }

    fn set_robot_state(&mut self, key: &str, value: Option<&str>) {
        self.edit(ROBOT, |o| {
            o.state.remove(STATE_GRIPPER_SINCE);
            match value {
                Some(value) => o.state.insert(key.into(), value.into()),
                None => o.state.remove(key),
            };
        });
    }
}

/// Where the robot is taken to stand at something: in the middle of a room, at the side of a thing.
fn standing_pose(place: &SceneObject) -> Pose {
    let mut pose = place.pose;
    pose.position.z = 0.0;
    let middle = (pose.position.x, pose.position.y);
    if place.kind == Kind::Room && !inside_outline(middle.0, middle.1, &place.outline) {
        // The middle of a room with an inner corner may lie in the room beside it.
        let inner = place.outline.iter().find_map(|corner| {
            let (dx, dy) = (middle.0 - corner.x, middle.1 - corner.y);
            let far = dx.hypot(dy).max(1e-6);
            [(dx, dy), (-dx, -dy), (dy, -dx), (-dy, dx)]
                .into_iter()
                .map(|(dx, dy)| {
                    (
                        corner.x + INSIDE_CORNER * dx / far,
                        corner.y + INSIDE_CORNER * dy / far,
                    )
                })
                .find(|(x, y)| inside_outline(*x, *y, &place.outline))
        });
        if let Some((x, y)) = inner {
            (pose.position.x, pose.position.y) = (x, y);
        }
    }
    pose
}

fn fits(pattern: &str, name: &str) -> bool {
    pattern == ANY || pattern == name
}

/// True when two predicates speak of the same, whatever their limits.
fn same(a: &Predicate, b: &Predicate) -> bool {
    std::mem::discriminant(a) == std::mem::discriminant(b) && a.refs() == b.refs()
}

/// True when what ends covers an assumed fact.
fn covers(pattern: &Predicate, fact: &Predicate) -> bool {
    let (wanted, refs) = (pattern.refs(), fact.refs());
    std::mem::discriminant(pattern) == std::mem::discriminant(fact)
        && wanted.len() == refs.len()
        && wanted.iter().zip(refs).all(|(w, r)| fits(w, r))
}

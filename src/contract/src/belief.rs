//! What the scene graph lets us believe about a condition at one time.
//!
//! For planning and for gates. It is no verdict: the evaluator judges on evidence that it takes itself.
//! A fact that the scene does not decide is [`Truth::Unknown`]; a planner treats that as "still to be
//! made true", a gate as "not met".

use std::time::Duration;

use crate::condition::{Condition, GripperState, Predicate, ROBOT};
use crate::footprint::{distance_to_outline, inside_outline, Footprint};
use crate::scene::{Kind, RelationKind, SceneObject, SceneSnapshot};
use crate::time::Stamp;
use crate::verdict::Truth;

/// Largest distance \[m\] from a place that counts as being there: what a navigation goal's usual
/// tolerance (0.25 m) leaves, and a margin for localisation.
pub const PLACE_TOLERANCE: f64 = 0.35;

/// Largest gap \[m\] on the floor that counts as near a box: an arm's length.
pub const NEAR_DISTANCE: f64 = 0.9;

/// Oldest detection \[s\] that counts as visible.
pub const VISIBLE_AGE: f64 = 10.0;

/// How far a sight may lie in the future \[s\] before the clock is taken as set back; covers stamps of
/// sensors that run ahead of `now` by a cycle.
pub const CLOCK_TOLERANCE: f64 = 1.0;

/// Key of the robot node's state that holds a gripper state's name.
pub const STATE_GRIPPER: &str = "gripper";

/// Key of the robot node's state: since when the gripper has been measured in that state \[ns of ROS time\].
pub const STATE_GRIPPER_SINCE: &str = "gripper_since";

/// Key of the robot node's state that holds the name of the arm's configuration.
pub const STATE_ARM: &str = "arm";

/// Key of a door's or container's state: `true` or `false`.
pub const STATE_OPEN: &str = "open";

/// Key of the state of surfaces, rooms and the like: when the camera last covered it \[ns of ROS time\].
pub const STATE_SEEN_AT: &str = "seen_at";

/// A truth and what it rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Belief {
    /// Whether it is believed.
    pub truth: Truth,
    /// A sentence with the value and the limit.
    pub explanation: String,
}

impl Belief {
    fn new(truth: impl Into<Truth>, explanation: String) -> Self {
        Belief {
            truth: truth.into(),
            explanation,
        }
    }

    fn unknown(explanation: String) -> Self {
        Belief::new(Truth::Unknown, explanation)
    }

    /// True when it is believed to hold.
    pub fn holds(&self) -> bool {
        self.truth == Truth::True
    }
}

/// What the scene says about a condition at the time `now`.
///
/// The explanation of a conjunction names what keeps it from holding, or all its parts when it holds.
pub fn evaluate(condition: &Condition, scene: &SceneSnapshot, now: Stamp) -> Belief {
    match condition {
        Condition::Is(predicate) => evaluate_predicate(predicate, scene, now),
        Condition::Not(inner) => {
            let belief = evaluate(inner, scene, now);
            Belief::new(belief.truth.negate(), belief.explanation)
        }
        Condition::All(parts) => combine(
            parts.iter().map(|c| evaluate(c, scene, now)).collect(),
            Truth::True,
            Truth::and,
        ),
        Condition::Any(parts) => combine(
            parts.iter().map(|c| evaluate(c, scene, now)).collect(),
            Truth::False,
            Truth::or,
        ),
    }
}

fn combine(parts: Vec<Belief>, neutral: Truth, fold: fn(Truth, Truth) -> Truth) -> Belief {
    let truth = parts.iter().map(|b| b.truth).fold(neutral, fold);
    let decisive: Vec<&str> = parts
        .iter()
        .filter(|b| b.truth == truth)
        .map(|b| b.explanation.as_str())
        .collect();
    let explanation = if decisive.is_empty() {
        "there is nothing to satisfy".into()
    } else {
        decisive.join("; ")
    };
    Belief::new(truth, explanation)
}

/// What the scene says about one predicate at the time `now`.
pub fn evaluate_predicate(predicate: &Predicate, scene: &SceneSnapshot, now: Stamp) -> Belief {
    match predicate {
        Predicate::At(p) => near(scene, ROBOT, &p.target, p.tolerance),
        Predicate::Near(p) => near(scene, &p.subject, &p.target, p.max_distance),
        Predicate::Holding(p) => holding(scene, &p.object),
        Predicate::Lifted(p) => {
            let held = holding(scene, &p.object);
            match held.truth {
                Truth::True => held,
                Truth::False | Truth::Unknown => Belief::unknown(format!(
                    "the scene does not keep the height at which {} began",
                    p.object
                )),
            }
        }
        Predicate::On(p) => on(scene, &p.object, &p.support),
        Predicate::In(p) => inside(scene, &p.object, &p.container),
        Predicate::Gripper(p) => gripper(scene, p.state),
        Predicate::Visible(p) => visible(scene, &p.object, p.max_age, now),
        Predicate::Door(p) => match scene.get(&p.door) {
            None => absent(&p.door),
            Some(door) => match door.state.get(STATE_OPEN).map(|s| s.trim()) {
                Some("true") => Belief::new(p.open, format!("{} is open", p.door)),
                Some("false") => Belief::new(!p.open, format!("{} is closed", p.door)),
                Some(_) | None => {
                    Belief::unknown(format!("the scene does not say whether {} is open", p.door))
                }
            },
        },
        Predicate::Arm(p) => match scene.get(ROBOT).and_then(|r| r.state.get(STATE_ARM)) {
            Some(pose) => Belief::new(
                pose.trim() == p.pose,
                format!("the arm is in \"{pose}\", wanted \"{}\"", p.pose),
            ),
            None => Belief::unknown("the scene does not say how the arm is".into()),
        },
        Predicate::Moved(p) => Belief::unknown(format!(
            "whether {} moved shows only between a run's start and end",
            p.object
        )),
        Predicate::Clearance(_) => Belief::unknown("the scene has no clearances".into()),
        Predicate::Stationary(_) => Belief::unknown("the scene has no velocities".into()),
    }
}

fn absent(name: &str) -> Belief {
    Belief::unknown(format!("{name} is not in the scene"))
}

fn near(scene: &SceneSnapshot, subject: &str, target: &str, limit: Option<f64>) -> Belief {
    let Some(from) = scene.get(subject) else {
        return absent(subject);
    };
    let Some(to) = scene.get(target) else {
        return absent(target);
    };
    if scene.has(subject, RelationKind::Holds, target) {
        return Belief::new(Truth::True, format!("{subject} holds {target}"));
    }
    if from.frame_id != to.frame_id {
        return Belief::unknown(format!(
            "{subject} is in frame \"{}\" and {target} in \"{}\"",
            from.frame_id, to.frame_id
        ));
    }
    let at = from.pose.position;
    if !(at.x.is_finite() && at.y.is_finite()) {
        return Belief::unknown(format!("the position of {subject} is not finite"));
    }
    match to.kind {
        Kind::Room | Kind::Floor | Kind::Building => {
            if to.outline.len() < 3 {
                return Belief::unknown(format!("{target} has no outline"));
            }
            let edge = distance_to_outline(at.x, at.y, &to.outline);
            let within = inside_outline(at.x, at.y, &to.outline);
            let side = if within { "inside" } else { "outside" };
            Belief::new(
                within,
                format!("{subject} is {edge:.2} m {side} the outline of {target}"),
            )
        }
        Kind::Place => {
            let limit = limit.unwrap_or(PLACE_TOLERANCE);
            let distance = at.distance_xy(to.pose.position);
            within(subject, target, distance, limit)
        }
        Kind::Unspecified
        | Kind::Surface
        | Kind::Container
        | Kind::Object
        | Kind::Person
        | Kind::Robot
        | Kind::Door => {
            let limit = limit.unwrap_or(NEAR_DISTANCE);
            let box_of = |o: &SceneObject| Footprint::new(&o.pose, o.size);
            let gap = if from.kind == Kind::Robot {
                box_of(to).distance(at.x, at.y)
            } else {
                box_of(from).gap(&box_of(to))
            };
            within(subject, target, gap, limit)
        }
    }
}

fn within(subject: &str, target: &str, distance: f64, limit: f64) -> Belief {
    if !distance.is_finite() {
        return Belief::unknown(format!("the position of {target} is not finite"));
    }
    Belief::new(
        distance <= limit,
        format!("{subject} is {distance:.2} m from {target}, the limit is {limit:.2} m"),
    )
}

/// What the robot holds by the scene's edges.
fn held(scene: &SceneSnapshot) -> Option<&str> {
    scene.objects_of(ROBOT, RelationKind::Holds).next()
}

/// The gripper as it was measured, where the scene has it.
fn measured_gripper(scene: &SceneSnapshot) -> Option<GripperState> {
    match scene.get(ROBOT)?.state.get(STATE_GRIPPER)?.trim() {
        "open" => Some(GripperState::Open),
        "closed" => Some(GripperState::Closed),
        "holding" => Some(GripperState::Holding),
        "empty" => Some(GripperState::Empty),
        _ => None,
    }
}

/// Why something may be what the gripper holds although no edge says so: the fingers hold something that the
/// scene does not know, this is within reach, and nobody has seen it since they closed.
fn may_be_held(scene: &SceneSnapshot, object: &str) -> Option<Belief> {
    if held(scene).is_some() || measured_gripper(scene) != Some(GripperState::Holding) {
        return None;
    }
    let (robot, thing) = (scene.get(ROBOT)?, scene.get(object)?);
    let since = Stamp(robot.state.get(STATE_GRIPPER_SINCE)?.trim().parse().ok()?);
    let at = robot.pose.position;
    let gap = Footprint::new(&thing.pose, thing.size).distance(at.x, at.y);
    // A distance that is no number is no reason to be sure.
    let far = gap > NEAR_DISTANCE;
    if thing.kind != Kind::Object || thing.last_seen > since || far {
        return None;
    }
    Some(Belief::unknown(format!(
        "the gripper holds something that the scene does not know, and {object} was not seen since: it may be it"
    )))
}

fn contradiction(object: &str, state: GripperState) -> Belief {
    Belief::unknown(format!(
        "the scene says that the robot holds {object}, the gripper was measured as {}",
        gripper_name(state)
    ))
}

const fn gripper_name(state: GripperState) -> &'static str {
    match state {
        GripperState::Open => "open",
        GripperState::Closed => "closed",
        GripperState::Holding => "holding",
        GripperState::Empty => "empty",
    }
}

fn holding(scene: &SceneSnapshot, object: &str) -> Belief {
    if scene.has(ROBOT, RelationKind::Holds, object) {
        // A dropped object: the edge is older than what the fingers feel.
        return match measured_gripper(scene) {
            Some(state @ (GripperState::Open | GripperState::Closed | GripperState::Empty)) => {
                contradiction(object, state)
            }
            Some(GripperState::Holding) | None => {
                Belief::new(Truth::True, format!("the robot holds {object}"))
            }
        };
    }
    if scene.get(object).is_none() {
        return absent(object);
    }
    if let Some(doubt) = may_be_held(scene, object) {
        return doubt;
    }
    Belief::new(
        Truth::False,
        match held(scene) {
            Some(other) => format!("the robot holds {other}, not {object}"),
            None => format!("the robot does not hold {object}"),
        },
    )
}

fn gripper(scene: &SceneSnapshot, wanted: GripperState) -> Belief {
    let measured = measured_gripper(scene);
    let edge = held(scene);
    let name = gripper_name(wanted);
    match wanted {
        GripperState::Open | GripperState::Closed => match measured {
            Some(state @ (GripperState::Open | GripperState::Closed | GripperState::Holding)) => {
                Belief::new(
                    state == wanted,
                    format!("the gripper is {}, wanted {name}", gripper_name(state)),
                )
            }
            Some(GripperState::Empty) | None => Belief::unknown(format!(
                "the scene does not say whether the gripper is {name}"
            )),
        },
        GripperState::Holding | GripperState::Empty => {
            let holds = match (edge, measured) {
                (
                    Some(object),
                    Some(state @ (GripperState::Open | GripperState::Closed | GripperState::Empty)),
                ) => return contradiction(object, state),
                (Some(object), Some(GripperState::Holding) | None) => {
                    Belief::new(Truth::True, format!("the robot holds {object}"))
                }
                (None, Some(GripperState::Holding)) => Belief::new(
                    Truth::True,
                    "the gripper holds something that the scene does not know".into(),
                ),
                (None, Some(GripperState::Open | GripperState::Closed | GripperState::Empty)) => {
                    Belief::new(Truth::False, "the gripper is empty".into())
                }
                (None, None) if scene.get(ROBOT).is_some() => Belief::new(
                    Truth::False,
                    "the robot holds nothing that the scene knows".into(),
                ),
                (None, None) => return absent(ROBOT),
            };
            if wanted == GripperState::Empty {
                Belief::new(holds.truth.negate(), holds.explanation)
            } else {
                holds
            }
        }
    }
}

fn on(scene: &SceneSnapshot, object: &str, support: &str) -> Belief {
    if let Some(doubt) = may_be_held(scene, object) {
        return doubt;
    }
    if scene.has(object, RelationKind::On, support) {
        return Belief::new(Truth::True, format!("{object} is on {support}"));
    }
    if scene.get(object).is_none() {
        return absent(object);
    }
    if scene.has(ROBOT, RelationKind::Holds, object) {
        return Belief::new(
            Truth::False,
            format!("the robot holds {object}, so it is not on {support}"),
        );
    }
    match scene
        .objects_of(object, RelationKind::On)
        .chain(scene.objects_of(object, RelationKind::In))
        .next()
    {
        Some(other) => Belief::new(
            Truth::False,
            format!("{object} is at {other}, not on {support}"),
        ),
        None => Belief::unknown(format!("the scene does not say what {object} is on")),
    }
}

fn inside(scene: &SceneSnapshot, object: &str, container: &str) -> Belief {
    let Some(thing) = scene.get(object) else {
        return absent(object);
    };
    let Some(wanted) = scene.get(container) else {
        return absent(container);
    };
    if wanted.kind != Kind::Room {
        if let Some(doubt) = may_be_held(scene, object) {
            return doubt;
        }
    }
    // Through supports; more than eight of them are a loop, not a stack.
    let mut frontier = vec![object];
    let mut seen: Vec<&str> = Vec::new();
    for _ in 0..8 {
        let mut next = Vec::new();
        for at in frontier {
            for place in scene
                .objects_of(at, RelationKind::In)
                .chain(scene.objects_of(at, RelationKind::On))
            {
                if place == container {
                    return Belief::new(Truth::True, format!("{object} is in {container}"));
                }
                if !seen.contains(&place) {
                    seen.push(place);
                    next.push(place);
                }
            }
        }
        frontier = next;
    }
    let by_outline =
        wanted.kind == Kind::Room && wanted.outline.len() >= 3 && thing.frame_id == wanted.frame_id;
    if by_outline {
        let held_or_robot =
            thing.kind == Kind::Robot || scene.has(ROBOT, RelationKind::Holds, object);
        let at = match scene.get(ROBOT) {
            Some(robot) if held_or_robot => robot.pose.position,
            Some(_) | None => thing.pose.position,
        };
        let edge = distance_to_outline(at.x, at.y, &wanted.outline);
        let within = inside_outline(at.x, at.y, &wanted.outline);
        let side = if within { "inside" } else { "outside" };
        return Belief::new(
            within,
            format!("{object} is {edge:.2} m {side} the outline of {container}"),
        );
    }
    match seen.first() {
        Some(other) => Belief::new(
            Truth::False,
            format!("{object} is at {other}, not in {container}"),
        ),
        None => Belief::unknown(format!("the scene does not say where {object} is")),
    }
}

fn visible(scene: &SceneSnapshot, name: &str, max_age: Option<f64>, now: Stamp) -> Belief {
    let Some(object) = scene.get(name) else {
        return absent(name);
    };
    let seen = match object.kind {
        Kind::Object | Kind::Person => object.last_seen,
        Kind::Unspecified
        | Kind::Building
        | Kind::Floor
        | Kind::Room
        | Kind::Surface
        | Kind::Container
        | Kind::Robot
        | Kind::Place
        | Kind::Door => object
            .state
            .get(STATE_SEEN_AT)
            .and_then(|s| s.trim().parse().ok())
            .map_or(Stamp::NEVER, Stamp),
    };
    if seen.is_never() {
        return Belief::new(Truth::False, format!("{name} was never seen"));
    }
    let ahead = seen.since(now);
    if ahead > Duration::from_millis((CLOCK_TOLERANCE * 1e3) as u64) {
        return Belief::unknown(format!(
            "{name} was seen {:.1} s in the future; the clock was set back",
            ahead.as_secs_f64()
        ));
    }
    let age = now.since(seen).as_secs_f64();
    let limit = max_age.unwrap_or(VISIBLE_AGE);
    Belief::new(
        age <= limit,
        format!("{name} was seen {age:.1} s ago, the limit is {limit:.1} s"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::{Pose, Vec3};
    use crate::scene::{Relation, Source};
    use serde_json::{json, Value};

    const NOW: Stamp = Stamp(100_000_000_000);

    fn node(name: &str, kind: Kind, x: f64, y: f64) -> SceneObject {
        SceneObject {
            r#ref: name.into(),
            kind,
            frame_id: "map".into(),
            pose: Pose::planar(x, y, 0.0),
            ..SceneObject::default()
        }
    }

    fn edge(subject: &str, relation: RelationKind, object: &str) -> Relation {
        Relation {
            subject: subject.into(),
            relation,
            object: object.into(),
            confidence: 1.0,
            stamp: Stamp(1),
            source: Source::Map,
        }
    }

    /// A 4 m x 4 m room with a 2 m x 1 m table in its middle, the robot 1 m from the table's face.
    fn scene() -> SceneSnapshot {
        let square = [(0.0, 0.0), (4.0, 0.0), (4.0, 4.0), (0.0, 4.0)];
        SceneSnapshot {
            objects: vec![
                SceneObject {
                    size: Vec3::new(0.1, 0.1, 0.1),
                    last_seen: Stamp(95_000_000_000),
                    ..node("cup", Kind::Object, 2.0, 2.0)
                },
                node("door", Kind::Door, 4.0, 2.0),
                SceneObject {
                    outline: square.map(|(x, y)| Vec3::new(x, y, 0.0)).to_vec(),
                    ..node("hall", Kind::Room, 2.0, 2.0)
                },
                SceneObject {
                    outline: square.map(|(x, y)| Vec3::new(x + 4.0, y, 0.0)).to_vec(),
                    ..node("den", Kind::Room, 6.0, 2.0)
                },
                node("robot", Kind::Robot, 2.0, 0.5),
                node("start", Kind::Place, 2.0, 0.2),
                SceneObject {
                    size: Vec3::new(2.0, 1.0, 0.7),
                    ..node("table", Kind::Surface, 2.0, 2.0)
                },
            ],
            relations: vec![
                edge("cup", RelationKind::On, "table"),
                edge("table", RelationKind::In, "hall"),
            ],
            ..SceneSnapshot::default()
        }
    }

    fn truth(scene: &SceneSnapshot, value: Value) -> Truth {
        evaluate(&Condition::from_value(&value).unwrap(), scene, NOW).truth
    }

    #[test]
    fn near_counts_gaps_places_and_rooms() {
        let s = scene();
        // Table's face at y = 1.5, robot at 0.5: 1.0 m.
        assert_eq!(
            truth(&s, json!({"near": {"target": "table"}})),
            Truth::False
        );
        let near = json!({"near": {"target": "table", "max_distance": 1.0}});
        assert_eq!(truth(&s, near.clone()), Truth::True);
        let belief = evaluate(&Condition::from_value(&near).unwrap(), &s, NOW);
        assert_eq!(
            belief.explanation,
            "robot is 1.00 m from table, the limit is 1.00 m"
        );
        // 0.3 m from the place.
        assert_eq!(truth(&s, json!({"near": {"target": "start"}})), Truth::True);
        assert_eq!(
            truth(&s, json!({"at": {"target": "start", "tolerance": 0.2}})),
            Truth::False
        );
        assert_eq!(truth(&s, json!({"near": {"target": "hall"}})), Truth::True);
        assert_eq!(truth(&s, json!({"near": {"target": "den"}})), Truth::False);
        assert_eq!(truth(&s, json!({"near": {"target": "x"}})), Truth::Unknown);
        assert_eq!(
            truth(&s, json!({"near": {"subject": "cup", "target": "table"}})),
            Truth::True
        );
    }

    #[test]
    fn other_frames_and_numbers_that_are_none_stay_unknown() {
        let mut s = scene();
        s.objects[6].frame_id = "odom".into();
        assert_eq!(
            truth(&s, json!({"near": {"target": "table"}})),
            Truth::Unknown
        );
        let mut s = scene();
        s.objects[4].pose.position.x = f64::NAN;
        for target in ["table", "start", "hall"] {
            assert_eq!(
                truth(&s, json!({"near": {"target": target}})),
                Truth::Unknown
            );
        }
    }

    #[test]
    fn what_is_held_is_near_and_on_nothing() {
        let mut s = scene();
        assert_eq!(
            truth(&s, json!({"on": {"object": "cup", "support": "table"}})),
            Truth::True
        );
        assert_eq!(
            truth(&s, json!({"in": {"object": "cup", "container": "hall"}})),
            Truth::True
        );
        assert_eq!(
            truth(&s, json!({"holding": {"object": "cup"}})),
            Truth::False
        );
        assert_eq!(
            truth(&s, json!({"gripper": {"state": "empty"}})),
            Truth::True
        );
        s.relations[0] = edge("robot", RelationKind::Holds, "cup");
        assert_eq!(
            truth(&s, json!({"holding": {"object": "cup"}})),
            Truth::True
        );
        assert_eq!(truth(&s, json!({"lifted": {"object": "cup"}})), Truth::True);
        assert_eq!(
            truth(&s, json!({"on": {"object": "cup", "support": "table"}})),
            Truth::False
        );
        assert_eq!(
            truth(&s, json!({"gripper": {"state": "empty"}})),
            Truth::False
        );
        assert_eq!(
            truth(&s, json!({"in": {"object": "cup", "container": "hall"}})),
            Truth::True
        );
        assert_eq!(
            truth(&s, json!({"near": {"target": "cup", "max_distance": 0.1}})),
            Truth::True
        );
        // The fingers say otherwise: neither is believed.
        s.objects[4].state.insert("gripper".into(), "closed".into());
        assert_eq!(
            truth(&s, json!({"holding": {"object": "cup"}})),
            Truth::Unknown
        );
        assert_eq!(
            truth(&s, json!({"gripper": {"state": "empty"}})),
            Truth::Unknown
        );
    }

    #[test]
    fn what_may_be_in_the_hand_is_neither_held_nor_surely_where_it_was() {
        let mut s = scene();
        let on = json!({"on": {"object": "cup", "support": "table"}});
        let holding = json!({"holding": {"object": "cup"}});
        // The cup was seen at 95 s.
        let mut grip = |since: &str, state: &str, y: f64| {
            let robot = s.objects.iter_mut().find(|o| o.r#ref == ROBOT).unwrap();
            robot.pose = Pose::planar(2.0, y, 0.0);
            robot.state.insert(STATE_GRIPPER.into(), state.into());
            robot.state.insert(STATE_GRIPPER_SINCE.into(), since.into());
            (truth(&s, on.clone()), truth(&s, holding.clone()))
        };
        let unknown = (Truth::Unknown, Truth::Unknown);
        let sure = (Truth::True, Truth::False);
        // 2.0 - 0.05 - 1.1 = 0.85 m from the cup.
        assert_eq!(grip("96000000000", "holding", 1.1), unknown);
        assert_eq!(grip("94000000000", "holding", 1.1), sure, "seen since");
        assert_eq!(grip("96000000000", "holding", 0.9), sure, "out of reach");
        assert_eq!(grip("96000000000", "closed", 1.1), sure);
        assert_eq!(grip("soon", "holding", 1.1), sure, "nobody measured it");
        s.relations.push(edge(ROBOT, RelationKind::Holds, "table"));
        assert_eq!(truth(&s, on), Truth::True, "it is something else");
    }

    #[test]
    fn sights_age_and_clocks_are_set_back() {
        let mut s = scene();
        // Seen 5 s ago.
        assert_eq!(
            truth(&s, json!({"visible": {"object": "cup"}})),
            Truth::True
        );
        assert_eq!(
            truth(&s, json!({"visible": {"object": "cup", "max_age": 4.0}})),
            Truth::False
        );
        s.objects[0].last_seen = Stamp(NOW.0 + 60_000_000_000);
        assert_eq!(
            truth(&s, json!({"visible": {"object": "cup"}})),
            Truth::Unknown
        );
        assert_eq!(
            truth(&s, json!({"visible": {"object": "table"}})),
            Truth::False
        );
        s.objects[6]
            .state
            .insert("seen_at".into(), NOW.0.to_string());
        assert_eq!(
            truth(&s, json!({"visible": {"object": "table"}})),
            Truth::True
        );
        s.objects[6].state.insert("seen_at".into(), "soon".into());
        assert_eq!(
            truth(&s, json!({"visible": {"object": "table"}})),
            Truth::False
        );
    }

    #[test]
    fn doors_arms_grippers_by_their_state() {
        let mut s = scene();
        let open = json!({"door": {"door": "door", "open": true}});
        assert_eq!(truth(&s, open.clone()), Truth::Unknown);
        s.objects[1].state.insert("open".into(), "false".into());
        assert_eq!(truth(&s, open), Truth::False);
        assert_eq!(truth(&s, json!({"arm": {"pose": "stow"}})), Truth::Unknown);
        s.objects[4].state.insert("arm".into(), "stow".into());
        assert_eq!(truth(&s, json!({"arm": {"pose": "stow"}})), Truth::True);
        assert_eq!(
            truth(&s, json!({"gripper": {"state": "open"}})),
            Truth::Unknown
        );
        s.objects[4].state.insert("gripper".into(), "open".into());
        assert_eq!(
            truth(&s, json!({"gripper": {"state": "open"}})),
            Truth::True
        );
        assert_eq!(
            truth(&s, json!({"gripper": {"state": "closed"}})),
            Truth::False
        );
        assert_eq!(
            truth(&s, json!({"gripper": {"state": "holding"}})),
            Truth::False
        );
    }

    #[test]
    fn conjunctions_name_what_is_missing() {
        let s = scene();
        let c = Condition::from_value(&json!({"all": [
            {"visible": {"object": "cup"}}, {"near": {"target": "cup", "max_distance": 0.75}}]}))
        .unwrap();
        // Cup's face at y = 1.95, robot at 0.5.
        assert_eq!(
            evaluate(&c, &s, NOW),
            Belief::new(
                Truth::False,
                "robot is 1.45 m from cup, the limit is 0.75 m".into()
            )
        );
        assert!(evaluate(&Condition::always(), &s, NOW).holds());
        assert_eq!(truth(&s, json!({"any": []})), Truth::False);
        assert_eq!(
            truth(&s, json!({"not": {"stationary": {}}})),
            Truth::Unknown
        );
    }

    #[test]
    fn a_loop_of_supports_ends() {
        let mut s = scene();
        s.relations = vec![
            edge("cup", RelationKind::On, "table"),
            edge("table", RelationKind::On, "cup"),
        ];
        assert_eq!(
            truth(&s, json!({"in": {"object": "cup", "container": "door"}})),
            Truth::False
        );
    }
}

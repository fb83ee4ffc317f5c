//! What a skill changed, written only after a SUCCESS verdict and marked as an execution's.

use eh_contract::belief::{STATE_ARM, STATE_GRIPPER, STATE_OPEN, STATE_SEEN_AT};
use eh_contract::condition::{
    BoundEffects, Condition, ConditionError, GripperState, Predicate, ROBOT,
};
use eh_contract::geometry::Pose;
use eh_contract::scene::{Kind, Relation, RelationKind, SceneObject, Source};
use eh_contract::Stamp;
use serde_json::Value;

use crate::config::SceneConfig;
use crate::error::SceneError;
use crate::graph::{Edit, SceneGraph};
use crate::tracker::Tracker;

/// Matches any ref in what is removed.
pub const ANY: &str = "*";

/// State of an object that is held: by whom.
pub const STATE_HELD_BY: &str = "held_by";

/// How well the place is known where a gripper let go of something \[m\].
const RELEASE_STD: f64 = 0.05;

/// How far from the tool an object may be seen while it is held \[m\].
const IN_HAND: f64 = 0.25;

/// Confidence of what an execution did: a verdict is not certainty.
const CONFIDENCE: f64 = 0.9;

/// Reads bound effects from JSON: `{"add": [conditions], "remove": [conditions]}`.
///
/// # Errors
/// [`SceneError::Condition`] or [`SceneError::InvalidRequest`] naming what is wrong.
pub fn parse_effects(text: &str) -> Result<BoundEffects, SceneError> {
    if text.trim().is_empty() {
        return Ok(BoundEffects::default());
    }
    let value: Value = serde_json::from_str(text).map_err(|e| ConditionError::NotJson {
        reason: e.to_string(),
    })?;
    let Value::Object(map) = &value else {
        return Err(invalid(
            "the effects are no JSON object; write {\"add\": [...], \"remove\": [...]}".into(),
        ));
    };
    if let Some(key) = map.keys().find(|k| *k != "add" && *k != "remove") {
        return Err(invalid(format!(
            "the effects have the key \"{key}\"; only add and remove are known"
        )));
    }
    let list = |key: &str| -> Result<Vec<Condition>, SceneError> {
        match map.get(key) {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => items
                .iter()
                .map(|v| Condition::from_value(v).map_err(SceneError::from))
                .collect(),
            Some(_) => Err(invalid(format!("\"{key}\" is no list of conditions"))),
        }
    };
    Ok(BoundEffects {
        add: list("add")?,
        remove: list("remove")?,
    })
}

fn invalid(reason: String) -> SceneError {
    SceneError::InvalidRequest { reason }
}

/// The single predicates of effects; an effect can't be a choice or a negation.
pub(crate) fn facts(conditions: &[Condition]) -> Result<Vec<&Predicate>, SceneError> {
    let mut out = Vec::new();
    for condition in conditions {
        match condition {
            Condition::Is(p) => out.push(p),
            Condition::All(inner) => out.extend(facts(inner)?),
            Condition::Any(_) | Condition::Not(_) => {
                return Err(invalid(
                    "an effect must be a fact: any and not can't be made true".into(),
                ))
            }
        }
    }
    Ok(out)
}

/// Checks that everything named exists, so that effects are applied wholly or not at all. Places that the
/// robot is or was near may be unknown here: the issuer has places of its own.
///
/// # Errors
/// [`SceneError::RefNotFound`] or [`SceneError::InvalidRequest`].
pub fn check_effects(graph: &SceneGraph, effects: &BoundEffects) -> Result<(), SceneError> {
    for predicate in facts(&effects.add)? {
        if let Some(name) = predicate.refs().iter().find(|r| **r == ANY) {
            return Err(invalid(format!(
                "\"{name}\" stands for any object; what is added must name one"
            )));
        }
        let needed: Vec<&str> = match predicate {
            Predicate::Holding(_)
            | Predicate::On(_)
            | Predicate::In(_)
            | Predicate::Door(_)
            | Predicate::Lifted(_) => predicate.refs(),
            Predicate::At(_)
            | Predicate::Near(_)
            | Predicate::Moved(_)
            | Predicate::Gripper(_)
            | Predicate::Visible(_)
            | Predicate::Clearance(_)
            | Predicate::Arm(_)
            | Predicate::Stationary(_) => Vec::new(),
        };
        for name in needed {
            require(graph, name)?;
        }
    }
    facts(&effects.remove).map(|_| ())
}

/// The node of a ref.
///
/// # Errors
/// [`SceneError::RefNotFound`], with what became of it when that is known.
pub fn require<'a>(graph: &'a SceneGraph, name: &str) -> Result<&'a SceneObject, SceneError> {
    if let Some(object) = graph.get(name) {
        return Ok(object);
    }
    let hint = match graph.any(name) {
        Some(o) if !o.merged_into.is_empty() => format!(" any more, it is {}", o.merged_into),
        Some(_) => " any more, it was looked for and not found".into(),
        None => String::new(),
    };
    Err(SceneError::RefNotFound {
        name: name.chars().take(64).collect(),
        hint,
    })
}

/// Applies effects that [`check_effects`] has accepted.
///
/// `stamp` is the verdict's time: what perception has seen after it wins.
pub fn apply(
    graph: &mut SceneGraph,
    tracker: &mut Tracker,
    effects: &BoundEffects,
    run_id: &str,
    stamp: Stamp,
    config: &SceneConfig,
) -> Result<(), SceneError> {
    for predicate in facts(&effects.remove)? {
        remove(graph, predicate, stamp);
    }
    for predicate in facts(&effects.add)? {
        add(graph, tracker, predicate, run_id, stamp, config);
    }
    Ok(())
}

fn matches(pattern: &str, name: &str) -> bool {
    pattern == ANY || pattern == name
}

fn remove(graph: &mut SceneGraph, predicate: &Predicate, stamp: Stamp) {
    let edges = |graph: &mut SceneGraph, subject: &str, relation, object: &str| {
        let subjects: Vec<String> = if subject == ANY {
            graph
                .relations()
                .filter(|r| r.relation == relation && matches(object, &r.object))
                .map(|r| r.subject.clone())
                .collect()
        } else {
            vec![subject.into()]
        };
        for subject in subjects {
            for end in graph.objects_of(&subject, relation) {
                if matches(object, &end) {
                    graph.unrelate(&subject, relation, &end, stamp);
                }
            }
        }
    };
    match predicate {
        Predicate::Holding(p) => {
            for name in graph.objects_of(ROBOT, RelationKind::Holds) {
                if matches(&p.object, &name) {
                    graph.unrelate(ROBOT, RelationKind::Holds, &name, stamp);
                    set_state(graph, &name, STATE_HELD_BY, None, stamp);
                }
            }
        }
        Predicate::On(p) => edges(graph, &p.object, RelationKind::On, &p.support),
        Predicate::In(p) => edges(graph, &p.object, RelationKind::In, &p.container),
        Predicate::Near(p) => edges(graph, &p.subject, RelationKind::Near, &p.target),
        Predicate::At(p) => edges(graph, ROBOT, RelationKind::Near, &p.target),
        Predicate::Gripper(p) => {
            let now = graph
                .get(ROBOT)
                .and_then(|r| r.state.get(STATE_GRIPPER))
                .cloned();
            let gone = match (p.state, now.as_deref()) {
                // Open and closed are both empty.
                (GripperState::Empty, Some("empty" | "open" | "closed")) => true,
                (state, Some(now)) => now == gripper_name(state),
                (_, None) => false,
            };
            if gone {
                set_state(graph, ROBOT, STATE_GRIPPER, None, stamp);
            }
        }
        Predicate::Arm(p) => {
            let now = graph
                .get(ROBOT)
                .and_then(|r| r.state.get(STATE_ARM))
                .cloned();
            if now.is_some_and(|now| matches(&p.pose, &now)) {
                set_state(graph, ROBOT, STATE_ARM, None, stamp);
            }
        }
        Predicate::Door(p) => {
            let open = p.open.to_string();
            if graph
                .get(&p.door)
                .is_some_and(|d| d.state.get(STATE_OPEN) == Some(&open))
            {
                set_state(graph, &p.door, STATE_OPEN, None, stamp);
            }
        }
        // Facts about a moment or about motion leave nothing in the graph.
        Predicate::Moved(_)
        | Predicate::Lifted(_)
        | Predicate::Visible(_)
        | Predicate::Clearance(_)
        | Predicate::Stationary(_) => {}
    }
}

pub(crate) const fn gripper_name(state: GripperState) -> &'static str {
    match state {
        GripperState::Open => "open",
        GripperState::Closed => "closed",
        GripperState::Holding => "holding",
        GripperState::Empty => "empty",
    }
}

fn set_state(graph: &mut SceneGraph, name: &str, key: &str, value: Option<&str>, stamp: Stamp) {
    graph.edit(name, stamp, |o| {
        let same = o.state.get(key).map(String::as_str) == value;
        if same {
            return Edit::Same;
        }
        match value {
            Some(value) => o.state.insert(key.into(), value.into()),
            None => o.state.remove(key),
        };
        Edit::Changed
    });
}

fn relate(
    graph: &mut SceneGraph,
    subject: &str,
    relation: RelationKind,
    object: &str,
    stamp: Stamp,
) {
    graph.relate(Relation {
        subject: subject.into(),
        relation,
        object: object.into(),
        confidence: CONFIDENCE,
        stamp,
        source: Source::Execution,
    });
}

fn mark(graph: &mut SceneGraph, name: &str, run_id: &str, stamp: Stamp) {
    graph.edit(name, stamp, |o| {
        o.source = Source::Execution;
        o.run_id = run_id.into();
        Edit::Changed
    });
}

fn add(
    graph: &mut SceneGraph,
    tracker: &mut Tracker,
    predicate: &Predicate,
    run_id: &str,
    stamp: Stamp,
    config: &SceneConfig,
) {
    match predicate {
        Predicate::Holding(p) => hold(graph, tracker, &p.object, run_id, stamp, config),
        Predicate::On(p) => put(
            graph,
            tracker,
            &p.object,
            &p.support,
            RelationKind::On,
            run_id,
            stamp,
            config,
        ),
        Predicate::In(p) => {
            let place = graph.get(&p.container).map(|o| o.kind);
            if matches!(place, Some(Kind::Surface | Kind::Container | Kind::Object)) {
                put(
                    graph,
                    tracker,
                    &p.object,
                    &p.container,
                    RelationKind::In,
                    run_id,
                    stamp,
                    config,
                );
            }
            // Which room something is in follows from its place.
        }
        Predicate::Gripper(p) => {
            // "Empty" says less than "open": it does not overwrite it.
            let now = graph
                .get(ROBOT)
                .and_then(|r| r.state.get(STATE_GRIPPER))
                .cloned();
            let more_is_known =
                p.state == GripperState::Empty && matches!(now.as_deref(), Some("open" | "closed"));
            if !more_is_known {
                set_state(
                    graph,
                    ROBOT,
                    STATE_GRIPPER,
                    Some(gripper_name(p.state)),
                    stamp,
                );
            }
        }
        Predicate::Arm(p) => set_state(graph, ROBOT, STATE_ARM, Some(&p.pose), stamp),
        Predicate::Door(p) => {
            let open = p.open.to_string();
            set_state(graph, &p.door, STATE_OPEN, Some(&open), stamp);
        }
        Predicate::Visible(p) => {
            // Objects are seen by detections only; for a place the verdict is the sight of it.
            let place = graph
                .get(&p.object)
                .is_some_and(|o| !matches!(o.kind, Kind::Object | Kind::Person));
            if place {
                graph.edit(&p.object, stamp, |o| {
                    let known: i64 = o
                        .state
                        .get(STATE_SEEN_AT)
                        .and_then(|s| s.parse().ok())
                        .unwrap_or(0);
                    if known >= stamp.0 {
                        return Edit::Same;
                    }
                    o.state.insert(STATE_SEEN_AT.into(), stamp.0.to_string());
                    Edit::Changed
                });
            }
        }
        Predicate::Near(p) => {
            if graph.get(&p.subject).is_some() && graph.get(&p.target).is_some() {
                let room = graph.get(&p.target).is_some_and(|o| o.kind == Kind::Room);
                let relation = if room {
                    RelationKind::In
                } else {
                    RelationKind::Near
                };
                if !graph.has(&p.subject, relation, &p.target) && !room {
                    relate(graph, &p.subject, relation, &p.target, stamp);
                }
            }
        }
        // The base's own pose says where the robot is; the rest leaves nothing in the graph.
        Predicate::At(_)
        | Predicate::Moved(_)
        | Predicate::Lifted(_)
        | Predicate::Clearance(_)
        | Predicate::Stationary(_) => {}
    }
}

fn hold(
    graph: &mut SceneGraph,
    tracker: &mut Tracker,
    name: &str,
    run_id: &str,
    stamp: Stamp,
    config: &SceneConfig,
) {
    let Some(object) = graph.get(name) else {
        return;
    };
    // Seen after the verdict away from the hand: the observation wins.
    let away = tracker
        .tool
        .is_some_and(|t| t.position.distance(object.pose.position) > IN_HAND);
    if object.source == Source::Perception && object.last_seen > stamp && away {
        return;
    }
    // As does what the fingers have felt since.
    if tracker.feels_nothing_after(stamp, config) {
        return;
    }
    // What the fingers were thought to have closed on instead stands where it stood.
    for other in graph.objects_of(ROBOT, RelationKind::Holds) {
        let guessed = graph
            .edge(ROBOT, RelationKind::Holds, &other)
            .is_some_and(|e| e.source == Source::Perception);
        if guessed && other != name {
            tracker.note_not_taken(graph, &other, stamp, config);
        }
    }
    take_in_hand(graph, tracker, name, stamp, Source::Execution);
    mark(graph, name, run_id, stamp);
    set_state(graph, ROBOT, STATE_GRIPPER, Some("holding"), stamp);
}

/// The robot holds an object from now on: it stands on nothing and beside nothing.
pub(crate) fn take_in_hand(
    graph: &mut SceneGraph,
    tracker: &mut Tracker,
    name: &str,
    stamp: Stamp,
    source: Source,
) {
    if graph.has(ROBOT, RelationKind::Holds, name) {
        // Where it was taken from is known already.
        tracker.note_change(graph, name, stamp);
    } else {
        tracker.note_held(graph, name, stamp);
    }
    graph.unrelate_all(name, RelationKind::On, stamp);
    graph.unrelate_all(name, RelationKind::Near, stamp);
    graph.unrelate_all(name, RelationKind::Under, stamp);
    for place in graph.objects_of(name, RelationKind::In) {
        if graph.get(&place).is_some_and(|o| o.kind != Kind::Room) {
            graph.unrelate(name, RelationKind::In, &place, stamp);
        }
    }
    graph.relate(Relation {
        subject: ROBOT.into(),
        relation: RelationKind::Holds,
        object: name.into(),
        confidence: CONFIDENCE,
        stamp,
        source,
    });
    set_state(graph, name, STATE_HELD_BY, Some(ROBOT), stamp);
}

#[allow(clippy::too_many_arguments)]
fn put(
    graph: &mut SceneGraph,
    tracker: &mut Tracker,
    name: &str,
    place: &str,
    relation: RelationKind,
    run_id: &str,
    stamp: Stamp,
    config: &SceneConfig,
) {
    let (Some(object), Some(support)) = (graph.get(name).cloned(), graph.get(place).cloned())
    else {
        return;
    };
    // Perception has seen it since: it knows better where it is, its relations say so.
    if object.source == Source::Perception && object.last_seen > stamp {
        return;
    }
    tracker.note_change(graph, name, stamp);
    // The fingers were felt to open and it was seen there before the verdict: where exactly is known better.
    let seen_there = object.source == Source::Perception && graph.has(name, relation, place);
    match tracker.put_down_as(graph, name, place, relation) {
        Some(seen) => tracker.merge(graph, name, &seen, stamp, config),
        None if seen_there => {}
        None => {
            let pose = resting_pose(&object, &support, relation);
            graph.edit(name, stamp, |o| {
                o.pose = pose;
                Edit::Changed
            });
        }
    }
    graph.unrelate_all(name, RelationKind::On, stamp);
    graph.unrelate_all(name, RelationKind::Under, stamp);
    relate(graph, name, relation, place, stamp);
    mark(graph, name, run_id, stamp);
    if !seen_there {
        tracker.note_placed(graph, name, RELEASE_STD, config);
    }
}

/// Where something rests that the robot let go of at its present pose: on top of the support, not beyond
/// its edges.
fn resting_pose(object: &SceneObject, support: &SceneObject, relation: RelationKind) -> Pose {
    let frame = support.pose.isometry();
    let mut local =
        frame.inverse_transform_point(&nalgebra::Point3::from(object.pose.position.vector()));
    let half = support.size.vector() / 2.0;
    local.x = local.x.clamp(-half.x, half.x);
    local.y = local.y.clamp(-half.y, half.y);
    local.z = match relation {
        RelationKind::On => half.z + object.size.z / 2.0,
        RelationKind::In
        | RelationKind::Near
        | RelationKind::Under
        | RelationKind::Connects
        | RelationKind::Holds => 0.0,
    };
    Pose {
        position: (frame * local).coords.into(),
        orientation: object.pose.orientation,
    }
}

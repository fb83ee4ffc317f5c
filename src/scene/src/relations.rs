//! On, in, under and near from geometry, with hysteresis: what begins at one limit ends at a wider one, so that
//! noise at the limit does not make a relation come and go.

use std::collections::BTreeSet;

use eh_contract::condition::ROBOT;
use eh_contract::footprint::{distance_to_outline, inside_outline, Footprint};
use eh_contract::prior::ATTRIBUTE_CONTAINER;
use eh_contract::scene::{Kind, Relation, RelationKind, SceneObject, Source};
use eh_contract::sight::Solid;
use eh_contract::Stamp;

use crate::config::SceneConfig;
use crate::graph::SceneGraph;

/// Relates one object or person to its support, its room and its neighbours.
pub fn relate_object(
    graph: &mut SceneGraph,
    name: &str,
    stamp: Stamp,
    source: Source,
    config: &SceneConfig,
) {
    let Some(object) = graph.get(name).cloned() else {
        return;
    };
    let held = graph.has(ROBOT, RelationKind::Holds, name);
    let support = if held {
        None
    } else {
        support_of(graph, &object, config)
    };
    let (on, inside) = match &support {
        Some((relation, place)) if *relation == RelationKind::On => (Some(place.clone()), None),
        Some((_, place)) => (None, Some(place.clone())),
        None => (None, None),
    };
    set_only(graph, name, RelationKind::On, on.iter(), stamp, source);
    let under = if held || support.is_some() {
        None
    } else {
        cover_of(graph, &object, config)
    };
    set_only(
        graph,
        name,
        RelationKind::Under,
        under.iter(),
        stamp,
        source,
    );
    let room = room_of(graph, &object, config);
    set_only(
        graph,
        name,
        RelationKind::In,
        room.iter().chain(inside.iter()),
        stamp,
        source,
    );
    let neighbours = neighbours(
        graph,
        &object,
        support.as_ref().map(|(_, p)| p.as_str()),
        config,
    );
    set_only(
        graph,
        name,
        RelationKind::Near,
        neighbours.iter(),
        stamp,
        source,
    );
}

/// Relates the robot to its room and to what is within reach.
pub fn relate_robot(graph: &mut SceneGraph, stamp: Stamp, config: &SceneConfig) {
    let Some(robot) = graph.get(ROBOT).cloned() else {
        return;
    };
    let at = robot.pose.position;
    let room = room_of(graph, &robot, config);
    let reach = config.robot_near_enter.max(config.robot_near_leave);
    let near: BTreeSet<String> = graph
        .around(at.x, at.y, reach)
        .into_iter()
        .filter(|o| {
            matches!(
                o.kind,
                Kind::Surface | Kind::Container | Kind::Object | Kind::Person | Kind::Place
            )
        })
        .filter(|o| {
            let gap = Footprint::new(&o.pose, o.size).distance(at.x, at.y);
            let limit = if graph.has(ROBOT, RelationKind::Near, &o.r#ref) {
                config.robot_near_leave
            } else {
                config.robot_near_enter
            };
            gap <= limit
        })
        // Through a wall is not near.
        .filter(|o| room.is_none() || !graph.subjects_in_other_room(&o.r#ref, room.as_deref()))
        .map(|o| o.r#ref.clone())
        .collect();
    set_only(
        graph,
        ROBOT,
        RelationKind::In,
        room.iter(),
        stamp,
        Source::Perception,
    );
    set_only(
        graph,
        ROBOT,
        RelationKind::Near,
        near.iter(),
        stamp,
        Source::Perception,
    );
}

impl SceneGraph {
    /// True when something is known to be in a room other than `room`.
    fn subjects_in_other_room(&self, name: &str, room: Option<&str>) -> bool {
        let rooms: Vec<String> = self
            .objects_of(name, RelationKind::In)
            .into_iter()
            .filter(|r| self.get(r).is_some_and(|o| o.kind == Kind::Room))
            .collect();
        !rooms.is_empty() && !rooms.iter().any(|r| Some(r.as_str()) == room)
    }
}

/// Makes the edges of one kind of a subject exactly these.
fn set_only<'a>(
    graph: &mut SceneGraph,
    subject: &str,
    relation: RelationKind,
    wanted: impl Iterator<Item = &'a String>,
    stamp: Stamp,
    source: Source,
) {
    let wanted: BTreeSet<&String> = wanted.collect();
    for object in graph.objects_of(subject, relation) {
        if !wanted.contains(&object) {
            graph.unrelate(subject, relation, &object, stamp);
        }
    }
    for object in wanted {
        graph.relate(Relation {
            subject: subject.into(),
            relation,
            object: object.clone(),
            confidence: 0.95,
            stamp,
            source,
        });
    }
}

/// What an object stands on or is in: of the tops below it the highest.
fn support_of(
    graph: &SceneGraph,
    object: &SceneObject,
    config: &SceneConfig,
) -> Option<(RelationKind, String)> {
    let at = object.pose.position;
    let bottom = at.z - object.size.z / 2.0;
    let mut best: Option<(f64, RelationKind, String)> = None;
    let reach = config.on_margin_enter.max(config.on_margin_leave);
    for place in graph
        .around(at.x, at.y, reach)
        .into_iter()
        .filter(|o| matches!(o.kind, Kind::Surface | Kind::Container) && o.r#ref != object.r#ref)
    {
        let was_on = graph.has(&object.r#ref, RelationKind::On, &place.r#ref);
        let was_in = graph.has(&object.r#ref, RelationKind::In, &place.r#ref);
        let (height, margin) = if was_on {
            (config.on_height_leave, config.on_margin_leave)
        } else {
            (config.on_height_enter, config.on_margin_enter)
        };
        let top = place.pose.position.z + place.size.z / 2.0;
        let gap = Footprint::new(&place.pose, place.size).distance(at.x, at.y);
        let found =
            if place.kind == Kind::Surface && (bottom - top).abs() <= height && gap <= margin {
                Some((top, RelationKind::On))
            } else if holds_things(place) {
                let grown = if was_in { config.on_margin_leave } else { 0.0 };
                let solid = Solid {
                    pose: place.pose,
                    size: place.size,
                };
                solid
                    .contains(at, grown)
                    .then_some((place.pose.position.z, RelationKind::In))
            } else {
                None
            };
        if let Some((level, relation)) = found {
            if best.as_ref().is_none_or(|(b, _, _)| level > *b) {
                best = Some((level, relation, place.r#ref.clone()));
            }
        }
    }
    best.map(|(_, relation, name)| (relation, name))
}

/// The surface that an object is under: of the tops above it the lowest. A table's box reaches to the floor, so
/// that what is between its legs is inside of it; what things are kept in is over nothing.
fn cover_of(graph: &SceneGraph, object: &SceneObject, config: &SceneConfig) -> Option<String> {
    let at = object.pose.position;
    let own_top = at.z + object.size.z / 2.0;
    let top = |place: &SceneObject| place.pose.position.z + place.size.z / 2.0;
    graph
        .around(at.x, at.y, config.on_margin_leave)
        .into_iter()
        .filter(|o| o.kind == Kind::Surface && o.r#ref != object.r#ref && !holds_things(o))
        .filter(|place| {
            let was = graph.has(&object.r#ref, RelationKind::Under, &place.r#ref);
            // Well under it at first; then until it sticks out above or beside.
            let (room_above, margin) = if was {
                (0.0, config.on_margin_leave)
            } else {
                (config.on_height_leave, 0.0)
            };
            let gap = Footprint::new(&place.pose, place.size).distance(at.x, at.y);
            own_top <= top(place) - room_above && gap <= margin
        })
        .min_by(|a, b| {
            top(a)
                .total_cmp(&top(b))
                .then_with(|| a.r#ref.cmp(&b.r#ref))
        })
        .map(|place| place.r#ref.clone())
}

/// Furniture that things are kept in.
fn holds_things(place: &SceneObject) -> bool {
    place
        .attributes
        .get(ATTRIBUTE_CONTAINER)
        .map(String::as_str)
        == Some("true")
}

/// The room that something is in; the room that it was in keeps it within a margin.
fn room_of(graph: &SceneGraph, object: &SceneObject, config: &SceneConfig) -> Option<String> {
    let at = object.pose.position;
    let around = graph.around(at.x, at.y, config.room_margin);
    let rooms = || around.iter().copied().filter(|o| o.kind == Kind::Room);
    let inside: Option<&SceneObject> = rooms().find(|r| inside_outline(at.x, at.y, &r.outline));
    let before = graph
        .objects_of(&object.r#ref, RelationKind::In)
        .into_iter()
        .filter_map(|r| graph.get(&r).filter(|o| o.kind == Kind::Room))
        .find(|r| {
            inside_outline(at.x, at.y, &r.outline)
                || distance_to_outline(at.x, at.y, &r.outline) <= config.room_margin
        });
    match (before, inside) {
        (Some(room), _) | (None, Some(room)) => Some(room.r#ref.clone()),
        // In a wall's thickness: the nearest room within the margin.
        (None, None) => rooms()
            .map(|r| (distance_to_outline(at.x, at.y, &r.outline), r))
            .filter(|(d, _)| *d <= config.room_margin)
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, r)| r.r#ref.clone()),
    }
}

/// Objects on the same support that are near.
fn neighbours(
    graph: &SceneGraph,
    object: &SceneObject,
    support: Option<&str>,
    config: &SceneConfig,
) -> Vec<String> {
    let Some(support) = support else {
        return Vec::new();
    };
    let own = Footprint::new(&object.pose, object.size);
    graph
        .subjects_of(support, RelationKind::On)
        .into_iter()
        .filter(|name| *name != object.r#ref)
        .filter(|name| {
            let limit = if graph.has(&object.r#ref, RelationKind::Near, name) {
                config.near_leave
            } else {
                config.near_enter
            };
            graph
                .get(name)
                .is_some_and(|o| own.gap(&Footprint::new(&o.pose, o.size)) <= limit)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use eh_contract::geometry::{Pose, Vec3};

    fn graph() -> SceneGraph {
        let mut g = SceneGraph::new("m", "map");
        let rect = |x0: f64, x1: f64| {
            [(x0, 0.0), (x1, 0.0), (x1, 4.0), (x0, 4.0)]
                .map(|(x, y)| Vec3::new(x, y, 0.0))
                .to_vec()
        };
        for (name, x0, x1) in [("left", 0.0, 4.0), ("right", 4.0, 8.0)] {
            g.insert(
                SceneObject {
                    r#ref: name.into(),
                    kind: Kind::Room,
                    outline: rect(x0, x1),
                    source: Source::Map,
                    ..SceneObject::default()
                },
                Stamp(1),
            );
        }
        let mut table = SceneObject {
            r#ref: "table".into(),
            kind: Kind::Surface,
            pose: Pose::planar(2.0, 2.0, 0.0),
            size: Vec3::new(1.0, 1.0, 0.8),
            source: Source::Map,
            ..SceneObject::default()
        };
        table.pose.position.z = 0.4;
        g.insert(table, Stamp(1));
        g
    }

    fn put(g: &mut SceneGraph, name: &str, x: f64, y: f64, z: f64) {
        let mut o = SceneObject {
            r#ref: name.into(),
            kind: Kind::Object,
            size: Vec3::new(0.1, 0.1, 0.1),
            pose: Pose::planar(x, y, 0.0),
            ..SceneObject::default()
        };
        o.pose.position.z = z;
        g.insert(o, Stamp(2));
        relate_object(
            g,
            name,
            Stamp(2),
            Source::Perception,
            &SceneConfig::default(),
        );
    }

    #[test]
    fn on_begins_and_ends_at_different_heights() {
        let mut g = graph();
        // The table's top is at 0.8 m; a cup of 0.1 m stands with its centre at 0.85 m.
        put(&mut g, "cup", 2.0, 2.0, 0.85 + 0.08);
        assert!(!g.has("cup", RelationKind::On, "table"), "0.08 > 0.06");
        put(&mut g, "cup", 2.0, 2.0, 0.85);
        assert!(g.has("cup", RelationKind::On, "table"));
        put(&mut g, "cup", 2.0, 2.0, 0.85 + 0.08);
        assert!(g.has("cup", RelationKind::On, "table"), "0.08 < 0.10");
        put(&mut g, "cup", 2.0, 2.0, 0.85 + 0.12);
        assert!(!g.has("cup", RelationKind::On, "table"));
        assert!(g.has("cup", RelationKind::In, "left"));
    }

    #[test]
    fn under_is_between_the_legs_until_it_sticks_out() {
        let mut g = graph();
        // The table's edge is at 2.5 m.
        put(&mut g, "box", 2.53, 2.0, 0.05);
        assert!(!g.has("box", RelationKind::Under, "table"), "beside it");
        put(&mut g, "box", 2.4, 2.0, 0.05);
        assert!(g.has("box", RelationKind::Under, "table"));
        put(&mut g, "box", 2.53, 2.0, 0.05);
        assert!(g.has("box", RelationKind::Under, "table"), "0.03 < 0.06");
        put(&mut g, "box", 2.6, 2.0, 0.05);
        assert!(!g.has("box", RelationKind::Under, "table"), "0.10 > 0.06");
        // On the top, and within a drawer's height of it, it is not under it.
        put(&mut g, "cup", 2.0, 2.0, 0.85);
        assert!(!g.has("cup", RelationKind::Under, "table"));
        put(&mut g, "cup", 2.0, 2.0, 0.70);
        assert!(!g.has("cup", RelationKind::Under, "table"), "0.05 < 0.10");
    }

    #[test]
    fn a_room_keeps_what_stands_at_its_border() {
        let mut g = graph();
        put(&mut g, "cup", 3.9, 2.0, 0.05);
        put(&mut g, "cup", 4.1, 2.0, 0.05);
        assert!(g.has("cup", RelationKind::In, "left"), "0.1 < 0.15");
        put(&mut g, "cup", 4.2, 2.0, 0.05);
        assert!(g.has("cup", RelationKind::In, "right"));
        assert_eq!(g.objects_of("cup", RelationKind::In).len(), 1);
    }

    #[test]
    fn neighbours_share_a_support() {
        let mut g = graph();
        put(&mut g, "a", 2.0, 2.0, 0.85);
        put(&mut g, "b", 2.3, 2.0, 0.85);
        put(&mut g, "c", 2.2, 2.0, 0.05);
        assert!(g.has("b", RelationKind::Near, "a"), "0.2 m gap");
        assert!(
            !g.has("c", RelationKind::Near, "a"),
            "it is under the table"
        );
    }

    #[test]
    fn the_robot_is_near_what_it_can_reach_and_not_through_a_wall() {
        let mut g = graph();
        put(&mut g, "cup", 4.5, 2.0, 0.05);
        g.insert(
            SceneObject {
                r#ref: ROBOT.into(),
                kind: Kind::Robot,
                pose: Pose::planar(3.3, 2.0, 0.0),
                ..SceneObject::default()
            },
            Stamp(3),
        );
        relate_robot(&mut g, Stamp(3), &SceneConfig::default());
        assert!(g.has(ROBOT, RelationKind::In, "left"));
        // 3.3 - 2.5 = 0.8 m to the table's edge.
        assert!(g.has(ROBOT, RelationKind::Near, "table"));
        assert!(!g.has(ROBOT, RelationKind::Near, "cup"));
    }
}

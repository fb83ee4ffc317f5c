//! The annotated map as nodes and edges: what is known of a building before a sensor has seen anything.

use crate::belief::STATE_OPEN;
use crate::geometry::{Pose, Vec3};
use crate::scene::{Kind, Relation, RelationKind, SceneObject, SceneSnapshot, Source};
use crate::semantic_map::{Names, SemanticMap};
use crate::time::Stamp;

/// Ref of the building.
pub const BUILDING: &str = "building";

/// Height of rooms and doors that a floor plan does not tell \[m\]; only drawings use it.
const DOOR_HEIGHT: f64 = 2.0;

/// Thickness of a door's box \[m\].
const DOOR_THICKNESS: f64 = 0.1;

/// Attribute of furniture that is both: things stand on it and are kept inside.
pub const ATTRIBUTE_CONTAINER: &str = "container";

fn aliases(names: &Names) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for name in names.values().flatten() {
        let name = name.trim();
        if !name.is_empty() && !out.iter().any(|n| n == name) {
            out.push(name.into());
        }
    }
    out
}

fn edge(subject: &str, relation: RelationKind, object: &str) -> Relation {
    Relation {
        subject: subject.into(),
        relation,
        object: object.into(),
        confidence: 1.0,
        stamp: Stamp::NEVER,
        source: Source::Map,
    }
}

/// The nodes and edges of a map in a frame, with version 1 and never seen.
///
/// The building holds the rooms; furniture and places are in the room that holds their centre; doors
/// connect their two rooms. An id that two sections share is kept for the first: rooms, doors, furniture,
/// places.
pub fn scene_of_map(map: &SemanticMap, frame_id: &str) -> SceneSnapshot {
    let node = |name: &str, kind: Kind, class: &str, names: &Names| SceneObject {
        r#ref: name.into(),
        kind,
        class_name: class.trim().to_lowercase(),
        aliases: aliases(names),
        frame_id: frame_id.into(),
        confidence: 1.0,
        source: Source::Map,
        version: 1,
        ..SceneObject::default()
    };
    let none = Names::new();
    let mut objects = vec![node(BUILDING, Kind::Building, "building", &none)];
    if let (false, Some(building)) = (map.name.is_empty(), objects.first_mut()) {
        building.aliases = vec![map.name.clone()];
    }
    let mut relations = Vec::new();
    let corner = |[x, y]: [f64; 2]| Vec3::new(x, y, 0.0);
    for room in &map.rooms {
        let [x, y] = room.centroid();
        let mut o = node(&room.id, Kind::Room, &room.id, &room.names);
        o.pose = Pose::planar(x, y, 0.0);
        o.outline = room.polygon.iter().copied().map(corner).collect();
        objects.push(o);
        relations.push(edge(&room.id, RelationKind::In, BUILDING));
    }
    for door in &map.doors {
        let [x, y] = door.center();
        let yaw = (door.to[1] - door.from[1]).atan2(door.to[0] - door.from[0]);
        let mut o = node(&door.id, Kind::Door, "door", &door.names);
        o.pose = Pose::planar(x, y, yaw);
        o.pose.position.z = DOOR_HEIGHT / 2.0;
        o.size = Vec3::new(door.width(), DOOR_THICKNESS, DOOR_HEIGHT);
        o.state.insert(STATE_OPEN.into(), door.open.to_string());
        objects.push(o);
        for room in &door.between {
            relations.push(edge(&door.id, RelationKind::Connects, room));
        }
    }
    for item in &map.furniture {
        let [x, y] = item.center;
        // What is neither still fills space, so it is kept as a container that nothing was put in.
        let kind = if item.surface {
            Kind::Surface
        } else {
            Kind::Container
        };
        let mut o = node(&item.id, kind, &item.class, &item.names);
        o.pose = Pose::planar(x, y, item.yaw);
        o.pose.position.z = item.size[2] / 2.0;
        o.size = Vec3::new(item.size[0], item.size[1], item.size[2]);
        if item.container {
            o.attributes
                .insert(ATTRIBUTE_CONTAINER.into(), "true".into());
        }
        objects.push(o);
        if let Some(room) = map.room_at(x, y) {
            relations.push(edge(&item.id, RelationKind::In, &room.id));
        }
    }
    for place in &map.places {
        let [x, y, yaw] = place.pose;
        let mut o = node(&place.id, Kind::Place, "place", &place.names);
        o.pose = Pose::planar(x, y, yaw);
        objects.push(o);
        if let Some(room) = map.room_at(x, y) {
            relations.push(edge(&place.id, RelationKind::In, &room.id));
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    objects.retain(|o| seen.insert(o.r#ref.clone()));
    objects.sort_by(|a, b| a.r#ref.cmp(&b.r#ref));
    SceneSnapshot {
        map_id: map.name.clone(),
        version: 1,
        stamp: Stamp::NEVER,
        objects,
        relations,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_becomes_rooms_doors_furniture_and_places() {
        let map = SemanticMap::from_yaml(
            "
name: flat
rooms:
  - {id: kitchen, names: {en: [kitchen, cook room], zh: [厨房]}, rect: [0, 0, 4, 2]}
  - {id: hall, rect: [4, 0, 6, 2]}
doors:
  - {id: door_1, between: [kitchen, hall], from: [4, 0.5], to: [4, 1.5]}
furniture:
  - {id: desk, class: Table, center: [1, 1], size: [1.0, 0.5, 0.7], surface: true}
  - {id: fridge, class: fridge, center: [3, 1], size: [0.6, 0.6, 1.8], container: true}
places:
  - {id: dock, pose: [5, 1, 0]}
",
        )
        .unwrap();
        let scene = scene_of_map(&map, "map");
        assert_eq!(scene.objects.len(), 7);
        let kitchen = scene.get("kitchen").unwrap();
        assert_eq!(kitchen.aliases, ["kitchen", "cook room", "厨房"]);
        assert_eq!(kitchen.outline.len(), 4);
        assert_eq!(scene.get("desk").unwrap().class_name, "table");
        // A desk 0.7 m high: its centre is at 0.35 m.
        assert!((scene.get("desk").unwrap().pose.position.z - 0.35).abs() < 1e-12);
        assert_eq!(scene.get("fridge").unwrap().kind, Kind::Container);
        assert_eq!(scene.room_of("desk"), Some("kitchen"));
        assert_eq!(scene.room_of("dock"), Some("hall"));
        assert!(scene.has("kitchen", RelationKind::In, BUILDING));
        assert!(scene.has("door_1", RelationKind::Connects, "hall"));
        let door = scene.get("door_1").unwrap();
        assert_eq!(door.state.get("open").map(String::as_str), Some("true"));
    }
}

//! A home for tests: three rooms in a row, furniture, a few objects.
#![allow(dead_code)] // Each test file uses a part of it.

pub mod turns;
pub mod world;

use eh_contract::geometry::{Pose, Vec3};
use eh_contract::scene::{Kind, Relation, RelationKind, SceneObject, SceneSnapshot, Source};
use eh_contract::time::Stamp;

pub const START: Stamp = Stamp(1_000_000_000_000);

pub fn node(name: &str, kind: Kind, class: &str, aliases: &[&str], x: f64, y: f64) -> SceneObject {
    SceneObject {
        r#ref: name.into(),
        kind,
        class_name: class.into(),
        aliases: aliases.iter().map(|a| a.to_string()).collect(),
        frame_id: "map".into(),
        pose: Pose::planar(x, y, 0.0),
        confidence: 1.0,
        version: 1,
        ..SceneObject::default()
    }
}

pub fn edge(subject: &str, relation: RelationKind, object: &str) -> Relation {
    Relation {
        subject: subject.into(),
        relation,
        object: object.into(),
        confidence: 1.0,
        stamp: START,
        source: Source::Map,
    }
}

fn room(name: &str, aliases: &[&str], x: f64) -> SceneObject {
    let corners = [(0.0, 0.0), (4.0, 0.0), (4.0, 4.0), (0.0, 4.0)];
    SceneObject {
        outline: corners.map(|(a, b)| Vec3::new(x + a, b, 0.0)).to_vec(),
        ..node(name, Kind::Room, "room", aliases, x + 2.0, 2.0)
    }
}

fn furniture(name: &str, kind: Kind, class: &str, aliases: &[&str], x: f64, y: f64) -> SceneObject {
    SceneObject {
        size: Vec3::new(1.0, 0.6, 0.7),
        ..node(name, kind, class, aliases, x, y)
    }
}

pub fn object(name: &str, class: &str, color: &str, x: f64, y: f64) -> SceneObject {
    let mut o = SceneObject {
        size: Vec3::new(0.08, 0.08, 0.1),
        first_seen: START,
        last_seen: START,
        sightings: 5,
        ..node(name, Kind::Object, class, &[], x, y)
    };
    o.attributes.insert("color".into(), color.into());
    o
}

/// Rooms 4 m x 4 m side by side: living room from x = 0, kitchen from x = 4, bedroom from x = 8. The robot
/// starts in the living room.
pub fn home() -> SceneSnapshot {
    let mut robot = node("robot", Kind::Robot, "robot", &[], 1.0, 1.0);
    robot.state.insert("gripper".into(), "closed".into());
    robot.state.insert("arm".into(), "stow".into());
    let objects = vec![
        object("apple_1", "apple", "red", 2.0, 3.3),
        furniture("basket_1", Kind::Container, "basket", &["篮子"], 9.0, 0.5),
        furniture(
            "counter_1",
            Kind::Surface,
            "counter",
            &["kitchen counter", "台面"],
            5.0,
            3.5,
        ),
        furniture(
            "coffee_table_1",
            Kind::Surface,
            "coffee_table",
            &["茶几"],
            2.0,
            3.5,
        ),
        furniture("desk_1", Kind::Surface, "desk", &["书桌"], 10.0, 3.5),
        room("bedroom", &["bedroom", "卧室"], 8.0),
        room("kitchen", &["kitchen", "厨房"], 4.0),
        room("living_room", &["living room", "客厅"], 0.0),
        robot,
        furniture(
            "table_1",
            Kind::Surface,
            "table",
            &["dining table", "餐桌"],
            7.0,
            0.5,
        ),
        node("start", Kind::Place, "place", &[], 1.0, 1.0),
    ];
    let mut scene = SceneSnapshot {
        map_id: "test".into(),
        version: 1,
        stamp: START,
        objects,
        relations: vec![
            edge("apple_1", RelationKind::On, "coffee_table_1"),
            edge("basket_1", RelationKind::In, "bedroom"),
            edge("coffee_table_1", RelationKind::In, "living_room"),
            edge("counter_1", RelationKind::In, "kitchen"),
            edge("desk_1", RelationKind::In, "bedroom"),
            edge("table_1", RelationKind::In, "kitchen"),
        ],
    };
    scene.objects.sort_by(|a, b| a.r#ref.cmp(&b.r#ref));
    scene
}

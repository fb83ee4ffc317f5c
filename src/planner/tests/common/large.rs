//! A house of any size, for how planning scales.
#![allow(dead_code)] // Each user takes a part of it.

use eh_contract::condition::Condition;
use eh_contract::geometry::{Pose, Vec3};
use eh_contract::scene::{Kind, Relation, RelationKind, SceneObject, SceneSnapshot, Source};
use eh_contract::skill::SkillDescriptor;
use eh_contract::time::Stamp;
use eh_planner::fact::{alternatives, Fact};
use serde_json::{json, Value};

pub const NOW: Stamp = Stamp(1_000_000_000_000);

const CLASSES: [&str; 10] = [
    "apple", "bottle", "bowl", "book", "can", "cup", "plate", "remote", "sponge", "toy",
];

fn node(name: String, kind: Kind, class: &str, x: f64, y: f64) -> SceneObject {
    SceneObject {
        r#ref: name,
        kind,
        class_name: class.into(),
        frame_id: "map".into(),
        pose: Pose::planar(x, y, 0.0),
        confidence: 1.0,
        version: 1,
        last_seen: NOW,
        first_seen: NOW,
        sightings: 5,
        ..SceneObject::default()
    }
}

fn edge(subject: &str, relation: RelationKind, object: &str) -> Relation {
    Relation {
        subject: subject.into(),
        relation,
        object: object.into(),
        confidence: 1.0,
        stamp: NOW,
        source: Source::Map,
    }
}

/// Rooms 5 m x 5 m in a row with four pieces of furniture each, and objects on them in turn.
pub fn world(rooms: usize, objects: usize) -> SceneSnapshot {
    let mut scene = SceneSnapshot {
        stamp: NOW,
        ..SceneSnapshot::default()
    };
    let mut robot = node("robot".into(), Kind::Robot, "robot", 1.0, 2.0);
    robot.state.insert("gripper".into(), "closed".into());
    scene.objects.push(robot);
    scene
        .objects
        .push(node("start".into(), Kind::Place, "place", 1.0, 2.0));
    for room in 0..rooms {
        let x = room as f64 * 5.0;
        let name = format!("room_{room}");
        let corners = [(0.0, 0.0), (5.0, 0.0), (5.0, 5.0), (0.0, 5.0)];
        scene.objects.push(SceneObject {
            outline: corners.map(|(a, b)| Vec3::new(x + a, b, 0.0)).to_vec(),
            ..node(name.clone(), Kind::Room, "room", x + 2.5, 2.5)
        });
        for (i, class) in ["table", "desk", "shelf", "counter"].iter().enumerate() {
            let furniture = format!("{class}_{room}");
            scene.objects.push(SceneObject {
                size: Vec3::new(1.0, 0.6, 0.7),
                ..node(
                    furniture.clone(),
                    Kind::Surface,
                    class,
                    x + 0.8 + i as f64,
                    4.5,
                )
            });
            scene
                .relations
                .push(edge(&furniture, RelationKind::In, &name));
        }
    }
    let furniture: Vec<SceneObject> = scene
        .live()
        .filter(|o| o.kind == Kind::Surface)
        .cloned()
        .collect();
    for i in 0..objects {
        let (class, support) = (
            CLASSES[i % CLASSES.len()],
            &furniture[i * 7 % furniture.len()],
        );
        let name = format!("{class}_{i}");
        let at = support.pose.position;
        let mut object = node(name.clone(), Kind::Object, class, at.x, at.y);
        object.last_seen = Stamp(NOW.0 - 60_000_000_000);
        object.size = Vec3::new(0.08, 0.08, 0.1);
        scene.objects.push(object);
        scene
            .relations
            .push(edge(&name, RelationKind::On, &support.r#ref));
    }
    scene
}

/// The shipped descriptors.
pub fn descriptors() -> Vec<SkillDescriptor> {
    [
        include_str!("../../../skills/descriptors/close_gripper.json"),
        include_str!("../../../skills/descriptors/look_at.json"),
        include_str!("../../../skills/descriptors/navigate_to.json"),
        include_str!("../../../skills/descriptors/navigate_to_pose.json"),
        include_str!("../../../skills/descriptors/open_gripper.json"),
        include_str!("../../../skills/descriptors/pick.json"),
        include_str!("../../../skills/descriptors/place.json"),
        include_str!("../../../skills/descriptors/stow.json"),
        include_str!("../../../skills/descriptors/wait.json"),
    ]
    .iter()
    .map(|text| serde_json::from_str(text).expect("the shipped descriptors are read by a test"))
    .collect()
}

/// The goal that so many things, of so many rooms where there are as many, are on one table.
pub fn on_one_table(scene: &SceneSnapshot, count: usize) -> Vec<Fact> {
    let mut parts: Vec<Value> = Vec::new();
    let mut rooms: Vec<&str> = Vec::new();
    for object in scene.live().filter(|o| o.kind == Kind::Object) {
        let room = scene.room_of(&object.r#ref).unwrap_or_default();
        if parts.len() < count && !rooms.contains(&room) {
            rooms.push(room);
            parts.push(json!({"on": {"object": object.r#ref, "support": "table_1"}}));
        }
        if rooms.len() >= 2 && parts.len() < count && parts.len() >= rooms.len() {
            rooms.clear();
        }
    }
    let goal = Condition::from_value(&json!({ "all": parts })).expect("it is well formed");
    alternatives(&goal, true).remove(0)
}

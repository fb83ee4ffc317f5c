//! Scenes from the world files of the simulated robot, with every object known: what a scene graph says
//! after a tour through the rooms.
#![allow(dead_code)] // Each user takes a part of it.

use std::collections::BTreeMap;

use eh_contract::geometry::{Pose, Vec3};
use eh_contract::prior::scene_of_map;
use eh_contract::scene::{Kind, Relation, RelationKind, SceneObject, SceneSnapshot, Source};
use eh_contract::semantic_map::SemanticMap;
use eh_contract::time::Stamp;
use serde::Deserialize;

const NOW: Stamp = Stamp(1_000_000_000_000);

#[derive(Deserialize)]
struct Objects {
    objects: Vec<Object>,
    robot: Robot,
}

#[derive(Deserialize)]
struct Object {
    class: String,
    #[serde(default)]
    attributes: BTreeMap<String, String>,
    position: [f64; 2],
    on: String,
    size: [f64; 3],
}

#[derive(Deserialize)]
struct Robot {
    start: [f64; 3],
}

/// Reads a world file; objects are named as the scene graph names them: class and number.
pub fn scene_of_world(yaml: &str) -> SceneSnapshot {
    let map = SemanticMap::from_yaml(yaml).expect("the world files are valid");
    let raw: Objects = serde_yaml_ng::from_str(yaml).expect("the world files are valid");
    let mut scene = scene_of_map(&map, "map");
    scene.stamp = NOW;
    let node = |name: &str, kind, class: &str, x, y| SceneObject {
        r#ref: name.into(),
        kind,
        class_name: class.into(),
        frame_id: "map".into(),
        pose: Pose::planar(x, y, 0.0),
        confidence: 1.0,
        version: 1,
        first_seen: NOW,
        last_seen: NOW,
        sightings: 5,
        ..SceneObject::default()
    };
    let [x, y, _] = raw.robot.start;
    scene.objects.retain(|o| o.kind != Kind::Robot);
    let mut robot = node("robot", Kind::Robot, "robot", x, y);
    robot.state.insert("gripper".into(), "open".into());
    robot.state.insert("arm".into(), "stow".into());
    scene.objects.push(robot);
    scene
        .objects
        .push(node("start", Kind::Place, "place", x, y));
    let mut numbers: BTreeMap<String, u32> = BTreeMap::new();
    for object in raw.objects {
        let number = numbers.entry(object.class.clone()).or_default();
        *number += 1;
        let name = format!("{}_{number}", object.class);
        let [x, y] = object.position;
        let support = scene
            .live()
            .find(|o| o.r#ref == object.on)
            .expect("objects stand on furniture of the world");
        let z = support.pose.position.z + support.size.z / 2.0 + object.size[2] / 2.0;
        let mut o = node(&name, Kind::Object, &object.class, x, y);
        o.pose.position.z = z;
        o.size = Vec3::new(object.size[0], object.size[1], object.size[2]);
        o.attributes = object.attributes.into();
        scene.objects.push(o);
        scene.relations.push(Relation {
            subject: name,
            relation: RelationKind::On,
            object: object.on,
            confidence: 1.0,
            stamp: NOW,
            source: Source::Perception,
        });
    }
    scene.objects.sort_by(|a, b| a.r#ref.cmp(&b.r#ref));
    scene
}

//! A home of six rooms with as many things in it as are asked for, seen by nobody but written down.

use eh_contract::condition::ROBOT;
use eh_contract::geometry::{Pose, Vec3};
use eh_contract::scene::{Kind, Relation, RelationKind, SceneObject, Source};
use eh_contract::semantic_map::SemanticMap;
use eh_contract::Stamp;
use eh_scene::graph::ChangeSet;
use eh_scene::lexicon::Lexicon;
use eh_scene::{Scene, SceneConfig};

/// Now, in seconds.
pub const NOW: i64 = 10_000;

const ROOMS: [(&str, &str); 6] = [
    ("kitchen", "厨房"),
    ("hall", "走廊"),
    ("study", "书房"),
    ("bedroom", "卧室"),
    ("bathroom", "浴室"),
    ("living_room", "客厅"),
];
const CLASSES: [&str; 8] = [
    "cup", "bowl", "bottle", "book", "box", "apple", "can", "plate",
];
const COLORS: [&str; 4] = ["red", "blue", "green", "white"];

/// A time of the clock.
pub fn at(seconds: i64) -> Stamp {
    Stamp(seconds * 1_000_000_000)
}

/// Rooms in a row, 5 m each, a door between two and two tables in each.
pub fn map_text() -> String {
    let mut text = String::from("name: flat\nrooms:\n");
    for (i, (room, chinese)) in ROOMS.iter().enumerate() {
        let x = 5 * i;
        text += &format!(
            "  - {{id: {room}, names: {{en: [{}], zh: [{chinese}]}}, rect: [{x}, 0, {}, 5]}}\n",
            room.replace('_', " "),
            x + 5
        );
    }
    text += "doors:\n";
    for (i, pair) in ROOMS.windows(2).enumerate() {
        let x = 5 * (i + 1);
        text += &format!(
            "  - {{id: door_{i}, between: [{}, {}], from: [{x}, 2], to: [{x}, 3]}}\n",
            pair[0].0, pair[1].0
        );
    }
    text += "furniture:\n";
    for (i, (room, _)) in ROOMS.iter().enumerate() {
        for (k, y) in [(1, 1.0), (2, 4.0)] {
            text += &format!(
                "  - {{id: {room}_table_{k}, class: table, center: [{}, {y}], size: [2.0, 1.0, 0.8], surface: true}}\n",
                5.0 * i as f64 + 2.5
            );
        }
    }
    text
}

/// The home with so many nodes in all, the robot in the hall.
pub fn flat(nodes: usize) -> Scene {
    let mut scene = Scene::new("flat", "map", SceneConfig::default(), Lexicon::builtin()).unwrap();
    scene.load_map(&SemanticMap::from_yaml(&map_text()).unwrap(), at(1));
    let mut base = Pose::planar(7.5, 2.5, 0.0);
    base.position.z = 0.0;
    let known = scene.take_changes();
    let mut records = ChangeSet {
        map_id: "flat".into(),
        version: known.version,
        ..ChangeSet::default()
    };
    let lexicon = Lexicon::builtin();
    for i in 0..nodes.saturating_sub(known.objects.len() + 1) {
        let (room, _) = ROOMS[i % ROOMS.len()];
        let table = format!("{room}_table_{}", 1 + i / ROOMS.len() % 2);
        let class = CLASSES[i % CLASSES.len()];
        let name = format!("{class}_{}", i / CLASSES.len() + 1);
        let mut pose = Pose::planar(
            5.0 * (i % ROOMS.len()) as f64 + 1.6 + 0.15 * (i / 12 % 12) as f64,
            if i / ROOMS.len() % 2 == 0 { 1.0 } else { 4.0 },
            0.0,
        );
        pose.position.z = 0.85;
        let object = SceneObject {
            r#ref: name.clone(),
            kind: Kind::Object,
            class_name: class.into(),
            aliases: lexicon.words(class),
            attributes: [("color".to_string(), COLORS[i / 8 % 4].to_string())].into(),
            frame_id: "map".into(),
            pose,
            position_variance: Vec3::new(1e-4, 1e-4, 1e-4),
            size: Vec3::new(0.08, 0.08, 0.1),
            confidence: 0.9,
            first_seen: at(100),
            last_seen: at(NOW - i as i64 % 60),
            sightings: 12,
            source: Source::Perception,
            evidence: vec![format!("camera@{}", NOW - i as i64 % 60)],
            version: known.version + 1 + i as u64,
            ..SceneObject::default()
        };
        for (relation, end) in [(RelationKind::On, table.as_str()), (RelationKind::In, room)] {
            records.relations.push(Relation {
                subject: name.clone(),
                relation,
                object: end.into(),
                confidence: 0.95,
                stamp: at(NOW),
                source: Source::Perception,
            });
        }
        records.objects.push(object);
    }
    scene.restore(records, at(NOW)).unwrap();
    scene.set_robot(base, None, at(NOW), at(NOW)).unwrap();
    assert!(scene.graph().get(ROBOT).is_some());
    scene
}

//! Objects over time: identity, absence, executions, bad input.

use std::collections::BTreeMap;
use std::time::Duration;

use eh_contract::command::Precondition;
use eh_contract::geometry::{Pose, Vec3};
use eh_contract::perception::{Detection, DetectionFrame, View};
use eh_contract::scene::{Kind, RelationKind, Source};
use eh_contract::semantic_map::SemanticMap;
use eh_contract::verdict::{Outcome, Verdict};
use eh_contract::{ErrorCode, Stamp};
use eh_scene::lexicon::Lexicon;
use eh_scene::{Observed, Query, Scene, SceneConfig, SceneError};
use proptest::prelude::*;
use serde_json::json;

/// The table's top is at 0.8 m; a cup of 0.1 m stands with its centre at 0.85 m.
const CUP: Vec3 = Vec3::new(2.0, 2.0, 0.85);

fn at(seconds: f64) -> Stamp {
    Stamp::from_secs_f64(seconds)
}

fn map() -> SemanticMap {
    SemanticMap::from_yaml(
        "
name: home
rooms:
  - {id: kitchen, names: {en: [kitchen], zh: [厨房]}, rect: [0, 0, 4, 4]}
  - {id: hall, names: {zh: [走廊]}, rect: [4, 0, 8, 4]}
doors:
  - {id: door_1, between: [kitchen, hall], from: [4, 1.5], to: [4, 2.5]}
furniture:
  - {id: table_1, class: table, center: [2, 2], size: [1.0, 1.0, 0.8], surface: true}
  - {id: shelf, class: shelf, center: [7, 2], size: [0.4, 1.0, 1.0], surface: true}
",
    )
    .unwrap()
}

struct Home {
    scene: Scene,
    now: f64,
}

fn detection(class: &str, position: Vec3) -> Detection {
    let pose = Pose {
        position,
        ..Pose::default()
    };
    Detection {
        id: "0".into(),
        class_name: class.into(),
        confidence: 0.9,
        attributes: BTreeMap::new(),
        pose,
        covariance: [0.0; 9],
        size: Vec3::new(0.08, 0.08, 0.1),
        reference: String::new(),
    }
}

fn coloured(color: &str, position: Vec3) -> Detection {
    let mut d = detection("cup", position);
    d.attributes.insert("color".into(), color.into());
    d
}

/// A camera 1.2 m above the floor at (0.9, 2.0) that looks along x and 20° down: the table's top is in
/// view, from 17° down (its middle) to 34° (its near edge).
fn view() -> View {
    let forward =
        nalgebra::UnitQuaternion::from_quaternion(nalgebra::Quaternion::new(0.5, -0.5, 0.5, -0.5));
    let down =
        nalgebra::UnitQuaternion::from_axis_angle(&nalgebra::Vector3::y_axis(), 20f64.to_radians());
    let q = (down * forward).coords;
    View {
        camera: Pose {
            position: Vec3::new(0.9, 2.0, 1.2),
            orientation: [q.x, q.y, q.z, q.w],
        },
        horizontal_fov: 1.2,
        vertical_fov: 0.95,
        min_range: 0.2,
        max_range: 4.0,
    }
}

impl Home {
    fn new() -> Self {
        let mut scene =
            Scene::new("home", "map", SceneConfig::default(), Lexicon::builtin()).unwrap();
        scene.load_map(&map(), at(99.0));
        scene
            .set_robot(Pose::planar(0.9, 2.0, 0.0), None, at(99.0), at(99.0))
            .unwrap();
        Home { scene, now: 100.0 }
    }

    /// One frame, 0.25 s after the last.
    fn see(&mut self, detections: Vec<Detection>) -> Observed {
        self.see_with(Some(view()), detections)
    }

    fn see_with(&mut self, view: Option<View>, detections: Vec<Detection>) -> Observed {
        self.now += 0.25;
        let frame = DetectionFrame {
            stamp: at(self.now),
            source: "camera".into(),
            view,
            reference: format!("frame/{}", self.now),
            detections,
        };
        self.scene.observe(&frame, at(self.now)).unwrap()
    }

    fn objects(&self) -> Vec<String> {
        self.scene
            .graph()
            .live()
            .filter(|o| o.kind == Kind::Object)
            .map(|o| o.r#ref.clone())
            .collect()
    }

    fn place(&self, name: &str) -> Vec3 {
        self.scene.graph().get(name).unwrap().pose.position
    }

    fn verdict(&self, run: &str) -> Verdict {
        Verdict {
            run_id: run.into(),
            command_id: "c".into(),
            segment: 0,
            outcome: Outcome::Success,
            reason: String::new(),
            predicates: vec![],
            evidence: vec![],
            judge: "predicates".into(),
            judge_version: "1".into(),
            stamp: at(self.now),
        }
    }

    fn apply(&mut self, run: &str, effects: serde_json::Value) -> Result<(), SceneError> {
        let verdict = self.verdict(run);
        self.scene
            .apply_effects(&verdict, &effects.to_string(), at(self.now))
    }
}

#[test]
fn one_cup_seen_often_is_one_cup() {
    let mut h = Home::new();
    assert!(
        h.see(vec![detection("cup", CUP)]).created.is_empty(),
        "one sight is none"
    );
    assert_eq!(h.see(vec![detection("cup", CUP)]).created, ["cup_1"]);
    let version = h.scene.graph().version();
    for i in 0..20 {
        // Noise of 1.5 cm in alternating directions.
        let off = if i % 2 == 0 { 0.015 } else { -0.015 };
        h.see(vec![detection(
            "cup",
            Vec3::new(CUP.x + off, CUP.y - off, CUP.z),
        )]);
    }
    assert_eq!(h.objects(), ["cup_1"]);
    let cup = h.scene.graph().get("cup_1").unwrap();
    assert!(cup.confidence > 0.95);
    assert_eq!(cup.sightings, 22);
    assert!(h.scene.graph().has("cup_1", RelationKind::On, "table_1"));
    assert!(h.scene.graph().has("cup_1", RelationKind::In, "kitchen"));
    // 20 confirmations are no news.
    assert_eq!(h.scene.graph().version(), version);
    assert!(cup.aliases.contains(&"杯子".to_string()));
}

#[test]
fn two_cups_stay_two_and_keep_their_names() {
    let mut h = Home::new();
    let (a, b) = (Vec3::new(2.0, 1.9, 0.85), Vec3::new(2.0, 2.02, 0.85));
    for _ in 0..4 {
        h.see(vec![detection("cup", a), detection("cup", b)]);
    }
    assert_eq!(h.objects().len(), 2);
    // A drift of the localisation by 5 cm moves both: nearest first would give b to a's new sight, the
    // assignment does not.
    let name_a = if h.place("cup_1").y < 1.95 {
        "cup_1"
    } else {
        "cup_2"
    };
    let shift = Vec3::new(0.0, 0.05, 0.0);
    let moved = |p: Vec3| Vec3::new(p.x, p.y + shift.y, p.z);
    for _ in 0..3 {
        h.see(vec![detection("cup", moved(a)), detection("cup", moved(b))]);
    }
    assert_eq!(h.objects().len(), 2);
    assert!(
        (h.place(name_a).y - 1.95).abs() < 0.03,
        "{:?}",
        h.place(name_a)
    );
}

#[test]
fn two_cups_of_two_colours_that_change_places_are_told_apart() {
    let mut h = Home::new();
    let (a, b) = (Vec3::new(2.0, 1.8, 0.85), Vec3::new(2.0, 2.2, 0.85));
    for _ in 0..3 {
        h.see(vec![coloured("red", a), coloured("blue", b)]);
    }
    let red = |h: &Home| {
        h.scene
            .graph()
            .live()
            .find(|o| o.attributes.get("color").map(String::as_str) == Some("red"))
            .map(|o| o.r#ref.clone())
            .unwrap()
    };
    let before = red(&h);
    // Someone swaps them; in steps that a camera follows they pass each other at 0.1 m.
    for i in 1..=8 {
        let t = f64::from(i) / 8.0;
        let (ya, yb) = (1.8 + 0.4 * t, 2.2 - 0.4 * t);
        h.see(vec![
            coloured("red", Vec3::new(1.95, ya, 0.85)),
            coloured("blue", Vec3::new(2.05, yb, 0.85)),
        ]);
    }
    // They come to rest.
    for _ in 0..4 {
        h.see(vec![
            coloured("red", Vec3::new(1.95, 2.2, 0.85)),
            coloured("blue", Vec3::new(2.05, 1.8, 0.85)),
        ]);
    }
    assert_eq!(h.objects().len(), 2);
    assert_eq!(red(&h), before);
    assert!(
        (h.place(&before).y - 2.2).abs() < 0.02,
        "{:?}",
        h.place(&before)
    );
}

#[test]
fn a_cup_behind_a_box_is_not_missed_and_keeps_its_name() {
    let mut h = Home::new();
    for _ in 0..4 {
        h.see(vec![detection("cup", CUP)]);
    }
    let before = h.scene.graph().get("cup_1").unwrap().confidence;
    // A box of 0.3 m is put between camera and cup.
    let mut hidden = detection("box", Vec3::new(1.75, 2.0, 0.95));
    hidden.size = Vec3::new(0.2, 0.3, 0.3);
    for _ in 0..3 {
        h.see(vec![hidden.clone()]);
    }
    let during = h.scene.graph().get("cup_1").unwrap().confidence;
    for _ in 0..20 {
        h.see(vec![hidden.clone()]);
    }
    let after = h.scene.graph().get("cup_1").unwrap().confidence;
    assert!(
        after >= during - 1e-9,
        "once the box is known, absence behind it tells nothing"
    );
    assert!(during > 0.5 * before);
    assert_eq!(h.see(vec![detection("cup", CUP)]).matched, ["cup_1"]);
}

#[test]
fn what_is_looked_for_and_not_found_is_doubted_and_then_retired() {
    let mut h = Home::new();
    for _ in 0..4 {
        h.see(vec![detection("cup", CUP)]);
    }
    let mut last = h.scene.graph().get("cup_1").unwrap().confidence;
    let mut frames = 0;
    while h.scene.graph().get("cup_1").is_some() {
        h.see(vec![]);
        frames += 1;
        let now = h.scene.graph().any("cup_1").unwrap().confidence;
        assert!(now < last);
        last = now;
        assert!(frames < 12, "it is still believed");
    }
    assert!(frames >= 4, "a few misses are the detector's");
    assert!(h.scene.graph().any("cup_1").unwrap().retired);
    // A cup elsewhere is another cup; one in the old place is the old one.
    for _ in 0..2 {
        h.see(vec![detection("cup", Vec3::new(2.0, 2.4, 0.85))]);
    }
    assert_eq!(h.objects(), ["cup_2"]);
    let again: Vec<Observed> = (0..2)
        .map(|_| {
            h.see(vec![
                detection("cup", CUP),
                detection("cup", Vec3::new(2.0, 2.4, 0.85)),
            ])
        })
        .collect();
    assert_eq!(again[1].revived, ["cup_1"]);
    assert_eq!(h.objects(), ["cup_1", "cup_2"]);
    assert!(h.scene.graph().has("cup_1", RelationKind::On, "table_1"));
}

#[test]
fn out_of_view_and_behind_walls_absence_tells_nothing() {
    let mut h = Home::new();
    for _ in 0..4 {
        h.see(vec![detection("cup", CUP)]);
    }
    let cup = h.scene.graph().get("cup_1").unwrap().confidence;
    // Looking away, without a view, and with the table out of range.
    let mut away = view();
    away.camera.position.x = 3.5;
    let mut short = view();
    short.max_range = 0.8;
    for _ in 0..10 {
        h.see_with(Some(away), vec![]);
        h.see_with(None, vec![]);
        h.see_with(Some(short), vec![]);
    }
    assert_eq!(h.scene.graph().get("cup_1").unwrap().confidence, cup);
    // A cup in the hall is hidden from the kitchen by the wall, except through the door at y 1.5 to 2.5.
    let beyond = Vec3::new(7.0, 3.8, 1.05);
    let mut from_hall = view();
    from_hall.camera.position = Vec3::new(5.5, 3.8, 1.5);
    for _ in 0..3 {
        h.see_with(Some(from_hall), vec![detection("cup", beyond)]);
    }
    let name = h.objects().into_iter().find(|n| n != "cup_1").unwrap();
    let known = h.scene.graph().get(&name).unwrap().confidence;
    let mut through_wall = view();
    through_wall.camera.position = Vec3::new(3.2, 3.8, 1.5);
    for _ in 0..5 {
        let o = h.see_with(Some(through_wall), vec![]);
        assert!(!o.missed.contains(&name), "{o:?}");
    }
    assert_eq!(h.scene.graph().get(&name).unwrap().confidence, known);
}

#[test]
fn a_cup_that_was_pushed_while_nobody_looked_is_the_same_cup() {
    let mut h = Home::new();
    for _ in 0..4 {
        h.see(vec![detection("cup", CUP)]);
    }
    h.now += 60.0;
    // 0.45 m off: beyond the gate, so it is first doubted at its old place.
    let elsewhere = Vec3::new(2.0, 2.45, 0.85);
    let mut relocated = Vec::new();
    for _ in 0..6 {
        relocated.extend(h.see(vec![detection("cup", elsewhere)]).relocated);
    }
    // Either way one cup remains in the end; no ghost stays at the old place.
    for _ in 0..12 {
        h.see(vec![detection("cup", elsewhere)]);
    }
    assert_eq!(h.objects().len(), 1);
    assert!((h.place(&h.objects()[0]).y - 2.45).abs() < 0.02);
}

#[test]
fn effects_need_success_and_count_once() {
    let mut h = Home::new();
    for _ in 0..3 {
        h.see(vec![detection("cup", CUP)]);
    }
    let effects = json!({"add": [{"holding": {"object": "cup_1"}}],
                         "remove": [{"on": {"object": "cup_1", "support": "*"}},
                                    {"gripper": {"state": "empty"}}]});
    let mut failed = h.verdict("r0");
    failed.outcome = Outcome::Failure;
    let refused = h
        .scene
        .apply_effects(&failed, &effects.to_string(), at(h.now))
        .unwrap_err();
    assert_eq!(refused.code(), ErrorCode::VerdictNotSuccess);
    assert!(h.scene.graph().has("cup_1", RelationKind::On, "table_1"));

    h.apply("r1", effects.clone()).unwrap();
    assert!(h.scene.graph().has("robot", RelationKind::Holds, "cup_1"));
    assert!(!h.scene.graph().has("cup_1", RelationKind::On, "table_1"));
    let cup = h.scene.graph().get("cup_1").unwrap();
    assert_eq!((cup.source, cup.run_id.as_str()), (Source::Execution, "r1"));
    assert_eq!(h.scene.held_by("cup_1"), Some("robot"));
    let again = h.apply("r1", effects).unwrap_err();
    assert_eq!(again.code(), ErrorCode::AlreadyApplied);
}

#[test]
fn what_is_carried_is_expected_where_the_tool_was_when_the_camera_saw_it() {
    let mut h = Home::new();
    for _ in 0..3 {
        h.see(vec![detection("cup", CUP)]);
    }
    h.apply("r1", json!({"add": [{"holding": {"object": "cup_1"}}]}))
        .unwrap();
    // Carried away at 1 m/s, seen four times a second: 0.25 m from frame to frame, which is more than the
    // distance within which something is taken for what is in the hand.
    let mut tool = Pose {
        position: Vec3::new(CUP.x, CUP.y, CUP.z + 0.25),
        ..Pose::default()
    };
    for _ in 0..8 {
        tool.position.x += 0.25;
        h.now += 0.25;
        let seen = Vec3::new(tool.position.x, tool.position.y + 0.03, tool.position.z);
        let frame = DetectionFrame {
            stamp: at(h.now),
            source: "camera".into(),
            view: Some(view()),
            reference: String::new(),
            detections: vec![detection("cup", seen)],
        };
        h.scene.observe_with_tool(&frame, tool, at(h.now)).unwrap();
    }
    assert_eq!(h.objects(), ["cup_1"]);
    assert!(h.scene.graph().has("robot", RelationKind::Holds, "cup_1"));
}

#[test]
fn what_the_gripper_lifts_is_no_second_object() {
    let mut h = Home::new();
    for _ in 0..3 {
        h.see(vec![detection("cup", CUP)]);
    }
    // The fingers hold the cup and rise, half a metre, before anybody has judged the grasp. A frame without
    // a view proves no absence, so that the cup is not known to have left its place.
    let mut tool = Pose::planar(CUP.x, CUP.y, 0.0);
    for i in 0..10 {
        tool.position.z = CUP.z + 0.05 + 0.05 * f64::from(i);
        h.scene
            .set_robot(
                Pose::planar(1.2, 2.0, 0.0),
                Some(tool),
                at(h.now),
                at(h.now),
            )
            .unwrap();
        let lifted = Vec3::new(CUP.x, CUP.y, tool.position.z - 0.05);
        h.see_with(None, vec![detection("cup", lifted)]);
    }
    for _ in 0..4 {
        let lifted = Vec3::new(CUP.x, CUP.y, tool.position.z - 0.05);
        h.see_with(None, vec![detection("cup", lifted)]);
    }
    assert_eq!(h.objects(), ["cup_1"]);
    // A cup away from the tool is an object of its own.
    for _ in 0..3 {
        h.see_with(
            None,
            vec![detection("cup", Vec3::new(CUP.x, CUP.y + 0.4, CUP.z))],
        );
    }
    assert_eq!(h.objects(), ["cup_1", "cup_2"]);
}

#[test]
fn what_is_held_follows_the_robot_and_is_not_missed() {
    let mut h = Home::new();
    for _ in 0..3 {
        h.see(vec![detection("cup", CUP)]);
    }
    h.apply("r1", json!({"add": [{"holding": {"object": "cup_1"}}]}))
        .unwrap();
    let mut tool = Pose::planar(6.4, 1.0, 0.0);
    tool.position.z = 0.9;
    h.scene
        .set_robot(
            Pose::planar(6.0, 1.0, 0.0),
            Some(tool),
            at(h.now),
            at(h.now),
        )
        .unwrap();
    assert_eq!(h.place("cup_1"), tool.position);
    assert!(h.scene.graph().has("cup_1", RelationKind::In, "hall"));
    let before = h.scene.graph().get("cup_1").unwrap().confidence;
    for _ in 0..10 {
        h.see(vec![]);
    }
    assert_eq!(h.scene.graph().get("cup_1").unwrap().confidence, before);
    // Put down on the shelf, whose top is at 1.0 m.
    let mut over = tool;
    over.position = Vec3::new(6.95, 2.1, 1.1);
    h.scene
        .set_robot(
            Pose::planar(6.3, 2.0, 0.0),
            Some(over),
            at(h.now),
            at(h.now),
        )
        .unwrap();
    h.apply(
        "r2",
        json!({"add": [{"on": {"object": "cup_1", "support": "shelf"}}, {"gripper": {"state": "empty"}}],
               "remove": [{"holding": {"object": "cup_1"}}]}),
    )
    .unwrap();
    assert!(h.scene.graph().has("cup_1", RelationKind::On, "shelf"));
    assert!(!h.scene.graph().has("robot", RelationKind::Holds, "cup_1"));
    // It rests on the top: 1.0 + 0.05.
    let p = h.place("cup_1");
    assert!(
        (p.z - 1.05).abs() < 1e-9 && (p.y - 2.1).abs() < 1e-9,
        "{p:?}"
    );
    assert_eq!(h.scene.held_by("cup_1"), None);
}

/// Holds cup_1, which was taken from the table, above the shelf, whose top is at 1.0 m.
fn holding_above_the_shelf() -> Home {
    let mut h = Home::new();
    for _ in 0..3 {
        h.see(vec![detection("cup", CUP)]);
    }
    h.apply("r1", json!({"add": [{"holding": {"object": "cup_1"}}]}))
        .unwrap();
    h.hand_at(Vec3::new(6.95, 2.1, 1.1));
    h
}

impl Home {
    fn hand_at(&mut self, position: Vec3) {
        let tool = Pose {
            position,
            ..Pose::default()
        };
        let base = Pose::planar(6.3, 2.0, 0.0);
        self.scene
            .set_robot(base, Some(tool), at(self.now), at(self.now))
            .unwrap();
    }

    fn put_on_the_shelf(&mut self) {
        self.apply(
            "r2",
            json!({"add": [{"on": {"object": "cup_1", "support": "shelf"}}, {"gripper": {"state": "empty"}}],
                   "remove": [{"holding": {"object": "cup_1"}}]}),
        )
        .unwrap();
    }
}

#[test]
fn what_was_put_down_and_seen_before_the_verdict_keeps_its_name() {
    let mut h = holding_above_the_shelf();
    // The fingers open and the hand goes back by 0.3 m, farther than what it handles can be.
    h.hand_at(Vec3::new(6.65, 2.1, 1.1));
    let there = Vec3::new(6.95, 2.1, 1.05);
    for _ in 0..3 {
        h.see_with(None, vec![detection("cup", there)]);
    }
    assert_eq!(h.objects(), ["cup_1", "cup_2"]);
    h.put_on_the_shelf();
    assert_eq!(h.objects(), ["cup_1"]);
    assert!(h.scene.graph().has("cup_1", RelationKind::On, "shelf"));
    assert!(h.place("cup_1").distance(there) < 0.01);
    assert_eq!(h.scene.graph().any("cup_2").unwrap().merged_into, "cup_1");
    for _ in 0..3 {
        h.see_with(None, vec![detection("cup", there)]);
    }
    assert_eq!(h.objects(), ["cup_1"]);
}

#[test]
fn what_stood_there_before_is_not_what_was_put_down() {
    let mut h = Home::new();
    let other = Vec3::new(6.95, 1.7, 1.05);
    for _ in 0..3 {
        h.see_with(None, vec![detection("cup", CUP), detection("cup", other)]);
    }
    assert_eq!(h.objects(), ["cup_1", "cup_2"]);
    let (ours, theirs) = if h.place("cup_1").distance(CUP) < 0.1 {
        ("cup_1", "cup_2")
    } else {
        ("cup_2", "cup_1")
    };
    h.apply("r1", json!({"add": [{"holding": {"object": ours}}]}))
        .unwrap();
    h.hand_at(Vec3::new(6.95, 2.2, 1.1));
    h.apply(
        "r2",
        json!({"add": [{"on": {"object": ours, "support": "shelf"}}],
               "remove": [{"holding": {"object": ours}}]}),
    )
    .unwrap();
    assert_eq!(h.objects(), ["cup_1", "cup_2"]);
    assert!(h.place(theirs).distance(other) < 0.05);
}

#[test]
fn what_was_put_down_is_found_though_the_hand_had_gone_on() {
    let mut h = holding_above_the_shelf();
    // Its place is written down when the hand is 0.45 m further along the shelf than where it let go.
    h.hand_at(Vec3::new(6.95, 2.4, 1.1));
    h.put_on_the_shelf();
    let there = Vec3::new(6.95, 1.95, 1.05);
    for _ in 0..3 {
        h.see_with(None, vec![detection("cup", there)]);
    }
    assert_eq!(h.objects(), ["cup_1"]);
    assert!(h.place("cup_1").distance(there) < 0.05);
    // Seen once, it is where it was seen: a cup as far from there is another one.
    for _ in 0..3 {
        let another = Vec3::new(6.95, 2.4, 1.05);
        h.see_with(
            None,
            vec![detection("cup", there), detection("cup", another)],
        );
    }
    assert_eq!(h.objects(), ["cup_1", "cup_2"]);
}

#[test]
fn a_cup_seen_where_it_was_is_not_held_whatever_an_execution_said() {
    let mut h = Home::new();
    for _ in 0..3 {
        h.see(vec![detection("cup", CUP)]);
    }
    let mut tool = Pose::planar(1.5, 2.0, 0.0);
    tool.position.z = 1.1;
    h.apply("r1", json!({"add": [{"holding": {"object": "cup_1"}}]}))
        .unwrap();
    h.scene
        .set_robot(
            Pose::planar(0.9, 2.0, 0.0),
            Some(tool),
            at(h.now),
            at(h.now),
        )
        .unwrap();
    let mut released = Vec::new();
    for _ in 0..3 {
        released.extend(h.see(vec![detection("cup", CUP)]).released);
    }
    assert_eq!(released, ["cup_1"]);
    assert_eq!(h.objects(), ["cup_1"]);
    assert!(!h.scene.graph().has("robot", RelationKind::Holds, "cup_1"));
    assert!(h.scene.graph().has("cup_1", RelationKind::On, "table_1"));
    assert_eq!(
        h.scene.graph().get("cup_1").unwrap().source,
        Source::Perception
    );
}

#[test]
fn an_execution_that_perception_contradicts_later_is_overruled() {
    let mut h = Home::new();
    for _ in 0..3 {
        h.see(vec![detection("cup", CUP)]);
    }
    h.apply(
        "r1",
        json!({"add": [{"on": {"object": "cup_1", "support": "table_1"}}]}),
    )
    .unwrap();
    assert_eq!(
        h.scene.graph().get("cup_1").unwrap().source,
        Source::Execution
    );
    // It is seen on the floor beside the table.
    let floor = Vec3::new(1.3, 2.0, 0.05);
    for _ in 0..12 {
        h.see(vec![detection("cup", floor)]);
    }
    let live = h.objects();
    assert_eq!(live.len(), 1, "{live:?}");
    assert!(!h.scene.graph().has(&live[0], RelationKind::On, "table_1"));
    assert_eq!(
        h.scene.graph().get(&live[0]).unwrap().source,
        Source::Perception
    );
}

#[test]
fn effects_that_make_no_sense_change_nothing() {
    let mut h = Home::new();
    for _ in 0..3 {
        h.see(vec![detection("cup", CUP)]);
    }
    let before = h.scene.snapshot();
    let cases = [
        (
            json!({"add": [{"holding": {"object": "cup_9"}}]}),
            ErrorCode::RefNotFound,
        ),
        (
            json!({"add": [{"holding": {"object": "*"}}]}),
            ErrorCode::SceneInvalidRequest,
        ),
        (
            json!({"add": [{"any": []}]}),
            ErrorCode::SceneInvalidRequest,
        ),
        (
            json!({"add": [{"fly": {}}]}),
            ErrorCode::SceneInvalidRequest,
        ),
        (json!({"plus": []}), ErrorCode::SceneInvalidRequest),
        (json!([]), ErrorCode::SceneInvalidRequest),
        (
            // The first is fine, the second is not: neither is applied.
            json!({"add": [{"holding": {"object": "cup_1"}}, {"on": {"object": "cup_1", "support": "x"}}]}),
            ErrorCode::RefNotFound,
        ),
    ];
    for (effects, code) in cases {
        assert_eq!(
            h.apply("r", effects.clone()).unwrap_err().code(),
            code,
            "{effects}"
        );
    }
    assert_eq!(h.scene.snapshot(), before);
    // The issuer's own place need not be known here.
    h.apply(
        "r",
        json!({"add": [{"near": {"target": "start"}}], "remove": [{"near": {"target": "*"}}]}),
    )
    .unwrap();
}

#[test]
fn preconditions_are_checked_at_one_version() {
    let mut h = Home::new();
    for _ in 0..3 {
        h.see(vec![detection("cup", CUP)]);
    }
    let version = h.scene.graph().get("cup_1").unwrap().version;
    let base = Precondition {
        r#ref: "cup_1".into(),
        version,
        same_version: true,
        max_age: Duration::from_secs(5),
        max_displacement: 0.1,
        predicates: json!({"on": {"object": "cup_1", "support": "table_1"}}),
    };
    let now = at(h.now);
    assert_eq!(h.scene.check(std::slice::from_ref(&base), now), Ok(()));
    let code = |h: &Home, p: Precondition, now: Stamp| {
        let error = h.scene.check(&[p], now).unwrap_err();
        (error.code(), error.failed_precondition())
    };
    let stale = (ErrorCode::SceneStalePrecondition, Some(0));
    assert_eq!(code(&h, base.clone(), at(h.now + 6.0)), stale);
    let gone = Precondition {
        r#ref: "cup_7".into(),
        ..base.clone()
    };
    assert_eq!(code(&h, gone, now).0, ErrorCode::RefNotFound);
    let unmet = Precondition {
        predicates: json!({"holding": {"object": "cup_1"}}),
        ..base.clone()
    };
    assert_eq!(code(&h, unmet, now), (ErrorCode::PredicateNotMet, Some(0)));
    let unknown = Precondition {
        predicates: json!({"stationary": {}}),
        ..base.clone()
    };
    assert_eq!(code(&h, unknown, now).0, ErrorCode::PredicateNotMet);
    let nan = Precondition {
        max_displacement: f64::NAN,
        ..base.clone()
    };
    assert_eq!(code(&h, nan, now).0, ErrorCode::SceneInvalidRequest);
    // The cup moves by 0.15 m in two steps that the tracker follows.
    for y in [2.08, 2.15, 2.15, 2.15, 2.15, 2.15, 2.15, 2.15] {
        h.see(vec![detection("cup", Vec3::new(2.0, y, 0.85))]);
    }
    let now = at(h.now);
    assert_eq!(code(&h, base.clone(), now), stale);
    let loose = Precondition {
        same_version: false,
        ..base.clone()
    };
    assert_eq!(
        code(&h, loose.clone(), now),
        stale,
        "it moved by more than 0.1 m"
    );
    let wide = Precondition {
        max_displacement: 0.5,
        ..loose
    };
    assert_eq!(h.scene.check(&[wide], now), Ok(()));
}

#[test]
fn queries_filter_and_bad_ones_are_refused() {
    let mut h = Home::new();
    for _ in 0..3 {
        h.see(vec![
            coloured("red", CUP),
            coloured("blue", Vec3::new(2.0, 2.3, 0.85)),
            detection("bottle", Vec3::new(1.8, 1.7, 0.85)),
        ]);
    }
    let find = |q: Query| -> Vec<String> {
        h.scene
            .find(&q)
            .unwrap()
            .0
            .into_iter()
            .map(|o| o.r#ref)
            .collect()
    };
    let text = |t: &str| {
        find(Query {
            text: t.into(),
            ..Query::default()
        })
    };
    assert_eq!(text("cups").len(), 2);
    assert_eq!(text("杯子").len(), 2);
    assert_eq!(text("the red cup").len(), 1);
    assert_eq!(text("红色的杯子").len(), 1);
    assert_eq!(text("厨房"), ["kitchen"]);
    assert!(text("xyzzy").is_empty());
    assert!(text("的").is_empty());
    let in_kitchen = Query {
        class_name: "cup".into(),
        within: "kitchen".into(),
        ..Query::default()
    };
    assert_eq!(find(in_kitchen.clone()).len(), 2);
    assert!(find(Query {
        within: "hall".into(),
        ..in_kitchen.clone()
    })
    .is_empty());
    assert_eq!(
        find(Query {
            within: "building".into(),
            ..in_kitchen.clone()
        })
        .len(),
        2
    );
    let nearest = Query {
        nearest: Some(Vec3::new(1.8, 1.6, 0.0)),
        max_distance: 0.3,
        ..Query::default()
    };
    let near = find(nearest);
    assert!(
        near.contains(&"bottle_1".to_string()) && !near.contains(&"cup_2".to_string()),
        "{near:?}"
    );
    let refused = |q: Query| h.scene.find(&q).unwrap_err().code();
    assert_eq!(
        refused(Query {
            max_distance: f64::NAN,
            ..Query::default()
        }),
        ErrorCode::SceneInvalidRequest
    );
    assert_eq!(
        refused(Query {
            nearest: Some(Vec3::new(f64::INFINITY, 0.0, 0.0)),
            ..Query::default()
        }),
        ErrorCode::SceneInvalidRequest
    );
    assert_eq!(
        refused(Query {
            within: "moon".into(),
            ..Query::default()
        }),
        ErrorCode::RefNotFound
    );
    assert_eq!(
        refused(Query {
            text: "a".repeat(10_000),
            ..Query::default()
        }),
        ErrorCode::SceneInvalidRequest
    );
}

#[test]
fn a_brief_keeps_what_the_task_names_within_the_budget() {
    let mut h = Home::new();
    // 60 objects on a grid, and one cup.
    let mut all = vec![detection("cup", Vec3::new(2.4, 2.4, 0.85))];
    for i in 0..60 {
        let (x, y) = (0.2 + 0.3 * f64::from(i % 10), 0.2 + 0.3 * f64::from(i / 10));
        all.push(detection("book", Vec3::new(x, y, 0.05)));
    }
    for _ in 0..2 {
        h.see_with(None, all.clone());
    }
    assert!(h.objects().len() > 50);
    let brief = h.scene.brief("去厨房拿杯子", 120, at(h.now));
    assert!(
        brief.contains("cup_1") && brief.contains("kitchen"),
        "{brief}"
    );
    assert!(eh_scene::brief::tokens(&brief) <= 120, "{brief}");
    assert!(brief.contains("more; ask with find"));
    let whole = serde_json::to_string(&h.scene.snapshot()).unwrap();
    let brief = h.scene.brief("bring the cup", 0, at(h.now));
    assert!(
        brief.len() * 10 <= whole.len(),
        "{} of {}",
        brief.len(),
        whole.len()
    );
}

#[test]
fn what_changed_since_a_version_is_told() {
    let mut h = Home::new();
    for _ in 0..3 {
        h.see(vec![detection("cup", CUP)]);
    }
    let version = h.scene.graph().version();
    assert!(h.scene.changes_since(version).0.is_empty());
    for _ in 0..3 {
        h.see(vec![
            detection("cup", CUP),
            detection("bowl", Vec3::new(2.0, 2.3, 0.85)),
        ]);
    }
    let (objects, relations) = h.scene.changes_since(version);
    assert!(objects.iter().any(|o| o.r#ref == "bowl_1"));
    assert!(!objects.iter().any(|o| o.r#ref == "cup_1"));
    assert!(relations
        .iter()
        .any(|r| r.subject == "bowl_1" && r.relation == RelationKind::On));
}

#[test]
fn furniture_that_was_looked_at_is_marked() {
    let mut h = Home::new();
    assert!(!h
        .scene
        .graph()
        .get("table_1")
        .unwrap()
        .state
        .contains_key("seen_at"));
    h.see(vec![]);
    let seen = h
        .scene
        .graph()
        .get("table_1")
        .unwrap()
        .state
        .get("seen_at")
        .cloned();
    assert_eq!(seen, Some(at(h.now).0.to_string()));
    assert!(!h
        .scene
        .graph()
        .get("shelf")
        .unwrap()
        .state
        .contains_key("seen_at"));
}

#[test]
fn a_restart_keeps_names_places_and_ages() {
    let mut h = Home::new();
    for _ in 0..3 {
        h.see(vec![detection("cup", CUP)]);
    }
    h.apply("r1", json!({"add": [{"arm": {"pose": "stow"}}]}))
        .unwrap();
    let records = h.scene.take_changes();
    let seen = h.scene.graph().get("cup_1").unwrap().last_seen;

    let fresh = || Scene::new("home", "map", SceneConfig::default(), Lexicon::builtin()).unwrap();
    let mut again = fresh();
    again.restore(records.clone(), at(h.now + 100.0)).unwrap();
    again.load_map(&map(), at(h.now + 100.0));
    let cup = again.graph().get("cup_1").unwrap();
    assert_eq!(cup.last_seen, seen);
    assert_eq!(cup.pose, h.scene.graph().get("cup_1").unwrap().pose);
    assert!(again.graph().has("cup_1", RelationKind::On, "table_1"));
    assert!(again.graph().version() >= records.version);
    let h2 = Home {
        scene: again,
        now: h.now + 100.0,
    };
    let mut h2 = h2;
    // The same cup is recognised, another one gets another name, an effect is not applied again.
    assert_eq!(h2.see(vec![detection("cup", CUP)]).matched, ["cup_1"]);
    for _ in 0..2 {
        h2.see(vec![
            detection("cup", CUP),
            detection("cup", Vec3::new(2.0, 2.4, 0.85)),
        ]);
    }
    assert_eq!(h2.objects(), ["cup_1", "cup_2"]);
    let repeated = h2.apply("r1", json!({})).unwrap_err();
    assert_eq!(repeated.code(), ErrorCode::AlreadyApplied);

    // Another map's records are refused; a clock that runs behind makes ages unknown.
    let mut other =
        Scene::new("office", "map", SceneConfig::default(), Lexicon::builtin()).unwrap();
    assert!(other.restore(records.clone(), at(200.0)).is_err());
    let mut early = fresh();
    early.restore(records, at(10.0)).unwrap();
    assert!(early.graph().get("cup_1").unwrap().last_seen.is_never());
}

#[test]
fn a_clock_that_is_set_back_forgets_ages_and_goes_on() {
    let mut h = Home::new();
    for _ in 0..3 {
        h.see(vec![detection("cup", CUP)]);
    }
    h.now = 20.0;
    assert_eq!(h.see(vec![detection("cup", CUP)]).matched, ["cup_1"]);
    assert_eq!(h.scene.graph().get("cup_1").unwrap().last_seen, at(h.now));
}

#[test]
fn frames_that_are_late_early_or_out_of_order_are_refused() {
    let mut h = Home::new();
    h.see(vec![]);
    let frame = |seconds: f64| DetectionFrame {
        stamp: at(seconds),
        source: "camera".into(),
        view: None,
        reference: String::new(),
        detections: vec![],
    };
    let now = h.now;
    let mut err = |seconds: f64| h.scene.observe(&frame(seconds), at(now)).unwrap_err();
    assert!(matches!(err(now), SceneError::OldFrame { .. }));
    assert!(matches!(err(now - 10.0), SceneError::StaleFrame { .. }));
    assert!(matches!(err(now + 2.0), SceneError::FutureFrame { .. }));
    let mut blind = frame(now + 0.1);
    blind.view = Some(View {
        horizontal_fov: f64::NAN,
        ..view()
    });
    assert!(h.scene.observe(&blind, at(now + 0.1)).is_err());
}

#[test]
fn one_bad_detection_does_not_blind_the_others_but_proves_no_absence() {
    let mut h = Home::new();
    let second = Vec3::new(2.0, 2.3, 0.85);
    for _ in 0..3 {
        h.see(vec![detection("cup", CUP), detection("cup", second)]);
    }
    let mut bad = detection("cup", second);
    bad.covariance[0] = f64::NAN;
    let before = h.scene.graph().get("cup_2").unwrap().confidence;
    let report = h.see(vec![detection("cup", CUP), bad]);
    assert_eq!(report.left_out, 1);
    assert!(report.refused[0].contains("NaN"), "{:?}", report.refused);
    assert!(report.missed.is_empty());
    assert_eq!(h.scene.graph().get("cup_2").unwrap().confidence, before);
}

#[test]
fn a_flood_is_bounded() {
    let config = SceneConfig {
        max_detections: 50,
        max_objects: 60,
        max_candidates: 30,
        ..SceneConfig::default()
    };
    let mut scene = Scene::new("home", "map", config, Lexicon::builtin()).unwrap();
    scene.load_map(&map(), at(99.0));
    for k in 0..20 {
        let detections: Vec<Detection> = (0..1000)
            .map(|i| {
                let (x, y) = (f64::from(i % 40), f64::from(i / 40) + f64::from(k));
                detection("thing", Vec3::new(x, y, 0.1))
            })
            .collect();
        let now = at(100.0 + f64::from(k));
        let frame = DetectionFrame {
            stamp: now,
            source: "camera".into(),
            view: None,
            reference: String::new(),
            detections,
        };
        let report = scene.observe(&frame, now).unwrap();
        assert!(report.left_out >= 950);
        assert!(scene.graph().len() <= 60);
    }
}

#[test]
fn a_misread_class_makes_no_second_object_and_can_be_outvoted() {
    let mut h = Home::new();
    for _ in 0..3 {
        h.see(vec![detection("bowl", CUP)]);
    }
    assert_eq!(h.objects(), ["bowl_1"]);
    for _ in 0..12 {
        h.see(vec![detection("cup", CUP)]);
    }
    assert_eq!(h.objects(), ["bowl_1"], "a name is never changed");
    assert_eq!(h.scene.graph().get("bowl_1").unwrap().class_name, "cup");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Cups further apart than the noise stay as many as they are, with steady names.
    #[test]
    fn as_many_objects_as_there_are(
        seed in proptest::collection::vec((0u32..8, 0u32..4), 1..6),
        noise in proptest::collection::vec((-0.02f64..0.02, -0.02f64..0.02, -0.01f64..0.01), 40),
    ) {
        let mut cells: Vec<(u32, u32)> = seed;
        cells.sort_unstable();
        cells.dedup();
        let mut h = Home::new();
        let mut k = 0;
        let mut names = Vec::new();
        for round in 0..6 {
            let detections = cells.iter().map(|(i, j)| {
                let (dx, dy, dz) = noise[k % noise.len()];
                k += 1;
                detection("cup", Vec3::new(
                    1.6 + 0.12 * f64::from(*i) + dx, 1.7 + 0.15 * f64::from(*j) + dy, 0.85 + dz))
            }).collect();
            h.see_with(None, detections);
            if round >= 1 {
                let now = h.objects();
                prop_assert_eq!(now.len(), cells.len());
                if round > 1 {
                    prop_assert_eq!(&now, &names);
                }
                names = now;
            }
        }
    }

    /// Whatever numbers come, nothing panics, nothing that is not finite gets in, memory is bounded.
    #[test]
    fn any_numbers_are_survived(
        values in proptest::collection::vec(
            (any::<f64>(), any::<f64>(), any::<f64>(), any::<f64>(), -0.5f64..1.5), 0..20),
    ) {
        let mut h = Home::new();
        let detections: Vec<Detection> = values.iter().map(|(x, y, z, c, s)| {
            let mut d = detection("cup", Vec3::new(*x, *y, *z));
            d.covariance[0] = *c;
            d.confidence = *s;
            d
        }).collect();
        for _ in 0..3 {
            h.see(detections.clone());
        }
        for o in h.scene.graph().all() {
            prop_assert!(o.pose.check("x").is_ok(), "{o:?}");
            prop_assert!(o.confidence.is_finite() && (0.0..=1.0).contains(&o.confidence));
        }
    }
}

#[test]
fn a_person_out_of_view_is_doubted_and_a_cup_is_not() {
    let mut h = Home::new();
    // Standing beside the table, and then nobody looks.
    let mut person = detection("person", Vec3::new(CUP.x, CUP.y - 1.0, 0.9));
    person.size = Vec3::new(0.5, 0.5, 1.8);
    for _ in 0..6 {
        h.see(vec![detection("cup", CUP), person.clone()]);
    }
    let confidence = |h: &Home, name: &str| h.scene.graph().get(name).map(|o| o.confidence);
    let (cup, before) = (
        confidence(&h, "cup_1").unwrap(),
        confidence(&h, "person_1").unwrap(),
    );
    let seen = h.now;
    // Once a second as the node does it, or once for all of the time: half is left after a half-life.
    for second in 1..=60 {
        h.scene.advance(at(seen + f64::from(second)));
    }
    let left = confidence(&h, "person_1").unwrap();
    assert!((left - before / 2.0).abs() < 1e-9, "{before} {left}");
    h.scene.advance(at(seen + 120.0));
    let left = confidence(&h, "person_1").unwrap();
    assert!((left - before / 4.0).abs() < 1e-9, "{before} {left}");
    // A restart does not make it surer: what passed meanwhile counts.
    let records = h.scene.take_changes();
    let mut again = Scene::new("home", "map", SceneConfig::default(), Lexicon::builtin()).unwrap();
    again.restore(records, at(seen + 120.0)).unwrap();
    again.advance(at(seen + 180.0));
    let left = again.graph().get("person_1").unwrap().confidence;
    assert!((left - before / 8.0).abs() < 1e-9, "{before} {left}");
    // At last nobody believes it any more; the cup stays where it was.
    h.scene.advance(at(seen + 1000.0));
    assert_eq!(confidence(&h, "person_1"), None);
    assert_eq!(confidence(&h, "cup_1"), Some(cup));
}

//! What the fingers feel, against what perception sees and executions say.

use std::collections::BTreeMap;

use eh_contract::belief::{evaluate, STATE_GRIPPER};
use eh_contract::condition::Condition;
use eh_contract::geometry::{Pose, Vec3};
use eh_contract::perception::{Detection, DetectionFrame};
use eh_contract::scene::{Kind, RelationKind, Source};
use eh_contract::semantic_map::SemanticMap;
use eh_contract::verdict::{Outcome, Truth, Verdict};
use eh_contract::{ErrorCode, Stamp};
use eh_scene::lexicon::Lexicon;
use eh_scene::{Felt, GripReading, Scene, SceneConfig};
use serde_json::json;

/// The table's top is at 0.8 m; a cup of 0.1 m stands with its centre at 0.85 m.
const CUP: Vec3 = Vec3::new(2.0, 2.0, 0.85);
/// Readings come every 0.1 s; this many last longer than the 0.4 s after which a state counts.
const SETTLED: usize = 6;
/// Width and force: between open (0.09 m) and closed (0.004 m), with more and less than 1 N.
const OPEN: (f64, Option<f64>) = (0.1, Some(0.0));
const CLOSED: (f64, Option<f64>) = (0.001, Some(5.0));
const GRIPPING: (f64, Option<f64>) = (0.07, Some(20.0));
const LOOSE: (f64, Option<f64>) = (0.05, Some(0.2));

fn at(seconds: f64) -> Stamp {
    Stamp::from_secs_f64(seconds)
}

struct Home {
    scene: Scene,
    now: f64,
    tool: Vec3,
}

fn cup(position: Vec3) -> Detection {
    Detection {
        id: "0".into(),
        class_name: "cup".into(),
        confidence: 0.9,
        attributes: BTreeMap::new(),
        pose: Pose {
            position,
            ..Pose::default()
        },
        covariance: [0.0; 9],
        size: Vec3::new(0.08, 0.08, 0.1),
        reference: String::new(),
    }
}

impl Home {
    fn with(config: SceneConfig) -> Self {
        let map = SemanticMap::from_yaml(
            "
name: home
rooms:
  - {id: kitchen, rect: [0, 0, 4, 4]}
furniture:
  - {id: table_1, class: table, center: [2, 2], size: [1.0, 1.0, 0.8], surface: true}
  - {id: shelf, class: shelf, center: [3, 3.5], size: [0.4, 0.4, 1.0], surface: true}
",
        )
        .unwrap();
        let mut scene = Scene::new("home", "map", config, Lexicon::builtin()).unwrap();
        scene.load_map(&map, at(99.0));
        let mut home = Home {
            scene,
            now: 100.0,
            tool: Vec3::new(1.5, 2.0, 1.1),
        };
        home.hand_at(home.tool);
        home
    }

    /// A cup on the table, the fingers open around it.
    fn about_to_grasp() -> Self {
        let mut home = Home::with(SceneConfig::default());
        home.see(&[CUP]);
        home.see(&[CUP]);
        home.feel(OPEN, SETTLED);
        home.hand_at(CUP);
        home
    }

    fn hand_at(&mut self, position: Vec3) {
        self.tool = position;
        let tool = Pose {
            position,
            ..Pose::default()
        };
        let base = Pose::planar(1.2, 2.0, 0.0);
        self.scene
            .set_robot(base, Some(tool), at(self.now), at(self.now))
            .unwrap();
    }

    /// A frame 0.25 s after the last; without a view it proves no absence.
    fn see(&mut self, cups: &[Vec3]) {
        self.now += 0.25;
        self.see_late(self.now, cups);
    }

    /// A frame that was taken at a time and is worked off now.
    fn see_late(&mut self, stamp: f64, cups: &[Vec3]) {
        let frame = DetectionFrame {
            stamp: at(stamp),
            source: "camera".into(),
            view: None,
            reference: String::new(),
            detections: cups.iter().map(|p| cup(*p)).collect(),
        };
        self.scene.observe(&frame, at(self.now)).unwrap();
    }

    fn feel(&mut self, (width, effort): (f64, Option<f64>), count: usize) -> Felt {
        let mut all = Felt::default();
        for _ in 0..count {
            self.now += 0.1;
            let reading = GripReading {
                stamp: at(self.now),
                width,
                effort,
            };
            let felt = self.scene.feel_gripper(&reading, at(self.now)).unwrap();
            all.gripper = felt.gripper.or(all.gripper);
            all.taken = felt.taken.or(all.taken);
            all.let_go.extend(felt.let_go);
        }
        all
    }

    fn apply(&mut self, run: &str, stamp: f64, effects: serde_json::Value) {
        let verdict = Verdict {
            run_id: run.into(),
            command_id: "c".into(),
            segment: 0,
            outcome: Outcome::Success,
            reason: String::new(),
            predicates: vec![],
            evidence: vec![],
            judge: "predicates".into(),
            judge_version: "1".into(),
            stamp: at(stamp),
        };
        self.scene
            .apply_effects(&verdict, &effects.to_string(), at(self.now))
            .unwrap();
    }

    fn picked(&mut self, run: &str, stamp: f64) {
        self.apply(
            run,
            stamp,
            json!({"add": [{"holding": {"object": "cup_1"}}],
                   "remove": [{"on": {"object": "cup_1", "support": "*"}},
                              {"gripper": {"state": "empty"}}]}),
        );
    }

    fn placed(&mut self, run: &str, stamp: f64) {
        self.apply(
            run,
            stamp,
            json!({"add": [{"on": {"object": "cup_1", "support": "shelf"}},
                           {"gripper": {"state": "empty"}}],
                   "remove": [{"holding": {"object": "cup_1"}}]}),
        );
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

    fn holds(&self, name: &str) -> bool {
        self.scene.graph().has("robot", RelationKind::Holds, name)
    }

    fn gripper(&self) -> Option<&str> {
        let robot = self.scene.graph().get("robot").unwrap();
        robot.state.get(STATE_GRIPPER).map(String::as_str)
    }

    fn truth(&self, condition: serde_json::Value) -> Truth {
        let condition = Condition::from_value(&condition).unwrap();
        evaluate(&condition, &self.scene.snapshot(), at(self.now)).truth
    }
}

#[test]
fn a_grasp_that_nobody_judged_is_felt() {
    let mut h = Home::about_to_grasp();
    assert_eq!(h.gripper(), Some("open"));
    assert_eq!(h.feel(GRIPPING, 4), Felt::default(), "0.3 s are too short");
    let felt = h.feel(GRIPPING, 2);
    assert_eq!(felt.taken.as_deref(), Some("cup_1"));
    assert_eq!(felt.gripper, Some("holding"));
    assert!(h.holds("cup_1"));
    let edge = h.scene.graph().edge("robot", RelationKind::Holds, "cup_1");
    assert_eq!(edge.unwrap().source, Source::Perception);
    assert!(!h.scene.graph().has("cup_1", RelationKind::On, "table_1"));
    assert_eq!(h.scene.held_by("cup_1"), Some("robot"));
    // It follows the hand, and an instruction to put it on the table is not done.
    h.hand_at(Vec3::new(1.6, 2.0, 1.2));
    assert_eq!(h.place("cup_1"), h.tool);
    let on = json!({"on": {"object": "cup_1", "support": "table_1"}});
    assert_eq!(h.truth(on), Truth::False);
    assert_eq!(
        h.truth(json!({"holding": {"object": "cup_1"}})),
        Truth::True
    );
}

#[test]
fn a_lift_before_the_state_counts_does_not_hide_what_was_grasped() {
    let mut h = Home::about_to_grasp();
    h.feel(GRIPPING, 2);
    // Up by 0.15 m within the 0.4 s: the box ends 0.07 m above the cup's centre.
    h.hand_at(Vec3::new(CUP.x, CUP.y, CUP.z + 0.15));
    assert_eq!(h.feel(GRIPPING, 4).taken.as_deref(), Some("cup_1"));
    assert_eq!(h.place("cup_1"), h.tool);
}

#[test]
fn the_verdict_after_it_counts_once_and_keeps_where_it_was_taken_from() {
    let mut h = Home::about_to_grasp();
    h.feel(GRIPPING, SETTLED);
    h.hand_at(Vec3::new(1.4, 2.0, 1.3));
    h.picked("r1", h.now);
    let edge = h.scene.graph().edge("robot", RelationKind::Holds, "cup_1");
    assert_eq!(edge.unwrap().source, Source::Execution);
    let object = h.scene.graph().get("cup_1").unwrap();
    assert_eq!(
        (object.source, object.run_id.as_str()),
        (Source::Execution, "r1")
    );
    assert_eq!(h.gripper(), Some("holding"));
    // The fingers hold something else: the cup is seen where it stood, 0.75 m from the hand.
    h.see(&[CUP]);
    h.see(&[CUP]);
    assert!(!h.holds("cup_1"));
    assert!(h.place("cup_1").distance(CUP) < 0.02);
    // And what was seen to be somewhere else is not taken for it again.
    assert_eq!(h.feel(GRIPPING, SETTLED).taken, None);
    assert_eq!(h.gripper(), Some("holding"));
    assert_eq!(h.objects(), ["cup_1"]);
}

#[test]
fn of_two_between_the_fingers_neither_is_claimed_and_neither_is_sure() {
    let mut h = Home::with(SceneConfig::default());
    // 0.09 m apart: the hand is 0.045 m from both, within half a cup (0.04 m) and the margin (0.02 m).
    let two = [Vec3::new(2.0, 1.955, 0.85), Vec3::new(2.0, 2.045, 0.85)];
    h.see(&two);
    h.see(&two);
    assert_eq!(h.objects(), ["cup_1", "cup_2"]);
    h.hand_at(CUP);
    let felt = h.feel(GRIPPING, SETTLED);
    assert_eq!((felt.taken, felt.gripper), (None, Some("holding")));
    for name in h.objects() {
        let on = json!({"on": {"object": name, "support": "table_1"}});
        assert_eq!(h.truth(on), Truth::Unknown);
        assert_eq!(
            h.truth(json!({"holding": {"object": name}})),
            Truth::Unknown
        );
    }
    assert_eq!(
        h.truth(json!({"gripper": {"state": "empty"}})),
        Truth::False
    );
    // One is seen standing there after the hand has gone up: that one is sure again.
    h.hand_at(Vec3::new(2.0, 2.0, 1.3));
    h.see(&two[..1]);
    let sure: Vec<Truth> = h
        .objects()
        .iter()
        .map(|name| h.truth(json!({"on": {"object": name, "support": "table_1"}})))
        .collect();
    assert!(sure.contains(&Truth::True) && sure.contains(&Truth::Unknown));
}

#[test]
fn nothing_or_something_old_between_the_fingers_is_not_claimed() {
    let mut h = Home::about_to_grasp();
    h.hand_at(Vec3::new(2.2, 2.0, 0.85));
    assert_eq!(h.feel(GRIPPING, SETTLED).taken, None);
    // Seen more than a minute before: whether it still stands there nobody knows.
    let mut h = Home::about_to_grasp();
    h.now += 61.0;
    assert_eq!(h.feel(GRIPPING, SETTLED).taken, None);
    assert_eq!(h.gripper(), Some("holding"));
    // Seen between the fingers since, it is it.
    h.see(&[CUP]);
    assert_eq!(h.feel(GRIPPING, 1).taken.as_deref(), Some("cup_1"));
}

#[test]
fn what_falls_out_of_the_hand_is_found_below_by_its_name() {
    for fingers in [OPEN, CLOSED, LOOSE] {
        let mut h = Home::about_to_grasp();
        h.feel(GRIPPING, SETTLED);
        h.picked("r1", h.now);
        h.hand_at(Vec3::new(1.2, 1.0, 1.0));
        let before = h.scene.graph().get("cup_1").unwrap().confidence;
        let felt = h.feel(fingers, SETTLED);
        assert_eq!(felt.let_go, ["cup_1"]);
        assert!(!h.holds("cup_1"));
        assert_eq!(h.scene.held_by("cup_1"), None);
        assert!(h.scene.graph().get("cup_1").unwrap().confidence < before);
        let on = json!({"on": {"object": "cup_1", "support": "table_1"}});
        assert_ne!(h.truth(on), Truth::True);
        // On the floor, 0.95 m below.
        let floor = Vec3::new(1.3, 1.1, 0.05);
        h.see(&[floor]);
        h.see(&[floor]);
        assert_eq!(h.objects(), ["cup_1"]);
        assert!(h.place("cup_1").distance(floor) < 0.05);
    }
}

/// The hand over the shelf, whose top is at 1.0 m, with the cup.
fn over_the_shelf() -> Home {
    let mut h = Home::about_to_grasp();
    h.feel(GRIPPING, SETTLED);
    h.picked("r1", h.now);
    h.hand_at(Vec3::new(3.0, 3.5, 1.05));
    h
}

#[test]
fn a_place_that_was_felt_and_seen_before_the_verdict_comes_out_right_once() {
    let mut h = over_the_shelf();
    assert_eq!(h.feel(OPEN, SETTLED).let_go, ["cup_1"]);
    h.hand_at(Vec3::new(2.6, 3.5, 1.2));
    let there = Vec3::new(3.05, 3.52, 1.05);
    h.see(&[there]);
    h.see(&[there]);
    assert_eq!(h.objects(), ["cup_1"]);
    assert!(h.scene.graph().has("cup_1", RelationKind::On, "shelf"));
    h.placed("r2", h.now);
    assert_eq!(h.objects(), ["cup_1"]);
    assert!(h.scene.graph().has("cup_1", RelationKind::On, "shelf"));
    assert!(
        h.place("cup_1").distance(there) < 0.03,
        "{:?}",
        h.place("cup_1")
    );
    assert!(!h.holds("cup_1"));
    assert_eq!(h.gripper(), Some("open"));
    for _ in 0..4 {
        h.see(&[there]);
    }
    assert_eq!(h.objects(), ["cup_1"]);
}

#[test]
fn a_place_that_was_felt_but_not_seen_is_told_by_the_verdict() {
    let mut h = over_the_shelf();
    h.feel(OPEN, SETTLED);
    assert!(!h.scene.graph().has("cup_1", RelationKind::On, "shelf"));
    h.placed("r2", h.now);
    assert!(h.scene.graph().has("cup_1", RelationKind::On, "shelf"));
    // It rests on the top: 1.0 + 0.05.
    assert!((h.place("cup_1").z - 1.05).abs() < 1e-9);
}

#[test]
fn what_was_seen_beside_the_hand_before_the_fingers_counted_as_open_is_no_second_object() {
    let mut h = over_the_shelf();
    h.feel(OPEN, 2);
    // The hand is 0.45 m back, farther than a detection may be from what it holds.
    h.hand_at(Vec3::new(2.55, 3.5, 1.05));
    let there = Vec3::new(3.0, 3.5, 1.05);
    h.see_late(h.now, &[there]);
    h.see_late(h.now + 0.05, &[there]);
    assert_eq!(h.objects(), ["cup_1", "cup_2"]);
    assert_eq!(h.feel(OPEN, 4).let_go, ["cup_1"]);
    assert_eq!(h.objects(), ["cup_1"]);
    assert!(h.place("cup_1").distance(there) < 0.02);
    let merged = h.scene.graph().any("cup_2").unwrap();
    assert_eq!(merged.merged_into, "cup_1");
}

#[test]
fn a_verdict_that_comes_after_the_fingers_were_found_empty_takes_nothing() {
    let mut h = Home::about_to_grasp();
    h.feel(GRIPPING, SETTLED);
    let judged = h.now;
    // It slips away while the verdict is on its way.
    h.hand_at(Vec3::new(1.4, 2.0, 1.2));
    assert_eq!(h.feel(CLOSED, SETTLED).let_go, ["cup_1"]);
    h.picked("r1", judged);
    assert!(!h.holds("cup_1"));
    assert_eq!(h.feel(CLOSED, 1).gripper, Some("closed"));
    // Fingers that had been closed before the verdict contradict it a moment later.
    let mut h = Home::about_to_grasp();
    h.feel(CLOSED, SETTLED);
    h.picked("r1", h.now);
    assert!(h.holds("cup_1"));
    assert_eq!(h.feel(CLOSED, 3).let_go, Vec::<String>::new());
    assert_eq!(h.feel(CLOSED, 2).let_go, ["cup_1"]);
}

#[test]
fn a_verdict_on_another_object_corrects_what_was_felt() {
    let mut h = Home::with(SceneConfig::default());
    let other = Vec3::new(2.0, 2.3, 0.85);
    h.see(&[CUP, other]);
    h.see(&[CUP, other]);
    let (ours, theirs) = if h.place("cup_1").distance(CUP) < 0.1 {
        ("cup_1", "cup_2")
    } else {
        ("cup_2", "cup_1")
    };
    h.hand_at(other);
    assert_eq!(h.feel(GRIPPING, SETTLED).taken.as_deref(), Some(theirs));
    h.hand_at(CUP);
    h.apply("r1", h.now, json!({"add": [{"holding": {"object": ours}}]}));
    assert!(h.holds(ours) && !h.holds(theirs));
    assert!(h.place(theirs).distance(other) < 0.05);
}

#[test]
fn a_frame_from_before_an_effect_contradicts_nothing() {
    let mut h = Home::about_to_grasp();
    h.feel(GRIPPING, 1);
    h.hand_at(Vec3::new(1.5, 2.0, 1.3));
    h.picked("r1", h.now);
    h.hand_at(h.tool);
    let seen = h.now;
    h.now += 0.5;
    // Three frames that were taken before it and worked off after it: the cup stood where it stood, 0.67 m
    // from the hand.
    for i in 0..3 {
        h.see_late(seen - 0.2 + 0.1 * f64::from(i), &[CUP]);
    }
    let cup = h.scene.graph().get("cup_1").unwrap();
    assert_eq!((cup.source, cup.run_id.as_str()), (Source::Execution, "r1"));
    assert!(h.holds("cup_1"));
    assert_eq!(h.place("cup_1"), h.tool);
    assert_eq!(h.objects(), ["cup_1"]);
    // Put down, and frames that show it in the hand come late.
    let hand = h.tool;
    h.placed("r2", h.now);
    let there = h.place("cup_1");
    let placed = h.now;
    h.now += 0.5;
    for i in 0..3 {
        h.see_late(placed - 0.2 + 0.1 * f64::from(i), &[hand]);
    }
    assert_eq!(h.place("cup_1"), there);
    assert_eq!(h.objects(), ["cup_1"]);
    // What is newer wins.
    h.see_late(placed + 0.1, &[Vec3::new(there.x + 0.1, there.y, there.z)]);
    let cup = h.scene.graph().get("cup_1").unwrap();
    assert_eq!(cup.source, Source::Perception);
    assert!(h.place("cup_1").x > there.x + 0.05);
}

#[test]
fn flickers_and_what_is_not_measured_change_nothing() {
    let mut h = Home::about_to_grasp();
    h.feel(GRIPPING, SETTLED);
    // 0.3 s without force, then again with force.
    assert_eq!(h.feel(LOOSE, 4), Felt::default());
    assert_eq!(h.feel(GRIPPING, SETTLED), Felt::default());
    assert!(h.holds("cup_1"));
    // A driver that tells no force: half open may be anything, what is known stays.
    assert_eq!(h.feel((0.07, None), 20), Felt::default());
    assert!(h.holds("cup_1"));
    assert_eq!(h.feel((0.001, None), SETTLED).let_go, ["cup_1"]);
    assert_eq!(h.feel((0.07, None), SETTLED).gripper, Some("not known"));
    assert_eq!(h.gripper(), None);
    // The same where the force that is told means nothing.
    let mut h = Home::with(SceneConfig {
        effort_reported: false,
        ..SceneConfig::default()
    });
    assert_eq!(h.feel(GRIPPING, SETTLED), Felt::default());
    assert_eq!(h.gripper(), None);
}

#[test]
fn readings_that_are_none_late_doubled_or_from_a_clock_that_was_set_back() {
    let mut h = Home::about_to_grasp();
    let reading = |stamp: f64, width: f64| GripReading {
        stamp: at(stamp),
        width,
        effort: Some(20.0),
    };
    let now = h.now;
    for width in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300] {
        let error = h
            .scene
            .feel_gripper(&reading(now, width), at(now))
            .unwrap_err();
        assert_eq!(error.code(), ErrorCode::SceneInvalidRequest);
        assert!(error.to_string().contains("m; it must be"), "{error}");
    }
    for stamp in [now - 6.0, now + 1.0, 0.0] {
        assert!(h
            .scene
            .feel_gripper(&reading(stamp, 0.07), at(now))
            .is_err());
    }
    // One reading again and again lasts no time.
    for _ in 0..50 {
        let felt = h.scene.feel_gripper(&reading(now, 0.07), at(now)).unwrap();
        assert_eq!(felt, Felt::default());
    }
    // Nor do two with more than a second between them.
    h.now += 1.5;
    assert_eq!(h.feel(GRIPPING, 1), Felt::default());
    // An effort that is no number is none.
    assert_eq!(h.feel((0.07, Some(f64::NAN)), SETTLED).taken, None);
    h.now -= 50.0;
    h.feel(CLOSED, SETTLED);
    assert_eq!(h.gripper(), Some("closed"));
}

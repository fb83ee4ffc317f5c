//! Drives, looks and the body: each way of ending, and what the verdict says.

mod common;

use common::{check, cup_binding, descriptor, Fixture, CUP, END, START};
use eh_contract::command::TargetBinding;
use eh_contract::geometry::{Pose, Vec3};
use eh_contract::scene::Kind;
use eh_contract::skill::SkillDescriptor;
use eh_contract::verdict::Outcome;
use eh_evaluator::EvaluatorError;
use serde_json::{json, Value};

fn navigate() -> SkillDescriptor {
    descriptor("navigate_to", json!({"near": {"target": "$target"}}))
}

fn place_binding(name: &str, kind: Kind, x: f64, y: f64) -> TargetBinding {
    TargetBinding {
        argument: "target".into(),
        r#ref: name.into(),
        class_name: "place".into(),
        kind,
        pose: Pose::planar(x, y, 0.0),
        size: Vec3::default(),
        support: None,
        ..cup_binding()
    }
}

fn driven(x: f64, y: f64, arguments: Value, targets: Vec<TargetBinding>) -> Fixture {
    let mut f = Fixture::new();
    f.start("navigate_to", arguments.clone(), targets.clone());
    f.end("navigate_to", arguments, targets);
    f.base(END + 0.1, x, y);
    f
}

#[test]
fn stops_are_measured() {
    let cases: &[(&str, f64, f64, Outcome, &str)] = &[
        // The table's edge is at x = 1.5: 0.55 m gap at x = 0.95.
        (
            "table_1",
            0.95,
            2.0,
            Outcome::Success,
            "0.55 m from table_1, reach 0.90 m",
        ),
        // 1.5 - 0.4 = 1.1 m > 0.9; and nothing is allowed beyond the limit.
        ("table_1", 0.4, 2.0, Outcome::Failure, "1.10 m from table_1"),
        (
            "table_1",
            0.57,
            2.0,
            Outcome::Failure,
            "0.93 m from table_1",
        ),
        (
            "kitchen",
            3.5,
            3.5,
            Outcome::Success,
            "inside the outline of kitchen",
        ),
        (
            "hall",
            3.5,
            3.5,
            Outcome::Failure,
            "0.50 m outside the outline of hall",
        ),
        ("start", 1.2, 1.0, Outcome::Success, "0.20 m from start"),
        // 0.38 m > 0.35.
        (
            "start",
            1.38,
            1.0,
            Outcome::Failure,
            "0.38 m from start, the limit is 0.35 m",
        ),
        ("nowhere", 1.0, 1.0, Outcome::Unknown, "neither told"),
    ];
    for (name, x, y, outcome, words) in cases {
        let targets = vec![place_binding("start", Kind::Place, 1.0, 1.0)];
        let f = driven(*x, *y, json!({"target": name}), targets);
        check(&f.judge(&navigate()).unwrap(), *outcome, &[words]);
    }
}

#[test]
fn a_pose_can_be_the_target() {
    let pose = json!({"target": {"frame_id": "map", "x": 1.0, "y": 1.0, "yaw": 0.0}});
    let f = driven(1.1, 1.0, pose.clone(), vec![]);
    check(
        &f.judge(&navigate()).unwrap(),
        Outcome::Success,
        &["0.10 m"],
    );
    let f = driven(2.0, 1.0, pose, vec![]);
    check(
        &f.judge(&navigate()).unwrap(),
        Outcome::Failure,
        &["1.00 m"],
    );
    // Given as an argument of another name.
    let f = driven(1.1, 1.0, json!({"pose": {"x": 1.0, "y": 1.0}}), vec![]);
    check(&f.judge(&navigate()).unwrap(), Outcome::Success, &[]);
    let f = driven(
        1.1,
        1.0,
        json!({"target": {"frame_id": "odom", "x": 1.0, "y": 1.0}}),
        vec![],
    );
    check(&f.judge(&navigate()).unwrap(), Outcome::Unknown, &["odom"]);
}

#[test]
fn a_cup_that_was_moved_meanwhile_is_measured_where_it_is_seen() {
    let mut binding = cup_binding();
    binding.argument = "target".into();
    // Told at (2, 2), seen 0.2 m nearer: 1.8 - 0.04 - 0.95 = 0.81 m.
    let mut f = driven(0.95, 2.0, json!({"target": "cup_1"}), vec![binding]);
    f.frame(END + 0.2, &[Vec3::new(1.8, 2.0, 0.85)]);
    check(
        &f.judge(&navigate()).unwrap(),
        Outcome::Success,
        &["0.81 m from cup_1"],
    );
}

#[test]
fn looking_is_judged_by_what_is_seen() {
    let look = descriptor(
        "look_at",
        json!({"visible": {"object": "$target", "max_age": 3.0}}),
    );
    let looked = |frames: &[&[Vec3]], name: &str, view: bool| {
        let mut f = Fixture::new();
        let arguments = json!({"target": name});
        f.start("look_at", arguments.clone(), vec![cup_binding()]);
        f.end("look_at", arguments, vec![cup_binding()]);
        for (i, cups) in frames.iter().enumerate() {
            let v = view.then(common::view);
            f.frame_with(END + 0.1 + 0.1 * i as f64, v, cups);
        }
        f.judge(&look).unwrap()
    };
    check(
        &looked(&[&[CUP]], "cup_1", true),
        Outcome::Success,
        &["seen"],
    );
    check(
        &looked(&[&[], &[], &[]], "cup_1", true),
        Outcome::Failure,
        &["found no cup"],
    );
    check(
        &looked(&[&[]], "cup_1", true),
        Outcome::Unknown,
        &["3 are needed"],
    );
    check(&looked(&[], "cup_1", true), Outcome::Unknown, &["no frame"]);
    check(
        &looked(&[&[]], "table_1", true),
        Outcome::Success,
        &["covers"],
    );
    check(
        // Its top is above the camera, so that its side counts, which is in view.
        &looked(&[&[]], "fridge", true),
        Outcome::Success,
        &["covers 100 %"],
    );
    check(
        &looked(&[&[]], "table_1", false),
        Outcome::Unknown,
        &["do not say"],
    );
    check(&looked(&[&[]], "kitchen", true), Outcome::Success, &[]);
    check(&looked(&[&[]], "hall", true), Outcome::Failure, &[]);
}

fn simple(condition: Value) -> (SkillDescriptor, Fixture) {
    let mut f = Fixture::new();
    f.start("s", json!({}), vec![cup_binding()]);
    f.end("s", json!({}), vec![cup_binding()]);
    (descriptor("s", condition), f)
}

#[test]
fn the_body_is_judged() {
    let (d, mut f) = simple(json!({"gripper": {"state": "open"}}));
    f.gripper(END + 0.1, 0.095, 0.0);
    check(&f.judge(&d).unwrap(), Outcome::Success, &["open"]);
    let (d, mut f) = simple(json!({"gripper": {"state": "empty"}}));
    f.gripper(END + 0.1, 0.05, 20.0);
    check(
        &f.judge(&d).unwrap(),
        Outcome::Failure,
        &["closed on something"],
    );

    let (d, mut f) = simple(json!({"arm": {"pose": "stow"}}));
    check(&f.judge(&d).unwrap(), Outcome::Unknown, &["no joint state"]);
    f.joint(END + 0.1, 1.45, 0.0);
    check(&f.judge(&d).unwrap(), Outcome::Success, &["0.050 rad"]);
    f.joint(END + 0.2, 1.0, 0.0);
    check(&f.judge(&d).unwrap(), Outcome::Failure, &["0.500 rad"]);
    let (d, f) = simple(json!({"arm": {"pose": "wave"}}));
    check(&f.judge(&d).unwrap(), Outcome::Unknown, &["stow"]);

    let (d, mut f) = simple(json!({"stationary": {}}));
    f.twist(END + 0.1, 0.0);
    check(
        &f.judge(&d).unwrap(),
        Outcome::Unknown,
        &["watched for 0.0 s"],
    );
    f.twist(END + 0.4, 0.01);
    check(&f.judge(&d).unwrap(), Outcome::Success, &["stands still"]);
    f.joint(END + 0.5, 1.0, 0.3);
    check(&f.judge(&d).unwrap(), Outcome::Failure, &["0.30 rad/s"]);
    f.twist(END + 0.6, 0.4);
    check(&f.judge(&d).unwrap(), Outcome::Failure, &["0.40 m/s"]);

    let (d, mut f) = simple(json!({"clearance": {"min_distance": 0.2}}));
    // 0.5 - 0.27 = 0.23 m.
    f.scan(END + 0.1, 0.5);
    check(&f.judge(&d).unwrap(), Outcome::Success, &["0.23 m"]);
    f.scan(END + 0.2, 0.4);
    check(&f.judge(&d).unwrap(), Outcome::Failure, &["0.13 m"]);
    f.scan(END + 0.3, f64::INFINITY);
    check(&f.judge(&d).unwrap(), Outcome::Success, &["in range"]);

    let (d, f) = simple(json!({"door": {"door": "door_1", "open": true}}));
    check(
        &f.judge(&d).unwrap(),
        Outcome::Unknown,
        &["no detection of door_1"],
    );
}

#[test]
fn moved_and_in_are_judged_by_sights() {
    let build = |condition: Value, cups: &[Vec3]| {
        let mut f = Fixture::new();
        for i in 0..3 {
            f.frame(START - 0.5 + 0.1 * f64::from(i), &[CUP]);
        }
        f.start("s", json!({}), vec![cup_binding()]);
        f.end("s", json!({}), vec![cup_binding()]);
        for i in 0..3 {
            f.frame(END + 0.1 + 0.1 * f64::from(i), cups);
        }
        f.judge(&descriptor("s", condition)).unwrap()
    };
    let moved = json!({"moved": {"object": "cup_1"}});
    check(&build(moved.clone(), &[CUP]), Outcome::Failure, &["0.00 m"]);
    check(
        &build(moved.clone(), &[Vec3::new(2.0, 2.3, 0.85)]),
        Outcome::Success,
        &["0.30 m"],
    );
    check(&build(moved, &[]), Outcome::Success, &["not seen"]);
    let inside = json!({"in": {"object": "cup_1", "container": "kitchen"}});
    check(
        &build(inside.clone(), &[CUP]),
        Outcome::Success,
        &["inside"],
    );
    check(&build(inside, &[]), Outcome::Unknown, &["not seen"]);
}

#[test]
fn what_cannot_be_judged_is_an_error_and_no_verdict() {
    let f = driven(1.0, 1.0, json!({"target": "kitchen"}), vec![]);
    let other = descriptor("other", json!({"stationary": {}}));
    assert!(matches!(
        f.judge(&other),
        Err(EvaluatorError::UnknownSkill { .. })
    ));
    let newer = SkillDescriptor {
        version: "2.0.0".into(),
        ..navigate()
    };
    assert!(matches!(
        f.judge(&newer),
        Err(EvaluatorError::UnknownSkill { .. })
    ));
    let vacuous = descriptor("navigate_to", json!({"all": []}));
    assert!(matches!(
        f.judge(&vacuous),
        Err(EvaluatorError::NoPredicates { .. })
    ));
    let unbound = descriptor("navigate_to", json!({"near": {"target": "$object"}}));
    assert!(matches!(
        f.judge(&unbound),
        Err(EvaluatorError::InvalidPostcondition { .. })
    ));
    let mut f = Fixture::new();
    f.start("navigate_to", json!({"target": "kitchen"}), vec![]);
    assert!(matches!(
        f.judge(&navigate()),
        Err(EvaluatorError::RunNotEnded { .. })
    ));
}

#[test]
fn process_comes_from_segmented_skills_only() {
    let mut segmented = navigate();
    segmented.segmented = true;
    segmented.max_segments = 3;
    let f = driven(7.0, 1.0, json!({"target": "kitchen"}), vec![]);
    assert_eq!(f.judge(&segmented).unwrap().outcome, Outcome::Process);
    segmented.max_segments = 1;
    assert_eq!(f.judge(&segmented).unwrap().outcome, Outcome::Failure);
    assert_eq!(f.judge(&navigate()).unwrap().outcome, Outcome::Failure);
}

#[test]
fn a_clock_that_was_set_back_gives_no_verdict_on_old_evidence() {
    let mut f = driven(1.0, 1.0, json!({"target": "kitchen"}), vec![]);
    f.now = 50.0;
    check(
        &f.judge(&navigate()).unwrap(),
        Outcome::Unknown,
        &["set back"],
    );
}

//! For each predicate: a source that is missing, stale or from before the end makes it unknown, and the answer says
//! which one and why.

mod common;

use common::{cup_binding, descriptor, Fixture, CUP, END, START};
use eh_contract::verdict::{Outcome, Truth, Verdict};
use serde_json::{json, Value};

/// Each predicate with words of what is missing, of what is too old, and of what is from before the end.
fn table() -> Vec<(Value, &'static str)> {
    vec![
        (json!({"at": {"target": "kitchen"}}), "pose of the base"),
        (json!({"near": {"target": "table_1"}}), "pose of the base"),
        (
            json!({"in": {"object": "robot", "container": "kitchen"}}),
            "pose of the base",
        ),
        (
            json!({"near": {"subject": "cup_1", "target": "table_1"}}),
            "seen",
        ),
        (
            json!({"in": {"object": "cup_1", "container": "kitchen"}}),
            "seen",
        ),
        (json!({"moved": {"object": "cup_1"}}), "not in view"),
        (
            json!({"holding": {"object": "cup_1"}}),
            "state of the gripper",
        ),
        (
            json!({"lifted": {"object": "cup_1"}}),
            "state of the gripper",
        ),
        (
            json!({"on": {"object": "cup_1", "support": "table_1"}}),
            "frame of detections",
        ),
        (
            json!({"gripper": {"state": "open"}}),
            "state of the gripper",
        ),
        (
            json!({"visible": {"object": "cup_1"}}),
            "frame of detections",
        ),
        (
            json!({"visible": {"object": "table_1"}}),
            "frame of detections",
        ),
        (json!({"clearance": {"min_distance": 0.1}}), "scan"),
        (json!({"arm": {"pose": "stow"}}), "joint state"),
        (json!({"stationary": {}}), "odometry"),
        (json!({"door": {"door": "door_1", "open": true}}), "door_1"),
    ]
}

/// A run before which the cup was seen and everything was well.
fn run(condition: &Value) -> (eh_contract::skill::SkillDescriptor, Fixture) {
    let mut f = Fixture::new();
    for i in 0..5 {
        f.frame(START - 1.0 + 0.2 * f64::from(i), &[CUP]);
    }
    let arguments = json!({"object": "cup_1"});
    f.start("s", arguments.clone(), vec![cup_binding()]);
    f.end("s", arguments, vec![cup_binding()]);
    (descriptor("s", condition.clone()), f)
}

/// Samples of every source at a time.
fn everything(f: &mut Fixture, seconds: f64) {
    f.frame(seconds, &[CUP]);
    f.gripper(seconds, 0.07, 20.0);
    f.tool(seconds, CUP);
    f.base(seconds, 1.0, 2.0);
    f.twist(seconds, 0.0);
    f.joint(seconds, 1.5, 0.0);
    f.scan(seconds, 1.0);
}

fn unknown(verdict: &Verdict, condition: &Value, words: &str) {
    assert_eq!(
        verdict.outcome,
        Outcome::Unknown,
        "{condition}: {verdict:#?}"
    );
    assert_eq!(verdict.predicates[0].truth, Truth::Unknown, "{condition}");
    assert!(verdict.predicates[0].margin.is_nan(), "{condition}");
    assert!(
        verdict.reason.contains(words),
        "{condition}: {}",
        verdict.reason
    );
}

#[test]
fn a_missing_source_is_named() {
    for (condition, words) in table() {
        let (skill, f) = run(&condition);
        unknown(&f.judge(&skill).unwrap(), &condition, words);
        // Nor is the contrary claimed.
        let (skill, f) = run(&json!({ "not": condition }));
        unknown(&f.judge(&skill).unwrap(), &condition, words);
    }
}

#[test]
fn a_source_that_fell_silent_at_the_end_is_named() {
    for (condition, words) in table() {
        let (skill, mut f) = run(&condition);
        everything(&mut f, END - 0.1);
        unknown(&f.judge(&skill).unwrap(), &condition, words);
    }
}

#[test]
fn a_source_that_fell_silent_long_ago_is_named() {
    for (condition, words) in table() {
        let (skill, mut f) = run(&condition);
        everything(&mut f, END + 0.5);
        // max_evidence_age is 10 s.
        f.now = END + 11.0;
        unknown(&f.judge(&skill).unwrap(), &condition, words);
    }
}

#[test]
fn each_predicate_is_decided_where_its_source_speaks_and_tells_on_what() {
    for (condition, _) in table() {
        let (skill, mut f) = run(&condition);
        for i in 0..9 {
            everything(&mut f, END + 0.1 + 0.1 * f64::from(i));
        }
        let v = f.judge(&skill).unwrap();
        let p = &v.predicates[0];
        // Nobody has seen a door, and what the fingers grip where it stood is not yet moved.
        if condition.get("door").is_some() || condition.get("on").is_some() {
            assert_eq!(p.truth, Truth::Unknown, "{v:#?}");
            continue;
        }
        assert_ne!(p.truth, Truth::Unknown, "{v:#?}");
        assert!(!p.evidence_ids.is_empty(), "{v:#?}");
        let measured = condition.get("gripper").is_none();
        assert!(!(measured && p.margin.is_nan()), "{v:#?}");
    }
}

#[test]
fn sources_that_contradict_each_other_decide_nothing() {
    // Seen on the table in as many frames as on the floor beside it.
    let (skill, mut f) = run(&json!({"on": {"object": "cup_1", "support": "table_1"}}));
    let floor = eh_contract::geometry::Vec3::new(1.3, 2.0, 0.05);
    for i in 0..4 {
        let at = if i % 2 == 0 { CUP } else { floor };
        f.frame(END + 0.2 + 0.2 * f64::from(i), &[at]);
    }
    let v = f.judge(&skill).unwrap();
    assert_eq!(v.outcome, Outcome::Unknown, "{v:#?}");
    assert!(v.reason.contains("contradicting"), "{v:#?}");
}

#[test]
fn a_door_is_judged_by_what_detections_say_of_it() {
    use eh_contract::geometry::Vec3;
    // door_1 is between (4, 1.5) and (4, 2.5).
    let looked = |states: &[&str], open: bool, at: Vec3| {
        let (skill, mut f) = run(&json!({"door": {"door": "door_1", "open": open}}));
        for (i, state) in states.iter().enumerate() {
            let seconds = END + 0.2 + 0.2 * i as f64;
            let mut leaf = common::cup(at);
            leaf.class_name = "door".into();
            if !state.is_empty() {
                leaf.attributes.insert("state".into(), (*state).into());
            }
            let frame = eh_contract::perception::DetectionFrame {
                stamp: common::at(seconds),
                source: "camera".into(),
                view: None,
                reference: String::new(),
                detections: vec![leaf],
            };
            f.buffer.push_frame(frame, common::at(seconds)).unwrap();
        }
        f.judge(&skill).unwrap()
    };
    let here = Vec3::new(4.1, 2.4, 1.0);
    assert_eq!(looked(&["open"; 3], true, here).outcome, Outcome::Success);
    assert_eq!(looked(&["open"; 3], false, here).outcome, Outcome::Failure);
    assert_eq!(
        looked(&["closed"; 2], false, here).outcome,
        Outcome::Success
    );
    assert_eq!(looked(&["closed"; 2], true, here).outcome, Outcome::Failure);
    // Contradicting, silent about it, ajar, and another door.
    for (states, at) in [
        (&["open", "closed", "open"] as &[&str], here),
        (&["", ""], here),
        (&["ajar", "ajar"], here),
        (&["open"; 3], Vec3::new(0.5, 2.0, 1.0)),
    ] {
        assert_eq!(looked(states, true, at).outcome, Outcome::Unknown);
    }
}

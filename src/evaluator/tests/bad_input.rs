//! Whatever comes: a clear error, bounded memory, and what was known before stays.

mod common;

use common::{at, cup, cup_binding, descriptor, view, Fixture, CUP, END, START};
use eh_contract::geometry::{Pose, Vec3};
use eh_contract::perception::DetectionFrame;
use eh_contract::verdict::Outcome;
use eh_evaluator::evidence::{PoseSample, Taken};
use eh_evaluator::EvaluatorError;
use serde_json::{json, Value};

fn frame(f: &Fixture, seconds: f64, change: impl Fn(&mut DetectionFrame)) -> DetectionFrame {
    let _ = f;
    let mut frame = DetectionFrame {
        stamp: at(seconds),
        source: "camera".into(),
        view: Some(view()),
        reference: String::new(),
        detections: vec![cup(CUP)],
    };
    change(&mut frame);
    frame
}

#[test]
fn malformed_conditions_are_errors_that_name_what_is_wrong() {
    for (condition, words) in [
        (json!({"hovering": {"object": "cup_1"}}), "hovering"),
        (json!({"holding": {"object": 7}}), "holding"),
        (json!({"holding": {}}), "object"),
        (
            json!({"near": {"target": "cup_1", "max_distance": -1.0}}),
            "-1",
        ),
        (json!({"all": "holding"}), "list"),
        (json!({"holding": {"object": "$other"}}), "other"),
        (json!([1, 2]), "[1,2]"),
        (json!({"all": []}), "no post-condition"),
    ] {
        let mut f = Fixture::new();
        f.start("s", json!({}), vec![]);
        f.end("s", json!({}), vec![]);
        let error = f.judge(&descriptor("s", condition.clone())).unwrap_err();
        assert!(error.to_string().contains(words), "{condition}: {error}");
    }
}

#[test]
fn refs_that_nobody_knows_and_frames_that_do_not_connect_are_unknown() {
    let judged = |condition: Value, frame: &str| {
        let mut f = Fixture::new();
        let mut binding = cup_binding();
        binding.frame_id = frame.into();
        f.start("s", json!({}), vec![binding.clone()]);
        f.end("s", json!({}), vec![binding]);
        f.base(END + 0.1, 1.0, 2.0);
        f.gripper(END + 0.1, 0.07, 20.0);
        f.judge(&descriptor("s", condition)).unwrap()
    };
    for condition in [
        json!({"near": {"target": "unicorn"}}),
        json!({"holding": {"object": "unicorn"}}),
        json!({"on": {"object": "cup_1", "support": "unicorn"}}),
        json!({"door": {"door": "unicorn", "open": true}}),
        json!({"visible": {"object": "unicorn"}}),
    ] {
        let v = judged(condition, "map");
        assert_eq!(v.outcome, Outcome::Unknown, "{v:#?}");
        assert!(v.reason.contains("unicorn"), "{v:#?}");
    }
    let v = judged(json!({"near": {"target": "cup_1"}}), "other_map");
    assert_eq!(v.outcome, Outcome::Unknown, "{v:#?}");
    assert!(v.reason.contains("other_map"), "{v:#?}");
}

#[test]
fn an_invalid_quaternion_is_no_pose_and_no_view() {
    let mut f = Fixture::new();
    let bad = Pose {
        orientation: [0.0; 4],
        ..Pose::default()
    };
    for orientation in [[0.0; 4], [f64::NAN, 0.0, 0.0, 1.0], [2.0, 0.0, 0.0, 0.0]] {
        let pose = Pose {
            orientation,
            ..Pose::default()
        };
        let sample = PoseSample {
            stamp: at(START),
            pose,
        };
        assert!(f.buffer.push_base(sample, at(START)).is_err());
        assert!(f.buffer.push_tool(sample, at(START)).is_err());
    }
    let turned = frame(&f, START, |frame| {
        if let Some(view) = &mut frame.view {
            view.camera = bad;
        }
    });
    assert!(f.buffer.push_frame(turned, at(START)).is_err());
    // What is right is taken all the same.
    let right = frame(&f, START, |_| {});
    assert_eq!(f.buffer.push_frame(right, at(START)), Ok((Taken::Added, 0)));
}

#[test]
fn detections_with_bad_numbers_are_left_out_and_prove_no_absence() {
    for change in [
        (|d| d.covariance[0] = f64::NAN) as fn(&mut eh_contract::perception::Detection),
        |d| d.covariance[4] = -1.0,
        |d| d.covariance[1] = 5.0,
        |d| d.size = Vec3::new(-0.1, 0.1, 0.1),
        |d| d.pose.position.x = f64::INFINITY,
        |d| d.pose.orientation = [0.0; 4],
        |d| d.confidence = f64::NAN,
        |d| d.class_name = String::new(),
        |d| d.class_name = "c".repeat(100_000),
    ] {
        let mut f = Fixture::new();
        let bad = frame(&f, START, |frame| {
            for d in &mut frame.detections {
                change(d);
            }
        });
        let (taken, left_out) = f.buffer.push_frame(bad, at(START)).unwrap();
        assert_eq!((taken, left_out), (Taken::Added, 1));
        let kept = f.buffer.frames().next_back().unwrap();
        assert!(kept.detections.is_empty() && kept.view.is_none());
    }
    let mut f = Fixture::new();
    let narrow = frame(&f, START, |frame| {
        if let Some(view) = &mut frame.view {
            view.horizontal_fov = f64::NAN;
        }
    });
    let error = f.buffer.push_frame(narrow, at(START)).unwrap_err();
    assert!(error.to_string().contains("horizontal_fov"), "{error}");
}

#[test]
fn a_flood_is_bounded_and_keeps_the_surest() {
    let mut f = Fixture::new();
    let flood = frame(&f, START, |frame| {
        frame.detections = (0..10_000)
            .map(|i| {
                let mut d = cup(Vec3::new(f64::from(i) * 0.001, 0.0, 0.8));
                d.confidence = f64::from(i % 100) / 100.0;
                d
            })
            .collect();
    });
    let (_, left_out) = f.buffer.push_frame(flood, at(START)).unwrap();
    assert_eq!(left_out, 10_000 - f.config.max_detections);
    let kept = f.buffer.frames().next_back().unwrap();
    assert!(kept.detections.iter().all(|d| d.confidence > 0.9));
    for i in 0..5_000 {
        let seconds = START + 0.01 * f64::from(i + 1);
        let next = frame(&f, seconds, |_| {});
        f.buffer.push_frame(next, at(seconds)).unwrap();
    }
    assert!(f.buffer.frames().count() <= f.config.max_frames);
    // And the judge still answers.
    f.start("s", json!({}), vec![]);
    f.end("s", json!({}), vec![]);
    assert!(matches!(
        f.judge(&descriptor("s", json!({"gripper": {"state": "open"}}))),
        Ok(v) if v.outcome == Outcome::Unknown
    ));
    assert!(matches!(
        f.judge(&descriptor("other", json!({"gripper": {"state": "open"}}))),
        Err(EvaluatorError::UnknownSkill { .. })
    ));
}

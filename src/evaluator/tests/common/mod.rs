//! A table with a cup, a robot before it, and what its sensors would say.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::time::Duration;

use eh_contract::command::{Support, TargetBinding};
use eh_contract::geometry::{Pose, Vec3};
use eh_contract::perception::{Detection, DetectionFrame, View};
use eh_contract::prior::scene_of_map;
use eh_contract::run_event::{RunEvent, RunEventKind};
use eh_contract::scene::{Kind, SceneSnapshot};
use eh_contract::semantic_map::SemanticMap;
use eh_contract::skill::SkillDescriptor;
use eh_contract::verdict::{Outcome, Verdict};
use eh_contract::Stamp;
use eh_evaluator::evidence::{
    ClearanceSample, GripperSample, JointSample, PoseSample, TwistSample,
};
use eh_evaluator::{
    judge, Case, Embodiment, EvaluatorConfig, EvaluatorError, EvidenceBuffer, RunBook,
};
use serde_json::{json, Value};

/// Start and end of the run [s].
pub const START: f64 = 100.0;
pub const END: f64 = 110.0;

/// The table's top is at 0.8 m; a cup of 0.1 m stands with its centre at 0.85 m.
pub const CUP: Vec3 = Vec3::new(2.0, 2.0, 0.85);

pub fn at(seconds: f64) -> Stamp {
    Stamp::from_secs_f64(seconds)
}

pub fn prior() -> SceneSnapshot {
    let map = SemanticMap::from_yaml(
        "
name: home
rooms:
  - {id: kitchen, rect: [0, 0, 4, 4]}
  - {id: hall, rect: [4, 0, 8, 4]}
doors:
  - {id: door_1, between: [kitchen, hall], from: [4, 1.5], to: [4, 2.5]}
furniture:
  - {id: table_1, class: table, center: [2, 2], size: [1.0, 1.0, 0.8], surface: true}
  - {id: fridge, class: fridge, center: [3.7, 0.3], size: [0.6, 0.6, 1.8], container: true}
",
    )
    .unwrap();
    scene_of_map(&map, "map")
}

pub fn descriptor(name: &str, postcondition: Value) -> SkillDescriptor {
    serde_json::from_value(json!({
        "name": name, "version": "1.0.0", "description": "d", "action_name": "a",
        "arguments_schema": {"type": "object", "properties": {}},
        "postcondition": postcondition, "evaluated": true,
        "nominal_duration": 5.0, "maximum_duration": 30.0,
    }))
    .unwrap()
}

pub fn cup_binding() -> TargetBinding {
    let mut pose = Pose::planar(CUP.x, CUP.y, 0.0);
    pose.position = CUP;
    let mut table = Pose::planar(2.0, 2.0, 0.0);
    table.position.z = 0.4;
    TargetBinding {
        argument: "object".into(),
        r#ref: "cup_1".into(),
        class_name: "cup".into(),
        kind: Kind::Object,
        version: 3,
        frame_id: "map".into(),
        pose,
        size: Vec3::new(0.08, 0.08, 0.1),
        last_seen: at(START - 1.0),
        support: Some(Support {
            r#ref: "table_1".into(),
            pose: table,
            size: Vec3::new(1.0, 1.0, 0.8),
        }),
    }
}

pub fn cup(position: Vec3) -> Detection {
    let pose = Pose {
        position,
        ..Pose::default()
    };
    Detection {
        id: "0".into(),
        class_name: "cup".into(),
        confidence: 0.9,
        attributes: BTreeMap::new(),
        pose,
        covariance: [0.0; 9],
        size: Vec3::new(0.08, 0.08, 0.1),
        reference: String::new(),
    }
}

/// A camera 1.2 m above the floor at (0.9, 2.0) that looks along x and 20° down.
///
/// From there the cup lies at depth about 1.1 m and 0.35 m below: 17.6° down.
pub fn view() -> View {
    let forward =
        nalgebra::UnitQuaternion::from_quaternion(nalgebra::Quaternion::new(0.5, -0.5, 0.5, -0.5));
    // Pitch down: about the map's y.
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

pub fn check(verdict: &Verdict, outcome: Outcome, words: &[&str]) {
    assert_eq!(verdict.outcome, outcome, "{verdict:#?}");
    for word in words {
        assert!(verdict.reason.contains(word), "{word}: {}", verdict.reason);
    }
    // Every id leads to evidence, and only evidence from after the end was looked at.
    for p in &verdict.predicates {
        for id in &p.evidence_ids {
            assert!(verdict.evidence.iter().any(|e| e.id == *id), "{verdict:#?}");
        }
    }
    assert!(verdict.evidence.iter().all(|e| e.stamp > at(END)));
}

/// The run, what was observed, and the judge.
pub struct Fixture {
    pub config: EvaluatorConfig,
    pub embodiment: Embodiment,
    pub buffer: EvidenceBuffer,
    pub book: RunBook,
    pub prior: Option<SceneSnapshot>,
    pub now: f64,
}

impl Fixture {
    pub fn new() -> Self {
        // A detector that finds 95 % misses three in a row once in 8000.
        let config = EvaluatorConfig {
            absence_frames: 3,
            ..EvaluatorConfig::default()
        };
        let embodiment = Embodiment {
            arm_poses: [("stow".to_string(), [("arm_1".to_string(), 1.5)].into())].into(),
            ..Embodiment::default()
        };
        Fixture {
            buffer: EvidenceBuffer::new(config.clone()),
            config,
            embodiment,
            book: RunBook::default(),
            prior: Some(prior()),
            now: END + 1.0,
        }
    }

    pub fn frame(&mut self, seconds: f64, cups: &[Vec3]) {
        self.frame_with(seconds, Some(view()), cups);
    }

    pub fn frame_with(&mut self, seconds: f64, view: Option<View>, cups: &[Vec3]) {
        let frame = DetectionFrame {
            stamp: at(seconds),
            source: "camera".into(),
            view,
            reference: format!("frame/{seconds}"),
            detections: cups.iter().copied().map(cup).collect(),
        };
        self.buffer.push_frame(frame, at(seconds)).unwrap();
    }

    pub fn gripper(&mut self, seconds: f64, width: f64, effort: f64) {
        let sample = GripperSample {
            stamp: at(seconds),
            width,
            effort: Some(effort),
        };
        self.buffer.push_gripper(sample, at(seconds)).unwrap();
    }

    pub fn tool(&mut self, seconds: f64, position: Vec3) {
        let pose = Pose {
            position,
            ..Pose::default()
        };
        let sample = PoseSample {
            stamp: at(seconds),
            pose,
        };
        self.buffer.push_tool(sample, at(seconds)).unwrap();
    }

    pub fn base(&mut self, seconds: f64, x: f64, y: f64) {
        let sample = PoseSample {
            stamp: at(seconds),
            pose: Pose::planar(x, y, 0.0),
        };
        self.buffer.push_base(sample, at(seconds)).unwrap();
    }

    pub fn twist(&mut self, seconds: f64, linear: f64) {
        let sample = TwistSample {
            stamp: at(seconds),
            linear,
            angular: 0.0,
        };
        self.buffer.push_twist(sample, at(seconds)).unwrap();
    }

    pub fn joint(&mut self, seconds: f64, value: f64, velocity: f64) {
        let sample = JointSample {
            stamp: at(seconds),
            positions: [("arm_1".to_string(), value)].into(),
            velocities: [("arm_1".to_string(), velocity)].into(),
        };
        self.buffer.push_joints(sample, at(seconds)).unwrap();
    }

    pub fn scan(&mut self, seconds: f64, distance: f64) {
        let sample = ClearanceSample {
            stamp: at(seconds),
            distance,
        };
        self.buffer.push_clearance(sample, at(seconds)).unwrap();
    }

    pub fn event(
        &mut self,
        kind: RunEventKind,
        seconds: f64,
        skill: &str,
        arguments: &Value,
        targets: Vec<TargetBinding>,
        heard: f64,
    ) {
        let event = RunEvent {
            event: kind,
            stamp: at(seconds),
            executor: "adapter".into(),
            boot_id: "b".into(),
            robot_id: "robot".into(),
            command_id: "c1".into(),
            run_id: "r1".into(),
            segment: 0,
            sequence: if kind == RunEventKind::Start { 1 } else { 2 },
            skill: skill.into(),
            skill_version: "1.0.0".into(),
            arguments: arguments.as_object().cloned().unwrap(),
            targets,
        };
        self.book
            .note(event, &self.buffer, at(heard), &self.config)
            .unwrap();
    }

    pub fn start(&mut self, skill: &str, arguments: Value, targets: Vec<TargetBinding>) {
        self.event(
            RunEventKind::Start,
            START,
            skill,
            &arguments,
            targets,
            START,
        );
    }

    pub fn end(&mut self, skill: &str, arguments: Value, targets: Vec<TargetBinding>) {
        self.event(RunEventKind::End, END, skill, &arguments, targets, END);
    }

    pub fn judge(&self, descriptor: &SkillDescriptor) -> Result<Verdict, EvaluatorError> {
        let case = Case {
            record: self.book.get("r1", &self.config)?,
            segment: 0,
            descriptor,
            prior: self.prior.as_ref(),
            map_frame: "map",
            embodiment: &self.embodiment,
            config: &self.config,
        };
        judge(&case, &self.buffer, at(self.now), Duration::ZERO)
    }
}

//! The gate: what is not allowed explicitly is refused, with words.

mod common;

use common::{apartment, edge, fetch, goal, list, propose, secs, settings, World};
use eh_contract::command::Proposal;
use eh_contract::geometry::Pose;
use eh_contract::scene::{RelationKind, SceneSnapshot};
use eh_contract::state::TaskOutcome;
use eh_contract::ErrorCode;
use eh_harness::gate::{check, Admitted, GateContext, GateError};
use eh_harness::grounding::{start_place, with_start, START};
use eh_harness::{Event, Settings};
use eh_planner::planner::Turn;
use serde_json::{json, Value};

struct Bench {
    world: World,
    settings: Settings,
    scene: SceneSnapshot,
    permissions: Vec<String>,
}

impl Bench {
    fn new() -> Self {
        let world = World::new(list(vec![]));
        let scene = apartment();
        let start = start_place(&scene, world.at().ros).unwrap();
        let mut bench = Bench {
            scene: with_start(scene, &start),
            settings: settings(),
            permissions: vec!["move_base".into(), "move_arm".into()],
            world,
        };
        // In front of the counter, with the cup just seen.
        let now = bench.world.at().ros;
        for object in &mut bench.scene.objects {
            match object.r#ref.as_str() {
                "robot" => object.pose = Pose::planar(5.1, 0.0, 0.0),
                "cup_1" => object.last_seen = now,
                _ => {}
            }
        }
        bench
    }

    fn check(&self, skill: &str, arguments: Value) -> Result<Admitted, GateError> {
        let Turn::Propose(proposal) = propose(skill, arguments) else {
            unreachable!()
        };
        self.check_proposal(&proposal)
    }

    fn check_proposal(&self, proposal: &Proposal) -> Result<Admitted, GateError> {
        check(
            proposal,
            &GateContext {
                robot_id: "robot",
                task_id: "t1",
                command_id: "c1",
                plan_version: 1,
                permissions: &self.permissions,
                surroundings: self.world.harness.surroundings(),
                scene: &self.scene,
                ledger: self.world.harness.ledger(),
                embodiment: &self.settings.embodiment,
                map_frame: "map",
                limits: &self.settings.gate,
                now: self.world.at(),
            },
        )
    }

    fn object(&mut self, r: &str) -> &mut eh_contract::scene::SceneObject {
        self.scene
            .objects
            .iter_mut()
            .find(|o| o.r#ref == r)
            .unwrap()
    }
}

#[test]
fn what_is_in_order_passes() {
    let bench = Bench::new();
    let admitted = bench.check("pick", json!({"object": "cup_1"})).unwrap();
    assert_eq!(admitted.issue.executor, "/manipulation_skills_node");
    for resource in ["arm", "gripper", "base"] {
        assert!(admitted.issue.resources.iter().any(|r| r == resource));
    }
    assert_eq!(admitted.issue.command.world_version, 7);
    assert_eq!(admitted.effects.add.len(), 2);
    assert!(bench.check("navigate_to", json!({"target": START})).is_ok());
    assert!(bench.check("wait", json!({"duration": 1.0})).is_ok());
    assert!(bench
        .check(
            "navigate_to_pose",
            json!({"pose": {"x": 1.0, "y": 2.0, "yaw": 0.0}})
        )
        .is_ok());
}

#[test]
fn what_is_not_known_is_not_met() {
    // The scene says that the cup is held, the fingers were measured open: nobody knows, so nothing is
    // placed.
    let mut bench = Bench::new();
    let place = || json!({"object": "cup_1", "support": "counter_1"});
    bench
        .scene
        .relations
        .push(edge("robot", RelationKind::Holds, "cup_1"));
    let gripper = |bench: &mut Bench, state: &str| {
        let robot = bench.object("robot");
        robot.state.insert("gripper".into(), state.into());
    };
    gripper(&mut bench, "holding");
    assert!(bench.check("place", place()).is_ok());
    gripper(&mut bench, "open");
    assert!(matches!(
        bench.check("place", place()),
        Err(GateError::PreconditionNotMet { .. })
    ));
}

#[test]
fn each_fault_has_its_refusal() {
    let bench = Bench::new();
    let error = |skill: &str, arguments: Value| bench.check(skill, arguments).unwrap_err();
    let unknown = error("fly", json!({}));
    assert!(matches!(unknown, GateError::UnknownSkill { .. }));
    assert!(unknown.to_string().contains("navigate_to"), "{unknown}");
    assert!(matches!(
        error("pick", json!({})),
        GateError::Arguments { .. }
    ));
    assert!(matches!(
        error("pick", json!({"object": "cup_1", "force": 900})),
        GateError::Arguments { .. }
    ));
    assert!(matches!(
        error("pick", json!({"object": "cup_9"})),
        GateError::RefNotFound { .. }
    ));
    assert!(matches!(
        error("pick", json!({"object": "counter_1"})),
        GateError::WrongKind { .. }
    ));
    assert!(matches!(
        error("wait", json!({"duration": 1e9})),
        GateError::Arguments { .. }
    ));
    let frame = error(
        "navigate_to_pose",
        json!({"pose": {"frame_id": "moon", "x": 0, "y": 0, "yaw": 0}}),
    );
    assert!(matches!(frame, GateError::UnknownFrame { .. }));
    assert!(frame.to_string().contains("moon") && frame.to_string().contains("map"));
    // JSON has no NaN: what a careless client makes of it is null or a text.
    assert!(matches!(
        error(
            "navigate_to_pose",
            json!({"pose": {"x": Value::Null, "y": 0, "yaw": 0}})
        ),
        GateError::Arguments { .. }
    ));
    assert!(matches!(
        error(
            "navigate_to_pose",
            json!({"pose": {"x": 1e300, "y": 0, "yaw": 0}})
        ),
        GateError::Arguments { .. } | GateError::Geometry { .. }
    ));
}

#[test]
fn a_scene_with_bad_numbers_moves_nothing() {
    let mut bench = Bench::new();
    bench.object("kitchen").pose.position.x = f64::NAN;
    assert!(matches!(
        bench.check("navigate_to", json!({"target": "kitchen"})),
        Err(GateError::Geometry { .. })
    ));
    let mut bench = Bench::new();
    bench.object("kitchen").frame_id = "odom".into();
    assert!(matches!(
        bench.check("navigate_to", json!({"target": "kitchen"})),
        Err(GateError::UnknownFrame { .. })
    ));
}

#[test]
fn preconditions_have_to_be_known_to_hold() {
    let mut bench = Bench::new();
    bench.object("robot").pose = Pose::planar(0.0, 0.0, 0.0);
    let error = bench.check("pick", json!({"object": "cup_1"})).unwrap_err();
    assert!(matches!(error, GateError::PreconditionNotMet { .. }));
    assert!(error.to_string().contains("0.8"), "{error}");
    // Not known is not met.
    let mut bench = Bench::new();
    bench.object("cup_1").last_seen = eh_contract::Stamp::NEVER;
    assert!(bench.check("pick", json!({"object": "cup_1"})).is_err());
    let mut bench = Bench::new();
    bench
        .object("robot")
        .state
        .insert("gripper".into(), "holding".into());
    assert!(bench.check("pick", json!({"object": "cup_1"})).is_err());
}

#[test]
fn what_is_held_may_have_moved_with_the_robot() {
    let displacement = |held: bool| {
        let mut bench = Bench::new();
        if held {
            bench
                .scene
                .relations
                .push(edge("robot", RelationKind::Holds, "cup_1"));
        }
        let admitted = bench
            .check("navigate_to", json!({"target": "cup_1"}))
            .unwrap();
        admitted.issue.command.preconditions[0].max_displacement
    };
    assert_eq!(displacement(false), 0.05);
    // No limit.
    assert_eq!(displacement(true), 0.0);
}

#[test]
fn permissions_and_the_body_limit() {
    let mut bench = Bench::new();
    bench.permissions = vec!["move_base".into()];
    let error = bench.check("pick", json!({"object": "cup_1"})).unwrap_err();
    assert_eq!(error.code(), ErrorCode::PermissionDenied);
    let mut bench = Bench::new();
    bench.object("cup_1").size.x = 0.2;
    bench.object("cup_1").size.y = 0.15;
    let error = bench.check("pick", json!({"object": "cup_1"})).unwrap_err();
    assert!(error.to_string().contains("0.150"), "{error}");
    let mut bench = Bench::new();
    bench.settings.embodiment = Default::default();
    assert!(matches!(
        bench.check("pick", json!({"object": "cup_1"})),
        Err(GateError::Embodiment { .. })
    ));
}

#[test]
fn resources_in_use_are_refused_with_their_holder() {
    let mut bench = Bench::new();
    bench.world = World::new(list(vec![("navigate_to", json!({"target": "kitchen"}))]));
    bench.world.controls = [common::Control::RunsOn].into();
    bench.world.submit(&goal("t1", "go")).unwrap();
    bench.world.run_for(secs(2));
    let error = bench
        .check("navigate_to", json!({"target": "kitchen"}))
        .unwrap_err();
    let id = bench.world.sent[0].command.command_id.clone();
    assert!(error.to_string().contains(&id), "{error}");
    // A drive ends with a look at its target: the head is its own as well, the fingers are free.
    let error = bench
        .check("look_at", json!({"target": "cup_1"}))
        .unwrap_err();
    assert!(error.to_string().contains(&id), "{error}");
    assert!(bench.check("open_gripper", json!({})).is_ok());
}

#[test]
fn nobody_to_judge_or_nobody_to_execute_refuses() {
    let mut bench = Bench::new();
    bench.world.give(eh_harness::Event::EvaluatorSeen(false));
    assert!(matches!(
        bench.check("navigate_to", json!({"target": "kitchen"})),
        Err(GateError::EvaluatorUnavailable { .. })
    ));
    // What is not evaluated needs no evaluator.
    assert!(bench.check("wait", json!({"duration": 1.0})).is_ok());
    // 4 s without a beacon: the skills are withdrawn.
    bench.world.now += secs(4);
    let error = bench.check("wait", json!({"duration": 1.0})).unwrap_err();
    assert!(
        error.to_string().contains("silent")
            && error.to_string().contains("/navigation_skills_node"),
        "{error}"
    );
}

#[test]
fn an_evaluator_that_is_away_for_a_moment_costs_no_step_and_no_attempt() {
    let mut w = World::new(list(fetch()));
    w.give(Event::EvaluatorSeen(false));
    w.submit(&goal("t1", "bring the cup")).unwrap();
    w.run_for(secs(5));
    assert!(w.sent.is_empty() && w.finished.is_empty());
    w.give(Event::EvaluatorSeen(true));
    let record = w.run(secs(60)).clone();
    assert_eq!(record.outcome, TaskOutcome::Succeeded, "{record:#?}");
    assert_eq!(record.steps.len(), fetch().len());
    assert_eq!(record.steps[0].step, 1);
}

//! Whole plans, with the skills that ship, against the graph before they start.

mod flat;

use eh_contract::skill::SkillDescriptor;
use eh_contract::ErrorCode;
use eh_scene::plan_check::{check_plan, Plan, PlanStep, MAX_PLAN, MAX_STEPS};
use eh_scene::{Scene, SceneError};
use flat::{at, flat, NOW};
use serde_json::{json, Value};

/// A step as a planner writes it, from the skill's own descriptor.
fn step(skill: &str, arguments: Value) -> PlanStep {
    let path = format!(
        "{}/../skills/descriptors/{skill}.json",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read_to_string(path).unwrap();
    let descriptor: SkillDescriptor = serde_json::from_str(&text).unwrap();
    PlanStep {
        skill: skill.into(),
        arguments: arguments.as_object().unwrap().clone(),
        preconditions: descriptor.preconditions,
        effects: descriptor.effects,
    }
}

fn navigate(target: &str) -> PlanStep {
    step("navigate_to", json!({ "target": target }))
}

fn pick(object: &str) -> PlanStep {
    step("pick", json!({ "object": object }))
}

fn place(object: &str, support: &str) -> PlanStep {
    step("place", json!({ "object": object, "support": support }))
}

fn check(scene: &Scene, steps: Vec<PlanStep>) -> Result<Vec<String>, SceneError> {
    check_plan(scene.graph(), &Plan { steps }, at(NOW)).map(|report| report.open)
}

/// The step that can't work, and why.
fn failure(scene: &Scene, steps: Vec<PlanStep>) -> (usize, ErrorCode, String) {
    let error = check(scene, steps).unwrap_err();
    (
        error.failed_step().unwrap(),
        error.code(),
        error.to_string(),
    )
}

#[test]
fn fetching_a_cup_works_step_by_step() {
    let scene = flat(150);
    let before = scene.snapshot();
    let open = check(
        &scene,
        vec![
            navigate("cup_1"),
            step("look_at", json!({"target": "cup_1"})),
            pick("cup_1"),
            navigate("bedroom_table_1"),
            place("cup_1", "bedroom_table_1"),
            // The hand is free again and the cup is where it was put.
            pick("cup_1"),
        ],
    )
    .unwrap();
    assert!(open.is_empty(), "{open:?}");
    assert_eq!(scene.snapshot(), before, "a plan changes nothing");
}

#[test]
fn the_first_step_that_cannot_work_is_named_with_the_reason() {
    let scene = flat(150);
    // The robot is in the hall, the cup in the kitchen.
    let (step, code, why) = failure(&scene, vec![pick("cup_1")]);
    assert_eq!((step, code), (0, ErrorCode::PredicateNotMet));
    assert!(why.contains("pick") && why.contains("cup_1"), "{why}");
    // One hand.
    let two = vec![
        navigate("cup_1"),
        pick("cup_1"),
        navigate("bowl_1"),
        pick("bowl_1"),
    ];
    let (step, code, why) = failure(&scene, two);
    assert_eq!((step, code), (3, ErrorCode::PredicateNotMet), "{why}");
    assert!(why.contains("holds cup_1"), "{why}");
    // Set down before it was driven to.
    let far = vec![
        navigate("cup_1"),
        pick("cup_1"),
        place("cup_1", "bathroom_table_1"),
    ];
    let (step, _, why) = failure(&scene, far);
    assert_eq!(step, 2);
    assert!(why.contains("bathroom_table_1"), "{why}");
    // Never taken.
    let (step, _, why) = failure(
        &scene,
        vec![navigate("hall_table_1"), place("cup_1", "hall_table_1")],
    );
    assert_eq!(step, 1);
    assert!(why.contains("does not hold cup_1"), "{why}");
    // Not there.
    let (step, code, why) = failure(&scene, vec![navigate("cup_1"), pick("cup_99")]);
    assert_eq!((step, code), (1, ErrorCode::RefNotFound));
    assert!(why.contains("cup_99"), "{why}");
}

#[test]
fn what_only_shows_on_the_way_is_told_and_does_not_fail() {
    let mut scene = flat(150);
    // Nothing was seen for a minute: a pick wants a sight of 20 s, and driving there may give one.
    let later = at(NOW + 60);
    scene.advance(later);
    let plan = |steps| Plan { steps };
    let drive_first = plan(vec![navigate("cup_1"), pick("cup_1")]);
    let report = check_plan(scene.graph(), &drive_first, later).unwrap();
    assert_eq!(report.open.len(), 1);
    assert!(
        report.open[0].starts_with("step 1 (pick): cup_1 was seen"),
        "{report:?}"
    );
    // A look settles it.
    let look_first = plan(vec![
        navigate("cup_1"),
        step("look_at", json!({"target": "cup_1"})),
        pick("cup_1"),
    ]);
    let report = check_plan(scene.graph(), &look_first, later).unwrap();
    assert!(report.open.is_empty(), "{report:?}");
    // Without driving nothing brings a new sight.
    let near = plan(vec![
        step("look_at", json!({"target": "hall_table_1"})),
        step("stow", json!({})),
        pick("bowl_1"),
    ]);
    assert_eq!(
        check_plan(scene.graph(), &near, later)
            .unwrap_err()
            .failed_step(),
        Some(2)
    );
}

#[test]
fn a_closed_door_is_in_the_way_until_a_step_opens_it() {
    let mut scene = flat(150);
    let close = r#"{"add": [{"door": {"door": "door_2", "open": false}}]}"#;
    let verdict = eh_contract::verdict::Verdict {
        run_id: "r1".into(),
        command_id: "c".into(),
        segment: 0,
        outcome: eh_contract::verdict::Outcome::Success,
        reason: String::new(),
        predicates: vec![],
        evidence: vec![],
        judge: "predicates".into(),
        judge_version: "1".into(),
        stamp: at(NOW),
    };
    scene.apply_effects(&verdict, close, at(NOW)).unwrap();
    // door_2 is between the study, beside the hall, and the bedroom behind it.
    assert!(check(&scene, vec![navigate("study_table_1")]).is_ok());
    let (step, code, why) = failure(
        &scene,
        vec![navigate("study_table_1"), navigate("bedroom_table_1")],
    );
    assert_eq!((step, code), (1, ErrorCode::PredicateNotMet));
    assert!(why.contains("door_2 is closed"), "{why}");
    let open = PlanStep {
        skill: "open_door".into(),
        arguments: json!({"door": "door_2"}).as_object().unwrap().clone(),
        preconditions: Default::default(),
        effects: serde_json::from_value(
            json!({"add": [{"door": {"door": "$door", "open": true}}]}),
        )
        .unwrap(),
    };
    assert!(check(&scene, vec![open, navigate("bedroom_table_1")]).is_ok());
}

#[test]
fn a_place_of_the_issuer_is_no_reason_to_refuse() {
    let scene = flat(150);
    assert!(check(&scene, vec![navigate("where_the_task_began")]).is_ok());
}

#[test]
fn a_plan_is_read_whole_or_not_at_all() {
    let scene = flat(20);
    for (text, says) in [
        ("", "can't be read"),
        ("[]", "can't be read"),
        (r#"{"steps": [{"skill": "x", "wish": 1}]}"#, "wish"),
        (r#"{"steps": [{}]}"#, "skill"),
    ] {
        let error = Plan::from_json(text).unwrap_err();
        assert_eq!(error.code(), ErrorCode::SceneInvalidRequest);
        assert!(error.to_string().contains(says), "{text}: {error}");
    }
    let long = format!("{{\"steps\": [{}]}}", " ".repeat(MAX_PLAN));
    assert!(Plan::from_json(&long)
        .unwrap_err()
        .to_string()
        .contains("bytes"));
    let many = json!({"steps": vec![json!({"skill": "wait"}); MAX_STEPS + 1]}).to_string();
    assert!(Plan::from_json(&many)
        .unwrap_err()
        .to_string()
        .contains("steps"));
    // The second step can't be read, so that nothing is said about the first one, which can't work.
    let text = json!({"steps": [
        {"skill": "pick", "preconditions": {"holding": {"object": "cup_1"}}},
        {"skill": "dance", "preconditions": {"dancing": {}}},
    ]})
    .to_string();
    let error = check_plan(scene.graph(), &Plan::from_json(&text).unwrap(), at(NOW)).unwrap_err();
    assert!(error.to_string().contains("dancing"), "{error}");
    assert_eq!(error.failed_step(), None);
    // A placeholder without an argument.
    let text =
        json!({"steps": [{"skill": "pick", "preconditions": {"holding": {"object": "$object"}}}]})
            .to_string();
    let error = check_plan(scene.graph(), &Plan::from_json(&text).unwrap(), at(NOW)).unwrap_err();
    assert!(error.to_string().contains("object"), "{error}");
    // An effect that can't be made true.
    let text = json!({"steps": [{"skill": "x", "effects": {"add": [{"any": []}]}}]}).to_string();
    let error = check_plan(scene.graph(), &Plan::from_json(&text).unwrap(), at(NOW)).unwrap_err();
    assert_eq!(error.code(), ErrorCode::SceneInvalidRequest);
    assert!(check(&scene, Vec::new()).unwrap().is_empty());
}

//! A scene out as JSON and in again.

mod flat;

use eh_contract::condition::ROBOT;
use eh_contract::scene::RelationKind;
use eh_contract::ErrorCode;
use eh_scene::exchange::MAX_BYTES;
use eh_scene::lexicon::Lexicon;
use eh_scene::{Scene, SceneConfig};
use flat::{at, flat, NOW};
use serde_json::{json, Value};

fn empty(map: &str) -> Scene {
    Scene::new(map, "map", SceneConfig::default(), Lexicon::builtin()).unwrap()
}

#[test]
fn what_goes_out_comes_in_again_with_its_ages() {
    let mut from = flat(150);
    from.set_robot(
        eh_contract::geometry::Pose::planar(1.0, 1.0, 0.0),
        None,
        at(NOW),
        at(NOW),
    )
    .unwrap();
    let text = from.export(at(NOW)).unwrap();
    let mut to = empty("flat");
    assert_eq!(to.import(&text, at(NOW + 500)).unwrap(), 0);
    let (was, is) = (from.snapshot(), to.snapshot());
    // Everything but the robot, which says itself where it is; versions are new ones.
    let plain = |scene: &eh_contract::scene::SceneSnapshot| {
        let mut objects = scene.objects.clone();
        objects.retain(|o| o.r#ref != ROBOT);
        objects.iter_mut().for_each(|o| o.version = 0);
        let mut relations = scene.relations.clone();
        relations.retain(|r| r.subject != ROBOT);
        (objects, relations)
    };
    assert_eq!(plain(&was), plain(&is));
    // An object of which the same was said is not the one that was planned on.
    let version = was.get("cup_1").unwrap().version;
    let before = from.graph().version();
    from.import(&text, at(NOW)).unwrap();
    assert!(from.graph().get("cup_1").unwrap().version > before.max(version));
    assert!(from.graph().get(ROBOT).is_some());
    // Names go on where they were.
    let next = from.graph().clone().next_ref("cup");
    let last = was.objects.iter().filter(|o| o.class_name == "cup").count();
    assert!(next.strip_prefix("cup_").unwrap().parse::<usize>().unwrap() > last);
}

#[test]
fn what_was_there_before_is_gone_on_the_disk_too() {
    let mut scene = flat(60);
    let _ = scene.take_changes();
    let small = flat(30).export(at(NOW)).unwrap();
    let (more, fewer) = (scene.graph().live_count(), 30);
    scene.import(&small, at(NOW)).unwrap();
    assert_eq!(scene.graph().live_count(), fewer);
    let changes = scene.take_changes();
    assert_eq!(changes.removed_objects.len(), more - fewer);
    assert!(!changes.removed_relations.is_empty());
}

#[test]
fn stamps_of_another_clock_are_not_young() {
    let text = flat(60).export(at(NOW)).unwrap();
    let mut scene = empty("flat");
    // Here it is an hour earlier.
    assert!(scene.import(&text, at(NOW - 3600)).unwrap() > 0);
    assert!(scene.graph().get("cup_1").unwrap().last_seen.is_never());
}

#[test]
fn what_cannot_be_used_is_refused_whole() {
    let good: Value = serde_json::from_str(&flat(40).export(at(NOW)).unwrap()).unwrap();
    let mut scene = flat(60);
    let before = scene.snapshot();
    let mut refuse = |change: &dyn Fn(&mut Value), says: &str| {
        let mut bad = good.clone();
        change(&mut bad);
        let error = scene.import(&bad.to_string(), at(NOW)).unwrap_err();
        assert_eq!(error.code(), ErrorCode::SceneInvalidRequest);
        let words = error.to_string();
        assert!(
            words.contains(says) && words.contains("nothing was changed"),
            "{says}: {words}"
        );
        assert_eq!(scene.snapshot(), before);
    };
    // An object that all of this is done to.
    let i = good["objects"]
        .as_array()
        .unwrap()
        .iter()
        .position(|o| o["ref"] == "cup_1")
        .unwrap();
    refuse(&|v| v["format"] = json!("x"), "format");
    refuse(&|v| v["format_version"] = json!(2), "format_version");
    refuse(&|v| v["format_version"] = json!(0), "format_version");
    refuse(&|v| v["map_id"] = json!("office"), "map \"office\"");
    refuse(&|v| v["map_id"] = json!("../office"), "map_id");
    refuse(&|v| v["wish"] = json!(1), "wish");
    refuse(&|v| v["objects"][i]["ref"] = json!(""), "ref");
    refuse(&|v| v["objects"][i]["ref"] = json!("cup_2"), "twice");
    refuse(&|v| v["objects"][i]["frame_id"] = json!("odom"), "frame");
    refuse(
        &|v| v["objects"][i]["confidence"] = json!(1.5),
        "confidence",
    );
    refuse(&|v| v["objects"][i]["kind"] = json!("unspecified"), "kind");
    refuse(
        &|v| v["objects"][i]["position_variance"]["x"] = json!(-1.0),
        "variance",
    );
    refuse(
        &|v| v["objects"][i]["pose"]["position"]["x"] = json!(1e9),
        "limit",
    );
    refuse(
        &|v| v["objects"][i]["pose"]["orientation"] = json!([0, 0, 0, 0]),
        "pose",
    );
    refuse(&|v| v["objects"][i]["size"]["z"] = json!(-0.1), "size");
    refuse(&|v| v["objects"][i]["last_seen"] = json!(-5), "last_seen");
    refuse(
        &|v| v["objects"][i]["aliases"] = json!(vec!["x"; 1000]),
        "1000 entries",
    );
    refuse(
        &|v| v["objects"][i]["class_name"] = json!("x".repeat(1000)),
        "1000 bytes",
    );
    refuse(
        &|v| v["objects"][i]["retired"] = json!(true),
        "no live object",
    );
    refuse(&|v| v["relations"][0]["object"] = json!("attic"), "attic");
    refuse(
        &|v| v["relations"][0]["object"] = v["relations"][0]["subject"].clone(),
        "where it begins",
    );
    refuse(
        &|v| v["relations"][0]["confidence"] = json!(-0.1),
        "confidence",
    );
    refuse(&|v| v["relations"][1] = v["relations"][0].clone(), "twice");
    for text in ["", "{", "[]", "null"] {
        assert!(scene.import(text, at(NOW)).is_err());
    }
    let long = " ".repeat(MAX_BYTES + 1);
    assert!(scene
        .import(&long, at(NOW))
        .unwrap_err()
        .to_string()
        .contains("bytes"));
    assert_eq!(scene.snapshot(), before);
    // And as it was it is taken.
    scene.import(&good.to_string(), at(NOW)).unwrap();
}

#[test]
fn more_objects_than_allowed_are_refused() {
    let text = flat(60).export(at(NOW)).unwrap();
    let config = SceneConfig {
        max_objects: 20,
        max_retired: 10,
        ..SceneConfig::default()
    };
    let mut small = Scene::new("flat", "map", config, Lexicon::builtin()).unwrap();
    let error = small.import(&text, at(NOW)).unwrap_err().to_string();
    assert!(error.contains("60 objects, the limit is 30"), "{error}");
}

#[test]
fn a_hand_that_is_full_is_emptied_first() {
    let mut scene = flat(40);
    let text = scene.export(at(NOW)).unwrap();
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
    let effects = r#"{"add": [{"holding": {"object": "cup_1"}}]}"#;
    scene.apply_effects(&verdict, effects, at(NOW)).unwrap();
    assert!(scene.graph().has(ROBOT, RelationKind::Holds, "cup_1"));
    let error = scene.import(&text, at(NOW)).unwrap_err().to_string();
    assert!(error.contains("holds cup_1"), "{error}");
    // What another robot held is not in this one's hand.
    let held = scene.export(at(NOW)).unwrap();
    let mut other = empty("flat");
    other.import(&held, at(NOW)).unwrap();
    assert_eq!(other.held_by("cup_1"), None);
}

#[test]
fn edges_are_asked_for_by_end_and_kind() {
    let scene = flat(60);
    let ask = |refs: &[&str], kinds: &str, limit: usize| {
        let refs: Vec<String> = refs.iter().map(|r| r.to_string()).collect();
        scene.relations(&refs, kinds, limit)
    };
    let (objects, edges) = ask(&["kitchen_table_1"], "on", 0).unwrap();
    assert!(!edges.is_empty());
    assert!(edges
        .iter()
        .all(|r| r.relation == RelationKind::On && r.object == "kitchen_table_1"));
    assert_eq!(objects.len(), edges.len() + 1);
    let (_, both) = ask(&["kitchen_table_1"], "on in", 0).unwrap();
    assert_eq!(both.len(), edges.len() + 1, "it is in the kitchen itself");
    let (_, doors) = ask(&["hall"], "connects", 0).unwrap();
    assert_eq!(doors.len(), 2);
    assert_eq!(ask(&[], "", 7).unwrap().1.len(), 7);
    assert_eq!(
        ask(&["attic"], "", 0).unwrap_err().code(),
        ErrorCode::RefNotFound
    );
    assert_eq!(
        ask(&[], "beside", 0).unwrap_err().code(),
        ErrorCode::SceneInvalidRequest
    );
}

//! Levels that are opened and closed.

mod flat;

use std::collections::BTreeSet;

use eh_contract::ErrorCode;
use eh_scene::brief::tokens;
use eh_scene::outline::{outline, Level, Outline, MAX_OPEN, REST};
use eh_scene::{Scene, SceneError};
use flat::{at, flat, NOW};

fn open(scene: &Scene, names: &[&str], text: &str, budget: usize) -> Result<Outline, SceneError> {
    let names: BTreeSet<String> = names.iter().map(|n| n.to_string()).collect();
    outline(
        scene.graph(),
        &names,
        text,
        budget,
        at(NOW),
        scene.lexicon(),
    )
}

fn names(outline: &Outline, level: Level) -> Vec<&str> {
    let of_level = outline.entries.iter().filter(|e| e.level == level);
    of_level.map(|e| e.name.as_str()).collect()
}

#[test]
fn closed_it_tells_the_rooms_and_what_is_in_them() {
    let scene = flat(150);
    let all = open(&scene, &[], "", 0).unwrap();
    assert_eq!(all.entries.len(), 6);
    assert_eq!(names(&all, Level::Room).len(), 6);
    let things: usize = all.entries.iter().map(|e| e.inside).sum();
    let objects = scene.graph().of_kind(eh_contract::scene::Kind::Object);
    // Each thing is counted once; the tables are views.
    assert_eq!(things, objects.count());
    let kitchen = all.entries.iter().find(|e| e.name == "kitchen").unwrap();
    assert!(kitchen.text.contains("door_0 to hall"), "{}", kitchen.text);
    assert!(kitchen.text.contains("cup"), "{}", kitchen.text);
    // A planner reads a fiftieth of the graph.
    let whole = serde_json::to_string(&scene.snapshot()).unwrap().len();
    assert!(
        all.text.len() * 50 <= whole,
        "{} of {whole}",
        all.text.len()
    );
}

#[test]
fn what_is_opened_is_shown_and_closing_takes_it_away() {
    let scene = flat(150);
    let room = open(&scene, &["study"], "", 0).unwrap();
    assert_eq!(
        names(&room, Level::View),
        ["study_table_1", "study_table_2"]
    );
    assert!(names(&room, Level::Object).is_empty());
    let view = open(&scene, &["study", "study_table_2"], "", 0).unwrap();
    let things = names(&view, Level::Object);
    assert!(!things.is_empty());
    for thing in &things {
        assert!(scene
            .graph()
            .has(thing, eh_contract::scene::RelationKind::On, "study_table_2"));
    }
    // The nodes and edges behind the lines come with it, and no others.
    let told: BTreeSet<&str> = view.objects.iter().map(|o| o.r#ref.as_str()).collect();
    assert!(things.iter().all(|t| told.contains(t)));
    assert!(view
        .relations
        .iter()
        .all(|r| told.contains(r.subject.as_str()) && told.contains(r.object.as_str())));
    // Opening a thing opens what it is in, and tells all its edges.
    let thing = open(&scene, &[things[0]], "", 0).unwrap();
    assert_eq!(names(&thing, Level::Object), things);
    // Closed again it is as before.
    assert_eq!(open(&scene, &["study"], "", 0).unwrap(), room);
}

#[test]
fn words_lead_from_the_room_to_the_view_to_the_thing() {
    let scene = flat(150);
    let cups: Vec<String> = scene
        .graph()
        .of_kind(eh_contract::scene::Kind::Object)
        .filter(|o| o.class_name == "cup" && o.attributes.get("color").is_some_and(|c| c == "red"))
        .map(|o| o.r#ref.clone())
        .collect();
    assert!(!cups.is_empty() && cups.len() < 10);
    for text in ["the red cup", "红色的杯子"] {
        let rooms = open(&scene, &[], text, 0).unwrap();
        let fitting: usize = rooms.entries.iter().map(|e| e.fitting).sum();
        assert_eq!(fitting, cups.len(), "{}", rooms.text);
        let first = rooms.entries.first().unwrap();
        assert!(
            first.fitting > 0 && first.text.contains("fit"),
            "{}",
            rooms.text
        );
        let views = open(&scene, &[&first.name], text, 0).unwrap();
        let view = views
            .entries
            .iter()
            .find(|e| e.level == Level::View)
            .unwrap();
        assert!(view.fitting > 0 && !view.image.is_empty());
        let things = open(&scene, &[&first.name, &view.name], text, 0).unwrap();
        let thing = names(&things, Level::Object)[0];
        assert!(cups.iter().any(|c| c == thing), "{thing}");
    }
}

#[test]
fn what_stands_nowhere_is_in_the_rest_of_its_room() {
    use eh_contract::scene::RelationKind;
    let mut scene = flat(150);
    let mut records = scene.take_changes();
    records = eh_scene::ChangeSet {
        map_id: "flat".into(),
        objects: vec![eh_contract::scene::SceneObject {
            r#ref: "ball_1".into(),
            kind: eh_contract::scene::Kind::Object,
            class_name: "ball".into(),
            frame_id: "map".into(),
            ..Default::default()
        }],
        relations: vec![eh_contract::scene::Relation {
            subject: "ball_1".into(),
            relation: RelationKind::In,
            object: "hall".into(),
            confidence: 1.0,
            stamp: at(NOW),
            source: eh_contract::scene::Source::Perception,
        }],
        version: records.version,
        ..Default::default()
    };
    scene.restore(records, at(NOW)).unwrap();
    let rest = format!("hall{REST}");
    let hall = open(&scene, &["hall"], "", 0).unwrap();
    assert!(names(&hall, Level::View).contains(&rest.as_str()));
    let opened = open(&scene, &["hall", &rest], "", 0).unwrap();
    assert_eq!(names(&opened, Level::Object), ["ball_1"]);
}

#[test]
fn a_budget_is_kept_and_what_is_cut_off_is_counted() {
    let scene = flat(400);
    let rooms: Vec<String> = names(&open(&scene, &[], "", 0).unwrap(), Level::Room)
        .into_iter()
        .flat_map(|r| {
            [
                r.to_string(),
                format!("{r}_table_1"),
                format!("{r}_table_2"),
            ]
        })
        .collect();
    let rooms: Vec<&str> = rooms.iter().map(String::as_str).collect();
    for budget in [100, 300, 1000] {
        let cut = open(&scene, &rooms, "", budget).unwrap();
        assert!(tokens(&cut.text) <= budget, "{} tokens", tokens(&cut.text));
        assert!(
            cut.text.ends_with("lines more; close something"),
            "{}",
            cut.text
        );
    }
    let all = open(&scene, &rooms, "", 100_000).unwrap();
    let things = scene.graph().of_kind(eh_contract::scene::Kind::Object);
    assert_eq!(names(&all, Level::Object).len(), things.count());
}

#[test]
fn what_there_is_not_and_too_much_are_refused() {
    let scene = flat(30);
    let code = |names: &[&str]| open(&scene, names, "", 0).unwrap_err().code();
    assert_eq!(code(&["attic"]), ErrorCode::RefNotFound);
    assert_eq!(code(&["attic:rest"]), ErrorCode::RefNotFound);
    let many: Vec<String> = (0..=MAX_OPEN).map(|i| format!("cup_{i}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(code(&many), ErrorCode::SceneInvalidRequest);
}

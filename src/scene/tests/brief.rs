//! The brief is a small part of the graph, and what the task names is in it.

mod flat;

use eh_contract::condition::ROBOT;
use eh_contract::scene::Kind;
use eh_scene::brief::tokens;
use flat::{at, flat, NOW};

/// The line about a node.
fn line<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines()
        .find(|l| *l == name || l.starts_with(&format!("{name} ")))
}

#[test]
fn at_150_objects_a_tenth_of_the_graph_tells_what_the_task_names() {
    let scene = flat(150);
    assert_eq!(scene.graph().live_count(), 150);
    let whole = serde_json::to_string(&scene.snapshot()).unwrap().len();
    for (task, named) in [
        // cup_5 is the only red one in the kitchen, bowl_1 the only red one at all that is not far away.
        ("bring the red cup to the bedroom", vec!["cup", "bedroom"]),
        ("把红色的杯子拿到卧室", vec!["cup", "bedroom"]),
        (
            "put all books on study_table_2",
            vec!["book", "study_table_2"],
        ),
        ("is the door_3 open?", vec!["door_3"]),
        (
            "take bottle_7 and plate_9 to the bathroom",
            vec!["bottle_7", "plate_9", "bathroom"],
        ),
    ] {
        for budget in [0, 500, 300] {
            let text = scene.brief(task, budget, at(NOW));
            assert!(
                text.len() * 10 <= whole,
                "{task}: {} of {whole} bytes",
                text.len()
            );
            let limit = if budget == 0 { 1000 } else { budget };
            assert!(tokens(&text) <= limit, "{task}: {} tokens", tokens(&text));
            for name in &named {
                let told = text.lines().any(|l| {
                    l.starts_with(&format!("{name} "))
                        || l == *name
                        || l.starts_with(&format!("{name}_"))
                });
                assert!(told, "{task}, {budget} tokens: no {name} in\n{text}");
            }
        }
    }
}

#[test]
fn each_word_of_the_task_gets_its_line_however_many_fit_another() {
    // 19 cups fit one word; the room and the table that the task names fit one word each, too.
    let scene = flat(150);
    let text = scene.brief(
        "bring all cups to study_table_2 in the living room",
        160,
        at(NOW),
    );
    assert!(tokens(&text) <= 160);
    for name in ["study_table_2", "living_room"] {
        assert!(line(&text, name).is_some(), "no {name} in\n{text}");
    }
    assert!(text.lines().any(|l| l.starts_with("cup_")), "{text}");
}

#[test]
fn where_things_are_and_what_the_robot_does_is_told() {
    let scene = flat(150);
    let text = scene.brief("bring cup_3", 0, at(NOW));
    let first = text.lines().next().unwrap();
    assert!(first.contains("robot in hall, holds nothing"), "{first}");
    // What it stands on, and the room through the table's own line.
    let graph = scene.graph();
    let cup = line(&text, "cup_3").unwrap();
    let on = graph
        .from_subject("cup_3")
        .find(|r| r.relation == eh_contract::scene::RelationKind::On)
        .unwrap();
    assert!(cup.contains(&format!("on {}", on.object)), "{cup}");
    let table = line(&text, &on.object).unwrap();
    let room = eh_scene::query::ancestors(graph, &on.object)
        .into_iter()
        .find(|r| graph.get(r).is_some_and(|o| o.kind == Kind::Room))
        .unwrap();
    assert!(table.contains(&format!("in {room}")), "{table}");
    assert!(line(&text, ROBOT).is_none());
    // What was left out is counted.
    let last = text.lines().last().unwrap();
    assert!(last.ends_with("more; ask with find"), "{last}");
}

#[test]
fn beside_what_a_thing_stands_is_told_of_what_the_task_names_only() {
    use eh_contract::scene::{Relation, RelationKind, Source};
    let mut scene = flat(150);
    let mut graph = scene.graph().clone();
    for (subject, object) in [("cup_3", "plate_1"), ("bowl_2", "plate_1")] {
        graph.relate(Relation {
            subject: subject.into(),
            relation: RelationKind::Near,
            object: object.into(),
            confidence: 0.9,
            stamp: at(NOW),
            source: Source::Perception,
        });
    }
    let records = eh_scene::ChangeSet {
        map_id: "flat".into(),
        relations: graph.relations().cloned().collect(),
        ..Default::default()
    };
    scene.restore(records, at(NOW)).unwrap();
    let text = scene.brief("bring cup_3", 0, at(NOW));
    assert!(
        line(&text, "cup_3").unwrap().contains("near plate_1"),
        "{text}"
    );
    assert_eq!(text.matches("near plate_1").count(), 1, "{text}");
}

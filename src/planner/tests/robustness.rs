//! Whatever is said, nothing panics and time stays in bounds; what is accepted can be carried out.

mod common;

use std::time::{Duration, Instant};

use common::world::descriptors;
use eh_contract::ErrorCode;
use eh_planner::grammar::understand;
use eh_planner::phrase_table::Tables;
use eh_planner::{
    Language, Planner, PlannerError, PlanningContext, Program, SymbolicPlanner, TaskInput, Turn,
};
use proptest::prelude::*;

fn begin(instruction: &str) -> Result<Program, PlannerError> {
    let scene = common::home();
    SymbolicPlanner::new().unwrap().begin(&TaskInput {
        instruction,
        snapshot: &scene,
        vocabulary: &[],
    })
}

/// Forms of all words of the tables.
fn words() -> Vec<String> {
    let t = Tables::embedded().unwrap();
    let mut out: Vec<String> = vec![
        ",".into(),
        "。".into(),
        "2".into(),
        "kitchen".into(),
        "apple_1".into(),
    ];
    for verb in t.phrases.verbs.values() {
        out.extend(
            verb.en
                .iter()
                .chain(&verb.zh)
                .chain(&verb.zh_alone)
                .cloned(),
        );
    }
    for forms in t
        .phrases
        .prepositions
        .values()
        .chain(t.phrases.postpositions.values())
        .chain(t.phrases.pronouns.values())
    {
        out.extend(forms.iter().cloned());
    }
    let p = &t.phrases;
    for forms in [
        &p.connectives,
        &p.links,
        &p.back,
        &p.indefinite,
        &p.definite,
        &p.other,
        &p.filler,
    ] {
        out.extend(forms.iter().cloned());
    }
    for noun in t.nouns.nouns.iter().take(70) {
        out.extend(noun.en.iter().chain(&noun.zh).cloned());
    }
    for attribute in &t.nouns.attributes {
        out.extend(attribute.iter().cloned());
    }
    out.extend(
        p.units
            .en
            .keys()
            .chain(p.units.zh.keys())
            .chain(p.numbers.zh.keys())
            .cloned(),
    );
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_text_is_understood_or_refused(text in "\\PC{0,400}") {
        let _ = begin(&text);
    }

    #[test]
    fn any_bytes_of_unicode_are_understood_or_refused(
        text in proptest::collection::vec(any::<char>(), 0..300)
    ) {
        let text: String = text.into_iter().collect();
        let _ = begin(&text);
    }

    #[test]
    fn any_order_of_known_words_is_understood_or_refused_and_what_is_understood_has_a_turn(
        picks in proptest::collection::vec(any::<prop::sample::Index>(), 1..12),
        spaced in any::<bool>(),
    ) {
        let words = words();
        let parts: Vec<&str> = picks.iter().map(|i| i.get(&words).as_str()).collect();
        let text = parts.join(if spaced { " " } else { "" });
        if let Ok(mut program) = begin(&text) {
            let scene = common::home();
            let skills = descriptors();
            let turn = SymbolicPlanner::new().unwrap().next(&mut program, &PlanningContext {
                snapshot: &scene,
                now: common::START,
                skills: &skills,
                history: &[],
                answers: &[],
                start_ref: "start",
            });
            if let Turn::Fail { code, message } = turn {
                prop_assert!(code != ErrorCode::PlannerFailure, "{text}: {message}");
                prop_assert!(!message.is_empty());
            }
        }
    }
}

#[test]
fn the_longest_instructions_take_bounded_time() {
    // 2000 characters each; a quadratic step over 2000 tokens is 4 million operations, a cubic one would
    // take minutes. Generous, because it runs unoptimised and beside other work.
    let long = [
        "去".repeat(2000),
        "的".repeat(2000),
        "厨房的".repeat(666),
        "把杯子放到桌子上，".repeat(222),
        "bring the red cup ".repeat(111),
        "in the ".repeat(285),
        "和".repeat(2000),
        "1 ".repeat(1000),
        "桌子上的".repeat(500),
        "z".repeat(2000),
        "𠀀".repeat(2000),
    ];
    for text in &long {
        let start = Instant::now();
        let _ = begin(text);
        let took = start.elapsed();
        let head: String = text.chars().take(9).collect();
        assert!(took < Duration::from_secs(10), "{head}…: {took:?}");
    }
    assert!(matches!(
        begin(&"go ".repeat(700)),
        Err(PlannerError::TooLong { len: 2100, .. })
    ));
}

#[test]
fn refusals_say_what_to_do() {
    for (text, code, parts) in [
        ("", ErrorCode::InstructionEmpty, vec!["bring the cup"]),
        (
            "  \n\t ",
            ErrorCode::InstructionEmpty,
            vec!["bring the cup"],
        ),
        ("。。。", ErrorCode::InstructionEmpty, vec!["bring the cup"]),
        (
            "bring the cpu",
            ErrorCode::InstructionNotUnderstood,
            vec!["\"cpu\"", "\"cup\"", "kitchen"],
        ),
        (
            "跳舞",
            ErrorCode::InstructionNotUnderstood,
            vec!["跳舞", "去厨房"],
        ),
        ("🤖🤖", ErrorCode::InstructionNotUnderstood, vec!["🤖"]),
        (
            "bring several cups",
            ErrorCode::InstructionNotUnderstood,
            vec!["several", "number"],
        ),
        (
            "put the cup on the apple",
            ErrorCode::InstructionNotUnderstood,
            vec!["apple", "furniture"],
        ),
        (
            "bring",
            ErrorCode::InstructionNotUnderstood,
            vec!["bring", "more"],
        ),
        (
            "把它放到桌子上吗，{x}",
            ErrorCode::InstructionNotUnderstood,
            vec!["{"],
        ),
    ] {
        let error = begin(text).unwrap_err();
        assert_eq!(error.code(), code, "{text}");
        for part in parts {
            assert!(error.to_string().contains(part), "{text}: {error}");
        }
    }
    let huge = "x".repeat(1999);
    assert!(begin(&huge).unwrap_err().to_string().len() < 1500);
}

#[test]
fn examples_are_understood_in_every_home() {
    let tables = Tables::embedded().unwrap();
    let scene = common::home();
    for example in tables.phrases.examples.iter() {
        understand(example, &tables, &scene, &[]).unwrap();
    }
    assert_eq!(begin("去厨房").unwrap().language, Language::Zh);
    assert_eq!(begin("go to the kitchen").unwrap().language, Language::En);
}

#[test]
fn classes_of_perception_are_words() {
    let scene = common::home();
    let tables = Tables::embedded().unwrap();
    assert!(understand("把小玩意拿来", &tables, &scene, &[]).is_err());
    assert!(understand("把小玩意拿来", &tables, &scene, &["小玩意".into()]).is_ok());
    let u = understand(
        "bring the gizmo_box",
        &tables,
        &scene,
        &["gizmo_box".into()],
    )
    .unwrap();
    assert_eq!(
        u.goals[0].sketch(&u.things),
        "holding(gizmo box) & near(here)"
    );
}

#[test]
fn tables_can_be_replaced_and_bad_ones_say_where() {
    let error = Tables::read(Some("version: 1\nverbs: 7"), None, None).unwrap_err();
    assert!(error.to_string().contains("phrases"), "{error}");
    let nouns = r#"
version: "2"
nouns: [{kinds: [object], en: [sprocket], zh: [链轮]}]
attributes: [{en: [shiny], zh: [闪亮]}]
"#;
    let tables = Tables::read(None, Some(nouns), None).unwrap();
    let scene = common::home();
    let u = understand("把闪亮的链轮拿来", &tables, &scene, &[]).unwrap();
    assert_eq!(
        u.goals[0].sketch(&u.things),
        "holding(sprocket[shiny]) & near(here)"
    );
    assert!(understand("拿杯子", &tables, &scene, &[]).is_err());
}

#[test]
fn a_damaged_program_fails_and_moves_nothing() {
    let scene = common::home();
    let skills = descriptors();
    let planner = SymbolicPlanner::new().unwrap();
    let context = PlanningContext {
        snapshot: &scene,
        now: common::START,
        skills: &skills,
        history: &[],
        answers: &[],
        start_ref: "start",
    };
    let good = begin("bring the apple").unwrap();
    let mut other = good.clone();
    other.planner = "model".into();
    let mut broken = good.clone();
    broken.state = serde_json::json!({"goals": 7});
    let mut loops = good.clone();
    loops.state["things"]["t1"]["within"] = serde_json::json!(["at", "t1"]);
    let mut nothing = good;
    nothing.state["things"] = serde_json::json!({});
    for mut program in [other, broken, loops, nothing] {
        let turn = planner.next(&mut program, &context);
        assert!(
            matches!(
                turn,
                Turn::Fail {
                    code: ErrorCode::PlannerFailure,
                    ..
                }
            ),
            "{turn:?}"
        );
    }
}

#[test]
fn a_scene_full_of_nonsense_is_survived() {
    let mut scene = common::home();
    for object in &mut scene.objects {
        object.pose.position.x = f64::NAN;
        object.size.y = f64::INFINITY;
    }
    let skills = descriptors();
    let planner = SymbolicPlanner::new().unwrap();
    let mut program = begin("bring the cup").unwrap();
    let turn = planner.next(
        &mut program,
        &PlanningContext {
            snapshot: &scene,
            now: eh_contract::time::Stamp(i64::MIN),
            skills: &skills,
            history: &[],
            answers: &[],
            start_ref: "nowhere",
        },
    );
    assert!(matches!(turn, Turn::Propose(_) | Turn::Fail { .. }));
}

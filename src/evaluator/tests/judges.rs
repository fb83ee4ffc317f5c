//! The judges behind one trait: what each says, and that none can be made to say SUCCESS by a bad answer.

mod common;

use common::{at, cup_binding, descriptor, Fixture, END};
use eh_contract::skill::SkillDescriptor;
use eh_contract::verdict::{Outcome, Verdict};
use eh_evaluator::evaluation::{self, Bench, Evaluation};
use eh_evaluator::judges::{
    Answer, Asked, Begin, Judge, JudgeKind, JudgesConfig, Look, NamedView, Question,
};
use eh_evaluator::{Case, EvaluatorConfig, EvaluatorError};
use serde_json::{json, Value};
use std::time::Duration;

fn open() -> SkillDescriptor {
    let mut skill = descriptor("open_gripper", json!({"gripper": {"state": "open"}}));
    skill.postcondition_text = "the gripper is open".into();
    skill
}

/// A run after which the fingers are `width` apart, with pictures.
fn run(width: f64) -> Fixture {
    let mut f = Fixture::new();
    f.start("open_gripper", json!({}), vec![cup_binding()]);
    f.end("open_gripper", json!({}), vec![cup_binding()]);
    f.gripper(END + 0.1, width, 0.0);
    f.frame(END - 0.5, &[]);
    for i in 0..5 {
        f.frame(END + 0.2 + 0.1 * f64::from(i), &[]);
    }
    f
}

/// A picture of each view, of which one is from before the end and one twice.
fn views() -> Vec<NamedView> {
    [
        ("head", 0.3),
        ("hand", -0.1),
        ("ceiling", 0.2),
        ("head", 0.1),
        ("door", 0.2),
        ("window", 0.2),
    ]
    .map(|(name, after)| NamedView {
        name: name.into(),
        stamp: at(END + after),
        source: format!("{name}/image"),
    })
    .to_vec()
}

fn begin(judge: &mut dyn Judge, f: &Fixture) -> Begin {
    begin_with(judge, f, &open())
}

fn begin_with(judge: &mut dyn Judge, f: &Fixture, skill: &SkillDescriptor) -> Begin {
    let case = Case {
        record: f.book.get("r1", &f.config).unwrap(),
        segment: 0,
        descriptor: skill,
        prior: None,
        map_frame: "map",
        embodiment: &f.embodiment,
        config: &f.config,
    };
    let look = Look {
        case: &case,
        buffer: &f.buffer,
        views: &views(),
        now: at(f.now),
        max_age: Duration::ZERO,
    };
    judge.begin(&look).unwrap()
}

fn asked(judge: &mut dyn Judge, f: &Fixture) -> Question {
    match begin(judge, f) {
        Begin::Ask(question) => *question,
        Begin::Verdict(v) => panic!("{v:?}"),
    }
}

fn config() -> JudgesConfig {
    JudgesConfig {
        version: "m1".into(),
        ..JudgesConfig::default()
    }
}

fn answer(kind: JudgeKind, width: f64, answer: Answer) -> Verdict {
    let mut judge = kind.judge(config());
    assert_eq!(judge.kind(), kind);
    let question = asked(&mut *judge, &run(width));
    judge.finish(question, answer, at(END + 2.0))
}

fn says(outcome: &str) -> Answer {
    let text =
        json!({"outcome": outcome, "reason": "the picture shows it", "evidence_ids": ["e1"]});
    Answer::Text(text.to_string())
}

#[test]
fn predicates_ask_nobody() {
    let mut judge = JudgeKind::Predicates.judge(config());
    match begin(&mut *judge, &run(0.1)) {
        Begin::Verdict(v) => assert_eq!(
            (v.outcome, v.judge.as_str()),
            (Outcome::Success, "predicates")
        ),
        Begin::Ask(q) => panic!("{q:?}"),
    }
    assert!(JudgeKind::of("oracle")
        .unwrap_err()
        .to_string()
        .contains("predicates, model"));
    for kind in JudgeKind::ALL {
        assert_eq!(JudgeKind::of(kind.name()), Ok(kind));
    }
}

#[test]
fn a_question_carries_evidence_and_three_pictures_from_after_the_end() {
    let mut judge = JudgeKind::Model.judge(config());
    let q = asked(&mut *judge, &run(0.1));
    assert_eq!(q.asked, Asked::Model);
    let names: Vec<&str> = q.views.iter().map(|v| v.name.as_str()).collect();
    assert_eq!(names, ["head", "ceiling", "door"]);
    assert!(q.views.iter().all(|v| v.stamp > at(END)), "{:?}", q.views);
    assert_eq!(q.condition, json!({"gripper": {"state": "open"}}));
    let prompt: Value = serde_json::from_str(&q.prompt()).unwrap();
    assert_eq!(prompt["post_condition"], "the gripper is open");
    assert_eq!(prompt["evidence"][0]["id"], "e1");
    assert_eq!(
        prompt["pictures"],
        json!(["view_head", "view_ceiling", "view_door"])
    );
    // Who is asked does not hear what the predicates say.
    assert!(!q.prompt().contains("SUCCESS") && !q.prompt().contains("Success"));
}

#[test]
fn a_model_is_taken_at_its_word_only_when_the_words_fit() {
    for (outcome, expected) in [
        ("SUCCESS", Outcome::Success),
        ("FAILURE", Outcome::Failure),
        ("UNKNOWN", Outcome::Unknown),
    ] {
        let v = answer(JudgeKind::Model, 0.02, says(outcome));
        assert_eq!(v.outcome, expected);
        assert_eq!(
            (v.judge.as_str(), v.judge_version.as_str()),
            ("model", "m1")
        );
    }
    let good = json!({"outcome": "SUCCESS", "reason": "r", "evidence_ids": ["e1"]});
    for (key, value) in [
        ("outcome", json!("PROCESS")),
        ("outcome", json!("success")),
        ("outcome", json!(["SUCCESS"])),
        ("reason", json!("")),
        ("reason", json!("x".repeat(2000))),
        ("reason", json!(7)),
        ("evidence_ids", json!(["e99"])),
        ("evidence_ids", json!("e1")),
        ("evidence_ids", json!([])),
        // That picture is from before the end, so it was not shown.
        ("evidence_ids", json!(["view_hand"])),
        ("certainty", json!(1.0)),
    ] {
        let mut bad = good.clone();
        bad[key] = value;
        let v = answer(JudgeKind::Model, 0.1, Answer::Text(bad.to_string()));
        assert_eq!(v.outcome, Outcome::Unknown, "{bad}");
        assert!(
            v.reason.contains("the model gave no verdict"),
            "{}",
            v.reason
        );
    }
    for text in [
        String::new(),
        "SUCCESS".into(),
        format!("Sure! {good}"),
        format!("{good}{good}"),
        "[".repeat(100_000),
        " ".repeat(1_000_000),
    ] {
        let v = answer(JudgeKind::Model, 0.1, Answer::Text(text));
        assert_eq!(v.outcome, Outcome::Unknown, "{v:?}");
    }
    let v = answer(
        JudgeKind::Model,
        0.1,
        Answer::None("no answer within 20 s".into()),
    );
    assert_eq!(v.outcome, Outcome::Unknown);
    assert!(v.reason.contains("20 s"));
}

#[test]
fn both_have_to_agree() {
    // Open at 0.1 m, closed on something at 0.02 m.
    for (width, words, expected) in [
        (0.1, "SUCCESS", Outcome::Success),
        (0.02, "FAILURE", Outcome::Failure),
        (0.1, "FAILURE", Outcome::Unknown),
        (0.02, "SUCCESS", Outcome::Unknown),
        (0.1, "UNKNOWN", Outcome::Unknown),
    ] {
        let v = answer(JudgeKind::Both, width, says(words));
        assert_eq!(v.outcome, expected, "{width} {words}: {v:?}");
        assert_eq!(v.judge, "both");
    }
    let v = answer(JudgeKind::Both, 0.1, Answer::Text("nonsense".into()));
    assert_eq!(v.outcome, Outcome::Unknown);
    assert!(v.reason.contains("do not agree"), "{}", v.reason);
}

#[test]
fn a_model_is_asked_so_often_and_not_more() {
    let mut judge = JudgeKind::Both.judge(JudgesConfig {
        questions_per_hour: 2,
        ..config()
    });
    let mut f = run(0.1);
    for _ in 0..2 {
        asked(&mut *judge, &f);
    }
    match begin(&mut *judge, &f) {
        Begin::Verdict(v) => {
            assert_eq!(v.outcome, Outcome::Unknown);
            assert!(v.reason.contains("questions_per_hour"), "{}", v.reason);
        }
        Begin::Ask(_) => panic!("asked a third time"),
    }
    f.now += 3600.0;
    asked(&mut *judge, &f);
}

#[test]
fn an_external_judge_has_to_speak_of_this_run_and_on_evidence() {
    let mut judge = JudgeKind::External.judge(config());
    let question = asked(&mut *judge, &run(0.1));
    assert_eq!(question.asked, Asked::External);
    let mut verdict = Verdict {
        run_id: "r1".into(),
        command_id: "of somebody".into(),
        segment: 0,
        outcome: Outcome::Success,
        reason: "weighed".into(),
        predicates: vec![],
        evidence: question.evidence.clone(),
        judge: "scales".into(),
        judge_version: "2".into(),
        stamp: at(0.0),
    };
    let mut say = |v: &Verdict| {
        let answer = Answer::Verdict(Box::new(v.clone()));
        judge.finish(question.clone(), answer, at(END + 2.0))
    };
    let v = say(&verdict);
    assert_eq!(v.outcome, Outcome::Success);
    assert_eq!(
        (v.judge.as_str(), v.command_id.as_str()),
        ("external", "c1")
    );
    assert_eq!(v.stamp, at(END + 2.0));
    verdict.evidence[0].stamp = at(END - 1.0);
    assert_eq!(say(&verdict).outcome, Outcome::Unknown);
    verdict.evidence.clear();
    assert_eq!(say(&verdict).outcome, Outcome::Unknown);
    verdict.outcome = Outcome::Failure;
    assert_eq!(say(&verdict).outcome, Outcome::Failure);
    verdict.outcome = Outcome::Process;
    assert_eq!(say(&verdict).outcome, Outcome::Unknown);
    verdict.outcome = Outcome::Failure;
    verdict.run_id = "r2".into();
    assert_eq!(say(&verdict).outcome, Outcome::Unknown);
    let words = judge.finish(question, says("SUCCESS"), at(END + 2.0));
    assert_eq!(words.outcome, Outcome::Unknown);
}

#[test]
fn a_picture_is_evidence_and_stands_in_the_verdict() {
    let text = json!({"outcome": "SUCCESS", "reason": "seen", "evidence_ids": ["view_ceiling"]});
    let v = answer(JudgeKind::Model, 0.1, Answer::Text(text.to_string()));
    assert_eq!(v.outcome, Outcome::Success);
    let picture = v.evidence.iter().find(|e| e.id == "view_ceiling").unwrap();
    assert_eq!(
        (picture.kind.as_str(), picture.source.as_str()),
        ("image", "ceiling/image")
    );
    assert_eq!(picture.stamp, at(END + 0.2));
}

#[test]
fn what_does_not_hold_yet_is_process_for_a_model_too_while_segments_follow() {
    let mut skill = open();
    (skill.segmented, skill.max_segments) = (true, 2);
    let mut judge = JudgeKind::Both.judge(config());
    let Begin::Ask(question) = begin_with(&mut *judge, &run(0.02), &skill) else {
        panic!("it has to ask");
    };
    let v = judge.finish(*question, says("FAILURE"), at(END + 2.0));
    assert_eq!(v.outcome, Outcome::Process);
    // The last segment that there may be.
    skill.max_segments = 1;
    let Begin::Ask(question) = begin_with(&mut *judge, &run(0.02), &skill) else {
        panic!("it has to ask");
    };
    let v = judge.finish(*question, says("FAILURE"), at(END + 2.0));
    assert_eq!(v.outcome, Outcome::Failure);
}

#[test]
fn words_alone_are_for_a_judge_that_reads() {
    let skill = SkillDescriptor {
        postcondition_text: "$object looks clean".into(),
        ..descriptor("wipe", json!({}))
    };
    let mut f = Fixture::new();
    f.start("wipe", json!({"object": "cup_1"}), vec![cup_binding()]);
    f.end("wipe", json!({"object": "cup_1"}), vec![cup_binding()]);
    let evaluation = Evaluation {
        run_id: "r1".into(),
        segment: 0,
        asked: at(END + 0.1),
        timeout: Duration::ZERO,
        max_age: Duration::ZERO,
    };
    let look = |reads_text: bool| {
        let config = EvaluatorConfig {
            reads_text,
            ..f.config.clone()
        };
        let bench = Bench {
            book: &f.book,
            buffer: &f.buffer,
            prior: None,
            map_frame: "map",
            embodiment: &f.embodiment,
            config: &config,
        };
        evaluation.look(
            &bench,
            |_, _| Some(&skill),
            at(END + 0.2),
            Duration::ZERO,
            false,
        )
    };
    assert!(matches!(
        look(false),
        evaluation::Look::Done(Err(EvaluatorError::NoPredicates { .. }))
    ));
    match look(true) {
        evaluation::Look::Done(Ok(v)) => assert_eq!(v.outcome, Outcome::Unknown),
        other => panic!("{other:?}"),
    }
    let mut judge = JudgeKind::Model.judge(config());
    let Begin::Ask(question) = begin_with(&mut *judge, &f, &skill) else {
        panic!("it has to ask");
    };
    assert_eq!(
        (question.text.as_str(), &question.condition),
        ("cup_1 looks clean", &Value::Null)
    );
    let text = json!({"outcome": "SUCCESS", "reason": "no stain", "evidence_ids": ["view_head"]});
    let v = judge.finish(*question, Answer::Text(text.to_string()), at(END + 2.0));
    assert_eq!((v.outcome, v.judge.as_str()), (Outcome::Success, "model"));
    // Predicates that are not there agree with nobody.
    let mut both = JudgeKind::Both.judge(config());
    let Begin::Ask(question) = begin_with(&mut *both, &f, &skill) else {
        panic!("it has to ask");
    };
    let v = both.finish(*question, Answer::Text(text.to_string()), at(END + 2.0));
    assert_eq!(v.outcome, Outcome::Unknown);
}

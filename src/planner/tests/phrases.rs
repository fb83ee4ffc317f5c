//! Every phrase of the tables is understood as they say, or refused with the reason that they say.

mod common;
#[path = "common/world_file.rs"]
mod world_file;

use std::collections::BTreeMap;

use eh_contract::scene::SceneSnapshot;
use eh_contract::ErrorCode;
use eh_planner::grammar::understand;
use eh_planner::phrase_table::Tables;
use eh_planner::text::language_of;
use eh_planner::{
    Language, Planner, PlannerError, PlanningContext, SymbolicPlanner, TaskInput, Turn,
};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    say: String,
    /// World whose map and objects are known.
    #[serde(default, rename = "in")]
    world: Option<String>,
    #[serde(default)]
    goals: Vec<String>,
    /// Words that the refusal has to name as unknown; with `goals` empty.
    #[serde(default)]
    unknown: Vec<String>,
    /// A part of what the refusal says; with `goals` empty.
    #[serde(default)]
    refused: Option<String>,
}

/// All cases with the world of each.
fn cases() -> Vec<(Case, &'static str)> {
    [
        (include_str!("phrases.yaml"), "home"),
        (include_str!("phrases_en.yaml"), "apartment"),
        (include_str!("phrases_zh.yaml"), "apartment"),
    ]
    .into_iter()
    .flat_map(|(text, world)| {
        let cases: Vec<Case> = serde_yaml_ng::from_str(text).unwrap();
        cases.into_iter().map(move |c| (c, world))
    })
    .collect()
}

fn scenes() -> BTreeMap<&'static str, SceneSnapshot> {
    let apartment = include_str!("../../../worlds/apartment.yaml");
    let two_rooms = include_str!("../../../worlds/two_rooms.yaml");
    BTreeMap::from([
        ("home", common::home()),
        ("apartment", world_file::scene_of_world(apartment)),
        ("two_rooms", world_file::scene_of_world(two_rooms)),
    ])
}

#[test]
fn every_phrase_means_what_the_table_says() {
    let tables = Tables::embedded().unwrap();
    let scenes = scenes();
    let cases = cases();
    let mut wrong = Vec::new();
    for (case, world) in &cases {
        let scene = &scenes[case.world.as_deref().unwrap_or(world)];
        match understand(&case.say, &tables, scene, &[]) {
            Ok(u) => {
                let got: Vec<String> = u.goals.iter().map(|g| g.sketch(&u.things)).collect();
                if got != case.goals {
                    wrong.push(format!(
                        "{}\n  got  {got:?}\n  want {:?}",
                        case.say, case.goals
                    ));
                }
            }
            Err(e) => {
                let text = e.to_string();
                let ok = case.goals.is_empty()
                    && match (&e, &case.refused) {
                        (PlannerError::NotUnderstood { .. }, Some(part)) => text.contains(part),
                        (PlannerError::NotUnderstood { words, .. }, None) => *words == case.unknown,
                        _ => false,
                    };
                if !ok {
                    wrong.push(format!("{}\n  got  {e}\n  want {:?}", case.say, case.goals));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} wrong:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
    for language in [Language::En, Language::Zh] {
        let count = cases
            .iter()
            .filter(|(c, _)| language_of(&c.say) == language)
            .count();
        assert!(count >= 150, "{count} phrases in {language:?}");
    }
}

#[test]
fn every_phrase_that_is_understood_has_a_first_step_a_question_or_a_reason() {
    let planner = SymbolicPlanner::new().unwrap();
    let scenes = scenes();
    let skills = common::world::descriptors();
    // Every third, which is enough for a rule that knows no phrase.
    for (case, world) in cases()
        .iter()
        .filter(|(c, _)| !c.goals.is_empty())
        .step_by(3)
    {
        let scene = &scenes[case.world.as_deref().unwrap_or(world)];
        let mut program = planner
            .begin(&TaskInput {
                instruction: &case.say,
                snapshot: scene,
                vocabulary: &[],
            })
            .unwrap();
        let turn = planner.next(
            &mut program,
            &PlanningContext {
                snapshot: scene,
                now: scene.stamp,
                skills: &skills,
                history: &[],
                answers: &[],
                start_ref: "start",
            },
        );
        match turn {
            Turn::Propose(_) | Turn::Done { .. } => {}
            Turn::Ask { options, .. } => assert!(options.len() >= 2, "{}", case.say),
            Turn::Fail { code, message } => {
                let named = matches!(
                    code,
                    ErrorCode::TargetNotFound
                        | ErrorCode::SkillUnavailable
                        | ErrorCode::InstructionNotUnderstood
                );
                assert!(
                    named && message.len() > 20,
                    "{}: {code:?} {message}",
                    case.say
                );
            }
        }
    }
}

//! Every phrase of `phrases.yaml` is understood as it says there.

mod common;

use eh_planner::grammar::understand;
use eh_planner::phrase_table::Tables;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    say: String,
    #[serde(default)]
    goals: Vec<String>,
    /// Words that the refusal has to name; with `goals` empty.
    #[serde(default)]
    unknown: Vec<String>,
}

#[test]
fn every_phrase_means_what_the_table_says() {
    let tables = Tables::embedded().unwrap();
    let scene = common::home();
    let cases: Vec<Case> = serde_yaml_ng::from_str(include_str!("phrases.yaml")).unwrap();
    let mut wrong = Vec::new();
    for case in &cases {
        match understand(&case.say, &tables, &scene, &[]) {
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
                let ok = case.goals.is_empty()
                    && match &e {
                        eh_planner::PlannerError::NotUnderstood { words, .. } => {
                            *words == case.unknown
                        }
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
    assert!(cases.len() >= 60, "{} phrases", cases.len());
}

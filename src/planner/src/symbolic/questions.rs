//! Asking a person which of several things is meant.

use eh_contract::error_code::ErrorCode;

use super::{Step, Work};
use crate::choice::choose;
use crate::messages::quote;
use crate::planner::Turn;

/// How often a person is asked the same.
const MAX_QUESTIONS: usize = 3;

impl Work<'_> {
    pub(super) fn ask(&mut self, thing: &str, refs: &[String]) -> Step<String> {
        let scene = self.context.snapshot;
        let spoken = self
            .memory
            .things
            .get(thing)
            .map_or(String::new(), |d| d.spoken.clone());
        let mut rejected: Option<String> = None;
        for round in 1..=MAX_QUESTIONS {
            let key = format!("which_{thing}_{round}");
            let options = match self.memory.questions.get(&key) {
                Some(options) => options.clone(),
                None => {
                    let options: Vec<(String, String)> = refs
                        .iter()
                        .map(|r| (self.messages.option(scene, r), r.clone()))
                        .collect();
                    self.memory.questions.insert(key.clone(), options.clone());
                    options
                }
            };
            let answer = self
                .context
                .answers
                .iter()
                .rev()
                .find(|a| a.key == key)
                .map(|a| a.answer.clone());
            let Some(answer) = answer else {
                let question = match &rejected {
                    None => self.messages.say("which", &[("name", &spoken)]),
                    Some(answer) => self.messages.say(
                        "which_again",
                        &[("name", &spoken), ("answer", &quote(answer))],
                    ),
                };
                return Err(Turn::Ask {
                    key,
                    question,
                    options: options.into_iter().map(|(label, _)| label).collect(),
                });
            };
            let labels: Vec<String> = options.iter().map(|(label, _)| label.clone()).collect();
            let chosen = choose(&answer, &labels, scene, self.tables)
                .and_then(|at| options.get(at))
                .map(|(_, r)| r.clone());
            match chosen {
                Some(r) => {
                    self.memory.bound.insert(thing.into(), r.clone());
                    return Ok(r);
                }
                None => rejected = Some(answer),
            }
        }
        let options: Vec<String> = refs
            .iter()
            .map(|r| self.messages.option(scene, r))
            .collect();
        self.fail(
            ErrorCode::TargetAmbiguous,
            self.messages.say(
                "ambiguous",
                &[
                    ("name", &spoken),
                    ("options", &self.messages.list(&options)),
                ],
            ),
        )
    }
}

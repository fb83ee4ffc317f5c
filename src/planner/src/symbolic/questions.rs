//! Asking a person which of several things is meant.

use eh_contract::error_code::ErrorCode;

use super::{Step, Work};
use crate::goal::is_at;
use crate::messages::quote;
use crate::planner::Turn;
use crate::text::normalise;

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
            match self.chosen(&answer, &options) {
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

    /// Which option an answer means: its text, its number, its ref, or a word that fits only one.
    fn chosen(&self, answer: &str, options: &[(String, String)]) -> Option<String> {
        let answer = normalise(answer);
        if answer.is_empty() {
            return None;
        }
        if let Some((_, r)) = options
            .iter()
            .find(|(label, r)| normalise(label) == answer || normalise(r) == answer)
        {
            return Some(r.clone());
        }
        if let Ok(number) = answer.parse::<usize>() {
            return options.get(number.checked_sub(1)?).map(|(_, r)| r.clone());
        }
        let padded = format!(" {answer} ");
        let scene = self.context.snapshot;
        let fits = |r: &str| {
            let Some(object) = scene.get(r) else {
                return false;
            };
            let mut words: Vec<String> = vec![normalise(r)];
            for value in object.attributes.values() {
                let value = normalise(value);
                let group = self
                    .tables
                    .nouns
                    .attributes
                    .iter()
                    .find(|g| g.iter().any(|n| normalise(n) == value));
                words.extend(
                    group
                        .into_iter()
                        .flat_map(|g| g.iter().map(|n| normalise(n))),
                );
                words.push(value);
            }
            for place in scene
                .live()
                .filter(|p| p.r#ref != r && is_at(scene, r, &p.r#ref))
            {
                words.push(normalise(&place.r#ref));
                words.extend(place.aliases.iter().map(|a| normalise(a)));
            }
            words
                .iter()
                .any(|w| !w.is_empty() && padded.contains(&format!(" {w} ")))
        };
        let mut matching = options.iter().filter(|(_, r)| fits(r));
        match (matching.next(), matching.next()) {
            (Some((_, r)), None) => Some(r.clone()),
            _ => None,
        }
    }
}

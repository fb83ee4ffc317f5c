//! Which of several options a person's answer means.

use eh_contract::scene::SceneSnapshot;

use crate::goal::is_at;
use crate::phrase_table::{Tables, Values};
use crate::text::normalise;

/// The index of the option that an answer means: its text, its number or ordinal, its ref, or words that fit
/// it better than any other (its attributes, the places it is at, in any language of the tables).
///
/// An option is shown as its ref, which further words in brackets may follow. `None`: none, or several.
pub fn choose(
    answer: &str,
    options: &[String],
    scene: &SceneSnapshot,
    tables: &Tables,
) -> Option<usize> {
    let answer = normalise(answer);
    if answer.is_empty() {
        return None;
    }
    let refs: Vec<&str> = options
        .iter()
        .map(|label| label.split(" (").next().unwrap_or(label))
        .collect();
    let same = |text: &str| normalise(text) == answer;
    if let Some(at) = (0..options.len()).find(|at| {
        options.get(*at).is_some_and(|o| same(o)) || refs.get(*at).is_some_and(|r| same(r))
    }) {
        return Some(at);
    }
    if let Some(number) = number(&answer, tables) {
        return number.checked_sub(1).filter(|at| *at < options.len());
    }
    let scores: Vec<usize> = refs
        .iter()
        .map(|r| best_word(&answer, r, scene, tables))
        .collect();
    let most = scores.iter().copied().max().filter(|score| *score > 0)?;
    let mut best = scores.iter().enumerate().filter(|(_, s)| **s == most);
    match (best.next(), best.next()) {
        (Some((at, _)), None) => Some(at),
        _ => None,
    }
}

/// A number by itself ("2", "two"), or an ordinal ("the second one", 第二个).
fn number(answer: &str, tables: &Tables) -> Option<usize> {
    if let Ok(number) = answer.parse() {
        return Some(number);
    }
    let numbers = &tables.phrases.numbers;
    let said = |values: &Values| {
        values
            .en
            .iter()
            .chain(&values.zh)
            .find(|(word, value)| normalise(word) == answer && value.fract() == 0.0)
            .map(|(_, value)| *value as usize)
    };
    if let Some(number) = said(numbers) {
        return Some(number);
    }
    let padded = format!(" {answer} ");
    let ordinals = &tables.phrases.ordinals;
    ordinals
        .en
        .iter()
        .chain(&ordinals.zh)
        .filter(|(word, _)| padded.contains(&format!(" {} ", normalise(word))))
        // 第十一 is not 第十.
        .max_by_key(|(word, _)| word.chars().count())
        .map(|(_, value)| *value as usize)
}

/// Length in characters of the longest word for an object that the answer contains; 0: none.
fn best_word(answer: &str, r#ref: &str, scene: &SceneSnapshot, tables: &Tables) -> usize {
    let Some(object) = scene.get(r#ref) else {
        return 0;
    };
    let mut words: Vec<String> = vec![normalise(r#ref)];
    for value in object.attributes.values() {
        let value = normalise(value);
        let group = tables
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
        .filter(|p| p.r#ref != r#ref && is_at(scene, r#ref, &p.r#ref))
    {
        words.push(normalise(&place.r#ref));
        words.extend(place.aliases.iter().map(|a| normalise(a)));
    }
    let padded = format!(" {answer} ");
    words
        .iter()
        .filter(|w| !w.is_empty() && padded.contains(&format!(" {w} ")))
        .map(|w| w.chars().count())
        .max()
        .unwrap_or(0)
}

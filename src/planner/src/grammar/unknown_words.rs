//! What is said about words that nobody knows, and which of them are slips of the keyboard.

use eh_contract::scene::{Kind, SceneSnapshot};

use crate::lexicon::{Lexicon, Reading, Token};
use crate::messages::Messages;
use crate::planner::{Language, PlannerError};

/// Words that turn an instruction round: another word in their place would have the robot do what it must not.
const NEGATIONS: [&str; 8] = [
    "not", "never", "no", "dont", "without", "except", "nor", "neither",
];

/// Most words that an error lists.
const MAX_LISTED: usize = 8;

pub(super) fn unknown_words(
    tokens: &[Token],
    lexicon: &Lexicon,
    messages: &Messages<'_>,
    scene: &SceneSnapshot,
) -> PlannerError {
    let mut words: Vec<String> = Vec::new();
    let unknown = tokens
        .iter()
        .filter(|t| t.readings.is_empty() && !t.separator);
    for token in unknown {
        let word: String = token.text.chars().take(24).collect();
        if words.len() < MAX_LISTED && !words.contains(&word) {
            words.push(word);
        }
    }
    let mut close: Vec<String> = Vec::new();
    for word in words
        .iter()
        .filter(|w| w.is_ascii() && w.len() > 2 && !is_negation(w))
    {
        let best = nearest_word(lexicon, word);
        if let Some((_, known)) = best {
            close.push(format!("\"{known}\""));
        }
    }
    let hint = if close.is_empty() {
        String::new()
    } else {
        messages.say("did_you_mean", &[("words", &messages.list(&close))])
    };
    let mut known: Vec<String> = Vec::new();
    for object in scene.live().filter(|o| {
        !matches!(
            o.kind,
            Kind::Robot | Kind::Place | Kind::Building | Kind::Floor
        )
    }) {
        let name = messages.name(scene, &object.r#ref);
        if known.len() < 12 && !known.contains(&name) {
            known.push(name);
        }
    }
    let quoted: Vec<String> = words
        .iter()
        .map(|w| match messages.language {
            Language::En => format!("\"{w}\""),
            Language::Zh => format!("“{w}”"),
        })
        .collect();
    // A verb that nobody knows, with a thing that is known: what can be done with that.
    let nearest = tokens
        .iter()
        .find(|t| t.readings == [Reading::Noun])
        .and_then(|t| Some((t, lexicon.noun(&t.key)?)))
        .filter(|_| hint.is_empty())
        .map(|(t, noun)| messages.nearest(&noun.kinds, &t.text))
        .unwrap_or_default();
    let message = messages.say(
        "unknown_words",
        &[
            ("words", &messages.list(&quoted)),
            ("hint", &hint),
            ("nearest", &nearest),
            ("known", &messages.list(&known)),
            ("examples", &messages.examples()),
        ],
    );
    PlannerError::NotUnderstood { words, message }
}

fn is_negation(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    let letters: String = word.chars().filter(char::is_ascii_alphabetic).collect();
    NEGATIONS.contains(&letters.as_str()) || word.ends_with("n't")
}

/// The known English word that is most like an unknown one, with their distance; `None` when none is.
fn nearest_word<'a>(lexicon: &'a Lexicon, word: &str) -> Option<(usize, &'a str)> {
    let limit = if word.len() > 5 { 2 } else { 1 };
    lexicon
        .words()
        .filter(|known| known.is_ascii() && known.len().abs_diff(word.len()) <= limit)
        .map(|known| (edit_distance(word, known), known))
        .filter(|(distance, _)| *distance <= limit)
        .min()
}

/// Whether a word is a known noun but for one slip of the keyboard. The first letter is seldom wrong; in
/// short words another letter makes another word (book, boot), so that there only a missing, a doubled or
/// two swapped letters count.
pub(super) fn is_slip(lexicon: &Lexicon, word: &str) -> bool {
    lexicon
        .words()
        .filter(|known| {
            known.bytes().next() == word.bytes().next() && lexicon.noun(known).is_some()
        })
        .any(|known| {
            let other_letter = known.len() == word.len() && sorted(known) != sorted(word);
            known.len().abs_diff(word.len()) <= 1
                && edit_distance(word, known) == 1
                && (word.len() > 4 || !other_letter)
        })
}

/// Levenshtein distance in bytes; both words are ASCII and short.
fn edit_distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        let mut next = vec![left];
        for (y, up) in b.bytes().zip(row.iter().skip(1)) {
            let cost = (diagonal + usize::from(x != y)).min(left + 1).min(up + 1);
            diagonal = *up;
            left = cost;
            next.push(cost);
        }
        row = next;
    }
    let distance = row.last().copied().unwrap_or(0);
    // Two letters in the wrong order are the commonest slip of a key.
    if distance == 2 && sorted(a) == sorted(b) {
        1
    } else {
        distance
    }
}

fn sorted(word: &str) -> Vec<u8> {
    let mut bytes: Vec<u8> = word.bytes().collect();
    bytes.sort_unstable();
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_other_word_is_offered_for_one_that_turns_an_instruction_round() {
        for word in ["not", "Never", "don't", "dont", "won't", "without"] {
            assert!(is_negation(word), "{word}");
        }
        for word in ["now", "note", "knot", "kichen"] {
            assert!(!is_negation(word), "{word}");
        }
    }
}

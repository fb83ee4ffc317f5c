//! English words that no table and no scene knows, where only the name of a thing can stand: after a verb
//! that takes a thing, as in "bring the gizmo". They are taken for what perception calls that thing.
//!
//! A word that looks like a slip of the keyboard is left alone, so that it is asked about instead.

use std::collections::BTreeSet;

use eh_contract::scene::Kind;

use crate::lexicon::{Lexicon, Reading, Token};
use crate::phrase_table::Tables;

/// Most words of one name.
const MAX_WORDS: usize = 3;

/// Longest word in bytes; words of people are shorter.
const MAX_LENGTH: usize = 24;

/// Gives unknown words in an object's position the reading of a noun; `is_slip` tells words that somebody
/// probably mistyped.
pub fn admit(
    tokens: Vec<Token>,
    lexicon: &mut Lexicon,
    tables: &Tables,
    is_slip: impl Fn(&Lexicon, &str) -> bool,
) -> Vec<Token> {
    let mut out: Vec<Token> = Vec::with_capacity(tokens.len());
    let mut rest = tokens.as_slice();
    while let Some((token, tail)) = rest.split_first() {
        let words = rest
            .iter()
            .take_while(|t| {
                could_be_a_word(t)
                    && !tables.phrases.no_names.contains(&t.key)
                    && !is_slip(lexicon, &t.key)
            })
            .count();
        let expected = expects_object(&out, tables);
        // Without an article before it one word may be a name, two are more likely gibberish.
        let fits = match expected {
            Expected::Nothing => false,
            Expected::Named => words == 1,
            Expected::Described => (1..=MAX_WORDS).contains(&words),
        };
        // "toothbrush mug": known names of things side by side are one name, whose last word says what it
        // is at least.
        let known = rest
            .iter()
            .take_while(|t| is_object_noun(t, lexicon))
            .count();
        if let (true, Some(head)) = (
            (2..=MAX_WORDS).contains(&known) && !matches!(expected, Expected::Nothing),
            known.checked_sub(1).and_then(|i| rest.get(i)),
        ) {
            let (name, after) = rest.split_at(known);
            out.push(joined(name, lexicon, Some(&head.key)));
            rest = after;
            continue;
        }
        if !fits {
            out.push(token.clone());
            rest = tail;
            continue;
        }
        // "bolt box": known nouns right after it belong to the name.
        let nouns = rest
            .iter()
            .skip(words)
            .take_while(|t| is_object_noun(t, lexicon))
            .count();
        let (name, after) = rest.split_at((words + nouns).min(rest.len()));
        out.push(joined(name, lexicon, None));
        rest = after;
    }
    out
}

/// Several tokens as one noun; `head` is a known noun that it also is.
fn joined(name: &[Token], lexicon: &mut Lexicon, head: Option<&str>) -> Token {
    let words = |of: fn(&Token) -> &str| name.iter().map(of).collect::<Vec<_>>().join(" ");
    let key = words(|t| &t.key);
    lexicon.add_object(&key, head);
    Token {
        text: words(|t| &t.text),
        key,
        readings: vec![Reading::Noun],
        separator: false,
    }
}

fn could_be_a_word(token: &Token) -> bool {
    token.readings.is_empty()
        && !token.separator
        && (3..=MAX_LENGTH).contains(&token.key.len())
        && token.key.bytes().all(|b| b.is_ascii_lowercase())
}

fn is_object_noun(token: &Token, lexicon: &Lexicon) -> bool {
    !token.separator
        && token.readings == [Reading::Noun]
        && lexicon
            .noun(&token.key)
            .is_some_and(|n| n.kinds.contains(Kind::Object.name()))
}

enum Expected {
    Nothing,
    /// A name right after the verb.
    Named,
    /// A name after an article or an attribute.
    Described,
}

/// Whether a thing is expected after these tokens.
fn expects_object(before: &[Token], tables: &Tables) -> Expected {
    let mut described = false;
    for token in before.iter().rev() {
        if token.separator {
            return Expected::Nothing;
        }
        if let Some(takes) = takes_object(token, tables) {
            return match (takes, described) {
                (false, _) => Expected::Nothing,
                (true, true) => Expected::Described,
                (true, false) => Expected::Named,
            };
        }
        let describes = token.can(|r| {
            matches!(
                r,
                Reading::Definite | Reading::Indefinite | Reading::Other | Reading::Attribute
            )
        });
        let passes =
            token.can(|r| matches!(r, Reading::Filler) || *r == Reading::Pronoun("me".into()));
        if !describes && !passes {
            return Expected::Nothing;
        }
        described |= describes;
    }
    Expected::Nothing
}

/// For a verb: whether it takes a movable thing as its object.
fn takes_object(token: &Token, tables: &Tables) -> Option<bool> {
    let names: BTreeSet<&str> = token
        .readings
        .iter()
        .filter_map(|r| match r {
            Reading::Verb { name, .. } => Some(name.as_str()),
            _ => None,
        })
        .collect();
    if names.is_empty() {
        return None;
    }
    Some(names.into_iter().any(|name| {
        tables.phrases.verbs.get(name).is_some_and(|verb| {
            verb.slots
                .get("object")
                .is_some_and(|markers| markers.iter().any(|m| m == "bare"))
                && verb.goals.iter().any(|g| {
                    g.needs
                        .get("object")
                        .is_some_and(|k| k.is_empty() || k.iter().any(|k| k == Kind::Object.name()))
                })
        })
    }))
}

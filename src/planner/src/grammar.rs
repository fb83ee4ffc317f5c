//! From an instruction to goals.
//!
//! Tokens are gathered into clauses of one verb each with its noun phrases; the phrase table says what a
//! verb means with which of them. Word order is free where the markers (from, to, on, 把, 从, 到, 上 …) tell
//! the phrases apart. What is not understood is refused whole: half an instruction is never carried out.

mod meaning;
mod noun_phrase;
mod time;
mod unknown_words;

use std::collections::BTreeSet;

use eh_contract::condition::Condition;
use eh_contract::scene::{Kind, SceneObject, SceneSnapshot};
use serde_json::{Map, Value};

use crate::goal::{Goal, Place, Things, HERE};
use crate::lexicon::{Lexicon, Reading, Token};
use crate::messages::{quote, Messages};
use crate::phrase_table::Tables;
use crate::planner::{Language, PlannerError, MAX_INSTRUCTION_LEN};
use crate::text::language_of;
use crate::unknown_noun;
use unknown_words::{is_slip, unknown_words};

/// Most goals of one instruction.
pub const MAX_GOALS: usize = 32;

/// An instruction as it was understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Understanding {
    /// Language of the instruction.
    pub language: Language,
    /// Goals in order.
    pub goals: Vec<Goal>,
    /// Things that they speak of.
    pub things: Things,
}

/// Reads an instruction with the words of the tables, of the scene and of perception.
///
/// # Errors
/// [`PlannerError`] in the instruction's language.
pub fn understand(
    instruction: &str,
    tables: &Tables,
    scene: &SceneSnapshot,
    vocabulary: &[String],
) -> Result<Understanding, PlannerError> {
    let language = language_of(instruction);
    let messages = Messages::new(tables, language);
    let examples = messages.examples();
    let len = instruction.chars().count();
    if len > MAX_INSTRUCTION_LEN {
        return Err(PlannerError::TooLong {
            len,
            message: messages.say(
                "too_long",
                &[
                    ("len", &len.to_string()),
                    ("limit", &MAX_INSTRUCTION_LEN.to_string()),
                ],
            ),
        });
    }
    let mut lexicon = Lexicon::new(tables, scene, vocabulary);
    let tokens = lexicon.tokenise(instruction);
    let tokens = unknown_noun::admit(tokens, &mut lexicon, tables, is_slip);
    if tokens.iter().all(|t| t.separator) {
        return Err(PlannerError::Empty {
            message: messages.say("empty_instruction", &[("examples", &examples)]),
        });
    }
    let unknown = |t: &Token| t.readings.is_empty() && !t.separator;
    if tokens.iter().any(unknown) {
        return Err(unknown_words(&tokens, &lexicon, &messages, scene));
    }
    // What is only filler goes; a word that may be more stays.
    let tokens: Vec<Token> = tokens
        .into_iter()
        .filter(|t| t.separator || t.can(|r| *r != Reading::Filler))
        .collect();
    let mut parser = Parser {
        tables,
        lexicon: &lexicon,
        messages,
        tokens: &tokens,
        at: 0,
        clause: Clause::default(),
        clauses: Vec::new(),
        joins: false,
        things: Things::new(),
        last_object: None,
        last_place: None,
        depth: 0,
    };
    parser.clauses()?;
    let goals = parser.goals()?;
    if goals.is_empty() {
        return Err(parser.order(instruction));
    }
    if goals.len() > MAX_GOALS {
        return Err(not_understood(parser.messages.say(
            "too_many_goals",
            &[
                ("len", &goals.len().to_string()),
                ("limit", &MAX_GOALS.to_string()),
            ],
        )));
    }
    Ok(Understanding {
        language,
        goals,
        things: parser.things,
    })
}

/// The goals as a phrase for people, with things as they were said.
pub fn in_words(understanding: &Understanding, tables: &Tables) -> String {
    let messages = Messages::new(tables, understanding.language);
    let names: Map<String, Value> = understanding
        .things
        .iter()
        .map(|(name, d)| (name.clone(), Value::String(d.spoken.clone())))
        .chain([(HERE.to_string(), Value::String(HERE.into()))])
        .collect();
    // What is meant is not known yet; a stand-in of each thing says what kind of thing it is.
    let scene = SceneSnapshot {
        objects: understanding
            .things
            .values()
            .filter(|d| !d.spoken.is_empty())
            .map(|d| SceneObject {
                r#ref: d.spoken.clone(),
                kind: if d.kinds == set(Kind::Room) {
                    Kind::Room
                } else {
                    Kind::Unspecified
                },
                aliases: vec![d.spoken.clone()],
                ..SceneObject::default()
            })
            .collect(),
        ..SceneSnapshot::default()
    };
    let parts: Vec<String> = understanding
        .goals
        .iter()
        .map(|goal| match &goal.perform {
            Some(perform) => perform.skill.clone(),
            None => {
                let condition = goal.condition.bind(&names).unwrap_or(Condition::always());
                messages.condition(&condition, &scene, HERE)
            }
        })
        .filter(|p| !p.is_empty())
        .collect();
    parts.join("; ")
}

fn not_understood(message: String) -> PlannerError {
    PlannerError::NotUnderstood {
        words: Vec::new(),
        message,
    }
}

/// What a noun phrase points at.
#[derive(Clone, Debug, PartialEq)]
enum Target {
    Thing(String),
    Here,
}

#[derive(Clone, Debug)]
struct Phrase {
    markers: Vec<String>,
    target: Target,
    kinds: BTreeSet<String>,
    place: Place,
    text: String,
    /// Described here, not taken up by a pronoun.
    fresh: bool,
    /// me: never an object.
    person: bool,
    /// Named beside the one before, for the same verb (苹果和香蕉).
    joined: bool,
    /// Index of its first token.
    begin: usize,
    /// Index of the token after it.
    end: usize,
}

#[derive(Clone, Debug, Default)]
struct Clause {
    verb: Option<(String, String)>,
    /// Other verbs that the same word can be.
    others: Vec<String>,
    verb_at: Option<usize>,
    fallback: Option<(String, String)>,
    phrases: Vec<Phrase>,
    back: bool,
    number: Option<f64>,
    /// Set apart from the one before by punctuation or a connective.
    apart: bool,
}

impl Clause {
    fn is_empty(&self) -> bool {
        self.verb.is_none()
            && self.fallback.is_none()
            && self.phrases.is_empty()
            && self.number.is_none()
            && !self.back
    }
}

struct Parser<'a> {
    tables: &'a Tables,
    lexicon: &'a Lexicon,
    messages: Messages<'a>,
    tokens: &'a [Token],
    at: usize,
    clause: Clause,
    clauses: Vec<Clause>,
    /// The next phrase is named beside the one before.
    joins: bool,
    things: Things,
    last_object: Option<(String, BTreeSet<String>)>,
    last_place: Option<Target>,
    depth: u8,
}

/// A clause that names several things beside each other as one clause for each of them.
fn one_each(clause: Clause) -> Vec<Clause> {
    let list: Vec<usize> = clause
        .phrases
        .iter()
        .enumerate()
        .filter(|(i, p)| p.joined || clause.phrases.get(i + 1).is_some_and(|next| next.joined))
        .map(|(i, _)| i)
        .collect();
    if list.is_empty() {
        return vec![clause];
    }
    list.iter()
        .map(|taken| Clause {
            phrases: clause
                .phrases
                .iter()
                .enumerate()
                .filter(|(i, _)| i == taken || !list.contains(i))
                .map(|(_, p)| p.clone())
                .collect(),
            ..clause.clone()
        })
        .collect()
}

fn starts_noun_phrase(token: &Token) -> bool {
    !token.separator
        && token.can(|r| {
            matches!(
                r,
                Reading::Noun
                    | Reading::Attribute
                    | Reading::Definite
                    | Reading::Indefinite
                    | Reading::Other
                    | Reading::All
                    | Reading::Vague
                    | Reading::Most { .. }
                    | Reading::Number(_)
            )
        })
}

fn is_verb(token: &Token) -> bool {
    token.can(|r| matches!(r, Reading::Verb { alone: false, .. }))
}

fn preposition(token: &Token) -> Option<&str> {
    token.readings.iter().find_map(|r| match r {
        Reading::Preposition(marker) => Some(marker.as_str()),
        _ => None,
    })
}

fn is_chinese(token: &Token) -> bool {
    language_of(&token.text) == Language::Zh
}

fn set(kind: Kind) -> BTreeSet<String> {
    [kind.name().to_string()].into()
}

impl<'a> Parser<'a> {
    fn peek(&self, ahead: usize) -> Option<&'a Token> {
        self.tokens.get(self.at + ahead)
    }

    fn order(&self, near: &str) -> PlannerError {
        not_understood(self.messages.say(
            "order",
            &[
                ("words", &quote(near)),
                ("examples", &self.messages.examples()),
            ],
        ))
    }

    fn say(&self, key: &str, words: &str) -> PlannerError {
        not_understood(self.messages.say(
            key,
            &[
                ("words", &quote(words)),
                ("verb", &quote(words)),
                ("examples", &self.messages.examples()),
            ],
        ))
    }

    /// Whether a token beyond the current one can only be the verb of this stretch of words.
    fn verb_follows(&self) -> bool {
        self.tokens
            .iter()
            .skip(self.at + 1)
            .take_while(|t| !t.separator && !t.can(|r| *r == Reading::Connective))
            .any(|t| is_verb(t) && preposition(t).is_none() && !t.can(|r| *r == Reading::Back))
    }

    fn previous_is_verb(&self) -> bool {
        self.clause.verb_at.is_some_and(|v| v + 1 == self.at)
    }

    fn flush(&mut self, apart: bool) {
        let mut next = Clause {
            apart,
            ..Clause::default()
        };
        if self.clause.is_empty() {
            next.apart |= self.clause.apart;
        } else {
            let done = std::mem::take(&mut self.clause);
            self.clauses.extend(one_each(done));
        }
        self.joins = false;
        self.clause = next;
    }

    /// Whether this token is the verb here, given what the clause has so far.
    fn is_verb_here(&self, token: &Token) -> bool {
        if !is_verb(token) {
            return false;
        }
        let noun = token.can(|r| *r == Reading::Noun);
        let marker = preposition(token).is_some();
        if self.clause.verb.is_some() {
            if marker {
                return !self.previous_is_verb() && self.verb_follows();
            }
            return !noun && !token.can(|r| *r == Reading::Back);
        }
        if marker {
            return self.clause.phrases.is_empty();
        }
        let described = self
            .at
            .checked_sub(1)
            .and_then(|i| self.tokens.get(i))
            .is_some_and(|t| {
                t.can(|r| {
                    matches!(
                        r,
                        Reading::Definite | Reading::Indefinite | Reading::Attribute
                    )
                })
            });
        !(noun && described)
    }

    fn clauses(&mut self) -> Result<(), PlannerError> {
        let mut pending: Option<String> = None;
        while let Some(token) = self.peek(0) {
            if token.separator {
                // 把苹果、香蕉放到桌子上
                if token.text == "、" && self.clause.verb.is_none() && self.names_a_thing() {
                    self.joins = true;
                } else {
                    self.nothing_hangs(pending.as_deref())?;
                    self.flush(true);
                    pending = None;
                }
                self.at += 1;
                continue;
            }
            if self.is_verb_here(token) {
                if self.clause.verb.is_some() {
                    self.flush(false);
                }
                // "to get": the preposition before a verb says nothing.
                pending = None;
                self.take_verb(token);
                continue;
            }
            if token.can(|r| *r == Reading::Connective) {
                // Before the verb it is only emphasis (把杯子再拿来).
                if self.clause.verb.is_some()
                    || self.clause.phrases.is_empty()
                    || !self.verb_follows()
                {
                    self.flush(true);
                    pending = None;
                } else if self.tables.phrases.joints.contains(&token.text) {
                    self.joins = true;
                }
                self.at += 1;
                continue;
            }
            if let Some(seconds) = self.time() {
                self.clause.number = Some(seconds);
                continue;
            }
            if let Some(name) = token.readings.iter().find_map(|r| match r {
                Reading::Verb { name, .. } => Some(name.clone()),
                _ => None,
            }) {
                if self.clause.fallback.is_none() && !token.can(|r| *r == Reading::Noun) {
                    self.clause.fallback = Some((name, token.text.clone()));
                }
            }
            if let Some(marker) = preposition(token) {
                let begins = match marker {
                    "object" | "from" => true,
                    _ => !self.previous_is_verb(),
                };
                if is_chinese(token) && self.clause.verb.is_some() && begins && self.verb_follows()
                {
                    self.flush(false);
                }
                pending = Some(marker.to_string());
                self.at += 1;
                continue;
            }
            if token.can(|r| *r == Reading::Back) {
                self.clause.back = true;
                self.at += 1;
                continue;
            }
            // 把苹果都拿来: all of what was just named.
            let sums_up = token.can(|r| *r == Reading::All)
                && !self.peek(1).is_some_and(starts_noun_phrase)
                && !self.clause.phrases.is_empty();
            if sums_up {
                self.all_of_them();
                self.at += 1;
                continue;
            }
            if starts_noun_phrase(token) || token.can(|r| matches!(r, Reading::Pronoun(_))) {
                let before = self.at;
                let mut phrase = self.phrase(pending.take())?;
                if std::mem::take(&mut self.joins) {
                    phrase.joined = true;
                    if let Some(last) = self.clause.phrases.last() {
                        phrase.markers.clone_from(&last.markers);
                    }
                }
                if self.at == before {
                    return Err(self.order(&token.text));
                }
                self.place_phrase(phrase);
                continue;
            }
            if token.can(|r| matches!(r, Reading::Filler | Reading::Verb { alone: true, .. })) {
                self.at += 1;
                continue;
            }
            return Err(self.order(&token.text));
        }
        self.nothing_hangs(pending.as_deref())?;
        self.flush(true);
        Ok(())
    }

    /// "put the cup on": an English preposition needs what it belongs to.
    fn nothing_hangs(&self, pending: Option<&str>) -> Result<(), PlannerError> {
        match pending {
            Some(marker) if self.messages.language == Language::En => {
                let words = self.at.checked_sub(1).and_then(|i| self.tokens.get(i));
                Err(self.order(words.map_or(marker, |t| t.text.as_str())))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Whether the phrase that was read last is a movable thing.
    fn names_a_thing(&self) -> bool {
        self.clause
            .phrases
            .last()
            .is_some_and(|p| p.kinds.contains(Kind::Object.name()))
    }

    fn take_verb(&mut self, token: &Token) {
        let mut names = token.readings.iter().filter_map(|r| match r {
            Reading::Verb { name, alone: false } => Some(name.clone()),
            _ => None,
        });
        if let Some(name) = names.next() {
            self.clause.verb = Some((name, token.text.clone()));
            self.clause.others = names.collect();
            self.clause.verb_at = Some(self.at);
        }
        self.at += 1;
    }
}

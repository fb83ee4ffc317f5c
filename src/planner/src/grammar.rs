//! From an instruction to goals.
//!
//! Tokens are gathered into clauses of one verb each with its noun phrases; the phrase table says what a
//! verb means with which of them. Word order is free where the markers (from, to, on, 把, 从, 到, 上 …) tell
//! the phrases apart. What is not understood is refused whole: half an instruction is never carried out.

use std::collections::{BTreeMap, BTreeSet};

use eh_contract::condition::{Condition, Template};
use eh_contract::scene::{Kind, SceneObject, SceneSnapshot};
use serde_json::{Map, Value};

use crate::goal::{Description, Goal, NamedAttribute, Perform, Place, Things, HERE};
use crate::lexicon::{language_of, Lexicon, Reading, Token};
use crate::messages::{quote, Messages};
use crate::phrase_table::{GoalRule, Tables, Verb};
use crate::planner::{Language, PlannerError, MAX_INSTRUCTION_LEN};
use crate::unknown_noun;

/// Most goals of one instruction.
pub const MAX_GOALS: usize = 32;

/// Longest time that can be said \[s\]; a longer one is cut by the skill's own schema.
const MAX_SECONDS: f64 = 86_400.0;

/// Longest chain of "the … on the … in the …" in one noun phrase.
const MAX_RESTRICTIONS: usize = 4;

/// Most words that an error lists.
const MAX_LISTED: usize = 8;

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
            message: messages.say("empty", &[("examples", &examples)]),
        });
    }
    let unknown: Vec<&Token> = tokens
        .iter()
        .filter(|t| t.readings.is_empty() && !t.separator)
        .collect();
    if !unknown.is_empty() {
        return Err(unknown_words(&unknown, &lexicon, &messages, scene));
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

fn unknown_words(
    unknown: &[&Token],
    lexicon: &Lexicon,
    messages: &Messages<'_>,
    scene: &SceneSnapshot,
) -> PlannerError {
    let mut words: Vec<String> = Vec::new();
    for token in unknown {
        let word: String = token.text.chars().take(24).collect();
        if words.len() < MAX_LISTED && !words.contains(&word) {
            words.push(word);
        }
    }
    let mut close: Vec<String> = Vec::new();
    for word in words.iter().filter(|w| w.is_ascii() && w.len() > 2) {
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
    let message = messages.say(
        "unknown_words",
        &[
            ("words", &messages.list(&quoted)),
            ("hint", &hint),
            ("known", &messages.list(&known)),
            ("examples", &messages.examples()),
        ],
    );
    PlannerError::NotUnderstood { words, message }
}

/// The known English word that is most like an unknown one, with their distance; `None` when none is.
fn nearest_word<'a>(lexicon: &'a Lexicon, word: &str) -> Option<(usize, &'a str)> {
    let limit = if word.len() > 4 { 2 } else { 1 };
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
fn is_slip(lexicon: &Lexicon, word: &str) -> bool {
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
    things: Things,
    last_object: Option<(String, BTreeSet<String>)>,
    last_place: Option<Target>,
    depth: u8,
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
            self.clauses.push(done);
        }
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
                self.flush(true);
                pending = None;
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
            if starts_noun_phrase(token) || token.can(|r| matches!(r, Reading::Pronoun(_))) {
                let before = self.at;
                let phrase = self.phrase(pending.take())?;
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
        self.flush(true);
        Ok(())
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

    /// A time such as "5 seconds", 五秒, "a moment"; for a verb without slots a bare number too.
    fn time(&mut self) -> Option<f64> {
        let number = |t: &Token| {
            t.readings.iter().find_map(|r| match r {
                Reading::Number(n) => Some(*n),
                _ => None,
            })
        };
        let unit = |t: &Token| {
            t.readings.iter().find_map(|r| match r {
                Reading::Unit(u) => Some(*u),
                _ => None,
            })
        };
        let (mut total, mut current, mut count) = (0.0, 0.0, 0);
        while let Some(n) = self.peek(count).and_then(number) {
            let multiplies = (n == 10.0 || n == 100.0) && self.peek(count).is_some_and(is_chinese);
            if multiplies {
                total += if current == 0.0 { n } else { current * n };
                current = 0.0;
            } else {
                total += current;
                current = n;
            }
            count += 1;
        }
        total += current;
        let mut factor = None;
        if count == 0 {
            // 一个小时, "a moment" where "a" stands in another phrase.
            let one = self.peek(0)?.can(|r| *r == Reading::Indefinite);
            if one {
                factor = self.peek(1).and_then(unit);
                (total, count) = (1.0, 2);
            }
        } else {
            // "half a minute": what stands between number and unit.
            let between = usize::from(
                self.peek(count)
                    .is_some_and(|t| t.can(|r| *r == Reading::Indefinite)),
            );
            if let Some(u) = self.peek(count + between).and_then(unit) {
                factor = Some(u);
                count += between + 1;
            } else if self.bare_number(count) {
                factor = Some(1.0);
            }
        }
        let seconds = total * factor?;
        self.at += count;
        // "1 minute 30 seconds" adds up.
        let so_far = self.clause.number.unwrap_or(0.0);
        Some((so_far + seconds).clamp(0.0, MAX_SECONDS))
    }

    fn bare_number(&self, count: usize) -> bool {
        let slotless = self
            .clause
            .verb
            .as_ref()
            .and_then(|(name, _)| self.tables.phrases.verbs.get(name))
            .is_some_and(|v| v.slots.is_empty());
        slotless && !self.peek(count).is_some_and(starts_noun_phrase)
    }

    fn thing(&mut self, description: Description) -> String {
        if !description.any && !description.other {
            let same = self.things.iter().find(|(_, d)| {
                d.exact == description.exact
                    && d.held == description.held
                    && d.attributes == description.attributes
                    && d.kinds == description.kinds
                    && (description.within.is_none() || d.within == description.within)
                    && !description.exact.is_empty()
            });
            if let Some((name, _)) = same {
                return name.clone();
            }
        }
        let name = format!("t{}", self.things.len() + 1);
        self.things.insert(name.clone(), description);
        name
    }

    fn place_of(post: Option<&str>) -> Place {
        match post {
            Some("on") => Place::On,
            Some("near") => Place::Near,
            Some(_) | None => Place::At,
        }
    }

    /// Reads a noun phrase; `marker` is the preposition before it.
    fn phrase(&mut self, marker: Option<String>) -> Result<Phrase, PlannerError> {
        let begin = self.at;
        let (target, kinds, post, fresh, person) = self.noun_phrase()?;
        let text: Vec<&str> = self
            .tokens
            .iter()
            .take(self.at)
            .skip(begin)
            .map(|t| t.text.as_str())
            .collect();
        let text = text.join(match self.messages.language {
            Language::En => " ",
            Language::Zh => "",
        });
        let markers = match (marker, &post) {
            // 在桌子上: the postposition says more.
            (Some(m), Some(p)) if m == "in" => vec![p.clone(), m],
            (Some(m), Some(p)) => vec![m, p.clone()],
            (Some(m), None) => vec![m],
            (None, Some(p)) => vec![p.clone()],
            (None, None) => vec!["bare".into()],
        };
        let place = match (&post, markers.first().map(String::as_str)) {
            (Some(p), _) => Self::place_of(Some(p)),
            (None, first) => Self::place_of(first),
        };
        Ok(Phrase {
            markers,
            target,
            kinds,
            place,
            text,
            fresh,
            person,
            begin,
            end: self.at,
        })
    }

    /// "the table in the kitchen": a room right after a piece of furniture says where that is.
    fn place_phrase(&mut self, phrase: Phrase) {
        let only_rooms = !phrase.kinds.is_empty() && phrase.kinds == set(Kind::Room);
        let locative = phrase
            .markers
            .first()
            .is_some_and(|m| matches!(m.as_str(), "in" | "at" | "on" | "near"));
        if let (true, true, Target::Thing(room)) = (only_rooms, locative, &phrase.target) {
            let furniture: BTreeSet<String> =
                [Kind::Surface, Kind::Container, Kind::Place, Kind::Door]
                    .map(|k| k.name().to_string())
                    .into();
            if let Some(last) = self.clause.phrases.last_mut() {
                // Only the preposition, and perhaps "that is", stand between.
                let adjacent = phrase.begin <= last.end + 2 && !last.kinds.is_disjoint(&furniture);
                if let (true, true, Target::Thing(thing)) = (adjacent, last.fresh, &last.target) {
                    if let Some(d) = self.things.get_mut(thing) {
                        if d.within.is_none() {
                            d.within = Some((Place::At, room.clone()));
                            d.spoken = format!("{} ({})", d.spoken, phrase.text);
                            last.end = phrase.end;
                            return;
                        }
                    }
                }
            }
        }
        self.clause.phrases.push(phrase);
    }

    #[allow(clippy::type_complexity)] // Used in one place; a struct would only repeat `Phrase`.
    fn noun_phrase(
        &mut self,
    ) -> Result<(Target, BTreeSet<String>, Option<String>, bool, bool), PlannerError> {
        self.depth = self.depth.saturating_add(1);
        if self.depth > 8 {
            return Err(self.order(&self.peek(0).map_or(String::new(), |t| t.text.clone())));
        }
        let result = self.noun_phrase_inner();
        self.depth = self.depth.saturating_sub(1);
        result
    }

    #[allow(clippy::type_complexity)] // As above.
    fn noun_phrase_inner(
        &mut self,
    ) -> Result<(Target, BTreeSet<String>, Option<String>, bool, bool), PlannerError> {
        let mut d = Description::default();
        let mut words: Vec<String> = Vec::new();
        let begin = self.at;
        let mut restrictions = 0;
        while let Some(token) = self.peek(0) {
            if token.separator {
                break;
            }
            if token.can(|r| *r == Reading::All) {
                return Err(self.say("one_at_a_time", &token.text));
            }
            let next_continues = self
                .peek(1)
                .is_some_and(|t| starts_noun_phrase(t) || t.can(|r| matches!(r, Reading::Link)));
            let attribute = token.can(|r| *r == Reading::Attribute);
            let noun = token.can(|r| *r == Reading::Noun);
            if attribute && (!noun || next_continues) {
                let names = self
                    .lexicon
                    .attribute(&token.key)
                    .cloned()
                    .unwrap_or_default();
                d.attributes.push(NamedAttribute {
                    spoken: token.text.clone(),
                    names,
                });
                words.push(token.text.clone());
                self.at += 1;
                if self
                    .peek(0)
                    .is_some_and(|t| t.can(|r| *r == Reading::Link) && is_chinese(t))
                {
                    words.push("的".into());
                    self.at += 1;
                }
                continue;
            }
            if noun {
                let Some(meaning) = self.lexicon.noun(&token.key).cloned() else {
                    return Err(self.order(&token.text));
                };
                words.push(token.text.clone());
                self.at += 1;
                d.spoken = words.join(match self.messages.language {
                    Language::En => " ",
                    Language::Zh => "",
                });
                d.exact = token.key.clone();
                d.canonical = meaning.canonical;
                d.names = meaning.names;
                d.wider = meaning.wider;
                d.kinds = meaning.kinds;
                let post = self.peek(0).and_then(|t| {
                    t.readings.iter().find_map(|r| match r {
                        Reading::Postposition(m) => Some(m.clone()),
                        _ => None,
                    })
                });
                if post.is_some() {
                    self.at += 1;
                }
                if self.is_restriction(&d, post.as_deref()) {
                    restrictions += 1;
                    if restrictions > MAX_RESTRICTIONS {
                        return Err(self.order(&d.spoken));
                    }
                    let place = Self::place_of(post.as_deref());
                    let spoken = d.spoken.clone();
                    let thing = self.thing(std::mem::take(&mut d));
                    d.within = Some((place, thing));
                    words = vec![spoken];
                    continue;
                }
                self.relative_clause(&mut d)?;
                let kinds = d.kinds.clone();
                let name = self.thing(d);
                return Ok((Target::Thing(name), kinds, post, true, false));
            }
            if token.can(|r| *r == Reading::Other) {
                d.other = true;
            } else if token.can(|r| *r == Reading::Indefinite) {
                d.any = true;
            } else if let Some(n) = token.readings.iter().find_map(|r| match r {
                Reading::Number(n) => Some(*n),
                _ => None,
            }) {
                if n != 1.0 {
                    return Err(self.say("one_at_a_time", &token.text));
                }
                d.any = true;
            } else if token.can(|r| *r == Reading::Definite) {
                // "this one" as a whole is the pronoun; before a noun it adds nothing.
            } else {
                break;
            }
            self.at += 1;
        }
        // No noun: a pronoun, if nothing came before it.
        let pronoun = self.tokens.get(begin).and_then(|t| {
            t.readings.iter().find_map(|r| match r {
                Reading::Pronoun(p) => Some((p.clone(), t.text.clone())),
                _ => None,
            })
        });
        let Some((pronoun, text)) = pronoun else {
            let near = self.tokens.get(begin).map_or("", |t| t.text.as_str());
            return Err(self.order(near));
        };
        self.at = begin + 1;
        // 我这里, "here": a postposition after a pronoun only repeats it.
        let post = self.peek(0).and_then(|t| {
            t.readings.iter().find_map(|r| match r {
                Reading::Postposition(m) if is_chinese(t) => Some(m.clone()),
                _ => None,
            })
        });
        if post.is_some() {
            self.at += 1;
        }
        match pronoun.as_str() {
            "me" | "here" => {
                if self
                    .peek(0)
                    .is_some_and(|t| t.can(|r| matches!(r, Reading::Pronoun(p) if p == "here")))
                {
                    self.at += 1;
                }
                Ok((Target::Here, set(Kind::Place), None, false, pronoun == "me"))
            }
            "there" => match self.last_place_now() {
                Some((target, kinds)) => Ok((target, kinds, post, false, false)),
                None => Err(self.say("no_antecedent", &text)),
            },
            _ => {
                let (name, kinds) = match self.last_object_now() {
                    Some(found) => found,
                    None => {
                        let d = Description {
                            spoken: text,
                            held: true,
                            kinds: set(Kind::Object),
                            ..Description::default()
                        };
                        (self.thing(d), set(Kind::Object))
                    }
                };
                Ok((Target::Thing(name), kinds, post, false, false))
            }
        }
    }

    /// Objects named so far, in this clause and before: what "it" means.
    fn last_object_now(&self) -> Option<(String, BTreeSet<String>)> {
        let object = Kind::Object.name();
        self.clause
            .phrases
            .iter()
            .rev()
            .chain(
                self.clauses
                    .iter()
                    .rev()
                    .flat_map(|c| c.phrases.iter().rev()),
            )
            .find_map(|p| match &p.target {
                Target::Thing(name) if p.kinds.contains(object) => {
                    Some((name.clone(), p.kinds.clone()))
                }
                Target::Thing(_) | Target::Here => None,
            })
    }

    /// The last room or furniture named: what "there" means.
    fn last_place_now(&self) -> Option<(Target, BTreeSet<String>)> {
        let object = Kind::Object.name();
        self.clause
            .phrases
            .iter()
            .rev()
            .chain(
                self.clauses
                    .iter()
                    .rev()
                    .flat_map(|c| c.phrases.iter().rev()),
            )
            .find(|p| !p.kinds.contains(object) && !p.person)
            .map(|p| (p.target.clone(), p.kinds.clone()))
    }

    /// Whether what was just read only says where the thing is that comes next.
    fn is_restriction(&mut self, d: &Description, post: Option<&str>) -> bool {
        let Some(next) = self.peek(0) else {
            return false;
        };
        if next.separator {
            return false;
        }
        if next.can(|r| *r == Reading::Link) && is_chinese(next) {
            if self.peek(1).is_some_and(starts_noun_phrase) {
                self.at += 1;
                return true;
            }
            return false;
        }
        let noun_comes = starts_noun_phrase(next) && !is_verb(next);
        if !noun_comes {
            return false;
        }
        let room = d.kinds.contains(Kind::Room.name());
        let described = next.can(|r| matches!(r, Reading::Noun | Reading::Attribute));
        let chinese = is_chinese(next);
        (chinese && post.is_some()) || (room && described)
    }

    /// "the cup that is on the table".
    fn relative_clause(&mut self, d: &mut Description) -> Result<(), PlannerError> {
        let link = self
            .peek(0)
            .is_some_and(|t| t.can(|r| *r == Reading::Link) && !is_chinese(t));
        let Some(marker) = self
            .peek(1)
            .filter(|_| link)
            .and_then(preposition)
            .map(String::from)
        else {
            return Ok(());
        };
        self.at += 2;
        let (target, ..) = self.noun_phrase()?;
        if let Target::Thing(name) = target {
            d.within = Some((Self::place_of(Some(&marker)), name));
        }
        Ok(())
    }

    /// The verb of a clause; of several that its word can be (move), the one that takes an object where an
    /// object is named, else the one that takes none.
    fn verb_of(&self, clause: &Clause) -> Option<(String, String)> {
        let (first, said) = clause.verb.clone()?;
        if clause.others.is_empty() {
            return Some((first, said));
        }
        let named = clause.phrases.iter().any(|p| {
            p.kinds.contains(Kind::Object.name())
                && p.markers.iter().any(|m| m == "bare" || m == "object")
        });
        let fitting = std::iter::once(&first).chain(&clause.others).find(|name| {
            self.tables
                .phrases
                .verbs
                .get(*name)
                .is_some_and(|v| v.slots.contains_key("object") == named)
        });
        Some((fitting.cloned().unwrap_or(first), said))
    }

    fn goals(&mut self) -> Result<Vec<Goal>, PlannerError> {
        let clauses = std::mem::take(&mut self.clauses);
        let mut goals = Vec::new();
        let mut before: Option<Filled<'a>> = None;
        let mut room: Option<String> = None;
        for (i, clause) in clauses.iter().enumerate() {
            let own = self.verb_of(clause).or_else(|| clause.fallback.clone());
            let text = || {
                clause
                    .phrases
                    .iter()
                    .map(|p| p.text.clone())
                    .collect::<Vec<_>>()
                    .join(" ")
            };
            let inherited = own.is_none();
            let (name, said) = match (own, &before) {
                (Some(own), _) => own,
                (None, Some(b)) if !clause.phrases.is_empty() => (b.name.clone(), b.said.clone()),
                (None, _) if clause.phrases.is_empty() && clause.number.is_none() => continue,
                (None, _) => return Err(self.say("no_verb", &text())),
            };
            let Some(verb) = self.tables.phrases.verbs.get(&name) else {
                return Err(self.order(&said));
            };
            let leads = verb.serial
                && clause.phrases.is_empty()
                && clauses.get(i + 1).is_some_and(|next| {
                    !next.apart || !verb.goals.iter().any(|g| g.needs.is_empty())
                });
            if leads && !clause.back {
                continue;
            }
            let mut filled = Filled {
                name,
                said,
                verb,
                slots: BTreeMap::new(),
                number: clause.number,
            };
            for phrase in &clause.phrases {
                self.fill(&mut filled, phrase)?;
            }
            if let (true, Some(b)) = (inherited, &before) {
                for (slot, phrase) in &b.slots {
                    if slot != "object" && !filled.slots.contains_key(slot) {
                        filled.slots.insert(slot.clone(), phrase.clone());
                    }
                }
            }
            // "put the apple and the cup on the table": the first shares the second's place.
            if let Some(next) = clauses
                .get(i + 1)
                .filter(|n| n.verb.is_none() && n.fallback.is_none() && !n.phrases.is_empty())
            {
                let mut shared = Filled {
                    slots: BTreeMap::new(),
                    ..filled.clone()
                };
                for phrase in &next.phrases {
                    // What does not fit is reported when its own turn comes.
                    let _ = self.fill(&mut shared, phrase);
                }
                for (slot, phrase) in shared.slots {
                    if slot != "object" {
                        filled.slots.entry(slot).or_insert(phrase);
                    }
                }
            }
            if clause.back && verb.serial && filled.slots.is_empty() {
                filled.slots.insert(
                    "to".into(),
                    Phrase {
                        markers: vec!["to".into()],
                        target: Target::Here,
                        kinds: set(Kind::Place),
                        place: Place::At,
                        text: String::new(),
                        fresh: false,
                        person: false,
                        begin: 0,
                        end: 0,
                    },
                );
            }
            self.complete(&mut filled)?;
            self.restrict(&filled, room.as_deref());
            let goal = self.goal(&filled)?;
            let goes_home = goal.condition.placeholders().iter().any(|p| p == HERE);
            goals.push(goal);
            let next_inherits = clauses
                .get(i + 1)
                .is_some_and(|n| n.verb.is_none() && n.fallback.is_none());
            if verb.serial {
                room = filled.slots.get("to").and_then(|p| match &p.target {
                    Target::Thing(t) if p.kinds.contains(Kind::Room.name()) => Some(t.clone()),
                    Target::Thing(_) | Target::Here => None,
                });
            } else if goes_home && !next_inherits {
                room = None;
            }
            if let Some(Phrase {
                target: Target::Thing(t),
                kinds,
                ..
            }) = filled.slots.get("object")
            {
                self.last_object = Some((t.clone(), kinds.clone()));
            }
            if let Some(p) = filled.slots.get("to") {
                self.last_place = Some(p.target.clone());
            }
            before = Some(filled);
        }
        Ok(without_detours(goals))
    }

    fn fill(&mut self, filled: &mut Filled<'a>, phrase: &Phrase) -> Result<(), PlannerError> {
        let mut phrase = phrase.clone();
        if phrase.person && phrase.markers.iter().any(|m| m == "bare") {
            phrase.markers = vec!["to".into()];
        }
        let by_marker = phrase.markers.iter().find_map(|marker| {
            filled
                .verb
                .slots
                .iter()
                .find(|(slot, markers)| {
                    markers.contains(marker)
                        && !filled.slots.contains_key(*slot)
                        && filled.kinds_fit(slot, &phrase.kinds)
                })
                .map(|(slot, _)| slot.clone())
        });
        if let Some(slot) = by_marker {
            filled.slots.insert(slot, phrase);
            return Ok(());
        }
        // "put the cup in the kitchen on the table": the first place belongs to the cup.
        let second = phrase.markers.iter().any(|m| {
            filled
                .verb
                .slots
                .get("to")
                .is_some_and(|markers| markers.contains(m))
        });
        if second && filled.kinds_fit("to", &phrase.kinds) && filled.slots.contains_key("object") {
            if let Some(first) = filled.slots.insert("to".into(), phrase.clone()) {
                if filled.slots.contains_key("from") {
                    return Err(self.order(&first.text));
                }
                filled.slots.insert("from".into(), first);
            }
            return Ok(());
        }
        let by_kind = filled
            .verb
            .slots
            .keys()
            .find(|slot| {
                !filled.slots.contains_key(*slot) && filled.kinds_wanted(slot, &phrase.kinds)
            })
            .cloned();
        match by_kind {
            Some(slot) => {
                filled.slots.insert(slot, phrase);
                Ok(())
            }
            None if phrase.target == Target::Here => Ok(()),
            None => Err(not_understood(self.messages.say(
                "slot_unfit",
                &[
                    ("verb", &filled.said),
                    ("words", &quote(&phrase.text)),
                    ("examples", &self.messages.examples()),
                ],
            ))),
        }
    }

    /// Fills the object that was left out with the one named last.
    fn complete(&mut self, filled: &mut Filled<'a>) -> Result<(), PlannerError> {
        let wants = filled.verb.slots.contains_key("object")
            && !filled
                .verb
                .goals
                .iter()
                .any(|g| g.needs.is_empty() || g.needs.contains_key("number"));
        if !wants || filled.slots.contains_key("object") {
            return Ok(());
        }
        match self.last_object.clone() {
            Some((thing, kinds)) if filled.kinds_fit("object", &kinds) => {
                filled.slots.insert(
                    "object".into(),
                    Phrase {
                        markers: vec!["bare".into()],
                        target: Target::Thing(thing),
                        kinds,
                        place: Place::At,
                        text: String::new(),
                        fresh: false,
                        person: false,
                        begin: 0,
                        end: 0,
                    },
                );
                Ok(())
            }
            Some(_) | None => Err(self.say("slot_missing", &filled.said)),
        }
    }

    /// Says of the objects where they are: by `from`, else by the room that the clause before went to.
    fn restrict(&mut self, filled: &Filled<'a>, room: Option<&str>) {
        if let (
            Some(Phrase {
                target: Target::Thing(object),
                fresh: true,
                ..
            }),
            Some(Phrase {
                target: Target::Thing(from),
                place,
                ..
            }),
        ) = (filled.slots.get("object"), filled.slots.get("from"))
        {
            if let Some(d) = self.things.get_mut(object) {
                if d.within.is_none() && object != from {
                    d.within = Some((*place, from.clone()));
                }
            }
        }
        let (Some(room), Some(slot)) = (room, filled.verb.context.as_deref()) else {
            return;
        };
        if let Some(Phrase {
            target: Target::Thing(thing),
            fresh: true,
            kinds,
            ..
        }) = filled.slots.get(slot)
        {
            if thing == room || kinds.contains(Kind::Room.name()) {
                return;
            }
            if let Some(d) = self.things.get_mut(thing) {
                if d.within.is_none() {
                    if slot == "object" {
                        d.within = Some((Place::At, room.into()));
                    } else {
                        d.prefer_in = Some(room.into());
                    }
                }
            }
        }
    }

    fn goal(&mut self, filled: &Filled<'a>) -> Result<Goal, PlannerError> {
        let Some(rule) = filled.verb.goals.iter().find(|g| filled.satisfies(g)) else {
            let unfit = filled
                .slots
                .iter()
                .find(|(slot, p)| !filled.kinds_fit(slot, &p.kinds))
                .map(|(_, p)| p.text.clone());
            return Err(match unfit {
                Some(words) => not_understood(self.messages.say(
                    "slot_unfit",
                    &[
                        ("verb", &filled.said),
                        ("words", &quote(&words)),
                        ("examples", &self.messages.examples()),
                    ],
                )),
                None => self.say("slot_missing", &filled.said),
            });
        };
        if let Some(key) = &rule.refuse {
            let words = filled
                .slots
                .get("to")
                .or_else(|| filled.slots.get("object"))
                .map_or("", |p| p.text.as_str());
            return Err(self.say(key, words));
        }
        if let Some(perform) = &rule.perform {
            let mut arguments = perform.arguments.clone();
            for value in arguments.values_mut() {
                if value.as_str() == Some("$number") {
                    *value = Value::from(filled.number.unwrap_or(0.0));
                }
            }
            return Ok(Goal {
                condition: Template::default(),
                act: false,
                perform: Some(Perform {
                    skill: perform.skill.clone(),
                    arguments,
                }),
            });
        }
        let mut names: BTreeMap<String, String> = filled
            .slots
            .iter()
            .map(|(slot, p)| {
                let name = match &p.target {
                    Target::Thing(t) => t.clone(),
                    Target::Here => HERE.into(),
                };
                (slot.clone(), name)
            })
            .collect();
        for (slot, implied) in &rule.things {
            let within = implied
                .within
                .as_ref()
                .and_then(|w| names.get(w.trim_start_matches('$')))
                .filter(|t| *t != HERE)
                .map(|t| (Place::At, t.clone()));
            let spoken = implied.kinds.iter().cloned().collect::<Vec<_>>().join("/");
            let name = self.thing(Description {
                spoken,
                kinds: implied.kinds.clone(),
                any: implied.any,
                within,
                ..Description::default()
            });
            names.insert(slot.clone(), name);
        }
        let condition = rename(rule.condition.as_ref().unwrap_or(&Value::Null), &names, 0);
        Ok(Goal {
            condition: Template::from_value(condition),
            act: rule.act,
            perform: None,
        })
    }
}

/// "take the cup and put it on the table": what goes on to another place is not brought here first.
fn without_detours(mut goals: Vec<Goal>) -> Vec<Goal> {
    let here = serde_json::json!({"near": {"target": format!("${HERE}")}});
    for i in 1..goals.len() {
        let (before, after) = goals.split_at_mut(i);
        let (Some(goal), Some(next)) = (before.last_mut(), after.first()) else {
            continue;
        };
        let Some(Value::Array(parts)) = goal.condition.value().get("all") else {
            continue;
        };
        let rest: Vec<Value> = parts.iter().filter(|p| **p != here).cloned().collect();
        let carried = Template::from_value(Value::Array(rest.clone())).placeholders();
        let goes_on = next.condition.value().get("on").is_some()
            || next.condition.value().get("all").is_some();
        let same = !carried.is_empty() && carried.is_subset(&next.condition.placeholders());
        if rest.len() < parts.len() && goes_on && same {
            let mut all = Map::new();
            all.insert("all".into(), Value::Array(rest));
            goal.condition = Template::from_value(Value::Object(all));
        }
    }
    goals
}

/// A clause with its phrases in the verb's slots.
#[derive(Clone)]
struct Filled<'a> {
    name: String,
    said: String,
    verb: &'a Verb,
    slots: BTreeMap<String, Phrase>,
    number: Option<f64>,
}

impl Filled<'_> {
    fn needs<'b>(&'b self, slot: &'b str) -> impl Iterator<Item = &'b Vec<String>> {
        self.verb
            .goals
            .iter()
            .filter_map(move |g| g.needs.get(slot))
    }

    /// Whether no goal forbids these kinds in the slot.
    fn kinds_fit(&self, slot: &str, kinds: &BTreeSet<String>) -> bool {
        self.needs(slot).next().is_none() || kinds.is_empty() || self.kinds_wanted(slot, kinds)
    }

    /// Whether a goal asks for these kinds in the slot.
    fn kinds_wanted(&self, slot: &str, kinds: &BTreeSet<String>) -> bool {
        self.needs(slot)
            .any(|wanted| wanted.is_empty() || wanted.iter().any(|k| kinds.contains(k)))
    }

    fn satisfies(&self, rule: &GoalRule) -> bool {
        rule.needs.iter().all(|(slot, kinds)| {
            if slot == "number" {
                return self.number.is_some();
            }
            self.slots.get(slot).is_some_and(|p| {
                kinds.is_empty() || p.kinds.is_empty() || kinds.iter().any(|k| p.kinds.contains(k))
            })
        })
    }
}

fn rename(value: &Value, names: &BTreeMap<String, String>, depth: usize) -> Value {
    // The tables' conditions are a few levels deep; a deeper one is cut and then refused as malformed.
    if depth > 32 {
        return Value::Null;
    }
    match value {
        Value::String(s) => match s.strip_prefix('$').and_then(|slot| names.get(slot)) {
            Some(name) => Value::String(format!("${name}")),
            None => value.clone(),
        },
        Value::Array(vs) => vs.iter().map(|v| rename(v, names, depth + 1)).collect(),
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(k, v)| (k.clone(), rename(v, names, depth + 1)))
                .collect(),
        ),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

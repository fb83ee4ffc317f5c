//! Noun phrases: what is meant, with its attributes and where it is.

use std::collections::BTreeSet;

use eh_contract::scene::Kind;

use super::{is_chinese, is_verb, preposition, set, starts_noun_phrase, Parser, Phrase, Target};
use crate::goal::{Count, Description, NamedAttribute, Place};
use crate::lexicon::Reading;
use crate::planner::{Language, PlannerError};

/// Longest chain of "the … on the … in the …" in one noun phrase.
const MAX_RESTRICTIONS: usize = 4;

/// Most things of one kind that one phrase may name.
const MAX_COUNT: f64 = 20.0;

impl Parser<'_> {
    pub(super) fn thing(&mut self, description: Description) -> String {
        if !description.any && !description.other {
            let same = self.things.iter().find(|(_, d)| {
                d.exact == description.exact
                    && d.held == description.held
                    && d.attributes == description.attributes
                    && d.kinds == description.kinds
                    && d.count == description.count
                    && d.most == description.most
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

    /// Makes the movable things of this clause all that fit, where no number was said.
    pub(super) fn all_of_them(&mut self) {
        for phrase in &self.clause.phrases {
            if let (Target::Thing(name), true) =
                (&phrase.target, phrase.kinds.contains(Kind::Object.name()))
            {
                if let Some(d) = self.things.get_mut(name) {
                    if d.count == Count::One && !d.held {
                        d.count = Count::All;
                    }
                }
            }
        }
    }

    fn place_of(post: Option<&str>) -> Place {
        match post {
            Some("on") => Place::On,
            Some("near") => Place::Near,
            Some(_) | None => Place::At,
        }
    }

    /// Reads a noun phrase; `marker` is the preposition before it.
    pub(super) fn phrase(&mut self, marker: Option<String>) -> Result<Phrase, PlannerError> {
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
            joined: false,
            begin,
            end: self.at,
        })
    }

    /// "the table in the kitchen": a room right after a piece of furniture says where that is.
    pub(super) fn place_phrase(&mut self, phrase: Phrase) {
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
        let mut definite = false;
        let mut counted = false;
        while let Some(token) = self.peek(0) {
            if token.separator {
                break;
            }
            if token.can(|r| *r == Reading::Vague) {
                return Err(self.say("how_many", &token.text));
            }
            if token.can(|r| *r == Reading::All) {
                d.count = Count::All;
                self.at += 1;
                continue;
            }
            // 两个苹果: between a number and what it counts.
            if counted
                && token.can(|r| *r == Reading::Measure)
                && self.peek(1).is_some_and(starts_noun_phrase)
            {
                self.at += 1;
                continue;
            }
            let most = token.readings.iter().find_map(|r| match r {
                Reading::Most { most, plain } if !(*plain && self.lexicon.in_scene(&token.key)) => {
                    Some(*most)
                }
                _ => None,
            });
            if let Some(most) = most {
                d.most = Some(most);
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
                // "the cups": all of them; but keys are one thing.
                let plural = token.text.len() > token.key.len() && !is_chinese(token);
                if plural && definite && d.count == Count::One && d.most.is_none() {
                    d.count = Count::All;
                }
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
            } else if token.can(|r| matches!(r, Reading::Number(_))) {
                let (n, count) = self.number();
                if counted {
                    return Err(self.order(&token.text));
                }
                counted = true;
                match n {
                    1.0 => d.any = true,
                    _ if n.fract() == 0.0 && (2.0..=MAX_COUNT).contains(&n) => {
                        d.count = Count::Exactly(n as u32);
                    }
                    _ => {
                        let said: Vec<&str> = self
                            .tokens
                            .iter()
                            .skip(self.at)
                            .take(count)
                            .map(|t| t.text.as_str())
                            .collect();
                        return Err(self.say("too_many_things", &said.join("")));
                    }
                }
                self.at += count.max(1);
                continue;
            } else if token.can(|r| *r == Reading::Definite) {
                // "this one" as a whole is the pronoun.
                definite = true;
            } else {
                break;
            }
            self.at += 1;
        }
        if let Some(found) = self.the_red_one(&mut d, &words, begin) {
            return Ok(found);
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

    /// "the red one", 最大的那个: a thing of the kind that was named last.
    #[allow(clippy::type_complexity)] // As above.
    fn the_red_one(
        &mut self,
        d: &mut Description,
        words: &[String],
        begin: usize,
    ) -> Option<(Target, BTreeSet<String>, Option<String>, bool, bool)> {
        if d.attributes.is_empty() && d.most.is_none() {
            return None;
        }
        let last = self.tokens.get(begin..self.at)?.last()?;
        let ends = match self.messages.language {
            Language::En => last.text == "one",
            Language::Zh => {
                last.can(|r| matches!(r, Reading::Link | Reading::Indefinite | Reading::Definite))
                    || last.text.ends_with('的')
            }
        };
        if !ends {
            return None;
        }
        let named = self
            .last_object_now()
            .and_then(|(name, _)| self.things.get(&name))
            .filter(|d| !d.exact.is_empty())
            .cloned()?;
        let mut d = std::mem::take(d);
        d.spoken = words.join(match self.messages.language {
            Language::En => " ",
            Language::Zh => "",
        });
        d.any = false;
        d.kinds = set(Kind::Object);
        (d.exact, d.canonical, d.names, d.wider) =
            (named.exact, named.canonical, named.names, named.wider);
        let name = self.thing(d);
        Some((Target::Thing(name), set(Kind::Object), None, true, false))
    }

    /// What was named so far, in this clause and before, the last one first.
    fn phrases_backwards(&self) -> impl Iterator<Item = &Phrase> {
        let before = self.clauses.iter().rev();
        let before = before.flat_map(|c| c.phrases.iter().rev());
        self.clause.phrases.iter().rev().chain(before)
    }

    /// Objects named so far, in this clause and before: what "it" means.
    fn last_object_now(&self) -> Option<(String, BTreeSet<String>)> {
        let object = Kind::Object.name();
        self.phrases_backwards().find_map(|p| match &p.target {
            Target::Thing(name) if p.kinds.contains(object) => {
                Some((name.clone(), p.kinds.clone()))
            }
            Target::Thing(_) | Target::Here => None,
        })
    }

    /// The last room or furniture named: what "there" means.
    fn last_place_now(&self) -> Option<(Target, BTreeSet<String>)> {
        let object = Kind::Object.name();
        self.phrases_backwards()
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
        let chinese = is_chinese(next);
        let described = next.can(|r| match r {
            Reading::Noun | Reading::Attribute => true,
            // 厨房所有的杯子
            Reading::All | Reading::Most { .. } | Reading::Number(_) => chinese,
            _ => false,
        });
        (chinese && post.is_some()) || (room && described)
    }

    /// "the cup that is on the table".
    fn relative_clause(&mut self, d: &mut Description) -> Result<(), PlannerError> {
        let link = self
            .peek(0)
            .is_some_and(|t| t.can(|r| *r == Reading::Link) && !is_chinese(t));
        // "the cup that is red"
        if let Some(token) = self
            .peek(1)
            .filter(|t| link && t.can(|r| *r == Reading::Attribute))
        {
            d.attributes.push(NamedAttribute {
                spoken: token.text.clone(),
                names: self
                    .lexicon
                    .attribute(&token.key)
                    .cloned()
                    .unwrap_or_default(),
            });
            self.at += 2;
            return Ok(());
        }
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
}

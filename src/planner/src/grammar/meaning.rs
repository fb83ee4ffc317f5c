//! From clauses to goals, by the verbs of the phrase table.

use std::collections::{BTreeMap, BTreeSet};

use eh_contract::condition::Template;
use eh_contract::scene::Kind;
use serde_json::{Map, Value};

use super::{not_understood, set, Clause, Parser, Phrase, Target};
use crate::goal::{Count, Description, Goal, Perform, Place, Things, HERE};
use crate::messages::quote;
use crate::phrase_table::{GoalRule, Verb};
use crate::planner::{Language, PlannerError};

impl<'a> Parser<'a> {
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

    pub(super) fn goals(&mut self) -> Result<Vec<Goal>, PlannerError> {
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
            for (k, phrase) in clause.phrases.iter().enumerate() {
                if let Err(error) = self.fill(&mut filled, phrase) {
                    let before = k.checked_sub(1).and_then(|b| clause.phrases.get(b));
                    if !before.is_some_and(|b| self.describes(phrase, b)) {
                        return Err(error);
                    }
                }
            }
            if let (true, Some(b)) = (inherited, &before) {
                for (slot, phrase) in &b.slots {
                    if slot != "object" && !filled.slots.contains_key(slot) {
                        filled.slots.insert(slot.clone(), phrase.clone());
                    }
                }
            }
            // "put the apple, the cup and the bowl on the table": the first two share the last one's place.
            let sharing = clauses
                .iter()
                .skip(i + 1)
                .take_while(|n| n.verb.is_none() && n.fallback.is_none() && !n.phrases.is_empty());
            for next in sharing {
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
                        joined: false,
                        begin: 0,
                        end: 0,
                    },
                );
            }
            self.complete(&mut filled)?;
            self.restrict(&filled, room.as_deref())?;
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
        let goals = without_detours(goals, &self.things);
        // One hand holds one thing; two that shall be held at the end can't be.
        let hands_full = goals.iter().find_map(|g| {
            let many = self.many(g)?;
            let stays = g.condition.value().get("holding").is_some()
                || g.condition
                    .value()
                    .get("all")
                    .and_then(Value::as_array)
                    .is_some_and(|parts| parts.len() == 1);
            stays.then(|| many.spoken.clone())
        });
        match hands_full {
            Some(words) => Err(self.say("one_hand", &words)),
            None => Ok(goals),
        }
    }

    /// The thing of a goal that stands for several.
    fn many(&self, goal: &Goal) -> Option<&Description> {
        goal.condition
            .placeholders()
            .iter()
            .filter_map(|n| self.things.get(n))
            .find(|d| d.count != Count::One)
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
                let place = !first
                    .markers
                    .iter()
                    .any(|m| m == "bare" || m == "object" || m == "to");
                if filled.slots.contains_key("from") || !place {
                    return Err(self.order(&first.text));
                }
                filled.slots.insert("from".into(), first);
            }
            return Ok(());
        }
        // In English only what has no preposition may go anywhere by its kind, and of places only people
        // and the like ("give the nurse the cup"): the order of the words says what stands on what.
        let bare = phrase.markers.iter().any(|m| m == "bare");
        let taken = phrase.markers.iter().any(|m| m == "object");
        let surface = [Kind::Surface, Kind::Container, Kind::Room]
            .iter()
            .any(|k| phrase.kinds.contains(k.name()));
        let english = self.messages.language == Language::En;
        let by_kind = filled
            .verb
            .slots
            .keys()
            .find(|slot| {
                !filled.slots.contains_key(*slot)
                    && filled.kinds_wanted(slot, &phrase.kinds)
                    && if *slot == "object" {
                        bare || taken
                    } else {
                        // 把桌子放到苹果上: what is handled is no place.
                        !taken && (!english || (bare && !surface))
                    }
            })
            .cloned();
        match by_kind {
            Some(slot) => {
                filled.slots.insert(slot, phrase);
                Ok(())
            }
            None if phrase.target == Target::Here => Ok(()),
            // "and wait there"
            None if filled.verb.slots.is_empty() && !phrase.fresh => Ok(()),
            None => Err(self.unfit(&filled.said, &phrase)),
        }
    }

    /// A phrase without what stands around its noun.
    fn name_of<'b>(&'b self, phrase: &'b Phrase) -> &'b str {
        match &phrase.target {
            Target::Thing(name) => self
                .things
                .get(name)
                .filter(|d| !d.spoken.is_empty())
                .map_or(phrase.text.as_str(), |d| d.spoken.as_str()),
            Target::Here => phrase.text.as_str(),
        }
    }

    /// A verb that does not go with a phrase, with what can be done with that.
    fn unfit(&self, said: &str, phrase: &Phrase) -> PlannerError {
        not_understood(self.messages.say(
            "slot_unfit",
            &[
                ("verb", said),
                ("words", &quote(&phrase.text)),
                (
                    "nearest",
                    &self.messages.nearest(&phrase.kinds, &phrase.text),
                ),
                ("examples", &self.messages.examples()),
            ],
        ))
    }

    /// "the table next to the sofa": what fills no slot says where the phrase right before it is.
    fn describes(&mut self, phrase: &Phrase, before: &Phrase) -> bool {
        let locative = phrase
            .markers
            .first()
            .is_some_and(|m| matches!(m.as_str(), "in" | "at" | "on" | "near"));
        let adjacent = phrase.begin <= before.end + 2 && before.fresh;
        let (true, true, Target::Thing(place), Target::Thing(thing)) =
            (locative, adjacent, &phrase.target, &before.target)
        else {
            return false;
        };
        match self.things.get_mut(thing) {
            Some(d) if d.within.is_none() && place != thing => {
                d.within = Some((phrase.place, place.clone()));
                true
            }
            Some(_) | None => false,
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
                        joined: false,
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
    fn restrict(&mut self, filled: &Filled<'a>, room: Option<&str>) -> Result<(), PlannerError> {
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
                match &d.within {
                    None if object != from => d.within = Some((*place, from.clone())),
                    // Two places for one thing: nothing that was said may be lost.
                    Some((_, known)) if known != from => {
                        let words = d.spoken.clone();
                        return Err(self.order(&words));
                    }
                    None | Some(_) => {}
                }
            }
        }
        let (Some(room), Some(slot)) = (room, filled.verb.context.as_deref()) else {
            return Ok(());
        };
        if let Some(Phrase {
            target: Target::Thing(thing),
            fresh: true,
            kinds,
            ..
        }) = filled.slots.get(slot)
        {
            if thing == room || kinds.contains(Kind::Room.name()) {
                return Ok(());
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
        Ok(())
    }

    fn goal(&mut self, filled: &Filled<'a>) -> Result<Goal, PlannerError> {
        let Some(rule) = filled.verb.goals.iter().find(|g| filled.satisfies(g)) else {
            let unfit = filled
                .slots
                .iter()
                .find(|(slot, p)| !filled.kinds_fit(slot, &p.kinds))
                .map(|(_, p)| p);
            return Err(match unfit {
                Some(phrase) => self.unfit(&filled.said, phrase),
                None => self.say("slot_missing", &filled.said),
            });
        };
        if let Some(key) = &rule.refuse {
            let phrase = filled
                .slots
                .get("to")
                .or_else(|| filled.slots.get("object"));
            let words = phrase.map_or("", |p| self.name_of(p));
            let kinds = phrase.map(|p| p.kinds.clone()).unwrap_or_default();
            return Err(not_understood(self.messages.say(
                key,
                &[
                    ("words", &quote(words)),
                    ("verb", &filled.said),
                    ("nearest", &self.messages.nearest(&kinds, words)),
                    ("examples", &self.messages.examples()),
                ],
            )));
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
        let many: Vec<&String> = names
            .values()
            .filter(|n| self.things.get(*n).is_some_and(|d| d.count != Count::One))
            .collect();
        if many.len() > 1 {
            return Err(self.say("many_to_many", &filled.said));
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
fn without_detours(mut goals: Vec<Goal>, things: &Things) -> Vec<Goal> {
    let here = serde_json::json!({"near": {"target": format!("${HERE}")}});
    let mut idle = BTreeSet::new();
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
    // "take both apples and put them on the table": each is taken when its turn comes.
    for i in 1..goals.len() {
        let (Some(goal), Some(next)) = (goals.get(i - 1), goals.get(i)) else {
            continue;
        };
        let held: BTreeSet<String> = goal
            .condition
            .placeholders()
            .into_iter()
            .filter(|n| *n != HERE)
            .collect();
        let taken = goal.condition.value().get("holding").is_some()
            || goal.condition.value().get("all").is_some();
        let many = held
            .iter()
            .any(|n| things.get(n).is_some_and(|d| d.count != Count::One));
        let goes_on = next.condition.value().get("on").is_some()
            || next.condition.value().get("all").is_some();
        if many && taken && goes_on && held.is_subset(&next.condition.placeholders()) {
            idle.insert(i - 1);
        }
    }
    let mut at = 0..;
    goals.retain(|_| at.next().is_some_and(|i: usize| !idle.contains(&i)));
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
        let marked = rule.markers.iter().all(|(slot, marker)| {
            self.slots
                .get(slot)
                .is_some_and(|p| p.markers.contains(marker))
        });
        marked
            && rule.needs.iter().all(|(slot, kinds)| {
                if slot == "number" {
                    return self.number.is_some();
                }
                self.slots.get(slot).is_some_and(|p| {
                    kinds.is_empty()
                        || p.kinds.is_empty()
                        || kinds.iter().any(|k| p.kinds.contains(k))
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

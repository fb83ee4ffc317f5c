//! What is said to people, in the language of the instruction.

use std::collections::BTreeSet;

use eh_contract::condition::{Condition, Predicate};
use eh_contract::scene::{Kind, RelationKind, SceneObject, SceneSnapshot};
use serde_json::Value;

use crate::phrase_table::{MessageTable, Tables};
use crate::planner::Language;
use crate::text::language_of;

/// Longest quotation of what a person said, in characters.
const MAX_QUOTE: usize = 80;

/// Says things in one language.
#[derive(Clone, Copy, Debug)]
pub struct Messages<'a> {
    tables: &'a Tables,
    /// The language.
    pub language: Language,
}

/// Shortens what a person said, so that a huge instruction does not come back whole.
pub fn quote(text: &str) -> String {
    if text.chars().count() <= MAX_QUOTE {
        return text.into();
    }
    text.chars().take(MAX_QUOTE - 1).chain(['…']).collect()
}

impl<'a> Messages<'a> {
    /// Speaks a language with the words of the tables.
    pub fn new(tables: &'a Tables, language: Language) -> Self {
        Messages { tables, language }
    }

    fn table(&self) -> &'a MessageTable {
        &self.tables.messages
    }

    /// A message with its `{names}` replaced.
    pub fn say(&self, key: &str, values: &[(&str, &str)]) -> String {
        let text = self
            .table()
            .messages
            .get(key)
            .or_else(|| self.table().predicates.get(key))
            .map(|t| match self.language {
                Language::En => t.en.as_str(),
                Language::Zh => t.zh.as_str(),
            })
            // A replaced table without this message: its key is better than silence.
            .unwrap_or(key);
        fill(text, values)
    }

    /// Some examples of what can be said.
    pub fn examples(&self) -> String {
        let examples = &self.tables.phrases.examples;
        let quoted: Vec<String> = match self.language {
            Language::En => &examples.en,
            Language::Zh => &examples.zh,
        }
        .iter()
        .map(|e| match self.language {
            Language::En => format!("\"{e}\""),
            Language::Zh => format!("“{e}”"),
        })
        .collect();
        self.list(&quoted)
    }

    /// What can be done with something of these kinds, as a sentence; empty where nothing can.
    pub fn nearest(&self, kinds: &BTreeSet<String>, words: &str) -> String {
        // An object that is a container too is first of all an object.
        let kind = [
            Kind::Object,
            Kind::Surface,
            Kind::Container,
            Kind::Room,
            Kind::Door,
            Kind::Person,
            Kind::Place,
        ]
        .into_iter()
        .find(|k| kinds.contains(k.name()));
        let key = match kind {
            Some(Kind::Object) => "nearest_object",
            Some(Kind::Surface | Kind::Container) => "nearest_furniture",
            Some(Kind::Room | Kind::Door | Kind::Person | Kind::Place) => "nearest_place",
            Some(_) | None => return String::new(),
        };
        self.say(key, &[("words", &quote(words))])
    }

    /// Items one after another.
    pub fn list(&self, items: &[String]) -> String {
        items.join(&self.say("list", &[]))
    }

    /// The name of a scene object for people: rooms, furniture and people by an alias in their language,
    /// movable things by their class, with what tells them from others of the class; the ref where
    /// nothing else is known.
    pub fn name(&self, scene: &SceneSnapshot, r#ref: &str) -> String {
        let Some(object) = scene.get(r#ref) else {
            return r#ref.into();
        };
        let class = self.class_name(&object.class_name);
        if object.kind == Kind::Object && !class.is_empty() {
            return self.told_apart(scene, object, class);
        }
        let alias = object
            .aliases
            .iter()
            .find(|a| language_of(a) == self.language);
        if let Some(alias) = alias {
            return alias.clone();
        }
        if object.kind == Kind::Room || class.is_empty() {
            return object.r#ref.clone();
        }
        match self.language {
            Language::En => format!("{} ({})", class, object.r#ref),
            Language::Zh => format!("{}（{}）", class, object.r#ref),
        }
    }

    /// The class of a movable thing; where there are others of it, with its attributes, and where these
    /// are the same, with its ref.
    fn told_apart(&self, scene: &SceneSnapshot, object: &SceneObject, class: String) -> String {
        let others: Vec<&SceneObject> = scene
            .live()
            .filter(|o| {
                o.kind == Kind::Object
                    && o.class_name == object.class_name
                    && o.r#ref != object.r#ref
            })
            .collect();
        if others.is_empty() {
            return class;
        }
        if others.iter().any(|o| o.attributes == object.attributes) {
            return match self.language {
                Language::En => format!("{class} ({})", object.r#ref),
                Language::Zh => format!("{class}（{}）", object.r#ref),
            };
        }
        let words: Vec<String> = object
            .attributes
            .values()
            .map(|v| self.attribute_name(v))
            .chain([class])
            .collect();
        match self.language {
            Language::En => words.join(" "),
            Language::Zh => words.concat(),
        }
    }

    fn attribute_name(&self, value: &str) -> String {
        let group = self
            .tables
            .nouns
            .attributes
            .iter()
            .find(|g| g.en.iter().any(|n| n == value));
        match (self.language, group) {
            (Language::Zh, Some(g)) => g.zh.first().cloned().unwrap_or_else(|| value.into()),
            (Language::Zh | Language::En, _) => value.into(),
        }
    }

    /// A scene object within a sentence: with the article that English wants.
    fn noun(&self, scene: &SceneSnapshot, r#ref: &str) -> String {
        let name = self.name(scene, r#ref);
        // A bare ref is a proper name too.
        let proper = scene.get(r#ref).is_none_or(|o| {
            o.kind == Kind::Person || (name == o.r#ref && !o.aliases.contains(&name))
        });
        if proper {
            name
        } else {
            self.with_article(&name)
        }
    }

    /// A noun as the person said it, with "the" where English wants it and none was said.
    pub fn with_article(&self, name: &str) -> String {
        let first = name.split(' ').next().unwrap_or_default();
        let determined = [
            &self.tables.phrases.definite,
            &self.tables.phrases.indefinite,
            &self.tables.phrases.other,
        ]
        .into_iter()
        .any(|forms| forms.en.iter().any(|f| f == first));
        match self.language {
            Language::En if !determined && !name.is_empty() => format!("the {name}"),
            Language::En | Language::Zh => name.into(),
        }
    }

    fn class_name(&self, class: &str) -> String {
        let class = class.replace('_', " ");
        match self.language {
            Language::En => class,
            Language::Zh => self
                .tables
                .nouns
                .nouns
                .iter()
                .find(|n| n.en.contains(&class))
                .and_then(|n| n.zh.first())
                .cloned()
                .unwrap_or(class),
        }
    }

    /// A scene object with its attributes and where it is, unique by its ref: an option to choose from.
    pub fn option(&self, scene: &SceneSnapshot, r#ref: &str) -> String {
        let Some(object) = scene.get(r#ref) else {
            return r#ref.into();
        };
        let mut parts: Vec<String> = object
            .attributes
            .values()
            .map(|v| self.attribute_name(v))
            .collect();
        parts.extend(
            scene
                .objects_of(r#ref, RelationKind::On)
                .chain(scene.objects_of(r#ref, RelationKind::In))
                .next()
                .map(|place| self.name(scene, place)),
        );
        parts.extend(scene.room_of(r#ref).map(|room| self.name(scene, room)));
        parts.dedup();
        if parts.is_empty() {
            object.r#ref.clone()
        } else {
            format!("{} ({})", object.r#ref, parts.join(", "))
        }
    }

    /// A condition as a phrase.
    pub fn condition(&self, condition: &Condition, scene: &SceneSnapshot, start: &str) -> String {
        match condition {
            Condition::Is(p) => self.predicate(p, scene, start),
            Condition::Not(c) => self.say("not", &[("goal", &self.condition(c, scene, start))]),
            Condition::All(cs) | Condition::Any(cs) => {
                let joint = if matches!(condition, Condition::All(_)) {
                    "and"
                } else {
                    "or"
                };
                let mut parts: Vec<String> = Vec::new();
                for c in cs {
                    let part = self.condition(c, scene, start);
                    if !parts.contains(&part) {
                        parts.push(part);
                    }
                }
                parts.join(&self.say(joint, &[]))
            }
        }
    }

    /// A predicate as a phrase.
    pub fn predicate(&self, predicate: &Predicate, scene: &SceneSnapshot, start: &str) -> String {
        let Value::Object(map) = predicate.to_value() else {
            return String::new();
        };
        let Some((name, fields)) = map.iter().next() else {
            return String::new();
        };
        let values: Vec<(&str, String)> = fields
            .as_object()
            .into_iter()
            .flatten()
            .map(|(field, value)| {
                let text = match value {
                    Value::String(s) if s == start => self.say("here", &[]),
                    Value::String(s) if field == "state" => self.say(s, &[]),
                    Value::String(s) if scene.get(s).is_some() => self.noun(scene, s),
                    // Not bound yet: as the person said it.
                    Value::String(s)
                        if matches!(
                            field.as_str(),
                            "object" | "target" | "support" | "container" | "door"
                        ) =>
                    {
                        self.with_article(s)
                    }
                    Value::String(s) => s.clone(),
                    other => other.to_string(),
                };
                (field.as_str(), text)
            })
            .collect();
        let borrowed: Vec<(&str, &str)> = values.iter().map(|(k, v)| (*k, v.as_str())).collect();
        let target = match predicate {
            Predicate::Near(p) => Some(&p.target),
            Predicate::At(p) => Some(&p.target),
            _ => None,
        };
        let there = target.and_then(|t| scene.get(t)).map(|o| o.kind);
        let key = match (predicate, there) {
            (_, Some(Kind::Room)) => "in_room",
            // One stands at a spot, and beside a thing.
            (Predicate::Near(p), there) if p.target == start || there == Some(Kind::Place) => "at",
            (Predicate::Door(door), _) if !door.open => "door_closed",
            _ => name.as_str(),
        };
        self.say(key, &borrowed)
    }
}

fn fill(text: &str, values: &[(&str, &str)]) -> String {
    // One pass, so that what a person said can't be taken for a placeholder.
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        match after.split_once('}') {
            Some((name, tail)) => {
                match values.iter().find(|(key, _)| *key == name) {
                    Some((_, value)) => out.push_str(value),
                    None => {
                        out.push('{');
                        out.push_str(name);
                        out.push('}');
                    }
                }
                rest = tail;
            }
            None => {
                out.push('{');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

//! The tables of words, as data: what is said (`phrases.yaml`), what there is (the nouns of `eh_contract`) and what is
//! said back (`messages.yaml`). The embedded ones can be replaced by others of the same form.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use eh_contract::nouns::{Forms, NounTable};
use serde::Deserialize;
use serde_json::{Map, Value};
use thiserror::Error;

use crate::goal::Measure;
use crate::lexicon::Lexicon;

/// A number word or a unit: form to value.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Values {
    /// English.
    #[serde(default)]
    pub en: BTreeMap<String, f64>,
    /// Chinese.
    #[serde(default)]
    pub zh: BTreeMap<String, f64>,
}

/// A thing that a goal needs and that the instruction did not name.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImpliedThing {
    /// Kinds that fit.
    pub kinds: BTreeSet<String>,
    /// Whether any one will do.
    #[serde(default)]
    pub any: bool,
    /// `$slot` whose thing it has to be in.
    #[serde(default)]
    pub within: Option<String>,
}

/// Runs one skill as it is said, without planning.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerformRule {
    /// Skill.
    pub skill: String,
    /// Its arguments; `$number` is the time that was said \[s\].
    #[serde(default)]
    pub arguments: Map<String, Value>,
}

/// What a verb means with certain slots.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoalRule {
    /// Slots that have to be filled, with the kinds that fit; an empty list takes any.
    pub needs: BTreeMap<String, Vec<String>>,
    /// The goal, with `$slot`.
    #[serde(default)]
    pub condition: Option<Value>,
    /// Things that the condition names beyond the slots.
    #[serde(default)]
    pub things: BTreeMap<String, ImpliedThing>,
    /// Do it even when it already holds.
    #[serde(default)]
    pub act: bool,
    /// A skill instead of a condition.
    #[serde(default)]
    pub perform: Option<PerformRule>,
    /// Key of a message instead of a goal.
    #[serde(default)]
    pub refuse: Option<String>,
    /// Slots whose phrase has to have this marker.
    #[serde(default)]
    pub markers: BTreeMap<String, String>,
}

/// A verb.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verb {
    /// English forms.
    #[serde(default)]
    pub en: Vec<String>,
    /// Chinese forms.
    #[serde(default)]
    pub zh: Vec<String>,
    /// Chinese forms that are this verb only where the clause has no other.
    #[serde(default)]
    pub zh_alone: Vec<String>,
    /// Without a noun phrase it only leads to the next verb.
    #[serde(default)]
    pub serial: bool,
    /// Slots with the markers that they take.
    #[serde(default)]
    pub slots: BTreeMap<String, Vec<String>>,
    /// The slot that a room named just before restricts.
    #[serde(default)]
    pub context: Option<String>,
    /// What it means, the first that fits.
    pub goals: Vec<GoalRule>,
}

/// The small words and verbs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhraseTable {
    /// Version of the table.
    pub version: String,
    /// Verbs by name.
    pub verbs: BTreeMap<String, Verb>,
    /// Between two actions.
    pub connectives: Forms,
    /// Those of them that also stand between two things for one verb (苹果和香蕉).
    #[serde(default)]
    pub joints: Vec<String>,
    /// Before noun phrases, by marker.
    pub prepositions: BTreeMap<String, Forms>,
    /// After noun phrases, by marker.
    pub postpositions: BTreeMap<String, Forms>,
    /// Between a description and what it describes.
    pub links: Forms,
    /// it, me, here, there.
    pub pronouns: BTreeMap<String, Forms>,
    /// Back to where the task was given.
    pub back: Forms,
    /// a, any.
    pub indefinite: Forms,
    /// the, that.
    pub definite: Forms,
    /// another.
    pub other: Forms,
    /// all, every.
    pub all: Forms,
    /// several, something: how many or what is not said.
    pub vague: Forms,
    /// English words that are no part of any name, and that nothing here understands (not, or, if).
    #[serde(default)]
    pub no_names: BTreeSet<String>,
    /// Chinese words between a number and a noun (两个苹果).
    pub measures: Forms,
    /// What changes nothing.
    pub filler: Forms,
    /// Number words.
    pub numbers: Values,
    /// The biggest, the nearest.
    pub superlatives: Vec<SuperlativeWords>,
    /// Words for a place in a list.
    pub ordinals: Values,
    /// Units of time \[s\].
    pub units: Values,
    /// What can be said.
    pub examples: Forms,
}

/// Words for the one that has most or least of something.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SuperlativeWords {
    /// By what.
    pub by: Measure,
    /// Least of it instead of most.
    #[serde(default)]
    pub least: bool,
    /// Words that say so.
    pub words: Forms,
    /// Words that say so where they are no attribute of anything in the scene (the big one).
    #[serde(default)]
    pub plain: Forms,
}

/// One text in both languages.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Text {
    /// English.
    pub en: String,
    /// Chinese.
    pub zh: String,
}

/// What is said to people.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessageTable {
    /// Version of the table.
    pub version: String,
    /// Whole messages.
    pub messages: BTreeMap<String, Text>,
    /// Parts that describe conditions.
    pub predicates: BTreeMap<String, Text>,
}

/// All tables.
#[derive(Clone, Debug)]
pub struct Tables {
    /// Small words and verbs.
    pub phrases: PhraseTable,
    /// Nouns and attributes.
    pub nouns: NounTable,
    /// What is said to people.
    pub messages: MessageTable,
    /// The words of the first two, taken apart once.
    words: Arc<Lexicon>,
}

/// Why a table can't be used.
#[derive(Debug, Error)]
pub enum TableError {
    /// It is not of the expected form.
    #[error(
        "the table of {which} can't be read: {reason}; compare it with the one that is shipped"
    )]
    Form {
        /// Which table.
        which: &'static str,
        /// Why.
        reason: String,
    },
}

fn read<T: serde::de::DeserializeOwned>(which: &'static str, text: &str) -> Result<T, TableError> {
    serde_yaml_ng::from_str(text).map_err(|e| TableError::Form {
        which,
        reason: e.to_string(),
    })
}

impl Tables {
    /// Reads tables from YAML; `None` takes the embedded one.
    ///
    /// # Errors
    /// [`TableError`] that names the table and the place.
    pub fn read(
        phrases: Option<&str>,
        nouns: Option<&str>,
        messages: Option<&str>,
    ) -> Result<Self, TableError> {
        let phrases = read(
            "phrases",
            phrases.unwrap_or(include_str!("../data/phrases.yaml")),
        )?;
        let nouns = match nouns {
            Some(text) => NounTable::from_yaml(text),
            None => NounTable::embedded(),
        }
        .map_err(|e| TableError::Form {
            which: "nouns",
            reason: e.to_string(),
        })?;
        Ok(Tables {
            words: Arc::new(Lexicon::of_tables(&phrases, &nouns)),
            phrases,
            nouns,
            messages: read(
                "messages",
                messages.unwrap_or(include_str!("../data/messages.yaml")),
            )?,
        })
    }

    /// The embedded tables.
    ///
    /// # Errors
    /// [`TableError`]; a test proves that the shipped ones have none.
    pub fn embedded() -> Result<Self, TableError> {
        Tables::read(None, None, None)
    }

    /// The words of all tables, without those of a scene.
    pub fn words(&self) -> &Lexicon {
        &self.words
    }

    /// The version of all tables together.
    pub fn version(&self) -> String {
        format!(
            "{}.{}.{}",
            self.phrases.version, self.nouns.version, self.messages.version
        )
    }
}

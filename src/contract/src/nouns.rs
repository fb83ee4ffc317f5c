//! The one table of nouns and attributes, English and Chinese: names for what perception sees, and for what
//! an instruction can speak of.

use std::collections::BTreeSet;

use serde::Deserialize;
use thiserror::Error;

/// The table that ships with it.
const EMBEDDED: &str = include_str!("../data/nouns.yaml");

/// Largest table in bytes.
const MAX_LEN: usize = 4_000_000;

/// Forms of one word in both languages.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forms {
    /// English.
    #[serde(default)]
    pub en: Vec<String>,
    /// Chinese.
    #[serde(default)]
    pub zh: Vec<String>,
}

impl Forms {
    /// All forms.
    pub fn iter(&self) -> impl Iterator<Item = &String> {
        self.en.iter().chain(&self.zh)
    }
}

/// A noun of the table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Noun {
    /// Kinds of thing.
    pub kinds: BTreeSet<String>,
    /// English names.
    #[serde(default)]
    pub en: Vec<String>,
    /// Chinese names.
    #[serde(default)]
    pub zh: Vec<String>,
    /// English names of other entries that it also covers.
    #[serde(default)]
    pub wider: Vec<String>,
    /// A name for all of `wider` and nothing of its own, such as fruit.
    #[serde(default)]
    pub generic: bool,
}

/// Nouns and attributes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NounTable {
    /// Version of the table.
    pub version: String,
    /// Nouns.
    pub nouns: Vec<Noun>,
    /// Attributes.
    pub attributes: Vec<Forms>,
    /// Where things usually are.
    #[serde(default)]
    pub usual: Vec<Usual>,
}

/// Rooms where certain things usually are.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usual {
    /// English names of rooms.
    pub rooms: Vec<String>,
    /// English names of things.
    pub things: Vec<String>,
}

/// Why a table can't be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NounTableError {
    /// It is too large.
    #[error("the table of nouns has {len} bytes, the limit is {MAX_LEN}")]
    TooLarge {
        /// Its length.
        len: usize,
    },
    /// It is not of the expected form.
    #[error("the table of nouns can't be read: {reason}; compare it with the one that is shipped")]
    Form {
        /// Why.
        reason: String,
    },
}

impl NounTable {
    /// Reads a table.
    ///
    /// # Errors
    /// [`NounTableError`] that names the place.
    pub fn from_yaml(text: &str) -> Result<Self, NounTableError> {
        if text.len() > MAX_LEN {
            return Err(NounTableError::TooLarge { len: text.len() });
        }
        serde_yaml_ng::from_str(text).map_err(|e| NounTableError::Form {
            reason: e.to_string(),
        })
    }

    /// The table that ships with it.
    ///
    /// # Errors
    /// [`NounTableError`]; a test proves that the shipped table has none.
    pub fn embedded() -> Result<Self, NounTableError> {
        NounTable::from_yaml(EMBEDDED)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::scene::Kind;

    #[test]
    fn the_embedded_table_is_whole() {
        let table = NounTable::embedded().unwrap();
        let mut firsts: BTreeMap<&str, usize> = BTreeMap::new();
        let english: BTreeSet<&str> = table
            .nouns
            .iter()
            .flat_map(|n| n.en.iter().map(String::as_str))
            .collect();
        for noun in &table.nouns {
            assert!(!noun.en.is_empty() && !noun.zh.is_empty(), "{noun:?}");
            *firsts.entry(&noun.en[0]).or_default() += 1;
            for kind in &noun.kinds {
                let known = Kind::from_name(kind).is_some() || kind == "gripper" || kind == "arm";
                assert!(known, "{kind} of {noun:?}");
            }
            for wider in &noun.wider {
                assert!(english.contains(wider.as_str()), "{wider} of {noun:?}");
            }
        }
        // One row for a class: two would be two meanings of what perception says.
        let twice: Vec<_> = firsts.iter().filter(|(_, n)| **n > 1).collect();
        assert!(twice.is_empty(), "{twice:?}");
        for usual in &table.usual {
            for name in usual.rooms.iter().chain(&usual.things) {
                assert!(english.contains(name.as_str()), "{name}");
            }
        }
    }

    #[test]
    fn what_is_no_table_says_why() {
        assert!(NounTable::from_yaml("- a").is_err());
        let huge = "#".repeat(MAX_LEN + 1);
        assert!(matches!(
            NounTable::from_yaml(&huge),
            Err(NounTableError::TooLarge { .. })
        ));
    }
}

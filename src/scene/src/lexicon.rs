//! Words for classes and attribute values, English and Chinese, as data.

use std::collections::{BTreeMap, BTreeSet};

use eh_contract::nouns::NounTable;

use crate::error::SceneError;

/// Largest lexicon in bytes.
const MAX_LEN: usize = 1_000_000;

/// Longest word in characters.
const MAX_WORD: usize = 64;

/// Words that carry no meaning of their own.
const FILLERS: &[&str] = &[
    "a", "an", "the", "my", "your", "some", "that", "this", "one", "please", "of", "de",
];

/// Canonical names and the words that people use for them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lexicon {
    /// Canonical name to its words in order.
    words: BTreeMap<String, Vec<String>>,
    /// Word to canonical names.
    canonical: BTreeMap<String, BTreeSet<String>>,
}

impl Lexicon {
    /// The lexicon that ships with it.
    pub fn builtin() -> Self {
        // A test reads the table, so this can't fail; an empty lexicon would only know fewer words.
        NounTable::embedded()
            .map(|table| Lexicon::of_nouns(&table))
            .unwrap_or_default()
    }

    /// The names of a table of nouns; the first English one of each is canonical.
    pub fn of_nouns(table: &NounTable) -> Self {
        let mut lexicon = Lexicon::default();
        let nouns = table.nouns.iter().map(|n| (&n.en, &n.zh));
        let attributes = table.attributes.iter().map(|a| (&a.en, &a.zh));
        for (en, zh) in nouns.chain(attributes) {
            if let Some(name) = en.first() {
                let words: Vec<String> = en.iter().chain(zh).cloned().collect();
                lexicon.add(name, &words);
            }
        }
        lexicon
    }

    /// Reads a lexicon: a mapping from a canonical name to a list of words.
    ///
    /// # Errors
    /// [`SceneError::Lexicon`] when it is too large, no such mapping, or a word is empty or too long.
    pub fn from_yaml(text: &str) -> Result<Self, SceneError> {
        let bad = |reason: String| SceneError::Lexicon { reason };
        if text.len() > MAX_LEN {
            return Err(bad(format!(
                "it has {} bytes, the limit is {MAX_LEN}",
                text.len()
            )));
        }
        let raw: BTreeMap<String, Vec<String>> =
            serde_yaml_ng::from_str(text).map_err(|e| bad(e.to_string()))?;
        let mut lexicon = Lexicon::default();
        for (name, words) in raw {
            for word in words.iter().chain([&name]) {
                if word.trim().is_empty() || word.chars().count() > MAX_WORD {
                    return Err(bad(format!(
                        "a word of \"{name}\" is empty or longer than {MAX_WORD} characters"
                    )));
                }
            }
            lexicon.add(&name, &words);
        }
        Ok(lexicon)
    }

    /// Adds words; what is known stays.
    pub fn add(&mut self, name: &str, words: &[String]) {
        let name = name.trim().to_lowercase();
        let list = self.words.entry(name.clone()).or_default();
        for word in words {
            let word = word.trim().to_lowercase();
            if !list.contains(&word) {
                list.push(word.clone());
            }
            self.canonical.entry(word).or_default().insert(name.clone());
        }
        self.canonical.entry(name.clone()).or_default().insert(name);
    }

    /// Adds all words of another lexicon.
    pub fn extend(&mut self, other: &Lexicon) {
        for (name, words) in &other.words {
            self.add(name, words);
        }
    }

    /// The words for a canonical name, without the name itself.
    pub fn words(&self, name: &str) -> Vec<String> {
        self.words
            .get(name)
            .into_iter()
            .flatten()
            .filter(|w| *w != name)
            .cloned()
            .collect()
    }

    /// Canonical names of a word; the word itself when it is not known.
    pub fn canonical(&self, word: &str) -> BTreeSet<String> {
        let word = word.trim().to_lowercase();
        if let Some(names) = self.canonical.get(&word) {
            return names.clone();
        }
        // A plain plural.
        if let Some(names) = word.strip_suffix('s').and_then(|w| self.canonical.get(w)) {
            return names.clone();
        }
        [word].into()
    }

    /// The meaningful words of a text, each as the set of what it can mean.
    ///
    /// Latin words are split at what is no letter or digit, other scripts by the longest known word; of
    /// `extra` says which words are known besides (aliases of the scene). Fillers and unknown characters of
    /// unspaced scripts are left out.
    pub fn terms(&self, text: &str, extra: impl Fn(&str) -> bool) -> Vec<BTreeSet<String>> {
        let text: Vec<char> = text.to_lowercase().chars().take(4096).collect();
        let known = |s: &str| self.canonical.contains_key(s) || extra(s);
        let mut out = Vec::new();
        let mut i = 0;
        while let Some(c) = text.get(i).copied() {
            if c.is_ascii_alphanumeric() {
                let mut end = i;
                while text
                    .get(end)
                    .is_some_and(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
                {
                    end += 1;
                }
                // Two or three words can be one term: "remote control".
                let mut best = (end, text.get(i..end).map(String::from_iter));
                let mut stop = end;
                for _ in 0..2 {
                    if text.get(stop) != Some(&' ') {
                        break;
                    }
                    let mut next = stop + 1;
                    while text.get(next).is_some_and(char::is_ascii_alphanumeric) {
                        next += 1;
                    }
                    let phrase: Option<String> = text.get(i..next).map(String::from_iter);
                    if phrase.as_deref().is_some_and(known) {
                        best = (next, phrase);
                    }
                    stop = next;
                }
                i = best.0.max(i + 1);
                if let Some(word) = best.1 {
                    if !FILLERS.contains(&word.as_str()) {
                        out.push(self.canonical(&word));
                    }
                }
            } else if c.is_alphabetic() {
                let longest = (1..=12.min(text.len() - i)).rev().find_map(|n| {
                    let phrase: String = text.get(i..i + n)?.iter().collect();
                    known(&phrase).then_some((n, phrase))
                });
                match longest {
                    Some((n, phrase)) => {
                        out.push(self.canonical(&phrase));
                        i += n;
                    }
                    None => i += 1,
                }
            } else {
                i += 1;
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_builtin_words_are_readable_and_know_both_languages() {
        let l = Lexicon::of_nouns(&NounTable::embedded().unwrap());
        assert!(l.words("cup").contains(&"杯子".to_string()));
        assert!(l.canonical("杯子").contains("cup"));
        assert!(l.canonical("cups").contains("cup"));
        assert_eq!(l.canonical("xyzzy"), ["xyzzy".to_string()].into());
    }

    #[test]
    fn texts_are_split_into_terms() {
        let l = Lexicon::builtin();
        let none = |_: &str| false;
        let flat = |text: &str| -> Vec<String> {
            l.terms(text, none)
                .into_iter()
                .map(|s| s.into_iter().next().unwrap())
                .collect()
        };
        assert_eq!(flat("the red cup"), ["red", "cup"]);
        assert_eq!(flat("红色的杯子"), ["red", "cup"]);
        assert_eq!(flat("remote control"), ["remote"]);
        assert_eq!(flat("… !"), Vec::<String>::new());
        // A name that only the scene knows.
        let terms = l.terms("拿陀螺", |word| word == "陀螺");
        assert!(terms.iter().any(|t| t.contains("陀螺")), "{terms:?}");
    }

    #[test]
    fn what_is_no_lexicon_says_why() {
        assert!(Lexicon::from_yaml("- a").is_err());
        assert!(Lexicon::from_yaml("cup: ['']").is_err());
        assert!(Lexicon::from_yaml(&"a".repeat(2_000_000)).is_err());
    }
}

//! Every word that can stand in an instruction, with all that it can mean: the tables' words and the
//! names that the scene brings. Splits a text into the fewest known words.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use eh_contract::scene::{Kind, SceneSnapshot};

use crate::goal::Superlative;
use crate::phrase_table::{PhraseTable, Tables};
use crate::text::{atoms, is_han, normalise, singulars};
use eh_contract::nouns::{Noun, NounTable};

/// Most atoms of one entry: the longest phrases of the tables have six.
const MAX_ENTRY_ATOMS: usize = 12;

/// Cost of an atom that no entry covers; more than any number of known tokens that could replace it.
const UNKNOWN_COST: u64 = 10_000;

/// One thing that a word can mean.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading {
    /// A verb's name; `alone`: only where the clause has no other verb.
    Verb {
        /// Name in the table.
        name: String,
        /// See [`crate::phrase_table::Verb::zh_alone`].
        alone: bool,
    },
    /// Between two actions.
    Connective,
    /// Marker of a preposition.
    Preposition(String),
    /// Marker of a postposition.
    Postposition(String),
    /// Between a description and what it describes.
    Link,
    /// it, me, here, there.
    Pronoun(String),
    /// Back to where the task was given.
    Back,
    /// a, any.
    Indefinite,
    /// the, that.
    Definite,
    /// another.
    Other,
    /// all, every.
    All,
    /// several.
    Vague,
    /// Between a Chinese number and a noun.
    Measure,
    /// biggest, nearest; `plain`: only where it is no attribute of the scene.
    Most {
        /// What.
        most: Superlative,
        /// See [`crate::phrase_table::SuperlativeWords::plain`].
        plain: bool,
    },
    /// Changes nothing.
    Filler,
    /// Digits or a number word.
    Number(f64),
    /// A unit of time \[s\].
    Unit(f64),
    /// A noun; its key is the token's.
    Noun,
    /// An attribute; its key is the token's.
    Attribute,
}

/// A piece of the text.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    /// As it was written.
    pub text: String,
    /// As it stands in the lexicon; equals the text's atoms for unknown words.
    pub key: String,
    /// What it can mean; empty: not known.
    pub readings: Vec<Reading>,
    /// Whether it is punctuation that separates.
    pub separator: bool,
}

impl Token {
    /// Whether it can mean something that `test` accepts.
    pub fn can(&self, test: impl Fn(&Reading) -> bool) -> bool {
        self.readings.iter().any(test)
    }
}

/// What a noun stands for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NounMeaning {
    /// Name for people and logs: the English one of the table, else the word.
    pub canonical: String,
    /// Names that mean the same, the word included.
    pub names: BTreeSet<String>,
    /// Names that it also covers.
    pub wider: BTreeSet<String>,
    /// Kinds of thing.
    pub kinds: BTreeSet<String>,
}

/// All words of one task.
#[derive(Clone, Debug, Default)]
pub struct Lexicon {
    entries: HashMap<String, Vec<Reading>>,
    nouns: BTreeMap<String, NounMeaning>,
    attributes: BTreeMap<String, BTreeSet<String>>,
    /// Attributes of something in the scene.
    in_scene: BTreeSet<String>,
    longest: usize,
}

impl Lexicon {
    /// Collects the words of the tables, of the scene and of what perception knows.
    pub fn new(tables: &Tables, scene: &SceneSnapshot, vocabulary: &[String]) -> Self {
        let mut lexicon = tables.words().clone();
        lexicon.add_scene(scene, vocabulary);
        lexicon
    }

    /// Collects the words of tables.
    pub(crate) fn of_tables(phrases: &PhraseTable, nouns: &NounTable) -> Self {
        let mut lexicon = Lexicon {
            longest: 1,
            ..Lexicon::default()
        };
        lexicon.add_phrases(phrases);
        lexicon.add_nouns(nouns);
        lexicon
    }

    fn add(&mut self, form: &str, reading: Reading) {
        let key = normalise(form);
        let length = key.split(' ').count();
        if key.is_empty() || length > MAX_ENTRY_ATOMS {
            return;
        }
        self.longest = self.longest.max(length);
        let readings = self.entries.entry(key).or_default();
        if !readings.contains(&reading) {
            readings.push(reading);
        }
    }

    fn add_phrases(&mut self, p: &PhraseTable) {
        for (name, verb) in &p.verbs {
            let verb_reading = |alone| Reading::Verb {
                name: name.clone(),
                alone,
            };
            for form in verb.en.iter().chain(&verb.zh) {
                self.add(form, verb_reading(false));
            }
            for form in &verb.zh_alone {
                self.add(form, verb_reading(true));
            }
        }
        let single = [
            (&p.connectives, Reading::Connective),
            (&p.links, Reading::Link),
            (&p.back, Reading::Back),
            (&p.indefinite, Reading::Indefinite),
            (&p.definite, Reading::Definite),
            (&p.other, Reading::Other),
            (&p.all, Reading::All),
            (&p.vague, Reading::Vague),
            (&p.measures, Reading::Measure),
            (&p.filler, Reading::Filler),
        ];
        for (forms, reading) in single {
            for form in forms.iter() {
                self.add(form, reading.clone());
            }
        }
        for (marker, forms) in &p.prepositions {
            for form in forms.iter() {
                self.add(form, Reading::Preposition(marker.clone()));
            }
        }
        for (marker, forms) in &p.postpositions {
            for form in forms.iter() {
                self.add(form, Reading::Postposition(marker.clone()));
            }
        }
        for (pronoun, forms) in &p.pronouns {
            for form in forms.iter() {
                self.add(form, Reading::Pronoun(pronoun.clone()));
            }
        }
        for row in &p.superlatives {
            let most = Superlative {
                by: row.by,
                least: row.least,
            };
            for (forms, plain) in [(&row.words, false), (&row.plain, true)] {
                for form in forms.iter() {
                    self.add(form, Reading::Most { most, plain });
                }
            }
        }
        for (form, value) in p.numbers.en.iter().chain(&p.numbers.zh) {
            self.add(form, Reading::Number(*value));
        }
        for (form, value) in p.units.en.iter().chain(&p.units.zh) {
            self.add(form, Reading::Unit(*value));
        }
    }

    fn add_nouns(&mut self, table: &NounTable) {
        let by_english: HashMap<String, &Noun> = table
            .nouns
            .iter()
            .flat_map(|n| n.en.iter().map(move |e| (normalise(e), n)))
            .collect();
        for noun in &table.nouns {
            let names: BTreeSet<String> = noun
                .en
                .iter()
                .chain(&noun.zh)
                .map(|n| normalise(n))
                .collect();
            let wider: BTreeSet<String> = noun
                .wider
                .iter()
                .flat_map(|w| {
                    let key = normalise(w);
                    let mates: Vec<String> = by_english
                        .get(&key)
                        .map(|n| n.en.iter().chain(&n.zh).map(|x| normalise(x)).collect())
                        .unwrap_or_default();
                    mates.into_iter().chain([key])
                })
                .filter(|w| !names.contains(w))
                .collect();
            let canonical = noun.en.first().cloned().unwrap_or_default();
            for name in &names {
                self.add(name, Reading::Noun);
                let meaning = self.nouns.entry(name.clone()).or_default();
                if meaning.canonical.is_empty() {
                    meaning.canonical = canonical.clone();
                }
                meaning.names.extend(names.iter().cloned());
                if noun.generic {
                    meaning.names.extend(wider.iter().cloned());
                } else {
                    meaning.wider.extend(wider.iter().cloned());
                }
                meaning.kinds.extend(noun.kinds.iter().cloned());
            }
        }
        for attribute in &table.attributes {
            let names: BTreeSet<String> = attribute.iter().map(|n| normalise(n)).collect();
            for name in &names {
                self.add(name, Reading::Attribute);
                self.attributes
                    .entry(name.clone())
                    .or_default()
                    .extend(names.iter().cloned());
            }
        }
    }

    fn add_scene(&mut self, scene: &SceneSnapshot, vocabulary: &[String]) {
        // Kinds that a name has in the scene: they outrank the table's.
        let mut kinds: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for object in scene.live() {
            if matches!(object.kind, Kind::Robot) {
                continue;
            }
            let class = normalise(&object.class_name);
            let names = [normalise(&object.r#ref), class.clone()]
                .into_iter()
                .chain(object.aliases.iter().map(|a| normalise(a)));
            for name in names.filter(|n| !n.is_empty()) {
                kinds
                    .entry(name)
                    .or_default()
                    .insert(object.kind.name().into());
            }
            // The last word of a class of several names the broader thing: dining table is a table.
            if let Some(head) = class.rsplit(' ').next().filter(|h| *h != class) {
                if !head.is_empty() && head.is_ascii() && !self.nouns.contains_key(head) {
                    kinds
                        .entry(head.into())
                        .or_default()
                        .insert(object.kind.name().into());
                }
            }
            for value in object.attributes.values() {
                let key = normalise(value);
                if !key.is_empty() && key.parse::<f64>().is_err() {
                    self.add(&key, Reading::Attribute);
                    self.in_scene.insert(key.clone());
                    self.attributes
                        .entry(key.clone())
                        .or_default()
                        .insert(key.clone());
                }
            }
        }
        for class in vocabulary {
            let name = normalise(class);
            if !name.is_empty() && !kinds.contains_key(&name) && !self.nouns.contains_key(&name) {
                kinds.insert(name, [Kind::Object.name().to_string()].into());
            }
        }
        for (name, here) in &kinds {
            self.add(name, Reading::Noun);
            let meaning = self.nouns.entry(name.clone()).or_default();
            if meaning.canonical.is_empty() {
                let parts = if name.chars().any(is_han) { "" } else { " " };
                meaning.canonical = name.replace(' ', parts);
            }
            meaning.names.insert(name.clone());
            meaning.kinds = here.clone();
        }
        // A word of the table gets the kinds that its translations have in the scene: a box that is an
        // object here is no container.
        for (name, meaning) in &mut self.nouns {
            if kinds.contains_key(name) {
                continue;
            }
            let here: BTreeSet<String> = meaning
                .names
                .iter()
                .filter_map(|n| kinds.get(n))
                .flatten()
                .cloned()
                .collect();
            if !here.is_empty() {
                meaning.kinds = here;
            }
        }
    }

    /// Adds the name of a movable thing that neither the tables nor the scene know; it also covers what the
    /// known noun `head` names.
    pub fn add_object(&mut self, name: &str, head: Option<&str>) {
        let key = normalise(name);
        if self.nouns.contains_key(&key) {
            return;
        }
        let wider = head
            .and_then(|h| self.nouns.get(h))
            .map(|n| n.names.union(&n.wider).cloned().collect())
            .unwrap_or_default();
        self.add(&key, Reading::Noun);
        self.nouns.insert(
            key.clone(),
            NounMeaning {
                canonical: key.clone(),
                names: [key].into(),
                wider,
                kinds: [Kind::Object.name().to_string()].into(),
            },
        );
    }

    /// What a noun stands for.
    pub fn noun(&self, key: &str) -> Option<&NounMeaning> {
        self.nouns.get(key)
    }

    /// Words that mean the same attribute.
    pub fn attribute(&self, key: &str) -> Option<&BTreeSet<String>> {
        self.attributes.get(key)
    }

    /// Whether something in the scene has an attribute of this name.
    pub fn in_scene(&self, attribute: &str) -> bool {
        self.attributes
            .get(attribute)
            .is_some_and(|names| names.iter().any(|n| self.in_scene.contains(n)))
    }

    /// Every entry, for suggestions.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// The entry for some atoms: as they are, or with a plural ending removed.
    fn find(&self, key: &str) -> Option<(String, &Vec<Reading>)> {
        if let Some(readings) = self.entries.get(key) {
            return Some((key.into(), readings));
        }
        let (head, last) = match key.rsplit_once(' ') {
            Some((head, last)) => (Some(head), last),
            None => (None, key),
        };
        singulars(last).into_iter().find_map(|singular| {
            let key = match head {
                Some(head) => format!("{head} {singular}"),
                None => singular,
            };
            let readings = self.entries.get(&key)?;
            // Only things and units have plurals.
            readings
                .iter()
                .any(|r| matches!(r, Reading::Noun | Reading::Unit(_)))
                .then_some((key, readings))
        })
    }

    /// Splits a text into the fewest known words; what no entry covers becomes tokens without readings.
    pub fn tokenise(&self, text: &str) -> Vec<Token> {
        let atoms = atoms(text);
        let n = atoms.len();
        // best[i]: least cost of everything from atom i on, and how many atoms its first token takes.
        let mut best: Vec<(u64, usize)> = vec![(0, 0); n + 1];
        for i in (0..n).rev() {
            let rest = |j: usize| best.get(j).map_or(0, |b| b.0);
            let Some(atom) = atoms.get(i) else { continue };
            let mut choice = (rest(i + 1) + UNKNOWN_COST, 1);
            if atom.separator || atom.text.parse::<f64>().is_ok() {
                choice = (rest(i + 1) + 1, 1);
            }
            if !atom.separator {
                let mut key = String::new();
                for (length, part) in atoms.iter().skip(i).take(self.longest).enumerate() {
                    if part.separator {
                        break;
                    }
                    if length > 0 {
                        key.push(' ');
                    }
                    key.push_str(&part.text);
                    if self.find(&key).is_some() {
                        let cost = rest(i + length + 1) + 1;
                        // Of two equal splits the one with the longer first word.
                        if cost <= choice.0 {
                            choice = (cost, length + 1);
                        }
                    }
                }
            }
            if let Some(slot) = best.get_mut(i) {
                *slot = choice;
            }
        }
        let mut tokens: Vec<Token> = Vec::new();
        let mut i = 0;
        while let (Some(atom), Some(&(_, length))) = (atoms.get(i), best.get(i)) {
            let length = length.max(1);
            let parts: Vec<&str> = atoms
                .iter()
                .skip(i)
                .take(length)
                .map(|a| a.text.as_str())
                .collect();
            let key = parts.join(" ");
            let han = parts.iter().any(|p| p.chars().any(is_han));
            let text = parts.join(if han { "" } else { " " });
            let mut readings = Vec::new();
            let mut name = key.clone();
            if let (false, Some((found, known))) = (atom.separator, self.find(&key)) {
                name = found;
                readings = known.clone();
            }
            if let (1, Ok(number)) = (length, key.parse::<f64>()) {
                if number.is_finite() {
                    readings.push(Reading::Number(number));
                }
            }
            let unknown = readings.is_empty() && !atom.separator;
            // Unknown Chinese characters side by side are shown as one word.
            match tokens.last_mut() {
                Some(last)
                    if unknown
                        && han
                        && last.readings.is_empty()
                        && !last.separator
                        && last.text.chars().all(is_han) =>
                {
                    last.text.push_str(&text);
                    last.key.push(' ');
                    last.key.push_str(&key);
                }
                Some(_) | None => tokens.push(Token {
                    text,
                    key: name,
                    readings,
                    separator: atom.separator,
                }),
            }
            i += length;
        }
        tokens
    }
}

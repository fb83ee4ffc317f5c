//! Every word that can stand in an instruction, with all that it can mean: the tables' words and the
//! names that the scene brings. Splits a text into the fewest known words.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use eh_contract::scene::{Kind, SceneSnapshot};

use crate::phrase_table::Tables;
use crate::planner::Language;

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

#[derive(Clone, Debug)]
struct Atom {
    text: String,
    separator: bool,
}

/// All words of one task.
#[derive(Clone, Debug)]
pub struct Lexicon {
    entries: HashMap<String, Vec<Reading>>,
    nouns: BTreeMap<String, NounMeaning>,
    attributes: BTreeMap<String, BTreeSet<String>>,
    longest: usize,
}

fn is_han(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{323AF}' | '〇')
}

/// Full-width letters, digits and punctuation as their usual forms.
fn narrow(c: char) -> char {
    match c {
        '\u{FF01}'..='\u{FF5E}' => char::from_u32(u32::from(c) - 0xFEE0).unwrap_or(c),
        '\u{3000}' => ' ',
        '’' | '‘' | 'ʼ' => '\'',
        _ => c,
    }
}

/// The language of a text: Chinese when it has a Chinese character.
pub fn language_of(text: &str) -> Language {
    if text.chars().any(is_han) {
        Language::Zh
    } else {
        Language::En
    }
}

fn atoms(text: &str) -> Vec<Atom> {
    #[derive(PartialEq, Clone, Copy)]
    enum Class {
        Letter,
        Digit,
    }
    let chars: Vec<char> = text.chars().map(narrow).collect();
    let mut out = Vec::new();
    let mut run = String::new();
    let mut class = None;
    let flush = |run: &mut String, out: &mut Vec<Atom>| {
        if !run.is_empty() {
            out.push(Atom {
                text: std::mem::take(run),
                separator: false,
            });
        }
    };
    for (i, &c) in chars.iter().enumerate() {
        let next = chars.get(i + 1).copied();
        if is_han(c) {
            flush(&mut run, &mut out);
            class = None;
            out.push(Atom {
                text: c.to_string(),
                separator: false,
            });
        } else if c.is_ascii_digit()
            || (c == '.' && class == Some(Class::Digit) && next.is_some_and(|n| n.is_ascii_digit()))
        {
            if class != Some(Class::Digit) {
                flush(&mut run, &mut out);
            }
            class = Some(Class::Digit);
            run.push(c);
        } else if c.is_alphanumeric()
            || (c == '\'' && !run.is_empty() && next.is_some_and(char::is_alphanumeric))
        {
            if class != Some(Class::Letter) {
                flush(&mut run, &mut out);
            }
            class = Some(Class::Letter);
            run.extend(c.to_lowercase());
        } else {
            flush(&mut run, &mut out);
            class = None;
            let separator = matches!(
                c,
                ',' | '.'
                    | ';'
                    | '!'
                    | '?'
                    | ':'
                    | '\n'
                    | '，'
                    | '。'
                    | '；'
                    | '！'
                    | '？'
                    | '、'
                    | '：'
                    | '&'
                    | '+'
            );
            // Hyphens, underscores, quotes and brackets only part words; other signs are words that
            // nobody knows.
            let silent = c.is_whitespace()
                || c.is_control()
                || matches!(
                    c,
                    '-' | '_'
                        | '"'
                        | '\''
                        | '('
                        | ')'
                        | '“'
                        | '”'
                        | '《'
                        | '》'
                        | '「'
                        | '」'
                        | '['
                        | ']'
                        | '~'
                        | '～'
                        | '–'
                        | '—'
                        | '…'
                        | '\u{FEFF}'
                        | '\u{200B}'
                );
            if separator {
                out.push(Atom {
                    text: c.to_string(),
                    separator: true,
                });
            } else if !silent {
                out.push(Atom {
                    text: c.to_string(),
                    separator: false,
                });
            }
        }
    }
    flush(&mut run, &mut out);
    out
}

/// The form in which words are compared: atoms in lower case, joined by spaces.
pub fn normalise(text: &str) -> String {
    atoms(text)
        .into_iter()
        .filter(|a| !a.separator)
        .map(|a| a.text)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Singular forms that an English plural may have.
fn singulars(word: &str) -> Vec<String> {
    let mut out = Vec::new();
    if word.len() < 4 || !word.is_ascii() {
        return out;
    }
    if let Some(stem) = word.strip_suffix("ies") {
        out.push(format!("{stem}y"));
    }
    if let Some(stem) = word.strip_suffix("ves") {
        out.push(format!("{stem}fe"));
        out.push(format!("{stem}f"));
    }
    if let Some(stem) = word.strip_suffix("es") {
        out.push(stem.into());
    }
    if let Some(stem) = word.strip_suffix('s') {
        out.push(stem.into());
    }
    if let Some(stem) = word.strip_suffix("'s") {
        out.push(stem.into());
    }
    out
}

impl Lexicon {
    /// Collects the words of the tables, of the scene and of what perception knows.
    pub fn new(tables: &Tables, scene: &SceneSnapshot, vocabulary: &[String]) -> Self {
        let mut lexicon = Lexicon {
            entries: HashMap::new(),
            nouns: BTreeMap::new(),
            attributes: BTreeMap::new(),
            longest: 1,
        };
        lexicon.add_phrases(tables);
        lexicon.add_nouns(tables);
        lexicon.add_scene(scene, vocabulary);
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

    fn add_phrases(&mut self, tables: &Tables) {
        let p = &tables.phrases;
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
        for (form, value) in p.numbers.en.iter().chain(&p.numbers.zh) {
            self.add(form, Reading::Number(*value));
        }
        for (form, value) in p.units.en.iter().chain(&p.units.zh) {
            self.add(form, Reading::Unit(*value));
        }
    }

    fn add_nouns(&mut self, tables: &Tables) {
        let by_english: HashMap<String, &crate::phrase_table::Noun> = tables
            .nouns
            .nouns
            .iter()
            .flat_map(|n| n.en.iter().map(move |e| (normalise(e), n)))
            .collect();
        for noun in &tables.nouns.nouns {
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
        for attribute in &tables.nouns.attributes {
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
                meaning.canonical = name.clone();
            }
            meaning.names.insert(name.clone());
            meaning.kinds = here.clone();
        }
        // A word of the table gets the kinds that its translations have in the scene: a box that is an
        // object here is no container.
        for meaning in self.nouns.values_mut() {
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

//! Text as it is compared: pieces of letters, digits and single Chinese characters.

use crate::planner::Language;

#[derive(Clone, Debug)]
pub(crate) struct Atom {
    pub text: String,
    pub separator: bool,
}

pub(crate) fn is_han(c: char) -> bool {
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

pub(crate) fn atoms(text: &str) -> Vec<Atom> {
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
pub(crate) fn singulars(word: &str) -> Vec<String> {
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

//! Rules for names of tasks, commands, runs and scene objects.

use thiserror::Error;

/// Longest id in characters; it has to fit into logs, file names and URLs.
pub const MAX_ID_LEN: usize = 64;

/// Why a name is not usable as an id.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IdError {
    /// It is empty.
    #[error("{what} is empty; give it 1 to {MAX_ID_LEN} characters of A-Z a-z 0-9 _ . -")]
    Empty {
        /// Which field.
        what: String,
    },
    /// It is too long.
    #[error("{what} has {len} characters, the limit is {MAX_ID_LEN}; shorten it")]
    TooLong {
        /// Which field.
        what: String,
        /// Its length.
        len: usize,
    },
    /// It has a character that is not allowed.
    #[error("{what} \"{value}\" contains {found:?}; allowed are A-Z a-z 0-9 _ . -")]
    BadCharacter {
        /// Which field.
        what: String,
        /// The whole value.
        value: String,
        /// The first character that is not allowed.
        found: char,
    },
}

/// Checks a name; `what` is the field's name for the error.
///
/// # Errors
/// [`IdError`] when it is empty, longer than [`MAX_ID_LEN`] or has a character outside `A-Za-z0-9_.-`.
pub fn check_id(what: &str, value: &str) -> Result<(), IdError> {
    if value.is_empty() {
        return Err(IdError::Empty { what: what.into() });
    }
    let len = value.chars().count();
    if len > MAX_ID_LEN {
        return Err(IdError::TooLong {
            what: what.into(),
            len,
        });
    }
    match value
        .chars()
        .find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')))
    {
        Some(found) => Err(IdError::BadCharacter {
            what: what.into(),
            value: value.into(),
            found,
        }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_names_pass_and_odd_ones_say_why() {
        assert!(check_id("task_id", "fetch-cup_1.2").is_ok());
        assert!(matches!(check_id("x", ""), Err(IdError::Empty { .. })));
        assert!(matches!(
            check_id("x", &"a".repeat(65)),
            Err(IdError::TooLong { len: 65, .. })
        ));
        assert!(matches!(
            check_id("x", "a b"),
            Err(IdError::BadCharacter { found: ' ', .. })
        ));
        assert!(check_id("x", "杯子").is_err());
    }
}

//! Parameters: declared with range, unit and description; read once, when the node starts.
//!
//! They are read-only, since a live change of most of them has never been tried. A parameter file must
//! not give an empty list (`[]`): rclrs 0.8 panics on it; leave the parameter out instead.

use std::ops::RangeInclusive;
use std::sync::Arc;

use rclrs::{Node, ParameterRange};

/// A parameter cannot be used as it is.
#[derive(Debug, thiserror::Error)]
pub enum ParameterError {
    /// It could not be declared: wrong type, out of range, or declared twice.
    #[error("parameter '{name}' cannot be used: {reason}; correct it in the parameter file")]
    Declaration {
        /// Name of the parameter.
        name: String,
        /// What ROS says.
        reason: String,
    },
    /// A number is not finite.
    #[error("parameter '{name}' is {value}, but has to be a finite number in {unit}")]
    NotFinite {
        /// Name of the parameter.
        name: String,
        /// The value.
        value: f64,
        /// Unit of the parameter.
        unit: String,
    },
    /// A text is not one of those that are allowed.
    #[error("parameter '{name}' is '{value}', but has to be one of: {allowed}")]
    NotAllowed {
        /// Name of the parameter.
        name: String,
        /// The value.
        value: String,
        /// The allowed values, separated by commas.
        allowed: String,
    },
}

fn declaration(name: &str, error: impl std::fmt::Display) -> ParameterError {
    ParameterError::Declaration {
        name: name.into(),
        reason: error.to_string(),
    }
}

/// Declares a number in the given range, both ends included. The unit becomes part of the description.
///
/// # Errors
///
/// [`ParameterError`] if the given value is no number, not finite or out of range.
pub fn number(
    node: &Node,
    name: &str,
    default: f64,
    range: RangeInclusive<f64>,
    unit: &str,
    description: &str,
) -> Result<f64, ParameterError> {
    let value = node
        .declare_parameter(Arc::<str>::from(name))
        .default(default)
        .range(ParameterRange {
            lower: Some(*range.start()),
            upper: Some(*range.end()),
            step: None,
        })
        .description(format!("{description} [{unit}]"))
        .read_only()
        .map_err(|error| declaration(name, format!("{error} (range {range:?} {unit})")))?
        .get();
    // A comparison with NaN is never true, so a range lets it through.
    if !value.is_finite() {
        return Err(ParameterError::NotFinite {
            name: name.into(),
            value,
            unit: unit.into(),
        });
    }
    Ok(value)
}

/// Declares an integer in the given range, both ends included.
///
/// # Errors
///
/// [`ParameterError`] if the given value is no integer or out of range.
pub fn integer(
    node: &Node,
    name: &str,
    default: i64,
    range: RangeInclusive<i64>,
    unit: &str,
    description: &str,
) -> Result<i64, ParameterError> {
    Ok(node
        .declare_parameter(Arc::<str>::from(name))
        .default(default)
        .range(ParameterRange {
            lower: Some(*range.start()),
            upper: Some(*range.end()),
            step: None,
        })
        .description(format!("{description} [{unit}]"))
        .read_only()
        .map_err(|error| declaration(name, format!("{error} (range {range:?} {unit})")))?
        .get())
}

/// Declares a yes or no.
///
/// # Errors
///
/// [`ParameterError`] if the given value is neither.
pub fn flag(
    node: &Node,
    name: &str,
    default: bool,
    description: &str,
) -> Result<bool, ParameterError> {
    Ok(node
        .declare_parameter(Arc::<str>::from(name))
        .default(default)
        .description(description)
        .read_only()
        .map_err(|error| declaration(name, error))?
        .get())
}

/// Declares a text.
///
/// # Errors
///
/// [`ParameterError`] if the given value is no text.
pub fn text(
    node: &Node,
    name: &str,
    default: &str,
    description: &str,
) -> Result<String, ParameterError> {
    Ok(node
        .declare_parameter(Arc::<str>::from(name))
        .default(Arc::<str>::from(default))
        .description(description)
        .read_only()
        .map_err(|error| declaration(name, error))?
        .get()
        .to_string())
}

/// Declares a text that has to be one of the allowed ones.
///
/// # Errors
///
/// [`ParameterError`] if it is none of them.
pub fn choice(
    node: &Node,
    name: &str,
    default: &str,
    allowed: &[&str],
    description: &str,
) -> Result<String, ParameterError> {
    let value = text(
        node,
        name,
        default,
        &format!("{description} One of: {}", allowed.join(", ")),
    )?;
    if allowed.contains(&value.as_str()) {
        return Ok(value);
    }
    Err(ParameterError::NotAllowed {
        name: name.into(),
        value,
        allowed: allowed.join(", "),
    })
}

/// Declares a list of texts.
///
/// # Errors
///
/// [`ParameterError`] if the given value is no list of texts.
pub fn texts(
    node: &Node,
    name: &str,
    default: &[&str],
    description: &str,
) -> Result<Vec<String>, ParameterError> {
    let default: Arc<[Arc<str>]> = default.iter().map(|text| Arc::from(*text)).collect();
    Ok(node
        .declare_parameter::<Arc<[Arc<str>]>>(Arc::<str>::from(name))
        .default(default)
        .description(description)
        .read_only()
        .map_err(|error| declaration(name, error))?
        .get()
        .iter()
        .map(|text| text.to_string())
        .collect())
}

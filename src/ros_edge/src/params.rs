//! Parameters: declared with range, unit and description.
//!
//! They are read once, when the node starts, and read-only then; [`live_number`] makes the exceptions. A
//! parameter file must not give an empty list (`[]`): rclrs 0.8 panics on it; leave the parameter out instead.

use std::ops::RangeInclusive;
use std::sync::Arc;

use rclrs::{MandatoryParameter, Node, ParameterRange, ParameterVariant, ReadOnlyParameter};

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

fn described(text: &str, unit: &str) -> String {
    match unit {
        "" | "1" => text.to_owned(),
        _ => format!("{text} [{unit}]"),
    }
}

/// The value of a parameter that stays declared as long as its node lives.
fn keep<T: ParameterVariant>(parameter: ReadOnlyParameter<T>) -> T {
    let value = parameter.get();
    // Dropping it takes the declaration back: `ros2 param list` would show nothing. Only its name and value
    // are leaked, once for each parameter of a process.
    std::mem::forget(parameter);
    value
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
    let declared = node
        .declare_parameter(Arc::<str>::from(name))
        .default(default)
        .range(ParameterRange {
            lower: Some(*range.start()),
            upper: Some(*range.end()),
            step: None,
        })
        .description(described(description, unit))
        .read_only()
        .map_err(|error| declaration(name, format!("{error} (range {range:?} {unit})")))?;
    let value = keep(declared);
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

/// Declares a number that may be changed while the node runs.
///
/// `accept` looks at each value before it is taken, the first one too, and refuses it with a reason that
/// `ros2 param set` shows. Whoever wants to hear of changes calls [`MandatoryParameter::on_change`]. The
/// parameter stays declared as long as what is returned lives.
///
/// # Errors
///
/// [`ParameterError`] if the given value is no number, not finite, out of range or not accepted.
pub fn live_number(
    node: &Node,
    name: &str,
    default: f64,
    range: RangeInclusive<f64>,
    unit: &str,
    description: &str,
    accept: impl Fn(f64) -> Result<(), String> + Send + Sync + 'static,
) -> Result<MandatoryParameter<f64>, ParameterError> {
    let unit_of_refusal = unit.to_owned();
    node.declare_parameter(Arc::<str>::from(name))
        .default(default)
        .range(ParameterRange {
            lower: Some(*range.start()),
            upper: Some(*range.end()),
            step: None,
        })
        .description(described(
            &format!("{description} May be changed while the node runs."),
            unit,
        ))
        .validate(move |value: &f64| {
            if value.is_finite() {
                accept(*value)
            } else {
                Err(format!(
                    "it is {value}, but has to be a finite number in {unit_of_refusal}"
                ))
            }
        })
        .mandatory()
        .map_err(|error| declaration(name, format!("{error} (range {range:?} {unit})")))
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
    let declared = node
        .declare_parameter(Arc::<str>::from(name))
        .default(default)
        .range(ParameterRange {
            lower: Some(*range.start()),
            upper: Some(*range.end()),
            step: None,
        })
        .description(described(description, unit))
        .read_only()
        .map_err(|error| declaration(name, format!("{error} (range {range:?} {unit})")))?;
    Ok(keep(declared))
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
    let declared = node
        .declare_parameter(Arc::<str>::from(name))
        .default(default)
        .description(description)
        .read_only()
        .map_err(|error| declaration(name, error))?;
    Ok(keep(declared))
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
    let declared = node
        .declare_parameter(Arc::<str>::from(name))
        .default(Arc::<str>::from(default))
        .description(description)
        .read_only()
        .map_err(|error| declaration(name, error))?;
    Ok(keep(declared).to_string())
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
    let declared = node
        .declare_parameter::<Arc<[Arc<str>]>>(Arc::<str>::from(name))
        .default(default)
        .description(description)
        .read_only()
        .map_err(|error| declaration(name, error))?;
    Ok(keep(declared).iter().map(|text| text.to_string()).collect())
}

/// Declares a list of numbers.
///
/// # Errors
///
/// [`ParameterError`] if the given value is no list of numbers, or one is not finite.
pub fn numbers(
    node: &Node,
    name: &str,
    default: &[f64],
    unit: &str,
    description: &str,
) -> Result<Vec<f64>, ParameterError> {
    let declared = node
        .declare_parameter::<Arc<[f64]>>(Arc::<str>::from(name))
        .default(Arc::from(default))
        .description(described(description, unit))
        .read_only()
        .map_err(|error| declaration(name, error))?;
    let values = keep(declared);
    if let Some(value) = values.iter().find(|value| !value.is_finite()) {
        return Err(ParameterError::NotFinite {
            name: name.into(),
            value: *value,
            unit: unit.into(),
        });
    }
    Ok(values.to_vec())
}

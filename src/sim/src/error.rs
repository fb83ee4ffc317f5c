//! What the simulator refuses, and why.

use thiserror::Error;

use eh_contract::semantic_map::SemanticMapError;

/// Why a world file or a call was refused. Nothing moves after a refusal.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum SimError {
    /// The text is no YAML of the expected shape.
    #[error("the world file can't be read: {0}; correct the file at the place it names")]
    Syntax(String),
    /// The rooms, doors or furniture are wrong.
    #[error(transparent)]
    Map(#[from] SemanticMapError),
    /// An entry of the world file is wrong.
    #[error("{section} '{id}': {problem}")]
    BadEntry {
        /// The section of the file.
        section: &'static str,
        /// The id of the entry, or the name of its field.
        id: String,
        /// What is wrong, with the value and the limit.
        problem: String,
    },
    /// A number of a call is NaN or infinite.
    #[error("{what} is not finite ({value}); send finite numbers")]
    NotFinite {
        /// What the number is.
        what: &'static str,
        /// The number.
        value: f64,
    },
    /// A number of a call is out of its range.
    #[error("{what} is {value}; it must lie in {low} … {high}")]
    OutOfRange {
        /// What the number is, with its unit.
        what: &'static str,
        /// The number.
        value: f64,
        /// The smallest that is allowed.
        low: f64,
        /// The largest that is allowed.
        high: f64,
    },
    /// A frame is not known.
    #[error("the frame '{frame}' is unknown; use one of: {known}")]
    UnknownFrame {
        /// The frame asked for.
        frame: String,
        /// The frames that exist.
        known: String,
    },
    /// No fault has that name.
    #[error("there is no fault '{name}'; use one of: {known}")]
    UnknownFault {
        /// The name.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// A fault lacks a parameter, or has a bad one.
    #[error("the fault {fault} {problem}")]
    BadFault {
        /// The fault.
        fault: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// A thing of the world is not known.
    #[error("the world has no {what} '{id}'")]
    Unknown {
        /// Its kind.
        what: &'static str,
        /// Its id.
        id: String,
    },
    /// No joint has that name.
    #[error("there is no joint '{joint}' here; use: {known}")]
    UnknownJoint {
        /// The name asked for.
        joint: String,
        /// The names that exist.
        known: String,
    },
}

/// The number, if it is finite.
pub(crate) fn finite(what: &'static str, value: f64) -> Result<f64, SimError> {
    if value.is_finite() {
        Ok(value)
    } else {
        Err(SimError::NotFinite { what, value })
    }
}

/// The number, if it is finite and within the limits.
pub(crate) fn within(what: &'static str, value: f64, low: f64, high: f64) -> Result<f64, SimError> {
    finite(what, value)?;
    if (low..=high).contains(&value) {
        Ok(value)
    } else {
        Err(SimError::OutOfRange {
            what,
            value,
            low,
            high,
        })
    }
}

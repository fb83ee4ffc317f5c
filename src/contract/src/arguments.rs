//! Arguments of skills and the JSON Schema that they have to satisfy.
//!
//! Standard JSON Schema (draft 2020-12) with three keywords of our own, which validators ignore:
//! `x-unit` (an SI unit), `x-frame` (a frame), `x-ref` (kinds of scene object that the string may name).

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use thiserror::Error;

use crate::scene::Kind;

/// Longest arguments in bytes of JSON.
pub const MAX_ARGUMENTS_LEN: usize = 16 * 1024;

/// A compiled schema of a skill's arguments.
#[derive(Debug)]
pub struct ArgumentSchema {
    validator: jsonschema::Validator,
    schema: Value,
}

impl ArgumentSchema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// [`ArgumentError::BadSchema`] when it is no valid schema of an object with `properties`.
    pub fn new(schema: &Value) -> Result<Self, ArgumentError> {
        let bad = |reason: String| ArgumentError::BadSchema { reason };
        if schema.get("type").and_then(Value::as_str) != Some("object") {
            return Err(bad("its \"type\" must be \"object\"".into()));
        }
        if !schema.get("properties").is_some_and(Value::is_object) {
            return Err(bad(
                "it has no \"properties\"; give an empty object for a skill without arguments"
                    .into(),
            ));
        }
        let validator = jsonschema::options()
            .build(schema)
            .map_err(|e| bad(e.to_string()))?;
        Ok(ArgumentSchema {
            validator,
            schema: schema.clone(),
        })
    }

    fn property_map(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.schema
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
    }

    /// Names of the arguments.
    pub fn properties(&self) -> BTreeSet<&str> {
        self.property_map().map(|(name, _)| name.as_str()).collect()
    }

    /// Names of the arguments that must be given.
    pub fn required(&self) -> BTreeSet<&str> {
        self.schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect()
    }

    /// Arguments that name scene objects, each with the kinds that it may name.
    pub fn refs(&self) -> Vec<(&str, Vec<Kind>)> {
        self.property_map()
            .filter_map(|(name, property)| {
                let kinds = property.get("x-ref")?.as_array()?;
                let kinds = kinds
                    .iter()
                    .filter_map(|k| Kind::from_name(k.as_str()?))
                    .collect();
                Some((name.as_str(), kinds))
            })
            .collect()
    }

    /// Reads and checks arguments, and fills in the defaults of the schema.
    ///
    /// # Errors
    /// [`ArgumentError`] that names the argument, its value and the limit.
    pub fn check(&self, arguments: &Value) -> Result<Map<String, Value>, ArgumentError> {
        let Value::Object(given) = arguments else {
            return Err(ArgumentError::NotAnObject);
        };
        let mut filled = given.clone();
        for (name, property) in self.property_map() {
            if let (false, Some(default)) = (filled.contains_key(name), property.get("default")) {
                filled.insert(name.clone(), default.clone());
            }
        }
        let instance = Value::Object(filled);
        if let Some(error) = self.validator.iter_errors(&instance).next() {
            let place = error.instance_path().to_string();
            return Err(ArgumentError::Refused {
                place: if place.is_empty() {
                    "the arguments".into()
                } else {
                    place
                },
                reason: error.to_string(),
                expected: self.properties().into_iter().collect::<Vec<_>>().join(", "),
            });
        }
        match instance {
            Value::Object(map) => Ok(map),
            _ => Err(ArgumentError::NotAnObject),
        }
    }

    /// Reads arguments from JSON text and checks them.
    ///
    /// # Errors
    /// As [`ArgumentSchema::check`], and when the text is no JSON or too long.
    pub fn parse(&self, text: &str) -> Result<Map<String, Value>, ArgumentError> {
        if text.len() > MAX_ARGUMENTS_LEN {
            return Err(ArgumentError::TooLong { len: text.len() });
        }
        let text = if text.trim().is_empty() { "{}" } else { text };
        let value = serde_json::from_str(text).map_err(|e| ArgumentError::NotJson {
            reason: e.to_string(),
        })?;
        self.check(&value)
    }
}

/// Why arguments are refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ArgumentError {
    /// The schema itself is wrong.
    #[error("the schema is not usable: {reason}")]
    BadSchema {
        /// Why.
        reason: String,
    },
    /// Not JSON.
    #[error("the arguments are not valid JSON ({reason})")]
    NotJson {
        /// The parser's words.
        reason: String,
    },
    /// Too long.
    #[error("the arguments have {len} bytes, the limit is {MAX_ARGUMENTS_LEN}")]
    TooLong {
        /// Their length.
        len: usize,
    },
    /// Not an object.
    #[error("the arguments are no JSON object; write them as {{\"name\": value}}")]
    NotAnObject,
    /// The schema refuses them.
    #[error("{place}: {reason}; the arguments of this skill are: {expected}")]
    Refused {
        /// Where.
        place: String,
        /// The validator's words, with value and limit.
        reason: String,
        /// Names of the arguments.
        expected: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> ArgumentSchema {
        ArgumentSchema::new(&json!({
            "type": "object",
            "properties": {
                "object": {"type": "string", "x-ref": ["object"]},
                "speed": {"type": "number", "minimum": 0.0, "maximum": 0.5, "default": 0.2, "x-unit": "m/s"}
            },
            "required": ["object"],
            "additionalProperties": false
        }))
        .unwrap()
    }

    #[test]
    fn defaults_are_filled_and_refs_are_known() {
        let args = schema().parse(r#"{"object": "cup_1"}"#).unwrap();
        assert_eq!(args["speed"], json!(0.2));
        assert_eq!(schema().refs(), vec![("object", vec![Kind::Object])]);
    }

    #[test]
    fn refusals_carry_value_and_limit() {
        let err = schema()
            .parse(r#"{"object": "cup_1", "speed": 7}"#)
            .unwrap_err()
            .to_string();
        assert!(
            err.contains('7') && err.contains("0.5") && err.contains("speed"),
            "{err}"
        );
        let err = schema().parse(r#"{"speed": 0.1}"#).unwrap_err().to_string();
        assert!(err.contains("object"), "{err}");
        assert!(schema().parse(r#"{"object": "cup_1", "x": 1}"#).is_err());
        assert!(matches!(
            schema().parse("[]"),
            Err(ArgumentError::NotAnObject)
        ));
        assert!(matches!(
            schema().parse("{"),
            Err(ArgumentError::NotJson { .. })
        ));
        assert!(matches!(
            schema().parse(&" ".repeat(20_000)),
            Err(ArgumentError::TooLong { .. })
        ));
    }

    #[test]
    fn a_schema_that_is_none_is_refused() {
        assert!(ArgumentSchema::new(&json!({"type": "string"})).is_err());
        assert!(
            ArgumentSchema::new(&json!({"type": "object", "properties": {"a": {"type": 7}}}))
                .is_err()
        );
    }
}

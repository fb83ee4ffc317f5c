//! What the body can do, and whether that is enough for a skill.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thiserror::Error;

/// Key of the gripper's largest width \[m\], against which objects to be held are checked.
pub const GRIPPER_MAX_WIDTH: &str = "gripper_max_width";

/// What the body can do: names as in the `embodiment` of descriptors, for example
/// `{"mobile_base": true, "reach": 0.85, "payload": 1.0, "gripper": "parallel"}`. Numbers are the most
/// that it can do, in SI units; texts and truth values are what it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Embodiment(Map<String, Value>);

/// Why a body is not enough.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum EmbodimentError {
    /// The text is no JSON object.
    #[error("the embodiment is no JSON object ({reason}); write it as {{\"reach\": 0.85, \"gripper\": \"parallel\"}}")]
    NotAnObject {
        /// The parser's words.
        reason: String,
    },
    /// The body has too little of it.
    #[error("it needs {name} = {wanted}, this robot has {found}; the parameters embodiment.* say what the robot has")]
    TooLittle {
        /// What.
        name: String,
        /// Demand of the skill.
        wanted: Value,
        /// What the robot has.
        found: Value,
    },
    /// The body does not say.
    #[error("it needs {name} = {wanted}, and the parameters embodiment.* do not say whether this robot has it")]
    NotSaid {
        /// What.
        name: String,
        /// Demand of the skill.
        wanted: Value,
    },
    /// The object does not fit into the gripper.
    #[error(
        "{object} is {width:.3} m wide where it is narrowest, the gripper opens to {opening:.3} m"
    )]
    TooWide {
        /// Ref.
        object: String,
        /// Its narrowest horizontal edge \[m\].
        width: f64,
        /// The gripper's largest width \[m\].
        opening: f64,
    },
}

impl Embodiment {
    /// Adds what the body has; a name that is there already gets the new value.
    pub fn set(&mut self, name: &str, value: Value) {
        self.0.insert(name.into(), value);
    }

    /// Reads a profile from JSON text.
    ///
    /// # Errors
    /// [`EmbodimentError::NotAnObject`].
    pub fn parse(text: &str) -> Result<Self, EmbodimentError> {
        serde_json::from_str(text)
            .map(Embodiment)
            .map_err(|e| EmbodimentError::NotAnObject {
                reason: e.to_string(),
            })
    }

    /// Checks the demands of a skill, as in its descriptor.
    ///
    /// # Errors
    /// [`EmbodimentError`] for the first demand that is not met or of which the profile says nothing.
    pub fn check(&self, demands: &Value) -> Result<(), EmbodimentError> {
        let Some(demands) = demands.as_object() else {
            return Ok(());
        };
        for (name, wanted) in demands {
            let Some(found) = self.0.get(name) else {
                return Err(EmbodimentError::NotSaid {
                    name: name.clone(),
                    wanted: wanted.clone(),
                });
            };
            let enough = match (wanted.as_f64(), found.as_f64()) {
                (Some(wanted), Some(found)) => found >= wanted,
                _ => wanted == found,
            };
            if !enough {
                return Err(EmbodimentError::TooLittle {
                    name: name.clone(),
                    wanted: wanted.clone(),
                    found: found.clone(),
                });
            }
        }
        Ok(())
    }

    /// Checks that an object with these horizontal edges \[m\] fits between the fingers. Edges that are not
    /// known (zero) pass, and so does everything where the profile gives no opening.
    ///
    /// # Errors
    /// [`EmbodimentError::TooWide`].
    pub fn check_grasp(&self, object: &str, x: f64, y: f64) -> Result<(), EmbodimentError> {
        let Some(opening) = self.0.get(GRIPPER_MAX_WIDTH).and_then(Value::as_f64) else {
            return Ok(());
        };
        let width = x.min(y);
        if width > opening {
            return Err(EmbodimentError::TooWide {
                object: object.into(),
                width,
                opening,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn body() -> Embodiment {
        Embodiment::parse(
            r#"{"mobile_base": true, "reach": 0.8, "gripper": "parallel", "gripper_max_width": 0.1}"#,
        )
        .unwrap()
    }

    #[test]
    fn demands_are_met_or_named() {
        assert!(body()
            .check(&json!({"reach": 0.6, "gripper": "parallel", "mobile_base": true}))
            .is_ok());
        assert!(body().check(&Value::Null).is_ok());
        let error = body().check(&json!({"reach": 0.9})).unwrap_err();
        assert!(matches!(error, EmbodimentError::TooLittle { .. }));
        assert!(error.to_string().contains("0.9") && error.to_string().contains("0.8"));
        assert!(body().check(&json!({"gripper": "suction"})).is_err());
        // Default closed: what the profile does not say, the robot does not have.
        assert!(matches!(
            body().check(&json!({"payload": 0.1})),
            Err(EmbodimentError::NotSaid { .. })
        ));
        assert!(Embodiment::parse("[]").is_err());
    }

    #[test]
    fn what_is_too_wide_is_not_grasped() {
        assert!(body().check_grasp("cup_1", 0.08, 0.3).is_ok());
        assert!(body().check_grasp("box_1", 0.2, 0.11).is_err());
        assert!(body().check_grasp("thing_1", 0.0, 0.0).is_ok());
        assert!(Embodiment::default().check_grasp("box_1", 0.2, 0.2).is_ok());
    }
}

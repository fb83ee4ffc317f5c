//! What a skill is, needs, promises and claims.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use crate::arguments::{ArgumentError, ArgumentSchema};
use crate::condition::{ConditionError, Effects, Template};
use crate::id::{check_id, IdError};

/// What a running execution does when the control lease expires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DisconnectPolicy {
    /// Runs to its end.
    Finish,
    /// Holds its position and keeps its resources.
    Hold,
    /// Stops; the default, because it assumes nothing about the skill.
    #[default]
    Stop,
}

/// Whether the robot can undo what the skill does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// It can.
    Reversible,
    /// It can't, or nobody said.
    #[default]
    Irreversible,
}

/// One way in which a skill is known to fail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailureMode {
    /// error_code of the executor's result; 0 for one that only a verdict shows.
    pub error_code: u16,
    /// snake_case name.
    pub name: String,
    /// What happened and what can be done.
    pub description: String,
    /// True when another attempt can succeed.
    pub recoverable: bool,
}

/// A skill's contract; field by field in `msg/SkillDescriptor.msg`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SkillDescriptor {
    /// snake_case name.
    pub name: String,
    /// Semantic version.
    pub version: String,
    /// What it does and when to use it.
    pub description: String,
    /// Name of the ExecuteSkill action that runs it.
    pub action_name: String,
    /// JSON Schema of the arguments.
    pub arguments_schema: Value,
    /// Must hold before the start.
    #[serde(default)]
    pub preconditions: Template,
    /// Changes of the world.
    #[serde(default)]
    pub effects: Effects,
    /// Post-condition for people.
    #[serde(default)]
    pub postcondition_text: String,
    /// Post-condition in the predicate language.
    #[serde(default)]
    pub postcondition: Template,
    /// What progress means.
    #[serde(default)]
    pub progress_meaning: String,
    /// Least progress of a healthy run \[1/s\]; zero: not watched.
    #[serde(default)]
    pub progress_rate: f64,
    /// Known failures.
    #[serde(default)]
    pub failure_modes: Vec<FailureMode>,
    /// Resources held from the start until settled.
    #[serde(default)]
    pub resources: Vec<String>,
    /// Permission needed; empty for none.
    #[serde(default)]
    pub permission: String,
    /// Whether it can be undone.
    #[serde(default)]
    pub risk: Risk,
    /// Whether a run must be judged.
    pub evaluated: bool,
    /// Whether it runs in segments.
    #[serde(default)]
    pub segmented: bool,
    /// Most segments; zero where not segmented.
    #[serde(default)]
    pub max_segments: u32,
    /// Typical time of a run \[s\].
    pub nominal_duration: f64,
    /// Longest time of a run \[s\].
    pub maximum_duration: f64,
    /// Demands on the body.
    #[serde(default)]
    pub embodiment: Value,
    /// What happens when the lease expires.
    #[serde(default)]
    pub disconnect_policy: DisconnectPolicy,
    /// Foreign actions used.
    #[serde(default)]
    pub foreign_actions: Vec<String>,
}

impl SkillDescriptor {
    /// The longest time of a run.
    pub fn maximum_duration(&self) -> Duration {
        Duration::try_from_secs_f64(self.maximum_duration).unwrap_or(Duration::ZERO)
    }

    /// Checks that the descriptor can be used: names, schema, placeholders, times.
    ///
    /// # Errors
    /// [`DescriptorError`] that names the skill and the field.
    pub fn check(&self) -> Result<(), DescriptorError> {
        let fail = |field: &'static str, reason: String| DescriptorError::Field {
            skill: self.name.clone(),
            field,
            reason,
        };
        check_id("skill name", &self.name)?;
        if self.action_name.is_empty() {
            return Err(fail(
                "action_name",
                "it is empty; name the ExecuteSkill action that runs the skill".into(),
            ));
        }
        let schema = ArgumentSchema::new(&self.arguments_schema).map_err(|source| {
            DescriptorError::Schema {
                skill: self.name.clone(),
                source,
            }
        })?;
        let known = schema.properties();
        let templates = [
            ("preconditions", vec![&self.preconditions]),
            ("postcondition", vec![&self.postcondition]),
            ("effects.add", self.effects.add.iter().collect()),
            ("effects.remove", self.effects.remove.iter().collect()),
        ];
        for (field, list) in templates {
            for template in list {
                if let Some(name) = template
                    .placeholders()
                    .iter()
                    .find(|p| !known.contains(p.as_str()))
                {
                    return Err(fail(
                        field,
                        format!("the placeholder ${name} is no argument of the skill; the arguments are {known:?}"),
                    ));
                }
            }
        }
        for (field, value) in [
            ("nominal_duration", self.nominal_duration),
            ("maximum_duration", self.maximum_duration),
        ] {
            if !(value.is_finite() && value > 0.0 && value <= 86_400.0) {
                return Err(fail(
                    field,
                    format!("it is {value} s; it must be more than 0 and at most 86400 s"),
                ));
            }
        }
        if !(self.progress_rate.is_finite() && self.progress_rate >= 0.0) {
            return Err(fail(
                "progress_rate",
                format!(
                    "it is {}; it must be finite and at least 0",
                    self.progress_rate
                ),
            ));
        }
        if self.segmented != (self.max_segments > 0) {
            return Err(fail(
                "max_segments",
                format!("it is {} while segmented is {}; a segmented skill has at least 1, any other has 0", self.max_segments, self.segmented),
            ));
        }
        if self.evaluated
            && self.postcondition.is_empty()
            && self.postcondition_text.trim().is_empty()
        {
            return Err(fail(
                "postcondition",
                "the skill is evaluated but says neither in text nor in predicates what to judge"
                    .into(),
            ));
        }
        Ok(())
    }
}

/// Why a descriptor is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DescriptorError {
    /// Its name is not usable.
    #[error(transparent)]
    Name(#[from] IdError),
    /// A field is wrong.
    #[error("the descriptor of skill \"{skill}\" has a bad {field}: {reason}")]
    Field {
        /// Which skill.
        skill: String,
        /// Which field.
        field: &'static str,
        /// Why.
        reason: String,
    },
    /// Its schema is no schema.
    #[error("the descriptor of skill \"{skill}\" has a bad arguments_schema: {source}")]
    Schema {
        /// Which skill.
        skill: String,
        /// Why.
        source: ArgumentError,
    },
    /// A template is no condition.
    #[error("the descriptor of skill \"{skill}\" has a bad condition: {source}")]
    Condition {
        /// Which skill.
        skill: String,
        /// Why.
        source: ConditionError,
    },
}

//! An accepted proposal of a physical skill: immutable, digested, with what may differ between two
//! sendings kept apart in its envelope.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::condition::{Condition, ConditionError};
use crate::geometry::{Pose, Vec3};
use crate::scene::Kind;
use crate::time::Stamp;

/// Version of the layout of [`SkillCommand`].
pub const SCHEMA_VERSION: u16 = 1;

/// Time to confirmed standstill where a command names none.
pub const DEFAULT_STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// What a planner wants next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proposal {
    /// Name of the skill.
    pub skill: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
    /// Why, in a sentence for people.
    pub reason: String,
}

/// A tick of one executor's own steady clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beacon {
    /// Node name of the executor.
    pub executor: String,
    /// One process life.
    pub boot_id: String,
    /// Steady time since the executor's start.
    pub tick: Duration,
}

/// What may differ between two sendings of one command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// Token of the control lease.
    pub fencing_token: u64,
    /// Who sends.
    pub controller_id: String,
    /// What remained of the start budget when the beacon was made.
    pub start_within: Duration,
    /// The beacon that the budget counts from; `None` when none was received.
    pub beacon: Option<Beacon>,
}

/// One argument that names a scene object, resolved at commit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TargetBinding {
    /// The argument.
    pub argument: String,
    /// The scene object.
    pub r#ref: String,
    /// Its class.
    pub class_name: String,
    /// Its kind.
    pub kind: Kind,
    /// Its version.
    pub version: u64,
    /// Frame of its pose.
    pub frame_id: String,
    /// Pose of its box centre.
    pub pose: Pose,
    /// Its size \[m\].
    pub size: Vec3,
    /// Its newest sight.
    pub last_seen: Stamp,
    /// What it is on or in; `None` where unknown.
    pub support: Option<Support>,
}

/// What a target stands on or in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Support {
    /// Its ref.
    pub r#ref: String,
    /// Pose of its box centre, in the target's frame_id.
    pub pose: Pose,
    /// Its size \[m\].
    pub size: Vec3,
}

/// What must still hold when a command starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Precondition {
    /// Scene object; empty: the robot itself.
    pub r#ref: String,
    /// Version at planning; zero: any.
    pub version: u64,
    /// Whether that version must still be the current one.
    pub same_version: bool,
    /// Oldest perception; zero: no limit.
    pub max_age: Duration,
    /// Largest displacement since then \[m\]; zero: no limit.
    pub max_displacement: f64,
    /// A condition as JSON; null: none.
    pub predicates: Value,
}

impl Precondition {
    /// The condition.
    ///
    /// # Errors
    /// [`ConditionError`] when it is none.
    pub fn condition(&self) -> Result<Condition, ConditionError> {
        if self.predicates.is_null() {
            return Ok(Condition::always());
        }
        Condition::from_value(&self.predicates)
    }
}

/// One accepted proposal; field by field in `msg/SkillCommand.msg`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SkillCommand {
    /// Version of this layout.
    pub schema_version: u16,
    /// Unique name.
    pub command_id: String,
    /// Task; empty for none.
    pub task_id: String,
    /// The only robot that may execute it.
    pub robot_id: String,
    /// Skill.
    pub skill: String,
    /// Version of the skill's contract.
    pub skill_version: String,
    /// Arguments.
    pub arguments: Map<String, Value>,
    /// Arguments that name scene objects.
    pub targets: Vec<TargetBinding>,
    /// Must hold at the start.
    pub preconditions: Vec<Precondition>,
    /// Version of the scene graph at planning.
    pub world_version: u64,
    /// Plan of the task.
    pub plan_version: u32,
    /// Whole budget from commit to start.
    pub start_within: Duration,
    /// Longest time of control; zero: the descriptor's.
    pub execution_timeout: Duration,
    /// Longest time to standstill; zero: [`DEFAULT_STOP_TIMEOUT`].
    pub stop_timeout: Duration,
    /// Most segments; zero: the descriptor's.
    pub max_segments: u32,
}

impl SkillCommand {
    /// BLAKE3 of the canonical JSON of the command, as 64 hex digits.
    ///
    /// Canonical: keys of every object sorted (serde_json's map is a BTreeMap), no white space, durations
    /// as `{"nanos":…,"secs":…}`, numbers in the shortest form that reads back the same.
    pub fn digest(&self) -> String {
        // Strings, numbers, maps with string keys: this can't fail; an empty text would only make two
        // digests differ from what they should be, which refuses the command.
        let value = serde_json::to_value(self).unwrap_or(Value::Null);
        blake3::hash(value.to_string().as_bytes())
            .to_hex()
            .to_string()
    }

    /// The target of an argument.
    pub fn target(&self, argument: &str) -> Option<&TargetBinding> {
        self.targets.iter().find(|t| t.argument == argument)
    }

    /// Longest time to standstill.
    pub fn stop_timeout(&self) -> Duration {
        if self.stop_timeout.is_zero() {
            DEFAULT_STOP_TIMEOUT
        } else {
            self.stop_timeout
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn command() -> SkillCommand {
        SkillCommand {
            schema_version: SCHEMA_VERSION,
            command_id: "c1".into(),
            task_id: "t1".into(),
            robot_id: "robot".into(),
            skill: "navigate_to".into(),
            skill_version: "1.0.0".into(),
            arguments: json!({"target": "kitchen", "speed": 0.25})
                .as_object()
                .cloned()
                .unwrap(),
            targets: vec![],
            preconditions: vec![],
            world_version: 7,
            plan_version: 1,
            start_within: Duration::from_millis(500),
            execution_timeout: Duration::ZERO,
            stop_timeout: Duration::ZERO,
            max_segments: 0,
        }
    }

    #[test]
    fn the_digest_covers_every_field_and_ignores_the_order_of_arguments() {
        let a = command().digest();
        let reordered = SkillCommand {
            arguments: serde_json::from_str(r#"{"speed":0.25,"target":"kitchen"}"#).unwrap(),
            ..command()
        };
        assert_eq!(a, reordered.digest());
        assert_eq!(a.len(), 64);
        let changed = [
            SkillCommand {
                command_id: "c2".into(),
                ..command()
            },
            SkillCommand {
                robot_id: "other".into(),
                ..command()
            },
            SkillCommand {
                world_version: 8,
                ..command()
            },
            SkillCommand {
                start_within: Duration::from_millis(501),
                ..command()
            },
            SkillCommand {
                arguments: Map::new(),
                ..command()
            },
        ];
        for c in changed {
            assert_ne!(a, c.digest());
        }
    }
}

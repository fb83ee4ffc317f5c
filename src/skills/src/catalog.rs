//! The descriptors of the skills that ship.

use eh_contract::skill::{DescriptorError, SkillDescriptor};
use thiserror::Error;

/// Which of the two adapters runs a skill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adapter {
    /// navigation_skills_node.
    Navigation,
    /// manipulation_skills_node.
    Manipulation,
}

impl Adapter {
    /// Default name of its node.
    pub const fn node_name(self) -> &'static str {
        match self {
            Adapter::Navigation => "navigation_skills_node",
            Adapter::Manipulation => "manipulation_skills_node",
        }
    }
}

/// Name, text and adapter of each descriptor.
const TEXTS: &[(&str, &str, Adapter)] = &[
    (
        "navigate_to",
        include_str!("../descriptors/navigate_to.json"),
        Adapter::Navigation,
    ),
    (
        "navigate_to_pose",
        include_str!("../descriptors/navigate_to_pose.json"),
        Adapter::Navigation,
    ),
    (
        "wait",
        include_str!("../descriptors/wait.json"),
        Adapter::Navigation,
    ),
    (
        "look_at",
        include_str!("../descriptors/look_at.json"),
        Adapter::Manipulation,
    ),
    (
        "pick",
        include_str!("../descriptors/pick.json"),
        Adapter::Manipulation,
    ),
    (
        "place",
        include_str!("../descriptors/place.json"),
        Adapter::Manipulation,
    ),
    (
        "open_gripper",
        include_str!("../descriptors/open_gripper.json"),
        Adapter::Manipulation,
    ),
    (
        "close_gripper",
        include_str!("../descriptors/close_gripper.json"),
        Adapter::Manipulation,
    ),
    (
        "stow",
        include_str!("../descriptors/stow.json"),
        Adapter::Manipulation,
    ),
];

/// Why a descriptor can't be used.
#[derive(Debug, Error)]
pub enum CatalogError {
    /// It is no descriptor.
    #[error("descriptors/{name}.json is no skill descriptor ({reason}); its fields are those of msg/SkillDescriptor.msg")]
    NotADescriptor {
        /// The file.
        name: String,
        /// Why.
        reason: String,
    },
    /// It is one that breaks a rule.
    #[error(transparent)]
    Refused(#[from] DescriptorError),
}

/// Every skill that ships, checked.
///
/// # Errors
/// [`CatalogError`]; a test keeps it from happening with the embedded ones.
pub fn all() -> Result<Vec<SkillDescriptor>, CatalogError> {
    TEXTS
        .iter()
        .map(|(name, text, _)| read(name, text))
        .collect()
}

/// The skills of one adapter, checked.
///
/// # Errors
/// As [`all`].
pub fn of(adapter: Adapter) -> Result<Vec<SkillDescriptor>, CatalogError> {
    TEXTS
        .iter()
        .filter(|(_, _, a)| *a == adapter)
        .map(|(name, text, _)| read(name, text))
        .collect()
}

fn read(name: &str, text: &str) -> Result<SkillDescriptor, CatalogError> {
    let descriptor: SkillDescriptor =
        serde_json::from_str(text).map_err(|e| CatalogError::NotADescriptor {
            name: name.into(),
            reason: e.to_string(),
        })?;
    descriptor.check()?;
    Ok(descriptor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use eh_contract::arguments::ArgumentSchema;
    use eh_contract::error_code::ErrorCode;
    use serde_json::{json, Map, Value};

    /// Arguments that pass each schema.
    fn arguments(skill: &str) -> Map<String, Value> {
        let value = match skill {
            "navigate_to" | "look_at" => json!({"target": "kitchen"}),
            "navigate_to_pose" => {
                json!({"pose": {"frame_id": "map", "x": 1.0, "y": 2.0, "yaw": 0.0}})
            }
            "wait" => json!({"duration": 2.0}),
            "pick" => json!({"object": "cup_1"}),
            "place" => json!({"object": "cup_1", "support": "table_1"}),
            _ => json!({}),
        };
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn every_descriptor_is_usable_and_named_as_its_file() {
        let skills = all().unwrap();
        for (skill, (name, _, adapter)) in skills.iter().zip(TEXTS) {
            assert_eq!(&skill.name, name);
            assert_eq!(
                skill.action_name,
                format!("{}/execute_skill", adapter.node_name())
            );
            assert!(skill.nominal_duration < skill.maximum_duration);
            assert!(!skill.description.is_empty());
            for mode in &skill.failure_modes {
                assert!(!mode.description.is_empty());
                assert!(ErrorCode::from_code(mode.error_code).is_some(), "{mode:?}");
            }
        }
        assert_eq!(of(Adapter::Navigation).unwrap().len(), 3);
        assert_eq!(of(Adapter::Manipulation).unwrap().len(), 6);
    }

    #[test]
    fn every_condition_binds_to_arguments_that_pass_the_schema() {
        for skill in all().unwrap() {
            let schema = ArgumentSchema::new(&skill.arguments_schema).unwrap();
            let given = schema
                .check(&Value::Object(arguments(&skill.name)))
                .unwrap();
            let bind = |t: &eh_contract::condition::Template| t.bind(&given);
            bind(&skill.preconditions).unwrap_or_else(|e| panic!("{}: {e}", skill.name));
            bind(&skill.postcondition).unwrap_or_else(|e| panic!("{}: {e}", skill.name));
            skill
                .effects
                .bind(&given)
                .unwrap_or_else(|e| panic!("{}: {e}", skill.name));
        }
    }

    /// Nothing is done again before a lost run is judged; but when it has been, its end says nothing about the
    /// next attempt, while a foreign commander or a robot that would not stop is still there.
    #[test]
    fn what_was_lost_and_judged_may_be_tried_again() {
        for skill in all().unwrap() {
            for (code, again) in [
                (ErrorCode::ResultLost, true),
                (ErrorCode::AcknowledgementLost, true),
                (ErrorCode::Preempted, false),
                (ErrorCode::StopUnconfirmed, false),
            ] {
                let mode = skill.failure_modes.iter();
                let mut mode = mode.filter(|m| m.error_code == code.code());
                assert!(
                    mode.all(|m| m.recoverable == again),
                    "{}: {code:?}",
                    skill.name
                );
            }
        }
    }

    #[test]
    fn a_skill_that_moves_the_arm_over_the_world_holds_the_base() {
        for skill in all().unwrap() {
            if ["pick", "place"].contains(&skill.name.as_str()) {
                assert!(skill.resources.contains(&"base".into()), "{}", skill.name);
            }
        }
    }
}

//! The descriptors of all skills, by executor.

use std::collections::BTreeMap;

use eh_contract::skill::SkillDescriptor;
use eh_ros_edge::convert::skill::descriptor;
use ros_env::embodied_harness::msg::SkillCatalog;

/// Most executors that are remembered.
const MAX_EXECUTORS: usize = 64;

/// Most skills of one executor.
const MAX_SKILLS: usize = 256;

/// The newest catalog of each executor.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    executors: BTreeMap<String, BTreeMap<String, SkillDescriptor>>,
}

impl Catalog {
    /// Takes a catalog; it replaces the executor's former one. Returns why skills were left out.
    pub(crate) fn take(&mut self, message: &SkillCatalog) -> Vec<String> {
        let mut reasons = Vec::new();
        if self.executors.len() >= MAX_EXECUTORS && !self.executors.contains_key(&message.executor)
        {
            return vec![format!(
                "the catalog of {} is ignored: {MAX_EXECUTORS} executors are known already",
                message.executor
            )];
        }
        let mut skills = BTreeMap::new();
        for m in message.skills.iter().take(MAX_SKILLS) {
            let read = descriptor(m)
                .map_err(|e| format!("the descriptor of skill \"{}\": {e}", m.name))
                .and_then(|d| d.check().map(|()| d).map_err(|e| e.to_string()));
            match read {
                Ok(d) => {
                    skills.insert(d.name.clone(), d);
                }
                Err(reason) => reasons.push(reason),
            }
        }
        if message.skills.len() > MAX_SKILLS {
            reasons.push(format!(
                "{} has {} skills, the first {MAX_SKILLS} are kept",
                message.executor,
                message.skills.len()
            ));
        }
        // Runs of an executor that has withdrawn its skills are judged by its last descriptors.
        if !skills.is_empty() {
            self.executors.insert(message.executor.clone(), skills);
        }
        reasons
    }

    /// The descriptor of a skill: its executor's own.
    pub(crate) fn get(&self, executor: &str, skill: &str) -> Option<&SkillDescriptor> {
        self.executors.get(executor)?.get(skill)
    }
}

//! What the harness knows of the nodes around it, with the time at which it learned it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use eh_contract::command::Beacon;
use eh_contract::skill::SkillDescriptor;

/// Silence of an executor's beacon after which its skills are withdrawn; five beacons a second are
/// promised, so fifteen in a row are missing then.
pub const BEACON_TIMEOUT: Duration = Duration::from_secs(3);

/// All skills of one executor.
#[derive(Clone, Debug, PartialEq)]
pub struct Catalog {
    /// Node name, fully qualified.
    pub executor: String,
    /// Process life.
    pub boot_id: String,
    /// The robot that they move.
    pub robot_id: String,
    /// Its skills.
    pub skills: Vec<SkillDescriptor>,
}

#[derive(Clone, Debug)]
struct Heard {
    beacon: Beacon,
    at: Duration,
}

/// The latched stop of the protection node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StopView {
    /// True until an operator resets it.
    pub latched: bool,
    /// Protection's words: who asked for it, why, and how it is reset.
    pub text: String,
}

/// What the harness knows of the nodes around it.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    catalogs: BTreeMap<String, Catalog>,
    /// Executors that an earlier process knew and that this one has not heard of yet.
    expected: BTreeSet<String>,
    beacons: BTreeMap<String, Heard>,
    /// Token of the control lease, while it is held here.
    pub lease_token: Option<u64>,
    /// The latched stop.
    pub stop: StopView,
    /// True while the evaluator's server is there.
    pub evaluator_ready: bool,
}

impl StopView {
    /// What protection tells: its message says who asked for the stop, why, and how it is reset.
    pub fn told(latched: bool, message: &str) -> Self {
        StopView {
            latched,
            text: if latched {
                message.to_owned()
            } else {
                String::new()
            },
        }
    }
}

/// A skill on offer, with who offers it.
#[derive(Clone, Debug)]
pub struct Offer<'a> {
    /// The descriptor.
    pub descriptor: &'a SkillDescriptor,
    /// Who offers it.
    pub catalog: &'a Catalog,
    /// The executor's newest beacon.
    pub beacon: &'a Beacon,
}

impl Surroundings {
    /// Takes a catalog. Descriptors that can't be used are left out; the answer names each with the
    /// reason.
    pub fn take_catalog(&mut self, mut catalog: Catalog) -> Vec<String> {
        let mut refused = Vec::new();
        catalog.skills.retain(|skill| match skill.check() {
            Ok(()) => true,
            Err(e) => {
                refused.push(format!("{}: {e}", catalog.executor));
                false
            }
        });
        self.expected.remove(&catalog.executor);
        self.catalogs.insert(catalog.executor.clone(), catalog);
        refused
    }

    /// Executors that were known before this process was: they are silent until they are heard.
    pub fn expect(&mut self, executors: impl IntoIterator<Item = String>) {
        let known = &self.catalogs;
        self.expected
            .extend(executors.into_iter().filter(|e| !known.contains_key(e)));
    }

    /// Every executor that is known for a robot, heard or not.
    pub fn executors<'a>(&'a self, robot_id: &'a str) -> impl Iterator<Item = &'a str> {
        self.catalogs
            .values()
            .filter(move |c| c.robot_id == robot_id)
            .map(|c| c.executor.as_str())
            .chain(self.expected.iter().map(String::as_str))
    }

    /// Takes a beacon. One whose tick is older than the newest of the same process life is dropped.
    pub fn take_beacon(&mut self, beacon: Beacon, steady: Duration) {
        if let Some(known) = self.beacons.get(&beacon.executor) {
            if known.beacon.boot_id == beacon.boot_id && beacon.tick < known.beacon.tick {
                return;
            }
        }
        self.beacons
            .insert(beacon.executor.clone(), Heard { beacon, at: steady });
    }

    fn beacon(&self, catalog: &Catalog, steady: Duration) -> Option<&Beacon> {
        let heard = self.beacons.get(&catalog.executor)?;
        // A catalog of an earlier life is stale; the new life publishes its own.
        let alive = steady.saturating_sub(heard.at) <= BEACON_TIMEOUT
            && heard.beacon.boot_id == catalog.boot_id;
        alive.then_some(&heard.beacon)
    }

    /// Process life of an executor by its newest beacon.
    pub fn boot_id(&self, executor: &str) -> Option<&str> {
        self.beacons
            .get(executor)
            .map(|heard| heard.beacon.boot_id.as_str())
    }

    /// Skills on offer for a robot, sorted by name. Of two executors that offer one name the first by
    /// node name counts.
    pub fn offers(&self, robot_id: &str, steady: Duration) -> Vec<Offer<'_>> {
        let mut offers: BTreeMap<&str, Offer<'_>> = BTreeMap::new();
        for catalog in self.catalogs.values().filter(|c| c.robot_id == robot_id) {
            let Some(beacon) = self.beacon(catalog, steady) else {
                continue;
            };
            for descriptor in &catalog.skills {
                offers.entry(&descriptor.name).or_insert(Offer {
                    descriptor,
                    catalog,
                    beacon,
                });
            }
        }
        offers.into_values().collect()
    }

    /// The permission of each skill that is known for a robot, whether its executor is heard now or not.
    pub fn permissions<'a>(&'a self, robot_id: &'a str) -> impl Iterator<Item = &'a str> {
        self.catalogs
            .values()
            .filter(move |c| c.robot_id == robot_id)
            .flat_map(|c| c.skills.iter().map(|s| s.permission.as_str()))
    }

    /// One skill on offer.
    pub fn offer(&self, robot_id: &str, skill: &str, steady: Duration) -> Option<Offer<'_>> {
        self.offers(robot_id, steady)
            .into_iter()
            .find(|o| o.descriptor.name == skill)
    }

    /// What keeps skills from being on offer, in words; `None` when every executor that is known is there.
    pub fn missing(&self, robot_id: &str, steady: Duration) -> Option<String> {
        let silent = self.silent_executors(robot_id, steady);
        if !silent.is_empty() {
            return Some(format!(
                "{} is silent; is it running?",
                silent.join(" and ")
            ));
        }
        if self.offers(robot_id, steady).is_empty() {
            return Some(format!(
                "no executor offers skills for robot \"{robot_id}\"; start the skill nodes with that robot_id"
            ));
        }
        None
    }

    /// Executors whose catalog is known but whose beacon is silent, for messages.
    pub fn silent_executors(&self, robot_id: &str, steady: Duration) -> Vec<&str> {
        self.catalogs
            .values()
            .filter(|c| c.robot_id == robot_id && self.beacon(c, steady).is_none())
            .map(|c| c.executor.as_str())
            .chain(self.expected.iter().map(String::as_str))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn skill(name: &str) -> SkillDescriptor {
        serde_json::from_value(json!({
            "name": name, "version": "1.0.0", "description": "d", "action_name": "n/execute_skill",
            "arguments_schema": {"type": "object", "properties": {}},
            "evaluated": false, "nominal_duration": 1.0, "maximum_duration": 2.0
        }))
        .unwrap()
    }

    fn catalog(boot: &str) -> Catalog {
        Catalog {
            executor: "/n".into(),
            boot_id: boot.into(),
            robot_id: "robot".into(),
            skills: vec![skill("wait")],
        }
    }

    fn beacon(boot: &str, tick: u64) -> Beacon {
        Beacon {
            executor: "/n".into(),
            boot_id: boot.into(),
            tick: Duration::from_secs(tick),
        }
    }

    const fn secs(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    #[test]
    fn skills_need_a_beacon_of_the_same_life_that_is_not_silent() {
        let mut s = Surroundings::default();
        s.take_catalog(catalog("a"));
        assert!(s.offer("robot", "wait", secs(0)).is_none());
        s.take_beacon(beacon("a", 1), secs(1));
        assert!(s.offer("robot", "wait", secs(4)).is_some());
        assert!(s.offer("robot", "wait", secs(5)).is_none());
        assert_eq!(s.silent_executors("robot", secs(5)), ["/n"]);
        s.take_beacon(beacon("b", 0), secs(5));
        assert!(s.offer("robot", "wait", secs(5)).is_none());
        s.take_catalog(catalog("b"));
        assert!(s.offer("robot", "wait", secs(5)).is_some());
        assert!(s.offer("other", "wait", secs(5)).is_none());
    }

    #[test]
    fn what_an_earlier_process_knew_is_missing_until_it_is_heard() {
        let mut s = Surroundings::default();
        s.expect(["/n".to_owned(), "/m".to_owned()]);
        assert_eq!(s.silent_executors("robot", secs(0)), ["/m", "/n"]);
        s.take_catalog(catalog("a"));
        s.take_beacon(beacon("a", 1), secs(1));
        assert_eq!(s.silent_executors("robot", secs(1)), ["/m"]);
        assert!(s
            .missing("robot", secs(1))
            .is_some_and(|why| why.contains("/m is silent")));
        // Both are remembered for the next process.
        assert_eq!(s.executors("robot").collect::<Vec<_>>(), ["/n", "/m"]);
        // What is known is not expected.
        s.expect(["/n".to_owned()]);
        assert_eq!(s.silent_executors("robot", secs(1)), ["/m"]);
    }

    #[test]
    fn an_older_beacon_never_replaces_a_newer() {
        let mut s = Surroundings::default();
        s.take_catalog(catalog("a"));
        s.take_beacon(beacon("a", 9), secs(1));
        s.take_beacon(beacon("a", 3), secs(2));
        assert_eq!(
            s.offer("robot", "wait", secs(2)).unwrap().beacon.tick,
            secs(9)
        );
    }

    #[test]
    fn a_bad_descriptor_is_left_out_with_its_reason() {
        let mut bad = catalog("a");
        bad.skills.push(SkillDescriptor {
            maximum_duration: f64::NAN,
            ..skill("spin")
        });
        let mut s = Surroundings::default();
        let refused = s.take_catalog(bad);
        assert_eq!(refused.len(), 1);
        assert!(refused[0].contains("spin"), "{refused:?}");
        s.take_beacon(beacon("a", 1), secs(1));
        assert_eq!(s.offers("robot", secs(1)).len(), 1);
    }
}

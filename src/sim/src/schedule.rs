//! What others do in the world, and when: doors that open and close, objects that somebody moves.

use std::time::Duration;

use serde::Deserialize;

use crate::error::SimError;
use crate::fault::Occasion;

/// One thing that somebody does: with a door, or with an object.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HappeningSpec {
    /// The earliest time, seconds of the simulation; from the start when not given.
    #[serde(default)]
    pub at: Option<f64>,
    /// Done again each time after this long, seconds; once when not given.
    #[serde(default)]
    pub every: Option<f64>,
    /// The occasion that it waits for; none: only for its time.
    #[serde(default)]
    pub on: Option<Occasion>,
    /// At which of those occasions, from 1.
    #[serde(default = "one")]
    pub nth: u32,
    /// The door.
    #[serde(default)]
    pub door: Option<String>,
    /// Whether the door is open then.
    #[serde(default)]
    pub open: Option<bool>,
    /// The object.
    #[serde(default)]
    pub object: Option<String>,
    /// Where the object goes: x, y in metres, map frame.
    #[serde(default)]
    pub position: Option<[f64; 2]>,
    /// The furniture that the object goes onto; the floor or whatever is there when not given.
    #[serde(default)]
    pub onto: Option<String>,
}

const fn one() -> u32 {
    1
}

/// What is to be done now.
#[derive(Debug, Clone, PartialEq)]
pub enum Deed {
    /// A door is opened or closed.
    Door {
        /// The door.
        door: String,
        /// Whether it is open afterwards.
        open: bool,
    },
    /// An object is put elsewhere.
    Object {
        /// The object.
        object: String,
        /// x, y in metres, map frame.
        position: Option<[f64; 2]>,
        /// The furniture that it goes onto.
        onto: Option<String>,
    },
}

impl HappeningSpec {
    /// What is done, checked.
    ///
    /// # Errors
    /// What is wrong with the entry, and what to write.
    pub fn deed(&self) -> Result<Deed, String> {
        for (what, value, least) in [("at", self.at, 0.0), ("every", self.every, 0.1)] {
            if let Some(v) = value {
                if !(v.is_finite() && (least..=1e6).contains(&v)) {
                    return Err(format!("{what} is {v}; give {least} … 1000000 s"));
                }
            }
        }
        if self.nth == 0 {
            return Err("nth is 0; occasions are counted from 1".to_owned());
        }
        if self.on == Some(Occasion::ServerGoal) {
            return Err("on server_goal is for faults of servers only".to_owned());
        }
        if self.on.is_some() && self.every.is_some() {
            return Err("has both `on` and `every`; give one of them".to_owned());
        }
        let numbers = self.position.iter().flatten();
        if let Some(v) = numbers
            .copied()
            .find(|v| !(v.is_finite() && v.abs() <= 1000.0))
        {
            return Err(format!(
                "position has {v}; give finite numbers within ±1000 m"
            ));
        }
        match (&self.door, self.open, &self.object) {
            (Some(door), Some(open), None) if self.position.is_none() && self.onto.is_none() => {
                Ok(Deed::Door {
                    door: door.clone(),
                    open,
                })
            }
            (None, None, Some(object)) if self.position.is_some() || self.onto.is_some() => {
                Ok(Deed::Object {
                    object: object.clone(),
                    position: self.position,
                    onto: self.onto.clone(),
                })
            }
            _ => Err("give either door and open, or object with position or onto".to_owned()),
        }
    }
}

#[derive(Debug, Clone)]
struct Entry {
    deed: Deed,
    from: Duration,
    every: Option<Duration>,
    on: Option<Occasion>,
    nth: u32,
    seen: u32,
    due: Option<Duration>,
}

/// Everything that will be done.
#[derive(Debug, Clone, Default)]
pub struct Schedule {
    entries: Vec<Entry>,
}

impl Schedule {
    /// Takes the entries of a world file.
    ///
    /// # Errors
    /// [`SimError::BadEntry`].
    pub fn new(specs: &[HappeningSpec]) -> Result<Self, SimError> {
        let mut entries = Vec::with_capacity(specs.len());
        for (index, spec) in specs.iter().enumerate() {
            let deed = spec.deed().map_err(|problem| SimError::BadEntry {
                section: "schedule",
                id: index.to_string(),
                problem,
            })?;
            let from = Duration::from_secs_f64(spec.at.unwrap_or(0.0));
            entries.push(Entry {
                deed,
                from,
                every: spec.every.map(Duration::from_secs_f64),
                on: spec.on,
                nth: spec.nth,
                seen: 0,
                due: spec.on.is_none().then_some(from),
            });
        }
        Ok(Self { entries })
    }

    /// Counts an occasion for the entries that wait for it.
    pub fn happened(&mut self, occasion: Occasion, now: Duration) {
        for entry in &mut self.entries {
            if entry.on == Some(occasion) && now >= entry.from {
                entry.seen = entry.seen.saturating_add(1);
                if entry.seen == entry.nth {
                    entry.due = Some(now);
                }
            }
        }
    }

    /// What is to be done now, in the file's order; each is given out once a time that it is due.
    pub fn advance(&mut self, now: Duration) -> Vec<Deed> {
        let mut deeds = Vec::new();
        for entry in &mut self.entries {
            let Some(due) = entry.due.filter(|due| now >= *due) else {
                continue;
            };
            deeds.push(entry.deed.clone());
            // What was missed in a long step is not made up for.
            entry.due = entry.every.map(|every| {
                let behind = (now - due).as_secs_f64() / every.as_secs_f64();
                due + every.mul_f64(behind.floor() + 1.0)
            });
        }
        deeds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(text: &str) -> Result<Schedule, String> {
        let specs: Vec<HappeningSpec> = serde_yaml_ng::from_str(text).map_err(|e| e.to_string())?;
        Schedule::new(&specs).map_err(|e| e.to_string())
    }

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn at_its_time_once_and_with_every_again() {
        let mut plan =
            schedule("[{door: a, open: false, at: 5}, {door: a, open: true, at: 7, every: 10}]")
                .unwrap();
        let counts: Vec<usize> = (0..40).map(|t| plan.advance(s(t)).len()).collect();
        let times: Vec<usize> = (0..40).filter(|t| counts[*t] > 0).collect();
        assert_eq!(times, [5, 7, 17, 27, 37]);
        // A long pause is one time, and the rhythm stays.
        assert_eq!(plan.advance(s(100)).len(), 1);
        assert_eq!(plan.advance(s(106)).len(), 0);
        assert_eq!(plan.advance(s(107)).len(), 1);
    }

    #[test]
    fn on_the_nth_occasion_after_its_time() {
        let mut plan = schedule("[{object: cup, onto: t, on: nav_goal, nth: 2, at: 3}]").unwrap();
        for t in [1, 2, 4] {
            plan.happened(Occasion::NavGoal, s(t));
            assert!(plan.advance(s(t)).is_empty(), "{t}");
        }
        plan.happened(Occasion::Grasp, s(5));
        plan.happened(Occasion::NavGoal, s(6));
        let deed = Deed::Object {
            object: "cup".to_owned(),
            position: None,
            onto: Some("t".to_owned()),
        };
        assert_eq!(plan.advance(s(6)), [deed]);
        plan.happened(Occasion::NavGoal, s(7));
        assert!(plan.advance(s(7)).is_empty());
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_to_write() {
        for (text, says) in [
            ("[{door: a}]", "door and open"),
            ("[{door: a, open: true, object: b, onto: c}]", "either"),
            ("[{object: b}]", "position or onto"),
            ("[{door: a, open: true, onto: b}]", "either"),
            ("[{door: a, open: true, at: .nan}]", "NaN"),
            ("[{door: a, open: true, every: 0}]", "every is 0"),
            ("[{door: a, open: true, nth: 0}]", "from 1"),
            ("[{door: a, open: true, on: server_goal}]", "servers"),
            ("[{door: a, open: true, on: lift, every: 3}]", "both"),
            ("[{object: b, position: [.inf, 0]}]", "inf"),
            ("[{door: a, open: true, colour: red}]", "colour"),
        ] {
            let error = schedule(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}

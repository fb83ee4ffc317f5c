//! Goals for several things: one is chosen after another, and the goal is reached for each.

use eh_contract::condition::{Condition, ROBOT};

use super::{Step, Work};
use crate::goal::{resolve_all, Bindings, Count, OWN_RANK};

impl Work<'_> {
    pub(super) fn is_several(&self, thing: &str) -> bool {
        self.memory
            .things
            .get(thing)
            .is_some_and(|d| d.count != Count::One)
    }

    /// What fits a thing that is several and was not chosen yet.
    pub(super) fn others(&self, thing: &str, worst_rank: u8) -> Vec<String> {
        let Some(d) = self.memory.things.get(thing) else {
            return Vec::new();
        };
        let bindings = Bindings {
            bound: &self.memory.bound,
            excluded: &self.memory.excluded,
            robot: ROBOT,
            worst_rank,
        };
        let chosen = self.memory.chosen.get(thing);
        resolve_all(d, self.context.snapshot, bindings)
            .into_iter()
            .filter(|r| !chosen.is_some_and(|c| c.contains(r)))
            .collect()
    }

    /// Whether the goal in work is reached for everything that a thing stands for. Otherwise the thing is
    /// bound to the next one, or left unbound where the next one has to be found first.
    pub(super) fn all_done(&mut self, thing: &str) -> Step<bool> {
        if self.memory.bound.contains_key(thing) {
            return Ok(false);
        }
        let Some(d) = self.memory.things.get(thing).cloned() else {
            return Ok(true);
        };
        if let Some((_, place)) = &d.within {
            self.bind(place, 1)?;
        }
        // What an earlier goal of the task chose, in that order.
        let chosen = self.memory.chosen.entry(thing.into()).or_default();
        let next = chosen
            .iter()
            .find(|r| !self.memory.reached_for.contains(r))
            .cloned();
        if let Some(next) = next {
            self.memory.bound.insert(thing.into(), next);
            return Ok(false);
        }
        let enough = match d.count {
            Count::One => !chosen.is_empty(),
            Count::Exactly(n) => chosen.len() >= n as usize,
            Count::All => false,
        };
        if enough {
            self.memory.complete.insert(thing.into());
        }
        if self.memory.complete.contains(thing) {
            return Ok(true);
        }
        let none_yet = chosen.is_empty();
        if d.count == Count::All && !none_yet && self.others(thing, OWN_RANK).is_empty() {
            self.memory.complete.insert(thing.into());
            return Ok(true);
        }
        Ok(false)
    }

    /// The goal is reached, for the thing in hand where it is for several.
    pub(super) fn reached_one(
        &mut self,
        several: Option<&str>,
        words: String,
        condition: &Condition,
    ) {
        let Some(thing) = several else {
            return self.reached(words, Some(condition.to_value()));
        };
        self.memory.words.push(words);
        self.memory.reached.push(condition.to_value());
        if let Some(r) = self.memory.bound.remove(thing) {
            let chosen = self.memory.chosen.entry(thing.into()).or_default();
            if !chosen.contains(&r) {
                chosen.push(r.clone());
            }
            self.memory.reached_for.push(r);
        }
    }
}

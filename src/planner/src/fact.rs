//! Facts: what a condition comes to, piece by piece.

use eh_contract::belief::evaluate_predicate;
use eh_contract::condition::{Condition, Predicate};
use eh_contract::scene::SceneSnapshot;
use eh_contract::time::Stamp;
use eh_contract::verdict::Truth;

/// Most alternatives that `any` conditions of one action may give.
const MAX_ALTERNATIVES: usize = 4;

/// A fact that has to hold, or not to hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// The predicate.
    pub predicate: Predicate,
    /// Whether it has to hold.
    pub positive: bool,
    /// Has to be brought about anew, whatever the scene says: it was believed when a step failed.
    pub anew: bool,
}

impl Fact {
    /// Names the fact: equal for equal facts only.
    pub fn key(&self) -> String {
        format!(
            "{}{}{}",
            if self.positive { "+" } else { "-" },
            if self.anew { "!" } else { "" },
            self.predicate.to_value()
        )
    }
}

/// Sets of facts, one of which makes a condition true.
pub fn alternatives(condition: &Condition, positive: bool) -> Vec<Vec<Fact>> {
    let all = |parts: &[Condition]| {
        let mut sets: Vec<Vec<Fact>> = vec![Vec::new()];
        for part in parts {
            let options = alternatives(part, positive);
            let mut next = Vec::new();
            for set in &sets {
                for option in &options {
                    if next.len() < MAX_ALTERNATIVES {
                        let mut joined = set.clone();
                        joined.extend(option.iter().cloned());
                        next.push(joined);
                    }
                }
            }
            sets = next;
        }
        sets
    };
    let any = |parts: &[Condition]| {
        parts
            .iter()
            .flat_map(|p| alternatives(p, positive))
            .take(MAX_ALTERNATIVES)
            .collect()
    };
    match (condition, positive) {
        (Condition::Is(predicate), _) => vec![vec![Fact {
            predicate: predicate.clone(),
            positive,
            anew: false,
        }]],
        (Condition::Not(inner), _) => alternatives(inner, !positive),
        (Condition::All(parts), true) | (Condition::Any(parts), false) => all(parts),
        (Condition::Any(parts), true) | (Condition::All(parts), false) => any(parts),
    }
}

/// Whether a fact is believed.
pub fn believed(fact: &Fact, scene: &SceneSnapshot, now: Stamp) -> bool {
    if fact.anew {
        return false;
    }
    let truth = evaluate_predicate(&fact.predicate, scene, now).truth;
    match fact.positive {
        true => truth == Truth::True,
        false => truth == Truth::False,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn conditions_become_sets_of_facts() {
        let c = Condition::from_value(&json!({"all": [
            {"any": [{"holding": {"object": "a"}}, {"holding": {"object": "b"}}]},
            {"not": {"gripper": {"state": "open"}}}]}))
        .unwrap();
        let sets = alternatives(&c, true);
        assert_eq!(sets.len(), 2);
        assert!(sets
            .iter()
            .all(|s| s.len() == 2 && s[0].positive && !s[1].positive));
        // not(a and b) = not a or not b.
        let c = Condition::from_value(&json!({"not": {"all": [
            {"holding": {"object": "a"}}, {"holding": {"object": "b"}}]}}))
        .unwrap();
        assert_eq!(alternatives(&c, true).len(), 2);
    }
}

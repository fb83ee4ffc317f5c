//! Actions that every plan contains, and what a plan costs at least.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::{ActionId, Cost, FactId, Ground, Landmarks};

/// Longest chain of facts that landmarks are followed through.
const MAX_CHAIN: usize = 48;

impl Ground<'_> {
    /// A lower bound of what it costs to bring about a set; `None`: nothing does.
    pub fn bound(&mut self, set: &[FactId]) -> Option<Cost> {
        let mut all: BTreeSet<ActionId> = BTreeSet::new();
        for fact in set {
            all.extend(self.landmarks(*fact, &mut Vec::new())?.iter().copied());
        }
        Some(
            all.into_iter()
                .filter_map(|a| self.actions.get(a))
                .fold(0, |sum, a| sum.saturating_add(a.price)),
        )
    }

    fn landmarks(&mut self, id: FactId, chain: &mut Vec<FactId>) -> Landmarks {
        let known = self.facts.get(id)?;
        if let Some(landmarks) = &known.landmarks {
            return landmarks.clone();
        }
        // What is believed costs nothing; nor does, for a lower bound, what would need itself.
        if known.believed || chain.contains(&id) || chain.len() >= MAX_CHAIN {
            return Some(Rc::from([]));
        }
        chain.push(id);
        let mut common: Option<BTreeSet<ActionId>> = None;
        for action in self.achievers(id).iter() {
            let Some(mut needed) = self.landmarks_before(*action, chain) else {
                continue;
            };
            needed.insert(*action);
            common = Some(match common {
                None => needed,
                Some(known) => known.intersection(&needed).copied().collect(),
            });
        }
        chain.pop();
        let found: Landmarks = common.map(|c| c.into_iter().collect());
        // Inside of a chain a bound may be lower than it is alone.
        if chain.is_empty() || found.is_none() {
            if let Some(fact) = self.facts.get_mut(id) {
                fact.landmarks = Some(found.clone());
            }
        }
        found
    }

    /// Landmarks of what an action needs; `None`: it can't be had.
    fn landmarks_before(
        &mut self,
        action: ActionId,
        chain: &mut Vec<FactId>,
    ) -> Option<BTreeSet<ActionId>> {
        let mut common: Option<BTreeSet<ActionId>> = None;
        'alternatives: for needs in self.needs(action).iter() {
            let mut all = BTreeSet::new();
            for need in needs.iter() {
                match self.landmarks(*need, chain) {
                    Some(landmarks) => all.extend(landmarks.iter().copied()),
                    None => continue 'alternatives,
                }
            }
            common = Some(match common {
                None => all,
                Some(known) => known.intersection(&all).copied().collect(),
            });
        }
        common
    }
}

//! What may stand for the arguments of an action that nothing names.

use std::collections::BTreeSet;
use std::rc::Rc;

use eh_contract::condition::ROBOT;
use eh_contract::scene::Kind;
use serde_json::{Map, Value};

use super::Ground;
use crate::goal::distance_from_robot;
use crate::skill_schema::Schema;

/// Most objects that are tried for an argument that no effect names.
const MAX_CANDIDATES: usize = 6;

impl<'a> Ground<'a> {
    /// Fills the arguments that the effect does not name, and drops kinds that do not fit.
    pub(super) fn complete(
        &mut self,
        index: usize,
        schema: &Schema<'a>,
        bindings: Map<String, Value>,
    ) -> Vec<Map<String, Value>> {
        let fits = |argument: &str, kinds: &[Kind], set: &Map<String, Value>| match set
            .get(argument)
            .and_then(Value::as_str)
        {
            None => true,
            Some(r) => self
                .problem
                .scene
                .get(r)
                .is_some_and(|o| kinds.contains(&o.kind)),
        };
        if !schema
            .refs
            .iter()
            .all(|(argument, kinds)| fits(argument, kinds, &bindings))
        {
            return Vec::new();
        }
        let mut named: BTreeSet<String> = schema.descriptor.preconditions.placeholders();
        named.extend(schema.arguments.required().into_iter().map(String::from));
        let mut sets = vec![bindings];
        for argument in named {
            let Some(kinds) = schema.refs.get(&argument) else {
                continue;
            };
            if sets.iter().all(|s| s.contains_key(&argument)) {
                continue;
            }
            let candidates = self.candidates(index, &argument, kinds);
            let mut next = Vec::new();
            for set in sets {
                if set.contains_key(&argument) {
                    next.push(set);
                    continue;
                }
                for candidate in candidates.iter() {
                    let mut filled = set.clone();
                    filled.insert(argument.clone(), Value::String(candidate.clone()));
                    next.push(filled);
                }
            }
            next.truncate(MAX_CANDIDATES * MAX_CANDIDATES);
            sets = next;
        }
        sets
    }

    /// What may stand for an argument that nothing names: what is held, what the goal speaks of, then what
    /// is nearest. Of movable things the nearest only where there are none of the others: there are many,
    /// and one that nobody spoke of does not matter.
    fn candidates(&mut self, index: usize, argument: &str, kinds: &[Kind]) -> Rc<[String]> {
        let key = (index, argument.to_string());
        if let Some(known) = self.candidates.get(&key) {
            return Rc::clone(known);
        }
        let scene = self.problem.scene;
        let mut all: Vec<(u8, f64, &str)> = scene
            .live()
            .filter(|o| kinds.contains(&o.kind) && o.r#ref != ROBOT)
            .map(|o| {
                let rank = if self.held.contains(&o.r#ref) {
                    0
                } else {
                    u8::from(!self.mentioned.contains(&o.r#ref)) + 1
                };
                let distance = distance_from_robot(scene, ROBOT, &o.r#ref);
                (rank, distance, o.r#ref.as_str())
            })
            .collect();
        all.sort_by(|a, b| {
            a.0.cmp(&b.0)
                .then(a.1.total_cmp(&b.1))
                .then_with(|| a.2.cmp(b.2))
        });
        if kinds.contains(&Kind::Object) && all.first().is_some_and(|first| first.0 < 2) {
            all.retain(|c| c.0 < 2);
        }
        let found: Rc<[String]> = all
            .into_iter()
            .take(MAX_CANDIDATES)
            .map(|c| c.2.to_string())
            .collect();
        self.candidates.insert(key, Rc::clone(&found));
        found
    }
}

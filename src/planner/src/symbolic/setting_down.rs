//! One hand brings one thing at a time: what was brought is set down where it was brought to before another is
//! taken, or looked for.

use eh_contract::belief::evaluate;
use eh_contract::condition::{Condition, Holding, Near, On, Predicate, ROBOT};
use eh_contract::error_code::ErrorCode;
use eh_contract::scene::{Kind, RelationKind, SceneObject};
use serde_json::Value;

use super::{Step, Work};
use crate::fact::alternatives;
use crate::goal::{room_at, Goal};
use crate::regression::Found;

/// Predicates for which the hand takes a thing, by their names in templates.
const TAKING: [&str; 3] = ["holding", "on", "in"];

/// A goal that was reached by standing somewhere with something in the hand.
struct Brought {
    /// Its place among what was reached.
    index: usize,
    object: String,
    target: String,
}

impl Work<'_> {
    /// Sets down what was brought if this goal is about another thing; ends the turn while that takes steps.
    pub(super) fn set_down_what_was_brought(&mut self, goal: &Goal) -> Step<()> {
        if self.memory.setting_down.is_none() {
            let Some(brought) = self.brought_and_held() else {
                return Ok(());
            };
            if !self.takes_another(goal, &brought.object)? {
                return Ok(());
            }
            let Some(support) = self.surface_at(&brought.target) else {
                return self.fail(
                    ErrorCode::NoPlan,
                    self.messages
                        .say("nowhere_to_set_down", &[("object", &brought.object)]),
                );
            };
            let on = Condition::Is(Predicate::On(On {
                object: brought.object,
                support,
            }));
            self.memory.setting_down = Some((brought.index, on.to_value()));
        }
        let Some((index, condition)) = self.memory.setting_down.clone() else {
            return Ok(());
        };
        let condition = match Condition::from_value(&condition) {
            Ok(condition) => condition,
            Err(e) => {
                return self.fail(
                    ErrorCode::PlannerFailure,
                    self.messages.say("bad_program", &[("why", &e.to_string())]),
                )
            }
        };
        let said = self.say_condition(&condition);
        if evaluate(&condition, self.context.snapshot, self.context.now).holds() {
            // This is what the task has reached instead, and what is said of it at the end.
            if let Some(reached) = self.memory.reached.get_mut(index) {
                *reached = condition.to_value();
            }
            if let Some(words) = self.memory.words.get_mut(index) {
                *words = said;
            }
            self.memory.setting_down = None;
            return Ok(());
        }
        let mut dead = Vec::new();
        for facts in alternatives(&condition, true) {
            match self.search(&facts, &[]) {
                Found::Plan(steps) => {
                    self.plan = self.planned(&steps, None);
                    self.propose()?;
                }
                Found::Nothing(facts) => dead.extend(facts),
            }
        }
        self.no_way(&[], &condition, &said, &dead)
    }

    fn brought_and_held(&self) -> Option<Brought> {
        self.memory
            .reached
            .iter()
            .enumerate()
            .rev()
            .find_map(|(index, value)| {
                let condition = Condition::from_value(value).ok()?;
                let predicates = condition.predicates();
                let object = predicates.iter().find_map(|p| match p {
                    Predicate::Holding(Holding { object }) => Some(object.clone()),
                    _ => None,
                })?;
                let target = predicates.iter().find_map(|p| match p {
                    Predicate::Near(Near {
                        target, subject, ..
                    }) if subject == ROBOT => Some(target.clone()),
                    _ => None,
                })?;
                self.context
                    .snapshot
                    .has(ROBOT, RelationKind::Holds, &object)
                    .then_some(Brought {
                        index,
                        object,
                        target,
                    })
            })
    }

    /// Whether the hand has to take something for a goal that is not what it holds. Of several things the one
    /// that is next is meant.
    fn takes_another(&mut self, goal: &Goal, held: &str) -> Step<bool> {
        for object in taken(goal.condition.value()) {
            let Some(thing) = object.strip_prefix('$') else {
                if object != held {
                    return Ok(true);
                }
                continue;
            };
            if self.memory.things.get(thing).is_some_and(|d| d.held) {
                continue;
            }
            if self.is_several(thing) && self.all_done(thing)? {
                continue;
            }
            if self.memory.bound.get(thing).is_none_or(|r| r != held) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The surface that is nearest to something, in the same room where that is known.
    fn surface_at(&self, target: &str) -> Option<String> {
        let scene = self.context.snapshot;
        let at = scene.get(target)?;
        let room = room_at(scene, at);
        let from = if at.kind == Kind::Room {
            scene.get(ROBOT)?
        } else {
            at
        };
        scene
            .live()
            .filter(|o| o.kind == Kind::Surface)
            .filter(|o| room.is_none_or(|r| room_at(scene, o) == Some(r)))
            .min_by(|a, b| {
                let far = |o: &SceneObject| o.pose.position.distance_xy(from.pose.position);
                far(a)
                    .total_cmp(&far(b))
                    .then_with(|| a.r#ref.cmp(&b.r#ref))
            })
            .map(|o| o.r#ref.clone())
    }
}

/// The objects that a template wants the hand to take.
fn taken(template: &Value) -> Vec<&str> {
    match template {
        Value::Array(parts) => parts.iter().flat_map(taken).collect(),
        Value::Object(map) => map
            .iter()
            .flat_map(|(key, inner)| {
                if TAKING.contains(&key.as_str()) {
                    let object = inner.get("object").and_then(Value::as_str);
                    object.into_iter().collect()
                } else {
                    taken(inner)
                }
            })
            .collect(),
        _ => Vec::new(),
    }
}

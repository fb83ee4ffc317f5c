//! When no plan reaches a goal: another object that fits, or the reason.

use eh_contract::belief::{evaluate, evaluate_predicate};
use eh_contract::condition::{Condition, ROBOT};
use eh_contract::error_code::ErrorCode;
use eh_contract::state::CommandState;
use serde_json::Value;

use super::{arguments_of, why, Step, Work};
use crate::fact::Fact;
use crate::goal::{resolve, Bindings, Resolution, WIDER_RANK};

impl Work<'_> {
    /// No plan: another object that fits, or the end.
    pub(super) fn no_way(
        &mut self,
        things: &[String],
        condition: &Condition,
        said: &str,
        dead: &[Fact],
    ) -> Step<()> {
        // Failed often and another one will do: take that.
        if !self.experience.banned.is_empty() {
            for thing in things {
                let free = self.memory.things.get(thing).is_some_and(|d| d.any);
                let Some(r) = self.memory.bound.get(thing).cloned().filter(|_| free) else {
                    continue;
                };
                let mut excluded = self.memory.excluded.clone();
                excluded.insert(r);
                let other = self.memory.things.get(thing).map(|d| {
                    resolve(
                        d,
                        self.context.snapshot,
                        Bindings {
                            bound: &self.memory.bound,
                            excluded: &excluded,
                            robot: ROBOT,
                            worst_rank: WIDER_RANK,
                        },
                    )
                });
                if let Some(Resolution::One(_)) = other {
                    self.memory.excluded = excluded;
                    self.memory.bound.remove(thing);
                    return Ok(());
                }
            }
        }
        let now = evaluate(condition, self.context.snapshot, self.context.now).explanation;
        let last = self.steps().last();
        if let Some(step) = last.filter(|_| !self.experience.banned.is_empty()) {
            let name = self.step_name(&step.skill, &arguments_of(step));
            if step.command_state == CommandState::Succeeded {
                let now = self.hindrance(condition).unwrap_or(now);
                let count = self
                    .steps()
                    .iter()
                    .filter(|s| s.skill == step.skill && s.arguments == step.arguments)
                    .count();
                return self.fail(
                    ErrorCode::NoPlan,
                    self.messages.say(
                        "no_effect",
                        &[
                            ("step", &name),
                            ("count", &count.to_string()),
                            ("goal", said),
                            ("why", &now),
                        ],
                    ),
                );
            }
            return self.attempts_exhausted(said);
        }
        if !dead.is_empty() {
            let facts: Vec<String> = dead.iter().map(|f| self.say_fact(f)).collect();
            return self.fail(
                ErrorCode::SkillUnavailable,
                self.messages.say(
                    "no_skill",
                    &[
                        ("goal", &self.messages.list(&facts)),
                        ("skills", &self.skill_names()),
                    ],
                ),
            );
        }
        self.fail(
            ErrorCode::NoPlan,
            self.messages
                .say("no_plan", &[("goal", said), ("why", &now)]),
        )
    }

    /// What keeps a skill that would bring about a part of the condition from being run.
    fn hindrance(&self, condition: &Condition) -> Option<String> {
        let (scene, now) = (self.context.snapshot, self.context.now);
        for predicate in condition.predicates() {
            if evaluate_predicate(predicate, scene, now).holds() {
                continue;
            }
            // The skills that ship name their arguments as the predicates do.
            let Value::Object(named) = predicate.to_value() else {
                continue;
            };
            let Some(Value::Object(arguments)) = named.values().next() else {
                continue;
            };
            for skill in self.context.skills {
                if !self.skills.adds(&skill.name, arguments, predicate) {
                    continue;
                }
                let Ok(needs) = skill.preconditions.bind(arguments) else {
                    continue;
                };
                let belief = evaluate(&needs, scene, now);
                if !belief.holds() {
                    let step = self.step_name(&skill.name, arguments);
                    let why = belief.explanation;
                    return Some(
                        self.messages
                            .say("needs", &[("step", &step), ("why", &why)]),
                    );
                }
            }
        }
        None
    }

    pub(super) fn attempts_exhausted(&self, said: &str) -> Step<()> {
        let failed = self
            .steps()
            .iter()
            .rev()
            .find(|s| s.command_state != CommandState::Succeeded);
        let Some(step) = failed else {
            return self.fail(
                ErrorCode::NoPlan,
                self.messages.say("no_plan", &[("goal", said), ("why", "")]),
            );
        };
        let count = self
            .steps()
            .iter()
            .filter(|s| {
                s.skill == step.skill
                    && s.arguments == step.arguments
                    && s.command_state != CommandState::Succeeded
            })
            .count();
        self.fail(
            ErrorCode::AttemptsExhausted,
            self.messages.say(
                "attempts",
                &[
                    ("step", &self.step_name(&step.skill, &arguments_of(step))),
                    ("count", &count.to_string()),
                    ("goal", said),
                    ("why", &why(step)),
                ],
            ),
        )
    }
}

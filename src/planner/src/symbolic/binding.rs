//! Which object of the scene each thing of the task is.

use eh_contract::condition::{Predicate, Visible, ROBOT};
use eh_contract::error_code::ErrorCode;
use eh_contract::state::CommandState;

use super::{arguments_of, Step, Work};
use crate::goal::{resolve, Bindings, Count, Resolution, OWN_RANK, WIDER_RANK};

/// How often looking at a known object may fail before it counts as not being there.
const LOST_AFTER: u32 = 2;

impl Work<'_> {
    /// The ref of a thing; asks, searches or fails where it is not known.
    pub(super) fn bind(&mut self, thing: &str, depth: u8) -> Step<String> {
        if let Some(r) = self.memory.bound.get(thing).cloned() {
            if let Some(r) = self.still_there(thing, &r) {
                return Ok(r);
            }
            self.memory.bound.remove(thing);
        }
        let Some(d) = self.memory.things.get(thing).cloned().filter(|_| depth < 8) else {
            return self.fail(
                ErrorCode::PlannerFailure,
                self.messages.say("bad_program", &[("why", thing)]),
            );
        };
        for place in [d.within.as_ref().map(|(_, t)| t), d.prefer_in.as_ref()]
            .into_iter()
            .flatten()
        {
            self.bind(place, depth + 1)?;
        }
        let place = self.is_place(thing);
        let resolution = self.resolution(thing, if place { WIDER_RANK } else { OWN_RANK });
        match resolution {
            Resolution::One(r) => {
                self.memory.bound.insert(thing.into(), r.clone());
                Ok(r)
            }
            Resolution::Several(refs) => self.ask(thing, &refs),
            Resolution::Unknown | Resolution::Elsewhere(_) if d.held => self.fail(
                ErrorCode::TargetNotFound,
                self.messages.say("no_antecedent", &[("words", &d.spoken)]),
            ),
            Resolution::Unknown | Resolution::Elsewhere(_) if place => {
                let known: Vec<String> = self
                    .context
                    .snapshot
                    .live()
                    .filter(|o| d.kinds.contains(o.kind.name()))
                    .map(|o| self.messages.name(self.context.snapshot, &o.r#ref))
                    .collect();
                self.fail(
                    ErrorCode::TargetNotFound,
                    self.messages.say(
                        "not_found_place",
                        &[("name", &d.spoken), ("known", &self.messages.list(&known))],
                    ),
                )
            }
            Resolution::Unknown | Resolution::Elsewhere(_) => self.look_for(thing),
        }
    }

    pub(super) fn resolution(&self, thing: &str, worst_rank: u8) -> Resolution {
        let Some(d) = self.memory.things.get(thing) else {
            return Resolution::Unknown;
        };
        let bindings = Bindings {
            bound: &self.memory.bound,
            excluded: &self.memory.excluded,
            robot: ROBOT,
            worst_rank,
        };
        if d.count == Count::One {
            return resolve(d, self.context.snapshot, bindings);
        }
        // The next one.
        match self.others(thing, worst_rank).into_iter().next() {
            Some(next) => Resolution::One(next),
            None => match resolve(d, self.context.snapshot, bindings) {
                Resolution::Elsewhere(refs) => Resolution::Elsewhere(refs),
                Resolution::One(_) | Resolution::Several(_) | Resolution::Unknown => {
                    Resolution::Unknown
                }
            },
        }
    }

    /// A bound ref as long as it can be believed; follows a merge.
    pub(super) fn still_there(&mut self, thing: &str, r: &str) -> Option<String> {
        let scene = self.context.snapshot;
        if scene.get(r).is_none() {
            let merged = scene
                .objects
                .iter()
                .find(|o| o.r#ref == r && !o.merged_into.is_empty())
                .map(|o| o.merged_into.clone())?;
            scene.get(&merged)?;
            self.memory.bound.insert(thing.into(), merged.clone());
            return Some(merged);
        }
        if self.is_place(thing) {
            return Some(r.into());
        }
        // Looked for at its place and not seen there: it is somewhere else.
        let sight = Predicate::Visible(Visible {
            object: r.into(),
            max_age: None,
        });
        let mut missed = 0;
        for step in self.steps() {
            let looked = self.skills.adds(&step.skill, &arguments_of(step), &sight);
            match (looked, step.command_state) {
                (true, CommandState::Failed) => missed += 1,
                (true, CommandState::Succeeded) => missed = 0,
                _ => {}
            }
        }
        if missed >= LOST_AFTER {
            self.memory.excluded.insert(r.into());
            return None;
        }
        Some(r.into())
    }
}

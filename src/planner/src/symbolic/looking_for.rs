//! Looking for a thing that nobody has seen: which furniture, in which order, from where.

use std::collections::BTreeSet;

use eh_contract::belief::{evaluate_predicate, NEAR_DISTANCE};
use eh_contract::condition::{Near, Predicate, Visible, ROBOT};
use eh_contract::error_code::ErrorCode;
use eh_contract::scene::Kind;
use eh_contract::state::CommandState;

use super::{why, Search, Step, Work};
use crate::fact::Fact;
use crate::goal::{distance_from_robot, is_at, Count, Description, Place, Resolution, WIDER_RANK};
use crate::regression::Found;
use crate::text::normalise;

/// Largest distance \[m\] of a look that is not repeated from nearer: detectors seldom miss a thing of the
/// size of a cup from there.
const CLOSE_LOOK: f64 = 2.0;

impl Work<'_> {
    /// The furniture where a thing may be, in the order in which it is looked at.
    fn places_to_look(&self, thing: &str) -> Vec<String> {
        let scene = self.context.snapshot;
        let described = self.memory.things.get(thing);
        let within = described
            .and_then(|d| d.within.as_ref())
            .and_then(|(how, t)| Some((*how, self.memory.bound.get(t)?.clone())));
        let preferred = described
            .and_then(|d| d.prefer_in.as_ref())
            .and_then(|t| self.memory.bound.get(t));
        let usual = described.map_or_else(BTreeSet::new, |d| self.usual_rooms(d));
        let distance = |r: &str| distance_from_robot(scene, ROBOT, r);
        let room_distance = |room: Option<&str>| match room {
            None => f64::INFINITY,
            Some(room) => {
                let here = Predicate::Near(Near {
                    target: room.into(),
                    subject: ROBOT.into(),
                    max_distance: None,
                });
                if evaluate_predicate(&here, scene, self.context.now).holds() {
                    0.0
                } else {
                    distance(room)
                }
            }
        };
        let mut places: Vec<(bool, bool, f64, f64, String)> = scene
            .live()
            .filter(|o| matches!(o.kind, Kind::Surface | Kind::Container))
            .filter(|o| match &within {
                None => true,
                Some((Place::At | Place::On, place)) => {
                    o.r#ref == *place || is_at(scene, &o.r#ref, place)
                }
                Some((Place::Near, place)) => {
                    o.r#ref == *place || scene.room_of(&o.r#ref) == scene.room_of(place)
                }
            })
            .map(|o| {
                let room = scene.room_of(&o.r#ref);
                let away = room_distance(room);
                (
                    preferred.is_some_and(|p| room != Some(p.as_str())),
                    away > 0.0 && room.is_none_or(|r| !usual.contains(r)),
                    away,
                    distance(&o.r#ref),
                    o.r#ref.clone(),
                )
            })
            .collect();
        places.sort_by(|a, b| {
            a.0.cmp(&b.0)
                .then(a.1.cmp(&b.1))
                .then(a.2.total_cmp(&b.2))
                .then(a.3.total_cmp(&b.3))
                .then_with(|| a.4.cmp(&b.4))
        });
        places.into_iter().map(|(_, _, _, _, r)| r).collect()
    }

    /// Refs of the rooms where such a thing usually is.
    fn usual_rooms(&self, thing: &Description) -> BTreeSet<String> {
        let names: BTreeSet<String> = self
            .tables
            .nouns
            .usual
            .iter()
            .filter(|u| u.things.iter().any(|t| thing.names.contains(&normalise(t))))
            .flat_map(|u| u.rooms.iter().map(|r| normalise(r)))
            .collect();
        self.context
            .snapshot
            .live()
            .filter(|o| {
                o.kind == Kind::Room
                    && o.aliases
                        .iter()
                        .chain([&o.r#ref])
                        .any(|n| names.contains(&normalise(n)))
            })
            .map(|o| o.r#ref.clone())
            .collect()
    }

    /// Proposes the next step of a search: first from where a look is possible, then once more from near.
    pub(super) fn look_for(&mut self, thing: &str) -> Step<String> {
        let (scene, now) = (self.context.snapshot, self.context.now);
        let steps = self.context.history.len();
        let places = self.places_to_look(thing);
        let mut search = self
            .memory
            .searches
            .remove(thing)
            .unwrap_or_else(|| Search {
                since: now,
                from_step: steps,
                ..Search::default()
            });
        let spoken = self
            .memory
            .things
            .get(thing)
            .map_or(String::new(), |d| d.spoken.clone());
        let near = |place: &str| {
            Predicate::Near(Near {
                target: place.into(),
                subject: ROBOT.into(),
                max_distance: Some(NEAR_DISTANCE),
            })
        };
        let sight = |place: &str| {
            Predicate::Visible(Visible {
                object: place.into(),
                max_age: None,
            })
        };
        // What the newest step looked at.
        if let Some(last) = self
            .context
            .history
            .get(search.from_step..)
            .and_then(<[_]>::last)
        {
            for place in &places {
                if self.brought_about(&sight(place), std::slice::from_ref(last)) {
                    search.looked.insert(place.clone());
                    let close = Predicate::Near(Near {
                        target: place.clone(),
                        subject: ROBOT.into(),
                        max_distance: Some(CLOSE_LOOK),
                    });
                    if evaluate_predicate(&close, scene, now).holds() {
                        search.looked_near.insert(place.clone());
                    }
                }
            }
        }
        let keep = self.kept();
        let named = self.messages.with_article(&spoken);
        let because = self.messages.say("searching", &[("name", &named)]);
        for closely in [false, true] {
            if closely {
                // Nothing of that name at first sight: what the name also covers, before a second look.
                match self.resolution(thing, WIDER_RANK) {
                    Resolution::One(r) => {
                        self.memory.bound.insert(thing.into(), r.clone());
                        return Ok(r);
                    }
                    Resolution::Several(refs) => {
                        self.memory.searches.insert(thing.into(), search);
                        return self.ask(thing, &refs);
                    }
                    Resolution::Unknown | Resolution::Elsewhere(_) => {}
                }
            }
            for place in &places {
                let seen = if closely {
                    &search.looked_near
                } else {
                    &search.looked
                };
                if seen.contains(place) || search.failed.contains(place) {
                    continue;
                }
                let room = scene.room_of(place);
                let same_room = room.is_some_and(|room| {
                    let inside = Predicate::Near(Near {
                        target: room.into(),
                        subject: ROBOT.into(),
                        max_distance: None,
                    });
                    evaluate_predicate(&inside, scene, now).holds()
                });
                let fact = |predicate, anew| Fact {
                    predicate,
                    positive: true,
                    anew,
                };
                let mut facts = vec![fact(sight(place), true)];
                // From another room there is a wall between.
                if closely || !same_room {
                    facts.push(fact(near(place), false));
                }
                match self.search(&facts, &keep) {
                    Found::Plan(steps) if !steps.is_empty() => {
                        self.plan = self.planned(&steps, Some(&because));
                        self.memory.searches.insert(thing.into(), search);
                        self.propose()?;
                        return self.fail(ErrorCode::PlannerFailure, String::new());
                    }
                    Found::Plan(_) | Found::Nothing(_) => {
                        search.failed.insert(place.clone());
                    }
                }
            }
        }
        let names = |refs: &BTreeSet<String>| {
            let names: Vec<String> = places
                .iter()
                .filter(|p| refs.contains(*p))
                .map(|r| self.messages.name(scene, r))
                .collect();
            self.messages.list(&names)
        };
        // Nothing could be looked at: that is no statement about where the thing is.
        if search.looked.is_empty() {
            let last = self
                .context
                .history
                .get(search.from_step..)
                .unwrap_or(&[])
                .iter()
                .rev()
                .find(|s| s.command_state != CommandState::Succeeded)
                .map(why);
            if let Some(last) = last {
                let message = self.messages.say(
                    "search_failed",
                    &[
                        ("name", &named),
                        ("failed", &names(&search.failed)),
                        ("why", &last),
                    ],
                );
                self.memory.searches.insert(thing.into(), search);
                return self.fail(ErrorCode::AttemptsExhausted, message);
            }
        }
        let mut message = if search.looked.is_empty() && search.failed.is_empty() {
            let place = self
                .memory
                .things
                .get(thing)
                .and_then(|d| d.within.as_ref())
                .and_then(|(_, t)| self.memory.bound.get(t))
                .map(|r| {
                    self.messages
                        .say("in_place", &[("place", &self.messages.name(scene, r))])
                })
                .unwrap_or_default();
            self.messages
                .say("not_found_nowhere", &[("name", &named), ("place", &place)])
        } else {
            self.messages.say(
                "not_found",
                &[("name", &named), ("searched", &names(&search.looked))],
            )
        };
        let missed: BTreeSet<String> = search.failed.difference(&search.looked).cloned().collect();
        if !missed.is_empty() {
            message.push_str(
                &self
                    .messages
                    .say("not_found_failed", &[("failed", &names(&missed))]),
            );
        }
        if let Resolution::Elsewhere(refs) = self.resolution(thing, WIDER_RANK) {
            let known: Vec<String> = refs
                .iter()
                .map(|r| self.messages.option(scene, r))
                .collect();
            message.push_str(&self.messages.say(
                "not_found_elsewhere",
                &[("known", &self.messages.list(&known))],
            ));
        }
        if let Some(Description {
            count: Count::Exactly(count),
            ..
        }) = self.memory.things.get(thing)
        {
            let done = self.memory.reached_for.len().to_string();
            message.push_str(&self.messages.say(
                "not_found_more",
                &[("done", &done), ("count", &count.to_string())],
            ));
        }
        self.memory.searches.insert(thing.into(), search);
        self.fail(ErrorCode::TargetNotFound, message)
    }
}

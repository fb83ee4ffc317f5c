//! What the gripper took, holds and let go, and which frames are too old to say anything about it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use eh_contract::belief::{STATE_GRIPPER, STATE_GRIPPER_SINCE};
use eh_contract::condition::ROBOT;
use eh_contract::geometry::{Pose, Vec3};
use eh_contract::perception::Detection;
use eh_contract::scene::{RelationKind, SceneObject, Source};
use eh_contract::Stamp;
use nalgebra::Matrix3;

use super::{attributes_agree, is_tracked, Track, Tracker};
use crate::config::SceneConfig;
use crate::effects::STATE_HELD_BY;
use crate::graph::{Edit, SceneGraph};

/// Distance from where an object was picked up within which it is found "still there" \[m\].
const STILL_THERE: f64 = 0.10;

/// Distance from the robot within which a fallen object lies \[m\].
const FALLEN_RADIUS: f64 = 1.2;

/// Distance from the tool beyond which an object is not in the gripper \[m\].
const OUT_OF_HAND: f64 = 0.25;

/// Distance from where an execution has put something down within which it is found \[m\]: the hand may have
/// gone half an arm's length before its place was written down.
const PUT_DOWN_GATE: f64 = 0.5;

/// How well the place of something is known that the fingers were felt to let go of \[m\].
const LET_GO_STD: f64 = 0.15;

/// Confidence in the place of something that the fingers let go of, until it is seen.
const LET_GO_CONFIDENCE: f64 = 0.4;

/// Below this, absence does not lower it while it is new: that it is not in the air where the hand was says
/// nothing about whether it lies below.
const LET_GO_LEAST: f64 = 0.2;

/// For how long.
const LET_GO_TIME: Duration = Duration::from_secs(60);

/// What the fingers were felt to let go of and nobody has seen since.
#[derive(Clone, Copy, Debug)]
struct LetGo {
    /// Since when it had been held.
    held_since: Stamp,
    stamp: Stamp,
}

/// Where an object was before an effect or the fingers changed that.
#[derive(Clone, Copy, Debug)]
struct Before {
    pose: Pose,
    until: Stamp,
}

/// What the tracker knows of the gripper's doings beyond the graph.
#[derive(Clone, Debug, Default)]
pub(super) struct Hand {
    /// Where held objects were taken from, and when.
    held_from: BTreeMap<String, (Pose, Stamp)>,
    let_go: BTreeMap<String, LetGo>,
    before: BTreeMap<String, Before>,
}

impl Hand {
    /// Where an object was at the time of a frame that is older than what was done to it since; `None`: the
    /// frame is newer, it may say where the object is.
    pub(super) fn before(&self, name: &str, stamp: Stamp) -> Option<Pose> {
        self.before
            .get(name)
            .filter(|b| stamp <= b.until)
            .map(|b| b.pose)
    }

    /// What was done something to that frames may be older than.
    pub(super) fn changed(&self) -> impl Iterator<Item = &str> {
        self.before.keys().map(String::as_str)
    }

    /// It was seen, so that its place is known.
    pub(super) fn is_seen(&mut self, name: &str) {
        self.let_go.remove(name);
        self.held_from.remove(name);
    }

    /// What absence leaves of the confidence in it at least.
    pub(super) fn least_confidence(&self, name: &str) -> f64 {
        if self.let_go.contains_key(name) {
            LET_GO_LEAST
        } else {
            0.0
        }
    }

    /// Forgets what no frame can need any more.
    pub(super) fn forget(&mut self, stamp: Stamp, config: &SceneConfig) {
        self.before
            .retain(|_, b| stamp.since(b.until) <= config.max_frame_age);
        self.let_go
            .retain(|_, l| stamp.since(l.stamp) <= LET_GO_TIME);
    }

    /// Keeps what is still there.
    pub(super) fn retain(&mut self, is_there: impl Fn(&str) -> bool) {
        self.held_from.retain(|name, _| is_there(name));
        self.let_go.retain(|name, _| is_there(name));
        self.before.retain(|name, _| is_there(name));
    }

    /// Forgets what depends on times after `now`.
    pub(super) fn clock_set_back(&mut self, now: Stamp) {
        self.before.clear();
        for let_go in self.let_go.values_mut() {
            let_go.stamp = let_go.stamp.min(now);
            let_go.held_since = let_go.held_since.min(now);
        }
        for (_, since) in self.held_from.values_mut() {
            *since = (*since).min(now);
        }
    }
}

impl Tracker {
    /// The held object that this detection shows elsewhere than in the gripper.
    pub(super) fn dropped(
        &self,
        graph: &SceneGraph,
        detection: &Detection,
        stamp: Stamp,
        found: &BTreeSet<String>,
    ) -> Option<String> {
        let seen = detection.pose.position;
        graph
            .objects_of(ROBOT, RelationKind::Holds)
            .into_iter()
            .filter(|name| !found.contains(name))
            .find(|name| {
                let Some(object) = graph.get(name) else {
                    return false;
                };
                if object.class_name != detection.class_name
                    || !attributes_agree(&object.attributes, &detection.attributes)
                    || self.hand.before(name, stamp).is_some()
                {
                    return false;
                }
                let still_there = self
                    .hand
                    .held_from
                    .get(name)
                    .is_some_and(|(p, _)| p.position.distance(seen) <= STILL_THERE);
                let hand = self.tool.map(|t| t.position);
                let beside = hand.is_some_and(|hand| {
                    hand.distance_xy(seen) <= FALLEN_RADIUS
                        && hand.distance(seen) > OUT_OF_HAND
                        && seen.z < hand.z - OUT_OF_HAND / 2.0
                });
                // That it was seen beside the hand counts only for something that can be told apart.
                still_there || (beside && !detection.attributes.is_empty())
            })
    }

    /// The object that an execution has put down, or the fingers let go of, and nobody has seen since, if this
    /// detection can be it: where the fingers let go of something is known only roughly, and it may have fallen.
    pub(super) fn put_down(
        &self,
        graph: &SceneGraph,
        detection: &Detection,
        found: &BTreeSet<String>,
    ) -> Option<String> {
        let seen = detection.pose.position;
        let far = |o: &SceneObject| o.pose.position.distance(seen);
        graph
            .around(seen.x, seen.y, PUT_DOWN_GATE)
            .into_iter()
            .filter(|o| {
                let let_go = self.hand.let_go.contains_key(&o.r#ref);
                let below = seen.z < o.pose.position.z
                    && o.pose.position.distance_xy(seen) <= PUT_DOWN_GATE;
                is_tracked(o)
                    && (let_go || o.source == Source::Execution)
                    && !found.contains(&o.r#ref)
                    && o.class_name == detection.class_name
                    && attributes_agree(&o.attributes, &detection.attributes)
                    && !graph.has(ROBOT, RelationKind::Holds, &o.r#ref)
                    && (far(o) <= PUT_DOWN_GATE || (let_go && below))
            })
            .min_by(|a, b| far(a).total_cmp(&far(b)))
            .map(|o| o.r#ref.clone())
    }

    /// An effect or the fingers changed at `stamp` where an object is: frames of before say nothing about it.
    pub fn note_change(&mut self, graph: &SceneGraph, name: &str, stamp: Stamp) {
        if let Some(object) = graph.get(name) {
            let pose = object.pose;
            let before = Before { pose, until: stamp };
            self.hand.before.insert(name.into(), before);
        }
    }

    /// The object is in the gripper from now on.
    pub fn note_held(&mut self, graph: &SceneGraph, name: &str, stamp: Stamp) {
        self.note_change(graph, name, stamp);
        self.hand.let_go.remove(name);
        if let Some(object) = graph.get(name) {
            self.hand
                .held_from
                .insert(name.into(), (object.pose, stamp));
        }
    }

    /// The object as which a held one was seen on what it has been put down on, before that was known.
    ///
    /// Between the opening of the fingers and the verdict on it the hand is gone and the thing stands there:
    /// perception can only take it for a new one. It is the one that looks alike, stands there and was first
    /// seen while the hand held it; of two such nobody can tell which.
    pub fn put_down_as(
        &self,
        graph: &SceneGraph,
        name: &str,
        place: &str,
        relation: RelationKind,
    ) -> Option<String> {
        let since = match (self.hand.held_from.get(name), self.hand.let_go.get(name)) {
            (Some((_, since)), _) => *since,
            (None, Some(let_go)) => let_go.held_since,
            (None, None) => return None,
        };
        let there = graph.subjects_of(place, relation);
        only_one_alike(graph, name, since, |o| there.contains(&o.r#ref))
    }

    /// Makes two objects one: the second was a sight of the first.
    pub fn merge(
        &mut self,
        graph: &mut SceneGraph,
        name: &str,
        other: &str,
        stamp: Stamp,
        config: &SceneConfig,
    ) {
        let Some(seen) = graph.get(other).cloned() else {
            return;
        };
        graph.edit(name, stamp, |o| {
            o.pose = seen.pose;
            o.position_variance = seen.position_variance;
            o.last_seen = o.last_seen.max(seen.last_seen);
            o.sightings = o.sightings.saturating_add(seen.sightings);
            o.confidence = o.confidence.max(seen.confidence);
            Edit::Changed
        });
        graph.retire(other, name, stamp, config.max_retired);
        self.tracks.remove(other);
    }

    /// The object is at a place that an execution gave it, known to within `std` \[m\].
    pub fn note_placed(&mut self, graph: &SceneGraph, name: &str, std: f64, config: &SceneConfig) {
        self.hand.is_seen(name);
        self.reset_track(graph, name, std, config);
    }

    fn reset_track(&mut self, graph: &SceneGraph, name: &str, std: f64, config: &SceneConfig) {
        if let Some(object) = graph.get(name) {
            let mut track = Track::new(object, config);
            track.covariance = Matrix3::identity() * std.powi(2);
            track.updated = graph.stamp();
            self.tracks.insert(name.into(), track);
        }
    }

    /// The fingers do not hold an object any more: it stays where the hand was last, and the next sight near
    /// there, or below, is it. `held_since` counts where the tracker does not know since when it was held.
    /// Returns the object that it was merged with: what was seen beside the hand before the fingers were
    /// known to be open.
    pub fn note_let_go(
        &mut self,
        graph: &mut SceneGraph,
        name: &str,
        held_since: Stamp,
        stamp: Stamp,
        config: &SceneConfig,
    ) -> Option<String> {
        release(graph, name, stamp);
        let held_since = match self.hand.held_from.remove(name) {
            Some((_, since)) => since,
            None => held_since,
        };
        let hand = graph.get(name)?.pose.position;
        let near = |o: &SceneObject| o.pose.position.distance(hand) <= PUT_DOWN_GATE;
        if let Some(other) = only_one_alike(graph, name, held_since, near) {
            self.merge(graph, name, &other, stamp, config);
            if let Some(object) = graph.get(name) {
                self.tracks.insert(name.into(), Track::new(object, config));
            }
            return Some(other);
        }
        self.note_change(graph, name, stamp);
        let variance = LET_GO_STD.powi(2);
        graph.edit(name, stamp, |o| {
            o.confidence = o.confidence.min(LET_GO_CONFIDENCE);
            o.position_variance = Vec3::new(variance, variance, variance);
            Edit::Changed
        });
        self.reset_track(graph, name, LET_GO_STD, config);
        let let_go = LetGo { held_since, stamp };
        self.hand.let_go.insert(name.into(), let_go);
        None
    }

    /// The object was never taken: it is where it was before.
    pub fn note_not_taken(
        &mut self,
        graph: &mut SceneGraph,
        name: &str,
        stamp: Stamp,
        config: &SceneConfig,
    ) {
        release(graph, name, stamp);
        if let Some((pose, _)) = self.hand.held_from.remove(name) {
            graph.edit(name, stamp, |o| {
                o.pose = pose;
                o.confidence = o.confidence.min(LET_GO_CONFIDENCE);
                Edit::Changed
            });
        }
        self.reset_track(graph, name, config.default_std, config);
    }
}

/// The one object that looks like another and was first seen after a time; of two nobody can tell which.
fn only_one_alike(
    graph: &SceneGraph,
    name: &str,
    since: Stamp,
    also: impl Fn(&SceneObject) -> bool,
) -> Option<String> {
    let held = graph.get(name)?;
    let mut alike = graph.live().filter(|o| {
        o.r#ref != name
            && is_tracked(o)
            && o.class_name == held.class_name
            && attributes_agree(&o.attributes, &held.attributes)
            && o.first_seen > since
            && also(o)
    });
    let first = alike.next()?.r#ref.clone();
    alike.next().is_none().then_some(first)
}

/// The robot does not hold it after all.
pub(super) fn release(graph: &mut SceneGraph, name: &str, stamp: Stamp) {
    graph.unrelate(ROBOT, RelationKind::Holds, name, stamp);
    graph.edit(name, stamp, |o| {
        if o.state.remove(STATE_HELD_BY).is_some() {
            Edit::Changed
        } else {
            Edit::Same
        }
    });
    graph.edit(ROBOT, stamp, |o| {
        // What the gripper does instead is not known.
        if o.state.remove(STATE_GRIPPER).is_some() {
            o.state.remove(STATE_GRIPPER_SINCE);
            Edit::Changed
        } else {
            Edit::Same
        }
    });
}

//! Detections become objects: gating, assignment, fusion, and what absence tells.
//!
//! One frame is worked off in this order: match to known objects, match the rest to candidates, confirm
//! candidates (which may be a known object that was moved, or one that was thought to be held), and lower
//! the confidence of what should have been seen and was not. A frame that was taken before the newest effect
//! on an object, or before the fingers took it or let it go, tells nothing about where it is now.

mod hand;

use std::collections::{BTreeMap, BTreeSet};

use eh_contract::belief::STATE_SEEN_AT;
use eh_contract::condition::ROBOT;
use eh_contract::geometry::{Pose, Vec3};
use eh_contract::perception::{Detection, DetectionFrame, View};
use eh_contract::scene::{Kind, RelationKind, SceneObject, Source};
use eh_contract::sight::{covered_share, line_of_sight, Solid};
use eh_contract::Stamp;
use nalgebra::{Matrix3, Vector3};

use crate::association::{assign, Pair};
use crate::config::SceneConfig;
use crate::error::SceneError;
use crate::graph::{Edit, SceneGraph};
use crate::grip::GripSense;
use crate::lexicon::Lexicon;
use crate::relations;
use hand::Hand;

/// Cost of leaving a detection without an object is the gate plus this, so that a match inside the gate
/// is always preferred.
const UNASSIGNED_EXTRA: f64 = 1.0;

/// Squared Mahalanobis distance from which a match means that the object moved: the 95 % quantile of χ²
/// with 3 degrees.
const MOVED_QUANTILE: f64 = 7.81;

/// Bodies nearer than this share of their smaller edge are one body: two can't be in one place.
const OVERLAP_SHARE: f64 = 0.5;

/// Smallest edge that is assumed for a body of unknown size \[m\].
const ASSUMED_EDGE: f64 = 0.08;

/// Least score sum by which another class has to lead before an object's class is corrected.
const CLASS_LEAD: f64 = 3.0;

/// Sightings in a row with another value before an attribute is corrected.
const ATTRIBUTE_VOTES: u32 = 4;

/// Largest distance of a detection from a candidate for a new object \[m\].
const CANDIDATE_GATE: f64 = 0.15;

/// Distance from the tool within which something unknown is taken for what the gripper handles \[m\]: half
/// of what a hand-sized thing measures, and the errors of tool and detection. It is on its way from where
/// it was known to where it will be known; a new object in between would be a ghost.
const AT_TOOL: f64 = 0.15;

/// Sightings that the usual detection probability counts like, beside an object's own.
const RATE_PRIOR: f64 = 6.0;

/// Sightings and oversights of an object after which the old ones are halved.
const RATE_MEMORY: u32 = 60;

/// Least detection probability of an object that was seen at all.
const LEAST_RATE: f64 = 0.2;

/// Most references to sensor frames of one object.
const MAX_EVIDENCE: usize = 4;

/// Most detectors whose last stamps are kept.
const MAX_DETECTORS: usize = 64;

/// Share of a piece of furniture that has to be covered before it counts as looked at.
const COVERED_SHARE: f64 = 0.6;

/// Least time between two entries of when a piece of furniture was looked at \[ns\].
const COVERED_INTERVAL: i64 = 300_000_000;

/// How far beyond the frames' usual distance an occluder is looked for \[m\].
const INFLATE: f64 = 0.03;

/// What the tracker knows of an object beyond its node.
#[derive(Clone, Debug)]
struct Track {
    covariance: Matrix3<f64>,
    updated: Stamp,
    /// Frames in a row in which it was expected and not found.
    misses: u32,
    /// How often it was found when it was there, and how often not.
    found: u32,
    overlooked: u32,
    last_negative: Stamp,
    class_votes: BTreeMap<String, f64>,
    attribute_votes: BTreeMap<String, u32>,
    /// Where it was at its last version.
    versioned: Pose,
}

impl Track {
    fn new(object: &SceneObject, config: &SceneConfig) -> Self {
        let v = object.position_variance;
        let covariance = if v.is_zero() {
            Matrix3::identity() * config.default_std.powi(2)
        } else {
            Matrix3::from_diagonal(&v.vector())
        };
        Track {
            covariance,
            updated: object.last_seen,
            misses: 0,
            found: 0,
            overlooked: 0,
            last_negative: Stamp::NEVER,
            class_votes: [(
                object.class_name.clone(),
                f64::from(object.sightings.min(10)),
            )]
            .into(),
            attribute_votes: BTreeMap::new(),
            versioned: object.pose,
        }
    }
}

impl Track {
    /// It was seen where it is: what was missed before was overlooked.
    fn is_found(&mut self) {
        self.found += 1;
        self.overlooked = self.overlooked.saturating_add(self.misses);
        self.misses = 0;
        // What was long ago counts less.
        if self.found.saturating_add(self.overlooked) > RATE_MEMORY {
            self.found /= 2;
            self.overlooked /= 2;
        }
    }

    /// Probability that it is found where it is: what the detector is said to do, and less where it was seen
    /// to be worse on this one.
    fn detection_probability(&self, config: &SceneConfig) -> f64 {
        let usual = config.detection_probability;
        let found = f64::from(self.found) + usual * RATE_PRIOR;
        let all = f64::from(self.found) + f64::from(self.overlooked) + RATE_PRIOR;
        (found / all).min(usual).max(LEAST_RATE)
    }
}

/// Something seen that is not yet an object.
#[derive(Clone, Debug)]
struct Candidate {
    detection: Detection,
    first: Stamp,
    last: Stamp,
    hits: u32,
}

/// What one frame did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// Objects that were seen again.
    pub matched: Vec<String>,
    /// New objects.
    pub created: Vec<String>,
    /// Objects that were found elsewhere than they were.
    pub relocated: Vec<String>,
    /// Objects that were thought to be held and were seen elsewhere.
    pub released: Vec<String>,
    /// Objects that had been given up and were seen again in their place.
    pub revived: Vec<String>,
    /// Objects that were expected and not found.
    pub missed: Vec<String>,
    /// Objects that were retired.
    pub retired: Vec<String>,
    /// Detections that were refused, each with its reason; at most a few are told.
    pub refused: Vec<String>,
    /// Detections that were left out: refused, score too low, or too many.
    pub left_out: usize,
}

/// Most reasons in [`Observed::refused`].
const MAX_REASONS: usize = 4;

/// Turns detections into objects.
#[derive(Clone, Debug, Default)]
pub struct Tracker {
    tracks: BTreeMap<String, Track>,
    candidates: Vec<Candidate>,
    last_frame: BTreeMap<String, Stamp>,
    hand: Hand,
    /// The tool in the map, when known.
    pub tool: Option<Pose>,
    /// What the fingers feel.
    pub(crate) grip: GripSense,
}

impl Tracker {
    /// Works off one frame.
    ///
    /// # Errors
    /// [`SceneError`] for a frame that is too old, in the future or out of order, or whose view is
    /// malformed. A malformed detection does not spoil the frame: it is left out and named, and then the
    /// frame proves no absence.
    pub fn observe(
        &mut self,
        graph: &mut SceneGraph,
        frame: &DetectionFrame,
        now: Stamp,
        config: &SceneConfig,
        lexicon: &Lexicon,
    ) -> Result<Observed, SceneError> {
        self.check_frame(frame, now, config)?;
        let mut report = Observed::default();
        let detections = select(frame, config, &mut report);
        let complete = report.left_out == 0;
        self.hand.forget(frame.stamp, config);

        // Which detection is which object.
        let names = self.in_question(graph, &detections, frame, config);
        let mut pairs = Vec::new();
        for (index, name) in names.iter().enumerate() {
            let Some(object) = graph.get(name) else {
                continue;
            };
            let track = self
                .tracks
                .entry(name.clone())
                .or_insert_with(|| Track::new(object, config));
            // A frame from before an effect may show it where it was then.
            let before = self.hand.before(name, frame.stamp);
            for (d, detection) in detections.iter().enumerate() {
                let cost = |position| {
                    match_cost(
                        object,
                        position,
                        track,
                        detection,
                        frame.view.as_ref(),
                        frame.stamp,
                        config,
                    )
                };
                let cost = [Some(object.pose.position), before.map(|p| p.position)]
                    .into_iter()
                    .flatten()
                    .filter_map(cost)
                    .min_by(f64::total_cmp);
                if let Some(cost) = cost {
                    pairs.push(Pair {
                        detection: d,
                        object: index,
                        cost,
                    });
                }
            }
        }
        let assignment = assign(
            detections.len(),
            names.len(),
            &pairs,
            config.gate + UNASSIGNED_EXTRA,
        );
        let mut found: BTreeSet<String> = BTreeSet::new();
        let mut rest = Vec::new();
        for (detection, object) in detections.iter().zip(assignment) {
            match object.and_then(|o| names.get(o)) {
                Some(name) => {
                    if self.hand.before(name, frame.stamp).is_none() {
                        self.fuse(graph, name, detection, frame, config);
                    }
                    found.insert(name.clone());
                    report.matched.push(name.clone());
                }
                None => rest.push((*detection).clone()),
            }
        }

        // What is left: candidates, old and new.
        for detection in self.match_candidates(rest, frame.stamp, config) {
            let name = self.confirm(
                graph,
                &detection,
                frame,
                &found,
                config,
                lexicon,
                &mut report,
            );
            if let Some(name) = name {
                found.insert(name);
            }
        }

        // Absence.
        if let Some(view) = &frame.view {
            if complete {
                self.note_absence(
                    graph,
                    view,
                    frame.stamp,
                    &names,
                    &found,
                    config,
                    &mut report,
                );
            }
            note_coverage(graph, view, frame.stamp);
        }

        for name in &found {
            if self.hand.before(name, frame.stamp).is_none() {
                relations::relate_object(graph, name, frame.stamp, Source::Perception, config);
            }
        }
        self.hand.retain(|name| graph.get(name).is_some());
        Ok(report)
    }

    /// Objects that one of the detections may be, or that the camera should see.
    fn in_question(
        &self,
        graph: &SceneGraph,
        detections: &[&Detection],
        frame: &DetectionFrame,
        config: &SceneConfig,
    ) -> Vec<String> {
        let mut names: BTreeSet<&str> = BTreeSet::new();
        let mut look = |at: Vec3, distance: f64| {
            let near = graph.around(at.x, at.y, distance);
            names.extend(
                near.into_iter()
                    .filter(|o| is_tracked(o))
                    .map(|o| o.r#ref.as_str()),
            );
        };
        if let Some(view) = &frame.view {
            look(view.camera.position, view.max_range + config.gate_limit);
        }
        for detection in detections {
            look(detection.pose.position, config.gate_limit);
        }
        names.extend(self.hand.changed().filter(|name| graph.get(name).is_some()));
        names.into_iter().map(String::from).collect()
    }

    fn check_frame(
        &mut self,
        frame: &DetectionFrame,
        now: Stamp,
        config: &SceneConfig,
    ) -> Result<(), SceneError> {
        let origin = || frame.source.chars().take(64).collect::<String>();
        let age = now.since(frame.stamp);
        if age > config.max_frame_age {
            return Err(SceneError::StaleFrame {
                origin: origin(),
                age: age.as_secs_f64(),
                limit: config.max_frame_age.as_secs_f64(),
            });
        }
        let ahead = frame.stamp.since(now);
        if ahead > config.max_ahead {
            return Err(SceneError::FutureFrame {
                origin: origin(),
                ahead: ahead.as_secs_f64(),
                limit: config.max_ahead.as_secs_f64(),
            });
        }
        if let Some(view) = &frame.view {
            view.check()?;
        }
        if self
            .last_frame
            .get(&frame.source)
            .is_some_and(|last| *last >= frame.stamp)
        {
            return Err(SceneError::OldFrame { origin: origin() });
        }
        if self.last_frame.len() >= MAX_DETECTORS && !self.last_frame.contains_key(&frame.source) {
            self.last_frame.clear();
        }
        self.last_frame.insert(origin(), frame.stamp);
        Ok(())
    }

    /// Fuses a detection into an object: Kalman update of a constant position.
    fn fuse(
        &mut self,
        graph: &mut SceneGraph,
        name: &str,
        detection: &Detection,
        frame: &DetectionFrame,
        config: &SceneConfig,
    ) {
        let held = graph.has(ROBOT, RelationKind::Holds, name);
        if !held {
            self.hand.is_seen(name);
        }
        let Some(track) = self.tracks.get_mut(name) else {
            return;
        };
        let stamp = frame.stamp;
        graph.edit(name, stamp, |o| {
            let mut edit = Edit::Refreshed;
            if !held {
                let mut prior = predicted(track, stamp, config);
                let noise = noise_of(detection, frame.view.as_ref(), config);
                let innovation = detection.pose.position.vector() - o.pose.position.vector();
                // Too far for noise, near enough to be the same: it was moved by about that much, and
                // what was averaged before no longer counts.
                if squared_mahalanobis(&innovation, &(prior + noise)) > MOVED_QUANTILE {
                    prior += Matrix3::identity() * innovation.norm_squared();
                }
                // Both are positive definite, so the sum can be inverted; if rounding says otherwise the
                // detection alone is as good.
                let gain = match (prior + noise).try_inverse() {
                    Some(inverse) => prior * inverse,
                    None => Matrix3::identity(),
                };
                let position: Vector3<f64> = o.pose.position.vector() + gain * innovation;
                o.pose.position = position.into();
                o.pose.orientation = detection.pose.orientation;
                let posterior = (Matrix3::identity() - gain) * prior;
                track.covariance = (posterior + posterior.transpose()) * 0.5;
                o.position_variance = diagonal(&track.covariance);
                if o.pose.position.distance(track.versioned.position) > config.significant_move {
                    edit = Edit::Changed;
                }
                if o.source != Source::Perception {
                    o.source = Source::Perception;
                    o.run_id.clear();
                }
            }
            track.updated = stamp;
            track.is_found();
            o.last_seen = o.last_seen.max(stamp);
            if o.first_seen.is_never() {
                o.first_seen = stamp;
            }
            o.sightings = o.sightings.saturating_add(1);
            o.confidence = raised(o.confidence, detection.confidence, config);
            fuse_size(o, detection);
            if correct_labels(o, track, detection) {
                edit = Edit::Changed;
            }
            note_evidence(o, detection, frame);
            if edit == Edit::Changed {
                track.versioned = o.pose;
            }
            edit
        });
    }

    /// Adds detections to candidates and returns those that are confirmed now.
    fn match_candidates(
        &mut self,
        rest: Vec<Detection>,
        stamp: Stamp,
        config: &SceneConfig,
    ) -> Vec<Detection> {
        self.candidates
            .retain(|c| stamp.since(c.last) <= config.confirm_window && c.last <= stamp);
        let mut pairs = Vec::new();
        for (d, detection) in rest.iter().enumerate() {
            for (c, candidate) in self.candidates.iter().enumerate() {
                let known = &candidate.detection;
                let distance = known.pose.position.distance(detection.pose.position);
                if known.class_name == detection.class_name
                    && distance <= CANDIDATE_GATE
                    && attributes_agree(&known.attributes, &detection.attributes)
                {
                    pairs.push(Pair {
                        detection: d,
                        object: c,
                        cost: distance,
                    });
                }
            }
        }
        let assignment = assign(rest.len(), self.candidates.len(), &pairs, CANDIDATE_GATE);
        let mut confirmed = Vec::new();
        let mut done = BTreeSet::new();
        for (detection, candidate) in rest.into_iter().zip(assignment) {
            match candidate.and_then(|c| self.candidates.get_mut(c).map(|k| (c, k))) {
                Some((index, candidate)) => {
                    candidate.hits += 1;
                    candidate.last = stamp;
                    candidate.detection = detection;
                    if candidate.hits >= config.confirm_hits {
                        done.insert(index);
                        confirmed.push(candidate.detection.clone());
                    }
                }
                None if config.confirm_hits <= 1 => confirmed.push(detection),
                None => self.candidates.push(Candidate {
                    detection,
                    first: stamp,
                    last: stamp,
                    hits: 1,
                }),
            }
        }
        let mut index = 0;
        self.candidates.retain(|_| {
            index += 1;
            !done.contains(&(index - 1))
        });
        let excess = self.candidates.len().saturating_sub(config.max_candidates);
        if excess > 0 {
            // The oldest first: they had their chance.
            self.candidates.sort_by_key(|c| c.first);
            self.candidates.drain(..excess);
        }
        confirmed
    }

    /// Decides what a confirmed candidate is: a held object that is not held, a missing object that was
    /// moved, one that was given up too early, or a new one.
    #[allow(clippy::too_many_arguments)]
    fn confirm(
        &mut self,
        graph: &mut SceneGraph,
        detection: &Detection,
        frame: &DetectionFrame,
        found: &BTreeSet<String>,
        config: &SceneConfig,
        lexicon: &Lexicon,
        report: &mut Observed,
    ) -> Option<String> {
        if let Some(name) = self.dropped(graph, detection, frame.stamp, found) {
            hand::release(graph, &name, frame.stamp);
            self.place(graph, &name, detection, frame, config);
            report.released.push(name.clone());
            return Some(name);
        }
        let elsewhere = self
            .put_down(graph, detection, found)
            .or_else(|| self.moved(graph, detection, found, config));
        if let Some(name) = elsewhere {
            self.place(graph, &name, detection, frame, config);
            report.relocated.push(name.clone());
            return Some(name);
        }
        if let Some(name) = returned(graph, detection, config) {
            graph.revive(&name, frame.stamp);
            self.place(graph, &name, detection, frame, config);
            report.revived.push(name.clone());
            return Some(name);
        }
        let handled = self
            .tool
            .is_some_and(|t| t.position.distance(detection.pose.position) <= AT_TOOL)
            && graph.live().any(|o| {
                is_tracked(o) && !found.contains(&o.r#ref) && o.class_name == detection.class_name
            });
        if handled {
            return None;
        }
        if graph.len() >= config.max_objects {
            report.left_out += 1;
            return None;
        }
        let name = self.create(graph, detection, frame, config, lexicon);
        report.created.push(name.clone());
        Some(name)
    }

    /// The missing object that this detection most likely is.
    fn moved(
        &self,
        graph: &SceneGraph,
        detection: &Detection,
        found: &BTreeSet<String>,
        config: &SceneConfig,
    ) -> Option<String> {
        let at = detection.pose.position;
        graph
            .around(at.x, at.y, config.relocate_radius)
            .into_iter()
            .filter(|o| {
                is_tracked(o)
                    && !found.contains(&o.r#ref)
                    && o.class_name == detection.class_name
                    && attributes_agree(&o.attributes, &detection.attributes)
                    && !graph.has(ROBOT, RelationKind::Holds, &o.r#ref)
                    && self
                        .tracks
                        .get(&o.r#ref)
                        .is_some_and(|t| t.misses >= config.relocate_misses)
            })
            .map(|o| (o.pose.position.distance(detection.pose.position), o))
            .filter(|(distance, _)| *distance <= config.relocate_radius)
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, o)| o.r#ref.clone())
    }

    /// Puts a known object where it was seen.
    fn place(
        &mut self,
        graph: &mut SceneGraph,
        name: &str,
        detection: &Detection,
        frame: &DetectionFrame,
        config: &SceneConfig,
    ) {
        let covariance = noise_of(detection, frame.view.as_ref(), config);
        graph.edit(name, frame.stamp, |o| {
            o.pose = detection.pose;
            o.position_variance = diagonal(&covariance);
            o.last_seen = o.last_seen.max(frame.stamp);
            o.sightings = o.sightings.saturating_add(1);
            o.confidence = raised(o.confidence.min(0.5), detection.confidence, config);
            o.source = Source::Perception;
            o.run_id.clear();
            note_evidence(o, detection, frame);
            Edit::Changed
        });
        if let Some(object) = graph.get(name) {
            let mut track = Track::new(object, config);
            track.covariance = covariance;
            self.tracks.insert(name.into(), track);
        }
        self.hand.is_seen(name);
    }

    fn create(
        &mut self,
        graph: &mut SceneGraph,
        detection: &Detection,
        frame: &DetectionFrame,
        config: &SceneConfig,
        lexicon: &Lexicon,
    ) -> String {
        let class_name = detection.class_name.trim().to_lowercase();
        let name = graph.next_ref(&class_name);
        let covariance = noise_of(detection, frame.view.as_ref(), config);
        let mut object = SceneObject {
            r#ref: name.clone(),
            kind: if config.person_classes.contains(&class_name) {
                Kind::Person
            } else {
                Kind::Object
            },
            aliases: lexicon.words(&class_name),
            class_name,
            attributes: detection.attributes.clone().into(),
            frame_id: graph.frame_id().into(),
            pose: detection.pose,
            position_variance: diagonal(&covariance),
            size: detection.size,
            confidence: raised(
                raised(0.0, detection.confidence, config),
                detection.confidence,
                config,
            ),
            first_seen: frame.stamp,
            last_seen: frame.stamp,
            sightings: config.confirm_hits.max(1),
            source: Source::Perception,
            ..SceneObject::default()
        };
        note_evidence(&mut object, detection, frame);
        let mut track = Track::new(&object, config);
        track.covariance = covariance;
        graph.insert(object, frame.stamp);
        self.tracks.insert(name.clone(), track);
        name
    }

    #[allow(clippy::too_many_arguments)]
    fn note_absence(
        &mut self,
        graph: &mut SceneGraph,
        view: &View,
        stamp: Stamp,
        names: &[String],
        found: &BTreeSet<String>,
        config: &SceneConfig,
        report: &mut Observed,
    ) {
        let eye = view.camera.position;
        let near = graph.around(eye.x, eye.y, view.max_range);
        let absent: Vec<String> = names
            .iter()
            .filter(|name| !found.contains(*name))
            .filter(|name| !graph.has(ROBOT, RelationKind::Holds, name))
            .filter(|name| self.hand.before(name, stamp).is_none())
            .filter(|name| {
                graph.get(name).is_some_and(|o| {
                    let point = o.pose.position;
                    view.covers(point, config.view_share)
                        && line_of_sight(eye, point, near.iter().copied(), &[name])
                        && !near.iter().any(|other| {
                            other.kind == Kind::Object
                                && other.r#ref != **name
                                && Solid {
                                    pose: other.pose,
                                    size: other.size,
                                }
                                .blocks(eye, point, -INFLATE)
                        })
                })
            })
            .cloned()
            .collect();
        let mut gone = Vec::new();
        for name in absent {
            let Some(track) = self.tracks.get_mut(&name) else {
                continue;
            };
            if !track.last_negative.is_never()
                && stamp.since(track.last_negative) < config.negative_interval
            {
                continue;
            }
            track.last_negative = stamp;
            track.misses = track.misses.saturating_add(1);
            report.missed.push(name.clone());
            let mut retire = false;
            let least = self.hand.least_confidence(&name);
            let probability = track.detection_probability(config);
            graph.edit(&name, stamp, |o| {
                let before = o.confidence;
                o.confidence = lowered(before, probability).max(least);
                retire = o.confidence < config.retire_below;
                Edit::of_confidence(before, o.confidence)
            });
            if retire {
                gone.push(name);
            }
        }
        for name in gone {
            let into = overlapping(graph, &name).unwrap_or_default();
            graph.retire(&name, &into, stamp, config.max_retired);
            self.tracks.remove(&name);
            report.retired.push(name);
        }
    }

    /// An object is retired.
    pub(crate) fn forget(&mut self, name: &str) {
        self.tracks.remove(name);
    }

    /// Forgets what depends on times after `now`.
    pub fn clock_set_back(&mut self, now: Stamp) {
        self.last_frame.retain(|_, stamp| *stamp <= now);
        self.candidates.clear();
        self.hand.clock_set_back(now);
        for track in self.tracks.values_mut() {
            track.updated = track.updated.min(now);
            track.last_negative = track.last_negative.min(now);
        }
    }
}

/// Objects and persons come from perception; everything else from the map.
fn is_tracked(object: &SceneObject) -> bool {
    matches!(object.kind, Kind::Object | Kind::Person) && object.source != Source::Map
}

/// The detections of a frame that count, best score first.
fn select<'a>(
    frame: &'a DetectionFrame,
    config: &SceneConfig,
    report: &mut Observed,
) -> Vec<&'a Detection> {
    let mut good: Vec<&Detection> = Vec::new();
    for detection in &frame.detections {
        match detection.check() {
            Ok(()) if detection.confidence >= config.min_score => good.push(detection),
            // A weak detection is no absence either, but a detector emits them all the time.
            Ok(()) => {}
            Err(error) => {
                report.left_out += 1;
                if report.refused.len() < MAX_REASONS {
                    report.refused.push(error.to_string());
                }
            }
        }
    }
    good.sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
    report.left_out += good.len().saturating_sub(config.max_detections);
    good.truncate(config.max_detections);
    good
}

fn smaller_edge(object: Vec3, detection: Vec3) -> f64 {
    let edge = |v: Vec3| {
        let least = v.x.min(v.y).min(v.z);
        if least > 0.0 {
            least
        } else {
            ASSUMED_EDGE
        }
    };
    edge(object).min(edge(detection))
}

/// True when no attribute that both have differs.
fn attributes_agree<'a>(
    a: impl IntoIterator<Item = (&'a String, &'a String)>,
    b: impl IntoIterator<Item = (&'a String, &'a String)> + Copy,
) -> bool {
    a.into_iter().all(|(key, value)| {
        b.into_iter()
            .all(|(other, said)| other != key || said == value)
    })
}

fn diagonal(m: &Matrix3<f64>) -> Vec3 {
    Vec3::new(m[(0, 0)], m[(1, 1)], m[(2, 2)])
}

/// Covariance of a detection with what does not average out.
fn noise_of(detection: &Detection, view: Option<&View>, config: &SceneConfig) -> Matrix3<f64> {
    let own = detection
        .covariance_matrix()
        .unwrap_or_else(|| Matrix3::identity() * config.default_std.powi(2));
    let range = view.map_or(0.0, |v| v.camera.position.distance(detection.pose.position));
    let extra = config.floor_std.powi(2) + (config.heading_std * range).powi(2);
    own + Matrix3::identity() * extra
}

/// Covariance of an object at a time: it grows while nobody looks.
fn predicted(track: &Track, stamp: Stamp, config: &SceneConfig) -> Matrix3<f64> {
    let seconds = stamp.since(track.updated).as_secs_f64();
    let drift = (config.drift.powi(2) * seconds).min(config.drift_limit.powi(2));
    track.covariance + Matrix3::identity() * (drift + config.floor_std.powi(2))
}

/// Squared Mahalanobis distance of a detection from an object at a position when they can be one thing.
fn match_cost(
    object: &SceneObject,
    position: Vec3,
    track: &Track,
    detection: &Detection,
    view: Option<&View>,
    stamp: Stamp,
    config: &SceneConfig,
) -> Option<f64> {
    let offset = detection.pose.position.vector() - position.vector();
    let distance = offset.norm();
    if distance > config.gate_limit {
        return None;
    }
    let same = object.class_name == detection.class_name
        && attributes_agree(&object.attributes, &detection.attributes);
    // Another class or color in the same place is a misreading: two bodies can't be there at once.
    if !same && distance > OVERLAP_SHARE * smaller_edge(object.size, detection.size) {
        return None;
    }
    let sum = predicted(track, stamp, config) + noise_of(detection, view, config);
    let squared = squared_mahalanobis(&offset, &sum);
    // One body's width off is the same body however sure both are.
    let overlap = distance <= OVERLAP_SHARE * smaller_edge(object.size, detection.size);
    let squared = if overlap {
        squared.min(config.gate)
    } else {
        squared
    };
    let penalty = if same { 0.0 } else { UNASSIGNED_EXTRA };
    (squared.is_finite() && squared <= config.gate).then_some(squared + penalty)
}

/// Infinity for a covariance that can't be inverted.
fn squared_mahalanobis(offset: &Vector3<f64>, covariance: &Matrix3<f64>) -> f64 {
    covariance
        .try_inverse()
        .map_or(f64::INFINITY, |inverse| offset.dot(&(inverse * offset)))
}

fn raised(confidence: f64, score: f64, config: &SceneConfig) -> f64 {
    // A detector's score is no probability; half of it is taken as one.
    let raised = 1.0 - (1.0 - confidence.clamp(0.0, 1.0)) * (1.0 - 0.5 * score);
    raised.clamp(0.0, config.max_confidence)
}

/// Bayes' rule for "expected and not found".
fn lowered(confidence: f64, detection_probability: f64) -> f64 {
    let p = confidence.clamp(0.0, 1.0);
    let missed = p * (1.0 - detection_probability);
    let total = missed + (1.0 - p);
    if total > 0.0 {
        missed / total
    } else {
        p
    }
}

fn fuse_size(object: &mut SceneObject, detection: &Detection) {
    if detection.size.is_zero() {
        return;
    }
    if object.size.is_zero() {
        object.size = detection.size;
        return;
    }
    // A mean over the last ten sightings.
    let weight = 1.0 / f64::from(object.sightings.clamp(1, 10));
    let old = object.size.vector();
    object.size = (old + (detection.size.vector() - old) * weight).into();
}

/// Lets class and attributes be outvoted; true when one was corrected.
fn correct_labels(object: &mut SceneObject, track: &mut Track, detection: &Detection) -> bool {
    let mut corrected = false;
    *track
        .class_votes
        .entry(detection.class_name.clone())
        .or_insert(0.0) += detection.confidence;
    if track.class_votes.len() > 8 {
        // A detector that calls it nine things knows none of them.
        let own = track
            .class_votes
            .get(&object.class_name)
            .copied()
            .unwrap_or(0.0);
        track.class_votes = [(object.class_name.clone(), own)].into();
    }
    let own = track
        .class_votes
        .get(&object.class_name)
        .copied()
        .unwrap_or(0.0);
    let best = track
        .class_votes
        .iter()
        .max_by(|a, b| a.1.total_cmp(b.1))
        .map(|(class, votes)| (class.clone(), *votes));
    if let Some((class, votes)) = best {
        if class != object.class_name && votes > own + CLASS_LEAD {
            object.class_name = class;
            corrected = true;
        }
    }
    for (key, value) in &detection.attributes {
        match object.attributes.get(key) {
            None => {
                object.attributes.insert(key.clone(), value.clone());
                corrected = true;
            }
            Some(known) if known == value => {
                track.attribute_votes.remove(key);
            }
            Some(_) => {
                let votes = track.attribute_votes.entry(key.clone()).or_insert(0);
                *votes += 1;
                if *votes >= ATTRIBUTE_VOTES {
                    object.attributes.insert(key.clone(), value.clone());
                    track.attribute_votes.remove(key);
                    corrected = true;
                }
            }
        }
    }
    corrected
}

fn note_evidence(object: &mut SceneObject, detection: &Detection, frame: &DetectionFrame) {
    let reference = if detection.reference.is_empty() {
        &frame.reference
    } else {
        &detection.reference
    };
    if !reference.is_empty() && object.evidence.first() != Some(reference) {
        object.evidence.insert(0, reference.clone());
        object.evidence.truncate(MAX_EVIDENCE);
    }
}

/// The live object of the same class that is in the same place.
fn overlapping(graph: &SceneGraph, name: &str) -> Option<String> {
    let object = graph.get(name)?;
    let at = object.pose.position;
    graph
        .around(at.x, at.y, 1.0)
        .into_iter()
        .filter(|o| {
            o.r#ref != name
                && is_tracked(o)
                && o.class_name == object.class_name
                && o.pose.position.distance(object.pose.position)
                    <= smaller_edge(o.size, object.size)
        })
        .map(|o| o.r#ref.clone())
        .next()
}

/// The retired object that this detection most likely is: one like it was here.
fn returned(graph: &SceneGraph, detection: &Detection, config: &SceneConfig) -> Option<String> {
    graph
        .all()
        .filter(|o| {
            o.retired
                && o.merged_into.is_empty()
                && matches!(o.kind, Kind::Object | Kind::Person)
                && o.class_name == detection.class_name
                && attributes_agree(&o.attributes, &detection.attributes)
        })
        .map(|o| (o.pose.position.distance(detection.pose.position), o))
        .filter(|(distance, _)| *distance <= config.revive_radius)
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, o)| o.r#ref.clone())
}

/// Notes which places the camera has covered, for whoever searches.
fn note_coverage(graph: &mut SceneGraph, view: &View, stamp: Stamp) {
    let eye = view.camera.position;
    let fixed: Vec<&SceneObject> = graph
        .around(eye.x, eye.y, view.max_range)
        .into_iter()
        .filter(|o| {
            matches!(
                o.kind,
                Kind::Room | Kind::Door | Kind::Surface | Kind::Container | Kind::Place
            )
        })
        .collect();
    let covered: Vec<String> = fixed
        .iter()
        .filter(|o| {
            o.kind == Kind::Room
                || o.pose.position.distance(eye) <= view.max_range + o.size.x.max(o.size.y)
        })
        .filter(|o| {
            covered_share(view, o, fixed.iter().copied()).is_some_and(|s| s >= COVERED_SHARE)
        })
        .map(|o| o.r#ref.clone())
        .collect();
    for name in covered {
        graph.edit(&name, stamp, |o| {
            let before: i64 = o
                .state
                .get(STATE_SEEN_AT)
                .and_then(|s| s.parse().ok())
                .unwrap_or(0);
            if before != 0 && stamp.0.saturating_sub(before) < COVERED_INTERVAL {
                return Edit::Same;
            }
            o.state.insert(STATE_SEEN_AT.into(), stamp.0.to_string());
            // The first look is news.
            if before == 0 {
                Edit::Changed
            } else {
                Edit::Refreshed
            }
        });
    }
}

//! What the fingers feel: what the gripper does as it is measured, and what follows for what it holds.
//!
//! A run that crashed after the fingers had closed leaves no verdict and so no effect. What the fingers feel
//! is perception: it may always say what is so. It takes an object into the hand only where exactly one stands
//! between the fingers, and out of it where they hold nothing.

use std::time::Duration;

use eh_contract::belief::{STATE_GRIPPER, STATE_GRIPPER_SINCE};
use eh_contract::condition::ROBOT;
use eh_contract::geometry::Vec3;
use eh_contract::scene::{Kind, RelationKind, SceneObject, Source};
use eh_contract::sight::Solid;
use eh_contract::Stamp;

use crate::config::SceneConfig;
use crate::effects;
use crate::error::SceneError;
use crate::graph::{Edit, SceneGraph};
use crate::scene::{Scene, CLOCK_STEP};
use crate::tracker::Tracker;

/// Readings further apart than this do not say that nothing happened in between.
const LONGEST_GAP: Duration = Duration::from_secs(1);

/// Widest gap that a gripper can have \[m\].
const WIDEST: f64 = 10.0;

/// Edge of something whose size is not known \[m\].
const ASSUMED_EDGE: f64 = 0.06;

/// The gripper's joint as its driver reports it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GripReading {
    /// Time of the measurement.
    pub stamp: Stamp,
    /// Gap between the fingers \[m\].
    pub width: f64,
    /// Force of the fingers \[N\]; `None` where the driver tells none.
    pub effort: Option<f64>,
}

/// What the fingers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fingers {
    /// As far apart as when they let go.
    Open,
    /// They meet: nothing is between them.
    Closed,
    /// In between, and something keeps them apart.
    Holding,
    /// In between, without force: they press on nothing.
    Empty,
    /// In between, and no force is measured: it may be either.
    Unclear,
}

impl Fingers {
    /// What a reading says.
    pub fn of(reading: &GripReading, config: &SceneConfig) -> Self {
        if reading.width <= config.closed_width {
            return Fingers::Closed;
        }
        if reading.width >= config.open_width {
            return Fingers::Open;
        }
        match reading.effort.filter(|e| e.is_finite()) {
            Some(effort) if config.effort_reported => {
                if effort.abs() < config.contact_effort {
                    Fingers::Empty
                } else {
                    Fingers::Holding
                }
            }
            Some(_) | None => Fingers::Unclear,
        }
    }

    /// The word in the robot's state; `None`: it is not known.
    const fn word(self) -> Option<&'static str> {
        match self {
            Fingers::Open => Some("open"),
            Fingers::Closed => Some("closed"),
            Fingers::Holding => Some("holding"),
            Fingers::Empty => Some("empty"),
            Fingers::Unclear => None,
        }
    }

    /// True when they certainly hold nothing.
    const fn hold_nothing(self) -> bool {
        match self {
            Fingers::Open | Fingers::Closed | Fingers::Empty => true,
            Fingers::Holding | Fingers::Unclear => false,
        }
    }
}

/// What one reading changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Felt {
    /// What the fingers do now, when that is news.
    pub gripper: Option<&'static str>,
    /// The object that turned out to be in the hand.
    pub taken: Option<String>,
    /// Objects that turned out not to be in the hand any more.
    pub let_go: Vec<String>,
}

/// Readings with a memory: a state counts after it has lasted.
#[derive(Clone, Debug, Default)]
pub(crate) struct GripSense {
    state: Option<(Fingers, Stamp)>,
    newest: Stamp,
    /// Where the tool was when the state began.
    place: Option<Vec3>,
    /// What stood between the fingers when they closed was looked for, or is known.
    looked: bool,
}

impl GripSense {
    /// Takes a reading. Returns what the fingers do and since when, once that has lasted.
    fn take(
        &mut self,
        reading: &GripReading,
        tool: Option<Vec3>,
        config: &SceneConfig,
    ) -> Option<(Fingers, Stamp)> {
        let back = self.newest.since(reading.stamp) > CLOCK_STEP;
        if reading.stamp <= self.newest && !back {
            return None;
        }
        let gap = back || reading.stamp.since(self.newest) > LONGEST_GAP;
        self.newest = reading.stamp;
        let fingers = Fingers::of(reading, config);
        let since = match self.state {
            Some((before, since)) if before == fingers && !gap => since,
            Some(_) | None => {
                self.state = Some((fingers, reading.stamp));
                self.place = tool;
                self.looked = false;
                reading.stamp
            }
        };
        (reading.stamp.since(since) >= config.grip_settle).then_some((fingers, since))
    }

    /// Since when the fingers certainly hold nothing, if that has lasted.
    pub(crate) fn holds_nothing_since(&self, config: &SceneConfig) -> Option<Stamp> {
        let (fingers, since) = self.state?;
        let lasted = self.newest.since(since) >= config.grip_settle;
        (lasted && fingers.hold_nothing()).then_some(since)
    }
}

impl Scene {
    /// Takes a reading of the gripper's joint. The tool in the map should be told before, with
    /// [`Scene::set_robot`]. A reading that is not newer than the last one changes nothing.
    ///
    /// What lasts is written into the robot's state. Fingers that hold something although no edge says so
    /// have the object that stands between them, if there is exactly one. Fingers that hold nothing although
    /// an older edge says so have let go.
    ///
    /// # Errors
    /// [`SceneError::InvalidRequest`] for a width that is none, [`SceneError::StaleFrame`] and
    /// [`SceneError::FutureFrame`] for a stamp that is too old or lies in the future.
    pub fn feel_gripper(&mut self, reading: &GripReading, now: Stamp) -> Result<Felt, SceneError> {
        self.advance(now);
        check(reading, now, &self.config)?;
        let tool = self.tracker.tool.map(|t| t.position);
        let Some((fingers, since)) = self.tracker.grip.take(reading, tool, &self.config) else {
            return Ok(Felt::default());
        };
        if self.graph.get(ROBOT).is_none() {
            return Ok(Felt::default());
        }
        let held = self.graph.objects_of(ROBOT, RelationKind::Holds);
        let mut felt = Felt::default();
        match fingers {
            Fingers::Holding => {
                if !held.is_empty() {
                    self.tracker.grip.looked = true;
                } else if let Some(name) = self.between_the_fingers(since) {
                    effects::take_in_hand(
                        &mut self.graph,
                        &mut self.tracker,
                        &name,
                        reading.stamp,
                        Source::Perception,
                    );
                    self.follow_tool(reading.stamp);
                    felt.taken = Some(name);
                }
            }
            Fingers::Open | Fingers::Closed | Fingers::Empty => {
                for name in held {
                    let Some(edge) = self.graph.edge(ROBOT, RelationKind::Holds, &name) else {
                        continue;
                    };
                    let said = edge.stamp;
                    // The later observation wins, and an edge that is newer than the state has its time.
                    if reading.stamp.since(since.max(said)) >= self.config.grip_settle {
                        let stamp = reading.stamp;
                        let config = &self.config;
                        self.tracker
                            .note_let_go(&mut self.graph, &name, said, stamp, config);
                        felt.let_go.push(name);
                    }
                }
            }
            // What an edge says stands; without one nothing is known.
            Fingers::Unclear if !held.is_empty() => return Ok(felt),
            Fingers::Unclear => {}
        }
        felt.gripper = tell(&mut self.graph, fingers, since, reading.stamp);
        Ok(felt)
    }

    /// The one object between the fingers that hold something since a time: it stood there when they closed,
    /// or it was seen between them since.
    fn between_the_fingers(&mut self, since: Stamp) -> Option<String> {
        let closed_at = if self.tracker.grip.looked {
            None
        } else {
            self.tracker.grip.place
        };
        self.tracker.grip.looked = true;
        let tool = self.tracker.tool.map(|t| t.position);
        let config = &self.config;
        let is_it = |o: &&SceneObject| {
            let closed_on = closed_at.is_some_and(|place| {
                since.since(o.last_seen) <= config.grip_memory && contains(o, place, config)
            });
            let in_hand =
                o.last_seen > since && tool.is_some_and(|place| contains(o, place, config));
            o.kind == Kind::Object && o.source != Source::Map && (closed_on || in_hand)
        };
        let mut fitting = self.graph.live().filter(is_it);
        let name = fitting.next()?.r#ref.clone();
        fitting.next().is_none().then_some(name)
    }
}

/// True when a point is in an object's box, slightly grown.
fn contains(object: &SceneObject, point: Vec3, config: &SceneConfig) -> bool {
    let size = if object.size.is_zero() {
        Vec3::new(ASSUMED_EDGE, ASSUMED_EDGE, ASSUMED_EDGE)
    } else {
        object.size
    };
    let solid = Solid {
        pose: object.pose,
        size,
    };
    solid.contains(point, config.grip_margin)
}

fn check(reading: &GripReading, now: Stamp, config: &SceneConfig) -> Result<(), SceneError> {
    if !(reading.width.is_finite() && reading.width.abs() <= WIDEST) {
        return Err(SceneError::InvalidRequest {
            reason: format!(
                "the gripper reports a width of {} m; it must be a number within {WIDEST} m: check its driver",
                reading.width
            ),
        });
    }
    let origin = || "the gripper".to_string();
    let age = now.since(reading.stamp);
    if age > config.max_frame_age {
        return Err(SceneError::StaleFrame {
            origin: origin(),
            age: age.as_secs_f64(),
            limit: config.max_frame_age.as_secs_f64(),
        });
    }
    let ahead = reading.stamp.since(now);
    if ahead > config.max_ahead {
        return Err(SceneError::FutureFrame {
            origin: origin(),
            ahead: ahead.as_secs_f64(),
            limit: config.max_ahead.as_secs_f64(),
        });
    }
    Ok(())
}

/// Writes into the robot's state what the fingers do; returns the word when it is news.
fn tell(
    graph: &mut SceneGraph,
    fingers: Fingers,
    since: Stamp,
    stamp: Stamp,
) -> Option<&'static str> {
    let word = fingers.word();
    let since = word.map(|_| since.0.to_string());
    let mut is_news = false;
    graph.edit(ROBOT, stamp, |o| {
        is_news = o.state.get(STATE_GRIPPER).map(String::as_str) != word;
        if !is_news && o.state.get(STATE_GRIPPER_SINCE) == since.as_ref() {
            return Edit::Same;
        }
        match (word, since) {
            (Some(word), Some(since)) => {
                o.state.insert(STATE_GRIPPER.into(), word.into());
                o.state.insert(STATE_GRIPPER_SINCE.into(), since);
            }
            (None, _) | (_, None) => {
                o.state.remove(STATE_GRIPPER);
                o.state.remove(STATE_GRIPPER_SINCE);
            }
        }
        // Since when is no news: after a gap in the readings it is counted anew.
        if is_news {
            Edit::Changed
        } else {
            Edit::Refreshed
        }
    });
    is_news.then(|| word.unwrap_or("not known"))
}

impl Tracker {
    /// True when the fingers were felt to hold nothing after a time, and still do.
    pub(crate) fn feels_nothing_after(&self, stamp: Stamp, config: &SceneConfig) -> bool {
        self.grip
            .holds_nothing_since(config)
            .is_some_and(|since| since > stamp)
    }
}

//! Faults by name: when each strikes, how often, and with which parameters.

use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::SimError;

/// What can be made to go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// A grasp stalls as usual, but the object slips out during the next movement.
    GraspSlip,
    /// A navigation goal is aborted while it runs (`after_s`, `code`).
    NavAbort,
    /// The wheels slip: the base does not move, whatever is commanded (`duration_s`).
    NavStuck,
    /// No scan is made (`duration_s`).
    ScanSilent,
    /// Each scan repeats the last one's ranges (`duration_s`).
    ScanFrozen,
    /// No detections are made (`duration_s`).
    DetectionsSilent,
    /// A server's answer to a goal request is lost (`server`). For the ROS edge to act on.
    LostAck,
    /// A server's result is lost (`server`). For the ROS edge to act on.
    LostResult,
    /// A server forgets its goals, as after a restart (`server`). For the ROS edge to act on.
    ServerRestart,
    /// An object is moved by another hand (`object`, `position`, `on`).
    ObjectMoved,
    /// A door closes (`door`; open again after `duration_s`, if given).
    DoorClosed,
    /// The localisation is off by `offset` (for `duration_s`, if given).
    LocalizationJump,
    /// The fingers do not move (`duration_s`).
    GripperStuck,
    /// An arm motion stops with an error while it runs (`after_s`, `code`).
    ArmAbort,
}

impl FaultKind {
    /// Every fault, in the order of the declaration.
    pub const ALL: [Self; 14] = [
        Self::GraspSlip,
        Self::NavAbort,
        Self::NavStuck,
        Self::ScanSilent,
        Self::ScanFrozen,
        Self::DetectionsSilent,
        Self::LostAck,
        Self::LostResult,
        Self::ServerRestart,
        Self::ObjectMoved,
        Self::DoorClosed,
        Self::LocalizationJump,
        Self::GripperStuck,
        Self::ArmAbort,
    ];

    /// The fault's name in files and services.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::GraspSlip => "grasp_slip",
            Self::NavAbort => "nav_abort",
            Self::NavStuck => "nav_stuck",
            Self::ScanSilent => "scan_silent",
            Self::ScanFrozen => "scan_frozen",
            Self::DetectionsSilent => "detections_silent",
            Self::LostAck => "lost_ack",
            Self::LostResult => "lost_result",
            Self::ServerRestart => "server_restart",
            Self::ObjectMoved => "object_moved",
            Self::DoorClosed => "door_closed",
            Self::LocalizationJump => "localization_jump",
            Self::GripperStuck => "gripper_stuck",
            Self::ArmAbort => "arm_abort",
        }
    }

    /// Every name, separated by commas.
    #[must_use]
    pub fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    /// The occasion at which the fault strikes when neither a time nor an occasion is given.
    ///
    /// None: it begins at once.
    #[must_use]
    pub const fn default_occasion(self) -> Option<Occasion> {
        match self {
            Self::GraspSlip => Some(Occasion::Grasp),
            Self::NavAbort => Some(Occasion::NavGoal),
            Self::ArmAbort => Some(Occasion::ArmGoal),
            Self::LostAck | Self::LostResult | Self::ServerRestart => Some(Occasion::ServerGoal),
            Self::NavStuck
            | Self::ScanSilent
            | Self::ScanFrozen
            | Self::DetectionsSilent
            | Self::ObjectMoved
            | Self::DoorClosed
            | Self::LocalizationJump
            | Self::GripperStuck => None,
        }
    }

    /// Whether the fault only means something at its own occasion (a goal, a grasp).
    const fn is_occasional(self) -> bool {
        self.default_occasion().is_some()
    }
}

impl FromStr for FaultKind {
    type Err = SimError;

    fn from_str(name: &str) -> Result<Self, SimError> {
        Self::ALL
            .into_iter()
            .find(|k| k.name() == name)
            .ok_or_else(|| SimError::UnknownFault {
                name: name.chars().take(64).collect(),
                known: Self::names(),
            })
    }
}

/// A moment that faults can be tied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Occasion {
    /// A navigation goal is accepted.
    NavGoal,
    /// An arm goal is accepted.
    ArmGoal,
    /// A gripper goal is accepted.
    GripperGoal,
    /// The fingers close on an object.
    Grasp,
    /// An object is lifted off its support by the gripper.
    Lift,
    /// The ROS edge asks for its own faults: see `take_server_fault`.
    ServerGoal,
}

/// The details of a fault; what is not given has a default.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct FaultParams {
    /// How long it lasts, seconds; until cleared when not given.
    pub duration_s: Option<f64>,
    /// How long after the occasion it strikes, seconds; 1.0 when not given.
    pub after_s: Option<f64>,
    /// The error code to end with.
    pub code: Option<i32>,
    /// The object concerned.
    pub object: Option<String>,
    /// Where the object goes: x, y in metres, map frame.
    pub position: Option<[f64; 2]>,
    /// The furniture the object goes onto; the floor or whatever is there when not given.
    pub on: Option<String>,
    /// The door concerned.
    pub door: Option<String>,
    /// The server concerned; any when not given.
    pub server: Option<String>,
    /// The localisation's error: x, y in metres, yaw in radians; 0.6, 0.3, 0.2 when not given.
    pub offset: Option<[f64; 3]>,
}

/// One fault of a schedule.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FaultSpec {
    /// What goes wrong.
    pub fault: FaultKind,
    /// The earliest time, seconds of the simulation; now when not given.
    #[serde(default)]
    pub at: Option<f64>,
    /// The occasion that it waits for; the fault's own when not given.
    #[serde(default)]
    pub on: Option<Occasion>,
    /// At which of those occasions it strikes first, from 1.
    #[serde(default = "one")]
    pub nth: u32,
    /// At how many occasions in a row it strikes.
    #[serde(default = "one")]
    pub count: u32,
    /// Its details.
    #[serde(default)]
    pub params: FaultParams,
}

const fn one() -> u32 {
    1
}

impl FaultSpec {
    /// The fault with no conditions and no details.
    #[must_use]
    pub fn new(fault: FaultKind) -> Self {
        Self {
            fault,
            at: None,
            on: None,
            nth: 1,
            count: 1,
            params: FaultParams::default(),
        }
    }

    /// Checks the numbers and that what the fault needs is given.
    ///
    /// # Errors
    /// [`SimError::BadFault`].
    pub fn validate(&self) -> Result<(), SimError> {
        let bad = |problem: String| {
            Err(SimError::BadFault {
                fault: self.fault.name(),
                problem,
            })
        };
        let p = &self.params;
        for (what, value) in [
            ("at", self.at),
            ("duration_s", p.duration_s),
            ("after_s", p.after_s),
        ] {
            if let Some(v) = value {
                if !(v.is_finite() && (0.0..=1e6).contains(&v)) {
                    return bad(format!("has {what} = {v}; give 0 … 1000000 s"));
                }
            }
        }
        if self.nth == 0 || self.count == 0 {
            return bad(format!(
                "has nth = {} and count = {}; both start at 1",
                self.nth, self.count
            ));
        }
        let numbers = p.position.iter().flatten().chain(p.offset.iter().flatten());
        if let Some(v) = numbers
            .copied()
            .find(|v| !(v.is_finite() && v.abs() <= 1000.0))
        {
            return bad(format!(
                "has the number {v}; give finite numbers within ±1000"
            ));
        }
        if let (Some(own), Some(on)) = (self.fault.default_occasion(), self.on) {
            if own != on {
                return bad(format!(
                    "strikes on {own:?} only, not on {on:?}; leave `on` out"
                ));
            }
        }
        match self.fault {
            FaultKind::ObjectMoved if p.object.is_none() => {
                bad("needs params.object, the id of the object".to_owned())
            }
            FaultKind::ObjectMoved if p.position.is_none() && p.on.is_none() => {
                bad("needs params.position or params.on".to_owned())
            }
            FaultKind::DoorClosed if p.door.is_none() => {
                bad("needs params.door, the id of the door".to_owned())
            }
            _ => Ok(()),
        }
    }
}

/// A fault that has been scheduled or injected, with what it has counted.
#[derive(Debug, Clone)]
struct Entry {
    spec: FaultSpec,
    from: Duration,
    seen: u32,
    /// For faults that last: when they began.
    began: Option<Duration>,
}

impl Entry {
    fn strikes(&self) -> bool {
        self.seen >= self.spec.nth && self.seen - self.spec.nth < self.spec.count
    }

    fn is_spent(&self) -> bool {
        self.seen >= self.spec.nth.saturating_add(self.spec.count - 1)
    }
}

/// All faults of a run.
#[derive(Debug, Clone, Default)]
pub struct FaultSchedule {
    entries: Vec<Entry>,
    /// Faults that became due and concern the world: handed out by `due`.
    struck: Vec<FaultSpec>,
}

impl FaultSchedule {
    /// Most faults that can be pending at one time.
    pub const MAX_ENTRIES: usize = 1000;

    /// Adds a fault. `now` is the time of the simulation.
    ///
    /// # Errors
    /// [`SimError::BadFault`] when it is not valid or there are too many.
    pub fn add(&mut self, spec: FaultSpec, now: Duration) -> Result<(), SimError> {
        spec.validate()?;
        if self.entries.len() >= Self::MAX_ENTRIES {
            return Err(SimError::BadFault {
                fault: spec.fault.name(),
                problem: format!(
                    "is one too many: {} are pending; clear some",
                    Self::MAX_ENTRIES
                ),
            });
        }
        let from = spec.at.map_or(now, Duration::from_secs_f64).max(now);
        self.entries.push(Entry {
            spec,
            from,
            seen: 0,
            began: None,
        });
        Ok(())
    }

    /// Removes every fault of that kind, pending or lasting; returns how many there were.
    pub fn clear(&mut self, kind: FaultKind) -> usize {
        let before = self.entries.len();
        self.entries.retain(|e| e.spec.fault != kind);
        before - self.entries.len()
    }

    /// Removes every fault; returns how many there were.
    pub fn clear_all(&mut self) -> usize {
        self.struck.clear();
        let before = self.entries.len();
        self.entries.clear();
        before
    }

    /// Counts one occasion of an occasional fault's own kind; returns its details if it strikes.
    ///
    /// `server` narrows server faults; a fault that names no server strikes any.
    pub fn strike(
        &mut self,
        kind: FaultKind,
        server: Option<&str>,
        now: Duration,
    ) -> Option<FaultParams> {
        let mut found = None;
        for entry in &mut self.entries {
            let spec = &entry.spec;
            let concerns = spec.fault == kind
                && kind.is_occasional()
                && now >= entry.from
                && (server.is_none()
                    || spec.params.server.is_none()
                    || spec.params.server.as_deref() == server);
            if !concerns {
                continue;
            }
            entry.seen = entry.seen.saturating_add(1);
            if found.is_none() && entry.strikes() {
                found = Some(spec.params.clone());
            }
        }
        self.entries
            .retain(|e| !(e.spec.fault.is_occasional() && e.is_spent()));
        found
    }

    /// Counts one occasion for the lasting faults that wait for it: those due begin.
    pub fn happened(&mut self, occasion: Occasion, now: Duration) {
        for entry in &mut self.entries {
            if entry.spec.fault.is_occasional()
                || entry.spec.on != Some(occasion)
                || now < entry.from
            {
                continue;
            }
            entry.seen = entry.seen.saturating_add(1);
            if entry.strikes() {
                entry.began = Some(now);
                self.struck.push(entry.spec.clone());
            }
        }
    }

    /// Begins and ends the faults that depend on time; returns those that began since the last call.
    pub fn advance(&mut self, now: Duration) -> Vec<FaultSpec> {
        for entry in &mut self.entries {
            if !entry.spec.fault.is_occasional()
                && entry.spec.on.is_none()
                && entry.began.is_none()
                && now >= entry.from
            {
                entry.began = Some(now);
                self.struck.push(entry.spec.clone());
            }
        }
        self.entries
            .retain(|e| match (e.began, e.spec.params.duration_s) {
                (Some(began), Some(lasts)) => now < began + Duration::from_secs_f64(lasts),
                // A hand that moved an object has gone.
                (Some(_), None) if e.spec.fault == FaultKind::ObjectMoved => {
                    e.spec.on.is_some() && !e.is_spent()
                }
                _ => true,
            });
        std::mem::take(&mut self.struck)
    }

    /// The details of a lasting fault of that kind that is on now.
    #[must_use]
    pub fn lasting(&self, kind: FaultKind) -> Option<&FaultParams> {
        self.entries
            .iter()
            .find(|e| e.spec.fault == kind && e.began.is_some())
            .map(|e| &e.spec.params)
    }

    /// The lasting faults of that kind that are on now.
    pub fn all_lasting(&self, kind: FaultKind) -> impl Iterator<Item = &FaultParams> {
        self.entries
            .iter()
            .filter(move |e| e.spec.fault == kind && e.began.is_some())
            .map(|e| &e.spec.params)
    }

    /// Every fault that is pending or on.
    pub fn pending(&self) -> impl Iterator<Item = &FaultSpec> {
        self.entries.iter().map(|e| &e.spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn names_round_trip_and_the_unknown_lists_them_all() {
        for kind in FaultKind::ALL {
            assert_eq!(kind.name().parse::<FaultKind>().unwrap(), kind);
        }
        let message = "gremlin".parse::<FaultKind>().unwrap_err().to_string();
        assert!(
            message.contains("gremlin") && message.contains("grasp_slip"),
            "{message}"
        );
    }

    #[test]
    fn an_occasional_fault_strikes_from_the_nth_for_count_times() {
        let mut faults = FaultSchedule::default();
        let mut spec = FaultSpec::new(FaultKind::GraspSlip);
        spec.nth = 2;
        spec.count = 2;
        faults.add(spec, s(0)).unwrap();
        let hits: Vec<bool> = (0..5)
            .map(|_| faults.strike(FaultKind::GraspSlip, None, s(1)).is_some())
            .collect();
        assert_eq!(hits, [false, true, true, false, false]);
        assert_eq!(faults.pending().count(), 0);
    }

    #[test]
    fn a_lasting_fault_begins_at_its_time_and_ends_after_its_duration() {
        let mut faults = FaultSchedule::default();
        let mut spec = FaultSpec::new(FaultKind::ScanSilent);
        spec.at = Some(5.0);
        spec.params.duration_s = Some(2.0);
        faults.add(spec, s(0)).unwrap();
        assert!(faults.advance(s(4)).is_empty() && faults.lasting(FaultKind::ScanSilent).is_none());
        assert_eq!(faults.advance(s(5)).len(), 1);
        assert!(faults.lasting(FaultKind::ScanSilent).is_some());
        assert!(faults.advance(s(7)).is_empty() && faults.lasting(FaultKind::ScanSilent).is_none());
    }

    #[test]
    fn a_lasting_fault_can_wait_for_an_occasion() {
        let mut faults = FaultSchedule::default();
        let mut spec = FaultSpec::new(FaultKind::NavStuck);
        spec.on = Some(Occasion::NavGoal);
        faults.add(spec, s(0)).unwrap();
        faults.advance(s(1));
        assert!(faults.lasting(FaultKind::NavStuck).is_none());
        faults.happened(Occasion::NavGoal, s(2));
        assert_eq!(faults.advance(s(2)).len(), 1);
        assert!(faults.lasting(FaultKind::NavStuck).is_some());
        assert_eq!(faults.clear(FaultKind::NavStuck), 1);
    }

    #[test]
    fn server_faults_are_narrowed_by_server() {
        let mut faults = FaultSchedule::default();
        let mut spec = FaultSpec::new(FaultKind::LostAck);
        spec.params.server = Some("navigate_to_pose".to_owned());
        faults.add(spec, s(0)).unwrap();
        let mut take = |server| faults.strike(FaultKind::LostAck, Some(server), s(0));
        assert!(take("move_action").is_none());
        assert!(take("navigate_to_pose").is_some());
        assert!(take("navigate_to_pose").is_none());
    }

    #[test]
    fn bad_details_are_refused() {
        let mut moved = FaultSpec::new(FaultKind::ObjectMoved);
        assert!(moved
            .validate()
            .unwrap_err()
            .to_string()
            .contains("params.object"));
        moved.params.object = Some("cup".to_owned());
        moved.params.position = Some([f64::NAN, 0.0]);
        assert!(moved.validate().unwrap_err().to_string().contains("NaN"));
        let mut late = FaultSpec::new(FaultKind::ScanSilent);
        late.at = Some(f64::INFINITY);
        assert!(late.validate().is_err());
        late.at = None;
        late.count = 0;
        assert!(late.validate().is_err());
    }
}

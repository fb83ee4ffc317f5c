//! The places in a life at which a process may end, each with a name, and the plans of when it does.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use crate::process_id::ProcessId;

/// When, seen from a write or a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Moment {
    /// Nothing of it was done.
    Before,
    /// It is written and not yet synced: a write only.
    Unsynced,
    /// All of it was done, and whoever did it does not know yet.
    After,
}

impl Moment {
    /// Name in the trace.
    pub const fn name(self) -> &'static str {
        match self {
            Moment::Before => "before",
            Moment::Unsynced => "unsynced",
            Moment::After => "after",
        }
    }
}

/// A place in the life of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Whose life.
    pub process: ProcessId,
    /// Name of the write or send.
    pub name: &'static str,
    /// Before or after it.
    pub moment: Moment,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.process, self.moment.name(), self.name)
    }
}

/// Writes and sends of the world's own parts of processes: what their nodes do beside the linked crates.
pub mod own {
    /// Protection keeps a token.
    pub const LEASE_KEEP: &str = "protection.keep_token";
    /// Protection answers about the lease.
    pub const LEASE_ANSWER: &str = "protection.answer_lease";
    /// Protection publishes the lease.
    pub const LEASE_NEWS: &str = "protection.publish_lease";
    /// Protection keeps a stop.
    pub const STOP_KEEP: &str = "protection.keep_stop";
    /// Protection keeps that a stop was taken back.
    pub const RESET_KEEP: &str = "protection.keep_reset";
    /// Protection answers about a stop or a reset.
    pub const STOP_ANSWER: &str = "protection.answer_stop";
    /// Protection publishes its state.
    pub const STATE_NEWS: &str = "protection.publish_state";
    /// The scene graph keeps a batch.
    pub const SCENE_WRITE: &str = "scene.write";
    /// The scene graph answers about effects.
    pub const SCENE_APPLIED: &str = "scene.answer_effects";
    /// The scene graph answers a question.
    pub const SCENE_ANSWER: &str = "scene.answer_query";
    /// The evaluator gives a verdict.
    pub const VERDICT: &str = "evaluator.answer";
    /// An executor tells its clock.
    pub const BEACON: &str = "executor.beacon";
    /// An executor acknowledges a goal.
    pub const ACKNOWLEDGE: &str = "executor.acknowledge";
    /// An executor answers a question for a command.
    pub const QUERY_ANSWER: &str = "executor.query_answer";
    /// The lease holder of the harness calls.
    pub const LEASE_CALL: &str = "harness.lease_call";
}

/// What is written: it has a moment between the write and the sync.
pub fn is_write(name: &str) -> bool {
    name.starts_with("executor.append.")
        || name.starts_with("executor.note.")
        || matches!(
            name,
            eh_harness::Effect::SAVE_COMMAND
                | eh_harness::Effect::SAVE_TASK
                | eh_harness::Effect::JOURNAL
        )
        || matches!(
            name,
            own::LEASE_KEEP | own::STOP_KEEP | own::RESET_KEEP | own::SCENE_WRITE
        )
}

/// Every name of a process.
pub fn names(process: ProcessId) -> Vec<&'static str> {
    match process {
        ProcessId::Harness => eh_harness::Effect::FAILPOINTS
            .iter()
            .copied()
            .chain([own::LEASE_CALL])
            .collect(),
        ProcessId::Navigation | ProcessId::Manipulation => eh_executor::Effect::FAILPOINTS
            .iter()
            .copied()
            .chain(eh_executor::RecordKind::ALL.iter().map(|k| k.failpoint()))
            .chain([
                eh_executor::journal::NOTE_FAILPOINT,
                own::BEACON,
                own::ACKNOWLEDGE,
                own::QUERY_ANSWER,
            ])
            .collect(),
        ProcessId::Scene => vec![own::SCENE_WRITE, own::SCENE_APPLIED, own::SCENE_ANSWER],
        ProcessId::Evaluator => vec![own::VERDICT],
        ProcessId::Protection => vec![
            own::LEASE_KEEP,
            own::LEASE_ANSWER,
            own::LEASE_NEWS,
            own::STOP_KEEP,
            own::RESET_KEEP,
            own::STOP_ANSWER,
            own::STATE_NEWS,
        ],
        ProcessId::Robot | ProcessId::Client | ProcessId::Operator | ProcessId::Rival => vec![],
    }
}

/// Every place at which a process may end.
pub fn all() -> Vec<Place> {
    let mut places = Vec::new();
    for process in ProcessId::MORTAL {
        for name in names(process) {
            for moment in [Moment::Before, Moment::Unsynced, Moment::After] {
                if moment != Moment::Unsynced || is_write(name) {
                    places.push(Place {
                        process,
                        name,
                        moment,
                    });
                }
            }
        }
    }
    places
}

/// When a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// When it comes to a place for the nth time, from 1.
    Place(Place, u32),
    /// When it comes to any place for the nth time.
    Any(ProcessId, u32),
    /// At a time.
    Time(ProcessId, Duration),
}

impl Trigger {
    /// Which process.
    pub const fn process(&self) -> ProcessId {
        match self {
            Trigger::Place(place, _) => place.process,
            Trigger::Any(process, _) | Trigger::Time(process, _) => *process,
        }
    }
}

/// An end that is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrashPlan {
    /// When.
    pub trigger: Trigger,
    /// How long until it is started again.
    pub down: Duration,
    /// The machine loses its power: all processes end with it.
    pub all: bool,
}

/// A process ended; whatever it was about to do is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash;

/// All plans, and what was passed and struck so far.
#[derive(Clone, Debug, Default)]
pub struct Crashes {
    plans: Vec<(CrashPlan, u32)>,
    passed: BTreeMap<Place, u64>,
    struck: BTreeMap<Place, u64>,
    timed: u64,
    unnamed: BTreeSet<Place>,
    known: BTreeSet<Place>,
    happened: Option<CrashPlan>,
    last: Option<Duration>,
}

impl Crashes {
    /// These plans.
    pub fn new(plans: Vec<CrashPlan>) -> Self {
        Crashes {
            plans: plans.into_iter().map(|p| (p, 0)).collect(),
            known: all().into_iter().collect(),
            ..Crashes::default()
        }
    }

    /// A process comes to a place.
    ///
    /// # Errors
    /// [`Crash`] when it ends here.
    pub fn pass(&mut self, place: Place, now: Duration) -> Result<(), Crash> {
        *self.passed.entry(place).or_default() += 1;
        if !self.known.contains(&place) {
            self.unnamed.insert(place);
        }
        let mut struck = None;
        for (i, (plan, count)) in self.plans.iter_mut().enumerate() {
            let (counts, nth) = match plan.trigger {
                Trigger::Place(at, nth) => (at == place, nth),
                Trigger::Any(process, nth) => (process == place.process, nth),
                Trigger::Time(..) => (false, 0),
            };
            if counts {
                *count += 1;
                if *count == nth && struck.is_none() {
                    struck = Some(i);
                }
            }
        }
        let Some(i) = struck else { return Ok(()) };
        let (plan, _) = self.plans.remove(i);
        *self.struck.entry(place).or_default() += 1;
        self.happened = Some(plan);
        self.last = Some(now);
        Err(Crash)
    }

    /// Plans whose time has come.
    pub fn due(&mut self, now: Duration) -> Vec<CrashPlan> {
        let due = |t: &Trigger| matches!(t, Trigger::Time(_, at) if *at <= now);
        let (now_due, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.plans)
            .into_iter()
            .partition(|(p, _)| due(&p.trigger));
        self.plans = later;
        self.timed += now_due.len() as u64;
        if !now_due.is_empty() {
            self.last = Some(now);
        }
        now_due.into_iter().map(|(p, _)| p).collect()
    }

    /// The plan behind the last [`Crash`].
    pub fn take_happened(&mut self) -> Option<CrashPlan> {
        self.happened.take()
    }

    /// No further end is to come.
    pub fn call_off(&mut self) {
        self.plans.clear();
    }

    /// How often each place was passed.
    pub const fn passed(&self) -> &BTreeMap<Place, u64> {
        &self.passed
    }

    /// How often a process ended at each place.
    pub const fn struck(&self) -> &BTreeMap<Place, u64> {
        &self.struck
    }

    /// Ends at a time.
    pub const fn timed(&self) -> u64 {
        self.timed
    }

    /// Places that no list names.
    pub const fn unnamed(&self) -> &BTreeSet<Place> {
        &self.unnamed
    }

    /// When the last process ended.
    pub const fn last(&self) -> Option<Duration> {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = Place {
        process: ProcessId::Scene,
        name: own::SCENE_WRITE,
        moment: Moment::Unsynced,
    };

    fn plan(trigger: Trigger) -> CrashPlan {
        CrashPlan {
            trigger,
            down: Duration::from_secs(1),
            all: false,
        }
    }

    #[test]
    fn a_plan_strikes_once_at_its_nth_time() {
        let mut crashes = Crashes::new(vec![plan(Trigger::Place(PLACE, 2))]);
        let ends: Vec<bool> = (0..4)
            .map(|_| crashes.pass(PLACE, Duration::ZERO).is_err())
            .collect();
        assert_eq!(ends, [false, true, false, false]);
        assert_eq!((crashes.passed()[&PLACE], crashes.struck()[&PLACE]), (4, 1));
    }

    #[test]
    fn names_are_unique_and_writes_have_a_moment_between() {
        let places = all();
        let unique: BTreeSet<_> = places.iter().collect();
        assert_eq!(unique.len(), places.len());
        assert!(places.contains(&PLACE));
        let unsynced = |p: &&Place| p.moment == Moment::Unsynced;
        // Two executors with 14 kinds of records and a note each, three of the harness, token, stop, reset, scene.
        assert_eq!(places.iter().filter(unsynced).count(), 2 * 15 + 3 + 4);
    }

    #[test]
    fn a_place_without_a_name_is_noticed() {
        let mut crashes = Crashes::new(vec![]);
        let nameless = Place {
            name: "scene.forgotten",
            ..PLACE
        };
        assert_eq!(crashes.pass(nameless, Duration::ZERO), Ok(()));
        assert_eq!(crashes.unnamed().len(), 1);
    }
}

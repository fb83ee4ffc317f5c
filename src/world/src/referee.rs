//! What must never be, and what has to be at the end: judged from what the robot did, what is on the disks
//! and what time it is, not from what the processes say.

mod ending;
mod executors;
mod issuer;
mod motion;
mod promises;
mod starts;
mod stops;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use eh_contract::state::CommandState;
use eh_ledger::executor::{ExecutorRecord, GoalId};
use eh_ledger::issuer::IssuerRecord;

use crate::context::{HarnessWrite, JournalWrite, Outside};
use crate::network::Conditions;
use crate::process_id::ProcessId;
use crate::processes::harness::tasks;
use crate::processes::protection::ProtectionView;
use crate::report::{Report, Violation};
use crate::robot::RobotProcess;

/// Most violations of one run that are kept: after the first ones nothing is as it should be.
const MOST: usize = 20;

/// A command as the issuer's disk has it.
struct Issued {
    record: IssuerRecord,
    /// Its effect was there in truth at some time since its control ended.
    held: bool,
}

/// The referee.
pub struct Referee {
    conditions: Conditions,
    violations: Vec<Violation>,
    seen: [usize; 3],
    issued: BTreeMap<String, Issued>,
    executed: BTreeMap<(ProcessId, String), ExecutorRecord>,
    /// Commands whose executor has seen them started, by its disk.
    started: BTreeSet<String>,
    uuids: BTreeSet<GoalId>,
    dispatches: BTreeSet<GoalId>,
    /// Failures of a task's step since it last succeeded.
    failures: BTreeMap<String, u32>,
    sub_goals: BTreeSet<(String, u32, String)>,
    owners: BTreeMap<GoalId, String>,
    last_run: Option<Duration>,
    last_lease: Option<Duration>,
    /// Since when what moves does, by resource.
    moving: BTreeMap<String, Duration>,
    /// When protection could last not reach the base.
    last_cut: Option<Duration>,
    /// Since when the disk holds a stop.
    stop_kept: Option<Duration>,
    /// Since when a stop is in force that the disk, which works, does not hold.
    stop_unkept: Option<Duration>,
    pessimistic: u64,
    grants: usize,
}

impl Referee {
    /// A referee who knows how slow the network may be.
    pub fn new(conditions: Conditions) -> Self {
        Referee {
            conditions,
            violations: Vec::new(),
            seen: [0; 3],
            issued: BTreeMap::new(),
            executed: BTreeMap::new(),
            started: BTreeSet::new(),
            uuids: BTreeSet::new(),
            dispatches: BTreeSet::new(),
            failures: BTreeMap::new(),
            sub_goals: BTreeSet::new(),
            owners: BTreeMap::new(),
            moving: BTreeMap::new(),
            last_run: None,
            last_lease: None,
            last_cut: None,
            stop_kept: None,
            stop_unkept: None,
            pessimistic: 0,
            grants: 0,
        }
    }

    fn broken(&mut self, outside: &mut Outside, rule: &'static str, what: String) {
        outside.note(&"REFEREE", format_args!("{rule}: {what}"));
        if self.violations.len() < MOST {
            self.violations.push(Violation {
                at: outside.now,
                rule,
                what,
            });
        }
    }

    /// Looks at everything that is new. `protection`: how it is in truth; `None` while it is dead.
    pub fn look(
        &mut self,
        outside: &mut Outside,
        robot: &RobotProcess,
        protection: Option<ProtectionView>,
    ) {
        self.note_motion(outside, robot);
        self.read_journals(outside, robot);
        self.read_ledger(outside, robot);
        self.look_at_dispatches(outside);
        self.look_at_starts(outside);
        self.look_at_stop(outside, robot, protection);
        self.look_at_motion(outside, robot, protection.is_some_and(|p| p.lease_alive));
        self.remember_effects(robot);
        let grants = outside.witness.grants();
        if grants.len() > self.grants {
            self.grants = grants.len();
            let older = grants
                .split_last()
                .map_or(0, |(_, before)| before.iter().copied().max().unwrap_or(0));
            let newest = grants.last().copied().unwrap_or(0);
            if newest <= older {
                let what = format!("token {newest} was granted after {older}");
                self.broken(outside, "tokens grow", what);
            }
        }
        for (task_id, outcome) in outside.witness.take_ends() {
            let kept = tasks(outside.disks.harness.durable()).remove(&task_id);
            // Of a task that was refused nothing need be kept.
            if let Some(kept) = kept.filter(|kept| kept.outcome != outcome) {
                let what = format!(
                    "{task_id} was told to be {outcome:?} and is {:?} on the disk",
                    kept.outcome
                );
                self.broken(outside, "an end is durable before it is told", what);
            }
        }
        for (at, goal_id) in outside.witness.take_twice() {
            let what = format!(
                "goal {} came a second time at {:.2} s",
                crate::message::short(&goal_id),
                at.as_secs_f64()
            );
            self.broken(outside, "a UUID is sent once", what);
        }
    }

    fn read_journals(&mut self, outside: &mut Outside, robot: &RobotProcess) {
        for (i, process) in [(0, ProcessId::Navigation), (1, ProcessId::Manipulation)] {
            let written = outside.disks.journal(process).durable();
            let from = self.seen[i].min(written.len());
            let new: Vec<ExecutorRecord> = written
                .get(from..)
                .unwrap_or_default()
                .iter()
                .filter_map(|w| match w {
                    JournalWrite::Record(record) => Some((**record).clone()),
                    JournalWrite::Note(..) => None,
                })
                .collect();
            self.seen[i] = written.len();
            for record in new {
                self.executor_wrote(process, record, outside, robot);
            }
        }
    }

    fn read_ledger(&mut self, outside: &mut Outside, robot: &RobotProcess) {
        let written = outside.disks.harness.durable();
        let from = self.seen[2].min(written.len());
        let new: Vec<IssuerRecord> = written
            .get(from..)
            .unwrap_or_default()
            .iter()
            .filter_map(|w| match w {
                HarnessWrite::Command(record) => Some((**record).clone()),
                HarnessWrite::Task(_) | HarnessWrite::Events(_) => None,
            })
            .collect();
        self.seen[2] = written.len();
        for record in new {
            self.issuer_wrote(record, outside, robot);
        }
    }

    /// Whether a command is UNKNOWN at its issuer.
    fn is_unknown(&self, command_id: &str) -> bool {
        self.issued.get(command_id).is_some_and(|i| {
            matches!(
                i.record.state,
                CommandState::Unknown | CommandState::Reconciling
            )
        })
    }

    /// Writes down what it found.
    pub fn tell(&self, report: &mut Report) {
        report.violations.clone_from(&self.violations);
        report.pessimistic = self.pessimistic;
        for issued in self.issued.values() {
            let state = eh_ledger::issuer::state_name(issued.record.state);
            *report.commands.entry(state).or_default() += 1;
        }
    }
}

//! What a process may do to the world: say something, write something, and end at any of it.

use std::collections::BTreeMap;
use std::fmt::Arguments;
use std::time::Duration;

use eh_contract::session::{SessionEvent, TaskRecord};
use eh_contract::Stamp;
use eh_ledger::executor::ExecutorRecord;
use eh_ledger::issuer::IssuerRecord;
use eh_ledger::issuer_policy::Now;
use eh_protection::kept_stop::StopChange;
use eh_scene::ChangeSet;

use crate::clock::{stamp, ProcessClock};
use crate::disk::{Disk, DiskTrouble};
use crate::failpoint::{Crash, Crashes, Moment, Place};
use crate::message::{Letter, News, Reply, Request, Topic};
use crate::network::Network;
use crate::process_id::{Address, ProcessId};
use crate::trace::Trace;
use crate::witness::Witness;

/// What the harness writes.
#[derive(Clone, Debug)]
pub enum HarnessWrite {
    /// A command.
    Command(Box<IssuerRecord>),
    /// A task.
    Task(Box<TaskRecord>),
    /// Events of the session log.
    Events(Vec<SessionEvent>),
}

/// What an executor writes.
#[derive(Clone, Debug)]
pub enum JournalWrite {
    /// A record after an event.
    Record(Box<ExecutorRecord>),
    /// A note.
    Note(&'static str, String),
}

/// All files.
#[derive(Debug, Default)]
pub struct Disks {
    /// The issuer's ledger.
    pub harness: Disk<HarnessWrite>,
    /// The journal of the executor of navigation skills.
    pub navigation: Disk<JournalWrite>,
    /// The journal of the executor of manipulation skills.
    pub manipulation: Disk<JournalWrite>,
    /// The scene.
    pub scene: Disk<ChangeSet>,
    /// Tokens of the control lease.
    pub tokens: Disk<u64>,
    /// Stops and resets of protection; the last one counts.
    pub stops: Disk<StopChange>,
}

impl Disks {
    /// The journal of an executor.
    pub fn journal(&mut self, process: ProcessId) -> &mut Disk<JournalWrite> {
        if process == ProcessId::Navigation {
            &mut self.navigation
        } else {
            &mut self.manipulation
        }
    }

    /// Whether a stop is latched, as far as protection's disk knows.
    pub fn stop_is_kept(&self) -> bool {
        matches!(self.stops.durable().last(), Some(StopChange::Latched(_)))
    }

    /// What was not synced by a process is lost.
    pub fn crash(&mut self, process: ProcessId) {
        match process {
            ProcessId::Harness => self.harness.crash(),
            ProcessId::Navigation => self.navigation.crash(),
            ProcessId::Manipulation => self.manipulation.crash(),
            ProcessId::Scene => self.scene.crash(),
            ProcessId::Protection => {
                self.tokens.crash();
                self.stops.crash();
            }
            ProcessId::Evaluator
            | ProcessId::Robot
            | ProcessId::Client
            | ProcessId::Operator
            | ProcessId::Rival => {}
        }
    }
}

/// What all processes share: the world outside of them.
#[derive(Debug)]
pub struct Outside {
    /// True time.
    pub now: Duration,
    /// Between them.
    pub network: Network,
    /// Under them.
    pub disks: Disks,
    /// Their ends.
    pub crashes: Crashes,
    /// What is told of them.
    pub trace: Trace,
    /// What is seen of them by the referee.
    pub witness: Witness,
    said: BTreeMap<(ProcessId, Topic), String>,
    calls: u64,
}

impl Outside {
    /// The world outside at its beginning.
    pub fn new(network: Network, crashes: Crashes, trace: Trace) -> Self {
        Outside {
            now: Duration::ZERO,
            network,
            disks: Disks::default(),
            crashes,
            trace,
            witness: Witness::default(),
            said: BTreeMap::new(),
            calls: 0,
        }
    }

    /// Notes what somebody did.
    pub fn note(&mut self, who: &dyn std::fmt::Display, what: Arguments<'_>) {
        self.trace.note(self.now, who, what);
    }
}

/// One life of a process in the world.
#[derive(Debug)]
pub struct Context<'a> {
    /// The world.
    pub outside: &'a mut Outside,
    /// Which life.
    pub me: Address,
    /// Its clocks.
    pub clock: ProcessClock,
}

impl Context<'_> {
    /// True time, for what no process knows.
    pub const fn time(&self) -> Duration {
        self.outside.now
    }

    /// Both clocks of the process.
    pub fn now(&self) -> Now {
        self.clock.now(self.outside.now)
    }

    /// ROS time.
    pub fn stamp(&self) -> Stamp {
        stamp(self.outside.now)
    }

    /// Notes something in the trace.
    pub fn note(&mut self, what: Arguments<'_>) {
        let me = self.me;
        self.outside.note(&me, what);
    }

    /// Comes to a place.
    ///
    /// # Errors
    /// [`Crash`] when the process ends here.
    pub fn pass(&mut self, name: &'static str, moment: Moment) -> Result<(), Crash> {
        let place = Place {
            process: self.me.process,
            name,
            moment,
        };
        let now = self.outside.now;
        let passed = self.outside.crashes.pass(place, now);
        if passed.is_err() {
            self.note(format_args!("ENDS {} {name}", moment.name()));
        }
        passed
    }

    /// Writes and syncs, and may end before, between and after.
    ///
    /// # Errors
    /// [`Crash`] when the process ends; else, inside, why it could not be written.
    pub fn commit<W>(
        &mut self,
        name: &'static str,
        disk: impl Fn(&mut Disks) -> &mut Disk<W>,
        what: W,
    ) -> Result<Result<(), DiskTrouble>, Crash> {
        self.pass(name, Moment::Before)?;
        let now = self.outside.now;
        if let Err(trouble) = disk(&mut self.outside.disks).write(now, what) {
            self.note(format_args!("can't write {name}: {}", trouble.words()));
            return Ok(Err(trouble));
        }
        self.pass(name, Moment::Unsynced)?;
        disk(&mut self.outside.disks).sync();
        self.pass(name, Moment::After)?;
        Ok(Ok(()))
    }

    /// Publishes.
    pub fn publish(&mut self, news: News) {
        let topic = news.topic();
        if !topic.is_stream() {
            // What is said again in the same words says nothing to who reads it.
            let words = news.to_string();
            let key = (self.me.process, topic);
            if self.outside.said.get(&key) != Some(&words) {
                self.note(format_args!("publishes {words}"));
                self.outside.said.insert(key, words);
            }
        }
        let now = self.outside.now;
        self.outside.network.publish(self.me, news, now);
    }

    /// Asks the present life of a process; the answer comes under the number that is given back, or never.
    pub fn call(&mut self, to: ProcessId, request: Request) -> u64 {
        self.outside.calls += 1;
        let call = self.outside.calls;
        let now = self.outside.now;
        let quiet = request.is_stream();
        self.outside.witness.asked(self.me, to, &request, now);
        if !quiet {
            self.note(format_args!("-> {to}: {request}"));
        }
        let sent = self
            .outside
            .network
            .request(self.me, to, call, request, now);
        if !sent && !quiet {
            self.note(format_args!("   (lost)"));
        }
        call
    }

    /// Answers.
    pub fn reply(&mut self, to: Address, call: u64, reply: Reply) {
        let now = self.outside.now;
        let quiet = reply.is_stream();
        if !quiet {
            self.note(format_args!("=> {to}: {reply}"));
        }
        let sent = self.outside.network.reply(self.me, to, call, reply, now);
        if !sent && !quiet {
            self.note(format_args!("   (lost)"));
        }
    }

    /// Whether it seems that a process is there.
    pub fn is_there(&self, process: ProcessId) -> bool {
        let now = self.outside.now;
        self.outside.network.is_there(self.me.process, process, now)
    }
}

/// Something that lives in the world.
pub trait Process {
    /// A letter has arrived.
    ///
    /// # Errors
    /// [`Crash`] when it ends.
    fn receive(&mut self, letter: Letter, context: &mut Context<'_>) -> Result<(), Crash>;

    /// A step of time has passed.
    ///
    /// # Errors
    /// [`Crash`] when it ends.
    fn step(&mut self, context: &mut Context<'_>) -> Result<(), Crash>;
}

//! One run: every process, the network between them, the robot below them and the referee above, step by step.
//!
//! Within a step the order is fixed: the robot moves, its sensors and servers speak, then every letter that is
//! due is delivered in the order in which it arrived, then every process lives a step in the order of
//! [`ProcessId::ALL`], then the referee looks.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use eh_planner::SymbolicPlanner;
use eh_sim::Robot;
use eh_skills::catalog::Adapter;

use crate::clock::{ProcessClock, STEP};
use crate::context::{Context, Outside, Process};
use crate::failpoint::{Crash, CrashPlan, Crashes};
use crate::message::{Body, Letter, News};
use crate::network::Network;
use crate::process_id::{Address, ProcessId};
use crate::processes::client::ClientProcess;
use crate::processes::evaluator::EvaluatorProcess;
use crate::processes::executor::ExecutorProcess;
use crate::processes::harness::{self, HarnessProcess};
use crate::processes::operator::OperatorProcess;
use crate::processes::protection::ProtectionProcess;
use crate::processes::rival::RivalProcess;
use crate::processes::scene::SceneProcess;
use crate::random::{between, stream, Purpose};
use crate::referee::Referee;
use crate::report::Report;
use crate::robot::RobotProcess;
use crate::scenario::Scenario;
use crate::trace::Trace;
use crate::verdicts::VerdictReferee;

/// How long everything has to be quiet before a run is over.
const QUIET: Duration = Duration::from_secs(2);

/// Why a world can't be made: one of the shipped crates refuses its own defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorldError(pub String);

impl fmt::Display for WorldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the world can't be made: {}", self.0)
    }
}

impl std::error::Error for WorldError {}

fn refused(error: impl fmt::Display) -> WorldError {
    WorldError(error.to_string())
}

/// What several runs share: nothing that changes.
#[derive(Clone, Debug)]
pub struct Shared {
    planner: Arc<SymbolicPlanner>,
}

impl Shared {
    /// Reads the planner's tables.
    ///
    /// # Errors
    /// [`WorldError`] when they can't be used.
    pub fn new() -> Result<Self, WorldError> {
        Ok(Shared {
            planner: Arc::new(SymbolicPlanner::new().map_err(refused)?),
        })
    }
}

/// The processes that are alive.
#[derive(Default)]
struct Lives {
    harness: Option<Box<HarnessProcess>>,
    executors: BTreeMap<ProcessId, Box<ExecutorProcess>>,
    scene: Option<Box<SceneProcess>>,
    evaluator: Option<Box<EvaluatorProcess>>,
    protection: Option<Box<ProtectionProcess>>,
}

impl Lives {
    fn of(&mut self, process: ProcessId) -> Option<&mut dyn Process> {
        fn dynamic<P: Process>(life: &mut Option<Box<P>>) -> Option<&mut dyn Process> {
            life.as_deref_mut().map(|p| p as &mut dyn Process)
        }
        match process {
            ProcessId::Harness => dynamic(&mut self.harness),
            ProcessId::Navigation | ProcessId::Manipulation => self
                .executors
                .get_mut(&process)
                .map(|p| &mut **p as &mut dyn Process),
            ProcessId::Scene => dynamic(&mut self.scene),
            ProcessId::Evaluator => dynamic(&mut self.evaluator),
            ProcessId::Protection => dynamic(&mut self.protection),
            ProcessId::Robot | ProcessId::Client | ProcessId::Operator | ProcessId::Rival => None,
        }
    }

    fn end(&mut self, process: ProcessId) {
        match process {
            ProcessId::Harness => self.harness = None,
            ProcessId::Navigation | ProcessId::Manipulation => {
                self.executors.remove(&process);
            }
            ProcessId::Scene => self.scene = None,
            ProcessId::Evaluator => self.evaluator = None,
            ProcessId::Protection => self.protection = None,
            ProcessId::Robot | ProcessId::Client | ProcessId::Operator | ProcessId::Rival => {}
        }
    }
}

/// One run.
pub struct World {
    scenario: Scenario,
    shared: Shared,
    outside: Outside,
    clocks: BTreeMap<ProcessId, ProcessClock>,
    down_until: BTreeMap<ProcessId, Duration>,
    lives: Lives,
    robot: RobotProcess,
    client: ClientProcess,
    operator: OperatorProcess,
    rival: RivalProcess,
    referee: Referee,
    verdicts: Option<VerdictReferee>,
    calm: bool,
    quiet_since: Option<Duration>,
}

impl World {
    /// The world of a scenario, at its beginning. `keep_trace`: its lines are wanted.
    ///
    /// # Errors
    /// [`WorldError`].
    pub fn new(scenario: Scenario, shared: &Shared, keep_trace: bool) -> Result<Self, WorldError> {
        let seed = scenario.seed;
        let mut robot = Robot::from_yaml(&scenario.yaml, Some(seed)).map_err(refused)?;
        for fault in &scenario.faults {
            robot.inject(fault.clone()).map_err(refused)?;
        }
        let network = Network::new(
            stream(seed, Purpose::Network),
            scenario.conditions,
            scenario.cuts.clone(),
            scenario.calm_from,
        );
        let crashes = Crashes::new(scenario.crashes.clone());
        let mut outside = Outside::new(network, crashes, Trace::new(keep_trace));
        for (process, episode) in &scenario.disks {
            match process {
                ProcessId::Harness => outside.disks.harness.fail(*episode),
                ProcessId::Navigation => outside.disks.navigation.fail(*episode),
                ProcessId::Manipulation => outside.disks.manipulation.fail(*episode),
                ProcessId::Scene => outside.disks.scene.fail(*episode),
                ProcessId::Protection => {
                    outside.disks.tokens.fail(*episode);
                    outside.disks.stops.fail(*episode);
                }
                ProcessId::Evaluator
                | ProcessId::Robot
                | ProcessId::Client
                | ProcessId::Operator
                | ProcessId::Rival => {}
            }
        }
        outside.disks.navigation.set_forgets(scenario.forgets);
        outside.disks.manipulation.set_forgets(scenario.forgets);
        outside.disks.tokens.set_forgets(scenario.forgets);
        let mut world = World {
            robot: RobotProcess::new(robot, &scenario.manners, stream(seed, Purpose::Servers)),
            client: ClientProcess::new(scenario.errands.clone()),
            operator: OperatorProcess::new(
                scenario.operator.clone(),
                stream(seed, Purpose::Process(900)),
            ),
            rival: RivalProcess::new(scenario.rival, stream(seed, Purpose::Process(901))),
            referee: Referee::new(scenario.conditions),
            verdicts: scenario.watch_verdicts.then(VerdictReferee::default),
            shared: shared.clone(),
            outside,
            clocks: BTreeMap::new(),
            down_until: BTreeMap::new(),
            lives: Lives::default(),
            calm: false,
            quiet_since: None,
            scenario,
        };
        for process in ProcessId::ALL {
            world.begin(process)?;
        }
        Ok(world)
    }

    fn clock(&self, process: ProcessId) -> ProcessClock {
        self.clocks
            .get(&process)
            .copied()
            .unwrap_or(ProcessClock::new(Duration::ZERO))
    }

    /// Begins a life of a process.
    fn begin(&mut self, process: ProcessId) -> Result<(), WorldError> {
        let now = self.outside.now;
        let me = self.outside.network.begin(process, now);
        let number = me.life * 16 + process.index() as u32;
        let mut rng = stream(self.scenario.seed, Purpose::Process(number));
        let offset = between(&mut rng, Duration::ZERO, Duration::from_secs(100_000));
        let clock = ProcessClock::new(offset);
        self.clocks.insert(process, clock);
        self.down_until.remove(&process);
        if me.life > 1 {
            self.outside.note(&me, format_args!("is started again"));
        }
        let planner = Arc::clone(&self.shared.planner);
        let mut context = Context {
            outside: &mut self.outside,
            me,
            clock,
        };
        let map = self.robot.robot().map();
        let begun = match process {
            ProcessId::Harness => {
                HarnessProcess::begin(harness::settings(), planner, rng, &mut context)
                    .map(|p| self.lives.harness = Some(Box::new(p)))
            }
            ProcessId::Navigation | ProcessId::Manipulation => {
                let adapter = if process == ProcessId::Navigation {
                    Adapter::Navigation
                } else {
                    Adapter::Manipulation
                };
                match ExecutorProcess::begin(adapter, rng, &mut context) {
                    Ok(Ok(p)) => {
                        self.lives.executors.insert(process, Box::new(p));
                        Ok(())
                    }
                    Ok(Err(error)) => return Err(refused(error)),
                    Err(Crash) => Err(Crash),
                }
            }
            ProcessId::Scene => {
                let written = context.outside.disks.scene.durable().to_vec();
                let p = SceneProcess::new(map, &written, &context).map_err(refused)?;
                self.lives.scene = Some(Box::new(p));
                Ok(())
            }
            ProcessId::Evaluator => {
                self.lives.evaluator = Some(Box::new(EvaluatorProcess::new(map)));
                Ok(())
            }
            ProcessId::Protection => {
                let p = ProtectionProcess::new(&mut context).map_err(refused)?;
                self.lives.protection = Some(Box::new(p));
                Ok(())
            }
            ProcessId::Robot | ProcessId::Client | ProcessId::Operator | ProcessId::Rival => Ok(()),
        };
        if begun.is_err() {
            self.crashed(process);
        }
        Ok(())
    }

    /// A process has come to a place at which it ends.
    fn crashed(&mut self, process: ProcessId) {
        let plan = self.outside.crashes.take_happened();
        if let Some(plan) = plan {
            self.end(process, &plan);
        }
    }

    fn end(&mut self, process: ProcessId, plan: &CrashPlan) {
        let now = self.outside.now;
        let ending: Vec<ProcessId> = if plan.all {
            ProcessId::MORTAL.to_vec()
        } else {
            vec![process]
        };
        for process in ending {
            if self.down_until.contains_key(&process) {
                continue;
            }
            let me = self.outside.network.address(process);
            self.outside.note(
                &me,
                format_args!(
                    "has ended{}, for {:.1} s",
                    if plan.all { ", as all" } else { "" },
                    plan.down.as_secs_f64()
                ),
            );
            self.lives.end(process);
            if process == ProcessId::Protection {
                let kept = self.outside.disks.stop_is_kept();
                self.outside.witness.protection_ended(now, kept);
            }
            self.outside.disks.crash(process);
            self.outside.network.end(process, now);
            self.down_until.insert(process, now + plan.down);
        }
    }

    fn deliver(&mut self, letter: Letter) {
        let to = letter.to;
        self.witness(&letter);
        let clock = self.clock(to.process);
        let mut context = Context {
            outside: &mut self.outside,
            me: to,
            clock,
        };
        let done = match to.process {
            ProcessId::Robot => self.robot.receive(letter, &mut context),
            ProcessId::Client => self.client.receive(letter, &mut context),
            ProcessId::Operator => {
                self.operator.receive(letter, &mut context);
                Ok(())
            }
            ProcessId::Rival => self.rival.receive(letter, &mut context),
            process => match self.lives.of(process) {
                Some(life) => life.receive(letter, &mut context),
                None => Ok(()),
            },
        };
        if done.is_err() {
            self.crashed(to.process);
        }
    }

    fn witness(&mut self, letter: &Letter) {
        let (witness, now) = (&mut self.outside.witness, self.outside.now);
        match &letter.body {
            Body::News(News::Lease(lease)) => witness.heard_token(letter.to, lease.token, now),
            Body::News(News::Protection(state)) if state.latched => {
                witness.heard_stop(letter.to, now);
            }
            Body::News(News::Run(event)) => {
                if let Some(verdicts) = &mut self.verdicts {
                    verdicts.heard(event);
                }
            }
            Body::News(_) | Body::Request { .. } | Body::Reply { .. } => {}
        }
    }

    fn live(&mut self, process: ProcessId) {
        let me = self.outside.network.address(process);
        let clock = self.clock(process);
        let mut context = Context {
            outside: &mut self.outside,
            me,
            clock,
        };
        let done = match process {
            ProcessId::Robot => self.robot.step(&mut context),
            ProcessId::Client => self.client.step(&mut context),
            ProcessId::Operator => {
                self.operator.step(&self.robot, &mut context);
                Ok(())
            }
            ProcessId::Rival => self.rival.step(&mut context),
            process => match self.lives.of(process) {
                Some(life) => life.step(&mut context),
                None => Ok(()),
            },
        };
        if done.is_err() {
            self.crashed(process);
        }
    }

    /// Moves on by one step.
    ///
    /// # Errors
    /// [`WorldError`].
    pub fn step(&mut self) -> Result<(), WorldError> {
        self.outside.now += STEP;
        let now = self.outside.now;
        if !self.calm && now >= self.scenario.calm_from {
            self.calm = true;
            self.outside.crashes.call_off();
            self.operator.call_off();
        }
        for plan in self.outside.crashes.due(now) {
            self.end(plan.trigger.process(), &plan);
        }
        let up: Vec<ProcessId> = self
            .down_until
            .iter()
            .filter(|(_, until)| **until <= now)
            .map(|(process, _)| *process)
            .collect();
        for process in up {
            self.begin(process)?;
        }
        self.outside.network.join(now);
        let me = Address {
            process: ProcessId::Robot,
            life: 1,
        };
        let clock = self.clock(ProcessId::Robot);
        self.robot.advance(&mut Context {
            outside: &mut self.outside,
            me,
            clock,
        });
        self.live(ProcessId::Robot);
        while let Some(letter) = self.outside.network.arrived(now) {
            self.deliver(letter);
        }
        for process in ProcessId::ALL {
            if process != ProcessId::Robot && !self.down_until.contains_key(&process) {
                self.live(process);
            }
        }
        let steady = self.clock(ProcessId::Protection).steady(now);
        let protection = self.lives.protection.as_ref().map(|p| p.view(steady));
        self.referee
            .look(&mut self.outside, &self.robot, protection);
        self.look_at_verdicts();
        Ok(())
    }

    fn look_at_verdicts(&mut self) {
        let (now, robot) = (self.outside.now, self.robot.robot());
        let answers = self.lives.evaluator.as_mut().map(|e| e.take_answers());
        if let Some(verdicts) = &mut self.verdicts {
            verdicts.look(robot, now);
            for answer in answers.into_iter().flatten() {
                verdicts.judged(&answer.run_id, answer.segment, &answer.result, robot, now);
            }
        }
    }

    /// Whether nothing is left that anybody waits for.
    fn is_quiet(&self) -> bool {
        let idle = |p: ProcessId| {
            self.lives
                .executors
                .get(&p)
                .is_some_and(|e| e.executor().live_records().next().is_none())
        };
        self.client.is_done()
            && self.operator.is_done()
            && self.rival.is_done()
            && self.down_until.is_empty()
            && self.lives.harness.as_ref().is_some_and(|h| {
                h.harness().is_idle() && h.harness().ledger().unsettled().next().is_none()
            })
            && idle(ProcessId::Navigation)
            && idle(ProcessId::Manipulation)
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// [`WorldError`].
    pub fn run(mut self) -> Result<Report, WorldError> {
        loop {
            self.step()?;
            let now = self.outside.now;
            if self.is_quiet() {
                let since = *self.quiet_since.get_or_insert(now);
                if now.saturating_sub(since) >= QUIET {
                    return Ok(self.finish(None));
                }
            } else {
                self.quiet_since = None;
            }
            if now >= self.scenario.limit {
                let waits = self.waits_for();
                return Ok(self.finish(Some(waits)));
            }
        }
    }

    /// What keeps the run from being over, in words.
    fn waits_for(&self) -> String {
        let mut parts = Vec::new();
        if let Some(task) = self.client.waits_for() {
            parts.push(format!("the client waits for {task}"));
        }
        if let Some(h) = &self.lives.harness {
            for record in h.harness().ledger().unsettled() {
                parts.push(format!(
                    "{} ({}) is {:?}",
                    record.command_id(),
                    record.command.skill,
                    record.state
                ));
            }
        }
        for (process, executor) in &self.lives.executors {
            for record in executor.executor().live_records() {
                parts.push(format!(
                    "{process} has {} ({}) {:?}/{:?}",
                    record.command.command_id,
                    record.command.skill,
                    record.state,
                    record.control_end
                ));
            }
        }
        if !self.operator.is_done() {
            parts.push("the operator is not done".into());
        }
        if !self.rival.is_done() {
            parts.push("the rival is not done".into());
        }
        parts.join("; ")
    }

    fn finish(mut self, waits: Option<String>) -> Report {
        self.referee.end(&mut self.outside, waits);
        self.outside.trace.count(self.robot.robot().digest());
        let disks = &self.outside.disks;
        let crashes = &self.outside.crashes;
        let mut report = Report {
            seed: self.scenario.seed,
            passed: self.outside.now,
            tasks: self
                .client
                .ended()
                .iter()
                .map(|(id, record)| (id.clone(), record.outcome))
                .collect(),
            starts: self.outside.witness.starts().len() as u64,
            network: self.outside.network.counts(),
            passed_places: crashes.passed().clone(),
            struck: crashes.struck().clone(),
            crashes: crashes.struck().values().sum::<u64>() + crashes.timed(),
            lost_writes: disks.harness.lost()
                + disks.navigation.lost()
                + disks.manipulation.lost()
                + disks.scene.lost()
                + disks.tokens.lost()
                + disks.stops.lost(),
            settled_by_hand: self.operator.settled(),
            digest: self.outside.trace.digest(),
            trace: self.outside.trace.lines().to_vec(),
            ..Report::default()
        };
        self.referee.tell(&mut report);
        if let Some(verdicts) = self.verdicts {
            (report.verdicts, report.unreferred) = verdicts.end();
        }
        report
    }
}

//! The harness with its planner and its lease holder, as `harness_node` runs them.

mod calls;
mod ledger_file;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use eh_contract::session::TaskRecord;
use eh_contract::state::TaskOutcome;
use eh_contract::ErrorCode;
use eh_harness::admission::{read_goal, Repeated, TaskGoal};
use eh_harness::lease::{LeaseEffect, LeaseHolder};
use eh_harness::performing::{Desk, Performer, Save};
use eh_harness::surroundings::StopView;
use eh_harness::{thinking, Effect, Event, Harness, Settings, Turned};
use eh_planner::SymbolicPlanner;
use rand_chacha::ChaCha8Rng;
use serde_json::json;

use crate::clock::Every;
use crate::context::{Context, HarnessWrite, Process};
use crate::failpoint::{Crash, Moment};
use crate::message::{Body, Letter, News, Reply, Request};
use crate::process_id::{Address, ProcessId};
use crate::random::between;

use calls::Calls;
pub use ledger_file::{last_command, restored, tasks, through_text};

/// As the node's own tick.
const TICK: Duration = Duration::from_millis(100);
/// How often the node looks whether the evaluator is there.
const WATCH: Duration = Duration::from_millis(500);
/// As the node's lease_ttl.
pub const LEASE_TTL: Duration = Duration::from_secs(3);

/// What `harness_node` is set to by its parameter files.
pub fn settings() -> Settings {
    let mut settings = Settings {
        model_version: "symbolic".into(),
        ..Settings::default()
    };
    for (name, value) in [
        ("mobile_base", json!(true)),
        ("reach", json!(0.88)),
        ("payload", json!(1.0)),
        ("gripper_max_width", json!(0.10)),
        ("gripper", json!("parallel")),
        ("head", json!("pan_tilt")),
    ] {
        settings.embodiment.set(name, value);
    }
    settings
}

/// The harness.
#[derive(Debug)]
pub struct HarnessProcess {
    harness: Harness,
    /// Not there while effects are performed.
    desk: Option<Desk>,
    /// What followed meanwhile.
    deferred: Vec<Effect>,
    lease: LeaseHolder,
    planner: Arc<SymbolicPlanner>,
    rng: ChaCha8Rng,
    calls: Calls,
    /// Answers of the planner that are on their way from its thread.
    thoughts: Vec<(Duration, Event)>,
    watchers: BTreeMap<String, Vec<(Address, u64)>>,
    tick: Every,
    watch: Every,
    evaluator: Option<bool>,
    stop: Option<StopView>,
}

impl HarnessProcess {
    /// Takes up what an earlier life left on the disk.
    ///
    /// # Errors
    /// [`Crash`] when it ends at once.
    pub fn begin(
        settings: Settings,
        planner: Arc<SymbolicPlanner>,
        rng: ChaCha8Rng,
        context: &mut Context<'_>,
    ) -> Result<Self, Crash> {
        let found = restored(context.outside.disks.harness.durable());
        if !(found.commands.is_empty() && found.tasks.is_empty()) {
            context.note(format_args!(
                "takes up {} commands and {} tasks",
                found.commands.len(),
                found.tasks.len()
            ));
        }
        let running = found.tasks.iter().map(|t| t.request.task_id.clone());
        let desk = Some(Desk::new(running));
        let (harness, effects) = Harness::new(settings, found, context.now());
        let mut this = HarnessProcess {
            harness,
            desk,
            deferred: Vec::new(),
            lease: LeaseHolder::new(LEASE_TTL),
            planner,
            rng,
            calls: Calls::default(),
            thoughts: Vec::new(),
            watchers: BTreeMap::new(),
            tick: Every::new(TICK),
            watch: Every::new(WATCH),
            evaluator: None,
            stop: None,
        };
        this.perform(effects, context)?;
        Ok(this)
    }

    /// The loop itself, for those who look at it.
    pub const fn harness(&self) -> &Harness {
        &self.harness
    }

    fn take(&mut self, event: Event, context: &mut Context<'_>) -> Result<(), Crash> {
        let effects = self.harness.handle(
            event,
            &mut Turned {
                now: context.now(),
                rng: &mut self.rng,
            },
        );
        self.perform(effects, context)
    }

    /// Performs effects in their order, and those that follow when the disk begins or ceases to fail.
    fn perform(&mut self, effects: Vec<Effect>, context: &mut Context<'_>) -> Result<(), Crash> {
        self.deferred.extend(effects);
        let Some(mut desk) = self.desk.take() else {
            return Ok(());
        };
        loop {
            let effects = std::mem::take(&mut self.deferred);
            let now = context.now().steady;
            let mut doing = Doing {
                process: self,
                context,
            };
            if let Some(news) = desk.perform(effects, now, &mut doing)? {
                context.note(format_args!("its disk: {news:?}"));
                self.desk = Some(desk);
                self.take(news.into(), context)?;
                return Ok(());
            }
            if self.deferred.is_empty() {
                break;
            }
        }
        self.desk = Some(desk);
        Ok(())
    }

    fn give_out(&mut self, effect: Effect, context: &mut Context<'_>) -> Result<(), Crash> {
        let name = effect.failpoint();
        context.pass(name, Moment::Before)?;
        match effect {
            Effect::Feedback(feedback) => {
                // Shown to the client; nothing depends on it.
                if feedback.finished_step.is_some() {
                    context.note(format_args!("step {}: {}", feedback.step, feedback.text));
                }
            }
            Effect::Finish(record) => {
                context.note(format_args!(
                    "task {} is {:?}: {}",
                    record.request.task_id, record.outcome, record.summary
                ));
                let task_id = &record.request.task_id;
                context.outside.witness.told_end(task_id, record.outcome);
                let watchers = self.watchers.remove(task_id);
                for (to, call) in watchers.into_iter().flatten() {
                    context.reply(to, call, Reply::TaskEnd(record.clone()));
                }
            }
            Effect::Warn(text) => context.note(format_args!("warns: {text}")),
            Effect::Begin {
                ticket,
                instruction,
                scene,
            } => {
                let vocabulary = ["cup".to_owned()];
                let planner = self.planner.as_ref();
                let event = thinking::begin(planner, ticket, &instruction, &scene, &vocabulary);
                self.think(event, context);
            }
            Effect::Plan(request) => {
                let event = thinking::next(self.planner.as_ref(), *request);
                self.think(event, context);
            }
            Effect::AcquireLease => {
                let effects = self.lease.acquire(context.now().steady);
                self.lease_effects(effects, context)?;
            }
            Effect::ReleaseLease => {
                let effects = self.lease.release();
                self.lease_effects(effects, context)?;
            }
            Effect::AskHuman(request) => context.publish(News::Human(request)),
            Effect::ReadScene { ticket } => self.calls.read_scene(ticket, context),
            Effect::SendGoal(goal) => self.calls.execute(goal, context),
            Effect::CancelGoal {
                command_id,
                action_name,
                goal_id,
            } => self
                .calls
                .cancel(command_id, &action_name, goal_id, context),
            Effect::QueryExecutor {
                command_id,
                executor,
            } => self.calls.query(command_id, &executor, context),
            Effect::Evaluate {
                command_id,
                run_id,
                segment,
            } => {
                let timeout = self.harness.settings().policy.evaluation_timeout;
                self.calls
                    .evaluate(command_id, run_id, segment, timeout, context);
            }
            Effect::SettleExecutor {
                command_id,
                executor,
                to,
                settled_by,
                reason,
                fencing_token,
            } => {
                let request = Request::SettleCommand {
                    command_id: command_id.clone(),
                    to,
                    settled_by,
                    reason,
                    fencing_token,
                };
                self.calls.settle(command_id, &executor, request, context);
            }
            Effect::ApplyEffects {
                command_id,
                verdict,
                effects,
            } => self
                .calls
                .apply(command_id, verdict, effects.to_string(), context),
            // Performed by whoever calls this.
            Effect::SaveCommand(_) | Effect::SaveTask(_) | Effect::Journal(_) => {}
        }
        context.pass(name, Moment::After)
    }

    /// The planner answers from a thread of its own.
    fn think(&mut self, event: Event, context: &Context<'_>) {
        let (least, most) = (Duration::from_millis(10), Duration::from_millis(150));
        let due = context.time() + between(&mut self.rng, least, most);
        self.thoughts.push((due, event));
    }

    fn lease_effects(
        &mut self,
        effects: Vec<LeaseEffect>,
        context: &mut Context<'_>,
    ) -> Result<(), Crash> {
        for effect in effects {
            match effect {
                LeaseEffect::Call(call) => {
                    let who = self.harness.settings().controller_id.clone();
                    self.calls.lease(&who, LEASE_TTL, call, context)?;
                }
                LeaseEffect::Tell(event) => self.take(event, context)?,
            }
        }
        Ok(())
    }

    fn answer(
        &mut self,
        from: Address,
        call: u64,
        request: Request,
        context: &mut Context<'_>,
    ) -> Result<(), Crash> {
        match request {
            Request::Task(goal) => self.submit(&goal, (from, call), context),
            Request::CancelTask(task_id) => {
                context.reply(from, call, Reply::Taken(Ok(())));
                self.take(
                    Event::CancelTask {
                        task_id,
                        reason: "the client canceled it".into(),
                    },
                    context,
                )
            }
            Request::QueryTask(task_id) => {
                let running = self
                    .harness
                    .running()
                    .filter(|r| r.request.task_id == task_id)
                    .cloned();
                let known = running.or_else(|| {
                    let written = context.outside.disks.harness.durable();
                    tasks(written).remove(&task_id)
                });
                context.reply(from, call, Reply::Task(known.map(Box::new)));
                Ok(())
            }
            Request::QueryCommand(command_id) => {
                let known = self
                    .harness
                    .ledger()
                    .unsettled()
                    .filter(|r| command_id.is_empty() || r.command_id() == command_id)
                    .map(|r| (r.command_id().to_owned(), r.state))
                    .collect();
                context.reply(from, call, Reply::Commands(known));
                Ok(())
            }
            Request::SettleUnknown {
                command_id,
                to,
                reason,
            } => {
                let settled = self.harness.settle(
                    &command_id,
                    to,
                    from.process.name(),
                    &reason,
                    context.now(),
                );
                let answer = match settled {
                    Ok((_, effects)) => {
                        self.perform(effects, context)?;
                        Ok(())
                    }
                    Err(error) => Err(error.to_string()),
                };
                context.reply(from, call, Reply::Taken(answer));
                Ok(())
            }
            Request::Answer { request_id, answer } => {
                let taken =
                    self.harness
                        .answer(&request_id, &answer, from.process.name(), context.now());
                let reply = match taken {
                    Ok(effects) => {
                        self.perform(effects, context)?;
                        Ok(())
                    }
                    Err(error) => Err(error.to_string()),
                };
                context.reply(from, call, Reply::Taken(reply));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn submit(
        &mut self,
        goal: &TaskGoal,
        watcher: (Address, u64),
        context: &mut Context<'_>,
    ) -> Result<(), Crash> {
        let defaults = self.harness.settings().defaults.clone();
        let (to, call) = watcher;
        let refuse = |code: ErrorCode, message: String, context: &mut Context<'_>| {
            let mut record = TaskRecord {
                outcome: TaskOutcome::Rejected,
                error_code: code.code(),
                summary: message.clone(),
                error_msg: message,
                ..TaskRecord::default()
            };
            record.request.task_id.clone_from(&goal.task_id);
            context.reply(to, call, Reply::TaskEnd(Box::new(record)));
        };
        let request = match read_goal(goal, &defaults, &mut self.rng) {
            Ok(request) => request,
            Err(error) => {
                refuse(error.code(), error.to_string(), context);
                return Ok(());
            }
        };
        let task_id = request.task_id.clone();
        let known = tasks(context.outside.disks.harness.durable()).remove(&task_id);
        let mut turned = Turned {
            now: context.now(),
            rng: &mut self.rng,
        };
        match self.harness.submit(request, known.as_ref(), &mut turned) {
            Err(error) => refuse(error.code(), error.to_string(), context),
            Ok((Repeated::Ended(record), _)) => {
                context.reply(to, call, Reply::TaskEnd(record));
            }
            Ok((Repeated::New | Repeated::Follow, effects)) => {
                self.watchers.entry(task_id).or_default().push(watcher);
                self.perform(effects, context)?;
            }
        }
        Ok(())
    }

    fn news(&mut self, news: News, context: &mut Context<'_>) -> Result<(), Crash> {
        match news {
            News::Catalog(catalog) => self.take(Event::CatalogSeen((*catalog).clone()), context),
            News::Beacon(beacon) => self.take(Event::BeaconSeen(beacon), context),
            News::Statuses { statuses, .. } => {
                for status in statuses.iter() {
                    self.take(Event::Status(Box::new(status.clone())), context)?;
                }
                Ok(())
            }
            News::Lease(lease) => {
                let effects = self.lease.seen(lease.token, &lease.controller_id);
                self.lease_effects(effects, context)
            }
            News::Protection(state) => {
                let stop = StopView::told(state.latched, &state.message);
                // Only changes are news.
                let before = self.stop.replace(stop.clone());
                if before.as_ref() == Some(&stop) {
                    return Ok(());
                }
                self.take(Event::StopSeen(stop), context)
            }
            News::Run(_)
            | News::Declared(_)
            | News::SceneGraph(_)
            | News::Motion(_)
            | News::Scan(_)
            | News::Sight(_)
            | News::Goals { .. }
            | News::WayLeft { .. }
            | News::Wanted(_)
            | News::Given(_)
            | News::Human(_) => Ok(()),
        }
    }
}

/// The process with what is around it, as it performs effects.
struct Doing<'a, 'c> {
    process: &'a mut HarnessProcess,
    context: &'a mut Context<'c>,
}

impl Performer for Doing<'_, '_> {
    type Ended = Crash;

    fn save(&mut self, save: &Save) -> Result<Result<(), String>, Crash> {
        let name = save.failpoint();
        let what = match save.clone() {
            Save::Command(record) => {
                self.context.note(format_args!(
                    "saves {} of {} as {:?} {}",
                    record.command.skill,
                    record.command_id().get(..8).unwrap_or_default(),
                    record.state,
                    record.error_msg
                ));
                HarnessWrite::Command(record)
            }
            Save::Task(record) => HarnessWrite::Task(record),
            Save::Events(events) => HarnessWrite::Events(events),
        };
        let written = self.context.commit(name, |d| &mut d.harness, what)?;
        Ok(written.map_err(|trouble| trouble.words().to_owned()))
    }

    fn give_out(&mut self, effect: Effect) -> Result<(), Crash> {
        self.process.give_out(effect, self.context)
    }
}

impl Process for HarnessProcess {
    fn receive(&mut self, letter: Letter, context: &mut Context<'_>) -> Result<(), Crash> {
        match letter.body {
            Body::News(news) => self.news(news, context),
            Body::Request { call, request } => self.answer(letter.from, call, request, context),
            Body::Reply { call, reply } => {
                let found = self.calls.answered(call, reply, context);
                self.found(found, context)
            }
        }
    }

    fn step(&mut self, context: &mut Context<'_>) -> Result<(), Crash> {
        let now = context.time();
        let (due, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.thoughts)
            .into_iter()
            .partition(|(at, _)| *at <= now);
        self.thoughts = later;
        for (_, event) in due {
            self.take(event, context)?;
        }
        let found = self.calls.step(context)?;
        self.found(found, context)?;
        let effects = self.lease.tick(context.now().steady);
        self.lease_effects(effects, context)?;
        if self.watch.is_due(now) {
            let there = context.is_there(ProcessId::Evaluator);
            if self.evaluator != Some(there) {
                self.evaluator = Some(there);
                self.take(Event::EvaluatorSeen(there), context)?;
            }
        }
        if self.tick.is_due(now) {
            self.take(Event::Tick, context)?;
        }
        Ok(())
    }
}

impl HarnessProcess {
    fn found(&mut self, found: Vec<calls::Found>, context: &mut Context<'_>) -> Result<(), Crash> {
        for one in found {
            match one {
                calls::Found::Event(event) => self.take(event, context)?,
                calls::Found::Lease { ticket, answer } => {
                    let now = context.now().steady;
                    let effects = self.lease.answered(ticket, answer, now);
                    self.lease_effects(effects, context)?;
                }
            }
        }
        Ok(())
    }
}

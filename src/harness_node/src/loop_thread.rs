//! The thread that owns the decisions and the disk.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use eh_contract::session::{SessionEvent, TaskRecord};
use eh_contract::state::{CommandState, TaskOutcome};
use eh_contract::{ErrorCode, Stamp};
use eh_harness::admission::{read_goal, Repeated, TaskGoal};
use eh_harness::checkpoint::command_in_work;
use eh_harness::effect::TaskFeedback;
use eh_harness::error::{AnswerError, SettleError};
use eh_harness::performing::{Desk, DiskNews, Performer, Save};
use eh_harness::{Effect, Event, Harness, Restored, Turned};
use eh_ledger::issuer::IssuerRecord;
use eh_ledger::issuer_event::Finality;
use eh_ledger::issuer_policy::Now;
use eh_ros_edge::failpoint::{reach, Moment};
use eh_ros_edge::NodeClock;
use eh_store::{HarnessStore, StoreError};
use rand::rngs::StdRng;
use rand::SeedableRng;
use rclrs::{log_error, log_warn, Logger};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use crate::{Error, Parameters};

/// Time between two looks at the clock.
const TICK: Duration = Duration::from_millis(100);

/// Name of the file in the state directory.
const FILE: &str = "harness.sqlite";

/// Commands shown in an answer about everything that is not settled.
const MAX_LISTED: usize = 256;

/// What the loop takes.
pub(crate) enum Input {
    /// Something happened.
    Event(Event),
    /// A client sent a task.
    Submit {
        goal: TaskGoal,
        watcher: Watcher,
        /// Gets the task's id as soon as it is taken.
        taken: oneshot::Sender<String>,
    },
    /// Where a command is; an empty id asks for all that are not settled.
    QueryCommand {
        command_id: String,
        reply: oneshot::Sender<Result<Vec<IssuerRecord>, StoreError>>,
    },
    /// Where a task is; an empty id asks for the running one, else the last.
    QueryTask {
        task_id: String,
        reply: oneshot::Sender<Result<Option<TaskRecord>, StoreError>>,
    },
    /// A person says what became of a command.
    Settle {
        command_id: String,
        to: Finality,
        by: String,
        reason: String,
        reply: oneshot::Sender<Result<CommandState, SettleError>>,
    },
    /// A person answers.
    Answer {
        request_id: String,
        answer: String,
        by: String,
        reply: oneshot::Sender<Result<(), AnswerError>>,
    },
    /// The node is asked to end; what runs has this long to stand still.
    Shutdown(Duration),
    /// End now.
    End,
}

/// A client of a task.
pub(crate) struct Watcher {
    /// Gets the feedback of the task.
    pub feedback: UnboundedSender<TaskFeedback>,
    /// Gets its end.
    pub done: oneshot::Sender<TaskRecord>,
}

/// What the spin thread has to do.
pub(crate) enum Output {
    /// An effect of the loop.
    Effect(Effect),
    /// An event that is durable now.
    Publish(Box<SessionEvent>),
    /// Everything stands: release the lease and end.
    Halt,
}

/// Where inputs go in.
#[derive(Clone)]
pub(crate) struct Inbox(Sender<Input>);

impl Inbox {
    /// Gives an input to the loop; after its end there is nobody who would want it.
    pub(crate) fn send(&self, input: Input) {
        let _ = self.0.send(input);
    }

    /// Gives an event to the loop.
    pub(crate) fn event(&self, event: Event) {
        self.send(Input::Event(event));
    }
}

struct Loop {
    harness: Harness,
    desk: Desk,
    store: HarnessStore,
    clock: NodeClock,
    rng: StdRng,
    outbox: UnboundedSender<Output>,
    watchers: HashMap<String, Vec<Watcher>>,
    logger: Logger,
}

/// Opens the ledger, takes up what an earlier process left, and starts the thread.
pub(crate) fn start(
    parameters: &Parameters,
    clock: NodeClock,
    outbox: UnboundedSender<Output>,
    logger: Logger,
) -> Result<(JoinHandle<()>, Inbox), Error> {
    let store = HarnessStore::open(&parameters.state_directory.join(FILE))?;
    let mut commands = store.open_commands()?;
    let tasks = store.running_tasks()?;
    for id in tasks.iter().filter_map(command_in_work) {
        if !commands.iter().any(|c| c.command_id() == id) {
            commands.extend(store.command(&id)?);
        }
    }
    let mut sequences = BTreeMap::new();
    for task_id in commands
        .iter()
        .map(|c| &c.command.task_id)
        .chain(tasks.iter().map(|t| &t.request.task_id))
    {
        sequences.insert(task_id.clone(), store.last_sequence(task_id)?);
    }
    if !(commands.is_empty() && tasks.is_empty()) {
        log_warn!(
            &logger,
            "an earlier process left {} tasks and {} commands open; they are taken up",
            tasks.len(),
            commands.len()
        );
    }
    let (sender, inputs) = channel();
    let settings = parameters.settings.clone();
    let thread = std::thread::Builder::new()
        .name("loop".into())
        .spawn(move || {
            let now = now(&clock);
            let running = tasks.iter().map(|t: &TaskRecord| t.request.task_id.clone());
            let desk = Desk::new(running);
            let restored = Restored {
                commands,
                tasks,
                sequences,
            };
            let (harness, effects) = Harness::new(settings, restored, now);
            let mut this = Loop {
                harness,
                desk,
                store,
                clock,
                rng: StdRng::from_os_rng(),
                outbox,
                watchers: HashMap::new(),
                logger,
            };
            this.perform(effects);
            this.run(&inputs);
        })?;
    Ok((thread, Inbox(sender)))
}

fn now(clock: &NodeClock) -> Now {
    Now {
        steady: Duration::from_nanos(u64::try_from(clock.budget_ns()).unwrap_or(0)),
        ros: Stamp(clock.ros_ns()),
    }
}

impl Loop {
    fn run(&mut self, inputs: &Receiver<Input>) {
        let mut next_tick = Instant::now();
        let mut stop_until: Option<Instant> = None;
        loop {
            let wait = next_tick.saturating_duration_since(Instant::now());
            match inputs.recv_timeout(wait) {
                Ok(Input::End) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(Input::Shutdown(limit)) => {
                    stop_until = Some(Instant::now() + limit);
                    self.take(Event::Shutdown);
                }
                Ok(input) => self.input(input),
                Err(RecvTimeoutError::Timeout) => {}
            }
            // Also when inputs come without a pause.
            if Instant::now() >= next_tick {
                next_tick = Instant::now() + TICK;
                self.take(Event::Tick);
                if let Some(until) = stop_until {
                    let late = Instant::now() >= until;
                    let idle = self.harness.is_idle() && self.desk.trouble().is_none();
                    if late && !idle {
                        log_error!(
                            &self.logger,
                            "{}; it is taken up at the next start",
                            self.desk
                                .trouble()
                                .unwrap_or("what runs did not stand still in time")
                        );
                    }
                    if late || idle {
                        stop_until = None;
                        let _ = self.outbox.send(Output::Halt);
                    }
                }
            }
        }
    }

    fn take(&mut self, event: Event) {
        let mut turned = Turned {
            now: now(&self.clock),
            rng: &mut self.rng,
        };
        let effects = self.harness.handle(event, &mut turned);
        self.perform(effects);
    }

    fn input(&mut self, input: Input) {
        match input {
            Input::Event(event) => self.take(event),
            Input::Submit {
                goal,
                watcher,
                taken,
            } => self.submit(&goal, watcher, taken),
            Input::QueryCommand { command_id, reply } => {
                // Nobody waits any more when the reply fails; so below.
                let _ = reply.send(self.query_command(&command_id));
            }
            Input::QueryTask { task_id, reply } => {
                let _ = reply.send(self.query_task(&task_id));
            }
            Input::Settle {
                command_id,
                to,
                by,
                reason,
                reply,
            } => {
                let now = now(&self.clock);
                let answer = match self.harness.settle(&command_id, to, &by, &reason, now) {
                    Ok((state, effects)) => {
                        self.perform(effects);
                        Ok(state)
                    }
                    Err(error) => Err(self.settled_already(error)),
                };
                let _ = reply.send(answer);
            }
            Input::Answer {
                request_id,
                answer,
                by,
                reply,
            } => {
                let now = now(&self.clock);
                let outcome = match self.harness.answer(&request_id, &answer, &by, now) {
                    Ok(effects) => {
                        self.perform(effects);
                        Ok(())
                    }
                    Err(error) => Err(error),
                };
                let _ = reply.send(outcome);
            }
            Input::Shutdown(_) | Input::End => {}
        }
    }

    /// A command that only the disk remembers is terminal.
    fn settled_already(&self, error: SettleError) -> SettleError {
        if let SettleError::NotFound { command_id } = &error {
            if let Ok(Some(record)) = self.store.command(command_id) {
                return SettleError::NotSettleable {
                    command_id: command_id.clone(),
                    state: record.state,
                };
            }
        }
        error
    }

    fn submit(&mut self, goal: &TaskGoal, watcher: Watcher, taken: oneshot::Sender<String>) {
        let defaults = self.harness.settings().defaults.clone();
        let refuse = |watcher: Watcher, task_id: &str, code: ErrorCode, message: String| {
            let mut record = TaskRecord {
                outcome: TaskOutcome::Rejected,
                error_code: code.code(),
                summary: message.clone(),
                error_msg: message,
                ..TaskRecord::default()
            };
            record.request.task_id = task_id.into();
            let _ = watcher.done.send(record);
        };
        let request = match read_goal(goal, &defaults, &mut self.rng) {
            Ok(request) => request,
            Err(error) => return refuse(watcher, &goal.task_id, error.code(), error.to_string()),
        };
        let task_id = request.task_id.clone();
        let known = match self.store.task(&task_id) {
            Ok(known) => known,
            Err(error) => {
                let code = ErrorCode::TaskStorageFailure;
                return refuse(watcher, &task_id, code, error.to_string());
            }
        };
        let mut turned = Turned {
            now: now(&self.clock),
            rng: &mut self.rng,
        };
        match self.harness.submit(request, known.as_ref(), &mut turned) {
            Err(error) => refuse(watcher, &task_id, error.code(), error.to_string()),
            Ok((Repeated::Ended(record), _)) => {
                let _ = watcher.done.send(*record);
            }
            Ok((Repeated::New | Repeated::Follow, effects)) => {
                let _ = taken.send(task_id.clone());
                self.watchers.entry(task_id).or_default().push(watcher);
                self.perform(effects);
            }
        }
    }

    fn query_command(&self, command_id: &str) -> Result<Vec<IssuerRecord>, StoreError> {
        if command_id.is_empty() {
            return Ok(self
                .harness
                .ledger()
                .unsettled()
                .take(MAX_LISTED)
                .cloned()
                .collect());
        }
        if let Some(record) = self.harness.ledger().get(command_id) {
            return Ok(vec![record.clone()]);
        }
        Ok(self.store.command(command_id)?.into_iter().collect())
    }

    fn query_task(&self, task_id: &str) -> Result<Option<TaskRecord>, StoreError> {
        let running = self.harness.running();
        if let Some(record) = running.filter(|r| task_id.is_empty() || r.request.task_id == task_id)
        {
            return Ok(Some(record.clone()));
        }
        if task_id.is_empty() {
            self.store.last_task()
        } else {
            self.store.task(task_id)
        }
    }

    /// Performs effects in their order, and those that follow when the disk begins or ceases to fail.
    fn perform(&mut self, mut effects: Vec<Effect>) {
        let mut desk = std::mem::replace(&mut self.desk, Desk::new([]));
        loop {
            let now = now(&self.clock);
            let Ok(news) = desk.perform(effects, now.steady, self);
            let Some(news) = news else { break };
            match &news {
                DiskNews::Failed(reason) => log_error!(&self.logger, "{reason}"),
                DiskNews::Works => log_warn!(&self.logger, "everything is durable again"),
            }
            let rng = &mut self.rng;
            effects = self.harness.handle(news.into(), &mut Turned { now, rng });
        }
        self.desk = desk;
    }
}

impl Performer for Loop {
    type Ended = Infallible;

    fn save(&mut self, save: &Save) -> Result<Result<(), String>, Infallible> {
        let failpoint = save.failpoint();
        reach(failpoint, Moment::Before);
        let saved = match save {
            Save::Command(record) => self.store.save_command(record),
            Save::Task(record) => self.store.save_task(record),
            Save::Events(events) => self.store.append_events(events),
        };
        reach(failpoint, Moment::After);
        if let (Save::Events(events), Ok(())) = (save, &saved) {
            for event in events {
                let _ = self.outbox.send(Output::Publish(Box::new(event.clone())));
            }
        }
        Ok(saved.map_err(|error| error.to_string()))
    }

    fn give_out(&mut self, effect: Effect) -> Result<(), Infallible> {
        let failpoint = effect.failpoint();
        reach(failpoint, Moment::Before);
        match effect {
            Effect::Feedback(feedback) => {
                for watcher in self.watchers.get(&feedback.task_id).into_iter().flatten() {
                    // A client that went away needs none.
                    let _ = watcher.feedback.send((*feedback).clone());
                }
            }
            Effect::Finish(record) => {
                let watchers = self.watchers.remove(&record.request.task_id);
                for watcher in watchers.into_iter().flatten() {
                    let _ = watcher.done.send((*record).clone());
                }
            }
            Effect::Warn(text) => log_warn!(&self.logger, "{text}"),
            other => {
                let _ = self.outbox.send(Output::Effect(other));
                // It passes the place after it on the other thread.
                return Ok(());
            }
        }
        reach(failpoint, Moment::After);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_that_kill_know_every_failpoint() {
        let file: serde_json::Value =
            serde_json::from_str(include_str!("../../../test/data/failpoints.json")).unwrap();
        let known: Vec<&str> = file["harness"]
            .as_array()
            .unwrap()
            .iter()
            .map(|name| name.as_str().unwrap())
            .collect();
        assert_eq!(known, Effect::FAILPOINTS);
    }
}

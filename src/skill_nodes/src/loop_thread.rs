//! The thread that owns the decisions and the journal.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use eh_contract::status::SkillStatus;
use eh_contract::Stamp;
use eh_executor::effect::{Answer, Level, SettleAnswer};
use eh_executor::event::Caller;
use eh_executor::{Effect, Event, Executor, Turn};
use eh_ledger::admission::Refusal;
use eh_ledger::executor::ExecutorRecord;
use eh_ros_edge::failpoint::{reach, Moment};
use eh_ros_edge::NodeClock;
use rand::rngs::StdRng;
use rclrs::{log_error, log_info, log_warn, Logger, ToLogParams};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{oneshot, watch};

use crate::journal::FileJournal;
use crate::outlet::Outlet;
use crate::senses::NodeSenses;

/// Most requests of clients that wait for the loop; a disk that is stuck must not let them pile up.
const MAX_REQUESTS: usize = 256;

/// What streams is listened to for this long after the last command: the next one of a task then finds it
/// there.
const ATTENTION: Duration = Duration::from_secs(30);

/// How much longer than the longest stop is waited for an end.
const MARGIN: Duration = Duration::from_secs(1);

/// What the loop takes.
pub(crate) enum Input {
    /// Something happened.
    Event(Event),
    /// A client sent a command.
    Command {
        event: Event,
        caller: Caller,
        watcher: Watcher,
    },
    /// A client settles a command.
    Settle {
        event: Event,
        caller: Caller,
        reply: oneshot::Sender<SettleAnswer>,
    },
    /// Where a command is; an empty id asks for all that are not settled.
    Query {
        command_id: String,
        reply: oneshot::Sender<Found>,
    },
    /// The node is asked to end: what moves is stopped.
    Shutdown,
    /// End now.
    End,
}

/// Records and their statuses.
pub(crate) type Found = Result<Vec<(ExecutorRecord, SkillStatus)>, Refusal>;

/// A client of `execute_skill`.
pub(crate) struct Watcher {
    /// The newest status of its command.
    pub(crate) feedback: watch::Sender<Option<SkillStatus>>,
    /// The end.
    pub(crate) done: oneshot::Sender<Answer>,
}

/// What the spin thread has to do.
pub(crate) enum Output {
    /// A call of somebody.
    Effect(Effect),
    /// Everything stands, or the time for it is over.
    Halt,
}

/// Where inputs go in.
#[derive(Clone)]
pub(crate) struct Inbox {
    inputs: Sender<Input>,
    requests: Arc<AtomicUsize>,
    callers: Arc<AtomicU64>,
}

impl Inbox {
    /// An inbox, and where its inputs come out.
    pub(crate) fn new() -> (Self, Receiver<Input>) {
        let (inputs, outputs) = channel();
        let this = Inbox {
            inputs,
            requests: Arc::default(),
            callers: Arc::default(),
        };
        (this, outputs)
    }

    /// A name for a request that has none yet.
    pub(crate) fn caller(&self) -> Caller {
        self.callers.fetch_add(1, Ordering::Relaxed)
    }

    /// Gives an input to the loop; after its end there is nobody who would want it.
    pub(crate) fn send(&self, input: Input) {
        let _ = self.inputs.send(input);
    }

    /// Gives an event to the loop.
    pub(crate) fn event(&self, event: Event) {
        self.send(Input::Event(event));
    }

    /// Gives a client's request to the loop, unless too many wait already. A request that is not taken
    /// drops its channels, which its sender sees.
    pub(crate) fn request(&self, input: Input) -> bool {
        if self.requests.load(Ordering::Relaxed) >= MAX_REQUESTS {
            return false;
        }
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.send(input);
        true
    }
}

/// What the thread is made of.
pub(crate) struct Loop {
    pub(crate) executor: Executor,
    pub(crate) journal: FileJournal,
    pub(crate) senses: NodeSenses,
    pub(crate) clock: NodeClock,
    pub(crate) rng: StdRng,
    pub(crate) outlet: Outlet,
    pub(crate) outbox: UnboundedSender<Output>,
    pub(crate) logger: Logger,
}

/// The thread's own state.
struct Running {
    parts: Loop,
    requests: Arc<AtomicUsize>,
    watchers: HashMap<Caller, Watcher>,
    settlements: HashMap<Caller, oneshot::Sender<SettleAnswer>>,
    /// When the end of what moves is not waited for any longer.
    stop_until: Option<Instant>,
    /// What streams is listened to until then.
    attentive_until: Instant,
}

/// The clock of the budgets.
pub(crate) fn budget_now(clock: &NodeClock) -> Duration {
    Duration::from_nanos(u64::try_from(clock.budget_ns()).unwrap_or(0))
}

/// Starts the thread, which performs these effects first.
pub(crate) fn start(
    parts: Loop,
    effects: Vec<Effect>,
    inbox: &Inbox,
    inputs: Receiver<Input>,
) -> Result<JoinHandle<()>, std::io::Error> {
    let mut this = Running {
        parts,
        requests: inbox.requests.clone(),
        watchers: HashMap::new(),
        settlements: HashMap::new(),
        stop_until: None,
        attentive_until: Instant::now(),
    };
    std::thread::Builder::new()
        .name("loop".into())
        .spawn(move || {
            this.attend();
            this.perform(effects);
            this.run(&inputs);
        })
}

impl Running {
    fn run(&mut self, inputs: &Receiver<Input>) {
        let mut last_tick = Instant::now();
        loop {
            let next_tick = last_tick + self.parts.executor.next_tick();
            let wait = next_tick.saturating_duration_since(Instant::now());
            match inputs.recv_timeout(wait) {
                Ok(Input::End) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(input) => self.take(input),
                Err(RecvTimeoutError::Timeout) => {}
            }
            // Also when inputs come without a pause.
            let now = Instant::now();
            if now >= last_tick + self.parts.executor.next_tick() {
                last_tick = now;
                self.handle(Event::Tick);
                self.halt_when_done(now);
            }
        }
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Event(event) => self.handle(event),
            Input::Command {
                event,
                caller,
                watcher,
            } => {
                self.taken();
                self.watchers.insert(caller, watcher);
                self.handle(event);
            }
            Input::Settle {
                event,
                caller,
                reply,
            } => {
                self.taken();
                self.settlements.insert(caller, reply);
                self.handle(event);
            }
            Input::Query { command_id, reply } => {
                self.taken();
                let executor = &self.parts.executor;
                let found = executor
                    .query(&command_id, &self.parts.journal)
                    .map(|records| {
                        let status = |r: ExecutorRecord| {
                            let status = executor.status_of(&r);
                            (r, status)
                        };
                        records.into_iter().map(status).collect()
                    });
                // Nobody waits any more when this fails; so below.
                let _ = reply.send(found);
            }
            Input::Shutdown => {
                let limit = self.parts.executor.longest_stop() + MARGIN;
                self.stop_until = Some(Instant::now() + limit);
                self.handle(Event::Shutdown);
            }
            Input::End => {}
        }
    }

    fn taken(&self) {
        self.requests.fetch_sub(1, Ordering::Relaxed);
    }

    fn handle(&mut self, event: Event) {
        let parts = &mut self.parts;
        let mut turn = Turn {
            now: budget_now(&parts.clock),
            stamp: Stamp(parts.clock.ros_ns()),
            rng: &mut parts.rng,
            journal: &mut parts.journal,
            senses: &parts.senses,
        };
        let effects = parts.executor.handle(event, &mut turn);
        self.attend();
        self.perform(effects);
    }

    /// Listens to what streams while a command is on its way, and for a while after it.
    fn attend(&mut self) {
        let now = Instant::now();
        if !self.parts.executor.is_idle() {
            self.attentive_until = now + ATTENTION;
        }
        let wanted = now < self.attentive_until;
        if let Err(error) = self.parts.senses.surroundings.attend(wanted) {
            log_error!(
                self.parts.logger.throttle(Duration::from_secs(5)),
                "odometry, transforms and joints can't be listened to: {error}"
            );
        }
    }

    fn halt_when_done(&mut self, now: Instant) {
        let Some(until) = self.stop_until else {
            return;
        };
        let idle = self.parts.executor.is_idle();
        if !idle && now < until {
            return;
        }
        if !idle {
            log_error!(
                &self.parts.logger,
                "what runs did not stand still in time; it is taken up at the next start"
            );
        }
        self.stop_until = None;
        let _ = self.parts.outbox.send(Output::Halt);
    }

    /// Performs effects in their order: what is published goes out from here, what is asked for goes to
    /// the spin thread, which gets the answers.
    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            let failpoint = effect.failpoint();
            reach(failpoint, Moment::Before);
            match effect {
                Effect::Answer(answer) => {
                    if let Some(watcher) = self.watchers.remove(&answer.caller) {
                        let _ = watcher.done.send(*answer);
                    }
                }
                Effect::Feedback {
                    caller,
                    skill_status,
                } => {
                    if let Some(watcher) = self.watchers.get(&caller) {
                        watcher.feedback.send_replace(Some(*skill_status));
                    }
                }
                Effect::SettleAnswer(answer) => {
                    if let Some(reply) = self.settlements.remove(&answer.caller) {
                        let _ = reply.send(answer);
                    }
                }
                Effect::RunEvent(event) => self.parts.outlet.run_event(&event),
                Effect::Declare(run) => self.parts.outlet.declare(&run),
                Effect::PublishStatuses { statuses, stamp } => {
                    self.parts.outlet.statuses(&statuses, stamp);
                }
                Effect::PublishCatalog(skills) => self.parts.outlet.catalog(&skills),
                Effect::Log { level, text } => match level {
                    Level::Info => log_info!(&self.parts.logger, "{text}"),
                    Level::Warn => log_warn!(&self.parts.logger, "{text}"),
                    Level::Error => log_error!(&self.parts.logger, "{text}"),
                },
                call @ (Effect::CheckScene { .. }
                | Effect::SendGoal { .. }
                | Effect::RequestResult { .. }
                | Effect::CancelGoal { .. }
                | Effect::ChangeScene { .. }) => {
                    // Without the spin thread the process is ending.
                    let _ = self.parts.outbox.send(Output::Effect(call));
                    // It passes the place after it there.
                    continue;
                }
            }
            reach(failpoint, Moment::After);
        }
    }
}

//! An executor with its adapter, as the skill nodes run it.

mod journal;
mod requests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use eh_contract::state::ExecutorState;
use eh_contract::ErrorCode;
use eh_executor::effect::SettleAnswer;
use eh_executor::event::{Arrival, Caller, SettleRequest};
use eh_executor::{Effect, Event, Executor, Server, Settings, Turn};
use eh_harness::surroundings::Catalog;
use eh_ledger::admission::KnownSkill;
use eh_ledger::executor::GoalId;
use eh_protection::authority::DeclaredRun;
use eh_skills::catalog::{self, Adapter, CatalogError};
use eh_skills::Embodiment;
use rand_chacha::ChaCha8Rng;

use crate::clock::Every;
use crate::context::{Context, Process};
use crate::failpoint::{own, Crash, Moment};
use crate::message::{Body, ExecuteEnd, Letter, News, Reply, Request};
use crate::process_id::{Address, ProcessId};
use crate::random::bytes;
use crate::server::action;

use super::senses::Heard;
use journal::JournalOf;
pub use journal::{record, records, restored};
use requests::Requests;

/// Period of executor_beacon.
const BEACON: Duration = Duration::from_millis(200);

/// A goal of execute_skill.
#[derive(Debug)]
struct Served {
    caller: Caller,
    from: Address,
    call: u64,
    waiters: Vec<(Address, u64)>,
    end: Option<Box<ExecuteEnd>>,
}

/// The executor.
pub struct ExecutorProcess {
    adapter: Adapter,
    executor: Executor,
    heard: Heard,
    rng: ChaCha8Rng,
    goals: BTreeMap<GoalId, Served>,
    settling: BTreeMap<Caller, (Address, u64)>,
    callers: Caller,
    requests: Requests,
    events: VecDeque<Event>,
    boot_id: String,
    beacon: Every,
    tick: Duration,
}

/// What the skill nodes are set to by their parameter files.
pub fn settings(adapter: Adapter, name: &str) -> Settings {
    let servers: &[Server] = match adapter {
        Adapter::Navigation => &[Server::Navigation, Server::Head],
        Adapter::Manipulation => &[Server::Arm, Server::Gripper, Server::Head],
    };
    Settings {
        name: name.into(),
        robot_id: "robot".into(),
        require_lease: true,
        check_preconditions: true,
        actions: servers
            .iter()
            .map(|s| (*s, action(*s).to_owned()))
            .collect(),
        watched: match adapter {
            Adapter::Navigation => BTreeMap::new(),
            Adapter::Manipulation => {
                let server = Server::Navigation;
                BTreeMap::from([(server, action(server).to_owned())])
            }
        },
        query_scene_service: "query_scene".into(),
        scene_timeout: Duration::from_secs(1),
        planning_scene: adapter == Adapter::Manipulation,
        planning_scene_timeout: Duration::from_secs(2),
        server_timeout: Duration::from_secs(1),
        acknowledge_timeout: Duration::from_secs(2),
        lost_timeout: Duration::from_secs(3),
        body: Embodiment::default(),
    }
}

fn skills(adapter: Adapter, node: &str) -> Result<BTreeMap<String, KnownSkill>, CatalogError> {
    let mut skills = BTreeMap::new();
    for mut descriptor in catalog::of(adapter)? {
        descriptor.action_name = format!("{}/execute_skill", node.trim_start_matches('/'));
        skills.insert(descriptor.name.clone(), KnownSkill::new(descriptor)?);
    }
    Ok(skills)
}

impl ExecutorProcess {
    /// Takes up what an earlier life left in the journal. `Err` inside: its own descriptors can't be used.
    ///
    /// # Errors
    /// [`Crash`] when it ends at once.
    pub fn begin(
        adapter: Adapter,
        mut rng: ChaCha8Rng,
        context: &mut Context<'_>,
    ) -> Result<Result<Self, CatalogError>, Crash> {
        let process = context.me.process;
        let name = process.node_name();
        let boot_id = uuid::Builder::from_random_bytes(bytes(&mut rng))
            .into_uuid()
            .to_string();
        let skills = match skills(adapter, name) {
            Ok(skills) => skills,
            Err(error) => return Ok(Err(error)),
        };
        let found = restored(context.outside.disks.journal(process).durable());
        if !found.live.is_empty() {
            context.note(format_args!("takes up {} commands", found.live.len()));
        }
        let settings = settings(adapter, name);
        let mut heard = Heard::new(name, &settings.body.gripper_joint);
        let (now, stamp) = (context.now().steady, context.stamp());
        let time = context.time();
        context.outside.witness.booted(&boot_id, time);
        heard.at(now, context.is_there(ProcessId::Robot));
        let mut journal = JournalOf::new(context);
        let (executor, effects) = Executor::new(
            settings,
            skills,
            found,
            &boot_id,
            &mut Turn {
                now,
                stamp,
                rng: &mut rng,
                journal: &mut journal,
                senses: &heard,
            },
        );
        journal.end()?;
        let mut this = ExecutorProcess {
            adapter,
            executor,
            heard,
            rng,
            goals: BTreeMap::new(),
            settling: BTreeMap::new(),
            callers: 0,
            requests: Requests::default(),
            events: VecDeque::new(),
            boot_id,
            beacon: Every::new(BEACON),
            tick: Duration::ZERO,
        };
        this.perform(effects, context)?;
        this.work_off(context)?;
        Ok(Ok(this))
    }

    /// The executor itself, for those who look at it.
    pub const fn executor(&self) -> &Executor {
        &self.executor
    }

    fn take(&mut self, event: Event, context: &mut Context<'_>) -> Result<(), Crash> {
        self.events.push_back(event);
        self.work_off(context)
    }

    fn work_off(&mut self, context: &mut Context<'_>) -> Result<(), Crash> {
        while let Some(event) = self.events.pop_front() {
            let (now, stamp) = (context.now().steady, context.stamp());
            let mut journal = JournalOf::new(context);
            let effects = self.executor.handle(
                event,
                &mut Turn {
                    now,
                    stamp,
                    rng: &mut self.rng,
                    journal: &mut journal,
                    senses: &self.heard,
                },
            );
            journal.end()?;
            self.perform(effects, context)?;
        }
        Ok(())
    }

    fn perform(&mut self, effects: Vec<Effect>, context: &mut Context<'_>) -> Result<(), Crash> {
        for effect in effects {
            let name = effect.failpoint();
            context.pass(name, Moment::Before)?;
            self.perform_one(effect, context);
            context.pass(name, Moment::After)?;
        }
        Ok(())
    }

    fn perform_one(&mut self, effect: Effect, context: &mut Context<'_>) {
        match effect {
            Effect::Answer(answer) => {
                let end = Box::new(ExecuteEnd {
                    error_code: answer.error_code,
                    error_msg: answer.error_msg,
                    status: answer.skill_status,
                });
                let served = self.goals.values_mut().find(|s| s.caller == answer.caller);
                if let Some(served) = served {
                    for (to, call) in served.waiters.drain(..) {
                        context.reply(to, call, Reply::ExecuteEnd(Some(end.clone())));
                    }
                    served.end = Some(end);
                }
            }
            Effect::Feedback {
                caller,
                skill_status,
            } => {
                if let Some(s) = self.goals.values().find(|s| s.caller == caller) {
                    context.reply(s.from, s.call, Reply::Feedback(skill_status));
                }
            }
            Effect::SettleAnswer(answer) => {
                if let Some((to, call)) = self.settling.remove(&answer.caller) {
                    context.reply(to, call, settled(&answer));
                }
            }
            Effect::CheckScene {
                command_id,
                preconditions,
            } => {
                let asked = self
                    .requests
                    .check_scene(&command_id, preconditions, context);
                self.events.extend(asked);
            }
            Effect::SendGoal {
                server,
                goal_id,
                goal,
            } => {
                let asked = self.requests.send(server, goal_id, goal, context);
                self.events.extend(asked);
            }
            Effect::RequestResult { server, goal_id } => {
                self.requests.result(server, goal_id, context);
            }
            Effect::CancelGoal { server, goal_id } => {
                context.call(ProcessId::Robot, Request::CancelGoal { server, goal_id });
            }
            Effect::ChangeScene {
                command_id,
                name,
                wanted,
            } => self
                .requests
                .change_scene(command_id, name, *wanted, context),
            Effect::RunEvent(event) => context.publish(News::Run(Arc::new(*event))),
            Effect::Declare(run) => context.publish(News::Declared(DeclaredRun {
                executor: run.executor,
                boot_id: run.boot_id,
                run_id: run.run_id,
                token: run.fencing_token,
                policy: run.disconnect_policy,
                active: run.active,
            })),
            Effect::PublishStatuses { statuses, .. } => context.publish(News::Statuses {
                executor: context.me.process.node_name().into(),
                statuses: Arc::new(statuses),
            }),
            Effect::PublishCatalog(skills) => {
                let catalog = Catalog {
                    executor: context.me.process.node_name().into(),
                    boot_id: self.boot_id.clone(),
                    robot_id: "robot".into(),
                    skills,
                };
                context.publish(News::Catalog(Arc::new(catalog)));
            }
            Effect::Log { text, .. } => context.note(format_args!("logs: {text}")),
        }
    }

    fn next_caller(&mut self) -> Caller {
        self.callers += 1;
        self.callers
    }

    fn answer(
        &mut self,
        from: Address,
        call: u64,
        request: Request,
        context: &mut Context<'_>,
    ) -> Result<(), Crash> {
        match request {
            Request::Execute(goal) => {
                context.pass(own::ACKNOWLEDGE, Moment::Before)?;
                let known = self.goals.contains_key(&goal.goal_id);
                context.reply(from, call, Reply::Acknowledged(!known));
                context.pass(own::ACKNOWLEDGE, Moment::After)?;
                if known {
                    return Ok(());
                }
                let caller = self.next_caller();
                self.goals.insert(
                    goal.goal_id,
                    Served {
                        caller,
                        from,
                        call,
                        waiters: Vec::new(),
                        end: None,
                    },
                );
                let arrival = Arrival {
                    caller,
                    digest: goal.command.digest(),
                    command: goal.command,
                    envelope: goal.envelope,
                    segment: goal.segment,
                };
                self.take(Event::Arrived(Box::new(arrival)), context)
            }
            Request::ExecuteResult(goal_id) => {
                match self.goals.get_mut(&goal_id) {
                    None => context.reply(from, call, Reply::ExecuteEnd(None)),
                    Some(served) => match &served.end {
                        None => served.waiters.push((from, call)),
                        Some(end) => {
                            let end = end.clone();
                            context.reply(from, call, Reply::ExecuteEnd(Some(end)));
                        }
                    },
                }
                Ok(())
            }
            Request::ExecuteCancel(goal_id) => {
                let open = self
                    .goals
                    .get(&goal_id)
                    .filter(|s| s.end.is_none())
                    .map(|s| s.caller);
                context.reply(from, call, Reply::Canceling(open.is_some()));
                match open {
                    Some(caller) => self.take(Event::CancelAsked { caller }, context),
                    None => Ok(()),
                }
            }
            Request::QueryCommand(command_id) => {
                let answer = self.query(&command_id, context);
                context.pass(own::QUERY_ANSWER, Moment::Before)?;
                context.reply(from, call, Reply::Statuses(answer));
                context.pass(own::QUERY_ANSWER, Moment::After)
            }
            Request::SettleCommand {
                command_id,
                to,
                settled_by,
                reason,
                fencing_token,
            } => {
                let caller = self.next_caller();
                self.settling.insert(caller, (from, call));
                let request = SettleRequest {
                    caller,
                    command_id,
                    final_state: to.to_wire(),
                    settled_by,
                    reason,
                    fencing_token,
                };
                self.take(Event::SettleAsked(request), context)
            }
            _ => Ok(()),
        }
    }

    fn query(
        &self,
        command_id: &str,
        context: &mut Context<'_>,
    ) -> Result<Vec<eh_contract::status::SkillStatus>, (ErrorCode, String)> {
        if command_id.is_empty() {
            let live = self.executor.live_records();
            return Ok(live.map(|r| self.executor.status_of(r)).collect());
        }
        let journal = JournalOf::new(context);
        match self.executor.find(command_id, &journal) {
            Ok(Some(record)) => Ok(vec![self.executor.status_of(&record)]),
            Ok(None) => Err((
                ErrorCode::CommandNotFound,
                format!("no command {command_id} is in the journal"),
            )),
            Err(error) => Err((ErrorCode::StorageFailure, error.to_string())),
        }
    }
}

fn settled(answer: &SettleAnswer) -> Reply {
    let name = |state: ExecutorState| format!("{state:?}").to_uppercase();
    Reply::Settled {
        error_code: answer.error_code.code(),
        error_msg: answer.error_msg.clone(),
        state: answer.state.map(name).unwrap_or_default(),
    }
}

impl Process for ExecutorProcess {
    fn receive(&mut self, letter: Letter, context: &mut Context<'_>) -> Result<(), Crash> {
        let there = context.is_there(ProcessId::Robot);
        self.heard.at(context.now().steady, there);
        match letter.body {
            Body::News(News::Sight(_)) if self.adapter == Adapter::Navigation => Ok(()),
            Body::News(news) => {
                self.heard.take(news);
                Ok(())
            }
            Body::Request { call, request } => self.answer(letter.from, call, request, context),
            Body::Reply { call, reply } => {
                let events = self.requests.answered(call, reply, context);
                self.events.extend(events);
                self.work_off(context)
            }
        }
    }

    fn step(&mut self, context: &mut Context<'_>) -> Result<(), Crash> {
        let now = context.now().steady;
        self.heard.at(now, context.is_there(ProcessId::Robot));
        let late = self.requests.step(context);
        self.events.extend(late);
        self.work_off(context)?;
        if now >= self.tick {
            self.take(Event::Tick, context)?;
            self.tick = now + self.executor.next_tick();
        }
        if self.beacon.is_due(context.time()) {
            context.pass(own::BEACON, Moment::Before)?;
            context.publish(News::Beacon(self.executor.beacon(now)));
            context.pass(own::BEACON, Moment::After)?;
        }
        Ok(())
    }
}

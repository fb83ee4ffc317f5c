//! Performing what the loop wants: calls to the nodes around, each with a deadline, their answers given
//! back as events.

use std::collections::HashMap;
use std::sync::mpsc::Sender;
use std::sync::Arc;
use std::time::{Duration, Instant};

use eh_contract::state::ExecutorState;
use eh_contract::{ErrorCode, Stamp};
use eh_harness::effect::GoalRequest;
use eh_harness::surroundings::Catalog;
use eh_harness::{Effect, Event};
use eh_ledger::issuer_event::Finality;
use eh_ros_edge::convert::{command, skill, task, verdict};
use eh_ros_edge::deadline::sleep;
use eh_ros_edge::failpoint::{reach, Moment};
use eh_ros_edge::{qos, within, GoalClient, GoalClientError, NodeClock, Shutdown};
use parking_lot::Mutex;
use rclrs::{
    log_info, log_warn, Client, IntoPrimitiveOptions, Node, Promise, Publisher, RclrsError,
};
use ros_env::embodied_harness::action::{
    EvaluateRun, EvaluateRun_Goal, ExecuteSkill, ExecuteSkill_Goal,
};
use ros_env::embodied_harness::msg::{
    HumanRequest as HumanRequestMsg, SessionEvent as SessionEventMsg,
};
use ros_env::embodied_harness::srv::{
    ApplyEffects, ApplyEffects_Request, QueryCommand, QueryCommand_Request, QueryScene,
    QueryScene_Request, SettleCommand, SettleCommand_Request,
};
use rosidl_runtime_rs::Service;
use tokio::sync::mpsc::UnboundedReceiver;
use uuid::Uuid;

use crate::lease::Lease;
use crate::loop_thread::{Inbox, Output};
use crate::planner_thread::Question;
use crate::{messages, Error, Parameters};

/// Longest wait for a short answer: a query, a settlement, a cancel's receipt.
const SHORT: Duration = Duration::from_secs(1);

/// Longest wait for the acknowledgement of a goal.
const ACKNOWLEDGEMENT: Duration = Duration::from_secs(2);

/// Time between two looks whether a service is there.
const LOOK: Duration = Duration::from_millis(20);

/// Time between two looks whether the evaluator is there.
const WATCH: Duration = Duration::from_millis(500);

/// Most nodes of a scene that are read.
const SCENE_LIMIT: u32 = 10_000;

/// Session events and requests that late joiners get, as their definitions say.
const SESSION_DEPTH: u32 = 256;
const REQUEST_DEPTH: u32 = 16;

/// A service of another node.
pub(crate) struct ServiceCaller<S: Service> {
    client: Client<S>,
    name: Arc<str>,
}

impl<S: Service> Clone for ServiceCaller<S> {
    fn clone(&self) -> Self {
        ServiceCaller {
            client: self.client.clone(),
            name: self.name.clone(),
        }
    }
}

impl<S: Service> ServiceCaller<S> {
    fn new(node: &Node, name: &str) -> Result<Self, RclrsError> {
        Ok(ServiceCaller {
            client: node.create_client::<S>(name)?,
            name: name.into(),
        })
    }

    /// Calls it, waiting for the server to be there within the same limit.
    ///
    /// # Errors
    /// A sentence that names the service.
    pub(crate) async fn call(
        &self,
        request: S::Request,
        limit: Duration,
    ) -> Result<S::Response, String> {
        let until = Instant::now() + limit;
        while !self.client.service_is_ready().unwrap_or(false) {
            if Instant::now() >= until {
                return Err(format!(
                    "the service '{}' is not there; start the node that offers it, or correct its name",
                    self.name
                ));
            }
            sleep(LOOK).await;
        }
        let answer: Promise<S::Response> = self
            .client
            .call(request)
            .map_err(|e| format!("ROS refused a call of '{}': {e}", self.name))?;
        match within(until.saturating_duration_since(Instant::now()), answer).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(_)) => Err("the node is shutting down".into()),
            Err(_) => Err(format!(
                "the service '{}' did not answer within {} s",
                self.name,
                limit.as_secs_f64()
            )),
        }
    }
}

/// The nodes around, and what is published.
pub(crate) struct Neighbours {
    node: Node,
    clock: NodeClock,
    inbox: Inbox,
    planner: Sender<Question>,
    lease: Lease,
    query_scene: ServiceCaller<QueryScene>,
    apply_effects: ServiceCaller<ApplyEffects>,
    evaluator: GoalClient<EvaluateRun>,
    evaluation_timeout: Duration,
    scene_timeout: Duration,
    skills: Mutex<HashMap<String, GoalClient<ExecuteSkill>>>,
    queries: Mutex<HashMap<String, ServiceCaller<QueryCommand>>>,
    settlements: Mutex<HashMap<String, ServiceCaller<SettleCommand>>>,
    session_events: Publisher<SessionEventMsg>,
    human_requests: Publisher<HumanRequestMsg>,
}

impl Neighbours {
    pub(crate) fn new(
        node: &Node,
        parameters: &Parameters,
        inbox: Inbox,
        planner: Sender<Question>,
    ) -> Result<Arc<Self>, Error> {
        let lease = Lease::new(
            node,
            ServiceCaller::new(node, &parameters.manage_lease_service)?,
            parameters.settings.controller_id.clone(),
            parameters.lease_ttl,
            inbox.clone(),
        );
        let this = Arc::new(Neighbours {
            node: node.clone(),
            clock: NodeClock::of(node),
            inbox,
            planner,
            lease,
            query_scene: ServiceCaller::new(node, &parameters.query_scene_service)?,
            apply_effects: ServiceCaller::new(node, &parameters.apply_effects_service)?,
            evaluator: GoalClient::new(node, &parameters.evaluate_run_action)?,
            evaluation_timeout: parameters.settings.policy.evaluation_timeout,
            scene_timeout: parameters.settings.waits.scene,
            skills: Mutex::default(),
            queries: Mutex::default(),
            settlements: Mutex::default(),
            session_events: node
                .create_publisher("session_events".qos(qos::state_latched(SESSION_DEPTH)))?,
            human_requests: node
                .create_publisher("human_requests".qos(qos::state_latched(REQUEST_DEPTH)))?,
        });
        let watch = Arc::clone(&this);
        drop(node.commands().run(async move {
            let mut last = None;
            loop {
                let there = watch.evaluator.server_is_there();
                if last != Some(there) {
                    last = Some(there);
                    watch.inbox.event(Event::EvaluatorSeen(there));
                }
                sleep(WATCH).await;
            }
        }));
        Ok(this)
    }

    /// The control lease.
    pub(crate) const fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Makes the clients for an executor as soon as it is known, so that they are connected when they
    /// are needed.
    pub(crate) fn meet(&self, catalog: &Catalog) {
        for descriptor in &catalog.skills {
            self.warn(self.skill(&descriptor.action_name).err());
        }
        self.warn(self.query(&catalog.executor).err());
        self.warn(self.settlement(&catalog.executor).err());
    }

    fn warn(&self, problem: Option<impl std::fmt::Display>) {
        if let Some(problem) = problem {
            log_warn!(self.node.logger(), "{problem}");
        }
    }

    fn skill(&self, action: &str) -> Result<GoalClient<ExecuteSkill>, GoalClientError> {
        let mut skills = self.skills.lock();
        if let Some(client) = skills.get(action) {
            return Ok(client.clone());
        }
        let client = GoalClient::<ExecuteSkill>::new(&self.node, action)?;
        skills.insert(action.into(), client.clone());
        let mut feedback = client.feedback();
        let mut late = client.late_acknowledgements();
        let inbox = self.inbox.clone();
        drop(self.node.commands().run(async move {
            loop {
                match feedback.recv().await {
                    Ok(message) => {
                        // One that can't be read says nothing; the topic and the result will.
                        if let Ok(status) = skill::status(&message.feedback.status) {
                            inbox.event(Event::Status(Box::new(status)));
                        }
                    }
                    Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => {}
                    Err(tokio::sync::broadcast::error::RecvError::Closed) => return,
                }
            }
        }));
        let logger = self.node.logger().clone();
        let action = action.to_owned();
        drop(self.node.commands().run(async move {
            while let Ok(answer) = late.recv().await {
                log_info!(
                    &logger,
                    "{action} acknowledged goal {} late (accepted: {})",
                    answer.goal_id,
                    answer.accepted
                );
            }
        }));
        Ok(client)
    }

    fn query(&self, executor: &str) -> Result<ServiceCaller<QueryCommand>, RclrsError> {
        caller(&self.node, &self.queries, &format!("{executor}/query"))
    }

    fn settlement(&self, executor: &str) -> Result<ServiceCaller<SettleCommand>, RclrsError> {
        caller(&self.node, &self.settlements, &format!("{executor}/settle"))
    }

    fn now(&self) -> Stamp {
        Stamp(self.clock.ros_ns())
    }

    async fn read_scene(&self, ticket: u64) {
        let request = QueryScene_Request {
            operation: QueryScene_Request::OPERATION_ALL,
            limit: SCENE_LIMIT,
            ..QueryScene_Request::default()
        };
        let result = match self.query_scene.call(request, self.scene_timeout).await {
            Ok(answer) if answer.error_code == ErrorCode::None.code() => {
                messages::snapshot(&answer, self.now())
                    .map(Box::new)
                    .map_err(|e| e.to_string())
            }
            Ok(answer) => Err(answer.error_msg),
            Err(reason) => Err(reason),
        };
        self.inbox.event(Event::SceneRead { ticket, result });
    }

    async fn send_goal(&self, request: GoalRequest) {
        let command_id = request.command.command_id.clone();
        let refused = |code: ErrorCode, reason: String| {
            self.inbox.event(Event::GoalRefused {
                command_id: command_id.clone(),
                code,
                reason,
            });
        };
        let client = match self.skill(&request.action_name) {
            Ok(client) => client,
            Err(error) => return refused(ErrorCode::SendGoalFailure, error.to_string()),
        };
        if let Err(error) = client.wait_for_server(SHORT).await {
            return refused(ErrorCode::ServerUnavailable, error.to_string());
        }
        let goal_id = Uuid::from_bytes(request.goal_id);
        let longest = request.command.execution_timeout
            + request.command.stop_timeout()
            + Duration::from_secs(30);
        let goal = ExecuteSkill_Goal {
            command: command::command_msg(&request.command),
            envelope: command::envelope_msg(&request.envelope),
            segment: request.segment,
        };
        match client.send_goal(goal_id, goal, ACKNOWLEDGEMENT).await {
            Ok(_) => self.inbox.event(Event::GoalAccepted {
                command_id: command_id.clone(),
            }),
            Err(error @ GoalClientError::Rejected { .. }) => {
                return refused(ErrorCode::GoalRejected, error.to_string());
            }
            // It may run all the same: the loop asks the executor.
            Err(
                error @ (GoalClientError::NotAcknowledged { .. }
                | GoalClientError::NoAnswer { .. }
                | GoalClientError::UnknownGoal { .. }
                | GoalClientError::Ended),
            ) => self.warn(Some(error)),
            // Nothing was sent.
            Err(
                error @ (GoalClientError::ServerAbsent { .. }
                | GoalClientError::SentBefore { .. }
                | GoalClientError::NilGoal
                | GoalClientError::Ros { .. }),
            ) => return refused(ErrorCode::SendGoalFailure, error.to_string()),
        }
        match client.result(goal_id, longest).await {
            Ok(end) => {
                let result = end.result;
                match skill::status(&result.status) {
                    Ok(status)
                        if status.command_id == command_id
                            && status.state != ExecutorState::Unspecified =>
                    {
                        self.inbox.event(Event::Status(Box::new(status)));
                    }
                    // A refusal before there was a record: nothing was started.
                    _ if result.error_code != ErrorCode::None.code() => {
                        let code = ErrorCode::from_code(result.error_code)
                            .unwrap_or(ErrorCode::GoalRejected);
                        refused(code, result.error_msg);
                    }
                    _ => self.warn(Some(format!(
                        "the result of {command_id} says nothing about it; the executor is asked"
                    ))),
                }
            }
            // The loop asks the executor when nothing else comes.
            Err(error) => self.warn(Some(error)),
        }
    }

    async fn cancel_goal(&self, command_id: String, action_name: String, goal_id: [u8; 16]) {
        let client = match self.skill(&action_name) {
            Ok(client) => client,
            Err(error) => return self.warn(Some(error)),
        };
        let goal_id = Uuid::from_bytes(goal_id);
        // After a restart the client is new: give it the time to find the server.
        let answer = match client.wait_for_server(SHORT).await {
            Ok(()) => client.cancel(goal_id, SHORT).await,
            Err(error) => Err(error),
        };
        match answer {
            Ok(answer) => log_info!(
                self.node.logger(),
                "cancel of {command_id} (goal {goal_id}): {answer:?}"
            ),
            Err(error) => self.warn(Some(error)),
        }
    }

    async fn query_executor(&self, command_id: String, executor: String) {
        let caller = match self.query(&executor) {
            Ok(caller) => caller,
            Err(error) => return self.warn(Some(error)),
        };
        let request = QueryCommand_Request {
            command_id: command_id.clone(),
        };
        match caller.call(request, SHORT).await {
            Ok(answer) if answer.error_code == ErrorCode::None.code() => {
                for status in &answer.statuses {
                    match skill::status(status) {
                        Ok(status) if status.command_id == command_id => {
                            self.inbox.event(Event::Status(Box::new(status)));
                        }
                        Ok(_) => {}
                        Err(error) => self.warn(Some(error)),
                    }
                }
            }
            Ok(answer) if answer.error_code == ErrorCode::CommandNotFound.code() => {
                self.inbox.event(Event::CommandNotFound { command_id });
            }
            Ok(answer) => self.warn(Some(answer.error_msg)),
            Err(error) => self.warn(Some(error)),
        }
    }

    async fn evaluate(&self, command_id: String, run_id: String, segment: u32) {
        let goal = EvaluateRun_Goal {
            run_id,
            segment,
            ..EvaluateRun_Goal::default()
        };
        let result = self.verdict(goal).await;
        self.inbox.event(Event::Judged { command_id, result });
    }

    async fn verdict(
        &self,
        goal: EvaluateRun_Goal,
    ) -> Result<Box<eh_contract::verdict::Verdict>, String> {
        let words = |error: GoalClientError| error.to_string();
        self.evaluator.wait_for_server(SHORT).await.map_err(words)?;
        let goal_id = Uuid::new_v4();
        self.evaluator
            .send_goal(goal_id, goal, ACKNOWLEDGEMENT)
            .await
            .map_err(words)?;
        let end = self
            .evaluator
            .result(goal_id, self.evaluation_timeout)
            .await
            .map_err(words)?;
        if end.result.error_code != ErrorCode::None.code() {
            return Err(end.result.error_msg);
        }
        verdict::verdict(&end.result.verdict)
            .map(Box::new)
            .map_err(|e| format!("the verdict can't be read: {e}"))
    }

    async fn settle(&self, settlement: Settlement) {
        let Settlement {
            command_id,
            executor,
            request,
        } = settlement;
        let caller = match self.settlement(&executor) {
            Ok(caller) => caller,
            Err(error) => return self.warn(Some(error)),
        };
        match caller.call(request, SHORT).await {
            Ok(answer) => {
                let released = answer.error_code == ErrorCode::None.code()
                    // What it never had it does not hold.
                    || answer.error_code == ErrorCode::CommandNotFound.code()
                    || answer.state.eq_ignore_ascii_case("settled");
                if released {
                    self.inbox.event(Event::SettleConfirmed { command_id });
                } else {
                    self.warn(Some(format!(
                        "{executor} did not release {command_id}: {}",
                        answer.error_msg
                    )));
                }
            }
            Err(error) => self.warn(Some(error)),
        }
    }

    async fn apply_effects(
        &self,
        command_id: String,
        verdict: Box<eh_contract::verdict::Verdict>,
        effects: serde_json::Value,
    ) {
        let request = ApplyEffects_Request {
            verdict: verdict::verdict_msg(&verdict),
            effects_json: effects.to_string(),
        };
        let result = match self.apply_effects.call(request, self.scene_timeout).await {
            Ok(answer)
                if answer.error_code == ErrorCode::None.code()
                    || answer.error_code == ErrorCode::AlreadyApplied.code() =>
            {
                Ok(())
            }
            Ok(answer) => Err(answer.error_msg),
            Err(reason) => Err(reason),
        };
        self.inbox
            .event(Event::EffectsApplied { command_id, result });
    }
}

struct Settlement {
    command_id: String,
    executor: String,
    request: SettleCommand_Request,
}

fn caller<S: Service>(
    node: &Node,
    known: &Mutex<HashMap<String, ServiceCaller<S>>>,
    name: &str,
) -> Result<ServiceCaller<S>, RclrsError> {
    let mut known = known.lock();
    if let Some(caller) = known.get(name) {
        return Ok(caller.clone());
    }
    let caller = ServiceCaller::new(node, name)?;
    known.insert(name.into(), caller.clone());
    Ok(caller)
}

/// Performs outputs in their order; calls go side by side and nothing waits for them here.
pub(crate) fn perform(
    neighbours: &Arc<Neighbours>,
    mut outputs: UnboundedReceiver<Output>,
    halt: Shutdown,
) -> Promise<()> {
    let this = Arc::clone(neighbours);
    neighbours.node.commands().run(async move {
        while let Some(output) = outputs.recv().await {
            match output {
                Output::Effect(effect) => {
                    let failpoint = effect.failpoint();
                    perform_one(&this, effect);
                    reach(failpoint, Moment::After);
                }
                Output::Publish(event) => {
                    let message = task::session_event_msg(&event);
                    this.warn(this.session_events.publish(message).err());
                }
                Output::Halt => {
                    this.lease.release().await;
                    // The middleware sends results and the like from threads of its own.
                    sleep(Duration::from_millis(200)).await;
                    halt.request();
                    return;
                }
            }
        }
    })
}

fn perform_one(this: &Arc<Neighbours>, effect: Effect) {
    let commands = this.node.commands();
    let to = Arc::clone(this);
    match effect {
        Effect::ReadScene { ticket } => {
            drop(commands.run(async move { to.read_scene(ticket).await }));
        }
        Effect::Begin {
            ticket,
            instruction,
            scene,
        } => {
            let question = Question::Begin {
                ticket,
                instruction,
                scene,
            };
            ask_planner(this, ticket, question);
        }
        Effect::Plan(request) => {
            let ticket = request.ticket;
            ask_planner(this, ticket, Question::Next(request));
        }
        Effect::AcquireLease => this.lease.acquire(),
        Effect::ReleaseLease => drop(commands.run(async move { to.lease.release().await })),
        Effect::SendGoal(request) => {
            drop(commands.run(async move { to.send_goal(*request).await }));
        }
        Effect::CancelGoal {
            command_id,
            action_name,
            goal_id,
        } => drop(commands.run(async move {
            to.cancel_goal(command_id, action_name, goal_id).await;
        })),
        Effect::QueryExecutor {
            command_id,
            executor,
        } => drop(commands.run(async move { to.query_executor(command_id, executor).await })),
        Effect::Evaluate {
            command_id,
            run_id,
            segment,
        } => drop(commands.run(async move { to.evaluate(command_id, run_id, segment).await })),
        Effect::SettleExecutor {
            command_id,
            executor,
            to: finality,
            settled_by,
            reason,
            fencing_token,
        } => {
            let settlement = Settlement {
                command_id: command_id.clone(),
                executor,
                request: SettleCommand_Request {
                    command_id,
                    final_state: Finality::to_wire(finality),
                    settled_by,
                    reason,
                    fencing_token,
                },
            };
            drop(commands.run(async move { to.settle(settlement).await }));
        }
        Effect::ApplyEffects {
            command_id,
            verdict,
            effects,
        } => drop(commands.run(async move {
            to.apply_effects(command_id, verdict, effects).await;
        })),
        Effect::AskHuman(request) => {
            let message = messages::human_request_msg(&request);
            this.warn(this.human_requests.publish(message).err());
        }
        // Performed by the loop itself.
        Effect::SaveCommand(_)
        | Effect::SaveTask(_)
        | Effect::Journal(_)
        | Effect::Feedback(_)
        | Effect::Finish(_)
        | Effect::Warn(_) => {}
    }
}

fn ask_planner(this: &Arc<Neighbours>, ticket: u64, question: Question) {
    if this.planner.send(question).is_err() {
        this.inbox.event(Event::PlannerFailed {
            ticket,
            reason: "the planner's thread has ended; its log says why; restart harness_node".into(),
        });
    }
}

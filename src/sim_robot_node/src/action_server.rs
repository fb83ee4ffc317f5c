//! One action, served by hand: services `send_goal`, `cancel_goal`, `get_result` and topics `feedback`,
//! `status` below `<name>/_action`.

use std::any::Any;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::future::pending;
use std::time::Duration;

use eh_ros_edge::convert::{time_msg, time_ns, uuid_from, uuid_msg};
use eh_ros_edge::qos;
use eh_sim::{FaultKind, Robot};
use rclrs::{
    log_info, log_warn, IntoPrimitiveOptions, Node, Publisher, QoSProfile, RclrsError, ToLogParams,
};
use ros_env::action_msgs::msg::{GoalInfo, GoalStatus, GoalStatusArray};
use ros_env::action_msgs::srv::{CancelGoal, CancelGoal_Request, CancelGoal_Response};
use rosidl_runtime_rs::{Action, Message, Service};
use uuid::Uuid;

use crate::goal_book::{CancelAnswer, End, Entry, GoalBook, ResultAnswer};
use crate::simulation::{Moment, Simulation};
use crate::simulation_thread::SimulationHandle;

/// How many starts are remembered for the ground truth.
const REMEMBERED_STARTS: usize = 10_000;
/// How long a server that restarts answers nothing, unless the fault says it.
const DEFAULT_OUTAGE: f64 = 0.5;
/// How long after the goal a server restarts, unless the fault says it.
const DEFAULT_RESTART_AFTER: f64 = 1.0;

type GoalOf<S> = <<S as Served>::Action as Action>::Goal;
type ResultOf<S> = <<S as Served>::Action as Action>::Result;
type FeedbackOf<S> = <<S as Served>::Action as Action>::Feedback;
type FeedbackMessageOf<S> = <<S as Served>::Action as Action>::FeedbackMessage;
type SendGoal<A> = <A as Action>::SendGoalService;
type GetResult<A> = <A as Action>::GetResultService;

/// What the robot makes of a goal.
pub(crate) enum Begin<J, R> {
    /// It runs.
    Running(J),
    /// It was accepted and ended at once.
    Ended(End<R>),
    /// It is not accepted; the reason is for the log.
    Refused(String),
}

/// How a running goal stands.
pub(crate) enum Progress<F, R> {
    /// It runs; feedback when there is something to tell.
    Running(Option<F>),
    /// It ended.
    Ended(End<R>),
}

/// One of the robot's skills behind an action.
pub(crate) trait Served: Send + 'static {
    /// The action's type.
    type Action: Action;
    /// A goal that runs.
    type Job: Send + 'static;
    /// The server's name for faults and in the ground truth, whatever the action is called.
    const NAME: &'static str;

    /// Gives the goal to the robot.
    fn begin(
        &mut self,
        robot: &mut Robot,
        moment: Moment,
        goal: &GoalOf<Self>,
    ) -> Begin<Self::Job, ResultOf<Self>>
    where
        Self: Sized;

    /// How the goal stands.
    fn poll(
        &mut self,
        robot: &Robot,
        moment: Moment,
        job: &mut Self::Job,
    ) -> Progress<FeedbackOf<Self>, ResultOf<Self>>
    where
        Self: Sized;

    /// Feedback that comes right before the result, if there is any.
    fn last_feedback(&self) -> Option<FeedbackOf<Self>>
    where
        Self: Sized,
    {
        None
    }

    /// Asks the robot to give the goal up.
    fn cancel(&mut self, robot: &mut Robot, job: &Self::Job);
}

/// What a server answers to a goal.
pub(crate) enum GoalReply {
    /// Accepted at this time, ROS time in nanoseconds.
    Accepted(i64),
    /// Not accepted.
    Rejected,
    /// No answer comes.
    Silent,
}

/// One action's server, owned by the simulation's thread.
pub(crate) struct Server<S: Served> {
    served: S,
    node: Node,
    book: GoalBook<ResultOf<S>>,
    jobs: Vec<(Uuid, S::Job)>,
    feedback: Publisher<FeedbackMessageOf<S>>,
    status: Publisher<GoalStatusArray>,
    starts: VecDeque<(Uuid, u64)>,
    requests: u64,
    restart_at: Option<(Duration, Duration)>,
    down_until: Duration,
}

impl<S: Served> Server<S> {
    /// Creates the server with its topics. `keep`: how long the result of an ended goal is kept.
    ///
    /// # Errors
    /// If the name is not valid.
    pub(crate) fn new(
        node: &Node,
        name: &str,
        keep: Duration,
        served: S,
    ) -> Result<Self, RclrsError> {
        let feedback = format!("{name}/_action/feedback");
        let status = format!("{name}/_action/status");
        Ok(Self {
            served,
            node: node.clone(),
            book: GoalBook::new(keep),
            jobs: Vec::new(),
            feedback: node.create_publisher(feedback.as_str().qos(QoSProfile::topics_default()))?,
            status: node.create_publisher(status.as_str().qos(qos::action_status()))?,
            starts: VecDeque::new(),
            requests: 0,
            restart_at: None,
            down_until: Duration::ZERO,
        })
    }

    /// What the robot's side of the server keeps.
    pub(crate) fn served_mut(&mut self) -> &mut S {
        &mut self.served
    }

    /// Starts that were given to the robot, by the goal's id, oldest first.
    pub(crate) fn starts(&self) -> impl Iterator<Item = (Uuid, u64)> + '_ {
        self.starts.iter().copied()
    }

    /// Goals that were asked for, accepted or not.
    pub(crate) fn requests(&self) -> u64 {
        self.requests
    }

    fn is_down(&self, moment: Moment) -> bool {
        moment.now < self.down_until
    }

    fn request(
        &mut self,
        robot: &mut Robot,
        moment: Moment,
        id: Uuid,
        goal: &GoalOf<S>,
    ) -> GoalReply {
        self.requests += 1;
        if self.is_down(moment) {
            return GoalReply::Silent;
        }
        if self.book.contains(id) {
            log_warn!(
                self.node.logger(),
                "{}: goal {id} rejected: its id was used before",
                S::NAME
            );
            return GoalReply::Rejected;
        }
        let begin = match self.served.begin(robot, moment, goal) {
            Begin::Refused(reason) => {
                log_warn!(
                    self.node.logger(),
                    "{}: goal {id} rejected: {reason}",
                    S::NAME
                );
                return GoalReply::Rejected;
            }
            begin => begin,
        };
        self.count_start(id);
        if !self.book.accept(id, moment.stamp_ns) {
            // Hundreds run: what was begun is given up again.
            if let Begin::Running(job) = begin {
                self.served.cancel(robot, &job);
            }
            return GoalReply::Rejected;
        }
        match begin {
            Begin::Running(job) => self.jobs.push((id, job)),
            Begin::Ended(end) => self.end(robot, moment, id, end),
            Begin::Refused(_) => {}
        }
        self.publish_status();
        if let Some(fault) = robot.take_server_fault(S::NAME, FaultKind::ServerRestart) {
            let after = fault.after_s.unwrap_or(DEFAULT_RESTART_AFTER);
            let outage = fault.duration_s.unwrap_or(DEFAULT_OUTAGE);
            self.restart_at = Some((
                moment.now + Duration::from_secs_f64(after),
                Duration::from_secs_f64(outage),
            ));
        }
        if robot
            .take_server_fault(S::NAME, FaultKind::LostAck)
            .is_some()
        {
            log_info!(
                self.node.logger(),
                "{}: the acknowledgement of goal {id} gets lost",
                S::NAME
            );
            return GoalReply::Silent;
        }
        GoalReply::Accepted(moment.stamp_ns)
    }

    fn count_start(&mut self, id: Uuid) {
        if let Some((_, count)) = self.starts.iter_mut().find(|(started, _)| *started == id) {
            *count += 1;
            return;
        }
        if self.starts.len() >= REMEMBERED_STARTS {
            self.starts.pop_front();
        }
        self.starts.push_back((id, 1));
    }

    fn cancel(
        &mut self,
        robot: &mut Robot,
        moment: Moment,
        id: Option<Uuid>,
        stamp_ns: Option<i64>,
    ) -> Option<CancelAnswer> {
        if self.is_down(moment) {
            return None;
        }
        let answer = self.book.cancel(id, stamp_ns);
        if let CancelAnswer::Canceling(canceling) = &answer {
            for (job_id, job) in &self.jobs {
                if canceling.iter().any(|entry| entry.id == *job_id) {
                    self.served.cancel(robot, job);
                }
            }
            self.publish_status();
        }
        Some(answer)
    }

    fn result(&mut self, moment: Moment, id: Uuid) -> ResultAnswer<ResultOf<S>> {
        if self.is_down(moment) {
            return ResultAnswer::Lost;
        }
        self.book.result(id)
    }

    fn end(&mut self, robot: &mut Robot, moment: Moment, id: Uuid, end: End<ResultOf<S>>) {
        let lose = robot
            .take_server_fault(S::NAME, FaultKind::LostResult)
            .is_some();
        if lose {
            log_info!(
                self.node.logger(),
                "{}: the result of goal {id} gets lost",
                S::NAME
            );
        }
        self.book.end(id, end, moment.now, lose);
    }

    /// Goes on after a step of the simulation.
    pub(crate) fn tick(&mut self, robot: &mut Robot, moment: Moment) {
        if let Some((_, outage)) = self.restart_at.filter(|(at, _)| moment.now >= *at) {
            self.restart_at = None;
            self.restart(robot, moment, outage);
        }
        let mut ended = Vec::new();
        let mut jobs = std::mem::take(&mut self.jobs);
        jobs.retain_mut(|(id, job)| match self.served.poll(robot, moment, job) {
            Progress::Running(feedback) => {
                if let Some(feedback) = feedback {
                    self.publish_feedback(*id, feedback);
                }
                true
            }
            Progress::Ended(end) => {
                if let Some(feedback) = self.served.last_feedback() {
                    self.publish_feedback(*id, feedback);
                }
                ended.push((*id, end));
                false
            }
        });
        self.jobs = jobs;
        let mut changed = self.book.expire(moment.now);
        for (id, end) in ended {
            changed = true;
            self.end(robot, moment, id, end);
        }
        if changed {
            self.publish_status();
        }
    }

    /// Forgets every goal, stops what moves, and answers nothing for a while.
    fn restart(&mut self, robot: &mut Robot, moment: Moment, outage: Duration) {
        log_info!(
            self.node.logger(),
            "{}: restarts and forgets its goals",
            S::NAME
        );
        for (_, job) in std::mem::take(&mut self.jobs) {
            self.served.cancel(robot, &job);
        }
        self.book.forget_all();
        self.down_until = moment.now + outage;
        self.publish_status();
    }

    fn publish_feedback(&self, id: Uuid, feedback: FeedbackOf<S>) {
        let feedback = FeedbackOf::<S>::into_rmw_message(Cow::Owned(feedback)).into_owned();
        let message = S::Action::create_feedback_message(id.as_bytes(), feedback);
        let message = FeedbackMessageOf::<S>::from_rmw_message(message);
        self.warn_of(self.feedback.publish(message));
    }

    fn publish_status(&self) {
        let status_list = self
            .book
            .entries()
            .map(|entry| GoalStatus {
                goal_info: goal_info(&entry),
                status: entry.state as i8,
            })
            .collect();
        self.warn_of(self.status.publish(GoalStatusArray { status_list }));
    }

    fn warn_of(&self, published: Result<(), RclrsError>) {
        if let Err(error) = published {
            log_warn!(
                self.node.logger().throttle(Duration::from_secs(5)),
                "{}: not published: {error}",
                S::NAME
            );
        }
    }
}

fn goal_info(entry: &Entry) -> GoalInfo {
    GoalInfo {
        goal_id: uuid_msg(entry.id),
        // A time that a message can't hold is "unknown" there: zero.
        stamp: time_msg(entry.stamp_ns).unwrap_or_default(),
    }
}

fn to_rmw<M: Message>(message: M) -> M::RmwMsg {
    M::into_rmw_message(Cow::Owned(message)).into_owned()
}

/// Where a server and the robot are in the simulation.
pub(crate) type Access<S> = fn(&mut Simulation) -> (&mut Robot, &mut Server<S>);

/// Creates the three services of an action. They live as long as what is returned.
///
/// # Errors
/// If the name is not valid.
pub(crate) fn serve<S: Served>(
    node: &Node,
    name: &str,
    simulation: &SimulationHandle,
    access: Access<S>,
) -> Result<Vec<Box<dyn Any>>, RclrsError> {
    type RequestOf<T> = <T as Service>::Request;
    type ResponseOf<T> = <T as Service>::Response;

    let handle = simulation.clone();
    let send_goal = node.create_async_service::<SendGoal<S::Action>, _>(
        format!("{name}/_action/send_goal").as_str(),
        move |request: RequestOf<SendGoal<S::Action>>| {
            let (id, goal) = S::Action::split_goal_request(to_rmw(request));
            let (id, goal) = (Uuid::from_bytes(id), GoalOf::<S>::from_rmw_message(goal));
            let handle = handle.clone();
            async move {
                let reply = handle
                    .ask(move |simulation| {
                        let moment = simulation.moment();
                        let (robot, server) = access(simulation);
                        server.request(robot, moment, id, &goal)
                    })
                    .await;
                let (accepted, stamp) = match reply {
                    Some(GoalReply::Accepted(stamp)) => (true, stamp),
                    Some(GoalReply::Rejected) => (false, 0),
                    Some(GoalReply::Silent) | None => pending().await,
                };
                let stamp = time_msg(stamp).unwrap_or_default();
                ResponseOf::<SendGoal<S::Action>>::from_rmw_message(
                    S::Action::create_goal_response(accepted, (stamp.sec, stamp.nanosec)),
                )
            }
        },
    )?;

    let handle = simulation.clone();
    let cancel_goal = node.create_async_service::<CancelGoal, _>(
        format!("{name}/_action/cancel_goal").as_str(),
        move |request: CancelGoal_Request| {
            let handle = handle.clone();
            async move {
                // Zero means: not given.
                let id = Some(uuid_from(&request.goal_info.goal_id)).filter(|id| !id.is_nil());
                let stamp = Some(time_ns(&request.goal_info.stamp)).filter(|stamp| *stamp != 0);
                let answer = handle
                    .ask(move |simulation| {
                        let moment = simulation.moment();
                        let (robot, server) = access(simulation);
                        server.cancel(robot, moment, id, stamp)
                    })
                    .await;
                match answer.flatten() {
                    Some(answer) => cancel_response(&answer),
                    None => pending().await,
                }
            }
        },
    )?;

    let handle = simulation.clone();
    let get_result = node.create_async_service::<GetResult<S::Action>, _>(
        format!("{name}/_action/get_result").as_str(),
        move |request: RequestOf<GetResult<S::Action>>| {
            let request = to_rmw(request);
            let id = Uuid::from_bytes(*S::Action::get_result_request_uuid(&request));
            let handle = handle.clone();
            async move {
                let answer = handle
                    .ask(move |simulation| {
                        let moment = simulation.moment();
                        access(simulation).1.result(moment, id)
                    })
                    .await;
                let (status, result) = match answer {
                    Some(ResultAnswer::Ended(state, result)) => (state as i8, result),
                    Some(ResultAnswer::Unknown) => {
                        (GoalStatus::STATUS_UNKNOWN, ResultOf::<S>::default())
                    }
                    Some(ResultAnswer::Later(end)) => match end.await {
                        Ok((state, result)) => (state as i8, result),
                        Err(_) => pending().await,
                    },
                    Some(ResultAnswer::Lost) | None => pending().await,
                };
                ResponseOf::<GetResult<S::Action>>::from_rmw_message(
                    S::Action::create_result_response(status, to_rmw(result)),
                )
            }
        },
    )?;
    Ok(vec![
        Box::new(send_goal),
        Box::new(cancel_goal),
        Box::new(get_result),
    ])
}

fn cancel_response(answer: &CancelAnswer) -> CancelGoal_Response {
    let (return_code, goals_canceling) = match answer {
        CancelAnswer::Canceling(entries) => (
            CancelGoal_Response::ERROR_NONE,
            entries.iter().map(goal_info).collect(),
        ),
        CancelAnswer::Unknown => (CancelGoal_Response::ERROR_UNKNOWN_GOAL_ID, Vec::new()),
        CancelAnswer::Ended => (CancelGoal_Response::ERROR_GOAL_TERMINATED, Vec::new()),
    };
    CancelGoal_Response {
        return_code,
        goals_canceling,
    }
}

//! A client to any ROS 2 action that sends a goal under an identifier chosen by the caller.
//!
//! rclrs' own action client makes the identifier itself and tells it only after the goal was sent. To
//! write it down *before*, this client speaks to the action's services and topics directly:
//! `<action>/_action/{send_goal,get_result,cancel_goal,feedback,status}`. Any process that knows the
//! identifier can ask for the result, watch the status, or cancel.
//!
//! Every wait has a deadline on the steady clock. A deadline that passes says nothing about the goal: a
//! server may have taken it. An acknowledgement that comes after it is not lost, see
//! [`GoalClient::late_acknowledgements`].

use std::borrow::Cow;
use std::collections::{HashSet, VecDeque};
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rclrs::{Client, IntoPrimitiveOptions, Node, Promise, RclrsError, Subscription};
use ros_env::action_msgs::msg::GoalStatusArray;
use ros_env::action_msgs::srv::{CancelGoal, CancelGoal_Request, CancelGoal_Response};
use rosidl_runtime_rs::{Action, Message, RmwFeedbackMessage, Service};
use tokio::sync::{broadcast, watch};
use uuid::Uuid;

use crate::convert;
use crate::deadline::within;
use crate::qos;

/// How many feedback messages are kept for a receiver that is slow; the oldest go first.
const FEEDBACK_DEPTH: usize = 64;
/// How many identifiers are remembered to refuse sending one twice. The caller's journal is the real
/// guard, this one catches slips.
const REMEMBERED_GOALS: usize = 4096;

type Request<S> = <S as Service>::Request;
type Response<S> = <S as Service>::Response;
type SendGoalResponse<A> = Response<<A as Action>::SendGoalService>;
type GetResultResponse<A> = Response<<A as Action>::GetResultService>;

/// What went wrong with a request to an action server.
#[derive(Debug, thiserror::Error)]
pub enum GoalClientError {
    /// No server offers the action.
    #[error("no server of the action '{action}' is there: start it, or correct the action's name")]
    ServerAbsent {
        /// Name of the action.
        action: String,
    },
    /// No acknowledgement came in time. The goal may run all the same.
    #[error("the action '{action}' did not acknowledge goal {goal_id} within {} s: it may run all the same; ask for its status and result, or cancel it, by this id", limit.as_secs_f64())]
    NotAcknowledged {
        /// Name of the action.
        action: String,
        /// The goal.
        goal_id: Uuid,
        /// How long was waited.
        limit: Duration,
    },
    /// The server does not take the goal.
    #[error("the action '{action}' rejected goal {goal_id}")]
    Rejected {
        /// Name of the action.
        action: String,
        /// The goal.
        goal_id: Uuid,
    },
    /// The server does not know the goal, or no longer. That does not prove that it never ran.
    #[error("the action '{action}' does not know goal {goal_id}: it never came, its result has expired, or the server was restarted")]
    UnknownGoal {
        /// Name of the action.
        action: String,
        /// The goal.
        goal_id: Uuid,
    },
    /// No answer came in time.
    #[error("the action '{action}' did not answer about goal {goal_id} within {} s", limit.as_secs_f64())]
    NoAnswer {
        /// Name of the action.
        action: String,
        /// The goal.
        goal_id: Uuid,
        /// How long was waited.
        limit: Duration,
    },
    /// The identifier was sent before by this client. Some servers crash when one comes twice.
    #[error("goal {goal_id} was sent before: take a new id for a new goal")]
    SentBefore {
        /// The goal.
        goal_id: Uuid,
    },
    /// The all-zero identifier is no goal; in a cancel request it would mean every goal of the server.
    #[error("the all-zero id is no goal: take a random one")]
    NilGoal,
    /// ROS refused the call.
    #[error("ROS refused a call of the action '{action}': {source}")]
    Ros {
        /// Name of the action.
        action: String,
        /// What ROS says.
        #[source]
        source: RclrsError,
    },
    /// The executor has ended, so no answer can come any more.
    #[error("the node is shutting down")]
    Ended,
}

/// How a goal stands, as in `action_msgs/msg/GoalStatus`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GoalStatus {
    /// The server does not say.
    Unknown,
    /// Accepted, not yet begun.
    Accepted,
    /// Running.
    Executing,
    /// A cancel was accepted; it may still move.
    Canceling,
    /// Ended well, as the server sees it.
    Succeeded,
    /// Ended by a cancel.
    Canceled,
    /// Ended by the server.
    Aborted,
}

impl GoalStatus {
    /// The status of a number on the wire; numbers of no meaning are [`GoalStatus::Unknown`].
    pub fn from_wire(code: i8) -> Self {
        match code {
            1 => Self::Accepted,
            2 => Self::Executing,
            3 => Self::Canceling,
            4 => Self::Succeeded,
            5 => Self::Canceled,
            6 => Self::Aborted,
            _ => Self::Unknown,
        }
    }

    /// Whether the goal has ended for good.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Canceled | Self::Aborted)
    }
}

/// The server took the goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted {
    /// The goal.
    pub goal_id: Uuid,
    /// When the server took it, in its ROS time, nanoseconds.
    pub stamp_ns: i64,
}

/// An acknowledgement that came after its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LateAcknowledgement {
    /// The goal.
    pub goal_id: Uuid,
    /// Whether the server took it: if so it runs, and somebody has to own or cancel it.
    pub accepted: bool,
    /// When the server answered, in its ROS time, nanoseconds.
    pub stamp_ns: i64,
}

/// How a goal ended, as the server tells it.
#[derive(Debug, Clone, PartialEq)]
pub struct GoalResult<R> {
    /// The goal.
    pub goal_id: Uuid,
    /// A terminal status.
    pub status: GoalStatus,
    /// The action's own result.
    pub result: R,
}

/// A server's answer to a cancel request. Accepted does not mean that anything stands still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelAnswer {
    /// The goal is being canceled.
    Accepted,
    /// The server goes on with the goal.
    Rejected,
    /// The server does not know the goal, or no longer.
    UnknownGoal,
    /// The goal has ended already.
    AlreadyTerminal,
}

/// Feedback about one goal.
#[derive(Debug, Clone, PartialEq)]
pub struct GoalFeedback<F> {
    /// The goal.
    pub goal_id: Uuid,
    /// The action's own feedback.
    pub feedback: F,
}

/// One goal in the server's status message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GoalEntry {
    /// The goal.
    pub goal_id: Uuid,
    /// How it stands.
    pub status: GoalStatus,
    /// When the server took it, in its ROS time, nanoseconds.
    pub stamp_ns: i64,
}

/// A client of one action. Clones share its connections.
pub struct GoalClient<A: Action> {
    inner: Arc<Inner<A>>,
}

impl<A: Action> Clone for GoalClient<A> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

struct Inner<A: Action> {
    node: Node,
    action: String,
    send_goal: Client<A::SendGoalService>,
    get_result: Client<A::GetResultService>,
    cancel_goal: Client<CancelGoal>,
    feedback: broadcast::Sender<GoalFeedback<A::Feedback>>,
    statuses: Statuses,
    late: broadcast::Sender<LateAcknowledgement>,
    sent: Mutex<SentGoals>,
    _feedback: Option<Subscription<RmwFeedbackMessage<A>>>,
    _statuses: Subscription<GoalStatusArray>,
}

/// What the server's last status message said, which stands there until the next one. A server that died
/// tells nobody, and the one that comes after it tells nothing before its first goal.
#[derive(Clone)]
struct Statuses(Arc<watch::Sender<Vec<GoalEntry>>>);

impl Statuses {
    fn new() -> Self {
        Statuses(Arc::new(watch::channel(Vec::new()).0))
    }

    fn told(&self, entries: Vec<GoalEntry>) {
        self.0.send_replace(entries);
    }

    /// The server that is there now does not know the goal.
    fn forget(&self, goal_id: Uuid) {
        self.0.send_if_modified(|entries| {
            let before = entries.len();
            entries.retain(|entry| entry.goal_id != goal_id || entry.status.is_terminal());
            entries.len() < before
        });
    }
}

/// The identifiers that were sent last.
#[derive(Default)]
struct SentGoals {
    known: HashSet<Uuid>,
    order: VecDeque<Uuid>,
}

impl SentGoals {
    /// Remembers the goal; returns false if it was there already.
    fn remember(&mut self, goal_id: Uuid) -> bool {
        if !self.known.insert(goal_id) {
            return false;
        }
        self.order.push_back(goal_id);
        if self.order.len() > REMEMBERED_GOALS {
            if let Some(oldest) = self.order.pop_front() {
                self.known.remove(&oldest);
            }
        }
        true
    }
}

impl<A: Action> GoalClient<A> {
    /// Creates a client of the action, whose name is relative to the node's namespace unless it begins
    /// with a slash.
    ///
    /// # Errors
    ///
    /// [`GoalClientError::Ros`] if the name is not valid or ROS refuses a client or subscription.
    pub fn new(node: &Node, action: &str) -> Result<Self, GoalClientError> {
        Self::make(node, action, true)
    }

    /// The same for who has no use for feedback: servers send it many times a second, and each message would
    /// wake the process. [`GoalClient::feedback`] gives none.
    ///
    /// # Errors
    ///
    /// As [`GoalClient::new`].
    pub fn without_feedback(node: &Node, action: &str) -> Result<Self, GoalClientError> {
        Self::make(node, action, false)
    }

    fn make(node: &Node, action: &str, with_feedback: bool) -> Result<Self, GoalClientError> {
        let refused = |source| GoalClientError::Ros {
            action: action.into(),
            source,
        };
        let name = |part: &str| format!("{action}/_action/{part}");

        let (feedback, _) = broadcast::channel(FEEDBACK_DEPTH);
        let feedback_out = feedback.clone();
        let listen = || {
            node.create_subscription::<RmwFeedbackMessage<A>, _>(
                name("feedback").as_str(),
                move |message: RmwFeedbackMessage<A>| {
                    let (goal_id, feedback) = A::split_feedback_message(message);
                    // Without a receiver nobody wants to know.
                    let _ = feedback_out.send(GoalFeedback {
                        goal_id: Uuid::from_bytes(goal_id),
                        feedback: A::Feedback::from_rmw_message(feedback),
                    });
                },
            )
        };
        let feedback_subscription = with_feedback.then(listen).transpose().map_err(refused)?;

        let statuses = Statuses::new();
        let told = statuses.clone();
        let status_subscription = node
            .create_subscription::<GoalStatusArray, _>(
                name("status").as_str().qos(qos::action_status()),
                move |message: GoalStatusArray| {
                    told.told(message.status_list.iter().map(entry).collect());
                },
            )
            .map_err(refused)?;

        Ok(Self {
            inner: Arc::new(Inner {
                node: Arc::clone(node),
                action: action.into(),
                send_goal: node
                    .create_client(name("send_goal").as_str())
                    .map_err(refused)?,
                get_result: node
                    .create_client(name("get_result").as_str())
                    .map_err(refused)?,
                cancel_goal: node
                    .create_client(name("cancel_goal").as_str())
                    .map_err(refused)?,
                feedback,
                statuses,
                late: broadcast::channel(REMEMBERED_GOALS).0,
                sent: Mutex::default(),
                _feedback: feedback_subscription,
                _statuses: status_subscription,
            }),
        })
    }

    /// The action's name as given.
    pub fn action(&self) -> &str {
        &self.inner.action
    }

    /// Whether a server offers the action's three services now.
    pub fn server_is_there(&self) -> bool {
        let ready = |answer: Result<bool, RclrsError>| answer.unwrap_or(false);
        ready(self.inner.send_goal.service_is_ready())
            && ready(self.inner.get_result.service_is_ready())
            && ready(self.inner.cancel_goal.service_is_ready())
    }

    /// Waits until a server offers the action.
    ///
    /// # Errors
    ///
    /// [`GoalClientError::ServerAbsent`] if none does within `limit`.
    pub async fn wait_for_server(&self, limit: Duration) -> Result<(), GoalClientError> {
        if self.server_is_there() {
            return Ok(());
        }
        let client = self.clone();
        let there = self
            .inner
            .node
            .notify_on_graph_change(move || client.server_is_there());
        match within(limit, there).await {
            Ok(_) if self.server_is_there() => Ok(()),
            _ => Err(self.absent()),
        }
    }

    /// Sends a goal under `goal_id`, which must be new: it is on its way when this returns, and the future
    /// waits for the acknowledgement. To be called where callbacks run: elsewhere an acknowledgement may come
    /// before it is waited for, and be lost.
    ///
    /// # Errors
    ///
    /// Only [`GoalClientError::NilGoal`], [`GoalClientError::SentBefore`],
    /// [`GoalClientError::ServerAbsent`] and [`GoalClientError::Ros`] mean that nothing was sent;
    /// [`GoalClientError::Rejected`] means that nothing runs. After
    /// [`GoalClientError::NotAcknowledged`] the goal may run, now or later.
    pub fn send_goal(
        &self,
        goal_id: Uuid,
        goal: A::Goal,
        limit: Duration,
    ) -> impl Future<Output = Result<Accepted, GoalClientError>> + Send + 'static {
        let sent = self.request_goal(goal_id, goal);
        let client = self.clone();
        async move {
            let mut answer = sent?;
            match within(limit, &mut answer).await {
                Ok(Ok(response)) => match acknowledgement::<A>(response) {
                    (true, stamp_ns) => Ok(Accepted { goal_id, stamp_ns }),
                    (false, _) => Err(GoalClientError::Rejected {
                        action: client.inner.action.clone(),
                        goal_id,
                    }),
                },
                Ok(Err(_)) => Err(GoalClientError::Ended),
                Err(_) => {
                    client.report_late(goal_id, answer);
                    Err(GoalClientError::NotAcknowledged {
                        action: client.inner.action.clone(),
                        goal_id,
                        limit,
                    })
                }
            }
        }
    }

    fn request_goal(
        &self,
        goal_id: Uuid,
        goal: A::Goal,
    ) -> Result<Promise<SendGoalResponse<A>>, GoalClientError> {
        if goal_id.is_nil() {
            return Err(GoalClientError::NilGoal);
        }
        if !self.server_is_there() {
            return Err(self.absent());
        }
        let is_new = self
            .inner
            .sent
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remember(goal_id);
        if !is_new {
            return Err(GoalClientError::SentBefore { goal_id });
        }
        let goal = A::Goal::into_rmw_message(Cow::Owned(goal)).into_owned();
        let request = A::create_goal_request(goal_id.as_bytes(), goal);
        self.inner
            .send_goal
            .call(Request::<A::SendGoalService>::from_rmw_message(request))
            .map_err(|source| self.refused(source))
    }

    /// Gives the acknowledgements that come after their deadline from now on, to any clone. A receiver
    /// that lags behind thousands of them loses the oldest.
    pub fn late_acknowledgements(&self) -> broadcast::Receiver<LateAcknowledgement> {
        self.inner.late.subscribe()
    }

    fn report_late(&self, goal_id: Uuid, answer: Promise<SendGoalResponse<A>>) {
        let late = self.inner.late.clone();
        drop(self.inner.node.commands().run(async move {
            if let Ok(response) = answer.await {
                let (accepted, stamp_ns) = acknowledgement::<A>(response);
                // Without a receiver nobody wants to know.
                let _ = late.send(LateAcknowledgement {
                    goal_id,
                    accepted,
                    stamp_ns,
                });
            }
        }));
    }

    /// Asks for the result of a goal, whoever sent it. The request stays open until the goal ends;
    /// [`ResultRequest::wait`] may be called again after its deadline.
    ///
    /// # Errors
    ///
    /// [`GoalClientError::ServerAbsent`], [`GoalClientError::NilGoal`] or [`GoalClientError::Ros`].
    pub fn request_result(&self, goal_id: Uuid) -> Result<ResultRequest<A>, GoalClientError> {
        if goal_id.is_nil() {
            return Err(GoalClientError::NilGoal);
        }
        if !self.server_is_there() {
            return Err(self.absent());
        }
        let request = A::create_result_request(goal_id.as_bytes());
        let answer = self
            .inner
            .get_result
            .call(Request::<A::GetResultService>::from_rmw_message(request))
            .map_err(|source| self.refused(source))?;
        Ok(ResultRequest {
            action: self.inner.action.clone(),
            goal_id,
            answer,
            statuses: self.inner.statuses.clone(),
        })
    }

    /// Asks for the result of a goal, whoever sent it, and waits for it.
    ///
    /// # Errors
    ///
    /// As [`GoalClient::request_result`] and [`ResultRequest::wait`].
    pub async fn result(
        &self,
        goal_id: Uuid,
        limit: Duration,
    ) -> Result<GoalResult<A::Result>, GoalClientError> {
        self.request_result(goal_id)?.wait(limit).await
    }

    /// Asks the server to cancel one goal, whoever sent it, and waits for the answer.
    ///
    /// # Errors
    ///
    /// [`GoalClientError::ServerAbsent`], [`GoalClientError::NilGoal`], [`GoalClientError::Ros`], or
    /// [`GoalClientError::NoAnswer`]: the cancel may take effect all the same.
    pub async fn cancel(
        &self,
        goal_id: Uuid,
        limit: Duration,
    ) -> Result<CancelAnswer, GoalClientError> {
        if goal_id.is_nil() {
            return Err(GoalClientError::NilGoal);
        }
        if !self.server_is_there() {
            return Err(self.absent());
        }
        // A stamp of zero beside an id means this goal alone.
        let mut request = CancelGoal_Request::default();
        request.goal_info.goal_id = convert::uuid_msg(goal_id);
        let answer: Promise<CancelGoal_Response> = self
            .inner
            .cancel_goal
            .call(request)
            .map_err(|source| self.refused(source))?;
        match within(limit, answer).await {
            Ok(Ok(response)) => Ok(cancel_answer(&response, goal_id)),
            Ok(Err(_)) => Err(GoalClientError::Ended),
            Err(_) => Err(GoalClientError::NoAnswer {
                action: self.inner.action.clone(),
                goal_id,
                limit,
            }),
        }
    }

    /// Gives the feedback of all goals of the server from now on. A receiver that lags loses the oldest.
    pub fn feedback(&self) -> broadcast::Receiver<GoalFeedback<A::Feedback>> {
        self.inner.feedback.subscribe()
    }

    /// Watches the server's status message: every goal it knows, also those of other clients. Empty
    /// until the first message.
    pub fn statuses(&self) -> watch::Receiver<Vec<GoalEntry>> {
        self.inner.statuses.0.subscribe()
    }

    /// How a goal stands by the server's last status message; None if it is not named there.
    pub fn status(&self, goal_id: Uuid) -> Option<GoalStatus> {
        let statuses = self.inner.statuses.0.borrow();
        let entry = statuses.iter().find(|entry| entry.goal_id == goal_id)?;
        Some(entry.status)
    }

    /// The goals that have not ended by the server's last status message, whoever sent them.
    pub fn open_goals(&self) -> Vec<Uuid> {
        let statuses = self.inner.statuses.0.borrow();
        statuses
            .iter()
            .filter(|entry| !entry.status.is_terminal())
            .map(|entry| entry.goal_id)
            .collect()
    }

    fn absent(&self) -> GoalClientError {
        GoalClientError::ServerAbsent {
            action: self.inner.action.clone(),
        }
    }

    fn refused(&self, source: RclrsError) -> GoalClientError {
        GoalClientError::Ros {
            action: self.inner.action.clone(),
            source,
        }
    }
}

/// An open request for a result.
pub struct ResultRequest<A: Action> {
    action: String,
    goal_id: Uuid,
    answer: Promise<GetResultResponse<A>>,
    statuses: Statuses,
}

impl<A: Action> ResultRequest<A> {
    /// Waits for the result, which comes when the goal has ended. After [`GoalClientError::NoAnswer`] it
    /// can be called again; a server that was restarted meanwhile never answers, so then it is better to
    /// ask anew. After [`GoalClientError::UnknownGoal`] what an earlier status message said of a goal that
    /// runs is forgotten: it was that of a server that is gone.
    ///
    /// # Errors
    ///
    /// [`GoalClientError::UnknownGoal`] or [`GoalClientError::NoAnswer`].
    pub async fn wait(
        &mut self,
        limit: Duration,
    ) -> Result<GoalResult<A::Result>, GoalClientError> {
        match within(limit, &mut self.answer).await {
            Ok(Ok(response)) => {
                let response =
                    GetResultResponse::<A>::into_rmw_message(Cow::Owned(response)).into_owned();
                let (status, result) = A::split_result_response(response);
                let status = GoalStatus::from_wire(status);
                if !status.is_terminal() {
                    self.statuses.forget(self.goal_id);
                    return Err(GoalClientError::UnknownGoal {
                        action: self.action.clone(),
                        goal_id: self.goal_id,
                    });
                }
                Ok(GoalResult {
                    goal_id: self.goal_id,
                    status,
                    result: A::Result::from_rmw_message(result),
                })
            }
            Ok(Err(_)) => Err(GoalClientError::Ended),
            Err(_) => Err(GoalClientError::NoAnswer {
                action: self.action.clone(),
                goal_id: self.goal_id,
                limit,
            }),
        }
    }
}

fn acknowledgement<A: Action>(response: SendGoalResponse<A>) -> (bool, i64) {
    let response = SendGoalResponse::<A>::into_rmw_message(Cow::Owned(response));
    let (sec, nanosec) = A::get_goal_response_stamp(&response);
    let stamp = ros_env::builtin_interfaces::msg::Time { sec, nanosec };
    (
        A::get_goal_response_accepted(&response),
        convert::time_ns(&stamp),
    )
}

fn cancel_answer(response: &CancelGoal_Response, goal_id: Uuid) -> CancelAnswer {
    match response.return_code {
        // Servers exist that accept and name no goal: only the named one is being canceled.
        CancelGoal_Response::ERROR_NONE
            if response
                .goals_canceling
                .iter()
                .any(|goal| convert::uuid_from(&goal.goal_id) == goal_id) =>
        {
            CancelAnswer::Accepted
        }
        CancelGoal_Response::ERROR_UNKNOWN_GOAL_ID => CancelAnswer::UnknownGoal,
        CancelGoal_Response::ERROR_GOAL_TERMINATED => CancelAnswer::AlreadyTerminal,
        _ => CancelAnswer::Rejected,
    }
}

fn entry(status: &ros_env::action_msgs::msg::GoalStatus) -> GoalEntry {
    GoalEntry {
        goal_id: convert::uuid_from(&status.goal_info.goal_id),
        status: GoalStatus::from_wire(status.status),
        stamp_ns: convert::time_ns(&status.goal_info.stamp),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_that_is_gone_said_of_a_goal_that_runs_is_forgotten() {
        let statuses = Statuses::new();
        let entry = |n: u128, status| GoalEntry {
            goal_id: Uuid::from_u128(n),
            status,
            stamp_ns: 0,
        };
        statuses.told(vec![
            entry(1, GoalStatus::Executing),
            entry(2, GoalStatus::Executing),
            entry(3, GoalStatus::Succeeded),
        ]);
        for n in [1, 3, 9] {
            statuses.forget(Uuid::from_u128(n));
        }
        let left: Vec<u128> = statuses
            .0
            .borrow()
            .iter()
            .map(|e| e.goal_id.as_u128())
            .collect();
        // How one ended stays true.
        assert_eq!(left, [2, 3]);
    }
    use ros_env::action_msgs::msg::{GoalInfo, GoalStatus as WireStatus};
    use ros_env::builtin_interfaces::msg::Time;

    #[test]
    fn the_numbers_are_those_of_the_message() {
        for (code, status) in [
            (WireStatus::STATUS_UNKNOWN, GoalStatus::Unknown),
            (WireStatus::STATUS_ACCEPTED, GoalStatus::Accepted),
            (WireStatus::STATUS_EXECUTING, GoalStatus::Executing),
            (WireStatus::STATUS_CANCELING, GoalStatus::Canceling),
            (WireStatus::STATUS_SUCCEEDED, GoalStatus::Succeeded),
            (WireStatus::STATUS_CANCELED, GoalStatus::Canceled),
            (WireStatus::STATUS_ABORTED, GoalStatus::Aborted),
            (i8::MIN, GoalStatus::Unknown),
            (i8::MAX, GoalStatus::Unknown),
        ] {
            assert_eq!(GoalStatus::from_wire(code), status);
        }
    }

    #[test]
    fn a_goal_is_remembered_once_and_the_memory_is_bounded() {
        let mut sent = SentGoals::default();
        let first = Uuid::from_u128(1);
        assert!(sent.remember(first));
        assert!(!sent.remember(first));
        for number in 2..=REMEMBERED_GOALS as u128 + 1 {
            assert!(sent.remember(Uuid::from_u128(number)));
        }
        assert_eq!(sent.order.len(), REMEMBERED_GOALS);
        assert_eq!(sent.known.len(), REMEMBERED_GOALS);
    }

    #[test]
    fn a_cancel_counts_as_accepted_only_for_the_goal_that_is_named() {
        let goal_id = Uuid::from_u128(7);
        let info = |id: u128| GoalInfo {
            goal_id: convert::uuid_msg(Uuid::from_u128(id)),
            stamp: Time { sec: 0, nanosec: 0 },
        };
        let answer = |return_code, ids: &[u128]| {
            let response = CancelGoal_Response {
                return_code,
                goals_canceling: ids.iter().map(|id| info(*id)).collect(),
            };
            cancel_answer(&response, goal_id)
        };
        assert_eq!(answer(0, &[7]), CancelAnswer::Accepted);
        assert_eq!(answer(0, &[8]), CancelAnswer::Rejected);
        assert_eq!(answer(0, &[]), CancelAnswer::Rejected);
        assert_eq!(answer(1, &[]), CancelAnswer::Rejected);
        assert_eq!(answer(2, &[]), CancelAnswer::UnknownGoal);
        assert_eq!(answer(3, &[]), CancelAnswer::AlreadyTerminal);
    }
}

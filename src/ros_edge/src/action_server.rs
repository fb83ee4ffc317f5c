//! Serving an action, with the traps of rclrs taken care of:
//!
//! - a goal whose identifier is known already is refused without a panic;
//! - a cancel request is answered as soon as it comes, not when the goal ends;
//! - a goal that nobody finishes ends as aborted.
//!
//! The name of an action cannot be remapped in Jazzy (namespaces can): make it a parameter.

use std::future::Future;
use std::sync::Arc;

use futures_lite::future;
use rclrs::{
    log_error, log_info, CancellingGoal, ExecutingGoal, FeedbackPublisher, Node, Promise,
    RclrsError, RequestedGoal, TerminatedGoal,
};
use rosidl_runtime_rs::Action;
use tokio::sync::watch;
use uuid::Uuid;

/// What to do with a goal that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GoalDecision {
    /// Take it.
    Accept,
    /// Refuse it. The client learns only that; the reason is for the log.
    Reject {
        /// Why.
        reason: String,
    },
}

/// How a goal ended, with the action's own result.
#[derive(Debug, Clone, PartialEq)]
pub enum GoalEnd<R> {
    /// Reached.
    Succeeded(R),
    /// Given up by the server.
    Aborted(R),
    /// Ended because of a cancel, or because the server itself canceled it.
    Canceled(R),
}

/// A goal that was accepted, in the hands of its handler.
pub struct RunningGoal<A: Action> {
    /// The goal's identifier, chosen by its client.
    pub goal_id: Uuid,
    /// The goal.
    pub goal: Arc<A::Goal>,
    feedback: FeedbackPublisher<A>,
    canceled: watch::Receiver<bool>,
}

impl<A: Action> RunningGoal<A> {
    /// Publishes feedback. After the goal's end it has no effect.
    pub fn publish_feedback(&self, feedback: A::Feedback) {
        // It comes back if the goal has ended.
        let _ = self.feedback.publish(feedback);
    }

    /// Whether a client has asked to cancel this goal.
    pub fn is_cancel_requested(&self) -> bool {
        *self.canceled.borrow()
    }

    /// Waits until a client asks to cancel this goal; for ever if none does.
    pub async fn cancel_requested(&self) {
        let mut canceled = self.canceled.clone();
        if canceled.wait_for(|canceled| *canceled).await.is_err() {
            future::pending::<()>().await;
        }
    }
}

/// Serves an action until the returned promise is dropped together with the executor.
///
/// `decide` is asked for each goal, in order of arrival, and must not block. `handle` makes the future
/// that performs an accepted goal; goals run side by side, so a server of one goal at a time decides
/// that in `decide` or makes the former goal end. Every cancel request is accepted at once; the handler
/// sees it by [`RunningGoal::cancel_requested`] and ends when what moves stands still.
///
/// # Errors
///
/// If the name is not valid or ROS refuses the server.
pub fn serve_action<A, Decide, Handle, Performance>(
    node: &Node,
    action: &str,
    mut decide: Decide,
    mut handle: Handle,
) -> Result<Promise<()>, RclrsError>
where
    A: Action,
    Decide: FnMut(Uuid, &A::Goal) -> GoalDecision + Send + 'static,
    Handle: FnMut(RunningGoal<A>) -> Performance + Send + 'static,
    Performance: Future<Output = GoalEnd<A::Result>> + Send + 'static,
{
    let mut goals = node.create_goal_receiver::<A>(action)?;
    let node_of_goals = Arc::clone(node);
    let action = action.to_owned();
    Ok(node.commands().run(async move {
        let node = node_of_goals;
        while let Some(requested) = goals.recv().await {
            let goal_id = Uuid::from_bytes(**requested.goal_id());
            match decide(goal_id, requested.goal()) {
                GoalDecision::Reject { reason } => {
                    log_info!(node.logger(), "{action}: goal {goal_id} rejected: {reason}");
                    requested.reject();
                }
                GoalDecision::Accept => {
                    if let Some(goal) = accept(&node, &action, goal_id, requested) {
                        let (performance, executing, canceled) = begin(goal_id, goal, &mut handle);
                        drop(node.commands().run(async move {
                            perform(performance, executing, canceled).await;
                        }));
                    }
                }
            }
        }
    }))
}

/// Takes a goal. Fails if its identifier is known already; the client is told that it is rejected.
fn accept<A: Action>(
    node: &Node,
    action: &str,
    goal_id: Uuid,
    requested: RequestedGoal<A>,
) -> Option<ExecutingGoal<A>> {
    match requested.try_accept() {
        Ok(accepted) => Some(accepted.execute()),
        Err(error) => {
            log_error!(
                node.logger(),
                "{action}: goal {goal_id} rejected: {error}; an id can be used only once"
            );
            None
        }
    }
}

fn begin<A, Handle, Performance>(
    goal_id: Uuid,
    executing: ExecutingGoal<A>,
    handle: &mut Handle,
) -> (Performance, ExecutingGoal<A>, watch::Sender<bool>)
where
    A: Action,
    Handle: FnMut(RunningGoal<A>) -> Performance,
{
    let (sender, canceled) = watch::channel(false);
    let performance = handle(RunningGoal {
        goal_id,
        goal: Arc::clone(executing.goal()),
        feedback: executing.feedback_publisher(),
        canceled,
    });
    (performance, executing, sender)
}

async fn perform<A: Action>(
    performance: impl Future<Output = GoalEnd<A::Result>>,
    executing: ExecutingGoal<A>,
    canceled: watch::Sender<bool>,
) -> TerminatedGoal {
    let mut performance = Box::pin(performance);
    match executing.until_cancel_requested(&mut performance).await {
        Ok(end) => finish_executing(executing, end),
        Err(performance) => {
            // Answers the request now; ending may take its time.
            let cancelling = executing.begin_cancelling();
            canceled.send_replace(true);
            finish_cancelling(cancelling, performance.await)
        }
    }
}

fn finish_executing<A: Action>(goal: ExecutingGoal<A>, end: GoalEnd<A::Result>) -> TerminatedGoal {
    match end {
        GoalEnd::Succeeded(result) => goal.succeeded_with(result),
        GoalEnd::Aborted(result) => goal.aborted_with(result),
        // Only from canceling does a way lead to canceled.
        GoalEnd::Canceled(result) => goal.begin_cancelling().cancelled_with(result),
    }
}

fn finish_cancelling<A: Action>(
    goal: CancellingGoal<A>,
    end: GoalEnd<A::Result>,
) -> TerminatedGoal {
    match end {
        GoalEnd::Succeeded(result) => goal.succeeded_with(result),
        GoalEnd::Aborted(result) => goal.aborted_with(result),
        GoalEnd::Canceled(result) => goal.cancelled_with(result),
    }
}

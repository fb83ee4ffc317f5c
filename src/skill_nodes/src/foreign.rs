//! The foreign actions behind one interface: send under a UUID, ask for the result, cancel, watch.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use eh_executor::{NativeEnd, Server};
use eh_ledger::executor::GoalId;
use eh_ros_edge::goal_client::{
    CancelAnswer, GoalFeedback, GoalStatus, LateAcknowledgement, ResultRequest,
};
use eh_ros_edge::{GoalClient, GoalClientError};
use eh_skills::Goal;
use parking_lot::Mutex;
use rclrs::Node;
use ros_env::control_msgs::action::{FollowJointTrajectory, GripperCommand};
use ros_env::moveit_msgs::action::MoveGroup;
use ros_env::nav2_msgs::action::NavigateToPose;
use rosidl_runtime_rs::Action;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use uuid::Uuid;

use crate::goals::{self, GoalSettings};
use crate::parameters::Parameters;
use crate::Handles;

pub(crate) type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An open request for a result.
pub(crate) trait PendingResult: Send {
    /// Waits; may be called again after its deadline.
    fn wait(&mut self, limit: Duration) -> Boxed<'_, Result<NativeEnd, GoalClientError>>;
}

/// One foreign action.
pub(crate) trait ForeignAction: Send + Sync {
    /// Fully qualified name.
    fn name(&self) -> &str;
    fn is_there(&self) -> bool;
    /// Sends it at once; the future waits for the acknowledgement.
    fn send(
        &self,
        goal_id: Uuid,
        goal: &Goal,
        limit: Duration,
    ) -> Boxed<'static, Result<(), GoalClientError>>;
    fn request_result(&self, goal_id: Uuid) -> Result<Box<dyn PendingResult>, GoalClientError>;
    fn cancel(
        &self,
        goal_id: Uuid,
        limit: Duration,
    ) -> Boxed<'static, Result<CancelAnswer, GoalClientError>>;
    fn status(&self, goal_id: Uuid) -> Option<GoalStatus>;
    fn open_goals(&self) -> Vec<Uuid>;
    /// Acknowledgements that come after their deadline, from now on.
    fn late_acknowledgements(&self) -> broadcast::Receiver<LateAcknowledgement>;
}

/// What an action needs to be used by a program.
pub(crate) trait Native: Action {
    /// The goal as a message; `None` for a goal of another kind.
    fn goal(goal: &Goal, settings: &GoalSettings) -> Option<Self::Goal>;
    /// The end in both terms.
    fn end(status: GoalStatus, result: Self::Result) -> NativeEnd;
}

struct Typed<A: Action> {
    client: GoalClient<A>,
    name: String,
    settings: Arc<GoalSettings>,
}

struct TypedResult<A: Action>(ResultRequest<A>);

impl<A: Native> PendingResult for TypedResult<A>
where
    ResultRequest<A>: Send,
{
    fn wait(&mut self, limit: Duration) -> Boxed<'_, Result<NativeEnd, GoalClientError>> {
        Box::pin(async move {
            let end = self.0.wait(limit).await?;
            Ok(A::end(end.status, end.result))
        })
    }
}

impl<A: Native> ForeignAction for Typed<A>
where
    GoalClient<A>: Send + Sync,
    ResultRequest<A>: Send,
    A::Goal: Send,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn is_there(&self) -> bool {
        self.client.server_is_there()
    }

    fn send(
        &self,
        goal_id: Uuid,
        goal: &Goal,
        limit: Duration,
    ) -> Boxed<'static, Result<(), GoalClientError>> {
        // A goal of another kind is a slip of this crate; nothing is sent then.
        let Some(message) = A::goal(goal, &self.settings) else {
            let action = self.name.clone();
            return Box::pin(async move { Err(GoalClientError::ServerAbsent { action }) });
        };
        let sent = self.client.send_goal(goal_id, message, limit);
        Box::pin(async move { sent.await.map(|_| ()) })
    }

    fn request_result(&self, goal_id: Uuid) -> Result<Box<dyn PendingResult>, GoalClientError> {
        Ok(Box::new(TypedResult(self.client.request_result(goal_id)?)))
    }

    fn cancel(
        &self,
        goal_id: Uuid,
        limit: Duration,
    ) -> Boxed<'static, Result<CancelAnswer, GoalClientError>> {
        let client = self.client.clone();
        Box::pin(async move { client.cancel(goal_id, limit).await })
    }

    fn status(&self, goal_id: Uuid) -> Option<GoalStatus> {
        self.client.status(goal_id)
    }

    fn open_goals(&self) -> Vec<Uuid> {
        // The last message of a server that is gone says nothing about now.
        if self.is_there() {
            self.client.open_goals()
        } else {
            Vec::new()
        }
    }

    fn late_acknowledgements(&self) -> broadcast::Receiver<LateAcknowledgement> {
        self.client.late_acknowledgements()
    }
}

fn typed<A: Native>(
    node: &Node,
    action: &str,
    settings: &Arc<GoalSettings>,
) -> Result<Arc<dyn ForeignAction>, GoalClientError>
where
    GoalClient<A>: Send + Sync,
    ResultRequest<A>: Send,
    A::Goal: Send,
{
    let client = GoalClient::<A>::without_feedback(node, action)?;
    Ok(behind(node, action, client, settings))
}

fn behind<A: Native>(
    node: &Node,
    action: &str,
    client: GoalClient<A>,
    settings: &Arc<GoalSettings>,
) -> Arc<dyn ForeignAction>
where
    GoalClient<A>: Send + Sync,
    ResultRequest<A>: Send,
    A::Goal: Send,
{
    Arc::new(Typed {
        client,
        name: resolve(&node.namespace(), action),
        settings: settings.clone(),
    })
}

/// A relative name in a namespace, fully qualified.
pub(crate) fn resolve(namespace: &str, name: &str) -> String {
    if name.starts_with('/') {
        name.into()
    } else {
        format!("{}/{name}", namespace.trim_end_matches('/'))
    }
}

/// The newest feedback about how far the base has to go.
type Remaining = Arc<Mutex<Option<(GoalId, f64)>>>;

/// The actions of one adapter.
pub(crate) struct Foreign {
    actions: Vec<(Server, Arc<dyn ForeignAction>)>,
    /// Of which only the goals of others are of interest.
    watched: Vec<(Server, Arc<dyn ForeignAction>)>,
    remaining: Remaining,
}

impl Foreign {
    /// The actions, and what keeps their feedback coming.
    pub(crate) fn navigation(
        node: &Node,
        action: &str,
        head: &str,
        settings: &Arc<GoalSettings>,
    ) -> Result<(Self, Handles), GoalClientError> {
        let client = GoalClient::<NavigateToPose>::new(node, action)?;
        let foreign = behind(node, action, client.clone(), settings);
        let remaining = Remaining::default();
        let task = watch_feedback(client.feedback(), remaining.clone());
        let this = Foreign {
            actions: vec![
                (Server::Navigation, foreign),
                (
                    Server::Head,
                    typed::<FollowJointTrajectory>(node, head, settings)?,
                ),
            ],
            watched: Vec::new(),
            remaining,
        };
        Ok((this, vec![Box::new(node.commands().run(task))]))
    }

    /// The actions.
    pub(crate) fn manipulation(
        node: &Node,
        [arm, gripper, head, navigation]: [&str; 4],
        settings: &Arc<GoalSettings>,
    ) -> Result<(Self, Handles), GoalClientError> {
        let this = Foreign {
            actions: vec![
                (Server::Arm, typed::<MoveGroup>(node, arm, settings)?),
                (
                    Server::Gripper,
                    typed::<GripperCommand>(node, gripper, settings)?,
                ),
                (
                    Server::Head,
                    typed::<FollowJointTrajectory>(node, head, settings)?,
                ),
            ],
            watched: vec![(
                Server::Navigation,
                typed::<NavigateToPose>(node, navigation, settings)?,
            )],
            remaining: Remaining::default(),
        };
        Ok((this, Vec::new()))
    }

    /// How far the base has to go yet, by the newest feedback on this goal.
    pub(crate) fn distance_remaining(&self, goal_id: &GoalId) -> Option<f64> {
        let newest = *self.remaining.lock();
        newest.filter(|(id, _)| id == goal_id).map(|(_, left)| left)
    }

    /// Fully qualified names of the actions that it uses.
    pub(crate) fn names(&self) -> BTreeMap<Server, String> {
        names(&self.actions)
    }

    /// Fully qualified names of those whose goals it only looks at.
    pub(crate) fn watched(&self) -> BTreeMap<Server, String> {
        names(&self.watched)
    }

    pub(crate) fn get(&self, server: Server) -> Option<&Arc<dyn ForeignAction>> {
        let all = self.actions.iter().chain(&self.watched);
        all.into_iter().find(|(s, _)| *s == server).map(|(_, a)| a)
    }

    /// The resolved name of an action that a descriptor names by its default.
    pub(crate) fn resolved(&self, default: &str, parameters: &Parameters) -> String {
        let server = if default.contains("gripper") {
            Server::Gripper
        } else if default.contains("head") {
            Server::Head
        } else if default.contains("move") {
            Server::Arm
        } else {
            Server::Navigation
        };
        self.get(server).map_or_else(
            || parameters.navigate_to_pose_action.clone(),
            |action| action.name().to_string(),
        )
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (Server, &Arc<dyn ForeignAction>)> {
        self.actions.iter().map(|(s, a)| (*s, a))
    }
}

fn names(actions: &[(Server, Arc<dyn ForeignAction>)]) -> BTreeMap<Server, String> {
    let name =
        |(server, action): &(Server, Arc<dyn ForeignAction>)| (*server, action.name().into());
    actions.iter().map(name).collect()
}

/// Keeps the newest feedback of navigation.
async fn watch_feedback(
    mut feedback: broadcast::Receiver<GoalFeedback<<NavigateToPose as Action>::Feedback>>,
    remaining: Remaining,
) {
    loop {
        match feedback.recv().await {
            Ok(message) => {
                let left = f64::from(message.feedback.distance_remaining);
                *remaining.lock() = Some((message.goal_id.into_bytes(), left));
            }
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

impl Native for NavigateToPose {
    fn goal(goal: &Goal, _: &GoalSettings) -> Option<Self::Goal> {
        goals::navigate(goal)
    }

    fn end(status: GoalStatus, result: Self::Result) -> NativeEnd {
        NativeEnd::plain(
            goals::wire(status),
            i32::from(result.error_code),
            result.error_msg,
        )
    }
}

impl Native for MoveGroup {
    fn goal(goal: &Goal, settings: &GoalSettings) -> Option<Self::Goal> {
        goals::move_arm(goal, settings)
    }

    fn end(status: GoalStatus, result: Self::Result) -> NativeEnd {
        let code = result.error_code;
        NativeEnd::arm(goals::wire(status), code.val, code.message)
    }
}

impl Native for GripperCommand {
    fn goal(goal: &Goal, _: &GoalSettings) -> Option<Self::Goal> {
        goals::gripper(goal)
    }

    fn end(status: GoalStatus, result: Self::Result) -> NativeEnd {
        goals::gripper_end(status, &result)
    }
}

impl Native for FollowJointTrajectory {
    fn goal(goal: &Goal, settings: &GoalSettings) -> Option<Self::Goal> {
        goals::head(goal, settings)
    }

    fn end(status: GoalStatus, result: Self::Result) -> NativeEnd {
        NativeEnd::plain(goals::wire(status), result.error_code, result.error_string)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_resolved_in_the_namespace() {
        assert_eq!(resolve("/", "navigate_to_pose"), "/navigate_to_pose");
        assert_eq!(resolve("/a", "g/x"), "/a/g/x");
        assert_eq!(resolve("/a", "/b"), "/b");
    }
}

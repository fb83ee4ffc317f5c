//! The calls that the loop wants: made on the spin thread, their answers given back as events.

use std::sync::Arc;
use std::time::Duration;

use eh_executor::{Effect, Event, Server};
use eh_ledger::executor::GoalId;
use eh_ros_edge::deadline::sleep;
use eh_ros_edge::failpoint::{reach, Moment};
use eh_ros_edge::{GoalClientError, Shutdown};
use eh_skills::planning_scene::SceneWanted;
use eh_skills::Goal;
use rclrs::{Node, Promise};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc::{unbounded_channel, UnboundedReceiver, UnboundedSender};
use uuid::Uuid;

use crate::foreign::Foreign;
use crate::loop_thread::{Inbox, Output};
use crate::planning_scene::PlanningSceneClient;
use crate::scene_check::SceneClient;
use crate::Handles;

/// How long one request for a result is kept open; the loop asks again in shorter times.
const RESULT: Duration = Duration::from_secs(30);

/// The middleware needs the spin thread for this long to send the last answers.
const LAST_ANSWERS: Duration = Duration::from_millis(100);

/// A change of the planning scene that is wanted.
struct Change {
    command_id: String,
    name: String,
    wanted: Box<SceneWanted>,
}

/// Whom the calls go to.
pub(crate) struct Calls {
    pub(crate) node: Node,
    pub(crate) inbox: Inbox,
    pub(crate) foreign: Arc<Foreign>,
    pub(crate) scene: SceneClient,
    pub(crate) acknowledge_timeout: Duration,
}

/// Makes the calls until the loop says that everything stands.
pub(crate) fn perform(
    calls: Calls,
    planning_scene: Option<Arc<PlanningSceneClient>>,
    mut outputs: UnboundedReceiver<Output>,
    halt: Shutdown,
) -> Handles {
    let node = calls.node.clone();
    let mut handles = watch_late_acknowledgements(&calls);
    let changes = planning_scene.map(|client| {
        let (changes, wanted) = unbounded_channel();
        let task = change_scene(client, wanted, calls.inbox.clone());
        handles.push(Box::new(node.commands().run(task)));
        changes
    });
    handles.push(Box::new(node.commands().run(async move {
        while let Some(output) = outputs.recv().await {
            match output {
                Output::Effect(effect) => {
                    let failpoint = effect.failpoint();
                    calls.make(effect, changes.as_ref());
                    reach(failpoint, Moment::After);
                }
                Output::Halt => {
                    sleep(LAST_ANSWERS).await;
                    halt.request();
                }
            }
        }
        // The loop is gone: nobody decides any more.
        halt.request();
    })));
    handles
}

impl Calls {
    fn make(&self, effect: Effect, changes: Option<&UnboundedSender<Change>>) {
        match effect {
            Effect::CheckScene {
                command_id,
                preconditions,
            } => {
                let check = self.scene.check(&preconditions);
                let inbox = self.inbox.clone();
                self.spawn(async move {
                    let check = check.await;
                    inbox.event(Event::SceneChecked { command_id, check });
                });
            }
            Effect::SendGoal {
                server,
                goal_id,
                goal,
            } => self.send(server, goal_id, &goal),
            Effect::RequestResult { server, goal_id } => self.request_result(server, goal_id),
            Effect::CancelGoal { server, goal_id } => {
                if let Some(action) = self.foreign.get(server) {
                    let limit = self.acknowledge_timeout;
                    let cancel = action.cancel(Uuid::from_bytes(goal_id), limit);
                    self.spawn(async move {
                        // What came of it is learned from the goal's result.
                        let _ = cancel.await;
                    });
                }
            }
            Effect::ChangeScene {
                command_id,
                name,
                wanted,
            } => {
                let change = Change {
                    command_id,
                    name,
                    wanted,
                };
                if let Some(changes) = changes {
                    // Its task lives as long as this.
                    let _ = changes.send(change);
                }
            }
            // Done by the loop itself.
            Effect::Answer(_)
            | Effect::Feedback { .. }
            | Effect::SettleAnswer(_)
            | Effect::RunEvent(_)
            | Effect::Declare(_)
            | Effect::PublishStatuses { .. }
            | Effect::PublishCatalog(_)
            | Effect::Log { .. } => {}
        }
    }

    fn spawn(&self, task: impl std::future::Future<Output = ()> + Send + 'static) {
        let promise: Promise<()> = self.node.commands().run(task);
        drop(promise);
    }

    fn send(&self, server: Server, goal_id: GoalId, goal: &Goal) {
        let Some(action) = self.foreign.get(server) else {
            let reason = "this executor has no client for it".into();
            return self.inbox.event(Event::GoalNotSent { goal_id, reason });
        };
        let limit = self.acknowledge_timeout;
        let sent = action.send(Uuid::from_bytes(goal_id), goal, limit);
        let inbox = self.inbox.clone();
        self.spawn(async move {
            let event = match sent.await {
                Ok(()) => Event::GoalAcknowledged {
                    goal_id,
                    accepted: true,
                },
                Err(GoalClientError::Rejected { .. }) => Event::GoalAcknowledged {
                    goal_id,
                    accepted: false,
                },
                Err(
                    error @ (GoalClientError::ServerAbsent { .. }
                    | GoalClientError::Ros { .. }
                    | GoalClientError::NilGoal),
                ) => Event::GoalNotSent {
                    goal_id,
                    reason: error.to_string(),
                },
                // It may run all the same; the loop has a clock of its own.
                Err(
                    GoalClientError::NotAcknowledged { .. }
                    | GoalClientError::SentBefore { .. }
                    | GoalClientError::UnknownGoal { .. }
                    | GoalClientError::NoAnswer { .. }
                    | GoalClientError::Ended,
                ) => return,
            };
            inbox.event(event);
        });
    }

    fn request_result(&self, server: Server, goal_id: GoalId) {
        let Some(action) = self.foreign.get(server) else {
            return;
        };
        // Without a server nobody answers, now or later; the loop asks again.
        let Ok(mut request) = action.request_result(Uuid::from_bytes(goal_id)) else {
            return;
        };
        let inbox = self.inbox.clone();
        self.spawn(async move {
            match request.wait(RESULT).await {
                Ok(end) => inbox.event(Event::ResultArrived { goal_id, end }),
                Err(GoalClientError::UnknownGoal { .. }) => {
                    inbox.event(Event::ResultUnknown { goal_id });
                }
                Err(_) => {}
            }
        });
    }
}

/// Makes one change after the other.
async fn change_scene(
    client: Arc<PlanningSceneClient>,
    mut wanted: UnboundedReceiver<Change>,
    inbox: Inbox,
) {
    while let Some(change) = wanted.recv().await {
        let result = client.make(&change.wanted).await;
        inbox.event(Event::SceneChanged {
            command_id: change.command_id,
            name: change.name,
            result,
        });
    }
}

/// Acknowledgements that come after their deadline.
fn watch_late_acknowledgements(calls: &Calls) -> Handles {
    let mut handles = Handles::new();
    for (_, action) in calls.foreign.all() {
        let mut late = action.late_acknowledgements();
        let inbox = calls.inbox.clone();
        handles.push(Box::new(calls.node.commands().run(async move {
            loop {
                match late.recv().await {
                    Ok(acknowledgement) => inbox.event(Event::GoalAcknowledged {
                        goal_id: acknowledgement.goal_id.into_bytes(),
                        accepted: acknowledgement.accepted,
                    }),
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return,
                }
            }
        })));
    }
    handles
}

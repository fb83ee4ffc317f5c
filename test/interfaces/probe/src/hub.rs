//! The node's side of every interface, alike for all types.
//!
//! - A message on `send/<name>` comes back on `echo/<name>` three times: as the type's default, copied,
//!   and moved. The last one of each type is kept. Echoes are kept for who subscribes late.
//! - `serve/<name>` serves a service or an action. What came is told on the `echo` of its type; the
//!   answer, the feedback and the result are the kept ones of their types. A goal runs until it is canceled.
//! - A request or goal on `ask/<name>` is passed on to the server of `call/<name>`. What that answers is
//!   told on the `echo` of its type.

use std::any::{type_name, Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use eh_ros_edge::action_server::{serve_action, GoalDecision, GoalEnd};
use eh_ros_edge::within;
use rclrs::{ActionClient, Client, IntoPrimitiveOptions, Node, Publisher};
use rosidl_runtime_rs::{Action, Message, Service};

/// Between two of the same feedback.
const PERIOD: Duration = Duration::from_millis(50);

pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The publishers and the kept messages, each by its type.
#[derive(Default)]
struct Board {
    publishers: HashMap<TypeId, Box<dyn Any + Send>>,
    kept: HashMap<TypeId, Box<dyn Any + Send>>,
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Board>>);

impl Shared {
    fn board(&self) -> MutexGuard<'_, Board> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publisher<T: Message>(&self) -> Result<Publisher<T>, Failure> {
        let board = self.board();
        let publisher = board.publishers.get(&TypeId::of::<T>());
        publisher
            .and_then(|publisher| publisher.downcast_ref::<Publisher<T>>())
            .cloned()
            .ok_or_else(|| format!("no publisher of {}", type_name::<T>()).into())
    }

    fn keep<T: Message>(&self, message: T) {
        self.board()
            .kept
            .insert(TypeId::of::<T>(), Box::new(message));
    }

    fn kept<T: Message>(&self) -> T {
        let board = self.board();
        let kept = board.kept.get(&TypeId::of::<T>());
        kept.and_then(|message| message.downcast_ref::<T>())
            .cloned()
            .unwrap_or_default()
    }

    /// Publishes on the `echo` of the type.
    fn tell<T: Message>(&self, message: &T) {
        report(
            self.publisher::<T>()
                .and_then(|publisher| Ok(publisher.publish(message)?)),
        );
    }
}

fn report(result: Result<(), Failure>) {
    if let Err(error) = result {
        eprintln!("{error}");
    }
}

/// All that the node offers.
pub struct Hub {
    node: Node,
    shared: Shared,
    handles: Vec<Box<dyn Any>>,
}

impl Hub {
    pub fn new(node: Node) -> Self {
        Self {
            node,
            shared: Shared::default(),
            handles: Vec::new(),
        }
    }

    pub fn message<T: Message>(&mut self, name: &str) -> Result<(), Failure> {
        let topic = format!("echo/{name}");
        let publisher = self
            .node
            .create_publisher::<T>(topic.as_str().reliable().transient_local().keep_last(20))?;
        self.shared
            .board()
            .publishers
            .insert(TypeId::of::<T>(), Box::new(Arc::clone(&publisher)));
        let shared = self.shared.clone();
        self.listen("send", name, move |message: T| {
            shared.keep(message.clone());
            publisher.publish(T::default())?;
            publisher.publish(&message)?;
            Ok(publisher.publish(message)?)
        })
    }

    pub fn service<S: Service>(&mut self, name: &str) -> Result<(), Failure> {
        let shared = self.shared.clone();
        let service = self.node.create_service::<S, _>(
            format!("serve/{name}").as_str(),
            move |request: S::Request| {
                shared.tell(&request);
                shared.kept::<S::Response>()
            },
        )?;
        self.handles.push(Box::new(service));
        let client = self
            .node
            .create_client::<S>(format!("call/{name}").as_str())?;
        let (node, shared) = (Arc::clone(&self.node), self.shared.clone());
        self.listen("ask", name, move |request: S::Request| {
            let (client, shared) = (Arc::clone(&client), shared.clone());
            drop(node.commands().run(async move {
                report(call::<S>(&client, request, &shared).await);
            }));
            Ok(())
        })
    }

    pub fn action<A: Action>(&mut self, name: &str) -> Result<(), Failure> {
        let (told, answering) = (self.shared.clone(), self.shared.clone());
        let server = serve_action::<A, _, _, _>(
            &self.node,
            &format!("serve/{name}"),
            move |_, goal| {
                told.tell(goal);
                GoalDecision::Accept
            },
            move |goal| {
                let feedback = answering.kept::<A::Feedback>();
                let result = answering.kept::<A::Result>();
                async move {
                    // What is published before the client has matched the topic is lost.
                    while !goal.is_cancel_requested() {
                        goal.publish_feedback(feedback.clone());
                        let _ = within(PERIOD, goal.cancel_requested()).await;
                    }
                    GoalEnd::Canceled(result)
                }
            },
        )?;
        self.handles.push(Box::new(server));
        let client = self
            .node
            .create_action_client::<A>(format!("call/{name}").as_str())?;
        let (node, shared) = (Arc::clone(&self.node), self.shared.clone());
        self.listen("ask", name, move |goal: A::Goal| {
            let (client, shared) = (Arc::clone(&client), shared.clone());
            drop(node.commands().run(async move {
                report(pursue(&client, goal, &shared).await);
            }));
            Ok(())
        })
    }

    fn listen<T: Message>(
        &mut self,
        kind: &str,
        name: &str,
        act: impl Fn(T) -> Result<(), Failure> + Send + Sync + 'static,
    ) -> Result<(), Failure> {
        let topic = format!("{kind}/{name}");
        let subscription = self.node.create_subscription::<T, _>(
            topic.as_str().reliable().keep_last(20),
            move |message: T| report(act(message)),
        )?;
        self.handles.push(Box::new(subscription));
        Ok(())
    }
}

/// Sends a request and tells the response.
async fn call<S: Service>(
    client: &Client<S>,
    request: S::Request,
    shared: &Shared,
) -> Result<(), Failure> {
    client.notify_on_service_ready().await?;
    let response: S::Response = client.call(request)?.await?;
    shared.tell(&response);
    Ok(())
}

/// Sends a goal and tells its first feedback and its result.
async fn pursue<A: Action>(
    client: &ActionClient<A>,
    goal: A::Goal,
    shared: &Shared,
) -> Result<(), Failure> {
    client.notify_on_server_ready().await?;
    let mut accepted = client
        .try_request_goal(goal)?
        .await
        .ok_or("the goal was rejected")?;
    if let Some(feedback) = accepted.feedback.recv().await {
        shared.tell(&feedback);
    }
    let (_, result) = accepted.result.await;
    shared.tell(&result);
    Ok(())
}

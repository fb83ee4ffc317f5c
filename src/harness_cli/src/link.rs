//! The tool's place in the ROS graph.

use std::sync::Arc;
use std::time::{Duration, Instant};

use eh_ros_edge::deadline::sleep;
use eh_ros_edge::{qos, within};
use parking_lot::Mutex;
use rclrs::{IntoPrimitiveOptions, Node, Promise, RclrsError, Subscription};
use ros_env::embodied_harness::msg::{
    ControlLease, ExecutorBeacon, HumanRequest, ProtectionState, SkillCatalog,
};
use rosidl_runtime_rs::Service;

use crate::Failure;

/// Time between two looks whether something is there.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// How long nothing new has to turn up before what is in the graph counts as all of it, where harness_node's
/// own clients say how many executors there are.
const SETTLED: Duration = Duration::from_millis(500);

/// The same where nothing does: DDS participants announce themselves every 3 s if the first news was lost.
const DISCOVERY: Duration = Duration::from_millis(3500);

/// Longest wait for a service and its answer.
pub(crate) const ANSWER: Duration = Duration::from_secs(5);

/// Executors whose catalogs late joiners get.
const MOST_EXECUTORS: u32 = 16;

/// Requests that late joiners get.
const REQUEST_DEPTH: u32 = 16;

/// What was heard.
#[derive(Default)]
pub(crate) struct Heard {
    /// Catalogs by executor.
    pub catalogs: Vec<SkillCatalog>,
    /// Executors that tick.
    pub alive: Vec<String>,
    /// Protection's newest word.
    pub protection: Option<ProtectionState>,
    /// The lease.
    pub lease: Option<ControlLease>,
    /// Requests to people, by id.
    pub requests: Vec<HumanRequest>,
}

/// How the name of the service ends by which harness_node sends commands to an executor.
const EXECUTE: &str = "/execute_skill/_action/send_goal";

/// The tool's node and what it hears.
pub(crate) struct Link {
    pub node: Node,
    pub heard: Arc<Mutex<Heard>>,
    _catalogs: Subscription<SkillCatalog>,
    _beacons: Subscription<ExecutorBeacon>,
    _protection: Subscription<ProtectionState>,
    _lease: Subscription<ControlLease>,
    _requests: Subscription<HumanRequest>,
}

impl Link {
    pub(crate) fn new(node: &Node) -> Result<Self, RclrsError> {
        let heard = Arc::new(Mutex::new(Heard::default()));
        let (catalogs, beacons, protection, lease, requests) = (
            Arc::clone(&heard),
            Arc::clone(&heard),
            Arc::clone(&heard),
            Arc::clone(&heard),
            Arc::clone(&heard),
        );
        Ok(Link {
            node: node.clone(),
            _catalogs: node.create_subscription(
                "skill_catalog".qos(qos::state_latched(MOST_EXECUTORS)),
                move |message: SkillCatalog| {
                    let known = &mut catalogs.lock().catalogs;
                    known.retain(|c| c.executor != message.executor);
                    known.push(message);
                    known.sort_by(|a, b| a.executor.cmp(&b.executor));
                },
            )?,
            _beacons: node.create_subscription(
                "executor_beacon".qos(qos::control()),
                move |message: ExecutorBeacon| {
                    let alive = &mut beacons.lock().alive;
                    if !alive.contains(&message.executor) {
                        alive.push(message.executor);
                    }
                },
            )?,
            _protection: node.create_subscription(
                "protection_state".qos(qos::state_latched(1)),
                move |message: ProtectionState| protection.lock().protection = Some(message),
            )?,
            _lease: node.create_subscription(
                "control_lease".qos(qos::state_latched(1)),
                move |message: ControlLease| lease.lock().lease = Some(message),
            )?,
            _requests: node.create_subscription(
                "human_requests".qos(qos::state_latched(REQUEST_DEPTH)),
                move |message: HumanRequest| {
                    let known = &mut requests.lock().requests;
                    known.retain(|r| r.request_id != message.request_id);
                    if !message.closed {
                        known.push(message);
                    }
                },
            )?,
            heard,
        })
    }

    /// Waits until something of what was heard is there.
    pub(crate) async fn until<T>(
        &self,
        limit: Duration,
        look: impl Fn(&Heard) -> Option<T>,
    ) -> Option<T> {
        let end = Instant::now() + limit;
        loop {
            if let Some(found) = look(&self.heard.lock()) {
                return Some(found);
            }
            if Instant::now() >= end {
                return None;
            }
            sleep(LOOK).await;
        }
    }

    /// Waits until something of what was heard on a topic is there: `patience` while nobody in the graph
    /// publishes it, `limit` where somebody does.
    ///
    /// # Errors
    /// ROS does not tell about the graph.
    pub(crate) async fn told<T>(
        &self,
        topic: &str,
        patience: Duration,
        limit: Duration,
        look: impl Fn(&Heard) -> Option<T>,
    ) -> Result<Option<T>, RclrsError> {
        let found = self.until(patience, &look).await;
        if found.is_some() || self.node.count_publishers(&self.resolved(topic))? == 0 {
            return Ok(found);
        }
        Ok(self.until(limit.saturating_sub(patience), look).await)
    }

    /// A topic of this namespace by its whole name.
    fn resolved(&self, topic: &str) -> String {
        format!("{}/{topic}", self.node.namespace().trim_end_matches('/'))
    }

    /// Waits for the catalogs and beacons of all executors in the graph; what came within the limit counts.
    ///
    /// Executors are discovered one after another. harness_node, which has been there for longer, has a client
    /// for each; besides that no other may have turned up for a while.
    ///
    /// # Errors
    /// When the graph can't be asked.
    pub(crate) async fn hear_executors(&self, limit: Duration) -> Result<(), RclrsError> {
        let namespace = self.node.namespace();
        let topic = self.resolved("skill_catalog");
        let end = Instant::now() + limit;
        let mut known = (0, 0);
        let mut since = Instant::now();
        loop {
            // Unknown until harness_node is discovered.
            let clients = self
                .node
                .get_client_names_and_types_by_node("harness_node", &namespace)
                .map_or(0, |found| {
                    let is_executor = |name: &&String| name.ends_with(EXECUTE);
                    found.keys().filter(is_executor).count()
                });
            let publishers = self.node.count_publishers(&topic)?.max(clients);
            let (told, all_alive) = {
                let heard = self.heard.lock();
                let alive = |c: &SkillCatalog| heard.alive.contains(&c.executor);
                (heard.catalogs.len(), heard.catalogs.iter().all(alive))
            };
            let now = Instant::now();
            if known != (publishers, told) {
                known = (publishers, told);
                since = now;
            }
            let complete = told > 0 && told >= publishers && all_alive;
            let quiet = if clients > 0 { SETTLED } else { DISCOVERY };
            if now >= end || (complete && now - since >= quiet) {
                return Ok(());
            }
            sleep(LOOK).await;
        }
    }

    /// Calls a service.
    ///
    /// # Errors
    /// [`Failure::NotThere`] or [`Failure::Silent`].
    pub(crate) async fn call<S: Service>(
        &self,
        name: &'static str,
        node: &'static str,
        request: S::Request,
    ) -> Result<S::Response, Failure> {
        let client = self.node.create_client::<S>(name)?;
        let end = Instant::now() + ANSWER;
        while !client.service_is_ready()? {
            if Instant::now() >= end {
                return Err(Failure::NotThere {
                    what: format!("the service {name}"),
                    node,
                });
            }
            sleep(LOOK).await;
        }
        let answer: Promise<S::Response> = client.call(request)?;
        match within(ANSWER, answer).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(_)) | Err(_) => Err(Failure::Silent { what: name }),
        }
    }

    /// Whether a service is offered.
    pub(crate) async fn offered<S: Service>(&self, name: &str, limit: Duration) -> bool {
        let Ok(client) = self.node.create_client::<S>(name) else {
            return false;
        };
        let end = Instant::now() + limit;
        loop {
            if client.service_is_ready().unwrap_or(false) {
                return true;
            }
            if Instant::now() >= end {
                return false;
            }
            sleep(LOOK).await;
        }
    }
}

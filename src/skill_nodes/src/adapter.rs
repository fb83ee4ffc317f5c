//! One adapter, put together.

use std::collections::BTreeMap;
use std::sync::mpsc::Receiver;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use eh_contract::command::Beacon;
use eh_contract::Stamp;
use eh_executor::{Executor, Turn};
use eh_ledger::admission::KnownSkill;
use eh_ros_edge::convert::command::beacon_msg;
use eh_ros_edge::{qos, NodeClock, Shutdown, Streams};
use eh_skills::catalog::{self, Adapter};
use rand::rngs::StdRng;
use rand::SeedableRng;
use rclrs::{log_error, log_info, IntoPrimitiveOptions, IntoTimerOptions, Node};
use ros_env::embodied_harness::msg::ExecutorBeacon;
use tokio::sync::mpsc::{unbounded_channel, UnboundedSender};
use uuid::Uuid;

use crate::calls::{self, Calls};
use crate::foreign::Foreign;
use crate::goals::GoalSettings;
use crate::journal::FileJournal;
use crate::loop_thread::{self, budget_now, Inbox, Input, Loop, Output};
use crate::outlet::Outlet;
use crate::parameters::Parameters;
use crate::planning_scene::PlanningSceneClient;
use crate::scene_check::SceneClient;
use crate::senses::NodeSenses;
use crate::surroundings::Surroundings;
use crate::{execute_skill, services, Error, Handles};

/// Period of `executor_beacon`, as in msg/ExecutorBeacon.msg.
const BEACON_PERIOD: Duration = Duration::from_millis(200);

/// The loop, and the ROS handles, which it needs.
pub(crate) struct Running {
    inbox: Inbox,
    thread: JoinHandle<()>,
    _handles: Handles,
}

impl Running {
    /// Takes up what an earlier process left, and serves. Asked to end, it stops what moves and requests
    /// `halt` when everything stands or the time for it is over.
    pub(crate) fn start(
        node: &Node,
        adapter: Adapter,
        shutdown: &Shutdown,
        halt: &Shutdown,
    ) -> Result<Self, Error> {
        let parameters = Parameters::declare(node, adapter)?;
        let clock = NodeClock::of(node);
        let boot_id = Uuid::new_v4().to_string();
        let (foreign, mut handles) = foreign(node, adapter, &parameters)?;
        let foreign = Arc::new(foreign);
        let planning_scene = if adapter == Adapter::Manipulation && parameters.planning_scene {
            Some(Arc::new(PlanningSceneClient::new(node, &parameters)?))
        } else {
            None
        };
        let (surroundings, subscriptions) = Surroundings::new(node, adapter, &clock, &parameters)?;
        handles.extend(subscriptions);

        let (inbox, inputs) = Inbox::new();
        let (outbox, outputs) = unbounded_channel();
        let calls = Calls {
            node: node.clone(),
            inbox: inbox.clone(),
            foreign: foreign.clone(),
            scene: SceneClient::new(
                node,
                &parameters.query_scene_service,
                parameters.scene_timeout,
            )?,
            acknowledge_timeout: parameters.acknowledge_timeout,
        };
        handles.extend(calls::perform(
            calls,
            planning_scene.clone(),
            outputs,
            halt.clone(),
        ));
        handles.extend(services::serve(node, &inbox)?);
        handles.push(Box::new(execute_skill::serve(node, &inbox)?));
        // Beacons and the executor count from the same moment.
        let began = budget_now(&clock);
        handles.extend(beacon(
            node,
            &surroundings.streams,
            &clock,
            &boot_id,
            began,
        )?);
        let senses = NodeSenses {
            surroundings,
            foreign,
            planning_scene,
        };
        let start = Start {
            node,
            adapter,
            parameters: &parameters,
            clock,
            began,
            boot_id,
        };
        let thread = start.start_loop(senses, outbox, &inbox, inputs)?;
        let (asked, to_loop) = (shutdown.clone(), inbox.clone());
        handles.push(Box::new(node.commands().run(async move {
            asked.requested().await;
            to_loop.send(Input::Shutdown);
        })));
        Ok(Running {
            inbox,
            thread,
            _handles: handles,
        })
    }

    /// Ends the loop, which has said so, or whose spin thread has failed.
    pub(crate) fn end(self) {
        self.inbox.send(Input::End);
        // A panic there has been printed already.
        let _ = self.thread.join();
    }
}

/// What the loop is made from.
struct Start<'a> {
    node: &'a Node,
    adapter: Adapter,
    parameters: &'a Parameters,
    clock: NodeClock,
    began: Duration,
    boot_id: String,
}

impl Start<'_> {
    fn start_loop(
        self,
        senses: NodeSenses,
        outbox: UnboundedSender<Output>,
        inbox: &Inbox,
        inputs: Receiver<Input>,
    ) -> Result<JoinHandle<()>, Error> {
        let node = self.node;
        let file = format!("{}.sqlite", node.name());
        let path = self.parameters.state_directory.join(file);
        let (mut journal, restored) = FileJournal::open(&path)?;
        log_info!(
            node.logger(),
            "journal {}: {} commands are not settled, newest token {}",
            path.display(),
            restored.live.len(),
            restored.newest_token
        );
        let skills = self.skills(&senses.foreign)?;
        log_info!(
            node.logger(),
            "boot {}: serving {}",
            self.boot_id,
            skills.keys().cloned().collect::<Vec<_>>().join(", ")
        );
        let settings = self.parameters.settings(
            &node.fully_qualified_name(),
            senses.foreign.names(),
            senses.foreign.watched(),
        );
        let mut rng = StdRng::from_os_rng();
        let mut turn = Turn {
            now: self.began,
            stamp: Stamp(self.clock.ros_ns()),
            rng: &mut rng,
            journal: &mut journal,
            senses: &senses,
        };
        let (executor, effects) =
            Executor::new(settings, skills, restored, &self.boot_id, &mut turn);
        let parts = Loop {
            executor,
            journal,
            senses,
            outlet: Outlet::new(node, &self.boot_id, &self.parameters.robot_id)?,
            clock: self.clock,
            rng,
            outbox,
            logger: node.logger().clone(),
        };
        Ok(loop_thread::start(parts, effects, inbox, inputs)?)
    }

    fn skills(&self, foreign: &Foreign) -> Result<BTreeMap<String, KnownSkill>, Error> {
        let mut skills = BTreeMap::new();
        for mut descriptor in catalog::of(self.adapter)? {
            descriptor.action_name = format!("{}/execute_skill", self.node.name());
            descriptor.foreign_actions = descriptor
                .foreign_actions
                .iter()
                .map(|default| foreign.resolved(default, self.parameters))
                .collect();
            skills.insert(descriptor.name.clone(), KnownSkill::new(descriptor)?);
        }
        Ok(skills)
    }
}

fn foreign(
    node: &Node,
    adapter: Adapter,
    parameters: &Parameters,
) -> Result<(Foreign, Handles), Error> {
    let settings = Arc::new(GoalSettings {
        body: parameters.body.clone(),
        straight_pipeline: parameters.straight_pipeline.clone(),
        straight_planner: parameters.straight_planner.clone(),
        planning_time: parameters.planning_time,
    });
    Ok(match adapter {
        Adapter::Navigation => Foreign::navigation(
            node,
            &parameters.navigate_to_pose_action,
            &parameters.head_action,
            &settings,
        )?,
        Adapter::Manipulation => Foreign::manipulation(
            node,
            [
                &parameters.move_group_action,
                &parameters.gripper_action,
                &parameters.head_action,
                &parameters.navigate_to_pose_action,
            ],
            &settings,
        )?,
    })
}

/// Tells this executor's own clock, also while the loop waits for the disk.
fn beacon(
    node: &Node,
    streams: &Streams,
    clock: &NodeClock,
    boot_id: &str,
    began: Duration,
) -> Result<Handles, Error> {
    let publisher =
        node.create_publisher::<ExecutorBeacon>("executor_beacon".qos(qos::control()))?;
    let (executor, boot_id) = (node.fully_qualified_name(), boot_id.to_string());
    let (ticking, logger) = (clock.clone(), node.logger().clone());
    let tell = move || {
        let beacon = Beacon {
            executor: executor.clone(),
            boot_id: boot_id.clone(),
            tick: budget_now(&ticking).saturating_sub(began),
        };
        if let Err(error) = publisher.publish(beacon_msg(Some(&beacon))) {
            log_error!(&logger, "the beacon was not published: {error}");
        }
    };
    // Who listens counts its age on the budget clock.
    let timer = if clock.is_simulated() {
        streams.create_timer_repeating(BEACON_PERIOD.node_time(), tell)?
    } else {
        streams.create_timer_repeating(BEACON_PERIOD.steady_time(), tell)?
    };
    Ok(vec![Box::new(timer)])
}

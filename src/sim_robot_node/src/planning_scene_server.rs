//! The planning scene as MoveIt's move_group serves it: `get_planning_scene`, `apply_planning_scene`, the
//! topics that change it and the one that tells it.

use std::any::Any;
use std::future::pending;
use std::time::Duration;

use eh_ros_edge::qos;
use eh_sim::planning_scene::{SceneChange, WorldOperation};
use rclrs::{log_warn, IntoPrimitiveOptions, Node, Publisher, RclrsError, ToLogParams};
use ros_env::moveit_msgs::msg::{AttachedCollisionObject, CollisionObject, PlanningScene};
use ros_env::moveit_msgs::srv::{
    ApplyPlanningScene, ApplyPlanningScene_Request, ApplyPlanningScene_Response, GetPlanningScene,
    GetPlanningScene_Request, GetPlanningScene_Response,
};

use crate::frame_names::FrameNames;
use crate::planning_scene_messages::{scene_msg, SceneReader};
use crate::simulation::{Moment, Simulation};
use crate::simulation_thread::SimulationHandle;

/// Shortest time between two messages of the scene: MoveIt's default.
const PERIOD: Duration = Duration::from_millis(250);

/// Tells the scene whenever it has changed.
pub(crate) struct PlanningSceneTopic {
    publisher: Publisher<PlanningScene>,
    frames: FrameNames,
    told: Option<u64>,
    next: Duration,
}

impl PlanningSceneTopic {
    /// Creates the publisher.
    ///
    /// # Errors
    /// If the name is not valid.
    pub(crate) fn new(node: &Node, frames: &FrameNames) -> Result<Self, RclrsError> {
        Ok(Self {
            publisher: node
                .create_publisher("monitored_planning_scene".qos(qos::state_latched(1)))?,
            frames: frames.clone(),
            told: None,
            next: Duration::ZERO,
        })
    }

    /// Publishes what is due.
    pub(crate) fn publish(&mut self, robot: &eh_sim::Robot, moment: Moment, node: &Node) {
        let version = robot.planning_scene().version();
        if self.told == Some(version) || moment.now < self.next {
            return;
        }
        self.told = Some(version);
        self.next = moment.now + PERIOD;
        let message = scene_msg(robot, &self.frames, moment, 0);
        if let Err(error) = self.publisher.publish(message) {
            log_warn!(
                node.logger().throttle(Duration::from_secs(5)),
                "the planning scene is not published: {error}"
            );
        }
    }
}

/// Applies what was sent; whether all of it was possible.
fn apply(
    simulation: &mut Simulation,
    frames: &FrameNames,
    read: impl FnOnce(&SceneReader<'_>) -> (SceneChange, Vec<String>),
) -> bool {
    let (change, mut problems) = read(&SceneReader {
        frames,
        robot: &simulation.robot,
    });
    problems.extend(
        simulation
            .robot
            .apply_scene(&change)
            .err()
            .unwrap_or_default(),
    );
    for problem in problems.iter().take(5) {
        log_warn!(simulation.node.logger(), "planning scene: {problem}");
    }
    problems.is_empty()
}

/// Serves everything but the topic that tells.
///
/// # Errors
/// If a name is not valid.
pub(crate) fn serve(
    node: &Node,
    frames: &FrameNames,
    simulation: &SimulationHandle,
) -> Result<Vec<Box<dyn Any>>, RclrsError> {
    let mut handles: Vec<Box<dyn Any>> = Vec::new();
    let (handle, names) = (simulation.clone(), frames.clone());
    handles.push(Box::new(node.create_async_service::<GetPlanningScene, _>(
        "get_planning_scene",
        move |request: GetPlanningScene_Request| {
            let (handle, names) = (handle.clone(), names.clone());
            async move {
                let components = request.components.components;
                let scene = handle
                    .ask(move |s| scene_msg(&s.robot, &names, s.moment(), components))
                    .await;
                match scene {
                    Some(scene) => GetPlanningScene_Response { scene },
                    None => pending().await,
                }
            }
        },
    )?));
    let (handle, names) = (simulation.clone(), frames.clone());
    handles.push(Box::new(
        node.create_async_service::<ApplyPlanningScene, _>(
            "apply_planning_scene",
            move |request: ApplyPlanningScene_Request| {
                let (handle, names) = (handle.clone(), names.clone());
                async move {
                    let done = handle
                        .ask(move |s| apply(s, &names, |reader| reader.change(&request.scene)))
                        .await;
                    match done {
                        Some(success) => ApplyPlanningScene_Response { success },
                        None => pending().await,
                    }
                }
            },
        )?,
    ));
    let (handle, names) = (simulation.clone(), frames.clone());
    handles.push(Box::new(node.create_subscription(
        "planning_scene".qos(qos::control()),
        move |message: PlanningScene| {
            let names = names.clone();
            handle.tell(move |s| {
                apply(s, &names, |reader| reader.change(&message));
            });
        },
    )?));
    let (handle, names) = (simulation.clone(), frames.clone());
    handles.push(Box::new(node.create_subscription(
        "collision_object".qos(qos::control()),
        move |message: CollisionObject| {
            let names = names.clone();
            handle.tell(move |s| {
                apply(s, &names, |reader| one(reader.world(&message)));
            });
        },
    )?));
    let (handle, names) = (simulation.clone(), frames.clone());
    handles.push(Box::new(node.create_subscription(
        "attached_collision_object".qos(qos::control()),
        move |message: AttachedCollisionObject| {
            let names = names.clone();
            handle.tell(move |s| {
                apply(s, &names, |reader| match reader.attached(&message) {
                    Ok(operation) => {
                        let change = SceneChange {
                            attached: vec![operation],
                            ..SceneChange::default()
                        };
                        (change, Vec::new())
                    }
                    Err(problem) => (SceneChange::default(), vec![problem]),
                });
            });
        },
    )?));
    Ok(handles)
}

fn one(operation: Result<WorldOperation, String>) -> (SceneChange, Vec<String>) {
    match operation {
        Ok(operation) => (
            SceneChange {
                world: vec![operation],
                ..SceneChange::default()
            },
            Vec::new(),
        ),
        Err(problem) => (SceneChange::default(), vec![problem]),
    }
}

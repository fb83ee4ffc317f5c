//! The running node: what the spin thread hands over to the simulation.

use std::any::Any;
use std::future::pending;

use eh_ros_edge::{qos, NodeClock, Shutdown};
use eh_sim::{FaultKind, Velocity};
use rclrs::{
    log_info, log_warn, Executor, IntoNodeOptions, IntoPrimitiveOptions, Node, RclrsError,
};
use ros_env::embodied_harness::srv::{
    GetGroundTruth, GetGroundTruth_Request, GetGroundTruth_Response, InjectFault,
    InjectFault_Request, InjectFault_Response,
};
use ros_env::geometry_msgs::msg::{Twist, TwistStamped};

use crate::action_server::{serve, Server};
use crate::camera_topics::CameraTopics;
use crate::fault_request;
use crate::gripper_server::GripperServer;
use crate::head_server::HeadServer;
use crate::move_group::MoveGroupServer;
use crate::navigation_server::NavigationServer;
use crate::pacer::Pacer;
use crate::parameters::Parameters;
use crate::participants::{self, Participants};
use crate::planning_scene_server::{self, PlanningSceneTopic};
use crate::sensor_topics::SensorTopics;
use crate::simulation::{Moment, Simulation, Stamps};
use crate::simulation_thread::{SimulationHandle, SimulationThread};
use crate::truth::truth_json;
use crate::{Error, Options};

/// The stamp of the start when the simulation is the clock: not zero, which means "unknown" in messages.
const CLOCK_ORIGIN_NS: i64 = 1_000_000_000;

/// Keeps the ROS handles and the simulation alive.
pub(crate) struct SimRobotNode {
    simulation: SimulationThread,
    _handles: Vec<Box<dyn Any>>,
}

impl SimRobotNode {
    /// Builds the world and starts everything. `node` has the parameters and serves the only robot; each of
    /// several robots gets a node of the same name in its own namespace.
    ///
    /// # Errors
    /// [`Error`].
    pub(crate) fn start(
        executor: &Executor,
        node: &Node,
        options: &Options,
        shutdown: &Shutdown,
    ) -> Result<Self, Error> {
        let parameters = Parameters::declare(node)?;
        let robots = parameters.build_robots()?;
        let world = match &parameters.world {
            Some(file) => file.display().to_string(),
            None => "the built-in apartment".into(),
        };
        if let Some(robot) = robots.first() {
            log_info!(
                node.logger(),
                "simulating {world}: {} rooms, {} objects, seed {}, robots: {}",
                robot.map().rooms.len(),
                robot.world_file().objects.len(),
                robot.seed(),
                robots.len()
            );
        }
        let nodes = nodes(executor, node, options, &parameters)?;
        let mut simulations = Vec::with_capacity(robots.len());
        let mut settings = Vec::with_capacity(robots.len());
        for (index, (node, robot)) in nodes.iter().zip(robots).enumerate() {
            let stamps = if parameters.publish_clock {
                Stamps::Simulation {
                    origin_ns: CLOCK_ORIGIN_NS,
                }
            } else {
                Stamps::Node(NodeClock::of(node))
            };
            let mut own = parameters.clone();
            // There is one clock, whatever the number of robots.
            own.publish_clock &= index == 0;
            simulations.push(simulation(node, &own, robot, stamps)?);
            settings.push(own);
        }
        let pacer = Pacer::new(
            parameters.time_step,
            parameters.real_time_factor,
            parameters.max_lag,
        );
        let simulation =
            SimulationThread::start(simulations, parameters.time_step, pacer, shutdown)?;
        let mut handles = Vec::new();
        for (index, (node, own)) in nodes.iter().zip(&settings).enumerate() {
            handles.extend(serve_all(node, own, &simulation.handle(index))?);
            if parameters.publish_clock {
                handles.extend(participants::listen(node, &simulation.handle(index))?);
            }
        }
        Ok(Self {
            simulation,
            _handles: handles,
        })
    }

    /// Ends the simulation; the navigation says stop.
    ///
    /// # Errors
    /// [`Error::Simulation`] when it had ended by itself.
    pub(crate) fn stop(self) -> Result<(), Error> {
        self.simulation.stop().map_err(Error::Simulation)
    }
}

/// The node of each robot.
fn nodes(
    executor: &Executor,
    node: &Node,
    options: &Options,
    parameters: &Parameters,
) -> Result<Vec<Node>, Error> {
    if parameters.robots.is_empty() {
        return Ok(vec![node.clone()]);
    }
    let mut nodes = Vec::with_capacity(parameters.robots.len());
    for member in &parameters.robots {
        let namespace = format!("/{}", member.name);
        let node = executor.create_node(
            options
                .node_name
                .as_str()
                .namespace(&namespace)
                // Their parameters are those of the first node.
                .start_parameter_services(false),
        )?;
        // A namespace from the command line holds for every node of the process.
        if node.namespace() != namespace {
            return Err(Error::Robots(format!(
                "the node was started in the namespace {}, in which all robots would meet; start it without one",
                node.namespace()
            )));
        }
        nodes.push(node);
    }
    Ok(nodes)
}

fn simulation(
    node: &Node,
    parameters: &Parameters,
    robot: eh_sim::Robot,
    stamps: Stamps,
) -> Result<Simulation, Error> {
    let keep = parameters.result_timeout;
    let frames = &parameters.frames;
    let moment = Moment {
        now: robot.now(),
        stamp_ns: match &stamps {
            Stamps::Node(clock) => clock.ros_ns(),
            Stamps::Simulation { origin_ns } => *origin_ns,
        },
    };
    Ok(Simulation {
        topics: SensorTopics::new(node, parameters, &robot, moment)?,
        planning_scene: PlanningSceneTopic::new(node, frames)?,
        cameras: CameraTopics::new(node, parameters, &robot)?,
        navigation: Server::new(
            node,
            &parameters.navigate_action,
            keep,
            NavigationServer {
                frames: frames.clone(),
                feedback_rate: parameters.nav_feedback_rate,
            },
        )?,
        arm: Server::new(
            node,
            &parameters.move_group_action,
            keep,
            MoveGroupServer {
                frames: frames.clone(),
                last_step: std::time::Duration::ZERO,
            },
        )?,
        gripper: Server::new(
            node,
            &parameters.gripper_action,
            keep,
            GripperServer {
                allow_stalling: parameters.gripper_allow_stalling,
            },
        )?,
        head: Server::new(node, &parameters.head_action, keep, HeadServer)?,
        events: std::collections::VecDeque::new(),
        stopped: false,
        participants: Participants::default(),
        node: node.clone(),
        robot,
        stamps,
    })
}

fn serve_all(
    node: &Node,
    parameters: &Parameters,
    simulation: &SimulationHandle,
) -> Result<Vec<Box<dyn Any>>, RclrsError> {
    let mut handles = vec![
        subscribe_velocity(node, parameters, simulation)?,
        serve_faults(node, simulation)?,
    ];
    handles.extend(serve::<NavigationServer>(
        node,
        &parameters.navigate_action,
        simulation,
        |s| (&mut s.robot, &mut s.navigation),
    )?);
    handles.extend(serve::<MoveGroupServer>(
        node,
        &parameters.move_group_action,
        simulation,
        |s| (&mut s.robot, &mut s.arm),
    )?);
    handles.extend(serve::<GripperServer>(
        node,
        &parameters.gripper_action,
        simulation,
        |s| (&mut s.robot, &mut s.gripper),
    )?);
    handles.extend(serve::<HeadServer>(
        node,
        &parameters.head_action,
        simulation,
        |s| (&mut s.robot, &mut s.head),
    )?);
    handles.extend(planning_scene_server::serve(
        node,
        &parameters.frames,
        simulation,
    )?);
    if parameters.expose_ground_truth {
        log_warn!(
            node.logger(),
            "the ground truth can be asked for: for tests only"
        );
        handles.push(serve_truth(node, simulation)?);
    }
    Ok(handles)
}

/// The velocity of a twist. The base can't do more than drive ahead and turn, but a number that is none
/// anywhere makes the whole of it worth nothing.
fn velocity(twist: &Twist) -> Velocity {
    let all = [
        twist.linear.x,
        twist.linear.y,
        twist.linear.z,
        twist.angular.x,
        twist.angular.y,
        twist.angular.z,
    ];
    if all.iter().all(|value| value.is_finite()) {
        Velocity::new(twist.linear.x, twist.angular.z)
    } else {
        Velocity::new(f64::NAN, f64::NAN)
    }
}

fn subscribe_velocity(
    node: &Node,
    parameters: &Parameters,
    simulation: &SimulationHandle,
) -> Result<Box<dyn Any>, RclrsError> {
    let handle = simulation.clone();
    let take = move |twist: &Twist| {
        let velocity = velocity(twist);
        handle.tell(move |simulation| simulation.command_base(velocity));
    };
    let topic = parameters
        .cmd_vel_topic
        .as_str()
        .qos(qos::velocity_command());
    Ok(if parameters.stamped_cmd_vel {
        Box::new(
            node.create_subscription(topic, move |message: TwistStamped| take(&message.twist))?,
        )
    } else {
        Box::new(node.create_subscription(topic, move |message: Twist| take(&message))?)
    })
}

fn serve_faults(node: &Node, simulation: &SimulationHandle) -> Result<Box<dyn Any>, RclrsError> {
    let handle = simulation.clone();
    let service = node.create_async_service::<InjectFault, _>(
        "inject_fault",
        move |request: InjectFault_Request| {
            let handle = handle.clone();
            async move {
                match handle.ask(move |s| inject(s, &request)).await {
                    Some(response) => response,
                    None => pending().await,
                }
            }
        },
    )?;
    Ok(Box::new(service))
}

fn inject(simulation: &mut Simulation, request: &InjectFault_Request) -> InjectFault_Response {
    let mut response = InjectFault_Response::default();
    let done = match request.fault.parse::<FaultKind>() {
        Err(error) => Err((InjectFault_Response::UNKNOWN_FAULT, error.to_string())),
        Ok(kind) if request.clear => {
            simulation.robot.clear_fault(kind);
            Ok(())
        }
        Ok(kind) => fault_request::of_service(kind, request)
            .and_then(|spec| {
                simulation
                    .robot
                    .inject(spec)
                    .map_err(|error| error.to_string())
            })
            .map_err(|text| (InjectFault_Response::INVALID_REQUEST, text)),
    };
    if let Err((code, text)) = done {
        response.error_code = code;
        response.error_msg = text;
    }
    response.active = simulation
        .robot
        .pending_faults()
        .map(|spec| spec.fault.name().into())
        .collect();
    response
}

fn serve_truth(node: &Node, simulation: &SimulationHandle) -> Result<Box<dyn Any>, RclrsError> {
    let handle = simulation.clone();
    let service = node.create_async_service::<GetGroundTruth, _>(
        "get_ground_truth",
        move |_: GetGroundTruth_Request| {
            let handle = handle.clone();
            async move {
                match handle.ask(|simulation| truth_json(simulation)).await {
                    Some(truth_json) => GetGroundTruth_Response {
                        truth_json,
                        ..Default::default()
                    },
                    None => pending().await,
                }
            }
        },
    )?;
    Ok(Box::new(service))
}

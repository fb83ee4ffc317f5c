//! The robot with everything that serves it, as the simulation's thread owns it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use eh_sim::{Robot, SimError, SimEvent, Velocity};
use rclrs::{log_info, log_warn, Node, ToLogParams};

use crate::action_server::Server;
use crate::camera_topics::CameraTopics;
use crate::gripper_server::GripperServer;
use crate::head_server::HeadServer;
use crate::move_group::MoveGroupServer;
use crate::navigation_server::NavigationServer;
use crate::participants::Participants;
use crate::planning_scene_server::PlanningSceneTopic;
use crate::sensor_topics::SensorTopics;

/// How many events the ground truth tells.
const REMEMBERED_EVENTS: usize = 256;

/// One moment on the two clocks that matter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    /// Time of the simulation since its start.
    pub now: Duration,
    /// ROS time in nanoseconds, for stamps.
    pub stamp_ns: i64,
}

/// Where stamps come from.
pub(crate) enum Stamps {
    /// The node's clock.
    Node(eh_ros_edge::NodeClock),
    /// The simulation is the clock: its time, after this much, in nanoseconds.
    Simulation {
        /// The stamp of the simulation's start.
        origin_ns: i64,
    },
}

/// The robot with everything that serves it.
pub(crate) struct Simulation {
    pub(crate) node: Node,
    pub(crate) robot: Robot,
    pub(crate) stamps: Stamps,
    pub(crate) navigation: Server<NavigationServer>,
    pub(crate) arm: Server<MoveGroupServer>,
    pub(crate) gripper: Server<GripperServer>,
    pub(crate) head: Server<HeadServer>,
    pub(crate) topics: SensorTopics,
    pub(crate) planning_scene: PlanningSceneTopic,
    pub(crate) cameras: CameraTopics,
    pub(crate) events: VecDeque<(Duration, SimEvent)>,
    pub(crate) stopped: bool,
    /// Those who live by its clock; nobody where it is not the clock.
    pub(crate) participants: Participants,
}

impl Simulation {
    /// Now.
    pub(crate) fn moment(&self) -> Moment {
        let now = self.robot.now();
        let stamp_ns = match &self.stamps {
            Stamps::Node(clock) => clock.ros_ns(),
            Stamps::Simulation { origin_ns } => {
                origin_ns.saturating_add(i64::try_from(now.as_nanos()).unwrap_or(i64::MAX))
            }
        };
        Moment { now, stamp_ns }
    }

    /// Takes the velocity that came for the base.
    pub(crate) fn command_base(&mut self, velocity: Velocity) {
        if let Err(error) = self.robot.set_velocity_command(velocity) {
            log_warn!(
                self.node.logger().throttle(Duration::from_secs(5)),
                "the base stops: {error}"
            );
        }
    }

    /// Moves time on by one step and publishes what is due.
    ///
    /// # Errors
    /// [`SimError`] when the step's length is out of range.
    pub(crate) fn step(&mut self, dt: Duration) -> Result<(), SimError> {
        let began = Instant::now();
        self.robot.step(dt)?;
        // The arm's motions are planned in a step.
        self.arm.served_mut().last_step = began.elapsed();
        let moment = self.moment();
        self.topics.publish(&mut self.robot, moment);
        self.planning_scene.publish(&self.robot, moment, &self.node);
        self.cameras.publish(&self.robot, moment);
        let robot = &mut self.robot;
        self.navigation.tick(robot, moment);
        self.arm.tick(robot, moment);
        self.gripper.tick(robot, moment);
        self.head.tick(robot, moment);
        for (at, event) in self.robot.drain_events() {
            self.remember(at, event);
        }
        Ok(())
    }

    fn remember(&mut self, at: Duration, event: SimEvent) {
        match &event {
            SimEvent::Collision => {
                log_warn!(self.node.logger(), "the base ran into something")
            }
            SimEvent::Fault(kind) => {
                log_info!(self.node.logger(), "fault: {}", kind.name())
            }
            SimEvent::Relocalized { by } => {
                log_info!(self.node.logger(), "the localisation jumps by {by:.2} m")
            }
            SimEvent::CommandTimeout
            | SimEvent::DoorMoved { .. }
            | SimEvent::ObjectMoved { .. }
            | SimEvent::NavEnded(_)
            | SimEvent::ArmEnded(_)
            | SimEvent::GripperEnded(_)
            | SimEvent::HeadEnded(_)
            | SimEvent::Grasped { .. }
            | SimEvent::Slipped { .. }
            | SimEvent::Released { .. } => {}
        }
        if self.events.len() >= REMEMBERED_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back((at, event));
    }

    /// Ends: the navigation says stop for the last time.
    pub(crate) fn stop(&mut self) {
        self.stopped = true;
        let moment = self.moment();
        self.topics.publish_nav_velocity(Velocity::ZERO, moment);
    }
}

//! The simulated robot with what its drivers serve: four actions, a planning scene, sensors.

pub mod action_server;
pub mod planning;
pub mod sensors;
pub mod sub_goal;

use std::time::Duration;

use eh_executor::Server;
use eh_sim::{Robot, SimEvent, Velocity};
use rand_chacha::ChaCha8Rng;

use crate::clock::{Every, STEP};
use crate::context::{Context, Process};
use crate::failpoint::Crash;
use crate::message::{Body, Letter, News, Reply, Request};
use crate::server::fault_name;

use action_server::{ActionServer, ServerManners};
use sensors::Sensors;

/// The robot.
#[derive(Debug)]
pub struct RobotProcess {
    robot: Robot,
    servers: Vec<ActionServer>,
    sensors: Sensors,
    way: Every,
    rng: ChaCha8Rng,
}

impl RobotProcess {
    /// A robot whose servers behave like this.
    pub fn new(robot: Robot, manners: &[ServerManners], rng: ChaCha8Rng) -> Self {
        RobotProcess {
            servers: Server::ALL
                .iter()
                .zip(manners)
                .map(|(server, manners)| ActionServer::new(*server, manners.clone()))
                .collect(),
            sensors: Sensors::default(),
            way: Every::new(Duration::from_millis(200)),
            robot,
            rng,
        }
    }

    /// The robot itself: the truth, for the referee and for people who look at it.
    pub const fn robot(&self) -> &Robot {
        &self.robot
    }

    /// The same, for faults.
    pub fn robot_mut(&mut self) -> &mut Robot {
        &mut self.robot
    }

    /// Goals that run on a server now.
    pub fn running(&self, server: Server) -> impl Iterator<Item = [u8; 16]> + '_ {
        self.servers
            .iter()
            .filter(move |s| s.server() == server)
            .flat_map(ActionServer::running)
    }

    /// Time passes for the robot.
    pub fn advance(&mut self, context: &mut Context<'_>) {
        // A step of 20 ms is within its limits.
        let _ = self.robot.step(STEP);
        for (_, event) in self.robot.drain_events() {
            let what = match &event {
                SimEvent::Collision => {
                    context.outside.witness.collided(context.outside.now);
                    "COLLIDES".to_owned()
                }
                SimEvent::Grasped { object } => format!("holds {object}"),
                SimEvent::Slipped { object, fell } => {
                    format!("{object} slips and falls {fell:.2} m")
                }
                SimEvent::Released { object, fell } => {
                    format!("lets {object} go, it falls {fell:.2} m")
                }
                SimEvent::DoorMoved { door, open } => format!("{door} open {open}"),
                SimEvent::ObjectMoved { object } => format!("{object} is moved"),
                SimEvent::Fault(kind) => format!("fault {}", kind.name()),
                SimEvent::Relocalized { .. }
                | SimEvent::CommandTimeout
                | SimEvent::NavEnded(_)
                | SimEvent::ArmEnded(_)
                | SimEvent::GripperEnded(_)
                | SimEvent::HeadEnded(_) => continue,
            };
            context.note(format_args!("{what}"));
        }
    }
}

impl Process for RobotProcess {
    fn receive(&mut self, letter: Letter, context: &mut Context<'_>) -> Result<(), Crash> {
        match letter.body {
            Body::News(News::Given(velocity)) => {
                // Protection gives out finite numbers; others make the base stand.
                let _ = self.robot.set_velocity_command(velocity);
            }
            Body::Request { call, request } => {
                self.answer(letter.from, call, request, context);
            }
            Body::News(_) | Body::Reply { .. } => {}
        }
        Ok(())
    }

    fn step(&mut self, context: &mut Context<'_>) -> Result<(), Crash> {
        let now = context.time();
        self.sensors.publish(&mut self.robot, context);
        for server in &mut self.servers {
            server.step(&mut self.robot, context);
        }
        if self.way.is_due(now) {
            if let Some((goal_id, way)) = self.servers.iter().find_map(|s| s.way_left(&self.robot))
            {
                context.publish(News::WayLeft { goal_id, way });
            }
        }
        Ok(())
    }
}

impl RobotProcess {
    fn answer(
        &mut self,
        from: crate::process_id::Address,
        call: u64,
        request: Request,
        context: &mut Context<'_>,
    ) {
        let robot = &mut self.robot;
        let find = |servers: &mut Vec<ActionServer>, server: Server| {
            servers.iter().position(|s| s.server() == server)
        };
        match request {
            Request::SendGoal {
                server,
                goal_id,
                goal,
            } => {
                if let Some(s) =
                    find(&mut self.servers, server).and_then(|i| self.servers.get_mut(i))
                {
                    s.send(from, call, goal_id, goal, &mut self.rng, context);
                }
            }
            Request::CancelGoal { server, goal_id } => {
                if let Some(s) =
                    find(&mut self.servers, server).and_then(|i| self.servers.get_mut(i))
                {
                    s.cancel(from, call, goal_id, robot, context);
                }
            }
            Request::GoalResult { server, goal_id } => {
                if let Some(s) =
                    find(&mut self.servers, server).and_then(|i| self.servers.get_mut(i))
                {
                    s.result(from, call, goal_id, context);
                }
            }
            Request::GetPlanningScene => {
                let known = planning::known(robot);
                context.reply(from, call, Reply::PlanningScene(Box::new(known)));
            }
            Request::ApplyPlanningScene(change) => {
                let done = planning::apply(robot, &change);
                context.reply(from, call, Reply::PlanningSceneApplied(done));
            }
            _ => {}
        }
    }
}

/// The speed at which something counts as moving, for the referee: above the noise of nothing, since the
/// truth has none.
pub fn is_moving(velocity: Velocity) -> bool {
    velocity.linear.abs() > 1e-3 || velocity.angular.abs() > 1e-3
}

/// Whether a fault of the simulated robot concerns a server.
pub const fn name_of(server: Server) -> &'static str {
    fault_name(server)
}

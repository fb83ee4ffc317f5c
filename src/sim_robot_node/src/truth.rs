//! The ground truth as one JSON object, for tests. Its fields are listed in docs/sim_robot.md.

use eh_sim::nalgebra::Isometry3;
use eh_sim::{SimEvent, Support};
use serde_json::{json, Map, Value};

use crate::action_server::{Served, Server};
use crate::simulation::Simulation;

/// The ground truth.
pub(crate) fn truth_json(simulation: &Simulation) -> String {
    let robot = &simulation.robot;
    let truth = robot.ground_truth();
    let objects: Map<String, Value> = truth
        .objects
        .iter()
        .map(|object| {
            let value = json!({
                "class": object.class,
                "pose": pose(&object.pose),
                "support": support(&object.support),
            });
            (object.id.clone(), value)
        })
        .collect();
    let joints: Map<String, Value> = robot
        .joint_states()
        .iter()
        .map(|joint| {
            let value = json!({
                "position": joint.position,
                "velocity": joint.velocity,
                "effort": joint.effort,
            });
            (joint.name.into(), value)
        })
        .collect();
    let mut goals = Map::new();
    let mut requests = Map::new();
    count(&simulation.navigation, &mut goals, &mut requests);
    count(&simulation.arm, &mut goals, &mut requests);
    count(&simulation.gripper, &mut goals, &mut requests);
    count(&simulation.head, &mut goals, &mut requests);
    let events: Vec<Value> = simulation
        .events
        .iter()
        .map(|(at, event)| json!({"t": at.as_secs_f64(), "event": name(event)}))
        .collect();
    let doors: Map<String, Value> = truth
        .doors
        .iter()
        .map(|(id, open)| (id.clone(), json!(open)))
        .collect();
    let people: Map<String, Value> = robot
        .world()
        .people()
        .iter()
        .map(|person| (person.id().into(), json!(person.position())))
        .collect();
    json!({
        "time": robot.now().as_secs_f64(),
        "seed": robot.seed(),
        "base": {
            "pose": {"x": truth.robot.x, "y": truth.robot.y, "yaw": truth.robot.yaw},
            "velocity": {"linear": truth.velocity.linear, "angular": truth.velocity.angular},
        },
        "tool": pose(&truth.tcp),
        "held": truth.held.unwrap_or_default(),
        "objects": objects,
        "joints": joints,
        "doors": doors,
        "people": people,
        "collisions": truth.collisions,
        "goals": goals,
        "requests": requests,
        "events": events,
        // As text: JSON readers take large numbers as inexact ones.
        "digest": format!("{:016x}", robot.digest()),
    })
    .to_string()
}

fn count<S: Served>(
    server: &Server<S>,
    goals: &mut Map<String, Value>,
    requests: &mut Map<String, Value>,
) {
    let starts: Map<String, Value> = server
        .starts()
        .map(|(id, starts)| (id.to_string(), json!(starts)))
        .collect();
    goals.insert(S::NAME.into(), Value::Object(starts));
    requests.insert(S::NAME.into(), json!(server.requests()));
}

fn pose(pose: &Isometry3<f64>) -> Value {
    let (p, q) = (pose.translation.vector, pose.rotation.coords);
    json!({"position": [p.x, p.y, p.z], "orientation": [q.x, q.y, q.z, q.w]})
}

fn support(support: &Support) -> &str {
    match support {
        Support::Floor => "floor",
        Support::Furniture(id) => id,
        Support::Fixed => "fixed",
        Support::Gripper => "gripper",
    }
}

fn name(event: &SimEvent) -> String {
    match event {
        SimEvent::Collision => "collision".into(),
        SimEvent::CommandTimeout => "command_timeout".into(),
        SimEvent::NavEnded(_) => "navigation_ended".into(),
        SimEvent::ArmEnded(_) => "arm_ended".into(),
        SimEvent::GripperEnded(_) => "gripper_ended".into(),
        SimEvent::HeadEnded(_) => "head_ended".into(),
        SimEvent::Grasped { object } => format!("grasped {object}"),
        SimEvent::Slipped { object, .. } => format!("slipped {object}"),
        SimEvent::Released { object, .. } => format!("released {object}"),
        SimEvent::DoorMoved { door, open: true } => format!("opened {door}"),
        SimEvent::DoorMoved { door, open: false } => format!("closed {door}"),
        SimEvent::ObjectMoved { object } => format!("moved {object}"),
        SimEvent::Relocalized { .. } => "relocalized".into(),
        SimEvent::Fault(kind) => format!("fault {}", kind.name()),
    }
}

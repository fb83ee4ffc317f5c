//! What became of a command in truth, as a person sees it who looks at the robot.

use std::collections::BTreeSet;

use eh_contract::command::{SkillCommand, TargetBinding};
use eh_executor::Server;
use eh_sim::{GroundTruth, Robot, Support};

use crate::robot::RobotProcess;

/// How near the base counts as being at something \[m\]: as the judge's, with its tolerance.
const NEAR: f64 = 0.95;

/// Whether the wanted effect is there.
pub fn effect_holds(command: &SkillCommand, robot: &Robot) -> bool {
    let truth = robot.ground_truth();
    match command.skill.as_str() {
        "pick" => command
            .target("object")
            .is_some_and(|t| holds_class(&truth, &t.class_name)),
        "place" => {
            let (object, support) = (command.target("object"), command.target("support"));
            match (object, support) {
                (Some(object), Some(support)) => stands_on(&truth, object, support),
                _ => false,
            }
        }
        "navigate_to" => command.target("target").is_some_and(|t| is_near(&truth, t)),
        "open_gripper" => robot.gripper_state().position > 0.085,
        "close_gripper" => robot.gripper_state().position < 0.085,
        "stow" => {
            let body = eh_skills::Embodiment::default();
            let stowed = body.configurations.get("stow");
            let joints = robot.joint_states();
            stowed.is_some_and(|pose| {
                joints
                    .iter()
                    .filter_map(|j| Some((j.position - pose.get(j.name)?).abs()))
                    .all(|off| off < 0.1)
            })
        }
        _ => false,
    }
}

/// Whether something of a class is in the gripper.
pub fn holds_class(truth: &GroundTruth, class: &str) -> bool {
    truth
        .held
        .as_ref()
        .and_then(|id| truth.object(id))
        .is_some_and(|o| o.class == class)
}

/// Whether something of the object's class stands on the support.
pub fn stands_on(truth: &GroundTruth, object: &TargetBinding, support: &TargetBinding) -> bool {
    truth.objects.iter().any(|o| {
        o.class == object.class_name
            && matches!(&o.support, Support::Furniture(id) if *id == support.r#ref)
    })
}

fn is_near(truth: &GroundTruth, target: &TargetBinding) -> bool {
    let (p, size) = (target.pose.position, target.size);
    // The nearest point of the target's box, as if it were not turned.
    let gap = |at: f64, middle: f64, edge: f64| ((at - middle).abs() - edge / 2.0).max(0.0);
    let dx = gap(truth.robot.x, p.x, size.x);
    let dy = gap(truth.robot.y, p.y, size.y);
    dx.hypot(dy) <= NEAR
}

/// What of a resource moves in truth.
pub fn moves(resource: &str, robot: &Robot) -> bool {
    let joint = |names: &dyn Fn(&str) -> bool, limit: f64| {
        robot
            .joint_states()
            .iter()
            .any(|j| names(j.name) && j.velocity.abs() > limit)
    };
    match resource {
        // The limits of what counts as standing, with what odometry errs: see `StandstillLimits`.
        "base" => {
            let velocity = robot.ground_truth().velocity;
            velocity.linear.abs() > 0.012 || velocity.angular.abs() > 0.024
        }
        "arm" => joint(&|n| n.starts_with("arm_"), 0.022),
        "gripper" => joint(&|n| n == eh_sim::joint_state::GRIPPER_JOINT, 0.0035),
        "head" => joint(&|n| n.starts_with("head_"), 0.022),
        _ => false,
    }
}

/// Whether the whole robot stands and none of these goals runs.
pub fn is_still(robot: &RobotProcess, goals: &BTreeSet<[u8; 16]>) -> bool {
    let runs = Server::ALL
        .iter()
        .any(|server| robot.running(*server).any(|g| goals.contains(&g)));
    let still = |resource| !moves(resource, robot.robot());
    !runs && ["base", "arm", "gripper", "head"].into_iter().all(still)
}

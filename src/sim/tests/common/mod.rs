//! What the tests share: worlds without uncertainty, and loops that step until a goal ends.
#![allow(dead_code)] // each test file uses a part of it

pub mod protected;

use std::f64::consts::FRAC_PI_2;
use std::time::Duration;

use eh_sim::arm_kinematics::SHOULDER;
use eh_sim::nalgebra::{Isometry3, Point3, Translation3, UnitQuaternion, Vector3};
use eh_sim::world_file::Noise;
use eh_sim::{
    ArmGoal, ArmGoalTarget, ArmStatus, GripperStatus, NavStatus, Pose2, Robot, Velocity, WorldFile,
};

pub const TICK: Duration = Duration::from_millis(20);

pub fn apartment_text() -> &'static str {
    include_str!("../../../../worlds/apartment.yaml")
}

pub fn two_rooms_text() -> &'static str {
    include_str!("../../../../worlds/two_rooms.yaml")
}

/// The worlds that ship, by name.
pub fn shipped_worlds() -> Vec<(&'static str, &'static str)> {
    vec![
        ("apartment", apartment_text()),
        ("two_rooms", two_rooms_text()),
        (
            "clutter_table",
            include_str!("../../../../worlds/clutter_table.yaml"),
        ),
        ("corridor", include_str!("../../../../worlds/corridor.yaml")),
    ]
}

/// The worlds that ship with the usual noise, and nobody in them but the robot.
pub fn quiet_worlds() -> Vec<(&'static str, WorldFile)> {
    let quiet = |(name, text)| {
        let mut file = WorldFile::from_yaml(text).unwrap();
        file.noise = Noise::default();
        file.schedule.clear();
        file.people.clear();
        (name, file)
    };
    shipped_worlds().into_iter().map(quiet).collect()
}

/// The apartment with its usual uncertainty.
pub fn apartment(seed: u64) -> Robot {
    Robot::from_yaml(apartment_text(), Some(seed)).unwrap()
}

/// The apartment with none.
pub fn exact_apartment() -> Robot {
    let mut file = WorldFile::from_yaml(apartment_text()).unwrap();
    file.noise = Noise::none();
    Robot::new(file, Some(1)).unwrap()
}

/// One step of the loop that the ROS graph closes: the navigator's wish goes to the base as it is.
pub fn tick(robot: &mut Robot) {
    let wish = robot.nav_velocity().unwrap_or(Velocity::ZERO);
    robot.set_velocity_command(wish).unwrap();
    robot.step(TICK).unwrap();
}

pub fn settle(robot: &mut Robot, seconds: f64) {
    for _ in 0..(seconds / TICK.as_secs_f64()).ceil() as usize {
        tick(robot);
    }
}

/// Drives until the goal ends, at most two minutes.
pub fn drive(robot: &mut Robot, goal: Pose2) -> NavStatus {
    let id = robot.navigate("map", goal).unwrap();
    for _ in 0..6000 {
        let status = robot.nav_status(id).unwrap();
        if status.is_terminal() {
            return status;
        }
        tick(robot);
    }
    panic!("the goal did not end: {:?}", robot.nav_status(id));
}

pub fn move_arm(robot: &mut Robot, goal: ArmGoal) -> ArmStatus {
    let id = robot.move_arm(goal).unwrap();
    for _ in 0..3000 {
        let status = robot.arm_status(id).unwrap();
        if status.is_terminal() {
            return status;
        }
        tick(robot);
    }
    panic!("the goal did not end");
}

pub fn named(robot: &mut Robot, pose: &str) -> ArmStatus {
    move_arm(robot, ArmGoal::new(ArmGoalTarget::Named(pose.to_owned())))
}

pub fn move_gripper(robot: &mut Robot, width: f64) -> GripperStatus {
    let id = robot.move_gripper(width, 20.0).unwrap();
    for _ in 0..500 {
        let status = robot.gripper_status(id).unwrap();
        if status.is_terminal() {
            return status;
        }
        tick(robot);
    }
    panic!("the goal did not end");
}

/// The tool straight down over a point of base_link, the fingers closing sideways.
pub fn from_above(p: Point3<f64>) -> ArmGoalTarget {
    ArmGoalTarget::Pose {
        frame: "base_link".to_owned(),
        pose: Isometry3::from_parts(
            Translation3::from(p.coords),
            UnitQuaternion::from_axis_angle(&Vector3::y_axis(), FRAC_PI_2),
        ),
        orientation_tolerance: Some([0.05; 3]),
    }
}

/// The tool level, pointing away from the shoulder.
pub fn from_the_front(p: Point3<f64>) -> ArmGoalTarget {
    let heading = (p.y - SHOULDER[1]).atan2(p.x - SHOULDER[0]);
    ArmGoalTarget::Pose {
        frame: "base_link".to_owned(),
        pose: Isometry3::from_parts(
            Translation3::from(p.coords),
            UnitQuaternion::from_axis_angle(&Vector3::z_axis(), heading),
        ),
        orientation_tolerance: Some([0.05; 3]),
    }
}

/// Where an object truly is, seen from base_link.
pub fn in_base(robot: &Robot, object: &str) -> Point3<f64> {
    let truth = robot.ground_truth();
    let at = truth.object(object).unwrap().pose.translation.vector;
    truth.robot.to_isometry().inverse() * Point3::from(at)
}

/// Grips the object from above as a skill would: open, over it, down, close. What the gripper says.
pub fn grip(robot: &mut Robot, object: &str) -> GripperStatus {
    move_gripper(robot, 0.1);
    let p = in_base(robot, object);
    let over = move_arm(robot, ArmGoal::new(from_above(p + Vector3::z() * 0.12)));
    assert_eq!(over, ArmStatus::Succeeded, "over the object");
    let down = move_arm(robot, ArmGoal::new(from_above(p)).on_a_line());
    assert_eq!(down, ArmStatus::Succeeded, "down to the object");
    move_gripper(robot, 0.0)
}

/// Lifts the tool by 12 cm.
pub fn lift(robot: &mut Robot) -> ArmStatus {
    let truth = robot.ground_truth();
    let tcp = truth.robot.to_isometry().inverse() * truth.tcp;
    let p = Point3::from(tcp.translation.vector) + Vector3::z() * 0.12;
    move_arm(robot, ArmGoal::new(from_above(p)).on_a_line())
}

/// In front of the kitchen table's west side, with the red cup within reach.
pub const AT_KITCHEN_TABLE: Pose2 = Pose2::new(5.82, 2.15, 0.0);
/// In front of the dining table's north side.
pub const AT_DINING_TABLE: Pose2 = Pose2::new(3.7, 1.75, -FRAC_PI_2);

//! A pick as on an arm with MoveIt: the contact is allowed, the object attached, and what is carried is
//! checked.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use eh_sim::allowed_collisions::{AllowedCollisions, OCTOMAP};
use eh_sim::collision_shape::CollisionShape;
use eh_sim::nalgebra::{Isometry3, Point3, Translation3, UnitQuaternion, Vector3};
use eh_sim::planning_scene::{AttachOperation, CollisionObject, SceneChange, WorldOperation};
use eh_sim::{ArmErrorCode, ArmGoal, ArmGoalTarget, ArmStatus, GripperStatus, Robot, Velocity};

/// The robot stands before a table whose top is at 0.7 m, with a cup 0.55 m ahead of it.
const WORLD: &str = "
rooms: [{id: hall, rect: [-3, -3, 3, 3]}]
furniture: [{id: t, class: table, center: [0.85, 0], size: [0.8, 1.2, 0.7], surface: true}]
objects: [{id: cup, class: cup, position: [0.55, 0.0], on: t, size: [0.08, 0.08, 0.1], grasp_width: 0.07}]
robot: {start: [0, 0, 0]}
";

fn robot() -> Robot {
    Robot::from_yaml(WORLD, Some(3)).unwrap()
}

/// The tool straight down over the cup, its point at this height.
fn over_the_cup(height: f64) -> ArmGoal {
    let down = UnitQuaternion::from_axis_angle(&Vector3::y_axis(), std::f64::consts::FRAC_PI_2);
    ArmGoal::new(ArmGoalTarget::Pose {
        frame: "base_link".into(),
        pose: Isometry3::from_parts(Translation3::new(0.55, 0.0, height), down),
        orientation_tolerance: Some([0.2, 0.1, 0.1]),
    })
}

fn move_arm(robot: &mut Robot, goal: ArmGoal) -> Result<(), i32> {
    let id = robot.move_arm(goal).unwrap();
    for _ in 0..2000 {
        robot.set_velocity_command(Velocity::ZERO).unwrap();
        robot.step(Duration::from_millis(20)).unwrap();
        match robot.arm_status(id).unwrap() {
            ArmStatus::Active { .. } => {}
            ArmStatus::Succeeded => return Ok(()),
            ArmStatus::Aborted { code, .. } => return Err(code),
            other => panic!("{other:?}"),
        }
    }
    panic!("the arm never ends");
}

fn close(robot: &mut Robot, width: f64) {
    let id = robot.move_gripper(width, 20.0).unwrap();
    while !matches!(robot.gripper_status(id), Some(GripperStatus::Ended(_))) {
        robot.step(Duration::from_millis(20)).unwrap();
    }
}

fn cup() -> CollisionObject {
    CollisionObject {
        id: "cup".into(),
        // The robot's odometry began in base_link.
        pose: Isometry3::translation(0.55, 0.0, 0.75),
        parts: vec![(
            CollisionShape::Cylinder {
                height: 0.1,
                radius: 0.04,
            },
            Isometry3::identity(),
        )],
    }
}

fn allow(robot: &mut Robot, pairs: &[[&str; 2]]) {
    let names: BTreeSet<&str> = pairs.iter().flatten().copied().collect();
    let rows = names
        .iter()
        .map(|a| {
            names
                .iter()
                .map(|b| pairs.iter().any(|p| p.contains(a) && p.contains(b)) && a != b)
                .collect()
        })
        .collect();
    let names = names.iter().map(|n| (*n).to_owned()).collect();
    let change = SceneChange {
        allowed: Some(AllowedCollisions::new(names, rows, BTreeMap::new()).unwrap()),
        ..SceneChange::default()
    };
    robot.apply_scene(&change).unwrap();
}

fn world(robot: &mut Robot, operation: WorldOperation) {
    let change = SceneChange {
        world: vec![operation],
        ..SceneChange::default()
    };
    robot.apply_scene(&change).unwrap();
}

fn attach(robot: &mut Robot) {
    let change = SceneChange {
        attached: vec![AttachOperation::Attach {
            id: "cup".into(),
            link: "gripper_tcp".into(),
            touch_links: ["gripper_tcp", "arm_5_link"].map(String::from).into(),
            object: None,
        }],
        ..SceneChange::default()
    };
    robot.apply_scene(&change).unwrap();
}

#[test]
fn a_pick_needs_its_contacts_allowed_and_its_object_attached() {
    let mut robot = robot();
    close(&mut robot, 0.1);
    world(&mut robot, WorldOperation::Add(cup()));
    move_arm(&mut robot, over_the_cup(0.95)).unwrap();
    // 0.045 m below the cup's top at 0.8.
    let grasp = || over_the_cup(0.755).on_a_line();
    assert_eq!(
        move_arm(&mut robot, grasp()),
        Err(ArmErrorCode::PlanningFailed.code()),
        "the contact is not allowed"
    );
    allow(&mut robot, &[["cup", "gripper_tcp"], ["cup", "arm_5_link"]]);
    move_arm(&mut robot, grasp()).unwrap();
    close(&mut robot, 0.0);
    assert_eq!(robot.ground_truth().held.as_deref(), Some("cup"));
    // Without the contact allowed and without being attached, the object is in the fingers' way.
    allow(&mut robot, &[]);
    let lift = || over_the_cup(0.875).on_a_line();
    assert_eq!(
        move_arm(&mut robot, lift()),
        Err(ArmErrorCode::StartStateInCollision.code())
    );
    attach(&mut robot);
    move_arm(&mut robot, lift()).unwrap();
    // What is carried is checked: with a board above the table the gripper alone would fit under it.
    world(
        &mut robot,
        WorldOperation::Add(CollisionObject {
            id: "post".into(),
            pose: Isometry3::translation(0.55, 0.16, 0.8),
            parts: vec![(
                CollisionShape::Box([0.1, 0.06, 0.07]),
                Isometry3::identity(),
            )],
        }),
    );
    let aside = |height: f64| {
        let mut goal = over_the_cup(height);
        if let ArmGoalTarget::Pose { pose, .. } = &mut goal.target {
            pose.translation.vector.y = 0.16;
        }
        goal
    };
    // The post's top is at 0.835; the cup's bottom hangs 0.055 below the tool, at 0.82.
    assert_eq!(
        move_arm(&mut robot, aside(0.875)),
        Err(ArmErrorCode::GoalInCollision.code())
    );
    // Let go of in the planner's mind, the fingers alone pass: they end 0.005 above the tool's point.
    let detach = SceneChange {
        attached: vec![AttachOperation::Detach {
            id: "cup".into(),
            link: String::new(),
        }],
        world: vec![WorldOperation::Remove("cup".into())],
        ..SceneChange::default()
    };
    robot.apply_scene(&detach).unwrap();
    assert!(robot.plan_arm(&aside(0.875)).is_ok());
}

#[test]
fn what_is_attached_too_low_may_leave_the_table_only_when_that_contact_is_allowed() {
    let mut robot = robot();
    close(&mut robot, 0.1);
    // Believed 2 cm lower than it is, deeper in the table than sensors may be wrong.
    let mut low = cup();
    low.pose.translation.z -= 0.02;
    world(&mut robot, WorldOperation::Add(low));
    allow(&mut robot, &[["cup", "gripper_tcp"], ["cup", "arm_5_link"]]);
    move_arm(&mut robot, over_the_cup(0.95)).unwrap();
    move_arm(&mut robot, over_the_cup(0.755).on_a_line()).unwrap();
    close(&mut robot, 0.0);
    attach(&mut robot);
    let lift = || over_the_cup(0.875).on_a_line();
    assert_eq!(
        move_arm(&mut robot, lift()),
        Err(ArmErrorCode::StartStateInCollision.code())
    );
    allow(&mut robot, &[["cup", OCTOMAP]]);
    move_arm(&mut robot, lift()).unwrap();
}

#[test]
fn objects_of_the_world_stay_where_they_are_when_the_base_drives() {
    let mut robot = robot();
    world(&mut robot, WorldOperation::Add(cup()));
    let before = robot.in_planning_frame("base_link").unwrap();
    for _ in 0..50 {
        robot
            .set_velocity_command(Velocity {
                linear: -0.2,
                angular: 0.1,
            })
            .unwrap();
        robot.step(Duration::from_millis(20)).unwrap();
    }
    let after = robot.in_planning_frame("base_link").unwrap();
    let moved = (after.translation.vector - before.translation.vector).norm();
    assert!(moved > 0.1, "{moved}");
    let object = robot.planning_scene().world().next().unwrap();
    assert_eq!(object.distance(&Point3::new(0.55, 0.0, 0.75)), 0.0);
}

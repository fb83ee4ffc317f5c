//! Arm and gripper: reach, codes, grasps that hold, slip or miss, and the whole fetch.

mod common;

use common::{
    apartment, drive, exact_apartment, from_above, from_the_front, grip, in_base, lift, move_arm,
    move_gripper, named, settle, tick, AT_DINING_TABLE, AT_KITCHEN_TABLE,
};
use std::f64::consts::{FRAC_PI_2, PI};

use eh_sim::nalgebra::{Isometry3, Point3, Translation3, UnitQuaternion, Vector3};
use eh_sim::world_file::Noise;
use eh_sim::{
    ArmGoal, ArmGoalTarget, ArmStatus, FaultKind, FaultSpec, GripperState, GripperStatus,
    NavStatus, Pose2, Robot, SimEvent, Support, WorldFile,
};

fn at_table() -> Robot {
    let mut robot = exact_apartment();
    assert_eq!(drive(&mut robot, AT_KITCHEN_TABLE), NavStatus::Succeeded);
    settle(&mut robot, 1.0);
    robot
}

fn ended(status: GripperStatus) -> GripperState {
    match status {
        GripperStatus::Ended(state) => state,
        other => panic!("{other:?}"),
    }
}

fn code(status: &ArmStatus) -> i32 {
    match status {
        ArmStatus::Aborted { code, message } => {
            assert!(!message.is_empty());
            *code
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_grasp_stalls_on_the_cup_and_holds_it() {
    let mut robot = at_table();
    let state = ended(grip(&mut robot, "cup_red"));
    assert!(state.stalled && !state.reached_goal);
    assert!((state.position - 0.07).abs() < 1e-6 && state.effort > 0.0);
    assert_eq!(lift(&mut robot), ArmStatus::Succeeded);
    let truth = robot.ground_truth();
    assert_eq!(truth.held.as_deref(), Some("cup_red"));
    // It stood at 0.74 + 0.05 and was lifted by 0.12.
    assert!((truth.object("cup_red").unwrap().pose.translation.z - 0.91).abs() < 0.005);
    assert!((robot.gripper_state().position - 0.07).abs() < 1e-6);
    // Opening lets it fall back onto the table.
    move_gripper(&mut robot, 0.1);
    let truth = robot.ground_truth();
    assert_eq!(truth.held, None);
    let cup = truth.object("cup_red").unwrap();
    assert_eq!(cup.support, Support::Furniture("kitchen_table".to_owned()));
    assert!((cup.pose.translation.z - 0.79).abs() < 1e-9);
}

#[test]
fn a_slipping_grasp_looks_like_a_good_one_until_the_lift() {
    let mut robot = at_table();
    robot.inject(FaultSpec::new(FaultKind::GraspSlip)).unwrap();
    let before = robot
        .ground_truth()
        .object("cup_red")
        .unwrap()
        .pose
        .translation
        .vector;
    let state = ended(grip(&mut robot, "cup_red"));
    assert!(state.stalled && (state.position - 0.07).abs() < 1e-6);
    assert_eq!(lift(&mut robot), ArmStatus::Succeeded);
    settle(&mut robot, 1.0);
    let truth = robot.ground_truth();
    assert_eq!(truth.held, None);
    let cup = truth.object("cup_red").unwrap();
    assert_eq!(cup.support, Support::Furniture("kitchen_table".to_owned()));
    let moved = (cup.pose.translation.vector - before).norm();
    assert!(moved > 0.005 && moved < 0.06, "{moved}");
    // The fingers went on closing.
    assert!(robot.gripper_state().position < 1e-6);
    let events = robot.drain_events();
    assert!(events
        .iter()
        .any(|(_, e)| matches!(e, SimEvent::Slipped { object, .. } if object == "cup_red")));
    // The second try holds: the fault was for one grasp.
    assert!(ended(grip(&mut robot, "cup_red")).stalled);
    lift(&mut robot);
    assert_eq!(robot.ground_truth().held.as_deref(), Some("cup_red"));
}

#[test]
fn a_grasp_beside_the_cup_closes_on_nothing() {
    let mut robot = at_table();
    move_gripper(&mut robot, 0.1);
    let p = in_base(&robot, "cup_red") + Vector3::y() * 0.06;
    assert_eq!(
        move_arm(&mut robot, ArmGoal::new(from_above(p))),
        ArmStatus::Succeeded
    );
    let state = ended(move_gripper(&mut robot, 0.0));
    assert!(state.reached_goal && !state.stalled && state.position < 0.002);
    assert_eq!(robot.ground_truth().held, None);
}

#[test]
fn a_weak_grip_does_not_lift_a_heavy_thing() {
    let mut robot = at_table();
    let p = in_base(&robot, "cup_red");
    move_gripper(&mut robot, 0.1);
    move_arm(&mut robot, ArmGoal::new(from_above(p)));
    // 0.25 kg weighs 2.45 N: friction 1.0 × 2 N does not carry it.
    let id = robot.move_gripper(0.0, 2.0).unwrap();
    while !robot.gripper_status(id).unwrap().is_terminal() {
        tick(&mut robot);
    }
    assert!(ended(robot.gripper_status(id).unwrap()).stalled);
    lift(&mut robot);
    assert_eq!(robot.ground_truth().held, None);
}

#[test]
fn stuck_fingers_are_stalled_where_they_are() {
    let mut robot = exact_apartment();
    robot
        .inject(FaultSpec::new(FaultKind::GripperStuck))
        .unwrap();
    settle(&mut robot, 0.1);
    let state = ended(move_gripper(&mut robot, 0.1));
    assert!(state.stalled && !state.reached_goal && (state.position - 0.05).abs() < 1e-9);
    assert!(robot.move_gripper(0.3, 0.0).is_err());
    assert!(robot.move_gripper(f64::NAN, 0.0).is_err());
    assert!(robot.move_gripper(0.05, f64::NAN).is_err());
}

#[test]
fn arm_goals_that_can_not_be_met_get_moveits_codes_and_nothing_moves() {
    let mut robot = at_table();
    let before = robot.joint_states();
    let over_cup = in_base(&robot, "cup_red");
    let goal = |target| ArmGoal::new(target);
    // Out of reach.
    let far = goal(from_above(Point3::new(1.5, 0.0, 0.8)));
    assert_eq!(code(&move_arm(&mut robot, far)), -31);
    // Inside the table.
    let inside = goal(from_above(Point3::new(over_cup.x, over_cup.y, 0.6)));
    assert_eq!(code(&move_arm(&mut robot, inside)), -12);
    // In the robot's own column.
    let own = goal(from_the_front(Point3::new(0.1, 0.0, 0.45)));
    assert!(matches!(code(&move_arm(&mut robot, own)), -12 | -31));
    let mut group = goal(from_above(over_cup));
    group.group = "legs".to_owned();
    assert_eq!(code(&move_arm(&mut robot, group)), -15);
    let mut link = goal(from_above(over_cup));
    link.link = "nose".to_owned();
    assert_eq!(code(&move_arm(&mut robot, link)), -18);
    let ArmGoalTarget::Pose {
        pose,
        orientation_tolerance,
        ..
    } = from_above(over_cup)
    else {
        unreachable!()
    };
    let frame = goal(ArmGoalTarget::Pose {
        frame: "moon".to_owned(),
        pose,
        orientation_tolerance,
    });
    assert_eq!(code(&move_arm(&mut robot, frame)), -21);
    assert_eq!(
        code(&move_arm(
            &mut robot,
            goal(ArmGoalTarget::Named("dance".to_owned()))
        )),
        -16
    );
    let joint = goal(ArmGoalTarget::Joints(
        [("arm_2_joint".to_owned(), 3.0)].into(),
    ));
    assert_eq!(code(&move_arm(&mut robot, joint)), -16);
    let mut nan = pose;
    nan.translation.x = f64::NAN;
    let target = ArmGoalTarget::Pose {
        frame: "map".to_owned(),
        pose: nan,
        orientation_tolerance: None,
    };
    assert!(robot.move_arm(goal(target)).is_err());
    assert_eq!(robot.joint_states(), before);
}

#[test]
fn a_canceled_arm_slows_to_rest_before_it_says_so() {
    let mut robot = exact_apartment();
    let id = robot
        .move_arm(ArmGoal::new(ArmGoalTarget::Named("ready".to_owned())))
        .unwrap();
    let turn = ArmGoalTarget::Joints([("arm_1_joint".to_owned(), 1.5)].into());
    let second = robot.move_arm(ArmGoal::new(turn)).unwrap();
    assert_eq!(robot.arm_status(id), Some(ArmStatus::Preempted));
    settle(&mut robot, 0.5);
    assert!(robot.cancel_arm(second));
    assert!(matches!(
        robot.arm_status(second),
        Some(ArmStatus::Active { .. })
    ));
    settle(&mut robot, 0.4);
    assert_eq!(robot.arm_status(second), Some(ArmStatus::Canceled));
    assert!(robot.joint_states().iter().all(|j| j.velocity == 0.0));
    let yaw = robot.joint_states()[0].position;
    assert!(yaw > 0.1 && yaw < 1.4, "{yaw}");
}

#[test]
fn an_arm_fault_stops_the_motion_with_control_failed() {
    let mut robot = exact_apartment();
    robot.inject(FaultSpec::new(FaultKind::ArmAbort)).unwrap();
    assert_eq!(code(&named(&mut robot, "ready")), -4);
    assert_eq!(named(&mut robot, "ready"), ArmStatus::Succeeded);
}

#[test]
fn a_level_grasp_works_as_well() {
    // A little farther off than for a grasp from above: the elbow has to fold behind the level tool.
    let mut robot = exact_apartment();
    assert_eq!(
        drive(&mut robot, Pose2::new(5.66, 2.15, 0.0)),
        NavStatus::Succeeded
    );
    settle(&mut robot, 1.0);
    move_gripper(&mut robot, 0.1);
    assert_eq!(named(&mut robot, "ready"), ArmStatus::Succeeded);
    let p = in_base(&robot, "cup_red");
    let back = (p - Point3::new(0.08, 0.0, p.z)).normalize() * 0.10;
    let before = ArmGoal::new(from_the_front(p - back));
    assert_eq!(move_arm(&mut robot, before), ArmStatus::Succeeded);
    let reach = ArmGoal::new(from_the_front(p)).on_a_line();
    assert_eq!(move_arm(&mut robot, reach), ArmStatus::Succeeded);
    assert!(ended(move_gripper(&mut robot, 0.0)).stalled);
}

/// The whole demo with nothing but the robot's own interfaces: what is known of the cup comes from
/// detections, with all the uncertainty of the world file.
#[test]
fn the_cup_is_fetched_by_what_the_camera_sees() {
    for seed in 1..=5 {
        let mut robot = apartment(seed);
        assert_eq!(drive(&mut robot, AT_KITCHEN_TABLE), NavStatus::Succeeded);
        // The table's middle in base_link, by the map and the estimate.
        let table = robot.map().furniture("kitchen_table").unwrap().clone();
        let look = robot.frame_in_base("map").unwrap()
            * Point3::new(table.center[0] - 0.15, table.center[1], table.top());
        let [pan, tilt] = eh_sim::look_at(&look);
        let head = robot
            .move_head(vec![eh_sim::HeadPoint {
                pan,
                tilt,
                at: std::time::Duration::ZERO,
            }])
            .unwrap();
        while robot.head_status(head) == Some(eh_sim::HeadStatus::Active) {
            tick(&mut robot);
        }
        // The mean of ten frames.
        let (mut sum, mut count) = (Vector3::zeros(), 0.0);
        for _ in 0..10 {
            settle(&mut robot, 0.1);
            let frame = robot.detect().unwrap();
            for d in frame.detections.iter().filter(|d| {
                d.class == "cup" && d.attributes.get("color").is_some_and(|c| c == "red")
            }) {
                sum += (frame.camera_in_base * d.position).coords;
                count += 1.0;
            }
        }
        assert!(count >= 5.0, "seed {seed}: seen {count} times");
        let cup = Point3::from(sum / count);
        assert!(
            (cup - in_base(&robot, "cup_red")).norm() < 0.01,
            "seed {seed}"
        );

        move_gripper(&mut robot, 0.1);
        let over = ArmGoal::new(from_above(cup + Vector3::z() * 0.12));
        assert_eq!(
            move_arm(&mut robot, over),
            ArmStatus::Succeeded,
            "seed {seed}"
        );
        let down = ArmGoal::new(from_above(cup)).on_a_line();
        assert_eq!(
            move_arm(&mut robot, down),
            ArmStatus::Succeeded,
            "seed {seed}"
        );
        assert!(ended(move_gripper(&mut robot, 0.0)).stalled, "seed {seed}");
        assert_eq!(lift(&mut robot), ArmStatus::Succeeded, "seed {seed}");
        assert_eq!(
            named(&mut robot, "carry"),
            ArmStatus::Succeeded,
            "seed {seed}"
        );

        assert_eq!(
            drive(&mut robot, AT_DINING_TABLE),
            NavStatus::Succeeded,
            "seed {seed}"
        );
        // Onto the dining table, 0.2 m inside its edge: the cup's middle 0.05 above the top.
        let place = robot.frame_in_base("map").unwrap() * Point3::new(3.7, 1.2, 0.74 + 0.055);
        let over = ArmGoal::new(from_above(place + Vector3::z() * 0.12));
        assert_eq!(
            move_arm(&mut robot, over),
            ArmStatus::Succeeded,
            "seed {seed}"
        );
        let down = ArmGoal::new(from_above(place)).on_a_line();
        assert_eq!(
            move_arm(&mut robot, down),
            ArmStatus::Succeeded,
            "seed {seed}"
        );
        move_gripper(&mut robot, 0.1);
        assert_eq!(lift(&mut robot), ArmStatus::Succeeded, "seed {seed}");
        assert_eq!(
            named(&mut robot, "stow"),
            ArmStatus::Succeeded,
            "seed {seed}"
        );

        let truth = robot.ground_truth();
        let cup = truth.object("cup_red").unwrap();
        assert_eq!(
            cup.support,
            Support::Furniture("dining_table".to_owned()),
            "seed {seed}"
        );
        assert!(
            (cup.pose.translation.vector.xy() - Point3::new(3.7, 1.2, 0.0).coords.xy()).norm()
                < 0.05
        );
        assert_eq!(truth.collisions, 0);
        println!("seed {seed}: fetched in {:.1} s", robot.now().as_secs_f64());
    }
}

#[test]
fn the_workshop_works_with_the_same_moves() {
    let mut robot = Robot::from_yaml(common::two_rooms_text(), None).unwrap();
    assert_eq!(
        drive(&mut robot, Pose2::new(3.55, 0.9, 0.0)),
        NavStatus::Succeeded
    );
    assert!(ended(grip(&mut robot, "can_a")).stalled);
    assert_eq!(lift(&mut robot), ArmStatus::Succeeded);
    assert_eq!(robot.ground_truth().held.as_deref(), Some("can_a"));
}

/// Every object of both worlds can be gripped from above from somewhere beside its furniture, with the
/// fingers closing across its narrow side: the worlds are fair.
#[test]
fn every_object_can_be_gripped_from_somewhere() {
    for text in [common::apartment_text(), common::two_rooms_text()] {
        let mut file = WorldFile::from_yaml(text).unwrap();
        file.noise = Noise::none();
        let world = Robot::new(file.clone(), None).unwrap().world().clone();
        for object in file.objects.clone() {
            let on = file
                .map
                .furniture(object.on.as_ref().unwrap())
                .unwrap()
                .clone();
            let [lx, ly] = on.to_local(object.position[0], object.position[1]);
            let (hx, hy) = (on.size[0] / 2.0 + 0.33, on.size[1] / 2.0 + 0.33);
            let docks = [
                (lx, -hy, FRAC_PI_2),
                (lx, hy, -FRAC_PI_2),
                (-hx, ly, 0.0),
                (hx, ly, PI),
            ];
            let mut why = Vec::new();
            let gripped = docks.into_iter().any(|(x, y, yaw)| {
                let [x, y] = on.to_map(x, y);
                if world.clearance(x, y) < 0.28 {
                    return false;
                }
                file.robot.start = [x, y, yaw + on.yaw];
                let Ok(mut robot) = Robot::new(file.clone(), None) else {
                    return false;
                };
                robot.move_gripper(0.1, 0.0).unwrap();
                let map = robot.frame_in_base("map").unwrap();
                // The tool's y across the narrow side of the box.
                let narrow = if object.size[0] < object.size[1] {
                    FRAC_PI_2
                } else {
                    0.0
                };
                let down = UnitQuaternion::from_axis_angle(&Vector3::z_axis(), object.yaw + narrow)
                    * UnitQuaternion::from_axis_angle(&Vector3::y_axis(), FRAC_PI_2);
                let [px, py] = object.position;
                // Tall things are taken near their top: the palm needs room above.
                let z = on.top() + (object.size[2] / 2.0).max(object.size[2] - 0.06);
                let target = |dz: f64| ArmGoalTarget::Pose {
                    frame: "base_link".to_owned(),
                    pose: map * Isometry3::from_parts(Translation3::new(px, py, z + dz), down),
                    orientation_tolerance: Some([0.05; 3]),
                };
                let mut steps = vec![
                    move_arm(&mut robot, ArmGoal::new(target(0.12))),
                    move_arm(&mut robot, ArmGoal::new(target(0.0)).on_a_line()),
                ];
                move_gripper(&mut robot, 0.0);
                steps.push(lift(&mut robot));
                let held = robot.ground_truth().held.as_deref() == Some(object.id.as_str());
                steps.push(named(&mut robot, "carry"));
                let done = held && steps.iter().all(|s| *s == ArmStatus::Succeeded);
                why.push((x, y, held, steps));
                done
            });
            assert!(gripped, "{}: {why:#?}", object.id);
            println!("{}: at the {}th try", object.id, why.len());
        }
    }
}

/// Wherever the base can stand, the folded arm touches nothing.
#[test]
fn the_stowed_arm_is_free_wherever_the_base_is() {
    let mut file = WorldFile::from_yaml(common::apartment_text()).unwrap();
    let world = Robot::new(file.clone(), None).unwrap().world().clone();
    let mut tried = 0;
    for k in 0..400 {
        // A coarse lattice that shares no period with the furniture.
        let (x, y) = (
            0.3 + f64::from(k % 20) * 0.443,
            0.3 + f64::from(k / 20) * 0.447,
        );
        if !(0.27..0.5).contains(&world.clearance(x, y)) || world.map().room_at(x, y).is_none() {
            continue;
        }
        for yaw in [0.0, 1.3, 2.6, 3.9, 5.2] {
            file.robot.start = [x, y, yaw];
            let robot = Robot::new(file.clone(), None).unwrap();
            let plan = robot.plan_arm(&ArmGoal::new(ArmGoalTarget::Named("stow".to_owned())));
            assert!(plan.is_ok(), "({x}, {y}, {yaw}): {plan:?}");
            tried += 1;
        }
    }
    assert!(tried > 100, "{tried}");
}

//! Nothing that a caller sends makes it panic, and what it refuses moves nothing.

mod common;

use std::time::Duration;

use common::{apartment, apartment_text, exact_apartment, settle};
use eh_sim::nalgebra::{Isometry3, Translation3, UnitQuaternion};
use eh_sim::{
    pose_from_parts, ArmGoal, ArmGoalTarget, FaultKind, FaultSpec, HeadPoint, Pose2, Robot,
    SimEvent, Velocity,
};
use proptest::prelude::*;

/// Numbers as callers send them: mostly plausible, some of any kind.
fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        8 => -3.0..9.0_f64,
        1 => any::<f64>(),
        1 => Just(f64::NAN),
        1 => Just(f64::INFINITY),
        1 => Just(0.0),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_sequence_of_calls_is_survived(
        calls in prop::collection::vec((0..12_u8, [number(), number(), number(), number()]), 1..30),
        seed in any::<u64>(),
    ) {
        let mut robot = apartment(seed);
        let mut nav = None;
        let mut arm = None;
        for (call, [a, b, c, d]) in calls {
            match call {
                0 => nav = robot.navigate("map", Pose2::new(a, b, c)).ok().or(nav),
                1 => nav = robot.navigate("base_link", Pose2::new(a, b, c)).ok().or(nav),
                2 => { let _ = robot.set_velocity_command(Velocity::new(a, b)); }
                3 => { let _ = robot.move_gripper(a, b); }
                4 => {
                    let at = Duration::from_secs_f64(if c.is_finite() { c.abs().min(5.0) } else { 0.0 });
                    let _ = robot.move_head(vec![HeadPoint { pan: a, tilt: b, at }]);
                }
                5 => {
                    let target = ArmGoalTarget::Pose {
                        frame: "base_link".to_owned(),
                        pose: Isometry3::from_parts(
                            Translation3::new(a / 4.0, b / 4.0, c / 4.0),
                            UnitQuaternion::identity(),
                        ),
                        orientation_tolerance: if d > 3.0 { None } else { Some([d.abs(); 3]) },
                    };
                    arm = robot.move_arm(ArmGoal::new(target)).ok().or(arm);
                }
                6 => {
                    let joints = [("arm_1_joint".to_owned(), a), ("arm_3_joint".to_owned(), b)];
                    let mut goal = ArmGoal::new(ArmGoalTarget::Joints(joints.into()));
                    goal.velocity_scale = c;
                    arm = robot.move_arm(goal).ok().or(arm);
                }
                7 => { if let Some(id) = nav { robot.cancel_navigation(id); } }
                8 => { if let Some(id) = arm { robot.cancel_arm(id); } }
                9 => {
                    let kinds = FaultKind::ALL;
                    let mut spec = FaultSpec::new(kinds[(a.abs() * 7.0) as usize % kinds.len()]);
                    spec.at = Some(b);
                    spec.params.duration_s = Some(c);
                    spec.params.object = Some("cup_red".to_owned());
                    spec.params.position = Some([c, d]);
                    spec.params.door = Some("kitchen_door".to_owned());
                    let _ = robot.inject(spec);
                }
                10 => { robot.clear_faults(); }
                _ => { let _ = (robot.scan(), robot.detect(), pose_from_parts([a, b, c], [a, b, c, d])); }
            }
            for _ in 0..15 {
                if let Some(wish) = robot.nav_velocity() {
                    prop_assert!(wish.linear.is_finite() && wish.angular.is_finite());
                    robot.set_velocity_command(wish).unwrap();
                }
                robot.step(Duration::from_millis(20)).unwrap();
            }
            let truth = robot.ground_truth();
            prop_assert!(truth.robot.is_finite());
            prop_assert!(truth.velocity.linear.abs() <= 1.0 + 1e-9);
            // The walls hold, whatever is commanded: a step of 1 m/s is 2 cm.
            prop_assert!(robot.world().clearance(truth.robot.x, truth.robot.y) > 0.24
                || !truth.doors.iter().all(|(_, open)| *open));
            for j in robot.joint_states() {
                prop_assert!(j.position.is_finite() && j.velocity.is_finite());
            }
        }
    }
}

#[test]
fn worlds_that_are_too_large_are_refused_before_memory_is() {
    let text = "rooms: [{id: a, rect: [-400, -400, 400, 400]}]";
    let error = Robot::from_yaml(text, None).unwrap_err().to_string();
    assert!(error.contains("at most 100 m"), "{error}");
}

#[test]
fn head_goals_out_of_range_are_refused() {
    let mut robot = exact_apartment();
    let at = Duration::from_secs(1);
    for (pan, tilt) in [(3.0, 0.0), (0.0, 2.0), (f64::NAN, 0.0)] {
        assert!(robot.move_head(vec![HeadPoint { pan, tilt, at }]).is_err());
    }
    assert!(robot.move_head(vec![]).is_err());
    // Times that do not grow.
    let twice = HeadPoint {
        pan: 0.1,
        tilt: 0.1,
        at,
    };
    assert!(robot.move_head(vec![twice, twice]).is_err());
}

#[test]
fn poses_of_messages_are_checked() {
    assert!(pose_from_parts([0.0; 3], [0.0, 0.0, 0.0, 1.0]).is_ok());
    assert!(pose_from_parts([f64::NAN, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]).is_err());
    // A message whose orientation was left empty.
    assert!(pose_from_parts([0.0; 3], [0.0; 4]).is_err());
    assert!(pose_from_parts([1e9, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]).is_err());
}

#[test]
fn server_faults_are_taken_once() {
    let mut robot = exact_apartment();
    let mut spec = FaultSpec::new(FaultKind::LostAck);
    spec.params.server = Some("navigate_to_pose".to_owned());
    robot.inject(spec).unwrap();
    assert!(robot
        .take_server_fault("move_action", FaultKind::LostAck)
        .is_none());
    assert!(robot
        .take_server_fault("navigate_to_pose", FaultKind::LostResult)
        .is_none());
    assert!(robot
        .take_server_fault("navigate_to_pose", FaultKind::LostAck)
        .is_some());
    assert!(robot
        .take_server_fault("navigate_to_pose", FaultKind::LostAck)
        .is_none());
    assert!(robot
        .take_server_fault("navigate_to_pose", FaultKind::NavAbort)
        .is_none());
}

#[test]
fn a_schedule_in_the_world_file_is_kept() {
    let text = format!(
        "{}\nfaults:\n  - {{fault: door_closed, at: 1.0, params: {{door: kitchen_door, duration_s: 1.0}}}}\n",
        apartment_text()
    );
    let mut robot = Robot::from_yaml(&text, None).unwrap();
    let open = |robot: &Robot| {
        robot
            .ground_truth()
            .doors
            .iter()
            .find(|(id, _)| id == "kitchen_door")
            .unwrap()
            .1
    };
    settle(&mut robot, 0.9);
    assert!(open(&robot));
    settle(&mut robot, 0.2);
    assert!(!open(&robot));
    settle(&mut robot, 1.0);
    assert!(open(&robot));
    let faults: Vec<_> = robot
        .drain_events()
        .into_iter()
        .filter(|(_, e)| matches!(e, SimEvent::Fault(FaultKind::DoorClosed)))
        .collect();
    assert_eq!(faults.len(), 1);
    assert_eq!(faults[0].0, Duration::from_secs(1));
}

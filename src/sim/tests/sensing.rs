//! Detections: field of view, range, occlusion, noise; and faults of the sensors.

mod common;

use std::time::Duration;

use common::{drive, exact_apartment, settle, tick, AT_KITCHEN_TABLE};
use eh_sim::nalgebra::Point3;
use eh_sim::{FaultKind, FaultSpec, HeadPoint, NavStatus, Robot};

const ROOM: &str = "
rooms: [{id: a, rect: [0, 0, 8, 4]}]
walls: [{from: [0, 0], to: [8, 0]}, {from: [8, 0], to: [8, 4]},
        {from: [8, 4], to: [0, 4]}, {from: [0, 4], to: [0, 0]}]
furniture:
  - {id: screen, class: screen, center: [3.2, 2.9], size: [0.1, 0.8, 1.6]}
objects:
  - {id: plain, class: ball, attributes: {color: red}, position: [4.0, 2.0], z: 1.2, size: [0.1, 0.1, 0.1]}
  - {id: hidden, class: cup, position: [4.0, 3.1], z: 1.2, size: [0.1, 0.1, 0.1]}
  - {id: front, class: box, position: [3.0, 1.2], z: 1.1, size: [0.1, 0.5, 0.5]}
  - {id: behind, class: cone, position: [4.0, 0.95], z: 1.2, size: [0.1, 0.1, 0.1]}
  - {id: far, class: jar, position: [7.0, 2.0], z: 1.2, size: [0.1, 0.1, 0.1]}
  - {id: back, class: pot, position: [0.3, 2.0], z: 1.2, size: [0.1, 0.1, 0.1]}
robot: {start: [1.5, 2, 0]}
noise: {miss: 0, detection_range: 0, detection_range_per_metre: 0, detection_angle: 0}
";

fn classes(robot: &mut Robot) -> Vec<String> {
    let mut list: Vec<String> = robot
        .detect()
        .unwrap()
        .detections
        .into_iter()
        .map(|d| d.class)
        .collect();
    list.sort();
    list
}

#[test]
fn only_what_is_in_view_near_and_unhidden_is_detected() {
    let mut robot = Robot::from_yaml(ROOM, Some(1)).unwrap();
    // plain is free; hidden is behind the screen, behind is behind front, far is 5.5 m away, back is
    // behind the robot.
    assert_eq!(classes(&mut robot), ["ball", "box"]);
    let frame = robot.detect().unwrap();
    let ball = frame.detections.iter().find(|d| d.class == "ball").unwrap();
    // Camera at (1.5 − 0.08 + 0.06, 2, 1.25) looking along +x: the ball's centre (4, 2, 1.25) is 2.52 m
    // ahead of it.
    assert!(
        (ball.position - Point3::new(0.0, 0.0, 2.52)).norm() < 1e-9,
        "{:?}",
        ball.position
    );
    assert!((ball.image_box[0] - 320.0).abs() < 1e-6 && (ball.image_box[1] - 240.0).abs() < 1e-6);
    assert_eq!(
        ball.attributes.get("color").map(String::as_str),
        Some("red")
    );
    assert!(frame.frustum.contains(&ball.position));
    assert!(!frame.frustum.contains(&Point3::new(0.0, 0.0, -1.0)));
    // The numbers go from left to right and tell nothing else.
    let ids: Vec<u32> = frame.detections.iter().map(|d| d.local_id).collect();
    assert_eq!(ids, [0, 1]);
    assert!(frame
        .detections
        .windows(2)
        .all(|w| w[0].image_box[0] <= w[1].image_box[0]));
    // Turned round, the head sees what is behind: 2.6 rad is as far as it goes.
    let id = robot
        .move_head(vec![HeadPoint {
            pan: 2.6,
            tilt: 0.0,
            at: Duration::ZERO,
        }])
        .unwrap();
    while !robot.head_status(id).unwrap().is_terminal() {
        tick(&mut robot);
    }
    assert_eq!(classes(&mut robot), ["pot"]);
}

/// A person is a thing to be seen, and stands before what is behind it.
#[test]
fn people_are_detected_and_hide_what_is_behind_them() {
    let at = |y: f64| {
        let text = format!("{ROOM}\npeople: [{{id: ann, path: [[3.0, {y}]], radius: 0.25}}]");
        Robot::from_yaml(&text, Some(1)).unwrap()
    };
    let mut robot = at(2.0);
    assert_eq!(classes(&mut robot), ["box", "person"]);
    let frame = robot.detect().unwrap();
    let ann = frame.detections.iter().find(|d| d.class == "person");
    let ann = ann.unwrap();
    // Camera at (1.48, 2, 1.25); the centre of a body of 1.7 m is 0.4 m below it.
    assert!(
        (ann.position - Point3::new(0.0, 0.4, 1.52)).norm() < 1e-9,
        "{:?}",
        ann.position
    );
    assert_eq!(ann.size, [0.5, 0.5, 1.7]);
    // Behind the screen.
    assert_eq!(classes(&mut at(3.0)), ["ball", "box", "person"]);
    let hidden = format!("{ROOM}\npeople: [{{id: ann, path: [[4.0, 3.25]], radius: 0.1}}]");
    let mut robot = Robot::from_yaml(&hidden, Some(1)).unwrap();
    assert_eq!(classes(&mut robot), ["ball", "box"]);
}

#[test]
fn noise_grows_with_the_distance() {
    let spread = |x: f64| {
        let text = ROOM
            .replace("position: [4.0, 2.0]", &format!("position: [{x}, 2.0]"))
            .replace(
                "detection_range_per_metre: 0",
                "detection_range_per_metre: 0.01",
            )
            .replace("far,", "far_away,");
        let mut robot = Robot::from_yaml(&text, Some(3)).unwrap();
        let samples: Vec<f64> = (0..400)
            .filter_map(|_| {
                let frame = robot.detect()?;
                frame
                    .detections
                    .into_iter()
                    .find(|d| d.class == "ball")
                    .map(|d| d.position.z)
            })
            .collect();
        let mean = samples.iter().sum::<f64>() / samples.len() as f64;
        (samples.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / samples.len() as f64).sqrt()
    };
    // 1 % of 1.02 m and of 3.52 m; the standard error of σ over 400 samples is σ/√800 = 3.5 %.
    let (near, far) = (spread(2.5), spread(5.0));
    assert!((near - 0.0102).abs() < 0.0015, "{near}");
    assert!((far - 0.0352).abs() < 0.005, "{far}");
}

#[test]
fn misses_and_false_positives_come_at_their_rates() {
    let text = ROOM.replace("miss: 0,", "miss: 0.5, false_positive: 0.25,");
    let mut robot = Robot::from_yaml(&text, Some(5)).unwrap();
    let (mut balls, mut total) = (0, 0);
    for _ in 0..1000 {
        let frame = robot.detect().unwrap();
        total += frame.detections.len();
        balls += frame
            .detections
            .iter()
            .filter(|d| d.attributes.contains_key("color"))
            .count();
    }
    // Binomial: σ = √(1000·0.5·0.5) = 16; 4 σ = 64. All: 2·500 + 250 = 1250, σ < 30.
    assert!((436..=564).contains(&balls), "{balls}");
    assert!((1130..=1370).contains(&total), "{total}");
}

#[test]
fn silent_and_frozen_sensors() {
    let mut robot = exact_apartment();
    for kind in [FaultKind::ScanFrozen, FaultKind::DetectionsSilent] {
        robot.inject(FaultSpec::new(kind)).unwrap();
    }
    let first = robot.scan().unwrap();
    settle(&mut robot, 0.1);
    assert!(robot.detect().is_none());
    robot
        .navigate("map", eh_sim::Pose2::new(3.5, 2.8, 0.0))
        .unwrap();
    settle(&mut robot, 2.0);
    let later = robot.scan().unwrap();
    assert_eq!(later.ranges, first.ranges);
    assert!(later.stamp > first.stamp);
    robot.clear_fault(FaultKind::ScanFrozen);
    assert_ne!(robot.scan().unwrap().ranges, first.ranges);
    let mut silent = FaultSpec::new(FaultKind::ScanSilent);
    silent.params.duration_s = Some(1.0);
    robot.inject(silent).unwrap();
    settle(&mut robot, 0.1);
    assert!(robot.scan().is_none());
    settle(&mut robot, 1.0);
    assert!(robot.scan().is_some());
    robot.clear_faults();
    assert!(robot.detect().is_some());
}

#[test]
fn a_moved_object_is_seen_where_it_went_and_a_jump_fools_the_estimate() {
    let mut robot = exact_apartment();
    assert_eq!(drive(&mut robot, AT_KITCHEN_TABLE), NavStatus::Succeeded);
    let mut moved = FaultSpec::new(FaultKind::ObjectMoved);
    moved.params.object = Some("cup_red".to_owned());
    moved.params.position = Some([6.4, 2.5]);
    moved.params.on = Some("kitchen_table".to_owned());
    robot.inject(moved).unwrap();
    settle(&mut robot, 0.1);
    let at = robot
        .ground_truth()
        .object("cup_red")
        .unwrap()
        .pose
        .translation
        .vector;
    assert!((at.x - 6.4).abs() < 1e-9 && (at.y - 2.5).abs() < 1e-9 && (at.z - 0.79).abs() < 1e-9);
    let mut jump = FaultSpec::new(FaultKind::LocalizationJump);
    jump.params.offset = Some([0.5, 0.0, 0.0]);
    jump.params.duration_s = Some(1.0);
    robot.inject(jump).unwrap();
    settle(&mut robot, 0.3);
    let off = robot.estimated_pose().distance(robot.ground_truth().robot);
    assert!((off - 0.5).abs() < 1e-6, "{off}");
    settle(&mut robot, 1.0);
    assert!(robot.estimated_pose().distance(robot.ground_truth().robot) < 1e-6);
    // What does not exist can't be moved.
    let mut nothing = FaultSpec::new(FaultKind::ObjectMoved);
    nothing.params.object = Some("unicorn".to_owned());
    nothing.params.position = Some([1.0, 1.0]);
    assert!(robot
        .inject(nothing)
        .unwrap_err()
        .to_string()
        .contains("unicorn"));
}

#[test]
fn the_tree_of_frames_agrees_with_itself() {
    let mut robot = exact_apartment();
    common::named(&mut robot, "ready");
    let all: Vec<_> = robot
        .transforms()
        .into_iter()
        .chain(robot.static_transforms())
        .collect();
    // From gripper_tcp and the camera up to base_link, link by link.
    for frame in ["gripper_tcp", "camera_optical_frame", "laser", "arm_3_link"] {
        let mut pose = eh_sim::nalgebra::Isometry3::identity();
        let mut at = frame;
        while at != "base_link" {
            let link = all.iter().find(|t| t.child == at).unwrap();
            pose = link.pose * pose;
            at = link.parent;
        }
        let direct = robot.frame_in_base(frame).unwrap();
        assert!(
            (direct.translation.vector - pose.translation.vector).norm() < 1e-9,
            "{frame}"
        );
        assert!(direct.rotation.angle_to(&pose.rotation) < 1e-6, "{frame}");
    }
    let mut children: Vec<_> = all.iter().map(|t| t.child).collect();
    children.sort_unstable();
    children.dedup();
    assert_eq!(children.len(), all.len(), "a frame has two parents");
    assert_eq!(all.len() + 1, eh_sim::robot_frames::FRAMES.len());
}

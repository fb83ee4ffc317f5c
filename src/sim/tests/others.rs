//! Others in the world: doors that open and close, objects that are moved, people who walk.

mod common;

use std::time::Duration;

use common::protected::Protected;
use common::{apartment_text, settle, tick};
use eh_sim::world_file::Noise;
use eh_sim::{NavStatus, Pose2, Robot, SimEvent, Support, WorldFile};

/// The apartment without noise, with more sections.
fn apartment(extra: &str, start: [f64; 3]) -> Robot {
    let text = format!("{}\n{extra}", apartment_text());
    let mut file = WorldFile::from_yaml(&text).unwrap();
    file.noise = Noise::none();
    file.robot.start = start;
    Robot::new(file, Some(1)).unwrap()
}

const START: [f64; 3] = [2.6, 2.8, 0.0];

#[test]
fn a_door_opens_and_closes_on_time_and_the_scan_shows_it() {
    let text = "schedule:
  - {door: kitchen_door, open: false, at: 1.0, every: 4.0}
  - {door: kitchen_door, open: true, at: 3.0, every: 4.0}";
    // In front of the door, 2 m west of its leaf, looking east; the laser is 0.15 m ahead.
    let mut robot = apartment(text, [3.0, 2.9, 0.0]);
    let mut open = Vec::new();
    for _ in 0..10 {
        settle(&mut robot, 1.0);
        let scan = robot.scan().unwrap();
        let ahead = f64::from(scan.ranges[scan.ranges.len() / 2]);
        // The leaf is 6 cm thick: 2 − 0.15 − 0.03.
        open.push((ahead - 1.82).abs() > 0.01);
    }
    let closed: Vec<usize> = (0..10).filter(|k| !open[*k]).map(|k| k + 1).collect();
    // Closed from 1 to 3, 5 to 7, 9 to 11 s, seen at each full second.
    assert_eq!(closed, [1, 2, 5, 6, 9, 10]);
    let moved = robot
        .drain_events()
        .into_iter()
        .filter(|(_, e)| matches!(e, SimEvent::DoorMoved { .. }))
        .count();
    assert_eq!(moved, 5);
}

#[test]
fn a_door_does_not_close_on_the_robot() {
    let text = "schedule: [{door: kitchen_door, open: false, at: 0.5}]";
    let mut robot = apartment(text, [5.0, 2.9, 0.0]);
    settle(&mut robot, 2.0);
    assert!(robot.ground_truth().doors.iter().all(|(_, open)| *open));
    let id = robot.navigate("map", Pose2::new(6.0, 3.4, 0.0)).unwrap();
    while !robot.nav_status(id).unwrap().is_terminal() {
        tick(&mut robot);
    }
    assert_eq!(robot.nav_status(id), Some(NavStatus::Succeeded));
    assert!(robot.ground_truth().doors.iter().any(|(_, open)| !*open));
    assert_eq!(robot.ground_truth().collisions, 0);
}

#[test]
fn doors_that_never_rest_end_a_goal_too() {
    let text = "schedule:
  - {door: kitchen_door, open: false, at: 0.0, every: 2.0}
  - {door: kitchen_door, open: true, at: 1.0, every: 2.0}
  - {door: kitchen_hall_door, open: false, at: 1.0, every: 2.0}
  - {door: kitchen_hall_door, open: true, at: 0.0, every: 2.0}";
    let mut robot = apartment(text, [4.2, 3.7, 0.0]);
    let id = robot.navigate("map", Pose2::new(6.6, 1.1, 0.0)).unwrap();
    while !robot.nav_status(id).unwrap().is_terminal() {
        tick(&mut robot);
        assert!(robot.now() < Duration::from_secs(300), "no end");
    }
}

#[test]
fn a_closed_in_robot_gets_nav2s_code_and_goes_when_the_door_opens() {
    let text = "schedule:
  - {door: bedroom_door, open: false}
  - {door: bedroom_door, open: true, at: 5.0}";
    let mut robot = apartment(text, [2.5, 7.5, 0.0]);
    settle(&mut robot, 0.1);
    let goal = Pose2::new(2.6, 5.1, 0.0);
    let refused = common::drive(&mut robot, goal);
    assert!(
        matches!(refused, NavStatus::Aborted { code: 208, .. }),
        "{refused:?}"
    );
    settle(&mut robot, 5.0);
    assert_eq!(common::drive(&mut robot, goal), NavStatus::Succeeded);
}

#[test]
fn somebody_moves_objects_at_a_time_and_on_an_occasion() {
    let text = "schedule:
  - {object: cup_red, onto: kitchen_counter, position: [6.9, 0.4], at: 1.0}
  - {object: apple, onto: dining_table, on: nav_goal, nth: 2}";
    let mut robot = apartment(text, START);
    let on = |robot: &Robot, id: &str| robot.ground_truth().object(id).unwrap().support.clone();
    settle(&mut robot, 0.9);
    assert_eq!(
        on(&robot, "cup_red"),
        Support::Furniture("kitchen_table".into())
    );
    settle(&mut robot, 0.2);
    assert_eq!(
        on(&robot, "cup_red"),
        Support::Furniture("kitchen_counter".into())
    );
    for table in ["kitchen_table", "dining_table"] {
        robot.navigate("map", Pose2::new(3.0, 2.8, 0.0)).unwrap();
        settle(&mut robot, 0.1);
        assert_eq!(on(&robot, "apple"), Support::Furniture(table.into()));
    }
    let moved: Vec<_> = robot
        .drain_events()
        .into_iter()
        .filter(|(_, e)| matches!(e, SimEvent::ObjectMoved { .. }))
        .collect();
    assert_eq!(moved.len(), 2);
}

#[test]
fn the_robot_sees_people_and_drives_round_them() {
    // In the middle of the way to the kitchen door; the living room is 4.5 m wide.
    let text = "people: [{id: anna, path: [[3.8, 2.85]]}]";
    let mut robot = apartment(text, START);
    let scan = robot.scan().unwrap();
    let ahead = f64::from(scan.ranges[scan.ranges.len() / 2]);
    // From the laser at 2.75 to the person's west side at 3.6.
    assert!((ahead - 0.85).abs() < 0.01, "{ahead}");
    let mut protected = Protected::new(robot);
    let drive = protected.drive(Pose2::new(5.6, 2.9, 0.0), Duration::from_secs(60));
    assert_eq!(drive.status, NavStatus::Succeeded, "{drive:?}");
    assert_eq!((drive.recoveries, drive.ended_held), (0, false));
    assert_eq!(protected.robot.ground_truth().collisions, 0);
}

#[test]
fn people_who_walk_to_and_fro_and_the_robot_do_not_collide() {
    let text = "people:
  - {id: anna, path: [[2.0, 3.6], [4.4, 2.9], [6.0, 3.3]], speed: 0.6, pause: 1.0}
  - {id: ben, path: [[1.0, 4.95], [8.4, 4.95]], speed: 0.8}";
    let goals = [
        Pose2::new(6.0, 1.3, 0.0),
        Pose2::new(2.6, 2.8, 0.0),
        Pose2::new(3.3, 6.6, 0.0),
    ];
    for seed in 0..3 {
        let mut robot = apartment(text, START);
        settle(&mut robot, 1.7 * f64::from(seed));
        let mut protected = Protected::new(robot);
        for goal in goals {
            let drive = protected.drive(goal, Duration::from_secs(300));
            println!("{seed}: {drive:?}");
            assert!(drive.status.is_terminal(), "{drive:?}");
        }
        assert_eq!(protected.robot.ground_truth().collisions, 0);
    }
}

#[test]
fn a_person_in_a_doorway_ends_a_goal_by_its_code() {
    let text = "people: [{id: anna, path: [[5.0, 2.9]]}]
schedule: [{door: living_room_door, open: false}]";
    let mut robot = apartment(text, START);
    settle(&mut robot, 0.1);
    let mut protected = Protected::new(robot);
    let drive = protected.drive(Pose2::new(6.0, 1.3, 0.0), Duration::from_secs(120));
    let NavStatus::Aborted { code, message } = &drive.status else {
        panic!("{drive:?}");
    };
    assert!(*code == 105 && message.contains("nearer"), "{drive:?}");
    assert_eq!(protected.robot.ground_truth().collisions, 0);
}

#[test]
fn a_drifting_robot_still_arrives() {
    let mut jumps = 0;
    for seed in 0..4 {
        let mut file = WorldFile::from_yaml(apartment_text()).unwrap();
        file.noise.odom_position_per_metre = 0.02;
        file.noise.localization_drift_per_metre = 0.04;
        file.noise.localization_yaw_drift_per_metre = 0.01;
        file.noise.localization_correction_time = 20.0;
        file.noise.relocalization_distance = 0.12;
        let mut protected = Protected::new(Robot::new(file, Some(seed)).unwrap());
        for goal in [Pose2::new(6.6, 1.2, -1.57), Pose2::new(2.6, 7.6, 0.0)] {
            let drive = protected.drive(goal, Duration::from_secs(200));
            assert_eq!(drive.status, NavStatus::Succeeded, "seed {seed}: {drive:?}");
            // Its tolerance, the drift that is not noticed, and 4 σ of the usual error.
            let off = protected.robot.ground_truth().robot.distance(goal);
            assert!(off < 0.05 + 0.14 + 0.06, "seed {seed}: {off}");
        }
        assert_eq!(protected.robot.ground_truth().collisions, 0);
        jumps += protected
            .robot
            .drain_events()
            .iter()
            .filter(|(_, e)| matches!(e, SimEvent::Relocalized { .. }))
            .count();
    }
    assert!(jumps >= 1, "it never jumped");
}

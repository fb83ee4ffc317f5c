//! The navigator in a lockstep loop: it arrives, stops, and says why when it can't.

mod common;

use std::collections::VecDeque;
use std::time::Duration;

use common::{apartment, apartment_text, drive, exact_apartment, settle, tick, TICK};
use eh_sim::path_planner::plan_path;
use eh_sim::{FaultKind, FaultSpec, NavStatus, Pose2, Robot, SimError, Velocity};
use proptest::prelude::*;

fn code(status: &NavStatus) -> u16 {
    match status {
        NavStatus::Aborted { code, message } => {
            assert!(!message.is_empty());
            *code
        }
        other => panic!("not aborted: {other:?}"),
    }
}

#[test]
fn every_room_is_reached_without_a_collision() {
    let goals = [
        ("kitchen", Pose2::new(5.82, 2.15, 0.0)),
        ("kitchen", Pose2::new(6.6, 1.1, -1.57)),
        ("bathroom", Pose2::new(7.9, 7.2, 0.5)),
        ("study", Pose2::new(5.1, 8.0, 1.57)),
        ("bedroom", Pose2::new(2.7, 8.2, 0.0)),
        ("hallway", Pose2::new(1.0, 5.0, 3.1)),
        ("living_room", Pose2::new(2.6, 2.8, 0.0)),
    ];
    for seed in 1..=3 {
        let mut robot = apartment(seed);
        for (room, goal) in goals {
            let status = drive(&mut robot, goal);
            assert_eq!(status, NavStatus::Succeeded, "{room}, seed {seed}");
            let truth = robot.ground_truth().robot;
            assert_eq!(robot.map().room_at(truth.x, truth.y).unwrap().id, room);
            // Tolerance 5 cm by the estimate, which is off by σ = 1 cm in x and y: 5 + 4 cm.
            assert!(
                truth.distance(goal) < 0.09,
                "{room}: off by {}",
                truth.distance(goal)
            );
            assert!((truth.yaw - goal.yaw).sin().abs() < 0.08, "{room}");
        }
        assert_eq!(robot.ground_truth().collisions, 0, "seed {seed}");
    }
}

#[test]
fn to_the_kitchen_and_back_takes_less_than_40_seconds() {
    let mut robot = apartment(1);
    assert_eq!(
        drive(&mut robot, common::AT_KITCHEN_TABLE),
        NavStatus::Succeeded
    );
    assert_eq!(
        drive(&mut robot, Pose2::new(2.6, 2.8, 0.0)),
        NavStatus::Succeeded
    );
    println!("there and back: {:.1} s", robot.now().as_secs_f64());
    assert!(robot.now() < Duration::from_secs(40), "{:?}", robot.now());
}

#[test]
fn feedback_counts_down() {
    let mut robot = exact_apartment();
    let id = robot.navigate("map", Pose2::new(6.6, 1.1, 0.0)).unwrap();
    let (mut first, mut last) = (None, 0.0);
    while let Some(NavStatus::Active(f)) = robot.nav_status(id) {
        first.get_or_insert(f.distance_remaining);
        last = f.distance_remaining;
        tick(&mut robot);
    }
    // From (2.6, 2.8) to (6.6, 1.1) through the door at (5, 2.9): at least 4.3 m.
    assert!(first.unwrap() > 4.3, "{first:?}");
    assert!(last < 0.1, "{last}");
}

#[test]
fn what_cannot_be_reached_is_aborted_with_nav2s_code_and_nothing_moves() {
    let mut robot = exact_apartment();
    let before = robot.ground_truth().robot;
    for (goal, expected) in [
        (Pose2::new(30.0, 1.0, 0.0), 204),  // outside the map
        (Pose2::new(3.7, 1.0, 0.0), 206),   // in the dining table
        (Pose2::new(2.6, 4.35, 0.0), 206),  // 0.1 m from a wall
        (Pose2::new(-0.02, 2.0, 0.0), 206), // in the outer wall
    ] {
        assert_eq!(code(&drive(&mut robot, goal)), expected, "{goal:?}");
    }
    for door in ["living_room_door", "kitchen_door"] {
        let mut closed = FaultSpec::new(FaultKind::DoorClosed);
        closed.params.door = Some(door.to_owned());
        robot.inject(closed).unwrap();
    }
    settle(&mut robot, 0.1);
    assert_eq!(code(&drive(&mut robot, Pose2::new(6.6, 1.1, 0.0))), 208); // no way
    settle(&mut robot, 1.0);
    assert_eq!(robot.ground_truth().robot, before);
    robot.clear_faults();
    settle(&mut robot, 0.1);
    assert_eq!(
        drive(&mut robot, Pose2::new(6.6, 1.1, 0.0)),
        NavStatus::Succeeded
    );
}

#[test]
fn numbers_that_are_none_and_unknown_frames_are_refused() {
    let mut robot = exact_apartment();
    let before = robot.ground_truth().robot;
    for bad in [f64::NAN, f64::INFINITY, 1e9] {
        assert!(robot.navigate("map", Pose2::new(bad, 0.0, 0.0)).is_err());
        assert!(robot.navigate("map", Pose2::new(1.0, 1.0, bad)).is_err());
    }
    let unknown = robot.navigate("moon", Pose2::default());
    assert!(matches!(unknown, Err(SimError::UnknownFrame { .. })));
    assert!(robot.step(Duration::ZERO).is_err() && robot.step(Duration::from_secs(2)).is_err());
    settle(&mut robot, 0.5);
    assert_eq!(robot.ground_truth().robot, before);
    assert_eq!(robot.active_navigation(), None);
}

#[test]
fn a_refused_goal_leaves_the_running_one_alone() {
    let mut robot = exact_apartment();
    let id = robot.navigate("map", Pose2::new(6.6, 1.1, 0.0)).unwrap();
    assert!(robot
        .navigate("map", Pose2::new(f64::NAN, 0.0, 0.0))
        .is_err());
    assert_eq!(robot.active_navigation(), Some(id));
}

#[test]
fn a_cancel_brings_the_base_to_rest() {
    let mut robot = exact_apartment();
    let id = robot.navigate("map", Pose2::new(6.6, 1.1, 0.0)).unwrap();
    settle(&mut robot, 2.5);
    assert!(robot.ground_truth().velocity.linear > 0.4);
    assert!(robot.cancel_navigation(id) && !robot.cancel_navigation(id));
    assert_eq!(robot.nav_status(id), Some(NavStatus::Canceled));
    // Stop is said at once, and long enough for a loop of 5 Hz to hear it.
    assert_eq!(robot.nav_velocity(), Some(Velocity::ZERO));
    let mut slow = robot.clone();
    slow.step(Duration::from_millis(200)).unwrap();
    assert_eq!(slow.nav_velocity(), Some(Velocity::ZERO));
    // At most 1 m/s, slowed at 2 m/s² after at most one control period and a lag of 0.08 s: below
    // 0.1 mm/s within 0.05 + 0.5 + 9·0.08 = 1.3 s.
    settle(&mut robot, 1.3);
    assert_eq!(robot.ground_truth().velocity, Velocity::ZERO);
    let at = robot.ground_truth().robot;
    settle(&mut robot, 1.0);
    assert_eq!(robot.ground_truth().robot, at);
    assert_eq!(robot.nav_velocity(), None);
}

#[test]
fn a_new_goal_preempts_the_old_one() {
    let mut robot = exact_apartment();
    let first = robot.navigate("map", Pose2::new(6.6, 1.1, 0.0)).unwrap();
    settle(&mut robot, 1.0);
    assert_eq!(
        drive(&mut robot, Pose2::new(1.8, 3.2, 0.0)),
        NavStatus::Succeeded
    );
    assert_eq!(robot.nav_status(first), Some(NavStatus::Preempted));
}

#[test]
fn wheels_that_slip_end_in_failed_to_make_progress() {
    let mut robot = exact_apartment();
    robot.inject(FaultSpec::new(FaultKind::NavStuck)).unwrap();
    let before = robot.ground_truth().robot;
    let status = drive(&mut robot, Pose2::new(6.6, 1.1, 0.0));
    assert_eq!(code(&status), 105);
    assert_eq!(robot.ground_truth().robot, before);
    // Three times the patience of 5 s, and two recoveries of 4 s at most in between.
    assert!(
        (15.0..24.0).contains(&robot.now().as_secs_f64()),
        "{:?}",
        robot.now()
    );
}

/// A protection that halves the speed, and 100 ms of delay in the graph, must not keep it from arriving.
#[test]
fn slowed_and_delayed_commands_still_arrive() {
    for (delay, share) in [(5, 1.0), (2, 0.4), (5, 0.5)] {
        let mut robot = apartment(2);
        for goal in [Pose2::new(5.82, 2.15, 0.0), Pose2::new(2.7, 8.2, 0.0)] {
            let id = robot.navigate("map", goal).unwrap();
            let mut queue = VecDeque::from(vec![Velocity::ZERO; delay]);
            while !robot.nav_status(id).unwrap().is_terminal() {
                queue.push_back(robot.nav_velocity().unwrap_or(Velocity::ZERO));
                let v = queue.pop_front().unwrap();
                let slowed = Velocity::new(share * v.linear, share * v.angular);
                robot.set_velocity_command(slowed).unwrap();
                robot.step(TICK).unwrap();
                assert!(
                    robot.now() < Duration::from_secs(180),
                    "delay {delay}, share {share}"
                );
            }
            assert_eq!(
                robot.nav_status(id),
                Some(NavStatus::Succeeded),
                "{delay} {share}"
            );
        }
        assert_eq!(
            robot.ground_truth().collisions,
            0,
            "delay {delay}, share {share}"
        );
        println!(
            "delay {delay}, share {share}: {:.1} s",
            robot.now().as_secs_f64()
        );
    }
}

#[test]
fn a_base_that_gets_no_command_does_not_move() {
    let mut robot = exact_apartment();
    robot.navigate("map", Pose2::new(6.6, 1.1, 0.0)).unwrap();
    let before = robot.ground_truth().robot;
    for _ in 0..100 {
        robot.step(TICK).unwrap();
    }
    assert!(robot.nav_velocity().is_some());
    assert_eq!(robot.ground_truth().robot, before);
}

#[test]
fn the_abort_fault_strikes_the_goal_it_is_meant_for() {
    let mut robot = exact_apartment();
    let mut spec = FaultSpec::new(FaultKind::NavAbort);
    spec.nth = 2;
    spec.params.code = Some(106);
    spec.params.after_s = Some(0.5);
    robot.inject(spec).unwrap();
    assert_eq!(
        drive(&mut robot, Pose2::new(3.2, 2.8, 0.0)),
        NavStatus::Succeeded
    );
    assert_eq!(code(&drive(&mut robot, Pose2::new(2.0, 2.8, 0.0))), 106);
    assert_eq!(
        drive(&mut robot, Pose2::new(2.0, 2.8, 0.0)),
        NavStatus::Succeeded
    );
}

#[test]
fn a_door_that_closes_on_the_way_makes_it_go_round() {
    let mut robot = exact_apartment();
    let id = robot.navigate("map", Pose2::new(6.6, 1.1, 0.0)).unwrap();
    settle(&mut robot, 1.0);
    let mut closed = FaultSpec::new(FaultKind::DoorClosed);
    closed.params.door = Some("kitchen_door".to_owned());
    robot.inject(closed).unwrap();
    settle(&mut robot, 0.2);
    let crosses_hallway = robot.nav_path().iter().any(|p| p[1] > 4.5);
    assert!(crosses_hallway, "{:?}", robot.nav_path());
    while !robot.nav_status(id).unwrap().is_terminal() {
        tick(&mut robot);
    }
    assert_eq!(robot.nav_status(id), Some(NavStatus::Succeeded));
    assert_eq!(robot.ground_truth().collisions, 0);
}

#[test]
fn a_start_in_a_wall_is_refused() {
    let text = apartment_text().replace("start: [2.6, 2.8, 0.0]", "start: [5.0, 1.0, 0.0]");
    let error = Robot::from_yaml(&text, None).unwrap_err().to_string();
    assert!(error.contains("start"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn paths_never_cross_walls(
        sx in 0.4..8.6, sy in 0.4..8.8, gx in 0.4..8.6, gy in 0.4..8.8,
    ) {
        let robot = exact_apartment();
        let world = robot.world();
        let grid = eh_sim::occupancy_grid::OccupancyGrid::new(world);
        let radius = 0.27;
        prop_assume!(world.clearance(sx, sy) > radius && world.clearance(gx, gy) > radius);
        let path = plan_path(&grid, radius, [sx, sy], [gx, gy], world.clearance(gx, gy)).unwrap();
        prop_assert_eq!(path[0], [sx, sy]);
        prop_assert_eq!(path[path.len() - 1], [gx, gy]);
        // Every point of the way leaves room for the footprint: a cell's middle is at most 3.6 cm from
        // any of its points, the margin is 4 cm; the ends are as free as they were given.
        for pair in path.windows(2) {
            let (a, b) = (pair[0], pair[1]);
            let steps = ((b[0] - a[0]).hypot(b[1] - a[1]) / 0.01).ceil() as usize + 1;
            for k in 0..=steps {
                let t = k as f64 / steps as f64;
                let (x, y) = (a[0] + t * (b[0] - a[0]), a[1] + t * (b[1] - a[1]));
                let near_end = (x - sx).hypot(y - sy).min((x - gx).hypot(y - gy)) < 0.1;
                let clearance = world.clearance(x, y);
                prop_assert!(clearance > if near_end { 0.2 } else { radius - 0.005 }, "{} at {} {}", clearance, x, y);
            }
        }
    }
}

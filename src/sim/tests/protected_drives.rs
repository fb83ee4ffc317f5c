//! Drives behind the real protection: every goal ends, and none is held on its way.

mod common;

use std::f64::consts::PI;
use std::time::Duration;

use common::protected::{Drive, Protected};
use eh_sim::progress::{LEAST_TURN, LEAST_WAY, PATIENCE};
use eh_sim::random::{SeededRandom, Stream};
use eh_sim::recovery::LONGEST;
use eh_sim::{FaultKind, FaultSpec, NavStatus, Pose2, Robot, Velocity};

/// Room to obstacles that goals have at least, metres: the least at which skills stand beside furniture.
const GOAL_ROOM: f64 = 0.30;
/// The robot's radius, metres.
const RADIUS: f64 = 0.27;

/// A free place in one of the rooms with room in this range, metres.
fn free_place(robot: &Robot, random: &mut SeededRandom, room: [f64; 2]) -> Pose2 {
    let [x0, y0, x1, y1] = robot.world().bounds();
    loop {
        let (x, y) = (random.between(x0, x1), random.between(y0, y1));
        let yaw = random.between(-PI, PI);
        let clearance = robot.world().clearance(x, y);
        if robot.map().room_at(x, y).is_some() && (room[0]..=room[1]).contains(&clearance) {
            return Pose2::new(x, y, yaw);
        }
    }
}

/// Beside a piece of furniture and facing it, as a skill stands to reach what is on it.
fn beside_furniture(robot: &Robot, random: &mut SeededRandom) -> Pose2 {
    loop {
        let furniture = &robot.map().furniture;
        let f = &furniture[random.index(furniture.len())];
        let gap = random.between(GOAL_ROOM, 0.45);
        let (hx, hy) = (f.size[0] / 2.0, f.size[1] / 2.0);
        let along = random.between(-0.8, 0.8);
        let (lx, ly, turn) = match random.index(4) {
            0 => (hx + gap, along * hy, PI),
            1 => (-hx - gap, along * hy, 0.0),
            2 => (along * hx, hy + gap, -PI / 2.0),
            _ => (along * hx, -hy - gap, PI / 2.0),
        };
        let [x, y] = f.to_map(lx, ly);
        if robot.map().room_at(x, y).is_some() && robot.world().clearance(x, y) >= GOAL_ROOM {
            return Pose2::new(x, y, eh_sim::geometry::wrap_angle(f.yaw + turn));
        }
    }
}

/// The time that a drive without hindrance may take: a quarter of the full speed, and four half turns at
/// half the rate with their beginnings and ends.
fn bound(way: f64) -> Duration {
    Duration::from_secs_f64(way / 0.25 + 4.0 * (PI / 0.9 + 1.0))
}

/// The time after which a goal has ended whatever holds the base: each piece of progress uses up the
/// patience at most; so do the recoveries, of which every metre of the way allows two more.
fn last_end(way: f64) -> Duration {
    let pieces = way / LEAST_WAY + PI / LEAST_TURN + 2.0;
    let recoveries = 2.0 * (way + 1.0);
    PATIENCE.mul_f64(pieces + recoveries) + LONGEST.mul_f64(recoveries)
}

#[test]
fn goals_are_reached_in_time_and_none_is_held() {
    let mut longest = Duration::ZERO;
    for (name, file) in common::quiet_worlds() {
        for seed in 0..3_u64 {
            let robot = Robot::new(file.clone(), Some(seed)).unwrap();
            let mut protected = Protected::new(robot);
            let mut random = SeededRandom::new(1000 + seed, Stream::Objects);
            for k in 0..8 {
                let goal = if k % 2 == 0 {
                    beside_furniture(&protected.robot, &mut random)
                } else {
                    free_place(&protected.robot, &mut random, [GOAL_ROOM, 9.0])
                };
                let from = protected.robot.ground_truth().robot;
                let drive: Drive = protected.drive(goal, Duration::from_secs(300));
                let told = || format!("{name}, seed {seed}: {from:?} to {goal:?}: {drive:?}");
                println!("{}", told());
                assert_eq!(drive.status, NavStatus::Succeeded, "{}", told());
                assert!(drive.took <= bound(drive.way), "{}", told());
                assert!(!drive.ended_held, "{}", told());
                // A single scan's noise may reach into the stop zone; the next one does not.
                assert!(
                    drive.longest_hold <= Duration::from_millis(400),
                    "{}",
                    told()
                );
                assert_eq!(protected.robot.ground_truth().collisions, 0, "{}", told());
                longest = longest.max(drive.longest_hold);
            }
        }
    }
    println!("longest hold: {longest:?}");
}

#[test]
fn a_robot_that_hugs_furniture_gets_away() {
    for (name, file) in common::quiet_worlds() {
        for seed in 0..8_u64 {
            let mut file = file.clone();
            let mut random = SeededRandom::new(seed, Stream::Objects);
            let robot = Robot::new(file.clone(), Some(seed)).unwrap();
            // Inside the stop zone, which reaches 0.021 m, or touching.
            let start = free_place(&robot, &mut random, [RADIUS + 0.001, RADIUS + 0.02]);
            let goal = free_place(&robot, &mut random, [0.4, 9.0]);
            file.robot.start = [start.x, start.y, start.yaw];
            let mut protected = Protected::new(Robot::new(file, Some(seed)).unwrap());
            let drive = protected.drive(goal, Duration::from_secs(300));
            let told = format!("{name}, seed {seed}: {start:?} to {goal:?}: {drive:?}");
            println!("{told}");
            assert_eq!(drive.status, NavStatus::Succeeded, "{told}");
            // All recoveries there are, each after the patience.
            let more = (PATIENCE + LONGEST) * drive.recoveries;
            assert!(drive.took <= bound(drive.way) + more, "{told}");
        }
    }
}

#[test]
fn a_goal_ends_whatever_is_in_the_way() {
    for seed in 0..10_u64 {
        let mut protected =
            Protected::new(Robot::from_yaml(common::apartment_text(), Some(seed)).unwrap());
        let mut random = SeededRandom::new(seed, Stream::Objects);
        let goal = free_place(&protected.robot, &mut random, [GOAL_ROOM, 9.0]);
        // It believes to be elsewhere, and so runs into what it does not expect.
        let mut jump = FaultSpec::new(FaultKind::LocalizationJump);
        jump.at = Some(1.0);
        jump.params.offset = Some([
            random.between(-0.5, 0.5),
            random.between(-0.5, 0.5),
            random.between(-0.3, 0.3),
        ]);
        protected.robot.inject(jump).unwrap();
        let drive = protected.drive(goal, Duration::from_secs(900));
        println!("seed {seed}: {drive:?}");
        assert!(drive.status.is_terminal(), "seed {seed}: {drive:?}");
        assert!(drive.took <= last_end(drive.way), "seed {seed}: {drive:?}");
    }
}

/// A base that only turns, to and fro, as one that hugs furniture under protection: that is no progress.
#[test]
fn turning_to_and_fro_is_no_progress() {
    let mut robot = common::exact_apartment();
    let id = robot.navigate("map", Pose2::new(6.6, 1.1, 0.0)).unwrap();
    let mut side = 1.0;
    while !robot.nav_status(id).unwrap().is_terminal() {
        if (robot.now().as_millis() / 1500) % 2 == 0 {
            side = -side;
        }
        robot
            .set_velocity_command(Velocity::new(0.0, 0.8 * side))
            .unwrap();
        robot.step(common::TICK).unwrap();
        // Three times the patience, and two recoveries in between.
        assert!(robot.now() <= PATIENCE * 3 + LONGEST * 2 + Duration::from_secs(1));
    }
    let status = robot.nav_status(id).unwrap();
    assert!(
        matches!(&status, NavStatus::Aborted { code: 105, .. }),
        "{status:?}"
    );
}

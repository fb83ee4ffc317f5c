//! One seed, one history, bit for bit; and how fast it runs.

mod common;

use std::time::{Duration, Instant};

use common::{apartment, named, tick, AT_KITCHEN_TABLE};
use eh_sim::Pose2;

/// Drives to the kitchen with the sensors on; the digest of every step, mixed.
fn history(seed: u64) -> u64 {
    let mut robot = apartment(seed);
    let mut hash = 0_u64;
    let mut mix = |v: u64| hash = hash.rotate_left(5).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ v;
    let goal = robot.navigate("map", AT_KITCHEN_TABLE).unwrap();
    for k in 0..1000 {
        tick(&mut robot);
        mix(robot.digest());
        if k % 10 == 0 {
            for r in robot.scan().unwrap().ranges {
                mix(u64::from(r.to_bits()));
            }
            for d in robot.detect().unwrap().detections {
                mix(d.position.x.to_bits());
                mix(d.confidence.to_bits());
            }
        }
    }
    assert!(robot.nav_status(goal).is_some());
    named(&mut robot, "ready");
    mix(robot.digest());
    hash
}

#[test]
fn the_same_seed_gives_the_same_bits_and_another_does_not() {
    assert_eq!(history(11), history(11));
    assert_ne!(history(11), history(12));
}

#[test]
fn how_often_a_sensor_is_read_changes_nothing_else() {
    let (mut quiet, mut curious) = (apartment(4), apartment(4));
    for robot in [&mut quiet, &mut curious] {
        robot.navigate("map", AT_KITCHEN_TABLE).unwrap();
    }
    for _ in 0..300 {
        tick(&mut quiet);
        tick(&mut curious);
        curious.scan().unwrap();
        curious.detect().unwrap();
    }
    assert_eq!(quiet.digest(), curious.digest());
}

#[test]
fn a_long_step_is_the_same_as_its_parts() {
    let (mut one, mut many) = (apartment(4), apartment(4));
    for _ in 0..20 {
        one.step(Duration::from_millis(100)).unwrap();
        for _ in 0..5 {
            many.step(Duration::from_millis(20)).unwrap();
        }
    }
    assert_eq!(one.digest(), many.digest());
}

/// Drives to the kitchen, the bedroom and back; how many times real time that was, and the steps a second.
fn speed(sensors: bool) -> (f64, f64) {
    let mut robot = apartment(1);
    let (begun, mut steps) = (Instant::now(), 0_u32);
    for goal in [
        AT_KITCHEN_TABLE,
        Pose2::new(2.7, 8.2, 0.0),
        Pose2::new(2.6, 2.8, 0.0),
    ] {
        let id = robot.navigate("map", goal).unwrap();
        while !robot.nav_status(id).unwrap().is_terminal() {
            tick(&mut robot);
            steps += 1;
            if sensors && steps % 5 == 0 {
                robot.scan().unwrap();
                robot.detect().unwrap();
            }
        }
    }
    let took = begun.elapsed().as_secs_f64();
    (robot.now().as_secs_f64() / took, f64::from(steps) / took)
}

/// Says the speed; the bound only catches a change of order (debug builds are ten times slower).
#[test]
fn it_is_much_faster_than_real_time() {
    let ((blind, blind_steps), (seeing, seeing_steps)) = (speed(false), speed(true));
    let begun = Instant::now();
    for seed in 0..20 {
        apartment(seed);
    }
    let build = begun.elapsed() / 20;
    println!("driving: {blind:.0} × real time, {blind_steps:.0} steps/s of 20 ms");
    println!("with scan and detections at 10 Hz: {seeing:.0} ×, {seeing_steps:.0} steps/s; building {build:?}");
    assert!(seeing > 10.0, "{seeing}");
}

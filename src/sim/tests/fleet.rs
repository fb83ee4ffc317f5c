//! Several robots in one world: they see each other, collide, hand things on, and do not mix up their goals.

mod common;

use common::{apartment_text, TICK};
use eh_sim::fleet::{build, step, Member};
use eh_sim::nalgebra::Point3;
use eh_sim::world_file::Noise;
use eh_sim::{
    ArmGoal, ArmStatus, FaultKind, FaultSpec, NavStatus, Pose2, Robot, Support, Velocity, WorldFile,
};

fn file() -> WorldFile {
    let mut file = WorldFile::from_yaml(apartment_text()).unwrap();
    file.noise = Noise::none();
    file
}

fn member(name: &str, start: Option<[f64; 3]>) -> Member {
    Member {
        name: name.to_owned(),
        start,
    }
}

fn two(first: [f64; 3], second: [f64; 3]) -> Vec<Robot> {
    let members = [member("one", Some(first)), member("two", Some(second))];
    build(&file(), None, &members).unwrap()
}

fn tick(robots: &mut [Robot]) {
    step(
        robots,
        |r| r,
        |r| {
            let wish = r.nav_velocity().unwrap_or(Velocity::ZERO);
            r.set_velocity_command(wish)?;
            r.step(TICK)
        },
    )
    .unwrap();
}

#[test]
fn they_see_each_other() {
    // Face to face, 2 m apart, in the living room.
    let mut robots = two([2.0, 2.9, 0.0], [4.0, 2.9, std::f64::consts::PI]);
    tick(&mut robots);
    for (index, other) in ["two", "one"].into_iter().enumerate() {
        let robot = &mut robots[index];
        let scan = robot.scan().unwrap();
        let ahead = f64::from(scan.ranges[scan.ranges.len() / 2]);
        // Laser 0.15 m ahead; the square of a circle of 0.27 m reaches 0.27·√π/2 = 0.239 m.
        assert!((ahead - (2.0 - 0.15 - 0.239)).abs() < 0.01, "{ahead}");
        let seen = robot.detect().unwrap();
        let robots: Vec<_> = seen
            .detections
            .iter()
            .filter(|d| d.class == "robot")
            .collect();
        assert_eq!(robots.len(), 1);
        assert!(robot.ground_truth().object(other).is_some());
    }
}

#[test]
fn they_collide_and_neither_drives_through_the_other() {
    let mut robots = two([2.0, 2.9, 0.0], [4.0, 2.9, std::f64::consts::PI]);
    for _ in 0..200 {
        step(
            &mut robots,
            |r| r,
            |r| {
                r.set_velocity_command(Velocity::new(0.5, 0.0))?;
                r.step(TICK)
            },
        )
        .unwrap();
    }
    let (a, b) = (robots[0].ground_truth(), robots[1].ground_truth());
    assert!(a.collisions + b.collisions >= 1);
    let gap = a.robot.distance(b.robot);
    // 0.27 and 0.239, and a step of 0.5 m/s.
    assert!((0.49..0.56).contains(&gap), "{gap}");
}

#[test]
fn each_has_goals_of_its_own_and_they_get_past_each_other() {
    let mut robots = two([2.0, 3.0, 0.0], [6.4, 3.2, std::f64::consts::PI]);
    // Through the same door, to where the other one comes from.
    let goals = [Pose2::new(6.2, 3.2, 0.0), Pose2::new(2.2, 3.0, 0.0)];
    let ids: Vec<_> = robots
        .iter_mut()
        .zip(goals)
        .map(|(r, goal)| r.navigate("map", goal).unwrap())
        .collect();
    let mut ended = [false; 2];
    for _ in 0..6000 {
        tick(&mut robots);
        for (k, robot) in robots.iter().enumerate() {
            ended[k] = robot.nav_status(ids[k]).unwrap().is_terminal();
        }
        if ended == [true; 2] {
            break;
        }
    }
    assert_eq!(ended, [true; 2], "a goal went on");
    let first = robots[0].nav_status(ids[0]).unwrap();
    let second = robots[1].nav_status(ids[1]).unwrap();
    assert!(
        first == NavStatus::Succeeded || second == NavStatus::Succeeded,
        "{first:?} {second:?}"
    );
}

/// The tool of the first robot goes straight down to this point of its base_link, and the fingers to the width.
fn reach(robots: &mut [Robot], p: Point3<f64>, on_a_line: bool) {
    let goal = ArmGoal::new(common::from_above(p));
    let goal = if on_a_line { goal.on_a_line() } else { goal };
    let id = robots[0].move_arm(goal).unwrap();
    for _ in 0..2000 {
        tick(robots);
        let status = robots[0].arm_status(id).unwrap();
        if status.is_terminal() {
            assert_eq!(status, ArmStatus::Succeeded);
            return;
        }
    }
    panic!("the arm goal did not end");
}

fn fingers(robots: &mut [Robot], width: f64) {
    let id = robots[0].move_gripper(width, 20.0).unwrap();
    for _ in 0..500 {
        tick(robots);
        if robots[0].gripper_status(id).unwrap().is_terminal() {
            return;
        }
    }
    panic!("the gripper goal did not end");
}

#[test]
fn what_one_takes_the_other_does_not_have() {
    let at_table = common::AT_KITCHEN_TABLE;
    let mut robots = two([at_table.x, at_table.y, at_table.yaw], [2.6, 2.8, 0.0]);
    let cup = common::in_base(&robots[0], "cup_red");
    let above = cup + eh_sim::nalgebra::Vector3::z() * 0.12;
    fingers(&mut robots, 0.1);
    reach(&mut robots, above, false);
    reach(&mut robots, cup, true);
    fingers(&mut robots, 0.0);
    reach(&mut robots, above, true);
    let (mine, theirs) = (robots[0].ground_truth(), robots[1].ground_truth());
    assert_eq!(mine.held.as_deref(), Some("cup_red"));
    assert_eq!(theirs.held, None);
    let (mine, theirs) = (
        mine.object("cup_red").unwrap(),
        theirs.object("cup_red").unwrap(),
    );
    assert_eq!(theirs.support, Support::Gripper);
    let off = mine.pose.translation.vector - theirs.pose.translation.vector;
    assert!(off.norm() < 1e-9);
    // The other one's hand takes it away: the first holds nothing any more.
    let mut taken = FaultSpec::new(FaultKind::ObjectMoved);
    taken.params.object = Some("cup_red".to_owned());
    taken.params.on = Some("dining_table".to_owned());
    robots[1].inject(taken).unwrap();
    tick(&mut robots);
    tick(&mut robots);
    for robot in &robots {
        let truth = robot.ground_truth();
        let on = &truth.object("cup_red").unwrap().support;
        assert_eq!(*on, Support::Furniture("dining_table".to_owned()));
        assert_eq!(truth.held, None);
    }
}

#[test]
fn doors_and_people_are_the_same_for_all() {
    let text = format!(
        "{}\nschedule: [{{door: study_door, open: false, at: 0.1}}]\npeople: [{{id: anna, path: [[1, 5], [4, 5]]}}]",
        apartment_text()
    );
    let file = WorldFile::from_yaml(&text).unwrap();
    let members = [
        member("one", None),
        member("two", None),
        member("three", None),
    ];
    let mut robots = build(&file, Some(5), &members).unwrap();
    let seeds: Vec<u64> = robots.iter().map(Robot::seed).collect();
    assert_eq!(seeds, [5, 6, 7]);
    for _ in 0..100 {
        tick(&mut robots);
    }
    for robot in &robots {
        let doors = robot.ground_truth().doors;
        assert!(doors.iter().any(|(id, open)| id == "study_door" && !*open));
    }
    // 2 s at 0.7 m/s, once.
    let walked: Vec<f64> = robots
        .iter()
        .map(|r| r.world().people()[0].position()[0])
        .collect();
    assert!(walked.iter().all(|x| (x - 2.4).abs() < 0.05), "{walked:?}");
}

#[test]
fn one_robot_is_as_it_always_was() {
    let mut alone = Robot::new(file(), Some(3)).unwrap();
    let mut fleet = build(&file(), Some(3), &[member("one", None)]).unwrap();
    alone.navigate("map", Pose2::new(6.2, 1.2, 0.0)).unwrap();
    fleet[0].navigate("map", Pose2::new(6.2, 1.2, 0.0)).unwrap();
    for _ in 0..200 {
        common::tick(&mut alone);
        tick(&mut fleet);
    }
    assert_eq!(alone.digest(), fleet[0].digest());
}

#[test]
fn what_cannot_be_is_refused_with_the_name() {
    let refused = |members: &[Member]| build(&file(), None, members).unwrap_err().to_string();
    assert!(refused(&[]).contains("number of robots"));
    let many: Vec<Member> = (0..17).map(|k| member(&format!("r{k}"), None)).collect();
    assert!(refused(&many).contains("17"));
    assert!(refused(&[member("a", None), member("a", None)]).contains("twice"));
    assert!(refused(&[member("cup_red", None)]).contains("cup_red"));
    let wall = Some([5.0, 1.0, 0.0]);
    assert!(refused(&[member("a", None), member("b", wall)]).contains("0.27"));
    let there = Some([2.7, 2.8, 0.0]);
    assert!(refused(&[member("a", None), member("b", there)]).contains("(2.7, 2.8)"));
    let nan = Some([f64::NAN, 2.8, 0.0]);
    assert!(refused(&[member("a", nan)]).contains("NaN"));
}

//! The worlds that ship: what they promise, and that a robot may know them without their objects.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::apartment_text;
use eh_sim::{Robot, SemanticMap, WorldFile};

#[test]
fn the_map_is_read_without_the_objects() {
    for (_, text) in common::shipped_worlds() {
        let map = SemanticMap::from_yaml(text).unwrap();
        assert_eq!(map, WorldFile::from_yaml(text).unwrap().map);
        // The same map from a file that has no other section.
        let sections: BTreeMap<String, serde_yaml_ng::Value> =
            serde_yaml_ng::from_str(text).unwrap();
        let known: BTreeMap<_, _> = sections
            .into_iter()
            .filter(|(k, _)| ["name", "rooms", "doors", "furniture"].contains(&k.as_str()))
            .collect();
        let bare = serde_yaml_ng::to_string(&known).unwrap();
        assert_eq!(SemanticMap::from_yaml(&bare).unwrap(), map);
    }
}

#[test]
fn doors_join_the_rooms_they_say() {
    for (_, text) in common::shipped_worlds() {
        let map = SemanticMap::from_yaml(text).unwrap();
        for door in &map.doors {
            let ([cx, cy], width) = (door.center(), door.width());
            let (nx, ny) = (
                (door.to[1] - door.from[1]) / width,
                -(door.to[0] - door.from[0]) / width,
            );
            let sides: BTreeSet<&str> = [0.3, -0.3]
                .into_iter()
                .filter_map(|d| map.room_at(cx + d * nx, cy + d * ny))
                .map(|r| r.id.as_str())
                .collect();
            let said: BTreeSet<&str> = door.between.iter().map(String::as_str).collect();
            assert_eq!(sides, said, "{}", door.id);
        }
    }
}

#[test]
fn the_apartment_has_what_the_tasks_need() {
    let robot = Robot::from_yaml(apartment_text(), None).unwrap();
    let map = robot.map();
    assert!(map.rooms.len() >= 5);
    for names in map
        .rooms
        .iter()
        .map(|r| &r.names)
        .chain(map.furniture.iter().map(|f| &f.names))
    {
        assert!(!names["en"].is_empty() && !names["zh"].is_empty());
    }
    for f in &map.furniture {
        assert!(map.room_at(f.center[0], f.center[1]).is_some(), "{}", f.id);
    }
    let truth = robot.ground_truth();
    assert!(truth.objects.len() >= 8);
    let mut cups: Vec<&str> = truth
        .objects
        .iter()
        .filter(|o| o.class == "cup")
        .map(|o| {
            let at = o.pose.translation.vector;
            map.room_at(at.x, at.y).unwrap().id.as_str()
        })
        .collect();
    cups.sort_unstable();
    assert_eq!(cups, ["bedroom", "kitchen"]);
    let start = truth.robot;
    assert_eq!(map.room_at(start.x, start.y).unwrap().id, "living_room");
}

#[test]
fn the_example_of_the_readme_takes_the_cup_away_on_the_second_goal() {
    let readme = include_str!("../../../worlds/README.md");
    let example = readme
        .split("```yaml\n")
        .find(|part| part.starts_with("faults:"))
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let mut robot = Robot::from_yaml(&format!("{}\n{example}", apartment_text()), None).unwrap();
    let place = |robot: &Robot| {
        robot
            .ground_truth()
            .object("cup_red")
            .unwrap()
            .support
            .clone()
    };
    for on in ["kitchen_table", "kitchen_counter"] {
        robot
            .navigate("map", eh_sim::Pose2::new(3.0, 2.8, 0.0))
            .unwrap();
        common::settle(&mut robot, 0.1);
        assert_eq!(place(&robot), eh_sim::Support::Furniture(on.to_owned()));
    }
    assert_eq!(robot.pending_faults().count(), 0);
}

#[test]
fn the_example_of_others_in_the_readme_is_understood() {
    let readme = include_str!("../../../worlds/README.md");
    let example = readme
        .split("```yaml\n")
        .find(|part| part.starts_with("schedule:"))
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let mut robot = Robot::from_yaml(&format!("{}\n{example}", apartment_text()), None).unwrap();
    let open = |robot: &Robot| {
        let truth = robot.ground_truth();
        truth
            .doors
            .iter()
            .find(|(id, _)| id == "study_door")
            .unwrap()
            .1
    };
    let mut seen = Vec::new();
    for _ in 0..4 {
        common::settle(&mut robot, 29.0);
        seen.push(open(&robot));
        common::settle(&mut robot, 1.0);
    }
    assert_eq!(seen, [true, false, true, false]);
    assert_eq!(robot.world().people().len(), 1);
}

#[test]
fn the_clutter_table_hides_things_from_where_the_robot_starts() {
    let text = include_str!("../../../worlds/clutter_table.yaml");
    let mut file = WorldFile::from_yaml(text).unwrap();
    file.noise = eh_sim::world_file::Noise::none();
    let on_table = file
        .objects
        .iter()
        .filter(|o| o.on.as_deref() == Some("long_table"))
        .count();
    assert!(on_table >= 15, "{on_table}");
    let mut robot = Robot::new(file, None).unwrap();
    // Nearer to it, and looking down at it: 0.74 m high, the camera 1.25 m.
    let drive = common::drive(&mut robot, eh_sim::Pose2::new(-0.5, 0.0, 0.0));
    assert_eq!(drive, eh_sim::NavStatus::Succeeded);
    let at = std::time::Duration::from_millis(500);
    robot
        .move_head(vec![eh_sim::HeadPoint {
            pan: 0.0,
            tilt: 0.45,
            at,
        }])
        .unwrap();
    common::settle(&mut robot, 1.5);
    let seen = robot.detect().unwrap().detections.len();
    assert!((6..on_table - 2).contains(&seen), "{seen} of {on_table}");
}

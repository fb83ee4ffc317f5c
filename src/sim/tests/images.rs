//! Images and detections of one world agree.

use std::time::Duration;

use eh_sim::nalgebra::Point3;
use eh_sim::picture::Picture;
use eh_sim::{look_at, HeadPoint, Robot, Velocity};

const APARTMENT: &str = include_str!("../../../worlds/apartment.yaml");

/// A robot in the apartment before the kitchen table, the head turned to (x, y, z) of base_link.
fn looking_at(start: &str, pan: f64, tilt: f64) -> Robot {
    let world = APARTMENT.replace("start: [2.6, 2.8, 0.0]", &format!("start: {start}"));
    assert!(world.contains(&format!("start: {start}")));
    let mut robot = Robot::from_yaml(&world, Some(5)).unwrap();
    robot
        .move_head(vec![HeadPoint {
            pan,
            tilt,
            at: Duration::from_secs(1),
        }])
        .unwrap();
    for _ in 0..100 {
        robot.set_velocity_command(Velocity::ZERO).unwrap();
        robot.step(Duration::from_millis(20)).unwrap();
    }
    robot
}

#[test]
fn what_is_detected_is_in_the_image_where_it_is_projected() {
    let mut seen = 0;
    for (start, pan, tilt) in [
        ("[5.75, 2.3, 0.0]", 0.0, 0.7),
        ("[5.75, 2.3, 0.0]", -0.4, 0.5),
        ("[7.2, 1.3, -1.57]", 0.0, 0.6),
        ("[2.6, 2.8, 0.0]", -0.6, 0.4),
    ] {
        let mut robot = looking_at(start, pan, tilt);
        let (lens, camera) = robot.camera_view(320, 240);
        let scenery = robot.scenery(false);
        let picture = Picture::take(&scenery, &lens, &camera);
        for detection in robot.detect().unwrap().detections {
            // The object that it is of: the nearest of its class.
            let at = camera * detection.position;
            let object = robot
                .world()
                .objects()
                .iter()
                .filter(|o| o.spec.class == detection.class)
                .min_by(|a, b| {
                    let off = |o: &eh_sim::world::WorldObject| {
                        (o.pose.translation.vector - at.coords).norm()
                    };
                    off(a).total_cmp(&off(b))
                })
                .unwrap();
            let label = scenery.label(&object.spec.id).unwrap();
            let middle =
                camera.inverse_transform_point(&Point3::from(object.pose.translation.vector));
            let pixel = lens.project(&middle).expect("what is detected is in view");
            let (found, depth) = picture.at(pixel).unwrap();
            // Something may stand before its middle; of a detection at least a third is seen.
            let shown = picture.labels.iter().filter(|l| **l == label).count();
            assert!(shown > 0, "{} is detected and not drawn", object.spec.id);
            if found == label {
                seen += 1;
                // Its front is nearer than its middle, by no more than its size.
                let size = object.spec.size.iter().copied().fold(0.0, f64::max);
                let before = middle.z - f64::from(depth);
                assert!(
                    (-0.02..=size).contains(&before),
                    "{}: {before}",
                    object.spec.id
                );
                // And where the detector has it, within its noise of 3 mm and 4 mm/m: three of these.
                assert!((detection.position.z - middle.z).abs() < 0.05);
            }
            let near = pixel.map(|p| p.round());
            assert!(
                found == label || f64::from(depth) < middle.z + 0.02,
                "{} at {near:?}: what is drawn there is behind it",
                object.spec.id
            );
        }
    }
    assert!(seen >= 4, "{seen}");
}

#[test]
fn the_red_cup_is_red() {
    let robot = looking_at("[5.75, 2.3, 0.0]", 0.0, 0.7);
    let cup = &robot.world().objects()[robot.world().object_index("cup_red").unwrap()];
    let (lens, camera) = robot.camera_view(320, 240);
    let picture = Picture::take(&robot.scenery(false), &lens, &camera);
    let middle = camera.inverse_transform_point(&Point3::from(cup.pose.translation.vector));
    let [u, v] = lens.project(&middle).unwrap();
    let i = 3 * (v.round() as usize * 320 + u.round() as usize);
    let [r, g, b] = [picture.rgb[i], picture.rgb[i + 1], picture.rgb[i + 2]];
    assert!(r > 2 * g && r > 2 * b, "{r} {g} {b}");
}

#[test]
fn the_overhead_camera_sees_every_room_and_the_robot() {
    let robot = looking_at("[5.75, 2.3, 0.0]", 0.0, 0.7);
    let (lens, camera) = robot.overhead_view(320, 240);
    let scenery = robot.scenery(true);
    let picture = Picture::take(&scenery, &lens, &camera);
    for corner in [[0.0, 0.0], [9.0, 0.0], [0.0, 9.2], [9.0, 9.2]] {
        let p = camera.inverse_transform_point(&Point3::new(corner[0], corner[1], 0.0));
        assert!(lens.project(&p).is_some(), "{corner:?}");
    }
    // North is up: the bathtub is above the fridge, and right of the bed.
    let place = |name: &str| {
        let label = scenery.label(name).unwrap();
        let at: Vec<usize> = picture
            .labels
            .iter()
            .enumerate()
            .filter(|(_, l)| **l == label)
            .map(|(i, _)| i)
            .collect();
        assert!(!at.is_empty(), "{name} is not seen");
        let middle = at[at.len() / 2];
        (middle % 320, middle / 320)
    };
    assert!(place("bathtub").1 < place("fridge").1);
    assert!(place("bathtub").0 > place("bed").0);
    let robots = (1_u16..)
        .zip(&scenery.solids)
        .filter(|(_, s)| s.name == "robot");
    let drawn = robots
        .map(|(label, _)| picture.labels.iter().filter(|l| **l == label).count())
        .sum::<usize>();
    // A disc of 0.25 m at 467/2 pixels per metre and metre of about 11 m: 5 pixels of radius.
    assert!(drawn > 40, "{drawn}");
}

#[test]
fn a_gaze_puts_its_target_into_the_middle() {
    // 0.8 m ahead and 0.7 m high, seen from base_link.
    let target = Point3::new(0.8, 0.1, 0.7);
    let [pan, tilt] = look_at(&target);
    let robot = looking_at("[2.6, 2.8, 0.0]", pan, tilt);
    let (lens, camera) = robot.camera_view(320, 240);
    let in_map = robot.ground_truth().robot.to_isometry() * target;
    let pixel = lens
        .project(&camera.inverse_transform_point(&in_map))
        .unwrap();
    // The head is there within 5 mrad, at 229 pixels per radian, and the aim errs by 0.03 rad at 0.5 m.
    for (p, c) in pixel.iter().zip(lens.center) {
        assert!((p - c).abs() < 8.0, "{pixel:?}");
    }
}

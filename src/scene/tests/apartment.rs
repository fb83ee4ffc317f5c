//! The scene of a robot that drives through a simulated home: how many objects are found, doubled or
//! confused, measured against the ground truth that only this test may read.

mod common;

use std::collections::BTreeSet;

use common::{world, Drive, Figures, NOISE, STOPS};
use eh_contract::geometry::Vec3;
use eh_contract::scene::{Kind, RelationKind};

#[test]
fn a_drive_through_the_apartment_finds_each_object_once() {
    let text = world("apartment");
    for seed in 1..=2 {
        let mut drive = Drive::new(&text, seed);
        for (x, y, yaw) in STOPS {
            drive.visit(x, y, yaw);
        }
        // And once more, seeing again what was seen before.
        for (x, y, yaw) in STOPS {
            drive.visit(x, y, yaw);
        }
        let truth = drive.robot.ground_truth();
        let live: Vec<_> = drive
            .scene
            .graph()
            .live()
            .filter(|o| o.kind == Kind::Object)
            .cloned()
            .collect();
        let summary: Vec<String> = live
            .iter()
            .map(|o| format!("{} {:?} c{:.2}", o.r#ref, o.pose.position, o.confidence))
            .collect();
        let context = format!(
            "seed {seed}, {} frames, names {:?}, live {summary:#?}",
            drive.frames, drive.names
        );
        // No object has two names, no two objects share one, none is invented, all are found.
        for (id, names) in &drive.names {
            assert_eq!(names.len(), 1, "{id}: {context}");
        }
        let all: BTreeSet<&String> = drive.names.values().flatten().collect();
        assert_eq!(all.len(), drive.names.len(), "{context}");
        assert_eq!(live.len(), drive.names.len(), "{context}");
        assert_eq!(drive.names.len(), truth.objects.len(), "{context}");
        // Each stands on what it stands on.
        for spec in &drive.robot.world_file().objects {
            let Some(on) = &spec.on else { continue };
            let name = drive.names[&spec.id].first().unwrap();
            assert!(
                drive.scene.graph().has(name, RelationKind::On, on),
                "{name} on {on}: {context}"
            );
        }
        // And is where it is, within what localisation leaves.
        for o in &truth.objects {
            let name = drive.names[&o.id].first().unwrap();
            let found = drive.scene.graph().get(name).unwrap().pose.position;
            let t = o.pose.translation;
            let off = found.distance(Vec3::new(t.x, t.y, t.z));
            assert!(off < 0.06, "{name} is {off:.3} m off: {context}");
        }
    }
}

/// The thresholds were not chosen on drift either; of 500 objects in 50 seeds it spoils none.
#[test]
fn drift_of_the_localisation_confuses_nothing() {
    let text = world("apartment") + NOISE[1].1;
    let mut figures = Figures::default();
    let mut drive = Drive::new(&text, 12);
    for (x, y, yaw) in STOPS.into_iter().chain(STOPS) {
        drive.visit(x, y, yaw);
    }
    figures.add(&drive);
    assert!(figures.objects >= 10, "{figures:?}");
    assert_eq!((figures.switches, figures.renamed), (0, 0), "{figures:?}");
    assert_eq!((figures.merges, figures.misses), (0, 0), "{figures:?}");
    assert_eq!(figures.false_objects, 0, "{figures:?}");
    assert_eq!(figures.standing_right, figures.standing, "{figures:?}");
}

/// Noise well beyond what the thresholds were chosen on; `scripts/bench tracker` has more
/// seeds and kinds of it.
#[test]
fn coarse_sensors_confuse_little() {
    let text = world("apartment") + NOISE[2].1;
    let mut figures = Figures::default();
    let mut drive = Drive::new(&text, 11);
    for (x, y, yaw) in STOPS.into_iter().chain(STOPS) {
        drive.visit(x, y, yaw);
    }
    figures.add(&drive);
    println!("{figures:?}");
    assert!(figures.switches <= 4, "{figures:?}");
    assert!(figures.merges + figures.misses <= 1, "{figures:?}");
    assert!(figures.false_objects <= 2, "{figures:?}");
    assert!(
        figures.standing_right * 10 >= figures.standing * 9,
        "{figures:?}"
    );
}

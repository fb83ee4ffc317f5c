//! The scene of a robot that drives through a simulated home: how many objects are found, doubled or
//! confused, measured against the ground truth that only this test may read.

use std::collections::{BTreeMap, BTreeSet};
use std::f64::consts::{FRAC_PI_2, PI};
use std::time::Duration;

use eh_contract::geometry::{Pose, Vec3};
use eh_contract::perception::{Detection, DetectionFrame, View};
use eh_contract::scene::{Kind, RelationKind};
use eh_contract::Stamp;
use eh_scene::lexicon::Lexicon;
use eh_scene::{Scene, SceneConfig};
use eh_sim::nalgebra::{Isometry3, Translation3, UnitQuaternion, Vector3};
use eh_sim::{HeadPoint, NavStatus, Pose2, Robot, SemanticMap, Velocity};

const STEP: Duration = Duration::from_millis(20);

/// Between two frames of detections.
const FRAME: Duration = Duration::from_millis(200);

/// Simulated time begins late, since zero means "never".
const EPOCH: Duration = Duration::from_secs(1000);

fn world(name: &str) -> String {
    let path = format!("{}/../../worlds/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

struct Drive {
    robot: Robot,
    scene: Scene,
    next_frame: Duration,
    /// For each object of the world the names that it was seen under.
    names: BTreeMap<String, BTreeSet<String>>,
    frames: usize,
}

fn planar(pose: Pose2) -> Isometry3<f64> {
    Isometry3::from_parts(
        Translation3::new(pose.x, pose.y, 0.0),
        UnitQuaternion::from_axis_angle(&Vector3::z_axis(), pose.yaw),
    )
}

impl Drive {
    fn new(text: &str, seed: u64) -> Self {
        let mut scene =
            Scene::new("home", "map", SceneConfig::default(), Lexicon::builtin()).unwrap();
        let now = Stamp(i64::try_from(EPOCH.as_nanos()).unwrap());
        scene.load_map(&SemanticMap::from_yaml(text).unwrap(), now);
        Drive {
            robot: Robot::from_yaml(text, Some(seed)).unwrap(),
            scene,
            next_frame: Duration::ZERO,
            names: BTreeMap::new(),
            frames: 0,
        }
    }

    fn now(&self) -> Stamp {
        Stamp(i64::try_from((EPOCH + self.robot.now()).as_nanos()).unwrap())
    }

    /// One step of the world; now and then a frame of detections at the place where localisation says.
    fn step(&mut self) {
        if let Some(v) = self.robot.nav_velocity() {
            self.robot.set_velocity_command(v).unwrap();
        }
        self.robot.step(STEP).unwrap();
        if self.robot.now() < self.next_frame {
            return;
        }
        self.next_frame = self.robot.now() + FRAME;
        let base = planar(self.robot.estimated_pose());
        let now = self.now();
        self.scene
            .set_robot(Pose::from(base), None, now, now)
            .unwrap();
        let Some(seen) = self.robot.detect() else {
            return;
        };
        let camera = base * seen.camera_in_base;
        let f = seen.frustum;
        let detections = seen
            .detections
            .iter()
            .map(|d| {
                let pose = camera * Isometry3::from_parts(d.position.coords.into(), d.orientation);
                let [x, y, z] = d.size;
                Detection {
                    id: d.local_id.to_string(),
                    class_name: d.class.clone(),
                    confidence: d.confidence,
                    attributes: d.attributes.clone(),
                    pose: Pose::from(pose),
                    covariance: [0.0; 9],
                    size: Vec3::new(x, y, z),
                    reference: String::new(),
                }
            })
            .collect();
        let frame = DetectionFrame {
            stamp: now,
            source: "camera".into(),
            view: Some(View {
                camera: Pose::from(camera),
                horizontal_fov: f.horizontal_fov,
                vertical_fov: f.vertical_fov,
                min_range: f.near,
                max_range: f.far,
            }),
            reference: String::new(),
            detections,
        };
        self.scene.observe(&frame, now).unwrap();
        self.frames += 1;
        self.note_names();
    }

    /// Which name each real object has: the nearest live object of its class within 0.25 m.
    fn note_names(&mut self) {
        for truth in &self.robot.ground_truth().objects {
            let t = truth.pose.translation;
            let at = Vec3::new(t.x, t.y, t.z);
            let class = self.class(&truth.id);
            let nearest = self
                .scene
                .graph()
                .live()
                .filter(|o| o.kind == Kind::Object && o.class_name == class)
                .map(|o| (o.pose.position.distance(at), o.r#ref.clone()))
                .filter(|(d, _)| *d < 0.25)
                .min_by(|a, b| a.0.total_cmp(&b.0));
            if let Some((_, name)) = nearest {
                self.names.entry(truth.id.clone()).or_default().insert(name);
            }
        }
    }

    fn class(&self, id: &str) -> String {
        self.robot
            .world_file()
            .objects
            .iter()
            .find(|o| o.id == id)
            .map(|o| o.class.clone())
            .unwrap()
    }

    fn look(&mut self, pan: f64, tilt: f64, steps: usize) {
        let point = HeadPoint {
            pan,
            tilt,
            at: Duration::from_millis(400),
        };
        self.robot.move_head(vec![point]).unwrap();
        for _ in 0..steps {
            self.step();
        }
    }

    /// Drives to a pose and looks around there.
    fn visit(&mut self, x: f64, y: f64, yaw: f64) {
        let goal = self.robot.navigate("map", Pose2::new(x, y, yaw)).unwrap();
        for _ in 0..5000 {
            self.step();
            match self.robot.nav_status(goal).unwrap() {
                NavStatus::Active(_) => {}
                NavStatus::Succeeded => break,
                other => panic!("({x}, {y}): {other:?}"),
            }
        }
        self.robot
            .set_velocity_command(Velocity::new(0.0, 0.0))
            .unwrap();
        for pan in [0.0, 0.9, -0.9, 0.0] {
            self.look(pan, 0.45, 80);
        }
    }
}

/// Every piece of furniture with something on it, from where a robot would stand.
const STOPS: [(f64, f64, f64); 9] = [
    (1.9, 3.0, -2.2),
    (1.5, 3.4, FRAC_PI_2),
    (3.7, 2.1, -FRAC_PI_2),
    (5.8, 3.0, -0.7),
    (7.0, 1.3, -FRAC_PI_2),
    (7.9, 6.6, 0.9),
    (5.6, 7.6, FRAC_PI_2),
    (2.9, 7.6, 0.8),
    (2.6, 2.8, PI),
];

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

/// Noise well beyond what the thresholds were chosen on: every third detection missed, one frame in
/// twenty invents something, one reading in fifty is of another class, localisation off by 3 cm and 1°.
#[test]
#[ignore = "long: a minute in a debug build; cargo test -p eh_scene -- --include-ignored"]
fn coarse_sensors_confuse_little() {
    let text = world("apartment")
        + "\nnoise: {detection_range: 0.01, detection_range_per_metre: 0.01, detection_angle: 0.005,
                    miss: 0.3, false_positive: 0.05, class_confusion: 0.02,
                    localization_position: 0.03, localization_yaw: 0.017}\n";
    let (mut objects, mut switches, mut ghosts, mut missing) = (0, 0, 0, 0);
    for seed in 11..=11 {
        let mut drive = Drive::new(&text, seed);
        for (x, y, yaw) in STOPS.into_iter().chain(STOPS) {
            drive.visit(x, y, yaw);
        }
        let truth = drive.robot.ground_truth().objects.len();
        let live = drive
            .scene
            .graph()
            .live()
            .filter(|o| o.kind == Kind::Object)
            .count();
        objects += truth;
        switches += drive.names.values().map(|n| n.len() - 1).sum::<usize>();
        missing += truth - drive.names.len();
        ghosts += live.saturating_sub(drive.names.len());
    }
    println!("{objects} objects: {switches} switches, {ghosts} ghosts, {missing} missing");
    assert!(
        switches <= 2 && ghosts <= 2 && missing == 0,
        "{objects} objects: {switches} switches, {ghosts} ghosts, {missing} missing"
    );
}

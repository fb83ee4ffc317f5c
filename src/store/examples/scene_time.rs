//! Measures the scene graph: `scene_time DIRECTORY SECONDS COUNT...`, for `scripts/bench scene`.
//!
//! Prints one figure a line: number of objects, name, value, separated by tabs. Times are in seconds, rates in
//! objects a second. Each figure is measured for `SECONDS`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use eh_contract::geometry::{Pose, Vec3};
use eh_contract::perception::{Detection, DetectionFrame, View};
use eh_contract::scene::{Kind, Relation, RelationKind, SceneObject, Source};
use eh_contract::Stamp;
use eh_scene::graph::Edit;
use eh_scene::lexicon::Lexicon;
use eh_scene::{brief, query, Query, Scene, SceneConfig, SceneGraph};
use eh_store::SceneStore;

/// Counts the bytes that are in use.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is passed on to the system's allocator unchanged; only numbers are kept.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size(), Ordering::Relaxed);
        System.alloc(layout)
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        System.dealloc(at, layout);
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

type Failure = Box<dyn std::error::Error>;

const CLASSES: [&str; 8] = [
    "cup", "bowl", "bottle", "book", "box", "ball", "can", "plate",
];
const COLORS: [&str; 4] = ["red", "blue", "green", "white"];
/// Objects of a room of 5 m x 5 m.
const PER_ROOM: usize = 25;
const ROOM: f64 = 5.0;
/// Objects of a durable batch.
const BATCH: usize = 1000;

/// A small generator (xorshift64*): the same numbers on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n.max(1) as u64).unwrap_or(0)
    }
}

/// A building with as many rooms as its objects need.
struct Building {
    count: usize,
    side: f64,
    random: Random,
}

impl Building {
    fn new(count: usize) -> Self {
        let rooms = count.div_ceil(PER_ROOM) as f64;
        Building {
            count,
            side: rooms.sqrt().ceil() * ROOM,
            random: Random(0x9E37_79B9_7F4A_7C15),
        }
    }

    fn place(&mut self) -> Pose {
        let (x, y) = (
            self.random.unit() * self.side,
            self.random.unit() * self.side,
        );
        let mut pose = Pose::planar(x, y, 0.0);
        pose.position.z = 0.8;
        pose
    }

    fn object(&mut self, number: usize) -> SceneObject {
        let class = CLASSES[number % CLASSES.len()];
        SceneObject {
            r#ref: name(number),
            kind: Kind::Object,
            class_name: class.into(),
            attributes: [("color".to_string(), COLORS[number % 3].to_string())].into(),
            frame_id: "map".into(),
            pose: self.place(),
            size: Vec3::new(0.08, 0.08, 0.1),
            confidence: 0.9,
            first_seen: stamp(number),
            last_seen: stamp(number),
            sightings: 2,
            source: Source::Perception,
            ..SceneObject::default()
        }
    }

    fn graph(&mut self) -> SceneGraph {
        let mut graph = SceneGraph::new("bench", "map");
        for number in 0..self.count {
            let object = self.object(number);
            graph.insert(object, stamp(number));
        }
        graph
    }

    /// Rooms, in which the objects are, and the robot in one of them.
    fn furnish(&self, graph: &mut SceneGraph) {
        let rooms = (self.side / ROOM) as usize;
        for number in 0..rooms * rooms {
            let (x, y) = (
                (number % rooms) as f64 * ROOM,
                (number / rooms) as f64 * ROOM,
            );
            let corners = [(0.0, 0.0), (ROOM, 0.0), (ROOM, ROOM), (0.0, ROOM)];
            let room = SceneObject {
                r#ref: format!("room_{number}"),
                kind: Kind::Room,
                class_name: "room".into(),
                pose: Pose::planar(x + ROOM / 2.0, y + ROOM / 2.0, 0.0),
                outline: corners
                    .iter()
                    .map(|(dx, dy)| Vec3::new(x + dx, y + dy, 0.0))
                    .collect(),
                source: Source::Map,
                ..SceneObject::default()
            };
            graph.insert(room, stamp(0));
        }
        let names: Vec<(String, usize)> = graph
            .of_kind(Kind::Object)
            .map(|o| {
                let column = (o.pose.position.x / ROOM) as usize;
                let row = (o.pose.position.y / ROOM) as usize;
                (o.r#ref.clone(), row * rooms + column)
            })
            .collect();
        let robot = SceneObject {
            r#ref: "robot".into(),
            kind: Kind::Robot,
            class_name: "robot".into(),
            pose: Pose::planar(2.0, 2.0, 0.0),
            source: Source::Perception,
            ..SceneObject::default()
        };
        graph.insert(robot, stamp(0));
        for (subject, room) in names.into_iter().chain([("robot".to_string(), 0)]) {
            graph.relate(Relation {
                subject,
                relation: RelationKind::In,
                object: format!("room_{room}"),
                confidence: 0.95,
                stamp: stamp(0),
                source: Source::Perception,
            });
        }
    }
}

fn name(number: usize) -> String {
    format!("{}_{number}", CLASSES[number % CLASSES.len()])
}

/// One object is seen each second.
fn stamp(number: usize) -> Stamp {
    Stamp((number as i64 + 1) * 1_000_000_000)
}

/// Repeats for a time; returns seconds of one.
fn each(budget: Duration, mut work: impl FnMut()) -> f64 {
    let begin = Instant::now();
    let mut count = 0_u64;
    loop {
        work();
        count += 1;
        let spent = begin.elapsed();
        if spent >= budget {
            return spent.as_secs_f64() / count as f64;
        }
    }
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, seconds, counts @ ..] = arguments.as_slice() else {
        return Err("usage: scene_time DIRECTORY SECONDS COUNT...".into());
    };
    let budget = Duration::from_secs_f64(seconds.parse()?);
    for count in counts {
        measure(Path::new(directory), budget, count.parse()?)?;
    }
    Ok(())
}

fn measure(directory: &Path, budget: Duration, count: usize) -> Result<(), Failure> {
    let tell = |name: &str, value: f64| println!("{count}\t{name}\t{value}");
    let mut building = Building::new(count);
    let objects: Vec<SceneObject> = (0..count).map(|i| building.object(i)).collect();
    let begin = Instant::now();
    let mut graph = SceneGraph::new("bench", "map");
    for (i, object) in objects.into_iter().enumerate() {
        graph.insert(object, stamp(i));
    }
    tell("insert_rate", count as f64 / begin.elapsed().as_secs_f64());
    drop(graph);

    let mut building = Building::new(count);
    let before = IN_USE.load(Ordering::Relaxed);
    let mut graph = building.graph();
    drop(graph.take_changes());
    let used = IN_USE.load(Ordering::Relaxed).saturating_sub(before);
    tell("bytes_per_object", used as f64 / count as f64);

    // Moves anywhere in the building, each a new version.
    let moves = each(budget, || {
        let number = building.random.below(count);
        let pose = building.place();
        graph.edit(&name(number), stamp(number), |o| {
            o.pose = pose;
            Edit::Changed
        });
    });
    tell("move_rate", 1.0 / moves);
    // And sightings in place, without one.
    let mut now = count;
    let sightings = each(budget, || {
        now += 1;
        graph.edit(&name(building.random.below(count)), stamp(now), |o| {
            o.last_seen = stamp(now);
            Edit::Refreshed
        });
    });
    tell("sighting_rate", 1.0 / sightings);
    drop(graph.take_changes());

    let lexicon = Lexicon::builtin();
    let find = |graph: &SceneGraph, query: &Query| -> usize {
        // With copies of what is found, as a caller gets them.
        let found = query::find(graph, query, &lexicon).unwrap_or_default();
        found.into_iter().cloned().collect::<Vec<_>>().len()
    };
    let mut query = Query {
        limit: 5,
        ..Query::default()
    };
    let nearest = each(budget, || {
        query.nearest = Some(building.place().position);
        assert_eq!(find(&graph, &query), 5);
    });
    tell("nearest_s", nearest);
    // Of a circle of 2 m about twelve things, the nearest ten.
    query.limit = 10;
    query.max_distance = 2.0;
    let mut found = 0;
    let mut asked = 0;
    let region = each(budget, || {
        query.nearest = Some(building.place().position);
        found += find(&graph, &query);
        asked += 1;
    });
    tell("region_s", region);
    tell("region_found", found as f64 / asked as f64);
    let text = Query {
        text: "the red cup".into(),
        limit: 10,
        ..Query::default()
    };
    tell("text_s", each(budget, || assert!(find(&graph, &text) > 0)));
    let class = Query {
        class_name: "book".into(),
        limit: 10,
        ..Query::default()
    };
    tell(
        "class_s",
        each(budget, || assert!(find(&graph, &class) > 0)),
    );
    // Of a minute the newest ten.
    let times = each(budget, || {
        let from = building.random.below(count.saturating_sub(60));
        let seen = graph.seen(stamp(from)..=stamp(from + 60));
        let seen: Vec<SceneObject> = seen.take(10).cloned().collect();
        assert!(seen.len() <= 10);
    });
    tell("time_range_s", times);
    let version = graph.version();
    for number in 0..10 {
        graph.edit(&name(number), stamp(now), |_| Edit::Changed);
    }
    let changes = each(budget, || {
        let (objects, _) = graph.changes_since(version);
        assert_eq!(objects.len(), 10);
    });
    tell("changes_s", changes);

    building.furnish(&mut graph);
    let briefs = each(budget, || {
        let text = brief::brief(&graph, "bring the red cup", 1000, stamp(now), &lexicon);
        assert!(text.contains("cup"));
    });
    tell("brief_s", briefs);
    durable(directory, budget, count, &tell)?;
    tracked(budget, graph, &mut building, &tell)
}

/// Batches of moved objects on the disk, and taking all of it up again.
fn durable(
    directory: &Path,
    budget: Duration,
    count: usize,
    tell: &impl Fn(&str, f64),
) -> Result<(), Failure> {
    let folder = directory.join(format!("scene_{count}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder)?;
    let mut building = Building::new(count);
    let mut graph = building.graph();
    let mut store = SceneStore::open(&folder)?;
    store.write(&graph.take_changes())?;
    let batch = BATCH.min(count);
    // New objects, as the other package is given them: first with commits that wait for the disk, as the node's do,
    // then with such that don't, as the other's.
    let mut total = count;
    let mut grow = |graph: &mut SceneGraph, store: &mut SceneStore| -> Result<f64, Failure> {
        let (begin, before) = (Instant::now(), total);
        while begin.elapsed() < budget * 2 {
            for _ in 0..batch {
                let object = building.object(total);
                graph.insert(object, stamp(total));
                total += 1;
            }
            store.write(&graph.take_changes())?;
        }
        Ok((total - before) as f64 / begin.elapsed().as_secs_f64())
    };
    tell("durable_full_rate", grow(&mut graph, &mut store)?);
    drop(store);
    let mut store = SceneStore::open(&folder)?.without_waiting()?;
    tell("durable_rate", grow(&mut graph, &mut store)?);
    drop(store);
    let mut store = SceneStore::open(&folder)?;
    let begin = Instant::now();
    let mut written = 0;
    while begin.elapsed() < budget * 2 {
        for _ in 0..batch {
            let pose = building.place();
            let number = building.random.below(count);
            graph.edit(&name(number), stamp(number), |o| {
                o.pose = pose;
                Edit::Changed
            });
        }
        let changes = graph.take_changes();
        written += changes.objects.len();
        store.write(&changes)?;
    }
    tell(
        "durable_move_rate",
        written as f64 / begin.elapsed().as_secs_f64(),
    );
    drop(store);
    let mut shortest = f64::INFINITY;
    for _ in 0..3 {
        let begin = Instant::now();
        let store = SceneStore::open(&folder)?;
        let mut scene = Scene::new("bench", "map", SceneConfig::default(), Lexicon::default())?;
        scene.restore(store.read("bench")?, stamp(total + 1))?;
        assert_eq!(scene.graph().live_count(), total);
        // It has grown by what was written for the rate.
        let share = count as f64 / total as f64;
        shortest = shortest.min(begin.elapsed().as_secs_f64() * share);
    }
    tell("reload_s", shortest);
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

/// Whole frames of a camera: association, fusion, absence and relations.
fn tracked(
    budget: Duration,
    mut graph: SceneGraph,
    building: &mut Building,
    tell: &impl Fn(&str, f64),
) -> Result<(), Failure> {
    let config = SceneConfig {
        max_objects: 1_000_000,
        ..SceneConfig::default()
    };
    let mut scene = Scene::new("bench", "map", config, Lexicon::builtin())?;
    let mut now = stamp(graph.live_count() * 1000);
    let mut all = graph.take_changes();
    let copy = graph.snapshot();
    all.objects = copy.objects;
    all.relations = copy.relations;
    scene.restore(all, now)?;
    let mut seen = 0;
    let mut frames = 0;
    let spent = each(budget, || {
        now = Stamp(now.0 + 200_000_000);
        let mut camera = building.place();
        camera.position.z = 1.2;
        let around = scene
            .graph()
            .around(camera.position.x, camera.position.y, 3.0);
        let detections: Vec<Detection> = around
            .into_iter()
            .filter(|o| o.kind == Kind::Object)
            .map(|o| Detection {
                id: String::new(),
                class_name: o.class_name.clone(),
                confidence: 0.9,
                attributes: BTreeMap::new(),
                pose: o.pose,
                covariance: [0.0; 9],
                size: o.size,
                reference: String::new(),
            })
            .collect();
        seen += detections.len();
        frames += 1;
        let frame = DetectionFrame {
            stamp: now,
            source: "camera".into(),
            view: Some(View {
                camera,
                horizontal_fov: 1.2,
                vertical_fov: 0.9,
                min_range: 0.2,
                max_range: 4.0,
            }),
            reference: String::new(),
            detections,
        };
        let report = scene.observe(&frame, now);
        assert!(report.is_ok(), "{report:?}");
    });
    tell("frame_s", spent);
    tell("frame_detections", seen as f64 / f64::from(frames));
    Ok(())
}

//! What the indices answer is what a look at everything answers, whatever happened before.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use eh_contract::footprint::Footprint;
use eh_contract::geometry::{Pose, Vec3};
use eh_contract::scene::{Kind, Relation, RelationKind, SceneObject, Source};
use eh_contract::Stamp;
use eh_scene::lexicon::Lexicon;
use eh_scene::query::{ancestors, find};
use eh_scene::{Query, SceneGraph};
use proptest::prelude::*;

const CLASSES: [&str; 4] = ["cup", "box", "table", "ball"];
const COLORS: [&str; 3] = ["red", "blue", "green"];

/// What happens to the graph.
#[derive(Clone, Debug)]
enum Step {
    Put {
        name: u8,
        class: usize,
        color: usize,
        x: f64,
        y: f64,
        size: f64,
    },
    Move {
        name: u8,
        x: f64,
        y: f64,
        is_news: bool,
    },
    Open {
        name: u8,
        open: bool,
    },
    Retire {
        name: u8,
    },
    Revive {
        name: u8,
    },
    Relate {
        name: u8,
        on: u8,
    },
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let name = 0..24u8;
    // Some far away, some larger than a cell of the grid.
    let place = || prop_oneof![9 => -6.0..6.0, 1 => -400.0..400.0f64];
    prop_oneof![
        6 => (name.clone(), 0..4usize, 0..3usize, place(), place(), prop_oneof![0.05..0.5, 1.0..5.0f64])
            .prop_map(|(name, class, color, x, y, size)| Step::Put { name, class, color, x, y, size }),
        6 => (name.clone(), place(), place(), any::<bool>())
            .prop_map(|(name, x, y, is_news)| Step::Move { name, x, y, is_news }),
        1 => (name.clone(), any::<bool>()).prop_map(|(name, open)| Step::Open { name, open }),
        2 => name.clone().prop_map(|name| Step::Retire { name }),
        1 => name.clone().prop_map(|name| Step::Revive { name }),
        2 => (name.clone(), name).prop_map(|(name, on)| Step::Relate { name, on }),
        1 => Just(Step::Restart),
    ]
}

fn name_of(number: u8) -> String {
    format!("thing_{number}")
}

fn apply(graph: &mut SceneGraph, step: Step, stamp: Stamp) {
    use eh_scene::graph::Edit;
    match step {
        Step::Put {
            name,
            class,
            color,
            x,
            y,
            size,
        } => graph.insert(
            SceneObject {
                r#ref: name_of(name),
                kind: if class == 2 {
                    Kind::Surface
                } else {
                    Kind::Object
                },
                class_name: CLASSES[class].into(),
                aliases: if class == 3 {
                    vec!["Kugel".into()]
                } else {
                    vec![]
                },
                attributes: [("color".to_string(), COLORS[color].to_string())].into(),
                pose: Pose::planar(x, y, 0.3),
                size: Vec3::new(size, size / 2.0, 0.1),
                last_seen: stamp,
                ..SceneObject::default()
            },
            stamp,
        ),
        Step::Move {
            name,
            x,
            y,
            is_news,
        } => {
            graph.edit(&name_of(name), stamp, |o| {
                o.pose = Pose::planar(x, y, 0.0);
                o.last_seen = stamp;
                if is_news {
                    Edit::Changed
                } else {
                    Edit::Refreshed
                }
            });
        }
        Step::Open { name, open } => {
            graph.edit(&name_of(name), stamp, |o| {
                let word = if open { "open" } else { "closed" };
                o.state.insert("lid".into(), word.into());
                Edit::Changed
            });
        }
        Step::Retire { name } => graph.retire(&name_of(name), "", stamp, 4),
        Step::Revive { name } => graph.revive(&name_of(name), stamp),
        Step::Relate { name, on } => {
            let (subject, object) = (name_of(name), name_of(on));
            if graph.get(&subject).is_some() && graph.get(&object).is_some() {
                graph.relate(Relation {
                    subject,
                    relation: RelationKind::On,
                    object,
                    confidence: 1.0,
                    stamp,
                    source: Source::Perception,
                });
            }
        }
        Step::Restart => {
            let mut changes = graph.take_changes();
            let all = graph.snapshot();
            changes.objects = all.objects;
            changes.relations = all.relations;
            let mut again = SceneGraph::new("home", "map");
            again.restore(changes);
            *graph = again;
        }
    }
}

fn refs<'a>(found: impl IntoIterator<Item = &'a SceneObject>) -> Vec<String> {
    found.into_iter().map(|o| o.r#ref.clone()).collect()
}

fn asked(graph: &SceneGraph, query: Query) -> Vec<String> {
    static LEXICON: LazyLock<Lexicon> = LazyLock::new(Lexicon::builtin);
    refs(find(graph, &query, &LEXICON).unwrap())
}

/// What a look at everything finds.
fn scanned(graph: &SceneGraph, passes: impl Fn(&SceneObject) -> bool) -> Vec<String> {
    refs(graph.live().filter(|o| passes(o)))
}

fn distance(o: &SceneObject, from: Vec3) -> f64 {
    Footprint::new(&o.pose, o.size).distance(from.x, from.y)
}

fn check(graph: &SceneGraph) {
    assert_eq!(graph.live_count(), graph.live().count());
    for class in CLASSES {
        let query = Query {
            class_name: class.into(),
            ..Query::default()
        };
        assert_eq!(
            asked(graph, query),
            scanned(graph, |o| o.class_name == class)
        );
        for color in COLORS {
            let query = Query {
                text: format!("the {color} {class}"),
                ..Query::default()
            };
            let alike = scanned(graph, |o| {
                o.class_name == class && o.attributes.get("color").is_some_and(|c| c == color)
            });
            assert_eq!(asked(graph, query), alike);
        }
    }
    let query = |text: &str| Query {
        text: text.into(),
        ..Query::default()
    };
    assert_eq!(
        asked(graph, query("Kugel")),
        scanned(graph, |o| !o.aliases.is_empty())
    );
    assert_eq!(
        asked(graph, query("thing_3")),
        scanned(graph, |o| o.r#ref == "thing_3")
    );
    let open = Query {
        attributes: [("lid".to_string(), "open".to_string())].into(),
        ..Query::default()
    };
    let is_open = |o: &SceneObject| o.state.get("lid").map(String::as_str) == Some("open");
    assert_eq!(asked(graph, open), scanned(graph, is_open));
    for from in [
        Vec3::new(0.0, 0.0, 0.0),
        Vec3::new(-3.2, 4.9, 0.0),
        Vec3::new(900.0, 0.0, 0.0),
    ] {
        let mut sorted: Vec<&SceneObject> = graph.live().collect();
        sorted.sort_by(|a, b| {
            distance(a, from)
                .total_cmp(&distance(b, from))
                .then_with(|| a.r#ref.cmp(&b.r#ref))
        });
        for (limit, most) in [(1, 0.0), (5, 0.0), (100, 3.0)] {
            let query = Query {
                nearest: Some(from),
                max_distance: most,
                limit,
                ..Query::default()
            };
            let near = |o: &&&SceneObject| most == 0.0 || distance(o, from) <= most;
            let expected = refs(sorted.iter().filter(near).take(limit).copied());
            assert_eq!(
                asked(graph, query),
                expected,
                "{limit} within {most} of {from:?}"
            );
        }
        let around: BTreeSet<String> = refs(graph.around(from.x, from.y, 2.0))
            .into_iter()
            .collect();
        for object in sorted.iter().filter(|o| distance(o, from) <= 2.0) {
            assert!(around.contains(&object.r#ref));
        }
    }
    for on in ["thing_1", "thing_2"] {
        if graph.get(on).is_some() {
            let query = Query {
                within: on.into(),
                ..Query::default()
            };
            let expected = scanned(graph, |o| ancestors(graph, &o.r#ref).contains(on));
            assert_eq!(asked(graph, query), expected);
        }
    }
    let half = graph.version() / 2;
    let newer: Vec<String> = graph
        .all()
        .filter(|o| o.version > half)
        .map(|o| o.r#ref.clone())
        .collect();
    assert_eq!(refs(&graph.changes_since(half).0), newer);
    let times = Stamp(5)..=Stamp(20);
    let seen: BTreeSet<String> = refs(graph.seen(times.clone())).into_iter().collect();
    let expected: BTreeSet<String> = scanned(graph, |o| times.contains(&o.last_seen))
        .into_iter()
        .collect();
    assert_eq!(seen, expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn indices_answer_as_a_look_at_everything(steps in prop::collection::vec(step(), 1..60)) {
        let mut graph = SceneGraph::new("home", "map");
        for (i, step) in steps.into_iter().enumerate() {
            apply(&mut graph, step, Stamp(i as i64 + 1));
        }
        check(&graph);
    }
}

#[test]
fn places_at_the_end_of_the_world_are_found() {
    let mut graph = SceneGraph::new("home", "map");
    let far = [0.0, 1e7, -1e12, 1e300, f64::INFINITY, f64::NAN];
    for (i, x) in far.iter().enumerate() {
        let object = SceneObject {
            r#ref: format!("o{i}"),
            kind: Kind::Object,
            class_name: "cup".into(),
            pose: Pose::planar(*x, 0.0, 0.0),
            size: Vec3::new(0.1, 0.1, 0.1),
            ..SceneObject::default()
        };
        graph.insert(object, Stamp(1));
    }
    let query = Query {
        nearest: Some(Vec3::new(0.0, 0.0, 0.0)),
        limit: 2,
        ..Query::default()
    };
    assert_eq!(asked(&graph, query), ["o0", "o1"]);
}

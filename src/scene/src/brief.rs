//! The short text for a planner: what the task names first, then what is around the robot, then the rest,
//! until the budget is used up.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use eh_contract::belief::{STATE_ARM, STATE_SEEN_AT};
use eh_contract::condition::ROBOT;
use eh_contract::scene::{Kind, RelationKind, SceneObject};
use eh_contract::Stamp;

use crate::graph::SceneGraph;
use crate::lexicon::Lexicon;
use crate::query::{ancestors, contents, named, Fitting};

/// Tokens where a request names no budget.
pub const DEFAULT_BUDGET: usize = 1000;

/// Largest budget.
pub const MAX_BUDGET: usize = 100_000;

/// Tokens of the shortest line about a node: a ref and its end.
const SHORTEST: usize = 4;

/// Most neighbours of a thing that are told.
const NEIGHBOURS: usize = 2;

/// Lines that found no room any more before the rest is not tried.
const TOO_LONG: usize = 16;

/// Tokens of a text: about four characters of Latin script each, one for each other character.
pub fn tokens(text: &str) -> usize {
    let (latin, other) = text.chars().fold((0_usize, 0_usize), |(l, o), c| {
        if c.is_ascii() {
            (l + 1, o)
        } else {
            (l, o + 1)
        }
    });
    latin.div_ceil(4) + other
}

/// The text within a budget of tokens; zero: [`DEFAULT_BUDGET`].
pub fn brief(
    graph: &SceneGraph,
    focus: &str,
    budget: usize,
    now: Stamp,
    lexicon: &Lexicon,
) -> String {
    let budget = match budget {
        0 => DEFAULT_BUDGET,
        n => n.min(MAX_BUDGET),
    };
    let terms = lexicon.terms(focus, |word| graph.knows_word(word));
    let robot_room = room_of(graph, ROBOT);
    let mut lines = vec![robot_line(graph)];

    let robot = graph.get(ROBOT).map(|r| r.pose.position);
    let far = |o: &SceneObject| robot.map_or(0.0, |at| at.distance_xy(o.pose.position));

    // No line is shorter than this many tokens.
    let most = budget / SHORTEST;
    // What the task names, with the places that it is in, comes first; nothing is looked up that no budget
    // has room for.
    let named = in_order(named(graph, &terms, 1, most, lexicon), far, most);
    let places: BTreeSet<String> = named
        .iter()
        .flat_map(|name| ancestors(graph, name))
        .collect();
    let rooms = graph
        .of_kind(Kind::Room)
        .map(|o| o.r#ref.as_str())
        .take(most);
    let second: BTreeSet<&str> = places.iter().map(String::as_str).chain(rooms).collect();
    let here = robot_room
        .as_deref()
        .map(|room| contents(graph, room, most))
        .unwrap_or_default();
    let is_thing = |name: &&str| {
        graph
            .get(name)
            .is_some_and(|o| matches!(o.kind, Kind::Object | Kind::Person))
    };
    let (things, fixed): (Vec<&str>, Vec<&str>) =
        here.iter().map(String::as_str).partition(is_thing);
    let elsewhere = [
        Kind::Object,
        Kind::Person,
        Kind::Unspecified,
        Kind::Surface,
        Kind::Container,
        Kind::Place,
        Kind::Door,
    ]
    .into_iter()
    .flat_map(|kind| graph.of_kind(kind))
    .map(|o| o.r#ref.as_str());
    let entries = named
        .iter()
        .copied()
        .chain(second)
        .chain(things)
        .chain(fixed)
        .chain(elsewhere);

    let is_named: BTreeSet<&str> = named.iter().copied().collect();
    let mut used = tokens(&lines.concat()) + 1;
    let untold = [Kind::Robot, Kind::Building, Kind::Floor];
    let left_out: usize = untold.iter().map(|kind| graph.of_kind(*kind).count()).sum();
    let total = graph.live_count().saturating_sub(left_out);
    let mut told: BTreeSet<&str> = BTreeSet::new();
    let mut too_long = 0;
    for name in entries {
        if too_long >= TOO_LONG {
            break;
        }
        let Some(object) = graph.get(name).filter(|o| !untold.contains(&o.kind)) else {
            continue;
        };
        if told.contains(name) {
            continue;
        }
        let mut line = object_line(graph, object, now);
        if is_named.contains(name) {
            neighbours(graph, object, &mut line);
        }
        let cost = tokens(&line) + 1;
        // Room for the last line, which says what was left out.
        if used + cost + 16 > budget {
            too_long += 1;
            continue;
        }
        used += cost;
        told.insert(name);
        lines.push(line);
    }
    if told.len() < total {
        lines.push(format!("{} more; ask with find", total - told.len()));
    }
    lines.join("\n")
}

/// What is named, in the order in which it is told: what fits best first, and of what fits as well what is near;
/// but before a second one for the same words there is one for every other word.
fn in_order<'a>(
    named: BTreeMap<&'a str, (Fitting, &'a SceneObject)>,
    far: impl Fn(&SceneObject) -> f64,
    most: usize,
) -> Vec<&'a str> {
    let mut named: Vec<(Fitting, f64, &str)> = named
        .into_iter()
        .map(|(name, (fitting, object))| (fitting, far(object), name))
        .collect();
    named.sort_by(|a, b| {
        (b.0.count().cmp(&a.0.count()))
            .then_with(|| a.1.total_cmp(&b.1))
            .then_with(|| a.2.cmp(b.2))
    });
    let mut told = Fitting::default();
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    for (fitting, _, name) in named {
        if fitting.without(told).is_empty() {
            rest.push(name);
        } else {
            told = told.and_of(fitting);
            first.push(name);
        }
    }
    first.extend(rest);
    first.truncate(most);
    first
}

/// The nearest of what is told to be beside it.
fn neighbours(graph: &SceneGraph, object: &SceneObject, line: &mut String) {
    let mut near: Vec<(f64, String)> = graph
        .objects_of(&object.r#ref, RelationKind::Near)
        .into_iter()
        .filter_map(|name| {
            let other = graph.get(&name)?;
            Some((other.pose.position.distance(object.pose.position), name))
        })
        .collect();
    near.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
    for (_, name) in near.into_iter().take(NEIGHBOURS) {
        let _ = write!(line, " near {name}");
    }
}

fn room_of(graph: &SceneGraph, name: &str) -> Option<String> {
    ancestors(graph, name)
        .into_iter()
        .chain([name.to_string()])
        .find(|r| graph.get(r).is_some_and(|o| o.kind == Kind::Room))
}

/// Where the robot is, what it holds and what is near it.
pub(crate) fn robot_line(graph: &SceneGraph) -> String {
    let room = room_of(graph, ROBOT);
    let mut line = format!("map {} v{}; robot", graph.map_id(), graph.version());
    match room {
        Some(room) => {
            let _ = write!(line, " in {room}");
        }
        None => line.push_str(" at an unknown place"),
    }
    let held = graph.objects_of(ROBOT, RelationKind::Holds);
    if held.is_empty() {
        line.push_str(", holds nothing");
    } else {
        let _ = write!(line, ", holds {}", held.join(" "));
    }
    let near = graph.objects_of(ROBOT, RelationKind::Near);
    if !near.is_empty() {
        let shown: Vec<&str> = near.iter().take(6).map(String::as_str).collect();
        let _ = write!(line, ", near {}", shown.join(" "));
    }
    if let Some(arm) = graph.get(ROBOT).and_then(|r| r.state.get(STATE_ARM)) {
        let _ = write!(line, ", arm {arm}");
    }
    line
}

/// Every edge of a node that its line does not tell, from both ends.
pub(crate) fn edges(graph: &SceneGraph, object: &SceneObject, line: &mut String) {
    use RelationKind::{Holds, In, Near, On, Under};
    for relation in [Near, Holds] {
        for end in graph.objects_of(&object.r#ref, relation) {
            let _ = write!(line, " {} {end}", relation.name());
        }
    }
    for relation in [On, In, Near, Under, Holds] {
        for from in graph.subjects_of(&object.r#ref, relation) {
            let _ = write!(line, "; {from} {} it", relation.name());
        }
    }
}

/// What is known of a node, in one line.
pub(crate) fn object_line(graph: &SceneGraph, object: &SceneObject, now: Stamp) -> String {
    let mut line = object.r#ref.clone();
    if object.class_name != object.r#ref && !object.class_name.is_empty() {
        let _ = write!(line, " ({})", object.class_name);
    }
    for value in object.attributes.values().filter(|v| *v != "true") {
        let _ = write!(line, " {value}");
    }
    if let Some(alias) = object.aliases.iter().find(|a| !a.is_ascii()) {
        let _ = write!(line, " {alias}");
    }
    for (relation, word) in [
        (RelationKind::On, "on"),
        (RelationKind::Under, "under"),
        (RelationKind::In, "in"),
    ] {
        let mut places = graph.objects_of(&object.r#ref, relation);
        // The room is told by the furniture.
        if relation == RelationKind::In
            && !graph.objects_of(&object.r#ref, RelationKind::On).is_empty()
        {
            places.clear();
        }
        for place in places.iter().filter(|p| *p != eh_contract::prior::BUILDING) {
            let _ = write!(line, " {word} {place}");
        }
    }
    let ends = graph.objects_of(&object.r#ref, RelationKind::Connects);
    if !ends.is_empty() {
        let _ = write!(line, " {}", ends.join("-"));
    }
    for (key, value) in &object.state {
        if key != STATE_SEEN_AT {
            let _ = write!(line, " {key}={value}");
        }
    }
    if matches!(object.kind, Kind::Object | Kind::Person) {
        if object.last_seen.is_never() {
            line.push_str(" seen ?");
        } else {
            let age = now.since(object.last_seen).as_secs();
            let _ = match age {
                0..=119 => write!(line, " {age}s"),
                120..=7199 => write!(line, " {}min", age / 60),
                _ => write!(line, " {}h", age / 3600),
            };
        }
        if object.confidence < 0.5 {
            let _ = write!(line, " unsure {:.1}", object.confidence);
        }
    }
    line
}

//! The graph as levels that are opened and closed: building and floors, rooms, views, things.
//!
//! A *view* is what one look covers: a piece of furniture with what is on and in it, or the rest of a room. A
//! planner begins with the rooms, opens where what it needs may be, closes what turned out not to matter, and
//! never reads the whole graph (the search of SayPlan, <https://arxiv.org/abs/2307.06135>). The server keeps
//! nothing of that: who asks says each time what is open.
//!
//! With words to look for, each level that is closed tells how much in it fits them: coarse to fine, and for
//! each view the newest image of it, for a look with the own eyes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use eh_contract::condition::ROBOT;
use eh_contract::scene::{Kind, Relation, RelationKind, SceneObject};
use eh_contract::Stamp;
use serde::{Deserialize, Serialize};

use crate::brief::{self, tokens};
use crate::effects::require;
use crate::error::SceneError;
use crate::graph::SceneGraph;
use crate::lexicon::Lexicon;
use crate::query::{ancestors, named};

/// What stands behind a room's name for the view of what is on none of its furniture.
pub const REST: &str = ":rest";

/// Most names that are opened at once.
pub const MAX_OPEN: usize = 256;

/// Most things that are looked for by words.
const MOST_FITTING: usize = 4096;

/// Most classes of a closed level that are told by name.
const CLASSES: usize = 6;

/// Tokens of the shortest line.
const SHORTEST: usize = 3;

/// How coarse an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// A floor of a building.
    Floor,
    /// A room.
    Room,
    /// What one look covers.
    View,
    /// A thing.
    Object,
}

/// One line of an outline.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Ref of the node; of the view of a room's rest the room's ref and [`REST`]. It is what is opened.
    pub name: String,
    /// How coarse it is.
    pub level: Level,
    /// How many levels it is below the first, for an indent.
    pub depth: usize,
    /// Whether what is in it follows.
    pub is_open: bool,
    /// How many things are in it.
    pub inside: usize,
    /// How many of these fit the words best.
    pub fitting: usize,
    /// The newest image of what is in it; empty: none.
    pub image: String,
    /// What is said of it.
    pub text: String,
}

/// The levels, each entry before what is in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outline {
    /// Entries in order: what fits the words best first.
    pub entries: Vec<Entry>,
    /// The entries as text, with one line about the robot before and, when something was cut off, one after it.
    pub text: String,
    /// The nodes that the entries stand for.
    pub objects: Vec<SceneObject>,
    /// Edges between two of these nodes.
    pub relations: Vec<Relation>,
}

/// What is in one view.
#[derive(Default)]
struct View {
    things: Vec<String>,
}

struct Maker<'a> {
    graph: &'a SceneGraph,
    open: &'a BTreeSet<String>,
    now: Stamp,
    /// What fits the words best.
    fitting: BTreeSet<&'a str>,
    /// How many of it are in a room or a piece of furniture.
    inside: BTreeMap<String, usize>,
    entries: Vec<Entry>,
    /// Entries beyond which no budget reaches.
    most: usize,
}

/// The outline in which these names are open; `text` is what is looked for, empty: nothing.
///
/// `budget` are the tokens of the text, zero: [`brief::DEFAULT_BUDGET`]. What does not fit in is left out and
/// counted.
///
/// # Errors
/// [`SceneError::RefNotFound`] for a name that there is not, [`SceneError::InvalidRequest`] when too many are open.
pub fn outline(
    graph: &SceneGraph,
    open: &BTreeSet<String>,
    text: &str,
    budget: usize,
    now: Stamp,
    lexicon: &Lexicon,
) -> Result<Outline, SceneError> {
    if open.len() > MAX_OPEN {
        return Err(SceneError::InvalidRequest {
            reason: format!(
                "{} names are to be open, the limit is {MAX_OPEN}; close what does not matter",
                open.len()
            ),
        });
    }
    for name in open {
        require(graph, name.strip_suffix(REST).unwrap_or(name))?;
    }
    let budget = match budget {
        0 => brief::DEFAULT_BUDGET,
        n => n.min(brief::MAX_BUDGET),
    };
    let mut maker = Maker {
        graph,
        open,
        now,
        fitting: BTreeSet::new(),
        inside: BTreeMap::new(),
        entries: Vec::new(),
        most: budget / SHORTEST,
    };
    maker.look_for(text, lexicon);
    maker.floors();
    Ok(finish(graph, maker.entries, budget))
}

impl<'a> Maker<'a> {
    fn look_for(&mut self, text: &str, lexicon: &Lexicon) {
        let graph = self.graph;
        let terms = lexicon.terms(text, |word| graph.knows_word(word));
        let found = named(graph, &terms, 1, MOST_FITTING, lexicon);
        let is_thing = |o: &SceneObject| matches!(o.kind, Kind::Object | Kind::Person);
        let best = found
            .values()
            .filter(|(_, o)| is_thing(o))
            .map(|(fitting, _)| fitting.count())
            .max();
        for (name, (fitting, object)) in found {
            if is_thing(object) && Some(fitting.count()) == best {
                self.fitting.insert(name);
                for place in ancestors(graph, name) {
                    *self.inside.entry(place).or_insert(0) += 1;
                }
            }
        }
    }

    fn is_full(&self) -> bool {
        self.entries.len() >= self.most
    }

    fn floors(&mut self) {
        let floors: Vec<&str> = self
            .graph
            .of_kind(Kind::Floor)
            .map(|o| o.r#ref.as_str())
            .collect();
        let mut on_floors = BTreeSet::new();
        for floor in floors {
            let rooms: Vec<String> = self.within(floor, Kind::Room);
            on_floors.extend(rooms.iter().cloned());
            // Floors are few, and nobody plans without the rooms.
            self.entries.push(Entry {
                name: floor.into(),
                level: Level::Floor,
                depth: 0,
                is_open: true,
                inside: rooms.len(),
                fitting: self.inside.get(floor).copied().unwrap_or(0),
                image: String::new(),
                text: format!("{floor}: {} rooms", rooms.len()),
            });
            self.rooms(rooms, 1);
        }
        let rest: Vec<String> = self
            .graph
            .of_kind(Kind::Room)
            .map(|o| o.r#ref.clone())
            .filter(|room| !on_floors.contains(room))
            .collect();
        self.rooms(rest, 0);
        // What is in no room.
        let lost: Vec<String> = [Kind::Object, Kind::Person]
            .into_iter()
            .flat_map(|kind| self.graph.of_kind(kind))
            .filter(|o| {
                ![RelationKind::In, RelationKind::On]
                    .into_iter()
                    .any(|r| !self.graph.objects_of(&o.r#ref, r).is_empty())
            })
            .map(|o| o.r#ref.clone())
            .take(self.most)
            .collect();
        self.things(lost, 0);
    }

    /// Nodes of a kind that are in something.
    fn within(&self, name: &str, kind: Kind) -> Vec<String> {
        let inside = self.graph.subjects_of(name, RelationKind::In);
        let is_kind = |n: &String| self.graph.get(n).is_some_and(|o| o.kind == kind);
        inside.into_iter().filter(is_kind).collect()
    }

    fn rooms(&mut self, mut rooms: Vec<String>, depth: usize) {
        let fitting = |room: &String| self.inside.get(room).copied().unwrap_or(0);
        rooms.sort_by(|a, b| {
            let open = |r: &String| self.open.contains(r);
            (fitting(b).cmp(&fitting(a)))
                .then_with(|| open(b).cmp(&open(a)))
                .then_with(|| a.cmp(b))
        });
        for room in rooms {
            if self.is_full() {
                return;
            }
            let views = self.views(&room);
            let things: Vec<&String> = views.values().flat_map(|v| &v.things).collect();
            let opened = |name: &String| self.open.contains(name);
            let is_open = opened(&room)
                || views.keys().any(opened)
                || things.iter().any(|thing| self.open.contains(*thing));
            let mut text = format!("{room}: {}", self.counted(&things));
            self.doors(&room, &mut text);
            let entry = Entry {
                level: Level::Room,
                depth,
                is_open,
                inside: things.len(),
                fitting: self.inside.get(&room).copied().unwrap_or(0),
                image: String::new(),
                text,
                name: room,
            };
            self.push(entry);
            if is_open {
                self.open_views(views, depth + 1);
            }
        }
    }

    /// What is in a room, by view.
    fn views(&self, room: &str) -> BTreeMap<String, View> {
        let graph = self.graph;
        let mut views: BTreeMap<String, View> = BTreeMap::new();
        for name in graph.subjects_of(room, RelationKind::In) {
            let Some(object) = graph.get(&name) else {
                continue;
            };
            match object.kind {
                Kind::Surface | Kind::Container => {
                    let on = graph.subjects_of(&name, RelationKind::On);
                    let inside = graph.subjects_of(&name, RelationKind::In);
                    let view = views.entry(name).or_default();
                    view.things.extend(on.into_iter().chain(inside));
                }
                Kind::Object | Kind::Person | Kind::Place | Kind::Unspecified => {
                    let on = graph.objects_of(&name, RelationKind::On);
                    let inside = graph.objects_of(&name, RelationKind::In);
                    // It is told with its furniture.
                    if on.is_empty() && inside.iter().all(|place| place == room) {
                        let rest = format!("{room}{REST}");
                        views.entry(rest).or_default().things.push(name);
                    }
                }
                Kind::Robot | Kind::Door | Kind::Room | Kind::Floor | Kind::Building => {}
            }
        }
        views
    }

    fn open_views(&mut self, views: BTreeMap<String, View>, depth: usize) {
        let count = |view: &View| {
            let fits = |t: &&String| self.fitting.contains(t.as_str());
            view.things.iter().filter(fits).count()
        };
        let mut views: Vec<(usize, String, View)> = views
            .into_iter()
            .map(|(name, view)| (count(&view), name, view))
            .collect();
        views.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        for (fitting, name, view) in views {
            if self.is_full() {
                return;
            }
            let things: Vec<&String> = view.things.iter().collect();
            let is_open =
                self.open.contains(&name) || things.iter().any(|thing| self.open.contains(*thing));
            let class = self.graph.get(&name).map(|o| o.class_name.as_str());
            let class = class.filter(|c| !c.is_empty() && *c != name);
            let class = class.map_or(String::new(), |c| format!(" ({c})"));
            let entry = Entry {
                level: Level::View,
                depth,
                is_open,
                inside: things.len(),
                fitting,
                image: self.newest_image(&things),
                text: format!("{name}{class}: {}", self.counted(&things)),
                name,
            };
            self.push(entry);
            if is_open {
                self.things(view.things, depth + 1);
            }
        }
    }

    fn things(&mut self, mut things: Vec<String>, depth: usize) {
        let fits = |name: &String| self.fitting.contains(name.as_str());
        things.sort_by(|a, b| fits(b).cmp(&fits(a)).then_with(|| a.cmp(b)));
        for name in things {
            let fitting = usize::from(self.fitting.contains(name.as_str()));
            if self.is_full() {
                return;
            }
            let Some(object) = self.graph.get(&name) else {
                continue;
            };
            let is_open = self.open.contains(&name);
            let mut text = brief::object_line(self.graph, object, self.now);
            if is_open {
                brief::edges(self.graph, object, &mut text);
            }
            let entry = Entry {
                level: Level::Object,
                depth,
                is_open,
                inside: 0,
                fitting,
                image: object.evidence.first().cloned().unwrap_or_default(),
                text,
                name,
            };
            self.push(entry);
        }
    }

    fn push(&mut self, mut entry: Entry) {
        if !entry.is_open && entry.level != Level::Object && entry.fitting > 0 {
            let _ = write!(entry.text, "; {} fit", entry.fitting);
        }
        self.entries.push(entry);
    }

    /// "12 things: 3 cup, 2 box".
    fn counted(&self, things: &[&String]) -> String {
        let mut classes: BTreeMap<&str, usize> = BTreeMap::new();
        for object in things.iter().filter_map(|name| self.graph.get(name)) {
            *classes.entry(object.class_name.as_str()).or_insert(0) += 1;
        }
        let mut classes: Vec<(usize, &str)> = classes.into_iter().map(|(c, n)| (n, c)).collect();
        classes.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        let names: Vec<String> = classes
            .iter()
            .take(CLASSES)
            .map(|(n, class)| format!("{n} {class}"))
            .collect();
        match things.len() {
            0 => "empty".into(),
            n => {
                let more = if classes.len() > CLASSES { ", …" } else { "" };
                format!("{n} things: {}{more}", names.join(", "))
            }
        }
    }

    /// Where a room's doors lead.
    fn doors(&self, room: &str, text: &mut String) {
        let graph = self.graph;
        let mut doors: Vec<String> = Vec::new();
        for door in graph.subjects_of(room, RelationKind::Connects) {
            let ends = graph.objects_of(&door, RelationKind::Connects);
            let other = ends.iter().find(|r| *r != room);
            let open = graph
                .get(&door)
                .and_then(|d| d.state.get(eh_contract::belief::STATE_OPEN));
            let closed = if open.is_some_and(|o| o == "false") {
                " closed"
            } else {
                ""
            };
            if let Some(other) = other {
                doors.push(format!("{door} to {other}{closed}"));
            }
        }
        if !doors.is_empty() {
            let _ = write!(text, "; {}", doors.join(", "));
        }
    }

    fn newest_image(&self, things: &[&String]) -> String {
        things
            .iter()
            .filter_map(|name| self.graph.get(name))
            .filter_map(|o| Some((o.last_seen, o.evidence.first()?)))
            .max()
            .map(|(_, image)| image.clone())
            .unwrap_or_default()
    }
}

/// Cuts off what no longer fits into the budget.
fn finish(graph: &SceneGraph, entries: Vec<Entry>, budget: usize) -> Outline {
    let mut lines = vec![brief::robot_line(graph)];
    let mut used = tokens(&lines.concat()) + 1;
    let mut told = Vec::new();
    let all = entries.len();
    for entry in entries {
        let mut line = " ".repeat(entry.depth);
        line.push(if entry.is_open { '-' } else { '+' });
        if entry.level == Level::Object && !entry.is_open {
            line.pop();
        }
        line.push_str(&entry.text);
        let cost = tokens(&line) + 1;
        // Room for the last line.
        if used + cost + 8 > budget {
            break;
        }
        used += cost;
        lines.push(line);
        told.push(entry);
    }
    if told.len() < all {
        lines.push(format!("{} lines more; close something", all - told.len()));
    }
    let names: BTreeSet<&str> = told
        .iter()
        .filter(|e| !e.name.ends_with(REST))
        .map(|e| e.name.as_str())
        .chain([ROBOT])
        .collect();
    let nodes: Vec<&SceneObject> = names.iter().filter_map(|name| graph.get(name)).collect();
    let relations: Vec<Relation> = nodes
        .iter()
        .flat_map(|o| graph.from_subject(&o.r#ref))
        .filter(|r| names.contains(r.object.as_str()))
        .cloned()
        .collect();
    Outline {
        text: lines.join("\n"),
        objects: nodes.into_iter().cloned().collect(),
        relations,
        entries: told,
    }
}

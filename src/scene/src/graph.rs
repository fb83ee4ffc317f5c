//! Nodes and edges with versions.
//!
//! There is one number for the whole graph; each meaningful change takes the next one and leaves it at
//! the node or edge that changed. A sighting that only confirms what is known refreshes stamps and
//! confidence without a new version, so that a plan made on a version is not outdated by looking on.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::ops::RangeInclusive;

use arcstr::ArcStr as Name;
use eh_contract::geometry::Pose;
use eh_contract::scene::{Kind, Relation, RelationKind, SceneObject, SceneSnapshot, Source};
use eh_contract::Stamp;
use serde::{Deserialize, Serialize};

use crate::grid::Grid;
use crate::index::{label_of, Index, Keys};

/// Subject, relation, object.
pub type EdgeKey = (String, RelationKind, String);

/// How many poses of an object at former versions are kept.
const HISTORY: usize = 32;

/// What an edit of a node was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Edit {
    /// Nothing.
    Same,
    /// Stamps, confidence or small movements: no new version.
    Refreshed,
    /// A new version.
    Changed,
}

impl Edit {
    /// What a change of confidence is: halves of the scale are news, each single step is not.
    pub(crate) fn of_confidence(before: f64, now: f64) -> Self {
        if (before >= 0.5) == (now >= 0.5) {
            Edit::Refreshed
        } else {
            Edit::Changed
        }
    }
}

/// What has to be made durable since the last time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChangeSet {
    /// Map that all of it belongs to.
    pub map_id: String,
    /// Version of the whole graph.
    pub version: u64,
    /// Newest change.
    pub stamp: Stamp,
    /// Nodes to write.
    pub objects: Vec<SceneObject>,
    /// Nodes to delete.
    pub removed_objects: Vec<String>,
    /// Edges to write.
    pub relations: Vec<Relation>,
    /// Edges to delete.
    pub removed_relations: Vec<EdgeKey>,
    /// For each class that got a new object, the last number given.
    pub counters: Vec<(String, u64)>,
    /// Runs whose effects were applied, oldest first.
    pub applied: Vec<String>,
}

impl ChangeSet {
    /// True when there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
            && self.removed_objects.is_empty()
            && self.relations.is_empty()
            && self.removed_relations.is_empty()
            && self.counters.is_empty()
            && self.applied.is_empty()
    }
}

/// A node and the label under which the index has it.
#[derive(Clone, Debug)]
struct Node {
    object: SceneObject,
    label: u64,
}

impl Node {
    fn keys(&self) -> Keys {
        Keys::of(&self.object, self.label)
    }
}

/// Nodes and edges of one map.
#[derive(Clone, Debug, Default)]
pub struct SceneGraph {
    map_id: String,
    frame_id: String,
    version: u64,
    /// Counts refreshes too.
    revision: u64,
    stamp: Stamp,
    /// Boxed, since a half-full table would else hold a lot of nothing. Their order is that of the index.
    objects: HashMap<Name, Box<Node>>,
    index: Index,
    edges: BTreeMap<EdgeKey, (Relation, u64)>,
    /// Object, relation, subject: the edges from the other end.
    reverse: BTreeSet<EdgeKey>,
    counters: BTreeMap<String, u64>,
    /// Of nodes that have changed: the poses at their versions, the present one too.
    history: HashMap<String, VecDeque<(u64, Pose)>>,
    retired: VecDeque<String>,
    dirty_objects: HashSet<Name>,
    dirty_edges: BTreeSet<EdgeKey>,
    dirty_counters: BTreeSet<String>,
}

impl SceneGraph {
    /// Creates an empty graph.
    pub fn new(map_id: &str, frame_id: &str) -> Self {
        SceneGraph {
            map_id: map_id.into(),
            frame_id: frame_id.into(),
            ..SceneGraph::default()
        }
    }

    /// Name of the map.
    pub fn map_id(&self) -> &str {
        &self.map_id
    }

    /// Frame of all poses.
    pub fn frame_id(&self) -> &str {
        &self.frame_id
    }

    /// Version of the whole graph.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Grows with every change, refreshed stamps included.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Newest change.
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// A node, retired or not.
    pub fn any(&self, name: &str) -> Option<&SceneObject> {
        self.objects.get(name).map(|node| &node.object)
    }

    /// A node that is not retired.
    pub fn get(&self, name: &str) -> Option<&SceneObject> {
        self.any(name).filter(|o| !o.retired)
    }

    /// All nodes, retired ones too, by ref.
    pub fn all(&self) -> impl Iterator<Item = &SceneObject> + Clone {
        self.index.names().filter_map(|name| self.any(name))
    }

    /// Nodes that are not retired, by ref.
    pub fn live(&self) -> impl Iterator<Item = &SceneObject> + Clone {
        self.all().filter(|o| !o.retired)
    }

    /// Number of nodes that are not retired.
    pub fn live_count(&self) -> usize {
        self.index.live()
    }

    /// Nodes of a kind that are not retired, by ref.
    pub fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &SceneObject> + Clone {
        self.index.of_kind(kind).filter_map(|name| self.get(name))
    }

    /// Nodes that were seen last within a time, oldest first.
    pub fn seen(&self, times: RangeInclusive<Stamp>) -> impl Iterator<Item = &SceneObject> {
        self.index.seen(times).filter_map(|name| self.get(name))
    }

    /// Nodes whose box may be within a distance \[m\] of a point on the floor, by ref.
    pub fn around(&self, x: f64, y: f64, distance: f64) -> Vec<&SceneObject> {
        let mut names = self.grid().around(x, y, distance);
        names.sort_unstable();
        names.into_iter().filter_map(|n| self.get(n)).collect()
    }

    /// Live nodes by what they are called: in each set all are called alike.
    pub(crate) fn labels(&self) -> impl Iterator<Item = &BTreeSet<Name>> {
        self.index.labels()
    }

    /// True when a text may mean a node by this word: its class, one of its names, or its ref.
    pub fn knows_word(&self, word: &str) -> bool {
        self.index.knows_word(word) || self.get(word).is_some()
    }

    pub(crate) fn grid(&self) -> &Grid {
        self.index.grid()
    }

    /// Number of all nodes.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// All edges.
    pub fn relations(&self) -> impl Iterator<Item = &Relation> {
        self.edges.values().map(|(r, _)| r)
    }

    /// Edges that go out from a node.
    pub fn from_subject<'a>(&'a self, subject: &'a str) -> impl Iterator<Item = &'a Relation> {
        self.edges
            .range((subject.to_string(), RelationKind::In, String::new())..)
            .take_while(move |((s, _, _), _)| s == subject)
            .map(|(_, (r, _))| r)
    }

    /// Edges that come in at a node.
    pub fn to_object<'a>(&'a self, object: &'a str) -> impl Iterator<Item = &'a Relation> {
        self.reverse
            .range((object.to_string(), RelationKind::In, String::new())..)
            .take_while(move |(o, _, _)| o == object)
            .filter_map(|(o, r, s)| self.edge(s, *r, o))
    }

    /// Second ends of one kind of edge.
    pub fn objects_of(&self, subject: &str, relation: RelationKind) -> Vec<String> {
        self.from_subject(subject)
            .filter(|r| r.relation == relation)
            .map(|r| r.object.clone())
            .collect()
    }

    /// First ends of one kind of edge.
    pub fn subjects_of(&self, object: &str, relation: RelationKind) -> Vec<String> {
        self.reverse
            .range((object.to_string(), relation, String::new())..)
            .take_while(|(o, r, _)| o == object && *r == relation)
            .map(|(_, _, s)| s.clone())
            .collect()
    }

    /// True when the edge exists.
    pub fn has(&self, subject: &str, relation: RelationKind, object: &str) -> bool {
        self.edges
            .contains_key(&(subject.into(), relation, object.into()))
    }

    /// An edge.
    pub fn edge(&self, subject: &str, relation: RelationKind, object: &str) -> Option<&Relation> {
        self.edges
            .get(&(subject.into(), relation, object.into()))
            .map(|(relation, _)| relation)
    }

    fn next_version(&mut self, stamp: Stamp) -> u64 {
        self.version += 1;
        self.touch(stamp);
        self.version
    }

    fn touch(&mut self, stamp: Stamp) {
        self.revision += 1;
        self.stamp = self.stamp.max(stamp);
    }

    /// Adds or replaces a node; it gets the next version.
    pub fn insert(&mut self, mut object: SceneObject, stamp: Stamp) {
        object.version = self.next_version(stamp);
        let mut name = None;
        let mut keys = None;
        if let Some((known_name, known)) = self.objects.get_key_value(object.r#ref.as_str()) {
            (name, keys) = (Some(known_name.clone()), Some(known.keys()));
            let before = (known.object.version, known.object.pose);
            self.remember_pose(&object.r#ref, before, (object.version, object.pose));
        }
        let name = self.put(name, keys, object);
        self.dirty_objects.insert(name);
    }

    /// Puts a node into its places; `name` and `keys` are those of the node that was there before.
    fn put(&mut self, name: Option<Name>, keys: Option<Keys>, object: SceneObject) -> Name {
        let name = name.unwrap_or_else(|| Name::from(object.r#ref.as_str()));
        let label = label_of(&object);
        let node = Node { object, label };
        self.index.put(&name, keys, node.keys(), &node.object);
        self.objects.insert(name.clone(), Box::new(node));
        name
    }

    /// Edits a node in place; the edit says what it was.
    pub fn edit(
        &mut self,
        name: &str,
        stamp: Stamp,
        change: impl FnOnce(&mut SceneObject) -> Edit,
    ) -> Edit {
        let Some((key, _)) = self.objects.get_key_value(name) else {
            return Edit::Same;
        };
        let key = key.clone();
        let Some(node) = self.objects.get_mut(&key) else {
            return Edit::Same;
        };
        let keys = node.keys();
        let object = &mut node.object;
        let before = (object.version, object.pose);
        let edit = change(object);
        if edit == Edit::Same {
            debug_assert_eq!(
                Keys::of(object, label_of(object)),
                keys,
                "{name} has changed after all"
            );
            return edit;
        }
        if edit == Edit::Changed {
            self.version += 1;
            object.version = self.version;
        }
        let now = (object.version, object.pose);
        node.label = label_of(object);
        let new = node.keys();
        self.index.put(&key, Some(keys), new, &node.object);
        self.dirty_objects.insert(key);
        self.touch(stamp);
        if edit == Edit::Changed {
            self.remember_pose(name, before, now);
        }
        edit
    }

    /// An edge that is part of a node's state came or went: the node has changed.
    fn bump_for_edge(&mut self, name: &str, stamp: Stamp) {
        self.edit(name, stamp, |_| Edit::Changed);
    }

    fn remember_pose(&mut self, name: &str, before: (u64, Pose), now: (u64, Pose)) {
        let poses = self.history.entry(name.into()).or_default();
        if poses.is_empty() {
            poses.push_back(before);
        }
        poses.push_back(now);
        while poses.len() > HISTORY {
            poses.pop_front();
        }
    }

    /// Where a node was at a version; `None` when that is no longer known.
    pub fn pose_at(&self, name: &str, version: u64) -> Option<Pose> {
        let object = self.any(name)?;
        if object.version <= version {
            return Some(object.pose);
        }
        self.history
            .get(name)?
            .iter()
            .rev()
            .find(|(v, _)| *v <= version)
            .map(|(_, pose)| *pose)
    }

    /// Adds an edge or refreshes it. A new edge, or one from another source, is a change; `in`, `on` and
    /// `holds` change their subject as well.
    pub fn relate(&mut self, relation: Relation) -> Edit {
        let key = (
            relation.subject.clone(),
            relation.relation,
            relation.object.clone(),
        );
        let stamp = relation.stamp;
        self.dirty_edges.insert(key.clone());
        if let Some((known, _)) = self.edges.get_mut(&key) {
            if known.source == relation.source {
                known.stamp = known.stamp.max(relation.stamp);
                known.confidence = relation.confidence;
                self.touch(stamp);
                return Edit::Refreshed;
            }
        }
        let version = self.next_version(stamp);
        self.reverse.insert((key.2.clone(), key.1, key.0.clone()));
        self.edges.insert(key.clone(), (relation, version));
        if is_state(key.1) {
            self.bump_for_edge(&key.0, stamp);
        }
        Edit::Changed
    }

    /// Removes an edge.
    pub fn unrelate(
        &mut self,
        subject: &str,
        relation: RelationKind,
        object: &str,
        stamp: Stamp,
    ) -> Edit {
        let key = (subject.to_string(), relation, object.to_string());
        if self.edges.remove(&key).is_none() {
            return Edit::Same;
        }
        self.reverse.remove(&(key.2.clone(), key.1, key.0.clone()));
        self.dirty_edges.insert(key.clone());
        self.next_version(stamp);
        if is_state(relation) {
            self.bump_for_edge(subject, stamp);
        }
        Edit::Changed
    }

    /// Removes all edges of one kind of a subject.
    pub fn unrelate_all(&mut self, subject: &str, relation: RelationKind, stamp: Stamp) {
        for object in self.objects_of(subject, relation) {
            self.unrelate(subject, relation, &object, stamp);
        }
    }

    /// Retires a node: its edges go, its ref is never given again. At most `keep` retired ones stay.
    pub fn retire(&mut self, name: &str, merged_into: &str, stamp: Stamp, keep: usize) {
        let outgoing: Vec<EdgeKey> = self
            .from_subject(name)
            .map(|r| (r.subject.clone(), r.relation, r.object.clone()))
            .collect();
        let incoming: Vec<EdgeKey> = self
            .reverse
            .range((name.to_string(), RelationKind::In, String::new())..)
            .take_while(|(o, _, _)| o == name)
            .map(|(o, r, s)| (s.clone(), *r, o.clone()))
            .collect();
        for (subject, relation, object) in outgoing.into_iter().chain(incoming) {
            self.unrelate(&subject, relation, &object, stamp);
        }
        self.edit(name, stamp, |o| {
            o.retired = true;
            o.merged_into = merged_into.into();
            Edit::Changed
        });
        self.retired.push_back(name.into());
        while self.retired.len() > keep {
            if let Some(oldest) = self.retired.pop_front() {
                if self.any(&oldest).is_some_and(|o| o.retired) {
                    self.remove(&oldest);
                }
            }
        }
    }

    /// A retired node that was seen again is live again, with its name.
    pub fn revive(&mut self, name: &str, stamp: Stamp) {
        self.retired.retain(|n| n != name);
        self.edit(name, stamp, |o| {
            o.retired = false;
            Edit::Changed
        });
    }

    /// A ref of the form class_N that was never given before.
    pub fn next_ref(&mut self, class_name: &str) -> String {
        let mut stem: String = class_name
            .trim()
            .chars()
            .map(|c| match c {
                'A'..='Z' => c.to_ascii_lowercase(),
                'a'..='z' | '0'..='9' | '_' => c,
                _ => '_',
            })
            .take(40)
            .collect();
        if stem.chars().all(|c| c == '_') {
            stem = "thing".into();
        }
        loop {
            let number = self.counters.entry(stem.clone()).or_insert(0);
            *number += 1;
            let name = format!("{stem}_{number}");
            self.dirty_counters.insert(stem.clone());
            if !self.objects.contains_key(name.as_str()) {
                return name;
            }
        }
    }

    /// For each class the last number given to an object of it.
    pub(crate) fn counters(&self) -> &BTreeMap<String, u64> {
        &self.counters
    }

    /// No number up to these is given again.
    pub(crate) fn raise_counters(&mut self, counters: BTreeMap<String, u64>) {
        for (class, last) in counters {
            let counter = self.counters.entry(class.clone()).or_insert(0);
            if last > *counter {
                *counter = last;
                self.dirty_counters.insert(class);
            }
        }
    }

    /// Removes a node that has no edges, as if it had never been there.
    pub(crate) fn remove(&mut self, name: &str) {
        if let Some((key, node)) = self.objects.remove_entry(name) {
            self.index.remove(&key, node.keys());
            self.history.remove(name);
            self.dirty_objects.insert(key);
        }
    }

    /// Which nodes are retired, oldest first, after nodes were put there whole.
    pub(crate) fn list_retired(&mut self) {
        let mut retired: Vec<(Stamp, String)> = self
            .all()
            .filter(|o| o.retired)
            .map(|o| (o.last_seen, o.r#ref.clone()))
            .collect();
        retired.sort();
        self.retired = retired.into_iter().map(|(_, name)| name).collect();
    }

    /// A consistent copy of everything.
    pub fn snapshot(&self) -> SceneSnapshot {
        SceneSnapshot {
            map_id: self.map_id.clone(),
            version: self.version,
            stamp: self.stamp,
            objects: self.all().cloned().collect(),
            relations: self.relations().cloned().collect(),
        }
    }

    /// Nodes and edges that changed after a version. Every edge of a node that changed is among them, so
    /// that one which is missing there was removed.
    pub fn changes_since(&self, version: u64) -> (Vec<SceneObject>, Vec<Relation>) {
        let names: BTreeSet<&Name> = self.index.newer_than(version).collect();
        let objects: Vec<SceneObject> = names
            .into_iter()
            .filter_map(|name| self.any(name))
            .cloned()
            .collect();
        let changed: BTreeSet<&str> = objects.iter().map(|o| o.r#ref.as_str()).collect();
        let relations = self
            .edges
            .values()
            .filter(|(r, v)| *v > version || changed.contains(r.subject.as_str()))
            .map(|(r, _)| r.clone())
            .collect();
        (objects, relations)
    }

    /// What has to be made durable since the last call; `applied` is filled by the scene.
    pub fn take_changes(&mut self) -> ChangeSet {
        let mut changes = ChangeSet {
            map_id: self.map_id.clone(),
            version: self.version,
            stamp: self.stamp,
            ..ChangeSet::default()
        };
        let mut dirty: Vec<Name> = std::mem::take(&mut self.dirty_objects)
            .into_iter()
            .collect();
        dirty.sort_unstable();
        for name in dirty {
            match self.any(&name) {
                Some(object) => changes.objects.push(object.clone()),
                None => changes.removed_objects.push(name.to_string()),
            }
        }
        for key in std::mem::take(&mut self.dirty_edges) {
            match self.edges.get(&key) {
                Some((relation, _)) => changes.relations.push(relation.clone()),
                None => changes.removed_relations.push(key),
            }
        }
        for class in std::mem::take(&mut self.dirty_counters) {
            let last = self.counters.get(&class).copied().unwrap_or(0);
            changes.counters.push((class, last));
        }
        changes
    }

    /// Puts durable records back. Versions and stamps stay as they were, so that ages are right.
    pub fn restore(&mut self, records: ChangeSet) {
        for (class, last) in records.counters {
            let counter = self.counters.entry(class).or_insert(0);
            *counter = (*counter).max(last);
        }
        self.version = self.version.max(records.version);
        self.stamp = self.stamp.max(records.stamp);
        self.revision += 1;
        // At once is several times faster than one by one.
        let mut names = Vec::new();
        if self.objects.is_empty() {
            if let Some((index, all)) = Index::of(&records.objects) {
                (self.index, names) = (index, all);
            }
            self.objects.reserve(records.objects.len());
        }
        let mut names = names.into_iter();
        for object in records.objects {
            self.version = self.version.max(object.version);
            if object.retired {
                self.retired.push_back(object.r#ref.clone());
            }
            if let Some((name, label)) = names.next() {
                self.objects.insert(name, Box::new(Node { object, label }));
            } else {
                let known = self.objects.get_key_value(object.r#ref.as_str());
                let (name, keys) = known.map(|(n, o)| (n.clone(), o.keys())).unzip();
                self.put(name, keys, object);
            }
        }
        for relation in records.relations {
            let ends = [&relation.subject, &relation.object];
            if ends.iter().any(|e| !self.objects.contains_key(e.as_str())) {
                continue;
            }
            let key = (
                relation.subject.clone(),
                relation.relation,
                relation.object.clone(),
            );
            self.reverse.insert((key.2.clone(), key.1, key.0.clone()));
            self.edges.insert(key, (relation, self.version));
        }
    }

    /// Forgets every stamp that lies after `now`: the clock was set back, so their ages are not known.
    /// Returns how many nodes had one.
    pub fn forget_future(&mut self, now: Stamp) -> usize {
        let mut count = 0;
        let seen_at = |o: &SceneObject| {
            let seen_at = o.state.get(eh_contract::belief::STATE_SEEN_AT);
            seen_at.and_then(|s| s.parse().ok()).map(Stamp)
        };
        let is_ahead = |o: &SceneObject| {
            o.first_seen > now || o.last_seen > now || seen_at(o).is_some_and(|s| s > now)
        };
        // Mostly there are none.
        let mut names: Vec<String> = self
            .objects
            .values()
            .map(|node| &node.object)
            .filter(|o| is_ahead(o))
            .map(|o| o.r#ref.clone())
            .collect();
        names.sort_unstable();
        for name in names {
            let edit = self.edit(&name, now, |o| {
                let mut edit = Edit::Same;
                for stamp in [&mut o.first_seen, &mut o.last_seen] {
                    if *stamp > now {
                        *stamp = Stamp::NEVER;
                        edit = Edit::Changed;
                    }
                }
                if seen_at(o).is_some_and(|s| s > now) {
                    o.state.remove(eh_contract::belief::STATE_SEEN_AT);
                    edit = Edit::Changed;
                }
                edit
            });
            if edit == Edit::Changed {
                count += 1;
            }
        }
        for (relation, _) in self.edges.values_mut() {
            if relation.stamp > now {
                relation.stamp = now;
            }
        }
        self.stamp = now;
        count
    }

    /// Removes map nodes that the map no longer has.
    pub fn drop_map_nodes_except(&mut self, keep: &BTreeSet<String>, stamp: Stamp) {
        let gone: Vec<String> = self
            .all()
            .filter(|o| o.source == Source::Map && !keep.contains(&o.r#ref))
            .map(|o| o.r#ref.clone())
            .collect();
        for name in gone {
            self.retire(&name, "", stamp, usize::MAX);
        }
    }
}

/// Edges that are state of their subject.
const fn is_state(relation: RelationKind) -> bool {
    match relation {
        RelationKind::In | RelationKind::On | RelationKind::Holds => true,
        RelationKind::Near | RelationKind::Under | RelationKind::Connects => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eh_contract::scene::Kind;

    fn node(name: &str) -> SceneObject {
        SceneObject {
            r#ref: name.into(),
            kind: Kind::Object,
            confidence: 0.9,
            ..SceneObject::default()
        }
    }

    fn edge(subject: &str, relation: RelationKind, object: &str) -> Relation {
        Relation {
            subject: subject.into(),
            relation,
            object: object.into(),
            confidence: 1.0,
            stamp: Stamp(5),
            source: Source::Perception,
        }
    }

    #[test]
    fn refs_are_never_given_twice() {
        let mut g = SceneGraph::new("m", "map");
        assert_eq!(g.next_ref("cup"), "cup_1");
        g.insert(node("cup_1"), Stamp(1));
        g.insert(node("cup_2"), Stamp(1));
        assert_eq!(g.next_ref("Cup"), "cup_3");
        g.retire("cup_1", "", Stamp(2), 0);
        assert!(g.any("cup_1").is_none());
        assert_eq!(g.next_ref("cup"), "cup_4");
        assert_eq!(g.next_ref("杯子"), "thing_1");
        // After a restart the counters go on.
        let records = g.take_changes();
        let mut again = SceneGraph::new("m", "map");
        again.restore(records);
        assert_eq!(again.next_ref("cup"), "cup_5");
    }

    #[test]
    fn only_meaningful_changes_take_a_version() {
        let mut g = SceneGraph::new("m", "map");
        g.insert(node("a"), Stamp(1));
        let version = g.version();
        let revision = g.revision();
        g.edit("a", Stamp(2), |o| {
            o.last_seen = Stamp(2);
            Edit::Refreshed
        });
        assert_eq!(g.version(), version);
        assert!(g.revision() > revision);
        g.edit("a", Stamp(3), |o| {
            o.pose = Pose::planar(1.0, 0.0, 0.0);
            Edit::Changed
        });
        assert_eq!(g.version(), version + 1);
        assert_eq!(g.get("a").map(|o| o.version), Some(version + 1));
        assert_eq!(g.pose_at("a", version).map(|p| p.position.x), Some(0.0));
        assert_eq!(g.pose_at("a", 0), None);
        let (objects, _) = g.changes_since(version);
        assert_eq!(objects.len(), 1);
        assert!(g.changes_since(version + 1).0.is_empty());
    }

    #[test]
    fn edges_are_found_from_both_ends_and_go_with_their_nodes() {
        let mut g = SceneGraph::new("m", "map");
        for name in ["a", "b", "ab"] {
            g.insert(node(name), Stamp(1));
        }
        assert_eq!(g.relate(edge("a", RelationKind::On, "b")), Edit::Changed);
        assert_eq!(g.relate(edge("a", RelationKind::On, "b")), Edit::Refreshed);
        g.relate(edge("ab", RelationKind::Near, "b"));
        assert_eq!(g.objects_of("a", RelationKind::On), ["b"]);
        assert_eq!(g.subjects_of("b", RelationKind::On), ["a"]);
        assert_eq!(g.subjects_of("b", RelationKind::Near), ["ab"]);
        g.retire("b", "a", Stamp(2), 10);
        assert_eq!(g.relations().count(), 0);
        assert_eq!(g.any("b").map(|o| o.merged_into.clone()), Some("a".into()));
        assert!(g.get("b").is_none());
    }

    #[test]
    fn changes_for_the_store_are_taken_once() {
        let mut g = SceneGraph::new("m", "map");
        g.insert(node("a"), Stamp(1));
        g.insert(node("b"), Stamp(1));
        g.relate(edge("a", RelationKind::On, "b"));
        let first = g.take_changes();
        assert_eq!((first.objects.len(), first.relations.len()), (2, 1));
        assert!(g.take_changes().is_empty());
        g.unrelate("a", RelationKind::On, "b", Stamp(3));
        let second = g.take_changes();
        assert_eq!(second.removed_relations.len(), 1);
    }

    #[test]
    fn a_clock_that_was_set_back_makes_ages_unknown_instead_of_young() {
        let mut g = SceneGraph::new("m", "map");
        g.insert(
            SceneObject {
                last_seen: Stamp(100),
                first_seen: Stamp(10),
                ..node("a")
            },
            Stamp(100),
        );
        assert_eq!(g.forget_future(Stamp(50)), 1);
        let a = g.get("a").unwrap();
        assert_eq!((a.first_seen, a.last_seen), (Stamp(10), Stamp::NEVER));
    }
}

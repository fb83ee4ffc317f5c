//! Indices of the nodes, so that a query looks at what can answer it and not at everything.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::ops::RangeInclusive;

use arcstr::ArcStr as Name;
use eh_contract::scene::{Kind, SceneObject};
use eh_contract::Stamp;

use crate::grid::{Circle, Grid};

/// Under what a node stands in the indices. They come out of the node, so that nobody has to keep them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Keys {
    circle: Circle,
    seen: Stamp,
    version: u64,
    label: u64,
    kind: Kind,
    live: bool,
}

impl Keys {
    /// The keys of a node; `label` is its [`label_of`], which takes longer than all the others.
    pub(crate) fn of(object: &SceneObject, label: u64) -> Self {
        Keys {
            circle: Circle::of(object),
            seen: object.last_seen,
            version: object.version,
            label,
            kind: object.kind,
            live: !object.retired,
        }
    }
}

/// Nodes that are called alike.
#[derive(Clone, Debug, Default)]
struct Label {
    members: BTreeSet<Name>,
    /// Class and other names, lower case.
    words: Vec<String>,
}

/// The indices. Versions know retired nodes, too; everything else only live ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    /// All nodes, in order.
    names: BTreeSet<Name>,
    kinds: BTreeMap<Kind, BTreeSet<Name>>,
    labels: BTreeMap<u64, Label>,
    /// How many labels know a word.
    words: BTreeMap<String, usize>,
    seen: BTreeSet<(Stamp, Name)>,
    versions: BTreeSet<(u64, Name)>,
    grid: Grid,
    live: usize,
}

/// What a node is called, as a number: class, other names, attributes and states that are words.
pub(crate) fn label_of(object: &SceneObject) -> u64 {
    let mut hasher = DefaultHasher::new();
    object.class_name.hash(&mut hasher);
    object.aliases.hash(&mut hasher);
    object.attributes.hash(&mut hasher);
    for (key, value) in &object.state {
        // A time is no name, and no two are alike.
        if !value.bytes().all(|b| b.is_ascii_digit()) {
            (key, value).hash(&mut hasher);
        }
    }
    hasher.finish()
}

impl Index {
    /// The index of nodes, sorted once where each alone would be put into order, and the name and label of each of them.
    /// `None` when a name comes twice.
    pub(crate) fn of(objects: &[SceneObject]) -> Option<(Self, Vec<(Name, u64)>)> {
        let mut index = Index::default();
        let mut kinds: BTreeMap<Kind, Vec<Name>> = BTreeMap::new();
        let mut members: BTreeMap<u64, (Vec<Name>, &SceneObject)> = BTreeMap::new();
        let mut seen = Vec::with_capacity(objects.len());
        let mut versions = Vec::with_capacity(objects.len());
        let mut all = Vec::with_capacity(objects.len());
        for object in objects {
            let keys = Keys::of(object, label_of(object));
            let name = Name::from(object.r#ref.as_str());
            all.push((name.clone(), keys.label));
            versions.push((keys.version, name.clone()));
            if !keys.live {
                continue;
            }
            index.live += 1;
            index.grid.set(&name, None, Some(keys.circle));
            seen.push((keys.seen, name.clone()));
            kinds.entry(keys.kind).or_default().push(name.clone());
            let label = members.entry(keys.label);
            label.or_insert_with(|| (Vec::new(), object)).0.push(name);
        }
        index.names = all.iter().map(|(name, _)| name.clone()).collect();
        if index.names.len() < all.len() {
            return None;
        }
        index.versions = versions.into_iter().collect();
        index.seen = seen.into_iter().collect();
        index.kinds = kinds
            .into_iter()
            .map(|(kind, names)| (kind, names.into_iter().collect()))
            .collect();
        for (label, (names, object)) in members {
            if let Some(first) = names.first() {
                index.add_label(label, object, first);
            }
            if let Some(entry) = index.labels.get_mut(&label) {
                entry.members = names.into_iter().collect();
            }
        }
        Some((index, all))
    }

    /// A node is there or has changed; `old` is what it was before.
    pub(crate) fn put(&mut self, name: &Name, old: Option<Keys>, new: Keys, object: &SceneObject) {
        if old == Some(new) {
            return;
        }
        if old.is_none() {
            self.names.insert(name.clone());
        }
        if old.is_none_or(|o| o.version != new.version) {
            if let Some(old) = old {
                self.versions.remove(&(old.version, name.clone()));
            }
            self.versions.insert((new.version, name.clone()));
        }
        let was = old.filter(|o| o.live);
        let is = Some(new).filter(|n| n.live);
        let differs = |key: fn(&Keys) -> u64| was.as_ref().map(key) != is.as_ref().map(key);
        let circles = (was.map(|k| k.circle), is.map(|k| k.circle));
        if circles.0 != circles.1 {
            self.grid.set(name, circles.0, circles.1);
        }
        if was.map(|k| k.seen) != is.map(|k| k.seen) {
            if let Some(k) = was {
                self.seen.remove(&(k.seen, name.clone()));
            }
            if let Some(k) = is {
                self.seen.insert((k.seen, name.clone()));
            }
        }
        if was.map(|k| k.kind) != is.map(|k| k.kind) {
            if let Some(k) = was {
                self.drop_kind(k.kind, name);
            }
            if let Some(k) = is {
                self.kinds.entry(k.kind).or_default().insert(name.clone());
            }
        }
        if differs(|k| k.label) {
            if let Some(k) = was {
                self.drop_label(k.label, name);
            }
            if let Some(k) = is {
                self.add_label(k.label, object, name);
            }
        }
        self.live += usize::from(is.is_some());
        self.live -= usize::from(was.is_some());
    }

    /// A node is gone.
    pub(crate) fn remove(&mut self, name: &Name, old: Keys) {
        self.names.remove(name);
        self.versions.remove(&(old.version, name.clone()));
        if old.live {
            self.grid.set(name, Some(old.circle), None);
            self.drop_kind(old.kind, name);
            self.drop_label(old.label, name);
            self.seen.remove(&(old.seen, name.clone()));
            self.live -= 1;
        }
    }

    fn drop_kind(&mut self, kind: Kind, name: &str) {
        if let Some(names) = self.kinds.get_mut(&kind) {
            names.remove(name);
        }
    }

    fn add_label(&mut self, label: u64, object: &SceneObject, name: &Name) {
        let entry = self.labels.entry(label).or_default();
        if entry.members.is_empty() {
            entry.words = object
                .aliases
                .iter()
                .map(|a| a.to_lowercase())
                .chain([object.class_name.clone()])
                .collect();
            for word in &entry.words {
                *self.words.entry(word.clone()).or_insert(0) += 1;
            }
        }
        entry.members.insert(name.clone());
    }

    fn drop_label(&mut self, label: u64, name: &str) {
        let Some(entry) = self.labels.get_mut(&label) else {
            return;
        };
        entry.members.remove(name);
        if !entry.members.is_empty() {
            return;
        }
        for word in &entry.words {
            if let Some(count) = self.words.get_mut(word) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    self.words.remove(word);
                }
            }
        }
        self.labels.remove(&label);
    }

    /// All nodes, retired ones too, by ref.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Name> + Clone {
        self.names.iter()
    }

    /// Number of live nodes.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    /// Live nodes of a kind, by ref.
    pub(crate) fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Name> + Clone {
        self.kinds.get(&kind).into_iter().flatten()
    }

    /// Live nodes by what they are called: each set has one member that stands for all.
    pub(crate) fn labels(&self) -> impl Iterator<Item = &BTreeSet<Name>> {
        self.labels.values().map(|l| &l.members)
    }

    /// True when a live node has this class or name.
    pub(crate) fn knows_word(&self, word: &str) -> bool {
        self.words.contains_key(word)
    }

    /// Live nodes that were seen last at a time, oldest first.
    pub(crate) fn seen(&self, times: RangeInclusive<Stamp>) -> impl Iterator<Item = &Name> {
        let first = Name::new();
        let end = *times.end();
        self.seen
            .range((*times.start(), first)..)
            .take_while(move |(stamp, _)| *stamp <= end)
            .map(|(_, name)| name)
    }

    /// Nodes whose version is newer, retired ones too, oldest first.
    pub(crate) fn newer_than(&self, version: u64) -> impl Iterator<Item = &Name> {
        self.versions
            .range((version.saturating_add(1), Name::new())..)
            .map(|(_, name)| name)
    }

    /// Where things are.
    pub(crate) fn grid(&self) -> &Grid {
        &self.grid
    }
}

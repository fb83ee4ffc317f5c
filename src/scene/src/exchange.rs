//! A whole scene as JSON, to keep a copy of it, to look at it, or to give it to another robot.
//!
//! What comes in is checked as a whole before any of it is taken: names, numbers, edges, sizes. It replaces what
//! was known of its map; ages stay as they were, and every node gets a new version, so that nothing that was
//! planned before counts any more.

use std::collections::{BTreeMap, BTreeSet};

use eh_contract::condition::ROBOT;
use eh_contract::id::check_id;
use eh_contract::perception::MAX_TEXT_LEN;
use eh_contract::scene::{Kind, Relation, RelationKind, SceneObject};
use eh_contract::Stamp;
use serde::{Deserialize, Serialize};

use crate::config::SceneConfig;
use crate::effects::STATE_HELD_BY;
use crate::error::SceneError;
use crate::graph::{EdgeKey, SceneGraph};

/// What such a file says that it is.
pub const FORMAT: &str = "embodied_harness/scene";

/// The version of the format that is written, and the newest that is read.
pub const FORMAT_VERSION: u32 = 1;

/// Longest text in bytes.
pub const MAX_BYTES: usize = 64 * 1024 * 1024;

/// Most entries of a list or map of one object.
const MAX_ENTRIES: usize = 256;

/// A scene in a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SceneFile {
    /// [`FORMAT`].
    pub format: String,
    /// [`FORMAT_VERSION`].
    pub format_version: u32,
    /// Name of the map.
    pub map_id: String,
    /// Frame of all poses.
    pub frame_id: String,
    /// Version of the graph when it was written.
    pub version: u64,
    /// When it was written \[ns of ROS time\].
    pub stamp: Stamp,
    /// Nodes, sorted by ref, retired ones too.
    pub objects: Vec<SceneObject>,
    /// Edges.
    pub relations: Vec<Relation>,
    /// For each class the last number given to an object of it.
    pub counters: BTreeMap<String, u64>,
}

impl SceneFile {
    /// The graph at a time.
    pub fn of(graph: &SceneGraph, now: Stamp) -> Self {
        let whole = graph.snapshot();
        SceneFile {
            format: FORMAT.into(),
            format_version: FORMAT_VERSION,
            map_id: whole.map_id,
            frame_id: graph.frame_id().into(),
            version: whole.version,
            stamp: now,
            objects: whole.objects,
            relations: whole.relations,
            counters: graph.counters().clone(),
        }
    }

    /// As text.
    ///
    /// # Errors
    /// [`SceneError::InvalidRequest`] when it is longer than [`MAX_BYTES`], which nobody could read again.
    pub fn to_json(&self) -> Result<String, SceneError> {
        let text = serde_json::to_string(self).map_err(|e| invalid(e.to_string()))?;
        check_length(&text)?;
        Ok(text)
    }

    /// Reads and checks a text.
    ///
    /// # Errors
    /// [`SceneError::InvalidRequest`] that names what is wrong: too long, no such JSON, of another format or a
    /// newer version, more objects than the configuration allows, a name, number or edge that can't be.
    pub fn from_json(text: &str, config: &SceneConfig) -> Result<Self, SceneError> {
        check_length(text)?;
        let file: SceneFile = serde_json::from_str(text)
            .map_err(|e| invalid(format!("the scene can't be read: {e}")))?;
        file.check(config)?;
        Ok(file)
    }

    fn check(&self, config: &SceneConfig) -> Result<(), SceneError> {
        if self.format != FORMAT {
            return Err(invalid(format!(
                "its format is \"{}\", not \"{FORMAT}\"",
                shown(&self.format)
            )));
        }
        if self.format_version == 0 || self.format_version > FORMAT_VERSION {
            return Err(invalid(format!(
                "its format_version is {}, this program reads 1 to {FORMAT_VERSION}",
                self.format_version
            )));
        }
        check_id("map_id", &self.map_id).map_err(|e| invalid(e.to_string()))?;
        let most = config.max_objects.saturating_add(config.max_retired);
        if self.objects.len() > most {
            return Err(invalid(format!(
                "it has {} objects, the limit is {most}",
                self.objects.len()
            )));
        }
        let mut names: BTreeSet<&str> = BTreeSet::new();
        for object in &self.objects {
            check_object(object, &self.frame_id)?;
            if !names.insert(&object.r#ref) {
                return Err(invalid(format!("\"{}\" is in it twice", object.r#ref)));
            }
        }
        let live: BTreeSet<&str> = self
            .objects
            .iter()
            .filter(|o| !o.retired)
            .map(|o| o.r#ref.as_str())
            .collect();
        let mut edges: BTreeSet<(&str, RelationKind, &str)> = BTreeSet::new();
        for r in &self.relations {
            let words = format!(
                "the edge {} {} {}",
                shown(&r.subject),
                r.relation.name(),
                shown(&r.object)
            );
            if let Some(end) = [&r.subject, &r.object]
                .into_iter()
                .find(|end| !live.contains(end.as_str()))
            {
                return Err(invalid(format!(
                    "{words} ends at \"{}\", which is no live object of it",
                    shown(end)
                )));
            }
            if r.subject == r.object {
                return Err(invalid(format!("{words} leads to where it begins")));
            }
            check_share(r.confidence, &format!("the confidence of {words}"))?;
            if !edges.insert((&r.subject, r.relation, &r.object)) {
                return Err(invalid(format!("{words} is in it twice")));
            }
        }
        if let Some(name) = self
            .counters
            .keys()
            .find(|k| k.is_empty() || k.len() > MAX_TEXT_LEN)
        {
            return Err(invalid(format!("\"{}\" is no class to count", shown(name))));
        }
        Ok(())
    }

    /// What it puts in the place of a graph: nodes and edges of the robot stay out, since where the robot is and
    /// what it holds it says itself.
    pub(crate) fn into_parts(mut self) -> (Vec<SceneObject>, Vec<Relation>, BTreeMap<String, u64>) {
        self.objects.retain(|o| o.r#ref != ROBOT);
        for object in &mut self.objects {
            if object
                .state
                .get(STATE_HELD_BY)
                .is_some_and(|by| by == ROBOT)
            {
                object.state.remove(STATE_HELD_BY);
            }
        }
        self.relations
            .retain(|r| r.subject != ROBOT && r.object != ROBOT);
        (self.objects, self.relations, self.counters)
    }
}

fn check_length(text: &str) -> Result<(), SceneError> {
    if text.len() > MAX_BYTES {
        return Err(invalid(format!(
            "the scene has {} bytes, the limit is {MAX_BYTES}",
            text.len()
        )));
    }
    Ok(())
}

fn check_object(object: &SceneObject, frame_id: &str) -> Result<(), SceneError> {
    let name = shown(&object.r#ref);
    let of = |field: &str| format!("{field} of \"{name}\"");
    check_id("ref", &object.r#ref).map_err(|e| invalid(e.to_string()))?;
    if object.kind == Kind::Unspecified {
        return Err(invalid(format!("{} is unspecified", of("the kind"))));
    }
    if object.frame_id != frame_id {
        return Err(invalid(format!(
            "{} is \"{}\", the scene's is \"{}\"; poses of one scene are in one frame",
            of("the frame"),
            shown(&object.frame_id),
            shown(frame_id)
        )));
    }
    let texts = [&object.class_name, &object.run_id, &object.merged_into];
    let lists = object.aliases.iter().chain(&object.evidence);
    let maps = object.attributes.iter().chain(&object.state);
    let words = texts
        .into_iter()
        .chain(lists)
        .chain(maps.flat_map(|(k, v)| [k, v]));
    if let Some(word) = words.into_iter().find(|w| w.len() > MAX_TEXT_LEN) {
        return Err(invalid(format!(
            "{} has {} bytes, the limit is {MAX_TEXT_LEN}",
            of("a text"),
            word.len()
        )));
    }
    let longest = [
        object.aliases.len(),
        object.evidence.len(),
        object.attributes.len(),
        object.state.len(),
        object.outline.len(),
    ];
    if let Some(entries) = longest.into_iter().find(|n| *n > MAX_ENTRIES) {
        return Err(invalid(format!(
            "{} has {entries} entries, the limit is {MAX_ENTRIES}",
            of("a list")
        )));
    }
    let numbers = [object.pose.check("the pose"), object.size.check("the size")];
    let corners = object.outline.iter().map(|c| c.check("the outline"));
    for checked in numbers.into_iter().chain(corners) {
        checked.map_err(|e| invalid(format!("of \"{name}\", {e}")))?;
    }
    for (what, v) in [
        ("the size", object.size),
        ("the variance", object.position_variance),
    ] {
        if let Some(number) = [v.x, v.y, v.z]
            .into_iter()
            .find(|n| !(0.0..f64::INFINITY).contains(n))
        {
            return Err(invalid(format!(
                "{} has the number {number}; it must be finite and not negative",
                of(what)
            )));
        }
    }
    check_share(object.confidence, &of("the confidence"))?;
    for (what, stamp) in [
        ("first_seen", object.first_seen),
        ("last_seen", object.last_seen),
    ] {
        if stamp.0 < 0 {
            return Err(invalid(format!(
                "{} is {} ns; it must not be before the epoch",
                of(what),
                stamp.0
            )));
        }
    }
    Ok(())
}

fn check_share(value: f64, what: &str) -> Result<(), SceneError> {
    if !(0.0..=1.0).contains(&value) {
        return Err(invalid(format!("{what} is {value}; it must lie in 0 to 1")));
    }
    Ok(())
}

fn invalid(reason: String) -> SceneError {
    SceneError::InvalidRequest {
        reason: format!("the scene is refused, nothing was changed: {reason}"),
    }
}

fn shown(text: &str) -> String {
    text.chars().take(64).collect()
}

impl SceneGraph {
    /// Puts nodes and edges in the place of all that there are but the robot. Every node gets a new version.
    pub(crate) fn replace(
        &mut self,
        objects: Vec<SceneObject>,
        relations: Vec<Relation>,
        counters: BTreeMap<String, u64>,
        now: Stamp,
    ) {
        let edges: Vec<EdgeKey> = self
            .relations()
            .map(|r| (r.subject.clone(), r.relation, r.object.clone()))
            .collect();
        for (subject, relation, object) in edges {
            self.unrelate(&subject, relation, &object, now);
        }
        let new: BTreeSet<&str> = objects.iter().map(|o| o.r#ref.as_str()).collect();
        let gone: Vec<String> = self
            .all()
            .map(|o| o.r#ref.clone())
            .filter(|name| name != ROBOT && !new.contains(name.as_str()))
            .collect();
        for name in gone {
            self.remove(&name);
        }
        self.raise_counters(counters);
        for object in objects {
            self.insert(object, now);
        }
        for relation in relations {
            self.relate(relation);
        }
        self.list_retired();
    }
}

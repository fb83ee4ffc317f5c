//! Nodes and edges of the scene graph as plain data, and the view of it that planners and gates read.

use serde::{Deserialize, Serialize};

use crate::geometry::{Pose, Vec3};
use crate::key_values::KeyValues;
use crate::time::Stamp;

/// What kind of thing a node is (SceneObject `KIND_*`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Not filled.
    #[default]
    Unspecified,
    /// A building.
    Building,
    /// A floor of a building.
    Floor,
    /// A room.
    Room,
    /// Something that objects stand on.
    Surface,
    /// Something that objects are in.
    Container,
    /// A movable object.
    Object,
    /// A person.
    Person,
    /// A robot.
    Robot,
    /// A pose without a body.
    Place,
    /// A door between two rooms.
    Door,
}

impl Kind {
    /// Every kind in the order of its number.
    pub const ALL: &'static [Kind] = &[
        Kind::Unspecified,
        Kind::Building,
        Kind::Floor,
        Kind::Room,
        Kind::Surface,
        Kind::Container,
        Kind::Object,
        Kind::Person,
        Kind::Robot,
        Kind::Place,
        Kind::Door,
    ];

    /// The number in messages.
    pub const fn to_wire(self) -> u8 {
        self as u8
    }

    /// The kind of a number in a message.
    pub fn from_wire(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The name as in `x-ref` and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Unspecified => "unspecified",
            Kind::Building => "building",
            Kind::Floor => "floor",
            Kind::Room => "room",
            Kind::Surface => "surface",
            Kind::Container => "container",
            Kind::Object => "object",
            Kind::Person => "person",
            Kind::Robot => "robot",
            Kind::Place => "place",
            Kind::Door => "door",
        }
    }

    /// The kind of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|k| k.name() == name)
    }
}

/// Where the newest state of a node came from (SceneObject `SOURCE_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Not filled.
    #[default]
    Unspecified,
    /// The annotated map.
    Map,
    /// A sensor.
    Perception,
    /// An effect of a skill after a SUCCESS verdict.
    Execution,
}

impl Source {
    /// The number in messages.
    pub const fn to_wire(self) -> u8 {
        self as u8
    }

    /// The source of a number in a message.
    pub const fn from_wire(number: u8) -> Option<Self> {
        match number {
            0 => Some(Source::Unspecified),
            1 => Some(Source::Map),
            2 => Some(Source::Perception),
            3 => Some(Source::Execution),
            _ => None,
        }
    }
}

/// A node of the scene graph; field by field in `msg/SceneObject.msg`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SceneObject {
    /// Stable name.
    pub r#ref: String,
    /// What it is.
    pub kind: Kind,
    /// Class, lower case.
    pub class_name: String,
    /// Names that people use.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Attributes such as color.
    #[serde(default)]
    pub attributes: KeyValues,
    /// State such as open.
    #[serde(default)]
    pub state: KeyValues,
    /// Frame of the pose.
    pub frame_id: String,
    /// Pose of the box centre.
    pub pose: Pose,
    /// Variances of x, y, z \[m²\]; zero: not estimated.
    #[serde(default)]
    pub position_variance: Vec3,
    /// Edge lengths of the box \[m\].
    #[serde(default)]
    pub size: Vec3,
    /// Outline on the floor, for rooms \[m\].
    #[serde(default)]
    pub outline: Vec<Vec3>,
    /// Probability that it still is where it is said to be.
    pub confidence: f64,
    /// First sight.
    #[serde(default)]
    pub first_seen: Stamp,
    /// Newest sight.
    #[serde(default)]
    pub last_seen: Stamp,
    /// Number of sightings.
    #[serde(default)]
    pub sightings: u32,
    /// Where the newest state came from.
    #[serde(default)]
    pub source: Source,
    /// The run behind [`Source::Execution`].
    #[serde(default)]
    pub run_id: String,
    /// References to sensor frames, newest first.
    #[serde(default)]
    pub evidence: Vec<String>,
    /// Grows with each change.
    pub version: u64,
    /// Removed or merged.
    #[serde(default)]
    pub retired: bool,
    /// What it was merged into; empty for none.
    #[serde(default)]
    pub merged_into: String,
}

/// What an edge says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RelationKind {
    /// The subject is in the object (a room or container).
    In,
    /// The subject stands on the object.
    On,
    /// The subject is near the object.
    Near,
    /// The subject is under the object.
    Under,
    /// The subject (a door) connects the object (a room).
    Connects,
    /// The subject (a robot or person) holds the object.
    Holds,
}

impl RelationKind {
    /// The name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            RelationKind::In => "in",
            RelationKind::On => "on",
            RelationKind::Near => "near",
            RelationKind::Under => "under",
            RelationKind::Connects => "connects",
            RelationKind::Holds => "holds",
        }
    }

    /// The relation of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        use RelationKind::{Connects, Holds, In, Near, On, Under};
        [In, On, Near, Under, Connects, Holds]
            .into_iter()
            .find(|r| r.name() == name)
    }
}

/// An edge of the scene graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Relation {
    /// Ref of the first end.
    pub subject: String,
    /// What it says.
    pub relation: RelationKind,
    /// Ref of the second end.
    pub object: String,
    /// Probability.
    pub confidence: f64,
    /// Newest evidence.
    pub stamp: Stamp,
    /// Where it came from.
    pub source: Source,
}

/// A consistent copy of the scene graph at one version, as planners and gates read it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SceneSnapshot {
    /// Name of the map.
    pub map_id: String,
    /// Version of the whole graph.
    pub version: u64,
    /// Newest change.
    pub stamp: Stamp,
    /// Nodes, sorted by ref.
    pub objects: Vec<SceneObject>,
    /// Edges.
    pub relations: Vec<Relation>,
}

impl SceneSnapshot {
    /// The node of a ref that is not retired.
    pub fn get(&self, r#ref: &str) -> Option<&SceneObject> {
        self.objects.iter().find(|o| o.r#ref == r#ref && !o.retired)
    }

    /// Nodes that are not retired.
    pub fn live(&self) -> impl Iterator<Item = &SceneObject> {
        self.objects.iter().filter(|o| !o.retired)
    }

    /// True when the edge exists.
    pub fn has(&self, subject: &str, relation: RelationKind, object: &str) -> bool {
        self.relations
            .iter()
            .any(|r| r.relation == relation && r.subject == subject && r.object == object)
    }

    /// Second ends of the edges of a subject.
    pub fn objects_of<'a, 'b>(
        &'a self,
        subject: &'b str,
        relation: RelationKind,
    ) -> impl Iterator<Item = &'a str> + use<'a, 'b> {
        self.relations
            .iter()
            .filter(move |r| r.relation == relation && r.subject == subject)
            .map(|r| r.object.as_str())
    }

    /// The room that something is in, through the surface that it stands on when needed.
    pub fn room_of(&self, r#ref: &str) -> Option<&str> {
        let mut at = self.get(r#ref)?.r#ref.as_str();
        // Something on something in a room: four steps are more than any real chain.
        for _ in 0..4 {
            let direct = self
                .objects_of(at, RelationKind::In)
                .find(|o| self.get(o).is_some_and(|n| n.kind == Kind::Room));
            if direct.is_some() {
                return direct;
            }
            at = self
                .objects_of(at, RelationKind::On)
                .chain(self.objects_of(at, RelationKind::In))
                .next()?;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_survive_the_wire() {
        for k in Kind::ALL {
            assert_eq!(Kind::from_wire(k.to_wire()), Some(*k));
            assert_eq!(Kind::from_name(k.name()), Some(*k));
        }
        assert_eq!(Kind::from_wire(99), None);
    }

    #[test]
    fn the_room_of_an_object_is_found_through_its_support() {
        let node = |r: &str, kind| SceneObject {
            r#ref: r.into(),
            kind,
            ..SceneObject::default()
        };
        let edge = |s: &str, relation, o: &str| Relation {
            subject: s.into(),
            relation,
            object: o.into(),
            confidence: 1.0,
            stamp: Stamp(1),
            source: Source::Map,
        };
        let scene = SceneSnapshot {
            objects: vec![
                node("cup_1", Kind::Object),
                node("kitchen", Kind::Room),
                node("table_1", Kind::Surface),
            ],
            relations: vec![
                edge("cup_1", RelationKind::On, "table_1"),
                edge("table_1", RelationKind::In, "kitchen"),
            ],
            ..SceneSnapshot::default()
        };
        assert_eq!(scene.room_of("cup_1"), Some("kitchen"));
        assert_eq!(scene.room_of("table_1"), Some("kitchen"));
        assert_eq!(scene.room_of("nothing"), None);
    }
}

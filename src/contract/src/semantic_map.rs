//! The annotated map of a home: rooms, doors and furniture, as a robot may know them beforehand.
//!
//! It is read from the same YAML file as a simulated world, but only from its `rooms`, `doors`,
//! `furniture` and `places` sections: every other section, the ground truth about objects above all, is
//! ignored.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use thiserror::Error;

/// Largest absolute coordinate, in metres, that a map may use: keeps grids and distances sane.
pub const MAX_COORDINATE: f64 = 500.0;

/// Why a map was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SemanticMapError {
    /// The text is no YAML of the expected shape.
    #[error("the map can't be read: {0}; correct the file at the place it names")]
    Syntax(String),
    /// Two entries of one section carry one id.
    #[error("{section} has the id '{id}' twice; give each entry its own id")]
    DuplicateId {
        /// The section.
        section: &'static str,
        /// The id.
        id: String,
    },
    /// An id is empty or holds characters other than `a-z`, `0-9` and `_`.
    #[error("{section} has the id '{id}'; use 1 to 64 of the characters a-z, 0-9 and _")]
    BadId {
        /// The section.
        section: &'static str,
        /// The id.
        id: String,
    },
    /// An entry names another that does not exist.
    #[error("{section} '{id}' names {what} '{reference}', which the file does not define")]
    UnknownReference {
        /// The section.
        section: &'static str,
        /// The id of the entry.
        id: String,
        /// What kind of thing is named.
        what: &'static str,
        /// The name that has no definition.
        reference: String,
    },
    /// A number or shape is out of its range.
    #[error("{section} '{id}': {problem}")]
    BadValue {
        /// The section.
        section: &'static str,
        /// The id of the entry.
        id: String,
        /// What is wrong, with the value and the limit.
        problem: String,
    },
    /// The map has no room at all.
    #[error("the map has no rooms; add at least one entry to `rooms`")]
    NoRooms,
}

/// Names of one thing, by language tag (`en`, `zh`, …); the first of a language is the one to show.
pub type Names = BTreeMap<String, Vec<String>>;

/// A room: a simple polygon on the floor, in the map frame.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "RawRoom")]
pub struct Room {
    /// Unique id, such as `kitchen`.
    pub id: String,
    /// What people call it.
    pub names: Names,
    /// Corners in order, metres in the map frame.
    pub polygon: Vec<[f64; 2]>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRoom {
    id: String,
    #[serde(default)]
    names: Names,
    rect: Option<[f64; 4]>,
    polygon: Option<Vec<[f64; 2]>>,
}

impl TryFrom<RawRoom> for Room {
    type Error = String;

    fn try_from(raw: RawRoom) -> Result<Self, String> {
        let polygon = match (raw.rect, raw.polygon) {
            (Some([x0, y0, x1, y1]), None) => vec![[x0, y0], [x1, y0], [x1, y1], [x0, y1]],
            (None, Some(polygon)) => polygon,
            _ => {
                return Err(format!(
                "room '{}' needs either rect: [min_x, min_y, max_x, max_y] or polygon: [[x, y], …]",
                raw.id
            ))
            }
        };
        Ok(Room {
            id: raw.id,
            names: raw.names,
            polygon,
        })
    }
}

impl Room {
    /// Whether the point (metres, map frame) lies in the room.
    ///
    /// Even-odd rule: <https://en.wikipedia.org/wiki/Even-odd_rule>.
    #[must_use]
    pub fn contains(&self, x: f64, y: f64) -> bool {
        let mut inside = false;
        let mut previous = self.polygon.last().copied().unwrap_or([0.0, 0.0]);
        for &[px, py] in &self.polygon {
            let [qx, qy] = previous;
            if (py > y) != (qy > y) && x < (qx - px) * (y - py) / (qy - py) + px {
                inside = !inside;
            }
            previous = [px, py];
        }
        inside
    }

    /// The area in square metres.
    #[must_use]
    pub fn area(&self) -> f64 {
        self.signed_area().abs()
    }

    /// The centre of area, metres in the map frame.
    #[must_use]
    pub fn centroid(&self) -> [f64; 2] {
        // https://en.wikipedia.org/wiki/Centroid#Of_a_polygon
        let area = self.signed_area();
        let (mut cx, mut cy) = (0.0, 0.0);
        let mut previous = self.polygon.last().copied().unwrap_or([0.0, 0.0]);
        for &[px, py] in &self.polygon {
            let [qx, qy] = previous;
            let cross = qx * py - px * qy;
            cx += (qx + px) * cross;
            cy += (qy + py) * cross;
            previous = [px, py];
        }
        [cx / (6.0 * area), cy / (6.0 * area)]
    }

    fn signed_area(&self) -> f64 {
        let mut doubled = 0.0;
        let mut previous = self.polygon.last().copied().unwrap_or([0.0, 0.0]);
        for &[px, py] in &self.polygon {
            doubled += previous[0] * py - px * previous[1];
            previous = [px, py];
        }
        doubled / 2.0
    }
}

/// An opening in a wall that joins two rooms.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Door {
    /// Unique id.
    pub id: String,
    /// What people call it.
    #[serde(default)]
    pub names: Names,
    /// The ids of the two rooms it joins.
    pub between: [String; 2],
    /// One jamb, metres in the map frame.
    pub from: [f64; 2],
    /// The other jamb, metres in the map frame.
    pub to: [f64; 2],
    /// Whether one can pass when the world begins.
    #[serde(default = "yes")]
    pub open: bool,
}

impl Door {
    /// The middle of the opening, metres in the map frame.
    #[must_use]
    pub fn center(&self) -> [f64; 2] {
        [
            (self.from[0] + self.to[0]) / 2.0,
            (self.from[1] + self.to[1]) / 2.0,
        ]
    }

    /// The clear width in metres.
    #[must_use]
    pub fn width(&self) -> f64 {
        (self.to[0] - self.from[0]).hypot(self.to[1] - self.from[1])
    }
}

/// A piece of furniture: an upright box that stands on the floor.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Furniture {
    /// Unique id, such as `kitchen_counter`.
    pub id: String,
    /// Its kind, such as `table`.
    pub class: String,
    /// What people call it.
    #[serde(default)]
    pub names: Names,
    /// Centre of the footprint, metres in the map frame.
    pub center: [f64; 2],
    /// Length along its own x, its own y, and height, metres.
    pub size: [f64; 3],
    /// Rotation about the vertical, radians, counter-clockwise.
    #[serde(default)]
    pub yaw: f64,
    /// Whether objects can stand on its top.
    #[serde(default)]
    pub surface: bool,
    /// Whether objects can be kept inside.
    #[serde(default)]
    pub container: bool,
}

impl Furniture {
    /// Height of the top above the floor, metres.
    #[must_use]
    pub fn top(&self) -> f64 {
        self.size[2]
    }

    /// The point (metres, map frame) in the furniture's own frame, whose origin is its centre.
    #[must_use]
    pub fn to_local(&self, x: f64, y: f64) -> [f64; 2] {
        let (dx, dy) = (x - self.center[0], y - self.center[1]);
        let (sin, cos) = self.yaw.sin_cos();
        [cos * dx + sin * dy, cos * dy - sin * dx]
    }

    /// The point of the furniture's own frame in the map frame, metres.
    #[must_use]
    pub fn to_map(&self, x: f64, y: f64) -> [f64; 2] {
        let (sin, cos) = self.yaw.sin_cos();
        [
            self.center[0] + cos * x - sin * y,
            self.center[1] + sin * x + cos * y,
        ]
    }

    /// Whether the footprint covers the point (metres, map frame).
    #[must_use]
    pub fn covers(&self, x: f64, y: f64) -> bool {
        let [lx, ly] = self.to_local(x, y);
        lx.abs() <= self.size[0] / 2.0 && ly.abs() <= self.size[1] / 2.0
    }
}

/// A named pose on the floor, such as a charging station.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedPlace {
    /// Unique id, such as `dock`.
    pub id: String,
    /// What people call it.
    #[serde(default)]
    pub names: Names,
    /// x, y in metres and heading in radians, map frame.
    pub pose: [f64; 3],
}

/// Rooms, doors, furniture and places, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct SemanticMap {
    /// The map's name; empty when the file gives none.
    pub name: String,
    /// The rooms, in the file's order.
    pub rooms: Vec<Room>,
    /// The doors, in the file's order.
    pub doors: Vec<Door>,
    /// The furniture, in the file's order.
    pub furniture: Vec<Furniture>,
    /// The named places, in the file's order.
    pub places: Vec<NamedPlace>,
}

// No deny_unknown_fields here: the other sections of a world file are to be ignored.
#[derive(Deserialize)]
struct RawMap {
    #[serde(default)]
    name: String,
    rooms: Vec<Room>,
    #[serde(default)]
    doors: Vec<Door>,
    #[serde(default)]
    furniture: Vec<Furniture>,
    #[serde(default)]
    places: Vec<NamedPlace>,
}

impl SemanticMap {
    /// Reads the map from YAML text.
    ///
    /// # Errors
    /// [`SemanticMapError`] when the text is not of the expected shape, an id is missing, bad or used
    /// twice, a reference leads nowhere, or a number is not finite or out of range.
    pub fn from_yaml(text: &str) -> Result<Self, SemanticMapError> {
        let raw: RawMap =
            serde_yaml_ng::from_str(text).map_err(|e| SemanticMapError::Syntax(e.to_string()))?;
        Self::new(raw.name, raw.rooms, raw.doors, raw.furniture)?.with_places(raw.places)
    }

    /// Adds named places.
    ///
    /// # Errors
    /// As [`SemanticMap::from_yaml`].
    pub fn with_places(mut self, places: Vec<NamedPlace>) -> Result<Self, SemanticMapError> {
        check_ids("places", places.iter().map(|p| p.id.as_str()))?;
        for place in &places {
            for value in &place.pose {
                check_coordinate(*value).map_err(|problem| SemanticMapError::BadValue {
                    section: "places",
                    id: place.id.clone(),
                    problem,
                })?;
            }
        }
        self.places = places;
        Ok(self)
    }

    /// Checks the parts and puts them together.
    ///
    /// # Errors
    /// As [`SemanticMap::from_yaml`].
    pub fn new(
        name: String,
        rooms: Vec<Room>,
        doors: Vec<Door>,
        furniture: Vec<Furniture>,
    ) -> Result<Self, SemanticMapError> {
        if rooms.is_empty() {
            return Err(SemanticMapError::NoRooms);
        }
        check_ids("rooms", rooms.iter().map(|r| r.id.as_str()))?;
        check_ids("doors", doors.iter().map(|d| d.id.as_str()))?;
        check_ids("furniture", furniture.iter().map(|f| f.id.as_str()))?;
        for room in &rooms {
            let bad = |problem: String| SemanticMapError::BadValue {
                section: "rooms",
                id: room.id.clone(),
                problem,
            };
            if room.polygon.len() < 3 || room.polygon.len() > 1000 {
                return Err(bad(format!(
                    "the polygon has {} corners; give 3 to 1000",
                    room.polygon.len()
                )));
            }
            for [x, y] in &room.polygon {
                check_coordinate(*x).map_err(bad)?;
                check_coordinate(*y).map_err(bad)?;
            }
            if room.area() < 0.1 {
                return Err(bad(format!(
                    "the area is {:.3} m²; it must be at least 0.1 m²",
                    room.area()
                )));
            }
        }
        for door in &doors {
            for reference in &door.between {
                if !rooms.iter().any(|r| &r.id == reference) {
                    return Err(SemanticMapError::UnknownReference {
                        section: "doors",
                        id: door.id.clone(),
                        what: "the room",
                        reference: reference.clone(),
                    });
                }
            }
            let bad = |problem: String| SemanticMapError::BadValue {
                section: "doors",
                id: door.id.clone(),
                problem,
            };
            for value in door.from.iter().chain(&door.to) {
                check_coordinate(*value).map_err(bad)?;
            }
            if door.between[0] == door.between[1] {
                return Err(bad("it joins a room with itself; name two rooms".to_owned()));
            }
            if door.width() < 0.1 {
                return Err(bad(format!(
                    "the opening is {:.3} m wide; it must be at least 0.1 m",
                    door.width()
                )));
            }
        }
        for item in &furniture {
            let bad = |problem: String| SemanticMapError::BadValue {
                section: "furniture",
                id: item.id.clone(),
                problem,
            };
            if item.class.trim().is_empty() {
                return Err(bad("the class is empty; name one, such as table".to_owned()));
            }
            for value in &item.center {
                check_coordinate(*value).map_err(bad)?;
            }
            if !item.yaw.is_finite() {
                return Err(bad(format!("yaw is {}; it must be finite", item.yaw)));
            }
            for value in &item.size {
                if !(value.is_finite() && (0.01..=50.0).contains(value)) {
                    return Err(bad(format!(
                        "a side is {value} m; it must lie in 0.01 … 50 m"
                    )));
                }
            }
        }
        Ok(Self {
            name,
            rooms,
            doors,
            furniture,
            places: Vec::new(),
        })
    }

    /// The room with that id.
    #[must_use]
    pub fn room(&self, id: &str) -> Option<&Room> {
        self.rooms.iter().find(|r| r.id == id)
    }

    /// The door with that id.
    #[must_use]
    pub fn door(&self, id: &str) -> Option<&Door> {
        self.doors.iter().find(|d| d.id == id)
    }

    /// The furniture with that id.
    #[must_use]
    pub fn furniture(&self, id: &str) -> Option<&Furniture> {
        self.furniture.iter().find(|f| f.id == id)
    }

    /// The first room that holds the point (metres, map frame).
    #[must_use]
    pub fn room_at(&self, x: f64, y: f64) -> Option<&Room> {
        self.rooms.iter().find(|r| r.contains(x, y))
    }

    /// The furniture with the highest top not above `z` + 2 cm that lies under the point (metres, map
    /// frame) and is a surface.
    #[must_use]
    pub fn surface_under(&self, x: f64, y: f64, z: f64) -> Option<&Furniture> {
        self.furniture
            .iter()
            .filter(|f| f.surface && f.top() <= z + 0.02 && f.covers(x, y))
            .max_by(|a, b| a.top().total_cmp(&b.top()))
    }
}

fn check_coordinate(value: f64) -> Result<(), String> {
    if value.is_finite() && value.abs() <= MAX_COORDINATE {
        Ok(())
    } else {
        Err(format!(
            "a coordinate is {value} m; it must be finite and within ±{MAX_COORDINATE} m"
        ))
    }
}

fn check_ids<'a>(
    section: &'static str,
    ids: impl Iterator<Item = &'a str>,
) -> Result<(), SemanticMapError> {
    let mut seen = BTreeSet::new();
    for id in ids {
        let well_formed = (1..=64).contains(&id.len())
            && id
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        if !well_formed {
            return Err(SemanticMapError::BadId {
                section,
                id: id.to_owned(),
            });
        }
        if !seen.insert(id) {
            return Err(SemanticMapError::DuplicateId {
                section,
                id: id.to_owned(),
            });
        }
    }
    Ok(())
}

fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = "
name: flat
rooms:
  - {id: a, names: {en: [room a, first], zh: [甲]}, rect: [0, 0, 4, 2]}
  - {id: b, polygon: [[4, 0], [6, 0], [6, 2], [4, 2]]}
doors:
  - {id: ab, between: [a, b], from: [4, 0.5], to: [4, 1.5]}
furniture:
  - {id: desk, class: table, center: [1, 1], size: [1.0, 0.5, 0.7], yaw: 1.5707963267948966, surface: true}
places:
  - {id: dock, pose: [1, 1, 0.5]}
objects: [{this: is not read}]
";

    #[test]
    fn reads_the_map_sections_and_ignores_the_others() {
        let map = SemanticMap::from_yaml(MAP).unwrap();
        assert_eq!(map.rooms.len(), 2);
        assert_eq!(map.room_at(1.0, 1.0).unwrap().id, "a");
        assert_eq!(map.room_at(5.0, 1.0).unwrap().id, "b");
        assert!(map.room_at(7.0, 1.0).is_none());
        assert_eq!(map.doors[0].center(), [4.0, 1.0]);
        assert_eq!(map.places[0].pose, [1.0, 1.0, 0.5]);
        // A rectangle 4 × 2: area 8, centroid (2, 1).
        assert!((map.rooms[0].area() - 8.0).abs() < 1e-12);
        let [cx, cy] = map.rooms[0].centroid();
        assert!((cx - 2.0).abs() < 1e-12 && (cy - 1.0).abs() < 1e-12);
        // The desk is turned by 90°: it covers ±0.25 m in x and ±0.5 m in y.
        let desk = map.furniture("desk").unwrap();
        assert!(desk.covers(1.2, 1.45) && !desk.covers(1.3, 1.0));
        assert_eq!(map.surface_under(1.0, 1.0, 0.75).unwrap().id, "desk");
        assert!(map.surface_under(1.0, 1.0, 0.5).is_none());
    }

    #[test]
    fn refuses_what_is_wrong_and_says_why() {
        let cases = [
            ("rooms: []", "no rooms"),
            ("rooms: [{id: a}]", "needs either rect"),
            ("rooms: [{id: a, rect: [0,0,1,1]}, {id: a, rect: [0,0,1,1]}]", "twice"),
            ("rooms: [{id: 'A b', rect: [0,0,1,1]}]", "characters a-z"),
            ("rooms: [{id: a, rect: [0,0,.nan,1]}]", "finite"),
            ("rooms: [{id: a, rect: [0,0,1e9,1]}]", "finite"),
            ("rooms: [{id: a, rect: [0,0,1,1], colour: red}]", "colour"),
            ("rooms: [{id: a, rect: [0,0,1,1]}]\ndoors: [{id: d, between: [a, x], from: [0,0], to: [0,1]}]", "'x'"),
            ("rooms: [{id: a, rect: [0,0,1,1]}]\nfurniture: [{id: f, class: t, center: [0,0], size: [1,1,-1]}]", "side"),
        ];
        for (text, expected) in cases {
            let message = SemanticMap::from_yaml(text).unwrap_err().to_string();
            assert!(message.contains(expected), "{text}: {message}");
        }
    }
}

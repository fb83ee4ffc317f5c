//! The world file: everything a run starts from, checked before anything is built of it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::error::SimError;
use crate::fault::FaultSpec;
use crate::person::PersonSpec;
use crate::schedule::{Deed, HappeningSpec, Schedule};
use eh_contract::semantic_map::{
    Door, Furniture, NamedPlace, Names, Room, SemanticMap, MAX_COORDINATE,
};

/// A straight wall.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wall {
    /// One end, metres in the map frame.
    pub from: [f64; 2],
    /// The other end, metres in the map frame.
    pub to: [f64; 2],
    /// Thickness in metres.
    #[serde(default = "wall_thickness")]
    pub thickness: f64,
}

const fn wall_thickness() -> f64 {
    0.1
}

/// A movable object.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectSpec {
    /// Unique id; known to the simulator only.
    pub id: String,
    /// Its kind, such as `cup`.
    pub class: String,
    /// What it looks like, such as `color: red`.
    #[serde(default)]
    pub attributes: BTreeMap<String, String>,
    /// What people call it.
    #[serde(default)]
    pub names: Names,
    /// x, y of its centre, metres in the map frame.
    pub position: [f64; 2],
    /// The furniture it stands on.
    #[serde(default)]
    pub on: Option<String>,
    /// Height of its bottom above the floor, metres, when it stands on no furniture.
    #[serde(default)]
    pub z: Option<f64>,
    /// Heading, radians.
    #[serde(default)]
    pub yaw: f64,
    /// Length, width, height in metres.
    pub size: [f64; 3],
    /// Mass in kilograms.
    #[serde(default = "object_mass")]
    pub mass: f64,
    /// Whether the gripper can hold it.
    #[serde(default = "yes")]
    pub graspable: bool,
    /// How far the fingers are apart when they hold it, metres; the smaller of length and width when
    /// not given.
    #[serde(default)]
    pub grasp_width: Option<f64>,
}

const fn object_mass() -> f64 {
    0.2
}

const fn yes() -> bool {
    true
}

impl ObjectSpec {
    /// How far the fingers are apart when they hold it, metres.
    #[must_use]
    pub fn grip(&self) -> f64 {
        self.grasp_width.unwrap_or(self.size[0].min(self.size[1]))
    }
}

/// The robot's start and size.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RobotSpec {
    /// x, y in metres and heading in radians, map frame.
    pub start: [f64; 3],
    /// Radius of the round footprint, metres.
    pub radius: f64,
    /// Greatest speed, m/s.
    pub max_speed: f64,
    /// Greatest turning rate, rad/s.
    pub max_turn: f64,
    /// Greatest speeding up, m/s².
    pub acceleration: f64,
    /// Greatest slowing down, m/s².
    pub deceleration: f64,
    /// Greatest angular acceleration, rad/s².
    pub turn_acceleration: f64,
    /// Time constant of the wheel drives' first-order lag, seconds.
    pub actuator_lag: f64,
    /// The wheels stop when no command came for this long, seconds.
    pub cmd_timeout: f64,
    /// Number of lidar beams over the full circle.
    pub scan_beams: usize,
    /// The lidar's height above the floor, metres.
    pub scan_height: f64,
    /// The lidar's least and greatest range, metres.
    pub scan_range: [f64; 2],
    /// The camera's horizontal and vertical field of view, radians.
    pub camera_fov: [f64; 2],
    /// The camera's nearest and farthest useful distance, metres.
    pub camera_range: [f64; 2],
}

impl Default for RobotSpec {
    fn default() -> Self {
        Self {
            start: [0.0, 0.0, 0.0],
            radius: 0.27,
            max_speed: 1.0,
            max_turn: 1.8,
            acceleration: 1.2,
            deceleration: 2.0,
            turn_acceleration: 4.0,
            actuator_lag: 0.08,
            cmd_timeout: 0.5,
            scan_beams: 360,
            scan_height: 0.2,
            scan_range: [0.05, 12.0],
            // 70° × 55°: an ordinary RGB-D camera.
            camera_fov: [1.22, 0.96],
            camera_range: [0.2, 4.0],
        }
    }
}

/// How uncertain sensors and wheels are. All zero is a perfect robot.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Noise {
    /// Standard deviation of a detection's range at distance 0, metres.
    pub detection_range: f64,
    /// What each metre of distance adds to that, metres per metre.
    pub detection_range_per_metre: f64,
    /// Standard deviation of a detection's direction, radians.
    pub detection_angle: f64,
    /// Standard deviation of a detected box's heading, radians.
    pub detection_yaw: f64,
    /// Probability that a visible object is not detected in a frame.
    pub miss: f64,
    /// Probability that a frame has a detection of something that is not there.
    pub false_positive: f64,
    /// Probability that a detection carries another class.
    pub class_confusion: f64,
    /// Relative standard deviation of the odometry's distance.
    pub odom_scale: f64,
    /// Odometry's heading error, radians per √metre driven.
    pub odom_yaw_per_metre: f64,
    /// Odometry's heading error, radians per √radian turned.
    pub odom_yaw_per_radian: f64,
    /// Odometry's position error along and across, metres per √metre driven.
    pub odom_position_per_metre: f64,
    /// How the localisation drifts between relocalisations: metres in x and y per √metre driven.
    pub localization_drift_per_metre: f64,
    /// The same for its heading: radians per √metre driven.
    pub localization_yaw_drift_per_metre: f64,
    /// Time in which the localisation corrects its drift to 1/e, seconds; 0: not before it jumps.
    pub localization_correction_time: f64,
    /// The localisation notices a drift of this much, metres, and jumps; 0: never.
    pub relocalization_distance: f64,
    /// Standard deviation of the localisation's position, metres in x and y.
    pub localization_position: f64,
    /// Standard deviation of the localisation's heading, radians.
    pub localization_yaw: f64,
    /// Standard deviation of a lidar range, metres.
    pub scan: f64,
}

impl Default for Noise {
    fn default() -> Self {
        Self {
            detection_range: 0.003,
            detection_range_per_metre: 0.004,
            detection_angle: 0.002,
            detection_yaw: 0.03,
            miss: 0.05,
            false_positive: 0.0,
            class_confusion: 0.0,
            odom_scale: 0.01,
            odom_yaw_per_metre: 0.005,
            odom_yaw_per_radian: 0.005,
            odom_position_per_metre: 0.0,
            localization_drift_per_metre: 0.0,
            localization_yaw_drift_per_metre: 0.0,
            localization_correction_time: 0.0,
            relocalization_distance: 0.0,
            localization_position: 0.01,
            localization_yaw: 0.004,
            scan: 0.01,
        }
    }
}

impl Noise {
    /// No uncertainty at all.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            detection_range: 0.0,
            detection_range_per_metre: 0.0,
            detection_angle: 0.0,
            detection_yaw: 0.0,
            miss: 0.0,
            false_positive: 0.0,
            class_confusion: 0.0,
            odom_scale: 0.0,
            odom_yaw_per_metre: 0.0,
            odom_yaw_per_radian: 0.0,
            odom_position_per_metre: 0.0,
            localization_drift_per_metre: 0.0,
            localization_yaw_drift_per_metre: 0.0,
            localization_correction_time: 0.0,
            relocalization_distance: 0.0,
            localization_position: 0.0,
            localization_yaw: 0.0,
            scan: 0.0,
        }
    }
}

/// A whole world file, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct WorldFile {
    /// What a robot may know beforehand.
    pub map: SemanticMap,
    /// The walls; doors cut openings into them.
    pub walls: Vec<Wall>,
    /// The movable objects: ground truth.
    pub objects: Vec<ObjectSpec>,
    /// The robot.
    pub robot: RobotSpec,
    /// The uncertainty.
    pub noise: Noise,
    /// The faults.
    pub faults: Vec<FaultSpec>,
    /// What others do with doors and objects.
    pub schedule: Vec<HappeningSpec>,
    /// Those who walk about.
    pub people: Vec<PersonSpec>,
    /// The seed when the caller gives none.
    pub seed: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawWorld {
    #[serde(default)]
    name: String,
    rooms: Vec<Room>,
    #[serde(default)]
    walls: Vec<Wall>,
    #[serde(default)]
    doors: Vec<Door>,
    #[serde(default)]
    furniture: Vec<Furniture>,
    #[serde(default)]
    places: Vec<NamedPlace>,
    #[serde(default)]
    objects: Vec<ObjectSpec>,
    #[serde(default)]
    robot: RobotSpec,
    #[serde(default)]
    noise: Noise,
    #[serde(default)]
    faults: Vec<FaultSpec>,
    #[serde(default)]
    schedule: Vec<HappeningSpec>,
    #[serde(default)]
    people: Vec<PersonSpec>,
    #[serde(default)]
    seed: u64,
}

/// Largest number of entries in any section.
pub const MAX_ENTRIES: usize = 2000;

impl WorldFile {
    /// Reads a world from YAML text.
    ///
    /// # Errors
    /// [`SimError`] naming the section, the entry, the value and the limit. Whether the robot stands
    /// free is checked when a robot is built of it.
    pub fn from_yaml(text: &str) -> Result<Self, SimError> {
        let raw: RawWorld =
            serde_yaml_ng::from_str(text).map_err(|e| SimError::Syntax(e.to_string()))?;
        let map = SemanticMap::new(raw.name, raw.rooms, raw.doors, raw.furniture)?
            .with_places(raw.places)?;
        let world = Self {
            map,
            walls: raw.walls,
            objects: raw.objects,
            robot: raw.robot,
            noise: raw.noise,
            faults: raw.faults,
            schedule: raw.schedule,
            people: raw.people,
            seed: raw.seed,
        };
        world.validate()?;
        Ok(world)
    }

    /// Checks everything that can be checked without geometry.
    ///
    /// # Errors
    /// As [`WorldFile::from_yaml`].
    pub fn validate(&self) -> Result<(), SimError> {
        for (section, count) in [
            ("rooms", self.map.rooms.len()),
            ("walls", self.walls.len()),
            ("doors", self.map.doors.len()),
            ("furniture", self.map.furniture.len()),
            ("objects", self.objects.len()),
            ("faults", self.faults.len()),
            ("schedule", self.schedule.len()),
            ("people", self.people.len()),
        ] {
            if count > MAX_ENTRIES {
                return Err(bad(
                    section,
                    "",
                    format!("has {count} entries; at most {MAX_ENTRIES}"),
                ));
            }
        }
        for (index, wall) in self.walls.iter().enumerate() {
            let id = index.to_string();
            for v in wall.from.iter().chain(&wall.to) {
                number(
                    "walls",
                    &id,
                    "a coordinate",
                    *v,
                    -MAX_COORDINATE,
                    MAX_COORDINATE,
                )?;
            }
            number("walls", &id, "thickness", wall.thickness, 0.01, 2.0)?;
            let length = (wall.to[0] - wall.from[0]).hypot(wall.to[1] - wall.from[1]);
            number(
                "walls",
                &id,
                "the length",
                length,
                0.01,
                2.0 * MAX_COORDINATE,
            )?;
        }
        let mut seen: BTreeSet<&str> = self.map.furniture.iter().map(|f| f.id.as_str()).collect();
        for object in &self.objects {
            self.validate_object(object)?;
            if !seen.insert(&object.id) {
                return Err(bad(
                    "objects",
                    &object.id,
                    "the id is used twice in objects and furniture; give each its own".to_owned(),
                ));
            }
        }
        self.validate_robot()?;
        self.validate_noise()?;
        for fault in &self.faults {
            fault.validate()?;
            self.validate_fault(fault)?;
        }
        self.validate_schedule()?;
        let mut walkers = BTreeSet::new();
        for person in &self.people {
            person
                .validate()
                .map_err(|problem| bad("people", &person.id, problem))?;
            if person.id.is_empty() || !walkers.insert(&person.id) {
                return Err(bad(
                    "people",
                    &person.id,
                    "the id is empty or used twice; give each its own".to_owned(),
                ));
            }
        }
        Ok(())
    }

    fn validate_schedule(&self) -> Result<(), SimError> {
        Schedule::new(&self.schedule)?;
        for (index, spec) in self.schedule.iter().enumerate() {
            let unknown = |what: &str, id: &str| {
                Err(bad(
                    "schedule",
                    &index.to_string(),
                    format!("names the {what} '{id}', which the file does not define"),
                ))
            };
            match spec.deed() {
                Ok(Deed::Door { door, .. }) if self.map.door(&door).is_none() => {
                    return unknown("door", &door);
                }
                Ok(Deed::Object { object, .. }) if !self.objects.iter().any(|o| o.id == object) => {
                    return unknown("object", &object);
                }
                Ok(Deed::Object { onto: Some(id), .. }) if self.map.furniture(&id).is_none() => {
                    return unknown("furniture", &id);
                }
                // What is no deed was refused above.
                Ok(_) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// Checks that the things a fault names exist.
    ///
    /// # Errors
    /// [`SimError::Unknown`].
    pub fn validate_fault(&self, fault: &FaultSpec) -> Result<(), SimError> {
        let p = &fault.params;
        let unknown = |what, id: &String| {
            Err(SimError::Unknown {
                what,
                id: id.clone(),
            })
        };
        if let Some(id) = &p.object {
            if !self.objects.iter().any(|o| &o.id == id) {
                return unknown("object", id);
            }
        }
        if let Some(id) = &p.on {
            if self.map.furniture(id).is_none() {
                return unknown("furniture", id);
            }
        }
        if let Some(id) = &p.door {
            if self.map.door(id).is_none() {
                return unknown("door", id);
            }
        }
        Ok(())
    }

    fn validate_object(&self, object: &ObjectSpec) -> Result<(), SimError> {
        let id = &object.id;
        if id.is_empty() || id.len() > 64 {
            return Err(bad(
                "objects",
                id,
                "the id must have 1 to 64 characters".to_owned(),
            ));
        }
        if object.class.trim().is_empty() {
            return Err(bad(
                "objects",
                id,
                "the class is empty; name one, such as cup".to_owned(),
            ));
        }
        for v in &object.position {
            number(
                "objects",
                id,
                "a coordinate",
                *v,
                -MAX_COORDINATE,
                MAX_COORDINATE,
            )?;
        }
        for v in &object.size {
            number("objects", id, "a side", *v, 0.005, 3.0)?;
        }
        number("objects", id, "yaw", object.yaw, -100.0, 100.0)?;
        number("objects", id, "mass", object.mass, 0.001, 1000.0)?;
        number("objects", id, "grasp_width", object.grip(), 0.001, 3.0)?;
        match (&object.on, object.z) {
            (Some(_), Some(z)) => Err(bad(
                "objects",
                id,
                format!("has both `on` and z = {z}; give one of them"),
            )),
            (None, Some(z)) => number("objects", id, "z", z, 0.0, 10.0),
            (None, None) => Ok(()),
            (Some(on), None) => {
                let Some(furniture) = self.map.furniture(on) else {
                    return Err(bad(
                        "objects",
                        id,
                        format!("stands on '{on}', which `furniture` does not define"),
                    ));
                };
                if !furniture.surface {
                    return Err(bad(
                        "objects",
                        id,
                        format!("stands on '{on}', which has no `surface: true`"),
                    ));
                }
                let [x, y] = object.position;
                if furniture.covers(x, y) {
                    Ok(())
                } else {
                    Err(bad(
                        "objects",
                        id,
                        format!("its position ({x}, {y}) is not over '{on}'; move one of them"),
                    ))
                }
            }
        }
    }

    fn validate_robot(&self) -> Result<(), SimError> {
        let r = &self.robot;
        number(
            "robot",
            "start",
            "x",
            r.start[0],
            -MAX_COORDINATE,
            MAX_COORDINATE,
        )?;
        number(
            "robot",
            "start",
            "y",
            r.start[1],
            -MAX_COORDINATE,
            MAX_COORDINATE,
        )?;
        number("robot", "start", "yaw", r.start[2], -100.0, 100.0)?;
        for (field, value, low, high) in [
            ("radius", r.radius, 0.05, 2.0),
            ("max_speed", r.max_speed, 0.05, 5.0),
            ("max_turn", r.max_turn, 0.05, 10.0),
            ("acceleration", r.acceleration, 0.05, 20.0),
            ("deceleration", r.deceleration, 0.05, 20.0),
            ("turn_acceleration", r.turn_acceleration, 0.05, 50.0),
            ("actuator_lag", r.actuator_lag, 0.0, 2.0),
            ("cmd_timeout", r.cmd_timeout, 0.02, 10.0),
            ("scan_height", r.scan_height, 0.01, 2.0),
            (
                "scan_range",
                r.scan_range[0],
                0.0,
                r.scan_range[1].min(100.0),
            ),
            ("scan_range", r.scan_range[1], r.scan_range[0], 100.0),
            ("camera_fov", r.camera_fov[0], 0.1, 2.6),
            ("camera_fov", r.camera_fov[1], 0.1, 2.6),
            (
                "camera_range",
                r.camera_range[0],
                0.01,
                r.camera_range[1].min(20.0),
            ),
            ("camera_range", r.camera_range[1], r.camera_range[0], 20.0),
        ] {
            number("robot", field, "the value", value, low, high)?;
        }
        if !(4..=10_000).contains(&r.scan_beams) {
            return Err(bad(
                "robot",
                "scan_beams",
                format!("the value is {}; it must lie in 4 … 10000", r.scan_beams),
            ));
        }
        Ok(())
    }

    fn validate_noise(&self) -> Result<(), SimError> {
        let n = &self.noise;
        for (field, value, high) in [
            ("detection_range", n.detection_range, 1.0),
            (
                "detection_range_per_metre",
                n.detection_range_per_metre,
                1.0,
            ),
            ("detection_angle", n.detection_angle, 0.5),
            ("detection_yaw", n.detection_yaw, 3.0),
            ("miss", n.miss, 1.0),
            ("false_positive", n.false_positive, 1.0),
            ("class_confusion", n.class_confusion, 1.0),
            ("odom_scale", n.odom_scale, 0.5),
            ("odom_yaw_per_metre", n.odom_yaw_per_metre, 0.5),
            ("odom_yaw_per_radian", n.odom_yaw_per_radian, 0.5),
            ("odom_position_per_metre", n.odom_position_per_metre, 0.5),
            (
                "localization_drift_per_metre",
                n.localization_drift_per_metre,
                0.5,
            ),
            (
                "localization_yaw_drift_per_metre",
                n.localization_yaw_drift_per_metre,
                0.5,
            ),
            (
                "localization_correction_time",
                n.localization_correction_time,
                1e4,
            ),
            ("relocalization_distance", n.relocalization_distance, 10.0),
            ("localization_position", n.localization_position, 1.0),
            ("localization_yaw", n.localization_yaw, 0.5),
            ("scan", n.scan, 1.0),
        ] {
            number("noise", field, "the value", value, 0.0, high)?;
        }
        Ok(())
    }
}

fn bad(section: &'static str, id: &str, problem: String) -> SimError {
    SimError::BadEntry {
        section,
        id: id.chars().take(64).collect(),
        problem,
    }
}

fn number(
    section: &'static str,
    id: &str,
    what: &str,
    value: f64,
    low: f64,
    high: f64,
) -> Result<(), SimError> {
    if value.is_finite() && (low..=high).contains(&value) {
        Ok(())
    } else {
        Err(bad(
            section,
            id,
            format!("{what} is {value}; it must lie in {low} … {high}"),
        ))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BASE: &str = "
rooms: [{id: a, rect: [0, 0, 4, 4]}]
furniture: [{id: t, class: table, center: [2, 2], size: [1, 1, 0.7], surface: true},
            {id: f, class: fridge, center: [3.5, 3.5], size: [0.6, 0.6, 1.8]}]
";

    fn refused(extra: &str) -> String {
        WorldFile::from_yaml(&format!("{BASE}{extra}"))
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn a_small_world_is_read_with_defaults() {
        let text = format!(
            "{BASE}objects: [{{id: c, class: cup, position: [2, 2], on: t, size: [0.08, 0.08, 0.1]}}]"
        );
        let world = WorldFile::from_yaml(&text).unwrap();
        assert_eq!(world.noise, Noise::default());
        assert_eq!(world.robot.scan_beams, 360);
        assert!((world.objects[0].grip() - 0.08).abs() < 1e-12);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let object = |rest: &str| {
            refused(&format!(
                "objects: [{{id: c, class: cup, size: [0.1, 0.1, 0.1], {rest}}}]"
            ))
        };
        assert!(object("position: [2, 2], on: shelf").contains("'shelf'"));
        assert!(object("position: [3.5, 3.5], on: f").contains("surface: true"));
        assert!(object("position: [0, 0], on: t").contains("not over 't'"));
        assert!(object("position: [2, 2], on: t, z: 1").contains("both"));
        assert!(object("position: [.nan, 2]").contains("NaN"));
        assert!(object("position: [1, 1], mass: 0").contains("mass"));
        assert!(object("position: [1, 1], weight: 3").contains("weight"));
        let twice = "{id: c, class: cup, size: [0.1, 0.1, 0.1], position: [1, 1]}";
        assert!(refused(&format!("objects: [{twice}, {twice}]")).contains("twice"));
        assert!(refused("walls: [{from: [0, 0], to: [0, 0]}]").contains("length"));
        assert!(refused("robot: {radius: .inf}").contains("inf"));
        assert!(refused("robot: {wheels: 3}").contains("wheels"));
        assert!(refused("noise: {miss: 1.5}").contains("1.5"));
        assert!(refused("faults: [{fault: gremlin}]").contains("gremlin"));
        assert!(refused("faults: [{fault: door_closed, params: {door: d9}}]").contains("d9"));
        assert!(refused("colour: red").contains("colour"));
        assert!(refused("schedule: [{door: d9, open: true}]").contains("'d9'"));
        assert!(refused("schedule: [{object: o9, onto: t}]").contains("'o9'"));
        assert!(refused("people: [{id: p, path: []}]").contains("points"));
        let twice = "{id: p, path: [[1, 1]]}";
        assert!(refused(&format!("people: [{twice}, {twice}]")).contains("twice"));
        assert!(refused("noise: {relocalization_distance: -1}").contains("-1"));
    }

    proptest! {
        #[test]
        fn any_text_is_answered_without_a_panic(text in "\\PC{0,200}") {
            let _ = WorldFile::from_yaml(&text);
        }
    }
}

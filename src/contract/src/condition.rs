//! The predicate language of preconditions, effects and post-conditions.
//!
//! A condition is JSON with one key: a predicate's name, or `all`, `any`, `not`:
//!
//! ```json
//! {"all": [{"holding": {"object": "$object"}},
//!          {"not": {"on": {"object": "$object", "support": "$from"}}}]}
//! ```
//!
//! A string that begins with `$` is a placeholder for a skill's argument; [`Template::bind`] replaces
//! it. `robot` is the ref of the robot itself. Everything is in SI units. `docs/predicates.md` lists
//! the predicates for users.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thiserror::Error;

/// The ref of the robot itself.
pub const ROBOT: &str = "robot";

/// Deepest nesting of all/any/not; a condition that a person wrote has three or four levels.
pub const MAX_DEPTH: usize = 16;

/// Most predicates in one condition.
pub const MAX_PREDICATES: usize = 64;

/// One testable fact. `None` limits use the judge's configured default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Predicate {
    /// The robot's base is at a place: inside a room's outline, or within `tolerance` of a place or pose.
    At(At),
    /// The gap on the floor between the robot (or object) `subject` and the box of `target` is small.
    Near(Near),
    /// The object is not where it was at the run's start.
    Moved(Moved),
    /// The gripper holds the object.
    Holding(Holding),
    /// The object is higher than at the run's start.
    Lifted(Lifted),
    /// The object stands on the support.
    On(On),
    /// The object (or robot) is inside the room or container.
    In(In),
    /// The state of the gripper.
    Gripper(Gripper),
    /// The object was detected recently.
    Visible(Visible),
    /// No obstacle is closer to the footprint than `min_distance`.
    Clearance(Clearance),
    /// The state of a door.
    Door(Door),
    /// The arm is in a named configuration.
    Arm(Arm),
    /// Base and arm stand still.
    Stationary(Stationary),
}

/// See [`Predicate::At`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct At {
    /// Ref of a room or place.
    pub target: String,
    /// Largest distance from a place \[m\]; rooms ignore it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<f64>,
}

/// See [`Predicate::Near`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Near {
    /// Ref of an object, surface, person or place.
    pub target: String,
    /// Who should be near it; the robot by default.
    #[serde(default = "robot", skip_serializing_if = "is_robot")]
    pub subject: String,
    /// Largest gap on the floor \[m\].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_distance: Option<f64>,
}

/// See [`Predicate::Moved`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moved {
    /// Ref of the object.
    pub object: String,
    /// Least displacement \[m\].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_distance: Option<f64>,
}

/// See [`Predicate::Holding`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Holding {
    /// Ref of the object.
    pub object: String,
}

/// See [`Predicate::Lifted`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lifted {
    /// Ref of the object.
    pub object: String,
    /// Least height gained \[m\].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_height: Option<f64>,
}

/// See [`Predicate::On`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct On {
    /// Ref of the object.
    pub object: String,
    /// Ref of the surface.
    pub support: String,
}

/// See [`Predicate::In`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct In {
    /// Ref of the object.
    pub object: String,
    /// Ref of the room or container.
    pub container: String,
}

/// See [`Predicate::Gripper`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gripper {
    /// The wanted state.
    pub state: GripperState,
}

/// States of a gripper that width and effort can tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GripperState {
    /// Opened to near its largest width.
    Open,
    /// Closed with nothing between the fingers.
    Closed,
    /// Closed on something.
    Holding,
    /// Holds nothing: open or closed.
    Empty,
}

/// See [`Predicate::Visible`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Visible {
    /// Ref of the object, surface or room. Rooms and surfaces are visible when the camera covers them.
    pub object: String,
    /// Oldest detection that counts \[s\].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_age: Option<f64>,
}

/// See [`Predicate::Clearance`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clearance {
    /// Least distance \[m\].
    pub min_distance: f64,
}

/// See [`Predicate::Door`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Door {
    /// Ref of the door.
    pub door: String,
    /// Wanted state.
    pub open: bool,
}

/// See [`Predicate::Arm`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arm {
    /// Name of the configuration, for example stow.
    pub pose: String,
}

/// See [`Predicate::Stationary`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stationary {
    /// Least time of standstill before the evidence ends \[s\].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_duration: Option<f64>,
}

fn robot() -> String {
    ROBOT.into()
}

fn is_robot(subject: &str) -> bool {
    subject == ROBOT
}

impl Predicate {
    /// Refs of the scene objects that it speaks of, the robot left out.
    pub fn refs(&self) -> Vec<&str> {
        let all: Vec<&str> = match self {
            Predicate::At(p) => vec![&p.target],
            Predicate::Near(p) => vec![&p.subject, &p.target],
            Predicate::Moved(p) => vec![&p.object],
            Predicate::Holding(p) => vec![&p.object],
            Predicate::Lifted(p) => vec![&p.object],
            Predicate::On(p) => vec![&p.object, &p.support],
            Predicate::In(p) => vec![&p.object, &p.container],
            Predicate::Visible(p) => vec![&p.object],
            Predicate::Door(p) => vec![&p.door],
            Predicate::Gripper(_)
            | Predicate::Clearance(_)
            | Predicate::Arm(_)
            | Predicate::Stationary(_) => vec![],
        };
        all.into_iter().filter(|r| !is_robot(r)).collect()
    }

    /// The JSON form, for messages and logs.
    pub fn to_value(&self) -> Value {
        // A predicate is strings and numbers only; this can't fail, and null is harmless in a log.
        serde_json::to_value(self).unwrap_or(Value::Null)
    }

    fn numbers(&self) -> Vec<(&'static str, f64)> {
        let mut out = Vec::new();
        let mut push = |name, value: Option<f64>| {
            if let Some(v) = value {
                out.push((name, v));
            }
        };
        match self {
            Predicate::At(p) => push("tolerance", p.tolerance),
            Predicate::Near(p) => push("max_distance", p.max_distance),
            Predicate::Moved(p) => push("min_distance", p.min_distance),
            Predicate::Lifted(p) => push("min_height", p.min_height),
            Predicate::Visible(p) => push("max_age", p.max_age),
            Predicate::Clearance(p) => push("min_distance", Some(p.min_distance)),
            Predicate::Stationary(p) => push("min_duration", p.min_duration),
            Predicate::Holding(_)
            | Predicate::On(_)
            | Predicate::In(_)
            | Predicate::Gripper(_)
            | Predicate::Door(_)
            | Predicate::Arm(_) => {}
        }
        out
    }
}

/// A condition without placeholders.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// Every one holds; the empty one always holds.
    All(Vec<Condition>),
    /// At least one holds; the empty one never holds.
    Any(Vec<Condition>),
    /// The inner one does not hold.
    Not(Box<Condition>),
    /// A predicate.
    Is(Predicate),
}

impl Condition {
    /// The condition that always holds.
    pub const fn always() -> Self {
        Condition::All(Vec::new())
    }

    /// Reads a condition from JSON text; the empty text is [`Condition::always`].
    ///
    /// # Errors
    /// [`ConditionError`] that names the part that is wrong.
    pub fn parse(text: &str) -> Result<Self, ConditionError> {
        Template::parse(text)?.bind(&Map::new())
    }

    /// Reads a condition from a JSON value without placeholders.
    ///
    /// # Errors
    /// [`ConditionError`] that names the part that is wrong.
    pub fn from_value(value: &Value) -> Result<Self, ConditionError> {
        let mut count = 0;
        read(value, 0, &mut count)
    }

    /// The JSON form.
    pub fn to_value(&self) -> Value {
        let one = |key: &str, value: Value| {
            let mut map = Map::new();
            map.insert(key.into(), value);
            Value::Object(map)
        };
        match self {
            Condition::All(cs) => one("all", cs.iter().map(Condition::to_value).collect()),
            Condition::Any(cs) => one("any", cs.iter().map(Condition::to_value).collect()),
            Condition::Not(c) => one("not", c.to_value()),
            Condition::Is(p) => p.to_value(),
        }
    }

    /// Every predicate, depth first.
    pub fn predicates(&self) -> Vec<&Predicate> {
        let mut out = Vec::new();
        self.collect(&mut out);
        out
    }

    fn collect<'a>(&'a self, out: &mut Vec<&'a Predicate>) {
        match self {
            Condition::All(cs) | Condition::Any(cs) => cs.iter().for_each(|c| c.collect(out)),
            Condition::Not(c) => c.collect(out),
            Condition::Is(p) => out.push(p),
        }
    }

    /// Refs of all scene objects that it speaks of, sorted, each once.
    pub fn refs(&self) -> BTreeSet<String> {
        self.predicates()
            .into_iter()
            .flat_map(Predicate::refs)
            .map(String::from)
            .collect()
    }
}

/// A condition with `$argument` placeholders, as it stands in a skill's descriptor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Template(Value);

impl Default for Template {
    fn default() -> Self {
        Template(Value::Object(Map::new()))
    }
}

impl Template {
    /// Reads a template from JSON text; the empty text is the condition that always holds.
    ///
    /// # Errors
    /// [`ConditionError::NotJson`]; its structure is checked by [`Template::bind`].
    pub fn parse(text: &str) -> Result<Self, ConditionError> {
        if text.trim().is_empty() {
            return Ok(Template::default());
        }
        serde_json::from_str(text)
            .map(Template)
            .map_err(|e| ConditionError::NotJson {
                reason: e.to_string(),
            })
    }

    /// Makes a template of a JSON value.
    pub fn from_value(value: Value) -> Self {
        Template(value)
    }

    /// The JSON value with its placeholders.
    pub fn value(&self) -> &Value {
        &self.0
    }

    /// True when there is no condition.
    pub fn is_empty(&self) -> bool {
        match &self.0 {
            Value::Null => true,
            Value::Object(map) => map.is_empty(),
            _ => false,
        }
    }

    /// Names of the placeholders, without the `$`.
    pub fn placeholders(&self) -> BTreeSet<String> {
        fn walk(value: &Value, out: &mut BTreeSet<String>) {
            match value {
                Value::String(s) => {
                    if let Some(name) = s.strip_prefix('$') {
                        out.insert(name.into());
                    }
                }
                Value::Array(vs) => vs.iter().for_each(|v| walk(v, out)),
                Value::Object(map) => map.values().for_each(|v| walk(v, out)),
                Value::Null | Value::Bool(_) | Value::Number(_) => {}
            }
        }
        let mut out = BTreeSet::new();
        walk(&self.0, &mut out);
        out
    }

    /// Replaces the placeholders by a skill's arguments and reads the condition.
    ///
    /// # Errors
    /// [`ConditionError::Unbound`] for a placeholder without an argument, else the part that is wrong.
    pub fn bind(&self, arguments: &Map<String, Value>) -> Result<Condition, ConditionError> {
        if self.is_empty() {
            return Ok(Condition::always());
        }
        Condition::from_value(&substitute(&self.0, arguments, 0)?)
    }
}

fn substitute(
    value: &Value,
    arguments: &Map<String, Value>,
    depth: usize,
) -> Result<Value, ConditionError> {
    if depth > 4 * MAX_DEPTH {
        return Err(ConditionError::TooDeep);
    }
    match value {
        Value::String(s) => match s.strip_prefix('$') {
            None => Ok(value.clone()),
            Some(name) => match arguments.get(name) {
                Some(v) => Ok(v.clone()),
                None => Err(ConditionError::Unbound { name: name.into() }),
            },
        },
        Value::Array(vs) => vs
            .iter()
            .map(|v| substitute(v, arguments, depth + 1))
            .collect::<Result<_, _>>()
            .map(Value::Array),
        Value::Object(map) => map
            .iter()
            .map(|(k, v)| Ok((k.clone(), substitute(v, arguments, depth + 1)?)))
            .collect::<Result<Map<_, _>, _>>()
            .map(Value::Object),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(value.clone()),
    }
}

fn read(value: &Value, depth: usize, count: &mut usize) -> Result<Condition, ConditionError> {
    if depth > MAX_DEPTH {
        return Err(ConditionError::TooDeep);
    }
    let Value::Object(map) = value else {
        return Err(ConditionError::NotACondition {
            found: shorten(value),
        });
    };
    let mut entries = map.iter();
    let (Some((key, inner)), None) = (entries.next(), entries.next()) else {
        return Err(ConditionError::NotACondition {
            found: shorten(value),
        });
    };
    let list = |inner: &Value, count: &mut usize| match inner {
        Value::Array(vs) => vs
            .iter()
            .map(|v| read(v, depth + 1, count))
            .collect::<Result<Vec<_>, _>>(),
        other => Err(ConditionError::NotAList {
            key: key.clone(),
            found: shorten(other),
        }),
    };
    match key.as_str() {
        "all" => Ok(Condition::All(list(inner, count)?)),
        "any" => Ok(Condition::Any(list(inner, count)?)),
        "not" => Ok(Condition::Not(Box::new(read(inner, depth + 1, count)?))),
        name => {
            *count += 1;
            if *count > MAX_PREDICATES {
                return Err(ConditionError::TooMany);
            }
            if !PREDICATE_NAMES.contains(&name) {
                return Err(ConditionError::UnknownPredicate { name: name.into() });
            }
            let predicate: Predicate = serde_json::from_value(value.clone()).map_err(|e| {
                ConditionError::BadArguments {
                    name: name.into(),
                    reason: e.to_string(),
                }
            })?;
            for (field, number) in predicate.numbers() {
                if !number.is_finite() || number < 0.0 {
                    return Err(ConditionError::BadArguments {
                        name: name.into(),
                        reason: format!(
                            "{field} is {number}; it must be a finite number of at least 0"
                        ),
                    });
                }
            }
            Ok(Condition::Is(predicate))
        }
    }
}

fn shorten(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() > 80 {
        text.chars().take(77).chain("...".chars()).collect()
    } else {
        text
    }
}

/// Names of all predicates.
pub const PREDICATE_NAMES: &[&str] = &[
    "at",
    "near",
    "moved",
    "holding",
    "lifted",
    "on",
    "in",
    "gripper",
    "visible",
    "clearance",
    "door",
    "arm",
    "stationary",
];

/// What a skill changes: conditions that hold afterwards and conditions that no longer do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Effects {
    /// Hold after a success.
    #[serde(default)]
    pub add: Vec<Template>,
    /// No longer hold after a success. A string value `*` matches any ref.
    #[serde(default)]
    pub remove: Vec<Template>,
}

impl Effects {
    /// Reads effects from JSON text; the empty text changes nothing.
    ///
    /// # Errors
    /// [`ConditionError::NotJson`].
    pub fn parse(text: &str) -> Result<Self, ConditionError> {
        if text.trim().is_empty() {
            return Ok(Effects::default());
        }
        serde_json::from_str(text).map_err(|e| ConditionError::NotJson {
            reason: e.to_string(),
        })
    }

    /// Replaces the placeholders by a skill's arguments.
    ///
    /// # Errors
    /// As [`Template::bind`].
    pub fn bind(&self, arguments: &Map<String, Value>) -> Result<BoundEffects, ConditionError> {
        let bind_all = |ts: &[Template]| {
            ts.iter()
                .map(|t| t.bind(arguments))
                .collect::<Result<Vec<_>, _>>()
        };
        Ok(BoundEffects {
            add: bind_all(&self.add)?,
            remove: bind_all(&self.remove)?,
        })
    }
}

/// Effects without placeholders.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BoundEffects {
    /// Hold after a success.
    pub add: Vec<Condition>,
    /// No longer hold after a success; a ref `*` matches any.
    pub remove: Vec<Condition>,
}

impl BoundEffects {
    /// The JSON form that `apply_effects` takes.
    pub fn to_value(&self) -> Value {
        let list = |cs: &[Condition]| cs.iter().map(Condition::to_value).collect::<Value>();
        let map: BTreeMap<&str, Value> =
            [("add", list(&self.add)), ("remove", list(&self.remove))].into();
        serde_json::to_value(map).unwrap_or(Value::Null)
    }
}

/// Why a condition can't be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConditionError {
    /// Not JSON at all.
    #[error("the condition is not valid JSON ({reason}); see docs/predicates.md for the form")]
    NotJson {
        /// The parser's words.
        reason: String,
    },
    /// Not an object with one key.
    #[error("{found} is no condition; write an object with one key, such as {{\"near\": {{\"target\": \"cup_1\"}}}}")]
    NotACondition {
        /// What was found.
        found: String,
    },
    /// `all` or `any` without a list.
    #[error("\"{key}\" needs a list of conditions, found {found}")]
    NotAList {
        /// all or any.
        key: String,
        /// What was found.
        found: String,
    },
    /// No predicate of this name.
    #[error("there is no predicate \"{name}\"; the predicates are {}", PREDICATE_NAMES.join(", "))]
    UnknownPredicate {
        /// The name.
        name: String,
    },
    /// Wrong fields or values.
    #[error("the predicate \"{name}\" has bad arguments: {reason}")]
    BadArguments {
        /// The predicate.
        name: String,
        /// Why.
        reason: String,
    },
    /// A placeholder without an argument.
    #[error("the condition needs the argument \"{name}\", which the command does not have; give it or set its default in the schema")]
    Unbound {
        /// The argument.
        name: String,
    },
    /// Nested too deep.
    #[error("the condition is nested deeper than {MAX_DEPTH} levels; flatten it")]
    TooDeep,
    /// Too many predicates.
    #[error("the condition has more than {MAX_PREDICATES} predicates; split it")]
    TooMany,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn arguments(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn placeholders_are_bound_to_strings_and_numbers() {
        let t =
            Template::from_value(json!({"near": {"target": "$object", "max_distance": "$reach"}}));
        assert_eq!(
            t.placeholders(),
            ["object".to_string(), "reach".into()].into()
        );
        let c = t
            .bind(&arguments(json!({"object": "cup_1", "reach": 0.5})))
            .unwrap();
        assert_eq!(
            c,
            Condition::Is(Predicate::Near(Near {
                target: "cup_1".into(),
                subject: ROBOT.into(),
                max_distance: Some(0.5)
            }))
        );
        assert_eq!(
            t.bind(&arguments(json!({"object": "cup_1"}))),
            Err(ConditionError::Unbound {
                name: "reach".into()
            })
        );
    }

    #[test]
    fn every_predicate_survives_the_way_through_json() {
        let text = json!({"all": [
            {"at": {"target": "kitchen"}}, {"near": {"target": "cup_1"}}, {"moved": {"object": "cup_1"}},
            {"holding": {"object": "cup_1"}}, {"lifted": {"object": "cup_1", "min_height": 0.05}},
            {"on": {"object": "cup_1", "support": "table_1"}},
            {"in": {"object": "cup_1", "container": "kitchen"}}, {"gripper": {"state": "empty"}},
            {"visible": {"object": "cup_1"}}, {"clearance": {"min_distance": 0.2}},
            {"door": {"door": "door_1", "open": true}}, {"arm": {"pose": "stow"}},
            {"not": {"stationary": {}}}, {"any": []}
        ]});
        let c = Condition::from_value(&text).unwrap();
        assert_eq!(c.predicates().len(), PREDICATE_NAMES.len());
        assert_eq!(Condition::from_value(&c.to_value()), Ok(c.clone()));
        assert_eq!(c.refs().len(), 4);
    }

    #[test]
    fn errors_name_the_part_that_is_wrong() {
        let err = |v: Value| Condition::from_value(&v).unwrap_err().to_string();
        assert!(err(json!({"hold": {}})).contains("\"hold\""));
        assert!(err(json!({"on": {"object": "a"}})).contains("support"));
        assert!(err(json!({"on": {"object": "a", "support": "b", "extra": 1}})).contains("extra"));
        assert!(err(json!({"near": {"target": "a", "max_distance": -1.0}})).contains("-1"));
        assert!(err(json!({"all": {}})).contains("list"));
        assert!(err(json!([1])).contains("[1]"));
        assert!(matches!(
            Condition::parse("{nope"),
            Err(ConditionError::NotJson { .. })
        ));
        assert_eq!(Condition::parse(" "), Ok(Condition::always()));
    }

    #[test]
    fn nesting_and_number_are_bounded() {
        let mut deep = json!({"stationary": {}});
        for _ in 0..=MAX_DEPTH {
            deep = json!({"not": deep});
        }
        assert_eq!(Condition::from_value(&deep), Err(ConditionError::TooDeep));
        let many: Vec<Value> = (0..=MAX_PREDICATES)
            .map(|_| json!({"stationary": {}}))
            .collect();
        assert_eq!(
            Condition::from_value(&json!({"all": many})),
            Err(ConditionError::TooMany)
        );
    }

    #[test]
    fn an_argument_cannot_smuggle_in_a_predicate() {
        // A bound argument that is itself an object makes the predicate's field the wrong type.
        let t = Template::from_value(json!({"holding": {"object": "$object"}}));
        let bound = t.bind(&arguments(json!({"object": {"any": []}})));
        assert!(matches!(bound, Err(ConditionError::BadArguments { .. })));
    }
}

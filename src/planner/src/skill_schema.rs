//! Skill descriptors taken apart for planning: what they add and remove, and whether an effect says the
//! same as a fact that is wanted.

use std::collections::BTreeMap;

use eh_contract::arguments::{ArgumentError, ArgumentSchema};
use eh_contract::condition::{Predicate, ROBOT};
use eh_contract::scene::Kind;
use eh_contract::skill::SkillDescriptor;
use serde_json::{Map, Value};

/// A descriptor taken apart.
#[derive(Debug)]
pub(crate) struct Schema<'a> {
    pub descriptor: &'a SkillDescriptor,
    pub arguments: ArgumentSchema,
    pub refs: BTreeMap<String, Vec<Kind>>,
    pub adds: Vec<Value>,
    pub removes: Vec<Value>,
}

/// Skills on offer, taken apart once for many searches.
#[derive(Debug)]
pub struct Skills<'a> {
    pub(crate) schemas: Vec<Schema<'a>>,
}

impl<'a> Skills<'a> {
    /// Takes descriptors apart; one whose schema can't be read is left out.
    pub fn new(descriptors: &'a [SkillDescriptor]) -> Self {
        Skills {
            schemas: descriptors.iter().filter_map(Schema::new).collect(),
        }
    }

    fn find(&self, skill: &str) -> Option<&Schema<'a>> {
        self.schemas.iter().find(|s| s.descriptor.name == skill)
    }

    /// The descriptor of a skill.
    pub fn get(&self, skill: &str) -> Option<&'a SkillDescriptor> {
        self.find(skill).map(|s| s.descriptor)
    }

    /// The name of a step in memory: skill and arguments, defaults filled in. `None`: no such skill.
    pub fn key(&self, skill: &str, arguments: &Map<String, Value>) -> Option<String> {
        self.find(skill).map(|s| s.key(arguments))
    }

    /// Whether a skill takes these arguments.
    ///
    /// # Errors
    /// [`ArgumentError`] that names the argument, its value and the limit.
    pub fn check(&self, skill: &str, arguments: &Map<String, Value>) -> Result<(), ArgumentError> {
        match self.find(skill) {
            Some(s) => s
                .arguments
                .check(&Value::Object(arguments.clone()))
                .map(drop),
            None => Ok(()),
        }
    }

    /// Whether a skill with these arguments declares that it brings a predicate about.
    pub fn adds(&self, skill: &str, arguments: &Map<String, Value>, predicate: &Predicate) -> bool {
        let wanted = predicate.to_value();
        self.find(skill).is_some_and(|s| {
            s.adds
                .iter()
                .any(|p| unify(&bind(p, arguments), &wanted, false).is_some())
        })
    }
}

fn flatten(value: &Value, out: &mut Vec<Value>, negated: &mut Vec<Value>, depth: usize) {
    let Value::Object(map) = value else { return };
    if depth > 8 {
        return;
    }
    match (map.get("all"), map.get("not")) {
        (Some(Value::Array(parts)), _) => parts
            .iter()
            .for_each(|p| flatten(p, out, negated, depth + 1)),
        (_, Some(inner)) => flatten(inner, negated, out, depth + 1),
        _ if map.len() == 1 => out.push(value.clone()),
        _ => {}
    }
}

impl<'a> Schema<'a> {
    fn new(descriptor: &'a SkillDescriptor) -> Option<Self> {
        let arguments = ArgumentSchema::new(&descriptor.arguments_schema).ok()?;
        let refs = arguments
            .refs()
            .into_iter()
            .map(|(name, kinds)| (name.to_string(), kinds))
            .collect();
        let (mut adds, mut removes) = (Vec::new(), Vec::new());
        for template in &descriptor.effects.add {
            flatten(template.value(), &mut adds, &mut removes, 0);
        }
        for template in &descriptor.effects.remove {
            flatten(template.value(), &mut removes, &mut adds, 0);
        }
        Some(Schema {
            descriptor,
            arguments,
            refs,
            adds,
            removes,
        })
    }

    pub fn key(&self, arguments: &Map<String, Value>) -> String {
        let given = Value::Object(arguments.clone());
        let filled = self.arguments.check(&given).map_or(given, Value::Object);
        format!("{} {filled}", self.descriptor.name)
    }
}

/// What a pattern needs to say the same as a predicate; `None`: it says something else.
///
/// Limits: an effect without a limit is taken to satisfy any; one with a limit satisfies a wider one.
pub(crate) fn unify(pattern: &Value, wanted: &Value, removing: bool) -> Option<Map<String, Value>> {
    let (name, fields) = pattern.as_object()?.iter().next()?;
    let (wanted_name, wanted_fields) = wanted.as_object()?.iter().next()?;
    let same = name == wanted_name || (is_place(name) && is_place(wanted_name));
    if !same {
        return None;
    }
    let (fields, wanted_fields) = (fields.as_object()?, wanted_fields.as_object()?);
    let mut bindings = Map::new();
    for (field, value) in wanted_fields {
        let limit = field.starts_with("max_") || field.starts_with("min_") || field == "tolerance";
        match fields.get(field) {
            None if limit => {}
            None => return None,
            Some(Value::String(s)) if s == "*" && removing => {}
            Some(Value::String(s)) if s.starts_with('$') => {
                let argument = s.trim_start_matches('$').to_string();
                if limit {
                    // The limit is an argument: leave it to its default.
                    continue;
                }
                match bindings.get(&argument) {
                    Some(bound) if bound != value => return None,
                    Some(_) | None => {
                        bindings.insert(argument, value.clone());
                    }
                }
            }
            Some(given) if limit && !removing => {
                let (given, wanted) = (given.as_f64()?, value.as_f64()?);
                let fits = if field.starts_with("min_") {
                    given >= wanted
                } else {
                    given <= wanted
                };
                if !fits {
                    return None;
                }
            }
            Some(_) if limit => {}
            Some(given) if given == value => {}
            Some(_) => return None,
        }
    }
    // A field that only the pattern has narrows it, such as another subject than the robot.
    for (field, value) in fields {
        let limit = field.starts_with("max_") || field.starts_with("min_") || field == "tolerance";
        let robot = field == "subject" && value.as_str() == Some(ROBOT);
        if !wanted_fields.contains_key(field) && !limit && !robot {
            return None;
        }
    }
    Some(bindings)
}

/// `at` and `near` of the robot are one for planning.
fn is_place(name: &str) -> bool {
    name == "at" || name == "near"
}

pub(crate) fn bind(pattern: &Value, arguments: &Map<String, Value>) -> Value {
    match pattern {
        Value::String(s) => s
            .strip_prefix('$')
            .and_then(|name| arguments.get(name))
            .cloned()
            .unwrap_or_else(|| pattern.clone()),
        Value::Array(vs) => vs.iter().map(|v| bind(v, arguments)).collect(),
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(k, v)| (k.clone(), bind(v, arguments)))
                .collect(),
        ),
        Value::Null | Value::Bool(_) | Value::Number(_) => pattern.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn bindings(pattern: Value, wanted: Value, removing: bool) -> Option<Value> {
        unify(&pattern, &wanted, removing).map(Value::Object)
    }

    #[test]
    fn an_effect_without_limit_satisfies_any_and_one_with_a_limit_only_wider_ones() {
        let near = |limit: Value| json!({"near": {"target": "cup_1", "max_distance": limit}});
        let open = json!({"near": {"target": "$target"}});
        assert_eq!(
            bindings(open.clone(), near(json!(0.75)), false),
            Some(json!({"target": "cup_1"}))
        );
        let close = json!({"near": {"target": "$target", "max_distance": 0.8}});
        assert!(bindings(close.clone(), near(json!(0.75)), false).is_none());
        assert!(bindings(close, near(json!(0.9)), false).is_some());
        let at = json!({"at": {"target": "start", "tolerance": 0.2}});
        assert_eq!(bindings(open, at, false), Some(json!({"target": "start"})));
    }

    #[test]
    fn stars_match_only_what_is_removed() {
        let pattern = json!({"on": {"object": "$object", "support": "*"}});
        let wanted = json!({"on": {"object": "cup_1", "support": "table_1"}});
        assert_eq!(
            bindings(pattern.clone(), wanted.clone(), true),
            Some(json!({"object": "cup_1"}))
        );
        assert!(bindings(pattern, wanted, false).is_none());
    }

    #[test]
    fn one_argument_cannot_be_two_things() {
        let pattern = json!({"on": {"object": "$x", "support": "$x"}});
        let wanted = json!({"on": {"object": "cup_1", "support": "table_1"}});
        assert!(bindings(pattern, wanted, false).is_none());
        let other = json!({"near": {"target": "$t", "subject": "$s"}});
        assert!(bindings(other, json!({"near": {"target": "cup_1"}}), false).is_none());
    }
}

//! What a task wants: conditions over things that are described, not yet known by ref.

use std::collections::{BTreeMap, BTreeSet};

use eh_contract::condition::Template;
use eh_contract::footprint::{inside_outline, Footprint};
use eh_contract::scene::{Kind, RelationKind, SceneObject, SceneSnapshot};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::text::normalise;

/// Placeholder of the place where the task was given.
pub const HERE: &str = "here";

/// How one thing is at another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// In a room or container, or on something: wherever the scene says that it is there.
    At,
    /// On a surface.
    On,
    /// On or in it, or not farther from it than [`BESIDE`].
    Near,
}

/// An attribute that was named, in all the words that mean the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedAttribute {
    /// As it was said.
    pub spoken: String,
    /// All words for it.
    pub names: BTreeSet<String>,
}

/// How many of the things that fit are meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Count {
    /// One.
    #[default]
    One,
    /// So many, two at least.
    Exactly(u32),
    /// All that are known, one at least.
    All,
}

/// By what the one is chosen that has most or least of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Volume of the box around it.
    Size,
    /// Its height.
    Height,
    /// Its distance from the robot.
    Distance,
}

/// The biggest, the nearest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Superlative {
    /// By what.
    pub by: Measure,
    /// Least of it instead of most.
    pub least: bool,
}

/// A thing as the instruction describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Description {
    /// As it was said.
    pub spoken: String,
    /// Name for logs and tests: the English name where there is one.
    pub canonical: String,
    /// Its noun, normalised; empty: any noun.
    pub exact: String,
    /// Nouns that mean the same.
    pub names: BTreeSet<String>,
    /// Nouns that it also covers, when nothing fits exactly.
    pub wider: BTreeSet<String>,
    /// Kinds that it can be; empty: any.
    pub kinds: BTreeSet<String>,
    /// Attributes that it must have.
    pub attributes: Vec<NamedAttribute>,
    /// Where it is: how, and the name of another thing of the program.
    pub within: Option<(Place, String)>,
    /// A thing of the program that it is preferably in.
    pub prefer_in: Option<String>,
    /// Any one will do.
    pub any: bool,
    /// None of those that the program has bound.
    pub other: bool,
    /// What the robot holds.
    pub held: bool,
    /// How many of those that fit.
    pub count: Count,
    /// Of those that fit the biggest, the nearest.
    pub most: Option<Superlative>,
}

/// Everything described, by the name that goals use.
pub type Things = BTreeMap<String, Description>;

/// A skill that is run as it was said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Perform {
    /// Skill.
    pub skill: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
}

/// One goal of a task; goals are reached one after another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// What shall hold, with `$thing` and `$here`.
    pub condition: Template,
    /// Bring it about even when it holds already.
    #[serde(default)]
    pub act: bool,
    /// A skill to run instead.
    #[serde(default)]
    pub perform: Option<Perform>,
}

impl Description {
    /// A short form for logs and tests: `cup[red]@kitchen`.
    pub fn sketch(&self, things: &Things) -> String {
        self.sketch_within(things, 0)
    }

    fn sketch_within(&self, things: &Things, depth: u8) -> String {
        let mut out = String::new();
        if self.held {
            out.push_str("held");
        } else if self.canonical.is_empty() {
            out.push_str(&self.kinds.iter().cloned().collect::<Vec<_>>().join("|"));
        } else {
            out.push_str(&self.canonical);
        }
        for attribute in &self.attributes {
            out.push_str(&format!(
                "[{}]",
                attribute.names.iter().next().unwrap_or(&attribute.spoken)
            ));
        }
        if self.any {
            out.push('?');
        }
        if self.other {
            out.push('!');
        }
        if let Some(most) = self.most {
            out.push(if most.least { '<' } else { '>' });
            out.push_str(match most.by {
                Measure::Size => "size",
                Measure::Height => "height",
                Measure::Distance => "distance",
            });
        }
        match self.count {
            Count::One => {}
            Count::Exactly(n) => out.push_str(&format!("*{n}")),
            Count::All => out.push_str("*all"),
        }
        // A thing within itself can only come from a damaged program.
        if depth < 4 {
            for (mark, place) in [
                ("@", self.within.as_ref().map(|(_, t)| t)),
                ("~", self.prefer_in.as_ref()),
            ] {
                if let Some(thing) = place.and_then(|t| things.get(t)) {
                    out.push_str(mark);
                    out.push_str(&thing.sketch_within(things, depth + 1));
                }
            }
        }
        out
    }
}

impl Goal {
    /// A short form for logs and tests: the condition's JSON with each thing's sketch.
    pub fn sketch(&self, things: &Things) -> String {
        if let Some(perform) = &self.perform {
            return format!(
                "{}{}",
                perform.skill,
                Value::Object(perform.arguments.clone())
            );
        }
        let text = sketch_value(self.condition.value(), things);
        if self.act {
            format!("act {text}")
        } else {
            text
        }
    }
}

fn sketch_value(value: &Value, things: &Things) -> String {
    match value {
        Value::String(s) => match s.strip_prefix('$') {
            Some(name) => things
                .get(name)
                .map_or_else(|| name.to_string(), |d| d.sketch(things)),
            None => s.clone(),
        },
        Value::Array(vs) => vs
            .iter()
            .map(|v| sketch_value(v, things))
            .collect::<Vec<_>>()
            .join(" & "),
        Value::Object(map) => map
            .iter()
            .map(|(key, inner)| match (key.as_str(), inner) {
                ("all", inner) => sketch_value(inner, things),
                (key, Value::Object(fields)) => {
                    let fields: Vec<String> = if key == "not" {
                        vec![sketch_value(inner, things)]
                    } else {
                        fields
                            .iter()
                            .filter(|(name, _)| !name.starts_with("max_"))
                            .map(|(_, v)| sketch_value(v, things))
                            .collect()
                    };
                    format!("{key}({})", fields.join(","))
                }
                (key, inner) => format!("{key}({})", sketch_value(inner, things)),
            })
            .collect::<Vec<_>>()
            .join(","),
        other => other.to_string(),
    }
}

/// What a description comes to in a scene.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// This one.
    One(String),
    /// Any of these, nearest first; which one matters.
    Several(Vec<String>),
    /// Nothing that fits is known.
    Unknown,
    /// Nothing that fits is known where it should be; these are known elsewhere.
    Elsewhere(Vec<String>),
}

/// What resolution knows beyond the scene.
#[derive(Clone, Copy, Debug)]
pub struct Bindings<'a> {
    /// Refs of things that are bound, by thing.
    pub bound: &'a BTreeMap<String, String>,
    /// Refs that turned out not to be where the scene says, or not to be usable.
    pub excluded: &'a BTreeSet<String>,
    /// Ref of the robot.
    pub robot: &'a str,
    /// Worst rank of a noun that is taken: [`OWN_RANK`] or [`WIDER_RANK`].
    pub worst_rank: u8,
}

fn kind_fits(description: &Description, object: &SceneObject) -> bool {
    description.kinds.is_empty() || description.kinds.contains(object.kind.name())
}

/// Rank up to which a noun is taken by itself; beyond it only where nothing better is found.
pub const OWN_RANK: u8 = 2;

/// Rank of what a noun also covers.
pub const WIDER_RANK: u8 = 3;

/// How well a noun fits: 0 its ref, 1 its name or class, 2 the last word of its class, 3 what the noun
/// also covers.
fn noun_rank(description: &Description, object: &SceneObject) -> Option<u8> {
    if description.exact.is_empty() {
        return Some(1);
    }
    if normalise(&object.r#ref) == description.exact {
        return Some(0);
    }
    let class = normalise(&object.class_name);
    let fits = |names: &BTreeSet<String>| {
        names.contains(&class) || object.aliases.iter().any(|a| names.contains(&normalise(a)))
    };
    if fits(&description.names) {
        return Some(1);
    }
    let head = class.rsplit(' ').next().filter(|h| *h != class);
    if head.is_some_and(|h| description.names.contains(h)) {
        return Some(2);
    }
    fits(&description.wider).then_some(WIDER_RANK)
}

fn attributes_fit(description: &Description, object: &SceneObject) -> bool {
    description.attributes.iter().all(|wanted| {
        object
            .attributes
            .values()
            .any(|v| wanted.names.contains(&normalise(v)))
    })
}

/// Whether an object is at another by the scene's edges, through what it stands on.
pub fn is_at(scene: &SceneSnapshot, object: &str, place: &str) -> bool {
    let mut frontier = vec![object.to_string()];
    let mut seen = BTreeSet::new();
    // More than eight supports on each other are a loop, not a stack.
    for _ in 0..8 {
        let mut next = Vec::new();
        for at in frontier {
            for up in scene
                .objects_of(&at, RelationKind::On)
                .chain(scene.objects_of(&at, RelationKind::In))
            {
                if up == place {
                    return true;
                }
                if seen.insert(up.to_string()) {
                    next.push(up.to_string());
                }
            }
        }
        frontier = next;
    }
    // What the scene has no edge for may still lie inside the room's outline.
    match (scene.get(object), scene.get(place)) {
        (Some(o), Some(p)) if p.kind == Kind::Room && seen.is_empty() => {
            o.frame_id == p.frame_id
                && inside_outline(o.pose.position.x, o.pose.position.y, &p.outline)
        }
        (Some(_) | None, Some(_) | None) => false,
    }
}

/// Largest gap on the floor \[m\] at which one thing is beside another.
pub const BESIDE: f64 = 1.0;

fn is_beside(scene: &SceneSnapshot, object: &str, place: &str) -> bool {
    match (scene.get(object), scene.get(place)) {
        (Some(o), Some(p)) if o.frame_id == p.frame_id => {
            Footprint::new(&o.pose, o.size).gap(&Footprint::new(&p.pose, p.size)) <= BESIDE
        }
        (Some(_) | None, Some(_) | None) => false,
    }
}

/// Distance on the floor \[m\] from the robot; infinity where one of the two is not known.
pub fn distance_from_robot(scene: &SceneSnapshot, robot: &str, object: &str) -> f64 {
    match (scene.get(robot), scene.get(object)) {
        (Some(r), Some(o)) => {
            let d = r.pose.position.distance_xy(o.pose.position);
            if d.is_finite() {
                d
            } else {
                f64::INFINITY
            }
        }
        (Some(_) | None, Some(_) | None) => f64::INFINITY,
    }
}

/// Relative difference of sizes \[1\] below which two things count as equally big: a detector's error.
const SAME: f64 = 0.05;

/// Least confidence at which an object counts beside one that is believed more.
const DOUBTFUL: f64 = 0.3;

/// What fits a description as well as anything does, and what fits but is elsewhere.
struct Fitting<'a> {
    fits: Vec<&'a SceneObject>,
    elsewhere: Vec<String>,
}

/// `None`: the place where it should be is not known yet.
fn fitting<'a>(
    description: &Description,
    scene: &'a SceneSnapshot,
    bindings: Bindings<'_>,
) -> Option<Fitting<'a>> {
    let taken: BTreeSet<&String> = if description.other {
        bindings.bound.values().collect()
    } else {
        BTreeSet::new()
    };
    let mut ranked: Vec<(u8, &SceneObject)> = scene
        .live()
        .filter(|o| {
            o.r#ref != bindings.robot
                && kind_fits(description, o)
                && attributes_fit(description, o)
                && !bindings.excluded.contains(&o.r#ref)
                && !taken.contains(&o.r#ref)
        })
        .filter_map(|o| noun_rank(description, o).map(|rank| (rank, o)))
        .filter(|(rank, _)| *rank <= bindings.worst_rank)
        .collect();
    let mut elsewhere = Vec::new();
    if let Some((how, thing)) = &description.within {
        let place = bindings.bound.get(thing)?;
        let (inside, outside): (Vec<_>, Vec<_>) =
            ranked.into_iter().partition(|(_, o)| match how {
                Place::At | Place::On => is_at(scene, &o.r#ref, place),
                Place::Near => {
                    o.r#ref != *place
                        && (is_at(scene, &o.r#ref, place) || is_beside(scene, &o.r#ref, place))
                }
            });
        ranked = inside;
        elsewhere = outside.into_iter().map(|(_, o)| o.r#ref.clone()).collect();
    }
    let best = ranked.iter().map(|(rank, _)| *rank).min().unwrap_or(0);
    let mut fits: Vec<&SceneObject> = ranked
        .into_iter()
        .filter(|(rank, _)| *rank == best)
        .map(|(_, o)| o)
        .collect();
    let distance = |o: &SceneObject| distance_from_robot(scene, bindings.robot, &o.r#ref);
    fits.sort_by(|a, b| {
        distance(a)
            .total_cmp(&distance(b))
            .then_with(|| a.r#ref.cmp(&b.r#ref))
    });
    if let Some(most) = description.most {
        let measure = |o: &SceneObject| {
            let value = match most.by {
                Measure::Size => o.size.x * o.size.y * o.size.z,
                Measure::Height => o.size.z,
                Measure::Distance => distance(o),
            };
            if most.least {
                value
            } else {
                -value
            }
        };
        fits.sort_by(|a, b| measure(a).total_cmp(&measure(b)));
        if description.count == Count::One {
            // Two that differ by less than a detector's error are equally big.
            let first = fits.first().map(|o| measure(o));
            fits.retain(|o| first.is_some_and(|f| (measure(o) - f).abs() <= SAME * f.abs()));
        }
    }
    Some(Fitting { fits, elsewhere })
}

fn keep(fits: &mut Vec<&SceneObject>, test: impl Fn(&SceneObject) -> bool) {
    if fits.iter().any(|o| test(o)) {
        fits.retain(|o| test(o));
    }
}

/// One glimpse may be a false detection; it does not count beside an object that was seen often, nor one
/// that is hardly believed beside one that is.
fn keep_credible(fits: &mut Vec<&SceneObject>) {
    keep(fits, |o| o.confidence >= DOUBTFUL);
    keep(fits, |o| o.sightings != 1);
}

/// All that fit a description equally well, nearest first, or most first where it says of what.
pub fn resolve_all(
    description: &Description,
    scene: &SceneSnapshot,
    bindings: Bindings<'_>,
) -> Vec<String> {
    let Some(Fitting { mut fits, .. }) = fitting(description, scene, bindings) else {
        return Vec::new();
    };
    keep_credible(&mut fits);
    fits.into_iter().map(|o| o.r#ref.clone()).collect()
}

/// Finds what a description means.
///
/// Of several that fit: the one that the noun names best, then those where it is said to be, then what the
/// robot holds, then those preferred by context; `any` takes the nearest. What is left is
/// [`Resolution::Several`].
pub fn resolve(
    description: &Description,
    scene: &SceneSnapshot,
    bindings: Bindings<'_>,
) -> Resolution {
    if description.held {
        return match scene.objects_of(bindings.robot, RelationKind::Holds).next() {
            Some(held) => Resolution::One(held.into()),
            None => Resolution::Unknown,
        };
    }
    let Some(Fitting {
        mut fits,
        elsewhere,
    }) = fitting(description, scene, bindings)
    else {
        return Resolution::Unknown;
    };
    if fits.is_empty() {
        return if elsewhere.is_empty() {
            Resolution::Unknown
        } else {
            Resolution::Elsewhere(elsewhere)
        };
    }
    if description.most.is_none() {
        keep(&mut fits, |o| {
            scene.has(bindings.robot, RelationKind::Holds, &o.r#ref)
        });
    }
    if let Some(place) = description
        .prefer_in
        .as_ref()
        .and_then(|t| bindings.bound.get(t))
    {
        keep(&mut fits, |o| is_at(scene, &o.r#ref, place));
    }
    keep_credible(&mut fits);
    match fits.as_slice() {
        [] => Resolution::Unknown,
        [only] => Resolution::One(only.r#ref.clone()),
        several if description.any => Resolution::One(handiest(several, scene, bindings.robot)),
        several => Resolution::Several(several.iter().map(|o| o.r#ref.clone()).collect()),
    }
}

/// Of things of which any will do: one in the robot's own room before others, and then the one with the least
/// gap on the floor. What is near through a wall is far, and of something big the edge counts.
fn handiest(several: &[&SceneObject], scene: &SceneSnapshot, robot: &str) -> String {
    let own = scene.get(robot);
    let room = own.and_then(|o| room_at(scene, o));
    let far = |o: &SceneObject| {
        let elsewhere = room.is_some() && room_at(scene, o) != room;
        let gap = own.map_or(f64::INFINITY, |robot| {
            Footprint::new(&o.pose, o.size).gap(&Footprint::new(&robot.pose, robot.size))
        });
        (elsewhere, if gap.is_finite() { gap } else { f64::INFINITY })
    };
    several
        .iter()
        .map(|o| (far(o), o))
        .min_by(|((a, p), x), ((b, q), y)| {
            a.cmp(b)
                .then(p.total_cmp(q))
                .then_with(|| x.r#ref.cmp(&y.r#ref))
        })
        .map(|(_, o)| o.r#ref.clone())
        .unwrap_or_default()
}

/// The room of something, by the scene's edges, else by the outline that it stands in.
pub fn room_at<'a>(scene: &'a SceneSnapshot, object: &'a SceneObject) -> Option<&'a str> {
    if object.kind == Kind::Room {
        return Some(&object.r#ref);
    }
    scene.room_of(&object.r#ref).or_else(|| {
        let at = object.pose.position;
        scene
            .live()
            .find(|o| o.kind == Kind::Room && inside_outline(at.x, at.y, &o.outline))
            .map(|o| o.r#ref.as_str())
    })
}

//! Filters, region, nearest, text.

use std::collections::{BTreeMap, BTreeSet};

use eh_contract::footprint::Footprint;
use eh_contract::geometry::Vec3;
use eh_contract::scene::{Relation, RelationKind, SceneObject};
use serde::{Deserialize, Serialize};

use crate::effects::require;
use crate::error::SceneError;
use crate::graph::SceneGraph;
use crate::lexicon::Lexicon;

/// Entries where a query names no limit.
pub const DEFAULT_LIMIT: usize = 100;

/// Longest text of a query in bytes.
pub const MAX_TEXT: usize = 4096;

/// What to find; empty fields do not filter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Query {
    /// These refs only.
    pub refs: Vec<String>,
    /// This class only.
    pub class_name: String,
    /// These values of attributes or state.
    pub attributes: BTreeMap<String, String>,
    /// Words that have to fit class, aliases, ref or attributes, in English or Chinese.
    pub text: String,
    /// In or on this node, through any number of levels.
    pub within: String,
    /// Sort by distance from here.
    pub nearest: Option<Vec3>,
    /// Largest distance from there on the floor \[m\]; zero: no limit.
    pub max_distance: f64,
    /// Most entries; zero: [`DEFAULT_LIMIT`].
    pub limit: usize,
}

/// Everything that something is in or on, through any number of levels.
pub fn ancestors(graph: &SceneGraph, name: &str) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    let mut frontier = vec![name.to_string()];
    while let Some(at) = frontier.pop() {
        for relation in [RelationKind::In, RelationKind::On] {
            for place in graph.objects_of(&at, relation) {
                if out.insert(place.clone()) {
                    frontier.push(place);
                }
            }
        }
    }
    out
}

/// Words that name an object: each as the set of what it can mean.
fn names_of(object: &SceneObject, lexicon: &Lexicon) -> BTreeSet<String> {
    let mut out: BTreeSet<String> = lexicon.canonical(&object.class_name);
    out.insert(object.class_name.clone());
    out.insert(object.r#ref.clone());
    for word in object
        .aliases
        .iter()
        .chain(object.attributes.values())
        .chain(object.state.values())
    {
        let word = word.to_lowercase();
        out.extend(lexicon.canonical(&word));
        // "toothbrush mug" is found by either word.
        out.extend(
            word.split_whitespace()
                .flat_map(|part| lexicon.canonical(part)),
        );
        out.insert(word);
    }
    out
}

/// Everything that is in or on something, through any number of levels; at most `limit`.
pub fn contents(graph: &SceneGraph, name: &str, limit: usize) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    let mut frontier = vec![name.to_string()];
    while let Some(at) = frontier.pop() {
        for relation in [RelationKind::In, RelationKind::On] {
            for inside in graph.subjects_of(&at, relation) {
                if out.len() >= limit {
                    return out;
                }
                if out.insert(inside.clone()) {
                    frontier.push(inside);
                }
            }
        }
    }
    out
}

/// Most words of a text that count.
pub const MAX_TERMS: usize = 64;

/// Which terms of a text something satisfies, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fitting(u64);

impl Fitting {
    fn of(terms: &[BTreeSet<String>], is_named: impl Fn(&String) -> bool) -> Self {
        let bits = terms
            .iter()
            .take(MAX_TERMS)
            .enumerate()
            .filter(|(_, term)| term.iter().any(&is_named))
            .fold(0, |bits, (i, _)| bits | 1 << i);
        Fitting(bits)
    }

    /// How many.
    pub fn count(self) -> usize {
        // At most 64.
        self.0.count_ones() as usize
    }

    /// True when there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those of both.
    pub fn and_of(self, other: Fitting) -> Self {
        Fitting(self.0 | other.0)
    }

    /// Those that another has not.
    pub fn without(self, other: Fitting) -> Self {
        Fitting(self.0 & !other.0)
    }
}

/// The live nodes that satisfy at least `least` of the terms, by ref, with the terms that they satisfy: of those
/// that are called alike the first `most`. Where there are more, what satisfies few terms is left out unless
/// nothing else satisfies one of them.
pub fn named<'a>(
    graph: &'a SceneGraph,
    terms: &[BTreeSet<String>],
    least: usize,
    most: usize,
    lexicon: &Lexicon,
) -> BTreeMap<&'a str, (Fitting, &'a SceneObject)> {
    let mut out = BTreeMap::new();
    let least = least.min(MAX_TERMS);
    let mut labels = Vec::new();
    for members in graph.labels() {
        // All of a label are called alike but for their refs.
        let Some(first) = members.first().and_then(|name| graph.get(name)) else {
            continue;
        };
        let names = names_of(first, lexicon);
        let fitting = Fitting::of(terms, |t| names.contains(t) && *t != first.r#ref);
        if fitting.count() >= least.max(1) {
            labels.push((fitting, members));
        }
    }
    // What fits best first; what fits less is not looked at when there is enough of that.
    labels.sort_by_key(|(fitting, _)| std::cmp::Reverse(fitting.count()));
    let mut enough = 0;
    let mut satisfied = Fitting::default();
    for (fitting, members) in labels {
        if out.len() >= most && fitting.count() < enough && fitting.without(satisfied).is_empty() {
            continue;
        }
        enough = fitting.count();
        satisfied = satisfied.and_of(fitting);
        let all = members.iter().take(most).filter_map(|name| graph.get(name));
        out.extend(all.map(|o| (o.r#ref.as_str(), (fitting, o))));
    }
    for term in terms.iter().take(MAX_TERMS).flatten() {
        if let Some(object) = graph.get(term) {
            let fitting = fit(object, terms, lexicon);
            if fitting.count() >= least {
                out.insert(object.r#ref.as_str(), (fitting, object));
            }
        }
    }
    out
}

/// How well an object fits terms: which of them it satisfies.
pub fn fit(object: &SceneObject, terms: &[BTreeSet<String>], lexicon: &Lexicon) -> Fitting {
    let names = names_of(object, lexicon);
    Fitting::of(terms, |t| names.contains(t))
}

impl Query {
    fn check(&self) -> Result<(), SceneError> {
        let invalid = |reason: String| Err(SceneError::InvalidRequest { reason });
        if !self.max_distance.is_finite() || self.max_distance < 0.0 {
            return invalid(format!(
                "max_distance is {}; it must be a finite number of at least 0 m",
                self.max_distance
            ));
        }
        if self.text.len() > MAX_TEXT {
            return invalid(format!(
                "the text has {} bytes, the limit is {MAX_TEXT}; shorten it",
                self.text.len()
            ));
        }
        if let Some(origin) = self.nearest {
            origin.check("origin")?;
        }
        Ok(())
    }
}

/// Live objects that pass every filter of a query.
///
/// # Errors
/// [`SceneError::InvalidRequest`] for bad numbers, [`SceneError::RefNotFound`] for a ref or region that
/// does not exist.
pub fn find<'a>(
    graph: &'a SceneGraph,
    query: &Query,
    lexicon: &Lexicon,
) -> Result<Vec<&'a SceneObject>, SceneError> {
    query.check()?;
    for name in &query.refs {
        require(graph, name)?;
    }
    if !query.within.is_empty() {
        require(graph, &query.within)?;
    }
    let terms = if query.text.trim().is_empty() {
        None
    } else {
        Some(lexicon.terms(&query.text, |word| graph.knows_word(word)))
    };
    if terms.as_ref().is_some_and(Vec::is_empty) {
        return Ok(Vec::new());
    }
    let class = query.class_name.trim().to_lowercase();
    let refs: BTreeSet<&String> = query.refs.iter().collect();
    let within = (!query.within.is_empty()).then(|| contents(graph, &query.within, usize::MAX));
    let only_text = refs.is_empty()
        && class.is_empty()
        && query.attributes.is_empty()
        && within.is_none()
        && query.nearest.is_none();
    let limit = if query.limit == 0 {
        DEFAULT_LIMIT
    } else {
        query.limit
    };
    let most = if only_text { limit } else { usize::MAX };
    let texts = terms
        .as_ref()
        .map(|terms| named(graph, terms, terms.len(), most, lexicon));
    let passes = |o: &&SceneObject| {
        (refs.is_empty() || refs.contains(&o.r#ref))
            && (class.is_empty() || o.class_name == class)
            && query.attributes.iter().all(|(key, value)| {
                o.attributes.get(key) == Some(value) || o.state.get(key) == Some(value)
            })
            && within.as_ref().is_none_or(|w| w.contains(&o.r#ref))
            && texts
                .as_ref()
                .is_none_or(|t| t.contains_key(o.r#ref.as_str()))
    };
    if let Some(from) = query.nearest {
        let most = if query.max_distance == 0.0 {
            f64::INFINITY
        } else {
            query.max_distance
        };
        return Ok(nearest(graph, from, most, limit, passes));
    }
    let get = |name: &str| graph.get(name);
    Ok(if !refs.is_empty() {
        let found = refs.iter().filter_map(|name| get(name));
        found.filter(passes).take(limit).collect()
    } else if let Some(texts) = &texts {
        let found = texts.values().map(|(_, o)| *o);
        found.filter(passes).take(limit).collect()
    } else if let Some(within) = &within {
        let found = within.iter().filter_map(|name| get(name));
        found.filter(passes).take(limit).collect()
    } else if !class.is_empty() || !query.attributes.is_empty() {
        let alike = graph.labels().filter(|members| {
            let first = members.first().and_then(|name| get(name));
            first.is_some_and(|o| class.is_empty() || o.class_name == class)
        });
        let found = alike.flat_map(|members| {
            let fitting = members.iter().filter_map(|name| get(name)).filter(passes);
            fitting.take(limit)
        });
        let mut found: Vec<&SceneObject> = found.collect();
        found.sort_unstable_by(|a, b| a.r#ref.cmp(&b.r#ref));
        found.truncate(limit);
        found
    } else {
        graph.live().filter(passes).take(limit).collect()
    })
}

/// Edges with one of these names at either end, or all for none; of the kinds that are named, separated by blanks,
/// or of every kind. Each once, in the order of subject, kind and object; at most `limit`, zero: [`DEFAULT_LIMIT`].
///
/// # Errors
/// [`SceneError::RefNotFound`] for a name that there is not, [`SceneError::InvalidRequest`] for a kind that is none.
pub fn relations(
    graph: &SceneGraph,
    refs: &[String],
    kinds: &str,
    limit: usize,
) -> Result<Vec<Relation>, SceneError> {
    let mut wanted = Vec::new();
    for word in kinds.split_whitespace().take(MAX_TERMS) {
        let kind = RelationKind::from_name(word).ok_or_else(|| SceneError::InvalidRequest {
            reason: format!(
                "\"{}\" is no relation; use in, on, near, under, connects or holds",
                word.chars().take(64).collect::<String>()
            ),
        })?;
        wanted.push(kind);
    }
    let limit = if limit == 0 { DEFAULT_LIMIT } else { limit };
    let fits = |r: &&Relation| wanted.is_empty() || wanted.contains(&r.relation);
    if refs.is_empty() {
        return Ok(graph
            .relations()
            .filter(fits)
            .take(limit)
            .cloned()
            .collect());
    }
    let mut found: BTreeMap<(&str, RelationKind, &str), &Relation> = BTreeMap::new();
    for name in refs {
        let name = require(graph, name)?.r#ref.as_str();
        let edges = graph.from_subject(name).chain(graph.to_object(name));
        for r in edges.filter(fits) {
            found.insert((&r.subject, r.relation, &r.object), r);
        }
    }
    Ok(found.into_values().take(limit).cloned().collect())
}

/// The nearest nodes on the floor that pass, nearest first; of two as near by ref.
fn nearest(
    graph: &SceneGraph,
    from: Vec3,
    most: f64,
    limit: usize,
    passes: impl Fn(&&SceneObject) -> bool,
) -> Vec<&SceneObject> {
    let by_distance = |a: &(f64, &SceneObject), b: &(f64, &SceneObject)| {
        a.0.total_cmp(&b.0).then_with(|| a.1.r#ref.cmp(&b.1.r#ref))
    };
    // Further and further out, until what is left is farther than what was found.
    let mut reach = graph.grid().reach_of(limit).min(most);
    loop {
        let names = graph.grid().around(from.x, from.y, reach);
        let is_all = reach >= most || names.len() >= graph.live_count();
        let mut found: Vec<(f64, &SceneObject)> = names
            .into_iter()
            .filter_map(|name| graph.get(name))
            .filter(&passes)
            .map(|o| (Footprint::new(&o.pose, o.size).distance(from.x, from.y), o))
            .filter(|(distance, _)| *distance <= most)
            .collect();
        let sure = found.iter().filter(|(d, _)| *d <= reach).count();
        if is_all || sure >= limit {
            found.sort_unstable_by(by_distance);
            found.truncate(limit);
            return found.into_iter().map(|(_, o)| o).collect();
        }
        reach = (reach * 2.0).min(most);
    }
}

//! Filters, region, nearest, text.

use std::collections::{BTreeMap, BTreeSet};

use eh_contract::footprint::Footprint;
use eh_contract::geometry::Vec3;
use eh_contract::scene::{RelationKind, SceneObject};
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

/// Aliases of all nodes, so that names which only the scene knows are found in texts.
pub fn known_names(graph: &SceneGraph) -> BTreeSet<String> {
    graph
        .live()
        .flat_map(|o| {
            o.aliases
                .iter()
                .map(|a| a.to_lowercase())
                .chain([o.r#ref.clone(), o.class_name.clone()])
        })
        .collect()
}

/// How well an object fits terms: the number of terms that it satisfies.
pub fn fit(object: &SceneObject, terms: &[BTreeSet<String>], lexicon: &Lexicon) -> usize {
    if terms.is_empty() {
        return 0;
    }
    let names = names_of(object, lexicon);
    terms
        .iter()
        .filter(|term| term.iter().any(|t| names.contains(t)))
        .count()
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
        Some(lexicon.terms(&query.text, &known_names(graph)))
    };
    let class = query.class_name.trim().to_lowercase();
    let refs: BTreeSet<&String> = query.refs.iter().collect();
    let mut found: Vec<(f64, &SceneObject)> = graph
        .live()
        .filter(|o| refs.is_empty() || refs.contains(&o.r#ref))
        .filter(|o| class.is_empty() || o.class_name == class)
        .filter(|o| {
            query.attributes.iter().all(|(key, value)| {
                o.attributes.get(key) == Some(value) || o.state.get(key) == Some(value)
            })
        })
        .filter(|o| match &terms {
            None => true,
            Some(terms) => !terms.is_empty() && fit(o, terms, lexicon) == terms.len(),
        })
        .filter(|o| query.within.is_empty() || ancestors(graph, &o.r#ref).contains(&query.within))
        .map(|o| {
            let distance = query.nearest.map_or(0.0, |from| {
                Footprint::new(&o.pose, o.size).distance(from.x, from.y)
            });
            (distance, o)
        })
        .filter(|(distance, _)| {
            query.nearest.is_none() || query.max_distance == 0.0 || *distance <= query.max_distance
        })
        .collect();
    if query.nearest.is_some() {
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    let limit = if query.limit == 0 {
        DEFAULT_LIMIT
    } else {
        query.limit
    };
    Ok(found.into_iter().take(limit).map(|(_, o)| o).collect())
}

//! The part of the graph that decides conditions about some nodes, so that a question about a few looks at few.

use std::collections::BTreeSet;

use eh_contract::condition::ROBOT;
use eh_contract::scene::{Relation, SceneSnapshot};

use crate::graph::SceneGraph;
use crate::query::ancestors;

/// A consistent copy of nodes, the robot and what they are in or on, through any number of levels, with every
/// edge that goes out from these. Names that there are not, or not any more, are left out.
pub fn excerpt<'a>(graph: &SceneGraph, names: impl IntoIterator<Item = &'a str>) -> SceneSnapshot {
    let mut all: BTreeSet<String> = BTreeSet::new();
    for name in names.into_iter().chain([ROBOT]) {
        if graph.get(name).is_some() && all.insert(name.into()) {
            all.extend(ancestors(graph, name));
        }
    }
    let relations: Vec<Relation> = all
        .iter()
        .flat_map(|name| graph.from_subject(name))
        .cloned()
        .collect();
    SceneSnapshot {
        map_id: graph.map_id().into(),
        version: graph.version(),
        stamp: graph.stamp(),
        objects: all.iter().filter_map(|n| graph.get(n)).cloned().collect(),
        relations,
    }
}

//! Texts as vectors: which names are like a text although no word of them is known.
//!
//! The vectors come from a model outside; here they are kept and compared. How like two texts are is no probability
//! that an action with what is found succeeds, and nothing that decides about an action looks at it.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use eh_contract::scene::SceneObject;

use crate::error::SceneError;
use crate::graph::SceneGraph;
use crate::lexicon::Lexicon;
use crate::query::{find, Query, DEFAULT_LIMIT};

/// Longest text of which a vector is asked \[bytes\].
const MAX_NAMED: usize = 512;

/// Vectors of texts, all of one model and one dimension, as many as a limit of numbers allows; the oldest go.
///
/// Keys are the texts themselves: names repeat, so there are few.
#[derive(Clone, Debug)]
pub struct Vectors {
    model: String,
    dimension: usize,
    known: HashMap<String, Vec<f32>>,
    order: VecDeque<String>,
    limit: usize,
}

impl Vectors {
    /// None yet, of a model, with room for `limit` numbers.
    pub fn new(model: &str, limit: usize) -> Self {
        Vectors {
            model: model.into(),
            dimension: 0,
            known: HashMap::new(),
            order: VecDeque::new(),
            limit,
        }
    }

    /// Number of texts.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// The vector of a text.
    pub fn get(&self, text: &str) -> Option<&[f32]> {
        self.known.get(text).map(Vec::as_slice)
    }

    /// Keeps the vector of a text; the oldest go until it has room.
    ///
    /// # Errors
    /// [`SceneError::InvalidRequest`] for a vector with another dimension than those before, an empty one, one with
    /// what is no finite number, and one that has no room alone.
    pub fn keep(&mut self, text: &str, vector: Vec<f32>) -> Result<(), SceneError> {
        let bad = |reason: String| Err(SceneError::InvalidRequest { reason });
        let size = vector.len();
        if size == 0 || !vector.iter().all(|x| x.is_finite()) {
            return bad(format!(
                "a vector of {} is empty or holds what is no finite number",
                self.model
            ));
        }
        if self.dimension != 0 && size != self.dimension {
            return bad(format!(
                "a vector of {} has {size} numbers, those before had {}; was the model changed? Start the node anew",
                self.model, self.dimension
            ));
        }
        if size > self.limit {
            return bad(format!(
                "a vector of {} has {size} numbers, there is room for {}",
                self.model, self.limit
            ));
        }
        self.dimension = size;
        if let Some(known) = self.known.get_mut(text) {
            *known = vector;
            return Ok(());
        }
        while (self.known.len() + 1) * size > self.limit {
            match self.order.pop_front() {
                Some(oldest) => self.known.remove(&oldest),
                None => break,
            };
        }
        self.order.push_back(text.into());
        self.known.insert(text.into(), vector);
        Ok(())
    }
}

/// The cosine of the angle between two vectors, -1 to 1; zero for different dimensions and for vectors without length.
pub fn cosine(a: &[f32], b: &[f32]) -> f64 {
    if a.len() != b.len() {
        return 0.0;
    }
    let dot = |x: &[f32], y: &[f32]| -> f64 {
        x.iter()
            .zip(y)
            .map(|(x, y)| f64::from(*x) * f64::from(*y))
            .sum()
    };
    let lengths = (dot(a, a) * dot(b, b)).sqrt();
    let cosine = dot(a, b) / lengths;
    if lengths > 0.0 && cosine.is_finite() {
        cosine.clamp(-1.0, 1.0)
    } else {
        0.0
    }
}

/// What a node is called, as a text for a model: its attributes, class and other names.
pub fn text_of(object: &SceneObject) -> String {
    let mut text = String::new();
    let words = object.attributes.values().chain([&object.class_name]);
    for word in words.chain(&object.aliases) {
        if text.len() + word.len() + 1 > MAX_NAMED {
            break;
        }
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(word);
    }
    text
}

/// The texts that live nodes are called by and of which there is no vector, each once; at most `most`.
pub fn unknown_texts(graph: &SceneGraph, vectors: &Vectors, most: usize) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    for members in graph.labels() {
        if out.len() >= most {
            break;
        }
        let Some(object) = members.first().and_then(|name| graph.get(name)) else {
            continue;
        };
        let text = text_of(object);
        if !text.trim().is_empty() && vectors.get(&text).is_none() {
            out.insert(text);
        }
    }
    out
}

/// What a query found.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranked<'a> {
    /// The node.
    pub object: &'a SceneObject,
    /// Whether it fits by words as well.
    pub by_words: bool,
    /// How like its names are to the text, -1 to 1; `None` without a vector. No probability.
    pub similarity: Option<f64>,
}

/// What passes the filters of a query and fits its text by words or is like it by at least `least`. What fits by words
/// comes first (of more than the limit those that [`find`] gives), then what is most like it, of two alike by ref; with
/// [`Query::nearest`] the nearest comes first.
///
/// # Errors
/// As [`find`].
pub fn find_like<'a>(
    graph: &'a SceneGraph,
    query: &Query,
    lexicon: &Lexicon,
    vectors: &Vectors,
    asked: &[f32],
    least: f64,
) -> Result<Vec<Ranked<'a>>, SceneError> {
    let limit = if query.limit == 0 {
        DEFAULT_LIMIT
    } else {
        query.limit
    };
    let similarity = |object: &SceneObject| {
        let vector = vectors.get(&text_of(object))?;
        Some(cosine(vector, asked))
    };
    let mut found: BTreeMap<&str, Ranked<'a>> = BTreeMap::new();
    for object in find(graph, query, lexicon)? {
        let similarity = similarity(object);
        let ranked = Ranked {
            object,
            by_words: true,
            similarity,
        };
        found.insert(&object.r#ref, ranked);
    }
    let mut labels = Vec::new();
    for members in graph.labels() {
        let first = members.first().and_then(|name| graph.get(name));
        match first.and_then(similarity) {
            Some(like) if like >= least => labels.push((like, members)),
            _ => {}
        }
    }
    labels.sort_by(|a, b| b.0.total_cmp(&a.0));
    let wanted: BTreeSet<&str> = query.refs.iter().map(String::as_str).collect();
    for (like, members) in labels {
        // What is less like comes later; with a distance everything that is like enough competes.
        if query.nearest.is_none() && found.len() >= limit {
            break;
        }
        let refs: Vec<String> = members
            .iter()
            .filter(|name| wanted.is_empty() || wanted.contains(name.as_str()))
            .map(|name| name.to_string())
            .collect();
        if refs.is_empty() {
            continue;
        }
        let alone = Query {
            refs,
            text: String::new(),
            ..query.clone()
        };
        for object in find(graph, &alone, lexicon)? {
            found.entry(&object.r#ref).or_insert(Ranked {
                object,
                by_words: false,
                similarity: Some(like),
            });
        }
    }
    let mut out: Vec<Ranked<'a>> = found.into_values().collect();
    if query.nearest.is_some() {
        let names = out.iter().map(|r| r.object.r#ref.clone()).collect();
        let sorted = Query {
            refs: names,
            text: String::new(),
            ..query.clone()
        };
        let order: HashMap<&str, usize> = if out.is_empty() {
            HashMap::new()
        } else {
            let near = find(graph, &sorted, lexicon)?;
            near.into_iter()
                .enumerate()
                .map(|(i, o)| (o.r#ref.as_str(), i))
                .collect()
        };
        out.retain(|r| order.contains_key(r.object.r#ref.as_str()));
        out.sort_by_key(|r| order.get(r.object.r#ref.as_str()).copied());
    } else {
        let like = |r: &Ranked<'_>| r.similarity.unwrap_or(-1.0);
        // Stable: of two alike the order of the refs stays.
        out.sort_by(|a, b| {
            b.by_words
                .cmp(&a.by_words)
                .then(like(b).total_cmp(&like(a)))
        });
    }
    out.truncate(limit);
    Ok(out)
}

//! Breadth first through every interleaving, to a depth.

use std::collections::hash_map::DefaultHasher;
use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::time::{Duration, Instant};

/// What is explored.
pub(super) trait Explored: Clone {
    /// What may happen.
    type Action: Copy + Debug;

    /// Everything that may happen now.
    fn actions(&self) -> Vec<Self::Action>;

    /// What comes of it, or which invariant it breaks.
    fn after(&self, action: Self::Action) -> Result<Self, String>;

    /// Everything that the future depends on; counters that nothing reads are left out.
    fn identify(&self, hasher: &mut impl Hasher);
}

/// What was seen.
#[derive(Debug)]
pub(super) struct Exploration {
    /// Different states.
    pub(super) states: usize,
    /// Steps between them, those into known states too.
    pub(super) steps: usize,
    /// Steps from the first state to the last ones.
    pub(super) depth: usize,
    /// Whether nothing is left beyond that depth.
    pub(super) complete: bool,
    /// How long it took.
    pub(super) time: Duration,
    /// The shortest way to a broken invariant.
    pub(super) violation: Option<Violation>,
}

/// A broken invariant.
#[derive(Debug)]
pub(super) struct Violation {
    pub(super) what: String,
    pub(super) trace: Vec<String>,
}

fn fingerprint<M: Explored>(state: &M) -> u64 {
    let mut hasher = DefaultHasher::new();
    state.identify(&mut hasher);
    hasher.finish()
}

/// Looks at every state within `depth` steps, but at no more than `most` of them; calls `see` for each new
/// one.
pub(super) fn explore<M: Explored>(
    first: M,
    depth: usize,
    most: usize,
    mut see: impl FnMut(&M),
) -> Exploration {
    let began = Instant::now();
    let mut known: HashSet<u64> = HashSet::from([fingerprint(&first)]);
    // Of each state: the one before it and the step; the way to a violation is read back from it.
    let mut origins: Vec<(usize, M::Action)> = Vec::new();
    let mut layer: Vec<(M, usize)> = vec![(first, 0)];
    let mut out = Exploration {
        states: 1,
        steps: 0,
        depth: 0,
        complete: false,
        time: Duration::ZERO,
        violation: None,
    };
    'search: while out.depth < depth {
        let mut next = Vec::new();
        for (state, origin) in &layer {
            for action in state.actions() {
                out.steps += 1;
                match state.after(action) {
                    Ok(after) => {
                        if known.insert(fingerprint(&after)) {
                            see(&after);
                            origins.push((*origin, action));
                            next.push((after, origins.len()));
                        }
                    }
                    Err(what) => {
                        let mut trace = vec![format!("{action:?}")];
                        let mut at = *origin;
                        while let Some((before, step)) =
                            at.checked_sub(1).and_then(|i| origins.get(i))
                        {
                            trace.push(format!("{step:?}"));
                            at = *before;
                        }
                        trace.reverse();
                        out.violation = Some(Violation { what, trace });
                        break 'search;
                    }
                }
            }
            if known.len() > most {
                break 'search;
            }
        }
        if next.is_empty() {
            out.complete = true;
            break;
        }
        layer = next;
        out.depth += 1;
    }
    out.states = known.len();
    out.time = began.elapsed();
    out
}

/// A part of an identity that has no `Hash`.
pub(super) fn put(hasher: &mut impl Hasher, parts: &[u64]) {
    parts.hash(hasher);
}

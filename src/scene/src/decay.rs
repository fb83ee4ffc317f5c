//! What is not looked at stays where it was, unless it is of a class that goes by itself.
//!
//! A cup that is out of view is where it was seen; a person who is out of view may be anywhere after a while. So
//! confidence in such a class halves with time since it was last seen, whether the camera looks there or not.

use eh_contract::condition::ROBOT;
use eh_contract::scene::RelationKind;
use eh_contract::Stamp;

use crate::config::SceneConfig;
use crate::graph::{Edit, SceneGraph};

/// Lowers the confidence in what goes by itself for the time from `since` to `now`, and retires what is hardly
/// believed any more; returns its names.
pub(crate) fn decay(
    graph: &mut SceneGraph,
    since: Stamp,
    now: Stamp,
    config: &SceneConfig,
) -> Vec<String> {
    let mut names = Vec::new();
    for members in graph.labels() {
        let first = members.first().and_then(|name| graph.get(name));
        let half_life = first.and_then(|o| config.half_lives.get(&o.class_name));
        if let Some(half_life) = half_life {
            names.extend(members.iter().map(|name| (name.to_string(), *half_life)));
        }
    }
    let mut retired = Vec::new();
    for (name, half_life) in names {
        if graph.has(ROBOT, RelationKind::Holds, &name) {
            continue;
        }
        let mut retire = false;
        graph.edit(&name, now, |o| {
            // Until it was seen last there was nothing to doubt.
            let unseen = now.since(since.max(o.last_seen)).as_secs_f64();
            if unseen == 0.0 {
                return Edit::Same;
            }
            let before = o.confidence;
            o.confidence *= (-unseen / half_life.as_secs_f64()).exp2();
            retire = o.confidence < config.retire_below;
            Edit::of_confidence(before, o.confidence)
        });
        if retire {
            graph.retire(&name, "", now, config.max_retired);
            retired.push(name);
        }
    }
    retired
}

//! Whether the gripper holds an object, and whether it rose: what the fingers and the camera say together.

use eh_contract::verdict::Truth;

use crate::finding::Finding;
use crate::scope::{Fingers, Scope, Target};
use crate::things::{object, object_before};

/// How far beyond an object's top and bottom a grasp at it may be \[m\]: errors of its pose.
const GRASP_SLACK: f64 = 0.05;

/// Share of an object's smaller side that the fingers are at least apart around it: boxes of detections are larger
/// than what is in them.
const WHOLE_SHARE: f64 = 0.7;

/// Whether it is seen where it was at the start, apart from the hand.
pub(crate) struct OldPlace {
    pub(crate) truth: Truth,
    pub(crate) ids: Vec<String>,
    pub(crate) text: String,
    /// It is seen there, but the hand is there too: that tells nothing of who carries it.
    at_hand: bool,
}

/// How far from the tool the centre of something held can be seen \[m\]: half its box and what a detector errs.
pub(crate) fn reach_of_hand(scope: &Scope<'_>, target: &Target) -> f64 {
    let half = target.size.vector().norm() / 2.0;
    scope.config.in_hand.max(half + scope.config.same_place)
}

pub(crate) fn old_place(scope: &mut Scope<'_>, name: &str, target: &Target) -> OldPlace {
    let origin = scope.origin(target);
    let reach = reach_of_hand(scope, target);
    // What is in the hand may be at its old place as well, when it was never carried away or was held from the
    // start. So a sight there tells against a grip only when the hand was clearly elsewhere, or held another
    // one of the class in the same frame.
    let (apart, at_hand): (Vec<_>, Vec<_>) = scope
        .hits(target, origin, scope.config.same_place)
        .into_iter()
        .partition(|(frame, detection)| {
            let at = detection.pose.position;
            scope.tool_at(frame.stamp).is_some_and(|hand| {
                hand.distance(at) > reach
                    || scope.other_in_hand(target, frame, detection, hand, reach)
            })
        });
    let looked = scope.looked_at(origin, &[name]);
    if let Some((frame, detection)) = apart.last() {
        let mut ids = vec![scope.exhibit_detection(frame, detection)];
        ids.extend(scope.tool().map(|(_, id)| id));
        // A single frame among several that looked and saw nothing is a misreading as likely as not.
        let truth = if apart.len() >= 2 || looked <= 1 {
            Truth::True
        } else {
            Truth::Unknown
        };
        return OldPlace {
            truth,
            ids,
            text: format!(
                "{name} is seen at its old place in {} of {} frames",
                apart.len(),
                looked.max(apart.len())
            ),
            at_hand: false,
        };
    }
    if let Some((frame, detection)) = at_hand.last() {
        let id = scope.exhibit_detection(frame, detection);
        let where_is_the_hand = if scope.tool().is_some() {
            "where the hand is"
        } else {
            "at its old place, and where the hand is is not known"
        };
        return OldPlace {
            truth: Truth::Unknown,
            ids: vec![id],
            text: format!("{name} is seen {where_is_the_hand}"),
            at_hand: true,
        };
    }
    if looked >= scope.config.absence_frames {
        let id = scope.exhibit_absence(&target.class_name, origin, looked);
        return OldPlace {
            truth: Truth::False,
            ids: vec![id],
            text: format!("{name} is no longer at its old place"),
            at_hand: false,
        };
    }
    OldPlace {
        truth: Truth::Unknown,
        ids: vec![],
        text: format!("the old place of {name} is not in view"),
        at_hand: false,
    }
}

/// How far beside the object the fingers closed during the run, when that was seen and is too far for them to
/// have closed on it.
fn closed_beside(scope: &Scope<'_>, target: &Target) -> Option<f64> {
    let (place, slack) = match scope.seen_before(target) {
        Some(seen) => (seen, GRASP_SLACK),
        // Only told: it may have been looked for around there.
        None => (target.pose.position, scope.config.search_radius),
    };
    let off = scope.grasp_point()?.distance_xy(place);
    let half = (target.size.x.hypot(target.size.y)) / 2.0;
    (off > half + slack).then_some(off)
}

/// Whether the fingers are nearer together than they could be with the whole object between them: they hold a part
/// of it, another thing, or are stuck. Then the fingers alone are not believed.
fn is_too_thin(target: &Target, width: f64) -> bool {
    width < WHOLE_SHARE * target.size.x.min(target.size.y)
}

/// The gripper holds the object.
pub fn holding(scope: &mut Scope<'_>, name: &str) -> Finding {
    let gripper = scope.gripper();
    // The fingers alone decide that nothing is held, whatever the object is.
    if let Ok((sample, fingers, id)) = &gripper {
        let body = scope.embodiment;
        let why = match fingers {
            Fingers::Closed => Some((
                sample.width - body.closed_width,
                "nothing between the fingers".to_string(),
            )),
            Fingers::Open => Some((
                body.open_width - sample.width,
                "the fingers are open".to_string(),
            )),
            Fingers::Loose => Some((
                sample.effort.unwrap_or(0.0).abs() - body.contact_effort,
                format!(
                    "the fingers press with {:.1} N only, a grip needs {:.1} N",
                    sample.effort.unwrap_or(0.0).abs(),
                    body.contact_effort
                ),
            )),
            Fingers::Gripping | Fingers::Moving => None,
        };
        if *fingers == Fingers::Moving {
            return Finding::unknown(
                vec![id.clone()],
                format!(
                    "whether {name} is held can't be told: the fingers still move, at {:.3} m",
                    sample.width
                ),
            );
        }
        if let Some((margin, why)) = why {
            let verb = if *fingers == Fingers::Closed {
                "closed to"
            } else {
                "at"
            };
            return Finding {
                truth: Truth::False,
                margin: margin.min(-1e-6),
                unit: if *fingers == Fingers::Loose { "N" } else { "m" },
                evidence: vec![id.clone()],
                explanation: format!(
                    "{name} is not held: gripper {verb} {:.3} m, {why}",
                    sample.width
                ),
            };
        }
    }
    let target = match object(scope, name) {
        Ok(target) => target,
        Err(finding) => return finding,
    };
    let place = old_place(scope, name, &target);
    match gripper {
        Ok((sample, _, id)) => {
            let mut ids = vec![id];
            ids.extend(place.ids);
            match (place.truth, closed_beside(scope, &target)) {
                (Truth::True, _) => Finding::decided(
                    false,
                    ids,
                    format!(
                        "{}, whatever the fingers hold at {:.3} m",
                        place.text, sample.width
                    ),
                ),
                (Truth::False | Truth::Unknown, Some(off)) => Finding::unknown(
                    ids,
                    format!(
                        "contradicting: the fingers hold something at {:.3} m, but closed {off:.2} m beside {name}",
                        sample.width
                    ),
                ),
                (Truth::Unknown, None) if !place.at_hand && is_too_thin(&target, sample.width) => {
                    Finding::unknown(
                        ids,
                        format!(
                            "the fingers press at {:.3} m, which is thin for {name}, and {}",
                            sample.width, place.text
                        ),
                    )
                }
                (Truth::Unknown, None) if ids.len() > 1 && !place.at_hand => Finding::unknown(
                    ids,
                    format!(
                        "contradicting: the fingers hold something at {:.3} m, but {}",
                        sample.width, place.text
                    ),
                ),
                (Truth::False | Truth::Unknown, None) => Finding::measured(
                    sample.width - scope.embodiment.closed_width,
                    "m",
                    ids,
                    format!(
                        "the fingers hold something at {:.3} m and {}",
                        sample.width, place.text
                    ),
                ),
            }
        }
        Err(why) => match place.truth {
            Truth::True => Finding::decided(false, place.ids, place.text),
            Truth::False | Truth::Unknown => {
                Finding::unknown(place.ids, format!("{why}; {}", place.text))
            }
        },
    }
}

/// How high the fingers closed during the run, if that was at the object \[m\].
fn grasp_height(scope: &Scope<'_>, target: &Target, origin: f64) -> Option<f64> {
    scope
        .grasp_point()
        .map(|p| p.z)
        .filter(|z| (z - origin).abs() <= target.size.z / 2.0 + GRASP_SLACK)
}

/// The object is higher than at the start.
pub fn lifted(scope: &mut Scope<'_>, name: &str, least: Option<f64>) -> Finding {
    let least = least.unwrap_or(scope.config.lifted_height);
    let (target, origin) = match object_before(scope, name) {
        Ok(found) => found,
        Err(finding) => return finding,
    };
    let place = old_place(scope, name, &target);
    if place.truth == Truth::True {
        return Finding::decided(false, place.ids, place.text);
    }
    // Seen in or near the hand, or still where it was: its own height counts, the middle one of all frames.
    let tool = scope.tool();
    let near = reach_of_hand(scope, &target);
    let mut seen = match &tool {
        Some((sample, _)) => scope.hits(&target, sample.pose.position, near),
        None => Vec::new(),
    };
    if seen.is_empty() && place.at_hand {
        seen = scope.hits(&target, origin, scope.config.same_place);
    }
    seen.sort_by(|(_, a), (_, b)| a.pose.position.z.total_cmp(&b.pose.position.z));
    if let Some((frame, detection)) = seen.get(seen.len() / 2).copied() {
        let mut gain = detection.pose.position.z - origin.z;
        let id = scope.exhibit_detection(frame, detection);
        // It can't rise more than the fingers that closed on it, which are measured better than it is seen.
        let grasp = grasp_height(scope, &target, origin.z);
        if let (Some(grasp), Some((sample, _))) = (grasp, &tool) {
            gain = gain.min(sample.pose.position.z - grasp);
        }
        return Finding::measured(
            gain - least,
            "m",
            vec![id],
            format!("{name} is {gain:.2} m higher than at the start, wanted {least:.2} m"),
        );
    }
    // Not seen: what is held rises with the tool.
    let held = holding(scope, name);
    let mut ids = held.evidence.clone();
    match (held.truth, tool) {
        (Truth::True, Some((sample, id))) => {
            ids.push(id);
            let height = sample.pose.position.z;
            let half = target.size.z / 2.0;
            // Where the fingers closed, if that was at the object; else the object may have been gripped
            // anywhere up to its top, and what is not certain is not claimed.
            let grasp = grasp_height(scope, &target, origin.z);
            let (low, high) = match grasp {
                Some(z) => (height - z, height - z),
                None => (height - origin.z - half, height - origin.z + half),
            };
            if low < least && high >= least {
                return Finding::unknown(
                    ids,
                    format!(
                        "{name} is held, but where it was gripped is not known: it rose by {low:.2} to {high:.2} m, wanted {least:.2} m"
                    ),
                );
            }
            let gain = if low >= least { low } else { high };
            Finding::measured(
                gain - least,
                "m",
                ids,
                format!("{name} is held and the tool rose by {gain:.2} m, wanted {least:.2} m"),
            )
        }
        (Truth::True, None) => Finding::unknown(
            ids,
            format!("{name} is not seen and the height of the tool is not known"),
        ),
        (Truth::False, _) => Finding::unknown(
            ids,
            format!("{name} is neither seen nor held: {}", held.explanation),
        ),
        (Truth::Unknown, _) => Finding::unknown(ids, held.explanation),
    }
}

//! Predicates about objects: holding, lifted, moved, on, in, near each other, visible.
//!
//! Which detection is the object that was meant: one of its class near where it is expected (where it was
//! at the start, the tool, the point of release) that is not one of the others of that class that were
//! seen before the start.

use eh_contract::footprint::Footprint;
use eh_contract::geometry::Vec3;
use eh_contract::perception::Detection;
use eh_contract::scene::Kind;
use eh_contract::sight::Solid;
use eh_contract::verdict::Truth;

use crate::body;
use crate::scope::{Finding, Fingers, Scope, Target};

/// How far around its old place an object that is no longer there is looked for \[m\].
const ELSEWHERE: f64 = 1.5;

/// How far beyond an object's top and bottom a grasp at it may be \[m\]: errors of its pose.
const GRASP_SLACK: f64 = 0.05;

fn object(scope: &Scope<'_>, name: &str) -> Result<Target, Finding> {
    let target = scope
        .target(name)
        .cloned()
        .map_err(|why| Finding::unknown(vec![], why))?;
    if target.class_name.is_empty() {
        return Err(Finding::unknown(
            vec![],
            format!("the class of {name} is not known, so no detection can be it"),
        ));
    }
    Ok(target)
}

/// Whether it is seen where it was at the start.
struct OldPlace {
    truth: Truth,
    ids: Vec<String>,
    text: String,
}

fn old_place(scope: &mut Scope<'_>, name: &str, target: &Target) -> OldPlace {
    let origin = scope.origin(target);
    let near = scope.config.same_place;
    let hand = scope.tool().map(|(s, _)| s.pose.position);
    // What is in the hand is not at its old place, even if the hand is still above it.
    let hits: Vec<_> = scope
        .hits(target, origin, near)
        .into_iter()
        .filter(|(_, d)| {
            let here = d.pose.position.distance(origin);
            hand.is_none_or(|h| d.pose.position.distance(h) > here)
        })
        .collect();
    let looked = scope.looked_at(origin, &[name]);
    match hits.last() {
        Some((frame, detection)) => {
            let id = scope.exhibit_detection(frame, detection);
            // A single frame among several that looked and saw nothing is a misreading as likely as not.
            let truth = if hits.len() >= 2 || looked <= 1 {
                Truth::True
            } else {
                Truth::Unknown
            };
            OldPlace {
                truth,
                ids: vec![id],
                text: format!(
                    "{name} is seen at its old place in {} of {} frames",
                    hits.len(),
                    looked.max(hits.len())
                ),
            }
        }
        None if looked >= scope.config.absence_frames => {
            let id = scope.exhibit_absence(&target.class_name, origin, looked);
            OldPlace {
                truth: Truth::False,
                ids: vec![id],
                text: format!("{name} is no longer at its old place"),
            }
        }
        None => OldPlace {
            truth: Truth::Unknown,
            ids: vec![],
            text: format!("the old place of {name} is not in view"),
        },
    }
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
            Fingers::Gripping => None,
        };
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
            match place.truth {
                Truth::True => Finding::decided(
                    false,
                    ids,
                    format!(
                        "{}, whatever the fingers hold at {:.3} m",
                        place.text, sample.width
                    ),
                ),
                Truth::Unknown if ids.len() > 1 => Finding::unknown(
                    ids,
                    format!(
                        "contradicting: the fingers hold something at {:.3} m, but {}",
                        sample.width, place.text
                    ),
                ),
                Truth::False | Truth::Unknown => Finding::measured(
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

/// The object is higher than at the start.
pub fn lifted(scope: &mut Scope<'_>, name: &str, least: Option<f64>) -> Finding {
    let least = least.unwrap_or(scope.config.lifted_height);
    let target = match object(scope, name) {
        Ok(target) => target,
        Err(finding) => return finding,
    };
    if let Err(why) = scope.baseline() {
        return Finding::unknown(vec![], why);
    }
    let origin = scope.origin(&target);
    let place = old_place(scope, name, &target);
    if place.truth == Truth::True {
        return Finding::decided(false, place.ids, place.text);
    }
    // Seen in or near the hand: its own height counts.
    let tool = scope.tool();
    let around = tool.as_ref().map_or(origin, |(s, _)| s.pose.position);
    let seen = scope
        .hits(&target, around, scope.config.in_hand)
        .last()
        .copied();
    if let Some((frame, detection)) = seen {
        let gain = detection.pose.position.z - origin.z;
        let id = scope.exhibit_detection(frame, detection);
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
            let grasp = scope
                .grasp_point()
                .map(|p| p.z)
                .filter(|z| (z - origin.z).abs() <= half + GRASP_SLACK);
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

/// The object is not where it was.
pub fn moved(scope: &mut Scope<'_>, name: &str, least: Option<f64>) -> Finding {
    let least = least.unwrap_or(scope.config.moved_distance);
    let target = match object(scope, name) {
        Ok(target) => target,
        Err(finding) => return finding,
    };
    if let Err(why) = scope.baseline() {
        return Finding::unknown(vec![], why);
    }
    let origin = scope.origin(&target);
    if let Some((frame, detection)) = scope.hits(&target, origin, ELSEWHERE).last().copied() {
        let by = detection.pose.position.distance(origin);
        let id = scope.exhibit_detection(frame, detection);
        return Finding::measured(
            by - least,
            "m",
            vec![id],
            format!("{name} is {by:.2} m from where it was, wanted {least:.2} m"),
        );
    }
    let place = old_place(scope, name, &target);
    match place.truth {
        Truth::False => Finding::decided(
            true,
            place.ids,
            format!("{}; where it is now was not seen", place.text),
        ),
        Truth::True | Truth::Unknown => Finding::unknown(place.ids, place.text),
    }
}

/// Where an object should be after the run: where the fingers let go of it, the hand, or its old place.
fn expected(scope: &mut Scope<'_>, target: &Target) -> (Vec3, bool) {
    if let Some(point) = scope.release_point() {
        return (point, true);
    }
    let gripping = matches!(scope.gripper(), Ok((_, Fingers::Gripping, _)));
    match scope.tool() {
        Some((sample, _)) if gripping => (sample.pose.position, false),
        Some(_) | None => (scope.origin(target), false),
    }
}

fn bottom_of(detection: &Detection, target: &Target) -> f64 {
    let height = if detection.size.z > 0.0 {
        detection.size.z
    } else {
        target.size.z
    };
    detection.pose.position.z - height / 2.0
}

/// The object stands on the support.
pub fn on(scope: &mut Scope<'_>, name: &str, support_name: &str) -> Finding {
    let target = match object(scope, name) {
        Ok(target) => target,
        Err(finding) => return finding,
    };
    let support = match scope.target(support_name) {
        Ok(support) => support.clone(),
        Err(why) => return Finding::unknown(vec![], why),
    };
    let (place, released) = expected(scope, &target);
    if !released {
        if let Err(why) = scope.baseline() {
            return Finding::unknown(
                vec![],
                format!("which {} is {name} can't be told: {why}", target.class_name),
            );
        }
    }
    let frames = scope.frames();
    if frames.is_empty() {
        return Finding::unknown(vec![], scope.lack_of_frames());
    }
    let top = support.pose.position.z + support.size.z / 2.0;
    let footprint = Footprint::new(&support.pose, support.size);
    let hits = scope.hits(&target, place, ELSEWHERE);
    let (mut stands, mut elsewhere) = (Vec::new(), Vec::new());
    for (frame, detection) in hits {
        let p = detection.pose.position;
        let over = footprint.distance(p.x, p.y) <= scope.config.support_margin;
        let height = bottom_of(detection, &target) - top;
        if over && height.abs() <= scope.config.support_height {
            stands.push((frame, detection, height));
        } else {
            elsewhere.push((frame, detection, height));
        }
    }
    let (yes, no) = (stands.len(), elsewhere.len());
    if let (Some((frame, detection, height)), true) = (stands.last(), yes > no) {
        let id = scope.exhibit_detection(frame, detection);
        return Finding::measured(
            scope.config.support_height - height.abs(),
            "m",
            vec![id],
            format!(
                "{name} stands on {support_name}: its bottom is {:.2} m from the top, seen in {yes} frames",
                height.abs()
            ),
        );
    }
    if let (Some((frame, detection, height)), true) = (elsewhere.last(), no > yes) {
        let id = scope.exhibit_detection(frame, detection);
        let p = detection.pose.position;
        let side = footprint.distance(p.x, p.y);
        let (margin, how) = if side > scope.config.support_margin {
            (
                scope.config.support_margin - side,
                format!("{side:.2} m beside it"),
            )
        } else {
            let word = if *height < 0.0 { "below" } else { "above" };
            (
                scope.config.support_height - height.abs(),
                format!("{:.2} m {word} its top", height.abs()),
            )
        };
        return Finding {
            truth: Truth::False,
            margin,
            unit: "m",
            evidence: vec![id],
            explanation: format!("{name} is not on {support_name} but {how}"),
        };
    }
    if yes > 0 {
        return Finding::unknown(
            vec![],
            format!("contradicting: {name} is seen on {support_name} in {yes} frames and elsewhere in {no}"),
        );
    }
    // Not seen at all: was it looked for?
    let mut resting = place;
    resting.z = top + target.size.z / 2.0;
    let looked = scope.looked_at(resting, &[name, support_name]);
    if looked >= scope.config.absence_frames
        && footprint.distance(resting.x, resting.y) <= scope.config.support_margin
        && released
    {
        let id = scope.exhibit_absence(&target.class_name, resting, looked);
        return Finding::decided(
            false,
            vec![id],
            format!("{name} was let go over {support_name}, but is not seen there"),
        );
    }
    Finding::unknown(
        vec![],
        format!(
            "{name} is not seen: {} frames, of which {looked} look at where it should stand",
            frames.len()
        ),
    )
}

/// The object is inside the room or container.
pub fn inside(scope: &mut Scope<'_>, name: &str, container_name: &str) -> Finding {
    let target = match object(scope, name) {
        Ok(target) => target,
        Err(finding) => return finding,
    };
    let container = match scope.target(container_name) {
        Ok(container) => container.clone(),
        Err(why) => return Finding::unknown(vec![], why),
    };
    let (place, _) = expected(scope, &target);
    let seen = scope.hits(&target, place, ELSEWHERE).last().copied();
    let Some((frame, detection)) = seen else {
        // What the fingers hold is where the hand is.
        let held = holding(scope, name);
        if let (Truth::True, Some((sample, id)), Kind::Room) =
            (held.truth, scope.tool(), container.kind)
        {
            let p = sample.pose.position;
            return body::inside_room(&container, container_name, p.x, p.y, vec![id]);
        }
        return Finding::unknown(vec![], format!("{name} is not seen"));
    };
    let id = scope.exhibit_detection(frame, detection);
    let p = detection.pose.position;
    if container.kind == Kind::Room {
        return body::inside_room(&container, container_name, p.x, p.y, vec![id]);
    }
    let solid = Solid {
        pose: container.pose,
        size: container.size,
    };
    let inside = solid.contains(p, scope.config.support_margin);
    Finding::decided(
        inside,
        vec![id],
        format!(
            "{name} is seen {} {container_name}",
            if inside { "inside" } else { "outside" }
        ),
    )
}

/// The gap on the floor between two objects.
pub fn near_each_other(
    scope: &mut Scope<'_>,
    subject: &str,
    name: &str,
    limit: Option<f64>,
) -> Finding {
    let limit = limit.unwrap_or(scope.config.near_distance);
    let target = match scope.target(name) {
        Ok(target) => target.clone(),
        Err(why) => return Finding::unknown(vec![], why),
    };
    let moving = match object(scope, subject) {
        Ok(moving) => moving,
        Err(finding) => return finding,
    };
    let (place, _) = expected(scope, &moving);
    let Some((frame, detection)) = scope.hits(&moving, place, ELSEWHERE).last().copied() else {
        return Finding::unknown(vec![], format!("{subject} is not seen"));
    };
    let id = scope.exhibit_detection(frame, detection);
    let p = detection.pose.position;
    if target.kind == Kind::Room {
        return body::inside_room(&target, name, p.x, p.y, vec![id]);
    }
    let gap = Footprint::new(&detection.pose, detection.size)
        .gap(&Footprint::new(&target.pose, target.size));
    Finding::measured(
        limit + scope.config.position_tolerance - gap,
        "m",
        vec![id],
        format!("{subject} is {gap:.2} m from {name}, the limit is {limit:.2} m"),
    )
}

/// The object was detected recently; a place is visible when the camera covers it.
pub fn visible(scope: &mut Scope<'_>, name: &str, max_age: Option<f64>) -> Finding {
    let max_age = max_age.unwrap_or(scope.config.visible_age);
    let target = match scope.target(name) {
        Ok(target) => target.clone(),
        Err(why) => return Finding::unknown(vec![], why),
    };
    match target.kind {
        Kind::Object | Kind::Person => {}
        Kind::Unspecified
        | Kind::Building
        | Kind::Floor
        | Kind::Room
        | Kind::Surface
        | Kind::Container
        | Kind::Robot
        | Kind::Place
        | Kind::Door => return body::covers(scope, name, &target, max_age),
    }
    let target = match object(scope, name) {
        Ok(target) => target,
        Err(finding) => return finding,
    };
    let frames = scope.frames();
    if frames.is_empty() {
        return Finding::unknown(vec![], scope.lack_of_frames());
    }
    let (place, _) = expected(scope, &target);
    let recent: Vec<_> = scope
        .hits(&target, place, scope.config.search_radius)
        .into_iter()
        .filter(|(f, _)| scope.now.since(f.stamp).as_secs_f64() <= max_age)
        .collect();
    if let Some((frame, detection)) = recent.last() {
        let age = scope.now.since(frame.stamp).as_secs_f64();
        let id = scope.exhibit_detection(frame, detection);
        return Finding::measured(
            max_age - age,
            "s",
            vec![id],
            format!("{name} was seen {age:.1} s ago, the limit is {max_age:.1} s"),
        );
    }
    if frames.len() < scope.config.absence_frames {
        return Finding::unknown(
            vec![],
            format!(
                "{name} is not in {} frames, {} are needed to say that it is not visible",
                frames.len(),
                scope.config.absence_frames
            ),
        );
    }
    let looked = scope.looked_at(place, &[name]);
    let id = scope.exhibit_absence(&target.class_name, place, looked);
    let how = if looked > 0 {
        format!(
            "{looked} frames looked at where it should be and found no {}",
            target.class_name
        )
    } else {
        "the camera does not look at where it should be, or something hides it".into()
    };
    Finding::decided(false, vec![id], format!("{name} is not visible: {how}"))
}

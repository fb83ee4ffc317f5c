//! Predicates about objects: moved, on, in, near each other, visible, and doors. See [`crate::grip`] for holding and
//! lifted.
//!
//! Which detection is the object that was meant: one of its class near where it is expected (where it was
//! at the start, the tool, the point of release) that is not one of the others of that class that were
//! seen before the start.

use eh_contract::footprint::Footprint;
use eh_contract::geometry::Vec3;
use eh_contract::perception::{Detection, DetectionFrame};
use eh_contract::scene::Kind;
use eh_contract::sight::Solid;
use eh_contract::verdict::Truth;

use crate::body;
use crate::finding::Finding;
use crate::grip::{holding, old_place, reach_of_hand};
use crate::scope::{Fingers, Scope, Target};

/// How far around its old place an object that is no longer there is looked for \[m\].
const ELSEWHERE: f64 = 1.5;

/// Class of detections that tell of doors.
const DOOR: &str = "door";

/// How far from the middle of its opening the leaf of a door is seen \[m\]: wide doors have 1.2 m.
const DOOR_LEAF: f64 = 1.2;

pub(crate) fn object(scope: &Scope<'_>, name: &str) -> Result<Target, Finding> {
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

/// An object and where it was at the start, for predicates that compare with it; else a finding that says what lacks.
pub(crate) fn object_before(scope: &Scope<'_>, name: &str) -> Result<(Target, Vec3), Finding> {
    let target = object(scope, name)?;
    if let Err(why) = scope.baseline() {
        return Err(Finding::unknown(vec![], why));
    }
    let origin = scope.origin(&target);
    Ok((target, origin))
}

/// The object is not where it was.
pub fn moved(scope: &mut Scope<'_>, name: &str, least: Option<f64>) -> Finding {
    let least = least.unwrap_or(scope.config.moved_distance);
    let (target, origin) = match object_before(scope, name) {
        Ok(found) => found,
        Err(finding) => return finding,
    };
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

/// What is between the fingers and just above a support: whether the support carries it can't be seen.
fn in_the_fingers(
    scope: &mut Scope<'_>,
    name: &str,
    support_name: &str,
    target: &Target,
    frame: &DetectionFrame,
    detection: &Detection,
    height: f64,
) -> Option<Finding> {
    let (_, fingers, id) = scope.gripper().ok()?;
    let grips = match fingers {
        Fingers::Gripping | Fingers::Moving => true,
        Fingers::Open | Fingers::Closed | Fingers::Loose => false,
    };
    // Where the hand is is not known: it may be there.
    let hand = scope.tool_at(frame.stamp);
    let near =
        hand.is_none_or(|h| h.distance(detection.pose.position) <= reach_of_hand(scope, target));
    (grips && near).then(|| {
        let seen = scope.exhibit_detection(frame, detection);
        Finding::unknown(
            vec![seen, id],
            format!(
                "{name} is seen {height:.2} m above the top of {support_name}, but the fingers grip there: what carries it can't be told"
            ),
        )
    })
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
    if yes >= no {
        if let Some((frame, detection, height)) = stands.last().copied() {
            if let Some(finding) =
                in_the_fingers(scope, name, support_name, &target, frame, detection, height)
            {
                return finding;
            }
        }
    }
    // A single frame among several that looked is a misreading as likely as not, whatever it shows.
    let enough = yes + no >= 2 || frames.len() <= 1;
    if let (Some((frame, detection, height)), true) = (stands.last(), yes > no && enough) {
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
    if let (Some((frame, detection, height)), true) = (elsewhere.last(), no > yes && enough) {
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
            format!(
                "contradicting: {name} is seen on {support_name} in {yes} of {} frames and elsewhere in {no}",
                frames.len()
            ),
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
        limit - gap,
        "m",
        vec![id],
        format!("{subject} is {gap:.2} m from {name}, the limit is {limit:.2} m"),
    )
}

/// A door is open, or closed: what detections of it say in their attribute `state`.
pub fn door(scope: &mut Scope<'_>, name: &str, open: bool) -> Finding {
    let target = match scope.target(name) {
        Ok(target) => target.clone(),
        Err(why) => return Finding::unknown(vec![], why),
    };
    let place = target.pose.position;
    let (mut yes, mut no) = (Vec::new(), Vec::new());
    for frame in scope.frames() {
        let nearest = frame
            .detections
            .iter()
            .filter(|d| d.class_name == DOOR)
            // The leaf of an open door is beside its opening; heights of boxes differ.
            .map(|d| (d.pose.position.distance_xy(place), d))
            .filter(|(distance, _)| *distance <= DOOR_LEAF)
            .min_by(|a, b| a.0.total_cmp(&b.0));
        let Some((_, detection)) = nearest else {
            continue;
        };
        match detection.attributes.get("state").map(String::as_str) {
            Some("open") => yes.push((frame, detection)),
            Some("closed") => no.push((frame, detection)),
            Some(_) | None => {}
        }
    }
    let (state, (seen, other)) = if yes.len() >= no.len() {
        ("open", (yes, no.len()))
    } else {
        ("closed", (no, yes.len()))
    };
    let Some((frame, detection)) = seen.last().copied() else {
        return Finding::unknown(
            vec![],
            format!("no detection of {name} (class door) says in its attribute state whether it is open"),
        );
    };
    let id = scope.exhibit_detection(frame, detection);
    if other > 0 || (seen.len() < 2 && scope.frames().len() > 1) {
        return Finding::unknown(
            vec![id],
            format!(
                "contradicting: {name} is seen {state} in {} frames of {}, and otherwise in {other}",
                seen.len(),
                scope.frames().len()
            ),
        );
    }
    Finding::decided(
        (state == "open") == open,
        vec![id],
        format!("{name} is seen {state} in {} frames", seen.len()),
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

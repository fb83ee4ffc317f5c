//! Predicates about the robot itself: near, at, in a room, gripper, arm, stationary, clearance, and what
//! its camera covers.

use std::time::Duration;

use eh_contract::condition::{Arm, Clearance, GripperState, Stationary};
use eh_contract::footprint::{distance_to_outline, inside_outline, Footprint};
use eh_contract::geometry::angle_difference;
use eh_contract::perception::View;
use eh_contract::scene::{Kind, SceneObject};
use eh_contract::sight::covered_by_views;
use eh_contract::Stamp;
use serde_json::json;

use crate::finding::Finding;
use crate::scope::{Fingers, Scope, Target};
use crate::sights::OnTheWay;

/// The robot's base near a target, or inside it when it is a room.
pub fn near(scope: &mut Scope<'_>, name: &str, limit: Option<f64>) -> Finding {
    let target = match scope.target(name) {
        Ok(target) => target.clone(),
        Err(why) => return Finding::unknown(vec![], why),
    };
    let (base, id) = match scope.base() {
        Ok(found) => found,
        Err(why) => return Finding::unknown(vec![], why),
    };
    let at = base.pose.position;
    let mut ids = vec![id];
    match target.kind {
        Kind::Room | Kind::Floor | Kind::Building => inside_room(&target, name, at.x, at.y, ids),
        Kind::Place => {
            let limit = limit.unwrap_or(scope.config.place_tolerance);
            let distance = at.distance_xy(target.pose.position);
            Finding::measured(
                limit - distance,
                "m",
                ids,
                format!("stopped {distance:.2} m from {name}, the limit is {limit:.2} m"),
            )
        }
        Kind::Object | Kind::Person => {
            // Where it is now, if it was seen; where it was, if the camera does not look there.
            let origin = scope.origin(&target);
            let hits = scope.hits(&target, origin, scope.config.search_radius);
            let looked = scope.looked_at(origin, &[name]);
            let mut pose = target.pose;
            pose.position = origin;
            if let Some((frame, detection)) = hits.last().copied() {
                ids.push(scope.exhibit_detection(frame, detection));
                // A single frame among several that looked and saw nothing is a misreading as likely as not.
                if hits.len() >= 2 || looked <= 1 {
                    pose.position = detection.pose.position;
                    return gap(scope, name, &pose, &target, at.x, at.y, limit, ids);
                }
            }
            if looked == 0 && hits.is_empty() {
                let assumed = match scope.on_the_way(&target, origin, name) {
                    OnTheWay::Seen(looks) => format!("it is not in view, and is taken to be where it was ({looks} looks there on the way)"),
                    // A look from here would show no more.
                    OnTheWay::HardlyLooked(_) if scope.is_behind_furniture(origin, name) => "furniture hides it from here, and it is taken to be where it was".into(),
                    OnTheWay::Missed => {
                        return Finding::unknown(ids, format!("{name} was no longer seen where it was while the robot came near"));
                    }
                    OnTheWay::HardlyLooked(looks) => {
                        return Finding::unknown(ids, format!("{looks} frames since the start looked at where {name} was, too few to tell that it is still there; look at it"));
                    }
                };
                let mut finding = gap(scope, name, &pose, &target, at.x, at.y, limit, ids);
                finding.explanation += "; ";
                finding.explanation += &assumed;
                return finding;
            }
            // Somebody may have moved it: being near its old place is then worth nothing.
            ids.push(scope.exhibit_absence(&target.class_name, origin, looked));
            if looked >= scope.config.absence_frames {
                if let Some((frame, detection)) = scope.seen_elsewhere(&target, origin) {
                    ids.push(scope.exhibit_detection(frame, detection));
                    pose.position = detection.pose.position;
                    return gap(scope, name, &pose, &target, at.x, at.y, limit, ids);
                }
            }
            Finding::unknown(
                ids,
                format!("{name} is not seen where it was, though {looked} frames looked there"),
            )
        }
        Kind::Unspecified | Kind::Surface | Kind::Container | Kind::Robot | Kind::Door => {
            gap(scope, name, &target.pose, &target, at.x, at.y, limit, ids)
        }
    }
}

#[allow(clippy::too_many_arguments)]
fn gap(
    scope: &Scope<'_>,
    name: &str,
    pose: &eh_contract::geometry::Pose,
    target: &Target,
    x: f64,
    y: f64,
    limit: Option<f64>,
    ids: Vec<String>,
) -> Finding {
    let limit = limit.unwrap_or(scope.config.near_distance);
    let gap = Footprint::new(pose, target.size).distance(x, y);
    Finding::measured(
        limit - gap,
        "m",
        ids,
        format!("stopped {gap:.2} m from {name}, reach {limit:.2} m"),
    )
}

/// A point inside the outline of a room.
pub fn inside_room(target: &Target, name: &str, x: f64, y: f64, ids: Vec<String>) -> Finding {
    if target.outline.len() < 3 {
        return Finding::unknown(ids, format!("the outline of {name} is not known"));
    }
    let edge = distance_to_outline(x, y, &target.outline);
    let inside = inside_outline(x, y, &target.outline);
    let side = if inside { "inside" } else { "outside" };
    Finding::measured(
        if inside { edge } else { -edge },
        "m",
        ids,
        format!("{edge:.2} m {side} the outline of {name}"),
    )
}

/// The fingers.
pub fn gripper(scope: &mut Scope<'_>, wanted: GripperState) -> Finding {
    let (sample, fingers, id) = match scope.gripper() {
        Ok(found) => found,
        Err(why) => return Finding::unknown(vec![], why),
    };
    if fingers == Fingers::Moving {
        return Finding::unknown(
            vec![id],
            format!("the fingers still move, at {:.3} m", sample.width),
        );
    }
    let body = scope.embodiment;
    let (holds, margin) = match wanted {
        GripperState::Open => (fingers == Fingers::Open, sample.width - body.open_width),
        GripperState::Closed => (fingers == Fingers::Closed, body.closed_width - sample.width),
        GripperState::Holding => (fingers == Fingers::Gripping, f64::NAN),
        GripperState::Empty => (fingers != Fingers::Gripping, f64::NAN),
    };
    let state = match fingers {
        Fingers::Open => "open",
        Fingers::Closed => "closed with nothing between the fingers",
        Fingers::Gripping => "closed on something",
        Fingers::Loose => "half open without force",
        Fingers::Moving => "on its way",
    };
    let mut finding = Finding::decided(
        holds,
        vec![id],
        format!("the gripper is {state}: {:.3} m apart", sample.width),
    );
    finding.margin = margin;
    finding.unit = if margin.is_nan() { "" } else { "m" };
    finding
}

/// The arm in a named configuration.
pub fn arm(scope: &mut Scope<'_>, predicate: &Arm) -> Finding {
    let Some(wanted) = scope.embodiment.arm_poses.get(&predicate.pose).cloned() else {
        let known: Vec<&str> = scope
            .embodiment
            .arm_poses
            .keys()
            .map(String::as_str)
            .collect();
        return Finding::unknown(
            vec![],
            format!(
                "the arm pose \"{}\" is not configured; known are: {}",
                predicate.pose,
                known.join(", ")
            ),
        );
    };
    let newest = scope.buffer.joints().next_back();
    let Some(sample) = newest.filter(|s| scope.is_fresh(s.stamp)).cloned() else {
        return Finding::unknown(vec![], scope.lack("joint state", newest.map(|s| s.stamp)));
    };
    let mut worst: Option<(f64, String)> = None;
    for (joint, value) in &wanted {
        let Some(position) = sample.positions.get(joint) else {
            return Finding::unknown(
                vec![],
                format!("the joint states do not contain {joint}; they should name all joints of \"{}\"", predicate.pose),
            );
        };
        let off = angle_difference(*value, *position).abs();
        if worst.as_ref().is_none_or(|(w, _)| off > *w) {
            worst = Some((off, joint.clone()));
        }
    }
    let (off, joint) = worst.unwrap_or((0.0, String::new()));
    let id = scope.exhibit(
        "joint_states",
        "joint_states",
        sample.stamp,
        format!("{joint} is {off:.3} rad from \"{}\"", predicate.pose),
        json!(sample.positions),
        "",
    );
    let limit = scope.config.arm_tolerance;
    Finding::measured(
        limit - off,
        "rad",
        vec![id],
        format!(
            "{joint} is {off:.3} rad from \"{}\", the limit is {limit:.2} rad",
            predicate.pose
        ),
    )
}

/// Base and arm stand still.
pub fn stationary(scope: &mut Scope<'_>, predicate: &Stationary) -> Finding {
    let wanted = predicate
        .min_duration
        .unwrap_or(scope.config.still_duration);
    let newest = scope.buffer.twist().next_back().map(|s| s.stamp);
    let fresh: Vec<_> = scope
        .buffer
        .twist()
        .filter(|s| scope.is_fresh(s.stamp))
        .copied()
        .collect();
    let (Some(first), Some(last)) = (fresh.first(), fresh.last()) else {
        return Finding::unknown(vec![], scope.lack("odometry", newest));
    };
    // Back from the newest sample to the last motion.
    let still = |s: &crate::evidence::TwistSample| {
        s.linear.abs() <= scope.config.still_linear && s.angular.abs() <= scope.config.still_angular
    };
    let moving = fresh.iter().rev().find(|s| !still(s)).copied();
    let since: Stamp = moving.map_or(first.stamp, |s| s.stamp);
    let duration = last.stamp.since(since).as_secs_f64();
    let id = scope.exhibit(
        "odometry",
        "odom",
        last.stamp,
        format!("speed {:.3} m/s, {:.3} rad/s", last.linear, last.angular),
        json!({"linear": last.linear, "angular": last.angular}),
        "",
    );
    if let Some(moving) = moving.filter(|_| duration < wanted) {
        return Finding::measured(
            duration - wanted,
            "s",
            vec![id],
            format!(
                "the base moved with {:.2} m/s and {:.2} rad/s {duration:.1} s ago, wanted {wanted:.1} s of standstill",
                moving.linear, moving.angular
            ),
        );
    }
    if let Some((joint, speed)) = moving_joint(scope) {
        return Finding::measured(
            scope.config.still_joint - speed,
            "rad/s",
            vec![id],
            format!("{joint} moves with {speed:.2} rad/s"),
        );
    }
    // Samples come at intervals: one less than the time wanted is as good.
    if duration + 0.1 * wanted < wanted {
        return Finding::unknown(
            vec![id],
            format!("standstill was watched for {duration:.1} s only, wanted {wanted:.1} s"),
        );
    }
    Finding::measured(
        (duration - wanted).max(0.0),
        "s",
        vec![id],
        format!("the base stands still for {duration:.1} s"),
    )
}

/// The fastest joint that moves, by velocity or else by two positions.
fn moving_joint(scope: &Scope<'_>) -> Option<(String, f64)> {
    let mut newest = scope
        .buffer
        .joints()
        .rev()
        .filter(|s| scope.is_fresh(s.stamp));
    let last = newest.next()?;
    let mut speeds: Vec<(String, f64)> = last
        .velocities
        .iter()
        .map(|(joint, v)| (joint.clone(), v.abs()))
        .collect();
    if speeds.is_empty() {
        let before = newest.find(|s| last.stamp.since(s.stamp) >= Duration::from_millis(100))?;
        let seconds = last.stamp.since(before.stamp).as_secs_f64();
        speeds = last
            .positions
            .iter()
            .filter_map(|(joint, p)| {
                let old = before.positions.get(joint)?;
                Some((joint.clone(), (p - old).abs() / seconds))
            })
            .collect();
    }
    speeds
        .into_iter()
        .filter(|(_, v)| *v > scope.config.still_joint)
        .max_by(|a, b| a.1.total_cmp(&b.1))
}

/// No obstacle is nearer to the footprint than a distance.
pub fn clearance(scope: &mut Scope<'_>, predicate: &Clearance) -> Finding {
    let newest = scope.buffer.clearance().next_back().copied();
    let Some(sample) = newest.filter(|s| scope.is_fresh(s.stamp)) else {
        return Finding::unknown(vec![], scope.lack("scan", newest.map(|s| s.stamp)));
    };
    let gap = sample.distance - scope.embodiment.footprint_radius;
    let shown = if gap.is_finite() {
        format!("{gap:.2} m")
    } else {
        "out of range".into()
    };
    let id = scope.exhibit(
        "scan",
        "scan",
        sample.stamp,
        format!("nearest obstacle {shown} from the footprint"),
        json!({"distance": if gap.is_finite() { Some(gap) } else { None }}),
        "",
    );
    let limit = predicate.min_distance;
    if !gap.is_finite() {
        return Finding::decided(true, vec![id], "no obstacle is in range".into());
    }
    Finding::measured(
        gap - limit,
        "m",
        vec![id],
        format!("the nearest obstacle is {shown} from the footprint, wanted {limit:.2} m"),
    )
}

/// The camera covers a place, a room or a piece of furniture: what the frames show together, the run's own
/// included. The head may sweep over it during the run, and looking changes nothing in the world.
pub fn covers(scope: &mut Scope<'_>, name: &str, target: &Target, max_age: f64) -> Finding {
    // Not before the look's last frames have arrived.
    if scope.frames().is_empty() {
        return Finding::unknown(vec![], scope.lack_of_frames());
    }
    let frames = scope.frames_since_start();
    let node = SceneObject {
        r#ref: name.into(),
        kind: target.kind,
        pose: target.pose,
        size: target.size,
        outline: target.outline.clone(),
        ..SceneObject::default()
    };
    let nodes: &[SceneObject] = scope.prior.map_or(&[], |p| p.objects.as_slice());
    let recent: Vec<_> = frames
        .iter()
        .filter(|f| scope.now.since(f.stamp).as_secs_f64() <= max_age)
        .filter_map(|f| f.view.as_ref().map(|view| (f, view)))
        .collect();
    let all: Vec<&View> = recent.iter().map(|(_, view)| *view).collect();
    let views = all.len();
    let share = if all.is_empty() {
        None
    } else {
        covered_by_views(&all, &node, nodes.iter())
    };
    let best = share
        .zip(recent.last())
        .map(|(share, (frame, _))| (share, frame.stamp, frame.source.clone()));
    let Some((share, stamp, source)) = best else {
        let why = if views == 0 {
            "the frames do not say what the camera covers".to_string()
        } else {
            format!("whether {name} is in view can't be told: it has no extent")
        };
        return Finding::unknown(vec![], why);
    };
    let id = scope.exhibit(
        "detection",
        &source,
        stamp,
        format!("the camera covers {:.0} % of {name}", share * 100.0),
        json!({"covered": share, "frames": views}),
        "",
    );
    let limit = scope.config.covered_share;
    Finding::measured(
        share - limit,
        "",
        vec![id],
        format!(
            "the camera covers {:.0} % of {name}, wanted {:.0} %",
            share * 100.0,
            limit * 100.0
        ),
    )
}

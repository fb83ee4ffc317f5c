//! Motions of the arm: straight in the joints or in space, checked for contact on the way.

use nalgebra::{Isometry3, Point3};

use crate::arm_error_code::ArmErrorCode;
use crate::arm_kinematics::{
    forward, inverse, inverse_position, within_limits, Joints, CARRY, JOINT_NAMES, LIMITS, READY,
    STOW,
};
use crate::arm_surroundings::ArmSurroundings;
use crate::random::SeededRandom;

/// Joints move at most this much between two checks, radians.
const CHECK_STEP: f64 = 0.04;
/// Distance between two solutions along a straight line, metres.
const LINE_STEP: f64 = 0.01;
/// Greatest change of a joint from one solution to the next along a line, radians.
const LINE_JUMP: f64 = 0.35;
/// Tries of the random planner.
const RANDOM_TRIES: usize = 400;

/// A failure: the MoveIt code and what happened.
pub type ArmFailure = (ArmErrorCode, String);

/// Where the arm is to go.
#[derive(Debug, Clone, PartialEq)]
pub enum ArmTarget {
    /// `gripper_tcp` at a pose in base_link.
    Pose {
        /// The pose.
        pose: Isometry3<f64>,
        /// How far the orientation may differ about the tool's x, y and z, radians; none: any will do.
        orientation_tolerance: Option<[f64; 3]>,
    },
    /// The joints at positions in radians.
    Joints(Joints),
}

/// The way to get there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ArmPathKind {
    /// Whatever way is free.
    #[default]
    Free,
    /// The tool moves on a straight line.
    Line,
}

/// A motion: legs that each start and end at rest, each a chain of joint positions.
#[derive(Debug, Clone, PartialEq)]
pub struct ArmPlan {
    /// The legs; each holds at least two positions.
    pub legs: Vec<Vec<Joints>>,
}

impl ArmPlan {
    /// Where the motion ends.
    #[must_use]
    pub fn end(&self) -> Option<Joints> {
        self.legs.last().and_then(|l| l.last()).copied()
    }
}

/// Plans from `start` to the target.
///
/// # Errors
/// The MoveIt code and a sentence.
pub fn plan_motion(
    start: &Joints,
    target: &ArmTarget,
    kind: ArmPathKind,
    surroundings: &ArmSurroundings,
    random: &mut SeededRandom,
) -> Result<ArmPlan, ArmFailure> {
    if let Some(contact) = surroundings.contact(start) {
        return Err((
            ArmErrorCode::StartStateInCollision,
            format!("where the arm is, {contact}"),
        ));
    }
    if kind == ArmPathKind::Line {
        return plan_line(start, target, surroundings);
    }
    let ends = match target {
        ArmTarget::Joints(q) => {
            for ((v, [low, high]), name) in q.iter().zip(&LIMITS).zip(JOINT_NAMES) {
                if !(low..=high).contains(&v) {
                    return Err((
                        ArmErrorCode::InvalidGoalConstraints,
                        format!("{name} = {v:.3} rad is outside {low:.2} … {high:.2}"),
                    ));
                }
            }
            vec![*q]
        }
        ArmTarget::Pose {
            pose,
            orientation_tolerance,
        } => {
            let found = match orientation_tolerance {
                Some(t) => inverse(pose, *t),
                None => inverse_position(&Point3::from(pose.translation.vector)),
            };
            if found.is_empty() {
                return Err(out_of_reach(pose));
            }
            found
        }
    };
    let mut contact = String::new();
    let mut free_ends = Vec::new();
    for end in ends {
        match surroundings.contact(&end) {
            None => free_ends.push(end),
            Some(c) => contact = c,
        }
    }
    if free_ends.is_empty() {
        return Err((
            ArmErrorCode::GoalInCollision,
            format!("at the goal, {contact}"),
        ));
    }
    for end in &free_ends {
        if let Some(plan) = plan_via(start, end, surroundings) {
            return Ok(plan);
        }
    }
    if let Some(plan) = free_ends
        .first()
        .and_then(|end| plan_random(start, end, surroundings, random))
    {
        return Ok(plan);
    }
    Err((
        ArmErrorCode::PlanningFailed,
        "no motion that touches nothing was found; move the base or choose another pose".to_owned(),
    ))
}

fn out_of_reach(pose: &Isometry3<f64>) -> ArmFailure {
    let v = pose.translation.vector;
    (
        ArmErrorCode::NoIkSolution,
        format!(
            "no joint positions bring the tool to ({:.2}, {:.2}, {:.2}) m in base_link at that orientation",
            v.x, v.y, v.z
        ),
    )
}

/// Whether the straight motion in the joints touches nothing.
fn free(from: &Joints, to: &Joints, surroundings: &ArmSurroundings) -> bool {
    let widest = from
        .iter()
        .zip(to)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f64::max);
    let steps = (widest / CHECK_STEP).ceil().max(1.0) as usize;
    (1..=steps).all(|k| {
        surroundings
            .contact(&mix(from, to, k as f64 / steps as f64))
            .is_none()
    })
}

/// The joints a share `t` of the way from `a` to `b`.
#[must_use]
pub fn mix(a: &Joints, b: &Joints, t: f64) -> Joints {
    let mut q = *a;
    for (v, target) in q.iter_mut().zip(b) {
        *v += t * (target - *v);
    }
    q
}

/// Tries the direct way, then ways over poses that are usually free.
fn plan_via(start: &Joints, end: &Joints, surroundings: &ArmSurroundings) -> Option<ArmPlan> {
    let turned = |pose: &Joints, yaw: f64| [yaw, pose[1], pose[2], pose[3], pose[4]];
    let raised = |q: &Joints| [q[0], (q[1] + 0.7).min(LIMITS[1][1]), q[2], q[3], q[4]];
    let mut chains: Vec<Vec<Joints>> =
        vec![vec![], vec![raised(end)], vec![raised(start), raised(end)]];
    for pose in [READY, CARRY, STOW] {
        chains.push(vec![turned(&pose, end[0])]);
        chains.push(vec![turned(&pose, start[0]), turned(&pose, end[0])]);
        chains.push(vec![
            turned(&pose, start[0]),
            turned(&pose, end[0]),
            raised(end),
        ]);
    }
    'chains: for via in chains {
        let mut points = vec![*start];
        points.extend(via);
        points.push(*end);
        for pair in points.windows(2) {
            if let [a, b] = pair {
                if !within_limits(b) || !free(a, b, surroundings) {
                    continue 'chains;
                }
            }
        }
        let legs = points.windows(2).map(<[Joints]>::to_vec).collect();
        return Some(ArmPlan { legs });
    }
    None
}

/// RRT-Connect: Kuffner and LaValle, "RRT-Connect: An Efficient Approach to Single-Query Path
/// Planning", 2000.
fn plan_random(
    start: &Joints,
    end: &Joints,
    surroundings: &ArmSurroundings,
    random: &mut SeededRandom,
) -> Option<ArmPlan> {
    let mut trees = [vec![(*start, 0_usize)], vec![(*end, 0_usize)]];
    for attempt in 0..RANDOM_TRIES {
        let mut sample = *start;
        for (v, [low, high]) in sample.iter_mut().zip(LIMITS) {
            *v = random.between(low, high);
        }
        let [first, second] = &mut trees;
        let (near, far) = if attempt % 2 == 0 {
            (first, second)
        } else {
            (second, first)
        };
        let Some(new) = extend(near, &sample, surroundings) else {
            continue;
        };
        let Some(target) = near.get(new).map(|(q, _)| *q) else {
            continue;
        };
        let mut reached = None;
        while let Some(index) = extend(far, &target, surroundings) {
            let here = far.get(index).map(|(q, _)| *q);
            if here.is_some_and(|q| distance(&q, &target) < 1e-9) {
                reached = Some(index);
                break;
            }
        }
        if let Some(index) = reached {
            let [first, second] = &trees;
            let (from_start, from_end) = if attempt % 2 == 0 {
                (new, index)
            } else {
                (index, new)
            };
            let mut points = branch(first, from_start);
            points.reverse();
            points.extend(branch(second, from_end).into_iter().skip(1));
            return Some(ArmPlan {
                legs: smoothed(&points, surroundings),
            });
        }
    }
    None
}

fn distance(a: &Joints, b: &Joints) -> f64 {
    a.iter()
        .zip(b)
        .map(|(x, y)| (x - y).powi(2))
        .sum::<f64>()
        .sqrt()
}

/// Grows a tree by at most 0.4 rad towards the sample.
fn extend(
    tree: &mut Vec<(Joints, usize)>,
    sample: &Joints,
    surroundings: &ArmSurroundings,
) -> Option<usize> {
    let (nearest, from) = tree
        .iter()
        .enumerate()
        .min_by(|(_, a), (_, b)| distance(&a.0, sample).total_cmp(&distance(&b.0, sample)))
        .map(|(i, (q, _))| (i, *q))?;
    let gap = distance(&from, sample);
    if gap < 1e-9 {
        return None;
    }
    let to = if gap <= 0.4 {
        *sample
    } else {
        mix(&from, sample, 0.4 / gap)
    };
    if !free(&from, &to, surroundings) {
        return None;
    }
    tree.push((to, nearest));
    Some(tree.len() - 1)
}

/// From a leaf back to the root.
fn branch(tree: &[(Joints, usize)], leaf: usize) -> Vec<Joints> {
    let mut points = Vec::new();
    let mut at = leaf;
    while let Some((q, parent)) = tree.get(at) {
        points.push(*q);
        if at == 0 || points.len() > tree.len() {
            break;
        }
        at = *parent;
    }
    points
}

fn smoothed(points: &[Joints], surroundings: &ArmSurroundings) -> Vec<Vec<Joints>> {
    let mut legs = Vec::new();
    let mut at = 0;
    while at + 1 < points.len() {
        let next = (at + 1..points.len())
            .rev()
            .find(|k| {
                *k == at + 1
                    || matches!((points.get(at), points.get(*k)),
                        (Some(a), Some(b)) if free(a, b, surroundings))
            })
            .unwrap_or(at + 1);
        if let (Some(a), Some(b)) = (points.get(at), points.get(next)) {
            legs.push(vec![*a, *b]);
        }
        at = next;
    }
    legs
}

/// A straight line of the tool, its orientation turning evenly.
fn plan_line(
    start: &Joints,
    target: &ArmTarget,
    surroundings: &ArmSurroundings,
) -> Result<ArmPlan, ArmFailure> {
    let ArmTarget::Pose {
        pose,
        orientation_tolerance,
    } = target
    else {
        return Err((
            ArmErrorCode::InvalidGoalConstraints,
            "a straight line needs a pose as its goal, not joint positions".to_owned(),
        ));
    };
    let from = forward(start).tcp;
    let rotation = if orientation_tolerance.is_some() {
        pose.rotation
    } else {
        from.rotation
    };
    let length = (pose.translation.vector - from.translation.vector).norm();
    let turn = from.rotation.angle_to(&rotation);
    let steps = (length / LINE_STEP).max(turn / 0.05).ceil().max(1.0) as usize;
    // A five-joint arm can't hold a heading exactly along a line: that much is let go.
    let tolerance = orientation_tolerance
        .unwrap_or([0.1, 0.1, 0.5])
        .map(|t| t.max(0.05));
    let mut points = vec![*start];
    let mut last = *start;
    for k in 1..=steps {
        let t = k as f64 / steps as f64;
        let place = from.translation.vector.lerp(&pose.translation.vector, t);
        let orientation = from
            .rotation
            .try_slerp(&rotation, t, 1e-9)
            .unwrap_or(rotation);
        let waypoint = Isometry3::from_parts(place.into(), orientation);
        let next = inverse(&waypoint, tolerance)
            .into_iter()
            .min_by(|a, b| distance(a, &last).total_cmp(&distance(b, &last)))
            .ok_or_else(|| out_of_reach(&waypoint))?;
        let jump = next
            .iter()
            .zip(&last)
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, f64::max);
        if jump > LINE_JUMP {
            return Err((
                ArmErrorCode::PlanningFailed,
                format!(
                    "the straight line is followed to {:.0} %, then a joint would jump by {jump:.2} rad",
                    100.0 * (t - 1.0 / steps as f64)
                ),
            ));
        }
        if let Some(contact) = surroundings.contact(&next) {
            let code = if k == steps {
                ArmErrorCode::GoalInCollision
            } else {
                ArmErrorCode::PlanningFailed
            };
            return Err((
                code,
                format!("{:.0} % along the line, {contact}", 100.0 * t),
            ));
        }
        points.push(next);
        last = next;
    }
    Ok(ArmPlan { legs: vec![points] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Stream;
    use crate::world::World;
    use crate::world_file::WorldFile;

    /// A robot at the origin with the given furniture around it.
    fn among(furniture: &str) -> ArmSurroundings {
        let text = format!(
            "rooms: [{{id: a, rect: [-3, -3, 3, 3]}}]\nfurniture: [{furniture}]\nrobot: {{start: [0, 0, 0]}}"
        );
        let world = World::new(&WorldFile::from_yaml(&text).unwrap()).unwrap();
        ArmSurroundings::new(&world, Isometry3::identity(), &[], None)
    }

    fn random() -> SeededRandom {
        SeededRandom::new(1, Stream::ArmPlanner)
    }

    /// Every position of the motion, finely sampled, touches nothing.
    fn assert_free(plan: &ArmPlan, surroundings: &ArmSurroundings) {
        for leg in &plan.legs {
            for pair in leg.windows(2) {
                for k in 0..=100 {
                    let q = mix(&pair[0], &pair[1], f64::from(k) / 100.0);
                    assert_eq!(surroundings.contact(&q), None);
                }
            }
        }
    }

    /// A post straight ahead, as high as a person: the stretched arm can't sweep through it.
    const POST: &str = "{id: post, class: post, center: [0.55, 0], size: [0.12, 0.12, 1.7]}";

    #[test]
    fn a_post_in_the_way_is_gone_around() {
        let surroundings = among(POST);
        let at = |yaw: f64| [yaw, READY[1] - 0.5, READY[2] + 0.5, READY[3], 0.0];
        let (start, end) = (at(-0.8), at(0.8));
        assert!(
            !free(&start, &end, &surroundings),
            "the direct way must be blocked"
        );
        let target = ArmTarget::Joints(end);
        let plan = plan_motion(
            &start,
            &target,
            ArmPathKind::Free,
            &surroundings,
            &mut random(),
        )
        .unwrap();
        assert_eq!(plan.end(), Some(end));
        assert!(plan.legs.len() > 1);
        assert_free(&plan, &surroundings);
    }

    #[test]
    fn the_random_planner_finds_a_way_too() {
        let surroundings = among(POST);
        let at = |yaw: f64| [yaw, READY[1] - 0.5, READY[2] + 0.5, READY[3], 0.0];
        let plan = plan_random(&at(-0.8), &at(0.8), &surroundings, &mut random()).unwrap();
        assert_eq!(plan.legs[0][0], at(-0.8));
        assert_eq!(plan.end(), Some(at(0.8)));
        for pair in plan.legs.windows(2) {
            assert_eq!(pair[0].last(), pair[1].first());
        }
        assert_free(&plan, &surroundings);
    }

    #[test]
    fn an_arm_that_touches_something_does_not_start() {
        let surroundings = among(POST);
        let target = ArmTarget::Joints(STOW);
        let (code, message) = plan_motion(
            &[0.0; 5],
            &target,
            ArmPathKind::Free,
            &surroundings,
            &mut random(),
        )
        .unwrap_err();
        assert_eq!(code, ArmErrorCode::StartStateInCollision);
        assert!(message.contains("touch"), "{message}");
    }

    #[test]
    fn a_line_through_something_is_refused() {
        let surroundings = among(POST);
        let start = [-0.5, 1.2, -1.6, 0.4, 0.0];
        assert_eq!(surroundings.contact(&start), None);
        let mut pose = forward(&start).tcp;
        pose.translation.y = -pose.translation.y;
        let any_heading = Some([0.2, 0.2, std::f64::consts::PI]);
        let target = ArmTarget::Pose {
            pose,
            orientation_tolerance: any_heading,
        };
        let (code, message) = plan_motion(
            &start,
            &target,
            ArmPathKind::Line,
            &surroundings,
            &mut random(),
        )
        .unwrap_err();
        assert_eq!(code, ArmErrorCode::PlanningFailed, "{message}");
        // Without the post the same line is free, and straight.
        let empty = among("");
        let plan = plan_motion(&start, &target, ArmPathKind::Line, &empty, &mut random()).unwrap();
        let (from, to) = (forward(&start).tcp.translation, pose.translation);
        for q in &plan.legs[0] {
            let p = forward(q).tcp.translation;
            assert!((p.x - from.x).abs() < 1e-6 && (p.z - from.z).abs() < 1e-6);
            assert!(p.y >= from.y - 1e-6 && p.y <= to.y + 1e-6);
        }
    }
}

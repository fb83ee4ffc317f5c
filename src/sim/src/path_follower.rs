//! Where on its way the robot is, and which velocity follows it.

use crate::base::Velocity;
use crate::geometry::{wrap_angle, Pose2};
use crate::world_file::RobotSpec;

/// Decelerations that the controller plans with, m/s² and rad/s².
const BRAKING: f64 = 0.7;
const TURN_BRAKING: f64 = 1.6;

/// A turning rate that can be braked to 0 at the wanted heading, rad/s.
#[must_use]
pub fn turn_rate(spec: &RobotSpec, error: f64) -> f64 {
    let rate = (2.0 * TURN_BRAKING * error.abs())
        .sqrt()
        .min(2.2 * error.abs() + 0.04);
    rate.min(spec.max_turn).copysign(error)
}

/// Regulated pure pursuit: slower in curves, near obstacles and near the goal.
///
/// `roominess`: 0 where it is as narrow as may be, 1 where nothing is near. `to_goal`: distance from the
/// goal, metres. The law κ = 2·y/L²: Coulter, "Implementation of the Pure Pursuit Path Tracking
/// Algorithm", 1992.
#[must_use]
pub fn pursue(
    spec: &RobotSpec,
    path: &[[f64; 2]],
    estimate: Pose2,
    to_goal: f64,
    roominess: f64,
) -> Velocity {
    let remaining = remaining(path, estimate);
    let lookahead = (0.3 + 0.3 * roominess).min(remaining.max(0.05));
    let carrot = point_ahead(path, estimate, lookahead);
    let target = estimate
        .inverse()
        .compose(Pose2::new(carrot[0], carrot[1], 0.0));
    let bearing = target.y.atan2(target.x);
    let close = to_goal < 0.25;
    // Just beside the goal a short way back is quicker than turning round.
    if close && target.x < 0.0 && bearing.abs() > 2.3 {
        let back = wrap_angle(bearing + std::f64::consts::PI);
        let speed = (0.9 * remaining + 0.02).min(0.15) * back.cos().max(0.0);
        return Velocity::new(-speed, turn_rate(spec, back));
    }
    // In narrow places an arc would leave the way further than there is room.
    let turn_first = if close { 0.3 } else { 0.35 + 0.35 * roominess };
    if bearing.abs() > turn_first {
        return Velocity::new(0.0, turn_rate(spec, bearing));
    }
    let distance = target.x.hypot(target.y).max(1e-3);
    let curvature = 2.0 * target.y / (distance * distance);
    let mut speed = spec.max_speed * (0.4 + 0.6 * roominess);
    speed = speed
        .min((2.0 * BRAKING * remaining).sqrt())
        .min(1.2 * remaining + 0.03);
    if curvature.abs() > 1e-6 {
        speed = speed.min(0.8 * spec.max_turn / curvature.abs());
        // Side acceleration up to 0.8 m/s².
        speed = speed.min((0.8 / curvature.abs()).sqrt());
    }
    Velocity::new(
        speed,
        (speed * curvature).clamp(-spec.max_turn, spec.max_turn),
    )
}

/// Drops the points of the way that lie behind the robot: the first leg is over at its end, or when the
/// robot is nearer to the second one (a short first leg may point anywhere).
pub fn advance(path: &mut Vec<[f64; 2]>, at: Pose2) {
    let away = |a: [f64; 2], b: [f64; 2]| {
        let [x, y] = projection(&[a, b], at);
        (x - at.x).hypot(y - at.y)
    };
    while let [a, b, c, ..] = path.as_slice() {
        let (dx, dy) = (b[0] - a[0], b[1] - a[1]);
        let passed = (at.x - a[0]) * dx + (at.y - a[1]) * dy >= dx * dx + dy * dy;
        if !passed && away(*a, *b) <= away(*b, *c) {
            break;
        }
        path.remove(0);
    }
}

/// The point of the first leg that is nearest to the robot.
fn projection(path: &[[f64; 2]], at: Pose2) -> [f64; 2] {
    match path {
        [a, b, ..] => {
            let (dx, dy) = (b[0] - a[0], b[1] - a[1]);
            let squared = dx * dx + dy * dy;
            let t = if squared > 0.0 {
                (((at.x - a[0]) * dx + (at.y - a[1]) * dy) / squared).clamp(0.0, 1.0)
            } else {
                1.0
            };
            [a[0] + t * dx, a[1] + t * dy]
        }
        [a] => *a,
        [] => [at.x, at.y],
    }
}

/// Length of the way that is left, metres, with the way back onto it.
#[must_use]
pub fn remaining(path: &[[f64; 2]], at: Pose2) -> f64 {
    let on_path = projection(path, at);
    let mut total = (on_path[0] - at.x).hypot(on_path[1] - at.y);
    let mut from = on_path;
    for p in path.iter().skip(1) {
        total += (p[0] - from[0]).hypot(p[1] - from[1]);
        from = *p;
    }
    total
}

/// The point of the way that is `ahead` metres further on.
#[must_use]
pub fn point_ahead(path: &[[f64; 2]], at: Pose2, ahead: f64) -> [f64; 2] {
    let mut from = projection(path, at);
    let mut left = ahead;
    for p in path.iter().skip(1) {
        let leg = (p[0] - from[0]).hypot(p[1] - from[1]);
        if leg >= left && leg > 0.0 {
            let t = left / leg;
            return [
                from[0] + t * (p[0] - from[0]),
                from[1] + t * (p[1] - from[1]),
            ];
        }
        left -= leg;
        from = *p;
    }
    from
}

/// Points of the way every 10 cm, from where the robot is to `far` metres further on.
#[must_use]
pub fn ahead(path: &[[f64; 2]], at: Pose2, far: f64) -> Vec<[f64; 2]> {
    (0..=(far / 0.1) as usize)
        .map(|k| point_ahead(path, at, 0.1 * k as f64))
        .collect()
}

/// Length of a way, metres.
#[must_use]
pub fn length(path: &[[f64; 2]]) -> f64 {
    path.windows(2)
        .map(|w| match w {
            [a, b] => (b[0] - a[0]).hypot(b[1] - a[1]),
            _ => 0.0,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2 m east, then 1 m north.
    const CORNER: [[f64; 2]; 3] = [[0.0, 0.0], [2.0, 0.0], [2.0, 1.0]];

    #[test]
    fn what_is_left_is_measured_along_the_way() {
        assert!((length(&CORNER) - 3.0).abs() < 1e-12);
        // From (0.5, 0.3): 0.3 m back onto the way, then 1.5 + 1.
        assert!((remaining(&CORNER, Pose2::new(0.5, 0.3, 0.0)) - 2.8).abs() < 1e-12);
        let ahead = point_ahead(&CORNER, Pose2::new(1.5, 0.0, 0.0), 1.0);
        assert!((ahead[0] - 2.0).abs() < 1e-12 && (ahead[1] - 0.5).abs() < 1e-12);
        // Beyond the end it is the end.
        assert_eq!(point_ahead(&CORNER, Pose2::default(), 9.0), [2.0, 1.0]);
        assert_eq!(remaining(&[], Pose2::default()), 0.0);
    }

    #[test]
    fn points_behind_are_dropped_but_the_last_leg_stays() {
        let mut path = CORNER.to_vec();
        advance(&mut path, Pose2::new(2.1, 0.2, 1.57));
        assert_eq!(path, CORNER[1..]);
        advance(&mut path, Pose2::new(2.0, 1.5, 1.57));
        assert_eq!(path, CORNER[1..]);
        // A first leg of 5 cm to the back: the robot goes ahead and is past it.
        let mut path = vec![[0.0, 0.0], [-0.03, -0.04], [3.0, -0.04]];
        advance(&mut path, Pose2::new(0.3, 0.0, 0.0));
        assert_eq!(path.len(), 2);
    }

    #[test]
    fn a_way_behind_is_turned_to_first() {
        let spec = RobotSpec::default();
        let path = [[0.0, 0.0], [-2.0, 0.1]];
        let v = pursue(&spec, &path, Pose2::default(), 2.0, 1.0);
        assert!(v.linear == 0.0 && v.angular > 0.5, "{v:?}");
    }
}

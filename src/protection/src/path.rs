//! How far the base can drive along a constant velocity until something enters its stop zone.

use crate::footprint::{Footprint, Point};
use crate::velocity::Velocity;

/// A gap below this counts as contact \[m\]: the numeric resolution of the search, on the safe side.
const CONTACT: f64 = 1e-3;

/// A gap that shrinks slower than this does not shrink [m/s]: above rounding errors, far below any motion.
const STEADY: f64 = 1e-6;

/// Most steps of the search for one return; when they are used up the return counts as reached.
const MAX_STEPS: usize = 2000;

/// What a velocity would lead to, given the returns of a scan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outlook {
    /// Seconds at this velocity until the first return enters the stop zone. Zero: one is in it and comes
    /// closer. Infinite: none within the horizon.
    pub free_time: f64,
    /// Signed distance \[m\] from the footprint to the nearest return that comes closer; infinite: none.
    pub nearest_approaching: f64,
}

/// Looks along a velocity.
///
/// A return whose gap to the footprint is at most `stop_margin` \[m\], or a hair more, is in the stop zone: then only motion
/// that does not bring it closer is free. Other returns are followed along the arc that the constant
/// velocity describes, for `horizon` seconds, by conservative advancement: each step is as long as the gap
/// divided by the greatest rate at which it can shrink, so nothing is jumped over.
pub fn look_ahead(
    footprint: &Footprint,
    points: &[Point],
    velocity: Velocity,
    stop_margin: f64,
    horizon: f64,
) -> Outlook {
    let mut outlook = Outlook {
        free_time: f64::INFINITY,
        nearest_approaching: f64::INFINITY,
    };
    if velocity.is_zero() {
        return outlook;
    }
    for &point in points {
        let gap = footprint.gap(point);
        let approaching = rate(footprint, point, velocity) < -STEADY;
        if approaching {
            outlook.nearest_approaching = outlook.nearest_approaching.min(gap.distance);
        }
        if gap.distance <= stop_margin + CONTACT {
            if approaching {
                outlook.free_time = 0.0;
            }
            continue;
        }
        let limit = outlook.free_time.min(horizon);
        if let Some(time) = contact_time(footprint, point, velocity, stop_margin, limit) {
            outlook.free_time = outlook.free_time.min(time);
        }
    }
    outlook
}

/// Rate at which a resting point's distance to the footprint changes [m/s]; negative: it comes closer.
pub fn rate(footprint: &Footprint, p: Point, v: Velocity) -> f64 {
    // Seen from the base a resting point moves with -v - w x p.
    let (px, py) = (-v.x + v.turn * p.y, -v.y - v.turn * p.x);
    let outward = footprint.gap(p).outward;
    if outward == Point::default() {
        // In a circle's centre every way brings nothing nearer than it is.
        return 0.0;
    }
    outward.x * px + outward.y * py
}

/// A resting point as the base sees it after `t` seconds at a constant velocity.
pub fn point_after(p: Point, v: Velocity, t: f64) -> Point {
    let angle = v.turn * t;
    let (sin, cos) = angle.sin_cos();
    // Position of the base after t in its frame at the start: the integral of the turned velocity.
    let (a, b) = if angle.abs() > 1e-6 {
        (sin / v.turn, (1.0 - cos) / v.turn)
    } else {
        (t, angle * t / 2.0)
    };
    let (dx, dy) = (p.x - (v.x * a - v.y * b), p.y - (v.x * b + v.y * a));
    Point::new(cos * dx + sin * dy, -sin * dx + cos * dy)
}

fn contact_time(
    footprint: &Footprint,
    start: Point,
    v: Velocity,
    margin: f64,
    limit: f64,
) -> Option<f64> {
    let linear = v.linear();
    // A circle's gap does not change by turning.
    let angular = if footprint.turns_in_place() {
        0.0
    } else {
        v.angular()
    };
    let mut time = 0.0;
    let mut point = start;
    for _ in 0..MAX_STEPS {
        let gap = footprint.gap(point).distance - margin;
        if gap <= CONTACT {
            return Some(time);
        }
        // While the base drives, the point's distance from the origin, and with it its speed by turning,
        // grows by at most linear * step; bounding the step by the remaining time bounds it.
        let remaining = limit - time;
        if remaining <= 0.0 {
            return None;
        }
        let fastest = linear + angular * (point.norm() + linear * remaining);
        if fastest <= 0.0 {
            return None;
        }
        time += gap / fastest;
        point = point_after(start, v, time);
    }
    Some(time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MARGIN: f64 = 0.05;

    fn circle() -> Footprint {
        Footprint::circle(0.3).unwrap()
    }

    fn free_time(footprint: &Footprint, p: Point, v: Velocity) -> f64 {
        look_ahead(footprint, &[p], v, MARGIN, 60.0).free_time
    }

    #[test]
    fn straight_on_the_free_time_is_the_gap_over_the_speed() {
        // 1.35 m to the point, less radius 0.3 and margin 0.05, is 1.0 m; at 0.5 m/s 2 s.
        let t = free_time(
            &circle(),
            Point::new(1.35, 0.0),
            Velocity::new(0.5, 0.0, 0.0),
        );
        assert!((t - 2.0).abs() < 0.01, "{t}");
        let back = free_time(
            &circle(),
            Point::new(1.35, 0.0),
            Velocity::new(-0.5, 0.0, 0.0),
        );
        assert!(back.is_infinite());
    }

    #[test]
    fn a_doorpost_beside_the_way_is_no_contact() {
        // 0.36 m beside the axis, the swept zone is 0.35 m wide.
        let t = free_time(
            &circle(),
            Point::new(2.0, 0.36),
            Velocity::new(0.5, 0.0, 0.0),
        );
        assert!(t.is_infinite());
    }

    #[test]
    fn round_robots_turn_beside_a_wall_and_long_ones_do_not() {
        let turn = Velocity::new(0.0, 0.0, 1.0);
        // In the stop zone: gap 0.02 m.
        assert!(free_time(&circle(), Point::new(0.0, 0.32), turn).is_infinite());
        // 1.0 m long, 0.4 m wide; the front corner at (0.5, 0.2) swings over a point to the left of it.
        let long = Footprint::polygon(&[-0.5, -0.2, 0.5, -0.2, 0.5, 0.2, -0.5, 0.2]).unwrap();
        let t = free_time(&long, Point::new(0.3, 0.4), turn);
        assert!(t > 0.0 && t < 0.6, "{t}");
        // Beside the middle, further away than the corners reach (0.54 m + 0.05 m): free.
        assert!(free_time(&long, Point::new(0.0, 0.61), turn).is_infinite());
    }

    #[test]
    fn out_of_the_stop_zone_only_away() {
        let ahead = Point::new(0.33, 0.0); // gap 0.03 m
        assert_eq!(
            free_time(&circle(), ahead, Velocity::new(0.1, 0.0, 0.0)),
            0.0
        );
        assert!(free_time(&circle(), ahead, Velocity::new(-0.1, 0.0, 0.0)).is_infinite());
        assert!(free_time(&circle(), ahead, Velocity::new(0.0, 0.0, 1.0)).is_infinite());
        // Inside the footprint too.
        let inside = Point::new(0.2, 0.0);
        assert_eq!(
            free_time(&circle(), inside, Velocity::new(0.1, 0.0, 0.0)),
            0.0
        );
        assert!(free_time(&circle(), inside, Velocity::new(-0.1, 0.0, 0.0)).is_infinite());
        // On the zone's edge, where rounding could put it on either side.
        for gap in [MARGIN - 1e-9, MARGIN, MARGIN + 1e-9, MARGIN + 0.9e-3] {
            let edge = Point::new(0.3 + gap, 0.0);
            assert_eq!(
                free_time(&circle(), edge, Velocity::new(0.1, 0.0, 0.0)),
                0.0
            );
            assert!(free_time(&circle(), edge, Velocity::new(-0.1, 0.0, 0.0)).is_infinite());
        }
    }

    fn shapes() -> impl Strategy<Value = Footprint> {
        prop_oneof![
            (0.1..0.6f64).prop_map(|r| Footprint::circle(r).unwrap()),
            (0.2..0.6f64, 0.1..0.4f64)
                .prop_map(|(l, w)| Footprint::polygon(&[-l, -w, l, -w, l, w, -l, w]).unwrap()),
        ]
    }

    proptest! {
        /// Sound: on the way that is called free, sampled finely, nothing is ever inside the stop zone.
        #[test]
        fn nothing_enters_the_zone_on_the_free_way(
            shape in shapes(),
            x in -3.0..3.0f64, y in -3.0..3.0f64,
            vx in -1.0..1.0f64, vy in -0.5..0.5f64, turn in -2.0..2.0f64,
        ) {
            let p = Point::new(x, y);
            prop_assume!(shape.gap(p).distance > MARGIN);
            let v = Velocity::new(vx, vy, turn);
            let free = look_ahead(&shape, &[p], v, MARGIN, 5.0).free_time.min(5.0);
            for i in 0..=200 {
                let gap = shape.gap(point_after(p, v, free * f64::from(i) / 200.0)).distance;
                prop_assert!(gap >= MARGIN - 1e-6, "gap {gap} after {i}/200 of {free} s");
            }
        }

        /// Complete: where the free way ends early, the zone really is touched there.
        #[test]
        fn the_free_way_ends_at_a_contact(
            shape in shapes(),
            x in -3.0..3.0f64, y in -3.0..3.0f64,
            vx in -1.0..1.0f64, turn in -2.0..2.0f64,
        ) {
            let p = Point::new(x, y);
            prop_assume!(shape.gap(p).distance > MARGIN);
            let v = Velocity::new(vx, 0.0, turn);
            let free = look_ahead(&shape, &[p], v, MARGIN, 5.0).free_time;
            if free.is_finite() {
                let gap = shape.gap(point_after(p, v, free)).distance;
                prop_assert!((gap - MARGIN).abs() < 2.0 * CONTACT, "gap {gap}");
            }
        }

        /// The rate is the derivative of the distance along the motion.
        #[test]
        fn rate_is_the_derivative(
            x in -3.0..3.0f64, y in -3.0..3.0f64,
            vx in -1.0..1.0f64, vy in -1.0..1.0f64, turn in -2.0..2.0f64,
        ) {
            let p = Point::new(x, y);
            prop_assume!(p.norm() > 0.1);
            let v = Velocity::new(vx, vy, turn);
            let h = 1e-5;
            let moved = circle().gap(point_after(p, v, h)).distance;
            let slope = (moved - circle().gap(p).distance) / h;
            prop_assert!((slope - rate(&circle(), p, v)).abs() < 1e-3);
        }
    }
}

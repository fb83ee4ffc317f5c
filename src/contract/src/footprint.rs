//! Distances on the floor: points, outlines of rooms, and the footprints of boxes.
//!
//! All functions ignore z. Inputs that are not finite give infinity or `false`, so that nothing counts
//! as near or inside by accident.

use crate::geometry::{Pose, Vec3};

/// The centre, half lengths and yaw of a box seen from above.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Footprint {
    /// Centre x \[m\].
    pub x: f64,
    /// Centre y \[m\].
    pub y: f64,
    /// Half the edge along the box's own x \[m\].
    pub half_x: f64,
    /// Half the edge along the box's own y \[m\].
    pub half_y: f64,
    /// Rotation about z \[rad\].
    pub yaw: f64,
}

impl Footprint {
    /// The footprint of a box with this centre pose and these edge lengths \[m\]. Roll and pitch are taken
    /// as zero; a negative or unknown (zero) length counts as a point.
    pub fn new(pose: &Pose, size: Vec3) -> Self {
        let half = |edge: f64| {
            if edge.is_finite() && edge > 0.0 {
                edge / 2.0
            } else {
                0.0
            }
        };
        Footprint {
            x: pose.position.x,
            y: pose.position.y,
            half_x: half(size.x),
            half_y: half(size.y),
            yaw: pose.yaw(),
        }
    }

    /// Distance \[m\] from a point to the rectangle; zero inside, infinity for input that is not finite.
    pub fn distance(&self, x: f64, y: f64) -> f64 {
        let (dx, dy) = (x - self.x, y - self.y);
        let (sin, cos) = self.yaw.sin_cos();
        // The point in the box's own axes: rotate by -yaw.
        let along = (cos * dx + sin * dy).abs() - self.half_x;
        let across = (cos * dy - sin * dx).abs() - self.half_y;
        // `max` would swallow a NaN, so it is looked for first.
        if along.is_nan() || across.is_nan() {
            return f64::INFINITY;
        }
        along.max(0.0).hypot(across.max(0.0))
    }

    /// The four corners \[m\], counter-clockwise, z = 0.
    pub fn corners(&self) -> [Vec3; 4] {
        let (sin, cos) = self.yaw.sin_cos();
        [(1.0, 1.0), (-1.0, 1.0), (-1.0, -1.0), (1.0, -1.0)].map(|(sx, sy)| {
            let (a, b) = (sx * self.half_x, sy * self.half_y);
            Vec3::new(self.x + cos * a - sin * b, self.y + sin * a + cos * b, 0.0)
        })
    }

    /// Gap \[m\] between two rectangles; zero when they touch or overlap.
    pub fn gap(&self, other: &Footprint) -> f64 {
        if self.distance(other.x, other.y) == 0.0 || other.distance(self.x, self.y) == 0.0 {
            return 0.0;
        }
        let (mine, theirs) = (self.corners(), other.corners());
        let mut least = f64::INFINITY;
        for (a, b) in edges(&mine) {
            for (c, d) in edges(&theirs) {
                if segments_cross(a, b, c, d) {
                    return 0.0;
                }
            }
        }
        // Two convex shapes that do not cross are nearest at a corner of one of them.
        for c in &theirs {
            least = least.min(self.distance(c.x, c.y));
        }
        for c in &mine {
            least = least.min(other.distance(c.x, c.y));
        }
        least
    }
}

fn finite_or_far(value: f64) -> f64 {
    if value.is_nan() {
        f64::INFINITY
    } else {
        value
    }
}

/// The edges of a closed outline.
fn edges(outline: &[Vec3]) -> impl Iterator<Item = (Vec3, Vec3)> + '_ {
    outline
        .iter()
        .copied()
        .zip(outline.iter().copied().cycle().skip(1))
}

fn side(a: Vec3, b: Vec3, p: Vec3) -> f64 {
    (b.x - a.x) * (p.y - a.y) - (b.y - a.y) * (p.x - a.x)
}

fn segments_cross(a: Vec3, b: Vec3, c: Vec3, d: Vec3) -> bool {
    side(a, b, c) * side(a, b, d) < 0.0 && side(c, d, a) * side(c, d, b) < 0.0
}

/// True when a point is inside a closed outline of at least three corners (even-odd rule).
pub fn inside_outline(x: f64, y: f64, outline: &[Vec3]) -> bool {
    if outline.len() < 3 || !x.is_finite() || !y.is_finite() {
        return false;
    }
    edges(outline)
        .filter(|(a, b)| (a.y > y) != (b.y > y) && x < (b.x - a.x) * (y - a.y) / (b.y - a.y) + a.x)
        .count()
        % 2
        == 1
}

/// Distance \[m\] from a point to the nearest edge of a closed outline, inside or outside; infinity for an
/// outline without corners or input that is not finite.
pub fn distance_to_outline(x: f64, y: f64, outline: &[Vec3]) -> f64 {
    edges(outline)
        .map(|(a, b)| {
            let (ux, uy) = (b.x - a.x, b.y - a.y);
            let length2 = ux * ux + uy * uy;
            let t = if length2 > 0.0 {
                (((x - a.x) * ux + (y - a.y) * uy) / length2).clamp(0.0, 1.0)
            } else {
                0.0
            };
            finite_or_far((x - a.x - t * ux).hypot(y - a.y - t * uy))
        })
        .fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::{FRAC_PI_2, FRAC_PI_4};

    fn table(x: f64, y: f64, yaw: f64) -> Footprint {
        Footprint::new(&Pose::planar(x, y, yaw), Vec3::new(2.0, 1.0, 0.7))
    }

    #[test]
    fn distance_to_a_box_counts_from_its_faces() {
        // 2 m x 1 m at the origin: its faces are at x = 1 and y = 0.5.
        assert_eq!(table(0.0, 0.0, 0.0).distance(1.5, 0.0), 0.5);
        assert_eq!(table(0.0, 0.0, 0.0).distance(0.3, 0.2), 0.0);
        // 3-4-5: 0.3 m beyond one face, 0.4 m beyond the other.
        assert!((table(0.0, 0.0, 0.0).distance(1.3, 0.9) - 0.5).abs() < 1e-12);
        // Turned by 90 degrees the long side lies along y.
        assert!((table(0.0, 0.0, FRAC_PI_2).distance(1.5, 0.0) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn numbers_that_are_none_are_far_away() {
        assert_eq!(table(0.0, 0.0, 0.0).distance(f64::NAN, 0.0), f64::INFINITY);
        assert_eq!(table(f64::NAN, 0.0, 0.0).distance(0.0, 0.0), f64::INFINITY);
        assert!(!inside_outline(f64::NAN, 0.0, &[Vec3::default(); 4]));
        assert_eq!(distance_to_outline(0.0, 0.0, &[]), f64::INFINITY);
        let odd = Footprint::new(&Pose::default(), Vec3::new(f64::NAN, -1.0, 0.0));
        assert_eq!(odd.distance(0.0, 3.0), 3.0);
    }

    #[test]
    fn gaps_between_boxes() {
        // Faces at x = 1 and x = 3 - 1 = 2.
        assert!((table(0.0, 0.0, 0.0).gap(&table(3.0, 0.0, 0.0)) - 1.0).abs() < 1e-12);
        // A cross: no corner of one lies in the other; centres do.
        assert_eq!(table(0.0, 0.0, 0.0).gap(&table(0.0, 0.0, FRAC_PI_2)), 0.0);
        // Overlap near an end: neither centre inside the other, edges cross.
        assert_eq!(table(0.0, 0.0, 0.0).gap(&table(1.4, 0.0, FRAC_PI_2)), 0.0);
        // Turned by 45 degrees, the corner points at the face: half diagonal = (1 + 0.5)/sqrt(2).
        let gap = table(0.0, 0.0, 0.0).gap(&table(3.0, 0.0, FRAC_PI_4));
        assert!((gap - (2.0 - 1.5 / 2f64.sqrt())).abs() < 1e-9, "{gap}");
    }

    #[test]
    fn an_l_shaped_room() {
        let room = [
            (0.0, 0.0),
            (4.0, 0.0),
            (4.0, 2.0),
            (2.0, 2.0),
            (2.0, 4.0),
            (0.0, 4.0),
        ]
        .map(|(x, y)| Vec3::new(x, y, 0.0));
        assert!(inside_outline(1.0, 3.0, &room));
        assert!(inside_outline(3.0, 1.0, &room));
        assert!(!inside_outline(3.0, 3.0, &room));
        assert_eq!(distance_to_outline(3.0, 3.0, &room), 1.0);
        assert_eq!(distance_to_outline(0.25, 3.0, &room), 0.25);
        assert!(!inside_outline(0.5, 0.5, &room[..2]));
    }
}

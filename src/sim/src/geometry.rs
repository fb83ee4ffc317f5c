//! Plane poses and upright boxes: what walls, furniture and objects look like to the simulator.

use nalgebra::{Isometry3, Point3, Translation3, UnitQuaternion, Vector3};

/// The angle wrapped into (−π, π], radians.
#[must_use]
pub fn wrap_angle(angle: f64) -> f64 {
    let wrapped = angle.rem_euclid(std::f64::consts::TAU);
    if wrapped > std::f64::consts::PI {
        wrapped - std::f64::consts::TAU
    } else {
        wrapped
    }
}

/// A pose in the plane: metres and radians.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Pose2 {
    /// x in metres.
    pub x: f64,
    /// y in metres.
    pub y: f64,
    /// Heading in radians, counter-clockwise from x.
    pub yaw: f64,
}

impl Pose2 {
    /// The pose from its parts.
    #[must_use]
    pub const fn new(x: f64, y: f64, yaw: f64) -> Self {
        Self { x, y, yaw }
    }

    /// `self ∘ other`: `other`, given in the frame of `self`, in the parent frame.
    #[must_use]
    pub fn compose(self, other: Self) -> Self {
        let (sin, cos) = self.yaw.sin_cos();
        Self {
            x: self.x + cos * other.x - sin * other.y,
            y: self.y + sin * other.x + cos * other.y,
            yaw: wrap_angle(self.yaw + other.yaw),
        }
    }

    /// The inverse transform.
    #[must_use]
    pub fn inverse(self) -> Self {
        let (sin, cos) = self.yaw.sin_cos();
        Self {
            x: -(cos * self.x + sin * self.y),
            y: sin * self.x - cos * self.y,
            yaw: wrap_angle(-self.yaw),
        }
    }

    /// The distance to `other` in metres, headings aside.
    #[must_use]
    pub fn distance(self, other: Self) -> f64 {
        (self.x - other.x).hypot(self.y - other.y)
    }

    /// The same pose in space, at z = 0.
    #[must_use]
    pub fn to_isometry(self) -> Isometry3<f64> {
        Isometry3::from_parts(
            Translation3::new(self.x, self.y, 0.0),
            UnitQuaternion::from_axis_angle(&Vector3::z_axis(), self.yaw),
        )
    }

    /// Whether every part is finite.
    #[must_use]
    pub fn is_finite(self) -> bool {
        self.x.is_finite() && self.y.is_finite() && self.yaw.is_finite()
    }
}

/// The heading of a rotation: the angle of its x axis about the vertical, radians.
#[must_use]
pub fn yaw_of(rotation: &UnitQuaternion<f64>) -> f64 {
    let x = rotation * Vector3::x();
    x.y.atan2(x.x)
}

/// An upright box, turned about the vertical.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UprightBox {
    /// Centre x, metres.
    pub x: f64,
    /// Centre y, metres.
    pub y: f64,
    /// Half length along its own x, metres.
    pub half_x: f64,
    /// Half length along its own y, metres.
    pub half_y: f64,
    /// Bottom, metres.
    pub bottom: f64,
    /// Top, metres.
    pub top: f64,
    sin: f64,
    cos: f64,
}

impl UprightBox {
    /// The box from centre, full sizes, heading and vertical extent.
    #[must_use]
    pub fn new(center: [f64; 2], size: [f64; 2], yaw: f64, bottom: f64, top: f64) -> Self {
        let (sin, cos) = yaw.sin_cos();
        Self {
            x: center[0],
            y: center[1],
            half_x: size[0] / 2.0,
            half_y: size[1] / 2.0,
            bottom,
            top,
            sin,
            cos,
        }
    }

    /// Its heading, radians.
    #[must_use]
    pub fn yaw(&self) -> f64 {
        self.sin.atan2(self.cos)
    }

    fn local(&self, x: f64, y: f64) -> (f64, f64) {
        let (dx, dy) = (x - self.x, y - self.y);
        (self.cos * dx + self.sin * dy, self.cos * dy - self.sin * dx)
    }

    fn rotated(&self, x: f64, y: f64) -> (f64, f64) {
        (self.cos * x + self.sin * y, self.cos * y - self.sin * x)
    }

    /// Signed distance in the plane from the point to the footprint: negative inside, metres.
    #[must_use]
    pub fn distance(&self, x: f64, y: f64) -> f64 {
        let (lx, ly) = self.local(x, y);
        let (ox, oy) = (lx.abs() - self.half_x, ly.abs() - self.half_y);
        if ox <= 0.0 && oy <= 0.0 {
            ox.max(oy)
        } else {
            ox.max(0.0).hypot(oy.max(0.0))
        }
    }

    /// Distance in space from the point to the box, 0 inside, metres.
    #[must_use]
    pub fn distance_3d(&self, p: &Point3<f64>) -> f64 {
        let (lx, ly) = self.local(p.x, p.y);
        let ox = (lx.abs() - self.half_x).max(0.0);
        let oy = (ly.abs() - self.half_y).max(0.0);
        let oz = (self.bottom - p.z).max(p.z - self.top).max(0.0);
        (ox * ox + oy * oy + oz * oz).sqrt()
    }

    /// Where a plane ray from (x, y) along the unit direction first meets the footprint, metres.
    ///
    /// 0 when it starts inside; none when it misses. Slab method:
    /// <https://en.wikipedia.org/wiki/Slab_method>.
    #[must_use]
    pub fn ray(&self, x: f64, y: f64, dir_x: f64, dir_y: f64) -> Option<f64> {
        let (ox, oy) = self.local(x, y);
        let (dx, dy) = self.rotated(dir_x, dir_y);
        let (mut near, mut far) = (0.0_f64, f64::INFINITY);
        for (o, d, half) in [(ox, dx, self.half_x), (oy, dy, self.half_y)] {
            clip(o, d, -half, half, &mut near, &mut far);
        }
        (near <= far).then_some(near)
    }

    /// The angles between which the footprint is seen from a point outside it: the lowest, and how much
    /// more the highest is (radians); none from inside.
    #[must_use]
    pub fn subtended(&self, x: f64, y: f64) -> Option<(f64, f64)> {
        if self.distance(x, y) <= 0.0 {
            return None;
        }
        let (dx, dy) = (self.x - x, self.y - y);
        let middle = dy.atan2(dx);
        let (mut low, mut high) = (0.0_f64, 0.0_f64);
        // Seen from outside, a convex shape spans less than π: angles to its middle don't wrap.
        for (sx, sy) in [(1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0)] {
            let (ox, oy) = (sx * self.half_x, sy * self.half_y);
            let cx = dx + self.cos * ox - self.sin * oy;
            let cy = dy + self.sin * ox + self.cos * oy;
            // The angle from the middle's direction to the corner's.
            let angle = (dx * cy - dy * cx).atan2(dx * cx + dy * cy);
            low = low.min(angle);
            high = high.max(angle);
        }
        Some((middle + low, high - low))
    }

    /// Whether the segment from `a` to `b` passes through the box.
    #[must_use]
    pub fn blocks(&self, a: &Point3<f64>, b: &Point3<f64>) -> bool {
        let (ax, ay) = self.local(a.x, a.y);
        let (bx, by) = self.local(b.x, b.y);
        let (mut near, mut far) = (0.0_f64, 1.0_f64);
        clip(ax, bx - ax, -self.half_x, self.half_x, &mut near, &mut far);
        clip(ay, by - ay, -self.half_y, self.half_y, &mut near, &mut far);
        clip(a.z, b.z - a.z, self.bottom, self.top, &mut near, &mut far);
        near <= far
    }

    /// The half extents of the axis-aligned rectangle around the footprint, metres.
    #[must_use]
    pub fn half_extents(&self) -> (f64, f64) {
        (
            self.half_x * self.cos.abs() + self.half_y * self.sin.abs(),
            self.half_x * self.sin.abs() + self.half_y * self.cos.abs(),
        )
    }
}

/// Narrows [near, far] to where `origin + t·direction` lies in [low, high].
fn clip(origin: f64, direction: f64, low: f64, high: f64, near: &mut f64, far: &mut f64) {
    if direction.abs() < 1e-12 {
        if origin < low || origin > high {
            *near = f64::INFINITY;
        }
        return;
    }
    let (t0, t1) = ((low - origin) / direction, (high - origin) / direction);
    *near = near.max(t0.min(t1));
    *far = far.min(t0.max(t1));
}

#[cfg(test)]
mod tests {
    use std::f64::consts::{FRAC_PI_2, PI};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ray_distances_are_the_analytic_ones() {
        // A 2 × 1 box at (5, 0): its near face along +x is at x = 4.
        let b = UprightBox::new([5.0, 0.0], [2.0, 1.0], 0.0, 0.0, 1.0);
        assert_eq!(b.ray(0.0, 0.0, 1.0, 0.0), Some(4.0));
        assert_eq!(b.ray(0.0, 0.6, 1.0, 0.0), None);
        assert_eq!(b.ray(5.0, 0.0, 1.0, 0.0), Some(0.0));
        assert_eq!(b.ray(0.0, 0.0, -1.0, 0.0), None);
        // Turned by 90° the near face is at x = 4.5.
        let t = UprightBox::new([5.0, 0.0], [2.0, 1.0], FRAC_PI_2, 0.0, 1.0);
        assert!((t.ray(0.0, 0.0, 1.0, 0.0).unwrap() - 4.5).abs() < 1e-12);
        // A ray at 45° from (0, −1) meets the plane x = 4 at y = 3: it misses; one towards (4, 0.25)
        // meets at hypot(4, 1.25).
        let d = 4.0_f64.hypot(1.25);
        assert!((b.ray(0.0, -1.0, 4.0 / d, 1.25 / d).unwrap() - d).abs() < 1e-12);
    }

    #[test]
    fn a_segment_over_the_box_is_free_and_through_it_is_blocked() {
        let b = UprightBox::new([1.0, 0.0], [0.5, 0.5], 0.0, 0.0, 0.7);
        let eye = Point3::new(0.0, 0.0, 1.2);
        // The line to (2, 0, 0.9) is at z = 1.05 over the box's middle: free.
        assert!(!b.blocks(&eye, &Point3::new(2.0, 0.0, 0.9)));
        // The line to (2, 0, 0) is at z = 0.6 there: blocked.
        assert!(b.blocks(&eye, &Point3::new(2.0, 0.0, 0.0)));
    }

    #[test]
    fn distance_is_signed() {
        let b = UprightBox::new([0.0, 0.0], [2.0, 2.0], 0.0, 0.0, 1.0);
        assert!((b.distance(4.0, 5.0) - 5.0).abs() < 1e-12); // 3-4-5 from the corner (1, 1)
        assert!((b.distance(0.5, 0.0) + 0.5).abs() < 1e-12);
        assert!((b.distance_3d(&Point3::new(0.0, 0.0, 3.0)) - 2.0).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn compose_with_inverse_is_identity(x in -9.0..9.0, y in -9.0..9.0, yaw in -PI..PI) {
            let p = Pose2::new(x, y, yaw);
            let e = p.compose(p.inverse());
            prop_assert!(e.x.abs() < 1e-9 && e.y.abs() < 1e-9 && wrap_angle(e.yaw).abs() < 1e-9);
        }

        #[test]
        fn wrapped_angles_stay_in_range(a in -1e6..1e6) {
            let w = wrap_angle(a);
            prop_assert!(w > -PI - 1e-9 && w <= PI + 1e-9);
            prop_assert!(((w - a) / std::f64::consts::TAU).round() * std::f64::consts::TAU - (w - a) < 1e-6);
        }
    }
}

//! Solid primitives of a planning scene (shape_msgs/SolidPrimitive), each in its own frame.

use nalgebra::{Point3, Vector3};

use crate::error::SimError;

/// Largest dimension that is taken, metres.
const LARGEST: f64 = 100.0;
/// Distance between the sampled points of a shape, metres: less than the thinnest thing in a world.
const SPACING: f64 = 0.03;
/// Most points along one edge.
const MAX_EDGE: usize = 12;

/// A convex solid around its frame's origin.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CollisionShape {
    /// A box of these full lengths along x, y and z, metres.
    Box([f64; 3]),
    /// A sphere of this radius, metres.
    Sphere(f64),
    /// A cylinder about z, metres.
    Cylinder {
        /// Along z.
        height: f64,
        /// Across.
        radius: f64,
    },
    /// A cone about z, its tip up, metres; its frame's origin is half way up.
    Cone {
        /// Along z.
        height: f64,
        /// Of its base.
        radius: f64,
    },
}

impl CollisionShape {
    /// Refuses dimensions that are none.
    ///
    /// # Errors
    /// [`SimError::OutOfRange`].
    pub fn validate(&self) -> Result<(), SimError> {
        let check = |v: f64| {
            crate::error::within("a dimension of a shape in m", v, 1e-4, LARGEST).map(|_| ())
        };
        match *self {
            Self::Box(size) => size.into_iter().try_for_each(check),
            Self::Sphere(radius) => check(radius),
            Self::Cylinder { height, radius } | Self::Cone { height, radius } => {
                check(height).and_then(|()| check(radius))
            }
        }
    }

    /// Half of its extent along each axis, metres.
    #[must_use]
    pub fn half_extents(&self) -> Vector3<f64> {
        match *self {
            Self::Box([x, y, z]) => Vector3::new(x / 2.0, y / 2.0, z / 2.0),
            Self::Sphere(r) => Vector3::repeat(r),
            Self::Cylinder { height, radius } | Self::Cone { height, radius } => {
                Vector3::new(radius, radius, height / 2.0)
            }
        }
    }

    /// Distance from the point to the solid, 0 inside, metres.
    #[must_use]
    pub fn distance(&self, p: &Point3<f64>) -> f64 {
        match *self {
            Self::Box([x, y, z]) => {
                let out = |v: f64, size: f64| (v.abs() - size / 2.0).max(0.0);
                Vector3::new(out(p.x, x), out(p.y, y), out(p.z, z)).norm()
            }
            Self::Sphere(r) => (p.coords.norm() - r).max(0.0),
            Self::Cylinder { height, radius } => {
                let across = (p.x.hypot(p.y) - radius).max(0.0);
                across.hypot((p.z.abs() - height / 2.0).max(0.0))
            }
            Self::Cone { height, radius } => cone_distance(p, height, radius),
        }
    }

    /// Points on the surface of the shape made smaller by `margin` on every side (metres), at most
    /// `SPACING` apart where it is not larger than 0.3 m.
    #[must_use]
    pub fn surface(&self, margin: f64) -> Vec<Point3<f64>> {
        let full = self.half_extents();
        // A thing thinner than both margins keeps a core.
        let half = full.map(|h| (h - margin).max(0.2 * h));
        let count = |h: f64| ((2.0 * h / SPACING).ceil() as usize).clamp(1, MAX_EDGE);
        let counts = [count(half.x), count(half.y), count(half.z)];
        let mut points = Vec::new();
        for i in 0..=counts[0] {
            for j in 0..=counts[1] {
                for k in 0..=counts[2] {
                    let on_face = [i, j, k]
                        .iter()
                        .zip(counts)
                        .any(|(n, last)| *n == 0 || *n == last);
                    if on_face {
                        let at = |n: usize, last: usize| 2.0 * n as f64 / last as f64 - 1.0;
                        points.push(self.onto(
                            [at(i, counts[0]), at(j, counts[1]), at(k, counts[2])],
                            &half,
                        ));
                    }
                }
            }
        }
        points
    }

    /// The point of a shape with these half extents that corresponds to one of the cube from −1 to 1.
    fn onto(&self, [u, v, w]: [f64; 3], half: &Vector3<f64>) -> Point3<f64> {
        // Shrinks a square's rings to circles of the same half width.
        let ring = |u: f64, v: f64| {
            let r = u.abs().max(v.abs());
            let length = u.hypot(v);
            if length > 0.0 {
                r / length
            } else {
                0.0
            }
        };
        match self {
            Self::Box(_) => Point3::new(u * half.x, v * half.y, w * half.z),
            Self::Sphere(_) => {
                let p = Vector3::new(u, v, w);
                let r = u.abs().max(v.abs()).max(w.abs());
                Point3::from(p * (r * half.x / p.norm().max(1e-9)))
            }
            Self::Cylinder { .. } => {
                let s = ring(u, v);
                Point3::new(u * s * half.x, v * s * half.y, w * half.z)
            }
            Self::Cone { .. } => {
                let s = ring(u, v) * (1.0 - w) / 2.0;
                Point3::new(u * s * half.x, v * s * half.y, w * half.z)
            }
        }
    }
}

/// In the plane through the axis the cone is a triangle: (0, h/2), (r, −h/2), (0, −h/2).
fn cone_distance(p: &Point3<f64>, height: f64, radius: f64) -> f64 {
    let (x, z) = (p.x.hypot(p.y), p.z);
    let half = height / 2.0;
    // Half width at this height.
    let wide = radius * (half - z) / height;
    if z >= -half && x <= wide {
        return 0.0;
    }
    if z < -half && x <= radius {
        return -half - z;
    }
    // To the slanted side, from the tip to the rim.
    let (dx, dz) = (radius, -height);
    let along = ((x * dx + (z - half) * dz) / (dx * dx + dz * dz)).clamp(0.0, 1.0);
    (x - along * dx).hypot(z - half - along * dz)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SHAPES: [CollisionShape; 4] = [
        CollisionShape::Box([0.2, 0.1, 0.4]),
        CollisionShape::Sphere(0.15),
        CollisionShape::Cylinder {
            height: 0.4,
            radius: 0.1,
        },
        CollisionShape::Cone {
            height: 0.4,
            radius: 0.1,
        },
    ];

    #[test]
    fn distances_are_the_analytic_ones() {
        let at = |s: usize, x: f64, y: f64, z: f64| SHAPES[s].distance(&Point3::new(x, y, z));
        // From the box's corner (0.1, 0.05, 0.2) by (0.03, 0.04, 0): 3-4-5.
        assert!((at(0, 0.13, 0.09, 0.2) - 0.05).abs() < 1e-12);
        assert_eq!(at(0, 0.05, 0.0, 0.1), 0.0);
        assert!((at(1, 0.0, 0.0, 0.25) - 0.1).abs() < 1e-12);
        assert!((at(2, 0.13, 0.0, 0.24) - 0.05).abs() < 1e-12);
        // Above the tip, below the base, beside the rim.
        assert!((at(3, 0.0, 0.0, 0.3) - 0.1).abs() < 1e-12);
        assert!((at(3, 0.05, 0.0, -0.3) - 0.1).abs() < 1e-12);
        assert!((at(3, 0.2, 0.0, -0.2) - 0.1).abs() < 1e-12);
        // Half way up it is 0.05 wide; the side's normal is (0.4, 0.1)/0.4123, so 0.1 m aside is
        // 0.1·0.4/0.4123 away.
        assert!((at(3, 0.15, 0.0, 0.0) - 0.1 * 0.4 / 0.4_f64.hypot(0.1)).abs() < 1e-12);
        assert_eq!(at(3, 0.049, 0.0, 0.0), 0.0);
    }

    #[test]
    fn bad_dimensions_are_refused() {
        for bad in [f64::NAN, f64::INFINITY, 0.0, -1.0, 1e9] {
            assert!(CollisionShape::Sphere(bad).validate().is_err());
            assert!(CollisionShape::Box([0.1, bad, 0.1]).validate().is_err());
        }
        assert!(SHAPES.iter().all(|s| s.validate().is_ok()));
    }

    proptest! {
        /// Sampled points lie in the shape, and with a margin none of them is on its surface's outside.
        #[test]
        fn sampled_points_belong_to_the_shape(shape in 0usize..4, margin in 0.0..0.02f64) {
            let points = SHAPES[shape].surface(margin);
            prop_assert!(points.len() >= 8 && points.len() < 2000);
            for p in points {
                prop_assert!(SHAPES[shape].distance(&p) < 1e-9, "{p}");
            }
        }
    }
}

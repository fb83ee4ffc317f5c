//! Points, poses and boxes as plain data, with the checks that everything from outside passes.

use nalgebra::{Isometry3, Quaternion, Translation3, UnitQuaternion, Vector3};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// How far a quaternion's norm may be from 1; tf2 uses the same tolerance for its inputs (1e-2 of the
/// squared norm is rejected by tf2's `QUATERNION_NORMALIZATION_TOLERANCE = 10e-3`).
pub const QUATERNION_TOLERANCE: f64 = 10e-3;

/// Largest coordinate that is believed \[m\]; beyond it a value is a unit error, not a place in a building.
pub const MAX_COORDINATE: f64 = 100_000.0;

/// Why a pose or a number is refused.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum GeometryError {
    /// NaN or infinity.
    #[error("{what} is {value}, which is not a finite number; send finite SI values")]
    NotFinite {
        /// Which field.
        what: String,
        /// The value.
        value: f64,
    },
    /// Too far away to be meant.
    #[error("{what} is {value} m, beyond the limit of {MAX_COORDINATE} m; check the unit (metres) and the frame")]
    TooLarge {
        /// Which field.
        what: String,
        /// The value.
        value: f64,
    },
    /// Not a rotation.
    #[error("the quaternion of {what} has norm {norm:.4}, it must be 1 within {QUATERNION_TOLERANCE}; an all-zero quaternion was probably never filled in")]
    NotUnitQuaternion {
        /// Which field.
        what: String,
        /// Its norm.
        norm: f64,
    },
}

/// A point or extent \[m\], in a frame that its owner names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vec3 {
    /// Forward or east \[m\].
    pub x: f64,
    /// Left or north \[m\].
    pub y: f64,
    /// Up \[m\].
    #[serde(default)]
    pub z: f64,
}

impl Vec3 {
    /// Creates a vector.
    pub const fn new(x: f64, y: f64, z: f64) -> Self {
        Vec3 { x, y, z }
    }

    /// Euclidean distance to another point \[m\].
    pub fn distance(self, other: Vec3) -> f64 {
        self.vector().metric_distance(&other.vector())
    }

    /// Distance on the floor \[m\].
    pub fn distance_xy(self, other: Vec3) -> f64 {
        (self.x - other.x).hypot(self.y - other.y)
    }

    /// As a nalgebra vector.
    pub fn vector(self) -> Vector3<f64> {
        Vector3::new(self.x, self.y, self.z)
    }

    /// True when all three are zero, which means "unknown" for sizes in messages.
    pub fn is_zero(self) -> bool {
        self.x == 0.0 && self.y == 0.0 && self.z == 0.0
    }

    /// Checks each number; `what` names the field in the error.
    ///
    /// # Errors
    /// [`GeometryError::NotFinite`] or [`GeometryError::TooLarge`].
    pub fn check(self, what: &str) -> Result<(), GeometryError> {
        for (axis, value) in [("x", self.x), ("y", self.y), ("z", self.z)] {
            let what = || format!("{what}.{axis}");
            if !value.is_finite() {
                return Err(GeometryError::NotFinite {
                    what: what(),
                    value,
                });
            }
            if value.abs() > MAX_COORDINATE {
                return Err(GeometryError::TooLarge {
                    what: what(),
                    value,
                });
            }
        }
        Ok(())
    }
}

impl From<Vector3<f64>> for Vec3 {
    fn from(v: Vector3<f64>) -> Self {
        Vec3::new(v.x, v.y, v.z)
    }
}

/// A pose in a frame that its owner names: position \[m\] and unit quaternion.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pose {
    /// Position \[m\].
    pub position: Vec3,
    /// Orientation as x, y, z, w.
    pub orientation: [f64; 4],
}

impl Default for Pose {
    fn default() -> Self {
        Pose {
            position: Vec3::default(),
            orientation: [0.0, 0.0, 0.0, 1.0],
        }
    }
}

impl Pose {
    /// A pose on the floor: x, y \[m\] and yaw about z \[rad\].
    pub fn planar(x: f64, y: f64, yaw: f64) -> Self {
        Pose {
            position: Vec3::new(x, y, 0.0),
            orientation: [0.0, 0.0, (yaw / 2.0).sin(), (yaw / 2.0).cos()],
        }
    }

    /// Yaw about z \[rad\] in (-pi, pi].
    pub fn yaw(&self) -> f64 {
        let [x, y, z, w] = self.orientation;
        (2.0 * (w * z + x * y)).atan2(1.0 - 2.0 * (y * y + z * z))
    }

    /// Checks position and quaternion; `what` names the field in the error.
    ///
    /// # Errors
    /// Any [`GeometryError`].
    pub fn check(&self, what: &str) -> Result<(), GeometryError> {
        self.position.check(&format!("{what}.position"))?;
        for (axis, value) in ["x", "y", "z", "w"].iter().zip(self.orientation) {
            if !value.is_finite() {
                return Err(GeometryError::NotFinite {
                    what: format!("{what}.orientation.{axis}"),
                    value,
                });
            }
        }
        let norm = self.orientation.iter().map(|v| v * v).sum::<f64>().sqrt();
        if (norm - 1.0).abs() > QUATERNION_TOLERANCE {
            return Err(GeometryError::NotUnitQuaternion {
                what: what.into(),
                norm,
            });
        }
        Ok(())
    }

    /// As a nalgebra isometry; the quaternion is normalised.
    pub fn isometry(&self) -> Isometry3<f64> {
        let [x, y, z, w] = self.orientation;
        Isometry3::from_parts(
            Translation3::from(self.position.vector()),
            UnitQuaternion::new_normalize(Quaternion::new(w, x, y, z)),
        )
    }
}

impl From<Isometry3<f64>> for Pose {
    fn from(iso: Isometry3<f64>) -> Self {
        let q = iso.rotation.coords;
        Pose {
            position: iso.translation.vector.into(),
            orientation: [q.x, q.y, q.z, q.w],
        }
    }
}

/// The smallest signed angle \[rad\] from `from` to `to`, in (-pi, pi].
pub fn angle_difference(from: f64, to: f64) -> f64 {
    let d = (to - from).rem_euclid(std::f64::consts::TAU);
    if d > std::f64::consts::PI {
        d - std::f64::consts::TAU
    } else {
        d
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::PI;

    #[test]
    fn yaw_survives_the_way_through_a_quaternion() {
        for yaw in [-3.0, -1.0, 0.0, 0.5, 3.1] {
            assert!((Pose::planar(1.0, 2.0, yaw).yaw() - yaw).abs() < 1e-12);
            let back = Pose::from(Pose::planar(1.0, 2.0, yaw).isometry());
            assert!((back.yaw() - yaw).abs() < 1e-12);
        }
    }

    #[test]
    fn bad_numbers_are_refused_with_the_field_and_the_value() {
        let mut pose = Pose::planar(f64::NAN, 0.0, 0.0);
        assert!(
            matches!(pose.check("target"), Err(GeometryError::NotFinite { what, .. }) if what == "target.position.x")
        );
        pose = Pose {
            orientation: [0.0; 4],
            ..Pose::default()
        };
        assert!(
            matches!(pose.check("target"), Err(GeometryError::NotUnitQuaternion { norm, .. }) if norm == 0.0)
        );
        pose = Pose::planar(1e6, 0.0, 0.0);
        assert!(matches!(
            pose.check("target"),
            Err(GeometryError::TooLarge { .. })
        ));
    }

    #[test]
    fn angles_take_the_short_way() {
        assert!((angle_difference(PI - 0.1, -PI + 0.1) - 0.2).abs() < 1e-12);
        assert!((angle_difference(-PI + 0.1, PI - 0.1) + 0.2).abs() < 1e-12);
    }
}

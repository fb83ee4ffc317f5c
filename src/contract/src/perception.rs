//! Detections in the frame of the map, and what the camera could have seen.

use std::collections::BTreeMap;

use nalgebra::{Matrix3, Point3};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::geometry::{GeometryError, Pose, Vec3};
use crate::time::Stamp;

/// Longest class name, attribute or reference of a detection in bytes.
pub const MAX_TEXT_LEN: usize = 256;

/// Most attributes of one detection.
pub const MAX_ATTRIBUTES: usize = 32;

/// Largest edge of a detected box \[m\]; a wardrobe is smaller.
pub const MAX_EDGE: f64 = 10.0;

/// Largest variance that is believed \[m²\]: 10 m of standard deviation say nothing about a place.
pub const MAX_VARIANCE: f64 = 100.0;

/// One detection, transformed to the frame of the map.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Detection {
    /// Name within its frame only.
    pub id: String,
    /// Class with the highest score, lower case.
    pub class_name: String,
    /// Score of the class, 0 to 1.
    pub confidence: f64,
    /// Attributes such as color.
    #[serde(default)]
    pub attributes: BTreeMap<String, String>,
    /// Pose of the box centre in the map.
    pub pose: Pose,
    /// Covariance of the position in the map \[m²\], row-major 3×3; all zero: not estimated.
    #[serde(default)]
    pub covariance: [f64; 9],
    /// Edge lengths of the box \[m\]; zero: unknown.
    #[serde(default)]
    pub size: Vec3,
    /// Reference to the image crop; empty: none.
    #[serde(default)]
    pub reference: String,
}

impl Detection {
    /// Checks every number and length.
    ///
    /// # Errors
    /// [`PerceptionError`] that names the detection, the field, the value and the limit.
    pub fn check(&self) -> Result<(), PerceptionError> {
        let bad = |field: &'static str, reason: String| PerceptionError::Detection {
            id: self.id.chars().take(64).collect(),
            field,
            reason,
        };
        if self.class_name.trim().is_empty() {
            return Err(bad("class_name", "it is empty; name the class".into()));
        }
        for (field, text) in [
            ("detection_id", &self.id),
            ("class_name", &self.class_name),
            ("reference", &self.reference),
        ] {
            if text.len() > MAX_TEXT_LEN {
                return Err(bad(
                    field,
                    format!("it has {} bytes, the limit is {MAX_TEXT_LEN}", text.len()),
                ));
            }
        }
        if self.attributes.len() > MAX_ATTRIBUTES {
            return Err(bad(
                "attributes",
                format!(
                    "there are {}, the limit is {MAX_ATTRIBUTES}",
                    self.attributes.len()
                ),
            ));
        }
        if let Some((key, _)) = self
            .attributes
            .iter()
            .find(|(k, v)| k.is_empty() || k.len() > MAX_TEXT_LEN || v.len() > MAX_TEXT_LEN)
        {
            return Err(bad(
                "attributes",
                format!(
                    "key or value of \"{}\" is empty or longer than {MAX_TEXT_LEN} bytes",
                    key.chars().take(32).collect::<String>()
                ),
            ));
        }
        if !(self.confidence.is_finite() && (0.0..=1.0).contains(&self.confidence)) {
            return Err(bad(
                "confidence",
                format!("it is {}; it must lie in 0 to 1", self.confidence),
            ));
        }
        self.pose
            .check("pose")
            .map_err(|e| bad("pose", e.to_string()))?;
        self.size
            .check("size")
            .map_err(|e| bad("size", e.to_string()))?;
        for (axis, edge) in [("x", self.size.x), ("y", self.size.y), ("z", self.size.z)] {
            if !(0.0..=MAX_EDGE).contains(&edge) {
                return Err(bad(
                    "size",
                    format!("{axis} is {edge} m; it must lie in 0 to {MAX_EDGE} m"),
                ));
            }
        }
        check_covariance(&self.covariance).map_err(|reason| bad("covariance", reason))
    }

    /// The covariance as a matrix; `None` when it was not estimated.
    pub fn covariance_matrix(&self) -> Option<Matrix3<f64>> {
        if self.covariance.iter().all(|v| *v == 0.0) {
            None
        } else {
            Some(Matrix3::from_row_slice(&self.covariance))
        }
    }
}

/// Checks that nine numbers are the covariance of a position: finite, symmetric, not negative.
fn check_covariance(values: &[f64; 9]) -> Result<(), String> {
    if let Some(value) = values.iter().find(|v| !v.is_finite()) {
        return Err(format!("it contains {value}; send finite variances in m²"));
    }
    let m = Matrix3::from_row_slice(values);
    for i in 0..3 {
        let variance = m[(i, i)];
        if !(0.0..=MAX_VARIANCE).contains(&variance) {
            return Err(format!(
                "a variance is {variance} m²; it must lie in 0 to {MAX_VARIANCE} m²"
            ));
        }
        for j in 0..i {
            let (a, b) = (m[(i, j)], m[(j, i)]);
            // Rounding of a rotated covariance is far below a square millimetre.
            if (a - b).abs() > 1e-6 + 1e-6 * a.abs() {
                return Err(format!(
                    "it is not symmetric: {a} and {b} should be the same"
                ));
            }
            // |covariance| <= product of the standard deviations (Cauchy-Schwarz).
            let limit = (m[(i, i)] * m[(j, j)]).sqrt();
            if a.abs() > limit * (1.0 + 1e-6) + 1e-9 {
                return Err(format!(
                    "a covariance of {a} m² is larger than its variances allow ({limit} m²)"
                ));
            }
        }
    }
    Ok(())
}

/// What a camera could see: a pyramid along z of its optical frame (z forward, x right, y down).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// The optical frame in the map.
    pub camera: Pose,
    /// Full horizontal angle \[rad\].
    pub horizontal_fov: f64,
    /// Full vertical angle \[rad\].
    pub vertical_fov: f64,
    /// Nearest depth \[m\].
    pub min_range: f64,
    /// Farthest distance \[m\].
    pub max_range: f64,
}

impl View {
    /// Checks every number.
    ///
    /// # Errors
    /// [`PerceptionError`] that names the field, the value and the limit.
    pub fn check(&self) -> Result<(), PerceptionError> {
        self.camera.check("camera")?;
        for (field, value) in [
            ("horizontal_fov", self.horizontal_fov),
            ("vertical_fov", self.vertical_fov),
        ] {
            // tan of half of it is used, so a half turn is excluded.
            if !(value.is_finite() && value > 0.0 && value < 3.1) {
                return Err(PerceptionError::View {
                    field,
                    reason: format!("it is {value} rad; it must lie between 0 and 3.1 rad"),
                });
            }
        }
        let ordered = self.min_range.is_finite()
            && self.max_range.is_finite()
            && self.min_range >= 0.0
            && self.min_range < self.max_range;
        if !ordered {
            return Err(PerceptionError::View {
                field: "max_range",
                reason: format!(
                    "the range is {} to {} m; it must begin at 0 or more and grow",
                    self.min_range, self.max_range
                ),
            });
        }
        Ok(())
    }

    /// True when a point of the map lies in the pyramid with a margin: `share` of each half angle and of
    /// the farthest distance counts, 1 for all of it.
    pub fn covers(&self, point: Vec3, share: f64) -> bool {
        let p = self
            .camera
            .isometry()
            .inverse_transform_point(&Point3::from(point.vector()));
        p.z > self.min_range
            && p.coords.norm() <= self.max_range * share
            && p.x.abs() <= p.z * (self.horizontal_fov / 2.0 * share).tan()
            && p.y.abs() <= p.z * (self.vertical_fov / 2.0 * share).tan()
    }
}

/// All detections of one sensor frame in the frame of the map, also when there are none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DetectionFrame {
    /// ROS time of the sensor frame.
    pub stamp: Stamp,
    /// Name of the detector.
    pub source: String,
    /// What was searched; `None`: not known, so that absence proves nothing.
    pub view: Option<View>,
    /// Reference to the whole image; empty: none.
    #[serde(default)]
    pub reference: String,
    /// The detections.
    pub detections: Vec<Detection>,
}

/// Why a detection or view is refused.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum PerceptionError {
    /// A field of a detection.
    #[error("detection \"{id}\" has a bad {field}: {reason}")]
    Detection {
        /// Which detection.
        id: String,
        /// Which field.
        field: &'static str,
        /// Why.
        reason: String,
    },
    /// A field of the view.
    #[error("the view has a bad {field}: {reason}")]
    View {
        /// Which field.
        field: &'static str,
        /// Why.
        reason: String,
    },
    /// A pose.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detection() -> Detection {
        Detection {
            id: "0".into(),
            class_name: "cup".into(),
            confidence: 0.9,
            attributes: BTreeMap::new(),
            pose: Pose::planar(1.0, 2.0, 0.0),
            covariance: [0.01, 0.0, 0.0, 0.0, 0.01, 0.0, 0.0, 0.0, 0.01],
            size: Vec3::new(0.1, 0.1, 0.1),
            reference: String::new(),
        }
    }

    #[test]
    fn bad_numbers_are_refused_with_their_field() {
        assert!(detection().check().is_ok());
        let with = |change: &dyn Fn(&mut Detection)| {
            let mut d = detection();
            change(&mut d);
            d.check().unwrap_err().to_string()
        };
        assert!(with(&|d| d.covariance[4] = f64::NAN).contains("NaN"));
        assert!(with(&|d| d.covariance[0] = -0.1).contains("-0.1"));
        assert!(with(&|d| d.covariance[1] = 0.005).contains("symmetric"));
        assert!(with(&|d| {
            d.covariance[1] = 0.5;
            d.covariance[3] = 0.5;
        })
        .contains("larger"));
        assert!(with(&|d| d.confidence = 1.5).contains("1.5"));
        assert!(with(&|d| d.pose.position.x = f64::INFINITY).contains("finite"));
        assert!(with(&|d| d.pose.orientation = [0.0; 4]).contains("quaternion"));
        assert!(with(&|d| d.size.z = -1.0).contains("-1"));
        assert!(with(&|d| d.class_name = " ".into()).contains("class"));
        assert!(with(&|d| d.class_name = "c".repeat(1000)).contains("1000"));
    }

    #[test]
    fn a_camera_that_looks_along_x_covers_what_is_before_it() {
        // Optical z along map x: x right = -y, y down = -z; the quaternion is (-0.5, 0.5, -0.5, 0.5).
        let view = View {
            camera: Pose {
                position: Vec3::new(0.0, 0.0, 1.0),
                orientation: [-0.5, 0.5, -0.5, 0.5],
            },
            horizontal_fov: 1.2,
            vertical_fov: 0.9,
            min_range: 0.2,
            max_range: 4.0,
        };
        assert!(view.check().is_ok());
        assert!(view.covers(Vec3::new(2.0, 0.0, 1.0), 1.0));
        // tan(0.6) * 2 = 1.368.
        assert!(view.covers(Vec3::new(2.0, 1.3, 1.0), 1.0));
        assert!(!view.covers(Vec3::new(2.0, 1.3, 1.0), 0.9));
        assert!(!view.covers(Vec3::new(2.0, 1.4, 1.0), 1.0));
        // tan(0.45) * 2 = 0.966.
        assert!(view.covers(Vec3::new(2.0, 0.0, 1.9), 1.0));
        assert!(!view.covers(Vec3::new(2.0, 0.0, 2.0), 1.0));
        assert!(!view.covers(Vec3::new(-2.0, 0.0, 1.0), 1.0));
        assert!(!view.covers(Vec3::new(4.1, 0.0, 1.0), 1.0));
        assert!(!view.covers(Vec3::new(0.1, 0.0, 1.0), 1.0));
        let flat = View {
            vertical_fov: 0.0,
            ..view
        };
        assert!(flat.check().is_err());
    }
}

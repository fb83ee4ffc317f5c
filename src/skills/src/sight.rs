//! Where an object is relative to the base, from detections made while the base stands.
//!
//! A pose in the map carries the error of localization twice: once when the object was seen and once when
//! the arm goes there. Detections in base_link carry neither, so what is to be grasped is looked at again
//! first.

use std::time::Duration;

use eh_contract::geometry::{Pose, Vec3};
use eh_contract::perception::{Detection, DetectionFrame};

use crate::sub_goal::Goal;

/// Frames in which the object has to be seen: the mean of three halves the noise of one by more than 1.7.
pub(crate) const FRAMES: usize = 3;

/// Frames that are waited for; a detector that misses one in three still gives [`FRAMES`].
const WANTED_FRAMES: usize = 5;

/// Longest wait for them; detectors of 2 Hz and more make it.
const TIMEOUT: Duration = Duration::from_secs(3);

/// How far a detection may be from where the scene says and still be the same object \[m\]: three times the
/// spread of localization and detection together (0.03 m and 0.03 m), and less than two things on one table
/// usually are apart.
pub(crate) const GATE: f64 = 0.15;

/// The goal that looks for an object of a class.
pub(crate) fn observe(class_name: &str) -> Goal {
    Goal::Observe {
        class_name: class_name.into(),
        frames: WANTED_FRAMES,
        timeout: TIMEOUT,
    }
}

/// Why an object could not be sighted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NotSighted {
    /// What was seen instead, with value and limit.
    pub(crate) message: String,
}

/// The mean pose of the detections next to where the object is expected, in base_link.
///
/// `expected` is the pose that the scene gave. Headings are averaged over half turns, since a box looks
/// the same from behind.
///
/// # Errors
/// [`NotSighted`] when it was seen in fewer than [`FRAMES`] frames.
pub(crate) fn locate(
    name: &str,
    class_name: &str,
    expected: &Pose,
    frames: &[DetectionFrame],
) -> Result<Pose, NotSighted> {
    let mut near: Vec<Pose> = Vec::new();
    let mut nearest = f64::INFINITY;
    for frame in frames {
        let distance = |d: &Detection| d.pose.position.distance(expected.position);
        let best = frame
            .detections
            .iter()
            .filter(|d| d.class_name == class_name && d.check().is_ok())
            .min_by(|a, b| distance(a).total_cmp(&distance(b)));
        if let Some(detection) = best {
            nearest = nearest.min(distance(detection));
            if distance(detection) <= GATE {
                near.push(detection.pose);
            }
        }
    }
    if near.len() < FRAMES {
        let seen = if nearest.is_finite() {
            format!("the nearest {class_name} was {nearest:.2} m from there")
        } else {
            format!("no {class_name} was seen at all")
        };
        return Err(NotSighted {
            message: format!(
                "{name} was seen within {GATE} m of where the scene says in {} of {} camera frames, {FRAMES} are needed; {seen}. Look at it again",
                near.len(),
                frames.len()
            ),
        });
    }
    let count = near.len() as f64;
    let sum = near.iter().fold(Vec3::default(), |s, p| {
        Vec3::new(s.x + p.position.x, s.y + p.position.y, s.z + p.position.z)
    });
    let (sin, cos) = near.iter().fold((0.0, 0.0), |(s, c), p| {
        let twice = 2.0 * p.yaw();
        (s + twice.sin(), c + twice.cos())
    });
    let mut pose = Pose::planar(sum.x / count, sum.y / count, 0.5 * f64::atan2(sin, cos));
    pose.position.z = sum.z / count;
    Ok(pose)
}

#[cfg(test)]
mod tests {
    use super::*;
    use eh_contract::Stamp;
    use std::f64::consts::PI;

    fn frame(things: &[(&str, f64, f64, f64)]) -> DetectionFrame {
        DetectionFrame {
            stamp: Stamp(1),
            source: "camera".into(),
            view: None,
            reference: String::new(),
            detections: things
                .iter()
                .map(|(class, x, y, yaw)| Detection {
                    id: "0".into(),
                    class_name: (*class).into(),
                    confidence: 0.9,
                    attributes: Default::default(),
                    pose: Pose::planar(*x, *y, *yaw),
                    covariance: [0.0; 9],
                    size: Vec3::new(0.1, 0.1, 0.1),
                    reference: String::new(),
                })
                .collect(),
        }
    }

    #[test]
    fn the_mean_of_the_nearest_of_its_class_counts() {
        let expected = Pose::planar(0.60, 0.0, 0.0);
        // Another cup 0.25 m away and an apple on the very spot must not count; headings that differ by
        // half a turn are the same.
        let frames = [
            frame(&[
                ("cup", 0.63, 0.01, 0.1),
                ("cup", 0.60, 0.25, 0.0),
                ("apple", 0.60, 0.0, 0.0),
            ]),
            frame(&[("cup", 0.65, 0.03, 0.1 + PI)]),
            frame(&[]),
            frame(&[("cup", 0.64, 0.02, 0.1)]),
        ];
        let pose = locate("cup_1", "cup", &expected, &frames).unwrap();
        assert!((pose.position.x - 0.64).abs() < 1e-9);
        assert!((pose.position.y - 0.02).abs() < 1e-9);
        assert!((pose.yaw() - 0.1).abs() < 1e-9);
    }

    #[test]
    fn what_is_too_far_or_seen_too_seldom_is_not_grasped() {
        let expected = Pose::planar(0.60, 0.0, 0.0);
        let far = [
            frame(&[("cup", 0.76, 0.0, 0.0)]),
            frame(&[("cup", 0.76, 0.0, 0.0)]),
            frame(&[("cup", 0.76, 0.0, 0.0)]),
        ];
        let message = locate("cup_1", "cup", &expected, &far).unwrap_err().message;
        assert!(
            message.contains("0.16 m") && message.contains("0 of 3"),
            "{message}"
        );
        let seldom = [
            frame(&[("cup", 0.6, 0.0, 0.0)]),
            frame(&[("cup", 0.6, 0.0, 0.0)]),
        ];
        assert!(locate("cup_1", "cup", &expected, &seldom).is_err());
        let message = locate("cup_1", "cup", &expected, &[]).unwrap_err().message;
        assert!(message.contains("no cup"), "{message}");
        let nan = [
            frame(&[("cup", f64::NAN, 0.0, 0.0)]),
            frame(&[("cup", f64::NAN, 0.0, 0.0)]),
            frame(&[("cup", f64::NAN, 0.0, 0.0)]),
        ];
        assert!(locate("cup_1", "cup", &expected, &nan).is_err());
    }
}

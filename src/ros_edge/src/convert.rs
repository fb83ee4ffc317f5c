//! Conversions between ROS messages and the plain types of the pure crates. What is not finite, not a
//! rotation or out of range is refused with a sentence, so that it ends at the edge.

pub mod command;
pub mod scene;
pub mod skill;
pub mod task;
pub mod verdict;

use std::time::Duration;

use nalgebra::{Isometry3, Point3, Quaternion, Translation3, UnitQuaternion, Vector3};
use ros_env::builtin_interfaces::msg::{Duration as DurationMsg, Time as TimeMsg};
use ros_env::geometry_msgs::msg::{
    Point as PointMsg, Pose as PoseMsg, Quaternion as QuaternionMsg, Transform as TransformMsg,
    Vector3 as Vector3Msg,
};
use ros_env::unique_identifier_msgs::msg::UUID as UuidMsg;
use uuid::Uuid;

const NANOSECONDS: i64 = 1_000_000_000;

/// How far the norm of a quaternion may be from 1. Single precision and a few multiplications stay well
/// below; anything above is a mistake of the sender, such as a quaternion that was left all zero.
pub const QUATERNION_TOLERANCE: f64 = 1e-3;

/// A message cannot be converted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ConvertError {
    /// A number is NaN or infinite.
    #[error("{what} is {value}: send a finite number")]
    NotFinite {
        /// Which number.
        what: String,
        /// Its value.
        value: f64,
    },
    /// A quaternion is not a rotation.
    #[error(
        "the quaternion (x {x}, y {y}, z {z}, w {w}) has the norm {norm}, which differs from 1 by more \
         than {QUATERNION_TOLERANCE}: normalise it; no rotation is (0, 0, 0, 1)"
    )]
    NotARotation {
        /// Component of i.
        x: f64,
        /// Component of j.
        y: f64,
        /// Component of k.
        z: f64,
        /// Real component.
        w: f64,
        /// Length of the quaternion.
        norm: f64,
    },
    /// A time or duration is out of the range of its type.
    #[error("{what} is out of range: {value}")]
    OutOfRange {
        /// Which value.
        what: &'static str,
        /// The value as text.
        value: String,
    },
    /// A field of a message can't be read.
    #[error("{field} can't be read: {reason}")]
    Field {
        /// Which field.
        field: String,
        /// Why, and what it should be.
        reason: String,
    },
}

fn finite(what: &str, value: f64) -> Result<f64, ConvertError> {
    if value.is_finite() {
        Ok(value)
    } else {
        Err(ConvertError::NotFinite {
            what: what.into(),
            value,
        })
    }
}

// --- Time --------------------------------------------------------------------------------------------

/// A stamp in nanoseconds since the epoch.
pub fn time_ns(stamp: &TimeMsg) -> i64 {
    i64::from(stamp.sec) * NANOSECONDS + i64::from(stamp.nanosec)
}

/// Nanoseconds since the epoch as a stamp.
///
/// # Errors
///
/// [`ConvertError::OutOfRange`] outside of what a stamp can hold, the years 1901 to 2038.
pub fn time_msg(nanoseconds: i64) -> Result<TimeMsg, ConvertError> {
    let (sec, nanosec) = split("the time in ns", nanoseconds)?;
    Ok(TimeMsg { sec, nanosec })
}

/// A duration in nanoseconds; negative ones are allowed.
pub fn duration_ns(duration: &DurationMsg) -> i64 {
    i64::from(duration.sec) * NANOSECONDS + i64::from(duration.nanosec)
}

/// A duration in seconds; negative ones are allowed.
pub fn duration_s(duration: &DurationMsg) -> f64 {
    crate::clock::seconds(duration_ns(duration))
}

/// Nanoseconds as a duration message.
///
/// # Errors
///
/// [`ConvertError::OutOfRange`] beyond 68 years.
pub fn duration_msg(nanoseconds: i64) -> Result<DurationMsg, ConvertError> {
    let (sec, nanosec) = split("the duration in ns", nanoseconds)?;
    Ok(DurationMsg { sec, nanosec })
}

/// Seconds as a duration message, rounded to a nanosecond.
///
/// # Errors
///
/// [`ConvertError::NotFinite`], or [`ConvertError::OutOfRange`] beyond 68 years.
pub fn duration_msg_from_s(seconds: f64) -> Result<DurationMsg, ConvertError> {
    let nanoseconds = finite("the duration", seconds)? * NANOSECONDS as f64;
    // The cast saturates, and what it saturates to is out of range.
    duration_msg(nanoseconds.round() as i64)
}

/// A duration message as one of the standard library, for time-outs.
///
/// # Errors
///
/// [`ConvertError::OutOfRange`] if it is negative.
pub fn std_duration(duration: &DurationMsg) -> Result<Duration, ConvertError> {
    let nanoseconds = duration_ns(duration);
    u64::try_from(nanoseconds)
        .map(Duration::from_nanos)
        .map_err(|_| ConvertError::OutOfRange {
            what: "the duration, which must not be negative,",
            value: format!("{nanoseconds} ns"),
        })
}

fn split(what: &'static str, nanoseconds: i64) -> Result<(i32, u32), ConvertError> {
    let sec = i32::try_from(nanoseconds.div_euclid(NANOSECONDS));
    let nanosec = u32::try_from(nanoseconds.rem_euclid(NANOSECONDS));
    match (sec, nanosec) {
        (Ok(sec), Ok(nanosec)) => Ok((sec, nanosec)),
        _ => Err(ConvertError::OutOfRange {
            what,
            value: nanoseconds.to_string(),
        }),
    }
}

// --- Identity ----------------------------------------------------------------------------------------

/// An identifier as a message.
pub fn uuid_msg(id: Uuid) -> UuidMsg {
    UuidMsg {
        uuid: id.into_bytes(),
    }
}

/// An identifier from a message.
pub fn uuid_from(message: &UuidMsg) -> Uuid {
    Uuid::from_bytes(message.uuid)
}

// --- Geometry ----------------------------------------------------------------------------------------

/// A vector.
///
/// # Errors
///
/// [`ConvertError::NotFinite`]
pub fn vector(message: &Vector3Msg) -> Result<Vector3<f64>, ConvertError> {
    Ok(Vector3::new(
        finite("x", message.x)?,
        finite("y", message.y)?,
        finite("z", message.z)?,
    ))
}

/// A vector as a message.
pub fn vector_msg(vector: &Vector3<f64>) -> Vector3Msg {
    Vector3Msg {
        x: vector.x,
        y: vector.y,
        z: vector.z,
    }
}

/// A point, metres.
///
/// # Errors
///
/// [`ConvertError::NotFinite`]
pub fn point(message: &PointMsg) -> Result<Point3<f64>, ConvertError> {
    Ok(Point3::new(
        finite("position.x", message.x)?,
        finite("position.y", message.y)?,
        finite("position.z", message.z)?,
    ))
}

/// A point as a message.
pub fn point_msg(point: &Point3<f64>) -> PointMsg {
    PointMsg {
        x: point.x,
        y: point.y,
        z: point.z,
    }
}

/// A rotation; small deviations from length 1 are evened out.
///
/// # Errors
///
/// [`ConvertError::NotFinite`], or [`ConvertError::NotARotation`] if the length is not about 1.
pub fn rotation(message: &QuaternionMsg) -> Result<UnitQuaternion<f64>, ConvertError> {
    let quaternion = Quaternion::new(
        finite("orientation.w", message.w)?,
        finite("orientation.x", message.x)?,
        finite("orientation.y", message.y)?,
        finite("orientation.z", message.z)?,
    );
    let norm = quaternion.norm();
    if (norm - 1.0).abs() <= QUATERNION_TOLERANCE {
        Ok(UnitQuaternion::new_normalize(quaternion))
    } else {
        Err(ConvertError::NotARotation {
            x: message.x,
            y: message.y,
            z: message.z,
            w: message.w,
            norm,
        })
    }
}

/// A rotation as a message.
pub fn rotation_msg(rotation: &UnitQuaternion<f64>) -> QuaternionMsg {
    QuaternionMsg {
        x: rotation.i,
        y: rotation.j,
        z: rotation.k,
        w: rotation.w,
    }
}

/// A pose.
///
/// # Errors
///
/// [`ConvertError`] if a number is not finite or the orientation no rotation.
pub fn pose(message: &PoseMsg) -> Result<Isometry3<f64>, ConvertError> {
    Ok(Isometry3::from_parts(
        Translation3::from(point(&message.position)?),
        rotation(&message.orientation)?,
    ))
}

/// A pose as a message.
pub fn pose_msg(pose: &Isometry3<f64>) -> PoseMsg {
    PoseMsg {
        position: point_msg(&Point3::from(pose.translation.vector)),
        orientation: rotation_msg(&pose.rotation),
    }
}

/// A transform.
///
/// # Errors
///
/// [`ConvertError`] if a number is not finite or the rotation none.
pub fn transform(message: &TransformMsg) -> Result<Isometry3<f64>, ConvertError> {
    Ok(Isometry3::from_parts(
        Translation3::from(vector(&message.translation)?),
        rotation(&message.rotation)?,
    ))
}

/// A transform as a message.
pub fn transform_msg(transform: &Isometry3<f64>) -> TransformMsg {
    TransformMsg {
        translation: vector_msg(&transform.translation.vector),
        rotation: rotation_msg(&transform.rotation),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // Literals instead of Default, which calls the C library of the package.
    fn quaternion(x: f64, y: f64, z: f64, w: f64) -> QuaternionMsg {
        QuaternionMsg { x, y, z, w }
    }

    #[test]
    fn a_stamp_before_the_epoch_has_a_positive_fraction() {
        // -0.25 s = -1 s + 750,000,000 ns
        let stamp = time_msg(-250_000_000).unwrap();
        assert_eq!((stamp.sec, stamp.nanosec), (-1, 750_000_000));
        assert_eq!(time_ns(&stamp), -250_000_000);
    }

    #[test]
    fn times_out_of_range_are_refused() {
        // 2^31 s are one second beyond the last stamp.
        assert!(time_msg(2_147_483_648 * NANOSECONDS).is_err());
        assert!(duration_msg(i64::MIN).is_err());
        assert!(duration_msg_from_s(1e30).is_err());
        assert!(duration_msg_from_s(f64::NAN).is_err());
        assert!(duration_msg_from_s(f64::NEG_INFINITY).is_err());
        let negative = duration_msg_from_s(-0.5).unwrap();
        assert_eq!(duration_s(&negative), -0.5);
        assert!(std_duration(&negative).is_err());
    }

    #[test]
    fn quaternions_that_are_no_rotation_are_refused() {
        assert!(matches!(
            rotation(&quaternion(0.0, 0.0, 0.0, 0.0)),
            Err(ConvertError::NotARotation { norm, .. }) if norm == 0.0
        ));
        assert!(rotation(&quaternion(0.0, 0.0, 0.0, 1.01)).is_err());
        assert!(rotation(&quaternion(0.0, f64::NAN, 0.0, 1.0)).is_err());
        assert!(rotation(&quaternion(0.0, 0.0, f64::INFINITY, 1.0)).is_err());
        assert!(rotation(&quaternion(0.0, 0.0, 0.0, 1.0005)).is_ok());
    }

    #[test]
    fn a_pose_names_the_number_that_is_not_finite() {
        let message = PoseMsg {
            position: PointMsg {
                x: 0.0,
                y: f64::NAN,
                z: 0.0,
            },
            orientation: quaternion(0.0, 0.0, 0.0, 1.0),
        };
        let error = pose(&message).unwrap_err().to_string();
        assert_eq!(error, "position.y is NaN: send a finite number");
    }

    proptest! {
        #[test]
        fn stamps_survive(nanoseconds in -2_147_483_648_000_000_000i64..=2_147_483_647_999_999_999) {
            prop_assert_eq!(time_ns(&time_msg(nanoseconds).unwrap()), nanoseconds);
        }

        #[test]
        fn poses_survive(
            x in -1e6..1e6f64, y in -1e6..1e6f64, z in -1e6..1e6f64,
            roll in -3.0..3.0f64, pitch in -1.5..1.5f64, yaw in -3.0..3.0f64,
        ) {
            let before = Isometry3::from_parts(
                Translation3::new(x, y, z),
                UnitQuaternion::from_euler_angles(roll, pitch, yaw),
            );
            let after = pose(&pose_msg(&before)).unwrap();
            prop_assert!((before.translation.vector - after.translation.vector).norm() < 1e-9);
            prop_assert!(before.rotation.angle_to(&after.rotation) < 1e-7);
            prop_assert_eq!(transform(&transform_msg(&before)).unwrap().translation, before.translation);
        }

        #[test]
        fn what_is_accepted_is_a_rotation(
            x in -2.0..2.0f64, y in -2.0..2.0f64, z in -2.0..2.0f64, w in -2.0..2.0f64,
        ) {
            if let Ok(accepted) = rotation(&quaternion(x, y, z, w)) {
                prop_assert!((accepted.norm() - 1.0).abs() < 1e-12);
            }
        }
    }
}

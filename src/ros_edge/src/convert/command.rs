//! Commands, envelopes, targets, preconditions and beacons to and from their messages.

use std::time::Duration;

use eh_contract::command::{
    Beacon, Envelope, Precondition, SkillCommand, Support, TargetBinding,
};
use eh_contract::geometry::{Pose, Vec3};
use eh_contract::scene::Kind;
use eh_contract::Stamp;
use ros_env::builtin_interfaces::msg::{Duration as DurationMsg, Time as TimeMsg};
use ros_env::embodied_harness::msg::{
    CommandEnvelope as EnvelopeMsg, ExecutorBeacon as BeaconMsg, Precondition as PreconditionMsg,
    SkillCommand as SkillCommandMsg, TargetBinding as TargetBindingMsg,
};
use ros_env::geometry_msgs::msg::{Point, Pose as PoseMsg, Quaternion, Vector3};
use serde_json::{Map, Value};

use super::{duration_msg, duration_ns, time_msg, time_ns, ConvertError};

/// Most targets or preconditions of one command.
pub const MAX_ENTRIES: usize = 64;

/// A stamp of ROS time.
pub fn stamp(message: &TimeMsg) -> Stamp {
    Stamp(time_ns(message))
}

/// A stamp as a message; one that the message can't hold becomes the nearest that it can.
pub fn stamp_msg(stamp: Stamp) -> TimeMsg {
    time_msg(stamp.0).unwrap_or(TimeMsg {
        sec: if stamp.0 < 0 { i32::MIN } else { i32::MAX },
        nanosec: 0,
    })
}

/// A duration; a negative one counts as zero, which every budget takes as used up.
pub fn budget(message: &DurationMsg) -> Duration {
    Duration::from_nanos(u64::try_from(duration_ns(message)).unwrap_or(0))
}

/// A duration as a message; one that is too long becomes the longest that the message can hold.
pub fn budget_msg(duration: Duration) -> DurationMsg {
    i64::try_from(duration.as_nanos())
        .ok()
        .and_then(|ns| duration_msg(ns).ok())
        .unwrap_or(DurationMsg {
            sec: i32::MAX,
            nanosec: 999_999_999,
        })
}

/// A point or extent as it came; whether its numbers are usable is for the gate to say.
pub fn vec3(message: &Vector3) -> Vec3 {
    Vec3::new(message.x, message.y, message.z)
}

/// A point or extent as a message.
pub fn vec3_msg(v: Vec3) -> Vector3 {
    Vector3 {
        x: v.x,
        y: v.y,
        z: v.z,
    }
}

/// A pose as it came; whether its numbers are usable is for the gate to say.
pub fn raw_pose(message: &PoseMsg) -> Pose {
    let (p, q) = (&message.position, &message.orientation);
    Pose {
        position: Vec3::new(p.x, p.y, p.z),
        orientation: [q.x, q.y, q.z, q.w],
    }
}

/// A pose as a message, number by number.
pub fn raw_pose_msg(pose: &Pose) -> PoseMsg {
    let [x, y, z, w] = pose.orientation;
    PoseMsg {
        position: Point {
            x: pose.position.x,
            y: pose.position.y,
            z: pose.position.z,
        },
        orientation: Quaternion { x, y, z, w },
    }
}

/// Reads one JSON object; the empty text is the empty object.
///
/// # Errors
/// [`ConvertError::Field`] when it is none.
pub fn json_object(field: &str, text: &str) -> Result<Map<String, Value>, ConvertError> {
    match json_value(field, text)? {
        Value::Object(map) => Ok(map),
        Value::Null => Ok(Map::new()),
        _ => Err(ConvertError::Field {
            field: field.into(),
            reason: "it is JSON, but no object; write {\"name\": value}".into(),
        }),
    }
}

/// Reads JSON; the empty text is null.
///
/// # Errors
/// [`ConvertError::Field`] when it is no JSON.
pub fn json_value(field: &str, text: &str) -> Result<Value, ConvertError> {
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_str(text).map_err(|e| ConvertError::Field {
        field: field.into(),
        reason: format!("it is no JSON ({e})"),
    })
}

/// JSON as text; null is the empty text.
pub fn json_text(value: &Value) -> String {
    if value.is_null() {
        String::new()
    } else {
        value.to_string()
    }
}

/// Reads a target.
///
/// # Errors
/// [`ConvertError::Field`] for a kind that no constant has.
pub fn target(message: &TargetBindingMsg) -> Result<TargetBinding, ConvertError> {
    let kind = Kind::from_wire(message.kind).ok_or_else(|| ConvertError::Field {
        field: format!("targets[{}].kind", message.argument),
        reason: format!(
            "it is {}; use a KIND_* constant of SceneObject",
            message.kind
        ),
    })?;
    let support = (!message.support.is_empty()).then(|| Support {
        r#ref: message.support.clone(),
        pose: raw_pose(&message.support_pose),
        size: vec3(&message.support_size),
    });
    Ok(TargetBinding {
        argument: message.argument.clone(),
        r#ref: message.ref_name().to_string(),
        class_name: message.class_name.clone(),
        kind,
        version: message.version,
        frame_id: message.frame_id.clone(),
        pose: raw_pose(&message.pose),
        size: vec3(&message.size),
        last_seen: stamp(&message.last_seen),
        support,
    })
}

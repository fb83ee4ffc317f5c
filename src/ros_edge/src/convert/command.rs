//! Commands, envelopes, targets, preconditions and beacons to and from their messages.

use std::time::Duration;

use eh_contract::command::{Beacon, Envelope, Precondition, SkillCommand, Support, TargetBinding};
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
        r#ref: message.ref_.clone(),
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

/// A target as a message.
pub fn target_msg(target: &TargetBinding) -> TargetBindingMsg {
    let empty = Support {
        r#ref: String::new(),
        pose: Pose {
            position: Vec3::default(),
            orientation: [0.0; 4],
        },
        size: Vec3::default(),
    };
    let support = target.support.as_ref().unwrap_or(&empty);
    TargetBindingMsg {
        argument: target.argument.clone(),
        ref_: target.r#ref.clone(),
        class_name: target.class_name.clone(),
        kind: target.kind.to_wire(),
        version: target.version,
        frame_id: target.frame_id.clone(),
        pose: raw_pose_msg(&target.pose),
        size: vec3_msg(target.size),
        last_seen: stamp_msg(target.last_seen),
        support: support.r#ref.clone(),
        support_pose: raw_pose_msg(&support.pose),
        support_size: vec3_msg(support.size),
    }
}

/// Reads a precondition.
///
/// # Errors
/// [`ConvertError::Field`] when its predicates are no JSON.
pub fn precondition(message: &PreconditionMsg) -> Result<Precondition, ConvertError> {
    Ok(Precondition {
        r#ref: message.ref_.clone(),
        version: message.version,
        same_version: message.same_version,
        max_age: budget(&message.max_age),
        max_displacement: message.max_displacement,
        predicates: json_value("preconditions.predicates_json", &message.predicates_json)?,
    })
}

/// A precondition as a message.
pub fn precondition_msg(precondition: &Precondition) -> PreconditionMsg {
    PreconditionMsg {
        ref_: precondition.r#ref.clone(),
        version: precondition.version,
        same_version: precondition.same_version,
        max_age: budget_msg(precondition.max_age),
        max_displacement: precondition.max_displacement,
        predicates_json: json_text(&precondition.predicates),
    }
}

/// Reads a command. The digest stays in the message: whoever receives it computes it anew and compares.
///
/// # Errors
/// [`ConvertError::Field`] that names what can't be read.
pub fn command(message: &SkillCommandMsg) -> Result<SkillCommand, ConvertError> {
    for (field, len) in [
        ("targets", message.targets.len()),
        ("preconditions", message.preconditions.len()),
    ] {
        if len > MAX_ENTRIES {
            return Err(ConvertError::Field {
                field: field.into(),
                reason: format!("it has {len} entries, the limit is {MAX_ENTRIES}"),
            });
        }
    }
    if message.arguments_json.len() > eh_contract::arguments::MAX_ARGUMENTS_LEN {
        return Err(ConvertError::Field {
            field: "arguments_json".into(),
            reason: format!(
                "it has {} bytes, the limit is {}",
                message.arguments_json.len(),
                eh_contract::arguments::MAX_ARGUMENTS_LEN
            ),
        });
    }
    Ok(SkillCommand {
        schema_version: message.schema_version,
        command_id: message.command_id.clone(),
        task_id: message.task_id.clone(),
        robot_id: message.robot_id.clone(),
        skill: message.skill.clone(),
        skill_version: message.skill_version.clone(),
        arguments: json_object("arguments_json", &message.arguments_json)?,
        targets: message
            .targets
            .iter()
            .map(target)
            .collect::<Result<_, _>>()?,
        preconditions: message
            .preconditions
            .iter()
            .map(precondition)
            .collect::<Result<_, _>>()?,
        world_version: message.world_version,
        plan_version: message.plan_version,
        start_within: budget(&message.start_within),
        execution_timeout: budget(&message.execution_timeout),
        stop_timeout: budget(&message.stop_timeout),
        max_segments: message.max_segments,
    })
}

/// A command as a message, with its digest.
pub fn command_msg(command: &SkillCommand) -> SkillCommandMsg {
    SkillCommandMsg {
        schema_version: command.schema_version,
        command_id: command.command_id.clone(),
        task_id: command.task_id.clone(),
        robot_id: command.robot_id.clone(),
        skill: command.skill.clone(),
        skill_version: command.skill_version.clone(),
        arguments_json: Value::Object(command.arguments.clone()).to_string(),
        targets: command.targets.iter().map(target_msg).collect(),
        preconditions: command.preconditions.iter().map(precondition_msg).collect(),
        world_version: command.world_version,
        plan_version: command.plan_version,
        start_within: budget_msg(command.start_within),
        execution_timeout: budget_msg(command.execution_timeout),
        stop_timeout: budget_msg(command.stop_timeout),
        max_segments: command.max_segments,
        digest: command.digest(),
    }
}

/// A beacon; `None` for one without an executor's name.
pub fn beacon(message: &BeaconMsg) -> Option<Beacon> {
    (!message.executor.is_empty()).then(|| Beacon {
        executor: message.executor.clone(),
        boot_id: message.boot_id.clone(),
        tick: Duration::from_nanos(message.tick),
    })
}

/// A beacon as a message; `None` is the one without a name.
pub fn beacon_msg(beacon: Option<&Beacon>) -> BeaconMsg {
    match beacon {
        Some(b) => BeaconMsg {
            executor: b.executor.clone(),
            boot_id: b.boot_id.clone(),
            tick: u64::try_from(b.tick.as_nanos()).unwrap_or(u64::MAX),
        },
        None => BeaconMsg {
            executor: String::new(),
            boot_id: String::new(),
            tick: 0,
        },
    }
}

/// Reads an envelope.
pub fn envelope(message: &EnvelopeMsg) -> Envelope {
    Envelope {
        fencing_token: message.fencing_token,
        controller_id: message.controller_id.clone(),
        start_within: budget(&message.start_within),
        beacon: beacon(&message.beacon),
    }
}

/// An envelope as a message.
pub fn envelope_msg(envelope: &Envelope) -> EnvelopeMsg {
    EnvelopeMsg {
        fencing_token: envelope.fencing_token,
        controller_id: envelope.controller_id.clone(),
        start_within: budget_msg(envelope.start_within),
        beacon: beacon_msg(envelope.beacon.as_ref()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eh_contract::command::SCHEMA_VERSION;
    use proptest::prelude::*;
    use serde_json::json;

    fn full(x: f64, argument: f64) -> SkillCommand {
        let pose = Pose {
            position: Vec3::new(x, -x, 0.1 + x),
            orientation: [0.0, 0.0, 0.6, 0.8],
        };
        SkillCommand {
            schema_version: SCHEMA_VERSION,
            command_id: "c1".into(),
            task_id: "t1".into(),
            robot_id: "robot".into(),
            skill: "pick".into(),
            skill_version: "1.0.0".into(),
            arguments: json!({"object": "杯子_1", "a": argument, "n": 3})
                .as_object()
                .cloned()
                .unwrap(),
            targets: vec![
                TargetBinding {
                    argument: "object".into(),
                    r#ref: "cup_1".into(),
                    class_name: "cup".into(),
                    kind: Kind::Object,
                    version: u64::MAX,
                    frame_id: "map".into(),
                    pose,
                    size: Vec3::new(x, 0.1, 0.2),
                    last_seen: Stamp(1_796_040_000_123_456_789),
                    support: Some(Support {
                        r#ref: "table_1".into(),
                        pose,
                        size: Vec3::new(1.0, x, 0.7),
                    }),
                },
                TargetBinding {
                    argument: "support".into(),
                    r#ref: "table_1".into(),
                    class_name: "table".into(),
                    kind: Kind::Surface,
                    version: 0,
                    frame_id: "map".into(),
                    pose,
                    size: Vec3::default(),
                    last_seen: Stamp::NEVER,
                    support: None,
                },
            ],
            preconditions: vec![
                Precondition {
                    r#ref: "cup_1".into(),
                    version: 4,
                    same_version: true,
                    max_age: Duration::from_nanos(20_000_000_001),
                    max_displacement: x.abs(),
                    predicates: json!({"near": {"target": "cup_1", "max_distance": argument.abs()}}),
                },
                Precondition {
                    r#ref: String::new(),
                    version: 0,
                    same_version: false,
                    max_age: Duration::ZERO,
                    max_displacement: 0.0,
                    predicates: Value::Null,
                },
            ],
            world_version: 12,
            plan_version: 3,
            start_within: Duration::from_millis(1500),
            execution_timeout: Duration::from_secs(30),
            stop_timeout: Duration::ZERO,
            max_segments: 2,
        }
    }

    proptest! {
        /// The digest is that of the sender, whatever the numbers: text and back loses no bit.
        #[test]
        fn the_digest_survives_the_wire(x in any::<f64>().prop_filter("finite", |v| v.is_finite()),
                                        a in any::<f64>().prop_filter("finite", |v| v.is_finite())) {
            let sent = full(x, a);
            let message = command_msg(&sent);
            let received = command(&message).unwrap();
            prop_assert_eq!(received.digest(), message.digest);
            prop_assert_eq!(received, sent);
        }
    }

    #[test]
    fn an_envelope_survives_and_an_empty_beacon_is_none() {
        let envelope_sent = Envelope {
            fencing_token: 7,
            controller_id: "/h".into(),
            start_within: Duration::from_nanos(1_999_999_999),
            beacon: Some(Beacon {
                executor: "/e".into(),
                boot_id: "b".into(),
                tick: Duration::from_nanos(123_456_789_012),
            }),
        };
        assert_eq!(envelope(&envelope_msg(&envelope_sent)), envelope_sent);
        assert_eq!(beacon(&beacon_msg(None)), None);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let mut message = command_msg(&full(1.0, 2.0));
        message.arguments_json = "[1]".into();
        let error = command(&message).unwrap_err().to_string();
        assert!(error.contains("arguments_json"), "{error}");
        let mut message = command_msg(&full(1.0, 2.0));
        if let Some(t) = message.targets.first_mut() {
            t.kind = 99;
        }
        assert!(command(&message).unwrap_err().to_string().contains("99"));
        let mut message = command_msg(&full(1.0, 2.0));
        message.targets = vec![target_msg(&full(1.0, 2.0).targets[0]); MAX_ENTRIES + 1];
        assert!(command(&message).is_err());
        let mut message = command_msg(&full(1.0, 2.0));
        message.arguments_json = " ".repeat(20_000);
        assert!(command(&message).is_err());
    }

    #[test]
    fn negative_budgets_are_used_up() {
        assert_eq!(
            budget(&DurationMsg {
                sec: -1,
                nanosec: 5
            }),
            Duration::ZERO
        );
        assert_eq!(
            budget(&budget_msg(Duration::MAX)),
            Duration::new(2_147_483_647, 999_999_999)
        );
    }
}

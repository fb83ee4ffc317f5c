//! Scene objects, relations, graphs and frames of detections to and from their messages.

use std::collections::BTreeMap;

use eh_contract::geometry::{Pose, Vec3};
use eh_contract::perception::{Detection, DetectionFrame, View};
use eh_contract::scene::{Kind, Relation, RelationKind, SceneObject, SceneSnapshot, Source};
use nalgebra::{Isometry3, Matrix3};
use ros_env::diagnostic_msgs::msg::KeyValue;
use ros_env::embodied_harness::msg::{
    ObjectObservationArray as ObservationArrayMsg, SceneGraph as SceneGraphMsg,
    SceneObject as SceneObjectMsg, SceneRelation as SceneRelationMsg,
};
use ros_env::geometry_msgs::msg::{Point, PoseWithCovariance};
use ros_env::std_msgs::msg::Header;

use super::command::{raw_pose, raw_pose_msg, stamp, stamp_msg, vec3, vec3_msg};
use super::ConvertError;

/// Side of the covariance matrix of a pose: x, y, z, roll, pitch, yaw.
const SIDE: usize = 6;

fn bad(field: &str, reason: String) -> ConvertError {
    ConvertError::Field {
        field: field.into(),
        reason,
    }
}

/// Pairs as a map; of one key the last one counts.
pub fn key_values(pairs: &[KeyValue]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|p| (p.key.clone(), p.value.clone()))
        .collect()
}

/// A map as pairs, in its order.
pub fn key_values_msg<'a>(
    map: impl IntoIterator<Item = (&'a String, &'a String)>,
) -> Vec<KeyValue> {
    map.into_iter()
        .map(|(key, value)| KeyValue {
            key: key.clone(),
            value: value.clone(),
        })
        .collect()
}

/// Reads a node of the scene graph.
///
/// # Errors
/// [`ConvertError::Field`] for a kind or source that no constant has, or a pose or confidence that is none.
pub fn scene_object(message: &SceneObjectMsg) -> Result<SceneObject, ConvertError> {
    let pose = raw_pose(&message.pose.pose);
    pose.check("pose").map_err(|e| bad("pose", e.to_string()))?;
    let size = vec3(&message.size);
    size.check("size").map_err(|e| bad("size", e.to_string()))?;
    if !message.confidence.is_finite() {
        return Err(bad(
            "confidence",
            format!("it is {}; it must lie in 0 to 1", message.confidence),
        ));
    }
    let variance = |axis: usize| {
        message
            .pose
            .covariance
            .get(axis * SIDE + axis)
            .copied()
            .filter(|v| v.is_finite())
            .unwrap_or(0.0)
    };
    Ok(SceneObject {
        r#ref: message.ref_.clone(),
        kind: Kind::from_wire(message.kind).ok_or_else(|| {
            bad(
                "kind",
                format!("it is {}, which no KIND_* constant has", message.kind),
            )
        })?,
        class_name: message.class_name.clone(),
        aliases: message.aliases.clone(),
        attributes: key_values(&message.attributes).into(),
        state: key_values(&message.state).into(),
        frame_id: message.frame_id.clone(),
        pose,
        position_variance: Vec3::new(variance(0), variance(1), variance(2)),
        size,
        outline: message
            .outline
            .iter()
            .map(|p| Vec3::new(p.x, p.y, p.z))
            .collect(),
        confidence: message.confidence,
        first_seen: stamp(&message.first_seen),
        last_seen: stamp(&message.last_seen),
        sightings: message.sightings,
        source: Source::from_wire(message.source).ok_or_else(|| {
            bad(
                "source",
                format!("it is {}, which no SOURCE_* constant has", message.source),
            )
        })?,
        run_id: message.run_id.clone(),
        evidence: message.evidence.clone(),
        version: message.version,
        retired: message.retired,
        merged_into: message.merged_into.clone(),
    })
}

/// A node of the scene graph as a message.
pub fn scene_object_msg(object: &SceneObject) -> SceneObjectMsg {
    let mut covariance = [0.0; SIDE * SIDE];
    let v = object.position_variance;
    for (axis, variance) in [v.x, v.y, v.z].into_iter().enumerate() {
        if let Some(cell) = covariance.get_mut(axis * SIDE + axis) {
            *cell = variance;
        }
    }
    SceneObjectMsg {
        ref_: object.r#ref.clone(),
        kind: object.kind.to_wire(),
        class_name: object.class_name.clone(),
        aliases: object.aliases.clone(),
        attributes: key_values_msg(&object.attributes),
        state: key_values_msg(&object.state),
        frame_id: object.frame_id.clone(),
        pose: PoseWithCovariance {
            pose: raw_pose_msg(&object.pose),
            covariance,
        },
        size: vec3_msg(object.size),
        outline: object
            .outline
            .iter()
            .map(|p| Point {
                x: p.x,
                y: p.y,
                z: p.z,
            })
            .collect(),
        confidence: object.confidence,
        first_seen: stamp_msg(object.first_seen),
        last_seen: stamp_msg(object.last_seen),
        sightings: object.sightings,
        source: object.source.to_wire(),
        run_id: object.run_id.clone(),
        evidence: object.evidence.clone(),
        version: object.version,
        retired: object.retired,
        merged_into: object.merged_into.clone(),
    }
}

/// Reads an edge of the scene graph.
///
/// # Errors
/// [`ConvertError::Field`] for a relation or source that is none.
pub fn relation(message: &SceneRelationMsg) -> Result<Relation, ConvertError> {
    Ok(Relation {
        subject: message.subject.clone(),
        relation: RelationKind::from_name(&message.relation).ok_or_else(|| {
            bad(
                "relation",
                format!(
                    "it is \"{}\"; use in, on, near, under, connects or holds",
                    message.relation
                ),
            )
        })?,
        object: message.object.clone(),
        confidence: message.confidence,
        stamp: stamp(&message.stamp),
        source: Source::from_wire(message.source).ok_or_else(|| {
            bad(
                "source",
                format!("it is {}, which no SOURCE_* constant has", message.source),
            )
        })?,
    })
}

/// An edge of the scene graph as a message.
pub fn relation_msg(relation: &Relation) -> SceneRelationMsg {
    SceneRelationMsg {
        subject: relation.subject.clone(),
        relation: relation.relation.name().into(),
        object: relation.object.clone(),
        confidence: relation.confidence,
        stamp: stamp_msg(relation.stamp),
        source: relation.source.to_wire(),
    }
}

/// Reads a whole scene graph; its objects come out sorted by ref.
///
/// # Errors
/// As [`scene_object`] and [`relation`].
pub fn snapshot(message: &SceneGraphMsg) -> Result<SceneSnapshot, ConvertError> {
    let mut objects: Vec<SceneObject> = message
        .objects
        .iter()
        .map(scene_object)
        .collect::<Result<_, _>>()?;
    objects.sort_by(|a, b| a.r#ref.cmp(&b.r#ref));
    Ok(SceneSnapshot {
        map_id: message.map_id.clone(),
        version: message.version,
        stamp: stamp(&message.header.stamp),
        objects,
        relations: message
            .relations
            .iter()
            .map(relation)
            .collect::<Result<_, _>>()?,
    })
}

/// A whole scene graph as a message, in a frame.
pub fn snapshot_msg(scene: &SceneSnapshot, frame_id: &str) -> SceneGraphMsg {
    SceneGraphMsg {
        header: Header {
            stamp: stamp_msg(scene.stamp),
            frame_id: frame_id.into(),
        },
        map_id: scene.map_id.clone(),
        version: scene.version,
        objects: scene.objects.iter().map(scene_object_msg).collect(),
        relations: scene.relations.iter().map(relation_msg).collect(),
    }
}

/// Reads a frame of detections and transforms it to the map by the pose of its sensor there.
///
/// Numbers are not judged here: those that are not finite come out as such, and who takes the frame
/// refuses them with their names.
pub fn detection_frame(
    message: &ObservationArrayMsg,
    sensor_in_map: &Isometry3<f64>,
) -> DetectionFrame {
    let known = message.horizontal_fov != 0.0
        || message.vertical_fov != 0.0
        || message.min_range != 0.0
        || message.max_range != 0.0;
    let turn = sensor_in_map.rotation.to_rotation_matrix();
    let detections = message
        .observations
        .iter()
        .map(|o| {
            let in_sensor = raw_pose(&o.pose.pose);
            let pose = if in_sensor.check("pose").is_ok() {
                Pose::from(sensor_in_map * in_sensor.isometry())
            } else {
                in_sensor
            };
            let cell = |i: usize, j: usize| {
                o.pose
                    .covariance
                    .get(i * SIDE + j)
                    .copied()
                    .unwrap_or(f64::NAN)
            };
            let own = Matrix3::from_fn(cell);
            let m = turn.matrix() * own * turn.matrix().transpose();
            // Rounding must not make a symmetric matrix look like none; one that was none stays so.
            let symmetric = (own - own.transpose()).abs().max() == 0.0;
            let m = if symmetric {
                (m + m.transpose()) * 0.5
            } else {
                m
            };
            let rows: Vec<f64> = m.transpose().iter().copied().collect();
            Detection {
                id: o.detection_id.clone(),
                class_name: o.class_name.trim().to_lowercase(),
                confidence: o.confidence,
                attributes: key_values(&o.attributes),
                pose,
                covariance: <[f64; 9]>::try_from(rows).unwrap_or([f64::NAN; 9]),
                size: vec3(&o.size),
                reference: o.reference.clone(),
            }
        })
        .collect();
    DetectionFrame {
        stamp: stamp(&message.header.stamp),
        source: message.source.clone(),
        view: known.then(|| View {
            camera: Pose::from(*sensor_in_map),
            horizontal_fov: message.horizontal_fov,
            vertical_fov: message.vertical_fov,
            min_range: message.min_range,
            max_range: message.max_range,
        }),
        reference: message.reference.clone(),
        detections,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eh_contract::Stamp;
    use nalgebra::{Translation3, UnitQuaternion};
    use ros_env::embodied_harness::msg::ObjectObservation;
    use std::f64::consts::FRAC_PI_2;

    fn object() -> SceneObject {
        SceneObject {
            r#ref: "cup_1".into(),
            kind: Kind::Object,
            class_name: "cup".into(),
            aliases: vec!["杯子".into()],
            attributes: [("color".to_string(), "red".to_string())].into(),
            state: [("held_by".to_string(), "robot".to_string())].into(),
            frame_id: "map".into(),
            pose: Pose::planar(1.0, 2.0, 0.5),
            position_variance: Vec3::new(0.01, 0.02, 0.03),
            size: Vec3::new(0.1, 0.1, 0.2),
            outline: vec![Vec3::new(1.0, 2.0, 0.0)],
            confidence: 0.9,
            first_seen: Stamp(1_000_000_000),
            last_seen: Stamp(2_000_000_005),
            sightings: 4,
            source: Source::Execution,
            run_id: "r1".into(),
            evidence: vec!["f/1".into()],
            version: 7,
            retired: false,
            merged_into: String::new(),
        }
    }

    #[test]
    fn a_graph_survives_the_way_through_its_message() {
        let scene = SceneSnapshot {
            map_id: "home".into(),
            version: 9,
            stamp: Stamp(3_000_000_000),
            objects: vec![object()],
            relations: vec![Relation {
                subject: "robot".into(),
                relation: RelationKind::Holds,
                object: "cup_1".into(),
                confidence: 0.9,
                stamp: Stamp(2_000_000_000),
                source: Source::Execution,
            }],
        };
        assert_eq!(snapshot(&snapshot_msg(&scene, "map")).unwrap(), scene);
    }

    #[test]
    fn numbers_that_are_none_are_refused() {
        let message = scene_object_msg(&object());
        let mut unknown = message.clone();
        unknown.kind = 99;
        assert!(scene_object(&unknown).is_err());
        let mut nan = message.clone();
        nan.pose.pose.position.x = f64::NAN;
        assert!(scene_object(&nan).is_err());
        let mut edge = relation_msg(&Relation {
            subject: "a".into(),
            relation: RelationKind::On,
            object: "b".into(),
            confidence: 1.0,
            stamp: Stamp(1),
            source: Source::Map,
        });
        edge.relation = "beside".into();
        assert!(relation(&edge).unwrap_err().to_string().contains("beside"));
    }

    #[test]
    fn detections_and_their_covariances_turn_with_the_sensor() {
        // The sensor stands at (1, 0, 2) and is turned by 90 degrees about z: its x is the map's y.
        let sensor = Isometry3::from_parts(
            Translation3::new(1.0, 0.0, 2.0),
            UnitQuaternion::from_euler_angles(0.0, 0.0, FRAC_PI_2),
        );
        let mut observation = ObjectObservation {
            class_name: "Cup".into(),
            confidence: 0.8,
            ..Default::default()
        };
        observation.pose.pose.position.x = 3.0;
        observation.pose.covariance[0] = 0.09;
        observation.pose.covariance[7] = 0.01;
        observation.pose.covariance[14] = 0.01;
        let message = ObservationArrayMsg {
            observations: vec![observation],
            ..Default::default()
        };
        let frame = detection_frame(&message, &sensor);
        assert!(frame.view.is_none(), "all zero: not known");
        let d = &frame.detections[0];
        assert_eq!(d.class_name, "cup");
        assert!(d.pose.position.distance(Vec3::new(1.0, 3.0, 2.0)) < 1e-12);
        // The large variance, along the sensor's x, lies along the map's y now.
        assert!((d.covariance[0] - 0.01).abs() < 1e-12);
        assert!((d.covariance[4] - 0.09).abs() < 1e-12);
        assert!(d.check().is_ok());
        let mut broken = message;
        broken.observations[0].pose.covariance[0] = f64::NAN;
        let frame = detection_frame(&broken, &sensor);
        assert!(frame.detections[0].check().is_err());
    }
}

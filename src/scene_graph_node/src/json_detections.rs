//! Detections as JSON text, for detectors that don't have the messages of this package. The schema is in
//! docs/scene.md.
//!
//! What comes out is the message that another detector would have sent: numbers are judged where its are.

use std::collections::BTreeMap;

use ros_env::diagnostic_msgs::msg::KeyValue;
use ros_env::embodied_harness::msg::{ObjectObservation, ObjectObservationArray};
use serde::Deserialize;

/// Longest text \[bytes\].
const MAX_TEXT: usize = 1024 * 1024;

/// Length of a row of the covariance in a message.
const ROW: usize = 6;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Time {
    sec: i32,
    nanosec: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Frame {
    #[serde(default)]
    stamp: Time,
    frame_id: String,
    #[serde(default)]
    source: String,
    #[serde(default)]
    view: View,
    #[serde(default)]
    reference: String,
    detections: Vec<Detection>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct View {
    horizontal_fov: f64,
    vertical_fov: f64,
    min_range: f64,
    max_range: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Detection {
    #[serde(default)]
    id: String,
    class: String,
    score: f64,
    position: [f64; 3],
    #[serde(default = "upright")]
    orientation: [f64; 4],
    /// Row by row.
    #[serde(default)]
    position_covariance: [f64; 9],
    #[serde(default)]
    size: [f64; 3],
    #[serde(default)]
    attributes: BTreeMap<String, String>,
    #[serde(default)]
    reference: String,
}

const fn upright() -> [f64; 4] {
    [0.0, 0.0, 0.0, 1.0]
}

/// Reads a frame of detections.
///
/// # Errors
/// What is wrong with the text, where, and what to do.
pub(crate) fn read(text: &str) -> Result<ObjectObservationArray, String> {
    if text.len() > MAX_TEXT {
        return Err(format!(
            "the text has {} bytes, the limit is {MAX_TEXT}; send fewer detections",
            text.len()
        ));
    }
    let frame: Frame = serde_json::from_str(text)
        .map_err(|error| format!("{error}; docs/scene.md has the schema"))?;
    let mut message = ObjectObservationArray {
        source: frame.source,
        horizontal_fov: frame.view.horizontal_fov,
        vertical_fov: frame.view.vertical_fov,
        min_range: frame.view.min_range,
        max_range: frame.view.max_range,
        reference: frame.reference,
        observations: frame.detections.into_iter().map(observation).collect(),
        ..Default::default()
    };
    message.header.frame_id = frame.frame_id;
    message.header.stamp.sec = frame.stamp.sec;
    message.header.stamp.nanosec = frame.stamp.nanosec;
    Ok(message)
}

fn observation(detection: Detection) -> ObjectObservation {
    let mut out = ObjectObservation {
        detection_id: detection.id,
        class_name: detection.class,
        confidence: detection.score,
        attributes: detection
            .attributes
            .into_iter()
            .map(|(key, value)| KeyValue { key, value })
            .collect(),
        reference: detection.reference,
        ..Default::default()
    };
    let at = &mut out.pose.pose.position;
    [at.x, at.y, at.z] = detection.position;
    let turn = &mut out.pose.pose.orientation;
    [turn.x, turn.y, turn.z, turn.w] = detection.orientation;
    [out.size.x, out.size.y, out.size.z] = detection.size;
    for (row, values) in detection.position_covariance.chunks(3).enumerate() {
        for (column, value) in values.iter().enumerate() {
            if let Some(cell) = out.pose.covariance.get_mut(row * ROW + column) {
                *cell = *value;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_arrives_in_its_place() {
        let message = read(
            r#"{"stamp": {"sec": 7, "nanosec": 8}, "frame_id": "camera", "source": "yolo", "reference": "frame_9",
                "view": {"horizontal_fov": 1.2, "vertical_fov": 0.9, "min_range": 0.2, "max_range": 4.0},
                "detections": [{"id": "3", "class": "cup", "score": 0.8, "position": [1, 2, 3],
                  "orientation": [0, 0, 1, 0], "position_covariance": [1, 2, 3, 4, 5, 6, 7, 8, 9],
                  "size": [0.1, 0.2, 0.3], "attributes": {"color": "red"}, "reference": "crop_3"}]}"#,
        )
        .unwrap();
        assert_eq!(
            (message.header.stamp.sec, message.header.stamp.nanosec),
            (7, 8)
        );
        assert_eq!(message.header.frame_id, "camera");
        assert_eq!((&*message.source, &*message.reference), ("yolo", "frame_9"));
        assert_eq!((message.horizontal_fov, message.vertical_fov), (1.2, 0.9));
        assert_eq!((message.min_range, message.max_range), (0.2, 4.0));
        let cup = &message.observations[0];
        assert_eq!((&*cup.detection_id, &*cup.class_name), ("3", "cup"));
        assert_eq!((cup.confidence, &*cup.reference), (0.8, "crop_3"));
        let (at, turn) = (&cup.pose.pose.position, &cup.pose.pose.orientation);
        assert_eq!((at.x, at.y, at.z), (1.0, 2.0, 3.0));
        assert_eq!((turn.x, turn.y, turn.z, turn.w), (0.0, 0.0, 1.0, 0.0));
        let c = &cup.pose.covariance;
        assert_eq!([c[0], c[1], c[2]], [1.0, 2.0, 3.0]);
        assert_eq!([c[6], c[7], c[8]], [4.0, 5.0, 6.0]);
        assert_eq!([c[12], c[13], c[14]], [7.0, 8.0, 9.0]);
        assert_eq!((cup.size.x, cup.size.y, cup.size.z), (0.1, 0.2, 0.3));
        assert_eq!(cup.attributes[0].key, "color");
        assert_eq!(cup.attributes[0].value, "red");
    }

    #[test]
    fn what_is_left_out_is_not_known() {
        let message = read(
            r#"{"frame_id": "camera", "detections": [{"class": "cup", "score": 1, "position": [0, 0, 1]}]}"#,
        )
        .unwrap();
        assert_eq!(message.header.stamp.sec, 0);
        assert_eq!(message.max_range, 0.0);
        let cup = &message.observations[0];
        assert_eq!(cup.pose.pose.orientation.w, 1.0);
        assert_eq!(cup.pose.covariance, [0.0; 36]);
        assert!(cup.attributes.is_empty());
    }

    #[test]
    fn a_text_that_is_none_is_refused_with_its_place() {
        let cup = r#"{"class": "cup", "score": 1, "position": [0, 0, 1]}"#;
        for (text, word) in [
            (String::new(), "EOF"),
            ("[]".into(), "line 1"),
            (r#"{"detections": []}"#.into(), "frame_id"),
            (r#"{"frame_id": "c"}"#.into(), "detections"),
            (
                format!(r#"{{"frame_id": "c", "boxes": [], "detections": [{cup}]}}"#),
                "boxes",
            ),
            (
                r#"{"frame_id": "c", "detections": [{"class": "cup", "score": 1, "position": [0]}]}"#.into(),
                "length 3",
            ),
            (
                r#"{"frame_id": "c", "detections": [{"class": "cup", "score": NaN, "position": [0, 0, 1]}]}"#.into(),
                "line 1",
            ),
            (" ".repeat(MAX_TEXT + 1), "1048577 bytes"),
            ("[".repeat(10_000), "line 1"),
        ] {
            let error = read(&text).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}

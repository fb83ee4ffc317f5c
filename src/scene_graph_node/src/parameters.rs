//! The node's parameters.

use std::path::PathBuf;
use std::time::Duration;

use eh_contract::semantic_map::SemanticMap;
use eh_ros_edge::params::{flag, integer, number, text};
use eh_ros_edge::state_directory;
use eh_scene::lexicon::Lexicon;
use eh_scene::SceneConfig;
use rclrs::Node;

use crate::vectors::Settings;
use crate::Error;

/// What the node is set to.
#[derive(Clone, Debug)]
pub struct Parameters {
    /// Thresholds of the scene.
    pub scene: SceneConfig,
    /// The annotated map; `None`: none was given.
    pub map: Option<SemanticMap>,
    /// Name of the map.
    pub map_id: String,
    /// Words for classes and attributes.
    pub lexicon: Lexicon,
    /// Frame of all poses.
    pub map_frame: String,
    /// Frame of the base.
    pub base_frame: String,
    /// Frame between the fingers; empty: none.
    pub tool_frame: String,
    /// Joint whose position is the gap between the fingers; empty: none.
    pub gripper_joint: String,
    /// Where the fingers' readings come from.
    pub joint_states_topic: String,
    /// Where detections come from.
    pub detections_topic: String,
    /// Where detections come from as JSON; empty: nowhere.
    pub detections_json_topic: String,
    /// Where images of the camera come from; empty: none are remembered.
    pub image_topic: String,
    /// Where its lens is told.
    pub camera_info_topic: String,
    /// Most bytes of images that are remembered.
    pub image_memory: usize,
    /// Least time between two messages on `scene_markers`.
    pub marker_period: Duration,
    /// Least time between two graphs on `scene_graph`.
    pub publish_period: Duration,
    /// Time between two writes.
    pub persist_period: Duration,
    /// How long a frame of detections waits for its transform.
    pub transform_timeout: Duration,
    /// What turns texts into vectors; `None`: nothing.
    pub(crate) vectors: Option<Settings>,
    /// Folder of the durable scene.
    pub state_directory: PathBuf,
}

/// Reads a file that a parameter names.
fn read(parameter: &'static str, path: &str) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|e| Error::File {
        parameter,
        path: path.into(),
        reason: e.to_string(),
    })
}

impl Parameters {
    /// Declares all parameters, reads the files that they name and checks everything.
    ///
    /// # Errors
    /// [`enum@Error`] that names the parameter or file, its value and the limits.
    pub fn declare(node: &Node) -> Result<Self, Error> {
        let seconds = |name: &str, default: f64, most: f64, what: &str| {
            number(node, name, default, 0.01..=most, "s", what).map(Duration::from_secs_f64)
        };
        let d = SceneConfig::default();
        let metres = |name: &str, default: f64, what: &str| {
            number(node, name, default, 0.0001..=10.0, "m", what)
        };
        let body = |name: &str, default: f64, what: &str| {
            number(
                node,
                &format!("embodiment.{name}"),
                default,
                0.0..=10.0,
                "m",
                what,
            )
        };
        let max_width = body(
            "gripper_max_width",
            0.10,
            "Largest gap between the fingers.",
        )?;
        let scene = SceneConfig {
            closed_width: body(
                "gripper_closed_width",
                d.closed_width,
                "Fingers nearer than this are closed on nothing.",
            )?,
            open_width: body(
                "gripper_open_width",
                0.9 * max_width,
                "Fingers further apart than this are open. Default: 0.9 of gripper_max_width.",
            )?,
            effort_reported: flag(
                node,
                "embodiment.gripper_effort_reported",
                d.effort_reported,
                "Whether joint states carry the fingers' force.",
            )?,
            contact_effort: number(
                node,
                "embodiment.gripper_contact_effort",
                d.contact_effort,
                0.0..=1000.0,
                "N",
                "Least force of a grip.",
            )?,
            default_std: metres(
                "default_std",
                d.default_std,
                "Standard deviation of a detection that brings no covariance.",
            )?,
            floor_std: metres(
                "floor_std",
                d.floor_std,
                "Error of poses that does not average out.",
            )?,
            heading_std: number(
                node,
                "heading_std",
                d.heading_std,
                0.0..=1.0,
                "rad",
                "Heading error of the localisation.",
            )?,
            gate_limit: metres(
                "gate_limit",
                d.gate_limit,
                "Largest distance at which a detection is taken for a known object.",
            )?,
            relocate_radius: metres(
                "relocate_radius",
                d.relocate_radius,
                "How far a missing object may have been moved and still be recognised.",
            )?,
            confirm_hits: u32::try_from(integer(
                node,
                "confirm_hits",
                i64::from(d.confirm_hits),
                1..=100,
                "",
                "Sightings that make a new object.",
            )?)
            .unwrap_or(d.confirm_hits),
            min_score: number(
                node,
                "min_score",
                d.min_score,
                0.0..=1.0,
                "",
                "Lowest score of a detection that counts.",
            )?,
            detection_probability: number(
                node,
                "detection_probability",
                d.detection_probability,
                0.01..=0.99,
                "",
                "Probability that the detector finds an object in free view.",
            )?,
            retire_below: number(
                node,
                "retire_below",
                d.retire_below,
                0.0..=0.5,
                "",
                "An object below this confidence is retired.",
            )?,
            ..d
        };
        let path = text(
            node,
            "semantic_map",
            "",
            "YAML file with rooms, doors, furniture and places. Empty: none, everything is learned from perception.",
        )?;
        let map = if path.is_empty() {
            None
        } else {
            let map = SemanticMap::from_yaml(&read("semantic_map", &path)?);
            Some(map.map_err(|source| Error::Map { path, source })?)
        };
        let mut map_id = text(
            node,
            "map_id",
            "",
            "Name of the map; the scenes of two maps are never mixed. Empty: the name in the semantic map, else \"default\".",
        )?;
        if map_id.is_empty() {
            map_id = map
                .as_ref()
                .map(|m| m.name.clone())
                .filter(|name| eh_contract::id::check_id("map_id", name).is_ok())
                .unwrap_or_else(|| "default".into());
        }
        let mut lexicon = Lexicon::builtin();
        let words = text(
            node,
            "lexicon",
            "",
            "YAML file with words for classes and attribute values, added to those that ship with it. Empty: none.",
        )?;
        if !words.is_empty() {
            lexicon.extend(&Lexicon::from_yaml(&read("lexicon", &words)?)?);
        }
        Ok(Parameters {
            scene,
            map,
            map_id,
            lexicon,
            map_frame: text(node, "map_frame", "map", "Frame of all poses (REP-105).")?,
            base_frame: text(
                node,
                "base_frame",
                "base_link",
                "Frame of the base (REP-105).",
            )?,
            tool_frame: text(
                node,
                "tool_frame",
                "gripper_tcp",
                "Frame between the fingers; what is held follows it. Empty: none.",
            )?,
            gripper_joint: text(
                node,
                "embodiment.gripper_joint",
                "gripper_joint",
                "Joint whose position is the gap between the fingers [m]. Empty: none, what the fingers feel is not known.",
            )?,
            joint_states_topic: text(
                node,
                "joint_states_topic",
                "joint_states",
                "Topic of sensor_msgs/JointState.",
            )?,
            detections_topic: text(
                node,
                "detections_topic",
                "detections",
                "Topic of ObjectObservationArray.",
            )?,
            detections_json_topic: text(
                node,
                "detections_json_topic",
                "",
                "Topic of std_msgs/String with detections as JSON, for detectors without this package's messages; docs/scene.md has the schema. Empty: none.",
            )?,
            image_topic: text(
                node,
                "image_topic",
                "",
                "Topic of sensor_msgs/Image of the camera that detects; its images are remembered for get_object_image. Empty: none.",
            )?,
            camera_info_topic: text(
                node,
                "camera_info_topic",
                "camera/camera_info",
                "Topic of sensor_msgs/CameraInfo of that camera.",
            )?,
            image_memory: usize::try_from(integer(
                node,
                "image_memory",
                64,
                1..=4096,
                "MiB",
                "Most memory for these images; the oldest go.",
            )?)
            .unwrap_or(64)
                * 1024
                * 1024,
            marker_period: seconds(
                "marker_period",
                1.0,
                60.0,
                "Least time between two messages on scene_markers, which is published while somebody listens.",
            )?,
            publish_period: seconds(
                "publish_period",
                0.5,
                60.0,
                "Least time between two graphs on scene_graph.",
            )?,
            persist_period: seconds(
                "persist_period",
                1.0,
                600.0,
                "Time between two writes to disk.",
            )?,
            transform_timeout: seconds(
                "transform_timeout",
                0.5,
                5.0,
                "How long a frame of detections waits for its transform.",
            )?,
            vectors: Settings::declare(node)?,
            state_directory: state_directory(node)?,
        })
    }
}

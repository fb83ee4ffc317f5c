//! The node's parameters.

use std::collections::BTreeMap;
use std::time::Duration;

use eh_contract::prior::scene_of_map;
use eh_contract::scene::SceneSnapshot;
use eh_contract::semantic_map::SemanticMap;
use eh_evaluator::judges::JudgeKind;
use eh_evaluator::{Embodiment, EvaluatorConfig};
use eh_ros_edge::params::{choice, flag, integer, number, numbers, text, texts};
use rclrs::Node;

use crate::model::ModelParameters;
use crate::recorder::RecorderParameters;
use crate::sources::SourceParameters;
use crate::views::{self, ViewTopic};
use crate::Error;

/// What the node is set to.
#[derive(Clone, Debug)]
pub struct Parameters {
    /// Thresholds of the judge.
    pub config: EvaluatorConfig,
    /// The body.
    pub embodiment: Embodiment,
    /// The annotated map as nodes; `None`: none was given.
    pub prior: Option<SceneSnapshot>,
    /// Frame of all poses.
    pub map_frame: String,
    /// Frame of the base.
    pub base_frame: String,
    /// Frame between the fingers.
    pub tool_frame: String,
    /// Joint whose position is the gap between the fingers.
    pub gripper_joint: String,
    /// Name of the action.
    pub action: String,
    /// Who judges.
    pub judge: JudgeKind,
    /// Action of an external judge.
    pub external_judge_action: String,
    /// How long its answer is waited for.
    pub external_judge_timeout: Duration,
    /// The model that judges.
    pub model: ModelParameters,
    /// Pictures that it is shown.
    pub views: Vec<ViewTopic>,
    /// Where observations come from.
    pub source: SourceParameters,
    /// Where recordings go.
    pub recorder: RecorderParameters,
    /// Topics.
    pub joint_states_topic: String,
    /// See `joint_states_topic`.
    pub odom_topic: String,
    /// See `joint_states_topic`.
    pub scan_topic: String,
    /// See `joint_states_topic`.
    pub detections_topic: String,
    /// How long a frame of detections waits for its transform.
    pub transform_timeout: Duration,
}

/// The arm's named configurations of the simulated robot [rad].
const CONFIGURATIONS: [(&str, [f64; 5]); 3] = [
    ("stow", [0.0, 2.0, -2.65, -0.9208, 0.0]),
    ("ready", [0.0, 1.7, -2.0, 0.3, 0.0]),
    ("carry", [0.0, 2.04, -1.69, -1.9208, 0.0]),
];

impl Parameters {
    /// Declares all parameters, reads the map and checks everything.
    ///
    /// # Errors
    /// [`enum@Error`] that names the parameter or file, its value and the limits.
    pub fn declare(node: &Node) -> Result<Self, Error> {
        let seconds = |name: &str, default: Duration, most: f64, what: &str| {
            number(node, name, default.as_secs_f64(), 0.05..=most, "s", what)
                .map(Duration::from_secs_f64)
        };
        let metres = |name: &str, default: f64, what: &str| {
            number(node, name, default, 0.0..=10.0, "m", what)
        };
        let count = |name: &str, default: usize, what: &str| {
            integer(
                node,
                name,
                i64::try_from(default).unwrap_or(3),
                1..=100,
                "",
                what,
            )
            .map(|n| usize::try_from(n).unwrap_or(default))
        };
        let judge = judge(node)?;
        let d = EvaluatorConfig::default();
        let config = EvaluatorConfig {
            reads_text: judge.reads_text(),
            version: text(
                node,
                "config_version",
                &d.version,
                "Version of this configuration, as it stands in verdicts.",
            )?,
            max_evidence_age: seconds(
                "max_evidence_age",
                d.max_evidence_age,
                3600.0,
                "Oldest evidence that counts at the verdict.",
            )?,
            evidence_timeout: seconds(
                "evidence_timeout",
                d.evidence_timeout,
                3600.0,
                "Longest wait for evidence that a predicate can't do without.",
            )?,
            extra_timeout: seconds(
                "extra_timeout",
                d.extra_timeout,
                3600.0,
                "Longest wait for evidence that only adds to it.",
            )?,
            frames: count("frames", d.frames, "Frames of detections to wait for.")?,
            absence_frames: count(
                "absence_frames",
                d.absence_frames,
                "Frames that found nothing before that counts as absence.",
            )?,
            near_distance: metres(
                "near_distance",
                d.near_distance,
                "Gap to a target where the predicate names none.",
            )?,
            place_tolerance: metres(
                "place_tolerance",
                d.place_tolerance,
                "Distance from a place where the predicate names none.",
            )?,
            same_place: metres(
                "same_place",
                d.same_place,
                "Sights nearer together than this are of one object.",
            )?,
            search_radius: metres(
                "search_radius",
                d.search_radius,
                "How far from where it is expected an object is still taken for the one meant.",
            )?,
            support_height: metres(
                "support_height",
                d.support_height,
                "How far an object's bottom may be from what it stands on.",
            )?,
            still_linear: number(
                node,
                "still_linear",
                d.still_linear,
                0.0..=1.0,
                "m/s",
                "Standstill of the base.",
            )?,
            still_angular: number(
                node,
                "still_angular",
                d.still_angular,
                0.0..=3.0,
                "rad/s",
                "Standstill of the base.",
            )?,
            ..d
        };
        config.check()?;
        let map_frame = text(node, "map_frame", "map", "Frame of all poses (REP-105).")?;
        let path = text(
            node,
            "semantic_map",
            "",
            "YAML file with rooms, doors, furniture and places. Empty: none; then only what commands tell of places is known.",
        )?;
        let prior = if path.is_empty() {
            None
        } else {
            let content = std::fs::read_to_string(&path).map_err(|e| Error::File {
                path: path.clone(),
                reason: e.to_string(),
            })?;
            let map =
                SemanticMap::from_yaml(&content).map_err(|source| Error::Map { path, source })?;
            Some(scene_of_map(&map, &map_frame))
        };
        Ok(Parameters {
            embodiment: embodiment(node)?,
            prior,
            base_frame: text(
                node,
                "base_frame",
                "base_link",
                "Frame of the base (REP-105).",
            )?,
            tool_frame: text(
                node,
                "embodiment.tool_link",
                "gripper_tcp",
                "Link between the fingers.",
            )?,
            gripper_joint: text(
                node,
                "embodiment.gripper_joint",
                "gripper_joint",
                "Joint whose position is the gap between the fingers [m].",
            )?,
            action: text(
                node,
                "action_name",
                "evaluate_run",
                "Name of the action; actions are not remapped in ROS 2 Jazzy.",
            )?,
            judge,
            model: ModelParameters::declare(
                node,
                judge.asks_model(),
                count(
                    "max_views",
                    3,
                    "Most views that a model is shown with one question.",
                )?,
                &config.version,
            )?,
            views: views::declare(node)?,
            source: SourceParameters::declare(node)?,
            recorder: RecorderParameters::declare(node)?,
            external_judge_action: text(
                node,
                "external_judge_action",
                "external_evaluate_run",
                "Name of the action of an external judge, of type EvaluateRun; asked when the parameter judge is external.",
            )?,
            external_judge_timeout: seconds(
                "external_judge_timeout",
                Duration::from_secs(10),
                60.0,
                "How long the answer of an external judge is waited for; without one the verdict is UNKNOWN.",
            )?,
            joint_states_topic: text(
                node,
                "joint_states_topic",
                "joint_states",
                "Topic of sensor_msgs/JointState.",
            )?,
            odom_topic: text(node, "odom_topic", "odom", "Topic of nav_msgs/Odometry.")?,
            scan_topic: text(
                node,
                "scan_topic",
                "scan",
                "Topic of sensor_msgs/LaserScan.",
            )?,
            detections_topic: text(
                node,
                "detections_topic",
                "detections",
                "Topic of ObjectObservationArray.",
            )?,
            transform_timeout: seconds(
                "transform_timeout",
                Duration::from_millis(500),
                5.0,
                "How long a frame of detections waits for its transform.",
            )?,
            map_frame,
            config,
        })
    }
}

/// Who judges.
fn judge(node: &Node) -> Result<JudgeKind, Error> {
    let name = choice(
        node,
        "judge",
        JudgeKind::Predicates.name(),
        &JudgeKind::ALL.map(JudgeKind::name),
        "Who judges: predicates; model, behind model.url; both, which have to agree; external, a judge of your own.",
    )?;
    Ok(JudgeKind::of(&name)?)
}

/// The body from `embodiment.*`.
fn embodiment(node: &Node) -> Result<Embodiment, Error> {
    let d = Embodiment::default();
    let metres = |name: &str, default: f64, what: &str| {
        number(
            node,
            &format!("embodiment.{name}"),
            default,
            0.0..=10.0,
            "m",
            what,
        )
    };
    let max_width = metres(
        "gripper_max_width",
        0.10,
        "Largest gap between the fingers.",
    )?;
    let joints = texts(
        node,
        "embodiment.arm_joints",
        &[
            "arm_1_joint",
            "arm_2_joint",
            "arm_3_joint",
            "arm_4_joint",
            "arm_5_joint",
        ],
        "Joints of the arm, in the order of the configurations.",
    )?;
    let mut arm_poses = BTreeMap::new();
    for (name, default) in CONFIGURATIONS {
        let key = format!("embodiment.{name}");
        let given = numbers(
            node,
            &key,
            default.as_slice(),
            "rad",
            &format!("Joint positions of the configuration {name}, in the order of arm_joints."),
        )?;
        if given.len() != joints.len() {
            return Err(Error::ListLength {
                name: key,
                len: given.len(),
                expected: joints.len(),
            });
        }
        let pose = joints.iter().cloned().zip(given.iter().copied()).collect();
        arm_poses.insert(name.to_string(), pose);
    }
    let embodiment = Embodiment {
        closed_width: metres(
            "gripper_closed_width",
            d.closed_width,
            "Fingers nearer than this are closed on nothing.",
        )?,
        open_width: metres(
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
        footprint_radius: metres(
            "base_radius",
            d.footprint_radius,
            "Radius of the circle around the base frame that holds the base.",
        )?,
        arm_poses,
    };
    embodiment.check()?;
    Ok(embodiment)
}

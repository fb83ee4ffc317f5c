//! Parameters of both adapters.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use eh_contract::geometry::Vec3;
use eh_executor::{Server, Settings};
use eh_ros_edge::params::{flag, number, numbers, text, texts, ParameterError};
use eh_ros_edge::state_directory::state_directory;
use eh_skills::catalog::Adapter;
use eh_skills::standstill::StandstillLimits;
use eh_skills::Embodiment;
use rclrs::Node;

use crate::error::Error;

/// Everything that can be set.
#[derive(Clone, Debug)]
pub struct Parameters {
    /// The robot that this executor moves.
    pub robot_id: String,
    /// Where the journal lives.
    pub state_directory: PathBuf,
    /// Whether a command needs a live control lease.
    pub require_lease: bool,
    /// Whether preconditions are checked at the scene graph before the start.
    pub check_preconditions: bool,
    /// Service that checks them.
    pub query_scene_service: String,
    /// Foreign action names.
    pub navigate_to_pose_action: String,
    /// MoveGroup.
    pub move_group_action: String,
    /// GripperCommand.
    pub gripper_action: String,
    /// FollowJointTrajectory of the head.
    pub head_action: String,
    /// How long a missing server is waited for.
    pub server_timeout: Duration,
    /// How long the acknowledgement of a goal is waited for.
    pub acknowledge_timeout: Duration,
    /// How long it is tried to learn about a goal whose acknowledgement or result is missing.
    pub lost_timeout: Duration,
    /// How long the scene graph may take.
    pub scene_timeout: Duration,
    /// Oldest transform from the map to the base.
    pub max_transform_age: Duration,
    /// What counts as standing still.
    pub standstill: StandstillLimits,
    /// Planning pipeline and planner for straight motions; empty: the default ones, not straight.
    pub straight_pipeline: String,
    /// See `straight_pipeline`.
    pub straight_planner: String,
    /// Time for one plan of the arm, seconds.
    pub planning_time: f64,
    /// Whether the arm's planning scene is used where its services are there.
    pub planning_scene: bool,
    /// Service that tells the planning scene.
    pub get_planning_scene_service: String,
    /// Service that changes it.
    pub apply_planning_scene_service: String,
    /// How long each of them may take.
    pub planning_scene_timeout: Duration,
    /// The body.
    pub body: Embodiment,
}

fn seconds(
    node: &Node,
    name: &str,
    default: f64,
    range: std::ops::RangeInclusive<f64>,
    description: &str,
) -> Result<Duration, ParameterError> {
    let value = number(node, name, default, range, "s", description)?;
    Ok(Duration::try_from_secs_f64(value).unwrap_or_default())
}

fn fixed<const N: usize>(
    node: &Node,
    name: &str,
    default: [f64; N],
    unit: &str,
    description: &str,
) -> Result<[f64; N], Error> {
    let given = numbers(node, name, &default, unit, description)?;
    let len = given.len();
    given.try_into().map_err(|_| Error::ListLength {
        name: name.into(),
        len,
        expected: N,
    })
}

fn vec3(node: &Node, name: &str, default: Vec3, description: &str) -> Result<Vec3, Error> {
    let [x, y, z] = fixed(
        node,
        name,
        [default.x, default.y, default.z],
        "m",
        description,
    )?;
    Ok(Vec3::new(x, y, z))
}

impl Parameters {
    /// Declares and reads all of them.
    ///
    /// # Errors
    /// [`enum@Error`] that names the parameter, its value and the limit.
    pub fn declare(node: &Node, adapter: Adapter) -> Result<Self, Error> {
        let limits = StandstillLimits::default();
        let standstill = StandstillLimits {
            base_linear: number(
                node,
                "standstill.base_linear",
                limits.base_linear,
                0.0..=1.0,
                "m/s",
                "Largest speed of a base that stands.",
            )?,
            base_angular: number(
                node,
                "standstill.base_angular",
                limits.base_angular,
                0.0..=1.0,
                "rad/s",
                "Largest turning speed of a base that stands.",
            )?,
            joint: number(
                node,
                "standstill.joint",
                limits.joint,
                0.0..=1.0,
                "rad/s",
                "Largest speed of an arm or head joint that stands.",
            )?,
            gripper: number(
                node,
                "standstill.gripper",
                limits.gripper,
                0.0..=1.0,
                "m/s",
                "Largest change of the gap between fingers that stand.",
            )?,
            window: seconds(
                node,
                "standstill.window",
                limits.window.as_secs_f64(),
                0.02..=10.0,
                "How long it has to stand.",
            )?,
            max_gap: seconds(
                node,
                "standstill.max_gap",
                limits.max_gap.as_secs_f64(),
                0.02..=10.0,
                "Longest time between two measurements.",
            )?,
        };
        let foreign = |name: &str, default: &str, what: &str| {
            text(
                node,
                name,
                default,
                &format!(
                    "Name of the foreign action: {what}. Actions are not remapped in ROS 2 Jazzy."
                ),
            )
        };
        let manipulation = adapter == Adapter::Manipulation;
        let only = |wanted: bool, name: &str, default: &str, what: &str| {
            if wanted {
                foreign(name, default, what)
            } else {
                Ok(default.to_string())
            }
        };
        let body = embodiment(node)?;
        body.check()?;
        Ok(Parameters {
            robot_id: text(node, "robot_id", "robot", "Name of the robot; a command for another one is refused.")?,
            state_directory: state_directory(node)?,
            require_lease: flag(node, "require_lease", true, "Whether a command needs a live control lease.")?,
            check_preconditions: flag(node, "check_preconditions", true, "Whether preconditions are checked at the scene graph before the start.")?,
            query_scene_service: text(node, "query_scene_service", "query_scene", "Service that checks preconditions.")?,
            navigate_to_pose_action: foreign("navigate_to_pose_action", "navigate_to_pose", if manipulation { "nav2_msgs/NavigateToPose, to which nothing is sent: while a goal runs there the base is not free" } else { "nav2_msgs/NavigateToPose" })?,
            move_group_action: only(manipulation, "move_group_action", "move_action", "moveit_msgs/MoveGroup")?,
            gripper_action: only(manipulation, "gripper_action", "gripper_controller/gripper_cmd", "control_msgs/GripperCommand")?,
            head_action: foreign("head_action", "head_controller/follow_joint_trajectory", "control_msgs/FollowJointTrajectory")?,
            server_timeout: seconds(node, "server_timeout", 1.0, 0.0..=60.0, "How long a missing action server is waited for.")?,
            acknowledge_timeout: seconds(node, "acknowledge_timeout", 2.0, 0.05..=60.0, "How long the acknowledgement of a goal is waited for.")?,
            lost_timeout: seconds(node, "lost_timeout", 3.0, 0.1..=60.0, "How long it is tried to learn about a goal whose acknowledgement or result is missing.")?,
            scene_timeout: seconds(node, "scene_timeout", 1.0, 0.05..=60.0, "How long the scene graph may take to check preconditions.")?,
            max_transform_age: seconds(node, "max_transform_age", 0.5, 0.02..=60.0, "Oldest transform from the map to the base that is used.")?,
            standstill,
            straight_pipeline: if manipulation { text(node, "straight_pipeline", "pilz_industrial_motion_planner", "MoveIt pipeline for straight motions. Empty: the default one, and motions are not straight.")? } else { String::new() },
            straight_planner: if manipulation { text(node, "straight_planner", "LIN", "Planner of that pipeline for straight motions.")? } else { String::new() },
            planning_scene: manipulation && flag(node, "planning_scene", true, "Whether the arm's planning scene is told what is grasped and set down, where its services are there.")?,
            get_planning_scene_service: if manipulation { text(node, "get_planning_scene_service", "get_planning_scene", "Service that tells the planning scene (moveit_msgs/GetPlanningScene).")? } else { String::new() },
            apply_planning_scene_service: if manipulation { text(node, "apply_planning_scene_service", "apply_planning_scene", "Service that changes the planning scene (moveit_msgs/ApplyPlanningScene).")? } else { String::new() },
            planning_scene_timeout: if manipulation { seconds(node, "planning_scene_timeout", 2.0, 0.05..=60.0, "How long each of these services may take.")? } else { Duration::ZERO },
            planning_time: number(node, "planning_time", 2.0, 0.05..=60.0, "s", "Time for one plan of the arm.")?,
            body,
        })
    }

    /// What the executor is set up with.
    pub(crate) fn settings(
        &self,
        name: &str,
        actions: BTreeMap<Server, String>,
        watched: BTreeMap<Server, String>,
    ) -> Settings {
        Settings {
            name: name.into(),
            robot_id: self.robot_id.clone(),
            require_lease: self.require_lease,
            check_preconditions: self.check_preconditions,
            actions,
            watched,
            query_scene_service: self.query_scene_service.clone(),
            scene_timeout: self.scene_timeout,
            planning_scene: self.planning_scene,
            planning_scene_timeout: self.planning_scene_timeout,
            server_timeout: self.server_timeout,
            acknowledge_timeout: self.acknowledge_timeout,
            lost_timeout: self.lost_timeout,
            body: self.body.clone(),
        }
    }
}

/// The body from `embodiment.*`; see params/embodiment.yaml.
fn embodiment(node: &Node) -> Result<Embodiment, Error> {
    let d = Embodiment::default();
    let name = |n: &str| format!("embodiment.{n}");
    let metres =
        |n: &str, default: f64, what: &str| number(node, &name(n), default, 0.0..=100.0, "m", what);
    let word = |n: &str, default: &str, what: &str| text(node, &name(n), default, what);
    let default_joints: Vec<&str> = d
        .configurations
        .get("stow")
        .map(|c| c.keys().map(String::as_str).collect())
        .unwrap_or_default();
    let joints = texts(
        node,
        &name("arm_joints"),
        &default_joints,
        "Joints of the arm, in the order of the configurations.",
    )?;
    let default_links: Vec<&str> = d.gripper_links.iter().map(String::as_str).collect();
    let gripper_links = texts(
        node,
        &name("gripper_links"),
        &default_links,
        "Links of the gripper, which touch what it grasps.",
    )?;
    let mut configurations = BTreeMap::new();
    for (which, configuration) in &d.configurations {
        let default: Vec<f64> = configuration.values().copied().collect();
        let key = name(which);
        let given = numbers(
            node,
            &key,
            &default,
            "rad",
            &format!("Joint positions of the configuration {which}, in the order of arm_joints."),
        )?;
        if given.len() != joints.len() {
            return Err(Error::ListLength {
                name: key,
                len: given.len(),
                expected: joints.len(),
            });
        }
        configurations.insert(which.clone(), joints.iter().cloned().zip(given).collect());
    }
    let [pan, tilt] = &d.head_joints;
    Ok(Embodiment {
        base_frame: text(
            node,
            "base_frame",
            &d.base_frame,
            "Frame of the base (REP-105).",
        )?,
        map_frame: text(
            node,
            "map_frame",
            &d.map_frame,
            "Frame of the map (REP-105).",
        )?,
        base_radius: metres(
            "base_radius",
            d.base_radius,
            "Radius of the circle around the base frame that holds the base.",
        )?,
        base_clearance: metres(
            "base_clearance",
            d.base_clearance,
            "Free space that is wanted around that circle.",
        )?,
        stand_off: metres(
            "stand_off",
            d.stand_off,
            "Wanted gap from the base frame to what is to be reached.",
        )?,
        max_stand_off: metres(
            "max_stand_off",
            d.max_stand_off,
            "Largest such gap at which the arm still reaches.",
        )?,
        person_stand_off: metres(
            "person_stand_off",
            d.person_stand_off,
            "Wanted gap from the base frame to a person.",
        )?,
        arm_group: word("arm_group", &d.arm_group, "Planning group of the arm.")?,
        tool_link: word(
            "tool_link",
            &d.tool_link,
            "Link between the fingers: x out of the gripper, y from finger to finger.",
        )?,
        gripper_links,
        shoulder: vec3(
            node,
            &name("shoulder"),
            d.shoulder,
            "The shoulder in the base frame.",
        )?,
        reach: metres(
            "reach",
            d.reach,
            "From the shoulder to the tool with the arm stretched.",
        )?,
        finger_length: metres(
            "finger_length",
            d.finger_length,
            "From the tool link back to the palm.",
        )?,
        gripper_max_width: metres(
            "gripper_max_width",
            d.gripper_max_width,
            "Largest gap between the fingers.",
        )?,
        grasp_effort: number(
            node,
            &name("grasp_effort"),
            d.grasp_effort,
            0.0..=1000.0,
            "N",
            "Effort with which the gripper closes.",
        )?,
        configurations,
        gripper_joint: word(
            "gripper_joint",
            &d.gripper_joint,
            "Joint whose position is the gap between the fingers.",
        )?,
        gripper_closed_width: metres(
            "gripper_closed_width",
            d.gripper_closed_width,
            "Fingers nearer than this are closed on nothing.",
        )?,
        gripper_open_width: metres(
            "gripper_open_width",
            d.gripper_open_width,
            "Fingers further apart than this are open.",
        )?,
        gripper_effort_reported: flag(
            node,
            &name("gripper_effort_reported"),
            d.gripper_effort_reported,
            "Whether joint states carry the fingers' force.",
        )?,
        gripper_contact_effort: number(
            node,
            &name("gripper_contact_effort"),
            d.gripper_contact_effort,
            0.0..=1000.0,
            "N",
            "Least force of a grip.",
        )?,
        head_joints: [
            word(
                "head_pan_joint",
                pan,
                "Joint that turns the head to the left.",
            )?,
            word("head_tilt_joint", tilt, "Joint that tilts the head down.")?,
        ],
        head_pan_limits: fixed(
            node,
            &name("head_pan_limits"),
            d.head_pan_limits,
            "rad",
            "Least and largest pan.",
        )?,
        head_tilt_limits: fixed(
            node,
            &name("head_tilt_limits"),
            d.head_tilt_limits,
            "rad",
            "Least and largest tilt.",
        )?,
        neck: vec3(
            node,
            &name("neck"),
            d.neck,
            "Where pan and tilt axes meet, in the base frame.",
        )?,
        camera: vec3(
            node,
            &name("camera"),
            d.camera,
            "The camera in the head's tilt link.",
        )?,
        head_turn_time: number(
            node,
            &name("head_turn_time"),
            d.head_turn_time,
            0.05..=60.0,
            "s",
            "Longest time of a turn of the head.",
        )?,
    })
}

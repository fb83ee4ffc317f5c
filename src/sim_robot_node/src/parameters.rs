//! The node's parameters.

use std::path::{Path, PathBuf};
use std::time::Duration;

use eh_ros_edge::params::{flag, integer, number, text};
use eh_sim::fleet::{self, Member};
use eh_sim::{generated_world, FaultSpec, Robot, WorldFile};
use rclrs::Node;

use crate::camera_topics::CameraSettings;
use crate::fault_request;
use crate::frame_names::FrameNames;
use crate::robots_parameter;
use crate::Error;

/// The world when none is given.
const BUILT_IN_WORLD: &str = include_str!("../../../worlds/apartment.yaml");
/// A world of this name is made up from the seed that follows.
const GENERATED: &str = "generated:";
/// Largest world file, bytes.
const LARGEST_WORLD: u64 = 4 * 1024 * 1024;

/// What the node is set to.
#[derive(Clone, Debug)]
pub struct Parameters {
    /// World file; none: the apartment that is built in.
    pub world: Option<PathBuf>,
    /// The robots by namespace; none: one in the node's own namespace.
    pub robots: Vec<Member>,
    /// Seed of all noise; none: the world's own.
    pub seed: Option<u64>,
    /// Faults that are there from the start.
    pub faults: Vec<FaultSpec>,
    /// Length of a step of the simulation.
    pub time_step: Duration,
    /// Simulated time that is made up for at most.
    pub max_lag: Duration,
    /// Simulated seconds per second.
    pub real_time_factor: f64,
    /// Whether the simulation is the clock.
    pub publish_clock: bool,
    /// Whether the ground truth can be asked for.
    pub expose_ground_truth: bool,
    /// Whether velocities are TwistStamped.
    pub stamped_cmd_vel: bool,
    /// Name of the NavigateToPose action.
    pub navigate_action: String,
    /// Name of the MoveGroup action.
    pub move_group_action: String,
    /// Name of the GripperCommand action.
    pub gripper_action: String,
    /// Name of the head's FollowJointTrajectory action.
    pub head_action: String,
    /// How long the results of ended goals are kept.
    pub result_timeout: Duration,
    /// Whether fingers that were stopped by something end a goal as succeeded.
    pub gripper_allow_stalling: bool,
    /// Names of the frames.
    pub frames: FrameNames,
    /// Where the navigation's velocities go to.
    pub cmd_vel_nav_topic: String,
    /// Where the base's velocities come from.
    pub cmd_vel_topic: String,
    /// Where the odometry goes to.
    pub odom_topic: String,
    /// Where scans go to.
    pub scan_topic: String,
    /// Where joint states go to.
    pub joint_states_topic: String,
    /// Where detections go to.
    pub detections_topic: String,
    /// Where the map goes to.
    pub map_topic: String,
    /// Images of the robot's camera.
    pub(crate) camera: CameraSettings,
    /// Images of the camera overhead.
    pub(crate) overhead_camera: CameraSettings,
    /// Rates in hertz.
    pub tf_rate: f64,
    /// Odometry.
    pub odom_rate: f64,
    /// Joint states.
    pub joint_state_rate: f64,
    /// Scans.
    pub scan_rate: f64,
    /// Detections.
    pub detection_rate: f64,
    /// Velocities of the navigation.
    pub nav_velocity_rate: f64,
    /// Feedback of the navigation.
    pub nav_feedback_rate: f64,
}

impl Parameters {
    /// Declares all parameters and checks them.
    ///
    /// # Errors
    /// [`Error`] that names the parameter, its value and the limits.
    pub fn declare(node: &Node) -> Result<Self, Error> {
        let name =
            |name: &str, default: &str, description: &str| text(node, name, default, description);
        let rate = |name: &str, default: f64, most: f64, description: &str| {
            number(node, name, default, 0.1..=most, "Hz", description)
        };
        let world = text(
            node,
            "world",
            "",
            "World file (YAML), or generated:SEED. Empty: the apartment that is built in",
        )?;
        let robots = text(
            node,
            "robots",
            "",
            "Several robots in one world: namespaces separated by commas, or a YAML list of \
             namespace and start. Empty: one robot in the node's own namespace",
        )?;
        let seed = integer(
            node,
            "seed",
            -1,
            -1..=i64::MAX,
            "1",
            "Seed of all noise; -1: the world file's own",
        )?;
        let faults = text(
            node,
            "faults",
            "",
            "Faults from the start: names separated by commas, or a YAML list as in a world file",
        )?;
        Ok(Self {
            world: (!world.is_empty()).then(|| PathBuf::from(&world)),
            robots: robots_parameter::of_parameter(&robots).map_err(Error::Robots)?,
            seed: u64::try_from(seed).ok(),
            faults: fault_request::of_parameter(&faults).map_err(Error::Faults)?,
            time_step: Duration::from_secs_f64(number(
                node,
                "time_step",
                0.02,
                0.001..=0.05,
                "s",
                "Length of a step of the simulation",
            )?),
            max_lag: Duration::from_secs_f64(number(
                node,
                "max_lag",
                0.25,
                0.05..=5.0,
                "s",
                "Simulated time that is made up for at most when the machine was too slow; \
                 what is more is left out",
            )?),
            real_time_factor: number(
                node,
                "real_time_factor",
                1.0,
                0.1..=50.0,
                "1",
                "Simulated seconds per second; other than 1 only with publish_clock and \
                 use_sim_time in all nodes",
            )?,
            publish_clock: flag(
                node,
                "publish_clock",
                false,
                "Publish /clock and stamp with it; all other nodes then need use_sim_time",
            )?,
            expose_ground_truth: flag(
                node,
                "expose_ground_truth",
                false,
                "Serve get_ground_truth; for tests only",
            )?,
            stamped_cmd_vel: flag(
                node,
                "stamped_cmd_vel",
                false,
                "Velocities are TwistStamped (Nav2 from Kilted on) instead of Twist",
            )?,
            navigate_action: name(
                "navigate_action",
                "navigate_to_pose",
                "Name of the NavigateToPose action",
            )?,
            move_group_action: name(
                "move_group_action",
                "move_action",
                "Name of the MoveGroup action",
            )?,
            gripper_action: name(
                "gripper_action",
                "gripper_controller/gripper_cmd",
                "Name of the GripperCommand action",
            )?,
            head_action: name(
                "head_action",
                "head_controller/follow_joint_trajectory",
                "Name of the head's FollowJointTrajectory action",
            )?,
            result_timeout: Duration::from_secs_f64(number(
                node,
                "result_timeout",
                900.0,
                0.0..=86_400.0,
                "s",
                "How long the results of ended goals are kept",
            )?),
            gripper_allow_stalling: flag(
                node,
                "gripper_allow_stalling",
                true,
                "Fingers that were stopped by something end a goal as succeeded (false: aborted)",
            )?,
            frames: FrameNames {
                map: name("map_frame", "map", "Fixed frame of the map")?,
                odom: name("odom_frame", "odom", "Frame of the odometry")?,
                base: name("base_frame", "base_link", "Frame of the base")?,
            },
            cmd_vel_nav_topic: name(
                "cmd_vel_nav_topic",
                "cmd_vel_nav",
                "Velocities that the navigation asks for",
            )?,
            cmd_vel_topic: name("cmd_vel_topic", "cmd_vel", "Velocities that move the base")?,
            odom_topic: name("odom_topic", "odom", "Odometry")?,
            scan_topic: name("scan_topic", "scan", "Scans of the laser")?,
            joint_states_topic: name("joint_states_topic", "joint_states", "States of the joints")?,
            detections_topic: name("detections_topic", "detections", "Detected objects")?,
            map_topic: name("map_topic", "map", "Occupancy grid")?,
            camera: camera(node, "camera", 5.0)?,
            overhead_camera: camera(node, "overhead_camera", 2.0)?,
            tf_rate: rate("tf_rate", 30.0, 1000.0, "Transforms")?,
            odom_rate: rate("odom_rate", 30.0, 1000.0, "Odometry")?,
            joint_state_rate: rate("joint_state_rate", 30.0, 1000.0, "Joint states")?,
            scan_rate: rate("scan_rate", 10.0, 100.0, "Scans")?,
            detection_rate: rate("detection_rate", 5.0, 60.0, "Detections, also empty ones")?,
            nav_velocity_rate: rate(
                "nav_velocity_rate",
                20.0,
                200.0,
                "Velocities of the navigation while it has a goal",
            )?,
            nav_feedback_rate: rate(
                "nav_feedback_rate",
                5.0,
                100.0,
                "Feedback of the navigation",
            )?,
        })
    }

    /// The robots in their world, each with the faults.
    ///
    /// # Errors
    /// [`Error`] that names the file and what is wrong with it.
    pub fn build_robots(&self) -> Result<Vec<Robot>, Error> {
        #[allow(clippy::float_cmp)] // the default, exactly
        if self.real_time_factor != 1.0 && !self.publish_clock {
            return Err(Error::Clock(self.real_time_factor));
        }
        let path = self
            .world
            .clone()
            .unwrap_or_else(|| PathBuf::from("apartment (built in)"));
        let unusable = |source| Error::World {
            path: path.clone(),
            source,
        };
        let file = WorldFile::from_yaml(&self.world_text()?).map_err(unusable)?;
        let mut robots = if self.robots.is_empty() {
            vec![Robot::new(file, self.seed).map_err(unusable)?]
        } else {
            fleet::build(&file, self.seed, &self.robots).map_err(unusable)?
        };
        for robot in &mut robots {
            for fault in &self.faults {
                robot
                    .inject(fault.clone())
                    .map_err(|error| Error::Faults(error.to_string()))?;
            }
        }
        Ok(robots)
    }

    fn world_text(&self) -> Result<String, Error> {
        let Some(world) = &self.world else {
            return Ok(BUILT_IN_WORLD.into());
        };
        let Some(seed) = world.to_str().and_then(|w| w.strip_prefix(GENERATED)) else {
            return read_world(world);
        };
        let seed = seed.parse().map_err(|_| Error::WorldFile {
            path: world.clone(),
            reason: format!("'{seed}' is no seed from 0 to 2^64 - 1"),
        })?;
        Ok(generated_world(seed))
    }
}

/// How one of the cameras is set.
fn camera(node: &Node, name: &str, rate: f64) -> Result<CameraSettings, Error> {
    let pixels = |which: &str, default: i64, description: &str| {
        integer(
            node,
            &format!("{name}_{which}"),
            default,
            16..=1920,
            "1",
            description,
        )
        // The range is one of positive numbers that fit.
        .map(|v| u32::try_from(v).unwrap_or(16))
    };
    Ok(CameraSettings {
        rate: number(
            node,
            &format!("{name}_rate"),
            rate,
            0.1..=60.0,
            "Hz",
            "Images per second, at most; drawn only while somebody listens",
        )?,
        width: pixels("width", 640, "Pixels in a row of its images")?,
        height: pixels("height", 480, "Rows of its images")?,
    })
}

fn read_world(file: &Path) -> Result<String, Error> {
    let unreadable = |reason: String| Error::WorldFile {
        path: file.into(),
        reason,
    };
    let size = std::fs::metadata(file)
        .map_err(|error| unreadable(error.to_string()))?
        .len();
    if size > LARGEST_WORLD {
        return Err(unreadable(format!(
            "it has {size} bytes; at most {LARGEST_WORLD}"
        )));
    }
    std::fs::read_to_string(file).map_err(|error| unreadable(error.to_string()))
}

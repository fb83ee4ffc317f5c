//! What the robot publishes by itself: transforms, odometry, joints, scans, detections, its map, and the
//! velocity that its navigation asks for.

use std::time::{Duration, Instant};

use eh_ros_edge::convert::{point_msg, pose_msg, rotation_msg, time_msg, transform_msg};
use eh_ros_edge::qos;
use eh_sim::camera::Detection;
use eh_sim::nalgebra::{Isometry3, Translation3, UnitQuaternion};
use eh_sim::occupancy_grid::{OccupancyGrid, RESOLUTION};
use eh_sim::world_file::Noise;
use eh_sim::{DetectionFrame, Robot, Scan, Transform, Velocity};
use rclrs::{log_warn, IntoPrimitiveOptions, Node, Publisher, RclrsError, ToLogParams};
use ros_env::diagnostic_msgs::msg::KeyValue;
use ros_env::embodied_harness::msg::{ObjectObservation, ObjectObservationArray};
use ros_env::geometry_msgs::msg::{TransformStamped, Twist, TwistStamped};
use ros_env::nav_msgs::msg::{OccupancyGrid as OccupancyGridMsg, Odometry};
use ros_env::rosgraph_msgs::msg::Clock;
use ros_env::sensor_msgs::msg::{JointState as JointStateMsg, LaserScan};
use ros_env::std_msgs::msg::Header;
use ros_env::tf2_msgs::msg::TFMessage;

use crate::camera_topics::OVERHEAD_FRAME;
use crate::frame_names::FrameNames;
use crate::pacer::Every;
use crate::parameters::Parameters;
use crate::simulation::Moment;

/// Name of the detector.
const DETECTOR: &str = "simulated_camera";
/// Least time of this machine between two words of the clock: each wakes every node, and a simulation that is
/// fast has nodes that are busy. Twenty times as fast as real time this is a word every 80 ms.
const CLOCK_PERIOD: Duration = Duration::from_millis(4);
/// The frame between the head and the camera's optical frame: x forward, z up.
const CAMERA_LINK: &str = "camera_link";
/// Standard deviations that the odometry claims: metres, radians, m/s and rad/s.
const ODOMETRY_SIGMA: [f64; 4] = [0.05, 0.05, 0.02, 0.02];

enum VelocityPublisher {
    Plain(Publisher<Twist>),
    Stamped(Publisher<TwistStamped>),
}

/// The publishers, each at its own rate.
pub(crate) struct SensorTopics {
    node: Node,
    frames: FrameNames,
    clock: Option<(Option<Instant>, Publisher<Clock>)>,
    tf: (Every, Publisher<TFMessage>),
    /// Published once; kept for those who come later.
    _tf_static: Publisher<TFMessage>,
    odom: (Every, Publisher<Odometry>),
    joints: (Every, Publisher<JointStateMsg>),
    scan: (Every, Duration, Publisher<LaserScan>),
    detections: (Every, Publisher<ObjectObservationArray>),
    nav_velocity: (Every, VelocityPublisher),
    /// Published once; kept for those who come later.
    _map: Publisher<OccupancyGridMsg>,
}

impl SensorTopics {
    /// Creates the publishers; what never changes is published at once.
    ///
    /// # Errors
    /// If a name is not valid.
    pub(crate) fn new(
        node: &Node,
        parameters: &Parameters,
        robot: &Robot,
        moment: Moment,
    ) -> Result<Self, RclrsError> {
        let frames = parameters.frames.clone();
        // Several robots have the same frames: each has its transforms in its own namespace.
        let [tf, tf_static] = if parameters.robots.is_empty() {
            ["/tf", "/tf_static"]
        } else {
            ["tf", "tf_static"]
        };
        let tf_static = node.create_publisher(tf_static.qos(qos::tf_static()))?;
        tf_static.publish(fixed_transforms(&frames, robot, moment))?;
        let map =
            node.create_publisher(parameters.map_topic.as_str().qos(qos::state_latched(1)))?;
        map.publish(map_message(&frames, robot, moment))?;
        let velocity = parameters
            .cmd_vel_nav_topic
            .as_str()
            .qos(qos::velocity_command());
        let velocity = if parameters.stamped_cmd_vel {
            VelocityPublisher::Stamped(node.create_publisher(velocity)?)
        } else {
            VelocityPublisher::Plain(node.create_publisher(velocity)?)
        };
        // Odometry and joint states are reliable, as controllers of real robots publish them.
        Ok(Self {
            node: node.clone(),
            clock: if parameters.publish_clock {
                let publisher = node.create_publisher("/clock".qos(qos::sensor_data()))?;
                Some((None, publisher))
            } else {
                None
            },
            tf: (
                Every::rate(parameters.tf_rate),
                node.create_publisher(tf.qos(qos::tf()))?,
            ),
            _tf_static: tf_static,
            odom: (
                Every::rate(parameters.odom_rate),
                node.create_publisher(parameters.odom_topic.as_str().qos(qos::control()))?,
            ),
            joints: (
                Every::rate(parameters.joint_state_rate),
                node.create_publisher(parameters.joint_states_topic.as_str().qos(qos::control()))?,
            ),
            scan: (
                Every::rate(parameters.scan_rate),
                Duration::from_secs_f64(1.0 / parameters.scan_rate),
                node.create_publisher(parameters.scan_topic.as_str().qos(qos::sensor_data()))?,
            ),
            detections: (
                Every::rate(parameters.detection_rate),
                node.create_publisher(
                    parameters.detections_topic.as_str().qos(qos::sensor_data()),
                )?,
            ),
            nav_velocity: (Every::rate(parameters.nav_velocity_rate), velocity),
            _map: map,
            frames,
        })
    }

    /// Publishes what is due. Everything of one step has the same stamp.
    pub(crate) fn publish(&mut self, robot: &mut Robot, moment: Moment) {
        let now = moment.now;
        if let Some((told, clock)) = &mut self.clock {
            if told.is_none_or(|at| at.elapsed() >= CLOCK_PERIOD) {
                *told = Some(Instant::now());
                let time = Clock {
                    clock: time_msg(moment.stamp_ns).unwrap_or_default(),
                };
                let published = clock.publish(time);
                self.warn_of(published);
            }
        }
        if self.tf.0.is_due(now) {
            let transforms = robot.transforms();
            let message = TFMessage {
                transforms: transforms
                    .iter()
                    .map(|t| transform_stamped(&self.frames, t, moment))
                    .collect(),
            };
            self.warn_of(self.tf.1.publish(message));
        }
        if self.odom.0.is_due(now) {
            let message = odometry_message(&self.frames, robot, moment);
            self.warn_of(self.odom.1.publish(message));
        }
        if self.joints.0.is_due(now) {
            self.warn_of(self.joints.1.publish(joints_message(robot, moment)));
        }
        if self.nav_velocity.0.is_due(now) {
            if let Some(velocity) = robot.nav_velocity() {
                self.publish_nav_velocity(velocity, moment);
            }
        }
        if self.scan.0.is_due(now) {
            if let Some(scan) = robot.scan() {
                let message = scan_message(&scan, self.scan.1, moment);
                self.warn_of(self.scan.2.publish(message));
            }
        }
        if self.detections.0.is_due(now) {
            if let Some(frame) = robot.detect() {
                let message = detections_message(&frame, &robot.world_file().noise, moment);
                self.warn_of(self.detections.1.publish(message));
            }
        }
    }

    /// Publishes a velocity that the navigation asks for.
    pub(crate) fn publish_nav_velocity(&self, velocity: Velocity, moment: Moment) {
        let mut twist = Twist::default();
        twist.linear.x = velocity.linear;
        twist.angular.z = velocity.angular;
        self.warn_of(match &self.nav_velocity.1 {
            VelocityPublisher::Plain(publisher) => publisher.publish(twist),
            VelocityPublisher::Stamped(publisher) => publisher.publish(TwistStamped {
                header: header(&self.frames.base, moment),
                twist,
            }),
        });
    }

    fn warn_of(&self, published: Result<(), RclrsError>) {
        if let Err(error) = published {
            log_warn!(
                self.node.logger().throttle(Duration::from_secs(5)),
                "not published: {error}"
            );
        }
    }
}

fn header(frame: &str, moment: Moment) -> Header {
    Header {
        // A time that a message can't hold is "unknown" there: zero.
        stamp: time_msg(moment.stamp_ns).unwrap_or_default(),
        frame_id: frame.into(),
    }
}

fn transform_stamped(frames: &FrameNames, link: &Transform, moment: Moment) -> TransformStamped {
    TransformStamped {
        header: header(frames.to_ros(link.parent), moment),
        child_frame_id: frames.to_ros(link.child).into(),
        transform: transform_msg(&link.pose),
    }
}

/// The fixed links; the one to the optical frame goes by way of the camera's body.
fn fixed_transforms(frames: &FrameNames, robot: &Robot, moment: Moment) -> TFMessage {
    let mut transforms = Vec::new();
    for link in robot.static_transforms() {
        if link.child != "camera_optical_frame" {
            transforms.push(transform_stamped(frames, &link, moment));
            continue;
        }
        let mount = Isometry3::from_parts(link.pose.translation, UnitQuaternion::identity());
        let turn = Isometry3::from_parts(Translation3::identity(), link.pose.rotation);
        for part in [
            Transform::new(link.parent, CAMERA_LINK, mount),
            Transform::new(CAMERA_LINK, link.child, turn),
        ] {
            transforms.push(transform_stamped(frames, &part, moment));
        }
    }
    // Its size says nothing about where it hangs.
    let (_, overhead) = robot.overhead_view(640, 480);
    let overhead = Transform::new("map", OVERHEAD_FRAME, overhead);
    transforms.push(transform_stamped(frames, &overhead, moment));
    TFMessage { transforms }
}

/// A 6 × 6 covariance with this diagonal.
fn diagonal(sigmas: [f64; 6]) -> [f64; 36] {
    let mut covariance = [0.0; 36];
    for (place, sigma) in covariance.iter_mut().step_by(7).zip(sigmas) {
        *place = sigma * sigma;
    }
    covariance
}

fn odometry_message(frames: &FrameNames, robot: &Robot, moment: Moment) -> Odometry {
    let (pose, velocity) = robot.odometry();
    let [along, turn, speed, rate] = ODOMETRY_SIGMA;
    let mut message = Odometry {
        header: header(&frames.odom, moment),
        child_frame_id: frames.base.clone(),
        ..Default::default()
    };
    message.pose.pose = pose_msg(&pose.to_isometry());
    // Small, not zero, for what a robot on a level floor can't do.
    message.pose.covariance = diagonal([along, along, 1e-3, 1e-3, 1e-3, turn]);
    message.twist.twist.linear.x = velocity.linear;
    message.twist.twist.angular.z = velocity.angular;
    message.twist.covariance = diagonal([speed, 1e-3, 1e-3, 1e-3, 1e-3, rate]);
    message
}

fn joints_message(robot: &Robot, moment: Moment) -> JointStateMsg {
    let mut message = JointStateMsg {
        header: header("", moment),
        ..Default::default()
    };
    for joint in robot.joint_states() {
        message.name.push(joint.name.into());
        message.position.push(joint.position);
        message.velocity.push(joint.velocity);
        message.effort.push(joint.effort);
    }
    message
}

fn scan_message(scan: &Scan, period: Duration, moment: Moment) -> LaserScan {
    let last = scan.ranges.len().saturating_sub(1) as f64;
    LaserScan {
        header: header("laser", moment),
        angle_min: scan.angle_min as f32,
        angle_max: (scan.angle_min + last * scan.angle_increment) as f32,
        angle_increment: scan.angle_increment as f32,
        // All beams are taken at one time.
        time_increment: 0.0,
        scan_time: period.as_secs_f32(),
        range_min: scan.range_min as f32,
        range_max: scan.range_max as f32,
        ranges: scan.ranges.clone(),
        intensities: Vec::new(),
    }
}

fn detections_message(
    frame: &DetectionFrame,
    noise: &Noise,
    moment: Moment,
) -> ObjectObservationArray {
    ObjectObservationArray {
        header: header("camera_optical_frame", moment),
        source: DETECTOR.into(),
        horizontal_fov: frame.frustum.horizontal_fov,
        vertical_fov: frame.frustum.vertical_fov,
        min_range: frame.frustum.near,
        max_range: frame.frustum.far,
        reference: String::new(),
        observations: frame
            .detections
            .iter()
            .map(|detection| observation(detection, noise))
            .collect(),
    }
}

fn observation(detection: &Detection, noise: &Noise) -> ObjectObservation {
    let distance = detection.position.coords.norm();
    let range = noise.detection_range + distance * noise.detection_range_per_metre;
    let across = (distance * noise.detection_angle).max(1e-4);
    let mut message = ObjectObservation {
        detection_id: detection.local_id.to_string(),
        class_name: detection.class.clone(),
        confidence: detection.confidence,
        attributes: detection
            .attributes
            .iter()
            .map(|(key, value)| KeyValue {
                key: key.clone(),
                value: value.clone(),
            })
            .collect(),
        ..Default::default()
    };
    message.pose.pose.position = point_msg(&detection.position);
    message.pose.pose.orientation = rotation_msg(&detection.orientation);
    // The optical frame's z is the distance; the heading turns about its y, mostly.
    let turn = noise.detection_yaw;
    message.pose.covariance = diagonal([across, across, range, 1e-3, turn, 1e-3]);
    let [length, width, height] = detection.size;
    message.size.x = length;
    message.size.y = width;
    message.size.z = height;
    message
}

/// The map that a robot knows beforehand: walls and furniture, doors as the world file has them.
fn map_message(frames: &FrameNames, robot: &Robot, moment: Moment) -> OccupancyGridMsg {
    let world = robot.world();
    let grid = OccupancyGrid::new(world);
    let [x0, y0, x1, y1] = world.bounds();
    // The grid's own cells; a world is at most 100 m wide.
    let cells = |length: f64| ((length / RESOLUTION).ceil() as usize).max(1);
    let (width, height) = (cells(x1 - x0), cells(y1 - y0));
    let mut message = OccupancyGridMsg {
        header: header(&frames.map, moment),
        data: Vec::with_capacity(width * height),
        ..Default::default()
    };
    message.info.map_load_time = message.header.stamp.clone();
    message.info.resolution = RESOLUTION as f32;
    message.info.width = width as u32;
    message.info.height = height as u32;
    message.info.origin.position.x = x0;
    message.info.origin.position.y = y0;
    for row in 0..height {
        for column in 0..width {
            let [x, y] = grid.center((column, row));
            message
                .data
                .push(if grid.cell_clearance((column, row)) < RESOLUTION / 2.0 {
                    100
                } else if robot.map().room_at(x, y).is_some() {
                    0
                } else {
                    -1
                });
        }
    }
    message
}

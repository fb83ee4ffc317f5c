//! What the robot's sensors publish, each at its own rate.

use std::sync::Arc;
use std::time::Duration;

use eh_contract::geometry::{Pose, Vec3};
use eh_contract::perception::{Detection, DetectionFrame, View};
use eh_contract::Stamp;
use eh_sim::nalgebra::{Isometry3, Matrix3};
use eh_sim::world_file::Noise;
use eh_sim::{Robot, Velocity};

use crate::clock::Every;
use crate::context::Context;
use crate::message::{Motion, News, Sight};

/// Name of the detector.
const DETECTOR: &str = "simulated_camera";

/// When what is due. Odometry and joints come at 25 Hz where `sim_robot_node` has 30, since 40 ms are two
/// steps; scans and detections at its rates.
#[derive(Debug)]
pub struct Sensors {
    motion: Every,
    scan: Every,
    sight: Every,
    velocity: Every,
}

impl Default for Sensors {
    fn default() -> Self {
        let every = |ms| Every::new(Duration::from_millis(ms));
        Sensors {
            motion: every(40),
            scan: every(100),
            sight: every(200),
            velocity: every(40),
        }
    }
}

impl Sensors {
    /// Publishes what is due.
    pub fn publish(&mut self, robot: &mut Robot, context: &mut Context<'_>) {
        let now = context.time();
        let stamp = context.stamp();
        if self.motion.is_due(now) {
            context.publish(News::Motion(Arc::new(motion(robot, stamp))));
        }
        if self.velocity.is_due(now) {
            let wanted: Option<Velocity> = robot.nav_velocity();
            if let Some(velocity) = wanted {
                context.publish(News::Wanted(velocity));
            }
        }
        if self.scan.is_due(now) {
            if let Some(scan) = robot.scan() {
                context.publish(News::Scan(Arc::new(scan)));
            }
        }
        if self.sight.is_due(now) {
            if let Some(frame) = robot.detect() {
                context.publish(News::Sight(Arc::new(sight(robot, &frame, stamp))));
            }
        }
    }
}

fn base_in_map(robot: &Robot) -> Isometry3<f64> {
    robot.estimated_pose().to_isometry()
}

fn tool_in_base(robot: &Robot) -> Isometry3<f64> {
    // It is one of the robot's frames, so it is known.
    robot
        .frame_in_base(eh_sim::arm_goal::TOOL_LINK)
        .unwrap_or_else(|_| Isometry3::identity())
}

fn motion(robot: &Robot, stamp: Stamp) -> Motion {
    let (_, velocity) = robot.odometry();
    let (base, tool) = (base_in_map(robot), tool_in_base(robot));
    Motion {
        stamp,
        linear: velocity.linear.abs(),
        angular: velocity.angular,
        joints: robot.joint_states(),
        base_in_map: Pose::from(base),
        tool_in_base: Pose::from(tool),
        tool_in_map: Pose::from(base * tool),
    }
}

fn sight(robot: &Robot, frame: &eh_sim::DetectionFrame, stamp: Stamp) -> Sight {
    let base = base_in_map(robot);
    let noise = &robot.world_file().noise;
    Sight {
        in_map: seen_from(frame, &(base * frame.camera_in_base), noise, stamp),
        in_base: seen_from(frame, &frame.camera_in_base, noise, stamp),
        tool_in_map: Pose::from(base * tool_in_base(robot)),
    }
}

/// A look in another frame, by the camera's pose in it.
fn seen_from(
    frame: &eh_sim::DetectionFrame,
    camera: &Isometry3<f64>,
    noise: &Noise,
    stamp: Stamp,
) -> DetectionFrame {
    let turn = camera.rotation.to_rotation_matrix();
    let detections = frame
        .detections
        .iter()
        .map(|d| {
            let distance = d.position.coords.norm();
            let range = noise.detection_range + distance * noise.detection_range_per_metre;
            let across = (distance * noise.detection_angle).max(1e-4);
            let own =
                Matrix3::from_diagonal(&[across * across, across * across, range * range].into());
            let m = turn.matrix() * own * turn.matrix().transpose();
            // Rounding must not make a symmetric matrix look like none.
            let m = (m + m.transpose()) * 0.5;
            let rows: Vec<f64> = m.iter().copied().collect();
            let in_camera = Isometry3::from_parts(d.position.coords.into(), d.orientation);
            Detection {
                id: d.local_id.to_string(),
                class_name: d.class.trim().to_lowercase(),
                confidence: d.confidence,
                attributes: d.attributes.clone(),
                pose: Pose::from(camera * in_camera),
                covariance: <[f64; 9]>::try_from(rows).unwrap_or([f64::NAN; 9]),
                size: Vec3::new(d.size[0], d.size[1], d.size[2]),
                reference: String::new(),
            }
        })
        .collect();
    DetectionFrame {
        stamp,
        source: DETECTOR.into(),
        view: Some(View {
            camera: Pose::from(*camera),
            horizontal_fov: frame.frustum.horizontal_fov,
            vertical_fov: frame.frustum.vertical_fov,
            min_range: frame.frustum.near,
            max_range: frame.frustum.far,
        }),
        reference: String::new(),
        detections,
    }
}

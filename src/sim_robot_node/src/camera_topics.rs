//! Images of the robot's camera and of one overhead: colour, depth and how they were projected.
//!
//! Drawn only while somebody listens, on a thread of its own: the simulation takes a snapshot of the world
//! and goes on. While an image is drawn no other one is begun.

use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use eh_ros_edge::convert::time_msg;
use eh_ros_edge::qos;
use eh_sim::nalgebra::Isometry3;
use eh_sim::picture::{Lens, Picture};
use eh_sim::scenery::Scenery;
use eh_sim::Robot;
use rclrs::{log_warn, IntoPrimitiveOptions, Node, Publisher, RclrsError, ToLogParams};
use ros_env::sensor_msgs::msg::{CameraInfo, Image};
use ros_env::std_msgs::msg::Header;

use crate::pacer::Every;
use crate::parameters::Parameters;
use crate::simulation::Moment;

/// Optical frame of the overhead camera.
pub(crate) const OVERHEAD_FRAME: &str = "overhead_camera_optical_frame";
/// Optical frame of the robot's camera.
const OWN_FRAME: &str = "camera_optical_frame";
/// Farther than this neither camera measures depth, metres.
const FARTHEST: [f64; 2] = [10.0, 200.0];

/// How one camera is set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CameraSettings {
    /// Images per second.
    pub(crate) rate: f64,
    /// Pixels in a row.
    pub(crate) width: u32,
    /// Rows.
    pub(crate) height: u32,
}

/// The publishers of one camera.
struct Outlets {
    image: Publisher<Image>,
    image_info: Publisher<CameraInfo>,
    depth: Publisher<Image>,
    depth_info: Publisher<CameraInfo>,
    frame: &'static str,
    /// Least and greatest depth that is measured, metres.
    range: [f64; 2],
}

/// One camera.
struct Feed {
    overhead: bool,
    settings: CameraSettings,
    every: Every,
    outlets: Arc<Outlets>,
}

/// An image to be drawn.
struct Shot {
    outlets: Arc<Outlets>,
    scenery: Scenery,
    lens: Lens,
    camera: Isometry3<f64>,
    stamp_ns: i64,
}

/// Both cameras.
pub(crate) struct CameraTopics {
    feeds: Vec<Feed>,
    shots: Option<SyncSender<Shot>>,
    thread: Option<JoinHandle<()>>,
}

impl Outlets {
    fn new(
        node: &Node,
        topic: &str,
        frame: &'static str,
        range: [f64; 2],
    ) -> Result<Self, RclrsError> {
        let topic = |name: &str| format!("{topic}/{name}");
        Ok(Self {
            image: node.create_publisher(topic("image_raw").as_str().qos(qos::sensor_data()))?,
            image_info: node
                .create_publisher(topic("camera_info").as_str().qos(qos::sensor_data()))?,
            depth: node
                .create_publisher(topic("depth/image_raw").as_str().qos(qos::sensor_data()))?,
            depth_info: node
                .create_publisher(topic("depth/camera_info").as_str().qos(qos::sensor_data()))?,
            frame,
            range,
        })
    }

    /// Whether anybody listens.
    fn are_wanted(&self) -> bool {
        let wanted = |count: Result<usize, RclrsError>| count.unwrap_or(0) > 0;
        wanted(self.image.get_subscription_count())
            || wanted(self.depth.get_subscription_count())
            || wanted(self.image_info.get_subscription_count())
            || wanted(self.depth_info.get_subscription_count())
    }

    fn publish(&self, picture: &Picture, stamp_ns: i64) -> Result<(), RclrsError> {
        let header = Header {
            stamp: time_msg(stamp_ns).unwrap_or_default(),
            frame_id: self.frame.into(),
        };
        let info = info_message(&picture.lens, &header);
        let (image, depth) = (
            color_message(picture, &header),
            depth_message(picture, &header, self.range),
        );
        self.image.publish(image)?;
        self.image_info.publish(&info)?;
        self.depth.publish(depth)?;
        self.depth_info.publish(&info)
    }
}

impl CameraTopics {
    /// Creates the publishers and the thread that draws, which ends with this.
    ///
    /// # Errors
    /// If a name is not valid, or the operating system refuses a thread.
    pub(crate) fn new(
        node: &Node,
        parameters: &Parameters,
        robot: &Robot,
    ) -> Result<Self, crate::Error> {
        let near = robot.frustum().near;
        let feed = |overhead: bool, settings: CameraSettings| -> Result<Feed, RclrsError> {
            let (topic, frame, far) = if overhead {
                ("overhead_camera", OVERHEAD_FRAME, FARTHEST[1])
            } else {
                ("camera", OWN_FRAME, FARTHEST[0])
            };
            Ok(Feed {
                overhead,
                settings,
                every: Every::rate(settings.rate),
                outlets: Arc::new(Outlets::new(node, topic, frame, [near, far])?),
            })
        };
        let (shots, to_draw) = sync_channel(1);
        let logger = node.clone();
        let thread = std::thread::Builder::new()
            .name("cameras".into())
            .spawn(move || draw(&logger, &to_draw))?;
        Ok(Self {
            feeds: vec![
                feed(false, parameters.camera)?,
                feed(true, parameters.overhead_camera)?,
            ],
            shots: Some(shots),
            thread: Some(thread),
        })
    }

    /// Has drawn what is due and wanted.
    pub(crate) fn publish(&mut self, robot: &Robot, moment: Moment) {
        for feed in &mut self.feeds {
            if !feed.every.is_due(moment.now) || !feed.outlets.are_wanted() {
                continue;
            }
            let CameraSettings { width, height, .. } = feed.settings;
            let (lens, camera) = if feed.overhead {
                robot.overhead_view(width, height)
            } else {
                robot.camera_view(width, height)
            };
            // While the last one is still being drawn this one is left out.
            let Some(shots) = &self.shots else {
                return;
            };
            let _ = shots.try_send(Shot {
                outlets: feed.outlets.clone(),
                scenery: robot.scenery(feed.overhead),
                lens,
                camera,
                stamp_ns: moment.stamp_ns,
            });
        }
    }
}

impl Drop for CameraTopics {
    /// Waits for the last image: publishers and node that a thread lets go of while the process ends are let go
    /// of after the middleware is.
    fn drop(&mut self) {
        self.shots = None;
        if let Some(thread) = self.thread.take() {
            // A panic in it was printed; there is nothing to save.
            let _ = thread.join();
        }
    }
}

fn draw(node: &Node, shots: &Receiver<Shot>) {
    for shot in shots {
        let picture = Picture::take(&shot.scenery, &shot.lens, &shot.camera);
        if let Err(error) = shot.outlets.publish(&picture, shot.stamp_ns) {
            log_warn!(
                node.logger().throttle(Duration::from_secs(5)),
                "no image is published: {error}"
            );
        }
    }
}

fn color_message(picture: &Picture, header: &Header) -> Image {
    let Lens { width, height, .. } = picture.lens;
    Image {
        header: header.clone(),
        height,
        width,
        encoding: "rgb8".into(),
        is_bigendian: 0,
        step: 3 * width,
        data: picture.rgb.clone(),
    }
}

/// REP-118: metres along the optical axis; minus infinity is too near, infinity is nothing in range.
fn depth_message(picture: &Picture, header: &Header, [near, far]: [f64; 2]) -> Image {
    let Lens { width, height, .. } = picture.lens;
    let measured = |depth: f32| {
        if f64::from(depth) < near {
            f32::NEG_INFINITY
        } else if f64::from(depth) > far {
            f32::INFINITY
        } else {
            depth
        }
    };
    Image {
        header: header.clone(),
        height,
        width,
        encoding: "32FC1".into(),
        is_bigendian: 0,
        step: 4 * width,
        data: picture
            .depth
            .iter()
            .flat_map(|d| measured(*d).to_le_bytes())
            .collect(),
    }
}

/// REP-104: an ideal pinhole camera.
fn info_message(lens: &Lens, header: &Header) -> CameraInfo {
    let ([fx, fy], [cx, cy]) = (lens.focal, lens.center);
    CameraInfo {
        header: header.clone(),
        height: lens.height,
        width: lens.width,
        distortion_model: "plumb_bob".into(),
        d: vec![0.0; 5],
        k: [fx, 0.0, cx, 0.0, fy, cy, 0.0, 0.0, 1.0],
        r: [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
        p: [fx, 0.0, cx, 0.0, 0.0, fy, cy, 0.0, 0.0, 0.0, 1.0, 0.0],
        ..CameraInfo::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_hold_as_many_bytes_as_they_say() {
        let lens = Lens::new(3, 2, [1.0, 0.8]);
        let picture = Picture {
            lens,
            rgb: (0..18).collect(),
            depth: vec![0.1, 0.5, 9.0, 11.0, f32::INFINITY, 2.0],
            labels: vec![0; 6],
        };
        let header = Header::default();
        let color = color_message(&picture, &header);
        assert_eq!(color.data.len(), (color.step * color.height) as usize);
        let depth = depth_message(&picture, &header, [0.2, 10.0]);
        assert_eq!(depth.data.len(), (depth.step * depth.height) as usize);
        let values: Vec<f32> = depth
            .data
            .chunks(4)
            .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
            .collect();
        assert_eq!(
            values,
            [
                f32::NEG_INFINITY,
                0.5,
                9.0,
                f32::INFINITY,
                f32::INFINITY,
                2.0
            ]
        );
        let info = info_message(&lens, &header);
        // A point half a metre to the right at 2 m is seen fx/4 right of the middle.
        let p = info.p;
        let u = (p[0] * 0.5 + p[2] * 2.0) / 2.0;
        assert!((u - (lens.center[0] + lens.focal[0] / 4.0)).abs() < 1e-9);
        assert_eq!(info.k[4], lens.focal[1]);
    }
}

//! The running node: subscriptions, services, timers, and what they share.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use eh_contract::geometry::Pose;
use eh_contract::Stamp;
use eh_ros_edge::convert::command::stamp_msg;
use eh_ros_edge::convert::{scene as convert_scene, time_ns};
use eh_ros_edge::{qos, streams, NodeClock, Pace, Streams, TfListener};
use eh_scene::{ChangeSet, GripReading, Scene};
use parking_lot::Mutex;
use rclrs::{
    log_error, log_info, log_warn, IntoPrimitiveOptions, Node, Publisher, RclrsError, ToLogParams,
};
use ros_env::embodied_harness::msg::{ObjectObservationArray, SceneGraph as SceneGraphMsg};
use ros_env::sensor_msgs::msg::{CameraInfo, Image, JointState};
use ros_env::std_msgs::msg::String as Text;
use ros_env::visualization_msgs::msg::MarkerArray;

use crate::camera::Camera;
use crate::json_detections;
use crate::maps::{hand_over, Keeper};
use crate::markers::markers;
use crate::scene_keeper::SceneKeeper;
use crate::services::serve;
use crate::vectors::VectorSearch;
use crate::waiting_frames::WaitingFrames;
use crate::{Error, Parameters};

/// How often transforms are looked up and waiting frames tried.
///
/// A query looks by itself; this is for those who listen, and frames of detections come a few times a second.
const CYCLE: Duration = Duration::from_millis(100);

/// How long the streams are left alone at a time: as long as what is seen waits for the next cycle.
const REST: Duration = Duration::from_millis(100);

/// Oldest transform of the robot that still tells where it is.
const ROBOT_AGE: Duration = Duration::from_secs(1);

/// Without a new version the graph goes out this often, for fresh stamps.
const REFRESH_PERIOD_NS: i64 = 1_000_000_000;

/// Time between two log lines of one kind.
pub(crate) const LOG_PERIOD: Duration = Duration::from_secs(5);

/// Most detections of a frame that wait for its transform: four times as many as the tracker looks at, so that the
/// best of them are hardly ever among the others.
const MAX_OBSERVATIONS: usize = 1024;

/// Keeps the ROS handles alive: dropping it ends the node's work.
pub(crate) struct SceneGraphNode {
    shared: Arc<Shared>,
    keeper: Keeper,
    _handles: Vec<Box<dyn Any>>,
}

/// What every callback shares. Streams and timers have a thread, services another; the lock is held for one
/// frame, or one answer.
pub(crate) struct Shared {
    pub(crate) node: Node,
    clock: NodeClock,
    pub(crate) parameters: Parameters,
    publisher: Publisher<SceneGraphMsg>,
    markers: Publisher<MarkerArray>,
    tf: TfListener,
    pace: Pace,
    /// What finds names that are like a text; `None`: words alone do.
    pub(crate) vectors: Option<Arc<VectorSearch>>,
    pub(crate) core: Mutex<Core>,
}

pub(crate) struct Core {
    pub(crate) scene: Scene,
    pub(crate) camera: Camera,
    waiting: WaitingFrames,
    /// Version, revision and steady time of what was published last.
    published: Option<(u64, u64, i64)>,
    /// Revision, listeners and steady time of the newest markers.
    drawn: Option<(u64, usize, i64)>,
    robot_stamp: i64,
    /// The newest reading of the gripper's joint that was not looked at.
    grip: Option<GripReading>,
    /// Batches that the keeper did not take.
    pub(crate) unwritten: Vec<ChangeSet>,
    /// The scene of another map is being read.
    pub(crate) switching: bool,
}

impl Core {
    /// The scene is another one: nothing that was told or waits belongs to it.
    pub(crate) fn begin_anew(&mut self) {
        self.waiting = WaitingFrames::default();
        self.camera.clear();
        self.published = None;
        self.drawn = None;
        self.robot_stamp = 0;
        self.grip = None;
    }
}

impl SceneGraphNode {
    pub(crate) fn start(node: &Node) -> Result<Self, Error> {
        let mut parameters = Parameters::declare(node)?;
        let clock = NodeClock::of(node);
        let (keeper, known) = SceneKeeper::start(&parameters.state_directory, &parameters.map_id)?;
        let now = Stamp(clock.ros_ns());
        let mut scene = Scene::new(
            &parameters.map_id,
            &parameters.map_frame,
            parameters.scene.clone(),
            parameters.lexicon.clone(),
        )?;
        let remembered = known.objects.len();
        // In simulation the clock may not have begun; then ages are judged when it has.
        let restored_at = if now.is_never() { known.stamp } else { now };
        scene.restore(known, restored_at)?;
        if let Some(map) = parameters.map.take() {
            scene.load_map(&map, restored_at);
        }
        log_info!(
            node.logger(),
            "map \"{}\": {} nodes remembered, {:?} now; state in {}",
            parameters.map_id,
            remembered,
            scene.counts(),
            parameters.state_directory.display()
        );
        let search = parameters.vectors.as_ref().map(VectorSearch::start);
        let vectors = search.transpose()?.map(Arc::new);
        let streams = streams(node)?;
        let shared = Arc::new(Shared {
            publisher: node.create_publisher("scene_graph".qos(qos::state_latched(1)))?,
            markers: node.create_publisher("scene_markers".qos(qos::state_latched(1)))?,
            tf: TfListener::new(node, &streams)?,
            // Simulated time may pass faster.
            pace: Pace::new(if clock.is_simulated() {
                Duration::ZERO
            } else {
                REST
            }),
            core: Mutex::new(Core {
                scene,
                camera: Camera::new(parameters.image_memory),
                waiting: WaitingFrames::default(),
                published: None,
                drawn: None,
                robot_stamp: 0,
                grip: None,
                unwritten: Vec::new(),
                switching: false,
            }),
            vectors,
            node: node.clone(),
            clock,
            parameters,
        });
        let keeper = Arc::new(Mutex::new(Some(keeper)));
        let mut handles: Vec<Box<dyn Any>> = Vec::new();
        handles.extend(subscribe(&shared, &streams)?);
        handles.extend(serve(&shared, &keeper)?);
        let every = shared.clone();
        handles.push(Box::new(
            streams.create_timer_repeating(CYCLE, move || every.cycle())?,
        ));
        let (every, keep) = (shared.clone(), keeper.clone());
        handles.push(Box::new(streams.create_timer_repeating(
            shared.parameters.persist_period,
            move || {
                if let Some(keeper) = keep.lock().as_ref() {
                    every.persist(keeper);
                }
            },
        )?));
        handles.push(Box::new(streams));
        shared.cycle();
        Ok(SceneGraphNode {
            shared,
            keeper,
            _handles: handles,
        })
    }

    /// Writes what has changed since the last batch.
    pub(crate) fn finish(&self) {
        let Some(keeper) = self.keeper.lock().take() else {
            return;
        };
        let mut core = self.shared.core.lock();
        for batch in std::mem::take(&mut core.unwritten) {
            let _ = keeper.keep(batch);
        }
        let last = core.scene.take_changes();
        keeper.finish(last);
    }
}

impl Shared {
    pub(crate) fn now(&self) -> Stamp {
        Stamp(self.clock.ros_ns())
    }

    /// Lets a frame of detections wait for its transform.
    fn take_frame(&self, mut message: ObjectObservationArray) {
        // Without a stamp the arrival is the best that is known.
        if message.header.stamp.sec == 0 && message.header.stamp.nanosec == 0 {
            message.header.stamp = stamp_msg(self.now());
        }
        let count = message.observations.len();
        if count > MAX_OBSERVATIONS {
            log_warn!(
                self.node.logger().throttle(LOG_PERIOD),
                "a frame of \"{}\" has {count} detections, the limit is {MAX_OBSERVATIONS}: the others are left out; raise the detector's threshold",
                message.source
            );
            message.observations.truncate(MAX_OBSERVATIONS);
            message.observations.shrink_to_fit();
            // What was left out may have been what is missing: without a view no absence is proved.
            message.horizontal_fov = 0.0;
            message.vertical_fov = 0.0;
            message.min_range = 0.0;
            message.max_range = 0.0;
        }
        let steady = self.clock.steady_ns();
        self.core.lock().waiting.push(message, steady);
    }

    /// Works off waiting frames, follows the robot, publishes what has changed.
    fn cycle(&self) {
        let now = self.now();
        if now.is_never() {
            return; // simulated time has not begun
        }
        let mut core = self.core.lock();
        let forgotten = core.scene.advance(now);
        if forgotten > 0 {
            log_warn!(
                self.node.logger(),
                "the clock was set back: the ages of {forgotten} nodes are not known any more"
            );
        }
        self.follow_robot(&mut core, now);
        self.feel_gripper(&mut core, now);
        self.work_off_frames(&mut core, now);
        self.work_off_images(&mut core);
        self.publish(&mut core);
        self.draw(&mut core);
    }

    /// Takes images of the camera into memory.
    pub(crate) fn work_off_images(&self, core: &mut Core) {
        let timeout = i64::try_from(self.parameters.transform_timeout.as_nanos()).unwrap_or(0);
        core.camera.work_off(
            &self.tf.buffer,
            &self.parameters.map_frame,
            self.clock.steady_ns(),
            timeout,
        );
    }

    /// Publishes markers while somebody looks: when something has changed, at most once a period, and for one who
    /// comes.
    fn draw(&self, core: &mut Core) {
        let listeners = self.markers.get_subscription_count().unwrap_or(0);
        if listeners == 0 {
            core.drawn = None;
            return;
        }
        let revision = core.scene.graph().revision();
        let steady = self.clock.steady_ns();
        let period = i64::try_from(self.parameters.marker_period.as_nanos()).unwrap_or(i64::MAX);
        let is_due = core.drawn.is_none_or(|(drawn, known, at)| {
            (drawn != revision || listeners > known) && steady.saturating_sub(at) >= period
        });
        if !is_due {
            return;
        }
        core.drawn = Some((revision, listeners, steady));
        if let Err(error) = self.markers.publish(markers(core.scene.graph())) {
            log_error!(
                self.node.logger().throttle(LOG_PERIOD),
                "the markers were not sent: {error}"
            );
        }
    }

    pub(crate) fn work_off_frames(&self, core: &mut Core, now: Stamp) {
        let timeout = i64::try_from(self.parameters.transform_timeout.as_nanos()).unwrap_or(0);
        let (frames, dropped) = core.waiting.take(
            &self.tf.buffer,
            &self.parameters.map_frame,
            self.clock.steady_ns(),
            timeout,
        );
        if let Some(error) = dropped {
            log_warn!(
                self.node.logger().throttle(LOG_PERIOD),
                "a frame of detections was dropped, its transform did not come: {error}"
            );
        }
        for placed in frames {
            let frame = convert_scene::detection_frame(&placed.message, &placed.sensor.transform);
            let tool = self.tool_at(frame.stamp);
            let observed = match tool {
                Some(tool) => core.scene.observe_with_tool(&frame, tool, now),
                None => core.scene.observe(&frame, now),
            };
            match observed {
                Ok(report) => self.log_observed(&report),
                Err(error) => log_warn!(
                    self.node.logger().throttle(LOG_PERIOD),
                    "a frame of detections was refused: {error}"
                ),
            }
        }
    }

    /// The tool in the map at a time; `None` when there is no tool or its transforms are missing.
    fn tool_at(&self, stamp: Stamp) -> Option<Pose> {
        let p = &self.parameters;
        if p.tool_frame.is_empty() {
            return None;
        }
        let found = self
            .tf
            .buffer
            .lookup(&p.map_frame, &p.tool_frame, stamp.0)
            .ok()?;
        Some(Pose::from(found.transform))
    }

    fn log_observed(&self, report: &eh_scene::Observed) {
        let logger = self.node.logger();
        for (what, names) in [
            ("new", &report.created),
            ("found elsewhere", &report.relocated),
            ("not held after all", &report.released),
            ("seen again", &report.revived),
            ("looked for and not found, retired", &report.retired),
        ] {
            if !names.is_empty() {
                log_info!(logger, "{what}: {}", names.join(", "));
            }
        }
        if let Some(reason) = report.refused.first() {
            log_warn!(
                logger.throttle(LOG_PERIOD),
                "{} detections were left out, the first because {reason}",
                report.left_out
            );
        }
    }

    pub(crate) fn follow_robot(&self, core: &mut Core, now: Stamp) {
        let p = &self.parameters;
        let buffer = &self.tf.buffer;
        let base = match buffer.lookup_latest(&p.map_frame, &p.base_frame, now.0, ROBOT_AGE) {
            Ok(base) => base,
            Err(error) => {
                log_warn!(
                    self.node.logger().throttle(LOG_PERIOD),
                    "where the robot is is not known: {error}"
                );
                return;
            }
        };
        let stamp = base.stamp_ns.unwrap_or(now.0);
        if stamp == core.robot_stamp {
            return;
        }
        core.robot_stamp = stamp;
        let tool = if p.tool_frame.is_empty() {
            None
        } else {
            buffer
                .lookup_latest(&p.map_frame, &p.tool_frame, now.0, ROBOT_AGE)
                .ok()
                .map(|found| Pose::from(found.transform))
        };
        if let Err(error) =
            core.scene
                .set_robot(Pose::from(base.transform), tool, Stamp(stamp), now)
        {
            log_warn!(
                self.node.logger().throttle(LOG_PERIOD),
                "the robot's pose was refused: {error}"
            );
        }
    }

    /// Looks at the newest reading of the fingers.
    pub(crate) fn feel_gripper(&self, core: &mut Core, now: Stamp) {
        let Some(reading) = core.grip.take() else {
            return;
        };
        let logger = self.node.logger();
        match core.scene.feel_gripper(&reading, now) {
            Ok(felt) => {
                if let Some(name) = felt.taken {
                    log_info!(logger, "felt between the fingers: {name}");
                }
                if !felt.let_go.is_empty() {
                    log_info!(
                        logger,
                        "not held any more, the fingers are {}: {}",
                        felt.gripper.unwrap_or("empty"),
                        felt.let_go.join(", ")
                    );
                }
            }
            Err(error) => log_warn!(
                logger.throttle(LOG_PERIOD),
                "what the gripper reports was refused: {error}"
            ),
        }
    }

    /// Publishes the graph: on a new version at most once a period, else now and then for fresh stamps.
    pub(crate) fn publish(&self, core: &mut Core) {
        let graph = core.scene.graph();
        let (version, revision) = (graph.version(), graph.revision());
        let steady = self.clock.steady_ns();
        let period = i64::try_from(self.parameters.publish_period.as_nanos()).unwrap_or(i64::MAX);
        let due = match core.published {
            None => true,
            Some((v, r, at)) => {
                let since = steady.saturating_sub(at);
                (version != v && since >= period)
                    || (revision != r && since >= REFRESH_PERIOD_NS.max(period))
            }
        };
        if !due {
            return;
        }
        core.published = Some((version, revision, steady));
        let message =
            convert_scene::snapshot_msg(&core.scene.snapshot(), &self.parameters.map_frame);
        if let Err(error) = self.publisher.publish(message) {
            log_error!(
                self.node.logger().throttle(LOG_PERIOD),
                "the scene graph was not sent: {error}"
            );
        }
    }

    fn persist(&self, keeper: &SceneKeeper) {
        if let Some(trouble) = keeper.take_trouble() {
            log_error!(
                self.node.logger().throttle(LOG_PERIOD),
                "the scene is not being written: {trouble}"
            );
        }
        hand_over(&mut self.core.lock(), keeper);
    }
}

/// The fingers in a message of joint states; `None`: they are not in it.
fn grip_reading(message: &JointState, gripper_joint: &str, arrival: Stamp) -> Option<GripReading> {
    let index = message.name.iter().position(|n| n == gripper_joint)?;
    let stamp = time_ns(&message.header.stamp);
    Some(GripReading {
        // Without a stamp the arrival is the best that is known.
        stamp: if stamp == 0 { arrival } else { Stamp(stamp) },
        width: *message.position.get(index)?,
        // Drivers that do not measure it send nothing or NaN.
        effort: message.effort.get(index).copied().filter(|e| !e.is_nan()),
    })
}

fn subscribe(shared: &Arc<Shared>, streams: &Streams) -> Result<Vec<Box<dyn Any>>, RclrsError> {
    let p = &shared.parameters;
    let mut handles: Vec<Box<dyn Any>> = Vec::new();
    if !p.gripper_joint.is_empty() {
        let take = shared.clone();
        let joints = streams.create_subscription::<JointState, _>(
            p.joint_states_topic.as_str().qos(qos::newest_sensor_data()),
            move |message: JointState| {
                let joint = &take.parameters.gripper_joint;
                if let Some(reading) = grip_reading(&message, joint, take.now()) {
                    take.core.lock().grip = Some(reading);
                }
                take.pace.rest();
            },
        )?;
        handles.push(Box::new(joints));
    }
    let take = shared.clone();
    let detections = streams.create_subscription::<ObjectObservationArray, _>(
        shared
            .parameters
            .detections_topic
            .as_str()
            .qos(qos::sensor_data()),
        move |message: ObjectObservationArray| take.take_frame(message),
    )?;
    handles.push(Box::new(detections));
    if !p.detections_json_topic.is_empty() {
        let take = shared.clone();
        let texts = streams.create_subscription::<Text, _>(
            p.detections_json_topic.as_str().qos(qos::sensor_data()),
            move |text: Text| match json_detections::read(&text.data) {
                Ok(message) => take.take_frame(message),
                Err(error) => log_warn!(
                    take.node.logger().throttle(LOG_PERIOD),
                    "detections as JSON were refused: {error}"
                ),
            },
        )?;
        handles.push(Box::new(texts));
    }
    if !shared.parameters.image_topic.is_empty() {
        handles.extend(listen_to_camera(shared, streams)?);
    }
    Ok(handles)
}

fn listen_to_camera(
    shared: &Arc<Shared>,
    streams: &Streams,
) -> Result<Vec<Box<dyn Any>>, RclrsError> {
    let p = &shared.parameters;
    let take = shared.clone();
    let images = streams.create_subscription::<Image, _>(
        p.image_topic.as_str().qos(qos::sensor_data()),
        move |image: Image| {
            let steady = take.clock.steady_ns();
            take.core.lock().camera.take_image(image, steady);
        },
    )?;
    let take = shared.clone();
    let infos = streams.create_subscription::<CameraInfo, _>(
        p.camera_info_topic.as_str().qos(qos::sensor_data()),
        move |info: CameraInfo| take.core.lock().camera.take_info(&info),
    )?;
    Ok(vec![Box::new(images), Box::new(infos)])
}

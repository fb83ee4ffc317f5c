//! What the adapter hears from the rest of the robot: lease, stop, motion, scene, other executors.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use eh_contract::geometry::Pose;
use eh_contract::perception::DetectionFrame;
use eh_contract::scene::{SceneObject, SceneSnapshot};
use eh_contract::state::ExecutorState;
use eh_contract::Stamp;
use eh_executor::LeaseSeen;
use eh_ros_edge::convert;
use eh_ros_edge::convert::command::budget;
use eh_ros_edge::convert::scene::{detection_frame, scene_object};
use eh_ros_edge::{qos, streams, NodeClock, Streams, TfListener};
use eh_skills::catalog::Adapter;
use eh_skills::fingers::GripperReading;
use eh_skills::standstill::StandstillMeter;
use parking_lot::Mutex;
use rclrs::{IntoPrimitiveOptions, Node, RclrsError, WorkerSubscription};
use ros_env::embodied_harness::msg::{
    ControlLease, ObjectObservationArray, ProtectionState, SceneGraph, SkillStatusArray,
};
use ros_env::nav_msgs::msg::Odometry;
use ros_env::sensor_msgs::msg::JointState;

use crate::loop_thread::budget_now;
use crate::parameters::Parameters;
use crate::Handles;

/// Executors whose newest status is kept for late joiners.
const EXECUTORS: u32 = 16;

/// Most nodes of a scene that are looked at.
const MAX_OBJECTS: usize = 10_000;

/// Camera frames that are kept: some seconds' worth.
const MAX_FRAMES: usize = 32;

/// Most detections of a frame that is kept; a flood is no sight.
const MAX_DETECTIONS: usize = 256;

struct Inner {
    lease: LeaseSeen,
    stop_latched: Option<String>,
    meter: StandstillMeter,
    /// When it came, on the budget clock.
    gripper: Option<(Duration, GripperReading)>,
    scene: Option<Arc<SceneSnapshot>>,
    /// By executor: resource and who holds it.
    others: BTreeMap<String, Vec<(String, String)>>,
    /// Newest camera frames, oldest first.
    frames: VecDeque<ObjectObservationArray>,
    /// Which of what streams was heard since it is wanted.
    heard: Heard,
}

/// What was heard of what is subscribed to only while a command is on its way.
#[derive(Default)]
struct Heard {
    odometry: bool,
    joints: bool,
    transforms: bool,
}

/// What comes many times a second.
struct Motion {
    _odometry: WorkerSubscription<Odometry, ()>,
    _joints: WorkerSubscription<JointState, ()>,
    /// Who only drives is not woken for camera frames.
    _frames: Option<WorkerSubscription<ObjectObservationArray, ()>>,
}

/// The newest of everything, shared with the callbacks.
pub(crate) struct Surroundings {
    clock: NodeClock,
    adapter: Adapter,
    pub(crate) streams: Streams,
    motion: Mutex<Option<Motion>>,
    inner: Mutex<Inner>,
    tf: TfListener,
    map_frame: String,
    base_frame: String,
    tool_link: String,
    gripper_joint: String,
    max_transform_age: Duration,
    /// A reading of the fingers that is older than this says nothing about now.
    max_reading_age: Duration,
}

impl Surroundings {
    /// Subscribes to what the adapter needs. The handles keep the subscriptions alive.
    pub(crate) fn new(
        node: &Node,
        adapter: Adapter,
        clock: &NodeClock,
        parameters: &Parameters,
    ) -> Result<(Arc<Self>, Handles), RclrsError> {
        let streams = streams(node)?;
        let this = Arc::new(Surroundings {
            clock: clock.clone(),
            adapter,
            motion: Mutex::new(None),
            inner: Mutex::new(Inner {
                lease: LeaseSeen::default(),
                stop_latched: None,
                meter: StandstillMeter::new(parameters.standstill, &parameters.body.gripper_joint),
                gripper: None,
                scene: None,
                others: BTreeMap::new(),
                frames: VecDeque::new(),
                heard: Heard::default(),
            }),
            tf: TfListener::fixed_only(node, &streams)?,
            streams: streams.clone(),
            map_frame: parameters.body.map_frame.clone(),
            base_frame: parameters.body.base_frame.clone(),
            tool_link: parameters.body.tool_link.clone(),
            gripper_joint: parameters.body.gripper_joint.clone(),
            max_transform_age: parameters.max_transform_age,
            max_reading_age: parameters.standstill.max_gap,
        });
        let own_name = node.fully_qualified_name();
        let mut handles = Handles::new();
        let s = this.clone();
        handles.push(Box::new(streams.create_subscription::<ControlLease, _>(
            "control_lease".qos(qos::state_latched(1)),
            move |m: ControlLease| s.heard_lease(&m),
        )?));
        let s = this.clone();
        handles.push(Box::new(
            streams.create_subscription::<ProtectionState, _>(
                "protection_state".qos(qos::state_latched(1)),
                move |m: ProtectionState| {
                    s.inner.lock().stop_latched = m.stop_latched.then_some(m.stop_id);
                },
            )?,
        ));
        let s = this.clone();
        handles.push(Box::new(streams.create_subscription::<SceneGraph, _>(
            "scene_graph".qos(qos::state_latched(1)),
            move |m: SceneGraph| s.inner.lock().scene = Some(Arc::new(snapshot(&m))),
        )?));
        let s = this.clone();
        handles.push(Box::new(
            streams.create_subscription::<SkillStatusArray, _>(
                "skill_status".qos(qos::state_latched(EXECUTORS)),
                move |m: SkillStatusArray| {
                    if m.executor != own_name {
                        s.other(&m);
                    }
                },
            )?,
        ));
        Ok((this, handles))
    }

    /// Begins to listen to what streams (odometry, transforms, joints, camera frames), or stops it: an
    /// executor without a command is not woken a hundred times a second.
    ///
    /// # Errors
    /// If ROS refuses a subscription.
    pub(crate) fn attend(self: &Arc<Self>, wanted: bool) -> Result<(), RclrsError> {
        let mut motion = self.motion.lock();
        if wanted == motion.is_some() {
            return Ok(());
        }
        self.inner.lock().heard = Heard::default();
        self.tf.listen(wanted)?;
        // What it makes is dropped with it, and nothing of it holds these.
        *motion = if wanted {
            Some(self.hear_motion()?)
        } else {
            None
        };
        Ok(())
    }

    /// Whether everything that streams has been heard since it is wanted.
    pub(crate) fn is_awake(&self) -> bool {
        let mut inner = self.inner.lock();
        if !inner.heard.transforms {
            inner.heard.transforms = match self.adapter {
                Adapter::Navigation => self.base_in_map().is_some(),
                Adapter::Manipulation => self.tool_in_base().is_some(),
            };
        }
        let heard = &inner.heard;
        heard.odometry && heard.transforms && (heard.joints || self.adapter == Adapter::Navigation)
    }

    fn hear_motion(self: &Arc<Self>) -> Result<Motion, RclrsError> {
        let s = Arc::downgrade(self);
        let odometry = self.streams.create_subscription::<Odometry, _>(
            "odom".qos(qos::sensor_data()),
            move |m: Odometry| with(&s, |s| s.odometry(&m)),
        )?;
        let s = Arc::downgrade(self);
        let joints = self.streams.create_subscription::<JointState, _>(
            "joint_states".qos(qos::sensor_data()),
            move |m: JointState| with(&s, |s| s.joints(&m)),
        )?;
        let frames = if self.adapter == Adapter::Manipulation {
            let s = Arc::downgrade(self);
            let frames = self
                .streams
                .create_subscription::<ObjectObservationArray, _>(
                    "detections".qos(qos::sensor_data()),
                    move |m: ObjectObservationArray| with(&s, |s| s.frame(m)),
                )?;
            Some(frames)
        } else {
            None
        };
        Ok(Motion {
            _odometry: odometry,
            _joints: joints,
            _frames: frames,
        })
    }

    fn odometry(&self, message: &Odometry) {
        let (v, w) = (&message.twist.twist.linear, &message.twist.twist.angular);
        let now = self.now();
        let mut inner = self.inner.lock();
        inner.heard.odometry = true;
        inner.meter.odometry(now, v.x.hypot(v.y), w.z);
    }

    fn now(&self) -> Duration {
        budget_now(&self.clock)
    }

    fn heard_lease(&self, message: &ControlLease) {
        let until = self.now().saturating_add(budget(&message.remaining));
        let mut inner = self.inner.lock();
        // An older token in a late message takes nothing back.
        if message.token >= inner.lease.token {
            inner.lease = LeaseSeen {
                token: message.token,
                controller_id: message.controller_id.clone(),
                alive_until: if message.controller_id.is_empty() {
                    Duration::ZERO
                } else {
                    until
                },
            };
        }
    }

    fn joints(&self, message: &JointState) {
        let now = self.now();
        let mut inner = self.inner.lock();
        inner.heard.joints = true;
        for (i, name) in message.name.iter().enumerate() {
            if let Some(position) = message.position.get(i) {
                let velocity = message.velocity.get(i).copied();
                inner.meter.joint(now, name, *position, velocity);
                if *name == self.gripper_joint {
                    let reading = GripperReading {
                        width: *position,
                        effort: message.effort.get(i).copied(),
                    };
                    inner.gripper = Some((now, reading));
                }
            }
        }
    }

    fn other(&self, message: &SkillStatusArray) {
        let mut held = Vec::new();
        for status in &message.statuses {
            let holds =
                ExecutorState::from_wire(status.state).is_some_and(ExecutorState::holds_resources);
            if holds {
                for resource in &status.resources {
                    held.push((
                        resource.clone(),
                        format!("{} of {}", status.command_id, message.executor),
                    ));
                }
            }
        }
        self.inner
            .lock()
            .others
            .insert(message.executor.clone(), held);
    }

    /// The newest word about the lease.
    pub(crate) fn lease(&self) -> LeaseSeen {
        self.inner.lock().lease.clone()
    }

    /// The stop that is latched.
    pub(crate) fn stop_latched(&self) -> Option<String> {
        self.inner.lock().stop_latched.clone()
    }

    /// Resources held by commands of other executors.
    pub(crate) fn held_by_others(&self) -> BTreeMap<String, String> {
        let inner = self.inner.lock();
        inner.others.values().flatten().cloned().collect()
    }

    /// base_link in the map.
    pub(crate) fn base_in_map(&self) -> Option<Pose> {
        self.tf
            .buffer
            .lookup_latest(
                &self.map_frame,
                &self.base_frame,
                self.clock.ros_ns(),
                self.max_transform_age,
            )
            .ok()
            .map(|found| found.transform.into())
    }

    /// The tool link in base_link.
    pub(crate) fn tool_in_base(&self) -> Option<Pose> {
        self.tf
            .buffer
            .lookup_latest(
                &self.base_frame,
                &self.tool_link,
                self.clock.ros_ns(),
                self.max_transform_age,
            )
            .ok()
            .map(|found| found.transform.into())
    }

    /// The fingers as they are now.
    pub(crate) fn gripper(&self) -> Option<GripperReading> {
        let now = self.now();
        let inner = self.inner.lock();
        inner
            .gripper
            .filter(|(at, _)| now.saturating_sub(*at) <= self.max_reading_age)
            .map(|(_, reading)| reading)
    }

    fn frame(&self, message: ObjectObservationArray) {
        if message.observations.len() > MAX_DETECTIONS {
            return;
        }
        let mut inner = self.inner.lock();
        if inner.frames.len() >= MAX_FRAMES {
            inner.frames.pop_front();
        }
        inner.frames.push_back(message);
    }

    /// Camera frames stamped after `since`, in base_link at their own time. One whose transforms have not
    /// arrived yet is left out until they have.
    pub(crate) fn frames_since(&self, since: Stamp) -> Vec<DetectionFrame> {
        let inner = self.inner.lock();
        let fresh = inner
            .frames
            .iter()
            .map(|m| (convert::time_ns(&m.header.stamp), m))
            .filter(|(stamp, _)| *stamp > since.0);
        fresh
            .filter_map(|(stamp, m)| {
                let camera = self
                    .tf
                    .buffer
                    .lookup(&self.base_frame, &m.header.frame_id, stamp)
                    .ok()?;
                Some(detection_frame(m, &camera.transform))
            })
            .collect()
    }

    /// The newest scene graph.
    pub(crate) fn scene(&self) -> Option<Arc<SceneSnapshot>> {
        self.inner.lock().scene.clone()
    }

    /// See [`StandstillMeter::standing`].
    pub(crate) fn standing(
        &self,
        since: Duration,
        base: bool,
        joints: &[String],
    ) -> Result<(), String> {
        let now = self.now();
        self.inner.lock().meter.standing(now, since, base, joints)
    }
}

fn with(this: &Weak<Surroundings>, heard: impl FnOnce(&Surroundings)) {
    if let Some(this) = this.upgrade() {
        heard(&this);
    }
}

/// What programs read of a scene graph. Nodes that can't be read are left out: one bad entry must not
/// blind the rest.
fn snapshot(message: &SceneGraph) -> SceneSnapshot {
    let usable = |o: &SceneObject| {
        o.size.check("size").is_ok() && o.outline.iter().all(|p| p.check("outline").is_ok())
    };
    SceneSnapshot {
        map_id: message.map_id.clone(),
        version: message.version,
        objects: message
            .objects
            .iter()
            .take(MAX_OBJECTS)
            .filter_map(|o| scene_object(o).ok())
            .filter(usable)
            .collect(),
        ..SceneSnapshot::default()
    }
}

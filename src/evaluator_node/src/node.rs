//! The running node: subscriptions, the action, and what they share.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use eh_contract::geometry::Pose;
use eh_contract::Stamp;
use eh_evaluator::evidence::{PoseSample, Taken};
use eh_evaluator::judges::{Judge, JudgeKind};
use eh_evaluator::observation::{
    take_over, Observation, ObservationProvider, ProviderKind, TakenOver,
};
use eh_evaluator::run_book::Noted;
use eh_evaluator::{EvaluatorError, EvidenceBuffer, RunBook};
use eh_model_client::ModelClient;
use eh_ros_edge::convert::scene::detection_frame;
use eh_ros_edge::convert::skill::run_event;
use eh_ros_edge::{
    qos, serve_action, streams, GoalClient, GoalDecision, NodeClock, Pace, Streams, TfListener,
};
use parking_lot::Mutex;
use rclrs::{log_info, log_warn, IntoPrimitiveOptions, Node, RclrsError, ToLogParams};
use ros_env::embodied_harness::action::EvaluateRun;
use ros_env::embodied_harness::msg::{ObjectObservationArray, RunEvent, SkillCatalog};
use ros_env::nav_msgs::msg::Odometry;
use ros_env::sensor_msgs::msg::{JointState, LaserScan};

use crate::catalog::Catalog;
use crate::evaluation::evaluate;
use crate::recorder::Recorder;
use crate::samples;
use crate::sources;
use crate::views::{self, Views};
use crate::{Error, Parameters};

/// How often transforms are looked up and waiting frames tried. An event of a run and an evaluation look by
/// themselves.
const CYCLE: Duration = Duration::from_millis(200);

/// Time between two poses that are kept; those between two looks come from the history of transforms.
const SAMPLE: Duration = Duration::from_millis(40);

/// Oldest transform that is sampled; its stamp is what counts as evidence.
const TRANSFORM_AGE: Duration = Duration::from_secs(1);

/// Longest gap between two cycles that is filled from the history of transforms, which holds 10 s.
const BACKFILL: Duration = Duration::from_secs(8);

/// Most poses that fill a gap.
const MAX_BACKFILL: usize = 200;

/// Depth of run events and catalogs, as their publishers have it.
const EVENTS_DEPTH: u32 = 64;

/// Most evaluations at a time.
const MAX_EVALUATIONS: usize = 32;

/// Most frames of detections that wait for their transform.
const MAX_WAITING: usize = 64;

/// How long the streams are left alone at a time while no run is watched.
const REST: Duration = Duration::from_millis(100);

/// How long everything is looked at when it comes after a word about a run.
const WATCH: Duration = Duration::from_secs(60);

/// Time between two log lines of one kind.
const LOG_PERIOD: Duration = Duration::from_secs(5);

/// Keeps the ROS handles alive: dropping it ends the node's work.
pub(crate) struct EvaluatorNode {
    _handles: Vec<Box<dyn Any>>,
}

/// What every callback shares. Streams and the timer have a thread, evaluations another; the lock is held for
/// one of their steps.
pub(crate) struct Shared {
    pub(crate) node: Node,
    pub(crate) clock: NodeClock,
    pub(crate) parameters: Parameters,
    pub(crate) core: Mutex<Core>,
    pub(crate) judge: Mutex<Box<dyn Judge>>,
    /// Who is asked when the judge is external.
    pub(crate) external: Option<GoalClient<EvaluateRun>>,
    /// Who is asked when a model judges.
    pub(crate) model: Option<ModelClient>,
    /// What a model is shown.
    pub(crate) views: Views,
    /// Keeps what was observed of the runs that are judged.
    pub(crate) recorder: Option<Recorder>,
    tf: TfListener,
    pace: Pace,
}

pub(crate) struct Core {
    pub(crate) buffer: EvidenceBuffer,
    pub(crate) provider: Box<dyn ObservationProvider>,
    pub(crate) book: RunBook,
    pub(crate) catalog: Catalog,
    waiting: VecDeque<(ObjectObservationArray, i64)>,
    evaluations: usize,
}

impl EvaluatorNode {
    pub(crate) fn start(node: &Node) -> Result<Self, Error> {
        let parameters = Parameters::declare(node)?;
        if parameters.prior.is_none() {
            log_warn!(
                node.logger(),
                "no semantic_map is given: rooms and furniture are known from commands only"
            );
        }
        let streams = streams(node)?;
        let external = match parameters.judge {
            JudgeKind::External => Some(GoalClient::new(node, &parameters.external_judge_action)?),
            JudgeKind::Predicates | JudgeKind::Model | JudgeKind::Both => None,
        };
        let model = if parameters.judge.asks_model() {
            Some(parameters.model.client()?)
        } else {
            None
        };
        let clock = NodeClock::of(node);
        let shared = Arc::new(Shared {
            // Simulated time may pass faster.
            pace: Pace::new(if clock.is_simulated() {
                Duration::ZERO
            } else {
                REST
            }),
            judge: Mutex::new(parameters.judge.judge(parameters.model.judges.clone())),
            external,
            model,
            views: Views::default(),
            recorder: Recorder::start(node, &parameters.recorder)?,
            clock,
            tf: TfListener::new(node, &streams)?,
            core: Mutex::new(Core {
                buffer: EvidenceBuffer::new(parameters.config.clone()),
                provider: parameters.source.provider()?,
                book: RunBook::default(),
                catalog: Catalog::default(),
                waiting: VecDeque::new(),
                evaluations: 0,
            }),
            node: node.clone(),
            parameters,
        });
        let mut handles: Vec<Box<dyn Any>> = Vec::new();
        handles.extend(subscribe_runs(&shared, &streams)?);
        handles.extend(match shared.parameters.source.kind {
            ProviderKind::Live => subscribe_sensors(&shared, &streams)?,
            ProviderKind::External => sources::subscribe(&shared, &streams)?,
            ProviderKind::Recorded => Vec::new(),
        });
        if shared.parameters.judge.asks_model() {
            handles.extend(views::subscribe(&shared, &streams)?);
        }
        let every = shared.clone();
        handles.push(Box::new(
            streams.create_timer_repeating(CYCLE, move || every.cycle())?,
        ));
        handles.push(Box::new(streams));
        let (decide, perform) = (shared.clone(), shared.clone());
        let action = shared.parameters.action.clone();
        handles.push(Box::new(serve_action::<EvaluateRun, _, _, _>(
            node,
            &action,
            move |_, _| decide.admit(),
            move |running| {
                let shared = perform.clone();
                async move {
                    let end = evaluate(shared.clone(), running).await;
                    let mut core = shared.core.lock();
                    core.evaluations = core.evaluations.saturating_sub(1);
                    end
                }
            },
        )?));
        log_info!(node.logger(), "judging on {action}");
        Ok(EvaluatorNode { _handles: handles })
    }
}

impl Shared {
    pub(crate) fn now(&self) -> Stamp {
        Stamp(self.clock.ros_ns())
    }

    fn admit(&self) -> GoalDecision {
        let mut core = self.core.lock();
        if core.evaluations >= MAX_EVALUATIONS {
            return GoalDecision::Reject {
                reason: format!("{MAX_EVALUATIONS} evaluations are running; ask again later"),
            };
        }
        self.pace.hurry(WATCH);
        core.evaluations += 1;
        GoalDecision::Accept
    }

    fn cycle(&self) {
        self.look(&mut self.core.lock(), self.now());
    }

    /// Takes over what was observed since the last look.
    pub(crate) fn look(&self, core: &mut Core, now: Stamp) {
        if now.is_never() {
            return; // simulated time has not begun
        }
        if core.provider.kind() == ProviderKind::Live {
            self.sample_transforms(core, now);
            self.work_off_frames(core, now);
        }
        for taken in take_over(&mut *core.provider, &mut core.buffer, now) {
            self.tell(taken);
        }
    }

    fn sample_transforms(&self, core: &mut Core, now: Stamp) {
        let p = &self.parameters;
        let last_base = core.buffer.base().next_back().map(|s| s.stamp);
        for sample in self.poses(&p.base_frame, last_base, now) {
            core.provider.hand_in(Observation::Base(sample));
        }
        if p.tool_frame.is_empty() {
            return;
        }
        let last_tool = core.buffer.tool().next_back().map(|s| s.stamp);
        for sample in self.poses(&p.tool_frame, last_tool, now) {
            core.provider.hand_in(Observation::Tool(sample));
        }
    }

    /// Poses of a frame in the map since the last one: the newest, and those between when a cycle came
    /// late, so that a busy machine leaves no gap in what is known of a run.
    fn poses(&self, frame: &str, last: Option<Stamp>, now: Stamp) -> Vec<PoseSample> {
        let (map, buffer) = (&self.parameters.map_frame, &self.tf.buffer);
        let Ok(newest) = buffer.lookup_latest(map, frame, now.0, TRANSFORM_AGE) else {
            return Vec::new();
        };
        let until = newest.stamp_ns.map_or(now, Stamp);
        let mut out = Vec::new();
        if let Some(last) = last {
            let mut at = last.plus(SAMPLE);
            for _ in 0..MAX_BACKFILL {
                if at >= until || until.since(last) > BACKFILL {
                    break;
                }
                if let Ok(found) = buffer.lookup(map, frame, at.0) {
                    out.push(PoseSample {
                        stamp: at,
                        pose: Pose::from(found.transform),
                    });
                }
                at = at.plus(SAMPLE);
            }
        }
        out.push(PoseSample {
            stamp: until,
            pose: Pose::from(newest.transform),
        });
        out
    }

    /// Logs what became of an observation, unless it is everyday.
    fn tell(&self, taken: TakenOver) {
        let what = taken.what;
        match taken.result {
            // The same transform again, or two messages that overtook each other.
            Ok((Taken::Added | Taken::Thinned, 0)) | Err(EvaluatorError::OutOfOrder { .. }) => {}
            Ok((Taken::Added | Taken::Thinned, left_out)) => log_warn!(
                self.node.logger().throttle(LOG_PERIOD),
                "{what}: {left_out} malformed or surplus ones were left out"
            ),
            Ok((Taken::ClockSetBack, _)) => log_warn!(
                self.node.logger().throttle(LOG_PERIOD),
                "{what}: the clock was set back, older evidence was dropped"
            ),
            Err(error) => log_warn!(self.node.logger().throttle(LOG_PERIOD), "{what}: {error}"),
        }
    }

    fn work_off_frames(&self, core: &mut Core, now: Stamp) {
        let p = &self.parameters;
        let timeout = i64::try_from(p.transform_timeout.as_nanos()).unwrap_or(0);
        let steady = self.clock.steady_ns();
        while let Some((message, since)) = core.waiting.front() {
            let stamp = samples::stamp_or(&message.header.stamp, now);
            match self
                .tf
                .buffer
                .lookup(&p.map_frame, &message.header.frame_id, stamp.0)
            {
                Ok(sensor) => {
                    let frame = detection_frame(message, &sensor.transform);
                    core.waiting.pop_front();
                    core.provider.hand_in(Observation::Frame(frame));
                }
                Err(error) => {
                    if steady.saturating_sub(*since) < timeout {
                        return;
                    }
                    log_warn!(
                        self.node.logger().throttle(LOG_PERIOD),
                        "a frame of detections was dropped, its transform did not come: {error}"
                    );
                    core.waiting.pop_front();
                }
            }
        }
    }

    fn note(&self, message: &RunEvent) {
        self.pace.hurry(WATCH);
        let now = self.now();
        let event = match run_event(message) {
            Ok(event) => event,
            Err(error) => {
                log_warn!(self.node.logger(), "a run event was ignored: {error}");
                return;
            }
        };
        let mut guard = self.core.lock();
        // What was seen before the event belongs into the baseline.
        self.look(&mut guard, now);
        let core = &mut *guard;
        let name = format!(
            "{:?} of run {} ({})",
            event.event, event.run_id, event.skill
        );
        match core
            .book
            .note(event, &core.buffer, now, &self.parameters.config)
        {
            Ok(Noted::New) => log_info!(self.node.logger(), "{name}"),
            Ok(Noted::Known) => {}
            Err(error) => log_warn!(self.node.logger(), "{name}: {error}"),
        }
    }
}

fn subscribe_runs(
    shared: &Arc<Shared>,
    streams: &Streams,
) -> Result<Vec<Box<dyn Any>>, RclrsError> {
    let take = shared.clone();
    let events = streams.create_subscription::<RunEvent, _>(
        "run_events".qos(qos::state_latched(EVENTS_DEPTH)),
        move |message: RunEvent| take.note(&message),
    )?;
    let take = shared.clone();
    let catalogs = streams.create_subscription::<SkillCatalog, _>(
        "skill_catalog".qos(qos::state_latched(EVENTS_DEPTH)),
        move |message: SkillCatalog| {
            for reason in take.core.lock().catalog.take(&message) {
                log_warn!(take.node.logger(), "{reason}");
            }
        },
    )?;
    Ok(vec![Box::new(events), Box::new(catalogs)])
}

fn subscribe_sensors(
    shared: &Arc<Shared>,
    streams: &Streams,
) -> Result<Vec<Box<dyn Any>>, RclrsError> {
    let p = &shared.parameters;
    let take = shared.clone();
    let joints = streams.create_subscription::<JointState, _>(
        p.joint_states_topic.as_str().qos(qos::newest_sensor_data()),
        move |message: JointState| {
            let now = take.now();
            let (sample, gripper) = samples::joints(&message, &take.parameters.gripper_joint, now);
            let mut core = take.core.lock();
            if let Some(gripper) = gripper {
                core.provider.hand_in(Observation::Gripper(gripper));
            }
            // A message of the gripper alone must not hide the arm's.
            if !sample.positions.is_empty() {
                core.provider.hand_in(Observation::Joints(sample));
            }
            drop(core);
            take.pace.rest();
        },
    )?;
    let take = shared.clone();
    let odom = streams.create_subscription::<Odometry, _>(
        p.odom_topic.as_str().qos(qos::newest_sensor_data()),
        move |message: Odometry| {
            let now = take.now();
            let sample = samples::twist(&message, now);
            let observation = Observation::Twist(sample);
            take.core.lock().provider.hand_in(observation);
        },
    )?;
    let take = shared.clone();
    let scan = streams.create_subscription::<LaserScan, _>(
        p.scan_topic.as_str().qos(qos::newest_sensor_data()),
        move |message: LaserScan| {
            let now = take.now();
            let p = &take.parameters;
            let laser = take.tf.buffer.lookup_latest(
                &p.base_frame,
                &message.header.frame_id,
                now.0,
                TRANSFORM_AGE,
            );
            match laser {
                Ok(laser) => {
                    let radius = p.embodiment.footprint_radius;
                    let sample = samples::clearance(&message, &laser.transform, radius, now);
                    if let Some(sample) = sample {
                        let observation = Observation::Clearance(sample);
                        take.core.lock().provider.hand_in(observation);
                    }
                }
                Err(error) => log_warn!(
                    take.node.logger().throttle(LOG_PERIOD),
                    "a scan was ignored: {error}"
                ),
            }
        },
    )?;
    let take = shared.clone();
    let detections = streams.create_subscription::<ObjectObservationArray, _>(
        p.detections_topic.as_str().qos(qos::sensor_data()),
        move |message: ObjectObservationArray| {
            let steady = take.clock.steady_ns();
            let mut core = take.core.lock();
            core.waiting.push_back((message, steady));
            while core.waiting.len() > MAX_WAITING {
                core.waiting.pop_front();
            }
        },
    )?;
    Ok(vec![
        Box::new(joints),
        Box::new(odom),
        Box::new(scan),
        Box::new(detections),
    ])
}

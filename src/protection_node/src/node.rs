//! The running node: subscriptions, services, the timer, and what they share.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use eh_protection::authority::LeaseState;
use eh_protection::kept_stop::KeptStop;
use eh_protection::lease::{ControlLease, LeaseView};
use eh_protection::scan::{Mounting, ScanError};
use eh_protection::{Decision, Mode, Protection, Velocity};
use eh_ros_edge::{convert, qos, streams, NodeClock, Pace, Streams, TfListener};
use parking_lot::Mutex;
use rclrs::{
    log_error, log_info, log_warn, IntoPrimitiveOptions, IntoTimerOptions, Node, Publisher,
    RclrsError, ToLogParams,
};
use ros_env::embodied_harness::msg::{ControlLease as LeaseMsg, DeclaredRun, ProtectionState};
use ros_env::embodied_harness::srv::{
    ManageLease, ManageLease_Request, RequestStop, RequestStop_Request, ResetStop,
    ResetStop_Request,
};
use ros_env::geometry_msgs::msg::{Twist, TwistStamped};
use ros_env::nav_msgs::msg::Odometry;
use ros_env::sensor_msgs::msg::LaserScan;

use crate::lease_keeper::LeaseKeeper;
use crate::stop_keeper::StopKeeper;
use crate::velocity_output::VelocityOutput;
use crate::{messages, Error, Parameters};

/// The state goes out at least this often, and publishers are counted as often.
const STATE_PERIOD: Duration = Duration::from_millis(400);

/// How long odometry is left alone at a time, and how often is decided and told, while nobody commands anything;
/// a scan is decided about when it comes.
const REST: Duration = Duration::from_millis(100);
const CALM_PERIOD: Duration = Duration::from_millis(200);

/// How long after a command, a declared run or a stop everything is looked at when it comes.
const WATCH: Duration = Duration::from_secs(5);

/// Longest wait for the disk before a grant or a reset is refused.
pub(crate) const DISK_TIMEOUT: Duration = Duration::from_secs(3);

/// How old a changing transform of the laser may be.
const MOUNTING_AGE: Duration = Duration::from_secs(1);

/// Time between two log lines of one kind.
const LOG_PERIOD: Duration = Duration::from_secs(5);

/// Keeps the ROS handles alive: dropping it ends the node's work.
pub(crate) struct ProtectionNode {
    shared: Arc<Shared>,
    _handles: Vec<Box<dyn Any>>,
}

/// What every callback shares. Streams have a thread of their own; the lock is held for one
/// decision.
pub(crate) struct Shared {
    pub(crate) node: Node,
    pub(crate) clock: NodeClock,
    parameters: Parameters,
    velocity: VelocityOutput,
    state: Publisher<ProtectionState>,
    lease: Publisher<LeaseMsg>,
    pub(crate) keeper: LeaseKeeper,
    pub(crate) stops: StopKeeper,
    /// In no hurry while nobody commands anything.
    pace: Pace,
    pub(crate) core: Mutex<Core>,
}

pub(crate) struct Core {
    pub(crate) protection: Protection,
    pub(crate) lease: ControlLease,
    latest: Duration,
    /// When was decided last.
    decided_at: Duration,
    output_publishers: usize,
    // What was published last, to tell changes.
    told: Option<Told>,
    told_at: Option<Duration>,
    pub(crate) told_lease: Option<(String, u64)>,
}

/// What counts as a change of the state.
#[derive(Clone, PartialEq)]
struct Told {
    mode: Mode,
    reason: eh_protection::Reason,
    stop_id: String,
    stage: eh_contract::state::StopStage,
    output_publishers: usize,
}

impl ProtectionNode {
    pub(crate) fn start(node: &Node) -> Result<Self, Error> {
        let parameters = Parameters::declare(node)?;
        let clock = NodeClock::of(node);
        let (keeper, opened) = LeaseKeeper::start(&parameters.state_directory)?;
        match &opened.trouble {
            Some(trouble) => {
                log_error!(node.logger(), "no control lease can be granted: {trouble}")
            }
            None => log_info!(
                node.logger(),
                "control lease: newest token {} (in {})",
                opened.token,
                parameters.state_directory.display()
            ),
        }
        let (stops, kept) = StopKeeper::start(&parameters.state_directory)?;
        match &kept {
            KeptStop::Free => {}
            KeptStop::Latched(stop) => log_warn!(
                node.logger(),
                "stop \"{}\" of {} ({}) was never reset and is still in force",
                stop.stop_id,
                stop.source,
                stop.reason
            ),
            KeptStop::Unreadable(trouble) => log_error!(
                node.logger(),
                "stopped, since whether a stop was latched is not known: {trouble}"
            ),
        }
        let mut protection = Protection::new(parameters.protection.clone());
        protection.resume_stop(budget_time(&clock), kept);
        let streams = streams(node)?;
        let tf = Arc::new(TfListener::fixed_only(node, &streams)?);
        let shared = Arc::new(Shared {
            velocity: VelocityOutput::new(node, &parameters)?,
            state: node.create_publisher("protection_state".qos(qos::state_latched(1)))?,
            lease: node.create_publisher("control_lease".qos(qos::state_latched(1)))?,
            keeper,
            stops,
            pace: Pace::new(if clock.is_simulated() {
                // Its time may pass faster.
                Duration::ZERO
            } else {
                REST.min(parameters.protection.odom_timeout / 4)
            }),
            core: Mutex::new(Core {
                protection,
                lease: ControlLease::new(parameters.protection.lease, opened.token),
                latest: Duration::ZERO,
                decided_at: Duration::ZERO,
                output_publishers: 1,
                told: None,
                told_at: None,
                told_lease: None,
            }),
            node: node.clone(),
            clock,
            parameters,
        });
        // A parameter holds this closure, and what is shared holds the parameters.
        let weak = Arc::downgrade(&shared);
        shared.parameters.on_change(move |params| {
            if let Some(shared) = weak.upgrade() {
                shared.with_core(|core, _| core.protection.change_params(params));
            }
        });
        let mut handles: Vec<Box<dyn Any>> = Vec::new();
        handles.push(subscribe_velocity(&shared, &streams)?);
        handles.extend(subscribe_sensors(&shared, &streams, &tf)?);
        handles.push(subscribe_odometry(&shared)?);
        handles.push(Box::new(tf));
        handles.extend(serve(&shared)?);
        let every = shared.clone();
        handles.push(Box::new(
            // In simulation the inputs' ages pass at the simulation's pace, and so must the decisions.
            streams.create_timer_repeating(
                if shared.clock.is_simulated() {
                    shared.parameters.period.node_time()
                } else {
                    shared.parameters.period.steady_time()
                },
                move || every.act(),
            )?,
        ));
        handles.push(Box::new(streams));
        shared.hurry();
        shared.act();
        log_info!(
            node.logger(),
            "protecting {}: from {} to {}",
            shared.parameters.base_frame,
            shared.parameters.input_topic,
            shared.velocity.topic()
        );
        Ok(ProtectionNode {
            shared,
            _handles: handles,
        })
    }

    /// Gives out zero velocity: the last thing that the base hears from this node.
    pub(crate) fn stand(&self) {
        let stamp = self.shared.clock.ros_ns();
        if let Err(error) = self.shared.velocity.publish(Velocity::ZERO, stamp) {
            log_error!(
                self.shared.node.logger(),
                "the last zero velocity was not sent: {error}"
            );
        }
        // The middleware sends from threads of its own, which end with the process.
        std::thread::sleep(Duration::from_millis(50));
    }
}

impl Shared {
    /// Decides and gives out the velocity; then tells what has changed.
    fn act(&self) {
        if !self.pace.is_hurried() {
            let mut core = self.core.lock();
            let now = self.now(&mut core);
            if now.saturating_sub(core.decided_at) < CALM_PERIOD {
                return;
            }
        }
        self.with_core(|_, _| {});
    }

    /// Something is about to move or to stop.
    pub(crate) fn hurry(&self) {
        self.pace.hurry(WATCH);
    }

    /// Changes something, then decides and gives out the velocity at once.
    pub(crate) fn with_core<T>(&self, change: impl FnOnce(&mut Core, Duration) -> T) -> T {
        let mut core = self.core.lock();
        let now = self.now(&mut core);
        let value = change(&mut core, now);
        core.decided_at = now;
        core.protection.stop_not_kept(self.stops.trouble());
        let decision = core.decide(now);
        if let Err(error) = self.velocity.publish(decision.output, self.clock.ros_ns()) {
            log_error!(
                self.node.logger().throttle(LOG_PERIOD),
                "the velocity was not sent: {error}"
            );
        }
        self.tell(&mut core, &decision, now);
        value
    }

    /// The time that budgets are measured on. When it was set back, as simulated time can be, the lease ends.
    pub(crate) fn now(&self, core: &mut Core) -> Duration {
        let now = budget_time(&self.clock);
        if now < core.latest {
            log_warn!(
                self.node.logger(),
                "time was set back: every input is forgotten and the lease ends"
            );
            core.lease.clock_restarted();
            core.told_at = None;
        }
        core.latest = now;
        now
    }

    fn tell(&self, core: &mut Core, decision: &Decision, now: Duration) {
        let due = core
            .told_at
            .is_none_or(|at| now.saturating_sub(at) >= STATE_PERIOD);
        if due {
            match self.node.count_publishers(&self.velocity.topic()) {
                // Right after the start our own may not be known yet.
                Ok(count) => {
                    core.output_publishers = count.max(1);
                    core.protection.output_publishers(core.output_publishers);
                }
                Err(error) => log_warn!(
                    self.node.logger().throttle(LOG_PERIOD),
                    "publishers of the output can't be counted: {error}"
                ),
            }
        }
        if let Some(trouble) = self.stops.trouble() {
            log_error!(
                self.node.logger().throttle(LOG_PERIOD),
                "the newest stop or reset is not on the disk, a restart would not know it: {trouble}"
            );
        }
        let told = core.as_told(decision);
        let changed = core.told.as_ref() != Some(&told);
        if changed {
            self.log(core.told.as_ref(), &told, decision);
        }
        let lease = core.lease.view(now);
        let holder = (lease.controller_id.clone(), lease.token);
        if due || core.told_lease.as_ref() != Some(&holder) {
            core.told_lease = Some(holder);
            self.publish_lease(lease);
        }
        if due || changed {
            core.told = Some(told);
            core.told_at = Some(now);
            let message = messages::state(
                &core.protection,
                decision,
                now,
                self.clock.ros_ns(),
                core.output_publishers,
            );
            if let Err(error) = self.state.publish(message) {
                log_error!(
                    self.node.logger().throttle(LOG_PERIOD),
                    "the state was not sent: {error}"
                );
            }
        }
    }

    pub(crate) fn publish_lease(&self, lease: LeaseView) {
        if let Err(error) = self.lease.publish(messages::lease(lease)) {
            log_error!(
                self.node.logger().throttle(LOG_PERIOD),
                "the lease was not sent: {error}"
            );
        }
    }

    fn log(&self, before: Option<&Told>, told: &Told, decision: &Decision) {
        let logger = self.node.logger();
        let changed = before.map(|b| (&b.stop_id, b.stage)) != Some((&told.stop_id, told.stage));
        // The end of a stop is told where it is reset.
        if changed && !told.stop_id.is_empty() {
            log_info!(logger, "stop \"{}\": {:?}", told.stop_id, told.stage);
        }
        let stopped = |t: &Told| t.mode >= Mode::Stop;
        match (before.is_some_and(stopped), stopped(told)) {
            (_, true) if before.map(|b| b.reason) != Some(told.reason) => {
                log_info!(
                    logger,
                    "{:?} ({:?}): {}",
                    told.mode,
                    told.reason,
                    decision.message
                );
            }
            (true, false) => log_info!(logger, "commands pass"),
            _ => {}
        }
    }

    /// How old something is by its stamp.
    fn age(&self, stamp_ns: i64) -> Duration {
        if !self.parameters.check_stamps || stamp_ns == 0 {
            return Duration::ZERO;
        }
        let age = self.clock.ros_ns().saturating_sub(stamp_ns);
        Duration::from_nanos(u64::try_from(age).unwrap_or(0))
    }

    fn mounting(&self, tf: &TfListener, frame: &str) -> Result<Mounting, ScanError> {
        let found = tf.buffer.lookup_latest(
            &self.parameters.base_frame,
            frame,
            self.clock.ros_ns(),
            MOUNTING_AGE,
        );
        // Most lasers are fixed to the base: only for those that are not it matters what moves.
        let is_fixed = found.as_ref().is_ok_and(|f| f.stamp_ns.is_none());
        if let Err(error) = tf.listen(!is_fixed) {
            log_error!(
                self.node.logger().throttle(LOG_PERIOD),
                "transforms can't be listened to: {error}"
            );
        }
        let found = found
            .map_err(|error| ScanError::NoMounting(error.to_string()))?
            .transform;
        let r = found.rotation.to_rotation_matrix();
        let row = |i: usize| [r[(i, 0)], r[(i, 1)], r[(i, 2)]]; // a 3 by 3 matrix
        let place = found.translation;
        Mounting::from_pose(place.x, place.y, [row(0), row(1), row(2)])
    }
}

impl Core {
    fn decide(&mut self, now: Duration) -> Decision {
        self.protection.lease(LeaseState {
            alive: self.lease.is_alive(now),
            token: self.lease.token(),
        });
        self.protection.decide(now)
    }

    fn as_told(&self, decision: &Decision) -> Told {
        let stop = self.protection.stop();
        Told {
            mode: decision.mode,
            reason: decision.reason,
            stop_id: stop.newest().map(|r| r.stop_id.clone()).unwrap_or_default(),
            stage: stop.stage(),
            output_publishers: self.output_publishers,
        }
    }
}

/// The time that budgets are measured on.
fn budget_time(clock: &NodeClock) -> Duration {
    Duration::from_nanos(u64::try_from(clock.budget_ns()).unwrap_or(0))
}

fn subscribe_velocity(shared: &Arc<Shared>, streams: &Streams) -> Result<Box<dyn Any>, RclrsError> {
    let topic = shared
        .parameters
        .input_topic
        .as_str()
        .qos(qos::velocity_command());
    let take = shared.clone();
    Ok(if shared.parameters.stamped {
        Box::new(streams.create_subscription::<TwistStamped, _>(
            topic,
            move |message: TwistStamped| {
                take.hurry();
                let frame = &message.header.frame_id;
                let age = take.age(convert::time_ns(&message.header.stamp));
                let wanted = &take.parameters.base_frame;
                let command = messages::twist_command(&message.twist);
                take.with_core(|core, now| {
                    if frame.is_empty() || frame == wanted {
                        core.protection.command(now, age, command);
                    } else {
                        core.protection.unusable_command(
                            now,
                            format!(
                                "the command is in frame '{frame}', it has to be in '{wanted}'"
                            ),
                        );
                    }
                });
            },
        )?)
    } else {
        Box::new(
            streams.create_subscription::<Twist, _>(topic, move |message: Twist| {
                take.hurry();
                let command = messages::twist_command(&message);
                take.with_core(|core, now| core.protection.command(now, Duration::ZERO, command));
            })?,
        )
    })
}

fn subscribe_sensors(
    shared: &Arc<Shared>,
    streams: &Streams,
    tf: &Arc<TfListener>,
) -> Result<Vec<Box<dyn Any>>, RclrsError> {
    let take = shared.clone();
    let frames = tf.clone();
    let scan = streams.create_subscription::<LaserScan, _>(
        shared
            .parameters
            .scan_topic
            .as_str()
            .qos(qos::sensor_data()),
        move |message: LaserScan| {
            let p = &take.parameters;
            let age = take.age(convert::time_ns(&message.header.stamp));
            let scan = take
                .mounting(&frames, &message.header.frame_id)
                .and_then(|mounting| messages::scan(&message, &mounting, p.max_invalid_beams))
                .map(|mut scan| {
                    scan.drop_within(p.self_filter_radius);
                    scan
                });
            take.with_core(|core, now| core.protection.scan(now, age, scan));
        },
    )?;
    let take = shared.clone();
    let runs = streams.create_subscription::<DeclaredRun, _>(
        "declared_runs".qos(qos::control()),
        move |message: DeclaredRun| {
            take.hurry();
            let run = messages::declared_run(message);
            let name = format!("{} of {}", run.run_id, run.executor);
            if !take.with_core(|core, now| core.protection.declared_run(now, run)) {
                log_warn!(
                    take.node.logger().throttle(LOG_PERIOD),
                    "the declared run {name} is refused: too many at once, or a name is empty"
                );
            }
        },
    )?;
    Ok(vec![Box::new(scan), Box::new(runs)])
}

/// Odometry has streams of its own, which rest while nobody commands anything.
fn subscribe_odometry(shared: &Arc<Shared>) -> Result<Box<dyn Any>, RclrsError> {
    let own = streams(&shared.node)?;
    let take = shared.clone();
    let odom = own.create_subscription::<Odometry, _>(
        shared
            .parameters
            .odom_topic
            .as_str()
            .qos(qos::newest_sensor_data()),
        move |message: Odometry| {
            let age = take.age(convert::time_ns(&message.header.stamp));
            let (l, a) = (&message.twist.twist.linear, &message.twist.twist.angular);
            let (linear, angular) = (l.x.hypot(l.y), a.z);
            {
                // The next decision is soon enough: odometry confirms a stop, it changes no velocity.
                let mut core = take.core.lock();
                let now = take.now(&mut core);
                core.protection.odom(now, age, linear, angular);
            }
            take.pace.rest();
        },
    )?;
    Ok(Box::new((own, odom)))
}

fn serve(shared: &Arc<Shared>) -> Result<Vec<Box<dyn Any>>, RclrsError> {
    let node = &shared.node;
    let take = shared.clone();
    let manage = node.create_async_service::<ManageLease, _>(
        "manage_lease",
        move |request: ManageLease_Request| {
            let take = take.clone();
            async move { take.manage_lease(request).await }
        },
    )?;
    let take = shared.clone();
    let stop = node
        .create_service::<RequestStop, _>("request_stop", move |request: RequestStop_Request| {
            take.request_stop(request)
        })?;
    let take = shared.clone();
    let reset = node.create_async_service::<ResetStop, _>(
        "reset_stop",
        move |request: ResetStop_Request| {
            let take = take.clone();
            async move { take.reset_stop(request).await }
        },
    )?;
    Ok(vec![Box::new(manage), Box::new(stop), Box::new(reset)])
}

//! The node's parameters.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use eh_protection::authority::AuthorityRules;
use eh_protection::footprint::Footprint;
use eh_protection::lease::LeaseTimes;
use eh_protection::params::{Limit, Params, ParamsError, StopStrategy};
use eh_protection::speed_limit::Braking;
use eh_protection::standstill::StandstillLimits;
use eh_ros_edge::params::{choice, flag, live_number, number, text, ParameterError};
use eh_ros_edge::state_directory;
use parking_lot::Mutex;
use rclrs::{MandatoryParameter, Node};

use crate::Error;

/// The limits that may be changed while the node runs; nothing is in it until all are declared.
type Current = Arc<OnceLock<Mutex<Params>>>;

/// What the node is set to.
#[derive(Debug)]
pub struct Parameters {
    /// What decisions depend on, as it was at the start.
    pub protection: Params,
    /// The same as it is now.
    current: Current,
    /// The parameters that may be changed.
    live: Vec<(Limit, MandatoryParameter<f64>)>,
    /// Frame of the footprint.
    pub base_frame: String,
    /// Largest fraction of beams without a measurement.
    pub max_invalid_beams: f64,
    /// Returns nearer than this to the base frame's origin are the robot itself \[m\].
    pub self_filter_radius: f64,
    /// Whether stamps count for the age of an input.
    pub check_stamps: bool,
    /// Time between two outputs.
    pub period: Duration,
    /// Whether velocities are TwistStamped.
    pub stamped: bool,
    /// Where velocities come from.
    pub input_topic: String,
    /// Where they go to.
    pub output_topic: String,
    /// Where scans come from.
    pub scan_topic: String,
    /// Where odometry comes from.
    pub odom_topic: String,
    /// Folder of the durable token.
    pub state_directory: PathBuf,
}

impl Parameters {
    /// Declares all parameters and checks them.
    ///
    /// # Errors
    /// [`enum@Error`] that names the parameter, its value and the limits.
    pub fn declare(node: &Node) -> Result<Self, Error> {
        let metres =
            |name: &str, default, range, text: &str| number(node, name, default, range, "m", text);
        let speed = |name: &str, default, most, text: &str| {
            number(node, name, default, 0.0..=most, "m/s", text)
        };
        let rate = |name: &str, default, most, text: &str| {
            number(node, name, default, 0.0..=most, "rad/s", text)
        };
        let current = Current::default();
        let mut live = Vec::new();
        let mut limit = |limit, name: &str, default, most, unit: &str, text: &str| {
            let others = current.clone();
            let accept = move |value| match others.get() {
                Some(params) => match params.lock().with_limit(limit, value) {
                    Ok(_) => Ok(()),
                    Err(error) => Err(error.to_string()),
                },
                // All are checked together at the end of the declarations.
                None => Ok(()),
            };
            let declared = live_number(node, name, default, 0.0..=most, unit, text, accept)?;
            let value = declared.get();
            live.push((limit, declared));
            Ok::<_, ParameterError>(value)
        };
        let seconds = |name: &str, default: f64, range: RangeInclusive<f64>, text: &str| {
            number(node, name, default, range, "s", text).map(Duration::from_secs_f64)
        };
        let base_frame = text(
            node,
            "base_frame",
            "base_link",
            "Frame of footprint and velocities.",
        )?;
        let radius = metres(
            "footprint_radius",
            0.27,
            0.01..=10.0,
            "Radius of a round footprint around the base frame.",
        )?;
        let polygon = declare_polygon(node)?;
        let footprint = match polygon {
            Some(numbers) => Footprint::polygon(&numbers),
            None => Footprint::circle(radius),
        }
        .map_err(ParamsError::from)?;
        let strategy = choice(
            node,
            "stop_strategy",
            "controlled_stop",
            &["controlled_stop", "hold"],
            "How the base is brought to zero: along a ramp, or at once.",
        )?;
        let protection = Params {
            footprint,
            stop_margin: metres("stop_margin", 0.02, 0.0..=2.0, "Something within this distance of the footprint stops motion towards it.")?,
            slow_margin: limit(Limit::SlowMargin, "slow_margin", 0.12, 5.0, "m", "Something within this distance of the footprint that comes closer slows the base down.")?,
            slow_linear: limit(Limit::SlowLinear, "slow_linear_speed", 0.35, 5.0, "m/s", "Limit in the slow zone.")?,
            slow_angular: limit(Limit::SlowAngular, "slow_angular_speed", 0.8, 10.0, "rad/s", "Limit in the slow zone for footprints that are not round.")?,
            max_linear: limit(Limit::MaxLinear, "max_linear_speed", 1.0, 10.0, "m/s", "Commands above it are scaled down.")?,
            max_angular: limit(Limit::MaxAngular, "max_angular_speed", 2.0, 20.0, "rad/s", "Commands above it are scaled down.")?,
            absurd_linear: speed("absurd_linear_speed", 5.0, 100.0, "Commands above it are taken for a fault.")?,
            absurd_angular: rate("absurd_angular_speed", 15.0, 100.0, "Commands above it are taken for a fault.")?,
            blind_linear: limit(Limit::BlindLinear, "blind_linear_speed", 0.1, 5.0, "m/s", "Limit in a direction that no beam looks in.")?,
            braking: Braking {
                reaction_time: number(node, "reaction_time", 0.2, 0.01..=5.0, "s", "Time from something appearing to the base's braking, measured.")?,
                linear: number(node, "deceleration", 1.2, 0.05..=20.0, "m/s^2", "How the base brakes, measured.")?,
                angular: number(node, "angular_deceleration", 3.0, 0.05..=50.0, "rad/s^2", "How the base's turning brakes, measured.")?,
            },
            // `choice` lets only the two names through.
            strategy: StopStrategy::from_name(&strategy).unwrap_or(StopStrategy::Hold),
            command_timeout: seconds("command_timeout", 0.4, 0.02..=5.0, "An older command moves nothing.")?,
            scan_timeout: seconds("scan_timeout", 0.5, 0.02..=5.0, "An older scan stops the base.")?,
            odom_timeout: seconds("odom_timeout", 0.5, 0.02..=5.0, "Older odometry stops the base.")?,
            require_scan: flag(node, "require_scan", true, "False: the robot has no laser.")?,
            require_odom: flag(node, "require_odom", true, "False: the robot has no odometry; stops are then never confirmed.")?,
            stop_on_second_publisher: flag(node, "stop_on_second_publisher", true, "Whether a second publisher of the output stops ours; it is an alarm in any case.")?,
            standstill: StandstillLimits {
                linear: speed("standstill_linear", 0.01, 0.2, "Slower counts as standing.")?,
                angular: rate("standstill_angular", 0.02, 0.5, "Slower counts as standing.")?,
                window: seconds("standstill_window", 0.3, 0.05..=5.0, "For how long it has to stand.")?,
                max_gap: Duration::ZERO, // set below
            },
            stop_budget: seconds("stop_budget", 3.0, 0.1..=60.0, "Time in which a stop has to be confirmed.")?,
            authority: AuthorityRules {
                require_lease: flag(node, "require_lease", true, "Whether velocities need a live control lease, or a run whose disconnect policy does without.")?,
                require_declared_run: flag(node, "require_declared_run", true, "Whether velocities need a run that an executor declares.")?,
                run_timeout: seconds("declared_run_timeout", 0.5, 0.05..=5.0, "How recently the run has to be declared.")?,
            },
            lease: LeaseTimes {
                min: seconds("lease_ttl_min", 0.5, 0.05..=60.0, "Shortest lifetime of a lease.")?,
                default: seconds("lease_ttl_default", 3.0, 0.05..=600.0, "Lifetime of a lease when none is asked for.")?,
                max: seconds("lease_ttl_max", 60.0, 0.05..=3600.0, "Longest lifetime of a lease.")?,
            },
        };
        let protection = Params {
            standstill: StandstillLimits {
                // Standing is measured: no gap in it may be longer than odometry may be silent.
                max_gap: protection.odom_timeout,
                ..protection.standstill
            },
            ..protection
        };
        protection.check()?;
        // It was empty until here.
        let _ = current.set(Mutex::new(protection.clone()));
        let output_rate = number(
            node,
            "output_rate",
            25.0,
            5.0..=200.0,
            "Hz",
            "Rate of the output; it is also given out at once when an input comes.",
        )?;
        Ok(Parameters {
            protection,
            current,
            live,
            base_frame,
            max_invalid_beams: number(
                node,
                "max_invalid_beams",
                0.2,
                0.0..=1.0,
                "1",
                "Largest fraction of a scan's beams without a measurement.",
            )?,
            self_filter_radius: metres(
                "self_filter_radius",
                0.0,
                0.0..=5.0,
                "Returns nearer than this to the base frame's origin are the robot itself.",
            )?,
            check_stamps: flag(
                node,
                "check_stamps",
                true,
                "Whether the stamps of inputs count for their age.",
            )?,
            period: Duration::from_secs_f64(1.0 / output_rate),
            stamped: flag(
                node,
                "stamped_cmd_vel",
                false,
                "Whether velocities are TwistStamped on both sides.",
            )?,
            input_topic: text(
                node,
                "cmd_vel_in_topic",
                "cmd_vel_nav",
                "Topic of the commands.",
            )?,
            output_topic: text(node, "cmd_vel_out_topic", "cmd_vel", "Topic of the output.")?,
            scan_topic: text(node, "scan_topic", "scan", "Topic of the laser.")?,
            odom_topic: text(node, "odom_topic", "odom", "Topic of the odometry.")?,
            state_directory: state_directory(node)?,
        })
    }
}

impl Parameters {
    /// Calls `changed` with everything that decisions depend on, whenever one of the limits was changed.
    pub fn on_change(&self, changed: impl Fn(Params) + Clone + Send + Sync + 'static) {
        for (limit, parameter) in &self.live {
            let (limit, current, changed) = (*limit, self.current.clone(), changed.clone());
            parameter.on_change(move |value| {
                let Some(params) = current.get() else { return };
                let mut params = params.lock();
                // Two requests at once may each fit and not together; then the later one does not count.
                if let Ok(new) = params.with_limit(limit, *value) {
                    *params = new.clone();
                    drop(params);
                    changed(new);
                }
            });
        }
    }
}

fn declare_polygon(node: &Node) -> Result<Option<Vec<f64>>, ParameterError> {
    let name = "footprint_polygon";
    let declared = node
        .declare_parameter::<Arc<[f64]>>(name)
        .description(
            "Footprint as x1, y1, x2, y2, ... around the robot, in place of footprint_radius [m]",
        )
        .optional()
        .map_err(|error| ParameterError::Declaration {
            name: name.into(),
            reason: error.to_string(),
        })?;
    Ok(declared.get().map(|numbers| numbers.to_vec()))
}

//! The decision: inputs of the last moments in, a velocity that is safe to give out.

use std::time::Duration;

use crate::authority::{Authority, DeclaredRun, LeaseState, Refused};
use crate::decision::{Decision, Mode, Reason};
use crate::kept_stop::{KeptStop, PendingReset};
use crate::params::{Params, StopStrategy};
use crate::path::look_ahead;
use crate::scan::{Scan, ScanError};
use crate::standstill::Standstill;
use crate::stop::{ResetError, StopLatch, StopRequest};
use crate::velocity::Velocity;

/// How far along the way the clearance is looked for \[m\]; beyond it there is no limit.
const LOOK_AHEAD: f64 = 4.0;

/// Factor below which a scaled command is a stop: it would only creep and make gears and people nervous.
const LEAST_FACTOR: f64 = 0.02;

/// Measured speeds above this are no speeds of a robot [m/s, rad/s].
const ABSURD_MEASUREMENT: f64 = 200.0;

/// A velocity command as received: all six numbers of a twist.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TwistCommand {
    /// Linear x, y, z [m/s].
    pub linear: [f64; 3],
    /// Angular x, y, z [rad/s].
    pub angular: [f64; 3],
}

impl TwistCommand {
    /// A planar command.
    pub const fn planar(v: Velocity) -> Self {
        TwistCommand {
            linear: [v.x, v.y, 0.0],
            angular: [0.0, 0.0, v.turn],
        }
    }
}

#[derive(Clone, Debug)]
enum Command {
    Usable(Velocity),
    Invalid(String),
}

/// An input with its time of arrival and the age that it already had then.
#[derive(Clone, Debug)]
struct Timed<T> {
    at: Duration,
    age: Duration,
    value: T,
}

impl<T> Timed<T> {
    fn age(&self, now: Duration) -> Duration {
        now.saturating_sub(self.at).saturating_add(self.age)
    }
}

/// Local protection of one base.
///
/// All times are on one steady clock of the caller that starts anywhere. A time before the last one means
/// that the clock was set back (simulation time can be): then every input is forgotten and the output is zero
/// until new ones come.
#[derive(Clone, Debug)]
pub struct Protection {
    params: Params,
    command: Option<Timed<Command>>,
    scan: Option<Timed<Result<Scan, ScanError>>>,
    odom: Option<Timed<Option<(f64, f64)>>>,
    authority: Authority,
    lease: LeaseState,
    stop: StopLatch,
    stop_not_kept: Option<String>,
    standstill: Standstill,
    output_publishers: usize,
    // Last decision's time and output, from which a ramp goes on.
    latest: Option<Duration>,
    output: Velocity,
    clock_set_back: bool,
}

struct Finding {
    mode: Mode,
    reason: Reason,
    factor: f64,
    message: String,
}

impl Protection {
    /// Creates a protection that stands until its first inputs come. `params` must have passed
    /// [`Params::check`].
    pub fn new(params: Params) -> Self {
        Protection {
            params,
            command: None,
            scan: None,
            odom: None,
            authority: Authority::default(),
            lease: LeaseState::default(),
            stop: StopLatch::default(),
            stop_not_kept: None,
            standstill: Standstill::default(),
            output_publishers: 1,
            latest: None,
            output: Velocity::ZERO,
            clock_set_back: false,
        }
    }

    /// What it is set to.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Changes what it is set to; the next decision is made with it. `params` must have passed
    /// [`Params::check`].
    pub fn change_params(&mut self, params: Params) {
        self.params = params;
    }

    /// The stop in force.
    pub fn stop(&self) -> &StopLatch {
        &self.stop
    }

    /// Measured speed over the floor [m/s] and turning rate [rad/s]; `None`: unknown or stale.
    pub fn measured(&self, now: Duration) -> Option<(f64, f64)> {
        self.odom
            .as_ref()
            .filter(|o| o.age(now) <= self.params.odom_timeout)
            .and_then(|o| o.value)
    }

    /// True when the base has been standing for the standstill window.
    pub fn is_standing(&self, now: Duration) -> bool {
        self.standstill
            .standing_after(now, Duration::ZERO, &self.params.standstill)
    }

    /// Takes a command. `age` is how old it was when it arrived; zero where it has no stamp.
    pub fn command(&mut self, now: Duration, age: Duration, twist: TwistCommand) {
        self.watch_clock(now);
        let value = self.check_command(twist);
        self.command = Some(Timed {
            at: now,
            age,
            value,
        });
    }

    /// Takes a command that can't be used, and why: it stops the base.
    pub fn unusable_command(&mut self, now: Duration, why: String) {
        self.watch_clock(now);
        self.command = Some(Timed {
            at: now,
            age: Duration::ZERO,
            value: Command::Invalid(why),
        });
    }

    /// Takes a scan, or why it can't be used. `age` is how old it was when it arrived.
    pub fn scan(&mut self, now: Duration, age: Duration, scan: Result<Scan, ScanError>) {
        self.watch_clock(now);
        self.scan = Some(Timed {
            at: now,
            age,
            value: scan,
        });
    }

    /// Takes measured speeds: over the floor [m/s] and turning [rad/s]. `age` is how old they were when they
    /// arrived. Values that are not finite, or absurd, count as "unknown".
    pub fn odom(&mut self, now: Duration, age: Duration, linear: f64, angular: f64) {
        self.watch_clock(now);
        // What is not usable is no standstill either: it lies above every limit or can't be compared.
        let usable = linear.abs() <= ABSURD_MEASUREMENT && angular.abs() <= ABSURD_MEASUREMENT;
        if age <= self.params.odom_timeout {
            self.standstill
                .measured(now, linear, angular, &self.params.standstill);
        }
        self.odom = Some(Timed {
            at: now,
            age,
            value: usable.then_some((linear, angular)),
        });
        self.stop
            .observe(now, &self.standstill, &self.params.standstill);
    }

    /// Takes an executor's declaration. Returns false when it was not taken.
    pub fn declared_run(&mut self, now: Duration, run: DeclaredRun) -> bool {
        self.watch_clock(now);
        self.authority.declared(now, run, &self.params.authority)
    }

    /// Takes the lease's state; call it before each decision.
    pub fn lease(&mut self, lease: LeaseState) {
        self.lease = lease;
    }

    /// Takes the number of publishers seen on the output topic, our own included.
    pub fn output_publishers(&mut self, count: usize) {
        self.output_publishers = count;
    }

    /// Takes a stop. See [`StopLatch::request`].
    pub fn request_stop(&mut self, now: Duration, request: StopRequest) -> String {
        self.watch_clock(now);
        self.stop.request(now, request, self.params.stop_budget)
    }

    /// Puts in force what an earlier life of the process left; call it before the first decision.
    pub fn resume_stop(&mut self, now: Duration, kept: KeptStop) {
        self.watch_clock(now);
        self.stop.resume(now, kept, self.params.stop_budget);
    }

    /// Takes why the stop in force is not on the disk; `None`: it is, or will be in a moment.
    pub fn stop_not_kept(&mut self, why: Option<String>) {
        self.stop_not_kept = why;
    }

    /// Asks to take a stop back; it stays in force until [`finish_reset`](Self::finish_reset).
    ///
    /// # Errors
    /// [`ResetError`]; nothing has changed then.
    pub fn reset_stop(
        &mut self,
        now: Duration,
        operator: &str,
        reason: &str,
        force: bool,
    ) -> Result<PendingReset, ResetError> {
        self.watch_clock(now);
        self.stop
            .observe(now, &self.standstill, &self.params.standstill);
        self.stop.reset(operator, reason, force)
    }

    /// Takes a stop back, now that the disk has answered. Commands from before it move nothing after it. See
    /// [`StopLatch::finish_reset`].
    ///
    /// # Errors
    /// [`ResetError`]; the stop then stays in force.
    pub fn finish_reset(
        &mut self,
        now: Duration,
        pending: &PendingReset,
        kept: Result<(), String>,
    ) -> Result<(), ResetError> {
        self.watch_clock(now);
        self.stop
            .observe(now, &self.standstill, &self.params.standstill);
        self.stop.finish_reset(pending, kept)?;
        self.command = None;
        self.output = Velocity::ZERO;
        Ok(())
    }

    /// Decides. Call it at a fixed rate and whenever an input came.
    pub fn decide(&mut self, now: Duration) -> Decision {
        self.watch_clock(now);
        self.stop
            .observe(now, &self.standstill, &self.params.standstill);
        let since_last = self
            .latest
            .map_or(Duration::ZERO, |t| now.saturating_sub(t));
        let wanted = match self.command.as_ref().map(|c| &c.value) {
            Some(Command::Usable(v)) => *v,
            Some(Command::Invalid(_)) | None => Velocity::ZERO,
        };
        let mut findings = Vec::new();
        self.look_at_stop(&mut findings);
        self.look_at_publishers(&mut findings);
        self.look_at_sensors(now, &mut findings);
        self.look_at_authority(now, &mut findings);
        self.look_at_command(now, &mut findings);
        let (speed_limit, clearance) = self.look_at_surroundings(wanted, &mut findings);

        let mode = findings.iter().map(|f| f.mode).max().unwrap_or(Mode::Pass);
        let output = if std::mem::take(&mut self.clock_set_back) {
            Velocity::ZERO
        } else if mode >= Mode::Stop {
            self.stopping(since_last)
        } else {
            let factor = findings.iter().map(|f| f.factor).fold(1.0, f64::min);
            wanted.scaled(factor)
        };
        self.output = output;
        self.latest = Some(now);
        if mode == Mode::Latched {
            self.stop.received();
        }
        findings.sort_by(|a, b| {
            (b.mode, a.reason.rank())
                .cmp(&(a.mode, b.reason.rank()))
                .then(a.factor.total_cmp(&b.factor))
        });
        let reason = findings.first().map_or(Reason::None, |f| f.reason);
        Decision {
            mode,
            reason,
            message: words(&findings),
            input: wanted,
            output,
            speed_limit,
            clearance,
            command_age: self.command.as_ref().map(|c| c.age(now)),
            scan_age: self.scan.as_ref().map(|s| s.age(now)),
            odom_age: self.odom.as_ref().map(|o| o.age(now)),
        }
    }

    fn watch_clock(&mut self, now: Duration) {
        if self.latest.is_some_and(|latest| now < latest) {
            self.command = None;
            self.scan = None;
            self.odom = None;
            self.authority.forget();
            self.standstill.forget();
            self.stop.clock_restarted(now, self.params.stop_budget);
            self.output = Velocity::ZERO;
            self.clock_set_back = true;
            self.latest = Some(now);
        }
    }

    fn check_command(&self, twist: TwistCommand) -> Command {
        let [x, y, z] = twist.linear;
        let [roll, pitch, turn] = twist.angular;
        if [x, y, z, roll, pitch, turn].iter().any(|n| !n.is_finite()) {
            return Command::Invalid(format!(
                "the command is not finite (linear {x}, {y}, {z}; angular {roll}, {pitch}, {turn}); send finite numbers"
            ));
        }
        // A planar base can't follow these; a command that has them was meant for something else.
        if [z, roll, pitch].iter().any(|n| n.abs() > 1e-6) {
            return Command::Invalid(format!(
                "the command moves out of the plane (linear z {z}, angular x {roll}, y {pitch}); these must be 0"
            ));
        }
        let v = Velocity::new(x, y, turn);
        let p = &self.params;
        if v.linear() > p.absurd_linear || v.angular() > p.absurd_angular {
            return Command::Invalid(format!(
                "the command is {:.3} m/s and {:.3} rad/s, beyond {} m/s and {} rad/s it is taken for a fault",
                v.linear(), v.angular(), p.absurd_linear, p.absurd_angular
            ));
        }
        Command::Usable(v)
    }

    fn look_at_stop(&self, findings: &mut Vec<Finding>) {
        if let Some(newest) = self.stop.newest() {
            let mut message = format!(
                "stop {} asked by \"{}\" ({}) is latched; when it is safe, reset it with \"harness reset\" or the service reset_stop",
                newest.stop_id, newest.source, newest.reason
            );
            if let Some(why) = &self.stop_not_kept {
                message.push_str(&format!("; it is not on the disk yet ({why})"));
            }
            findings.push(stop(Mode::Latched, Reason::StopRequested, message));
        }
    }

    fn look_at_publishers(&self, findings: &mut Vec<Finding>) {
        if self.output_publishers > 1 {
            let mode = if self.params.stop_on_second_publisher {
                Mode::Stop
            } else {
                Mode::Pass
            };
            findings.push(stop(
                mode,
                Reason::SecondPublisher,
                format!(
                    "{} publishers on the output topic, allowed is 1: something drives the base past protection; end it",
                    self.output_publishers
                ),
            ));
        }
    }

    fn look_at_sensors(&self, now: Duration, findings: &mut Vec<Finding>) {
        let p = &self.params;
        if p.require_scan {
            let stale = |what: String| stop(Mode::Stop, Reason::ScanStale, what);
            match &self.scan {
                None => findings.push(stale("no scan was received yet".into())),
                Some(scan) if scan.age(now) > p.scan_timeout => findings.push(stale(format!(
                    "the newest scan is {:.2} s old, the limit is {:.2} s",
                    scan.age(now).as_secs_f64(),
                    p.scan_timeout.as_secs_f64()
                ))),
                Some(Timed { value: Err(e), .. }) => {
                    findings.push(stop(Mode::Stop, Reason::ScanInvalid, e.to_string()));
                }
                Some(Timed { value: Ok(_), .. }) => {}
            }
        }
        if p.require_odom {
            let stale = |what: String| stop(Mode::Stop, Reason::OdomStale, what);
            match &self.odom {
                None => findings.push(stale("no odometry was received yet".into())),
                Some(odom) if odom.age(now) > p.odom_timeout => findings.push(stale(format!(
                    "the newest odometry is {:.2} s old, the limit is {:.2} s",
                    odom.age(now).as_secs_f64(),
                    p.odom_timeout.as_secs_f64()
                ))),
                Some(Timed { value: None, .. }) => findings.push(stale(
                    "the newest odometry has speeds that are not finite or absurd".into(),
                )),
                Some(Timed { value: Some(_), .. }) => {}
            }
        }
    }

    fn look_at_authority(&self, now: Duration, findings: &mut Vec<Finding>) {
        match self
            .authority
            .check(now, self.lease, &self.params.authority)
        {
            Ok(()) => {}
            Err(Refused::NoLease) => findings.push(stop(
                Mode::Stop,
                Reason::NoLease,
                format!(
                    "no control lease covers a declared run (lease {}, newest token {})",
                    if self.lease.alive {
                        "alive"
                    } else {
                        "not held"
                    },
                    self.lease.token
                ),
            )),
            Err(Refused::NoDeclaredRun) => findings.push(stop(
                Mode::Stop,
                Reason::NoDeclaredRun,
                format!(
                    "no executor declared a run within the last {:.2} s",
                    self.params.authority.run_timeout.as_secs_f64()
                ),
            )),
        }
    }

    fn look_at_command(&self, now: Duration, findings: &mut Vec<Finding>) {
        let limit = self.params.command_timeout;
        match &self.command {
            None => findings.push(stop(
                Mode::Stop,
                Reason::CommandTimeout,
                "no command was received yet".into(),
            )),
            Some(command) if command.age(now) > limit => findings.push(stop(
                Mode::Stop,
                Reason::CommandTimeout,
                format!(
                    "the newest command is {:.2} s old, the limit is {:.2} s",
                    command.age(now).as_secs_f64(),
                    limit.as_secs_f64()
                ),
            )),
            Some(Timed {
                value: Command::Invalid(why),
                ..
            }) => findings.push(stop(Mode::Stop, Reason::CommandInvalid, why.clone())),
            Some(Timed {
                value: Command::Usable(v),
                ..
            }) => {
                let p = &self.params;
                let factor = ratio(p.max_linear, v.linear()).min(ratio(p.max_angular, v.angular()));
                if factor < 1.0 {
                    findings.push(slow(
                        Reason::SpeedLimit,
                        factor,
                        format!(
                            "the command is {:.2} m/s and {:.2} rad/s, the limits are {} m/s and {} rad/s",
                            v.linear(), v.angular(), p.max_linear, p.max_angular
                        ),
                    ));
                }
            }
        }
    }

    /// Returns the speed that the clearance allows and the clearance.
    fn look_at_surroundings(&self, wanted: Velocity, findings: &mut Vec<Finding>) -> (f64, f64) {
        let p = &self.params;
        let Some(Timed {
            value: Ok(scan), ..
        }) = &self.scan
        else {
            return (f64::INFINITY, f64::INFINITY);
        };
        if wanted.is_zero() {
            return (f64::INFINITY, f64::INFINITY);
        }
        let outlook = look_ahead(
            &p.footprint,
            scan.points(),
            wanted,
            p.stop_margin,
            horizon(wanted),
        );
        let free_distance = wanted.linear() * outlook.free_time;
        let (speed_limit, clearance) = if outlook.free_time.is_infinite() {
            (f64::INFINITY, f64::INFINITY)
        } else if outlook.free_time == 0.0 {
            (0.0, outlook.nearest_approaching)
        } else {
            (
                p.braking.speed_within(free_distance),
                free_distance + p.stop_margin,
            )
        };
        if outlook.free_time == 0.0 {
            findings.push(stop(
                Mode::Stop,
                Reason::StopZone,
                format!(
                    "something is {:.3} m from the footprint and would come closer, the stop zone is {} m; turn or drive away from it",
                    outlook.nearest_approaching, p.stop_margin
                ),
            ));
            return (speed_limit, clearance);
        }
        let counts_turning = !p.footprint.turns_in_place();
        let factor = p
            .braking
            .factor_within(wanted, outlook.free_time, counts_turning);
        if factor < LEAST_FACTOR {
            findings.push(stop(
                Mode::Stop,
                Reason::StopZone,
                format!("the way is free for {free_distance:.3} m only, too little to move"),
            ));
        } else if factor < 1.0 {
            findings.push(slow(
                Reason::SpeedLimit,
                factor,
                format!(
                    "the way is free for {free_distance:.2} m, which allows {speed_limit:.2} m/s"
                ),
            ));
        }
        if outlook.nearest_approaching <= p.slow_margin {
            let mut factor = ratio(p.slow_linear, wanted.linear());
            if counts_turning {
                factor = factor.min(ratio(p.slow_angular, wanted.angular()));
            }
            if factor < 1.0 {
                findings.push(slow(
                    Reason::SlowZone,
                    factor,
                    format!(
                        "something is {:.2} m from the footprint and comes closer, within {} m the limit is {} m/s",
                        outlook.nearest_approaching, p.slow_margin, p.slow_linear
                    ),
                ));
            }
        }
        if wanted.linear() > p.blind_linear && !scan.sees(wanted.y.atan2(wanted.x)) {
            findings.push(slow(
                Reason::SpeedLimit,
                ratio(p.blind_linear, wanted.linear()),
                format!(
                    "no beam looks in the direction of motion, the limit there is {} m/s",
                    p.blind_linear
                ),
            ));
        }
        (speed_limit, clearance)
    }

    /// The output while stopping.
    fn stopping(&self, since_last: Duration) -> Velocity {
        let p = &self.params;
        match p.strategy {
            StopStrategy::Hold => Velocity::ZERO,
            StopStrategy::ControlledStop => {
                let v = self.output.braked(
                    since_last.as_secs_f64(),
                    p.braking.linear,
                    p.braking.angular,
                );
                // Even an old scan knows what was in the way: a ramp never leads into it.
                let blocked = match &self.scan {
                    Some(Timed {
                        value: Ok(scan), ..
                    }) => {
                        look_ahead(&p.footprint, scan.points(), v, p.stop_margin, 0.0).free_time
                            == 0.0
                    }
                    Some(Timed { value: Err(_), .. }) | None => false,
                };
                if blocked {
                    Velocity::ZERO
                } else {
                    v
                }
            }
        }
    }
}

/// The findings in words, the most restrictive first.
///
/// That nobody drives is no fault: where it is all that is found it is told as such, and beside a latched stop
/// it is what the stop brought about.
fn words(findings: &[Finding]) -> String {
    let at_rest = |f: &&Finding| {
        matches!(
            f.reason,
            Reason::NoLease | Reason::NoDeclaredRun | Reason::CommandTimeout
        )
    };
    let found = |reason| findings.iter().any(|f| f.reason == reason);
    let nobody_drives = found(Reason::NoDeclaredRun) && found(Reason::CommandTimeout);
    if nobody_drives && findings.iter().all(|f| at_rest(&f)) {
        return "no run is declared and no command comes: nobody drives".into();
    }
    let stopped = found(Reason::StopRequested);
    let told: Vec<&str> = findings
        .iter()
        .filter(|f| !(stopped && at_rest(f)))
        .map(|f| f.message.as_str())
        .collect();
    told.join("; also ")
}

fn stop(mode: Mode, reason: Reason, message: String) -> Finding {
    let factor = if mode == Mode::Pass { 1.0 } else { 0.0 };
    Finding {
        mode,
        reason,
        factor,
        message,
    }
}

fn slow(reason: Reason, factor: f64, message: String) -> Finding {
    Finding {
        mode: Mode::Slow,
        reason,
        factor,
        message,
    }
}

/// `limit / value`, at most 1.
fn ratio(limit: f64, value: f64) -> f64 {
    if value > limit {
        limit / value
    } else {
        1.0
    }
}

/// Seconds of the commanded way that are looked at: [`LOOK_AHEAD`] metres, at most one full turn, since an
/// arc comes back to where it began.
fn horizon(v: Velocity) -> f64 {
    let straight = LOOK_AHEAD / v.linear();
    let turn = std::f64::consts::TAU / v.angular();
    straight.min(turn)
}

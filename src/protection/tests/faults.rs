//! Sweep: each fault stops the base, and the reason is the fault's own.

use std::time::Duration;

use eh_contract::skill::DisconnectPolicy;
use eh_contract::state::StopStage;
use eh_protection::authority::{DeclaredRun, LeaseState};
use eh_protection::footprint::{Footprint, Point};
use eh_protection::kept_stop::KeptStop;
use eh_protection::protection::TwistCommand;
use eh_protection::scan::{Scan, ScanError};
use eh_protection::stop::StopRequest;
use eh_protection::{Decision, Mode, Params, Protection, Reason, Velocity};

const FORWARD: Velocity = Velocity::new(0.5, 0.0, 0.0);
const FRESH: Duration = Duration::ZERO;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn params() -> Params {
    let params = Params::for_footprint(Footprint::circle(0.3).unwrap());
    params.check().unwrap();
    params
}

fn scan_with(points: &[(f64, f64)]) -> Result<Scan, ScanError> {
    Scan::from_points(points.iter().map(|&(x, y)| Point::new(x, y)).collect())
}

fn run() -> DeclaredRun {
    DeclaredRun {
        executor: "navigation_skills_node".into(),
        boot_id: "boot".into(),
        run_id: "run".into(),
        token: 1,
        policy: DisconnectPolicy::Stop,
        active: true,
    }
}

/// A base with everything in order that drives forward at `now`.
fn driving(params: Params, now: Duration) -> Protection {
    let mut p = Protection::new(params);
    p.lease(LeaseState {
        alive: true,
        token: 1,
    });
    inputs(&mut p, now, FORWARD);
    let decision = p.decide(now);
    assert_eq!(
        (decision.mode, decision.output),
        (Mode::Pass, FORWARD),
        "{decision:?}"
    );
    p
}

fn inputs(p: &mut Protection, now: Duration, v: Velocity) {
    p.scan(now, FRESH, scan_with(&[]));
    p.odom(now, FRESH, v.linear(), v.angular());
    assert!(p.declared_run(now, run()));
    p.command(now, FRESH, TwistCommand::planar(v));
}

type Fault = fn(&mut Protection);

fn command(linear: [f64; 3], angular: [f64; 3]) -> TwistCommand {
    TwistCommand { linear, angular }
}

#[test]
fn every_fault_stops_with_its_own_reason() {
    let nan = f64::NAN;
    assert!(nan.is_nan());
    let faults: &[(&str, Reason, Fault)] = &[
        ("nan forward", Reason::CommandInvalid, |p| {
            p.command(ms(1000), FRESH, command([f64::NAN, 0.0, 0.0], [0.0; 3]))
        }),
        ("nan upward", Reason::CommandInvalid, |p| {
            p.command(ms(1000), FRESH, command([0.0, 0.0, f64::NAN], [0.0; 3]))
        }),
        ("infinite turn", Reason::CommandInvalid, |p| {
            p.command(
                ms(1000),
                FRESH,
                command([0.0; 3], [0.0, 0.0, f64::INFINITY]),
            )
        }),
        ("out of the plane", Reason::CommandInvalid, |p| {
            p.command(ms(1000), FRESH, command([0.1, 0.0, 0.5], [0.0; 3]))
        }),
        ("absurdly fast", Reason::CommandInvalid, |p| {
            p.command(ms(1000), FRESH, command([50.0, 0.0, 0.0], [0.0; 3]))
        }),
        ("stamp of the scan too old", Reason::ScanStale, |p| {
            p.scan(ms(1000), ms(900), scan_with(&[]))
        }),
        ("broken scan", Reason::ScanInvalid, |p| {
            p.scan(ms(1000), FRESH, Err(ScanError::Empty))
        }),
        ("nan odometry", Reason::OdomStale, |p| {
            p.odom(ms(1000), FRESH, f64::NAN, 0.0)
        }),
        ("huge odometry", Reason::OdomStale, |p| {
            p.odom(ms(1000), FRESH, 1e9, 0.0)
        }),
        ("stamp of the odometry too old", Reason::OdomStale, |p| {
            p.odom(ms(1000), ms(900), 0.5, 0.0)
        }),
        ("lease expired", Reason::NoLease, |p| {
            p.lease(LeaseState {
                alive: false,
                token: 1,
            })
        }),
        ("run ended", Reason::NoDeclaredRun, |p| {
            p.declared_run(
                ms(1000),
                DeclaredRun {
                    active: false,
                    ..run()
                },
            );
        }),
        ("second publisher", Reason::SecondPublisher, |p| {
            p.output_publishers(2)
        }),
        ("something in the stop zone", Reason::StopZone, |p| {
            p.scan(ms(1000), FRESH, scan_with(&[(0.31, 0.0)]))
        }),
        ("something touches", Reason::StopZone, |p| {
            p.scan(ms(1000), FRESH, scan_with(&[(0.2, 0.0)]))
        }),
        ("stop", Reason::StopRequested, |p| {
            p.request_stop(
                ms(1000),
                StopRequest {
                    stop_id: "s".into(),
                    source: "t".into(),
                    reason: "t".into(),
                },
            );
        }),
    ];
    for strategy in ["hold", "controlled_stop"] {
        for (name, reason, fault) in faults {
            let mut params = params();
            params.strategy = eh_protection::params::StopStrategy::from_name(strategy).unwrap();
            let (deceleration, hold) = (params.braking.linear, strategy == "hold");
            let mut p = driving(params, ms(1000));
            fault(&mut p);
            let first = p.decide(ms(1050));
            check(name, &first, *reason);
            // 50 ms of ramp, or nothing at once.
            let most = if hold { 0.0 } else { 0.5 - 0.05 * deceleration };
            assert!(first.output.linear() <= most + 1e-12, "{name}: {first:?}");
            // 0.5 m/s at 1 m/s² is over after 0.5 s.
            let mut last = first;
            for t in (1100..=1600).step_by(50) {
                let next = p.decide(ms(t));
                assert!(next.output.linear() <= last.output.linear(), "{name}");
                last = next;
            }
            assert_eq!(last.output, Velocity::ZERO, "{name}");
        }
    }
}

fn check(name: &str, d: &Decision, reason: Reason) {
    assert_eq!(d.reason, reason, "{name}: {d:?}");
    assert!(d.mode >= Mode::Stop, "{name}: {d:?}");
    assert!(!d.message.is_empty(), "{name}");
    assert!(d.output.is_finite() && d.input.is_finite(), "{name}");
}

#[test]
fn silence_of_each_input_stops_with_its_own_reason() {
    let silent: &[(&str, Reason)] = &[
        ("command", Reason::CommandTimeout),
        ("scan", Reason::ScanStale),
        ("odom", Reason::OdomStale),
        ("run", Reason::NoDeclaredRun),
    ];
    for (which, reason) in silent {
        let mut p = driving(params(), ms(0));
        let mut stopped_at = None;
        for t in (50..=2000).step_by(50) {
            let now = ms(t);
            if *which != "scan" {
                p.scan(now, FRESH, scan_with(&[]));
            }
            if *which != "odom" {
                p.odom(now, FRESH, 0.5, 0.0);
            }
            if *which != "run" {
                p.declared_run(now, run());
            }
            if *which != "command" {
                p.command(now, FRESH, TwistCommand::planar(FORWARD));
            }
            let d = p.decide(now);
            if d.mode >= Mode::Stop && stopped_at.is_none() {
                stopped_at = Some(t);
                assert_eq!(d.reason, *reason, "{which}");
            }
        }
        // The limits are 500 ms each, and decisions are made every 50 ms.
        assert_eq!(stopped_at, Some(550), "{which}");
    }
}

#[test]
fn a_base_that_never_heard_anything_stands_and_says_why() {
    let mut p = Protection::new(params());
    let d = p.decide(ms(0));
    assert_eq!(
        (d.mode, d.reason, d.output),
        (Mode::Stop, Reason::ScanStale, Velocity::ZERO)
    );
    for part in ["scan", "odometry", "run", "command"] {
        assert!(d.message.contains(part), "{}", d.message);
    }
}

#[test]
fn a_base_at_rest_is_told_without_alarm() {
    let mut p = Protection::new(params());
    p.scan(ms(0), FRESH, scan_with(&[]));
    p.odom(ms(0), FRESH, 0.0, 0.0);
    let d = p.decide(ms(0));
    assert_eq!((d.mode, d.reason), (Mode::Stop, Reason::NoDeclaredRun));
    assert_eq!(
        d.message,
        "no run is declared and no command comes: nobody drives"
    );
    // Somebody does, and is not let through.
    p.command(ms(0), FRESH, TwistCommand::planar(FORWARD));
    let d = p.decide(ms(0));
    assert_eq!((d.mode, d.reason), (Mode::Stop, Reason::NoDeclaredRun));
    assert!(d.message.contains("no executor declared"), "{}", d.message);
}

#[test]
fn a_latched_stop_says_how_it_is_reset_and_not_what_follows_from_it() {
    let mut p = driving(params(), ms(0));
    p.request_stop(
        ms(0),
        StopRequest {
            stop_id: "s".into(),
            source: "ann".into(),
            reason: "smoke".into(),
        },
    );
    // Later no run is declared any more, and no command comes; nor do scans.
    for t in [50, 5000] {
        let d = p.decide(ms(t));
        assert_eq!(d.reason, Reason::StopRequested);
        for part in ["ann", "smoke", "harness reset", "reset_stop"] {
            assert_eq!(d.message.matches(part).count(), 1, "{}", d.message);
        }
        assert!(!d.message.contains("declared"), "{}", d.message);
        assert!(!d.message.contains("command"), "{}", d.message);
        assert_eq!(d.message.contains("; also the newest scan"), t == 5000);
    }
}

#[test]
fn a_stop_of_an_earlier_life_is_in_force_from_the_first_decision() {
    let mut open = params();
    open.require_scan = false;
    open.require_odom = false;
    open.authority.require_lease = false;
    open.authority.require_declared_run = false;
    let mut p = Protection::new(open);
    p.resume_stop(
        ms(0),
        KeptStop::Latched(StopRequest {
            stop_id: "s".into(),
            source: "ann".into(),
            reason: "smoke".into(),
        }),
    );
    p.command(ms(0), FRESH, TwistCommand::planar(FORWARD));
    let d = p.decide(ms(0));
    assert_eq!((d.mode, d.output), (Mode::Latched, Velocity::ZERO));
    assert!(d.message.contains("ann") && d.message.contains("smoke"));
    p.stop_not_kept(Some("the disk is full".into()));
    assert!(p.decide(ms(10)).message.contains("the disk is full"));
    p.stop_not_kept(None);
    assert!(!p.decide(ms(20)).message.contains("the disk is full"));
}

#[test]
fn robots_without_a_sensor_can_say_so() {
    let mut open = params();
    open.require_scan = false;
    open.require_odom = false;
    open.authority.require_lease = false;
    open.authority.require_declared_run = false;
    let mut p = Protection::new(open);
    p.command(ms(0), FRESH, TwistCommand::planar(FORWARD));
    assert_eq!(p.decide(ms(0)).output, FORWARD);
}

#[test]
fn near_things_slow_the_base_down() {
    let mut p = driving(params(), ms(0));
    // Free way: 1.0 - 0.3 - 0.03 = 0.67 m allows sqrt(0.04 + 1.34) - 0.2 = 0.975 m/s: no limit at 0.5.
    p.scan(ms(10), FRESH, scan_with(&[(1.0, 0.0)]));
    assert_eq!(p.decide(ms(10)).mode, Mode::Pass);
    // Free way 0.17 m: sqrt(0.04 + 0.34) - 0.2 = 0.416 m/s.
    p.scan(ms(20), FRESH, scan_with(&[(0.5, 0.0)]));
    let d = p.decide(ms(20));
    assert_eq!((d.mode, d.reason), (Mode::Slow, Reason::SpeedLimit));
    assert!((d.output.x - 0.416).abs() < 0.003, "{d:?}");
    assert!((d.speed_limit - d.output.x).abs() < 1e-9);
    assert!((d.clearance - 0.2).abs() < 0.002);
    // A doorpost 0.1 m beside the swept way that still comes closer: slow zone.
    p.scan(ms(30), FRESH, scan_with(&[(0.1, 0.4)]));
    let d = p.decide(ms(30));
    assert_eq!((d.mode, d.reason), (Mode::Slow, Reason::SlowZone));
    assert!((d.output.x - 0.3).abs() < 1e-9);
    // Past it.
    p.scan(ms(40), FRESH, scan_with(&[(-0.1, 0.4)]));
    assert_eq!(p.decide(ms(40)).mode, Mode::Pass);
}

#[test]
fn turning_and_backing_out_of_the_stop_zone_is_allowed() {
    let mut p = driving(params(), ms(0));
    p.scan(ms(10), FRESH, scan_with(&[(0.31, 0.0)]));
    for v in [Velocity::new(0.0, 0.0, 1.0), Velocity::new(-0.2, 0.0, 0.0)] {
        p.command(ms(10), FRESH, TwistCommand::planar(v));
        let d = p.decide(ms(10));
        assert_eq!((d.mode, d.output), (Mode::Pass, v), "{d:?}");
    }
    // Turning while creeping forward is not turning in place.
    p.command(
        ms(10),
        FRESH,
        TwistCommand::planar(Velocity::new(0.01, 0.0, 1.0)),
    );
    assert_eq!(p.decide(ms(10)).reason, Reason::StopZone);
}

#[test]
fn a_ramp_never_leads_into_the_stop_zone() {
    let mut p = driving(params(), ms(0));
    p.scan(ms(10), FRESH, scan_with(&[(0.31, 0.0)]));
    p.lease(LeaseState {
        alive: false,
        token: 1,
    });
    assert_eq!(
        p.decide(ms(10)).output,
        Velocity::ZERO,
        "at once, not by a ramp"
    );
}

#[test]
fn a_direction_that_no_beam_looks_in_is_driven_slowly() {
    let mut p = driving(params(), ms(0));
    // 180 degrees to the front.
    let ranges = [f32::INFINITY; 181];
    let raw = eh_protection::scan::RawScan {
        angle_min: -std::f64::consts::FRAC_PI_2,
        angle_increment: std::f64::consts::PI / 180.0,
        range_min: 0.1,
        range_max: 10.0,
        ranges: &ranges,
    };
    p.scan(
        ms(10),
        FRESH,
        Scan::from_laser(&raw, &Default::default(), 0.1),
    );
    p.command(
        ms(10),
        FRESH,
        TwistCommand::planar(Velocity::new(-0.5, 0.0, 0.0)),
    );
    assert!((p.decide(ms(10)).output.x + 0.1).abs() < 1e-9);
    p.command(ms(10), FRESH, TwistCommand::planar(FORWARD));
    assert_eq!(p.decide(ms(10)).mode, Mode::Pass);
}

#[test]
fn a_stop_is_latched_confirmed_by_motion_and_reset_by_an_operator() {
    let mut p = driving(params(), ms(0));
    let ask = |id: &str| StopRequest {
        stop_id: id.into(),
        source: "test".into(),
        reason: "test".into(),
    };
    p.request_stop(ms(0), ask("one"));
    assert_eq!(p.stop().stage(), StopStage::Requested);
    assert_eq!(p.decide(ms(0)).mode, Mode::Latched);
    assert_eq!(p.stop().stage(), StopStage::Received);
    let mut t = 0;
    while p.stop().stage() != StopStage::Confirmed {
        t += 50;
        assert!(t < 2000, "standstill is never confirmed");
        let output = p.decide(ms(t)).output;
        inputs(&mut p, ms(t), output);
        // The planner goes on commanding.
        p.command(ms(t), FRESH, TwistCommand::planar(FORWARD));
    }
    // 0.5 s of ramp and 0.3 s of standstill.
    assert!((750..=900).contains(&t), "{t}");
    p.request_stop(ms(t), ask("two"));
    assert_eq!(p.stop().newest().unwrap().stop_id, "two");
    assert!(
        p.reset_stop(ms(t), "ann", "clear", false).is_err(),
        "two is not confirmed"
    );
    for _ in 0..10 {
        t += 50;
        inputs(&mut p, ms(t), Velocity::ZERO);
        p.command(ms(t), FRESH, TwistCommand::planar(FORWARD));
        assert_eq!(p.decide(ms(t)).output, Velocity::ZERO);
    }
    let pending = p.reset_stop(ms(t), "ann", "clear", false).unwrap();
    assert_eq!(p.decide(ms(t)).mode, Mode::Latched, "not kept yet");
    p.command(ms(t), FRESH, TwistCommand::planar(FORWARD));
    p.finish_reset(ms(t), &pending, Ok(())).unwrap();
    let d = p.decide(ms(t));
    assert_eq!(
        (d.reason, d.output),
        (Reason::CommandTimeout, Velocity::ZERO),
        "old commands are void"
    );
    p.command(ms(t + 10), FRESH, TwistCommand::planar(FORWARD));
    assert_eq!(p.decide(ms(t + 10)).output, FORWARD);
}

#[test]
fn a_clock_that_is_set_back_stops_until_everything_is_new() {
    let mut p = driving(params(), ms(10_000));
    let d = p.decide(ms(5_000));
    assert_eq!(d.output, Velocity::ZERO);
    assert!(d.mode >= Mode::Stop);
    inputs(&mut p, ms(5_010), FORWARD);
    assert_eq!(p.decide(ms(5_010)).output, FORWARD);
}

#[test]
fn without_a_lease_only_a_run_that_may_finish_goes_on() {
    let mut p = driving(params(), ms(0));
    p.declared_run(
        ms(10),
        DeclaredRun {
            policy: DisconnectPolicy::Finish,
            ..run()
        },
    );
    p.lease(LeaseState {
        alive: false,
        token: 1,
    });
    assert_eq!(p.decide(ms(10)).output, FORWARD);
}

#[test]
fn a_second_publisher_can_be_an_alarm_only() {
    let mut params = params();
    params.stop_on_second_publisher = false;
    let mut p = driving(params, ms(0));
    p.output_publishers(2);
    let d = p.decide(ms(10));
    assert_eq!(
        (d.mode, d.reason, d.output),
        (Mode::Pass, Reason::SecondPublisher, FORWARD)
    );
}

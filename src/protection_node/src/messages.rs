//! Conversions between messages and the types of `eh_protection`.

use std::time::Duration;

use eh_contract::skill::DisconnectPolicy;
use eh_protection::authority::DeclaredRun;
use eh_protection::lease::LeaseView;
use eh_protection::protection::TwistCommand;
use eh_protection::scan::{Mounting, RawScan, Scan, ScanError};
use eh_protection::{Decision, Protection, Velocity};
use eh_ros_edge::convert::{duration_msg, time_msg};
use ros_env::embodied_harness::msg;
use ros_env::geometry_msgs::msg::Twist;
use ros_env::sensor_msgs::msg::LaserScan;

pub(crate) fn twist(v: Velocity) -> Twist {
    let mut twist = Twist::default();
    twist.linear.x = v.x;
    twist.linear.y = v.y;
    twist.angular.z = v.turn;
    twist
}

pub(crate) fn twist_command(twist: &Twist) -> TwistCommand {
    let (l, a) = (&twist.linear, &twist.angular);
    TwistCommand {
        linear: [l.x, l.y, l.z],
        angular: [a.x, a.y, a.z],
    }
}

pub(crate) fn scan(
    message: &LaserScan,
    mounting: &Mounting,
    max_invalid: f64,
) -> Result<Scan, ScanError> {
    let raw = RawScan {
        angle_min: message.angle_min.into(),
        angle_increment: message.angle_increment.into(),
        range_min: message.range_min.into(),
        range_max: message.range_max.into(),
        ranges: &message.ranges,
    };
    Scan::from_laser(&raw, mounting, max_invalid)
}

pub(crate) fn declared_run(message: msg::DeclaredRun) -> DeclaredRun {
    let policy = match message.disconnect_policy {
        msg::SkillDescriptor::DISCONNECT_FINISH => DisconnectPolicy::Finish,
        msg::SkillDescriptor::DISCONNECT_HOLD => DisconnectPolicy::Hold,
        // Stop, and every number that has no meaning.
        _ => DisconnectPolicy::Stop,
    };
    DeclaredRun {
        executor: message.executor,
        boot_id: message.boot_id,
        run_id: message.run_id,
        token: message.fencing_token,
        policy,
        active: message.active,
    }
}

pub(crate) fn lease(view: LeaseView) -> msg::ControlLease {
    // Lifetimes are bounded by parameters, far below what a message holds.
    let duration = |d: Duration| {
        duration_msg(i64::try_from(d.as_nanos()).unwrap_or(i64::MAX)).unwrap_or_default()
    };
    msg::ControlLease {
        controller_id: view.controller_id,
        token: view.token,
        ttl: duration(view.ttl),
        remaining: duration(view.remaining),
    }
}

pub(crate) fn state(
    protection: &Protection,
    decision: &Decision,
    now: Duration,
    stamp_ns: i64,
    output_publishers: usize,
) -> msg::ProtectionState {
    let age = |age: Option<Duration>| age.map_or(f64::INFINITY, |age| age.as_secs_f64());
    let (linear, angular) = protection.measured(now).unwrap_or((f64::NAN, f64::NAN));
    let newest = protection.stop().newest();
    msg::ProtectionState {
        stamp: time_msg(stamp_ns).unwrap_or_default(),
        mode: decision.mode.to_wire(),
        reason: decision.reason.to_wire(),
        message: decision.message.clone(),
        input: twist(decision.input),
        output: twist(decision.output),
        speed_limit: decision.speed_limit,
        clearance: decision.clearance,
        command_age: age(decision.command_age),
        scan_age: age(decision.scan_age),
        odom_age: age(decision.odom_age),
        stop_id: newest.map(|r| r.stop_id.clone()).unwrap_or_default(),
        stop_source: newest.map(|r| r.source.clone()).unwrap_or_default(),
        stop_stage: protection.stop().stage().to_wire(),
        stop_latched: protection.stop().is_latched(),
        measured_linear: linear,
        measured_angular: angular,
        output_publishers: u32::try_from(output_publishers).unwrap_or(u32::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eh_protection::{Mode, Reason};
    use msg::ProtectionState as State;

    #[test]
    fn numbers_in_messages_are_those_of_the_interface() {
        let modes = [
            (Mode::Pass, State::MODE_PASS),
            (Mode::Slow, State::MODE_SLOW),
            (Mode::Stop, State::MODE_STOP),
            (Mode::Latched, State::MODE_LATCHED),
        ];
        for (mode, number) in modes {
            assert_eq!(mode.to_wire(), number);
        }
        let numbers = [
            State::REASON_NONE,
            State::REASON_STOP_REQUESTED,
            State::REASON_STOP_ZONE,
            State::REASON_SLOW_ZONE,
            State::REASON_COMMAND_TIMEOUT,
            State::REASON_SCAN_STALE,
            State::REASON_SCAN_INVALID,
            State::REASON_ODOM_STALE,
            State::REASON_COMMAND_INVALID,
            State::REASON_NO_LEASE,
            State::REASON_SECOND_PUBLISHER,
            State::REASON_SPEED_LIMIT,
            State::REASON_NO_DECLARED_RUN,
        ];
        assert_eq!(Reason::ALL.map(Reason::to_wire), numbers);
    }

    #[test]
    fn unknown_policies_stop() {
        for (number, policy) in [
            (0, DisconnectPolicy::Finish),
            (1, DisconnectPolicy::Hold),
            (2, DisconnectPolicy::Stop),
            (9, DisconnectPolicy::Stop),
        ] {
            let run = msg::DeclaredRun {
                disconnect_policy: number,
                ..Default::default()
            };
            assert_eq!(declared_run(run).policy, policy);
        }
    }
}

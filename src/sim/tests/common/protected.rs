//! The real protection between the navigator and the base, at the rates of the ROS graph.

use std::time::Duration;

use eh_contract::skill::DisconnectPolicy;
use eh_protection::authority::{DeclaredRun, LeaseState};
use eh_protection::footprint::Footprint;
use eh_protection::protection::TwistCommand;
use eh_protection::scan::{Mounting, RawScan, Scan};
use eh_protection::{Mode, Params, Protection, Reason};
use eh_sim::{NavStatus, Pose2, Robot, Velocity};

use super::TICK;

/// Steps of 20 ms between scans (12.5 Hz), and between decisions (25 Hz).
const SCAN_STEPS: u64 = 4;
const DECISION_STEPS: u64 = 2;

/// What params/protection_node.yaml says.
fn shipped() -> Params {
    let mut p = Params::for_footprint(Footprint::circle(0.27).unwrap());
    p.stop_margin = 0.02;
    p.slow_margin = 0.12;
    p.slow_linear = 0.35;
    p.braking.linear = 1.2;
    p.command_timeout = Duration::from_millis(400);
    p.check().unwrap();
    p
}

/// How a protected drive went.
#[derive(Debug, Clone)]
pub struct Drive {
    pub status: NavStatus,
    pub took: Duration,
    /// Length of the way at the start, metres.
    pub way: f64,
    /// The longest time without a break in which something in the stop zone held the base.
    pub longest_hold: Duration,
    /// Whether the last decision before the end was a hold.
    pub ended_held: bool,
    pub recoveries: u32,
}

/// A robot whose navigator is heard by the base only through the protection.
pub struct Protected {
    pub robot: Robot,
    protection: Protection,
    steps: u64,
}

impl Protected {
    pub fn new(robot: Robot) -> Self {
        Self {
            robot,
            protection: Protection::new(shipped()),
            steps: 0,
        }
    }

    /// One step of 20 ms; whether something in the stop zone holds the base.
    pub fn tick(&mut self) -> bool {
        let now = self.robot.now();
        let p = &mut self.protection;
        let run = DeclaredRun {
            executor: "navigation".into(),
            boot_id: "boot".into(),
            run_id: "run".into(),
            token: 1,
            policy: DisconnectPolicy::Stop,
            active: true,
        };
        p.lease(LeaseState {
            alive: true,
            token: 1,
        });
        assert!(p.declared_run(now, run));
        let (_, speed) = self.robot.odometry();
        p.odom(now, Duration::ZERO, speed.linear, speed.angular);
        if self.steps % SCAN_STEPS == 0 {
            if let Some(scan) = self.robot.scan() {
                let raw = RawScan {
                    angle_min: scan.angle_min,
                    angle_increment: scan.angle_increment,
                    range_min: scan.range_min,
                    range_max: scan.range_max,
                    ranges: &scan.ranges,
                };
                let mount = eh_sim::lidar::MOUNT;
                let mounting = Mounting {
                    x: mount.x,
                    y: mount.y,
                    yaw: mount.yaw,
                    inverted: false,
                };
                p.scan(now, Duration::ZERO, Scan::from_laser(&raw, &mounting, 0.2));
            }
        }
        if let Some(wish) = self.robot.nav_velocity() {
            let wish = eh_protection::Velocity::new(wish.linear, 0.0, wish.angular);
            p.command(now, Duration::ZERO, TwistCommand::planar(wish));
        }
        let mut held = false;
        if self.steps % DECISION_STEPS == 0 {
            let decision = p.decide(now);
            held = decision.mode >= Mode::Stop && decision.reason == Reason::StopZone;
            let out = Velocity::new(decision.output.x, decision.output.turn);
            self.robot.set_velocity_command(out).unwrap();
        }
        self.robot.step(TICK).unwrap();
        self.steps += 1;
        held
    }

    /// Drives until the goal ends, or for `most` at most: then the status is still active.
    pub fn drive(&mut self, goal: Pose2, most: Duration) -> Drive {
        let began = self.robot.now();
        let id = self.robot.navigate("map", goal).unwrap();
        let mut drive = Drive {
            status: self.robot.nav_status(id).unwrap(),
            took: Duration::ZERO,
            way: 0.0,
            longest_hold: Duration::ZERO,
            ended_held: false,
            recoveries: 0,
        };
        if let NavStatus::Active(f) = &drive.status {
            drive.way = f.distance_remaining;
        }
        let mut held_since: Option<Duration> = None;
        while !drive.status.is_terminal() && drive.took < most {
            let decided = self.steps % DECISION_STEPS == 0;
            let held = self.tick();
            if decided {
                drive.ended_held = held;
                held_since = held.then(|| held_since.unwrap_or(self.robot.now()));
                if let Some(since) = held_since {
                    drive.longest_hold = drive.longest_hold.max(self.robot.now() - since);
                }
            }
            drive.status = self.robot.nav_status(id).unwrap();
            if let NavStatus::Active(f) = &drive.status {
                drive.recoveries = f.recoveries;
            }
            drive.took = self.robot.now() - began;
        }
        drive
    }
}

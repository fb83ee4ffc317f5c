//! The arm in motion: follows planned motions within its speeds, and stops along them.

use crate::arm_error_code::ArmErrorCode;
use crate::arm_kinematics::{Joints, SPEEDS, STOW};
use crate::arm_planner::{mix, ArmPlan};

/// How fast the speed along a motion may grow or fall, full speeds per second: 0.25 s to full speed.
const RAMP: f64 = 4.0;

/// How an arm goal stands.
#[derive(Debug, Clone, PartialEq)]
pub enum ArmStatus {
    /// It is planned or carried out.
    Active {
        /// The share of the motion that is done, 0 … 1.
        progress: f64,
    },
    /// The arm is there.
    Succeeded,
    /// It failed.
    Aborted {
        /// Why, as MoveIt numbers it; a fault may give any number.
        code: i32,
        /// Why, in words.
        message: String,
    },
    /// The caller called it off; the arm stands still.
    Canceled,
    /// A newer goal took its place; the arm stood still before that one began.
    Preempted,
}

impl ArmStatus {
    /// The abort of a code.
    #[must_use]
    pub fn aborted(code: ArmErrorCode, message: String) -> Self {
        Self::Aborted {
            code: code.code(),
            message,
        }
    }

    /// Whether the goal has ended.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        !matches!(self, Self::Active { .. })
    }
}

/// How a motion ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MotionEnd {
    /// At its end.
    Completed,
    /// On the way, at rest.
    Stopped,
}

#[derive(Debug, Clone)]
struct Motion {
    legs: Vec<Vec<Joints>>,
    leg: usize,
    /// Position along the leg, in seconds at full speed.
    at: f64,
    /// Speed along the leg, 1 being full.
    rate: f64,
    scale: f64,
    stopping: bool,
    total: f64,
    done: f64,
}

/// The arm as it is.
#[derive(Debug, Clone)]
pub struct Arm {
    q: Joints,
    speed: Joints,
    motion: Option<Motion>,
}

impl Default for Arm {
    fn default() -> Self {
        Self {
            q: STOW,
            speed: [0.0; 5],
            motion: None,
        }
    }
}

impl Arm {
    /// Joint positions, radians.
    #[must_use]
    pub fn positions(&self) -> Joints {
        self.q
    }

    /// Joint speeds, rad/s.
    #[must_use]
    pub fn speeds(&self) -> Joints {
        self.speed
    }

    /// Whether a motion is under way.
    #[must_use]
    pub fn is_moving(&self) -> bool {
        self.motion.is_some()
    }

    /// The share of the motion that is done, 0 … 1.
    #[must_use]
    pub fn progress(&self) -> f64 {
        self.motion
            .as_ref()
            .map_or(1.0, |m| ((m.done + m.at) / m.total.max(1e-9)).min(1.0))
    }

    /// Begins a motion from rest. `scale`: the share of full speed to use, 0.01 … 1.
    pub fn start(&mut self, plan: ArmPlan, scale: f64) {
        let total = plan.legs.iter().map(|l| duration(l)).sum();
        self.motion = Some(Motion {
            legs: plan.legs,
            leg: 0,
            at: 0.0,
            rate: 0.0,
            scale: scale.clamp(0.01, 1.0),
            stopping: false,
            total,
            done: 0.0,
        });
    }

    /// Slows down along the motion to rest.
    pub fn stop(&mut self) {
        if let Some(motion) = &mut self.motion {
            motion.stopping = true;
        }
    }

    /// Moves on by `dt` seconds; says when a motion ended.
    pub fn step(&mut self, dt: f64) -> Option<MotionEnd> {
        let before = self.q;
        let end = self.follow(dt);
        for ((speed, now), then) in self.speed.iter_mut().zip(self.q).zip(before) {
            *speed = if end.is_some() || dt <= 0.0 {
                0.0
            } else {
                (now - then) / dt
            };
        }
        end
    }

    fn follow(&mut self, dt: f64) -> Option<MotionEnd> {
        let motion = self.motion.as_mut()?;
        let Some(leg) = motion.legs.get(motion.leg) else {
            self.motion = None;
            return Some(MotionEnd::Completed);
        };
        let length = duration(leg);
        let left = length - motion.at;
        if motion.stopping {
            motion.rate -= RAMP * dt;
            if motion.rate <= 0.0 {
                self.motion = None;
                return Some(MotionEnd::Stopped);
            }
        } else {
            // v² = 2·a·s: the rate from which it can still come to rest at the leg's end.
            let braking = (2.0 * RAMP * left.max(0.0)).sqrt().max(0.02);
            motion.rate = (motion.rate + RAMP * dt).min(motion.scale).min(braking);
        }
        motion.at = (motion.at + motion.rate * dt).min(length);
        if let Some(q) = sample(leg, motion.at) {
            self.q = q;
        }
        if length - motion.at <= 1e-6 {
            motion.done += length;
            motion.at = 0.0;
            motion.rate = 0.0;
            motion.leg += 1;
            if motion.leg >= motion.legs.len() {
                self.motion = None;
                return Some(MotionEnd::Completed);
            }
        }
        None
    }
}

/// Time from one position to another at full speed, seconds: that of the slowest joint.
fn hop(a: &Joints, b: &Joints) -> f64 {
    a.iter()
        .zip(b)
        .zip(SPEEDS)
        .map(|((a, b), v)| (b - a).abs() / v)
        .fold(0.0, f64::max)
}

fn duration(leg: &[Joints]) -> f64 {
    leg.iter()
        .zip(leg.iter().skip(1))
        .map(|(a, b)| hop(a, b))
        .sum()
}

fn sample(leg: &[Joints], at: f64) -> Option<Joints> {
    let mut left = at;
    for (a, b) in leg.iter().zip(leg.iter().skip(1)) {
        let time = hop(a, b);
        if left <= time {
            return Some(if time > 0.0 {
                mix(a, b, left / time)
            } else {
                *b
            });
        }
        left -= time;
    }
    leg.last().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_joint(angle: f64) -> ArmPlan {
        let mut end = STOW;
        end[0] = angle;
        ArmPlan {
            legs: vec![vec![STOW, end]],
        }
    }

    #[test]
    fn a_motion_keeps_the_speed_limits_and_takes_the_trapezoid_time() {
        let mut arm = Arm::default();
        arm.start(one_joint(1.6), 1.0);
        let mut steps = 0;
        loop {
            let end = arm.step(0.005);
            assert!(arm.speeds()[0].abs() <= SPEEDS[0] + 1e-9);
            steps += 1;
            if end == Some(MotionEnd::Completed) {
                break;
            }
            assert!(steps < 1000);
        }
        assert!((arm.positions()[0] - 1.6).abs() < 1e-9);
        // Length 1 s at full speed, ramps of 1/4 s each: T = 1 + 1/4 = 1.25 s; the steps of 5 ms
        // err by a few of them.
        let time = f64::from(steps) * 0.005;
        assert!((1.22..1.30).contains(&time), "{time}");
        assert_eq!(arm.speeds(), [0.0; 5]);
    }

    #[test]
    fn a_stop_slows_down_along_the_motion() {
        let mut arm = Arm::default();
        arm.start(one_joint(2.0), 1.0);
        for _ in 0..100 {
            assert_eq!(arm.step(0.005), None);
        }
        let (at, speed) = (arm.positions()[0], arm.speeds()[0]);
        arm.stop();
        let mut steps = 0;
        while arm.step(0.005).is_none() {
            steps += 1;
        }
        // Full speed 1.6 rad/s falls in 0.25 s, 50 steps, over 1.6·0.25/2 = 0.2 rad.
        assert!((speed - 1.6).abs() < 1e-6);
        assert!((48..=51).contains(&steps), "{steps}");
        assert!((arm.positions()[0] - at - 0.2).abs() < 0.01);
        assert!(!arm.is_moving());
    }
}

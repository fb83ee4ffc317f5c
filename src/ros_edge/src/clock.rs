//! Time as plain numbers: a node's own clock, and the steady clock.

use std::time::Instant;

use rclrs::{Clock, ClockType, Node};

/// The clocks that a node's budgets and stamps are read from. Clones are the same clocks.
#[derive(Clone)]
pub struct NodeClock {
    ros: Clock,
    origin: Instant,
    budgets_in_ros_time: bool,
}

impl NodeClock {
    /// Creates the clocks of a node.
    ///
    /// With the parameter `use_sim_time`, budgets are in ROS time too, so that all nodes of a simulation
    /// that is faster or slower than real time agree; else they are on the local steady clock.
    pub fn of(node: &Node) -> Self {
        let ros = node.get_clock();
        let budgets_in_ros_time = matches!(ros.clock_type(), ClockType::RosTime);
        Self {
            ros,
            origin: Instant::now(),
            budgets_in_ros_time,
        }
    }

    /// Whether `use_sim_time` is set, so that ROS time can stand still, jump, or run at another speed.
    pub fn is_simulated(&self) -> bool {
        self.budgets_in_ros_time
    }

    /// ROS time in nanoseconds since the epoch, for stamps. Zero in simulation until the first `/clock`.
    pub fn ros_ns(&self) -> i64 {
        self.ros.now().nsec
    }

    /// ROS time in seconds since the epoch, for stamps.
    pub fn ros_s(&self) -> f64 {
        seconds(self.ros_ns())
    }

    /// The local steady clock in nanoseconds since this value was created: never goes back, never jumps.
    pub fn steady_ns(&self) -> i64 {
        // 2^63 ns are 292 years of uptime.
        i64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(i64::MAX)
    }

    /// The local steady clock in seconds since this value was created.
    pub fn steady_s(&self) -> f64 {
        seconds(self.steady_ns())
    }

    /// The clock that budgets and watchdogs are measured on, in nanoseconds; only differences count.
    pub fn budget_ns(&self) -> i64 {
        if self.budgets_in_ros_time {
            self.ros_ns()
        } else {
            self.steady_ns()
        }
    }

    /// The clock that budgets and watchdogs are measured on, in seconds; only differences count.
    pub fn budget_s(&self) -> f64 {
        seconds(self.budget_ns())
    }
}

/// Nanoseconds as seconds. Exact to a microsecond for the dates of this century.
pub fn seconds(nanoseconds: i64) -> f64 {
    const PER_SECOND: i64 = 1_000_000_000;
    (nanoseconds / PER_SECOND) as f64 + (nanoseconds % PER_SECOND) as f64 / PER_SECOND as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_keep_the_sign_and_the_fraction() {
        assert_eq!(seconds(0), 0.0);
        assert_eq!(seconds(1_500_000_000), 1.5);
        assert_eq!(seconds(-250_000_000), -0.25);
        // 2026-11-30 12:00:00.000001: a double has 52 bits of fraction and the seconds need 31, which
        // leaves 2^-22 s, a quarter of a microsecond.
        assert!((seconds(1_796_040_000_000_001_000) - 1_796_040_000.000_001).abs() < 3e-7);
    }
}

//! What a robot's protection is set to.

use std::time::Duration;

use thiserror::Error;

use crate::authority::AuthorityRules;
use crate::footprint::{Footprint, FootprintError};
use crate::lease::LeaseTimes;
use crate::speed_limit::Braking;
use crate::standstill::StandstillLimits;

/// How the base is brought to zero. It belongs to the embodiment: cutting the speed at once can tip a tall
/// robot or spill what it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopStrategy {
    /// The output falls with the braking deceleration along the last direction, unless that leads towards
    /// something in the stop zone: then it is zero at once.
    ControlledStop,
    /// The output is zero at once; the base holds its position by its own means.
    Hold,
}

impl StopStrategy {
    /// The strategy of a parameter value.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "controlled_stop" => Some(StopStrategy::ControlledStop),
            "hold" => Some(StopStrategy::Hold),
            _ => None,
        }
    }
}

/// Why parameters are refused.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ParamsError {
    /// The outline.
    #[error(transparent)]
    Footprint(#[from] FootprintError),
    /// A number outside its range.
    #[error("{name} is {value}; it must be between {least} and {most}")]
    Range {
        /// Which parameter.
        name: &'static str,
        /// Its value.
        value: f64,
        /// Least allowed value.
        least: f64,
        /// Greatest allowed value.
        most: f64,
    },
    /// Two numbers that do not fit each other.
    #[error("{smaller} is {small}, above {larger} which is {large}; it must not be larger")]
    Order {
        /// The one that has to be smaller.
        smaller: &'static str,
        /// Its value.
        small: f64,
        /// The one that has to be larger.
        larger: &'static str,
        /// Its value.
        large: f64,
    },
}

/// Everything that a decision depends on besides the inputs. Check it with [`Params::check`].
#[derive(Clone, Debug, PartialEq)]
pub struct Params {
    /// Outline of the robot.
    pub footprint: Footprint,
    /// Returns within this distance of the footprint are in the stop zone \[m\].
    pub stop_margin: f64,
    /// Returns within this distance of the footprint that come closer slow the base down \[m\].
    pub slow_margin: f64,
    /// Largest speed towards something in the slow zone [m/s].
    pub slow_linear: f64,
    /// Largest turning rate towards something in the slow zone [rad/s]; turns of a round robot are free.
    pub slow_angular: f64,
    /// Largest speed that is given out [m/s].
    pub max_linear: f64,
    /// Largest turning rate that is given out [rad/s].
    pub max_angular: f64,
    /// A command above this is a fault, not a wish [m/s].
    pub absurd_linear: f64,
    /// A command above this is a fault, not a wish [rad/s].
    pub absurd_angular: f64,
    /// Largest speed in a direction that no beam looks in [m/s].
    pub blind_linear: f64,
    /// How the base brakes.
    pub braking: Braking,
    /// How it is brought to zero.
    pub strategy: StopStrategy,
    /// A command older than this moves nothing.
    pub command_timeout: Duration,
    /// A scan older than this stops the base.
    pub scan_timeout: Duration,
    /// Odometry older than this stops the base.
    pub odom_timeout: Duration,
    /// False: a robot without a laser.
    pub require_scan: bool,
    /// False: a robot without odometry; stops are then never confirmed.
    pub require_odom: bool,
    /// Whether a second publisher of the output stops ours, besides the alarm.
    pub stop_on_second_publisher: bool,
    /// What counts as standing.
    pub standstill: StandstillLimits,
    /// Time in which a stop has to be confirmed.
    pub stop_budget: Duration,
    /// Lease and declared runs.
    pub authority: AuthorityRules,
    /// Lifetimes of leases.
    pub lease: LeaseTimes,
}

/// The limits that may be changed while the robot drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// [`Params::slow_margin`].
    SlowMargin,
    /// [`Params::slow_linear`].
    SlowLinear,
    /// [`Params::slow_angular`].
    SlowAngular,
    /// [`Params::max_linear`].
    MaxLinear,
    /// [`Params::max_angular`].
    MaxAngular,
    /// [`Params::blind_linear`].
    BlindLinear,
}

impl Params {
    /// These parameters with another value of one limit.
    ///
    /// # Errors
    /// [`ParamsError`] if it does not fit, or not to the others.
    pub fn with_limit(&self, limit: Limit, value: f64) -> Result<Self, ParamsError> {
        let mut changed = self.clone();
        *match limit {
            Limit::SlowMargin => &mut changed.slow_margin,
            Limit::SlowLinear => &mut changed.slow_linear,
            Limit::SlowAngular => &mut changed.slow_angular,
            Limit::MaxLinear => &mut changed.max_linear,
            Limit::MaxAngular => &mut changed.max_angular,
            Limit::BlindLinear => &mut changed.blind_linear,
        } = value;
        changed.check()?;
        Ok(changed)
    }

    /// Sensible values for a small round base that drives indoors.
    pub fn for_footprint(footprint: Footprint) -> Self {
        Params {
            footprint,
            stop_margin: 0.03,
            slow_margin: 0.15,
            slow_linear: 0.3,
            slow_angular: 0.8,
            max_linear: 1.0,
            max_angular: 2.0,
            absurd_linear: 5.0,
            absurd_angular: 15.0,
            blind_linear: 0.1,
            braking: Braking {
                reaction_time: 0.2,
                linear: 1.0,
                angular: 3.0,
            },
            strategy: StopStrategy::ControlledStop,
            command_timeout: Duration::from_millis(500),
            scan_timeout: Duration::from_millis(500),
            odom_timeout: Duration::from_millis(500),
            require_scan: true,
            require_odom: true,
            stop_on_second_publisher: true,
            standstill: StandstillLimits {
                linear: 0.01,
                angular: 0.02,
                window: Duration::from_millis(300),
                max_gap: Duration::from_millis(250),
            },
            stop_budget: Duration::from_secs(3),
            authority: AuthorityRules {
                require_lease: true,
                require_declared_run: true,
                run_timeout: Duration::from_millis(500),
            },
            lease: LeaseTimes {
                min: Duration::from_millis(500),
                default: Duration::from_secs(3),
                max: Duration::from_secs(60),
            },
        }
    }

    /// Checks ranges and order.
    ///
    /// # Errors
    /// [`ParamsError`] that names the parameter, its value and the limits.
    pub fn check(&self) -> Result<(), ParamsError> {
        let s = |d: Duration| d.as_secs_f64();
        let ranges = [
            ("stop_margin", self.stop_margin, 0.0, 2.0),
            ("slow_margin", self.slow_margin, 0.0, 5.0),
            ("slow_linear_speed", self.slow_linear, 0.0, 5.0),
            ("slow_angular_speed", self.slow_angular, 0.0, 10.0),
            ("max_linear_speed", self.max_linear, 0.01, 10.0),
            ("max_angular_speed", self.max_angular, 0.01, 20.0),
            ("absurd_linear_speed", self.absurd_linear, 0.01, 100.0),
            ("absurd_angular_speed", self.absurd_angular, 0.01, 100.0),
            ("blind_linear_speed", self.blind_linear, 0.0, 5.0),
            ("reaction_time", self.braking.reaction_time, 0.01, 5.0),
            ("deceleration", self.braking.linear, 0.05, 20.0),
            ("angular_deceleration", self.braking.angular, 0.05, 50.0),
            ("command_timeout", s(self.command_timeout), 0.02, 5.0),
            ("scan_timeout", s(self.scan_timeout), 0.02, 5.0),
            ("odom_timeout", s(self.odom_timeout), 0.02, 5.0),
            ("standstill_linear", self.standstill.linear, 1e-4, 0.2),
            ("standstill_angular", self.standstill.angular, 1e-4, 0.5),
            ("standstill_window", s(self.standstill.window), 0.05, 5.0),
            ("stop_budget", s(self.stop_budget), 0.1, 60.0),
            (
                "declared_run_timeout",
                s(self.authority.run_timeout),
                0.05,
                5.0,
            ),
            ("lease_ttl_min", s(self.lease.min), 0.05, 60.0),
            ("lease_ttl_default", s(self.lease.default), 0.05, 600.0),
            ("lease_ttl_max", s(self.lease.max), 0.05, 3600.0),
        ];
        for (name, value, least, most) in ranges {
            if !(value.is_finite() && value >= least && value <= most) {
                return Err(ParamsError::Range {
                    name,
                    value,
                    least,
                    most,
                });
            }
        }
        let orders = [
            (
                "stop_margin",
                self.stop_margin,
                "slow_margin",
                self.slow_margin,
            ),
            (
                "max_linear_speed",
                self.max_linear,
                "absurd_linear_speed",
                self.absurd_linear,
            ),
            (
                "max_angular_speed",
                self.max_angular,
                "absurd_angular_speed",
                self.absurd_angular,
            ),
            (
                "lease_ttl_min",
                s(self.lease.min),
                "lease_ttl_default",
                s(self.lease.default),
            ),
            (
                "lease_ttl_default",
                s(self.lease.default),
                "lease_ttl_max",
                s(self.lease.max),
            ),
            (
                "standstill_window",
                s(self.standstill.window),
                "stop_budget",
                s(self.stop_budget),
            ),
        ];
        for (smaller, small, larger, large) in orders {
            if small > large {
                return Err(ParamsError::Order {
                    smaller,
                    small,
                    larger,
                    large,
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params() -> Params {
        Params::for_footprint(Footprint::circle(0.3).unwrap())
    }

    #[test]
    fn defaults_pass_and_odd_values_are_named() {
        assert_eq!(params().check(), Ok(()));
        let bad = Params {
            stop_margin: f64::NAN,
            ..params()
        };
        assert!(matches!(
            bad.check(),
            Err(ParamsError::Range {
                name: "stop_margin",
                ..
            })
        ));
        let bad = Params {
            slow_margin: 0.01,
            ..params()
        };
        assert!(matches!(
            bad.check(),
            Err(ParamsError::Order {
                smaller: "stop_margin",
                ..
            })
        ));
        let mut bad = params();
        bad.braking.linear = 0.0;
        assert!(matches!(
            bad.check(),
            Err(ParamsError::Range {
                name: "deceleration",
                ..
            })
        ));
    }

    #[test]
    fn a_changed_limit_has_to_fit_to_the_others() {
        let limits = [
            (Limit::SlowMargin, 0.5),
            (Limit::SlowLinear, 0.2),
            (Limit::SlowAngular, 0.3),
            (Limit::MaxLinear, 0.7),
            (Limit::MaxAngular, 1.5),
            (Limit::BlindLinear, 0.05),
        ];
        for (limit, value) in limits {
            let changed = params().with_limit(limit, value).unwrap();
            assert_ne!(changed, params(), "{limit:?}");
            assert_eq!(changed.with_limit(limit, value).as_ref(), Ok(&changed));
            assert!(params().with_limit(limit, f64::NAN).is_err(), "{limit:?}");
            assert!(params().with_limit(limit, -0.1).is_err(), "{limit:?}");
        }
        // The stop margin is 0.03 m, absurd is above 5 m/s.
        for (limit, value) in [(Limit::SlowMargin, 0.02), (Limit::MaxLinear, 6.0)] {
            let refused = params().with_limit(limit, value);
            assert!(
                matches!(refused, Err(ParamsError::Order { .. })),
                "{limit:?}"
            );
        }
    }
}

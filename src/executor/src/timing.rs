//! The times that are no parameters.

use std::time::Duration;

/// Time between two looks while something runs.
pub(crate) const LOOK: Duration = Duration::from_millis(20);

/// The same while nothing does.
pub(crate) const IDLE: Duration = Duration::from_millis(200);

/// How often an open goal is looked after.
pub(crate) const LOOK_AFTER: Duration = Duration::from_millis(500);

/// A result that was asked for this long ago is asked for again: the answer may be lost.
pub(crate) const ASK_ANEW: Duration = Duration::from_secs(10);

/// How long one answer about a goal is waited for before it is asked again, when it matters now.
pub(crate) const ANSWER: Duration = Duration::from_millis(250);

/// How often a server is asked about a goal of somebody else that is in the way: the status message that names
/// it may be that of a server that has died since.
pub(crate) const ASK_ABOUT_OTHERS: Duration = Duration::from_secs(2);

/// A goal is asked to cancel again after this long: servers refuse a cancel while they accept a goal.
pub(crate) const CANCEL_AGAIN: Duration = Duration::from_millis(300);

/// A server that says "unknown" this many times about a goal will not change its mind.
pub(crate) const UNKNOWN_ANSWERS: u32 = 3;

/// How long the servers of goals of an earlier life are waited for; discovery takes seconds on a busy
/// machine.
pub(crate) const DISCOVERY: Duration = Duration::from_secs(5);

/// How long a command waits before it starts for what streams to be heard: odometry, transforms and joints
/// that were not listened to while nothing was to be done.
pub(crate) const AWAKE: Duration = Duration::from_millis(1500);

/// How often new camera frames are looked for.
pub(crate) const FRAMES: Duration = Duration::from_millis(50);

/// Period of `declared_runs`, as in msg/DeclaredRun.msg.
pub(crate) const DECLARE: Duration = Duration::from_millis(100);

/// How often it is tried again to write down what the disk did not take.
pub(crate) const WRITE_AGAIN: Duration = Duration::from_secs(1);

/// How often progress is told.
pub(crate) const PROGRESS: Duration = Duration::from_millis(200);

/// What is done once in a while.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Every {
    period: Duration,
    last: Option<Duration>,
}

impl Every {
    /// Due at once.
    pub(crate) const fn now(period: Duration) -> Self {
        Every { period, last: None }
    }

    /// Due a period after this.
    pub(crate) const fn after(now: Duration, period: Duration) -> Self {
        Every {
            period,
            last: Some(now),
        }
    }

    /// Whether it is to be done now; then it counts as done. A clock that was set back makes it due.
    pub(crate) fn is_due(&mut self, now: Duration) -> bool {
        let waits = self
            .last
            .and_then(|last| now.checked_sub(last))
            .is_some_and(|passed| passed < self.period);
        if !waits {
            self.last = Some(now);
        }
        !waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_set_back_delays_nothing() {
        let ms = Duration::from_millis;
        let mut every = Every::after(ms(1000), ms(100));
        assert!(!every.is_due(ms(1099)));
        assert!(every.is_due(ms(1100)));
        assert!(!every.is_due(ms(1199)));
        assert!(every.is_due(ms(500)));
        assert!(!every.is_due(ms(599)));
        assert!(Every::now(ms(100)).is_due(ms(0)));
    }
}

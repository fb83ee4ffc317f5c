//! The base moves only while somebody answers for it, and runs into nothing.

use std::time::Duration;

use eh_contract::state::ExecutorState;

use super::Referee;
use crate::context::Outside;
use crate::process_id::ProcessId;
use crate::robot::{is_moving, RobotProcess};

/// How long a run is declared to be alive without a word, how long a velocity stays with the base, and how
/// long the base takes to stand: 0.5 s + 0.5 s + 1 m/s / 1.2 m/s² + its lag.
pub(super) const AFTER: Duration = Duration::from_millis(2200);

/// How long a base goes on without protection: its watchdog of 0.5 s, and the time that it takes to stand.
const WATCHDOG: Duration = Duration::from_millis(1500);

impl Referee {
    pub(super) fn look_at_motion(
        &mut self,
        outside: &mut Outside,
        robot: &RobotProcess,
        lease_alive: bool,
    ) {
        let now = outside.now;
        let runs = self.executed.iter().any(|((process, _), r)| {
            *process == ProcessId::Navigation
                && matches!(r.state, ExecutorState::Started | ExecutorState::Canceling)
                && r.resources.iter().any(|name| name == "base")
        });
        if runs {
            self.last_run = Some(now);
        }
        if lease_alive {
            self.last_lease = Some(now);
        }
        let robot_is_cut_off = outside
            .network
            .is_cut(ProcessId::Protection, ProcessId::Robot, now);
        if robot_is_cut_off {
            self.last_cut = Some(now);
        }
        for at in outside.witness.take_collisions() {
            // Nothing holds a base back that protection does not reach, having ended or being cut off, but its own
            // watchdog.
            let ended = outside.witness.unprotected();
            let excused = |since: Duration| at.saturating_sub(since) <= WATCHDOG;
            if ended.is_some_and(excused) || self.last_cut.is_some_and(excused) {
                continue;
            }
            self.broken(outside, "the base runs into nothing", "it did".into());
        }
        if !is_moving(robot.robot().ground_truth().velocity) {
            return;
        }
        // What was said before may come as late as this.
        let patience = AFTER + self.conditions.slow_delay + self.conditions.delay;
        let lately = |at: Option<Duration>| at.is_some_and(|at| now - at <= patience);
        if !lately(self.last_run) {
            let what = "it moves and no run is declared".to_owned();
            self.broken(outside, "the base moves for a declared run", what);
        }
        if !lately(self.last_lease) {
            let what = "it moves and nobody holds the lease".to_owned();
            self.broken(outside, "the base moves under a lease", what);
        }
    }
}

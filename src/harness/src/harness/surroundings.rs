//! What the nodes around tell: a latched stop, the control lease.

use eh_contract::state::TaskOutcome;
use eh_contract::ErrorCode;
use eh_ledger::issuer_policy::Now;

use super::Harness;
use crate::effect::Effect;
use crate::task::Phase;

impl Harness {
    pub(super) fn stop_seen(
        &mut self,
        stop: crate::surroundings::StopView,
        now: Now,
        out: &mut Vec<Effect>,
    ) {
        let latched = stop.latched;
        let text = stop.text.clone();
        self.surroundings.stop = stop;
        let moves = self
            .task
            .as_ref()
            .is_some_and(|t| !t.record.request.dry_run);
        if latched && moves {
            self.end_with(
                TaskOutcome::Failed,
                ErrorCode::TaskStopLatched,
                format!("{text}; then send the task again"),
                now,
                out,
            );
        }
    }

    pub(super) fn lease_granted(&mut self, token: u64, now: Now, out: &mut Vec<Effect>) {
        self.surroundings.lease_token = Some(token);
        self.last_token = token;
        if let Some(task) = self.task.as_mut() {
            task.without_lease = None;
        }
        let waits = self
            .task
            .as_ref()
            .is_some_and(|t| matches!(t.phase, Phase::AwaitLease { .. }));
        if waits {
            self.read_scene(now, out);
        } else if self.task.is_none() {
            // It came after the task that wanted it.
            out.push(Effect::ReleaseLease);
        }
    }

    pub(super) fn lease_refused(&mut self, reason: String) {
        self.surroundings.lease_token = None;
        if let Some(task) = &mut self.task {
            if matches!(task.phase, Phase::AwaitLease { .. }) {
                task.text = format!("waits for the control lease: {reason}");
                task.dirty = true;
            }
        }
    }

    /// What is lost because nobody could be reached is asked for again: meanwhile the executors do what
    /// their skills' disconnect policies say. What somebody else has taken is his.
    pub(super) fn lease_lost(
        &mut self,
        reason: String,
        taken: bool,
        now: Now,
        out: &mut Vec<Effect>,
    ) {
        if self.surroundings.lease_token.take().is_none() {
            return;
        }
        if taken {
            return self.end_with(
                TaskOutcome::Failed,
                ErrorCode::NoLease,
                format!("the control lease was lost: {reason}"),
                now,
                out,
            );
        }
        let Some(task) = self.task.as_mut() else {
            return;
        };
        out.push(Effect::Warn(format!(
            "the control lease was lost: {reason}; it is asked for again"
        )));
        // In every other phase it is asked for before the next command.
        if task.phase == Phase::Executing && task.ending.is_none() {
            task.lease_asked = now.steady;
            task.without_lease.get_or_insert(now.steady);
            task.text = format!("asks for the control lease again: {reason}");
            task.dirty = true;
            out.push(Effect::AcquireLease);
        }
    }
}

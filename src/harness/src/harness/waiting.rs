//! What time brings about.

use std::time::Duration;

use eh_contract::state::TaskOutcome;
use eh_contract::ErrorCode;
use eh_ledger::issuer_event::IssuerEvent;
use eh_ledger::issuer_policy::Now;

use super::Harness;
use crate::effect::Effect;
use crate::task::Phase;

impl Harness {
    pub(super) fn tick(&mut self, now: Now, out: &mut Vec<Effect>) {
        let open: Vec<String> = self
            .ledger
            .open()
            .map(|r| r.command_id().to_owned())
            .collect();
        for id in open {
            self.apply(&id, IssuerEvent::Tick, now, out);
        }
        let (due, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.looks)
            .into_iter()
            .partition(|(due, _)| *due <= now.steady);
        self.looks = later;
        out.extend(due.into_iter().map(|(_, effect)| effect));
        self.reconcile(now, out);
        self.tick_task(now, out);
    }

    pub(super) fn tick_task(&mut self, now: Now, out: &mut Vec<Effect>) {
        let waits = self.settings.waits;
        let Some(task) = self.task.as_mut() else {
            return;
        };
        if task.ending.is_none() && task.budget.remaining(now.steady).is_zero() {
            let limit = task.budget.limits().time.as_secs_f64();
            let text = format!("{limit:.0} s were not enough, which is the limit; raise time_budget or give a smaller task");
            return self.end_with(
                TaskOutcome::Failed,
                ErrorCode::TimeBudgetExhausted,
                text,
                now,
                out,
            );
        }
        let over = |since: Duration, limit: Duration| now.steady.saturating_sub(since) >= limit;
        match task.phase.clone() {
            Phase::AwaitLease { since, asked } => {
                if over(since, waits.lease) {
                    let text = format!(
                        "the control lease was not granted within {:.0} s ({}); is protection_node running, or does another controller hold it?",
                        waits.lease.as_secs_f64(),
                        task.text
                    );
                    self.end_with(TaskOutcome::Failed, ErrorCode::NoLease, text, now, out);
                } else if over(asked, Duration::from_secs(1)) {
                    task.phase = Phase::AwaitLease {
                        since,
                        asked: now.steady,
                    };
                    out.push(Effect::AcquireLease);
                }
            }
            Phase::Reading { since, tries, .. } if over(since, waits.scene) => {
                if tries >= waits.scene_tries {
                    let reason = format!("no answer within {:.0} s", waits.scene.as_secs_f64());
                    self.scene_unavailable(reason, now, out);
                } else {
                    self.read_scene(now, out);
                }
            }
            Phase::Beginning { since, .. } | Phase::Planning { since, .. }
                if over(since, waits.planner) =>
            {
                let text = format!(
                    "the planner did not answer within {:.0} s",
                    waits.planner.as_secs_f64()
                );
                self.end_with(
                    TaskOutcome::Failed,
                    ErrorCode::PlannerFailure,
                    text,
                    now,
                    out,
                );
            }
            Phase::Waiting { until } if now.steady >= until => self.read_scene(now, out),
            Phase::Human { until, .. } if now.steady >= until => {
                let text = format!(
                    "nobody answered within {:.0} s: {}",
                    waits.human.as_secs_f64(),
                    task.text
                );
                self.finish(
                    TaskOutcome::Failed,
                    ErrorCode::TargetAmbiguous,
                    text,
                    now,
                    out,
                );
            }
            // A command that was taken up, or whose lease was lost, may run on without it for a while.
            Phase::Executing
                if self.surroundings.lease_token.is_none()
                    && task.ending.is_none()
                    && over(task.lease_asked, Duration::from_secs(1)) =>
            {
                task.lease_asked = now.steady;
                let since = *task.without_lease.get_or_insert(now.steady);
                if over(since, waits.lease) {
                    let text = format!(
                        "the control lease was lost and not granted again within {:.0} s; is protection_node running, or does another controller hold it?",
                        waits.lease.as_secs_f64()
                    );
                    return self.end_with(TaskOutcome::Failed, ErrorCode::NoLease, text, now, out);
                }
                out.push(Effect::AcquireLease);
            }
            Phase::Reading { .. }
            | Phase::Beginning { .. }
            | Phase::Planning { .. }
            | Phase::Executing
            | Phase::Learning { .. }
            | Phase::Waiting { .. }
            | Phase::Human { .. } => {}
        }
    }
}

//! What a task may use up: time, steps, attempts; and when it does not get on.

use std::collections::BTreeMap;
use std::time::Duration;

use eh_contract::command::Proposal;
use rand::{Rng, RngCore};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Limits of one task.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BudgetLimits {
    /// Longest time for the whole task.
    pub time: Duration,
    /// Most steps of the loop.
    pub steps: u32,
    /// Most attempts of one skill with the same arguments, until one succeeds; at least 1.
    pub attempts: u32,
    /// Most successes of one skill with the same arguments; beyond it the task goes round in circles.
    pub repeats: u32,
    /// Upper bound of the first wait before another attempt; it doubles with each.
    pub backoff_base: Duration,
    /// Largest upper bound of a wait.
    pub backoff_cap: Duration,
}

impl Default for BudgetLimits {
    fn default() -> Self {
        BudgetLimits {
            time: Duration::from_secs(300),
            steps: 40,
            attempts: 3,
            repeats: 5,
            backoff_base: Duration::from_millis(500),
            backoff_cap: Duration::from_secs(5),
        }
    }
}

/// What is left of a task's budgets.
#[derive(Clone, Debug)]
pub struct Budget {
    limits: BudgetLimits,
    started: Duration,
    used: BudgetUsed,
}

/// What a task has used up so far, in a form that outlives the process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BudgetUsed {
    /// Time used before this process took the task up.
    pub time: Duration,
    steps: u32,
    failures: BTreeMap<String, Failures>,
    successes: BTreeMap<String, u32>,
}

/// Failures of one skill with the same arguments since it last succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failures {
    /// How many.
    pub attempts: u32,
    /// The last one was of a kind that another attempt cannot change.
    pub hopeless: bool,
}

/// What follows from a failed step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterFailure {
    /// Plan again, after this wait.
    Wait(Duration),
    /// The same step is not taken again.
    Exhausted(Failures),
}

impl Budget {
    /// Begins to count at `now` of the local clock.
    pub fn new(limits: BudgetLimits, now: Duration) -> Self {
        Budget::resumed(limits, BudgetUsed::default(), now)
    }

    /// Goes on at `now` of the local clock with what was used up before.
    pub const fn resumed(limits: BudgetLimits, used: BudgetUsed, now: Duration) -> Self {
        Budget {
            limits,
            started: now,
            used,
        }
    }

    /// What has been used up at `now`.
    pub fn used(&self, now: Duration) -> BudgetUsed {
        BudgetUsed {
            time: self.elapsed(now),
            ..self.used.clone()
        }
    }

    /// The limits.
    pub const fn limits(&self) -> &BudgetLimits {
        &self.limits
    }

    /// Time used.
    pub fn elapsed(&self, now: Duration) -> Duration {
        self.used
            .time
            .saturating_add(now.saturating_sub(self.started))
    }

    /// Time left.
    pub fn remaining(&self, now: Duration) -> Duration {
        self.limits.time.saturating_sub(self.elapsed(now))
    }

    /// The number of the next step, from 1; `None` when the steps are used up.
    pub fn next_step(&mut self) -> Option<u32> {
        if self.used.steps >= self.limits.steps {
            return None;
        }
        self.used.steps += 1;
        Some(self.used.steps)
    }

    /// Takes the newest step back: it was refused before anything began, for a reason that is waited for.
    pub fn give_back_step(&mut self) {
        self.used.steps = self.used.steps.saturating_sub(1);
    }

    /// Steps begun.
    pub const fn steps(&self) -> u32 {
        self.used.steps
    }

    /// Counts a failure and says how long to wait: full jitter, so that the wait is uniform between zero
    /// and a bound that doubles (<https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/>).
    ///
    /// A `hopeless` failure, one that the skill's descriptor calls not recoverable, uses up all attempts.
    pub fn failed(
        &mut self,
        proposal: &Proposal,
        hopeless: bool,
        rng: &mut dyn RngCore,
    ) -> AfterFailure {
        let limit = self.limits.attempts.max(1);
        let failures = self.used.failures.entry(key(proposal)).or_default();
        failures.attempts = failures.attempts.saturating_add(1);
        failures.hopeless = hopeless;
        if hopeless || failures.attempts >= limit {
            return AfterFailure::Exhausted(*failures);
        }
        let doublings = failures.attempts.saturating_sub(1).min(16);
        let bound = self
            .limits
            .backoff_base
            .saturating_mul(1 << doublings)
            .min(self.limits.backoff_cap);
        AfterFailure::Wait(bound.mul_f64(rng.random_range(0.0..=1.0)))
    }

    /// Failures of a step that is not taken again: it failed as often as it may, or hopelessly, and has
    /// not succeeded since.
    pub fn exhausted(&self, proposal: &Proposal) -> Option<Failures> {
        self.used
            .failures
            .get(&key(proposal))
            .copied()
            .filter(|f| f.hopeless || f.attempts >= self.limits.attempts.max(1))
    }

    /// Counts a success; false when the same skill with the same arguments has succeeded too often for
    /// the task to be getting on.
    pub fn succeeded(&mut self, proposal: &Proposal) -> bool {
        let key = key(proposal);
        self.used.failures.remove(&key);
        let count = self.used.successes.entry(key).or_default();
        *count = count.saturating_add(1);
        *count <= self.limits.repeats.max(1)
    }
}

/// Skill and arguments as one text; maps of JSON are sorted, so the order of arguments does not matter.
fn key(proposal: &Proposal) -> String {
    format!(
        "{} {}",
        proposal.skill,
        Value::Object(proposal.arguments.clone())
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::rngs::StdRng;
    use rand::SeedableRng;
    use serde_json::json;

    fn pick(object: &str) -> Proposal {
        Proposal {
            skill: "pick".into(),
            arguments: json!({ "object": object }).as_object().cloned().unwrap(),
            reason: String::new(),
        }
    }

    fn rng() -> StdRng {
        StdRng::seed_from_u64(7)
    }

    #[test]
    fn attempts_count_by_skill_and_arguments_and_a_success_clears_them() {
        let mut b = Budget::new(BudgetLimits::default(), Duration::ZERO);
        let rng = &mut rng();
        assert!(matches!(
            b.failed(&pick("a"), false, rng),
            AfterFailure::Wait(_)
        ));
        assert!(matches!(
            b.failed(&pick("b"), false, rng),
            AfterFailure::Wait(_)
        ));
        assert!(matches!(
            b.failed(&pick("a"), false, rng),
            AfterFailure::Wait(_)
        ));
        assert_eq!(
            b.failed(&pick("a"), false, rng),
            AfterFailure::Exhausted(Failures {
                attempts: 3,
                hopeless: false
            })
        );
        assert!(b.succeeded(&pick("b")));
        assert!(matches!(
            b.failed(&pick("b"), false, rng),
            AfterFailure::Wait(_)
        ));
        assert!(matches!(
            b.failed(&pick("b"), false, rng),
            AfterFailure::Wait(_)
        ));
    }

    #[test]
    fn a_hopeless_failure_uses_up_all_attempts_until_a_success() {
        let mut b = Budget::new(BudgetLimits::default(), Duration::ZERO);
        let rng = &mut rng();
        let once = Failures {
            attempts: 1,
            hopeless: true,
        };
        assert_eq!(
            b.failed(&pick("a"), true, rng),
            AfterFailure::Exhausted(once)
        );
        assert_eq!(b.exhausted(&pick("a")), Some(once));
        assert_eq!(b.exhausted(&pick("b")), None);
        assert!(b.succeeded(&pick("a")));
        assert_eq!(b.exhausted(&pick("a")), None);
    }

    #[test]
    fn a_step_that_was_given_back_is_there_again() {
        let limits = BudgetLimits {
            steps: 1,
            ..BudgetLimits::default()
        };
        let mut b = Budget::new(limits, Duration::ZERO);
        // More than was taken cannot be given back.
        b.give_back_step();
        assert_eq!(b.next_step(), Some(1));
        b.give_back_step();
        assert_eq!((b.next_step(), b.next_step()), (Some(1), None));
    }

    #[test]
    fn going_round_in_circles_is_noticed() {
        let mut b = Budget::new(BudgetLimits::default(), Duration::ZERO);
        for _ in 0..5 {
            assert!(b.succeeded(&pick("a")));
        }
        assert!(!b.succeeded(&pick("a")));
    }

    #[test]
    fn steps_and_time_end() {
        let limits = BudgetLimits {
            steps: 2,
            time: Duration::from_secs(10),
            ..BudgetLimits::default()
        };
        let mut b = Budget::new(limits, Duration::from_secs(100));
        assert_eq!((b.next_step(), b.next_step()), (Some(1), Some(2)));
        assert_eq!(b.next_step(), None);
        assert_eq!(
            b.remaining(Duration::from_secs(104)),
            Duration::from_secs(6)
        );
        assert_eq!(b.remaining(Duration::from_secs(999)), Duration::ZERO);
        // A clock that was set back gives no negative time.
        assert_eq!(b.elapsed(Duration::from_secs(1)), Duration::ZERO);
    }

    proptest! {
        #[test]
        fn a_wait_is_between_zero_and_its_bound(seed in any::<u64>(), attempts in 2..40u32) {
            let limits = BudgetLimits { attempts, ..BudgetLimits::default() };
            let mut b = Budget::new(limits, Duration::ZERO);
            let mut rng = StdRng::seed_from_u64(seed);
            for n in 1..attempts {
                let AfterFailure::Wait(wait) = b.failed(&pick("a"), false, &mut rng) else {
                    return Err(TestCaseError::fail("exhausted too early"));
                };
                let bound = limits.backoff_base.as_secs_f64() * 2f64.powi(n as i32 - 1);
                prop_assert!(wait.as_secs_f64() <= bound.min(limits.backoff_cap.as_secs_f64()) + 1e-9);
            }
        }
    }
}

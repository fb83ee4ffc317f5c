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
    steps: u32,
    failures: BTreeMap<String, u32>,
    successes: BTreeMap<String, u32>,
}

/// What follows from a failed step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterFailure {
    /// Plan again, after this wait.
    Wait(Duration),
    /// It failed this often, which is the limit.
    Exhausted {
        /// Attempts made.
        attempts: u32,
    },
}

impl Budget {
    /// Begins to count at `now` of the local clock.
    pub fn new(limits: BudgetLimits, now: Duration) -> Self {
        Budget {
            limits,
            started: now,
            steps: 0,
            failures: BTreeMap::new(),
            successes: BTreeMap::new(),
        }
    }

    /// The limits.
    pub const fn limits(&self) -> &BudgetLimits {
        &self.limits
    }

    /// Time used.
    pub fn elapsed(&self, now: Duration) -> Duration {
        now.saturating_sub(self.started)
    }

    /// Time left.
    pub fn remaining(&self, now: Duration) -> Duration {
        self.limits.time.saturating_sub(self.elapsed(now))
    }

    /// The number of the next step, from 1; `None` when the steps are used up.
    pub fn next_step(&mut self) -> Option<u32> {
        if self.steps >= self.limits.steps {
            return None;
        }
        self.steps += 1;
        Some(self.steps)
    }

    /// Steps begun.
    pub const fn steps(&self) -> u32 {
        self.steps
    }

    /// Counts a failure and says how long to wait: full jitter, so that the wait is uniform between zero
    /// and a bound that doubles (<https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/>).
    pub fn failed(&mut self, proposal: &Proposal, rng: &mut dyn RngCore) -> AfterFailure {
        let count = self.failures.entry(key(proposal)).or_default();
        *count = count.saturating_add(1);
        if *count >= self.limits.attempts.max(1) {
            return AfterFailure::Exhausted { attempts: *count };
        }
        let doublings = count.saturating_sub(1).min(16);
        let bound = self
            .limits
            .backoff_base
            .saturating_mul(1 << doublings)
            .min(self.limits.backoff_cap);
        AfterFailure::Wait(bound.mul_f64(rng.random_range(0.0..=1.0)))
    }

    /// Attempts of a step that failed as often as it may, and has not succeeded since.
    pub fn exhausted(&self, proposal: &Proposal) -> Option<u32> {
        self.failures
            .get(&key(proposal))
            .copied()
            .filter(|count| *count >= self.limits.attempts.max(1))
    }

    /// Counts a success; false when the same skill with the same arguments has succeeded too often for
    /// the task to be getting on.
    pub fn succeeded(&mut self, proposal: &Proposal) -> bool {
        let key = key(proposal);
        self.failures.remove(&key);
        let count = self.successes.entry(key).or_default();
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
        assert!(matches!(b.failed(&pick("a"), rng), AfterFailure::Wait(_)));
        assert!(matches!(b.failed(&pick("b"), rng), AfterFailure::Wait(_)));
        assert!(matches!(b.failed(&pick("a"), rng), AfterFailure::Wait(_)));
        assert_eq!(
            b.failed(&pick("a"), rng),
            AfterFailure::Exhausted { attempts: 3 }
        );
        assert!(b.succeeded(&pick("b")));
        assert!(matches!(b.failed(&pick("b"), rng), AfterFailure::Wait(_)));
        assert!(matches!(b.failed(&pick("b"), rng), AfterFailure::Wait(_)));
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
                let AfterFailure::Wait(wait) = b.failed(&pick("a"), &mut rng) else {
                    return Err(TestCaseError::fail("exhausted too early"));
                };
                let bound = limits.backoff_base.as_secs_f64() * 2f64.powi(n as i32 - 1);
                prop_assert!(wait.as_secs_f64() <= bound.min(limits.backoff_cap.as_secs_f64()) + 1e-9);
            }
        }
    }
}

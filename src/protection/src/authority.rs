//! Whether anybody may move the base now: velocity messages carry no token, so this asks who stands behind
//! them.

use std::time::Duration;

use eh_contract::skill::DisconnectPolicy;

/// Most runs that are remembered at once; more are refused until some end.
pub const MAX_RUNS: usize = 64;

/// A run that its executor declares to move the base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredRun {
    /// The executor's node name.
    pub executor: String,
    /// The executor's process life.
    pub boot_id: String,
    /// The run.
    pub run_id: String,
    /// Token under which it started.
    pub token: u64,
    /// What it does when the lease expires.
    pub policy: DisconnectPolicy,
    /// False: it has ended.
    pub active: bool,
}

/// What is asked of a velocity command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthorityRules {
    /// A lease must be alive, or the run's disconnect policy must allow it.
    pub require_lease: bool,
    /// An executor must have declared a run recently.
    pub require_declared_run: bool,
    /// How recently.
    pub run_timeout: Duration,
}

/// The lease as far as it counts here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseState {
    /// Someone holds it.
    pub alive: bool,
    /// Newest token that was granted.
    pub token: u64,
}

/// Why the base may not move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Nobody holds the lease, and no declared run may go on without it.
    NoLease,
    /// No executor declares a run.
    NoDeclaredRun,
}

/// The runs declared lately.
#[derive(Clone, Debug, Default)]
pub struct Authority {
    runs: Vec<(Duration, DeclaredRun)>,
}

impl Authority {
    /// Takes a declaration. Returns false when it was not taken: too many runs, or an empty name.
    pub fn declared(&mut self, now: Duration, run: DeclaredRun, rules: &AuthorityRules) -> bool {
        if run.executor.is_empty() || run.run_id.is_empty() {
            return false;
        }
        let same = |r: &DeclaredRun| r.executor == run.executor && r.run_id == run.run_id;
        self.runs
            .retain(|(at, r)| !same(r) && is_recent(now, *at, rules.run_timeout));
        if !run.active {
            return true;
        }
        if self.runs.len() >= MAX_RUNS {
            return false;
        }
        self.runs.push((now, run));
        true
    }

    /// Forgets every run.
    pub fn forget(&mut self) {
        self.runs.clear();
    }

    /// Whether a velocity may pass.
    ///
    /// A run that began under an older token may go on while the lease is alive: a successor adopts or
    /// cancels it. One under a token that was never granted may not.
    ///
    /// # Errors
    /// [`Refused`] with the reason.
    pub fn check(
        &self,
        now: Duration,
        lease: LeaseState,
        rules: &AuthorityRules,
    ) -> Result<(), Refused> {
        let mut declared = self
            .runs
            .iter()
            .filter(|(at, _)| is_recent(now, *at, rules.run_timeout))
            .map(|(_, run)| run)
            .peekable();
        if rules.require_declared_run && declared.peek().is_none() {
            return Err(Refused::NoDeclaredRun);
        }
        if !rules.require_lease {
            return Ok(());
        }
        if declared.peek().is_none() {
            return if lease.alive {
                Ok(())
            } else {
                Err(Refused::NoLease)
            };
        }
        let covered = declared.any(|run| {
            run.token > 0
                && run.token <= lease.token
                && (lease.alive || run.policy == DisconnectPolicy::Finish)
        });
        if covered {
            Ok(())
        } else {
            Err(Refused::NoLease)
        }
    }
}

fn is_recent(now: Duration, at: Duration, timeout: Duration) -> bool {
    now >= at && now - at <= timeout
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: AuthorityRules = AuthorityRules {
        require_lease: true,
        require_declared_run: true,
        run_timeout: Duration::from_millis(500),
    };
    const ALIVE: LeaseState = LeaseState {
        alive: true,
        token: 5,
    };
    const DEAD: LeaseState = LeaseState {
        alive: false,
        token: 5,
    };

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn run(token: u64, policy: DisconnectPolicy) -> DeclaredRun {
        DeclaredRun {
            executor: "nav".into(),
            boot_id: "b".into(),
            run_id: "r".into(),
            token,
            policy,
            active: true,
        }
    }

    fn with(run: DeclaredRun) -> Authority {
        let mut authority = Authority::default();
        assert!(authority.declared(ms(0), run, &RULES));
        authority
    }

    #[test]
    fn a_lease_and_a_recent_run_are_needed() {
        let stop = DisconnectPolicy::Stop;
        assert_eq!(
            Authority::default().check(ms(0), ALIVE, &RULES),
            Err(Refused::NoDeclaredRun)
        );
        assert_eq!(with(run(5, stop)).check(ms(0), ALIVE, &RULES), Ok(()));
        assert_eq!(with(run(5, stop)).check(ms(500), ALIVE, &RULES), Ok(()));
        assert_eq!(
            with(run(5, stop)).check(ms(501), ALIVE, &RULES),
            Err(Refused::NoDeclaredRun)
        );
        assert_eq!(
            with(run(4, stop)).check(ms(0), ALIVE, &RULES),
            Ok(()),
            "adopted"
        );
        for token in [0, 6] {
            assert_eq!(
                with(run(token, stop)).check(ms(0), ALIVE, &RULES),
                Err(Refused::NoLease),
                "token {token} was never granted"
            );
        }
    }

    #[test]
    fn without_a_lease_only_finish_goes_on() {
        assert_eq!(
            with(run(5, DisconnectPolicy::Finish)).check(ms(0), DEAD, &RULES),
            Ok(())
        );
        for policy in [DisconnectPolicy::Hold, DisconnectPolicy::Stop] {
            assert_eq!(
                with(run(5, policy)).check(ms(0), DEAD, &RULES),
                Err(Refused::NoLease)
            );
        }
    }

    #[test]
    fn a_run_that_ended_counts_no_more() {
        let mut authority = with(run(5, DisconnectPolicy::Finish));
        let ended = DeclaredRun {
            active: false,
            ..run(5, DisconnectPolicy::Finish)
        };
        authority.declared(ms(10), ended, &RULES);
        assert_eq!(
            authority.check(ms(10), ALIVE, &RULES),
            Err(Refused::NoDeclaredRun)
        );
    }

    #[test]
    fn rules_can_be_switched_off_one_by_one() {
        let no_run = AuthorityRules {
            require_declared_run: false,
            ..RULES
        };
        let none = Authority::default();
        assert_eq!(none.check(ms(0), ALIVE, &no_run), Ok(()));
        assert_eq!(none.check(ms(0), DEAD, &no_run), Err(Refused::NoLease));
        let no_lease = AuthorityRules {
            require_lease: false,
            ..RULES
        };
        assert_eq!(
            none.check(ms(0), ALIVE, &no_lease),
            Err(Refused::NoDeclaredRun)
        );
        assert_eq!(
            with(run(0, DisconnectPolicy::Stop)).check(ms(0), DEAD, &no_lease),
            Ok(())
        );
    }

    #[test]
    fn floods_empty_names_and_backward_time_are_harmless() {
        let mut authority = Authority::default();
        for i in 0..1000 {
            let r = DeclaredRun {
                run_id: format!("r{i}"),
                ..run(5, DisconnectPolicy::Stop)
            };
            authority.declared(ms(0), r, &RULES);
        }
        assert_eq!(authority.runs.len(), MAX_RUNS);
        let nameless = DeclaredRun {
            run_id: String::new(),
            ..run(5, DisconnectPolicy::Stop)
        };
        assert!(!authority.declared(ms(0), nameless, &RULES));
        let mut later = Authority::default();
        later.declared(ms(1000), run(5, DisconnectPolicy::Stop), &RULES);
        assert_eq!(
            later.check(ms(10), ALIVE, &RULES),
            Err(Refused::NoDeclaredRun)
        );
    }
}

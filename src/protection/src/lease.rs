//! The control lease: who may command the robot now.

use std::time::Duration;

use eh_contract::ErrorCode;
use thiserror::Error;

/// Longest name of a holder, in characters; a ROS node's full name fits.
pub const MAX_CONTROLLER_ID: usize = 255;

/// Range and default of a lease's lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTimes {
    /// Shortest lifetime that is granted.
    pub min: Duration,
    /// Lifetime when none is asked for.
    pub default: Duration,
    /// Longest lifetime that is granted.
    pub max: Duration,
}

/// Why a request is refused. The lease stays as it was.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LeaseError {
    /// Another holder's lease is alive.
    #[error("the lease is held by {holder} for another {remaining:.1?}; wait until it is released or expires, or take it over as an operator or successor")]
    Held {
        /// Who holds it.
        holder: String,
        /// Time left.
        remaining: Duration,
    },
    /// A grant is on its way to the disk.
    #[error("a grant to {to} is being made durable; ask again in a moment")]
    Granting {
        /// Who will hold it.
        to: String,
    },
    /// Renew or release by someone who does not hold it.
    #[error("{controller_id} with token {token} does not hold the lease (newest token {newest}, holder \"{holder}\"); acquire it again")]
    NotHeld {
        /// Who asked.
        controller_id: String,
        /// Under which token.
        token: u64,
        /// Newest token that was granted.
        newest: u64,
        /// Who holds it; empty: nobody.
        holder: String,
    },
    /// A name that is empty or too long.
    #[error("controller_id has {0} characters; give 1 to {MAX_CONTROLLER_ID}, for example /harness_node")]
    BadName(usize),
    /// Tokens are used up.
    #[error(
        "no larger token than {0} exists; the stored token is damaged, repair the state directory"
    )]
    TokensUsedUp(u64),
    /// The token could not be made durable.
    #[error("the token could not be made durable: {0}; check the state directory")]
    Storage(String),
}

impl LeaseError {
    /// The code that goes out in `error_code`.
    pub fn code(&self) -> ErrorCode {
        match self {
            LeaseError::Held { .. } | LeaseError::Granting { .. } => ErrorCode::LeaseHeld,
            LeaseError::NotHeld { .. } => ErrorCode::LeaseNotHeld,
            LeaseError::BadName(_) => ErrorCode::ProtectionInvalidRequest,
            LeaseError::TokensUsedUp(_) | LeaseError::Storage(_) => ErrorCode::LeaseStorageFailure,
        }
    }
}

/// What has to be made durable before a grant: hand it to the store, then call [`ControlLease::stored`] or
/// [`ControlLease::not_stored`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingGrant {
    /// The token to store.
    pub token: u64,
    /// Who will hold it.
    pub controller_id: String,
    /// For how long.
    pub ttl: Duration,
}

/// The lease as it goes out on `control_lease`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseView {
    /// Who holds it; empty: nobody.
    pub controller_id: String,
    /// Newest token that was granted; 0: none ever.
    pub token: u64,
    /// Lifetime of one grant or renewal.
    pub ttl: Duration,
    /// Time left; zero: expired or not held.
    pub remaining: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Holder {
    controller_id: String,
    ttl: Duration,
    expires: Duration,
}

/// The lease's state machine. Times are on the caller's steady clock.
///
/// The token only grows: a grant is made only after its token was made durable, so that no token is ever
/// granted twice, over any restart.
#[derive(Clone, Debug)]
pub struct ControlLease {
    times: LeaseTimes,
    // Largest token that may be on disk; the next one is larger.
    reserved: u64,
    // Newest token that was granted.
    token: u64,
    holder: Option<Holder>,
    pending: Option<PendingGrant>,
}

impl ControlLease {
    /// Starts with the token that the store holds. Nobody holds the lease after a start: whoever held it has
    /// to acquire it again.
    pub fn new(times: LeaseTimes, stored_token: u64) -> Self {
        ControlLease {
            times,
            reserved: stored_token,
            token: stored_token,
            holder: None,
            pending: None,
        }
    }

    /// Asks for the lease. A holder that asks again gets a new token, since it may be a new process of that
    /// name; the old token is then worth nothing.
    ///
    /// # Errors
    /// [`LeaseError`] when someone else holds it (unless `take_over`), a grant is pending, or the name is bad.
    pub fn acquire(
        &mut self,
        now: Duration,
        controller_id: &str,
        ttl: Duration,
        take_over: bool,
    ) -> Result<PendingGrant, LeaseError> {
        check_name(controller_id)?;
        if let Some(pending) = &self.pending {
            return Err(LeaseError::Granting {
                to: pending.controller_id.clone(),
            });
        }
        if let Some(holder) = self.alive(now) {
            if holder.controller_id != controller_id && !take_over {
                return Err(LeaseError::Held {
                    holder: holder.controller_id.clone(),
                    remaining: holder.expires.saturating_sub(now),
                });
            }
        }
        let token = self
            .reserved
            .checked_add(1)
            .ok_or(LeaseError::TokensUsedUp(self.reserved))?;
        self.reserved = token;
        let pending = PendingGrant {
            token,
            controller_id: controller_id.into(),
            ttl: self.clamp(ttl),
        };
        self.pending = Some(pending.clone());
        Ok(pending)
    }

    /// The pending token is durable: grants it. Returns false when no such grant is pending.
    pub fn stored(&mut self, now: Duration, token: u64) -> bool {
        match self.pending.take() {
            Some(pending) if pending.token == token => {
                self.token = token;
                self.holder = Some(Holder {
                    expires: now.saturating_add(pending.ttl),
                    controller_id: pending.controller_id,
                    ttl: pending.ttl,
                });
                true
            }
            other => {
                self.pending = other;
                false
            }
        }
    }

    /// The pending token could not be stored. It may be on disk all the same, so it is never used again.
    pub fn not_stored(&mut self, token: u64) {
        if self.pending.as_ref().is_some_and(|p| p.token == token) {
            self.pending = None;
        }
    }

    /// Extends the lease from now on.
    ///
    /// # Errors
    /// [`LeaseError::NotHeld`] when it has expired or belongs to another token or name.
    pub fn renew(
        &mut self,
        now: Duration,
        controller_id: &str,
        token: u64,
        ttl: Duration,
    ) -> Result<(), LeaseError> {
        check_name(controller_id)?;
        self.check_holder(now, controller_id, token)?;
        let ttl = self.clamp(ttl);
        if let Some(holder) = &mut self.holder {
            holder.ttl = ttl;
            holder.expires = now.saturating_add(ttl);
        }
        Ok(())
    }

    /// Gives the lease back.
    ///
    /// # Errors
    /// [`LeaseError::NotHeld`] as for [`renew`](Self::renew).
    pub fn release(
        &mut self,
        now: Duration,
        controller_id: &str,
        token: u64,
    ) -> Result<(), LeaseError> {
        check_name(controller_id)?;
        self.check_holder(now, controller_id, token)?;
        self.holder = None;
        Ok(())
    }

    /// The lease as it goes out.
    pub fn view(&self, now: Duration) -> LeaseView {
        match self.alive(now) {
            Some(holder) => LeaseView {
                controller_id: holder.controller_id.clone(),
                token: self.token,
                ttl: holder.ttl,
                remaining: holder.expires.saturating_sub(now),
            },
            None => LeaseView {
                token: self.token,
                ..LeaseView::default()
            },
        }
    }

    /// True while someone holds it.
    pub fn is_alive(&self, now: Duration) -> bool {
        self.alive(now).is_some()
    }

    /// Newest token that was granted.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// Ends the lease because the clock that it is measured on was set back.
    pub fn clock_restarted(&mut self) {
        self.holder = None;
    }

    fn alive(&self, now: Duration) -> Option<&Holder> {
        self.holder.as_ref().filter(|holder| now < holder.expires)
    }

    fn check_holder(
        &self,
        now: Duration,
        controller_id: &str,
        token: u64,
    ) -> Result<(), LeaseError> {
        let holder = self.alive(now);
        match holder {
            Some(h) if h.controller_id == controller_id && token == self.token => Ok(()),
            _ => Err(LeaseError::NotHeld {
                controller_id: controller_id.into(),
                token,
                newest: self.token,
                holder: holder.map(|h| h.controller_id.clone()).unwrap_or_default(),
            }),
        }
    }

    fn clamp(&self, ttl: Duration) -> Duration {
        let wanted = if ttl.is_zero() {
            self.times.default
        } else {
            ttl
        };
        wanted.min(self.times.max).max(self.times.min)
    }
}

fn check_name(controller_id: &str) -> Result<(), LeaseError> {
    let length = controller_id.chars().count();
    if controller_id.trim().is_empty() || length > MAX_CONTROLLER_ID {
        Err(LeaseError::BadName(length))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TIMES: LeaseTimes = LeaseTimes {
        min: Duration::from_millis(500),
        default: Duration::from_secs(3),
        max: Duration::from_secs(30),
    };
    const ZERO: Duration = Duration::ZERO;

    fn s(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn take(lease: &mut ControlLease, now: Duration, who: &str, over: bool) -> u64 {
        let grant = lease.acquire(now, who, ZERO, over).unwrap();
        assert!(lease.stored(now, grant.token));
        grant.token
    }

    #[test]
    fn nothing_is_granted_before_its_token_is_durable() {
        let mut lease = ControlLease::new(TIMES, 41);
        let grant = lease.acquire(s(0), "a", ZERO, false).unwrap();
        assert_eq!((grant.token, grant.ttl), (42, s(3)));
        assert!(!lease.is_alive(s(0)));
        assert_eq!(lease.view(s(0)).token, 41);
        assert!(matches!(
            lease.acquire(s(0), "b", ZERO, true),
            Err(LeaseError::Granting { .. })
        ));
        assert!(!lease.stored(s(1), 7), "not the pending one");
        assert!(lease.stored(s(1), 42));
        assert_eq!(
            lease.view(s(1)).remaining,
            s(3),
            "from the grant on, not from the request"
        );
        assert!(!lease.stored(s(1), 42), "once");
    }

    #[test]
    fn a_token_that_could_not_be_stored_is_never_used_again() {
        let mut lease = ControlLease::new(TIMES, 5);
        let grant = lease.acquire(s(0), "a", ZERO, false).unwrap();
        lease.not_stored(grant.token);
        assert!(!lease.is_alive(s(0)));
        assert_eq!(take(&mut lease, s(0), "a", false), 7);
    }

    #[test]
    fn held_renewed_released_taken_over_expired() {
        let mut lease = ControlLease::new(TIMES, 0);
        let a = take(&mut lease, s(0), "a", false);
        assert!(matches!(
            lease.acquire(s(1), "b", ZERO, false),
            Err(LeaseError::Held { remaining, .. }) if remaining == s(2)
        ));
        lease.renew(s(2), "a", a, ZERO).unwrap();
        assert!(lease.is_alive(s(4)));
        let b = take(&mut lease, s(4), "b", true);
        assert!(b > a);
        assert!(matches!(
            lease.renew(s(4), "a", a, ZERO),
            Err(LeaseError::NotHeld { .. })
        ));
        assert!(lease.release(s(4), "a", b).is_err());
        lease.release(s(4), "b", b).unwrap();
        assert_eq!(
            lease.view(s(4)),
            LeaseView {
                token: b,
                ..LeaseView::default()
            }
        );
        let c = take(&mut lease, s(5), "c", false);
        assert!(!lease.is_alive(s(8)), "expires at 5 + 3");
        assert!(lease.renew(s(8), "c", c, ZERO).is_err());
        assert!(take(&mut lease, s(9), "a", false) > c);
    }

    #[test]
    fn a_holder_that_asks_again_gets_a_new_token() {
        let mut lease = ControlLease::new(TIMES, 0);
        let old = take(&mut lease, s(0), "a", false);
        let new = take(&mut lease, s(1), "a", false);
        assert!(new > old);
        assert!(
            lease.renew(s(1), "a", old, ZERO).is_err(),
            "the replaced process"
        );
    }

    #[test]
    fn odd_requests_say_why() {
        let mut lease = ControlLease::new(TIMES, u64::MAX);
        assert_eq!(
            lease.acquire(s(0), " ", ZERO, false),
            Err(LeaseError::BadName(1))
        );
        assert!(matches!(
            lease.acquire(s(0), &"x".repeat(300), ZERO, false),
            Err(LeaseError::BadName(300))
        ));
        assert_eq!(
            lease.acquire(s(0), "a", ZERO, false),
            Err(LeaseError::TokensUsedUp(u64::MAX))
        );
        let mut lease = ControlLease::new(TIMES, 0);
        assert_eq!(
            lease.acquire(s(0), "a", Duration::MAX, false).unwrap().ttl,
            TIMES.max
        );
        let mut lease = ControlLease::new(TIMES, 0);
        let ttl = lease
            .acquire(s(0), "a", Duration::from_nanos(1), false)
            .unwrap()
            .ttl;
        assert_eq!(ttl, TIMES.min);
    }

    #[derive(Clone, Debug)]
    enum Op {
        Acquire(u8, bool),
        Stored,
        NotStored,
        Renew(u8),
        Release(u8),
        Wait(u16),
        Restart,
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        prop::collection::vec(
            prop_oneof![
                (0..3u8, any::<bool>()).prop_map(|(who, over)| Op::Acquire(who, over)),
                Just(Op::Stored),
                Just(Op::NotStored),
                (0..3u8).prop_map(Op::Renew),
                (0..3u8).prop_map(Op::Release),
                (0..4000u16).prop_map(Op::Wait),
                Just(Op::Restart),
            ],
            0..60,
        )
    }

    proptest! {
        /// Over any order of calls and restarts: granted tokens grow strictly and each was durable before.
        #[test]
        fn granted_tokens_only_grow(ops in ops()) {
            let mut disk = 0_u64;
            let mut lease = ControlLease::new(TIMES, disk);
            let (mut now, mut pending, mut last) = (ZERO, None, 0_u64);
            for op in ops {
                let before = lease.token();
                match op {
                    Op::Acquire(who, over) => {
                        if let Ok(grant) = lease.acquire(now, &format!("c{who}"), ZERO, over) {
                            pending = Some(grant.token);
                        }
                    }
                    Op::Stored => if let Some(token) = pending.take() {
                        disk = disk.max(token);
                        lease.stored(now, token);
                    },
                    Op::NotStored => if let Some(token) = pending.take() {
                        // The worst case: it reached the disk although it was reported as failed.
                        disk = disk.max(token);
                        lease.not_stored(token);
                    },
                    Op::Renew(who) => { let _ = lease.renew(now, &format!("c{who}"), lease.token(), ZERO); }
                    Op::Release(who) => { let _ = lease.release(now, &format!("c{who}"), lease.token()); }
                    Op::Wait(ms) => now += Duration::from_millis(ms.into()),
                    Op::Restart => { lease = ControlLease::new(TIMES, disk); pending = None; }
                }
                if lease.token() != before && lease.is_alive(now) {
                    prop_assert!(lease.token() > last);
                    last = lease.token();
                }
                if lease.is_alive(now) {
                    prop_assert!(disk >= lease.token());
                }
            }
        }
    }
}

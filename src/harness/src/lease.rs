//! Holding the control lease: acquired once, renewed three times in its lifetime, released at the end.
//!
//! Times are on the budget clock, on which protection counts the lease's life. The life of a grant is
//! counted here from when it was asked for, so that it never seems longer here than it is there.

use std::time::Duration;

use crate::event::Event;

/// Renewals in one lifetime: two answers in a row may be lost.
const RENEWALS: u32 = 3;

/// What `manage_lease` is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseOperation {
    /// A new token.
    Acquire,
    /// A longer life for this token.
    Renew {
        /// The token.
        token: u64,
    },
    /// The end of this token.
    Release {
        /// The token.
        token: u64,
    },
}

/// One call of `manage_lease`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseCall {
    /// Comes back with the answer.
    pub ticket: u64,
    /// What for.
    pub operation: LeaseOperation,
    /// An answer that comes later than this is worth nothing.
    pub limit: Duration,
}

/// What the lease wants to be done, in order.
#[derive(Clone, Debug)]
pub enum LeaseEffect {
    /// Call the service.
    Call(LeaseCall),
    /// Tell the loop.
    Tell(Event),
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseAnswer {
    /// Done; the token of the grant.
    Granted {
        /// The token.
        token: u64,
    },
    /// Refused.
    Refused {
        /// Why.
        reason: String,
    },
    /// No answer could be had.
    Missing {
        /// Why.
        reason: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Free,
    Asking {
        ticket: u64,
        asked: Duration,
        /// It was released before it was granted.
        unwanted: bool,
    },
    Held {
        token: u64,
        alive_from: Duration,
        renewed: Duration,
        renewing: Option<(u64, Duration)>,
        /// Why the last renewal failed.
        trouble: String,
    },
}

/// The control lease as this process holds it.
#[derive(Clone, Debug)]
pub struct LeaseHolder {
    ttl: Duration,
    state: State,
    ticket: u64,
}

impl LeaseHolder {
    /// Holds nothing yet. `ttl`: the life of a grant.
    pub const fn new(ttl: Duration) -> Self {
        LeaseHolder {
            ttl,
            state: State::Free,
            ticket: 0,
        }
    }

    /// The token that is held.
    pub const fn token(&self) -> Option<u64> {
        match self.state {
            State::Held { token, .. } => Some(token),
            State::Free | State::Asking { .. } => None,
        }
    }

    /// When [`tick`](Self::tick) has something to do; `None`: nothing is waited for.
    pub fn next_due(&self) -> Option<Duration> {
        match &self.state {
            State::Free => None,
            State::Asking { asked, .. } => Some(asked.saturating_add(self.ttl)),
            State::Held {
                alive_from,
                renewed,
                renewing,
                ..
            } => {
                let next = match renewing {
                    Some((_, asked)) => asked.saturating_add(self.period()),
                    None => renewed.saturating_add(self.period()),
                };
                Some(next.min(alive_from.saturating_add(self.ttl)))
            }
        }
    }

    /// Acquires it. While an answer is out nothing is asked again: that would only make the grant obsolete.
    pub fn acquire(&mut self, now: Duration) -> Vec<LeaseEffect> {
        if let State::Asking { unwanted, .. } = &mut self.state {
            *unwanted = false;
            return Vec::new();
        }
        let call = self.call(LeaseOperation::Acquire, self.ttl);
        self.state = State::Asking {
            ticket: call.ticket,
            asked: now,
            unwanted: false,
        };
        vec![LeaseEffect::Call(call)]
    }

    /// Releases it. What is not held is not released.
    pub fn release(&mut self) -> Vec<LeaseEffect> {
        match &mut self.state {
            State::Free => Vec::new(),
            State::Asking { unwanted, .. } => {
                *unwanted = true;
                Vec::new()
            }
            State::Held { token, .. } => {
                let operation = LeaseOperation::Release { token: *token };
                self.state = State::Free;
                vec![LeaseEffect::Call(self.call(operation, self.ttl))]
            }
        }
    }

    /// An answer. One that nobody waits for any more is dropped.
    pub fn answered(
        &mut self,
        ticket: u64,
        answer: LeaseAnswer,
        now: Duration,
    ) -> Vec<LeaseEffect> {
        match self.state.clone() {
            State::Asking {
                ticket: wanted,
                asked,
                unwanted,
            } if wanted == ticket => match answer {
                LeaseAnswer::Granted { token } if unwanted => {
                    self.state = State::Free;
                    let operation = LeaseOperation::Release { token };
                    vec![LeaseEffect::Call(self.call(operation, self.ttl))]
                }
                LeaseAnswer::Granted { token } => {
                    self.state = State::Held {
                        token,
                        alive_from: asked,
                        // It may have taken most of its life, as to get onto the disk of a busy machine.
                        renewed: asked,
                        renewing: None,
                        trouble: String::new(),
                    };
                    vec![LeaseEffect::Tell(Event::LeaseGranted { token })]
                }
                LeaseAnswer::Refused { reason } | LeaseAnswer::Missing { reason } => {
                    self.state = State::Free;
                    if unwanted {
                        return Vec::new();
                    }
                    vec![LeaseEffect::Tell(Event::LeaseRefused { reason })]
                }
            },
            State::Held {
                token,
                renewing: Some((wanted, asked)),
                alive_from,
                renewed,
                ..
            } if wanted == ticket => match answer {
                LeaseAnswer::Granted { .. } => {
                    self.state = State::Held {
                        token,
                        alive_from: asked,
                        renewed: now,
                        renewing: None,
                        trouble: String::new(),
                    };
                    Vec::new()
                }
                LeaseAnswer::Refused { reason } => self.lose(reason, false),
                // It may be lost; the lease lives on until its time is over.
                LeaseAnswer::Missing { reason } => {
                    self.state = State::Held {
                        token,
                        alive_from,
                        renewed,
                        renewing: None,
                        trouble: reason,
                    };
                    self.tick(now)
                }
            },
            State::Free | State::Asking { .. } | State::Held { .. } => Vec::new(),
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Duration) -> Vec<LeaseEffect> {
        let period = self.period();
        match self.state.clone() {
            State::Free => Vec::new(),
            State::Asking { ticket, asked, .. } => {
                if since(now, asked) < self.ttl && now >= asked {
                    return Vec::new();
                }
                let reason = format!(
                    "manage_lease did not answer within {:.1} s",
                    self.ttl.as_secs_f64()
                );
                self.answered(ticket, LeaseAnswer::Missing { reason }, now)
            }
            State::Held { alive_from, .. } if now < alive_from => {
                let reason = "the clock was set back, so that its life is uncertain";
                self.lose(reason.into(), false)
            }
            State::Held {
                alive_from,
                trouble,
                ..
            } if since(now, alive_from) >= self.ttl => {
                let why = if trouble.is_empty() {
                    "no renewal was answered".to_owned()
                } else {
                    trouble
                };
                let reason = format!(
                    "it could not be renewed within its {:.1} s: {why}",
                    self.ttl.as_secs_f64()
                );
                self.lose(reason, false)
            }
            State::Held {
                renewing: Some((ticket, asked)),
                ..
            } => {
                if since(now, asked) < period {
                    return Vec::new();
                }
                let reason = format!(
                    "manage_lease did not answer within {:.1} s",
                    period.as_secs_f64()
                );
                self.answered(ticket, LeaseAnswer::Missing { reason }, now)
            }
            State::Held {
                token,
                alive_from,
                renewed,
                renewing: None,
                trouble,
            } => {
                // After a failed renewal at once again.
                if since(now, renewed) < period && trouble.is_empty() {
                    return Vec::new();
                }
                let call = self.call(LeaseOperation::Renew { token }, period);
                self.state = State::Held {
                    token,
                    alive_from,
                    renewed: now,
                    renewing: Some((call.ticket, now)),
                    trouble,
                };
                vec![LeaseEffect::Call(call)]
            }
        }
    }

    /// What protection says about the lease: its newest token and who holds it.
    pub fn seen(&mut self, newest: u64, controller_id: &str) -> Vec<LeaseEffect> {
        match self.state {
            State::Held { token, .. } if newest > token => {
                let holder = if controller_id.is_empty() {
                    "nobody"
                } else {
                    controller_id
                };
                let reason = format!("it was given to {holder} with token {newest}");
                self.lose(reason, true)
            }
            State::Free | State::Asking { .. } | State::Held { .. } => Vec::new(),
        }
    }

    fn lose(&mut self, reason: String, taken: bool) -> Vec<LeaseEffect> {
        self.state = State::Free;
        vec![LeaseEffect::Tell(Event::LeaseLost { reason, taken })]
    }

    fn call(&mut self, operation: LeaseOperation, limit: Duration) -> LeaseCall {
        self.ticket = self.ticket.wrapping_add(1);
        LeaseCall {
            ticket: self.ticket,
            operation,
            limit,
        }
    }

    fn period(&self) -> Duration {
        self.ttl / RENEWALS
    }
}

fn since(now: Duration, then: Duration) -> Duration {
    now.saturating_sub(then)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(3);

    fn s(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    fn call(effects: &[LeaseEffect]) -> LeaseCall {
        match effects {
            [LeaseEffect::Call(call)] => *call,
            other => panic!("one call expected: {other:?}"),
        }
    }

    fn lost(effects: &[LeaseEffect]) -> String {
        match effects {
            [LeaseEffect::Tell(Event::LeaseLost { reason, .. })] => reason.clone(),
            other => panic!("a lost lease expected: {other:?}"),
        }
    }

    fn held(token: u64, at: Duration) -> LeaseHolder {
        let mut holder = LeaseHolder::new(TTL);
        let asked = call(&holder.acquire(at));
        let told = holder.answered(asked.ticket, LeaseAnswer::Granted { token }, at);
        assert!(matches!(
            told.as_slice(),
            [LeaseEffect::Tell(Event::LeaseGranted { .. })]
        ));
        holder
    }

    #[test]
    fn after_a_slow_answer_the_next_is_asked_for_in_time() {
        // Of 3 s the grant has taken 2.1 s, as where a disk is slow or simulated time fast.
        let mut holder = LeaseHolder::new(s(3.0));
        holder.acquire(s(0.0));
        let granted = LeaseAnswer::Granted { token: 7 };
        holder.answered(1, granted, s(2.1));
        assert!(holder.next_due().is_some_and(|due| due <= s(2.1)));
        let effects = holder.tick(s(2.1));
        assert!(
            matches!(
                effects.as_slice(),
                [LeaseEffect::Call(LeaseCall {
                    operation: LeaseOperation::Renew { token: 7 },
                    ..
                })]
            ),
            "{effects:?}"
        );
    }

    #[test]
    fn it_is_renewed_three_times_in_its_life() {
        let mut holder = held(7, s(10.0));
        assert!(holder.tick(s(10.9)).is_empty());
        assert_eq!(holder.next_due(), Some(s(11.0)));
        let renewal = call(&holder.tick(s(11.0)));
        assert_eq!(renewal.operation, LeaseOperation::Renew { token: 7 });
        assert!(holder.tick(s(11.2)).is_empty());
        holder.answered(renewal.ticket, LeaseAnswer::Granted { token: 7 }, s(11.5));
        // A third of the life after the answer: slow answers are not asked for without a pause.
        assert!(holder.tick(s(12.4)).is_empty());
        call(&holder.tick(s(12.5)));
    }

    #[test]
    fn two_lost_answers_do_not_lose_it_and_three_do() {
        let mut holder = held(7, s(0.0));
        call(&holder.tick(s(1.0)));
        // The answer is out for a third of the life: then at once again.
        call(&holder.tick(s(2.0)));
        assert_eq!(holder.token(), Some(7));
        let reason = lost(&holder.tick(s(3.0)));
        assert!(
            reason.contains("3.0 s") && reason.contains("did not answer"),
            "{reason}"
        );
        assert_eq!(holder.token(), None);
        assert!(holder.tick(s(4.0)).is_empty());
    }

    #[test]
    fn its_life_counts_from_when_it_was_asked_for() {
        let mut holder = LeaseHolder::new(TTL);
        let asked = call(&holder.acquire(s(0.0)));
        holder.answered(asked.ticket, LeaseAnswer::Granted { token: 1 }, s(2.5));
        lost(&holder.tick(s(3.0)));
    }

    #[test]
    fn released_before_it_was_granted_it_is_given_back() {
        let mut holder = LeaseHolder::new(TTL);
        let asked = call(&holder.acquire(s(0.0)));
        assert!(holder.release().is_empty());
        let back = call(&holder.answered(asked.ticket, LeaseAnswer::Granted { token: 4 }, s(0.1)));
        assert_eq!(back.operation, LeaseOperation::Release { token: 4 });
        assert_eq!(holder.token(), None);
    }

    #[test]
    fn asking_again_while_an_answer_is_out_asks_nothing() {
        let mut holder = LeaseHolder::new(TTL);
        let asked = call(&holder.acquire(s(0.0)));
        assert!(holder.acquire(s(0.5)).is_empty());
        holder.release();
        assert!(holder.acquire(s(0.6)).is_empty());
        let told = holder.answered(asked.ticket, LeaseAnswer::Granted { token: 4 }, s(1.0));
        assert!(matches!(
            told.as_slice(),
            [LeaseEffect::Tell(Event::LeaseGranted { token: 4 })]
        ));
    }

    #[test]
    fn a_refusal_and_a_missing_answer_are_told_with_their_reason() {
        let mut holder = LeaseHolder::new(TTL);
        let asked = call(&holder.acquire(s(0.0)));
        let reason = "held by /other".to_owned();
        let told = holder.answered(asked.ticket, LeaseAnswer::Refused { reason }, s(0.1));
        assert!(
            matches!(told.as_slice(), [LeaseEffect::Tell(Event::LeaseRefused { reason })] if reason.contains("/other"))
        );
        holder.acquire(s(1.0));
        let told = holder.tick(s(4.0));
        assert!(
            matches!(told.as_slice(), [LeaseEffect::Tell(Event::LeaseRefused { reason })] if reason.contains("3.0 s"))
        );
    }

    #[test]
    fn a_newer_token_elsewhere_ends_it_and_an_older_one_does_not() {
        let mut holder = held(7, s(0.0));
        assert!(holder.seen(6, "/old").is_empty());
        assert!(holder.seen(7, "/me").is_empty());
        let told = holder.seen(8, "/other");
        assert!(matches!(
            told.as_slice(),
            [LeaseEffect::Tell(Event::LeaseLost { taken: true, .. })]
        ));
        let reason = lost(&told);
        assert!(
            reason.contains("/other") && reason.contains('8'),
            "{reason}"
        );
    }

    #[test]
    fn a_clock_set_back_ends_it() {
        let mut holder = held(7, s(10.0));
        lost(&holder.tick(s(9.0)));
    }

    #[test]
    fn answers_to_an_older_question_are_dropped() {
        let mut holder = held(7, s(0.0));
        let renewal = call(&holder.tick(s(1.0)));
        let reason = String::new();
        let stale = LeaseAnswer::Refused { reason };
        assert!(holder
            .answered(renewal.ticket.wrapping_sub(1), stale, s(1.1))
            .is_empty());
        assert_eq!(holder.token(), Some(7));
    }
}

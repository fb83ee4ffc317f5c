//! A latched stop and its stages.

use std::collections::VecDeque;
use std::time::Duration;

use eh_contract::id::check_id;
use eh_contract::state::StopStage;
use eh_contract::ErrorCode;
use thiserror::Error;

use crate::kept_stop::{KeptStop, PendingReset, StopChange, StopRecord, UNREADABLE_STOP};
use crate::standstill::{Standstill, StandstillLimits};

/// How many requests of the stop in force are kept by name; older ones still count as stopped.
pub const MAX_REQUESTS: usize = 64;

/// Longest text of a source or reason that is kept, in characters.
pub const MAX_TEXT: usize = 512;

/// Who asked for a stop, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopRequest {
    /// Name of the stop.
    pub stop_id: String,
    /// Who asked.
    pub source: String,
    /// Why.
    pub reason: String,
}

/// Why a reset is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ResetError {
    /// Operator or reason is missing.
    #[error("{0} is empty; a reset needs the operator's name and a reason")]
    Incomplete(&'static str),
    /// Nothing to reset.
    #[error("no stop is latched; there is nothing to reset")]
    NotLatched,
    /// The base may still move.
    #[error("stop {stop_id} is not confirmed by measured standstill; look at the robot, wait until odometry reports standstill, or reset with force")]
    NotStanding {
        /// The newest stop.
        stop_id: String,
    },
    /// Somebody stopped, or reset, while the reset was being written.
    #[error("stop {stop_id} was changed while the reset was being made durable, so it stays in force; look at the robot and reset it again")]
    Overtaken {
        /// The newest stop.
        stop_id: String,
    },
    /// The disk does not take it.
    #[error("the reset could not be made durable ({0}), so the stop stays in force; repair the state directory, or reset with force, but then a restart is stopped again")]
    Storage(String),
}

impl ResetError {
    /// The code that goes out in `error_code`.
    pub fn code(&self) -> ErrorCode {
        match self {
            ResetError::Incomplete(_) => ErrorCode::ProtectionInvalidRequest,
            ResetError::NotLatched => ErrorCode::NotLatched,
            ResetError::NotStanding { .. } | ResetError::Overtaken { .. } => ErrorCode::NotStanding,
            ResetError::Storage(_) => ErrorCode::LeaseStorageFailure,
        }
    }
}

/// The stop in force, if any. Stop is open to all and never dropped.
#[derive(Clone, Debug, Default)]
pub struct StopLatch {
    latched: Option<Latched>,
    made: u64,
    // Of what is to be kept; grows with each change.
    revision: u64,
}

#[derive(Clone, Debug)]
struct Latched {
    requests: VecDeque<StopRequest>,
    stage: StopStage,
    received_at: Duration,
    deadline: Duration,
}

impl StopLatch {
    /// Puts in force what an earlier life of the process left. Call it before anything may move.
    ///
    /// The stop is confirmed anew: nobody watched the robot in between.
    pub fn resume(&mut self, now: Duration, kept: KeptStop, budget: Duration) {
        let request = match kept {
            KeptStop::Free => return,
            KeptStop::Latched(request) => {
                // Names that are made go on from those of the earlier life.
                let made = request.stop_id.strip_prefix("stop-").map(str::parse);
                if let Some(Ok(made)) = made {
                    self.made = self.made.max(made);
                }
                request
            }
            KeptStop::Unreadable(why) => StopRequest {
                stop_id: UNREADABLE_STOP.into(),
                source: "protection".into(),
                reason: format!(
                    "whether a stop was latched is not known, look at the robot: {why}"
                ),
            },
        };
        self.request(now, request, budget);
    }

    /// What the disk has to hold; `None` while no stop is in force.
    pub fn record(&self) -> Option<StopRecord> {
        self.newest().map(|newest| StopRecord {
            revision: self.revision,
            change: StopChange::Latched(newest.clone()),
        })
    }

    /// Takes a stop. It never fails: an id or text that is not usable is replaced or cut, since a stop with
    /// an odd name is still a stop.
    ///
    /// Asking again while the base is not known to stand does not extend the time in which it has to.
    /// After a confirmed stop a new one is confirmed anew. Returns the id under which it is kept.
    pub fn request(&mut self, now: Duration, request: StopRequest, budget: Duration) -> String {
        let stop_id = if check_id("stop_id", &request.stop_id).is_ok() {
            request.stop_id
        } else {
            self.made = self.made.saturating_add(1);
            format!("stop-{}", self.made)
        };
        let request = StopRequest {
            stop_id: stop_id.clone(),
            source: cut(request.source),
            reason: cut(request.reason),
        };
        let deadline = now.saturating_add(budget);
        self.revision = self.revision.saturating_add(1);
        match &mut self.latched {
            Some(latched) => {
                match latched.stage {
                    StopStage::Confirmed => {
                        latched.stage = StopStage::Requested;
                        latched.received_at = now;
                        latched.deadline = deadline;
                    }
                    StopStage::None
                    | StopStage::Requested
                    | StopStage::Received
                    | StopStage::Unconfirmed => {}
                }
                if !latched.requests.iter().any(|r| r.stop_id == stop_id) {
                    if latched.requests.len() >= MAX_REQUESTS {
                        latched.requests.pop_front();
                    }
                    latched.requests.push_back(request);
                }
            }
            None => {
                self.latched = Some(Latched {
                    requests: VecDeque::from([request]),
                    stage: StopStage::Requested,
                    received_at: now,
                    deadline,
                });
            }
        }
        stop_id
    }

    /// Says that zero velocity, or the ramp to it, has become the output.
    pub fn received(&mut self) {
        if let Some(latched) = &mut self.latched {
            if latched.stage == StopStage::Requested {
                latched.stage = StopStage::Received;
            }
        }
    }

    /// Moves the stage by what odometry measured. Returns true when it changed.
    pub fn observe(
        &mut self,
        now: Duration,
        standstill: &Standstill,
        limits: &StandstillLimits,
    ) -> bool {
        let Some(latched) = &mut self.latched else {
            return false;
        };
        let standing = standstill.standing_after(now, latched.received_at, limits);
        let next = match latched.stage {
            StopStage::Requested => StopStage::Requested,
            StopStage::None | StopStage::Received => {
                if standing {
                    StopStage::Confirmed
                } else if now >= latched.deadline {
                    StopStage::Unconfirmed
                } else {
                    latched.stage
                }
            }
            // Late, but measured: without this an operator could only reset with force.
            StopStage::Unconfirmed if standing => StopStage::Confirmed,
            StopStage::Unconfirmed => StopStage::Unconfirmed,
            // Pushed, or driven by someone else: no longer standing, and that must show.
            StopStage::Confirmed if standstill.is_moving() => StopStage::Unconfirmed,
            StopStage::Confirmed => StopStage::Confirmed,
        };
        let changed = next != latched.stage;
        if changed && next == StopStage::Unconfirmed {
            // What is measured from here on counts for a late confirmation.
            latched.received_at = now;
        }
        latched.stage = next;
        changed
    }

    /// Asks to take the stop back. It stays in force until [`finish_reset`](Self::finish_reset).
    ///
    /// # Errors
    /// [`ResetError`]; nothing has changed then.
    pub fn reset(
        &mut self,
        operator: &str,
        reason: &str,
        force: bool,
    ) -> Result<PendingReset, ResetError> {
        if operator.trim().is_empty() {
            return Err(ResetError::Incomplete("operator_name"));
        }
        if reason.trim().is_empty() {
            return Err(ResetError::Incomplete("reason"));
        }
        self.check_standing(force)?;
        self.revision = self.revision.saturating_add(1);
        Ok(PendingReset {
            record: StopRecord {
                revision: self.revision,
                change: StopChange::Reset {
                    operator: cut(operator.into()),
                    reason: cut(reason.into()),
                },
            },
            force,
        })
    }

    /// Takes the stop back, now that the disk has answered: `kept` says whether it holds the reset, or why not.
    ///
    /// # Errors
    /// [`ResetError`]; the stop then stays in force, and [`record`](Self::record) has to be kept again.
    pub fn finish_reset(
        &mut self,
        pending: &PendingReset,
        kept: Result<(), String>,
    ) -> Result<(), ResetError> {
        let done = self.check_standing(pending.force).and_then(|()| {
            if self.revision != pending.record.revision {
                return Err(ResetError::Overtaken {
                    stop_id: self.newest_id(),
                });
            }
            match kept {
                Ok(()) => Ok(()),
                Err(_) if pending.force => Ok(()),
                Err(reason) => Err(ResetError::Storage(reason)),
            }
        });
        if done.is_ok() {
            self.latched = None;
        } else {
            // Newer than the reset, which may be on the disk.
            self.revision = self.revision.saturating_add(1);
        }
        done
    }

    fn check_standing(&self, force: bool) -> Result<(), ResetError> {
        let Some(latched) = &self.latched else {
            return Err(ResetError::NotLatched);
        };
        if latched.stage != StopStage::Confirmed && !force {
            return Err(ResetError::NotStanding {
                stop_id: self.newest_id(),
            });
        }
        Ok(())
    }

    fn newest_id(&self) -> String {
        self.newest().map(|r| r.stop_id.clone()).unwrap_or_default()
    }

    /// True while a stop is in force.
    pub fn is_latched(&self) -> bool {
        self.latched.is_some()
    }

    /// Stage of the stop in force; `None` without one.
    pub fn stage(&self) -> StopStage {
        self.latched.as_ref().map_or(StopStage::None, |l| l.stage)
    }

    /// The newest request of the stop in force.
    pub fn newest(&self) -> Option<&StopRequest> {
        self.latched.as_ref().and_then(|l| l.requests.back())
    }

    /// Every request of the stop in force that is kept, oldest first.
    pub fn requests(&self) -> impl Iterator<Item = &StopRequest> {
        self.latched.iter().flat_map(|l| l.requests.iter())
    }

    /// Takes back the times of a clock that was set back, so that the budget starts again at `now`.
    pub(crate) fn clock_restarted(&mut self, now: Duration, budget: Duration) {
        if let Some(latched) = &mut self.latched {
            latched.received_at = now;
            latched.deadline = now.saturating_add(budget);
        }
    }
}

fn cut(text: String) -> String {
    if text.chars().nth(MAX_TEXT).is_some() {
        text.chars().take(MAX_TEXT).collect()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: StandstillLimits = StandstillLimits {
        linear: 0.01,
        angular: 0.02,
        window: Duration::from_millis(300),
        max_gap: Duration::from_millis(200),
    };
    const BUDGET: Duration = Duration::from_secs(2);

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// A reset with a disk that takes it.
    fn reset(latch: &mut StopLatch, who: &str, why: &str, force: bool) -> Result<(), ResetError> {
        let pending = latch.reset(who, why, force)?;
        latch.finish_reset(&pending, Ok(()))
    }

    fn ask(id: &str) -> StopRequest {
        StopRequest {
            stop_id: id.into(),
            source: "test".into(),
            reason: "test".into(),
        }
    }

    /// Measures `speed` at 10 Hz in [from, to] ms and lets the latch see each.
    fn drive(latch: &mut StopLatch, s: &mut Standstill, from: u64, to: u64, speed: f64) {
        for t in (from..=to).step_by(100) {
            s.measured(ms(t), speed, 0.0, &LIMITS);
            latch.observe(ms(t), s, &LIMITS);
        }
    }

    #[test]
    fn goes_through_its_stages_and_needs_measured_standstill() {
        let (mut latch, mut s) = (StopLatch::default(), Standstill::default());
        latch.request(ms(0), ask("a"), BUDGET);
        assert_eq!(latch.stage(), StopStage::Requested);
        drive(&mut latch, &mut s, 0, 100, 0.0);
        assert_eq!(
            latch.stage(),
            StopStage::Requested,
            "nothing was put out yet"
        );
        latch.received();
        assert_eq!(latch.stage(), StopStage::Received);
        drive(&mut latch, &mut s, 200, 300, 0.5);
        assert_eq!(latch.stage(), StopStage::Received);
        drive(&mut latch, &mut s, 400, 600, 0.0);
        assert_eq!(latch.stage(), StopStage::Received, "200 ms is no window");
        drive(&mut latch, &mut s, 700, 700, 0.0);
        assert_eq!(latch.stage(), StopStage::Confirmed);
    }

    #[test]
    fn without_odometry_it_becomes_unconfirmed_and_asking_again_extends_nothing() {
        let (mut latch, s) = (StopLatch::default(), Standstill::default());
        latch.request(ms(0), ask("a"), BUDGET);
        latch.received();
        latch.request(ms(1900), ask("b"), BUDGET);
        latch.observe(ms(1999), &s, &LIMITS);
        assert_eq!(latch.stage(), StopStage::Received);
        latch.observe(ms(2000), &s, &LIMITS);
        assert_eq!(latch.stage(), StopStage::Unconfirmed);
        assert_eq!(
            latch.newest().unwrap().stop_id,
            "b",
            "the second is not dropped"
        );
        assert_eq!(latch.requests().count(), 2);
    }

    #[test]
    fn late_standstill_confirms_and_motion_takes_it_back() {
        let (mut latch, mut s) = (StopLatch::default(), Standstill::default());
        latch.request(ms(0), ask("a"), BUDGET);
        latch.received();
        drive(&mut latch, &mut s, 0, 2500, 0.5);
        assert_eq!(latch.stage(), StopStage::Unconfirmed);
        drive(&mut latch, &mut s, 2600, 3000, 0.0);
        assert_eq!(latch.stage(), StopStage::Confirmed);
        drive(&mut latch, &mut s, 3100, 3100, 0.5);
        assert_eq!(latch.stage(), StopStage::Unconfirmed);
    }

    #[test]
    fn a_stop_after_a_confirmed_one_is_confirmed_anew() {
        let (mut latch, mut s) = (StopLatch::default(), Standstill::default());
        latch.request(ms(0), ask("a"), BUDGET);
        latch.received();
        drive(&mut latch, &mut s, 0, 400, 0.0);
        assert_eq!(latch.stage(), StopStage::Confirmed);
        // Same id: not taken for a replay.
        latch.request(ms(450), ask("a"), BUDGET);
        assert_eq!(latch.stage(), StopStage::Requested);
        latch.received();
        drive(&mut latch, &mut s, 500, 700, 0.0);
        assert_eq!(
            latch.stage(),
            StopStage::Received,
            "250 ms after it is no window"
        );
        drive(&mut latch, &mut s, 800, 800, 0.0);
        assert_eq!(latch.stage(), StopStage::Confirmed);
    }

    #[test]
    fn reset_wants_a_person_a_reason_and_standstill() {
        let (mut latch, mut s) = (StopLatch::default(), Standstill::default());
        assert_eq!(
            reset(&mut latch, "ann", "done", false),
            Err(ResetError::NotLatched)
        );
        latch.request(ms(0), ask("a"), BUDGET);
        latch.received();
        assert_eq!(
            reset(&mut latch, " ", "done", true),
            Err(ResetError::Incomplete("operator_name"))
        );
        assert_eq!(
            reset(&mut latch, "ann", "", true),
            Err(ResetError::Incomplete("reason"))
        );
        assert!(matches!(
            reset(&mut latch, "ann", "done", false),
            Err(ResetError::NotStanding { .. })
        ));
        assert!(latch.is_latched());
        assert_eq!(reset(&mut latch.clone(), "ann", "towed away", true), Ok(()));
        drive(&mut latch, &mut s, 0, 400, 0.0);
        assert_eq!(reset(&mut latch, "ann", "done", false), Ok(()));
        assert!(!latch.is_latched());
        // The same id latches again after the reset.
        latch.request(ms(900), ask("a"), BUDGET);
        assert!(latch.is_latched());
    }

    /// A latch that stands confirmed at 400 ms.
    fn confirmed(request: StopRequest) -> (StopLatch, Standstill) {
        let (mut latch, mut s) = (StopLatch::default(), Standstill::default());
        latch.request(ms(0), request, BUDGET);
        latch.received();
        drive(&mut latch, &mut s, 0, 400, 0.0);
        assert_eq!(latch.stage(), StopStage::Confirmed);
        (latch, s)
    }

    #[test]
    fn what_an_earlier_life_left_is_in_force_and_confirmed_anew() {
        let mut latch = StopLatch::default();
        latch.resume(ms(0), KeptStop::Free, BUDGET);
        assert!(!latch.is_latched() && latch.record().is_none());
        latch.resume(ms(0), KeptStop::Latched(ask("stop-7")), BUDGET);
        assert_eq!(latch.newest(), Some(&ask("stop-7")));
        assert_eq!(latch.stage(), StopStage::Requested);
        assert_eq!(latch.request(ms(1), ask(""), BUDGET), "stop-8");
    }

    #[test]
    fn what_can_not_be_read_stops_and_says_so() {
        let mut latch = StopLatch::default();
        latch.resume(ms(0), KeptStop::Unreadable("f is damaged".into()), BUDGET);
        let newest = latch.newest().unwrap();
        assert_eq!(newest.stop_id, UNREADABLE_STOP);
        assert!(newest.reason.contains("look at the robot"));
        assert!(newest.reason.contains("f is damaged"));
    }

    #[test]
    fn a_reset_acts_only_when_it_is_kept_or_forced() {
        let (mut latch, _) = confirmed(ask("a"));
        let pending = latch.reset("ann", "done", false).unwrap();
        assert!(latch.is_latched(), "not before the disk has it");
        assert_eq!(
            latch.finish_reset(&pending, Err("full".into())),
            Err(ResetError::Storage("full".into()))
        );
        assert!(latch.is_latched());
        let again = latch.record().unwrap();
        assert!(again.revision > pending.record.revision);
        assert_eq!(again.change, StopChange::Latched(ask("a")));
        let pending = latch.reset("ann", "done", true).unwrap();
        assert_eq!(latch.finish_reset(&pending, Err("full".into())), Ok(()));
        assert!(!latch.is_latched() && latch.record().is_none());
        assert_eq!(
            latch.finish_reset(&pending, Ok(())),
            Err(ResetError::NotLatched)
        );
    }

    #[test]
    fn a_stop_during_a_reset_wins() {
        for force in [false, true] {
            let (mut latch, mut s) = confirmed(ask("a"));
            let pending = latch.reset("ann", "done", force).unwrap();
            // Known by name already, and by now confirmed again.
            latch.request(ms(450), ask("a"), BUDGET);
            latch.received();
            drive(&mut latch, &mut s, 500, 900, 0.0);
            assert_eq!(latch.stage(), StopStage::Confirmed);
            assert!(matches!(
                latch.finish_reset(&pending, Ok(())),
                Err(ResetError::Overtaken { .. })
            ));
            assert!(latch.is_latched());
            assert!(latch.record().unwrap().revision > pending.record.revision);
        }
    }

    #[test]
    fn who_is_pushed_during_a_reset_stays_stopped() {
        let (mut latch, mut s) = confirmed(ask("a"));
        let pending = latch.reset("ann", "done", false).unwrap();
        drive(&mut latch, &mut s, 500, 500, 0.4);
        assert!(matches!(
            latch.finish_reset(&pending, Ok(())),
            Err(ResetError::NotStanding { .. })
        ));
        assert!(latch.record().unwrap().revision > pending.record.revision);
    }

    #[test]
    fn odd_names_and_floods_stop_all_the_same() {
        let mut latch = StopLatch::default();
        assert_eq!(latch.request(ms(0), ask(""), BUDGET), "stop-1");
        assert_eq!(latch.request(ms(0), ask("a b"), BUDGET), "stop-2");
        let mut long = ask("x");
        long.reason = "é".repeat(100_000);
        latch.request(ms(0), long, BUDGET);
        assert_eq!(latch.newest().unwrap().reason.chars().count(), MAX_TEXT);
        for i in 0..1000 {
            latch.request(ms(1), ask(&format!("s{i}")), BUDGET);
        }
        assert_eq!(latch.requests().count(), MAX_REQUESTS);
        assert_eq!(latch.newest().unwrap().stop_id, "s999");
    }
}

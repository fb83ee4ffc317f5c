//! Protection with the control lease, as `protection_node` runs them.

use std::time::Duration;

use eh_protection::authority::LeaseState;
use eh_protection::footprint::{Footprint, FootprintError};
use eh_protection::kept_stop::{KeptStop, PendingReset, StopChange};
use eh_protection::lease::{ControlLease, LeaseError};
use eh_protection::params::Params;
use eh_protection::protection::TwistCommand;
use eh_protection::scan::{Mounting, RawScan, Scan};
use eh_protection::speed_limit::Braking;
use eh_protection::stop::StopRequest;
use eh_protection::{Decision, Protection, Velocity};
use eh_sim::lidar::MOUNT;

use crate::clock::{time_of, Every};
use crate::context::{Context, Process};
use crate::failpoint::{own, Crash, Moment};
use crate::message::{Body, LeaseRequest, Letter, News, ProtectionNews, Reply, Request};
use crate::process_id::Address;

/// As the node's output_rate.
const PERIOD: Duration = Duration::from_millis(40);
/// The state goes out at least this often.
const STATE: Duration = Duration::from_millis(400);
/// A stop that the disk did not take is written again after this time, then after twice as long, and so on …
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// … but at least this often.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// As the node's max_invalid_beams.
const MAX_INVALID: f64 = 0.2;

/// The parameters of `params/protection_node.yaml`.
///
/// # Errors
/// [`FootprintError`] for a footprint that is none.
pub fn params() -> Result<Params, FootprintError> {
    Ok(Params {
        stop_margin: 0.02,
        slow_margin: 0.12,
        slow_linear: 0.35,
        braking: Braking {
            reaction_time: 0.2,
            linear: 1.2,
            angular: 3.0,
        },
        command_timeout: Duration::from_millis(400),
        ..Params::for_footprint(Footprint::circle(0.27)?)
    })
}

/// How protection is in truth, for the referee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtectionView {
    /// Somebody holds the control lease.
    pub lease_alive: bool,
    /// A stop is in force.
    pub stopped: bool,
}

/// What protection's thread for the disk has to do: the newest stop or reset, as `stop_keeper.rs` of the node.
#[derive(Debug, Default)]
struct Keeping {
    /// Revision of what the disk holds.
    kept: u64,
    /// A reset that waits for the disk, and who waits for it.
    reset: Option<(Address, u64, PendingReset)>,
    again: Duration,
    pause: Duration,
}

/// Protection.
#[derive(Debug)]
pub struct ProtectionProcess {
    protection: Protection,
    lease: ControlLease,
    period: Every,
    told: Option<ProtectionNews>,
    told_at: Option<Duration>,
    told_lease: Option<(String, u64)>,
    keeping: Keeping,
}

impl ProtectionProcess {
    /// Begins with the tokens and the stop that are on the disk.
    ///
    /// # Errors
    /// As [`params`].
    pub fn new(context: &mut Context<'_>) -> Result<Self, FootprintError> {
        let params = params()?;
        let disks = &context.outside.disks;
        let newest = disks.tokens.durable().iter().copied().max().unwrap_or(0);
        // A file that can't be written counts as a stop.
        let kept = match (
            disks.stops.trouble(context.time()),
            disks.stops.durable().last(),
        ) {
            (Some(trouble), _) => KeptStop::Unreadable(trouble.words().into()),
            (None, Some(StopChange::Latched(stop))) => KeptStop::Latched(stop.clone()),
            (None, Some(StopChange::Reset { .. }) | None) => KeptStop::Free,
        };
        let lease = ControlLease::new(params.lease, newest);
        let mut protection = Protection::new(params);
        protection.resume_stop(context.now().steady, kept);
        if protection.stop().is_latched() {
            context.outside.witness.stopped(true);
        }
        Ok(ProtectionProcess {
            lease,
            protection,
            keeping: Keeping::default(),
            period: Every::new(PERIOD),
            told: None,
            told_at: None,
            told_lease: None,
        })
    }

    fn act(&mut self, context: &mut Context<'_>) -> Result<(), Crash> {
        let now = context.now().steady;
        self.protection.lease(LeaseState {
            alive: self.lease.is_alive(now),
            token: self.lease.token(),
        });
        let decision = self.protection.decide(now);
        let Velocity { x, turn, .. } = decision.output;
        context.publish(News::Given(eh_sim::Velocity {
            linear: x,
            angular: turn,
        }));
        self.tell(&decision, context)
    }

    fn tell(&mut self, decision: &Decision, context: &mut Context<'_>) -> Result<(), Crash> {
        let now = context.now().steady;
        let due = self
            .told_at
            .is_none_or(|at| now.saturating_sub(at) >= STATE);
        let stop = self.protection.stop();
        let newest = stop.newest();
        let state = ProtectionNews {
            latched: stop.is_latched(),
            stop_id: newest.map(|r| r.stop_id.clone()).unwrap_or_default(),
            source: newest.map(|r| r.source.clone()).unwrap_or_default(),
            message: if stop.is_latched() {
                decision.message.clone()
            } else {
                String::new()
            },
            stage: stop.stage(),
        };
        let view = self.lease.view(now);
        let holder = (view.controller_id.clone(), view.token);
        if due || self.told_lease.as_ref() != Some(&holder) {
            self.told_lease = Some(holder);
            self.publish_lease(context)?;
        }
        let same = |t: &ProtectionNews| {
            (t.latched, &t.stop_id, t.stage) == (state.latched, &state.stop_id, state.stage)
        };
        let changed = !self.told.as_ref().is_some_and(same);
        if due || changed {
            self.told_at = Some(now);
            context.pass(own::STATE_NEWS, Moment::Before)?;
            context.publish(News::Protection(state.clone()));
            context.pass(own::STATE_NEWS, Moment::After)?;
            self.told = Some(state);
        }
        Ok(())
    }

    fn publish_lease(&self, context: &mut Context<'_>) -> Result<(), Crash> {
        context.pass(own::LEASE_NEWS, Moment::Before)?;
        let now = context.now().steady;
        context.publish(News::Lease(self.lease.view(now)));
        context.pass(own::LEASE_NEWS, Moment::After)
    }

    fn manage(
        &mut self,
        who: &str,
        ttl: Duration,
        operation: LeaseRequest,
        context: &mut Context<'_>,
    ) -> Result<Result<(), LeaseError>, Crash> {
        let now = context.now().steady;
        match operation {
            LeaseRequest::Acquire { take_over } => {
                let pending = match self.lease.acquire(now, who, ttl, take_over) {
                    Ok(pending) => pending,
                    Err(error) => return Ok(Err(error)),
                };
                let kept = context.commit(own::LEASE_KEEP, |d| &mut d.tokens, pending.token)?;
                Ok(match kept {
                    Ok(()) => {
                        self.lease.stored(now, pending.token);
                        context.outside.witness.granted(pending.token);
                        Ok(())
                    }
                    Err(trouble) => {
                        self.lease.not_stored(pending.token);
                        Err(LeaseError::Storage(trouble.words().into()))
                    }
                })
            }
            LeaseRequest::Renew { token } => Ok(self.lease.renew(now, who, token, ttl)),
            LeaseRequest::Release { token } => Ok(self.lease.release(now, who, token)),
        }
    }

    /// Makes the newest stop durable, then the reset that waits: what the node's thread does beside it.
    fn keep(&mut self, context: &mut Context<'_>) -> Result<(), Crash> {
        if let Some((from, call, pending)) = self.keeping.reset.take() {
            let revision = pending.record.revision;
            let newest = self.protection.stop().record().map(|r| r.revision);
            let kept = if newest.is_some_and(|newest| newest > revision) {
                Err("a newer stop took its place".to_owned())
            } else {
                let change = pending.record.change.clone();
                let kept = context.commit(own::RESET_KEEP, |d| &mut d.stops, change)?;
                kept.map_err(|trouble| trouble.words().to_owned())
            };
            if kept.is_ok() {
                self.keeping.kept = revision;
            }
            let now = context.now().steady;
            let done = self.protection.finish_reset(now, &pending, kept);
            if done.is_ok() {
                context.outside.witness.stopped(false);
            }
            self.answer_stop(from, call, done.map_err(|e| e.to_string()), context)?;
        }
        let Some(record) = self.protection.stop().record() else {
            return Ok(());
        };
        let now = context.time();
        if record.revision <= self.keeping.kept || now < self.keeping.again {
            return Ok(());
        }
        let kept = context.commit(own::STOP_KEEP, |d| &mut d.stops, record.change)?;
        match kept {
            Ok(()) => {
                self.keeping.kept = record.revision;
                self.keeping.pause = Duration::ZERO;
            }
            Err(_) => {
                let pause = (self.keeping.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
                self.keeping.pause = pause;
                self.keeping.again = now + pause;
            }
        }
        let why = kept.err().map(|trouble| trouble.words().to_owned());
        self.protection.stop_not_kept(why);
        Ok(())
    }

    fn answer_stop(
        &self,
        to: Address,
        call: u64,
        answer: Result<(), String>,
        context: &mut Context<'_>,
    ) -> Result<(), Crash> {
        context.pass(own::STOP_ANSWER, Moment::Before)?;
        context.reply(to, call, Reply::Stop(answer));
        context.pass(own::STOP_ANSWER, Moment::After)
    }

    /// What the referee compares with.
    pub fn view(&self, steady: Duration) -> ProtectionView {
        ProtectionView {
            lease_alive: self.lease.is_alive(steady),
            stopped: self.protection.stop().is_latched(),
        }
    }
}

impl Process for ProtectionProcess {
    fn receive(&mut self, letter: Letter, context: &mut Context<'_>) -> Result<(), Crash> {
        let now = context.now().steady;
        let age = |stamped: Duration, context: &Context<'_>| context.time().saturating_sub(stamped);
        match letter.body {
            Body::News(News::Wanted(velocity)) => {
                let wanted = Velocity::new(velocity.linear, 0.0, velocity.angular);
                self.protection
                    .command(now, Duration::ZERO, TwistCommand::planar(wanted));
                self.act(context)
            }
            Body::News(News::Scan(scan)) => {
                let mounting = Mounting {
                    x: MOUNT.x,
                    y: MOUNT.y,
                    yaw: MOUNT.yaw,
                    inverted: false,
                };
                let raw = RawScan {
                    angle_min: scan.angle_min,
                    angle_increment: scan.angle_increment,
                    range_min: scan.range_min,
                    range_max: scan.range_max,
                    ranges: &scan.ranges,
                };
                let read = Scan::from_laser(&raw, &mounting, MAX_INVALID);
                let age = age(scan.stamp, context);
                self.protection.scan(now, age, read);
                self.act(context)
            }
            Body::News(News::Motion(motion)) => {
                let age = age(time_of(motion.stamp), context);
                self.protection
                    .odom(now, age, motion.linear, motion.angular);
                Ok(())
            }
            Body::News(News::Declared(run)) => {
                self.protection.declared_run(now, run);
                self.act(context)
            }
            Body::Request { call, request } => {
                match request {
                    Request::Lease {
                        controller_id,
                        ttl_ms,
                        operation,
                    } => {
                        let ttl = Duration::from_millis(ttl_ms);
                        let done = self.manage(&controller_id, ttl, operation, context)?;
                        let view = self.lease.view(context.now().steady);
                        self.told_lease = Some((view.controller_id.clone(), view.token));
                        // The new holder's commands must find the lease known.
                        self.publish_lease(context)?;
                        context.pass(own::LEASE_ANSWER, Moment::Before)?;
                        let reply = done.map(|()| view).map_err(|e| (e.code(), e.to_string()));
                        context.reply(letter.from, call, Reply::Lease(reply));
                        context.pass(own::LEASE_ANSWER, Moment::After)
                    }
                    Request::RequestStop { reason } => {
                        let stop = StopRequest {
                            stop_id: String::new(),
                            source: letter.from.process.name().into(),
                            reason,
                        };
                        // It has acted before it is kept or answered.
                        self.protection.request_stop(now, stop);
                        context.outside.witness.stopped(true);
                        self.act(context)?;
                        self.answer_stop(letter.from, call, Ok(()), context)
                    }
                    Request::ResetStop { force } => {
                        let who = letter.from.process.name();
                        let asked = self.protection.reset_stop(now, who, "it is safe", force);
                        match asked {
                            // Kept first, by the thread for the disk; a stop may come in between.
                            Ok(pending) => {
                                self.keeping.reset = Some((letter.from, call, pending));
                                Ok(())
                            }
                            Err(error) => {
                                let why = Err(error.to_string());
                                self.answer_stop(letter.from, call, why, context)
                            }
                        }
                    }
                    _ => Ok(()),
                }
            }
            Body::News(_) | Body::Reply { .. } => Ok(()),
        }
    }

    fn step(&mut self, context: &mut Context<'_>) -> Result<(), Crash> {
        self.keep(context)?;
        if self.period.is_due(context.time()) {
            self.act(context)?;
        }
        Ok(())
    }
}

//! One action's server: what became of each goal, who waits for it, and everything by which servers surprise
//! their clients. States and rules: <https://design.ros2.org/articles/actions.html>.

use std::sync::Arc;
use std::time::Duration;

use eh_executor::{NativeEnd, Server};
use eh_ledger::executor::{goal_status, GoalId};
use eh_sim::{FaultKind, NavStatus, Robot};
use eh_skills::{Embodiment, Goal};
use rand_chacha::ChaCha8Rng;

use super::sub_goal::{self, Begin};
use crate::context::Context;
use crate::message::{short, News, Reply};
use crate::process_id::Address;
use crate::random::between;
use crate::server::{action, fault_name};

/// How long a server that restarts answers nothing, unless the fault says it.
const OUTAGE: f64 = 0.5;
/// How long after the goal a server restarts, unless the fault says it.
const RESTART_AFTER: f64 = 1.0;

/// An outage of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// From here on …
    pub from: Duration,
    /// … until here it answers nothing.
    pub until: Duration,
    /// It was started again and knows none of its goals; else it only hung, and they went on.
    pub forgets: bool,
}

/// How a server behaves.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerManners {
    /// How long it keeps the result of a goal that ended.
    pub keep: Duration,
    /// How long it may take to accept a goal; until then it knows nothing of it, as a cancel finds out.
    pub accepting: Duration,
    /// When it answers nothing.
    pub outages: Vec<Outage>,
    /// When it rejects every goal, as one that is not active.
    pub inactive: Option<(Duration, Duration)>,
    /// Fingers that were stopped by something end the goal as succeeded.
    pub allow_stalling: bool,
}

impl Default for ServerManners {
    fn default() -> Self {
        ServerManners {
            keep: Duration::from_secs(900),
            accepting: Duration::ZERO,
            outages: Vec::new(),
            inactive: None,
            allow_stalling: true,
        }
    }
}

#[derive(Debug)]
struct Accepting {
    due: Duration,
    from: Address,
    call: u64,
    goal_id: GoalId,
    goal: Box<Goal>,
}

#[derive(Debug)]
struct Entry {
    goal_id: GoalId,
    status: i8,
    sim: Option<eh_sim::GoalId>,
    end: Option<NativeEnd>,
    ended_at: Duration,
    waiters: Vec<(Address, u64)>,
    /// The next answer with the result gets lost.
    loses_result: bool,
}

/// One action's server.
#[derive(Debug)]
pub struct ActionServer {
    server: Server,
    body: Embodiment,
    manners: ServerManners,
    entries: Vec<Entry>,
    accepting: Vec<Accepting>,
    restart: Option<Outage>,
    was_down: bool,
}

impl ActionServer {
    /// A server without goals.
    pub fn new(server: Server, manners: ServerManners) -> Self {
        ActionServer {
            server,
            body: Embodiment::default(),
            manners,
            entries: Vec::new(),
            accepting: Vec::new(),
            restart: None,
            was_down: false,
        }
    }

    /// Which server.
    pub const fn server(&self) -> Server {
        self.server
    }

    /// Goals that run.
    pub fn running(&self) -> impl Iterator<Item = GoalId> + '_ {
        self.entries
            .iter()
            .filter(|e| e.end.is_none())
            .map(|e| e.goal_id)
    }

    fn outage(&self, now: Duration) -> Option<Outage> {
        self.manners
            .outages
            .iter()
            .chain(&self.restart)
            .find(|o| (o.from..o.until).contains(&now))
            .copied()
    }

    /// A goal has arrived.
    pub fn send(
        &mut self,
        from: Address,
        call: u64,
        goal_id: GoalId,
        goal: Box<Goal>,
        rng: &mut ChaCha8Rng,
        context: &mut Context<'_>,
    ) {
        let now = context.time();
        let due = now + between(rng, Duration::ZERO, self.manners.accepting);
        if self.outage(now).is_none() {
            self.accepting.push(Accepting {
                due,
                from,
                call,
                goal_id,
                goal,
            });
        }
    }

    /// Takes in what is due.
    fn accept(&mut self, robot: &mut Robot, context: &mut Context<'_>) -> bool {
        let now = context.time();
        let (due, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.accepting)
            .into_iter()
            .partition(|a| a.due <= now);
        self.accepting = later;
        let any = !due.is_empty();
        for asked in due {
            self.take(asked, robot, context);
        }
        any
    }

    fn take(&mut self, asked: Accepting, robot: &mut Robot, context: &mut Context<'_>) {
        let now = context.time();
        let Accepting {
            from,
            call,
            goal_id,
            goal,
            ..
        } = asked;
        if self.entries.iter().any(|e| e.goal_id == goal_id) {
            context.note(format_args!(
                "{} rejects {}: its id was used before",
                action(self.server),
                short(&goal_id)
            ));
            context.outside.witness.used_twice(now, goal_id);
            return context.reply(from, call, Reply::Acknowledged(false));
        }
        let inactive = |(from, until): (Duration, Duration)| (from..until).contains(&now);
        let begun = if self.manners.inactive.is_some_and(inactive) {
            Begin::Refused("it is not active".into())
        } else {
            sub_goal::begin(robot, &self.body, &goal)
        };
        let mut entry = Entry {
            goal_id,
            status: goal_status::EXECUTING,
            sim: None,
            end: None,
            ended_at: now,
            waiters: Vec::new(),
            loses_result: false,
        };
        match begun {
            Begin::Refused(reason) => {
                context.note(format_args!(
                    "{} rejects {}: {reason}",
                    action(self.server),
                    short(&goal_id)
                ));
                return context.reply(from, call, Reply::Acknowledged(false));
            }
            Begin::Running(sim) => entry.sim = Some(sim),
            Begin::Ended(end) => {
                entry.status = end.status;
                entry.end = Some(end);
            }
        }
        context.note(format_args!(
            "{} STARTS {} of {}",
            action(self.server),
            short(&goal_id),
            from
        ));
        let witness = &mut context.outside.witness;
        witness.started(now, self.server, goal_id, from);
        if entry.end.is_some() {
            witness.goal_ended(goal_id, entry.status);
        }
        self.entries.push(entry);
        let fault = fault_name(self.server);
        if let Some(params) = robot.take_server_fault(fault, FaultKind::ServerRestart) {
            let from = now + Duration::from_secs_f64(params.after_s.unwrap_or(RESTART_AFTER));
            self.restart = Some(Outage {
                from,
                until: from + Duration::from_secs_f64(params.duration_s.unwrap_or(OUTAGE)),
                forgets: true,
            });
        }
        if robot.take_server_fault(fault, FaultKind::LostAck).is_some() {
            return context.note(format_args!(
                "{}: the acknowledgement of {} gets lost",
                action(self.server),
                short(&goal_id)
            ));
        }
        context.reply(from, call, Reply::Acknowledged(true));
    }

    /// A cancel has arrived. Of a goal that it has not accepted yet it knows nothing.
    pub fn cancel(
        &mut self,
        from: Address,
        call: u64,
        goal_id: GoalId,
        robot: &mut Robot,
        context: &mut Context<'_>,
    ) {
        if self.outage(context.time()).is_some() {
            return;
        }
        let entry = self
            .entries
            .iter_mut()
            .find(|e| e.goal_id == goal_id && e.end.is_none());
        let known = entry.is_some();
        if let Some(entry) = entry {
            entry.status = goal_status::CANCELING;
            if let Some(sim) = entry.sim {
                sub_goal::cancel(robot, self.server, sim);
            }
        }
        context.reply(from, call, Reply::Canceling(known));
    }

    /// A question for a result has arrived.
    pub fn result(&mut self, from: Address, call: u64, goal_id: GoalId, context: &mut Context<'_>) {
        if self.outage(context.time()).is_some() {
            return;
        }
        let Some(entry) = self.entries.iter_mut().find(|e| e.goal_id == goal_id) else {
            return context.reply(from, call, Reply::GoalEnd(None));
        };
        match &entry.end {
            None => entry.waiters.push((from, call)),
            Some(_) if std::mem::take(&mut entry.loses_result) => {}
            Some(end) => {
                let end = Box::new(end.clone());
                context.reply(from, call, Reply::GoalEnd(Some(end)));
            }
        }
    }

    /// Goes on after a step of the robot.
    pub fn step(&mut self, robot: &mut Robot, context: &mut Context<'_>) {
        let now = context.time();
        let outage = self.outage(now);
        let mut changed = false;
        if let (Some(outage), false) = (outage, self.was_down) {
            context.note(format_args!(
                "{} answers nothing for {:.1} s{}",
                action(self.server),
                (outage.until - now).as_secs_f64(),
                if outage.forgets {
                    " and forgets its goals"
                } else {
                    ""
                }
            ));
            self.accepting.clear();
            if outage.forgets {
                for entry in std::mem::take(&mut self.entries) {
                    if let (Some(sim), None) = (entry.sim, &entry.end) {
                        sub_goal::cancel(robot, self.server, sim);
                    }
                }
                changed = true;
            }
        }
        self.was_down = outage.is_some();
        if outage.is_none() {
            changed |= self.accept(robot, context);
        }
        changed |= self.watch(robot, outage.is_some(), context);
        let keep = self.manners.keep;
        let before = self.entries.len();
        self.entries
            .retain(|e| e.end.is_none() || now.saturating_sub(e.ended_at) < keep);
        changed |= self.entries.len() != before;
        if changed {
            let entries = self.entries.iter().map(|e| (e.goal_id, e.status)).collect();
            context.publish(News::Goals {
                server: self.server,
                entries: Arc::new(entries),
            });
        }
    }

    /// Learns which goals have ended, and tells who waits; a server that hangs tells nobody.
    fn watch(&mut self, robot: &mut Robot, hangs: bool, context: &mut Context<'_>) -> bool {
        let now = context.time();
        let (server, stalling) = (self.server, self.manners.allow_stalling);
        let mut changed = false;
        for entry in self.entries.iter_mut().filter(|e| e.end.is_none()) {
            let Some(mut end) = entry
                .sim
                .and_then(|sim| sub_goal::end(robot, server, sim, stalling))
            else {
                continue;
            };
            // What ends as canceled without anybody having asked counts as aborted: no such way exists.
            if end.status == goal_status::CANCELED && entry.status != goal_status::CANCELING {
                end.status = goal_status::ABORTED;
            }
            changed = true;
            entry.status = end.status;
            entry.ended_at = now;
            context
                .outside
                .witness
                .goal_ended(entry.goal_id, end.status);
            context.note(format_args!(
                "{} ENDS {} with {} {}",
                action(server),
                short(&entry.goal_id),
                end.status,
                end.message
            ));
            let lost = robot
                .take_server_fault(fault_name(server), FaultKind::LostResult)
                .is_some();
            if lost {
                context.note(format_args!(
                    "the result of {} gets lost",
                    short(&entry.goal_id)
                ));
            }
            entry.loses_result = lost && entry.waiters.is_empty();
            for (from, call) in entry.waiters.drain(..) {
                if !(lost || hangs) {
                    let end = Box::new(end.clone());
                    context.reply(from, call, Reply::GoalEnd(Some(end)));
                }
            }
            entry.end = Some(end);
        }
        changed
    }

    /// How much way is left to the navigation goal that runs \[m\].
    pub fn way_left(&self, robot: &Robot) -> Option<(GoalId, f64)> {
        if self.server != Server::Navigation {
            return None;
        }
        self.entries.iter().find_map(|e| {
            let sim = e.sim.filter(|_| e.end.is_none())?;
            match robot.nav_status(sim)? {
                NavStatus::Active(now) => Some((e.goal_id, now.distance_remaining)),
                NavStatus::Succeeded
                | NavStatus::Aborted { .. }
                | NavStatus::Canceled
                | NavStatus::Preempted => None,
            }
        })
    }
}

//! A person with a console, who looks at the robot before saying anything: settles what is UNKNOWN, answers
//! questions, stops and resets, and moves the robot by hand.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use eh_executor::Server;
use eh_harness::effect::{HumanRequest, HumanRequestKind};
use eh_ledger::executor::GoalId;
use eh_ledger::issuer_event::Finality;
use eh_skills::Goal;
use rand_chacha::ChaCha8Rng;

use super::executor::record;
use super::harness::last_command;
use crate::context::Context;
use crate::message::{Body, Letter, News, Reply, Request};
use crate::process_id::ProcessId;
use crate::random::bytes;
use crate::robot::RobotProcess;
use crate::truth::{effect_holds, is_still};

/// Time between two tries of one thing.
const AGAIN: Duration = Duration::from_secs(2);

/// A goal that the person gives the robot by hand.
#[derive(Clone, Debug, PartialEq)]
pub struct HandGoal {
    /// When.
    pub when: HandTime,
    /// On which server.
    pub server: Server,
    /// What.
    pub goal: Goal,
    /// It is canceled after this long.
    pub for_at_most: Duration,
}

/// When a person interferes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandTime {
    /// At a time.
    At(Duration),
    /// This long after the nth goal of anybody else has started on the server, from 1.
    AfterStart(u32, Duration),
}

/// A stop that the person asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopPlan {
    /// When.
    pub at: Duration,
    /// It is reset after this long, once the base stands.
    pub for_at_least: Duration,
}

/// What the person does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OperatorPlan {
    /// How long until a request is looked at.
    pub patience: Duration,
    /// Stops.
    pub stops: Vec<StopPlan>,
    /// Goals by hand.
    pub goals: Vec<HandGoal>,
}

#[derive(Debug)]
struct Waiting {
    request: HumanRequest,
    due: Duration,
}

/// The person.
#[derive(Debug)]
pub struct OperatorProcess {
    plan: OperatorPlan,
    rng: ChaCha8Rng,
    requests: BTreeMap<String, Waiting>,
    latched_since: Option<Duration>,
    reset_at: Duration,
    reset_after: Duration,
    running: Vec<(Server, GoalId, Duration)>,
    settled: u64,
    /// What was said, by the call.
    said: BTreeMap<u64, String>,
}

impl OperatorProcess {
    /// A person who does this.
    pub fn new(plan: OperatorPlan, rng: ChaCha8Rng) -> Self {
        OperatorProcess {
            plan,
            rng,
            requests: BTreeMap::new(),
            latched_since: None,
            reset_at: Duration::ZERO,
            reset_after: Duration::from_secs(2),
            running: Vec::new(),
            settled: 0,
            said: BTreeMap::new(),
        }
    }

    /// How often something was settled.
    pub const fn settled(&self) -> u64 {
        self.settled
    }

    /// Whether nothing more is to come by itself.
    pub fn is_done(&self) -> bool {
        self.plan.stops.is_empty()
            && self.plan.goals.is_empty()
            && self.running.is_empty()
            && self.requests.is_empty()
            && self.latched_since.is_none()
    }

    /// Begins nothing more by hand.
    pub fn call_off(&mut self) {
        self.plan.stops.clear();
        self.plan.goals.clear();
    }

    /// Takes a letter in.
    pub fn receive(&mut self, letter: Letter, context: &mut Context<'_>) {
        let now = context.time();
        match letter.body {
            Body::News(News::Human(request)) => {
                if request.closed {
                    self.requests.remove(&request.request_id);
                } else {
                    let due = now + self.plan.patience;
                    self.requests
                        .entry(request.request_id.clone())
                        .or_insert(Waiting { request, due });
                }
            }
            Body::News(News::Protection(state)) => {
                if !state.latched {
                    self.latched_since = None;
                } else if self.latched_since.is_none() {
                    self.latched_since = Some(now);
                    self.reset_at = now + self.reset_after;
                }
            }
            Body::Reply {
                call,
                reply: Reply::Taken(taken),
            } => {
                // Taken or not open any more: it is asked again if it is.
                if let Some(request_id) = self.said.remove(&call) {
                    self.requests.remove(&request_id);
                }
                if let Err(reason) = taken {
                    context.note(format_args!("is told: {reason}"));
                }
            }
            Body::News(_) | Body::Request { .. } | Body::Reply { .. } => {}
        }
    }

    /// Goes on.
    pub fn step(&mut self, robot: &RobotProcess, context: &mut Context<'_>) {
        let now = context.time();
        self.look_at_requests(robot, context);
        let (due, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.plan.stops)
            .into_iter()
            .partition(|s| s.at <= now && context.is_there(ProcessId::Protection));
        self.plan.stops = later;
        for stop in due {
            self.reset_after = stop.for_at_least;
            let reason = "somebody is in the way".into();
            context.call(ProcessId::Protection, Request::RequestStop { reason });
        }
        if self.latched_since.is_some() && now >= self.reset_at {
            self.reset_at = now + AGAIN;
            context.call(ProcessId::Protection, Request::ResetStop { force: false });
        }
        self.move_by_hand(context);
    }

    fn move_by_hand(&mut self, context: &mut Context<'_>) {
        let now = context.time();
        for hand in std::mem::take(&mut self.plan.goals) {
            let starts = context.outside.witness.starts();
            let due = match hand.when {
                HandTime::At(at) => at <= now,
                HandTime::AfterStart(nth, delay) => starts
                    .iter()
                    .filter(|s| s.server == hand.server && s.from.process != ProcessId::Operator)
                    .nth(nth.saturating_sub(1) as usize)
                    .is_some_and(|s| s.at + delay <= now),
            };
            if !due {
                self.plan.goals.push(hand);
                continue;
            }
            let goal_id = bytes(&mut self.rng);
            self.running
                .push((hand.server, goal_id, now + hand.for_at_most));
            let request = Request::SendGoal {
                server: hand.server,
                goal_id,
                goal: Box::new(hand.goal),
            };
            context.call(ProcessId::Robot, request);
        }
        let (over, still): (Vec<_>, Vec<_>) = std::mem::take(&mut self.running)
            .into_iter()
            .partition(|(_, _, until)| *until <= now);
        self.running = still;
        for (server, goal_id, _) in over {
            context.call(ProcessId::Robot, Request::CancelGoal { server, goal_id });
        }
    }

    fn look_at_requests(&mut self, robot: &RobotProcess, context: &mut Context<'_>) {
        let now = context.time();
        if !context.is_there(ProcessId::Harness) {
            return;
        }
        let mut settled = 0;
        for open in self.requests.values_mut().filter(|r| r.due <= now) {
            open.due = now + AGAIN;
            let request = &open.request;
            match request.kind {
                HumanRequestKind::Settle => {
                    if let Some((to, reason)) = judged(&request.command_id, robot, context) {
                        settled += 1;
                        let command_id = request.command_id.clone();
                        let call = context.call(
                            ProcessId::Harness,
                            Request::SettleUnknown {
                                command_id,
                                to,
                                reason,
                            },
                        );
                        self.said.insert(call, request.request_id.clone());
                    }
                }
                HumanRequestKind::Question | HumanRequestKind::Approval => {
                    let answer = request.options.first().cloned();
                    let request_id = request.request_id.clone();
                    let answer = answer.unwrap_or_else(|| "yes".into());
                    let said = request_id.clone();
                    let request = Request::Answer { request_id, answer };
                    let call = context.call(ProcessId::Harness, request);
                    self.said.insert(call, said);
                }
                HumanRequestKind::Notice => {}
            }
        }
        self.settled += settled;
    }
}

/// What a person says of a command after looking at the robot; nothing while it may still move.
fn judged(
    command_id: &str,
    robot: &RobotProcess,
    context: &Context<'_>,
) -> Option<(Finality, String)> {
    let disks = &context.outside.disks;
    let command = last_command(disks.harness.durable(), command_id)?;
    let goals: BTreeSet<GoalId> = [disks.navigation.durable(), disks.manipulation.durable()]
        .into_iter()
        .filter_map(|written| record(written, command_id))
        .flat_map(|r| r.sub_goals.iter().map(|g| g.goal_id))
        .collect();
    if !is_still(robot, &goals) {
        return None;
    }
    Some(if effect_holds(&command.command, robot.robot()) {
        (Finality::Succeeded, "looked at it: it is done".into())
    } else {
        (Finality::Failed, "looked at it: it is not done".into())
    })
}

//! Calls of the nodes around, each with a deadline, and what their answers mean to the loop: as
//! `harness_node` performs them.

use std::collections::BTreeMap;
use std::time::Duration;

use eh_contract::state::ExecutorState;
use eh_contract::verdict::Verdict;
use eh_contract::ErrorCode;
use eh_harness::effect::GoalRequest;
use eh_harness::lease::{LeaseAnswer, LeaseCall, LeaseOperation};
use eh_harness::Event;
use eh_ledger::executor::GoalId;

use crate::context::Context;
use crate::failpoint::{own, Crash, Moment};
use crate::message::{LeaseRequest, Reply, Request};
use crate::process_id::ProcessId;

/// Longest wait for a short answer, and for a server to be there.
const SHORT: Duration = Duration::from_secs(1);
/// Longest wait for the acknowledgement of a goal.
const ACKNOWLEDGEMENT: Duration = Duration::from_secs(2);
/// Longest wait for the scene.
const SCENE: Duration = Duration::from_secs(2);

/// What a call is for.
#[derive(Clone, Debug)]
enum What {
    ReadScene {
        ticket: u64,
    },
    Execute {
        command_id: String,
        goal_id: GoalId,
        longest: Duration,
    },
    ExecuteResult {
        command_id: String,
    },
    Cancel,
    Query {
        command_id: String,
    },
    Evaluate {
        command_id: String,
        timeout: Duration,
    },
    Settle {
        command_id: String,
    },
    Apply {
        command_id: String,
    },
    Lease {
        ticket: u64,
    },
}

#[derive(Debug)]
struct Waiting {
    to: ProcessId,
    request: Request,
    what: What,
    /// Until when the server is waited for.
    until: Duration,
    /// How long the answer is waited for from when it was sent; `None`: until `until`.
    limit: Option<Duration>,
}

#[derive(Debug)]
struct Pending {
    to: ProcessId,
    what: What,
    deadline: Duration,
}

/// What came of a call.
#[derive(Debug)]
pub(super) enum Found {
    /// Something for the loop.
    Event(Event),
    /// Something for the lease holder.
    Lease {
        /// Of the call.
        ticket: u64,
        /// The answer.
        answer: LeaseAnswer,
    },
}

/// Everything that was asked and not answered yet.
#[derive(Debug, Default)]
pub(super) struct Calls {
    waiting: Vec<Waiting>,
    pending: BTreeMap<u64, Pending>,
}

impl Calls {
    fn ask(
        &mut self,
        to: ProcessId,
        request: Request,
        what: What,
        wait: Duration,
        limit: Option<Duration>,
        context: &mut Context<'_>,
    ) {
        let until = context.time() + wait;
        self.waiting.push(Waiting {
            to,
            request,
            what,
            until,
            limit,
        });
        self.send_what_can_be(context);
    }

    fn send_what_can_be(&mut self, context: &mut Context<'_>) {
        let now = context.time();
        for waiting in std::mem::take(&mut self.waiting) {
            if !context.is_there(waiting.to) {
                self.waiting.push(waiting);
                continue;
            }
            let deadline = waiting.limit.map_or(waiting.until, |limit| now + limit);
            let call = context.call(waiting.to, waiting.request);
            self.pending.insert(
                call,
                Pending {
                    to: waiting.to,
                    what: waiting.what,
                    deadline,
                },
            );
        }
    }

    pub(super) fn read_scene(&mut self, ticket: u64, context: &mut Context<'_>) {
        let what = What::ReadScene { ticket };
        self.ask(
            ProcessId::Scene,
            Request::ReadScene,
            what,
            SCENE,
            None,
            context,
        );
    }

    pub(super) fn execute(&mut self, goal: Box<GoalRequest>, context: &mut Context<'_>) {
        let Some(to) = executor_of_action(&goal.action_name) else {
            return;
        };
        let what = What::Execute {
            command_id: goal.command.command_id.clone(),
            goal_id: goal.goal_id,
            longest: goal.command.execution_timeout
                + goal.command.stop_timeout()
                + Duration::from_secs(30),
        };
        let limit = Some(ACKNOWLEDGEMENT);
        self.ask(to, Request::Execute(goal), what, SHORT, limit, context);
    }

    pub(super) fn cancel(
        &mut self,
        _command_id: String,
        action: &str,
        goal_id: GoalId,
        context: &mut Context<'_>,
    ) {
        if let Some(to) = executor_of_action(action) {
            let request = Request::ExecuteCancel(goal_id);
            self.ask(to, request, What::Cancel, SHORT, Some(SHORT), context);
        }
    }

    pub(super) fn query(&mut self, command_id: String, executor: &str, context: &mut Context<'_>) {
        if let Some(to) = ProcessId::of_executor(executor) {
            let request = Request::QueryCommand(command_id.clone());
            self.ask(
                to,
                request,
                What::Query { command_id },
                SHORT,
                None,
                context,
            );
        }
    }

    pub(super) fn evaluate(
        &mut self,
        command_id: String,
        run_id: String,
        segment: u32,
        timeout: Duration,
        context: &mut Context<'_>,
    ) {
        let what = What::Evaluate {
            command_id,
            timeout,
        };
        let request = Request::Evaluate { run_id, segment };
        let limit = Some(ACKNOWLEDGEMENT);
        self.ask(ProcessId::Evaluator, request, what, SHORT, limit, context);
    }

    pub(super) fn settle(
        &mut self,
        command_id: String,
        executor: &str,
        request: Request,
        context: &mut Context<'_>,
    ) {
        if let Some(to) = ProcessId::of_executor(executor) {
            self.ask(
                to,
                request,
                What::Settle { command_id },
                SHORT,
                None,
                context,
            );
        }
    }

    pub(super) fn apply(
        &mut self,
        command_id: String,
        verdict: Box<Verdict>,
        effects: String,
        context: &mut Context<'_>,
    ) {
        let request = Request::ApplyEffects { verdict, effects };
        let what = What::Apply { command_id };
        self.ask(ProcessId::Scene, request, what, SCENE, None, context);
    }

    pub(super) fn lease(
        &mut self,
        who: &str,
        ttl: Duration,
        call: LeaseCall,
        context: &mut Context<'_>,
    ) -> Result<(), Crash> {
        context.pass(own::LEASE_CALL, Moment::Before)?;
        let request = Request::Lease {
            controller_id: who.into(),
            ttl_ms: u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX),
            operation: match call.operation {
                LeaseOperation::Acquire => LeaseRequest::Acquire { take_over: false },
                LeaseOperation::Renew { token } => LeaseRequest::Renew { token },
                LeaseOperation::Release { token } => LeaseRequest::Release { token },
            },
        };
        let what = What::Lease {
            ticket: call.ticket,
        };
        self.ask(
            ProcessId::Protection,
            request,
            what,
            call.limit,
            None,
            context,
        );
        context.pass(own::LEASE_CALL, Moment::After)
    }

    /// Time has passed.
    pub(super) fn step(&mut self, context: &mut Context<'_>) -> Result<Vec<Found>, Crash> {
        self.send_what_can_be(context);
        let now = context.time();
        let mut found = Vec::new();
        let (late, still): (Vec<_>, Vec<_>) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|w| w.until <= now);
        self.waiting = still;
        for waiting in late {
            found.extend(absent(waiting.what, waiting.to));
        }
        let late: Vec<u64> = self
            .pending
            .iter()
            .filter(|(_, p)| p.deadline <= now)
            .map(|(call, _)| *call)
            .collect();
        for call in late {
            if let Some(pending) = self.pending.remove(&call) {
                found.extend(self.unanswered(pending, context));
            }
        }
        Ok(found)
    }

    /// No answer came in time.
    fn unanswered(&mut self, pending: Pending, context: &mut Context<'_>) -> Vec<Found> {
        let reason = format!("{} did not answer in time", pending.to.node_name());
        match pending.what {
            What::Execute {
                command_id,
                goal_id,
                longest,
            } => {
                // It may run all the same: its result is asked for, and the loop asks the executor.
                self.ask_result(pending.to, command_id, goal_id, longest, context);
                Vec::new()
            }
            What::ExecuteResult { .. }
            | What::Cancel
            | What::Query { .. }
            | What::Settle { .. } => Vec::new(),
            other => failed(other, reason),
        }
    }

    fn ask_result(
        &mut self,
        to: ProcessId,
        command_id: String,
        goal_id: GoalId,
        longest: Duration,
        context: &mut Context<'_>,
    ) {
        let call = context.call(to, Request::ExecuteResult(goal_id));
        let deadline = context.time() + longest;
        self.pending.insert(
            call,
            Pending {
                to,
                what: What::ExecuteResult { command_id },
                deadline,
            },
        );
    }

    /// An answer has come. One to nothing that is open is dropped.
    pub(super) fn answered(
        &mut self,
        call: u64,
        reply: Reply,
        context: &mut Context<'_>,
    ) -> Vec<Found> {
        if let Reply::Feedback(status) = reply {
            return vec![Found::Event(Event::Status(status))];
        }
        let Some(mut pending) = self.pending.remove(&call) else {
            return Vec::new();
        };
        match (pending.what.clone(), reply) {
            (What::ReadScene { ticket }, Reply::Scene(scene)) => {
                let mut scene = (*scene).clone();
                scene.stamp = context.stamp();
                vec![Found::Event(Event::SceneRead {
                    ticket,
                    result: Ok(Box::new(scene)),
                })]
            }
            (
                What::Execute {
                    command_id,
                    goal_id,
                    longest,
                },
                Reply::Acknowledged(taken),
            ) => {
                if !taken {
                    return refused(command_id, ErrorCode::GoalRejected, "rejected".into());
                }
                self.ask_result(pending.to, command_id.clone(), goal_id, longest, context);
                vec![Found::Event(Event::GoalAccepted { command_id })]
            }
            (What::ExecuteResult { command_id }, Reply::ExecuteEnd(end)) => {
                // Of a goal that the server does not know nothing is learned.
                let Some(end) = end else { return Vec::new() };
                if end.status.command_id == command_id
                    && end.status.state != ExecutorState::Unspecified
                {
                    return vec![Found::Event(Event::Status(Box::new(end.status)))];
                }
                if end.error_code == 0 {
                    return Vec::new();
                }
                let code = ErrorCode::from_code(end.error_code).unwrap_or(ErrorCode::GoalRejected);
                refused(command_id, code, end.error_msg)
            }
            (What::Query { command_id }, Reply::Statuses(answer)) => match answer {
                Ok(statuses) => statuses
                    .into_iter()
                    .filter(|s| s.command_id == command_id)
                    .map(|s| Found::Event(Event::Status(Box::new(s))))
                    .collect(),
                Err((ErrorCode::CommandNotFound, _)) => {
                    vec![Found::Event(Event::CommandNotFound { command_id })]
                }
                Err(_) => Vec::new(),
            },
            (What::Evaluate { timeout, .. }, Reply::Acknowledged(true)) => {
                pending.deadline = context.time() + timeout;
                self.pending.insert(call, pending);
                Vec::new()
            }
            (What::Evaluate { command_id, .. }, Reply::Judged(result)) => {
                vec![Found::Event(Event::Judged { command_id, result })]
            }
            (
                What::Settle { command_id },
                Reply::Settled {
                    error_code, state, ..
                },
            ) => {
                let released = error_code == 0
                    || error_code == ErrorCode::CommandNotFound.code()
                    || state.eq_ignore_ascii_case("settled");
                if released {
                    vec![Found::Event(Event::SettleConfirmed { command_id })]
                } else {
                    Vec::new()
                }
            }
            (What::Apply { command_id }, Reply::Applied(applied)) => {
                let result = match applied {
                    Ok(()) | Err((ErrorCode::AlreadyApplied, _)) => Ok(()),
                    Err((_, reason)) => Err(reason),
                };
                vec![Found::Event(Event::EffectsApplied { command_id, result })]
            }
            (What::Lease { ticket }, Reply::Lease(answer)) => {
                let answer = match answer {
                    Ok(lease) => LeaseAnswer::Granted { token: lease.token },
                    Err((_, reason)) => LeaseAnswer::Refused { reason },
                };
                vec![Found::Lease { ticket, answer }]
            }
            (What::Cancel, _) => Vec::new(),
            // Not an answer to this question.
            (_, _) => Vec::new(),
        }
    }
}

/// The server was not there in time: nothing was sent.
fn absent(what: What, to: ProcessId) -> Vec<Found> {
    let reason = format!("{} is not there", to.node_name());
    match what {
        What::Execute { command_id, .. } => {
            refused(command_id, ErrorCode::ServerUnavailable, reason)
        }
        What::ExecuteResult { .. } | What::Cancel | What::Query { .. } | What::Settle { .. } => {
            Vec::new()
        }
        other => failed(other, reason),
    }
}

fn failed(what: What, reason: String) -> Vec<Found> {
    match what {
        What::ReadScene { ticket } => vec![Found::Event(Event::SceneRead {
            ticket,
            result: Err(reason),
        })],
        What::Evaluate { command_id, .. } => vec![Found::Event(Event::Judged {
            command_id,
            result: Err(reason),
        })],
        What::Apply { command_id } => vec![Found::Event(Event::EffectsApplied {
            command_id,
            result: Err(reason),
        })],
        What::Lease { ticket } => vec![Found::Lease {
            ticket,
            answer: LeaseAnswer::Missing { reason },
        }],
        What::Execute { .. }
        | What::ExecuteResult { .. }
        | What::Cancel
        | What::Query { .. }
        | What::Settle { .. } => Vec::new(),
    }
}

fn refused(command_id: String, code: ErrorCode, reason: String) -> Vec<Found> {
    vec![Found::Event(Event::GoalRefused {
        command_id,
        code,
        reason,
    })]
}

/// The executor behind an action's name.
fn executor_of_action(action: &str) -> Option<ProcessId> {
    [ProcessId::Navigation, ProcessId::Manipulation]
        .into_iter()
        .find(|p| {
            action
                .trim_start_matches('/')
                .starts_with(p.node_name().trim_start_matches('/'))
        })
}

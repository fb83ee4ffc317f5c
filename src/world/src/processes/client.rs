//! Who gives tasks: one after the other; asks again when the harness was gone; cancels when it is to.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use eh_contract::session::TaskRecord;
use eh_harness::admission::TaskGoal;

use crate::context::{Context, Process};
use crate::failpoint::Crash;
use crate::message::{Body, Letter, Reply, Request};
use crate::process_id::ProcessId;

/// Time after which a client that hears nothing looks whether the harness is still the one that it asked.
const PATIENCE: Duration = Duration::from_secs(3);

/// A task that is to be given.
#[derive(Clone, Debug, PartialEq)]
pub struct Errand {
    /// When, at the earliest; later while another task of this client runs.
    pub at: Duration,
    /// The task.
    pub goal: TaskGoal,
    /// When it is canceled, from its sending on.
    pub cancel_after: Option<Duration>,
    /// How often it is sent in a row although once is enough.
    pub copies: u32,
}

#[derive(Debug)]
struct Open {
    errand: Errand,
    since: Duration,
    life: u32,
    looked: Duration,
    canceled: bool,
    calls: Vec<u64>,
}

/// The client.
#[derive(Debug)]
pub struct ClientProcess {
    errands: VecDeque<Errand>,
    open: Option<Open>,
    ended: BTreeMap<String, TaskRecord>,
}

impl ClientProcess {
    /// A client with these errands.
    pub fn new(errands: Vec<Errand>) -> Self {
        ClientProcess {
            errands: errands.into(),
            open: None,
            ended: BTreeMap::new(),
        }
    }

    /// How its tasks ended, by name.
    pub const fn ended(&self) -> &BTreeMap<String, TaskRecord> {
        &self.ended
    }

    /// Whether everything has ended.
    pub fn is_done(&self) -> bool {
        self.errands.is_empty() && self.open.is_none()
    }

    /// The task that it waits for.
    pub fn waits_for(&self) -> Option<&str> {
        self.open.as_ref().map(|o| o.errand.goal.task_id.as_str())
    }

    fn send(open: &mut Open, context: &mut Context<'_>) {
        open.life = context.outside.network.address(ProcessId::Harness).life;
        open.looked = context.time();
        for _ in 0..open.errand.copies.max(1) {
            let goal = Box::new(open.errand.goal.clone());
            open.calls
                .push(context.call(ProcessId::Harness, Request::Task(goal)));
        }
    }
}

impl Process for ClientProcess {
    fn receive(&mut self, letter: Letter, context: &mut Context<'_>) -> Result<(), Crash> {
        let Body::Reply { call, reply } = letter.body else {
            return Ok(());
        };
        let Some(open) = &mut self.open else {
            return Ok(());
        };
        let ended = match reply {
            Reply::TaskEnd(record) if open.calls.contains(&call) => Some(record),
            Reply::Task(Some(record)) if !record.is_running() => Some(record),
            // It never heard of it: the task was lost on its way.
            Reply::Task(None) => {
                Self::send(open, context);
                None
            }
            _ => None,
        };
        if let Some(record) = ended {
            if record.request.task_id == open.errand.goal.task_id {
                context.note(format_args!(
                    "has the result of {}: {:?}",
                    record.request.task_id, record.outcome
                ));
                self.ended.insert(record.request.task_id.clone(), *record);
                self.open = None;
            }
        }
        Ok(())
    }

    fn step(&mut self, context: &mut Context<'_>) -> Result<(), Crash> {
        let now = context.time();
        let there = context.is_there(ProcessId::Harness);
        if let Some(open) = &mut self.open {
            let life = context.outside.network.address(ProcessId::Harness).life;
            if there && now.saturating_sub(open.looked) >= PATIENCE {
                open.looked = now;
                if life == open.life {
                    let id = open.errand.goal.task_id.clone();
                    context.call(ProcessId::Harness, Request::QueryTask(id));
                } else {
                    Self::send(open, context);
                }
            }
            let due = open
                .errand
                .cancel_after
                .is_some_and(|after| now >= open.since + after);
            if there && due && !open.canceled {
                open.canceled = true;
                let id = open.errand.goal.task_id.clone();
                context.call(ProcessId::Harness, Request::CancelTask(id));
            }
            return Ok(());
        }
        if there && self.errands.front().is_some_and(|e| e.at <= now) {
            if let Some(errand) = self.errands.pop_front() {
                let mut open = Open {
                    errand,
                    since: now,
                    life: 0,
                    looked: now,
                    canceled: false,
                    calls: Vec::new(),
                };
                Self::send(&mut open, context);
                self.open = Some(open);
            }
        }
        Ok(())
    }
}

//! What is seen of the processes from outside, for the referee: what the robot really started, and what was
//! asked of whom.

use std::collections::BTreeMap;
use std::time::Duration;

use eh_contract::command::Beacon;
use eh_contract::state::TaskOutcome;
use eh_executor::Server;
use eh_ledger::executor::GoalId;

use crate::message::Request;
use crate::process_id::{Address, ProcessId};

/// One physical start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// When.
    pub at: Duration,
    /// On which server.
    pub server: Server,
    /// Under which UUID.
    pub goal_id: GoalId,
    /// Who had sent it.
    pub from: Address,
}

/// A command on its way to an executor.
#[derive(Clone, Debug, PartialEq)]
pub struct Dispatched {
    /// When it was sent.
    pub at: Duration,
    /// By whom.
    pub from: Address,
    /// To whom.
    pub to: ProcessId,
    /// Under which UUID.
    pub goal_id: GoalId,
    /// The command.
    pub command_id: String,
    /// Its token.
    pub token: u64,
    /// The beacon that it carries.
    pub beacon: Option<Beacon>,
    /// Its budget from that beacon on.
    pub start_within: Duration,
}

/// The newest token that was heard of, since when, and the newest of the steps before.
#[derive(Clone, Copy, Debug, Default)]
struct Heard {
    newest: u64,
    at: Duration,
    before: u64,
}

/// Everything that was seen and not looked at yet, and what is kept.
#[derive(Clone, Debug, Default)]
pub struct Witness {
    starts: Vec<Start>,
    looked_at: usize,
    twice: Vec<(Duration, GoalId)>,
    ends_of_goals: BTreeMap<GoalId, i8>,
    refused_by_scene: BTreeMap<String, String>,
    new_dispatches: Vec<Dispatched>,
    dispatched: BTreeMap<String, Vec<Dispatched>>,
    collisions: Vec<Duration>,
    heard: BTreeMap<Address, Heard>,
    boots: BTreeMap<String, Duration>,
    granted: Vec<u64>,
    ends: Vec<(String, TaskOutcome)>,
    /// A stop is latched in truth.
    stopped: bool,
    /// Who has heard of the stop that is latched, and when.
    stop_heard: BTreeMap<Address, Duration>,
    unprotected: Option<Duration>,
}

impl Witness {
    /// The robot starts something.
    pub fn started(&mut self, at: Duration, server: Server, goal_id: GoalId, from: Address) {
        self.starts.push(Start {
            at,
            server,
            goal_id,
            from,
        });
    }

    /// A UUID came a second time.
    pub fn used_twice(&mut self, at: Duration, goal_id: GoalId) {
        self.twice.push((at, goal_id));
    }

    /// A goal has ended in truth, with this terminal status.
    pub fn goal_ended(&mut self, goal_id: GoalId, status: i8) {
        self.ends_of_goals.insert(goal_id, status);
    }

    /// The terminal status with which a goal has ended in truth.
    pub fn end_of(&self, goal_id: &GoalId) -> Option<i8> {
        self.ends_of_goals.get(goal_id).copied()
    }

    /// The scene graph has told an executor that a command's preconditions do not hold, or gave no answer.
    pub fn scene_refused(&mut self, command_id: &str, reason: &str) {
        self.refused_by_scene
            .insert(command_id.into(), reason.into());
    }

    /// Why the scene graph did not let a command start.
    pub fn refused_by_scene(&self, command_id: &str) -> Option<&str> {
        self.refused_by_scene.get(command_id).map(String::as_str)
    }

    /// The base ran into something.
    pub fn collided(&mut self, at: Duration) {
        self.collisions.push(at);
    }

    /// One life of a process hears of a token of the lease.
    pub fn heard_token(&mut self, who: Address, token: u64, at: Duration) {
        let heard = self.heard.entry(who).or_default();
        if token > heard.newest {
            if at > heard.at {
                heard.before = heard.newest;
            }
            heard.newest = token;
            heard.at = at;
        }
    }

    /// The newest token that one life of a process had heard of before this time: what comes in one step comes
    /// in some order.
    pub fn token_heard(&self, who: Address, before: Duration) -> u64 {
        self.heard.get(&who).map_or(0, |heard| {
            if heard.at < before {
                heard.newest
            } else {
                heard.before
            }
        })
    }

    /// Protection has ended. A stop that was latched survives its life when it was `kept`, and the base keeps the
    /// last velocity until its own watchdog stops it.
    pub fn protection_ended(&mut self, at: Duration, kept: bool) {
        if !kept {
            self.stopped(false);
        }
        self.unprotected = Some(at);
    }

    /// When protection ended last.
    pub const fn unprotected(&self) -> Option<Duration> {
        self.unprotected
    }

    /// A stop was taken or reset.
    pub fn stopped(&mut self, stopped: bool) {
        if !stopped {
            self.stop_heard.clear();
        }
        self.stopped = stopped;
    }

    /// One life of a process hears of a stop.
    pub fn heard_stop(&mut self, who: Address, at: Duration) {
        if self.stopped {
            self.stop_heard.entry(who).or_insert(at);
        }
    }

    /// Since when one life of a process knows of the stop that is latched.
    pub fn stop_known(&self, who: Address) -> Option<Duration> {
        self.stop_heard.get(&who).copied()
    }

    /// A token of the lease was granted.
    pub fn granted(&mut self, token: u64) {
        self.granted.push(token);
    }

    /// Every token that was granted, in order.
    pub fn grants(&self) -> &[u64] {
        &self.granted
    }

    /// The harness tells a client the end of a task.
    pub fn told_end(&mut self, task_id: &str, outcome: TaskOutcome) {
        self.ends.push((task_id.into(), outcome));
    }

    /// Ends of tasks that were told, since the last call.
    pub fn take_ends(&mut self) -> Vec<(String, TaskOutcome)> {
        std::mem::take(&mut self.ends)
    }

    /// An executor begins to count its ticks.
    pub fn booted(&mut self, boot_id: &str, at: Duration) {
        self.boots.insert(boot_id.into(), at);
    }

    /// When an executor began to count its ticks.
    pub fn boot(&self, boot_id: &str) -> Option<Duration> {
        self.boots.get(boot_id).copied()
    }

    /// Somebody asks something of somebody.
    pub fn asked(&mut self, from: Address, to: ProcessId, request: &Request, at: Duration) {
        if let Request::Execute(goal) = request {
            let dispatched = Dispatched {
                at,
                from,
                to,
                goal_id: goal.goal_id,
                command_id: goal.command.command_id.clone(),
                token: goal.envelope.fencing_token,
                beacon: goal.envelope.beacon.clone(),
                start_within: goal.envelope.start_within,
            };
            self.new_dispatches.push(dispatched.clone());
            self.dispatched
                .entry(goal.command.command_id.clone())
                .or_default()
                .push(dispatched);
        }
    }

    /// Starts since the last call.
    pub fn new_starts(&mut self) -> Vec<Start> {
        let new = self
            .starts
            .get(self.looked_at..)
            .unwrap_or_default()
            .to_vec();
        self.looked_at = self.starts.len();
        new
    }

    /// Commands that were sent since the last call.
    pub fn take_dispatches(&mut self) -> Vec<Dispatched> {
        std::mem::take(&mut self.new_dispatches)
    }

    /// Every start.
    pub fn starts(&self) -> &[Start] {
        &self.starts
    }

    /// UUIDs that came twice, since the last call.
    pub fn take_twice(&mut self) -> Vec<(Duration, GoalId)> {
        std::mem::take(&mut self.twice)
    }

    /// How a command was sent, each time.
    pub fn dispatched(&self, command_id: &str) -> &[Dispatched] {
        self.dispatched
            .get(command_id)
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    /// When the base ran into something, since the last call.
    pub fn take_collisions(&mut self) -> Vec<Duration> {
        std::mem::take(&mut self.collisions)
    }
}

//! Another controller that takes the robot over for a while, and wants something of it.

use std::time::Duration;

use eh_contract::command::{Beacon, Envelope, SkillCommand, SCHEMA_VERSION};
use eh_contract::state::{ControlEnd, ExecutorState};
use eh_harness::effect::GoalRequest;
use eh_ledger::issuer_event::Finality;
use rand_chacha::ChaCha8Rng;
use serde_json::Map;

use crate::context::{Context, Process};
use crate::failpoint::Crash;
use crate::message::{Body, LeaseRequest, Letter, News, Reply, Request};
use crate::process_id::ProcessId;
use crate::random::bytes;

/// Lifetime of its lease.
const TTL: Duration = Duration::from_secs(3);
/// How often it asks for its command.
const ASK: Duration = Duration::from_millis(500);
/// How long it waits for news of its command before it takes it for lost.
const PATIENCE: Duration = Duration::from_secs(20);
/// What it wants: a skill without arguments, whose resource others want too.
const SKILL: &str = "stow";

/// How long after a command it sends what it should not.
const MISCHIEF: Duration = Duration::from_millis(1500);

/// What it does with its command that no controller should do: an executor has to refuse it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mischief {
    /// The same command comes again under another UUID.
    Again,
    /// Another command comes under the same id.
    OtherDigest,
    /// It is for another robot.
    OtherRobot,
    /// It comes late, with the name and token of the holder before.
    OldToken,
    /// It carries the beacon of another life of the executor.
    EarlierLife,
    /// It asks for a stop and commands under it.
    UnderStop,
}

impl Mischief {
    /// All of it.
    pub const ALL: [Mischief; 6] = [
        Mischief::Again,
        Mischief::OtherDigest,
        Mischief::OtherRobot,
        Mischief::OldToken,
        Mischief::EarlierLife,
        Mischief::UnderStop,
    ];
}

/// What it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RivalPlan {
    /// When it takes the lease.
    pub at: Duration,
    /// How long it keeps it.
    pub hold: Duration,
    /// It also sends a command.
    pub commands: bool,
    /// And does this with it.
    pub mischief: Option<Mischief>,
}

#[derive(Debug)]
struct Sent {
    command_id: String,
    since: Duration,
    asked: Duration,
    finality: Option<Finality>,
    /// What it sends later on.
    again: Option<Box<GoalRequest>>,
}

/// The controller.
#[derive(Debug)]
pub struct RivalProcess {
    plan: Option<RivalPlan>,
    rng: ChaCha8Rng,
    token: Option<u64>,
    asked: Option<Duration>,
    renewed: Duration,
    until: Duration,
    beacon: Option<Beacon>,
    version: Option<String>,
    wants: bool,
    mischief: Option<Mischief>,
    sent: Option<Sent>,
}

impl RivalProcess {
    /// A controller that does this, or nothing.
    pub fn new(plan: Option<RivalPlan>, rng: ChaCha8Rng) -> Self {
        RivalProcess {
            plan,
            rng,
            token: None,
            asked: None,
            renewed: Duration::ZERO,
            until: Duration::ZERO,
            beacon: None,
            version: None,
            wants: plan.is_some_and(|p| p.commands),
            mischief: plan.and_then(|p| p.mischief),
            sent: None,
        }
    }

    /// Whether nothing more is to come.
    pub const fn is_done(&self) -> bool {
        self.plan.is_none() && self.token.is_none() && self.sent.is_none()
    }

    fn ask(operation: LeaseRequest, context: &mut Context<'_>) {
        let request = Request::Lease {
            controller_id: ProcessId::Rival.node_name().into(),
            ttl_ms: u64::try_from(TTL.as_millis()).unwrap_or(u64::MAX),
            operation,
        };
        context.call(ProcessId::Protection, request);
    }

    fn command(&mut self, token: u64, context: &mut Context<'_>) {
        let (Some(mut beacon), Some(version)) = (self.beacon.clone(), self.version.clone()) else {
            return;
        };
        self.wants = false;
        if self.mischief == Some(Mischief::EarlierLife) {
            beacon.boot_id = "an-earlier-life".into();
        }
        let command_id = uuid::Builder::from_random_bytes(bytes(&mut self.rng))
            .into_uuid()
            .to_string();
        let start_within = Duration::from_secs(3);
        let command = SkillCommand {
            schema_version: SCHEMA_VERSION,
            command_id: command_id.clone(),
            task_id: "rival".into(),
            robot_id: match self.mischief {
                Some(Mischief::OtherRobot) => "another_robot".into(),
                _ => "robot".into(),
            },
            skill: SKILL.into(),
            skill_version: version,
            arguments: Map::new(),
            targets: Vec::new(),
            preconditions: Vec::new(),
            world_version: 0,
            plan_version: 1,
            start_within,
            execution_timeout: Duration::ZERO,
            stop_timeout: Duration::from_secs(3),
            max_segments: 0,
        };
        let goal = GoalRequest {
            action_name: format!("{}/execute_skill", ProcessId::Manipulation.node_name()),
            goal_id: bytes(&mut self.rng),
            segment: 0,
            command,
            envelope: Envelope {
                fencing_token: match self.mischief {
                    Some(Mischief::OldToken) => token.saturating_sub(1),
                    _ => token,
                },
                controller_id: match self.mischief {
                    Some(Mischief::OldToken) => ProcessId::Harness.node_name().into(),
                    _ => ProcessId::Rival.node_name().into(),
                },
                start_within,
                beacon: Some(beacon),
            },
        };
        let mut again = goal.clone();
        again.goal_id = bytes(&mut self.rng);
        let again = match self.mischief {
            Some(Mischief::Again | Mischief::UnderStop) => Some(Box::new(again)),
            Some(Mischief::OtherDigest) => {
                again.command.plan_version += 1;
                Some(Box::new(again))
            }
            Some(Mischief::OtherRobot | Mischief::OldToken | Mischief::EarlierLife) | None => None,
        };
        if self.mischief == Some(Mischief::UnderStop) {
            let reason = "nothing may move".into();
            context.call(ProcessId::Protection, Request::RequestStop { reason });
        } else {
            context.call(ProcessId::Manipulation, Request::Execute(Box::new(goal)));
        }
        let now = context.time();
        self.sent = Some(Sent {
            command_id,
            since: now,
            asked: now,
            finality: None,
            again,
        });
    }

    /// Sends what it should not.
    fn misbehave(&mut self, context: &mut Context<'_>) {
        let now = context.time();
        let is_there = context.is_there(ProcessId::Manipulation);
        let (beacon, since) = (self.beacon.clone(), self.sent.as_ref().map(|s| s.since));
        if !is_there || since.is_none_or(|since| now < since + MISCHIEF) {
            return;
        }
        if let Some(mut again) = self.sent.as_mut().and_then(|s| s.again.take()) {
            // Nothing but what is wrong about it may be the reason to refuse it.
            again.envelope.beacon = beacon;
            context.call(ProcessId::Manipulation, Request::Execute(again));
        }
    }

    fn look_after(&mut self, context: &mut Context<'_>) {
        let now = context.time();
        let Some(sent) = &mut self.sent else { return };
        if !context.is_there(ProcessId::Manipulation) || now < sent.asked + ASK {
            return;
        }
        sent.asked = now;
        let command_id = sent.command_id.clone();
        if let Some(to) = sent.finality {
            // As a person does: its lease may be over.
            let request = Request::SettleCommand {
                command_id,
                to,
                settled_by: ProcessId::Rival.node_name().into(),
                reason: "its control has ended".into(),
                fencing_token: 0,
            };
            context.call(ProcessId::Manipulation, request);
        } else {
            context.call(ProcessId::Manipulation, Request::QueryCommand(command_id));
        }
    }

    fn told(&mut self, reply: Reply, now: Duration) {
        let Some(sent) = &mut self.sent else { return };
        match reply {
            Reply::Statuses(Ok(statuses)) => {
                for status in statuses.iter().filter(|s| s.command_id == sent.command_id) {
                    match status.state {
                        ExecutorState::Rejected | ExecutorState::Settled => {
                            self.sent = None;
                            return;
                        }
                        ExecutorState::Ended => {
                            sent.finality = Some(match status.control_end {
                                ControlEnd::Completed => Finality::Succeeded,
                                ControlEnd::Canceled => Finality::Canceled,
                                ControlEnd::None
                                | ControlEnd::Aborted
                                | ControlEnd::Preempted
                                | ControlEnd::Lost => Finality::Failed,
                            });
                            // What was lost may run on for a while.
                            if status.control_end == ControlEnd::Lost {
                                sent.asked = now + Duration::from_secs(10);
                            }
                        }
                        ExecutorState::Unspecified
                        | ExecutorState::Received
                        | ExecutorState::Accepted
                        | ExecutorState::Started
                        | ExecutorState::Canceling => {}
                    }
                }
            }
            // It never arrived, and by now it never will.
            Reply::Statuses(Err(_)) if now >= sent.since + PATIENCE => self.sent = None,
            Reply::Settled { error_code: 0, .. } => self.sent = None,
            _ => {}
        }
    }
}

impl Process for RivalProcess {
    fn receive(&mut self, letter: Letter, context: &mut Context<'_>) -> Result<(), Crash> {
        match letter.body {
            Body::News(News::Beacon(beacon))
                if beacon.executor == ProcessId::Manipulation.node_name() =>
            {
                self.beacon = Some(beacon);
            }
            Body::News(News::Catalog(catalog)) => {
                if let Some(skill) = catalog.skills.iter().find(|s| s.name == SKILL) {
                    self.version = Some(skill.version.clone());
                }
            }
            Body::Reply {
                reply: Reply::Lease(answer),
                ..
            } => match answer {
                Ok(lease) if lease.controller_id == ProcessId::Rival.node_name() => {
                    if let (None, Some(plan)) = (self.token, self.plan.take()) {
                        self.until = context.time() + plan.hold;
                        context.note(format_args!("has the lease with token {}", lease.token));
                    }
                    self.token = Some(lease.token);
                }
                Ok(_) | Err(_) => self.token = None,
            },
            Body::Reply { reply, .. } => self.told(reply, context.time()),
            Body::News(_) | Body::Request { .. } => {}
        }
        Ok(())
    }

    fn step(&mut self, context: &mut Context<'_>) -> Result<(), Crash> {
        let now = context.time();
        self.misbehave(context);
        self.look_after(context);
        if !context.is_there(ProcessId::Protection) {
            return Ok(());
        }
        match (self.token, self.plan) {
            (None, Some(plan)) if plan.at <= now => {
                let again = self.asked.is_none_or(|at| now >= at + TTL);
                if again {
                    self.asked = Some(now);
                    Self::ask(LeaseRequest::Acquire { take_over: true }, context);
                }
            }
            (Some(token), _) if now >= self.until => {
                Self::ask(LeaseRequest::Release { token }, context);
                self.token = None;
            }
            (Some(token), _) => {
                if self.wants && context.is_there(ProcessId::Manipulation) {
                    self.command(token, context);
                }
                if now >= self.renewed + TTL / 3 {
                    self.renewed = now;
                    Self::ask(LeaseRequest::Renew { token }, context);
                }
            }
            (None, _) => {}
        }
        Ok(())
    }
}

//! The world of the model: two processes, a server that is not ours, a network, time.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use eh_contract::command::{SkillCommand, SCHEMA_VERSION};
use eh_contract::status::SkillStatus;
use eh_contract::verdict::{Outcome, Verdict};
use eh_contract::{ErrorCode, Stamp};

use super::executor_side::Executor;
use super::explorer::{put, Explored};
use super::invariants::Witness;
use super::issuer_side::Issuer;
use crate::executor::{ExecutorRecord, GoalId};
use crate::issuer::IssuerRecord;
use crate::issuer_event::{Finality, IssuerEvent};
use crate::issuer_policy::{IssuerPolicy, Now};

/// Points of ROS time that are told apart. While control has not ended it is "before".
pub(super) const BEFORE_END: Stamp = Stamp(10);
pub(super) const AT_END: Stamp = Stamp(20);
pub(super) const AFTER_END: Stamp = Stamp(30);

/// How long time may pass at once \[s\]: until the executor is asked; beyond every budget but that of
/// silence; beyond that too.
pub(super) const WAITS: [u32; 3] = [3, 60, 200];

/// A command of a scenario.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) resources: Vec<String>,
    pub(super) goals: u8,
    pub(super) evaluated: bool,
}

/// How often each thing may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Budget {
    pub(super) losses: u8,
    pub(super) duplicates: u8,
    pub(super) issuer_crashes: u8,
    pub(super) executor_crashes: u8,
    pub(super) server_restarts: u8,
    pub(super) cancels: u8,
    pub(super) stops: u8,
    pub(super) waits: u8,
    pub(super) persons: u8,
    /// Another program's goal aborts the one that runs.
    pub(super) displacements: u8,
    /// Somebody uses a UUID again, or sends a sub-goal again.
    pub(super) mistakes: u8,
    /// A verdict from before the end, by a judge that is wrong.
    pub(super) stray_verdicts: u8,
    /// Somebody else takes the control lease.
    pub(super) takeovers: u8,
}

/// What is on its way. Everything may come in any order.
#[derive(Clone, Debug)]
pub(super) enum Message {
    Send {
        command: usize,
        goal: GoalId,
        token: u64,
        boot: u8,
        tick: u32,
    },
    CancelSkill {
        goal: GoalId,
    },
    Query {
        command: usize,
    },
    Settle {
        command: usize,
        to: Finality,
    },
    Acknowledged {
        command: usize,
    },
    Refused {
        command: usize,
        code: ErrorCode,
    },
    Status {
        command: usize,
        status: Arc<SkillStatus>,
    },
    NotFound {
        command: usize,
        boot: u8,
    },
    Released {
        command: usize,
    },
    Evaluate {
        command: usize,
        run: String,
    },
    Judged {
        command: usize,
        run: String,
        outcome: Outcome,
        stamp: Stamp,
    },
    /// From the executor to the foreign server.
    Goal {
        command: usize,
        name: u8,
        goal: GoalId,
    },
}

/// A goal at the foreign server, as it tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ServerGoal {
    pub(super) goal: GoalId,
    /// [`crate::executor::goal_status`].
    pub(super) status: i8,
}

/// The robot itself: what really moves, whoever knows of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Motion {
    pub(super) command: usize,
    pub(super) goal: GoalId,
}

/// What may happen.
#[derive(Clone, Copy, Debug)]
pub(super) enum Action {
    Commit(usize),
    Dispatch(usize),
    DispatchUnderUsedUuid(usize),
    Cancel(usize),
    Reconcile(usize),
    PersonSettles(usize, Finality),
    IssuerPerforms,
    IssuerCrashes,
    IssuerStarts,
    ExecutorWorks(usize),
    ExecutorAsksServer(usize),
    ExecutorMeasuresStandstill(usize),
    ExecutorGivesUpStopping(usize),
    ExecutorRunsOutOfTime(usize),
    StopIsLatched(usize),
    ExecutorSendsAgain(usize),
    ExecutorUsesUuidAgain(usize),
    ExecutorCallsItDone(usize),
    ExecutorPerforms,
    ExecutorCrashes,
    ExecutorStarts,
    Arrives(usize),
    IsLost(usize),
    ArrivesTwice(usize),
    IsJudged(usize, Outcome),
    StrayVerdict(usize),
    ServerEnds(usize, i8),
    ServerRejects(usize),
    ServerRestarts,
    MotionEnds(usize),
    SomebodyElseTakesOver,
    TimePasses(u32),
}

#[derive(Clone)]
pub(super) struct World {
    pub(super) wanted: Arc<Vec<Wanted>>,
    pub(super) commands: Arc<Vec<SkillCommand>>,
    pub(super) policy: IssuerPolicy,
    pub(super) budget: Budget,
    pub(super) seconds: u32,
    pub(super) token: u64,
    pub(super) next_uuid: u8,
    pub(super) issuer: Option<Issuer>,
    pub(super) issuer_disk: Vec<Option<Arc<IssuerRecord>>>,
    pub(super) executor: Option<Executor>,
    pub(super) executor_disk: Vec<Option<Arc<ExecutorRecord>>>,
    pub(super) boots: u8,
    pub(super) net: Vec<Message>,
    pub(super) server: Vec<ServerGoal>,
    pub(super) motions: Vec<Motion>,
    pub(super) witness: Witness,
}

impl World {
    pub(super) fn new(wanted: Vec<Wanted>, budget: Budget) -> Self {
        let commands: Vec<SkillCommand> = (0..wanted.len())
            .map(|i| SkillCommand {
                schema_version: SCHEMA_VERSION,
                command_id: format!("c{i}"),
                task_id: String::new(),
                robot_id: "robot".into(),
                skill: format!("skill{i}"),
                skill_version: "1.0.0".into(),
                arguments: serde_json::Map::new(),
                targets: vec![],
                preconditions: vec![],
                world_version: 0,
                plan_version: 0,
                start_within: Duration::from_secs(5),
                execution_timeout: Duration::from_secs(20),
                stop_timeout: Duration::from_secs(5),
                max_segments: 0,
            })
            .collect();
        let count = wanted.len();
        World {
            wanted: Arc::new(wanted),
            commands: Arc::new(commands),
            policy: IssuerPolicy {
                silent_after: Duration::from_secs(2),
                lost_after: Duration::from_secs(100),
                max_looks: 2,
                ..IssuerPolicy::default()
            },
            budget,
            seconds: 0,
            token: 1,
            next_uuid: 1,
            issuer: Some(Issuer::default()),
            issuer_disk: vec![None; count],
            executor: Some(Executor::new(1, 0, count)),
            executor_disk: vec![None; count],
            boots: 1,
            net: Vec::new(),
            server: Vec::new(),
            motions: Vec::new(),
            witness: Witness::new(count),
        }
    }

    pub(super) fn now(&self) -> Now {
        Now {
            steady: Duration::from_secs(u64::from(self.seconds)),
            ros: BEFORE_END,
        }
    }

    pub(super) fn new_uuid(&mut self) -> GoalId {
        let uuid = [self.next_uuid; 16];
        self.next_uuid += 1;
        uuid
    }

    pub(super) fn index_of(&self, command_id: &str) -> usize {
        self.commands
            .iter()
            .position(|c| c.command_id == command_id)
            .expect("only commands of the scenario are sent")
    }

    fn network_actions(&self, out: &mut Vec<Action>) {
        for (i, message) in self.net.iter().enumerate() {
            match message {
                Message::Evaluate { .. } => {
                    for outcome in [Outcome::Success, Outcome::Failure, Outcome::Unknown] {
                        out.push(Action::IsJudged(i, outcome));
                    }
                }
                Message::Goal { .. } => {
                    out.push(Action::Arrives(i));
                    out.push(Action::ServerRejects(i));
                }
                Message::Send { .. }
                | Message::CancelSkill { .. }
                | Message::Query { .. }
                | Message::Settle { .. } => {
                    if self.executor.is_some() {
                        out.push(Action::Arrives(i));
                    }
                }
                Message::Acknowledged { .. }
                | Message::Refused { .. }
                | Message::Status { .. }
                | Message::NotFound { .. }
                | Message::Released { .. }
                | Message::Judged { .. } => {
                    if self.issuer.as_ref().is_some_and(Issuer::is_idle) {
                        out.push(Action::Arrives(i));
                    }
                }
            }
            if self.budget.losses > 0 {
                out.push(Action::IsLost(i));
            }
            if self.budget.duplicates > 0 && !matches!(message, Message::Goal { .. }) {
                out.push(Action::ArrivesTwice(i));
            }
        }
    }

    fn server_actions(&self, out: &mut Vec<Action>) {
        use crate::executor::goal_status as g;
        for (i, goal) in self.server.iter().enumerate() {
            if !g::is_terminal(goal.status) {
                if goal.status == g::CANCELING {
                    out.push(Action::ServerEnds(i, g::CANCELED));
                }
                out.push(Action::ServerEnds(i, g::SUCCEEDED));
                if self.budget.displacements > 0 {
                    out.push(Action::ServerEnds(i, g::ABORTED));
                }
            }
        }
        if self.budget.server_restarts > 0 && !self.server.is_empty() {
            out.push(Action::ServerRestarts);
        }
        // What the server knows moves until it has ended there; what it forgot, or cancels, rolls on a bit.
        for (i, motion) in self.motions.iter().enumerate() {
            let runs = self
                .server
                .iter()
                .any(|g| g.goal == motion.goal && !g::is_terminal(g.status));
            if !runs {
                out.push(Action::MotionEnds(i));
            }
        }
    }

    /// A message reaches its receiver.
    fn arrive(&mut self, message: Message) -> Result<(), String> {
        match message {
            Message::Goal {
                command,
                name,
                goal,
            } => {
                self.witness.started(command, name)?;
                self.server.push(ServerGoal {
                    goal,
                    status: crate::executor::goal_status::EXECUTING,
                });
                self.motions.push(Motion { command, goal });
                Ok(())
            }
            Message::Send {
                command,
                goal,
                token,
                boot,
                tick,
            } => self.executor_receives(command, goal, token, boot, tick),
            Message::CancelSkill { goal } => self.executor_is_asked_to_cancel(goal),
            Message::Query { command } => {
                self.executor_is_asked(command);
                Ok(())
            }
            Message::Settle { command, to } => self.executor_is_told(command, to),
            Message::Evaluate { .. } => Ok(()),
            Message::Acknowledged { command } => self.tell(command, IssuerEvent::Acknowledged),
            Message::Refused { command, code } => {
                let reason = "refused".into();
                self.tell(command, IssuerEvent::GoalRefused { code, reason })
            }
            Message::Status { command, status } => {
                self.tell(command, IssuerEvent::Status(Box::new((*status).clone())))
            }
            Message::NotFound { command, boot } => {
                let boot_id = format!("boot{boot}");
                self.tell(command, IssuerEvent::NotFound { boot_id })
            }
            Message::Released { command } => self.tell(command, IssuerEvent::SettleConfirmed),
            Message::Judged {
                command,
                run,
                outcome,
                stamp,
            } => {
                let verdict = Verdict {
                    run_id: run,
                    command_id: format!("c{command}"),
                    segment: 0,
                    outcome,
                    reason: String::new(),
                    predicates: vec![],
                    evidence: vec![],
                    judge: String::new(),
                    judge_version: String::new(),
                    stamp,
                };
                self.tell(command, IssuerEvent::Judged(Box::new(verdict)))
            }
        }
    }

    fn happen(&mut self, action: Action) -> Result<(), String> {
        match action {
            Action::Commit(i) => self.commit(i),
            Action::Dispatch(i) => {
                let goal_id = self.new_uuid();
                self.tell(i, IssuerEvent::Dispatch { goal_id })
            }
            Action::DispatchUnderUsedUuid(i) => {
                self.budget.mistakes -= 1;
                self.dispatch_under_used_uuid(i)
            }
            Action::Cancel(i) => {
                self.budget.cancels -= 1;
                let reason = "asked".into();
                self.tell(i, IssuerEvent::CancelRequested { reason })
            }
            Action::Reconcile(i) => self.tell(i, IssuerEvent::Reconcile),
            Action::PersonSettles(i, to) => {
                self.budget.persons -= 1;
                let (by, reason) = ("a person".into(), "seen".into());
                self.tell(i, IssuerEvent::Reconciled { to, by, reason })
            }
            Action::IssuerPerforms => self.issuer_performs(),
            Action::IssuerCrashes => {
                self.budget.issuer_crashes -= 1;
                self.issuer = None;
                Ok(())
            }
            Action::IssuerStarts => {
                self.issuer_starts();
                Ok(())
            }
            Action::ExecutorWorks(i) => self.executor_works(i),
            Action::ExecutorAsksServer(i) => self.executor_asks_server(i),
            Action::ExecutorMeasuresStandstill(i) => self.executor_measures(i),
            Action::ExecutorGivesUpStopping(i) => self.executor_gives_up(i),
            Action::ExecutorRunsOutOfTime(i) => self.executor_runs_out_of_time(i),
            Action::StopIsLatched(i) => {
                self.budget.stops -= 1;
                self.stop_is_latched(i)
            }
            Action::ExecutorSendsAgain(i) => {
                self.budget.mistakes -= 1;
                self.executor_sends_again(i, false)
            }
            Action::ExecutorUsesUuidAgain(i) => {
                self.budget.mistakes -= 1;
                self.executor_sends_again(i, true)
            }
            Action::ExecutorCallsItDone(i) => {
                self.budget.mistakes -= 1;
                self.executor_calls_it_done(i)
            }
            Action::ExecutorPerforms => self.executor_performs(),
            Action::ExecutorCrashes => {
                self.budget.executor_crashes -= 1;
                self.executor = None;
                Ok(())
            }
            Action::ExecutorStarts => self.executor_starts(),
            Action::Arrives(i) => {
                let message = self.net.remove(i);
                self.arrive(message)
            }
            Action::IsLost(i) => {
                self.budget.losses -= 1;
                self.net.remove(i);
                Ok(())
            }
            Action::ArrivesTwice(i) => {
                self.budget.duplicates -= 1;
                let message = self.net[i].clone();
                self.net.push(message);
                Ok(())
            }
            Action::IsJudged(i, outcome) => {
                if let Message::Evaluate { command, run } = self.net.remove(i) {
                    let stamp = AFTER_END;
                    self.net.push(Message::Judged {
                        command,
                        run,
                        outcome,
                        stamp,
                    });
                }
                Ok(())
            }
            Action::StrayVerdict(i) => {
                self.budget.stray_verdicts -= 1;
                if let Some(record) = &self.executor_disk[i] {
                    let (run, outcome) = (record.run_id.clone(), Outcome::Success);
                    let stamp = BEFORE_END;
                    self.net.push(Message::Judged {
                        command: i,
                        run,
                        outcome,
                        stamp,
                    });
                }
                Ok(())
            }
            Action::ServerEnds(i, status) => {
                if status == crate::executor::goal_status::ABORTED {
                    self.budget.displacements -= 1;
                }
                self.server[i].status = status;
                let goal = self.server[i].goal;
                if status != crate::executor::goal_status::CANCELED {
                    self.motions.retain(|m| m.goal != goal);
                }
                Ok(())
            }
            Action::ServerRejects(i) => {
                if let Message::Goal { command, goal, .. } = self.net.remove(i) {
                    self.server_has_rejected(command, goal)?;
                }
                Ok(())
            }
            Action::ServerRestarts => {
                self.budget.server_restarts -= 1;
                self.server.clear();
                Ok(())
            }
            Action::MotionEnds(i) => {
                self.motions.remove(i);
                Ok(())
            }
            Action::SomebodyElseTakesOver => {
                self.budget.takeovers -= 1;
                self.token += 1;
                Ok(())
            }
            Action::TimePasses(seconds) => {
                self.budget.waits -= 1;
                self.seconds += seconds;
                // A question is given up after less than the delivery margin, and an answer after that
                // reaches nobody.
                self.net
                    .retain(|m| !matches!(m, Message::Query { .. } | Message::NotFound { .. }));
                if let Some(executor) = &mut self.executor {
                    executor.time_passes(seconds);
                }
                for i in 0..self.commands.len() {
                    self.tell(i, IssuerEvent::Tick)?;
                }
                Ok(())
            }
        }
    }
}

impl Explored for World {
    type Action = Action;

    fn actions(&self) -> Vec<Action> {
        let mut out = Vec::new();
        self.issuer_actions(&mut out);
        self.executor_actions(&mut out);
        self.network_actions(&mut out);
        self.server_actions(&mut out);
        // Time passes between what happens at once.
        let idle = self.issuer.as_ref().is_none_or(Issuer::is_idle)
            && self.executor.as_ref().is_none_or(Executor::is_idle);
        if self.budget.waits > 0 && idle {
            out.extend(WAITS.map(Action::TimePasses));
        }
        if self.budget.takeovers > 0 {
            out.push(Action::SomebodyElseTakesOver);
        }
        out
    }

    fn after(&self, action: Action) -> Result<Self, String> {
        let mut after = self.clone();
        after.happen(action)?;
        after.check(self)?;
        Ok(after)
    }

    fn identify(&self, h: &mut impl Hasher) {
        self.budget.hash(h);
        put(
            h,
            &[
                u64::from(self.seconds),
                self.token,
                u64::from(self.next_uuid),
            ],
        );
        self.identify_issuer(h);
        self.identify_executor(h);
        self.server.hash(h);
        self.motions.hash(h);
        self.witness.hash(h);
        // The order on the network means nothing.
        let mut messages: Vec<u64> = self
            .net
            .iter()
            .map(|message| {
                let mut hasher = std::collections::hash_map::DefaultHasher::new();
                identify_message(message, &mut hasher);
                hasher.finish()
            })
            .collect();
        messages.sort_unstable();
        messages.hash(h);
    }
}

pub(super) fn identify_status(status: &SkillStatus, h: &mut impl Hasher) {
    put(
        h,
        &[
            u64::from(status.state.to_wire()),
            u64::from(status.control_end.to_wire()),
            u64::from(status.stop_stage.to_wire()),
            status.sequence,
            u64::from(status.started_at.is_never()),
            u64::from(status.ended_at.is_never()),
            u64::from(status.native_outcome.action_name.is_empty()),
            u64::from(status.error_code),
        ],
    );
    status.run_id.hash(h);
}

fn identify_message(message: &Message, h: &mut impl Hasher) {
    std::mem::discriminant(message).hash(h);
    match message {
        Message::Send {
            command,
            goal,
            token,
            boot,
            tick,
        } => {
            (command, goal, token, boot, tick).hash(h);
        }
        Message::CancelSkill { goal } => goal.hash(h),
        Message::Query { command }
        | Message::Acknowledged { command }
        | Message::Released { command } => command.hash(h),
        Message::Settle { command, to } => (command, to.to_wire()).hash(h),
        Message::Refused { command, code } => (command, code.code()).hash(h),
        Message::Status { command, status } => {
            command.hash(h);
            identify_status(status, h);
        }
        Message::NotFound { command, boot } => (command, boot).hash(h),
        Message::Evaluate { command, run } => (command, run).hash(h),
        Message::Judged {
            command,
            run,
            outcome,
            stamp,
        } => {
            (command, run, outcome.to_wire(), stamp.0).hash(h);
        }
        Message::Goal {
            command,
            name,
            goal,
        } => (command, name, goal).hash(h),
    }
}

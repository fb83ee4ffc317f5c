//! What an executor's node does with its gate, its states and its journal.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use eh_contract::command::{Beacon, Envelope};
use eh_contract::skill::DisconnectPolicy;
use eh_contract::state::ExecutorState;
use eh_contract::ErrorCode;
use serde_json::json;

use super::explorer::put;
use super::world::{Action, Message, World, AT_END, BEFORE_END};
use crate::admission::{admit, Admission, ExecutorView, KnownSkill, LeaseView, Request};
use crate::executor::{
    goal_status, held_resources, step, ExecutorEffect, ExecutorEvent, ExecutorRecord, FinalState,
    GoalId, StopCause,
};
use crate::issuer_event::Finality;
use crate::restart::{after_restart, unknown_goal, RestartPlan};

/// The skills of the scenarios, whose descriptors are the same but for their resources.
static SKILLS: LazyLock<BTreeMap<String, KnownSkill>> = LazyLock::new(|| {
    [("skill0", "base"), ("skill1", "base"), ("skill2", "arm")]
        .into_iter()
        .map(|(name, resource)| {
            let descriptor = serde_json::from_value(json!({
                "name": name, "version": "1.0.0", "description": "moves",
                "action_name": "x/execute_skill",
                "arguments_schema": {"type": "object", "properties": {}, "additionalProperties": false},
                "postcondition_text": "done", "evaluated": true, "resources": [resource],
                "nominal_duration": 5.0, "maximum_duration": 20.0
            }))
            .expect("the descriptor is complete");
            let skill = KnownSkill::new(descriptor).expect("the descriptor is valid");
            (name.to_owned(), skill)
        })
        .collect()
});

/// What an executor keeps of a command outside of the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Task {
    /// A task of this life runs its program.
    running: bool,
    /// It must have started by then, on this life's clock \[s\].
    start_by: u32,
    /// It was started longer ago than it may take.
    late: bool,
    /// It was asked to stop longer ago than that may take.
    stop_late: bool,
    /// The goal of `execute_skill` by which it can be canceled.
    goal: Option<GoalId>,
}

/// The executor while it runs; all of it is lost in a crash.
#[derive(Clone)]
pub(super) struct Executor {
    pub(super) boot: u8,
    /// When it was started \[s\].
    pub(super) born: u32,
    records: Vec<Option<Arc<ExecutorRecord>>>,
    tasks: Vec<Task>,
    effects: VecDeque<(usize, ExecutorEffect)>,
}

impl Executor {
    pub(super) fn new(boot: u8, born: u32, commands: usize) -> Self {
        Executor {
            boot,
            born,
            records: vec![None; commands],
            tasks: vec![Task::default(); commands],
            effects: VecDeque::new(),
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.effects.is_empty()
    }

    /// Budgets are told apart only in so far as a wait uses them up.
    pub(super) fn time_passes(&mut self, seconds: u32) {
        for (task, record) in self.tasks.iter_mut().zip(&self.records) {
            if let Some(record) = record {
                let state = record.state;
                task.late |= seconds > 20 && state == ExecutorState::Started;
                task.stop_late |= seconds > 5 && state == ExecutorState::Canceling;
            }
        }
    }
}

impl World {
    pub(super) fn executor_actions(&self, out: &mut Vec<Action>) {
        let Some(executor) = &self.executor else {
            out.push(Action::ExecutorStarts);
            return;
        };
        if self.budget.executor_crashes > 0 {
            out.push(Action::ExecutorCrashes);
        }
        if !executor.is_idle() {
            out.push(Action::ExecutorPerforms);
        }
        for (i, record) in executor.records.iter().enumerate() {
            let Some(record) = record else { continue };
            let task = executor.tasks[i];
            let open = record.open_goals().count();
            let mistaken = self.budget.mistakes > 0 && !record.sub_goals.is_empty();
            match record.state {
                ExecutorState::Received | ExecutorState::Accepted => {
                    if task.running {
                        out.push(Action::ExecutorWorks(i));
                    }
                }
                ExecutorState::Started => {
                    if task.running && executor.is_idle() && open == 0 {
                        out.push(Action::ExecutorWorks(i));
                    }
                    if open > 0 && executor.is_idle() {
                        out.push(Action::ExecutorAsksServer(i));
                    }
                    if task.late {
                        out.push(Action::ExecutorRunsOutOfTime(i));
                    }
                    if mistaken {
                        out.push(Action::ExecutorSendsAgain(i));
                        out.push(Action::ExecutorUsesUuidAgain(i));
                        if open > 0 {
                            out.push(Action::ExecutorCallsItDone(i));
                        }
                    }
                }
                ExecutorState::Canceling => {
                    if open > 0 && executor.is_idle() {
                        out.push(Action::ExecutorAsksServer(i));
                    }
                    // It is measured whether or not the goals have ended: the record has to know.
                    out.push(Action::ExecutorMeasuresStandstill(i));
                    if task.stop_late {
                        out.push(Action::ExecutorGivesUpStopping(i));
                    }
                    if mistaken {
                        out.push(Action::ExecutorSendsAgain(i));
                    }
                }
                ExecutorState::Unspecified
                | ExecutorState::Rejected
                | ExecutorState::Ended
                | ExecutorState::Settled => {}
            }
            if self.budget.stops > 0 && !record.is_terminal() {
                out.push(Action::StopIsLatched(i));
            }
        }
    }

    /// Decides, writes the journal, and leaves the effects to be performed.
    fn apply(&mut self, i: usize, event: &ExecutorEvent) -> Result<(), String> {
        let Some(executor) = &mut self.executor else {
            return Ok(());
        };
        let Some(record) = &executor.records[i] else {
            return Ok(());
        };
        let ends = matches!(event, ExecutorEvent::Reject { .. })
            || matches!(
                event,
                ExecutorEvent::Standstill
                    | ExecutorEvent::StopTimeout { .. }
                    | ExecutorEvent::Lose { .. }
                    | ExecutorEvent::Complete
                    | ExecutorEvent::Stop(_)
            );
        let now = if ends { AT_END } else { BEFORE_END };
        let outcome = step(record, event, now);
        self.witness
            .executor_stepped(i, record, outcome.as_ref().ok(), event)?;
        let Ok(transition) = outcome else {
            return Ok(());
        };
        if transition.changed {
            // The journal refuses a UUID that stands in it.
            if let ExecutorEvent::SendGoal { goal_id, .. } = event {
                let stolen = self.executor_disk.iter().enumerate().any(|(k, other)| {
                    k != i
                        && other
                            .as_ref()
                            .is_some_and(|o| o.sub_goal(goal_id).is_some())
                });
                if stolen {
                    return Ok(());
                }
            }
            let record = Arc::new(transition.record);
            self.executor_disk[i] = Some(record.clone());
            executor.records[i] = Some(record);
        }
        executor
            .effects
            .extend(transition.effects.into_iter().map(|e| (i, e)));
        // Each change is published.
        if transition.changed {
            self.tell_status(i);
        }
        Ok(())
    }

    fn tell_status(&mut self, i: usize) {
        let Some(executor) = &self.executor else {
            return;
        };
        // A command that this life has not touched is read from the journal.
        let known = executor.records[i]
            .as_ref()
            .or(self.executor_disk[i].as_ref());
        if let Some(record) = known {
            let status = Arc::new(record.status("/x", &format!("boot{}", executor.boot), None));
            // A status that is on its way is replaced by a newer one: the topic keeps the last one.
            self.net.retain(
                |m| !matches!(m, Message::Status { command, .. } if *command == i && self.budget.duplicates == 0),
            );
            self.net.push(Message::Status { command: i, status });
        }
    }

    /// A goal of `execute_skill` arrives.
    pub(super) fn executor_receives(
        &mut self,
        i: usize,
        goal: GoalId,
        token: u64,
        boot: u8,
        tick: u32,
    ) -> Result<(), String> {
        let seconds = self.seconds;
        let Some(executor) = &mut self.executor else {
            return Ok(());
        };
        let command = &self.commands[i];
        let digest = command.digest();
        let name = format!("boot{}", executor.boot);
        let age = Duration::from_secs(u64::from(tick));
        let envelope = Envelope {
            fencing_token: token,
            controller_id: "/h".into(),
            start_within: command.start_within,
            beacon: Some(Beacon {
                executor: "/x".into(),
                boot_id: format!("boot{boot}"),
                tick: age,
            }),
        };
        let held = held_resources(executor.records.iter().flatten().map(|r| &**r));
        let lease = LeaseView {
            newest_token: self.token,
            live: true,
            controller_id: if token == self.token { "/h" } else { "/other" }.into(),
        };
        let known = executor.records[i]
            .as_ref()
            .or(self.executor_disk[i].as_ref());
        let answer = admit(
            &Request {
                command,
                digest: &digest,
                envelope: &envelope,
                segment: 0,
            },
            &ExecutorView {
                executor: "/x",
                boot_id: &name,
                tick: Duration::from_secs(u64::from(seconds - executor.born)),
                robot_id: "robot",
                skills: &SKILLS,
                known: known.map(|r| &**r),
                held: &held,
                lease: &lease,
                require_lease: true,
                stop_latched: None,
                frames: &BTreeSet::new(),
                shutting_down: false,
            },
            None,
        );
        match answer {
            Admission::Duplicate => {
                executor.tasks[i].goal = Some(goal);
                self.net.push(Message::Acknowledged { command: i });
                self.tell_status(i);
                Ok(())
            }
            Admission::Admit(admitted) => {
                // Seen from outside, without the gate's own arithmetic.
                let age = seconds - executor.born.min(seconds);
                let limit = command.start_within.as_secs();
                if boot != executor.boot || u64::from(age.saturating_sub(tick)) >= limit {
                    return Err(format!("c{i} is admitted after its start_within"));
                }
                if token < self.token {
                    return Err(format!("c{i} is admitted under an old token"));
                }
                executor.tasks[i] = Task {
                    running: true,
                    start_by: u32::try_from(admitted.start_by.as_secs()).unwrap_or(u32::MAX),
                    goal: Some(goal),
                    ..Task::default()
                };
                let record = Arc::new(ExecutorRecord::received(
                    command.clone(),
                    0,
                    &name,
                    token,
                    "/h",
                    BEFORE_END,
                ));
                self.executor_disk[i] = Some(record.clone());
                executor.records[i] = Some(record);
                self.net.push(Message::Acknowledged { command: i });
                Ok(())
            }
            Admission::Refuse(refusal) => {
                self.net.push(Message::Refused {
                    command: i,
                    code: refusal.code,
                });
                Ok(())
            }
        }
    }

    /// The next step of a command's program.
    pub(super) fn executor_works(&mut self, i: usize) -> Result<(), String> {
        let wanted = self.wanted[i].clone();
        let Some(executor) = &self.executor else {
            return Ok(());
        };
        let Some(record) = executor.records[i].clone() else {
            return Ok(());
        };
        let tick = self.seconds - executor.born;
        let task = executor.tasks[i];
        let event = match record.state {
            ExecutorState::Received => ExecutorEvent::Accept {
                resources: wanted.resources,
                disconnect_policy: DisconnectPolicy::Stop,
            },
            ExecutorState::Accepted if tick >= task.start_by => ExecutorEvent::Reject {
                error_code: ErrorCode::ExpiredCommand.code(),
                error_msg: "late".into(),
            },
            ExecutorState::Accepted => ExecutorEvent::Start {
                run_id: format!("run{i}.{}", executor.boot),
            },
            ExecutorState::Started => match record.sub_goals.last() {
                Some(last) if last.status != goal_status::SUCCEEDED => {
                    ExecutorEvent::Stop(StopCause::Failed {
                        error_code: ErrorCode::Preempted.code(),
                        error_msg: "it failed".into(),
                    })
                }
                last if record.sub_goals.len() < usize::from(wanted.goals) => {
                    let name = last.map_or(0, |g| g.name.parse::<u8>().unwrap_or(0) + 1);
                    ExecutorEvent::SendGoal {
                        goal_id: self.new_uuid(),
                        action_name: "/foreign".into(),
                        name: name.to_string(),
                    }
                }
                Some(_) | None => ExecutorEvent::Complete,
            },
            ExecutorState::Unspecified
            | ExecutorState::Rejected
            | ExecutorState::Canceling
            | ExecutorState::Ended
            | ExecutorState::Settled => return Ok(()),
        };
        self.apply(i, &event)
    }

    /// A program that sends its first sub-goal once more, under the UUID of that or a new one.
    pub(super) fn executor_sends_again(&mut self, i: usize, same: bool) -> Result<(), String> {
        let fresh = self.new_uuid();
        let Some(record) = self.executor.as_ref().and_then(|e| e.records[i].clone()) else {
            return Ok(());
        };
        let first = &record.sub_goals[0];
        self.apply(
            i,
            &ExecutorEvent::SendGoal {
                goal_id: if same { first.goal_id } else { fresh },
                action_name: "/foreign".into(),
                name: if same { "9".into() } else { first.name.clone() },
            },
        )
    }

    /// A program that is done while a goal of it is open.
    pub(super) fn executor_calls_it_done(&mut self, i: usize) -> Result<(), String> {
        self.apply(i, &ExecutorEvent::Complete)
    }

    /// The next effect.
    pub(super) fn executor_performs(&mut self) -> Result<(), String> {
        let Some(executor) = &mut self.executor else {
            return Ok(());
        };
        let Some((i, effect)) = executor.effects.pop_front() else {
            return Ok(());
        };
        match effect {
            ExecutorEffect::SendGoal { goal_id } => {
                self.witness.sent(i, goal_id)?;
                let name = executor.records[i]
                    .as_ref()
                    .and_then(|r| r.sub_goal(&goal_id))
                    .map_or(0, |g| g.name.parse().unwrap_or(0));
                self.net.push(Message::Goal {
                    command: i,
                    name,
                    goal: goal_id,
                });
            }
            ExecutorEffect::CancelGoals(goals) => {
                for known in &mut self.server {
                    if goals.contains(&known.goal) && !goal_status::is_terminal(known.status) {
                        known.status = goal_status::CANCELING;
                    }
                }
            }
            ExecutorEffect::Answer => self.tell_status(i),
            ExecutorEffect::AnnounceStart
            | ExecutorEffect::AnnounceEnd
            | ExecutorEffect::MeasureStandstill => {}
        }
        Ok(())
    }

    pub(super) fn server_has_rejected(&mut self, i: usize, goal_id: GoalId) -> Result<(), String> {
        let message = "rejected".into();
        self.apply(i, &ExecutorEvent::GoalRefused { goal_id, message })
    }

    /// Status and result by UUID.
    pub(super) fn executor_asks_server(&mut self, i: usize) -> Result<(), String> {
        let Some(record) = self.executor.as_ref().and_then(|e| e.records[i].clone()) else {
            return Ok(());
        };
        let Some(open) = record.open_goals().next() else {
            return Ok(());
        };
        let goal_id = open.goal_id;
        match self.server.iter_mut().find(|g| g.goal == goal_id) {
            Some(known) if goal_status::is_terminal(known.status) => {
                let status = known.status;
                self.apply(
                    i,
                    &ExecutorEvent::GoalEnded {
                        goal_id,
                        status,
                        code: 0,
                        message: String::new(),
                    },
                )
            }
            Some(known) => {
                // A cancel that came before the goal is asked for again.
                if record.state == ExecutorState::Canceling {
                    known.status = goal_status::CANCELING;
                }
                Ok(())
            }
            None => self.apply(i, &unknown_goal("/foreign", &goal_id)),
        }
    }

    /// Standstill is measured where nothing moves; what a goal that is still on its way will do can't be.
    pub(super) fn executor_measures(&mut self, i: usize) -> Result<(), String> {
        let resources = &self.wanted[i].resources;
        let moving = self
            .motions
            .iter()
            .any(|m| self.wanted[m.command].resources == *resources);
        if moving {
            return Ok(());
        }
        self.apply(i, &ExecutorEvent::Standstill)
    }

    pub(super) fn executor_gives_up(&mut self, i: usize) -> Result<(), String> {
        let what = "it may move".into();
        self.apply(i, &ExecutorEvent::StopTimeout { what })
    }

    pub(super) fn executor_runs_out_of_time(&mut self, i: usize) -> Result<(), String> {
        self.apply(
            i,
            &ExecutorEvent::Stop(StopCause::Failed {
                error_code: ErrorCode::ExecutionTimeout.code(),
                error_msg: "too long".into(),
            }),
        )
    }

    pub(super) fn stop_is_latched(&mut self, i: usize) -> Result<(), String> {
        self.apply(i, &ExecutorEvent::Stop(StopCause::Stop))
    }

    pub(super) fn executor_is_asked_to_cancel(&mut self, goal: GoalId) -> Result<(), String> {
        let Some(executor) = &self.executor else {
            return Ok(());
        };
        let asked = executor.tasks.iter().position(|t| t.goal == Some(goal));
        match asked {
            Some(i) => self.apply(i, &ExecutorEvent::Stop(StopCause::Caller)),
            None => Ok(()),
        }
    }

    pub(super) fn executor_is_asked(&mut self, i: usize) {
        let Some(executor) = &self.executor else {
            return;
        };
        if self.executor_disk[i].is_some() {
            self.tell_status(i);
        } else {
            let boot = executor.boot;
            self.net.push(Message::NotFound { command: i, boot });
        }
    }

    pub(super) fn executor_is_told(&mut self, i: usize, to: Finality) -> Result<(), String> {
        let Some(executor) = &mut self.executor else {
            return Ok(());
        };
        if executor.records[i].is_none() {
            executor.records[i].clone_from(&self.executor_disk[i]);
        }
        let final_state = match to {
            Finality::Succeeded => FinalState::Succeeded,
            Finality::Failed => FinalState::Failed,
            Finality::Canceled => FinalState::Canceled,
        };
        self.apply(
            i,
            &ExecutorEvent::Settle {
                final_state,
                settled_by: "/h".into(),
                reason: String::new(),
            },
        )?;
        // It is released when it is settled or was never there.
        let released = match &self.executor_disk[i] {
            None => true,
            Some(record) => record.is_terminal(),
        };
        if released {
            self.net.push(Message::Released { command: i });
        }
        Ok(())
    }

    /// A new process takes up what its journal holds.
    pub(super) fn executor_starts(&mut self) -> Result<(), String> {
        self.boots += 1;
        let mut executor = Executor::new(self.boots, self.seconds, self.commands.len());
        for (record, stored) in executor.records.iter_mut().zip(&self.executor_disk) {
            *record = stored.clone().filter(|r| !r.is_terminal());
        }
        let records = executor.records.clone();
        self.executor = Some(executor);
        for (i, record) in records.iter().enumerate() {
            let Some(record) = record else { continue };
            match after_restart(record) {
                RestartPlan::Keep => {}
                RestartPlan::Apply(event) | RestartPlan::Recover { event, .. } => {
                    self.apply(i, &event)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn identify_executor(&self, h: &mut impl Hasher) {
        match &self.executor {
            None => put(h, &[0]),
            Some(executor) => {
                put(h, &[1, u64::from(executor.boot), u64::from(executor.born)]);
                executor.tasks.hash(h);
                for (i, effect) in &executor.effects {
                    put(h, &[*i as u64]);
                    format!("{effect:?}").hash(h);
                }
                // What is in memory is what is on the disk, but for what nothing needs any more.
                for record in &executor.records {
                    put(h, &[u64::from(record.is_some())]);
                }
            }
        }
        put(h, &[u64::from(self.boots)]);
        for record in &self.executor_disk {
            let Some(record) = record else {
                put(h, &[0]);
                continue;
            };
            put(
                h,
                &[
                    u64::from(record.state.to_wire()),
                    u64::from(record.control_end.to_wire()),
                    u64::from(record.stop_stage.to_wire()),
                    record.sequence,
                    u64::from(record.error_code),
                    u64::from(record.started_at.is_never()),
                    record
                        .settlement
                        .as_ref()
                        .map_or(0, |s| u64::from(s.final_state.to_wire())),
                ],
            );
            record.run_id.hash(h);
            record.boot_id.hash(h);
            for goal in &record.sub_goals {
                (goal.goal_id, &goal.name, goal.status, goal.refused).hash(h);
            }
            format!("{:?}", record.stop_cause).hash(h);
        }
    }
}

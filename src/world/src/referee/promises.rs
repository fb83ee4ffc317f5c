//! What a record says must be what happened, and what is promised must be kept: sent once and from the disk, UNKNOWN
//! where nobody knows, success by a verdict only, a bounded number of attempts.

use eh_contract::state::{CommandState, ControlEnd, ExecutorState};
use eh_contract::verdict::Outcome;
use eh_ledger::executor::{goal_status, ExecutorRecord};
use eh_ledger::issuer::{state_name, IssuerRecord};
use serde_json::Value;

use super::Referee;
use crate::clock::STEP;
use crate::context::{HarnessWrite, Outside};
use crate::message::short;
use crate::process_id::ProcessId;
use crate::robot::RobotProcess;

/// Most attempts of one step, as of the harness's defaults.
const ATTEMPTS: u32 = 3;

/// The robot of the world.
const ROBOT: &str = "robot";

impl Referee {
    /// A command is sent once, and its UUID is on the disk before.
    pub(super) fn look_at_dispatches(&mut self, outside: &mut Outside) {
        for sent in outside.witness.take_dispatches() {
            let (id, name) = (&sent.command_id, short(&sent.goal_id));
            if !self.dispatches.insert(sent.goal_id) {
                let what = format!("goal {name} of {id} was sent again");
                self.broken(outside, "a UUID is sent once", what);
            }
            if sent.from.process != ProcessId::Harness {
                continue;
            }
            let kept = outside.disks.harness.durable().iter().any(|w| match w {
                HarnessWrite::Command(r) => r.goals.iter().any(|g| g.goal_id == sent.goal_id),
                HarnessWrite::Task(_) | HarnessWrite::Events(_) => false,
            });
            if !kept {
                let what = format!("goal {name} of {id} was sent and is not in the ledger");
                self.broken(outside, "durable before it is sent", what);
            }
        }
    }

    /// What an executor has written about a command that it takes.
    pub(super) fn look_at_admission(
        &mut self,
        process: ProcessId,
        record: &ExecutorRecord,
        outside: &mut Outside,
        robot: &RobotProcess,
    ) {
        let id = &record.command.command_id;
        if record.command.robot_id != ROBOT {
            let what = format!("{id} is for {:?} and was accepted", record.command.robot_id);
            self.broken(outside, "no start for another robot", what);
        }
        if let Some(reason) = outside.witness.refused_by_scene(id) {
            let what = format!("{id} was accepted although the scene graph said: {reason}");
            self.broken(outside, "no start on what does not hold", what);
        }
        let me = outside.network.address(process);
        let stop = outside.witness.stop_known(me);
        if stop.is_some_and(|since| outside.now > since + STEP) {
            let what = format!("{id} was accepted under a stop that {process} knew of");
            self.broken(outside, "nothing starts under a stop", what);
        }
        // Whoever has just begun may not have been heard of yet.
        let patience = std::time::Duration::from_secs(1)
            + self.conditions.delay
            + self.conditions.slow_delay
            + self.conditions.discovery;
        let since = outside.now.saturating_sub(patience);
        let by_hand = outside.witness.starts().iter().rev().find(|s| {
            s.from.process == ProcessId::Operator
                && s.at < since
                && record.resources.iter().any(|r| r == s.server.resource())
                && robot.running(s.server).any(|g| g == s.goal_id)
        });
        if let Some(start) = by_hand {
            let what = format!(
                "{process} accepted {id} while goal {} of a person runs",
                short(&start.goal_id)
            );
            self.broken(outside, "a goal of others is left alone", what);
        }
    }

    /// What an executor has written about its goals.
    pub(super) fn look_at_goals(
        &mut self,
        record: &ExecutorRecord,
        before: Option<&ExecutorRecord>,
        outside: &mut Outside,
    ) {
        let id = &record.command.command_id;
        for goal in &record.sub_goals {
            let known = before.and_then(|b| b.sub_goal(&goal.goal_id));
            if known.is_some_and(|k| k.is_over()) || !goal.is_over() {
                continue;
            }
            let name = format!("goal {} ({}) of {id}", short(&goal.goal_id), goal.name);
            let started = self.uuids.contains(&goal.goal_id);
            let end = outside.witness.end_of(&goal.goal_id);
            if goal.refused && started {
                let what = format!("{name} is said never to have run, and the robot started it");
                self.broken(outside, "nothing is guessed", what);
            } else if goal_status::is_terminal(goal.status) && end != Some(goal.status) {
                let what = format!(
                    "{name} is said to have ended with {}, in truth: {end:?}",
                    goal.status
                );
                self.broken(outside, "nothing is guessed", what);
            }
        }
    }

    /// An id never changes what it stands for.
    pub(super) fn look_at_identity(
        &mut self,
        record: &ExecutorRecord,
        before: &ExecutorRecord,
        outside: &mut Outside,
    ) {
        let id = &record.command.command_id;
        if before.digest != record.digest {
            let what = format!("{id} stands for another command than before");
            self.broken(outside, "an id stands for one command", what);
        }
        if before.state != ExecutorState::Received && record.state == ExecutorState::Received {
            let what = format!("{id} was {:?} and is received again", before.state);
            self.broken(outside, "the same id gets the same answer", what);
        }
    }

    /// What the issuer says in the end follows from what it was told.
    pub(super) fn look_at_reasons(
        &mut self,
        record: &IssuerRecord,
        was: Option<CommandState>,
        outside: &mut Outside,
    ) {
        let id = record.command_id();
        let by_a_person = !record.settled_by.is_empty();
        let control_end = record.status.as_ref().map(|s| s.control_end);
        // From UNKNOWN it comes by reconciliation, by a person or by what the executor has learned since.
        let lost = control_end == Some(ControlEnd::Lost);
        if lost && !by_a_person && record.state.is_terminal() {
            let what = format!(
                "control of {id} is lost, and it is {} (from {})",
                state_name(record.state),
                was.map_or("nothing", state_name)
            );
            self.broken(outside, "what is lost is UNKNOWN", what);
        }
        if record.state == CommandState::Succeeded && record.evaluated && !by_a_person {
            let ended = record.times.control_ended;
            let confirms = record
                .verdict
                .as_ref()
                .is_some_and(|v| v.outcome == Outcome::Success && v.stamp >= ended);
            if !confirms {
                let what =
                    format!("{id} is SUCCEEDED without a SUCCESS of what came after its end");
                self.broken(outside, "success needs a verdict", what);
            }
        }
        let step = format!(
            "{} {} {}",
            record.command.task_id,
            record.command.skill,
            Value::Object(record.command.arguments.clone())
        );
        match record.state {
            CommandState::Succeeded => {
                self.failures.remove(&step);
            }
            CommandState::Failed if !by_a_person => {
                let failures = self.failures.entry(step).or_default();
                *failures += 1;
                if *failures > ATTEMPTS {
                    let what = format!("{id} is attempt {failures} of the same step");
                    self.broken(outside, "attempts are bounded", what);
                }
            }
            CommandState::Unspecified
            | CommandState::Proposed
            | CommandState::Rejected
            | CommandState::Committed
            | CommandState::Dispatched
            | CommandState::Accepted
            | CommandState::Running
            | CommandState::Evaluating
            | CommandState::Canceling
            | CommandState::Failed
            | CommandState::Canceled
            | CommandState::Unknown
            | CommandState::Reconciling => {}
        }
    }
}

//! What the executors write: starts in time and under the newest token, ends that are true.

use std::time::Duration;

use eh_contract::state::{ControlEnd, ExecutorState, StopStage};
use eh_ledger::executor::ExecutorRecord;

use super::Referee;
use crate::clock::STEP;
use crate::context::Outside;
use crate::process_id::ProcessId;
use crate::robot::RobotProcess;
use crate::truth::moves;

impl Referee {
    pub(super) fn executor_wrote(
        &mut self,
        process: ProcessId,
        record: ExecutorRecord,
        outside: &mut Outside,
        robot: &RobotProcess,
    ) {
        let id = record.command.command_id.clone();
        let key = (process, id.clone());
        let before = self.executed.insert(key, record.clone());
        if let Some(before) = &before {
            if before.is_terminal() && before.state != record.state {
                let what = format!("{id} was {:?} and is {:?}", before.state, record.state);
                self.broken(outside, "terminal states never change", what);
            }
            if record.sequence <= before.sequence {
                let what = format!(
                    "{id} has sequence {} after {}",
                    record.sequence, before.sequence
                );
                self.broken(outside, "sequences grow", what);
            }
        }
        if let Some(before) = &before {
            self.look_at_identity(&record, before, outside);
        }
        self.look_at_goals(&record, before.as_ref(), outside);
        let was = before.map(|b| b.state);
        if record.state == ExecutorState::Accepted && was != Some(ExecutorState::Accepted) {
            self.look_at_token(process, &record, outside);
            self.look_at_admission(process, &record, outside, robot);
        }
        if record.state == ExecutorState::Started && self.started.insert(id) {
            self.look_at_age(&record, outside);
        }
        let ended = record.state == ExecutorState::Ended && was != Some(ExecutorState::Ended);
        // A run that has begun and ended in the same moment was told of, too.
        let base = process == ProcessId::Navigation && record.resources.iter().any(|r| r == "base");
        if ended && base {
            self.last_run = Some(outside.now);
        }
        if ended {
            self.look_at_end(&record, outside, robot);
        }
    }

    /// An executor starts nothing under a token older than the newest that it has heard of.
    fn look_at_token(
        &mut self,
        process: ProcessId,
        record: &ExecutorRecord,
        outside: &mut Outside,
    ) {
        let me = outside.network.address(process);
        let heard = outside.witness.token_heard(me, outside.now);
        let newest = self
            .executed
            .iter()
            .filter(|((p, _), _)| *p == process)
            .map(|(_, r)| r.fencing_token)
            .max()
            .unwrap_or(0)
            .max(heard);
        if record.fencing_token < newest {
            let what = format!(
                "{} was accepted under token {}, the executor had heard of {newest}",
                record.command.command_id, record.fencing_token
            );
            self.broken(outside, "no start under an old token", what);
        }
    }

    /// Nothing starts later than its beacon allows.
    fn look_at_age(&mut self, record: &ExecutorRecord, outside: &mut Outside) {
        let id = &record.command.command_id;
        // The goal that was taken is the one whose token is in the record.
        let latest = outside
            .witness
            .dispatched(id)
            .iter()
            .filter_map(|d| {
                // One that another life told says nothing to this one.
                let beacon = d.beacon.as_ref().filter(|b| b.boot_id == record.boot_id)?;
                let boot = outside.witness.boot(&beacon.boot_id)?;
                Some(boot + beacon.tick + d.start_within)
            })
            .max();
        match latest {
            Some(latest) if outside.now <= latest + STEP => {}
            Some(latest) => {
                let what = format!(
                    "{id} was started {:.2} s after it had expired",
                    (outside.now - latest).as_secs_f64()
                );
                self.broken(outside, "no start after start_within", what);
            }
            None => {
                let what = format!("{id} was started without a beacon of this life");
                self.broken(outside, "no start after start_within", what);
            }
        }
    }

    /// Since when what moves does.
    pub(super) fn note_motion(&mut self, outside: &Outside, robot: &RobotProcess) {
        for server in eh_executor::Server::ALL {
            let resource = server.resource();
            if !moves(resource, robot.robot()) {
                self.moving.remove(resource);
            } else if !self.moving.contains_key(resource) {
                self.moving.insert(resource.to_owned(), outside.now);
            }
        }
    }

    /// How long a measurement of the joints, of which one comes in two steps, may take to whoever needs it.
    fn telling(&self) -> Duration {
        3 * STEP + self.conditions.delay + self.conditions.slow_delay
    }

    /// Control that has ended by a confirmed stop, or is complete, moves nothing any more.
    fn look_at_end(
        &mut self,
        record: &ExecutorRecord,
        outside: &mut Outside,
        robot: &RobotProcess,
    ) {
        let confirmed =
            record.stop_stage == StopStage::Confirmed || record.control_end == ControlEnd::Canceled;
        if !confirmed {
            return;
        }
        let id = &record.command.command_id;
        let runs = eh_executor::Server::ALL
            .iter()
            .any(|s| robot.running(*s).any(|g| record.sub_goal(&g).is_some()));
        if runs {
            let what = format!("a goal of {id} runs, and its stop is confirmed");
            self.broken(outside, "confirmed means standstill", what);
        }
        for resource in &record.resources {
            // What a person moves by hand is not this command's.
            let by_hand = eh_executor::Server::ALL
                .iter()
                .filter(|s| s.resource() == resource)
                .any(|s| robot.running(*s).any(|g| record.sub_goal(&g).is_none()));
            // Fingers that were stuck come free when they like, and of that nobody hears at once.
            let heard_of = |since: &Duration| outside.now - *since > self.telling();
            let moves = self.moving.get(resource).is_some_and(heard_of);
            if !by_hand && moves {
                let velocity = robot.robot().ground_truth().velocity;
                let what = format!(
                    "{resource} moves, and the stop of {id} is confirmed (base {:.4} m/s, {:.4} rad/s)",
                    velocity.linear, velocity.angular
                );
                self.broken(outside, "confirmed means standstill", what);
            }
        }
    }
}

//! Physical starts, as the robot counts them.

use eh_contract::state::ExecutorState;
use eh_ledger::executor::ExecutorRecord;

use super::Referee;
use crate::context::Outside;
use crate::message::short;
use crate::process_id::ProcessId;
use crate::witness::Start;

impl Referee {
    pub(super) fn look_at_starts(&mut self, outside: &mut Outside) {
        for start in outside.witness.new_starts() {
            match start.from.process {
                ProcessId::Navigation | ProcessId::Manipulation => {
                    self.look_at_start(start, outside);
                }
                ProcessId::Robot
                | ProcessId::Protection
                | ProcessId::Scene
                | ProcessId::Evaluator
                | ProcessId::Harness
                | ProcessId::Client
                | ProcessId::Operator
                | ProcessId::Rival => {}
            }
        }
    }

    fn look_at_start(&mut self, start: Start, outside: &mut Outside) {
        let name = short(&start.goal_id);
        if !self.uuids.insert(start.goal_id) {
            let what = format!("goal {name} was started again");
            return self.broken(outside, "one start for each UUID", what);
        }
        let owner = self
            .executed
            .iter()
            .find(|((process, _), record)| {
                *process == start.from.process && record.sub_goal(&start.goal_id).is_some()
            })
            .map(|(_, record)| record.clone());
        let Some(record) = owner else {
            let what = format!("goal {name} was started and is in no journal");
            return self.broken(outside, "durable before it is sent", what);
        };
        let id = record.command.command_id.clone();
        self.owners.insert(start.goal_id, id.clone());
        let sub_goal = record.sub_goal(&start.goal_id);
        let (segment, step) = sub_goal.map_or((0, String::new()), |g| (g.segment, g.name.clone()));
        if !self.sub_goals.insert((id.clone(), segment, step.clone())) {
            let what = format!("{step} of segment {segment} of {id} was started again");
            self.broken(outside, "one start for each sub-goal", what);
        }
        self.look_at_holders(start, &record, outside);
        // What was sent before the stop was heard of may arrive as late as this.
        let patience =
            self.conditions.slow_delay + self.conditions.delay + std::time::Duration::from_secs(1);
        if let Some(since) = outside.witness.stop_known(start.from) {
            if start.at > since + patience {
                let what = format!("goal {name} ({step}) of {id} was started under a latched stop");
                self.broken(outside, "nothing starts under a stop", what);
            }
        }
        let over = match record.state {
            // A goal that was given up on its way may still arrive: that is why these are UNKNOWN.
            ExecutorState::Started | ExecutorState::Canceling => false,
            ExecutorState::Ended | ExecutorState::Settled => {
                record.stop_stage == eh_contract::state::StopStage::Confirmed
            }
            ExecutorState::Unspecified
            | ExecutorState::Received
            | ExecutorState::Rejected
            | ExecutorState::Accepted => true,
        };
        if over {
            let what = format!(
                "goal {name} ({step}) of {id} was started, and its executor has it as {:?}/{:?}",
                record.state, record.control_end
            );
            self.broken(outside, "no start after the end", what);
        }
    }

    /// Nobody else holds what is about to move.
    fn look_at_holders(&mut self, start: Start, record: &ExecutorRecord, outside: &mut Outside) {
        let resource = start.server.resource();
        let id = &record.command.command_id;
        let other = self
            .executed
            .values()
            .find(|r| {
                r.command.command_id != *id
                    && claims(r.state)
                    && r.resources.iter().any(|held| held == resource)
            })
            .map(|r| format!("{} ({:?})", r.command.command_id, r.state));
        let unknown = self
            .issued
            .values()
            .find(|i| {
                let r = &i.record;
                r.command_id() != id
                    && self.is_unknown(r.command_id())
                    && r.resources.iter().any(|held| held == resource)
            })
            .map(|i| format!("{} (UNKNOWN)", i.record.command_id()));
        if let Some(holder) = other.or(unknown) {
            let what = format!("{resource} was moved for {id} while {holder} holds it");
            self.broken(outside, "what is held is left alone", what);
        }
    }
}

/// Whether a command claims its resources in this state: written again here, so that the referee does not
/// believe whom it judges.
const fn claims(state: ExecutorState) -> bool {
    match state {
        ExecutorState::Accepted
        | ExecutorState::Started
        | ExecutorState::Canceling
        | ExecutorState::Ended => true,
        ExecutorState::Unspecified
        | ExecutorState::Received
        | ExecutorState::Rejected
        | ExecutorState::Settled => false,
    }
}

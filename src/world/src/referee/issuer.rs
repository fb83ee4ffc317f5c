//! What the issuer writes: final states that are true and stay.

use eh_contract::state::CommandState;
use eh_contract::verdict::Outcome;
use eh_ledger::issuer::{state_name, IssuerRecord};

use super::{Issued, Referee};
use crate::context::Outside;
use crate::robot::RobotProcess;
use crate::truth::effect_holds;

impl Referee {
    pub(super) fn issuer_wrote(
        &mut self,
        record: IssuerRecord,
        outside: &mut Outside,
        robot: &RobotProcess,
    ) {
        let id = record.command_id().to_owned();
        let before = self.issued.get(&id);
        let was = before.map(|b| b.record.state);
        if let Some(before) = before {
            if before.record.state.is_terminal() && before.record.state != record.state {
                let what = format!(
                    "{id} was {} and is {}",
                    state_name(before.record.state),
                    state_name(record.state)
                );
                self.broken(outside, "terminal states never change", what);
            }
        }
        let held = self.issued.get(&id).is_some_and(|b| b.held);
        let state = record.state;
        let record_copy = record.clone();
        self.issued.insert(id, Issued { record, held });
        if was != Some(state) && state.is_terminal() {
            self.look_at_reasons(&record_copy, was, outside);
            self.look_at_final_state(&record_copy, held, outside, robot);
        }
    }

    fn look_at_final_state(
        &mut self,
        record: &IssuerRecord,
        held: bool,
        outside: &mut Outside,
        robot: &RobotProcess,
    ) {
        let id = record.command_id();
        let is_done = held || effect_holds(&record.command, robot.robot());
        let checked = matches!(
            record.command.skill.as_str(),
            "pick" | "place" | "navigate_to" | "open_gripper" | "stow"
        );
        let started = self.owners.values().any(|owner| owner == id);
        match record.state {
            CommandState::Succeeded if checked && !is_done => {
                let what = format!("{} {id} is SUCCEEDED and is not done", record.command.skill);
                self.broken(outside, "no false final state", what);
            }
            CommandState::Rejected if started => {
                let what = format!("{} {id} is REJECTED and was started", record.command.skill);
                self.broken(outside, "no false final state", what);
            }
            CommandState::Failed => {
                let judged = record.verdict.as_ref().map(|v| v.outcome);
                let really = effect_holds(&record.command, robot.robot());
                if checked && really && judged == Some(Outcome::Failure) {
                    self.pessimistic += 1;
                }
                self.look_at_rest(record, outside, robot);
            }
            CommandState::Canceled => self.look_at_rest(record, outside, robot),
            CommandState::Unspecified
            | CommandState::Proposed
            | CommandState::Rejected
            | CommandState::Committed
            | CommandState::Dispatched
            | CommandState::Accepted
            | CommandState::Running
            | CommandState::Evaluating
            | CommandState::Canceling
            | CommandState::Succeeded
            | CommandState::Unknown
            | CommandState::Reconciling => {}
        }
    }

    /// A command that is over has no goal that runs.
    fn look_at_rest(&mut self, record: &IssuerRecord, outside: &mut Outside, robot: &RobotProcess) {
        let id = record.command_id();
        let runs = eh_executor::Server::ALL.iter().any(|s| {
            robot
                .running(*s)
                .any(|g| self.owners.get(&g).is_some_and(|o| o == id))
        });
        if runs {
            let what = format!(
                "{} {id} is {} and a goal of it runs",
                record.command.skill,
                state_name(record.state)
            );
            self.broken(outside, "no false final state", what);
        }
    }

    /// Remembers of commands that are being judged whether their effect was ever there: what is lost later
    /// does not make a verdict false.
    pub(super) fn remember_effects(&mut self, robot: &RobotProcess) {
        for issued in self.issued.values_mut() {
            let judged = matches!(
                issued.record.state,
                CommandState::Running | CommandState::Evaluating | CommandState::Canceling
            );
            if judged && !issued.held {
                issued.held = effect_holds(&issued.record.command, robot.robot());
            }
        }
    }
}

//! States of issuer and executor as they are stored and sent. The rules that move them are in
//! `eh_ledger`.

use serde::{Deserialize, Serialize};

/// Makes a stored enum with the numbers of its message constants.
macro_rules! wire_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $number:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "SCREAMING_SNAKE_CASE")]
        pub enum $name { $($(#[$vdoc])* $variant = $number,)+ }

        impl $name {
            /// Every value in the order of its numbers.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// The number in messages.
            pub const fn to_wire(self) -> u8 { self as u8 }

            /// The value of a number in a message; `None` for a number that no constant has.
            pub const fn from_wire(number: u8) -> Option<Self> {
                match number { $($number => Some($name::$variant),)+ _ => None }
            }
        }
    };
}

wire_enum! {
    /// A command as its issuer sees it (QueryCommand `COMMAND_*`).
    CommandState {
        /// Not filled.
        #[default]
        Unspecified = 0,
        /// Wanted by a planner, not yet checked.
        Proposed = 1,
        /// Refused or expired; nothing was started. Terminal.
        Rejected = 2,
        /// Checked and durable, not yet sent.
        Committed = 3,
        /// Its goal's UUID is durable and it may have been sent.
        Dispatched = 4,
        /// The executor acknowledged it.
        Accepted = 5,
        /// The executor has started it.
        Running = 6,
        /// Control has ended; the evaluator is being asked.
        Evaluating = 7,
        /// A cancel was asked; standstill is not confirmed yet.
        Canceling = 8,
        /// A SUCCESS verdict. Terminal.
        Succeeded = 9,
        /// A FAILURE verdict, or control failed and the effect did not happen. Terminal.
        Failed = 10,
        /// Never sent, or all goals terminal and standstill measured. Terminal.
        Canceled = 11,
        /// Not known; holds its resources until it is settled.
        Unknown = 12,
        /// Being worked off.
        Reconciling = 13,
    }
}

impl CommandState {
    /// True for a state that never changes again.
    pub const fn is_terminal(self) -> bool {
        match self {
            CommandState::Rejected
            | CommandState::Succeeded
            | CommandState::Failed
            | CommandState::Canceled => true,
            CommandState::Unspecified
            | CommandState::Proposed
            | CommandState::Committed
            | CommandState::Dispatched
            | CommandState::Accepted
            | CommandState::Running
            | CommandState::Evaluating
            | CommandState::Canceling
            | CommandState::Unknown
            | CommandState::Reconciling => false,
        }
    }
}

wire_enum! {
    /// A command as its executor sees it (SkillStatus `STATE_*`).
    ExecutorState {
        /// Not filled.
        #[default]
        Unspecified = 0,
        /// Journaled, not yet decided.
        Received = 1,
        /// Refused; nothing was started. Terminal for the executor.
        Rejected = 2,
        /// Will start; holds its resources.
        Accepted = 3,
        /// At least one goal may have been sent.
        Started = 4,
        /// A cancel was asked; standstill is not confirmed yet.
        Canceling = 5,
        /// Control has ended; resources are still held.
        Ended = 6,
        /// The issuer or a person said what became of it; resources are free. Terminal.
        Settled = 7,
    }
}

impl ExecutorState {
    /// True while a command in this state keeps others from its resources: from ACCEPTED until it is settled.
    pub const fn holds_resources(self) -> bool {
        match self {
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
}

wire_enum! {
    /// How control ended (SkillStatus `END_*`).
    ControlEnd {
        /// It has not.
        #[default]
        None = 0,
        /// Every sub-goal reported success.
        Completed = 1,
        /// A sub-goal failed or timed out, and everything stands still.
        Aborted = 2,
        /// Canceled, all goals terminal, standstill measured.
        Canceled = 3,
        /// A goal that is not ours displaced one of ours.
        Preempted = 4,
        /// It can't be learned how it ended.
        Lost = 5,
    }
}

wire_enum! {
    /// Stage of a stop (SkillStatus `STOP_*`).
    StopStage {
        /// No stop was asked.
        #[default]
        None = 0,
        /// Asked.
        Requested = 1,
        /// The part that has to stop has the request.
        Received = 2,
        /// Standstill was measured.
        Confirmed = 3,
        /// Standstill was not measured in time.
        Unconfirmed = 4,
    }
}

wire_enum! {
    /// How a task ended (ExecuteTask `OUTCOME_*`).
    TaskOutcome {
        /// It has not.
        #[default]
        Unspecified = 0,
        /// Every goal was confirmed by verdicts.
        Succeeded = 1,
        /// It can't be done, or attempts or budgets are used up.
        Failed = 2,
        /// Canceled, standstill measured.
        Canceled = 3,
        /// Nothing was started.
        Rejected = 4,
        /// A command could not be settled.
        Unknown = 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_the_wire_and_others_are_refused() {
        for s in CommandState::ALL {
            assert_eq!(CommandState::from_wire(s.to_wire()), Some(*s));
        }
        assert_eq!(CommandState::from_wire(200), None);
        assert_eq!(ExecutorState::from_wire(8), None);
    }
}

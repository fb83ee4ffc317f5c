//! Start and end of a run, told by the executor itself; field by field in `msg/RunEvent.msg`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::command::TargetBinding;
use crate::time::Stamp;

/// What happened (RunEvent `EVENT_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RunEventKind {
    /// Not filled.
    #[default]
    Unspecified,
    /// Before the first goal is sent.
    Start,
    /// Control of a segment has ended and another may follow.
    SegmentEnd,
    /// Control has ended.
    End,
}

impl RunEventKind {
    /// The number in messages.
    pub const fn to_wire(self) -> u8 {
        self as u8
    }

    /// The value of a number in a message; `None` for a number that no constant has.
    pub const fn from_wire(number: u8) -> Option<Self> {
        match number {
            0 => Some(RunEventKind::Unspecified),
            1 => Some(RunEventKind::Start),
            2 => Some(RunEventKind::SegmentEnd),
            3 => Some(RunEventKind::End),
            _ => None,
        }
    }
}

/// One event of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunEvent {
    /// What happened.
    pub event: RunEventKind,
    /// When.
    pub stamp: Stamp,
    /// Node name of the executor.
    pub executor: String,
    /// One process life of it.
    pub boot_id: String,
    /// Robot that moves.
    pub robot_id: String,
    /// The command.
    pub command_id: String,
    /// The run.
    pub run_id: String,
    /// Segment, from 0.
    pub segment: u32,
    /// Counts the events of the command.
    pub sequence: u64,
    /// The skill.
    pub skill: String,
    /// Version of its contract.
    pub skill_version: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
    /// Arguments that name scene objects.
    pub targets: Vec<TargetBinding>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_survive_the_wire() {
        for n in 0..4 {
            assert_eq!(
                RunEventKind::from_wire(n).map(RunEventKind::to_wire),
                Some(n)
            );
        }
        assert_eq!(RunEventKind::from_wire(4), None);
    }
}

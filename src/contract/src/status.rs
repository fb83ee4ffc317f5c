//! The executor's view of one command, as it stands in feedback, in `skill_status` and in query answers.

use serde::{Deserialize, Serialize};

use crate::state::{ControlEnd, ExecutorState, StopStage};
use crate::time::Stamp;

/// How a foreign action ended, in its own terms; field by field in `msg/NativeOutcome.msg`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NativeOutcome {
    /// Resolved action name; empty: no foreign goal was sent.
    pub action_name: String,
    /// UUID of the goal; all zero: none.
    pub goal_id: [u8; 16],
    /// `action_msgs/GoalStatus` of the goal; 0 when it could not be learned.
    pub status: i8,
    /// The server's own error code.
    pub code: i32,
    /// The server's own message, or ours when it has none.
    pub message: String,
}

/// The executor's view of one command; field by field in `msg/SkillStatus.msg`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SkillStatus {
    /// Node name of the executor.
    pub executor: String,
    /// One process life of it.
    pub boot_id: String,
    /// The command.
    pub command_id: String,
    /// Its task; empty for none.
    pub task_id: String,
    /// Its skill.
    pub skill: String,
    /// Its run; empty before [`ExecutorState::Started`].
    pub run_id: String,
    /// Where it is.
    pub state: ExecutorState,
    /// How control ended.
    pub control_end: ControlEnd,
    /// How far a stop has come.
    pub stop_stage: StopStage,
    /// Counts the events of this command at this executor from 1.
    pub sequence: u64,
    /// Segment, from 0.
    pub segment: u32,
    /// Current sub-goal; empty for none.
    pub sub_goal: String,
    /// Part of the work that is done, 0 to 1; `None`: not known (NaN in the message).
    pub progress: Option<f64>,
    /// Resources held at the moment.
    pub resources: Vec<String>,
    /// Error code of ExecuteSkill; 0 for none.
    pub error_code: u16,
    /// What happened, the limit, what to do; empty for none.
    pub error_msg: String,
    /// The last foreign goal.
    pub native_outcome: NativeOutcome,
    /// Key times; [`Stamp::NEVER`] where not yet.
    pub received_at: Stamp,
    /// First goal sent.
    pub started_at: Stamp,
    /// Cancel asked.
    pub cancel_requested_at: Stamp,
    /// Standstill measured.
    pub stop_confirmed_at: Stamp,
    /// Control ended.
    pub ended_at: Stamp,
}

impl Default for SkillStatus {
    fn default() -> Self {
        SkillStatus {
            executor: String::new(),
            boot_id: String::new(),
            command_id: String::new(),
            task_id: String::new(),
            skill: String::new(),
            run_id: String::new(),
            state: ExecutorState::Unspecified,
            control_end: ControlEnd::None,
            stop_stage: StopStage::None,
            sequence: 0,
            segment: 0,
            sub_goal: String::new(),
            progress: None,
            resources: Vec::new(),
            error_code: 0,
            error_msg: String::new(),
            native_outcome: NativeOutcome::default(),
            received_at: Stamp::NEVER,
            started_at: Stamp::NEVER,
            cancel_requested_at: Stamp::NEVER,
            stop_confirmed_at: Stamp::NEVER,
            ended_at: Stamp::NEVER,
        }
    }
}

impl SkillStatus {
    /// True when control has ended, whatever became of the world.
    pub const fn has_ended(&self) -> bool {
        match self.state {
            ExecutorState::Ended | ExecutorState::Settled => true,
            ExecutorState::Unspecified
            | ExecutorState::Received
            | ExecutorState::Rejected
            | ExecutorState::Accepted
            | ExecutorState::Started
            | ExecutorState::Canceling => false,
        }
    }

    /// True when standstill of everything that the command claimed was measured.
    pub fn stop_confirmed(&self) -> bool {
        self.stop_stage == StopStage::Confirmed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_survives_json_and_missing_fields_are_the_defaults() {
        let status = SkillStatus {
            command_id: "c1".into(),
            state: ExecutorState::Ended,
            control_end: ControlEnd::Canceled,
            progress: Some(0.5),
            ..SkillStatus::default()
        };
        let text = serde_json::to_string(&status).unwrap();
        assert_eq!(serde_json::from_str::<SkillStatus>(&text).unwrap(), status);
        assert!(status.has_ended());
        let sparse: SkillStatus = serde_json::from_str("{}").unwrap();
        assert_eq!(sparse, SkillStatus::default());
    }
}

//! Session events and step reports to and from their messages.

use std::time::Duration;

use eh_contract::session::{SessionEvent, StepReport};
use eh_contract::state::CommandState;
use eh_contract::verdict::Outcome;
use ros_env::embodied_harness::msg::{
    SessionEvent as SessionEventMsg, StepReport as StepReportMsg,
};

use super::command::{budget, budget_msg, json_text, json_value, stamp_msg};
use super::ConvertError;

/// Seconds as a duration; what is not finite or negative counts as zero.
fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value).unwrap_or(Duration::ZERO)
}

/// A step as a message.
pub fn step_msg(step: &StepReport) -> StepReportMsg {
    StepReportMsg {
        step: step.step,
        skill: step.skill.clone(),
        arguments_json: json_text(&step.arguments),
        reason: step.reason.clone(),
        command_id: step.command_id.clone(),
        run_id: step.run_id.clone(),
        command_state: step.command_state.to_wire(),
        verdict: step.verdict.map_or(0, Outcome::to_wire),
        verdict_reason: step.verdict_reason.clone(),
        evidence: step.evidence.clone(),
        error_code: step.error_code,
        error_msg: step.error_msg.clone(),
        duration: budget_msg(seconds(step.duration)),
    }
}

/// Reads a step.
///
/// # Errors
/// [`ConvertError::Field`] when its arguments are no JSON or its state is no state.
pub fn step(message: &StepReportMsg) -> Result<StepReport, ConvertError> {
    Ok(StepReport {
        step: message.step,
        skill: message.skill.clone(),
        arguments: json_value("arguments_json", &message.arguments_json)?,
        reason: message.reason.clone(),
        command_id: message.command_id.clone(),
        run_id: message.run_id.clone(),
        command_state: CommandState::from_wire(message.command_state).ok_or_else(|| {
            ConvertError::Field {
                field: "command_state".into(),
                reason: format!("{} is no COMMAND_* constant", message.command_state),
            }
        })?,
        verdict: Outcome::from_wire(message.verdict),
        verdict_reason: message.verdict_reason.clone(),
        evidence: message.evidence.clone(),
        measured: Vec::new(),
        error_code: message.error_code,
        error_msg: message.error_msg.clone(),
        duration: budget(&message.duration).as_secs_f64(),
    })
}

/// An event of a session as a message.
pub fn session_event_msg(event: &SessionEvent) -> SessionEventMsg {
    SessionEventMsg {
        robot_id: event.robot_id.clone(),
        task_id: event.task_id.clone(),
        command_id: event.command_id.clone(),
        run_id: event.run_id.clone(),
        plan_version: event.plan_version,
        sequence: event.sequence,
        stamp: stamp_msg(event.stamp),
        kind: event.kind.name().into(),
        text: event.text.clone(),
        payload_json: json_text(&event.payload),
        model_version: event.model_version.clone(),
        config_version: event.config_version.clone(),
        evidence: event.evidence.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_step_survives_the_wire() {
        let step_report = StepReport {
            step: 3,
            skill: "pick".into(),
            arguments: json!({"object": "cup_1"}),
            reason: "because".into(),
            command_id: "c1".into(),
            run_id: "r1".into(),
            command_state: CommandState::Failed,
            verdict: Some(Outcome::Failure),
            verdict_reason: "the gripper is empty".into(),
            evidence: vec!["gap 0.001 m".into()],
            measured: Vec::new(),
            error_code: 10305,
            error_msg: "x".into(),
            duration: 2.5,
        };
        assert_eq!(step(&step_msg(&step_report)), Ok(step_report.clone()));
        let odd = StepReport {
            duration: f64::NAN,
            verdict: None,
            ..step_report
        };
        let back = step(&step_msg(&odd)).unwrap();
        assert_eq!((back.duration, back.verdict), (0.0, None));
        let bad = StepReportMsg {
            command_state: 99,
            ..step_msg(&back)
        };
        assert!(step(&bad).is_err());
    }
}

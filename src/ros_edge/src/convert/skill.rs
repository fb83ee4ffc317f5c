//! Descriptors, catalogs, statuses and run events to and from their messages.

use std::time::Duration;

use eh_contract::condition::{Effects, Template};
use eh_contract::run_event::{RunEvent, RunEventKind};
use eh_contract::skill::{DisconnectPolicy, FailureMode, Risk, SkillDescriptor};
use eh_contract::state::{ControlEnd, ExecutorState, StopStage};
use eh_contract::status::{NativeOutcome, SkillStatus};
use ros_env::embodied_harness::msg::{
    FailureMode as FailureModeMsg, NativeOutcome as NativeOutcomeMsg, RunEvent as RunEventMsg,
    SkillDescriptor as SkillDescriptorMsg, SkillStatus as SkillStatusMsg,
};
use serde_json::Value;
use uuid::Uuid;

use super::command::{
    budget, budget_msg, json_object, json_text, json_value, stamp, stamp_msg, target, target_msg,
};
use super::{uuid_from, uuid_msg, ConvertError};

fn bad(field: &str, reason: impl Into<String>) -> ConvertError {
    ConvertError::Field {
        field: field.into(),
        reason: reason.into(),
    }
}

fn template(field: &str, text: &str) -> Result<Template, ConvertError> {
    Template::parse(text).map_err(|e| bad(field, e.to_string()))
}

fn template_text(template: &Template) -> String {
    if template.is_empty() {
        String::new()
    } else {
        template.value().to_string()
    }
}

/// The number of a disconnect policy.
pub const fn disconnect_policy_wire(policy: DisconnectPolicy) -> u8 {
    match policy {
        DisconnectPolicy::Finish => 0,
        DisconnectPolicy::Hold => 1,
        DisconnectPolicy::Stop => 2,
    }
}

/// Reads a descriptor. Call [`SkillDescriptor::check`] before it is used.
///
/// # Errors
/// [`ConvertError::Field`] that names what can't be read.
pub fn descriptor(message: &SkillDescriptorMsg) -> Result<SkillDescriptor, ConvertError> {
    let seconds = |d| budget(d).as_secs_f64();
    Ok(SkillDescriptor {
        name: message.name.clone(),
        version: message.version.clone(),
        description: message.description.clone(),
        action_name: message.action_name.clone(),
        arguments_schema: json_value("arguments_schema", &message.arguments_schema)?,
        preconditions: template("preconditions_json", &message.preconditions_json)?,
        effects: Effects::parse(&message.effects_json)
            .map_err(|e| bad("effects_json", e.to_string()))?,
        postcondition_text: message.postcondition_text.clone(),
        postcondition: template("postcondition_json", &message.postcondition_json)?,
        progress_meaning: message.progress_meaning.clone(),
        progress_rate: message.progress_rate,
        failure_modes: message
            .failure_modes
            .iter()
            .map(|m| FailureMode {
                error_code: m.error_code,
                name: m.name.clone(),
                description: m.description.clone(),
                recoverable: m.recoverable,
            })
            .collect(),
        resources: message.resources.clone(),
        permission: message.permission.clone(),
        risk: match message.risk {
            SkillDescriptorMsg::RISK_REVERSIBLE => Risk::Reversible,
            SkillDescriptorMsg::RISK_IRREVERSIBLE => Risk::Irreversible,
            other => return Err(bad("risk", format!("it is {other}; use a RISK_* constant"))),
        },
        evaluated: message.evaluated,
        segmented: message.segmented,
        max_segments: message.max_segments,
        nominal_duration: seconds(&message.nominal_duration),
        maximum_duration: seconds(&message.maximum_duration),
        embodiment: json_value("embodiment_json", &message.embodiment_json)?,
        disconnect_policy: match message.disconnect_policy {
            SkillDescriptorMsg::DISCONNECT_FINISH => DisconnectPolicy::Finish,
            SkillDescriptorMsg::DISCONNECT_HOLD => DisconnectPolicy::Hold,
            SkillDescriptorMsg::DISCONNECT_STOP => DisconnectPolicy::Stop,
            other => {
                return Err(bad(
                    "disconnect_policy",
                    format!("it is {other}; use a DISCONNECT_* constant"),
                ))
            }
        },
        foreign_actions: message.foreign_actions.clone(),
    })
}

/// A descriptor as a message.
pub fn descriptor_msg(descriptor: &SkillDescriptor) -> SkillDescriptorMsg {
    let duration = |s: f64| budget_msg(Duration::try_from_secs_f64(s).unwrap_or(Duration::ZERO));
    let effects = if descriptor.effects.add.is_empty() && descriptor.effects.remove.is_empty() {
        String::new()
    } else {
        // Templates are JSON already: this can't fail, and no effects are the safe answer.
        serde_json::to_string(&descriptor.effects).unwrap_or_default()
    };
    SkillDescriptorMsg {
        name: descriptor.name.clone(),
        version: descriptor.version.clone(),
        description: descriptor.description.clone(),
        action_name: descriptor.action_name.clone(),
        arguments_schema: json_text(&descriptor.arguments_schema),
        preconditions_json: template_text(&descriptor.preconditions),
        effects_json: effects,
        postcondition_text: descriptor.postcondition_text.clone(),
        postcondition_json: template_text(&descriptor.postcondition),
        progress_meaning: descriptor.progress_meaning.clone(),
        progress_rate: descriptor.progress_rate,
        failure_modes: descriptor
            .failure_modes
            .iter()
            .map(|m| FailureModeMsg {
                error_code: m.error_code,
                name: m.name.clone(),
                description: m.description.clone(),
                recoverable: m.recoverable,
            })
            .collect(),
        resources: descriptor.resources.clone(),
        permission: descriptor.permission.clone(),
        risk: match descriptor.risk {
            Risk::Reversible => SkillDescriptorMsg::RISK_REVERSIBLE,
            Risk::Irreversible => SkillDescriptorMsg::RISK_IRREVERSIBLE,
        },
        evaluated: descriptor.evaluated,
        segmented: descriptor.segmented,
        max_segments: descriptor.max_segments,
        nominal_duration: duration(descriptor.nominal_duration),
        maximum_duration: duration(descriptor.maximum_duration),
        embodiment_json: json_text(&descriptor.embodiment),
        disconnect_policy: disconnect_policy_wire(descriptor.disconnect_policy),
        foreign_actions: descriptor.foreign_actions.clone(),
    }
}

/// How a foreign goal ended.
pub fn native_outcome(message: &NativeOutcomeMsg) -> NativeOutcome {
    NativeOutcome {
        action_name: message.action_name.clone(),
        goal_id: uuid_from(&message.goal_id).into_bytes(),
        status: message.status,
        code: message.code,
        message: message.message.clone(),
    }
}

/// How a foreign goal ended, as a message.
pub fn native_outcome_msg(outcome: &NativeOutcome) -> NativeOutcomeMsg {
    NativeOutcomeMsg {
        action_name: outcome.action_name.clone(),
        goal_id: uuid_msg(Uuid::from_bytes(outcome.goal_id)),
        status: outcome.status,
        code: outcome.code,
        message: outcome.message.clone(),
    }
}

/// Reads a status.
///
/// # Errors
/// [`ConvertError::Field`] for a state, an end or a stage that no constant has.
pub fn status(message: &SkillStatusMsg) -> Result<SkillStatus, ConvertError> {
    let unknown = |field: &str, n: u8| bad(field, format!("it is {n}, which no constant has"));
    Ok(SkillStatus {
        executor: message.executor.clone(),
        boot_id: message.boot_id.clone(),
        command_id: message.command_id.clone(),
        task_id: message.task_id.clone(),
        skill: message.skill.clone(),
        run_id: message.run_id.clone(),
        state: ExecutorState::from_wire(message.state)
            .ok_or_else(|| unknown("state", message.state))?,
        control_end: ControlEnd::from_wire(message.control_end)
            .ok_or_else(|| unknown("control_end", message.control_end))?,
        stop_stage: StopStage::from_wire(message.stop_stage)
            .ok_or_else(|| unknown("stop_stage", message.stop_stage))?,
        sequence: message.sequence,
        segment: message.segment,
        sub_goal: message.sub_goal.clone(),
        progress: message.progress.is_finite().then_some(message.progress),
        resources: message.resources.clone(),
        error_code: message.error_code,
        error_msg: message.error_msg.clone(),
        native_outcome: native_outcome(&message.native_outcome),
        received_at: stamp(&message.received_at),
        started_at: stamp(&message.started_at),
        cancel_requested_at: stamp(&message.cancel_requested_at),
        stop_confirmed_at: stamp(&message.stop_confirmed_at),
        ended_at: stamp(&message.ended_at),
    })
}

/// A status as a message.
pub fn status_msg(status: &SkillStatus) -> SkillStatusMsg {
    SkillStatusMsg {
        executor: status.executor.clone(),
        boot_id: status.boot_id.clone(),
        command_id: status.command_id.clone(),
        task_id: status.task_id.clone(),
        skill: status.skill.clone(),
        run_id: status.run_id.clone(),
        state: status.state.to_wire(),
        control_end: status.control_end.to_wire(),
        stop_stage: status.stop_stage.to_wire(),
        sequence: status.sequence,
        segment: status.segment,
        sub_goal: status.sub_goal.clone(),
        progress: status.progress.unwrap_or(f64::NAN),
        resources: status.resources.clone(),
        error_code: status.error_code,
        error_msg: status.error_msg.clone(),
        native_outcome: native_outcome_msg(&status.native_outcome),
        received_at: stamp_msg(status.received_at),
        started_at: stamp_msg(status.started_at),
        cancel_requested_at: stamp_msg(status.cancel_requested_at),
        stop_confirmed_at: stamp_msg(status.stop_confirmed_at),
        ended_at: stamp_msg(status.ended_at),
    }
}

/// Reads a run event.
///
/// # Errors
/// [`ConvertError::Field`] that names what can't be read.
pub fn run_event(message: &RunEventMsg) -> Result<RunEvent, ConvertError> {
    Ok(RunEvent {
        event: RunEventKind::from_wire(message.event).ok_or_else(|| {
            bad(
                "event",
                format!("it is {}, which no constant has", message.event),
            )
        })?,
        stamp: stamp(&message.stamp),
        executor: message.executor.clone(),
        boot_id: message.boot_id.clone(),
        robot_id: message.robot_id.clone(),
        command_id: message.command_id.clone(),
        run_id: message.run_id.clone(),
        segment: message.segment,
        sequence: message.sequence,
        skill: message.skill.clone(),
        skill_version: message.skill_version.clone(),
        arguments: json_object("arguments_json", &message.arguments_json)?,
        targets: message
            .targets
            .iter()
            .map(target)
            .collect::<Result<_, _>>()?,
    })
}

/// A run event as a message.
pub fn run_event_msg(event: &RunEvent) -> RunEventMsg {
    RunEventMsg {
        event: event.event.to_wire(),
        stamp: stamp_msg(event.stamp),
        executor: event.executor.clone(),
        boot_id: event.boot_id.clone(),
        robot_id: event.robot_id.clone(),
        command_id: event.command_id.clone(),
        run_id: event.run_id.clone(),
        segment: event.segment,
        sequence: event.sequence,
        skill: event.skill.clone(),
        skill_version: event.skill_version.clone(),
        arguments_json: Value::Object(event.arguments.clone()).to_string(),
        targets: event.targets.iter().map(target_msg).collect(),
    }
}

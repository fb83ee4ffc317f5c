//! What only this node says and hears, to and from messages.

use eh_contract::scene::SceneSnapshot;
use eh_contract::session::TaskRecord;
use eh_contract::state::TaskOutcome;
use eh_contract::{ErrorCode, Stamp};
use eh_harness::effect::{HumanRequest, TaskFeedback};
use eh_harness::surroundings::{Catalog, StopView};
use eh_ledger::issuer::IssuerRecord;
use eh_ros_edge::convert::command::{budget_msg, stamp_msg};
use eh_ros_edge::convert::{scene, skill, task, ConvertError};
use eh_ros_edge::GoalEnd;
use ros_env::embodied_harness::action::{ExecuteTask_Feedback, ExecuteTask_Result};
use ros_env::embodied_harness::msg::{
    HumanRequest as HumanRequestMsg, ProtectionState, SkillCatalog, SkillStatus as SkillStatusMsg,
    StepReport,
};
use ros_env::embodied_harness::srv::{
    QueryCommand_Response, QueryScene_Response, QueryTask_Response,
};
use std::time::Duration;

fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value).unwrap_or(Duration::ZERO)
}

/// A status that says nothing: its progress is not known.
fn no_status() -> SkillStatusMsg {
    SkillStatusMsg {
        progress: f64::NAN,
        ..SkillStatusMsg::default()
    }
}

/// Feedback of `execute_task`.
pub(crate) fn feedback_msg(feedback: &TaskFeedback) -> ExecuteTask_Feedback {
    ExecuteTask_Feedback {
        task_id: feedback.task_id.clone(),
        step: feedback.step,
        max_steps: feedback.max_steps,
        phase: feedback.phase.to_wire(),
        text: feedback.text.clone(),
        command_id: feedback.command_id.clone(),
        skill: feedback.skill.clone(),
        command_state: feedback.command_state.to_wire(),
        skill_status: feedback
            .status
            .as_ref()
            .map_or_else(no_status, skill::status_msg),
        finished_step: feedback
            .finished_step
            .as_ref()
            .map_or_else(StepReport::default, task::step_msg),
        elapsed: budget_msg(feedback.elapsed),
        remaining: budget_msg(feedback.remaining),
    }
}

/// The end of a goal of `execute_task`, by the table in its definition.
pub(crate) fn goal_end(record: &TaskRecord) -> GoalEnd<ExecuteTask_Result> {
    let result = ExecuteTask_Result {
        error_code: record.error_code,
        error_msg: record.error_msg.clone(),
        task_id: record.request.task_id.clone(),
        outcome: record.outcome.to_wire(),
        summary: record.summary.clone(),
        steps: record.steps.iter().map(task::step_msg).collect(),
        total_elapsed_time: budget_msg(seconds(record.elapsed)),
    };
    match record.outcome {
        TaskOutcome::Succeeded => GoalEnd::Succeeded(result),
        TaskOutcome::Canceled => GoalEnd::Canceled(result),
        TaskOutcome::Unspecified
        | TaskOutcome::Failed
        | TaskOutcome::Rejected
        | TaskOutcome::Unknown => GoalEnd::Aborted(result),
    }
}

/// The result when the loop ended without telling.
pub(crate) fn gone() -> ExecuteTask_Result {
    ExecuteTask_Result {
        error_code: ErrorCode::TaskShuttingDown.code(),
        error_msg: "the harness has ended; ask query_task for this task when it is back".into(),
        outcome: TaskOutcome::Failed.to_wire(),
        ..ExecuteTask_Result::default()
    }
}

/// The answer about a task.
pub(crate) fn task_msg(record: &TaskRecord) -> QueryTask_Response {
    QueryTask_Response {
        error_code: ErrorCode::None.code(),
        error_msg: String::new(),
        task_id: record.request.task_id.clone(),
        instruction: record.request.instruction.clone(),
        running: record.is_running(),
        outcome: record.outcome.to_wire(),
        task_error_code: record.error_code,
        task_error_msg: record.error_msg.clone(),
        steps: record.steps.iter().map(task::step_msg).collect(),
        received_at: stamp_msg(record.received_at),
        ended_at: stamp_msg(record.ended_at),
    }
}

/// The answer about commands.
pub(crate) fn commands_msg(records: &[IssuerRecord]) -> QueryCommand_Response {
    QueryCommand_Response {
        error_code: ErrorCode::None.code(),
        error_msg: String::new(),
        command_ids: records.iter().map(|r| r.command_id().to_owned()).collect(),
        command_states: records.iter().map(|r| r.state.to_wire()).collect(),
        statuses: records
            .iter()
            .map(|r| match &r.status {
                Some(status) => skill::status_msg(status),
                // What the issuer knows by itself.
                None => SkillStatusMsg {
                    executor: r.executor.clone(),
                    command_id: r.command_id().to_owned(),
                    task_id: r.command.task_id.clone(),
                    skill: r.command.skill.clone(),
                    error_code: r.error_code,
                    error_msg: r.error_msg.clone(),
                    ..no_status()
                },
            })
            .collect(),
        foreign_calls: Vec::new(),
    }
}

/// A request to people.
pub(crate) fn human_request_msg(request: &HumanRequest) -> HumanRequestMsg {
    HumanRequestMsg {
        request_id: request.request_id.clone(),
        task_id: request.task_id.clone(),
        command_id: request.command_id.clone(),
        kind: request.kind as u8,
        question: request.question.clone(),
        options: request.options.clone(),
        stamp: stamp_msg(request.stamp),
        expires_in: budget_msg(request.expires_in),
        closed: request.closed,
    }
}

/// Reads a catalog; descriptors that can't be read are left out, each with its reason.
pub(crate) fn catalog(message: &SkillCatalog) -> (Catalog, Vec<String>) {
    let mut refused = Vec::new();
    let skills = message
        .skills
        .iter()
        .filter_map(|m| match skill::descriptor(m) {
            Ok(descriptor) => Some(descriptor),
            Err(error) => {
                refused.push(format!(
                    "{}: skill \"{}\": {error}",
                    message.executor, m.name
                ));
                None
            }
        })
        .collect();
    let catalog = Catalog {
        executor: message.executor.clone(),
        boot_id: message.boot_id.clone(),
        robot_id: message.robot_id.clone(),
        skills,
    };
    (catalog, refused)
}

/// Reads the latched stop out of protection's state.
pub(crate) fn stop(message: &ProtectionState) -> StopView {
    StopView::told(message.stop_latched, &message.message)
}

/// Reads the whole scene.
///
/// # Errors
/// [`ConvertError`] for a node or edge that can't be read.
pub(crate) fn snapshot(
    message: &QueryScene_Response,
    now: Stamp,
) -> Result<SceneSnapshot, ConvertError> {
    let mut objects = message
        .objects
        .iter()
        .map(scene::scene_object)
        .collect::<Result<Vec<_>, _>>()?;
    objects.sort_by(|a, b| a.r#ref.cmp(&b.r#ref));
    Ok(SceneSnapshot {
        map_id: message.map_id.clone(),
        version: message.version,
        stamp: now,
        objects,
        relations: message
            .relations
            .iter()
            .map(scene::relation)
            .collect::<Result<_, _>>()?,
    })
}

//! The node's services. Each asks the loop and waits for its answer without blocking the spin thread.

use std::any::Any;
use std::time::Duration;

use eh_contract::ErrorCode;
use eh_ledger::issuer::state_name;
use eh_ledger::issuer_event::Finality;
use eh_ros_edge::within;
use rclrs::{Node, RclrsError};
use ros_env::embodied_harness::srv::{
    AnswerHumanRequest, AnswerHumanRequest_Request, AnswerHumanRequest_Response, QueryCommand,
    QueryCommand_Request, QueryCommand_Response, QueryTask, QueryTask_Request, QueryTask_Response,
    SettleCommand, SettleCommand_Request, SettleCommand_Response,
};
use tokio::sync::oneshot;

use crate::loop_thread::{Inbox, Input};
use crate::messages;

/// The loop answers within milliseconds, the disk included; beyond this it is gone or the disk hangs.
const LIMIT: Duration = Duration::from_secs(5);

const SILENT: &str = "the harness does not answer: its disk hangs or it is ending; ask again";

async fn ask<T>(inbox: &Inbox, input: impl FnOnce(oneshot::Sender<T>) -> Input) -> Option<T> {
    let (reply, answer) = oneshot::channel();
    inbox.send(input(reply));
    within(LIMIT, answer).await.ok()?.ok()
}

/// Offers the services; dropping the answer ends it.
pub(crate) fn serve(node: &Node, inbox: &Inbox) -> Result<Vec<Box<dyn Any>>, RclrsError> {
    let to = inbox.clone();
    let commands = node.create_async_service::<QueryCommand, _>(
        "query_command",
        move |request: QueryCommand_Request| {
            let to = to.clone();
            async move { query_command(&to, request).await }
        },
    )?;
    let to = inbox.clone();
    let tasks = node.create_async_service::<QueryTask, _>(
        "query_task",
        move |request: QueryTask_Request| {
            let to = to.clone();
            async move { query_task(&to, request).await }
        },
    )?;
    let to = inbox.clone();
    let settle = node.create_async_service::<SettleCommand, _>(
        "settle_command",
        move |request: SettleCommand_Request| {
            let to = to.clone();
            async move { settle_command(&to, request).await }
        },
    )?;
    let to = inbox.clone();
    let answer = node.create_async_service::<AnswerHumanRequest, _>(
        "answer_human_request",
        move |request: AnswerHumanRequest_Request| {
            let to = to.clone();
            async move { answer_human_request(&to, request).await }
        },
    )?;
    Ok(vec![
        Box::new(commands),
        Box::new(tasks),
        Box::new(settle),
        Box::new(answer),
    ])
}

async fn query_command(inbox: &Inbox, request: QueryCommand_Request) -> QueryCommand_Response {
    let command_id = request.command_id;
    let asked = command_id.clone();
    let failed = |code: ErrorCode, message: String| QueryCommand_Response {
        error_code: code.code(),
        error_msg: message,
        ..QueryCommand_Response::default()
    };
    match ask(inbox, |reply| Input::QueryCommand { command_id, reply }).await {
        Some(Ok(records)) if records.is_empty() && !asked.is_empty() => failed(
            ErrorCode::CommandNotFound,
            format!("no command \"{asked}\" was ever committed here; an empty id lists all that are not settled"),
        ),
        Some(Ok(records)) => messages::commands_msg(&records),
        Some(Err(error)) => failed(ErrorCode::CommandNotFound, error.to_string()),
        None => failed(ErrorCode::CommandNotFound, SILENT.into()),
    }
}

async fn query_task(inbox: &Inbox, request: QueryTask_Request) -> QueryTask_Response {
    let task_id = request.task_id;
    let asked = task_id.clone();
    let failed = |message: String| QueryTask_Response {
        error_code: ErrorCode::TaskNotFound.code(),
        error_msg: message,
        ..QueryTask_Response::default()
    };
    match ask(inbox, |reply| Input::QueryTask { task_id, reply }).await {
        Some(Ok(Some(record))) => messages::task_msg(&record),
        Some(Ok(None)) if asked.is_empty() => failed("no task was ever given".into()),
        Some(Ok(None)) => failed(format!(
            "there is no task \"{asked}\"; an empty id asks for the newest"
        )),
        Some(Err(error)) => failed(error.to_string()),
        None => failed(SILENT.into()),
    }
}

async fn settle_command(inbox: &Inbox, request: SettleCommand_Request) -> SettleCommand_Response {
    let failed = |code: ErrorCode, message: String| SettleCommand_Response {
        error_code: code.code(),
        error_msg: message,
        state: String::new(),
    };
    let Some(to) = Finality::from_wire(request.final_state) else {
        return failed(
            ErrorCode::InvalidSettle,
            format!(
                "final_state is {}; it must be FINAL_SUCCEEDED (1), FINAL_FAILED (2) or FINAL_CANCELED (3)",
                request.final_state
            ),
        );
    };
    let answer = ask(inbox, |reply| Input::Settle {
        command_id: request.command_id,
        to,
        by: request.settled_by,
        reason: request.reason,
        reply,
    })
    .await;
    match answer {
        Some(Ok(state)) => SettleCommand_Response {
            error_code: ErrorCode::None.code(),
            error_msg: String::new(),
            state: state_name(state).into(),
        },
        Some(Err(error)) => failed(error.code(), error.to_string()),
        None => failed(ErrorCode::NotSettleable, SILENT.into()),
    }
}

async fn answer_human_request(
    inbox: &Inbox,
    request: AnswerHumanRequest_Request,
) -> AnswerHumanRequest_Response {
    let answer = ask(inbox, |reply| Input::Answer {
        request_id: request.request_id,
        answer: request.answer,
        by: request.answered_by,
        reply,
    })
    .await;
    let (code, message) = match answer {
        Some(Ok(())) => (ErrorCode::None, String::new()),
        Some(Err(error)) => (error.code(), error.to_string()),
        None => (ErrorCode::RequestNotFound, SILENT.into()),
    };
    AnswerHumanRequest_Response {
        error_code: code.code(),
        error_msg: message,
    }
}

//! `~/query` and `~/settle`.

use eh_contract::state::ExecutorState;
use eh_contract::ErrorCode;
use eh_executor::event::SettleRequest;
use eh_executor::Event;
use eh_ledger::executor::{ExecutorRecord, SubGoalRecord};
use eh_ros_edge::convert::skill::status_msg;
use eh_ros_edge::convert::uuid_msg;
use rclrs::{Node, RclrsError};
use ros_env::embodied_harness::msg::ForeignCall;
use ros_env::embodied_harness::srv::{
    QueryCommand, QueryCommand_Request, QueryCommand_Response, SettleCommand,
    SettleCommand_Request, SettleCommand_Response,
};
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::loop_thread::{Inbox, Input};
use crate::Handles;

/// When the loop does not take a request.
const NOT_TAKEN: &str =
    "the executor is ending, or too many requests wait for it already; wait, then ask again";

pub(crate) fn serve(node: &Node, inbox: &Inbox) -> Result<Handles, RclrsError> {
    let name = node.name();
    let to = inbox.clone();
    let query = node.create_async_service::<QueryCommand, _>(
        format!("{name}/query").as_str(),
        move |request: QueryCommand_Request| query(request, to.clone()),
    )?;
    let to = inbox.clone();
    let settle = node.create_async_service::<SettleCommand, _>(
        format!("{name}/settle").as_str(),
        move |request: SettleCommand_Request| settle(request, to.clone()),
    )?;
    Ok(vec![Box::new(query), Box::new(settle)])
}

fn state_name(state: ExecutorState) -> String {
    format!("{state:?}").to_uppercase()
}

async fn query(request: QueryCommand_Request, inbox: Inbox) -> QueryCommand_Response {
    let mut response = QueryCommand_Response::default();
    let (reply, answer) = oneshot::channel();
    let one = !request.command_id.is_empty();
    inbox.request(Input::Query {
        command_id: request.command_id,
        reply,
    });
    let found = match answer.await {
        Ok(Ok(found)) => found,
        Ok(Err(refusal)) => {
            response.error_code = refusal.code.code();
            response.error_msg = refusal.message;
            return response;
        }
        Err(_) => {
            response.error_code = ErrorCode::CommandNotFound.code();
            response.error_msg = NOT_TAKEN.into();
            return response;
        }
    };
    for (record, status) in &found {
        if one {
            response.foreign_calls = calls(record);
        }
        response.command_ids.push(record.command.command_id.clone());
        response.command_states.push(0);
        response.statuses.push(status_msg(status));
    }
    response
}

fn calls(record: &ExecutorRecord) -> Vec<ForeignCall> {
    let call = |g: &SubGoalRecord| ForeignCall {
        action_name: g.action_name.clone(),
        goal_id: uuid_msg(Uuid::from_bytes(g.goal_id)),
        segment: g.segment,
        sub_goal: g.name.clone(),
        sent_sequence: g.sent_sequence,
        ended_sequence: g.ended_sequence,
        status: g.status,
    };
    record.sub_goals.iter().map(call).collect()
}

async fn settle(request: SettleCommand_Request, inbox: Inbox) -> SettleCommand_Response {
    let mut response = SettleCommand_Response::default();
    let (reply, answer) = oneshot::channel();
    let caller = inbox.caller();
    inbox.request(Input::Settle {
        event: Event::SettleAsked(SettleRequest {
            caller,
            command_id: request.command_id,
            final_state: request.final_state,
            settled_by: request.settled_by,
            reason: request.reason,
            fencing_token: request.fencing_token,
        }),
        caller,
        reply,
    });
    match answer.await {
        Ok(answer) => {
            response.error_code = answer.error_code.code();
            response.error_msg = answer.error_msg;
            response.state = answer.state.map(state_name).unwrap_or_default();
        }
        Err(_) => {
            response.error_code = ErrorCode::StorageFailure.code();
            response.error_msg = NOT_TAKEN.into();
        }
    }
    response
}

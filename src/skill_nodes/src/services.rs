//! `~/query` and `~/settle`.

use std::sync::Arc;

use eh_contract::ErrorCode;
use eh_ledger::executor::{ExecutorEvent, ExecutorRecord, FinalState};
use eh_ros_edge::convert::skill::status_msg;
use eh_ros_edge::convert::uuid_msg;
use rclrs::RclrsError;
use ros_env::embodied_harness::msg::ForeignCall;
use ros_env::embodied_harness::srv::{
    QueryCommand, QueryCommand_Request, QueryCommand_Response, SettleCommand,
    SettleCommand_Request, SettleCommand_Response,
};
use uuid::Uuid;

use crate::executor::{ApplyError, Executor};
use crate::Handles;

pub(crate) fn serve(executor: &Arc<Executor>) -> Result<Handles, RclrsError> {
    let name = executor.node.name();
    let this = executor.clone();
    let query = executor.node.create_async_service::<QueryCommand, _>(
        format!("{name}/query").as_str(),
        move |request: QueryCommand_Request| {
            let this = this.clone();
            async move { this.query(request).await }
        },
    )?;
    let this = executor.clone();
    let settle = executor.node.create_async_service::<SettleCommand, _>(
        format!("{name}/settle").as_str(),
        move |request: SettleCommand_Request| {
            let this = this.clone();
            async move { this.settle(request).await }
        },
    )?;
    Ok(vec![Box::new(query), Box::new(settle)])
}

fn state_name(record: &ExecutorRecord) -> String {
    format!("{:?}", record.state).to_uppercase()
}

impl Executor {
    async fn query(&self, request: QueryCommand_Request) -> QueryCommand_Response {
        let mut response = QueryCommand_Response::default();
        let records = if request.command_id.is_empty() {
            self.live_records()
        } else {
            match self.find(&request.command_id).await {
                Ok(Some(record)) => vec![record],
                Ok(None) => {
                    response.error_code = ErrorCode::CommandNotFound.code();
                    response.error_msg = format!(
                        "no command {:?} is in the journal of {}; check the id and the executor",
                        request.command_id.chars().take(80).collect::<String>(),
                        self.name
                    );
                    return response;
                }
                Err(error) => {
                    response.error_code = ErrorCode::CommandNotFound.code();
                    response.error_msg = format!("the journal can't be read: {error}");
                    return response;
                }
            }
        };
        if let (false, [record]) = (request.command_id.is_empty(), records.as_slice()) {
            response.foreign_calls = record
                .sub_goals
                .iter()
                .map(|g| ForeignCall {
                    action_name: g.action_name.clone(),
                    goal_id: uuid_msg(Uuid::from_bytes(g.goal_id)),
                    segment: g.segment,
                    sub_goal: g.name.clone(),
                    sent_sequence: g.sent_sequence,
                    ended_sequence: g.ended_sequence,
                    status: g.status,
                })
                .collect();
        }
        for record in &records {
            response.command_ids.push(record.command.command_id.clone());
            response.command_states.push(0);
            response.statuses.push(status_msg(&self.status_of(record)));
        }
        response
    }

    async fn settle(self: &Arc<Self>, request: SettleCommand_Request) -> SettleCommand_Response {
        let mut response = SettleCommand_Response::default();
        let mut refuse = |code: ErrorCode, message: String, state: String| {
            response.error_code = code.code();
            response.error_msg = message;
            response.state = state;
            response.clone()
        };
        let record = match self.find(&request.command_id).await {
            Ok(Some(record)) => record,
            Ok(None) => {
                return refuse(
                    ErrorCode::CommandNotFound,
                    format!(
                        "no command {:?} is in the journal of {}; check the id and the executor",
                        request.command_id.chars().take(80).collect::<String>(),
                        self.name
                    ),
                    String::new(),
                )
            }
            Err(error) => {
                return refuse(
                    ErrorCode::StorageFailure,
                    format!("the journal can't be read: {error}"),
                    String::new(),
                )
            }
        };
        let state = state_name(&record);
        let Some(final_state) = FinalState::from_wire(request.final_state) else {
            return refuse(
                ErrorCode::InvalidSettle,
                format!(
                    "final_state is {}; use a FINAL_* constant",
                    request.final_state
                ),
                state,
            );
        };
        if request.settled_by.is_empty() {
            return refuse(
                ErrorCode::InvalidSettle,
                "settled_by is empty; say who settles".into(),
                state,
            );
        }
        // A controller proves by its token that it was not replaced; a person has none and says why.
        let newest = self.surroundings.lease_view().newest_token;
        if request.fencing_token == 0 && self.parameters.require_lease && request.reason.is_empty()
        {
            return refuse(
                ErrorCode::InvalidSettle,
                "neither a fencing_token nor a reason is given; a person says why".into(),
                state,
            );
        }
        if request.fencing_token != 0 && request.fencing_token < newest {
            return refuse(
                ErrorCode::OldToken,
                format!(
                    "token {} is older than the newest, {newest}; somebody else has taken the control lease",
                    request.fencing_token
                ),
                state,
            );
        }
        let event = ExecutorEvent::Settle {
            final_state,
            settled_by: request.settled_by,
            reason: request.reason,
        };
        match self.apply(&request.command_id, event).await {
            Ok(transition) => {
                response.state = state_name(&transition.record);
                response
            }
            Err(error @ ApplyError::Journal(_)) => {
                refuse(ErrorCode::StorageFailure, error.to_string(), state)
            }
            Err(error) => refuse(ErrorCode::NotSettleable, error.to_string(), state),
        }
    }
}

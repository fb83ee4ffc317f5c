//! Asks the scene graph whether the preconditions of a command still hold.

use std::time::Duration;

use eh_contract::command::SkillCommand;
use eh_contract::ErrorCode;
use eh_ledger::admission::SceneCheck;
use eh_ros_edge::convert::command::precondition_msg;
use eh_ros_edge::within;
use rclrs::{Client, Node, Promise, RclrsError};
use ros_env::embodied_harness::srv::{QueryScene, QueryScene_Request, QueryScene_Response};

pub(crate) struct SceneClient {
    client: Client<QueryScene>,
    service: String,
    limit: Duration,
}

impl SceneClient {
    pub(crate) fn new(node: &Node, service: &str, limit: Duration) -> Result<Self, RclrsError> {
        Ok(SceneClient {
            client: node.create_client(service)?,
            service: service.into(),
            limit,
        })
    }

    pub(crate) async fn check(&self, command: &SkillCommand) -> SceneCheck {
        let unavailable = |reason: String| SceneCheck::Unavailable { reason };
        if !self.client.service_is_ready().unwrap_or(false) {
            return unavailable(format!("no server of {} is there", self.service));
        }
        let request = QueryScene_Request {
            operation: QueryScene_Request::OPERATION_CHECK,
            preconditions: command.preconditions.iter().map(precondition_msg).collect(),
            ..QueryScene_Request::default()
        };
        let answer: Promise<QueryScene_Response> = match self.client.call(request) {
            Ok(promise) => promise,
            Err(e) => return unavailable(format!("{} can't be called: {e}", self.service)),
        };
        let response = match within(self.limit, answer).await {
            Ok(Ok(response)) => response,
            Ok(Err(_)) => return unavailable("the node is shutting down".into()),
            Err(missed) => return unavailable(format!("{}: {missed}", self.service)),
        };
        match ErrorCode::from_code(response.error_code) {
            Some(ErrorCode::None) => SceneCheck::Holds,
            Some(
                ErrorCode::SceneStalePrecondition
                | ErrorCode::PredicateNotMet
                | ErrorCode::RefNotFound,
            ) => SceneCheck::Fails {
                index: usize::try_from(response.failed_precondition).unwrap_or(0),
                reason: response.error_msg,
            },
            Some(_) | None => unavailable(format!(
                "{} answers with error {}: {}",
                self.service, response.error_code, response.error_msg
            )),
        }
    }
}

//! Asks the scene graph whether preconditions hold.

use std::future::Future;
use std::time::{Duration, Instant};

use eh_contract::command::Precondition;
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

    /// Asks at once, or as soon as the server is there; the answer can be waited for on its own. All of it takes
    /// no longer than the limit: a node that was started a moment ago, this one or the other, is discovered soon.
    pub(crate) fn check(
        &self,
        preconditions: &[Precondition],
    ) -> impl Future<Output = SceneCheck> + Send + 'static {
        let (service, limit, client) = (self.service.clone(), self.limit, self.client.clone());
        let request = QueryScene_Request {
            operation: QueryScene_Request::OPERATION_CHECK,
            preconditions: preconditions.iter().map(precondition_msg).collect(),
            ..QueryScene_Request::default()
        };
        async move {
            let unavailable = |reason: String| SceneCheck::Unavailable { reason };
            let began = Instant::now();
            if within(limit, client.notify_on_service_ready())
                .await
                .is_err()
            {
                return unavailable(format!("no server of {service} is there"));
            }
            let asked: Result<Promise<QueryScene_Response>, RclrsError> = client.call(request);
            let answer = match asked {
                Ok(answer) => answer,
                Err(error) => return unavailable(format!("{service} can't be called: {error}")),
            };
            match within(limit.saturating_sub(began.elapsed()), answer).await {
                Ok(Ok(response)) => read(&service, response),
                Ok(Err(_)) => unavailable("the node is shutting down".into()),
                Err(missed) => unavailable(format!("{service}: {missed}")),
            }
        }
    }
}

fn read(service: &str, response: QueryScene_Response) -> SceneCheck {
    match ErrorCode::from_code(response.error_code) {
        Some(ErrorCode::None) => SceneCheck::Holds,
        Some(
            ErrorCode::SceneStalePrecondition | ErrorCode::PredicateNotMet | ErrorCode::RefNotFound,
        ) => SceneCheck::Fails {
            index: usize::try_from(response.failed_precondition).unwrap_or(0),
            reason: response.error_msg,
        },
        Some(_) | None => SceneCheck::Unavailable {
            reason: format!(
                "{service} answers with error {}: {}",
                response.error_code, response.error_msg
            ),
        },
    }
}

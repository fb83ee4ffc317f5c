//! The service `manage_lease`.

use std::time::Duration;

use eh_contract::ErrorCode;
use eh_protection::lease::{LeaseError, PendingGrant};
use eh_ros_edge::{convert, within};
use eh_store::lease::GrantRecord;
use rclrs::{log_info, ToLogParams};
use ros_env::embodied_harness::srv::{ManageLease_Request, ManageLease_Response};

use crate::messages;
use crate::node::{Shared, DISK_TIMEOUT};

impl Shared {
    pub(crate) async fn manage_lease(&self, request: ManageLease_Request) -> ManageLease_Response {
        let result = self.try_manage_lease(&request).await;
        let mut core = self.core.lock();
        let now = self.now(&mut core);
        let view = core.lease.view(now);
        core.told_lease = Some((view.controller_id.clone(), view.token));
        // The new holder's commands must find the lease known, so it goes out before the answer.
        self.publish_lease(view.clone());
        let lease = messages::lease(view);
        match result {
            Ok(()) => ManageLease_Response {
                error_code: ErrorCode::None.code(),
                error_msg: String::new(),
                lease,
            },
            Err((code, error_msg)) => {
                log_info!(
                    self.node.logger().throttle(Duration::from_secs(1)),
                    "manage_lease by {}: {error_msg}",
                    request.controller_id
                );
                ManageLease_Response {
                    error_code: code.code(),
                    error_msg,
                    lease,
                }
            }
        }
    }

    async fn try_manage_lease(
        &self,
        request: &ManageLease_Request,
    ) -> Result<(), (ErrorCode, String)> {
        let refused = |error: LeaseError| (error.code(), error.to_string());
        let ttl = convert::std_duration(&request.ttl).map_err(|error| {
            (
                ErrorCode::ProtectionInvalidRequest,
                format!("ttl can't be used: {error}"),
            )
        })?;
        let who = request.controller_id.as_str();
        match request.operation {
            ManageLease_Request::OPERATION_ACQUIRE => {
                let pending = {
                    let mut core = self.core.lock();
                    let now = self.now(&mut core);
                    core.lease
                        .acquire(now, who, ttl, request.take_over)
                        .map_err(refused)?
                };
                self.grant(pending).await.map_err(refused)
            }
            ManageLease_Request::OPERATION_RENEW => {
                let mut core = self.core.lock();
                let now = self.now(&mut core);
                core.lease
                    .renew(now, who, request.token, ttl)
                    .map_err(refused)
            }
            ManageLease_Request::OPERATION_RELEASE => {
                let mut core = self.core.lock();
                let now = self.now(&mut core);
                core.lease
                    .release(now, who, request.token)
                    .map_err(refused)?;
                log_info!(self.node.logger(), "control lease released by {who}");
                Ok(())
            }
            other => Err((
                ErrorCode::ProtectionInvalidRequest,
                format!("operation {other} is none; use 1 (acquire), 2 (renew) or 3 (release)"),
            )),
        }
    }

    /// Makes the token durable, then grants it.
    async fn grant(&self, pending: PendingGrant) -> Result<(), LeaseError> {
        let answer = self.keeper.keep(GrantRecord {
            token: pending.token,
            controller_id: pending.controller_id.clone(),
            granted_at_ns: self.clock.ros_ns(),
        });
        let kept = match within(DISK_TIMEOUT, answer).await {
            Ok(Ok(kept)) => kept,
            Ok(Err(_)) => Err("the thread that writes it has ended".into()),
            Err(missed) => Err(missed.to_string()),
        };
        let mut core = self.core.lock();
        let now = self.now(&mut core);
        match kept {
            Ok(()) => {
                core.lease.stored(now, pending.token);
                log_info!(
                    self.node.logger(),
                    "control lease granted to {} with token {} for {:?}",
                    pending.controller_id,
                    pending.token,
                    pending.ttl
                );
                Ok(())
            }
            Err(reason) => {
                core.lease.not_stored(pending.token);
                Err(LeaseError::Storage(reason))
            }
        }
    }
}

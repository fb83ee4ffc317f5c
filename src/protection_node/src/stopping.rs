//! The services `request_stop` and `reset_stop`.

use eh_protection::kept_stop::PendingReset;
use eh_protection::stop::{ResetError, StopRequest};
use eh_ros_edge::within;
use rclrs::log_info;
use ros_env::embodied_harness::srv::{
    RequestStop_Request, RequestStop_Response, ResetStop_Request, ResetStop_Response,
};

use crate::node::{Shared, DISK_TIMEOUT};

impl Shared {
    pub(crate) fn request_stop(&self, request: RequestStop_Request) -> RequestStop_Response {
        self.hurry();
        let stop = StopRequest {
            stop_id: request.stop_id,
            source: request.source,
            reason: request.reason,
        };
        // It has acted when this returns; only then is it kept.
        let (stop_id, record) = self.with_core(|core, now| {
            let stop_id = core.protection.request_stop(now, stop);
            (stop_id, core.protection.stop().record())
        });
        if let Some(record) = record {
            self.stops.keep(record, self.clock.ros_ns());
        }
        RequestStop_Response {
            error_code: RequestStop_Response::NONE,
            error_msg: String::new(),
            stop_id,
            stage: self.core.lock().protection.stop().stage().to_wire(),
        }
    }

    /// Makes a reset durable, then takes the stop back.
    pub(crate) async fn reset_stop(&self, request: ResetStop_Request) -> ResetStop_Response {
        let by_force = if request.force { ", by force" } else { "" };
        match self.try_reset_stop(&request).await {
            Ok(()) => {
                log_info!(
                    self.node.logger(),
                    "stop reset by {} ({}{by_force})",
                    request.operator_name,
                    request.reason
                );
                ResetStop_Response::default()
            }
            Err(error) => ResetStop_Response {
                error_code: error.code().code(),
                error_msg: error.to_string(),
            },
        }
    }

    async fn try_reset_stop(&self, request: &ResetStop_Request) -> Result<(), ResetError> {
        let pending = self.with_core(|core, now| {
            core.protection
                .reset_stop(now, &request.operator_name, &request.reason, request.force)
        })?;
        let answer = self
            .stops
            .keep_and_answer(pending.record.clone(), self.clock.ros_ns());
        let kept = match within(DISK_TIMEOUT, answer).await {
            Ok(Ok(kept)) => kept,
            Ok(Err(_)) => Err("a newer stop or reset took its place".into()),
            Err(missed) => Err(missed.to_string()),
        };
        self.finish_reset(&pending, kept)
    }

    fn finish_reset(
        &self,
        pending: &PendingReset,
        kept: Result<(), String>,
    ) -> Result<(), ResetError> {
        let (done, record) = self.with_core(|core, now| {
            let done = core.protection.finish_reset(now, pending, kept);
            (done, core.protection.stop().record())
        });
        if let Some(record) = record {
            // The reset may be on the disk, and the stop is still in force.
            self.stops.keep(record, self.clock.ros_ns());
        }
        done
    }
}

//! The spin loop of a node.

use std::time::Duration;

use rclrs::{Executor, Node, RclrsError, SpinOptions, Timer};

use crate::shutdown::Shutdown;

/// The code by which rcl_action says, from Kilted on, that there was nothing to take. rclrs 0.8 knows
/// only the former number, 2103, and lets `spin` return.
const ACTION_CLIENT_TAKE_FAILED: i32 = 4103;

/// The period of a timer that is there only to be added.
const IDLE: Duration = Duration::from_secs(3600);

/// The executor ended though nobody asked it to.
#[derive(Debug, thiserror::Error)]
#[error("the ROS executor failed: {0}; restart the node")]
pub struct SpinError(String);

/// Spins until the shutdown is asked for.
///
/// For executors whose nodes have no action client of rclrs; [`GoalClient`](crate::GoalClient) is none.
///
/// # Errors
///
/// [`SpinError`] if the executor returns for another reason than the shutdown.
pub fn spin_until(executor: &mut Executor, shutdown: &Shutdown) -> Result<(), SpinError> {
    spin_nodes_until(executor, &[], shutdown)
}

/// Spins until the shutdown is asked for, with nodes that may have action clients of rclrs.
///
/// On Kilted such a client wakes up for nothing whenever another client uses the same action, and `spin`
/// returns. That is no failure, but it leaves the node deaf: its wait set is not filled again. Adding
/// anything to the node makes rclrs register all of its entities anew.
///
/// # Errors
///
/// [`SpinError`] if the executor returns for another reason, or a node can't be mended.
pub fn spin_nodes_until(
    executor: &mut Executor,
    nodes: &[Node],
    shutdown: &Shutdown,
) -> Result<(), SpinError> {
    let mut mending: Vec<Timer> = Vec::new();
    loop {
        let asked = shutdown.clone();
        // Made anew for each round: `spin` forgets a halt that was asked for before it began, but a
        // promise that is resolved already halts it.
        let halt = executor
            .commands()
            .run(async move { asked.requested().await });
        let errors = executor.spin(SpinOptions::new().until_promise_resolved(halt));
        mending.clear();
        if shutdown.is_requested() {
            return Ok(());
        }
        if let Some(error) = errors
            .iter()
            .find(|error| nodes.is_empty() || !nothing_to_take(error))
        {
            return Err(SpinError(chain(error)));
        }
        if errors.is_empty() {
            return Err(SpinError("it halted without a reason".into()));
        }
        for node in nodes {
            let timer = node
                .create_timer_inert(IDLE)
                .map_err(|error| SpinError(chain(&error)))?;
            mending.push(timer);
        }
    }
}

fn nothing_to_take(error: &RclrsError) -> bool {
    error.is_take_failed()
        || matches!(error, RclrsError::UnknownRclError { code, .. } if *code == ACTION_CLIENT_TAKE_FAILED)
}

/// The error with its sources, outermost first.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        source = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use rclrs::RclReturnCode;

    fn known(code: RclReturnCode) -> RclrsError {
        RclrsError::RclError { code, msg: None }
    }

    #[test]
    fn both_numbers_of_nothing_to_take_are_no_failure() {
        // 2103 up to Jazzy, 4103 from Kilted on.
        assert!(nothing_to_take(&known(
            RclReturnCode::ActionClientTakeFailed
        )));
        assert!(nothing_to_take(&RclrsError::UnknownRclError {
            code: 4103,
            msg: None
        }));
    }

    #[test]
    fn other_errors_are_failures() {
        assert!(!nothing_to_take(&known(RclReturnCode::Error)));
        assert!(!nothing_to_take(&RclrsError::UnknownRclError {
            code: 4104,
            msg: None
        }));
    }
}

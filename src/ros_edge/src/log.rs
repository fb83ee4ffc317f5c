//! Logging: nodes log with rclrs' macros on the node's logger; what the pure crates trace is passed on
//! to the same place.
//!
//! ```no_run
//! # fn serve(node: &rclrs::Node, skills: usize) {
//! rclrs::log_info!(node.logger(), "serving {skills} skills");
//! # }
//! ```
//!
//! That writes to stderr and to `/rosout`, and respects `--ros-args --log-level`. For a line that could
//! come many times a second use `node.logger().throttle(period)`.

use std::fmt::Write;

use rclrs::{log, LogSeverity, Logger, Node, RclrsError, ToLogParams};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::Registry;
use tracing_subscriber::Layer;

/// Passes events of the `tracing` crate on to the node's logger, each under a child logger named after
/// the crate it comes from.
///
/// The first node of a process wins: a second call changes nothing and returns false.
pub fn forward_tracing(node: &Node) -> bool {
    let forward = Forward {
        logger: node.logger().clone(),
    };
    tracing::subscriber::set_global_default(Registry::default().with(forward)).is_ok()
}

struct Forward {
    logger: Logger,
}

impl Forward {
    /// The logger for what a module of a crate says.
    fn child(&self, target: &str) -> Result<Logger, RclrsError> {
        let name = target.split("::").next().unwrap_or(target);
        self.logger.create_child(name)
    }
}

impl<S: Subscriber> Layer<S> for Forward {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Line::default();
        event.record(&mut line);
        let Ok(logger) = self.child(event.metadata().target()) else {
            return;
        };
        let severity = severity(*event.metadata().level());
        log!(logger.severity(severity), "{}", line.text);
    }
}

fn severity(level: Level) -> LogSeverity {
    match level {
        Level::ERROR => LogSeverity::Error,
        Level::WARN => LogSeverity::Warn,
        Level::INFO => LogSeverity::Info,
        _ => LogSeverity::Debug,
    }
}

/// The message of an event, then its fields.
#[derive(Default)]
struct Line {
    text: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        // Writing to a String does not fail.
        let _ = match field.name() {
            "message" => write!(self.text, "{value:?}"),
            name => write!(self.text, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_has_its_severity() {
        assert_eq!(severity(Level::ERROR), LogSeverity::Error);
        assert_eq!(severity(Level::WARN), LogSeverity::Warn);
        assert_eq!(severity(Level::INFO), LogSeverity::Info);
        assert_eq!(severity(Level::DEBUG), LogSeverity::Debug);
        assert_eq!(severity(Level::TRACE), LogSeverity::Debug);
    }
}

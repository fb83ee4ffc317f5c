//! Where observations come from: the sensors' topics, a recording, or a source of the deployer.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use eh_evaluator::observation::{
    HandedIn, Observation, ObservationProvider, ProviderKind, Recorded,
};
use eh_evaluator::EvaluatorError;
use eh_ros_edge::params::{choice, text};
use eh_ros_edge::Streams;
use rclrs::{log_warn, IntoPrimitiveOptions, Node, QoSProfile, RclrsError, ToLogParams};
use ros_env::std_msgs::msg::String as Text;

use crate::node::Shared;
use crate::Error;

/// Largest recording \[bytes\]: a quarter of an hour with all sensors.
const MAX_RECORDING: u64 = 256 * 1024 * 1024;

/// Depth of the queue of an external source.
const DEPTH: u32 = 256;

/// Time between two log lines of one kind.
const LOG_PERIOD: Duration = Duration::from_secs(5);

/// Where observations come from.
#[derive(Clone, Debug)]
pub struct SourceParameters {
    /// Which provider.
    pub kind: ProviderKind,
    /// File of a recording.
    pub recording: String,
    /// Topic of an external source.
    pub topic: String,
}

impl SourceParameters {
    /// Declares the parameters.
    ///
    /// # Errors
    /// [`enum@Error`] that names the parameter.
    pub(crate) fn declare(node: &Node) -> Result<Self, Error> {
        let kind = choice(
            node,
            "observations",
            ProviderKind::Live.name(),
            &ProviderKind::ALL.map(ProviderKind::name),
            "Who observes: live, the sensors' topics; recorded, the file of the parameter recording; external, a source of your own on external_observations_topic.",
        )?;
        Ok(SourceParameters {
            kind: ProviderKind::of(&kind)?,
            recording: text(
                node,
                "recording",
                "",
                "File with one observation in JSON a line, for observations: recorded.",
            )?,
            topic: text(
                node,
                "external_observations_topic",
                "external_observations",
                "Topic of std_msgs/String with one observation in JSON a message, as a line of a recording, for observations: external.",
            )?,
        })
    }

    /// The provider.
    ///
    /// # Errors
    /// [`Error::File`], or [`Error::Evaluator`] for a line that is no observation.
    pub(crate) fn provider(&self) -> Result<Box<dyn ObservationProvider>, Error> {
        Ok(match self.kind {
            ProviderKind::Live => Box::new(HandedIn::live()),
            ProviderKind::External => Box::new(HandedIn::external()),
            ProviderKind::Recorded => {
                let file = |reason: String| Error::Recording {
                    path: self.recording.clone(),
                    reason,
                };
                let size = std::fs::metadata(&self.recording)
                    .map_err(|e| file(e.to_string()))?
                    .len();
                if size > MAX_RECORDING {
                    return Err(file(format!(
                        "it has {size} bytes, the limit is {MAX_RECORDING}"
                    )));
                }
                let lines =
                    std::fs::read_to_string(&self.recording).map_err(|e| file(e.to_string()))?;
                Box::new(Recorded::read(&lines).map_err(|e: EvaluatorError| file(e.to_string()))?)
            }
        })
    }
}

/// Subscribes to an external source.
pub(crate) fn subscribe(
    shared: &Arc<Shared>,
    streams: &Streams,
) -> Result<Vec<Box<dyn Any>>, RclrsError> {
    let take = shared.clone();
    let topic = &shared.parameters.source.topic;
    let qos = QoSProfile::topics_default().keep_last(DEPTH).reliable();
    let subscription =
        streams.create_subscription::<Text, _>(topic.as_str().qos(qos), move |message: Text| {
            match Observation::from_line(&message.data) {
                Ok(observation) => take.core.lock().provider.hand_in(observation),
                Err(reason) => log_warn!(
                    take.node.logger().throttle(LOG_PERIOD),
                    "a message of the external source is no observation and was dropped: {reason}"
                ),
            }
        })?;
    Ok(vec![Box::new(subscription)])
}

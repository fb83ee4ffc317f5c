//! The velocity that goes to the base.

use eh_protection::Velocity;
use eh_ros_edge::convert::time_msg;
use eh_ros_edge::qos;
use rclrs::{IntoPrimitiveOptions, Node, Publisher, RclrsError};
use ros_env::geometry_msgs::msg::{Twist, TwistStamped};

use crate::messages::twist;
use crate::Parameters;

/// The publisher, of either type.
pub(crate) enum VelocityOutput {
    Plain(Publisher<Twist>),
    Stamped {
        publisher: Publisher<TwistStamped>,
        frame: String,
    },
}

impl VelocityOutput {
    pub(crate) fn new(node: &Node, parameters: &Parameters) -> Result<Self, RclrsError> {
        let topic = parameters
            .output_topic
            .as_str()
            .qos(qos::velocity_command());
        Ok(if parameters.stamped {
            VelocityOutput::Stamped {
                publisher: node.create_publisher(topic)?,
                frame: parameters.base_frame.clone(),
            }
        } else {
            VelocityOutput::Plain(node.create_publisher(topic)?)
        })
    }

    /// The topic's full name.
    pub(crate) fn topic(&self) -> String {
        match self {
            VelocityOutput::Plain(publisher) => publisher.topic_name(),
            VelocityOutput::Stamped { publisher, .. } => publisher.topic_name(),
        }
    }

    pub(crate) fn publish(&self, velocity: Velocity, stamp_ns: i64) -> Result<(), RclrsError> {
        match self {
            VelocityOutput::Plain(publisher) => publisher.publish(twist(velocity)),
            VelocityOutput::Stamped { publisher, frame } => {
                let mut message = TwistStamped::default();
                // A time that a message can't hold is "unknown" there: zero.
                message.header.stamp = time_msg(stamp_ns).unwrap_or_default();
                message.header.frame_id.clone_from(frame);
                message.twist = twist(velocity);
                publisher.publish(message)
            }
        }
    }
}

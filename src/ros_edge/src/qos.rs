//! Quality of service, one named function for each class of topic. Nothing else sets it.

use rclrs::QoSProfile;

/// The number of control messages kept for a reader that is slow for a moment.
const CONTROL_DEPTH: u32 = 32;
/// Telemetry is of worth only while fresh.
const TELEMETRY_DEPTH: u32 = 5;

/// Control: requests to stop, run events and the like. Every message arrives, in order.
///
/// Late joiners get nothing old: what they need is asked for by id.
pub fn control() -> QoSProfile {
    QoSProfile::topics_default()
        .keep_last(CONTROL_DEPTH)
        .reliable()
        .volatile()
}

/// State: late joiners get the last `depth` messages at once.
///
/// `depth` has to hold *every* live item: 1 for a message that holds the whole state, else the greatest
/// number of items that can be alive together. Zero is taken as 1.
pub fn state_latched(depth: u32) -> QoSProfile {
    QoSProfile::topics_default()
        .keep_last(depth.max(1))
        .reliable()
        .transient_local()
}

/// Telemetry: progress and figures for people; a lost message is no harm.
pub fn telemetry() -> QoSProfile {
    QoSProfile::topics_default()
        .keep_last(TELEMETRY_DEPTH)
        .best_effort()
        .volatile()
}

/// Sensor data: the profile that sensor drivers publish with, best effort.
pub fn sensor_data() -> QoSProfile {
    QoSProfile::sensor_data_default()
}

/// Sensor data of which only the newest is looked at, as by [`crate::Pace`].
pub fn newest_sensor_data() -> QoSProfile {
    QoSProfile::sensor_data_default().keep_last(1)
}

/// Velocity commands: only the newest one counts, and it must arrive.
pub fn velocity_command() -> QoSProfile {
    QoSProfile::topics_default()
        .keep_last(1)
        .reliable()
        .volatile()
}

/// Changing transforms (`/tf`), as tf2 does.
pub fn tf() -> QoSProfile {
    QoSProfile::topics_default().keep_last(100).reliable()
}

/// Fixed transforms (`/tf_static`), as tf2 does: late joiners get them all.
pub fn tf_static() -> QoSProfile {
    state_latched(100)
}

/// The status topic of an action, as action servers publish it.
pub fn action_status() -> QoSProfile {
    QoSProfile::action_status_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rclrs::{QoSDurabilityPolicy, QoSHistoryPolicy};

    #[test]
    fn a_latched_state_keeps_as_many_as_asked_for_and_never_none() {
        for (depth, kept) in [(0, 1), (1, 1), (40, 40)] {
            let profile = state_latched(depth);
            assert_eq!(profile.history, QoSHistoryPolicy::KeepLast { depth: kept });
            assert_eq!(profile.durability, QoSDurabilityPolicy::TransientLocal);
        }
    }
}

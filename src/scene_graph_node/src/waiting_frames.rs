//! Frames of detections that wait for the transform at their stamp.

use std::collections::VecDeque;

use eh_ros_edge::convert::time_ns;
use eh_ros_edge::{TfBuffer, TfError};
use ros_env::embodied_harness::msg::ObjectObservationArray;

/// Most frames that wait; beyond it the oldest go.
const MAX_WAITING: usize = 64;

/// A frame and the pose of its sensor in the map at its stamp.
pub(crate) struct Placed {
    /// The frame as it came.
    pub message: ObjectObservationArray,
    /// The sensor in the map.
    pub sensor: eh_ros_edge::tf_buffer::TfLookup,
}

/// A queue in the order of arrival.
#[derive(Default)]
pub(crate) struct WaitingFrames {
    frames: VecDeque<(ObjectObservationArray, i64)>,
}

impl WaitingFrames {
    /// Adds a frame that came at `steady_ns`.
    pub(crate) fn push(&mut self, message: ObjectObservationArray, steady_ns: i64) {
        self.frames.push_back((message, steady_ns));
        while self.frames.len() > MAX_WAITING {
            self.frames.pop_front();
        }
    }

    /// Takes the frames whose transform is known; those that waited too long are dropped, with the last
    /// reason.
    pub(crate) fn take(
        &mut self,
        tf: &TfBuffer,
        map_frame: &str,
        steady_ns: i64,
        timeout_ns: i64,
    ) -> (Vec<Placed>, Option<TfError>) {
        let mut out = Vec::new();
        let mut dropped = None;
        while let Some((message, since)) = self.frames.front() {
            let stamp = time_ns(&message.header.stamp);
            match tf.lookup(map_frame, &message.header.frame_id, stamp) {
                Ok(sensor) => {
                    if let Some((message, _)) = self.frames.pop_front() {
                        out.push(Placed { message, sensor });
                    }
                }
                Err(error) => {
                    if steady_ns.saturating_sub(*since) < timeout_ns {
                        break;
                    }
                    self.frames.pop_front();
                    dropped = Some(error);
                }
            }
        }
        (out, dropped)
    }
}

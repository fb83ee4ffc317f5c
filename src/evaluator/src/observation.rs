//! Where evidence comes from, behind one trait: live topics, a recording, or somebody who hands it in.
//!
//! Whoever provides it, an observation goes through [`EvidenceBuffer::push`] and is checked there. All sources are
//! aligned by the stamps of their measurements, not by when they arrive: the judge looks up where the tool was when
//! a picture was taken.

use std::collections::VecDeque;

use eh_contract::perception::DetectionFrame;
use eh_contract::Stamp;
use serde::{Deserialize, Serialize};

use crate::error::EvaluatorError;
use crate::evidence::{
    ClearanceSample, EvidenceBuffer, GripperSample, JointSample, PoseSample, Stamped, Taken,
    TwistSample,
};

/// Most observations that are kept before they are taken.
const MAX_WAITING: usize = 100_000;

/// Longest line of a recording \[bytes\].
const MAX_LINE: usize = 4 * 1024 * 1024;

/// One thing that was observed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Observation {
    /// The fingers.
    Gripper(GripperSample),
    /// The base in the map.
    Base(PoseSample),
    /// The tool in the map.
    Tool(PoseSample),
    /// The base's velocity.
    Twist(TwistSample),
    /// Joints of arm and head.
    Joints(JointSample),
    /// The nearest obstacle.
    Clearance(ClearanceSample),
    /// Detections in the map.
    Frame(DetectionFrame),
}

impl Stamped for Observation {
    fn stamp(&self) -> Stamp {
        match self {
            Observation::Gripper(s) => s.stamp,
            Observation::Base(s) | Observation::Tool(s) => s.stamp,
            Observation::Twist(s) => s.stamp,
            Observation::Joints(s) => s.stamp,
            Observation::Clearance(s) => s.stamp,
            Observation::Frame(f) => f.stamp,
        }
    }
}

impl EvidenceBuffer {
    /// Adds an observation, whatever it is.
    ///
    /// # Errors
    /// As [`EvidenceBuffer::push_gripper`] and [`EvidenceBuffer::push_frame`].
    pub fn push(&mut self, observation: Observation, now: Stamp) -> Result<Taken, EvaluatorError> {
        match observation {
            Observation::Gripper(s) => self.push_gripper(s, now),
            Observation::Base(s) => self.push_base(s, now),
            Observation::Tool(s) => self.push_tool(s, now),
            Observation::Twist(s) => self.push_twist(s, now),
            Observation::Joints(s) => self.push_joints(s, now),
            Observation::Clearance(s) => self.push_clearance(s, now),
            Observation::Frame(f) => self.push_frame(f, now).map(|(taken, _)| taken),
        }
    }
}

/// Who provides observations.
pub trait ObservationProvider: Send {
    /// Its name: live, recorded, external.
    fn name(&self) -> &'static str;

    /// What was observed up to `until` and not taken yet, by the stamps of each kind in order.
    fn take(&mut self, until: Stamp) -> Vec<Observation>;
}

/// Takes over what a provider has; returns why some of it can't be used.
pub fn take_over(
    provider: &mut dyn ObservationProvider,
    buffer: &mut EvidenceBuffer,
    now: Stamp,
) -> Vec<EvaluatorError> {
    provider
        .take(now)
        .into_iter()
        .filter_map(|observation| buffer.push(observation, now).err())
        .collect()
}

/// What others hand over while time passes: live topics and outside sources. What is too much is left out, the
/// oldest first.
#[derive(Debug)]
pub struct HandedIn {
    name: &'static str,
    waiting: VecDeque<Observation>,
    left_out: u64,
}

impl HandedIn {
    /// By the subscriptions of a node.
    pub fn live() -> Self {
        HandedIn::of("live")
    }

    /// By a source of the deployer.
    pub fn external() -> Self {
        HandedIn::of("external")
    }

    fn of(name: &'static str) -> Self {
        HandedIn {
            name,
            waiting: VecDeque::new(),
            left_out: 0,
        }
    }

    /// Takes one in.
    pub fn hand_in(&mut self, observation: Observation) {
        if self.waiting.len() >= MAX_WAITING {
            self.waiting.pop_front();
            self.left_out += 1;
        }
        self.waiting.push_back(observation);
    }

    /// How many were left out.
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }
}

impl ObservationProvider for HandedIn {
    fn name(&self) -> &'static str {
        self.name
    }

    fn take(&mut self, until: Stamp) -> Vec<Observation> {
        let (mut now, later): (Vec<_>, Vec<_>) =
            self.waiting.drain(..).partition(|o| o.stamp() <= until);
        self.waiting = later.into();
        now.sort_by_key(Stamped::stamp);
        now
    }
}

/// A recording: one observation in JSON a line, in any order.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    rest: VecDeque<Observation>,
}

impl Recorded {
    /// Reads a recording.
    ///
    /// # Errors
    /// [`EvaluatorError::InvalidRequest`] with the number of the line that is wrong.
    pub fn read(lines: &str) -> Result<Self, EvaluatorError> {
        let bad = |number: usize, reason: String| {
            EvaluatorError::InvalidRequest {
            reason: format!(
                "line {} of the recording can't be used: {reason}; each line is one observation in JSON",
                number + 1
            ),
        }
        };
        let mut all = Vec::new();
        for (number, line) in lines.lines().enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            if line.len() > MAX_LINE {
                return Err(bad(
                    number,
                    format!("it has {} bytes, the limit is {MAX_LINE}", line.len()),
                ));
            }
            if all.len() >= MAX_WAITING {
                return Err(bad(
                    number,
                    format!("there are more than {MAX_WAITING} observations"),
                ));
            }
            let observation: Observation =
                serde_json::from_str(line).map_err(|e| bad(number, e.to_string()))?;
            all.push(observation);
        }
        all.sort_by_key(Stamped::stamp);
        Ok(Recorded { rest: all.into() })
    }

    /// Writes observations as a recording.
    pub fn write<'a>(observations: impl IntoIterator<Item = &'a Observation>) -> String {
        let mut out = String::new();
        for observation in observations {
            // Samples are numbers and texts only: this can't fail.
            out.push_str(&serde_json::to_string(observation).unwrap_or_default());
            out.push('\n');
        }
        out
    }
}

impl ObservationProvider for Recorded {
    fn name(&self) -> &'static str {
        "recorded"
    }

    fn take(&mut self, until: Stamp) -> Vec<Observation> {
        let count = self.rest.partition_point(|o| o.stamp() <= until);
        self.rest.drain(..count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EvaluatorConfig;

    fn gripper(seconds: f64, width: f64) -> Observation {
        Observation::Gripper(GripperSample {
            stamp: Stamp::from_secs_f64(seconds),
            width,
            effort: Some(1.5),
        })
    }

    fn at(seconds: f64) -> Stamp {
        Stamp::from_secs_f64(seconds)
    }

    #[test]
    fn a_recording_gives_what_a_live_source_gave() {
        let said = [
            gripper(12.0, 0.02),
            gripper(10.0, 0.05),
            gripper(11.0, 0.03),
        ];
        let mut live = HandedIn::live();
        said.iter().for_each(|o| live.hand_in(o.clone()));
        let mut recorded = Recorded::read(&Recorded::write(&said)).unwrap();
        let config = EvaluatorConfig::default();
        let mut buffers = [
            EvidenceBuffer::new(config.clone()),
            EvidenceBuffer::new(config),
        ];
        for now in [at(9.0), at(11.5), at(12.5)] {
            assert!(take_over(&mut live, &mut buffers[0], now).is_empty());
            assert!(take_over(&mut recorded, &mut buffers[1], now).is_empty());
            let [a, b] = &buffers;
            assert!(a.gripper().eq(b.gripper()));
        }
        // What came out of order was put in order by its stamps.
        assert_eq!(buffers[0].gripper().count(), 3);
        assert_eq!((live.name(), recorded.name()), ("live", "recorded"));
    }

    #[test]
    fn nothing_in_range_survives_a_recording() {
        let open = Observation::Clearance(ClearanceSample {
            stamp: at(1.0),
            distance: f64::INFINITY,
        });
        let written = Recorded::write([&open]);
        assert_eq!(Recorded::read(&written).unwrap().take(at(2.0)), [open]);
    }

    #[test]
    fn bad_lines_are_named_and_bad_samples_refused() {
        let good = Recorded::write(&[gripper(1.0, 0.1)]);
        for bad in ["{", "7", "{\"wings\": {}}", "{\"gripper\": {\"stamp\": 1}}"] {
            let error = Recorded::read(&format!("{good}\n{bad}")).unwrap_err();
            assert!(error.to_string().contains("line 3"), "{error}");
        }
        let mut outside = HandedIn::external();
        outside.hand_in(gripper(1.0, f64::NAN));
        outside.hand_in(gripper(2.0, 0.1));
        let mut buffer = EvidenceBuffer::new(EvaluatorConfig::default());
        assert_eq!(take_over(&mut outside, &mut buffer, at(3.0)).len(), 1);
        assert_eq!(buffer.gripper().count(), 1);
    }

    #[test]
    fn what_is_handed_in_is_bounded() {
        let mut source = HandedIn::external();
        for i in 0..MAX_WAITING + 10 {
            source.hand_in(gripper(i as f64, 0.1));
        }
        assert_eq!(source.left_out(), 10);
        assert_eq!(source.take(Stamp(i64::MAX)).len(), MAX_WAITING);
    }
}

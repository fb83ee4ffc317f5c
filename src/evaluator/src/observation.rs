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
const MAX_LINE: usize = 1024 * 1024;

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

impl Observation {
    /// What it is, in words.
    pub const fn name(&self) -> &'static str {
        match self {
            Observation::Gripper(_) => "gripper",
            Observation::Base(_) => "base pose",
            Observation::Tool(_) => "tool pose",
            Observation::Twist(_) => "odometry",
            Observation::Joints(_) => "joint states",
            Observation::Clearance(_) => "scan",
            Observation::Frame(_) => "detections",
        }
    }

    /// An observation from its line in JSON, as in a recording.
    ///
    /// # Errors
    /// Why it is none.
    pub fn from_line(line: &str) -> Result<Self, String> {
        if line.len() > MAX_LINE {
            return Err(format!(
                "it has {} bytes, the limit is {MAX_LINE}",
                line.len()
            ));
        }
        serde_json::from_str(line).map_err(|e| e.to_string())
    }
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
    /// Adds an observation, whatever it is. Returns what became of it and how many of its detections were left out.
    ///
    /// # Errors
    /// As [`EvidenceBuffer::push_gripper`] and [`EvidenceBuffer::push_frame`].
    pub fn push(
        &mut self,
        observation: Observation,
        now: Stamp,
    ) -> Result<(Taken, usize), EvaluatorError> {
        let taken = match observation {
            Observation::Gripper(s) => self.push_gripper(s, now),
            Observation::Base(s) => self.push_base(s, now),
            Observation::Tool(s) => self.push_tool(s, now),
            Observation::Twist(s) => self.push_twist(s, now),
            Observation::Joints(s) => self.push_joints(s, now),
            Observation::Clearance(s) => self.push_clearance(s, now),
            Observation::Frame(f) => return self.push_frame(f, now),
        };
        taken.map(|taken| (taken, 0))
    }
}

impl EvidenceBuffer {
    /// Everything that is kept and stamped in this time, each kind in the order of its stamps: a recording of it.
    pub fn observations(&self, since: Stamp, until: Stamp) -> Vec<Observation> {
        let all = self
            .gripper()
            .copied()
            .map(Observation::Gripper)
            .chain(self.base().copied().map(Observation::Base))
            .chain(self.tool().copied().map(Observation::Tool))
            .chain(self.twist().copied().map(Observation::Twist))
            .chain(self.joints().cloned().map(Observation::Joints))
            .chain(self.clearance().copied().map(Observation::Clearance))
            .chain(self.frames().cloned().map(Observation::Frame));
        all.filter(|o| o.stamp() >= since && o.stamp() <= until)
            .collect()
    }
}

/// Who provides observations.
pub trait ObservationProvider: Send {
    /// Which one it is.
    fn kind(&self) -> ProviderKind;

    /// What was observed and not taken yet, sorted by stamps. A recording gives what is stamped up to `now`; whoever
    /// observes at present gives everything, and it is for the buffer to refuse what is stamped ahead of time.
    fn take(&mut self, now: Stamp) -> Vec<Observation>;

    /// Takes one in, where others hand it over; a recording needs none and drops it.
    fn hand_in(&mut self, observation: Observation);
}

/// Which provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProviderKind {
    /// Topics of the robot's sensors.
    #[default]
    Live,
    /// A file.
    Recorded,
    /// A source of the deployer.
    External,
}

impl ProviderKind {
    /// All of them.
    pub const ALL: [ProviderKind; 3] = [
        ProviderKind::Live,
        ProviderKind::Recorded,
        ProviderKind::External,
    ];

    /// Its name in parameters.
    pub const fn name(self) -> &'static str {
        match self {
            ProviderKind::Live => "live",
            ProviderKind::Recorded => "recorded",
            ProviderKind::External => "external",
        }
    }

    /// The provider of a name.
    ///
    /// # Errors
    /// [`EvaluatorError::Config`] that names those there are.
    pub fn of(name: &str) -> Result<Self, EvaluatorError> {
        ProviderKind::ALL
            .into_iter()
            .find(|k| k.name() == name)
            .ok_or_else(|| EvaluatorError::Config {
                field: "observations",
                reason: format!(
                    "it is \"{}\"; give one of {}",
                    name.chars().take(64).collect::<String>(),
                    ProviderKind::ALL.map(ProviderKind::name).join(", ")
                ),
            })
    }
}

/// What became of one observation that was taken over.
#[derive(Clone, Debug, PartialEq)]
pub struct TakenOver {
    /// What kind of observation.
    pub what: &'static str,
    /// What became of it and how many of its detections were left out, or why it can't be used.
    pub result: Result<(Taken, usize), EvaluatorError>,
}

/// Takes over what a provider has; returns what became of each.
pub fn take_over(
    provider: &mut dyn ObservationProvider,
    buffer: &mut EvidenceBuffer,
    now: Stamp,
) -> Vec<TakenOver> {
    provider
        .take(now)
        .into_iter()
        .map(|observation| TakenOver {
            what: observation.name(),
            result: buffer.push(observation, now),
        })
        .collect()
}

/// What others hand over while time passes: live topics and outside sources. What is too much is left out, the
/// oldest first.
#[derive(Debug)]
pub struct HandedIn {
    kind: ProviderKind,
    waiting: VecDeque<Observation>,
    left_out: u64,
}

impl HandedIn {
    /// By the subscriptions of a node.
    pub fn live() -> Self {
        HandedIn::of(ProviderKind::Live)
    }

    /// By a source of the deployer.
    pub fn external() -> Self {
        HandedIn::of(ProviderKind::External)
    }

    fn of(kind: ProviderKind) -> Self {
        HandedIn {
            kind,
            waiting: VecDeque::new(),
            left_out: 0,
        }
    }

    /// How many were left out because too many waited.
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }
}

impl ObservationProvider for HandedIn {
    fn kind(&self) -> ProviderKind {
        self.kind
    }

    fn take(&mut self, _now: Stamp) -> Vec<Observation> {
        let mut all: Vec<_> = self.waiting.drain(..).collect();
        all.sort_by_key(Stamped::stamp);
        all
    }

    fn hand_in(&mut self, observation: Observation) {
        if self.waiting.len() >= MAX_WAITING {
            self.waiting.pop_front();
            self.left_out += 1;
        }
        self.waiting.push_back(observation);
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
            if all.len() >= MAX_WAITING {
                return Err(bad(
                    number,
                    format!("there are more than {MAX_WAITING} observations"),
                ));
            }
            all.push(Observation::from_line(line).map_err(|e| bad(number, e))?);
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
    fn kind(&self) -> ProviderKind {
        ProviderKind::Recorded
    }

    fn take(&mut self, now: Stamp) -> Vec<Observation> {
        let count = self.rest.partition_point(|o| o.stamp() <= now);
        self.rest.drain(..count).collect()
    }

    fn hand_in(&mut self, _observation: Observation) {}
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
        let mut recorded = Recorded::read(&Recorded::write(&said)).unwrap();
        let config = EvaluatorConfig::default();
        let mut buffers = [
            EvidenceBuffer::new(config.clone()),
            EvidenceBuffer::new(config),
        ];
        for (before, now) in [(0.0, at(9.0)), (9.0, at(11.5)), (11.5, at(12.5))] {
            let new = |o: &&Observation| o.stamp() > at(before) && o.stamp() <= now;
            said.iter()
                .filter(new)
                .for_each(|o| live.hand_in(o.clone()));
            let lived = take_over(&mut live, &mut buffers[0], now);
            let played = take_over(&mut recorded, &mut buffers[1], now);
            assert_eq!(lived, played);
            assert!(lived.iter().all(|t| t.result.is_ok()), "{lived:?}");
            let [a, b] = &buffers;
            assert!(a.gripper().eq(b.gripper()));
        }
        // What came out of order was put in order by its stamps.
        assert_eq!(buffers[0].gripper().count(), 3);
        let kinds = [live.kind(), recorded.kind(), HandedIn::external().kind()];
        assert_eq!(kinds, ProviderKind::ALL);
        for kind in kinds {
            assert_eq!(ProviderKind::of(kind.name()), Ok(kind));
        }
        let error = ProviderKind::of("dreams").unwrap_err().to_string();
        assert!(error.contains("live, recorded, external"), "{error}");
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
        // Stamped an hour ahead: it is refused now and does not wait.
        outside.hand_in(gripper(3600.0, 0.1));
        let results = take_over(&mut outside, &mut buffer, at(3.0));
        let bad: Vec<_> = results.iter().filter(|t| t.result.is_err()).collect();
        assert_eq!((results.len(), bad.len()), (3, 2), "{results:?}");
        assert!(bad.iter().all(|t| t.what == "gripper"));
        assert_eq!(buffer.gripper().count(), 1);
        assert!(outside.take(at(9999.0)).is_empty());
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

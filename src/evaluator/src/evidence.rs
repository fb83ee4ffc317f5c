//! Bounded, stamped samples of what the evaluator observes itself.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use eh_contract::geometry::Pose;
use eh_contract::perception::DetectionFrame;
use eh_contract::Stamp;
use serde::{Deserialize, Serialize};

use crate::config::EvaluatorConfig;
use crate::error::EvaluatorError;

/// A sample that is older than the newest by more than this tells that the clock was set back; less is
/// disorder.
const CLOCK_STEP: Duration = Duration::from_secs(1);

/// Samples of one kind nearer together than this are thinned out \[ns\].
const THINNING: i64 = 20_000_000;

/// Something with the time of its measurement.
pub trait Stamped {
    /// ROS time of the measurement.
    fn stamp(&self) -> Stamp;
}

macro_rules! stamped {
    ($($name:ident),+) => { $(impl Stamped for $name {
        fn stamp(&self) -> Stamp { self.stamp }
    })+ };
}
stamped!(
    GripperSample,
    PoseSample,
    TwistSample,
    JointSample,
    ClearanceSample,
    DetectionFrame
);

/// The fingers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GripperSample {
    /// Time of the measurement.
    pub stamp: Stamp,
    /// Gap between the fingers \[m\].
    pub width: f64,
    /// Force \[N\]; `None` where it is not reported.
    pub effort: Option<f64>,
}

/// A pose in the map: of the base or of the tool.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PoseSample {
    /// Time of the measurement.
    pub stamp: Stamp,
    /// The pose in the map.
    pub pose: Pose,
}

/// The base's velocity by odometry.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TwistSample {
    /// Time of the measurement.
    pub stamp: Stamp,
    /// Speed on the floor \[m/s\], at least 0.
    pub linear: f64,
    /// Turning rate \[rad/s\].
    pub angular: f64,
}

/// Joints of arm and head.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JointSample {
    /// Time of the measurement.
    pub stamp: Stamp,
    /// Position by joint [rad or m].
    pub positions: BTreeMap<String, f64>,
    /// Velocity by joint [rad/s or m/s]; only where it is reported.
    pub velocities: BTreeMap<String, f64>,
}

/// The nearest obstacle by the laser.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClearanceSample {
    /// Time of the measurement.
    pub stamp: Stamp,
    /// Distance from the base's centre \[m\]; infinity, null in JSON: nothing in range.
    #[serde(deserialize_with = "number_or_infinity")]
    pub distance: f64,
}

fn number_or_infinity<'de, D: serde::Deserializer<'de>>(d: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(d)?.unwrap_or(f64::INFINITY))
}

/// What became of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It was added.
    Added,
    /// It was left out: one like it came just before.
    Thinned,
    /// The clock was set back: it was added and everything before it was dropped.
    ClockSetBack,
}

#[derive(Clone, Debug)]
struct Ring<T> {
    items: VecDeque<T>,
}

impl<T> Default for Ring<T> {
    fn default() -> Self {
        Ring {
            items: VecDeque::new(),
        }
    }
}

impl<T: Stamped> Ring<T> {
    fn push(
        &mut self,
        item: T,
        kind: &'static str,
        now: Stamp,
        limit: usize,
        thinning: i64,
        config: &EvaluatorConfig,
    ) -> Result<Taken, EvaluatorError> {
        let stamp = item.stamp();
        let ahead = stamp.since(now);
        if ahead > config.max_ahead {
            return Err(EvaluatorError::Future {
                kind,
                ahead: ahead.as_secs_f64(),
            });
        }
        let mut taken = Taken::Added;
        if let Some(last) = self.items.back().map(Stamped::stamp) {
            if last.since(stamp) > CLOCK_STEP {
                self.items.clear();
                taken = Taken::ClockSetBack;
            } else if stamp <= last {
                return Err(EvaluatorError::OutOfOrder { kind });
            } else if stamp.0.saturating_sub(last.0) < thinning {
                return Ok(Taken::Thinned);
            }
        }
        self.items.push_back(item);
        while self.items.len() > limit
            || self
                .items
                .front()
                .is_some_and(|f| stamp.since(f.stamp()) > config.horizon)
        {
            self.items.pop_front();
        }
        Ok(taken)
    }
}

/// All samples.
#[derive(Clone, Debug, Default)]
pub struct EvidenceBuffer {
    config: EvaluatorConfig,
    gripper: Ring<GripperSample>,
    base: Ring<PoseSample>,
    tool: Ring<PoseSample>,
    twist: Ring<TwistSample>,
    joints: Ring<JointSample>,
    clearance: Ring<ClearanceSample>,
    frames: Ring<DetectionFrame>,
}

fn finite(kind: &'static str, field: &'static str, value: f64) -> Result<(), EvaluatorError> {
    if value.is_finite() {
        Ok(())
    } else {
        Err(EvaluatorError::NotFinite { kind, field, value })
    }
}

impl EvidenceBuffer {
    /// Creates an empty buffer.
    pub fn new(config: EvaluatorConfig) -> Self {
        EvidenceBuffer {
            config,
            ..EvidenceBuffer::default()
        }
    }

    /// Adds a sample of the fingers.
    ///
    /// # Errors
    /// [`EvaluatorError`] for numbers that are not finite, stamps in the future or out of order.
    pub fn push_gripper(
        &mut self,
        sample: GripperSample,
        now: Stamp,
    ) -> Result<Taken, EvaluatorError> {
        finite("gripper", "width", sample.width)?;
        if let Some(effort) = sample.effort {
            finite("gripper", "effort", effort)?;
        }
        self.gripper.push(
            sample,
            "gripper",
            now,
            self.config.max_samples,
            THINNING,
            &self.config,
        )
    }

    /// Adds a pose of the base in the map.
    ///
    /// # Errors
    /// As [`EvidenceBuffer::push_gripper`].
    pub fn push_base(&mut self, sample: PoseSample, now: Stamp) -> Result<Taken, EvaluatorError> {
        sample.pose.check("base")?;
        self.base.push(
            sample,
            "base_pose",
            now,
            self.config.max_samples,
            THINNING,
            &self.config,
        )
    }

    /// Adds a pose of the tool in the map.
    ///
    /// # Errors
    /// As [`EvidenceBuffer::push_gripper`].
    pub fn push_tool(&mut self, sample: PoseSample, now: Stamp) -> Result<Taken, EvaluatorError> {
        sample.pose.check("tool")?;
        self.tool.push(
            sample,
            "tool_pose",
            now,
            self.config.max_samples,
            THINNING,
            &self.config,
        )
    }

    /// Adds a velocity of the base.
    ///
    /// # Errors
    /// As [`EvidenceBuffer::push_gripper`].
    pub fn push_twist(&mut self, sample: TwistSample, now: Stamp) -> Result<Taken, EvaluatorError> {
        finite("odometry", "linear", sample.linear)?;
        finite("odometry", "angular", sample.angular)?;
        self.twist.push(
            sample,
            "odometry",
            now,
            self.config.max_samples,
            THINNING,
            &self.config,
        )
    }

    /// Adds joint states.
    ///
    /// # Errors
    /// As [`EvidenceBuffer::push_gripper`].
    pub fn push_joints(
        &mut self,
        sample: JointSample,
        now: Stamp,
    ) -> Result<Taken, EvaluatorError> {
        for value in sample.positions.values() {
            finite("joint_states", "position", *value)?;
        }
        for value in sample.velocities.values() {
            finite("joint_states", "velocity", *value)?;
        }
        self.joints.push(
            sample,
            "joint_states",
            now,
            self.config.max_samples,
            THINNING,
            &self.config,
        )
    }

    /// Adds the nearest obstacle; infinity is allowed and means that nothing is in range.
    ///
    /// # Errors
    /// As [`EvidenceBuffer::push_gripper`].
    pub fn push_clearance(
        &mut self,
        sample: ClearanceSample,
        now: Stamp,
    ) -> Result<Taken, EvaluatorError> {
        if sample.distance.is_nan() || sample.distance < 0.0 {
            return Err(EvaluatorError::NotFinite {
                kind: "scan",
                field: "distance",
                value: sample.distance,
            });
        }
        self.clearance.push(
            sample,
            "scan",
            now,
            self.config.max_samples,
            THINNING,
            &self.config,
        )
    }

    /// Adds a frame of detections in the map; malformed detections are left out. Returns what became of
    /// the frame and how many detections were left out. A frame with detections left out proves no
    /// absence: its view is dropped.
    ///
    /// # Errors
    /// As [`EvidenceBuffer::push_gripper`], and for a malformed view.
    pub fn push_frame(
        &mut self,
        mut frame: DetectionFrame,
        now: Stamp,
    ) -> Result<(Taken, usize), EvaluatorError> {
        if let Some(view) = &frame.view {
            view.check()?;
        }
        let before = frame.detections.len();
        frame.detections.retain(|d| d.check().is_ok());
        frame
            .detections
            .sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
        frame.detections.truncate(self.config.max_detections);
        let left_out = before - frame.detections.len();
        if left_out > 0 {
            frame.view = None;
        }
        let taken = self.frames.push(
            frame,
            "detection",
            now,
            self.config.max_frames,
            0,
            &self.config,
        )?;
        Ok((taken, left_out))
    }

    /// Samples of the fingers, oldest first.
    pub fn gripper(&self) -> impl DoubleEndedIterator<Item = &GripperSample> {
        self.gripper.items.iter()
    }

    /// Poses of the base, oldest first.
    pub fn base(&self) -> impl DoubleEndedIterator<Item = &PoseSample> {
        self.base.items.iter()
    }

    /// Poses of the tool, oldest first.
    pub fn tool(&self) -> impl DoubleEndedIterator<Item = &PoseSample> {
        self.tool.items.iter()
    }

    /// Velocities of the base, oldest first.
    pub fn twist(&self) -> impl DoubleEndedIterator<Item = &TwistSample> {
        self.twist.items.iter()
    }

    /// Joint states, oldest first.
    pub fn joints(&self) -> impl DoubleEndedIterator<Item = &JointSample> {
        self.joints.items.iter()
    }

    /// Nearest obstacles, oldest first.
    pub fn clearance(&self) -> impl DoubleEndedIterator<Item = &ClearanceSample> {
        self.clearance.items.iter()
    }

    /// Frames of detections, oldest first.
    pub fn frames(&self) -> impl DoubleEndedIterator<Item = &DetectionFrame> {
        self.frames.items.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Stamp = Stamp(100_000_000_000);

    fn sample(seconds: f64) -> GripperSample {
        GripperSample {
            stamp: Stamp::from_secs_f64(seconds),
            width: 0.05,
            effort: None,
        }
    }

    #[test]
    fn what_cannot_be_evidence_is_refused() {
        let mut b = EvidenceBuffer::new(EvaluatorConfig::default());
        assert_eq!(b.push_gripper(sample(99.0), NOW), Ok(Taken::Added));
        assert_eq!(b.push_gripper(sample(99.001), NOW), Ok(Taken::Thinned));
        assert!(matches!(
            b.push_gripper(sample(98.5), NOW),
            Err(EvaluatorError::OutOfOrder { .. })
        ));
        assert!(matches!(
            b.push_gripper(sample(101.0), NOW),
            Err(EvaluatorError::Future { .. })
        ));
        let nan = GripperSample {
            width: f64::NAN,
            ..sample(99.5)
        };
        assert!(matches!(
            b.push_gripper(nan, NOW),
            Err(EvaluatorError::NotFinite { .. })
        ));
        // 90 s is more than a second before 99 s: the clock was set back.
        assert_eq!(b.push_gripper(sample(90.0), NOW), Ok(Taken::ClockSetBack));
        assert_eq!(b.gripper().count(), 1);
    }

    proptest! {
        #[test]
        fn memory_is_bounded_whatever_comes(times in proptest::collection::vec(0.0f64..1000.0, 0..300)) {
            let config = EvaluatorConfig { max_samples: 16, ..EvaluatorConfig::default() };
            let mut b = EvidenceBuffer::new(config);
            for t in times {
                let _ = b.push_gripper(sample(t), Stamp::from_secs_f64(1000.0));
                let stamps: Vec<Stamp> = b.gripper().map(|s| s.stamp).collect();
                prop_assert!(stamps.len() <= 16);
                prop_assert!(stamps.windows(2).all(|w| w[0] < w[1]));
            }
        }
    }
}

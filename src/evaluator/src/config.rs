//! Every threshold of the evaluator with its default and where it comes from.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::EvaluatorError;

/// What the judge has to know of the body.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Embodiment {
    /// Fingers nearer than this are closed on nothing \[m\]; twice a gripper's position tolerance.
    pub closed_width: f64,
    /// Fingers further apart than this are open \[m\].
    pub open_width: f64,
    /// Whether the driver reports the fingers' force.
    pub effort_reported: bool,
    /// Least force of a grip \[N\]; below it the fingers only touch.
    pub contact_effort: f64,
    /// Radius of the base's footprint \[m\].
    pub footprint_radius: f64,
    /// Joint values \[rad\] of the arm's named configurations.
    pub arm_poses: BTreeMap<String, BTreeMap<String, f64>>,
}

impl Default for Embodiment {
    fn default() -> Self {
        Embodiment {
            closed_width: 0.004,
            open_width: 0.09,
            effort_reported: true,
            contact_effort: 1.0,
            footprint_radius: 0.27,
            arm_poses: BTreeMap::new(),
        }
    }
}

impl Embodiment {
    /// Checks every number.
    ///
    /// # Errors
    /// [`EvaluatorError::Config`].
    pub fn check(&self) -> Result<(), EvaluatorError> {
        let bad =
            |field: &'static str, reason: String| Err(EvaluatorError::Config { field, reason });
        for (field, value) in [
            ("closed_width", self.closed_width),
            ("open_width", self.open_width),
            ("contact_effort", self.contact_effort),
            ("footprint_radius", self.footprint_radius),
        ] {
            if !(value.is_finite() && value >= 0.0) {
                return bad(
                    field,
                    format!("it is {value}; it must be a finite number of at least 0"),
                );
            }
        }
        if self.closed_width >= self.open_width {
            return bad(
                "open_width",
                format!(
                    "it is {} m and closed_width is {} m; it must be larger",
                    self.open_width, self.closed_width
                ),
            );
        }
        for (pose, joints) in &self.arm_poses {
            if joints.is_empty() || joints.values().any(|v| !v.is_finite()) {
                return bad(
                    "arm_poses",
                    format!("\"{pose}\" has no joints or a value that is not finite"),
                );
            }
        }
        Ok(())
    }
}

/// Thresholds and times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EvaluatorConfig {
    /// Version of this configuration, as it stands in verdicts.
    pub version: String,
    /// Oldest evidence that counts at the verdict.
    pub max_evidence_age: Duration,
    /// Longest wait for evidence that a predicate can't do without.
    pub evidence_timeout: Duration,
    /// Longest wait for evidence that only adds to it.
    pub extra_timeout: Duration,
    /// Frames of detections to wait for; one could be a misreading.
    pub frames: usize,
    /// Frames that looked at a place and found nothing before that counts as absence. A detector that finds
    /// three quarters misses six in a row once in 4000 times, one that finds 95 % never.
    pub absence_frames: usize,
    /// Oldest sight of an object that still tells where it was at the start.
    pub baseline_window: Duration,
    /// A start event that comes later than this finds no baseline any more.
    pub baseline_delay: Duration,
    /// Largest gap to a target where the predicate names none \[m\]; as in the scene graph.
    pub near_distance: f64,
    /// Largest distance from a place where the predicate names none \[m\]; as in the scene graph.
    pub place_tolerance: f64,
    /// Sights nearer together than this are of one object \[m\]: detector noise and localisation.
    pub same_place: f64,
    /// How far from where it is expected an object is still taken for the one meant \[m\].
    pub search_radius: f64,
    /// How far from the tool something held is seen \[m\].
    pub in_hand: f64,
    /// Least displacement that counts as moved where the predicate names none \[m\].
    pub moved_distance: f64,
    /// Least height that counts as lifted where the predicate names none \[m\].
    pub lifted_height: f64,
    /// How far an object's bottom may be from the top of what it stands on \[m\].
    pub support_height: f64,
    /// How far its centre may be beyond the edge \[m\].
    pub support_margin: f64,
    /// Oldest detection that counts as visible where the predicate names none \[s\].
    pub visible_age: f64,
    /// Share of a place that the camera has to cover.
    pub covered_share: f64,
    /// Standstill of the base \[m/s\].
    pub still_linear: f64,
    /// Standstill of the base \[rad/s\].
    pub still_angular: f64,
    /// Standstill of a joint \[rad/s\].
    pub still_joint: f64,
    /// Least time of standstill where the predicate names none \[s\].
    pub still_duration: f64,
    /// Largest deviation of a joint from a named configuration \[rad\].
    pub arm_tolerance: f64,
    /// How far a stamp may lie in the future.
    pub max_ahead: Duration,
    /// How long samples are kept.
    pub horizon: Duration,
    /// Most samples of one kind.
    pub max_samples: usize,
    /// Most frames of detections.
    pub max_frames: usize,
    /// Most detections of one frame; those with the lowest score are left out.
    pub max_detections: usize,
    /// Most runs that are remembered.
    pub max_runs: usize,
    /// Whether there is a judge that reads the post-condition's text, so that a skill may do without predicates.
    pub reads_text: bool,
}

impl Default for EvaluatorConfig {
    fn default() -> Self {
        EvaluatorConfig {
            version: "1.0.0".into(),
            max_evidence_age: Duration::from_secs(10),
            evidence_timeout: Duration::from_secs(3),
            extra_timeout: Duration::from_secs(1),
            frames: 3,
            absence_frames: 6,
            baseline_window: Duration::from_secs(30),
            baseline_delay: Duration::from_secs(2),
            near_distance: 0.9,
            place_tolerance: 0.35,
            same_place: 0.12,
            search_radius: 0.35,
            in_hand: 0.20,
            moved_distance: 0.10,
            lifted_height: 0.05,
            support_height: 0.07,
            support_margin: 0.03,
            visible_age: 10.0,
            covered_share: 0.5,
            still_linear: 0.02,
            still_angular: 0.04,
            still_joint: 0.05,
            still_duration: 0.3,
            arm_tolerance: 0.08,
            max_ahead: Duration::from_millis(500),
            horizon: Duration::from_secs(120),
            max_samples: 4096,
            max_frames: 600,
            max_detections: 256,
            max_runs: 256,
            reads_text: false,
        }
    }
}

impl EvaluatorConfig {
    /// Checks every number.
    ///
    /// # Errors
    /// [`EvaluatorError::Config`].
    pub fn check(&self) -> Result<(), EvaluatorError> {
        let bad =
            |field: &'static str, reason: String| Err(EvaluatorError::Config { field, reason });
        for (field, value, high) in [
            ("near_distance", self.near_distance, 10.0),
            ("place_tolerance", self.place_tolerance, 10.0),
            ("same_place", self.same_place, 1.0),
            ("search_radius", self.search_radius, 5.0),
            ("in_hand", self.in_hand, 1.0),
            ("moved_distance", self.moved_distance, 5.0),
            ("lifted_height", self.lifted_height, 2.0),
            ("support_height", self.support_height, 0.5),
            ("support_margin", self.support_margin, 0.5),
            ("visible_age", self.visible_age, 3600.0),
            ("covered_share", self.covered_share, 1.0),
            ("still_linear", self.still_linear, 1.0),
            ("still_angular", self.still_angular, 3.0),
            ("still_joint", self.still_joint, 3.0),
            ("still_duration", self.still_duration, 60.0),
            ("arm_tolerance", self.arm_tolerance, 3.0),
        ] {
            if !(value.is_finite() && (0.0..=high).contains(&value)) {
                return bad(field, format!("it is {value}; it must lie in 0 to {high}"));
            }
        }
        for (field, value) in [
            ("max_evidence_age", self.max_evidence_age),
            ("evidence_timeout", self.evidence_timeout),
            ("horizon", self.horizon),
        ] {
            if value.is_zero() || value > Duration::from_secs(3600) {
                return bad(
                    field,
                    format!(
                        "it is {} s; it must lie above 0 and at most at 3600 s",
                        value.as_secs_f64()
                    ),
                );
            }
        }
        for (field, value) in [
            ("frames", self.frames),
            ("absence_frames", self.absence_frames),
            ("max_samples", self.max_samples),
            ("max_frames", self.max_frames),
            ("max_detections", self.max_detections),
            ("max_runs", self.max_runs),
        ] {
            if value == 0 || value > 1_000_000 {
                return bad(field, format!("it is {value}; it must lie in 1 to 1000000"));
            }
        }
        Ok(())
    }
}

//! Every threshold of the scene graph with its default and where it comes from.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::SceneError;

/// Thresholds of tracking, relations and bounds of memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SceneConfig {
    /// Standard deviation of a detection that brings no covariance \[m\]; a depth camera at 3 m.
    pub default_std: f64,
    /// Error that does not average out \[m\]: calibration, localisation.
    pub floor_std: f64,
    /// Heading error of the localisation \[rad\]; times the range it widens the gate.
    pub heading_std: f64,
    /// Growth of an object's uncertainty while unseen [m/√s]; people push things about.
    pub drift: f64,
    /// Largest uncertainty that drift adds \[m\].
    pub drift_limit: f64,
    /// Largest squared Mahalanobis distance of a match: the 99.7 % quantile of χ² with 3 degrees.
    pub gate: f64,
    /// Largest distance of a match whatever the covariances say \[m\].
    pub gate_limit: f64,
    /// Sightings that make a new object; one could be a false detection.
    pub confirm_hits: u32,
    /// Within this time.
    pub confirm_window: Duration,
    /// Lowest score of a detection that counts.
    pub min_score: f64,
    /// Frames in which an object was looked for and not found before it may be found elsewhere.
    pub relocate_misses: u32,
    /// How far an object may have moved unseen and still be recognised \[m\].
    pub relocate_radius: f64,
    /// How near its old place a retired object that is seen again keeps its name \[m\].
    pub revive_radius: f64,
    /// Probability that a detector finds an object in free view.
    pub detection_probability: f64,
    /// Least time between two pieces of negative evidence for one object; frames of one view are not
    /// independent.
    pub negative_interval: Duration,
    /// Share of the field of view in which an object is expected to be found; less than 1, since at the
    /// border only a part of it is in the image.
    pub view_share: f64,
    /// Highest confidence that sightings can give.
    pub max_confidence: f64,
    /// An object below this confidence is retired.
    pub retire_below: f64,
    /// An object moved when it is further than this from where it was at its last version \[m\].
    pub significant_move: f64,
    /// The same for the robot \[m\].
    pub significant_robot_move: f64,
    /// The same for the robot's heading \[rad\].
    pub significant_robot_turn: f64,
    /// Classes that are persons.
    pub person_classes: Vec<String>,
    /// For classes that go by themselves: after how long unseen one is only half as surely where it was.
    pub half_lives: BTreeMap<String, Duration>,
    /// Largest height difference between an object's bottom and a top that it begins to stand on \[m\].
    pub on_height_enter: f64,
    /// At which it no longer stands on it \[m\].
    pub on_height_leave: f64,
    /// How far beyond the edge its centre may be when it begins to stand on it \[m\].
    pub on_margin_enter: f64,
    /// At which it no longer stands on it \[m\].
    pub on_margin_leave: f64,
    /// How far outside its room something may be before it is in another one \[m\].
    pub room_margin: f64,
    /// Gap between two objects at which they begin to be near \[m\].
    pub near_enter: f64,
    /// At which they no longer are \[m\].
    pub near_leave: f64,
    /// Gap between the robot and something at which it begins to be near \[m\].
    pub robot_near_enter: f64,
    /// At which it no longer is \[m\].
    pub robot_near_leave: f64,
    /// Fingers nearer than this are closed on nothing \[m\].
    pub closed_width: f64,
    /// Fingers further apart than this are open \[m\].
    pub open_width: f64,
    /// Whether readings of the gripper carry the fingers' force.
    pub effort_reported: bool,
    /// Least force of a grip \[N\].
    pub contact_effort: f64,
    /// How long the fingers have to do the same before it counts: longer than they pass through the middle
    /// between open and closed, shorter than a hand needs to leave.
    pub grip_settle: Duration,
    /// How far outside an object's box the tool may be when the fingers close on it \[m\]: the errors of the
    /// detection and of the transforms.
    pub grip_margin: f64,
    /// How long before the fingers closed an object may have been seen last: an approach, with the arm in
    /// the camera's view.
    pub grip_memory: Duration,
    /// Most detections of one frame; those with the lowest score are left out.
    pub max_detections: usize,
    /// Most objects.
    pub max_objects: usize,
    /// Most candidates for new objects.
    pub max_candidates: usize,
    /// Most retired objects that are kept for clients that want to know what became of them.
    pub max_retired: usize,
    /// Most runs whose effects are remembered as applied.
    pub max_applied: usize,
    /// Oldest frame that is taken.
    pub max_frame_age: Duration,
    /// How far a stamp may lie in the future.
    pub max_ahead: Duration,
}

impl Default for SceneConfig {
    fn default() -> Self {
        SceneConfig {
            default_std: 0.03,
            floor_std: 0.015,
            heading_std: 0.008,
            drift: 0.002,
            drift_limit: 0.05,
            gate: 13.93,
            gate_limit: 0.40,
            confirm_hits: 2,
            confirm_window: Duration::from_secs(3),
            min_score: 0.3,
            relocate_misses: 2,
            relocate_radius: 1.5,
            revive_radius: 0.25,
            detection_probability: 0.7,
            negative_interval: Duration::from_millis(200),
            view_share: 0.85,
            max_confidence: 0.99,
            retire_below: 0.05,
            significant_move: 0.03,
            significant_robot_move: 0.1,
            significant_robot_turn: 0.2,
            person_classes: vec!["person".into()],
            // Who stands or sits stays for a minute or so; who walks is soon seen elsewhere or not at all.
            half_lives: [("person".into(), Duration::from_secs(60))].into(),
            on_height_enter: 0.06,
            on_height_leave: 0.10,
            on_margin_enter: 0.02,
            on_margin_leave: 0.06,
            room_margin: 0.15,
            near_enter: 0.3,
            near_leave: 0.4,
            robot_near_enter: 0.9,
            robot_near_leave: 1.0,
            closed_width: 0.004,
            open_width: 0.09,
            effort_reported: true,
            contact_effort: 1.0,
            grip_settle: Duration::from_millis(400),
            grip_margin: 0.02,
            grip_memory: Duration::from_secs(60),
            max_detections: 256,
            max_objects: 20_000,
            max_candidates: 256,
            max_retired: 256,
            max_applied: 4096,
            max_frame_age: Duration::from_secs(5),
            max_ahead: Duration::from_millis(500),
        }
    }
}

impl SceneConfig {
    /// Checks that every number is usable and that thresholds with hysteresis are in order.
    ///
    /// # Errors
    /// [`SceneError::Config`] with the field, the value and the limit.
    pub fn check(&self) -> Result<(), SceneError> {
        let bad = |field: &'static str, reason: String| Err(SceneError::Config { field, reason });
        for (field, value, low, high) in [
            ("default_std", self.default_std, 1e-4, 2.0),
            ("floor_std", self.floor_std, 1e-4, 2.0),
            ("heading_std", self.heading_std, 0.0, 1.0),
            ("drift", self.drift, 0.0, 1.0),
            ("drift_limit", self.drift_limit, 0.0, 2.0),
            ("gate", self.gate, 1.0, 100.0),
            ("gate_limit", self.gate_limit, 0.01, 5.0),
            ("min_score", self.min_score, 0.0, 1.0),
            ("relocate_radius", self.relocate_radius, 0.0, 20.0),
            ("revive_radius", self.revive_radius, 0.0, 5.0),
            (
                "detection_probability",
                self.detection_probability,
                0.01,
                0.99,
            ),
            ("view_share", self.view_share, 0.1, 1.0),
            ("max_confidence", self.max_confidence, 0.5, 0.9999),
            ("retire_below", self.retire_below, 0.0, 0.5),
            ("significant_move", self.significant_move, 1e-3, 5.0),
            (
                "significant_robot_move",
                self.significant_robot_move,
                1e-3,
                5.0,
            ),
            (
                "significant_robot_turn",
                self.significant_robot_turn,
                1e-3,
                3.2,
            ),
            ("room_margin", self.room_margin, 0.0, 2.0),
            ("closed_width", self.closed_width, 0.0, 10.0),
            ("open_width", self.open_width, 0.0, 10.0),
            ("contact_effort", self.contact_effort, 0.0, 1000.0),
            ("grip_margin", self.grip_margin, 0.0, 0.5),
        ] {
            if !(value.is_finite() && (low..=high).contains(&value)) {
                return bad(
                    field,
                    format!("it is {value}; it must lie in {low} to {high}"),
                );
            }
        }
        for (field, enter, leave) in [
            (
                "on_height_leave",
                self.on_height_enter,
                self.on_height_leave,
            ),
            (
                "on_margin_leave",
                self.on_margin_enter,
                self.on_margin_leave,
            ),
            ("near_leave", self.near_enter, self.near_leave),
            (
                "robot_near_leave",
                self.robot_near_enter,
                self.robot_near_leave,
            ),
            ("open_width", self.closed_width, self.open_width),
        ] {
            if !(enter.is_finite() && leave.is_finite() && enter >= 0.0 && leave >= enter) {
                return bad(
                    field,
                    format!("it is {leave} while entering is at {enter}; it must not be smaller"),
                );
            }
        }
        for (field, value) in [
            ("max_detections", self.max_detections),
            ("max_objects", self.max_objects),
            ("max_candidates", self.max_candidates),
            ("max_applied", self.max_applied),
        ] {
            if value == 0 || value > 10_000_000 {
                return bad(
                    field,
                    format!("it is {value}; it must lie in 1 to 10000000"),
                );
            }
        }
        if let Some((class, _)) = self.half_lives.iter().find(|(_, time)| time.is_zero()) {
            return bad(
                "half_lives",
                format!("the one of {class} is 0; it must be longer, or be left out"),
            );
        }
        if self.confirm_hits == 0 {
            return bad("confirm_hits", "it is 0; it must be at least 1".into());
        }
        Ok(())
    }
}

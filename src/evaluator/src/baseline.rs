//! How things were when a run started.

use eh_contract::geometry::Vec3;
use eh_contract::perception::Detection;
use eh_contract::Stamp;

use crate::config::EvaluatorConfig;
use crate::evidence::{EvidenceBuffer, GripperSample, PoseSample};

/// Samples this long after the start still count as before it \[ns\]: nothing moves so soon.
const SLACK: i64 = 50_000_000;

/// Most sights that are kept.
const MAX_SIGHTS: usize = 512;

/// The newest sight of one object before the start.
#[derive(Clone, Debug, PartialEq)]
pub struct Sight {
    /// When.
    pub stamp: Stamp,
    /// The detection, in the map.
    pub detection: Detection,
}

/// What was observed before a run's start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Baseline {
    /// Time of the start.
    pub stamp: Stamp,
    /// Where the base was.
    pub base: Option<PoseSample>,
    /// Where the tool was.
    pub tool: Option<PoseSample>,
    /// How the fingers were.
    pub gripper: Option<GripperSample>,
    /// The objects that were seen, newest sight of each.
    pub sights: Vec<Sight>,
}

impl Baseline {
    /// Takes the baseline of a run that starts at `start` from what was observed up to then.
    pub fn take(buffer: &EvidenceBuffer, start: Stamp, config: &EvaluatorConfig) -> Self {
        let until = Stamp(start.0.saturating_add(SLACK));
        let recent = |stamp: Stamp| stamp <= until && start.since(stamp) <= config.baseline_delay;
        let mut sights: Vec<Sight> = Vec::new();
        let frames = buffer
            .frames()
            .rev()
            .filter(|f| f.stamp <= until && start.since(f.stamp) <= config.baseline_window);
        for frame in frames {
            let newer = sights.len();
            for detection in &frame.detections {
                let at = detection.pose.position;
                // Only sights of newer frames stand for the same object: two in one frame are two.
                let known = sights.iter().take(newer).any(|s| {
                    s.detection.class_name == detection.class_name
                        && s.detection.pose.position.distance(at) <= config.same_place
                });
                if !known && sights.len() < MAX_SIGHTS {
                    sights.push(Sight {
                        stamp: frame.stamp,
                        detection: detection.clone(),
                    });
                }
            }
        }
        Baseline {
            stamp: start,
            base: buffer.base().rev().find(|s| recent(s.stamp)).copied(),
            tool: buffer.tool().rev().find(|s| recent(s.stamp)).copied(),
            gripper: buffer.gripper().rev().find(|s| recent(s.stamp)).copied(),
            sights,
        }
    }

    /// The sight of a class nearest to a place, within a radius \[m\].
    pub fn nearest(&self, class_name: &str, place: Vec3, radius: f64) -> Option<&Sight> {
        self.sights
            .iter()
            .filter(|s| s.detection.class_name == class_name)
            .map(|s| (s.detection.pose.position.distance(place), s))
            .filter(|(d, _)| *d <= radius)
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, s)| s)
    }
}

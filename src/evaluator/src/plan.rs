//! Which evidence a post-condition is still waiting for after the end of a run, and until when.

use std::time::Duration;

use eh_contract::condition::{Condition, Predicate, ROBOT};
use eh_contract::Stamp;

use crate::config::EvaluatorConfig;
use crate::evidence::EvidenceBuffer;

/// One kind of evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wanted {
    /// The fingers.
    Gripper,
    /// The base in the map.
    Base,
    /// The tool in the map.
    Tool,
    /// The arm's joints.
    Joints,
    /// A number of frames of detections.
    Frames,
    /// Odometry over a time.
    Standstill(Duration),
    /// The laser.
    Scan,
}

impl Wanted {
    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Wanted::Gripper => "the state of the gripper",
            Wanted::Base => "the pose of the base",
            Wanted::Tool => "the pose of the tool",
            Wanted::Joints => "joint states",
            Wanted::Frames => "frames of detections",
            Wanted::Standstill(_) => "odometry of a standstill",
            Wanted::Scan => "a scan",
        }
    }
}

/// What to wait for.
#[derive(Clone, Debug, PartialEq)]
pub struct EvaluationPlan {
    ended: Stamp,
    needed: Vec<Wanted>,
    extra: Vec<Wanted>,
    /// Judge at this time whatever is missing.
    pub deadline: Stamp,
    /// From this time on what only adds to the evidence is no longer waited for.
    pub extra_deadline: Stamp,
}

impl EvaluationPlan {
    /// Plans the evidence of a condition on a run that ended at `ended`, asked at `asked`. A timeout of
    /// zero is the configured one.
    pub fn new(
        condition: &Condition,
        ended: Stamp,
        asked: Stamp,
        timeout: Duration,
        config: &EvaluatorConfig,
    ) -> Self {
        let timeout = if timeout.is_zero() {
            config.evidence_timeout
        } else {
            timeout
        };
        let (mut needed, mut extra) = (Vec::new(), Vec::new());
        for predicate in condition.predicates() {
            let (must, may): (&[Wanted], &[Wanted]) = match predicate {
                Predicate::At(_) => (&[Wanted::Base], &[]),
                Predicate::Near(p) if p.subject == ROBOT => (&[Wanted::Base], &[Wanted::Frames]),
                Predicate::In(p) if p.object == ROBOT => (&[Wanted::Base], &[]),
                Predicate::Near(_) | Predicate::In(_) | Predicate::On(_) | Predicate::Moved(_) => {
                    (&[Wanted::Frames], &[Wanted::Tool, Wanted::Gripper])
                }
                Predicate::Holding(_) => (&[Wanted::Gripper], &[Wanted::Frames, Wanted::Tool]),
                Predicate::Lifted(_) => (&[Wanted::Gripper, Wanted::Tool], &[Wanted::Frames]),
                Predicate::Gripper(_) => (&[Wanted::Gripper], &[]),
                Predicate::Visible(_) => (&[Wanted::Frames], &[]),
                Predicate::Clearance(_) => (&[Wanted::Scan], &[]),
                Predicate::Arm(_) => (&[Wanted::Joints], &[]),
                Predicate::Stationary(p) => {
                    let seconds = p.min_duration.unwrap_or(config.still_duration);
                    let duration =
                        Duration::try_from_secs_f64(seconds).unwrap_or(config.evidence_timeout);
                    needed.push(Wanted::Standstill(duration));
                    (&[], &[Wanted::Joints])
                }
                // Where detections say nothing of doors they are not waited for long.
                Predicate::Door(_) => (&[], &[Wanted::Frames]),
            };
            needed.extend_from_slice(must);
            extra.extend_from_slice(may);
        }
        needed.sort_unstable();
        needed.dedup();
        extra.sort_unstable();
        extra.dedup();
        extra.retain(|w| !needed.contains(w));
        EvaluationPlan {
            ended,
            needed,
            extra,
            deadline: asked.plus(timeout),
            extra_deadline: asked.plus(config.extra_timeout.min(timeout)),
        }
    }

    /// What is not there yet and still waited for at `now`; empty: judge.
    pub fn missing(
        &self,
        buffer: &EvidenceBuffer,
        now: Stamp,
        config: &EvaluatorConfig,
    ) -> Vec<Wanted> {
        if now >= self.deadline {
            return Vec::new();
        }
        let absent = |w: &Wanted| !self.has(*w, buffer, config);
        let mut out: Vec<Wanted> = self.needed.iter().copied().filter(absent).collect();
        if now < self.extra_deadline {
            out.extend(self.extra.iter().copied().filter(absent));
        }
        out
    }

    fn has(&self, wanted: Wanted, buffer: &EvidenceBuffer, config: &EvaluatorConfig) -> bool {
        let after = |stamp: Stamp| stamp > self.ended;
        match wanted {
            Wanted::Gripper => buffer.gripper().next_back().is_some_and(|s| after(s.stamp)),
            Wanted::Base => buffer.base().next_back().is_some_and(|s| after(s.stamp)),
            Wanted::Tool => buffer.tool().next_back().is_some_and(|s| after(s.stamp)),
            Wanted::Joints => buffer.joints().next_back().is_some_and(|s| after(s.stamp)),
            Wanted::Scan => buffer
                .clearance()
                .next_back()
                .is_some_and(|s| after(s.stamp)),
            Wanted::Frames => {
                buffer.frames().rev().take_while(|f| after(f.stamp)).count()
                    >= config.frames.max(config.absence_frames)
            }
            Wanted::Standstill(duration) => {
                let mut fresh = buffer.twist().filter(|s| after(s.stamp));
                match (fresh.next(), buffer.twist().next_back()) {
                    (Some(first), Some(last)) => last.stamp.since(first.stamp) >= duration,
                    _ => false,
                }
            }
        }
    }

    /// What is waited for, as a sentence.
    pub fn text(missing: &[Wanted]) -> String {
        let names: Vec<&str> = missing.iter().map(|w| w.name()).collect();
        format!(
            "waiting for {} stamped after the run's end",
            names.join(", ")
        )
    }
}

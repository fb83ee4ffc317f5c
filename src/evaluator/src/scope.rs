//! Everything that one judgement may look at: the run's events, the baseline, evidence stamped after the
//! end, the annotated map and the body. There is no field for an instruction, a reason or a backend's
//! result, so none can be looked at.

use std::collections::BTreeMap;
use std::time::Duration;

use eh_contract::geometry::{Pose, Vec3};
use eh_contract::perception::{Detection, DetectionFrame};
use eh_contract::scene::{Kind, SceneSnapshot};
use eh_contract::verdict::Evidence;
use eh_contract::Stamp;
use serde_json::{json, Value};

use crate::baseline::Baseline;
use crate::config::{Embodiment, EvaluatorConfig};
use crate::evidence::{EvidenceBuffer, GripperSample, PoseSample};
use crate::run_book::RunRecord;

/// Most pieces of evidence in one verdict.
const MAX_EXHIBITS: usize = 64;

/// Largest time between two samples that are taken as simultaneous.
const SIMULTANEOUS: Duration = Duration::from_millis(500);

/// Fingers whose gap did not change for this long have stopped: five samples at 25 Hz.
const FINGER_REST: Duration = Duration::from_millis(200);

/// Change of the fingers' gap between two samples that is motion and not noise \[m\].
const FINGER_MOTION: f64 = 0.002;

/// What a ref of the post-condition stands for.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Its kind.
    pub kind: Kind,
    /// Its class.
    pub class_name: String,
    /// Frame of its pose.
    pub frame_id: String,
    /// Pose of its box centre.
    pub pose: Pose,
    /// Edge lengths \[m\].
    pub size: Vec3,
    /// Outline, for rooms \[m\].
    pub outline: Vec<Vec3>,
}

/// How the fingers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fingers {
    /// Opened.
    Open,
    /// Closed on nothing.
    Closed,
    /// Closed on something.
    Gripping,
    /// In between and without force.
    Loose,
    /// On their way: what they are about to do can't be told from where they are.
    Moving,
}

/// Everything that one judgement may look at.
pub struct Scope<'a> {
    /// The run.
    pub record: &'a RunRecord,
    /// What was observed.
    pub buffer: &'a EvidenceBuffer,
    /// The annotated map as nodes.
    pub prior: Option<&'a SceneSnapshot>,
    /// Frame of all poses.
    pub map_frame: &'a str,
    /// The body.
    pub embodiment: &'a Embodiment,
    /// The thresholds.
    pub config: &'a EvaluatorConfig,
    /// End of the segment judged.
    pub ended: Stamp,
    /// The time.
    pub now: Stamp,
    /// Oldest evidence that counts.
    pub max_age: Duration,
    targets: BTreeMap<String, Target>,
    exhibits: Vec<Evidence>,
}

impl<'a> Scope<'a> {
    /// Creates the scope of one judgement.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        record: &'a RunRecord,
        buffer: &'a EvidenceBuffer,
        prior: Option<&'a SceneSnapshot>,
        map_frame: &'a str,
        embodiment: &'a Embodiment,
        config: &'a EvaluatorConfig,
        ended: Stamp,
        now: Stamp,
        max_age: Duration,
    ) -> Self {
        let mut targets = BTreeMap::new();
        for binding in &record.event.targets {
            if let Some(support) = &binding.support {
                targets.entry(support.r#ref.clone()).or_insert(Target {
                    kind: Kind::Surface,
                    class_name: String::new(),
                    frame_id: binding.frame_id.clone(),
                    pose: support.pose,
                    size: support.size,
                    outline: Vec::new(),
                });
            }
        }
        for binding in &record.event.targets {
            targets.insert(
                binding.r#ref.clone(),
                Target {
                    kind: binding.kind,
                    class_name: binding.class_name.trim().to_lowercase(),
                    frame_id: binding.frame_id.clone(),
                    pose: binding.pose,
                    size: binding.size,
                    outline: Vec::new(),
                },
            );
        }
        // What the map knows, it knows better than a command: furniture does not move.
        for node in prior.into_iter().flat_map(SceneSnapshot::live) {
            let target = Target {
                kind: node.kind,
                class_name: node.class_name.clone(),
                frame_id: node.frame_id.clone(),
                pose: node.pose,
                size: node.size,
                outline: node.outline.clone(),
            };
            targets.insert(node.r#ref.clone(), target);
        }
        for target in targets.values_mut() {
            if target.kind == Kind::Room && target.outline.len() < 3 && !target.size.is_zero() {
                target.outline = eh_contract::footprint::Footprint::new(&target.pose, target.size)
                    .corners()
                    .to_vec();
            }
        }
        Scope {
            record,
            buffer,
            prior,
            map_frame,
            embodiment,
            config,
            ended,
            now,
            max_age,
            targets,
            exhibits: Vec::new(),
        }
    }

    /// Adds a target of our own, for a pose that was given as an argument.
    pub fn add_target(&mut self, name: &str, target: Target) {
        self.targets.insert(name.into(), target);
    }

    /// What a ref stands for, in the frame of the map; else why that is not known.
    pub fn target(&self, name: &str) -> Result<&Target, String> {
        let target = self.targets.get(name).ok_or_else(|| {
            format!("where {name} is was neither told by the command nor is it on the map")
        })?;
        if target.frame_id != self.map_frame {
            return Err(format!(
                "{name} is given in frame \"{}\", poses are compared in \"{}\"",
                target.frame_id, self.map_frame
            ));
        }
        Ok(target)
    }

    /// The baseline; else why there is none.
    pub fn baseline(&self) -> Result<&'a Baseline, String> {
        self.record
            .baseline
            .as_ref()
            .map_err(|why| format!("there is no baseline: {why}"))
    }

    /// True when evidence of this time counts.
    pub fn is_fresh(&self, stamp: Stamp) -> bool {
        stamp > self.ended
            && self.now.since(stamp) <= self.max_age
            && stamp.since(self.now) <= self.config.max_ahead
    }

    /// Why there is no fresh evidence of a kind, given its newest stamp.
    pub fn lack(&self, what: &str, newest: Option<Stamp>) -> String {
        match newest {
            None => format!("no {what} was received"),
            Some(stamp) if stamp <= self.ended => format!(
                "the newest {what} is from {:.1} s before the run's end",
                self.ended.since(stamp).as_secs_f64()
            ),
            Some(stamp) => format!(
                "the newest {what} is {:.1} s old, the limit is {:.1} s",
                self.now.since(stamp).as_secs_f64(),
                self.max_age.as_secs_f64()
            ),
        }
    }

    /// Puts a piece of evidence into the verdict and returns its id.
    pub fn exhibit(
        &mut self,
        kind: &str,
        source: &str,
        stamp: Stamp,
        summary: String,
        value: Value,
        reference: &str,
    ) -> String {
        if let Some(known) = self
            .exhibits
            .iter()
            .find(|e| e.kind == kind && e.stamp == stamp && e.summary == summary)
        {
            return known.id.clone();
        }
        let id = format!("e{}", self.exhibits.len() + 1);
        if self.exhibits.len() < MAX_EXHIBITS {
            let frame_id = match kind {
                "base_pose" | "tool_pose" | "detection" => self.map_frame.to_string(),
                _ => String::new(),
            };
            self.exhibits.push(Evidence {
                id: id.clone(),
                kind: kind.into(),
                source: source.into(),
                stamp,
                frame_id,
                summary,
                value,
                reference: reference.into(),
            });
        }
        id
    }

    /// All evidence so far, for the verdict.
    pub fn take_exhibits(&mut self) -> Vec<Evidence> {
        std::mem::take(&mut self.exhibits)
    }

    /// The newest pose of the base that counts, with its id.
    pub fn base(&mut self) -> Result<(PoseSample, String), String> {
        let newest = self.buffer.base().next_back().copied();
        match newest.filter(|s| self.is_fresh(s.stamp)) {
            Some(sample) => {
                let p = sample.pose.position;
                let id = self.exhibit(
                    "base_pose",
                    "tf",
                    sample.stamp,
                    format!(
                        "base at x {:.2} m, y {:.2} m, yaw {:.2} rad",
                        p.x,
                        p.y,
                        sample.pose.yaw()
                    ),
                    json!({"x": p.x, "y": p.y, "yaw": sample.pose.yaw()}),
                    "",
                );
                Ok((sample, id))
            }
            None => Err(self.lack("pose of the base", newest.map(|s| s.stamp))),
        }
    }

    /// The newest pose of the tool that counts, with its id.
    pub fn tool(&mut self) -> Option<(PoseSample, String)> {
        let sample = self
            .buffer
            .tool()
            .next_back()
            .copied()
            .filter(|s| self.is_fresh(s.stamp))?;
        let p = sample.pose.position;
        let id = self.exhibit(
            "tool_pose",
            "tf",
            sample.stamp,
            format!("tool at x {:.2} m, y {:.2} m, z {:.2} m", p.x, p.y, p.z),
            json!({"x": p.x, "y": p.y, "z": p.z}),
            "",
        );
        Some((sample, id))
    }

    /// The newest sample of the fingers that counts, with its id.
    pub fn gripper(&mut self) -> Result<(GripperSample, Fingers, String), String> {
        let newest = self.buffer.gripper().next_back().copied();
        match newest.filter(|s| self.is_fresh(s.stamp)) {
            Some(sample) => {
                let fingers = self.fingers(&sample);
                let effort = sample
                    .effort
                    .map_or(String::new(), |e| format!(", force {:.1} N", e.abs()));
                let id = self.exhibit(
                    "gripper",
                    "joint_states",
                    sample.stamp,
                    format!("fingers {:.3} m apart{effort}", sample.width),
                    json!({"width": sample.width, "effort": sample.effort}),
                    "",
                );
                Ok((sample, fingers, id))
            }
            None => Err(self.lack("state of the gripper", newest.map(|s| s.stamp))),
        }
    }

    fn fingers(&self, sample: &GripperSample) -> Fingers {
        let body = self.embodiment;
        if self.fingers_move(sample) {
            return Fingers::Moving;
        }
        if sample.width <= body.closed_width {
            return Fingers::Closed;
        }
        if sample.width >= body.open_width && !self.wide_grip(sample) {
            return Fingers::Open;
        }
        match sample.effort {
            Some(effort) if body.effort_reported && effort.abs() < body.contact_effort => {
                Fingers::Loose
            }
            Some(_) | None => Fingers::Gripping,
        }
    }

    /// Fingers that are nearly open and press, but were further open before: something wide keeps them apart. At
    /// their stop they may press as well, but then they have never been further apart.
    fn wide_grip(&self, sample: &GripperSample) -> bool {
        let body = self.embodiment;
        let presses = sample
            .effort
            .is_some_and(|effort| body.effort_reported && effort.abs() >= body.contact_effort);
        let widest = self.buffer.gripper().map(|s| s.width).fold(0.0, f64::max);
        presses && widest > sample.width + FINGER_MOTION
    }

    /// Whether the fingers' gap changed just before this sample.
    fn fingers_move(&self, newest: &GripperSample) -> bool {
        self.buffer
            .gripper()
            .rev()
            .take_while(|s| newest.stamp.since(s.stamp) <= FINGER_REST)
            .any(|s| (s.width - newest.width).abs() > FINGER_MOTION)
    }

    /// Frames of detections that count, oldest first.
    pub fn frames(&self) -> Vec<&'a DetectionFrame> {
        self.buffer
            .frames()
            .filter(|f| self.is_fresh(f.stamp))
            .collect()
    }

    /// Frames from the run's start on, for what the run itself can't falsify: where the camera looked.
    /// Without a known start, those after its end.
    pub fn frames_since_start(&self) -> Vec<&'a DetectionFrame> {
        let since = self.record.started.unwrap_or(self.ended).min(self.ended);
        self.buffer
            .frames()
            .filter(|f| {
                f.stamp > since
                    && self.now.since(f.stamp) <= self.max_age
                    && f.stamp.since(self.now) <= self.config.max_ahead
            })
            .collect()
    }

    /// Why there are no frames that count.
    pub fn lack_of_frames(&self) -> String {
        self.lack(
            "frame of detections",
            self.buffer.frames().next_back().map(|f| f.stamp),
        )
    }

    /// Puts a detection into the verdict and returns its id.
    pub fn exhibit_detection(&mut self, frame: &DetectionFrame, detection: &Detection) -> String {
        let p = detection.pose.position;
        let reference = if detection.reference.is_empty() {
            &frame.reference
        } else {
            &detection.reference
        };
        self.exhibit(
            "detection",
            &frame.source,
            frame.stamp,
            format!(
                "{} seen at x {:.2} m, y {:.2} m, z {:.2} m",
                detection.class_name, p.x, p.y, p.z
            ),
            json!({"class": detection.class_name, "x": p.x, "y": p.y, "z": p.z,
                   "confidence": detection.confidence}),
            reference,
        )
    }

    /// Puts "looked there and found nothing" into the verdict and returns its id.
    pub fn exhibit_absence(&mut self, class_name: &str, place: Vec3, looks: usize) -> String {
        let (stamp, source) = self
            .buffer
            .frames()
            .next_back()
            .map_or((self.now, String::new()), |f| (f.stamp, f.source.clone()));
        self.exhibit(
            "detection",
            &source,
            stamp,
            format!(
                "{looks} frames looked at x {:.2} m, y {:.2} m, z {:.2} m and found no {class_name} there",
                place.x, place.y, place.z
            ),
            json!({"class": class_name, "x": place.x, "y": place.y, "z": place.z, "frames": looks}),
            "",
        )
    }

    /// Where the tool was at a time; `None`: no sample is near enough to it.
    pub fn tool_at(&self, stamp: Stamp) -> Option<Vec3> {
        let apart = |s: &PoseSample| s.stamp.since(stamp).max(stamp.since(s.stamp));
        self.buffer
            .tool()
            .filter(|s| apart(s) <= SIMULTANEOUS)
            .min_by_key(|s| apart(s))
            .map(|s| s.pose.position)
    }

    fn fingers_during_run(&self) -> Vec<GripperSample> {
        let Some(started) = self.record.started else {
            return Vec::new();
        };
        self.buffer
            .gripper()
            .filter(|s| s.stamp >= started && s.stamp <= self.ended)
            .copied()
            .collect()
    }

    /// Where the tool was when the fingers let go during the run.
    pub fn release_point(&self) -> Option<Vec3> {
        let samples = self.fingers_during_run();
        let opening = samples.windows(2).find_map(|pair| match pair {
            [a, b] if b.width > a.width + FINGER_MOTION => Some(a.stamp),
            _ => None,
        })?;
        self.tool_at(opening)
    }

    /// Where the tool was when the fingers stopped closing during the run.
    pub fn grasp_point(&self) -> Option<Vec3> {
        let samples = self.fingers_during_run();
        let closed = samples.windows(2).rev().find_map(|pair| match pair {
            [a, b] if b.width < a.width - FINGER_MOTION => Some(b.stamp),
            _ => None,
        })?;
        self.tool_at(closed)
    }
}

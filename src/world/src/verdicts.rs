//! Whether verdicts are right: each is held against what became of the world in truth.
//!
//! The referee knows the simulator's own state and the command, nothing of what the judge saw. What a skill should
//! bring about is written here again, in terms of the truth: which body the fingers hold, what a body rests on,
//! where the base is. The limits are those that the documentation of the predicates names.

use std::collections::BTreeMap;
use std::time::Duration;

use eh_contract::command::TargetBinding;
use eh_contract::run_event::{RunEvent, RunEventKind};
use eh_contract::scene::Kind;
use eh_contract::verdict::{Outcome, Verdict};
use eh_sim::nalgebra::{Isometry3, Point3};
use eh_sim::{Frustum, GroundTruth, JointState, ObjectTruth, Robot, Support};

use crate::clock::{time_of, Every};

/// How often the truth is noted.
const EVERY: Duration = Duration::from_millis(100);
/// `near`: 0.9 m and 0.05 m for errors of localisation \[m\].
const NEAR: f64 = 0.95;
/// `lifted` by the descriptor of pick \[m\].
const LIFTED: f64 = 0.05;
/// `gripper open`: 0.9 of 0.1 m \[m\].
const OPEN: f64 = 0.09;
/// `arm`: deviation of each joint \[rad\].
const ARM: f64 = 0.08;
/// `visible` for furniture: the share of its top that the camera covers.
const COVERED: f64 = 0.5;
/// `visible` for objects: farther from where it was told to be it is somewhere else \[m\].
const THERE: f64 = 0.35;
/// Farther than this from where it was told to be it may as well be another one of its class \[m\].
const SAME: f64 = 0.15;
/// Points along each edge of a top for which it is told whether they are in view.
const GRID: usize = 10;
/// Most runs of one world.
const MOST: usize = 512;

/// The truth at one time.
#[derive(Clone, Debug)]
struct Moment {
    at: Duration,
    truth: GroundTruth,
    fingers: f64,
    joints: Vec<JointState>,
    /// What the camera can see, and its optical frame truly in the map.
    camera: (Frustum, Isometry3<f64>),
    /// Ids of the objects that it sees.
    seen: Vec<String>,
}

impl Moment {
    fn of(robot: &Robot, at: Duration) -> Self {
        Moment {
            at,
            truth: robot.ground_truth(),
            fingers: robot.gripper_state().position,
            joints: robot.joint_states(),
            // The frame is the same for images of any size.
            camera: (robot.frustum(), robot.camera_view(1, 1).1),
            seen: robot.objects_in_sight(),
        }
    }

    fn sees(&self, point: &Point3<f64>) -> bool {
        let (frustum, pose) = &self.camera;
        frustum.contains(&pose.inverse_transform_point(point))
    }
}

#[derive(Clone, Debug)]
struct Run {
    event: RunEvent,
    started: Option<Duration>,
    ended: Option<Duration>,
}

/// A verdict beside the truth.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// The skill.
    pub skill: String,
    /// The run.
    pub run_id: String,
    /// What the judge said; [`Outcome::Unknown`] where there was no verdict.
    pub outcome: Outcome,
    /// Why.
    pub reason: String,
    /// On which evidence, each in a sentence.
    pub evidence: Vec<String>,
    /// Whether the effect is there in truth at the verdict.
    pub holds: bool,
    /// It was otherwise when the run had ended: neither answer is wrong.
    pub changed: bool,
}

/// The referee of verdicts.
#[derive(Debug)]
pub struct VerdictReferee {
    every: Every,
    moments: Vec<Moment>,
    runs: BTreeMap<String, Run>,
    judged: BTreeMap<(String, u32), Judged>,
    unreferred: u64,
}

impl Default for VerdictReferee {
    fn default() -> Self {
        VerdictReferee {
            every: Every::new(EVERY),
            moments: Vec::new(),
            runs: BTreeMap::new(),
            judged: BTreeMap::new(),
            unreferred: 0,
        }
    }
}

impl VerdictReferee {
    /// Notes the truth now and then.
    pub fn look(&mut self, robot: &Robot, now: Duration) {
        if self.every.is_due(now) {
            self.moments.push(Moment::of(robot, now));
        }
    }

    /// An executor tells of a run.
    pub fn heard(&mut self, event: &RunEvent) {
        if self.runs.len() >= MOST && !self.runs.contains_key(&event.run_id) {
            return;
        }
        let run = self
            .runs
            .entry(event.run_id.clone())
            .or_insert_with(|| Run {
                event: event.clone(),
                started: None,
                ended: None,
            });
        if run.event.targets.is_empty() {
            run.event.targets.clone_from(&event.targets);
        }
        match event.event {
            RunEventKind::Start => run.started = Some(time_of(event.stamp)),
            RunEventKind::End => run.ended = Some(time_of(event.stamp)),
            RunEventKind::SegmentEnd | RunEventKind::Unspecified => {}
        }
    }

    /// The judge answers; a later answer about the same run takes the place of an earlier one.
    pub fn judged(
        &mut self,
        run_id: &str,
        segment: u32,
        result: &Result<Box<Verdict>, String>,
        robot: &Robot,
        now: Duration,
    ) {
        let Some(run) = self.runs.get(run_id) else {
            return;
        };
        let at = |time: Duration| {
            let later = self.moments.iter().find(|m| m.at >= time);
            later.or(self.moments.last()).cloned()
        };
        let present = Moment::of(robot, now);
        let start = run.started.and_then(at);
        let end = run.ended.and_then(at).unwrap_or_else(|| present.clone());
        let truth = |moment: &Moment| {
            let since = run.started.unwrap_or(moment.at);
            let meanwhile = |m: &&Moment| m.at >= since && m.at <= moment.at;
            match run.event.skill.as_str() {
                "look_at" => has_looked(
                    &run.event,
                    start.as_ref(),
                    self.moments.iter().filter(meanwhile).chain([moment]),
                    run.ended,
                ),
                _ => holds(&run.event, start.as_ref(), moment),
            }
        };
        let (Some(holds), Some(held)) = (truth(&present), truth(&end)) else {
            self.unreferred += 1;
            return;
        };
        let (outcome, reason, evidence) = match result {
            Ok(verdict) => {
                let said = verdict.evidence.iter().map(|e| e.summary.clone());
                (verdict.outcome, verdict.reason.clone(), said.collect())
            }
            Err(reason) => (Outcome::Unknown, reason.clone(), Vec::new()),
        };
        self.judged.insert(
            (run_id.to_owned(), segment),
            Judged {
                skill: run.event.skill.clone(),
                run_id: run_id.to_owned(),
                outcome,
                reason,
                evidence,
                holds,
                changed: holds != held,
            },
        );
    }

    /// All verdicts, and how many more there were whose truth this referee does not know.
    pub fn end(self) -> (Vec<Judged>, u64) {
        (self.judged.into_values().collect(), self.unreferred)
    }
}

/// Which body a command means: the one that was held, or the one of the class nearest to where it was told to be.
fn meant<'a>(target: &TargetBinding, start: &'a GroundTruth) -> Option<&'a ObjectTruth> {
    let held = start.held.as_ref().and_then(|id| start.object(id));
    if let Some(held) = held.filter(|o| o.class == target.class_name) {
        let told = target.pose.position;
        let p = held.pose.translation.vector;
        if (p.x - told.x).hypot(p.y - told.y) < 0.5 {
            return Some(held);
        }
    }
    let told = target.pose.position;
    let off = |o: &ObjectTruth| {
        let p = o.pose.translation.vector;
        (p.x - told.x).hypot(p.y - told.y).hypot(p.z - told.z)
    };
    start
        .objects
        .iter()
        .filter(|o| o.class == target.class_name)
        .min_by(|a, b| off(a).total_cmp(&off(b)))
}

/// Whether what a skill should bring about is there; `None`: this referee does not know.
fn holds(event: &RunEvent, start: Option<&Moment>, now: &Moment) -> Option<bool> {
    let target = |argument: &str| event.targets.iter().find(|t| t.argument == argument);
    match event.skill.as_str() {
        "pick" => {
            let before = meant(target("object")?, &start?.truth)?;
            let after = now.truth.object(&before.id)?;
            let rose = after.pose.translation.vector.z - before.pose.translation.vector.z;
            Some(now.truth.held.as_ref() == Some(&before.id) && rose >= LIFTED)
        }
        "place" => {
            let before = meant(target("object")?, &start?.truth)?;
            let after = now.truth.object(&before.id)?;
            let support = &target("support")?.r#ref;
            let stands = matches!(&after.support, Support::Furniture(id) if id == support);
            Some(stands && now.truth.held.as_ref() != Some(&before.id))
        }
        "navigate_to" => is_near(target("target")?, start.map(|m| &m.truth), &now.truth),
        "open_gripper" => Some(now.fingers >= OPEN && now.truth.held.is_none()),
        "close_gripper" => Some(now.fingers < OPEN || now.truth.held.is_some()),
        "stow" => {
            let body = eh_skills::Embodiment::default();
            let pose = body.configurations.get("stow")?;
            let off = |j: &JointState| Some((j.position - pose.get(j.name)?).abs());
            Some(now.joints.iter().filter_map(off).all(|off| off <= ARM))
        }
        _ => None,
    }
}

/// Whether the camera has covered a piece of furniture in these moments together, or seen an object in one of those
/// since the end, where it was told to be (what is somewhere else was not found by looking there); `None` for targets of other kinds. Nothing hides the tops of the homes that are made up here.
fn has_looked<'a>(
    event: &RunEvent,
    start: Option<&Moment>,
    mut moments: impl Iterator<Item = &'a Moment> + Clone,
    ended: Option<Duration>,
) -> Option<bool> {
    let target = event.targets.iter().find(|t| t.argument == "target")?;
    if target.kind == Kind::Object {
        let truth = &start?.truth;
        let body = meant(target, truth)?;
        let (p, told) = (body.pose.translation.vector, target.pose.position);
        let off = (p.x - told.x).hypot(p.y - told.y).hypot(p.z - told.z);
        let of_class = truth.objects.iter().filter(|o| o.class == body.class);
        if off > SAME && of_class.count() > 1 {
            return None;
        }
        let id = &body.id;
        // Frames from after the end count, and the first of them is looked at where the truth is noted next.
        let since = ended.unwrap_or_default();
        let is_there = |m: &Moment| {
            m.truth.object(id).is_some_and(|o| {
                let p = o.pose.translation.vector;
                (p.x - told.x).hypot(p.y - told.y).hypot(p.z - told.z) <= THERE
            })
        };
        return Some(moments.any(|m| m.at >= since && m.seen.contains(id) && is_there(m)));
    }
    if !matches!(target.kind, Kind::Surface | Kind::Container) {
        return None;
    }
    let (at, size) = (target.pose.position, target.size);
    let along =
        |i: usize, middle: f64, edge: f64| middle + edge * ((i as f64 + 0.5) / GRID as f64 - 0.5);
    let points = (0..GRID * GRID).map(|n| {
        Point3::new(
            along(n % GRID, at.x, size.x),
            along(n / GRID, at.y, size.y),
            at.z + size.z / 2.0,
        )
    });
    let seen = points
        .filter(|p| moments.clone().any(|m| m.sees(p)))
        .count();
    Some(seen as f64 >= COVERED * (GRID * GRID) as f64)
}

/// Whether the base is at the target, which is where it is now.
fn is_near(target: &TargetBinding, start: Option<&GroundTruth>, now: &GroundTruth) -> Option<bool> {
    let mut at = target.pose.position;
    match target.kind {
        Kind::Object => {
            let id = &meant(target, start?)?.id;
            let p = now.object(id)?.pose.translation.vector;
            (at.x, at.y) = (p.x, p.y);
        }
        Kind::Surface | Kind::Container => {}
        Kind::Unspecified
        | Kind::Building
        | Kind::Floor
        | Kind::Room
        | Kind::Person
        | Kind::Robot
        | Kind::Place
        | Kind::Door => return None,
    }
    // The nearest point of the target's box, which is not turned in the homes that are made up here.
    let gap = |at: f64, middle: f64, edge: f64| ((at - middle).abs() - edge / 2.0).max(0.0);
    let dx = gap(now.robot.x, at.x, target.size.x);
    let dy = gap(now.robot.y, at.y, target.size.y);
    Some(dx.hypot(dy) <= NEAR)
}

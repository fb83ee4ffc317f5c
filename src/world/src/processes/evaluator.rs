//! The judge as `evaluator_node` runs it.

use std::collections::BTreeMap;
use std::time::Duration;

use eh_contract::scene::SceneSnapshot;
use eh_contract::semantic_map::SemanticMap;
use eh_contract::skill::SkillDescriptor;
use eh_contract::verdict::Verdict;
use eh_contract::Stamp;
use eh_evaluator::evaluation::{Bench, Evaluation, Look, EVENT_DELAY};
use eh_evaluator::evidence::{
    ClearanceSample, GripperSample, JointSample, PoseSample, TwistSample,
};
use eh_evaluator::{Embodiment, EvaluatorConfig, EvidenceBuffer, RunBook};
use eh_sim::lidar::MOUNT;
use eh_sim::Scan;

use crate::clock::{stamp, Every};
use crate::context::{Context, Process};
use crate::failpoint::{own, Crash, Moment};
use crate::message::{Body, Letter, Motion, News, Reply, Request};
use crate::process_id::Address;

/// Time between two looks at the evidence.
const POLL: Duration = Duration::from_millis(60);
/// How much longer than its budget an evaluation may take on the steady clock.
const STEADY_SLACK: Duration = Duration::from_secs(30);
/// Most evaluations at a time.
const MAX_EVALUATIONS: usize = 32;

struct Asked {
    from: Address,
    call: u64,
    evaluation: Evaluation,
    give_up: Duration,
}

/// What was answered about a segment of a run.
pub struct Answer {
    /// The run.
    pub run_id: String,
    /// Segment, from 0.
    pub segment: u32,
    /// The verdict, or why there is none.
    pub result: Result<Box<Verdict>, String>,
}

/// The judge.
pub struct EvaluatorProcess {
    config: EvaluatorConfig,
    embodiment: Embodiment,
    prior: SceneSnapshot,
    book: RunBook,
    buffer: EvidenceBuffer,
    catalog: BTreeMap<String, BTreeMap<String, SkillDescriptor>>,
    evaluations: Vec<Asked>,
    poll: Every,
    judged: Vec<Answer>,
}

impl EvaluatorProcess {
    /// A judge who has seen nothing yet.
    pub fn new(map: &SemanticMap) -> Self {
        let config = EvaluatorConfig::default();
        let body = eh_skills::Embodiment::default();
        EvaluatorProcess {
            buffer: EvidenceBuffer::new(config.clone()),
            embodiment: Embodiment {
                arm_poses: body.configurations,
                ..Embodiment::default()
            },
            prior: eh_contract::prior::scene_of_map(map, "map"),
            config,
            book: RunBook::default(),
            catalog: BTreeMap::new(),
            evaluations: Vec::new(),
            poll: Every::new(POLL),
            judged: Vec::new(),
        }
    }

    /// What was answered since the last call.
    pub fn take_answers(&mut self) -> Vec<Answer> {
        std::mem::take(&mut self.judged)
    }

    fn motion(&mut self, motion: &Motion, now: Stamp) {
        let at = motion.stamp;
        // What is refused, being out of order, is left out, as in the node; so below.
        let buffer = &mut self.buffer;
        let _ = buffer.push_base(
            PoseSample {
                stamp: at,
                pose: motion.base_in_map,
            },
            now,
        );
        let _ = buffer.push_tool(
            PoseSample {
                stamp: at,
                pose: motion.tool_in_map,
            },
            now,
        );
        let _ = buffer.push_twist(
            TwistSample {
                stamp: at,
                linear: motion.linear,
                angular: motion.angular,
            },
            now,
        );
        let fingers = eh_sim::joint_state::GRIPPER_JOINT;
        let mut sample = JointSample {
            stamp: at,
            positions: BTreeMap::new(),
            velocities: BTreeMap::new(),
        };
        for joint in &motion.joints {
            if joint.name == fingers {
                let gripper = GripperSample {
                    stamp: at,
                    width: joint.position,
                    effort: Some(joint.effort),
                };
                let _ = buffer.push_gripper(gripper, now);
            } else {
                sample.positions.insert(joint.name.into(), joint.position);
                sample.velocities.insert(joint.name.into(), joint.velocity);
            }
        }
        let _ = buffer.push_joints(sample, now);
    }

    fn scan(&mut self, scan: &Scan, now: Stamp) {
        let mut nearest = f64::INFINITY;
        let mut usable = 0;
        for (i, range) in scan.ranges.iter().enumerate() {
            let range = f64::from(*range);
            if range == f64::INFINITY {
                usable += 1;
                continue;
            }
            if !(range.is_finite() && range >= scan.range_min && range <= scan.range_max) {
                continue;
            }
            usable += 1;
            let angle = scan.angle_min + scan.angle_increment * i as f64;
            let (x, y) = (MOUNT.x + range * angle.cos(), MOUNT.y + range * angle.sin());
            let distance = x.hypot(y);
            // The robot's own parts.
            if distance > self.embodiment.footprint_radius {
                nearest = nearest.min(distance);
            }
        }
        if usable > 0 {
            let sample = ClearanceSample {
                stamp: stamp(scan.stamp),
                distance: nearest,
            };
            let _ = self.buffer.push_clearance(sample, now);
        }
    }
}

impl Process for EvaluatorProcess {
    fn receive(&mut self, letter: Letter, context: &mut Context<'_>) -> Result<(), Crash> {
        let now = context.stamp();
        match letter.body {
            Body::News(News::Motion(motion)) => self.motion(&motion, now),
            Body::News(News::Scan(scan)) => self.scan(&scan, now),
            Body::News(News::Sight(sight)) => {
                let _ = self.buffer.push_frame(sight.in_map.clone(), now);
            }
            Body::News(News::Run(event)) => {
                let noted = self
                    .book
                    .note((*event).clone(), &self.buffer, now, &self.config);
                if let Err(error) = noted {
                    context.note(format_args!("ignores an event: {error}"));
                }
            }
            Body::News(News::Catalog(catalog)) => {
                // Runs of an executor that has withdrawn its skills are judged by its last descriptors.
                if !catalog.skills.is_empty() {
                    let skills = catalog.skills.iter();
                    self.catalog.insert(
                        catalog.executor.clone(),
                        skills.map(|d| (d.name.clone(), d.clone())).collect(),
                    );
                }
            }
            Body::Request {
                call,
                request: Request::Evaluate { run_id, segment },
            } => {
                let room = self.evaluations.len() < MAX_EVALUATIONS;
                context.reply(letter.from, call, Reply::Acknowledged(room));
                if room {
                    let longest = EVENT_DELAY + self.config.evidence_timeout + STEADY_SLACK;
                    self.evaluations.push(Asked {
                        from: letter.from,
                        call,
                        evaluation: Evaluation {
                            run_id,
                            segment,
                            asked: now,
                            timeout: Duration::ZERO,
                            max_age: Duration::ZERO,
                        },
                        give_up: context.now().steady + longest,
                    });
                }
            }
            Body::News(_) | Body::Request { .. } | Body::Reply { .. } => {}
        }
        Ok(())
    }

    fn step(&mut self, context: &mut Context<'_>) -> Result<(), Crash> {
        if self.evaluations.is_empty() || !self.poll.is_due(context.time()) {
            return Ok(());
        }
        let now = context.now();
        let bench = Bench {
            book: &self.book,
            buffer: &self.buffer,
            prior: Some(&self.prior),
            map_frame: "map",
            embodiment: &self.embodiment,
            config: &self.config,
        };
        for asked in std::mem::take(&mut self.evaluations) {
            let descriptor = |executor: &str, skill: &str| {
                let skills = self.catalog.get(executor)?;
                skills.get(skill)
            };
            let last = now.steady >= asked.give_up;
            match asked.evaluation.look(
                &bench,
                descriptor,
                now.ros,
                now.ros.since(asked.evaluation.asked),
                last,
            ) {
                Look::Wait(_) => self.evaluations.push(asked),
                Look::Done(result) => {
                    let result = result.map(Box::new).map_err(|e| e.to_string());
                    self.judged.push(Answer {
                        run_id: asked.evaluation.run_id.clone(),
                        segment: asked.evaluation.segment,
                        result: result.clone(),
                    });
                    context.pass(own::VERDICT, Moment::Before)?;
                    context.reply(asked.from, asked.call, Reply::Judged(result));
                    context.pass(own::VERDICT, Moment::After)?;
                }
            }
        }
        Ok(())
    }
}

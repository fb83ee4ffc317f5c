//! Three-valued logic over predicates, and the verdict.

use std::time::Duration;

use eh_contract::condition::{Condition, Predicate, ROBOT};
use eh_contract::geometry::Pose;
use eh_contract::scene::{Kind, SceneSnapshot};
use eh_contract::skill::SkillDescriptor;
use eh_contract::verdict::{Outcome, PredicateResult, Truth, Verdict};
use eh_contract::Stamp;
use serde_json::{Map, Value};

use crate::body;
use crate::config::{Embodiment, EvaluatorConfig};
use crate::error::EvaluatorError;
use crate::evidence::EvidenceBuffer;
use crate::finding::Finding;
use crate::grip;
use crate::run_book::RunRecord;
use crate::scope::{Scope, Target};
use crate::things;

/// Name of this judge in verdicts.
pub const JUDGE: &str = "predicates";

/// Prefix of the refs that stand for poses given as arguments.
const POSE_PREFIX: &str = "pose.";

/// What is to be judged.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// The run, from its executor's events.
    pub record: &'a RunRecord,
    /// Segment, from 0.
    pub segment: u32,
    /// The skill's contract.
    pub descriptor: &'a SkillDescriptor,
    /// The annotated map as nodes; `None`: none was given.
    pub prior: Option<&'a SceneSnapshot>,
    /// Frame of all poses, normally map.
    pub map_frame: &'a str,
    /// The body.
    pub embodiment: &'a Embodiment,
    /// The thresholds.
    pub config: &'a EvaluatorConfig,
}

impl Case<'_> {
    /// Whether another segment may follow this one.
    pub fn more_segments(&self) -> bool {
        self.descriptor.segmented && self.segment.saturating_add(1) < self.descriptor.max_segments
    }

    /// Whether its skill says in words only what should hold, so that no predicate can decide it.
    pub fn has_only_text(&self) -> bool {
        self.descriptor.postcondition.is_empty()
            && !self.descriptor.postcondition_text.trim().is_empty()
    }

    /// When the segment ended.
    ///
    /// # Errors
    /// [`EvaluatorError::RunNotEnded`].
    pub fn ended(&self) -> Result<Stamp, EvaluatorError> {
        self.record
            .end_of(self.segment)
            .ok_or_else(|| EvaluatorError::RunNotEnded {
                run_id: self.record.event.run_id.clone(),
                segment: self.segment,
            })
    }

    /// The post-condition with the run's arguments. An argument that is a pose (an object with x and y)
    /// stands for a place of its own.
    ///
    /// # Errors
    /// [`EvaluatorError`] when descriptor and run do not fit, or there is nothing to judge.
    pub fn condition(&self) -> Result<Condition, EvaluatorError> {
        let event = &self.record.event;
        if self.descriptor.name != event.skill
            || (!event.skill_version.is_empty() && self.descriptor.version != event.skill_version)
        {
            return Err(EvaluatorError::UnknownSkill {
                skill: event.skill.clone(),
                version: event.skill_version.clone(),
            });
        }
        if self.descriptor.postcondition.is_empty() {
            return Err(EvaluatorError::NoPredicates {
                skill: event.skill.clone(),
            });
        }
        let mut arguments = event.arguments.clone();
        for (name, value) in &mut arguments {
            if pose_of(value).is_some() {
                *value = Value::String(format!("{POSE_PREFIX}{name}"));
            }
        }
        // Two arguments of which one is given: the other placeholder takes its place.
        let given: Vec<String> = arguments
            .iter()
            .filter(|(_, v)| v.as_str().is_some_and(|s| s.starts_with(POSE_PREFIX)))
            .map(|(name, _)| name.clone())
            .collect();
        for placeholder in self.descriptor.postcondition.placeholders() {
            if let ([only], false) = (given.as_slice(), arguments.contains_key(&placeholder)) {
                let value = Value::String(format!("{POSE_PREFIX}{only}"));
                arguments.insert(placeholder, value);
            }
        }
        let condition = self
            .descriptor
            .postcondition
            .bind(&arguments)
            .map_err(|source| EvaluatorError::InvalidPostcondition {
                skill: event.skill.clone(),
                source,
            })?;
        if condition.predicates().is_empty() {
            return Err(EvaluatorError::NoPredicates {
                skill: event.skill.clone(),
            });
        }
        Ok(condition)
    }
}

/// The pose that an argument gives: x, y \[m\] and optionally yaw \[rad\] and frame_id.
fn pose_of(value: &Value) -> Option<(Pose, Option<String>)> {
    let map: &Map<String, Value> = value.as_object()?;
    let number = |key: &str| {
        map.get(key)
            .and_then(Value::as_f64)
            .filter(|v| v.is_finite())
    };
    let pose = Pose::planar(number("x")?, number("y")?, number("yaw").unwrap_or(0.0));
    let frame = map
        .get("frame_id")
        .and_then(Value::as_str)
        .filter(|f| !f.is_empty())
        .map(String::from);
    Some((pose, frame))
}

/// Judges one segment of a run on what was observed. `max_age` of zero is the configured one.
///
/// # Errors
/// [`EvaluatorError`] when the run has not ended or the post-condition can't be judged at all. Evidence
/// that is missing, stale or contradicting is no error but a verdict of UNKNOWN.
pub fn judge(
    case: &Case<'_>,
    buffer: &EvidenceBuffer,
    now: Stamp,
    max_age: Duration,
) -> Result<Verdict, EvaluatorError> {
    let condition = case.condition()?;
    let ended = case.ended()?;
    let max_age = if max_age.is_zero() {
        case.config.max_evidence_age
    } else {
        max_age
    };
    let mut scope = Scope::new(
        case.record,
        buffer,
        case.prior,
        case.map_frame,
        case.embodiment,
        case.config,
        ended,
        now,
        max_age,
    );
    for (name, value) in &case.record.event.arguments {
        if let Some((pose, frame)) = pose_of(value) {
            scope.add_target(
                &format!("{POSE_PREFIX}{name}"),
                Target {
                    kind: Kind::Place,
                    class_name: String::new(),
                    frame_id: frame.unwrap_or_else(|| case.map_frame.into()),
                    pose,
                    size: Default::default(),
                    outline: Vec::new(),
                },
            );
        }
    }
    let mut predicates = Vec::new();
    let truth = if ended.since(now) > case.config.max_ahead {
        predicates.push(PredicateResult {
            predicate: condition.to_value(),
            truth: Truth::Unknown,
            margin: f64::NAN,
            unit: String::new(),
            evidence_ids: vec![],
            explanation: format!(
                "the run ended {:.1} s in the future: the clock was set back",
                ended.since(now).as_secs_f64()
            ),
        });
        Truth::Unknown
    } else {
        evaluate(&condition, &mut scope, &mut predicates)
    };
    let outcome = match truth {
        Truth::True => Outcome::Success,
        Truth::False if case.more_segments() => Outcome::Process,
        Truth::False => Outcome::Failure,
        Truth::Unknown => Outcome::Unknown,
    };
    let reason = reason(truth, &predicates, &condition);
    Ok(Verdict {
        run_id: case.record.event.run_id.clone(),
        command_id: case.record.event.command_id.clone(),
        segment: case.segment,
        outcome,
        reason,
        predicates,
        evidence: scope.take_exhibits(),
        judge: JUDGE.into(),
        judge_version: case.config.version.clone(),
        stamp: now,
    })
}

/// The verdict of the predicates where there are none: UNKNOWN, for a judge that reads the text.
pub(crate) fn without_predicates(case: &Case<'_>, now: Stamp) -> Verdict {
    Verdict {
        run_id: case.record.event.run_id.clone(),
        command_id: case.record.event.command_id.clone(),
        segment: case.segment,
        outcome: Outcome::Unknown,
        reason: format!(
            "the post-condition of {} has no predicates",
            case.record.event.skill
        ),
        predicates: Vec::new(),
        evidence: Vec::new(),
        judge: JUDGE.into(),
        judge_version: case.config.version.clone(),
        stamp: now,
    }
}

/// What decided: the parts that kept it from holding, or all when it holds.
fn reason(truth: Truth, predicates: &[PredicateResult], condition: &Condition) -> String {
    let negated = negated_predicates(condition);
    let decisive: Vec<&str> = predicates
        .iter()
        .enumerate()
        .filter(|(index, p)| {
            let seen = if negated.get(*index).copied().unwrap_or(false) {
                p.truth.negate()
            } else {
                p.truth
            };
            seen == truth
        })
        .map(|(_, p)| p.explanation.as_str())
        .collect();
    let shown: Vec<&str> = if decisive.is_empty() {
        predicates.iter().map(|p| p.explanation.as_str()).collect()
    } else {
        decisive
    };
    let mut out: Vec<&str> = Vec::new();
    for text in shown {
        if !out.contains(&text) {
            out.push(text);
        }
    }
    out.join("; ")
}

/// For each predicate in order whether it stands under an odd number of negations.
fn negated_predicates(condition: &Condition) -> Vec<bool> {
    fn walk(condition: &Condition, negated: bool, out: &mut Vec<bool>) {
        match condition {
            Condition::All(parts) | Condition::Any(parts) => {
                parts.iter().for_each(|c| walk(c, negated, out));
            }
            Condition::Not(inner) => walk(inner, !negated, out),
            Condition::Is(_) => out.push(negated),
        }
    }
    let mut out = Vec::new();
    walk(condition, false, &mut out);
    out
}

fn evaluate(
    condition: &Condition,
    scope: &mut Scope<'_>,
    results: &mut Vec<PredicateResult>,
) -> Truth {
    match condition {
        // Every part is looked at, so that the verdict tells all of them.
        Condition::All(parts) => parts
            .iter()
            .map(|c| evaluate(c, scope, results))
            .collect::<Vec<_>>()
            .into_iter()
            .fold(Truth::True, Truth::and),
        Condition::Any(parts) => parts
            .iter()
            .map(|c| evaluate(c, scope, results))
            .collect::<Vec<_>>()
            .into_iter()
            .fold(Truth::False, Truth::or),
        Condition::Not(inner) => evaluate(inner, scope, results).negate(),
        Condition::Is(predicate) => {
            let finding = find(predicate, scope);
            let truth = finding.truth;
            results.push(PredicateResult {
                predicate: predicate.to_value(),
                truth,
                margin: finding.margin,
                unit: finding.unit.into(),
                evidence_ids: finding.evidence,
                explanation: finding.explanation,
            });
            truth
        }
    }
}

fn find(predicate: &Predicate, scope: &mut Scope<'_>) -> Finding {
    match predicate {
        Predicate::At(p) => body::near(scope, &p.target, p.tolerance),
        Predicate::Near(p) if p.subject == ROBOT => body::near(scope, &p.target, p.max_distance),
        Predicate::Near(p) => things::near_each_other(scope, &p.subject, &p.target, p.max_distance),
        Predicate::Moved(p) => things::moved(scope, &p.object, p.min_distance),
        Predicate::Holding(p) => grip::holding(scope, &p.object),
        Predicate::Lifted(p) => grip::lifted(scope, &p.object, p.min_height),
        Predicate::On(p) => things::on(scope, &p.object, &p.support),
        Predicate::In(p) if p.object == ROBOT => body::near(scope, &p.container, None),
        Predicate::In(p) => things::inside(scope, &p.object, &p.container),
        Predicate::Gripper(p) => body::gripper(scope, p.state),
        Predicate::Visible(p) => things::visible(scope, &p.object, p.max_age),
        Predicate::Clearance(p) => body::clearance(scope, p),
        Predicate::Door(p) => things::door(scope, &p.door, p.open),
        Predicate::Arm(p) => body::arm(scope, p),
        Predicate::Stationary(p) => body::stationary(scope, p),
    }
}

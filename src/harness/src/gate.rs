//! From a proposal to a command: everything that a planner wants passes here, and what is not allowed
//! explicitly is refused.

use std::time::Duration;

use eh_contract::arguments::{ArgumentError, ArgumentSchema};
use eh_contract::belief;
use eh_contract::command::{
    Beacon, Precondition, Proposal, SkillCommand, TargetBinding, SCHEMA_VERSION,
};
use eh_contract::condition::{
    BoundEffects, Condition, ConditionError, Effects, Predicate, Template, ROBOT,
};
use eh_contract::geometry::{GeometryError, MAX_COORDINATE};
use eh_contract::scene::{Kind, RelationKind, SceneSnapshot};
use eh_contract::skill::SkillDescriptor;
use eh_contract::state::CommandState;
use eh_contract::verdict::Truth;
use eh_contract::ErrorCode;
use eh_ledger::issuer::{state_name, Issue};
use eh_ledger::issuer_ledger::{Held, IssuerLedger};
use eh_ledger::issuer_policy::Now;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thiserror::Error;

use crate::embodiment::{Embodiment, EmbodimentError};
use crate::grounding::{bind_target, horizontal};
use crate::surroundings::Surroundings;

/// Limits that the gate writes into commands.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GateLimits {
    /// Budget from the executor's beacon to the physical start.
    pub start_within: Duration,
    /// Longest time from a cancel to confirmed standstill.
    pub stop_timeout: Duration,
    /// How far an object may have moved between planning and start \[m\].
    pub max_displacement: f64,
}

impl Default for GateLimits {
    fn default() -> Self {
        GateLimits {
            start_within: Duration::from_secs(3),
            stop_timeout: Duration::from_secs(3),
            // Half the width of a cup: a grasp planned for the old pose would miss beyond it.
            max_displacement: 0.05,
        }
    }
}

/// What a proposal is checked against.
#[derive(Clone, Copy, Debug)]
pub struct GateContext<'a> {
    /// The robot that may execute.
    pub robot_id: &'a str,
    /// The task.
    pub task_id: &'a str,
    /// Id for the command, never used before.
    pub command_id: &'a str,
    /// Plan of the task.
    pub plan_version: u32,
    /// Permissions of the task.
    pub permissions: &'a [String],
    /// Nodes around.
    pub surroundings: &'a Surroundings,
    /// The scene, with the start place in it.
    pub scene: &'a SceneSnapshot,
    /// Commands that hold resources.
    pub ledger: &'a IssuerLedger,
    /// The body.
    pub embodiment: &'a Embodiment,
    /// Frame that poses have to be in.
    pub map_frame: &'a str,
    /// Limits.
    pub limits: &'a GateLimits,
    /// The time.
    pub now: Now,
}

/// A proposal that passed.
#[derive(Clone, Debug, PartialEq)]
pub struct Admitted {
    /// The command and what the ledger needs beside it.
    pub issue: Issue,
    /// The executor's beacon that the start budget counts from.
    pub beacon: Beacon,
    /// What a success changes.
    pub effects: BoundEffects,
}

/// Why a proposal is refused; nothing was started.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum GateError {
    /// Nobody offers the skill.
    #[error("no skill \"{skill}\" is on offer; on offer are: {}{}", list(.offered), silent_text(.silent))]
    UnknownSkill {
        /// The name.
        skill: String,
        /// Names on offer.
        offered: Vec<String>,
        /// Executors that are known but silent.
        silent: Vec<String>,
    },
    /// The task may not use it.
    #[error("{skill} needs the permission \"{permission}\", the task has: {}; grant it in the goal's permissions or in the parameter default_permissions", list(.granted))]
    PermissionDenied {
        /// Skill.
        skill: String,
        /// What it needs.
        permission: String,
        /// What the task has.
        granted: Vec<String>,
    },
    /// The schema refuses the arguments.
    #[error("{skill}: {source}")]
    Arguments {
        /// Skill.
        skill: String,
        /// Why.
        source: ArgumentError,
    },
    /// A ref that is not in the scene.
    #[error("{argument} is \"{reference}\", which is not in the scene; look around first, or name one of its refs")]
    RefNotFound {
        /// Argument.
        argument: String,
        /// What it names.
        reference: String,
    },
    /// A ref of the wrong kind.
    #[error("{argument} is \"{reference}\", a {}, but has to be one of: {}", found.name(), kinds(.wanted))]
    WrongKind {
        /// Argument.
        argument: String,
        /// What it names.
        reference: String,
        /// Its kind.
        found: Kind,
        /// Kinds that pass.
        wanted: Vec<Kind>,
    },
    /// A pose in a frame that is not known.
    #[error("{argument} is in frame \"{frame_id}\"; poses have to be in \"{map_frame}\"")]
    UnknownFrame {
        /// Argument.
        argument: String,
        /// Its frame.
        frame_id: String,
        /// The frame that passes.
        map_frame: String,
    },
    /// A number that can't be meant.
    #[error("{skill}: {source}")]
    Geometry {
        /// Skill.
        skill: String,
        /// Why.
        source: GeometryError,
    },
    /// The body is not enough.
    #[error("{skill}: {source}")]
    Embodiment {
        /// Skill.
        skill: String,
        /// Why.
        source: EmbodimentError,
    },
    /// A precondition or effect can't be read.
    #[error("{skill}: {source}")]
    Condition {
        /// Skill.
        skill: String,
        /// Why.
        source: ConditionError,
    },
    /// A precondition does not hold.
    #[error("{skill} can't start: {reason}")]
    PreconditionNotMet {
        /// Skill.
        skill: String,
        /// What is known about it.
        reason: String,
    },
    /// Another command has a resource.
    #[error("{skill} needs {}, which command {} holds while it is {}{}", held.resource, held.command_id, state_name(held.state), settle_hint(.held))]
    ResourceBusy {
        /// Skill.
        skill: String,
        /// Who has what.
        held: Held,
    },
    /// The judge is not there.
    #[error("{skill} has to be judged and the evaluator does not answer; start evaluator_node")]
    EvaluatorUnavailable {
        /// Skill.
        skill: String,
    },
}

impl GateError {
    /// The code for the step's report, of ExecuteSkill's range.
    pub const fn code(&self) -> ErrorCode {
        match self {
            GateError::UnknownSkill { .. } => ErrorCode::UnknownSkill,
            GateError::PermissionDenied { .. } => ErrorCode::PermissionDenied,
            GateError::Arguments { .. }
            | GateError::RefNotFound { .. }
            | GateError::WrongKind { .. }
            | GateError::UnknownFrame { .. }
            | GateError::Geometry { .. }
            | GateError::Embodiment { .. } => ErrorCode::InvalidArguments,
            GateError::Condition { .. } => ErrorCode::InvalidCommand,
            GateError::PreconditionNotMet { .. } => ErrorCode::StalePrecondition,
            GateError::ResourceBusy { .. } => ErrorCode::ResourceBusy,
            GateError::EvaluatorUnavailable { .. } => ErrorCode::EvaluatorUnavailable,
        }
    }

    /// The code of ExecuteTask with which a task ends when this is its last word.
    pub fn task_code(&self) -> ErrorCode {
        match self {
            GateError::UnknownSkill { .. } => ErrorCode::SkillUnavailable,
            GateError::PermissionDenied { .. } => ErrorCode::PermissionDenied,
            GateError::EvaluatorUnavailable { .. } => ErrorCode::EvaluatorUnavailable,
            GateError::ResourceBusy { held, .. } if held.state == CommandState::Unknown => {
                ErrorCode::CommandUnknown
            }
            GateError::ResourceBusy { .. }
            | GateError::Arguments { .. }
            | GateError::RefNotFound { .. }
            | GateError::WrongKind { .. }
            | GateError::UnknownFrame { .. }
            | GateError::Geometry { .. }
            | GateError::Embodiment { .. }
            | GateError::Condition { .. }
            | GateError::PreconditionNotMet { .. } => ErrorCode::AttemptsExhausted,
        }
    }
}

fn list(names: &[String]) -> String {
    if names.is_empty() {
        "none".into()
    } else {
        names.join(", ")
    }
}

fn silent_text(silent: &[String]) -> String {
    if silent.is_empty() {
        String::new()
    } else {
        format!(
            " (silent, so that their skills are withdrawn: {})",
            silent.join(", ")
        )
    }
}

fn kinds(kinds: &[Kind]) -> String {
    kinds
        .iter()
        .map(|k| k.name())
        .collect::<Vec<_>>()
        .join(", ")
}

fn settle_hint(held: &Held) -> &'static str {
    match held.state {
        CommandState::Unknown | CommandState::Reconciling => {
            "; look what became of it and say so with settle_command"
        }
        CommandState::Unspecified
        | CommandState::Proposed
        | CommandState::Rejected
        | CommandState::Committed
        | CommandState::Dispatched
        | CommandState::Accepted
        | CommandState::Running
        | CommandState::Evaluating
        | CommandState::Canceling
        | CommandState::Succeeded
        | CommandState::Failed
        | CommandState::Canceled => "",
    }
}

/// Checks a proposal and makes the command of it.
///
/// # Errors
/// [`GateError`], which says what is wrong with the value and the limit.
pub fn check(proposal: &Proposal, context: &GateContext<'_>) -> Result<Admitted, GateError> {
    let skill = proposal.skill.clone();
    let steady = context.now.steady;
    let Some(offer) = context
        .surroundings
        .offer(context.robot_id, &proposal.skill, steady)
    else {
        let offers = context.surroundings.offers(context.robot_id, steady);
        let silent = context
            .surroundings
            .silent_executors(context.robot_id, steady);
        return Err(GateError::UnknownSkill {
            skill,
            offered: offers.iter().map(|o| o.descriptor.name.clone()).collect(),
            silent: silent.into_iter().map(String::from).collect(),
        });
    };
    let descriptor = offer.descriptor;
    let needed = &descriptor.permission;
    if !needed.is_empty() && !context.permissions.contains(needed) {
        return Err(GateError::PermissionDenied {
            skill,
            permission: needed.clone(),
            granted: context.permissions.to_vec(),
        });
    }
    let schema = ArgumentSchema::new(&descriptor.arguments_schema).map_err(|source| {
        GateError::Arguments {
            skill: skill.clone(),
            source,
        }
    })?;
    let arguments = schema
        .check(&Value::Object(proposal.arguments.clone()))
        .map_err(|source| GateError::Arguments {
            skill: skill.clone(),
            source,
        })?;
    check_numbers(&skill, &arguments, context.map_frame)?;
    let targets = ground(&schema, &arguments, context.scene)?;
    for target in &targets {
        let checked = target
            .pose
            .check(&target.argument)
            .and_then(|()| target.size.check(&target.argument));
        checked.map_err(|source| GateError::Geometry {
            skill: skill.clone(),
            source,
        })?;
        if target.frame_id != context.map_frame {
            return Err(GateError::UnknownFrame {
                argument: target.argument.clone(),
                frame_id: target.frame_id.clone(),
                map_frame: context.map_frame.into(),
            });
        }
    }
    let condition_error = |source| GateError::Condition {
        skill: proposal.skill.clone(),
        source,
    };
    let effects = bind_effects(&descriptor.effects, &arguments).map_err(condition_error)?;
    check_body(&skill, descriptor, &effects, &targets, context.embodiment)?;
    let precondition = descriptor
        .preconditions
        .bind(&arguments)
        .map_err(condition_error)?;
    if precondition != Condition::always() {
        let belief = belief::evaluate(&precondition, context.scene, context.now.ros);
        // Not known is not met: the planner has to find out first.
        if belief.truth != Truth::True {
            return Err(GateError::PreconditionNotMet {
                skill,
                reason: belief.explanation,
            });
        }
    }
    if let Some(held) = context.ledger.held(&descriptor.resources).next() {
        return Err(GateError::ResourceBusy { skill, held });
    }
    if descriptor.evaluated && !context.surroundings.evaluator_ready {
        return Err(GateError::EvaluatorUnavailable { skill });
    }
    let command = SkillCommand {
        schema_version: SCHEMA_VERSION,
        command_id: context.command_id.into(),
        task_id: context.task_id.into(),
        robot_id: context.robot_id.into(),
        skill: descriptor.name.clone(),
        skill_version: descriptor.version.clone(),
        preconditions: preconditions(&targets, &precondition, context.scene, context.limits),
        arguments,
        targets,
        world_version: context.scene.version,
        plan_version: context.plan_version,
        start_within: context.limits.start_within,
        execution_timeout: descriptor.maximum_duration(),
        stop_timeout: context.limits.stop_timeout,
        max_segments: descriptor.max_segments,
    };
    Ok(Admitted {
        issue: Issue {
            command,
            action_name: descriptor.action_name.clone(),
            executor: offer.catalog.executor.clone(),
            boot_id: offer.beacon.boot_id.clone(),
            resources: descriptor.resources.clone(),
            evaluated: descriptor.evaluated,
            max_segments: descriptor.max_segments,
            maximum_duration: descriptor.maximum_duration(),
        },
        beacon: offer.beacon.clone(),
        effects,
    })
}

fn ground(
    schema: &ArgumentSchema,
    arguments: &Map<String, Value>,
    scene: &SceneSnapshot,
) -> Result<Vec<TargetBinding>, GateError> {
    let mut targets = Vec::new();
    for (argument, wanted) in schema.refs() {
        let Some(reference) = arguments.get(argument).and_then(Value::as_str) else {
            // An optional argument that was not given.
            continue;
        };
        let Some(object) = scene.get(reference) else {
            return Err(GateError::RefNotFound {
                argument: argument.into(),
                reference: reference.into(),
            });
        };
        if !wanted.contains(&object.kind) {
            return Err(GateError::WrongKind {
                argument: argument.into(),
                reference: reference.into(),
                found: object.kind,
                wanted,
            });
        }
        targets.push(bind_target(argument, object, scene));
    }
    Ok(targets)
}

/// Every number of the arguments is a possible SI value, and every frame is the map.
fn check_numbers(
    skill: &str,
    arguments: &Map<String, Value>,
    map_frame: &str,
) -> Result<(), GateError> {
    fn walk(
        skill: &str,
        argument: &str,
        value: &Value,
        map_frame: &str,
        depth: u32,
    ) -> Result<(), GateError> {
        // The parser of JSON itself allows 128 levels; arguments have two.
        if depth > 16 {
            return Ok(());
        }
        match value {
            Value::Number(number) => match number.as_f64() {
                Some(v) if v.is_finite() && v.abs() <= MAX_COORDINATE => Ok(()),
                other => Err(GateError::Geometry {
                    skill: skill.into(),
                    source: GeometryError::TooLarge {
                        what: argument.into(),
                        value: other.unwrap_or(f64::NAN),
                    },
                }),
            },
            Value::Array(items) => items
                .iter()
                .try_for_each(|v| walk(skill, argument, v, map_frame, depth + 1)),
            Value::Object(map) => {
                if let Some(frame_id) = map.get("frame_id").and_then(Value::as_str) {
                    // The schema says what an empty frame means: the map.
                    if !frame_id.is_empty() && frame_id != map_frame {
                        return Err(GateError::UnknownFrame {
                            argument: argument.into(),
                            frame_id: frame_id.into(),
                            map_frame: map_frame.into(),
                        });
                    }
                }
                map.iter()
                    .try_for_each(|(k, v)| walk(skill, k, v, map_frame, depth + 1))
            }
            Value::Null | Value::Bool(_) | Value::String(_) => Ok(()),
        }
    }
    arguments
        .iter()
        .try_for_each(|(name, value)| walk(skill, name, value, map_frame, 0))
}

fn check_body(
    skill: &str,
    descriptor: &SkillDescriptor,
    effects: &BoundEffects,
    targets: &[TargetBinding],
    body: &Embodiment,
) -> Result<(), GateError> {
    let fail = |source| GateError::Embodiment {
        skill: skill.into(),
        source,
    };
    body.check(&descriptor.embodiment).map_err(fail)?;
    for condition in &effects.add {
        for predicate in condition.predicates() {
            let Predicate::Holding(holding) = predicate else {
                continue;
            };
            if let Some(target) = targets.iter().find(|t| t.r#ref == holding.object) {
                let (x, y) = horizontal(target.size);
                body.check_grasp(&target.r#ref, x, y).map_err(fail)?;
            }
        }
    }
    Ok(())
}

/// Effects with the arguments that were given; one that speaks of an optional argument that was not
/// given does not happen.
fn bind_effects(
    effects: &Effects,
    arguments: &Map<String, Value>,
) -> Result<BoundEffects, ConditionError> {
    let given = |t: &&Template| t.placeholders().iter().all(|p| arguments.contains_key(p));
    let bind = |templates: &[Template]| {
        templates
            .iter()
            .filter(given)
            .map(|t| t.bind(arguments))
            .collect::<Result<Vec<_>, _>>()
    };
    Ok(BoundEffects {
        add: bind(&effects.add)?,
        remove: bind(&effects.remove)?,
    })
}

/// What the executor checks again before its first motion: that each object is still where it was, and
/// the skill's own preconditions.
fn preconditions(
    targets: &[TargetBinding],
    own: &Condition,
    scene: &SceneSnapshot,
    limits: &GateLimits,
) -> Vec<Precondition> {
    let mut out: Vec<Precondition> = targets
        .iter()
        .filter(|t| t.kind == Kind::Object)
        .map(|t| Precondition {
            r#ref: t.r#ref.clone(),
            version: t.version,
            same_version: false,
            max_age: Duration::ZERO,
            // What the robot holds moves with it.
            max_displacement: if scene.has(ROBOT, RelationKind::Holds, &t.r#ref) {
                0.0
            } else {
                limits.max_displacement
            },
            predicates: Value::Null,
        })
        .collect();
    if *own != Condition::always() {
        out.push(Precondition {
            r#ref: String::new(),
            version: 0,
            same_version: false,
            max_age: Duration::ZERO,
            max_displacement: 0.0,
            predicates: own.to_value(),
        });
    }
    out
}

//! The gate of the executor: may this command start here and now?

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use eh_contract::arguments::{ArgumentError, ArgumentSchema};
use eh_contract::command::{Envelope, SkillCommand, SCHEMA_VERSION};
use eh_contract::error_code::ErrorCode;
use eh_contract::id::check_id;
use eh_contract::skill::{DescriptorError, SkillDescriptor};
use serde_json::{Map, Value};

use crate::executor::ExecutorRecord;

/// Longest stop_timeout that is taken; a robot that needs longer to stand still is out of control.
pub const MAX_STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// A skill of this executor with its compiled schema.
#[derive(Debug)]
pub struct KnownSkill {
    /// Its descriptor.
    pub descriptor: SkillDescriptor,
    /// The compiled schema of its arguments.
    pub schema: ArgumentSchema,
}

impl KnownSkill {
    /// Checks a descriptor and compiles its schema.
    ///
    /// # Errors
    /// [`DescriptorError`].
    pub fn new(descriptor: SkillDescriptor) -> Result<Self, DescriptorError> {
        descriptor.check()?;
        let schema = ArgumentSchema::new(&descriptor.arguments_schema).map_err(|source| {
            DescriptorError::Schema {
                skill: descriptor.name.clone(),
                source,
            }
        })?;
        Ok(KnownSkill { descriptor, schema })
    }
}

/// The control lease as the executor sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseView {
    /// The newest token ever known, from the lease and from the journal.
    pub newest_token: u64,
    /// Whether the newest lease is held and has not expired on this executor's steady clock.
    pub live: bool,
    /// Its holder; empty: nobody.
    pub controller_id: String,
}

/// What the scene graph answered about the preconditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SceneCheck {
    /// All hold.
    Holds,
    /// One does not.
    Fails {
        /// Index into the command's preconditions.
        index: usize,
        /// Why.
        reason: String,
    },
    /// No answer could be had.
    Unavailable {
        /// Why.
        reason: String,
    },
}

/// A command as it arrived.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The command.
    pub command: &'a SkillCommand,
    /// The digest that came with it.
    pub digest: &'a str,
    /// Its envelope.
    pub envelope: &'a Envelope,
    /// Segment.
    pub segment: u32,
}

/// What the executor knows at this moment.
#[derive(Clone, Copy, Debug)]
pub struct ExecutorView<'a> {
    /// Its name.
    pub executor: &'a str,
    /// This process life.
    pub boot_id: &'a str,
    /// Steady time since its start.
    pub tick: Duration,
    /// The robot that it moves.
    pub robot_id: &'a str,
    /// Its skills by name.
    pub skills: &'a BTreeMap<String, KnownSkill>,
    /// The record of the same command id, if there is one.
    pub known: Option<&'a ExecutorRecord>,
    /// Who holds each resource: a command's id, or words for a goal that is not ours.
    pub held: &'a BTreeMap<String, String>,
    /// The lease.
    pub lease: &'a LeaseView,
    /// Whether a lease is required at all.
    pub require_lease: bool,
    /// The stop that is latched, if any.
    pub stop_latched: Option<&'a str>,
    /// Frames that poses may be in.
    pub frames: &'a BTreeSet<String>,
    /// Whether the node is going down.
    pub shutting_down: bool,
}

/// Why a command is refused; nothing was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Code.
    pub code: ErrorCode,
    /// Value, limit, what to do.
    pub message: String,
}

/// The gate's answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Admission {
    /// It may start.
    Admit(Admitted),
    /// It is known: its own record is the answer, nothing is started, no deadline is refreshed.
    Duplicate,
    /// It must not.
    Refuse(Refusal),
}

/// What an admitted command runs with.
#[derive(Clone, Debug, PartialEq)]
pub struct Admitted {
    /// Arguments with the defaults filled in.
    pub arguments: Map<String, Value>,
    /// Resources that it claims.
    pub resources: Vec<String>,
    /// It must have started by then, on the executor's steady clock.
    pub start_by: Duration,
    /// Longest time of control.
    pub execution_timeout: Duration,
}

fn refuse(code: ErrorCode, message: impl Into<String>) -> Admission {
    Admission::Refuse(Refusal {
        code,
        message: message.into(),
    })
}

/// True when the command has preconditions that only the scene graph can check.
pub fn needs_scene_check(command: &SkillCommand) -> bool {
    !command.preconditions.is_empty()
}

/// Decides on a command. `scene` is `None` before the scene graph was asked: then everything else is
/// checked, so that a command which is refused anyway costs no question. Ask again with the answer.
///
/// Order: what is known already, then what the command is, then who sends it, then when, then what the
/// robot is doing, and last what the world is like.
pub fn admit(
    request: &Request<'_>,
    view: &ExecutorView<'_>,
    scene: Option<&SceneCheck>,
) -> Admission {
    let command = request.command;
    if view.shutting_down {
        return refuse(
            ErrorCode::ShuttingDown,
            format!(
                "{} is shutting down; send the command again to its successor",
                view.executor
            ),
        );
    }
    if command.schema_version != SCHEMA_VERSION {
        return refuse(
            ErrorCode::InvalidCommand,
            format!("the command has schema_version {}, this executor knows {SCHEMA_VERSION}; use the same release on both sides", command.schema_version),
        );
    }
    if let Err(e) = check_id("command_id", &command.command_id) {
        return refuse(ErrorCode::InvalidCommand, e.to_string());
    }
    let digest = command.digest();
    if digest != request.digest {
        return refuse(
            ErrorCode::DigestMismatch,
            format!("the command says digest {:?}, its fields give {digest}; it was changed on the way, or the issuer computes the digest in another way (docs/architecture.md)", shorten(request.digest)),
        );
    }
    if let Some(known) = view.known {
        if known.digest != digest {
            return refuse(
                ErrorCode::CommandIdConflict,
                format!("command {} is known with digest {}, now it comes with {digest}; a new command needs a new command_id", command.command_id, known.digest),
            );
        }
        if known.segment == request.segment {
            return Admission::Duplicate;
        }
        return refuse(
            ErrorCode::CommandIdConflict,
            format!("segment {} of command {} is known, segment {} can't be started under it; this executor runs one segment a command", known.segment, command.command_id, request.segment),
        );
    }
    let admitted = match check_command(request, view) {
        Err(refusal) => return Admission::Refuse(refusal),
        Ok(admitted) => admitted,
    };
    if let Err(refusal) = check_sender(request, view)
        .and_then(|()| check_age(request, view))
        .and_then(|()| check_robot(&admitted, view))
    {
        return Admission::Refuse(refusal);
    }
    match scene {
        None | Some(SceneCheck::Holds) => Admission::Admit(admitted),
        Some(SceneCheck::Fails { index, reason }) => refuse(
            ErrorCode::StalePrecondition,
            format!("precondition {index} does not hold any more: {reason}; plan again on the present scene"),
        ),
        Some(SceneCheck::Unavailable { reason }) => refuse(
            ErrorCode::StalePrecondition,
            format!("the preconditions can't be checked: {reason}; start scene_graph_node or set the parameter query_scene_service"),
        ),
    }
}

/// Checks the command by itself.
fn check_command(request: &Request<'_>, view: &ExecutorView<'_>) -> Result<Admitted, Refusal> {
    let command = request.command;
    let fail = |code, message: String| Err(Refusal { code, message });
    if !command.task_id.is_empty() {
        check_id("task_id", &command.task_id).map_err(|e| Refusal {
            code: ErrorCode::InvalidCommand,
            message: e.to_string(),
        })?;
    }
    if command.robot_id != view.robot_id {
        return fail(
            ErrorCode::WrongRobot,
            format!(
                "the command is for robot {:?}, this executor moves {:?}; send it to that robot's executor",
                shorten(&command.robot_id),
                view.robot_id
            ),
        );
    }
    let Some(skill) = view.skills.get(&command.skill) else {
        let names: Vec<&str> = view.skills.keys().map(String::as_str).collect();
        return fail(
            ErrorCode::UnknownSkill,
            format!(
                "there is no skill {:?} here; the skills are {}",
                shorten(&command.skill),
                names.join(", ")
            ),
        );
    };
    let descriptor = &skill.descriptor;
    if command.skill_version != descriptor.version {
        return fail(
            ErrorCode::UnknownSkill,
            format!(
                "skill {} has version {} here, the command was checked against {:?}; read the skill catalog again",
                descriptor.name,
                descriptor.version,
                shorten(&command.skill_version)
            ),
        );
    }
    let segments = if descriptor.segmented {
        match command.max_segments {
            0 => descriptor.max_segments,
            n => n.min(descriptor.max_segments),
        }
    } else {
        1
    };
    if request.segment >= segments {
        return fail(
            ErrorCode::InvalidCommand,
            format!(
                "segment {} was asked for, the command has {segments}, counted from 0",
                request.segment
            ),
        );
    }
    if command.start_within.is_zero() {
        return fail(
            ErrorCode::InvalidCommand,
            "start_within is zero or negative; give the command time to start, for example 2 s"
                .into(),
        );
    }
    if command.stop_timeout() > MAX_STOP_TIMEOUT {
        return fail(
            ErrorCode::InvalidCommand,
            format!(
                "stop_timeout is {:.1} s, the limit is {} s",
                command.stop_timeout().as_secs_f64(),
                MAX_STOP_TIMEOUT.as_secs()
            ),
        );
    }
    let maximum = descriptor.maximum_duration();
    let execution_timeout = if command.execution_timeout.is_zero() {
        maximum
    } else {
        command.execution_timeout.min(maximum)
    };
    let arguments = skill
        .schema
        .check(&Value::Object(command.arguments.clone()))
        .map_err(|e: ArgumentError| Refusal {
            code: ErrorCode::InvalidArguments,
            message: format!("skill {}: {e}", descriptor.name),
        })?;
    check_targets(command, skill, &arguments, view)?;
    for (i, precondition) in command.preconditions.iter().enumerate() {
        if let Err(e) = precondition.condition() {
            return fail(
                ErrorCode::InvalidCommand,
                format!("precondition {i} can't be read: {e}"),
            );
        }
        let limit = precondition.max_displacement;
        if !(limit.is_finite() && limit >= 0.0) {
            return fail(
                ErrorCode::InvalidCommand,
                format!("max_displacement of precondition {i} is {limit} m; it must be finite and at least 0"),
            );
        }
    }
    // Without a beacon the command is refused later on; then this time is of no consequence.
    let counted_from = request
        .envelope
        .beacon
        .as_ref()
        .map_or(view.tick, |b| b.tick);
    Ok(Admitted {
        arguments,
        resources: descriptor.resources.clone(),
        start_by: counted_from.saturating_add(request.envelope.start_within),
        execution_timeout,
    })
}

/// Checks the targets and that each argument that names a scene object has one.
fn check_targets(
    command: &SkillCommand,
    skill: &KnownSkill,
    arguments: &Map<String, Value>,
    view: &ExecutorView<'_>,
) -> Result<(), Refusal> {
    let fail = |message: String| {
        Err(Refusal {
            code: ErrorCode::InvalidArguments,
            message,
        })
    };
    let mut seen = BTreeSet::new();
    for target in &command.targets {
        if !seen.insert(target.argument.as_str()) {
            return fail(format!(
                "two targets are given for the argument {:?}; give one",
                shorten(&target.argument)
            ));
        }
        let check_frame = |frame: &str| {
            if view.frames.contains(frame) {
                Ok(())
            } else {
                Err(Refusal {
                    code: ErrorCode::InvalidArguments,
                    message: format!(
                        "target {:?} is in frame {:?}, the frames known here are {}; transform it to the map frame",
                        shorten(&target.r#ref),
                        shorten(frame),
                        view.frames.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
                    ),
                })
            }
        };
        check_frame(&target.frame_id)?;
        let geometry = target
            .pose
            .check(&format!("target {}", shorten(&target.argument)))
            .and_then(|()| target.size.check("size"))
            .and_then(|()| match &target.support {
                None => Ok(()),
                Some(s) => s
                    .pose
                    .check("support_pose")
                    .and_then(|()| s.size.check("support_size")),
            });
        if let Err(e) = geometry {
            return fail(e.to_string());
        }
        let sizes = [target.size]
            .into_iter()
            .chain(target.support.as_ref().map(|s| s.size));
        for size in sizes {
            if size.x < 0.0 || size.y < 0.0 || size.z < 0.0 {
                return fail(format!(
                    "the size of target {:?} is negative ({}, {}, {}) m; sizes are edge lengths",
                    shorten(&target.r#ref),
                    size.x,
                    size.y,
                    size.z
                ));
            }
        }
    }
    for (name, kinds) in skill.schema.refs() {
        let Some(given) = arguments.get(name).and_then(Value::as_str) else {
            continue;
        };
        let Some(target) = command.target(name) else {
            return fail(format!("the argument {name} names {:?}, but the command carries no target for it; bind it from the scene graph before sending", shorten(given)));
        };
        if target.r#ref != given {
            return fail(format!(
                "the argument {name} names {:?}, its target is {:?}; bind it again",
                shorten(given),
                shorten(&target.r#ref)
            ));
        }
        if !kinds.is_empty() && !kinds.contains(&target.kind) {
            let names: Vec<&str> = kinds.iter().map(|k| k.name()).collect();
            return fail(format!(
                "the argument {name} names {:?}, a {}; allowed are: {}",
                shorten(given),
                target.kind.name(),
                names.join(", ")
            ));
        }
    }
    if let Some(pose) = arguments.get("pose").and_then(Value::as_object) {
        // A goal pose among the arguments: `frame_id`, x, y, yaw. The schema has checked that they are
        // numbers; that they are believable is checked here.
        if let Some(frame) = pose.get("frame_id").and_then(Value::as_str) {
            if !view.frames.contains(frame) {
                return fail(format!("the pose is in frame {:?}, the frames known here are {}; give it in the map frame", shorten(frame), view.frames.iter().map(String::as_str).collect::<Vec<_>>().join(", ")));
            }
        }
        let number = |name: &str| pose.get(name).and_then(Value::as_f64).unwrap_or(0.0);
        if let Err(e) = eh_contract::geometry::Pose::planar(number("x"), number("y"), number("yaw"))
            .check("pose")
        {
            return fail(e.to_string());
        }
    }
    Ok(())
}

/// Checks who sends: nobody without a live lease, nobody under an old token.
fn check_sender(request: &Request<'_>, view: &ExecutorView<'_>) -> Result<(), Refusal> {
    let envelope = request.envelope;
    let fail = |code, message: String| Err(Refusal { code, message });
    if envelope.controller_id.is_empty() {
        return fail(
            ErrorCode::InvalidCommand,
            "controller_id of the envelope is empty; say who sends".into(),
        );
    }
    if envelope.fencing_token != 0 && envelope.fencing_token < view.lease.newest_token {
        return fail(
            ErrorCode::OldToken,
            format!(
                "the command was sent under token {}, the newest is {}; somebody else has taken the control lease: acquire it again before commanding",
                envelope.fencing_token, view.lease.newest_token
            ),
        );
    }
    if !view.require_lease {
        return Ok(());
    }
    if envelope.fencing_token == 0 {
        return fail(
            ErrorCode::ExecutorNoLease,
            "the command carries no fencing token; acquire the control lease with manage_lease first".into(),
        );
    }
    if !view.lease.live {
        return fail(
            ErrorCode::ExecutorNoLease,
            format!("no live control lease is known here (newest token {}); acquire or renew it with manage_lease, and check that control_lease is published", view.lease.newest_token),
        );
    }
    if envelope.fencing_token > view.lease.newest_token {
        // Only the lease itself makes a token known: a number that somebody made up must shut nobody out.
        return fail(
            ErrorCode::ExecutorNoLease,
            format!(
                "token {} is newer than the newest that control_lease has told here, {}; if it was granted, that is told in a moment: send a new command then",
                envelope.fencing_token, view.lease.newest_token
            ),
        );
    }
    if envelope.fencing_token == view.lease.newest_token
        && !view.lease.controller_id.is_empty()
        && view.lease.controller_id != envelope.controller_id
    {
        return fail(
            ErrorCode::ExecutorNoLease,
            format!(
                "token {} belongs to {:?}, the command was sent by {:?}; send under your own lease",
                envelope.fencing_token,
                view.lease.controller_id,
                shorten(&envelope.controller_id)
            ),
        );
    }
    Ok(())
}

/// Checks the age of the command on this executor's own steady clock.
fn check_age(request: &Request<'_>, view: &ExecutorView<'_>) -> Result<(), Refusal> {
    let envelope = request.envelope;
    let fail = |code, message: String| Err(Refusal { code, message });
    let Some(beacon) = &envelope.beacon else {
        return fail(
            ErrorCode::NoBeacon,
            "the command carries no beacon of this executor, so its age can't be known; subscribe executor_beacon and echo the newest one".into(),
        );
    };
    if beacon.executor != view.executor {
        return fail(
            ErrorCode::NoBeacon,
            format!(
                "the beacon is of {:?}, this is {:?}; echo this executor's own",
                shorten(&beacon.executor),
                view.executor
            ),
        );
    }
    if beacon.boot_id != view.boot_id {
        return fail(
            ErrorCode::ExpiredCommand,
            format!("the command was made for boot {:?} of this executor, which has restarted since (boot {}); make a new command", shorten(&beacon.boot_id), view.boot_id),
        );
    }
    let Some(age) = view.tick.checked_sub(beacon.tick) else {
        return fail(
            ErrorCode::NoBeacon,
            format!("the beacon's tick is {:.3} s, this executor has run for {:.3} s only; it is not one of its beacons", beacon.tick.as_secs_f64(), view.tick.as_secs_f64()),
        );
    };
    if envelope.start_within > request.command.start_within {
        return fail(
            ErrorCode::InvalidCommand,
            format!("the envelope leaves {:.3} s to start, more than the command's whole budget of {:.3} s; a budget is never refreshed", envelope.start_within.as_secs_f64(), request.command.start_within.as_secs_f64()),
        );
    }
    // At the limit it has expired: "begun no later" includes the work still to be done here.
    if age >= envelope.start_within {
        return fail(
            ErrorCode::ExpiredCommand,
            format!("the command is {:.3} s old, it had to start within {:.3} s; make a new command on the present scene", age.as_secs_f64(), envelope.start_within.as_secs_f64()),
        );
    }
    Ok(())
}

/// Checks that the robot is free for it.
fn check_robot(admitted: &Admitted, view: &ExecutorView<'_>) -> Result<(), Refusal> {
    if let Some(stop_id) = view.stop_latched {
        return Err(Refusal {
            code: ErrorCode::StopLatched,
            message: format!("stop {stop_id:?} is latched; when it is safe, reset it with \"harness reset\" or the service reset_stop"),
        });
    }
    for resource in &admitted.resources {
        if let Some(holder) = view.held.get(resource) {
            return Err(Refusal {
                code: ErrorCode::ResourceBusy,
                message: format!(
                    "{resource} is held by {holder}; wait until that is settled, or settle it"
                ),
            });
        }
    }
    Ok(())
}

/// Untrusted text in a message: bounded.
fn shorten(text: &str) -> String {
    if text.chars().count() > 80 {
        text.chars().take(77).chain("...".chars()).collect()
    } else {
        text.into()
    }
}

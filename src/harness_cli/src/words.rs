//! What is shown, as text.

use std::time::Duration;

use eh_contract::session::EventKind;
use eh_contract::state::{CommandState, ControlEnd, ExecutorState, StopStage, TaskOutcome};
use eh_contract::verdict::Outcome;
use eh_contract::ErrorCode;
use eh_ros_edge::convert::{duration_s, time_ns};
use ros_env::embodied_harness::msg::{
    ControlLease, HumanRequest, ProtectionState, SceneObject, SceneRelation, SessionEvent,
    SkillCatalog, SkillDescriptor, SkillStatus, StepReport,
};
use serde_json::{Map, Value};

/// A name as in messages: upper case with underscores.
fn upper(debug: impl std::fmt::Debug) -> String {
    let mut out = String::new();
    for (i, c) in format!("{debug:?}").chars().enumerate() {
        if i > 0 && c.is_uppercase() {
            out.push('_');
        }
        out.extend(c.to_uppercase());
    }
    out
}

/// A number of things: `1 step`, `2 steps`.
pub(crate) fn count(number: usize, thing: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{ending}")
}

/// The state of a command.
pub(crate) fn command_state(number: u8) -> String {
    CommandState::from_wire(number).map_or_else(|| format!("state {number}"), upper)
}

/// The outcome of a task.
pub(crate) fn outcome(number: u8) -> String {
    TaskOutcome::from_wire(number).map_or_else(|| format!("outcome {number}"), upper)
}

/// The stage of a stop.
pub(crate) fn stop_stage(number: u8) -> String {
    StopStage::from_wire(number).map_or_else(|| format!("stage {number}"), upper)
}

/// A code with its name, as in `10108 RESOURCE_BUSY`.
pub(crate) fn error(code: u16) -> String {
    ErrorCode::from_code(code).map_or_else(
        || code.to_string(),
        |known| format!("{} {}", code, known.name()),
    )
}

fn verdict(number: u8) -> Option<&'static str> {
    match Outcome::from_wire(number)? {
        Outcome::Process => Some("PROCESS"),
        Outcome::Success => Some("SUCCESS"),
        Outcome::Failure => Some("FAILURE"),
        Outcome::Unknown => Some("UNKNOWN"),
    }
}

/// Arguments for people: `object=cup_1 support=table_1`.
pub(crate) fn arguments(json: &str) -> String {
    match serde_json::from_str::<Map<String, Value>>(json) {
        Ok(map) => map
            .iter()
            .map(|(name, value)| match value {
                Value::String(text) => format!("{name}={text}"),
                other => format!("{name}={other}"),
            })
            .collect::<Vec<_>>()
            .join(" "),
        Err(_) => json.into(),
    }
}

/// Seconds since the task began, right-aligned.
pub(crate) fn clock(seconds: f64) -> String {
    format!("{:>7.1} s  ", seconds.max(0.0))
}

const BLANK: &str = "           ";

/// An event of the running task, one line each; `None` for what the step's report says better.
pub(crate) fn event(event: &SessionEvent, began: i64, verbose: bool) -> Option<String> {
    let at = clock((time_ns(&event.stamp) - began) as f64 * 1e-9);
    let kind = EventKind::from_name(&event.kind);
    let text = match kind {
        Some(EventKind::Proposed) => {
            let payload: Value = serde_json::from_str(&event.payload_json).unwrap_or(Value::Null);
            let skill = payload.get("skill").and_then(Value::as_str).unwrap_or("?");
            let given = payload
                .get("arguments")
                .map(|a| arguments(&a.to_string()))
                .unwrap_or_default();
            let reason = event.text.split_once(": ").map_or("", |(_, reason)| reason);
            let why = if reason.is_empty() {
                String::new()
            } else {
                format!("\n{BLANK}    why: {reason}")
            };
            format!("{skill} {given}{why}")
        }
        Some(EventKind::Rejected) => format!("    refused: {}", event.text),
        Some(EventKind::CancelRequested) => format!("    stop asked: {}", event.text),
        Some(EventKind::StopConfirmed) => format!("    stop confirmed: {}", event.text),
        Some(EventKind::HumanRequest) => format!(
            "    asks: {} (harness answer {} …)",
            event.text,
            request_id(&event.payload_json)
        ),
        Some(EventKind::HumanAnswered) => format!("    answered: {}", event.text),
        Some(EventKind::Plan | EventKind::TaskResumed) => event.text.clone(),
        Some(EventKind::Started) => format!("    {}", event.text),
        Some(EventKind::ControlEnded) => format!("    {}", event.text),
        // Told by the client itself, by the step's report or by the result.
        Some(EventKind::TaskReceived | EventKind::TaskEnded) => return None,
        Some(
            EventKind::Committed
            | EventKind::Dispatched
            | EventKind::Accepted
            | EventKind::Judged
            | EventKind::Settled,
        )
        | None => {
            if !verbose {
                return None;
            }
            format!("    {}: {}", event.kind, event.text)
        }
    };
    Some(format!("{at}{text}"))
}

fn request_id(payload: &str) -> String {
    serde_json::from_str::<Value>(payload)
        .ok()
        .and_then(|v| v.get("request_id")?.as_str().map(String::from))
        .unwrap_or_default()
}

/// How a step ended.
pub(crate) fn step_end(step: &StepReport, elapsed: f64) -> String {
    let mut out = String::new();
    if let Some(word) = verdict(step.verdict) {
        out.push_str(&format!(
            "{}    judged {word}: {}\n",
            clock(elapsed),
            step.verdict_reason
        ));
        for line in &step.evidence {
            out.push_str(&format!("{BLANK}      · {line}\n"));
        }
    }
    out.push_str(&format!(
        "{}    step {} {} in {:.1} s",
        clock(elapsed),
        step.step,
        command_state(step.command_state),
        duration_s(&step.duration)
    ));
    let said_already = step.error_msg == step.verdict_reason;
    if !step.error_msg.is_empty() && !said_already {
        out.push_str(&format!(
            " ({}): {}",
            error(step.error_code),
            step.error_msg
        ));
    }
    out
}

/// A step as one line of a list.
pub(crate) fn step_line(step: &StepReport) -> String {
    let mut out = format!(
        "{:>3}  {:<10} {} {}",
        step.step,
        command_state(step.command_state),
        step.skill,
        arguments(&step.arguments_json)
    );
    let seconds = duration_s(&step.duration);
    if seconds > 0.0 {
        out.push_str(&format!("  {seconds:.1} s"));
    }
    if let Some(word) = verdict(step.verdict) {
        out.push_str(&format!("\n       {word}: {}", step.verdict_reason));
    }
    if !step.error_msg.is_empty() && step.error_msg != step.verdict_reason {
        out.push_str(&format!(
            "\n       {}: {}",
            error(step.error_code),
            step.error_msg
        ));
    }
    out
}

/// Where a command is, as its executor says.
pub(crate) fn status_line(status: &SkillStatus) -> String {
    let state = ExecutorState::from_wire(status.state).map_or_else(String::new, upper);
    let mut out = format!("{} {} {state}", status.executor, status.skill);
    match ControlEnd::from_wire(status.control_end) {
        Some(ControlEnd::None) | None => {}
        Some(end) => out.push_str(&format!(" ({})", upper(end))),
    }
    if !status.sub_goal.is_empty() {
        out.push_str(&format!(", {}", status.sub_goal));
    }
    if status.progress.is_finite() {
        out.push_str(&format!(", {:.0} %", status.progress * 100.0));
    }
    if status.stop_stage != StopStage::None.to_wire() {
        out.push_str(&format!(", stop {}", stop_stage(status.stop_stage)));
    }
    if !status.resources.is_empty() {
        out.push_str(&format!(", holds {}", status.resources.join(", ")));
    }
    if !status.error_msg.is_empty() {
        out.push_str(&format!(
            "; {}: {}",
            error(status.error_code),
            status.error_msg
        ));
    }
    out
}

/// Commands older than this say that nobody drives \[s\].
const IDLE_AFTER: f64 = 1.0;

/// What protection does.
pub(crate) fn protection(state: &ProtectionState) -> String {
    // Commands that come while nobody has declared a run are held back, which is no rest.
    let driven = state.command_age <= IDLE_AFTER;
    let mode = match state.mode {
        ProtectionState::MODE_PASS => "passes velocities",
        ProtectionState::MODE_SLOW => "slows down",
        ProtectionState::MODE_STOP
            if state.reason == ProtectionState::REASON_NO_DECLARED_RUN && !driven =>
        {
            "ready, the base is at rest"
        }
        ProtectionState::MODE_STOP => "holds the base",
        ProtectionState::MODE_LATCHED => "STOPPED until it is reset",
        _ => "unknown",
    };
    let mut out = mode.to_owned();
    if state.stop_latched {
        out.push_str(&format!(" ({})", stop_stage(state.stop_stage)));
    }
    if !state.message.is_empty() {
        out.push_str(&format!(": {}", state.message));
    }
    out
}

/// What the robot is at while nothing new is told, and what protection does about it.
pub(crate) fn still(doing: &str, state: Option<&ProtectionState>, quiet: Duration) -> String {
    let mut out = format!("{BLANK}    ");
    if doing.is_empty() {
        out.push_str("waiting for the harness");
    } else {
        out.push_str(&format!("still: {doing}"));
    }
    out.push_str(&format!(" ({:.0} s without news)", quiet.as_secs_f64()));
    // That no velocity comes tells nothing new of a robot that moves its arm.
    let held = state.filter(|s| {
        s.mode != ProtectionState::MODE_PASS
            && s.reason != ProtectionState::REASON_NO_DECLARED_RUN
            && s.reason != ProtectionState::REASON_COMMAND_TIMEOUT
    });
    if let Some(state) = held {
        out.push_str(&format!("\n{BLANK}    protection {}", protection(state)));
    }
    out
}

/// What is said while the harness itself is not heard.
pub(crate) fn unheard(silence: Duration, limit: Duration) -> String {
    format!(
        "{BLANK}    nothing is heard of harness_node for {:.0} s; it is waited for, {:.0} s in all, in case it is started again",
        silence.as_secs_f64(),
        limit.as_secs_f64()
    )
}

/// Who holds the lease.
pub(crate) fn lease(lease: &ControlLease) -> String {
    if lease.controller_id.is_empty() {
        format!("free (newest token {})", lease.token)
    } else {
        format!(
            "{} with token {}, {:.1} s left",
            lease.controller_id,
            lease.token,
            duration_s(&lease.remaining)
        )
    }
}

/// A skill with what it needs.
pub(crate) fn skill(skill: &SkillDescriptor) -> String {
    let names = serde_json::from_str::<Value>(&skill.arguments_schema)
        .ok()
        .and_then(|schema| {
            let properties = schema.get("properties")?.as_object()?;
            Some(properties.keys().cloned().collect::<Vec<_>>().join(", "))
        })
        .unwrap_or_default();
    let permission = if skill.permission.is_empty() {
        String::new()
    } else {
        format!(", permission {}", skill.permission)
    };
    format!(
        "  {}({names})  {}\n      about {:.0} s{permission}",
        skill.name,
        skill.description,
        duration_s(&skill.nominal_duration)
    )
}

/// The skills of an executor.
pub(crate) fn catalog(catalog: &SkillCatalog) -> String {
    let mut out = format!("{} (robot {})", catalog.executor, catalog.robot_id);
    for descriptor in &catalog.skills {
        out.push('\n');
        out.push_str(&skill(descriptor));
    }
    out
}

/// A scene object with its edges.
pub(crate) fn scene_object(object: &SceneObject, relations: &[SceneRelation]) -> String {
    let at = &object.pose.pose.position;
    let edges = relations
        .iter()
        .filter(|r| r.subject == object.ref_)
        .map(|r| format!("{} {}", r.relation, r.object))
        .collect::<Vec<_>>()
        .join(", ");
    let aliases = if object.aliases.is_empty() {
        String::new()
    } else {
        format!("  [{}]", object.aliases.join(", "))
    };
    let gone = if object.retired {
        "no longer there  "
    } else {
        ""
    };
    format!(
        "{:<20} {:<14} ({:>6.2}, {:>6.2}, {:>5.2})  {gone}{edges}{aliases}",
        object.ref_, object.class_name, at.x, at.y, at.z
    )
}

/// A request to people.
pub(crate) fn human_request(request: &HumanRequest) -> String {
    let options: String = if request.options.is_empty() {
        "\n    any text".into()
    } else {
        request
            .options
            .iter()
            .zip(1..)
            .map(|(option, number)| format!("\n    {number}  {option}"))
            .collect()
    };
    format!("{}  {}{options}", request.request_id, request.question)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_not_several() {
        assert_eq!(count(0, "step"), "0 steps");
        assert_eq!(count(1, "step"), "1 step");
        assert_eq!(count(2, "skill"), "2 skills");
    }

    #[test]
    fn names_are_as_in_messages() {
        assert_eq!(command_state(9), "SUCCEEDED");
        assert_eq!(command_state(200), "state 200");
        assert_eq!(stop_stage(4), "UNCONFIRMED");
        assert_eq!(outcome(5), "UNKNOWN");
        assert_eq!(error(10108), "10108 RESOURCE_BUSY");
        assert_eq!(error(9), "9");
    }

    #[test]
    fn a_robot_at_rest_is_no_fault_and_a_stop_is_told_once() {
        let rest = ProtectionState {
            mode: ProtectionState::MODE_STOP,
            reason: ProtectionState::REASON_NO_DECLARED_RUN,
            message: "nobody drives".into(),
            command_age: f64::INFINITY,
            ..ProtectionState::default()
        };
        assert_eq!(
            protection(&rest),
            "ready, the base is at rest: nobody drives"
        );
        let driven = ProtectionState {
            command_age: 0.05,
            ..rest.clone()
        };
        assert!(protection(&driven).starts_with("holds the base: "));
        let stopped = ProtectionState {
            mode: ProtectionState::MODE_LATCHED,
            reason: ProtectionState::REASON_STOP_REQUESTED,
            message: "stop s-1 asked by \"ann\" (smoke) is latched".into(),
            stop_id: "s-1".into(),
            stop_source: "ann".into(),
            stop_stage: StopStage::Confirmed.to_wire(),
            stop_latched: true,
            ..rest
        };
        let text = protection(&stopped);
        assert!(text.starts_with("STOPPED until it is reset (CONFIRMED): stop s-1"));
        assert_eq!(text.matches("s-1").count(), 1, "{text}");
        assert_eq!(text.matches("ann").count(), 1, "{text}");
    }

    #[test]
    fn silence_is_explained_by_what_holds_the_robot() {
        let quiet = Duration::from_secs(5);
        let blocked = ProtectionState {
            mode: ProtectionState::MODE_STOP,
            reason: ProtectionState::REASON_STOP_ZONE,
            message: "something is 0.020 m from the footprint".into(),
            command_age: 0.05,
            ..ProtectionState::default()
        };
        let text = still("navigate_to STARTED, 40 %", Some(&blocked), quiet);
        assert!(text.contains("still: navigate_to STARTED, 40 % (5 s without news)"));
        assert!(text.contains("protection holds the base: something is 0.020 m"));
        // An arm moves without velocities of the base.
        let arm = ProtectionState {
            reason: ProtectionState::REASON_COMMAND_TIMEOUT,
            ..blocked
        };
        assert!(!still("pick STARTED", Some(&arm), quiet).contains("protection"));
        assert!(still("", None, quiet).contains("waiting for the harness"));
    }

    #[test]
    fn arguments_are_readable_and_bad_ones_are_shown_as_they_are() {
        assert_eq!(
            arguments(r#"{"object": "cup_1", "speed": 0.5}"#),
            "object=cup_1 speed=0.5"
        );
        assert_eq!(arguments("{"), "{");
    }

    #[test]
    fn a_step_says_verdict_evidence_and_reason_once() {
        let step = StepReport {
            step: 3,
            skill: "pick".into(),
            command_state: CommandState::Failed.to_wire(),
            verdict: Outcome::Failure.to_wire(),
            verdict_reason: "nothing between the fingers".into(),
            evidence: vec!["gap 0.001 m".into()],
            error_msg: "nothing between the fingers".into(),
            ..StepReport::default()
        };
        let text = step_end(&step, 12.0);
        assert!(text.contains("judged FAILURE: nothing between the fingers"));
        assert!(text.contains("· gap 0.001 m"));
        assert!(text.contains("step 3 FAILED"));
        assert_eq!(text.matches("nothing between").count(), 1);
    }

    #[test]
    fn a_proposal_shows_skill_arguments_and_reason() {
        let proposed = SessionEvent {
            kind: "proposed".into(),
            text: "pick: the cup is wanted".into(),
            payload_json: r#"{"skill": "pick", "arguments": {"object": "cup_1"}}"#.into(),
            ..SessionEvent::default()
        };
        let text = event(&proposed, 0, false).unwrap();
        assert!(text.contains("pick object=cup_1"), "{text}");
        assert!(text.contains("why: the cup is wanted"));
        let broken = SessionEvent {
            payload_json: "{".into(),
            ..proposed
        };
        assert!(event(&broken, 0, false).is_some());
    }
}

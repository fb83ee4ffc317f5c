//! Verdicts, predicate results and evidence to and from their messages.

use eh_contract::verdict::{Evidence, Outcome, PredicateResult, Truth, Verdict};
use ros_env::embodied_harness::msg::{
    Evidence as EvidenceMsg, PredicateResult as PredicateResultMsg, Verdict as VerdictMsg,
};

use super::command::{json_text, json_value, stamp, stamp_msg};
use super::ConvertError;

/// Most predicates or pieces of evidence of one verdict.
pub const MAX_ENTRIES: usize = 1024;

fn bounded(field: &str, len: usize) -> Result<(), ConvertError> {
    if len > MAX_ENTRIES {
        return Err(ConvertError::Field {
            field: field.into(),
            reason: format!("it has {len} entries, the limit is {MAX_ENTRIES}"),
        });
    }
    Ok(())
}

/// Reads a piece of evidence.
///
/// # Errors
/// [`ConvertError::Field`] for a value that is no JSON.
pub fn evidence(message: &EvidenceMsg) -> Result<Evidence, ConvertError> {
    Ok(Evidence {
        id: message.id.clone(),
        kind: message.kind.clone(),
        source: message.source.clone(),
        stamp: stamp(&message.stamp),
        frame_id: message.frame_id.clone(),
        summary: message.summary.clone(),
        value: json_value("value_json", &message.value_json)?,
        reference: message.reference.clone(),
    })
}

/// A piece of evidence as a message.
pub fn evidence_msg(evidence: &Evidence) -> EvidenceMsg {
    EvidenceMsg {
        id: evidence.id.clone(),
        kind: evidence.kind.clone(),
        source: evidence.source.clone(),
        stamp: stamp_msg(evidence.stamp),
        frame_id: evidence.frame_id.clone(),
        summary: evidence.summary.clone(),
        value_json: json_text(&evidence.value),
        reference: evidence.reference.clone(),
    }
}

/// Reads a predicate's result.
///
/// # Errors
/// [`ConvertError::Field`] for a predicate that is no JSON.
pub fn predicate_result(message: &PredicateResultMsg) -> Result<PredicateResult, ConvertError> {
    Ok(PredicateResult {
        predicate: json_value("predicate_json", &message.predicate_json)?,
        truth: Truth::from_wire(message.truth),
        margin: message.margin,
        unit: message.unit.clone(),
        evidence_ids: message.evidence_ids.clone(),
        explanation: message.explanation.clone(),
    })
}

/// A predicate's result as a message.
pub fn predicate_result_msg(result: &PredicateResult) -> PredicateResultMsg {
    PredicateResultMsg {
        predicate_json: json_text(&result.predicate),
        truth: result.truth.to_wire(),
        margin: result.margin,
        unit: result.unit.clone(),
        evidence_ids: result.evidence_ids.clone(),
        explanation: result.explanation.clone(),
    }
}

/// Reads a verdict.
///
/// # Errors
/// [`ConvertError::Field`] for an outcome that no constant has, JSON that is none, or too many entries.
pub fn verdict(message: &VerdictMsg) -> Result<Verdict, ConvertError> {
    bounded("predicates", message.predicates.len())?;
    bounded("evidence", message.evidence.len())?;
    Ok(Verdict {
        run_id: message.run_id.clone(),
        command_id: message.command_id.clone(),
        segment: message.segment,
        outcome: Outcome::from_wire(message.outcome).ok_or_else(|| ConvertError::Field {
            field: "outcome".into(),
            reason: format!(
                "it is {}; use one of OUTCOME_PROCESS, OUTCOME_SUCCESS, OUTCOME_FAILURE, OUTCOME_UNKNOWN",
                message.outcome
            ),
        })?,
        reason: message.reason.clone(),
        predicates: message
            .predicates
            .iter()
            .map(predicate_result)
            .collect::<Result<_, _>>()?,
        evidence: message
            .evidence
            .iter()
            .map(evidence)
            .collect::<Result<_, _>>()?,
        judge: message.judge.clone(),
        judge_version: message.judge_version.clone(),
        stamp: stamp(&message.stamp),
    })
}

/// A verdict as a message.
pub fn verdict_msg(verdict: &Verdict) -> VerdictMsg {
    VerdictMsg {
        run_id: verdict.run_id.clone(),
        command_id: verdict.command_id.clone(),
        segment: verdict.segment,
        outcome: verdict.outcome.to_wire(),
        reason: verdict.reason.clone(),
        predicates: verdict
            .predicates
            .iter()
            .map(predicate_result_msg)
            .collect(),
        evidence: verdict.evidence.iter().map(evidence_msg).collect(),
        judge: verdict.judge.clone(),
        judge_version: verdict.judge_version.clone(),
        stamp: stamp_msg(verdict.stamp),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eh_contract::Stamp;
    use serde_json::json;

    fn example() -> Verdict {
        Verdict {
            run_id: "r1".into(),
            command_id: "c1".into(),
            segment: 2,
            outcome: Outcome::Failure,
            reason: "nothing between the fingers".into(),
            predicates: vec![PredicateResult {
                predicate: json!({"holding": {"object": "cup_1"}}),
                truth: Truth::False,
                margin: -0.003,
                unit: "m".into(),
                evidence_ids: vec!["e1".into()],
                explanation: "closed".into(),
            }],
            evidence: vec![Evidence {
                id: "e1".into(),
                kind: "gripper".into(),
                source: "joint_states".into(),
                stamp: Stamp(5_000_000_001),
                frame_id: String::new(),
                summary: "0.001 m".into(),
                value: json!({"width": 0.001}),
                reference: String::new(),
            }],
            judge: "predicates".into(),
            judge_version: "1".into(),
            stamp: Stamp(6_000_000_000),
        }
    }

    #[test]
    fn a_verdict_survives_the_way_through_its_message() {
        assert_eq!(verdict(&verdict_msg(&example())).unwrap(), example());
    }

    #[test]
    fn an_outcome_that_was_not_filled_is_refused() {
        let mut message = verdict_msg(&example());
        message.outcome = VerdictMsg::OUTCOME_UNSPECIFIED;
        let error = verdict(&message).unwrap_err().to_string();
        assert!(error.contains("OUTCOME_SUCCESS"), "{error}");
        for (outcome, number) in [
            (Outcome::Process, VerdictMsg::OUTCOME_PROCESS),
            (Outcome::Success, VerdictMsg::OUTCOME_SUCCESS),
            (Outcome::Failure, VerdictMsg::OUTCOME_FAILURE),
            (Outcome::Unknown, VerdictMsg::OUTCOME_UNKNOWN),
        ] {
            assert_eq!(outcome.to_wire(), number);
        }
        for (truth, number) in [
            (Truth::Unknown, PredicateResultMsg::TRUTH_UNKNOWN),
            (Truth::True, PredicateResultMsg::TRUTH_TRUE),
            (Truth::False, PredicateResultMsg::TRUTH_FALSE),
        ] {
            assert_eq!(truth.to_wire(), number);
        }
    }
}

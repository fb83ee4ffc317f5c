//! Evidence, predicate results and verdicts.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::time::Stamp;

/// The evaluator's answer on one run (Verdict `OUTCOME_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Outcome {
    /// Not done and going on as intended; only from segmented skills.
    Process,
    /// The post-condition holds on evidence stamped after the run's end.
    Success,
    /// The post-condition does not hold.
    Failure,
    /// Evidence is missing, stale or contradicting.
    Unknown,
}

impl Outcome {
    /// The number in messages; 0 is reserved for "not filled".
    pub const fn to_wire(self) -> u8 {
        match self {
            Outcome::Process => 1,
            Outcome::Success => 2,
            Outcome::Failure => 3,
            Outcome::Unknown => 4,
        }
    }

    /// The value of a number in a message; `None` for 0 and for numbers that no constant has.
    pub const fn from_wire(number: u8) -> Option<Self> {
        match number {
            1 => Some(Outcome::Process),
            2 => Some(Outcome::Success),
            3 => Some(Outcome::Failure),
            4 => Some(Outcome::Unknown),
            _ => None,
        }
    }
}

/// Three-valued truth of a predicate (PredicateResult `TRUTH_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Truth {
    /// Not decidable on the evidence.
    #[default]
    Unknown,
    /// Holds.
    True,
    /// Does not hold.
    False,
}

impl Truth {
    /// The number in messages.
    pub const fn to_wire(self) -> u8 {
        match self {
            Truth::Unknown => 0,
            Truth::True => 1,
            Truth::False => 2,
        }
    }

    /// The value of a number in a message; numbers that no constant has count as unknown.
    pub const fn from_wire(number: u8) -> Self {
        match number {
            1 => Truth::True,
            2 => Truth::False,
            _ => Truth::Unknown,
        }
    }

    /// Kleene negation.
    pub const fn negate(self) -> Self {
        match self {
            Truth::Unknown => Truth::Unknown,
            Truth::True => Truth::False,
            Truth::False => Truth::True,
        }
    }

    /// Kleene conjunction.
    pub const fn and(self, other: Self) -> Self {
        match (self, other) {
            (Truth::False, _) | (_, Truth::False) => Truth::False,
            (Truth::True, Truth::True) => Truth::True,
            (Truth::Unknown, _) | (_, Truth::Unknown) => Truth::Unknown,
        }
    }

    /// Kleene disjunction.
    pub const fn or(self, other: Self) -> Self {
        self.negate().and(other.negate()).negate()
    }
}

impl From<bool> for Truth {
    fn from(value: bool) -> Self {
        if value {
            Truth::True
        } else {
            Truth::False
        }
    }
}

/// One stamped piece of evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// Name within the verdict.
    pub id: String,
    /// gripper, odometry, base_pose, joint_states, detection, scan, image, external.
    pub kind: String,
    /// Topic or provider.
    pub source: String,
    /// ROS time of the measurement.
    pub stamp: Stamp,
    /// Frame of the values; empty where none applies.
    pub frame_id: String,
    /// One sentence with value and unit.
    pub summary: String,
    /// The values, SI units.
    pub value: Value,
    /// Reference to a sensor frame; empty for none.
    pub reference: String,
}

/// How one predicate came out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PredicateResult {
    /// The predicate with bound arguments.
    pub predicate: Value,
    /// Its truth.
    pub truth: Truth,
    /// Distance to the limit, positive when satisfied; NaN where there is none, null in JSON.
    #[serde(deserialize_with = "number_or_nan")]
    pub margin: f64,
    /// SI unit of the margin.
    pub unit: String,
    /// Ids of the evidence that decided.
    pub evidence_ids: Vec<String>,
    /// A sentence that can be acted on.
    pub explanation: String,
}

/// JSON has no NaN: it is written as null and read back from it.
fn number_or_nan<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Option::<f64>::deserialize(deserializer).map(|v| v.unwrap_or(f64::NAN))
}

/// The answer on one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The run judged.
    pub run_id: String,
    /// The command that it executes.
    pub command_id: String,
    /// The segment judged.
    pub segment: u32,
    /// What came out.
    pub outcome: Outcome,
    /// What decided, with value and limit.
    pub reason: String,
    /// Every predicate in order.
    pub predicates: Vec<PredicateResult>,
    /// The evidence looked at.
    pub evidence: Vec<Evidence>,
    /// Which judge: predicates, model, both, external.
    pub judge: String,
    /// Version of the judge's configuration.
    pub judge_version: String,
    /// ROS time of the verdict.
    pub stamp: Stamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kleene_logic() {
        use Truth::{False, True, Unknown};
        assert_eq!(True.and(Unknown), Unknown);
        assert_eq!(False.and(Unknown), False);
        assert_eq!(True.or(Unknown), True);
        assert_eq!(False.or(Unknown), Unknown);
        assert_eq!(Unknown.negate(), Unknown);
    }

    #[test]
    fn a_result_without_a_margin_survives_json() {
        let result = PredicateResult {
            predicate: Value::Null,
            truth: Truth::Unknown,
            margin: f64::NAN,
            unit: String::new(),
            evidence_ids: vec![],
            explanation: "x".into(),
        };
        let text = serde_json::to_string(&result).unwrap();
        let back: PredicateResult = serde_json::from_str(&text).unwrap();
        assert!(back.margin.is_nan());
    }

    #[test]
    fn outcome_numbers() {
        for o in [
            Outcome::Process,
            Outcome::Success,
            Outcome::Failure,
            Outcome::Unknown,
        ] {
            assert_eq!(Outcome::from_wire(o.to_wire()), Some(o));
        }
        assert_eq!(Outcome::from_wire(0), None);
    }
}

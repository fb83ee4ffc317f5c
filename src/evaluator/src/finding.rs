//! How one predicate came out.

use eh_contract::verdict::Truth;

/// How one predicate came out, before it is put into a verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Whether it holds.
    pub truth: Truth,
    /// Distance to the limit, positive when satisfied; NaN for none.
    pub margin: f64,
    /// SI unit of the margin.
    pub unit: &'static str,
    /// Ids of the evidence that decided.
    pub evidence: Vec<String>,
    /// A sentence that can be acted on.
    pub explanation: String,
}

impl Finding {
    /// Decided, without a measure.
    pub fn decided(truth: bool, evidence: Vec<String>, explanation: String) -> Self {
        Finding {
            truth: truth.into(),
            margin: f64::NAN,
            unit: "",
            evidence,
            explanation,
        }
    }

    /// Decided by a margin.
    pub fn measured(
        margin: f64,
        unit: &'static str,
        evidence: Vec<String>,
        explanation: String,
    ) -> Self {
        Finding {
            truth: (margin >= 0.0).into(),
            margin,
            unit,
            evidence,
            explanation,
        }
    }

    /// Not decidable.
    pub fn unknown(evidence: Vec<String>, explanation: String) -> Self {
        Finding {
            truth: Truth::Unknown,
            margin: f64::NAN,
            unit: "",
            evidence,
            explanation,
        }
    }
}

//! Why no verdict can be reached, or a piece of evidence is refused.

use eh_contract::condition::ConditionError;
use eh_contract::geometry::GeometryError;
use eh_contract::perception::PerceptionError;
use eh_contract::ErrorCode;
use thiserror::Error;

/// Why something is refused.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum EvaluatorError {
    /// A threshold can't be used.
    #[error("the setting {field} can't be used: {reason}")]
    Config {
        /// Which setting.
        field: &'static str,
        /// Why.
        reason: String,
    },
    /// A sample with a number that is none.
    #[error(
        "the {kind} sample has {field} = {value}, which is not a finite number; it was dropped"
    )]
    NotFinite {
        /// What kind of sample.
        kind: &'static str,
        /// Which field.
        field: &'static str,
        /// The value.
        value: f64,
    },
    /// A sample that is not newer than the one before.
    #[error("the {kind} sample is not newer than the one before it; it was dropped")]
    OutOfOrder {
        /// What kind of sample.
        kind: &'static str,
    },
    /// A sample from the future.
    #[error(
        "the {kind} sample is stamped {ahead:.1} s in the future; it was dropped, check the clocks"
    )]
    Future {
        /// What kind of sample.
        kind: &'static str,
        /// How far \[s\].
        ahead: f64,
    },
    /// A malformed pose.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// A malformed view.
    #[error(transparent)]
    Perception(#[from] PerceptionError),
    /// An event that can't be used.
    #[error("the run event can't be used: {reason}")]
    BadEvent {
        /// Why.
        reason: String,
    },
    /// No such run.
    #[error("no event of run \"{run_id}\" was received; the executor publishes them on run_events, and the last {kept} runs are kept")]
    RunNotFound {
        /// The run.
        run_id: String,
        /// How many runs are kept.
        kept: usize,
    },
    /// No run is named.
    #[error("the request names no run; an executor that delivers no run_id for a skill that is evaluated breaks the contract (SkillStatus.run_id)")]
    NoRunId,
    /// The run goes on.
    #[error("segment {segment} of run \"{run_id}\" has not ended; ask again after its END event")]
    RunNotEnded {
        /// The run.
        run_id: String,
        /// The segment.
        segment: u32,
    },
    /// No descriptor.
    #[error("there is no descriptor of skill \"{skill}\" version \"{version}\"; its executor publishes it on skill_catalog")]
    UnknownSkill {
        /// The skill.
        skill: String,
        /// Its version.
        version: String,
    },
    /// The post-condition can't be bound.
    #[error("the post-condition of skill \"{skill}\" can't be judged: {source}")]
    InvalidPostcondition {
        /// The skill.
        skill: String,
        /// Why.
        source: ConditionError,
    },
    /// There is no post-condition in predicates.
    #[error("skill \"{skill}\" has no post-condition in predicates, and no judge for text is configured; add predicates to its descriptor")]
    NoPredicates {
        /// The skill.
        skill: String,
    },
    /// The request makes no sense.
    #[error("{reason}")]
    InvalidRequest {
        /// What is wrong and what to do.
        reason: String,
    },
}

impl EvaluatorError {
    /// The code in EvaluateRun's result.
    pub const fn code(&self) -> ErrorCode {
        match self {
            EvaluatorError::RunNotFound { .. } | EvaluatorError::NoRunId => ErrorCode::RunNotFound,
            EvaluatorError::RunNotEnded { .. } => ErrorCode::RunNotEnded,
            EvaluatorError::UnknownSkill { .. } => ErrorCode::EvaluatorUnknownSkill,
            EvaluatorError::InvalidPostcondition { .. } | EvaluatorError::NoPredicates { .. } => {
                ErrorCode::InvalidPostcondition
            }
            EvaluatorError::Config { .. }
            | EvaluatorError::NotFinite { .. }
            | EvaluatorError::OutOfOrder { .. }
            | EvaluatorError::Future { .. }
            | EvaluatorError::Geometry(_)
            | EvaluatorError::Perception(_)
            | EvaluatorError::BadEvent { .. }
            | EvaluatorError::InvalidRequest { .. } => ErrorCode::EvaluatorInvalidRequest,
        }
    }
}

//! Why the scene graph refuses something, and what to do about it.

use eh_contract::condition::ConditionError;
use eh_contract::geometry::GeometryError;
use eh_contract::perception::PerceptionError;
use eh_contract::ErrorCode;
use thiserror::Error;

/// Why something is refused. Nothing of what was refused is kept.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum SceneError {
    /// A threshold can't be used.
    #[error("the setting {field} can't be used: {reason}")]
    Config {
        /// Which setting.
        field: &'static str,
        /// Why.
        reason: String,
    },
    /// The lexicon can't be read.
    #[error("the lexicon can't be read: {reason}; it maps each class to a list of words")]
    Lexicon {
        /// Why.
        reason: String,
    },
    /// A detection or view is malformed.
    #[error(transparent)]
    Perception(#[from] PerceptionError),
    /// A pose is malformed.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// A frame came too late.
    #[error("the frame of {origin} is {age:.1} s old, the limit is {limit:.1} s; check the clocks and the load of the detector")]
    StaleFrame {
        /// The detector.
        origin: String,
        /// Its age \[s\].
        age: f64,
        /// The limit \[s\].
        limit: f64,
    },
    /// A frame lies in the future.
    #[error("the frame of {origin} is stamped {ahead:.1} s in the future, the limit is {limit:.1} s; check the clocks")]
    FutureFrame {
        /// The detector.
        origin: String,
        /// How far \[s\].
        ahead: f64,
        /// The limit \[s\].
        limit: f64,
    },
    /// A frame is not newer than the one before.
    #[error("the frame of {origin} is not newer than the one before it; a frame counts once and in order")]
    OldFrame {
        /// The detector.
        origin: String,
    },
    /// The request makes no sense.
    #[error("{reason}")]
    InvalidRequest {
        /// What is wrong and what to do.
        reason: String,
    },
    /// A condition can't be read.
    #[error(transparent)]
    Condition(#[from] ConditionError),
    /// No such object.
    #[error(
        "the scene has no object \"{name}\"{hint}; ask with operation FIND or ALL what there is"
    )]
    RefNotFound {
        /// The ref.
        name: String,
        /// What became of it, when that is known.
        hint: String,
    },
    /// A precondition on version, age or place failed.
    #[error("precondition {index} on \"{name}\" is stale: {reason}; look again and plan again")]
    StalePrecondition {
        /// Which one.
        index: usize,
        /// Its ref.
        name: String,
        /// Why.
        reason: String,
    },
    /// A predicate of a precondition does not hold.
    #[error("precondition {index} on \"{name}\" is not met: {reason}")]
    PredicateNotMet {
        /// Which one.
        index: usize,
        /// Its ref.
        name: String,
        /// Why.
        reason: String,
    },
    /// A step of a plan can't work.
    #[error("step {index} ({skill}) can't work: {reason}")]
    PlanStep {
        /// Which one.
        index: usize,
        /// Its skill.
        skill: String,
        /// Why.
        reason: String,
        /// It names something that the scene does not have.
        is_missing: bool,
    },
    /// Effects without a SUCCESS verdict.
    #[error("the verdict on run \"{run_id}\" is {outcome}, effects are taken with SUCCESS only")]
    VerdictNotSuccess {
        /// The run.
        run_id: String,
        /// The outcome.
        outcome: String,
    },
    /// The effects of this run were applied before.
    #[error("the effects of run \"{run_id}\" were applied before; nothing was changed")]
    AlreadyApplied {
        /// The run.
        run_id: String,
    },
}

impl SceneError {
    /// The code in answers of the scene graph's services.
    pub const fn code(&self) -> ErrorCode {
        match self {
            SceneError::Config { .. }
            | SceneError::Lexicon { .. }
            | SceneError::Perception(_)
            | SceneError::Geometry(_)
            | SceneError::StaleFrame { .. }
            | SceneError::FutureFrame { .. }
            | SceneError::OldFrame { .. }
            | SceneError::InvalidRequest { .. }
            | SceneError::Condition(_) => ErrorCode::SceneInvalidRequest,
            SceneError::RefNotFound { .. }
            | SceneError::PlanStep {
                is_missing: true, ..
            } => ErrorCode::RefNotFound,
            SceneError::StalePrecondition { .. } => ErrorCode::SceneStalePrecondition,
            SceneError::PredicateNotMet { .. }
            | SceneError::PlanStep {
                is_missing: false, ..
            } => ErrorCode::PredicateNotMet,
            SceneError::VerdictNotSuccess { .. } => ErrorCode::VerdictNotSuccess,
            SceneError::AlreadyApplied { .. } => ErrorCode::AlreadyApplied,
        }
    }

    /// Index of the step of a plan that can't work.
    pub const fn failed_step(&self) -> Option<usize> {
        if let SceneError::PlanStep { index, .. } = self {
            Some(*index)
        } else {
            None
        }
    }

    /// Index of the precondition that failed.
    pub const fn failed_precondition(&self) -> Option<usize> {
        match self {
            SceneError::StalePrecondition { index, .. }
            | SceneError::PredicateNotMet { index, .. } => Some(*index),
            SceneError::Config { .. }
            | SceneError::Lexicon { .. }
            | SceneError::Perception(_)
            | SceneError::Geometry(_)
            | SceneError::StaleFrame { .. }
            | SceneError::FutureFrame { .. }
            | SceneError::OldFrame { .. }
            | SceneError::InvalidRequest { .. }
            | SceneError::Condition(_)
            | SceneError::RefNotFound { .. }
            | SceneError::PlanStep { .. }
            | SceneError::VerdictNotSuccess { .. }
            | SceneError::AlreadyApplied { .. } => None,
        }
    }
}

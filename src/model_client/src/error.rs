//! What went wrong between a question and its answer.

use std::time::Duration;

use thiserror::Error;

use crate::picture::PictureError;

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum ModelError {
    /// A setting can't be used.
    #[error("the setting {field} of the model can't be used: {reason}")]
    Setting {
        /// Which.
        field: &'static str,
        /// Why, and what to do.
        reason: String,
    },
    /// The operating system.
    #[error("the thread of the model can't be started: {0}")]
    System(#[from] std::io::Error),
    /// Too many questions wait.
    #[error("{waiting} questions to the model wait already; ask again later")]
    Busy {
        /// How many may wait.
        waiting: usize,
    },
    /// The client's thread has ended.
    #[error("the client of the model has ended")]
    Ended,
    /// A picture can't be sent.
    #[error("the picture {name} can't be sent: {source}")]
    Picture {
        /// Its name.
        name: String,
        /// Why.
        source: PictureError,
    },
    /// Texts can't be sent.
    #[error("the texts can't be sent: {reason}")]
    Texts {
        /// Why, with the limit.
        reason: String,
    },
    /// The question is too large.
    #[error(
        "the question has {bytes} bytes, the limit is {limit}; send fewer or smaller pictures or texts"
    )]
    RequestTooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// No connection, or it broke.
    #[error("the endpoint can't be reached: {reason}")]
    Unreachable {
        /// The words of the layers below.
        reason: String,
    },
    /// The answer broke off.
    #[error("the answer broke off after {bytes} bytes: {reason}")]
    CutOff {
        /// What had come.
        bytes: usize,
        /// The words of the layers below.
        reason: String,
    },
    /// One try took too long.
    #[error("no answer within {:.1} s", .0.as_secs_f64())]
    Slow(Duration),
    /// All tries together took too long.
    #[error("no answer within {:.1} s for all tries; the last one: {last}", .budget.as_secs_f64())]
    OutOfTime {
        /// The time for all tries.
        budget: Duration,
        /// What the last try met.
        last: String,
    },
    /// HTTP says no.
    #[error("the endpoint answers HTTP {status}{}", words(.body))]
    Status {
        /// The status.
        status: u16,
        /// The beginning of the body.
        body: String,
        /// How long it asks to wait.
        retry_after: Option<Duration>,
    },
    /// The answer is too large.
    #[error("the answer has more than {limit} bytes")]
    AnswerTooLarge {
        /// The limit.
        limit: usize,
    },
    /// The answer is not of the protocol.
    #[error("the answer is no chat completion: {reason}")]
    Malformed {
        /// Why.
        reason: String,
    },
    /// The answer has no vectors of the protocol.
    #[error("the answer has no embeddings that can be used: {reason}")]
    MalformedVectors {
        /// Why.
        reason: String,
    },
    /// The model was stopped before its end, or declines.
    #[error("the model did not finish its answer: {reason}")]
    Unfinished {
        /// Why.
        reason: String,
    },
    /// It was tried more than once.
    #[error("{last} (tried {tries} times)")]
    GivenUp {
        /// How often.
        tries: u32,
        /// What the last try met.
        last: Box<ModelError>,
    },
}

fn words(body: &str) -> String {
    if body.is_empty() {
        String::new()
    } else {
        format!(": {body}")
    }
}

impl ModelError {
    /// Whether another try may end otherwise. What was asked wrongly is asked wrongly the next time as well.
    pub fn is_transient(&self) -> bool {
        match self {
            ModelError::Unreachable { .. } | ModelError::CutOff { .. } | ModelError::Slow(_) => {
                true
            }
            // RFC 9110 and RFC 6585: those that tell of the moment, not of the request.
            ModelError::Status { status, .. } => {
                matches!(status, 408 | 429 | 500 | 502 | 503 | 504)
            }
            ModelError::Setting { .. }
            | ModelError::System(_)
            | ModelError::Busy { .. }
            | ModelError::Ended
            | ModelError::Picture { .. }
            | ModelError::Texts { .. }
            | ModelError::RequestTooLarge { .. }
            | ModelError::OutOfTime { .. }
            | ModelError::AnswerTooLarge { .. }
            | ModelError::Malformed { .. }
            | ModelError::MalformedVectors { .. }
            | ModelError::Unfinished { .. }
            | ModelError::GivenUp { .. } => false,
        }
    }
}

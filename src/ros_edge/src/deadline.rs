//! Waiting with a deadline, on any executor, without blocking it.

use std::future::Future;
use std::time::Duration;

/// The longest single wait, about 31 years: what is longer is taken as this, so that the sum of now and
/// the wait can always be represented.
const LONGEST: Duration = Duration::from_secs(1_000_000_000);

/// The deadline passed before the answer came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("nothing came within {} s", limit.as_secs_f64())]
pub struct DeadlineMissed {
    /// How long was waited.
    pub limit: Duration,
}

/// Waits for `future`, at most for `limit` on the steady clock.
///
/// The future is dropped when the deadline passes; pass `&mut future` to go on waiting for it later.
///
/// # Errors
///
/// [`DeadlineMissed`] if the future is not done in time.
pub async fn within<F: Future>(limit: Duration, future: F) -> Result<F::Output, DeadlineMissed> {
    let answer = async { Ok(future.await) };
    let deadline = async {
        sleep(limit).await;
        Err(DeadlineMissed { limit })
    };
    futures_lite::future::or(answer, deadline).await
}

/// Waits for `duration` on the steady clock.
pub async fn sleep(duration: Duration) {
    async_io::Timer::after(duration.min(LONGEST)).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_lite::future::{block_on, pending, ready};

    #[test]
    fn an_answer_in_time_is_given() {
        assert_eq!(block_on(within(Duration::ZERO, ready(7))), Ok(7));
        assert_eq!(block_on(within(Duration::MAX, ready(7))), Ok(7));
    }

    #[test]
    fn no_answer_is_an_error_that_names_the_limit() {
        let limit = Duration::from_millis(2);
        let missed = block_on(within(limit, pending::<()>()));
        assert_eq!(missed, Err(DeadlineMissed { limit }));
        assert_eq!(
            DeadlineMissed { limit }.to_string(),
            "nothing came within 0.002 s"
        );
    }

    #[test]
    fn a_borrowed_future_can_be_waited_for_again() {
        let (sender, mut receiver) = tokio::sync::oneshot::channel();
        assert!(block_on(within(Duration::from_millis(1), &mut receiver)).is_err());
        sender.send(3).unwrap();
        assert_eq!(
            block_on(within(Duration::from_secs(5), &mut receiver)),
            Ok(Ok(3))
        );
    }
}

//! Waiting for the end of a task over restarts of harness_node: sent again under its own name it is the same
//! task, which the next process goes on with.

use std::time::{Duration, Instant};

use eh_ros_edge::deadline::sleep;
use eh_ros_edge::goal_client::GoalResult;
use eh_ros_edge::{GoalClient, GoalClientError};
use parking_lot::Mutex;
use ros_env::embodied_harness::action::{ExecuteTask, ExecuteTask_Goal, ExecuteTask_Result};
use uuid::Uuid;

use crate::link::ANSWER;

/// A running task is heard of more than twice a second; after this long somebody asks.
pub(crate) const SILENCE: Duration = Duration::from_secs(3);

/// A harness that is not back after this long is not going to be.
pub(crate) const LOST: Duration = Duration::from_secs(60);

/// Time between two looks whether it is back.
const LOOK: Duration = Duration::from_millis(500);

/// Longer than any task's budget, which is a day.
const LONGEST: Duration = Duration::from_secs(86_400 + 600);

struct Now {
    goal_id: Uuid,
    heard: Instant,
}

/// A task that was sent and acknowledged.
pub(crate) struct Following<'a> {
    client: &'a GoalClient<ExecuteTask>,
    goal: ExecuteTask_Goal,
    now: Mutex<Now>,
}

impl<'a> Following<'a> {
    pub(crate) fn new(
        client: &'a GoalClient<ExecuteTask>,
        goal: ExecuteTask_Goal,
        goal_id: Uuid,
    ) -> Self {
        Following {
            client,
            goal,
            now: Mutex::new(Now {
                goal_id,
                heard: Instant::now(),
            }),
        }
    }

    /// The goal under which the task is known at present.
    pub(crate) fn goal_id(&self) -> Uuid {
        self.now.lock().goal_id
    }

    /// Feedback has come.
    pub(crate) fn hear(&self) {
        self.now.lock().heard = Instant::now();
    }

    /// How long no feedback has come.
    pub(crate) fn silence(&self) -> Duration {
        self.now.lock().heard.elapsed()
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// [`GoalClientError`] when nobody is there any more who could tell it.
    pub(crate) async fn end(&self) -> Result<GoalResult<ExecuteTask_Result>, GoalClientError> {
        let until = Instant::now() + LONGEST;
        loop {
            let mut request = match self.client.request_result(self.goal_id()) {
                Ok(request) => request,
                Err(GoalClientError::ServerAbsent { .. }) if self.silence() < LOST => {
                    sleep(LOOK).await;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let error = loop {
                match request.wait(SILENCE).await {
                    Ok(end) => return Ok(end),
                    Err(GoalClientError::NoAnswer { .. }) if self.silence() < SILENCE => {}
                    Err(error) => break error,
                }
            };
            match error {
                GoalClientError::UnknownGoal { .. } => self.send_again().await?,
                // Who was asked may be gone: whoever is there now is asked.
                GoalClientError::NoAnswer { .. } if Instant::now() < until => {}
                other => return Err(other),
            }
        }
    }

    async fn send_again(&self) -> Result<(), GoalClientError> {
        println!("the harness does not know the goal: it was restarted, and is asked for the task by its name");
        loop {
            let goal_id = Uuid::new_v4();
            self.now.lock().goal_id = goal_id;
            match self
                .client
                .send_goal(goal_id, self.goal.clone(), ANSWER)
                .await
            {
                Ok(_) => {
                    self.hear();
                    return Ok(());
                }
                Err(
                    GoalClientError::NotAcknowledged { .. } | GoalClientError::ServerAbsent { .. },
                ) if self.silence() < LOST => sleep(LOOK).await,
                Err(error) => return Err(error),
            }
        }
    }
}

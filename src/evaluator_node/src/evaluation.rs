//! One evaluation: waits for the run's events and for evidence, judges, answers.

use std::sync::Arc;
use std::time::Duration;

use eh_contract::verdict::Outcome;
use eh_contract::{ErrorCode, Stamp};
use eh_evaluator::{judge, Case, EvaluationPlan, EvaluatorError};
use eh_ros_edge::convert::command::budget;
use eh_ros_edge::convert::verdict::verdict_msg;
use eh_ros_edge::{deadline, GoalEnd, RunningGoal};
use rclrs::log_info;
use ros_env::embodied_harness::action::{EvaluateRun, EvaluateRun_Feedback, EvaluateRun_Result};

use crate::node::Shared;

/// Time between two looks at the evidence.
const POLL: Duration = Duration::from_millis(50);

/// How long events of the run may still be on their way when the evaluation is asked for.
const EVENT_DELAY: Duration = Duration::from_secs(2);

/// How much longer than its budget an evaluation may take on the steady clock, should ROS time stand
/// still.
const STEADY_SLACK: Duration = Duration::from_secs(30);

/// What one look at the evidence gave.
enum Look {
    /// Wait on, for this.
    Wait(String),
    /// The answer.
    Done(Result<eh_contract::verdict::Verdict, EvaluatorError>),
}

/// One evaluation from its request to its result.
pub(crate) async fn evaluate(
    shared: Arc<Shared>,
    running: RunningGoal<EvaluateRun>,
) -> GoalEnd<EvaluateRun_Result> {
    let goal = running.goal.clone();
    let timeout = budget(&goal.evidence_timeout);
    let asked = shared.now();
    let steady = shared.clock.steady_ns();
    let longest = if timeout.is_zero() {
        shared.parameters.config.evidence_timeout
    } else {
        timeout
    };
    let give_up = EVENT_DELAY
        .saturating_add(longest)
        .saturating_add(STEADY_SLACK);
    let mut told = String::new();
    loop {
        if running.is_cancel_requested() {
            return GoalEnd::Canceled(failed(
                ErrorCode::EvaluationCanceled,
                "the evaluation was canceled; no verdict was reached".into(),
            ));
        }
        let elapsed = u64::try_from(shared.clock.steady_ns().saturating_sub(steady)).unwrap_or(0);
        let last = Duration::from_nanos(elapsed) >= give_up;
        match look(&shared, &goal, asked, timeout, last) {
            Look::Wait(text) => {
                if text != told {
                    running.publish_feedback(EvaluateRun_Feedback { text: text.clone() });
                    told = text;
                }
            }
            Look::Done(Ok(verdict)) => {
                log_info!(
                    shared.node.logger(),
                    "run {}: {:?}: {}",
                    verdict.run_id,
                    verdict.outcome,
                    verdict.reason
                );
                return GoalEnd::Succeeded(EvaluateRun_Result {
                    error_code: ErrorCode::None.code(),
                    error_msg: String::new(),
                    verdict: verdict_msg(&verdict),
                });
            }
            Look::Done(Err(error)) => {
                log_info!(shared.node.logger(), "no verdict: {error}");
                return GoalEnd::Aborted(failed(error.code(), error.to_string()));
            }
        }
        deadline::sleep(POLL).await;
    }
}

fn failed(code: ErrorCode, error_msg: String) -> EvaluateRun_Result {
    EvaluateRun_Result {
        error_code: code.code(),
        error_msg,
        ..Default::default()
    }
}

fn look(
    shared: &Shared,
    goal: &ros_env::embodied_harness::action::EvaluateRun_Goal,
    asked: Stamp,
    timeout: Duration,
    last: bool,
) -> Look {
    let now = shared.now();
    let core = shared.core.lock();
    let config = &shared.parameters.config;
    let more_events = !last && now.since(asked) < EVENT_DELAY;
    let wait_for_events = |error: EvaluatorError| {
        if more_events {
            Look::Wait(format!("waiting for the executor's events: {error}"))
        } else {
            Look::Done(Err(error))
        }
    };
    let record = match core.book.get(&goal.run_id, config) {
        Ok(record) => record,
        Err(error) => return wait_for_events(error),
    };
    let event = &record.event;
    let Some(descriptor) = core.catalog.get(&event.executor, &event.skill) else {
        return wait_for_events(EvaluatorError::UnknownSkill {
            skill: event.skill.clone(),
            version: event.skill_version.clone(),
        });
    };
    let case = Case {
        record,
        segment: goal.segment,
        descriptor,
        prior: shared.parameters.prior.as_ref(),
        map_frame: &shared.parameters.map_frame,
        embodiment: &shared.parameters.embodiment,
        config,
    };
    let condition = match case.condition() {
        Ok(condition) => condition,
        Err(error) => return Look::Done(Err(error)),
    };
    let ended = match case.ended() {
        Ok(ended) => ended,
        Err(error) => return wait_for_events(error),
    };
    let plan = EvaluationPlan::new(&condition, ended, asked, timeout, config);
    if !last {
        let missing = plan.missing(&core.buffer, now, config);
        if !missing.is_empty() {
            return Look::Wait(EvaluationPlan::text(&missing));
        }
    }
    let verdict = judge(&case, &core.buffer, now, budget(&goal.max_evidence_age));
    match verdict {
        // More evidence may still decide it.
        Ok(verdict) if verdict.outcome == Outcome::Unknown && !last && now < plan.deadline => {
            Look::Wait(format!("not decided yet: {}", verdict.reason))
        }
        other => Look::Done(other),
    }
}

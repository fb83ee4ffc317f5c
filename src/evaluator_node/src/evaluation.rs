//! One evaluation: waits for the run's events and for evidence, judges, answers.

use std::sync::Arc;
use std::time::Duration;

use eh_contract::verdict::Verdict;
use eh_contract::{ErrorCode, Stamp};
use eh_evaluator::evaluation::{Bench, Evaluation, Look, EVENT_DELAY};
use eh_evaluator::judges::{self, Answer, Asked, Begin, JudgeKind, NamedView, Question};
use eh_evaluator::Case;
use eh_ros_edge::convert::command::budget;
use eh_ros_edge::convert::verdict::{verdict, verdict_msg};
use eh_ros_edge::{deadline, GoalEnd, RunningGoal};
use rclrs::log_info;
use ros_env::embodied_harness::action::{
    EvaluateRun, EvaluateRun_Feedback, EvaluateRun_Goal, EvaluateRun_Result,
};
use uuid::Uuid;

use crate::model;
use crate::node::Shared;
use crate::recorder;

/// Time between two looks at the evidence.
const POLL: Duration = Duration::from_millis(50);

/// How much longer than its budget an evaluation may take on the steady clock, should ROS time stand
/// still.
const STEADY_SLACK: Duration = Duration::from_secs(30);

/// One evaluation from its request to its result.
pub(crate) async fn evaluate(
    shared: Arc<Shared>,
    running: RunningGoal<EvaluateRun>,
) -> GoalEnd<EvaluateRun_Result> {
    let goal = running.goal.clone();
    let timeout = budget(&goal.evidence_timeout);
    let evaluation = Evaluation {
        run_id: goal.run_id.clone(),
        segment: goal.segment,
        asked: shared.now(),
        timeout,
        max_age: budget(&goal.max_evidence_age),
    };
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
        let waited = Duration::from_nanos(elapsed);
        match look(&shared, &evaluation, waited, waited >= give_up) {
            Look::Wait(text) => {
                if text != told {
                    running.publish_feedback(EvaluateRun_Feedback { text: text.clone() });
                    told = text;
                }
            }
            Look::Done(Ok(verdict)) => {
                record(&shared, &evaluation, verdict.stamp);
                let verdict = consult(&shared, &evaluation, verdict, &running).await;
                log_info!(
                    shared.node.logger(),
                    "run {}: {:?} by {}: {}",
                    verdict.run_id,
                    verdict.outcome,
                    verdict.judge,
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

/// Keeps what was observed of a run, up to its verdict.
fn record(shared: &Shared, evaluation: &Evaluation, until: Stamp) {
    let Some(recorder) = &shared.recorder else {
        return;
    };
    let core = shared.core.lock();
    let (run_id, segment) = (&evaluation.run_id, evaluation.segment);
    // It was judged a moment ago, so it is known.
    let Ok(run) = core.book.get(run_id, &shared.parameters.config) else {
        return;
    };
    let since = recorder::since(run.started, run.end_of(segment).unwrap_or(until));
    let observations = core.buffer.observations(since, until);
    drop(core);
    recorder.take(run_id, segment, observations);
}

/// Asks whoever judges beside the predicates.
async fn consult(
    shared: &Shared,
    evaluation: &Evaluation,
    ours: Verdict,
    running: &RunningGoal<EvaluateRun>,
) -> Verdict {
    if shared.parameters.judge == JudgeKind::Predicates {
        return ours;
    }
    if shared.parameters.judge.asks_model() {
        wait_for_pictures(shared, evaluation, running).await;
    }
    let pictures = shared.views.pictures();
    let views: Vec<NamedView> = pictures.iter().map(|p| p.view.clone()).collect();
    let begun = {
        let core = shared.core.lock();
        let (Ok(record), parameters) = (
            core.book.get(&evaluation.run_id, &shared.parameters.config),
            &shared.parameters,
        ) else {
            return ours;
        };
        let event = &record.event;
        let Some(descriptor) = core.catalog.get(&event.executor, &event.skill) else {
            return ours;
        };
        let case = Case {
            record,
            segment: evaluation.segment,
            descriptor,
            prior: parameters.prior.as_ref(),
            map_frame: &parameters.map_frame,
            embodiment: &parameters.embodiment,
            config: &parameters.config,
        };
        shared.judge.lock().begin(&judges::Look {
            case: &case,
            buffer: &core.buffer,
            views: &views,
            now: shared.now(),
            max_age: evaluation.max_age,
        })
    };
    match begun {
        // It was judged a moment ago, so it can be.
        Err(_) => ours,
        Ok(Begin::Verdict(verdict)) => *verdict,
        Ok(Begin::Ask(question)) => {
            running.publish_feedback(EvaluateRun_Feedback {
                text: "waiting for another judge".into(),
            });
            let answer = match question.asked {
                Asked::External => ask_external(shared, &question).await,
                Asked::Model => match &shared.model {
                    Some(client) => {
                        model::ask(client, &shared.parameters.model, &question, &pictures).await
                    }
                    None => Answer::None("there is no client of a model".into()),
                },
            };
            let now = shared.now();
            shared.judge.lock().finish(*question, answer, now)
        }
    }
}

/// Waits until each view has a picture from after the end, no longer than for evidence that only adds to the rest.
async fn wait_for_pictures(
    shared: &Shared,
    evaluation: &Evaluation,
    running: &RunningGoal<EvaluateRun>,
) {
    let config = &shared.parameters.config;
    let ended = shared
        .core
        .lock()
        .book
        .get(&evaluation.run_id, config)
        .ok()
        .and_then(|record| record.end_of(evaluation.segment));
    let Some(ended) = ended else {
        return;
    };
    let all = async {
        while !shared.views.all_after(ended) && !running.is_cancel_requested() {
            deadline::sleep(POLL).await;
        }
    };
    // Without pictures it judges by the rest, or says UNKNOWN.
    let _ = deadline::within(config.extra_timeout, all).await;
}

/// Asks the external judge, which serves the same action as this node.
async fn ask_external(shared: &Shared, question: &Question) -> Answer {
    let Some(client) = &shared.external else {
        return Answer::None("there is no client of an external judge".into());
    };
    let limit = shared.parameters.external_judge_timeout;
    let id = Uuid::new_v4();
    let goal = EvaluateRun_Goal {
        run_id: question.run_id.clone(),
        segment: question.segment,
        ..Default::default()
    };
    let asked = async {
        client.send_goal(id, goal, limit).await?;
        client.result(id, limit).await
    };
    let message = match deadline::within(limit, asked).await {
        Ok(Ok(end)) => end.result,
        Ok(Err(error)) => return Answer::None(error.to_string()),
        Err(missed) => return Answer::None(missed.to_string()),
    };
    if message.error_code != ErrorCode::None.code() {
        let text: String = message.error_msg.chars().take(200).collect();
        return Answer::None(format!("it answers {}: {text}", message.error_code));
    }
    match verdict(&message.verdict) {
        Ok(verdict) => Answer::Verdict(Box::new(verdict)),
        Err(error) => Answer::None(format!("its verdict can't be read: {error}")),
    }
}

fn failed(code: ErrorCode, error_msg: String) -> EvaluateRun_Result {
    EvaluateRun_Result {
        error_code: code.code(),
        error_msg,
        ..Default::default()
    }
}

fn look(shared: &Shared, evaluation: &Evaluation, waited: Duration, last: bool) -> Look {
    let now = shared.now();
    let mut core = shared.core.lock();
    // What has come since the last look counts.
    shared.look(&mut core, now);
    let parameters = &shared.parameters;
    let bench = Bench {
        book: &core.book,
        buffer: &core.buffer,
        prior: parameters.prior.as_ref(),
        map_frame: &parameters.map_frame,
        embodiment: &parameters.embodiment,
        config: &parameters.config,
    };
    let catalog = &core.catalog;
    evaluation.look(
        &bench,
        |executor, skill| catalog.get(executor, skill),
        now,
        waited,
        last,
    )
}

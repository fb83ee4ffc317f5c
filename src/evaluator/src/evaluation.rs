//! One evaluation over time: waits for the run's events and for evidence, then judges.

use std::time::Duration;

use eh_contract::scene::SceneSnapshot;
use eh_contract::skill::SkillDescriptor;
use eh_contract::verdict::{Outcome, Verdict};
use eh_contract::Stamp;

use crate::config::{Embodiment, EvaluatorConfig};
use crate::error::EvaluatorError;
use crate::evidence::EvidenceBuffer;
use crate::judge::{judge, without_predicates, Case};
use crate::plan::EvaluationPlan;
use crate::run_book::RunBook;

/// How long events of the run may still be on their way when the evaluation is asked for, in ROS time and on
/// the steady clock: messages travel no faster where simulated time does.
pub const EVENT_DELAY: Duration = Duration::from_secs(2);

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluation {
    /// The run.
    pub run_id: String,
    /// Segment, from 0.
    pub segment: u32,
    /// When it was asked, ROS time.
    pub asked: Stamp,
    /// Longest wait for evidence; zero: the configured one.
    pub timeout: Duration,
    /// Oldest evidence that counts; zero: the configured one.
    pub max_age: Duration,
}

/// What the judge knows at this moment.
#[derive(Clone, Copy, Debug)]
pub struct Bench<'a> {
    /// The runs that are known.
    pub book: &'a RunBook,
    /// What was observed.
    pub buffer: &'a EvidenceBuffer,
    /// The annotated map as nodes; `None`: none was given.
    pub prior: Option<&'a SceneSnapshot>,
    /// Frame of all poses, normally map.
    pub map_frame: &'a str,
    /// The body.
    pub embodiment: &'a Embodiment,
    /// The thresholds.
    pub config: &'a EvaluatorConfig,
}

/// What one look at the evidence gave.
#[derive(Clone, Debug, PartialEq)]
pub enum Look {
    /// Look again, for this.
    Wait(String),
    /// The answer.
    Done(Result<Verdict, EvaluatorError>),
}

impl Evaluation {
    /// Looks at the evidence. `descriptor` finds a skill of an executor. `waited` is the time on the steady
    /// clock since it was asked. `last`: there is no other look, so that what is there decides.
    pub fn look<'a>(
        &self,
        bench: &Bench<'a>,
        descriptor: impl FnOnce(&str, &str) -> Option<&'a SkillDescriptor>,
        now: Stamp,
        waited: Duration,
        last: bool,
    ) -> Look {
        let config = bench.config;
        let more_events = !last && now.since(self.asked).min(waited) < EVENT_DELAY;
        let wait_for_events = |error: EvaluatorError| {
            if more_events {
                Look::Wait(format!("waiting for the executor's events: {error}"))
            } else {
                Look::Done(Err(error))
            }
        };
        let record = match bench.book.get(&self.run_id, config) {
            Ok(record) => record,
            // No event will ever name it.
            Err(error @ EvaluatorError::NoRunId) => return Look::Done(Err(error)),
            Err(error) => return wait_for_events(error),
        };
        let event = &record.event;
        let Some(descriptor) = descriptor(&event.executor, &event.skill) else {
            return wait_for_events(EvaluatorError::UnknownSkill {
                skill: event.skill.clone(),
                version: event.skill_version.clone(),
            });
        };
        let case = Case {
            record,
            segment: self.segment,
            descriptor,
            prior: bench.prior,
            map_frame: bench.map_frame,
            embodiment: bench.embodiment,
            config,
        };
        let condition = match case.condition() {
            Ok(condition) => Some(condition),
            Err(EvaluatorError::NoPredicates { .. })
                if config.reads_text && case.has_only_text() =>
            {
                None
            }
            Err(error) => return Look::Done(Err(error)),
        };
        let ended = match case.ended() {
            Ok(ended) => ended,
            Err(error) => return wait_for_events(error),
        };
        let Some(condition) = condition else {
            return Look::Done(Ok(without_predicates(&case, now)));
        };
        let plan = EvaluationPlan::new(&condition, ended, self.asked, self.timeout, config);
        if !last {
            let missing = plan.missing(bench.buffer, now, config);
            if !missing.is_empty() {
                return Look::Wait(EvaluationPlan::text(&missing));
            }
        }
        match judge(&case, bench.buffer, now, self.max_age) {
            // More evidence may still decide it.
            Ok(verdict) if verdict.outcome == Outcome::Unknown && !last && now < plan.deadline => {
                Look::Wait(format!("not decided yet: {}", verdict.reason))
            }
            other => Look::Done(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_a_run_are_waited_for_and_then_it_is_unknown_by_name() {
        let config = EvaluatorConfig::default();
        let bench = Bench {
            book: &RunBook::default(),
            buffer: &EvidenceBuffer::new(config.clone()),
            prior: None,
            map_frame: "map",
            embodiment: &Embodiment::default(),
            config: &config,
        };
        let asked = Stamp::from_secs_f64(100.0);
        let evaluation = Evaluation {
            run_id: "r1".into(),
            segment: 0,
            asked,
            timeout: Duration::ZERO,
            max_age: Duration::ZERO,
        };
        let look_at = |after: f64, waited: f64, last: bool| {
            let now = asked.plus(Duration::from_secs_f64(after));
            let waited = Duration::from_secs_f64(waited);
            evaluation.look(&bench, |_, _| None, now, waited, last)
        };
        let look = |after: f64, last: bool| look_at(after, after, last);
        assert!(
            matches!(look(0.0, false), Look::Wait(text) if text.contains("events") && text.contains("r1"))
        );
        assert!(matches!(look(1.9, false), Look::Wait(_)));
        // EVENT_DELAY is 2 s.
        assert!(matches!(look(2.0, false), Look::Done(Err(_))));
        assert!(matches!(look(0.0, true), Look::Done(Err(_))));
        // Ten times as fast as real time: the message has had a fifth of a second.
        assert!(matches!(look_at(2.0, 0.2, false), Look::Wait(_)));
        assert!(matches!(look_at(20.0, 2.0, false), Look::Done(Err(_))));
        // Without an id there is nothing to wait for: an executor broke the contract.
        let nameless = Evaluation {
            run_id: String::new(),
            ..evaluation.clone()
        };
        let look = nameless.look(&bench, |_, _| None, asked, Duration::ZERO, false);
        let Look::Done(Err(error)) = look else {
            panic!("{look:?}");
        };
        assert!(error.to_string().contains("breaks the contract"), "{error}");
    }
}

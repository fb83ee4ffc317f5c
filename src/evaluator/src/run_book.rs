//! The runs that are known, from the executor's own events.

use std::collections::{BTreeMap, VecDeque};

use eh_contract::id::check_id;
use eh_contract::run_event::{RunEvent, RunEventKind};
use eh_contract::Stamp;

use crate::baseline::Baseline;
use crate::config::EvaluatorConfig;
use crate::error::EvaluatorError;
use crate::evidence::EvidenceBuffer;

/// Most segments of one run that are kept.
const MAX_SEGMENTS: usize = 1024;

/// One run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// The newest event; its skill, arguments and targets are those of all.
    pub event: RunEvent,
    /// When it started; `None`: that event was not received.
    pub started: Option<Stamp>,
    /// End of each segment.
    pub ends: BTreeMap<u32, Stamp>,
    /// How things were at the start, or why that is not known.
    pub baseline: Result<Baseline, String>,
}

impl RunRecord {
    /// When a segment ended.
    pub fn end_of(&self, segment: u32) -> Option<Stamp> {
        self.ends.get(&segment).copied()
    }
}

/// What an event did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noted {
    /// It told something new.
    New,
    /// It was known.
    Known,
}

/// The last runs.
#[derive(Clone, Debug, Default)]
pub struct RunBook {
    runs: BTreeMap<String, RunRecord>,
    order: VecDeque<String>,
}

impl RunBook {
    /// Takes an event; at a start the baseline is taken from the buffer.
    ///
    /// # Errors
    /// [`EvaluatorError::BadEvent`] for an event without a usable id, kind or stamp, or one that gives a
    /// known run another command, skill or arguments.
    pub fn note(
        &mut self,
        event: RunEvent,
        buffer: &EvidenceBuffer,
        now: Stamp,
        config: &EvaluatorConfig,
    ) -> Result<Noted, EvaluatorError> {
        let bad = |reason: String| EvaluatorError::BadEvent { reason };
        check_id("run_id", &event.run_id).map_err(|e| bad(e.to_string()))?;
        if event.event == RunEventKind::Unspecified {
            return Err(bad("its kind is not one of START, SEGMENT_END, END".into()));
        }
        if event.stamp.is_never() {
            return Err(bad("it has no stamp".into()));
        }
        let ahead = event.stamp.since(now);
        if ahead > config.max_ahead {
            return Err(bad(format!(
                "it is stamped {:.1} s in the future; check the clocks",
                ahead.as_secs_f64()
            )));
        }
        for target in &event.targets {
            target
                .pose
                .check("target")
                .and_then(|()| target.size.check("target size"))
                .map_err(|e| bad(e.to_string()))?;
        }
        if let Some(known) = self.runs.get(&event.run_id) {
            let k = &known.event;
            if k.command_id != event.command_id
                || k.skill != event.skill
                || k.arguments != event.arguments
            {
                return Err(bad(format!(
                    "run \"{}\" belongs to command \"{}\", not \"{}\" with other arguments; it was ignored",
                    event.run_id, k.command_id, event.command_id
                )));
            }
        } else {
            self.order.push_back(event.run_id.clone());
            while self.order.len() > config.max_runs {
                if let Some(oldest) = self.order.pop_front() {
                    self.runs.remove(&oldest);
                }
            }
        }
        let record = self
            .runs
            .entry(event.run_id.clone())
            .or_insert_with(|| RunRecord {
                event: event.clone(),
                started: None,
                ends: BTreeMap::new(),
                baseline: Err("the start of the run was not observed".into()),
            });
        let noted = match event.event {
            RunEventKind::Start => {
                if record.started.is_some() {
                    Noted::Known
                } else {
                    record.started = Some(event.stamp);
                    let late = now.since(event.stamp);
                    record.baseline = if late > config.baseline_delay {
                        Err(format!(
                            "the start was told {:.1} s late, as after a restart of the evaluator",
                            late.as_secs_f64()
                        ))
                    } else {
                        Ok(Baseline::take(buffer, event.stamp, config))
                    };
                    Noted::New
                }
            }
            RunEventKind::SegmentEnd | RunEventKind::End => {
                let full = record.ends.len() >= MAX_SEGMENTS;
                if full || record.ends.contains_key(&event.segment) {
                    Noted::Known
                } else {
                    record.ends.insert(event.segment, event.stamp);
                    Noted::New
                }
            }
            RunEventKind::Unspecified => Noted::Known,
        };
        if noted == Noted::New && event.sequence >= record.event.sequence {
            // A START that repeats less than the END must not lose the targets.
            let targets = if event.targets.is_empty() {
                std::mem::take(&mut record.event.targets)
            } else {
                event.targets.clone()
            };
            record.event = RunEvent { targets, ..event };
        }
        Ok(noted)
    }

    /// A run.
    ///
    /// # Errors
    /// [`EvaluatorError::RunNotFound`], [`EvaluatorError::NoRunId`].
    pub fn get(
        &self,
        run_id: &str,
        config: &EvaluatorConfig,
    ) -> Result<&RunRecord, EvaluatorError> {
        if run_id.is_empty() {
            return Err(EvaluatorError::NoRunId);
        }
        self.runs
            .get(run_id)
            .ok_or_else(|| EvaluatorError::RunNotFound {
                run_id: run_id.chars().take(64).collect(),
                kept: config.max_runs,
            })
    }

    /// Number of runs that are kept.
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// True when none is kept.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: RunEventKind, run: &str, seconds: f64) -> RunEvent {
        RunEvent {
            event: kind,
            stamp: Stamp::from_secs_f64(seconds),
            run_id: run.into(),
            command_id: "c".into(),
            skill: "pick".into(),
            ..RunEvent::default()
        }
    }

    fn at(seconds: f64) -> Stamp {
        Stamp::from_secs_f64(seconds)
    }

    #[test]
    fn a_start_that_comes_late_has_no_baseline_and_says_so() {
        let config = EvaluatorConfig::default();
        let buffer = EvidenceBuffer::new(config.clone());
        let mut book = RunBook::default();
        let start = event(RunEventKind::Start, "late", 10.0);
        book.note(start, &buffer, at(60.0), &config).unwrap();
        let why = book.get("late", &config).unwrap().baseline.clone();
        assert!(why.unwrap_err().contains("50.0 s late"));
        let start = event(RunEventKind::Start, "live", 60.0);
        book.note(start, &buffer, at(60.1), &config).unwrap();
        assert!(book.get("live", &config).unwrap().baseline.is_ok());
    }

    #[test]
    fn repeated_events_change_nothing_and_false_ones_are_refused() {
        let config = EvaluatorConfig::default();
        let buffer = EvidenceBuffer::new(config.clone());
        let mut book = RunBook::default();
        let mut note = |e: RunEvent| book.note(e, &buffer, at(11.0), &config);
        assert_eq!(note(event(RunEventKind::End, "r", 10.5)), Ok(Noted::New));
        assert_eq!(note(event(RunEventKind::End, "r", 10.9)), Ok(Noted::Known));
        let other = RunEvent {
            command_id: "other".into(),
            ..event(RunEventKind::End, "r", 10.5)
        };
        assert!(note(other).is_err());
        assert!(note(event(RunEventKind::End, "", 10.0)).is_err());
        assert!(note(event(RunEventKind::End, "f", 99.0)).is_err());
        assert!(note(event(RunEventKind::Unspecified, "u", 10.0)).is_err());
        assert_eq!(book.get("r", &config).unwrap().end_of(0), Some(at(10.5)));
    }

    #[test]
    fn only_the_last_runs_are_kept() {
        let config = EvaluatorConfig {
            max_runs: 3,
            ..EvaluatorConfig::default()
        };
        let buffer = EvidenceBuffer::new(config.clone());
        let mut book = RunBook::default();
        for i in 0..10 {
            let e = event(RunEventKind::Start, &format!("r{i}"), 10.0);
            book.note(e, &buffer, at(10.0), &config).unwrap();
        }
        assert_eq!(book.len(), 3);
        assert!(book.get("r0", &config).is_err());
        assert!(book.get("r9", &config).is_ok());
    }
}

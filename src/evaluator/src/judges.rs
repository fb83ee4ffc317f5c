//! Who judges: the predicates, a model that looks at pictures, both, or a service of the deployer.
//!
//! A judge that has to ask somebody gives out a [`Question`] and gets an [`Answer`], or none in time. Nothing here
//! waits or speaks to anybody: that is the node's work. Whatever comes back is checked as strictly as a sensor, and
//! what can't be used is UNKNOWN, never SUCCESS.
//!
//! See [`crate::question`] for what a question holds.

use std::collections::VecDeque;
use std::time::Duration;

use eh_contract::verdict::{Outcome, Verdict};
use eh_contract::Stamp;
use serde::{Deserialize, Serialize};

use crate::error::EvaluatorError;
use crate::judge::{judge, Case};
use crate::question::MAX_REASON;
pub use crate::question::{Answer, Asked, NamedView, Question};
use crate::EvidenceBuffer;

/// Which judge speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JudgeKind {
    /// The predicates on the evidence.
    #[default]
    Predicates,
    /// A model, for what predicates can't say.
    Model,
    /// Predicates and model; where they do not agree it is UNKNOWN.
    Both,
    /// A service of the deployer.
    External,
}

impl JudgeKind {
    /// All of them.
    pub const ALL: [JudgeKind; 4] = [
        JudgeKind::Predicates,
        JudgeKind::Model,
        JudgeKind::Both,
        JudgeKind::External,
    ];

    /// Its name in parameters and verdicts.
    pub const fn name(self) -> &'static str {
        match self {
            JudgeKind::Predicates => "predicates",
            JudgeKind::Model => "model",
            JudgeKind::Both => "both",
            JudgeKind::External => "external",
        }
    }

    /// The judge of a name.
    ///
    /// # Errors
    /// [`EvaluatorError::Config`] that names those there are.
    pub fn of(name: &str) -> Result<Self, EvaluatorError> {
        JudgeKind::ALL
            .into_iter()
            .find(|k| k.name() == name)
            .ok_or_else(|| EvaluatorError::Config {
                field: "judge",
                reason: format!(
                    "it is \"{}\"; give one of {}",
                    name.chars().take(64).collect::<String>(),
                    JudgeKind::ALL.map(JudgeKind::name).join(", ")
                ),
            })
    }

    /// Whether a model is asked.
    pub const fn asks_model(self) -> bool {
        matches!(self, JudgeKind::Model | JudgeKind::Both)
    }

    /// Whether it can judge a post-condition that is words only.
    pub const fn reads_text(self) -> bool {
        matches!(self, JudgeKind::Model | JudgeKind::External)
    }

    /// The judge of this kind.
    pub fn judge(self, config: JudgesConfig) -> Box<dyn Judge> {
        match self {
            JudgeKind::Predicates => Box::new(Predicates),
            JudgeKind::Model => Box::new(Model {
                config,
                asked: VecDeque::new(),
            }),
            JudgeKind::Both => Box::new(Both {
                model: Model {
                    config,
                    asked: VecDeque::new(),
                },
            }),
            JudgeKind::External => Box::new(External),
        }
    }
}

/// Limits of judges that ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgesConfig {
    /// Version of model and prompt, as it stands in verdicts.
    pub version: String,
    /// Most views in one question.
    pub max_views: usize,
    /// Most questions to the model in an hour; what is more is UNKNOWN.
    pub questions_per_hour: usize,
}

impl Default for JudgesConfig {
    fn default() -> Self {
        JudgesConfig {
            version: String::new(),
            max_views: 3,
            questions_per_hour: 120,
        }
    }
}

/// How a judge begins.
#[derive(Clone, Debug, PartialEq)]
pub enum Begin {
    /// It knows.
    Verdict(Box<Verdict>),
    /// It has to ask.
    Ask(Box<Question>),
}

/// Everything that one judgement may look at.
pub struct Look<'a> {
    /// The run with its contract.
    pub case: &'a Case<'a>,
    /// What was observed.
    pub buffer: &'a EvidenceBuffer,
    /// The pictures there are, in the order of their importance; those from before the end are left out.
    pub views: &'a [NamedView],
    /// The time.
    pub now: Stamp,
    /// Oldest evidence that counts; zero: the configured one.
    pub max_age: Duration,
}

/// One who judges.
pub trait Judge: Send {
    /// Which one it is.
    fn kind(&self) -> JudgeKind;

    /// Looks at the evidence.
    ///
    /// # Errors
    /// [`EvaluatorError`] when there is nothing to judge.
    fn begin(&mut self, look: &Look<'_>) -> Result<Begin, EvaluatorError>;

    /// Takes what came back.
    fn finish(&mut self, question: Question, answer: Answer, now: Stamp) -> Verdict;
}

/// The predicates.
struct Predicates;

impl Judge for Predicates {
    fn kind(&self) -> JudgeKind {
        JudgeKind::Predicates
    }

    fn begin(&mut self, look: &Look<'_>) -> Result<Begin, EvaluatorError> {
        let verdict = judge(look.case, look.buffer, look.now, look.max_age)?;
        Ok(Begin::Verdict(Box::new(verdict)))
    }

    fn finish(&mut self, question: Question, _: Answer, now: Stamp) -> Verdict {
        Verdict {
            stamp: now,
            ..question.predicates
        }
    }
}

/// A verdict of ours with another judge's opinion.
fn opinion(
    base: &Verdict,
    kind: JudgeKind,
    version: &str,
    outcome: Outcome,
    reason: String,
    now: Stamp,
) -> Verdict {
    Verdict {
        outcome,
        reason,
        judge: kind.name().into(),
        judge_version: version.into(),
        stamp: now,
        ..base.clone()
    }
}

/// The model.
struct Model {
    config: JudgesConfig,
    /// When it was asked within the last hour.
    asked: VecDeque<Stamp>,
}

impl Model {
    fn opinion(&self, question: &Question, answer: &Answer) -> (Outcome, String) {
        let read = match answer {
            Answer::Text(text) => question.read(text),
            Answer::Verdict(_) => Err("it answered with a verdict instead of words".into()),
            Answer::None(why) => Err(why.clone()),
        };
        read.unwrap_or_else(|why| {
            (
                Outcome::Unknown,
                format!("the model gave no verdict: {why}"),
            )
        })
    }

    /// Whether it may be asked once more.
    fn spend(&mut self, now: Stamp) -> bool {
        const HOUR: Duration = Duration::from_secs(3600);
        while self
            .asked
            .front()
            .is_some_and(|at| now.since(*at) >= HOUR || at.since(now) > HOUR)
        {
            self.asked.pop_front();
        }
        let may = self.asked.len() < self.config.questions_per_hour;
        if may {
            self.asked.push_back(now);
        }
        may
    }

    fn begin(&mut self, kind: JudgeKind, look: &Look<'_>) -> Result<Begin, EvaluatorError> {
        let question = Question::of(Asked::Model, look, self.config.max_views)?;
        if self.spend(look.now) {
            return Ok(Begin::Ask(Box::new(question)));
        }
        let verdict = opinion(
            &question.verdict(),
            kind,
            &self.config.version,
            Outcome::Unknown,
            format!(
                "the model was asked {} times within the hour, which is the limit questions_per_hour",
                self.config.questions_per_hour
            ),
            look.now,
        );
        Ok(Begin::Verdict(Box::new(verdict)))
    }
}

impl Judge for Model {
    fn kind(&self) -> JudgeKind {
        JudgeKind::Model
    }

    fn begin(&mut self, look: &Look<'_>) -> Result<Begin, EvaluatorError> {
        Model::begin(self, JudgeKind::Model, look)
    }

    fn finish(&mut self, question: Question, answer: Answer, now: Stamp) -> Verdict {
        let (outcome, reason) = self.opinion(&question, &answer);
        let version = &self.config.version;
        opinion(
            &question.verdict(),
            JudgeKind::Model,
            version,
            outcome,
            reason,
            now,
        )
    }
}

/// Predicates and model.
struct Both {
    model: Model,
}

impl Judge for Both {
    fn kind(&self) -> JudgeKind {
        JudgeKind::Both
    }

    fn begin(&mut self, look: &Look<'_>) -> Result<Begin, EvaluatorError> {
        self.model.begin(JudgeKind::Both, look)
    }

    fn finish(&mut self, question: Question, answer: Answer, now: Stamp) -> Verdict {
        let (outcome, reason) = self.model.opinion(&question, &answer);
        let ours = &question.verdict();
        let (outcome, reason) = if outcome == ours.outcome {
            (outcome, format!("{}; the model: {reason}", ours.reason))
        } else {
            (
                Outcome::Unknown,
                format!(
                    "the judges do not agree: the predicates say {:?} ({}), the model {outcome:?} ({reason})",
                    ours.outcome, ours.reason
                ),
            )
        };
        let version = format!("{}+{}", ours.judge_version, self.model.config.version);
        opinion(ours, JudgeKind::Both, &version, outcome, reason, now)
    }
}

/// A service of the deployer.
struct External;

impl Judge for External {
    fn kind(&self) -> JudgeKind {
        JudgeKind::External
    }

    fn begin(&mut self, look: &Look<'_>) -> Result<Begin, EvaluatorError> {
        Ok(Begin::Ask(Box::new(Question::of(
            Asked::External,
            look,
            0,
        )?)))
    }

    fn finish(&mut self, question: Question, answer: Answer, now: Stamp) -> Verdict {
        let ours = &question.predicates;
        let unknown = |why: String| {
            let reason = format!("the external judge gave no verdict: {why}");
            opinion(ours, JudgeKind::External, "", Outcome::Unknown, reason, now)
        };
        let verdict = match answer {
            Answer::Verdict(verdict) => verdict,
            Answer::Text(_) => return unknown("it answered with words".into()),
            Answer::None(why) => return unknown(why),
        };
        if verdict.run_id != question.run_id || verdict.segment != question.segment {
            return unknown(format!(
                "it judged segment {} of run \"{}\", asked was segment {} of \"{}\"",
                verdict.segment,
                verdict.run_id.chars().take(64).collect::<String>(),
                question.segment,
                question.run_id
            ));
        }
        if verdict.outcome == Outcome::Process && !question.more_segments {
            return unknown("it says PROCESS, which this skill or segment does not have".into());
        }
        // Success takes evidence from after the end, whoever judges.
        let proven = verdict.evidence.iter().any(|e| e.stamp > question.ended);
        if verdict.outcome == Outcome::Success && !proven {
            return unknown("it says SUCCESS without evidence stamped after the run's end".into());
        }
        Verdict {
            command_id: ours.command_id.clone(),
            judge: JudgeKind::External.name().into(),
            stamp: now,
            reason: verdict.reason.chars().take(MAX_REASON).collect(),
            ..*verdict
        }
    }
}

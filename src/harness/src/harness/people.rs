//! What people are asked and what they say.

use std::time::Duration;

use eh_contract::session::EventKind;
use eh_contract::state::CommandState;
use eh_ledger::issuer_event::{Finality, IssuerEvent};
use eh_ledger::issuer_policy::Now;
use eh_planner::choice::choose;
use eh_planner::phrase_table::Tables;
use eh_planner::planner::Answer;
use serde_json::json;

use super::Harness;
use crate::effect::{Effect, HumanRequest, HumanRequestKind};
use crate::error::{AnswerError, SettleError};
use crate::task::Phase;

impl Harness {
    /// A person says what became of an UNKNOWN command.
    ///
    /// # Errors
    /// [`SettleError`]; nothing changed then.
    pub fn settle(
        &mut self,
        command_id: &str,
        to: Finality,
        by: &str,
        reason: &str,
        now: Now,
    ) -> Result<(CommandState, Vec<Effect>), SettleError> {
        if by.trim().is_empty() || reason.trim().is_empty() {
            return Err(SettleError::Anonymous);
        }
        let Some(record) = self.ledger.get(command_id) else {
            return Err(SettleError::NotFound {
                command_id: command_id.into(),
            });
        };
        let state = record.state;
        if !matches!(state, CommandState::Unknown | CommandState::Reconciling) {
            return Err(SettleError::NotSettleable {
                command_id: command_id.into(),
                state,
            });
        }
        if let Some(reason) = &self.storage_failure {
            return Err(SettleError::Storage {
                reason: reason.clone(),
            });
        }
        let mut out = Vec::new();
        self.apply(
            command_id,
            IssuerEvent::Reconciled {
                to,
                by: by.into(),
                reason: reason.into(),
            },
            now,
            &mut out,
        );
        self.end_interrupted(now, &mut out);
        let state = self.ledger.get(command_id).map_or(state, |r| r.state);
        Ok((state, out))
    }

    /// A person answers a request.
    ///
    /// # Errors
    /// [`AnswerError`]; nothing changed then.
    pub fn answer(
        &mut self,
        request_id: &str,
        answer: &str,
        by: &str,
        now: Now,
    ) -> Result<Vec<Effect>, AnswerError> {
        if by.trim().is_empty() {
            return Err(AnswerError::Anonymous);
        }
        if let Some(request) = self.settle_requests.get(request_id) {
            let answer = meant(request, answer, |_| None)?;
            let to = match answer.as_str() {
                "succeeded" => Finality::Succeeded,
                "failed" => Finality::Failed,
                _ => Finality::Canceled,
            };
            let command_id = request.command_id.clone();
            return match self.settle(&command_id, to, by, "answered a request", now) {
                Ok((_, effects)) => Ok(effects),
                Err(SettleError::Storage { reason }) => Err(AnswerError::Storage { reason }),
                Err(_) => Err(AnswerError::Closed {
                    request_id: request_id.into(),
                }),
            };
        }
        let mut out = Vec::new();
        let Some(task) = self.task.as_mut() else {
            return Err(AnswerError::NotFound {
                request_id: request_id.into(),
            });
        };
        let answer = match (&task.open_request, &task.phase) {
            (Some(request), Phase::Human { key, .. }) if request.request_id == request_id => {
                let scene = task.scene.clone().unwrap_or_default();
                let answer = meant(request, answer, |answer| {
                    let tables = Tables::embedded().ok()?;
                    choose(answer, &request.options, &scene, &tables)
                })?;
                task.answers.push(Answer {
                    key: key.clone(),
                    answer: answer.clone(),
                });
                task.save(now, &mut out);
                answer
            }
            _ => {
                return Err(AnswerError::NotFound {
                    request_id: request_id.into(),
                })
            }
        };
        self.close_request(&mut out);
        self.journal(
            EventKind::HumanAnswered,
            format!("{by}: {answer}"),
            json!({"request_id": request_id, "answer": answer, "answered_by": by}),
            now,
            &mut out,
        );
        self.read_scene(now, &mut out);
        self.feedback(now, &mut out);
        Ok(out)
    }

    pub(super) fn ask_to_settle(&mut self, command_id: &str, now: Now, out: &mut Vec<Effect>) {
        let Some(record) = self.ledger.get(command_id) else {
            return;
        };
        let request = HumanRequest {
            request_id: format!("settle-{command_id}"),
            task_id: record.command.task_id.clone(),
            command_id: command_id.into(),
            kind: HumanRequestKind::Settle,
            question: format!(
                "What became of {} ({})?",
                record.command.skill, record.error_msg
            ),
            options: ["succeeded", "failed", "canceled"]
                .map(String::from)
                .to_vec(),
            stamp: now.ros,
            expires_in: Duration::ZERO,
            closed: false,
        };
        let open = self
            .settle_requests
            .insert(request.request_id.clone(), request.clone());
        if open.is_some_and(|open| open.question == request.question) {
            // It was worked on, and nothing new came of it.
            return;
        }
        out.push(Effect::AskHuman(request));
    }

    pub(super) fn close_settle_request(&mut self, command_id: &str, out: &mut Vec<Effect>) {
        if let Some(mut request) = self.settle_requests.remove(&format!("settle-{command_id}")) {
            request.closed = true;
            out.push(Effect::AskHuman(request));
        }
    }
}

/// The answer as the request has it: one of its options, by its text or by what `choose` makes of the
/// person's words, or any text where there are no options.
fn meant(
    request: &HumanRequest,
    answer: &str,
    choose: impl FnOnce(&str) -> Option<usize>,
) -> Result<String, AnswerError> {
    if request.closed {
        return Err(AnswerError::Closed {
            request_id: request.request_id.clone(),
        });
    }
    let answer = answer.trim();
    let free = request.options.is_empty() && !answer.is_empty();
    if free || request.options.iter().any(|o| o == answer) {
        return Ok(answer.into());
    }
    choose(answer)
        .and_then(|at| request.options.get(at))
        .cloned()
        .ok_or_else(|| AnswerError::Invalid {
            answer: answer.into(),
            options: request.options.clone(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(closed: bool, options: &[&str]) -> HumanRequest {
        HumanRequest {
            request_id: "r".into(),
            task_id: "t".into(),
            command_id: String::new(),
            kind: HumanRequestKind::Question,
            question: "Which?".into(),
            options: options.iter().map(|o| o.to_string()).collect(),
            stamp: eh_contract::Stamp(0),
            expires_in: Duration::ZERO,
            closed,
        }
    }

    #[test]
    fn an_answer_is_an_option_or_free_and_never_late() {
        let none = |_: &str| None;
        assert_eq!(
            meant(&request(false, &["a", "b"]), " b ", none),
            Ok("b".into())
        );
        assert_eq!(
            meant(&request(false, &["a", "b"]), "the first", |_| Some(0)),
            Ok("a".into())
        );
        assert!(meant(&request(false, &["a", "b"]), "c", none).is_err());
        assert!(meant(&request(false, &["a"]), "c", |_| Some(7)).is_err());
        assert_eq!(
            meant(&request(false, &[]), "anything", none),
            Ok("anything".into())
        );
        assert!(meant(&request(false, &[]), "  ", none).is_err());
        assert!(matches!(
            meant(&request(true, &["a"]), "a", none),
            Err(AnswerError::Closed { .. })
        ));
    }
}

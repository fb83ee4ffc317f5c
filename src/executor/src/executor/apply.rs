//! From an event to a durable record to its effects.

use eh_contract::run_event::{RunEvent, RunEventKind};
use eh_ledger::executor::{
    format_goal_id, step, ExecutorEffect, ExecutorError, ExecutorEvent, ExecutorRecord, Transition,
};
use serde_json::Value;
use thiserror::Error;

use super::{Cx, Executor};
use crate::effect::{DeclaredRun, Effect, Level};
use crate::journal::{JournalFailure, RecordKind};
use crate::server::Server;

/// Why an event was not taken.
#[derive(Debug, Error)]
pub(super) enum ApplyError {
    #[error("no command {0:?} is known here")]
    NotFound(String),
    #[error(transparent)]
    Illegal(#[from] ExecutorError),
    #[error("the journal can't be written: {0}")]
    Journal(#[from] JournalFailure),
}

impl Executor {
    /// Applies an event: decides, writes, then gives out what follows. The sending of a goal is the
    /// caller's.
    pub(super) fn apply(
        &mut self,
        id: &str,
        event: &ExecutorEvent,
        cx: &mut Cx<'_, '_>,
    ) -> Result<Transition, ApplyError> {
        let record = self
            .find(id, cx.turn.journal)?
            .ok_or_else(|| ApplyError::NotFound(id.into()))?;
        let now = cx.turn.stamp;
        let transition = step(&record, event, now)?;
        if transition.changed {
            let kind = RecordKind::of(event);
            let details = details(event);
            let written = cx.write(&transition.record, kind, details.clone());
            if let Err(error) = written {
                // What ends a motion is done all the same: a full disk must not keep the robot moving.
                if !ends_motion(event) {
                    return Err(error.into());
                }
                cx.log(
                    Level::Error,
                    format!(
                        "command {id}: \"{}\" is performed but not written down: {error}",
                        kind.name()
                    ),
                );
                self.write_later(&transition.record, kind, details, now);
            } else {
                // It holds all that an older one would have said.
                self.unwritten.remove(id);
            }
            self.install(transition.record.clone());
            cx.changed = true;
        }
        for effect in &transition.effects {
            self.perform(&transition.record, effect, cx);
        }
        if transition.changed {
            self.tell(&transition.record, cx);
        }
        Ok(transition)
    }

    /// Applies an event that is not answered for.
    pub(super) fn note(&mut self, id: &str, event: &ExecutorEvent, cx: &mut Cx<'_, '_>) {
        if let Err(error) = self.apply(id, event, cx) {
            cx.log(
                Level::Error,
                format!("command {id}, \"{}\": {error}", event.name()),
            );
        }
    }

    fn perform(&self, record: &ExecutorRecord, effect: &ExecutorEffect, cx: &mut Cx<'_, '_>) {
        match effect {
            ExecutorEffect::AnnounceStart => {
                cx.give(self.run_event(record, RunEventKind::Start));
                if self.declares(record) {
                    cx.give(self.declared(record, true));
                }
            }
            ExecutorEffect::AnnounceEnd => {
                if self.declares(record) {
                    cx.give(self.declared(record, false));
                }
                cx.give(self.run_event(record, RunEventKind::End));
                let colon = if record.error_msg.is_empty() {
                    ""
                } else {
                    ": "
                };
                cx.log(
                    Level::Info,
                    format!(
                        "command {} ({}): control ended {:?}{colon}{}",
                        record.command.command_id,
                        record.command.skill,
                        record.control_end,
                        record.error_msg
                    ),
                );
            }
            ExecutorEffect::CancelGoals(goals) => {
                for goal in goals.iter().filter_map(|id| record.sub_goal(id)) {
                    if let Some(server) = self.server_named(&goal.action_name) {
                        cx.give(Effect::CancelGoal {
                            server,
                            goal_id: goal.goal_id,
                        });
                    }
                }
            }
            // The phase of the command sends and measures; those who wait are told of every record.
            ExecutorEffect::SendGoal { .. }
            | ExecutorEffect::MeasureStandstill
            | ExecutorEffect::Answer => {}
        }
    }

    pub(super) fn run_event(&self, record: &ExecutorRecord, event: RunEventKind) -> Effect {
        let command = &record.command;
        let arguments = self
            .skills
            .get(&command.skill)
            .and_then(|s| {
                s.schema
                    .check(&Value::Object(command.arguments.clone()))
                    .ok()
            })
            .unwrap_or_else(|| command.arguments.clone());
        Effect::RunEvent(Box::new(RunEvent {
            event,
            stamp: match event {
                RunEventKind::Start => record.started_at,
                RunEventKind::End | RunEventKind::SegmentEnd | RunEventKind::Unspecified => {
                    record.ended_at
                }
            },
            executor: self.settings.name.clone(),
            boot_id: self.boot_id.clone(),
            robot_id: self.settings.robot_id.clone(),
            command_id: command.command_id.clone(),
            run_id: record.run_id.clone(),
            segment: record.segment,
            sequence: record.sequence,
            skill: command.skill.clone(),
            skill_version: command.skill_version.clone(),
            arguments,
            targets: command.targets.clone(),
        }))
    }

    /// Whether the run may move the base by itself, so that protection has to let it pass.
    pub(super) fn declares(&self, record: &ExecutorRecord) -> bool {
        self.settings.actions.contains_key(&Server::Navigation)
            && record.resources.iter().any(|r| r == "base")
    }

    pub(super) fn declared(&self, record: &ExecutorRecord, active: bool) -> Effect {
        Effect::Declare(DeclaredRun {
            executor: self.settings.name.clone(),
            boot_id: self.boot_id.clone(),
            run_id: record.run_id.clone(),
            command_id: record.command.command_id.clone(),
            fencing_token: record.fencing_token,
            disconnect_policy: record.disconnect_policy,
            active,
        })
    }
}

/// Events after which less moves than before.
const fn ends_motion(event: &ExecutorEvent) -> bool {
    match event {
        ExecutorEvent::Stop(_)
        | ExecutorEvent::GoalEnded { .. }
        | ExecutorEvent::GoalRefused { .. }
        | ExecutorEvent::Standstill
        | ExecutorEvent::StopTimeout { .. }
        | ExecutorEvent::Lose { .. }
        | ExecutorEvent::Complete
        | ExecutorEvent::Reject { .. } => true,
        ExecutorEvent::Accept { .. }
        | ExecutorEvent::Start { .. }
        | ExecutorEvent::SendGoal { .. }
        | ExecutorEvent::Step { .. }
        | ExecutorEvent::Settle { .. } => false,
    }
}

/// What the journal says beside the record.
fn details(event: &ExecutorEvent) -> String {
    let value = match event {
        ExecutorEvent::SendGoal {
            goal_id,
            action_name,
            name,
        } => serde_json::json!({
            "goal_id": format_goal_id(goal_id), "action": action_name, "sub_goal": name}),
        ExecutorEvent::GoalEnded {
            goal_id,
            status,
            code,
            message,
        } => serde_json::json!({
            "goal_id": format_goal_id(goal_id), "status": status, "code": code, "message": message}),
        ExecutorEvent::GoalRefused { goal_id, message } => serde_json::json!({
            "goal_id": format_goal_id(goal_id), "message": message}),
        ExecutorEvent::Stop(cause) => serde_json::json!({ "cause": cause }),
        ExecutorEvent::StopTimeout { what } => serde_json::json!({ "what": what }),
        ExecutorEvent::Settle {
            final_state,
            settled_by,
            reason,
        } => serde_json::json!({"final": final_state, "by": settled_by, "reason": reason}),
        ExecutorEvent::Reject {
            error_code,
            error_msg,
        }
        | ExecutorEvent::Lose {
            error_code,
            error_msg,
        } => serde_json::json!({"error_code": error_code, "error_msg": error_msg}),
        ExecutorEvent::Step { name, what } => serde_json::json!({"step": name, "wanted": what}),
        ExecutorEvent::Start { run_id } => serde_json::json!({ "run_id": run_id }),
        ExecutorEvent::Accept { .. } | ExecutorEvent::Complete | ExecutorEvent::Standstill => {
            serde_json::json!({})
        }
    };
    value.to_string()
}

//! What an executor's adapter asks of the robot and of the scene graph, and what the answers mean.

use std::collections::BTreeMap;
use std::time::Duration;

use eh_contract::command::Precondition;
use eh_executor::{Event, Server};
use eh_ledger::admission::SceneCheck;
use eh_ledger::executor::GoalId;
use eh_skills::planning_scene::{difference, SceneWanted};
use eh_skills::Goal;

use crate::context::Context;
use crate::message::{Reply, Request};
use crate::process_id::ProcessId;

/// As the node's scene_timeout.
const SCENE: Duration = Duration::from_secs(1);
/// As the node's planning_scene_timeout.
const PLANNING_SCENE: Duration = Duration::from_secs(2);

#[derive(Debug)]
struct Change {
    command_id: String,
    name: String,
    wanted: SceneWanted,
}

#[derive(Debug)]
enum What {
    Check { command_id: String },
    Send { goal_id: GoalId },
    Result { goal_id: GoalId },
    Known(Change),
    Changed { command_id: String, name: String },
}

/// Everything that was asked and not answered yet.
#[derive(Debug, Default)]
pub(super) struct Requests {
    pending: BTreeMap<u64, (What, Option<Duration>)>,
    /// One change of the planning scene after the other.
    changes: Vec<Change>,
}

impl Requests {
    fn ask(
        &mut self,
        to: ProcessId,
        request: Request,
        what: What,
        limit: Option<Duration>,
        context: &mut Context<'_>,
    ) {
        let deadline = limit.map(|limit| context.time() + limit);
        let call = context.call(to, request);
        self.pending.insert(call, (what, deadline));
    }

    pub(super) fn check_scene(
        &mut self,
        command_id: &str,
        preconditions: Vec<Precondition>,
        context: &mut Context<'_>,
    ) -> Option<Event> {
        if !context.is_there(ProcessId::Scene) {
            let witness = &mut context.outside.witness;
            witness.scene_refused(command_id, "it is not there");
            return Some(Event::SceneChecked {
                command_id: command_id.into(),
                check: SceneCheck::Unavailable {
                    reason: "no server of query_scene is there".into(),
                },
            });
        }
        let what = What::Check {
            command_id: command_id.into(),
        };
        let request = Request::CheckScene(preconditions);
        self.ask(ProcessId::Scene, request, what, Some(SCENE), context);
        None
    }

    pub(super) fn send(
        &mut self,
        server: Server,
        goal_id: GoalId,
        goal: Box<Goal>,
        context: &mut Context<'_>,
    ) -> Option<Event> {
        if !context.is_there(ProcessId::Robot) {
            return Some(Event::GoalNotSent {
                goal_id,
                reason: "no server is there".into(),
            });
        }
        let request = Request::SendGoal {
            server,
            goal_id,
            goal,
        };
        // An acknowledgement that comes late is told as well.
        self.ask(
            ProcessId::Robot,
            request,
            What::Send { goal_id },
            None,
            context,
        );
        None
    }

    pub(super) fn result(&mut self, server: Server, goal_id: GoalId, context: &mut Context<'_>) {
        let request = Request::GoalResult { server, goal_id };
        self.ask(
            ProcessId::Robot,
            request,
            What::Result { goal_id },
            None,
            context,
        );
    }

    pub(super) fn change_scene(
        &mut self,
        command_id: String,
        name: String,
        wanted: SceneWanted,
        context: &mut Context<'_>,
    ) {
        self.changes.push(Change {
            command_id,
            name,
            wanted,
        });
        self.next_change(context);
    }

    fn next_change(&mut self, context: &mut Context<'_>) {
        let busy = |what: &What| matches!(what, What::Known(_) | What::Changed { .. });
        if self.changes.is_empty() || self.pending.values().any(|(what, _)| busy(what)) {
            return;
        }
        let change = self.changes.remove(0);
        let limit = Some(PLANNING_SCENE);
        self.ask(
            ProcessId::Robot,
            Request::GetPlanningScene,
            What::Known(change),
            limit,
            context,
        );
    }

    /// Time has passed.
    pub(super) fn step(&mut self, context: &mut Context<'_>) -> Vec<Event> {
        let now = context.time();
        let late: Vec<u64> = self
            .pending
            .iter()
            .filter(|(_, (_, deadline))| deadline.is_some_and(|d| d <= now))
            .map(|(call, _)| *call)
            .collect();
        let mut events = Vec::new();
        for call in late {
            match self.pending.remove(&call) {
                Some((What::Check { command_id }, _)) => {
                    let reason = "query_scene did not answer in time".to_owned();
                    let witness = &mut context.outside.witness;
                    witness.scene_refused(&command_id, &reason);
                    events.push(Event::SceneChecked {
                        command_id,
                        check: SceneCheck::Unavailable { reason },
                    });
                }
                Some((
                    What::Known(Change {
                        command_id, name, ..
                    })
                    | What::Changed { command_id, name },
                    _,
                )) => events.push(Event::SceneChanged {
                    command_id,
                    name,
                    result: Err("the planning scene did not answer in time".into()),
                }),
                Some((What::Send { .. } | What::Result { .. }, _)) | None => {}
            }
        }
        self.next_change(context);
        events
    }

    /// An answer has come. One to nothing that is open is dropped.
    pub(super) fn answered(
        &mut self,
        call: u64,
        reply: Reply,
        context: &mut Context<'_>,
    ) -> Option<Event> {
        let (what, _) = self.pending.remove(&call)?;
        let event = match (what, reply) {
            (What::Check { command_id }, Reply::Checked(check)) => {
                if let SceneCheck::Fails { reason, .. } | SceneCheck::Unavailable { reason } =
                    &check
                {
                    let witness = &mut context.outside.witness;
                    witness.scene_refused(&command_id, reason);
                }
                Some(Event::SceneChecked { command_id, check })
            }
            (What::Send { goal_id }, Reply::Acknowledged(accepted)) => {
                Some(Event::GoalAcknowledged { goal_id, accepted })
            }
            (What::Result { goal_id }, Reply::GoalEnd(end)) => Some(match end {
                Some(end) => Event::ResultArrived { goal_id, end: *end },
                None => Event::ResultUnknown { goal_id },
            }),
            (What::Known(change), Reply::PlanningScene(known)) => {
                let Change {
                    command_id,
                    name,
                    wanted,
                } = change;
                let difference = difference(&known, &wanted);
                if difference.is_empty() {
                    Some(Event::SceneChanged {
                        command_id,
                        name,
                        result: Ok(()),
                    })
                } else {
                    let what = What::Changed { command_id, name };
                    let request = Request::ApplyPlanningScene(Box::new(difference));
                    let limit = Some(PLANNING_SCENE);
                    self.ask(ProcessId::Robot, request, what, limit, context);
                    None
                }
            }
            (What::Changed { command_id, name }, Reply::PlanningSceneApplied(done)) => {
                Some(Event::SceneChanged {
                    command_id,
                    name,
                    result: if done {
                        Ok(())
                    } else {
                        Err("apply_planning_scene did not do all that was asked".into())
                    },
                })
            }
            // Not an answer to this question.
            (_, _) => None,
        };
        self.next_change(context);
        event
    }
}

//! A goal of a foreign action, over lost acknowledgements, lost results and lost servers.

use std::time::Duration;

use eh_contract::ErrorCode;
use eh_ledger::executor::{format_goal_id, goal_status, ExecutorEvent, GoalId, StopCause};
use eh_skills::{Goal, SubGoalOutcome};

use super::running::failure;
use super::{Cx, Executor};
use crate::effect::{Effect, Level};
use crate::native_end::NativeEnd;
use crate::phase::{Awaiting, Doing, Happening, Phase, Pursuit, PursuitStage, Run};
use crate::server::Server;
use crate::timing::{self, Every};

/// What a look at a goal that runs says.
enum Look {
    /// It goes on.
    GoesOn,
    /// It can't be learned how it ended.
    Lost,
}

impl Executor {
    /// Writes a goal down and sends it.
    ///
    /// # Errors
    /// Why the command has to stop; nothing was sent.
    pub(super) fn send(
        &mut self,
        id: &str,
        name: &str,
        goal: Goal,
        cx: &mut Cx<'_, '_>,
    ) -> Result<Pursuit, StopCause> {
        let server = Server::of(&goal);
        let found = server.and_then(|s| self.settings.actions.get(&s).map(|a| (s, a.clone())));
        let Some((server, action)) = found else {
            return Err(failure(
                ErrorCode::UnknownSkill,
                format!("this executor has no client for {name}; send the command to the executor that publishes the skill"),
            ));
        };
        if let Some(other) = self.goal_of_somebody_else(server, cx) {
            self.ask_about_others([(server, other)], cx);
            return Err(failure(
                ErrorCode::ResourceBusy,
                format!(
                    "{name} was not sent: goal {} runs on {action}, which this executor did not send, and it is not displaced; try again when it has ended",
                    format_goal_id(&other)
                ),
            ));
        }
        let goal_id = cx.new_uuid().into_bytes();
        let about_to_send = ExecutorEvent::SendGoal {
            goal_id,
            action_name: action.clone(),
            name: name.into(),
        };
        if let Err(error) = self.apply(id, &about_to_send, cx) {
            return Err(failure(
                ErrorCode::StorageFailure,
                format!("{name} was not sent: {error}"),
            ));
        }
        cx.give(Effect::SendGoal {
            server,
            goal_id,
            goal: Box::new(goal),
        });
        let limit = self.settings.acknowledge_timeout;
        Ok(Pursuit {
            server,
            action,
            goal_id,
            name: name.into(),
            stage: PursuitStage::Acknowledgement {
                until: cx.turn.now.saturating_add(limit),
            },
            glance: None,
        })
    }

    /// The phase in which a goal is pursued.
    pub(super) fn pursue(
        &mut self,
        id: &str,
        run: Box<Run>,
        pursuit: Pursuit,
        happening: Happening,
        cx: &mut Cx<'_, '_>,
    ) -> Phase {
        match happening {
            Happening::Look => self.look_at_goal(id, run, pursuit, cx),
            Happening::Acknowledged { goal_id, accepted } if goal_id == pursuit.goal_id => {
                self.acknowledged(id, run, pursuit, accepted, cx)
            }
            Happening::NotSent { goal_id, reason } if goal_id == pursuit.goal_id => {
                self.goal_refused(id, &goal_id, "never sent", cx);
                if pursuit.glance.is_some() {
                    let outcome = SubGoalOutcome::Rejected { message: reason };
                    return self.go_on(id, run, Some(outcome), cx);
                }
                let cause = failure(
                    ErrorCode::ServerUnavailable,
                    format!(
                        "{} was not sent: {reason}; {}",
                        pursuit.name,
                        pursuit.server.hint()
                    ),
                );
                self.bring_to_standstill(id, cause, Some(run), cx)
            }
            Happening::Ended { goal_id, end } if goal_id == pursuit.goal_id => {
                self.goal_ended(id, &goal_id, &end, cx);
                match self.foreign_hand(&pursuit, &end, cx) {
                    Some(cause) => self.bring_to_standstill(id, cause, Some(run), cx),
                    None => self.go_on(id, run, Some(end.outcome), cx),
                }
            }
            Happening::Unknown { goal_id } if goal_id == pursuit.goal_id => {
                self.result_unknown(id, run, pursuit, cx)
            }
            // Of a goal that is over.
            Happening::Acknowledged { .. }
            | Happening::NotSent { .. }
            | Happening::Ended { .. }
            | Happening::Unknown { .. }
            | Happening::SceneChecked(_)
            | Happening::SceneChanged { .. } => Phase::Running(run, Doing::Pursuing(pursuit)),
        }
    }

    fn acknowledged(
        &mut self,
        id: &str,
        run: Box<Run>,
        mut pursuit: Pursuit,
        accepted: bool,
        cx: &mut Cx<'_, '_>,
    ) -> Phase {
        match pursuit.stage {
            PursuitStage::End(_) => Phase::Running(run, Doing::Pursuing(pursuit)),
            PursuitStage::Acknowledgement { .. } | PursuitStage::AskingAbout { .. } if accepted => {
                pursuit.stage = PursuitStage::End(ask_for_end(&pursuit, cx));
                Phase::Running(run, Doing::Pursuing(pursuit))
            }
            PursuitStage::Acknowledgement { .. } | PursuitStage::AskingAbout { .. } => {
                self.goal_refused(id, &pursuit.goal_id, "rejected by its server", cx);
                let outcome = SubGoalOutcome::Rejected {
                    message: format!("{} rejected the goal {}", pursuit.action, pursuit.name),
                };
                self.go_on(id, run, Some(outcome), cx)
            }
        }
    }

    fn look_at_goal(
        &mut self,
        id: &str,
        run: Box<Run>,
        mut pursuit: Pursuit,
        cx: &mut Cx<'_, '_>,
    ) -> Phase {
        let now = cx.turn.now;
        let (server, goal_id) = (pursuit.server, pursuit.goal_id);
        if let Some(glance) = &mut pursuit.glance {
            if now >= glance.until && glance.cancel.is_due(now) {
                cx.give(Effect::CancelGoal { server, goal_id });
            }
        }
        if let PursuitStage::Acknowledgement { until } = pursuit.stage {
            if now < until {
                return Phase::Running(run, Doing::Pursuing(pursuit));
            }
            cx.log(
                Level::Warn,
                format!(
                    "command {id}, {}: {} did not acknowledge goal {} within {} s: it may run all the same, so it is asked about",
                    pursuit.name,
                    pursuit.action,
                    format_goal_id(&goal_id),
                    self.settings.acknowledge_timeout.as_secs_f64()
                ),
            );
            pursuit.stage = PursuitStage::AskingAbout {
                until: now.saturating_add(self.settings.lost_timeout),
                ask: Every::now(timing::ANSWER),
            };
        }
        if let PursuitStage::AskingAbout { until, ask } = &mut pursuit.stage {
            if cx.turn.senses.status(pursuit.server, &goal_id).is_some() {
                pursuit.stage = PursuitStage::End(ask_for_end(&pursuit, cx));
            } else if now >= *until {
                let message = format!("{} did not acknowledge {} (goal {}) and does not tell its status: it may run all the same. It was asked to cancel; look at the robot, then settle the command", pursuit.action, pursuit.name, format_goal_id(&goal_id));
                return self.lose(id, ErrorCode::AcknowledgementLost, message, cx);
            } else if ask.is_due(now) {
                cx.give(Effect::RequestResult {
                    server: pursuit.server,
                    goal_id,
                });
            }
        }
        self.look_for_end(id, run, pursuit, false, cx)
    }

    /// Looks after a goal that was taken.
    fn look_for_end(
        &mut self,
        id: &str,
        run: Box<Run>,
        mut pursuit: Pursuit,
        at_once: bool,
        cx: &mut Cx<'_, '_>,
    ) -> Phase {
        let (server, goal_id) = (pursuit.server, pursuit.goal_id);
        if let PursuitStage::End(awaiting) = &mut pursuit.stage {
            let left = cx.turn.senses.distance_remaining(&goal_id);
            if let Some(progress) = left.and_then(|left| awaiting.progress(left)) {
                self.set_progress(id, progress);
            }
            let lost = self.settings.lost_timeout;
            match awaiting.look(server, &goal_id, at_once, lost, cx) {
                Look::GoesOn => {}
                Look::Lost => {
                    let message = format!("{} does not tell how {} (goal {}) ended, within {:.1} s; look at the world before anything is done again, then settle the command", pursuit.action, pursuit.name, format_goal_id(&goal_id), lost.as_secs_f64());
                    return self.lose(id, ErrorCode::ResultLost, message, cx);
                }
            }
        }
        Phase::Running(run, Doing::Pursuing(pursuit))
    }

    fn result_unknown(
        &mut self,
        id: &str,
        run: Box<Run>,
        mut pursuit: Pursuit,
        cx: &mut Cx<'_, '_>,
    ) -> Phase {
        if let PursuitStage::End(awaiting) = &mut pursuit.stage {
            awaiting.asked = false;
            return self.look_for_end(id, run, pursuit, true, cx);
        }
        Phase::Running(run, Doing::Pursuing(pursuit))
    }

    fn lose(&mut self, id: &str, code: ErrorCode, message: String, cx: &mut Cx<'_, '_>) -> Phase {
        let event = ExecutorEvent::Lose {
            error_code: code.code(),
            error_msg: message,
        };
        self.note(id, &event, cx);
        Phase::Over
    }

    pub(super) fn goal_refused(
        &mut self,
        id: &str,
        goal_id: &GoalId,
        message: &str,
        cx: &mut Cx<'_, '_>,
    ) {
        let event = ExecutorEvent::GoalRefused {
            goal_id: *goal_id,
            message: message.into(),
        };
        self.note(id, &event, cx);
    }

    pub(super) fn goal_ended(
        &mut self,
        id: &str,
        goal_id: &GoalId,
        end: &NativeEnd,
        cx: &mut Cx<'_, '_>,
    ) {
        let event = ExecutorEvent::GoalEnded {
            goal_id: *goal_id,
            status: end.status,
            code: end.code,
            message: end.message.clone(),
        };
        self.note(id, &event, cx);
    }

    /// A goal that runs on a server and that no command of this executor sent: an operator's, or another
    /// program's. It is neither adopted nor canceled nor displaced.
    pub(super) fn goal_of_somebody_else(&self, server: Server, cx: &Cx<'_, '_>) -> Option<GoalId> {
        let is_ours = |g: &GoalId| {
            self.live_records()
                .chain(self.recent.iter())
                .any(|r| r.sub_goal(g).is_some())
        };
        let open = cx.turn.senses.open_goals(server);
        open.into_iter().find(|g| !is_ours(g))
    }

    /// Asks the servers of goals that are in the way about them, once in a while. One that does not know its
    /// goal is another one than told of it, and the status message is forgotten where it is kept.
    pub(super) fn ask_about_others(
        &mut self,
        others: impl IntoIterator<Item = (Server, GoalId)>,
        cx: &mut Cx<'_, '_>,
    ) {
        let mut others = others.into_iter().peekable();
        if others.peek().is_some() && self.ask_about_others.is_due(cx.turn.now) {
            for (server, goal_id) in others {
                cx.give(Effect::RequestResult { server, goal_id });
            }
        }
    }

    /// Who ended a goal that did not end by itself: displaced or canceled by somebody else.
    fn foreign_hand(
        &self,
        pursuit: &Pursuit,
        end: &NativeEnd,
        cx: &Cx<'_, '_>,
    ) -> Option<StopCause> {
        // Whoever wants the head after a drive has it.
        if end.status == goal_status::SUCCEEDED || pursuit.glance.is_some() {
            return None;
        }
        if let Some(other) = self.goal_of_somebody_else(pursuit.server, cx) {
            return Some(StopCause::Preempted {
                by: format!("goal {} on {}", format_goal_id(&other), pursuit.action),
            });
        }
        (end.status == goal_status::CANCELED).then(|| StopCause::Preempted {
            by: format!("somebody canceled {} on {}", pursuit.name, pursuit.action),
        })
    }

    /// A goal of a command that was settled meanwhile was taken: it must not run on either.
    pub(super) fn taken_after_the_settlement(&self, goal_id: GoalId, cx: &mut Cx<'_, '_>) {
        let mut settled = self.recent.iter().filter_map(|r| r.sub_goal(&goal_id));
        if let Some(goal) = settled.find(|g| !g.is_over()) {
            if let Some(server) = self.server_named(&goal.action_name) {
                cancel_late(&goal.action_name, server, goal_id, cx);
            }
        }
    }

    /// What still comes about goals of a command whose control has ended. A goal that a server takes after
    /// its command was given up must not run on; what became of one that was lost is worth knowing.
    pub(super) fn after_all(&mut self, id: &str, happening: Happening, cx: &mut Cx<'_, '_>) {
        let open = |goal_id: &GoalId| {
            let record = self.record(id).filter(|r| r.is_answered())?;
            let goal = record.sub_goal(goal_id).filter(|g| !g.is_over())?;
            Some((
                goal.action_name.clone(),
                self.server_named(&goal.action_name)?,
            ))
        };
        match happening {
            Happening::Acknowledged { goal_id, accepted } => match open(&goal_id) {
                Some((action, server)) if accepted => {
                    cancel_late(&action, server, goal_id, cx);
                }
                Some(_) => self.goal_refused(id, &goal_id, "rejected by its server", cx),
                None => {}
            },
            Happening::NotSent { goal_id, .. } if open(&goal_id).is_some() => {
                self.goal_refused(id, &goal_id, "never sent", cx);
            }
            Happening::Ended { goal_id, end } if open(&goal_id).is_some() => {
                self.goal_ended(id, &goal_id, &end, cx);
            }
            Happening::NotSent { .. }
            | Happening::Ended { .. }
            | Happening::Look
            | Happening::SceneChecked(_)
            | Happening::Unknown { .. }
            | Happening::SceneChanged { .. } => {}
        }
    }
}

/// Cancels a goal that was taken after its command was given up.
fn cancel_late(action: &str, server: Server, goal_id: GoalId, cx: &mut Cx<'_, '_>) {
    cx.log(
        Level::Warn,
        format!(
            "{action} has taken goal {} after its command was given up: it is asked to cancel",
            format_goal_id(&goal_id)
        ),
    );
    cx.give(Effect::CancelGoal { server, goal_id });
    cx.give(Effect::RequestResult { server, goal_id });
}

/// Asks for the result of a goal that was taken.
fn ask_for_end(pursuit: &Pursuit, cx: &mut Cx<'_, '_>) -> Awaiting {
    cx.give(Effect::RequestResult {
        server: pursuit.server,
        goal_id: pursuit.goal_id,
    });
    let now = cx.turn.now;
    Awaiting {
        asked: true,
        look: Every::after(now, timing::LOOK_AFTER),
        ask: Every::after(now, timing::ASK_ANEW),
        silent_since: None,
        whole_way: None,
    }
}

impl Awaiting {
    /// Is anybody there who still works on it?
    fn look(
        &mut self,
        server: Server,
        goal_id: &GoalId,
        at_once: bool,
        lost_timeout: Duration,
        cx: &mut Cx<'_, '_>,
    ) -> Look {
        let now = cx.turn.now;
        if !(self.look.is_due(now) || at_once) {
            return Look::GoesOn;
        }
        let is_there = cx.turn.senses.is_there(server);
        let alive = match cx.turn.senses.status(server, goal_id) {
            Some(status) => is_there && !goal_status::is_terminal(status),
            // No status message names it (yet): the open request is what keeps hope.
            None => is_there && self.asked,
        };
        if alive {
            self.silent_since = None;
            if self.asked && !self.ask.is_due(now) {
                return Look::GoesOn;
            }
        } else {
            let since = *self.silent_since.get_or_insert(now);
            if now.saturating_sub(since) >= lost_timeout {
                return Look::Lost;
            }
            // The next one is at the next look: a server that does not know it answers at once.
            if at_once {
                return Look::GoesOn;
            }
        }
        self.asked = true;
        cx.give(Effect::RequestResult {
            server,
            goal_id: *goal_id,
        });
        Look::GoesOn
    }

    /// The share of the way that is done, 0 to 1.
    fn progress(&mut self, left: f64) -> Option<f64> {
        if !left.is_finite() || left < 0.0 {
            return None;
        }
        // Nav2 reports zero before its first path.
        let whole = self.whole_way.map_or(left, |whole| whole.max(left));
        if whole <= 0.0 {
            return None;
        }
        self.whole_way = Some(whole);
        Some(1.0 - left / whole)
    }
}

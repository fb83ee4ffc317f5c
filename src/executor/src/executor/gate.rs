//! A command arrives: may it start here and now?

use std::collections::BTreeMap;

use eh_contract::skill::DisconnectPolicy;
use eh_contract::state::ExecutorState;
use eh_contract::status::SkillStatus;
use eh_contract::ErrorCode;
use eh_ledger::admission::{
    admit, needs_scene_check, Admission, Admitted, ExecutorView, LeaseView, Refusal, Request,
    SceneCheck,
};
use eh_ledger::executor::{format_goal_id, held_resources, ExecutorEvent, ExecutorRecord, GoalId};

use super::{Cx, Entry, Executor};
use crate::effect::{Answer, AnswerStatus, Effect, Level};
use crate::event::{Arrival, Caller};
use crate::journal::RecordKind;
use crate::phase::{CheckingScene, Happening, Phase, Starting};
use crate::server::Server;
use crate::timing;

/// Longest name of a sender, and of a command that is refused, that goes into a log.
const MAX_NAME: usize = 200;

/// Most clients that wait for the answer of one command.
const MAX_CALLERS: usize = 64;

/// Most commands whose preconditions are being checked.
const MAX_CHECKED: usize = 64;

impl Executor {
    /// Takes in a command: it is known, it is refused, or its way begins.
    pub(super) fn arrived(&mut self, arrival: Arrival, cx: &mut Cx<'_, '_>) {
        let caller = arrival.caller;
        let command = &arrival.command;
        let id = command.command_id.clone();
        let known = match self.find(&id, &*cx.turn.journal) {
            Ok(known) => known,
            Err(error) => return self.refuse(caller, &id, &unusable(&error), cx),
        };
        let first = self.ask_gate(&arrival, known.as_ref(), None, cx);
        match (&first, &known) {
            (Admission::Duplicate, Some(record)) => return self.follow(caller, record, cx),
            (Admission::Refuse(refusal), _) if !keeps_refusal(refusal.code) => {
                return self.refuse(caller, &id, refusal, cx);
            }
            _ => {}
        }
        let asks = matches!(first, Admission::Admit(_))
            && self.settings.check_preconditions
            && needs_scene_check(command);
        if asks && self.checked() >= MAX_CHECKED {
            let refusal = Refusal {
                code: ErrorCode::ResourceBusy,
                message: format!("the preconditions of {MAX_CHECKED} commands are being checked already; wait until one of them has its answer, then send the command again"),
            };
            return self.refuse(caller, &id, &refusal, cx);
        }
        let record = ExecutorRecord::received(
            command.clone(),
            arrival.segment,
            &self.boot_id,
            // What the lease has not told is not remembered: it would count after a restart.
            arrival.envelope.fencing_token.min(self.lease.token),
            &arrival.envelope.controller_id,
            cx.turn.stamp,
        );
        let entry = Entry {
            record: record.clone(),
            progress: None,
            callers: vec![caller],
            stop: None,
            phase: Phase::Over,
        };
        let controller = arrival.envelope.controller_id.clone();
        // What refuses it stays the reason when that can't be written down either.
        let refused = match &first {
            Admission::Refuse(refusal) => Some(refusal.clone()),
            Admission::Admit(_) | Admission::Duplicate => None,
        };
        let phase = self.in_one_write(&id, cx, |this, cx| {
            // It is only put with what follows from it.
            let _ = cx.write(&record, RecordKind::Received, "{}".into());
            this.entries.insert(id.clone(), entry);
            if asks {
                cx.give(Effect::CheckScene {
                    command_id: id.clone(),
                    preconditions: record.command.preconditions.clone(),
                });
                Phase::CheckingScene(Box::new(CheckingScene {
                    until: cx.turn.now.saturating_add(this.settings.scene_timeout),
                    arrival,
                }))
            } else {
                this.decide(&id, first, &controller, cx)
            }
        });
        match phase {
            Ok(phase) => self.enter(&id, phase),
            Err(error) => {
                let refusal = refused.unwrap_or_else(|| unusable(&error));
                self.refuse(caller, &id, &refusal, cx);
            }
        }
    }

    fn enter(&mut self, id: &str, phase: Phase) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.phase = phase;
        }
    }

    fn checked(&self) -> usize {
        let checked = |e: &&Entry| matches!(e.phase, Phase::CheckingScene(_));
        self.entries.values().filter(checked).count()
    }

    /// The phase in which the scene graph is asked.
    pub(super) fn check_scene(
        &mut self,
        id: &str,
        checking: Box<CheckingScene>,
        happening: Happening,
        cx: &mut Cx<'_, '_>,
    ) -> Phase {
        let check = match happening {
            Happening::SceneChecked(check) => check,
            Happening::Look if cx.turn.now >= checking.until => SceneCheck::Unavailable {
                reason: format!(
                    "{}: nothing came within {} s",
                    self.settings.query_scene_service,
                    self.settings.scene_timeout.as_secs_f64()
                ),
            },
            // A stop that is asked for meanwhile is seen before it starts.
            Happening::Look
            | Happening::Acknowledged { .. }
            | Happening::NotSent { .. }
            | Happening::Ended { .. }
            | Happening::Unknown { .. }
            | Happening::SceneChanged { .. } => return Phase::CheckingScene(checking),
        };
        let answer = self.ask_gate(&checking.arrival, None, Some(&check), cx);
        let controller = &checking.arrival.envelope.controller_id;
        self.in_one_write(id, cx, |this, cx| this.decide(id, answer, controller, cx))
            .unwrap_or_else(|error| self.reject(id, &unusable(&error), cx))
    }

    /// Performs the gate's answer about a command that is written down.
    fn decide(
        &mut self,
        id: &str,
        answer: Admission,
        controller: &str,
        cx: &mut Cx<'_, '_>,
    ) -> Phase {
        let admitted = match answer {
            Admission::Admit(admitted) => admitted,
            // It was not known a moment ago, so this does not come.
            Admission::Duplicate => return Phase::Over,
            Admission::Refuse(refusal) => {
                cx.log(Level::Warn, refused(id, &refusal));
                return self.reject(id, &refusal, cx);
            }
        };
        let skill = self.record(id).map(|r| r.command.skill.clone());
        let skill = skill.unwrap_or_default();
        let policy = self
            .skills
            .get(&skill)
            .map_or(DisconnectPolicy::Stop, |s| s.descriptor.disconnect_policy);
        let accept = ExecutorEvent::Accept {
            resources: admitted.resources.clone(),
            disconnect_policy: policy,
        };
        if let Err(error) = self.apply(id, &accept, cx) {
            return self.reject(id, &unusable(&error), cx);
        }
        cx.log(
            Level::Info,
            format!("command {id}: {skill} accepted from {}", short(controller)),
        );
        self.begin(id, admitted, cx)
    }

    fn begin(&mut self, id: &str, admitted: Admitted, cx: &mut Cx<'_, '_>) -> Phase {
        let now = cx.turn.now;
        let starting = Starting {
            admitted,
            until: now.saturating_add(self.settings.server_timeout),
            awake_until: now.saturating_add(timing::AWAKE),
        };
        self.start_now(id, Box::new(starting), cx)
    }

    /// Ends a command that was not started.
    pub(super) fn reject(&mut self, id: &str, refusal: &Refusal, cx: &mut Cx<'_, '_>) -> Phase {
        let event = ExecutorEvent::Reject {
            error_code: refusal.code.code(),
            error_msg: refusal.message.clone(),
        };
        self.note(id, &event, cx);
        Phase::Over
    }

    /// Adds a client to a command that is known.
    fn follow(&mut self, caller: Caller, record: &ExecutorRecord, cx: &mut Cx<'_, '_>) {
        let id = &record.command.command_id;
        if !record.is_answered() {
            let Some(entry) = self.entries.get_mut(id) else {
                let refusal = Refusal {
                    code: ErrorCode::StorageFailure,
                    message: format!("command {id} was taken, but its record can't be read; ask the service query"),
                };
                return self.refuse(caller, id, &refusal, cx);
            };
            if entry.callers.len() >= MAX_CALLERS {
                let refusal = Refusal {
                    code: ErrorCode::ResourceBusy,
                    message: format!("{MAX_CALLERS} clients wait for command {id} already; ask the service query how it is"),
                };
                return self.refuse(caller, id, &refusal, cx);
            }
            entry.callers.push(caller);
        }
        self.tell_one(caller, record, cx);
    }

    pub(super) fn unreadable(
        &self,
        caller: Caller,
        command_id: &str,
        reason: &str,
        cx: &mut Cx<'_, '_>,
    ) {
        let refusal = Refusal {
            code: ErrorCode::InvalidCommand,
            message: format!("the command can't be read: {reason}"),
        };
        self.refuse(caller, command_id, &refusal, cx);
    }

    /// Refuses a command that leaves no record.
    fn refuse(&self, caller: Caller, command_id: &str, refusal: &Refusal, cx: &mut Cx<'_, '_>) {
        cx.log(Level::Warn, refused(command_id, refusal));
        cx.give(Effect::Answer(Box::new(Answer {
            caller,
            status: AnswerStatus::Aborted,
            error_code: refusal.code.code(),
            error_msg: refusal.message.clone(),
            skill_status: SkillStatus {
                executor: self.settings.name.clone(),
                boot_id: self.boot_id.clone(),
                command_id: command_id.into(),
                state: ExecutorState::Rejected,
                error_code: refusal.code.code(),
                error_msg: refusal.message.clone(),
                ..SkillStatus::default()
            },
        })));
    }

    fn ask_gate(
        &mut self,
        arrival: &Arrival,
        known: Option<&ExecutorRecord>,
        scene: Option<&SceneCheck>,
        cx: &mut Cx<'_, '_>,
    ) -> Admission {
        let others = self.goals_of_others(cx);
        self.ask_about_others(others.iter().copied(), cx);
        let held = self.held(&others, cx);
        let lease = self.lease_view(cx);
        let stop = cx.turn.senses.stop_latched();
        admit(
            &Request {
                command: &arrival.command,
                digest: &arrival.digest,
                envelope: &arrival.envelope,
                segment: arrival.segment,
            },
            &ExecutorView {
                executor: &self.settings.name,
                boot_id: &self.boot_id,
                tick: self.age(cx.turn.now),
                robot_id: &self.settings.robot_id,
                skills: &self.skills,
                known,
                held: &held,
                lease: &lease,
                require_lease: self.settings.require_lease,
                stop_latched: stop.as_deref(),
                frames: &self.frames,
                shutting_down: self.shutting_down,
            },
            scene,
        )
    }

    /// Goals that this executor did not send, on servers that move what its skills claim.
    fn goals_of_others(&self, cx: &Cx<'_, '_>) -> Vec<(Server, GoalId)> {
        let watched = self.settings.watched.keys();
        let servers = self.settings.actions.keys().chain(watched);
        servers
            .filter_map(|server| Some((*server, self.goal_of_somebody_else(*server, cx)?)))
            .collect()
    }

    /// Resources held by commands of anybody and by goals that are not ours.
    fn held(&self, others: &[(Server, GoalId)], cx: &Cx<'_, '_>) -> BTreeMap<String, String> {
        let mut held = BTreeMap::new();
        for (server, goal) in others {
            let actions = [&self.settings.actions, &self.settings.watched];
            let action = actions.iter().find_map(|a| a.get(server));
            held.insert(
                server.resource().into(),
                format!(
                    "goal {} on {}, which this executor did not send",
                    format_goal_id(goal),
                    action.map_or("", String::as_str)
                ),
            );
        }
        // A command says more than its goal.
        held.extend(cx.turn.senses.held_by_others());
        held.extend(held_resources(self.live_records()));
        held
    }

    /// The lease as the gate wants it.
    pub(super) fn lease_view(&mut self, cx: &Cx<'_, '_>) -> LeaseView {
        let told = cx.turn.senses.lease();
        // An older token that is told late takes nothing back.
        if told.token >= self.lease.token {
            self.lease = told;
        }
        LeaseView {
            newest_token: self.lease.token,
            live: cx.turn.now < self.lease.alive_until,
            controller_id: self.lease.controller_id.clone(),
        }
    }
}

fn unusable(error: &dyn std::fmt::Display) -> Refusal {
    Refusal {
        code: ErrorCode::StorageFailure,
        message: format!("the journal can't be used, so nothing is started: {error}"),
    }
}

fn short(text: &str) -> String {
    text.chars().take(MAX_NAME).collect()
}

fn refused(command_id: &str, refusal: &Refusal) -> String {
    format!(
        "command {:?} refused: {} {}",
        short(command_id),
        refusal.code.name(),
        refusal.message
    )
}

/// Refusals of commands that are what they claim to be are kept, so that the same command gets the same
/// answer. The others are not: anybody could fill the disk with them.
const fn keeps_refusal(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::InvalidArguments
            | ErrorCode::ExpiredCommand
            | ErrorCode::OldToken
            | ErrorCode::ExecutorNoLease
            | ErrorCode::ResourceBusy
            | ErrorCode::StalePrecondition
            | ErrorCode::StopLatched
            | ErrorCode::NoBeacon
    )
}

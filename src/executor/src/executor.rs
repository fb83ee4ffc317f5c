//! The executor.

mod apply;
mod book;
mod gate;
mod pursuing;
mod recovering;
mod running;
mod settling;
mod starting;
mod stopping;
mod watching;
mod without_server;
mod writing;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use eh_contract::command::Beacon;
use eh_ledger::admission::KnownSkill;
use eh_ledger::executor::{ExecutorRecord, StopCause};
use eh_skills::grasp::HeldGrasp;

use crate::effect::{Effect, Level};
use crate::event::{Caller, Event};
use crate::journal::Write;
use crate::phase::{Happening, Phase};
use crate::senses::LeaseSeen;
use crate::settings::{Restored, Settings};
use crate::timing::{self, Every};
use crate::turn::Turn;

/// Settled commands that are kept, as in msg/SkillStatusArray.msg.
pub const RECENT: usize = 16;

/// A command that is not settled.
struct Entry {
    record: ExecutorRecord,
    progress: Option<f64>,
    /// Clients that wait for its answer.
    callers: Vec<Caller>,
    /// Why it has to stop; the first cause counts.
    stop: Option<StopCause>,
    phase: Phase,
}

/// Everything that one executor knows.
pub struct Executor {
    settings: Settings,
    skills: BTreeMap<String, KnownSkill>,
    frames: BTreeSet<String>,
    boot_id: String,
    /// Budget clock at the start; beacons count from here.
    began: Duration,
    entries: BTreeMap<String, Entry>,
    /// Settled and rejected ones, newest first.
    recent: VecDeque<ExecutorRecord>,
    held: Option<HeldGrasp>,
    lease: LeaseSeen,
    shutting_down: bool,
    ask_about_others: Every,
    declare: Every,
    progress: Every,
    /// By command: what was performed and the disk did not take.
    unwritten: BTreeMap<String, Write>,
    write_again: Every,
}

/// One decision in the making.
struct Cx<'a, 't> {
    turn: &'a mut Turn<'t>,
    out: Vec<Effect>,
    /// Statuses have changed.
    changed: bool,
    /// What is written together, while something is.
    staged: Option<writing::Staged>,
}

impl<'a, 't> Cx<'a, 't> {
    fn new(turn: &'a mut Turn<'t>) -> Self {
        Cx {
            turn,
            out: Vec::new(),
            changed: false,
            staged: None,
        }
    }

    fn give(&mut self, effect: Effect) {
        self.out.push(effect);
    }

    fn log(&mut self, level: Level, text: impl Into<String>) {
        self.give(Effect::Log {
            level,
            text: text.into(),
        });
    }
}

impl Executor {
    /// Takes up what an earlier process left: nothing that had not started is started, what was running is
    /// brought to standstill.
    pub fn new(
        settings: Settings,
        skills: BTreeMap<String, KnownSkill>,
        restored: Restored,
        boot_id: &str,
        turn: &mut Turn<'_>,
    ) -> (Self, Vec<Effect>) {
        let mut this = Executor {
            frames: [settings.body.map_frame.clone()].into(),
            boot_id: boot_id.into(),
            began: turn.now,
            entries: BTreeMap::new(),
            recent: restored.settled.into_iter().take(RECENT).collect(),
            // A note of another version only means that the usual grasp is taken for granted.
            held: restored
                .held
                .and_then(|text| serde_json::from_str(&text).ok())
                .flatten(),
            lease: LeaseSeen {
                token: restored.newest_token,
                ..LeaseSeen::default()
            },
            shutting_down: false,
            ask_about_others: Every::now(timing::ASK_ABOUT_OTHERS),
            declare: Every::now(timing::DECLARE),
            progress: Every::now(timing::PROGRESS),
            unwritten: BTreeMap::new(),
            write_again: Every::now(timing::WRITE_AGAIN),
            settings,
            skills,
        };
        let mut cx = Cx::new(turn);
        cx.give(Effect::PublishCatalog(
            this.skills.values().map(|s| s.descriptor.clone()).collect(),
        ));
        cx.changed = true;
        this.recover(restored.live, &mut cx);
        let effects = this.finish(cx);
        (this, effects)
    }

    /// Takes one event in and gives out what follows, after what has to be durable is.
    pub fn handle(&mut self, event: Event, turn: &mut Turn<'_>) -> Vec<Effect> {
        let mut cx = Cx::new(turn);
        match event {
            Event::Arrived(arrival) => self.arrived(*arrival, &mut cx),
            Event::Unreadable {
                caller,
                command_id,
                reason,
            } => self.unreadable(caller, &command_id, &reason, &mut cx),
            Event::CancelAsked { caller } => {
                let of = |e: &Entry| e.callers.contains(&caller);
                let id = self.entries.iter().find(|(_, e)| of(e)).map(|(id, _)| id);
                if let Some(id) = id.cloned() {
                    self.ask_to_stop(&id, StopCause::Caller, &mut cx);
                }
            }
            Event::SettleAsked(request) => self.settle(request, &mut cx),
            Event::SceneChecked { command_id, check } => {
                self.drive(&command_id, Happening::SceneChecked(check), &mut cx);
            }
            Event::GoalAcknowledged { goal_id, accepted } => {
                if let Some(id) = self.owner(&goal_id) {
                    let happening = Happening::Acknowledged { goal_id, accepted };
                    self.drive(&id, happening, &mut cx);
                } else if accepted {
                    self.taken_after_the_settlement(goal_id, &mut cx);
                }
            }
            Event::GoalNotSent { goal_id, reason } => {
                if let Some(id) = self.owner(&goal_id) {
                    self.drive(&id, Happening::NotSent { goal_id, reason }, &mut cx);
                }
            }
            Event::ResultArrived { goal_id, end } => {
                if let Some(id) = self.owner(&goal_id) {
                    self.drive(&id, Happening::Ended { goal_id, end }, &mut cx);
                }
            }
            Event::ResultUnknown { goal_id } => {
                if let Some(id) = self.owner(&goal_id) {
                    self.drive(&id, Happening::Unknown { goal_id }, &mut cx);
                }
            }
            Event::SceneChanged {
                command_id,
                name,
                result,
            } => {
                let happening = Happening::SceneChanged { name, result };
                self.drive(&command_id, happening, &mut cx);
            }
            Event::Tick => self.tick(&mut cx),
            Event::Shutdown => self.shut_down(&mut cx),
        }
        self.finish(cx)
    }

    fn finish(&self, mut cx: Cx<'_, '_>) -> Vec<Effect> {
        if cx.changed {
            let stamp = cx.turn.stamp;
            cx.give(Effect::PublishStatuses {
                statuses: self.statuses(),
                stamp,
            });
        }
        // Otherwise in their order: the sort is stable.
        cx.out.sort_by_key(Effect::only_tells);
        cx.out
    }

    /// Lets one command go on.
    fn drive(&mut self, id: &str, happening: Happening, cx: &mut Cx<'_, '_>) {
        let Some(entry) = self.entries.get_mut(id) else {
            return;
        };
        let phase = std::mem::replace(&mut entry.phase, Phase::Over);
        let next = match phase {
            Phase::CheckingScene(checking) => self.check_scene(id, checking, happening, cx),
            Phase::Starting(starting) => self.start_now(id, starting, cx),
            Phase::Running(run, doing) => self.run(id, run, doing, happening, cx),
            Phase::Stopping(stopping) => self.stop(id, stopping, happening, cx),
            Phase::Recovering { until, cause } => self.take_up(id, until, cause, happening, cx),
            Phase::Over => {
                self.after_all(id, happening, cx);
                Phase::Over
            }
        };
        if let Some(entry) = self.entries.get_mut(id) {
            entry.phase = next;
        }
    }

    /// Asks a command to stop; the first cause counts, asking again is harmless.
    fn ask_to_stop(&mut self, id: &str, cause: StopCause, cx: &mut Cx<'_, '_>) {
        if let Some(entry) = self.entries.get_mut(id) {
            if entry.stop.is_none() {
                entry.stop = Some(cause);
                self.drive(id, Happening::Look, cx);
            }
        }
    }

    /// Why a command has to stop, if it has to.
    fn stop_of(&self, id: &str) -> Option<StopCause> {
        self.entries.get(id).and_then(|e| e.stop.clone())
    }

    // ---- what others may ask ---------------------------------------------------------------------

    /// How long to wait until the next [`Event::Tick`]; it is shorter while something runs. A wake-up that
    /// comes late delays deadlines, nothing else.
    pub fn next_tick(&self) -> Duration {
        if self.is_idle() {
            timing::IDLE
        } else {
            timing::LOOK
        }
    }

    /// True while no command is on its way.
    pub fn is_idle(&self) -> bool {
        let over = |e: &Entry| matches!(e.phase, Phase::Over);
        self.entries.values().all(over)
    }

    /// The longest time that what runs has to stand still when it is stopped now.
    pub fn longest_stop(&self) -> Duration {
        let runs = self.entries.values().filter(|e| !e.record.is_answered());
        runs.map(|e| e.record.command.stop_timeout())
            .max()
            .unwrap_or_default()
    }

    /// This executor's own clock, to be told several times a second: commands are dated by it.
    pub fn beacon(&self, now: Duration) -> Beacon {
        Beacon {
            executor: self.settings.name.clone(),
            boot_id: self.boot_id.clone(),
            tick: self.age(now),
        }
    }

    /// Time since its start.
    fn age(&self, now: Duration) -> Duration {
        now.saturating_sub(self.began)
    }
}

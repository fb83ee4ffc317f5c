//! Sub-goals that need no foreign action: a wait, a look, a change of the planning scene.

use std::time::Duration;

use eh_ledger::executor::ExecutorEvent;
use eh_skills::planning_scene::SceneWanted;
use eh_skills::SubGoalOutcome;

use super::{Cx, Executor};
use crate::effect::{Effect, Level};
use crate::phase::{Doing, Happening, Observation, Phase, Run, SceneChange};

impl Executor {
    pub(super) fn wait(
        &mut self,
        id: &str,
        run: Box<Run>,
        since: Duration,
        duration: Duration,
        cx: &mut Cx<'_, '_>,
    ) -> Phase {
        let passed = cx.turn.now.saturating_sub(since);
        if passed >= duration {
            return self.go_on(id, run, Some(SubGoalOutcome::Succeeded), cx);
        }
        self.set_progress(id, passed.as_secs_f64() / duration.as_secs_f64());
        Phase::Running(run, Doing::Waiting { since, duration })
    }

    /// Takes camera frames until enough of them show something of the class, or the time is up.
    pub(super) fn observe(
        &mut self,
        id: &str,
        run: Box<Run>,
        mut observation: Observation,
        cx: &mut Cx<'_, '_>,
    ) -> Phase {
        let late = cx.turn.now >= observation.until;
        if late || observation.look.is_due(cx.turn.now) {
            let seen = cx.turn.senses.frames_since(observation.since);
            let with = seen.iter().filter(|f| {
                let mut detections = f.detections.iter();
                detections.any(|d| d.class_name == observation.class_name)
            });
            if late || with.count() >= observation.frames {
                return self.go_on(id, run, Some(SubGoalOutcome::Observed(seen)), cx);
            }
        }
        Phase::Running(run, Doing::Observing(observation))
    }

    /// Whether there is a planning scene that can be changed.
    pub(super) fn has_planning_scene(&self, cx: &Cx<'_, '_>) -> bool {
        self.settings.planning_scene && cx.turn.senses.planning_scene_is_there()
    }

    /// Writes a change of the planning scene down and has it made.
    ///
    /// # Errors
    /// The outcome, when it is not made.
    pub(super) fn change_scene(
        &mut self,
        id: &str,
        name: &str,
        wanted: SceneWanted,
        cx: &mut Cx<'_, '_>,
    ) -> Result<SceneChange, SubGoalOutcome> {
        let rejected = |message: String| SubGoalOutcome::Rejected { message };
        if !self.settings.planning_scene {
            return Err(rejected("planning_scene is false".into()));
        }
        let step = ExecutorEvent::Step {
            name: name.into(),
            what: in_words(&wanted),
        };
        self.apply(id, &step, cx)
            .map_err(|e| rejected(e.to_string()))?;
        cx.give(Effect::ChangeScene {
            command_id: id.into(),
            name: name.into(),
            wanted: Box::new(wanted),
        });
        Ok(SceneChange {
            name: name.into(),
            until: cx.turn.now.saturating_add(self.scene_limit()),
        })
    }

    /// One change asks, then changes; one that was begun before it may have to end first.
    fn scene_limit(&self) -> Duration {
        self.settings.planning_scene_timeout.saturating_mul(4)
    }

    /// How a change of the planning scene ended; `None`: not yet.
    pub(super) fn scene_changed(
        &self,
        id: &str,
        change: &SceneChange,
        happening: Happening,
        cx: &mut Cx<'_, '_>,
    ) -> Option<SubGoalOutcome> {
        let result = match happening {
            Happening::SceneChanged { name, result } if name == change.name => result,
            Happening::Look if cx.turn.now >= change.until => Err(format!(
                "nothing was heard of the change within {:.1} s",
                self.scene_limit().as_secs_f64()
            )),
            Happening::Look
            | Happening::SceneChecked(_)
            | Happening::Acknowledged { .. }
            | Happening::NotSent { .. }
            | Happening::Ended { .. }
            | Happening::Unknown { .. }
            | Happening::SceneChanged { .. } => return None,
        };
        Some(match result {
            Ok(()) => SubGoalOutcome::Succeeded,
            Err(message) => {
                let name = &change.name;
                cx.log(Level::Warn, format!("command {id}, {name}: {message}"));
                SubGoalOutcome::Aborted { code: 0, message }
            }
        })
    }
}

/// What is wanted, for the journal.
fn in_words(wanted: &SceneWanted) -> String {
    let world: Vec<&str> = wanted.world.iter().map(|b| b.id.as_str()).collect();
    let attached = wanted
        .attached
        .as_ref()
        .map_or("nothing", |a| a.object.id.as_str());
    let contacts: Vec<String> = wanted
        .contacts
        .iter()
        .map(|[a, b]| format!("{a} and {b}"))
        .collect();
    format!(
        "world: {}; attached: {attached}; allowed contacts: {}",
        world.join(", "),
        contacts.join(", ")
    )
}

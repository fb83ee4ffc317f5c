//! Folding the arm.

use crate::fingers::{self, Hand};
use crate::pick::{arm_failure, named};
use crate::planning_scene::{self, SceneWanted};
use crate::program::{Context, SkillProgram, Step};
use crate::sub_goal::{Goal, SubGoalOutcome};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Begin,
    /// Scene: nothing of an earlier run is in the way.
    Prepare,
    Fold,
    /// Scene: only what is held is left.
    Done,
}

pub(crate) struct Stow {
    stage: Stage,
}

impl Stow {
    pub(crate) fn new() -> Self {
        Stow {
            stage: Stage::Begin,
        }
    }

    fn fold(&mut self) -> Step {
        self.stage = Stage::Fold;
        Step::Goal {
            name: "stow".into(),
            goal: named("stow"),
        }
    }

    fn scene(&mut self, stage: Stage, name: &str, wanted: SceneWanted) -> Step {
        self.stage = stage;
        Step::Goal {
            name: name.into(),
            goal: Goal::Scene(wanted),
        }
    }
}

impl SkillProgram for Stow {
    fn next(&mut self, context: &Context<'_>, last: Option<&SubGoalOutcome>) -> Step {
        match (self.stage, last) {
            (Stage::Begin, _) | (_, None) if context.planning_scene => {
                let mut wanted = planning_scene::at_rest(context);
                // It may still stand where it was grasped.
                if let Hand::Holds(held) =
                    fingers::hand(context.gripper, context.held, context.body)
                {
                    wanted.contacts = planning_scene::standing(&held.object, None);
                }
                self.scene(Stage::Prepare, "prepare_scene", wanted)
            }
            (Stage::Begin, _) | (_, None) => self.fold(),
            // A scene that can't be changed is no reason to leave the arm stretched out.
            (Stage::Prepare, Some(_)) => self.fold(),
            (Stage::Fold, Some(outcome)) => match arm_failure(outcome) {
                None if context.planning_scene => {
                    let wanted = planning_scene::at_rest(context);
                    self.scene(Stage::Done, "tidy_scene", wanted)
                }
                None => Step::Completed,
                Some((failure, _)) => Step::Failed(failure),
            },
            (Stage::Done, Some(_)) => Step::Completed,
        }
    }

    fn scene_at_a_failure(&self, context: &Context<'_>) -> Option<SceneWanted> {
        (self.stage != Stage::Begin).then(|| planning_scene::at_rest(context))
    }

    fn progress(&self) -> Option<f64> {
        None
    }
}

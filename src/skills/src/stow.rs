//! Folding the arm.

use crate::pick::{arm_failure, named};
use crate::program::{Context, SkillProgram, Step};
use crate::sub_goal::SubGoalOutcome;

pub(crate) struct Stow;

impl Stow {
    pub(crate) fn new() -> Self {
        Stow
    }
}

impl SkillProgram for Stow {
    fn next(&mut self, _: &Context<'_>, last: Option<&SubGoalOutcome>) -> Step {
        match last {
            None => Step::Goal {
                name: "stow".into(),
                goal: named("stow"),
            },
            Some(outcome) => match arm_failure(outcome) {
                None => Step::Completed,
                Some((failure, _)) => Step::Failed(failure),
            },
        }
    }

    fn progress(&self) -> Option<f64> {
        None
    }
}

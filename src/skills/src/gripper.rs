//! Opening and closing the gripper.

use eh_contract::error_code::ErrorCode;

use crate::native_code;
use crate::planning_scene::SceneWanted;
use crate::program::{Context, Failure, HeldChange, SkillProgram, Step};
use crate::sub_goal::{Goal, SubGoalOutcome};

pub(crate) struct GripperProgram {
    open: bool,
    sent: bool,
    /// The fingers are open and the planning scene is told.
    tidied: bool,
}

impl GripperProgram {
    pub(crate) fn open() -> Self {
        GripperProgram {
            open: true,
            sent: false,
            tidied: false,
        }
    }

    pub(crate) fn close() -> Self {
        GripperProgram {
            open: false,
            sent: false,
            tidied: false,
        }
    }
}

/// The goal that opens the gripper wide.
pub(crate) fn open_goal(context: &Context<'_>) -> Goal {
    Goal::Gripper {
        width: context.body.gripper_max_width,
        max_effort: context.body.grasp_effort,
    }
}

/// The goal that closes it.
pub(crate) fn close_goal(context: &Context<'_>) -> Goal {
    Goal::Gripper {
        width: 0.0,
        max_effort: context.body.grasp_effort,
    }
}

/// Whether a gripper goal did what it should.
pub(crate) fn check(
    outcome: &SubGoalOutcome,
    open: bool,
    context: &Context<'_>,
) -> Result<(), Failure> {
    let fail = |message: String| Failure::new(ErrorCode::GripperFailed, message);
    match outcome {
        SubGoalOutcome::Succeeded | SubGoalOutcome::Observed(_) => Ok(()),
        SubGoalOutcome::Gripper(report) if open => {
            native_code::gripper_opened(report, context.body.gripper_max_width).map_err(fail)
        }
        SubGoalOutcome::Gripper(report) => native_code::gripper_closed(report).map_err(fail),
        SubGoalOutcome::Rejected { message } => Err(fail(format!(
            "the gripper's server refused the goal ({message}); see its log"
        ))),
        SubGoalOutcome::Aborted { code, message } => Err(fail(format!(
            "the gripper's server gave up (code {code}: {message}); see its driver"
        ))),
    }
}

impl SkillProgram for GripperProgram {
    fn next(&mut self, context: &Context<'_>, last: Option<&SubGoalOutcome>) -> Step {
        match last {
            None => {
                self.sent = true;
                let (name, goal) = if self.open {
                    ("open", open_goal(context))
                } else {
                    ("close", close_goal(context))
                };
                Step::Goal {
                    name: name.into(),
                    goal,
                }
            }
            // Nothing moves by it, so a scene that could not be changed is left to the next skill.
            Some(_) if self.tidied => Step::Completed,
            Some(outcome) => match check(outcome, self.open, context) {
                // What was let go must not stay attached in the planner's mind.
                Ok(()) if self.open && context.planning_scene => {
                    self.tidied = true;
                    Step::Goal {
                        name: "tidy_scene".into(),
                        goal: Goal::Scene(SceneWanted::default()),
                    }
                }
                Ok(()) => Step::Completed,
                Err(failure) => Step::Failed(failure),
            },
        }
    }

    fn progress(&self) -> Option<f64> {
        None
    }

    fn held_change(&self) -> HeldChange {
        if self.open && self.sent {
            HeldChange::Clear
        } else {
            HeldChange::Keep
        }
    }
}

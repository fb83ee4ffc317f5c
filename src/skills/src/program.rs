//! What a skill's program is, and the program of each skill that ships.

use std::time::Duration;

use eh_contract::command::SkillCommand;
use eh_contract::error_code::ErrorCode;
use eh_contract::geometry::Pose;
use eh_contract::scene::SceneSnapshot;
use serde_json::{Map, Value};

use crate::embodiment::Embodiment;
use crate::fingers::GripperReading;
use crate::grasp::HeldGrasp;
use crate::gripper::GripperProgram;
use crate::look::LookAt;
use crate::navigate::{NavigateTo, NavigateToPose};
use crate::pick::Pick;
use crate::place::Place;
use crate::planning_scene::SceneWanted;
use crate::stow::Stow;
use crate::sub_goal::{Goal, SubGoalOutcome};
use crate::wait::Wait;

/// What a program may know when it decides on its next sub-goal.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// base_link in the map, from tf; `None` when it is missing or too old.
    pub base_in_map: Option<Pose>,
    /// The newest scene graph, as a help for choosing places; `None` when there is none. Nothing is
    /// taken for granted because of it.
    pub scene: Option<&'a SceneSnapshot>,
    /// The body.
    pub body: &'a Embodiment,
    /// How the object in the gripper was grasped, if this executor grasped it.
    pub held: Option<&'a HeldGrasp>,
    /// The fingers as they are now; `None` when the driver is silent.
    pub gripper: Option<GripperReading>,
    /// The tool link in base_link now, from tf; `None` when it is missing or too old.
    pub tool_in_base: Option<Pose>,
    /// Whether the arm's planner has a planning scene that can be changed.
    pub planning_scene: bool,
    /// Whether there is a head that can be turned from here.
    pub head: bool,
}

impl<'a> Context<'a> {
    /// A context in which nothing is known but the body.
    pub const fn of(body: &'a Embodiment) -> Self {
        Context {
            base_in_map: None,
            scene: None,
            body,
            held: None,
            gripper: None,
            tool_in_base: None,
            planning_scene: false,
            head: false,
        }
    }
}

/// Why control failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Code of ExecuteSkill.
    pub code: ErrorCode,
    /// Value, limit, what to do.
    pub message: String,
}

impl Failure {
    /// Creates a failure.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Failure {
            code,
            message: message.into(),
        }
    }
}

/// What comes next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Reach this sub-goal.
    Goal {
        /// Its name, unique within the run.
        name: String,
        /// What is asked.
        goal: Goal,
    },
    /// Every sub-goal is done.
    Completed,
    /// It can't be done.
    Failed(Failure),
}

/// What a completed program means for what is known of the gripper.
#[derive(Clone, Debug, PartialEq)]
pub enum HeldChange {
    /// Nothing.
    Keep,
    /// This may be in the gripper now.
    Take(HeldGrasp),
    /// The gripper was opened.
    Clear,
}

/// A skill as a state machine.
pub trait SkillProgram: Send {
    /// Says what is next. `last` is how the last sub-goal ended, `None` at the first call.
    fn next(&mut self, context: &Context<'_>, last: Option<&SubGoalOutcome>) -> Step;

    /// Part of the sub-goals that is done, 0 to 1; `None` where it can't be said from here.
    fn progress(&self) -> Option<f64>;

    /// How long what was asked for last may take, where it is only a glance: the skill has done by then what it is
    /// for, and is complete however the glance ends. `None`: it is no glance.
    fn glance(&self) -> Option<Duration> {
        None
    }

    /// What of ours is to be in the planning scene when it ended before its time and everything stands
    /// still; `None`: it left none there.
    fn scene_at_a_failure(&self, _context: &Context<'_>) -> Option<SceneWanted> {
        None
    }

    /// What it meant for the gripper so far.
    fn held_change(&self) -> HeldChange {
        HeldChange::Keep
    }
}

/// The program of a command. `arguments` are the checked ones, with defaults.
///
/// # Errors
/// [`Failure`] for a skill that has no program here or a target that is missing.
pub fn program_for(
    command: &SkillCommand,
    arguments: &Map<String, Value>,
) -> Result<Box<dyn SkillProgram>, Failure> {
    let target = |name: &str| {
        command.target(name).cloned().ok_or_else(|| {
            Failure::new(
                ErrorCode::InvalidArguments,
                format!("the command carries no target for the argument {name}; bind it from the scene graph before sending"),
            )
        })
    };
    match command.skill.as_str() {
        "navigate_to" => Ok(Box::new(NavigateTo::new(target("target")?))),
        "navigate_to_pose" => Ok(Box::new(NavigateToPose::new(arguments)?)),
        "wait" => Ok(Box::new(Wait::new(arguments)?)),
        "look_at" => Ok(Box::new(LookAt::new(target("target")?))),
        "pick" => Ok(Box::new(Pick::new(target("object")?))),
        "place" => Ok(Box::new(Place::new(target("object")?, target("support")?))),
        "open_gripper" => Ok(Box::new(GripperProgram::open())),
        "close_gripper" => Ok(Box::new(GripperProgram::close())),
        "stow" => Ok(Box::new(Stow::new())),
        other => Err(Failure::new(
            ErrorCode::UnknownSkill,
            format!("there is no program for skill {other:?} in this executor"),
        )),
    }
}

/// The failure of a program that needs the base's pose and has none.
pub(crate) fn no_transform(body: &Embodiment) -> Step {
    Step::Failed(Failure::new(
        ErrorCode::TransformUnavailable,
        format!(
            "the transform from {} to {} is missing or too old; check that localization runs and publishes tf",
            body.map_frame, body.base_frame
        ),
    ))
}

/// A name that is unique among repeated tries: "drive", "drive_2", …
pub(crate) fn numbered(name: &str, index: usize) -> String {
    if index == 0 {
        name.into()
    } else {
        format!("{name}_{}", index + 1)
    }
}

//! The interface that every planner serves: symbolic, model or replay.
//!
//! A task begins with [`Planner::begin`], which reads the instruction into a [`Program`]. Then the harness
//! asks [`Planner::next`] for one [`Turn`] after another, each time with the newest scene and with what
//! became of all steps so far. The program is plain data: another process continues from its JSON.
//!
//! A planner that waits for a network keeps its waiting outside of this trait: everything that goes in and
//! out is owned or borrowed plain data, so that an asynchronous driver builds its request from the same
//! [`PlanningContext`], keeps its transcript in [`Program::state`] and turns the reply into a [`Turn`].

use eh_contract::command::Proposal;
use eh_contract::error_code::ErrorCode;
use eh_contract::scene::SceneSnapshot;
use eh_contract::session::StepReport;
use eh_contract::skill::SkillDescriptor;
use eh_contract::time::Stamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thiserror::Error;

/// Longest instruction in characters, as `action/ExecuteTask.action` promises.
pub const MAX_INSTRUCTION_LEN: usize = 2000;

/// Decides what to do next.
pub trait Planner: Send + Sync {
    /// Reads an instruction. Nothing has moved yet, and nothing may move when this fails.
    ///
    /// # Errors
    /// [`PlannerError`], whose message says in the instruction's language what was not understood.
    fn begin(&self, task: &TaskInput<'_>) -> Result<Program, PlannerError>;

    /// What comes next, in view of the scene and of all that happened. The program takes up what the
    /// planner wants to remember; store it after each call.
    fn next(&self, program: &mut Program, context: &PlanningContext<'_>) -> Turn;
}

/// What a planner reads before anything moves.
#[derive(Clone, Copy, Debug)]
pub struct TaskInput<'a> {
    /// The instruction as it was given.
    pub instruction: &'a str,
    /// The scene at that time: rooms, objects, their classes and aliases are words of the instruction.
    pub snapshot: &'a SceneSnapshot,
    /// Classes that perception can recognise, as far as they are known beyond the scene; may be empty.
    pub vocabulary: &'a [String],
}

/// What a planner reads at each turn.
#[derive(Clone, Copy, Debug)]
pub struct PlanningContext<'a> {
    /// The newest scene. It has the place [`PlanningContext::start_ref`] where the task needs it.
    pub snapshot: &'a SceneSnapshot,
    /// ROS time.
    pub now: Stamp,
    /// Skills on offer.
    pub skills: &'a [SkillDescriptor],
    /// Every step of this task so far, oldest first; refused proposals too.
    pub history: &'a [StepReport],
    /// Every answer of a person so far, oldest first.
    pub answers: &'a [Answer],
    /// Ref of the place where the task was given, usually `start`.
    pub start_ref: &'a str,
}

/// What a person answered to a [`Turn::Ask`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Key of the question.
    pub key: String,
    /// One of its options, or free text.
    pub answer: String,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Turn {
    /// Run this skill; the whole plan behind it is in [`Program::plan`].
    Propose(Proposal),
    /// The task is done.
    Done {
        /// What was done, one sentence for people.
        summary: String,
    },
    /// A person has to choose; ask [`Planner::next`] again with the answer.
    Ask {
        /// Names the question in [`Answer::key`].
        key: String,
        /// The question, in the instruction's language.
        question: String,
        /// Possible answers; empty: free text.
        options: Vec<String>,
    },
    /// The task can't be done.
    Fail {
        /// Why, as a code of ExecuteTask.
        code: ErrorCode,
        /// Why, in the instruction's language, with what can be done.
        message: String,
    },
}

/// The language of an instruction, and of what is said to the person who gave it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Language {
    /// English.
    #[default]
    En,
    /// Chinese.
    Zh,
}

/// A step of a plan that was not proposed yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedStep {
    /// Skill.
    pub skill: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
    /// Why, one sentence for people.
    pub reason: String,
    /// Typical time \[s\], from the descriptor.
    pub nominal_duration: f64,
}

/// A task as its planner understands it, with what the planner remembers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// Which planner made it and has to continue it.
    pub planner: String,
    /// Version of that planner and its tables.
    pub planner_version: String,
    /// The instruction.
    pub instruction: String,
    /// Its language.
    pub language: Language,
    /// The instruction as it was understood, one sentence for people.
    pub understood: String,
    /// Grows whenever the plan becomes another one than the remainder of the last.
    pub plan_version: u32,
    /// The plan from here on, for display and dry runs; what is not known yet (such as where an object
    /// is) is not in it. Filled by [`Planner::next`].
    pub plan: Vec<PlannedStep>,
    /// What the planner remembers; its form belongs to the planner.
    pub state: Value,
}

/// Why an instruction is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlannerError {
    /// It is empty.
    #[error("{message}")]
    Empty {
        /// What to say instead.
        message: String,
    },
    /// It is too long.
    #[error("{message}")]
    TooLong {
        /// Its length in characters.
        len: usize,
        /// The value, the limit, what to do.
        message: String,
    },
    /// It can't be read.
    #[error("{message}")]
    NotUnderstood {
        /// The words that are not known; empty when only their order is not understood.
        words: Vec<String>,
        /// Which words, and what can be said instead.
        message: String,
    },
    /// The planner itself failed.
    #[error("the planner failed: {message}")]
    Failed {
        /// Why.
        message: String,
    },
}

impl PlannerError {
    /// The code of ExecuteTask.
    pub const fn code(&self) -> ErrorCode {
        match self {
            PlannerError::Empty { .. } => ErrorCode::InstructionEmpty,
            PlannerError::TooLong { .. } => ErrorCode::InstructionTooLong,
            PlannerError::NotUnderstood { .. } => ErrorCode::InstructionNotUnderstood,
            PlannerError::Failed { .. } => ErrorCode::PlannerFailure,
        }
    }
}

//! Whether a task is taken: its name, its words, its budgets, and whether there is room for it.

use std::time::Duration;

use eh_contract::id::{check_id, IdError};
use eh_contract::session::{TaskRecord, TaskRequest};
use eh_contract::ErrorCode;
use eh_planner::planner::MAX_INSTRUCTION_LEN;
use rand::RngCore;
use thiserror::Error;

/// Longest time budget; a task of more than a day is a mistake in the unit.
pub const MAX_TIME_BUDGET: Duration = Duration::from_secs(86_400);

/// Most steps of a task.
pub const MAX_STEPS: u32 = 10_000;

/// Most permissions in one goal.
pub const MAX_PERMISSIONS: usize = 64;

/// A goal of ExecuteTask as it came.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskGoal {
    /// Name; empty: one is made.
    pub task_id: String,
    /// What to do.
    pub instruction: String,
    /// Seconds and nanoseconds of the message; zero: the default, negative is refused.
    pub time_budget: (i32, u32),
    /// Most steps; zero: the default.
    pub max_steps: u32,
    /// Permissions beyond the defaults.
    pub permissions: Vec<String>,
    /// Plan and check only.
    pub dry_run: bool,
}

/// What is filled in for a goal's zeros.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskDefaults {
    /// Time budget.
    pub time_budget: Duration,
    /// Steps.
    pub max_steps: u32,
    /// Permissions of every task.
    pub permissions: Vec<String>,
}

impl Default for TaskDefaults {
    fn default() -> Self {
        TaskDefaults {
            time_budget: Duration::from_secs(300),
            max_steps: 40,
            permissions: vec!["move_base".into(), "move_arm".into()],
        }
    }
}

/// Why a task is not taken; nothing was started.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AdmissionError {
    /// The name is not usable.
    #[error(transparent)]
    TaskId(#[from] IdError),
    /// Nothing to do.
    #[error(
        "the instruction is empty; say what to do, for example \"bring the cup from the kitchen\""
    )]
    Empty,
    /// Too many words.
    #[error(
        "the instruction has {len} characters, the limit is {MAX_INSTRUCTION_LEN}; shorten it"
    )]
    TooLong {
        /// Its length.
        len: usize,
    },
    /// Control characters.
    #[error("the instruction contains the control character {found:?}; send plain text")]
    ControlCharacter {
        /// The first one.
        found: char,
    },
    /// A budget that can't be meant.
    #[error("time_budget is {secs} s, it must be between 0 (the default) and {} s", MAX_TIME_BUDGET.as_secs())]
    TimeBudget {
        /// The value.
        secs: i64,
    },
    /// Nanoseconds beyond a second.
    #[error("time_budget has {nanosec} ns beside its seconds, it must be less than 1000000000")]
    Nanoseconds {
        /// The value.
        nanosec: u32,
    },
    /// Too many steps.
    #[error("max_steps is {steps}, the limit is {MAX_STEPS}")]
    Steps {
        /// The value.
        steps: u32,
    },
    /// A permission that is no name.
    #[error("a permission is not usable: {reason}")]
    Permission {
        /// Why.
        reason: String,
    },
    /// A permission that nothing needs.
    #[error("no skill needs the permission \"{permission}\", so that granting it is a mistake; known are: {}; an executor that is not running can't tell its own", .known.join(", "))]
    UnknownPermission {
        /// The name.
        permission: String,
        /// Those that the skills on offer need, and the defaults.
        known: Vec<String>,
    },
    /// The name belongs to other content.
    #[error("task_id \"{task_id}\" was given before with {what}; use a new task_id, or none")]
    Conflict {
        /// The name.
        task_id: String,
        /// What differs.
        what: &'static str,
    },
    /// Another task runs.
    #[error("task \"{running}\" is running; wait for its end or cancel it")]
    Busy {
        /// Its name.
        running: String,
    },
    /// A latched stop.
    #[error("{text}; then send the task again")]
    StopLatched {
        /// Who asked for it, why, and how it is reset.
        text: String,
    },
    /// The disk fails.
    #[error("the ledger can't be written: {reason}; then send the task again")]
    Storage {
        /// Why, and what to do.
        reason: String,
    },
    /// On the way out.
    #[error("the harness is shutting down; send the task again when it is back")]
    ShuttingDown,
}

impl AdmissionError {
    /// The code of ExecuteTask.
    pub const fn code(&self) -> ErrorCode {
        match self {
            AdmissionError::TaskId(_) => ErrorCode::InvalidTaskId,
            AdmissionError::Empty => ErrorCode::InstructionEmpty,
            AdmissionError::TooLong { .. } => ErrorCode::InstructionTooLong,
            AdmissionError::ControlCharacter { .. } => ErrorCode::InstructionNotUnderstood,
            AdmissionError::TimeBudget { .. }
            | AdmissionError::Nanoseconds { .. }
            | AdmissionError::Steps { .. } => ErrorCode::InvalidBudget,
            AdmissionError::Permission { .. } | AdmissionError::UnknownPermission { .. } => {
                ErrorCode::PermissionDenied
            }
            AdmissionError::Conflict { .. } => ErrorCode::TaskIdConflict,
            AdmissionError::Busy { .. } => ErrorCode::TaskBusy,
            AdmissionError::StopLatched { .. } => ErrorCode::TaskStopLatched,
            AdmissionError::Storage { .. } => ErrorCode::TaskStorageFailure,
            AdmissionError::ShuttingDown => ErrorCode::TaskShuttingDown,
        }
    }
}

/// What becomes of a goal that is well formed.
#[derive(Clone, Debug, PartialEq)]
pub enum Repeated {
    /// The name is new.
    New,
    /// The same task is running: follow it.
    Follow,
    /// The same task has ended: this is its result.
    Ended(Box<TaskRecord>),
}

/// Checks a goal by itself and fills in its defaults.
///
/// # Errors
/// [`AdmissionError`] that names the field, the value and the limit.
pub fn read_goal(
    goal: &TaskGoal,
    defaults: &TaskDefaults,
    rng: &mut dyn RngCore,
) -> Result<TaskRequest, AdmissionError> {
    let task_id = if goal.task_id.is_empty() {
        format!("task-{}", short_id(rng))
    } else {
        check_id("task_id", &goal.task_id)?;
        goal.task_id.clone()
    };
    let instruction = goal.instruction.trim();
    if instruction.is_empty() {
        return Err(AdmissionError::Empty);
    }
    let len = instruction.chars().count();
    if len > MAX_INSTRUCTION_LEN {
        return Err(AdmissionError::TooLong { len });
    }
    if let Some(found) = instruction
        .chars()
        .find(|c| c.is_control() && !c.is_whitespace())
    {
        return Err(AdmissionError::ControlCharacter { found });
    }
    let (sec, nanosec) = goal.time_budget;
    if nanosec >= 1_000_000_000 {
        return Err(AdmissionError::Nanoseconds { nanosec });
    }
    let wanted = u64::try_from(sec)
        .ok()
        .map(|s| Duration::new(s, nanosec))
        .filter(|d| *d <= MAX_TIME_BUDGET)
        .ok_or(AdmissionError::TimeBudget {
            secs: i64::from(sec),
        })?;
    let time_budget = if wanted.is_zero() {
        defaults.time_budget
    } else {
        wanted
    };
    if goal.max_steps > MAX_STEPS {
        return Err(AdmissionError::Steps {
            steps: goal.max_steps,
        });
    }
    if goal.permissions.len() > MAX_PERMISSIONS {
        return Err(AdmissionError::Permission {
            reason: format!(
                "there are {}, the limit is {MAX_PERMISSIONS}",
                goal.permissions.len()
            ),
        });
    }
    for permission in &goal.permissions {
        check_id("permission", permission).map_err(|e| AdmissionError::Permission {
            reason: e.to_string(),
        })?;
    }
    let mut permissions: Vec<String> = defaults
        .permissions
        .iter()
        .chain(&goal.permissions)
        .cloned()
        .collect();
    permissions.sort();
    permissions.dedup();
    Ok(TaskRequest {
        task_id,
        instruction: instruction.into(),
        time_budget,
        max_steps: if goal.max_steps == 0 {
            defaults.max_steps
        } else {
            goal.max_steps
        },
        permissions,
        dry_run: goal.dry_run,
    })
}

/// Checks that somebody needs each permission: a misspelt one would be missed only when a step is refused.
/// `known` are those that the skills on offer need and those of every task; while no skill is known, nothing is
/// known about permissions either.
///
/// # Errors
/// [`AdmissionError::UnknownPermission`].
pub fn check_permissions<'a>(
    request: &TaskRequest,
    needed: impl IntoIterator<Item = &'a str>,
    defaults: &TaskDefaults,
) -> Result<(), AdmissionError> {
    let mut known: Vec<String> = needed.into_iter().map(str::to_owned).collect();
    if known.is_empty() {
        return Ok(());
    }
    known.extend(defaults.permissions.iter().cloned());
    known.retain(|name| !name.is_empty());
    known.sort();
    known.dedup();
    match request.permissions.iter().find(|p| !known.contains(p)) {
        Some(permission) => Err(AdmissionError::UnknownPermission {
            permission: permission.clone(),
            known,
        }),
        None => Ok(()),
    }
}

/// Compares a request with the task that is known under its name.
///
/// # Errors
/// [`AdmissionError::Conflict`] when anything of the content differs.
pub fn compare(
    request: &TaskRequest,
    known: Option<&TaskRecord>,
) -> Result<Repeated, AdmissionError> {
    let Some(known) = known else {
        return Ok(Repeated::New);
    };
    let differs = [
        (
            "another instruction",
            known.request.instruction != request.instruction,
        ),
        (
            "another time_budget",
            known.request.time_budget != request.time_budget,
        ),
        (
            "another max_steps",
            known.request.max_steps != request.max_steps,
        ),
        (
            "other permissions",
            known.request.permissions != request.permissions,
        ),
        ("another dry_run", known.request.dry_run != request.dry_run),
    ];
    if let Some((what, _)) = differs.into_iter().find(|(_, differs)| *differs) {
        return Err(AdmissionError::Conflict {
            task_id: request.task_id.clone(),
            what,
        });
    }
    if known.is_running() {
        Ok(Repeated::Follow)
    } else {
        Ok(Repeated::Ended(Box::new(known.clone())))
    }
}

/// Twelve hex digits of randomness: short enough to be typed, long enough never to meet twice.
pub fn short_id(rng: &mut dyn RngCore) -> String {
    format!("{:012x}", rng.next_u64() >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use eh_contract::state::TaskOutcome;
    use proptest::prelude::*;
    use rand::rngs::StdRng;
    use rand::SeedableRng;

    fn goal(instruction: &str) -> TaskGoal {
        TaskGoal {
            instruction: instruction.into(),
            ..TaskGoal::default()
        }
    }

    fn read(goal: &TaskGoal) -> Result<TaskRequest, AdmissionError> {
        read_goal(
            goal,
            &TaskDefaults::default(),
            &mut StdRng::seed_from_u64(1),
        )
    }

    #[test]
    fn permissions_are_as_many_as_anybody_needs() {
        let with = |count: usize| TaskGoal {
            permissions: (0..count).map(|i| format!("p{i}")).collect(),
            ..goal("go to the kitchen")
        };
        assert!(read(&with(MAX_PERMISSIONS)).is_ok());
        let error = read(&with(MAX_PERMISSIONS + 1)).unwrap_err();
        assert_eq!(error.code(), ErrorCode::PermissionDenied);
    }

    #[test]
    fn a_permission_that_nothing_needs_is_refused_by_name() {
        let check = |permission: &str, needed: &[&str]| {
            let goal = TaskGoal {
                permissions: vec![permission.into()],
                ..goal("go to the kitchen")
            };
            let request = read(&goal).unwrap();
            check_permissions(&request, needed.iter().copied(), &TaskDefaults::default())
        };
        let needed = ["move_base", "", "open_doors"];
        assert_eq!(check("open_doors", &needed), Ok(()));
        // A default one, which no skill on offer needs.
        assert_eq!(check("move_arm", &needed), Ok(()));
        let error = check("bogus", &needed).unwrap_err();
        assert_eq!(error.code(), ErrorCode::PermissionDenied);
        let text = error.to_string();
        assert!(text.contains("\"bogus\""), "{text}");
        assert!(
            text.contains("known are: move_arm, move_base, open_doors;"),
            "{text}"
        );
        assert_eq!(check("bogus", &[]), Ok(()), "no skill is known yet");
    }

    #[test]
    fn zeros_become_defaults_and_an_id_is_made() {
        let request = read(&goal(" 去厨房拿杯子 ")).unwrap();
        assert_eq!(request.instruction, "去厨房拿杯子");
        assert_eq!(request.time_budget, Duration::from_secs(300));
        assert_eq!(request.max_steps, 40);
        assert_eq!(request.permissions, ["move_arm", "move_base"]);
        assert!(check_id("task_id", &request.task_id).is_ok());
    }

    #[test]
    fn bad_input_is_named() {
        let code = |g: TaskGoal| read(&g).unwrap_err().code();
        assert_eq!(code(goal("")), ErrorCode::InstructionEmpty);
        assert_eq!(code(goal(" \n\t")), ErrorCode::InstructionEmpty);
        assert_eq!(
            code(goal(&"杯".repeat(2001))),
            ErrorCode::InstructionTooLong
        );
        assert!(read(&goal(&"杯".repeat(2000))).is_ok());
        assert_eq!(
            code(goal("bring\u{0}the cup")),
            ErrorCode::InstructionNotUnderstood
        );
        let with = |f: fn(&mut TaskGoal)| {
            let mut g = goal("go");
            f(&mut g);
            g
        };
        assert_eq!(
            code(with(|g| g.task_id = "a b".into())),
            ErrorCode::InvalidTaskId
        );
        assert_eq!(
            code(with(|g| g.task_id = "x".repeat(65))),
            ErrorCode::InvalidTaskId
        );
        assert_eq!(
            code(with(|g| g.time_budget = (-1, 0))),
            ErrorCode::InvalidBudget
        );
        assert_eq!(
            code(with(|g| g.time_budget = (i32::MAX, 0))),
            ErrorCode::InvalidBudget
        );
        assert_eq!(
            code(with(|g| g.time_budget = (1, 1_000_000_000))),
            ErrorCode::InvalidBudget
        );
        assert_eq!(
            code(with(|g| g.max_steps = u32::MAX)),
            ErrorCode::InvalidBudget
        );
        assert_eq!(
            code(with(|g| g.permissions = vec![String::new()])),
            ErrorCode::PermissionDenied
        );
    }

    #[test]
    fn a_repeated_name_needs_the_same_content() {
        let request = TaskRequest {
            task_id: "t".into(),
            instruction: "go".into(),
            ..TaskRequest::default()
        };
        assert_eq!(compare(&request, None), Ok(Repeated::New));
        let mut known = TaskRecord {
            request: request.clone(),
            ..TaskRecord::default()
        };
        assert_eq!(compare(&request, Some(&known)), Ok(Repeated::Follow));
        known.outcome = TaskOutcome::Succeeded;
        assert!(matches!(
            compare(&request, Some(&known)),
            Ok(Repeated::Ended(_))
        ));
        let other = TaskRequest {
            instruction: "stay".into(),
            ..request
        };
        assert_eq!(
            compare(&other, Some(&known)).unwrap_err().code(),
            ErrorCode::TaskIdConflict
        );
    }

    proptest! {
        #[test]
        fn anything_is_taken_or_refused_with_words(
            task_id in ".{0,80}", instruction in "\\PC{0,80}", sec in any::<i32>(),
            nanosec in any::<u32>(), max_steps in any::<u32>(),
        ) {
            let goal = TaskGoal {
                task_id, instruction, time_budget: (sec, nanosec), max_steps, ..TaskGoal::default()
            };
            match read(&goal) {
                Ok(request) => {
                    prop_assert!(request.time_budget > Duration::ZERO);
                    prop_assert!(request.time_budget <= MAX_TIME_BUDGET);
                    prop_assert!((1..=MAX_STEPS).contains(&request.max_steps));
                    prop_assert!(check_id("task_id", &request.task_id).is_ok());
                }
                Err(e) => prop_assert!(!e.to_string().is_empty() && e.code().code() >= 10000),
            }
        }
    }
}

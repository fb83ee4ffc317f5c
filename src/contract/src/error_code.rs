//! Every error code of every server, with its name. The numbers stand again as constants in `action/`
//! and `srv/`, where other languages read them; a test compares the two.

use serde::{Deserialize, Serialize};

macro_rules! error_codes {
    ($($(#[$doc:meta])* $variant:ident = $number:literal $name:literal,)+) => {
        /// A code that goes out in `error_code`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "SCREAMING_SNAKE_CASE")]
        pub enum ErrorCode { $($(#[$doc])* $variant = $number,)+ }

        impl ErrorCode {
            /// Every code in the order of its number.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$variant,)+];

            /// The number in messages.
            pub const fn code(self) -> u16 { self as u16 }

            /// The constant's name in the interface files.
            pub const fn name(self) -> &'static str {
                match self { $(ErrorCode::$variant => $name,)+ }
            }

            /// The code of a number.
            pub const fn from_code(code: u16) -> Option<Self> {
                match code { $($number => Some(ErrorCode::$variant),)+ _ => None }
            }
        }
    };
}

error_codes! {
    /// No error.
    None = 0 "NONE",
    /// The server refused the goal (as in Nav2).
    GoalRejected = 1 "GOAL_REJECTED",
    /// The goal could not be sent (as in Nav2).
    SendGoalFailure = 2 "SEND_GOAL_FAILURE",
    // ExecuteTask: 10000 to 10099.
    /// Another task is running.
    TaskBusy = 10000 "TASK_BUSY",
    /// The id belongs to another instruction.
    TaskIdConflict = 10001 "TASK_ID_CONFLICT",
    /// The id has characters or a length that is not allowed.
    InvalidTaskId = 10002 "INVALID_TASK_ID",
    /// The instruction is empty.
    InstructionEmpty = 10003 "INSTRUCTION_EMPTY",
    /// The instruction is too long.
    InstructionTooLong = 10004 "INSTRUCTION_TOO_LONG",
    /// The planner can't read the instruction.
    InstructionNotUnderstood = 10005 "INSTRUCTION_NOT_UNDERSTOOD",
    /// A budget is negative or not finite.
    InvalidBudget = 10006 "INVALID_BUDGET",
    /// What the instruction names is not in the scene.
    TargetNotFound = 10007 "TARGET_NOT_FOUND",
    /// What the instruction names fits several things.
    TargetAmbiguous = 10008 "TARGET_AMBIGUOUS",
    /// No sequence of skills reaches the goal.
    NoPlan = 10009 "NO_PLAN",
    /// The task's time is used up.
    TimeBudgetExhausted = 10010 "TIME_BUDGET_EXHAUSTED",
    /// The task's steps are used up.
    StepBudgetExhausted = 10011 "STEP_BUDGET_EXHAUSTED",
    /// A step failed too often.
    AttemptsExhausted = 10012 "ATTEMPTS_EXHAUSTED",
    /// A skill that is needed is not offered.
    SkillUnavailable = 10013 "SKILL_UNAVAILABLE",
    /// The control lease is not to be had.
    NoLease = 10014 "NO_LEASE",
    /// A command could not be settled.
    CommandUnknown = 10015 "COMMAND_UNKNOWN",
    /// The scene graph does not answer.
    SceneUnavailable = 10016 "SCENE_UNAVAILABLE",
    /// The evaluator does not answer.
    EvaluatorUnavailable = 10017 "EVALUATOR_UNAVAILABLE",
    /// A stop is latched.
    TaskStopLatched = 10018 "STOP_LATCHED",
    /// The task lacks a permission.
    PermissionDenied = 10019 "PERMISSION_DENIED",
    /// No task of this id.
    TaskNotFound = 10020 "TASK_NOT_FOUND",
    /// No request of this id.
    RequestNotFound = 10021 "REQUEST_NOT_FOUND",
    /// The request takes no answers any more.
    RequestClosed = 10022 "REQUEST_CLOSED",
    /// The answer is none of the options.
    InvalidAnswer = 10023 "INVALID_ANSWER",
    /// The planner failed.
    PlannerFailure = 10024 "PLANNER_FAILURE",
    /// The node is shutting down.
    TaskShuttingDown = 10025 "SHUTTING_DOWN",
    /// The log can't be written.
    TaskStorageFailure = 10026 "STORAGE_FAILURE",
    /// Canceled by the caller.
    TaskCanceled = 10027 "CANCELED",
    // ExecuteSkill: 10100 to 10199.
    /// The command is malformed.
    InvalidCommand = 10100 "INVALID_COMMAND",
    /// The executor has no such skill.
    UnknownSkill = 10101 "UNKNOWN_SKILL",
    /// The arguments do not pass the schema or the body's limits.
    InvalidArguments = 10102 "INVALID_ARGUMENTS",
    /// The command is for another robot.
    WrongRobot = 10103 "WRONG_ROBOT",
    /// The id is known with another digest.
    CommandIdConflict = 10104 "COMMAND_ID_CONFLICT",
    /// Too late to start.
    ExpiredCommand = 10105 "EXPIRED_COMMAND",
    /// The fencing token is older than the newest seen.
    OldToken = 10106 "OLD_TOKEN",
    /// Nobody holds the lease.
    ExecutorNoLease = 10107 "NO_LEASE",
    /// A resource is held by another command or goal.
    ResourceBusy = 10108 "RESOURCE_BUSY",
    /// The world has changed since planning.
    StalePrecondition = 10109 "STALE_PRECONDITION",
    /// The command carries no beacon of this executor.
    NoBeacon = 10110 "NO_BEACON",
    /// The digest is not that of the command.
    DigestMismatch = 10111 "DIGEST_MISMATCH",
    /// The journal can't be written.
    StorageFailure = 10112 "STORAGE_FAILURE",
    /// A stop is latched.
    StopLatched = 10113 "STOP_LATCHED",
    /// The foreign action server is absent.
    ServerUnavailable = 10114 "SERVER_UNAVAILABLE",
    /// The node is shutting down.
    ShuttingDown = 10115 "SHUTTING_DOWN",
    /// No command of this id.
    CommandNotFound = 10120 "COMMAND_NOT_FOUND",
    /// The command can't be settled in its state.
    NotSettleable = 10121 "NOT_SETTLEABLE",
    /// The request to settle is malformed.
    InvalidSettle = 10122 "INVALID_REQUEST",
    /// Control took longer than allowed.
    ExecutionTimeout = 10130 "EXECUTION_TIMEOUT",
    /// Canceled.
    Canceled = 10131 "CANCELED",
    /// Standstill was not measured in time.
    StopUnconfirmed = 10132 "STOP_UNCONFIRMED",
    /// A foreign goal displaced ours.
    Preempted = 10133 "PREEMPTED",
    /// The result of a goal can't be had.
    ResultLost = 10134 "RESULT_LOST",
    /// The acknowledgement of a goal can't be had.
    AcknowledgementLost = 10135 "ACKNOWLEDGEMENT_LOST",
    /// A transform is missing or too old.
    TransformUnavailable = 10136 "TRANSFORM_UNAVAILABLE",
    // Navigation: 10200 to 10299.
    /// Navigation failed.
    NavigationFailed = 10200 "NAVIGATION_FAILED",
    /// There is no path.
    NoValidPath = 10201 "NO_VALID_PATH",
    /// The goal is occupied.
    GoalOccupied = 10202 "GOAL_OCCUPIED",
    /// The robot does not get on.
    NoProgress = 10203 "NO_PROGRESS",
    /// The navigation server refused the goal.
    NavigationRejected = 10204 "NAVIGATION_REJECTED",
    // Manipulation: 10300 to 10399.
    /// Manipulation failed.
    ManipulationFailed = 10300 "MANIPULATION_FAILED",
    /// The target is out of reach.
    OutOfReach = 10301 "OUT_OF_REACH",
    /// The motion would collide.
    InCollision = 10302 "IN_COLLISION",
    /// The arm's planner found nothing.
    ArmNoPlan = 10303 "NO_PLAN",
    /// The arm's server refused the goal.
    ManipulationRejected = 10304 "MANIPULATION_REJECTED",
    /// The gripper failed.
    GripperFailed = 10305 "GRIPPER_FAILED",
    /// The head failed.
    HeadFailed = 10306 "HEAD_FAILED",
    // EvaluateRun: 10400 to 10499.
    /// The evaluator has seen no such run.
    RunNotFound = 10400 "RUN_NOT_FOUND",
    /// The run has not ended.
    RunNotEnded = 10401 "RUN_NOT_ENDED",
    /// The evaluator has no descriptor of the skill.
    EvaluatorUnknownSkill = 10402 "UNKNOWN_SKILL",
    /// The post-condition can't be read.
    InvalidPostcondition = 10403 "INVALID_POSTCONDITION",
    /// The request is malformed.
    EvaluatorInvalidRequest = 10404 "INVALID_REQUEST",
    /// Canceled by the caller.
    EvaluationCanceled = 10405 "CANCELED",
    // Scene graph: 10500 to 10599.
    /// The request is malformed.
    SceneInvalidRequest = 10500 "INVALID_REQUEST",
    /// No object of this ref.
    RefNotFound = 10501 "REF_NOT_FOUND",
    /// The world has changed since planning.
    SceneStalePrecondition = 10502 "STALE_PRECONDITION",
    /// A predicate does not hold.
    PredicateNotMet = 10503 "PREDICATE_NOT_MET",
    /// Effects need a SUCCESS verdict.
    VerdictNotSuccess = 10504 "VERDICT_NOT_SUCCESS",
    /// The run's effects were applied before.
    AlreadyApplied = 10505 "ALREADY_APPLIED",
    // Protection and lease: 10600 to 10699.
    /// Another controller holds the lease.
    LeaseHeld = 10600 "LEASE_HELD",
    /// The caller does not hold the lease.
    LeaseNotHeld = 10601 "LEASE_NOT_HELD",
    /// The request is malformed.
    ProtectionInvalidRequest = 10602 "INVALID_REQUEST",
    /// The token can't be made durable.
    LeaseStorageFailure = 10603 "STORAGE_FAILURE",
    /// No stop is latched.
    NotLatched = 10610 "NOT_LATCHED",
    /// The robot is not known to stand still.
    NotStanding = 10611 "NOT_STANDING",
    // Simulated robot: 10700 to 10799.
    /// No fault of this name.
    UnknownFault = 10700 "UNKNOWN_FAULT",
    /// The request is malformed.
    SimInvalidRequest = 10701 "INVALID_REQUEST",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unique_and_come_back() {
        let mut numbers: Vec<u16> = ErrorCode::ALL.iter().map(|c| c.code()).collect();
        for c in ErrorCode::ALL {
            assert_eq!(ErrorCode::from_code(c.code()), Some(*c));
        }
        numbers.dedup();
        assert_eq!(numbers.len(), ErrorCode::ALL.len());
        assert_eq!(ErrorCode::from_code(3), None);
    }
}

//! Where a command is, beside its record: what is waited for and until when. Nothing of it is durable.

use std::time::Duration;

use eh_contract::Stamp;
use eh_ledger::admission::Admitted;
use eh_ledger::executor::{GoalId, StopCause};
use eh_skills::program::HeldChange;
use eh_skills::{SkillProgram, SubGoalOutcome};

use crate::event::Arrival;
use crate::native_end::NativeEnd;
use crate::server::Server;
use crate::timing::Every;

/// Where a command is. All times are on the budget clock.
pub(crate) enum Phase {
    /// RECEIVED: the scene graph was asked.
    CheckingScene(Box<CheckingScene>),
    /// ACCEPTED: its servers are waited for.
    Starting(Box<Starting>),
    /// STARTED.
    Running(Box<Run>, Doing),
    /// CANCELING.
    Stopping(Box<Stopping>),
    /// STARTED or CANCELING in an earlier life: its servers are waited for.
    Recovering {
        /// Until then.
        until: Duration,
        /// Why it is stopped.
        cause: StopCause,
    },
    /// Nothing is left to be done here until it is settled.
    Over,
}

pub(crate) struct CheckingScene {
    pub(crate) arrival: Arrival,
    pub(crate) until: Duration,
}

pub(crate) struct Starting {
    pub(crate) admitted: Admitted,
    /// How long its servers are waited for.
    pub(crate) until: Duration,
    /// How long what streams is waited for; without it the program tells what it misses.
    pub(crate) awake_until: Duration,
}

pub(crate) struct Run {
    pub(crate) program: Box<dyn SkillProgram>,
    /// What was written down last about what is held.
    pub(crate) remembered: HeldChange,
    pub(crate) timeout: Duration,
    /// When it is used up.
    pub(crate) until: Duration,
}

/// What a running program waits for.
pub(crate) enum Doing {
    Pursuing(Pursuit),
    Waiting { since: Duration, duration: Duration },
    Observing(Observation),
    ChangingScene(SceneChange),
}

/// A goal that was given to a server.
pub(crate) struct Pursuit {
    pub(crate) server: Server,
    pub(crate) action: String,
    pub(crate) goal_id: GoalId,
    pub(crate) name: String,
    pub(crate) stage: PursuitStage,
    /// It only adds to what is seen; `None`: the program can't do without it.
    pub(crate) glance: Option<Glance>,
}

/// A goal whose failure undoes nothing.
pub(crate) struct Glance {
    /// It is called off then.
    pub(crate) until: Duration,
    pub(crate) cancel: Every,
}

pub(crate) enum PursuitStage {
    /// Its acknowledgement is waited for.
    Acknowledgement { until: Duration },
    /// It did not come: does the server know the goal?
    AskingAbout { until: Duration, ask: Every },
    /// It was taken.
    End(Awaiting),
}

/// What is known of a goal that runs.
pub(crate) struct Awaiting {
    /// A result was asked for and the server has not said that it does not know the goal.
    pub(crate) asked: bool,
    pub(crate) look: Every,
    pub(crate) ask: Every,
    /// Nobody seems to work on it since then.
    pub(crate) silent_since: Option<Duration>,
    /// The longest way that was left \[m\].
    pub(crate) whole_way: Option<f64>,
}

pub(crate) struct Observation {
    pub(crate) class_name: String,
    pub(crate) frames: usize,
    /// Frames from then on count.
    pub(crate) since: Stamp,
    pub(crate) until: Duration,
    pub(crate) look: Every,
}

pub(crate) struct SceneChange {
    pub(crate) name: String,
    pub(crate) until: Duration,
}

/// A command on its way to standstill.
pub(crate) struct Stopping {
    pub(crate) since: Duration,
    pub(crate) limit: Duration,
    pub(crate) cause: StopCause,
    /// `None` after a restart, and where there was none yet.
    pub(crate) run: Option<Box<Run>>,
    /// How the last goal ended, if it was reached.
    pub(crate) reached: Option<SubGoalOutcome>,
    pub(crate) stage: StopStage,
}

pub(crate) enum StopStage {
    /// Goals are asked to cancel and for their results.
    EndingGoals(Ending),
    /// The last goal had been reached: the planning scene is told, then it is completed.
    Finishing(SceneChange),
    /// Nothing is left in the planning scene that would be in the way of the next skill.
    Tidying(SceneChange),
    /// Standstill is measured.
    Measuring { since: Duration },
}

/// The goal that is being ended.
pub(crate) struct Ending {
    pub(crate) goal_id: Option<GoalId>,
    pub(crate) cancel: Every,
    pub(crate) ask: Every,
    /// When its result was asked for and no answer came yet.
    pub(crate) asked_at: Option<Duration>,
    pub(crate) unknown_answers: u32,
}

/// What happens to one command.
pub(crate) enum Happening {
    /// Time has passed, or it is asked to stop.
    Look,
    SceneChecked(eh_ledger::admission::SceneCheck),
    Acknowledged {
        goal_id: GoalId,
        accepted: bool,
    },
    NotSent {
        goal_id: GoalId,
        reason: String,
    },
    Ended {
        goal_id: GoalId,
        end: NativeEnd,
    },
    Unknown {
        goal_id: GoalId,
    },
    SceneChanged {
        name: String,
        result: Result<(), String>,
    },
}

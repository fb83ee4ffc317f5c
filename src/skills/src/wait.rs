//! Doing nothing for a while.

use std::time::Duration;

use eh_contract::error_code::ErrorCode;
use serde_json::{Map, Value};

use crate::program::{Context, Failure, SkillProgram, Step};
use crate::sub_goal::{Goal, SubGoalOutcome};

pub(crate) struct Wait {
    duration: Duration,
}

impl Wait {
    pub(crate) fn new(arguments: &Map<String, Value>) -> Result<Self, Failure> {
        let given = arguments.get("duration").and_then(Value::as_f64);
        given
            .and_then(|s| Duration::try_from_secs_f64(s).ok())
            .map(|duration| Wait { duration })
            .ok_or_else(|| {
                Failure::new(
                    ErrorCode::InvalidArguments,
                    format!("the argument duration is {given:?}; give a number of seconds of at least 0"),
                )
            })
    }
}

impl SkillProgram for Wait {
    fn next(&mut self, _: &Context<'_>, last: Option<&SubGoalOutcome>) -> Step {
        match last {
            None => Step::Goal {
                name: "wait".into(),
                goal: Goal::Wait(self.duration),
            },
            Some(_) => Step::Completed,
        }
    }

    fn progress(&self) -> Option<f64> {
        None
    }
}

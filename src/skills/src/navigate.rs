//! Driving to something, and driving to a pose.

use eh_contract::command::TargetBinding;
use eh_contract::error_code::ErrorCode;
use eh_contract::geometry::Pose;
use serde_json::{Map, Value};

use crate::native_code::{self, NextMove};
use crate::program::{no_transform, numbered, Context, Failure, SkillProgram, Step};
use crate::stand_off;
use crate::sub_goal::{Goal, SubGoalOutcome};

/// Drives to the best place to stand; the next one when the navigation server refuses a place.
pub(crate) struct NavigateTo {
    target: TargetBinding,
    places: Option<Vec<Pose>>,
    tried: usize,
}

impl NavigateTo {
    pub(crate) fn new(target: TargetBinding) -> Self {
        NavigateTo {
            target,
            places: None,
            tried: 0,
        }
    }
}

impl SkillProgram for NavigateTo {
    fn next(&mut self, context: &Context<'_>, last: Option<&SubGoalOutcome>) -> Step {
        let mut reason = None;
        if let Some(outcome) = last {
            match navigation_outcome(outcome) {
                None => return Step::Completed,
                Some((failure, NextMove::GiveUp)) => return Step::Failed(failure),
                Some((failure, NextMove::TryAnother)) => reason = Some(failure),
            }
        }
        if self.places.is_none() {
            if context.base_in_map.is_none() {
                return no_transform(context.body);
            }
            self.places = Some(stand_off::candidates(&self.target, context));
        }
        let places = self.places.as_deref().unwrap_or_default();
        let Some(pose) = places.get(self.tried).copied() else {
            let tried = places.len();
            return Step::Failed(match reason {
                Some(failure) => Failure::new(
                    failure.code,
                    format!(
                        "none of {tried} places to stand at {} can be reached; the last one: {}",
                        self.target.r#ref, failure.message
                    ),
                ),
                None => Failure::new(
                    ErrorCode::GoalOccupied,
                    format!(
                        "there is no place to stand at {}; check its pose and size in the scene",
                        self.target.r#ref
                    ),
                ),
            });
        };
        let name = numbered("drive", self.tried);
        self.tried += 1;
        Step::Goal {
            name,
            goal: Goal::Navigate {
                frame_id: self.target.frame_id.clone(),
                pose,
            },
        }
    }

    fn progress(&self) -> Option<f64> {
        // The path's share is what the navigation server says.
        None
    }
}

/// Drives to a pose.
pub(crate) struct NavigateToPose {
    frame_id: String,
    pose: Pose,
}

impl NavigateToPose {
    pub(crate) fn new(arguments: &Map<String, Value>) -> Result<Self, Failure> {
        let invalid = |m: String| Failure::new(ErrorCode::InvalidArguments, m);
        let given = arguments
            .get("pose")
            .and_then(Value::as_object)
            .ok_or_else(|| {
                invalid("the argument pose is missing; give frame_id, x, y and yaw".into())
            })?;
        let number = |name: &str| {
            given
                .get(name)
                .and_then(Value::as_f64)
                .ok_or_else(|| invalid(format!("pose.{name} is no number; give it in m or rad")))
        };
        let pose = Pose::planar(number("x")?, number("y")?, number("yaw")?);
        pose.check("pose").map_err(|e| invalid(e.to_string()))?;
        let frame_id = given
            .get("frame_id")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_string();
        Ok(NavigateToPose { frame_id, pose })
    }
}

impl SkillProgram for NavigateToPose {
    fn next(&mut self, context: &Context<'_>, last: Option<&SubGoalOutcome>) -> Step {
        match last.map(navigation_outcome) {
            Some(None) => Step::Completed,
            Some(Some((failure, _))) => Step::Failed(failure),
            None => Step::Goal {
                name: "drive".into(),
                goal: Goal::Navigate {
                    frame_id: if self.frame_id.is_empty() {
                        context.body.map_frame.clone()
                    } else {
                        self.frame_id.clone()
                    },
                    pose: self.pose,
                },
            },
        }
    }

    fn progress(&self) -> Option<f64> {
        None
    }
}

/// `None` for success.
fn navigation_outcome(outcome: &SubGoalOutcome) -> Option<(Failure, NextMove)> {
    match outcome {
        SubGoalOutcome::Succeeded | SubGoalOutcome::Gripper(_) | SubGoalOutcome::Observed(_) => {
            None
        }
        SubGoalOutcome::Rejected { message } => Some((
            Failure::new(
                ErrorCode::NavigationRejected,
                format!("the navigation server refused the goal ({message}); see its log"),
            ),
            NextMove::GiveUp,
        )),
        SubGoalOutcome::Aborted { code, message } => {
            let (ours, next) = native_code::navigation(*code);
            let what = match ours {
                ErrorCode::GoalOccupied => "the place is occupied or outside the map",
                ErrorCode::NoValidPath => "no path leads there",
                ErrorCode::NoProgress => "the base does not get on",
                ErrorCode::TransformUnavailable => "a transform is missing",
                _ => "navigation gave up",
            };
            Some((
                Failure::new(
                    ours,
                    format!("{what} (Nav2 error_code {code}: {message}); look again, clear the way or choose another place"),
                ),
                next,
            ))
        }
    }
}

//! Driving to something, and driving to a pose.

use std::time::Duration;

use eh_contract::command::TargetBinding;
use eh_contract::error_code::ErrorCode;
use eh_contract::geometry::Pose;
use eh_contract::scene::Kind;
use serde_json::{Map, Value};

use crate::look;
use crate::native_code::{self, NextMove};
use crate::program::{no_transform, numbered, Context, Failure, SkillProgram, Step};
use crate::stand_off;
use crate::sub_goal::{Goal, SubGoalOutcome};

/// Places that are given up without progress before the drive is: what holds the base on the way to two
/// places will hold it on the way to the next.
const MAX_STUCK: usize = 2;

/// How much longer than a turn of the head takes its end is waited for after a drive.
const GLANCE_SLACK: Duration = Duration::from_secs(1);

/// Drives to the best place to stand; the next one when the navigation server refuses a place. There it looks at
/// the target, where there is a head: who judges the drive has to see whether the target is still there.
pub(crate) struct NavigateTo {
    target: TargetBinding,
    places: Option<Vec<Pose>>,
    tried: usize,
    stuck: usize,
    /// Why the best place was refused; the others are only next best.
    first: Option<Failure>,
    /// The drive is over, and this long the look at the target may take.
    glance: Option<Duration>,
}

impl NavigateTo {
    pub(crate) fn new(target: TargetBinding) -> Self {
        NavigateTo {
            target,
            places: None,
            tried: 0,
            stuck: 0,
            first: None,
            glance: None,
        }
    }

    /// What is left to do at the end of the drive. A room or a place is nothing to look at.
    fn look(&mut self, context: &Context<'_>) -> Step {
        let base = context.base_in_map.filter(|_| context.head);
        let (Some(base), false) = (base, is_ground(self.target.kind)) else {
            return Step::Completed;
        };
        let eye = base.position.z + context.body.neck.z;
        let at = look::in_base(&base, look::aim(&self.target, eye));
        match look::turn_to(&self.target.r#ref, at, context.body) {
            Ok(goal) => {
                let turn = Duration::try_from_secs_f64(context.body.head_turn_time);
                self.glance = Some(turn.unwrap_or_default().saturating_add(GLANCE_SLACK));
                Step::Goal {
                    name: "look_at_target".into(),
                    goal,
                }
            }
            // The head can't turn there: less is seen, nothing is undone.
            Err(_) => Step::Completed,
        }
    }
}

/// What has a place on the floor and nothing to be seen.
const fn is_ground(kind: Kind) -> bool {
    match kind {
        Kind::Unspecified | Kind::Building | Kind::Floor | Kind::Room | Kind::Place => true,
        Kind::Surface
        | Kind::Container
        | Kind::Object
        | Kind::Person
        | Kind::Robot
        | Kind::Door => false,
    }
}

impl SkillProgram for NavigateTo {
    fn next(&mut self, context: &Context<'_>, last: Option<&SubGoalOutcome>) -> Step {
        if self.glance.is_some() {
            return Step::Completed;
        }
        if let Some(outcome) = last {
            match navigation_outcome(outcome) {
                None => return self.look(context),
                Some((failure, NextMove::GiveUp)) => return Step::Failed(failure),
                Some((failure, NextMove::TryAnother)) => {
                    if failure.code == ErrorCode::NoProgress {
                        self.stuck += 1;
                        if self.stuck >= MAX_STUCK {
                            return Step::Failed(failure);
                        }
                    }
                    self.first.get_or_insert(failure);
                }
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
            let name = &self.target.r#ref;
            return Step::Failed(match self.first.take() {
                Some(failure) if tried == 1 => Failure::new(
                    failure.code,
                    format!("{name} can't be reached: {}", failure.message),
                ),
                Some(failure) => Failure::new(
                    failure.code,
                    format!(
                        "none of {tried} places to stand at {name} can be reached; the best one: {}",
                        failure.message
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

    fn glance(&self) -> Option<Duration> {
        self.glance
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
                ErrorCode::NoProgress => "the base does not get on: something is in its way, or the protection holds it (see protection_state)",
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embodiment::Embodiment;
    use eh_contract::geometry::Vec3;
    use eh_contract::Stamp;

    fn target(kind: Kind) -> TargetBinding {
        let mut pose = Pose::planar(3.0, 0.0, 0.0);
        pose.position.z = 0.4;
        TargetBinding {
            argument: "target".into(),
            r#ref: "table_1".into(),
            class_name: "table".into(),
            kind,
            version: 1,
            frame_id: "map".into(),
            pose,
            size: Vec3::new(1.0, 1.0, 0.8),
            last_seen: Stamp(1),
            support: None,
        }
    }

    /// What comes after a drive that ended at this heading \[rad\], 1 m from the target's edge.
    fn after_the_drive(kind: Kind, head: bool, yaw: f64) -> (NavigateTo, Step) {
        let body = Embodiment::default();
        let context = |x: f64, yaw: f64| Context {
            base_in_map: Some(Pose::planar(x, 0.0, yaw)),
            head,
            ..Context::of(&body)
        };
        let mut drive = NavigateTo::new(target(kind));
        let first = drive.next(&context(0.0, 0.0), None);
        assert!(matches!(
            first,
            Step::Goal {
                goal: Goal::Navigate { .. },
                ..
            }
        ));
        assert_eq!(drive.glance(), None);
        let step = drive.next(&context(1.5, yaw), Some(&SubGoalOutcome::Succeeded));
        (drive, step)
    }

    #[test]
    fn a_drive_ends_with_a_look_at_its_target_however_that_ends() {
        let body = Embodiment::default();
        for kind in [
            Kind::Object,
            Kind::Surface,
            Kind::Container,
            Kind::Person,
            Kind::Door,
        ] {
            for end in [
                SubGoalOutcome::Succeeded,
                SubGoalOutcome::Rejected {
                    message: "no".into(),
                },
                SubGoalOutcome::Aborted {
                    code: -5,
                    message: "no".into(),
                },
            ] {
                let (mut drive, step) = after_the_drive(kind, true, 0.2);
                let Step::Goal {
                    goal: Goal::Head { pan, .. },
                    ..
                } = step
                else {
                    panic!("{kind:?}: {step:?}");
                };
                // Turned by 0.2 rad to the left and 1.5 m away, with the neck 0.08 m behind the base's middle.
                assert!((-0.25..-0.15).contains(&pan), "{pan}");
                let limit = drive.glance().unwrap();
                assert!(limit > Duration::from_secs_f64(body.head_turn_time));
                assert_eq!(drive.next(&Context::of(&body), Some(&end)), Step::Completed);
            }
        }
    }

    #[test]
    fn without_a_head_or_anything_to_look_at_a_drive_just_ends() {
        for (kind, head, yaw) in [
            (Kind::Object, false, 0.0),
            (Kind::Room, true, 0.0),
            (Kind::Place, true, 0.0),
            // Behind the robot, 3.1 rad away, where the head turns by 2.6.
            (Kind::Object, true, 3.1),
        ] {
            let (drive, step) = after_the_drive(kind, head, yaw);
            assert_eq!(step, Step::Completed, "{kind:?}");
            assert_eq!(drive.glance(), None);
        }
    }

    #[test]
    fn a_base_that_is_held_everywhere_is_not_sent_to_every_place() {
        let body = Embodiment::default();
        let mut drive = NavigateTo::new(target(Kind::Surface));
        let context = Context {
            base_in_map: Some(Pose::default()),
            ..Context::of(&body)
        };
        // 105 is Nav2's FAILED_TO_MAKE_PROGRESS.
        let stuck = SubGoalOutcome::Aborted {
            code: 105,
            message: "no progress".into(),
        };
        assert!(matches!(drive.next(&context, None), Step::Goal { .. }));
        assert!(matches!(
            drive.next(&context, Some(&stuck)),
            Step::Goal { .. }
        ));
        match drive.next(&context, Some(&stuck)) {
            Step::Failed(failure) => assert_eq!(failure.code, ErrorCode::NoProgress),
            other => panic!("{other:?}"),
        }
    }
}

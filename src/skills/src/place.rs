//! Setting down what is held.

use eh_contract::command::TargetBinding;
use eh_contract::error_code::ErrorCode;
use eh_contract::geometry::{Pose, Vec3};
use nalgebra::{Isometry3, Point3, Translation3};

use crate::free_spot;
use crate::grasp::{self, Approach, HeldGrasp};
use crate::gripper;
use crate::native_code::NextMove;
use crate::pick::{arm_failure, named, tool_goal, SLOW};
use crate::program::{no_transform, numbered, Context, Failure, HeldChange, SkillProgram, Step};
use crate::sub_goal::SubGoalOutcome;

/// Height from which it is let go \[m\]: more than the arm's and the detector's errors, less than what
/// breaks a cup.
const DROP: f64 = 0.012;

/// Height above that from which it is lowered \[m\].
const ABOVE: f64 = 0.12;

/// How far the empty gripper moves away \[m\].
const RETREAT: f64 = 0.12;

/// The tool's tolerance when something is held upright \[rad\]: its heading is free, its tilt is not.
const TOLERANCE: [f64; 3] = [0.3, 0.1, 0.1];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Begin,
    Above,
    Lower,
    Open,
    Retreat,
    RetreatFree,
    Carry,
}

/// The tool at one spot, in base_link.
#[derive(Clone, Copy, Debug)]
struct Spot {
    above: Pose,
    release: Pose,
    away: Pose,
}

pub(crate) struct Place {
    object: TargetBinding,
    support: TargetBinding,
    spots: Vec<Spot>,
    tried: usize,
    stage: Stage,
    held: HeldChange,
}

impl Place {
    pub(crate) fn new(object: TargetBinding, support: TargetBinding) -> Self {
        Place {
            object,
            support,
            spots: Vec::new(),
            tried: 0,
            stage: Stage::Begin,
            held: HeldChange::Keep,
        }
    }

    /// How it is held: as this executor grasped it, else as it would have.
    fn grasp(&self, context: &Context<'_>) -> HeldGrasp {
        let size = grasp::known_size(self.object.size);
        match context.held {
            Some(held) if held.object == self.object.r#ref => held.clone(),
            Some(_) | None => HeldGrasp {
                object: self.object.r#ref.clone(),
                approach: Approach::Top,
                above_bottom: size.z - (0.5 * size.z).min(0.5 * context.body.finger_length),
                size,
            },
        }
    }

    fn plan(&mut self, context: &Context<'_>, base: &Pose) {
        let held = self.grasp(context);
        let spots =
            free_spot::candidates(&self.support, &self.object.r#ref, held.size, base, context);
        self.spots = spots
            .into_iter()
            .map(|at| {
                let local = base
                    .isometry()
                    .inverse_transform_point(&Point3::from(at.vector()));
                let heading = grasp::bearing(context.body, Vec3::new(local.x, local.y, local.z));
                let release = Isometry3::from_parts(
                    Translation3::new(local.x, local.y, local.z + held.above_bottom + DROP),
                    grasp::tool_rotation(heading, held.approach.pitch()),
                );
                let up = |height: f64| Translation3::new(0.0, 0.0, height) * release;
                Spot {
                    above: up(ABOVE).into(),
                    release: release.into(),
                    away: match held.approach {
                        Approach::Top => up(RETREAT).into(),
                        Approach::Slanted | Approach::Level => {
                            grasp::behind(&release, RETREAT).into()
                        }
                    },
                }
            })
            .collect();
    }

    fn above(&mut self, context: &Context<'_>, reason: Option<Failure>) -> Step {
        self.stage = Stage::Above;
        match self.spots.get(self.tried) {
            Some(spot) => Step::Goal {
                name: numbered("above", self.tried),
                goal: tool_goal(
                    context,
                    spot.above,
                    TOLERANCE,
                    false,
                    1.0,
                    &self.object.r#ref,
                ),
            },
            None => {
                let tried = self.spots.len();
                Step::Failed(match reason {
                    Some(failure) => Failure::new(
                        failure.code,
                        format!(
                            "none of {tried} free spots on {} works; the last one: {}",
                            self.support.r#ref, failure.message
                        ),
                    ),
                    None => Failure::new(
                        ErrorCode::OutOfReach,
                        format!(
                            "{} has no free spot within the arm's reach of {:.2} m; drive to another side with navigate_to, or clear it",
                            self.support.r#ref, context.body.reach
                        ),
                    ),
                })
            }
        }
    }
}

impl SkillProgram for Place {
    fn next(&mut self, context: &Context<'_>, last: Option<&SubGoalOutcome>) -> Step {
        let (Some(outcome), false) = (last, self.stage == Stage::Begin) else {
            let Some(base) = context.base_in_map else {
                return no_transform(context.body);
            };
            self.plan(context, &base);
            return self.above(context, None);
        };
        let spot = self.spots.get(self.tried).copied();
        match self.stage {
            Stage::Begin | Stage::Above => match (arm_failure(outcome), spot) {
                (None, Some(spot)) => {
                    self.stage = Stage::Lower;
                    Step::Goal {
                        name: numbered("lower", self.tried),
                        goal: tool_goal(
                            context,
                            spot.release,
                            TOLERANCE,
                            true,
                            SLOW,
                            &self.object.r#ref,
                        ),
                    }
                }
                (Some((failure, NextMove::GiveUp)), _) => Step::Failed(failure),
                (failure, _) => {
                    self.tried += 1;
                    self.above(context, failure.map(|(f, _)| f))
                }
            },
            Stage::Lower => match arm_failure(outcome) {
                None => {
                    self.stage = Stage::Open;
                    self.held = HeldChange::Clear;
                    Step::Goal {
                        name: "open".into(),
                        goal: gripper::open_goal(context),
                    }
                }
                Some((failure, NextMove::GiveUp)) => Step::Failed(failure),
                Some((failure, NextMove::TryAnother)) => {
                    self.tried += 1;
                    self.above(context, Some(failure))
                }
            },
            Stage::Open => match (gripper::check(outcome, true, context), spot) {
                (Err(failure), _) => Step::Failed(failure),
                (Ok(()), Some(spot)) => {
                    self.stage = Stage::Retreat;
                    Step::Goal {
                        name: "retreat".into(),
                        goal: tool_goal(
                            context,
                            spot.away,
                            TOLERANCE,
                            true,
                            SLOW,
                            &self.object.r#ref,
                        ),
                    }
                }
                (Ok(()), None) => Step::Completed,
            },
            Stage::Retreat => match arm_failure(outcome) {
                None => {
                    self.stage = Stage::Carry;
                    Step::Goal {
                        name: "carry".into(),
                        goal: named("carry"),
                    }
                }
                Some((failure, NextMove::GiveUp)) => Step::Failed(failure),
                Some((_, NextMove::TryAnother)) => {
                    self.stage = Stage::RetreatFree;
                    Step::Goal {
                        name: "retreat_freely".into(),
                        goal: named("carry"),
                    }
                }
            },
            Stage::RetreatFree | Stage::Carry => match arm_failure(outcome) {
                None => Step::Completed,
                Some((failure, _)) => Step::Failed(failure),
            },
        }
    }

    fn progress(&self) -> Option<f64> {
        // Five sub-goals when the first spot works.
        let done = match self.stage {
            Stage::Begin | Stage::Above => 0.0,
            Stage::Lower => 1.0,
            Stage::Open => 2.0,
            Stage::Retreat | Stage::RetreatFree => 3.0,
            Stage::Carry => 4.0,
        };
        Some(done / 5.0)
    }

    fn held_change(&self) -> HeldChange {
        self.held.clone()
    }
}

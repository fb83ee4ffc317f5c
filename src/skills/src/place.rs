//! Setting down what is held.

use eh_contract::command::TargetBinding;
use eh_contract::error_code::ErrorCode;
use eh_contract::geometry::{Pose, Vec3};
use eh_contract::scene::Kind;
use nalgebra::{Isometry3, Point3, Translation3};

use crate::free_spot;
use crate::grasp::{self, Approach, HeldGrasp};
use crate::gripper;
use crate::native_code::NextMove;
use crate::pick::{arm_failure, in_base, named, tool_goal, SLOW};
use crate::planning_scene::{self, SceneWanted};
use crate::program::{no_transform, numbered, Context, Failure, HeldChange, SkillProgram, Step};
use crate::sub_goal::{Goal, SubGoalOutcome};

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
    /// Scene: what is held is in the gripper, the support is an obstacle.
    Prepare,
    Above,
    /// Scene: what is held may touch the support.
    Allow,
    Lower,
    Open,
    /// Scene: it stands there, and the gripper may still touch it.
    Detach,
    Retreat,
    RetreatFree,
    /// Scene: the gripper may not any more.
    Retreated,
    Carry,
    /// Scene: nothing of ours is left.
    Done,
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
    /// How it was held at the begin.
    grasp: Option<HeldGrasp>,
    /// Where the base stood in the map then.
    base: Pose,
    /// Why the last spot was given up.
    reason: Option<Failure>,
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
            grasp: None,
            base: Pose::default(),
            reason: None,
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
                in_tool: None,
            },
        }
    }

    fn plan(&mut self, context: &Context<'_>, base: &Pose) {
        let held = self.grasp(context);
        self.grasp = Some(held.clone());
        self.base = *base;
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

    /// A step that changes the planning scene, where there is one; else what comes after it.
    fn scene(&mut self, stage: Stage, context: &Context<'_>) -> Step {
        self.stage = stage;
        if !context.planning_scene {
            return self.after_scene(context);
        }
        let body = context.body;
        let name = self.object.r#ref.as_str();
        let held = self.grasp.as_ref();
        let attached = held.map(|held| planning_scene::attached(held, body));
        let spot = self.spots.get(self.tried);
        let support = (self.support.kind == Kind::Surface)
            .then(|| {
                let pose = in_base(&self.support.pose, &self.base);
                let size = self.support.size;
                let top = pose.position.z + 0.5 * size.z;
                planning_scene::support_below(&self.support.r#ref, pose, size, top, body)
            })
            .flatten();
        // Where it stands once it was let go.
        let placed = held.zip(spot).map(|(held, spot)| {
            let tool = Translation3::new(0.0, 0.0, -DROP) * spot.release.isometry();
            let pose = tool * planning_scene::in_tool(held).isometry();
            planning_scene::boxed(name, pose.into(), held.size, body)
        });
        let (what, wanted) = match stage {
            Stage::Allow => (
                "allow_contact",
                SceneWanted {
                    contacts: planning_scene::standing(name, support.as_ref()),
                    world: support.into_iter().collect(),
                    attached,
                },
            ),
            Stage::Detach => (
                "detach",
                SceneWanted {
                    world: support.into_iter().chain(placed).collect(),
                    contacts: planning_scene::grip(name, body),
                    ..SceneWanted::default()
                },
            ),
            Stage::Retreated => (
                "forbid_contact",
                SceneWanted {
                    world: support.into_iter().chain(placed).collect(),
                    ..SceneWanted::default()
                },
            ),
            Stage::Done => ("tidy_scene", SceneWanted::default()),
            _ => (
                "prepare_scene",
                SceneWanted {
                    world: support.into_iter().collect(),
                    attached,
                    ..SceneWanted::default()
                },
            ),
        };
        Step::Goal {
            name: numbered(what, self.tried),
            goal: Goal::Scene(wanted),
        }
    }

    /// What comes after a change of the scene.
    fn after_scene(&mut self, context: &Context<'_>) -> Step {
        let spot = self.spots.get(self.tried).copied();
        let (stage, name, goal) = match (self.stage, spot) {
            (Stage::Allow, Some(spot)) => (
                Stage::Lower,
                numbered("lower", self.tried),
                self.tool(context, spot.release),
            ),
            (Stage::Detach, Some(spot)) => (
                Stage::Retreat,
                "retreat".into(),
                self.tool(context, spot.away),
            ),
            (Stage::Retreated, _) => (Stage::Carry, "carry".into(), named("carry")),
            (Stage::Done | Stage::Detach, _) => return Step::Completed,
            _ => return self.above(context),
        };
        self.stage = stage;
        Step::Goal { name, goal }
    }

    /// A straight and slow motion near the support.
    fn tool(&self, context: &Context<'_>, pose: Pose) -> Goal {
        tool_goal(context, pose, TOLERANCE, true, SLOW, &self.object.r#ref)
    }

    fn above(&mut self, context: &Context<'_>) -> Step {
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
                Step::Failed(match self.reason.take() {
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
            if self.spots.is_empty() {
                return self.above(context);
            }
            return self.scene(Stage::Prepare, context);
        };
        match self.stage {
            Stage::Prepare | Stage::Allow | Stage::Detach => {
                match planning_scene::scene_failure(outcome) {
                    Some(failure) => Step::Failed(failure),
                    None => self.after_scene(context),
                }
            }
            // It stands there: a scene that is not as it should be is put right by the next skill.
            Stage::Retreated | Stage::Done => self.after_scene(context),
            Stage::Begin | Stage::Above => match arm_failure(outcome) {
                None => self.scene(Stage::Allow, context),
                Some((failure, NextMove::GiveUp)) => Step::Failed(failure),
                Some((failure, NextMove::TryAnother)) => {
                    self.tried += 1;
                    self.reason = Some(failure);
                    self.above(context)
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
                    self.reason = Some(failure);
                    if self.tried < self.spots.len() {
                        self.scene(Stage::Prepare, context)
                    } else {
                        self.above(context)
                    }
                }
            },
            Stage::Open => match gripper::check(outcome, true, context) {
                Err(failure) => Step::Failed(failure),
                Ok(()) => self.scene(Stage::Detach, context),
            },
            Stage::Retreat => match arm_failure(outcome) {
                None => self.scene(Stage::Retreated, context),
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
                None => self.scene(Stage::Done, context),
                Some((failure, _)) => Step::Failed(failure),
            },
        }
    }

    fn progress(&self) -> Option<f64> {
        // Five sub-goals when the first spot works, changes of the scene not counted.
        let done = match self.stage {
            Stage::Begin | Stage::Prepare | Stage::Above => 0.0,
            Stage::Allow | Stage::Lower => 1.0,
            Stage::Open => 2.0,
            Stage::Detach | Stage::Retreat | Stage::RetreatFree => 3.0,
            Stage::Retreated | Stage::Carry => 4.0,
            Stage::Done => 5.0,
        };
        Some(done / 5.0)
    }

    fn scene_at_a_failure(&self, context: &Context<'_>) -> Option<SceneWanted> {
        (self.stage != Stage::Begin).then(|| planning_scene::at_rest(context))
    }

    fn held_change(&self) -> HeldChange {
        self.held.clone()
    }
}

//! Grasping and lifting an object.

use eh_contract::command::TargetBinding;
use eh_contract::error_code::ErrorCode;
use eh_contract::geometry::Pose;

use crate::fingers::{self, Fingers, Hand};
use crate::grasp::{self, Grasp, HeldGrasp, NoGrasp};
use crate::gripper;
use crate::look;
use crate::native_code::{self, NextMove};
use crate::planning_scene::{self, SceneBox, SceneWanted};
use crate::program::{no_transform, numbered, Context, Failure, HeldChange, SkillProgram, Step};
use crate::sight;
use crate::sub_goal::{ArmTarget, Goal, SubGoalOutcome};

/// How far the tool may be off its place \[m\]; a gripper's fingers forgive that much.
pub(crate) const POSITION_TOLERANCE: f64 = 0.005;

/// Share of full speed near objects.
pub(crate) const SLOW: f64 = 0.5;

/// From this height of the grasp above the shoulder on \[m\] the carrying configuration, which is folded,
/// might be lower than the grasp: the object is then drawn back at the height of the lift instead.
const HIGH_GRASP: f64 = 0.2;

/// How far outside the base's circle the tool is when it was drawn back \[m\].
const DRAWN_BACK: f64 = 0.12;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Begin,
    Look,
    Sight,
    Open,
    /// Scene: the object and what it stands on are obstacles.
    Prepare,
    Before,
    /// Scene: the gripper may touch the object.
    Allow,
    Approach,
    Close,
    /// Scene: the object is in the gripper; it may touch what it stands on.
    Attach,
    Lift,
    LiftFree,
    /// Scene: it may not any more.
    Lifted,
    DrawBack,
    Carry,
    /// Scene: only what is held is left.
    Carried,
}

pub(crate) struct Pick {
    object: TargetBinding,
    grasps: Vec<Grasp>,
    tried: usize,
    stage: Stage,
    /// Where the scene says that the object is, in base_link.
    expected: Pose,
    /// Where it was seen, in base_link.
    seen: Pose,
    held: HeldChange,
    /// Why the last grasp was given up.
    reason: Option<Failure>,
    /// It was in the gripper from the start, left there by a run that could not lift it.
    resumed: bool,
}

impl Pick {
    pub(crate) fn new(object: TargetBinding) -> Self {
        Pick {
            object,
            grasps: Vec::new(),
            tried: 0,
            stage: Stage::Begin,
            expected: Pose::default(),
            seen: Pose::default(),
            held: HeldChange::Keep,
            reason: None,
            resumed: false,
        }
    }

    /// The first step: fingers that hold something are never opened here. What is to be picked is lifted,
    /// anything else is a reason to refuse.
    fn begin(&mut self, context: &Context<'_>) -> Step {
        let name = &self.object.r#ref;
        match fingers::hand(context.gripper, context.held, context.body) {
            Hand::Empty => self.look(context),
            Hand::Holds(held) if held.object == *name => {
                let held = held.clone();
                self.resume(&held, context)
            }
            Hand::Holds(held) => Step::Failed(occupied(name, &held.object, context)),
            Hand::Stranger(_) => Step::Failed(occupied(
                name,
                "something that this executor did not grasp",
                context,
            )),
            Hand::Unmeasured(held) => Step::Failed(Failure::new(
                ErrorCode::GripperFailed,
                format!(
                    "{} was grasped last and no state of {} tells whether it is still held, so the fingers are not opened; check the gripper's driver",
                    held.object, context.body.gripper_joint
                ),
            )),
        }
    }

    /// The goal that looks at where the object should be.
    fn look(&mut self, context: &Context<'_>) -> Step {
        let Some(base) = context.base_in_map else {
            return no_transform(context.body);
        };
        self.expected = in_base(&self.object.pose, &base);
        match look::turn_to(&self.object.r#ref, self.expected.position, context.body) {
            Ok(goal) => self.go(Stage::Look, "look", goal),
            Err(failure) => Step::Failed(failure),
        }
    }

    /// Goes on with a grasp that an earlier run made: the lift, from where the tool is.
    fn resume(&mut self, held: &HeldGrasp, context: &Context<'_>) -> Step {
        let Some(tool) = context.tool_in_base else {
            return Step::Failed(Failure::new(
                ErrorCode::TransformUnavailable,
                format!(
                    "{} is in the gripper, and the transform from {} to {} that is needed to lift it is missing or too old; check that robot_state_publisher runs",
                    held.object, context.body.base_frame, context.body.tool_link
                ),
            ));
        };
        self.resumed = true;
        self.held = HeldChange::Take(held.clone());
        self.grasps = vec![Grasp::from_here(held, tool)];
        self.seen = (tool.isometry() * planning_scene::in_tool(held).isometry()).into();
        self.scene(Stage::Attach, context)
    }

    /// A step that changes the planning scene, where there is one; else what comes after it.
    fn scene(&mut self, stage: Stage, context: &Context<'_>) -> Step {
        if !context.planning_scene {
            return self.after_scene(stage, context);
        }
        let body = context.body;
        let name = self.object.r#ref.clone();
        let object = planning_scene::boxed(&name, self.seen, self.object.size, body);
        let support = self.support(context);
        let held = match &self.held {
            HeldChange::Take(held) => Some(planning_scene::attached(held, body)),
            HeldChange::Keep | HeldChange::Clear => None,
        };
        // Fingers that met show that it is not in them: whether that is a failure is the evaluator's to say.
        let lost = context
            .gripper
            .is_some_and(|r| fingers::fingers(&r, body) == Fingers::Closed);
        let (what, wanted) = match stage {
            Stage::Allow => (
                "allow_contact",
                SceneWanted {
                    world: support.into_iter().chain([object]).collect(),
                    contacts: planning_scene::grip(&name, body),
                    ..SceneWanted::default()
                },
            ),
            Stage::Attach => (
                "attach",
                SceneWanted {
                    contacts: planning_scene::standing(&name, support.as_ref()),
                    world: support.into_iter().collect(),
                    attached: held,
                },
            ),
            Stage::Lifted => (
                "forbid_contact",
                SceneWanted {
                    world: support.into_iter().collect(),
                    attached: held.filter(|_| !lost),
                    ..SceneWanted::default()
                },
            ),
            Stage::Carried => (
                "tidy_scene",
                SceneWanted {
                    attached: held.filter(|_| !lost),
                    ..SceneWanted::default()
                },
            ),
            _ => (
                "prepare_scene",
                SceneWanted {
                    world: support.into_iter().chain([object]).collect(),
                    ..SceneWanted::default()
                },
            ),
        };
        self.go(stage, what, Goal::Scene(wanted))
    }

    /// What the object stands on, in base_link.
    fn support(&self, context: &Context<'_>) -> Option<SceneBox> {
        let support = self.object.support.as_ref()?;
        let base = context.base_in_map?;
        let bottom = self.seen.position.z - 0.5 * grasp::known_size(self.object.size).z;
        planning_scene::support_below(
            &support.r#ref,
            in_base(&support.pose, &base),
            support.size,
            bottom,
            context.body,
        )
    }

    /// What comes after a change of the scene.
    fn after_scene(&mut self, stage: Stage, context: &Context<'_>) -> Step {
        match stage {
            Stage::Allow => self.approach(context),
            Stage::Attach => self.lift(context),
            Stage::Lifted => self.carry(context),
            Stage::Carried => Step::Completed,
            _ => self.before(context),
        }
    }

    /// The straight way to the grasp in turn.
    fn approach(&mut self, context: &Context<'_>) -> Step {
        let Some(grasp) = self.current() else {
            return self.before(context);
        };
        let goal = tool_goal(
            context,
            grasp.tool,
            grasp.orientation_tolerance,
            true,
            SLOW,
            &self.object.r#ref,
        );
        self.go(Stage::Approach, "approach", goal)
    }

    /// Closes the fingers. From now on the object may be in them, whatever becomes of this run.
    fn close(&mut self, context: &Context<'_>) -> Step {
        let Some(grasp) = self.current() else {
            return self.before(context);
        };
        self.held = HeldChange::Take(HeldGrasp {
            object: self.object.r#ref.clone(),
            approach: grasp.approach,
            above_bottom: grasp.above_bottom,
            size: grasp::known_size(self.object.size),
            in_tool: Some((grasp.tool.isometry().inverse() * self.seen.isometry()).into()),
        });
        let goal = gripper::close_goal(context);
        self.go(Stage::Close, "close", goal)
    }

    /// The straight lift of the grasp in turn.
    fn lift(&mut self, context: &Context<'_>) -> Step {
        let Some(grasp) = self.current() else {
            return self.before(context);
        };
        let goal = tool_goal(
            context,
            grasp.lifted,
            grasp.orientation_tolerance,
            true,
            SLOW,
            &self.object.r#ref,
        );
        self.go(Stage::Lift, "lift", goal)
    }

    fn go(&mut self, stage: Stage, name: &str, goal: Goal) -> Step {
        self.stage = stage;
        Step::Goal {
            name: numbered(name, self.tried),
            goal,
        }
    }

    /// Chooses the grasps of the object, whose pose is given in base_link, and opens the gripper.
    fn open(&mut self, object: &Pose, context: &Context<'_>) -> Step {
        match grasp::candidates(object, self.object.size, context.body) {
            Ok(grasps) => self.grasps = grasps,
            Err(NoGrasp::TooWide { width }) => {
                return Step::Failed(Failure::new(
                    ErrorCode::ManipulationFailed,
                    format!(
                        "{} is {width:.3} m wide at its narrowest, the gripper opens {:.3} m; it can't be grasped",
                        self.object.r#ref, context.body.gripper_max_width
                    ),
                ));
            }
            Err(NoGrasp::TooFar { distance }) => {
                return Step::Failed(Failure::new(
                    ErrorCode::OutOfReach,
                    format!(
                        "{} is {distance:.2} m from the shoulder, the arm reaches {:.2} m; drive closer with navigate_to",
                        self.object.r#ref, context.body.reach
                    ),
                ));
            }
        }
        self.held = HeldChange::Clear;
        self.seen = *object;
        self.stage = Stage::Open;
        Step::Goal {
            name: "open".into(),
            goal: gripper::open_goal(context),
        }
    }

    /// The goal before the approach of the grasp in turn.
    fn before(&mut self, context: &Context<'_>) -> Step {
        match self.grasps.get(self.tried) {
            Some(grasp) => {
                let goal = tool_goal(
                    context,
                    grasp.before,
                    grasp.orientation_tolerance,
                    false,
                    1.0,
                    "",
                );
                self.go(Stage::Before, "pre_grasp", goal)
            }
            None => {
                let tried = self.grasps.len();
                let (code, last) = self
                    .reason
                    .take()
                    .map_or((ErrorCode::ManipulationFailed, String::new()), |f| {
                        (f.code, f.message)
                    });
                Step::Failed(Failure::new(
                    code,
                    format!(
                        "none of {tried} ways to grasp {} works; the last one: {last}",
                        self.object.r#ref
                    ),
                ))
            }
        }
    }

    /// The goal after the lift: to where the object is carried while the base drives.
    fn carry(&mut self, context: &Context<'_>) -> Step {
        let body = context.body;
        match self.current() {
            Some(grasp) if grasp.tool.position.z > body.shoulder.z + HIGH_GRASP => {
                let mut pose = grasp.lifted;
                let heading = grasp::bearing(body, pose.position);
                let out = body.base_radius + DRAWN_BACK;
                pose.position.x = out * heading.cos();
                pose.position.y = out * heading.sin();
                let goal = tool_goal(
                    context,
                    pose,
                    [3.1, 0.6, 0.3],
                    false,
                    1.0,
                    &self.object.r#ref.clone(),
                );
                self.go(Stage::DrawBack, "draw_back", goal)
            }
            Some(_) | None => self.go(Stage::Carry, "carry", named("carry")),
        }
    }

    fn current(&self) -> Option<Grasp> {
        self.grasps.get(self.tried).cloned()
    }
}

/// The refusal of a pick with something else between the fingers.
fn occupied(wanted: &str, holds: &str, context: &Context<'_>) -> Failure {
    let measured = context.gripper.map_or(String::new(), |r| {
        let effort = r.effort.map_or(String::new(), |e| format!(", {e:.1} N"));
        format!(" (fingers {:.3} m apart{effort})", r.width)
    });
    Failure::new(
        ErrorCode::StalePrecondition,
        format!(
            "the gripper is not empty: it holds {holds}{measured}, which opening it for {wanted} would drop; set it down with place, or let it go with open_gripper"
        ),
    )
}

/// A goal for the tool in base_link, which does not move while the arm does.
pub(crate) fn tool_goal(
    context: &Context<'_>,
    pose: Pose,
    orientation_tolerance: [f64; 3],
    straight: bool,
    speed: f64,
    allowed_contact: &str,
) -> Goal {
    Goal::MoveArm {
        target: ArmTarget::Tool {
            frame_id: context.body.base_frame.clone(),
            pose,
            position_tolerance: POSITION_TOLERANCE,
            orientation_tolerance,
        },
        straight,
        speed,
        allowed_contact: allowed_contact.into(),
    }
}

/// A goal for a named configuration.
pub(crate) fn named(name: &str) -> Goal {
    Goal::MoveArm {
        target: ArmTarget::Named(name.into()),
        straight: false,
        speed: 1.0,
        allowed_contact: String::new(),
    }
}

/// `None` for success.
pub(crate) fn arm_failure(outcome: &SubGoalOutcome) -> Option<(Failure, NextMove)> {
    match outcome {
        SubGoalOutcome::Succeeded | SubGoalOutcome::Gripper(_) | SubGoalOutcome::Observed(_) => {
            None
        }
        SubGoalOutcome::Rejected { message } => Some((
            Failure::new(
                ErrorCode::ManipulationRejected,
                format!("the arm's server refused the goal ({message}); see its log"),
            ),
            NextMove::GiveUp,
        )),
        SubGoalOutcome::Aborted { code, message } => {
            let (ours, next) = native_code::arm(*code);
            let what = match ours {
                ErrorCode::OutOfReach => "the arm can't reach it; drive closer",
                ErrorCode::InCollision => "the arm would touch something; drive to another side",
                ErrorCode::ArmNoPlan => "no motion of the arm was found; drive to another place",
                ErrorCode::TransformUnavailable => "a transform is missing; check tf",
                ErrorCode::Preempted => "another goal took the arm; find out who commands it",
                _ => "the arm gave up; see its log",
            };
            Some((
                Failure::new(ours, format!("{what} (MoveItErrorCodes {code}: {message})")),
                next,
            ))
        }
    }
}

/// The object's pose in base_link.
pub(crate) fn in_base(pose: &Pose, base_in_map: &Pose) -> Pose {
    (base_in_map.isometry().inverse() * pose.isometry()).into()
}

impl SkillProgram for Pick {
    fn next(&mut self, context: &Context<'_>, last: Option<&SubGoalOutcome>) -> Step {
        if let (Stage::Begin, _) | (_, None) = (self.stage, last) {
            return self.begin(context);
        }
        let Some(outcome) = last else {
            // Answered above.
            return no_transform(context.body);
        };
        match self.stage {
            Stage::Look => match look::head_failure(outcome) {
                Some(failure) => Step::Failed(failure),
                None => {
                    let goal = sight::observe(&self.object.class_name);
                    self.go(Stage::Sight, "sight", goal)
                }
            },
            Stage::Sight => {
                let frames = match outcome {
                    SubGoalOutcome::Observed(frames) => frames.as_slice(),
                    SubGoalOutcome::Succeeded
                    | SubGoalOutcome::Gripper(_)
                    | SubGoalOutcome::Rejected { .. }
                    | SubGoalOutcome::Aborted { .. } => &[],
                };
                let (name, class) = (&self.object.r#ref, &self.object.class_name);
                match sight::locate(name, class, &self.expected, frames) {
                    Ok(object) => self.open(&object, context),
                    Err(sight::NotSighted { message }) => {
                        Step::Failed(Failure::new(ErrorCode::StalePrecondition, message))
                    }
                }
            }
            Stage::Begin | Stage::Open => match gripper::check(outcome, true, context) {
                Err(failure) => Step::Failed(failure),
                Ok(()) => self.scene(Stage::Prepare, context),
            },
            Stage::Prepare | Stage::Allow | Stage::Attach => {
                match planning_scene::scene_failure(outcome) {
                    Some(failure) => Step::Failed(failure),
                    None => self.after_scene(self.stage, context),
                }
            }
            // The object is lifted: a scene that is not as it should be is put right by the next skill.
            Stage::Lifted | Stage::Carried => self.after_scene(self.stage, context),
            Stage::Before | Stage::Approach => match arm_failure(outcome) {
                Some((failure, NextMove::GiveUp)) => Step::Failed(failure),
                Some((failure, NextMove::TryAnother)) => {
                    self.tried += 1;
                    self.reason = Some(failure);
                    if self.stage == Stage::Approach && self.tried < self.grasps.len() {
                        // What could not be planned has not moved, so the contact can be forbidden again.
                        self.scene(Stage::Prepare, context)
                    } else {
                        self.before(context)
                    }
                }
                None if self.stage == Stage::Before => self.scene(Stage::Allow, context),
                None => self.close(context),
            },
            Stage::Close => match gripper::check(outcome, false, context) {
                Err(failure) => Step::Failed(failure),
                Ok(()) => self.scene(Stage::Attach, context),
            },
            Stage::Lift => match (arm_failure(outcome), self.current()) {
                (None, _) => self.scene(Stage::Lifted, context),
                // It may have been lifted before, as high as the arm gets.
                (Some((_, NextMove::TryAnother)), _) if self.resumed => {
                    self.scene(Stage::Lifted, context)
                }
                // A line that can't be followed to its end: any motion upwards will do.
                (Some((_, NextMove::TryAnother)), Some(grasp)) => {
                    let goal = tool_goal(
                        context,
                        grasp.lifted,
                        [0.5, 0.5, 0.5],
                        false,
                        SLOW,
                        &self.object.r#ref,
                    );
                    self.go(Stage::LiftFree, "lift_freely", goal)
                }
                (Some((failure, _)), _) => Step::Failed(failure),
            },
            Stage::LiftFree => match arm_failure(outcome) {
                None => self.scene(Stage::Lifted, context),
                Some((failure, _)) => Step::Failed(failure),
            },
            Stage::DrawBack => match arm_failure(outcome) {
                None => self.scene(Stage::Carried, context),
                Some((_, NextMove::TryAnother)) => self.go(Stage::Carry, "carry", named("carry")),
                Some((failure, NextMove::GiveUp)) => Step::Failed(failure),
            },
            Stage::Carry => match arm_failure(outcome) {
                None => self.scene(Stage::Carried, context),
                Some((failure, _)) => Step::Failed(failure),
            },
        }
    }

    fn progress(&self) -> Option<f64> {
        // Eight sub-goals when the first grasp works, changes of the scene not counted.
        let done = match self.stage {
            Stage::Begin | Stage::Look => 0.0,
            Stage::Sight => 1.0,
            Stage::Open => 2.0,
            Stage::Prepare | Stage::Before => 3.0,
            Stage::Allow | Stage::Approach => 4.0,
            Stage::Close => 5.0,
            Stage::Attach | Stage::Lift | Stage::LiftFree => 6.0,
            Stage::Lifted | Stage::DrawBack | Stage::Carry => 7.0,
            Stage::Carried => 8.0,
        };
        Some(done / 8.0)
    }

    fn scene_at_a_failure(&self, context: &Context<'_>) -> Option<SceneWanted> {
        (self.stage != Stage::Begin).then(|| planning_scene::at_rest(context))
    }

    fn held_change(&self) -> HeldChange {
        self.held.clone()
    }
}

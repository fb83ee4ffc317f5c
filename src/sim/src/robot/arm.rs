//! Arm goals.

use std::time::Duration;

use nalgebra::Point3;

use super::{short, ArmTask, Robot};
use crate::arm::{ArmStatus, MotionEnd};
use crate::arm_error_code::ArmErrorCode;
use crate::arm_goal::{ArmGoal, ArmGoalTarget, GROUP, TOOL_LINK};
use crate::arm_kinematics::{forward, named_pose, JOINT_NAMES, NAMED_POSES};
use crate::arm_planner::{plan_motion, ArmFailure, ArmPlan, ArmTarget};
use crate::arm_surroundings::{ArmSurroundings, HeldSphere, TARGET_RADIUS};
use crate::error::SimError;
use crate::fault::{FaultKind, Occasion};
use crate::goal_record::GoalId;
use crate::sim_event::SimEvent;

impl Robot {
    /// Accepts an arm goal; a running one slows to rest first and ends as preempted.
    ///
    /// It is planned when the arm is at rest; what can't be planned ends as aborted with a code.
    ///
    /// # Errors
    /// [`SimError`] when a number is not finite or out of range: the goal is then not accepted.
    pub fn move_arm(&mut self, goal: ArmGoal) -> Result<GoalId, SimError> {
        goal.validate()?;
        let id = self.arm_record.next_id();
        if let Some((waiting, _)) = self.arm_waiting.take() {
            self.end_arm(waiting, ArmStatus::Preempted);
        }
        if let Some(task) = &mut self.arm_task {
            task.ending.get_or_insert(ArmStatus::Preempted);
            self.arm.stop();
        }
        self.arm_waiting = Some((id, goal));
        Ok(id)
    }

    /// Calls an arm goal off; whether it was running. It ends when the arm is at rest.
    pub fn cancel_arm(&mut self, id: GoalId) -> bool {
        if self.arm_waiting.as_ref().is_some_and(|(w, _)| *w == id) {
            self.arm_waiting = None;
            self.end_arm(id, ArmStatus::Canceled);
            return true;
        }
        match &mut self.arm_task {
            Some(task) if task.id == id => {
                task.ending.get_or_insert(ArmStatus::Canceled);
                self.arm.stop();
                true
            }
            _ => false,
        }
    }

    /// How an arm goal stands; none when it is unknown or ended too long ago.
    #[must_use]
    pub fn arm_status(&self, id: GoalId) -> Option<ArmStatus> {
        if self.arm_waiting.as_ref().is_some_and(|(w, _)| *w == id) {
            return Some(ArmStatus::Active { progress: 0.0 });
        }
        match &self.arm_task {
            Some(task) if task.id == id => Some(ArmStatus::Active {
                progress: self.arm.progress(),
            }),
            _ => self.arm_record.get(id),
        }
    }

    /// Plans a goal from where the arm is without moving it.
    ///
    /// # Errors
    /// The MoveIt code and a sentence.
    pub fn plan_arm(&self, goal: &ArmGoal) -> Result<ArmPlan, ArmFailure> {
        goal.validate()
            .map_err(|e| (ArmErrorCode::InvalidGoalConstraints, e.to_string()))?;
        if goal.group != GROUP {
            return Err((
                ArmErrorCode::InvalidGroupName,
                format!("there is no group '{}'; use '{GROUP}'", short(&goal.group)),
            ));
        }
        let target = match &goal.target {
            ArmGoalTarget::Pose {
                frame,
                pose,
                orientation_tolerance,
            } => {
                if goal.link != TOOL_LINK {
                    return Err((
                        ArmErrorCode::InvalidLinkName,
                        format!(
                            "there is no tool link '{}'; use '{TOOL_LINK}'",
                            short(&goal.link)
                        ),
                    ));
                }
                let frame = self
                    .frame_in_base(frame)
                    .map_err(|e| (ArmErrorCode::FrameTransformFailure, e.to_string()))?;
                ArmTarget::Pose {
                    pose: frame * pose,
                    orientation_tolerance: *orientation_tolerance,
                }
            }
            ArmGoalTarget::Joints(named) => {
                let mut q = self.arm.positions();
                if named.is_empty() {
                    return Err((
                        ArmErrorCode::InvalidGoalConstraints,
                        "the goal names no joint".to_owned(),
                    ));
                }
                for (name, value) in named {
                    let slot = JOINT_NAMES.iter().position(|n| n == name);
                    match slot.and_then(|i| q.get_mut(i)) {
                        Some(v) => *v = *value,
                        None => {
                            return Err((
                                ArmErrorCode::InvalidGoalConstraints,
                                format!(
                                    "there is no joint '{}'; use {}",
                                    short(name),
                                    JOINT_NAMES.join(", ")
                                ),
                            ))
                        }
                    }
                }
                ArmTarget::Joints(q)
            }
            ArmGoalTarget::Named(name) => {
                let q = named_pose(name).ok_or_else(|| {
                    (
                        ArmErrorCode::InvalidGoalConstraints,
                        format!(
                            "there is no pose '{}'; use {}",
                            short(name),
                            NAMED_POSES.join(", ")
                        ),
                    )
                })?;
                ArmTarget::Joints(q)
            }
        };
        let start = self.arm.positions();
        let surroundings = self.surroundings(&target);
        plan_motion(
            &start,
            &target,
            goal.path,
            &surroundings,
            &mut self.planner_random.clone(),
        )
    }

    /// What the arm must not touch: everything but what is held and what it is about to grip or has
    /// just let go.
    fn surroundings(&self, target: &ArmTarget) -> ArmSurroundings {
        let base = self.base.pose().to_isometry();
        let mut tips = vec![base * forward(&self.arm.positions()).tcp];
        match target {
            ArmTarget::Pose { pose, .. } => tips.push(base * pose),
            ArmTarget::Joints(q) => tips.push(base * forward(q).tcp),
        }
        let held_index = self.held.as_ref().map(|h| h.index);
        let known = self.known_to_the_scene();
        let ignored: Vec<usize> = self
            .world
            .objects()
            .iter()
            .enumerate()
            .filter(|(i, o)| {
                Some(*i) == held_index
                    || known.contains(i)
                    || tips.iter().any(|t| {
                        o.outline().distance_3d(&Point3::from(t.translation.vector)) < TARGET_RADIUS
                    })
            })
            .map(|(i, _)| i)
            .collect();
        // What is held is checked as what is attached, if it is known to be.
        let unknown = self.held.as_ref().filter(|h| !known.contains(&h.index));
        let held = unknown.and_then(|h| {
            let size = self.world.objects().get(h.index)?.spec.size;
            Some(HeldSphere {
                center: Point3::from(h.in_tcp.translation.vector),
                // The largest sphere inside it, a little smaller: it may rest on a surface.
                radius: 0.4 * size[0].min(size[1]).min(size[2]),
            })
        });
        ArmSurroundings::new(&self.world, base, &ignored, held)
            .with_scene(&self.scene, self.planning_in_base())
    }

    fn end_arm(&mut self, id: GoalId, status: ArmStatus) {
        self.arm_record.end(id, status);
        self.push(SimEvent::ArmEnded(id));
    }

    pub(super) fn step_arm(&mut self, dt: f64) {
        if let Some(task) = &mut self.arm_task {
            if let Some((at, code)) = task.fails_at {
                if self.now >= at && task.ending.is_none() {
                    task.ending = Some(ArmStatus::Aborted {
                        code,
                        message: "the arm's controller stopped the motion".to_owned(),
                    });
                    self.arm.stop();
                }
            }
        }
        if let Some(end) = self.arm.step(dt) {
            if let Some(task) = self.arm_task.take() {
                let status = task.ending.unwrap_or(match end {
                    MotionEnd::Completed => ArmStatus::Succeeded,
                    MotionEnd::Stopped => ArmStatus::Canceled,
                });
                self.end_arm(task.id, status);
            }
        }
        if self.arm_task.is_none() {
            if let Some((id, goal)) = self.arm_waiting.take() {
                self.begin_arm(id, &goal);
            }
        }
    }

    fn begin_arm(&mut self, id: GoalId, goal: &ArmGoal) {
        self.occasion(Occasion::ArmGoal);
        let fault = self.strike(FaultKind::ArmAbort);
        match self.plan_arm(goal) {
            Ok(plan) => {
                let fails_at = fault.map(|f| {
                    (
                        self.now + Duration::from_secs_f64(f.after_s.unwrap_or(0.3)),
                        f.code.unwrap_or(ArmErrorCode::ControlFailed.code()),
                    )
                });
                let scale = if goal.velocity_scale > 0.0 {
                    goal.velocity_scale
                } else {
                    1.0
                };
                self.arm.start(plan, scale);
                self.arm_task = Some(ArmTask {
                    id,
                    ending: None,
                    fails_at,
                });
            }
            Err((code, message)) => self.end_arm(id, ArmStatus::aborted(code, message)),
        }
    }
}

//! Gripper goals, and what the fingers do to objects.

use nalgebra::{Isometry3, Point3};

use super::{Held, Robot};
use crate::error::{finite, within, SimError};
use crate::fault::{FaultKind, Occasion};
use crate::goal_record::GoalId;
use crate::gripper::{between_fingers, GripperState, GripperStatus, FRICTION, MAX_WIDTH};
use crate::sim_event::SimEvent;
use crate::world::Support;

/// Standard gravity, m/s².
const GRAVITY: f64 = 9.80665;
/// How far the fingers open before they let go, metres.
const RELEASE: f64 = 0.003;

impl Robot {
    /// Accepts a gripper goal: distance between the fingers in metres, force in newtons (0: default).
    /// A running one is preempted.
    ///
    /// # Errors
    /// [`SimError`] when a number is not finite or the distance is out of range.
    pub fn move_gripper(&mut self, position: f64, max_effort: f64) -> Result<GoalId, SimError> {
        within("the gripper's position in m", position, 0.0, MAX_WIDTH)?;
        finite("the gripper's effort", max_effort)?;
        self.occasion(Occasion::GripperGoal);
        if let Some(old) = self.gripper_goal.take() {
            let state = self.gripper.state(self.now);
            self.end_gripper(old, GripperStatus::Preempted(state));
        }
        self.gripper.command(position, max_effort);
        let id = self.gripper_record.next_id();
        self.gripper_goal = Some(id);
        Ok(id)
    }

    /// Calls a gripper goal off; whether it was running. The fingers stay.
    pub fn cancel_gripper(&mut self, id: GoalId) -> bool {
        if self.gripper_goal != Some(id) {
            return false;
        }
        self.gripper_goal = None;
        self.gripper.hold();
        let state = self.gripper.state(self.now);
        self.end_gripper(id, GripperStatus::Canceled(state));
        true
    }

    /// How a gripper goal stands; none when it is unknown or ended too long ago.
    #[must_use]
    pub fn gripper_status(&self, id: GoalId) -> Option<GripperStatus> {
        if self.gripper_goal == Some(id) {
            return Some(GripperStatus::Active(self.gripper.state(self.now)));
        }
        self.gripper_record.get(id)
    }

    /// The fingers as they are.
    #[must_use]
    pub fn gripper_state(&self) -> GripperState {
        self.gripper.state(self.now)
    }

    fn end_gripper(&mut self, id: GoalId, status: GripperStatus) {
        self.gripper_record.end(id, status);
        self.push(SimEvent::GripperEnded(id));
    }

    pub(super) fn step_gripper(&mut self, dt: f64) {
        let tcp = self.tcp_in_map();
        self.carry(&tcp);
        let stuck = self.faults.lasting(FaultKind::GripperStuck).is_some();
        let before = self.gripper.width();
        let mut candidate = None;
        if self.held.is_none() && !self.gripper.is_opening() {
            candidate = self.find_between(&tcp, before);
        }
        let obstacle = self
            .held
            .as_ref()
            .map(|h| h.width)
            .or(candidate.as_ref().map(|c| c.width));
        self.gripper.step(dt, self.now, obstacle, stuck);
        if let Some(found) = candidate {
            if self.gripper.width() <= found.width + 1e-9 && self.gripper.effort() > 0.0 {
                self.attach(found, &tcp);
            }
        }
        if self.gripper.width() > before + 1e-12 {
            self.slipped = None;
            let opened = self
                .held
                .as_ref()
                .is_some_and(|h| self.gripper.width() > h.width + RELEASE);
            if opened {
                self.let_go();
            }
        }
        let state = self.gripper.state(self.now);
        if (state.reached_goal && self.gripper.speed() == 0.0) || state.stalled {
            if let Some(id) = self.gripper_goal.take() {
                self.end_gripper(id, GripperStatus::Ended(state));
            }
        }
    }

    /// The object between the fingers that they meet first.
    fn find_between(&self, tcp: &Isometry3<f64>, opening: f64) -> Option<Held> {
        let tip = Point3::from(tcp.translation.vector);
        let mut best: Option<Held> = None;
        for (index, object) in self.world.objects().iter().enumerate() {
            // What another robot holds is out of reach.
            if self.slipped == Some(index)
                || object.support == Support::Gripper
                || (object.pose.translation.vector - tip.coords).norm() > 0.6
            {
                continue;
            }
            if let Some((width, in_tcp)) = between_fingers(tcp, opening, object) {
                if best.as_ref().is_none_or(|b| width > b.width) {
                    best = Some(Held {
                        index,
                        in_tcp,
                        width,
                        gripped_at: tip,
                        slips_after: None,
                        lifted: false,
                    });
                }
            }
        }
        best
    }

    fn attach(&mut self, mut held: Held, tcp: &Isometry3<f64>) {
        let Some(object) = self.world.objects().get(held.index) else {
            return;
        };
        if !object.spec.graspable {
            return;
        }
        let (id, mass) = (object.spec.id.clone(), object.spec.mass);
        self.occasion(Occasion::Grasp);
        if self.strike(FaultKind::GraspSlip).is_some() {
            held.slips_after = Some(self.object_random.between(0.03, 0.08));
        } else if FRICTION * self.gripper.max_effort() < mass * GRAVITY {
            // Too weak a grip for the weight: it stays behind as soon as the tool rises.
            held.slips_after = Some(0.01);
        }
        held.gripped_at = Point3::from(tcp.translation.vector);
        if let Some(object) = self.world.object_mut(held.index) {
            object.pose = tcp * held.in_tcp;
            object.support = Support::Gripper;
        }
        self.held = Some(held);
        self.push(SimEvent::Grasped { object: id });
    }

    /// Takes the held object along; lets it slip when its time has come.
    fn carry(&mut self, tcp: &Isometry3<f64>) {
        let Some(held) = &mut self.held else { return };
        if let Some(object) = self.world.object_mut(held.index) {
            object.pose = tcp * held.in_tcp;
        }
        let moved = (tcp.translation.vector - held.gripped_at.coords).norm();
        let lifts = !held.lifted && tcp.translation.vector.z > held.gripped_at.z + 0.03;
        held.lifted |= lifts;
        let slips = held.slips_after.is_some_and(|limit| moved >= limit);
        if lifts {
            self.occasion(Occasion::Lift);
        }
        if slips {
            self.slip();
        }
    }

    fn slip(&mut self) {
        let Some(held) = self.held.take() else { return };
        self.slipped = Some(held.index);
        let Some(object) = self.world.objects().get(held.index) else {
            return;
        };
        let id = object.spec.id.clone();
        let at = object.pose.translation.vector;
        let below = self.world.surface_below(at.x, at.y, at.z).1;
        // It rolls a little, but not off what it falls onto.
        let mut offset = [0.0, 0.0];
        for _ in 0..8 {
            let angle = self.object_random.between(0.0, std::f64::consts::TAU);
            let distance = self.object_random.between(0.01, 0.04);
            let candidate = [distance * angle.cos(), distance * angle.sin()];
            if self
                .world
                .surface_below(at.x + candidate[0], at.y + candidate[1], at.z)
                .1
                == below
            {
                offset = candidate;
                break;
            }
        }
        let fell = self.world.drop_object(held.index, offset);
        self.push(SimEvent::Slipped { object: id, fell });
    }

    fn let_go(&mut self) {
        let Some(held) = self.held.take() else { return };
        let Some(object) = self.world.objects().get(held.index) else {
            return;
        };
        let id = object.spec.id.clone();
        let fell = self.world.drop_object(held.index, [0.0, 0.0]);
        self.push(SimEvent::Released { object: id, fell });
    }
}

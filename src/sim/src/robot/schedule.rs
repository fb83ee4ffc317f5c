//! What others do: people walk, doors and objects are moved as the world file plans it.

use super::Robot;
use crate::fault::Occasion;
use crate::geometry::Pose2;
use crate::schedule::Deed;
use crate::sim_event::SimEvent;
use crate::world::{OtherRobot, Support};

impl Robot {
    pub(super) fn step_others(&mut self, dt: f64) {
        let at = self.base.pose();
        let radius = self.file.robot.radius;
        if self.leads {
            let others = self.world.robots().iter();
            let robots: Vec<[f64; 3]> = others
                .map(|o| [o.pose.x, o.pose.y, o.radius])
                .chain([[at.x, at.y, radius]])
                .collect();
            self.world.step_people(dt, &robots);
        }
        for deed in self.schedule.advance(self.now) {
            match deed {
                Deed::Door { door, open } => {
                    // The newest word about a door counts.
                    self.doors_waiting.retain(|(id, _)| *id != door);
                    self.doors_waiting.push((door, open));
                }
                Deed::Object {
                    object,
                    position,
                    onto,
                } => self.take_object(&object, position, onto.as_deref()),
            }
        }
        // Nobody shuts a door on somebody: it is done as soon as the way is clear.
        for (door, open) in std::mem::take(&mut self.doors_waiting) {
            if !open && self.world.door_is_obstructed(&door, at.x, at.y, radius) {
                self.doors_waiting.push((door, open));
            } else if self.world.set_door(&door, open) == Ok(true) {
                self.push(SimEvent::DoorMoved { door, open });
            }
        }
    }

    fn take_object(&mut self, object: &str, position: Option<[f64; 2]>, onto: Option<&str>) {
        let index = self.world.object_index(object);
        if self.held.as_ref().is_some_and(|h| Some(h.index) == index) {
            self.held = None;
        }
        // Its references were checked when the file was read.
        if self.world.move_object(object, position, onto).is_ok() {
            self.push(SimEvent::ObjectMoved {
                object: object.to_owned(),
            });
        }
    }

    /// Puts other robots into this one's world.
    pub(crate) fn meet(&mut self, others: &[OtherRobot]) {
        self.world.meet(others);
    }

    /// Takes over what has changed in the world of the robot that moved last, and where the others are.
    pub(crate) fn follow(&mut self, before: &Robot, others: &[Pose2]) {
        self.adopt(before);
        self.world.move_robots(others);
        // Somebody may have taken away what it held.
        let held = self
            .held
            .as_ref()
            .and_then(|h| self.world.objects().get(h.index));
        if held.is_some_and(|object| object.support != Support::Gripper) {
            self.held = None;
        }
    }

    /// Takes over objects, doors and people of another robot's world.
    pub(crate) fn adopt(&mut self, other: &Robot) {
        self.world.follow(&other.world);
    }

    /// Whether people walk by this robot's steps.
    pub(crate) fn set_leading(&mut self, leads: bool) {
        self.leads = leads;
    }

    /// Where the base truly is, map frame.
    pub(crate) fn true_pose(&self) -> Pose2 {
        self.base.pose()
    }

    /// Counts an occasion for faults and for what others do.
    pub(super) fn occasion(&mut self, occasion: Occasion) {
        self.faults.happened(occasion, self.now);
        self.schedule.happened(occasion, self.now);
    }
}

//! What others do: people walk, doors and objects are moved as the world file plans it.

use super::Robot;
use crate::fault::Occasion;
use crate::schedule::Deed;
use crate::sim_event::SimEvent;

impl Robot {
    pub(super) fn step_others(&mut self, dt: f64) {
        let at = self.base.pose();
        let radius = self.file.robot.radius;
        self.world.step_people(dt, &[[at.x, at.y, radius]]);
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

    /// Counts an occasion for faults and for what others do.
    pub(super) fn occasion(&mut self, occasion: Occasion) {
        self.faults.happened(occasion, self.now);
        self.schedule.happened(occasion, self.now);
    }
}

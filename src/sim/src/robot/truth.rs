//! The true state, for tests and recordings.

use super::Robot;
use crate::ground_truth::{GroundTruth, ObjectTruth};
use crate::world::World;

impl Robot {
    /// The world as it truly is: for tests and recordings only.
    #[must_use]
    pub fn ground_truth(&self) -> GroundTruth {
        GroundTruth {
            robot: self.base.pose(),
            velocity: self.base.velocity(),
            tcp: self.tcp_in_map(),
            held: self
                .held
                .as_ref()
                .and_then(|h| self.world.objects().get(h.index))
                .map(|o| o.spec.id.clone()),
            objects: self
                .world
                .objects()
                .iter()
                .map(|o| ObjectTruth {
                    id: o.spec.id.clone(),
                    class: o.spec.class.clone(),
                    pose: o.pose,
                    support: o.support.clone(),
                })
                .collect(),
            doors: self
                .world
                .doors()
                .map(|(id, open)| (id.to_owned(), open))
                .collect(),
            collisions: self.base.collisions(),
        }
    }

    /// Ids of the objects that the camera sees, truly and with nothing missed: for tests and recordings only.
    #[must_use]
    pub fn objects_in_sight(&self) -> Vec<String> {
        let camera = self.base.pose().to_isometry() * self.head.camera();
        // Objects come first among the bodies.
        self.camera
            .in_sight(&camera, &self.world)
            .into_iter()
            .filter_map(|index| self.world.objects().get(index))
            .map(|o| o.spec.id.clone())
            .collect()
    }

    /// The world itself, for tests of geometry.
    #[must_use]
    pub fn world(&self) -> &World {
        &self.world
    }

    /// A number that differs whenever any part of the true state differs: to compare runs.
    ///
    /// FNV-1a: <http://www.isthe.com/chongo/tech/comp/fnv/>.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut eat = |v: f64| {
            for byte in v.to_bits().to_le_bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        };
        eat(self.now.as_secs_f64());
        let (pose, odom) = (self.base.pose(), self.localization.odom_to_base());
        let estimate = self.localization.map_to_base();
        for p in [pose, odom, estimate] {
            eat(p.x);
            eat(p.y);
            eat(p.yaw);
        }
        eat(self.base.velocity().linear);
        eat(self.base.velocity().angular);
        for q in self
            .arm
            .positions()
            .into_iter()
            .chain(self.head.positions())
        {
            eat(q);
        }
        eat(self.gripper.width());
        for person in self.world.people() {
            for v in person.position() {
                eat(v);
            }
        }
        for object in self.world.objects() {
            for v in object
                .pose
                .translation
                .vector
                .iter()
                .chain(object.pose.rotation.coords.iter())
            {
                eat(*v);
            }
        }
        hash
    }
}

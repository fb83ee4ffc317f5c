//! What the arm's planner was told about the world: collision objects, what is attached to the arm, and
//! which contacts are allowed. The semantics are those of MoveIt's planning scene:
//! <https://moveit.picknik.ai/main/doc/examples/planning_scene_ros_api/planning_scene_ros_api_tutorial.html>.

use std::collections::{BTreeMap, BTreeSet};

use nalgebra::{Isometry3, Point3};

use crate::allowed_collisions::AllowedCollisions;
use crate::collision_shape::CollisionShape;

/// The frame that world objects are kept in: it moves with nothing, and never jumps.
pub const PLANNING_FRAME: &str = "odom";
/// The links that the planner knows, from the base to the tool.
pub const LINKS: [&str; 7] = [
    "base_link",
    "arm_1_link",
    "arm_2_link",
    "arm_3_link",
    "arm_4_link",
    "arm_5_link",
    "gripper_tcp",
];
/// Most objects, in the world and attached.
pub const MAX_OBJECTS: usize = 256;
/// Most shapes of one object.
pub const MAX_PARTS: usize = 64;

/// A solid thing made of primitives.
#[derive(Debug, Clone, PartialEq)]
pub struct CollisionObject {
    /// Its name in the scene.
    pub id: String,
    /// Its pose: in [`PLANNING_FRAME`] while it is in the world, in its link while it is attached.
    pub pose: Isometry3<f64>,
    /// Its shapes and where each is in the object.
    pub parts: Vec<(CollisionShape, Isometry3<f64>)>,
}

impl CollisionObject {
    /// Distance from a point of the frame of its pose, 0 inside, metres.
    #[must_use]
    pub fn distance(&self, p: &Point3<f64>) -> f64 {
        let p = self.pose.inverse_transform_point(p);
        self.parts
            .iter()
            .map(|(shape, at)| shape.distance(&at.inverse_transform_point(&p)))
            .fold(f64::INFINITY, f64::min)
    }

    /// Points of its surface made smaller by `margin` (metres), in the frame of its pose.
    #[must_use]
    pub fn surface(&self, margin: f64) -> Vec<Point3<f64>> {
        self.parts
            .iter()
            .flat_map(|(shape, at)| {
                let to_frame = self.pose * at;
                shape.surface(margin).into_iter().map(move |p| to_frame * p)
            })
            .collect()
    }
}

/// A thing that moves with a link.
#[derive(Debug, Clone, PartialEq)]
pub struct AttachedObject {
    /// What it is; its pose is in the link.
    pub object: CollisionObject,
    /// The link.
    pub link: String,
    /// The links that may touch it.
    pub touch_links: BTreeSet<String>,
}

/// A change of what is in the world.
#[derive(Debug, Clone, PartialEq)]
pub enum WorldOperation {
    /// Put it there, instead of one of the same id.
    Add(CollisionObject),
    /// Give an object more shapes.
    Append(CollisionObject),
    /// Give an object another pose.
    Move {
        /// Which.
        id: String,
        /// Its new pose in [`PLANNING_FRAME`].
        pose: Isometry3<f64>,
    },
    /// Take it away; an empty id takes all.
    Remove(String),
}

/// A change of what is attached.
#[derive(Debug, Clone, PartialEq)]
pub enum AttachOperation {
    /// Attach it; without a shape of its own it is taken from the world as it is there.
    Attach {
        /// Which.
        id: String,
        /// Where to.
        link: String,
        /// The links that may touch it.
        touch_links: BTreeSet<String>,
        /// Its shapes, its pose in the link.
        object: Option<CollisionObject>,
    },
    /// Let it go; it is in the world then, where it was. An empty id lets all of the link go, an empty
    /// link is any.
    Detach {
        /// Which.
        id: String,
        /// Where from.
        link: String,
    },
}

/// A change of a scene.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SceneChange {
    /// Forget the objects of the world first.
    pub new_world: bool,
    /// Forget what is attached first.
    pub new_attached: bool,
    /// What is attached and let go, in order; before the world is changed.
    pub attached: Vec<AttachOperation>,
    /// The whole new matrix.
    pub allowed: Option<AllowedCollisions>,
    /// Changes of the world, in order.
    pub world: Vec<WorldOperation>,
}

/// The scene of the arm's planner.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanningScene {
    world: BTreeMap<String, CollisionObject>,
    attached: BTreeMap<String, AttachedObject>,
    allowed: AllowedCollisions,
    version: u64,
}

impl Default for PlanningScene {
    fn default() -> Self {
        Self {
            world: BTreeMap::new(),
            attached: BTreeMap::new(),
            allowed: AllowedCollisions::of_neighbours(&LINKS),
            version: 0,
        }
    }
}

impl PlanningScene {
    /// The objects of the world, by id.
    pub fn world(&self) -> impl Iterator<Item = &CollisionObject> {
        self.world.values()
    }

    /// What is attached, by id.
    pub fn attached(&self) -> impl Iterator<Item = &AttachedObject> {
        self.attached.values()
    }

    /// The allowed contacts.
    #[must_use]
    pub fn allowed(&self) -> &AllowedCollisions {
        &self.allowed
    }

    /// A number that grows with every change.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Applies a change, every part of it that is possible. `link` gives a link's pose in
    /// [`PLANNING_FRAME`].
    ///
    /// # Errors
    /// What could not be done, each with what to do instead.
    pub fn apply(
        &mut self,
        change: &SceneChange,
        link: impl Fn(&str) -> Option<Isometry3<f64>>,
    ) -> Result<(), Vec<String>> {
        let before = self.clone();
        let mut problems = Vec::new();
        if change.new_world {
            self.world.clear();
        }
        if change.new_attached {
            self.attached.clear();
        }
        for operation in &change.attached {
            if let Err(problem) = self.change_attached(operation, &link) {
                problems.push(problem);
            }
        }
        if let Some(allowed) = &change.allowed {
            self.allowed = allowed.clone();
        }
        for operation in &change.world {
            if let Err(problem) = self.change_world(operation) {
                problems.push(problem);
            }
        }
        if *self != before {
            self.version += 1;
        }
        if problems.is_empty() {
            Ok(())
        } else {
            Err(problems)
        }
    }

    fn room_for(&self, object: &CollisionObject) -> Result<(), String> {
        let CollisionObject { id, parts, .. } = object;
        if id.is_empty() {
            return Err("an object has an empty id; name it".to_owned());
        }
        if parts.is_empty() || parts.len() > MAX_PARTS {
            return Err(format!(
                "object '{id}' has {} shapes; give 1 to {MAX_PARTS}",
                parts.len()
            ));
        }
        if self.world.len() + self.attached.len() >= MAX_OBJECTS
            && !self.world.contains_key(id)
            && !self.attached.contains_key(id)
        {
            return Err(format!(
                "there are {MAX_OBJECTS} objects; remove some before '{id}' is added"
            ));
        }
        Ok(())
    }

    fn change_world(&mut self, operation: &WorldOperation) -> Result<(), String> {
        let unknown = |id: &str| format!("the world has no object '{id}'; add it first");
        match operation {
            WorldOperation::Add(object) => {
                self.room_for(object)?;
                self.world.insert(object.id.clone(), object.clone());
            }
            WorldOperation::Append(object) => match self.world.get_mut(&object.id) {
                None => return self.change_world(&WorldOperation::Add(object.clone())),
                Some(known) if known.parts.len() + object.parts.len() > MAX_PARTS => {
                    return Err(format!(
                        "object '{}' would have more than {MAX_PARTS} shapes",
                        object.id
                    ));
                }
                Some(known) => {
                    let to_known = known.pose.inverse() * object.pose;
                    let more = object.parts.iter().map(|(s, at)| (*s, to_known * at));
                    known.parts.extend(more);
                }
            },
            WorldOperation::Move { id, pose } => {
                self.world.get_mut(id).ok_or_else(|| unknown(id))?.pose = *pose;
            }
            WorldOperation::Remove(id) if id.is_empty() => self.world.clear(),
            WorldOperation::Remove(id) => {
                self.world.remove(id).ok_or_else(|| unknown(id))?;
            }
        }
        Ok(())
    }

    fn change_attached(
        &mut self,
        operation: &AttachOperation,
        pose_of: &impl Fn(&str) -> Option<Isometry3<f64>>,
    ) -> Result<(), String> {
        match operation {
            AttachOperation::Attach {
                id,
                link,
                touch_links,
                object,
            } => {
                let in_planning = pose_of(link)
                    .filter(|_| LINKS.contains(&link.as_str()))
                    .ok_or_else(|| {
                        format!(
                            "'{id}' can't be attached to the link '{link}'; use one of {}",
                            LINKS.join(", ")
                        )
                    })?;
                let object = match object {
                    Some(object) => object.clone(),
                    None => {
                        let mut object = self.world.get(id).cloned().ok_or_else(|| {
                            format!("'{id}' has no shapes and is not in the world; give its shapes or add it first")
                        })?;
                        object.pose = in_planning.inverse() * object.pose;
                        object
                    }
                };
                self.room_for(&object)?;
                self.world.remove(id);
                let attached = AttachedObject {
                    object,
                    link: link.clone(),
                    touch_links: touch_links.clone(),
                };
                self.attached.insert(id.clone(), attached);
            }
            AttachOperation::Detach { id, link } => {
                let ids: Vec<String> = self
                    .attached
                    .values()
                    .filter(|a| id.is_empty() || a.object.id == *id)
                    .filter(|a| link.is_empty() || a.link == *link)
                    .map(|a| a.object.id.clone())
                    .collect();
                if ids.is_empty() && !id.is_empty() {
                    return Err(format!("'{id}' is not attached"));
                }
                for id in ids {
                    let Some(mut attached) = self.attached.remove(&id) else {
                        continue;
                    };
                    if let Some(in_planning) = pose_of(&attached.link) {
                        attached.object.pose = in_planning * attached.object.pose;
                        self.world.entry(id).or_insert(attached.object);
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cup(x: f64) -> CollisionObject {
        CollisionObject {
            id: "cup".into(),
            pose: Isometry3::translation(x, 0.0, 0.8),
            parts: vec![(
                CollisionShape::Box([0.08, 0.08, 0.1]),
                Isometry3::identity(),
            )],
        }
    }

    /// The tool stands at (0.5, 0, 0.9) in the planning frame.
    fn link(_: &str) -> Option<Isometry3<f64>> {
        Some(Isometry3::translation(0.5, 0.0, 0.9))
    }

    fn attach(object: Option<CollisionObject>) -> SceneChange {
        SceneChange {
            attached: vec![AttachOperation::Attach {
                id: "cup".into(),
                link: "gripper_tcp".into(),
                touch_links: BTreeSet::new(),
                object,
            }],
            ..SceneChange::default()
        }
    }

    fn world(operation: WorldOperation) -> SceneChange {
        SceneChange {
            world: vec![operation],
            ..SceneChange::default()
        }
    }

    fn detach(id: &str) -> SceneChange {
        SceneChange {
            attached: vec![AttachOperation::Detach {
                id: id.into(),
                link: String::new(),
            }],
            ..SceneChange::default()
        }
    }

    #[test]
    fn what_is_attached_leaves_the_world_and_comes_back_where_it_is_let_go() {
        let mut scene = PlanningScene::default();
        scene
            .apply(&world(WorldOperation::Add(cup(0.5))), link)
            .unwrap();
        assert_eq!(scene.version(), 1);
        scene.apply(&attach(None), link).unwrap();
        assert_eq!(scene.world().count(), 0);
        let held = scene.attached().next().unwrap();
        // 0.1 m below the tool.
        assert!((held.object.pose.translation.z + 0.1).abs() < 1e-12);
        // The same again changes nothing that counts.
        let version = scene.version();
        assert!(scene.apply(&attach(None), link).is_err());
        let as_it_is = scene.attached().next().unwrap().object.clone();
        scene.apply(&attach(Some(as_it_is)), link).unwrap();
        assert_eq!(scene.version(), version);
        // The arm has moved by 1 m.
        scene
            .apply(&detach("cup"), |_| {
                Some(Isometry3::translation(1.5, 0.0, 0.9))
            })
            .unwrap();
        assert_eq!(scene.attached().count(), 0);
        let put = scene.world().next().unwrap();
        assert!((put.pose.translation.vector - cup(1.5).pose.translation.vector).norm() < 1e-12);
        assert!(scene.apply(&detach("cup"), link).is_err());
        assert!(scene.apply(&detach(""), link).is_ok(), "nothing to let go");
    }

    #[test]
    fn what_is_not_possible_is_told_and_the_rest_is_done() {
        let mut scene = PlanningScene::default();
        let change = SceneChange {
            world: vec![
                WorldOperation::Remove("plate".into()),
                WorldOperation::Add(cup(0.5)),
                WorldOperation::Move {
                    id: "cup".into(),
                    pose: Isometry3::translation(2.0, 0.0, 0.0),
                },
            ],
            ..SceneChange::default()
        };
        let problems = scene.apply(&change, link).unwrap_err();
        assert_eq!(problems.len(), 1);
        assert!(problems[0].contains("plate"));
        assert_eq!(scene.world().next().unwrap().pose.translation.x, 2.0);
        scene
            .apply(&world(WorldOperation::Append(cup(2.5))), link)
            .unwrap();
        let two = scene.world().next().unwrap();
        assert_eq!(two.parts.len(), 2);
        // The second part is where it was given: at (2.5, 0, 0.8).
        assert_eq!(two.distance(&Point3::new(2.5, 0.0, 0.8)), 0.0);
        scene
            .apply(&world(WorldOperation::Remove(String::new())), link)
            .unwrap();
        assert_eq!(scene.world().count(), 0);
        let nowhere = SceneChange {
            attached: vec![AttachOperation::Attach {
                id: "cup".into(),
                link: "elbow".into(),
                touch_links: BTreeSet::new(),
                object: Some(cup(0.0)),
            }],
            ..SceneChange::default()
        };
        assert!(scene.apply(&nowhere, |_| None).unwrap_err()[0].contains("elbow"));
    }

    #[test]
    fn it_does_not_grow_without_bound() {
        let mut scene = PlanningScene::default();
        for k in 0..MAX_OBJECTS {
            let mut object = cup(0.0);
            object.id = format!("o{k}");
            scene
                .apply(&world(WorldOperation::Add(object)), link)
                .unwrap();
        }
        let error = scene
            .apply(&world(WorldOperation::Add(cup(0.0))), link)
            .unwrap_err();
        assert!(error[0].contains("256"), "{error:?}");
    }
}

//! What the arm could touch: furniture, walls, objects, the robot's own body, and what its planning scene
//! holds.
//!
//! The world as it is stands for what a real arm senses with its cameras, MoveIt's octomap; things that
//! are collision objects of the planning scene, or attached, are left out of it, as MoveIt does.

use nalgebra::{Isometry3, Point3, Vector3};

use crate::allowed_collisions::{AllowedCollisions, OCTOMAP};
use crate::arm_kinematics::{forward, ArmFrames, Joints, TOOL};
use crate::geometry::UprightBox;
use crate::planning_scene::{AttachedObject, CollisionObject, PlanningScene};
use crate::world::World;

/// Radius of the upper arm, metres.
const UPPER_ARM_RADIUS: f64 = 0.05;
/// Radius of the forearm, metres.
const FOREARM_RADIUS: f64 = 0.045;
/// Radius of the palm, metres, and how far it reaches from the wrist.
const PALM: [f64; 2] = [0.04, 0.07];
/// Radius of the fingers, metres, and how far before the tool centre point their check ends: flat
/// objects are gripped just above a surface.
const FINGERS: [f64; 2] = [0.025, 0.03];
/// The base's body: radius and height, metres.
const BODY: [f64; 2] = [0.25, 0.32];
/// The column that carries the arm: radius and height, metres.
const COLUMN: [f64; 2] = [0.08, 0.68];
/// Distance between the checked points of a limb, metres.
const SPACING: f64 = 0.03;
/// Farther than this from the base's centre nothing can be touched, metres.
const REACH: f64 = 1.3;
/// What is attached is taken for this much smaller against what is sensed, metres: sensed surfaces are no
/// better than that, and what was grasped stands on one.
const SENSED_MARGIN: f64 = 0.01;
/// The same against what is known exactly, metres.
const EXACT_MARGIN: f64 = 0.001;
/// Objects this near to the tool at a motion's start or end are what it is about, metres.
pub const TARGET_RADIUS: f64 = 0.05;

/// What is held, as the arm's planner sees it: a sphere.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeldSphere {
    /// Its centre in gripper_tcp.
    pub center: Point3<f64>,
    /// Its radius, metres.
    pub radius: f64,
}

/// The links that are checked, by what they are called in the planning scene.
mod link {
    pub const BASE: &str = "base_link";
    pub const UPPER_ARM: &str = "arm_2_link";
    pub const FOREARM: &str = "arm_3_link";
    pub const PALM: &str = "arm_5_link";
    pub const FINGERS: &str = "gripper_tcp";
}

/// An attached object with the points of it that are checked, in its link.
#[derive(Debug, Clone)]
struct Attached {
    known: AttachedObject,
    /// Against the planning scene and the body.
    exact: Vec<Point3<f64>>,
    /// Against the world.
    core: Vec<Point3<f64>>,
}

/// A part of the arm, as a chain of spheres.
struct Limb {
    part: &'static str,
    link: &'static str,
    from: Point3<f64>,
    to: Point3<f64>,
    radius: f64,
    may_meet_body: bool,
}

/// Everything near the arm, seen from base_link.
#[derive(Debug, Clone)]
pub struct ArmSurroundings {
    base: Isometry3<f64>,
    solid: Vec<UprightBox>,
    objects: Vec<(usize, UprightBox)>,
    held: Option<HeldSphere>,
    /// Objects of the planning scene, in base_link.
    scene: Vec<CollisionObject>,
    attached: Vec<Attached>,
    allowed: AllowedCollisions,
}

impl ArmSurroundings {
    /// Collects what is within reach of a robot at `base` (base_link in the map frame).
    ///
    /// `ignored`: places in the world's list of objects that may be touched.
    #[must_use]
    pub fn new(
        world: &World,
        base: Isometry3<f64>,
        ignored: &[usize],
        held: Option<HeldSphere>,
    ) -> Self {
        let at = base.translation.vector;
        Self {
            base,
            solid: world
                .obstacles()
                .filter(|o| o.distance(at.x, at.y) < REACH)
                .collect(),
            objects: world
                .objects()
                .iter()
                .enumerate()
                .filter(|(i, _)| !ignored.contains(i))
                .map(|(i, o)| (i, o.outline()))
                .filter(|(_, o)| o.distance(at.x, at.y) < REACH)
                .collect(),
            held,
            scene: Vec::new(),
            attached: Vec::new(),
            allowed: AllowedCollisions::default(),
        }
    }

    /// Adds what the planning scene holds. `planning_in_base`: its frame as the robot believes.
    #[must_use]
    pub fn with_scene(mut self, scene: &PlanningScene, planning_in_base: Isometry3<f64>) -> Self {
        self.scene = scene
            .world()
            .map(|object| CollisionObject {
                pose: planning_in_base * object.pose,
                ..object.clone()
            })
            .collect();
        self.attached = scene
            .attached()
            .map(|known| Attached {
                exact: known.object.surface(EXACT_MARGIN),
                core: known.object.surface(SENSED_MARGIN),
                known: known.clone(),
            })
            .collect();
        self.allowed = scene.allowed().clone();
        self
    }

    /// What the arm would touch with its joints at `q`; none when it is free.
    #[must_use]
    pub fn contact(&self, q: &Joints) -> Option<String> {
        let frames = forward(q);
        let limbs = limbs(&frames);
        limbs
            .iter()
            .find_map(|limb| self.limb(limb))
            .or_else(|| {
                let held = self.held?;
                let center = frames.tcp * held.center;
                self.sphere("the held object", "", center, held.radius, true)
            })
            .or_else(|| {
                self.attached
                    .iter()
                    .find_map(|attached| self.attached(attached, &frames, &limbs))
            })
    }

    fn limb(&self, limb: &Limb) -> Option<String> {
        limb.spheres()
            .find_map(|p| self.sphere(limb.part, limb.link, p, limb.radius, limb.may_meet_body))
    }

    fn sphere(
        &self,
        part: &str,
        link: &str,
        p: Point3<f64>,
        radius: f64,
        may_meet_body: bool,
    ) -> Option<String> {
        if p.z < radius {
            return Some(format!("{part} would touch the floor"));
        }
        if may_meet_body && meets_body(&p, radius) {
            return Some(format!("{part} would touch the robot's own body"));
        }
        if !self.allowed.allows(link, OCTOMAP) {
            if let Some(what) = self.sensed(&p, radius) {
                return Some(format!("{part} would touch {what}"));
            }
        }
        self.scene
            .iter()
            .find(|o| o.distance(&p) < radius && !self.allowed.allows(link, &o.id))
            .map(|o| {
                format!(
                    "{part} ({link}) would touch '{}' of the planning scene; allow the contact or remove it",
                    o.id
                )
            })
    }

    /// What of the world is less than `radius` from the point of base_link.
    fn sensed(&self, p: &Point3<f64>, radius: f64) -> Option<String> {
        let p = self.base * p;
        let near = |b: &&UprightBox| b.distance_3d(&p) < radius;
        if let Some(b) = self.solid.iter().find(near) {
            return Some(format!("furniture or a wall at ({:.2}, {:.2})", b.x, b.y));
        }
        self.objects
            .iter()
            .map(|(_, b)| b)
            .find(near)
            .map(|b| format!("an object at ({:.2}, {:.2})", b.x, b.y))
    }

    /// What an attached object would touch.
    fn attached(&self, attached: &Attached, frames: &ArmFrames, limbs: &[Limb]) -> Option<String> {
        let AttachedObject {
            object,
            link,
            touch_links,
        } = &attached.known;
        let id = &object.id;
        let pose = link_pose(frames, link)?;
        let touches = |other: &str| touch_links.contains(other) || self.allowed.allows(id, other);
        let told = |what: String| Some(format!("the attached '{id}' would touch {what}"));
        if !self.allowed.allows(id, OCTOMAP) {
            for p in &attached.core {
                let p = pose * p;
                if p.z < 0.0 {
                    return told("the floor".to_owned());
                }
                // Points on the surface of something smaller: any overlap counts.
                if let Some(what) = self.sensed(&p, 1e-9) {
                    return told(what);
                }
            }
        }
        let meets_base = !touches(link::BASE);
        for p in &attached.exact {
            let p = pose * p;
            if meets_base && meets_body(&p, 0.0) {
                return told("the robot's own body".to_owned());
            }
            let other = self
                .scene
                .iter()
                .find(|o| o.distance(&p) < 1e-9 && !self.allowed.allows(id, &o.id));
            if let Some(other) = other {
                return told(format!("'{}' of the planning scene", other.id));
            }
        }
        limbs
            .iter()
            .filter(|limb| !touches(limb.link))
            .find(|limb| {
                limb.spheres()
                    .any(|p| object.distance(&pose.inverse_transform_point(&p)) < limb.radius)
            })
            .and_then(|limb| told(format!("{} ({})", limb.part, limb.link)))
    }
}

impl Limb {
    /// The middles of its spheres, in base_link.
    fn spheres(&self) -> impl Iterator<Item = Point3<f64>> + '_ {
        let along = self.to - self.from;
        let steps = (along.norm() / SPACING).ceil().max(1.0) as usize;
        (0..=steps).map(move |k| self.from + along * (k as f64 / steps as f64))
    }
}

/// The arm at these frames.
fn limbs(frames: &ArmFrames) -> [Limb; 4] {
    let place = |i: usize| {
        frames
            .links
            .get(i)
            .map_or(Point3::origin(), |l| Point3::from(l.translation.vector))
    };
    let (shoulder, elbow, wrist) = (place(1), place(2), place(3));
    let axis = frames.tcp.rotation * Vector3::x();
    let limb = |part, link, from, to, radius, may_meet_body| Limb {
        part,
        link,
        from,
        to,
        radius,
        may_meet_body,
    };
    let (knuckles, tip) = (wrist + axis * PALM[1], wrist + axis * (TOOL - FINGERS[1]));
    [
        limb(
            "the upper arm",
            link::UPPER_ARM,
            shoulder,
            elbow,
            UPPER_ARM_RADIUS,
            false,
        ),
        limb(
            "the forearm",
            link::FOREARM,
            elbow,
            wrist,
            FOREARM_RADIUS,
            true,
        ),
        limb("the palm", link::PALM, wrist, knuckles, PALM[0], true),
        limb("the gripper", link::FINGERS, wrist, tip, FINGERS[0], true),
    ]
}

/// A link's pose in base_link.
pub(crate) fn link_pose(frames: &ArmFrames, name: &str) -> Option<Isometry3<f64>> {
    match name {
        "base_link" => Some(Isometry3::identity()),
        "gripper_tcp" => Some(frames.tcp),
        _ => {
            let index = [
                "arm_1_link",
                "arm_2_link",
                "arm_3_link",
                "arm_4_link",
                "arm_5_link",
            ]
            .iter()
            .position(|l| *l == name)?;
            frames.links.get(index).copied()
        }
    }
}

/// Whether a sphere (base_link) reaches into the robot's own body.
fn meets_body(p: &Point3<f64>, radius: f64) -> bool {
    let off = p.x.hypot(p.y);
    [BODY, COLUMN]
        .iter()
        .any(|[r, height]| p.z < height + radius && off < r + radius)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::collision_shape::CollisionShape;
    use crate::planning_scene::{AttachOperation, SceneChange, WorldOperation};
    use crate::world_file::WorldFile;

    /// Tool 0.16 m ahead of the wrist, level, at shoulder height: gripper_tcp at (0.6, 0, 0.75) or so.
    const Q: Joints = [0.0, 0.9, -1.6, 0.7, 0.0];

    fn room() -> World {
        World::new(
            &WorldFile::from_yaml(
                "rooms: [{id: a, rect: [-3, -3, 3, 3]}]\nrobot: {start: [0, 0, 0]}",
            )
            .unwrap(),
        )
        .unwrap()
    }

    fn boxed(id: &str, at: Point3<f64>, size: [f64; 3]) -> CollisionObject {
        CollisionObject {
            id: id.into(),
            pose: Isometry3::translation(at.x, at.y, at.z),
            parts: vec![(CollisionShape::Box(size), Isometry3::identity())],
        }
    }

    fn scene(change: SceneChange) -> PlanningScene {
        let mut scene = PlanningScene::default();
        scene.apply(&change, |_| Some(forward(&Q).tcp)).unwrap();
        scene
    }

    fn contact(world: &World, scene: &PlanningScene) -> Option<String> {
        ArmSurroundings::new(world, Isometry3::identity(), &[], None)
            .with_scene(scene, Isometry3::identity())
            .contact(&Q)
    }

    fn allow(pairs: &[[&str; 2]]) -> Option<AllowedCollisions> {
        let mut names: Vec<String> = pairs.iter().flatten().map(|n| (*n).to_owned()).collect();
        names.sort();
        names.dedup();
        let rows = names
            .iter()
            .map(|a| {
                names
                    .iter()
                    .map(|b| pairs.iter().any(|[x, y]| a == x && b == y))
                    .collect()
            })
            .collect();
        Some(AllowedCollisions::new(names, rows, Default::default()).unwrap())
    }

    #[test]
    fn an_object_between_the_fingers_has_to_be_allowed() {
        let world = room();
        let tip = Point3::from(forward(&Q).tcp.translation.vector);
        let add = |allowed| SceneChange {
            world: vec![WorldOperation::Add(boxed("cup", tip, [0.08; 3]))],
            allowed,
            ..SceneChange::default()
        };
        assert_eq!(contact(&world, &PlanningScene::default()), None);
        let told = contact(&world, &scene(add(None))).unwrap();
        assert!(
            told.contains("'cup'") && told.contains("gripper_tcp"),
            "{told}"
        );
        let allowed = allow(&[["cup", "gripper_tcp"]]);
        assert_eq!(contact(&world, &scene(add(allowed))), None);
        // Another link's permission does not count.
        let other = allow(&[["cup", "arm_3_link"]]);
        assert!(contact(&world, &scene(add(other))).is_some());
    }

    #[test]
    fn what_is_attached_is_checked_against_the_world_and_the_scene() {
        let tip = Point3::from(forward(&Q).tcp.translation.vector);
        // A tall bottle that hangs 0.25 m down from the tool.
        let attached = |allowed, world, touch: &[&str]| {
            scene(SceneChange {
                attached: vec![AttachOperation::Attach {
                    id: "bottle".into(),
                    link: "gripper_tcp".into(),
                    touch_links: touch
                        .iter()
                        .map(|t| (*t).to_owned())
                        .collect::<BTreeSet<_>>(),
                    object: Some(CollisionObject {
                        pose: forward(&Q).tcp.inverse()
                            * Isometry3::translation(tip.x, tip.y, tip.z - 0.12),
                        ..boxed("bottle", Point3::origin(), [0.06, 0.06, 0.3])
                    }),
                }],
                allowed,
                world,
                ..SceneChange::default()
            })
        };
        let hand: &[&str] = &["gripper_tcp", "arm_5_link"];
        let free = room();
        assert_eq!(contact(&free, &attached(None, vec![], hand)), None);
        let told = contact(&free, &attached(None, vec![], &[])).unwrap();
        assert!(told.contains("gripper_tcp"), "{told}");

        // A table whose top is 0.1 m below the tool: the gripper passes, the bottle does not.
        let height = tip.z - 0.1;
        let text = format!(
            "rooms: [{{id: a, rect: [-3, -3, 3, 3]}}]\nfurniture: [{{id: t, class: table, center: [{}, 0], size: [0.2, 0.2, {height}], surface: true}}]\nrobot: {{start: [0, 0, 0]}}",
            tip.x
        );
        let world = World::new(&WorldFile::from_yaml(&text).unwrap()).unwrap();
        assert_eq!(contact(&world, &PlanningScene::default()), None);
        let told = contact(&world, &attached(None, vec![], hand)).unwrap();
        assert!(
            told.contains("bottle") && told.contains("furniture"),
            "{told}"
        );
        let allowed = allow(&[["bottle", OCTOMAP]]);
        assert_eq!(contact(&world, &attached(allowed, vec![], hand)), None);

        // The same with a table that only the planning scene knows.
        let table = vec![WorldOperation::Add(boxed(
            "table",
            Point3::new(tip.x, 0.0, height / 2.0),
            [0.2, 0.2, height],
        ))];
        let told = contact(&free, &attached(None, table.clone(), hand)).unwrap();
        assert!(told.contains("'table'"), "{told}");
        let allowed = allow(&[["bottle", "table"]]);
        assert_eq!(contact(&free, &attached(allowed, table, hand)), None);
    }
}

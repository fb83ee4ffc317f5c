//! What the arm could touch: furniture, walls, objects and the robot's own body.

use nalgebra::{Isometry3, Point3, Vector3};

use crate::arm_kinematics::{forward, Joints, TOOL};
use crate::geometry::UprightBox;
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

/// Everything near the arm, seen from base_link.
#[derive(Debug, Clone)]
pub struct ArmSurroundings {
    base: Isometry3<f64>,
    solid: Vec<UprightBox>,
    objects: Vec<(usize, UprightBox)>,
    held: Option<HeldSphere>,
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
                .copied()
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
        }
    }

    /// What the arm would touch with its joints at `q`; none when it is free.
    #[must_use]
    pub fn contact(&self, q: &Joints) -> Option<String> {
        let frames = forward(q);
        let place = |i: usize| {
            frames
                .links
                .get(i)
                .map_or(Point3::origin(), |l| Point3::from(l.translation.vector))
        };
        let (shoulder, elbow, wrist) = (place(1), place(2), place(3));
        let axis = frames.tcp.rotation * Vector3::x();
        self.limb("the upper arm", shoulder, elbow, UPPER_ARM_RADIUS, false)
            .or_else(|| self.limb("the forearm", elbow, wrist, FOREARM_RADIUS, true))
            .or_else(|| self.limb("the palm", wrist, wrist + axis * PALM[1], PALM[0], true))
            .or_else(|| {
                let tip = wrist + axis * (TOOL - FINGERS[1]);
                self.limb("the gripper", wrist, tip, FINGERS[0], true)
            })
            .or_else(|| {
                let held = self.held?;
                let center = frames.tcp * held.center;
                self.sphere("the held object", center, held.radius, true)
            })
    }

    fn limb(
        &self,
        part: &str,
        from: Point3<f64>,
        to: Point3<f64>,
        radius: f64,
        may_meet_body: bool,
    ) -> Option<String> {
        let steps = ((to - from).norm() / SPACING).ceil().max(1.0) as usize;
        (0..=steps).find_map(|k| {
            let p = from + (to - from) * (k as f64 / steps as f64);
            self.sphere(part, p, radius, may_meet_body)
        })
    }

    fn sphere(
        &self,
        part: &str,
        p: Point3<f64>,
        radius: f64,
        may_meet_body: bool,
    ) -> Option<String> {
        if p.z < radius {
            return Some(format!("{part} would touch the floor"));
        }
        if may_meet_body {
            let off = p.x.hypot(p.y);
            for [r, height] in [BODY, COLUMN] {
                if p.z < height + radius && off < r + radius {
                    return Some(format!("{part} would touch the robot's own body"));
                }
            }
        }
        let p = self.base * p;
        if let Some(b) = self.solid.iter().find(|b| b.distance_3d(&p) < radius) {
            return Some(format!(
                "{part} would touch furniture or a wall at ({:.2}, {:.2})",
                b.x, b.y
            ));
        }
        if let Some((_, b)) = self
            .objects
            .iter()
            .find(|(_, b)| b.distance_3d(&p) < radius)
        {
            return Some(format!(
                "{part} would touch an object at ({:.2}, {:.2})",
                b.x, b.y
            ));
        }
        None
    }
}

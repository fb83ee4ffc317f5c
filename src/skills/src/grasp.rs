//! How an object is grasped with a parallel gripper: tool poses, best first.

use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};

use eh_contract::geometry::{angle_difference, Pose, Vec3};
use nalgebra::{Isometry3, Translation3, UnitQuaternion, Vector3};
use serde::{Deserialize, Serialize};

use crate::embodiment::Embodiment;

/// Size that is taken where the detector gave none \[m\]: a small thing that any gripper closes on.
pub const UNKNOWN_SIZE: Vec3 = Vec3::new(0.06, 0.06, 0.08);

/// The fingers have to open at least this much wider than the object \[m\].
pub const MARGIN: f64 = 0.004;

/// Edges that differ by less than this make a round or square thing \[m\].
const ROUND: f64 = 0.012;

/// How far the tool is lifted straight up after the fingers closed \[m\].
pub const LIFT: f64 = 0.12;

/// Distance that is kept between fingers and object before the approach \[m\].
const STAND_BACK: f64 = 0.06;

/// From where the tool comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approach {
    /// From above, tool straight down.
    Top,
    /// From above and in front, tool 45° down.
    Slanted,
    /// From the front, tool level.
    Level,
}

impl Approach {
    /// Angle of the tool below the horizontal \[rad\].
    pub const fn pitch(self) -> f64 {
        match self {
            Approach::Top => FRAC_PI_2,
            Approach::Slanted => FRAC_PI_4,
            Approach::Level => 0.0,
        }
    }
}

/// One way to grasp.
#[derive(Clone, Debug, PartialEq)]
pub struct Grasp {
    /// From where.
    pub approach: Approach,
    /// Tool pose at the grasp, in base_link.
    pub tool: Pose,
    /// Tool pose before the straight approach.
    pub before: Pose,
    /// Tool pose after the straight lift.
    pub lifted: Pose,
    /// How far the tool may be turned about its own x, y and z \[rad\].
    pub orientation_tolerance: [f64; 3],
    /// Height of the tool above the object's lowest point \[m\].
    pub above_bottom: f64,
}

impl Grasp {
    /// A grasp that was made before, with the tool where it is now.
    pub(crate) fn from_here(held: &HeldGrasp, tool: Pose) -> Self {
        let mut lifted = tool;
        lifted.position.z += LIFT;
        Grasp {
            approach: held.approach,
            tool,
            before: tool,
            lifted,
            orientation_tolerance: [0.2, 0.1, 0.1],
            above_bottom: held.above_bottom,
        }
    }
}

/// How the object in the gripper was grasped, so that it can be set down the same way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldGrasp {
    /// Ref of the object.
    pub object: String,
    /// From where.
    pub approach: Approach,
    /// Height of the tool above the object's lowest point \[m\].
    pub above_bottom: f64,
    /// Size of the object \[m\].
    pub size: Vec3,
    /// Pose of its middle in the tool's frame when it was grasped, where that is known.
    #[serde(default)]
    pub in_tool: Option<Pose>,
}

/// Why there is no way.
#[derive(Clone, Debug, PartialEq)]
pub enum NoGrasp {
    /// Wider than the fingers open, whichever way it is taken \[m\].
    TooWide {
        /// Narrowest width \[m\].
        width: f64,
    },
    /// Farther than the arm reaches \[m\].
    TooFar {
        /// Distance from the shoulder \[m\].
        distance: f64,
    },
}

/// Size with unknown edges filled in.
pub fn known_size(size: Vec3) -> Vec3 {
    let or = |value: f64, other: f64| {
        if value.is_finite() && value > 0.0 {
            value
        } else {
            other
        }
    };
    Vec3::new(
        or(size.x, UNKNOWN_SIZE.x),
        or(size.y, UNKNOWN_SIZE.y),
        or(size.z, UNKNOWN_SIZE.z),
    )
}

/// The tool's orientation in base_link: `heading` about z, then `pitch` downwards.
pub fn tool_rotation(heading: f64, pitch: f64) -> UnitQuaternion<f64> {
    UnitQuaternion::from_axis_angle(&Vector3::z_axis(), heading)
        * UnitQuaternion::from_axis_angle(&Vector3::y_axis(), pitch)
}

/// Heading from the shoulder to a point in base_link \[rad\].
pub fn bearing(body: &Embodiment, at: Vec3) -> f64 {
    (at.y - body.shoulder.y).atan2(at.x - body.shoulder.x)
}

/// Ways to grasp an upright object, best first.
///
/// # Errors
/// [`NoGrasp`] when it is too wide or too far for every way.
pub fn candidates(
    object_in_base: &Pose,
    size: Vec3,
    body: &Embodiment,
) -> Result<Vec<Grasp>, NoGrasp> {
    let size = known_size(size);
    let centre = object_in_base.position;
    let yaw = object_in_base.yaw();
    let bottom = centre.z - 0.5 * size.z;
    let top = centre.z + 0.5 * size.z;
    let toward = bearing(body, centre);
    let round = (size.x - size.y).abs() < ROUND;
    let fits = |width: f64| width <= body.gripper_max_width - MARGIN;
    let mut grasps = Vec::new();

    // From above. The fingers close along the tool's y, which lies at heading + 90°.
    let height =
        (top - (0.5 * size.z).min(0.5 * body.finger_length)).max(bottom + 0.5 * size.z.min(0.02));
    let top_headings: Vec<(f64, f64)> = if round {
        let width = size.x.min(size.y);
        [0.0, FRAC_PI_4, -FRAC_PI_4, FRAC_PI_2]
            .iter()
            .map(|turn| (toward + turn, width))
            .collect()
    } else {
        // Across the narrow side first.
        let mut options = vec![(yaw - FRAC_PI_2, size.x), (yaw, size.y)];
        options.sort_by(|a, b| a.1.total_cmp(&b.1));
        options
    };
    for (heading, width) in top_headings {
        if !fits(width) {
            continue;
        }
        // A gripper turned by 180° is the same gripper: take the turn that twists the wrist less.
        let off = angle_difference(toward, heading);
        let heading = if off.abs() > FRAC_PI_2 {
            heading + PI
        } else {
            heading
        };
        let tool = at(
            centre.x,
            centre.y,
            height,
            tool_rotation(heading, FRAC_PI_2),
        );
        let free_turn = if round { 0.2 } else { 0.1 };
        push(
            &mut grasps,
            Approach::Top,
            tool,
            (top - height).max(0.0) + STAND_BACK,
            [free_turn, 0.1, 0.1],
            height - bottom,
        );
    }

    // From the front. The heading follows from the place; the fingers close across it.
    let across = if round {
        size.x.min(size.y)
    } else {
        let turn = angle_difference(yaw, toward + FRAC_PI_2);
        size.x * turn.cos().abs() + size.y * turn.sin().abs()
    };
    let depth = if round {
        size.x.max(size.y)
    } else {
        let turn = angle_difference(yaw, toward);
        size.x * turn.cos().abs() + size.y * turn.sin().abs()
    };
    if fits(across) && 0.5 * depth <= body.finger_length {
        for approach in [Approach::Slanted, Approach::Level] {
            // Low things can't be reached from the side without touching what they stand on.
            let lowest = match approach {
                Approach::Level => 0.05,
                Approach::Slanted | Approach::Top => 0.03,
            };
            let height = centre.z.max(bottom + lowest);
            if height > top - 0.01 {
                continue;
            }
            let tool = at(
                centre.x,
                centre.y,
                height,
                tool_rotation(toward, approach.pitch()),
            );
            push(
                &mut grasps,
                approach,
                tool,
                0.5 * depth + STAND_BACK,
                [0.1, 0.1, 0.1],
                height - bottom,
            );
        }
    }

    if grasps.is_empty() {
        return Err(NoGrasp::TooWide {
            width: size.x.min(size.y).min(across),
        });
    }
    let distance = |g: &Grasp| g.tool.position.distance(body.shoulder);
    let nearest = grasps.iter().map(distance).fold(f64::INFINITY, f64::min);
    grasps.retain(|g| distance(g) <= body.reach);
    if grasps.is_empty() {
        return Err(NoGrasp::TooFar { distance: nearest });
    }
    Ok(grasps)
}

fn at(x: f64, y: f64, z: f64, rotation: UnitQuaternion<f64>) -> Isometry3<f64> {
    Isometry3::from_parts(Translation3::new(x, y, z), rotation)
}

/// The pose `back` metres behind the tool, along its own approach.
pub fn behind(tool: &Isometry3<f64>, back: f64) -> Isometry3<f64> {
    tool * Translation3::new(-back, 0.0, 0.0)
}

fn push(
    grasps: &mut Vec<Grasp>,
    approach: Approach,
    tool: Isometry3<f64>,
    back: f64,
    orientation_tolerance: [f64; 3],
    above_bottom: f64,
) {
    let lifted = Translation3::new(0.0, 0.0, LIFT) * tool;
    grasps.push(Grasp {
        approach,
        tool: tool.into(),
        before: behind(&tool, back).into(),
        lifted: lifted.into(),
        orientation_tolerance,
        above_bottom,
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pose(x: f64, y: f64, z: f64, yaw: f64) -> Pose {
        let mut p = Pose::planar(x, y, yaw);
        p.position.z = z;
        p
    }

    fn axis(pose: &Pose, v: Vector3<f64>) -> Vector3<f64> {
        pose.isometry().rotation * v
    }

    #[test]
    fn a_cup_is_taken_from_above_first_and_from_the_front_too() {
        let body = Embodiment::default();
        let found = candidates(
            &pose(0.6, 0.0, 0.79, 0.3),
            Vec3::new(0.08, 0.08, 0.1),
            &body,
        )
        .unwrap();
        assert_eq!(found[0].approach, Approach::Top);
        let down = axis(&found[0].tool, Vector3::x());
        assert!((down + Vector3::z()).norm() < 1e-9, "{down:?}");
        // Half a finger, 0.045 m, below the top at 0.84.
        assert!((found[0].tool.position.z - 0.795).abs() < 1e-9);
        assert!((found[0].before.position.z - (0.84 + STAND_BACK)).abs() < 1e-9);
        assert!((found[0].lifted.position.z - 0.795 - LIFT).abs() < 1e-9);
        assert!(found.iter().any(|g| g.approach == Approach::Level));
    }

    #[test]
    fn a_long_thing_is_taken_across_its_narrow_side_only() {
        let body = Embodiment::default();
        // A book of 0.21 m along its own x, which lies at 0.4 rad: only the 0.08 m fit.
        let found = candidates(
            &pose(0.55, 0.1, 0.47, 0.4),
            Vec3::new(0.21, 0.08, 0.04),
            &body,
        )
        .unwrap();
        for grasp in found.iter().filter(|g| g.approach == Approach::Top) {
            let fingers = axis(&grasp.tool, Vector3::y());
            let narrow = Vector3::new(-(0.4f64).sin(), (0.4f64).cos(), 0.0);
            assert!(fingers.dot(&narrow).abs() > 0.999, "{fingers:?}");
        }
    }

    #[test]
    fn too_wide_and_too_far_are_told_with_the_number() {
        let body = Embodiment::default();
        assert!(matches!(
            candidates(&pose(0.6, 0.0, 0.8, 0.0), Vec3::new(0.3, 0.3, 0.3), &body),
            Err(NoGrasp::TooWide { width }) if width >= 0.3 - 1e-9
        ));
        assert!(matches!(
            candidates(&pose(1.5, 0.0, 0.75, 0.0), Vec3::new(0.05, 0.05, 0.1), &body),
            // 1.5 - 0.08 from the shoulder.
            Err(NoGrasp::TooFar { distance }) if (distance - 1.42).abs() < 0.01
        ));
    }

    proptest! {
        /// Every way: finite, fingers level and never below the object's bottom, stands back from it.
        #[test]
        fn grasps_are_sound(x in 0.3..0.7f64, y in -0.4..0.4f64, z in 0.4..1.0f64, yaw in -4.0..4.0f64,
                            sx in 0.0..0.12f64, sy in 0.0..0.12f64, sz in 0.0..0.3f64) {
            let body = Embodiment::default();
            let object = pose(x, y, z, yaw);
            let size = known_size(Vec3::new(sx, sy, sz));
            if let Ok(found) = candidates(&object, Vec3::new(sx, sy, sz), &body) {
                for g in found {
                    prop_assert!(g.tool.check("tool").is_ok() && g.before.check("before").is_ok());
                    prop_assert!(axis(&g.tool, Vector3::y()).z.abs() < 1e-9);
                    prop_assert!(g.above_bottom > 0.0 && g.above_bottom <= size.z + 1e-9);
                    prop_assert!(g.before.position.distance(g.tool.position) >= STAND_BACK - 1e-9);
                }
            }
        }
    }
}

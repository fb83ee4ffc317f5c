//! Where something is set down: free spots on a support within reach, best first.

use eh_contract::command::TargetBinding;
use eh_contract::footprint::Footprint;
use eh_contract::geometry::Vec3;
use eh_contract::scene::{Kind, SceneObject};

use crate::program::Context;

/// Most spots that are tried.
pub const MAX_SPOTS: usize = 8;

/// Free rim of the support around what is set down \[m\].
const RIM: f64 = 0.04;

/// Room for the fingers between what is set down and what stands there \[m\].
const FINGERS: f64 = 0.05;

/// Distance between two spots that are tried \[m\].
const SPACING: f64 = 0.08;

/// Distance from the shoulder at which the arm sets down most easily \[m\].
const EASY: f64 = 0.5;

/// Spots on top of the support, as points in the map at the height of its top.
///
/// `base` is base_link in the map. Spots that are out of the arm's reach are left out, so that an empty
/// list means: stand somewhere else, or everything is full.
pub fn candidates(
    support: &TargetBinding,
    held_ref: &str,
    held_size: Vec3,
    base: &eh_contract::geometry::Pose,
    context: &Context<'_>,
) -> Vec<Vec3> {
    let body = context.body;
    let top = support.pose.position.z + 0.5 * support.size.z;
    let radius = 0.5 * held_size.x.hypot(held_size.y);
    let footprint = Footprint::new(&support.pose, support.size);
    let shoulder = base.isometry() * nalgebra::Point3::from(body.shoulder.vector());
    let others: Vec<Footprint> = context
        .scene
        .into_iter()
        .flat_map(|s| s.live())
        .filter(|o| stands_on(o, &footprint, top, held_ref))
        .map(|o| Footprint::new(&o.pose, o.size))
        .collect();
    // A support too small for the rim is used in its middle.
    let room = |half: f64| (half - radius - RIM).max(0.0);
    let (room_x, room_y) = (room(footprint.half_x), room(footprint.half_y));
    let mut spots: Vec<(f64, Vec3)> = Vec::new();
    for u in line(room_x) {
        for v in line(room_y) {
            let (sin, cos) = footprint.yaw.sin_cos();
            let at = Vec3::new(
                footprint.x + cos * u - sin * v,
                footprint.y + sin * u + cos * v,
                top,
            );
            let away = (at.x - shoulder.x).hypot(at.y - shoulder.y);
            let reach = away.hypot(at.z + 0.5 * held_size.z - shoulder.z);
            if reach > body.reach {
                continue;
            }
            let free = others
                .iter()
                .map(|o| o.distance(at.x, at.y))
                .fold(f64::INFINITY, f64::min);
            if free < radius + FINGERS {
                continue;
            }
            let turn = {
                let bearing = (at.y - base.position.y).atan2(at.x - base.position.x);
                eh_contract::geometry::angle_difference(base.yaw(), bearing).abs()
            };
            // More free room than 0.15 m is worth nothing more.
            let cost = (away - EASY).abs() + 0.3 * turn - 0.5 * (free - radius).clamp(0.0, 0.15);
            spots.push((cost, at));
        }
    }
    spots.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut chosen: Vec<Vec3> = Vec::new();
    for (_, at) in spots {
        if chosen.len() < MAX_SPOTS && !chosen.iter().any(|c| c.distance_xy(at) < SPACING) {
            chosen.push(at);
        }
    }
    chosen
}

/// From -half to half, at most 41 points, the middle always among them.
fn line(half: f64) -> Vec<f64> {
    let n = (half / 0.04).floor().clamp(0.0, 20.0) as i32;
    if n == 0 {
        return vec![0.0];
    }
    (-n..=n)
        .map(|i| half * f64::from(i) / f64::from(n))
        .collect()
}

fn stands_on(o: &SceneObject, support: &Footprint, top: f64, held_ref: &str) -> bool {
    o.kind == Kind::Object
        && o.r#ref != held_ref
        && support.distance(o.pose.position.x, o.pose.position.y) < 0.1
        && o.pose.position.z + 0.5 * o.size.z > top - 0.05
        && o.pose.position.z - 0.5 * o.size.z < top + 0.3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embodiment::Embodiment;
    use eh_contract::geometry::Pose;
    use eh_contract::scene::SceneSnapshot;
    use eh_contract::Stamp;

    fn table() -> TargetBinding {
        TargetBinding {
            argument: "support".into(),
            r#ref: "table_1".into(),
            class_name: "table".into(),
            kind: Kind::Surface,
            version: 1,
            frame_id: "map".into(),
            pose: Pose {
                position: Vec3::new(1.0, 0.0, 0.37),
                ..Pose::default()
            },
            size: Vec3::new(0.9, 0.7, 0.74),
            last_seen: Stamp(1),
            support: None,
        }
    }

    #[test]
    fn the_spot_is_on_the_table_within_reach_and_clear_of_others() {
        let body = Embodiment::default();
        let base = Pose::planar(0.05, 0.0, 0.0);
        let bare = Context {
            base_in_map: Some(base),
            ..Context::of(&body)
        };
        let size = Vec3::new(0.08, 0.08, 0.1);
        let first = candidates(&table(), "cup_1", size, &base, &bare)[0];
        assert!((first.z - 0.74).abs() < 1e-9);
        let blocker = SceneObject {
            r#ref: "bowl_1".into(),
            kind: Kind::Object,
            pose: Pose {
                position: Vec3::new(first.x, first.y, 0.77),
                ..Pose::default()
            },
            size: Vec3::new(0.1, 0.1, 0.06),
            ..SceneObject::default()
        };
        let scene = SceneSnapshot {
            objects: vec![blocker.clone()],
            ..SceneSnapshot::default()
        };
        let full = Context {
            scene: Some(&scene),
            ..bare
        };
        let radius = 0.5 * 0.08f64.hypot(0.08);
        for spot in candidates(&table(), "cup_1", size, &base, &full) {
            let gap = Footprint::new(&blocker.pose, blocker.size).distance(spot.x, spot.y);
            assert!(gap >= radius + FINGERS - 1e-9, "{gap}");
            assert!((spot.x - 1.0).abs() <= 0.45 - radius - RIM + 1e-9);
        }
    }

    #[test]
    fn a_table_out_of_reach_has_no_spot() {
        let body = Embodiment::default();
        let base = Pose::planar(-3.0, 0.0, 0.0);
        let context = Context {
            base_in_map: Some(base),
            ..Context::of(&body)
        };
        assert!(candidates(&table(), "", Vec3::new(0.05, 0.05, 0.1), &base, &context).is_empty());
    }
}

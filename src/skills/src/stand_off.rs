//! Where the base stands to reach, see or visit something: candidates, best first.

use std::f64::consts::FRAC_PI_4;

use eh_contract::command::TargetBinding;
use eh_contract::footprint::{distance_to_outline, inside_outline, Footprint};
use eh_contract::geometry::{Pose, Vec3};
use eh_contract::scene::{Kind, SceneObject};

use crate::program::Context;

/// Most candidates that are tried; each costs a question to the navigation server.
pub const MAX_CANDIDATES: usize = 8;

/// Two candidates closer than this are one \[m\]: a planner that refuses one refuses the other.
const SPACING: f64 = 0.12;

/// How much farther than the largest stand-off something may be when there is no place closer to it \[m\]:
/// the part of that stand-off which is kept for the error of driving.
const STRETCH: f64 = 0.03;

/// What stands lower than this is in the way of the base \[m\].
const LOW: f64 = 0.3;

/// A place to stand with its cost; the smallest comes first.
struct Candidate {
    pose: Pose,
    cost: f64,
}

/// Poses of base_link in the target's frame, best first; never more than [`MAX_CANDIDATES`]. Empty only
/// when the target's own numbers are not usable.
pub fn candidates(target: &TargetBinding, context: &Context<'_>) -> Vec<Pose> {
    if target.pose.check("target").is_err() {
        return Vec::new();
    }
    let found = match target.kind {
        Kind::Place => return vec![flat(&target.pose)],
        Kind::Room | Kind::Floor | Kind::Building => in_room(target, context),
        Kind::Person | Kind::Robot => around(target, context.body.person_stand_off, context),
        Kind::Object => match &target.support {
            Some(support) if !support.size.is_zero() => {
                let support_box = Footprint::new(&support.pose, support.size);
                let most = context.body.max_stand_off;
                let mut list =
                    beside_support(target, &support_box, edge_gap(context), most, context);
                if list.is_empty() {
                    // In the middle of a wide table: as close to its edge as the base may stand.
                    list = beside_support(
                        target,
                        &support_box,
                        least_gap(context),
                        most + STRETCH,
                        context,
                    );
                }
                if list.is_empty() {
                    // Out of the arm's reach from every side: next to it all the same.
                    list = beside_support(
                        target,
                        &support_box,
                        least_gap(context),
                        f64::INFINITY,
                        context,
                    );
                }
                list
            }
            _ => around(target, context.body.stand_off, context),
        },
        Kind::Surface | Kind::Container | Kind::Door | Kind::Unspecified => {
            beside_box(target, context)
        }
    };
    let support = target.support.as_ref().map(|s| s.r#ref.as_str());
    let is_own = |r: &str| r == target.r#ref || Some(r) == support;
    let home = room_of(target, context);
    let mut free: Vec<Candidate> = Vec::new();
    let mut blocked: Vec<Candidate> = Vec::new();
    for mut candidate in found {
        let at = candidate.pose.position;
        let clearance = clearance(at, context, is_own);
        if let Some(base) = &context.base_in_map {
            candidate.cost += 0.3 * base.position.distance_xy(at);
        }
        // Up to half a metre more room is worth a little way.
        candidate.cost -= 0.6 * (clearance - context.body.base_radius).clamp(0.0, 0.5);
        let in_room = home.is_none_or(|room| room_allows(room, at, context));
        if in_room && clearance >= context.body.base_radius + 0.5 * context.body.base_clearance {
            free.push(candidate);
        } else {
            blocked.push(candidate);
        }
    }
    let mut chosen: Vec<Pose> = Vec::new();
    for mut list in [free, blocked] {
        // The blocked ones come last: the scene may be wrong, the navigation server knows better.
        list.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        for candidate in list {
            let near = |p: &Pose| p.position.distance_xy(candidate.pose.position) < SPACING;
            if chosen.len() < MAX_CANDIDATES && !chosen.iter().any(near) {
                chosen.push(candidate.pose);
            }
        }
    }
    chosen
}

fn flat(pose: &Pose) -> Pose {
    Pose::planar(pose.position.x, pose.position.y, pose.yaw())
}

fn facing(x: f64, y: f64, to: Vec3) -> Pose {
    Pose::planar(x, y, (to.y - y).atan2(to.x - x))
}

/// The smallest gap between base_link and furniture edge, where nothing else will do.
fn least_gap(context: &Context<'_>) -> f64 {
    context.body.base_radius + 0.3 * context.body.base_clearance
}

/// The usual smallest gap between base_link and furniture edge.
fn edge_gap(context: &Context<'_>) -> f64 {
    context.body.base_radius + context.body.base_clearance
}

/// Beside the box that the object stands on, over each of its sides, facing the object.
fn beside_support(
    target: &TargetBinding,
    support: &Footprint,
    least: f64,
    most: f64,
    context: &Context<'_>,
) -> Vec<Candidate> {
    let body = context.body;
    let object = target.pose.position;
    let object_box = Footprint::new(&target.pose, target.size);
    let (u, v) = to_local(support, object.x, object.y);
    let mut out = Vec::new();
    for side in Side::ALL {
        let (half, along, lateral) = side.split(support, u, v);
        let depth = (half - along).max(0.0);
        for shift in [0.0, 0.15, -0.15, 0.3, -0.3] {
            // Far enough from the furniture, and no closer to the object than wanted.
            let wanted = (body.stand_off * body.stand_off - shift * shift)
                .max(0.0)
                .sqrt()
                - depth;
            let gap = wanted.max(least);
            let (x, y) = to_world(support, side.join(half + gap, lateral + shift));
            let reach = object_box.distance(x, y);
            if reach <= most {
                out.push(Candidate {
                    pose: facing(x, y, object),
                    cost: 2.0 * (reach - body.stand_off).abs() + 0.5 * shift.abs(),
                });
            }
        }
    }
    out
}

/// Beside furniture itself, at the middle of each side and towards its ends, facing it.
fn beside_box(target: &TargetBinding, context: &Context<'_>) -> Vec<Candidate> {
    let footprint = Footprint::new(&target.pose, target.size);
    // A little closer than to an object, so that an object on it is within reach too.
    let gap = edge_gap(context).max(context.body.stand_off - 0.1);
    let mut out = Vec::new();
    for side in Side::ALL {
        let (half, _, _) = side.split(&footprint, 0.0, 0.0);
        let width = side.width(&footprint);
        for share in [0.0, 0.5, -0.5] {
            let lateral = share * width;
            let (x, y) = to_world(&footprint, side.join(half + gap, lateral));
            let (fx, fy) = to_world(&footprint, side.join(0.0, lateral));
            out.push(Candidate {
                pose: facing(x, y, Vec3::new(fx, fy, 0.0)),
                cost: 0.5 * lateral.abs(),
            });
        }
    }
    out
}

/// On a circle around something, the nearest to the robot first.
fn around(target: &TargetBinding, gap: f64, context: &Context<'_>) -> Vec<Candidate> {
    let centre = target.pose.position;
    let half = 0.5 * target.size.x.max(target.size.y).max(0.0);
    let radius = (half + gap).max(edge_gap(context) + half);
    let begin = context.base_in_map.map_or(0.0, |b| {
        (b.position.y - centre.y).atan2(b.position.x - centre.x)
    });
    (0..8)
        .map(|i| {
            let angle = begin + f64::from(i) * FRAC_PI_4;
            let (x, y) = (
                centre.x + radius * angle.cos(),
                centre.y + radius * angle.sin(),
            );
            Candidate {
                pose: facing(x, y, centre),
                cost: 0.0,
            }
        })
        .collect()
}

/// Free points of a room with much room around them.
fn in_room(target: &TargetBinding, context: &Context<'_>) -> Vec<Candidate> {
    let outline = outline_of(target, context);
    let fold = |f: fn(&Vec3) -> f64, pick: fn(f64, f64) -> f64, begin: f64| {
        outline.iter().map(f).fold(begin, pick)
    };
    let (x0, x1) = (
        fold(|p| p.x, f64::min, f64::INFINITY),
        fold(|p| p.x, f64::max, f64::NEG_INFINITY),
    );
    let (y0, y1) = (
        fold(|p| p.y, f64::min, f64::INFINITY),
        fold(|p| p.y, f64::max, f64::NEG_INFINITY),
    );
    let extent = (x1 - x0).max(y1 - y0);
    if !extent.is_finite() || extent <= 0.0 {
        return vec![Candidate {
            pose: flat(&target.pose),
            cost: 0.0,
        }];
    }
    // At most 40 × 40 points, however large the room is.
    let step = (extent / 40.0).max(0.2);
    let heading = |x: f64, y: f64| {
        context.base_in_map.map_or(0.0, |b| {
            let (dx, dy) = (x - b.position.x, y - b.position.y);
            if dx.hypot(dy) < 0.3 {
                b.yaw()
            } else {
                dy.atan2(dx)
            }
        })
    };
    let mut out = Vec::new();
    let columns = ((x1 - x0) / step) as usize;
    let rows = ((y1 - y0) / step) as usize;
    for i in 0..=columns {
        for j in 0..=rows {
            let (x, y) = (x0 + (i as f64 + 0.5) * step, y0 + (j as f64 + 0.5) * step);
            if !inside_outline(x, y, &outline) {
                continue;
            }
            let wall = distance_to_outline(x, y, &outline);
            let room = wall.min(clearance(Vec3::new(x, y, 0.0), context, |_| false));
            if room < context.body.base_radius + context.body.base_clearance {
                continue;
            }
            out.push(Candidate {
                pose: Pose::planar(x, y, heading(x, y)),
                cost: -3.0 * room.min(0.7),
            });
        }
    }
    if out.is_empty() {
        out.push(Candidate {
            pose: flat(&target.pose),
            cost: 0.0,
        });
    }
    // Far apart: if one is refused, a neighbour will be too.
    out.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    out
}

/// The room's outline from the scene, else the box of the binding.
fn outline_of(target: &TargetBinding, context: &Context<'_>) -> Vec<Vec3> {
    let known = context
        .scene
        .and_then(|s| s.get(&target.r#ref))
        .filter(|o| o.outline.len() >= 3);
    match known {
        Some(room) => room.outline.clone(),
        None => Footprint::new(&target.pose, target.size).corners().to_vec(),
    }
}

/// The room that the target (or what it stands on) is in, if the scene has its outline.
fn room_of<'a>(target: &TargetBinding, context: &Context<'a>) -> Option<&'a SceneObject> {
    let scene = context.scene?;
    let at = target
        .support
        .as_ref()
        .map_or(target.pose.position, |s| s.pose.position);
    // A door is in no room, a room in itself.
    if matches!(target.kind, Kind::Door | Kind::Room) {
        return None;
    }
    scene.live().find(|o| {
        o.kind == Kind::Room && o.outline.len() >= 3 && inside_outline(at.x, at.y, &o.outline)
    })
}

/// True when the base fits there without standing in a wall.
fn room_allows(room: &SceneObject, at: Vec3, context: &Context<'_>) -> bool {
    inside_outline(at.x, at.y, &room.outline)
        && distance_to_outline(at.x, at.y, &room.outline)
            >= context.body.base_radius + 0.5 * context.body.base_clearance
}

/// Distance from a point to the nearest thing that the scene knows to stand on the floor \[m\].
fn clearance(at: Vec3, context: &Context<'_>, is_own: impl Fn(&str) -> bool) -> f64 {
    let Some(scene) = context.scene else {
        return f64::INFINITY;
    };
    scene
        .live()
        .filter(|o| match o.kind {
            Kind::Surface | Kind::Container | Kind::Person => true,
            Kind::Object => o.pose.position.z - 0.5 * o.size.z < LOW,
            Kind::Unspecified
            | Kind::Building
            | Kind::Floor
            | Kind::Room
            | Kind::Robot
            | Kind::Place
            | Kind::Door => false,
        })
        .filter(|o| !is_own(&o.r#ref))
        .map(|o| Footprint::new(&o.pose, o.size).distance(at.x, at.y))
        .fold(f64::INFINITY, f64::min)
}

/// A side of a rectangle, by the axis and the direction in which one leaves it.
#[derive(Clone, Copy)]
enum Side {
    Front,
    Back,
    Left,
    Right,
}

impl Side {
    const ALL: [Side; 4] = [Side::Front, Side::Back, Side::Left, Side::Right];

    /// Half the extent outwards, and a local point as (outwards, along the side).
    fn split(self, f: &Footprint, u: f64, v: f64) -> (f64, f64, f64) {
        match self {
            Side::Front => (f.half_x, u, v),
            Side::Back => (f.half_x, -u, v),
            Side::Left => (f.half_y, v, u),
            Side::Right => (f.half_y, -v, u),
        }
    }

    /// Half the extent along the side.
    fn width(self, f: &Footprint) -> f64 {
        match self {
            Side::Front | Side::Back => f.half_y,
            Side::Left | Side::Right => f.half_x,
        }
    }

    /// Back from (outwards, along) to the local point.
    fn join(self, out: f64, along: f64) -> (f64, f64) {
        match self {
            Side::Front => (out, along),
            Side::Back => (-out, along),
            Side::Left => (along, out),
            Side::Right => (along, -out),
        }
    }
}

fn to_local(f: &Footprint, x: f64, y: f64) -> (f64, f64) {
    let (sin, cos) = f.yaw.sin_cos();
    let (dx, dy) = (x - f.x, y - f.y);
    (cos * dx + sin * dy, -sin * dx + cos * dy)
}

fn to_world(f: &Footprint, (u, v): (f64, f64)) -> (f64, f64) {
    let (sin, cos) = f.yaw.sin_cos();
    (f.x + cos * u - sin * v, f.y + sin * u + cos * v)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embodiment::Embodiment;
    use eh_contract::command::Support;
    use eh_contract::geometry::angle_difference;
    use eh_contract::scene::SceneSnapshot;
    use eh_contract::Stamp;
    use proptest::prelude::*;

    fn binding(kind: Kind, pose: Pose, size: Vec3, support: Option<Support>) -> TargetBinding {
        TargetBinding {
            argument: "target".into(),
            r#ref: "x_1".into(),
            class_name: "x".into(),
            kind,
            version: 1,
            frame_id: "map".into(),
            pose,
            size,
            last_seen: Stamp(1),
            support,
        }
    }

    fn table() -> Support {
        Support {
            r#ref: "table_1".into(),
            pose: Pose {
                position: Vec3::new(2.0, 0.0, 0.37),
                ..Pose::default()
            },
            size: Vec3::new(0.9, 0.7, 0.74),
        }
    }

    fn cup(x: f64, y: f64) -> TargetBinding {
        let pose = Pose {
            position: Vec3::new(x, y, 0.79),
            ..Pose::default()
        };
        binding(
            Kind::Object,
            pose,
            Vec3::new(0.08, 0.08, 0.1),
            Some(table()),
        )
    }

    fn context<'a>(body: &'a Embodiment, scene: Option<&'a SceneSnapshot>) -> Context<'a> {
        Context {
            base_in_map: Some(Pose::planar(0.0, 0.0, 0.0)),
            scene,
            ..Context::of(body)
        }
    }

    #[test]
    fn an_object_is_faced_over_the_nearest_free_side_of_its_support() {
        let body = Embodiment::default();
        let target = cup(1.7, 0.0);
        let found = candidates(&target, &context(&body, None));
        let first = found.first().unwrap();
        // The robot is at x = 0, the table's near edge at 2.0 - 0.45 = 1.55, so it stays on that side.
        assert!(first.position.x < 1.55 - body.base_radius, "{first:?}");
        let gap =
            Footprint::new(&target.pose, target.size).distance(first.position.x, first.position.y);
        assert!(gap <= body.max_stand_off, "{gap}");
        let bearing = (0.0 - first.position.y).atan2(1.7 - first.position.x);
        assert!(angle_difference(first.yaw(), bearing).abs() < 1e-9);
    }

    #[test]
    fn in_the_middle_of_a_wide_table_it_stands_closer_to_the_edge() {
        let body = Embodiment::default();
        // 0.4 m from every edge and 0.03 m thick: from the usual gap of 0.27 + 0.10 m it is 0.74 m away,
        // more than the largest stand-off of 0.69 m; from 0.27 + 0.03 m it is 0.67 m.
        let mut target = cup(2.0, 0.0);
        target.size = Vec3::new(0.06, 0.06, 0.06);
        if let Some(support) = &mut target.support {
            support.size = Vec3::new(0.8, 0.8, 0.45);
        }
        let first = candidates(&target, &context(&body, None))[0];
        let gap =
            Footprint::new(&target.pose, target.size).distance(first.position.x, first.position.y);
        assert!((gap - 0.67).abs() < 0.01, "{gap}");
        // 0.8 m from every edge it is out of reach; the base stands beside the table, not in it.
        if let Some(support) = &mut target.support {
            support.size = Vec3::new(1.6, 1.6, 0.45);
        }
        for pose in candidates(&target, &context(&body, None)) {
            let table = Footprint {
                x: 2.0,
                y: 0.0,
                yaw: 0.0,
                half_x: 0.8,
                half_y: 0.8,
            };
            assert!(table.distance(pose.position.x, pose.position.y) >= body.base_radius);
        }
    }

    #[test]
    fn known_furniture_in_the_way_sends_it_to_another_side() {
        let body = Embodiment::default();
        let target = cup(2.0, 0.0);
        let wardrobe = SceneObject {
            r#ref: "wardrobe_1".into(),
            kind: Kind::Container,
            frame_id: "map".into(),
            // Covers the near side: x from 0.9 to 1.5.
            pose: Pose::planar(1.2, 0.0, 0.0),
            size: Vec3::new(0.6, 2.0, 1.8),
            ..SceneObject::default()
        };
        let scene = SceneSnapshot {
            objects: vec![wardrobe],
            ..SceneSnapshot::default()
        };
        let first = candidates(&target, &context(&body, Some(&scene)))[0];
        assert!(
            first.position.x > 1.5 + body.base_radius,
            "it must not stand in the wardrobe: {first:?}"
        );
    }

    #[test]
    fn a_room_is_entered_where_there_is_most_room() {
        let body = Embodiment::default();
        let room = binding(
            Kind::Room,
            Pose::planar(5.0, 5.0, 0.0),
            Vec3::new(4.0, 3.0, 0.0),
            None,
        );
        let found = candidates(&room, &context(&body, None));
        assert!(!found.is_empty() && found.len() <= MAX_CANDIDATES);
        for p in &found {
            // At least the radius and the clearance away from each wall.
            assert!((p.position.x - 5.0).abs() <= 2.0 - 0.37 + 1e-9);
            assert!((p.position.y - 5.0).abs() <= 1.5 - 0.37 + 1e-9);
        }
    }

    #[test]
    fn a_place_is_itself_and_bad_numbers_give_nothing() {
        let body = Embodiment::default();
        let place = binding(
            Kind::Place,
            Pose::planar(1.0, 2.0, 0.7),
            Vec3::default(),
            None,
        );
        let found = candidates(&place, &context(&body, None));
        assert_eq!(found.len(), 1);
        assert!((found[0].yaw() - 0.7).abs() < 1e-9);
        let nowhere = binding(
            Kind::Surface,
            Pose::planar(f64::NAN, 0.0, 0.0),
            Vec3::default(),
            None,
        );
        assert!(candidates(&nowhere, &context(&body, None)).is_empty());
    }

    proptest! {
        /// Whatever the table's place and turn: finite poses, outside the table by the base's radius,
        /// within reach of the object.
        #[test]
        fn candidates_are_sound(x in -50.0..50.0f64, y in -50.0..50.0f64, yaw in 0.0..std::f64::consts::TAU,
                                u in -0.4..0.4f64, v in -0.3..0.3f64) {
            let body = Embodiment::default();
            let mut pose = Pose::planar(x, y, yaw);
            pose.position.z = 0.37;
            let support = Support { r#ref: "t".into(), pose, size: Vec3::new(0.9, 0.7, 0.74) };
            let footprint = Footprint::new(&support.pose, support.size);
            let (ox, oy) = to_world(&footprint, (u, v));
            let mut object = cup(ox, oy);
            object.support = Some(support);
            let found = candidates(&object, &context(&body, None));
            prop_assert!(!found.is_empty());
            for p in found {
                prop_assert!(p.check("candidate").is_ok());
                prop_assert!(footprint.distance(p.position.x, p.position.y) >= body.base_radius);
                let gap = Footprint::new(&object.pose, object.size).distance(p.position.x, p.position.y);
                prop_assert!(gap <= body.max_stand_off + STRETCH + 1e-9, "{gap}");
            }
        }
    }
}

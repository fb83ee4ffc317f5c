//! Whether the line between a camera and a point is free, as far as a prior map and known boxes tell.

use nalgebra::Point3;

use crate::footprint::inside_outline;
use crate::geometry::{Pose, Vec3};
use crate::perception::View;
use crate::scene::{Kind, SceneObject};

/// How far before or behind a door's own line a room's outline may run \[m\]: walls are thick.
const WALL_THICKNESS: f64 = 0.3;

/// How far from a jamb a line has to pass to go through the door for sure \[m\]: poses are not exact, and
/// an object is seen by more than its middle.
const JAMB_MARGIN: f64 = 0.1;

/// How much a box is shrunk before it counts as an obstacle \[m\]: what stands on a table is not hidden
/// by the table's upper edge.
const SKIN: f64 = 0.03;

/// How far ahead of the camera a room is looked into \[m\].
const LOOK_AHEAD: f64 = 1.0;

/// Height of the point that stands for a room \[m\].
const LOOK_HEIGHT: f64 = 0.8;

/// Key of a door's state: `true` or `false`.
const OPEN: &str = crate::belief::STATE_OPEN;

/// A box with edges along its own axes, for lines of sight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Solid {
    /// Pose of its centre.
    pub pose: Pose,
    /// Edge lengths \[m\].
    pub size: Vec3,
}

impl Solid {
    /// True when the segment passes through the box (slab method; Kay and Kajiya 1986,
    /// <https://doi.org/10.1145/15886.15916>). A box without volume hides nothing.
    pub fn blocks(&self, from: Vec3, to: Vec3, skin: f64) -> bool {
        let half = [self.size.x, self.size.y, self.size.z].map(|edge| edge / 2.0 - skin);
        if half.iter().any(|h| h.is_nan() || *h <= 0.0) {
            return false;
        }
        let frame = self.pose.isometry();
        let a = frame.inverse_transform_point(&Point3::from(from.vector()));
        let b = frame.inverse_transform_point(&Point3::from(to.vector()));
        let (mut enter, mut leave) = (0.0_f64, 1.0_f64);
        for axis in 0..3 {
            let (start, delta) = (a[axis], b[axis] - a[axis]);
            if delta.abs() < 1e-12 {
                if start.abs() > half[axis] {
                    return false;
                }
                continue;
            }
            let (t0, t1) = ((-half[axis] - start) / delta, (half[axis] - start) / delta);
            enter = enter.max(t0.min(t1));
            leave = leave.min(t0.max(t1));
        }
        enter < leave
    }

    /// True when the point is inside the box grown by `margin` \[m\].
    pub fn contains(&self, point: Vec3, margin: f64) -> bool {
        let p = self
            .pose
            .isometry()
            .inverse_transform_point(&Point3::from(point.vector()));
        [self.size.x, self.size.y, self.size.z]
            .iter()
            .zip(p.coords.iter())
            .all(|(edge, v)| v.abs() <= edge / 2.0 + margin)
    }
}

/// Where the line leaves or enters a room's outline away from any open door.
fn passes_a_wall<'a>(
    from: Vec3,
    to: Vec3,
    rooms: impl Iterator<Item = &'a SceneObject>,
    doors: &[&SceneObject],
) -> bool {
    for room in rooms {
        let corners = &room.outline;
        for (a, b) in corners
            .iter()
            .zip(corners.iter().cycle().skip(1))
            .take(corners.len())
        {
            let Some(at) = crossing(from, to, *a, *b) else {
                continue;
            };
            let through_a_door = doors.iter().any(|door| {
                let p = door.pose.isometry().inverse_transform_point(&Point3::new(
                    at.x,
                    at.y,
                    door.pose.position.z,
                ));
                p.x.abs() <= door.size.x / 2.0 - JAMB_MARGIN
                    && p.y.abs() <= WALL_THICKNESS
                    && door.state.get(OPEN).map(String::as_str) != Some("false")
            });
            if !through_a_door {
                return true;
            }
        }
    }
    false
}

/// The point where two segments cross on the floor.
fn crossing(a: Vec3, b: Vec3, c: Vec3, d: Vec3) -> Option<Vec3> {
    let (rx, ry) = (b.x - a.x, b.y - a.y);
    let (sx, sy) = (d.x - c.x, d.y - c.y);
    let denominator = rx * sy - ry * sx;
    if denominator.abs() < 1e-12 {
        return None;
    }
    let (qx, qy) = (c.x - a.x, c.y - a.y);
    let t = (qx * sy - qy * sx) / denominator;
    let u = (qx * ry - qy * rx) / denominator;
    ((0.0..=1.0).contains(&t) && (0.0..=1.0).contains(&u))
        .then(|| Vec3::new(a.x + t * rx, a.y + t * ry, 0.0))
}

/// True when nothing that is known hides `point` from `camera`: neither a wall between rooms nor a box.
///
/// `nodes` are scene objects in the map's frame; those whose ref is in `except` hide nothing (the thing
/// looked for). Unknown obstacles are not seen, so `true` means "free as far as known".
pub fn line_of_sight<'a>(
    camera: Vec3,
    point: Vec3,
    nodes: impl Iterator<Item = &'a SceneObject> + Clone,
    except: &[&str],
) -> bool {
    let doors: Vec<&SceneObject> = nodes.clone().filter(|n| n.kind == Kind::Door).collect();
    let rooms = nodes.clone().filter(|n| n.kind == Kind::Room);
    if passes_a_wall(camera, point, rooms, &doors) {
        return false;
    }
    !nodes
        .filter(|n| {
            matches!(n.kind, Kind::Surface | Kind::Container | Kind::Object)
                && !n.retired
                && !except.contains(&n.r#ref.as_str())
        })
        .any(|n| {
            let solid = Solid {
                pose: n.pose,
                size: n.size,
            };
            // Inside a container nothing can be seen from outside, and the box itself says so.
            let skin = match n.kind {
                Kind::Object => SKIN / 3.0,
                _ => SKIN,
            };
            solid.blocks(camera, point, skin)
        })
}

/// How much of a place the camera covers, 0 to 1: `None` when the node's kind or size does not tell.
///
/// For furniture the share of five points of its top face that are in view and not hidden (where the top is
/// above the camera, whether its middle is); for a room 1
/// when the camera is inside and looks inwards, else whether its middle is in view; for places, doors
/// and persons their own point.
pub fn covered_share<'a>(
    view: &View,
    node: &SceneObject,
    nodes: impl Iterator<Item = &'a SceneObject> + Clone,
) -> Option<f64> {
    covered_by_views(&[view], node, nodes)
}

/// As [`covered_share`], for several views together: a point counts that one of them shows. A head that
/// sweeps over a wide table covers it although no single view does.
pub fn covered_by_views<'a>(
    views: &[&View],
    node: &SceneObject,
    nodes: impl Iterator<Item = &'a SceneObject> + Clone,
) -> Option<f64> {
    let seen = |point: Vec3| {
        views.iter().any(|view| {
            let eye = view.camera.position;
            view.covers(point, 1.0) && line_of_sight(eye, point, nodes.clone(), &[&node.r#ref])
        })
    };
    let share = |points: &[Vec3]| {
        points.iter().filter(|p| seen(**p)).count() as f64 / points.len().max(1) as f64
    };
    match node.kind {
        Kind::Room => {
            let inside = |view: &&View| {
                let eye = view.camera.position;
                let ahead = view.camera.isometry() * Point3::new(0.0, 0.0, LOOK_AHEAD);
                inside_outline(eye.x, eye.y, &node.outline)
                    && inside_outline(ahead.x, ahead.y, &node.outline)
            };
            if views.iter().any(inside) {
                return Some(1.0);
            }
            let centre = node.pose.position;
            Some(share(&[Vec3::new(centre.x, centre.y, LOOK_HEIGHT)]))
        }
        Kind::Surface | Kind::Container => {
            let top = node.size.z / 2.0 + SKIN;
            let frame = node.pose.isometry();
            // What is higher than the camera shows no top: its middle counts.
            let above = |view: &&View| view.camera.position.z <= node.pose.position.z + top;
            if !views.is_empty() && views.iter().all(above) {
                return Some(share(&[node.pose.position]));
            }
            let points: Vec<Vec3> = [
                (0.0, 0.0),
                (1.0, 1.0),
                (1.0, -1.0),
                (-1.0, 1.0),
                (-1.0, -1.0),
            ]
            .iter()
            .map(|(x, y)| {
                let p = Point3::new(x * 0.35 * node.size.x, y * 0.35 * node.size.y, top);
                Vec3::from((frame * p).coords)
            })
            .collect();
            Some(share(&points))
        }
        Kind::Place | Kind::Door | Kind::Person | Kind::Object => {
            Some(share(&[node.pose.position]))
        }
        Kind::Unspecified | Kind::Building | Kind::Floor | Kind::Robot => None,
    }
}

/// The room whose outline holds the point.
pub fn room_at<'a>(
    x: f64,
    y: f64,
    mut rooms: impl Iterator<Item = &'a SceneObject>,
) -> Option<&'a SceneObject> {
    rooms.find(|r| r.kind == Kind::Room && inside_outline(x, y, &r.outline))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, kind: Kind) -> SceneObject {
        SceneObject {
            r#ref: name.into(),
            kind,
            frame_id: "map".into(),
            ..SceneObject::default()
        }
    }

    fn rect(x0: f64, y0: f64, x1: f64, y1: f64) -> Vec<Vec3> {
        [(x0, y0), (x1, y0), (x1, y1), (x0, y1)]
            .map(|(x, y)| Vec3::new(x, y, 0.0))
            .to_vec()
    }

    /// Two rooms side by side with a door of 1 m at (4, 2), and a table in the right one.
    fn home() -> Vec<SceneObject> {
        let mut left = node("left", Kind::Room);
        left.outline = rect(0.0, 0.0, 4.0, 4.0);
        let mut right = node("right", Kind::Room);
        right.outline = rect(4.0, 0.0, 8.0, 4.0);
        let mut door = node("door_1", Kind::Door);
        door.pose = Pose::planar(4.0, 2.0, std::f64::consts::FRAC_PI_2);
        door.size = Vec3::new(1.0, 0.1, 2.0);
        let mut table = node("table_1", Kind::Surface);
        table.pose = Pose::planar(7.0, 2.0, 0.0);
        table.pose.position.z = 0.4;
        table.size = Vec3::new(1.0, 1.0, 0.8);
        vec![left, right, door, table]
    }

    #[test]
    fn walls_hide_and_open_doors_do_not() {
        let mut home = home();
        let eye = Vec3::new(1.0, 2.0, 1.2);
        let free =
            |home: &[SceneObject], point| line_of_sight(eye, point, home.iter(), &["table_1"]);
        assert!(free(&home, Vec3::new(7.0, 2.0, 0.9)));
        // The line to (7, 3.9) crosses x = 4 at y = 2.95, beside the door's opening of 1.5 to 2.5.
        assert!(!free(&home, Vec3::new(7.0, 3.9, 0.9)));
        // At y = 2.45 it passes the jamb by 0.05 m: not for sure.
        assert!(!free(&home, Vec3::new(7.0, 2.9, 0.9)));
        home[2].state.insert("open".into(), "false".into());
        assert!(!free(&home, Vec3::new(7.0, 2.0, 0.9)));
    }

    #[test]
    fn a_table_hides_what_is_below_and_behind_but_not_what_is_on_it() {
        let home = home();
        let eye = Vec3::new(5.0, 2.0, 1.2);
        assert!(line_of_sight(
            eye,
            Vec3::new(7.0, 2.0, 0.85),
            home.iter(),
            &[]
        ));
        assert!(!line_of_sight(
            eye,
            Vec3::new(7.8, 2.0, 0.1),
            home.iter(),
            &[]
        ));
        assert!(!line_of_sight(
            eye,
            Vec3::new(7.0, 2.0, 0.4),
            home.iter(),
            &[]
        ));
    }

    #[test]
    fn a_table_in_view_is_covered_and_one_behind_the_camera_is_not() {
        let home = home();
        // Looks along map x (see the test of the view), 1.5 m before the table's near edge.
        let view = |x: f64, orientation| View {
            camera: Pose {
                position: Vec3::new(x, 2.0, 1.2),
                orientation,
            },
            horizontal_fov: 1.2,
            vertical_fov: 0.9,
            min_range: 0.2,
            max_range: 4.0,
        };
        let forward = [-0.5, 0.5, -0.5, 0.5];
        let share = |v: &View, i: usize| covered_share(v, &home[i], home.iter());
        assert_eq!(share(&view(5.0, forward), 3), Some(1.0));
        assert_eq!(share(&view(7.9, forward), 3), Some(0.0));
        // In the right room and looking into it; in the left one and looking out of it.
        assert_eq!(share(&view(5.0, forward), 1), Some(1.0));
        assert_eq!(share(&view(3.5, forward), 0), Some(0.0));
    }

    #[test]
    fn views_together_cover_what_no_single_one_does() {
        // A table 3 m wide along y, its middle at (7, 2); the camera stands 0.9 m from its middle.
        let mut home = home();
        home[3].size = Vec3::new(0.6, 3.0, 0.8);
        let turned = |pan: f64| {
            // Looks along map x and down by 25 degrees, then pans about z.
            let forward = nalgebra::UnitQuaternion::from_quaternion(nalgebra::Quaternion::new(
                0.5, -0.5, 0.5, -0.5,
            ));
            let down =
                nalgebra::UnitQuaternion::from_axis_angle(&nalgebra::Vector3::y_axis(), 0.43);
            let about =
                nalgebra::UnitQuaternion::from_axis_angle(&nalgebra::Vector3::z_axis(), pan);
            let q = about * down * forward;
            View {
                camera: Pose {
                    position: Vec3::new(6.1, 2.0, 1.2),
                    orientation: [q.i, q.j, q.k, q.w],
                },
                horizontal_fov: 1.2,
                vertical_fov: 0.9,
                min_range: 0.1,
                max_range: 4.0,
            }
        };
        // Its corner points are at y = ±1.05 m from the middle and 0.7 to 1.1 m ahead: 44 to 57 degrees
        // off the axis, beyond half of 1.2 rad (34 degrees).
        let (left, middle, right) = (turned(0.85), turned(0.0), turned(-0.85));
        let share = |views: &[&View]| covered_by_views(views, &home[3], home.iter()).unwrap();
        assert!(share(&[&middle]) <= 0.2 + 1e-9, "{}", share(&[&middle]));
        assert_eq!(share(&[&left, &middle, &right]), 1.0);
        assert_eq!(share(&[]), 0.0);
    }

    #[test]
    fn what_is_higher_than_the_camera_is_seen_from_the_side() {
        // A fridge of 1.8 m, whose top the camera at 1.2 m can't see.
        let mut home = home();
        home[3].kind = Kind::Container;
        home[3].pose.position.z = 0.9;
        home[3].size = Vec3::new(0.6, 0.6, 1.8);
        let mut view = View {
            camera: Pose {
                position: Vec3::new(5.5, 2.0, 1.2),
                // Looks along map x.
                orientation: [-0.5, 0.5, -0.5, 0.5],
            },
            horizontal_fov: 1.2,
            vertical_fov: 0.9,
            min_range: 0.2,
            max_range: 4.0,
        };
        assert_eq!(covered_share(&view, &home[3], home.iter()), Some(1.0));
        // Behind the camera.
        view.camera.position.x = 7.9;
        assert_eq!(covered_share(&view, &home[3], home.iter()), Some(0.0));
    }

    #[test]
    fn boxes_are_hit_in_their_own_axes() {
        let turned = Solid {
            pose: Pose::planar(0.0, 0.0, std::f64::consts::FRAC_PI_4),
            size: Vec3::new(2.0, 0.2, 2.0),
        };
        let at = |x, y| Vec3::new(x, y, 0.0);
        assert!(turned.blocks(at(-1.0, 1.0), at(1.0, -1.0), 0.0));
        assert!(!turned.blocks(at(0.0, 1.0), at(0.0, 0.3), 0.0));
        assert!(turned.contains(at(0.6, 0.6), 0.0));
        assert!(!turned.contains(at(0.6, -0.6), 0.0));
        // A box without volume hides nothing.
        let flat = Solid {
            size: Vec3::default(),
            ..turned
        };
        assert!(!flat.blocks(at(-1.0, 1.0), at(1.0, -1.0), 0.0));
    }
}

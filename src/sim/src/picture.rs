//! Images of the world as a camera sees it: colour, depth and what each pixel shows, by casting one ray for
//! each pixel.
//!
//! Bounded: a solid is only looked at in those tiles of the image that its corners span. Shapes and colours
//! are in [`crate::scenery`].

use nalgebra::{Isometry3, Point3};

use crate::scenery::{Scenery, Solid, SolidShape};

/// Edge of a tile, pixels.
const TILE: usize = 16;
/// Nearer than this nothing is drawn, metres along the axis.
const NEAR: f64 = 0.02;
/// Where the light comes from, in the map; its length is 1.
const LIGHT: [f64; 3] = [0.36, -0.48, 0.8];
/// Brightness without light.
const AMBIENT: f64 = 0.55;
/// How much darker edges are.
const EDGE: f64 = 0.55;
/// What is beyond everything.
const BACKGROUND: [u8; 3] = [198, 210, 220];

/// A pinhole camera without distortion. Pixels are counted from the middle of the upper left one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lens {
    /// Pixels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Focal lengths, pixels.
    pub focal: [f64; 2],
    /// The principal point, pixels.
    pub center: [f64; 2],
}

impl Lens {
    /// The camera of this size whose image spans these full angles, radians.
    #[must_use]
    pub fn new(width: u32, height: u32, fov: [f64; 2]) -> Self {
        let focal = |pixels: u32, angle: f64| f64::from(pixels) / 2.0 / (angle / 2.0).tan();
        Self {
            width,
            height,
            focal: [focal(width, fov[0]), focal(height, fov[1])],
            center: [
                (f64::from(width) - 1.0) / 2.0,
                (f64::from(height) - 1.0) / 2.0,
            ],
        }
    }

    /// Where a point of the optical frame (x right, y down, z ahead, metres) is in the image, pixels; none
    /// when it is behind the camera or beside the image.
    #[must_use]
    pub fn project(&self, p: &Point3<f64>) -> Option<[f64; 2]> {
        if p.z < NEAR {
            return None;
        }
        let u = self.center[0] + self.focal[0] * p.x / p.z;
        let v = self.center[1] + self.focal[1] * p.y / p.z;
        let inside = u > -0.5
            && v > -0.5
            && u < f64::from(self.width) - 0.5
            && v < f64::from(self.height) - 0.5;
        inside.then_some([u, v])
    }
}

/// An image.
#[derive(Debug, Clone, PartialEq)]
pub struct Picture {
    /// The camera it was taken with.
    pub lens: Lens,
    /// Red, green and blue of each pixel, row by row.
    pub rgb: Vec<u8>,
    /// Distance along the optical axis, metres; infinite where nothing is.
    pub depth: Vec<f32>,
    /// Number of the solid in its scenery, from 1; 0: floor or nothing.
    pub labels: Vec<u16>,
}

/// A solid as the camera sees it.
struct Seen<'a> {
    solid: &'a Solid,
    label: u16,
    /// The camera in the solid's frame.
    eye: [f64; 3],
    /// From the optical frame into the solid's.
    turn: [[f64; 3]; 3],
    /// First and last column and row, pixels, inclusive.
    bounds: [usize; 4],
    /// Least depth of its corners, metres.
    nearest: f64,
}

/// Where a ray meets something.
#[derive(Clone, Copy)]
struct Hit {
    depth: f64,
    /// In the solid's frame.
    normal: [f64; 3],
    face: u32,
}

fn rows(pose: &Isometry3<f64>) -> [[f64; 3]; 3] {
    let m = pose.rotation.to_rotation_matrix();
    let m = m.matrix();
    [0, 1, 2].map(|i| [0, 1, 2].map(|j| m[(i, j)]))
}

fn turned(m: &[[f64; 3]; 3], v: [f64; 3]) -> [f64; 3] {
    m.map(|row| row[0] * v[0] + row[1] * v[1] + row[2] * v[2])
}

impl Picture {
    /// Takes an image. `camera`: the optical frame in the map.
    #[must_use]
    pub fn take(scenery: &Scenery, lens: &Lens, camera: &Isometry3<f64>) -> Self {
        let (width, height) = (lens.width as usize, lens.height as usize);
        let seen: Vec<Seen<'_>> = scenery
            .solids
            .iter()
            .zip(1_u16..)
            .filter_map(|(solid, label)| Seen::new(solid, label, lens, camera))
            .collect();
        let columns = width.div_ceil(TILE);
        let mut tiles: Vec<Vec<usize>> = vec![Vec::new(); columns * height.div_ceil(TILE)];
        for (i, s) in seen.iter().enumerate() {
            let [left, right, top, bottom] = s.bounds.map(|b| b / TILE);
            for row in top..=bottom {
                for column in left..=right {
                    if let Some(tile) = tiles.get_mut(row * columns + column) {
                        tile.push(i);
                    }
                }
            }
        }
        // What is nearest first: what is behind what was met need not be looked at.
        for tile in &mut tiles {
            let nearest = |i: &usize| seen.get(*i).map_or(0.0, |s| s.nearest);
            tile.sort_by(|a, b| nearest(a).total_cmp(&nearest(b)));
        }
        let to_map = rows(camera);
        let mut picture = Picture {
            lens: *lens,
            rgb: Vec::with_capacity(3 * width * height),
            depth: Vec::with_capacity(width * height),
            labels: Vec::with_capacity(width * height),
        };
        // What is seen at each pixel, so that the lines between different things can be drawn.
        let mut faces = Vec::with_capacity(width * height);
        for v in 0..height {
            let y = (v as f64 - lens.center[1]) / lens.focal[1];
            for u in 0..width {
                let x = (u as f64 - lens.center[0]) / lens.focal[0];
                // Its z is 1, so that distances along it are depths.
                let ray = [x, y, 1.0];
                let mut near: Option<(&Seen<'_>, Hit)> = None;
                let tile = tiles.get((v / TILE) * columns + u / TILE);
                for s in tile.into_iter().flatten().filter_map(|i| seen.get(*i)) {
                    let so_far = near.map_or(f64::INFINITY, |(_, hit)| hit.depth);
                    if s.nearest >= so_far {
                        break;
                    }
                    if let Some(hit) = s.meet(ray).filter(|hit| hit.depth < so_far) {
                        near = Some((s, hit));
                    }
                }
                let floor = scenery.floor(camera, turned(&to_map, ray));
                let (color, depth, label, face) = match (near, floor) {
                    (Some((s, hit)), floor)
                        if floor.is_none_or(|(depth, _, _)| hit.depth <= depth) =>
                    {
                        let brightness = s.brightness(&hit);
                        let color = s.solid.color.map(|c| shade(c, brightness));
                        let face = u32::from(s.label) * 8 + hit.face;
                        (color, hit.depth, s.label, face)
                    }
                    (_, Some((depth, color, room))) => (color, depth, 0, room),
                    (_, None) => (BACKGROUND, f64::INFINITY, 0, u32::MAX),
                };
                picture.rgb.extend(color);
                picture.depth.push(depth as f32);
                picture.labels.push(label);
                faces.push(face);
            }
        }
        picture.draw_edges(&faces);
        picture
    }

    /// Darkens the pixels at which the thing or the face changes to the right or below.
    fn draw_edges(&mut self, faces: &[u32]) {
        let width = self.lens.width as usize;
        for (i, face) in faces.iter().enumerate() {
            let right = (i + 1) % width != 0 && faces.get(i + 1).is_some_and(|f| f != face);
            let below = faces.get(i + width).is_some_and(|f| f != face);
            if right || below {
                for c in self.rgb.iter_mut().skip(3 * i).take(3) {
                    *c = shade(*c, EDGE);
                }
            }
        }
    }

    /// What is at a place of the image, pixels: the number of the solid, from 1, and the depth in metres.
    #[must_use]
    pub fn at(&self, [u, v]: [f64; 2]) -> Option<(u16, f32)> {
        let (u, v) = (u.round(), v.round());
        if !(u >= 0.0 && v >= 0.0 && u < f64::from(self.lens.width)) {
            return None;
        }
        let i = v as usize * self.lens.width as usize + u as usize;
        Some((*self.labels.get(i)?, *self.depth.get(i)?))
    }
}

fn shade(color: u8, brightness: f64) -> u8 {
    (f64::from(color) * brightness).clamp(0.0, 255.0) as u8
}

impl<'a> Seen<'a> {
    /// None when it is not in the image.
    fn new(solid: &'a Solid, label: u16, lens: &Lens, camera: &Isometry3<f64>) -> Option<Seen<'a>> {
        let to_camera = camera.inverse() * solid.pose;
        let half = solid.shape.half_extents();
        let mut corners = Vec::with_capacity(8);
        for x in [-half[0], half[0]] {
            for y in [-half[1], half[1]] {
                for z in [-half[2], half[2]] {
                    corners.push(to_camera * Point3::new(x, y, z));
                }
            }
        }
        let bounds = bounds(&corners, lens)?;
        let nearest = corners.iter().map(|c| c.z).fold(f64::INFINITY, f64::min);
        let from_camera = to_camera.inverse();
        Some(Seen {
            solid,
            label,
            eye: from_camera.translation.vector.into(),
            turn: rows(&from_camera),
            bounds,
            nearest,
        })
    }

    fn meet(&self, ray: [f64; 3]) -> Option<Hit> {
        let d = turned(&self.turn, ray);
        let hit = match self.solid.shape {
            SolidShape::Box(half) => meet_box(self.eye, d, half),
            SolidShape::Cylinder { radius, half } => meet_cylinder(self.eye, d, radius, half),
            SolidShape::Sphere(radius) => meet_sphere(self.eye, d, radius),
        }?;
        (hit.depth >= NEAR).then_some(hit)
    }

    fn brightness(&self, hit: &Hit) -> f64 {
        let n = self.solid.pose.rotation * nalgebra::Vector3::from(hit.normal);
        let lit = n.x * LIGHT[0] + n.y * LIGHT[1] + n.z * LIGHT[2];
        // Half of the light comes around corners, so that no two sides of a box look the same.
        let light = AMBIENT + (1.0 - AMBIENT) * (0.5 + 0.5 * lit);
        // What is far is a little dimmer.
        light / (1.0 + 0.02 * hit.depth)
    }
}

/// The columns and rows that the convex hull of eight corners (optical frame) may cover; none when it is not
/// in the image. The corners are those of a box: two differ in one bit of their number when an edge joins
/// them.
fn bounds(corners: &[Point3<f64>], lens: &Lens) -> Option<[usize; 4]> {
    let last = [f64::from(lens.width) - 1.0, f64::from(lens.height) - 1.0];
    let place = |c: &Point3<f64>| {
        [
            lens.center[0] + lens.focal[0] * c.x / c.z,
            lens.center[1] + lens.focal[1] * c.y / c.z,
        ]
    };
    let mut least = [f64::INFINITY; 2];
    let mut most = [f64::NEG_INFINITY; 2];
    let mut take = |c: &Point3<f64>| {
        for (i, p) in place(c).into_iter().enumerate() {
            least[i] = least[i].min(p);
            most[i] = most[i].max(p);
        }
    };
    for (i, from) in corners.iter().enumerate() {
        if from.z >= NEAR {
            take(from);
        }
        // Where an edge leaves the space before the camera.
        for bit in [1, 2, 4] {
            let Some(to) = corners.get(i | bit).filter(|_| i & bit == 0) else {
                continue;
            };
            if (from.z < NEAR) != (to.z < NEAR) {
                let t = (NEAR - from.z) / (to.z - from.z);
                let mut cut = from + t * (to - from);
                cut.z = NEAR;
                take(&cut);
            }
        }
    }
    let beside = (0..2).any(|i| most[i] < 0.0 || least[i] > last[i]);
    if beside || !least.iter().chain(&most).all(|v| v.is_finite()) {
        return None;
    }
    let from = |v: f64| v.max(0.0) as usize;
    let to = |v: f64, last: f64| v.ceil().clamp(0.0, last) as usize;
    Some([
        from(least[0]),
        to(most[0], last[0]),
        from(least[1]),
        to(most[1], last[1]),
    ])
}

/// Slab method: <https://en.wikipedia.org/wiki/Slab_method>.
fn meet_box(o: [f64; 3], d: [f64; 3], half: [f64; 3]) -> Option<Hit> {
    let (mut near, mut far) = (f64::NEG_INFINITY, f64::INFINITY);
    let (mut axis, mut sign) = (0, 1.0);
    for i in 0..3 {
        if d[i].abs() < 1e-12 {
            if o[i].abs() > half[i] {
                return None;
            }
            continue;
        }
        let (a, b) = ((-half[i] - o[i]) / d[i], (half[i] - o[i]) / d[i]);
        let (enter, leave) = if a < b { (a, b) } else { (b, a) };
        if enter > near {
            near = enter;
            axis = i;
            sign = -d[i].signum();
        }
        far = far.min(leave);
        if near > far {
            return None;
        }
    }
    if near <= 0.0 {
        // From inside nothing is seen of it.
        return None;
    }
    let mut normal = [0.0; 3];
    normal[axis] = sign;
    Some(Hit {
        depth: near,
        normal,
        face: 2 * axis as u32 + u32::from(sign > 0.0),
    })
}

fn meet_cylinder(o: [f64; 3], d: [f64; 3], radius: f64, half: f64) -> Option<Hit> {
    let mut best: Option<Hit> = None;
    let mut take = |hit: Hit| {
        if hit.depth > 0.0 && best.is_none_or(|b| hit.depth < b.depth) {
            best = Some(hit);
        }
    };
    let a = d[0] * d[0] + d[1] * d[1];
    let b = o[0] * d[0] + o[1] * d[1];
    let c = o[0] * o[0] + o[1] * o[1] - radius * radius;
    let inside = b * b - a * c;
    if a > 1e-12 && inside >= 0.0 {
        let t = (-b - inside.sqrt()) / a;
        let z = o[2] + t * d[2];
        if z.abs() <= half {
            let n = [(o[0] + t * d[0]) / radius, (o[1] + t * d[1]) / radius, 0.0];
            take(Hit {
                depth: t,
                normal: n,
                face: 0,
            });
        }
    }
    if d[2].abs() > 1e-12 {
        let side = if d[2] < 0.0 { half } else { -half };
        let t = (side - o[2]) / d[2];
        let (x, y) = (o[0] + t * d[0], o[1] + t * d[1]);
        if x * x + y * y <= radius * radius {
            take(Hit {
                depth: t,
                normal: [0.0, 0.0, side.signum()],
                face: if side > 0.0 { 1 } else { 2 },
            });
        }
    }
    best
}

fn meet_sphere(o: [f64; 3], d: [f64; 3], radius: f64) -> Option<Hit> {
    let dot = |a: [f64; 3], b: [f64; 3]| a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
    let (a, b, c) = (dot(d, d), dot(o, d), dot(o, o) - radius * radius);
    let inside = b * b - a * c;
    if inside < 0.0 {
        return None;
    }
    let t = (-b - inside.sqrt()) / a;
    (t > 0.0).then(|| Hit {
        depth: t,
        normal: [0, 1, 2].map(|i| (o[i] + t * d[i]) / radius),
        face: 0,
    })
}

#[cfg(test)]
mod tests {
    use nalgebra::{Translation3, UnitQuaternion, Vector3};
    use proptest::prelude::*;

    use super::*;

    /// A camera at the origin's height that looks along the map's x.
    fn ahead() -> Isometry3<f64> {
        let r = nalgebra::Rotation3::from_matrix_unchecked(nalgebra::Matrix3::new(
            0.0, 0.0, 1.0, -1.0, 0.0, 0.0, 0.0, -1.0, 0.0,
        ));
        Isometry3::from_parts(
            Translation3::new(0.0, 0.0, 1.0),
            UnitQuaternion::from_rotation_matrix(&r),
        )
    }

    fn solid(shape: SolidShape, x: f64, y: f64, z: f64) -> Solid {
        Solid {
            name: "it".into(),
            shape,
            pose: Isometry3::translation(x, y, z),
            color: [200, 0, 0],
        }
    }

    fn taken(solids: Vec<Solid>) -> Picture {
        let mut scenery = Scenery::default();
        scenery.solids = solids;
        Picture::take(&scenery, &Lens::new(65, 49, [1.2, 0.9]), &ahead())
    }

    #[test]
    fn depth_is_along_the_axis_and_the_middle_is_the_middle() {
        // The front of a wall 2 m thick in all directions, 3 m ahead: every pixel has the depth 3.
        let wall = taken(vec![solid(
            SolidShape::Box([1.0, 50.0, 50.0]),
            4.0,
            0.0,
            1.0,
        )]);
        assert!(wall.depth.iter().all(|d| (d - 3.0).abs() < 1e-5));
        assert!(wall.labels.iter().all(|l| *l == 1));
        let empty = taken(vec![]);
        assert!(empty.depth.iter().all(|d| d.is_infinite() && *d > 0.0));
        // A ball of 0.1 m: in the middle its front is at 1.9.
        let ball = taken(vec![solid(SolidShape::Sphere(0.1), 2.0, 0.0, 1.0)]);
        let (label, depth) = ball.at(ball.lens.center).unwrap();
        assert!(label == 1 && (depth - 1.9).abs() < 1e-5);
        // A pillar: the same, from the side.
        let pillar = taken(vec![solid(
            SolidShape::Cylinder {
                radius: 0.1,
                half: 5.0,
            },
            2.0,
            0.0,
            1.0,
        )]);
        assert!((pillar.at(pillar.lens.center).unwrap().1 - 1.9).abs() < 1e-5);
    }

    #[test]
    fn left_is_left_and_up_is_up() {
        let picture = taken(vec![solid(SolidShape::Sphere(0.1), 2.0, 0.5, 1.4)]);
        let (i, _) = picture
            .labels
            .iter()
            .enumerate()
            .find(|(_, l)| **l == 1)
            .unwrap();
        let (u, v) = (i % 65, i / 65);
        assert!(u < 32 && v < 24, "{u} {v}");
    }

    #[test]
    fn what_is_behind_or_around_the_camera_is_not_seen() {
        let behind = taken(vec![solid(SolidShape::Sphere(0.5), -2.0, 0.0, 1.0)]);
        assert!(behind.labels.iter().all(|l| *l == 0));
        let around = taken(vec![solid(SolidShape::Box([1.0; 3]), 0.0, 0.0, 1.0)]);
        assert!(around.labels.iter().all(|l| *l == 0));
        // Nearer things hide farther ones, in whichever order they come.
        for order in [[2.0, 4.0], [4.0, 2.0]] {
            let picture = taken(
                order
                    .iter()
                    .map(|x| solid(SolidShape::Sphere(0.2), *x, 0.0, 1.0))
                    .collect(),
            );
            assert!((picture.at(picture.lens.center).unwrap().1 - 1.8).abs() < 1e-5);
        }
    }

    proptest! {
        /// A thing's middle is seen where it is projected to, whatever its shape and turn, and its depth
        /// there is between that of its nearest point and that of its middle.
        #[test]
        fn the_middle_is_where_it_is_projected(x in 0.5..4.0f64, y in -3.0..3.0f64, z in 0.0..2.0f64,
                                               roll in -3.0..3.0f64, yaw in -3.0..3.0f64, shape in 0usize..3) {
            let shape = [
                SolidShape::Box([0.1, 0.06, 0.15]),
                SolidShape::Cylinder { radius: 0.08, half: 0.1 },
                SolidShape::Sphere(0.09),
            ][shape];
            let mut it = solid(shape, x, y, z);
            it.pose.rotation = UnitQuaternion::from_axis_angle(&Vector3::z_axis(), yaw)
                * UnitQuaternion::from_axis_angle(&Vector3::x_axis(), roll);
            let picture = taken(vec![it]);
            let middle = ahead().inverse_transform_point(&Point3::new(x, y, z));
            if let Some(at) = picture.lens.project(&middle) {
                // The middle of the pixel is at most half a pixel off, which is less than half of the thing
                // at 2 m: 0.7 pixels are 0.7·2/48 = 0.03 m.
                if middle.z < 2.0 {
                    let (label, depth) = picture.at(at).unwrap();
                    prop_assert_eq!(label, 1);
                    prop_assert!(f64::from(depth) < middle.z + 0.03 && f64::from(depth) > middle.z - 0.25);
                }
            }
        }
    }
}

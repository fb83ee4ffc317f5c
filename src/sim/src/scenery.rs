//! The world as solids with colours, for images.

use std::collections::BTreeMap;

use nalgebra::{Isometry3, Point3, Translation3, UnitQuaternion, Vector3};

use crate::arm_kinematics::{ArmFrames, TOOL};
use crate::geometry::UprightBox;
use crate::world::{World, WorldObject};

/// Edge of a cell of the floor's colours, metres.
const CELL: f64 = 0.1;
/// Distance of the lines on the floor, metres, and their width.
const LINES: [f64; 2] = [0.5, 0.012];
/// Beyond this the lines would be thinner than pixels, metres.
const LINES_END: f64 = 5.0;
/// Most cells of the floor: as many as a world of 100 m × 100 m needs.
const MAX_CELLS: usize = 1_100_000;
/// Lengths that differ by less than this make something round, metres.
const ROUND: f64 = 0.005;

/// A shape around the middle of its frame.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SolidShape {
    /// Half lengths, metres.
    Box([f64; 3]),
    /// About z, metres.
    Cylinder {
        /// Across.
        radius: f64,
        /// Half of its height.
        half: f64,
    },
    /// Radius, metres.
    Sphere(f64),
}

impl SolidShape {
    /// Half of its extent along each axis, metres.
    #[must_use]
    pub fn half_extents(&self) -> [f64; 3] {
        match *self {
            Self::Box(half) => half,
            Self::Cylinder { radius, half } => [radius, radius, half],
            Self::Sphere(radius) => [radius; 3],
        }
    }
}

/// Something that is drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Solid {
    /// Id of the object or furniture; for the rest what it is.
    pub name: String,
    /// Its shape.
    pub shape: SolidShape,
    /// Its middle in the map.
    pub pose: Isometry3<f64>,
    /// Red, green, blue.
    pub color: [u8; 3],
}

/// All that is drawn.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scenery {
    /// The solids; labels of pictures count them from 1.
    pub solids: Vec<Solid>,
    /// Colours of the floor, row by row from the least x and y; 0: none.
    floor: Vec<u8>,
    columns: usize,
    /// Least x and y, metres.
    origin: [f64; 2],
}

/// Colours that attributes name.
const NAMED: [(&str, [u8; 3]); 20] = [
    ("red", [214, 48, 49]),
    ("green", [46, 160, 67]),
    ("blue", [45, 105, 220]),
    ("yellow", [242, 201, 20]),
    ("orange", [240, 130, 30]),
    ("purple", [140, 70, 190]),
    ("pink", [240, 130, 170]),
    ("brown", [130, 82, 45]),
    ("black", [38, 38, 42]),
    ("white", [246, 246, 244]),
    ("gray", [140, 142, 146]),
    ("grey", [140, 142, 146]),
    ("silver", [185, 190, 196]),
    ("gold", [212, 175, 55]),
    ("beige", [225, 205, 170]),
    ("cyan", [40, 190, 200]),
    ("turquoise", [48, 190, 175]),
    ("violet", [150, 90, 210]),
    ("transparent", [200, 225, 235]),
    ("clear", [200, 225, 235]),
];

/// Colours of usual furniture.
const FURNITURE: [(&str, [u8; 3]); 12] = [
    ("table", [176, 124, 76]),
    ("desk", [160, 110, 66]),
    ("shelf", [142, 96, 60]),
    ("cabinet", [150, 104, 68]),
    ("counter", [150, 158, 166]),
    ("fridge", [222, 228, 232]),
    ("bed", [110, 136, 190]),
    ("sofa", [96, 130, 120]),
    ("chair", [170, 120, 70]),
    ("bathtub", [226, 232, 236]),
    ("rack", [120, 126, 134]),
    ("crate", [182, 146, 96]),
];

/// Floors of rooms, in turn.
const FLOORS: [[u8; 3]; 6] = [
    [208, 192, 166],
    [190, 204, 206],
    [204, 200, 190],
    [196, 188, 206],
    [198, 208, 184],
    [214, 198, 190],
];

const WALL: [u8; 3] = [238, 234, 224];
const DOOR: [u8; 3] = [148, 98, 62];
const PERSON: [u8; 3] = [226, 150, 110];
const ROBOT: [u8; 3] = [70, 78, 92];
const ARM: [u8; 3] = [232, 136, 40];
const FINGERS: [u8; 3] = [52, 56, 64];

impl Scenery {
    /// The world as it is, without a robot.
    #[must_use]
    pub fn of(world: &World) -> Self {
        let mut scenery = Self::default();
        scenery.lay_floor(world);
        for wall in world.walls() {
            scenery.solids.push(upright("wall", wall, WALL));
        }
        for (door, (_, open)) in world.map().doors.iter().zip(world.doors()) {
            if !open {
                let leaf = UprightBox::new(
                    door.center(),
                    [door.width(), 0.06],
                    (door.to[1] - door.from[1]).atan2(door.to[0] - door.from[0]),
                    0.0,
                    2.1,
                );
                scenery.solids.push(upright(&door.id, &leaf, DOOR));
            }
        }
        for f in &world.map().furniture {
            let outline = UprightBox::new(f.center, [f.size[0], f.size[1]], f.yaw, 0.0, f.size[2]);
            let color = named(&FURNITURE, &f.class).unwrap_or_else(|| by_word(&f.class, 0.5));
            scenery.solids.push(upright(&f.id, &outline, color));
        }
        for person in world.people() {
            scenery
                .solids
                .push(upright("person", &person.outline(), PERSON));
        }
        scenery
            .solids
            .extend(world.objects().iter().map(object_solid));
        scenery
    }

    /// Adds a robot: its base in the map and its arm in its base. `head`: whether that is drawn too; the
    /// camera sits in it.
    pub fn add_robot(&mut self, base: &Isometry3<f64>, arm: &ArmFrames, head: bool) {
        let mut add = |name: &str, shape: SolidShape, pose: Isometry3<f64>, color: [u8; 3]| {
            self.solids.push(Solid {
                name: name.to_owned(),
                shape,
                pose: base * pose,
                color,
            });
        };
        let upright = |radius, height: f64| SolidShape::Cylinder {
            radius,
            half: height / 2.0,
        };
        let up = |z: f64| Isometry3::translation(0.0, 0.0, z);
        add("robot", upright(0.25, 0.30), up(0.17), ROBOT);
        add("robot", upright(0.07, 0.85), up(0.70), ROBOT);
        if head {
            add(
                "robot",
                SolidShape::Box([0.10, 0.09, 0.08]),
                up(1.22),
                ROBOT,
            );
        }
        let place = |i: usize| {
            arm.links
                .get(i)
                .map_or(Point3::origin(), |l| Point3::from(l.translation.vector))
        };
        let (shoulder, elbow, wrist) = (place(1), place(2), place(3));
        for (from, to, radius) in [(shoulder, elbow, 0.04), (elbow, wrist, 0.035)] {
            let (shape, pose) = rod(&from, &to, radius);
            add("arm", shape, pose, ARM);
        }
        // A palm and two fingers; y goes from finger to finger.
        let palm = arm.tcp * Isometry3::translation(-TOOL + 0.045, 0.0, 0.0);
        add(
            "gripper",
            SolidShape::Box([0.035, 0.045, 0.025]),
            palm,
            FINGERS,
        );
        for side in [-0.05, 0.05] {
            let finger = arm.tcp * Isometry3::translation(-0.04, side, 0.0);
            add(
                "gripper",
                SolidShape::Box([0.045, 0.006, 0.012]),
                finger,
                FINGERS,
            );
        }
    }

    /// The number of a solid in pictures.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<u16> {
        let index = self.solids.iter().position(|s| s.name == name)?;
        u16::try_from(index + 1).ok()
    }

    fn lay_floor(&mut self, world: &World) {
        let [x0, y0, x1, y1] = world.bounds();
        if !(x0.is_finite() && y0.is_finite() && x1 >= x0 && y1 >= y0) {
            return;
        }
        let cells = |length: f64| (length / CELL).ceil() as usize + 1;
        let (columns, rows) = (cells(x1 - x0), cells(y1 - y0));
        if columns.saturating_mul(rows) > MAX_CELLS {
            return;
        }
        self.origin = [x0, y0];
        self.columns = columns;
        self.floor = Vec::with_capacity(columns * rows);
        let numbers: BTreeMap<&str, u8> = world
            .map()
            .rooms
            .iter()
            .enumerate()
            .map(|(i, r)| (r.id.as_str(), 1 + (i % FLOORS.len()) as u8))
            .collect();
        for row in 0..rows {
            for column in 0..columns {
                let x = x0 + (column as f64 + 0.5) * CELL;
                let y = y0 + (row as f64 + 0.5) * CELL;
                let room = world.map().room_at(x, y);
                let number = room.and_then(|r| numbers.get(r.id.as_str())).copied();
                self.floor.push(number.unwrap_or(0));
            }
        }
    }

    /// Where a ray from the camera meets the floor: depth, colour, and which floor it is. `ray`: in the map,
    /// as long as the depth 1.
    pub(crate) fn floor(
        &self,
        camera: &Isometry3<f64>,
        ray: [f64; 3],
    ) -> Option<(f64, [u8; 3], u32)> {
        let eye = camera.translation.vector;
        if ray[2] >= -1e-9 {
            return None;
        }
        let depth = -eye.z / ray[2];
        let (x, y) = (eye.x + depth * ray[0], eye.y + depth * ray[1]);
        let (column, row) = ((x - self.origin[0]) / CELL, (y - self.origin[1]) / CELL);
        if depth <= 0.0 || column < 0.0 || row < 0.0 || column as usize >= self.columns {
            return None;
        }
        let number = *self
            .floor
            .get(row as usize * self.columns + column as usize)?;
        let color = FLOORS.get(usize::from(number).checked_sub(1)?)?;
        let on_line = |v: f64| v.rem_euclid(LINES[0]) < LINES[1];
        let line = depth < LINES_END && (on_line(x) || on_line(y));
        let brightness = if line { 0.86 } else { 1.0 } / (1.0 + 0.02 * depth);
        let color = color.map(|c| (f64::from(c) * brightness) as u8);
        Some((depth, color, u32::from(number)))
    }
}

fn upright(name: &str, outline: &UprightBox, color: [u8; 3]) -> Solid {
    let yaw = outline.yaw();
    Solid {
        name: name.to_owned(),
        shape: SolidShape::Box([
            outline.half_x,
            outline.half_y,
            (outline.top - outline.bottom) / 2.0,
        ]),
        pose: Isometry3::from_parts(
            Translation3::new(outline.x, outline.y, (outline.top + outline.bottom) / 2.0),
            UnitQuaternion::from_axis_angle(&Vector3::z_axis(), yaw),
        ),
        color,
    }
}

fn object_solid(object: &WorldObject) -> Solid {
    let [x, y, z] = object.spec.size;
    let round = (x - y).abs() < ROUND;
    let shape = if round && (x - z).abs() < ROUND {
        SolidShape::Sphere(x / 2.0)
    } else if round {
        SolidShape::Cylinder {
            radius: x.min(y) / 2.0,
            half: z / 2.0,
        }
    } else {
        SolidShape::Box([x / 2.0, y / 2.0, z / 2.0])
    };
    let color = object
        .spec
        .attributes
        .get("color")
        .or_else(|| object.spec.attributes.get("colour"))
        .map(|word| named(&NAMED, word).unwrap_or_else(|| by_word(word, 0.8)))
        .unwrap_or_else(|| by_word(&object.spec.class, 0.8));
    Solid {
        name: object.spec.id.clone(),
        shape,
        pose: object.pose,
        color,
    }
}

/// A round rod between two points.
fn rod(from: &Point3<f64>, to: &Point3<f64>, radius: f64) -> (SolidShape, Isometry3<f64>) {
    let along = to - from;
    let turn = UnitQuaternion::rotation_between(&Vector3::z(), &along).unwrap_or_else(|| {
        UnitQuaternion::from_axis_angle(&Vector3::x_axis(), std::f64::consts::PI)
    });
    let middle = nalgebra::center(from, to);
    (
        SolidShape::Cylinder {
            radius,
            half: along.norm() / 2.0,
        },
        Isometry3::from_parts(Translation3::from(middle.coords), turn),
    )
}

fn named(table: &[(&str, [u8; 3])], word: &str) -> Option<[u8; 3]> {
    table.iter().find(|(n, _)| *n == word).map(|(_, c)| *c)
}

/// A colour that is always the same for a word. `strength`: 0 is gray.
fn by_word(word: &str, strength: f64) -> [u8; 3] {
    // FNV-1a: <http://www.isthe.com/chongo/tech/comp/fnv/>.
    let hash = word.bytes().fold(0x811c_9dc5_u32, |h, b| {
        (h ^ u32::from(b)).wrapping_mul(0x0100_0193)
    });
    let hue = f64::from(hash % 360) / 60.0;
    [0.0, 4.0, 2.0].map(|shift: f64| {
        let k = (hue + shift).rem_euclid(6.0);
        let pure = ((k - 3.0).abs() - 1.0).clamp(0.0, 1.0);
        (255.0 * (0.85 - strength * 0.75 * (1.0 - pure))) as u8
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_colours_that_are_told_apart() {
        assert_eq!(named(&NAMED, "red"), Some([214, 48, 49]));
        assert_eq!(by_word("teapot", 0.8), by_word("teapot", 0.8));
        assert_ne!(by_word("teapot", 0.8), by_word("kettle", 0.8));
        // Gray without strength.
        let [r, g, b] = by_word("teapot", 0.0);
        assert!(r == g && g == b);
    }

    #[test]
    fn a_rod_lies_between_its_ends() {
        for to in [
            Point3::new(0.3, 0.0, 1.0),
            Point3::new(0.0, 0.0, 2.0),
            Point3::new(0.0, 0.0, 0.5),
        ] {
            let from = Point3::new(0.0, 0.0, 1.0);
            let (shape, pose) = rod(&from, &to, 0.05);
            let SolidShape::Cylinder { half, .. } = shape else {
                panic!("{shape:?}");
            };
            let end = pose * Point3::new(0.0, 0.0, half);
            assert!((end - to).norm() < 1e-9, "{end} {to}");
        }
    }
}

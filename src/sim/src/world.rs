//! The world as it is: walls, doors, furniture and objects, and the questions of geometry about them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use nalgebra::{Isometry3, Point3, Translation3, UnitQuaternion, Vector3};

use crate::error::SimError;
use crate::geometry::{yaw_of, Pose2, UprightBox};
use crate::person::Person;
use crate::world_file::{ObjectSpec, WorldFile};
use eh_contract::semantic_map::SemanticMap;

/// Height of walls and doors, metres: higher than any sensor of the robot.
pub const WALL_HEIGHT: f64 = 2.5;

/// Thickness of a closed door leaf, metres.
const DOOR_THICKNESS: f64 = 0.06;

/// What an object rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Support {
    /// The floor.
    Floor,
    /// The furniture with that id.
    Furniture(String),
    /// Nothing below: it was put into the air by the world file.
    Fixed,
    /// The gripper.
    Gripper,
}

/// An object and where it is.
#[derive(Debug, Clone, PartialEq)]
pub struct WorldObject {
    /// What the world file says of it.
    pub spec: ObjectSpec,
    /// Its centre's pose in the map frame.
    pub pose: Isometry3<f64>,
    /// What it rests on.
    pub support: Support,
}

impl WorldObject {
    /// The upright box around it.
    #[must_use]
    pub fn outline(&self) -> UprightBox {
        let c = self.pose.translation.vector;
        // A held object may be tilted: the height of its box then is that of the tilted axes.
        let r = self.pose.rotation.to_rotation_matrix();
        let m = r.matrix();
        let s = self.spec.size;
        let half_z =
            (m[(2, 0)].abs() * s[0] + m[(2, 1)].abs() * s[1] + m[(2, 2)].abs() * s[2]) / 2.0;
        UprightBox::new(
            [c.x, c.y],
            [s[0], s[1]],
            yaw_of(&self.pose.rotation),
            c.z - half_z,
            c.z + half_z,
        )
    }

    /// The point in the object's own frame.
    #[must_use]
    pub fn to_local(&self, p: &Point3<f64>) -> Point3<f64> {
        self.pose.inverse_transform_point(p)
    }
}

/// All that can hide an object from an eye.
#[derive(Debug, Clone)]
pub struct Screens {
    solid: Vec<UprightBox>,
    /// In the order of [`World::bodies`].
    bodies: Vec<UprightBox>,
}

/// What a detector may see: an object or a person.
#[derive(Debug, Clone)]
pub struct Body<'a> {
    /// Its class.
    pub class: &'a str,
    /// What it looks like.
    pub attributes: Cow<'a, BTreeMap<String, String>>,
    /// Its centre, map frame.
    pub pose: Isometry3<f64>,
    /// Length, width and height of its box, metres.
    pub size: [f64; 3],
    /// Whether it may be taken for an object of another class.
    pub confusable: bool,
}

impl Screens {
    /// Whether something stands between the two points; the body at `except` is looked through.
    #[must_use]
    pub fn block(&self, a: &Point3<f64>, b: &Point3<f64>, except: Option<usize>) -> bool {
        self.solid.iter().any(|o| o.blocks(a, b))
            || self
                .bodies
                .iter()
                .enumerate()
                .any(|(i, o)| Some(i) != except && o.blocks(a, b))
    }
}

#[derive(Debug, Clone)]
struct DoorLeaf {
    id: String,
    leaf: UprightBox,
    open: bool,
}

/// Another robot, as this one meets it.
#[derive(Debug, Clone, PartialEq)]
pub struct OtherRobot {
    /// Its name: the id of the object that is detected.
    pub name: String,
    /// Where it truly is, map frame.
    pub pose: Pose2,
    /// Radius of its outline, metres.
    pub radius: f64,
    /// Height, metres.
    pub height: f64,
}

impl OtherRobot {
    /// A square of the same area as its round outline.
    fn outline(&self) -> UprightBox {
        let side = self.side();
        UprightBox::new(
            [self.pose.x, self.pose.y],
            [side, side],
            self.pose.yaw,
            0.0,
            self.height,
        )
    }

    fn side(&self) -> f64 {
        self.radius * std::f64::consts::PI.sqrt()
    }

    /// What the camera sees of it.
    fn object(&self) -> WorldObject {
        let side = self.side();
        WorldObject {
            spec: ObjectSpec {
                id: self.name.clone(),
                class: "robot".to_owned(),
                attributes: BTreeMap::new(),
                names: BTreeMap::new(),
                position: [self.pose.x, self.pose.y],
                on: None,
                z: None,
                yaw: self.pose.yaw,
                size: [side, side, self.height],
                mass: 50.0,
                graspable: false,
                grasp_width: None,
            },
            pose: upright(self.pose.x, self.pose.y, self.height / 2.0, self.pose.yaw),
            support: Support::Floor,
        }
    }
}

/// The world as it is.
#[derive(Debug, Clone)]
pub struct World {
    map: SemanticMap,
    walls: Vec<UprightBox>,
    furniture: Vec<UprightBox>,
    doors: Vec<DoorLeaf>,
    objects: Vec<WorldObject>,
    people: Vec<Person>,
    /// The other robots; each is also one of the objects, after those of the file.
    robots: Vec<OtherRobot>,
    version: u64,
}

impl World {
    /// Builds the world of a file.
    ///
    /// # Errors
    /// [`SimError::BadEntry`] when a door lies on no wall.
    pub fn new(file: &WorldFile) -> Result<Self, SimError> {
        file.validate()?;
        let mut cut = vec![false; file.map.doors.len()];
        let mut walls = Vec::new();
        for wall in &file.walls {
            let (dx, dy) = (wall.to[0] - wall.from[0], wall.to[1] - wall.from[1]);
            let length = dx.hypot(dy);
            let (ux, uy) = (dx / length, dy / length);
            // Openings as intervals along the wall, metres from its first end.
            let mut openings = Vec::new();
            for (door, cut) in file.map.doors.iter().zip(&mut cut) {
                let along = |p: [f64; 2]| {
                    let (px, py) = (p[0] - wall.from[0], p[1] - wall.from[1]);
                    (px * ux + py * uy, (py * ux - px * uy).abs())
                };
                let ((a, off_a), (b, off_b)) = (along(door.from), along(door.to));
                let near = wall.thickness / 2.0 + 0.02;
                if off_a <= near && off_b <= near && a.min(b) >= -0.02 && a.max(b) <= length + 0.02
                {
                    openings.push((a.min(b), a.max(b)));
                    *cut = true;
                }
            }
            openings.sort_by(|a, b| a.0.total_cmp(&b.0));
            // Outer ends reach half a thickness further, so that corners are closed.
            let mut start = -wall.thickness / 2.0;
            let mut piece = |from: f64, to: f64| {
                if to - from > 1e-3 {
                    let middle = (from + to) / 2.0;
                    walls.push(UprightBox::new(
                        [wall.from[0] + ux * middle, wall.from[1] + uy * middle],
                        [to - from, wall.thickness],
                        dy.atan2(dx),
                        0.0,
                        WALL_HEIGHT,
                    ));
                }
            };
            for (from, to) in openings {
                piece(start, from);
                start = start.max(to);
            }
            piece(start, length + wall.thickness / 2.0);
        }
        if let Some((door, _)) = file.map.doors.iter().zip(&cut).find(|(_, cut)| !**cut) {
            return Err(SimError::BadEntry {
                section: "doors",
                id: door.id.clone(),
                problem: "it lies on no wall; put both jambs on the line of one wall".to_owned(),
            });
        }
        let furniture = file
            .map
            .furniture
            .iter()
            .map(|f| UprightBox::new(f.center, [f.size[0], f.size[1]], f.yaw, 0.0, f.size[2]))
            .collect();
        let doors = file
            .map
            .doors
            .iter()
            .map(|d| DoorLeaf {
                id: d.id.clone(),
                leaf: UprightBox::new(
                    d.center(),
                    [d.width(), DOOR_THICKNESS],
                    (d.to[1] - d.from[1]).atan2(d.to[0] - d.from[0]),
                    0.0,
                    WALL_HEIGHT,
                ),
                open: d.open,
            })
            .collect();
        let mut world = Self {
            map: file.map.clone(),
            walls,
            furniture,
            doors,
            objects: Vec::new(),
            people: file.people.iter().map(Person::new).collect(),
            robots: Vec::new(),
            version: 0,
        };
        for spec in &file.objects {
            let [x, y] = spec.position;
            let (bottom, support) = match (&spec.on, spec.z) {
                (Some(on), _) => (
                    world.map.furniture(on).map_or(0.0, |f| f.top()),
                    Support::Furniture(on.clone()),
                ),
                (None, Some(z)) if z > 0.0 => (z, Support::Fixed),
                (None, _) => (0.0, Support::Floor),
            };
            world.objects.push(WorldObject {
                spec: spec.clone(),
                pose: upright(x, y, bottom + spec.size[2] / 2.0, spec.yaw),
                support,
            });
        }
        Ok(world)
    }

    /// What a robot may know beforehand.
    #[must_use]
    pub fn map(&self) -> &SemanticMap {
        &self.map
    }

    /// A number that grows whenever walls or doors change.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// All objects, in the file's order: ground truth.
    #[must_use]
    pub fn objects(&self) -> &[WorldObject] {
        &self.objects
    }

    /// The object at that place of the list, to be changed.
    pub(crate) fn object_mut(&mut self, index: usize) -> Option<&mut WorldObject> {
        self.objects.get_mut(index)
    }

    /// The place in the list of the object with that id.
    #[must_use]
    pub fn object_index(&self, id: &str) -> Option<usize> {
        self.objects.iter().position(|o| o.spec.id == id)
    }

    /// Walls, closed doors and furniture: what does not walk about.
    pub fn fixed_obstacles(&self) -> impl Iterator<Item = UprightBox> + '_ {
        self.walls
            .iter()
            .chain(&self.furniture)
            .copied()
            .chain(self.closed_doors())
    }

    /// The walls, without the openings of doors.
    #[must_use]
    pub fn walls(&self) -> &[UprightBox] {
        &self.walls
    }

    /// What moves by itself: people and other robots.
    pub fn movers(&self) -> impl Iterator<Item = UprightBox> + '_ {
        self.people
            .iter()
            .map(Person::outline)
            .chain(self.robots.iter().map(OtherRobot::outline))
    }

    /// All that stands in the way of the base.
    pub fn obstacles(&self) -> impl Iterator<Item = UprightBox> + '_ {
        self.fixed_obstacles().chain(self.movers())
    }

    fn closed_doors(&self) -> impl Iterator<Item = UprightBox> + '_ {
        self.doors.iter().filter(|d| !d.open).map(|d| d.leaf)
    }

    /// The people.
    #[must_use]
    pub fn people(&self) -> &[Person] {
        &self.people
    }

    /// The other robots.
    #[must_use]
    pub fn robots(&self) -> &[OtherRobot] {
        &self.robots
    }

    /// Puts other robots into the world, in place of those that were there.
    pub(crate) fn meet(&mut self, robots: &[OtherRobot]) {
        let of_the_file = self.objects.len() - self.robots.len().min(self.objects.len());
        self.objects.truncate(of_the_file);
        self.objects.extend(robots.iter().map(OtherRobot::object));
        self.robots = robots.to_vec();
    }

    /// Moves the other robots, in their order.
    pub(crate) fn move_robots(&mut self, poses: &[Pose2]) {
        let first = self.objects.len() - self.robots.len().min(self.objects.len());
        let objects = self.objects.iter_mut().skip(first);
        for ((robot, object), pose) in self.robots.iter_mut().zip(objects).zip(poses) {
            robot.pose = *pose;
            object.pose = upright(pose.x, pose.y, robot.height / 2.0, pose.yaw);
        }
    }

    /// Takes over what has changed in another robot's world: objects, doors and people.
    pub(crate) fn follow(&mut self, other: &World) {
        let count = |w: &World| w.objects.len() - w.robots.len().min(w.objects.len());
        let shared = count(self).min(count(other));
        let theirs = other.objects.iter().take(shared);
        for (mine, theirs) in self.objects.iter_mut().zip(theirs) {
            mine.pose = theirs.pose;
            mine.support.clone_from(&theirs.support);
        }
        for (mine, theirs) in self.doors.iter_mut().zip(&other.doors) {
            if mine.open != theirs.open {
                mine.open = theirs.open;
                self.version += 1;
            }
        }
        self.people.clone_from(&other.people);
    }

    /// Lets everybody walk on for `dt` seconds. `robots`: x, y and radius of each, metres.
    pub(crate) fn step_people(&mut self, dt: f64, robots: &[[f64; 3]]) {
        if self.people.is_empty() {
            return;
        }
        let shut: Vec<UprightBox> = self.closed_doors().collect();
        for person in &mut self.people {
            person.step(dt, robots, &shut);
        }
    }

    /// Whether a door's leaf would meet something round at (x, y), or one of the people.
    pub(crate) fn door_is_obstructed(&self, id: &str, x: f64, y: f64, radius: f64) -> bool {
        self.doors.iter().filter(|d| d.id == id).any(|door| {
            let people = self.people.iter().map(Person::position);
            door.leaf.distance(x, y) < radius
                || people
                    .into_iter()
                    .any(|[x, y]| door.leaf.distance(x, y) < 0.3)
        })
    }

    /// Opens or closes a door; returns whether that changed anything.
    ///
    /// # Errors
    /// [`SimError::Unknown`].
    pub fn set_door(&mut self, id: &str, open: bool) -> Result<bool, SimError> {
        let door = self
            .doors
            .iter_mut()
            .find(|d| d.id == id)
            .ok_or_else(|| SimError::Unknown {
                what: "door",
                id: id.to_owned(),
            })?;
        let changed = door.open != open;
        door.open = open;
        if changed {
            self.version += 1;
        }
        Ok(changed)
    }

    /// Each door's id and whether it is open.
    pub fn doors(&self) -> impl Iterator<Item = (&str, bool)> {
        self.doors.iter().map(|d| (d.id.as_str(), d.open))
    }

    /// The smallest x and y and the largest, metres, of all that stands in the world.
    #[must_use]
    pub fn bounds(&self) -> [f64; 4] {
        let mut bounds = [
            f64::INFINITY,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NEG_INFINITY,
        ];
        let mut include = |x: f64, y: f64| {
            bounds = [
                bounds[0].min(x),
                bounds[1].min(y),
                bounds[2].max(x),
                bounds[3].max(y),
            ];
        };
        for room in &self.map.rooms {
            for &[x, y] in &room.polygon {
                include(x, y);
            }
        }
        for b in self.walls.iter().chain(&self.furniture) {
            let (hx, hy) = b.half_extents();
            include(b.x - hx, b.y - hy);
            include(b.x + hx, b.y + hy);
        }
        bounds
    }

    /// As [`World::clearance`], but only from what does not walk about.
    #[must_use]
    pub fn fixed_clearance(&self, x: f64, y: f64) -> f64 {
        self.fixed_obstacles()
            .map(|o| o.distance(x, y))
            .fold(f64::INFINITY, f64::min)
    }

    /// Distance in the plane from the point to the nearest obstacle, negative inside one, metres.
    #[must_use]
    pub fn clearance(&self, x: f64, y: f64) -> f64 {
        self.obstacles()
            .map(|o| o.distance(x, y))
            .fold(f64::INFINITY, f64::min)
    }

    /// Where a level ray at the given height first meets something, metres; none within `max`.
    #[must_use]
    pub fn ray(&self, x: f64, y: f64, height: f64, angle: f64, max: f64) -> Option<f64> {
        let (sin, cos) = angle.sin_cos();
        let hit = self
            .obstacles()
            .filter(|o| o.top >= height && o.bottom <= height)
            .filter_map(|o| o.ray(x, y, cos, sin))
            .fold(f64::INFINITY, f64::min);
        (hit <= max).then_some(hit)
    }

    /// What could stand in the way of looking from `eye` as far as `range` metres.
    #[must_use]
    pub fn screens(&self, eye: &Point3<f64>, range: f64) -> Screens {
        Screens {
            solid: self
                .fixed_obstacles()
                .filter(|o| o.distance(eye.x, eye.y) <= range)
                .collect(),
            bodies: self
                .objects
                .iter()
                .map(WorldObject::outline)
                .chain(self.people.iter().map(Person::outline))
                .collect(),
        }
    }

    /// All that a detector may see: the objects in their order, then the people.
    pub fn bodies(&self) -> impl Iterator<Item = Body<'_>> {
        let objects = self.objects.iter().map(|object| Body {
            class: &object.spec.class,
            attributes: Cow::Borrowed(&object.spec.attributes),
            pose: object.pose,
            size: object.spec.size,
            confusable: true,
        });
        let people = self.people.iter().map(|person| Body {
            class: "person",
            attributes: Cow::Owned(BTreeMap::new()),
            pose: person.pose(),
            size: person.size(),
            confusable: false,
        });
        objects.chain(people)
    }

    /// The height of the surface below the point, and what it is.
    ///
    /// Any furniture that covers (x, y) and whose top is at most 2 cm above z; else the floor.
    #[must_use]
    pub fn surface_below(&self, x: f64, y: f64, z: f64) -> (f64, Support) {
        self.map
            .furniture
            .iter()
            .filter(|f| f.top() <= z + 0.02 && f.covers(x, y))
            .max_by(|a, b| a.top().total_cmp(&b.top()))
            .map_or((0.0, Support::Floor), |f| {
                (f.top(), Support::Furniture(f.id.clone()))
            })
    }

    /// Lets the object at that place of the list fall upright onto what is below it; returns how far.
    pub(crate) fn drop_object(&mut self, index: usize, offset: [f64; 2]) -> f64 {
        let Some(object) = self.objects.get(index) else {
            return 0.0;
        };
        let at = object.pose.translation.vector;
        let (x, y) = (at.x + offset[0], at.y + offset[1]);
        let half = object.spec.size[2] / 2.0;
        // An object put down may be pressed a little into the surface: half its height is forgiven.
        let (surface, support) = self.surface_below(x, y, at.z);
        let yaw = yaw_of(&object.pose.rotation);
        if let Some(object) = self.objects.get_mut(index) {
            object.pose = upright(x, y, surface + half, yaw);
            object.support = support;
        }
        at.z - (surface + half)
    }

    /// Puts an object somewhere else: over (x, y) onto `on`, or onto whatever is highest there.
    ///
    /// # Errors
    /// [`SimError::Unknown`] when object or furniture does not exist.
    pub fn move_object(
        &mut self,
        id: &str,
        position: Option<[f64; 2]>,
        on: Option<&str>,
    ) -> Result<(), SimError> {
        let index = self.object_index(id).ok_or_else(|| SimError::Unknown {
            what: "object",
            id: id.to_owned(),
        })?;
        let ([x, y], (surface, support)) = match on {
            Some(on) => {
                let furniture = self.map.furniture(on).ok_or_else(|| SimError::Unknown {
                    what: "furniture",
                    id: on.to_owned(),
                })?;
                (
                    position.unwrap_or(furniture.center),
                    (furniture.top(), Support::Furniture(on.to_owned())),
                )
            }
            None => {
                let position = position.unwrap_or([0.0, 0.0]);
                (
                    position,
                    self.surface_below(position[0], position[1], WALL_HEIGHT),
                )
            }
        };
        if let Some(object) = self.objects.get_mut(index) {
            object.pose = upright(x, y, surface + object.spec.size[2] / 2.0, 0.0);
            object.support = support;
        }
        Ok(())
    }

    /// The classes of objects that exist, each once, in alphabetical order.
    #[must_use]
    pub fn classes(&self) -> Vec<&str> {
        let unique: BTreeMap<&str, ()> = self
            .objects
            .iter()
            .map(|o| (o.spec.class.as_str(), ()))
            .collect();
        unique.into_keys().collect()
    }
}

/// A body that stands upright, its centre at the point.
pub(crate) fn upright(x: f64, y: f64, z: f64, yaw: f64) -> Isometry3<f64> {
    Isometry3::from_parts(
        Translation3::new(x, y, z),
        UnitQuaternion::from_axis_angle(&Vector3::z_axis(), yaw),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORLD: &str = "
rooms: [{id: a, rect: [0, 0, 4, 4]}, {id: b, rect: [4, 0, 8, 4]}]
walls:
  - {from: [0, 0], to: [8, 0]}
  - {from: [8, 0], to: [8, 4]}
  - {from: [8, 4], to: [0, 4]}
  - {from: [0, 4], to: [0, 0]}
  - {from: [4, 0], to: [4, 4]}
doors: [{id: d, between: [a, b], from: [4, 1.5], to: [4, 2.5]}]
furniture: [{id: t, class: table, center: [2, 3], size: [1, 0.6, 0.7], surface: true}]
objects: [{id: c, class: cup, position: [2, 3], on: t, size: [0.08, 0.08, 0.1]}]
";

    fn world() -> World {
        World::new(&WorldFile::from_yaml(WORLD).unwrap()).unwrap()
    }

    #[test]
    fn a_ray_passes_an_open_door_and_stops_at_a_closed_one() {
        let mut w = world();
        // From (1, 2) along +x: through the door to the far wall's face at 8 − 0.05.
        assert!((w.ray(1.0, 2.0, 0.2, 0.0, 12.0).unwrap() - 6.95).abs() < 1e-9);
        assert!(w.set_door("d", false).unwrap() && w.version() == 1);
        assert!(!w.set_door("d", false).unwrap() && w.version() == 1);
        // Now to the leaf's face at 4 − 0.03.
        assert!((w.ray(1.0, 2.0, 0.2, 0.0, 12.0).unwrap() - 2.97).abs() < 1e-9);
        // Beside the door to the wall's face at 4 − 0.05.
        assert!((w.ray(1.0, 1.0, 0.2, 0.0, 12.0).unwrap() - 2.95).abs() < 1e-9);
        assert!(w.ray(1.0, 1.0, 0.2, 0.0, 2.0).is_none());
        assert!(w.set_door("x", true).is_err());
    }

    #[test]
    fn objects_fall_onto_what_is_below() {
        let mut w = world();
        // On the table: centre at 0.7 + 0.05.
        assert!((w.objects()[0].pose.translation.z - 0.75).abs() < 1e-12);
        w.object_mut(0).unwrap().pose.translation.z = 1.0;
        assert!((w.drop_object(0, [0.0, 0.0]) - 0.25).abs() < 1e-12);
        assert_eq!(w.objects()[0].support, Support::Furniture("t".to_owned()));
        // 0.6 m aside there is only the floor.
        w.drop_object(0, [0.6, 0.0]);
        assert_eq!(w.objects()[0].support, Support::Floor);
        assert!((w.objects()[0].pose.translation.z - 0.05).abs() < 1e-12);
        w.move_object("c", Some([2.1, 3.0]), Some("t")).unwrap();
        assert!((w.objects()[0].pose.translation.z - 0.75).abs() < 1e-12);
    }

    #[test]
    fn a_door_off_every_wall_is_refused() {
        let text = WORLD.replace(
            "from: [4, 1.5], to: [4, 2.5]",
            "from: [3, 1.5], to: [3, 2.5]",
        );
        let error = World::new(&WorldFile::from_yaml(&text).unwrap())
            .unwrap_err()
            .to_string();
        assert!(error.contains("no wall"), "{error}");
    }

    #[test]
    fn a_wall_hides_what_is_behind_it() {
        let w = world();
        let eye = Point3::new(1.0, 1.0, 1.2);
        let screens = w.screens(&eye, 10.0);
        assert!(screens.block(&eye, &Point3::new(6.0, 1.0, 1.0), None));
        assert!(!screens.block(&eye, &Point3::new(3.0, 1.0, 1.0), None));
        let cup = Point3::new(2.0, 3.0, 0.75);
        assert!(!screens.block(&eye, &cup, Some(0)));
        assert!(screens.block(&eye, &cup, None)); // the cup hides its own middle
    }
}

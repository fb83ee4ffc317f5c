//! The camera on the head: which objects and people it detects, where, and how surely.

use std::collections::BTreeMap;
use std::time::Duration;

use nalgebra::{Isometry3, Point3, UnitQuaternion, Vector3};

use crate::random::{SeededRandom, Stream};
use crate::world::{Body, Screens, World};
use crate::world_file::{Noise, RobotSpec};

/// The image's width and height, pixels.
pub const IMAGE: [f64; 2] = [640.0, 480.0];

/// The share of an object's probed points that must be seen.
const VISIBLE_SHARE: f64 = 0.3;

/// What the camera can see: a pyramid along z of `camera_optical_frame`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Frustum {
    /// Full horizontal angle, radians.
    pub horizontal_fov: f64,
    /// Full vertical angle, radians.
    pub vertical_fov: f64,
    /// Nearest distance along z, metres.
    pub near: f64,
    /// Farthest distance, metres.
    pub far: f64,
}

impl Frustum {
    /// Whether the point (camera_optical_frame, metres) is inside.
    #[must_use]
    pub fn contains(&self, p: &Point3<f64>) -> bool {
        p.z >= self.near
            && p.coords.norm() <= self.far
            && p.x.abs() <= p.z * (self.horizontal_fov / 2.0).tan()
            && p.y.abs() <= p.z * (self.vertical_fov / 2.0).tan()
    }
}

/// One detected thing.
#[derive(Debug, Clone, PartialEq)]
pub struct Detection {
    /// Number within this frame only; says nothing about identity.
    pub local_id: u32,
    /// What it seems to be.
    pub class: String,
    /// What it looks like.
    pub attributes: BTreeMap<String, String>,
    /// How sure the detector is, 0 … 1.
    pub confidence: f64,
    /// Its centre in `camera_optical_frame`, metres.
    pub position: Point3<f64>,
    /// How its box is turned in `camera_optical_frame`.
    pub orientation: UnitQuaternion<f64>,
    /// The length, width and height of its box, metres.
    pub size: [f64; 3],
    /// Its box in the image: centre x, centre y, width, height, pixels.
    pub image_box: [f64; 4],
}

/// All that was detected at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct DetectionFrame {
    /// When the image was taken.
    pub stamp: Duration,
    /// `camera_optical_frame` in base_link at that time.
    pub camera_in_base: Isometry3<f64>,
    /// What could be seen: nothing detected inside and unhidden is evidence of absence.
    pub frustum: Frustum,
    /// The detections, from left to right in the image.
    pub detections: Vec<Detection>,
}

/// The camera as it is.
#[derive(Debug, Clone)]
pub struct Camera {
    frustum: Frustum,
    noise: Noise,
    random: SeededRandom,
}

impl Camera {
    /// The camera of a robot.
    #[must_use]
    pub fn new(spec: &RobotSpec, noise: &Noise, seed: u64) -> Self {
        Self {
            frustum: Frustum {
                horizontal_fov: spec.camera_fov[0],
                vertical_fov: spec.camera_fov[1],
                near: spec.camera_range[0],
                far: spec.camera_range[1],
            },
            noise: noise.clone(),
            random: SeededRandom::new(seed, Stream::Detections),
        }
    }

    /// What the camera can see.
    #[must_use]
    pub fn frustum(&self) -> Frustum {
        self.frustum
    }

    /// Which share of the body the camera sees: 0 when hidden or out of view. `index` is its place among
    /// [`World::bodies`].
    ///
    /// `camera`: `camera_optical_frame` in the map.
    fn visible_share(
        &self,
        camera: &Isometry3<f64>,
        body: &Body<'_>,
        screens: &Screens,
        index: usize,
    ) -> f64 {
        let center = camera.inverse_transform_point(&Point3::from(body.pose.translation.vector));
        if !self.frustum.contains(&center) {
            return 0.0;
        }
        let eye = Point3::from(camera.translation.vector);
        let [sx, sy, sz] = body.size.map(|s| 0.4 * s);
        let probes = [
            [0.0, 0.0, 0.0],
            [sx, 0.0, 0.0],
            [-sx, 0.0, 0.0],
            [0.0, sy, 0.0],
            [0.0, -sy, 0.0],
            [0.0, 0.0, sz],
            [0.0, 0.0, -sz],
        ];
        let seen = probes
            .iter()
            .filter(|p| {
                let point = body.pose * Point3::new(p[0], p[1], p[2]);
                self.frustum
                    .contains(&camera.inverse_transform_point(&point))
                    && !screens.block(&eye, &point, Some(index))
            })
            .count();
        seen as f64 / probes.len() as f64
    }

    /// What a detector that errs in nothing would find: places among [`World::bodies`].
    ///
    /// `camera`: `camera_optical_frame` truly in the map.
    pub(crate) fn in_sight(&self, camera: &Isometry3<f64>, world: &World) -> Vec<usize> {
        let eye = Point3::from(camera.translation.vector);
        let screens = world.screens(&eye, self.frustum.far);
        let share = |(index, body): (usize, Body<'_>)| {
            (self.visible_share(camera, &body, &screens, index) >= VISIBLE_SHARE).then_some(index)
        };
        world.bodies().enumerate().filter_map(share).collect()
    }

    /// Takes an image and detects what is in it.
    ///
    /// `camera`: `camera_optical_frame` truly in the map; `camera_in_base`: in base_link.
    pub fn detect(
        &mut self,
        camera: &Isometry3<f64>,
        camera_in_base: Isometry3<f64>,
        world: &World,
        now: Duration,
    ) -> DetectionFrame {
        let eye = Point3::from(camera.translation.vector);
        let screens = world.screens(&eye, self.frustum.far);
        let mut detections = Vec::new();
        for (index, body) in world.bodies().enumerate() {
            let share = self.visible_share(camera, &body, &screens, index);
            if share >= VISIBLE_SHARE {
                detections.extend(self.detect_one(camera, world, &body, share));
            }
        }
        if self.random.chance(self.noise.false_positive) {
            detections.extend(self.invent(world));
        }
        // The order in the image, so that the order of the world file does not show.
        detections.sort_by(|a, b| a.image_box[0].total_cmp(&b.image_box[0]));
        for (id, detection) in (0_u32..).zip(&mut detections) {
            detection.local_id = id;
        }
        DetectionFrame {
            stamp: now,
            camera_in_base,
            frustum: self.frustum,
            detections,
        }
    }

    fn detect_one(
        &mut self,
        camera: &Isometry3<f64>,
        world: &World,
        body: &Body<'_>,
        share: f64,
    ) -> Option<Detection> {
        if self.random.chance(self.noise.miss) {
            return None;
        }
        let truth = camera.inverse_transform_point(&Point3::from(body.pose.translation.vector));
        let position = self.blur(&truth);
        let turn = self.random.normal(self.noise.detection_yaw);
        let orientation = camera.rotation.inverse()
            * UnitQuaternion::from_axis_angle(&Vector3::z_axis(), turn)
            * body.pose.rotation;
        let mut class = body.class.to_owned();
        let mut confidence = 0.6 + 0.35 * share - 0.03 * truth.coords.norm();
        if body.confusable && self.random.chance(self.noise.class_confusion) {
            let classes = world.classes();
            if let Some(other) = classes.get(self.random.index(classes.len())) {
                class = (*other).to_owned();
                confidence -= 0.25;
            }
        }
        confidence = (confidence + self.random.normal(0.02)).clamp(0.05, 0.99);
        let size = body.size;
        Some(Detection {
            local_id: 0,
            class,
            attributes: body.attributes.clone().into_owned(),
            confidence,
            image_box: self.image_box(&position, size),
            position,
            orientation,
            size,
        })
    }

    /// Something that is not there: one of the world's classes somewhere in view.
    fn invent(&mut self, world: &World) -> Option<Detection> {
        let classes = world.classes();
        let class = (*classes.get(self.random.index(classes.len()))?).to_owned();
        let z = self.random.between(1.0, self.frustum.far.max(1.1));
        let x = self.random.between(-0.4, 0.4) * z;
        let y = self.random.between(-0.3, 0.3) * z;
        let position = Point3::new(x, y, z);
        let size = [0.1, 0.1, 0.1];
        Some(Detection {
            local_id: 0,
            class,
            attributes: BTreeMap::new(),
            confidence: self.random.between(0.2, 0.55),
            image_box: self.image_box(&position, size),
            position,
            orientation: UnitQuaternion::identity(),
            size,
        })
    }

    fn blur(&mut self, truth: &Point3<f64>) -> Point3<f64> {
        let range = truth.coords.norm();
        let n = &self.noise;
        let (along, across) = (
            n.detection_range + n.detection_range_per_metre * range,
            n.detection_angle * range,
        );
        let direction = truth.coords / range.max(1e-9);
        let noise = Vector3::new(
            self.random.normal(across),
            self.random.normal(across),
            self.random.normal(across),
        );
        // The part of the sideways noise along the ray is replaced by the range's own.
        let sideways = noise - direction * noise.dot(&direction);
        truth + sideways + direction * self.random.normal(along)
    }

    fn image_box(&self, p: &Point3<f64>, size: [f64; 3]) -> [f64; 4] {
        let focal = [
            IMAGE[0] / 2.0 / (self.frustum.horizontal_fov / 2.0).tan(),
            IMAGE[1] / 2.0 / (self.frustum.vertical_fov / 2.0).tan(),
        ];
        let z = p.z.max(0.05);
        [
            IMAGE[0] / 2.0 + focal[0] * p.x / z,
            IMAGE[1] / 2.0 + focal[1] * p.y / z,
            focal[0] * size[0].max(size[1]) / z,
            focal[1] * size[2] / z,
        ]
    }
}

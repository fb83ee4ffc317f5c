//! The newest camera images, as many as a limit of bytes allows, with where each camera was.

use std::collections::VecDeque;
use std::time::Duration;

use eh_contract::geometry::{Pose, Vec3};
use eh_contract::Stamp;

use crate::crop::{cut, project, Crop, CropError, Intrinsics, Layout};

/// Most images.
const MAX_IMAGES: usize = 64;

/// Least time between two images that are kept: what is seen again a moment later shows no more.
pub const SPACING: Duration = Duration::from_millis(500);

/// An image and where it was taken.
#[derive(Clone, Debug)]
pub struct CameraImage {
    /// When it was taken.
    pub stamp: Stamp,
    /// Frame of the camera.
    pub frame_id: String,
    /// Encoding, as sensor_msgs/image_encodings names it.
    pub encoding: String,
    /// How it lies in `bytes`.
    pub layout: Layout,
    /// Its pixels.
    pub bytes: Vec<u8>,
    /// The lens.
    pub intrinsics: Intrinsics,
    /// The camera's optical frame in the map at `stamp`.
    pub camera: Pose,
}

/// A part of an image.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectImage {
    /// When it was taken.
    pub stamp: Stamp,
    /// Frame of the camera.
    pub frame_id: String,
    /// Encoding.
    pub encoding: String,
    /// Where it was in the image.
    pub crop: Crop,
    /// Bytes of a pixel.
    pub pixel: u32,
    /// Its pixels, row by row without gaps.
    pub bytes: Vec<u8>,
}

/// The images, oldest first.
#[derive(Debug, Default)]
pub struct ImageMemory {
    images: VecDeque<CameraImage>,
    bytes: usize,
    limit: usize,
}

impl ImageMemory {
    /// Room for so many bytes of pixels.
    pub fn new(limit: usize) -> Self {
        ImageMemory {
            limit,
            ..ImageMemory::default()
        }
    }

    /// Bytes of pixels that are kept.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of images that are kept.
    pub fn len(&self) -> usize {
        self.images.len()
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.images.is_empty()
    }

    /// True when an image of this time says something new.
    pub fn wants(&self, stamp: Stamp) -> bool {
        match self.images.back() {
            // A clock that was set back begins anew.
            Some(last) => stamp < last.stamp || stamp.since(last.stamp) >= SPACING,
            None => true,
        }
    }

    /// Checks that an image of so many bytes has room when all others go, so that it need not even wait.
    ///
    /// # Errors
    /// [`CropError::Image`] when it is larger than the whole memory.
    pub fn has_room_for(&self, bytes: usize) -> Result<(), CropError> {
        if bytes > self.limit {
            return Err(CropError::Image(format!(
                "it has {bytes} bytes, the memory for all images has {}; enlarge image_memory",
                self.limit
            )));
        }
        Ok(())
    }

    /// Keeps an image; the oldest go until it has room. One that has no room alone is not kept.
    ///
    /// # Errors
    /// [`CropError::Image`] when its size is not that of the camera, or it is larger than the whole memory.
    pub fn keep(&mut self, image: CameraImage) -> Result<(), CropError> {
        let (own, lens) = (
            (image.layout.width, image.layout.height),
            (image.intrinsics.width, image.intrinsics.height),
        );
        if own != lens {
            return Err(CropError::Image(format!(
                "it has {} x {} pixels, its camera_info says {} x {}",
                own.0, own.1, lens.0, lens.1
            )));
        }
        let size = image.bytes.len();
        self.has_room_for(size)?;
        if self
            .images
            .back()
            .is_some_and(|last| image.stamp < last.stamp)
        {
            self.images.clear();
            self.bytes = 0;
        }
        while self.bytes + size > self.limit || self.images.len() >= MAX_IMAGES {
            match self.images.pop_front() {
                Some(oldest) => self.bytes -= oldest.bytes.len(),
                None => break,
            }
        }
        self.bytes += size;
        self.images.push_back(image);
        Ok(())
    }

    /// Forgets all, since the map is another one.
    pub fn clear(&mut self) {
        self.images.clear();
        self.bytes = 0;
    }

    /// The part of an image that shows a box: of those that were taken within `max_age` of `now` (zero: of all)
    /// and not long after it was seen last, the one nearest to that time that shows most of it.
    ///
    /// # Errors
    /// [`CropError`] that says why no image does.
    pub fn look(
        &self,
        pose: &Pose,
        size: Vec3,
        seen: Stamp,
        margin: f64,
        max_age: Duration,
        now: Stamp,
    ) -> Result<ObjectImage, CropError> {
        let mut refused = CropError::NotShown("no image is remembered".into());
        let mut best: Option<(bool, Duration, &CameraImage, Crop)> = None;
        for image in self.images.iter().rev() {
            let age = now.since(image.stamp);
            if !max_age.is_zero() && age > max_age {
                if best.is_none() && matches!(refused, CropError::NotShown(_)) {
                    refused = CropError::NotShown(format!(
                        "the newest image that may show it is {:.1} s old, the limit is {:.1} s",
                        age.as_secs_f64(),
                        max_age.as_secs_f64()
                    ));
                }
                break;
            }
            match project(pose, size, &image.camera, &image.intrinsics, margin) {
                Ok(crop) => {
                    let off = image.stamp.since(seen).max(seen.since(image.stamp));
                    let is_cut = crop.share < 0.8;
                    if best.as_ref().is_none_or(|b| (is_cut, off) < (b.0, b.1)) {
                        best = Some((is_cut, off, image, crop));
                    }
                }
                Err(error @ CropError::Camera(_)) => return Err(error),
                Err(error) => refused = error,
            }
        }
        let (_, _, image, crop) = best.ok_or(refused)?;
        Ok(ObjectImage {
            stamp: image.stamp,
            frame_id: image.frame_id.clone(),
            encoding: image.encoding.clone(),
            crop,
            pixel: image.layout.pixel,
            bytes: cut(&image.bytes, &image.layout, &crop)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(seconds: f64, x: f64) -> CameraImage {
        // Looks down from 1 m above (x, 0): optical z is -z, so the image is turned about x by half a turn.
        let turn = nalgebra::UnitQuaternion::from_axis_angle(
            &nalgebra::Vector3::x_axis(),
            std::f64::consts::PI,
        );
        let at = nalgebra::Translation3::new(x, 0.0, 1.0);
        CameraImage {
            stamp: Stamp((seconds * 1e9) as i64),
            frame_id: "camera".into(),
            encoding: "mono8".into(),
            layout: Layout::of(20, 20, 20, "mono8", 400).unwrap(),
            bytes: vec![(seconds * 10.0) as u8; 400],
            intrinsics: Intrinsics::of(20, 20, &[20.0, 0.0, 10.0, 0.0, 20.0, 10.0, 0.0, 0.0, 1.0])
                .unwrap(),
            camera: Pose::from(nalgebra::Isometry3::from_parts(at, turn)),
        }
    }

    fn look(memory: &ImageMemory, x: f64, seen: f64, age: f64) -> Result<ObjectImage, CropError> {
        let seen = Stamp((seen * 1e9) as i64);
        let size = Vec3::new(0.3, 0.3, 0.1);
        let age = Duration::from_secs_f64(age);
        memory.look(
            &Pose::planar(x, 0.0, 0.0),
            size,
            seen,
            0.0,
            age,
            Stamp(20_000_000_000),
        )
    }

    #[test]
    fn it_never_holds_more_than_its_bytes() {
        let mut memory = ImageMemory::new(1000);
        for i in 0..50 {
            memory.keep(image(f64::from(i), 0.0)).unwrap();
            assert!(memory.bytes() <= 1000 && memory.len() <= 2);
        }
        let mut large = ImageMemory::new(usize::MAX);
        for i in 0..200 {
            large.keep(image(f64::from(i), 0.0)).unwrap();
        }
        assert_eq!(large.len(), MAX_IMAGES);
        let mut small = ImageMemory::new(399);
        assert!(small
            .keep(image(1.0, 0.0))
            .unwrap_err()
            .to_string()
            .contains("image_memory"));
        assert!(small.is_empty());
    }

    #[test]
    fn the_image_from_when_it_was_seen_is_looked_at() {
        let mut memory = ImageMemory::new(10_000);
        for (seconds, x) in [(10.0, 0.0), (11.0, 0.0), (12.0, 5.0)] {
            memory.keep(image(seconds, x)).unwrap();
        }
        let found = look(&memory, 0.0, 10.1, 0.0).unwrap();
        assert_eq!(found.bytes.first(), Some(&100));
        assert_eq!(
            found.bytes.len(),
            (found.crop.width * found.crop.height) as usize
        );
        assert_eq!(
            look(&memory, 0.0, 11.2, 0.0).unwrap().bytes.first(),
            Some(&110)
        );
        assert_eq!(
            look(&memory, 5.0, 10.0, 0.0).unwrap().bytes.first(),
            Some(&120)
        );
        // Nothing shows what is elsewhere; what is too old does not count.
        assert!(matches!(
            look(&memory, 2.5, 10.0, 0.0),
            Err(CropError::NotShown(_))
        ));
        let error = look(&memory, 0.0, 10.0, 8.5).unwrap_err();
        assert!(error.to_string().contains("9.0 s old"), "{error}");
        assert!(look(&ImageMemory::new(1), 0.0, 1.0, 0.0).is_err());
    }

    #[test]
    fn what_comes_at_once_again_and_what_does_not_fit_its_camera_is_left_out() {
        let mut memory = ImageMemory::new(10_000);
        memory.keep(image(10.0, 0.0)).unwrap();
        assert!(!memory.wants(Stamp(10_200_000_000)));
        assert!(memory.wants(Stamp(10_600_000_000)));
        // The clock was set back.
        assert!(memory.wants(Stamp(5_000_000_000)));
        memory.keep(image(5.0, 0.0)).unwrap();
        assert_eq!((memory.len(), memory.bytes()), (1, 400));
        let mut other = image(11.0, 0.0);
        other.intrinsics.width = 40;
        assert!(memory
            .keep(other)
            .unwrap_err()
            .to_string()
            .contains("40 x 20"));
    }
}

//! Images of the camera on their way into memory: each waits for where the camera was.

use std::collections::VecDeque;

use eh_contract::geometry::Pose;
use eh_contract::Stamp;
use eh_ros_edge::convert::time_ns;
use eh_ros_edge::TfBuffer;
use eh_scene::crop::{CropError, Intrinsics, Layout};
use eh_scene::image_memory::{CameraImage, ImageMemory, SPACING};
use ros_env::sensor_msgs::msg::{CameraInfo, Image};

/// Most images that wait.
const MAX_WAITING: usize = 4;

/// What is remembered of a camera.
pub(crate) struct Camera {
    /// The images.
    pub(crate) memory: ImageMemory,
    lens: Option<Intrinsics>,
    waiting: VecDeque<(Image, Layout, i64)>,
    /// Why the newest image was left out; what an answer says when there is none.
    pub(crate) trouble: Option<String>,
}

impl Camera {
    /// With room for so many bytes of images.
    pub(crate) fn new(limit: usize) -> Self {
        Camera {
            memory: ImageMemory::new(limit),
            lens: None,
            waiting: VecDeque::new(),
            trouble: None,
        }
    }

    /// The lens.
    pub(crate) fn take_info(&mut self, info: &CameraInfo) {
        match Intrinsics::of(info.width, info.height, &info.k) {
            Ok(lens) => self.lens = Some(lens),
            Err(error) => self.trouble = Some(error.to_string()),
        }
    }

    /// An image that came at `steady_ns`.
    pub(crate) fn take_image(&mut self, image: Image, steady_ns: i64) {
        let stamp = Stamp(time_ns(&image.header.stamp));
        // One of a moment is enough.
        let waits = self.waiting.back().is_some_and(|(last, _, _)| {
            let last = Stamp(time_ns(&last.header.stamp));
            stamp >= last && stamp.since(last) < SPACING
        });
        if waits || !self.memory.wants(stamp) {
            return;
        }
        let layout = Layout::of(
            image.width,
            image.height,
            image.step,
            &image.encoding,
            image.data.len(),
        );
        let size = image.data.len();
        match layout.and_then(|layout| self.memory.has_room_for(size).map(|()| layout)) {
            Ok(layout) => self.waiting.push_back((image, layout, steady_ns)),
            Err(error) => self.trouble = Some(error.to_string()),
        }
        while self.waiting.len() > MAX_WAITING {
            self.waiting.pop_front();
        }
    }

    /// Keeps the images of which it is known where the camera was; those that waited too long are dropped.
    pub(crate) fn work_off(
        &mut self,
        tf: &TfBuffer,
        map_frame: &str,
        steady_ns: i64,
        timeout_ns: i64,
    ) {
        while let Some((image, _, since)) = self.waiting.front() {
            let stamp = time_ns(&image.header.stamp);
            let placed = match (
                self.lens,
                tf.lookup(map_frame, &image.header.frame_id, stamp),
            ) {
                (Some(lens), Ok(camera)) => Ok((lens, Pose::from(camera.transform))),
                (None, _) => Err("no camera_info has come".to_string()),
                (_, Err(error)) => Err(format!("where the camera was is not known: {error}")),
            };
            if placed.is_err() && steady_ns.saturating_sub(*since) < timeout_ns {
                return;
            }
            let Some((image, layout, _)) = self.waiting.pop_front() else {
                return;
            };
            let kept = placed.and_then(|(intrinsics, camera)| {
                self.memory
                    .keep(CameraImage {
                        stamp: Stamp(stamp),
                        frame_id: image.header.frame_id,
                        encoding: image.encoding,
                        layout,
                        bytes: image.data,
                        intrinsics,
                        camera,
                    })
                    .map_err(|e: CropError| e.to_string())
            });
            self.trouble = kept.err();
        }
    }

    /// Forgets what was taken on another map.
    pub(crate) fn clear(&mut self) {
        self.memory.clear();
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(width: u32, height: u32, step: u32, encoding: &str, bytes: usize) -> Image {
        Image {
            width,
            height,
            step,
            encoding: encoding.into(),
            data: vec![0; bytes],
            ..Image::default()
        }
    }

    #[test]
    fn an_image_that_is_none_is_named_and_does_not_wait() {
        let mut camera = Camera::new(1000);
        for (bad, why) in [
            (image(0, 4, 12, "rgb8", 48), "width is 0"),
            (image(4, 0, 12, "rgb8", 0), "height is 0"),
            (image(u32::MAX, 4, 12, "rgb8", 48), "width is 4294967295"),
            (image(4, 4, 11, "rgb8", 44), "rows have 11 bytes"),
            (image(4, 4, u32::MAX, "rgb8", 48), "its 4 rows need"),
            (image(4, 4, 12, "rgb8", 47), "47 bytes"),
            (image(4, 4, 12, "rgb8", 49), "49 bytes"),
            (image(4, 4, 4, "32FC1", 16), "encoding"),
            // Well formed, and larger than the whole memory: four of them would wait for a transform.
            (image(40, 40, 40, "mono8", 1600), "enlarge image_memory"),
        ] {
            camera.take_image(bad, 0);
            let trouble = camera.trouble.take().unwrap_or_default();
            assert!(trouble.contains(why), "{why}: {trouble}");
            assert!(camera.waiting.is_empty(), "{why}");
        }
        camera.take_image(image(4, 4, 12, "rgb8", 48), 0);
        assert_eq!((camera.waiting.len(), camera.trouble), (1, None));
    }
}

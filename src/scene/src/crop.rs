//! Which part of a camera image shows an object, and that part.
//!
//! The object's box is projected by the pinhole camera (Hartley and Zisserman, Multiple View Geometry, chapter 6)
//! with the intrinsics of sensor_msgs/CameraInfo; lens distortion is left out, which the margin has room for.
//! Camera frames are optical: z ahead, x right, y down (REP-103).

use eh_contract::geometry::{Pose, Vec3};
use nalgebra::Point3;
use thiserror::Error;

/// Nearer than this nothing is projected \[m\].
const NEAR: f64 = 0.05;

/// Edge that is assumed of a box whose size is not known \[m\].
const ASSUMED_EDGE: f64 = 0.1;

/// Largest side of an image \[pixels\].
const MAX_SIDE: u32 = 8192;

/// Fewer pixels than this on a side show nothing.
const LEAST_SIDE: u32 = 4;

/// Largest margin, as a share of the box.
pub const MAX_MARGIN: f64 = 4.0;

/// Why there is no such part.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum CropError {
    /// The image is not what it says.
    #[error("the image can't be used: {0}")]
    Image(String),
    /// The camera is none.
    #[error("the camera can't be used: {0}")]
    Camera(String),
    /// The object is not in it.
    #[error("the image does not show it: {0}")]
    NotShown(String),
}

/// How an image lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Pixels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Bytes from row to row.
    pub step: u32,
    /// Bytes of a pixel.
    pub pixel: u32,
}

impl Layout {
    /// The layout of an image of so many bytes, encoded as sensor_msgs/image_encodings names it.
    ///
    /// # Errors
    /// [`CropError::Image`] for an encoding that is no picture, sizes of zero or beyond 8192, rows that are
    /// shorter than their pixels, or bytes that are not as many as the rows have.
    pub fn of(
        width: u32,
        height: u32,
        step: u32,
        encoding: &str,
        bytes: usize,
    ) -> Result<Self, CropError> {
        let bad = |reason: String| Err(CropError::Image(reason));
        let pixel = match encoding {
            "mono8" | "8UC1" => 1,
            "mono16" | "16UC1" => 2,
            "rgb8" | "bgr8" | "8UC3" => 3,
            "rgba8" | "bgra8" | "8UC4" => 4,
            other => {
                return bad(format!(
                    "its encoding is \"{}\"; use rgb8, bgr8, rgba8, bgra8, mono8 or mono16",
                    other.chars().take(32).collect::<String>()
                ))
            }
        };
        for (what, side) in [("width", width), ("height", height)] {
            if !(1..=MAX_SIDE).contains(&side) {
                return bad(format!(
                    "its {what} is {side}; it must lie in 1 to {MAX_SIDE}"
                ));
            }
        }
        // At most 8192 × 4.
        if step < width * pixel {
            return bad(format!(
                "its rows have {step} bytes, {width} pixels of {encoding} need {}",
                width * pixel
            ));
        }
        let needed = u64::from(step) * u64::from(height);
        // More than its rows is as wrong as less: sensor_msgs/Image has step * height bytes, and what is behind them
        // would be kept for nothing.
        if u64::try_from(bytes).unwrap_or(u64::MAX) != needed {
            return bad(format!(
                "it has {bytes} bytes, its {height} rows need {needed}"
            ));
        }
        Ok(Layout {
            width,
            height,
            step,
            pixel,
        })
    }
}

/// A pinhole camera, in pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Intrinsics {
    /// Size of the images.
    pub width: u32,
    /// Size of the images.
    pub height: u32,
    /// Focal length along x and y.
    pub focal: [f64; 2],
    /// Where the optical axis meets the image.
    pub center: [f64; 2],
}

impl Intrinsics {
    /// The intrinsics of a row-major 3×3 matrix K.
    ///
    /// # Errors
    /// [`CropError::Camera`] for numbers that are not finite or a focal length that is not positive.
    pub fn of(width: u32, height: u32, k: &[f64; 9]) -> Result<Self, CropError> {
        let [fx, _, cx, _, fy, cy, ..] = *k;
        let all = [fx, fy, cx, cy];
        if all.iter().any(|v| !v.is_finite()) || fx <= 0.0 || fy <= 0.0 {
            return Err(CropError::Camera(format!(
                "its focal lengths are {fx} and {fy} and its centre ({cx}, {cy}) pixels; all must be finite, the lengths more than 0"
            )));
        }
        Ok(Intrinsics {
            width,
            height,
            focal: [fx, fy],
            center: [cx, cy],
        })
    }
}

/// A rectangle of pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Crop {
    /// Left edge.
    pub x: u32,
    /// Upper edge.
    pub y: u32,
    /// Pixels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Share of the box's rectangle that is inside the image, 0 to 1.
    pub share: f64,
}

/// Where a box is in the images of a camera; poses in one frame, the margin as a share of the box on each side.
///
/// # Errors
/// [`CropError::NotShown`] when it is behind the camera, beside the image, or too small in it;
/// [`CropError::Camera`] for a margin that is none.
pub fn project(
    pose: &Pose,
    size: Vec3,
    camera: &Pose,
    intrinsics: &Intrinsics,
    margin: f64,
) -> Result<Crop, CropError> {
    if !(0.0..=MAX_MARGIN).contains(&margin) {
        return Err(CropError::Camera(format!(
            "the margin is {margin}; it must lie in 0 to {MAX_MARGIN}"
        )));
    }
    let half = [size.x, size.y, size.z].map(|edge| {
        let edge = if edge > 0.0 { edge } else { ASSUMED_EDGE };
        edge * (0.5 + margin)
    });
    let to_camera = camera.isometry().inverse() * pose.isometry();
    let corner = |i: usize| {
        let sign = |bit: usize| if i >> bit & 1 == 1 { 1.0 } else { -1.0 };
        to_camera * Point3::new(sign(0) * half[0], sign(1) * half[1], sign(2) * half[2])
    };
    let corners: Vec<Point3<f64>> = (0..8).map(corner).collect();
    // Corners in front of the camera, and where edges pass the plane beyond which there is nothing.
    let mut points: Vec<Point3<f64>> = corners.iter().copied().filter(|p| p.z >= NEAR).collect();
    for (i, a) in corners.iter().enumerate() {
        for bit in 0..3 {
            let Some(b) = corners.get(i | 1 << bit) else {
                continue;
            };
            if (a.z < NEAR) != (b.z < NEAR) {
                let t = (NEAR - a.z) / (b.z - a.z);
                points.push(a + (b - a) * t);
            }
        }
    }
    if points.is_empty() {
        return Err(CropError::NotShown("it is behind the camera".into()));
    }
    let [fx, fy] = intrinsics.focal;
    let [cx, cy] = intrinsics.center;
    let (mut low, mut high) = ([f64::INFINITY; 2], [f64::NEG_INFINITY; 2]);
    for p in points {
        for (axis, at) in [fx * p.x / p.z + cx, fy * p.y / p.z + cy]
            .into_iter()
            .enumerate()
        {
            low[axis] = low[axis].min(at);
            high[axis] = high[axis].max(at);
        }
    }
    let limits = [f64::from(intrinsics.width), f64::from(intrinsics.height)];
    let mut inside = [(0_u32, 0_u32); 2];
    for axis in 0..2 {
        // Whole pixels that the rectangle touches, as far as there are any; the numbers are within the image.
        let from = low[axis].floor().clamp(0.0, limits[axis]);
        let to = high[axis].ceil().clamp(0.0, limits[axis]);
        inside[axis] = (from as u32, (to - from) as u32);
    }
    let [(x, width), (y, height)] = inside;
    if width < LEAST_SIDE || height < LEAST_SIDE {
        return Err(CropError::NotShown(format!(
            "{width} x {height} pixels of it are in the image, {LEAST_SIDE} on each side are the least"
        )));
    }
    let whole = (high[0] - low[0]) * (high[1] - low[1]);
    let shown =
        (high[0].min(limits[0]) - low[0].max(0.0)) * (high[1].min(limits[1]) - low[1].max(0.0));
    Ok(Crop {
        x,
        y,
        width,
        height,
        share: (shown / whole).clamp(0.0, 1.0),
    })
}

/// The bytes of a part of an image, row by row without gaps.
///
/// # Errors
/// [`CropError::Image`] when the part is not inside, or there are fewer bytes than the layout says.
pub fn cut(bytes: &[u8], layout: &Layout, crop: &Crop) -> Result<Vec<u8>, CropError> {
    let size = |n: u32| n as usize;
    let (step, pixel) = (size(layout.step), size(layout.pixel));
    let fits = |from: u32, length: u32, limit: u32| {
        from.checked_add(length).is_some_and(|end| end <= limit)
    };
    if !(fits(crop.x, crop.width, layout.width) && fits(crop.y, crop.height, layout.height)) {
        return Err(CropError::Image(format!(
            "{} x {} pixels at ({}, {}) are not inside its {} x {}",
            crop.width, crop.height, crop.x, crop.y, layout.width, layout.height
        )));
    }
    let mut out = Vec::with_capacity(size(crop.width) * size(crop.height) * pixel);
    for row in crop.y..crop.y + crop.height {
        let from = size(row) * step + size(crop.x) * pixel;
        let bytes = bytes
            .get(from..from + size(crop.width) * pixel)
            .ok_or_else(|| CropError::Image("it has fewer bytes than it says".into()))?;
        out.extend_from_slice(bytes);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nalgebra::{Isometry3, Translation3, UnitQuaternion};

    /// 100 x 80 pixels, 100 pixels of focal length, the middle in the middle.
    fn lens() -> Intrinsics {
        Intrinsics::of(
            100,
            80,
            &[100.0, 0.0, 50.0, 0.0, 100.0, 40.0, 0.0, 0.0, 1.0],
        )
        .unwrap()
    }

    /// At the origin, looking along the map's x: optical z is x, optical x is -y, optical y is -z.
    fn camera() -> Pose {
        let turn = UnitQuaternion::from_quaternion(nalgebra::Quaternion::new(0.5, -0.5, 0.5, -0.5));
        Pose::from(Isometry3::from_parts(Translation3::identity(), turn))
    }

    fn crop_at(x: f64, y: f64, size: f64, margin: f64) -> Result<Crop, CropError> {
        let pose = Pose::planar(x, y, 0.0);
        project(
            &pose,
            Vec3::new(size, size, size),
            &camera(),
            &lens(),
            margin,
        )
    }

    #[test]
    fn a_box_ahead_is_in_the_middle() {
        // A cube of 0.2 m, 2 m ahead: its near face at 1.9 m is 0.2 / 1.9 · 100 = 10.5 pixels wide.
        let crop = crop_at(2.0, 0.0, 0.2, 0.0).unwrap();
        assert_eq!((crop.x, crop.y), (44, 34));
        assert_eq!((crop.width, crop.height), (12, 12));
        assert_eq!(crop.share, 1.0);
        // With half of it more on each side it is twice as large, and its near face at 1.8 m: 22.2 pixels.
        let wide = crop_at(2.0, 0.0, 0.2, 0.5).unwrap();
        assert_eq!((wide.x, wide.width), (38, 24));
        // Left in the map is left in the image.
        assert!(crop_at(2.0, 0.3, 0.2, 0.0).unwrap().x < 44);
    }

    #[test]
    fn what_is_cut_by_the_border_says_how_much_is_left() {
        // Its middle is at 50 - 100 · 1.0 / 2.0 = 0, the left border.
        let crop = crop_at(2.0, 1.0, 0.2, 0.0).unwrap();
        assert_eq!(crop.x, 0);
        assert!((0.4..0.6).contains(&crop.share), "{crop:?}");
        let gone = crop_at(2.0, 1.5, 0.2, 0.0).unwrap_err();
        assert!(matches!(gone, CropError::NotShown(_)), "{gone}");
        let behind = crop_at(-2.0, 0.0, 0.2, 0.0).unwrap_err();
        assert!(behind.to_string().contains("behind"), "{behind}");
        // Around the camera itself: it is everywhere.
        let around = crop_at(0.0, 0.0, 2.0, 0.0).unwrap();
        assert_eq!((around.width, around.height), (100, 80));
        // Too small to show anything: 0.01 m at 50 m.
        assert!(crop_at(50.0, 0.0, 0.01, 0.0).is_err());
        for margin in [-0.1, 5.0, f64::NAN] {
            assert!(matches!(
                crop_at(2.0, 0.0, 0.2, margin),
                Err(CropError::Camera(_))
            ));
        }
    }

    #[test]
    fn the_bytes_of_the_part_are_cut_out() {
        // 4 x 3 pixels of two bytes, rows of ten: two bytes of nothing behind each.
        let bytes: Vec<u8> = (0..30).collect();
        let layout = Layout::of(4, 3, 10, "mono16", bytes.len()).unwrap();
        let crop = Crop {
            x: 1,
            y: 1,
            width: 2,
            height: 2,
            share: 1.0,
        };
        assert_eq!(
            cut(&bytes, &layout, &crop).unwrap(),
            [12, 13, 14, 15, 22, 23, 24, 25]
        );
        for bad in [
            Crop { x: 3, ..crop },
            Crop { y: 2, ..crop },
            Crop {
                x: u32::MAX,
                ..crop
            },
        ] {
            assert!(cut(&bytes, &layout, &bad).is_err());
        }
        assert!(cut(&bytes[..20], &layout, &crop).is_err());
    }

    #[test]
    fn images_that_are_none_are_refused_with_words() {
        for (width, height, step, encoding, bytes, says) in [
            (0, 3, 30, "rgb8", 100, "width"),
            (4, 9000, 12, "rgb8", 1_000_000, "height"),
            (4, 3, 11, "rgb8", 100, "need 12"),
            (4, 3, 12, "rgb8", 35, "35 bytes"),
            (4, 3, 16, "32FC1", 100, "32FC1"),
            (4, 3, 12, "", 100, "encoding"),
        ] {
            let error = Layout::of(width, height, step, encoding, bytes).unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
        }
        for k in [[f64::NAN; 9], [0.0; 9], [-1.0; 9]] {
            assert!(matches!(
                Intrinsics::of(4, 3, &k),
                Err(CropError::Camera(_))
            ));
        }
    }
}

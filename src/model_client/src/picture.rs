//! Images of cameras, checked, made smaller and turned into JPEG in data URLs.
//!
//! The layout is that of `sensor_msgs/Image`: rows of `step` bytes from the top, pixels by `encoding`.

use std::sync::Arc;

use base64::Engine;
use jpeg_encoder::{ColorType, Encoder};
use thiserror::Error;

use crate::error::ModelError;

/// An image as a camera driver gives it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawImage {
    /// Pixels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// How a pixel is encoded: rgb8, bgr8, rgba8, bgra8 or mono8 (REP-118 has others, for depth).
    pub encoding: String,
    /// Bytes from one row to the next.
    pub step: u32,
    /// The rows.
    pub data: Vec<u8>,
}

/// An image with the name under which a question speaks of it.
#[derive(Clone, Debug)]
pub struct NamedPicture {
    /// The name.
    pub name: String,
    /// The image.
    pub image: Arc<RawImage>,
}

/// Sizes of pictures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PictureLimits {
    /// Most pixels of an image that is taken at all.
    pub max_pixels: u64,
    /// Longer edge of what is sent \[pixels\]; larger images are made smaller by a whole number.
    pub max_edge: u32,
    /// Quality of the JPEG, 1 to 100.
    pub quality: u8,
    /// Largest picture that is sent \[bytes of JPEG\].
    pub max_bytes: usize,
}

impl Default for PictureLimits {
    fn default() -> Self {
        PictureLimits {
            max_pixels: 16_000_000,
            max_edge: 1024,
            quality: 85,
            max_bytes: 1024 * 1024,
        }
    }
}

impl PictureLimits {
    /// Checks every number.
    ///
    /// # Errors
    /// [`ModelError::Setting`].
    pub fn check(&self) -> Result<(), ModelError> {
        for (field, value, least, most) in [
            ("pictures.max_pixels", self.max_pixels, 1, 100_000_000),
            ("pictures.max_edge", u64::from(self.max_edge), 16, 8192),
            ("pictures.quality", u64::from(self.quality), 1, 100),
            (
                "pictures.max_bytes",
                self.max_bytes as u64,
                1024,
                64 * 1024 * 1024,
            ),
        ] {
            if !(least..=most).contains(&value) {
                return Err(ModelError::Setting {
                    field,
                    reason: format!("it is {value}; it must lie in {least} to {most}"),
                });
            }
        }
        Ok(())
    }
}

/// Why an image can't be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PictureError {
    /// It has no pixels.
    #[error("it is {width} x {height} pixels large")]
    Empty {
        /// Pixels in a row.
        width: u32,
        /// Rows.
        height: u32,
    },
    /// It is too large.
    #[error("it has {width} x {height} pixels, the limit is {limit} in all; let the camera send smaller ones")]
    TooLarge {
        /// Pixels in a row.
        width: u32,
        /// Rows.
        height: u32,
        /// Most pixels.
        limit: u64,
    },
    /// An encoding that is not understood.
    #[error("its encoding is \"{0}\"; understood are rgb8, bgr8, rgba8, bgra8 and mono8")]
    Encoding(String),
    /// Rows shorter than their pixels.
    #[error("a row has {step} bytes, its {width} pixels need {needed}")]
    Step {
        /// Bytes from one row to the next.
        step: u32,
        /// Pixels in a row.
        width: u32,
        /// Bytes that they need.
        needed: u64,
    },
    /// Not as much data as its size says.
    #[error("it has {bytes} bytes of data, {height} rows of {step} bytes are {needed}")]
    Data {
        /// How much there is.
        bytes: usize,
        /// Rows.
        height: u32,
        /// Bytes from one row to the next.
        step: u32,
        /// How much there should be.
        needed: u64,
    },
    /// The JPEG is too large.
    #[error("it has {bytes} bytes as JPEG, the limit is {limit}")]
    TooManyBytes {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The encoder refuses.
    #[error("it can't be encoded: {0}")]
    Encoder(String),
}

/// Bytes of a pixel and where red, green and blue are in it.
fn layout(encoding: &str) -> Option<(usize, [usize; 3])> {
    match encoding {
        "rgb8" => Some((3, [0, 1, 2])),
        "bgr8" => Some((3, [2, 1, 0])),
        "rgba8" => Some((4, [0, 1, 2])),
        "bgra8" => Some((4, [2, 1, 0])),
        "mono8" => Some((1, [0, 0, 0])),
        _ => None,
    }
}

impl RawImage {
    /// Checks sizes and encoding against each other and the limits.
    ///
    /// # Errors
    /// [`PictureError`].
    pub fn check(&self, limits: &PictureLimits) -> Result<(), PictureError> {
        self.checked(limits).map(|_| ())
    }

    fn checked(&self, limits: &PictureLimits) -> Result<(usize, [usize; 3]), PictureError> {
        let (width, height, step) = (self.width, self.height, self.step);
        if width == 0 || height == 0 {
            return Err(PictureError::Empty { width, height });
        }
        let limit = limits.max_pixels;
        if u64::from(width) * u64::from(height) > limit {
            return Err(PictureError::TooLarge {
                width,
                height,
                limit,
            });
        }
        let layout = layout(&self.encoding).ok_or_else(|| {
            PictureError::Encoding(self.encoding.chars().take(32).collect::<String>())
        })?;
        let needed = u64::from(width) * layout.0 as u64;
        if u64::from(step) < needed {
            return Err(PictureError::Step {
                step,
                width,
                needed,
            });
        }
        let needed = u64::from(step) * u64::from(height);
        if self.data.len() as u64 != needed {
            return Err(PictureError::Data {
                bytes: self.data.len(),
                height,
                step,
                needed,
            });
        }
        Ok(layout)
    }

    /// The picture as JPEG, its longer edge at most [`PictureLimits::max_edge`]: each pixel is the mean of a square.
    ///
    /// # Errors
    /// [`PictureError`].
    pub fn jpeg(&self, limits: &PictureLimits) -> Result<Vec<u8>, PictureError> {
        let (pixel, channels) = self.checked(limits)?;
        let side = self.width.max(self.height).div_ceil(limits.max_edge).max(1);
        // What is left over at the right and below is cut off; nothing is when it is thinner than that.
        let width = (self.width / side).max(1);
        let height = (self.height / side).max(1);
        let (bx, by) = (side.min(self.width), side.min(self.height));
        let area = bx * by;
        let step = self.step as usize;
        let mut rgb = Vec::with_capacity(width as usize * height as usize * 3);
        for y in 0..height {
            for x in 0..width {
                let mut sums = [0_u32; 3];
                for dy in 0..by {
                    let row = (y * side + dy) as usize * step;
                    for dx in 0..bx {
                        let at = row + (x * side + dx) as usize * pixel;
                        for (sum, channel) in sums.iter_mut().zip(channels) {
                            // Inside: checked against step and height.
                            *sum += u32::from(self.data.get(at + channel).copied().unwrap_or(0));
                        }
                    }
                }
                rgb.extend(sums.map(|s| u8::try_from(s / area).unwrap_or(u8::MAX)));
            }
        }
        let refused = |reason: String| PictureError::Encoder(reason);
        let edge = |n: u32| u16::try_from(n).map_err(|e| refused(e.to_string()));
        let mut out = Vec::new();
        Encoder::new(&mut out, limits.quality)
            .encode(&rgb, edge(width)?, edge(height)?, ColorType::Rgb)
            .map_err(|e| refused(e.to_string()))?;
        if out.len() > limits.max_bytes {
            return Err(PictureError::TooManyBytes {
                bytes: out.len(),
                limit: limits.max_bytes,
            });
        }
        Ok(out)
    }

    /// The JPEG as a data URL (RFC 2397).
    ///
    /// # Errors
    /// [`PictureError`].
    pub fn data_url(&self, limits: &PictureLimits) -> Result<String, PictureError> {
        let jpeg = self.jpeg(limits)?;
        let encoded = base64::engine::general_purpose::STANDARD.encode(jpeg);
        Ok(format!("data:image/jpeg;base64,{encoded}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(width: u32, height: u32, encoding: &str, step: u32) -> RawImage {
        RawImage {
            width,
            height,
            encoding: encoding.into(),
            step,
            data: vec![128; step as usize * height as usize],
        }
    }

    /// Height and width of a JPEG from its start of frame (ITU T.81, B.2.2).
    fn size(jpeg: &[u8]) -> (u16, u16) {
        let at = jpeg.windows(2).position(|w| w == [0xff, 0xc0]).unwrap();
        let word = |i: usize| u16::from_be_bytes([jpeg[at + i], jpeg[at + i + 1]]);
        (word(5), word(7))
    }

    #[test]
    fn pictures_of_all_encodings_become_jpeg_no_larger_than_the_limit() {
        let limits = PictureLimits {
            max_edge: 100,
            ..PictureLimits::default()
        };
        for (encoding, pixel) in [
            ("rgb8", 3),
            ("bgr8", 3),
            ("rgba8", 4),
            ("bgra8", 4),
            ("mono8", 1),
        ] {
            // Rows may be padded.
            let jpeg = image(64, 48, encoding, 64 * pixel + 5)
                .jpeg(&limits)
                .unwrap();
            assert_eq!(size(&jpeg), (48, 64), "{encoding}");
        }
        // 640 / 100 rounds up to 7: 91 x 68.
        let jpeg = image(640, 480, "rgb8", 1920).jpeg(&limits).unwrap();
        assert_eq!(size(&jpeg), (68, 91));
        assert_eq!(
            size(&image(640, 1, "mono8", 640).jpeg(&limits).unwrap()),
            (1, 91)
        );
        let url = image(8, 8, "mono8", 8).data_url(&limits).unwrap();
        // Each JPEG begins with ff d8 ff.
        assert!(url.starts_with("data:image/jpeg;base64,/9j/"), "{url}");
    }

    #[test]
    fn colours_stay_what_they_are() {
        // A JPEG of one colour has the same size whether it came as RGB or BGR, if the channels are exchanged.
        let of = |encoding: &str, pixel: &[u8]| {
            let mut raw = image(16, 16, encoding, 16 * pixel.len() as u32);
            raw.data = pixel.repeat(256);
            raw.jpeg(&PictureLimits::default()).unwrap()
        };
        let red = of("rgb8", &[255, 0, 0]);
        assert_eq!(red, of("bgr8", &[0, 0, 255]));
        assert_eq!(red, of("rgba8", &[255, 0, 0, 9]));
        assert_ne!(red, of("bgr8", &[255, 0, 0]));
    }

    #[test]
    fn wrong_sizes_and_encodings_are_refused() {
        let limits = PictureLimits {
            max_pixels: 10_000,
            ..PictureLimits::default()
        };
        let refused = |image: RawImage| image.check(&limits).unwrap_err().to_string();
        assert!(refused(image(0, 4, "rgb8", 0)).contains("0 x 4"));
        assert!(refused(image(101, 100, "mono8", 101)).contains("limit is 10000"));
        assert!(refused(image(4, 4, "32FC1", 16)).contains("32FC1"));
        assert!(refused(image(4, 4, "", 12)).contains("understood are"));
        assert!(refused(image(4, 4, "rgb8", 11)).contains("need 12"));
        let mut short = image(4, 4, "rgb8", 12);
        short.data.pop();
        assert!(refused(short).contains("47 bytes of data, 4 rows of 12 bytes are 48"));
        // Sizes whose product would overflow 32 bits.
        let huge = RawImage {
            width: u32::MAX,
            height: u32::MAX,
            encoding: "rgb8".into(),
            step: u32::MAX,
            data: vec![],
        };
        assert!(refused(huge).contains("limit is 10000"));
        let tight = PictureLimits {
            max_bytes: 10,
            ..limits.clone()
        };
        assert!(image(8, 8, "mono8", 8)
            .jpeg(&tight)
            .unwrap_err()
            .to_string()
            .contains("limit is 10"));
    }
}

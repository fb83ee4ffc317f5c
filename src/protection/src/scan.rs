//! A laser scan as points in the base frame.

use std::f64::consts::{PI, TAU};

use thiserror::Error;

use crate::footprint::Point;

/// Most beams that are believed; more is a broken message.
pub const MAX_BEAMS: usize = 100_000;

/// Directions are told apart in this many sectors around the base, 15 degrees each.
pub const SECTORS: usize = 24;

/// Where the laser sits: pose of its frame in the base frame, on the floor plane.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mounting {
    /// Forward \[m\].
    pub x: f64,
    /// To the left \[m\].
    pub y: f64,
    /// Heading of the laser's x axis, counter-clockwise \[rad\].
    pub yaw: f64,
    /// True when the laser hangs upside down, so that its beams turn clockwise seen from above.
    pub inverted: bool,
}

impl Mounting {
    /// The mounting of a laser by its pose in the base frame: translation x, y in metres and the rotation matrix by
    /// rows.
    ///
    /// # Errors
    /// [`ScanError::Tilted`] when its beams leave the floor plane by more than 10 degrees.
    pub fn from_pose(x: f64, y: f64, rotation: [[f64; 3]; 3]) -> Result<Self, ScanError> {
        let [[forward_x, _, _], [forward_y, _, _], [_, _, up_z]] = rotation;
        // up_z is the cosine of the angle between the laser's axis and the vertical.
        let tilt = up_z.abs().min(1.0).acos().to_degrees();
        if tilt.is_nan() || tilt > 10.0 {
            return Err(ScanError::Tilted(tilt));
        }
        Ok(Mounting {
            x,
            y,
            yaw: forward_y.atan2(forward_x),
            inverted: up_z < 0.0,
        })
    }
}

/// The fields of a laser scan that count here, as in sensor_msgs/LaserScan.
#[derive(Clone, Copy, Debug)]
pub struct RawScan<'a> {
    /// Angle of the first beam \[rad\].
    pub angle_min: f64,
    /// Angle between beams \[rad\].
    pub angle_increment: f64,
    /// Shortest range that is measured \[m\].
    pub range_min: f64,
    /// Longest range that is measured \[m\].
    pub range_max: f64,
    /// One range for each beam \[m\], with the meanings of REP-117.
    pub ranges: &'a [f32],
}

/// Why a scan is refused.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ScanError {
    /// No beams.
    #[error("the scan has no beams; check the laser's driver")]
    Empty,
    /// Too many beams.
    #[error("the scan has {0} beams, the limit is {MAX_BEAMS}; check the laser's driver")]
    TooManyBeams(usize),
    /// A header field that is no usable number.
    #[error(
        "the scan's {what} is {value}; it must be finite and in order; check the laser's driver"
    )]
    Header {
        /// Which field.
        what: &'static str,
        /// Its value.
        value: f64,
    },
    /// The mounting is not finite.
    #[error("the laser's mounting has {what} = {value}; check its transform to the base frame")]
    Mounting {
        /// Which field.
        what: &'static str,
        /// Its value.
        value: f64,
    },
    /// Where the laser sits is not known.
    #[error(
        "the laser's place on the robot is not known: {0}; check its transform to the base frame"
    )]
    NoMounting(String),
    /// The laser does not scan along the floor.
    #[error("the laser is tilted by {0:.1} degrees, its scan does not lie along the floor; use a level one")]
    Tilted(f64),
    /// Too many beams without a measurement.
    #[error("{invalid} of {beams} beams are invalid, allowed is a fraction of {limit}; check the laser for dirt or a fault")]
    TooManyInvalid {
        /// Beams with NaN or a range below the least.
        invalid: usize,
        /// All beams.
        beams: usize,
        /// Largest allowed fraction.
        limit: f64,
    },
}

/// Returns of a laser as points in the base frame, and which directions were seen at all.
#[derive(Clone, Debug, PartialEq)]
pub struct Scan {
    points: Vec<Point>,
    seen: [bool; SECTORS],
}

impl Scan {
    /// Creates a scan from points \[m\] that see in every direction; points that are not finite are refused
    /// as [`ScanError::Header`].
    ///
    /// # Errors
    /// [`ScanError`] for too many points or one that is not finite.
    pub fn from_points(points: Vec<Point>) -> Result<Self, ScanError> {
        if points.len() > MAX_BEAMS {
            return Err(ScanError::TooManyBeams(points.len()));
        }
        if let Some(bad) = points.iter().find(|p| !p.norm().is_finite()) {
            return Err(ScanError::Header {
                what: "point",
                value: bad.x + bad.y,
            });
        }
        Ok(Scan {
            points,
            seen: [true; SECTORS],
        })
    }

    /// Converts a laser scan.
    ///
    /// By REP-117 +infinity is "nothing within range", -infinity "something nearer than can be measured"
    /// (taken as a return at `range_min`) and NaN "no measurement". A finite range above `range_max` counts
    /// as nothing; one below `range_min` as no measurement.
    ///
    /// # Errors
    /// [`ScanError`], also when more than `max_invalid` (a fraction) of the beams have no measurement.
    pub fn from_laser(
        raw: &RawScan<'_>,
        mounting: &Mounting,
        max_invalid: f64,
    ) -> Result<Self, ScanError> {
        check(raw, mounting)?;
        let mut points = Vec::with_capacity(raw.ranges.len());
        let mut seen = [false; SECTORS];
        let mut invalid = 0_usize;
        let sign = if mounting.inverted { -1.0 } else { 1.0 };
        for (index, range) in raw.ranges.iter().enumerate() {
            let range = f64::from(*range);
            let beam = raw.angle_min + index as f64 * raw.angle_increment;
            let heading = mounting.yaw + sign * beam;
            let range = if range == f64::NEG_INFINITY {
                raw.range_min
            } else if range.is_nan() || range < raw.range_min {
                invalid += 1;
                continue;
            } else {
                range
            };
            if let Some(sector) = seen.get_mut(sector(heading)) {
                *sector = true;
            }
            if range <= raw.range_max {
                points.push(Point::new(
                    mounting.x + range * heading.cos(),
                    mounting.y + range * heading.sin(),
                ));
            }
        }
        let beams = raw.ranges.len();
        if invalid as f64 > max_invalid * beams as f64 {
            return Err(ScanError::TooManyInvalid {
                invalid,
                beams,
                limit: max_invalid,
            });
        }
        Ok(Scan { points, seen })
    }

    /// The returns, base frame \[m\].
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Drops returns nearer than `radius` \[m\] to the base frame's origin: parts of the robot itself.
    pub fn drop_within(&mut self, radius: f64) {
        self.points.retain(|p| p.norm() >= radius);
    }

    /// Whether any beam measured in that direction of the base frame \[rad\].
    pub fn sees(&self, heading: f64) -> bool {
        heading.is_finite() && self.seen.get(sector(heading)).copied().unwrap_or(false)
    }
}

/// Sector of a finite heading \[rad\].
fn sector(heading: f64) -> usize {
    let turned = (heading + PI).rem_euclid(TAU) / TAU;
    ((turned * SECTORS as f64) as usize).min(SECTORS - 1)
}

fn check(raw: &RawScan<'_>, mounting: &Mounting) -> Result<(), ScanError> {
    if raw.ranges.is_empty() {
        return Err(ScanError::Empty);
    }
    if raw.ranges.len() > MAX_BEAMS {
        return Err(ScanError::TooManyBeams(raw.ranges.len()));
    }
    let header = |what, value: f64, good: bool| {
        if good {
            Ok(())
        } else {
            Err(ScanError::Header { what, value })
        }
    };
    header(
        "angle_min",
        raw.angle_min,
        raw.angle_min.is_finite() && raw.angle_min.abs() <= 2.0 * TAU,
    )?;
    header(
        "angle_increment",
        raw.angle_increment,
        raw.angle_increment.is_finite()
            && raw.angle_increment != 0.0
            && raw.angle_increment.abs() <= TAU,
    )?;
    header(
        "range_min",
        raw.range_min,
        raw.range_min.is_finite() && raw.range_min >= 0.0,
    )?;
    header(
        "range_max",
        raw.range_max,
        raw.range_max.is_finite() && raw.range_max > raw.range_min,
    )?;
    for (what, value) in [("x", mounting.x), ("y", mounting.y), ("yaw", mounting.yaw)] {
        if !(value.is_finite() && value.abs() <= 100.0) {
            return Err(ScanError::Mounting { what, value });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn raw(ranges: &[f32]) -> RawScan<'_> {
        RawScan {
            angle_min: 0.0,
            angle_increment: PI / 2.0,
            range_min: 0.1,
            range_max: 10.0,
            ranges,
        }
    }

    #[test]
    fn beams_land_where_the_mounting_puts_them() {
        let mounting = Mounting {
            x: 0.2,
            y: 0.0,
            yaw: PI / 2.0,
            inverted: false,
        };
        let scan = Scan::from_laser(&raw(&[1.0, 2.0]), &mounting, 0.0).unwrap();
        // The first beam looks along base y, the second along -x.
        let [a, b] = scan.points() else { panic!() };
        assert!((a.x - 0.2).abs() < 1e-9 && (a.y - 1.0).abs() < 1e-9);
        assert!((b.x + 1.8).abs() < 1e-9 && b.y.abs() < 1e-9);
        let upside_down = Mounting {
            inverted: true,
            ..mounting
        };
        let scan = Scan::from_laser(&raw(&[1.0, 2.0]), &upside_down, 0.0).unwrap();
        let [_, b] = scan.points() else { panic!() };
        assert!((b.x - 2.2).abs() < 1e-9);
    }

    #[test]
    fn mountings_come_from_poses() {
        let level = Mounting::from_pose(
            0.1,
            0.2,
            [[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]],
        );
        assert_eq!(
            level,
            Ok(Mounting {
                x: 0.1,
                y: 0.2,
                yaw: PI / 2.0,
                inverted: false
            })
        );
        // Turned by 180 degrees about x.
        let hanging = Mounting::from_pose(
            0.0,
            0.0,
            [[1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, -1.0]],
        );
        assert!(hanging.unwrap().inverted);
        // Turned by 30 degrees about y.
        let (s, c) = (0.5, 0.75_f64.sqrt());
        let tilted = Mounting::from_pose(0.0, 0.0, [[c, 0.0, s], [0.0, 1.0, 0.0], [-s, 0.0, c]]);
        assert!(matches!(tilted, Err(ScanError::Tilted(t)) if (t - 30.0).abs() < 1e-6));
    }

    #[test]
    fn special_ranges_have_their_meaning() {
        let scan = Scan::from_laser(
            &raw(&[f32::INFINITY, f32::NEG_INFINITY, 20.0, 3.0]),
            &Mounting::default(),
            0.0,
        )
        .unwrap();
        // +inf and beyond range_max: nothing. -inf: at range_min to the left. 3.0: to the right.
        let [close, far] = scan.points() else {
            panic!()
        };
        assert!((close.y - 0.1).abs() < 1e-6);
        assert!((far.y + 3.0).abs() < 1e-6);
        assert!(scan.sees(0.0), "+infinity has looked");
        assert!(!scan.sees(PI / 4.0), "no beam goes there");
    }

    #[test]
    fn invalid_beams_are_counted_against_the_limit() {
        let ranges = [f32::NAN, 1.0, 0.01, 1.0];
        assert!(Scan::from_laser(&raw(&ranges), &Mounting::default(), 0.5).is_ok());
        assert_eq!(
            Scan::from_laser(&raw(&ranges), &Mounting::default(), 0.4),
            Err(ScanError::TooManyInvalid {
                invalid: 2,
                beams: 4,
                limit: 0.4
            })
        );
        assert_eq!(
            Scan::from_laser(&raw(&[]), &Mounting::default(), 1.0),
            Err(ScanError::Empty)
        );
    }

    proptest! {
        /// Whatever the numbers are: an error or finite points.
        #[test]
        fn never_panics_and_never_gives_a_point_that_is_not_finite(
            angle_min in any::<f64>(), angle_increment in any::<f64>(),
            range_min in any::<f64>(), range_max in any::<f64>(),
            x in any::<f64>(), yaw in any::<f64>(),
            ranges in prop::collection::vec(any::<f32>(), 0..40),
        ) {
            let raw = RawScan { angle_min, angle_increment, range_min, range_max, ranges: &ranges };
            let mounting = Mounting { x, y: 0.0, yaw, inverted: false };
            if let Ok(scan) = Scan::from_laser(&raw, &mounting, 1.0) {
                prop_assert!(scan.points().iter().all(|p| p.norm().is_finite()));
            }
        }
    }
}

//! The outline of the robot on the floor, and how far a point is from it.

use thiserror::Error;

/// Most corners of a polygon; more only cost time in every decision.
pub const MAX_CORNERS: usize = 64;

/// Largest distance of a corner from the base frame's origin \[m\]; beyond it the unit is wrong.
pub const MAX_EXTENT: f64 = 10.0;

/// A point on the floor in the base frame \[m\].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// Forward \[m\].
    pub x: f64,
    /// To the left \[m\].
    pub y: f64,
}

impl Point {
    /// Creates a point from metres.
    pub const fn new(x: f64, y: f64) -> Self {
        Point { x, y }
    }

    /// Distance from the origin \[m\].
    pub fn norm(self) -> f64 {
        self.x.hypot(self.y)
    }
}

/// Why a footprint is refused.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum FootprintError {
    /// The radius is no length.
    #[error("the footprint's radius is {0} m; it must be above 0 and at most {MAX_EXTENT} m")]
    Radius(f64),
    /// Too few or too many corners.
    #[error("the footprint polygon has {0} corners; give 3 to {MAX_CORNERS} as x1, y1, x2, y2, …")]
    Corners(usize),
    /// An odd count of numbers.
    #[error("the footprint polygon has {0} numbers; give pairs x1, y1, x2, y2, …")]
    OddNumbers(usize),
    /// A corner that is not finite or too far away.
    #[error("corner {index} of the footprint is ({x}, {y}); both must be finite and within {MAX_EXTENT} m of the base frame")]
    Corner {
        /// Which corner, from 0.
        index: usize,
        /// Its x \[m\].
        x: f64,
        /// Its y \[m\].
        y: f64,
    },
    /// The corners lie on a line.
    #[error(
        "the footprint polygon has an area of {0} m²; give its corners in order around the robot"
    )]
    NoArea(f64),
}

/// The outline of the robot on the floor, in the base frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Footprint(Shape);

#[derive(Clone, Debug, PartialEq)]
enum Shape {
    Circle { radius: f64 },
    // Counter-clockwise, closed by the first corner.
    Polygon { corners: Vec<Point> },
}

/// Signed distance of a point from the outline, and the direction in which it grows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gap {
    /// Distance \[m\]; negative inside.
    pub distance: f64,
    /// Unit vector along which a point has to move so that the distance grows. Zero at a circle's centre.
    pub outward: Point,
}

impl Footprint {
    /// Creates a circle around the base frame's origin.
    ///
    /// # Errors
    /// [`FootprintError::Radius`].
    pub fn circle(radius: f64) -> Result<Self, FootprintError> {
        if radius.is_finite() && radius > 0.0 && radius <= MAX_EXTENT {
            Ok(Footprint(Shape::Circle { radius }))
        } else {
            Err(FootprintError::Radius(radius))
        }
    }

    /// Creates a polygon from x1, y1, x2, y2, … in metres, in either direction around the robot.
    ///
    /// # Errors
    /// Any [`FootprintError`] but that of the radius.
    pub fn polygon(numbers: &[f64]) -> Result<Self, FootprintError> {
        if numbers.len() % 2 != 0 {
            return Err(FootprintError::OddNumbers(numbers.len()));
        }
        let mut corners: Vec<Point> = numbers
            .chunks_exact(2)
            .map(|pair| Point::new(pair[0], pair[1])) // chunks_exact(2) gives two numbers each
            .collect();
        if corners.len() < 3 || corners.len() > MAX_CORNERS {
            return Err(FootprintError::Corners(corners.len()));
        }
        for (index, corner) in corners.iter().enumerate() {
            let reach = corner.norm();
            if !(reach.is_finite() && reach <= MAX_EXTENT) {
                return Err(FootprintError::Corner {
                    index,
                    x: corner.x,
                    y: corner.y,
                });
            }
        }
        let area: f64 = edges(&corners)
            .map(|(a, b)| (a.x * b.y - b.x * a.y) / 2.0)
            .sum();
        if area.abs() < 1e-4 {
            return Err(FootprintError::NoArea(area));
        }
        if area < 0.0 {
            corners.reverse();
        }
        Ok(Footprint(Shape::Polygon { corners }))
    }

    /// True when turning in place moves no part of the outline.
    pub fn turns_in_place(&self) -> bool {
        matches!(self.0, Shape::Circle { .. })
    }

    /// Signed distance of a point from the outline.
    pub fn gap(&self, p: Point) -> Gap {
        match &self.0 {
            Shape::Circle { radius } => {
                let norm = p.norm();
                let outward = if norm > 1e-9 {
                    Point::new(p.x / norm, p.y / norm)
                } else {
                    Point::default()
                };
                Gap {
                    distance: norm - radius,
                    outward,
                }
            }
            Shape::Polygon { corners } => polygon_gap(corners, p),
        }
    }
}

fn edges(corners: &[Point]) -> impl Iterator<Item = (Point, Point)> + '_ {
    corners
        .iter()
        .copied()
        .zip(corners.iter().copied().cycle().skip(1))
}

fn polygon_gap(corners: &[Point], p: Point) -> Gap {
    let mut best = Gap {
        distance: f64::INFINITY,
        outward: Point::default(),
    };
    let mut inside = false;
    for (a, b) in edges(corners) {
        let (ex, ey) = (b.x - a.x, b.y - a.y);
        let length2 = ex * ex + ey * ey;
        if length2 <= 0.0 {
            continue; // a corner given twice
        }
        // Even-odd rule: count the edges that a ray to the right crosses.
        if (a.y > p.y) != (b.y > p.y) && p.x < a.x + (p.y - a.y) / ey * ex {
            inside = !inside;
        }
        let t = (((p.x - a.x) * ex + (p.y - a.y) * ey) / length2).clamp(0.0, 1.0);
        let (dx, dy) = (p.x - (a.x + t * ex), p.y - (a.y + t * ey));
        let distance = dx.hypot(dy);
        if distance < best.distance {
            let outward = if distance > 1e-9 {
                Point::new(dx / distance, dy / distance)
            } else {
                // On the edge: its outer normal, to the right of a counter-clockwise edge.
                let length = length2.sqrt();
                Point::new(ey / length, -ex / length)
            };
            best = Gap { distance, outward };
        }
    }
    if inside && best.distance > 1e-9 {
        Gap {
            distance: -best.distance,
            outward: Point::new(-best.outward.x, -best.outward.y),
        }
    } else {
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn square() -> Footprint {
        Footprint::polygon(&[-0.5, -0.5, 0.5, -0.5, 0.5, 0.5, -0.5, 0.5]).unwrap()
    }

    #[test]
    fn distances_inside_outside_and_on_the_edge() {
        let circle = Footprint::circle(0.3).unwrap();
        assert!((circle.gap(Point::new(0.5, 0.0)).distance - 0.2).abs() < 1e-12);
        assert!((circle.gap(Point::new(0.0, 0.1)).distance + 0.2).abs() < 1e-12);
        let out = square().gap(Point::new(0.8, 0.9));
        assert!((out.distance - 0.5).abs() < 1e-12, "3-4-5 from the corner");
        assert!((out.outward.x - 0.6).abs() < 1e-12 && (out.outward.y - 0.8).abs() < 1e-12);
        let inside = square().gap(Point::new(0.4, 0.0));
        assert!((inside.distance + 0.1).abs() < 1e-12);
        assert!((inside.outward.x - 1.0).abs() < 1e-12);
        let on = square().gap(Point::new(0.5, 0.0));
        assert!(on.distance.abs() < 1e-9 && (on.outward.x - 1.0).abs() < 1e-12);
    }

    #[test]
    fn direction_of_the_corners_does_not_matter() {
        let clockwise = Footprint::polygon(&[-0.5, 0.5, 0.5, 0.5, 0.5, -0.5, -0.5, -0.5]).unwrap();
        let p = Point::new(0.5, 0.1);
        assert_eq!(clockwise.gap(p).outward, square().gap(p).outward);
    }

    #[test]
    fn bad_outlines_say_why() {
        assert!(matches!(
            Footprint::circle(f64::NAN),
            Err(FootprintError::Radius(_))
        ));
        assert!(matches!(
            Footprint::circle(0.0),
            Err(FootprintError::Radius(_))
        ));
        assert!(matches!(
            Footprint::polygon(&[0.0; 4]),
            Err(FootprintError::Corners(2))
        ));
        assert!(matches!(
            Footprint::polygon(&[0.0; 7]),
            Err(FootprintError::OddNumbers(7))
        ));
        assert!(matches!(
            Footprint::polygon(&[0.0, 0.0, 1.0, 0.0, 2.0, 0.0]),
            Err(FootprintError::NoArea(_))
        ));
        assert!(matches!(
            Footprint::polygon(&[0.0, 0.0, 1.0, 0.0, f64::INFINITY, 1.0]),
            Err(FootprintError::Corner { index: 2, .. })
        ));
    }

    proptest! {
        /// Moving a point a little along `outward` lets its distance grow by as much (away from the
        /// medial axis, where the nearest edge changes).
        #[test]
        fn outward_is_the_gradient(x in -2.0..2.0f64, y in -2.0..2.0f64) {
            prop_assume!(x.abs() > 0.51 || y.abs() > 0.51);
            let gap = square().gap(Point::new(x, y));
            let h = 1e-4;
            let moved = square().gap(Point::new(x + h * gap.outward.x, y + h * gap.outward.y));
            prop_assert!((moved.distance - gap.distance - h).abs() < 1e-8);
        }
    }
}

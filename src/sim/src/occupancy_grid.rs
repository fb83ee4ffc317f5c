//! How far each place is from obstacles: the navigator's costmap.

use crate::geometry::UprightBox;
use crate::world::World;

/// Edge length of a cell, metres: Nav2's default.
pub const RESOLUTION: f64 = 0.05;

/// Distances beyond this one, metres, are not told apart.
pub const MAX_CLEARANCE: f64 = 0.7;

/// Distance from the nearest obstacle, cell by cell.
#[derive(Debug, Clone)]
pub struct OccupancyGrid {
    origin: [f64; 2],
    width: usize,
    height: usize,
    clearance: Vec<f32>,
}

impl OccupancyGrid {
    /// Draws the walls, closed doors and furniture of the world.
    #[must_use]
    pub fn new(world: &World) -> Self {
        let [x0, y0, x1, y1] = world.bounds();
        let cells = |length: f64| ((length / RESOLUTION).ceil() as usize).max(1);
        let (width, height) = (cells(x1 - x0), cells(y1 - y0));
        let mut grid = Self {
            origin: [x0, y0],
            width,
            height,
            clearance: vec![MAX_CLEARANCE as f32; width * height],
        };
        for obstacle in world.fixed_obstacles() {
            grid.stamp(&obstacle);
        }
        grid
    }

    /// Draws one more obstacle.
    pub fn stamp(&mut self, obstacle: &UprightBox) {
        let (hx, hy) = obstacle.half_extents();
        let reach = [hx + MAX_CLEARANCE, hy + MAX_CLEARANCE];
        let low = self.clamped(obstacle.x - reach[0], obstacle.y - reach[1]);
        let high = self.clamped(obstacle.x + reach[0], obstacle.y + reach[1]);
        for row in low.1..=high.1 {
            for column in low.0..=high.0 {
                let [x, y] = self.center((column, row));
                let distance = obstacle.distance(x, y) as f32;
                if let Some(cell) = self.clearance.get_mut(row * self.width + column) {
                    *cell = cell.min(distance);
                }
            }
        }
    }

    fn clamped(&self, x: f64, y: f64) -> (usize, usize) {
        let index = |v: f64, origin: f64, count: usize| {
            (((v - origin) / RESOLUTION).floor().max(0.0) as usize).min(count - 1)
        };
        (
            index(x, self.origin[0], self.width),
            index(y, self.origin[1], self.height),
        )
    }

    /// The cell (column, row) that holds the point, if it is on the map.
    #[must_use]
    pub fn cell(&self, x: f64, y: f64) -> Option<(usize, usize)> {
        let (cx, cy) = (
            (x - self.origin[0]) / RESOLUTION,
            (y - self.origin[1]) / RESOLUTION,
        );
        let inside = cx >= 0.0 && cy >= 0.0 && cx < self.width as f64 && cy < self.height as f64;
        inside.then_some((cx as usize, cy as usize))
    }

    /// The middle of a cell, metres in the map frame.
    #[must_use]
    pub fn center(&self, (column, row): (usize, usize)) -> [f64; 2] {
        [
            self.origin[0] + (column as f64 + 0.5) * RESOLUTION,
            self.origin[1] + (row as f64 + 0.5) * RESOLUTION,
        ]
    }

    /// Distance of the cell's middle from the nearest obstacle, metres, at most [`MAX_CLEARANCE`].
    #[must_use]
    pub fn cell_clearance(&self, (column, row): (usize, usize)) -> f64 {
        if column >= self.width {
            return -1.0;
        }
        self.clearance
            .get(row * self.width + column)
            .map_or(-1.0, |c| f64::from(*c))
    }

    /// Distance of the point's cell from the nearest obstacle, metres; −1 off the map.
    #[must_use]
    pub fn clearance(&self, x: f64, y: f64) -> f64 {
        self.cell(x, y).map_or(-1.0, |c| self.cell_clearance(c))
    }

    /// Distance of the point itself from the nearest obstacle, metres, between the middles of the four cells
    /// around it (<https://en.wikipedia.org/wiki/Bilinear_interpolation>); −1 off the map.
    #[must_use]
    pub fn interpolated_clearance(&self, x: f64, y: f64) -> f64 {
        let Some((column, row)) = self.cell(x, y) else {
            return -1.0;
        };
        let share = |v: f64, origin: f64| ((v - origin) / RESOLUTION - 0.5).rem_euclid(1.0);
        let (u, v) = (share(x, self.origin[0]), share(y, self.origin[1]));
        let [cx, cy] = self.center((column, row));
        let low = |value: f64, middle: f64, index: usize, count: usize| {
            let from = if value < middle {
                index.saturating_sub(1)
            } else {
                index
            };
            (from, (from + 1).min(count - 1))
        };
        let (c0, c1) = low(x, cx, column, self.width);
        let (r0, r1) = low(y, cy, row, self.height);
        let at = |c, r| self.cell_clearance((c, r));
        (1.0 - v) * ((1.0 - u) * at(c0, r0) + u * at(c1, r0))
            + v * ((1.0 - u) * at(c0, r1) + u * at(c1, r1))
    }

    /// The least clearance along a straight line, metres.
    #[must_use]
    pub fn line_clearance(&self, a: [f64; 2], b: [f64; 2]) -> f64 {
        let length = (b[0] - a[0]).hypot(b[1] - a[1]);
        let steps = (length / (RESOLUTION * 0.5)).ceil().max(1.0) as usize;
        (0..=steps)
            .map(|k| {
                let t = k as f64 / steps as f64;
                self.clearance(a[0] + t * (b[0] - a[0]), a[1] + t * (b[1] - a[1]))
            })
            .fold(f64::INFINITY, f64::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world_file::WorldFile;

    #[test]
    fn between_cells_the_clearance_is_the_distance() {
        let file = WorldFile::from_yaml(
            "
rooms: [{id: a, rect: [0, 0, 6, 4]}]
walls: [{from: [0, 0], to: [6, 0]}, {from: [6, 0], to: [6, 4]},
        {from: [6, 4], to: [0, 4]}, {from: [0, 4], to: [0, 0]}]
",
        )
        .unwrap();
        let world = World::new(&file).unwrap();
        let grid = OccupancyGrid::new(&world);
        // Beside one wall the distance is linear, and so is what lies between cells.
        for k in 0..40 {
            let x = 5.4 + 0.01 * f64::from(k);
            let got = grid.interpolated_clearance(x, 2.013);
            assert!((got - world.clearance(x, 2.013)).abs() < 1e-6, "{x}: {got}");
        }
        assert_eq!(grid.interpolated_clearance(-9.0, 0.0), -1.0);
        assert!(grid.interpolated_clearance(f64::NAN, 0.0) <= 0.0);
    }
}

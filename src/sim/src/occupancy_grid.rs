//! How far each place is from obstacles: the navigator's costmap.

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
        for obstacle in world.obstacles() {
            let (hx, hy) = obstacle.half_extents();
            let reach = [hx + MAX_CLEARANCE, hy + MAX_CLEARANCE];
            let low = grid.clamped(obstacle.x - reach[0], obstacle.y - reach[1]);
            let high = grid.clamped(obstacle.x + reach[0], obstacle.y + reach[1]);
            for row in low.1..=high.1 {
                for column in low.0..=high.0 {
                    let [x, y] = grid.center((column, row));
                    let distance = obstacle.distance(x, y) as f32;
                    if let Some(cell) = grid.clearance.get_mut(row * width + column) {
                        *cell = cell.min(distance);
                    }
                }
            }
        }
        grid
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

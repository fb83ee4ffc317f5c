//! Where nodes are, by cells of the floor: what is near a point without looking at everything.
//!
//! Cells and no tree: things move all the time and by little, so that most moves change no cell. Small things
//! stand in small cells, rooms in large ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use eh_contract::scene::SceneObject;

/// Edges of the cells \[m\], level by level; a node stands in the smallest that is not smaller than its radius.
const CELLS: [f64; 4] = [1.0, 4.0, 16.0, 64.0];

/// The circle on the floor in which a node is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Circle {
    x: f64,
    y: f64,
    radius: f64,
}

impl Circle {
    /// The circle of a node: around its box, or around its outline.
    pub(crate) fn of(object: &SceneObject) -> Self {
        let at = object.pose.position;
        let corner = object.size.x.hypot(object.size.y) / 2.0;
        let outline = object.outline.iter().map(|v| v.distance_xy(at));
        Circle {
            x: at.x,
            y: at.y,
            radius: outline.fold(corner, f64::max),
        }
    }

    /// The least distance from a point that its node can have \[m\].
    fn gap(&self, x: f64, y: f64) -> f64 {
        ((self.x - x).hypot(self.y - y) - self.radius).max(0.0)
    }

    fn spot(&self) -> Spot {
        // A number that is none is found by every search, which then decides.
        if !(self.x.is_finite() && self.y.is_finite() && self.radius.is_finite()) {
            return None;
        }
        let level = CELLS.iter().position(|cell| self.radius <= *cell)?;
        let cell = CELLS.get(level)?;
        Some((level, index(self.x / cell), index(self.y / cell)))
    }
}

/// Level, column and row; `None`: larger than every cell.
type Spot = Option<(usize, i32, i32)>;

/// Saturates for what is farther than any map.
fn index(v: f64) -> i32 {
    v.floor() as i32
}

#[derive(Clone, Debug)]
struct Entry {
    name: Arc<str>,
    circle: Circle,
}

/// Names by place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grid {
    levels: [BTreeMap<(i32, i32), Vec<Entry>>; CELLS.len()],
    large: Vec<Entry>,
}

impl Grid {
    /// A node comes, moves or goes.
    pub(crate) fn set(&mut self, name: &Arc<str>, was: Option<Circle>, is: Option<Circle>) {
        let (old, new) = (was.map(|c| c.spot()), is.map(|c| c.spot()));
        if let (Some(old), Some(new), Some(circle)) = (old, new, is) {
            if old == new {
                let entries = self.entries(new);
                if let Some(entry) = entries.iter_mut().find(|e| e.name == *name) {
                    entry.circle = circle;
                }
                return;
            }
        }
        if let Some(old) = old {
            let entries = self.entries(old);
            if let Some(i) = entries.iter().position(|e| e.name == *name) {
                entries.swap_remove(i);
            }
            let is_empty = entries.is_empty();
            if let Some((level, x, y)) = old.filter(|_| is_empty) {
                if let Some(cells) = self.levels.get_mut(level) {
                    cells.remove(&(x, y));
                }
            }
        }
        if let (Some(new), Some(circle)) = (new, is) {
            let name = Arc::clone(name);
            self.entries(new).push(Entry { name, circle });
        }
    }

    fn entries(&mut self, spot: Spot) -> &mut Vec<Entry> {
        let cells = spot.and_then(|(level, x, y)| Some((self.levels.get_mut(level)?, x, y)));
        match cells {
            Some((cells, x, y)) => cells.entry((x, y)).or_default(),
            None => &mut self.large,
        }
    }

    /// How far one has to look for so many things where they stand as close as usual \[m\].
    pub(crate) fn reach_of(&self, count: usize) -> f64 {
        let density = |(cell, cells): (&f64, &BTreeMap<(i32, i32), Vec<Entry>>)| {
            // Of a few cells, how many are in each.
            let some = cells.values().take(64);
            let number: usize = some.clone().map(Vec::len).sum();
            number as f64 / (some.count().max(1) as f64 * cell * cell)
        };
        let all: f64 = CELLS.iter().zip(&self.levels).map(density).sum();
        // Twice as many as are wanted, so that once is mostly enough.
        let area = 2.0 * count as f64 / all.max(1e-3);
        (area / std::f64::consts::PI).sqrt().clamp(0.5, 64.0)
    }

    /// Everything that may be within a distance \[m\] of a point on the floor, in no order.
    pub(crate) fn around(&self, x: f64, y: f64, distance: f64) -> Vec<&Arc<str>> {
        let near = |e: &&Entry| {
            let gap = e.circle.gap(x, y);
            gap <= distance || gap.is_nan()
        };
        let mut out: Vec<&Arc<str>> = self.large.iter().filter(near).map(|e| &e.name).collect();
        for (cell, cells) in CELLS.iter().zip(&self.levels) {
            // What stands in a cell reaches at most one further.
            let reach = distance + cell;
            let (x0, x1) = (index((x - reach) / cell), index((x + reach) / cell));
            let (y0, y1) = (index((y - reach) / cell), index((y + reach) / cell));
            let columns = i64::from(x1) - i64::from(x0) + 1;
            if columns > i64::try_from(cells.len()).unwrap_or(i64::MAX) {
                let all = cells.values().flatten().filter(near);
                out.extend(all.map(|e| &e.name));
                continue;
            }
            for column in x0..=x1 {
                let row = cells.range((column, y0)..=(column, y1));
                let entries = row.flat_map(|(_, entries)| entries).filter(near);
                out.extend(entries.map(|e| &e.name));
            }
        }
        out
    }
}

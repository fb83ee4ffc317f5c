//! Where nodes are, by cells of the floor: what is near a point without looking at everything.
//!
//! Cells and no tree: things move all the time and by little, so that most moves change no cell. Small things
//! stand in small cells, rooms in large ones.

use std::collections::BTreeMap;

use arcstr::ArcStr as Name;
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

/// A node in its cell; half as long as a circle of full precision would make it.
#[derive(Clone, Debug)]
struct Entry {
    name: Name,
    x: f32,
    y: f32,
    radius: f32,
}

impl Entry {
    fn new(name: Name, circle: Circle) -> Self {
        let mut entry = Entry {
            name,
            x: 0.0,
            y: 0.0,
            radius: 0.0,
        };
        entry.put(circle);
        entry
    }

    fn put(&mut self, circle: Circle) {
        // Larger by more than rounding takes away, so that no search misses it.
        let lost = (circle.x.abs() + circle.y.abs() + circle.radius) * f64::from(f32::EPSILON);
        self.x = circle.x as f32;
        self.y = circle.y as f32;
        self.radius = (circle.radius + lost) as f32;
    }

    /// Whether its node may be within a distance \[m\] of a point. Where there is no telling, it may.
    fn may_be_within(&self, distance: f64, x: f64, y: f64) -> bool {
        let apart = (f64::from(self.x) - x).hypot(f64::from(self.y) - y);
        let gap = apart - f64::from(self.radius);
        gap <= distance || !gap.is_finite()
    }
}

/// Names by place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grid {
    levels: [BTreeMap<(i32, i32), Vec<Entry>>; CELLS.len()],
    large: Vec<Entry>,
}

impl Grid {
    /// A node comes, moves or goes.
    pub(crate) fn set(&mut self, name: &Name, was: Option<Circle>, is: Option<Circle>) {
        let (old, new) = (was.map(|c| c.spot()), is.map(|c| c.spot()));
        if let (Some(old), Some(new), Some(circle)) = (old, new, is) {
            if old == new {
                let entries = self.entries(new);
                if let Some(entry) = entries.iter_mut().find(|e| e.name == *name) {
                    entry.put(circle);
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
            let entries = self.entries(new);
            if entries.len() < 4 {
                // Most cells have one or two things; the first would take the room of four.
                entries.reserve_exact(1);
            }
            entries.push(Entry::new(name.clone(), circle));
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
    pub(crate) fn around(&self, x: f64, y: f64, distance: f64) -> Vec<&Name> {
        let near = |e: &&Entry| e.may_be_within(distance, x, y);
        let mut out: Vec<&Name> = self.large.iter().filter(near).map(|e| &e.name).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_just_within_a_distance_is_found_however_numbers_are_rounded() {
        let mut grid = Grid::default();
        let name = Name::from("cup");
        let mut was = None;
        for step in 0..200 {
            // Far from the origin, where numbers of half the length lie 8 mm apart.
            let x = 100_000.0 + f64::from(step) * 0.001;
            let circle = Circle {
                x,
                y: 0.0,
                radius: 0.05,
            };
            grid.set(&name, was, Some(circle));
            was = Some(circle);
            // It reaches to 5 cm on this side, so that it is within 0.95 m of this point.
            assert_eq!(grid.around(x - 1.0, 0.0, 0.95 + 1e-9), [&name], "{x}");
            assert!(grid.around(x - 1.0, 0.0, 0.9).is_empty(), "{x}");
        }
        // What is beyond all numbers of half the length is found as well.
        let far = Circle {
            x: 1e300,
            y: 0.0,
            radius: 0.05,
        };
        grid.set(&name, was, Some(far));
        assert_eq!(grid.around(1e300, 0.0, 1.0), [&name]);
    }
}

//! A home made up from a seed: rooms in a grid, doors that join them all, furniture, things on it.
//!
//! What is made is a world file as any other, so that it can be read, kept and changed. It can always be
//! solved: the doors join every room with every other, furniture stands along the walls clear of the doors,
//! and every object stands within reach of the edge of something that has room in front of it.

use std::fmt::Write;

use crate::random::{SeededRandom, Stream};

/// Clear width of doors, metres.
const DOOR: f64 = 1.0;
/// Space that stays free in front of furniture and in the doors' ways, metres.
const AISLE: f64 = 0.9;

/// Kinds of rooms: id, English, Chinese.
const ROOMS: [[&str; 3]; 9] = [
    ["kitchen", "kitchen", "厨房"],
    ["living_room", "living room", "客厅"],
    ["bedroom", "bedroom", "卧室"],
    ["study", "study", "书房"],
    ["bathroom", "bathroom", "浴室"],
    ["dining_room", "dining room", "餐厅"],
    ["workshop", "workshop", "工作间"],
    ["storeroom", "storeroom", "储藏室"],
    ["guest_room", "guest room", "客房"],
];

/// Kinds of furniture: class, English, Chinese, and height in metres.
const FURNITURE: [(&str, &str, &str, f64); 6] = [
    ("table", "table", "桌子", 0.74),
    ("counter", "counter", "台面", 0.88),
    ("desk", "desk", "书桌", 0.74),
    ("shelf", "shelf", "架子", 0.9),
    ("cabinet", "cabinet", "柜子", 0.8),
    ("bench", "bench", "长凳", 0.5),
];

/// Kinds of things: class, English, Chinese, size in metres, how far the fingers are apart on it, mass.
type Thing = (&'static str, &'static str, &'static str, [f64; 3], f64, f64);
const THINGS: [Thing; 8] = [
    ("cup", "cup", "杯子", [0.075, 0.075, 0.1], 0.07, 0.25),
    ("bottle", "bottle", "瓶子", [0.07, 0.07, 0.22], 0.065, 0.6),
    ("apple", "apple", "苹果", [0.07, 0.07, 0.07], 0.065, 0.18),
    ("bowl", "bowl", "碗", [0.095, 0.095, 0.06], 0.09, 0.3),
    ("can", "can", "罐子", [0.066, 0.066, 0.115], 0.064, 0.35),
    ("book", "book", "书", [0.21, 0.08, 0.04], 0.08, 0.4),
    ("sponge", "sponge", "海绵", [0.1, 0.06, 0.04], 0.06, 0.02),
    ("box", "box", "盒子", [0.08, 0.12, 0.08], 0.08, 0.3),
];

const COLORS: [&str; 6] = ["red", "blue", "green", "yellow", "white", "black"];

/// A door between two cells of the grid, by its middle, and whether it lies in a wall along x.
struct Opening {
    rooms: [usize; 2],
    middle: [f64; 2],
    along_x: bool,
}

/// One room: its corners and what it is.
struct Cell {
    id: &'static str,
    names: [&'static str; 2],
    min: [f64; 2],
    max: [f64; 2],
}

/// The world file of a seed, as YAML text with 2 to 9 rooms.
#[must_use]
pub fn generated_world(seed: u64) -> String {
    let mut random = SeededRandom::new(seed, Stream::Generator);
    let (columns, rows) = [(2, 1), (3, 1), (2, 2), (3, 2), (3, 3)][random.index(5)];
    let edges = |count: usize, random: &mut SeededRandom| {
        let mut at = vec![0.0];
        for _ in 0..count {
            // Sizes in steps of 10 cm, so that walls and doors lie on round numbers.
            let size = (10.0 * random.between(3.6, 5.0)).round() / 10.0;
            at.push(at.last().copied().unwrap_or(0.0) + size);
        }
        at
    };
    let (xs, ys) = (edges(columns, &mut random), edges(rows, &mut random));
    let mut kinds: Vec<usize> = (0..ROOMS.len()).collect();
    let mut cells = Vec::new();
    for ys in ys.windows(2) {
        for xs in xs.windows(2) {
            // There are as many kinds as the largest grid has cells.
            let kind = ROOMS[kinds.swap_remove(random.index(kinds.len())) % ROOMS.len()];
            cells.push(Cell {
                id: kind[0],
                names: [kind[1], kind[2]],
                min: [xs[0], ys[0]],
                max: [xs[1], ys[1]],
            });
        }
    }
    let doors = doors(&cells, columns, &mut random);
    let mut text = format!("name: generated_{seed}\nseed: {seed}\n\nrooms:\n");
    for c in &cells {
        let _ = writeln!(
            text,
            "  - {{id: {}, names: {{en: [{}], zh: [{}]}}, rect: [{:.2}, {:.2}, {:.2}, {:.2}]}}",
            c.id, c.names[0], c.names[1], c.min[0], c.min[1], c.max[0], c.max[1]
        );
    }
    walls(&xs, &ys, &mut text);
    text.push_str("\ndoors:\n");
    for d in &doors {
        let [a, b] = d.rooms.map(|r| cells.get(r).map_or("", |c| c.id));
        let [x, y] = d.middle;
        let (hx, hy) = if d.along_x {
            (DOOR / 2.0, 0.0)
        } else {
            (0.0, DOOR / 2.0)
        };
        let _ = writeln!(
            text,
            "  - {{id: {a}_{b}_door, between: [{a}, {b}], from: [{:.2}, {:.2}], to: [{:.2}, {:.2}]}}",
            x - hx, y - hy, x + hx, y + hy
        );
    }
    furnish(&cells, &doors, &mut random, &mut text);
    let start = cells.first().map_or([0.0, 0.0], |c| {
        [(c.min[0] + c.max[0]) / 2.0, (c.min[1] + c.max[1]) / 2.0]
    });
    let _ = writeln!(
        text,
        "\nrobot:\n  start: [{:.2}, {:.2}, 0.0]",
        start[0], start[1]
    );
    text
}

/// Doors that join every room with every other: a random tree, and some more.
fn doors(cells: &[Cell], columns: usize, random: &mut SeededRandom) -> Vec<Opening> {
    let mut between = Vec::new();
    for (i, cell) in cells.iter().enumerate() {
        let right = (i % columns + 1 < columns).then_some(i + 1);
        let above = (i + columns < cells.len()).then_some(i + columns);
        for (other, along_x) in [(right, false), (above, true)] {
            let Some(other) = other else { continue };
            // The middle of the shared wall, a little to one side.
            let axis = usize::from(!along_x);
            let room = ((cell.max[axis] - cell.min[axis]) - DOOR) / 2.0 - 0.5;
            let shift = random.between(-room.min(0.4), room.min(0.4));
            let middle = (cell.min[axis] + cell.max[axis]) / 2.0 + (10.0 * shift).round() / 10.0;
            let middle = if along_x {
                [middle, cell.max[1]]
            } else {
                [cell.max[0], middle]
            };
            between.push(Opening {
                rooms: [i, other],
                middle,
                along_x,
            });
        }
    }
    // Kruskal's algorithm over the walls in random order: https://en.wikipedia.org/wiki/Kruskal%27s_algorithm
    let mut part: Vec<usize> = (0..cells.len()).collect();
    let mut kept = Vec::new();
    while !between.is_empty() {
        let opening = between.swap_remove(random.index(between.len()));
        let [a, b] = opening.rooms.map(|r| part.get(r).copied().unwrap_or(r));
        if a != b {
            part.iter_mut().filter(|p| **p == b).for_each(|p| *p = a);
            kept.push(opening);
        } else if random.chance(0.3) {
            kept.push(opening);
        }
    }
    kept
}

/// The lines of the grid as walls.
fn walls(xs: &[f64], ys: &[f64], text: &mut String) {
    let end = |v: &[f64]| v.last().copied().unwrap_or(0.0);
    text.push_str("\nwalls:\n");
    for y in ys {
        let _ = writeln!(
            text,
            "  - {{from: [0, {y:.2}], to: [{:.2}, {y:.2}]}}",
            end(xs)
        );
    }
    for x in xs {
        let _ = writeln!(
            text,
            "  - {{from: [{x:.2}, 0], to: [{x:.2}, {:.2}]}}",
            end(ys)
        );
    }
}

/// Puts furniture along the walls, and things on it.
fn furnish(cells: &[Cell], doors: &[Opening], random: &mut SeededRandom, text: &mut String) {
    let (mut furniture, mut objects) = (String::new(), String::new());
    let mut count = 0;
    for (index, cell) in cells.iter().enumerate() {
        let mut placed: Vec<[f64; 4]> = Vec::new();
        let wanted = 1 + random.index(3);
        for _ in 0..30 {
            if placed.len() >= wanted {
                break;
            }
            let Some(area) = place(cell, index, doors, &placed, random) else {
                continue;
            };
            let (class, en, zh, height) = FURNITURE[random.index(FURNITURE.len())];
            let n = placed.len() + 1;
            placed.push(area);
            let [x0, y0, x1, y1] = area;
            let id = format!("{}_{class}_{n}", cell.id);
            let _ = writeln!(
                furniture,
                "  - {{id: {id}, class: {class}, names: {{en: [{} {en}, {en}], zh: [{}的{zh}, {zh}]}}, \
                 center: [{:.3}, {:.3}], size: [{:.2}, {:.2}, {height}], surface: true}}",
                cell.names[0],
                cell.names[1],
                (x0 + x1) / 2.0,
                (y0 + y1) / 2.0,
                x1 - x0,
                y1 - y0
            );
            put_things(&id, area, &mut count, random, &mut objects);
        }
    }
    let _ = write!(text, "\nfurniture:\n{furniture}\nobjects:\n{objects}");
}

/// A free rectangle at one of the room's walls.
fn place(
    cell: &Cell,
    index: usize,
    doors: &[Opening],
    placed: &[[f64; 4]],
    random: &mut SeededRandom,
) -> Option<[f64; 4]> {
    let round = |v: f64| (20.0 * v).round() / 20.0;
    let (length, depth) = (
        round(random.between(0.8, 1.6)),
        round(random.between(0.4, 0.7)),
    );
    // From the middle of the wall, whose half thickness is 5 cm, with a gap of 5 cm.
    let inner = [
        cell.min[0] + 0.1,
        cell.min[1] + 0.1,
        cell.max[0] - 0.1,
        cell.max[1] - 0.1,
    ];
    let along = |low: f64, high: f64, random: &mut SeededRandom| {
        round(random.between(low, (high - length).max(low)))
    };
    let area = match random.index(4) {
        0 => {
            let x = along(inner[0], inner[2], random);
            [x, inner[1], x + length, inner[1] + depth]
        }
        1 => {
            let x = along(inner[0], inner[2], random);
            [x, inner[3] - depth, x + length, inner[3]]
        }
        2 => {
            let y = along(inner[1], inner[3], random);
            [inner[0], y, inner[0] + depth, y + length]
        }
        _ => {
            let y = along(inner[1], inner[3], random);
            [inner[2] - depth, y, inner[2], y + length]
        }
    };
    let inside = area[0] >= inner[0] - 1e-9
        && area[1] >= inner[1] - 1e-9
        && area[2] <= inner[2] + 1e-9
        && area[3] <= inner[3] + 1e-9;
    let apart = |b: &[f64; 4], gap: f64| {
        area[0] >= b[2] + gap
            || b[0] >= area[2] + gap
            || area[1] >= b[3] + gap
            || b[1] >= area[3] + gap
    };
    let clear_of_doors = doors.iter().filter(|d| d.rooms.contains(&index)).all(|d| {
        let [x, y] = d.middle;
        let half = DOOR / 2.0 + 0.2;
        // Free: the doorway's width and as deep as the robot needs to turn.
        apart(
            &[
                x - half.max(AISLE),
                y - half.max(AISLE),
                x + half.max(AISLE),
                y + half.max(AISLE),
            ],
            0.0,
        )
    });
    // The middle of the room stays free: ways lead through it, and the robot starts there.
    let [cx, cy] = [
        (cell.min[0] + cell.max[0]) / 2.0,
        (cell.min[1] + cell.max[1]) / 2.0,
    ];
    let middle = [
        cx - AISLE / 2.0,
        cy - AISLE / 2.0,
        cx + AISLE / 2.0,
        cy + AISLE / 2.0,
    ];
    (inside && clear_of_doors && apart(&middle, 0.0) && placed.iter().all(|p| apart(p, AISLE)))
        .then_some(area)
}

/// One to three things in a row on a piece of furniture.
fn put_things(
    on: &str,
    [x0, y0, x1, y1]: [f64; 4],
    count: &mut usize,
    random: &mut SeededRandom,
    objects: &mut String,
) {
    let long_x = x1 - x0 >= y1 - y0;
    let length = if long_x { x1 - x0 } else { y1 - y0 };
    let here = 1 + random.index(((length / 0.35) as usize).clamp(1, 3));
    for k in 0..here {
        let (class, en, zh, size, grip, mass) = THINGS[random.index(THINGS.len())];
        let color = COLORS[random.index(COLORS.len())];
        let share = (k as f64 + 0.5) / here as f64;
        let (x, y) = if long_x {
            (x0 + share * length, (y0 + y1) / 2.0)
        } else {
            ((x0 + x1) / 2.0, y0 + share * length)
        };
        *count += 1;
        let _ = writeln!(
            objects,
            "  - {{id: {class}_{count}, class: {class}, attributes: {{color: {color}}}, \
             names: {{en: [{en}], zh: [{zh}]}}, position: [{x:.3}, {y:.3}], on: {on}, \
             size: [{}, {}, {}], mass: {mass}, grasp_width: {grip}}}",
            size[0], size[1], size[2]
        );
    }
}

//! A way over the occupancy grid: A*, then shortcuts.

use pathfinding::directed::astar::astar;

use crate::nav_error_code::NavErrorCode;
use crate::occupancy_grid::{OccupancyGrid, MAX_CLEARANCE, RESOLUTION};

/// How much farther from obstacles than its radius the robot's centre must stay, metres: tracking and
/// localisation err by about as much.
pub const SAFETY_MARGIN: f64 = 0.04;

/// How much farther from obstacles than its radius the robot's centre stays where there is a choice,
/// metres, so that protection does not hold it: its stop zone (0.021), three standard deviations of a
/// laser's range (0.03) and of the localisation (0.03), half a cell across (0.035) and a little for
/// leaving the way in curves.
pub const COMFORT: f64 = 0.13;

/// The margins that are tried, the widest first.
const MARGINS: [f64; 3] = [COMFORT, 0.08, SAFETY_MARGIN];

/// How near, metres, a free cell must be to a start or goal whose own cell is too near an obstacle.
const SNAP: f64 = 0.35;

/// A failure to plan: the code and what happened.
pub type PlanFailure = (NavErrorCode, String);

type Cell = (usize, usize);

/// Plans a way for a round robot of the given radius from start to goal (x, y in metres, map frame).
///
/// Start and goal are the path's ends; neighbouring points are joined by straight free lines. The way stays
/// [`COMFORT`] away from obstacles if there is one that does, else less, but [`SAFETY_MARGIN`] at least;
/// its ends may lie nearer to them.
///
/// # Errors
/// The Nav2 error code and a sentence: start or goal off the map or in an obstacle, or no way.
pub fn plan_path(
    grid: &OccupancyGrid,
    radius: f64,
    start: [f64; 2],
    goal: [f64; 2],
    goal_clearance: f64,
) -> Result<Vec<[f64; 2]>, PlanFailure> {
    let start_cell = grid.cell(start[0], start[1]).ok_or_else(|| {
        (
            NavErrorCode::StartOutsideMap,
            format!(
                "the robot at ({:.2}, {:.2}) is outside the map",
                start[0], start[1]
            ),
        )
    })?;
    let goal_cell = grid.cell(goal[0], goal[1]).ok_or_else(|| {
        (
            NavErrorCode::GoalOutsideMap,
            format!(
                "the goal ({:.2}, {:.2}) is outside the map",
                goal[0], goal[1]
            ),
        )
    })?;
    if goal_clearance < radius {
        return Err((
            NavErrorCode::GoalOccupied,
            format!(
                "the goal ({:.2}, {:.2}) is {goal_clearance:.2} m from an obstacle; the robot needs {radius:.2} m",
                goal[0], goal[1]
            ),
        ));
    }
    let mut failure = None;
    for margin in MARGINS {
        match plan_with(
            grid,
            radius + margin,
            (start, start_cell),
            (goal, goal_cell),
        ) {
            Ok(path) => return Ok(path),
            Err(error) => failure = Some(error),
        }
    }
    Err(failure.unwrap_or_else(|| (NavErrorCode::PlannerUnknown, "no margin to try".to_owned())))
}

/// Plans with the centre at least `needed` metres away from obstacles.
fn plan_with(
    grid: &OccupancyGrid,
    needed: f64,
    (start, start_cell): ([f64; 2], Cell),
    (goal, goal_cell): ([f64; 2], Cell),
) -> Result<Vec<[f64; 2]>, PlanFailure> {
    let from = nearest_free(grid, start_cell, needed).ok_or_else(|| {
        (
            NavErrorCode::StartOccupied,
            format!(
                "the robot at ({:.2}, {:.2}) stands in an obstacle",
                start[0], start[1]
            ),
        )
    })?;
    let to = nearest_free(grid, goal_cell, needed).ok_or_else(|| {
        (
            NavErrorCode::GoalOccupied,
            format!(
                "no free place is near the goal ({:.2}, {:.2})",
                goal[0], goal[1]
            ),
        )
    })?;
    let heuristic = |c: &Cell| {
        let (dx, dy) = (c.0.abs_diff(to.0) as u32, c.1.abs_diff(to.1) as u32);
        // Octile distance in tenths of a cell.
        10 * dx.max(dy) + 4 * dx.min(dy)
    };
    let (cells, _) = astar(
        &from,
        |c| neighbours(grid, *c, needed),
        heuristic,
        |c| *c == to,
    )
    .ok_or_else(|| {
        (
            NavErrorCode::NoValidPath,
            format!(
                "no way leads from ({:.2}, {:.2}) to ({:.2}, {:.2}); a door may be closed",
                start[0], start[1], goal[0], goal[1]
            ),
        )
    })?;
    let mut points: Vec<[f64; 2]> = Vec::with_capacity(cells.len() + 2);
    points.push(start);
    points.extend(cells.iter().map(|c| grid.center(*c)));
    points.push(goal);
    Ok(shortened(grid, &points, needed))
}

/// The eight neighbours that are free, with costs in tenths of a cell, more near obstacles.
fn neighbours(grid: &OccupancyGrid, (column, row): Cell, needed: f64) -> Vec<(Cell, u32)> {
    let mut found = Vec::with_capacity(8);
    for (dx, dy, cost) in [
        (1_isize, 0_isize, 10_u32),
        (-1, 0, 10),
        (0, 1, 10),
        (0, -1, 10),
        (1, 1, 14),
        (1, -1, 14),
        (-1, 1, 14),
        (-1, -1, 14),
    ] {
        let (Some(x), Some(y)) = (column.checked_add_signed(dx), row.checked_add_signed(dy)) else {
            continue;
        };
        let clearance = grid.cell_clearance((x, y));
        if clearance < needed {
            continue;
        }
        // Up to three times the cost at the least distance, none at the greatest: the middle of a
        // doorway is preferred, a detour through another room is not.
        let room = (MAX_CLEARANCE - needed).max(RESOLUTION);
        let nearness = ((MAX_CLEARANCE - clearance) / room).clamp(0.0, 1.0);
        let extra = (f64::from(cost) * 2.0 * nearness * nearness) as u32;
        found.push(((x, y), cost + extra));
    }
    found
}

/// The free cell nearest to the given one.
fn nearest_free(grid: &OccupancyGrid, cell: Cell, needed: f64) -> Option<Cell> {
    if grid.cell_clearance(cell) >= needed {
        return Some(cell);
    }
    let reach = (SNAP / RESOLUTION) as isize;
    let mut best: Option<(isize, Cell)> = None;
    for dy in -reach..=reach {
        for dx in -reach..=reach {
            let (Some(x), Some(y)) = (cell.0.checked_add_signed(dx), cell.1.checked_add_signed(dy))
            else {
                continue;
            };
            let distance = dx * dx + dy * dy;
            if distance <= reach * reach
                && grid.cell_clearance((x, y)) >= needed
                && best.is_none_or(|(d, _)| distance < d)
            {
                best = Some((distance, (x, y)));
            }
        }
    }
    best.map(|(_, c)| c)
}

/// Leaves out points wherever the straight line is as clear as the way through them.
fn shortened(grid: &OccupancyGrid, points: &[[f64; 2]], needed: f64) -> Vec<[f64; 2]> {
    // A straight line may come nearer to obstacles than the way it replaces, down to this much.
    let comfortable = (needed + 0.12).min(MAX_CLEARANCE - RESOLUTION);
    let mut path = Vec::new();
    let mut at = 0;
    while let Some(&from) = points.get(at) {
        path.push(from);
        let mut next = at + 1;
        let mut least = f64::INFINITY;
        let mut candidate = at + 1;
        while let Some(&to) = points.get(candidate) {
            least = least.min(grid.clearance(to[0], to[1]));
            // The ends themselves may lie nearer to obstacles than the margin.
            let wanted = least.min(comfortable).max(needed);
            let inner = candidate > at + 1;
            if !inner || grid.line_clearance(from, to) >= wanted {
                next = candidate;
            }
            candidate += 1;
            // Looking at most 6 m ahead bounds the work on long ways.
            if candidate - at > 120 {
                break;
            }
        }
        at = next;
    }
    path
}

//! Which detection is which object: the assignment with the least total cost.

use pathfinding::kuhn_munkres::kuhn_munkres_min;
use pathfinding::matrix::Matrix;

/// Costs are multiplied by this and rounded, since the algorithm needs numbers with a total order.
const SCALE: f64 = 1e6;

/// Cost of a pair that is not allowed; far above any sum of allowed ones (256 pairs of at most 1e3).
const FORBIDDEN: i64 = 1_000_000_000_000_000;

/// One allowed pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// Index of the detection.
    pub detection: usize,
    /// Index of the object.
    pub object: usize,
    /// Cost, at least 0.
    pub cost: f64,
}

/// For each detection the object that it is, or `None`: the assignment of least total cost, where
/// leaving a detection without an object costs `unassigned`.
///
/// Pairs that are not listed are not allowed. Pairs with a cost that is not finite, negative or above
/// `unassigned` are dropped. The problem is split into groups that share no candidate, each solved by
/// the Hungarian algorithm (Kuhn 1955, <https://doi.org/10.1002/nav.3800020109>).
pub fn assign(
    detections: usize,
    objects: usize,
    pairs: &[Pair],
    unassigned: f64,
) -> Vec<Option<usize>> {
    let mut out = vec![None; detections];
    let allowed: Vec<Pair> = pairs
        .iter()
        .copied()
        .filter(|p| {
            p.detection < detections
                && p.object < objects
                && p.cost.is_finite()
                && (0.0..=unassigned).contains(&p.cost)
        })
        .collect();
    for group in groups(detections, objects, &allowed) {
        solve(&group, unassigned, &mut out);
    }
    out
}

/// Connected components of the graph of allowed pairs.
fn groups(detections: usize, objects: usize, pairs: &[Pair]) -> Vec<Vec<Pair>> {
    // Union-find over detections and, after them, objects.
    let mut parent: Vec<usize> = (0..detections + objects).collect();
    fn root(parent: &mut [usize], mut i: usize) -> usize {
        // Every index is below parent.len(): indices come from the checked pairs and from parent itself.
        while let Some(&p) = parent.get(i) {
            if p == i {
                break;
            }
            let grand = parent.get(p).copied().unwrap_or(p);
            if let Some(slot) = parent.get_mut(i) {
                *slot = grand;
            }
            i = grand;
        }
        i
    }
    for pair in pairs {
        let a = root(&mut parent, pair.detection);
        let b = root(&mut parent, detections + pair.object);
        if let Some(slot) = parent.get_mut(a) {
            *slot = b;
        }
    }
    let mut by_root: std::collections::BTreeMap<usize, Vec<Pair>> = Default::default();
    for pair in pairs {
        let r = root(&mut parent, pair.detection);
        by_root.entry(r).or_default().push(*pair);
    }
    by_root.into_values().collect()
}

fn solve(group: &[Pair], unassigned: f64, out: &mut [Option<usize>]) {
    if let [only] = group {
        if let Some(slot) = out.get_mut(only.detection) {
            *slot = Some(only.object);
        }
        return;
    }
    let mut rows: Vec<usize> = group.iter().map(|p| p.detection).collect();
    rows.sort_unstable();
    rows.dedup();
    let mut columns: Vec<usize> = group.iter().map(|p| p.object).collect();
    columns.sort_unstable();
    columns.dedup();
    let to_cost = |c: f64| (c * SCALE).round() as i64;
    // Behind the objects, one column for each detection: "none of them".
    let mut matrix = Matrix::new(rows.len(), columns.len() + rows.len(), FORBIDDEN);
    for (i, row) in rows.iter().enumerate() {
        if let Some(cell) = matrix.get_mut((i, columns.len() + i)) {
            *cell = to_cost(unassigned);
        }
        for pair in group.iter().filter(|p| p.detection == *row) {
            if let Ok(j) = columns.binary_search(&pair.object) {
                if let Some(cell) = matrix.get_mut((i, j)) {
                    *cell = (*cell).min(to_cost(pair.cost));
                }
            }
        }
    }
    // Rows never outnumber columns, since each row has a column of its own.
    let (_, chosen) = kuhn_munkres_min(&matrix);
    for (row, column) in rows.iter().zip(chosen) {
        if let (Some(slot), Some(object)) = (out.get_mut(*row), columns.get(column)) {
            *slot = Some(*object);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pair(detection: usize, object: usize, cost: f64) -> Pair {
        Pair {
            detection,
            object,
            cost,
        }
    }

    #[test]
    fn the_sum_decides_and_not_the_nearest_first() {
        // Nearest first would take (0, 0) for 1 and leave 10 for (1, 1): 11. The other way is 2 + 3.
        let pairs = [
            pair(0, 0, 1.0),
            pair(0, 1, 2.0),
            pair(1, 0, 3.0),
            pair(1, 1, 10.0),
        ];
        assert_eq!(assign(2, 2, &pairs, 14.0), [Some(1), Some(0)]);
    }

    #[test]
    fn leaving_one_out_can_be_cheaper() {
        let pairs = [pair(0, 0, 1.0), pair(1, 0, 2.0)];
        assert_eq!(assign(2, 1, &pairs, 14.0), [Some(0), None]);
        assert_eq!(assign(2, 1, &[pair(0, 0, 15.0)], 14.0), [None, None]);
        assert_eq!(assign(1, 1, &[pair(0, 0, f64::NAN)], 14.0), [None]);
        assert_eq!(assign(1, 1, &[pair(7, 9, 1.0)], 14.0), [None]);
        assert!(assign(0, 0, &[], 14.0).is_empty());
    }

    fn total(assignment: &[Option<usize>], costs: &[Vec<f64>], unassigned: f64) -> f64 {
        assignment
            .iter()
            .enumerate()
            .map(|(d, o)| o.map_or(unassigned, |o| costs[d][o]))
            .sum()
    }

    fn best(costs: &[Vec<f64>], d: usize, used: &mut Vec<bool>, unassigned: f64) -> f64 {
        if d == costs.len() {
            return 0.0;
        }
        let mut least = unassigned + best(costs, d + 1, used, unassigned);
        for o in 0..used.len() {
            if !used[o] && costs[d][o] <= unassigned {
                used[o] = true;
                least = least.min(costs[d][o] + best(costs, d + 1, used, unassigned));
                used[o] = false;
            }
        }
        least
    }

    proptest! {
        /// As good as trying everything, and no object is given twice.
        #[test]
        fn no_assignment_is_cheaper(costs in (1usize..5, 1usize..5).prop_flat_map(|(d, o)|
            proptest::collection::vec(proptest::collection::vec(0.0f64..20.0, o), d)))
        {
            let objects = costs[0].len();
            let pairs: Vec<Pair> = costs.iter().enumerate()
                .flat_map(|(d, row)| row.iter().enumerate().map(move |(o, c)| pair(d, o, *c)))
                .collect();
            let found = assign(costs.len(), objects, &pairs, 10.0);
            let mut taken: Vec<usize> = found.iter().flatten().copied().collect();
            taken.sort_unstable();
            let before = taken.len();
            taken.dedup();
            prop_assert_eq!(before, taken.len());
            let reference = best(&costs, 0, &mut vec![false; objects], 10.0);
            prop_assert!((total(&found, &costs, 10.0) - reference).abs() < 1e-4);
        }
    }
}

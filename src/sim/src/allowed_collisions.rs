//! Which contacts a planning scene allows (moveit_msgs/AllowedCollisionMatrix).

use std::collections::BTreeMap;

use crate::error::SimError;

/// The name under which sensed obstacles stand in the matrix, as in MoveIt.
pub const OCTOMAP: &str = "<octomap>";
/// Most names.
const MAX_NAMES: usize = 512;

/// Contacts between named links and objects.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AllowedCollisions {
    names: Vec<String>,
    rows: Vec<Vec<bool>>,
    defaults: BTreeMap<String, bool>,
}

impl AllowedCollisions {
    /// The matrix from its parts: names, as many rows of as many entries, and the names whose contacts
    /// are allowed or not where no pair says otherwise.
    ///
    /// # Errors
    /// [`SimError::BadEntry`] when the rows do not fit the names, a name stands twice, or it is too large.
    pub fn new(
        names: Vec<String>,
        rows: Vec<Vec<bool>>,
        defaults: BTreeMap<String, bool>,
    ) -> Result<Self, SimError> {
        let bad = |problem: String| SimError::BadEntry {
            section: "allowed_collision_matrix",
            id: "entry_names".to_owned(),
            problem,
        };
        if names.len() > MAX_NAMES || defaults.len() > MAX_NAMES {
            return Err(bad(format!("more than {MAX_NAMES} names")));
        }
        if rows.len() != names.len() || rows.iter().any(|r| r.len() != names.len()) {
            return Err(bad(format!(
                "{} names need {0} rows of {0} entries each",
                names.len()
            )));
        }
        let mut sorted: Vec<&String> = names.iter().collect();
        sorted.sort();
        if let Some([twice, _]) = sorted.windows(2).find(|w| w.first() == w.get(1)) {
            return Err(bad(format!("'{twice}' is named twice")));
        }
        Ok(Self {
            names,
            rows,
            defaults,
        })
    }

    /// The matrix of a robot whose neighbouring links touch.
    #[must_use]
    pub fn of_neighbours(links: &[&str]) -> Self {
        let rows = (0..links.len())
            .map(|i| (0..links.len()).map(|j| i.abs_diff(j) <= 1).collect())
            .collect();
        Self {
            names: links.iter().map(|l| (*l).to_owned()).collect(),
            rows,
            defaults: BTreeMap::new(),
        }
    }

    /// The names of the matrix, in order.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The rows of the matrix, each as long as [`AllowedCollisions::names`].
    #[must_use]
    pub fn rows(&self) -> &[Vec<bool>] {
        &self.rows
    }

    /// What holds for a name where no pair is given.
    #[must_use]
    pub fn defaults(&self) -> &BTreeMap<String, bool> {
        &self.defaults
    }

    /// Whether the two may touch. A pair in the matrix counts before a default; of two defaults the
    /// stricter counts; what is not named may not touch.
    #[must_use]
    pub fn allows(&self, a: &str, b: &str) -> bool {
        let place = |name: &str| self.names.iter().position(|n| n == name);
        if let (Some(i), Some(j)) = (place(a), place(b)) {
            let entry = |i: usize, j: usize| {
                self.rows
                    .get(i)
                    .and_then(|r| r.get(j))
                    .copied()
                    .unwrap_or(false)
            };
            return entry(i, j) || entry(j, i);
        }
        match (self.defaults.get(a), self.defaults.get(b)) {
            (Some(a), Some(b)) => *a && *b,
            (Some(one), None) | (None, Some(one)) => *one,
            (None, None) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_count_before_defaults() {
        let mut defaults = BTreeMap::new();
        defaults.insert("cup".to_owned(), true);
        defaults.insert("wall".to_owned(), false);
        let names = vec!["hand".to_owned(), "cup".to_owned()];
        let matrix = |allowed| {
            AllowedCollisions::new(
                names.clone(),
                vec![vec![false, allowed], vec![false, false]],
                defaults.clone(),
            )
            .unwrap()
        };
        // Half of a pair is enough, whichever half.
        assert!(matrix(true).allows("hand", "cup") && matrix(true).allows("cup", "hand"));
        assert!(!matrix(false).allows("hand", "cup"));
        assert!(matrix(false).allows("elbow", "cup"));
        assert!(!matrix(false).allows("wall", "cup"));
        assert!(!matrix(true).allows("elbow", "door"));
    }

    #[test]
    fn matrices_that_do_not_fit_are_refused() {
        let name = |n: &str| n.to_owned();
        let none = BTreeMap::new;
        assert!(AllowedCollisions::new(vec![name("a")], vec![vec![true, true]], none()).is_err());
        assert!(AllowedCollisions::new(vec![name("a")], vec![], none()).is_err());
        let twice = AllowedCollisions::new(
            vec![name("a"), name("a")],
            vec![vec![true, true], vec![true, true]],
            none(),
        );
        assert!(twice.unwrap_err().to_string().contains("twice"));
        assert!(AllowedCollisions::new(vec![], vec![], none()).is_ok());
    }
}

//! Names for goals, and a memory of how they ended.

/// Names one goal of one server; grows by one with each goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoalId(pub u64);

/// How the last goals of a server ended.
#[derive(Debug, Clone)]
pub struct GoalRecord<S> {
    next: u64,
    ended: std::collections::VecDeque<(GoalId, S)>,
}

impl<S: Clone> GoalRecord<S> {
    /// How many ended goals are remembered.
    pub const REMEMBERED: usize = 64;

    /// An empty record.
    #[must_use]
    pub fn new() -> Self {
        Self {
            next: 1,
            ended: std::collections::VecDeque::new(),
        }
    }

    /// A new name.
    pub fn next_id(&mut self) -> GoalId {
        let id = GoalId(self.next);
        self.next += 1;
        id
    }

    /// Remembers how a goal ended; the oldest is forgotten when there are too many.
    pub fn end(&mut self, id: GoalId, status: S) {
        if self.ended.len() >= Self::REMEMBERED {
            self.ended.pop_front();
        }
        self.ended.push_back((id, status));
    }

    /// How a goal ended; none when it is unknown, runs, or is forgotten.
    #[must_use]
    pub fn get(&self, id: GoalId) -> Option<S> {
        self.ended
            .iter()
            .rev()
            .find(|(e, _)| *e == id)
            .map(|(_, s)| s.clone())
    }
}

impl<S: Clone> Default for GoalRecord<S> {
    fn default() -> Self {
        Self::new()
    }
}

//! The goals of one action server: what became of each, and who waits for it. No ROS types.
//!
//! States and rules: <https://design.ros2.org/articles/actions.html>.

use std::time::Duration;

use tokio::sync::oneshot;
use uuid::Uuid;

/// Most goals that are remembered at one time.
pub const MOST_GOALS: usize = 1000;
/// Most requests for one goal's result that wait at one time.
pub const MOST_WAITERS: usize = 64;

/// How a goal stands. The numbers are those of action_msgs/GoalStatus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i8)]
pub enum GoalState {
    /// It runs.
    Executing = 2,
    /// It runs, and somebody asked to cancel it.
    Canceling = 3,
    /// Reached.
    Succeeded = 4,
    /// Canceled.
    Canceled = 5,
    /// Given up.
    Aborted = 6,
}

impl GoalState {
    /// Whether it has ended.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Canceled | Self::Aborted)
    }
}

/// How a goal ended, with the action's own result.
#[derive(Debug, Clone, PartialEq)]
pub enum End<R> {
    /// Reached.
    Succeeded(R),
    /// Given up.
    Aborted(R),
    /// Ended by a cancel.
    Canceled(R),
}

/// A goal's entry in the list of states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The goal.
    pub id: Uuid,
    /// When it was accepted, ROS time in nanoseconds.
    pub stamp_ns: i64,
    /// How it stands.
    pub state: GoalState,
}

/// The answer to a request for a result.
#[derive(Debug)]
pub enum ResultAnswer<R> {
    /// It has ended like this.
    Ended(GoalState, R),
    /// No such goal.
    Unknown,
    /// It runs: the end comes later, or never when it gets lost.
    Later(oneshot::Receiver<(GoalState, R)>),
    /// The answer gets lost.
    Lost,
}

/// The answer to a request to cancel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CancelAnswer {
    /// These goals are canceling from now on; never empty but when all were meant and none runs.
    Canceling(Vec<Entry>),
    /// No such goal.
    Unknown,
    /// The goal has ended.
    Ended,
}

struct Goal<R> {
    entry: Entry,
    result: Option<R>,
    ended_at: Duration,
    waiters: Vec<oneshot::Sender<(GoalState, R)>>,
    /// The next answer with the result gets lost.
    loses_result: bool,
}

/// The goals of one action server.
pub struct GoalBook<R> {
    goals: Vec<Goal<R>>,
    keep: Duration,
}

impl<R: Clone> GoalBook<R> {
    /// An empty book which forgets goals `keep` after their end.
    pub fn new(keep: Duration) -> Self {
        Self {
            goals: Vec::new(),
            keep,
        }
    }

    /// Whether the goal is known.
    pub fn contains(&self, id: Uuid) -> bool {
        self.goals.iter().any(|g| g.entry.id == id)
    }

    /// Takes a goal in; it runs. False when its id is known already or too many goals run.
    pub fn accept(&mut self, id: Uuid, stamp_ns: i64) -> bool {
        if self.contains(id) {
            return false;
        }
        if self.goals.len() >= MOST_GOALS {
            match self.goals.iter().position(|g| g.entry.state.is_terminal()) {
                Some(oldest) => drop(self.goals.remove(oldest)),
                None => return false,
            }
        }
        self.goals.push(Goal {
            entry: Entry {
                id,
                stamp_ns,
                state: GoalState::Executing,
            },
            result: None,
            ended_at: Duration::ZERO,
            waiters: Vec::new(),
            loses_result: false,
        });
        true
    }

    /// Asks to cancel as action_msgs/CancelGoal says: the goal with this id, and all that were accepted at
    /// this stamp or earlier; all goals when neither is given.
    pub fn cancel(&mut self, id: Option<Uuid>, stamp_ns: Option<i64>) -> CancelAnswer {
        if let (Some(id), None) = (id, stamp_ns) {
            match self.goals.iter().find(|g| g.entry.id == id) {
                None => return CancelAnswer::Unknown,
                Some(goal) if goal.entry.state.is_terminal() => return CancelAnswer::Ended,
                Some(_) => {}
            }
        }
        let all = id.is_none() && stamp_ns.is_none();
        let mut canceling = Vec::new();
        for goal in &mut self.goals {
            let meant = all
                || Some(goal.entry.id) == id
                || stamp_ns.is_some_and(|stamp| goal.entry.stamp_ns <= stamp);
            if meant && !goal.entry.state.is_terminal() {
                goal.entry.state = GoalState::Canceling;
                canceling.push(goal.entry);
            }
        }
        CancelAnswer::Canceling(canceling)
    }

    /// Ends a goal. `lose`: the answer with the result gets lost once. A goal that ended stays as it is.
    ///
    /// What ends as canceled without anybody having asked counts as aborted: no such way exists.
    pub fn end(&mut self, id: Uuid, end: End<R>, now: Duration, lose: bool) {
        let Some(goal) = self.goals.iter_mut().find(|g| g.entry.id == id) else {
            return;
        };
        if goal.entry.state.is_terminal() {
            return;
        }
        let (state, result) = match end {
            End::Succeeded(result) => (GoalState::Succeeded, result),
            End::Canceled(result) if goal.entry.state == GoalState::Canceling => {
                (GoalState::Canceled, result)
            }
            End::Aborted(result) | End::Canceled(result) => (GoalState::Aborted, result),
        };
        goal.entry.state = state;
        goal.ended_at = now;
        goal.loses_result = lose && goal.waiters.is_empty();
        for waiter in goal.waiters.drain(..) {
            if !lose {
                // Who no longer waits needs no answer.
                let _ = waiter.send((state, result.clone()));
            }
        }
        goal.result = Some(result);
    }

    /// The result of a goal, now or later.
    pub fn result(&mut self, id: Uuid) -> ResultAnswer<R> {
        let Some(goal) = self.goals.iter_mut().find(|g| g.entry.id == id) else {
            return ResultAnswer::Unknown;
        };
        if let Some(result) = &goal.result {
            if std::mem::take(&mut goal.loses_result) {
                return ResultAnswer::Lost;
            }
            return ResultAnswer::Ended(goal.entry.state, result.clone());
        }
        let (sender, receiver) = oneshot::channel();
        goal.waiters.retain(|w| !w.is_closed());
        if goal.waiters.len() >= MOST_WAITERS {
            goal.waiters.remove(0);
        }
        goal.waiters.push(sender);
        ResultAnswer::Later(receiver)
    }

    /// How all goals stand, in the order in which they were accepted.
    pub fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        self.goals.iter().map(|g| g.entry)
    }

    /// Forgets what ended long ago; whether there was any.
    pub fn expire(&mut self, now: Duration) -> bool {
        let before = self.goals.len();
        let keep = self.keep;
        self.goals
            .retain(|g| !g.entry.state.is_terminal() || now.saturating_sub(g.ended_at) < keep);
        before != self.goals.len()
    }

    /// Forgets everything, as a process that died. Who waits gets no answer.
    pub fn forget_all(&mut self) {
        self.goals.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEEP: Duration = Duration::from_secs(10);
    const T0: Duration = Duration::ZERO;

    fn id(n: u128) -> Uuid {
        Uuid::from_u128(n)
    }

    fn book(goals: u128) -> GoalBook<&'static str> {
        let mut book = GoalBook::new(KEEP);
        for n in 1..=goals {
            // Stamps 100, 200, …
            assert!(book.accept(id(n), n as i64 * 100));
        }
        book
    }

    fn states(book: &GoalBook<&'static str>) -> Vec<GoalState> {
        book.entries().map(|e| e.state).collect()
    }

    #[test]
    fn an_id_is_taken_only_once_even_after_its_end() {
        let mut book = book(1);
        assert!(!book.accept(id(1), 5));
        book.end(id(1), End::Succeeded("done"), T0, false);
        assert!(!book.accept(id(1), 5));
        assert!(book.expire(KEEP));
        assert!(book.accept(id(1), 5));
    }

    #[test]
    fn who_waits_gets_the_result_and_who_comes_later_too() {
        let mut book = book(1);
        let ResultAnswer::Later(mut waiting) = book.result(id(1)) else {
            panic!("it runs");
        };
        book.end(id(1), End::Aborted("no way"), T0, false);
        assert_eq!(waiting.try_recv(), Ok((GoalState::Aborted, "no way")));
        assert!(matches!(
            book.result(id(1)),
            ResultAnswer::Ended(GoalState::Aborted, "no way")
        ));
        assert!(matches!(book.result(id(2)), ResultAnswer::Unknown));
    }

    #[test]
    fn a_terminal_state_never_changes() {
        let mut book = book(1);
        book.end(id(1), End::Succeeded("first"), T0, false);
        book.end(id(1), End::Aborted("second"), T0, false);
        assert!(matches!(
            book.result(id(1)),
            ResultAnswer::Ended(GoalState::Succeeded, "first")
        ));
        assert_eq!(book.cancel(Some(id(1)), None), CancelAnswer::Ended);
        assert_eq!(states(&book), [GoalState::Succeeded]);
    }

    #[test]
    fn canceled_is_only_what_somebody_asked_to_cancel() {
        let mut book = book(2);
        assert!(
            matches!(book.cancel(Some(id(1)), None), CancelAnswer::Canceling(c) if c.len() == 1)
        );
        book.end(id(1), End::Canceled(""), T0, false);
        book.end(id(2), End::Canceled(""), T0, false);
        assert_eq!(states(&book), [GoalState::Canceled, GoalState::Aborted]);
    }

    #[test]
    fn cancel_means_what_the_definition_says() {
        use GoalState::{Canceling, Executing};
        assert_eq!(book(1).cancel(Some(id(9)), None), CancelAnswer::Unknown);
        for (goal, stamp, expected) in [
            (None, None, [Canceling, Canceling, Canceling]),
            (Some(id(2)), None, [Executing, Canceling, Executing]),
            (None, Some(200), [Canceling, Canceling, Executing]),
            (Some(id(3)), Some(100), [Canceling, Executing, Canceling]),
        ] {
            let mut book = book(3);
            book.cancel(goal, stamp);
            assert_eq!(states(&book), expected, "{goal:?} {stamp:?}");
        }
    }

    #[test]
    fn a_lost_result_is_lost_once() {
        let mut book = book(2);
        let ResultAnswer::Later(mut waiting) = book.result(id(1)) else {
            panic!("it runs");
        };
        book.end(id(1), End::Succeeded("a"), T0, true);
        assert!(waiting.try_recv().is_err());
        assert!(matches!(book.result(id(1)), ResultAnswer::Ended(..)));
        // Nobody waited: the first who asks gets nothing.
        book.end(id(2), End::Succeeded("b"), T0, true);
        assert!(matches!(book.result(id(2)), ResultAnswer::Lost));
        assert!(matches!(book.result(id(2)), ResultAnswer::Ended(..)));
    }

    #[test]
    fn forgetting_leaves_the_waiting_without_an_answer() {
        let mut book = book(1);
        let ResultAnswer::Later(mut waiting) = book.result(id(1)) else {
            panic!("it runs");
        };
        book.forget_all();
        assert!(waiting.try_recv().is_err());
        assert!(matches!(book.result(id(1)), ResultAnswer::Unknown));
    }

    #[test]
    fn the_book_and_the_waiters_are_bounded() {
        let mut book = book(MOST_GOALS as u128);
        assert!(!book.accept(id(0), 0), "all of them run");
        book.end(id(7), End::Succeeded(""), T0, false);
        assert!(book.accept(id(0), 0));
        assert_eq!(book.entries().count(), MOST_GOALS);
        assert!(!book.contains(id(7)));
        let waiting: Vec<_> = (0..2 * MOST_WAITERS).map(|_| book.result(id(1))).collect();
        assert_eq!(book.goals[0].waiters.len(), MOST_WAITERS);
        drop(waiting);
    }
}

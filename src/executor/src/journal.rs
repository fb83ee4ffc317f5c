//! The journal as the executor needs it.

use eh_contract::Stamp;
use eh_ledger::executor::{ExecutorEvent, ExecutorRecord};
use thiserror::Error;

/// Name of the note that says how what is held was grasped.
pub const HELD: &str = "held_grasp";

/// Failpoint of the note [`HELD`].
pub const NOTE_FAILPOINT: &str = "executor.note.held_grasp";

/// Why something is not in the journal, in words.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct JournalFailure(pub String);

/// One record as it is after an event, to be written with others.
#[derive(Clone, Debug)]
pub struct Write {
    /// As it is then.
    pub record: ExecutorRecord,
    /// What happened.
    pub kind: RecordKind,
    /// The same in words: a JSON object.
    pub details: String,
    /// When.
    pub now: Stamp,
}

/// Where records are kept.
pub trait Journal {
    /// Writes a record as it is after an event. When this returns `Ok` it is durable; `kind` and
    /// `details` (a JSON object) say what happened, `now` when.
    ///
    /// # Errors
    /// [`JournalFailure`]; nothing of it is kept then.
    fn append(
        &mut self,
        record: &ExecutorRecord,
        kind: RecordKind,
        details: &str,
        now: Stamp,
    ) -> Result<(), JournalFailure>;

    /// Writes records of one command in their order, with one wait for the disk. When this returns `Ok` they
    /// are durable.
    ///
    /// # Errors
    /// [`JournalFailure`]; none of them is kept then.
    fn append_all(&mut self, writes: &[Write]) -> Result<(), JournalFailure>;

    /// The record of a command.
    ///
    /// # Errors
    /// [`JournalFailure`] when it can't be read.
    fn get(&self, command_id: &str) -> Result<Option<ExecutorRecord>, JournalFailure>;

    /// Keeps something of the executor itself. Durable when this returns `Ok`.
    ///
    /// # Errors
    /// [`JournalFailure`].
    fn set_note(&mut self, name: &'static str, value: &str) -> Result<(), JournalFailure>;
}

/// What a record was written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordKind {
    /// It is new.
    Received,
    /// [`ExecutorEvent::Accept`].
    Accepted,
    /// [`ExecutorEvent::Reject`].
    Rejected,
    /// [`ExecutorEvent::Start`].
    Started,
    /// [`ExecutorEvent::SendGoal`].
    GoalSent,
    /// [`ExecutorEvent::GoalRefused`].
    GoalRefused,
    /// [`ExecutorEvent::GoalEnded`].
    GoalEnded,
    /// [`ExecutorEvent::Step`].
    Step,
    /// [`ExecutorEvent::Complete`].
    Completed,
    /// [`ExecutorEvent::Stop`].
    StopRequested,
    /// [`ExecutorEvent::Standstill`].
    Standstill,
    /// [`ExecutorEvent::StopTimeout`].
    StopUnconfirmed,
    /// [`ExecutorEvent::Lose`].
    Lost,
    /// [`ExecutorEvent::Settle`].
    Settled,
}

impl RecordKind {
    /// Every kind.
    pub const ALL: &'static [RecordKind] = &[
        RecordKind::Received,
        RecordKind::Accepted,
        RecordKind::Rejected,
        RecordKind::Started,
        RecordKind::GoalSent,
        RecordKind::GoalRefused,
        RecordKind::GoalEnded,
        RecordKind::Step,
        RecordKind::Completed,
        RecordKind::StopRequested,
        RecordKind::Standstill,
        RecordKind::StopUnconfirmed,
        RecordKind::Lost,
        RecordKind::Settled,
    ];

    /// The kind of an event.
    pub const fn of(event: &ExecutorEvent) -> Self {
        match event {
            ExecutorEvent::Accept { .. } => RecordKind::Accepted,
            ExecutorEvent::Reject { .. } => RecordKind::Rejected,
            ExecutorEvent::Start { .. } => RecordKind::Started,
            ExecutorEvent::SendGoal { .. } => RecordKind::GoalSent,
            ExecutorEvent::GoalRefused { .. } => RecordKind::GoalRefused,
            ExecutorEvent::GoalEnded { .. } => RecordKind::GoalEnded,
            ExecutorEvent::Step { .. } => RecordKind::Step,
            ExecutorEvent::Complete => RecordKind::Completed,
            ExecutorEvent::Stop(_) => RecordKind::StopRequested,
            ExecutorEvent::Standstill => RecordKind::Standstill,
            ExecutorEvent::StopTimeout { .. } => RecordKind::StopUnconfirmed,
            ExecutorEvent::Lose { .. } => RecordKind::Lost,
            ExecutorEvent::Settle { .. } => RecordKind::Settled,
        }
    }

    /// Name in the journal.
    pub const fn name(self) -> &'static str {
        match self {
            RecordKind::Received => "received",
            RecordKind::Accepted => "accepted",
            RecordKind::Rejected => "rejected",
            RecordKind::Started => "started",
            RecordKind::GoalSent => "goal_sent",
            RecordKind::GoalRefused => "goal_refused",
            RecordKind::GoalEnded => "goal_ended",
            RecordKind::Step => "step",
            RecordKind::Completed => "completed",
            RecordKind::StopRequested => "stop_requested",
            RecordKind::Standstill => "standstill",
            RecordKind::StopUnconfirmed => "stop_unconfirmed",
            RecordKind::Lost => "lost",
            RecordKind::Settled => "settled",
        }
    }

    /// Stable name of the place in a life where this is written, for those who make crashes.
    pub const fn failpoint(self) -> &'static str {
        match self {
            RecordKind::Received => "executor.append.received",
            RecordKind::Accepted => "executor.append.accepted",
            RecordKind::Rejected => "executor.append.rejected",
            RecordKind::Started => "executor.append.started",
            RecordKind::GoalSent => "executor.append.goal_sent",
            RecordKind::GoalRefused => "executor.append.goal_refused",
            RecordKind::GoalEnded => "executor.append.goal_ended",
            RecordKind::Step => "executor.append.step",
            RecordKind::Completed => "executor.append.completed",
            RecordKind::StopRequested => "executor.append.stop_requested",
            RecordKind::Standstill => "executor.append.standstill",
            RecordKind::StopUnconfirmed => "executor.append.stop_unconfirmed",
            RecordKind::Lost => "executor.append.lost",
            RecordKind::Settled => "executor.append.settled",
        }
    }
}

//! One entry of the journal, ready to be written.

use std::borrow::Cow;

use eh_contract::skill::DisconnectPolicy;
use eh_contract::state::{ControlEnd, ExecutorState, StopStage};
use eh_contract::Stamp;
use eh_ledger::executor::{ExecutorRecord, Settlement, StopCause, SubGoalRecord};
use serde::Serialize;

use crate::chain::hash_of;
use crate::harness::to_sql;

/// A record without its command, which never changes and so is written once only. The names are those of
/// [`ExecutorRecord`]: [`whole`] puts the two together.
#[derive(Serialize)]
struct Progress<'a> {
    digest: &'a str,
    segment: u32,
    boot_id: &'a str,
    fencing_token: u64,
    controller_id: &'a str,
    resources: &'a [String],
    disconnect_policy: DisconnectPolicy,
    state: ExecutorState,
    control_end: ControlEnd,
    stop_stage: StopStage,
    stop_cause: &'a Option<StopCause>,
    sequence: u64,
    run_id: &'a str,
    sub_goals: &'a [SubGoalRecord],
    error_code: u16,
    error_msg: &'a str,
    received_at: Stamp,
    started_at: Stamp,
    cancel_requested_at: Stamp,
    stop_confirmed_at: Stamp,
    ended_at: Stamp,
    settlement: &'a Option<Settlement>,
}

impl<'a> Progress<'a> {
    fn of(record: &'a ExecutorRecord) -> Self {
        // Field by field, so that a new one can't be forgotten.
        let ExecutorRecord {
            command: _,
            digest,
            segment,
            boot_id,
            fencing_token,
            controller_id,
            resources,
            disconnect_policy,
            state,
            control_end,
            stop_stage,
            stop_cause,
            sequence,
            run_id,
            sub_goals,
            error_code,
            error_msg,
            received_at,
            started_at,
            cancel_requested_at,
            stop_confirmed_at,
            ended_at,
            settlement,
        } = record;
        Progress {
            digest,
            segment: *segment,
            boot_id,
            fencing_token: *fencing_token,
            controller_id,
            resources,
            disconnect_policy: *disconnect_policy,
            state: *state,
            control_end: *control_end,
            stop_stage: *stop_stage,
            stop_cause,
            sequence: *sequence,
            run_id,
            sub_goals,
            error_code: *error_code,
            error_msg,
            received_at: *received_at,
            started_at: *started_at,
            cancel_requested_at: *cancel_requested_at,
            stop_confirmed_at: *stop_confirmed_at,
            ended_at: *ended_at,
            settlement,
        }
    }
}

/// The record of what the file holds: its text without the command, and the command's. A file of version 2
/// holds whole records and no text of the command.
///
/// # Errors
/// What serde_json says of a text that is no record.
pub(super) fn whole(
    record: &str,
    command: Option<&str>,
) -> Result<ExecutorRecord, serde_json::Error> {
    match (command, record.strip_prefix('{')) {
        (Some(command), Some(rest)) => {
            serde_json::from_str(&format!("{{\"command\":{command},{rest}"))
        }
        _ => serde_json::from_str(record),
    }
}

/// A record as it is after an event, with the event. What costs time, its text and its hash, is made with
/// it, so that many threads can do that side by side and only the writing is left to one.
#[derive(Clone, Debug)]
pub struct JournalEntry<'a> {
    record: Cow<'a, ExecutorRecord>,
    kind: Cow<'a, str>,
    details: Cow<'a, str>,
    now: Stamp,
    text: String,
    record_hash: [u8; 32],
}

impl JournalEntry<'static> {
    /// An entry that can be given to another thread. `details` is one JSON object, `now` ROS time.
    ///
    /// # Errors
    /// What serde_json says when the record can't be written as JSON.
    pub fn new(
        record: ExecutorRecord,
        kind: &'static str,
        details: String,
        now: Stamp,
    ) -> Result<Self, serde_json::Error> {
        Self::make(Cow::Owned(record), kind.into(), details.into(), now)
    }
}

impl<'a> JournalEntry<'a> {
    /// An entry of borrowed parts.
    ///
    /// # Errors
    /// As [`JournalEntry::new`].
    pub fn borrowed(
        record: &'a ExecutorRecord,
        kind: &'a str,
        details: &'a str,
        now: Stamp,
    ) -> Result<Self, serde_json::Error> {
        Self::make(Cow::Borrowed(record), kind.into(), details.into(), now)
    }

    fn make(
        record: Cow<'a, ExecutorRecord>,
        kind: Cow<'a, str>,
        details: Cow<'a, str>,
        now: Stamp,
    ) -> Result<Self, serde_json::Error> {
        let text = serde_json::to_string(&Progress::of(&record))?;
        Ok(JournalEntry {
            record_hash: hash_of(text.as_bytes()),
            record,
            kind,
            details,
            now,
            text,
        })
    }

    /// The record.
    pub fn record(&self) -> &ExecutorRecord {
        &self.record
    }

    pub(super) fn id(&self) -> &str {
        &self.record.command.command_id
    }

    pub(super) fn kind(&self) -> &str {
        &self.kind
    }

    pub(super) fn details(&self) -> &str {
        &self.details
    }

    pub(super) fn now(&self) -> Stamp {
        self.now
    }

    /// The record without its command.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The command.
    pub(super) fn command_text(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(&self.record.command)
    }

    pub(super) fn record_hash(&self) -> &[u8] {
        &self.record_hash
    }

    pub(super) fn sequence(&self) -> i64 {
        to_sql(self.record.sequence)
    }

    pub(super) fn token(&self) -> i64 {
        to_sql(self.record.fencing_token)
    }

    pub(super) fn live(&self) -> bool {
        !self.record.is_terminal()
    }

    /// Goals that were written down after this sequence.
    pub(super) fn new_goals(&self, known: i64) -> impl Iterator<Item = &SubGoalRecord> {
        self.record
            .sub_goals
            .iter()
            .filter(move |g| to_sql(g.sent_sequence) > known)
    }
}

//! One entry of the journal, ready to be written.

use std::borrow::Cow;

use eh_contract::Stamp;
use eh_ledger::executor::{ExecutorRecord, SubGoalRecord};

use crate::chain::hash_of;
use crate::harness::to_sql;

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
        let text = serde_json::to_string(record.as_ref())?;
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

    pub(super) fn text(&self) -> &str {
        &self.text
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

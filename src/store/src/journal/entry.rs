//! One entry of the journal, ready to be written.

use std::borrow::Cow;

use eh_contract::skill::DisconnectPolicy;
use eh_contract::state::{ControlEnd, ExecutorState, StopStage};
use eh_contract::Stamp;
use eh_ledger::executor::{ExecutorRecord, Settlement, StopCause, SubGoalRecord};
use serde::{Deserialize, Serialize};

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

/// The same when it is read. New fields go to the end of both, with a default: what was written before lacks
/// them.
#[derive(Deserialize)]
struct Packed {
    digest: String,
    segment: u32,
    boot_id: String,
    fencing_token: u64,
    controller_id: String,
    resources: Vec<String>,
    disconnect_policy: DisconnectPolicy,
    state: ExecutorState,
    control_end: ControlEnd,
    stop_stage: StopStage,
    stop_cause: Option<StopCause>,
    sequence: u64,
    run_id: String,
    sub_goals: Vec<SubGoalRecord>,
    error_code: u16,
    error_msg: String,
    received_at: Stamp,
    started_at: Stamp,
    cancel_requested_at: Stamp,
    stop_confirmed_at: Stamp,
    ended_at: Stamp,
    settlement: Option<Settlement>,
}

/// A record without its command, as MessagePack: the fields in their order, without their names.
///
/// # Errors
/// Why it can't be written.
pub(super) fn pack(record: &ExecutorRecord) -> Result<Vec<u8>, String> {
    // Most are shorter.
    let mut bytes = Vec::with_capacity(1024);
    Progress::of(record)
        .serialize(&mut rmp_serde::Serializer::new(&mut bytes))
        .map_err(|e| e.to_string())?;
    Ok(bytes)
}

/// The record of [`pack`]ed bytes and the text of its command.
///
/// # Errors
/// Why they can't be read.
pub(super) fn unpack(bytes: &[u8], command: &str) -> Result<ExecutorRecord, String> {
    let packed: Packed = rmp_serde::from_slice(bytes).map_err(|e| e.to_string())?;
    let command = serde_json::from_str(command).map_err(|e| e.to_string())?;
    Ok(ExecutorRecord {
        command,
        digest: packed.digest,
        segment: packed.segment,
        boot_id: packed.boot_id,
        fencing_token: packed.fencing_token,
        controller_id: packed.controller_id,
        resources: packed.resources,
        disconnect_policy: packed.disconnect_policy,
        state: packed.state,
        control_end: packed.control_end,
        stop_stage: packed.stop_stage,
        stop_cause: packed.stop_cause,
        sequence: packed.sequence,
        run_id: packed.run_id,
        sub_goals: packed.sub_goals,
        error_code: packed.error_code,
        error_msg: packed.error_msg,
        received_at: packed.received_at,
        started_at: packed.started_at,
        cancel_requested_at: packed.cancel_requested_at,
        stop_confirmed_at: packed.stop_confirmed_at,
        ended_at: packed.ended_at,
        settlement: packed.settlement,
    })
}

/// A record without its command as the table of commands has it, for people to read: JSON with the names of
/// [`ExecutorRecord`].
///
/// # Errors
/// Why it can't be written.
pub(super) fn text(record: &ExecutorRecord) -> Result<String, serde_json::Error> {
    serde_json::to_string(&Progress::of(record))
}

/// The record of what the table of commands holds: its text without the command, and the command's. A file of
/// version 2 holds whole records and no text of the command.
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

/// A record as it is after an event, with the event. What costs time, its bytes and its hash, is made with
/// it, so that many threads can do that side by side and only the writing is left to one.
#[derive(Clone, Debug)]
pub struct JournalEntry<'a> {
    record: Cow<'a, ExecutorRecord>,
    kind: Cow<'a, str>,
    details: Cow<'a, str>,
    now: Stamp,
    packed: Vec<u8>,
    record_hash: [u8; 32],
}

impl JournalEntry<'static> {
    /// An entry that can be given to another thread. `details` is one JSON object, `now` ROS time.
    ///
    /// # Errors
    /// Why the record can't be written.
    pub fn new(
        record: ExecutorRecord,
        kind: &'static str,
        details: String,
        now: Stamp,
    ) -> Result<Self, String> {
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
    ) -> Result<Self, String> {
        Self::make(Cow::Borrowed(record), kind.into(), details.into(), now)
    }

    fn make(
        record: Cow<'a, ExecutorRecord>,
        kind: Cow<'a, str>,
        details: Cow<'a, str>,
        now: Stamp,
    ) -> Result<Self, String> {
        let packed = pack(&record)?;
        Ok(JournalEntry {
            record_hash: hash_of(&packed),
            record,
            kind,
            details,
            now,
            packed,
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
    pub(super) fn packed(&self) -> &[u8] {
        &self.packed
    }

    pub(super) fn record_hash(&self) -> [u8; 32] {
        self.record_hash
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
}

/// Goals of a record that were written down after this sequence.
pub(super) fn new_goals(
    record: &ExecutorRecord,
    known: i64,
) -> impl Iterator<Item = &SubGoalRecord> {
    record
        .sub_goals
        .iter()
        .filter(move |g| to_sql(g.sent_sequence) > known)
}

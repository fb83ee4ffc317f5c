//! A disk that keeps what a journal keeps, with the guards of the file, and fails when it is told to.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use eh_contract::Stamp;
use eh_executor::{Journal, JournalFailure, RecordKind, Write};
use eh_ledger::executor::{ExecutorRecord, GoalId};

#[derive(Default)]
pub struct Disk {
    pub records: BTreeMap<String, ExecutorRecord>,
    /// Everything that was written, in order.
    pub written: Vec<(String, RecordKind)>,
    pub notes: BTreeMap<String, String>,
    /// What can't be written.
    pub fails_at: BTreeSet<RecordKind>,
    pub notes_fail: bool,
    pub reads_fail: bool,
    /// From this many writes on nothing is written any more: the process has died.
    pub dies_after: Option<usize>,
    /// It would have been written.
    pub died: bool,
    goals: RefCell<BTreeMap<GoalId, (String, String)>>,
}

impl Disk {
    pub fn is_full(&self) -> bool {
        self.dies_after.is_some_and(|n| self.written.len() >= n)
    }

    pub fn live(&self) -> Vec<ExecutorRecord> {
        let mut live: Vec<_> = self.records.values().cloned().collect();
        live.retain(|r| !r.is_terminal());
        live
    }

    pub fn settled(&self) -> Vec<ExecutorRecord> {
        let mut settled: Vec<_> = self.records.values().cloned().collect();
        settled.retain(ExecutorRecord::is_terminal);
        settled
    }

    pub fn newest_token(&self) -> u64 {
        let tokens = self.records.values().map(|r| r.fencing_token);
        tokens.max().unwrap_or(0)
    }

    pub fn kinds(&self, command_id: &str) -> Vec<&'static str> {
        let of = self.written.iter().filter(|(id, _)| id == command_id);
        of.map(|(_, kind)| kind.name()).collect()
    }
}

impl Journal for Disk {
    fn append(
        &mut self,
        record: &ExecutorRecord,
        kind: RecordKind,
        details: &str,
        _: Stamp,
    ) -> Result<(), JournalFailure> {
        self.died |= self.is_full();
        if self.died || self.fails_at.contains(&kind) {
            return Err(JournalFailure("the disk is full".into()));
        }
        let details: serde_json::Value = serde_json::from_str(details).unwrap();
        assert!(details.is_object(), "{details}");
        let id = record.command.command_id.clone();
        if let Some(old) = self.records.get(&id) {
            assert!(old.sequence < record.sequence, "sequences only grow");
            assert!(!old.is_terminal(), "what is terminal never changes");
        } else {
            assert_eq!(kind, RecordKind::Received);
        }
        for goal in &record.sub_goals {
            let owner = (id.clone(), goal.name.clone());
            let mut goals = self.goals.borrow_mut();
            let known = goals.entry(goal.goal_id).or_insert_with(|| owner.clone());
            assert_eq!(known, &owner, "a UUID has one owner");
        }
        self.records.insert(id.clone(), record.clone());
        self.written.push((id, kind));
        Ok(())
    }

    fn append_all(&mut self, writes: &[Write]) -> Result<(), JournalFailure> {
        let left = self
            .dies_after
            .map_or(usize::MAX, |n| n.saturating_sub(self.written.len()));
        self.died |= left < writes.len();
        if self.died || writes.iter().any(|w| self.fails_at.contains(&w.kind)) {
            return Err(JournalFailure("the disk is full".into()));
        }
        for w in writes {
            self.append(&w.record, w.kind, &w.details, w.now)?;
        }
        Ok(())
    }

    fn get(&self, command_id: &str) -> Result<Option<ExecutorRecord>, JournalFailure> {
        if self.reads_fail {
            return Err(JournalFailure("the disk is broken".into()));
        }
        Ok(self.records.get(command_id).cloned())
    }

    fn set_note(&mut self, name: &'static str, value: &str) -> Result<(), JournalFailure> {
        if self.died || self.notes_fail {
            return Err(JournalFailure("the disk is full".into()));
        }
        self.notes.insert(name.into(), value.into());
        Ok(())
    }
}

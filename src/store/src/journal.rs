//! The executor's journal: what it was told, what it sent, and how that ended.
//!
//! One file an executor, beside the robot. [`ExecutorJournal::append`] returns after the commit: only
//! then may the effects of the new record be performed. The file itself refuses a UUID and a sub-goal
//! that were written before, and its events are a [chain](crate::chain).

mod check;
mod entry;
mod retention;
mod schema;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::Path;

use eh_contract::Stamp;
use eh_ledger::executor::{format_goal_id, ExecutorRecord};
use rusqlite::{params, Connection, OptionalExtension};

use crate::chain::{Chain, ChainHead, Link};
use crate::db::{Access, Database};
use crate::error::StoreError;

use entry::whole;

pub use check::Verified;
pub use entry::JournalEntry;
pub use retention::{Compacted, Retention};
pub use schema::SCHEMA;

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalEvent {
    /// Counts the events of the command from 1.
    pub sequence: u64,
    /// ROS time.
    pub stamp: Stamp,
    /// What happened.
    pub kind: String,
    /// One JSON object.
    pub details: String,
}

/// The open journal. It belongs to one process.
#[derive(Debug)]
pub struct ExecutorJournal {
    database: Database,
    chain: Chain,
    newest_token: i64,
    /// What the file says of commands that are live, so that it is not asked before each event. Nobody else
    /// writes the file while it is open.
    live: HashMap<String, Known>,
    retention: Retention,
    /// The newest event when room was made last.
    room_made_at: i64,
}

impl ExecutorJournal {
    /// Opens the journal of an executor, alone. Takes the same time however many events it holds; the end
    /// of the chain and what it says of the commands is checked, all of it by [`ExecutorJournal::verify`].
    ///
    /// # Errors
    /// [`StoreError`], [`StoreError::Busy`] when another process has it, [`StoreError::Broken`] when
    /// something was cut off or changed at its end.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::prepare(Database::open(path, &SCHEMA, Access::Exclusive)?)
    }

    /// An empty journal that lives as long as the value, for tests.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn in_memory() -> Result<Self, StoreError> {
        Self::prepare(Database::in_memory(&SCHEMA)?)
    }

    fn prepare(database: Database) -> Result<Self, StoreError> {
        let mut journal = ExecutorJournal {
            database,
            chain: Chain::new("events", "dropped_events"),
            newest_token: 0,
            live: HashMap::new(),
            retention: Retention::default(),
            room_made_at: 0,
        };
        let read = |journal: &mut Self| -> Result<(), rusqlite::Error> {
            journal.chain.load(journal.database.connection())?;
            journal.newest_token = journal
                .database
                .connection()
                .query_row(
                    "SELECT number FROM facts WHERE name = 'newest_token'",
                    [],
                    |row| row.get(0),
                )
                .optional()?
                .unwrap_or(0);
            Ok(())
        };
        read(&mut journal).map_err(|e| journal.database.error("reading the journal", &e))?;
        journal.room_made_at = journal.chain.head.id;
        journal.check_end()?;
        Ok(journal)
    }

    /// Writes a record as it is after an event. Durable when this returns.
    ///
    /// # Errors
    /// [`StoreError::Duplicate`] for a sequence, a UUID or a sub-goal that is there already, and for a
    /// command that is settled; else why it can't be written. Nothing of it is kept then, and nothing of
    /// it may be performed.
    pub fn append(
        &mut self,
        record: &ExecutorRecord,
        kind: &str,
        details: &str,
        now: Stamp,
    ) -> Result<(), StoreError> {
        let entry = JournalEntry::borrowed(record, kind, details, now).map_err(|e| {
            self.database
                .bad_record(format!("command {}", record.command.command_id), e)
        })?;
        self.append_batch(std::slice::from_ref(&entry))
            .pop()
            .unwrap_or(Ok(()))
    }

    /// Writes several records in their order with one transaction, and with that one wait for the disk.
    /// Gives an outcome for each; those that are Ok are durable when this returns. One that is refused as
    /// [`StoreError::Duplicate`] does not hold up the others; when the disk refuses, none is kept.
    pub fn append_batch(&mut self, entries: &[JournalEntry<'_>]) -> Vec<Result<(), StoreError>> {
        let mut refused = Vec::with_capacity(entries.len());
        let written = self.write_entries(entries, |conflict| {
            refused.push(conflict);
            true
        });
        refused.resize(entries.len(), None);
        refused
            .into_iter()
            .map(|what| match what {
                Some(what) => Err(self.duplicate(what)),
                None => written.clone(),
            })
            .collect()
    }

    /// Writes several records in their order with one transaction, all or none. Durable when this returns.
    ///
    /// # Errors
    /// As [`ExecutorJournal::append`], for the first that can't be written.
    pub fn append_all(&mut self, entries: &[JournalEntry<'_>]) -> Result<(), StoreError> {
        if entries.is_empty() {
            return Ok(());
        }
        let mut refused = None;
        let written = self.write_entries(entries, |conflict| {
            refused = conflict;
            refused.is_none()
        });
        match refused {
            Some(what) => Err(self.duplicate(what)),
            None => written,
        }
    }

    fn duplicate(&self, what: String) -> StoreError {
        StoreError::Duplicate {
            path: self.database.path().to_path_buf(),
            what,
        }
    }

    /// Writes entries that are in no conflict; `goes_on` is told of each what conflicts, and says whether
    /// the others are written: if not, none is.
    fn write_entries(
        &mut self,
        entries: &[JournalEntry<'_>],
        mut goes_on: impl FnMut(Option<String>) -> bool,
    ) -> Result<(), StoreError> {
        let mut head = self.chain.head;
        let mut token = self.newest_token;
        let chain = &self.chain;
        let live = &self.live;
        let mut changed: HashMap<&str, Known> = HashMap::new();
        let written = self.database.write("writing the journal", |t| {
            for entry in entries {
                let id = entry.id();
                let known = match changed.get(id).or_else(|| live.get(id)) {
                    Some(known) => Some(known.clone()),
                    None => Known::of(t, id)?,
                };
                let conflict = conflict(t, entry, known.as_ref())?;
                if conflict.is_none() {
                    let now = write(t, chain, &mut head, entry, known)?;
                    changed.insert(id, now);
                    if entry.token() > token {
                        token = entry.token();
                        t.prepare_cached(
                            "INSERT INTO facts (name, number) VALUES ('newest_token', ?1)
                             ON CONFLICT (name) DO UPDATE SET number = excluded.number",
                        )?
                        .execute([token])?;
                    }
                }
                if !goes_on(conflict) {
                    // Takes the transaction back; the caller knows why.
                    return Err(rusqlite::Error::ExecuteReturnedResults);
                }
            }
            Ok(())
        });
        if written.is_ok() {
            self.chain.head = head;
            self.newest_token = token;
            if self.live.len() > KNOWN {
                self.live.clear();
            }
            for (id, known) in changed {
                if known.live {
                    self.live.insert(id.to_owned(), known);
                } else {
                    self.live.remove(id);
                }
            }
            // A command that is over is the moment to make room: nothing waits for it in order to move.
            if let Some(last) = entries.iter().rev().find(|e| !e.live()) {
                self.make_room(last.now());
            }
        } else {
            // Whatever became of it, the file is asked next time.
            for entry in entries {
                self.live.remove(entry.id());
            }
        }
        written
    }

    /// The newest event: a copy of it in another place shows whether the file was put back to an older
    /// state or made anew.
    pub fn head(&self) -> ChainHead {
        self.chain.head
    }

    /// The record of a command.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn get(&self, command_id: &str) -> Result<Option<ExecutorRecord>, StoreError> {
        let found = self.list(
            "SELECT record, text FROM commands LEFT JOIN command_texts USING (number)
             WHERE command_id = ?1",
            params![command_id],
        )?;
        Ok(found.into_iter().next())
    }

    /// Every command that is neither settled nor rejected, the one that changed longest ago first.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn live(&self) -> Result<Vec<ExecutorRecord>, StoreError> {
        self.list(
            "SELECT record, text FROM commands LEFT JOIN command_texts USING (number)
             WHERE live = 1 ORDER BY last_event",
            params![],
        )
    }

    /// The last settled or rejected commands, newest first.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn last_settled(&self, count: u32) -> Result<Vec<ExecutorRecord>, StoreError> {
        self.list(
            "SELECT record, text FROM commands LEFT JOIN command_texts USING (number)
             WHERE live = 0 ORDER BY last_event DESC LIMIT ?1",
            params![count],
        )
    }

    /// The newest fencing token under which a command ever came.
    ///
    /// # Errors
    /// None any more; it is known since the file was opened.
    pub fn newest_token(&self) -> Result<u64, StoreError> {
        Ok(u64::try_from(self.newest_token).unwrap_or(0))
    }

    /// The events of a command in order; those that were dropped for their age are missing at the front.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn events(&self, command_id: &str) -> Result<Vec<JournalEvent>, StoreError> {
        let read = || -> Result<Vec<JournalEvent>, rusqlite::Error> {
            let connection = self.database.connection();
            let mut next: Option<i64> = connection
                .query_row(
                    "SELECT last_event FROM commands WHERE command_id = ?1",
                    [command_id],
                    |row| row.get(0),
                )
                .optional()?;
            let mut statement = connection.prepare_cached(
                "SELECT sequence, stamp, kind, details, previous FROM events
                 WHERE id = ?1 AND subject = ?2",
            )?;
            let mut events = Vec::new();
            while let Some(id) = next {
                let found = statement
                    .query_row(params![id, command_id], |row| {
                        let event = JournalEvent {
                            sequence: u64::try_from(row.get::<_, i64>(0)?).unwrap_or(0),
                            stamp: Stamp(row.get(1)?),
                            kind: row.get(2)?,
                            details: row.get(3)?,
                        };
                        Ok((event, row.get::<_, i64>(4)?))
                    })
                    .optional()?;
                let Some((event, previous)) = found else {
                    break;
                };
                events.push(event);
                // Ids only grow; anything else would never end.
                next = Some(previous).filter(|p| *p < id);
            }
            events.reverse();
            Ok(events)
        };
        read().map_err(|e| self.database.error("reading the journal", &e))
    }

    /// Keeps something of the executor itself, such as how it holds what it holds.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn set_note(&mut self, name: &str, value: &str) -> Result<(), StoreError> {
        self.database.write("writing a note", |t| {
            t.execute(
                "INSERT INTO notes (name, value) VALUES (?1, ?2)
                 ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                params![name, value],
            )
            .map(|_| ())
        })
    }

    /// What was kept; `None` where nothing was.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn note(&self, name: &str) -> Result<Option<String>, StoreError> {
        self.database
            .connection()
            .query_row("SELECT value FROM notes WHERE name = ?1", [name], |row| {
                row.get(0)
            })
            .optional()
            .map_err(|e| self.database.error("reading a note", &e))
    }

    fn list(
        &self,
        sql: &str,
        parameters: &[&dyn rusqlite::ToSql],
    ) -> Result<Vec<ExecutorRecord>, StoreError> {
        let db = &self.database;
        let error = |e: rusqlite::Error| db.error("reading the journal", &e);
        let mut statement = db.connection().prepare(sql).map_err(error)?;
        let mut rows = statement.query(parameters).map_err(error)?;
        let mut records = Vec::new();
        while let Some(row) = rows.next().map_err(error)? {
            let text = row.get_ref(0).map_err(error)?;
            let command = row.get_ref(1).map_err(error)?;
            let record = text
                .as_str()
                .and_then(|text| Ok((text, command.as_str_or_null()?)))
                .map_err(|e| db.bad_record("a command", e))
                .and_then(|(text, command)| {
                    whole(text, command).map_err(|e| db.bad_record("a command", e))
                })?;
            records.push(record);
        }
        Ok(records)
    }
}

/// Live commands that the file is not asked about at most; far more than an executor has.
const KNOWN: usize = 4096;

/// What the file knows of a command already.
#[derive(Clone, Debug)]
struct Known {
    number: i64,
    digest: String,
    live: bool,
    sequence: i64,
    last_event: i64,
    /// Whether the command's text stands by itself.
    text: bool,
}

impl Known {
    fn of(t: &Connection, command_id: &str) -> Result<Option<Self>, rusqlite::Error> {
        t.prepare_cached(
            "SELECT number, digest, live, sequence, last_event,
                 EXISTS (SELECT 1 FROM command_texts x WHERE x.number = c.number)
             FROM commands c WHERE command_id = ?1",
        )?
        .query_row([command_id], |row| {
            Ok(Known {
                number: row.get(0)?,
                digest: row.get(1)?,
                live: row.get(2)?,
                sequence: row.get(3)?,
                last_event: row.get(4)?,
                text: row.get(5)?,
            })
        })
        .optional()
    }
}

/// What of an entry is there already; `None`: nothing, it may be written.
fn conflict(
    t: &Connection,
    entry: &JournalEntry<'_>,
    known: Option<&Known>,
) -> Result<Option<String>, rusqlite::Error> {
    let id = entry.id();
    if let Some(known) = known {
        if known.digest != entry.record().digest {
            return Ok(Some(format!("command {id} with another digest")));
        }
        if known.sequence >= entry.sequence() {
            return Ok(Some(format!(
                "event {} of command {id}",
                entry.record().sequence
            )));
        }
        if !known.live {
            return Ok(Some(format!("the end of command {id}")));
        }
    }
    for (i, goal) in entry.new_goals(known.map_or(0, |k| k.sequence)).enumerate() {
        let (owner, taken): (bool, bool) = t
            .prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM sub_goals WHERE goal_id = ?1), EXISTS (SELECT 1
                 FROM sub_goals WHERE command_id = ?2 AND segment = ?3 AND name = ?4)",
            )?
            .query_row(
                params![goal.goal_id.as_slice(), id, goal.segment, goal.name],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )?;
        let twin = |other: &&eh_ledger::executor::SubGoalRecord| {
            other.goal_id == goal.goal_id
                || (other.segment == goal.segment && other.name == goal.name)
        };
        let inside = entry
            .new_goals(known.map_or(0, |k| k.sequence))
            .take(i)
            .any(|g| twin(&g));
        if owner || inside {
            return Ok(Some(format!("goal {}", format_goal_id(&goal.goal_id))));
        }
        if taken {
            return Ok(Some(format!("sub-goal {} of command {id}", goal.name)));
        }
    }
    Ok(None)
}

/// Writes everything of one event that conflicts with nothing, and gives what the file knows of the command
/// then.
///
/// It changes as few pages as can be: one of the events, one of the commands. Indices change only when a
/// command comes or goes, and the table of goals only when one is sent.
fn write(
    t: &Connection,
    chain: &Chain,
    head: &mut ChainHead,
    entry: &JournalEntry<'_>,
    known: Option<Known>,
) -> Result<Known, rusqlite::Error> {
    let link = Link {
        subject: entry.id(),
        sequence: entry.sequence(),
        stamp: entry.now().0,
        kind: entry.kind(),
        details: entry.details(),
        record_hash: entry.record_hash(),
        previous: known.as_ref().map_or(0, |k| k.last_event),
    };
    *head = chain.add(t, head, &link)?;
    let state = entry.record().state.to_wire();
    let before = known.as_ref().map_or(0, |k| k.sequence);
    let mut now = match known {
        None => {
            t.prepare_cached(
                "INSERT INTO commands (command_id, digest, state, live, sequence, last_event,
                     updated_at, record_hash, record)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?
            .execute(params![
                entry.id(),
                entry.record().digest,
                state,
                entry.live(),
                entry.sequence(),
                head.id,
                entry.now().0,
                entry.record_hash(),
                entry.text(),
            ])?;
            Known {
                number: t.last_insert_rowid(),
                digest: entry.record().digest.clone(),
                live: true,
                sequence: 0,
                last_event: 0,
                text: false,
            }
        }
        Some(known) => {
            t.prepare_cached(if entry.live() {
                "UPDATE commands SET state = ?2, sequence = ?3, last_event = ?4, updated_at = ?5,
                     record_hash = ?6, record = ?7 WHERE number = ?1"
            } else {
                "UPDATE commands SET state = ?2, sequence = ?3, last_event = ?4, updated_at = ?5,
                     record_hash = ?6, record = ?7, live = 0 WHERE number = ?1"
            })?
            .execute(params![
                known.number,
                state,
                entry.sequence(),
                head.id,
                entry.now().0,
                entry.record_hash(),
                entry.text(),
            ])?;
            known
        }
    };
    if !now.text {
        let text = entry
            .command_text()
            .map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))?;
        t.prepare_cached("INSERT INTO command_texts (number, text) VALUES (?1, ?2)")?
            .execute(params![now.number, text])?;
        now.text = true;
    }
    for goal in entry.new_goals(before) {
        t.prepare_cached(
            "INSERT INTO sub_goals (goal_id, command_id, segment, name, action_name)
             VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![
            goal.goal_id.as_slice(),
            entry.id(),
            goal.segment,
            goal.name,
            goal.action_name
        ])?;
    }
    now.sequence = entry.sequence();
    now.last_event = head.id;
    now.live = entry.live();
    Ok(now)
}

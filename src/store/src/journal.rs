//! The executor's journal: what it was told, what it sent, and how that ended.
//!
//! One file an executor, beside the robot. [`ExecutorJournal::append`] returns after the commit: only
//! then may the effects of the new record be performed. The file itself refuses a UUID and a sub-goal
//! that were written before, and its events are a [chain](crate::chain). An event has the record that it left
//! behind in its row; the tables of commands and goals follow (`unfolded`).

mod check;
mod entry;
mod retention;
mod schema;
#[cfg(test)]
mod tests;
mod unfolded;

use std::collections::HashMap;
use std::path::Path;

use eh_contract::Stamp;
use eh_ledger::executor::{format_goal_id, ExecutorRecord};
use rusqlite::types::FromSqlError;
use rusqlite::{params, Connection, OptionalExtension};

use crate::chain::{Chain, ChainHead, Link};
use crate::db::{Access, Database};
use crate::error::StoreError;

use entry::{new_goals, whole};
use unfolded::{Behind, Known, Left, Unfolded, Unreadable};

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
    /// What the tables of commands and goals lack.
    unfolded: Unfolded,
    /// Up to which event SQLite's log was copied into the file.
    copied_to: i64,
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
            chain: Chain::with_records("events", "dropped_events"),
            newest_token: 0,
            live: HashMap::new(),
            unfolded: Unfolded::default(),
            copied_to: 0,
            retention: Retention::default(),
            room_made_at: 0,
        };
        let read = |journal: &mut Self| -> Result<(), rusqlite::Error> {
            let connection = journal.database.connection();
            connection.pragma_update(None, "wal_autocheckpoint", 0)?;
            journal.chain.load(connection)?;
            let fact = |name: &str| {
                connection
                    .query_row("SELECT number FROM facts WHERE name = ?1", [name], |row| {
                        row.get(0)
                    })
                    .optional()
                    .map(|number| number.unwrap_or(0))
            };
            journal.newest_token = fact("newest_token")?;
            journal.unfolded.folded_to = fact("folded_to")?;
            Ok(())
        };
        read(&mut journal).map_err(|e| journal.database.error("reading the journal", &e))?;
        journal.room_made_at = journal.chain.head.id;
        journal.copied_to = journal.chain.head.id;
        journal.check_end()?;
        let read_back = journal.unfolded.read_back(journal.database.connection());
        match read_back {
            Ok(token) => journal.newest_token = journal.newest_token.max(token),
            Err(Unreadable::Sql(e)) => {
                return Err(journal.database.error("reading the journal", &e))
            }
            Err(Unreadable::Broken(found)) => return Err(journal.broken(found)),
        }
        journal.fold()?;
        Ok(journal)
    }

    /// Gives the tables of commands and goals what they lack. Durable when this returns.
    fn fold(&mut self) -> Result<(), StoreError> {
        if self.unfolded.is_empty() {
            return Ok(());
        }
        let head = self.chain.head.id;
        let unfolded = &self.unfolded;
        self.database
            .write("bringing the tables up to date", |t| unfolded.fold(t, head))?;
        self.unfolded.folded(head);
        // The file itself never has events that its tables do not know of, unless it is being closed by a
        // crash: what is lost at its end shows.
        if head >= self.copied_to.saturating_add(COPY_AT) && self.database.copy_log().is_ok() {
            self.copied_to = head;
        }
        Ok(())
    }

    /// How many events the tables lack.
    fn behind(&self) -> i64 {
        self.chain.head.id.saturating_sub(self.unfolded.folded_to)
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
        if self.behind() >= FOLD_BEFORE {
            self.fold()?;
        }
        let mut head = self.chain.head;
        let mut token = self.newest_token;
        let chain = &self.chain;
        let live = &self.live;
        let unfolded = &self.unfolded;
        let mut changed: HashMap<&str, Known> = HashMap::new();
        let mut news = Unfolded::default();
        let written = self.database.write("writing the journal", |t| {
            for entry in entries {
                let id = entry.id();
                let known = match changed.get(id).or_else(|| live.get(id)) {
                    Some(known) => Some(known.clone()),
                    None => match unfolded.known(id) {
                        Some(known) => Some(known),
                        None => Known::of(t, id)?,
                    },
                };
                let conflict = conflict(t, entry, known.as_ref(), [unfolded, &news])?;
                if conflict.is_none() {
                    let (now, behind) = write(t, chain, &mut head, entry, known.as_ref())?;
                    news.add(id, behind);
                    changed.insert(id, now);
                    token = token.max(entry.token());
                }
                if !goes_on(conflict) {
                    // Takes the transaction back; the caller knows why.
                    return Err(rusqlite::Error::ExecuteReturnedResults);
                }
            }
            if token > self.newest_token {
                t.prepare_cached(
                    "INSERT INTO facts (name, number) VALUES ('newest_token', ?1)
                     ON CONFLICT (name) DO UPDATE SET number = excluded.number",
                )?
                .execute([token])?;
            }
            Ok(())
        });
        if written.is_ok() {
            self.chain.head = head;
            self.newest_token = token;
            self.unfolded.take(news);
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
            // A command that is over is the moment to tidy up: nothing waits for it in order to move.
            if let Some(last) = entries.iter().rev().find(|e| !e.live()) {
                self.tidy(last.now());
            }
        } else {
            // Whatever became of it, the file is asked next time.
            for entry in entries {
                self.live.remove(entry.id());
            }
        }
        written
    }

    /// Folds and makes room where it is time. What can't be done now is done later; what was written is
    /// durable all the same.
    fn tidy(&mut self, now: Stamp) {
        if self.behind() >= FOLD_AT {
            let _ = self.fold();
        }
        self.make_room(now);
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
        let error = |e: rusqlite::Error| self.database.error("reading the journal", &e);
        let connection = self.database.connection();
        if let Some(record) = self.unfolded.read(connection, command_id) {
            return record.map(Some).map_err(error);
        }
        let found = self.list(
            "SELECT last_event, command_id, record, text
             FROM commands LEFT JOIN command_texts USING (number) WHERE command_id = ?1",
            params![command_id],
        )?;
        Ok(found.into_iter().next().map(|(_, record)| record))
    }

    /// Every command that is neither settled nor rejected, the one that changed longest ago first.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn live(&self) -> Result<Vec<ExecutorRecord>, StoreError> {
        let mut found = self.list(
            "SELECT last_event, command_id, record, text
             FROM commands LEFT JOIN command_texts USING (number) WHERE live = 1",
            params![],
        )?;
        self.list_unfolded(true, &mut found)?;
        found.sort_by_key(|(event, _)| *event);
        Ok(found.into_iter().map(|(_, record)| record).collect())
    }

    /// The last settled or rejected commands, newest first.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn last_settled(&self, count: u32) -> Result<Vec<ExecutorRecord>, StoreError> {
        let mut found = self.list(
            "SELECT last_event, command_id, record, text
             FROM commands LEFT JOIN command_texts USING (number)
             WHERE live = 0 ORDER BY last_event DESC LIMIT ?1",
            params![count],
        )?;
        self.list_unfolded(false, &mut found)?;
        found.sort_by_key(|(event, _)| std::cmp::Reverse(*event));
        found.truncate(usize::try_from(count).unwrap_or(usize::MAX));
        Ok(found.into_iter().map(|(_, record)| record).collect())
    }

    /// Adds the commands that the tables do not have as they are now.
    fn list_unfolded(&self, live: bool, found: &mut Vec<Found>) -> Result<(), StoreError> {
        let error = |e: rusqlite::Error| self.database.error("reading the journal", &e);
        let connection = self.database.connection();
        for (id, behind) in self.unfolded.all().filter(|(_, b)| b.live == live) {
            if let Some(record) = self.unfolded.read(connection, id) {
                found.push((behind.last_event, record.map_err(error)?));
            }
        }
        Ok(())
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
            let mut next: Option<i64> = match self.unfolded.get(command_id) {
                Some(behind) => Some(behind.last_event),
                None => connection
                    .query_row(
                        "SELECT last_event FROM commands WHERE command_id = ?1",
                        [command_id],
                        |row| row.get(0),
                    )
                    .optional()?,
            };
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

    /// Commands of the file that nothing newer is known of.
    fn list(
        &self,
        sql: &str,
        parameters: &[&dyn rusqlite::ToSql],
    ) -> Result<Vec<Found>, StoreError> {
        let db = &self.database;
        let error = |e: rusqlite::Error| db.error("reading the journal", &e);
        let mut statement = db.connection().prepare_cached(sql).map_err(error)?;
        let mut rows = statement.query(parameters).map_err(error)?;
        let mut records = Vec::new();
        while let Some(row) = rows.next().map_err(error)? {
            let event: i64 = row.get(0).map_err(error)?;
            let id = row.get_ref(1).map_err(error)?;
            let text = row.get_ref(2).map_err(error)?;
            let command = row.get_ref(3).map_err(error)?;
            let read = || Ok((id.as_str()?, text.as_str()?, command.as_str_or_null()?));
            let (id, text, command) =
                read().map_err(|e: FromSqlError| db.bad_record("a command", e))?;
            if self.unfolded.get(id).is_some() {
                continue;
            }
            let record = whole(text, command).map_err(|e| db.bad_record("a command", e))?;
            records.push((event, record));
        }
        Ok(records)
    }
}

impl Drop for ExecutorJournal {
    fn drop(&mut self) {
        // What can't be folded now is read back when the file is opened.
        let _ = self.fold();
    }
}

/// A record and the event that left it.
type Found = (i64, ExecutorRecord);

/// Live commands that the file is not asked about at most; far more than an executor has.
const KNOWN: usize = 4096;

/// The other tables follow the events at the end of a command when they lack this many ...
const FOLD_AT: i64 = 128;
/// ... and before the next event when they lack this many.
const FOLD_BEFORE: i64 = 256;
/// The log is copied into the file with each fold after so many events, about as often as SQLite does it.
const COPY_AT: i64 = 512;

/// What of an entry is there already; `None`: nothing, it may be written.
fn conflict(
    t: &Connection,
    entry: &JournalEntry<'_>,
    known: Option<&Known>,
    unfolded: [&Unfolded; 2],
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
    let since = known.map_or(0, |k| k.sequence);
    for (i, goal) in new_goals(entry.record(), since).enumerate() {
        let (owner, taken): (bool, bool) = t
            .prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM sub_goals WHERE goal_id = ?1), EXISTS (SELECT 1
                 FROM sub_goals WHERE command_id = ?2 AND segment = ?3 AND name = ?4)",
            )?
            .query_row(
                params![goal.goal_id.as_slice(), id, goal.segment, goal.name],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )?;
        let owner = owner || unfolded.iter().any(|u| u.has_goal(&goal.goal_id));
        let named = |u: &&Unfolded| u.has_name(id, goal.segment, &goal.name);
        let taken = taken || unfolded.iter().any(named);
        let twin = |other: &&eh_ledger::executor::SubGoalRecord| {
            other.goal_id == goal.goal_id
                || (other.segment == goal.segment && other.name == goal.name)
        };
        let inside = new_goals(entry.record(), since).take(i).any(|g| twin(&g));
        if owner || inside {
            return Ok(Some(format!("goal {}", format_goal_id(&goal.goal_id))));
        }
        if taken {
            return Ok(Some(format!("sub-goal {} of command {id}", goal.name)));
        }
    }
    Ok(None)
}

/// Writes one event that conflicts with nothing, with the record that it leaves, and gives what is known of
/// the command then and what the other tables lack.
fn write(
    t: &Connection,
    chain: &Chain,
    head: &mut ChainHead,
    entry: &JournalEntry<'_>,
    known: Option<&Known>,
) -> Result<(Known, Behind), rusqlite::Error> {
    let command = match known {
        Some(known) if known.text => None,
        // It never changes, so the first event has it.
        Some(_) | None => Some(serde_json::to_string(&entry.record().command))
            .transpose()
            .map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))?,
    };
    let link = Link {
        subject: entry.id(),
        sequence: entry.sequence(),
        stamp: entry.now().0,
        kind: entry.kind(),
        details: entry.details(),
        record_hash: &entry.record_hash(),
        previous: known.map_or(0, |k| k.last_event),
    };
    *head = chain.add_with(t, head, &link, entry.packed(), command.as_deref())?;
    let left = Left {
        record: entry.record(),
        packed: entry.packed(),
        command,
        event: head.id,
        now: entry.now(),
    };
    Ok((
        left.known(),
        Behind::of(left, known.map_or(0, |k| k.sequence)),
    ))
}

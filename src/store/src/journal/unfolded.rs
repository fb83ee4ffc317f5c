//! What the newest events left behind, before the tables of commands and goals know it.
//!
//! An event and the record that it left are one row at the end of one table, so a commit writes one page as
//! a rule. The other tables follow with the next fold: after some events, when a command ends, and when
//! the file is opened or closed. Until then what they lack is in memory, and after a crash it is read from
//! the events again, held by their chain.

use std::collections::BTreeMap;

use eh_contract::Stamp;
use eh_ledger::executor::{ExecutorRecord, GoalId};
use rusqlite::types::Type;
use rusqlite::{params, Connection, OptionalExtension};

use super::entry::{new_goals, text, unpack};
use crate::chain::{hash_of, Break};
use crate::harness::to_sql;

type Sql<T> = Result<T, rusqlite::Error>;

/// A goal that the table of goals does not have yet.
#[derive(Clone, Debug)]
struct Goal {
    goal_id: GoalId,
    segment: u32,
    name: String,
    action_name: String,
}

/// What the tables lack of one command.
#[derive(Clone, Debug)]
pub(super) struct Behind {
    digest: String,
    state: u8,
    pub(super) live: bool,
    sequence: i64,
    pub(super) last_event: i64,
    updated_at: i64,
    packed: Vec<u8>,
    /// The command's own text, when the table of them has none.
    command: Option<String>,
    goals: Vec<Goal>,
}

/// What is known of a command before its next event.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) digest: String,
    pub(super) live: bool,
    pub(super) sequence: i64,
    pub(super) last_event: i64,
    /// Whether the command's text stands by itself, in the file or on its way there.
    pub(super) text: bool,
}

impl Known {
    /// What the file says; `None`: it has never heard of the command.
    pub(super) fn of(t: &Connection, command_id: &str) -> Sql<Option<Self>> {
        t.prepare_cached(
            "SELECT digest, live, sequence, last_event,
                 EXISTS (SELECT 1 FROM command_texts x WHERE x.number = c.number)
             FROM commands c WHERE command_id = ?1",
        )?
        .query_row([command_id], |row| {
            Ok(Known {
                digest: row.get(0)?,
                live: row.get(1)?,
                sequence: row.get(2)?,
                last_event: row.get(3)?,
                text: row.get(4)?,
            })
        })
        .optional()
    }
}

/// A record as one event left it.
pub(super) struct Left<'a> {
    pub(super) record: &'a ExecutorRecord,
    /// The bytes in the event's row.
    pub(super) packed: &'a [u8],
    /// The command, when its text stands nowhere yet.
    pub(super) command: Option<String>,
    pub(super) event: i64,
    pub(super) now: Stamp,
}

impl Left<'_> {
    /// What is known of the command then.
    pub(super) fn known(&self) -> Known {
        Known {
            digest: self.record.digest.clone(),
            live: !self.record.is_terminal(),
            sequence: to_sql(self.record.sequence),
            last_event: self.event,
            text: true,
        }
    }
}

impl Behind {
    /// What an event adds to what was known up to the command's event number `before`.
    pub(super) fn of(left: Left<'_>, before: i64) -> Self {
        let record = left.record;
        let goals = new_goals(record, before)
            .map(|goal| Goal {
                goal_id: goal.goal_id,
                segment: goal.segment,
                name: goal.name.clone(),
                action_name: goal.action_name.clone(),
            })
            .collect();
        Behind {
            digest: record.digest.clone(),
            state: record.state.to_wire(),
            live: !record.is_terminal(),
            sequence: to_sql(record.sequence),
            last_event: left.event,
            updated_at: left.now.0,
            packed: left.packed.to_vec(),
            command: left.command,
            goals,
        }
    }

    /// The record, with the command's own text from the table where it is not here.
    fn record(&self, from_table: impl FnOnce() -> Sql<Option<String>>) -> Sql<ExecutorRecord> {
        let here = self.command.clone();
        let command = here.map_or_else(from_table, |text| Ok(Some(text)))?;
        let command = command.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        unpack(&self.packed, &command)
            .map_err(|e| rusqlite::Error::FromSqlConversionFailure(0, Type::Blob, e.into()))
    }

    fn takes_after(self, earlier: Self) -> Self {
        let mut goals = earlier.goals;
        goals.extend(self.goals);
        Behind {
            command: self.command.or(earlier.command),
            goals,
            ..self
        }
    }

    fn has_goal(&self, goal_id: &GoalId) -> bool {
        self.goals.iter().any(|g| g.goal_id == *goal_id)
    }

    fn has_name(&self, segment: u32, name: &str) -> bool {
        self.goals
            .iter()
            .any(|g| g.segment == segment && g.name == name)
    }

    /// It may be there already, when a commit before this one went through without saying so: what is new
    /// was compared with everything that is known before it was accepted.
    fn write(&self, t: &Connection, id: &str) -> Sql<()> {
        let record = self.record(|| text_in_table(t, id))?;
        let text = text(&record).map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))?;
        t.prepare_cached(
            "INSERT INTO commands (command_id, digest, state, live, sequence, last_event,
                 updated_at, record_hash, record)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
             ON CONFLICT (command_id) DO UPDATE SET state = excluded.state,
                 live = excluded.live, sequence = excluded.sequence,
                 last_event = excluded.last_event, updated_at = excluded.updated_at,
                 record_hash = excluded.record_hash, record = excluded.record",
        )?
        .execute(params![
            id,
            self.digest,
            self.state,
            self.live,
            self.sequence,
            self.last_event,
            self.updated_at,
            hash_of(text.as_bytes()).as_slice(),
            text,
        ])?;
        if let Some(text) = &self.command {
            t.prepare_cached(
                "INSERT INTO command_texts (number, text)
                 SELECT number, ?2 FROM commands WHERE command_id = ?1
                 ON CONFLICT DO NOTHING",
            )?
            .execute(params![id, text])?;
        }
        for goal in &self.goals {
            t.prepare_cached(
                "INSERT INTO sub_goals (goal_id, command_id, segment, name, action_name)
                 VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING",
            )?
            .execute(params![
                goal.goal_id.as_slice(),
                id,
                goal.segment,
                goal.name,
                goal.action_name
            ])?;
        }
        Ok(())
    }
}

/// Everything that the tables lack, by command.
#[derive(Debug, Default)]
pub(super) struct Unfolded {
    commands: BTreeMap<String, Behind>,
    /// The newest event that the tables know.
    pub(super) folded_to: i64,
}

/// Why the newest events can't be read back.
pub(super) enum Unreadable {
    Sql(rusqlite::Error),
    /// An event is not what was written.
    Broken(Break),
}

impl From<rusqlite::Error> for Unreadable {
    fn from(error: rusqlite::Error) -> Self {
        Unreadable::Sql(error)
    }
}

impl Unfolded {
    pub(super) fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    pub(super) fn get(&self, command_id: &str) -> Option<&Behind> {
        self.commands.get(command_id)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&String, &Behind)> {
        self.commands.iter()
    }

    /// What is known of a command here.
    pub(super) fn known(&self, command_id: &str) -> Option<Known> {
        self.get(command_id).map(|behind| Known {
            digest: behind.digest.clone(),
            live: behind.live,
            sequence: behind.sequence,
            last_event: behind.last_event,
            text: true,
        })
    }

    /// Takes over what newer events left behind.
    pub(super) fn take(&mut self, newer: Self) {
        for (id, behind) in newer.commands {
            self.add(&id, behind);
        }
    }

    pub(super) fn add(&mut self, id: &str, behind: Behind) {
        let earlier = self.commands.remove(id);
        let behind = match earlier {
            Some(earlier) => behind.takes_after(earlier),
            None => behind,
        };
        self.commands.insert(id.to_owned(), behind);
    }

    /// Whether a goal of this UUID is known here.
    pub(super) fn has_goal(&self, goal_id: &GoalId) -> bool {
        self.commands.values().any(|b| b.has_goal(goal_id))
    }

    /// Whether a command has a sub-goal of this name here.
    pub(super) fn has_name(&self, id: &str, segment: u32, name: &str) -> bool {
        self.get(id).is_some_and(|b| b.has_name(segment, name))
    }

    /// Gives the tables what they lack up to the event `head`.
    pub(super) fn fold(&self, t: &Connection, head: i64) -> Sql<()> {
        let mut all: Vec<_> = self.commands.iter().collect();
        // As if each had been written at once.
        all.sort_by_key(|(_, behind)| behind.last_event);
        for (id, behind) in all {
            behind.write(t, id)?;
        }
        t.prepare_cached(
            "INSERT INTO facts (name, number) VALUES ('folded_to', ?1)
             ON CONFLICT (name) DO UPDATE SET number = excluded.number",
        )?
        .execute([head])
        .map(|_| ())
    }

    /// Takes over that it is durable.
    pub(super) fn folded(&mut self, head: i64) {
        self.commands.clear();
        self.folded_to = head;
    }

    /// Reads back what a process that ended at once had not folded; gives the newest fencing token in it.
    pub(super) fn read_back(&mut self, t: &Connection) -> Result<i64, Unreadable> {
        let mut token = 0;
        let mut statement = t.prepare(
            "SELECT id, subject, stamp, record, record_hash, command FROM events
             WHERE id > ?1 ORDER BY id",
        )?;
        let mut rows = statement.query([self.folded_to])?;
        while let Some(row) = rows.next()? {
            let event: i64 = row.get(0)?;
            let id: String = row.get(1)?;
            let broken = |what: String| Unreadable::Broken(Break { event, what });
            let packed = row.get_ref(3)?.as_blob_or_null().map_err(from_sql)?;
            let packed = packed.ok_or_else(|| broken("its record is missing".into()))?;
            if row.get_ref(4)?.as_blob().map_err(from_sql)? != hash_of(packed) {
                return Err(broken(format!("the record of command {id} was changed")));
            }
            let command: Option<String> = row.get(5)?;
            let text = match &command {
                Some(text) => Some(text.clone()),
                None => self.own_text(t, &id)?,
            };
            let text = text.ok_or_else(|| broken(format!("command {id} is missing")))?;
            let record = unpack(packed, &text)
                .map_err(|e| broken(format!("the record of command {id} can't be read ({e})")))?;
            if record.command.command_id != id || record.command.digest() != record.digest {
                return Err(broken(format!(
                    "its command is not the {id} that was received"
                )));
            }
            let before = match self.get(&id) {
                Some(behind) => behind.sequence,
                None => Known::of(t, &id)?.map_or(0, |known| known.sequence),
            };
            token = token.max(to_sql(record.fencing_token));
            let left = Left {
                record: &record,
                packed,
                command,
                event,
                now: Stamp(row.get(2)?),
            };
            let behind = Behind::of(left, before);
            self.add(&id, behind);
        }
        Ok(token)
    }

    /// The record of a command that is here.
    pub(super) fn read(&self, t: &Connection, id: &str) -> Option<Sql<ExecutorRecord>> {
        Some(self.get(id)?.record(|| text_in_table(t, id)))
    }

    /// The command's own text.
    fn own_text(&self, t: &Connection, id: &str) -> Sql<Option<String>> {
        match self.get(id).and_then(|behind| behind.command.clone()) {
            Some(text) => Ok(Some(text)),
            None => text_in_table(t, id),
        }
    }
}

fn text_in_table(t: &Connection, id: &str) -> Sql<Option<String>> {
    t.prepare_cached(
        "SELECT text FROM command_texts JOIN commands USING (number) WHERE command_id = ?1",
    )?
    .query_row([id], |row| row.get(0))
    .optional()
}

fn from_sql(error: rusqlite::types::FromSqlError) -> Unreadable {
    Unreadable::Sql(error.into())
}

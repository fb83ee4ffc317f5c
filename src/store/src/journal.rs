//! The executor's journal: what it was told, what it sent, and how that ended.
//!
//! One file an executor, beside the robot. [`ExecutorJournal::append`] returns after the commit: only
//! then may the effects of the new record be performed. The file itself refuses a UUID and a sub-goal
//! that were written before.

use std::path::Path;

use eh_contract::state::ExecutorState;
use eh_contract::Stamp;
use eh_ledger::executor::{format_goal_id, ExecutorRecord};
use rusqlite::{params, OptionalExtension, Transaction};

use crate::db::{Access, Database, Schema};
use crate::error::StoreError;

/// The tables.
pub const SCHEMA: Schema = Schema {
    name: "executor journal",
    // "EHJ" and the kind.
    application_id: 0x4548_4a01,
    migrations: &["
        CREATE TABLE commands (
            command_id TEXT PRIMARY KEY NOT NULL,
            digest TEXT NOT NULL,
            state INTEGER NOT NULL,
            sequence INTEGER NOT NULL,
            fencing_token INTEGER NOT NULL,
            updated_at INTEGER NOT NULL,
            record TEXT NOT NULL
        ) STRICT;
        CREATE INDEX commands_by_state ON commands (state, updated_at);
        CREATE TABLE sub_goals (
            goal_id BLOB PRIMARY KEY NOT NULL,
            command_id TEXT NOT NULL REFERENCES commands (command_id),
            segment INTEGER NOT NULL,
            name TEXT NOT NULL,
            action_name TEXT NOT NULL,
            status INTEGER NOT NULL,
            UNIQUE (command_id, segment, name)
        ) STRICT;
        CREATE TABLE events (
            id INTEGER PRIMARY KEY,
            command_id TEXT NOT NULL REFERENCES commands (command_id),
            sequence INTEGER NOT NULL,
            stamp INTEGER NOT NULL,
            kind TEXT NOT NULL,
            details TEXT NOT NULL,
            UNIQUE (command_id, sequence)
        ) STRICT;
        CREATE TRIGGER events_are_only_added_to BEFORE UPDATE ON events
        BEGIN SELECT raise(ABORT, 'events are only added to'); END;
        CREATE TABLE notes (
            name TEXT PRIMARY KEY NOT NULL,
            value TEXT NOT NULL
        ) STRICT;
    "],
};

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
}

impl ExecutorJournal {
    /// Opens the journal of an executor, alone.
    ///
    /// # Errors
    /// [`StoreError`], [`StoreError::Busy`] when another process has it.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Ok(ExecutorJournal {
            database: Database::open(path, &SCHEMA, Access::Exclusive)?,
        })
    }

    /// An empty journal that lives as long as the value, for tests.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn in_memory() -> Result<Self, StoreError> {
        Ok(ExecutorJournal {
            database: Database::in_memory(&SCHEMA)?,
        })
    }

    /// Writes a record as it is after an event. Durable when this returns.
    ///
    /// # Errors
    /// [`StoreError::Duplicate`] for a sequence, a UUID or a sub-goal that is there already; else why it
    /// can't be written. Nothing of it is kept then, and nothing of it may be performed.
    pub fn append(
        &mut self,
        record: &ExecutorRecord,
        kind: &str,
        details: &str,
        now: Stamp,
    ) -> Result<(), StoreError> {
        let text = serde_json::to_string(record).map_err(|e| {
            self.database
                .bad_record(format!("command {}", record.command.command_id), e)
        })?;
        let mut duplicate = None;
        let written = self.database.write("writing the journal", |t| {
            duplicate = write(t, record, &text, kind, details, now)?;
            match &duplicate {
                // Any error rolls back; what it was stands in `duplicate`.
                Some(_) => Err(rusqlite::Error::QueryReturnedNoRows),
                None => Ok(()),
            }
        });
        match duplicate {
            Some(what) => Err(StoreError::Duplicate {
                path: self.database.path().to_path_buf(),
                what,
            }),
            None => written,
        }
    }

    /// The record of a command.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn get(&self, command_id: &str) -> Result<Option<ExecutorRecord>, StoreError> {
        let text: Option<String> = self
            .database
            .connection()
            .query_row(
                "SELECT record FROM commands WHERE command_id = ?1",
                [command_id],
                |row| row.get(0),
            )
            .optional()
            .map_err(|e| self.database.error("reading the journal", &e))?;
        text.map(|t| self.read(&t)).transpose()
    }

    /// Every command that is neither settled nor rejected, oldest first.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn live(&self) -> Result<Vec<ExecutorRecord>, StoreError> {
        self.list(
            "SELECT record FROM commands WHERE state NOT IN (?1, ?2) ORDER BY updated_at, command_id",
            params![
                ExecutorState::Settled.to_wire(),
                ExecutorState::Rejected.to_wire()
            ],
        )
    }

    /// The last settled or rejected commands, newest first.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn last_settled(&self, count: u32) -> Result<Vec<ExecutorRecord>, StoreError> {
        self.list(
            "SELECT record FROM commands WHERE state IN (?1, ?2) ORDER BY updated_at DESC, command_id LIMIT ?3",
            params![
                ExecutorState::Settled.to_wire(),
                ExecutorState::Rejected.to_wire(),
                count
            ],
        )
    }

    /// The newest fencing token under which a command ever came.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn newest_token(&self) -> Result<u64, StoreError> {
        self.database
            .connection()
            .query_row(
                "SELECT coalesce(max(fencing_token), 0) FROM commands",
                [],
                |row| row.get::<_, i64>(0),
            )
            .map(|v| u64::try_from(v).unwrap_or(0))
            .map_err(|e| self.database.error("reading the journal", &e))
    }

    /// The events of a command in order.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn events(&self, command_id: &str) -> Result<Vec<JournalEvent>, StoreError> {
        let read = || -> Result<Vec<JournalEvent>, rusqlite::Error> {
            let mut statement = self.database.connection().prepare(
                "SELECT sequence, stamp, kind, details FROM events WHERE command_id = ?1 ORDER BY sequence",
            )?;
            let rows = statement.query_map([command_id], |row| {
                Ok(JournalEvent {
                    sequence: u64::try_from(row.get::<_, i64>(0)?).unwrap_or(0),
                    stamp: Stamp(row.get(1)?),
                    kind: row.get(2)?,
                    details: row.get(3)?,
                })
            })?;
            rows.collect()
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
        let read = || -> Result<Vec<String>, rusqlite::Error> {
            let mut statement = self.database.connection().prepare(sql)?;
            let rows = statement.query_map(parameters, |row| row.get(0))?;
            rows.collect()
        };
        read()
            .map_err(|e| self.database.error("reading the journal", &e))?
            .iter()
            .map(|text| self.read(text))
            .collect()
    }

    fn read(&self, text: &str) -> Result<ExecutorRecord, StoreError> {
        serde_json::from_str(text).map_err(|e| self.database.bad_record("a command", e))
    }
}

/// Writes everything of one event; says what is there already, if anything is.
fn write(
    t: &Transaction<'_>,
    record: &ExecutorRecord,
    text: &str,
    kind: &str,
    details: &str,
    now: Stamp,
) -> Result<Option<String>, rusqlite::Error> {
    let id = record.command.command_id.as_str();
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let old: Option<(String, i64)> = t
        .query_row(
            "SELECT digest, sequence FROM commands WHERE command_id = ?1",
            [id],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()?;
    if let Some((digest, sequence)) = &old {
        if digest != &record.digest {
            return Ok(Some(format!("command {id} with another digest")));
        }
        if *sequence >= number(record.sequence) {
            return Ok(Some(format!("event {} of command {id}", record.sequence)));
        }
    }
    t.execute(
        "INSERT INTO commands (command_id, digest, state, sequence, fencing_token, updated_at, record)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT (command_id) DO UPDATE SET
             state = excluded.state, sequence = excluded.sequence,
             updated_at = excluded.updated_at, record = excluded.record",
        params![
            id,
            record.digest,
            record.state.to_wire(),
            number(record.sequence),
            number(record.fencing_token),
            now.0,
            text
        ],
    )?;
    for goal in &record.sub_goals {
        let known: Option<(String, String, i64)> = t
            .query_row(
                "SELECT command_id, name, segment FROM sub_goals WHERE goal_id = ?1",
                [goal.goal_id.as_slice()],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
            )
            .optional()?;
        match known {
            Some((owner, name, segment)) => {
                if owner != id || name != goal.name || segment != i64::from(goal.segment) {
                    return Ok(Some(format!("goal {}", format_goal_id(&goal.goal_id))));
                }
                t.execute(
                    "UPDATE sub_goals SET status = ?2 WHERE goal_id = ?1",
                    params![goal.goal_id.as_slice(), goal.status],
                )?;
            }
            None => {
                let taken: i64 = t.query_row(
                    "SELECT count(*) FROM sub_goals WHERE command_id = ?1 AND segment = ?2 AND name = ?3",
                    params![id, goal.segment, goal.name],
                    |row| row.get(0),
                )?;
                if taken > 0 {
                    return Ok(Some(format!("sub-goal {} of command {id}", goal.name)));
                }
                t.execute(
                    "INSERT INTO sub_goals (goal_id, command_id, segment, name, action_name, status)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                    params![
                        goal.goal_id.as_slice(),
                        id,
                        goal.segment,
                        goal.name,
                        goal.action_name,
                        goal.status
                    ],
                )?;
            }
        }
    }
    t.execute(
        "INSERT INTO events (command_id, sequence, stamp, kind, details) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![id, number(record.sequence), now.0, kind, details],
    )?;
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use eh_contract::command::{SkillCommand, SCHEMA_VERSION};
    use eh_contract::skill::DisconnectPolicy;
    use eh_ledger::executor::{step, ExecutorEvent, FinalState};
    use std::time::Duration;

    fn record(id: &str) -> ExecutorRecord {
        let command = SkillCommand {
            schema_version: SCHEMA_VERSION,
            command_id: id.into(),
            task_id: String::new(),
            robot_id: "robot".into(),
            skill: "wait".into(),
            skill_version: "1.0.0".into(),
            arguments: serde_json::Map::new(),
            targets: vec![],
            preconditions: vec![],
            world_version: 0,
            plan_version: 0,
            start_within: Duration::from_secs(1),
            execution_timeout: Duration::ZERO,
            stop_timeout: Duration::ZERO,
            max_segments: 0,
        };
        ExecutorRecord::received(command, 0, "boot", 9, "/h", Stamp(1))
    }

    /// Applies an event and writes what comes out.
    fn go(journal: &mut ExecutorJournal, record: &mut ExecutorRecord, event: ExecutorEvent) {
        *record = step(record, &event, Stamp(2)).unwrap().record;
        journal
            .append(record, event.name(), "{}", Stamp(record.sequence as i64))
            .unwrap();
    }

    fn accept() -> ExecutorEvent {
        ExecutorEvent::Accept {
            resources: vec!["base".into()],
            disconnect_policy: DisconnectPolicy::Stop,
        }
    }

    fn send(n: u8, name: &str) -> ExecutorEvent {
        ExecutorEvent::SendGoal {
            goal_id: [n; 16],
            action_name: "/navigate_to_pose".into(),
            name: name.into(),
        }
    }

    #[test]
    fn what_was_appended_is_there_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal.sqlite");
        let mut journal = ExecutorJournal::open(&path).unwrap();
        let mut one = record("c1");
        journal.append(&one, "received", "{}", Stamp(1)).unwrap();
        go(&mut journal, &mut one, accept());
        go(
            &mut journal,
            &mut one,
            ExecutorEvent::Start {
                run_id: "r1".into(),
            },
        );
        go(&mut journal, &mut one, send(1, "drive"));
        journal.set_note("held", "cup").unwrap();
        drop(journal);

        let journal = ExecutorJournal::open(&path).unwrap();
        assert_eq!(journal.live().unwrap(), vec![one.clone()]);
        assert_eq!(journal.get("c1").unwrap(), Some(one));
        assert_eq!(journal.get("c2").unwrap(), None);
        assert_eq!(journal.newest_token().unwrap(), 9);
        assert_eq!(journal.note("held").unwrap().as_deref(), Some("cup"));
        let kinds: Vec<String> = journal
            .events("c1")
            .unwrap()
            .into_iter()
            .map(|e| e.kind)
            .collect();
        assert_eq!(kinds, ["received", "accepted", "started", "goal_sent"]);
    }

    #[test]
    fn the_file_refuses_what_was_written_before() {
        let mut journal = ExecutorJournal::in_memory().unwrap();
        let mut one = record("c1");
        journal.append(&one, "received", "{}", Stamp(1)).unwrap();
        let again = journal.append(&one, "received", "{}", Stamp(1));
        assert!(matches!(again, Err(StoreError::Duplicate { .. })));
        go(&mut journal, &mut one, accept());
        go(
            &mut journal,
            &mut one,
            ExecutorEvent::Start {
                run_id: "r1".into(),
            },
        );
        go(&mut journal, &mut one, send(1, "drive"));

        // Another command with the same UUID.
        let mut two = record("c2");
        journal.append(&two, "received", "{}", Stamp(1)).unwrap();
        go(&mut journal, &mut two, accept());
        go(
            &mut journal,
            &mut two,
            ExecutorEvent::Start {
                run_id: "r2".into(),
            },
        );
        let stolen = step(&two, &send(1, "drive"), Stamp(3)).unwrap().record;
        let error = journal
            .append(&stolen, "goal_sent", "{}", Stamp(3))
            .unwrap_err();
        assert!(
            matches!(&error, StoreError::Duplicate { what, .. } if what.contains("01010101-")),
            "{error}"
        );
        // Nothing of it was kept.
        assert_eq!(journal.get("c2").unwrap(), Some(two));
    }

    #[test]
    fn settled_ones_leave_the_live_list() {
        let mut journal = ExecutorJournal::in_memory().unwrap();
        for i in 0..3 {
            let mut r = record(&format!("c{i}"));
            journal.append(&r, "received", "{}", Stamp(i)).unwrap();
            go(&mut journal, &mut r, accept());
            go(
                &mut journal,
                &mut r,
                ExecutorEvent::Start { run_id: "r".into() },
            );
            go(&mut journal, &mut r, ExecutorEvent::Complete);
            if i < 2 {
                go(
                    &mut journal,
                    &mut r,
                    ExecutorEvent::Settle {
                        final_state: FinalState::Succeeded,
                        settled_by: "/h".into(),
                        reason: String::new(),
                    },
                );
            }
        }
        assert_eq!(journal.live().unwrap().len(), 1);
        assert_eq!(journal.last_settled(1).unwrap().len(), 1);
        assert_eq!(journal.last_settled(16).unwrap().len(), 2);
    }

    #[test]
    fn a_full_disk_keeps_nothing_of_the_event() {
        let mut journal = ExecutorJournal::in_memory().unwrap();
        // As many pages as it has: the next page can't be had, as on a full disk.
        let pages: i64 = journal
            .database
            .connection()
            .query_row("PRAGMA page_count", [], |r| r.get(0))
            .unwrap();
        journal
            .database
            .connection()
            .query_row(&format!("PRAGMA max_page_count = {pages}"), [], |r| {
                r.get::<_, i64>(0)
            })
            .unwrap();
        let mut big = record("c1");
        big.error_msg = "x".repeat(100_000);
        let error = journal
            .append(&big, "received", "{}", Stamp(1))
            .unwrap_err();
        assert!(matches!(error, StoreError::DiskFull { .. }), "{error}");
        assert_eq!(journal.get("c1").unwrap(), None);
    }
}

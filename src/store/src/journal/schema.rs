//! The journal's tables and how they came about.

use std::collections::BTreeMap;

use rusqlite::{params, Transaction};

use crate::chain::{chain_tables, hash_of, Chain, ChainHead, Link};
use crate::db::{Migration, Schema};

/// The tables.
pub const SCHEMA: Schema = Schema {
    name: "executor journal",
    // "EHJ" and the kind.
    application_id: 0x4548_4a01,
    migrations: &[
        Migration::Sql(VERSION_1),
        Migration::Rust(to_version_2),
        Migration::Sql(VERSION_3),
        Migration::Sql(VERSION_4),
    ],
};

/// An event's row has the record that it left behind, and the command where that stands nowhere yet; the
/// other tables follow later, and say up to which event they have come. Rows that were there before are known
/// to them.
const VERSION_4: &str = "
        ALTER TABLE events ADD COLUMN record BLOB;
        ALTER TABLE events ADD COLUMN command TEXT;
        INSERT INTO facts SELECT 'folded_to', max(
            (SELECT coalesce(max(id), 0) FROM events),
            (SELECT coalesce(max(last), 0) FROM dropped_events));
    ";

/// A command's own text is written once and not with each of its events. It is held by the digest, which
/// every record carries. Rows that were there before keep their whole records until their next event.
const VERSION_3: &str = "
        CREATE TABLE command_texts (
            number INTEGER PRIMARY KEY,
            text TEXT NOT NULL
        ) STRICT;
    ";

const VERSION_1: &str = "
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
    ";

/// The record stands last, so that what is decided by is read without it.
const TABLES_2: &str = concat!(
    "ALTER TABLE commands RENAME TO commands_1;
     ALTER TABLE sub_goals RENAME TO sub_goals_1;
     ALTER TABLE events RENAME TO events_1;
     DROP TRIGGER events_are_only_added_to;
     CREATE TABLE commands (
         number INTEGER PRIMARY KEY,
         command_id TEXT NOT NULL UNIQUE,
         digest TEXT NOT NULL,
         state INTEGER NOT NULL,
         live INTEGER NOT NULL,
         sequence INTEGER NOT NULL,
         last_event INTEGER NOT NULL,
         updated_at INTEGER NOT NULL,
         record_hash BLOB NOT NULL,
         record TEXT NOT NULL
     ) STRICT;
     CREATE TABLE sub_goals (
         goal_id BLOB PRIMARY KEY NOT NULL,
         command_id TEXT NOT NULL,
         segment INTEGER NOT NULL,
         name TEXT NOT NULL,
         action_name TEXT NOT NULL,
         UNIQUE (command_id, segment, name)
     ) STRICT, WITHOUT ROWID;
     CREATE TABLE facts (
         name TEXT PRIMARY KEY NOT NULL,
         number INTEGER NOT NULL
     ) STRICT, WITHOUT ROWID;
     INSERT INTO facts SELECT 'newest_token', coalesce(max(fencing_token), 0) FROM commands_1;
     INSERT INTO sub_goals SELECT goal_id, command_id, segment, name, action_name FROM sub_goals_1;",
    chain_tables!("events", "dropped_events")
);

/// Made when the rows are there.
const INDICES_2: &str = "
     DROP TABLE events_1;
     DROP TABLE sub_goals_1;
     DROP TABLE commands_1;
     CREATE INDEX commands_live ON commands (command_id) WHERE live = 1;
     CREATE INDEX commands_settled ON commands (last_event) WHERE live = 0;";

/// From single events to a chain. What stands in the file when it is migrated is believed.
fn to_version_2(t: &Transaction<'_>) -> Result<(), rusqlite::Error> {
    t.execute_batch(TABLES_2)?;
    // States REJECTED (2) and SETTLED (7) are over.
    t.execute_batch(
        "INSERT INTO commands (command_id, digest, state, live, sequence, last_event, updated_at,
             record_hash, record)
         SELECT command_id, digest, state, state NOT IN (2, 7), sequence, 0, updated_at, X'', record
         FROM commands_1 ORDER BY rowid;",
    )?;
    {
        let mut hash = t.prepare("UPDATE commands SET record_hash = ?2 WHERE number = ?1")?;
        let mut read = t.prepare("SELECT number, record FROM commands")?;
        let mut rows = read.query([])?;
        while let Some(row) = rows.next()? {
            let record = row.get_ref(1)?.as_str()?;
            hash.execute(params![row.get::<_, i64>(0)?, hash_of(record.as_bytes())])?;
        }
    }
    let chain = Chain::new("events", "dropped_events");
    let mut head = ChainHead::default();
    let mut read = t.prepare(
        "SELECT e.command_id, e.sequence, e.stamp, e.kind, e.details,
             CASE WHEN e.sequence = c.sequence THEN c.record_hash ELSE X'' END, c.number
         FROM events_1 e JOIN commands c USING (command_id) ORDER BY e.id",
    )?;
    let mut last: BTreeMap<i64, i64> = BTreeMap::new();
    let mut rows = read.query([])?;
    while let Some(row) = rows.next()? {
        let record_hash: Vec<u8> = row.get(5)?;
        let number = row.get(6)?;
        let link = Link {
            subject: row.get_ref(0)?.as_str()?,
            sequence: row.get(1)?,
            stamp: row.get(2)?,
            kind: row.get_ref(3)?.as_str()?,
            details: row.get_ref(4)?.as_str()?,
            record_hash: &record_hash,
            previous: last.get(&number).copied().unwrap_or(0),
        };
        head = chain.add(t, &head, &link)?;
        last.insert(number, head.id);
    }
    drop(rows);
    drop(read);
    for (number, event) in last {
        t.prepare_cached("UPDATE commands SET last_event = ?2 WHERE number = ?1")?
            .execute([number, event])?;
    }
    t.execute_batch(INDICES_2)
}

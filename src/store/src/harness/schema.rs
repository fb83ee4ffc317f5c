//! The tables of the harness's file and how they came about.

use std::collections::BTreeMap;

use rusqlite::{params, Transaction};

use crate::chain::{chain_tables, hash_of, Chain, ChainHead, Link};
use crate::db::{Migration, Schema};

/// Tables of the harness's file. What is searched for is a column, the record itself is JSON.
pub const HARNESS_SCHEMA: Schema = Schema {
    name: "harness ledger",
    // "EHH1"
    application_id: 0x4548_4831,
    migrations: &[Migration::Sql(VERSION_1), Migration::Rust(to_version_2)],
};

const VERSION_1: &str = "CREATE TABLE command (
             command_id TEXT PRIMARY KEY,
             task_id TEXT NOT NULL,
             digest TEXT NOT NULL,
             state INTEGER NOT NULL,
             terminal INTEGER NOT NULL,
             open INTEGER NOT NULL,
             sequence INTEGER NOT NULL,
             settled_at INTEGER NOT NULL,
             record TEXT NOT NULL
         ) STRICT;
         CREATE INDEX command_open ON command (open) WHERE open = 1;
         CREATE TABLE goal (
             goal_id BLOB PRIMARY KEY,
             command_id TEXT NOT NULL REFERENCES command (command_id),
             segment INTEGER NOT NULL,
             UNIQUE (command_id, segment)
         ) STRICT;
         CREATE TABLE task (
             task_id TEXT PRIMARY KEY,
             running INTEGER NOT NULL,
             received_at INTEGER NOT NULL,
             record TEXT NOT NULL
         ) STRICT;
         CREATE TABLE event (
             task_id TEXT NOT NULL,
             sequence INTEGER NOT NULL,
             stamp INTEGER NOT NULL,
             kind TEXT NOT NULL,
             command_id TEXT NOT NULL,
             record TEXT NOT NULL,
             PRIMARY KEY (task_id, sequence)
         ) STRICT, WITHOUT ROWID;
         CREATE INDEX event_command ON event (command_id);";

const TABLES_2: &str = concat!(
    "ALTER TABLE command ADD COLUMN last_event INTEGER NOT NULL DEFAULT 0;
     ALTER TABLE command ADD COLUMN record_hash BLOB NOT NULL DEFAULT X'';
     CREATE INDEX command_ended ON command (last_event) WHERE open = 0;
     DROP INDEX event_command;",
    chain_tables!("session_events", "dropped_session_events"),
    chain_tables!("command_events", "dropped_command_events"),
    "CREATE UNIQUE INDEX session_events_of_a_task ON session_events (subject, sequence);"
);

/// From single events to chains. What stands in the file when it is migrated is believed.
fn to_version_2(t: &Transaction<'_>) -> Result<(), rusqlite::Error> {
    t.execute_batch(TABLES_2)?;
    let chain = Chain::new("session_events", "dropped_session_events");
    let mut head = ChainHead::default();
    {
        // Of each task in its order; the order between tasks was not kept.
        let mut read = t.prepare(
            "SELECT task_id, sequence, stamp, kind, record FROM event ORDER BY task_id, sequence",
        )?;
        let mut last: BTreeMap<String, i64> = BTreeMap::new();
        let mut rows = read.query([])?;
        while let Some(row) = rows.next()? {
            let subject: String = row.get(0)?;
            let link = Link {
                subject: &subject,
                sequence: row.get(1)?,
                stamp: row.get(2)?,
                kind: row.get_ref(3)?.as_str()?,
                details: row.get_ref(4)?.as_str()?,
                record_hash: &[],
                previous: last.get(&subject).copied().unwrap_or(0),
            };
            head = chain.add(t, &head, &link)?;
            last.insert(subject, head.id);
        }
    }
    let chain = Chain::new("command_events", "dropped_command_events");
    let mut head = ChainHead::default();
    let commands: Vec<(String, i64, i64, String)> = t
        .prepare("SELECT command_id, sequence, settled_at, record FROM command ORDER BY rowid")?
        .query_map([], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })?
        .collect::<Result<_, _>>()?;
    for (id, sequence, stamp, record) in commands {
        let record_hash = hash_of(record.as_bytes());
        let link = Link {
            subject: &id,
            sequence,
            stamp,
            kind: "migrated",
            details: "{}",
            record_hash: &record_hash,
            previous: 0,
        };
        head = chain.add(t, &head, &link)?;
        t.prepare_cached(
            "UPDATE command SET last_event = ?2, record_hash = ?3 WHERE command_id = ?1",
        )?
        .execute(params![id, head.id, record_hash.as_slice()])?;
    }
    t.execute_batch("DROP TABLE event;")
}

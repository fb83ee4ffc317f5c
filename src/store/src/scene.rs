//! The scene of each map: objects, relations, counters of refs, applied runs.
//!
//! Records are written in batches by a thread of their own; a crash loses at most the last batch, which
//! perception repeats. What must not be lost, that a ref was given, is in the same transaction as the
//! object that has it.
//!
//! A record is the node or edge in postcard (`records`), behind a byte for the version of its fields: there are many, most batches are nothing but records, and as JSON they are three
//! times as large. Who changes a field of [`SceneObject`] or [`Relation`] raises that version and keeps a reader
//! for the old one; a test holds on to the bytes.

mod records;
#[cfg(test)]
mod tests;

use std::path::Path;

use eh_contract::scene::{Relation, SceneObject};
use eh_scene::ChangeSet;
use rusqlite::{params, Connection, Statement, Transaction};
use serde::de::DeserializeOwned;

use crate::db::{Access, Database, Migration, Schema};
use crate::error::StoreError;
use records::{encode, Raw};

/// Name of the file in the state directory.
pub const FILE_NAME: &str = "scene.sqlite";

/// The file's kind and tables.
pub const SCHEMA: Schema = Schema {
    name: "scene",
    application_id: 0x4548_5343, // "EHSC"
    migrations: &[
        Migration::Sql(
            "CREATE TABLE maps (
            map_id TEXT PRIMARY KEY,
            version INTEGER NOT NULL,
            stamp_ns INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE objects (
            map_id TEXT NOT NULL REFERENCES maps(map_id),
            ref TEXT NOT NULL,
            record TEXT NOT NULL,
            PRIMARY KEY (map_id, ref)
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE relations (
            map_id TEXT NOT NULL REFERENCES maps(map_id),
            subject TEXT NOT NULL,
            relation TEXT NOT NULL,
            object TEXT NOT NULL,
            record TEXT NOT NULL,
            PRIMARY KEY (map_id, subject, relation, object)
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE counters (
            map_id TEXT NOT NULL REFERENCES maps(map_id),
            class TEXT NOT NULL,
            last INTEGER NOT NULL CHECK (last >= 0),
            PRIMARY KEY (map_id, class)
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE applied (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            map_id TEXT NOT NULL REFERENCES maps(map_id),
            run TEXT NOT NULL,
            UNIQUE (map_id, run)
        ) STRICT;",
        ),
        Migration::Sql(
            "CREATE TABLE map_numbers (
            number INTEGER PRIMARY KEY,
            map_id TEXT NOT NULL UNIQUE
        ) STRICT;
        INSERT INTO map_numbers (map_id) SELECT map_id FROM maps ORDER BY map_id;
        ALTER TABLE objects RENAME TO objects_1;
        ALTER TABLE relations RENAME TO relations_1;
        CREATE TABLE objects (
            map INTEGER NOT NULL,
            ref TEXT NOT NULL,
            record BLOB NOT NULL,
            PRIMARY KEY (map, ref)
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE relations (
            map INTEGER NOT NULL,
            subject TEXT NOT NULL,
            relation TEXT NOT NULL,
            object TEXT NOT NULL,
            record BLOB NOT NULL,
            PRIMARY KEY (map, subject, relation, object)
        ) STRICT, WITHOUT ROWID;",
        ),
        Migration::Rust(records_of_version_1),
        Migration::Sql("DROP TABLE objects_1; DROP TABLE relations_1;"),
    ],
};

const PUT_OBJECT: &str = "INSERT OR REPLACE INTO objects VALUES (?1, ?2, ?3)";

const PUT_RELATION: &str = "INSERT OR REPLACE INTO relations VALUES (?1, ?2, ?3, ?4, ?5)";

/// Most memory for pages of the file \[KiB\]: those in which a hundred thousand objects are. With SQLite's usual 2 MiB
/// a batch of moves writes pages out and reads them again before it is over.
const CACHE: i64 = 16 * 1024;

/// Records fewer than this are not worth a second thread.
const TWO_THREADS: usize = 2000;

/// Puts the records that version 1 kept as JSON into the new tables.
fn records_of_version_1(t: &Transaction<'_>) -> Result<(), rusqlite::Error> {
    fn unreadable(e: serde_json::Error) -> rusqlite::Error {
        rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(e))
    }
    let mut objects =
        t.prepare("SELECT number, record FROM objects_1 JOIN map_numbers USING (map_id)")?;
    let mut put = t.prepare(PUT_OBJECT)?;
    let mut rows = objects.query([])?;
    while let Some(row) = rows.next()? {
        let (map, text): (i64, String) = (row.get(0)?, row.get(1)?);
        let object: SceneObject = serde_json::from_str(&text).map_err(unreadable)?;
        put_object(&mut put, map, &object, &mut Vec::new())?;
    }
    let mut relations =
        t.prepare("SELECT number, record FROM relations_1 JOIN map_numbers USING (map_id)")?;
    let mut put = t.prepare(PUT_RELATION)?;
    let mut rows = relations.query([])?;
    while let Some(row) = rows.next()? {
        let (map, text): (i64, String) = (row.get(0)?, row.get(1)?);
        let relation: Relation = serde_json::from_str(&text).map_err(unreadable)?;
        put_relation(&mut put, map, &relation, &mut Vec::new())?;
    }
    Ok(())
}

/// How many applied runs of a map are kept; as many as the scene remembers by default.
const APPLIED_KEPT: i64 = 4096;

/// The scenes of all maps.
#[derive(Debug)]
pub struct SceneStore {
    database: Database,
}

impl SceneStore {
    /// Opens the file in a state directory; no other process may have it open.
    ///
    /// # Errors
    /// [`StoreError`] that names the file and what to do.
    pub fn open(state_directory: &Path) -> Result<Self, StoreError> {
        let path = state_directory.join(FILE_NAME);
        let database = Database::open(&path, &SCHEMA, Access::Exclusive)?;
        database
            .connection()
            .pragma_update(None, "cache_size", -CACHE)
            .map_err(|e| database.error("setting cache_size", &e))?;
        Ok(SceneStore { database })
    }

    /// Commits no longer wait for the disk: they survive the end of the process, but a loss of power may take back
    /// the newest of them. For measurements beside stores that are set so.
    ///
    /// # Errors
    /// [`StoreError`] when SQLite refuses it.
    pub fn without_waiting(self) -> Result<Self, StoreError> {
        let db = &self.database;
        db.connection()
            .pragma_update(None, "synchronous", "NORMAL")
            .map_err(|e| db.error("setting synchronous", &e))?;
        Ok(self)
    }

    /// Opens a store that lives as long as the value, for tests and simulations.
    ///
    /// # Errors
    /// [`StoreError`] when SQLite refuses the schema.
    pub fn in_memory() -> Result<Self, StoreError> {
        Ok(SceneStore {
            database: Database::in_memory(&SCHEMA)?,
        })
    }

    /// Writes a batch in one transaction and returns after it is on the disk.
    ///
    /// # Errors
    /// [`StoreError`]; then nothing of it is kept.
    pub fn write(&mut self, changes: &ChangeSet) -> Result<(), StoreError> {
        self.database
            .write("writing the scene", |t| write(t, changes))
    }

    /// Everything that is known of a map; empty for one that was never written.
    ///
    /// # Errors
    /// [`StoreError`] when the file can't be read or a record is damaged.
    pub fn read(&self, map_id: &str) -> Result<ChangeSet, StoreError> {
        let db = &self.database;
        let sql = |e: rusqlite::Error| db.error("reading the scene", &e);
        let mut out = ChangeSet {
            map_id: map_id.into(),
            ..ChangeSet::default()
        };
        let head = db
            .connection()
            .query_row(
                "SELECT version, stamp_ns FROM maps WHERE map_id = ?1",
                [map_id],
                |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)),
            )
            .map(Some)
            .or_else(|e| match e {
                rusqlite::Error::QueryReturnedNoRows => Ok(None),
                other => Err(other),
            })
            .map_err(sql)?;
        let Some((version, stamp)) = head else {
            return Ok(out);
        };
        out.version =
            u64::try_from(version).map_err(|e| db.bad_record("the version of the map", e))?;
        out.stamp = eh_contract::Stamp(stamp);
        out.objects = self.records(
            "SELECT ref, record FROM objects JOIN map_numbers ON map = number WHERE map_id = ?1",
            map_id,
        )?;
        out.relations = self.records(
            "SELECT subject, record FROM relations JOIN map_numbers ON map = number WHERE map_id = ?1",
            map_id,
        )?;
        let mut counters = db
            .connection()
            .prepare("SELECT class, last FROM counters WHERE map_id = ?1")
            .map_err(sql)?;
        let rows = counters
            .query_map([map_id], |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?))
            })
            .map_err(sql)?;
        for row in rows {
            let (class, last) = row.map_err(sql)?;
            let last = u64::try_from(last)
                .map_err(|e| db.bad_record(format!("the counter of {class}"), e))?;
            out.counters.push((class, last));
        }
        let mut applied = db
            .connection()
            .prepare("SELECT run FROM applied WHERE map_id = ?1 ORDER BY id")
            .map_err(sql)?;
        out.applied = applied
            .query_map([map_id], |row| row.get(0))
            .map_err(sql)?
            .collect::<Result<_, _>>()
            .map_err(sql)?;
        Ok(out)
    }

    /// Reads records: this thread the bytes, another one what they say.
    fn records<T: DeserializeOwned + Send>(
        &self,
        query: &str,
        map_id: &str,
    ) -> Result<Vec<T>, StoreError> {
        let db = &self.database;
        let sql = |e: rusqlite::Error| db.error("reading the scene", &e);
        let mut statement = db.connection().prepare(query).map_err(sql)?;
        let mut rows = statement.query([map_id]).map_err(sql)?;
        let mut out: Vec<T> = Vec::new();
        let mut raw = Raw::default();
        std::thread::scope(|scope| {
            let (full, to_read) = std::sync::mpsc::sync_channel::<Raw>(4);
            let reader = scope.spawn(move || {
                let mut all = Vec::new();
                for raw in to_read {
                    raw.read_into(&mut all)?;
                }
                Ok(all)
            });
            while let Some(row) = rows.next().map_err(sql)? {
                let name = row.get_ref(0).and_then(|v| Ok(v.as_str()?)).map_err(sql)?;
                let record = row.get_ref(1).and_then(|v| Ok(v.as_blob()?)).map_err(sql)?;
                raw.push(name, record);
                if raw.len() >= TWO_THREADS && full.send(std::mem::take(&mut raw)).is_err() {
                    // It has found a damaged record and says which.
                    break;
                }
            }
            drop(full);
            let all: Result<Vec<T>, (String, String)> = reader.join().unwrap_or_else(|_| {
                Err((
                    "the records".into(),
                    "the thread that read them has ended".into(),
                ))
            });
            out = all
                .map_err(|(name, reason)| db.bad_record(format!("the record of {name}"), reason))?;
            Ok::<(), StoreError>(())
        })?;
        raw.read_into(&mut out)
            .map_err(|(name, reason)| db.bad_record(format!("the record of {name}"), reason))?;
        Ok(out)
    }

    /// Names of the maps that are known.
    ///
    /// # Errors
    /// [`StoreError`] when the file can't be read.
    pub fn maps(&self) -> Result<Vec<String>, StoreError> {
        let sql = |e: rusqlite::Error| self.database.error("reading the maps", &e);
        let mut statement = self
            .database
            .connection()
            .prepare("SELECT map_id FROM maps ORDER BY map_id")
            .map_err(sql)?;
        let rows = statement.query_map([], |row| row.get(0)).map_err(sql)?;
        rows.collect::<Result<_, _>>().map_err(sql)
    }
}

fn put_object(
    put: &mut Statement<'_>,
    map: i64,
    object: &SceneObject,
    buffer: &mut Vec<u8>,
) -> Result<(), rusqlite::Error> {
    let record = encode(object, buffer)?;
    put.execute(params![map, object.r#ref, record])?;
    Ok(())
}

fn put_relation(
    put: &mut Statement<'_>,
    map: i64,
    relation: &Relation,
    buffer: &mut Vec<u8>,
) -> Result<(), rusqlite::Error> {
    let record = encode(relation, buffer)?;
    put.execute(params![
        map,
        relation.subject,
        relation.relation.name(),
        relation.object,
        record
    ])?;
    Ok(())
}

fn write(t: &Connection, changes: &ChangeSet) -> Result<(), rusqlite::Error> {
    let map_id = &changes.map_id;
    let version = i64::try_from(changes.version).unwrap_or(i64::MAX);
    t.execute(
        "INSERT INTO maps VALUES (?1, ?2, ?3) ON CONFLICT (map_id) DO UPDATE
         SET version = excluded.version, stamp_ns = excluded.stamp_ns",
        params![map_id, version, changes.stamp.0],
    )?;
    t.prepare_cached("INSERT OR IGNORE INTO map_numbers (map_id) VALUES (?1)")?
        .execute([map_id])?;
    let map: i64 = t
        .prepare_cached("SELECT number FROM map_numbers WHERE map_id = ?1")?
        .query_row([map_id], |row| row.get(0))?;
    let mut buffer = Vec::new();
    let mut put = t.prepare_cached(PUT_OBJECT)?;
    for object in &changes.objects {
        put_object(&mut put, map, object, &mut buffer)?;
    }
    let mut drop = t.prepare_cached("DELETE FROM objects WHERE map = ?1 AND ref = ?2")?;
    for name in &changes.removed_objects {
        drop.execute(params![map, name])?;
    }
    let mut put = t.prepare_cached(PUT_RELATION)?;
    for relation in &changes.relations {
        put_relation(&mut put, map, relation, &mut buffer)?;
    }
    let mut drop = t.prepare_cached(
        "DELETE FROM relations
         WHERE map = ?1 AND subject = ?2 AND relation = ?3 AND object = ?4",
    )?;
    for (subject, relation, object) in &changes.removed_relations {
        drop.execute(params![map, subject, relation.name(), object])?;
    }
    // A counter never goes back, whatever order batches come in.
    let mut put = t.prepare_cached(
        "INSERT INTO counters VALUES (?1, ?2, ?3) ON CONFLICT (map_id, class) DO UPDATE
         SET last = max(last, excluded.last)",
    )?;
    for (class, last) in &changes.counters {
        put.execute(params![
            map_id,
            class,
            i64::try_from(*last).unwrap_or(i64::MAX)
        ])?;
    }
    let mut put =
        t.prepare_cached("INSERT OR IGNORE INTO applied (map_id, run) VALUES (?1, ?2)")?;
    for run in &changes.applied {
        put.execute(params![map_id, run])?;
    }
    if !changes.applied.is_empty() {
        t.execute(
            "DELETE FROM applied WHERE map_id = ?1 AND id NOT IN
             (SELECT id FROM applied WHERE map_id = ?1 ORDER BY id DESC LIMIT ?2)",
            params![map_id, APPLIED_KEPT],
        )?;
    }
    Ok(())
}

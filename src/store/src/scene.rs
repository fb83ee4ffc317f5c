//! The scene of each map: objects, relations, counters of refs, applied runs.
//!
//! Records are written in batches by a thread of their own; a crash loses at most the last batch, which
//! perception repeats. What must not be lost, that a ref was given, is in the same transaction as the
//! object that has it.

use std::path::Path;

use eh_scene::ChangeSet;
use rusqlite::{params, Transaction};
use serde::de::DeserializeOwned;

use crate::db::{Access, Database, Migration, Schema};
use crate::error::StoreError;

/// Name of the file in the state directory.
pub const FILE_NAME: &str = "scene.sqlite";

/// The file's kind and tables.
pub const SCHEMA: Schema = Schema {
    name: "scene",
    application_id: 0x4548_5343, // "EHSC"
    migrations: &[Migration::Sql(
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
    )],
};

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
        Ok(SceneStore {
            database: Database::open(&path, &SCHEMA, Access::Exclusive)?,
        })
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
        out.objects = self.records("SELECT ref, record FROM objects WHERE map_id = ?1", map_id)?;
        out.relations = self.records(
            "SELECT subject, record FROM relations WHERE map_id = ?1",
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

    fn records<T: DeserializeOwned>(
        &self,
        query: &str,
        map_id: &str,
    ) -> Result<Vec<T>, StoreError> {
        let db = &self.database;
        let sql = |e: rusqlite::Error| db.error("reading the scene", &e);
        let mut statement = db.connection().prepare(query).map_err(sql)?;
        let rows = statement
            .query_map([map_id], |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
            })
            .map_err(sql)?;
        let mut out = Vec::new();
        for row in rows {
            let (name, record) = row.map_err(sql)?;
            out.push(
                serde_json::from_str(&record)
                    .map_err(|e| db.bad_record(format!("the record of {name}"), e))?,
            );
        }
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

fn json<T: serde::Serialize>(value: &T) -> Result<String, rusqlite::Error> {
    serde_json::to_string(value).map_err(|e| rusqlite::Error::ToSqlConversionFailure(Box::new(e)))
}

fn write(t: &Transaction<'_>, changes: &ChangeSet) -> Result<(), rusqlite::Error> {
    let map = &changes.map_id;
    let version = i64::try_from(changes.version).unwrap_or(i64::MAX);
    t.execute(
        "INSERT INTO maps VALUES (?1, ?2, ?3) ON CONFLICT (map_id) DO UPDATE
         SET version = excluded.version, stamp_ns = excluded.stamp_ns",
        params![map, version, changes.stamp.0],
    )?;
    let mut put = t.prepare_cached("INSERT OR REPLACE INTO objects VALUES (?1, ?2, ?3)")?;
    for object in &changes.objects {
        put.execute(params![map, object.r#ref, json(object)?])?;
    }
    let mut drop = t.prepare_cached("DELETE FROM objects WHERE map_id = ?1 AND ref = ?2")?;
    for name in &changes.removed_objects {
        drop.execute(params![map, name])?;
    }
    let mut put =
        t.prepare_cached("INSERT OR REPLACE INTO relations VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for r in &changes.relations {
        put.execute(params![
            map,
            r.subject,
            r.relation.name(),
            r.object,
            json(r)?
        ])?;
    }
    let mut drop = t.prepare_cached(
        "DELETE FROM relations
         WHERE map_id = ?1 AND subject = ?2 AND relation = ?3 AND object = ?4",
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
            map,
            class,
            i64::try_from(*last).unwrap_or(i64::MAX)
        ])?;
    }
    let mut put =
        t.prepare_cached("INSERT OR IGNORE INTO applied (map_id, run) VALUES (?1, ?2)")?;
    for run in &changes.applied {
        put.execute(params![map, run])?;
    }
    if !changes.applied.is_empty() {
        t.execute(
            "DELETE FROM applied WHERE map_id = ?1 AND id NOT IN
             (SELECT id FROM applied WHERE map_id = ?1 ORDER BY id DESC LIMIT ?2)",
            params![map, APPLIED_KEPT],
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use eh_contract::scene::{Kind, Relation, RelationKind, SceneObject, Source};
    use eh_contract::Stamp;

    fn object(name: &str) -> SceneObject {
        SceneObject {
            r#ref: name.into(),
            kind: Kind::Object,
            class_name: "cup".into(),
            last_seen: Stamp(42),
            confidence: 0.9,
            version: 7,
            ..SceneObject::default()
        }
    }

    fn on(subject: &str, object: &str) -> Relation {
        Relation {
            subject: subject.into(),
            relation: RelationKind::On,
            object: object.into(),
            confidence: 0.9,
            stamp: Stamp(42),
            source: Source::Perception,
        }
    }

    fn batch() -> ChangeSet {
        ChangeSet {
            map_id: "home".into(),
            version: 9,
            stamp: Stamp(50),
            objects: vec![object("cup_1"), object("table_1")],
            relations: vec![on("cup_1", "table_1")],
            counters: vec![("cup".into(), 3)],
            applied: vec!["r1#0".into()],
            ..ChangeSet::default()
        }
    }

    #[test]
    fn what_was_written_is_read_again_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = SceneStore::open(directory.path()).unwrap();
        store.write(&batch()).unwrap();
        drop(store);
        let store = SceneStore::open(directory.path()).unwrap();
        assert_eq!(store.read("home").unwrap(), batch());
        assert_eq!(store.maps().unwrap(), ["home"]);
        // Another map knows nothing of it.
        let office = store.read("office").unwrap();
        assert!(office.is_empty() && office.version == 0);
    }

    #[test]
    fn removals_and_counters_are_kept() {
        let mut store = SceneStore::in_memory().unwrap();
        store.write(&batch()).unwrap();
        let change = ChangeSet {
            map_id: "home".into(),
            version: 11,
            stamp: Stamp(60),
            removed_objects: vec!["cup_1".into()],
            removed_relations: vec![("cup_1".into(), RelationKind::On, "table_1".into())],
            counters: vec![("cup".into(), 2)],
            applied: vec!["r1#0".into(), "r2#0".into()],
            ..ChangeSet::default()
        };
        store.write(&change).unwrap();
        let read = store.read("home").unwrap();
        assert_eq!(read.objects.len(), 1);
        assert!(read.relations.is_empty());
        assert_eq!(
            read.counters,
            [("cup".to_string(), 3)],
            "it never goes back"
        );
        assert_eq!(read.applied, ["r1#0", "r2#0"]);
        assert_eq!(read.version, 11);
    }

    #[test]
    fn a_damaged_record_is_named() {
        let mut store = SceneStore::in_memory().unwrap();
        store.write(&batch()).unwrap();
        store
            .database
            .write("damaging", |t| {
                t.execute("UPDATE objects SET record = '{' WHERE ref = 'cup_1'", [])
            })
            .unwrap();
        let error = store.read("home").unwrap_err().to_string();
        assert!(error.contains("cup_1"), "{error}");
    }
}

//! Batches, restarts, damage, earlier versions.

use super::records::decode;
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
            t.execute(
                "UPDATE objects SET record = x'0105' WHERE ref = 'cup_1'",
                [],
            )
        })
        .unwrap();
    let error = store.read("home").unwrap_err().to_string();
    assert!(error.contains("cup_1"), "{error}");
}

#[test]
fn many_records_are_read_by_two_threads_in_their_order() {
    let mut store = SceneStore::in_memory().unwrap();
    let objects: Vec<SceneObject> = (0..5 * TWO_THREADS + 7)
        .map(|i| object(&format!("cup_{i:06}")))
        .collect();
    let all = ChangeSet { objects, ..batch() };
    store.write(&all).unwrap();
    assert_eq!(store.read("home").unwrap().objects, all.objects);
    // A damaged one among them ends it and is named.
    store
        .database
        .write("damaging", |t| {
            t.execute(
                "UPDATE objects SET record = x'63' WHERE ref = 'cup_000100'",
                [],
            )
        })
        .unwrap();
    let error = store.read("home").unwrap_err().to_string();
    assert!(
        error.contains("cup_000100") && error.contains("version 99"),
        "{error}"
    );
}

/// The bytes of a node and an edge as they stand in files. When this fails because a field was added, taken
/// away or moved, files of earlier versions can't be read any more: raise `FIELDS`, keep a reader for the
/// fields as they were, and then write the new bytes down here.
#[test]
fn the_fields_of_records_are_what_files_have() {
    let full = SceneObject {
        aliases: vec!["mug".into()],
        attributes: [("color".to_string(), "red".to_string())].into(),
        state: [("open".to_string(), "true".to_string())].into(),
        frame_id: "map".into(),
        evidence: vec!["e".into()],
        outline: vec![eh_contract::geometry::Vec3::new(0.0, 0.0, 0.0)],
        run_id: "r".into(),
        merged_into: "m".into(),
        retired: true,
        first_seen: Stamp(1),
        sightings: 300,
        source: Source::Execution,
        ..object("cup_1")
    };
    let hex = |bytes: &[u8]| -> String { bytes.iter().map(|b| format!("{b:02x}")).collect() };
    let mut buffer = Vec::new();
    assert_eq!(hex(encode(&full, &mut buffer).unwrap()), OBJECT_BYTES);
    assert_eq!(decode::<SceneObject>(&buffer).unwrap(), full);
    let edge = on("cup_1", "table_1");
    assert_eq!(hex(encode(&edge, &mut buffer).unwrap()), EDGE_BYTES);
    assert_eq!(decode::<Relation>(&buffer).unwrap(), edge);
    buffer.push(0);
    assert!(decode::<Relation>(&buffer)
        .unwrap_err()
        .contains("too many"));
    assert!(decode::<Relation>(&[]).is_err());
}

const OBJECT_BYTES: &str =
    "01056375705f31060363757001036d75670105636f6c6f720372656401046f70656e0474727565036d6170000000\
    00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
    0000000000f03f000000000000000000000000000000000000000000000000000000000000000000000000000000\
    00000000000000000001000000000000000000000000000000000000000000000000cdccccccccccec3f0254ac02\
    0301720101650701016d";
const EDGE_BYTES: &str = "01056375705f3101077461626c655f31cdccccccccccec3f5402";

#[test]
fn a_file_of_version_1_is_taken_over() {
    let directory = tempfile::tempdir().unwrap();
    {
        let Migration::Sql(first) = SCHEMA.migrations[0] else {
            panic!("the first migration is SQL");
        };
        let file = rusqlite::Connection::open(directory.path().join(FILE_NAME)).unwrap();
        file.execute_batch(first).unwrap();
        file.pragma_update(None, "application_id", SCHEMA.application_id)
            .unwrap();
        file.pragma_update(None, "user_version", 1).unwrap();
        let all = batch();
        for map in ["home", "office"] {
            file.execute("INSERT INTO maps VALUES (?1, 9, 50)", [map])
                .unwrap();
            for o in &all.objects {
                let text = serde_json::to_string(o).unwrap();
                file.execute(
                    "INSERT INTO objects VALUES (?1, ?2, ?3)",
                    params![map, o.r#ref, text],
                )
                .unwrap();
            }
        }
        for r in &all.relations {
            file.execute(
                "INSERT INTO relations VALUES ('home', ?1, ?2, ?3, ?4)",
                params![
                    r.subject,
                    r.relation.name(),
                    r.object,
                    serde_json::to_string(r).unwrap()
                ],
            )
            .unwrap();
        }
        file.execute_batch(
            "INSERT INTO counters VALUES ('home', 'cup', 3);
            INSERT INTO applied (map_id, run) VALUES ('home', 'r1#0');",
        )
        .unwrap();
    }
    let mut store = SceneStore::open(directory.path()).unwrap();
    assert_eq!(store.read("home").unwrap(), batch());
    let office = store.read("office").unwrap();
    assert_eq!(
        (office.objects, office.relations.len()),
        (batch().objects, 0)
    );
    // And is written to as any other.
    store
        .write(&ChangeSet {
            map_id: "shed".into(),
            ..batch()
        })
        .unwrap();
    assert_eq!(store.maps().unwrap(), ["home", "office", "shed"]);
    assert_eq!(store.read("home").unwrap(), batch());
}

//! A chain of events: each row carries a hash over the row before it and its own content, so that what
//! was changed, taken out or cut off shows.
//!
//! `hash = BLAKE3(hash before ‖ id ‖ sequence ‖ stamp ‖ previous ‖ subject ‖ kind ‖ details ‖ record_hash)`,
//! numbers as 8 bytes with the lowest first, texts and bytes with their length before them; before the
//! first row stand 32 zeros. `previous` is the id of the subject's event before, so that the events of one
//! subject are found without an index of their own; `record_hash` is BLAKE3 over the record that the event
//! left behind, empty where there is none.
//!
//! Rows are dropped for their age only: each run of dropped rows leaves one line that holds the
//! hashes before and after it. Whoever can write the file can also make a chain of his own; against that
//! only a copy of the newest hash ([`ChainHead`]) in another place helps.

use rusqlite::{params, params_from_iter, Connection, OptionalExtension, ToSql};

type Hash = [u8; 32];
type Sql<T> = Result<T, rusqlite::Error>;

/// The newest event of a chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChainHead {
    /// Counts the events of the file from 1, dropped ones too; 0: none yet.
    pub id: i64,
    /// Its hash; zeros where there is none yet.
    pub hash: [u8; 32],
}

/// Events at the end of a chain that are checked whenever its file is opened.
const TAIL: i64 = 64;

/// The newest event that a row of a table of commands was left by. `flag` is a column of zeros and ones that
/// the table is indexed by together with `last_event`, so that no row is read.
pub(crate) fn newest_event(connection: &Connection, table: &str, flag: &str) -> Sql<i64> {
    let newest =
        |of: i64| format!("(SELECT coalesce(max(last_event), 0) FROM {table} WHERE {flag} = {of})");
    let sql = format!("SELECT max({}, {})", newest(0), newest(1));
    connection.query_row(&sql, [], |row| row.get(0))
}

/// The first place where a chain does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Break {
    /// Id of the event.
    pub event: i64,
    /// What is wrong there.
    pub what: String,
}

/// What a whole chain holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChainLength {
    /// Events that are there.
    pub events: u64,
    /// Events that were dropped when they were old.
    pub dropped: u64,
}

/// What is written of an event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link<'a> {
    pub(crate) subject: &'a str,
    pub(crate) sequence: i64,
    pub(crate) stamp: i64,
    pub(crate) kind: &'a str,
    pub(crate) details: &'a str,
    pub(crate) record_hash: &'a [u8],
    pub(crate) previous: i64,
}

/// Which events may be dropped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Old {
    /// Events up to this id are old.
    pub(crate) up_to: i64,
    /// Events stamped before this are old.
    pub(crate) before: i64,
}

/// One chain of a file: its tables and its newest event.
#[derive(Debug)]
pub(crate) struct Chain {
    events: &'static str,
    gaps: &'static str,
    insert: String,
    /// The newest durable event.
    pub(crate) head: ChainHead,
    /// Where the next search for old events begins.
    looked_at: i64,
}

/// SQL of the two tables of a chain.
macro_rules! chain_tables {
    ($events:literal, $gaps:literal) => {
        concat!(
            "CREATE TABLE ",
            $events,
            " (
                id INTEGER PRIMARY KEY,
                subject TEXT NOT NULL,
                sequence INTEGER NOT NULL,
                stamp INTEGER NOT NULL,
                kind TEXT NOT NULL,
                details TEXT NOT NULL,
                record_hash BLOB NOT NULL,
                previous INTEGER NOT NULL,
                hash BLOB NOT NULL
            ) STRICT;
            CREATE TRIGGER ",
            $events,
            "_are_only_added_to BEFORE UPDATE ON ",
            $events,
            " BEGIN SELECT raise(ABORT, 'events are only added to'); END;
            CREATE TABLE ",
            $gaps,
            " (
                first INTEGER PRIMARY KEY,
                last INTEGER NOT NULL UNIQUE,
                hash_before BLOB NOT NULL,
                hash_after BLOB NOT NULL
            ) STRICT;"
        )
    };
}
pub(crate) use chain_tables;

/// The hash of a record as it stands in its last event.
pub(crate) fn hash_of(record: &[u8]) -> Hash {
    *blake3::hash(record).as_bytes()
}

fn link_hash(before: &Hash, id: i64, link: &Link<'_>) -> Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(before);
    for number in [id, link.sequence, link.stamp, link.previous] {
        hasher.update(&number.to_le_bytes());
    }
    for bytes in [
        link.subject.as_bytes(),
        link.kind.as_bytes(),
        link.details.as_bytes(),
        link.record_hash,
    ] {
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    }
    *hasher.finalize().as_bytes()
}

/// A row as it stands in the file.
struct Row {
    id: i64,
    subject: String,
    sequence: i64,
    stamp: i64,
    kind: String,
    details: String,
    record_hash: Vec<u8>,
    previous: i64,
    hash: Vec<u8>,
}

impl Row {
    const COLUMNS: &'static str =
        "id, subject, sequence, stamp, kind, details, record_hash, previous, hash";

    fn read(row: &rusqlite::Row<'_>) -> Sql<Self> {
        Ok(Row {
            id: row.get(0)?,
            subject: row.get(1)?,
            sequence: row.get(2)?,
            stamp: row.get(3)?,
            kind: row.get(4)?,
            details: row.get(5)?,
            record_hash: row.get(6)?,
            previous: row.get(7)?,
            hash: row.get(8)?,
        })
    }

    fn link(&self) -> Link<'_> {
        Link {
            subject: &self.subject,
            sequence: self.sequence,
            stamp: self.stamp,
            kind: &self.kind,
            details: &self.details,
            record_hash: &self.record_hash,
            previous: self.previous,
        }
    }
}

/// A hash column; one of another length never equals a hash.
fn hash_column(row: &rusqlite::Row<'_>, index: usize) -> Sql<Hash> {
    Ok(row
        .get::<_, Vec<u8>>(index)?
        .try_into()
        .unwrap_or([0xff; 32]))
}

impl Chain {
    /// A chain in these tables, without a look at them; [`Chain::load`] follows.
    pub(crate) fn new(events: &'static str, gaps: &'static str) -> Self {
        Chain {
            events,
            gaps,
            insert: format!(
                "INSERT INTO {events} ({}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                Row::COLUMNS
            ),
            head: ChainHead::default(),
            looked_at: 0,
        }
    }

    /// The same with a column `record` for the record that an event left behind, which `record_hash` is of, and
    /// a column `command` for the text of its command where that stands nowhere yet.
    pub(crate) fn with_records(events: &'static str, gaps: &'static str) -> Self {
        Chain {
            insert: format!(
                "INSERT INTO {events} ({}, record, command)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
                Row::COLUMNS
            ),
            ..Chain::new(events, gaps)
        }
    }

    /// Finds the newest event.
    pub(crate) fn load(&mut self, connection: &Connection) -> Sql<()> {
        let read = |sql: String| {
            connection
                .query_row(&sql, [], |row| {
                    Ok(ChainHead {
                        id: row.get(0)?,
                        hash: hash_column(row, 1)?,
                    })
                })
                .optional()
        };
        let event = read(format!(
            "SELECT id, hash FROM {} ORDER BY id DESC LIMIT 1",
            self.events
        ))?;
        let gap = read(format!(
            "SELECT last, hash_after FROM {} ORDER BY last DESC LIMIT 1",
            self.gaps
        ))?;
        self.head = event
            .into_iter()
            .chain(gap)
            .max_by_key(|head| head.id)
            .unwrap_or_default();
        Ok(())
    }

    /// Adds an event after `head` and gives the new head, which counts once the transaction is durable.
    pub(crate) fn add(&self, t: &Connection, head: &ChainHead, link: &Link<'_>) -> Sql<ChainHead> {
        self.insert(t, head, link, None)
    }

    /// The same, with its record and the text of its command.
    pub(crate) fn add_with(
        &self,
        t: &Connection,
        head: &ChainHead,
        link: &Link<'_>,
        record: &[u8],
        command: Option<&str>,
    ) -> Sql<ChainHead> {
        self.insert(t, head, link, Some((record, command)))
    }

    fn insert(
        &self,
        t: &Connection,
        head: &ChainHead,
        link: &Link<'_>,
        record: Option<(&[u8], Option<&str>)>,
    ) -> Sql<ChainHead> {
        let id = head.id.saturating_add(1);
        let hash = link_hash(&head.hash, id, link);
        let mut statement = t.prepare_cached(&self.insert)?;
        let hash_bytes = hash.as_slice();
        let columns: [&dyn ToSql; 9] = [
            &id,
            &link.subject,
            &link.sequence,
            &link.stamp,
            &link.kind,
            &link.details,
            &link.record_hash,
            &link.previous,
            &hash_bytes,
        ];
        let columns = columns.into_iter();
        match &record {
            None => statement.execute(params_from_iter(columns))?,
            Some((record, command)) => {
                let more: [&dyn ToSql; 2] = [record, command];
                statement.execute(params_from_iter(columns.chain(more)))?
            }
        };
        Ok(ChainHead { id, hash })
    }

    /// Checks the newest events against each other, as whenever a file is opened: 64 of them, and those
    /// after `from`.
    pub(crate) fn check_tail(&self, connection: &Connection, from: i64) -> Sql<Option<Break>> {
        let from = self.head.id.saturating_sub(TAIL).min(from).max(0);
        self.check(connection, from).map(Result::err)
    }

    /// Whether something says that it was written by an event that is not there any more.
    pub(crate) fn cut_off(&self, last: i64) -> Option<Break> {
        (last > self.head.id).then(|| Break {
            event: self.head.id.saturating_add(1),
            what: format!("the end was cut off: events up to {last} were written"),
        })
    }

    /// Checks every event.
    pub(crate) fn check_all(&self, connection: &Connection) -> Sql<Result<ChainLength, Break>> {
        self.check(connection, 0)
    }

    /// Checks the events after `from`; the hash of `from` itself is believed.
    fn check(&self, connection: &Connection, from: i64) -> Sql<Result<ChainLength, Break>> {
        let broken = |event: i64, what: String| Ok(Err(Break { event, what }));
        let gaps: Vec<(i64, i64, Hash, Hash)> = connection
            .prepare(&format!(
                "SELECT first, last, hash_before, hash_after FROM {} WHERE last >= ?1 ORDER BY first",
                self.gaps
            ))?
            .query_map([from], |row| {
                Ok((row.get(0)?, row.get(1)?, hash_column(row, 2)?, hash_column(row, 3)?))
            })?
            .collect::<Sql<_>>()?;
        let mut gaps = gaps.into_iter().peekable();
        let mut running = ChainHead {
            id: 0,
            hash: [0; 32],
        };
        if from > 0 {
            let known: Option<Hash> = connection
                .query_row(
                    &format!("SELECT hash FROM {} WHERE id = ?1", self.events),
                    [from],
                    |row| hash_column(row, 0),
                )
                .optional()?;
            match (known, gaps.peek()) {
                (Some(hash), _) => running = ChainHead { id: from, hash },
                // It is among dropped ones: the run of them ends later.
                (None, Some((first, last, _, after))) if *first <= from => {
                    running = ChainHead {
                        id: *last,
                        hash: *after,
                    };
                    gaps.next();
                }
                (None, _) => return broken(from, "it is missing".into()),
            }
        }
        let mut length = ChainLength::default();
        let mut statement = connection.prepare(&format!(
            "SELECT {} FROM {} WHERE id > ?1 ORDER BY id",
            Row::COLUMNS,
            self.events
        ))?;
        let mut rows = statement.query([running.id])?;
        loop {
            let row = rows.next()?.map(Row::read).transpose()?;
            while let Some((first, last, before, after)) =
                gaps.next_if(|gap| row.as_ref().is_none_or(|r| gap.0 < r.id))
            {
                if first != running.id + 1 || last < first {
                    return broken(
                        running.id + 1,
                        format!("the list of dropped events says {first} to {last} there"),
                    );
                }
                if before != running.hash {
                    return broken(
                        running.id,
                        "it is not the one after which events were dropped".into(),
                    );
                }
                length.dropped += u64::try_from(last - first + 1).unwrap_or(0);
                running = ChainHead {
                    id: last,
                    hash: after,
                };
            }
            let Some(row) = row else { break };
            if row.id != running.id + 1 {
                return broken(
                    running.id + 1,
                    format!(
                        "it is missing (the next one is {}), and it was not dropped for its age",
                        row.id
                    ),
                );
            }
            let hash = link_hash(&running.hash, row.id, &row.link());
            if row.hash != hash {
                return broken(
                    row.id,
                    format!(
                        "it was changed (\"{}\", event {} of {}), or the one before it was",
                        row.kind, row.sequence, row.subject
                    ),
                );
            }
            running = ChainHead { id: row.id, hash };
            length.events += 1;
        }
        if running != self.head {
            return broken(
                self.head.id,
                "the end of the chain changed meanwhile".into(),
            );
        }
        Ok(Ok(length))
    }

    /// Drops old events of subjects that are not pinned, at most `at_most` of those looked at. Gives how
    /// many were dropped, and up to which id nothing but pinned events is left to be dropped by age.
    pub(crate) fn drop_old(
        &self,
        t: &Connection,
        old: Old,
        at_most: u32,
        pinned: impl Fn(&Connection, &str) -> Sql<bool>,
    ) -> Sql<Dropped> {
        let mut dropped = Dropped {
            events: 0,
            looked_at: self.looked_at,
        };
        // Runs of neighbours: first, last, hash of the last.
        let mut runs: Vec<(i64, i64, Hash)> = Vec::new();
        {
            let mut statement = t.prepare_cached(&format!(
                "SELECT id, stamp, subject, hash FROM {} WHERE id > ?1 ORDER BY id LIMIT ?2",
                self.events
            ))?;
            let mut rows = statement.query(params![self.looked_at, at_most])?;
            let mut count = 0;
            while let Some(row) = rows.next()? {
                count += 1;
                let id: i64 = row.get(0)?;
                if id > old.up_to && row.get::<_, i64>(1)? >= old.before {
                    // Begin anew next time: what was pinned may be free then.
                    dropped.looked_at = 0;
                    break;
                }
                dropped.looked_at = id;
                if pinned(t, row.get_ref(2)?.as_str()?)? {
                    continue;
                }
                let hash = hash_column(row, 3)?;
                match runs.last_mut() {
                    Some(run) if run.1 + 1 == id => {
                        run.1 = id;
                        run.2 = hash;
                    }
                    Some(_) | None => runs.push((id, id, hash)),
                }
            }
            if count == 0 {
                dropped.looked_at = 0;
            }
        }
        for (first, last, hash) in runs {
            dropped.events += self.drop_run(t, first, last, &hash)?;
        }
        Ok(dropped)
    }

    /// Takes out a run of neighbours and writes down the hashes around it.
    fn drop_run(&self, t: &Connection, first: i64, last: i64, after: &Hash) -> Sql<usize> {
        let gaps = self.gaps;
        // A run that continues one makes it longer; one that meets the next one takes it over.
        let before: Option<(i64, Hash)> = t
            .prepare_cached(&format!(
                "SELECT first, hash_before FROM {gaps} WHERE last = ?1"
            ))?
            .query_row([first - 1], |row| Ok((row.get(0)?, hash_column(row, 1)?)))
            .optional()?;
        let (begin, hash_before) = match before {
            Some(gap) => gap,
            None if first == 1 => (first, [0; 32]),
            None => {
                let hash = t
                    .prepare_cached(&format!("SELECT hash FROM {} WHERE id = ?1", self.events))?
                    .query_row([first - 1], |row| hash_column(row, 0))?;
                (first, hash)
            }
        };
        let next: Option<(i64, Hash)> = t
            .prepare_cached(&format!(
                "SELECT last, hash_after FROM {gaps} WHERE first = ?1"
            ))?
            .query_row([last + 1], |row| Ok((row.get(0)?, hash_column(row, 1)?)))
            .optional()?;
        let (end, hash_after) = next.unwrap_or((last, *after));
        t.prepare_cached(&format!("DELETE FROM {gaps} WHERE first IN (?1, ?2)"))?
            .execute(params![begin, last + 1])?;
        t.prepare_cached(&format!(
            "INSERT INTO {gaps} (first, last, hash_before, hash_after) VALUES (?1, ?2, ?3, ?4)"
        ))?
        .execute(params![
            begin,
            end,
            hash_before.as_slice(),
            hash_after.as_slice()
        ])?;
        t.prepare_cached(&format!(
            "DELETE FROM {} WHERE id BETWEEN ?1 AND ?2",
            self.events
        ))?
        .execute(params![first, last])
    }

    /// Takes over where the next search begins, once the transaction is durable.
    pub(crate) fn dropped(&mut self, dropped: &Dropped) {
        self.looked_at = dropped.looked_at;
    }

    /// True for an event that was dropped for its age.
    pub(crate) fn is_dropped(&self, connection: &Connection, event: i64) -> Sql<bool> {
        connection
            .prepare_cached(&format!(
                "SELECT EXISTS (SELECT 1 FROM {} WHERE first <= ?1 AND last >= ?1)",
                self.gaps
            ))?
            .query_row([event], |row| row.get(0))
    }
}

/// Outcome of [`Chain::drop_old`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dropped {
    pub(crate) events: usize,
    looked_at: i64,
}

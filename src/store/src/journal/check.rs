//! Whether the journal is what was written.

use rusqlite::{params, Row};

use super::entry::{unpack, whole};
use super::ExecutorJournal;
use crate::chain::{hash_of, newest_event, Break, ChainHead};
use crate::error::StoreError;

/// What a whole check has found to be in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Events that are there.
    pub events: u64,
    /// Events that were dropped for their age.
    pub dropped: u64,
    /// Commands, each of which is as its last event left it.
    pub commands: u64,
    /// The newest event.
    pub head: ChainHead,
}

impl ExecutorJournal {
    /// The check at opening: the last events hold together, and no command is further on than they say.
    pub(super) fn check_end(&self) -> Result<(), StoreError> {
        let connection = self.database.connection();
        let check = || -> Result<Option<Break>, rusqlite::Error> {
            let folded_to = self.unfolded.folded_to;
            match self.chain.check_tail(connection, folded_to)? {
                Some(found) => Ok(Some(found)),
                None => {
                    let newest = newest_event(connection, "commands", "live")?;
                    Ok(self.chain.cut_off(newest.max(folded_to)))
                }
            }
        };
        let found = check().map_err(|e| self.database.error("checking the journal", &e))?;
        found.map_or(Ok(()), |found| Err(self.broken(found)))
    }

    /// Checks everything: the pages of the file, every link of the chain, the record of every event, and
    /// every command against its last event and its digest. Reads the whole file: seconds for a million
    /// events.
    ///
    /// # Errors
    /// [`StoreError::Broken`] with the first event that does not hold, [`StoreError::Corrupt`] for a
    /// damaged file, and why its tables can't be brought up to date.
    pub fn verify(&mut self) -> Result<Verified, StoreError> {
        self.fold()?;
        self.database.check()?;
        let connection = self.database.connection();
        let error = |e: rusqlite::Error| self.database.error("checking the journal", &e);
        let length = self
            .chain
            .check_all(connection)
            .map_err(error)?
            .map_err(|found| self.broken(found))?;
        match self.check_commands().map_err(error)? {
            Err(found) => Err(self.broken(found)),
            Ok(commands) => Ok(Verified {
                events: length.events,
                dropped: length.dropped,
                commands,
                head: self.chain.head,
            }),
        }
    }

    fn check_commands(&self) -> Result<Result<u64, Break>, rusqlite::Error> {
        let connection = self.database.connection();
        let broken = |event: i64, what: String| Ok(Err(Break { event, what }));
        let mut statement = connection.prepare(
            "SELECT id, subject, record, record_hash FROM events WHERE record IS NOT NULL ORDER BY id",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            if row.get_ref(3)?.as_blob()? != hash_of(row.get_ref(2)?.as_blob()?) {
                let id: String = row.get(1)?;
                return broken(
                    row.get(0)?,
                    format!("the record of command {id} was changed"),
                );
            }
        }
        let mut statement = connection.prepare(
            "SELECT c.command_id, c.last_event, c.record, c.record_hash, e.subject, e.record_hash,
                 c.digest, x.text, e.record
             FROM commands c LEFT JOIN events e ON e.id = c.last_event
                 LEFT JOIN command_texts x USING (number) ORDER BY c.last_event",
        )?;
        let mut rows = statement.query([])?;
        let mut commands = 0;
        while let Some(row) = rows.next()? {
            let id = row.get_ref(0)?.as_str()?;
            let last: i64 = row.get(1)?;
            let text = row.get_ref(2)?.as_str()?;
            let hash = hash_of(text.as_bytes());
            let kept = row.get_ref(3)?.as_blob()?;
            let subject: Option<String> = row.get(4)?;
            if let (None, Some(found)) = (&subject, self.chain.cut_off(last)) {
                return Ok(Err(found));
            }
            let digest = row.get_ref(6)?.as_str()?;
            let command = row.get_ref(7)?.as_str_or_null()?;
            if let Some(what) = other_command(text, command, digest) {
                return broken(last, format!("command {id}: {what}"));
            }
            match subject {
                Some(subject) if subject != id => {
                    return broken(last, format!("it is of {subject}, not of command {id}"))
                }
                Some(_) if !is_left_by(row, text, &hash)? => {
                    return broken(
                        last,
                        format!(
                            "the record of command {id} is not the one that this event left behind"
                        ),
                    );
                }
                None if !self.chain.is_dropped(connection, last)? => {
                    return broken(last, format!("the last event of command {id} is missing"));
                }
                Some(_) | None if kept != hash => {
                    return broken(last, format!("the record of command {id} was changed"));
                }
                Some(_) | None => {}
            }
            commands += 1;
        }
        let orphan = connection
            .prepare(
                "SELECT id, subject FROM events
                 WHERE NOT EXISTS (SELECT 1 FROM commands WHERE command_id = subject)
                 ORDER BY id LIMIT 1",
            )?
            .query_map(params![], |row| {
                Ok(Break {
                    event: row.get(0)?,
                    what: format!("its command {} is missing", row.get::<_, String>(1)?),
                })
            })?
            .next()
            .transpose()?;
        Ok(match orphan {
            Some(found) => Err(found),
            None => Ok(commands),
        })
    }

    pub(super) fn broken(&self, found: Break) -> StoreError {
        StoreError::Broken {
            path: self.database.path().to_path_buf(),
            event: found.event,
            what: found.what,
        }
    }
}

/// Whether the record of a command is the one that its last event has; an event of version 3 and before has
/// the hash of its text only.
fn is_left_by(row: &Row<'_>, text: &str, hash: &[u8; 32]) -> Result<bool, rusqlite::Error> {
    let command = row.get_ref(7)?.as_str_or_null()?;
    Ok(match row.get_ref(8)?.as_blob_or_null()? {
        None => row.get_ref(5)?.as_blob()? == hash,
        Some(packed) => {
            let left = command.and_then(|command| unpack(packed, command).ok());
            left.is_some() && left == whole(text, command).ok()
        }
    })
}

/// What is wrong with the command that a record is of. The record is held by the chain, the command by the
/// digest that the record carries.
fn other_command(record: &str, command: Option<&str>, digest: &str) -> Option<String> {
    match whole(record, command) {
        Err(e) => Some(format!("its text can't be read ({e})")),
        Ok(record) if record.digest != digest || record.command.digest() != digest => Some(
            format!("its text is not the one with digest {digest}, which was received"),
        ),
        Ok(_) => None,
    }
}

//! Whether the harness's file is what was written.

use super::HarnessStore;
use crate::chain::{hash_of, newest_event, Break, Chain, ChainHead, ChainLength};
use crate::error::StoreError;

/// What a whole check has found to be in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HarnessVerified {
    /// Events of the session logs.
    pub session_events: ChainLength,
    /// The newest of them.
    pub session_head: ChainHead,
    /// States of commands.
    pub command_events: ChainLength,
    /// The newest of them.
    pub command_head: ChainHead,
    /// Commands, each of which is as its last event left it.
    pub commands: u64,
}

impl HarnessStore {
    pub(super) fn check_end(&self) -> Result<(), StoreError> {
        let connection = self.db.connection();
        let check = || -> Result<Option<Break>, rusqlite::Error> {
            for chain in [&self.sessions, &self.commands] {
                if let Some(found) = chain.check_tail(connection, i64::MAX)? {
                    return Ok(Some(found));
                }
            }
            let newest = newest_event(connection, "command", "open")?;
            Ok(self.commands.cut_off(newest))
        };
        let found = check().map_err(|e| self.db.error("checking the ledger", &e))?;
        found.map_or(Ok(()), |found| Err(self.broken(found)))
    }

    /// Checks everything: the pages of the file, every link of both chains, and every command against its
    /// last event. Reads the whole file.
    ///
    /// # Errors
    /// [`StoreError::Broken`] with the first event that does not hold, [`StoreError::Corrupt`] for a
    /// damaged file.
    pub fn verify(&self) -> Result<HarnessVerified, StoreError> {
        self.db.check()?;
        let error = |e: rusqlite::Error| self.db.error("checking the ledger", &e);
        let whole = |chain: &Chain| {
            chain
                .check_all(self.db.connection())
                .map_err(error)?
                .map_err(|found| self.broken(found))
        };
        let session_events = whole(&self.sessions)?;
        let command_events = whole(&self.commands)?;
        let commands = self
            .check_commands()
            .map_err(error)?
            .map_err(|found| self.broken(found))?;
        Ok(HarnessVerified {
            session_events,
            session_head: self.sessions.head,
            command_events,
            command_head: self.commands.head,
            commands,
        })
    }

    fn check_commands(&self) -> Result<Result<u64, Break>, rusqlite::Error> {
        let connection = self.db.connection();
        let mut statement = connection.prepare(
            "SELECT c.command_id, c.last_event, c.record, c.record_hash, e.subject, e.record_hash
             FROM command c LEFT JOIN command_events e ON e.id = c.last_event
             ORDER BY c.last_event",
        )?;
        let mut rows = statement.query([])?;
        let mut commands = 0;
        while let Some(row) = rows.next()? {
            let id = row.get_ref(0)?.as_str()?;
            let last: i64 = row.get(1)?;
            let hash = hash_of(row.get_ref(2)?.as_str()?.as_bytes());
            let kept = row.get_ref(3)?.as_blob()? == hash;
            let subject: Option<String> = row.get(4)?;
            let what = match subject {
                Some(subject) if subject != id => {
                    format!("it is of {subject}, not of command {id}")
                }
                Some(_) if kept && row.get_ref(5)?.as_blob()? == hash => {
                    commands += 1;
                    continue;
                }
                None if kept && self.commands.is_dropped(connection, last)? => {
                    commands += 1;
                    continue;
                }
                Some(_) => {
                    format!("the record of command {id} is not the one that this event left behind")
                }
                None => {
                    format!("the last event of command {id} is missing, or its record was changed")
                }
            };
            return Ok(Err(Break { event: last, what }));
        }
        Ok(Ok(commands))
    }

    fn broken(&self, found: Break) -> StoreError {
        StoreError::Broken {
            path: self.db.path().to_path_buf(),
            event: found.event,
            what: found.what,
        }
    }
}

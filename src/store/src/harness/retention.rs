//! How much of the past the harness's file keeps.

use std::time::Duration;

use eh_contract::Stamp;
use rusqlite::params;

use super::{to_sql, HarnessStore};
use crate::chain::Old;
use crate::error::StoreError;
use crate::journal::Retention;

/// What was dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HarnessCompacted {
    /// Events of session logs.
    pub session_events: usize,
    /// States of commands.
    pub command_events: usize,
    /// Commands that are remembered no more.
    pub commands: usize,
}

/// Events of each chain that are looked at in one go.
const EVENTS_AT_ONCE: u32 = 1024;
/// Commands that are forgotten in one go.
const COMMANDS_AT_ONCE: u32 = 64;

impl HarnessStore {
    /// Sets how much is kept; what is too much then is dropped bit by bit.
    pub fn set_retention(&mut self, retention: Retention) {
        self.retention = retention;
    }

    /// Drops some of what is old: events of tasks that have ended, and of commands that are terminal and
    /// released. It is done by itself when a task ends.
    ///
    /// # Errors
    /// [`StoreError`]; then nothing is dropped.
    pub fn compact(&mut self, now: Stamp) -> Result<HarnessCompacted, StoreError> {
        let keep = self.retention;
        let before = |age: Duration| {
            now.0
                .saturating_sub(i64::try_from(age.as_nanos()).unwrap_or(i64::MAX))
        };
        let old = |head: i64| Old {
            up_to: head.saturating_sub(to_sql(keep.events)),
            before: before(keep.event_age),
        };
        let (sessions, commands) = (&self.sessions, &self.commands);
        let (session_events, command_events, forgotten) =
            self.db.write("dropping old events", |t| {
                let of_tasks = sessions.drop_old(
                    t,
                    old(sessions.head.id),
                    EVENTS_AT_ONCE,
                    |t, id| {
                        t.prepare_cached(
                            "SELECT EXISTS (SELECT 1 FROM task WHERE task_id = ?1 AND running = 1)",
                        )?
                        .query_row([id], |row| row.get(0))
                    },
                )?;
                let of_commands = commands.drop_old(
                    t,
                    old(commands.head.id),
                    EVENTS_AT_ONCE,
                    |t, id| {
                        t.prepare_cached(
                            "SELECT EXISTS (SELECT 1 FROM command WHERE command_id = ?1 AND open = 1)",
                        )?
                        .query_row([id], |row| row.get(0))
                    },
                )?;
                let ids: Vec<String> = t
                    .prepare_cached(
                        "SELECT command_id FROM command
                         WHERE open = 0 AND last_event <= ?1 AND settled_at <= ?2
                         AND NOT EXISTS (SELECT 1 FROM command_events WHERE id = last_event)
                         ORDER BY last_event LIMIT ?3",
                    )?
                    .query_map(
                        params![
                            commands.head.id.saturating_sub(to_sql(keep.remembered_events)),
                            before(keep.remembered_for),
                            COMMANDS_AT_ONCE
                        ],
                        |row| row.get(0),
                    )?
                    .collect::<Result<_, _>>()?;
                for id in &ids {
                    t.prepare_cached("DELETE FROM goal WHERE command_id = ?1")?
                        .execute([id])?;
                    t.prepare_cached("DELETE FROM command WHERE command_id = ?1")?
                        .execute([id])?;
                }
                Ok((of_tasks, of_commands, ids.len()))
            })?;
        self.sessions.dropped(&session_events);
        self.commands.dropped(&command_events);
        Ok(HarnessCompacted {
            session_events: session_events.events,
            command_events: command_events.events,
            commands: forgotten,
        })
    }
}

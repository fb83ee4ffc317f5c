//! How much of the past the journal keeps.

use std::time::Duration;

use eh_contract::Stamp;
use rusqlite::params;

use super::ExecutorJournal;
use crate::chain::Old;
use crate::error::StoreError;
use crate::harness::to_sql;

/// How much of the past is kept. Commands that are not over keep everything, however old they are.
///
/// Ages are counted in ROS time as it was when each event was written: a clock that is set back makes
/// nothing older.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// An event of a command that is over is dropped when this many newer ones are there ...
    pub events: u64,
    /// ... or when it is older than this.
    pub event_age: Duration,
    /// The id, digest, end and goal UUIDs of a command are remembered while no more than this many events
    /// came after it ...
    pub remembered_events: u64,
    /// ... and in any case for this long. Whatever comes later is refused for its age: nothing starts after
    /// its `start_within`, counted from a beacon of this life of the executor.
    pub remembered_for: Duration,
}

impl Default for Retention {
    /// 200,000 events and 30 days; ids for 400,000 events and at least 30 days. With about 8 events and
    /// 3 kB a command that is some 250 MB.
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 3600);
        Retention {
            events: 200_000,
            event_age: DAY * 30,
            remembered_events: 400_000,
            remembered_for: DAY * 30,
        }
    }
}

/// What was dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Events.
    pub events: usize,
    /// Commands that are remembered no more.
    pub commands: usize,
}

/// Events that are looked at in one go, so that no append waits long.
const EVENTS_AT_ONCE: u32 = 1024;
/// Commands that are forgotten in one go.
const COMMANDS_AT_ONCE: u32 = 256;
/// Events after which room is made again.
const EVERY: i64 = 256;

impl ExecutorJournal {
    /// Sets how much is kept; what is too much then is dropped bit by bit.
    pub fn set_retention(&mut self, retention: Retention) {
        self.retention = retention;
    }

    /// Drops some of what is old: at most 1,024 events and 256 commands, so that it takes milliseconds. It is
    /// done by itself while commands end; call it until it drops nothing to have it all at once.
    ///
    /// # Errors
    /// [`StoreError`]; then nothing is dropped.
    pub fn compact(&mut self, now: Stamp) -> Result<Compacted, StoreError> {
        // What is dropped is decided by the tables.
        self.fold()?;
        let keep = self.retention;
        let head = self.chain.head.id;
        let before = |age: Duration| {
            now.0
                .saturating_sub(i64::try_from(age.as_nanos()).unwrap_or(i64::MAX))
        };
        let old = Old {
            up_to: head.saturating_sub(to_sql(keep.events)),
            before: before(keep.event_age),
        };
        let chain = &self.chain;
        let (events, commands) = self.database.write("dropping old events", |t| {
            let dropped = chain.drop_old(t, old, EVENTS_AT_ONCE, |t, id| {
                t.prepare_cached(
                    "SELECT EXISTS (SELECT 1 FROM commands WHERE command_id = ?1 AND live = 1)",
                )?
                .query_row([id], |row| row.get(0))
            })?;
            let mut forgotten = 0;
            let ids: Vec<String> = t
                .prepare_cached(
                    "SELECT command_id FROM commands
                     WHERE live = 0 AND last_event <= ?1 AND updated_at <= ?2
                     AND NOT EXISTS (SELECT 1 FROM events WHERE id = last_event)
                     ORDER BY last_event LIMIT ?3",
                )?
                .query_map(
                    params![
                        head.saturating_sub(to_sql(keep.remembered_events)),
                        before(keep.remembered_for),
                        COMMANDS_AT_ONCE
                    ],
                    |row| row.get(0),
                )?
                .collect::<Result<_, _>>()?;
            for id in &ids {
                t.prepare_cached("DELETE FROM sub_goals WHERE command_id = ?1")?
                    .execute([id])?;
                t.prepare_cached(
                    "DELETE FROM command_texts
                     WHERE number = (SELECT number FROM commands WHERE command_id = ?1)",
                )?
                .execute([id])?;
                forgotten += t
                    .prepare_cached("DELETE FROM commands WHERE command_id = ?1")?
                    .execute([id])?;
            }
            Ok((dropped, forgotten))
        })?;
        self.chain.dropped(&events);
        Ok(Compacted {
            events: events.events,
            commands,
        })
    }

    pub(super) fn make_room(&mut self, now: Stamp) {
        if self.chain.head.id < self.room_made_at.saturating_add(EVERY) {
            return;
        }
        self.room_made_at = self.chain.head.id;
        // What can't be dropped now is dropped later; what was written is durable all the same.
        let _ = self.compact(now);
    }
}

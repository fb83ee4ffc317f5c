//! The issuer's ledger on disk: each command with its digest, its state and the UUID of each goal, all
//! durable before anything is sent.

use eh_contract::Stamp;
use eh_ledger::issuer::{state_name, IssuerRecord, KeyTimes};
use rusqlite::{params, OptionalExtension};

use crate::chain::{hash_of, Link};
use crate::error::StoreError;
use crate::harness::{to_sql, HarnessStore};

impl HarnessStore {
    /// Writes a command as it stands and returns after it is durable.
    ///
    /// # Errors
    /// [`StoreError::Duplicate`] when a goal's UUID is known from another command or segment, when the
    /// stored command has another digest, or when it is terminal already and would change; nothing is
    /// written then. Else what the disk says.
    pub fn save_command(&mut self, record: &IssuerRecord) -> Result<(), StoreError> {
        let id = record.command_id();
        let json = serde_json::to_string(record)
            .map_err(|e| self.db.bad_record(format!("command {id}"), e))?;
        let known: Option<(String, bool, u8, i64, i64)> = self
            .db
            .connection()
            .query_row(
                "SELECT digest, terminal, state, sequence, last_event
                 FROM command WHERE command_id = ?1",
                [id],
                |row| {
                    Ok((
                        row.get(0)?,
                        row.get(1)?,
                        row.get(2)?,
                        row.get(3)?,
                        row.get(4)?,
                    ))
                },
            )
            .optional()
            .map_err(|e| self.db.error("looking for a command", &e))?;
        let mut previous = 0;
        if let Some((digest, terminal, state, sequence, last_event)) = known {
            if digest != record.digest {
                return Err(self.duplicate(format!("command {id} with another digest")));
            }
            if terminal && state != record.state.to_wire() {
                return Err(self.duplicate(format!("a final state of command {id}")));
            }
            if sequence > to_sql(record.sequence) {
                return Err(self.duplicate(format!(
                    "change {sequence} of command {id}, which is newer than {}",
                    record.sequence
                )));
            }
            previous = last_event;
        }
        for goal in &record.goals {
            let owner: Option<(String, u32)> = self
                .db
                .connection()
                .query_row(
                    "SELECT command_id, segment FROM goal WHERE goal_id = ?1",
                    [goal.goal_id.as_slice()],
                    |row| Ok((row.get(0)?, row.get(1)?)),
                )
                .optional()
                .map_err(|e| self.db.error("looking for a goal", &e))?;
            if owner.is_some_and(|o| o != (id.to_owned(), goal.segment)) {
                return Err(self.duplicate(format!("the UUID of a goal of command {id}")));
            }
        }
        let record_hash = hash_of(json.as_bytes());
        let link = Link {
            subject: id,
            sequence: to_sql(record.sequence),
            stamp: newest(&record.times).0,
            kind: state_name(record.state),
            details: "{}",
            record_hash: &record_hash,
            previous,
        };
        let chain = &self.commands;
        let head = self.db.write("saving a command", |t| {
            let head = chain.add(t, &chain.head, &link)?;
            t.prepare_cached(
                "INSERT INTO command
                     (command_id, task_id, digest, state, terminal, open, sequence, settled_at, record,
                      last_event, record_hash)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
                 ON CONFLICT (command_id) DO UPDATE SET
                     state = excluded.state, terminal = excluded.terminal, open = excluded.open,
                     sequence = excluded.sequence, settled_at = excluded.settled_at,
                     record = excluded.record, last_event = excluded.last_event,
                     record_hash = excluded.record_hash",
            )?
            .execute(params![
                id,
                record.command.task_id,
                record.digest,
                record.state.to_wire(),
                record.state.is_terminal(),
                !record.state.is_terminal() || record.settle_pending.is_some(),
                to_sql(record.sequence),
                record.times.settled.0,
                json,
                head.id,
                record_hash.as_slice(),
            ])?;
            for goal in &record.goals {
                t.prepare_cached(
                    "INSERT INTO goal (goal_id, command_id, segment) VALUES (?1, ?2, ?3)
                     ON CONFLICT (goal_id) DO NOTHING",
                )?
                .execute(params![goal.goal_id.as_slice(), id, goal.segment])?;
            }
            Ok(head)
        })?;
        self.commands.head = head;
        Ok(())
    }

    fn duplicate(&self, what: String) -> StoreError {
        StoreError::Duplicate {
            path: self.db.path().to_path_buf(),
            what,
        }
    }

    /// One command.
    ///
    /// # Errors
    /// [`StoreError`] when the file or the record can't be read.
    pub fn command(&self, command_id: &str) -> Result<Option<IssuerRecord>, StoreError> {
        let json: Option<String> = self
            .db
            .connection()
            .query_row(
                "SELECT record FROM command WHERE command_id = ?1",
                [command_id],
                |row| row.get(0),
            )
            .optional()
            .map_err(|e| self.db.error("reading a command", &e))?;
        json.map(|j| self.read_command(&j)).transpose()
    }

    /// Every command that is not terminal or that its executor has not released, in the order of the ids.
    ///
    /// # Errors
    /// [`StoreError`] when the file or a record can't be read.
    pub fn open_commands(&self) -> Result<Vec<IssuerRecord>, StoreError> {
        self.commands(
            "SELECT record FROM command WHERE open = 1 ORDER BY command_id",
            1,
        )
    }

    /// The newest `limit` commands that are terminal, newest first.
    ///
    /// # Errors
    /// [`StoreError`] when the file or a record can't be read.
    pub fn newest_ended_commands(&self, limit: u32) -> Result<Vec<IssuerRecord>, StoreError> {
        self.commands(
            "SELECT record FROM command WHERE open = 0
             ORDER BY last_event DESC LIMIT ?1",
            limit,
        )
    }

    fn commands(&self, sql: &str, limit: u32) -> Result<Vec<IssuerRecord>, StoreError> {
        let error = |e: rusqlite::Error| self.db.error("reading commands", &e);
        let mut statement = self.db.connection().prepare(sql).map_err(error)?;
        let count = statement.parameter_count();
        let limit = [limit];
        let parameters: &[u32] = if count == 0 { &[] } else { &limit };
        let rows = statement
            .query_map(rusqlite::params_from_iter(parameters), |row| {
                row.get::<_, String>(0)
            })
            .map_err(error)?;
        rows.map(|json| self.read_command(&json.map_err(error)?))
            .collect()
    }

    fn read_command(&self, json: &str) -> Result<IssuerRecord, StoreError> {
        serde_json::from_str(json).map_err(|e| self.db.bad_record("a command", e))
    }
}

/// When it changed last: its newest key time.
fn newest(times: &KeyTimes) -> Stamp {
    [
        times.proposed,
        times.committed,
        times.dispatched,
        times.received,
        times.started,
        times.cancel_requested,
        times.stop_confirmed,
        times.control_ended,
        times.judged,
        times.settled,
    ]
    .into_iter()
    .max()
    .unwrap_or(Stamp::NEVER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use eh_contract::command::SkillCommand;
    use eh_contract::state::CommandState;
    use eh_ledger::issuer::Issue;
    use eh_ledger::issuer_event::IssuerEvent;
    use eh_ledger::issuer_policy::{IssuerPolicy, Now};

    fn record(id: &str) -> IssuerRecord {
        IssuerRecord::new(
            Issue {
                command: SkillCommand {
                    schema_version: 1,
                    command_id: id.into(),
                    task_id: "t1".into(),
                    robot_id: "robot".into(),
                    skill: "wait".into(),
                    skill_version: "1.0.0".into(),
                    arguments: serde_json::Map::new(),
                    targets: vec![],
                    preconditions: vec![],
                    world_version: 3,
                    plan_version: 1,
                    start_within: Duration::from_secs(1),
                    execution_timeout: Duration::ZERO,
                    stop_timeout: Duration::ZERO,
                    max_segments: 0,
                },
                action_name: "n/execute_skill".into(),
                executor: "/n".into(),
                boot_id: "b".into(),
                resources: vec!["base".into()],
                evaluated: false,
                max_segments: 0,
                maximum_duration: Duration::from_secs(10),
            },
            Now::default(),
        )
    }

    fn apply(record: &mut IssuerRecord, event: IssuerEvent) {
        record
            .apply(event, &IssuerPolicy::default(), Now::default())
            .unwrap();
    }

    #[test]
    fn a_dispatched_command_is_there_after_a_restart_with_its_uuid() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("harness.sqlite");
        let mut store = HarnessStore::open(&path).unwrap();
        let mut one = record("c1");
        apply(&mut one, IssuerEvent::Commit);
        store.save_command(&one).unwrap();
        apply(&mut one, IssuerEvent::Dispatch { goal_id: [7; 16] });
        store.save_command(&one).unwrap();
        // As after a crash: no orderly end.
        drop(store);
        let store = HarnessStore::open(&path).unwrap();
        let back = store.command("c1").unwrap().unwrap();
        assert_eq!(back.state, CommandState::Dispatched);
        assert_eq!(back.goal_id(), Some([7; 16]));
        assert_eq!(back.digest, one.command.digest());
        assert_eq!(back.command.digest(), one.digest);
        assert_eq!(store.open_commands().unwrap().len(), 1);
        assert!(store.newest_ended_commands(10).unwrap().is_empty());
    }

    #[test]
    fn uuids_digests_and_final_states_are_written_once() {
        let mut store = HarnessStore::in_memory().unwrap();
        let mut one = record("c1");
        apply(&mut one, IssuerEvent::Commit);
        apply(&mut one, IssuerEvent::Dispatch { goal_id: [7; 16] });
        store.save_command(&one).unwrap();
        let mut two = record("c2");
        apply(&mut two, IssuerEvent::Commit);
        apply(&mut two, IssuerEvent::Dispatch { goal_id: [7; 16] });
        assert!(matches!(
            store.save_command(&two),
            Err(StoreError::Duplicate { .. })
        ));
        assert!(store.command("c2").unwrap().is_none());

        let mut other = one.clone();
        other.digest = "0".into();
        assert!(store.save_command(&other).is_err());

        let mut ended = one.clone();
        ended.state = CommandState::Failed;
        store.save_command(&ended).unwrap();
        assert!(store.save_command(&one).is_err());
        assert_eq!(
            store.command("c1").unwrap().unwrap().state,
            CommandState::Failed
        );
        assert_eq!(store.newest_ended_commands(1).unwrap().len(), 1);
    }
}

//! Tasks and their append-only session logs on disk.

use eh_contract::session::{SessionEvent, TaskRecord};
use rusqlite::{params, OptionalExtension};

use crate::chain::Link;
use crate::error::StoreError;
use crate::harness::{to_sql, HarnessStore};

impl HarnessStore {
    /// Writes a task as it stands and returns after it is durable.
    ///
    /// # Errors
    /// [`StoreError`] when the disk refuses it.
    pub fn save_task(&mut self, task: &TaskRecord) -> Result<(), StoreError> {
        let json = serde_json::to_string(task).map_err(|e| {
            self.db
                .bad_record(format!("task {}", task.request.task_id), e)
        })?;
        self.db.write("saving a task", |t| {
            t.prepare_cached(
                "INSERT INTO task (task_id, running, received_at, record) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (task_id) DO UPDATE SET
                     running = excluded.running, record = excluded.record",
            )?
            .execute(params![
                task.request.task_id,
                task.is_running(),
                task.received_at.0,
                json
            ])?;
            Ok(())
        })?;
        if !task.is_running() {
            // The end of a task is the moment to make room. What can't be dropped now is dropped later; the
            // task is durable all the same.
            let _ = self.compact(task.ended_at);
        }
        Ok(())
    }

    /// One task.
    ///
    /// # Errors
    /// [`StoreError`] when the file or the record can't be read.
    pub fn task(&self, task_id: &str) -> Result<Option<TaskRecord>, StoreError> {
        self.one_task("SELECT record FROM task WHERE task_id = ?1", &[task_id])
    }

    /// The task that was taken last.
    ///
    /// # Errors
    /// [`StoreError`] when the file or the record can't be read.
    pub fn last_task(&self) -> Result<Option<TaskRecord>, StoreError> {
        self.one_task(
            "SELECT record FROM task ORDER BY received_at DESC, rowid DESC LIMIT 1",
            &[],
        )
    }

    /// Tasks that had not ended when the process that ran them did.
    ///
    /// # Errors
    /// [`StoreError`] when the file or a record can't be read.
    pub fn running_tasks(&self) -> Result<Vec<TaskRecord>, StoreError> {
        let error = |e: rusqlite::Error| self.db.error("reading tasks", &e);
        let mut statement = self
            .db
            .connection()
            .prepare("SELECT record FROM task WHERE running = 1 ORDER BY received_at, rowid")
            .map_err(error)?;
        let rows = statement
            .query_map([], |row| row.get::<_, String>(0))
            .map_err(error)?;
        rows.map(|json| self.read_task(&json.map_err(error)?))
            .collect()
    }

    fn one_task(&self, sql: &str, parameters: &[&str]) -> Result<Option<TaskRecord>, StoreError> {
        let json: Option<String> = self
            .db
            .connection()
            .query_row(sql, rusqlite::params_from_iter(parameters), |row| {
                row.get(0)
            })
            .optional()
            .map_err(|e| self.db.error("reading a task", &e))?;
        json.map(|j| self.read_task(&j)).transpose()
    }

    fn read_task(&self, json: &str) -> Result<TaskRecord, StoreError> {
        serde_json::from_str(json).map_err(|e| self.db.bad_record("a task", e))
    }

    /// Appends events to their tasks' logs, all or none, and returns after they are durable.
    ///
    /// # Errors
    /// [`StoreError::Duplicate`] for an event whose sequence is not the one after the last of its task;
    /// nothing is written then. Else what the disk says.
    pub fn append_events(&mut self, events: &[SessionEvent]) -> Result<(), StoreError> {
        let mut rows = Vec::with_capacity(events.len());
        for (i, event) in events.iter().enumerate() {
            let before = events
                .iter()
                .take(i)
                .rev()
                .find(|e| e.task_id == event.task_id)
                .map(|e| e.sequence);
            let last = match before {
                Some(sequence) => sequence,
                None => self.last_sequence(&event.task_id)?,
            };
            if event.sequence != last.saturating_add(1) {
                return Err(StoreError::Duplicate {
                    path: self.db.path().to_path_buf(),
                    what: format!(
                        "event {} of task {} (the next one is {})",
                        event.sequence,
                        event.task_id,
                        last.saturating_add(1)
                    ),
                });
            }
            let json = serde_json::to_string(event)
                .map_err(|e| self.db.bad_record(format!("task {}", event.task_id), e))?;
            rows.push((event, json));
        }
        let chain = &self.sessions;
        let head = self.db.write("appending events", |t| {
            let mut head = chain.head;
            for (event, json) in &rows {
                let previous = t
                    .prepare_cached(
                        "SELECT id FROM session_events WHERE subject = ?1 AND sequence = ?2",
                    )?
                    .query_row(
                        params![event.task_id, to_sql(event.sequence.saturating_sub(1))],
                        |row| row.get(0),
                    )
                    .optional()?
                    .unwrap_or(0);
                let link = Link {
                    subject: &event.task_id,
                    sequence: to_sql(event.sequence),
                    stamp: event.stamp.0,
                    kind: event.kind.name(),
                    details: json,
                    record_hash: &[],
                    previous,
                };
                head = chain.add(t, &head, &link)?;
            }
            Ok(head)
        })?;
        self.sessions.head = head;
        Ok(())
    }

    /// Sequence of the last event of a task; 0 when it has none.
    ///
    /// # Errors
    /// [`StoreError`] when the file can't be read.
    pub fn last_sequence(&self, task_id: &str) -> Result<u64, StoreError> {
        let last: i64 = self
            .db
            .connection()
            .query_row(
                "SELECT coalesce(max(sequence), 0) FROM session_events WHERE subject = ?1",
                [task_id],
                |row| row.get(0),
            )
            .map_err(|e| self.db.error("reading the last event", &e))?;
        Ok(u64::try_from(last).unwrap_or(0))
    }

    /// Events of a task from a sequence on, in order.
    ///
    /// # Errors
    /// [`StoreError`] when the file or a record can't be read.
    pub fn events(&self, task_id: &str, from: u64) -> Result<Vec<SessionEvent>, StoreError> {
        let error = |e: rusqlite::Error| self.db.error("reading events", &e);
        let mut statement = self
            .db
            .connection()
            .prepare(
                "SELECT details FROM session_events WHERE subject = ?1 AND sequence >= ?2
                 ORDER BY sequence",
            )
            .map_err(error)?;
        let rows = statement
            .query_map(params![task_id, to_sql(from)], |row| {
                row.get::<_, String>(0)
            })
            .map_err(error)?;
        rows.map(|json| {
            serde_json::from_str(&json.map_err(error)?)
                .map_err(|e| self.db.bad_record("an event", e))
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eh_contract::session::{EventKind, StepReport, TaskRequest};
    use eh_contract::state::TaskOutcome;
    use eh_contract::Stamp;

    fn task(id: &str, at: i64) -> TaskRecord {
        TaskRecord {
            request: TaskRequest {
                task_id: id.into(),
                instruction: "去厨房拿杯子".into(),
                ..TaskRequest::default()
            },
            received_at: Stamp(at),
            ..TaskRecord::default()
        }
    }

    fn event(task_id: &str, sequence: u64) -> SessionEvent {
        SessionEvent {
            robot_id: "robot".into(),
            task_id: task_id.into(),
            command_id: String::new(),
            run_id: String::new(),
            plan_version: 0,
            sequence,
            stamp: Stamp(5),
            kind: EventKind::Plan,
            text: "x".into(),
            payload: serde_json::json!({"a": 1}),
            model_version: String::new(),
            config_version: String::new(),
            evidence: vec![],
        }
    }

    #[test]
    fn a_task_is_answered_for_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("harness.sqlite");
        let mut store = HarnessStore::open(&path).unwrap();
        store.save_task(&task("a", 1)).unwrap();
        store.save_task(&task("b", 2)).unwrap();
        let mut done = task("a", 1);
        done.outcome = TaskOutcome::Succeeded;
        done.steps = vec![StepReport {
            step: 1,
            skill: "pick".into(),
            ..StepReport::default()
        }];
        store.save_task(&done).unwrap();
        drop(store);
        let store = HarnessStore::open(&path).unwrap();
        assert_eq!(store.task("a").unwrap(), Some(done));
        assert_eq!(store.last_task().unwrap().unwrap().request.task_id, "b");
        let running = store.running_tasks().unwrap();
        assert_eq!(running.len(), 1);
        assert_eq!(running[0].request.instruction, "去厨房拿杯子");
        assert_eq!(store.task("c").unwrap(), None);
    }

    #[test]
    fn events_are_appended_without_a_gap_and_never_twice() {
        let mut store = HarnessStore::in_memory().unwrap();
        store
            .append_events(&[event("a", 1), event("b", 1), event("a", 2)])
            .unwrap();
        for bad in [event("a", 2), event("a", 4), event("a", 0), event("c", 2)] {
            assert!(matches!(
                store.append_events(&[event("b", 2), bad]),
                Err(StoreError::Duplicate { .. })
            ));
        }
        // Of a batch that was refused nothing was kept.
        assert_eq!(store.last_sequence("b").unwrap(), 1);
        store.append_events(&[event("a", 3)]).unwrap();
        let from_two = store.events("a", 2).unwrap();
        assert_eq!(
            from_two.iter().map(|e| e.sequence).collect::<Vec<_>>(),
            [2, 3]
        );
        assert_eq!(from_two[0], event("a", 2));
    }
}

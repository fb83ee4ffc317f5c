//! What is on the harness's disk, as its store gives it out.

use std::collections::{BTreeMap, BTreeSet};

use eh_contract::session::TaskRecord;
use eh_harness::checkpoint::command_in_work;
use eh_harness::Restored;
use eh_ledger::issuer::IssuerRecord;

use crate::context::HarnessWrite;

/// What a new life takes up: open commands and running tasks, as they come back from their text.
pub fn restored(written: &[HarnessWrite]) -> Restored {
    let mut commands: BTreeMap<&str, &IssuerRecord> = BTreeMap::new();
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    for write in written {
        match write {
            HarnessWrite::Command(record) => {
                commands.insert(record.command_id(), record);
            }
            HarnessWrite::Task(_) => {}
            HarnessWrite::Events(events) => {
                for event in events {
                    let sequence = last.entry(&event.task_id).or_default();
                    *sequence = (*sequence).max(event.sequence);
                }
            }
        }
    }
    let tasks: Vec<TaskRecord> = tasks(written)
        .into_values()
        .filter(TaskRecord::is_running)
        .collect();
    let in_work: BTreeSet<String> = tasks.iter().filter_map(command_in_work).collect();
    let commands: Vec<IssuerRecord> = commands
        .into_values()
        .filter(|r| {
            let open = !r.state.is_terminal() || r.settle_pending.is_some();
            open || in_work.contains(r.command_id())
        })
        .filter_map(through_text)
        .collect();
    let sequences = commands
        .iter()
        .map(|c| &c.command.task_id)
        .chain(tasks.iter().map(|t| &t.request.task_id))
        .map(|id| (id.clone(), last.get(id.as_str()).copied().unwrap_or(0)))
        .collect();
    Restored {
        commands,
        tasks,
        sequences,
    }
}

/// Every task by its name, as it was written last.
pub fn tasks(written: &[HarnessWrite]) -> BTreeMap<String, TaskRecord> {
    let mut tasks: BTreeMap<&str, &TaskRecord> = BTreeMap::new();
    for write in written {
        if let HarnessWrite::Task(record) = write {
            tasks.insert(&record.request.task_id, record);
        }
    }
    tasks
        .into_iter()
        .filter_map(|(id, record)| Some((id.to_owned(), through_text(record)?)))
        .collect()
}

/// A command as it was written last.
pub fn last_command<'a>(written: &'a [HarnessWrite], command_id: &str) -> Option<&'a IssuerRecord> {
    written.iter().rev().find_map(|write| match write {
        HarnessWrite::Command(record) if record.command_id() == command_id => Some(&**record),
        HarnessWrite::Command(_) | HarnessWrite::Task(_) | HarnessWrite::Events(_) => None,
    })
}

/// What a record is after it went to the disk and back: fields that are not stored are lost.
pub fn through_text<T: serde::Serialize + serde::de::DeserializeOwned>(record: &T) -> Option<T> {
    serde_json::from_value(serde_json::to_value(record).ok()?).ok()
}

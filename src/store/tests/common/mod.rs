//! The life of a command as an executor journals it: a pick with three goals.
#![allow(dead_code, reason = "each user of this file uses a part of it")]

use std::time::Duration;

use eh_contract::command::{Precondition, SkillCommand, Support, TargetBinding, SCHEMA_VERSION};
use eh_contract::geometry::{Pose, Vec3};
use eh_contract::scene::Kind;
use eh_contract::skill::DisconnectPolicy;
use eh_contract::Stamp;
use eh_ledger::executor::{
    goal_status, step, ExecutorEvent, ExecutorRecord, FinalState, GoalId, StopCause,
};
use eh_store::{ExecutorJournal, JournalEntry, StoreError};

/// Events of a whole life.
pub const EVENTS: usize = 11;

pub fn command(id: &str) -> SkillCommand {
    let size = Vec3 {
        x: 0.08,
        y: 0.08,
        z: 0.12,
    };
    let pose = Pose::planar(4.271_203, 1.118_57, 0.51);
    SkillCommand {
        schema_version: SCHEMA_VERSION,
        command_id: id.into(),
        task_id: "task-7b1d9a52-5f43-4a7e-9a0e-0f5f0c1f2a11".into(),
        robot_id: "robot_1".into(),
        skill: "pick".into(),
        skill_version: "1.0.0".into(),
        arguments: [("object".to_owned(), "cup_1".into())]
            .into_iter()
            .collect(),
        targets: vec![TargetBinding {
            argument: "object".into(),
            r#ref: "cup_1".into(),
            class_name: "cup".into(),
            kind: Kind::Object,
            version: 42,
            frame_id: "map".into(),
            pose,
            size,
            last_seen: Stamp(1_700_000_000_000_000_000),
            support: Some(Support {
                r#ref: "table_1".into(),
                pose,
                size,
            }),
        }],
        preconditions: vec![Precondition {
            r#ref: "cup_1".into(),
            version: 42,
            same_version: false,
            max_age: Duration::from_secs(30),
            max_displacement: 0.05,
            predicates: serde_json::json!({"near": {"target": "cup_1", "max_distance": 0.8}}),
        }],
        world_version: 1234,
        plan_version: 3,
        start_within: Duration::from_secs(2),
        execution_timeout: Duration::from_secs(60),
        stop_timeout: Duration::from_secs(3),
        max_segments: 0,
    }
}

/// A UUID that no other command and goal has.
pub fn uuid(command: u64, goal: u8) -> GoalId {
    let mut id = [goal; 16];
    id[..8].copy_from_slice(&(command + 1).to_be_bytes());
    id
}

pub fn received(id: &str) -> ExecutorRecord {
    let boot = "0d7cba1f-a5b1-4d8f-8f7a-86b86ea0c7e1";
    ExecutorRecord::received(command(id), 0, boot, 9, "/harness_node", Stamp(1))
}

/// The events of a whole life after RECEIVED; a command that stops before the last one is live.
pub fn events(number: u64) -> Vec<ExecutorEvent> {
    let mut events = vec![
        ExecutorEvent::Accept {
            resources: vec!["arm".into(), "gripper".into()],
            disconnect_policy: DisconnectPolicy::Hold,
        },
        ExecutorEvent::Start {
            run_id: format!("run-{number}"),
        },
    ];
    for (n, (name, action)) in [
        ("open", "/gripper_controller/gripper_cmd"),
        ("approach", "/move_action"),
        ("close", "/gripper_controller/gripper_cmd"),
    ]
    .into_iter()
    .enumerate()
    {
        let goal_id = uuid(number, n as u8 + 1);
        events.push(ExecutorEvent::SendGoal {
            goal_id,
            action_name: action.into(),
            name: name.into(),
        });
        events.push(ExecutorEvent::GoalEnded {
            goal_id,
            status: goal_status::SUCCEEDED,
            code: 1,
            message: "goal reached".into(),
        });
    }
    events.push(ExecutorEvent::Complete);
    events.push(ExecutorEvent::Settle {
        final_state: FinalState::Succeeded,
        settled_by: "/harness_node".into(),
        reason: "SUCCESS: the gripper holds cup_1".into(),
    });
    events
}

pub fn stop() -> ExecutorEvent {
    ExecutorEvent::Stop(StopCause::Caller)
}

/// What the journal says beside the record, as long as it is of a real one.
pub const DETAILS: &str = r#"{"action":"/gripper_controller/gripper_cmd","goal_id":"01010101-0101-0101-0101-010101010101","sub_goal":"open"}"#;

/// The records of the first `count` events of a life, each with the name of its event.
pub fn life(number: u64, count: usize) -> Vec<(ExecutorRecord, &'static str)> {
    let mut record = received(&format!("command-{number:08}"));
    let mut out = vec![(record.clone(), "received")];
    for event in events(number) {
        record = step(&record, &event, Stamp(2)).unwrap().record;
        out.push((record.clone(), event.name()));
    }
    out.truncate(count);
    out
}

/// Entries of it, each stamped.
pub fn entries(number: u64, count: usize, now: Stamp) -> Vec<JournalEntry<'static>> {
    life(number, count)
        .into_iter()
        .map(|(record, kind)| JournalEntry::new(record, kind, DETAILS.into(), now).unwrap())
        .collect()
}

/// Appends it.
pub fn append(
    journal: &mut ExecutorJournal,
    number: u64,
    count: usize,
    now: Stamp,
) -> Result<(), StoreError> {
    life(number, count)
        .iter()
        .try_for_each(|(record, kind)| journal.append(record, kind, DETAILS, now))
}

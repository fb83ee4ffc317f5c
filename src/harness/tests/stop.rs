//! Cancel, stop, lost lease, shutdown and restart: nothing is called stopped before it is.

mod common;

use common::{fetch, goal, list, secs, settings, states, Control, World};
use eh_contract::session::{EventKind, TaskRecord};
use eh_contract::state::{CommandState as S, TaskOutcome};
use eh_contract::ErrorCode;
use eh_harness::checkpoint::command_in_work;
use eh_harness::{Event, Harness, Restored, Settings};
use serde_json::json;

fn cancel(w: &mut World) {
    w.give(Event::CancelTask {
        task_id: "t1".into(),
        reason: "canceled by the client".into(),
    });
}

fn running(control: Control) -> World {
    let mut w = World::new(list(fetch()));
    w.controls = [control].into();
    w.submit(&goal("t1", "bring the cup")).unwrap();
    w.run_for(secs(2));
    assert_eq!(w.sent.len(), 1);
    w
}

#[test]
fn canceled_while_driving_waits_for_measured_standstill() {
    let mut w = running(Control::RunsOn);
    cancel(&mut w);
    assert_eq!(w.cancels, [w.sent[0].goal_id]);
    assert!(w.finished.is_empty(), "a cancel that was asked is not done");
    let record = w.run(secs(5)).clone();
    assert_eq!(record.outcome, TaskOutcome::Canceled);
    assert_eq!(record.error_code, ErrorCode::TaskCanceled.code());
    assert_eq!(states(&record.steps), [("navigate_to", S::Canceled)]);
    let kinds = w.kinds("t1");
    let at = |k| kinds.iter().position(|x| *x == k).unwrap();
    assert!(at("cancel_requested") < at("stop_confirmed"));
    assert!(at("stop_confirmed") < at("task_ended"));
    assert_eq!(w.settled.len(), 1);
}

#[test]
fn a_stop_that_is_not_confirmed_is_unknown_and_asking_again_does_not_extend_it() {
    let mut w = running(Control::WillNotStop);
    cancel(&mut w);
    w.run_for(secs(3));
    cancel(&mut w);
    assert!(w.cancels.len() >= 2, "asking again is not dropped");
    // stop_timeout 3 s + delivery_margin 2 s after the first request.
    let began = w.now;
    let record = w.run(secs(5)).clone();
    assert!(w.now - began <= secs(3));
    assert_eq!(record.outcome, TaskOutcome::Unknown);
    assert_eq!(record.error_code, ErrorCode::CommandUnknown.code());
    assert!(
        record.error_msg.contains("standstill"),
        "{}",
        record.error_msg
    );
}

#[test]
fn canceled_before_the_acknowledgement_goes_by_uuid_and_again_after_it() {
    let mut w = World::new(list(fetch()));
    w.controls = [Control::RunsOn].into();
    w.submit(&goal("t1", "bring the cup")).unwrap();
    while w.sent.is_empty() {
        w.step();
    }
    cancel(&mut w);
    assert_eq!(w.cancels.len(), 1);
    let record = w.run(secs(5)).clone();
    assert_eq!(record.outcome, TaskOutcome::Canceled);
    assert!(w.cancels.iter().all(|g| *g == w.sent[0].goal_id));
}

#[test]
fn canceled_after_a_goal_that_never_arrived_is_canceled_once_it_can_not_start_any_more() {
    let mut w = World::new(list(fetch()));
    w.controls = [Control::GoalLost].into();
    w.submit(&goal("t1", "bring the cup")).unwrap();
    w.run_for(secs(1));
    cancel(&mut w);
    let record = w.run(secs(15)).clone();
    assert_eq!(
        record.outcome,
        TaskOutcome::Canceled,
        "{}",
        record.error_msg
    );
    // start_within 3 s + delivery_margin 2 s.
    assert!(w.now >= secs(5));
}

#[test]
fn canceled_while_the_planner_thinks_ends_at_once() {
    let mut w = World::new(list(fetch()));
    w.planner_silent = true;
    w.submit(&goal("t1", "bring the cup")).unwrap();
    w.run_for(secs(2));
    cancel(&mut w);
    assert_eq!(w.finished.len(), 1);
    assert_eq!(w.finished[0].outcome, TaskOutcome::Canceled);
    assert!(w.sent.is_empty());
    assert!(w.harness.is_idle());
}

#[test]
fn canceled_while_judged_still_hears_the_verdict() {
    let mut w = World::new(list(fetch()));
    w.submit(&goal("t1", "bring the cup")).unwrap();
    while w
        .feedback
        .last()
        .is_none_or(|f| f.command_state != S::Evaluating)
    {
        w.step();
    }
    cancel(&mut w);
    let record = w.run(secs(5)).clone();
    assert_eq!(record.outcome, TaskOutcome::Canceled);
    assert_eq!(states(&record.steps), [("navigate_to", S::Succeeded)]);
    assert_eq!(w.applied.len(), 1, "what happened is remembered");
    assert_eq!(w.sent.len(), 1);
}

#[test]
fn another_tasks_cancel_is_not_ours() {
    let mut w = running(Control::RunsOn);
    w.give(Event::CancelTask {
        task_id: "t9".into(),
        reason: "x".into(),
    });
    assert!(w.cancels.is_empty());
}

#[test]
fn a_latched_stop_ends_the_task_and_refuses_the_next() {
    let mut w = running(Control::RunsOn);
    w.stop();
    let record = w.run(secs(5)).clone();
    assert_eq!(record.outcome, TaskOutcome::Failed);
    assert_eq!(record.error_code, ErrorCode::TaskStopLatched.code());
    let error = w.submit(&goal("t2", "bring the cup")).unwrap_err();
    assert_eq!(error.code(), ErrorCode::TaskStopLatched);
    assert!(error.to_string().contains("somebody pressed it"));
}

#[test]
fn a_lease_that_somebody_took_stops_and_starts_nothing() {
    let mut w = running(Control::RunsOn);
    w.give(Event::LeaseLost {
        reason: "taken over by /teleop".into(),
        taken: true,
    });
    let record = w.run(secs(5)).clone();
    assert_eq!(record.error_code, ErrorCode::NoLease.code());
    assert_eq!(w.sent.len(), 1);
}

#[test]
fn a_lease_that_ran_out_is_asked_for_again_and_the_task_goes_on() {
    let mut w = running(Control::RunsOn);
    let asked = w.leases;
    w.give(Event::LeaseLost {
        reason: "no renewal was answered".into(),
        taken: false,
    });
    assert_eq!(w.leases, asked + 1);
    w.run_for(secs(1));
    assert!(w.finished.is_empty() && w.cancels.is_empty());
    w.let_go();
    let record = w.run(secs(60)).clone();
    assert_eq!(record.outcome, TaskOutcome::Succeeded, "{record:#?}");
}

#[test]
fn a_lease_that_is_not_had_again_ends_the_task() {
    let mut w = running(Control::RunsOn);
    w.lease_refused = true;
    w.give(Event::LeaseLost {
        reason: "no renewal was answered".into(),
        taken: false,
    });
    // waits.lease is 10 s.
    w.run_for(secs(9));
    assert!(w.finished.is_empty());
    let record = w.run(secs(6)).clone();
    assert_eq!(record.error_code, ErrorCode::NoLease.code());
    assert_eq!(w.cancels.len(), 1);
}

#[test]
fn a_shutdown_stops_what_runs_and_takes_nothing_new() {
    let mut w = running(Control::RunsOn);
    w.give(Event::Shutdown);
    assert!(!w.harness.is_idle());
    let record = w.run(secs(5)).clone();
    assert_eq!(record.error_code, ErrorCode::TaskShuttingDown.code());
    w.run_for(secs(1));
    assert!(w.harness.is_idle());
    assert_eq!(
        w.submit(&goal("t2", "x")).unwrap_err().code(),
        ErrorCode::TaskShuttingDown
    );
}

#[test]
fn a_disk_that_fails_stops_the_task() {
    let mut w = running(Control::RunsOn);
    w.give(Event::StorageFailed {
        reason: "the disk is full".into(),
    });
    let record = w.run(secs(5)).clone();
    assert_eq!(record.outcome, TaskOutcome::Failed);
    assert_eq!(record.error_code, ErrorCode::TaskStorageFailure.code());
    assert_eq!(w.cancels.len(), 1);
}

/// What a new process finds on the disk of this world.
fn disk(w: &World) -> Restored {
    let in_work: Vec<String> = w
        .saved_tasks
        .values()
        .filter(|t| t.is_running())
        .filter_map(command_in_work)
        .collect();
    Restored {
        commands: w
            .saved_commands
            .values()
            .filter(|r| {
                !r.state.is_terminal()
                    || r.settle_pending.is_some()
                    || in_work.iter().any(|id| id == r.command_id())
            })
            .map(|r| serde_json::from_value(serde_json::to_value(r).unwrap()).unwrap())
            .collect(),
        tasks: w
            .saved_tasks
            .values()
            .filter(|t| t.is_running())
            .cloned()
            .collect(),
        sequences: w
            .journal
            .iter()
            .map(|e| (e.task_id.clone(), e.sequence))
            .collect(),
    }
}

/// A new process in the old world: what runs there runs on.
fn restart(w: World) -> World {
    restart_with(w, |_| ())
}

fn restart_with(w: World, change: impl FnOnce(&mut Settings)) -> World {
    let mut settings = settings();
    change(&mut settings);
    World::with_settings(list(fetch()), settings, disk(&w), Some(w))
}

#[test]
fn a_restart_in_mid_run_adopts_the_command_and_the_task_goes_on() {
    let w = running(Control::RunsOn);
    let sent = w.sent.len();
    let mut w = restart(w);
    assert_eq!(
        w.submit(&goal("t2", "x")).unwrap_err().code(),
        ErrorCode::TaskBusy
    );
    w.run_for(secs(3));
    // It runs on under its UUID: neither canceled nor sent again.
    assert_eq!(w.sent.len(), sent);
    assert_eq!(w.cancels, Vec::<[u8; 16]>::new());
    assert!(w.finished.is_empty());
    assert!(w
        .journal
        .iter()
        .any(|e| e.kind == EventKind::TaskResumed && e.text.contains("goes on with")));
    w.let_go();
    let record = w.run(secs(60)).clone();
    assert_eq!(record.request.task_id, "t1");
    assert_eq!(record.outcome, TaskOutcome::Succeeded, "{record:#?}");
    let mut ids: Vec<_> = w.sent.iter().map(|g| g.goal_id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), w.sent.len(), "a UUID was sent twice");
    assert!(w.harness.is_idle());
    let numbers: Vec<u32> = record.steps.iter().map(|s| s.step).collect();
    assert_eq!(numbers, (1..=numbers.len() as u32).collect::<Vec<_>>());
}

#[test]
fn where_tasks_are_not_gone_on_with_a_restart_cancels_and_ends() {
    let w = running(Control::RunsOn);
    let sent = w.sent.len();
    let mut w = restart_with(w, |settings| settings.resume_tasks = false);
    let record = w.run(secs(10)).clone();
    assert_eq!(record.request.task_id, "t1");
    assert_eq!(record.outcome, TaskOutcome::Failed);
    assert_eq!(record.error_code, ErrorCode::TaskShuttingDown.code());
    assert_eq!(w.sent.len(), sent);
    assert!(!w.cancels.is_empty());
    assert!(w.harness.is_idle());
    // And the robot can be used again.
    w.running.clear();
    w.submit(&goal("t2", "bring the cup")).unwrap();
    let record = w.run(secs(60)).clone();
    assert_eq!(record.outcome, TaskOutcome::Succeeded, "{record:#?}");
}

#[test]
fn a_task_that_another_release_wrote_is_ended_and_not_guessed() {
    let w = running(Control::RunsOn);
    let mut restored = disk(&w);
    restored.tasks[0].checkpoint = json!({ "used": "none" });
    let mut w = World::restored(list(fetch()), restored, Some(w));
    let record = w.run(secs(10)).clone();
    assert_eq!(record.error_code, ErrorCode::TaskShuttingDown.code());
    assert!(!w.cancels.is_empty());
}

#[test]
fn a_task_that_was_being_canceled_is_not_gone_on_with() {
    let mut w = running(Control::RunsOn);
    cancel(&mut w);
    let mut w = restart(w);
    let record = w.run(secs(20)).clone();
    assert_eq!(record.outcome, TaskOutcome::Canceled, "{record:#?}");
    assert_eq!(record.steps.len(), 1);
}

#[test]
fn a_restart_that_can_not_find_out_is_unknown() {
    let w = running(Control::WillNotStop);
    let mut w = restart_with(w, |settings| settings.resume_tasks = false);
    let record = w.run(secs(20)).clone();
    assert_eq!(record.outcome, TaskOutcome::Unknown);
    assert_eq!(record.error_code, ErrorCode::CommandUnknown.code());
    assert_eq!(w.harness.open_requests().len(), 1);
}

#[test]
fn a_restart_between_two_steps_goes_on_with_the_next() {
    let mut w = World::new(list(fetch()));
    w.planner_silent = true;
    w.submit(&goal("t1", "bring the cup")).unwrap();
    w.run_for(secs(1));
    let mut w = restart(w);
    let record = w.run(secs(60)).clone();
    assert_eq!(record.outcome, TaskOutcome::Succeeded, "{record:#?}");
}

#[test]
fn a_resumed_task_waits_for_the_executors_that_it_had() {
    let w = running(Control::RunsOn);
    // Nobody has been heard by the next process yet.
    let (harness, _) = Harness::new(settings(), disk(&w), w.at());
    let silent = harness.surroundings().silent_executors("robot", w.now);
    assert_eq!(
        silent,
        ["/manipulation_skills_node", "/navigation_skills_node"]
    );
}

#[test]
fn a_restart_while_judged_asks_the_evaluator_again_and_goes_on() {
    let mut w = World::new(list(fetch()));
    w.submit(&goal("t1", "bring the cup")).unwrap();
    while w
        .feedback
        .last()
        .is_none_or(|f| f.command_state != S::Evaluating)
    {
        w.step();
    }
    let sent = w.sent.len();
    let mut w = restart(w);
    w.step();
    assert_eq!(w.sent.len(), sent);
    let record = w.run(secs(60)).clone();
    assert_eq!(record.outcome, TaskOutcome::Succeeded, "{record:#?}");
    assert_eq!(record.steps.len(), fetch().len());
}

/// A crash right after a write, with so many steps allowed; the task's record, and `None` when it ended before.
fn crash_and_go_on(write: u32, max_steps: u32) -> Option<TaskRecord> {
    let mut w = World::new(list(fetch()));
    w.crash_after_writes(write);
    let mut goal = goal("t1", "bring the cup");
    goal.max_steps = max_steps;
    w.submit(&goal).unwrap();
    while !w.crashed() && w.finished.is_empty() {
        w.step();
    }
    if !w.crashed() {
        return None;
    }
    let mut w = restart(w);
    // The last write of all says that it has ended.
    if w.saved_tasks["t1"].is_running() {
        w.run(secs(60));
    }
    let mut ids: Vec<_> = w.sent.iter().map(|g| g.goal_id).collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(
        ids.len(),
        count,
        "after write {write} a UUID was sent twice"
    );
    Some(w.saved_tasks["t1"].clone())
}

/// A crash right after each single write: the task goes on from what is on the disk, no UUID is sent twice,
/// no step is counted twice, and none is that never was one.
#[test]
fn a_restart_after_any_write_goes_on() {
    for write in 1..400 {
        let Some(record) = crash_and_go_on(write, 0) else {
            assert!(write > 20, "{write} writes are few for a task");
            return;
        };
        assert_eq!(
            record.outcome,
            TaskOutcome::Succeeded,
            "after write {write}: {record:#?}"
        );
        let numbers: Vec<u32> = record.steps.iter().map(|s| s.step).collect();
        assert!(
            numbers.windows(2).all(|p| p[0] < p[1]),
            "after write {write}: {numbers:?}"
        );
        // As many as it has told of are enough.
        let told = u32::try_from(numbers.len()).unwrap();
        let again = crash_and_go_on(write, told).unwrap();
        assert_eq!(
            again.outcome,
            TaskOutcome::Succeeded,
            "after write {write} with {told} steps: {again:#?}"
        );
    }
    panic!("the task never ended without a crash");
}

#[test]
fn the_time_of_the_absence_counts() {
    let w = running(Control::RunsOn);
    let mut restored = disk(&w);
    // As if it had been away for ten minutes; the budget is five.
    let stamp = &mut restored.tasks[0].checkpoint["stamp"];
    *stamp = json!(stamp.as_i64().unwrap() - 600_000_000_000);
    let mut w = World::restored(list(fetch()), restored, Some(w));
    let record = w.run(secs(20)).clone();
    assert_eq!(record.error_code, ErrorCode::TimeBudgetExhausted.code());
}

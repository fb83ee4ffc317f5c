//! Cancel, stop, lost lease, shutdown and restart: nothing is called stopped before it is.

mod common;

use common::{fetch, goal, list, secs, states, Control, World};
use eh_contract::state::{CommandState as S, TaskOutcome};
use eh_contract::ErrorCode;
use eh_harness::{Event, Restored};

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
fn a_lost_lease_stops_and_starts_nothing() {
    let mut w = running(Control::RunsOn);
    w.give(Event::LeaseLost {
        reason: "taken over by /teleop".into(),
    });
    let record = w.run(secs(5)).clone();
    assert_eq!(record.error_code, ErrorCode::NoLease.code());
    assert_eq!(w.sent.len(), 1);
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
    Restored {
        commands: w
            .saved_commands
            .values()
            .filter(|r| !r.state.is_terminal() || r.settle_pending.is_some())
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
    World::restored(list(fetch()), disk(&w), Some(w))
}

#[test]
fn a_restart_cancels_by_uuid_waits_for_standstill_and_never_sends_again() {
    let w = running(Control::RunsOn);
    let sent = w.sent.len();
    let mut w = restart(w);
    assert_eq!(
        w.submit(&goal("t2", "x")).unwrap_err().code(),
        ErrorCode::TaskBusy
    );
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
fn a_restart_that_can_not_find_out_is_unknown() {
    let w = running(Control::WillNotStop);
    let mut w = restart(w);
    let record = w.run(secs(20)).clone();
    assert_eq!(record.outcome, TaskOutcome::Unknown);
    assert_eq!(record.error_code, ErrorCode::CommandUnknown.code());
    assert_eq!(w.harness.open_requests().len(), 1);
}

#[test]
fn a_restart_between_two_steps_ends_the_task_at_once() {
    let mut w = World::new(list(fetch()));
    w.planner_silent = true;
    w.submit(&goal("t1", "bring the cup")).unwrap();
    w.run_for(secs(1));
    let w = restart(w);
    assert_eq!(w.finished.len(), 1);
    assert_eq!(w.finished[0].outcome, TaskOutcome::Failed);
}

#[test]
fn a_restart_while_judged_asks_the_evaluator_again() {
    let mut w = World::new(list(fetch()));
    w.submit(&goal("t1", "bring the cup")).unwrap();
    while w
        .feedback
        .last()
        .is_none_or(|f| f.command_state != S::Evaluating)
    {
        w.step();
    }
    let mut w = restart(w);
    let record = w.run(secs(10)).clone();
    assert_eq!(record.outcome, TaskOutcome::Failed);
    let command = w.saved.last().unwrap();
    assert_eq!(command.state, S::Succeeded);
}

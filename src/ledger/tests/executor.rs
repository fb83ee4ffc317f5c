//! The executor's states: what each event does, and what no sequence of events can do.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use eh_contract::command::{SkillCommand, SCHEMA_VERSION};
use eh_contract::skill::DisconnectPolicy;
use eh_contract::state::{ControlEnd, ExecutorState, StopStage};
use eh_contract::{ErrorCode, Stamp};
use eh_ledger::executor::{
    goal_status, held_resources, step, ExecutorEffect, ExecutorError, ExecutorEvent,
    ExecutorRecord, FinalState, GoalId, StopCause,
};
use eh_ledger::restart::{after_restart, RestartPlan};
use proptest::prelude::*;

fn command() -> SkillCommand {
    SkillCommand {
        schema_version: SCHEMA_VERSION,
        command_id: "c1".into(),
        task_id: "t1".into(),
        robot_id: "robot".into(),
        skill: "pick".into(),
        skill_version: "1.0.0".into(),
        arguments: serde_json::Map::new(),
        targets: vec![],
        preconditions: vec![],
        world_version: 1,
        plan_version: 1,
        start_within: Duration::from_secs(2),
        execution_timeout: Duration::ZERO,
        stop_timeout: Duration::ZERO,
        max_segments: 0,
    }
}

fn received() -> ExecutorRecord {
    ExecutorRecord::received(command(), 0, "boot", 5, "/harness_node", Stamp(10))
}

fn accept() -> ExecutorEvent {
    ExecutorEvent::Accept {
        resources: vec!["arm".into(), "base".into()],
        disconnect_policy: DisconnectPolicy::Stop,
    }
}

fn start() -> ExecutorEvent {
    ExecutorEvent::Start {
        run_id: "run_1".into(),
    }
}

fn send(n: u8, name: &str) -> ExecutorEvent {
    ExecutorEvent::SendGoal {
        goal_id: [n; 16],
        action_name: "/move_action".into(),
        name: name.into(),
    }
}

fn ended(n: u8, status: i8) -> ExecutorEvent {
    ExecutorEvent::GoalEnded {
        goal_id: [n; 16],
        status,
        code: 0,
        message: String::new(),
    }
}

fn settle(final_state: FinalState) -> ExecutorEvent {
    ExecutorEvent::Settle {
        final_state,
        settled_by: "/harness_node".into(),
        reason: String::new(),
    }
}

/// Applies events in order; panics where one is refused.
fn walk(events: &[ExecutorEvent]) -> ExecutorRecord {
    let mut record = received();
    for (i, event) in events.iter().enumerate() {
        record = step(&record, event, Stamp(100 + i as i64))
            .unwrap_or_else(|e| panic!("{event:?}: {e}"))
            .record;
    }
    record
}

#[test]
fn a_command_goes_through_its_life() {
    let record = walk(&[
        accept(),
        start(),
        send(1, "approach"),
        ended(1, goal_status::SUCCEEDED),
        ExecutorEvent::Complete,
    ]);
    assert_eq!(record.state, ExecutorState::Ended);
    assert_eq!(record.control_end, ControlEnd::Completed);
    assert_eq!(record.error_code, 0);
    // Received 1, accept 2, start 3, send 4, ended 5, complete 6.
    assert_eq!(record.sequence, 6);
    assert_eq!(
        (
            record.sub_goals[0].sent_sequence,
            record.sub_goals[0].ended_sequence
        ),
        (4, 5)
    );
    assert_eq!(held_resources([&record]).len(), 2, "held until settled");
    let settled = step(&record, &settle(FinalState::Succeeded), Stamp(200))
        .unwrap()
        .record;
    assert!(settled.is_terminal() && held_resources([&settled]).is_empty());
}

#[test]
fn the_same_goal_and_the_same_sub_goal_are_sent_once() {
    let record = walk(&[accept(), start(), send(1, "approach")]);
    assert!(matches!(
        step(&record, &send(1, "lift"), Stamp(1)),
        Err(ExecutorError::DuplicateGoal { .. })
    ));
    assert!(matches!(
        step(&record, &send(2, "approach"), Stamp(1)),
        Err(ExecutorError::DuplicateSubGoal { .. })
    ));
    assert!(matches!(
        step(&record, &start(), Stamp(1)),
        Err(ExecutorError::IllegalEvent { .. })
    ));
}

#[test]
fn a_cancel_needs_the_end_of_every_goal_and_standstill() {
    let record = walk(&[accept(), start(), send(1, "approach")]);
    let canceling = step(&record, &ExecutorEvent::Stop(StopCause::Caller), Stamp(50)).unwrap();
    assert_eq!(
        canceling.effects,
        [
            ExecutorEffect::CancelGoals(vec![[1; 16]]),
            ExecutorEffect::MeasureStandstill
        ]
    );
    let record = canceling.record;
    assert!(matches!(
        step(&record, &ExecutorEvent::Standstill, Stamp(51)),
        Err(ExecutorError::GoalOpen { .. })
    ));
    // Nothing new is started meanwhile.
    assert!(step(&record, &send(2, "lift"), Stamp(52)).is_err());
    // Asking again asks the goals again, but changes nothing: the budget runs from the first request.
    let again = step(&record, &ExecutorEvent::Stop(StopCause::Caller), Stamp(53)).unwrap();
    assert!(!again.changed && again.record.cancel_requested_at == Stamp(50));
    assert_eq!(again.effects, [ExecutorEffect::CancelGoals(vec![[1; 16]])]);
    let record = step(&record, &ended(1, goal_status::CANCELED), Stamp(54))
        .unwrap()
        .record;
    let end = step(&record, &ExecutorEvent::Standstill, Stamp(55))
        .unwrap()
        .record;
    assert_eq!(end.control_end, ControlEnd::Canceled);
    assert_eq!(end.stop_stage, StopStage::Confirmed);
    assert_eq!(end.error_code, ErrorCode::Canceled.code());
}

#[test]
fn only_a_terminal_status_ends_a_goal() {
    let running = walk(&[accept(), start(), send(1, "approach")]);
    for status in [
        goal_status::UNKNOWN,
        goal_status::ACCEPTED,
        goal_status::EXECUTING,
        goal_status::CANCELING,
        99,
        -1,
    ] {
        assert!(
            matches!(
                step(&running, &ended(1, status), Stamp(200)),
                Err(ExecutorError::NotTerminal { .. })
            ),
            "{status}"
        );
    }
}

#[test]
fn runs_and_settlements_have_names() {
    let nameless = ExecutorEvent::Start {
        run_id: String::new(),
    };
    assert!(matches!(
        step(&walk(&[accept()]), &nameless, Stamp(200)),
        Err(ExecutorError::EmptyField { .. })
    ));
    let done = walk(&[accept(), start(), ExecutorEvent::Complete]);
    let nobody = ExecutorEvent::Settle {
        final_state: FinalState::Succeeded,
        settled_by: String::new(),
        reason: "x".into(),
    };
    assert!(matches!(
        step(&done, &nobody, Stamp(200)),
        Err(ExecutorError::EmptyField { .. })
    ));
}

#[test]
fn a_stop_that_is_not_confirmed_is_lost_and_holds() {
    let record = walk(&[
        accept(),
        start(),
        send(1, "approach"),
        ExecutorEvent::Stop(StopCause::Caller),
        ExecutorEvent::StopTimeout {
            what: "the base moves at 0.2 m/s".into(),
        },
    ]);
    assert_eq!(record.control_end, ControlEnd::Lost);
    assert_eq!(record.stop_stage, StopStage::Unconfirmed);
    assert_eq!(record.error_code, ErrorCode::StopUnconfirmed.code());
    assert!(record.error_msg.contains("0.2 m/s") && record.error_msg.contains("3.0 s"));
    assert!(record.holds());
    // The end of the goal is taken note of later, the state stays.
    let later = step(&record, &ended(1, goal_status::CANCELED), Stamp(90))
        .unwrap()
        .record;
    assert_eq!(
        (later.state, later.control_end),
        (ExecutorState::Ended, ControlEnd::Lost)
    );
}

#[test]
fn what_was_never_sent_is_canceled_at_once() {
    let record = walk(&[accept(), ExecutorEvent::Stop(StopCause::Caller)]);
    assert_eq!(record.control_end, ControlEnd::Canceled);
    assert_eq!(record.stop_stage, StopStage::Confirmed);
    let record = walk(&[ExecutorEvent::Stop(StopCause::Caller)]);
    assert_eq!(record.state, ExecutorState::Rejected);
}

#[test]
fn a_failure_ends_only_when_everything_stands() {
    let cause = StopCause::Failed {
        error_code: ErrorCode::NoValidPath.code(),
        error_msg: "no path".into(),
    };
    let record = walk(&[
        accept(),
        start(),
        send(1, "drive"),
        ended(1, goal_status::ABORTED),
        ExecutorEvent::Stop(cause),
    ]);
    assert_eq!(record.state, ExecutorState::Canceling);
    // It has not completed, whatever anybody says.
    assert!(step(&record, &ExecutorEvent::Complete, Stamp(1)).is_err());
    let record = step(&record, &ExecutorEvent::Standstill, Stamp(2))
        .unwrap()
        .record;
    assert_eq!(record.control_end, ControlEnd::Aborted);
    assert_eq!(record.error_code, ErrorCode::NoValidPath.code());
}

#[test]
fn a_cancel_that_comes_too_late_does_not_undo_a_completion() {
    let record = walk(&[
        accept(),
        start(),
        send(1, "drive"),
        ExecutorEvent::Stop(StopCause::Caller),
        ended(1, goal_status::SUCCEEDED),
        ExecutorEvent::Complete,
    ]);
    assert_eq!(record.control_end, ControlEnd::Completed);
}

#[test]
fn a_step_is_written_down_while_something_runs_and_opens_no_goal() {
    let a_step = |name: &str| ExecutorEvent::Step {
        name: name.into(),
        what: "attached: cup_1".into(),
    };
    let record = walk(&[
        accept(),
        start(),
        a_step("attach"),
        // Again, as after a crash of the server: it says what is to be, not what to do.
        a_step("attach"),
        ExecutorEvent::Stop(StopCause::Caller),
        a_step("tidy_scene"),
    ]);
    assert_eq!(record.state, ExecutorState::Canceling);
    // Received 1, accept 2, start 3, the steps 4, 5 and 7, the stop 6.
    assert_eq!(record.sequence, 7);
    assert!(record.sub_goals.is_empty());
    assert!(step(&record, &a_step(""), Stamp(1)).is_err());
    let early = walk(&[accept()]);
    assert!(step(&early, &a_step("attach"), Stamp(1)).is_err());
}

#[test]
fn terminal_states_never_change() {
    let record = walk(&[
        accept(),
        start(),
        ExecutorEvent::Complete,
        settle(FinalState::Failed),
    ]);
    for event in [
        accept(),
        start(),
        send(9, "x"),
        ended(1, goal_status::SUCCEEDED),
        ExecutorEvent::Complete,
        ExecutorEvent::Standstill,
    ] {
        assert!(step(&record, &event, Stamp(1)).is_err(), "{event:?}");
    }
    let stop = step(&record, &ExecutorEvent::Stop(StopCause::Stop), Stamp(1)).unwrap();
    assert!(!stop.changed && stop.effects.is_empty());
    // The same settlement again is the same; another one is refused.
    assert!(
        !step(&record, &settle(FinalState::Failed), Stamp(1))
            .unwrap()
            .changed
    );
    assert!(matches!(
        step(&record, &settle(FinalState::Succeeded), Stamp(1)),
        Err(ExecutorError::SettledOtherwise { .. })
    ));
}

#[test]
fn a_restart_starts_nothing_and_asks_for_what_may_run() {
    assert!(matches!(
        after_restart(&received()),
        RestartPlan::Apply(ExecutorEvent::Reject { error_code, .. }) if error_code == ErrorCode::ExpiredCommand.code()
    ));
    assert!(matches!(
        after_restart(&walk(&[accept()])),
        RestartPlan::Apply(ExecutorEvent::Reject { .. })
    ));
    let running = walk(&[
        accept(),
        start(),
        send(1, "a"),
        ended(1, goal_status::SUCCEEDED),
        send(2, "b"),
    ]);
    let RestartPlan::Recover { event, open } = after_restart(&running) else {
        panic!("a running one is recovered");
    };
    assert_eq!(open, [[2; 16]]);
    let record = step(&running, &event, Stamp(1)).unwrap().record;
    assert_eq!(record.state, ExecutorState::Canceling);
    assert!(step(&record, &send(3, "c"), Stamp(2)).is_err());
    assert_eq!(
        after_restart(&walk(&[accept(), start(), ExecutorEvent::Complete])),
        RestartPlan::Keep
    );
}

#[test]
fn a_record_survives_its_file_format() {
    let record = walk(&[
        accept(),
        start(),
        send(1, "a"),
        ExecutorEvent::Stop(StopCause::Preempted { by: "x".into() }),
    ]);
    let text = serde_json::to_string(&record).unwrap();
    assert_eq!(
        serde_json::from_str::<ExecutorRecord>(&text).unwrap(),
        record
    );
}

/// Order of the states: an accepted command may still be rejected when its time is over.
fn rank(state: ExecutorState) -> u8 {
    match state {
        ExecutorState::Unspecified => 0,
        ExecutorState::Received => 1,
        ExecutorState::Accepted => 2,
        ExecutorState::Started => 3,
        ExecutorState::Canceling => 4,
        ExecutorState::Ended => 5,
        ExecutorState::Rejected | ExecutorState::Settled => 6,
    }
}

fn any_event() -> impl Strategy<Value = ExecutorEvent> {
    let goal = (0u8..4).prop_map(|n| [n; 16] as GoalId);
    let name = prop::sample::select(vec!["", "a", "b", "c"]);
    let cause = prop_oneof![
        Just(StopCause::Caller),
        Just(StopCause::Stop),
        Just(StopCause::Restart),
        Just(StopCause::Failed {
            error_code: 10200,
            error_msg: "x".into()
        }),
    ];
    // The likely ways come up more often, so that deep states are reached.
    prop_oneof![
        4 => Just(accept()),
        1 => Just(ExecutorEvent::Reject { error_code: 10108, error_msg: "busy".into() }),
        4 => Just(start()),
        6 => (goal.clone(), name).prop_map(|(goal_id, name)| ExecutorEvent::SendGoal {
            goal_id, action_name: "/x".into(), name: name.into() }),
        2 => goal.clone().prop_map(|goal_id| ExecutorEvent::GoalRefused { goal_id, message: "no".into() }),
        6 => (goal, -1i8..8).prop_map(|(goal_id, status)| ExecutorEvent::GoalEnded {
            goal_id, status, code: 0, message: String::new() }),
        2 => Just(ExecutorEvent::Complete),
        3 => cause.prop_map(ExecutorEvent::Stop),
        3 => Just(ExecutorEvent::Standstill),
        1 => Just(ExecutorEvent::StopTimeout { what: "x".into() }),
        1 => Just(ExecutorEvent::Lose { error_code: 10134, error_msg: "x".into() }),
        2 => prop::sample::select(vec![FinalState::Succeeded, FinalState::Failed]).prop_map(settle),
    ]
}

proptest! {
    /// Over any sequence of events: states never go back, terminal ones never change, the sequence grows
    /// by one with each change, no UUID and no sub-goal is sent twice, nothing is sent outside STARTED,
    /// CANCELED only with every goal over, and an error changes nothing.
    #[test]
    fn no_sequence_of_events_breaks_the_rules(events in prop::collection::vec(any_event(), 0..60)) {
        let mut record = received();
        let mut sent: HashSet<GoalId> = HashSet::new();
        let mut names: BTreeSet<String> = BTreeSet::new();
        let mut answers = 0;
        for (i, event) in events.iter().enumerate() {
            let before = record.clone();
            let Ok(t) = step(&record, event, Stamp(1000 + i as i64)) else { continue };
            prop_assert!(rank(t.record.state) >= rank(before.state));
            if before.is_terminal() {
                prop_assert!(!t.changed && t.effects.is_empty());
            }
            if t.changed {
                prop_assert_eq!(t.record.sequence, before.sequence + 1);
            } else {
                prop_assert_eq!(&t.record, &before);
            }
            for effect in &t.effects {
                match effect {
                    ExecutorEffect::SendGoal { goal_id } => {
                        prop_assert_eq!(before.state, ExecutorState::Started);
                        prop_assert!(sent.insert(*goal_id));
                        let name = t.record.sub_goal(goal_id).map(|g| g.name.clone()).unwrap_or_default();
                        prop_assert!(names.insert(name));
                    }
                    ExecutorEffect::CancelGoals(goals) => {
                        prop_assert!(goals.iter().all(|g| sent.contains(g)), "only what we sent");
                    }
                    ExecutorEffect::Answer => answers += 1,
                    ExecutorEffect::AnnounceStart | ExecutorEffect::AnnounceEnd | ExecutorEffect::MeasureStandstill => {}
                }
            }
            if t.record.control_end == ControlEnd::Canceled || t.record.control_end == ControlEnd::Completed {
                prop_assert_eq!(t.record.open_goals().count(), 0);
            }
            if before.control_end != ControlEnd::None {
                prop_assert_eq!(t.record.control_end, before.control_end);
            }
            prop_assert_eq!(&t.record.command, &before.command);
            record = t.record;
        }
        prop_assert!(answers <= 1);
        prop_assert_eq!(answers == 1, record.is_answered());
    }

    /// After a crash at any point nothing is ever sent by the plan for the restart.
    #[test]
    fn no_restart_sends_anything(events in prop::collection::vec(any_event(), 0..40)) {
        let mut record = received();
        for event in &events {
            if let Ok(t) = step(&record, event, Stamp(1)) {
                record = t.record;
            }
        }
        match after_restart(&record) {
            RestartPlan::Keep => prop_assert!(record.is_answered()),
            RestartPlan::Apply(event) | RestartPlan::Recover { event, .. } => {
                let t = step(&record, &event, Stamp(2)).unwrap();
                let sends = t.effects.iter().any(|e| matches!(e, ExecutorEffect::SendGoal { .. }));
                prop_assert!(!sends);
                prop_assert!(t.record.state != ExecutorState::Started);
            }
        }
    }
}

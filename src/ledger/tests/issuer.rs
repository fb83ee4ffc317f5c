//! The issuer's machine: each invariant of a command's life, with the guard that keeps it.

use std::time::Duration;

use eh_contract::command::SkillCommand;
use eh_contract::state::{CommandState as S, ControlEnd, ExecutorState, StopStage};
use eh_contract::status::SkillStatus;
use eh_contract::verdict::{Outcome, Verdict};
use eh_contract::{ErrorCode, Stamp};
use eh_ledger::issuer::{Issue, IssuerRecord};
use eh_ledger::issuer_error::IssuerError;
use eh_ledger::issuer_event::{Finality, IssuerEffect as Fx, IssuerEvent as Ev};
use eh_ledger::issuer_ledger::{IssuerLedger, Proposed};
use eh_ledger::issuer_policy::{IssuerPolicy, Now};
use proptest::prelude::*;

const GOAL: [u8; 16] = [7; 16];

fn at(secs: f64) -> Now {
    Now {
        steady: Duration::from_secs_f64(secs),
        ros: Stamp::from_secs_f64(1000.0 + secs),
    }
}

fn issue(id: &str) -> Issue {
    Issue {
        command: SkillCommand {
            schema_version: 1,
            command_id: id.into(),
            task_id: "t".into(),
            robot_id: "robot".into(),
            skill: "pick".into(),
            skill_version: "1.0.0".into(),
            arguments: serde_json::Map::new(),
            targets: vec![],
            preconditions: vec![],
            world_version: 1,
            plan_version: 1,
            start_within: Duration::from_secs(1),
            execution_timeout: Duration::from_secs(30),
            stop_timeout: Duration::from_secs(3),
            max_segments: 0,
        },
        action_name: "m/execute_skill".into(),
        executor: "/m".into(),
        boot_id: "boot-1".into(),
        resources: vec!["arm".into()],
        evaluated: true,
        max_segments: 0,
        maximum_duration: Duration::from_secs(60),
    }
}

struct Rig {
    record: IssuerRecord,
    policy: IssuerPolicy,
}

impl Rig {
    fn new() -> Self {
        Rig {
            record: IssuerRecord::new(issue("c1"), at(0.0)),
            policy: IssuerPolicy::default(),
        }
    }

    fn dispatched() -> Self {
        let mut rig = Rig::new();
        rig.ok(Ev::Commit, 0.0);
        rig.ok(Ev::Dispatch { goal_id: GOAL }, 0.0);
        rig
    }

    fn running() -> Self {
        let mut rig = Rig::dispatched();
        rig.ok(Ev::Acknowledged, 0.1);
        rig.ok(status(2, ExecutorState::Started), 0.2);
        assert_eq!(rig.record.state, S::Running);
        rig
    }

    fn evaluating() -> Self {
        let mut rig = Rig::running();
        rig.ok(ended(3, ControlEnd::Completed), 5.0);
        assert_eq!(rig.record.state, S::Evaluating);
        rig
    }

    fn ok(&mut self, event: Ev, secs: f64) -> Vec<Fx> {
        self.record.apply(event, &self.policy, at(secs)).unwrap()
    }
}

fn raw(sequence: u64, state: ExecutorState) -> SkillStatus {
    SkillStatus {
        executor: "/m".into(),
        boot_id: "boot-1".into(),
        command_id: "c1".into(),
        run_id: if state >= ExecutorState::Started {
            "r1".into()
        } else {
            String::new()
        },
        state,
        sequence,
        started_at: if state >= ExecutorState::Started {
            Stamp::from_secs_f64(1000.2)
        } else {
            Stamp::NEVER
        },
        ..SkillStatus::default()
    }
}

fn status(sequence: u64, state: ExecutorState) -> Ev {
    Ev::Status(Box::new(raw(sequence, state)))
}

fn ended(sequence: u64, control_end: ControlEnd) -> Ev {
    Ev::Status(Box::new(SkillStatus {
        control_end,
        ..raw(sequence, ExecutorState::Ended)
    }))
}

fn stopped(sequence: u64, stop_stage: StopStage) -> Ev {
    Ev::Status(Box::new(SkillStatus {
        control_end: ControlEnd::Canceled,
        stop_stage,
        ..raw(sequence, ExecutorState::Ended)
    }))
}

fn verdict(outcome: Outcome) -> Ev {
    Ev::Judged(Box::new(Verdict {
        run_id: "r1".into(),
        command_id: "c1".into(),
        segment: 0,
        outcome,
        reason: "because".into(),
        predicates: vec![],
        evidence: vec![],
        judge: "predicates".into(),
        judge_version: "1".into(),
        stamp: Stamp::from_secs_f64(1100.0),
    }))
}

fn position(effects: &[Fx], wanted: impl Fn(&Fx) -> bool) -> Option<usize> {
    effects.iter().position(wanted)
}

/// Evidence has to be from after the end; a verdict from before it can't rest on any, whoever gave it.
#[test]
fn a_success_from_before_the_end_is_none() {
    let mut rig = Rig::running();
    rig.ok(ended(3, ControlEnd::Completed), 5.0);
    let Ev::Judged(mut early) = verdict(Outcome::Success) else {
        unreachable!("it is a verdict")
    };
    // Control ended at 1005 s.
    early.stamp = Stamp::from_secs_f64(1004.9);
    let effects = rig.ok(Ev::Judged(early.clone()), 6.0);
    assert_eq!(rig.record.state, S::Evaluating);
    assert!(effects
        .iter()
        .any(|e| matches!(e, Fx::Evaluate { look: 1, .. })));
    early.stamp = Stamp::from_secs_f64(1005.0);
    rig.ok(Ev::Judged(early), 7.0);
    assert_eq!(rig.record.state, S::Succeeded);
}

#[test]
fn the_usual_life_ends_in_a_success_that_is_settled_at_the_executor() {
    let mut rig = Rig::new();
    rig.ok(Ev::Commit, 0.0);
    let effects = rig.ok(Ev::Dispatch { goal_id: GOAL }, 0.0);
    let persist = position(&effects, |e| *e == Fx::Persist).unwrap();
    let send = position(&effects, |e| matches!(e, Fx::Send { goal_id: GOAL, .. })).unwrap();
    assert!(persist < send, "the UUID must be durable before it is sent");
    rig.ok(Ev::Acknowledged, 0.1);
    assert_eq!(rig.record.state, S::Accepted);
    rig.ok(status(2, ExecutorState::Started), 0.2);
    assert_eq!(rig.record.run_id, "r1");
    let effects = rig.ok(ended(3, ControlEnd::Completed), 5.0);
    assert!(effects.contains(&Fx::Evaluate {
        run_id: "r1".into(),
        segment: 0,
        look: 0
    }));
    let effects = rig.ok(verdict(Outcome::Success), 6.0);
    assert_eq!(rig.record.state, S::Succeeded);
    let persist = position(&effects, |e| *e == Fx::Persist).unwrap();
    let settle = position(&effects, |e| {
        *e == Fx::SettleExecutor {
            to: Finality::Succeeded,
        }
    })
    .unwrap();
    assert!(persist < settle);
    assert_eq!(effects.last(), Some(&Fx::Ended));
    assert!(!rig.record.holds_resources());
    assert!(rig.record.times.judged > rig.record.times.started);
}

#[test]
fn the_executor_is_told_until_it_confirms_also_after_a_restart() {
    let settle = Fx::SettleExecutor {
        to: Finality::Succeeded,
    };
    let mut rig = Rig::evaluating();
    rig.ok(verdict(Outcome::Success), 6.0);
    assert!(rig.ok(Ev::Tick, 6.5).is_empty());
    assert_eq!(rig.ok(Ev::Tick, 7.0), vec![settle.clone()]);
    // As after a restart: what is stored is enough.
    let text = serde_json::to_string(&rig.record).unwrap();
    rig.record = serde_json::from_str(&text).unwrap();
    assert_eq!(rig.record.resume(at(0.0)), vec![settle]);
    assert_eq!(rig.ok(Ev::SettleConfirmed, 0.1), vec![Fx::Persist]);
    assert!(rig.ok(Ev::Tick, 9.0).is_empty());
    assert!(rig.record.resume(at(9.0)).is_empty());
}

#[test]
fn a_restart_asks_and_never_sends_again() {
    let mut rig = Rig::dispatched();
    let text = serde_json::to_string(&rig.record).unwrap();
    rig.record = serde_json::from_str(&text).unwrap();
    assert_eq!(rig.record.resume(at(50.0)), vec![Fx::QueryExecutor]);
    assert_eq!(rig.record.goal_id(), Some(GOAL));
    // Deadlines begin anew on the new process's clock.
    assert!(rig.ok(Ev::Tick, 51.0).is_empty());
    // A stop that an earlier process asked for: 3 s to stop and 2 s for messages, as always, and 10 s for
    // the new process to find the others.
    let mut rig = Rig::running();
    rig.ok(Ev::CancelRequested { reason: "a".into() }, 1.0);
    rig.record.resume(at(50.0));
    rig.ok(Ev::Tick, 64.9);
    assert_eq!(rig.record.state, S::Canceling);
    rig.ok(Ev::Tick, 65.1);
    assert_eq!(rig.record.state, S::Unknown);
    let mut rig = Rig::evaluating();
    assert!(matches!(
        rig.record.resume(at(50.0)).as_slice(),
        [Fx::Evaluate { .. }]
    ));
}

#[test]
fn control_that_completed_is_not_success() {
    let rig = Rig::evaluating();
    assert!(rig.record.holds_resources());
}

#[test]
fn a_failure_verdict_fails_although_control_completed_and_a_success_verdict_wins_over_an_abort() {
    let mut rig = Rig::evaluating();
    rig.ok(verdict(Outcome::Failure), 6.0);
    assert_eq!(rig.record.state, S::Failed);
    assert_eq!(rig.record.error_msg, "because");

    let mut rig = Rig::running();
    rig.ok(
        Ev::Status(Box::new(SkillStatus {
            control_end: ControlEnd::Aborted,
            error_code: ErrorCode::GripperFailed.code(),
            error_msg: "the gripper gave up".into(),
            ..raw(3, ExecutorState::Ended)
        })),
        5.0,
    );
    rig.ok(verdict(Outcome::Success), 6.0);
    assert_eq!(rig.record.state, S::Succeeded);
    assert_eq!(rig.record.error_code, 0);
}

#[test]
fn terminal_states_never_change_and_late_events_are_counted() {
    let mut rig = Rig::evaluating();
    rig.ok(verdict(Outcome::Success), 6.0);
    let sequence = rig.record.sequence;
    for event in [
        Ev::Acknowledged,
        status(9, ExecutorState::Started),
        ended(10, ControlEnd::Aborted),
        verdict(Outcome::Failure),
        Ev::CancelRequested { reason: "x".into() },
        Ev::Lost { reason: "x".into() },
        Ev::NotFound {
            boot_id: "boot-2".into(),
        },
        Ev::GoalRefused {
            code: ErrorCode::OldToken,
            reason: "x".into(),
        },
        Ev::NotJudged { reason: "x".into() },
    ] {
        assert!(rig.ok(event, 7.0).is_empty());
        assert_eq!(rig.record.state, S::Succeeded);
    }
    assert_eq!(rig.record.late_events, 9);
    assert_eq!(rig.record.sequence, sequence);
    for event in [
        Ev::Commit,
        Ev::Dispatch { goal_id: [8; 16] },
        Ev::Reconcile,
        Ev::Reconciled {
            to: Finality::Failed,
            by: "p".into(),
            reason: "r".into(),
        },
        Ev::Expired { reason: "x".into() },
    ] {
        assert!(matches!(
            rig.record.apply(event, &rig.policy, at(8.0)),
            Err(IssuerError::IllegalEvent { .. })
        ));
        assert_eq!(rig.record.state, S::Succeeded);
    }
}

#[test]
fn progress_that_is_older_or_repeated_never_moves_a_state_back() {
    let mut rig = Rig::running();
    rig.ok(status(1, ExecutorState::Accepted), 0.3);
    rig.ok(status(2, ExecutorState::Started), 0.3);
    // A newer sequence with an earlier state is a confused executor: it does not move us back either.
    rig.ok(status(9, ExecutorState::Received), 0.3);
    assert_eq!(rig.record.state, S::Running);
    assert_eq!(rig.record.late_events, 3);
}

#[test]
fn a_command_that_was_accepted_can_still_be_rejected_until_it_has_started() {
    let mut rig = Rig::dispatched();
    rig.ok(Ev::Acknowledged, 0.1);
    rig.ok(status(2, ExecutorState::Accepted), 0.2);
    let refused = SkillStatus {
        error_code: ErrorCode::ServerUnavailable.code(),
        error_msg: "no server of the action".into(),
        ..raw(3, ExecutorState::Rejected)
    };
    rig.ok(Ev::Status(Box::new(refused)), 0.5);
    assert_eq!(rig.record.state, S::Rejected);
    assert!(!rig.record.holds_resources());

    let mut rig = Rig::running();
    rig.ok(status(3, ExecutorState::Rejected), 0.5);
    assert_eq!(rig.record.state, S::Running);
}

#[test]
fn a_uuid_is_used_once() {
    let mut rig = Rig::dispatched();
    assert!(matches!(
        rig.record
            .apply(Ev::Dispatch { goal_id: [9; 16] }, &rig.policy, at(0.5)),
        Err(IssuerError::IllegalEvent { .. })
    ));
    let mut rig = Rig::new();
    rig.ok(Ev::Commit, 0.0);
    assert!(matches!(
        rig.record
            .apply(Ev::Dispatch { goal_id: [0; 16] }, &rig.policy, at(0.0)),
        Err(IssuerError::GoalIdUsed { .. })
    ));
}

#[test]
fn the_same_id_gives_the_original_state_and_other_content_is_a_conflict() {
    let mut ledger = IssuerLedger::default();
    let policy = IssuerPolicy::default();
    assert_eq!(ledger.propose(issue("c1"), at(0.0)), Ok(Proposed::New));
    ledger.apply("c1", Ev::Commit, &policy, at(0.0)).unwrap();
    assert_eq!(
        ledger.propose(issue("c1"), at(99.0)),
        Ok(Proposed::Known(S::Committed))
    );
    // Nothing was refreshed.
    assert_eq!(ledger.get("c1").unwrap().times.proposed, at(0.0).ros);
    let mut other = issue("c1");
    other.command.skill = "place".into();
    assert!(matches!(
        ledger.propose(other, at(1.0)),
        Err(IssuerError::CommandIdConflict { .. })
    ));
}

#[test]
fn a_cancel_goes_out_at_once_and_again_with_the_acknowledgement() {
    let mut rig = Rig::dispatched();
    let effects = rig.ok(
        Ev::CancelRequested {
            reason: "asked".into(),
        },
        0.05,
    );
    assert!(effects.contains(&Fx::CancelGoal { goal_id: GOAL }));
    assert_eq!(rig.record.state, S::Canceling);
    let effects = rig.ok(Ev::Acknowledged, 0.1);
    assert!(effects.contains(&Fx::CancelGoal { goal_id: GOAL }));
    // Asking again is not dropped and does not move the time of the first request.
    let first = rig.record.times.cancel_requested;
    let effects = rig.ok(
        Ev::CancelRequested {
            reason: "again".into(),
        },
        2.0,
    );
    assert!(effects.contains(&Fx::CancelGoal { goal_id: GOAL }));
    assert_eq!(rig.record.times.cancel_requested, first);
}

#[test]
fn canceled_needs_measured_standstill() {
    let cancel = || Ev::CancelRequested {
        reason: "asked".into(),
    };
    let mut rig = Rig::running();
    rig.ok(cancel(), 1.0);
    rig.ok(stopped(4, StopStage::Confirmed), 2.0);
    assert_eq!(rig.record.state, S::Canceled);
    assert!(!rig.record.times.stop_confirmed.is_never());

    let mut rig = Rig::running();
    rig.ok(cancel(), 1.0);
    rig.ok(stopped(4, StopStage::Unconfirmed), 2.0);
    assert_eq!(rig.record.state, S::Unknown);
    assert_eq!(rig.record.error_code, ErrorCode::StopUnconfirmed.code());
    assert!(rig.record.holds_resources());
}

#[test]
fn a_stop_that_is_not_confirmed_in_time_is_unknown_and_asking_again_does_not_extend_it() {
    let mut rig = Rig::running();
    rig.ok(Ev::CancelRequested { reason: "a".into() }, 1.0);
    rig.ok(Ev::CancelRequested { reason: "b".into() }, 5.0);
    // stop_timeout 3 s + delivery_margin 2 s after the first request at 1 s: the limit is at 6 s.
    rig.ok(Ev::Tick, 5.9);
    assert_eq!(rig.record.state, S::Canceling);
    rig.ok(Ev::Tick, 6.1);
    assert_eq!(rig.record.state, S::Unknown);
}

#[test]
fn a_cancel_that_lost_the_race_is_judged() {
    let mut rig = Rig::running();
    rig.ok(
        Ev::CancelRequested {
            reason: "asked".into(),
        },
        1.0,
    );
    rig.ok(ended(4, ControlEnd::Completed), 1.1);
    assert_eq!(rig.record.state, S::Evaluating);
    rig.ok(verdict(Outcome::Success), 2.0);
    assert_eq!(rig.record.state, S::Succeeded);
}

#[test]
fn never_sent_is_canceled_without_asking_anybody() {
    let mut rig = Rig::new();
    rig.ok(Ev::Commit, 0.0);
    let effects = rig.ok(
        Ev::CancelRequested {
            reason: "asked".into(),
        },
        0.1,
    );
    assert_eq!(rig.record.state, S::Canceled);
    assert!(!effects
        .iter()
        .any(|e| matches!(e, Fx::CancelGoal { .. } | Fx::SettleExecutor { .. })));
}

#[test]
fn an_unknown_verdict_looks_again_within_bounds_and_is_then_unknown() {
    let mut rig = Rig::evaluating();
    for look in 1..3 {
        let effects = rig.ok(verdict(Outcome::Unknown), 6.0);
        assert!(effects
            .iter()
            .any(|e| matches!(e, Fx::Evaluate { look: l, .. } if *l == look)));
        assert_eq!(rig.record.state, S::Evaluating);
    }
    let effects = rig.ok(Ev::NotJudged { reason: "x".into() }, 7.0);
    assert_eq!(rig.record.state, S::Unknown);
    // Unknown is not failure: nothing is settled and everything stays held.
    assert!(!effects
        .iter()
        .any(|e| matches!(e, Fx::SettleExecutor { .. })));
    assert!(rig.record.holds_resources());
}

#[test]
fn an_evaluator_that_never_answers_has_an_end() {
    let mut rig = Rig::evaluating();
    let mut secs = 5.0;
    for _ in 0..3 {
        secs += 21.0;
        rig.ok(Ev::Tick, secs);
    }
    assert_eq!(rig.record.state, S::Unknown);
}

#[test]
fn a_person_settles_an_unknown_and_only_an_unknown() {
    let settle = || Ev::Reconciled {
        to: Finality::Failed,
        by: "kim".into(),
        reason: "the cup is on the floor".into(),
    };
    let mut rig = Rig::evaluating();
    assert!(matches!(
        rig.record.apply(settle(), &rig.policy, at(6.0)),
        Err(IssuerError::IllegalEvent { .. })
    ));
    rig.ok(Ev::Lost { reason: "x".into() }, 6.0);
    let effects = rig.ok(settle(), 7.0);
    assert_eq!(rig.record.state, S::Failed);
    assert_eq!(rig.record.settled_by, "kim");
    assert!(effects.contains(&Fx::SettleExecutor {
        to: Finality::Failed
    }));
}

#[test]
fn an_executor_that_is_silent_is_asked_and_then_given_up() {
    let mut rig = Rig::running();
    assert!(rig.ok(Ev::Tick, 1.0).is_empty());
    assert_eq!(rig.ok(Ev::Tick, 2.3), vec![Fx::QueryExecutor]);
    assert!(rig.ok(Ev::Tick, 2.4).is_empty());
    // The last sign was at 0.2 s, lost_after is 15 s.
    rig.ok(Ev::Tick, 15.1);
    assert_eq!(rig.record.state, S::Running);
    let effects = rig.ok(Ev::Tick, 15.3);
    assert_eq!(rig.record.state, S::Unknown);
    assert!(effects.contains(&Fx::CancelGoal { goal_id: GOAL }));
}

#[test]
fn a_lost_acknowledgement_is_found_by_asking_or_proved_never_to_have_arrived() {
    // It had arrived: the answer to the question carries the state.
    let mut rig = Rig::dispatched();
    assert_eq!(rig.ok(Ev::Tick, 2.1), vec![Fx::QueryExecutor]);
    rig.ok(status(2, ExecutorState::Started), 2.2);
    assert_eq!(rig.record.state, S::Running);
    // It had not: within the start budget (1 s) plus margin (2 s) it may still be on its way.
    let not_found = || Ev::NotFound {
        boot_id: "boot-1".into(),
    };
    let mut rig = Rig::dispatched();
    rig.ok(not_found(), 2.9);
    assert_eq!(rig.record.state, S::Dispatched);
    rig.ok(not_found(), 3.1);
    assert_eq!(rig.record.state, S::Rejected);
    assert_eq!(rig.record.error_code, ErrorCode::ExpiredCommand.code());
    // The same while canceling: nothing was ever started.
    let mut rig = Rig::dispatched();
    rig.ok(Ev::CancelRequested { reason: "a".into() }, 0.1);
    rig.ok(not_found(), 3.1);
    assert_eq!(rig.record.state, S::Canceled);
    // An acknowledged goal need not be in the journal yet.
    let mut rig = Rig::dispatched();
    rig.ok(Ev::Acknowledged, 0.1);
    rig.ok(not_found(), 0.2);
    assert_eq!(rig.record.state, S::Accepted);
    rig.ok(status(2, ExecutorState::Started), 0.3);
    assert_eq!(rig.record.state, S::Running);
    let mut rig = Rig::dispatched();
    rig.ok(Ev::Acknowledged, 0.1);
    rig.ok(not_found(), 3.1);
    assert_eq!(rig.record.state, S::Rejected);
    // But "unknown" from an executor that had it proves nothing.
    let mut rig = Rig::running();
    rig.ok(not_found(), 3.1);
    assert_eq!(rig.record.state, S::Unknown);
}

#[test]
fn a_run_that_ends_after_it_was_given_up_is_judged_under_its_own_claim() {
    let mut rig = Rig::running();
    rig.ok(Ev::Lost { reason: "x".into() }, 20.0);
    let effects = rig.ok(ended(5, ControlEnd::Completed), 30.0);
    assert_eq!(rig.record.state, S::Reconciling);
    assert!(effects.iter().any(|e| matches!(e, Fx::Evaluate { .. })));
    assert!(rig.record.holds_resources());
    rig.ok(verdict(Outcome::Success), 31.0);
    assert_eq!(rig.record.state, S::Succeeded);
}

/// Found by the model check: a run whose end was lost may still move, or begin to. A restart of the
/// harness in the middle of its reconciliation had it judged, and a SUCCESS then freed its resources.
#[test]
fn what_may_still_move_is_settled_by_no_verdict() {
    let mut rig = Rig::running();
    rig.ok(ended(3, ControlEnd::Lost), 5.0);
    assert_eq!(rig.record.state, S::Unknown);
    assert!(rig.ok(Ev::Reconcile, 6.0).contains(&Fx::QueryExecutor));
    assert_eq!(rig.record.resume(at(7.0)), vec![Fx::QueryExecutor]);
    rig.ok(verdict(Outcome::Success), 8.0);
    rig.ok(verdict(Outcome::Failure), 8.0);
    rig.ok(
        Ev::NotJudged {
            reason: "dark".into(),
        },
        8.0,
    );
    assert_eq!(rig.record.state, S::Reconciling);
    assert!(rig.record.holds_resources());
    assert_eq!(rig.record.late_events, 3);
}

/// A run that stands still and could not be judged is looked at afresh.
#[test]
fn an_unknown_that_stands_still_is_worked_off_by_another_look() {
    let mut rig = Rig::evaluating();
    for secs in [6.0, 7.0, 8.0] {
        rig.ok(verdict(Outcome::Unknown), secs);
    }
    assert_eq!(rig.record.state, S::Unknown);
    let effects = rig.ok(Ev::Reconcile, 9.0);
    assert!(effects
        .iter()
        .any(|e| matches!(e, Fx::Evaluate { look: 0, .. })));
    rig.ok(verdict(Outcome::Success), 10.0);
    assert_eq!(rig.record.state, S::Succeeded);
}

/// An executor that knows no more than before, or is gone, leaves it UNKNOWN, for the same reason.
#[test]
fn a_question_without_an_answer_ends_in_unknown_again() {
    let mut rig = Rig::running();
    rig.ok(ended(3, ControlEnd::Lost), 5.0);
    let why = rig.record.error_msg.clone();
    rig.ok(Ev::Reconcile, 20.0);
    // lost_after is 15 s.
    rig.ok(Ev::Tick, 34.9);
    assert_eq!(rig.record.state, S::Reconciling);
    rig.ok(Ev::Tick, 35.1);
    assert_eq!(rig.record.state, S::Unknown);
    assert_eq!(rig.record.error_msg, why);
    assert!(rig.record.holds_resources());
    // And it can be asked again.
    assert!(rig.ok(Ev::Reconcile, 40.0).contains(&Fx::QueryExecutor));
}

#[test]
fn an_executor_that_overruns_its_time_is_canceled() {
    let mut rig = Rig::running();
    // 30 s execution + 3 s stop + 2 s margin, counted from the start at 0.2 s.
    for (sequence, secs) in (3..).zip([10.0, 20.0, 30.0, 35.0]) {
        rig.ok(status(sequence, ExecutorState::Started), secs);
        rig.ok(Ev::Tick, secs);
        assert_eq!(rig.record.state, S::Running, "{secs}");
    }
    let effects = rig.ok(Ev::Tick, 35.3);
    assert_eq!(rig.record.state, S::Canceling);
    assert!(effects.contains(&Fx::CancelGoal { goal_id: GOAL }));
}

#[test]
fn a_skill_that_is_not_evaluated_ends_with_its_control() {
    let mut plain = issue("c1");
    plain.evaluated = false;
    for (end, state) in [
        (ControlEnd::Completed, S::Succeeded),
        (ControlEnd::Aborted, S::Failed),
    ] {
        let mut record = IssuerRecord::new(plain.clone(), at(0.0));
        let policy = IssuerPolicy::default();
        for event in [Ev::Commit, Ev::Dispatch { goal_id: GOAL }, ended(3, end)] {
            record.apply(event, &policy, at(0.1)).unwrap();
        }
        assert_eq!(record.state, state);
    }
}

#[test]
fn segments_go_on_while_the_verdict_is_process_and_stop_when_asked() {
    let mut segmented = issue("c1");
    segmented.max_segments = 2;
    let run_to_process = || {
        let mut rig = Rig {
            record: IssuerRecord::new(segmented.clone(), at(0.0)),
            policy: IssuerPolicy::default(),
        };
        rig.ok(Ev::Commit, 0.0);
        rig.ok(Ev::Dispatch { goal_id: GOAL }, 0.0);
        rig.ok(ended(3, ControlEnd::Completed), 1.0);
        rig
    };
    let mut rig = run_to_process();
    let effects = rig.ok(verdict(Outcome::Process), 2.0);
    assert!(effects.contains(&Fx::NextSegment { segment: 1 }));
    rig.ok(Ev::Dispatch { goal_id: [8; 16] }, 2.1);
    assert_eq!((rig.record.state, rig.record.segment), (S::Running, 1));

    let mut rig = run_to_process();
    rig.ok(Ev::CancelRequested { reason: "a".into() }, 1.5);
    rig.ok(verdict(Outcome::Process), 2.0);
    assert_eq!(rig.record.state, S::Canceled);

    // A skill without segments can't be "in process" for ever.
    let mut rig = Rig::evaluating();
    rig.ok(verdict(Outcome::Process), 6.0);
    assert_eq!(rig.record.state, S::Failed);
}

/// A command of so many segments after the first verdict, which says that it goes on.
fn in_process(max_segments: u32) -> Rig {
    let mut segmented = issue("c1");
    segmented.max_segments = max_segments;
    let mut rig = Rig {
        record: IssuerRecord::new(segmented, at(0.0)),
        policy: IssuerPolicy::default(),
    };
    rig.ok(Ev::Commit, 0.0);
    rig.ok(Ev::Dispatch { goal_id: GOAL }, 0.0);
    rig.ok(ended(3, ControlEnd::Completed), 1.0);
    rig.ok(verdict(Outcome::Process), 2.0);
    assert!(rig.record.next_segment_is_due());
    rig
}

#[test]
fn a_segment_never_goes_out_under_the_uuid_of_another() {
    let mut rig = in_process(3);
    assert!(matches!(
        rig.record
            .apply(Ev::Dispatch { goal_id: GOAL }, &rig.policy, at(2.1)),
        Err(IssuerError::GoalIdUsed { .. })
    ));
    assert_eq!(rig.record.segment, 0);
}

#[test]
fn each_segment_needs_its_own_verdict() {
    let mut rig = in_process(3);
    rig.ok(Ev::Dispatch { goal_id: [8; 16] }, 2.1);
    let mut end = raw(9, ExecutorState::Ended);
    end.control_end = ControlEnd::Completed;
    end.segment = 1;
    rig.ok(Ev::Status(Box::new(end)), 3.0);
    assert_eq!(rig.record.state, S::Evaluating);
    // The verdict of the first segment does not let a third begin.
    assert!(!rig.record.next_segment_is_due());
    let third = Ev::Dispatch { goal_id: [9; 16] };
    assert!(rig.record.apply(third, &rig.policy, at(3.1)).is_err());
    // Nor does a late one settle the second.
    rig.ok(verdict(Outcome::Success), 3.2);
    assert_eq!(rig.record.state, S::Evaluating);
    assert_eq!(rig.record.late_events, 1);
}

#[test]
fn a_cancel_between_two_segments_ends_the_command() {
    let mut rig = in_process(3);
    rig.ok(Ev::CancelRequested { reason: "a".into() }, 2.1);
    assert_eq!(rig.record.state, S::Canceled);
    assert!(!rig.record.next_segment_is_due());
    let next = Ev::Dispatch { goal_id: [8; 16] };
    assert!(rig.record.apply(next, &rig.policy, at(2.2)).is_err());
    // Asked while the first verdict is awaited, no segment follows it.
    let mut segmented = issue("c1");
    segmented.max_segments = 3;
    let mut rig = Rig::new();
    rig.record = IssuerRecord::new(segmented, at(0.0));
    rig.ok(Ev::Commit, 0.0);
    rig.ok(Ev::Dispatch { goal_id: GOAL }, 0.0);
    rig.ok(ended(3, ControlEnd::Completed), 1.0);
    rig.ok(Ev::CancelRequested { reason: "a".into() }, 1.5);
    assert_eq!(rig.record.state, S::Evaluating);
    rig.ok(verdict(Outcome::Process), 2.0);
    assert_eq!(rig.record.state, S::Canceled);
}

#[test]
fn a_command_may_have_fewer_segments_than_its_skill_and_never_more() {
    for (skill, command, most) in [(5, 2, 2), (2, 5, 2), (3, 0, 3)] {
        let mut segmented = issue("c1");
        segmented.max_segments = skill;
        segmented.command.max_segments = command;
        assert_eq!(IssuerRecord::new(segmented, at(0.0)).max_segments, most);
    }
}

#[test]
fn only_another_life_of_the_executor_proves_early_that_nothing_ran() {
    // Well within the start budget of 1 s and its margin of 2 s.
    let found = |boot_id: &str| {
        let mut rig = Rig::dispatched();
        let boot_id = boot_id.into();
        rig.ok(Ev::NotFound { boot_id }, 0.5);
        rig.record.state
    };
    assert_eq!(found("boot-2"), S::Rejected);
    assert_eq!(found("boot-1"), S::Dispatched);
    // No beacon was heard: nothing is known of its life.
    assert_eq!(found(""), S::Dispatched);
}

#[test]
fn what_belongs_to_something_else_is_refused() {
    let mut rig = Rig::evaluating();
    let mut foreign = raw(9, ExecutorState::Ended);
    foreign.command_id = "c2".into();
    assert!(matches!(
        rig.record
            .apply(Ev::Status(Box::new(foreign)), &rig.policy, at(6.0)),
        Err(IssuerError::OtherCommand { .. })
    ));
    let Ev::Judged(mut v) = verdict(Outcome::Success) else {
        unreachable!()
    };
    v.run_id = "r2".into();
    assert!(matches!(
        rig.record.apply(Ev::Judged(v), &rig.policy, at(6.0)),
        Err(IssuerError::OtherRun { .. })
    ));
    assert_eq!(rig.record.state, S::Evaluating);
}

#[test]
fn an_unknown_command_keeps_its_resources_from_others() {
    let mut ledger = IssuerLedger::default();
    let policy = IssuerPolicy::default();
    ledger.propose(issue("c1"), at(0.0)).unwrap();
    let wanted = ["arm".to_owned(), "base".to_owned()];
    assert_eq!(ledger.held(&wanted).count(), 0);
    for event in [
        Ev::Commit,
        Ev::Dispatch { goal_id: GOAL },
        Ev::Lost { reason: "x".into() },
    ] {
        ledger.apply("c1", event, &policy, at(0.1)).unwrap();
    }
    let held: Vec<_> = ledger.held(&wanted).collect();
    assert_eq!(held.len(), 1);
    assert_eq!(
        (held[0].resource.as_str(), held[0].state),
        ("arm", S::Unknown)
    );
}

fn any_event() -> impl Strategy<Value = Ev> {
    let any_state = prop::sample::select(ExecutorState::ALL);
    let any_end = prop::sample::select(ControlEnd::ALL);
    let any_stage = prop::sample::select(StopStage::ALL);
    let any_outcome = prop::sample::select(vec![
        Outcome::Process,
        Outcome::Success,
        Outcome::Failure,
        Outcome::Unknown,
    ]);
    prop_oneof![
        1 => Just(Ev::Commit),
        1 => any::<u8>().prop_map(|b| Ev::Dispatch { goal_id: [b; 16] }),
        1 => Just(Ev::Acknowledged),
        1 => Just(Ev::GoalRefused { code: ErrorCode::OldToken, reason: "old".into() }),
        6 => (0..12u64, any_state, any_end, any_stage).prop_map(|(n, state, control_end, stop_stage)| {
            Ev::Status(Box::new(SkillStatus { control_end, stop_stage, ..raw(n, state) }))
        }),
        1 => prop::sample::select(vec!["", "boot-1", "boot-2"])
            .prop_map(|b| Ev::NotFound { boot_id: b.into() }),
        3 => any_outcome.prop_map(verdict),
        1 => Just(Ev::NotJudged { reason: "dark".into() }),
        1 => Just(Ev::CancelRequested { reason: "stop".into() }),
        1 => Just(Ev::Lost { reason: "lost".into() }),
        1 => Just(Ev::Reconcile),
        1 => Just(Ev::Reconciled { to: Finality::Canceled, by: "p".into(), reason: "r".into() }),
        1 => Just(Ev::Expired { reason: "late".into() }),
        1 => Just(Ev::SettleConfirmed),
        3 => Just(Ev::Tick),
    ]
}

/// The arrows of the diagram in the architecture document.
fn arrow_exists(from: S, to: S) -> bool {
    match from {
        S::Proposed => matches!(to, S::Rejected | S::Committed),
        S::Committed => matches!(to, S::Dispatched | S::Canceled | S::Rejected),
        // DISPATCHED may skip ACCEPTED (or RUNNING) when the news of it was lost and later news comes.
        S::Dispatched | S::Accepted | S::Running => !matches!(to, S::Proposed | S::Committed),
        S::Evaluating => matches!(
            to,
            S::Running | S::Canceling | S::Unknown | S::Succeeded | S::Failed | S::Canceled
        ),
        S::Canceling => {
            matches!(
                to,
                S::Canceled | S::Evaluating | S::Unknown | S::Succeeded | S::Failed
            )
        }
        S::Unknown | S::Reconciling => matches!(
            to,
            S::Reconciling | S::Unknown | S::Succeeded | S::Failed | S::Canceled
        ),
        S::Unspecified | S::Rejected | S::Succeeded | S::Failed | S::Canceled => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_events_in_any_order_keep_the_invariants(
        events in prop::collection::vec((any_event(), 0.0..8.0f64), 0..60),
        started in any::<bool>(),
    ) {
        let mut rig = if started { Rig::running() } else { Rig::new() };
        let mut secs = 1.0;
        let mut sent = Vec::new();
        for (event, step) in events {
            secs += step;
            let before = rig.record.clone();
            match rig.record.apply(event, &rig.policy, at(secs)) {
                Err(_) => prop_assert_eq!(&before, &rig.record),
                Ok(effects) => {
                    let after = &rig.record;
                    prop_assert!(after.sequence >= before.sequence);
                    prop_assert!(after.state == before.state || after.sequence > before.sequence);
                    if before.state != after.state {
                        prop_assert!(arrow_exists(before.state, after.state),
                            "{:?} to {:?}", before.state, after.state);
                    }
                    if before.state.is_terminal() {
                        prop_assert_eq!(before.state, after.state);
                        let only_settling = effects
                            .iter()
                            .all(|e| matches!(e, Fx::SettleExecutor { .. } | Fx::Persist));
                        prop_assert!(only_settling);
                    }
                    if after.state == S::Succeeded && before.state != S::Succeeded {
                        let judged = after.verdict.as_ref().is_some_and(|v| v.outcome == Outcome::Success);
                        prop_assert!(judged, "success without a SUCCESS verdict");
                    }
                    let mut durable = false;
                    for effect in effects {
                        match effect {
                            Fx::Persist => durable = true,
                            Fx::Send { goal_id, .. } => {
                                prop_assert!(durable);
                                prop_assert!(!sent.contains(&goal_id));
                                sent.push(goal_id);
                            }
                            Fx::SettleExecutor { .. } => {
                                prop_assert!(durable || before.state.is_terminal());
                                prop_assert!(after.state.is_terminal());
                            }
                            Fx::Ended => prop_assert!(after.state.is_terminal() || after.state == S::Unknown),
                            _ => {}
                        }
                    }
                }
            }
        }
    }
}

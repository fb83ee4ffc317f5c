//! A process that dies, and a disk that fails: nothing is started twice, nothing is claimed.

mod bench;

use std::collections::BTreeSet;

use bench::{assert_code, ms, precondition, settings, skills, Bench, Fate};
use eh_contract::state::{ControlEnd, ExecutorState, StopStage};
use eh_contract::ErrorCode;
use eh_executor::effect::AnswerStatus;
use eh_executor::{Effect, Event, RecordKind, Server};
use eh_ledger::executor::{goal_status, ExecutorEvent, StopCause};
use eh_skills::catalog::Adapter;
use serde_json::json;

/// A run whose process dies when it has written that much, and its successor. `last` says whether what
/// followed from the last write was still done.
fn dies_after(skill: &str, writes: usize, cancel: bool, last: bool) -> Bench {
    let drives = skill == "navigate_to_pose";
    let mut b = if drives {
        Bench::navigation()
    } else {
        Bench::manipulation()
    };
    b.robot.planning_scene = true;
    b.disk.dies_after = Some(writes);
    let mut command = if drives {
        b.drive()
    } else {
        b.command(skill, json!({}))
    };
    command.preconditions.push(precondition());
    let arrival = b.arrival(&command);
    let caller = arrival.caller;
    let mut event = Some(Event::Arrived(Box::new(arrival)));
    for step in 0..400 {
        let next = match event.take() {
            Some(event) => event,
            None if cancel && step == 30 => Event::CancelAsked { caller },
            None => Event::Tick,
        };
        if !b.lives_through(next, last) {
            break;
        }
    }
    b.disk.dies_after = None;
    b.disk.died = false;
    b.restart();
    b
}

#[test]
fn whenever_it_dies_a_goal_starts_at_most_once_and_the_end_is_known_or_said_to_be_unknown() {
    let ways = [(false, false), (false, true), (true, false), (true, true)];
    // A stow that is canceled writes the most: 9 events.
    let cases = ["navigate_to_pose", "stow", "open_gripper"]
        .into_iter()
        .flat_map(|skill| (0..10).map(move |writes| (skill, writes)));
    for (skill, writes) in cases {
        for (cancel, last) in ways {
            let mut b = dies_after(skill, writes, cancel, last);
            b.pass(ms(8000));
            assert!(b.robot.started.values().all(|n| *n == 1), "after {writes}");
            assert!(b.executor.is_idle());
            assert!(!Server::ALL.iter().any(|s| b.is_running(*s)));
            if writes == 0 {
                assert!(b.disk.written.is_empty());
                continue;
            }
            let record = b.record("c1");
            assert!(record.is_answered(), "after {writes}: {:?}", record.state);
            match record.state {
                ExecutorState::Rejected => {
                    assert_eq!(b.robot.starts(), 0);
                    assert_eq!(record.error_code, ErrorCode::ExpiredCommand.code());
                }
                ExecutorState::Ended => {
                    assert_ne!(record.control_end, ControlEnd::None);
                    let known = record.open_goals().next().is_none();
                    assert_eq!(known, record.control_end != ControlEnd::Lost);
                }
                other => panic!("after {writes}: {other:?}"),
            }
            // The same command again, as an issuer would that knows no better: its end.
            let before = b.robot.starts();
            let command = record.command.clone();
            let again = b.run(&command);
            assert_eq!(again.skill_status.control_end, record.control_end);
            assert_eq!(b.robot.starts(), before);
        }
    }
}

#[test]
fn what_was_running_is_brought_to_standstill() {
    let (mut b, _) = Bench::driving(Fate::endless());
    b.pass(ms(500));
    let goal = b.goal("c1");
    b.restart();
    b.pass(ms(2000));
    assert!(!b.canceled.is_empty() && b.canceled.iter().all(|g| *g == goal));
    let record = b.record("c1");
    assert_eq!(record.control_end, ControlEnd::Aborted);
    assert_eq!(record.stop_stage, StopStage::Confirmed);
    assert_eq!(record.error_code, ErrorCode::ResultLost.code());
    assert_eq!(record.sub_goals[0].status, goal_status::CANCELED);
    assert_eq!(
        b.executor.live_records().count(),
        1,
        "it holds its resources"
    );
}

#[test]
fn servers_that_are_not_discovered_yet_are_waited_for() {
    let (mut b, _) = Bench::driving(Fate::endless());
    b.pass(ms(500));
    b.robot.there.clear();
    b.restart();
    b.pass(ms(4000));
    assert_eq!(
        b.state("c1"),
        ExecutorState::Started,
        "the time to stop has not begun"
    );
    b.robot.there.insert(Server::Navigation);
    b.pass(ms(2000));
    assert_eq!(b.record("c1").stop_stage, StopStage::Confirmed);
    // One that never comes: 5 s, then the 3 s to stop.
    let (mut b, _) = Bench::driving(Fate::endless());
    b.pass(ms(500));
    b.robot.there.clear();
    b.restart();
    b.pass(ms(8100));
    let record = b.record("c1");
    assert_eq!(record.error_code, ErrorCode::StopUnconfirmed.code());
}

#[test]
fn odometry_that_is_not_discovered_yet_is_waited_for() {
    let (mut b, _) = Bench::driving(Fate::endless());
    b.pass(ms(500));
    b.robot.drifts = true;
    b.restart();
    b.pass(ms(6000));
    assert!(!b.canceled.is_empty(), "the cancel does not wait for it");
    assert_eq!(b.state("c1"), ExecutorState::Canceling);
    b.robot.drifts = false;
    b.pass(ms(500));
    assert_eq!(b.record("c1").stop_stage, StopStage::Confirmed);
}

#[test]
fn a_server_that_forgot_it_leaves_it_unknown() {
    let (mut b, _) = Bench::driving(Fate::endless());
    b.pass(ms(500));
    b.robot.restart_servers();
    b.restart();
    b.pass(ms(2000));
    let record = b.record("c1");
    assert_eq!(record.control_end, ControlEnd::Lost);
    assert_eq!(record.error_code, ErrorCode::ResultLost.code());
    assert_eq!(b.robot.starts(), 1);
}

#[test]
fn a_goal_under_a_name_that_is_not_known_any_more_is_unknown() {
    let (mut b, _) = Bench::driving(Fate::endless());
    b.pass(ms(500));
    b.settings
        .actions
        .insert(Server::Navigation, "/renamed".into());
    b.restart();
    b.pass(ms(1000));
    assert_eq!(b.record("c1").control_end, ControlEnd::Lost);
}

#[test]
fn a_stop_that_was_asked_for_before_it_died_is_carried_through() {
    let (mut b, caller) = Bench::driving(Fate::endless());
    b.pass(ms(500));
    b.cancel(caller);
    b.restart();
    b.pass(ms(2000));
    let record = b.record("c1");
    assert_eq!(record.control_end, ControlEnd::Canceled);
    assert_eq!(record.stop_cause, Some(StopCause::Caller));
}

#[test]
fn what_is_held_is_remembered_over_a_restart() {
    let mut b = Bench::manipulation();
    b.disk.notes.insert("held_grasp".into(), "not JSON".into());
    b.restart();
    let command = b.command("open_gripper", json!({}));
    // Written before the fingers move.
    b.send(&command);
    assert_eq!(b.disk.notes["held_grasp"], "null");
    // A note that can't be written is told, and is no reason to fail.
    let mut b = Bench::manipulation();
    b.disk.notes_fail = true;
    let command = b.command("open_gripper", json!({}));
    assert_eq!(b.run(&command).status, AnswerStatus::Succeeded);
    assert!(b.lines.iter().any(|(_, l)| l.contains("not written down")));
}

/// The effects that move something.
fn moves(effects: &[Effect]) -> usize {
    let sends = |e: &&Effect| matches!(e, Effect::SendGoal { .. } | Effect::ChangeScene { .. });
    effects.iter().filter(sends).count()
}

#[test]
fn what_can_not_be_written_is_not_done() {
    use RecordKind::{Accepted, GoalSent, Received, Started, Step};
    for kind in [Received, Accepted, Started, GoalSent, Step] {
        let mut b = Bench::manipulation();
        b.robot.planning_scene = true;
        b.disk.fails_at = [kind].into();
        let command = b.command("open_gripper", json!({}));
        let answer = b.run(&command);
        let sent = b.performed.contains(&"executor.send_goal");
        assert_eq!(sent, kind == Step, "{kind:?}");
        assert!(b.scene_changes.is_empty(), "{kind:?}");
        if kind == Step {
            // Nothing moves by it, so it is left to the next skill.
            assert_eq!(answer.status, AnswerStatus::Succeeded);
            continue;
        }
        let words = "the journal can't be used, so nothing is started: the disk is full";
        assert_code(&answer, ErrorCode::StorageFailure);
        assert_eq!(answer.error_msg, words);
        assert!(b.executor.is_idle());
        // It leaves nothing behind: with room on the disk the same one runs.
        assert!(b.disk.records.is_empty(), "all of it is written or none");
        assert_eq!(b.executor.live_records().count(), 0);
        b.disk.fails_at.clear();
        assert_eq!(b.run(&command).status, AnswerStatus::Succeeded, "{kind:?}");
    }
}

#[test]
fn a_start_that_can_not_be_written_leaves_what_was_accepted_unstarted() {
    for kind in [RecordKind::Started, RecordKind::GoalSent] {
        let mut b = Bench::navigation();
        b.robot.awake = false;
        let command = b.drive();
        let caller = b.send(&command);
        b.pass(ms(100));
        assert_eq!(b.state("c1"), ExecutorState::Accepted);
        b.disk.fails_at = [kind].into();
        b.robot.awake = true;
        b.pass(ms(100));
        let answer = b.answer(caller);
        assert_code(&answer, ErrorCode::StorageFailure);
        assert_eq!(answer.error_msg, "nothing was started: the disk is full");
        assert_eq!(b.state("c1"), ExecutorState::Rejected);
        assert_eq!(b.robot.starts(), 0);
        assert!(!b.performed.contains(&"executor.run_event"), "{kind:?}");
    }
}

#[test]
fn a_later_goal_that_can_not_be_written_is_not_sent() {
    let (mut b, caller) = Bench::picking();
    b.pass(ms(100));
    assert_eq!(b.robot.starts(), 1);
    b.disk.fails_at = [RecordKind::GoalSent].into();
    b.pass(ms(8000));
    let answer = b.answer(caller);
    assert_code(&answer, ErrorCode::StorageFailure);
    let words = "was not sent: the journal can't be written";
    assert!(answer.error_msg.contains(words), "{}", answer.error_msg);
    assert_eq!(b.robot.starts(), 1);
    b.disk.fails_at.clear();
    let next = b.command("open_gripper", json!({}));
    assert_code(&b.run(&next), ErrorCode::ResourceBusy);
    assert_eq!(b.settle("c1", 2).error_code, ErrorCode::None);
}

#[test]
fn what_ends_a_motion_is_done_also_when_it_can_not_be_written() {
    use RecordKind::{
        Completed, GoalEnded, GoalRefused, Lost, Rejected, Standstill, StopRequested,
        StopUnconfirmed,
    };
    let ends: BTreeSet<RecordKind> = [
        Completed,
        GoalEnded,
        GoalRefused,
        Lost,
        Rejected,
        Standstill,
        StopRequested,
        StopUnconfirmed,
    ]
    .into();
    let mut b = Bench::navigation();
    b.disk.fails_at = ends.clone();
    b.robot.fates.push_back(Fate::endless());
    let command = b.drive();
    let caller = b.send(&command);
    b.pass(ms(500));
    b.cancel(caller);
    assert_eq!(b.canceled.len(), 1, "at once");
    let answer = b.answer(caller);
    assert_eq!(answer.status, AnswerStatus::Canceled);
    assert!(!b.is_running(Server::Navigation));
    assert!(b.lines.iter().any(|(_, l)| l.contains("not written down")));
    // The disk says less than was, so that the next life brings it to an end once more.
    assert_eq!(b.disk.records["c1"].state, ExecutorState::Started);
    b.disk.fails_at.clear();
    b.restart();
    b.pass(ms(2000));
    assert_eq!(b.record("c1").control_end, ControlEnd::Aborted);
    assert_eq!(b.robot.starts(), 1);

    // What the disk takes again is written down by the life that did it.
    let mut b = Bench::navigation();
    b.disk.fails_at = ends.clone();
    b.robot.fates.push_back(Fate::endless());
    let command = b.drive();
    let caller = b.send(&command);
    b.pass(ms(500));
    b.cancel(caller);
    b.answer(caller);
    b.pass(ms(3000));
    assert_eq!(b.disk.records["c1"].state, ExecutorState::Started);
    b.disk.fails_at.clear();
    b.pass(ms(1100));
    assert_eq!(b.disk.records["c1"].control_end, ControlEnd::Canceled);
    let written = b.disk.written.len();
    b.pass(ms(3000));
    assert_eq!(b.disk.written.len(), written, "once");

    // A refusal, a rejection by the server, a loss and a stop that is not confirmed.
    let fates = [
        Fate {
            accepted: false,
            ..Fate::default()
        },
        Fate {
            taken_after: None,
            ..Fate::default()
        },
        Fate {
            obeys_after: None,
            ..Fate::endless()
        },
    ];
    for fate in fates {
        let mut b = Bench::navigation();
        b.disk.fails_at = ends.clone();
        b.robot.fates.push_back(fate);
        let mut command = b.drive();
        command.execution_timeout = ms(4000);
        let answer = b.run(&command);
        assert_ne!(answer.error_code, 0);
        assert!(b.executor.is_idle());
    }
    let mut b = Bench::navigation();
    b.disk.fails_at = ends;
    b.robot.stop = Some("s1".into());
    let command = b.drive();
    assert_code(&b.run(&command), ErrorCode::StopLatched);
}

#[test]
fn a_settlement_that_can_not_be_written_keeps_the_resources() {
    let mut b = Bench::navigation();
    let command = b.drive();
    b.run(&command);
    b.disk.fails_at = [RecordKind::Settled].into();
    let answer = b.settle("c1", 1);
    assert_eq!(answer.error_code, ErrorCode::StorageFailure);
    assert_eq!(answer.state, Some(ExecutorState::Ended));
    let next = b.drive();
    assert_code(&b.run(&next), ErrorCode::ResourceBusy);
}

#[test]
fn a_journal_that_can_not_be_read_starts_nothing() {
    let mut b = Bench::navigation();
    b.disk.reads_fail = true;
    let command = b.drive();
    assert_code(&b.run(&command), ErrorCode::StorageFailure);
    assert_eq!(b.settle("c9", 1).error_code, ErrorCode::StorageFailure);
    assert!(b.executor.query("c9", &b.disk).is_err());
}

#[test]
fn a_goal_comes_out_only_after_it_is_durable() {
    let mut b = Bench::navigation();
    let command = b.drive();
    let arrival = b.arrival(&command);
    b.disk.dies_after = Some(3);
    let effects = b.decide(Event::Arrived(Box::new(arrival)));
    assert_eq!(moves(&effects), 0);
    let mut b = Bench::navigation();
    let command = b.drive();
    let arrival = b.arrival(&command);
    let effects = b.decide(Event::Arrived(Box::new(arrival)));
    assert_eq!(moves(&effects), 1);
    assert_eq!(b.disk.written.last().unwrap().1, RecordKind::GoalSent);
}

#[test]
fn every_write_and_every_effect_has_a_name_of_its_own() {
    let names: BTreeSet<&str> = RecordKind::ALL
        .iter()
        .map(|k| k.failpoint())
        .chain(Effect::FAILPOINTS.iter().copied())
        .chain([eh_executor::journal::NOTE_FAILPOINT])
        .collect();
    assert_eq!(
        names.len(),
        RecordKind::ALL.len() + Effect::FAILPOINTS.len() + 1
    );
    for kind in RecordKind::ALL {
        assert_eq!(kind.failpoint(), format!("executor.append.{}", kind.name()));
    }
    let events = [
        ExecutorEvent::Complete,
        ExecutorEvent::Standstill,
        ExecutorEvent::Stop(StopCause::Caller),
        ExecutorEvent::Accept {
            resources: vec![],
            disconnect_policy: Default::default(),
        },
        ExecutorEvent::Start {
            run_id: String::new(),
        },
    ];
    for event in events {
        assert_eq!(RecordKind::of(&event).name(), event.name());
    }
    // What two whole lives give out is named.
    let mut b = Bench::manipulation();
    b.robot.planning_scene = true;
    let mut command = b.command("open_gripper", json!({}));
    command.preconditions.push(precondition());
    b.run(&command);
    b.settle("c1", 1);
    let mut n = Bench::navigation();
    n.robot.fates.push_back(Fate::endless());
    let command = n.drive();
    let caller = n.send(&command);
    n.pass(ms(300));
    n.cancel(caller);
    n.answer(caller);
    let seen: BTreeSet<&str> = b.performed.iter().chain(&n.performed).copied().collect();
    let all: BTreeSet<&str> = Effect::FAILPOINTS.iter().copied().collect();
    assert_eq!(seen, all);
}

#[test]
fn a_clock_set_back_ends_nothing_early_and_hides_nothing() {
    let mut b = Bench::navigation();
    let command = b.drive();
    let caller = b.send(&command);
    b.pass(ms(300));
    b.now -= ms(50_000);
    b.robot.lease(7, "/harness", b.now + ms(3_600_000));
    b.pass(ms(40));
    assert_eq!(b.state("c1"), ExecutorState::Started);
    assert!(b.declared.last().unwrap().active, "it is declared on");
    b.cancel(caller);
    assert_eq!(b.canceled.len(), 1);
}

#[test]
fn both_adapters_are_set_up_alike() {
    for adapter in [Adapter::Navigation, Adapter::Manipulation] {
        let needed = skills(adapter);
        let actions = settings(adapter).actions;
        for skill in needed.keys() {
            for server in Server::needed_by(skill) {
                assert!(actions.contains_key(server), "{skill}");
            }
        }
    }
}

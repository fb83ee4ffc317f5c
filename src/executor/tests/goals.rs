//! Goals of foreign servers: each fault a server can have, and what becomes of the command.

mod bench;

use bench::{assert_code, cup, ms, Bench, Fate};
use eh_contract::state::{ControlEnd, ExecutorState, StopStage};
use eh_contract::ErrorCode;
use eh_executor::effect::AnswerStatus;
use eh_executor::{Event, NativeEnd, Server};
use eh_ledger::executor::goal_status;
use serde_json::json;

#[test]
fn a_command_runs_once_and_is_held_until_it_is_settled() {
    let mut b = Bench::navigation();
    assert_eq!(b.skills_offered, 3);
    let command = b.drive();
    let answer = b.run(&command);
    assert_eq!(answer.status, AnswerStatus::Succeeded, "{answer:?}");
    assert_eq!(answer.skill_status.control_end, ControlEnd::Completed);
    assert_eq!(answer.skill_status.resources, ["base"]);
    let life = [
        "received",
        "accepted",
        "started",
        "goal_sent",
        "goal_ended",
        "completed",
    ];
    assert_eq!(b.kinds(&command.command_id), life);
    assert_eq!(b.robot.starts(), 1);
    // Start and end are announced, and the run is declared before its goal is sent.
    let kinds: Vec<u8> = b.run_events.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, [1, 3]);
    let at = |name: &str| b.performed.iter().position(|p| *p == name).unwrap();
    assert!(at("executor.run_event") < at("executor.declare"));
    assert!(at("executor.declare") < at("executor.send_goal"));
    // Nobody is told before the goal is on its way.
    assert!(at("executor.send_goal") < at("executor.feedback"));
    assert!(at("executor.feedback") < at("executor.answer"));
    assert!(b.declared.first().unwrap().active && !b.declared.last().unwrap().active);
    // From 1000 ms of drive, ten times a second.
    assert!(
        (10..=13).contains(&b.declared.len()),
        "{}",
        b.declared.len()
    );

    // The same command again: the same answer, nothing runs.
    let again = b.run(&command);
    assert_eq!(again.skill_status, answer.skill_status);
    assert_eq!((b.robot.starts(), b.kinds("c1").len()), (1, 6));
    // Another one has to wait for the settlement.
    let other = b.drive();
    let busy = b.run(&other);
    assert_code(&busy, ErrorCode::ResourceBusy);
    assert!(busy.error_msg.contains("base is held by c1"), "{busy:?}");
    let settled = b.settle("c1", 1);
    assert_eq!(settled.error_code, ErrorCode::None);
    assert_eq!(settled.state, Some(ExecutorState::Settled));
    // A refusal is remembered under its id; a new command runs.
    assert_code(&b.run(&other), ErrorCode::ResourceBusy);
    let third = b.drive();
    assert_eq!(b.run(&third).status, AnswerStatus::Succeeded);
}

#[test]
fn every_change_is_told_and_progress_is_the_share_of_the_way() {
    let mut b = Bench::navigation();
    let command = b.drive();
    let caller = b.send(&command);
    let states: Vec<ExecutorState> = b.feedback.iter().map(|(_, s)| *s).collect();
    assert_eq!(
        states,
        [
            ExecutorState::Accepted,
            ExecutorState::Started,
            ExecutorState::Started
        ]
    );
    b.robot.remaining = Some(4.0);
    b.pass(ms(300));
    b.robot.remaining = Some(1.0);
    b.pass(ms(100));
    let record = b.record("c1");
    assert_eq!(b.executor.status_of(&record).progress, Some(0.75));
    for nonsense in [f64::NAN, f64::INFINITY, -1.0] {
        b.robot.remaining = Some(nonsense);
        b.pass(ms(40));
        assert_eq!(b.executor.status_of(&record).progress, Some(0.75));
    }
    b.answer(caller);
}

#[test]
fn a_second_client_of_a_command_gets_the_same_end() {
    let mut b = Bench::navigation();
    let command = b.drive();
    let (first, second) = (b.send(&command), b.send(&command));
    assert_eq!(b.answer(first).skill_status, b.answer(second).skill_status);
    assert_eq!(b.robot.starts(), 1);
}

#[test]
fn a_rejected_goal_moves_nothing() {
    let (mut b, caller) = Bench::driving(Fate {
        accepted: false,
        ..Fate::default()
    });
    let answer = b.answer(caller);
    assert_code(&answer, ErrorCode::NavigationRejected);
    assert!(answer
        .error_msg
        .contains("/navigate_to_pose rejected the goal drive"));
    assert_eq!(answer.skill_status.control_end, ControlEnd::Aborted);
    assert_eq!(answer.skill_status.stop_stage, StopStage::Confirmed);
    assert_eq!(b.robot.starts(), 0);
    assert!(b.record("c1").sub_goals[0].refused);
}

#[test]
fn a_goal_that_was_not_sent_is_told_with_what_to_do() {
    let (mut b, caller) = Bench::driving(Fate {
        not_sent: true,
        ..Fate::default()
    });
    let answer = b.answer(caller);
    assert_code(&answer, ErrorCode::ServerUnavailable);
    for word in ["drive was not sent", "no server is there", "start Nav2"] {
        assert!(answer.error_msg.contains(word), "{}", answer.error_msg);
    }
    assert!(b.record("c1").sub_goals[0].refused);
}

#[test]
fn a_failure_of_the_server_is_told_with_its_code() {
    let (mut b, caller) = Bench::driving(Fate {
        status: goal_status::ABORTED,
        // Nav2's GOAL_OCCUPIED.
        code: 206,
        ..Fate::default()
    });
    let answer = b.answer(caller);
    assert_code(&answer, ErrorCode::GoalOccupied);
    assert_eq!(answer.skill_status.native_outcome.code, 206);
    assert_eq!(answer.skill_status.control_end, ControlEnd::Aborted);
}

#[test]
fn a_lost_acknowledgement_starts_nothing_twice() {
    // The status topic, the result, or the acknowledgement itself, late: each alone is enough.
    let lost = Fate {
        acknowledged_after: None,
        ..Fate::default()
    };
    let fates = [
        Fate {
            runs: Some(ms(4000)),
            ..lost.clone()
        },
        Fate {
            no_status: true,
            runs: Some(ms(100)),
            ..lost.clone()
        },
        Fate {
            // After the 500 ms in which it is waited for and before the 1500 ms more in which it is
            // asked about are over.
            acknowledged_after: Some(ms(1200)),
            no_status: true,
            runs: Some(ms(3000)),
            ..lost
        },
    ];
    for fate in fates {
        let mut b = Bench::navigation();
        b.robot.fates.push_back(fate.clone());
        let command = b.drive();
        let answer = b.run(&command);
        assert_eq!(
            answer.status,
            AnswerStatus::Succeeded,
            "{fate:?} {answer:?}"
        );
        assert_eq!(b.robot.starts(), 1);
    }
}

#[test]
fn an_acknowledgement_that_never_comes_is_unknown_and_canceled() {
    let mut b = Bench::navigation();
    // The server takes it when it has been given up.
    b.robot.fates.push_back(Fate {
        taken_after: Some(ms(4000)),
        ..Fate::endless()
    });
    let command = b.drive();
    let caller = b.send(&command);
    let answer = b.answer(caller);
    assert_code(&answer, ErrorCode::AcknowledgementLost);
    assert_eq!(answer.skill_status.control_end, ControlEnd::Lost);
    assert_eq!(answer.status, AnswerStatus::Aborted);
    let goal = b.goal("c1");
    assert!(b.canceled.contains(&goal));
    assert_eq!(b.robot.starts(), 0);
    let next = b.drive();
    let busy = b.run(&next);
    assert_code(&busy, ErrorCode::ResourceBusy);
    // Late it is taken, and canceled again.
    b.until("the start", |b| b.is_running(Server::Navigation));
    b.until("the late goal's end", |b| !b.is_running(Server::Navigation));
    b.pass(ms(100));
    // What became of it is known then, and moves no state.
    let record = b.record("c1");
    assert_eq!(record.sub_goals[0].status, goal_status::CANCELED);
    assert_eq!(record.control_end, ControlEnd::Lost);
    assert!(b.lines.iter().any(|(_, l)| l.contains("given up")));
}

#[test]
fn a_goal_that_is_taken_after_the_settlement_is_canceled_too() {
    let mut b = Bench::navigation();
    b.robot.fates.push_back(Fate {
        taken_after: Some(ms(4000)),
        ..Fate::endless()
    });
    let command = b.drive();
    assert_code(&b.run(&command), ErrorCode::AcknowledgementLost);
    assert_eq!(b.settle("c1", 2).error_code, ErrorCode::None);
    let canceled = b.canceled.len();
    b.until("the start", |b| b.is_running(Server::Navigation));
    b.until("the late goal's end", |b| !b.is_running(Server::Navigation));
    assert!(b.canceled.len() > canceled);
    assert_eq!(b.state("c1"), ExecutorState::Settled);
}

#[test]
fn a_goal_that_is_refused_late_was_not_started() {
    let mut b = Bench::navigation();
    b.robot.fates.push_back(Fate {
        accepted: false,
        taken_after: Some(ms(1200)),
        ..Fate::default()
    });
    let command = b.drive();
    assert_code(&b.run(&command), ErrorCode::NavigationRejected);
}

#[test]
fn a_lost_result_is_asked_for_again() {
    let (mut b, caller) = Bench::driving(Fate {
        results_lost: 2,
        ..Fate::default()
    });
    let answer = b.answer(caller);
    assert_eq!(answer.status, AnswerStatus::Succeeded, "{answer:?}");
    assert_eq!(b.asked.len(), 3);
}

#[test]
fn a_result_that_never_comes_is_unknown() {
    let (mut b, caller) = Bench::driving(Fate {
        results_lost: u32::MAX,
        ..Fate::default()
    });
    let answer = b.answer(caller);
    assert_code(&answer, ErrorCode::ResultLost);
    assert!(answer.error_msg.contains("within 1.5 s"), "{answer:?}");
    assert_eq!(answer.skill_status.control_end, ControlEnd::Lost);
    assert_eq!(answer.skill_status.resources, ["base"]);
}

#[test]
fn a_server_restarted_with_its_memory_is_asked_again() {
    let (mut b, caller) = Bench::driving(Fate {
        runs: Some(ms(2000)),
        ..Fate::default()
    });
    b.pass(ms(500));
    // Gone for less than the 1.5 s in which it is waited for; the open request is lost with it.
    b.robot.there.clear();
    b.robot.forget_requests();
    b.pass(ms(1000));
    b.robot.there.insert(Server::Navigation);
    let answer = b.answer(caller);
    assert_eq!(answer.status, AnswerStatus::Succeeded, "{answer:?}");
    assert_eq!(b.robot.starts(), 1);
}

#[test]
fn a_server_restarted_without_memory_and_an_expired_result_are_unknown() {
    let (mut b, caller) = Bench::driving(Fate::endless());
    b.pass(ms(500));
    b.robot.restart_servers();
    let answer = b.answer(caller);
    assert_code(&answer, ErrorCode::ResultLost);
    assert_eq!(b.robot.starts(), 1, "it is not sent again");
}

#[test]
fn a_server_that_is_gone_for_good_is_unknown() {
    let (mut b, caller) = Bench::driving(Fate::endless());
    b.pass(ms(500));
    b.robot.there.clear();
    let answer = b.answer(caller);
    assert_code(&answer, ErrorCode::ResultLost);
    assert!(b.canceled.contains(&b.goal("c1")));
}

#[test]
fn an_answer_lost_without_a_trace_is_asked_for_again() {
    let mut b = Bench::navigation();
    // No status tells that it has ended, so that only asking again helps.
    b.robot.fates.push_back(Fate {
        results_lost: 1,
        no_status: true,
        ..Fate::default()
    });
    let command = b.drive();
    let began = b.now;
    assert_eq!(b.run(&command).status, AnswerStatus::Succeeded);
    // 10 s after the first question at the latest, at a look every 0.5 s.
    assert!(b.now - began <= ms(10_700), "{:?}", b.now - began);
}

#[test]
fn an_operators_goal_that_displaces_ours_is_named_and_left_alone() {
    let (mut b, caller) = Bench::driving(Fate::endless());
    b.pass(ms(500));
    let (ours, theirs) = (b.goal("c1"), [9; 16]);
    b.robot.foreign.insert(Server::Navigation, vec![theirs]);
    b.robot.end(ours, goal_status::ABORTED);
    let answer = b.answer(caller);
    assert_code(&answer, ErrorCode::Preempted);
    assert!(answer.error_msg.contains("goal 09090909-"), "{answer:?}");
    assert_eq!(answer.skill_status.control_end, ControlEnd::Preempted);
    assert!(!b.canceled.contains(&theirs));
}

#[test]
fn an_operators_goal_after_ours_was_reached_takes_nothing_from_it() {
    let mut b = Bench::navigation();
    let command = b.drive();
    let caller = b.send(&command);
    b.until("the goal to be reached", |b| {
        b.robot.starts() == 1 && !b.is_running(Server::Navigation)
    });
    b.robot.foreign.insert(Server::Navigation, vec![[9; 16]]);
    assert_eq!(b.answer(caller).status, AnswerStatus::Succeeded);
}

#[test]
fn a_goal_that_somebody_else_cancels_is_no_success_of_ours() {
    let (mut b, caller) = Bench::driving(Fate::endless());
    b.pass(ms(500));
    b.robot.end(b.goal("c1"), goal_status::CANCELED);
    let answer = b.answer(caller);
    assert_code(&answer, ErrorCode::Preempted);
    assert!(answer.error_msg.contains("somebody canceled drive"));
}

#[test]
fn an_operators_goal_that_runs_holds_the_base() {
    let mut b = Bench::navigation();
    b.robot.foreign.insert(Server::Navigation, vec![[9; 16]]);
    let command = b.drive();
    let answer = b.run(&command);
    assert_code(&answer, ErrorCode::ResourceBusy);
    assert!(
        answer.error_msg.contains("goal 09090909-0909-"),
        "{answer:?}"
    );
    assert_eq!((b.robot.starts(), b.canceled.len()), (0, 0));
    // One of the other executor too.
    let mut b = Bench::navigation();
    b.robot.others.insert("base".into(), "c9 of /other".into());
    let command = b.drive();
    assert_code(&b.run(&command), ErrorCode::ResourceBusy);
}

#[test]
fn a_settled_goal_of_ours_that_is_listed_for_a_moment_more_is_no_strangers() {
    let mut b = Bench::navigation();
    let command = b.drive();
    b.run(&command);
    b.settle("c1", 1);
    // The status message is behind.
    b.robot.end(b.goal("c1"), goal_status::EXECUTING);
    let next = b.drive();
    assert_eq!(b.run(&next).status, AnswerStatus::Succeeded);
}

#[test]
fn what_nobody_waits_for_changes_nothing() {
    let mut b = Bench::navigation();
    let command = b.drive();
    let caller = b.send(&command);
    b.pass(ms(100));
    let before = b.kinds("c1").len();
    let (ours, stranger) = (b.goal("c1"), [3; 16]);
    let end = NativeEnd::plain(goal_status::SUCCEEDED, 0, String::new());
    for goal_id in [ours, stranger] {
        b.handle(Event::GoalAcknowledged {
            goal_id,
            accepted: true,
        });
        b.handle(Event::GoalAcknowledged {
            goal_id,
            accepted: false,
        });
        b.handle(Event::ResultUnknown { goal_id });
        b.handle(Event::SceneChanged {
            command_id: "c1".into(),
            name: "drive".into(),
            result: Ok(()),
        });
    }
    b.handle(Event::ResultArrived {
        goal_id: stranger,
        end: end.clone(),
    });
    b.handle(Event::CancelAsked { caller: 999 });
    assert_eq!(b.kinds("c1").len(), before);
    assert_eq!(b.answer(caller).status, AnswerStatus::Succeeded);
    // A result that comes twice ends nothing twice.
    let written = b.kinds("c1").len();
    b.handle(Event::ResultArrived { goal_id: ours, end });
    assert_eq!(b.kinds("c1").len(), written);
}

#[test]
fn a_skill_without_a_server_takes_its_time() {
    let mut b = Bench::navigation();
    let command = b.command("wait", json!({"duration": 2.0}));
    let began = b.now;
    let caller = b.send(&command);
    b.pass(ms(1000));
    let record = b.record("c1");
    let progress = b.executor.status_of(&record).progress.unwrap();
    assert!((progress - 0.5).abs() < 0.02, "{progress}");
    assert_eq!(b.answer(caller).status, AnswerStatus::Succeeded);
    assert!((ms(2000)..=ms(2040)).contains(&(b.now - began)));
    assert_eq!(b.declared.len(), 0, "it does not move the base");
}

#[test]
fn a_step_of_the_planning_scene_is_written_down_and_then_made() {
    let mut b = Bench::manipulation();
    b.robot.planning_scene = true;
    let command = b.command("open_gripper", json!({}));
    let answer = b.run(&command);
    assert_eq!(answer.status, AnswerStatus::Succeeded, "{answer:?}");
    let life = [
        "received",
        "accepted",
        "started",
        "goal_sent",
        "goal_ended",
        "step",
        "completed",
    ];
    assert_eq!(b.kinds("c1"), life);
    assert_eq!(b.scene_changes, ["tidy_scene"]);
    assert_eq!(b.disk.notes["held_grasp"], "null");
}

#[test]
fn a_planning_scene_that_says_nothing_is_given_up() {
    let mut b = Bench::manipulation();
    b.robot.planning_scene = true;
    b.planning_scene = None;
    let command = b.command("stow", json!({}));
    // Stow folds the arm all the same: 4 × 0.5 s before and after it are waited for.
    let answer = b.run(&command);
    assert_eq!(answer.status, AnswerStatus::Succeeded, "{answer:?}");
    assert_eq!(b.scene_changes, ["prepare_scene", "tidy_scene"]);
    assert!(b.lines.iter().any(|(_, l)| l.contains("within 2.0 s")));
}

/// A goal of an operator that comes between two of ours, when nothing of ours runs that it could displace.
#[test]
fn an_operators_goal_in_the_middle_of_a_pick_is_not_displaced_by_the_next_of_ours() {
    let (mut b, caller) = Bench::picking();
    b.until("the first goal", |b| b.robot.starts() == 1);
    let theirs = [9; 16];
    b.robot.foreign.insert(Server::Arm, vec![theirs]);
    let answer = b.answer(caller);
    assert_code(&answer, ErrorCode::ResourceBusy);
    assert!(
        answer.error_msg.contains("goal 09090909-") && answer.error_msg.contains("was not sent"),
        "{answer:?}"
    );
    let record = b.record("c1");
    let sent: Vec<&str> = record
        .sub_goals
        .iter()
        .map(|g| g.action_name.as_str())
        .collect();
    assert!(
        !sent.is_empty() && sent.iter().all(|name| !name.contains("move_action")),
        "{sent:?}"
    );
    assert!(!b.canceled.contains(&theirs));
}

/// A pick wants a base that stands; who drives it by hand is known from Nav2's own status only.
#[test]
fn somebody_who_drives_the_base_keeps_the_arm_from_beginning() {
    let mut b = Bench::manipulation();
    let mut command = b.command("pick", json!({"object": "cup_1"}));
    command.targets = vec![cup()];
    b.robot.there.insert(Server::Navigation);
    let theirs = [9; 16];
    b.robot.foreign.insert(Server::Navigation, vec![theirs]);
    let answer = b.run(&command);
    assert_code(&answer, ErrorCode::ResourceBusy);
    for word in ["base is held", "goal 09090909-", "/navigate_to_pose"] {
        assert!(answer.error_msg.contains(word), "{answer:?}");
    }
    assert_eq!((b.robot.starts(), b.robot.asked_about_others), (0, 1));
    // What is known of the command says more than its goal.
    b.robot.others.insert("base".into(), "c9 of /other".into());
    command.command_id = "another".into();
    let answer = b.run(&command);
    assert!(answer.error_msg.contains("c9 of /other"), "{answer:?}");
    b.robot.others.clear();
    b.robot.foreign.clear();
    command.command_id = "a third".into();
    assert_ne!(b.run(&command).error_code, ErrorCode::ResourceBusy.code());
}

/// The last status message of a server that has died names goals for ever.
#[test]
fn a_goal_of_a_server_that_is_gone_holds_nothing_for_long() {
    let mut b = Bench::navigation();
    let theirs = [9; 16];
    b.robot.foreign.insert(Server::Navigation, vec![theirs]);
    for _ in 0..2 {
        let command = b.drive();
        assert_code(&b.run(&command), ErrorCode::ResourceBusy);
    }
    assert_eq!(b.robot.asked_about_others, 1, "not with each command");
    b.robot.stale.push(theirs);
    b.pass(ms(2000));
    let command = b.drive();
    assert_code(&b.run(&command), ErrorCode::ResourceBusy);
    let command = b.drive();
    assert_eq!(b.run(&command).status, AnswerStatus::Succeeded);
}

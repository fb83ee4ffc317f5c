//! From "stop" to measured standstill, from every phase.

mod bench;

use bench::{assert_code, cup, ms, precondition, Bench, Fate, SceneGraph};
use eh_contract::skill::DisconnectPolicy;
use eh_contract::state::{ControlEnd, ExecutorState, StopStage};
use eh_contract::ErrorCode;
use eh_executor::effect::{Answer, AnswerStatus};
use eh_executor::{Event, Server};
use eh_ledger::executor::goal_status;
use eh_skills::fingers::GripperReading;
use serde_json::json;

fn assert_canceled(answer: &Answer) {
    assert_eq!(answer.status, AnswerStatus::Canceled, "{answer:?}");
    assert_code(answer, ErrorCode::Canceled);
    assert_eq!(answer.skill_status.control_end, ControlEnd::Canceled);
    assert_eq!(answer.skill_status.stop_stage, StopStage::Confirmed);
}

#[test]
fn a_cancel_is_confirmed_by_measured_standstill() {
    let (mut b, caller) = Bench::driving(Fate::endless());
    b.pass(ms(500));
    let asked = b.now;
    b.cancel(caller);
    assert_eq!(b.state("c1"), ExecutorState::Canceling);
    assert_eq!(b.canceled, [b.goal("c1")], "at once");
    let answer = b.answer(caller);
    assert_canceled(&answer);
    // It obeys after 300 ms and has to stand for 200 ms.
    assert!(b.now - asked >= ms(500), "{:?}", b.now - asked);
    let life = [
        "received",
        "accepted",
        "started",
        "goal_sent",
        "stop_requested",
        "goal_ended",
        "standstill",
    ];
    assert_eq!(b.kinds("c1"), life);
    assert!(!b.declared.last().unwrap().active);
    // Canceled is not settled: the base is held.
    let next = b.drive();
    assert_code(&b.run(&next), ErrorCode::ResourceBusy);
    assert_eq!(b.settle("c1", 3).error_code, ErrorCode::None);
}

#[test]
fn what_does_not_stand_still_is_not_called_canceled_and_asking_again_gives_no_time() {
    let mut b = Bench::navigation();
    b.robot.fates.push_back(Fate::endless());
    let mut command = b.drive();
    command.stop_timeout = ms(1000);
    let caller = b.send(&command);
    b.pass(ms(500));
    b.robot.drifts = true;
    let asked = b.now;
    b.cancel(caller);
    for _ in 0..4 {
        b.pass(ms(200));
        b.cancel(caller);
    }
    let answer = b.answer(caller);
    assert_eq!(answer.status, AnswerStatus::Aborted);
    assert_code(&answer, ErrorCode::StopUnconfirmed);
    assert!(answer.error_msg.contains("0.400 m/s") && answer.error_msg.contains("1.0 s"));
    assert_eq!(answer.skill_status.stop_stage, StopStage::Unconfirmed);
    assert_eq!(answer.skill_status.resources, ["base"]);
    assert!((ms(1000)..=ms(1040)).contains(&(b.now - asked)));
}

#[test]
fn a_server_that_ignores_a_cancel_is_asked_again_and_then_told() {
    let mut b = Bench::navigation();
    b.robot.fates.push_back(Fate {
        obeys_after: None,
        ..Fate::endless()
    });
    let mut command = b.drive();
    command.stop_timeout = ms(1000);
    let caller = b.send(&command);
    b.pass(ms(500));
    b.cancel(caller);
    let answer = b.answer(caller);
    assert_code(&answer, ErrorCode::StopUnconfirmed);
    assert!(answer
        .error_msg
        .contains("drive on /navigate_to_pose has no terminal status"));
    // At 0, 300, 600 and 900 ms.
    assert_eq!(b.canceled.len(), 4);
}

#[test]
fn a_cancel_while_the_scene_is_checked_starts_nothing() {
    let mut b = Bench::navigation();
    let mut command = b.drive();
    command.preconditions.push(precondition());
    let caller = b.send(&command);
    assert_eq!(b.state("c1"), ExecutorState::Received);
    b.cancel(caller);
    assert_canceled(&b.answer(caller));
    assert_eq!(b.robot.starts(), 0);
    assert_eq!(b.kinds("c1"), ["received", "accepted", "stop_requested"]);
}

#[test]
fn a_cancel_while_servers_are_waited_for_starts_nothing() {
    let mut b = Bench::navigation();
    b.robot.there.clear();
    let command = b.drive();
    let caller = b.send(&command);
    b.pass(ms(100));
    b.cancel(caller);
    assert_canceled(&b.answers[&caller].clone());
    assert_eq!(b.kinds("c1"), ["received", "accepted", "stop_requested"]);
}

#[test]
fn a_cancel_before_the_acknowledgement_reaches_the_goal() {
    let mut b = Bench::navigation();
    // The server takes the goal after the first cancel: it did not know it then.
    b.robot.fates.push_back(Fate {
        taken_after: Some(ms(400)),
        ..Fate::endless()
    });
    let command = b.drive();
    let caller = b.send(&command);
    b.pass(ms(100));
    b.cancel(caller);
    let answer = b.answer(caller);
    assert_canceled(&answer);
    assert_eq!(b.robot.starts(), 1);
    assert_eq!(b.record("c1").sub_goals[0].status, goal_status::CANCELED);
}

#[test]
fn an_acknowledgement_while_it_is_stopped_is_followed_by_a_cancel_at_once() {
    let (mut b, caller) = Bench::driving(Fate {
        taken_after: Some(ms(150)),
        ..Fate::endless()
    });
    b.cancel(caller);
    b.until("the acknowledgement", |b| b.is_running(Server::Navigation));
    b.pass(ms(40));
    // Without it the next cancel would be due 300 ms after the first.
    assert_eq!(b.canceled.len(), 2);
    assert_canceled(&b.answer(caller));
}

#[test]
fn a_goal_that_turns_out_not_to_run_is_a_confirmed_stop() {
    for fate in [
        Fate {
            accepted: false,
            taken_after: Some(ms(300)),
            ..Fate::default()
        },
        Fate {
            not_sent: true,
            ..Fate::default()
        },
    ] {
        let mut b = Bench::navigation();
        b.robot.fates.push_back(fate);
        let command = b.drive();
        let caller = b.send(&command);
        b.cancel(caller);
        assert_canceled(&b.answer(caller));
        assert_eq!(b.robot.starts(), 0);
    }
}

#[test]
fn a_goal_that_its_server_does_not_know_is_unknown_after_three_answers() {
    let (mut b, caller) = Bench::driving(Fate {
        taken_after: None,
        ..Fate::default()
    });
    b.pass(ms(100));
    let asked = b.now;
    b.cancel(caller);
    let answer = b.answer(caller);
    assert_code(&answer, ErrorCode::ResultLost);
    assert_eq!(answer.skill_status.control_end, ControlEnd::Lost);
    assert_eq!(answer.skill_status.stop_stage, StopStage::Unconfirmed);
    assert!(answer.error_msg.contains("does not prove that nothing ran"));
    // Asked at 0, 250 and 500 ms.
    assert!(b.now - asked >= ms(500));
    assert_eq!(b.asked.len(), 3);
}

#[test]
fn an_answer_that_comes_many_times_counts_once() {
    let (mut b, caller) = Bench::driving(Fate {
        taken_after: None,
        ..Fate::default()
    });
    b.cancel(caller);
    let goal_id = b.goal("c1");
    for _ in 0..10 {
        b.handle(Event::ResultUnknown { goal_id });
    }
    assert_eq!(b.state("c1"), ExecutorState::Canceling);
    assert_code(&b.answer(caller), ErrorCode::ResultLost);
}

#[test]
fn a_cancel_while_a_lost_acknowledgement_is_asked_about() {
    let (mut b, caller) = Bench::driving(Fate {
        acknowledged_after: None,
        no_status: true,
        ..Fate::endless()
    });
    b.pass(ms(800));
    b.cancel(caller);
    assert_canceled(&b.answer(caller));
}

#[test]
fn the_word_of_a_server_that_died_counts_when_it_was_the_end() {
    let (mut b, caller) = Bench::driving(Fate::endless());
    b.pass(ms(500));
    b.cancel(caller);
    // Its last status message said so; nobody answers any more.
    b.robot.end(b.goal("c1"), goal_status::CANCELED);
    b.robot.there.clear();
    assert_canceled(&b.answer(caller));
    assert!(b.record("c1").sub_goals[0].message.contains("status topic"));
}

#[test]
fn a_cancel_when_control_had_just_completed_changes_nothing() {
    let mut b = Bench::navigation();
    let command = b.drive();
    let caller = b.send(&command);
    // It is reached, and the result is on its way.
    b.until("the goal to be reached", |b| {
        b.robot.starts() == 1 && !b.is_running(Server::Navigation)
    });
    b.cancel(caller);
    let answer = b.answer(caller);
    assert_eq!(answer.status, AnswerStatus::Succeeded, "{answer:?}");
    assert_eq!(answer.skill_status.control_end, ControlEnd::Completed);
    assert_eq!(answer.skill_status.error_code, 0);
    assert_eq!(
        b.kinds("c1")[4..],
        ["stop_requested", "goal_ended", "completed"]
    );
    // After the end nothing changes any more.
    let written = b.kinds("c1").len();
    b.cancel(caller);
    b.pass(ms(500));
    assert_eq!(b.kinds("c1").len(), written);
}

#[test]
fn a_cancel_that_came_too_late_still_tells_the_planning_scene() {
    let mut b = Bench::manipulation();
    b.robot.planning_scene = true;
    let command = b.command("open_gripper", json!({}));
    let caller = b.send(&command);
    b.until("the fingers to be open", |b| {
        b.robot.starts() == 1 && !b.is_running(Server::Gripper)
    });
    b.cancel(caller);
    let answer = b.answer(caller);
    assert_eq!(answer.status, AnswerStatus::Succeeded, "{answer:?}");
    assert_eq!(b.scene_changes, ["tidy_scene"]);
}

#[test]
fn a_cancel_beside_an_end_that_was_no_success_is_a_cancel() {
    // The fingers are open enough for the program; their server says that it gave up.
    let mut b = Bench::manipulation();
    b.robot.fates.push_back(Fate {
        status: goal_status::ABORTED,
        ..Fate::default()
    });
    let command = b.command("open_gripper", json!({}));
    let caller = b.send(&command);
    b.until("the goal to end", |b| {
        b.robot.starts() == 1 && !b.is_running(Server::Gripper)
    });
    b.cancel(caller);
    assert_canceled(&b.answer(caller));
}

#[test]
fn a_stop_never_becomes_a_success() {
    // As above, but nobody canceled: the robot was stopped.
    let mut b = Bench::navigation();
    let command = b.drive();
    let caller = b.send(&command);
    b.until("the goal to be reached", |b| {
        b.robot.starts() == 1 && !b.is_running(Server::Navigation)
    });
    b.robot.stop = Some("s1".into());
    b.handle(Event::Tick);
    let answer = b.answer(caller);
    assert_code(&answer, ErrorCode::StopLatched);
    assert_eq!(answer.status, AnswerStatus::Canceled);
}

#[test]
fn a_cancel_while_the_planning_scene_is_changed_and_what_is_left_there() {
    let mut b = Bench::manipulation();
    b.robot.planning_scene = true;
    let command = b.command("stow", json!({}));
    let caller = b.send(&command);
    assert_eq!(b.scene_changes, ["prepare_scene"]);
    b.pass(ms(60));
    let asked = b.now;
    b.cancel(caller);
    let answer = b.answer(caller);
    assert_canceled(&answer);
    // Each change takes 100 ms; the answer to the first one, after 40 ms more, is none to the second.
    assert!(b.now - asked >= ms(100), "{:?}", b.now - asked);
    assert_eq!(
        b.scene_changes,
        ["prepare_scene", "tidy_scene_at_a_failure"]
    );
    assert_eq!(b.robot.starts(), 0);
}

#[test]
fn a_cancel_while_the_arm_moves_tidies_up_and_measures() {
    let mut b = Bench::manipulation();
    b.robot.planning_scene = true;
    b.robot.fates.push_back(Fate::endless());
    let command = b.command("stow", json!({}));
    let caller = b.send(&command);
    b.until("the arm to move", |b| b.is_running(Server::Arm));
    b.cancel(caller);
    assert_canceled(&b.answer(caller));
    assert_eq!(
        b.kinds("c1")[3..],
        [
            "step",
            "goal_sent",
            "stop_requested",
            "goal_ended",
            "step",
            "standstill"
        ]
    );
}

#[test]
fn a_cancel_of_a_wait_and_of_what_claims_nothing() {
    let mut b = Bench::navigation();
    let command = b.command("wait", json!({"duration": 60.0}));
    let caller = b.send(&command);
    b.pass(ms(500));
    b.robot.stop = Some("s1".into());
    b.pass(ms(500));
    assert_eq!(b.state("c1"), ExecutorState::Started, "it moves nothing");
    b.cancel(caller);
    assert_canceled(&b.answers[&caller].clone());
}

#[test]
fn the_time_of_control_is_bounded() {
    let mut b = Bench::navigation();
    b.robot.fates.push_back(Fate::endless());
    let mut command = b.drive();
    command.execution_timeout = ms(2000);
    let began = b.now;
    let answer = b.run(&command);
    assert_code(&answer, ErrorCode::ExecutionTimeout);
    assert!(answer.error_msg.contains("2.0 s"), "{answer:?}");
    assert_eq!(answer.skill_status.control_end, ControlEnd::Aborted);
    assert_eq!(answer.skill_status.stop_stage, StopStage::Confirmed);
    // 2 s, 300 ms to obey, 200 ms of standing, and what the steps add.
    assert!((ms(2500)..ms(2700)).contains(&(b.now - began)));
}

#[test]
fn a_latched_stop_stops_what_moves_and_lets_nothing_start() {
    let (mut b, caller) = Bench::driving(Fate::endless());
    b.pass(ms(500));
    b.robot.stop = Some("s1".into());
    let answer = b.answer(caller);
    assert_code(&answer, ErrorCode::StopLatched);
    assert_eq!(answer.skill_status.stop_stage, StopStage::Confirmed);
    b.settle("c1", 3);
    let next = b.drive();
    assert_code(&b.run(&next), ErrorCode::StopLatched);
    // A later reason does not replace the first.
    let (mut b, caller) = Bench::driving(Fate::endless());
    b.pass(ms(500));
    b.cancel(caller);
    b.robot.stop = Some("s1".into());
    assert_canceled(&b.answer(caller));
}

#[test]
fn an_expired_lease_does_what_the_skill_says() {
    // (skill, server, policy): as in the descriptors that ship.
    let cases = [
        (
            "navigate_to_pose",
            Server::Navigation,
            DisconnectPolicy::Stop,
        ),
        ("stow", Server::Arm, DisconnectPolicy::Finish),
    ];
    for (skill, server, policy) in cases {
        let mut b = if server == Server::Navigation {
            Bench::navigation()
        } else {
            Bench::manipulation()
        };
        b.robot.lease(7, "/harness", b.now + ms(1000));
        b.robot.fates.push_back(Fate {
            runs: Some(ms(3000)),
            ..Fate::default()
        });
        let command = match server {
            Server::Navigation => b.drive(),
            Server::Arm | Server::Gripper | Server::Head => b.command(skill, json!({})),
        };
        let caller = b.send(&command);
        b.pass(ms(900));
        assert_eq!(b.canceled.len(), 0);
        let answer = b.answer(caller);
        assert_eq!(b.record("c1").disconnect_policy, policy);
        match policy {
            DisconnectPolicy::Finish => {
                assert_eq!(answer.status, AnswerStatus::Succeeded, "{answer:?}");
            }
            DisconnectPolicy::Hold | DisconnectPolicy::Stop => {
                assert_code(&answer, ErrorCode::ExecutorNoLease);
                assert_eq!(answer.skill_status.stop_stage, StopStage::Confirmed);
            }
        }
        // Nothing new begins.
        b.settle("c1", 2);
        let next = match server {
            Server::Navigation => b.drive(),
            Server::Arm | Server::Gripper | Server::Head => b.command(skill, json!({})),
        };
        assert_code(&b.run(&next), ErrorCode::ExecutorNoLease);
    }
}

#[test]
fn a_pick_holds_still_when_the_lease_expires() {
    let mut b = Bench::manipulation();
    b.robot.fates.push_back(Fate::endless());
    b.robot.lease(7, "/harness", b.now + ms(1000));
    b.robot.gripper = Some(GripperReading {
        width: 0.0,
        effort: None,
    });
    let mut command = b.command("pick", json!({"object": "cup_1"}));
    command.targets.push(cup());
    let caller = b.send(&command);
    b.pass(ms(500));
    assert_eq!(b.robot.starts(), 1, "{:?}", b.answers);
    let answer = b.answer(caller);
    assert_eq!(b.record("c1").disconnect_policy, DisconnectPolicy::Hold);
    assert_code(&answer, ErrorCode::ExecutorNoLease);
    assert_eq!(answer.skill_status.stop_stage, StopStage::Confirmed);
}

#[test]
fn a_renewed_lease_lets_a_long_skill_run_through() {
    let mut b = Bench::navigation();
    b.robot.fates.push_back(Fate {
        runs: Some(ms(10_000)),
        ..Fate::default()
    });
    b.robot.lease(7, "/harness", b.now + ms(1000));
    let command = b.drive();
    let caller = b.send(&command);
    while !b.answers.contains_key(&caller) {
        b.robot.lease(7, "/harness", b.now + ms(1000));
        b.step();
    }
    assert_eq!(b.answers[&caller].status, AnswerStatus::Succeeded);
    assert!(!b.robot.moves(Server::Navigation));
}

#[test]
fn a_shutdown_stops_what_moves_and_offers_nothing_any_more() {
    let mut b = Bench::navigation();
    b.graph = SceneGraph::Silent;
    b.robot.fates.push_back(Fate::endless());
    let command = b.drive();
    let caller = b.send(&command);
    b.pass(ms(500));
    assert_eq!(b.executor.longest_stop(), ms(3000));
    b.handle(Event::Shutdown);
    assert_eq!(b.skills_offered, 0);
    assert!(!b.executor.is_idle());
    let answer = b.answer(caller);
    assert_code(&answer, ErrorCode::ShuttingDown);
    assert_eq!(answer.skill_status.stop_stage, StopStage::Confirmed);
    assert!(b.executor.is_idle());
    assert_eq!(b.executor.longest_stop(), ms(0));
    let next = b.drive();
    assert_code(&b.run(&next), ErrorCode::ShuttingDown);
}

#[test]
fn it_looks_often_only_while_something_runs() {
    let mut b = Bench::navigation();
    assert_eq!(b.executor.next_tick(), ms(200));
    let command = b.drive();
    let caller = b.send(&command);
    assert_eq!(b.executor.next_tick(), ms(20));
    b.answer(caller);
    assert_eq!(b.executor.next_tick(), ms(200));
}

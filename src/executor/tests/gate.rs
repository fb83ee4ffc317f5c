//! What passes the gate, what does not, and what is remembered of it. The order of the checks is tested
//! with `eh_ledger::admission`.

mod bench;

use std::time::Duration;

use bench::{assert_code, beacon, ms, precondition, Bench, Fate, SceneGraph};
use eh_contract::state::ExecutorState;
use eh_contract::ErrorCode;
use eh_executor::effect::AnswerStatus;
use eh_executor::event::SettleRequest;
use eh_executor::{Event, Server};
use serde_json::json;

#[test]
fn the_scene_graph_is_asked_before_anything_starts() {
    let mut b = Bench::navigation();
    let mut command = b.drive();
    command.preconditions.push(precondition());
    let caller = b.send(&command);
    b.pass(ms(60));
    assert_eq!(b.state("c1"), ExecutorState::Received);
    assert_eq!(b.answer(caller).status, AnswerStatus::Succeeded);

    let cases = [
        (
            SceneGraph::Fails,
            "precondition 0 does not hold any more: it was moved",
        ),
        (SceneGraph::Silent, "query_scene: nothing came within 1 s"),
    ];
    for (graph, words) in cases {
        let mut b = Bench::navigation();
        b.graph = graph;
        let mut command = b.drive();
        command.preconditions.push(precondition());
        let answer = b.run(&command);
        assert_code(&answer, ErrorCode::StalePrecondition);
        assert!(answer.error_msg.contains(words), "{}", answer.error_msg);
        assert_eq!(b.robot.starts(), 0);
        assert_eq!(b.kinds("c1"), ["received", "rejected"]);
        // The same again: the same answer, and the scene graph is not asked.
        let asked = |b: &Bench| {
            b.performed
                .iter()
                .filter(|p| **p == "executor.check_scene")
                .count()
        };
        let again = b.run(&command);
        assert_eq!(again.error_msg, answer.error_msg);
        assert_eq!(asked(&b), 1);
    }
}

#[test]
fn what_changed_while_the_scene_was_checked_counts() {
    let mut b = Bench::navigation();
    let mut slow = b.drive();
    slow.preconditions.push(precondition());
    let caller = b.send(&slow);
    // Another one takes the base meanwhile.
    let quick = b.drive();
    let other = b.send(&quick);
    assert_code(&b.answer(caller), ErrorCode::ResourceBusy);
    assert_eq!(b.answer(other).status, AnswerStatus::Succeeded);
    assert_eq!(b.robot.starts(), 1);

    let mut b = Bench::navigation();
    let mut command = b.drive();
    command.preconditions.push(precondition());
    let caller = b.send(&command);
    b.robot.stop = Some("s1".into());
    assert_code(&b.answer(caller), ErrorCode::StopLatched);

    // The way to the start counts too.
    let mut b = Bench::navigation();
    b.settings.scene_timeout = ms(5000);
    let mut command = b.drive();
    command.preconditions.push(precondition());
    command.start_within = ms(90);
    let caller = b.send(&command);
    assert_code(&b.answer(caller), ErrorCode::ExpiredCommand);
}

#[test]
fn a_duplicate_while_the_scene_is_checked_follows_it() {
    let mut b = Bench::navigation();
    let mut command = b.drive();
    command.preconditions.push(precondition());
    let first = b.send(&command);
    let second = b.send(&command);
    assert_eq!(b.answer(first).skill_status, b.answer(second).skill_status);
    assert_eq!(b.robot.starts(), 1);
}

#[test]
fn an_id_means_one_command() {
    let mut b = Bench::navigation();
    let command = b.drive();
    let caller = b.send(&command);
    let mut other = command.clone();
    other.plan_version = 2;
    assert_code(&b.run(&other), ErrorCode::CommandIdConflict);
    let mut changed = b.arrival(&command);
    changed.digest = "00".into();
    let spoiled = changed.caller;
    b.handle(Event::Arrived(Box::new(changed)));
    assert_code(&b.answer(spoiled), ErrorCode::DigestMismatch);
    assert_eq!(b.answer(caller).status, AnswerStatus::Succeeded);
    assert_eq!(b.robot.starts(), 1);
}

#[test]
fn what_is_no_command_is_refused_and_leaves_nothing_on_the_disk() {
    let mut b = Bench::navigation();
    b.handle(Event::Unreadable {
        caller: 900,
        command_id: "x".repeat(1000),
        reason: "its arguments are no JSON".into(),
    });
    let answer = b.answer(900);
    assert_code(&answer, ErrorCode::InvalidCommand);
    assert_eq!(answer.skill_status.state, ExecutorState::Rejected);
    let mut command = b.drive();
    command.robot_id = "other".into();
    assert_code(&b.run(&command), ErrorCode::WrongRobot);
    let mut command = b.drive();
    command.command_id = String::new();
    assert_code(&b.run(&command), ErrorCode::InvalidCommand);
    assert!(b.disk.written.is_empty());
    // A line of the log stays short.
    assert!(b.lines.iter().all(|(_, line)| line.len() < 1000));
}

#[test]
fn an_old_token_an_old_boot_and_a_cut_network_start_nothing() {
    let mut b = Bench::navigation();
    let command = b.drive();
    let mut late = b.arrival(&command);
    // It sat in a cut network for longer than its 2 s to start.
    b.pass(ms(2000));
    let caller = late.caller;
    b.handle(Event::Arrived(Box::new(late.clone())));
    assert_code(&b.answer(caller), ErrorCode::ExpiredCommand);
    // Sent again, its deadline is not refreshed: its own answer comes back.
    late.caller = 901;
    late.envelope.beacon = Some(b.executor.beacon(b.now));
    b.handle(Event::Arrived(Box::new(late)));
    assert_code(&b.answer(901), ErrorCode::ExpiredCommand);

    let command = b.drive();
    let mut earlier = b.arrival(&command);
    earlier.envelope.beacon = beacon("boot-before", Duration::ZERO);
    let caller = earlier.caller;
    b.handle(Event::Arrived(Box::new(earlier)));
    assert_code(&b.answer(caller), ErrorCode::ExpiredCommand);

    let command = b.drive();
    let mut old = b.arrival(&command);
    old.envelope.fencing_token = 6;
    let caller = old.caller;
    b.handle(Event::Arrived(Box::new(old)));
    assert_code(&b.answer(caller), ErrorCode::OldToken);
    assert_eq!(b.robot.starts(), 0);
}

#[test]
fn who_lost_the_lease_still_says_what_became_of_its_own_command() {
    let mut b = Bench::navigation();
    let command = b.drive();
    assert_eq!(b.run(&command).status, AnswerStatus::Succeeded);
    // Somebody else has taken the robot over; nobody but the issuer of c1 knows what became of it.
    b.robot.lease(8, "/rival", b.now + ms(60_000));
    b.pass(ms(100));
    assert_eq!(b.settle("c1", 1).error_code, ErrorCode::None);
    assert_eq!(b.state("c1"), ExecutorState::Settled);
}

#[test]
fn a_token_that_the_lease_has_not_told_starts_nothing_and_shuts_nobody_out() {
    let mut b = Bench::navigation();
    for token in [8, u64::MAX] {
        let command = b.drive();
        let mut made_up = b.arrival(&command);
        made_up.envelope.fencing_token = token;
        made_up.envelope.controller_id = "/somebody".into();
        let caller = made_up.caller;
        b.handle(Event::Arrived(Box::new(made_up)));
        assert_code(&b.answer(caller), ErrorCode::ExecutorNoLease);
        // The holder goes on, over a restart too.
        let command = b.drive();
        assert_eq!(b.run(&command).status, AnswerStatus::Succeeded);
        let id = command.command_id.clone();
        assert_eq!(b.settle(&id, 1).error_code, ErrorCode::None);
        b.restart();
        b.pass(ms(100));
    }
}

#[test]
fn after_a_restart_an_older_token_is_old_though_no_lease_was_heard() {
    let mut b = Bench::navigation();
    b.robot.lease(8, "/successor", b.now + ms(60_000));
    let command = b.drive();
    let mut newer = b.arrival(&command);
    newer.envelope.fencing_token = 8;
    newer.envelope.controller_id = "/successor".into();
    let caller = newer.caller;
    b.handle(Event::Arrived(Box::new(newer)));
    assert_eq!(b.answer(caller).status, AnswerStatus::Succeeded);
    assert_eq!(b.settle("c1", 1).error_code, ErrorCode::OldToken);
    b.handle(Event::SettleAsked(SettleRequest {
        caller: 902,
        command_id: "c1".into(),
        final_state: 1,
        settled_by: "/successor".into(),
        reason: String::new(),
        fencing_token: 8,
    }));
    assert_eq!(b.settled[&902].error_code, ErrorCode::None);
    // The old one is late, also after a restart, when nothing was heard of a lease yet.
    let command = b.drive();
    assert_code(&b.run(&command), ErrorCode::OldToken);
    b.robot.lease(0, "", Duration::ZERO);
    b.restart();
    let command = b.drive();
    assert_code(&b.run(&command), ErrorCode::OldToken);
    // What is told late under the old token takes nothing back.
    b.robot.lease(7, "/harness", b.now + ms(1000));
    let command = b.drive();
    assert_code(&b.run(&command), ErrorCode::OldToken);
}

#[test]
fn what_streams_is_waited_for_before_it_starts_but_not_for_long() {
    for heard in [true, false] {
        let mut b = Bench::navigation();
        b.robot.awake = false;
        let command = b.drive();
        let caller = b.send(&command);
        b.pass(ms(1400));
        assert_eq!(b.state("c1"), ExecutorState::Accepted);
        assert_eq!(b.robot.starts(), 0);
        b.robot.awake = heard;
        b.pass(ms(200));
        assert_eq!(b.robot.starts(), 1);
        assert_eq!(b.answer(caller).status, AnswerStatus::Succeeded);
    }
}

#[test]
fn a_missing_server_is_waited_for_and_named() {
    let mut b = Bench::navigation();
    b.robot.there.clear();
    let command = b.drive();
    let began = b.now;
    let answer = b.run(&command);
    assert_code(&answer, ErrorCode::ServerUnavailable);
    for word in ["/navigate_to_pose", "Nav2", "Nothing was moved"] {
        assert!(answer.error_msg.contains(word), "{}", answer.error_msg);
    }
    assert!((ms(1000)..=ms(1040)).contains(&(b.now - began)));
    // One that comes in time is enough.
    let command = b.drive();
    let caller = b.send(&command);
    b.pass(ms(500));
    b.robot.there.insert(Server::Navigation);
    assert_eq!(b.answer(caller).status, AnswerStatus::Succeeded);
    // One that comes when the time to start is over is not.
    b.settle("c2", 1);
    b.robot.there.clear();
    let mut command = b.drive();
    command.start_within = ms(300);
    let caller = b.send(&command);
    b.pass(ms(500));
    b.robot.there.insert(Server::Navigation);
    let answer = b.answer(caller);
    assert_code(&answer, ErrorCode::ExpiredCommand);
    assert_eq!(b.robot.starts(), 1);
}

#[test]
fn a_flood_is_bounded() {
    let mut b = Bench::navigation();
    b.graph = SceneGraph::Silent;
    let mut refused = 0;
    for _ in 0..100 {
        let mut command = b.drive();
        command.preconditions.push(precondition());
        let caller = b.send(&command);
        refused += usize::from(b.answers.contains_key(&caller));
    }
    assert_eq!((refused, b.disk.written.len()), (100 - 64, 64));
    // Of one command, too.
    let mut b = Bench::navigation();
    b.robot.fates.push_back(Fate::endless());
    let command = b.drive();
    for _ in 0..100 {
        b.send(&command);
    }
    assert_eq!(b.answers.len(), 100 - 64);
    assert_eq!(b.robot.starts(), 0);
    b.pass(ms(100));
    assert_eq!(b.robot.starts(), 1);
}

#[test]
fn settlements_are_refused_with_a_reason() {
    let mut b = Bench::navigation();
    let command = b.drive();
    let caller = b.send(&command);
    assert_eq!(b.settle("c9", 1).error_code, ErrorCode::CommandNotFound);
    let running = b.settle("c1", 1);
    assert_eq!(running.error_code, ErrorCode::NotSettleable);
    assert_eq!(running.state, Some(ExecutorState::Started));
    b.answer(caller);
    assert_eq!(b.settle("c1", 9).error_code, ErrorCode::InvalidSettle);
    let ask = |b: &mut Bench, by: &str, reason: &str, fencing_token| {
        b.handle(Event::SettleAsked(SettleRequest {
            caller: 903,
            command_id: "c1".into(),
            final_state: 2,
            settled_by: by.into(),
            reason: reason.into(),
            fencing_token,
        }));
        b.settled[&903].clone()
    };
    assert_eq!(
        ask(&mut b, "", "seen", 0).error_code,
        ErrorCode::InvalidSettle
    );
    assert_eq!(
        ask(&mut b, "Ann", "", 0).error_code,
        ErrorCode::InvalidSettle
    );
    assert_eq!(
        ask(&mut b, "/harness", "", 6).error_code,
        ErrorCode::OldToken
    );
    assert_eq!(ask(&mut b, "Ann", "seen", 0).error_code, ErrorCode::None);
    // Said again it stays; said otherwise it is refused.
    assert_eq!(ask(&mut b, "Ann", "seen", 0).error_code, ErrorCode::None);
    assert_eq!(b.settle("c1", 1).error_code, ErrorCode::NotSettleable);
}

#[test]
fn a_command_is_found_wherever_it_is() {
    let mut b = Bench::navigation();
    for _ in 0..20 {
        let command = b.command("wait", json!({"duration": 0.0}));
        b.run(&command);
        b.settle(&command.command_id, 1);
    }
    // The first has left the memory, which keeps 16.
    for id in ["c1", "c20"] {
        let found = b.executor.query(id, &b.disk).unwrap();
        assert_eq!(found[0].state, ExecutorState::Settled);
    }
    assert!(b.executor.query("", &b.disk).unwrap().is_empty());
    let missing = b.executor.query("c99", &b.disk).unwrap_err();
    assert_eq!(missing.code, ErrorCode::CommandNotFound);
    let again = b.disk.records["c1"].command.clone();
    let answer = b.run(&again);
    assert_eq!(answer.status, AnswerStatus::Succeeded);
    assert_eq!(b.settle("c1", 1).error_code, ErrorCode::None);
}

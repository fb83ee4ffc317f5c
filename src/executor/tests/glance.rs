//! The look at the target after a drive: whatever becomes of it, the drive is done.

mod bench;

use bench::{ms, Bench, Fate};
use eh_contract::command::{SkillCommand, TargetBinding};
use eh_contract::geometry::{Pose, Vec3};
use eh_contract::scene::Kind;
use eh_contract::state::ControlEnd;
use eh_contract::{ErrorCode, Stamp};
use eh_executor::effect::{Answer, AnswerStatus};
use eh_executor::Server;
use eh_ledger::executor::goal_status;
use serde_json::json;

/// A drive to a cup in front of the robot.
fn to_the_cup(b: &mut Bench) -> SkillCommand {
    let mut pose = Pose::planar(1.5, 0.0, 0.0);
    pose.position.z = 0.8;
    let mut command = b.command("navigate_to", json!({"target": "cup_1"}));
    command.targets = vec![TargetBinding {
        argument: "target".into(),
        r#ref: "cup_1".into(),
        class_name: "cup".into(),
        kind: Kind::Object,
        version: 1,
        frame_id: "map".into(),
        pose,
        size: Vec3::new(0.08, 0.08, 0.1),
        last_seen: Stamp(1),
        support: None,
    }];
    command
}

/// A drive whose look meets this fate, to its end.
fn looked(fate: Fate) -> (Bench, Answer) {
    let mut b = Bench::navigation();
    let command = to_the_cup(&mut b);
    b.robot.fates.extend([Fate::default(), fate]);
    let answer = b.run(&command);
    (b, answer)
}

/// Sends a drive to the cup, lets something happen, cancels it, and holds it against how its control has to end.
fn canceled(b: &mut Bench, meanwhile: impl FnOnce(&mut Bench), end: ControlEnd) -> Answer {
    let command = to_the_cup(b);
    let caller = b.send(&command);
    meanwhile(b);
    b.cancel(caller);
    let answer = b.answer(caller);
    assert_eq!(answer.skill_status.control_end, end, "{answer:?}");
    answer
}

#[test]
fn a_drive_is_complete_however_the_look_at_its_target_ends() {
    let fates = [
        Fate::default(),
        Fate {
            accepted: false,
            ..Fate::default()
        },
        Fate {
            not_sent: true,
            ..Fate::default()
        },
        Fate {
            status: goal_status::ABORTED,
            code: -4,
            ..Fate::default()
        },
        // The head's server took somebody else's goal.
        Fate {
            status: goal_status::CANCELED,
            ..Fate::default()
        },
    ];
    for fate in fates {
        let (b, answer) = looked(fate.clone());
        assert_eq!(
            answer.status,
            AnswerStatus::Succeeded,
            "{fate:?}: {answer:?}"
        );
        assert_eq!(answer.skill_status.control_end, ControlEnd::Completed);
        assert_eq!(answer.skill_status.resources, ["base", "head"]);
        let record = b.record("c1");
        let names: Vec<&str> = record.sub_goals.iter().map(|g| g.name.as_str()).collect();
        assert_eq!(names, ["drive", "look_at_target"], "{fate:?}");
        assert!(!b.is_running(Server::Head));
    }
}

#[test]
fn the_look_takes_the_head_from_nobody() {
    let mut b = Bench::navigation();
    let command = to_the_cup(&mut b);
    let caller = b.send(&command);
    b.until("the drive", |b| b.is_running(Server::Navigation));
    b.robot.foreign.insert(Server::Head, vec![[9; 16]]);
    let answer = b.answer(caller);
    assert_eq!(answer.status, AnswerStatus::Succeeded, "{answer:?}");
    assert_eq!(b.record("c1").sub_goals.len(), 1);
    assert_eq!((b.robot.starts(), b.canceled.len()), (1, 0));
}

#[test]
fn a_look_that_does_not_end_is_called_off() {
    let (b, answer) = looked(Fate::endless());
    assert_eq!(answer.status, AnswerStatus::Succeeded, "{answer:?}");
    let record = b.record("c1");
    assert_eq!(record.sub_goals[1].status, goal_status::CANCELED);
    // 1 s of drive, 1.5 s of turning and 1 s more; then the server takes 0.3 s to obey.
    let took = b.now.saturating_sub(ms(100_000));
    assert!((ms(3700)..ms(5000)).contains(&took), "{took:?}");
    assert!(!b.is_running(Server::Head));
}

#[test]
fn who_has_no_head_looks_at_nothing_and_is_not_measured_for_one() {
    let mut b = Bench::navigation();
    b.robot.there.remove(&Server::Head);
    let command = to_the_cup(&mut b);
    let answer = b.run(&command);
    assert_eq!(answer.status, AnswerStatus::Succeeded, "{answer:?}");
    assert_eq!(b.record("c1").sub_goals.len(), 1);
    // Its joints are not in the robot's states, and a canceled drive stands all the same.
    b.robot.joints_unknown = true;
    b.settle("c1", 1);
    b.robot.fates.push_back(Fate::endless());
    canceled(&mut b, |b| b.pass(ms(500)), ControlEnd::Canceled);
}

#[test]
fn a_cancel_that_comes_when_the_drive_was_done_finds_it_done() {
    // The drive ends by itself while its cancel is on the way.
    let mut b = Bench::navigation();
    b.robot.fates.push_back(Fate {
        obeys_after: None,
        ..Fate::default()
    });
    canceled(&mut b, |b| b.pass(ms(900)), ControlEnd::Completed);
    assert_eq!(b.record("c1").sub_goals.len(), 1);
}

#[test]
fn a_cancel_during_the_look_stops_the_head_as_well() {
    let mut b = Bench::navigation();
    b.robot.fates.extend([Fate::default(), Fate::endless()]);
    let look = |b: &mut Bench| b.until("the look", |b| b.is_running(Server::Head));
    let answer = canceled(&mut b, look, ControlEnd::Canceled);
    assert_eq!(
        ErrorCode::from_code(answer.error_code),
        Some(ErrorCode::Canceled)
    );
    assert!(!b.is_running(Server::Head));
}

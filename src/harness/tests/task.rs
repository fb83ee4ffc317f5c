//! The loop from an instruction to its outcome, in a scripted world.

mod common;

use common::{fetch, goal, list, propose, secs, settings, states, Control, Script, World};
use eh_contract::state::{CommandState as S, TaskOutcome};
use eh_contract::verdict::Outcome;
use eh_contract::{ErrorCode, Stamp};
use eh_harness::admission::{Repeated, TaskGoal};
use eh_harness::effect::{HumanRequestKind, PlanRequest, TaskPhase};
use eh_harness::{Event, Restored};
use eh_ledger::issuer_event::Finality;
use eh_planner::planner::{PlannerError, Turn};
use serde_json::json;

#[test]
fn a_cup_is_fetched_although_the_first_grasp_slips() {
    let mut w = World::new(list(fetch()));
    w.controls = [Control::Completes, Control::Completes, Control::Slips].into();
    assert_eq!(w.submit(&goal("t1", "bring the cup")), Ok(Repeated::New));
    let record = w.run(secs(60)).clone();
    assert_eq!(record.outcome, TaskOutcome::Succeeded, "{record:#?}");
    assert_eq!(record.error_code, 0);
    assert_eq!(
        states(&record.steps),
        [
            ("navigate_to", S::Succeeded),
            ("look_at", S::Succeeded),
            ("pick", S::Failed),
            ("pick", S::Succeeded),
            ("navigate_to", S::Succeeded),
        ]
    );
    let slip = &record.steps[2];
    assert_eq!(slip.verdict, Some(Outcome::Failure));
    assert!(slip.verdict_reason.contains("Failure"));
    assert_eq!(slip.evidence, ["the gripper is 0.04 m open"]);
    // Only what was confirmed got into the scene graph, and every command was settled at its executor.
    assert_eq!(w.applied.len(), 4);
    assert_eq!(w.settled.len(), 5);
    assert_eq!(w.leases, 0, "the lease is released at the end");
    assert!(w.harness.is_idle());
    let kinds = w.kinds("t1");
    assert_eq!(kinds.first(), Some(&"task_received"));
    assert_eq!(kinds.last(), Some(&"task_ended"));
    for kind in [
        "plan",
        "proposed",
        "committed",
        "dispatched",
        "accepted",
        "started",
        "control_ended",
        "judged",
        "settled",
    ] {
        assert!(kinds.contains(&kind), "{kind} is missing in {kinds:?}");
    }
    // Each step is told once, at least two feedbacks a second come, and every phase was seen.
    let told: Vec<u32> = w
        .feedback
        .iter()
        .filter_map(|f| f.finished_step.as_ref().map(|s| s.step))
        .collect();
    assert_eq!(told, [1, 2, 3, 4, 5]);
    assert!(w
        .feedback
        .windows(2)
        .all(|p| p[1].elapsed - p[0].elapsed <= std::time::Duration::from_millis(500)));
    for phase in [
        TaskPhase::Perceive,
        TaskPhase::Reason,
        TaskPhase::Execute,
        TaskPhase::Judge,
        TaskPhase::Learn,
    ] {
        assert!(w.feedback.iter().any(|f| f.phase == phase), "{phase:?}");
    }
    assert!(w.warnings.is_empty(), "{:?}", w.warnings);
}

#[test]
fn arguments_are_grounded_and_checked_again_at_the_executor() {
    let mut w = World::new(list(fetch()));
    w.submit(&goal("t1", "bring the cup")).unwrap();
    w.run(secs(60));
    let pick = &w.sent[2].command;
    let target = pick.target("object").unwrap();
    assert_eq!((target.r#ref.as_str(), target.version), ("cup_1", 1));
    assert_eq!(target.support.as_ref().unwrap().r#ref, "counter_1");
    assert_eq!(pick.preconditions.len(), 2);
    assert_eq!(pick.preconditions[0].r#ref, "cup_1");
    assert!(pick.preconditions[1].predicates.get("all").is_some());
    // The place where the task was given: the robot stood at (0.5, 0).
    let back = w.sent[3].command.target("target").unwrap().clone();
    assert_eq!((back.pose.position.x, back.pose.position.y), (0.5, 0.0));
    assert_eq!(back.class_name, "place");
}

#[test]
fn a_grasp_that_always_slips_ends_with_its_attempts() {
    let mut w = World::new(list(fetch()));
    w.controls = [
        Control::Completes,
        Control::Completes,
        Control::Slips,
        Control::Slips,
        Control::Slips,
        Control::Slips,
    ]
    .into();
    w.submit(&goal("t1", "bring the cup")).unwrap();
    let record = w.run(secs(120)).clone();
    assert_eq!(record.outcome, TaskOutcome::Failed);
    assert_eq!(record.error_code, ErrorCode::AttemptsExhausted.code());
    assert!(
        record.error_msg.contains("3 attempts"),
        "{}",
        record.error_msg
    );
    assert_eq!(w.sent.len(), 5);
}

#[test]
fn a_planner_that_knows_another_way_may_take_it_when_a_step_has_used_up_its_attempts() {
    // Looks at the cup until that has failed three times, then goes back instead.
    let script: Script = Box::new(|request: &PlanRequest| {
        let looks = request
            .history
            .iter()
            .filter(|s| s.skill == "look_at" && s.command_state == S::Failed)
            .count();
        let driven = request
            .history
            .iter()
            .filter(|s| s.skill == "navigate_to" && s.command_state == S::Succeeded)
            .count();
        match (driven, looks) {
            (0, _) => propose("navigate_to", json!({"target": "cup_1"})),
            (1, 0..=2) => propose("look_at", json!({"target": "cup_1"})),
            (1, _) => propose("navigate_to", json!({"target": "start"})),
            _ => Turn::Done {
                summary: "gone back".into(),
            },
        }
    });
    let mut w = World::new(script);
    w.controls = [
        Control::Completes,
        Control::Slips,
        Control::Slips,
        Control::Slips,
        Control::Completes,
    ]
    .into();
    w.submit(&goal("t1", "bring the cup")).unwrap();
    let record = w.run(secs(120)).clone();
    assert_eq!(
        record.outcome,
        TaskOutcome::Succeeded,
        "{}",
        record.error_msg
    );
    assert_eq!(w.sent.len(), 5);
}

#[test]
fn an_unknown_verdict_is_neither_success_nor_a_reason_to_do_it_again() {
    let mut w = World::new(list(fetch()));
    w.verdicts = [
        Outcome::Success,
        Outcome::Success,
        Outcome::Unknown,
        Outcome::Unknown,
        Outcome::Unknown,
    ]
    .into();
    w.submit(&goal("t1", "bring the cup")).unwrap();
    let record = w.run(secs(60)).clone();
    assert_eq!(record.outcome, TaskOutcome::Unknown);
    assert_eq!(record.error_code, ErrorCode::CommandUnknown.code());
    assert_eq!(w.sent.len(), 3);
    assert_eq!(w.settled.len(), 2, "an UNKNOWN is not settled by itself");
    let request = w.requests.last().unwrap().clone();
    assert_eq!(request.kind, HumanRequestKind::Settle);
    // It holds arm, gripper and base: another task can't move them until a person has looked.
    w.submit(&goal("t2", "bring the cup")).unwrap();
    let second = w.run(secs(60)).clone();
    assert_eq!(second.outcome, TaskOutcome::Rejected);
    assert_eq!(second.error_code, ErrorCode::CommandUnknown.code());
    assert!(second.error_msg.contains("settle_command"));
    assert_eq!(w.sent.len(), 3);
    let id = w.sent[2].command.command_id.clone();
    let now = w.at();
    assert!(w
        .harness
        .settle(&id, Finality::Failed, "", "x", now)
        .is_err());
    let effects = w
        .harness
        .answer(&request.request_id, "failed", "kim", now)
        .unwrap();
    assert!(effects
        .iter()
        .any(|e| matches!(e, eh_harness::Effect::SettleExecutor { .. })));
    assert!(w
        .harness
        .settle(&id, Finality::Failed, "kim", "x", now)
        .is_err());
    w.submit(&goal("t3", "bring the cup")).unwrap();
    let third = w.run(secs(60)).clone();
    assert_eq!(third.outcome, TaskOutcome::Succeeded, "{}", third.error_msg);
}

#[test]
fn what_is_unknown_is_worked_off_by_and_by() {
    let mut w = World::new(list(fetch()));
    w.verdicts = [Outcome::Unknown; 6].into();
    w.submit(&goal("t1", "bring the cup")).unwrap();
    let record = w.run(secs(60)).clone();
    assert_eq!(record.outcome, TaskOutcome::Unknown);
    let id = w.sent[0].command.command_id.clone();
    let state = |w: &World| w.harness.ledger().get(&id).unwrap().state;
    let asked = w.requests.len();
    // After 10 s it is looked at again, three times; nothing new: nobody is bothered again.
    w.run_for(secs(9));
    assert_eq!((state(&w), w.verdicts.len()), (S::Unknown, 3));
    w.run_for(secs(8));
    assert_eq!((state(&w), w.verdicts.len()), (S::Unknown, 0));
    assert_eq!(w.requests.len(), asked);
    assert!(w.harness.is_idle());
    // Then after 20 s; until then it holds what it claimed. What is seen settles it.
    w.run_for(secs(10));
    assert_eq!(state(&w), S::Unknown);
    assert!(w.settled.is_empty());
    w.run_for(secs(10));
    assert_eq!(state(&w), S::Succeeded);
    assert_eq!(w.settled.len(), 1);
    assert!(w.requests.last().unwrap().closed);
    assert_eq!(w.sent.len(), 1, "nothing is sent again");
}

#[test]
fn nothing_is_settled_nor_begun_while_the_disk_fails_and_who_was_refused_is_asked_again() {
    let mut w = World::new(list(fetch()));
    w.verdicts = [Outcome::Unknown, Outcome::Unknown, Outcome::Unknown].into();
    w.submit(&goal("t1", "bring the cup")).unwrap();
    w.run(secs(60));
    let request = w.requests.last().unwrap().clone();
    let reason = "the disk is full".to_owned();
    w.give(Event::StorageFailed { reason });
    let now = w.at();
    let settle = |w: &mut World| {
        w.harness
            .settle(&request.command_id, Finality::Failed, "ann", "seen", now)
    };
    let refused = settle(&mut w).unwrap_err();
    assert!(refused.to_string().contains("the disk is full"));
    let refused = w.submit(&goal("t2", "bring the cup")).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::TaskStorageFailure);
    let asked = w.requests.len();
    w.give(Event::StorageWorks);
    assert_eq!(w.requests.get(asked), Some(&request));
    settle(&mut w).unwrap();
    w.submit(&goal("t2", "bring the cup")).unwrap();
}

#[test]
fn an_unknown_that_clears_up_at_the_second_look_goes_on() {
    let mut w = World::new(list(fetch()));
    w.verdicts = [Outcome::Unknown].into();
    w.submit(&goal("t1", "bring the cup")).unwrap();
    assert_eq!(w.run(secs(60)).outcome, TaskOutcome::Succeeded);
    assert_eq!(w.sent.len(), 4);
}

#[test]
fn a_silent_evaluator_has_an_end() {
    let mut w = World::new(list(fetch()));
    w.evaluator_silent = true;
    w.submit(&goal("t1", "bring the cup")).unwrap();
    let record = w.run(secs(120)).clone();
    assert_eq!(record.outcome, TaskOutcome::Unknown);
    assert!(
        record.error_msg.contains("evaluator"),
        "{}",
        record.error_msg
    );
}

#[test]
fn without_an_evaluator_nothing_starts() {
    let mut w = World::new(list(fetch()));
    w.give(Event::EvaluatorSeen(false));
    w.submit(&goal("t1", "bring the cup")).unwrap();
    let record = w.run(secs(60)).clone();
    assert_eq!(record.outcome, TaskOutcome::Rejected);
    assert_eq!(record.error_code, ErrorCode::EvaluatorUnavailable.code());
    assert!(w.sent.is_empty());
}

#[test]
fn the_same_task_again_is_followed_or_answered_and_others_wait() {
    let mut w = World::new(list(fetch()));
    w.submit(&goal("t1", "bring the cup")).unwrap();
    assert_eq!(w.submit(&goal("t1", "bring the cup")), Ok(Repeated::Follow));
    let code = |r: Result<Repeated, eh_harness::admission::AdmissionError>| r.unwrap_err().code();
    assert_eq!(code(w.submit(&goal("t2", "dance"))), ErrorCode::TaskBusy);
    assert_eq!(
        code(w.submit(&goal("t1", "dance"))),
        ErrorCode::TaskIdConflict
    );
    let record = w.run(secs(60)).clone();
    let sent = w.sent.len();
    assert_eq!(
        w.submit(&goal("t1", "bring the cup")),
        Ok(Repeated::Ended(Box::new(record)))
    );
    w.run_for(secs(5));
    assert_eq!(w.sent.len(), sent, "nothing runs a second time");
}

#[test]
fn an_instruction_that_is_not_understood_moves_nothing() {
    let mut w = World::new(list(fetch()));
    w.begin_error = Some(PlannerError::NotUnderstood {
        words: vec!["flurb".into()],
        message: "\"flurb\" is not known".into(),
    });
    w.submit(&goal("t1", "flurb")).unwrap();
    let record = w.run(secs(5)).clone();
    assert_eq!(record.outcome, TaskOutcome::Rejected);
    assert_eq!(
        record.error_code,
        ErrorCode::InstructionNotUnderstood.code()
    );
    assert!(w.sent.is_empty());
    assert_eq!(w.leases, 0);
}

#[test]
fn a_dry_run_plans_and_checks_and_moves_nothing() {
    let mut w = World::new(list(fetch()));
    let mut dry = goal("t1", "bring the cup");
    dry.dry_run = true;
    w.submit(&dry).unwrap();
    let record = w.run(secs(5)).clone();
    assert_eq!(record.outcome, TaskOutcome::Succeeded);
    assert_eq!(states(&record.steps), [("navigate_to", S::Proposed)]);
    assert!(w.sent.is_empty());
    assert_eq!(w.leases, 0);
    let mut w = World::new(list(vec![("fly", json!({}))]));
    w.submit(&dry).unwrap();
    let record = w.run(secs(5)).clone();
    assert_eq!(record.outcome, TaskOutcome::Failed);
    assert_eq!(record.error_code, ErrorCode::SkillUnavailable.code());
}

#[test]
fn a_task_without_permission_moves_nothing() {
    let mut settings = settings();
    settings.defaults.permissions = vec!["move_base".into()];
    let mut w = World::new(list(fetch()));
    w.harness = eh_harness::Harness::new(settings, Restored::default(), w.at()).0;
    w.introduce();
    w.submit(&goal("t1", "bring the cup")).unwrap();
    let record = w.run(secs(60)).clone();
    // Driving was allowed, the arm was not.
    assert_eq!(record.outcome, TaskOutcome::Failed);
    assert_eq!(record.error_code, ErrorCode::PermissionDenied.code());
    assert!(w.sent.iter().all(|g| g.command.skill != "pick"));
}

#[test]
fn a_permission_that_no_skill_needs_is_refused_at_once() {
    let mut w = World::new(list(fetch()));
    let misspelt = TaskGoal {
        permissions: vec!["move_the_arm".into()],
        ..goal("t1", "bring the cup")
    };
    let error = w.submit(&misspelt).unwrap_err();
    assert_eq!(error.code(), ErrorCode::PermissionDenied);
    let text = error.to_string();
    assert!(
        text.contains("move_the_arm") && text.contains("known are: move_arm, move_base"),
        "{text}"
    );
    assert!(w.sent.is_empty());
}

#[test]
fn time_and_steps_end() {
    let mut w = World::new(list(fetch()));
    w.controls = [Control::RunsOn].into();
    let short = TaskGoal {
        time_budget: (5, 0),
        ..goal("t1", "bring the cup")
    };
    w.submit(&short).unwrap();
    let record = w.run(secs(20)).clone();
    assert_eq!(record.outcome, TaskOutcome::Failed);
    assert_eq!(record.error_code, ErrorCode::TimeBudgetExhausted.code());
    // What ran was stopped, and the stop was measured before the task ended.
    assert_eq!(states(&record.steps), [("navigate_to", S::Canceled)]);
    assert_eq!(w.cancels.len(), 1);

    let mut w = World::new(list(fetch()));
    let few = TaskGoal {
        max_steps: 2,
        ..goal("t1", "bring the cup")
    };
    w.submit(&few).unwrap();
    let record = w.run(secs(60)).clone();
    assert_eq!(record.error_code, ErrorCode::StepBudgetExhausted.code());
    assert_eq!(record.steps.len(), 2);
}

#[test]
fn going_round_in_circles_ends() {
    let circle: Script =
        Box::new(|_: &PlanRequest| propose("look_at", json!({"target": "sofa_1"})));
    let mut w = World::new(circle);
    w.node("robot").pose = eh_contract::geometry::Pose::planar(-2.0, 1.0, 0.0);
    w.submit(&goal("t1", "look")).unwrap();
    let record = w.run(secs(120)).clone();
    assert_eq!(record.outcome, TaskOutcome::Failed);
    assert_eq!(record.error_code, ErrorCode::NoPlan.code());
    assert_eq!(record.steps.len(), 6);
}

#[test]
fn a_refusal_of_the_executor_is_planned_again() {
    let mut w = World::new(list(fetch()));
    w.controls = [Control::Refused(ErrorCode::StalePrecondition.code())].into();
    w.submit(&goal("t1", "bring the cup")).unwrap();
    let record = w.run(secs(60)).clone();
    assert_eq!(record.outcome, TaskOutcome::Succeeded);
    assert_eq!(record.steps[0].command_state, S::Rejected);
    assert_eq!(
        record.steps[0].error_code,
        ErrorCode::StalePrecondition.code()
    );
    // What was refused is not settled.
    assert_eq!(w.settled.len(), 4);
}

#[test]
fn an_old_token_gets_a_new_one() {
    let mut w = World::new(list(fetch()));
    w.controls = [Control::Refused(ErrorCode::OldToken.code())].into();
    w.submit(&goal("t1", "bring the cup")).unwrap();
    let record = w.run(secs(60)).clone();
    assert_eq!(record.outcome, TaskOutcome::Succeeded);
    assert!(
        w.feedback
            .iter()
            .filter(|f| f.text.contains("control lease"))
            .count()
            >= 2
    );
}

#[test]
fn a_lost_acknowledgement_is_found_by_asking_and_never_sent_again() {
    let mut w = World::new(list(fetch()));
    w.controls = [Control::AckLost].into();
    w.submit(&goal("t1", "bring the cup")).unwrap();
    w.run_for(secs(6));
    assert!(w.queries >= 1);
    assert_eq!(w.sent.len(), 1);
    assert_eq!(
        w.feedback.last().unwrap().command_state,
        S::Running,
        "the answer to the question says that it runs"
    );
}

#[test]
fn a_goal_that_never_arrived_is_proved_not_to_have_run_and_tried_again() {
    let mut w = World::new(list(fetch()));
    w.controls = [Control::GoalLost].into();
    w.submit(&goal("t1", "bring the cup")).unwrap();
    let record = w.run(secs(60)).clone();
    assert_eq!(record.outcome, TaskOutcome::Succeeded);
    assert_eq!(record.steps[0].command_state, S::Rejected);
    assert_eq!(record.steps[0].error_code, ErrorCode::ExpiredCommand.code());
    assert_ne!(w.sent[0].goal_id, w.sent[1].goal_id);
    assert_ne!(w.sent[0].command.command_id, w.sent[1].command.command_id);
}

#[test]
fn silent_neighbours_have_an_end() {
    let mut w = World::new(list(fetch()));
    w.scene_silent = true;
    w.submit(&goal("t1", "bring the cup")).unwrap();
    let record = w.run(secs(30)).clone();
    assert_eq!(record.error_code, ErrorCode::SceneUnavailable.code());
    assert_eq!(record.outcome, TaskOutcome::Rejected);

    let mut w = World::new(list(fetch()));
    w.planner_silent = true;
    w.submit(&goal("t1", "bring the cup")).unwrap();
    let record = w.run(secs(90)).clone();
    assert_eq!(record.error_code, ErrorCode::PlannerFailure.code());

    let mut w = World::new(list(fetch()));
    w.lease_refused = true;
    w.submit(&goal("t1", "bring the cup")).unwrap();
    let record = w.run(secs(30)).clone();
    assert_eq!(record.error_code, ErrorCode::NoLease.code());
    assert!(record.error_msg.contains("/teleop"), "{}", record.error_msg);

    let mut w = World::new(list(fetch()));
    w.scene.objects.retain(|o| o.r#ref != "robot");
    w.submit(&goal("t1", "bring the cup")).unwrap();
    let record = w.run(secs(30)).clone();
    assert_eq!(record.error_code, ErrorCode::SceneUnavailable.code());
    assert!(record.error_msg.contains("where the robot is"));
}

#[test]
fn an_executor_that_does_not_release_delays_but_does_not_hang() {
    let mut w = World::new(list(vec![("navigate_to", json!({"target": "kitchen"}))]));
    w.settle_silent = true;
    w.submit(&goal("t1", "go to the kitchen")).unwrap();
    let record = w.run(secs(60)).clone();
    assert_eq!(record.outcome, TaskOutcome::Succeeded);
    assert!(w.settled.len() > 5, "it was told again and again");
    assert!(!w.warnings.is_empty());
}

#[test]
fn a_question_waits_for_its_answer() {
    let asking: Script = Box::new(|request: &PlanRequest| match request.answers.first() {
        None => Turn::Ask {
            key: "which".into(),
            question: "Which cup?".into(),
            options: vec!["cup_1".into(), "cup_2".into()],
        },
        Some(answer) => Turn::Done {
            summary: answer.answer.clone(),
        },
    });
    let mut w = World::new(asking);
    w.submit(&goal("t1", "bring the cup")).unwrap();
    w.run_for(secs(2));
    let request = w.requests[0].clone();
    assert_eq!(w.feedback.last().unwrap().phase, TaskPhase::WaitHuman);
    assert!(w.answer("nonsense", "cup_2", "kim").is_err());
    assert!(w.answer(&request.request_id, "plate", "kim").is_err());
    assert!(w.answer(&request.request_id, "cup_2", " ").is_err());
    assert!(w.answer(&request.request_id, "3", "kim").is_err());
    assert!(w.answer(&request.request_id, "", "kim").is_err());
    // By number, or as one says it.
    w.answer(&request.request_id, "the second one", "kim")
        .unwrap();
    let record = w.run(secs(10)).clone();
    assert_eq!(record.summary, "cup_2");
    assert!(w.answer(&request.request_id, "cup_2", "kim").is_err());
    // Without an answer the wait ends.
    let silent: Script = Box::new(|_: &PlanRequest| Turn::Ask {
        key: "which".into(),
        question: "Which cup?".into(),
        options: vec![],
    });
    let mut w = World::new(silent);
    w.submit(&goal("t1", "bring the cup")).unwrap();
    let record = w.run(secs(130)).clone();
    assert_eq!(record.outcome, TaskOutcome::Failed);
    assert_eq!(record.error_code, ErrorCode::TargetAmbiguous.code());
    assert!(w.requests.last().unwrap().closed);
}

#[test]
fn late_answers_of_the_planner_are_dropped() {
    let mut w = World::new(list(fetch()));
    w.submit(&goal("t1", "bring the cup")).unwrap();
    let before = w.harness.dropped();
    w.give(Event::Turned {
        ticket: 999,
        program: Box::new(eh_planner::planner::Program {
            planner: String::new(),
            planner_version: String::new(),
            instruction: String::new(),
            language: eh_planner::planner::Language::En,
            understood: String::new(),
            plan_version: 9,
            plan: vec![],
            state: serde_json::Value::Null,
        }),
        turn: propose("navigate_to", json!({"target": "kitchen"})),
    });
    assert_eq!(w.harness.dropped(), before + 1);
    assert!(w.sent.is_empty());
}

#[test]
fn an_executor_that_falls_silent_is_waited_for_and_then_named() {
    let planner = |request: &PlanRequest| {
        if request.skills.iter().any(|s| s.name == "navigate_to") {
            propose("navigate_to", json!({"target": "kitchen"}))
        } else {
            Turn::Fail {
                code: ErrorCode::NoPlan,
                message: "No sequence of skills reaches it.".into(),
            }
        }
    };
    let mut w = World::new(Box::new(planner));
    w.silent = true;
    w.now += secs(4);
    w.submit(&goal("t1", "go to the kitchen")).unwrap();
    w.run_for(secs(5));
    assert!(w.finished.is_empty());
    assert!(w.feedback.last().unwrap().text.contains("waits for skills"));
    let record = w.run(secs(15)).clone();
    assert_eq!(record.error_code, ErrorCode::SkillUnavailable.code());
    assert!(
        record.error_msg.contains("/navigation_skills_node"),
        "{}",
        record.error_msg
    );
    // One that comes back in time is used.
    w.submit(&goal("t2", "go to the kitchen")).unwrap();
    w.run_for(secs(5));
    w.silent = false;
    w.run_for(secs(3));
    assert!(!w.sent.is_empty());
}

#[test]
fn an_executor_that_has_not_heard_of_the_lease_is_waited_for_and_nothing_is_counted() {
    // Refused six times, more often than a step may fail (3) and, with the four steps of the task, more
    // than the steps it has (5): all of it is only waiting.
    let mut w = World::new(list(fetch()));
    w.controls = vec![Control::Refused(ErrorCode::ExecutorNoLease.code()); 6].into();
    let few = TaskGoal {
        max_steps: 5,
        ..goal("t1", "bring the cup")
    };
    w.submit(&few).unwrap();
    let record = w.run(secs(60)).clone();
    assert_eq!(
        record.outcome,
        TaskOutcome::Succeeded,
        "{}",
        record.error_msg
    );
    assert_eq!(record.steps.len(), 4, "{:?}", states(&record.steps));
    assert_eq!(
        record.steps.iter().map(|s| s.step).collect::<Vec<_>>(),
        [1, 2, 3, 4]
    );
    assert_eq!(w.sent.len(), 10);
    assert!(w.feedback.iter().any(|f| f.text.contains("has not heard")));

    // It has an end: after the wait for the lease (10 s) refusals count, and three of them are the limit.
    let mut w = World::new(list(fetch()));
    w.controls = vec![Control::Refused(ErrorCode::ExecutorNoLease.code()); 100].into();
    w.submit(&goal("t1", "bring the cup")).unwrap();
    let record = w.run(secs(60)).clone();
    assert_eq!(record.outcome, TaskOutcome::Failed);
    assert_eq!(record.error_code, ErrorCode::NoLease.code());
    assert_eq!(record.steps.len(), 3);
    // A cancel is not held up by it.
    let mut w = World::new(list(fetch()));
    w.controls = vec![Control::Refused(ErrorCode::ExecutorNoLease.code()); 100].into();
    w.submit(&goal("t1", "bring the cup")).unwrap();
    w.run_for(secs(2));
    w.give(Event::CancelTask {
        task_id: "t1".into(),
        reason: "asked".into(),
    });
    assert_eq!(w.finished.last().unwrap().outcome, TaskOutcome::Canceled);
}

#[test]
fn a_failure_that_its_descriptor_calls_not_recoverable_is_not_tried_again() {
    // The first way is hopeless, so that the planner's other way is taken at once.
    let script: Script = Box::new(|request: &PlanRequest| {
        let failed = request
            .history
            .iter()
            .any(|s| s.command_state != S::Succeeded);
        match (failed, request.history.len()) {
            (false, _) => propose("navigate_to", json!({"target": "cup_1"})),
            (true, 1) => propose("navigate_to", json!({"target": "kitchen"})),
            _ => Turn::Done {
                summary: "elsewhere".into(),
            },
        }
    });
    let mut w = World::new(script);
    w.controls = [Control::Refused(ErrorCode::NoValidPath.code())].into();
    w.submit(&goal("t1", "bring the cup")).unwrap();
    let record = w.run(secs(30)).clone();
    assert_eq!(
        record.outcome,
        TaskOutcome::Succeeded,
        "{}",
        record.error_msg
    );
    // A planner that insists ends the task: the step is not sent a second time.
    let mut w = World::new(list(fetch()));
    w.controls = [Control::Refused(ErrorCode::NoValidPath.code())].into();
    w.submit(&goal("t1", "bring the cup")).unwrap();
    let record = w.run(secs(30)).clone();
    assert_eq!(record.error_code, ErrorCode::AttemptsExhausted.code());
    assert!(
        record.error_msg.contains("cannot change"),
        "{}",
        record.error_msg
    );
    assert_eq!(w.sent.len(), 1);
}

#[test]
fn right_after_the_start_a_missing_way_is_looked_for_again() {
    // Executors that start together with the harness are heard in a moment; until then there is no plan.
    let mut steps = list(fetch());
    let script: Script = Box::new(move |request| {
        if request.now < Stamp::from_secs_f64(1003.0) {
            return Turn::Fail {
                code: ErrorCode::NoPlan,
                message: "no skill can bring it about".into(),
            };
        }
        steps(request)
    });
    let mut w = World::new(script);
    w.submit(&goal("t1", "bring the cup")).unwrap();
    let record = w.run(secs(60)).clone();
    assert_eq!(record.outcome, TaskOutcome::Succeeded, "{record:#?}");
    assert_eq!(record.steps.len(), fetch().len());
}

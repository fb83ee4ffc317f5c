//! Programs driven by scripted answers of the foreign servers.

use std::time::Duration;

use eh_contract::command::{SkillCommand, Support, TargetBinding, SCHEMA_VERSION};
use eh_contract::geometry::{Pose, Vec3};
use eh_contract::perception::{Detection, DetectionFrame};
use eh_contract::scene::Kind;
use eh_contract::{ErrorCode, Stamp};
use eh_skills::fingers::GripperReading;
use eh_skills::grasp::{Approach, HeldGrasp};
use eh_skills::planning_scene::SceneWanted;
use eh_skills::program::{program_for, HeldChange};
use eh_skills::sub_goal::{ArmTarget, GripperReport};
use eh_skills::{Context, Embodiment, Failure, Goal, SkillProgram, Step, SubGoalOutcome};
use proptest::prelude::*;
use serde_json::{json, Value};

fn target(argument: &str, kind: Kind, at: Vec3, size: Vec3) -> TargetBinding {
    TargetBinding {
        argument: argument.into(),
        r#ref: format!("{argument}_1"),
        class_name: "thing".into(),
        kind,
        version: 1,
        frame_id: "map".into(),
        pose: Pose {
            position: at,
            ..Pose::default()
        },
        size,
        last_seen: Stamp(1),
        support: (kind == Kind::Object).then(|| Support {
            r#ref: "support_1".into(),
            pose: Pose {
                position: Vec3::new(2.6, 1.0, 0.37),
                ..Pose::default()
            },
            size: Vec3::new(0.9, 0.7, 0.74),
        }),
    }
}

/// A cup on a table, the table, and a robot that stands before it: the table's edge is at x = 2.15, the
/// base 0.4 m before it, the cup 0.1 m behind it.
fn scene() -> (TargetBinding, TargetBinding, Pose) {
    (
        target(
            "object",
            Kind::Object,
            Vec3::new(2.25, 1.0, 0.79),
            Vec3::new(0.08, 0.08, 0.1),
        ),
        target(
            "support",
            Kind::Surface,
            Vec3::new(2.6, 1.0, 0.37),
            Vec3::new(0.9, 0.7, 0.74),
        ),
        Pose::planar(1.75, 1.0, 0.0),
    )
}

fn program(skill: &str, arguments: Value, targets: Vec<TargetBinding>) -> Box<dyn SkillProgram> {
    let arguments = arguments.as_object().cloned().unwrap();
    let command = SkillCommand {
        schema_version: SCHEMA_VERSION,
        command_id: "c1".into(),
        task_id: String::new(),
        robot_id: "robot".into(),
        skill: skill.into(),
        skill_version: "1.0.0".into(),
        arguments: arguments.clone(),
        targets,
        preconditions: vec![],
        world_version: 0,
        plan_version: 0,
        start_within: Duration::from_secs(2),
        execution_timeout: Duration::ZERO,
        stop_timeout: Duration::ZERO,
        max_segments: 0,
    };
    program_for(&command, &arguments).unwrap()
}

fn context(body: &Embodiment, base: Option<Pose>) -> Context<'_> {
    Context {
        base_in_map: base,
        ..Context::of(body)
    }
}

/// Runs a program against a server that answers each goal, and gives the names of the goals and the end.
fn run(
    program: &mut dyn SkillProgram,
    context: &Context<'_>,
    mut answer: impl FnMut(&str, &Goal) -> SubGoalOutcome,
) -> (Vec<String>, Result<(), Failure>) {
    let mut names = Vec::new();
    let mut last = None;
    loop {
        match program.next(context, last.as_ref()) {
            Step::Goal { name, goal } => {
                last = Some(answer(&name, &goal));
                assert!(!names.contains(&name), "{name} is used twice");
                names.push(name);
                assert!(names.len() < 100, "it never ends: {names:?}");
            }
            Step::Completed => return (names, Ok(())),
            Step::Failed(failure) => return (names, Err(failure)),
        }
    }
}

/// Camera frames that show a thing at a place in base_link.
fn seen_at(at: Vec3) -> SubGoalOutcome {
    let frame = DetectionFrame {
        stamp: Stamp(1),
        source: "camera".into(),
        view: None,
        reference: String::new(),
        detections: vec![Detection {
            id: "0".into(),
            class_name: "thing".into(),
            confidence: 0.9,
            attributes: Default::default(),
            pose: Pose {
                position: at,
                ..Pose::default()
            },
            covariance: [0.0; 9],
            size: Vec3::new(0.08, 0.08, 0.1),
            reference: String::new(),
        }],
    };
    SubGoalOutcome::Observed(vec![frame; 5])
}

/// A robot on which everything works; the cup of [`scene`] is 0.5 m before its base.
fn works(goal: &Goal) -> SubGoalOutcome {
    match goal {
        Goal::Observe { .. } => seen_at(Vec3::new(0.5, 0.0, 0.79)),
        Goal::Gripper { width, .. } => SubGoalOutcome::Gripper(GripperReport {
            position: if *width > 0.0 { *width } else { 0.07 },
            effort: 10.0,
            stalled: *width == 0.0,
            reached_goal: *width > 0.0,
        }),
        _ => SubGoalOutcome::Succeeded,
    }
}

fn aborted(code: i32) -> SubGoalOutcome {
    SubGoalOutcome::Aborted {
        code,
        message: "no".into(),
    }
}

#[test]
fn a_pick_opens_approaches_closes_lifts_and_carries() {
    let (cup, _, base) = scene();
    let body = Embodiment::default();
    let mut pick = program("pick", json!({"object": "object_1"}), vec![cup]);
    let (names, end) = run(&mut *pick, &context(&body, Some(base)), |_, g| works(g));
    assert_eq!(
        names,
        [
            "look",
            "sight",
            "open",
            "pre_grasp",
            "approach",
            "close",
            "lift",
            "carry"
        ]
    );
    assert_eq!(end, Ok(()));
    assert!(matches!(pick.held_change(), HeldChange::Take(g) if g.object == "object_1"));
}

#[test]
fn what_is_grasped_high_up_is_drawn_back_at_the_height_of_the_lift() {
    let (mut bottle, _, base) = scene();
    let body = Embodiment::default();
    // A bottle of 0.22 m on a counter of 0.88 m: it is grasped above 0.95 m, 0.2 m above the shoulder.
    bottle.pose.position.z = 0.99;
    bottle.size = Vec3::new(0.07, 0.07, 0.22);
    let pick = |works_back: bool| {
        let mut pick = program("pick", json!({"object": "object_1"}), vec![bottle.clone()]);
        let mut heights = Vec::new();
        let (names, end) = run(&mut *pick, &context(&body, Some(base)), |name, g| {
            if let Goal::MoveArm {
                target: ArmTarget::Tool { pose, .. },
                ..
            } = g
            {
                heights.push(pose.position.z);
            }
            match name {
                "sight" => seen_at(Vec3::new(0.5, 0.0, 0.99)),
                // -1: MoveIt's PLANNING_FAILED.
                "draw_back" if !works_back => aborted(-1),
                _ => works(g),
            }
        });
        assert_eq!(end, Ok(()));
        (names.last().cloned().unwrap(), heights)
    };
    let (last, heights) = pick(true);
    assert_eq!(last, "draw_back");
    // As high as after the lift, and that is 0.12 m above the grasp.
    let [.., approach, lift, back] = heights.as_slice() else {
        panic!("{heights:?}")
    };
    assert!((lift - approach - 0.12).abs() < 1e-9 && (back - lift).abs() < 1e-9);
    // Where the arm can't, it folds as usual, and the evaluator judges the lift.
    assert_eq!(pick(false).0, "carry");
}

#[test]
fn a_pick_goes_to_where_the_object_is_seen_and_not_to_where_the_map_has_it() {
    let (cup, _, base) = scene();
    let body = Embodiment::default();
    let shifted = |dy: f64| {
        let mut pick = program("pick", json!({"object": "object_1"}), vec![cup.clone()]);
        let mut grasp = None;
        let (names, end) = run(&mut *pick, &context(&body, Some(base)), |name, g| {
            match (name, g) {
                ("sight", _) => return seen_at(Vec3::new(0.5, dy, 0.79)),
                (
                    "approach",
                    Goal::MoveArm {
                        target: ArmTarget::Tool { pose, .. },
                        ..
                    },
                ) => {
                    grasp = Some(pose.position);
                }
                _ => {}
            }
            works(g)
        });
        (names, end, grasp)
    };
    let straight = shifted(0.0).2.unwrap();
    let aside = shifted(0.04).2.unwrap();
    assert!(
        (aside.y - straight.y - 0.04).abs() < 1e-6,
        "{straight:?} {aside:?}"
    );
    // 0.2 m is more than the gate of 0.15 m: it is another thing, and nothing is touched.
    let (names, end, _) = shifted(0.2);
    assert_eq!(names, ["look", "sight"]);
    assert_eq!(end.unwrap_err().code, ErrorCode::StalePrecondition);
}

#[test]
fn a_grasp_that_slips_is_not_the_skills_to_judge() {
    let (cup, _, base) = scene();
    let body = Embodiment::default();
    let mut pick = program("pick", json!({"object": "object_1"}), vec![cup]);
    // The fingers meet: nothing is between them. Control completes all the same.
    let (_, end) = run(&mut *pick, &context(&body, Some(base)), |name, g| {
        if name == "close" {
            SubGoalOutcome::Gripper(GripperReport {
                position: 0.0,
                effort: 0.0,
                stalled: false,
                reached_goal: true,
            })
        } else {
            works(g)
        }
    });
    assert_eq!(end, Ok(()));
}

#[test]
fn a_pick_tries_the_next_grasp_when_one_is_refused() {
    let (cup, _, base) = scene();
    let body = Embodiment::default();
    let mut pick = program("pick", json!({"object": "object_1"}), vec![cup.clone()]);
    // NO_IK_SOLUTION, then GOAL_IN_COLLISION on the approach.
    let (names, end) = run(
        &mut *pick,
        &context(&body, Some(base)),
        |name, g| match name {
            "pre_grasp" => aborted(-31),
            "approach_2" => aborted(-12),
            _ => works(g),
        },
    );
    assert_eq!(end, Ok(()));
    assert_eq!(
        names,
        [
            "look",
            "sight",
            "open",
            "pre_grasp",
            "pre_grasp_2",
            "approach_2",
            "pre_grasp_3",
            "approach_3",
            "close_3",
            "lift_3",
            "carry_3"
        ]
    );
    let mut pick = program("pick", json!({"object": "object_1"}), vec![cup]);
    let (_, end) = run(&mut *pick, &context(&body, Some(base)), |_, g| match g {
        Goal::MoveArm { .. } => aborted(-12),
        _ => works(g),
    });
    assert_eq!(end.unwrap_err().code, ErrorCode::InCollision);
}

#[test]
fn failures_that_are_the_same_for_every_grasp_end_it_at_once() {
    let (cup, _, base) = scene();
    let body = Embodiment::default();
    for (code, ours) in [
        (-10, ErrorCode::InCollision),
        (-4, ErrorCode::ManipulationFailed),
        (-21, ErrorCode::TransformUnavailable),
    ] {
        let mut pick = program("pick", json!({"object": "object_1"}), vec![cup.clone()]);
        let (names, end) = run(&mut *pick, &context(&body, Some(base)), |_, g| match g {
            Goal::MoveArm { .. } => aborted(code),
            _ => works(g),
        });
        assert_eq!((names.len(), end.unwrap_err().code), (4, ours));
    }
}

#[test]
fn a_place_lowers_opens_and_retreats_with_the_tool_at_the_height_of_the_grasp() {
    let (cup, table, base) = scene();
    let body = Embodiment::default();
    let mut place = program(
        "place",
        json!({"object": "object_1", "support": "support_1"}),
        vec![cup, table],
    );
    let mut release = None;
    let (names, end) = run(&mut *place, &context(&body, Some(base)), |name, g| {
        if name == "lower" {
            if let Goal::MoveArm {
                target: ArmTarget::Tool { pose, .. },
                straight,
                ..
            } = g
            {
                assert!(straight);
                release = Some(*pose);
            }
        }
        works(g)
    });
    assert_eq!(names, ["above", "lower", "open", "retreat", "carry"]);
    assert_eq!(end, Ok(()));
    // The table's top 0.74, the tool 0.1 - 0.045 above the cup's bottom, 0.012 m of drop.
    let z = release.unwrap().position.z;
    assert!((z - (0.74 + 0.055 + 0.012)).abs() < 1e-9, "{z}");
    assert_eq!(place.held_change(), HeldChange::Clear);
}

#[test]
fn navigation_tries_other_places_only_where_that_can_help() {
    let (cup, _, base) = scene();
    let body = Embodiment::default();
    let arguments = json!({"target": "target_1"});
    let cup = TargetBinding {
        argument: "target".into(),
        r#ref: "target_1".into(),
        ..cup
    };
    let mut drive = program("navigate_to", arguments.clone(), vec![cup.clone()]);
    let (names, end) = run(
        &mut *drive,
        &context(&body, Some(base)),
        |name, g| match name {
            "drive" => aborted(206),
            "drive_2" => aborted(208),
            _ => works(g),
        },
    );
    assert_eq!((names.len(), end), (3, Ok(())));
    let mut drive = program("navigate_to", arguments.clone(), vec![cup.clone()]);
    let (names, end) = run(&mut *drive, &context(&body, Some(base)), |_, _| {
        aborted(9000)
    });
    assert_eq!(
        (names.len(), end.unwrap_err().code),
        (1, ErrorCode::NavigationFailed)
    );
    let mut drive = program("navigate_to", arguments.clone(), vec![cup.clone()]);
    let (names, end) = run(&mut *drive, &context(&body, Some(base)), |_, _| {
        aborted(206)
    });
    assert!(names.len() > 1 && names.len() <= 8);
    assert_eq!(end.unwrap_err().code, ErrorCode::GoalOccupied);
    // Without a transform nothing is sent.
    let mut drive = program("navigate_to", arguments, vec![cup]);
    let (names, end) = run(&mut *drive, &context(&body, None), |_, g| works(g));
    assert!(names.is_empty());
    assert_eq!(end.unwrap_err().code, ErrorCode::TransformUnavailable);
}

#[test]
fn what_is_behind_the_head_is_told_to_be_faced_first() {
    let body = Embodiment::default();
    let behind = target(
        "target",
        Kind::Surface,
        Vec3::new(-1.0, 0.05, 0.4),
        Vec3::new(0.5, 0.5, 0.8),
    );
    let mut look = program("look_at", json!({"target": "target_1"}), vec![behind]);
    let (names, end) = run(
        &mut *look,
        &context(&body, Some(Pose::default())),
        |_, g| works(g),
    );
    assert!(names.is_empty());
    let failure = end.unwrap_err();
    // The code that makes a planner drive up, which turns the base.
    assert_eq!(failure.code, ErrorCode::OutOfReach);
    assert!(
        failure.message.contains("navigate_to"),
        "{}",
        failure.message
    );
}

#[test]
fn simple_skills_send_one_goal() {
    let body = Embodiment::default();
    for (skill, arguments, name) in [
        ("open_gripper", json!({}), "open"),
        ("close_gripper", json!({}), "close"),
        ("stow", json!({}), "stow"),
        ("wait", json!({"duration": 1.5}), "wait"),
        (
            "navigate_to_pose",
            json!({"pose": {"frame_id": "map", "x": 1.0, "y": 0.0, "yaw": 0.0}}),
            "drive",
        ),
    ] {
        let mut p = program(skill, arguments, vec![]);
        let (names, end) = run(&mut *p, &context(&body, None), |_, g| works(g));
        assert_eq!((names, end), (vec![name.to_string()], Ok(())), "{skill}");
    }
}

proptest! {
    /// Whatever the servers answer, a program ends after a bounded number of goals, with names that
    /// never repeat and goals whose numbers are finite.
    #[test]
    fn every_program_ends(answers in proptest::collection::vec(0u8..8, 0..60), skill in 0usize..4,
                          x in -0.3..0.3f64, y in -0.3..0.3f64, planning_scene in proptest::bool::ANY) {
        let (mut cup, table, mut base) = scene();
        base.position.x += x;
        base.position.y += y;
        cup.argument = "object".into();
        let as_target = TargetBinding { argument: "target".into(), ..cup.clone() };
        let (name, arguments, targets) = [
            ("pick", json!({"object": "object_1"}), vec![cup.clone()]),
            ("place", json!({"object": "object_1", "support": "support_1"}), vec![cup, table]),
            ("navigate_to", json!({"target": "object_1"}), vec![as_target.clone()]),
            ("look_at", json!({"target": "object_1"}), vec![as_target]),
        ][skill].clone();
        let body = Embodiment::default();
        let mut p = program(name, arguments, targets);
        let mut answers = answers.into_iter();
        let context = Context { planning_scene, ..context(&body, Some(base)) };
        let (_, end) = run(&mut *p, &context, |_, goal| {
            if let Goal::MoveArm { target: ArmTarget::Tool { pose, .. }, .. } = goal {
                assert!(pose.check("tool").is_ok());
            }
            match answers.next().unwrap_or(0) {
                1 => aborted(-31),
                2 => aborted(208),
                3 => SubGoalOutcome::Rejected { message: "no".into() },
                4 => aborted(0),
                5 => SubGoalOutcome::Gripper(GripperReport {
                    position: f64::NAN, effort: 0.0, stalled: false, reached_goal: false,
                }),
                _ => works(goal),
            }
        });
        if let Err(failure) = end {
            prop_assert!(failure.code != ErrorCode::None && !failure.message.is_empty());
        }
    }
}

/// A grasp of the cup of [`scene`], made by an earlier run.
fn held(object: &str) -> HeldGrasp {
    HeldGrasp {
        object: object.into(),
        approach: Approach::Top,
        above_bottom: 0.055,
        size: Vec3::new(0.08, 0.08, 0.1),
        in_tool: None,
    }
}

#[test]
fn a_pick_of_what_is_in_the_gripper_only_lifts_it() {
    let (cup, _, base) = scene();
    let body = Embodiment::default();
    let note = held("object_1");
    let tool = Pose {
        position: Vec3::new(0.5, 0.0, 0.795),
        ..Pose::default()
    };
    let context = Context {
        held: Some(&note),
        gripper: Some(GripperReading {
            width: 0.07,
            effort: Some(20.0),
        }),
        tool_in_base: Some(tool),
        ..context(&body, Some(base))
    };
    let mut pick = program("pick", json!({"object": "object_1"}), vec![cup.clone()]);
    let mut lifted = 0.0;
    let (names, end) = run(&mut *pick, &context, |name, g| {
        if let (
            "lift",
            Goal::MoveArm {
                target: ArmTarget::Tool { pose, .. },
                straight: true,
                ..
            },
        ) = (name, g)
        {
            lifted = pose.position.z;
        }
        works(g)
    });
    assert_eq!((names, end), (vec!["lift".into(), "carry".into()], Ok(())));
    // 0.12 m above where the tool is.
    assert!((lifted - 0.915).abs() < 1e-9);
    assert_eq!(pick.held_change(), HeldChange::Take(note.clone()));
    // As high as it gets already: it is carried all the same.
    let mut pick = program("pick", json!({"object": "object_1"}), vec![cup.clone()]);
    let (names, end) = run(&mut *pick, &context, |name, g| match name {
        "lift" => aborted(-31),
        _ => works(g),
    });
    assert_eq!((names.len(), end), (2, Ok(())));
    // Not knowing where the tool is, it does nothing.
    let lost = Context {
        tool_in_base: None,
        ..context
    };
    let mut pick = program("pick", json!({"object": "object_1"}), vec![cup]);
    let (names, end) = run(&mut *pick, &lost, |_, g| works(g));
    assert!(names.is_empty());
    assert_eq!(end.unwrap_err().code, ErrorCode::TransformUnavailable);
}

#[test]
fn a_pick_never_opens_fingers_that_hold_something_else() {
    let (cup, _, base) = scene();
    let body = Embodiment::default();
    let other = held("bowl_1");
    let grip = Some(GripperReading {
        width: 0.05,
        effort: Some(20.0),
    });
    for (note, gripper, code, word) in [
        (Some(&other), grip, ErrorCode::StalePrecondition, "bowl_1"),
        (None, grip, ErrorCode::StalePrecondition, "0.050 m"),
        (Some(&other), None, ErrorCode::GripperFailed, "bowl_1"),
    ] {
        let context = Context {
            held: note,
            gripper,
            ..context(&body, Some(base))
        };
        let mut pick = program("pick", json!({"object": "object_1"}), vec![cup.clone()]);
        let (names, end) = run(&mut *pick, &context, |_, g| works(g));
        assert!(names.is_empty(), "{names:?}");
        let failure = end.unwrap_err();
        assert_eq!(failure.code, code);
        assert!(failure.message.contains(word), "{}", failure.message);
    }
    // Fingers that closed on nothing: what is remembered slipped away, and it is grasped anew.
    let context = Context {
        held: Some(&other),
        gripper: Some(GripperReading {
            width: 0.0,
            effort: Some(20.0),
        }),
        ..context(&body, Some(base))
    };
    let mut pick = program("pick", json!({"object": "object_1"}), vec![cup]);
    let (names, end) = run(&mut *pick, &context, |_, g| works(g));
    assert_eq!((names.len(), end), (8, Ok(())));
}

/// The names of our objects in the world, what is attached, and the contacts after each change of the scene.
type Scenes = Vec<(String, Vec<String>, Option<String>, Vec<String>)>;

fn scenes_of(
    program: &mut dyn SkillProgram,
    context: &Context<'_>,
    mut answer: impl FnMut(&str, &Goal) -> SubGoalOutcome,
) -> (Vec<String>, Result<(), Failure>, Scenes) {
    let mut scenes = Scenes::new();
    let (names, end) = run(program, context, |name, goal| {
        if let Goal::Scene(wanted) = goal {
            let short = |id: &String| id.replace("harness/", "");
            let mut world: Vec<String> = wanted.world.iter().map(|b| short(&b.id)).collect();
            world.sort();
            scenes.push((
                name.into(),
                world,
                wanted.attached.as_ref().map(|a| short(&a.object.id)),
                wanted
                    .contacts
                    .iter()
                    .map(|[a, b]| format!("{} {}", short(a), short(b)))
                    .collect(),
            ));
        }
        answer(name, goal)
    });
    (names, end, scenes)
}

fn scene_row(
    name: &str,
    world: &[&str],
    attached: Option<&str>,
    contacts: &[&str],
) -> (String, Vec<String>, Option<String>, Vec<String>) {
    let owned = |all: &[&str]| all.iter().map(|s| (*s).to_string()).collect();
    (
        name.into(),
        owned(world),
        attached.map(Into::into),
        owned(contacts),
    )
}

#[test]
fn a_pick_with_a_planning_scene_allows_a_contact_only_as_long_as_it_is_needed() {
    let (cup, _, base) = scene();
    let body = Embodiment::default();
    let context = Context {
        planning_scene: true,
        ..context(&body, Some(base))
    };
    let mut pick = program("pick", json!({"object": "object_1"}), vec![cup.clone()]);
    let (names, end, scenes) = scenes_of(&mut *pick, &context, |_, g| works(g));
    assert_eq!(end, Ok(()));
    assert_eq!(
        names,
        [
            "look",
            "sight",
            "open",
            "prepare_scene",
            "pre_grasp",
            "allow_contact",
            "approach",
            "close",
            "attach",
            "lift",
            "forbid_contact",
            "carry",
            "tidy_scene",
        ]
    );
    let grip = ["gripper_tcp object_1", "arm_5_link object_1"];
    let stands = ["object_1 support_1", "object_1 <octomap>"];
    assert_eq!(
        scenes,
        [
            scene_row("prepare_scene", &["object_1", "support_1"], None, &[]),
            scene_row("allow_contact", &["object_1", "support_1"], None, &grip),
            scene_row("attach", &["support_1"], Some("object_1"), &stands),
            scene_row("forbid_contact", &["support_1"], Some("object_1"), &[]),
            scene_row("tidy_scene", &[], Some("object_1"), &[]),
        ]
    );
    // Where it hangs is remembered: the top of the cup is at 0.84, the tool half a finger below it.
    let HeldChange::Take(note) = pick.held_change() else {
        panic!("{:?}", pick.held_change());
    };
    // Seen from the tool, which looks down, its middle at 0.79 is 0.005 m ahead.
    assert!((note.in_tool.unwrap().position.x - 0.005).abs() < 1e-9);

    // A grasp that can't be planned: the contact is forbidden again before the next one is tried.
    let mut pick = program("pick", json!({"object": "object_1"}), vec![cup.clone()]);
    let (names, end, _) = scenes_of(&mut *pick, &context, |name, g| match name {
        "approach" => aborted(-12),
        _ => works(g),
    });
    assert_eq!(end, Ok(()));
    assert_eq!(
        names[5..10],
        [
            "allow_contact",
            "approach",
            "prepare_scene_2",
            "pre_grasp_2",
            "allow_contact_2"
        ]
    );

    // Fingers that met: what slipped is not carried around in the planner's mind.
    let slipped = Context {
        gripper: Some(GripperReading {
            width: 0.0,
            effort: Some(0.0),
        }),
        ..context
    };
    let mut pick = program("pick", json!({"object": "object_1"}), vec![cup.clone()]);
    let (_, end, scenes) = scenes_of(&mut *pick, &slipped, |_, g| works(g));
    assert_eq!(end, Ok(()));
    assert_eq!(
        scenes.last().unwrap(),
        &scene_row("tidy_scene", &[], None, &[])
    );

    // A scene that can't be changed stops it before the arm moves.
    let mut pick = program("pick", json!({"object": "object_1"}), vec![cup]);
    let (names, end, _) = scenes_of(&mut *pick, &context, |_, g| match g {
        Goal::Scene(_) => aborted(0),
        _ => works(g),
    });
    assert_eq!(names.last().unwrap(), "prepare_scene");
    assert!(end.unwrap_err().message.contains("planning scene"));
}

#[test]
fn a_lift_that_fails_leaves_attached_what_is_held_and_nothing_else() {
    let (cup, _, base) = scene();
    let body = Embodiment::default();
    let mut context = Context {
        planning_scene: true,
        ..context(&body, Some(base))
    };
    let mut pick = program("pick", json!({"object": "object_1"}), vec![cup.clone()]);
    assert_eq!(pick.scene_at_a_failure(&context), None, "nothing was begun");
    let (_, end) = run(&mut *pick, &context, |name, g| match name {
        // CONTROL_FAILED.
        "lift" => aborted(-4),
        _ => works(g),
    });
    assert!(end.is_err());
    let HeldChange::Take(note) = pick.held_change() else {
        panic!("it may be in the fingers");
    };
    context.held = Some(&note);
    context.gripper = Some(GripperReading {
        width: 0.07,
        effort: Some(20.0),
    });
    let left = pick.scene_at_a_failure(&context).unwrap();
    assert!(left.world.is_empty() && left.contacts.is_empty());
    assert_eq!(left.attached.unwrap().object.id, "harness/object_1");
    // The next attempt lifts it, allowed to touch what it stands on.
    context.tool_in_base = Some(Pose {
        position: Vec3::new(0.5, 0.0, 0.795),
        ..Pose::default()
    });
    let mut again = program("pick", json!({"object": "object_1"}), vec![cup]);
    let (names, end, scenes) = scenes_of(&mut *again, &context, |_, g| works(g));
    assert_eq!(end, Ok(()));
    assert_eq!(
        names,
        ["attach", "lift", "forbid_contact", "carry", "tidy_scene"]
    );
    assert_eq!(scenes[0].2.as_deref(), Some("object_1"));
    assert!(scenes[0].3.contains(&"object_1 <octomap>".to_string()));
    // Dropped meanwhile: nothing stays attached.
    context.gripper = Some(GripperReading {
        width: 0.0,
        effort: Some(0.0),
    });
    assert_eq!(
        again.scene_at_a_failure(&context).unwrap(),
        SceneWanted::default()
    );
}

#[test]
fn a_place_with_a_planning_scene_detaches_and_cleans_up() {
    let (cup, table, base) = scene();
    let body = Embodiment::default();
    let note = held("object_1");
    let context = Context {
        planning_scene: true,
        held: Some(&note),
        ..context(&body, Some(base))
    };
    let mut place = program(
        "place",
        json!({"object": "object_1", "support": "support_1"}),
        vec![cup, table],
    );
    let mut placed = 0.0;
    let (names, end, scenes) = scenes_of(&mut *place, &context, |name, g| {
        if let ("detach", Goal::Scene(wanted)) = (name, g) {
            let cup = wanted.world.iter().find(|b| b.id == "harness/object_1");
            placed = cup.unwrap().pose.position.z;
        }
        works(g)
    });
    assert_eq!(end, Ok(()));
    assert_eq!(
        names,
        [
            "prepare_scene",
            "above",
            "allow_contact",
            "lower",
            "open",
            "detach",
            "retreat",
            "forbid_contact",
            "carry",
            "tidy_scene",
        ]
    );
    let both = ["object_1", "support_1"];
    assert_eq!(
        scenes,
        [
            scene_row("prepare_scene", &["support_1"], Some("object_1"), &[]),
            scene_row(
                "allow_contact",
                &["support_1"],
                Some("object_1"),
                &["object_1 support_1", "object_1 <octomap>"]
            ),
            scene_row(
                "detach",
                &both,
                None,
                &["gripper_tcp object_1", "arm_5_link object_1"]
            ),
            scene_row("forbid_contact", &both, None, &[]),
            scene_row("tidy_scene", &[], None, &[]),
        ]
    );
    // Its middle is half its height of 0.1 m above the table's top at 0.74.
    assert!((placed - 0.79).abs() < 1e-9, "{placed}");
}

#[test]
fn what_is_let_go_and_what_was_left_behind_go_out_of_the_planning_scene() {
    let body = Embodiment::default();
    let context = Context {
        planning_scene: true,
        ..context(&body, None)
    };
    for (skill, expected) in [
        ("open_gripper", &["open", "tidy_scene"][..]),
        ("close_gripper", &["close"][..]),
        ("stow", &["prepare_scene", "stow", "tidy_scene"][..]),
    ] {
        let mut p = program(skill, json!({}), vec![]);
        let (names, end, scenes) = scenes_of(&mut *p, &context, |_, g| works(g));
        assert_eq!(
            (names, end),
            (expected.iter().map(|s| (*s).to_string()).collect(), Ok(()))
        );
        assert!(scenes.iter().all(|s| s.1.is_empty() && s.2.is_none()));
    }
}

//! The executor's gate: one test a reason, each with the guard's own code, and what passes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use eh_contract::command::{
    Beacon, Envelope, Precondition, SkillCommand, TargetBinding, SCHEMA_VERSION,
};
use eh_contract::geometry::{Pose, Vec3};
use eh_contract::scene::Kind;
use eh_contract::skill::SkillDescriptor;
use eh_contract::{ErrorCode, Stamp};
use eh_ledger::admission::{
    admit, Admission, ExecutorView, KnownSkill, LeaseView, Request, SceneCheck,
};
use eh_ledger::executor::ExecutorRecord;
use proptest::prelude::*;
use serde_json::{json, Value};

/// An executor with everything in order, and a command that it admits; each test spoils one thing.
struct Bench {
    skills: BTreeMap<String, KnownSkill>,
    held: BTreeMap<String, String>,
    lease: LeaseView,
    require_lease: bool,
    stop: Option<String>,
    frames: BTreeSet<String>,
    known: Option<ExecutorRecord>,
    tick: Duration,
    shutting_down: bool,
    command: SkillCommand,
    digest: Option<String>,
    envelope: Envelope,
    segment: u32,
    scene: Option<SceneCheck>,
}

fn descriptor() -> SkillDescriptor {
    serde_json::from_value(json!({
        "name": "pick", "version": "1.0.0", "description": "grasps", "action_name": "x/execute_skill",
        "arguments_schema": {"type": "object", "properties": {
            "object": {"type": "string", "x-ref": ["object"]},
            "effort": {"type": "number", "minimum": 0, "maximum": 40, "default": 20}},
            "required": ["object"], "additionalProperties": false},
        "postcondition_text": "held", "evaluated": true, "resources": ["arm", "base"],
        "nominal_duration": 5.0, "maximum_duration": 30.0
    }))
    .unwrap()
}

impl Bench {
    fn new() -> Self {
        Bench {
            skills: [("pick".to_string(), KnownSkill::new(descriptor()).unwrap())].into(),
            held: BTreeMap::new(),
            lease: LeaseView {
                newest_token: 7,
                live: true,
                controller_id: "/harness_node".into(),
            },
            require_lease: true,
            stop: None,
            frames: ["map".to_string()].into(),
            known: None,
            tick: Duration::from_millis(10_500),
            shutting_down: false,
            command: SkillCommand {
                schema_version: SCHEMA_VERSION,
                command_id: "c1".into(),
                task_id: "t1".into(),
                robot_id: "robot".into(),
                skill: "pick".into(),
                skill_version: "1.0.0".into(),
                arguments: json!({"object": "cup_1"}).as_object().cloned().unwrap(),
                targets: vec![TargetBinding {
                    argument: "object".into(),
                    r#ref: "cup_1".into(),
                    class_name: "cup".into(),
                    kind: Kind::Object,
                    version: 3,
                    frame_id: "map".into(),
                    pose: Pose::planar(1.0, 2.0, 0.0),
                    size: Vec3::new(0.08, 0.08, 0.1),
                    last_seen: Stamp(1),
                    support: None,
                }],
                preconditions: vec![Precondition {
                    r#ref: "cup_1".into(),
                    version: 3,
                    same_version: false,
                    max_age: Duration::from_secs(20),
                    max_displacement: 0.1,
                    predicates: Value::Null,
                }],
                world_version: 9,
                plan_version: 1,
                start_within: Duration::from_secs(2),
                execution_timeout: Duration::ZERO,
                stop_timeout: Duration::ZERO,
                max_segments: 0,
            },
            digest: None,
            envelope: Envelope {
                fencing_token: 7,
                controller_id: "/harness_node".into(),
                start_within: Duration::from_secs(2),
                beacon: Some(Beacon {
                    executor: "/manipulation_skills_node".into(),
                    boot_id: "boot".into(),
                    tick: Duration::from_secs(10),
                }),
            },
            segment: 0,
            scene: Some(SceneCheck::Holds),
        }
    }

    fn admit(&self) -> Admission {
        let digest = self.digest.clone().unwrap_or_else(|| self.command.digest());
        admit(
            &Request {
                command: &self.command,
                digest: &digest,
                envelope: &self.envelope,
                segment: self.segment,
            },
            &ExecutorView {
                executor: "/manipulation_skills_node",
                boot_id: "boot",
                tick: self.tick,
                robot_id: "robot",
                skills: &self.skills,
                known: self.known.as_ref(),
                held: &self.held,
                lease: &self.lease,
                require_lease: self.require_lease,
                stop_latched: self.stop.as_deref(),
                frames: &self.frames,
                shutting_down: self.shutting_down,
            },
            self.scene.as_ref(),
        )
    }
}

/// Names of parts of the robot and of places where there is room for one only.
const RESOURCES: [&str; 4] = ["arm", "base", "region:doorway", "region:lift"];

impl Bench {
    /// Who holds what, as the executor's records say it.
    fn hold(&mut self, claims: &[Vec<&str>], holding: &[bool]) {
        self.held = claims
            .iter()
            .enumerate()
            .filter(|(i, _)| holding[*i])
            .flat_map(|(i, claims)| claims.iter().map(move |r| (r.to_string(), format!("c{i}"))))
            .collect();
    }

    /// The command of one skill arrives.
    fn ask(&mut self, i: usize) -> Admission {
        self.command.command_id = format!("c{i}");
        self.command.skill = format!("skill{i}");
        self.admit()
    }
}

/// Spoils one thing and gives the refusal's message.
fn refused(code: ErrorCode, spoil: impl FnOnce(&mut Bench)) -> String {
    let mut bench = Bench::new();
    spoil(&mut bench);
    match bench.admit() {
        Admission::Refuse(refusal) => {
            assert_eq!(refusal.code, code, "{}", refusal.message);
            refusal.message
        }
        other => panic!("{other:?} instead of {code:?}"),
    }
}

#[test]
fn a_good_command_is_admitted_with_defaults_resources_and_a_deadline() {
    let Admission::Admit(admitted) = Bench::new().admit() else {
        panic!("{:?}", Bench::new().admit());
    };
    assert_eq!(admitted.arguments["effort"], json!(20));
    assert_eq!(admitted.resources, ["arm", "base"]);
    // The beacon's 10 s plus the 2 s of the envelope.
    assert_eq!(admitted.start_by, Duration::from_secs(12));
    assert_eq!(admitted.execution_timeout, Duration::from_secs(30));
}

#[test]
fn malformed_commands() {
    use ErrorCode as C;
    refused(C::InvalidCommand, |b| b.command.schema_version = 2);
    refused(C::InvalidCommand, |b| b.command.command_id = String::new());
    refused(C::InvalidCommand, |b| b.command.command_id = "a b".into());
    refused(C::InvalidCommand, |b| b.command.task_id = "x".repeat(65));
    let message = refused(C::InvalidCommand, |b| {
        b.command.start_within = Duration::ZERO
    });
    assert!(message.contains("zero"), "{message}");
    refused(C::InvalidCommand, |b| {
        b.command.stop_timeout = Duration::from_secs(3600)
    });
    refused(C::InvalidCommand, |b| b.segment = 1);
    refused(C::InvalidCommand, |b| {
        b.command.preconditions[0].predicates = json!({"fly": {}})
    });
    refused(C::InvalidCommand, |b| {
        b.command.preconditions[0].max_displacement = f64::NAN
    });
    refused(C::DigestMismatch, |b| b.digest = Some("0".repeat(64)));
    refused(C::DigestMismatch, |b| b.digest = Some(String::new()));
    let message = refused(C::WrongRobot, |b| b.command.robot_id = "other".into());
    assert!(message.contains("other") && message.contains("robot"));
    let message = refused(C::UnknownSkill, |b| b.command.skill = "fly".into());
    assert!(
        message.contains("pick"),
        "it lists what there is: {message}"
    );
    refused(C::UnknownSkill, |b| {
        b.command.skill_version = "2.0.0".into()
    });
    refused(C::ShuttingDown, |b| b.shutting_down = true);
}

#[test]
fn arguments_and_targets() {
    use ErrorCode as C;
    refused(C::InvalidArguments, |b| {
        b.command.arguments = serde_json::Map::new()
    });
    refused(C::InvalidArguments, |b| {
        b.command.arguments.insert("effort".into(), json!(1000));
    });
    refused(C::InvalidArguments, |b| {
        b.command.arguments.insert("extra".into(), json!(1));
    });
    refused(C::InvalidArguments, |b| b.command.targets.clear());
    refused(C::InvalidArguments, |b| {
        b.command.targets[0].r#ref = "cup_2".into()
    });
    refused(C::InvalidArguments, |b| {
        b.command.targets[0].kind = Kind::Room
    });
    let message = refused(C::InvalidArguments, |b| {
        b.command.targets[0].pose.position.x = f64::NAN;
    });
    assert!(message.contains("NaN"), "{message}");
    refused(C::InvalidArguments, |b| {
        b.command.targets[0].pose.orientation = [0.0; 4]
    });
    refused(C::InvalidArguments, |b| b.command.targets[0].size.z = -1.0);
    let message = refused(C::InvalidArguments, |b| {
        b.command.targets[0].frame_id = "moon".into();
    });
    assert!(message.contains("moon") && message.contains("map"));
    refused(C::InvalidArguments, |b| {
        let twice = b.command.targets[0].clone();
        b.command.targets.push(twice);
    });
}

#[test]
fn a_known_id_is_never_started_again() {
    let mut bench = Bench::new();
    bench.known = Some(ExecutorRecord::received(
        bench.command.clone(),
        0,
        "boot",
        7,
        "/harness_node",
        Stamp(1),
    ));
    assert_eq!(bench.admit(), Admission::Duplicate);
    // Also when everything else has changed: the answer is the original's state, nothing else counts.
    bench.tick = Duration::from_secs(100);
    bench.envelope.fencing_token = 1;
    bench.lease.live = false;
    bench.stop = Some("s1".into());
    assert_eq!(bench.admit(), Admission::Duplicate);
    let known = bench.known;
    refused(ErrorCode::CommandIdConflict, |b| {
        b.known = known;
        b.command.world_version = 10;
    });
}

#[test]
fn another_segment_of_a_known_command_is_no_duplicate_and_starts_nothing() {
    let message = refused(ErrorCode::CommandIdConflict, |b| {
        let mut segmented = descriptor();
        segmented.segmented = true;
        segmented.max_segments = 2;
        b.skills = [("pick".into(), KnownSkill::new(segmented).unwrap())].into();
        let known = ExecutorRecord::received(b.command.clone(), 0, "boot", 7, "/h", Stamp(1));
        b.known = Some(known);
        b.segment = 1;
    });
    assert!(message.contains("segment 1"), "{message}");
}

#[test]
fn control_lasts_as_long_as_the_command_says_and_no_longer_than_the_skill_allows() {
    // The skill allows 30 s.
    for (asked, given) in [(0, 30), (10, 10), (100, 30)] {
        let mut bench = Bench::new();
        bench.command.execution_timeout = Duration::from_secs(asked);
        let Admission::Admit(admitted) = bench.admit() else {
            panic!("{asked} s");
        };
        assert_eq!(admitted.execution_timeout, Duration::from_secs(given));
    }
}

#[test]
fn a_pose_among_the_arguments_is_in_a_known_frame_and_on_earth() {
    let go = |frame: &str, x: f64| {
        let mut bench = Bench::new();
        let mut skill = descriptor();
        skill.name = "go".into();
        skill.arguments_schema =
            json!({"type": "object", "properties": {"pose": {"type": "object"}}});
        bench.skills = [("go".into(), KnownSkill::new(skill).unwrap())].into();
        bench.command.skill = "go".into();
        bench.command.targets.clear();
        let pose = json!({"pose": {"frame_id": frame, "x": x, "y": 0.0, "yaw": 0.0}});
        bench.command.arguments = pose.as_object().cloned().unwrap();
        bench.admit()
    };
    assert!(matches!(go("map", 1.0), Admission::Admit(_)));
    for (frame, x) in [("moon", 1.0), ("", 1.0), ("map", 1e12)] {
        let Admission::Refuse(refusal) = go(frame, x) else {
            panic!("{frame} {x}");
        };
        assert_eq!(refusal.code, ErrorCode::InvalidArguments);
    }
}

#[test]
fn who_sends() {
    use ErrorCode as C;
    refused(C::InvalidCommand, |b| {
        b.envelope.controller_id = String::new()
    });
    let message = refused(C::OldToken, |b| b.envelope.fencing_token = 6);
    assert!(message.contains('6') && message.contains('7'));
    refused(C::ExecutorNoLease, |b| b.envelope.fencing_token = 0);
    refused(C::ExecutorNoLease, |b| b.lease.live = false);
    refused(C::ExecutorNoLease, |b| {
        b.envelope.controller_id = "/other".into()
    });
    // Newer than the newest: the lease topic lags behind, or somebody made it up.
    for token in [8, u64::MAX] {
        let message = refused(C::ExecutorNoLease, |b| b.envelope.fencing_token = token);
        assert!(message.contains(&token.to_string()) && message.contains("control_lease"));
    }
    // Without the requirement nobody needs a lease, but an old token is still old.
    let mut bench = Bench::new();
    bench.require_lease = false;
    bench.lease.live = false;
    bench.envelope.fencing_token = 0;
    assert!(matches!(bench.admit(), Admission::Admit(_)));
    refused(C::OldToken, |b| {
        b.require_lease = false;
        b.envelope.fencing_token = 6;
    });
}

#[test]
fn how_old_it_is() {
    use ErrorCode as C;
    refused(C::NoBeacon, |b| b.envelope.beacon = None);
    refused(C::NoBeacon, |b| {
        b.envelope.beacon.as_mut().unwrap().executor = "/navigation_skills_node".into();
    });
    refused(C::ExpiredCommand, |b| {
        b.envelope.beacon.as_mut().unwrap().boot_id = "earlier".into();
    });
    refused(C::NoBeacon, |b| {
        b.envelope.beacon.as_mut().unwrap().tick = Duration::from_secs(11);
    });
    // At 12 s the 2 s are over, a millisecond before they are not.
    let message = refused(C::ExpiredCommand, |b| b.tick = Duration::from_secs(12));
    assert!(message.contains("2.000"), "{message}");
    let mut bench = Bench::new();
    bench.tick = Duration::from_millis(11_999);
    assert!(matches!(bench.admit(), Admission::Admit(_)));
    refused(C::ExpiredCommand, |b| {
        b.envelope.start_within = Duration::ZERO
    });
    // A budget that grew on the way.
    refused(C::InvalidCommand, |b| {
        b.envelope.start_within = Duration::from_secs(3)
    });
}

#[test]
fn what_the_robot_is_doing() {
    let message = refused(ErrorCode::ResourceBusy, |b| {
        b.held.insert("base".into(), "c0".into());
    });
    assert!(message.contains("base") && message.contains("c0"));
    let message = refused(ErrorCode::StopLatched, |b| b.stop = Some("stop_4".into()));
    assert!(message.contains("stop_4") && message.contains("reset_stop"));
    let mut bench = Bench::new();
    bench.held.insert("head".into(), "c0".into());
    assert!(matches!(bench.admit(), Admission::Admit(_)));
}

#[test]
fn what_the_world_is_like() {
    let message = refused(ErrorCode::StalePrecondition, |b| {
        b.scene = Some(SceneCheck::Fails {
            index: 0,
            reason: "cup_1 has moved 0.4 m".into(),
        });
    });
    assert!(message.contains("0.4 m"));
    refused(ErrorCode::StalePrecondition, |b| {
        b.scene = Some(SceneCheck::Unavailable {
            reason: "no answer".into(),
        });
    });
}

proptest! {
    /// Sound: whatever ticks, tokens and budgets, what is admitted is younger than both budgets, under
    /// the token that was told last.
    #[test]
    fn nothing_late_or_fenced_is_admitted(now in 0u64..20_000, made in 0u64..20_000, left in 0u64..5_000,
                                          whole in 0u64..5_000, token in 0u64..12) {
        let mut bench = Bench::new();
        bench.tick = Duration::from_millis(now);
        bench.envelope.beacon.as_mut().unwrap().tick = Duration::from_millis(made);
        bench.envelope.start_within = Duration::from_millis(left);
        bench.command.start_within = Duration::from_millis(whole);
        bench.envelope.fencing_token = token;
        let admitted = matches!(bench.admit(), Admission::Admit(_));
        let fits = made <= now && now - made < left && left <= whole && token == 7;
        prop_assert_eq!(admitted, fits);
    }

    /// Resources, shared regions among them, are claimed all or none and never waited for: none is held twice,
    /// who is refused holds nothing, and when the holders are done everybody can have what it needs.
    #[test]
    fn no_resource_is_held_twice_and_nobody_waits_in_a_circle(
        claims in prop::collection::vec(prop::sample::subsequence(RESOURCES.to_vec(), 0..=RESOURCES.len()), 1..6),
        happenings in prop::collection::vec((0usize..6, any::<bool>()), 0..40),
    ) {
        let mut bench = Bench::new();
        bench.skills = claims
            .iter()
            .enumerate()
            .map(|(i, resources)| {
                let mut descriptor = descriptor();
                descriptor.name = format!("skill{i}");
                descriptor.resources = resources.iter().map(ToString::to_string).collect();
                (descriptor.name.clone(), KnownSkill::new(descriptor).unwrap())
            })
            .collect();
        // Whether each command is admitted and not settled yet.
        let mut holding = vec![false; claims.len()];
        for (i, arrives) in happenings {
            let i = i % claims.len();
            if !arrives {
                holding[i] = false;
            } else if !holding[i] {
                bench.hold(&claims, &holding);
                match bench.ask(i) {
                    Admission::Admit(admitted) => {
                        prop_assert_eq!(&admitted.resources, &claims[i]);
                        prop_assert!(claims[i].iter().all(|r| !bench.held.contains_key(*r)));
                        holding[i] = true;
                    }
                    Admission::Refuse(refusal) => {
                        prop_assert_eq!(refusal.code, ErrorCode::ResourceBusy);
                        let holder = claims[i].iter().find_map(|r| bench.held.get(*r)).unwrap();
                        prop_assert!(refusal.message.contains(holder.as_str()));
                    }
                    Admission::Duplicate => prop_assert!(false, "nothing is known"),
                }
            }
        }
        bench.hold(&claims, &vec![false; claims.len()]);
        for i in 0..claims.len() {
            prop_assert!(matches!(bench.ask(i), Admission::Admit(_)));
        }
    }

    /// Total: no text makes it panic or passes as another robot's command.
    #[test]
    fn no_text_makes_it_panic(id in ".{0,80}", robot in ".{0,20}", skill in ".{0,20}", frame in ".{0,20}") {
        let mut bench = Bench::new();
        bench.command.command_id = id;
        bench.command.robot_id = robot.clone();
        bench.command.skill = skill;
        bench.command.targets[0].frame_id = frame;
        if matches!(bench.admit(), Admission::Admit(_)) {
            prop_assert_eq!(robot, "robot");
        }
    }
}

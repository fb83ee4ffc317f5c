//! Everything that happens in one run, drawn from its seed before it begins.

use std::time::Duration;

use eh_contract::geometry::Pose;
use eh_executor::Server;
use eh_harness::admission::TaskGoal;
use eh_sim::{FaultKind, FaultSpec, Occasion};
use eh_skills::sub_goal::ArmTarget;
use eh_skills::Goal;
use rand::{Rng, RngCore};

use crate::disk::{DiskTrouble, Episode};
use crate::failpoint::{self, own, CrashPlan, Moment, Place, Trigger};
use crate::hall::hall;
use crate::network::{Conditions, Cut};
use crate::process_id::ProcessId;
use crate::processes::client::Errand;
use crate::processes::operator::{HandGoal, HandTime, OperatorPlan, StopPlan};
use crate::processes::rival::{Mischief, RivalPlan};
use crate::random::{between, chance, one_of, stream, Purpose};
use crate::robot::action_server::{Outage, ServerManners};
use crate::server::fault_name;

/// Longest time of a task \[s\].
const TASK_BUDGET: i32 = 75;

/// What happens in one run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The seed.
    pub seed: u64,
    /// The home.
    pub yaml: String,
    /// The tasks.
    pub errands: Vec<Errand>,
    /// The network.
    pub conditions: Conditions,
    /// Where it is cut.
    pub cuts: Vec<Cut>,
    /// Which processes end when.
    pub crashes: Vec<CrashPlan>,
    /// Which disks can't be written when.
    pub disks: Vec<(ProcessId, Episode)>,
    /// What goes wrong with the robot.
    pub faults: Vec<FaultSpec>,
    /// How its servers behave, in the order of [`Server::ALL`].
    pub manners: Vec<ServerManners>,
    /// The person.
    pub operator: OperatorPlan,
    /// The other controller.
    pub rival: Option<RivalPlan>,
    /// From here on nothing new goes wrong.
    pub calm_from: Duration,
    /// Everything has to have ended by then.
    pub limit: Duration,
    /// How many of its last writes each journal of the executors, and the file of tokens, loses in a crash: a
    /// lie of the disk.
    pub forgets: usize,
    /// Verdicts are held against the truth.
    pub watch_verdicts: bool,
}

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

impl Scenario {
    /// A run in which nothing goes wrong.
    pub fn calm(seed: u64) -> Self {
        let rng = &mut stream(seed, Purpose::Scenario);
        let hall = hall(rng);
        let instruction = one_of(rng, &hall.instructions).unwrap_or_default();
        Scenario {
            seed,
            yaml: hall.yaml,
            errands: vec![errand("task-1", &instruction, s(2))],
            conditions: Conditions::GOOD,
            cuts: Vec::new(),
            crashes: Vec::new(),
            disks: Vec::new(),
            faults: Vec::new(),
            manners: vec![ServerManners::default(); Server::ALL.len()],
            operator: OperatorPlan {
                patience: s(2),
                ..OperatorPlan::default()
            },
            rival: None,
            calm_from: Duration::ZERO,
            limit: s(150),
            forgets: 0,
            watch_verdicts: false,
        }
    }

    /// A run in which about everything can go wrong.
    pub fn draw(seed: u64) -> Self {
        let mut scenario = Scenario::calm(seed);
        let rng = &mut stream(seed, Purpose::Scenario);
        let hall = hall(rng);
        scenario.yaml = hall.yaml;
        scenario.errands.clear();
        let tasks = if chance(rng, 0.3) { 2 } else { 1 };
        for n in 1..=tasks {
            let instruction = one_of(rng, &hall.instructions).unwrap_or_default();
            let mut errand = errand(&format!("task-{n}"), &instruction, between(rng, s(1), s(3)));
            if chance(rng, 0.2) {
                errand.cancel_after = Some(between(rng, ms(300), s(25)));
            }
            if chance(rng, 0.15) {
                errand.copies = 2;
            }
            scenario.errands.push(errand);
        }
        scenario.calm_from = s(50);
        scenario.limit = s(300);
        if chance(rng, 0.75) {
            scenario.conditions = conditions(rng);
        }
        if chance(rng, 0.3) {
            for _ in 0..rng.random_range(1..=2) {
                scenario.cuts.push(cut(rng));
            }
        }
        if chance(rng, 0.8) {
            for _ in 0..rng.random_range(1..=3) {
                scenario.crashes.push(crash(rng));
            }
        }
        if chance(rng, 0.12) {
            scenario.disks.push(episode(rng));
        }
        if chance(rng, 0.35) {
            for _ in 0..rng.random_range(1..=2) {
                scenario.faults.push(fault(rng));
            }
        }
        if chance(rng, 0.35) {
            for manners in &mut scenario.manners {
                *manners = draw_manners(rng);
            }
        }
        scenario.operator.patience = between(rng, s(1), s(6));
        if chance(rng, 0.12) {
            scenario.operator.stops.push(StopPlan {
                at: between(rng, s(3), s(40)),
                for_at_least: between(rng, s(1), s(5)),
            });
            // The stop is what has to outlive protection: let it end around one often.
            if chance(rng, 0.4) {
                scenario.crashes.push(crash_at_a_stop(rng));
            }
        }
        if chance(rng, 0.15) {
            scenario.operator.goals.push(hand_goal(rng));
        }
        if chance(rng, 0.12) {
            scenario.rival = Some(RivalPlan {
                at: between(rng, s(3), s(35)),
                hold: between(rng, s(1), s(8)),
                commands: chance(rng, 0.6),
                mischief: None,
            });
        }
        draw_trespasses(&mut scenario, rng);
        draw_obstinacy(&mut scenario, rng);
        scenario
    }
}

/// What others do that has to be refused: a controller that misbehaves, and a holder of the lease who has not heard
/// that it is one no more.
fn draw_trespasses(scenario: &mut Scenario, rng: &mut dyn RngCore) {
    let Some(rival) = &mut scenario.rival else {
        return;
    };
    if chance(rng, 0.5) {
        rival.commands = true;
        rival.mischief = one_of(rng, &Mischief::ALL);
    }
    if chance(rng, 0.5) {
        let from = rival.at.saturating_sub(ms(100));
        scenario.cuts.push(Cut {
            a: ProcessId::Harness,
            b: ProcessId::Protection,
            from,
            until: from + between(rng, s(2), s(6)),
            loses: chance(rng, 0.5),
        });
    }
}

/// What lasts: a disk that stays full until the task has to end without it, a server that fails every time.
fn draw_obstinacy(scenario: &mut Scenario, rng: &mut dyn RngCore) {
    if chance(rng, 0.05) {
        let (_, mut episode) = episode(rng);
        episode.until = episode.from + between(rng, s(5), s(12));
        scenario.disks.push((ProcessId::Harness, episode));
    }
    if chance(rng, 0.05) {
        let kinds = [FaultKind::NavAbort, FaultKind::ArmAbort];
        let kind = one_of(rng, &kinds).unwrap_or(FaultKind::NavAbort);
        for nth in 1..=6 {
            let mut spec = FaultSpec::new(kind);
            spec.nth = nth;
            scenario.faults.push(spec);
        }
    }
}

pub(crate) fn errand(task_id: &str, instruction: &str, at: Duration) -> Errand {
    Errand {
        at,
        goal: TaskGoal {
            task_id: task_id.into(),
            instruction: instruction.into(),
            time_budget: (TASK_BUDGET, 0),
            ..TaskGoal::default()
        },
        cancel_after: None,
        copies: 1,
    }
}

fn conditions(rng: &mut dyn RngCore) -> Conditions {
    let slow = chance(rng, 0.5);
    Conditions {
        stream_loss: rng.random_range(0.0..0.1),
        call_loss: rng.random_range(0.0..0.06),
        doubled: rng.random_range(0.0..0.1),
        delay: between(rng, ms(2), ms(100)),
        slow: if slow {
            rng.random_range(0.0..0.05)
        } else {
            0.0
        },
        slow_delay: between(rng, ms(200), s(2)),
        discovery: between(rng, ms(50), ms(1500)),
        ghost: between(rng, ms(0), s(2)),
    }
}

fn cut(rng: &mut dyn RngCore) -> Cut {
    use ProcessId::{Evaluator, Harness, Manipulation, Navigation, Protection, Robot, Scene};
    let links = [
        (Harness, Navigation),
        (Harness, Manipulation),
        (Harness, Scene),
        (Harness, Evaluator),
        (Harness, Protection),
        (Navigation, Robot),
        (Navigation, Robot),
        (Manipulation, Robot),
        (Manipulation, Robot),
        (Navigation, Protection),
        (Manipulation, Protection),
        (Evaluator, Manipulation),
        (Scene, Manipulation),
        (Protection, Robot),
    ];
    let (a, b) = one_of(rng, &links).unwrap_or((Harness, Navigation));
    let from = between(rng, s(2), s(40));
    Cut {
        a,
        b,
        from,
        until: from + between(rng, ms(300), s(8)),
        loses: chance(rng, 0.5),
    }
}

fn crash(rng: &mut dyn RngCore) -> CrashPlan {
    // The issuer and the executors most of all: there are the records that must not be lost.
    let processes = [
        ProcessId::Harness,
        ProcessId::Harness,
        ProcessId::Navigation,
        ProcessId::Navigation,
        ProcessId::Manipulation,
        ProcessId::Manipulation,
        ProcessId::Scene,
        ProcessId::Evaluator,
        ProcessId::Protection,
    ];
    let process = one_of(rng, &processes).unwrap_or(ProcessId::Harness);
    let names = failpoint::names(process);
    let name = one_of(rng, &names).unwrap_or_default();
    let moments: &[Moment] = if failpoint::is_write(name) {
        &[Moment::Before, Moment::Unsynced, Moment::After]
    } else {
        &[Moment::Before, Moment::After]
    };
    let moment = one_of(rng, moments).unwrap_or(Moment::Before);
    let trigger = match rng.random_range(0..10) {
        0..6 => Trigger::Place(
            Place {
                process,
                name,
                moment,
            },
            rng.random_range(1..=4),
        ),
        6..9 => Trigger::Any(process, rng.random_range(1..=400)),
        _ => Trigger::Time(process, between(rng, s(1), s(40))),
    };
    CrashPlan {
        trigger,
        down: between(rng, ms(100), s(6)),
        all: chance(rng, 0.08),
    }
}

/// Protection ends where it keeps a stop or a reset, answers about one, or tells of it.
fn crash_at_a_stop(rng: &mut dyn RngCore) -> CrashPlan {
    let places = [
        (own::STOP_KEEP, Moment::Before),
        (own::STOP_KEEP, Moment::Unsynced),
        (own::STOP_KEEP, Moment::After),
        (own::RESET_KEEP, Moment::Before),
        (own::RESET_KEEP, Moment::Unsynced),
        (own::RESET_KEEP, Moment::After),
        (own::STOP_ANSWER, Moment::Before),
        (own::STOP_ANSWER, Moment::After),
    ];
    let process = ProcessId::Protection;
    let (name, moment) = one_of(rng, &places).unwrap_or((own::STOP_KEEP, Moment::After));
    let place = Place {
        process,
        name,
        moment,
    };
    CrashPlan {
        trigger: Trigger::Place(place, 1),
        down: between(rng, ms(100), s(6)),
        all: chance(rng, 0.2),
    }
}

fn episode(rng: &mut dyn RngCore) -> (ProcessId, Episode) {
    let processes = [
        ProcessId::Harness,
        ProcessId::Navigation,
        ProcessId::Manipulation,
        ProcessId::Scene,
        ProcessId::Protection,
    ];
    let process = one_of(rng, &processes).unwrap_or(ProcessId::Harness);
    let from = between(rng, s(1), s(35));
    let trouble = if chance(rng, 0.5) {
        DiskTrouble::Full
    } else {
        DiskTrouble::ReadOnly
    };
    (
        process,
        Episode {
            from,
            until: from + between(rng, ms(500), s(8)),
            trouble,
        },
    )
}

fn fault(rng: &mut dyn RngCore) -> FaultSpec {
    let kinds = [
        FaultKind::GraspSlip,
        FaultKind::NavAbort,
        FaultKind::ArmAbort,
        FaultKind::LostAck,
        FaultKind::LostAck,
        FaultKind::LostResult,
        FaultKind::LostResult,
        FaultKind::ServerRestart,
        FaultKind::ServerRestart,
        FaultKind::ScanSilent,
        FaultKind::DetectionsSilent,
        FaultKind::NavStuck,
        FaultKind::GripperStuck,
        FaultKind::ObjectMoved,
    ];
    let kind = one_of(rng, &kinds).unwrap_or(FaultKind::NavAbort);
    let mut spec = FaultSpec::new(kind);
    let server = one_of(rng, Server::ALL).unwrap_or(Server::Navigation);
    match kind {
        FaultKind::LostAck | FaultKind::LostResult | FaultKind::ServerRestart => {
            spec.params.server = Some(fault_name(server).to_owned());
            spec.nth = rng.random_range(1..=3);
            if kind == FaultKind::ServerRestart {
                spec.params.after_s = Some(rng.random_range(0.0..2.0));
                spec.params.duration_s = Some(rng.random_range(0.2..3.0));
            }
        }
        FaultKind::ScanSilent
        | FaultKind::DetectionsSilent
        | FaultKind::NavStuck
        | FaultKind::GripperStuck => {
            spec.at = Some(rng.random_range(2.0..30.0));
            spec.params.duration_s = Some(rng.random_range(0.5..6.0));
        }
        FaultKind::ObjectMoved => {
            spec.on = Some(Occasion::NavGoal);
            spec.nth = rng.random_range(1..=2);
            spec.params.object = Some("cup_a".to_owned());
            spec.params.on = Some("east".to_owned());
            spec.params.position = Some([3.8, rng.random_range(1.4..2.2)]);
        }
        FaultKind::GraspSlip
        | FaultKind::NavAbort
        | FaultKind::ArmAbort
        | FaultKind::ScanFrozen
        | FaultKind::LocalizationJump
        | FaultKind::DoorClosed => {
            spec.nth = rng.random_range(1..=2);
        }
    }
    spec
}

fn draw_manners(rng: &mut dyn RngCore) -> ServerManners {
    let keeps = [ms(100), s(1), s(10), s(900)];
    let mut manners = ServerManners {
        keep: one_of(rng, &keeps).unwrap_or(s(900)),
        accepting: between(rng, ms(0), ms(600)),
        outages: Vec::new(),
        inactive: None,
        allow_stalling: chance(rng, 0.5),
    };
    if chance(rng, 0.15) {
        let from = between(rng, s(2), s(30));
        manners.inactive = Some((from, from + between(rng, ms(500), s(5))));
    }
    if chance(rng, 0.3) {
        let from = between(rng, s(2), s(30));
        manners.outages.push(Outage {
            from,
            until: from + between(rng, ms(200), s(5)),
            forgets: chance(rng, 0.4),
        });
    }
    manners
}

fn hand_goal(rng: &mut dyn RngCore) -> HandGoal {
    let server = one_of(rng, Server::ALL).unwrap_or(Server::Arm);
    let goal = match server {
        Server::Navigation => Goal::Navigate {
            frame_id: "map".into(),
            pose: Pose::planar(2.2, 1.0, 0.0),
        },
        Server::Arm => Goal::MoveArm {
            target: ArmTarget::Named("ready".into()),
            straight: false,
            speed: 0.5,
            allowed_contact: String::new(),
        },
        Server::Gripper => Goal::Gripper {
            width: 0.06,
            max_effort: 10.0,
        },
        Server::Head => Goal::Head {
            pan: 0.5,
            tilt: 0.2,
            duration: s(1),
        },
    };
    let when = if chance(rng, 0.5) {
        HandTime::At(between(rng, s(2), s(30)))
    } else {
        let nth = rng.random_range(1..=2);
        HandTime::AfterStart(nth, between(rng, ms(0), s(2)))
    };
    HandGoal {
        when,
        server,
        goal,
        for_at_most: between(rng, s(1), s(6)),
    }
}

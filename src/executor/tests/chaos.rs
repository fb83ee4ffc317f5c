//! Commands among faults, cancels, stops, crashes and a failing disk, all from a seed: whatever happens,
//! nothing is started twice and nothing is claimed that is not so.

mod bench;

use std::collections::BTreeMap;

use bench::{ms, precondition, Bench, Fate, SceneGraph};
use eh_contract::command::SkillCommand;
use eh_contract::state::{ControlEnd, ExecutorState};
use eh_executor::{Event, RecordKind, Server};
use eh_ledger::executor::goal_status;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const SEEDS: u64 = 100;

fn some(rng: &mut StdRng, longest: u64) -> std::time::Duration {
    ms(rng.random_range(0..longest))
}

fn fate(rng: &mut StdRng) -> Fate {
    let mut fate = Fate {
        runs: Some(some(rng, 3000)),
        ..Fate::default()
    };
    match rng.random_range(0..9) {
        0 => fate.not_sent = true,
        1 => fate.taken_after = Some(some(rng, 4000)),
        2 => fate.taken_after = None,
        3 => fate.accepted = false,
        4 => fate.acknowledged_after = None,
        5 => fate.acknowledged_after = Some(some(rng, 4000)),
        6 => fate.results_lost = rng.random_range(1..9),
        7 => fate.status = goal_status::ABORTED,
        _ => fate.obeys_after = Some(some(rng, 4000)),
    }
    fate.no_status = rng.random_bool(0.2);
    fate
}

/// What must hold at every moment.
fn check(b: &Bench) {
    assert!(b.robot.started.values().all(|n| *n == 1));
    let mut holders: BTreeMap<&str, u32> = BTreeMap::new();
    for record in b.executor.live_records().filter(|r| r.holds()) {
        for resource in &record.resources {
            *holders.entry(resource).or_default() += 1;
        }
    }
    assert!(holders.values().all(|n| *n == 1), "{holders:?}");
    for record in b.executor.live_records().filter(|r| r.is_answered()) {
        let open = record.open_goals().count();
        let succeeded = |status: i8| status == goal_status::SUCCEEDED;
        match record.control_end {
            ControlEnd::Completed => {
                assert!(record.sub_goals.iter().all(|g| succeeded(g.status)));
            }
            ControlEnd::Aborted | ControlEnd::Canceled | ControlEnd::Preempted => {
                assert_eq!(open, 0, "{record:?}");
            }
            ControlEnd::Lost | ControlEnd::None => {}
        }
    }
}

#[test]
fn whatever_happens_nothing_starts_twice_and_nothing_is_claimed() {
    let (mut starts, mut lost, mut completed) = (0, 0, 0);
    for seed in 0..SEEDS {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut b = Bench::navigation();
        let mut commands: Vec<SkillCommand> = Vec::new();
        for _ in 0..400 {
            match rng.random_range(0..200) {
                0..=3 => {
                    b.robot.fates.push_back(fate(&mut rng));
                    let mut command = b.drive();
                    if rng.random_bool(0.3) {
                        command.preconditions.push(precondition());
                    }
                    b.send(&command);
                    commands.push(command);
                }
                4..=5 if !commands.is_empty() => {
                    let again = commands[rng.random_range(0..commands.len())].clone();
                    b.send(&again);
                }
                6..=7 => b.cancel(rng.random_range(1..20)),
                8 => b.restart(),
                9 => b.robot.restart_servers(),
                10 => {
                    b.robot.there.clear();
                }
                11..=14 => {
                    b.robot.there.insert(Server::Navigation);
                }
                15 => b.robot.stop = Some("s1".into()),
                16..=19 => b.robot.stop = None,
                20 => {
                    let kind = RecordKind::ALL[rng.random_range(0..RecordKind::ALL.len())];
                    b.disk.fails_at = [kind].into();
                }
                21..=24 => b.disk.fails_at.clear(),
                25 => b.graph = SceneGraph::Silent,
                26 => b.graph = SceneGraph::Holds,
                27..=30 => {
                    let ended = |id: &str| {
                        let record = b.record(id);
                        record.state == ExecutorState::Ended
                            && record.control_end != ControlEnd::Lost
                    };
                    let of = |c: &SkillCommand| c.command_id.clone();
                    let known = |id: &String| b.disk.records.contains_key(id);
                    let ids = commands.iter().map(of).filter(known);
                    let free: Vec<String> = ids.filter(|id| ended(id)).collect();
                    for id in free {
                        b.settle(&id, 2);
                    }
                }
                _ => {}
            }
            b.step();
            check(&b);
        }
        // Calm: everything comes to an end.
        b.disk.fails_at.clear();
        b.robot.stop = None;
        b.robot.there.insert(Server::Navigation);
        b.handle(Event::Shutdown);
        b.until("the end", |b| b.executor.is_idle());
        check(&b);
        for command in &commands {
            let Some(record) = b.disk.records.get(&command.command_id) else {
                continue;
            };
            lost += u32::from(record.control_end == ControlEnd::Lost);
            completed += u32::from(record.control_end == ControlEnd::Completed);
        }
        starts += b.robot.starts();
    }
    // The faults leave something to be seen of each.
    assert!(
        starts > 60 && completed > 15 && lost > 15,
        "{starts} starts, {completed} completed, {lost} lost"
    );
}

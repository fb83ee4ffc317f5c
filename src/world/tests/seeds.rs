//! A sample of seeds: what `scripts/test --world-seeds N` does with thousands.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;

use eh_contract::state::TaskOutcome;
use eh_world::failpoint::{self, Place};
use eh_world::process_id::ProcessId;
use eh_world::{Report, Scenario, Shared, World};

fn run(scenario: Scenario, shared: &Shared) -> Report {
    World::new(scenario, shared, false).unwrap().run().unwrap()
}

/// Runs in parallel; the reports come in the order of the scenarios.
fn all(scenarios: Vec<Scenario>) -> Vec<Report> {
    let shared = Shared::new().unwrap();
    let next = AtomicU64::new(0);
    let reports = Mutex::new(BTreeMap::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                let Some(scenario) = scenarios.get(i as usize) else {
                    return;
                };
                let report = run(scenario.clone(), &shared);
                reports.lock().unwrap().insert(i, report);
            });
        }
    });
    reports.into_inner().unwrap().into_values().collect()
}

fn violations(reports: &[Report]) -> Vec<String> {
    reports
        .iter()
        .flat_map(|r| r.violations.iter().map(|v| format!("seed {}: {v}", r.seed)))
        .collect()
}

/// Names that a process has by its crate and can never come to, and why.
fn is_out_of_reach(place: &Place) -> bool {
    match place.process {
        // It has no skill that moves the arm: no planning scene, nothing in the fingers.
        ProcessId::Navigation => matches!(
            place.name,
            "executor.change_scene" | "executor.append.step" | "executor.note.held_grasp"
        ),
        // None of its skills drives the base.
        ProcessId::Manipulation => place.name == "executor.declare",
        _ => false,
    }
}

/// Names that are passed too seldom for a small sample; `scripts/test --world-seeds` says which are never.
fn is_rare(place: &Place) -> bool {
    matches!(
        place.name,
        "executor.append.goal_refused"
            | "executor.append.stop_unconfirmed"
            | "executor.append.lost"
            | "executor.append.rejected"
            | "harness.warn"
    )
}

#[test]
fn in_a_calm_world_every_task_succeeds() {
    let reports = all((1..=4).map(Scenario::calm).collect());
    for report in &reports {
        assert_eq!(
            report.tasks["task-1"],
            TaskOutcome::Succeeded,
            "{}",
            report.seed
        );
        assert!(report.starts > 0);
    }
    assert_eq!(violations(&reports), Vec::<String>::new());
}

#[test]
fn the_same_seed_gives_the_same_bits() {
    let shared = Shared::new().unwrap();
    let seed = 14;
    let once = run(Scenario::draw(seed), &shared);
    let world = World::new(Scenario::draw(seed), &shared, true).unwrap();
    let again = world.run().unwrap();
    assert_eq!(once.digest, again.digest, "{seed}");
    assert_eq!(once.passed, again.passed);
    assert!(once.trace.is_empty() && !again.trace.is_empty());
    let other = run(Scenario::draw(seed + 1), &shared);
    assert_ne!(once.digest, other.digest);
}

#[test]
fn nothing_goes_wrong_and_every_place_is_passed() {
    let reports = all((1..=24).map(Scenario::draw).collect());
    assert_eq!(violations(&reports), Vec::<String>::new());
    let passed: BTreeSet<Place> = reports
        .iter()
        .flat_map(|r| r.passed_places.keys().copied())
        .collect();
    let never: Vec<String> = failpoint::all()
        .iter()
        .filter(|p| !passed.contains(p) && !is_out_of_reach(p) && !is_rare(p))
        .map(ToString::to_string)
        .collect();
    assert_eq!(never, Vec::<String>::new());
    let wrongly_excused: Vec<&Place> = passed.iter().filter(|p| is_out_of_reach(p)).collect();
    assert!(wrongly_excused.is_empty(), "{wrongly_excused:?}");
    // Processes do end, and not at one place only.
    let struck: BTreeSet<Place> = reports
        .iter()
        .flat_map(|r| r.struck.keys().copied())
        .collect();
    assert!(struck.len() >= 10, "{}", struck.len());
}

#[test]
fn a_disk_that_lies_is_found_out() {
    let lies = |seed| {
        let mut scenario = Scenario::draw(seed);
        // Where protection ends after a grant, the token that it was told to be durable is gone.
        scenario.forgets = 2;
        scenario
    };
    let reports = all((1..=24).map(lies).collect());
    let found = reports
        .iter()
        .any(|r| r.violations.iter().any(|v| v.rule == "tokens grow"));
    assert!(found, "{:?}", violations(&reports));
}

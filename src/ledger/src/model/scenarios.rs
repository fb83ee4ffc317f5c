//! What is explored, how deep, and that it reaches what it is meant to.

use std::collections::BTreeMap;

use eh_contract::state::{CommandState, ExecutorState};

use super::explorer::explore;
use super::world::{Budget, Wanted, World};

fn wanted(resource: &str, goals: u8) -> Wanted {
    Wanted {
        resources: vec![resource.into()],
        goals,
        evaluated: true,
    }
}

/// States of a scenario that are looked at by `cargo test`: a second or so without optimisation.
const SMOKE: usize = 12_000;
/// And at most when a depth is given: what a few gigabytes hold.
const DEEP: usize = 3_000_000;

fn number(name: &str) -> Option<usize> {
    std::env::var(name).ok()?.parse().ok()
}

/// Explores, prints what was seen, and fails with the way to a broken invariant. Every state of `reached`
/// must have been seen somewhere.
fn check(
    name: &str,
    wanted: Vec<Wanted>,
    budget: Budget,
    depth: usize,
    reached: &[CommandState],
    reached_there: &[ExecutorState],
) {
    let depth = number("EMBODIED_HARNESS_MODEL_DEPTH").unwrap_or(depth);
    let deep = std::env::var_os("EMBODIED_HARNESS_MODEL_DEPTH").is_some();
    let most = number("EMBODIED_HARNESS_MODEL_STATES").unwrap_or(if deep { DEEP } else { SMOKE });
    let mut seen: BTreeMap<CommandState, usize> = BTreeMap::new();
    let mut seen_there: BTreeMap<ExecutorState, usize> = BTreeMap::new();
    let mut refused: BTreeMap<String, u64> = BTreeMap::new();
    let result = explore(World::new(wanted, budget), depth, most, |world| {
        for record in world.issuer_disk.iter().flatten() {
            *seen.entry(record.state).or_insert(0) += 1;
        }
        for record in world.executor_disk.iter().flatten() {
            *seen_there.entry(record.state).or_insert(0) += 1;
        }
        for (event, count) in world.witness.refused.iter() {
            let most = refused.entry(event.clone()).or_insert(0);
            *most = (*most).max(*count);
        }
    });
    println!(
        "{name}: {} states, {} steps, depth {}{}, {:.1} s, {} kinds of illegal events refused",
        result.states,
        result.steps,
        result.depth,
        if result.complete { " (everything)" } else { "" },
        result.time.as_secs_f64(),
        refused.len(),
    );
    if std::env::var_os("EMBODIED_HARNESS_MODEL_REFUSED").is_some() {
        for event in refused.keys() {
            println!("    {event}");
        }
    }
    if let Some(violation) = result.violation {
        panic!(
            "{name}: {}\nafter {} steps:\n  {}",
            violation.what,
            violation.trace.len(),
            violation.trace.join("\n  ")
        );
    }
    for state in reached {
        assert!(seen.contains_key(state), "{name}: {state:?} was never seen");
    }
    for state in reached_there {
        assert!(
            seen_there.contains_key(state),
            "{name}: {state:?} was never seen at the executor"
        );
    }
}

/// Small enough that all of it is looked at.
#[test]
fn nothing_goes_wrong() {
    check(
        "usual",
        vec![wanted("base", 2)],
        Budget::default(),
        60,
        &[CommandState::Succeeded, CommandState::Failed],
        &[ExecutorState::Settled],
    );
}

#[test]
fn a_message_comes_twice_and_out_of_order() {
    check(
        "repeats",
        vec![wanted("base", 1)],
        Budget {
            duplicates: 1,
            ..Budget::default()
        },
        60,
        &[CommandState::Evaluating],
        &[ExecutorState::Ended],
    );
}

#[test]
fn a_message_is_lost() {
    check(
        "losses",
        vec![wanted("base", 1)],
        Budget {
            losses: 1,
            waits: 2,
            ..Budget::default()
        },
        60,
        &[CommandState::Unknown],
        &[ExecutorState::Ended],
    );
}

#[test]
fn answers_come_late() {
    check(
        "late",
        vec![wanted("base", 1)],
        Budget {
            waits: 2,
            persons: 1,
            ..Budget::default()
        },
        60,
        &[CommandState::Unknown, CommandState::Running],
        &[ExecutorState::Started],
    );
}

#[test]
fn it_does_not_stop_in_time() {
    check(
        "no stop",
        vec![wanted("base", 1)],
        Budget {
            stops: 1,
            waits: 1,
            ..Budget::default()
        },
        60,
        &[CommandState::Running],
        &[ExecutorState::Canceling],
    );
}

#[test]
fn the_issuer_crashes() {
    check(
        "issuer crash",
        vec![wanted("base", 1)],
        Budget {
            issuer_crashes: 1,
            ..Budget::default()
        },
        60,
        &[CommandState::Evaluating],
        &[ExecutorState::Ended],
    );
}

#[test]
fn the_executor_crashes() {
    check(
        "executor crash",
        vec![wanted("base", 1)],
        Budget {
            executor_crashes: 1,
            ..Budget::default()
        },
        60,
        &[CommandState::Rejected],
        &[ExecutorState::Canceling],
    );
}

#[test]
fn it_is_canceled() {
    check(
        "cancel",
        vec![wanted("base", 1)],
        Budget {
            cancels: 1,
            waits: 1,
            ..Budget::default()
        },
        60,
        &[CommandState::Canceling, CommandState::Canceled],
        &[ExecutorState::Canceling, ExecutorState::Ended],
    );
}

#[test]
fn it_is_canceled_and_the_issuer_crashes() {
    check(
        "cancel, crash",
        vec![wanted("base", 1)],
        Budget {
            cancels: 1,
            issuer_crashes: 1,
            ..Budget::default()
        },
        60,
        &[CommandState::Canceled],
        &[ExecutorState::Canceling],
    );
}

#[test]
fn the_server_forgets() {
    check(
        "server",
        vec![wanted("base", 1)],
        Budget {
            server_restarts: 1,
            persons: 1,
            ..Budget::default()
        },
        60,
        &[CommandState::Unknown],
        &[ExecutorState::Ended],
    );
}

#[test]
fn others_displace_its_goals_and_a_stop_is_latched() {
    check(
        "displaced",
        vec![wanted("base", 2)],
        Budget {
            displacements: 1,
            stops: 1,
            ..Budget::default()
        },
        60,
        &[CommandState::Failed],
        &[ExecutorState::Canceling],
    );
}

#[test]
fn two_commands_want_one_resource() {
    check(
        "resource",
        vec![wanted("base", 1), wanted("base", 1)],
        Budget::default(),
        80,
        &[CommandState::Running],
        &[ExecutorState::Started],
    );
}

#[test]
fn those_who_use_the_ledger_make_mistakes() {
    check(
        "mistakes",
        vec![wanted("base", 2)],
        Budget {
            mistakes: 1,
            ..Budget::default()
        },
        60,
        &[CommandState::Running],
        &[ExecutorState::Started],
    );
}

#[test]
fn a_judge_is_wrong_and_somebody_else_takes_over() {
    check(
        "judge, lease",
        vec![wanted("base", 1)],
        Budget {
            stray_verdicts: 1,
            takeovers: 1,
            ..Budget::default()
        },
        60,
        &[CommandState::Rejected, CommandState::Evaluating],
        &[ExecutorState::Ended],
    );
}

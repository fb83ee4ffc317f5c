//! Runs seeds of the deterministic world and says what came of them.
//!
//! ```text
//! world_seeds [--seeds N] [--from SEED] [--jobs J] [--calm]      many runs; exit code 1 at a violation
//! world_seeds ... --first                                        no run after the first with a violation
//! world_seeds --replay SEED [--trace] [--calm]                   one run again
//! ```
//!
//! With `--forgets N` disks lie: a crash takes the last N writes that they had called durable. Then there are
//! violations, as there should be.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use eh_contract::state::TaskOutcome;
use eh_world::{Report, Scenario, Shared, World, WorldError};

struct Options {
    seeds: u64,
    from: u64,
    jobs: usize,
    replay: Option<u64>,
    trace: bool,
    calm: bool,
    first: bool,
    forgets: usize,
}

const USAGE: &str =
    "usage: world_seeds [--seeds N] [--from SEED] [--jobs J] [--calm] [--first] | --replay SEED [--trace]";

fn options() -> Result<Options, String> {
    let mut options = Options {
        seeds: 200,
        from: 1,
        jobs: std::thread::available_parallelism().map_or(1, usize::from),
        replay: None,
        trace: false,
        calm: false,
        first: false,
        forgets: 0,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || -> Result<u64, String> {
            let text = arguments.next().unwrap_or_default();
            text.parse()
                .map_err(|_| format!("{argument} is \"{text}\"; give a whole number. {USAGE}"))
        };
        match argument.as_str() {
            "--seeds" => options.seeds = number()?,
            "--from" => options.from = number()?,
            "--jobs" => options.jobs = usize::try_from(number()?.clamp(1, 256)).unwrap_or(1),
            "--forgets" => options.forgets = usize::try_from(number()?).unwrap_or(0),
            "--replay" => options.replay = Some(number()?),
            "--trace" => options.trace = true,
            "--calm" => options.calm = true,
            "--first" => options.first = true,
            other => return Err(format!("{other} is no option. {USAGE}")),
        }
    }
    Ok(options)
}

fn run(seed: u64, options: &Options, shared: &Shared, trace: bool) -> Result<Report, WorldError> {
    let mut scenario = if options.calm {
        Scenario::calm(seed)
    } else {
        Scenario::draw(seed)
    };
    scenario.forgets = options.forgets;
    World::new(scenario, shared, trace)?.run()
}

#[derive(Default)]
struct Sum {
    runs: u64,
    passed: Duration,
    crashes: u64,
    struck: BTreeMap<String, u64>,
    never: BTreeMap<String, u64>,
    lost_writes: u64,
    sent: u64,
    lost: u64,
    doubled: u64,
    overtaken: u64,
    starts: u64,
    by_hand: u64,
    pessimistic: u64,
    tasks: BTreeMap<&'static str, u64>,
    commands: BTreeMap<&'static str, u64>,
    rules: BTreeMap<&'static str, (u64, u64)>,
    bad: Vec<(u64, String)>,
}

impl Sum {
    fn add(&mut self, report: &Report) {
        self.runs += 1;
        self.passed += report.passed;
        self.crashes += report.crashes;
        for (place, count) in &report.struck {
            *self.struck.entry(place.to_string()).or_default() += count;
        }
        for (place, count) in &report.passed_places {
            *self.never.entry(place.to_string()).or_default() += count;
        }
        self.lost_writes += report.lost_writes;
        self.sent += report.network.sent;
        self.lost += report.network.lost;
        self.doubled += report.network.doubled;
        self.overtaken += report.network.overtaken;
        self.starts += report.starts;
        self.by_hand += report.settled_by_hand;
        self.pessimistic += report.pessimistic;
        for outcome in report.tasks.values() {
            let name = match outcome {
                TaskOutcome::Unspecified => "RUNNING",
                TaskOutcome::Succeeded => "SUCCEEDED",
                TaskOutcome::Failed => "FAILED",
                TaskOutcome::Canceled => "CANCELED",
                TaskOutcome::Rejected => "REJECTED",
                TaskOutcome::Unknown => "UNKNOWN",
            };
            *self.tasks.entry(name).or_default() += 1;
        }
        for (state, count) in &report.commands {
            *self.commands.entry(state).or_default() += count;
        }
        for violation in &report.violations {
            let entry = self.rules.entry(violation.rule).or_insert((0, report.seed));
            entry.0 += 1;
            entry.1 = entry.1.min(report.seed);
            self.bad.push((report.seed, violation.to_string()));
        }
    }
}

fn many(options: &Options, shared: &Shared) -> Result<bool, WorldError> {
    let next = AtomicU64::new(options.from);
    let end = AtomicU64::new(options.from + options.seeds);
    let sum = Mutex::new(Sum::default());
    let trouble = Mutex::new(None);
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= end.load(Ordering::Relaxed) {
                    return;
                }
                match run(seed, options, shared, false) {
                    Ok(report) => {
                        if options.first && !report.violations.is_empty() {
                            end.fetch_min(seed, Ordering::Relaxed);
                        }
                        // A thread that panicked has said so; the others go on.
                        let mut sum = sum.lock().unwrap_or_else(|e| e.into_inner());
                        sum.add(&report);
                    }
                    Err(error) => {
                        *trouble.lock().unwrap_or_else(|e| e.into_inner()) = Some((seed, error));
                    }
                }
            });
        }
    });
    let took = began.elapsed();
    if let Some((seed, error)) = trouble.into_inner().unwrap_or_else(|e| e.into_inner()) {
        println!("seed {seed}");
        return Err(error);
    }
    let mut sum = sum.into_inner().unwrap_or_else(|e| e.into_inner());
    sum.bad.sort();
    if let (true, Some((first, _))) = (options.first, sum.bad.first()) {
        // Another thread may have been further already.
        let first = *first;
        sum.bad.retain(|(seed, _)| *seed == first);
    }
    tell(&sum, options, took);
    Ok(sum.bad.is_empty())
}

fn tell(sum: &Sum, options: &Options, took: Duration) {
    println!(
        "{} runs, {:.1} virtual hours in {:.1} s ({:.1} runs/s), seeds {} to {}",
        sum.runs,
        sum.passed.as_secs_f64() / 3600.0,
        took.as_secs_f64(),
        sum.runs as f64 / took.as_secs_f64().max(1e-9),
        options.from,
        options.from + sum.runs.max(1) - 1,
    );
    println!(
        "messages: {} sent, {} lost, {} doubled, {} overtaken",
        sum.sent, sum.lost, sum.doubled, sum.overtaken
    );
    println!(
        "processes ended {} times; {} unsynced writes were lost",
        sum.crashes, sum.lost_writes
    );
    let places = eh_world::failpoint::all();
    let struck = places
        .iter()
        .filter(|p| sum.struck.contains_key(&p.to_string()))
        .count();
    println!("  at {struck} of {} places:", places.len());
    for (place, count) in &sum.struck {
        println!("  {count:6}  {place}");
    }
    let never: Vec<String> = places
        .iter()
        .map(ToString::to_string)
        .filter(|p| !sum.never.contains_key(p))
        .collect();
    println!("places never passed: {}", never.len());
    for place in never {
        println!("          {place}");
    }
    println!("physical starts: {}", sum.starts);
    println!("tasks: {:?}", sum.tasks);
    println!(
        "commands: {:?}; {} times a person settled one; {} FAILED although the effect is there",
        sum.commands, sum.by_hand, sum.pessimistic
    );
    println!("violations: {}", sum.bad.len());
    for (rule, (count, first)) in &sum.rules {
        println!("  {count:6}  {rule} (first seed {first})");
    }
    for (seed, violation) in sum.bad.iter().take(20) {
        println!("seed {seed}: {violation}");
        println!("  again: scripts/test --replay {seed} --trace");
    }
}

fn replay(seed: u64, options: &Options, shared: &Shared) -> Result<bool, WorldError> {
    let report = run(seed, options, shared, options.trace)?;
    for line in &report.trace {
        println!("{line}");
    }
    println!(
        "seed {seed}: {:.1} s, tasks {:?}, commands {:?}, {} starts, digest {:016x}",
        report.passed.as_secs_f64(),
        report.tasks,
        report.commands,
        report.starts,
        report.digest
    );
    for violation in &report.violations {
        println!("{violation}");
    }
    Ok(report.violations.is_empty())
}

fn main() -> ExitCode {
    let done = options().and_then(|options| {
        let shared = Shared::new().map_err(|e| e.to_string())?;
        match options.replay {
            Some(seed) => replay(seed, &options, &shared),
            None => many(&options, &shared),
        }
        .map_err(|e| e.to_string())
    });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::from(2)
        }
    }
}

//! Tries the judge: runs of the deterministic world under given conditions, each verdict held against the truth.
//!
//! ```text
//! verdicts CONDITIONS.yaml [--runs N] [--from SEED] [--jobs J] [--errors N]
//! verdicts CONDITIONS.yaml --replay SEED          one run again, with its trace
//! verdicts CONDITIONS.yaml --scenario SEED        its world and tasks as JSON, for real nodes
//! ```
//!
//! `--runs` is the number of executions: seeds are taken in order until there are as many.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;
use std::time::Instant;

use eh_contract::verdict::Outcome;
use eh_world::interval::exact_interval;
use eh_world::trial::{trial, TrialConditions};
use eh_world::{Report, Shared, World, WorldError};
use serde_json::json;

const USAGE: &str =
    "usage: verdicts CONDITIONS.yaml [--runs N] [--from SEED] [--jobs J] [--errors N] | --replay SEED | --scenario SEED";

struct Options {
    conditions: TrialConditions,
    runs: u64,
    from: u64,
    jobs: usize,
    errors: usize,
    replay: Option<u64>,
    scenario: Option<u64>,
}

fn options() -> Result<Options, String> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or(USAGE)?;
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
    let mut options = Options {
        conditions: TrialConditions::from_yaml(&text).map_err(|e| format!("{path}: {e}"))?,
        runs: 3000,
        from: 1,
        jobs: std::thread::available_parallelism().map_or(1, usize::from),
        errors: 20,
        replay: None,
        scenario: None,
    };
    while let Some(argument) = arguments.next() {
        let text = arguments.next().unwrap_or_default();
        let number: u64 = text
            .parse()
            .map_err(|_| format!("{argument} is \"{text}\"; give a whole number. {USAGE}"))?;
        match argument.as_str() {
            "--runs" => options.runs = number.clamp(1, 1_000_000),
            "--from" => options.from = number,
            "--jobs" => options.jobs = usize::try_from(number.clamp(1, 256)).unwrap_or(1),
            "--errors" => options.errors = usize::try_from(number).unwrap_or(0),
            "--replay" => options.replay = Some(number),
            "--scenario" => options.scenario = Some(number),
            other => return Err(format!("{other} is no option. {USAGE}")),
        }
    }
    Ok(options)
}

fn run(seed: u64, o: &Options, shared: &Shared, trace: bool) -> Result<Report, WorldError> {
    World::new(trial(seed, &o.conditions), shared, trace)?.run()
}

/// How verdicts came out: by truth, SUCCESS, FAILURE, UNKNOWN.
#[derive(Clone, Copy, Default)]
struct Matrix {
    held: [u64; 3],
    failed: [u64; 3],
}

impl Matrix {
    fn add(&mut self, holds: bool, outcome: Outcome) {
        let row = if holds {
            &mut self.held
        } else {
            &mut self.failed
        };
        let column = match outcome {
            Outcome::Success => 0,
            Outcome::Failure | Outcome::Process => 1,
            Outcome::Unknown => 2,
        };
        if let Some(cell) = row.get_mut(column) {
            *cell += 1;
        }
    }

    fn sum(&mut self, other: &Matrix) {
        for (a, b) in [
            (&mut self.held, other.held),
            (&mut self.failed, other.failed),
        ] {
            for (a, b) in a.iter_mut().zip(b) {
                *a += b;
            }
        }
    }

    fn line(&self, name: &str) {
        let [hs, hf, hu] = self.held;
        let [fs, ff, fu] = self.failed;
        let (right, decided) = (hs + ff, hs + hf + fs + ff);
        let (failed, all) = (fs + ff + fu, decided + hu + fu);
        let share = |hits: u64, of: u64| {
            let (low, high) = exact_interval(hits, of);
            let value = hits as f64 / of.max(1) as f64;
            format!(
                "{:6.2} % [{:.2}, {:.2}]",
                value * 100.0,
                low * 100.0,
                high * 100.0
            )
        };
        println!("{name:14} holds  SUCCESS {hs:6}  FAILURE {hf:6}  UNKNOWN {hu:6}");
        println!(
            "{:14} failed SUCCESS {fs:6}  FAILURE {ff:6}  UNKNOWN {fu:6}",
            ""
        );
        println!(
            "{:14} accuracy {}  false success {}  unknown {}",
            "",
            share(right, decided),
            share(fs, failed),
            share(hu + fu, all)
        );
    }

    fn figures(&self) -> serde_json::Value {
        let [hs, hf, hu] = self.held;
        let [fs, ff, fu] = self.failed;
        let (right, decided, failed) = (hs + ff, hs + hf + fs + ff, fs + ff + fu);
        let of = |hits: u64, of: u64| {
            let (low, high) = exact_interval(hits, of);
            json!({"value": hits as f64 / of.max(1) as f64, "low": low, "high": high})
        };
        json!({"held": self.held, "failed": self.failed, "accuracy": of(right, decided),
               "false_success": of(fs, failed), "unknown": of(hu + fu, decided + hu + fu)})
    }
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(reason) => {
            eprintln!("{reason}");
            return ExitCode::from(2);
        }
    };
    if let Some(seed) = options.scenario {
        let scenario = trial(seed, &options.conditions);
        let tasks = scenario.errands.iter().map(|e| e.goal.instruction.as_str());
        println!(
            "{}",
            json!({"seed": seed, "world": scenario.yaml, "faults": scenario.faults, "tasks": tasks.collect::<Vec<_>>()})
        );
        return ExitCode::SUCCESS;
    }
    let shared = match Shared::new() {
        Ok(shared) => shared,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    if let Some(seed) = options.replay {
        return match run(seed, &options, &shared, true) {
            Ok(report) => {
                for line in &report.trace {
                    println!("{line}");
                }
                for v in &report.verdicts {
                    println!(
                        "{} {}: {:?}, in truth {}: {} [{}]",
                        v.skill,
                        v.run_id,
                        v.outcome,
                        v.holds,
                        v.reason,
                        v.evidence.join("; ")
                    );
                }
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("seed {seed}: {error}");
                ExitCode::FAILURE
            }
        };
    }
    let begin = Instant::now();
    let next = AtomicU64::new(options.from);
    let (counted, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let reports: Mutex<BTreeMap<u64, Report>> = Mutex::new(BTreeMap::new());
    let trouble: Mutex<Option<String>> = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    match run(seed, &options, &shared, false) {
                        Ok(mut report) => {
                            report.passed_places.clear();
                            let more = report.verdicts.iter().filter(|v| !v.changed).count() as u64;
                            let sum = counted.fetch_add(more, Ordering::Relaxed) + more;
                            if let Ok(mut reports) = reports.lock() {
                                reports.insert(seed, report);
                            }
                            if sum >= options.runs {
                                stop.store(true, Ordering::Relaxed);
                            }
                        }
                        Err(error) => {
                            if let Ok(mut trouble) = trouble.lock() {
                                *trouble = Some(format!("seed {seed}: {error}"));
                            }
                            stop.store(true, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    if let Some(trouble) = trouble.into_inner().unwrap_or(None) {
        eprintln!("{trouble}");
        return ExitCode::FAILURE;
    }
    tell(&options, &reports.into_inner().unwrap_or_default(), begin)
}

fn tell(options: &Options, reports: &BTreeMap<u64, Report>, begin: Instant) -> ExitCode {
    let mut skills: BTreeMap<&str, Matrix> = BTreeMap::new();
    let mut unknown: BTreeMap<String, u64> = BTreeMap::new();
    let (mut changed, mut unreferred, mut errors, mut runs) = (0_u64, 0_u64, Vec::new(), 0_u64);
    let mut seeds = 0_u64;
    // In the order of the seeds, so that the same number of executions is always the same executions.
    for (seed, report) in reports {
        if runs >= options.runs {
            break;
        }
        seeds += 1;
        unreferred += report.unreferred;
        for v in &report.verdicts {
            if v.changed {
                changed += 1;
                continue;
            }
            runs += 1;
            skills.entry(&v.skill).or_default().add(v.holds, v.outcome);
            let wrong = matches!(
                (v.holds, v.outcome),
                (true, Outcome::Failure) | (false, Outcome::Success)
            );
            if wrong {
                errors.push(format!(
                    "seed {seed} {} {}: {:?}, in truth {}: {}",
                    v.skill, v.run_id, v.outcome, v.holds, v.reason
                ));
            }
            if v.outcome == Outcome::Unknown {
                let digits = |c: char| c.is_ascii_digit() || c == '.';
                let kind: String = v.reason.replace(digits, "").chars().take(110).collect();
                *unknown.entry(format!("{} {kind}", v.skill)).or_default() += 1;
            }
        }
    }
    let mut all = Matrix::default();
    for (skill, matrix) in &skills {
        matrix.line(skill);
        all.sum(matrix);
    }
    all.line("all");
    println!(
        "{runs} executions of {seeds} seeds from {}, in truth {} of them failed; {changed} more changed between end and verdict; {unreferred} verdicts whose truth is not known here; {:.0} s",
        options.from,
        all.failed.iter().sum::<u64>(),
        begin.elapsed().as_secs_f64()
    );
    println!("false verdicts: {}", errors.len());
    for error in errors.iter().take(options.errors) {
        println!("  {error}");
    }
    let mut kinds: Vec<_> = unknown.iter().collect();
    kinds.sort_by(|a, b| b.1.cmp(a.1));
    println!("most frequent UNKNOWN:");
    for (kind, count) in kinds.iter().take(options.errors.min(10)) {
        println!("  {count:5} {kind}");
    }
    let by_skill: serde_json::Map<_, _> = skills
        .iter()
        .map(|(name, m)| ((*name).to_string(), m.figures()))
        .collect();
    println!(
        "{}",
        json!({"runs": runs, "seeds": seeds, "from": options.from, "changed": changed,
                          "all": all.figures(), "skills": by_skill})
    );
    ExitCode::SUCCESS
}

//! The command line.

use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};

/// Gives tasks to a robot, shows what happens, stops it, asks.
#[derive(Debug, Parser)]
#[command(
    name = "harness",
    version,
    after_help = "Exit status of `run`: 0 the task SUCCEEDED; 1 FAILED; 2 wrong command line; 3 REJECTED \
(nothing was started); 4 UNKNOWN (somebody has to look at the robot); 5 something that is needed is not \
running; 6 refused, or an error; 7 CANCELED, standstill was measured. The other commands use 0, 2, 4, 5 and 6 \
alike. Ctrl-C cancels the task and waits for the measured stop; a second Ctrl-C ends the program at once, and \
the stop goes on without it."
)]
pub struct Arguments {
    /// Namespace of the robot, for example /robot1.
    #[arg(long, global = true, default_value = "", value_name = "NS")]
    pub namespace: String,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Have an instruction carried out and show each step.
    Run {
        /// What to do, in English or Chinese: "bring the cup from the kitchen", "去厨房拿杯子".
        instruction: String,
        /// Longest time for the whole task in seconds; 0: the harness's default.
        #[arg(
            long,
            default_value = "0",
            value_name = "S",
            allow_negative_numbers = true,
            value_parser = seconds
        )]
        time_budget: Duration,
        /// Most steps; 0: the harness's default.
        #[arg(
            long,
            default_value = "0",
            value_name = "N",
            allow_negative_numbers = true,
            value_parser = steps
        )]
        max_steps: u32,
        /// Name of the task; a name that is known gives that task's result and runs nothing twice.
        #[arg(long, default_value = "", value_name = "ID")]
        task_id: String,
        /// Permission beyond the default ones; may be given several times.
        #[arg(long, value_name = "NAME")]
        permission: Vec<String>,
        /// Plan and check only; nothing moves.
        #[arg(long)]
        dry_run: bool,
        /// Wait this long for everything that is needed to be running, in seconds.
        #[arg(
            long,
            default_value = "30",
            value_name = "S",
            allow_negative_numbers = true,
            value_parser = seconds
        )]
        wait_for_ready: Duration,
        /// Show progress and every event.
        #[arg(short, long)]
        verbose: bool,
    },
    /// Show protection, lease, executors, the running task and what is not settled.
    Status,
    /// Stop all motion. Open to everybody; the stop stays until it is reset.
    Stop {
        /// Why, for the log.
        #[arg(
            long,
            default_value = "asked for on the command line",
            value_name = "TEXT"
        )]
        reason: String,
    },
    /// Take back a latched stop. Look at the robot first.
    Reset {
        /// Why it is safe.
        #[arg(long, default_value = "reset on the command line", value_name = "TEXT")]
        reason: String,
        /// Who says so; empty: the user's name.
        #[arg(long, default_value = "", value_name = "NAME")]
        operator: String,
        /// Reset although standstill is not confirmed, or although the disk does not take it.
        #[arg(long)]
        force: bool,
    },
    /// Show one command, or all that are not settled.
    Query {
        /// Id of the command; none: all that are not settled.
        #[arg(default_value = "")]
        command_id: String,
    },
    /// Show a task with its steps.
    Task {
        /// Id of the task; none: the running one, else the last.
        #[arg(default_value = "")]
        task_id: String,
    },
    /// Say what became of a command that is UNKNOWN, after looking at the robot.
    Settle {
        /// Id of the command.
        command_id: String,
        /// What became of it.
        became: Became,
        /// What you saw.
        #[arg(long, value_name = "TEXT")]
        reason: String,
        /// Who says so; empty: the user's name.
        #[arg(long, default_value = "", value_name = "NAME")]
        operator: String,
    },
    /// List the skills on offer.
    Skills,
    /// List what the scene graph knows.
    Scene {
        /// Only what matches this text.
        #[arg(default_value = "")]
        text: String,
    },
    /// Answer a question of the harness, or list the open ones.
    Answer {
        /// Id of the request; none: list them.
        #[arg(default_value = "")]
        request_id: String,
        /// The answer.
        #[arg(default_value = "")]
        answer: String,
        /// Who answers; empty: the user's name.
        #[arg(long, default_value = "", value_name = "NAME")]
        operator: String,
    },
    /// Make the simulated robot misbehave; real robots have no such service.
    Fault {
        /// Name of the fault, for example grasp_slip; a wrong one lists all.
        name: String,
        /// How often it strikes; 0: once.
        #[arg(long, default_value_t = 0, value_name = "N")]
        count: u32,
        /// Parameters as one JSON object.
        #[arg(long, default_value = "", value_name = "JSON")]
        params: String,
        /// Take the fault back instead.
        #[arg(long)]
        clear: bool,
    },
}

/// What became of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Became {
    /// The effect happened.
    Succeeded,
    /// The effect did not happen and nothing runs any more.
    Failed,
    /// It was stopped.
    Canceled,
}

/// Reads a time of zero or more seconds, as far as a message can hold it.
fn seconds(text: &str) -> Result<Duration, String> {
    const MOST: f64 = i32::MAX as f64;
    let refused = || format!("it has to be a number of seconds between 0 and {MOST}");
    let value: f64 = text.parse().map_err(|_| refused())?;
    if !(0.0..=MOST).contains(&value) {
        return Err(refused());
    }
    Duration::try_from_secs_f64(value).map_err(|_| refused())
}

/// Reads a number of steps.
fn steps(text: &str) -> Result<u32, String> {
    text.parse()
        .map_err(|_| "it has to be a whole number of steps, 0 or more".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_task_needs_its_instruction() {
        assert!(Arguments::try_parse_from(["harness", "run"]).is_err());
        let run = Arguments::try_parse_from([
            "harness",
            "run",
            "去厨房拿杯子",
            "--namespace",
            "/r1",
            "--max-steps",
            "5",
        ])
        .unwrap();
        assert_eq!(run.namespace, "/r1");
        assert!(matches!(run.command, Command::Run { max_steps: 5, .. }));
    }

    #[test]
    fn numbers_that_can_not_be_meant_are_refused_with_what_can() {
        let refused = |option: &str, value: &str| {
            let given = ["harness", "run", "go", option, value];
            Arguments::try_parse_from(given).unwrap_err().to_string()
        };
        for value in ["nan", "inf", "-1", "1e12", "soon", ""] {
            for option in ["--time-budget", "--wait-for-ready"] {
                let text = refused(option, value);
                assert!(text.contains("between 0 and 2147483647"), "{value}: {text}");
                assert!(text.contains(option), "{text}");
            }
        }
        for value in ["-1", "1.5", "many", "4294967296"] {
            let text = refused("--max-steps", value);
            assert!(text.contains("whole number of steps"), "{value}: {text}");
            assert!(text.contains(&format!("'{value}'")), "{text}");
        }
    }
}

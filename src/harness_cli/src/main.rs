//! The program `harness`.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let arguments = eh_harness_cli::Arguments::parse();
    ExitCode::from(eh_harness_cli::run(&arguments).code())
}

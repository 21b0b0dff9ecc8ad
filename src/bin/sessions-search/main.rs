//! The program: arguments in, one answer out. Uses the library's public API only.
//!
//! `args` is the command line as typed, `run` what it means, `output` how people and programs read the answer.
//! Clock, environment and current folder are read here and nowhere else.

mod args;
mod environment;
mod failure;
mod output;
mod run;

use std::process::ExitCode;

use clap::Parser as _;

use crate::failure::Failure;
use crate::output::Output;

fn main() -> ExitCode {
    let cli = match args::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let output = Output::new(&cli);
    match run::run(&cli, &output) {
        Ok(code) => code.into(),
        Err(Failure::ClosedPipe) => ExitCode::SUCCESS,
        Err(failure) => {
            output.failure(&failure);
            failure.code().into()
        }
    }
}

/// Help and version are answers; anything else is a usage error, as JSON where JSON was asked for.
fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    if std::env::args_os().any(|arg| arg == "--json") {
        let rendered = error.render().to_string();
        let first = rendered.lines().next().unwrap_or("usage error").trim_start_matches("error: ");
        output::print_json_error("error", first);
    } else {
        let _ = error.print();
    }
    failure::USAGE.into()
}

//! The program: arguments in, one answer out. Uses the library's public API only.
//!
//! `args` is the command line as typed, `run`, `search`, `append`, `import`, `export` and `upkeep` what it means, `output` how people and programs read the answer,
//! `wrapping` where its lines are broken, `progress` what is said meanwhile.
//! Clock, environment and current folder are read here and nowhere else.

mod append;
mod args;
mod caller;
mod environment;
mod export;
mod failure;
mod import;
mod interrupt;
mod mcp;
mod output;
mod pager;
mod progress;
mod run;
mod search;
mod shell;
mod upkeep;
mod wrapping;

use std::panic::AssertUnwindSafe;
use std::process::ExitCode;

use clap::Parser as _;
use clap::error::ErrorKind;

use crate::failure::Failure;
use crate::output::Output;

fn main() -> ExitCode {
    let cli = match args::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let output = Output::new(&cli);
    // A panic has been reported on standard error by the time it is caught here.
    let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| run::run(&cli, &output)));
    match outcome.unwrap_or(Err(Failure::Bug)) {
        Ok(code) => code.into(),
        Err(Failure::ClosedPipe) => ExitCode::SUCCESS,
        Err(failure) => {
            output.failure(&failure);
            failure.code().into()
        }
    }
}

/// Help and version are answers; anything else is a usage error in one line, as JSON where JSON was asked for.
fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let wants_json = std::env::args_os().take_while(|arg| arg != "--").any(|arg| arg == "--json");
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // Nothing was typed: what there is helps more than what is missing.
        let _ = error.print();
        return failure::USAGE.into();
    }
    let text = usage_line(&error.render().to_string());
    output::print_failure(wants_json, "error", &format!("{text}; `--help` says what can be given"));
    failure::USAGE.into()
}

/// What clap says in several lines, in one: without the usage that it repeats below.
fn usage_line(rendered: &str) -> String {
    let said = rendered.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let said: Vec<&str> = said.filter(|line| !line.is_empty() && !line.starts_with("For more information")).collect();
    said.join(" ").trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::usage_line;

    #[test]
    fn a_usage_error_is_one_line() {
        let rendered =
            "error: the following required arguments were not provided:\n  <WORDS>...\n\nUsage: x <WORDS>...\n";
        assert_eq!(usage_line(rendered), "the following required arguments were not provided: <WORDS>...");
    }
}

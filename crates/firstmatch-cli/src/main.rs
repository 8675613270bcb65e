//! The program `firstmatch`: rules in, matches out, on real captures.
#![deny(unsafe_code)]

mod args;
mod classify;
mod convert;
mod diagnostics;
mod engines;
mod explain;
mod format;
mod generate;
mod manual;
mod output;
mod rules;
mod stop;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};

/// End of a command that nothing prevented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The answer was given.
    Done,
    /// The answer was given, and it is bad.
    BadAnswer,
    /// The input is bad, and all its faults were shown.
    BadInput,
    /// A signal ended the input; the answer is for the packets before it.
    Stopped(stop::Signal),
}

fn main() -> ExitCode {
    let result = match Args::parse().command {
        Command::Classify(args) => classify::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Generate(args) => generate::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Completions(args) => manual::completions(&args).map(|()| End::Done),
        Command::Manual(args) => manual::run(&args).map(|()| End::Done),
        Command::Engines(args) => engines::run(&args, &mut anstream::stdout().lock()),
    };
    match result {
        Ok(End::Done) => ExitCode::SUCCESS,
        Ok(End::BadAnswer) => ExitCode::from(1),
        Ok(End::BadInput) => ExitCode::from(2),
        Ok(End::Stopped(signal)) => ExitCode::from(signal.exit_code()),
        // The reader of our output has seen enough of it.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            diagnostics::error(&format!("{error:#}"));
            ExitCode::from(2)
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe))
}

/// Returns the output for the answer: standard error if `stderr`, otherwise standard output.
fn answer_to(stderr: bool) -> Box<dyn Write> {
    if stderr { Box::new(anstream::stderr().lock()) } else { Box::new(anstream::stdout().lock()) }
}

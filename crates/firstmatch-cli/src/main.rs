//! The program `firstmatch`: rules in, matches out, on real captures.
#![deny(unsafe_code)]

mod args;
mod cases;
mod check;
mod classify;
mod convert;
mod count;
mod diagnostics;
mod diff;
mod engine_names;
mod engines;
mod explain;
mod format;
mod generate;
mod live;
mod manual;
mod output;
mod prove;
mod rules;
mod stop;
mod structure;
mod systems;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};

/// End of a command that no error prevented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The answer was given.
    Done,
    /// The answer was given, and it is bad.
    BadAnswer,
    /// The input is bad, and all its faults were shown.
    BadInput,
    /// An interface is gone.
    #[cfg(all(feature = "live", target_os = "linux"))]
    Gone,
    /// A thread has failed; the answer is for the packets before it.
    #[cfg(all(feature = "live", target_os = "linux"))]
    Failed,
    /// A signal ended the input; the answer is for the packets before it.
    Stopped(stop::Signal),
}

fn main() -> ExitCode {
    let result = match Args::parse().command {
        Command::Classify(mut args) => {
            args.take_engine_of_system();
            classify::run(&args)
        }
        Command::Watch(mut args) => {
            args.live.take_engine_of_system();
            live::watch(&args)
        }
        Command::Bridge(mut args) => {
            args.live.take_engine_of_system();
            live::bridge(&args)
        }
        Command::Check(args) => check::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Test(args) => cases::run(&args),
        Command::Prove(args) => prove::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Generate(args) => generate::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Completions(args) => manual::completions(&args).map(|()| End::Done),
        Command::Manual(args) => manual::run(&args).map(|()| End::Done),
        Command::Engines(args) => {
            let mut out = anstream::stdout().lock();
            match (&args.rules, &args.structure, &args.count) {
                (Some(rules), Some(engine), _) => structure::run(rules, engine, &args, &mut out),
                (Some(rules), None, Some(trace)) => count::run(rules, trace, &args, &mut out),
                _ => engines::run(&args, &mut out),
            }
        }
    };
    if let Err(error) = &result
        && !is_broken_pipe(error)
    {
        diagnostics::error(&format!("{error:#}"));
    }
    ExitCode::from(exit_code(&result))
}

/// Returns the exit code that the help states for the end of a command.
fn exit_code(result: &anyhow::Result<End>) -> u8 {
    match result {
        Ok(End::Done) => 0,
        Ok(End::BadAnswer) => 1,
        Ok(End::BadInput) => 2,
        #[cfg(all(feature = "live", target_os = "linux"))]
        Ok(End::Gone) => 69,
        #[cfg(all(feature = "live", target_os = "linux"))]
        Ok(End::Failed) => 70,
        Ok(End::Stopped(signal)) => signal.exit_code(),
        // The reader of the output has closed it.
        Err(error) if is_broken_pipe(error) => 0,
        Err(_) => 2,
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe))
}

/// Returns the output for the answer: standard error if `stderr` is true, otherwise standard output.
fn answer_to(stderr: bool) -> Box<dyn Write> {
    if stderr { Box::new(anstream::stderr().lock()) } else { Box::new(anstream::stdout().lock()) }
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    use super::*;

    /// Each end has the exit code that `--help` states, wherever a broken pipe is in a chain of errors.
    #[test]
    fn every_end_has_its_exit_code() {
        assert_eq!([End::Done, End::BadAnswer, End::BadInput].map(|end| exit_code(&Ok(end))), [0, 1, 2]);
        let pipe = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert_eq!([exit_code(&Err(anyhow!("no such file"))), exit_code(&Err(pipe().into()))], [2, 0]);
        assert_eq!(exit_code(&Err(pipe()).context("the answer")), 0);
        assert_eq!(exit_code(&Err(io::Error::from(io::ErrorKind::NotFound)).context("the rules")), 2);
    }
}

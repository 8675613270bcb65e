//! Commands `firstmatch completions` and `firstmatch manual`, generated from the command line.

use std::path::Path;

use anyhow::Context;
use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::args::{Args, CompletionsArgs, ManualArgs};
use crate::output;

/// Returns the command line, from which the pages are generated.
fn command() -> Command {
    let mut command = Args::command();
    command.build();
    command
}

/// Runs the command `firstmatch completions`.
pub(crate) fn completions(args: &CompletionsArgs) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "firstmatch", &mut script);
    output::write(Path::new("-"), &String::from_utf8(script)?)
}

/// Runs the command `firstmatch manual`.
pub(crate) fn run(args: &ManualArgs) -> anyhow::Result<()> {
    let command = command();
    let Some(folder) = &args.dir else { return output::write(Path::new("-"), &page(&command)?) };
    std::fs::create_dir_all(folder).with_context(|| format!("{}: cannot be made", folder.display()))?;
    for command in std::iter::once(&command).chain(subcommands(&command)) {
        let man = page(command)?;
        output::write(&folder.join(format!("{}.1", page_name(command))), &man)?;
    }
    Ok(())
}

/// Returns the commands below a command, each followed by the commands below it.
fn subcommands(command: &Command) -> Vec<&Command> {
    let below = command.get_subcommands().filter(|sub| sub.get_name() != "help");
    below.flat_map(|sub| std::iter::once(sub).chain(subcommands(sub))).collect()
}

/// Returns the name of a command's page, for example `firstmatch-classify`.
fn page_name(command: &Command) -> String {
    command.get_display_name().unwrap_or(command.get_name()).to_owned()
}

fn page(command: &Command) -> anyhow::Result<String> {
    let mut page = Vec::new();
    let version = concat!("firstmatch ", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).title(page_name(command)).section("1");
    man.source(version).manual("firstmatch").render(&mut page)?;
    Ok(String::from_utf8(page)?)
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;
    use clap_complete::Shell;

    use super::*;

    /// Returns the long options of a command.
    fn options(command: &Command) -> Vec<String> {
        command.get_arguments().filter_map(|arg| arg.get_long()).map(str::to_owned).collect()
    }

    #[test]
    fn every_page_names_every_option() {
        let command = command();
        let whole = page(&command).expect("a page");
        let mut pages = 0;
        for sub in subcommands(&command) {
            let page = page(sub).expect("a page");
            assert!(page.contains(&format!(".TH {}", page_name(sub))), "{page}");
            for option in options(sub) {
                let escaped = option.replace('-', "\\-");
                assert!(page.contains(&format!("\\-\\-{escaped}")), "{}: {option}\n{page}", sub.get_name());
            }
            for argument in sub.get_positionals() {
                let name = argument.get_id().as_str().to_uppercase();
                assert!(page.contains(&name), "{}: {name}\n{page}", sub.get_name());
            }
            pages += 1;
        }
        for sub in command.get_subcommands() {
            assert!(whole.contains(&format!("firstmatch\\-{}(1)", sub.get_name())), "{whole}");
        }
        // There are thirteen commands, and two below `generate`.
        assert_eq!(pages, 15);
    }

    #[test]
    fn every_shell_completes_every_command_and_option() {
        for &shell in Shell::value_variants() {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "firstmatch", &mut script);
            let script = String::from_utf8(script).expect("text");
            for sub in subcommands(&command()) {
                assert!(script.contains(sub.get_name()), "{shell}: {}", sub.get_name());
                for option in options(sub) {
                    assert!(script.contains(&option), "{shell}: {} {option}", sub.get_name());
                }
            }
        }
    }
}

//! `granary completions SHELL`: a script that completes the command line.

use clap::{Args, CommandFactory as _};
use clap_complete::{Shell, generate};

use super::{Cli, CliError, output};

/// Print a script that completes verbs and flags in a shell.
///
///     granary completions bash > ~/.local/share/bash-completion/completions/granary
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(args: &CompletionsArgs) -> Result<(), CliError> {
    let mut script = Vec::new();
    generate(args.shell, &mut Cli::command(), "granary", &mut script);
    output::data(String::from_utf8_lossy(&script).trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_completes_every_verb() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish, Shell::PowerShell] {
            let mut script = Vec::new();
            generate(shell, &mut Cli::command(), "granary", &mut script);
            let script = String::from_utf8(script).unwrap();
            for verb in Cli::command().get_subcommands().filter(|verb| !verb.is_hide_set()) {
                assert!(script.contains(verb.get_name()), "{shell} {}", verb.get_name());
            }
        }
    }
}

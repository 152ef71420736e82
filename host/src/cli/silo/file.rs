//! `--config FILE`: the settings of a silo as TOML. A key of the table `[silo]` is a flag without its dashes; flags and
//! variables win over the file.

use std::path::Path;

use clap::builder::ArgAction;
use clap::{ArgMatches, Args as _, Command, FromArgMatches as _};
use toml::de::{DeTable, DeValue};

use super::SiloArgs;
use crate::cli::CliError;
use crate::exit_code;

/// The longest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The file's only table.
const TABLE: &str = "silo";

/// Flags that are about one start, not about the silo.
const NOT_IN_FILE: [&str; 3] = ["config", "ready-file", "help"];

/// A name that differs in more letters is no slip of the pen.
const SLIP_LETTERS_MAX: usize = 3;

/// Reads the command line again, with the file's settings in place of the defaults.
pub(super) fn with_file(
    path: &Path,
    line: impl IntoIterator<Item = std::ffi::OsString>,
) -> Result<SiloArgs, CliError> {
    let refuse = |why: String| CliError::new(exit_code::CONFIG, format!("{}: {why}", path.display()));
    let text = read(path).map_err(|error| refuse(format!("cannot read the settings: {error}")))?;
    let command =
        with_defaults(SiloArgs::augment_args(Command::new("granary silo")), &text).map_err(refuse)?;
    let matches: ArgMatches =
        command.try_get_matches_from(line).map_err(|error| refuse(first_line(&error)))?;
    SiloArgs::from_arg_matches(&matches).map_err(|error| refuse(first_line(&error)))
}

fn read(path: &Path) -> std::io::Result<String> {
    let length = std::fs::metadata(path)?.len();
    if length > FILE_BYTES_MAX {
        return Err(std::io::Error::other(format!(
            "it has {length} bytes, at most {FILE_BYTES_MAX} are read"
        )));
    }
    std::fs::read_to_string(path)
}

/// The rest of a message of the argument parser explains its grammar, which a file does not have.
fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

fn with_defaults(mut command: Command, text: &str) -> Result<Command, String> {
    // What the parser shows of the file's text may hold a password.
    let file = DeTable::parse(text).map_err(|error| {
        let place = error.span().map_or(1, |span| line_of(text, span.start));
        format!("line {place}: {}", error.message())
    })?;
    for (name, value) in file.get_ref() {
        let place = line_of(text, name.span().start);
        if name.get_ref() != TABLE {
            return Err(format!(
                "line {place}: unknown key `{}`: settings stand in [{TABLE}]",
                name.get_ref()
            ));
        }
        let DeValue::Table(settings) = value.get_ref() else {
            return Err(format!("line {place}: `{TABLE}` is a table: begin it with [{TABLE}]"));
        };
        for (key, value) in settings {
            let (place, key) = (line_of(text, key.span().start), key.get_ref().as_ref());
            let value = match value.get_ref() {
                DeValue::String(text) => text.to_string(),
                DeValue::Integer(number) => number.to_string(),
                DeValue::Boolean(flag) => flag.to_string(),
                _ => {
                    return Err(format!(
                        "line {place}: the value of `{key}` is a text, a number, or true or false"
                    ));
                }
            };
            command = with_default(command, key, value).map_err(|why| format!("line {place}: {why}"))?;
        }
    }
    Ok(command)
}

fn with_default(command: Command, key: &str, value: String) -> Result<Command, String> {
    let names = |command: &Command| {
        let flags = command.get_arguments().filter_map(|arg| arg.get_long());
        flags.filter(|flag| !NOT_IN_FILE.contains(flag)).map(str::to_owned).collect::<Vec<_>>()
    };
    let known = names(&command);
    let argument = command.get_arguments().find(|arg| arg.get_long() == Some(key));
    let Some(argument) = argument.filter(|_| known.iter().any(|name| name == key)) else {
        let slip = known.iter().map(|name| (letters_apart(name, key), name)).min();
        let advice = slip.filter(|(letters, _)| *letters <= SLIP_LETTERS_MAX);
        let advice = advice.map(|(_, name)| format!(": is `{name}` meant?")).unwrap_or_default();
        return Err(format!("unknown key `{key}`{advice}"));
    };
    let is_switch = matches!(argument.get_action(), ArgAction::SetTrue);
    if is_switch && !matches!(value.as_str(), "true" | "false") {
        return Err(format!("`{key}` is true or false"));
    }
    let id = argument.get_id().clone();
    Ok(command.mut_arg(id, |argument| argument.default_value(value)))
}

/// Counted from 1.
fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

/// How many letters have to be put in, taken out or replaced to come from one name to the other.
fn letters_apart(one: &str, other: &str) -> usize {
    let mut before: Vec<usize> = (0..=other.chars().count()).collect();
    for (row, letter) in one.chars().enumerate() {
        let mut diagonal = row;
        let mut left = row + 1;
        let mut now = vec![left];
        for (above, with) in before.iter().skip(1).zip(other.chars()) {
            let replaced = diagonal + usize::from(letter != with);
            diagonal = *above;
            left = replaced.min(above + 1).min(left + 1);
            now.push(left);
        }
        before = now;
    }
    before.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, line: &[&str]) -> Result<SiloArgs, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let line = ["granary silo"].iter().chain(line).map(std::ffi::OsString::from);
        with_file(file.path(), line).map_err(|error| {
            assert_eq!(error.code, exit_code::CONFIG);
            let (path, why) = error.message.split_once(": ").unwrap();
            assert_eq!(Path::new(path), file.path());
            why.to_owned()
        })
    }

    #[test]
    fn the_file_stands_in_for_defaults_and_flags_win_over_it() {
        let text = "# the shop\n[silo]\nname = \"a\"\ncluster = \"shop\"\ninsecure = true\ndrain-deadline = \"3s\"\n\
                    store = \"postgres://u:secret@h/db\"\n";
        let args = read(text, &["--name", "b"]).unwrap();
        assert_eq!((args.name.as_deref(), args.cluster.as_str()), (Some("b"), "shop"));
        assert_eq!((args.insecure, args.drain_deadline.as_secs()), (true, 3));
        assert_eq!(args.store.as_deref(), Some("postgres://u:secret@h/db"));
        assert_eq!(args.data, Path::new(".granary"), "what the file leaves out has its default");
        assert!(!read("", &[]).unwrap().insecure);
    }

    #[test]
    fn what_the_file_has_wrong_is_named_with_its_line() {
        for (text, expected) in [
            ("[silo]\nclustre = \"a\"\n", "line 2: unknown key `clustre`: is `cluster` meant?"),
            ("[silo]\n\ncolour = \"blue\"\n", "line 3: unknown key `colour`"),
            ("[silo]\nready-file = \"a\"\n", "line 2: unknown key `ready-file`"),
            ("name = \"a\"\n", "line 1: unknown key `name`: settings stand in [silo]"),
            ("silo = 1\n", "line 1: `silo` is a table"),
            ("[silo]\nname = [1]\n", "line 2: the value of `name` is a text, a number, or true or false"),
            ("[silo]\ninsecure = \"yes\"\n", "line 2: `insecure` is true or false"),
            ("[silo]\nlisten = \"here\"\n", "invalid value 'here' for '--listen <ADDR>'"),
            ("[silo]\nstore = \"secret\n", "line 2: "),
        ] {
            let why = read(text, &[]).unwrap_err();
            assert!(why.starts_with(expected), "{text:?}: {why}");
            assert!(!why.contains('\n') && !why.contains("secret"), "{why}");
        }
        let gone = with_file(Path::new("/nowhere/silo.toml"), []).unwrap_err().message;
        assert!(gone.starts_with("/nowhere/silo.toml: cannot read the settings: "), "{gone}");
    }

    #[test]
    fn letters_apart_are_counted() {
        for (one, other, letters) in [("", "", 0), ("a", "", 1), ("abc", "abd", 1), ("kitten", "sitting", 3)]
        {
            assert_eq!((letters_apart(one, other), letters_apart(other, one)), (letters, letters));
        }
    }
}

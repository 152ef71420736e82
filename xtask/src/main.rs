//! Granary's own automation: `cargo xtask help` lists what there is.

mod bench;
mod checks;
mod demo;
mod guests;
mod process;
mod report;
mod setup;
mod tidy;
mod workspace;

use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};

const USAGE: &str = "\
Usage: cargo xtask COMMAND

  setup [--wasip2 auto|rustup|debian]   bring everything that building and testing needs
  guests [--only NAME]                  build the example and test grains into target/guests/
  tidy                                  check the repository's own rules
  demo                                  two silos, a migration and a crash, on this machine
  bench [--json] [--quick] [ROW...]     measure an optimised build beside what it is compared with
  test [--long] [FILTER...]             set up, then run every check and all tests
  fuzz [--seconds N]                    every decoder over fresh inputs, a minute in all by default
  ci                                    what continuous integration runs: test
  help                                  this text
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match parse(&args).and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report::line(format_args!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// One command with its options.
#[derive(Debug)]
enum Command {
    Setup(setup::Options),
    Guests { only: Option<String> },
    Tidy,
    Demo,
    Bench(Vec<String>),
    Test(checks::Options),
    Fuzz { seconds: u64 },
    Help,
}

fn parse(args: &[String]) -> Result<Command> {
    let (command, options) =
        args.split_first().with_context(|| format!("a command is missing\n\n{USAGE}"))?;
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    Ok(match (command.as_str(), options.as_slice()) {
        ("setup", []) => Command::Setup(setup::Options { test_runner: true, ..Default::default() }),
        ("setup", ["--wasip2", source]) => {
            Command::Setup(setup::Options { wasip2: source.parse()?, test_runner: true })
        }
        ("guests", []) => Command::Guests { only: None },
        ("guests", ["--only", name]) => Command::Guests { only: Some((*name).to_owned()) },
        ("tidy", []) => Command::Tidy,
        ("demo", []) => Command::Demo,
        ("bench", options) => Command::Bench(parse_bench(options)?),
        ("fuzz", []) => Command::Fuzz { seconds: 60 },
        ("fuzz", ["--seconds", seconds]) => Command::Fuzz {
            seconds: seconds.parse().with_context(|| format!("`{seconds}` is no number of seconds"))?,
        },
        ("ci", []) => Command::Test(checks::Options::default()),
        ("test", options) => Command::Test(parse_test(options)?),
        ("help" | "--help" | "-h", _) => Command::Help,
        (command, options) => {
            bail!("`{}` is not understood\n\n{USAGE}", [&[command], options].concat().join(" "))
        }
    })
}

/// The options are the benchmark program's; what it would not understand is found before anything is built.
fn parse_bench(options: &[&str]) -> Result<Vec<String>> {
    for option in options {
        if option.starts_with('-') && !["--json", "--quick"].contains(option) {
            bail!("`bench {option}` is not understood\n\n{USAGE}");
        }
    }
    Ok(options.iter().map(|option| (*option).to_owned()).collect())
}

fn parse_test(options: &[&str]) -> Result<checks::Options> {
    let mut parsed = checks::Options::default();
    for option in options {
        match *option {
            "--long" => parsed.long = true,
            other if other.starts_with('-') => bail!("`test {other}` is not understood\n\n{USAGE}"),
            filter => parsed.filters.push(filter.to_owned()),
        }
    }
    Ok(parsed)
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Setup(options) => setup::run(options),
        Command::Guests { only } => {
            setup::run(setup::Options::default())?;
            report::step("guests", || guests::build(only.as_deref()).map(drop))
        }
        Command::Tidy => report::step("tidy", tidy::run),
        Command::Demo => demo::run(),
        Command::Bench(options) => bench::run(&options),
        Command::Test(options) => checks::run(&options),
        Command::Fuzz { seconds } => checks::fuzz(seconds),
        Command::Help => {
            eprint!("{USAGE}");
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn commands_and_their_options_are_parsed() {
        assert!(
            matches!(parsed("guests --only counter").unwrap(), Command::Guests { only: Some(name) } if name == "counter")
        );
        assert!(matches!(parsed("setup --wasip2 debian").unwrap(), Command::Setup(options)
            if options.wasip2 == setup::Source::Debian && options.test_runner));
        assert!(matches!(parsed("test --long a b").unwrap(), Command::Test(options)
            if options.long && options.filters == ["a", "b"]));
        assert!(matches!(parsed("bench --quick local").unwrap(), Command::Bench(options)
            if options == ["--quick", "local"]));
        assert!(matches!(parsed("fuzz --seconds 5").unwrap(), Command::Fuzz { seconds: 5 }));
        assert!(
            matches!(parsed("ci").unwrap(), Command::Test(options) if !options.long && options.filters.is_empty())
        );
    }

    #[test]
    fn what_is_not_understood_is_named_and_the_usage_shown() {
        for line in [
            "",
            "tset",
            "guests --all",
            "test --log",
            "fuzz --seconds x",
            "setup --wasip2 apt",
            "bench --fast",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
        let error = parsed("tset x").unwrap_err().to_string();
        assert!(error.contains("`tset x`") && error.contains("Usage"), "{error}");
    }
}

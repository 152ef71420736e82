//! `granary doctor`: what this machine allows a silo, what a silo makes of it and why, and what to change.
//!
//! Nothing is started and nothing is left behind. Only findings with which a silo could not start, or could not
//! activate a grain, make the exit code non-zero.

mod checks;
mod chosen;
mod machine;
mod place;
mod tools;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use serde_json::json;

use super::{CliError, Output, OutputFormat, output};
use crate::exit_code;
use crate::silo::SiloConfig;
use machine::Machine;

/// Look at this machine as a silo would, and say what to change.
///
///     granary doctor
///     granary doctor --data /var/lib/granary --output json
///
/// Exits with 64 when a silo could not run here; warnings do not change the exit code.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct DoctorArgs {
    /// The data directory that a silo would use.
    #[arg(long, env = "GRANARY__SILO__DATA", default_value = ".granary", value_name = "DIR")]
    data: PathBuf,
    /// Where other silos would connect [default: the first free set of ports]
    #[arg(long, env = "GRANARY__SILO__LISTEN", value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Where programs would call grains.
    #[arg(long, env = "GRANARY__SILO__GATEWAY", value_name = "ADDR")]
    gateway: Option<SocketAddr>,
    /// Where operators would connect.
    #[arg(long = "admin", env = "GRANARY__SILO__ADMIN", value_name = "ADDR")]
    admin: Option<SocketAddr>,
    #[command(flatten)]
    output: Output,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    /// It works, and less well than it could.
    Warning,
    /// A silo would not start, or no grain would become active.
    Failure,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Finding {
    check: &'static str,
    verdict: Verdict,
    /// What was found.
    found: String,
    /// What to do; where all is well, what to watch.
    advice: String,
}

impl Finding {
    fn new(
        check: &'static str,
        verdict: Verdict,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { check, verdict, found: found.into(), advice: advice.into() }
    }
}

/// One thing that a silo decides by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Choice {
    what: &'static str,
    value: String,
    why: String,
}

pub(crate) fn run(args: &DoctorArgs) -> Result<(), CliError> {
    let machine = Machine::read();
    let mut findings = checks::all(&machine);
    findings.extend(place::all(&args.data));
    findings.push(ports(args));
    findings.extend(tools::all());
    let choices = chosen::all(&machine);
    show(&findings, &choices, args.output.output)?;
    let failed: Vec<&str> = failures(&findings).map(|finding| finding.check).collect();
    if failed.is_empty() {
        return Ok(());
    }
    Err(CliError::new(exit_code::CONFIG, format!("a silo could not run here: {}", failed.join(", "))))
}

fn failures(findings: &[Finding]) -> impl Iterator<Item = &Finding> {
    findings.iter().filter(|finding| finding.verdict == Verdict::Failure)
}

/// The ports, taken and given back as a silo would take them.
fn ports(args: &DoctorArgs) -> Finding {
    let config = SiloConfig {
        listen: args.listen,
        gateway: args.gateway,
        admin: args.admin,
        // Whether an address may be exposed is said at the start of the silo; here the question is whether it is free.
        insecure: true,
        ..SiloConfig::default()
    };
    match config.free_addresses() {
        Ok([listen, gateway, admin]) => Finding::new(
            "ports",
            Verdict::Ok,
            format!("free: listen {listen}, gateway {gateway}, admin {admin}"),
            "name others with --listen, --gateway and --admin",
        ),
        Err(error) => Finding::new(
            "ports",
            Verdict::Failure,
            error.to_string(),
            "stop what holds the port, or name another address; port 0 takes any free one",
        ),
    }
}

fn show(findings: &[Finding], choices: &[Choice], format: OutputFormat) -> Result<(), CliError> {
    if format == OutputFormat::Json {
        let ok = failures(findings).next().is_none();
        return output::data(&output::pretty(&json!({ "ok": ok, "findings": findings, "chosen": choices })));
    }
    output::data(&text(findings, choices))
}

/// For people: one line for each finding, advice below what is not well.
fn text(findings: &[Finding], choices: &[Choice]) -> String {
    let mut lines = vec!["this machine".to_owned()];
    for finding in findings {
        let mark = match finding.verdict {
            Verdict::Ok => "ok",
            Verdict::Warning => "warning",
            Verdict::Failure => "FAILURE",
        };
        lines.push(format!("  {mark:8} {:14} {}", finding.check, finding.found));
        if finding.verdict != Verdict::Ok {
            lines.push(format!("  {:8} {:14} -> {}", "", "", finding.advice));
        }
    }
    lines.push(String::new());
    lines.push("what a silo makes of it".to_owned());
    for choice in choices {
        lines.push(format!("  {:23} {}", choice.what, choice.value));
        lines.push(format!("  {:23} because {}", "", choice.why));
    }
    lines.join("\n")
}

/// A number of bytes for people.
fn bytes(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match UNITS.iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) => {
            let tenths = u128::from(bytes) * 10 / u128::from(*unit);
            format!("{}.{} {name}", tenths / 10, tenths % 10)
        }
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finding_on_this_machine_has_advice() {
        let folder = tempfile::tempdir().unwrap();
        let mut findings = checks::all(&Machine::read());
        findings.extend(place::all(folder.path()));
        assert!(findings.len() >= 10, "{findings:?}");
        for finding in &findings {
            assert!(!finding.advice.is_empty() && !finding.found.is_empty(), "{finding:?}");
        }
    }

    #[test]
    fn advice_is_printed_for_what_is_not_well_and_choices_have_reasons() {
        let findings = [
            Finding::new("cores", Verdict::Ok, "2", "nothing"),
            Finding::new("mappings", Verdict::Warning, "few", "raise them"),
        ];
        let choices = [Choice { what: "worker threads", value: "2".to_owned(), why: "two cores".to_owned() }];
        let text = text(&findings, &choices);
        assert!(text.contains("-> raise them") && !text.contains("-> nothing"), "{text}");
        assert!(text.contains("because two cores"), "{text}");
    }

    #[test]
    fn bytes_are_readable() {
        assert_eq!(bytes(1023), "1023 bytes");
        assert_eq!(bytes(1536 << 20), "1.5 GiB");
        assert_eq!(bytes(u64::MAX), "17179869183.9 GiB");
    }
}

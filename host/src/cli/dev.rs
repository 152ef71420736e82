//! `granary dev`: builds and deploys a grain project again whenever its sources change, to a silo on this machine,
//! which it starts when none runs there, and stops again when it ends.
//!
//! Building and deploying are the verbs of those names, run as processes, so that whatever goes wrong in them is
//! printed and ends nothing.

mod local;
mod sources;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::demo::Interrupt;
use super::grants::GrantArgs;
use super::{CliError, Target, output};
use crate::exit_code;
use local::LocalSilo;
use sources::Sources;

/// How often the sources are looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// How often a running build is looked at.
const CHILD_INTERVAL: Duration = Duration::from_millis(20);

/// Build, deploy and watch a grain project: the way to work on it.
///
///     granary new meter && cd meter
///     granary dev                     # and in another terminal: granary call meter/alice increment 5
///
/// Saves of a source file are built and deployed at once; live activations stay on the component that they started
/// with until they are deactivated. Errors are printed, and the next save tries again. Ctrl-C ends it, and the silo
/// that it started.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct DevArgs {
    /// The project's folder.
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// Build by this shell command, run in the project's folder, instead of `granary build`; needs --component.
    #[arg(long, value_name = "COMMAND", requires = "component")]
    build_command: Option<String>,
    /// The component that --build-command makes, from the project's folder.
    #[arg(long, value_name = "FILE", requires = "build_command")]
    component: Option<PathBuf>,
    /// The data directory of the silo that is started [default: .granary in the project's folder]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    #[command(flatten)]
    grants: GrantArgs,
    #[command(flatten)]
    target: Target,
}

pub(crate) fn run(args: &DevArgs) -> Result<(), CliError> {
    if !args.folder.is_dir() {
        return Err(CliError::data(format!("{} is no folder: name the project's", args.folder.display())));
    }
    let interrupt = Interrupt::listen()?;
    let mut session = Session {
        args,
        binary: std::env::current_exe()?,
        data: args.data.clone().unwrap_or_else(|| args.folder.join(".granary")),
        silo: None,
        interrupt,
    };
    session.ensure_silo()?;
    let mut sources = Sources::new(&args.folder, args.component.as_deref());
    while !session.interrupt.is_set() {
        if sources.changed() {
            session.round();
            output::note("watching; Ctrl-C ends");
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
    session.end()
}

struct Session<'a> {
    args: &'a DevArgs,
    binary: PathBuf,
    data: PathBuf,
    /// The silo that was started here.
    silo: Option<LocalSilo>,
    interrupt: Interrupt,
}

impl Session<'_> {
    /// Starts a silo unless one answers.
    fn ensure_silo(&mut self) -> Result<(), CliError> {
        if let Some(silo) = &mut self.silo {
            match silo.ended() {
                None => return Ok(()),
                Some(status) => {
                    output::note(&format!("the silo ended ({status}); its log is {}", silo.log().display()));
                    self.silo = None;
                }
            }
        }
        match local::answers(&self.args.target)? {
            true => Ok(()),
            false => {
                let silo = LocalSilo::start(&self.binary, &self.data, &self.args.target, &self.interrupt)?;
                output::data(&format!(
                    "silo {} started: gateway http://{}, admin {}, log {}",
                    silo.name,
                    silo.gateway,
                    silo.admin,
                    silo.log().display()
                ))?;
                self.silo = Some(silo);
                Ok(())
            }
        }
    }

    /// One build and deploy; errors are told, and end nothing.
    fn round(&mut self) {
        let done = self.build().and_then(|components| {
            if self.interrupt.is_set() {
                return Ok(());
            }
            self.ensure_silo()?;
            components.iter().try_for_each(|component| self.deploy(component))
        });
        if let Err(error) = done
            && !self.interrupt.is_set()
        {
            output::error(&error.message);
        }
    }

    fn build(&self) -> Result<Vec<PathBuf>, CliError> {
        output::note("building");
        if let (Some(command), Some(component)) = (&self.args.build_command, &self.args.component) {
            let mut shell = Command::new("sh");
            shell.args(["-c", command]).current_dir(&self.args.folder);
            self.wait(&mut shell, "the build command")?;
            return Ok(vec![self.args.folder.join(component)]);
        }
        let mut build = Command::new(&self.binary);
        build.arg("build").arg(&self.args.folder);
        let printed = self.wait(&mut build, "granary build")?;
        Ok(printed.lines().map(PathBuf::from).collect())
    }

    fn deploy(&self, component: &Path) -> Result<(), CliError> {
        let mut deploy = Command::new(&self.binary);
        deploy.arg("deploy").arg(component).args(["--output", "json", "--admin", &self.args.target.admin]);
        self.args.grants.pass_on(&mut deploy);
        if let Some(file) = &self.args.target.token_file {
            deploy.arg("--token-file").arg(file);
        }
        let printed = self.wait(&mut deploy, "granary deploy")?;
        let report: Value = serde_json::from_str(&printed)
            .map_err(|error| CliError::new(exit_code::INTERNAL, format!("granary deploy: {error}")))?;
        let text = |key: &str| report.get(key).and_then(Value::as_str).unwrap_or("?");
        let revision = report.get("revision").map(ToString::to_string).unwrap_or_default();
        let news = match report.get("changed").and_then(Value::as_bool) {
            Some(false) => "unchanged",
            _ => "active",
        };
        output::data(&format!("{}: {news} {} (revision {revision})", text("type"), text("digest")))
    }

    /// Runs a command to its end, or to ours; gives what it printed to standard output.
    fn wait(&self, command: &mut Command, what: &str) -> Result<String, CliError> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| CliError::data(format!("{what} cannot be run: {error}")))?;
        let reader = child.stdout.take().map(|mut out| {
            std::thread::spawn(move || {
                let mut text = String::new();
                // What cannot be read is missing below, and said there.
                let _ = std::io::Read::read_to_string(&mut out, &mut text);
                text
            })
        });
        let status = self.end_of(&mut child)?;
        let text = reader.and_then(|reader| reader.join().ok()).unwrap_or_default();
        if status.success() { Ok(text) } else { Err(CliError::data(format!("{what} failed ({status})"))) }
    }

    fn end_of(&self, child: &mut Child) -> Result<ExitStatus, CliError> {
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            if self.interrupt.is_set() {
                let _ = child.kill();
                return Ok(child.wait()?);
            }
            std::thread::sleep(CHILD_INTERVAL);
        }
    }

    fn end(self) -> Result<(), CliError> {
        match self.silo {
            Some(silo) => {
                output::note("stopping the silo");
                silo.stop()
            }
            None => Ok(()),
        }
    }
}

//! The command line: its grammar, and the step from a verb to its module.

mod build;
mod call;
mod client;
mod completions;
mod demo;
mod deploy;
mod describe;
mod dev;
mod doctor;
mod drain;
mod grants;
mod inspect;
mod list;
mod logs;
mod manifest;
mod migrate;
mod new;
mod openapi;
mod output;
mod silo;
mod tls;
mod top;
mod wit;

use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::exit_code;

/// Virtual actors as WebAssembly components.
///
/// Start a silo, deploy a component to it, and call its grains:
///
///     granary silo &
///     granary new meter && cd meter && granary build
///     granary deploy target/wasm32-wasip2/release/meter.wasm
///     granary call meter/alice increment 5
#[derive(Debug, Parser)]
#[command(name = "granary", version, about, max_term_width = 100, verbatim_doc_comment)]
pub struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run a silo: a host for grains.
    Silo(Box<silo::SiloArgs>),
    /// Make a new grain project.
    New(new::NewArgs),
    /// Build the grain project in this folder, and check the component.
    Build(build::BuildArgs),
    /// Build, deploy and watch a grain project: the way to work on it.
    Dev(dev::DevArgs),
    /// Show what a component is, without a silo.
    Inspect(inspect::InspectArgs),
    /// Deploy a component to a running cluster.
    Deploy(deploy::DeployArgs),
    /// Take a grain type out of the cluster.
    Undeploy(deploy::UndeployArgs),
    /// Let a grain type run again whose component silos died of.
    Release(deploy::ReleaseArgs),
    /// Call a method of a grain.
    Call(call::CallArgs),
    /// List silos, grain types, activations or deployments.
    List(list::ListArgs),
    /// Show one grain: where it is active, and how it does.
    Describe(describe::DescribeArgs),
    /// Move a live activation to another silo.
    Migrate(migrate::MigrateArgs),
    /// Empty a silo and stop it.
    Drain(drain::DrainArgs),
    /// Show what a grain logged.
    Logs(logs::LogsArgs),
    /// Show what silos and grain types do, live.
    Top(top::TopArgs),
    /// Print the HTTP API of the deployed grains as OpenAPI 3.1.
    Openapi(openapi::OpenapiArgs),
    /// Show the manifests of the cluster, or hash one.
    Manifest(manifest::ManifestArgs),
    /// Work with WIT contracts.
    Wit(wit::WitArgs),
    /// Look at this machine as a silo would, and say what to change.
    Doctor(doctor::DoctorArgs),
    /// Print a script that completes verbs and flags in a shell.
    Completions(completions::CompletionsArgs),
    /// Make certificates for silos.
    Tls(tls::TlsArgs),
    /// Show Granary at work: two silos, a migration, a crash.
    Demo(demo::DemoArgs),
    /// Compile a component in this process; what a silo runs as its bounded child.
    #[command(hide = true)]
    CompileComponent,
}

/// Which silo a client verb talks to.
#[derive(Debug, Clone, Args)]
pub(crate) struct Target {
    /// The admin URL of any silo of the cluster.
    #[arg(long, env = "GRANARY_URL", default_value = "http://127.0.0.1:11112", value_name = "URL")]
    pub(crate) admin: String,
    /// The file with the admin API's token; GRANARY_TOKEN holds the token itself.
    #[arg(long, env = "GRANARY_TOKEN_FILE", value_name = "FILE")]
    pub(crate) token_file: Option<std::path::PathBuf>,
    /// For an https:// URL: the certificates of the CAs to trust, in PEM form.
    #[arg(long, env = "GRANARY_CA_FILE", value_name = "FILE")]
    pub(crate) ca_file: Option<std::path::PathBuf>,
}

/// How a listing is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// For people.
    Table,
    /// For programs; stable.
    Json,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Output {
    /// How to print the result.
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) output: OutputFormat,
}

/// Why a verb failed, and the exit code that says so.
#[derive(Debug)]
pub(crate) struct CliError {
    pub(crate) code: u8,
    pub(crate) message: String,
}

impl CliError {
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// Wrong input: exit code 65.
    pub(crate) fn data(message: impl Into<String>) -> Self {
        Self::new(exit_code::DATA, message)
    }
}

impl From<anyhow::Error> for CliError {
    fn from(error: anyhow::Error) -> Self {
        Self::new(exit_code::FAILED, format!("{error:#}"))
    }
}

impl From<std::io::Error> for CliError {
    fn from(error: std::io::Error) -> Self {
        Self::new(exit_code::FAILED, error.to_string())
    }
}

impl Cli {
    /// Runs the verb; the value is the process's exit code, as [`exit_code`] lists them.
    #[must_use]
    pub fn run(self) -> ExitCode {
        let result = match self.verb {
            Verb::Silo(args) => silo::run(*args),
            Verb::New(args) => new::run(&args),
            Verb::Build(args) => build::run(&args),
            Verb::Dev(args) => dev::run(&args),
            Verb::Inspect(args) => inspect::run(&args),
            Verb::Deploy(args) => deploy::run(&args),
            Verb::Undeploy(args) => deploy::undeploy(&args),
            Verb::Release(args) => deploy::release(&args),
            Verb::Call(args) => call::run(&args),
            Verb::List(args) => list::run(&args),
            Verb::Describe(args) => describe::run(&args),
            Verb::Migrate(args) => migrate::run(&args),
            Verb::Drain(args) => drain::run(&args),
            Verb::Logs(args) => logs::run(&args),
            Verb::Top(args) => top::run(&args),
            Verb::Openapi(args) => openapi::run(&args),
            Verb::Manifest(args) => manifest::run(&args),
            Verb::Wit(args) => wit::run(&args),
            Verb::Doctor(args) => doctor::run(&args),
            Verb::Completions(args) => completions::run(&args),
            Verb::Tls(args) => tls::run(&args),
            Verb::Demo(args) => demo::run(&args),
            Verb::CompileComponent => return granary_wasm::artifact::child_main(),
        };
        match result {
            Ok(()) => ExitCode::from(exit_code::OK),
            Err(error) => {
                output::error(&error.message);
                ExitCode::from(error.code)
            }
        }
    }
}

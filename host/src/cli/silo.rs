//! `granary silo`: runs a silo until it is told to stop.

mod file;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use granary_store::{StoreUrl, StoreUrlError};
use granary_tls::{EdgeFiles, LinkFiles};
use rustix::process::{Resource, getrlimit, setrlimit};

use super::{CliError, output};
use crate::silo::{Silo, SiloConfig, StartError, StopReason};
use crate::{exit_code, telemetry};

/// Run a silo: a host for grains.
///
///     granary silo                     # one silo; a second one beside it joins by itself
///     granary silo --data /var/lib/granary --name silo-1
///
/// Silos with the same store and cluster id form a cluster; the store is the data directory unless --store names a
/// server. A password in its URL belongs into the variable GRANARY__SILO__STORE: everybody on this machine can read a
/// command line. SIGTERM or Ctrl-C drains the silo: its activations move to
/// others or are deactivated, and it exits with 0. A second signal stops it at once.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct SiloArgs {
    /// Settings in TOML: a key of the table [silo] is a flag without its dashes. Flags and variables win.
    #[arg(long, env = "GRANARY__CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// The silo's name, unique in the cluster [default: the first free of silo-1, silo-2, …]
    #[arg(long, env = "GRANARY__SILO__NAME")]
    name: Option<String>,
    /// The data directory; the cluster's, unless --store names another store.
    #[arg(long, env = "GRANARY__SILO__DATA", default_value = ".granary", value_name = "DIR")]
    data: PathBuf,
    /// Where the cluster's store is: sqlite:PATH, postgres://USER@HOST/DATABASE or nats://HOST [default: the data
    /// directory]
    // As text: the argument parser's own errors would show the password.
    #[arg(
        long,
        env = "GRANARY__SILO__STORE",
        value_name = "URL",
        hide_env_values = true,
        hide_default_value = true
    )]
    store: Option<String>,
    /// The CA of the store's server, in PEM form; the connection then is TLS.
    #[arg(long, env = "GRANARY__SILO__STORE_CA_FILE", value_name = "FILE")]
    store_ca_file: Option<PathBuf>,
    /// The cluster's id.
    #[arg(long, env = "GRANARY__SILO__CLUSTER", default_value = "default", value_name = "ID")]
    cluster: String,
    /// Where other silos connect [default: 127.0.0.1:11111, or the next free set of ports]
    #[arg(long, env = "GRANARY__SILO__LISTEN", value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Where programs call grains [default: 127.0.0.1:11110]
    #[arg(long, env = "GRANARY__SILO__GATEWAY", value_name = "ADDR")]
    gateway: Option<SocketAddr>,
    /// Where operators and the command line connect [default: 127.0.0.1:11112]
    #[arg(long, env = "GRANARY__SILO__ADMIN", value_name = "ADDR")]
    admin: Option<SocketAddr>,
    /// The token that the admin API asks for: 16 to 512 bytes in a file that only its owner can read.
    #[arg(long, env = "GRANARY__SILO__ADMIN_TOKEN_FILE", value_name = "FILE")]
    admin_token_file: Option<PathBuf>,
    /// This silo's certificate for links to other silos, in PEM form; `granary tls init` makes one.
    #[arg(long, env = "GRANARY__SILO__TLS_CERT", value_name = "FILE", requires_all = ["tls_key", "tls_ca"])]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key, in a file that only its owner can read.
    #[arg(long, env = "GRANARY__SILO__TLS_KEY", value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// The CA of the cluster: silos without a certificate of it are refused.
    #[arg(long, env = "GRANARY__SILO__TLS_CA", value_name = "FILE", requires = "tls_cert")]
    tls_ca: Option<PathBuf>,
    /// The certificate of the gateway and the admin port, which then speak HTTPS.
    #[arg(long, env = "GRANARY__SILO__HTTP_TLS_CERT", value_name = "FILE", requires = "http_tls_key")]
    http_tls_cert: Option<PathBuf>,
    /// That certificate's private key, in a file that only its owner can read.
    #[arg(long, env = "GRANARY__SILO__HTTP_TLS_KEY", value_name = "FILE", requires = "http_tls_cert")]
    http_tls_key: Option<PathBuf>,
    /// The CAs that grains trust when they send https requests, in PEM form; without it they send none.
    #[arg(long, env = "GRANARY__SILO__OUTGOING_CA_FILE", value_name = "FILE")]
    outgoing_ca_file: Option<PathBuf>,
    /// Listen beyond loopback without protection.
    #[arg(long)]
    insecure: bool,
    /// Write the addresses, as JSON, to this file once the silo is ready.
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
    /// How long a stop may take.
    #[arg(long, env = "GRANARY__SILO__DRAIN_DEADLINE", default_value = "25s", value_parser = humantime::parse_duration)]
    drain_deadline: Duration,
}

pub(crate) fn run(args: SiloArgs) -> Result<(), CliError> {
    let args = match &args.config {
        // Without the program's name: the verb takes its place.
        Some(path) => file::with_file(path, std::env::args_os().skip(1))?,
        None => args,
    };
    telemetry::init();
    raise_descriptor_limit();
    let link_tls = match (args.tls_cert, args.tls_key, args.tls_ca) {
        (Some(cert), Some(key), Some(ca)) => Some(LinkFiles { cert, key, ca }),
        (None, None, None) => None,
        // The argument parser asks for all of them, but not of what a file says.
        _ => return Err(incomplete("tls-cert, tls-key and tls-ca")),
    };
    let http_tls = match (args.http_tls_cert, args.http_tls_key) {
        (Some(cert), Some(key)) => Some(EdgeFiles { cert, key }),
        (None, None) => None,
        _ => return Err(incomplete("http-tls-cert and http-tls-key")),
    };
    let store = args.store.as_deref().map_or(Ok(StoreUrl::Sqlite(None)), str::parse);
    let store = store
        .map_err(|error: StoreUrlError| CliError::new(exit_code::CONFIG, format!("--store: {error}")))?;
    let config = SiloConfig {
        name: args.name,
        data: args.data,
        store,
        store_ca_file: args.store_ca_file,
        cluster: args.cluster,
        listen: args.listen,
        gateway: args.gateway,
        admin: args.admin,
        admin_token_file: args.admin_token_file,
        link_tls,
        http_tls,
        outgoing_ca_file: args.outgoing_ca_file,
        insecure: args.insecure,
        ready_file: args.ready_file,
        drain_deadline: args.drain_deadline,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .event_interval(granary_grains::EVENT_INTERVAL)
        .global_queue_interval(granary_grains::GLOBAL_QUEUE_INTERVAL)
        .thread_name("silo")
        .build()?;
    let stopped = runtime.block_on(serve(config));
    runtime.shutdown_timeout(Duration::from_millis(500));
    stopped
}

fn incomplete(settings: &str) -> CliError {
    CliError::new(exit_code::CONFIG, format!("{settings} go together: give all of them, or none"))
}

async fn serve(config: SiloConfig) -> Result<(), CliError> {
    let drain_deadline = config.drain_deadline;
    let scheme = if config.http_tls.is_some() { "https" } else { "http" };
    // As a whole path: a silo started in another folder is another cluster, and should be seen to be.
    let data = std::path::absolute(&config.data).unwrap_or_else(|_| config.data.clone());
    let store = match &config.store {
        StoreUrl::Sqlite(None) => String::new(),
        other => format!(", store {other}"),
    };
    let mut signals = Signals::new()?;
    let mut silo = tokio::select! {
        started = Silo::start(config) => started.map_err(start_error)?,
        () = signals.next() => return Ok(()),
    };
    let addresses = silo.addresses();
    let told = output::data(&format!(
        "silo {} is ready: listen {}, gateway {scheme}://{}, admin {scheme}://{}, data {}{store}",
        addresses.name,
        addresses.listen,
        addresses.gateway,
        addresses.admin,
        data.display()
    ));
    if let Err(error) = told {
        output::note(&error.message);
    }
    let reason = tokio::select! {
        () = signals.next() => StopReason::Asked,
        reason = silo.ended() => reason,
    };
    match reason {
        StopReason::Asked => {}
        StopReason::Fatal(text) => return Err(CliError::new(exit_code::TEMPORARY, text)),
    }
    output::note("draining; a second signal stops at once");
    tokio::select! {
        report = silo.stop(drain_deadline) => {
            output::note(&report);
            Ok(())
        }
        () = signals.next() => Err(CliError::new(exit_code::TERMINATED, "stopped at once by a second signal")),
    }
}

/// Takes all file descriptors that the system grants: each connection is one, and the usual soft limit is less
/// than an edge's bound on connections.
fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "cannot raise the limit of open files");
    }
}

fn start_error(error: StartError) -> CliError {
    let code = match &error {
        StartError::Config(_) => exit_code::CONFIG,
        StartError::Cluster(_) => exit_code::UNAVAILABLE,
        StartError::Internal(_) => exit_code::INTERNAL,
    };
    CliError::new(code, error.to_string())
}

struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

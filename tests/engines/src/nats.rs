//! A NATS server with JetStream.

use std::fs;
use std::io::Read as _;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::port::Port;
use crate::process::Server;
use crate::{PASSWORD, USER};

/// Which server is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NatsRelease {
    /// The system's package, which may be old: Debian 12 has 2.9.10.
    System,
    /// A newer one that the set-up keeps apart, with `sync_interval: always`.
    Newer,
}

/// NATS on a port of the loopback address, with JetStream in files and a password.
#[derive(Debug)]
pub struct Nats {
    // Before the folder: what runs in it ends first.
    server: Option<Server>,
    folder: TempDir,
    port: Port,
    program: PathBuf,
}

impl Nats {
    /// Starts a server.
    #[must_use]
    pub fn start(release: NatsRelease) -> Self {
        Self::start_with(release, "")
    }

    /// Starts a server with more lines in its configuration.
    #[must_use]
    pub fn start_with(release: NatsRelease, settings: &str) -> Self {
        let program = match release {
            NatsRelease::System => system(),
            NatsRelease::Newer => newer(),
        };
        let folder = tempfile::Builder::new().prefix("granary-nats-").tempdir().unwrap();
        let port = Port::take();
        let sync = if release == NatsRelease::Newer { "sync_interval: always" } else { "" };
        let text = format!(
            "listen: \"127.0.0.1:{}\"\n\
             jetstream {{\n  store_dir: \"{}\"\n  {sync}\n}}\n\
             authorization {{\n  user: \"{USER}\"\n  password: \"{PASSWORD}\"\n}}\n\
             {settings}\n",
            port.number,
            folder.path().join("jetstream").display(),
        );
        fs::write(folder.path().join("server.conf"), text).unwrap();
        let mut this = Self { server: None, folder, port, program };
        this.restart();
        this
    }

    /// The server's address, with user and password.
    #[must_use]
    pub fn url(&self) -> String {
        format!("nats://{USER}:{PASSWORD}@{}", self.address())
    }

    /// Host and port.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port.number)
    }

    /// Starts the server again, with the port and the data that it had; kills it before if it runs.
    pub fn restart(&mut self) {
        self.kill();
        let address = self.address();
        let server = Server::start(
            &self.program,
            |command| {
                command.arg("--config").arg(self.folder.path().join("server.conf"));
            },
            None,
            Signal::TERM,
            &self.folder.path().join("log"),
            // JetStream has recovered when the server greets.
            |_| greets(&address),
        );
        self.server = Some(server);
    }

    /// Ends the server in order.
    pub fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop();
        }
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        if let Some(server) = self.server.take() {
            server.kill();
        }
    }

    /// SIGSTOP.
    pub fn pause(&self) {
        self.running().pause();
    }

    /// Goes on after a pause.
    pub fn resume(&self) {
        self.running().resume();
    }

    fn running(&self) -> &Server {
        self.server.as_ref().expect("the server was stopped or killed")
    }
}

fn greets(address: &str) -> bool {
    let Ok(mut stream) = TcpStream::connect(address) else { return false };
    let mut greeting = [0; 5];
    stream.set_read_timeout(Some(Duration::from_secs(5))).is_ok()
        && stream.read_exact(&mut greeting).is_ok()
        && greeting == *b"INFO "
}

/// Debian's package puts the server where only administrators search.
fn system() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from))
        .map(|folder| folder.join("nats-server"))
        .find(|program| program.is_file())
        .expect("there is no NATS server: run `cargo xtask setup`")
}

/// The set-up's own copy lies in the target folder, where this test lies too.
fn newer() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors()
        .map(|folder| folder.join(Path::new("xtask/nats-server/usr/sbin/nats-server")))
        .find(|program| program.is_file())
        .expect("there is no newer NATS server in the target folder: run `cargo xtask setup`")
}

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
    /// Where the other servers of its cluster connect.
    _route: Option<Port>,
    program: PathBuf,
}

impl Nats {
    /// Starts a server.
    #[must_use]
    pub fn start(release: NatsRelease) -> Self {
        Self::start_with_files(release, None, "", &[])
    }

    /// Starts a server that speaks TLS alone, with a certificate and its key in PEM form.
    #[must_use]
    pub fn start_with_tls(release: NatsRelease, certificate: &str, key: &str) -> Self {
        let files = [("server.pem", certificate), ("server.key", key)];
        Self::start_with_files(
            release,
            None,
            "tls {\n  cert_file: \"server.pem\"\n  key_file: \"server.key\"\n}",
            &files,
        )
    }

    /// Starts a cluster of so many servers. JetStream elects its leader some time later.
    #[must_use]
    pub fn start_cluster(release: NatsRelease, servers: usize) -> Vec<Self> {
        let routes: Vec<Port> = (0..servers).map(|_| Port::take()).collect();
        let urls: Vec<String> =
            routes.iter().map(|route| format!("\"nats://127.0.0.1:{}\"", route.number)).collect();
        let urls = urls.join(", ");
        routes
            .into_iter()
            .map(|route| {
                let number = route.number;
                let settings = format!(
                    "server_name: \"n{number}\"\n\
                     cluster {{\n  name: \"tests\"\n  listen: \"127.0.0.1:{number}\"\n  routes: [{urls}]\n}}"
                );
                Self::start_with_files(release, Some(route), &settings, &[])
            })
            .collect()
    }

    fn start_with_files(
        release: NatsRelease,
        route: Option<Port>,
        settings: &str,
        files: &[(&str, &str)],
    ) -> Self {
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
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let mut this = Self { server: None, folder, port, _route: route, program };
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
                command.args(["--config", "server.conf"]).current_dir(self.folder.path());
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

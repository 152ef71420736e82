//! A PostgreSQL server.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::process::{Signal, getuid};
use tempfile::TempDir;

use crate::port::Port;
use crate::process::{Server, guarded, run};
use crate::{PASSWORD, USER};

/// PostgreSQL on a port of the loopback address, with an empty database `postgres` and a password.
#[derive(Debug)]
pub struct Postgres {
    // Before the folder: what runs in it ends first.
    server: Option<Server>,
    folder: TempDir,
    port: Port,
    programs: PathBuf,
    settings: Vec<String>,
}

impl Postgres {
    /// Starts a server with its own settings, which promise durability.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with settings: `fsync=off`.
    #[must_use]
    pub fn start_with(settings: &[&str]) -> Self {
        Self::start_with_files(settings, &[])
    }

    /// Starts a server that speaks TLS, with a certificate and its key in PEM form.
    #[must_use]
    pub fn start_with_tls(certificate: &str, key: &str) -> Self {
        let settings = ["ssl=on", "ssl_cert_file=../server.pem", "ssl_key_file=../server.key"];
        Self::start_with_files(&settings, &[("server.pem", certificate), ("server.key", key)])
    }

    fn start_with_files(settings: &[&str], files: &[(&str, &str)]) -> Self {
        let programs = programs();
        let folder = tempfile::Builder::new().prefix("granary-postgres-").tempdir().unwrap();
        let password = folder.path().join("password");
        fs::write(&password, PASSWORD).unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        }
        if let Some(user) = user() {
            let path = folder.path().display().to_string();
            run(std::process::Command::new("chown").args(["-R", user, &path]));
        }
        run(guarded(user())
            .arg(programs.join("initdb"))
            .args(["--username", USER, "--auth-local=reject", "--auth-host=scram-sha-256"])
            .args(["--no-sync", "--encoding=UTF8", "--locale=C"])
            .arg(format!("--pwfile={}", password.display()))
            .arg(folder.path().join("data"))
            .current_dir("/"));
        let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
        let mut this = Self { server: None, folder, port: Port::take(), programs, settings };
        this.restart();
        this
    }

    /// The database's address, with user and password.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://{USER}:{PASSWORD}@{}/postgres", self.address())
    }

    /// Host and port.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port.number)
    }

    /// Starts the server again, with the port and the data that it had; kills it before if it runs.
    pub fn restart(&mut self) {
        self.kill();
        let data = self.folder.path().join("data");
        let is_ready = |pid: u32| {
            let status = fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
            let mut lines = status.lines();
            lines.next() == Some(&pid.to_string()) && lines.nth(6).is_some_and(|it| it.trim() == "ready")
        };
        let server = Server::start(
            &self.programs.join("postgres"),
            |command| {
                command.arg("-D").arg(&data).current_dir("/");
                command.args(["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]);
                command.args(["-c", &format!("port={}", self.port.number)]);
                for setting in &self.settings {
                    command.args(["-c", setting]);
                }
            },
            user(),
            // A "fast" shutdown: open sessions are ended.
            Signal::INT,
            &self.folder.path().join("log"),
            is_ready,
        );
        self.server = Some(server);
    }

    /// Ends the server in order.
    pub fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop();
        }
    }

    /// SIGKILL to all its processes.
    pub fn kill(&mut self) {
        if let Some(server) = self.server.take() {
            server.kill();
        }
    }

    /// SIGSTOP to all its processes.
    pub fn pause(&self) {
        self.running().pause();
    }

    /// Goes on after a pause.
    pub fn resume(&self) {
        self.running().resume();
    }

    /// Runs SQL as the owner of the database, in a session of its own.
    pub fn execute(&self, sql: &str) {
        let mut command = std::process::Command::new("psql");
        command.args(["--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1", "--command", sql, &self.url()]);
        run(&mut command);
    }

    fn running(&self) -> &Server {
        self.server.as_ref().expect("the server was stopped or killed")
    }
}

/// The user that the server runs as: PostgreSQL refuses to run as root.
fn user() -> Option<&'static str> {
    let is_known = |name: &str| {
        let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
        users.lines().any(|line| line.split(':').next() == Some(name))
    };
    getuid().is_root().then(|| if is_known("postgres") { "postgres" } else { "nobody" })
}

/// The folder with the newest server's programs: Debian keeps each version apart, and none in the search path.
fn programs() -> PathBuf {
    let installed = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<(u32, PathBuf)> = installed
        .filter_map(|entry| {
            let version = entry.file_name().to_str()?.parse().ok()?;
            let programs = entry.path().join("bin");
            programs.join("postgres").is_file().then_some((version, programs))
        })
        .collect();
    versions.sort();
    let in_path = || {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).find(|folder| Path::new(folder).join("initdb").is_file())
    };
    versions
        .pop()
        .map(|(_, programs)| programs)
        .or_else(in_path)
        .expect("there is no PostgreSQL server: run `cargo xtask setup`")
}

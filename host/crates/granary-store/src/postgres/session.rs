//! Making connections, and refusing servers that cannot keep the promises.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::PostgresOptions;
use super::error::store_error;
use crate::{ClusterId, ServerUrl, StoreError};

/// The oldest server that is used: older ones get no fixes any more.
const SERVER_VERSION_MIN: i32 = 130_000;

/// An open connection; its task ends with it.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) client: Client,
    task: JoinHandle<()>,
    given_up: AtomicBool,
    retired: AtomicBool,
}

impl Session {
    /// Whether more can be sent.
    pub(super) fn is_usable(&self) -> bool {
        !self.is_given_up() && !self.retired.load(Ordering::Acquire) && !self.client.is_closed()
    }

    /// Whether it was ended on this side.
    pub(super) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
    }

    /// Ends the connection, and as unavailable all that waits for it.
    pub(super) fn give_up(&self) {
        self.given_up.store(true, Ordering::Release);
        self.task.abort();
    }

    /// Sends nothing more on it, since the server ends it. Its own task notices that a little later.
    pub(super) fn retire(&self) {
        self.retired.store(true, Ordering::Release);
    }

    fn new(client: Client, task: JoinHandle<()>) -> Self {
        Self { client, task, given_up: AtomicBool::new(false), retired: AtomicBool::new(false) }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Makes connections to one server for one cluster.
pub(super) struct Connector {
    config: Config,
    tls: Option<MakeRustlsConnect>,
    /// The cluster's schema, in quotes.
    pub(super) schema: String,
    /// The server's address without the password.
    pub(super) address: String,
    connect_timeout: Duration,
    statement_timeout: Duration,
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connector").field("address", &self.address).finish_non_exhaustive()
    }
}

/// What a server says about itself.
struct ServerSettings {
    version: i32,
    version_text: String,
    in_recovery: bool,
    read_only: bool,
    fsync: String,
    synchronous_commit: String,
    full_page_writes: String,
    standbys: String,
}

impl Connector {
    pub(super) fn new(
        url: &ServerUrl,
        cluster: &ClusterId,
        options: &PostgresOptions,
    ) -> Result<Self, StoreError> {
        let refuse = |why: &str| StoreError::Unusable(format!("{url}: {why}"));
        let mut config: Config = url.secret().parse().map_err(|err: tokio_postgres::Error| {
            match std::error::Error::source(&err) {
                Some(source) => refuse(&format!("the address cannot be used: {source}")),
                None => refuse("the address cannot be used"),
            }
        })?;
        let tls = match (&options.ca_file, config.get_ssl_mode()) {
            (Some(ca), SslMode::Disable) => {
                let why = format!("sslmode=disable, but a CA is given ({}): leave one out", ca.display());
                return Err(refuse(&why));
            }
            (Some(ca), _) => {
                let tls = granary_tls::outgoing(ca).map_err(|err| refuse(&err.to_string()))?;
                config.ssl_mode(SslMode::Require);
                Some(MakeRustlsConnect::new((*tls).clone()))
            }
            (None, SslMode::Disable | SslMode::Prefer) => {
                config.ssl_mode(SslMode::Disable);
                None
            }
            (None, _) => {
                return Err(refuse(
                    "sslmode=require needs a CA to check the server with (--store-ca-file FILE)",
                ));
            }
        };
        // A server that stands still must not keep a connection for ever.
        config
            .application_name("granary")
            .connect_timeout(options.connect_timeout)
            .tcp_user_timeout(options.timeout);
        Ok(Self {
            config,
            tls,
            schema: format!("\"granary_{cluster}\""),
            address: url.to_string(),
            connect_timeout: options.connect_timeout,
            statement_timeout: options.timeout,
        })
    }

    pub(super) fn error(&self, err: &tokio_postgres::Error) -> StoreError {
        store_error(&self.address, err)
    }

    pub(super) fn unavailable(&self, why: &str) -> StoreError {
        StoreError::Unavailable(format!("{}: {why}", self.address))
    }

    pub(super) fn no_answer(&self, timeout: Duration, name: &str) -> StoreError {
        self.unavailable(&format!("no answer within {timeout:?} ({name})"))
    }

    /// A connection to a server that was found fit.
    pub(super) async fn connect(&self) -> Result<Session, StoreError> {
        self.connect_and_check().await.map(|(session, _)| session).map_err(|err| match err {
            // The server was fit when the store was opened: another one may have taken its place, and may go again.
            Refusal::Unfit(why) => self.unavailable(&why),
            Refusal::Failed(err) => err,
        })
    }

    /// The same at the start, when an unfit server is an error that lasts; with what is to be warned of.
    pub(super) async fn connect_first(&self) -> Result<(Session, Vec<String>), StoreError> {
        self.connect_and_check().await.map_err(|err| match err {
            Refusal::Unfit(why) => StoreError::Unusable(format!("{}: {why}", self.address)),
            Refusal::Failed(err) => err,
        })
    }

    async fn connect_and_check(&self) -> Result<(Session, Vec<String>), Refusal> {
        let connected = tokio::time::timeout(self.connect_timeout, self.open_session()).await;
        let session =
            connected.unwrap_or_else(|_| Err(self.no_answer(self.connect_timeout, "connect timeout")))?;
        let settings = server_settings(&session.client).await.map_err(|err| self.error(&err))?;
        settings.refuse_unfit().map_err(Refusal::Unfit)?;
        let mut warnings = settings.warnings();
        if self.tls.is_none() && !self.is_local() {
            warnings
                .push("there is no TLS (--store-ca-file): who reads the network reads the state".to_owned());
        }
        Ok((session, warnings))
    }

    async fn open_session(&self) -> Result<Session, StoreError> {
        let session = if let Some(tls) = self.tls.clone() {
            let (client, connection) = self.config.connect(tls).await.map_err(|err| self.error(&err))?;
            Session::new(client, drive(connection))
        } else {
            let (client, connection) = self.config.connect(NoTls).await.map_err(|err| self.error(&err))?;
            Session::new(client, drive(connection))
        };
        // Whatever the role's defaults are.
        let settings = format!(
            "SET search_path TO {}; SET statement_timeout TO {}; \
             SET default_transaction_isolation TO 'read committed'",
            self.schema,
            self.statement_timeout.as_millis()
        );
        session.client.batch_execute(&settings).await.map_err(|err| self.error(&err))?;
        Ok(session)
    }

    fn is_local(&self) -> bool {
        use tokio_postgres::config::Host;
        self.config.get_hosts().iter().all(|host| match host {
            Host::Tcp(name) => {
                name == "localhost"
                    || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
            }
            Host::Unix(_) => true,
        })
    }
}

enum Refusal {
    /// The server's settings break a promise.
    Unfit(String),
    Failed(StoreError),
}

impl From<StoreError> for Refusal {
    fn from(err: StoreError) -> Self {
        Self::Failed(err)
    }
}

/// Runs a connection until it ends; how it ended is told by the operations that it was to serve.
fn drive<S, T>(connection: tokio_postgres::Connection<S, T>) -> JoinHandle<()>
where
    tokio_postgres::Connection<S, T>: Future<Output = Result<(), tokio_postgres::Error>> + Send + 'static,
{
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to the store ended");
        }
    })
}

async fn server_settings(client: &Client) -> Result<ServerSettings, tokio_postgres::Error> {
    let sql = "SELECT current_setting('server_version_num')::int4, current_setting('server_version'),
                      pg_is_in_recovery(), current_setting('transaction_read_only') = 'on',
                      current_setting('fsync'), current_setting('synchronous_commit'),
                      current_setting('full_page_writes'), current_setting('synchronous_standby_names')";
    let row = client.query_typed_one(sql, &[]).await?;
    Ok(ServerSettings {
        version: row.try_get(0)?,
        version_text: row.try_get(1)?,
        in_recovery: row.try_get(2)?,
        read_only: row.try_get(3)?,
        fsync: row.try_get(4)?,
        synchronous_commit: row.try_get(5)?,
        full_page_writes: row.try_get(6)?,
        standbys: row.try_get(7)?,
    })
}

impl ServerSettings {
    fn refuse_unfit(&self) -> Result<(), String> {
        if self.version < SERVER_VERSION_MIN {
            return Err(format!(
                "PostgreSQL {} is too old: version {} or newer is needed",
                self.version_text,
                SERVER_VERSION_MIN / 10_000
            ));
        }
        if self.in_recovery {
            return Err("the server is a replica or still recovers: name the primary".to_owned());
        }
        if self.read_only {
            return Err("transactions are read-only here (default_transaction_read_only)".to_owned());
        }
        if self.fsync == "off" {
            return Err(
                "fsync is off: acknowledged writes would be lost with the power, set fsync = on".to_owned()
            );
        }
        if self.synchronous_commit == "off" {
            return Err(
                "synchronous_commit is off: acknowledged writes would be lost with the server; set it to on, for all \
                 or by ALTER ROLE … SET synchronous_commit = on"
                    .to_owned(),
            );
        }
        Ok(())
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.full_page_writes == "off" {
            warnings.push("full_page_writes is off: a power failure may damage the store".to_owned());
        }
        if self.synchronous_commit == "local" && !self.standbys.is_empty() {
            warnings.push(
                "synchronous_commit is local: a failover to a standby may lose acknowledged writes"
                    .to_owned(),
            );
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit() -> ServerSettings {
        ServerSettings {
            version: 150_018,
            version_text: "15.18".to_owned(),
            in_recovery: false,
            read_only: false,
            fsync: "on".to_owned(),
            synchronous_commit: "on".to_owned(),
            full_page_writes: "on".to_owned(),
            standbys: String::new(),
        }
    }

    #[test]
    fn servers_that_break_a_promise_are_refused_with_the_setting() {
        assert_eq!(fit().refuse_unfit(), Ok(()));
        let cases = [
            (
                ServerSettings { version: 129_999, version_text: "12.22".to_owned(), ..fit() },
                "12.22 is too old",
            ),
            (ServerSettings { in_recovery: true, ..fit() }, "name the primary"),
            (ServerSettings { read_only: true, ..fit() }, "default_transaction_read_only"),
            (ServerSettings { fsync: "off".to_owned(), ..fit() }, "set fsync = on"),
            (ServerSettings { synchronous_commit: "off".to_owned(), ..fit() }, "synchronous_commit = on"),
        ];
        for (settings, expected) in cases {
            let why = settings.refuse_unfit().unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
    }

    #[test]
    fn what_weakens_a_promise_is_warned_of() {
        assert!(fit().warnings().is_empty());
        let weak = ServerSettings {
            full_page_writes: "off".to_owned(),
            synchronous_commit: "local".to_owned(),
            standbys: "*".to_owned(),
            ..fit()
        };
        assert_eq!(weak.warnings().len(), 2);
        let alone = ServerSettings { synchronous_commit: "local".to_owned(), ..fit() };
        assert!(alone.warnings().is_empty(), "without standbys there is nothing to wait for");
    }
}

//! The connection to the server, and JetStream's requests.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use async_nats::{
    Client, ConnectError, ConnectErrorKind, ConnectOptions, Event, HeaderMap, RequestError, RequestErrorKind,
    ServerAddr,
};
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::{OnceCell, Semaphore};

use super::NatsOptions;
use crate::{ServerUrl, StoreError};

/// How many commands may wait in the client for the socket; each holds its message.
const COMMANDS_MAX: usize = 256;

/// A connection on which two of these are not answered is given up.
const PING_INTERVAL: Duration = Duration::from_secs(2);

/// The longest wait before the next attempt to connect again.
const RECONNECT_DELAY_MAX: Duration = Duration::from_secs(1);

/// JetStream's code for a publication that expected another last message.
const WRONG_LAST_SEQUENCE: [u32; 2] = [10_071, 10_164];

/// JetStream's code for a message that is not there.
const MESSAGE_NOT_FOUND: u32 = 10_037;

/// JetStream's codes for what retrying does not mend: it is not enabled for the account, or the server has not got
/// what was asked of it.
const LASTING: [u32; 4] = [10_039, 10_052, 10_074, 10_076];

/// Makes connections to one server or cluster of servers.
#[derive(Debug)]
pub(super) struct Connector {
    servers: Vec<ServerAddr>,
    credentials: Option<(String, Option<String>)>,
    ca_file: Option<std::path::PathBuf>,
    require_tls: bool,
    connect_timeout: Duration,
    timeout: Duration,
    /// As `?replicas=` says.
    pub(super) replicas: Option<u64>,
    /// The address without the password.
    pub(super) address: String,
}

impl Connector {
    pub(super) fn new(url: &ServerUrl, options: &NatsOptions) -> Result<Self, StoreError> {
        let refuse = |why: &str| StoreError::Unusable(format!("{url}: {why}"));
        let servers = url
            .servers()
            .map(|server| format!("nats://{server}").parse())
            .collect::<Result<_, std::io::Error>>()
            .map_err(|err| refuse(&format!("the address cannot be used: {err}")))?;
        let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let mut replicas = None;
        for (name, value) in url.options() {
            match (name, value.parse()) {
                ("replicas", Ok(number @ 1..=5)) => replicas = Some(number),
                ("replicas", _) => return Err(refuse("replicas is a number from 1 to 5")),
                _ => return Err(refuse(&format!("unknown option `{name}`: there is only `replicas`"))),
            }
        }
        Ok(Self {
            servers,
            credentials: url.credentials().map(|(user, password)| (decode(user), password.map(decode))),
            ca_file: options.ca_file.clone(),
            require_tls: url.secret().starts_with("tls:") || options.ca_file.is_some(),
            connect_timeout: options.connect_timeout,
            timeout: options.timeout,
            replicas,
            address: url.to_string(),
        })
    }

    async fn connect(&self, name: &str) -> Result<Client, StoreError> {
        let address = self.address.clone();
        let mut options = ConnectOptions::new()
            .event_callback(move |event| {
                match event {
                    Event::Disconnected => tracing::warn!("{address}: the connection to the store ended"),
                    other => tracing::debug!("{address}: {other}"),
                }
                std::future::ready(())
            })
            .name(format!("granary {name}"))
            .connection_timeout(self.connect_timeout)
            .request_timeout(None)
            .client_capacity(COMMANDS_MAX)
            .ping_interval(PING_INTERVAL)
            .require_tls(self.require_tls)
            .reconnect_delay_callback(|attempts| {
                let attempts = u32::try_from(attempts).unwrap_or(u32::MAX);
                Duration::from_millis(50).saturating_mul(attempts).min(RECONNECT_DELAY_MAX)
            });
        options = match &self.credentials {
            Some((user, Some(password))) => options.user_and_password(user.clone(), password.clone()),
            Some((token, None)) => options.token(token.clone()),
            None => options,
        };
        if let Some(ca) = &self.ca_file {
            let tls = granary_tls::outgoing(ca)
                .map_err(|err| StoreError::Unusable(format!("{}: {err}", self.address)))?;
            options = options.tls_client_config((*tls).clone());
        }
        let connecting = options.connect(self.servers.clone());
        match tokio::time::timeout(self.connect_timeout, connecting).await {
            Ok(connected) => connected.map_err(|err| self.connect_error(&err)),
            Err(_) => Err(self.no_answer(self.connect_timeout, "connect timeout")),
        }
    }

    fn connect_error(&self, err: &ConnectError) -> StoreError {
        if let Some(why) = granary_tls::explain_refused_certificate(err) {
            return StoreError::Unusable(format!("{}: {why}", self.address));
        }
        let mut text = format!("{}: {}", self.address, err.kind());
        if let Some(source) = err.source().map(ToString::to_string)
            // The server's own words for it.
            && !source.ends_with(&err.kind().to_string())
        {
            text = format!("{text}: {source}");
        }
        match err.kind() {
            ConnectErrorKind::ServerParse
            | ConnectErrorKind::Authentication
            | ConnectErrorKind::AuthorizationViolation
            | ConnectErrorKind::Tls => StoreError::Unusable(text),
            _ => StoreError::Unavailable(text),
        }
    }

    pub(super) fn no_answer(&self, timeout: Duration, name: &str) -> StoreError {
        StoreError::Unavailable(format!("{}: no answer within {timeout:?} ({name})", self.address))
    }
}

/// A connection that is made when it is first needed, and the bound on what waits for it.
#[derive(Debug)]
pub(super) struct Link {
    connector: Arc<Connector>,
    name: String,
    client: OnceCell<Client>,
    room: Semaphore,
    queue_operations_max: usize,
}

/// A message of a stream.
#[derive(Debug)]
pub(super) struct Stored {
    /// Its number in the stream.
    pub(super) sequence: u64,
    pub(super) body: Vec<u8>,
}

/// What became of a conditional publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Published {
    /// It is the stream's message of this number.
    At(u64),
    /// The subject's last message was another one; nothing was stored.
    Conflict,
}

/// JetStream's answers: either `error`, or what was asked for.
#[derive(Debug, Deserialize)]
pub(super) struct Answer<T> {
    error: Option<ApiError>,
    #[serde(flatten)]
    value: Option<T>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ApiError {
    #[serde(default)]
    pub(super) err_code: u32,
    #[serde(default)]
    description: String,
}

#[derive(Debug, Deserialize)]
struct Acknowledgement {
    seq: u64,
}

#[derive(Debug, Deserialize)]
struct Found {
    message: FoundMessage,
}

#[derive(Debug, Deserialize)]
struct FoundMessage {
    seq: u64,
    #[serde(default)]
    data: String,
}

impl Link {
    pub(super) fn new(connector: Arc<Connector>, name: &str, queue_operations_max: usize) -> Self {
        let room = Semaphore::new(queue_operations_max);
        Self { connector, name: name.to_owned(), client: OnceCell::new(), room, queue_operations_max }
    }

    /// The server's address without the password.
    pub(super) fn address(&self) -> &str {
        &self.connector.address
    }

    pub(super) fn no_answer(&self, timeout: Duration, name: &str) -> StoreError {
        self.connector.no_answer(timeout, name)
    }

    pub(super) fn unavailable(&self, why: &str) -> StoreError {
        StoreError::Unavailable(format!("{}: {why}", self.address()))
    }

    pub(super) fn unusable(&self, why: &str) -> StoreError {
        StoreError::Unusable(format!("{}: {why}", self.address()))
    }

    /// The connection; made now if there is none.
    pub(super) async fn client(&self) -> Result<&Client, StoreError> {
        self.client.get_or_try_init(|| self.connector.connect(&self.name)).await
    }

    /// Publishes to a stream if the subject's last message has the number `expected` (0: there is none). When it
    /// fails as unavailable, it may have been stored, or may still be.
    pub(super) async fn publish(
        &self,
        subject: String,
        body: Vec<u8>,
        expected: u64,
    ) -> Result<Published, StoreError> {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Expected-Last-Subject-Sequence", expected.to_string());
        match self.request::<Acknowledgement>(subject, Some(headers), body).await? {
            Ok(stored) => Ok(Published::At(stored.seq)),
            Err(error) if WRONG_LAST_SEQUENCE.contains(&error.err_code) => Ok(Published::Conflict),
            Err(error) => Err(self.api_error(&error)),
        }
    }

    /// Publishes to a stream whatever is there; returns the message's number.
    pub(super) async fn put(&self, subject: String, body: Vec<u8>) -> Result<u64, StoreError> {
        match self.request::<Acknowledgement>(subject, None, body).await? {
            Ok(stored) => Ok(stored.seq),
            Err(error) => Err(self.api_error(&error)),
        }
    }

    /// The last message of a subject, from the stream's leader.
    pub(super) async fn last(&self, stream: &str, subject: &str) -> Result<Option<Stored>, StoreError> {
        let body = serde_json::json!({ "last_by_subj": subject });
        let found: Found = match self.api(&format!("STREAM.MSG.GET.{stream}"), &body).await? {
            Ok(found) => found,
            Err(error) if error.err_code == MESSAGE_NOT_FOUND => return Ok(None),
            Err(error) => return Err(self.api_error(&error)),
        };
        let body = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, &found.message.data)
            .map_err(|err| self.unusable(&format!("the server's answer cannot be read: {err}")))?;
        Ok(Some(Stored { sequence: found.message.seq, body }))
    }

    /// Asks JetStream's API.
    pub(super) async fn api<T: DeserializeOwned>(
        &self,
        what: &str,
        body: &serde_json::Value,
    ) -> Result<Result<T, ApiError>, StoreError> {
        self.request(format!("$JS.API.{what}"), None, body.to_string().into_bytes()).await
    }

    pub(super) fn api_error(&self, error: &ApiError) -> StoreError {
        let why = format!("{} [{}]", error.description, error.err_code);
        if LASTING.contains(&error.err_code) { self.unusable(&why) } else { self.unavailable(&why) }
    }

    async fn request<T: DeserializeOwned>(
        &self,
        subject: String,
        headers: Option<HeaderMap>,
        body: Vec<u8>,
    ) -> Result<Result<T, ApiError>, StoreError> {
        let Ok(_permit) = self.room.try_acquire() else {
            let max = self.queue_operations_max;
            return Err(self.unavailable(&format!("{max} operations wait already (queue_operations_max)")));
        };
        let mut request = async_nats::Request::new().payload(body.into());
        if let Some(headers) = headers {
            request = request.headers(headers);
        }
        let asked = async { Ok(self.client().await?.send_request(subject, request).await) };
        let timeout = self.connector.timeout;
        let message = tokio::time::timeout(timeout, asked)
            .await
            .map_err(|_| self.no_answer(timeout, "timeout"))??
            .map_err(|err| self.request_error(&err))?;
        let answer: Answer<T> = serde_json::from_slice(&message.payload)
            .map_err(|err| self.unavailable(&format!("the server's answer cannot be read: {err}")))?;
        match answer {
            Answer { error: Some(error), .. } => Ok(Err(error)),
            Answer { value: Some(value), .. } => Ok(Ok(value)),
            Answer { .. } => Err(self.unavailable("the server's answer cannot be read: it is empty")),
        }
    }

    fn request_error(&self, err: &RequestError) -> StoreError {
        match err.kind() {
            RequestErrorKind::NoResponders => {
                self.unavailable("JetStream does not answer: it starts, has no leader, or the stream is gone")
            }
            RequestErrorKind::MaxPayloadExceeded => {
                self.unusable(&format!("{err}: raise max_payload at the server"))
            }
            _ => self.unavailable(&err.to_string()),
        }
    }
}

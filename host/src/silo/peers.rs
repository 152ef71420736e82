//! Questions to other silos over the network, as `granary-grains` asks them and as the admin API does.

use std::sync::Arc;
use std::time::Duration;

use granary_core::deadlock::DeadlockMessage;
use granary_core::hosting::BoxFuture;
use granary_core::id::{Digest, SiloAddress};
use granary_core::wire::{CallReply, CallRequest, MigrateReply, MigrateRequest, OneWay, Request, Response};
use granary_grains::PeerError;
use granary_net::{Lane, NetError, Network};

/// How long one piece of a component may take to arrive.
const BLOB_TIMEOUT: Duration = Duration::from_secs(10);

/// The largest component that is fetched from a peer, in bytes.
const BLOB_BYTES_MAX: u64 = 64 << 20;

/// The other silos.
#[derive(Debug, Clone)]
pub(crate) struct NetPeers {
    network: Arc<Network>,
}

impl NetPeers {
    pub(crate) fn new(network: Arc<Network>) -> Self {
        Self { network }
    }

    pub(crate) fn network(&self) -> Arc<Network> {
        Arc::clone(&self.network)
    }

    async fn ask(
        &self,
        to: SiloAddress,
        lane: Lane,
        request: Request,
        timeout: Duration,
    ) -> Result<Response, PeerError> {
        match self.network.request(to, lane, request, timeout).await {
            Ok(Response::Refused(reason)) => Err(PeerError::NotDelivered(reason)),
            Ok(response) => Ok(response),
            Err(NetError::NotDelivered(reason)) => Err(PeerError::NotDelivered(reason)),
            Err(NetError::UnknownOutcome(reason)) => Err(PeerError::UnknownOutcome(reason)),
            Err(NetError::TimedOut) => Err(PeerError::TimedOut),
            Err(error @ NetError::TooLarge { .. }) => Err(PeerError::NotDelivered(error.to_string())),
        }
    }

    /// One request of the admin API, answered by another silo: HTTP status and JSON body.
    pub(crate) async fn admin(
        &self,
        to: SiloAddress,
        path: String,
        body: Vec<u8>,
        timeout: Duration,
    ) -> Result<(u16, Vec<u8>), PeerError> {
        match self.ask(to, Lane::Application, Request::Admin { path, body }, timeout).await? {
            Response::Admin { status, body } => Ok((status, body)),
            other => Err(mismatch(to, &other)),
        }
    }

    /// A whole component from one silo, verified; `None` when it does not have it.
    pub(crate) async fn blob(&self, to: SiloAddress, digest: Digest) -> Result<Option<Vec<u8>>, PeerError> {
        let mut bytes = Vec::new();
        loop {
            let request = Request::Blob { digest, offset: bytes.len() as u64 };
            let piece = match self.ask(to, Lane::Bulk, request, BLOB_TIMEOUT).await? {
                Response::Blob(Some(piece)) => piece,
                Response::Blob(None) => return Ok(None),
                other => return Err(mismatch(to, &other)),
            };
            if piece.total_bytes > BLOB_BYTES_MAX || piece.bytes.is_empty() {
                return Err(PeerError::UnknownOutcome(format!("{to} sent a piece that cannot be right")));
            }
            bytes.extend_from_slice(&piece.bytes);
            if bytes.len() as u64 >= piece.total_bytes {
                break;
            }
        }
        if Digest::of(&bytes) == digest {
            Ok(Some(bytes))
        } else {
            Err(PeerError::UnknownOutcome(format!("what {to} sent is not {}", digest.short())))
        }
    }
}

fn mismatch(to: SiloAddress, response: &Response) -> PeerError {
    let kind = match response {
        Response::Invoke(_) => "a call",
        Response::Migrate(_) => "a migration",
        Response::Blob(_) => "a component",
        Response::Admin { .. } => "an admin request",
        Response::Refused(_) => "a refusal",
    };
    PeerError::UnknownOutcome(format!("{to} answered {kind}, which was not the question"))
}

impl granary_grains::Peers for NetPeers {
    fn invoke(
        &self,
        to: SiloAddress,
        request: CallRequest,
        timeout: Duration,
    ) -> BoxFuture<'_, Result<CallReply, PeerError>> {
        Box::pin(async move {
            match self.ask(to, Lane::Application, Request::Invoke(request), timeout).await? {
                Response::Invoke(reply) => Ok(reply),
                other => Err(mismatch(to, &other)),
            }
        })
    }

    fn tell(&self, to: SiloAddress, message: DeadlockMessage) {
        self.network.send(to, Lane::System, OneWay::Deadlock(message));
    }

    fn migrate(
        &self,
        to: SiloAddress,
        request: MigrateRequest,
        timeout: Duration,
    ) -> BoxFuture<'_, Result<MigrateReply, PeerError>> {
        // A large image must not hold up calls; the short steps travel with them.
        let lane = match &request {
            MigrateRequest::Restore(_) => Lane::Bulk,
            MigrateRequest::Go { .. } | MigrateRequest::Abort { .. } => Lane::Application,
        };
        Box::pin(async move {
            match self.ask(to, lane, Request::Migrate(request), timeout).await? {
                Response::Migrate(reply) => Ok(reply),
                other => Err(mismatch(to, &other)),
            }
        })
    }
}

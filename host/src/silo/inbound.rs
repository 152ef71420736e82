//! What a silo does with what other silos send.

use std::time::Duration;

use granary_core::hosting::BoxFuture;
use granary_core::id::SiloAddress;
use granary_core::membership;
use granary_core::wire::{BlobPiece, OneWay, Request, Response};
use granary_net::Handler;

use super::admin;
use super::parts::{Parts, PartsCell};

/// The largest piece of a component in one answer, in bytes.
const BLOB_PIECE_BYTES_MAX: usize = 1 << 20;

/// Hands messages to the machines, and requests to the grains.
#[derive(Debug)]
pub(crate) struct Inbound {
    pub(crate) parts: PartsCell,
}

impl Handler for Inbound {
    fn one_way(&self, from: SiloAddress, message: OneWay) {
        // Before all parts are there nobody has joined, so nothing that matters is lost: machines repeat.
        let Some(parts) = self.parts.get() else { return };
        match message {
            OneWay::Membership(message) => parts.membership.message(from, message),
            OneWay::Directory(message) => parts.directory.message(from, message),
            OneWay::Manifest(message) => parts.manifests.message(from, message),
            OneWay::DeploymentsChanged { .. } => parts.deployments.wake(),
            OneWay::Deadlock(message) => parts.grains.handle_deadlock(message),
        }
    }

    fn request(&self, from: SiloAddress, request: Request, remaining: Duration) -> BoxFuture<'_, Response> {
        let Some(parts) = self.parts.get() else {
            return Box::pin(std::future::ready(Response::Refused("the silo is starting".to_owned())));
        };
        Box::pin(async move {
            match request {
                Request::Invoke(call) => {
                    Response::Invoke(parts.grains.handle_invoke(from, call, remaining).await)
                }
                Request::Migrate(step) => Response::Migrate(parts.grains.handle_migrate(from, step).await),
                Request::Blob { digest, offset } => blob(parts, digest, offset).await,
                Request::Admin { body, .. } => {
                    let (status, body) = admin::answer(parts, &body).await;
                    Response::Admin { status, body }
                }
            }
        })
    }

    fn disconnected(&self, peer: SiloAddress) {
        if let Some(parts) = self.parts.get() {
            parts.membership.offer(membership::Event::PeerUnreachable(peer));
        }
    }
}

async fn blob(parts: &Parts, digest: granary_core::id::Digest, offset: u64) -> Response {
    let bytes = match parts.deployments.blob(digest).await {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Response::Blob(None),
        Err(error) => return Response::Refused(error.to_string()),
    };
    let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
    let end = start.saturating_add(BLOB_PIECE_BYTES_MAX).min(bytes.len());
    let piece = bytes.get(start..end).unwrap_or_default().to_vec();
    Response::Blob(Some(BlobPiece { total_bytes: bytes.len() as u64, bytes: piece }))
}

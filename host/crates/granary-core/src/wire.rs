//! What silos say to each other. Encoded with postcard, which is positional: enums are append-only, and a
//! change of a message's fields needs a new protocol number (`granary-net`'s handshake).

use serde::{Deserialize, Serialize};

use crate::deadlock::DeadlockMessage;
use crate::directory::DirectoryMessage;
use crate::hosting::{CallError, MethodRef, TurnContext};
use crate::id::{ActivationId, Digest, GrainId, SiloAddress};
use crate::manifest::ManifestMessage;
use crate::membership::MembershipMessage;

/// Sent and forgotten: the machines do their own correlation and repetition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum OneWay {
    Membership(MembershipMessage),
    Directory(DirectoryMessage),
    Manifest(ManifestMessage),
    /// The deployments in the store changed: read them now instead of at the next poll.
    DeploymentsChanged {
        version: u64,
    },
    Deadlock(DeadlockMessage),
}

/// A question that is answered once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Request {
    Invoke(CallRequest),
    Migrate(MigrateRequest),
    /// The component with this digest, from `offset`, at most 1 MiB at a time.
    Blob {
        digest: Digest,
        offset: u64,
    },
    /// Work that one silo's edge passes on to another silo, as JSON of the admin API (`describe`, `logs`, `migrate`, …).
    Admin {
        path: String,
        body: Vec<u8>,
    },
}

/// The answer to the request of the same name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Response {
    Invoke(CallReply),
    Migrate(MigrateReply),
    /// `None` when this silo does not have it.
    Blob(Option<BlobPiece>),
    /// HTTP-like status and JSON body.
    Admin {
        status: u16,
        body: Vec<u8>,
    },
    /// The request could not be served at all; nothing was done.
    Refused(String),
}

/// A piece of a component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobPiece {
    pub total_bytes: u64,
    pub bytes: Vec<u8>,
}

/// A call on its way to the activation's silo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRequest {
    pub to: GrainId,
    pub method: MethodRef,
    pub args: Vec<u8>,
    pub context: TurnContext,
    /// Random; the same for every delivery of one call.
    pub call_id: u128,
    /// How often the call was forwarded; at most 2 (spec B4.7).
    pub forwards: u8,
    pub one_way: bool,
    /// The sender placed the grain on the receiver: activate it there when the directory knows none.
    pub may_activate: bool,
}

/// A call's end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallReply {
    pub outcome: Result<Vec<u8>, CallError>,
    /// Where the activation really is, when the sender's idea was wrong.
    pub location: Option<SiloAddress>,
}

/// The steps of a migration that the source asks of the target (decision B10).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MigrateRequest {
    /// Instantiate, rehydrate, stay frozen.
    Restore(MigrationPackage),
    /// The directory names the new activation: run.
    Go { grain: GrainId, activation: ActivationId },
    /// Not committed: drop the frozen activation.
    Abort { grain: GrainId, activation: ActivationId },
}

/// A dehydrated activation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigrationPackage {
    pub grain: GrainId,
    /// The component that dehydrated it.
    pub digest: Digest,
    pub source: SiloAddress,
    pub source_activation: ActivationId,
    /// Chosen by the source, so that a repeated request restores once.
    pub target_activation: ActivationId,
    /// What `dehydrate` returned.
    pub state: Vec<u8>,
    /// The fencing number of the source's registration.
    pub fence: u64,
}

/// The target's answer to a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MigrateReply {
    /// Restored and frozen; running; or dropped.
    Done,
    /// Not done, and why; the source stays or resumes.
    Refused(String),
}

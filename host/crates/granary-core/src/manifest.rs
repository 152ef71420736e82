//! Grain manifests: the model, the canonical hash, and the machine that spreads them (spec A).

mod cluster;
mod hash;
pub mod json;
mod model;
mod provider;

pub use cluster::{ClusterManifest, ManifestVersion, SiloManifest};
pub use hash::{ManifestHash, ManifestHashError};
pub use model::{GrainManifest, GrainManifestBuilder, Identifier, Properties, Text};
pub use provider::{ManifestCommand, ManifestEvent, ManifestMessage, ManifestProvider};

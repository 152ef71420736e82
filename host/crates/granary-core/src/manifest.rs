//! Grain manifests: the model, the canonical hash, and the machine that spreads them (spec A).

mod hash;
pub mod json;
mod model;

pub use hash::{ManifestHash, ManifestHashError};
pub use model::{GrainManifest, GrainManifestBuilder, Identifier, Properties, Text};

/// What the manifest machines of two silos say to each other.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum ManifestMessage {}

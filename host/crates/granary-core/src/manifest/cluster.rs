//! The manifests of all Active silos, at one version (spec A3).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::SiloAddress;
use crate::manifest::GrainManifest;

/// A cluster manifest's version: the membership version that it belongs to, and a count of what was gained
/// within that (spec A3.1, A3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ManifestVersion {
    /// The membership version.
    pub major: i64,
    /// Counts from 0 within a membership version.
    pub minor: i64,
}

impl ManifestVersion {
    /// The version before any membership view.
    pub const MIN: Self = Self { major: i64::MIN, minor: i64::MIN };

    /// The first version of a membership version.
    #[must_use]
    pub fn of_view(version: u64) -> Self {
        Self { major: i64::try_from(version).unwrap_or(i64::MAX), minor: 0 }
    }

    /// The next version of the same membership version.
    #[must_use]
    pub fn next_minor(self) -> Self {
        Self { minor: self.minor.saturating_add(1), ..self }
    }
}

impl fmt::Display for ManifestVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// One silo's manifest as another silo knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiloManifest {
    /// Counts the manifests that the silo has published, from 1.
    pub generation: u64,
    /// What the silo offers in this generation. Equal manifests of several silos are one shared value.
    pub manifest: Arc<GrainManifest>,
}

/// What the Active silos offer, as far as this silo knows it (spec A3). Immutable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterManifest {
    /// Grows with everything published.
    pub version: ManifestVersion,
    /// The Active silos whose manifests are known.
    pub silos: BTreeMap<SiloAddress, SiloManifest>,
    /// This silo's own manifest, also while the silo is not Active, so that it can resolve its own grain types
    /// (spec A3.4).
    pub local: Arc<GrainManifest>,
}

impl ClusterManifest {
    /// The distinct manifests, the local one first.
    #[must_use]
    pub fn distinct(&self) -> Vec<&Arc<GrainManifest>> {
        let mut distinct = vec![&self.local];
        for silo in self.silos.values() {
            if !distinct.iter().any(|known| Arc::ptr_eq(known, &silo.manifest)) {
                distinct.push(&silo.manifest);
            }
        }
        distinct
    }
}

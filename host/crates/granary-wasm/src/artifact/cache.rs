//! The cache of compiled artifacts: one file for each component and engine, authenticated by the host's key.
//!
//! A file is a header (magic, component digest, compatibility hash, length), an HMAC-SHA256 over header and
//! artifact, and the artifact. Anything that does not verify is treated as absent, with the reason.

use std::fs::{self, File, OpenOptions};
use std::hash::{Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use granary_core::id::Digest;
use hmac::{Hmac, Mac};
use sha2::{Digest as _, Sha256};
use wasmtime::Engine;

use super::ARTIFACT_BYTES_MAX;
use crate::engine::EngineVariant;

/// First bytes of a cache file; the number is the format's version.
const MAGIC: &[u8; 16] = b"granary-cwasm-1\n";

/// Magic, digest, compatibility hash, length.
const HEADER_BYTES: usize = 16 + 32 + 32 + 8;

const MAC_BYTES: usize = 32;

/// The host's key for compiled code.
#[derive(Clone)]
pub(super) struct HostKey([u8; 32]);

impl std::fmt::Debug for HostKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HostKey(..)")
    }
}

impl HostKey {
    /// Reads the key, or makes one that only this user can read. Of several silos that start at once, one
    /// makes the key and all use it.
    pub(super) fn load_or_create(path: &Path) -> io::Result<Self> {
        if !path.exists() {
            let mut key = [0; 32];
            getrandom::fill(&mut key).map_err(|error| io::Error::other(error.to_string()))?;
            let own = path.with_extension(format!("new-{}", std::process::id()));
            // A file of that name is left from a start that died here.
            let _ = fs::remove_file(&own);
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&own)?;
            file.write_all(&key)?;
            file.sync_all()?;
            // A link appears whole and does not replace a key that another silo made meanwhile.
            let linked = fs::hard_link(&own, path);
            fs::remove_file(&own)?;
            match linked {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        let bytes = fs::read(path)?;
        let key = <[u8; 32]>::try_from(bytes.as_slice()).map_err(|_| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("a host key has 32 bytes, this file has {}", bytes.len()),
            )
        })?;
        Ok(Self(key))
    }
}

/// Feeds a [`Hash`] into SHA-256, so that the result does not depend on the standard library's hasher.
#[derive(Default)]
struct ShaHasher(Sha256);

impl Hasher for ShaHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let digest: [u8; 32] = self.0.clone().finalize().into();
        let [a, b, c, d, e, f, g, h, ..] = digest;
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }
}

/// A digest of everything that decides whether compiled code fits an engine; its variant is named, although the
/// engine's own hash tells them apart too (decision C2).
pub(super) fn compatibility(engine: &Engine, variant: EngineVariant) -> Digest {
    let mut hasher = ShaHasher::default();
    variant.name().hash(&mut hasher);
    engine.precompile_compatibility_hash().hash(&mut hasher);
    Digest(hasher.0.finalize().into())
}

/// A file with an artifact in it.
pub(super) fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let overhead = u64::try_from(HEADER_BYTES + MAC_BYTES).unwrap_or(0);
    let mut bytes = Vec::new();
    File::open(path)?.take(ARTIFACT_BYTES_MAX + overhead).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Compiled artifacts in a directory.
#[derive(Debug)]
pub(super) struct Cache {
    dir: PathBuf,
    compatibility: Digest,
    key: HostKey,
}

impl Cache {
    pub(super) fn new(dir: PathBuf, compatibility: Digest, key: HostKey) -> Self {
        Self { dir, compatibility, key }
    }

    fn path(&self, digest: Digest, extension: &str) -> PathBuf {
        self.dir.join(format!("{digest}-{}-v1.{extension}", self.compatibility.short()))
    }

    /// The file whose lock is the right to compile the component.
    pub(super) fn lock_path(&self, digest: Digest) -> PathBuf {
        self.path(digest, "lock")
    }

    /// The file that the compiling child writes.
    pub(super) fn output_path(&self, digest: Digest) -> PathBuf {
        self.path(digest, "output")
    }

    /// Where the artifact is kept.
    pub(super) fn artifact_path(&self, digest: Digest) -> PathBuf {
        self.path(digest, "cwasm")
    }

    fn header(&self, digest: Digest, artifact_bytes: usize) -> Vec<u8> {
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.extend_from_slice(MAGIC);
        header.extend_from_slice(&digest.0);
        header.extend_from_slice(&self.compatibility.0);
        header.extend_from_slice(&u64::try_from(artifact_bytes).unwrap_or(u64::MAX).to_le_bytes());
        header
    }

    fn mac(&self, header: &[u8], artifact: &[u8]) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key.0).ok()?;
        mac.update(header);
        mac.update(artifact);
        Some(mac)
    }

    /// The artifact, if there is one; an error says why a file that is there cannot be used.
    pub(super) fn load(&self, digest: Digest) -> Result<Option<Vec<u8>>, String> {
        let mut bytes = match read_bounded(&self.artifact_path(digest)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let overhead = HEADER_BYTES + MAC_BYTES;
        let (Some(header), Some(tag), Some(artifact)) =
            (bytes.get(..HEADER_BYTES), bytes.get(HEADER_BYTES..overhead), bytes.get(overhead..))
        else {
            return Err("it is shorter than a header".to_owned());
        };
        if header != self.header(digest, artifact.len()) {
            return Err("its header is of another component, engine or format".to_owned());
        }
        let verified = self.mac(header, artifact).is_some_and(|mac| mac.verify_slice(tag).is_ok());
        if !verified {
            return Err("its authentication does not verify".to_owned());
        }
        bytes.drain(..overhead);
        Ok(Some(bytes))
    }

    /// Keeps an artifact. The caller holds the component's lock.
    pub(super) fn store(&self, digest: Digest, artifact: &[u8]) -> io::Result<()> {
        let header = self.header(digest, artifact.len());
        let mac =
            self.mac(&header, artifact).ok_or_else(|| io::Error::other("the host's key is unusable"))?;
        let partial = self.path(digest, "partial");
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
        file.write_all(&header)?;
        file.write_all(&mac.finalize().into_bytes())?;
        file.write_all(artifact)?;
        drop(file);
        // A crash may leave a torn file behind the new name; its authentication then fails, and it is made again.
        fs::rename(&partial, self.artifact_path(digest))
    }
}

//! Blobs as files named by their digest, written by one thread.
//!
//! A file is complete or not there: it is written under another name, synced and renamed. What is read is verified;
//! a file that does not fit its name is moved aside, for people to look at, and counts as absent.

use std::fs;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, SystemTime};

use granary_core::id::Digest;
use tokio::sync::oneshot;

use super::OpenOptions;
use super::directory::{TEMPORARY_PREFIX, write_durably};
use crate::{BLOB_BYTES_MAX, StoreError, check_blob_size};

/// How many puts and gets may wait. Each put holds its bytes meanwhile.
const QUEUE_REQUESTS_MAX: usize = 16;

/// A temporary file of this age was left by a process that died.
const TEMPORARY_AGE_MAX: Duration = Duration::from_secs(3600);

/// The handle to the thread that reads and writes the files.
#[derive(Debug)]
pub(super) struct BlobFiles {
    directory: PathBuf,
    queue: SyncSender<BlobRequest>,
    timeout: Duration,
}

enum BlobRequest {
    Put { bytes: Vec<u8>, reply: oneshot::Sender<Result<Digest, StoreError>> },
    Get { digest: Digest, reply: oneshot::Sender<Result<Option<Vec<u8>>, StoreError>> },
}

impl BlobFiles {
    pub(super) fn open(directory: PathBuf, options: &OpenOptions) -> Result<Self, StoreError> {
        remove_leftovers(&directory);
        let (queue, requests) = sync_channel(QUEUE_REQUESTS_MAX);
        let thread_directory = directory.clone();
        std::thread::Builder::new()
            .name("store-blobs".to_owned())
            .spawn(move || serve(&thread_directory, &requests))
            .map_err(|err| StoreError::Unavailable(format!("cannot start a thread: {err}")))?;
        Ok(Self { directory, queue, timeout: options.blob_timeout })
    }

    pub(super) async fn put(&self, bytes: Vec<u8>) -> Result<Digest, StoreError> {
        check_blob_size(bytes.len() as u64)?;
        let (reply, answer) = oneshot::channel();
        self.ask(BlobRequest::Put { bytes, reply }, answer).await
    }

    pub(super) async fn get(&self, digest: Digest) -> Result<Option<Vec<u8>>, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.ask(BlobRequest::Get { digest, reply }, answer).await
    }

    async fn ask<T>(
        &self,
        request: BlobRequest,
        answer: oneshot::Receiver<Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let unavailable = |why: &str| StoreError::Unavailable(format!("{}: {why}", self.directory.display()));
        self.queue.try_send(request).map_err(|err| match err {
            TrySendError::Full(_) => unavailable("too many blobs are read or written already"),
            TrySendError::Disconnected(_) => unavailable("its thread has ended"),
        })?;
        match tokio::time::timeout(self.timeout, answer).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(unavailable("its thread has ended")),
            Err(_) => Err(unavailable(&format!("no answer within {:?}", self.timeout))),
        }
    }
}

fn serve(directory: &Path, requests: &Receiver<BlobRequest>) {
    // Nobody listens any more when a reply fails; the work is done all the same.
    while let Ok(request) = requests.recv() {
        match request {
            BlobRequest::Put { reply, .. } if reply.is_closed() => {}
            BlobRequest::Get { reply, .. } if reply.is_closed() => {}
            BlobRequest::Put { bytes, reply } => drop(reply.send(put(directory, &bytes))),
            BlobRequest::Get { digest, reply } => drop(reply.send(get(directory, digest))),
        }
    }
}

fn put(directory: &Path, bytes: &[u8]) -> Result<Digest, StoreError> {
    let digest = Digest::of(bytes);
    // What is there already counts only if it is sound.
    if get(directory, digest)?.is_none() {
        write_durably(directory, &digest.to_string(), bytes)
            .map_err(|err| failed(directory, &format!("cannot write blob {digest}"), &err))?;
    }
    Ok(digest)
}

fn get(directory: &Path, digest: Digest) -> Result<Option<Vec<u8>>, StoreError> {
    let path = directory.join(digest.to_string());
    let file = match fs::File::open(&path) {
        Ok(file) => file,
        Err(err) if err.kind() == ErrorKind::NotFound => return Ok(None),
        Err(err) => return Err(failed(&path, "cannot read the blob", &err)),
    };
    let mut bytes = Vec::new();
    file.take(BLOB_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|err| failed(&path, "cannot read the blob", &err))?;
    if Digest::of(&bytes) == digest {
        return Ok(Some(bytes));
    }
    let aside = directory.join(format!("{digest}.corrupt"));
    match fs::rename(&path, &aside) {
        Ok(()) => tracing::warn!(
            "blob {digest} is corrupt ({} bytes that do not have this digest): moved to {}",
            bytes.len(),
            aside.display()
        ),
        // Another process was faster.
        Err(err) if err.kind() == ErrorKind::NotFound => {}
        Err(err) => return Err(failed(&path, "cannot move the corrupt blob aside", &err)),
    }
    Ok(None)
}

fn failed(path: &Path, what: &str, err: &std::io::Error) -> StoreError {
    StoreError::Unavailable(format!("{}: {what}: {err}", path.display()))
}

/// Removes what a process that died was writing. What cannot be removed does no harm.
fn remove_leftovers(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let is_temporary = entry.file_name().to_string_lossy().starts_with(TEMPORARY_PREFIX);
        let age = entry
            .metadata()
            .and_then(|found| found.modified())
            .ok()
            .and_then(|modified| SystemTime::now().duration_since(modified).ok());
        if is_temporary && age.is_some_and(|age| age > TEMPORARY_AGE_MAX) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

//! The data directory: made where missing, refused where it cannot hold the store.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use super::OpenOptions;
use crate::StoreError;

/// The layout of the data directory that this build reads and writes.
pub const DATA_FORMAT: u32 = 1;

/// How the file `format` begins.
const FORMAT_WORD: &str = "granary-data";

/// The longest format file that is read, in bytes.
const FORMAT_FILE_BYTES_MAX: u64 = 256;

/// File systems where locks and shared memory reach over hosts, or are only promised: `statfs` magic and name.
const NETWORK_FILE_SYSTEMS: [(u64, &str); 6] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x6573_5546, "FUSE"),
    (0x00c3_6400, "Ceph"),
];

/// Makes a data directory and its parts, and checks that they are usable: what opening a store there begins with. Blocks
/// for some file operations.
///
/// # Errors
/// [`StoreError::Unusable`], with path and reason, when the path is no directory, cannot be written, lies on a network
/// file system or has a newer format.
pub fn prepare(data: &Path, options: &OpenOptions) -> Result<(), StoreError> {
    make(data)?;
    if !options.allow_network_file_system {
        refuse_network_file_system(data)?;
    }
    check_format(data)?;
    for part in ["cluster", "blobs"] {
        make(&data.join(part))?;
    }
    sync(data)
}

/// An error of the file system, with the path that it is about.
pub(super) fn unusable(path: &Path, what: &str, why: &dyn std::fmt::Display) -> StoreError {
    StoreError::Unusable(format!("{}: {what}: {why}", path.display()))
}

/// Makes the entries of a directory durable.
pub(super) fn sync(directory: &Path) -> Result<(), StoreError> {
    fs::File::open(directory)
        .and_then(|file| file.sync_all())
        .map_err(|err| unusable(directory, "cannot sync the directory", &err))
}

/// Writes a file so that after a crash it is there in full or not at all.
pub(super) fn write_durably(directory: &Path, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    let mut temporary = Temporary::create(directory)?;
    temporary.file.write_all(bytes)?;
    temporary.file.sync_all()?;
    fs::rename(&temporary.path, directory.join(name))?;
    fs::File::open(directory)?.sync_all()
}

/// How the names of files that are being written begin.
pub(super) const TEMPORARY_PREFIX: &str = ".tmp-";

/// A file under a temporary name; removed on drop, if it has that name still.
struct Temporary {
    path: std::path::PathBuf,
    file: fs::File,
}

impl Temporary {
    fn create(directory: &Path) -> std::io::Result<Self> {
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = directory.join(format!("{TEMPORARY_PREFIX}{}-{number}", std::process::id()));
        // Not `create_new`: a process that died may have had the same id.
        let file = fs::File::create(&path)?;
        Ok(Self { path, file })
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn make(directory: &Path) -> Result<(), StoreError> {
    match fs::metadata(directory) {
        // Whoever may ignore permission bits is held to them all the same: they say that nothing is to change.
        Ok(found) if found.is_dir() && found.permissions().readonly() => Err(StoreError::Unusable(format!(
            "{} is read-only: the store must be able to write there",
            directory.display()
        ))),
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(StoreError::Unusable(format!("{} is not a directory", directory.display()))),
        Err(err) if err.kind() == ErrorKind::NotFound => fs::create_dir_all(directory)
            .map_err(|err| unusable(directory, "cannot create the directory", &err)),
        Err(err) => Err(unusable(directory, "cannot use the directory", &err)),
    }
}

/// The network file system that a path lies on; `None` for a local one.
///
/// # Errors
/// Fails when the path is not there or cannot be examined.
pub fn network_file_system(path: &Path) -> std::io::Result<Option<&'static str>> {
    let found = rustix::fs::statfs(path)?;
    // The field's type differs between platforms; only its low 32 bits carry the magic.
    let magic = u64::try_from(found.f_type & 0xffff_ffff).unwrap_or(0);
    Ok(NETWORK_FILE_SYSTEMS.iter().find(|(network, _)| *network == magic).map(|(_, name)| *name))
}

fn refuse_network_file_system(data: &Path) -> Result<(), StoreError> {
    match network_file_system(data) {
        Ok(None) => Ok(()),
        Ok(Some(name)) => Err(StoreError::Unusable(format!(
            "{} lies on a network file system ({name}), where the locks of the embedded store may not hold; use a \
             local directory",
            data.display()
        ))),
        Err(error) => Err(unusable(data, "cannot find out the file system", &error)),
    }
}

/// Reads the format file, or writes it into a directory that has none; either way the directory is writable then.
fn check_format(data: &Path) -> Result<(), StoreError> {
    let path = data.join("format");
    match fs::metadata(&path) {
        Ok(found) if found.len() > FORMAT_FILE_BYTES_MAX => {
            return Err(StoreError::Unusable(format!("{} is not a format file", path.display())));
        }
        Ok(_) => {}
        Err(err) if err.kind() == ErrorKind::NotFound => {
            let text = format!("{FORMAT_WORD} {DATA_FORMAT}\n");
            return write_durably(data, "format", text.as_bytes())
                .map_err(|err| unusable(data, "cannot write to the data directory", &err));
        }
        Err(err) => return Err(unusable(&path, "cannot read the format", &err)),
    }
    let text = fs::read_to_string(&path).map_err(|err| unusable(&path, "cannot read the format", &err))?;
    let version = text.trim().strip_prefix(FORMAT_WORD).and_then(|rest| rest.trim().parse::<u32>().ok());
    match version {
        Some(version) if version > DATA_FORMAT => Err(StoreError::Unusable(format!(
            "{} has data format {version}, this version of granary supports {DATA_FORMAT}: use a newer granary or \
             another directory",
            data.display()
        ))),
        Some(version) if version < DATA_FORMAT || version == 0 => Err(StoreError::Unusable(format!(
            "{} has data format {version}, which never existed",
            data.display()
        ))),
        Some(_) => Temporary::create(data)
            .map(drop)
            .map_err(|err| unusable(data, "cannot write to the data directory", &err)),
        None => Err(StoreError::Unusable(format!(
            "{} should read '{FORMAT_WORD} NUMBER', it reads {:?}",
            path.display(),
            text.chars().take(64).collect::<String>()
        ))),
    }
}

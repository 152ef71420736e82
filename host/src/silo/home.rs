//! A silo's place on its host: the data directory, the lock on its name, its generation, and the identity of
//! the host (decisions B7, C6).
//!
//! The lock is held as long as the process lives, whatever ends it; who can take it has proved that the silo is
//! gone. So it is taken before anything else and never released by hand.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds between the Unix epoch and 2022-01-01 UTC, where generations begin (spec B1.3).
const GENERATION_ORIGIN_SECONDS: u64 = 1_640_995_200;

/// Why a silo cannot live in a data directory.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HomeError {
    #[error(
        "a silo's name has 1 to 64 letters, digits, '-', '_' or '.', and does not begin with '.'; this is {0:?}"
    )]
    Name(String),
    #[error(
        "a silo named {name} is already running with the data directory {data} (process {holder}): choose another --name, or stop that silo first"
    )]
    NameTaken { name: String, data: String, holder: String },
    #[error("cannot use the data directory {path}: {error}")]
    Io { path: String, error: std::io::Error },
}

/// The folder of one silo inside the data directory, locked.
#[derive(Debug)]
pub(crate) struct Home {
    /// Held, not read: the lock ends with the process.
    _lock: File,
    /// This start's generation: larger than that of any earlier start of this name.
    pub(crate) generation: i32,
}

impl Home {
    /// Takes the name's lock and counts the generation up.
    ///
    /// # Errors
    /// [`HomeError::NameTaken`] when a living process holds the lock; [`HomeError::Io`] when the directory
    /// cannot be written.
    pub(crate) fn open(data: &Path, name: &str) -> Result<Self, HomeError> {
        check_name(name)?;
        let folder = data.join("silos").join(name);
        let io = |path: &Path| {
            let path = path.display().to_string();
            move |error| HomeError::Io { path, error }
        };
        std::fs::create_dir_all(&folder).map_err(io(&folder))?;
        let path = folder.join("lock");
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(io(&path))?;
        if !take(&lock).map_err(io(&path))? {
            let mut holder = String::new();
            let _ = lock.take(32).read_to_string(&mut holder);
            return Err(HomeError::NameTaken {
                name: name.to_owned(),
                data: data.display().to_string(),
                holder: holder.trim().to_owned(),
            });
        }
        lock.set_len(0).and_then(|()| lock.rewind()).map_err(io(&path))?;
        writeln!(lock, "{}", std::process::id()).map_err(io(&path))?;
        let generation = next_generation(&folder).map_err(io(&folder))?;
        Ok(Self { _lock: lock, generation })
    }
}

/// Takes the lock; `false` when a living process has it. Others hold it for an instant when they try whether the
/// silo is dead, hence the repetition.
fn take(lock: &File) -> std::io::Result<bool> {
    for _ in 0..20 {
        match lock.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) => std::thread::sleep(std::time::Duration::from_millis(10)),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Ok(false)
}

/// Whether a silo can have this name; others are no folder of the data directory.
pub(crate) fn is_name(name: &str) -> bool {
    check_name(name).is_ok()
}

fn check_name(name: &str) -> Result<(), HomeError> {
    let ok = (1..=64).contains(&name.len())
        && !name.starts_with('.')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
    if ok { Ok(()) } else { Err(HomeError::Name(name.chars().take(80).collect())) }
}

/// Seconds since the origin, or one more than the last start had.
fn next_generation(folder: &Path) -> std::io::Result<i32> {
    let path = folder.join("generation");
    let last =
        std::fs::read_to_string(&path).ok().and_then(|text| text.trim().parse::<i32>().ok()).unwrap_or(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let now = i32::try_from(now.saturating_sub(GENERATION_ORIGIN_SECONDS)).unwrap_or(i32::MAX);
    let generation = now.max(last.saturating_add(1));
    let temporary = folder.join("generation.new");
    std::fs::write(&temporary, format!("{generation}\n"))?;
    std::fs::rename(&temporary, &path)?;
    Ok(generation)
}

/// Whether the process behind a silo's name is gone: its lock can be taken. `false` also when that cannot be
/// known, as when the folder is not here.
#[must_use]
pub(crate) fn name_is_free(data: &Path, name: &str) -> bool {
    if check_name(name).is_err() {
        return false;
    }
    let path = data.join("silos").join(name).join("lock");
    File::open(path).is_ok_and(|file| file.try_lock().is_ok())
}

/// What identifies a host and its boot; a file lock proves a death only within one boot of one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostIdentity {
    pub(crate) host_id: String,
    pub(crate) boot_id: String,
}

impl HostIdentity {
    /// Reads the kernel's and the installation's identifiers. Where the kernel gives no boot id, one that equals
    /// no other is made up, so that no lock proves anything.
    #[must_use]
    pub(crate) fn read() -> Self {
        let text = |path: &str| {
            std::fs::read_to_string(path)
                .ok()
                .map(|text| text.trim().to_owned())
                .filter(|text| !text.is_empty())
        };
        let unknown = || format!("unknown-{}-{:?}", std::process::id(), SystemTime::now());
        Self {
            host_id: text("/etc/machine-id")
                .or_else(|| text("/proc/sys/kernel/hostname"))
                .unwrap_or_else(unknown),
            boot_id: text("/proc/sys/kernel/random/boot_id").unwrap_or_else(unknown),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_silo_of_the_same_name_is_refused_and_names_the_holder() {
        let data = tempfile::tempdir().unwrap();
        let first = Home::open(data.path(), "a").unwrap();
        assert!(!name_is_free(data.path(), "a"));
        let error = Home::open(data.path(), "a").unwrap_err().to_string();
        assert!(error.contains(&std::process::id().to_string()), "{error}");
        Home::open(data.path(), "b").unwrap();
        drop(first);
        assert!(name_is_free(data.path(), "a"));
    }

    #[test]
    fn each_start_has_a_larger_generation() {
        let data = tempfile::tempdir().unwrap();
        let generations: Vec<i32> =
            (0..3).map(|_| Home::open(data.path(), "a").unwrap().generation).collect();
        assert!(generations.is_sorted_by(|a, b| a < b), "{generations:?}");
    }

    #[test]
    fn names_that_are_paths_are_refused() {
        let data = tempfile::tempdir().unwrap();
        for name in ["", "..", "a/b", ".hidden", "a b", &"x".repeat(65)] {
            assert!(matches!(Home::open(data.path(), name), Err(HomeError::Name(_))), "{name:?}");
        }
    }

    #[test]
    fn a_data_directory_that_is_a_file_is_an_error_with_its_path() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = Home::open(file.path(), "a").unwrap_err().to_string();
        assert!(error.contains("cannot use the data directory"), "{error}");
    }
}

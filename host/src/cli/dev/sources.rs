//! The sources of a project: a fingerprint of all files that a build could read. Looking is cheap enough to do it
//! four times a second, and works on every file system.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// How many files are looked at; a project with more is watched in part, which is said once.
const FILES_MAX: usize = 20_000;

/// How deep folders are followed.
const DEPTH_MAX: usize = 32;

/// Folders that builds write to, beside all whose names begin with a dot.
const SKIPPED: [&str; 6] = ["target", "node_modules", "dist", "build", "__pycache__", "venv"];

/// Files that builds write.
const WRITTEN: [&str; 2] = ["Cargo.lock", "package-lock.json"];

/// Modification time and length of each file.
type Look = BTreeMap<PathBuf, (Option<SystemTime>, u64)>;

/// The sources, as they were when they were last built.
#[derive(Debug)]
pub(super) struct Sources {
    folder: PathBuf,
    /// What the build makes, which is no source.
    component: Option<PathBuf>,
    built: Option<Look>,
    /// The look before; a change counts when two looks in a row agree, since editors save in steps.
    last: Look,
}

impl Sources {
    pub(super) fn new(folder: &Path, component: Option<&Path>) -> Self {
        Self {
            folder: folder.to_owned(),
            component: component.map(|component| folder.join(component)),
            built: None,
            last: Look::new(),
        }
    }

    /// Whether there is something to build that was not built; what is there now counts as built then.
    pub(super) fn changed(&mut self) -> bool {
        let look = self.look();
        let settled = look == self.last;
        self.last = look;
        if !settled || self.built.as_ref() == Some(&self.last) {
            return false;
        }
        let overflows = self.last.len() >= FILES_MAX;
        if overflows && self.built.is_none() {
            super::output::note(&format!("only the first {FILES_MAX} files are watched"));
        }
        self.built = Some(self.last.clone());
        true
    }

    fn look(&self) -> Look {
        let mut found = Look::new();
        let mut folders = vec![(self.folder.clone(), 0)];
        while let Some((folder, depth)) = folders.pop() {
            // A folder that went away between two looks is simply not there.
            let Ok(entries) = std::fs::read_dir(&folder) else { continue };
            for entry in entries.flatten() {
                let name = entry.file_name();
                let name = name.to_string_lossy();
                let Ok(kind) = entry.file_type() else { continue };
                if kind.is_dir() {
                    let is_source = !name.starts_with('.') && !SKIPPED.contains(&name.as_ref());
                    if is_source && depth < DEPTH_MAX {
                        folders.push((entry.path(), depth + 1));
                    }
                } else if is_source_file(&name)
                    && self.component.as_deref() != Some(&entry.path())
                    && found.len() < FILES_MAX
                    && let Ok(data) = entry.metadata()
                {
                    found.insert(entry.path(), (data.modified().ok(), data.len()));
                }
            }
        }
        found
    }
}

/// Neither written by builds, nor an editor's own.
fn is_source_file(name: &str) -> bool {
    !name.starts_with('.') && !name.ends_with('~') && !name.ends_with(".swp") && !WRITTEN.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_counts_once_when_it_has_settled() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("src.rs");
        std::fs::write(&file, "one").unwrap();
        let mut sources = Sources::new(folder.path(), None);
        assert!(!sources.changed());
        assert!(sources.changed() && !sources.changed());
        std::fs::write(&file, "three").unwrap();
        assert!(!sources.changed());
        assert!(sources.changed() && !sources.changed());
        std::fs::remove_file(&file).unwrap();
        assert!(!sources.changed());
        assert!(sources.changed());
    }

    #[test]
    fn what_builds_write_is_no_source() {
        let folder = tempfile::tempdir().unwrap();
        let mut sources = Sources::new(folder.path(), Some(Path::new("out.wasm")));
        let _ = sources.changed();
        std::fs::create_dir(folder.path().join("target")).unwrap();
        std::fs::create_dir(folder.path().join(".git")).unwrap();
        let _ = (sources.changed(), sources.changed());
        for path in ["target/x.rs", ".git/HEAD", "Cargo.lock", "out.wasm", "a.rs~", ".a.rs.swp"] {
            std::fs::write(folder.path().join(path), "x").unwrap();
        }
        assert!(!sources.changed() && !sources.changed());
    }
}

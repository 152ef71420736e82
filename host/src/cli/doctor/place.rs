//! Verdicts on the data directory: its file system, its space, whether it can be written. It is not made.

use std::path::{Path, PathBuf};

use granary_store::sqlite::network_file_system;

use super::{Finding, Verdict, bytes};

/// Less free space than this fills up soon: each component is kept with its compiled code.
const SPACE_GOOD_BYTES: u64 = 1 << 30;

/// With less than this a silo cannot write its databases.
const SPACE_FAILURE_BYTES: u64 = 8 << 20;

/// Files that may still be made before it becomes tight.
const FILES_GOOD: u64 = 10_000;

/// All verdicts.
pub(super) fn all(data: &Path) -> Vec<Finding> {
    let data = std::path::absolute(data).unwrap_or_else(|_| data.to_owned());
    let there = nearest(&data);
    vec![directory(&data, &there), file_system(&there), space(&there)]
}

/// The path itself, or the first folder above it that is there.
fn nearest(path: &Path) -> PathBuf {
    path.ancestors().find(|path| path.exists()).unwrap_or(path).to_owned()
}

fn directory(data: &Path, there: &Path) -> Finding {
    let advice = "name another with --data, or give the user of the silo the right to write there";
    let finding = |verdict, found: String| Finding::new("data directory", verdict, found, advice);
    if !there.is_dir() {
        return finding(Verdict::Failure, format!("{} is not a directory", there.display()));
    }
    // As a silo does it: a file is made and removed. Rights alone do not say whether that works.
    let probe = there.join(format!(".granary-doctor-{}", std::process::id()));
    let written = std::fs::File::create_new(&probe).and_then(|file| file.sync_all());
    let _ = std::fs::remove_file(&probe);
    match written {
        Ok(()) if there == data => finding(Verdict::Ok, format!("{}", data.display())),
        Ok(()) => finding(Verdict::Ok, format!("{} would be made", data.display())),
        Err(error) => finding(Verdict::Failure, format!("{} cannot be written: {error}", there.display())),
    }
}

fn file_system(there: &Path) -> Finding {
    let advice = "locks of the embedded store hold on a local file system alone: use a local directory";
    match network_file_system(there) {
        Ok(None) => Finding::new("file system", Verdict::Ok, "local", advice),
        Ok(Some(name)) => {
            Finding::new("file system", Verdict::Failure, format!("{name}, a network file system"), advice)
        }
        Err(error) => Finding::new("file system", Verdict::Warning, format!("unknown: {error}"), advice),
    }
}

fn space(there: &Path) -> Finding {
    let advice = "free some, or name a directory elsewhere with --data";
    match rustix::fs::statvfs(there) {
        Ok(found) => {
            let free = found.f_bavail.saturating_mul(found.f_frsize);
            // Some file systems count no files.
            let files = (found.f_files > 0).then_some(found.f_favail);
            let verdict = match files {
                _ if free < SPACE_FAILURE_BYTES => Verdict::Failure,
                Some(0) => Verdict::Failure,
                _ if free < SPACE_GOOD_BYTES => Verdict::Warning,
                Some(files) if files < FILES_GOOD => Verdict::Warning,
                _ => Verdict::Ok,
            };
            let files = files.map(|files| format!(", {files} files")).unwrap_or_default();
            Finding::new("space", verdict, format!("{} free{files}", bytes(free)), advice)
        }
        Err(error) => Finding::new("space", Verdict::Warning, format!("unknown: {error}"), advice),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_not_there_is_judged_by_the_one_above_and_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("a/b");
        let findings = all(&data);
        assert!(findings[0].found.ends_with("would be made"), "{findings:?}");
        assert_eq!(findings[0].verdict, Verdict::Ok);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_data_directory_that_is_a_file_is_a_failure() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(all(file.path())[0].verdict, Verdict::Failure);
    }
}

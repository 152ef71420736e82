//! What the kernel and the process's limits say. Reading never fails: what cannot be read is `None`.

use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};

/// The largest control file that is read, in bytes.
const FILE_BYTES_MAX: usize = 64 << 10;

/// The limits of a machine, as a process on it sees them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Machine {
    /// The processor's architecture.
    pub(super) architecture: &'static str,
    /// Processors that this process may use, by affinity and by the control group's quota.
    pub(super) cores: Option<usize>,
    /// The control group's quota, in processors.
    pub(super) cpu_quota: Option<f64>,
    /// Memory of the machine, in bytes.
    pub(super) memory_total: Option<u64>,
    /// Memory that could be had without swapping, in bytes.
    pub(super) memory_available: Option<u64>,
    /// The smallest memory limit of the control groups around this process, in bytes.
    pub(super) memory_group_max: Option<u64>,
    /// The smallest limit on tasks of these groups.
    pub(super) tasks_group_max: Option<u64>,
    /// `vm.max_map_count`.
    pub(super) mappings_max: Option<u64>,
    /// `vm.overcommit_memory`.
    pub(super) overcommit: Option<u64>,
    /// Open files: what the limit may be raised to. `None` is no limit, here and below.
    pub(super) files_hard: Option<u64>,
    /// Address space, in bytes.
    pub(super) address_space: Option<u64>,
    /// Processes and threads of this user.
    pub(super) tasks: Option<u64>,
    /// The largest file that may be written, in bytes.
    pub(super) file_bytes: Option<u64>,
    /// The kernel's clock source.
    pub(super) clock_source: Option<String>,
    /// Seconds since 1970 on the wall clock.
    pub(super) wall_seconds: u64,
}

impl Machine {
    /// Reads this machine.
    pub(super) fn read() -> Self {
        let mut machine = Self::below(Path::new("/"));
        machine.architecture = std::env::consts::ARCH;
        machine.cores = std::thread::available_parallelism().ok().map(Into::into);
        machine.files_hard = getrlimit(Resource::Nofile).maximum;
        machine.address_space = getrlimit(Resource::As).current;
        machine.tasks = getrlimit(Resource::Nproc).current;
        machine.file_bytes = getrlimit(Resource::Fsize).current;
        machine.wall_seconds = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        machine
    }

    /// The part that stands in files, below a root.
    fn below(root: &Path) -> Self {
        let info = text(&root.join("proc/meminfo")).unwrap_or_default();
        let memory = |key: &str| {
            let line = info.lines().find_map(|line| line.strip_prefix(key))?;
            line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
        };
        let number = |path: &str| text(&root.join(path))?.trim().parse().ok();
        let groups = groups(root);
        let least = |file: &str| groups.iter().filter_map(|folder| limit(&folder.join(file))).min();
        Self {
            cpu_quota: groups.iter().filter_map(|folder| quota(folder)).reduce(f64::min),
            memory_total: memory("MemTotal:"),
            memory_available: memory("MemAvailable:"),
            memory_group_max: least("memory.max").or_else(|| least("memory.limit_in_bytes")),
            tasks_group_max: least("pids.max"),
            mappings_max: number("proc/sys/vm/max_map_count"),
            overcommit: number("proc/sys/vm/overcommit_memory"),
            clock_source: text(&root.join("sys/devices/system/clocksource/clocksource0/current_clocksource"))
                .map(|text| text.trim().to_owned()),
            ..Self::default()
        }
    }

    /// The memory that a silo on this machine can have at most, in bytes.
    pub(super) fn memory(&self) -> Option<u64> {
        match (self.memory_total, self.memory_group_max) {
            (Some(total), Some(group)) => Some(total.min(group)),
            (total, group) => total.or(group),
        }
    }
}

/// The folders of the control groups of this process, inner ones first, of every hierarchy.
fn groups(root: &Path) -> Vec<PathBuf> {
    let mount = root.join("sys/fs/cgroup");
    let mut folders = Vec::new();
    for line in text(&root.join("proc/self/cgroup")).unwrap_or_default().lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let base = if controllers.is_empty() { mount.clone() } else { mount.join(controllers) };
        let relative = Path::new(path.trim_start_matches('/'));
        folders.extend(relative.ancestors().map(|part| base.join(part)));
    }
    folders
}

/// A limit in a control file; `max`, and numbers so large that they mean the same, are none.
fn limit(path: &Path) -> Option<u64> {
    text(path)?.trim().parse().ok().filter(|limit| *limit < (1 << 60))
}

/// The processor quota of a control group, in processors: `cpu.max`, or the two files of the first version.
fn quota(folder: &Path) -> Option<f64> {
    let (quota, period) = match text(&folder.join("cpu.max")) {
        Some(text) => {
            let mut words = text.split_whitespace();
            (words.next()?.parse::<f64>().ok()?, words.next()?.parse::<f64>().ok()?)
        }
        None => {
            let number = |file| text(&folder.join(file))?.trim().parse::<f64>().ok();
            (number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?)
        }
    };
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

/// A small text file.
fn text(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok().filter(|text| text.len() <= FILE_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn the_tightest_control_group_around_the_process_counts() {
        let root = root(&[
            ("proc/self/cgroup", "0::/outer/inner\n"),
            ("sys/fs/cgroup/outer/memory.max", "1073741824\n"),
            ("sys/fs/cgroup/outer/inner/memory.max", "max\n"),
            ("sys/fs/cgroup/outer/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/outer/inner/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/outer/inner/pids.max", "512\n"),
            ("proc/meminfo", "MemTotal:  4194304 kB\nMemAvailable:  2097152 kB\n"),
            ("proc/sys/vm/max_map_count", "65530\n"),
            ("proc/sys/vm/overcommit_memory", "2\n"),
        ]);
        let machine = Machine::below(root.path());
        assert_eq!(machine.memory_group_max, Some(1 << 30));
        assert_eq!(machine.memory(), Some(1 << 30));
        assert_eq!(machine.memory_available, Some(2 << 30));
        assert_eq!(machine.cpu_quota, Some(1.5));
        assert_eq!(machine.tasks_group_max, Some(512));
        assert_eq!((machine.mappings_max, machine.overcommit), (Some(65_530), Some(2)));
    }

    #[test]
    fn the_first_version_of_control_groups_is_read_too() {
        let root = root(&[
            ("proc/self/cgroup", "4:memory:/a\n3:cpu,cpuacct:/a\n"),
            ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "536870912\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n"),
        ]);
        let machine = Machine::below(root.path());
        assert_eq!(machine.memory_group_max, Some(512 << 20));
        assert_eq!(machine.cpu_quota, None);
    }

    #[test]
    fn what_cannot_be_read_is_not_made_up() {
        let machine = Machine::below(tempfile::tempdir().unwrap().path());
        assert_eq!(machine, Machine::default());
    }
}

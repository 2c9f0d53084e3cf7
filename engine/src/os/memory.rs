//! How much memory this process may have: the least of the machine's and of its control groups'.
//!
//! Both versions of control groups are asked, at the process' own group and at every one above it,
//! for a limit up there holds as well.

use std::path::{Component, Path, PathBuf};

/// A file of a limit in each version, and the name of its file system.
const VERSIONS: [(&str, &str); 2] =
    [("cgroup2", "memory.max"), ("cgroup", "memory.limit_in_bytes")];

/// Bytes that this process may have, and what says so; `None` when the kernel tells nothing.
pub fn memory_limit() -> Option<(u64, MemoryLimit)> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let machine = machine_bytes(&read("/proc/meminfo"));
    let group = group_bytes(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"));
    match (machine, group) {
        (Some(machine), Some(group)) if group < machine => Some((group, MemoryLimit::Group)),
        (Some(machine), _) => Some((machine, MemoryLimit::Machine)),
        (None, group) => group.map(|group| (group, MemoryLimit::Group)),
    }
}

/// What limits the memory of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryLimit {
    /// A control group, as containers and services have them.
    Group,
    /// There is no more.
    Machine,
}

fn machine_bytes(meminfo: &str) -> Option<u64> {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = total.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

/// The least limit of the groups in `groups`, a `/proc/self/cgroup`, where `mounts`, a
/// `/proc/self/mountinfo`, says that they are.
fn group_bytes(groups: &str, mounts: &str) -> Option<u64> {
    let limits = VERSIONS.iter().filter_map(|(version, file)| {
        let group = groups.lines().find_map(|line| group_of(line, version))?;
        let (root, mount) = mounts.lines().find_map(|line| mount_of(line, version))?;
        least_of(&mount, &below(&group, &root), file)
    });
    limits.min()
}

/// The path of the group that limits memory, from `number:controllers:path`.
fn group_of(line: &str, version: &str) -> Option<PathBuf> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let is_wanted = match version {
        "cgroup2" => controllers.is_empty(),
        _ => controllers.split(',').any(|controller| controller == "memory"),
    };
    is_wanted.then(|| path.into())
}

/// Which group is mounted where, from
/// `id parent device root mount-point options … - type source super-options`.
fn mount_of(line: &str, version: &str) -> Option<(PathBuf, PathBuf)> {
    let (front, back) = line.split_once(" - ")?;
    let mut back = back.split(' ');
    let (kind, options) = (back.next()?, back.nth(1)?);
    let is_wanted = kind == version
        && (version == "cgroup2" || options.split(',').any(|option| option == "memory"));
    let mut front = front.split(' ').skip(3);
    let (root, mount) = (front.next()?, front.next()?);
    // Blanks are written as octal escapes.
    let plain = |path: &str| PathBuf::from(path.replace("\\040", " "));
    is_wanted.then(|| (plain(root), plain(mount)))
}

/// The part of a group's path below what is mounted. In a container a path may lead out of it, and
/// then what is mounted is all that can be seen.
fn below(group: &Path, root: &Path) -> PathBuf {
    let rest = group.strip_prefix(root).unwrap_or(Path::new(""));
    rest.components().filter(|part| matches!(part, Component::Normal(_))).collect()
}

/// The least limit from `mount` down to `group` below it.
fn least_of(mount: &Path, group: &Path, file: &str) -> Option<u64> {
    let limit = |directory: &Path| {
        let text = std::fs::read_to_string(mount.join(directory).join(file)).ok()?;
        // "max" is no limit; where there is none, the first version says a number near 2^63.
        text.trim().parse::<u64>().ok().filter(|bytes| *bytes < 1 << 62)
    };
    group.ancestors().filter_map(limit).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_limit() {
        let (bytes, _) = memory_limit().unwrap();
        assert!(bytes > 1 << 20);
        let machine = machine_bytes("MemFree: 1 kB\nMemTotal:       2048 kB\n");
        assert_eq!(machine, Some(2 << 20));
        assert_eq!(machine_bytes(""), None);
    }

    /// The limit of the group `path`, where `files` lie under a mount of `version`.
    fn limit(version: &str, path: &str, root: &str, files: &[(&str, &str)]) -> Option<u64> {
        let mount = tempfile::tempdir().unwrap();
        for (file, content) in files {
            let file = mount.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, content).unwrap();
        }
        let (groups, options) = match version {
            "cgroup2" => (format!("0::{path}\n"), "rw"),
            _ => (format!("9:name=systemd:/x\n4:cpu,memory:{path}\n0::/y\n"), "rw,memory"),
        };
        let mounts = format!(
            "22 1 0:20 / /proc rw - proc proc rw\n\
             30 23 0:25 {root} {} rw,nosuid shared:4 - {version} {version} {options}\n",
            mount.path().display()
        );
        group_bytes(&groups, &mounts)
    }

    #[test]
    fn the_least_limit_up_to_the_root_counts_in_both_versions() {
        for (version, file) in VERSIONS {
            let file = |folder: &str| format!("{folder}{file}");
            let none = if version == "cgroup2" { "max\n" } else { "9223372036854771712\n" };
            let (own, middle, root) = (file("a/b/"), file("a/"), file(""));
            let files = |own_limit, middle_limit| {
                [(&*own, own_limit), (&*middle, middle_limit), (&*root, none)]
            };
            let of = |own, middle| limit(version, "/a/b", "/", &files(own, middle));
            assert_eq!(of("1000\n", "2000\n"), Some(1000), "{version}");
            assert_eq!(of("3000\n", "2000\n"), Some(2000), "{version}");
            assert_eq!(of(none, "2000\n"), Some(2000), "{version}");
            assert_eq!(of(none, none), None, "{version}");
            // In a container: the group's own folder is what is mounted, or its path leads out.
            let own = [(&*root, "500\n")];
            assert_eq!(limit(version, "/docker/id", "/docker/id", &own), Some(500), "{version}");
            assert_eq!(limit(version, "/../../id", "/docker/id", &own), Some(500), "{version}");
        }
        assert_eq!(group_bytes("", ""), None);
        assert_eq!(group_bytes("nonsense\n4:memory\n", "nonsense\n1 2 3 - cgroup\n"), None);
    }
}

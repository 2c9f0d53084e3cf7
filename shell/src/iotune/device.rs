//! The device that a directory is on, and how busy it is, as the kernel says.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// A mounted file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Device {
    pub mountpoint: PathBuf,
    /// Major and minor number, as in `/proc/diskstats`.
    number: (u32, u32),
}

impl Device {
    /// The one below a directory, whose path has no links.
    ///
    /// Errors: text for people.
    pub fn of(directory: &Path) -> Result<Self, String> {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo")
            .map_err(|error| format!("cannot read the list of mounts: {error}"))?;
        let found = mounts.lines().filter_map(mount);
        let found = found.filter(|device| directory.starts_with(&device.mountpoint));
        // Of several on one point, the last is seen.
        let nearest = found.max_by_key(|device| device.mountpoint.components().count());
        nearest.ok_or_else(|| format!("no file system is mounted above {}", directory.display()))
    }

    pub fn name(&self) -> String {
        let name = diskstats().and_then(|stats| Some(line_of(&stats, self.number)?.name.clone()));
        name.unwrap_or_else(|| format!("the disk of {}", self.mountpoint.display()))
    }

    /// Part of some time in which the device had requests; none where the kernel does not say.
    pub fn busy(&self, time: Duration) -> Option<f64> {
        let before = line_of(&diskstats()?, self.number)?.busy_ms;
        std::thread::sleep(time);
        let after = line_of(&diskstats()?, self.number)?.busy_ms;
        Some(part(after.saturating_sub(before), time))
    }
}

/// What part of some time so many milliseconds are.
fn part(busy_ms: u64, time: Duration) -> f64 {
    busy_ms as f64 / time.as_millis() as f64
}

/// A line of `/proc/self/mountinfo`.
fn mount(line: &str) -> Option<Device> {
    let mut fields = line.split(' ').skip(2);
    let (major, minor) = fields.next()?.split_once(':')?;
    let mountpoint = PathBuf::from(unescaped(fields.nth(1)?));
    Some(Device { mountpoint, number: (major.parse().ok()?, minor.parse().ok()?) })
}

/// Blanks and backslashes stand there as octal numbers.
fn unescaped(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .into_iter()
        .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// What `/proc/diskstats` says of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
struct DiskLine {
    name: String,
    busy_ms: u64,
}

fn diskstats() -> Option<String> {
    std::fs::read_to_string("/proc/diskstats").ok()
}

fn line_of(stats: &str, number: (u32, u32)) -> Option<DiskLine> {
    stats.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let found = (fields.first()?.parse().ok()?, fields.get(1)?.parse().ok()?);
        let name = format!("/dev/{}", fields.get(2)?);
        (found == number).then_some(DiskLine { name, busy_ms: fields.get(12)?.parse().ok()? })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_requests_is_a_part_of_all_of_it() {
        for (busy_ms, ms, wanted) in
            [(0, 500, 0.0), (50, 500, 0.1), (500, 500, 1.0), (1000, 2000, 0.5)]
        {
            assert_eq!(part(busy_ms, Duration::from_millis(ms)), wanted);
        }
    }

    #[test]
    fn lines_of_the_kernel_are_read() {
        let line = "36 35 98:0 /root /mnt/a\\040b rw,noatime shared:1 - ext4 /dev/sda1 rw";
        let device = mount(line).unwrap();
        assert_eq!(device, Device { mountpoint: "/mnt/a b".into(), number: (98, 0) });
        assert_eq!(mount("36 35 x /"), None);
        let stats = " 254 0 vda 1 2 3 4 5 6 7 8 9 1234 11 0 0\n 98 0 sdb 1 2 3 4 5 6 7 8 0 77 5\n";
        let found = line_of(stats, (98, 0)).unwrap();
        assert_eq!(found, DiskLine { name: "/dev/sdb".into(), busy_ms: 77 });
        assert_eq!(
            (line_of(stats, (254, 0)).unwrap().busy_ms, line_of(stats, (1, 1))),
            (1234, None)
        );
    }

    #[test]
    fn every_directory_is_on_something() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path().canonicalize().unwrap();
        let device = Device::of(&directory).unwrap();
        assert!(directory.starts_with(&device.mountpoint) && !device.name().is_empty());
        if let Some(busy) = device.busy(Duration::from_millis(20)) {
            assert!(busy >= 0.0);
        }
    }

    #[test]
    fn characters_that_stand_as_numbers_are_read_once() {
        for (text, wanted) in [
            ("/mnt/a\\040b", "/mnt/a b"),
            ("a\\011b\\012c", "a\tb\nc"),
            ("a\\134b", "a\\b"),
            // A backslash, and digits behind it.
            ("a\\134040b", "a\\040b"),
            ("\\040\\040", "  "),
            ("a\\041b", "a\\041b"),
            ("", ""),
        ] {
            assert_eq!(unescaped(text), wanted, "{text}");
        }
    }

    #[test]
    fn a_device_is_known_by_both_of_its_numbers() {
        let stats = "8 1 sda1 0 0 0 0 0 0 0 0 0 11 0\n8 0 sda 0 0 0 0 0 0 0 0 0 10 0\n\
                     1 8 ram8 0 0 0 0 0 0 0 0 0 18 0\n8 2 sda2 0 0 0\nnonsense\n8 3 sda3 x\n";
        for (number, wanted) in [
            ((8, 0), Some(("/dev/sda", 10))),
            ((8, 1), Some(("/dev/sda1", 11))),
            ((1, 8), Some(("/dev/ram8", 18))),
            ((8, 2), None),
            ((8, 4), None),
        ] {
            let found = line_of(stats, number);
            let found = found.as_ref().map(|line| (line.name.as_str(), line.busy_ms));
            assert_eq!(found, wanted, "{number:?}");
        }
        for wrong in ["", "36 35", "36 35 8:0 /", "36 35 8:x / /mnt", "36 35 80 / /mnt"] {
            assert_eq!(mount(wrong), None, "{wrong}");
        }
    }
}

//! The file `io-properties.yaml`: what disks were measured to do, with ScyllaDB's keys.
//!
//! ```yaml
//! disks:
//!   - mountpoint: /var/lib/data      # or mountpoints: a list of those that share one disk
//!     read_iops: 219k                # requests a second
//!     read_bandwidth: 1468M          # bytes a second; k, M, G and T are powers of 1024
//!     write_iops: 121000
//!     write_bandwidth: 1077M
//!     read_saturation_length: 128k   # optional: longer reads gain nothing
//! ```
//! `rate_factor` multiplies the four rates. `physical_block_size` and `duplex` are taken and not
//! used: requests are whole pages, and reads and writes share what a disk can do.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use saphyr::{LoadableYamlNode, MarkedYaml, Scalar, YamlData};

use crate::error::{Error, Result};

/// Name of the file in a data directory.
pub const PROPERTIES_FILE: &str = "io-properties.yaml";

/// What one disk can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskProperties {
    /// Requests a second.
    pub read_iops: u64,
    /// Bytes a second.
    pub read_bandwidth: u64,
    pub write_iops: u64,
    pub write_bandwidth: u64,
    /// Length from which on longer requests gain nothing, bytes.
    pub read_saturation_bytes: Option<usize>,
    pub write_saturation_bytes: Option<usize>,
}

impl DiskProperties {
    /// A disk of so many requests and bytes a second, read and written.
    pub const fn new(reads: (u64, u64), writes: (u64, u64)) -> Self {
        DiskProperties {
            read_iops: reads.0,
            read_bandwidth: reads.1,
            write_iops: writes.0,
            write_bandwidth: writes.1,
            read_saturation_bytes: None,
            write_saturation_bytes: None,
        }
    }
}

/// The disks of a file, by where they are mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IoProperties {
    disks: Vec<(Vec<PathBuf>, DiskProperties)>,
}

/// A place in the file and what is wrong there.
struct Wrong(usize, String);

type Parsed<T> = std::result::Result<T, Wrong>;

impl IoProperties {
    /// Reads the text of a file. `path` is for errors.
    ///
    /// Errors: `Invalid` with the line.
    pub fn parse(path: &Path, text: &str) -> Result<Self> {
        parse(text).map_err(|Wrong(line, reason)| {
            Error::invalid(format!("{}, line {line}: {reason}", path.display()))
        })
    }

    /// The disk that a directory is on: the one with the longest mount point above it.
    pub fn disk_of(&self, directory: &Path) -> Option<&DiskProperties> {
        let mounted = self.disks.iter().flat_map(|(points, disk)| {
            let above = points.iter().filter(|point| directory.starts_with(point));
            above.map(move |point| (point.components().count(), disk))
        });
        mounted.max_by_key(|(depth, _)| *depth).map(|(_, disk)| disk)
    }

    /// The text of a file of one disk.
    pub fn text(mountpoint: &Path, disk: &DiskProperties) -> String {
        let mut text = String::from("disks:\n");
        let point = mountpoint.display().to_string();
        let point = point.replace('\\', "\\\\").replace('"', "\\\"");
        let mut line = |line: String| writeln!(text, "{line}").expect("a string takes all");
        line(format!("  - mountpoint: \"{point}\""));
        line(format!("    read_iops: {}", disk.read_iops));
        line(format!("    read_bandwidth: {}", disk.read_bandwidth));
        line(format!("    write_iops: {}", disk.write_iops));
        line(format!("    write_bandwidth: {}", disk.write_bandwidth));
        let lengths = [
            ("read_saturation_length", disk.read_saturation_bytes),
            ("write_saturation_length", disk.write_saturation_bytes),
        ];
        for (name, bytes) in lengths {
            if let Some(bytes) = bytes {
                line(format!("    {name}: {bytes}"));
            }
        }
        text
    }
}

fn line(node: &MarkedYaml<'_>) -> usize {
    node.span.start.line()
}

fn wrong<T>(node: &MarkedYaml<'_>, reason: impl Into<String>) -> Parsed<T> {
    Err(Wrong(line(node), reason.into()))
}

fn parse(text: &str) -> Parsed<IoProperties> {
    let documents = MarkedYaml::load_from_str(text)
        .map_err(|error| Wrong(error.marker().line(), error.info().to_owned()))?;
    let [document] = &documents[..] else {
        return Err(Wrong(1, format!("{} documents, wanted one", documents.len())));
    };
    let mut disks = Vec::new();
    for (name, value) in mapping(document)? {
        let YamlData::Sequence(listed) = &value.data else {
            return wrong(value, format!("{name} is to be a list"));
        };
        if name != "disks" {
            return wrong(value, format!("'{name}' is not known; wanted disks"));
        }
        for node in listed {
            disks.push(disk(node)?);
        }
    }
    for (at, (points, _)) in disks.iter().enumerate() {
        let earlier = disks[..at].iter().flat_map(|(points, _)| points);
        if let Some(twice) = earlier.into_iter().find(|point| points.contains(point)) {
            return Err(Wrong(1, format!("{} stands there twice", twice.display())));
        }
    }
    match disks.is_empty() {
        true => Err(Wrong(1, "there are no disks".to_owned())),
        false => Ok(IoProperties { disks }),
    }
}

/// Names and values of a mapping, in their order.
fn mapping<'a>(node: &'a MarkedYaml<'_>) -> Parsed<Vec<(&'a str, &'a MarkedYaml<'a>)>> {
    let YamlData::Mapping(pairs) = &node.data else {
        return wrong(node, "wanted names with values");
    };
    let named = pairs.iter().map(|(name, value)| match &name.data {
        YamlData::Value(Scalar::String(text)) => Ok((text.as_ref(), value)),
        _ => wrong(name, "a name is to be a text"),
    });
    named.collect()
}

/// What the file says of one disk, as it is read.
#[derive(Default)]
struct Draft {
    points: Vec<PathBuf>,
    rates: [Option<f64>; 4],
    factor: Option<f64>,
    lengths: [Option<usize>; 2],
}

const RATES: [&str; 4] = ["read_iops", "read_bandwidth", "write_iops", "write_bandwidth"];
const LENGTHS: [&str; 2] = ["read_saturation_length", "write_saturation_length"];

fn disk(node: &MarkedYaml<'_>) -> Parsed<(Vec<PathBuf>, DiskProperties)> {
    let mut draft = Draft::default();
    for (name, value) in mapping(node)? {
        let place = |names: &[&str]| names.iter().position(|known| *known == name);
        if let Some(at) = place(&RATES) {
            draft.rates[at] = Some(positive(name, value)?);
        } else if let Some(at) = place(&LENGTHS) {
            draft.lengths[at] = Some(positive(name, value)? as usize);
        } else {
            draft.other(name, value)?;
        }
    }
    draft.finish().map_err(|reason| Wrong(line(node), reason))
}

impl Draft {
    fn other(&mut self, name: &str, value: &MarkedYaml<'_>) -> Parsed<()> {
        match (name, &value.data) {
            ("mountpoint", _) => self.points.push(point(value)?),
            ("mountpoints", YamlData::Sequence(points)) => {
                for value in points {
                    self.points.push(point(value)?);
                }
            }
            ("mountpoints", _) => return wrong(value, "mountpoints is to be a list"),
            ("rate_factor", _) => self.factor = Some(positive(name, value)?),
            ("physical_block_size" | "duplex", _) => {}
            _ => return wrong(value, format!("'{name}' is not known of a disk")),
        }
        Ok(())
    }

    fn finish(self) -> std::result::Result<(Vec<PathBuf>, DiskProperties), String> {
        if self.points.is_empty() {
            return Err("a disk without mountpoint".to_owned());
        }
        let mut rates = [0; 4];
        for ((rate, found), name) in rates.iter_mut().zip(self.rates).zip(RATES) {
            let Some(found) = found else { return Err(format!("a disk without {name}")) };
            *rate = ((found * self.factor.unwrap_or(1.0)) as u64).max(1);
        }
        let [read_iops, read_bandwidth, write_iops, write_bandwidth] = rates;
        let [read_saturation_bytes, write_saturation_bytes] = self.lengths;
        let (reads, writes) = ((read_iops, read_bandwidth), (write_iops, write_bandwidth));
        let disk = DiskProperties {
            read_saturation_bytes,
            write_saturation_bytes,
            ..DiskProperties::new(reads, writes)
        };
        Ok((self.points, disk))
    }
}

fn point(value: &MarkedYaml<'_>) -> Parsed<PathBuf> {
    match &value.data {
        YamlData::Value(Scalar::String(text)) if text.starts_with('/') => {
            Ok(PathBuf::from(&**text))
        }
        _ => wrong(value, "a mountpoint is to be an absolute path"),
    }
}

/// A number above zero, as it is or with k, M, G or T behind it.
fn positive(name: &str, value: &MarkedYaml<'_>) -> Parsed<f64> {
    let number = match &value.data {
        YamlData::Value(Scalar::Integer(number)) => Some(*number as f64),
        YamlData::Value(Scalar::FloatingPoint(number)) => Some(f64::from(*number)),
        YamlData::Value(Scalar::String(text)) => with_unit(text),
        _ => None,
    };
    let fits = |number: &f64| *number > 0.0 && *number < 1e18;
    match number.filter(fits) {
        Some(number) => Ok(number),
        None => wrong(value, format!("{name} is to be a number above 0, such as 1200 or 512M")),
    }
}

fn with_unit(text: &str) -> Option<f64> {
    let unit = text.chars().next_back()?;
    let power = ["kK", "M", "G", "T"].iter().position(|names| names.contains(unit))?;
    let number: f64 = text[..text.len() - 1].trim().parse().ok()?;
    Some(number * 1024_f64.powi(power as i32 + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "
# measured by hand
disks:
  - mountpoint: /var/lib/data
    read_iops: 219k
    read_bandwidth: 1.5G
    write_iops: 121000
    write_bandwidth: 1000000000
    read_saturation_length: 128k
    physical_block_size: 512
    duplex: false
  - mountpoints: [/, /mnt/slow]
    read_iops: 100
    read_bandwidth: 1M
    write_iops: 50
    write_bandwidth: 1e6
    rate_factor: 0.5
";

    fn parsed(text: &str) -> Result<IoProperties> {
        IoProperties::parse(Path::new("/data/io-properties.yaml"), text)
    }

    #[test]
    fn the_nearest_mount_point_decides() {
        let properties = parsed(WHOLE).unwrap();
        let fast = properties.disk_of(Path::new("/var/lib/data/t")).unwrap();
        assert_eq!((fast.read_iops, fast.write_iops), (219 << 10, 121_000));
        assert_eq!((fast.read_bandwidth, fast.write_bandwidth), (3 << 29, 1_000_000_000));
        assert_eq!(fast.read_saturation_bytes, Some(128 << 10));
        for elsewhere in ["/var/lib/database", "/mnt/slow/x", "/"] {
            let slow = properties.disk_of(Path::new(elsewhere)).unwrap();
            assert_eq!((slow.read_iops, slow.write_iops), (50, 25), "rates are halved");
            assert_eq!((slow.read_bandwidth, slow.write_bandwidth), (1 << 19, 500_000));
        }
        let one = parsed(&WHOLE.replace("[/, /mnt/slow]", "[/mnt/slow]")).unwrap();
        assert_eq!(one.disk_of(Path::new("/home")), None);
    }

    #[test]
    fn what_is_written_can_be_read() {
        let disk = *parsed(WHOLE).unwrap().disk_of(Path::new("/var/lib/data")).unwrap();
        let point = Path::new("/mnt/a \"b\" \\c: d");
        let again = parsed(&IoProperties::text(point, &disk)).unwrap();
        assert_eq!(again.disk_of(point), Some(&disk));
    }

    #[test]
    fn an_error_names_its_line() {
        for (from, to, wanted) in [
            ("219k", "0", "line 5: read_iops is to be a number above 0"),
            ("1.5G", "fast", "line 6: read_bandwidth is to be a number"),
            ("read_iops: 219k", "reads: 1", "line 5: 'reads' is not known of a disk"),
            ("    write_iops: 121000\n", "", "line 4: a disk without write_iops"),
            ("/var/lib/data", "data", "line 4: a mountpoint is to be an absolute path"),
            ("disks:", "discs:", "'discs' is not known"),
            ("/mnt/slow", "/var/lib/data", "/var/lib/data stands there twice"),
            ("[/, /mnt/slow]", "[/", "line "),
        ] {
            let text = WHOLE.replacen(from, to, 1);
            let error = parsed(&text).expect_err(to).to_string();
            assert!(error.contains("/data/io-properties.yaml, line"), "{error}");
            assert!(error.contains(wanted), "{error}, wanted {wanted}");
        }
        for text in ["", "disks: []", "disks: 7", "- a", "a: 1\n---\nb: 2"] {
            assert!(parsed(text).is_err(), "{text}");
        }
    }

    #[test]
    fn every_unit_is_known_and_each_direction_has_a_length_of_its_own() {
        let text = "
disks:
  - mountpoint: /data
    read_iops: 2k
    read_bandwidth: 3T
    write_iops: 5K
    write_bandwidth: 0.5 G
    read_saturation_length: 64k
    write_saturation_length: 1M
    rate_factor: 2
";
        let data = Path::new("/data");
        let wanted = DiskProperties {
            read_saturation_bytes: Some(64 << 10),
            write_saturation_bytes: Some(1 << 20),
            ..DiskProperties::new((4 << 10, 6 << 40), (10 << 10, 1 << 30))
        };
        assert_eq!(parsed(text).unwrap().disk_of(data), Some(&wanted), "lengths are no rates");
        let again = parsed(&IoProperties::text(data, &wanted)).unwrap();
        assert_eq!(again.disk_of(data), Some(&wanted));
        // A rate of nothing would be a disk that nobody may use.
        let slow = text.replace("rate_factor: 2", "rate_factor: 0.0001");
        let slow = *parsed(&slow).unwrap().disk_of(data).unwrap();
        assert_eq!((slow.read_iops, slow.write_iops), (1, 1));
    }
}

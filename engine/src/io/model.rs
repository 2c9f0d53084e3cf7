//! What a request costs a disk: its part of all that the disk can do in a second.

use super::properties::DiskProperties;
use crate::config::{IO_GOAL, IO_PIECE_BYTES_MAX, PAGE_BYTES};

/// Cost of a second of the whole disk; so the unit is a picosecond.
pub const DISK_SECOND: u64 = 1_000_000_000_000;
/// A request of this length is never cut.
const WHOLE_BYTES_MIN: usize = 64 << 10;
/// A disk that nobody measured: only the relation of its figures matters.
const UNMEASURED: DiskProperties = DiskProperties::new((100_000, 1 << 30), (100_000, 1 << 30));

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Read,
    Write,
}

/// Prices of one disk.
#[derive(Debug, Clone, PartialEq)]
pub struct DiskModel {
    read: Prices,
    write: Prices,
    /// Cost that may be handed to an idle disk at once; none where the figures were not measured.
    burst: Option<u64>,
    /// What was measured.
    measured: Option<DiskProperties>,
}

/// Prices of requests of one kind, picoseconds.
#[derive(Debug, Clone, PartialEq)]
struct Prices {
    request: f64,
    byte: f64,
    piece_bytes_max: usize,
}

impl Prices {
    /// `iops` is of pages, so it pays for their bytes as well: a request as such costs the rest.
    /// ScyllaDB's model charges those bytes twice, and so leaves a part of the disk idle.
    fn new(iops: u64, bandwidth: u64) -> Self {
        let price = |rate: u64| DISK_SECOND as f64 / rate as f64;
        let byte = price(bandwidth);
        let request = (price(iops) - byte * PAGE_BYTES as f64).max(0.0);
        Prices { request, byte, piece_bytes_max: IO_PIECE_BYTES_MAX }
    }

    fn cost(&self, bytes: usize) -> u64 {
        (self.request + self.byte * bytes as f64) as u64
    }

    /// The longest power of two that costs no more than `burst`.
    fn limit_piece(&mut self, burst: u64, saturation_bytes: Option<usize>) {
        let most =
            saturation_bytes.unwrap_or(IO_PIECE_BYTES_MAX).clamp(PAGE_BYTES, IO_PIECE_BYTES_MAX);
        let mut bytes = PAGE_BYTES;
        while bytes * 2 <= most && self.cost(bytes * 2) <= burst {
            bytes *= 2;
        }
        self.piece_bytes_max = bytes;
    }
}

impl DiskModel {
    /// A disk that was measured. What is handed to it when it is idle takes it [`IO_GOAL`], or as
    /// long as 64 KiB take a slow one.
    pub fn measured(disk: &DiskProperties) -> Self {
        let mut model = DiskModel::of(disk);
        let whole = model.read.cost(WHOLE_BYTES_MIN).max(model.write.cost(WHOLE_BYTES_MIN));
        let goal = u64::try_from(IO_GOAL.as_nanos()).unwrap_or(u64::MAX) * 1000;
        let burst = goal.max(whole);
        model.read.limit_piece(burst, disk.read_saturation_bytes);
        model.write.limit_piece(burst, disk.write_saturation_bytes);
        model.burst = Some(burst);
        model.measured = Some(*disk);
        model
    }

    /// A disk of which nothing is known: nothing is held back and nothing cut.
    pub fn unmeasured() -> Self {
        DiskModel::of(&UNMEASURED)
    }

    fn of(disk: &DiskProperties) -> Self {
        DiskModel {
            read: Prices::new(disk.read_iops, disk.read_bandwidth),
            write: Prices::new(disk.write_iops, disk.write_bandwidth),
            burst: None,
            measured: None,
        }
    }

    fn prices(&self, kind: Kind) -> &Prices {
        match kind {
            Kind::Read => &self.read,
            Kind::Write => &self.write,
        }
    }

    /// The figures of the disk, where it was measured.
    pub(super) fn measured_figures(&self) -> Option<&DiskProperties> {
        self.measured.as_ref()
    }

    /// Cost of one request, picoseconds of the whole disk.
    pub fn cost(&self, kind: Kind, bytes: usize) -> u64 {
        self.prices(kind).cost(bytes)
    }

    /// Cost of the cheapest request.
    pub fn cost_min(&self) -> u64 {
        self.read.cost(PAGE_BYTES).min(self.write.cost(PAGE_BYTES))
    }

    /// Cost that an idle disk takes at once; none where it was not measured.
    pub fn burst(&self) -> Option<u64> {
        self.burst
    }

    /// Longest request that is handed to the disk in one piece, bytes: whole pages.
    pub fn piece_bytes_max(&self, kind: Kind) -> usize {
        self.prices(kind).piece_bytes_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(iops: (u64, u64), bandwidth: (u64, u64)) -> DiskProperties {
        DiskProperties::new((iops.0, bandwidth.0), (iops.1, bandwidth.1))
    }

    /// Of a fast and a slow disk: cost of a page and of 128 KiB in µs, longest pieces in KiB, and
    /// what an idle one takes in µs.
    #[test]
    fn prices_follow_the_four_figures() {
        let fast = disk((219_000, 121_000), (1_540_000_000, 1_130_000_000));
        let slow = disk((5_000, 3_000), (200 << 20, 100 << 20));
        for (disk, pages, reads, pieces, burst) in [
            (fast, (4.6, 8.3), 87.0, (1024, 512), 750.0),
            (slow, (200.0, 333.3), 805.5, (128, 64), 919.3),
        ] {
            let model = DiskModel::measured(&disk);
            let us = |kind, bytes| model.cost(kind, bytes) as f64 / 1e6;
            let near = |found: f64, wanted: f64| (found - wanted).abs() < 0.06;
            assert!(near(us(Kind::Read, 4096), pages.0), "{}", us(Kind::Read, 4096));
            assert!(near(us(Kind::Write, 4096), pages.1), "{}", us(Kind::Write, 4096));
            assert!(near(us(Kind::Read, 128 << 10), reads), "{}", us(Kind::Read, 128 << 10));
            let longest = |kind| model.piece_bytes_max(kind) >> 10;
            assert_eq!((longest(Kind::Read), longest(Kind::Write)), pieces);
            let found = model.burst().expect("it is measured") as f64 / 1e6;
            assert!(near(found, burst), "{found}");
            assert_eq!(model.cost_min(), model.cost(Kind::Read, 4096));
        }
    }

    /// Pages at the rate that was measured take all of the disk, and so do bytes.
    #[test]
    fn the_sum_of_a_second_is_a_second() {
        for (iops, bandwidth) in [(15_000, 1 << 30), (960_000, 64 << 30), (100, 50_000_000)] {
            let model = DiskModel::measured(&disk((iops, iops), (bandwidth, bandwidth)));
            for kind in [Kind::Read, Kind::Write] {
                let pages = model.cost(kind, PAGE_BYTES) as f64 * iops as f64;
                let whole = model.cost(kind, 1 << 30) - model.cost(kind, 0);
                let bytes = whole as f64 * bandwidth as f64 / f64::from(1 << 30);
                for sum in [pages, bytes] {
                    assert!((sum / DISK_SECOND as f64 - 1.0).abs() < 0.001, "{sum}");
                }
            }
        }
    }

    #[test]
    fn pieces_end_where_a_disk_gains_nothing_by_longer_ones() {
        let long = disk((219_000, 121_000), (1_540_000_000, 1_130_000_000));
        let long = DiskProperties { read_saturation_bytes: Some(200_000), ..long };
        let model = DiskModel::measured(&long);
        assert_eq!(model.piece_bytes_max(Kind::Read), 128 << 10);
        assert_eq!(DiskModel::unmeasured().piece_bytes_max(Kind::Write), 16 << 20);
        assert_eq!(DiskModel::unmeasured().burst(), None);
    }

    #[test]
    fn each_direction_has_pieces_of_its_own_length() {
        let fast = disk((219_000, 121_000), (1_540_000_000, 1_130_000_000));
        let with = |write_saturation_bytes| {
            let model = DiskModel::measured(&DiskProperties { write_saturation_bytes, ..fast });
            [Kind::Read, Kind::Write].map(|kind| model.piece_bytes_max(kind))
        };
        assert_eq!(with(None), [1024 << 10, 512 << 10]);
        assert_eq!(with(Some(64 << 10)), [1024 << 10, 64 << 10]);
        assert_eq!(with(Some((64 << 10) - 1)), [1024 << 10, 32 << 10]);
        assert_eq!(with(Some(100)), [1024 << 10, PAGE_BYTES], "a page is the least");
    }
}
